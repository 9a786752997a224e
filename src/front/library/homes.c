/* homes: the file of Triton's in which a name of tl stands. tl itself has them all; tl.core, tl.standard, tl.random and
 * tl.math have their own alone, and what stands in `standard` and `random` is written in Triton itself, so that it
 * computes with its arguments, while what stands in `core` may unwrap a constexpr first.
 */
#include "front/library/lib.h"

static bool is_among(const char *names, const char *name) {
  char word[64];
  return snprintf(word, sizeof word, " %s ", name) < (int)sizeof word && strstr(names, word);
}

const char *builtin_home(const char *name) {
  static const char standard[] =
      " argmax argmin bitonic_merge cdiv cumprod cumsum flip interleave max min ravel reduce_or sigmoid softmax sort "
      "sort_impl squeeze sum swizzle2d topk unsqueeze xor_sum zeros zeros_like _argmax_combine "
      "_argmax_combine_tie_break_fast _argmax_combine_tie_break_left _argmin_combine _argmin_combine_tie_break_fast "
      "_argmin_combine_tie_break_left _bitonic_merge _bitonic_merge_hypercube _compare_and_swap _elementwise_max "
      "_elementwise_min _get_int_dtype _indicator _is_power_of_two _log2 _or_combine _pick_sum_dtype _prod_combine "
      "_sum_combine _xor_combine ";
  static const char random[] = " N_ROUNDS_DEFAULT pair_uniform_to_normal philox philox_impl rand rand4x randint "
                               "randint4x randn randn4x uint_to_uniform_float ";
  static const char math[] = " abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi ";
  return is_among(standard, name) ? "triton.language.standard"
         : is_among(random, name) ? "triton.language.random"
         : is_among(math, name)   ? "triton.language.math"
                                  : "triton.language.core";
}

/* Of these Triton asks the first argument for what a constexpr's type lacks. */
bool builtin_takes_declared(const Builtin *b, int i) {
  static const char first[] = " load store advance make_block_ptr make_tensor_descriptor broadcast_to multiple_of "
                              "max_contiguous max_constancy ";
  if (strcmp(b->library, "tl")) return true;
  const char *home = builtin_home(b->name);
  return strcmp(home, "triton.language.standard") && strcmp(home, "triton.language.random") &&
         (i || !is_among(first, b->name));
}
