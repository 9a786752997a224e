"""Triton's interpreter is a class of kernels. Here it is a device: TRITON_INTERPRET=1 runs launches with arrays on the
host on `interp`, which checks every access."""


class InterpretedFunction:
    """No kernel is one; programs ask."""


class GridExecutor:
    """Likewise."""
