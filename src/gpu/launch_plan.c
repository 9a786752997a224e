/* Listing the scalars that a launch computes. */
#include "gpu/launch_plan.h"

static int add(Context *cx, GpuLaunchPlan *p, GpuStep step) {
  for (int i = 0; i < p->step_count; i++)
    if (!memcmp(&p->steps[i], &step, sizeof step)) return i;
  if (p->step_count == GPU_PLAN_STEPS) return -1;
  if (!p->steps) p->steps = NEW_N(cx->arena, GpuStep, GPU_PLAN_STEPS);
  p->steps[p->step_count] = step;
  return p->step_count++;
}

static Dtype type_of(const Type *t) { return t->ptr ? DT_U64 : t->dtype; }

int gpu_plan_value(Context *cx, GpuLaunchPlan *p, const Func *f, const Value *v) {
  stack_guard();
  if (v->type->rank) return -1;
  GpuStep step;
  memset(&step, 0, sizeof step); /* holes too: steps are compared */
  step.type = step.from = type_of(v->type);
  if (!v->def) {
    if (v->block != f->body) return -1;
    step.code = OP_COUNT, step.attr = v->index;
    return add(cx, p, step);
  }
  const Op *op = v->def;
  bool is_address = op->code == OP_BITCAST && op->in[0]->type->ptr && step.type == DT_U64; /* which it is already */
  if (op->code != OP_HINT && !is_address && gpu_plan_code_number(op->code) < 0) return -1;
  if (op->code == OP_HINT || is_address) return gpu_plan_value(cx, p, f, op->in[0]);
  step.code = op->code, step.attr = op->variant;
  for (int i = 0; i < op->in_count; i++) {
    step.in[i] = gpu_plan_value(cx, p, f, op->in[i]);
    if (step.in[i] < 0) return -1;
  }
  if (op->in_count) step.from = type_of(op->in[0]->type);
  if (op->code == OP_CONST && dtype_is_float(step.type)) memcpy(&step.attr, &op->number, sizeof step.attr);
  if (op->code == OP_ADDPTR)
    step.attr = type_elem_bytes(&(Type){.dtype = op->in[0]->type->dtype, .ptr = op->in[0]->type->ptr - 1});
  return add(cx, p, step);
}
