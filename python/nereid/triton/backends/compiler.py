"""What a kernel is compiled for, and with which options."""
import enum
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    backend: str  # "cuda", "cpu"
    arch: object  # 90
    warp_size: int


class Language(enum.Enum):
    TRITON = 0
    GLUON = 1



# Of AMD's back end: programs that know of it and of CUDA take a CPU for the former.
AMD_OPTIONS = {"waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "schedule_hint"}


@dataclass(frozen=True)
class Options:
    """Options of a launch, with Triton's names. Those that only say how LLVM is to work are taken and change nothing."""
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    maxnreg: object = None
    ptx_version: object = None
    ptx_options: object = None
    ir_override: object = None
    enable_fp_fusion: bool = True
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_cluster: bool = False
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple = ("fp8e4nv", "fp8e5", "fp8e4b15")
    deprecated_fp8_dot_operand_dtypes: tuple = ()
    default_dot_input_precision: str = "tf32"
    allowed_dot_input_precisions: tuple = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: object = 0
    extern_libs: object = None
    debug: bool = False
    backend_name: str = "nereid"
    sanitize_overflow: bool = True
    arch: object = None
    instrumentation_mode: str = ""

    def __post_init__(self):
        for name in ("num_warps", "num_ctas", "num_stages"):
            value = getattr(self, name)
            if not hasattr(value, "__index__"):
                raise TypeError(f"{name} must be an int, not {value!r}")
            if not -2**31 <= value < 2**31:
                raise OverflowError(f"{name} is {value}")
        if self.num_warps <= 0 or self.num_warps & (self.num_warps - 1):
            raise AssertionError("num_warps must be a power of 2")
        if isinstance(self.extern_libs, dict):  # names of LLVM's libraries, of which none is needed
            object.__setattr__(self, "extern_libs", tuple(self.extern_libs.items()))

    def hash(self):
        text = "_".join(f"{k}-{v}" for k, v in sorted(self.__dict__.items()))
        return hashlib.sha256(text.encode()).hexdigest()


class BaseBackend:
    """The one there is, for every target of Nereid."""
    binary_ext = "cubin"

    def __init__(self, target):
        self.target = target

    @staticmethod
    def supports_target(target):
        """None is the current one."""
        return target is None or target.backend in ("cuda", "cpu")

    def hash(self):
        from ..runtime.cache import triton_key
        return f"{triton_key()}-{self.target}"

    def parse_options(self, options):
        known = Options.__dataclass_fields__
        return Options(**{k: v for k, v in options.items() if k in known and v is not None})
