"""Scopes inside kernels."""
from ..language.core import functions_of

globals().update(functions_of("triton.profiler.language"))


def enable_semantic(semantic_name):
    pass


def disable_semantic(semantic_name):
    pass
