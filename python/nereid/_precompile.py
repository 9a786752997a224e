"""Many kernels compiled at once: the compiler runs without the GIL."""
import concurrent.futures
import os


def _one(call):
    kernel, args, kwargs = call if len(call) == 3 else (*call, {})
    kwargs = dict(kwargs)
    grid = kwargs.pop("grid", (1,))
    return kernel.warmup(*args, grid=grid, **kwargs)


def precompile(calls, threads=None):
    calls = list(calls)
    if not calls:
        return []
    with concurrent.futures.ThreadPoolExecutor(threads or min(len(calls), os.cpu_count() or 1)) as pool:
        futures = [pool.submit(_one, c) for c in calls]
        concurrent.futures.wait(futures)
        return [f.result() for f in futures]
