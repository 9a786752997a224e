/* Products of f32 whose operands were made f32 of something narrow are products of that.
 *
 *     %a = load ... : bf16[64,128]                    %a = load ... : bf16[64,128]
 *     %x = convert %a : f32[64,128]                   %b = load ... : bf16[16,128]
 *     %b = load ... : bf16[16,128]            ->      %t = trans %b : bf16[128,16]
 *     %y = trans (convert %b) : f32[128,16]           %d = dot %a, %t, %acc
 *     %d = dot %x, %y, %acc {precision="tf32"}
 *
 * A product of two numbers of 16 bits is exact in f32, so that nothing is lost; tensor cores take twice as many of them
 * in an instruction, rings hold twice as many in flight (gpu/async_loads.c), and threads convert nothing. What 16 bits
 * hold exactly (integers and floats of 8 bits) becomes f16 or bf16. Other precisions stay: they promise sums whose
 * errors do not grow.
 */
#include "gpu/gpu.h"

enum { DEPTH = 6 }; /* of transposes and masks */

/* Whether each element of v is a number of type `as` by how v is made; *narrow: at least one of that very type is. */
static bool is_narrow(const Value *v, Dtype as, bool *narrow, int depth) {
  stack_guard();
  const Op *op = v->def;
  if (value_is_zero(v)) return true;
  if (!op || !depth--) return false;
  if (op->code == OP_TRANS) return is_narrow(op->in[0], as, narrow, depth);
  if (op->code == OP_SELECT) return is_narrow(op->in[1], as, narrow, depth) && is_narrow(op->in[2], as, narrow, depth);
  if (op->code != OP_CONVERT) return false;
  Dtype from = op->in[0]->type->dtype;
  *narrow |= from == as;
  return from == as || dtype_bits(from) <= 8;
}

static Value *made_narrow(Builder *b, Value *v, Dtype as) {
  stack_guard();
  Op *op = v->def;
  if (value_is_zero(v)) return build_float(b, type_with_dtype(b->func->cx, v->type, as), 0);
  if (op->code == OP_TRANS) return build_trans(b, made_narrow(b, op->in[0], as), op->dims);
  if (op->code == OP_CONVERT) return build_convert(b, op->in[0], as);
  Value *x = made_narrow(b, op->in[1], as), *y = made_narrow(b, op->in[2], as);
  return build_select(b, op->in[0], x, y);
}

static void narrow(Op *dot, void *arg) {
  static const Dtype types[] = {DT_BF16, DT_F16};
  Func *f = arg;
  if (dot->code != OP_DOT || dot->precision != PRECISION_TF32) return;
  if (dot->in[0]->type->dtype != DT_F32 || dot->out[0]->type->dtype != DT_F32) return;
  for (int i = 0; i < 2; i++) {
    bool found = false;
    if (!is_narrow(dot->in[0], types[i], &found, DEPTH) || !is_narrow(dot->in[1], types[i], &found, DEPTH)) continue;
    if (!found && types[i] == DT_BF16) continue; /* fp8 becomes f16 in one instruction */
    Builder b = {.func = f, .block = dot->block, .before = dot, .span = dot->span};
    for (int k = 0; k < 2; k++) dot->in[k] = made_narrow(&b, dot->in[k], types[i]);
    return;
  }
}

void gpu_narrow_dots(Func *f, const GpuOptions *o) {
  if (!gpu_has_tensor_cores(o)) return;
  tile_replace_uses(f);
  tile_walk(f->body, narrow, f);
  tile_dce(f);
}
