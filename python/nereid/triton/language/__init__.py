"""triton.language: every name that the compiler has."""
from . import core, math, random, standard
from . import extra
from . import target_info
from .core import *  # noqa: F401,F403
from .core import (TRITON_MAX_TENSOR_NUMEL, PropagateNan, _aggregate, _unwrap_if_constexpr, functions_of,  # noqa: F401
                   must_use_result, str_to_ty)
from ..runtime.jit import constexpr_function  # noqa: F401

for _name, _object in functions_of("triton.language").items():
    globals().setdefault(_name, _object)
del _name, _object


