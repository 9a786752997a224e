"""triton.language.math"""
from .core import functions_of

globals().update(functions_of("triton.language", "Math"))
