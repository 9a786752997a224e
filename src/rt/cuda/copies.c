/* Arrays whose rows do not begin at 16 bytes, copied to rows that do, for launches whose tensor maps want them so
 * (rt/launch_plan.h).
 *
 * The copies lie in memory that is taken and given back in the stream's order, from a pool of the device's own: what
 * was taken once stays with the pool until the device is closed. A graph that captures such a launch has memory of its
 * own, and copies each time. Arrays of which the driver does not know that all is there are not copied: a kernel's
 * bounds say what its programs may read, and a launch need not have them all.
 */
#include "rt/cuda/cuda.h"

enum { THREADS = 256, COLUMNS = 8 * THREADS, RANGE_START = 11, RANGE_SIZE = 12, KEEP_ABOVE = 4 };

/* Each thread moves every 256th of 2048 elements of a row: number, elements on, bytes on of elements of 1 and 2 bytes.
 */
#define EIGHT(X) \
  X(0, 0, 0, 0) \
  X(1, 256, 256, 512) \
  X(2, 512, 512, 1024) \
  X(3, 768, 768, 1536) \
  X(4, 1024, 1024, 2048) \
  X(5, 1280, 1280, 2560) \
  X(6, 1536, 1536, 3072) \
  X(7, 1792, 1792, 3584)
#define GUARD(n, on, b1, b2) "  add.u32 %r3, %r0, " #on ";\n  setp.lt.u32 %p" #n ", %r3, %r2;\n"
#define LOAD_1(n, on, b1, b2) "  @%p" #n " ld.global.u8 %h" #n ", [%rd0+" #b1 "];\n"
#define LOAD_2(n, on, b1, b2) "  @%p" #n " ld.global.u16 %h" #n ", [%rd0+" #b2 "];\n"
#define STORE_1(n, on, b1, b2) "  @%p" #n " st.global.u8 [%rd1+" #b1 "], %h" #n ";\n"
#define STORE_2(n, on, b1, b2) "  @%p" #n " st.global.u16 [%rd1+" #b2 "], %h" #n ";\n"
#define ENTRY(SIZE, LOAD, STORE) \
  ".visible .entry nereid_copy_rows_" #SIZE \
  "(.param .u64 from, .param .u64 to, .param .u64 row, .param .u64 padded,\n" \
  "    .param .u32 columns)\n{\n" \
  "  .reg .pred %p<8>;\n  .reg .b32 %r<4>;\n  .reg .b64 %rd<6>;\n  .reg .b16 %h<8>;\n" \
  "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, %ctaid.y;\n  mad.lo.u32 %r0, %r1, 2048, %r0;\n" \
  "  ld.param.u32 %r2, [columns];\n  ld.param.u64 %rd0, [from];\n  ld.param.u64 %rd1, [to];\n" \
  "  ld.param.u64 %rd2, [row];\n  ld.param.u64 %rd3, [padded];\n" \
  "  mov.u32 %r3, %ctaid.x;\n  cvt.u64.u32 %rd4, %r3;\n" \
  "  mad.lo.u64 %rd0, %rd4, %rd2, %rd0;\n  mad.lo.u64 %rd1, %rd4, %rd3, %rd1;\n" \
  "  mul.wide.u32 %rd5, %r0, " #SIZE ";\n  add.u64 %rd0, %rd0, %rd5;\n  add.u64 %rd1, %rd1, %rd5;\n" EIGHT(GUARD) \
      EIGHT(LOAD) EIGHT(STORE) "  ret;\n}\n"
static const char text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n" ENTRY(1, LOAD_1, STORE_1) ENTRY(2, LOAD_2, STORE_2);

/* Under the lock, in the context. */
static bool prepare(Cuda *c) {
  CudaCopier *k = &c->copier;
  if (k->tried) return k->pool;
  if (!c->api.pool_create || !c->api.pool_destroy || !c->api.pool_set || !c->api.pool_alloc || !c->api.free_async)
    return false;
  k->tried = true;
  CuMemPoolProps props = {.kind = 1, .place = 1, .device = c->device}; /* pinned to this device's memory */
  uint64_t all = UINT64_MAX;
  CuMemPool pool = NULL;
  if (c->api.module_load(&k->module, text, 0, NULL, NULL)) return false;
  if (c->api.module_function(&k->function[0], k->module, "nereid_copy_rows_1") ||
      c->api.module_function(&k->function[1], k->module, "nereid_copy_rows_2") || c->api.pool_create(&pool, &props))
    return false;
  if (c->api.pool_set(pool, KEEP_ABOVE, &all)) c->api.pool_destroy(pool);
  else k->pool = pool;
  return k->pool;
}

/* Whether all of the array is there: in one allocation. */
static bool is_there(const Cuda *c, const GpuTensorMap *m) {
  uint64_t base = 0, last = m->base + (m->sizes[1] - 1) * m->strides[0] + m->sizes[0] * (uint64_t)dtype_bytes(m->dtype);
  size_t bytes = 0;
  return !c->api.pointer_attribute(&base, RANGE_START, m->base) &&
         !c->api.pointer_attribute(&bytes, RANGE_SIZE, m->base) && base <= m->base && last <= base + bytes;
}

bool cuda_may_copy(Cuda *c, CuStream stream, const GpuTensorMap *m) {
  int capturing = 1;
  if (dtype_bytes(m->dtype) > 2 || m->sizes[1] > INT32_MAX) return false;
  if (m->sizes[0] > (uint64_t)65535 * COLUMNS || !is_there(c, m)) return false;
  pthread_mutex_lock(&c->lock);
  bool ready = c->copier.pool || (!c->api.stream_capturing(stream, &capturing) && !capturing && prepare(c));
  pthread_mutex_unlock(&c->lock);
  return ready;
}

CuResult cuda_copy_rows(Cuda *c, CuStream stream, GpuTensorMap *m, CuPointer *out) {
  uint64_t from = m->base, row = m->strides[0], padded = m->padded, size = (uint64_t)dtype_bytes(m->dtype);
  uint32_t columns = (uint32_t)m->sizes[0];
  *out = 0;
  CuResult r = c->api.pool_alloc(out, gpu_map_copy_bytes(m), c->copier.pool, stream);
  if (r) return r;
  uint64_t to = *out;
  void *params[] = {&from, &to, &row, &padded, &columns};
  r = c->api.launch(c->copier.function[size - 1], (unsigned)m->sizes[1], (columns + COLUMNS - 1) / COLUMNS, 1, THREADS,
                    1, 1, 0, stream, params, NULL);
  gpu_map_take_copy(m, *out);
  return r;
}

void cuda_free_copies(Cuda *c, CuStream stream, const CudaCopies *copies) {
  for (int i = 0; i < copies->count; i++) c->api.free_async(copies->at[i], stream);
}

void cuda_drop_copier(Cuda *c) {
  if (c->copier.pool) c->api.pool_destroy(c->copier.pool);
  if (c->copier.module) c->api.module_unload(c->copier.module);
  c->copier = (CudaCopier){0};
}
