/* Products of f32 in three of tf32 (input_precision="tf32x3") that warpgroups take.
 *
 *                                                         ah, al = pieces of %a;  bh, bl = pieces of %b
 *                                                         s = al bh               the small ones first
 *     %out = dot %a, %b, %acc {precision="tf32x3"}  ->    s += ah bl
 *                                                         s += ah bh
 *                                                         %out = %acc + s
 *
 * which lowering does (lower/wgmma.c); the dot says `split`. Tensor cores cut sums off; so s is as short as the
 * product's k, of which there must be little, and what is added to %acc rounds. Of small tiles, whose pieces take as
 * long to make as to multiply, `mma` makes its own (lower/mma.c), and so it does where the layout gives it the dot
 * after all.
 *
 * Where pieces are. The first piece is what tf32 holds of a number, cut off and not rounded, so that the rest has its
 * sign: the hardware does that itself. So the first piece of b is b as it lies in a ring, or where threads have written
 * it; they read it, while the first product runs, and write what is left beside it. a they hold in registers, both
 * pieces.
 *
 * An infinity times the rest of the other operand is the infinity that it is times the whole: the rest of an infinity
 * is that itself, and of a number that tf32 holds it is 2^-60 of the number, which no sum keeps, rather than zero. So
 * products of numbers of up to 22 bits are exact. Products of two rests are left out: 1.2e-7 of the whole product in
 * the mean.
 */
#include "gpu/gpu.h"
#include "layout/layout.h"

enum { MOST_K = 32, LEAST_SUMS = 128 * 64 };

static void split(Op *dot, void *arg) {
  Func *f = arg;
  if (dot->code != OP_DOT || dot->precision != PRECISION_TF32X3) return;
  const Type *a = dot->in[0]->type;
  if (a->dtype != DT_F32 || a->shape[a->rank - 1] > MOST_K || type_numel(dot->out[0]->type) < LEAST_SUMS) return;
  dot->precision = PRECISION_SPLIT;
  if (!layout_takes_wgmma(dot, f->num_warps)) dot->precision = PRECISION_TF32X3;
}

void gpu_split_dots(Func *f, const GpuOptions *o) {
  if (gpu_has_wgmma(o)) tile_walk(f->body, split, f);
}
