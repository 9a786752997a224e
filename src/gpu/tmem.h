/* tmem: products of loops that add to tensor memory. Private to src/gpu. */
#ifndef NEREID_GPU_TMEM_H
#define NEREID_GPU_TMEM_H

#include "gpu/ring.h"

/* Whether the dot may add to what its loop carries for it in tensor memory, by the target, shapes, types, what is
 * around the loop, and the columns that are left but for *columns, to which its own are added then. */
bool tmem_takes(const Func *f, const GpuOptions *o, const Op *loop, const Op *dot, int64_t *columns);
/* Notes for a reader why some product that is left may not. */
void tmem_note_left(Func *f, const GpuOptions *o);
/* n dots of the loop become such products. `end`: in its body, after them, before what writes over the iteration
 * before's tiles; `after`: after the loop. */
void tmem_put(Func *f, Op *loop, Op *const *dots, int n, Builder *end, Builder *after);

#endif
