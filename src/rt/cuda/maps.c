/* Tensor maps of a launch's arguments.
 *
 * What goes into them is computed by the kernel's launch plan (gpu/launch_plan.h), and the driver makes 128 bytes of
 * it, which are passed by value: launches, captured ones and graphs that are launched again hold them as they hold
 * numbers. Both take a microsecond, so a kernel keeps what it made for the last few sets of arguments, and looks there
 * by these alone.
 *
 * Where the plan's conditions do not hold, or the driver refuses, that is kept as well: such launches take another
 * kernel (launch.c).
 */
#include <stdlib.h>

#include "rt/cuda/cuda.h"

enum { GRID = 3, MOST_SLOTS = 64 };
_Static_assert(sizeof(CudaMap) == GPU_MAP_BYTES && _Alignof(CudaMap) == GPU_MAP_ALIGN, "as the kernel takes them");

static int type_of(Dtype t) {
  switch (t) {
    case DT_F16: return CU_MAP_F16;
    case DT_BF16: return CU_MAP_BF16;
    case DT_F32: return CU_MAP_F32;
    default: return dtype_bits(t) == 16 ? CU_MAP_U16 : CU_MAP_U8;
  }
}

static bool encode(const Cuda *c, const GpuTensorMap *m, CudaMap *out) {
  uint32_t box[GPU_MAP_MOST_RANK], ones[GPU_MAP_MOST_RANK];
  for (int i = 0; i < GPU_MAP_MOST_RANK; i++) box[i] = m->box[i], ones[i] = 1;
  int bits = dtype_bits(m->dtype);
  if (!c->api.map_encode || (bits != 8 && bits != 16 && m->dtype != DT_F32)) return false;
  return !c->api.map_encode(out, type_of(m->dtype), m->rank, (void *)(uintptr_t)m->base, m->sizes, m->strides, box,
                            ones, CU_MAP_NO_INTERLEAVE, m->swizzle, CU_MAP_PROMOTE_128, CU_MAP_FILL_ZEROS);
}

static bool encode_all(const Cuda *c, const GpuLaunchPlan *p, const GpuTensorMap *maps, CudaMap *out) {
  for (int i = 0; i < p->map_count; i++)
    if (!encode(c, &maps[i], &out[i])) return false;
  return true;
}

/* *copied: maps are to be of copies, of which none is made here. */
static GpuPlanFit make(Cuda *c, const Launch *l, const uint64_t *args, CudaMap *out, bool *copied) {
  const GpuLaunchPlan *p = l->kernel->plan;
  GpuTensorMap maps[GPU_PLAN_MAPS];
  GpuPlanFit fit = gpu_plan_maps(p, args, l->grid, maps);
  *copied = false;
  for (int i = 0; i < p->map_count && !fit; i++) {
    *copied |= maps[i].padded;
    if (maps[i].padded && !cuda_may_copy(c, l->stream, &maps[i])) fit = GPU_PLAN_NO_MAPS;
  }
  return fit || *copied || encode_all(c, p, maps, out) ? fit : GPU_PLAN_NO_MAPS;
}

static GpuPlanFit make_of_copies(Cuda *c, const Launch *l, const uint64_t *args, CudaMap *out, CudaCopies *copies) {
  const GpuLaunchPlan *p = l->kernel->plan;
  GpuTensorMap maps[GPU_PLAN_MAPS];
  GpuPlanFit fit = gpu_plan_maps(p, args, l->grid, maps);
  for (int i = 0; i < p->map_count && !fit; i++) {
    CuPointer *at = &copies->at[copies->count];
    if (!maps[i].padded) continue;
    if (!cuda_may_copy(c, l->stream, &maps[i]) || cuda_copy_rows(c, l->stream, &maps[i], at)) fit = GPU_PLAN_NO_MAPS;
    copies->count += *at != 0;
  }
  return !fit && encode_all(c, p, maps, out) ? GPU_PLAN_FITS : GPU_PLAN_NO_MAPS;
}

/* Taken; NULL: another thread has it, or there is no memory. */
static CudaMaps *take(CudaKernel *k, const uint64_t *args, int n, int maps) {
  CudaMaps *e = &k->maps[hash_bytes(args, sizeof *args * (size_t)n, 0) % CUDA_MAPS];
  if (atomic_exchange_explicit(&e->busy, true, memory_order_acquire)) return NULL;
  if (!e->args) {
    e->args = malloc(sizeof *args * (MOST_SLOTS + GRID));
    e->maps = aligned_alloc(_Alignof(CudaMap), sizeof *e->maps * (size_t)(maps + !maps));
  }
  if (e->args && e->maps) return e;
  atomic_store_explicit(&e->busy, false, memory_order_release);
  return NULL;
}

GpuPlanFit cuda_maps_make(CudaKernel *k, const Launch *l, CudaMap *out, CudaCopies *copies) {
  const LoadedKernel *s = l->kernel;
  const GpuLaunchPlan *p = s->plan;
  uint64_t args[MOST_SLOTS + GRID];
  int n = s->slot_count;
  bool copied = false;
  if (n > MOST_SLOTS) return GPU_PLAN_NO_MAPS;
  memcpy(args, l->args, sizeof *args * (size_t)n);
  for (int i = 0; (k->persistent || p->span_count || p->may_copy) && i < GRID; i++) args[n++] = (uint32_t)l->grid[i];
  CudaMaps *e = take(k, args, n, p->map_count);
  GpuPlanFit fit;
  if (!e) {
    fit = make(k->cuda, l, args, out, &copied);
  } else {
    if (!e->full || e->copied || memcmp(e->args, args, sizeof *args * (size_t)n)) {
      memcpy(e->args, args, sizeof *args * (size_t)n);
      e->fit = make(k->cuda, l, args, e->maps, &e->copied); /* may be another one in another stream */
      e->full = true;
    }
    fit = e->fit, copied = e->copied;
    if (!fit && !copied) memcpy(out, e->maps, sizeof *out * (size_t)p->map_count);
    atomic_store_explicit(&e->busy, false, memory_order_release);
  }
  return !fit && copied && copies ? make_of_copies(k->cuda, l, args, out, copies) : fit;
}

void cuda_maps_drop(CudaKernel *k) {
  for (int i = 0; i < CUDA_MAPS; i++) free(k->maps[i].args), free(k->maps[i].maps);
}
