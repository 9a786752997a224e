"""The base of Triton's errors."""


class TritonError(Exception):
    """The base of errors of kernels."""
