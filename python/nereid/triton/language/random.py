"""triton.language.random"""
from .core import constexpr, functions_of

N_ROUNDS_DEFAULT = constexpr(10)
globals().update(functions_of("triton.language", "Random numbers"))
