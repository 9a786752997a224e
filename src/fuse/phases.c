/* Elementwise kernels of what is joined, part by part.
 *
 * Which part of a concatenation an element comes from is often a digit of its index. Real and imaginary parts stand in
 * turn (x % 2), the two halves of a row (x // 32 % 2), the phases of a transposed convolution in both (x % 2, and
 * x // 64 % 2). A kernel that asks computes all parts for each element and takes one:
 *
 *     y = tl.where(x % 2 >= 1, imaginary, real)
 *     tl.store(y_ptr + x, y)
 *
 * One that counts without the digit computes each part where it is, with no mask, and knows a place as a sum:
 *
 *     tl.store(y_ptr + x * 2, real)
 *     tl.store(y_ptr + x * 2 + 1, imaginary)
 *
 * A GPU would write every other element so: there the first form stays. */
#include "fuse/fuse.h"

enum { LEAST_RUN = 8, MOST_MEMBERS = 256 };

void fuse_note_phase(Writer *w, const Index *at, int64_t step, int64_t count) {
  int64_t below, size, factor, constant;
  const IndexTerm *t = at->at;
  if (w->phase_size || at->n != 1 || !w->vars.n || t->var != w->vars.at[0]) return;
  if (!size_is_int(at->constant, &constant) || !size_is_int(t->factor, &factor) || factor != 1) return;
  if (!size_is_int(t->below, &below) || !size_is_int(t->size ? t->size : t->var->extent, &size)) return;
  if (!t->size && size % below) return;
  if (!t->size) size /= below;
  if (below * step > 1 && below * step < LEAST_RUN) { /* runs shorter than a vector: elements by themselves */
    if (below > 1) return;
    count *= step;
    step = 1;
  }
  if (size < step * count) count = size / step;
  if (constant % step || count < 2 || count > FUSE_PHASES || size % (step * count)) return;
  w->phase_below = below * step;
  w->phase_size = count;
}

bool fuse_add_phase(const Writer *w, FusePhases *phases) {
  int64_t count = (phases->count ? phases->count : 1) * w->phase_size;
  if (!w->phase_size || count > FUSE_PHASES || w->members.n * w->phase_size > MOST_MEMBERS) return false;
  phases->below[phases->digits] = w->phase_below;
  phases->size[phases->digits++] = w->phase_size;
  phases->count = (int)count;
  return true;
}

bool fuse_phase_index(Graph *g, const FusePhases *phases, int phase, Index rest, Index *x) {
  for (int i = phases->digits - 1; i >= 0; i--) {
    int64_t below = phases->below[i], size = phases->size[i], digit = phase % size;
    Index high, low;
    if (!index_divide(g, rest, size_int(g, below), &high, &low)) return false;
    low = index_add(g, low, index_constant(g, size_int(g, digit * below)));
    rest = index_add(g, index_scale(g, high, size_int(g, below * size)), low);
    phase /= (int)size;
  }
  *x = rest;
  return true;
}
