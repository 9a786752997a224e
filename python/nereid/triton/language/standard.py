"""triton.language.standard: the functions that Triton writes in Triton."""
from .core import functions_of

for _group in ("Creation", "Shape manipulation", "Indexing", "Math", "Reduction", "Scan and sort"):
    globals().update(functions_of("triton.language", _group))
del _group
