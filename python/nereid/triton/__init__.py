"""Triton's interface, on Nereid. What is here and what is not: docs/guide/python.md."""
__version__ = "3.6.0"  # the language and interface that this is

from .runtime import (Config, InterpreterError, JITFunction, KernelInterface, MockTensor, OutOfResources,
                      TensorWrapper, autotune, heuristics, reinterpret)
from .runtime.jit import constexpr_function, jit
from .runtime._async_compile import AsyncCompileMode, FutureKernel
from .compiler import CompilationError, compile
from .errors import TritonError
from .runtime._allocation import set_allocator
from . import language
from . import testing
from . import tools
from .language.core import must_use_result
# A launch imports nothing: a child of a fork waits for ever for a module that another thread was importing.
from .compiler import names as _names  # noqa: F401
from .runtime import _dependences  # noqa: F401
from .tools import tensor_descriptor as _tensor_descriptor  # noqa: F401

__all__ = ["AsyncCompileMode", "CompilationError", "Config", "FutureKernel", "InterpreterError", "JITFunction",
           "KernelInterface", "MockTensor", "OutOfResources", "TensorWrapper", "TritonError", "autotune", "cdiv",
           "compile", "constexpr_function", "heuristics", "jit", "language", "must_use_result", "next_power_of_2",
           "reinterpret", "runtime", "set_allocator", "testing", "tools"]


@constexpr_function
def cdiv(x: int, y: int):
    """x / y, rounded up."""
    return (x + y - 1) // y


@constexpr_function
def next_power_of_2(n: int):
    """The least power of 2 that is not below n."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


cdiv.library = "triton.cdiv"
next_power_of_2.library = "triton.next_power_of_2"
