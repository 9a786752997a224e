"""Nereid: tile kernels in the Triton language, compiled and run without Triton.

    import nereid.triton as triton
    import nereid.triton.language as tl

is Triton's own interface; nereid.use_as_triton() makes `import triton` mean it. docs/guide/python.md says the rest.
"""
import sys
import sysconfig

if sys.version_info < (3, 10):
    raise ImportError("Nereid needs CPython 3.10 or later")
if sys.implementation.name != "cpython":
    raise ImportError(f"Nereid's extension is for CPython, not for {sys.implementation.name}")
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError("Nereid does not run in free-threaded builds of CPython yet: use one with the GIL")

try:
    from . import _native
except ImportError as error:
    if "subinterpreters" not in str(error):  # what CPython says from 3.12 on
        raise
    raise ImportError("Nereid runs in the main interpreter alone, not in sub-interpreters: take a thread, or a process "
                      "of its own (multiprocessing)") from error
from ._devices import Device, default_device, device, set_default_device, stream, synchronize
from ._errors import KernelFault, NereidError, OverLimit

__version__ = _native.version()


def devices():
    """What there is, a dict each: name, description, available, ..."""
    return _native.devices()


def language():
    """Every name of the language that the compiler has: (group, name, interp, cpu, sim, cuda, arguments, remark,
    is a tensor's method)."""
    return _native.language()


def use_as_triton():
    """From now on `import triton` and its submodules mean Nereid's. An error when another Triton is loaded already."""
    from ._as_triton import install
    install()


def use_in_inductor():
    """From now on PyTorch's Inductor builds and launches its Triton kernels with Nereid: use_as_triton(), and kernels
    are built in this process, where PyTorch's workers would load another Triton. On CPUs Inductor writes such kernels
    with torch._inductor.config.cpu_backend = "triton"."""
    from ._inductor import install
    install()


def precompile(calls, threads=None):
    """Compiles what calls would need, several at once: each is (kernel, args, kwargs), as kernel.warmup takes them, or
    (kernel, args). Returns the compiled kernels in order; the first error is raised when all are done."""
    from ._precompile import precompile as run
    return run(calls, threads)


def torch_backend(gm, example_inputs, **options):
    """What torch.compile(f, backend="nereid") means: AOTAutograd's graphs become kernels as `nereid fuse` makes them.
    The name is known to PyTorch where this package is installed; torch.compile(f, backend=nereid.torch_backend) works
    everywhere."""
    from . import _devices
    from ._dynamo import backend
    _devices.see_torch()
    return backend(gm, example_inputs, **options)
