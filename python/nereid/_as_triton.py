"""`import triton` means nereid.triton: its modules stand under both names, as the same objects."""
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys

from . import _native

OURS = "nereid.triton"


class _Alias(importlib.abc.Loader):
    def __init__(self, name):
        self.name = name

    def create_module(self, spec):
        module = importlib.import_module(self.name)
        self.kept = {k: getattr(module, k, None) for k in ("__spec__", "__loader__", "__package__", "__name__")}
        return module

    def exec_module(self, module):
        for k, v in self.kept.items():  # the import system has written the alias into them
            setattr(module, k, v)
        # What is loaded already stands under its other name at once: loading it again would write the module over the
        # name in its package, which may mean something else (triton.runtime.driver).
        for name, loaded in list(sys.modules.items()):
            if name.startswith(OURS + "."):
                sys.modules.setdefault("triton" + name[len(OURS):], loaded)


# What starts Inductor's workers, which shall build our kernels in this process; what asks what a kernel writes.
CONFIGURED = {"torch._inductor.async_compile": "configure", "torch._higher_order_ops.triton_kernel_wrap": "tell_writes"}


class _Configured(importlib.abc.Loader):
    """Loads a module of PyTorch's, of which something is changed then, by a function of _inductor."""

    def __init__(self, loader, function):
        self.loader, self.function = loader, function

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        from . import _inductor
        getattr(_inductor, self.function)()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in CONFIGURED:
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Configured(spec.loader, CONFIGURED[name])
            return spec
        if name != "triton" and not name.startswith("triton."):
            return None
        real = OURS + name[len("triton"):]
        if real not in sys.modules and importlib.util.find_spec(real) is None:
            return None
        spec = importlib.machinery.ModuleSpec(name, _Alias(real), is_package=True)
        return spec


def install():
    if any(isinstance(f, _Finder) for f in sys.meta_path):
        return
    other = sys.modules.get("triton")
    if other is not None and getattr(other, "__name__", "") != OURS:
        raise ImportError(f"another package is loaded as triton already ({getattr(other, '__file__', other)}): call "
                          "nereid.use_as_triton() before it is imported")
    _native.configure("print_threads", True)
    sys.meta_path.insert(0, _Finder())
    from . import _inductor
    for name, function in CONFIGURED.items():
        if name in sys.modules:
            getattr(_inductor, function)()
