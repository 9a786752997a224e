/* Loads and stores of inline PTX in global memory, and what means nothing without other threads. */
#include "tile/asm/asm.h"

/* The address as a pointer to numbers of type d; one that the kernel passed stays the pointer that it was. */
static Value *pointer(Asm *x, const AsmOperand *o, Dtype d, int64_t more) {
  Context *cx = x->b->func->cx;
  if (o->kind != ASM_ADDRESS) asm_refuse(x, "an address in `[]` is expected");
  if (o->reg->bits != 64) asm_refuse(x, "%s has %d bits, an address 64", o->reg->name, o->reg->bits);
  Value *v;
  asm_parts(x, o->reg, 1, &v);
  int64_t offset = o->value + more;
  const Type *bytes = type_pointer(cx, DT_U8);
  if (v->type->ptr == 0) v = asm_as(x, v, DT_U64);
  v = build_bitcast(x->b, v, bytes);
  if (offset) v = build_addptr(x->b, v, asm_const(x, DT_I64, offset));
  return build_bitcast(x->b, v, type_pointer(cx, d));
}

static int access_count(Asm *x, const AsmInst *i, const AsmOperand *o) {
  int n = asm_has(i, "v2") ? 2 : asm_has(i, "v4") ? 4 : 1;
  if ((o->kind == ASM_VECTOR ? o->count : 1) != n) asm_refuse(x, "as many registers in `{}` as elements are expected");
  if (!asm_has(i, "global")) asm_refuse(x, "only global memory is reached without a GPU");
  if (!x->shape->rank && x->op->out[0]->type->rank) asm_refuse(x, "memory is reached with pack=1 only");
  return n;
}

void asm_load(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  int n = access_count(x, i, &i->in[0]);
  for (int k = 0; k < n; k++) {
    Value *p = pointer(x, &i->in[1], d, (int64_t)k * dtype_bytes(d));
    Value *v = build_load(x->b, p, x->guard, x->guard ? asm_const(x, d, 0) : NULL);
    asm_set_operand(x, n > 1 ? &i->in[0].items[k] : &i->in[0], v);
  }
}

void asm_store(Asm *x, AsmInst *i) {
  Dtype d = asm_types[i->type[0]].lane;
  int n = access_count(x, i, &i->in[1]);
  for (int k = 0; k < n; k++) {
    Value *v = asm_get_operand(x, n > 1 ? &i->in[1].items[k] : &i->in[1], d);
    build_store(x->b, pointer(x, &i->in[0], d, (int64_t)k * dtype_bytes(d)), v, x->guard);
  }
}

void asm_nothing(Asm *x, AsmInst *i) {}

void asm_barrier(Asm *x, AsmInst *i) {
  if (x->guard) asm_refuse(x, "a barrier under a guard");
  if (x->shape->rank == x->op->out[0]->type->rank) build_op(x->b, OP_BARRIER, 0, NULL, 0, NULL);
}
