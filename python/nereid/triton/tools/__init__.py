"""Triton's tools, as far as they are about kernels."""
