/* Taking pointers apart and comparing the parts, as overlap.h says. */
#include "tile/analysis/overlap.h"

enum { MAX_PARTS = 16, MAX_VIEWS = 8, MAX_DEPTH = 12 };

typedef struct Part {
  const Value *leaf, *stride; /* stride: a scalar, or NULL */
  int64_t factor;             /* bytes */
  const Op *views[MAX_VIEWS]; /* that bring a tensor to the pointer's shape, outermost first */
  int view_count;
} Part;

typedef struct Address {
  Part tensors[MAX_PARTS], scalars[MAX_PARTS];
  int tensor_count, scalar_count;
  int64_t bytes;
  bool too_much;
} Address;

static const Value *resolved(const Value *v) {
  while (v->replacement) v = v->replacement;
  return v;
}

/* ---- taking apart ---- */

static void add_part(Address *a, const Part *p) {
  bool scalar = p->leaf->type->rank == 0;
  int *n = scalar ? &a->scalar_count : &a->tensor_count;
  if (*n == MAX_PARTS) a->too_much = true;
  else (scalar ? a->scalars : a->tensors)[(*n)++] = *p;
}

static void add_bytes(Address *a, const Part *p, int64_t n) {
  int64_t bytes;
  if (p->stride) {
    Part stride = {.leaf = p->stride, .factor = p->factor * n};
    if (n) add_part(a, &stride);
  } else if (__builtin_mul_overflow(p->factor, n, &bytes) || __builtin_add_overflow(a->bytes, bytes, &a->bytes)) {
    a->too_much = true;
  }
}

static bool is_number(const Value *v, int64_t *n) { return value_is_const(v, n) && !v->type->ptr; }

static const Value *as_scalar(const Value *v) {
  v = resolved(v);
  return v->type->rank == 0 ? v : v->def && v->def->code == OP_SPLAT ? resolved(v->def->in[0]) : NULL;
}

static void take_apart(Address *a, Part p, int depth);

static void take_sum(Address *a, Part p, const Value *x, const Value *y, int64_t y_times, int depth) {
  stack_guard();
  p.leaf = x;
  take_apart(a, p, depth);
  p.leaf = y;
  p.factor *= y_times;
  take_apart(a, p, depth);
}

static void take_product(Address *a, Part p, const Value *x, const Value *y, int depth) {
  stack_guard();
  int64_t n;
  if (is_number(x, &n)) {
    const Value *swap = x;
    x = y;
    y = swap;
  }
  const Value *whole = p.leaf;
  p.leaf = x;
  if (is_number(y, &n)) {
    p.factor *= n;
    take_apart(a, p, depth);
  } else if (!p.stride && whole->type->rank && (as_scalar(x) || as_scalar(y))) {
    if (as_scalar(x)) p.leaf = y;
    p.stride = as_scalar(x) ? as_scalar(x) : as_scalar(y);
    take_apart(a, p, depth);
  } else {
    p.leaf = whole;
    add_part(a, &p);
  }
}

/* Adds p.leaf, times factor and stride, to the address. */
static void take_apart(Address *a, Part p, int depth) {
  stack_guard();
  const Value *v = p.leaf = resolved(p.leaf);
  const Op *op = v->def;
  int64_t n;
  if (is_number(v, &n)) {
    add_bytes(a, &p, n);
    return;
  }
  if (!op || depth > MAX_DEPTH || a->too_much || (!v->type->ptr && !dtype_is_signed(v->type->dtype))) {
    add_part(a, &p);
    return;
  }
  switch (op->code) {
    case OP_ADDPTR:
      take_sum(a, p, op->in[0], op->in[1], v->type->ptr > 1 ? 8 : dtype_bytes(v->type->dtype), depth + 1);
      return;
    case OP_ADD: take_sum(a, p, op->in[0], op->in[1], 1, depth + 1); return;
    case OP_SUB: take_sum(a, p, op->in[0], op->in[1], -1, depth + 1); return;
    case OP_MUL: take_product(a, p, op->in[0], op->in[1], depth + 1); return;
    case OP_ARANGE: add_bytes(a, &p, op->start); break;
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
      if (p.view_count == MAX_VIEWS || op->in[0]->type->rank == 0) break;
      p.views[p.view_count++] = op;
      p.leaf = op->in[0];
      take_apart(a, p, depth + 1);
      return;
    case OP_SPLAT:
    case OP_HINT:
    case OP_CONVERT_LAYOUT:
    case OP_CONVERT:
    case OP_BITCAST:
      if (op->in[0]->type->ptr != v->type->ptr || (!v->type->ptr && !dtype_is_signed(op->in[0]->type->dtype))) break;
      if (!v->type->ptr && dtype_bits(op->in[0]->type->dtype) > dtype_bits(v->type->dtype)) break;
      p.leaf = op->in[0];
      take_apart(a, p, depth + 1);
      return;
    default: break;
  }
  add_part(a, &p);
}

/* ---- comparing ---- */

static bool same_op(const Op *x, const Op *y) {
  if (x->code != y->code || x->in_count != y->in_count || x->dim_count != y->dim_count || x->number != y->number)
    return false;
  if (memcmp(x->attr, y->attr, sizeof x->attr) || op_info[x->code].effect != EFFECT_PURE || x->body[0]) return false;
  return !x->dim_count || !memcmp(x->dims, y->dims, sizeof *x->dims * (size_t)x->dim_count);
}

static bool same_value(const Value *v, const Value *w, int depth) {
  stack_guard();
  v = resolved(v), w = resolved(w);
  if (v == w) return true;
  if (v->type != w->type || !v->def || !w->def || v->index != w->index || depth > MAX_DEPTH) return false;
  bool ranges = v->def->code == OP_ARANGE && w->def->code == OP_ARANGE; /* where they begin is among the bytes */
  if (ranges || !same_op(v->def, w->def)) return ranges;
  for (int i = 0; i < v->def->in_count; i++)
    if (!same_value(v->def->in[i], w->def->in[i], depth + 1)) return false;
  return true;
}

static bool same_views(const Part *p, const Part *q) {
  if (p->view_count != q->view_count) return false;
  for (int i = 0; i < p->view_count; i++)
    if (!same_op(p->views[i], q->views[i]) || p->views[i]->out[0]->type->rank != q->views[i]->out[0]->type->rank ||
        !type_same_shape(p->views[i]->out[0]->type, q->views[i]->out[0]->type))
      return false;
  return true;
}

/* any_stride: strides known at run time only are taken to be equal. */
static bool same_part(const Part *p, const Part *q, bool any_stride) {
  if (p->factor != q->factor || !p->stride != !q->stride) return false;
  if (p->stride && !any_stride && !same_value(p->stride, q->stride, 0)) return false;
  return same_value(p->leaf, q->leaf, 0) && same_views(p, q);
}

/* ---- what a loop changes ---- */

static bool is_inside(const Value *v, const Op *loop) {
  const Block *b = value_block(v);
  while (b && b->parent != loop) b = b->parent ? b->parent->block : NULL;
  return b != NULL;
}

static bool varies(const Value *v, const Op *loop, int depth) {
  stack_guard();
  v = resolved(v);
  if (!loop || !is_inside(v, loop)) return false;
  if (!v->def || depth > MAX_DEPTH || op_info[v->def->code].effect != EFFECT_PURE || v->def->body[0]) return true;
  for (int i = 0; i < v->def->in_count; i++)
    if (varies(v->def->in[i], loop, depth + 1)) return true;
  return false;
}

/* By how many bytes the scalar grows from one iteration of its own loop to the next; false when that is not known. */
static bool induction_stride(const Value *v, int64_t *bytes) {
  v = resolved(v);
  const Op *loop = v->block ? v->block->parent : NULL;
  if (v->def || !loop || loop->code != OP_FOR) return false;
  if (v->index == 0) return value_is_const(loop->in[2], bytes);
  Address next = {0};
  take_apart(&next, (Part){.leaf = v->block->last->in[v->index - 1], .factor = 1}, 0);
  if (next.too_much || next.tensor_count || next.scalar_count != 1) return false;
  const Part *self = &next.scalars[0];
  *bytes = next.bytes;
  return self->leaf == v && self->factor == 1 && !self->stride;
}

/* ---- the shift ---- */

static int64_t common(int64_t a, int64_t b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

typedef struct Shift {
  bool one_array; /* that both may point into by what is known; else two arguments, which may be one array */
  const Op *loop;
  int64_t multiple; /* of which the shift is one; 0: there is none */
  bool unknown;
} Shift;

/* A scalar part that both have: it has gone on by so much where the loop changes it. */
static void shift_common(Shift *s, const Part *p) {
  int64_t by;
  bool stride = p->stride && varies(p->stride, s->loop, 0);
  if (!varies(p->leaf, s->loop, 0) && !stride) return;
  if (!p->stride && induction_stride(p->leaf, &by)) s->multiple = common(s->multiple, by * p->factor);
  else s->unknown = true;
}

/* One that only one of them has. */
static void shift_other(Shift *s, const Part *p) {
  int64_t by;
  const AxisInfo *f = p->leaf->axis;
  if (p->leaf->type->ptr) s->unknown |= s->one_array; /* two arguments are taken for one array */
  else if (p->stride) s->unknown = true;
  else if (p->leaf->block && p->leaf->index == 0 && induction_stride(p->leaf, &by) && f)
    s->multiple = common(s->multiple, p->factor * f->divisible[0]);
  else if (f && s->one_array) s->multiple = common(s->multiple, p->factor * f->divisible[0]);
  else s->unknown = true;
}

/* How many bytes the tensors span where no run-time stride keeps rows apart; INT64_MAX: not known. */
static int64_t span_of(const Address *a, const Value *v) {
  int64_t bytes = v->type->ptr > 1 ? 8 : dtype_bytes(v->type->dtype);
  for (int i = 0; i < a->tensor_count; i++) {
    const Part *p = &a->tensors[i];
    if (p->stride) continue;
    if (!p->leaf->def || p->leaf->def->code != OP_ARANGE) return INT64_MAX;
    bytes += (p->leaf->type->shape[0] - 1) * (p->factor < 0 ? -p->factor : p->factor);
  }
  return bytes;
}

/* Takes what equals p out of q's parts. */
static bool take_equal(Part *parts, int *n, const Part *p, bool any_stride) {
  for (int i = 0; i < *n; i++) {
    if (!same_part(p, &parts[i], any_stride)) continue;
    parts[i] = parts[--*n];
    return true;
  }
  return false;
}

bool overlap_crosswise(const Provenance *p, const Value *v, const Value *w, const Op *loop) {
  Address a = {0}, b = {0};
  Shift s = {.loop = loop, .one_array = provenance_may_alias(p, v, w, ARGS_DISJOINT)};
  if (!type_same_shape(v->type, w->type)) return true;
  take_apart(&a, (Part){.leaf = v, .factor = 1}, 0);
  take_apart(&b, (Part){.leaf = w, .factor = 1}, 0);
  if (a.too_much || b.too_much || a.tensor_count != b.tensor_count) return true;
  int64_t span = span_of(&a, v), other_span = span_of(&b, w);
  if (other_span != span) return true;
  for (int i = 0; i < a.tensor_count; i++) {
    const Part *t = &a.tensors[i];
    if (varies(t->leaf, loop, 0) || (s.one_array && t->stride && varies(t->stride, loop, 0))) return true;
    if (!take_equal(b.tensors, &b.tensor_count, t, !s.one_array)) return true;
  }
  for (int i = 0; i < a.scalar_count; i++) {
    const Part *t = &a.scalars[i];
    if (take_equal(b.scalars, &b.scalar_count, t, false)) shift_common(&s, t);
    else shift_other(&s, t);
  }
  for (int i = 0; i < b.scalar_count; i++) shift_other(&s, &b.scalars[i]);
  if (s.unknown && s.one_array) return true; /* of two arguments: used alike, so that bytes alone tell */
  s.multiple = common(s.multiple, a.bytes - b.bytes);
  return s.multiple && s.multiple < span;
}
