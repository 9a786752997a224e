/* Products of f32 in three of tf32 (input_precision="tf32x3") become three products, which warpgroups take.
 *
 *                                    %ah, %al = pieces of %a;  %bh, %bl = pieces of %b
 *                                    %s = dot %al, %bh, 0        tf32, the small ones first
 *     %out = dot %a, %b, %acc   ->   %s = dot %ah, %bl, %s
 *                                    %s = dot %ah, %bh, %s
 *                                    %out = add %acc, %s
 *
 * Tensor cores cut sums off; so a sum is as short as the product's k, of which there must be little, and `add` rounds.
 * Of small tiles, whose pieces take as long to make as to multiply, `mma` makes its own (lower/mma.c).
 *
 * The first piece is what tf32 holds of a number, cut off and not rounded, so that the rest has its sign. An infinity
 * times the rest of the other operand then is the infinity that it is times the whole: the rest of an infinity is that
 * itself, and of a number that tf32 holds it is REST of the number, which no sum keeps, rather than zero. So products
 * of numbers of up to 22 bits are exact. Products of two rests are left out: 1.2e-7 of the whole product in the mean.
 */
#include "gpu/gpu.h"
#include "layout/layout.h"

enum { MOST_K = 32, LEAST_SUMS = 128 * 64, HEAD = -8192 /* 0xffffe000: sign, exponent, 10 bits */ };
static const double REST = 0x1p-60;

static bool is_split(Func *f, const Op *dot) {
  if (dot->code != OP_DOT || dot->precision != PRECISION_TF32X3) return false;
  const Type *a = dot->in[0]->type;
  Op like = *dot;
  like.precision = PRECISION_TF32;
  return a->dtype == DT_F32 && a->shape[a->rank - 1] <= MOST_K && type_numel(dot->out[0]->type) >= LEAST_SUMS &&
         layout_takes_wgmma(&like, f->num_warps);
}

static void pieces(Builder *b, Value *x, Value **head, Value **rest) {
  Value *bits = build_bitcast(b, x, type_number(b->func->cx, DT_I32));
  *head =
      build_bitcast(b, build_binary(b, OP_AND, bits, build_int(b, bits->type, HEAD)), type_number(b->func->cx, DT_F32));
  Value *left = build_binary(b, OP_SUB, x, *head),
        *some = build_math(b, MATH_FMA, 3, (Value *[]){x, build_float(b, x->type, REST), left});
  *rest = build_select(b, build_math(b, MATH_ISINF, 1, &x), x, some);
}

static void split(Op *dot, void *arg) {
  Func *f = arg;
  if (!is_split(f, dot)) return;
  Builder b = {.func = f, .block = dot->block, .before = dot, .span = dot->span};
  Value *acc = dot->in[2], *a[2], *x[2];
  pieces(&b, dot->in[0], &a[0], &a[1]);
  pieces(&b, dot->in[1], &x[0], &x[1]);
  Value *sum = build_dot(&b, a[1], x[0], build_float(&b, acc->type, 0), PRECISION_TF32);
  sum = build_dot(&b, a[0], x[1], sum, PRECISION_TF32);
  sum = build_dot(&b, a[0], x[0], sum, PRECISION_TF32);
  Value *out = build_binary(&b, OP_ADD, acc, sum);
  value_replace(dot->out[0], out);
  op_remove(dot);
}

void gpu_split_dots(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o)) return;
  tile_walk(f->body, split, f);
  tile_replace_uses(f);
}
