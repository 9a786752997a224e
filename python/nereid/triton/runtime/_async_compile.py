"""Compilations that go on in an executor: within AsyncCompileMode, warmup returns a FutureKernel at once."""
from contextvars import ContextVar

active_mode = ContextVar("active_mode", default=None)


class FutureKernel:
    def __init__(self, finalize_compile, future):
        self.finalize_compile, self.future, self.kernel = finalize_compile, future, None

    def result(self, ignore_errors=False):
        if self.kernel is None:
            try:
                self.kernel = self.future.result()
            except Exception:
                if not ignore_errors:
                    raise
                return None
            self.finalize_compile(self.kernel)
        return self.kernel

    def __getattr__(self, name):
        return getattr(self.result(), name)

    @property
    def _function(self):
        """For the launcher, which must not wait."""
        return None if self.kernel is None else self.kernel._function


class AsyncCompileMode:
    def __init__(self, executor, *, ignore_errors=False):
        self.executor, self.ignore_errors = executor, ignore_errors
        self.raw_futures, self.future_kernels = [], {}

    def submit(self, key, compile_fn, finalize_fn):
        found = self.future_kernels.get(key)
        if found is None:
            future = self.executor.submit(compile_fn)
            future._key = key
            self.raw_futures.append(future)
            found = self.future_kernels[key] = FutureKernel(finalize_fn, future)
        return found

    def __enter__(self):
        active = active_mode.get()
        if active is None:
            active_mode.set(self)
            return self
        raise RuntimeError("Another AsyncCompileMode is already active")

    def __exit__(self, *error):
        for kernel in self.future_kernels.values():
            kernel.result(self.ignore_errors)
        active_mode.set(None)
