/* lib_atomic.c: atomic operations on memory. Each lane is its own operation; several on one address all take effect. */
#include "front/library/lib.h"

MemSem lib_sem(Front *fr, Span at, const Builtin *b, Py *p) {
  static const char *const names[] = {
      [SEM_ACQ_REL] = "acq_rel", [SEM_ACQUIRE] = "acquire", [SEM_RELEASE] = "release", [SEM_RELAXED] = "relaxed"};
  const char *s = lib_option(fr, at, b, "sem", p);
  if (!s[0]) return SEM_ACQ_REL;
  for (int i = 0; i < 4; i++)
    if (!strcmp(names[i], s)) return (MemSem)i;
  lib_refuse(fr, at, "it is \"acquire\", \"release\", \"acq_rel\" or \"relaxed\"", "Memory semantic %s not supported",
             s);
}

MemScope lib_scope(Front *fr, Span at, const Builtin *b, Py *p) {
  static const char *const names[] = {[SCOPE_GPU] = "gpu", [SCOPE_CTA] = "cta", [SCOPE_SYS] = "sys"};
  const char *s = lib_option(fr, at, b, "scope", p);
  if (!s[0]) return SCOPE_GPU;
  for (int i = 0; i < 3; i++)
    if (!strcmp(names[i], s)) return (MemScope)i;
  lib_refuse(fr, at, "a scope is \"gpu\", \"cta\" or \"sys\"", "Memory semantic %s not supported", s);
}

static Value *atomic_pointer(Front *fr, const Builtin *b, Span at, Py *p) {
  if (p->kind != PY_TENSOR || !p->value->type->ptr)
    lib_refuse(fr, at, NULL, "Pointer argument of store instruction is %s: %s takes a pointer or a tensor of pointers",
               py_describe(fr, p), lib_full_name(fr, b));
  if (p->value->type->is_const)
    lib_refuse(fr, at, NULL, "Cannot store to a constant pointer (%s)", type_text(fr, p->value->type));
  return p->value;
}

static const struct {
  const char *name;
  RmwKind kind;
} kinds[] = {{"atomic_add", RMW_ADD}, {"atomic_max", RMW_MAX}, {"atomic_min", RMW_MIN},  {"atomic_and", RMW_AND},
             {"atomic_or", RMW_OR},   {"atomic_xor", RMW_XOR}, {"atomic_xchg", RMW_XCHG}};

static void check_element(Front *fr, const Builtin *b, Span at, RmwKind kind, const Type *elem) {
  int bits = elem->ptr ? 64 : dtype_bits(elem->dtype);
  bool good;
  switch (kind) {
    case RMW_ADD: good = !elem->ptr && (bits >= 32 || elem->dtype == DT_F16 || elem->dtype == DT_BF16); break;
    case RMW_AND:
    case RMW_OR:
    case RMW_XOR:
    case RMW_XCHG: good = bits >= 32; break;
    default: good = !elem->ptr && bits >= 32; break;
  }
  if (!good)
    lib_refuse(fr, at, "use elements of 32 or 64 bits", "%s does not support %s", b->name, type_text(fr, elem));
}

/* and, or and xor of floats work on their bits. */
static bool on_bits(RmwKind kind, const Type *elem) {
  return (kind == RMW_AND || kind == RMW_OR || kind == RMW_XOR) && dtype_is_float(elem->dtype);
}

static Py *call_rmw(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *ptr = atomic_pointer(fr, b, at, args[0]), *v = lib_value(fr, at, b, "val", args[1]), *mask = NULL;
  const Type *elem = type_pointee(fr->cx, type_elem(fr->cx, ptr->type));
  RmwKind kind = RMW_ADD;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i].name, b->name)) kind = kinds[i].kind;
  check_element(fr, b, at, kind, elem);
  if (!lib_none(args[2])) {
    if (py_is_number(args[2]))
      lib_refuse(fr, at, "leave the mask out, or put the atomic under an `if`",
                 "'%s' object has no attribute '%s': the mask of %s must be a tensor, but it is the constexpr %s",
                 py_class_name(args[2]), ptr->type->rank ? "type" : "handle", b->name, py_describe(fr, args[2]));
    mask = lib_value(fr, at, b, "mask", args[2]);
    if (mask->type->ptr || mask->type->dtype != DT_I1)
      lib_refuse(fr, at, "compare first, as in `mask != 0`", "Mask must have boolean scalar type, but it is of type %s",
                 type_text(fr, mask->type));
  }
  if (ptr->type->rank == 0) {
    if (v->type->rank)
      lib_fail(fr, at, b, "add offsets to the pointer", "`val` is a block (%s), but `pointer` is a scalar",
               type_text(fr, v->type));
    if (mask && mask->type->rank)
      lib_fail(fr, at, b, "add offsets to the pointer", "`mask` is a block (%s), but `pointer` is a scalar",
               type_text(fr, mask->type));
  } else {
    v = sem_broadcast_to(fr, at, v, ptr->type->rank, ptr->type->shape);
    if (mask) mask = sem_broadcast_to(fr, at, mask, ptr->type->rank, ptr->type->shape);
  }
  v = sem_cast_value(fr, at, v, elem, 0, false);
  bool bits = on_bits(kind, elem);
  if (bits) {
    Dtype d = dtype_bits(elem->dtype) == 64 ? DT_I64 : DT_I32;
    v = build_bitcast(&fr->b, v, type_number(fr->cx, d));
    ptr = build_bitcast(&fr->b, ptr, type_pointer(fr->cx, d));
  }
  Op *op = build_op(&fr->b, OP_ATOMIC_RMW, mask ? 3 : 2, (Value *[]){ptr, v, mask}, 1, &v->type);
  op->kind = kind, op->sem = lib_sem(fr, at, b, args[3]), op->scope = lib_scope(fr, at, b, args[4]);
  return py_tensor(fr, bits ? build_bitcast(&fr->b, op->out[0], elem) : op->out[0]);
}

/* No cast and no broadcast: both values must be what the pointer points to; of integers the sign does not matter. */
static Value *cas_operand(Front *fr, const Builtin *b, Span at, const char *name, Py *p, const Type *want) {
  Value *v = lib_value(fr, at, b, name, p);
  const Type *elem = type_elem(fr->cx, v->type);
  if (v->type != want && !want->ptr && !elem->ptr && dtype_is_int(want->dtype) && dtype_is_int(elem->dtype) &&
      dtype_bits(want->dtype) == dtype_bits(elem->dtype))
    v = build_bitcast(&fr->b, v, type_elem(fr->cx, want));
  if (v->type != want)
    lib_fail(fr, at, b, "cast or broadcast it first, or make it with tl.full(shape, value, dtype)",
             "`%s` must be of the type that `pointer` points to, %s, but it is %s", name, type_text(fr, want),
             type_text(fr, v->type));
  return v;
}

static Py *call_cas(Front *fr, const Builtin *b, Span at, Py **args) {
  Value *ptr = atomic_pointer(fr, b, at, args[0]);
  const Type *want = type_pointee(fr->cx, ptr->type);
  int bits = want->ptr ? 64 : dtype_bits(want->dtype);
  if (bits < 16)
    lib_refuse(fr, at, NULL, "atomic_cas only supports elements with width {16, 32, 64}, but they are %s",
               type_text(fr, type_elem(fr->cx, want)));
  Value *cmp = cas_operand(fr, b, at, "cmp", args[1], want), *v = cas_operand(fr, b, at, "val", args[2], want);
  Op *op = build_op(&fr->b, OP_ATOMIC_CAS, 3, (Value *[]){ptr, cmp, v}, 1, &v->type);
  op->sem = lib_sem(fr, at, b, args[3]), op->scope = lib_scope(fr, at, b, args[4]);
  return py_tensor(fr, op->out[0]);
}

static const char ATOMIC[] = "Atomics";
#define RMW(name) \
  { "tl", name, "pointer, val, mask=None, sem=None, scope=None", call_rmw, ATOMIC, BUILTIN_MEMBER, NULL }
const Builtin lib_atomic_table[] = {
    RMW("atomic_add"),
    RMW("atomic_max"),
    RMW("atomic_min"),
    RMW("atomic_and"),
    RMW("atomic_or"),
    RMW("atomic_xor"),
    RMW("atomic_xchg"),
    {"tl", "atomic_cas", "pointer, cmp, val, sem=None, scope=None", call_cas, ATOMIC, BUILTIN_MEMBER, NULL},
    {0},
};
