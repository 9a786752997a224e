"""Inductor's Triton kernels, built and launched by Nereid."""
from . import _as_triton


def install():
    _as_triton.install()
    import torch._inductor.config as config
    config.compile_threads = 1  # workers are processes, in which `import triton` means what is installed
    for name in ("use_static_triton_launcher", "use_static_cuda_launcher"):  # which loads Triton's own cubins
        if hasattr(config, name):
            setattr(config, name, False)
