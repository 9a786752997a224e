/* Listing the scalars that a launch computes, and computing them. */
#include "gpu/launch_plan.h"

#include <stdlib.h>

/* ---- listing ----------------------------------------------------------------------------------------------------- */

static int add(Context *cx, GpuLaunchPlan *p, GpuStep step) {
  for (int i = 0; i < p->step_count; i++)
    if (!memcmp(&p->steps[i], &step, sizeof step)) return i;
  if (p->step_count == GPU_PLAN_STEPS) return -1;
  if (!p->steps) p->steps = NEW_N(cx->arena, GpuStep, GPU_PLAN_STEPS);
  p->steps[p->step_count] = step;
  return p->step_count++;
}

static bool is_known(OpCode c) {
  switch (c) {
    case OP_CONST:
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_REM:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_SHL:
    case OP_SHR:
    case OP_MIN:
    case OP_MAX:
    case OP_NEG:
    case OP_NOT:
    case OP_CMP:
    case OP_SELECT:
    case OP_CONVERT:
    case OP_HINT:
    case OP_ADDPTR: return true;
    default: return false;
  }
}

static Dtype type_of(const Type *t) { return t->ptr ? DT_U64 : t->dtype; }

static bool is_number(const Type *t) { return !t->rank && (t->ptr || dtype_is_int(t->dtype) || t->dtype == DT_I1); }

int gpu_plan_value(Context *cx, GpuLaunchPlan *p, const Func *f, const Value *v) {
  stack_guard();
  if (!is_number(v->type)) return -1;
  GpuStep step;
  memset(&step, 0, sizeof step); /* holes too: steps are compared */
  step.type = step.from = type_of(v->type);
  if (!v->def) {
    if (v->block != f->body) return -1;
    step.code = OP_COUNT, step.attr = v->index;
    return add(cx, p, step);
  }
  const Op *op = v->def;
  if (!is_known(op->code)) return -1;
  if (op->code == OP_HINT) return gpu_plan_value(cx, p, f, op->in[0]);
  step.code = op->code, step.attr = op->attr[0];
  for (int i = 0; i < op->in_count; i++) {
    step.in[i] = gpu_plan_value(cx, p, f, op->in[i]);
    if (step.in[i] < 0) return -1;
  }
  if (op->in_count) step.from = type_of(op->in[0]->type);
  if (op->code == OP_ADDPTR)
    step.attr = type_elem_bytes(&(Type){.dtype = op->in[0]->type->dtype, .ptr = op->in[0]->type->ptr - 1});
  return add(cx, p, step);
}

GpuLaunchPlan *gpu_plan_keep(const GpuLaunchPlan *p) {
  size_t steps = sizeof *p->steps * (size_t)p->step_count, maps = sizeof *p->maps * (size_t)p->map_count,
         requires = sizeof *p->requires * (size_t)p->require_count;
  GpuLaunchPlan *out = malloc(sizeof *out + steps + maps + requires);
  if (!out) return NULL;
  *out = *p;
  out->steps = (GpuStep *)(out + 1);
  out->maps = (GpuMapPlan *)(void *)((char *)out->steps + steps);
  out->requires = (int *)(void *)((char *)out->maps + maps);
  if (steps) memcpy(out->steps, p->steps, steps);
  if (maps) memcpy(out->maps, p->maps, maps);
  if (requires) memcpy(out->requires, p->requires, requires);
  return out;
}

/* ---- computing --------------------------------------------------------------------------------------------------- */

static int64_t compute(const GpuStep *s, const uint64_t *args, const int64_t *done) {
  Scalar x = {.i = done[s->in[0]]}, y = {.i = done[s->in[1]]};
  switch (s->code) {
    case OP_COUNT:
      if (s->type == DT_I1) return (args[s->attr] & 0xff) != 0;
      return dtype_load_int(s->type, &args[s->attr]);
    case OP_CONST: return int_wrap(s->type, s->attr);
    case OP_NEG:
    case OP_NOT: return scalar_unary(s->code, s->type, x).i;
    case OP_CMP: return scalar_cmp((CmpPred)s->attr, s->from, x, y);
    case OP_SELECT: return done[s->in[0]] ? done[s->in[1]] : done[s->in[2]];
    case OP_CONVERT: return scalar_convert(s->from, s->type, 0, x).i;
    case OP_ADDPTR: return (int64_t)((uint64_t)x.i + (uint64_t)y.i * (uint64_t)s->attr);
    default: return scalar_binary(s->code, s->type, x, y, s->attr).i;
  }
}

/* What the hardware asks of an array (cuTensorMapEncodeTiled). */
static bool fill_map(const GpuMapPlan *p, const int64_t *done, GpuTensorMap *m) {
  int64_t bytes = dtype_bits(p->dtype) / 8;
  memset(m, 0, sizeof *m);
  *m = (GpuTensorMap){.magic = GPU_MAP_MAGIC, .rank = p->rank, .swizzle = p->swizzle, .dtype = p->dtype};
  m->base = (uint64_t)done[p->base];
  bool ok = m->base && m->base % 16 == 0;
  for (int i = 0; i < GPU_MAP_MOST_RANK; i++) {
    m->box[i] = i < p->rank ? p->box[i] : 1;
    m->sizes[i] = i < p->rank ? (uint64_t)done[p->sizes[i]] : 1;
    ok &= m->sizes[i] >= 1 && m->sizes[i] <= (uint64_t)1 << 31; /* coordinates are of 32 bits, with a sign */
    if (!i || i >= p->rank) continue;
    int64_t stride = done[p->strides[i - 1]];
    ok &= stride >= 0 && stride < (int64_t)1 << 36 && stride * bytes % 16 == 0;
    m->strides[i - 1] = (uint64_t)(stride * bytes);
  }
  return ok;
}

bool gpu_plan_maps(const GpuLaunchPlan *p, const uint64_t *args, GpuTensorMap *out) {
  int64_t done[GPU_PLAN_STEPS];
  for (int i = 0; i < p->step_count; i++) done[i] = compute(&p->steps[i], args, done);
  for (int i = 0; i < p->require_count; i++)
    if (!done[p->requires[i]]) return false;
  for (int i = 0; i < p->map_count; i++)
    if (!fill_map(&p->maps[i], done, &out[i])) return false;
  return true;
}
