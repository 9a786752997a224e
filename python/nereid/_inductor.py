"""Inductor's Triton kernels, built and launched by Nereid.

Inductor builds kernels in a pool of processes, in which `import triton` means what is installed. Here its pool is of
threads, as many as it would have processes (torch._inductor.config.compile_threads): the compilers run without the GIL.
A kernel's configurations are built at once, too, by as many other threads, for which those that build kernels wait.
"""
import functools
import time
from concurrent.futures import ThreadPoolExecutor, wait

from . import _as_triton


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
        self.pool = ThreadPoolExecutor(threads, "nereid-inductor")

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
    pool = functools.lru_cache(1)(lambda: ThreadPoolExecutor(count(), "nereid-config"))

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
