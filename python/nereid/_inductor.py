"""Inductor's Triton kernels, built and launched by Nereid.

Inductor builds kernels in a pool of processes, in which `import triton` means what is installed. Here its pool is of
threads, as many as it would have processes (torch._inductor.config.compile_threads): the compilers run without the GIL.
A kernel's configurations are built at once, too, by as many other threads, for which those that build kernels wait.
"""
import functools
import time
from concurrent.futures import wait

from . import _as_triton, _forks


def _build(load_kernel):
    """A kernel of Inductor's with its configurations compiled, and after how many microseconds. The thread that waits
    for it loads it."""
    start = time.time_ns()
    kernel = load_kernel()
    kernel.precompile(warm_cache_only=True)
    return kernel, (time.time_ns() - start) // 1000


class _Threads:
    """What Inductor takes for its pool of processes."""

    def __init__(self, threads):
        self.pool = _forks.Pool(threads, "nereid-inductor")

    def submit(self, task, *args):
        if task.__name__ == "_worker_compile_triton":  # which would make what it built ready for pickling
            return self.pool.submit(_build, args[0])
        return self.pool.submit(task, *args)


def _build_configs_at_once(count):
    """Each configuration is built in a thread; Inductor's own loop over them takes what was built, and its errors."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    one_by_one = CachingAutotuner._precompile_worker
    if one_by_one.__module__ == __name__:
        return  # importing Inductor has configured it
    pool = functools.lru_cache(1)(lambda: _forks.Pool(count(), "nereid-config"))

    def at_once(kernel):
        configs = [] if kernel.compile_results else kernel.configs or []
        if len(configs) < 2 or count() <= 1:
            return one_by_one(kernel)
        built = {id(c): pool().submit(kernel._precompile_config, c) for c in configs}
        kernel._precompile_config = lambda config: built[id(config)].result()
        try:
            return one_by_one(kernel)
        finally:
            del kernel._precompile_config  # the class's again
            for future in built.values():  # after an error some may not have begun
                future.cancel()
            wait(built.values())

    CachingAutotuner._precompile_worker = at_once


def _use_threads():
    from torch._inductor import async_compile, config
    count = getattr(async_compile, "get_compile_threads", lambda: config.compile_threads)  # which newer versions decide
    _build_configs_at_once(count)

    @functools.lru_cache(1)
    def process_pool():
        return _Threads(count())

    async_compile.AsyncCompile.process_pool = staticmethod(process_pool)
    async_compile.AsyncCompile.use_process_pool = staticmethod(lambda: count() > 1)


# ---- kernels of the program in its graphs ----------------------------------------------------------------------------

def _stand_in(value, descriptor):
    """Of an argument in a graph: tensors are not there, sizes may be symbols."""
    import sympy
    import torch

    from .triton.runtime.jit import MockTensor
    from .triton.tools.tensor_descriptor import TensorDescriptor
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, sympy.Expr)):
        return 2  # as PyTorch has it here
    if not hasattr(value, "dtype"):
        return value
    base = MockTensor(value.dtype, address=4096)
    if descriptor is None:
        return base
    kind, about = descriptor
    block = list(about[0] if kind == "stable" else about[1])  # "experimental": dims, block dims, size of an element
    strides = [max(16, block[-1]) ** i for i in range(len(block))][::-1]
    return TensorDescriptor(base, [4 * b for b in block], strides, block)


def _written(kernel, kwargs, descriptors):
    """The names of those arguments whose arrays a kernel writes. It is compiled as for `interp`: no further than to
    that question."""
    from . import _devices
    from .triton.backends.compiler import Options
    from .triton.compiler.compiler import _native_options
    from .triton.runtime.autotuner import Autotuner
    from .triton.runtime.jit import JITFunction
    kwargs = dict(kwargs)
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Autotuner):
            kwargs.update(kernel.configs[0].kwargs)  # any will do
        else:
            kwargs.update((name, f(kwargs)) for name, f in kernel.values.items())
        kernel = kernel.fn
    values = tuple(_stand_in(kwargs[p.name] if p.name in kwargs else p.default, descriptors.get(p.name))
                   for p in kernel.params)
    kernel._register()
    function = kernel._compile(kernel._module(), _devices.device("interp"), kernel.__name__, values,
                               kernel._constexpr_text, _native_options(Options()))
    return [p.name for p, writes in zip(kernel.params, function.writes()) if writes]


def tell_writes():
    """PyTorch copies, for each launch in a graph, what the kernel may write, and asks Triton's IR what that is."""
    from torch._higher_order_ops import triton_kernel_wrap
    all_tensors = triton_kernel_wrap.identify_mutated_tensors
    if all_tensors.__module__ == __name__:
        return

    def identify_mutated_tensors(kernel, kwargs, tma_descriptor_metadata):
        try:
            return _written(kernel, kwargs, tma_descriptor_metadata)
        except Exception:  # it says so, and takes all for written
            return all_tensors(kernel, kwargs, tma_descriptor_metadata)

    triton_kernel_wrap.identify_mutated_tensors = identify_mutated_tensors


# ---- Inductor --------------------------------------------------------------------------------------------------------

def configure():
    """Once `import triton` means Nereid."""
    import torch._inductor.config as config
    for name in ("use_static_triton_launcher", "use_static_cuda_launcher"):  # which loads Triton's own cubins
        if hasattr(config, name):
            setattr(config, name, False)
    _use_threads()


def install():
    _as_triton.install()
    configure()
