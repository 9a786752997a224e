"""triton.language.target_info: for what a kernel is compiled."""
from ..runtime.driver import driver
from ..runtime.jit import constexpr_function


def current_target():
    return driver.active.get_current_target()


current_target.__triton_builtin__ = True
current_target.library = "triton.language.target_info.current_target"


@constexpr_function
def is_cuda():
    return current_target().backend == "cuda"


@constexpr_function
def cuda_capability_geq(major, minor=0):
    target = current_target()
    return target.backend == "cuda" and target.arch >= major * 10 + minor


@constexpr_function
def is_hip():
    return False


@constexpr_function
def is_hip_cdna3():
    return False


@constexpr_function
def is_hip_cdna4():
    return False


for _f in (is_cuda, cuda_capability_geq, is_hip, is_hip_cdna3, is_hip_cdna4):
    _f.library = f"triton.language.target_info.{_f.__name__}"
del _f
