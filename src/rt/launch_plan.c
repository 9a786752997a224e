/* Computing the scalars that a launch needs, and the tensor maps that are made of them. */
#include "rt/launch_plan.h"

#include <stdlib.h>

/* In the order of their numbers in bundles, to which new ones are added at the end. */
static const OpCode codes[] = {OP_COUNT, OP_CONST, OP_ADD, OP_SUB,    OP_MUL,     OP_DIV,   OP_REM,
                               OP_AND,   OP_OR,    OP_XOR, OP_SHL,    OP_SHR,     OP_MIN,   OP_MAX,
                               OP_NEG,   OP_NOT,   OP_CMP, OP_SELECT, OP_CONVERT, OP_ADDPTR};
enum { CODES = sizeof codes / sizeof codes[0] };

int gpu_plan_code_number(OpCode c) {
  for (int i = 0; i < CODES; i++)
    if (codes[i] == c) return i;
  return -1;
}

bool gpu_plan_code(int number, OpCode *out) {
  if (number < 0 || number >= CODES) return false;
  *out = codes[number];
  return true;
}

GpuLaunchPlan *gpu_plan_keep(const GpuLaunchPlan *p) {
  size_t steps = sizeof *p->steps * (size_t)p->step_count, maps = sizeof *p->maps * (size_t)p->map_count,
         requires = sizeof *p->requires * (size_t)p->require_count, spans = sizeof *p->spans * (size_t)p->span_count,
         aparts = sizeof *p->aparts * (size_t)p->apart_count;
  GpuLaunchPlan *out = malloc(sizeof *out + steps + spans + maps + requires + aparts);
  if (!out) return NULL;
  *out = *p;
  out->steps = (GpuStep *)(out + 1);
  out->spans = (SpanStep *)(void *)((char *)out->steps + steps);
  out->maps = (GpuMapPlan *)(void *)((char *)out->spans + spans);
  out->requires = (int *)(void *)((char *)out->maps + maps);
  if (steps) memcpy(out->steps, p->steps, steps);
  if (maps) memcpy(out->maps, p->maps, maps);
  out->aparts = (GpuApart *)(void *)((char *)out->requires + requires);
  if (requires) memcpy(out->requires, p->requires, requires);
  if (spans) memcpy(out->spans, p->spans, spans);
  if (aparts) memcpy(out->aparts, p->aparts, aparts);
  return out;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

static Scalar compute(const GpuStep *s, const uint64_t *args, const Scalar *done) {
  Scalar x = done[s->in[0]], y = done[s->in[1]];
  switch (s->code) {
    case OP_COUNT:
      if (s->type == DT_I1) return (Scalar){.i = (args[s->attr] & 0xff) != 0};
      return scalar_load(s->type, &args[s->attr]);
    case OP_CONST:
      if (!dtype_is_float(s->type)) return (Scalar){.i = int_wrap(s->type, s->attr)};
      memcpy(&x.f, &s->attr, sizeof x.f);
      return x;
    case OP_NEG:
    case OP_NOT: return scalar_unary(s->code, s->type, x);
    case OP_CMP: return (Scalar){.i = scalar_cmp((CmpPred)s->attr, s->from, x, y)};
    case OP_SELECT: return x.i ? y : done[s->in[2]];
    case OP_CONVERT: return scalar_convert(s->from, s->type, 0, x);
    case OP_ADDPTR: return (Scalar){.i = (int64_t)((uint64_t)x.i + (uint64_t)y.i * (uint64_t)s->attr)};
    default: return scalar_binary(s->code, s->type, x, y, s->attr);
  }
}

enum { ROW_ALIGN = 16, LEAST_READS = 4 };

/* Of an array whose rows are not aligned. How often the grid reads it is not known to the letter: boxes go along one of
 * its dims in a program, and along the other from program to program. */
static uint64_t padded_rows(const GpuTensorMap *m, const int32_t grid[3]) {
  const uint64_t *n = m->sizes, endless = (uint64_t)1 << 31;
  double programs = (double)grid[0] * grid[1] * grid[2];
  if (m->rank < 2 || n[0] >= endless || n[1] >= endless || !m->strides[0]) return 0;
  for (int i = 2; i < m->rank; i++)
    if (n[i] != 1) return 0;
  double across = (double)m->box[0] / (double)n[0], along = (double)m->box[1] / (double)n[1];
  if (programs * (across < along ? across : along) < LEAST_READS) return 0;
  uint64_t bytes = n[0] * (uint64_t)(dtype_bits(m->dtype) / 8);
  return align_up(bytes, ROW_ALIGN);
}

uint64_t gpu_map_copy_bytes(const GpuTensorMap *m) { return m->padded * m->sizes[1]; }

void gpu_map_take_copy(GpuTensorMap *m, uint64_t copy) {
  m->base = copy;
  m->strides[0] = m->padded;
  for (int i = 1; i + 1 < m->rank; i++) m->strides[i] = gpu_map_copy_bytes(m);
  m->padded = 0;
}

/* What the hardware asks of an array (cuTensorMapEncodeTiled). */
static bool fill_map(const GpuMapPlan *p, const Scalar *done, const int32_t *grid, GpuTensorMap *m) {
  int64_t bytes = dtype_bits(p->dtype) / 8;
  memset(m, 0, sizeof *m);
  *m = (GpuTensorMap){.magic = GPU_MAP_MAGIC, .rank = p->rank, .swizzle = p->swizzle, .dtype = p->dtype};
  m->base = (uint64_t)done[p->base].i;
  bool ok = m->base, aligned = m->base % ROW_ALIGN == 0;
  for (int i = 0; i < GPU_MAP_MOST_RANK; i++) {
    m->box[i] = i < p->rank ? p->box[i] : 1;
    m->sizes[i] = i < p->rank ? (uint64_t)done[p->sizes[i]].i : 1;
    ok &= m->sizes[i] >= 1 && m->sizes[i] <= (uint64_t)1 << 31; /* coordinates are of 32 bits, with a sign */
    if (!i || i >= p->rank) continue;
    int64_t stride = done[p->strides[i - 1]].i;
    ok &= stride >= 0 && stride < (int64_t)1 << 36;
    aligned &= stride * bytes % ROW_ALIGN == 0;
    m->strides[i - 1] = (uint64_t)(stride * bytes);
  }
  if (!ok || aligned || !grid) return ok && aligned;
  m->padded = padded_rows(m, grid);
  return m->padded;
}

/* A range that passes the end of the addresses may be anywhere. */
static NdSpan bytes_at(NdSpan of, uint64_t pointer) {
  return pointer > INT64_MAX ? nd_span_all() : nd_span_plus(of, nd_span_of((int64_t)pointer, (int64_t)pointer));
}

static bool are_apart(const GpuLaunchPlan *p, const uint64_t *args, const int32_t grid[3]) {
  NdSpan done[GPU_PLAN_STEPS];
  span_run(p->spans, p->span_count, args, grid, done);
  for (int i = 0; i < p->apart_count; i++) {
    const GpuApart *a = &p->aparts[i];
    NdSpan x = bytes_at(done[a->span[0]], args[a->argument[0]]), y = bytes_at(done[a->span[1]], args[a->argument[1]]);
    if (nd_span_meets(x, y)) return false;
  }
  return true;
}

const char *gpu_plan_lacks(GpuPlanFit fit) { return fit == GPU_PLAN_NOT_APART ? "apart" : "tensor_maps"; }

GpuPlanFit gpu_plan_maps(const GpuLaunchPlan *p, const uint64_t *args, const int32_t grid[3], GpuTensorMap *out) {
  if (p->apart_count && !are_apart(p, args, grid)) return GPU_PLAN_NOT_APART;
  Scalar done[GPU_PLAN_STEPS];
  memset(done, 0, sizeof *done); /* what a step without operands seems to take */
  for (int i = 0; i < p->step_count; i++) done[i] = compute(&p->steps[i], args, done);
  for (int i = 0; i < p->require_count; i++)
    if (!done[p->requires[i]].i) return GPU_PLAN_NO_MAPS;
  for (int i = 0; i < p->map_count; i++)
    if (!fill_map(&p->maps[i], done, p->may_copy ? grid : NULL, &out[i])) return GPU_PLAN_NO_MAPS;
  return GPU_PLAN_FITS;
}

int gpu_plan_cluster(int most, const int32_t grid[3], int64_t *blocks) {
  if (most < 2 || grid[0] % most || (blocks && *blocks < most)) return 1;
  if (blocks) *blocks -= *blocks % most;
  return most;
}
