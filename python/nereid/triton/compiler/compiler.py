"""Compiled kernels, and compiling without a launch."""
import hashlib
import re
import time
from collections import namedtuple

from ... import _devices
from .. import knobs
from .._utils import BITWIDTH_DICT
from ..backends.compiler import BaseBackend, GPUTarget, Language, Options
from ..runtime.driver import driver
from ..runtime.errors import OutOfResources
from ..runtime.jit import JITFunction, MockTensor


class ASTSource:
    """A kernel with the types of its arguments: {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}; constexprs by name or
    path; attrs by path: {(0,): [["tt.divisibility", 16]]}."""

    def __init__(self, fn, signature, constexprs=None, attrs=None):
        self.fn, self.name, self.signature = fn, fn.__name__, signature
        self.language, self.ext = Language.TRITON, "ttir"
        self.constants = {(fn.arg_names.index(k),) if isinstance(k, str) else k: v
                          for k, v in (constexprs or {}).items()}
        self.attrs = attrs or {}
        for k in signature:
            if not isinstance(k, str):
                raise TypeError("Signature keys must be string")

    def hash(self):
        constants = "-".join(str(getattr(v, "cache_key", v)) for _, v in sorted(self.constants.items()))
        types = [v for _, v in sorted(self.signature.items())]
        return hashlib.sha256(f"{self.fn.cache_key}-{self.attrs}-{types}-{constants}".encode()).hexdigest()

    def parse_options(self):
        return {}


class IRSource:
    def __init__(self, path, context=None, backend=None):
        raise NotImplementedError("Nereid compiles Triton's source, not MLIR: pass an ASTSource")


class LazyDict:
    """What hooks of launches get: get() computes it."""

    def __init__(self, data):
        self.data, self.extras = data, []

    def add(self, func, args):
        self.extras.append((func, args))

    def get(self):
        waiting, self.extras = self.extras, []
        for func, args in waiting:
            self.data = {**self.data, **func(*args)}
        return self.data


def make_backend(target):
    if not BaseBackend.supports_target(target):
        raise RuntimeError(f"0 compatible backends for target ({target.backend}) ([]): Nereid compiles for \"cuda\" and "
                           "\"cpu\"")
    return BaseBackend(target)


# ---- stand-ins for arguments that are not there ---------------------------------------------------------------------

def _stand_in(type_, path, src):
    from ..language import core
    from ..tools.tensor_descriptor import TensorDescriptor
    if isinstance(type_, (tuple, list)):
        items = [_stand_in(t, (*path, i), src) for i, t in enumerate(type_)]
        return type(type_)._make(items) if hasattr(type_, "_fields") else tuple(items)
    if type_ == "constexpr" or path in src.constants:
        value = src.constants.get(path)
        return value if isinstance(value, core.constexpr) else core.constexpr(value)
    aligned = any("divisibility" in str(a) for a in src.attrs.get(path, ()))
    if type_.startswith("*"):
        return MockTensor(core.str_to_ty(type_, None).element_ty, address=4096 if aligned else 4104)
    if type_.startswith("tensordesc<"):
        element, _, shape = type_.removeprefix("tensordesc<").rstrip(">").partition("[")
        block = [int(n) for n in shape.partition("]")[0].split(",")]
        strides = [max(16, block[-1]) ** (len(block) - 1 - i) for i in range(len(block))]
        base = MockTensor(core.str_to_ty(element, None), address=4096)
        return TensorDescriptor(base, [4 * b for b in block], strides[:-1] + [1], block)
    if type_ in ("u1", "i1"):
        return True
    if type_.startswith(("fp", "bf")):
        return 0.5
    bits = BITWIDTH_DICT[type_]
    value = 0 if bits < 64 else 2**63 if type_ == "u64" else 2**40
    return value + 32 if aligned else value + 33


MAX_THREADS = 1024  # of a block, on every GPU that there is


# ---- the compiled kernel --------------------------------------------------------------------------------------------

_STAGES = {"ttir": "tile", "ttgir": "layout", "llir": "lane", "tile": "tile", "tile-raw": "tile-raw",
           "layout": "layout", "lane": "lane", "ptx": "ptx", "cubin": "cubin", "sass": "sass",
           "summary": "summary", "c": "c"}


class AsmDict(dict):
    """The texts of a kernel's stages, made when they are asked for: "ttir" is the tile IR, "ttgir" the same with
    layouts, "llir" lane IR, "cubin" machine code as bytes (it and "sass" need ptxas); on a CPU there are "ttir" and
    "c"."""

    def __init__(self, kernel, names):
        super().__init__()
        self.kernel, self.names = kernel, names

    def __missing__(self, key):
        stage = _STAGES.get(key)
        if stage is None:
            raise KeyError(f"Unknown key: '{key}'")
        self[key] = text = self.kernel._text(stage)
        return text

    def __contains__(self, key):
        return key in self.names

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)

    def keys(self):
        return list(self.names)

    def values(self):
        return [self[k] for k in self.names]

    def items(self):
        return [(k, self[k]) for k in self.names]

    def get(self, key, default=None):
        return self[key] if key in self.names else default


def _shown_name(src):
    """What `repr` of @jit makes of the kernel's name."""
    if src.fn._repr is None:
        return src.fn.__name__
    constants = {src.fn.arg_names[path[0]] if len(path) == 1 else path: v for path, v in src.constants.items()}
    return src.fn.repr(namedtuple("SpecializationProxy", ["constants", "signature"])(constants, src.signature))


_NEEDS = {"registers": r"registers (\d+) a thread", "spill_bytes": r"(\d+) bytes of spill stores and loads",
          "shared_bytes": r"shared memory (\d+) bytes a block"}


def _needs_of(ptx):
    """What the summary behind PTX says that a launch needs; no registers where there is no ptxas."""
    found = {name: re.search(rf"^// .*?{text}", ptx, re.MULTILINE) for name, text in _NEEDS.items()}
    return {name: int(m[1]) for name, m in found.items() if m}


class CompiledKernel:
    """A specialization of a kernel; kernel[grid](*args) launches it. Without a device (function is None) it is compiled
    for its target alone."""

    def __init__(self, src, values, options, target, device, function, module):
        self.src, self.name, self.module, self.device = src, _shown_name(src), module, device
        self._values, self._options, self._target = values, options, target
        self._function = function
        names = ("ttir", "ttgir", "llir", "ptx", "cubin", "sass") if target.backend == "cuda" else ("ttir", "c")
        self.asm = AsmDict(self, names)
        self.info = info = function.info() if function else _needs_of(self.kernel)
        self.n_regs = info.get("registers", 0)
        self.n_spills = info.get("spill_bytes", 0) // 4
        self.n_max_threads = MAX_THREADS
        fields = {**options.__dict__, "name": self.name, "target": target, "hash": None,
                  "shared": info.get("shared_bytes", 0), "num_warps": info.get("num_warps") or options.num_warps,
                  "num_stages": info.get("num_stages") or options.num_stages, "triton_version": "3.6.0",
                  "tmem_size": None, "cluster_dims": (1, 1, 1)}
        fields.update({"arch": target.arch})
        self._fields = fields
        self._hash = None
        self.function = id(function)
        self.packed_metadata = (fields["num_warps"], fields["num_ctas"], fields["shared"])
        self.metadata_group = {}

    @property
    def hash(self):
        if self._hash is None:
            self._hash = hashlib.sha256(f"{self.src.hash()}-{self._options.hash()}-{self._target}".encode()).hexdigest()
        return self._hash

    @property
    def metadata(self):
        fields = {**self._fields, "hash": self.hash}
        return namedtuple("KernelMetadata", sorted(fields))(**fields)

    @property
    def _stage(self):
        return "ptx" if self._target.backend == "cuda" else "c"

    @property
    def kernel(self):
        return self.asm[self._stage]

    def _text(self, stage):
        target = "host" if stage == "c" or self._target.backend != "cuda" else _target_name(self._target)
        fn = self.src.fn
        return fn._inspect((self.module, None, fn.__name__, self._values, fn._constexpr_text,
                            _native_options(self._options)), (stage, target))

    def _init_handles(self):
        pass

    def launch_metadata(self, grid, stream, *args):
        about = LazyDict({"name": self.name, "function": self.function, "stream": stream})
        if self.src.fn.launch_metadata is not None:
            arguments = dict(zip(self.src.fn.arg_names, args))
            about.add(self.src.fn.launch_metadata, (grid, self.metadata, arguments))
        return about

    @property
    def run(self):
        """run(grid x, y, z, stream, function, packed metadata, launch metadata, enter hook, exit hook, *args)"""
        def runner(x, y, z, stream, function, packed, metadata, enter, leave, *args):
            return self._launch((x, y, z), stream, args)
        return runner

    def _launch(self, grid, stream, args):
        fn = self.src.fn
        if stream is not None and self._target.backend == "cuda" and not _devices.is_current_stream(stream):
            with _devices.stream(stream):
                return self._launch(grid, None, args)
        if len(args) != len(fn.params):  # constexprs may be left out
            given = iter(args)
            args = [v if t == "constexpr" else next(given)
                    for t, v in zip(self.src.signature.values(), self._values)]
        keep = {k: v for k, v in self._options.__dict__.items() if Options.__dataclass_fields__[k].default != v}
        return fn.run(*args, grid=grid, warmup=False, **keep)

    def __getitem__(self, grid):
        def runner(*args, stream=None):
            return self._launch(grid, stream, args)
        return runner


def _target_name(target):
    arch = int(target.arch)
    return f"sm_{arch}{'a' if arch >= 90 else ''}"


def other_target(options):
    """The GPU that `arch` or knobs.runtime.override_arch asks for ("sm80"), where it is not the current one; else None.
    Checks what that GPU has."""
    target = driver.active.get_current_target()
    if target.backend != "cuda":
        return None
    wanted = options.arch or knobs.runtime.override_arch
    found = re.fullmatch(r"(?:sm_?)?(\d+)a?", str(wanted or target.arch))
    if found is None:
        raise ValueError(f"arch={wanted!r} is no GPU of NVIDIA's: it is like \"sm80\"")
    arch = int(found[1])
    if options.num_ctas > 1 and arch < 90:
        raise ValueError("num_ctas > 1 requires NVIDIA SM90+ (Hopper)")
    return None if arch == target.arch else GPUTarget("cuda", arch, 32)


def _native_options(options):
    found = {k: getattr(options, k) for k in ("num_warps", "num_stages", "num_ctas", "debug", "maxnreg", "launch_pdl",
                                              "launch_cooperative_grid")}
    found["no_fp_fusion"] = not (options.enable_fp_fusion and knobs.language.default_fp_fusion)
    found["no_sanitize_overflow"] = not options.sanitize_overflow
    precision = knobs.language.fp32_default or options.default_dot_input_precision
    found["dot_precision"] = None if precision == "tf32" else precision
    return found


def _tell(listener, src, kernel, known, seconds):
    """A kernel that was found, on disk or in this process (known), was lowered and stored by nobody now. Of one for a
    target alone it is not known what of the time each stage took."""
    info, all_us = kernel.info, max(int(seconds * 1e6), 1)
    hit = known or info.get("from_cache", False)
    if hit:
        times = knobs.CompileTimes(all_us, [], 0)
    elif kernel._function is None:
        times = knobs.CompileTimes(0, [(kernel._stage, all_us)], 0)
    else:
        stages = [(name, int(info[name + "_ms"] * 1e3)) for name in ("backend", "compiler")]
        front_us = int(info["front_ms"] * 1e3)
        times = knobs.CompileTimes(front_us, stages, max(all_us - front_us, 0))
    listener(src=src, metadata=kernel.metadata._asdict(), metadata_group={}, times=times, cache_hit=hit)


def compile_values(fn, src, values, options, device):
    """Of a launch's own arguments, or what stands for them."""
    listener = knobs.compilation.listener
    start = time.time()
    target = driver.active.get_current_target()
    name = _devices.name_of(device)
    if not name.startswith(("cuda", "sim")):
        target = GPUTarget("cpu", 0, 1)
    elif options.num_warps * target.warp_size > MAX_THREADS:
        raise OutOfResources(options.num_warps * target.warp_size, MAX_THREADS, "threads")
    fn._register()
    module = fn._module()
    function = fn._compile(module, device, fn.__name__, values, fn._constexpr_text, _native_options(options))
    fn._hold_globals()
    kernel = CompiledKernel(src, values, options, target, device, function, module)
    for hook in (knobs.runtime.kernel_load_start_hook, knobs.runtime.kernel_load_end_hook):
        if knobs.is_set(hook):
            hook(kernel.module, kernel.function, kernel.name, kernel.metadata_group, kernel.hash)
    if listener:
        _tell(listener, src, kernel, kernel.hash in fn._compiled, time.time() - start)
    fn._compiled.add(kernel.hash)
    return kernel


def compile_source(src, target, options):
    values = tuple(_stand_in(t, (i,), src) for i, t in enumerate(src.signature.get(p.name, "constexpr")
                                                                 for p in src.fn.params))
    if target is None or _is_open(target):
        return compile_values(src.fn, src, values, options, _devices.device(_devices.default_device()))
    listener = knobs.compilation.listener
    start = time.time()
    src.fn._register()
    kernel = CompiledKernel(src, values, options, target, None, None, src.fn._module())
    if listener:
        _tell(listener, src, kernel, kernel.hash in src.fn._compiled, time.time() - start)
    src.fn._compiled.add(kernel.hash)
    return kernel


def _is_open(target):
    """Whether the current device is target's and opening it changes nothing: a GPU that this process does not use yet is
    left alone, and a child of fork cannot open what its parent has."""
    if target.backend == "cuda" and not _devices.chosen_device().startswith("sim") and not _devices.uses_cuda():
        return False
    return target == driver.active.get_current_target()


def compile(src, target=None, options=None, _env_vars=None):
    """A CompiledKernel of an ASTSource, for the current device or a target."""
    if not isinstance(src, ASTSource):
        raise NotImplementedError("Nereid compiles Triton's source, not MLIR: pass an ASTSource")
    assert target is None or isinstance(target, GPUTarget), "target must be of GPUTarget type"
    assert isinstance(src.fn, JITFunction), "a @triton.jit function is needed"
    parsed = make_backend(target).parse_options({**(options or {}), **src.parse_options()})
    return compile_source(src, target, parsed)
