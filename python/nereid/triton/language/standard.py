"""triton.language.standard: the functions that Triton writes in Triton."""
from ..runtime.jit import constexpr_function
from .core import function, functions_of

for _group in ("Creation", "Shape manipulation", "Indexing", "Math", "Reduction", "Scan and sort"):
    globals().update(functions_of("triton.language", _group))
del _group


# Triton keeps these names for itself; libraries of kernels import them all the same.


@constexpr_function
def _log2(i):
    return i.bit_length() - 1 if i > 0 else 0


@constexpr_function
def _is_power_of_two(i):
    return i != 0 and i & (i - 1) == 0


for _f in (_log2, _is_power_of_two):
    _f.library = f"triton.language.standard.{_f.__name__}"
del _f
for _name in ("_sum_combine", "_prod_combine", "_xor_combine", "_or_combine", "_elementwise_max", "_elementwise_min",
              "_pick_sum_dtype", "_argmax_combine", "_argmin_combine", "_argmax_combine_tie_break_left",
              "_argmax_combine_tie_break_fast", "_argmin_combine_tie_break_left", "_argmin_combine_tie_break_fast",
              "_indicator", "_compare_and_swap", "_bitonic_merge_hypercube", "_bitonic_merge"):
    globals()[_name] = function(f"triton.language.standard.{_name}")
del _name
