/* Polynomials of a kernel's integers: poly.h. */
#include "tile/analysis/poly.h"

enum { MOST_STEPS = 4096, MOST_DEPTH = 64 };

PolySpace *poly_space(const Func *f) {
  PolySpace *s = NEW(f->cx->arena, PolySpace);
  *s = (PolySpace){.cx = f->cx, .f = f, .steps = MOST_STEPS};
  return s;
}

/* ---- algebra ----------------------------------------------------------------------------------------------------- */

static int compare(const PolyTerm *x, const PolyTerm *y) {
  for (int i = 0; i < x->count && i < y->count; i++)
    if (x->atoms[i] != y->atoms[i]) return x->atoms[i] < y->atoms[i] ? -1 : 1;
  return x->count - y->count;
}

typedef struct Terms {
  int count;
  PolyTerm at[POLY_TERMS];
  bool fails;
} Terms;

static void add_term(Terms *t, const PolyTerm *x) {
  int i = 0;
  if (!x->factor) return;
  while (i < t->count && compare(&t->at[i], x) < 0) i++;
  if (i < t->count && !compare(&t->at[i], x)) {
    t->fails |= __builtin_add_overflow(t->at[i].factor, x->factor, &t->at[i].factor);
    if (t->at[i].factor) return;
    memmove(t->at + i, t->at + i + 1, sizeof *t->at * (size_t)(--t->count - i));
    return;
  }
  if (t->count == POLY_TERMS) {
    t->fails = true;
    return;
  }
  memmove(t->at + i + 1, t->at + i, sizeof *t->at * (size_t)(t->count++ - i));
  t->at[i] = *x;
}

static const Poly *finish(PolySpace *s, const Terms *t) {
  if (t->fails) {
    s->why = "its address is too long a sum";
    return NULL;
  }
  Poly *p = NEW(s->cx->arena, Poly);
  PolyTerm *at = NEW_N(s->cx->arena, PolyTerm, t->count + 1);
  memcpy(at, t->at, sizeof *at * (size_t)t->count);
  *p = (Poly){t->count, at};
  return p;
}

const Poly *poly_int(PolySpace *s, int64_t v) {
  Terms t = {0};
  add_term(&t, &(PolyTerm){.factor = v});
  return finish(s, &t);
}

static const Poly *of_atom(PolySpace *s, int atom) {
  Terms t = {.count = 1, .at = {{.factor = 1, .count = 1, .atoms = {atom}}}};
  return finish(s, &t);
}

static const Poly *sum(PolySpace *s, const Poly *x, const Poly *y, int64_t sign) {
  if (!x || !y) return NULL;
  Terms t = {.count = x->count};
  memcpy(t.at, x->at, sizeof *t.at * (size_t)x->count);
  for (int i = 0; i < y->count; i++) {
    PolyTerm term = y->at[i];
    t.fails |= __builtin_mul_overflow(term.factor, sign, &term.factor);
    add_term(&t, &term);
  }
  return finish(s, &t);
}

const Poly *poly_add(PolySpace *s, const Poly *x, const Poly *y) { return sum(s, x, y, 1); }
const Poly *poly_sub(PolySpace *s, const Poly *x, const Poly *y) { return sum(s, x, y, -1); }

static bool multiply(const PolyTerm *x, const PolyTerm *y, PolyTerm *out) {
  *out = (PolyTerm){.count = x->count + y->count};
  if (out->count > POLY_DEGREE || __builtin_mul_overflow(x->factor, y->factor, &out->factor)) return false;
  for (int i = 0, j = 0; i + j < out->count;) {
    bool first = j == y->count || (i < x->count && x->atoms[i] < y->atoms[j]);
    out->atoms[i + j] = first ? x->atoms[i] : y->atoms[j];
    if (first) i++;
    else j++;
  }
  return true;
}

const Poly *poly_mul(PolySpace *s, const Poly *x, const Poly *y) {
  Terms t = {0};
  if (!x || !y) return NULL;
  for (int i = 0; i < x->count; i++)
    for (int j = 0; j < y->count; j++) {
      PolyTerm term;
      if (multiply(&x->at[i], &y->at[j], &term)) add_term(&t, &term);
      else t.fails = true;
    }
  return finish(s, &t);
}

bool poly_equal(const Poly *x, const Poly *y) {
  if (x->count != y->count) return false;
  for (int i = 0; i < x->count; i++)
    if (compare(&x->at[i], &y->at[i]) || x->at[i].factor != y->at[i].factor) return false;
  return true;
}

bool poly_is_int(const Poly *x, int64_t *v) {
  *v = x->count ? x->at[0].factor : 0;
  return !x->count || (x->count == 1 && !x->at[0].count);
}

static bool is_static_term(const PolySpace *s, const PolyTerm *t) {
  for (int i = 0; i < t->count; i++)
    if (!s->atoms.at[t->atoms[i]].is_static) return false;
  return true;
}

bool poly_is_static(const PolySpace *s, const Poly *x) {
  for (int i = 0; i < x->count; i++)
    if (!is_static_term(s, &x->at[i])) return false;
  return true;
}

const Poly *poly_part(PolySpace *s, const Poly *x, bool is_static) {
  Terms t = {0};
  if (!x) return NULL;
  for (int i = 0; i < x->count; i++)
    if (is_static_term(s, &x->at[i]) == is_static) add_term(&t, &x->at[i]);
  return finish(s, &t);
}

static bool is_index(const PolySpace *s, int atom, int d) {
  const PolyAtom *a = &s->atoms.at[atom];
  return a->kind == ATOM_INDEX && (d < 0 || a->dim == d);
}

const Poly *poly_per_index(PolySpace *s, const Poly *x, int d) {
  Terms t = {0};
  if (!x) return NULL;
  for (int i = 0; i < x->count; i++) {
    PolyTerm term = {.factor = x->at[i].factor};
    int indices = 0, of_dim = 0;
    for (int k = 0; k < x->at[i].count; k++) {
      int atom = x->at[i].atoms[k];
      indices += is_index(s, atom, -1);
      of_dim += is_index(s, atom, d);
      if (!is_index(s, atom, d)) term.atoms[term.count++] = atom;
    }
    if (indices > 1) return NULL;
    if (of_dim) add_term(&t, &term);
  }
  return finish(s, &t);
}

const Poly *poly_without_indices(PolySpace *s, const Poly *x) {
  Terms t = {0};
  for (int i = 0; x && i < x->count; i++) {
    bool has = false;
    for (int k = 0; k < x->at[i].count; k++) has |= is_index(s, x->at[i].atoms[k], -1);
    if (!has) add_term(&t, &x->at[i]);
  }
  return x ? finish(s, &t) : NULL;
}

static int64_t power_in(int64_t v) {
  uint64_t low = (uint64_t)v & (0 - (uint64_t)v);
  return low == 0 || low > (uint64_t)AXIS_INFO_MOST ? AXIS_INFO_MOST : (int64_t)low;
}

int64_t poly_divisible(const PolySpace *s, const Poly *x) {
  int64_t all = AXIS_INFO_MOST;
  for (int i = 0; i < x->count; i++) {
    int64_t d = power_in(x->at[i].factor);
    for (int k = 0; k < x->at[i].count; k++) {
      int64_t of = s->atoms.at[x->at[i].atoms[k]].divisible;
      d = d > AXIS_INFO_MOST / of ? AXIS_INFO_MOST : d * of;
    }
    if (d < all) all = d;
  }
  return all;
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

static bool is_at_least(const PolySpace *s, const Poly *x, int64_t number) {
  int64_t v = 0;
  if (poly_is_int(x, &v)) return v >= number;
  if (number > 0) return false;
  for (int i = 0; i < x->count; i++) {
    if (x->at[i].factor < 0) return false;
    for (int k = 0; k < x->at[i].count; k++)
      if (s->atoms.at[x->at[i].atoms[k]].sign < SIGN_KNOWN) return false;
  }
  return true;
}

bool poly_need(PolySpace *s, PolyNeed need, const Poly *of, int64_t number) {
  int64_t v;
  if (!of) return false;
  bool multiple = need != POLY_AT_LEAST;
  if (multiple && (number & (number - 1)) == 0 && poly_divisible(s, of) >= number) return true;
  if (need == POLY_AT_LEAST && is_at_least(s, of, number)) return true;
  if (poly_is_int(of, &v)) return multiple && v % number == 0;
  for (int i = 0; i < s->conditions.n; i++) {
    PolyCondition *c = &s->conditions.at[i];
    if (c->need != need || !poly_equal(c->of, of) || (multiple && c->number != number)) continue;
    if (c->number < number) c->number = number;
    return true;
  }
  PolyCondition c = {need, of, number};
  vec_push(s->cx->arena, &s->conditions, c);
  return true;
}

static int atom_of_value(PolySpace *s, Value *v);

/* Of the kernel's; the grid's sizes are none. */
static bool is_argument(const Func *f, const Value *v) {
  return !v->def && v->block == f->body && v->index < f->body->arg_count - (f->persistent ? 3 : 0);
}

/* Notes that the integer arguments of which v is made are not negative. */
static void need_arguments(PolySpace *s, Value *v, Map *seen) {
  stack_guard();
  if (map_get(seen, v)) return;
  map_put(seen, v, v);
  bool is_int = !v->type->ptr && !v->type->rank && dtype_is_int(v->type->dtype);
  if (is_argument(s->f, v) && is_int) poly_need(s, POLY_AT_LEAST, of_atom(s, atom_of_value(s, v)), 0);
  for (int i = 0; v->def && i < v->def->in_count; i++) need_arguments(s, v->def->in[i], seen);
}

bool poly_non_negative(PolySpace *s, const Poly *x) {
  Map *seen = map_create(s->cx->arena, false);
  if (!x) return false;
  for (int i = 0; i < x->count; i++) {
    if (x->at[i].factor < 0) return false;
    for (int k = 0; k < x->at[i].count; k++)
      if (s->atoms.at[x->at[i].atoms[k]].sign == SIGN_UNKNOWN) return false;
  }
  for (int i = 0; i < x->count; i++)
    for (int k = 0; k < x->at[i].count; k++) {
      PolyAtom a = s->atoms.at[x->at[i].atoms[k]];
      if (a.kind == ATOM_VALUE && a.sign == SIGN_ASSUMED) need_arguments(s, a.value, seen);
    }
  return true;
}

/* ---- atoms ------------------------------------------------------------------------------------------------------- */

static bool is_static_value(const Func *f, const Value *v, int *left) {
  stack_guard();
  const Op *op = v->def;
  if (v->type->rank || --*left < 0) return false;
  if (!op) return is_argument(f, v);
  if (op_info[op->code].effect != EFFECT_PURE || op->body[0]) return false;
  if (op->code == OP_PROGRAM_ID || op->code == OP_NUM_PROGRAMS) return false;
  for (int i = 0; i < op->in_count; i++)
    if (!is_static_value(f, op->in[i], left)) return false;
  return true;
}

static int new_atom(PolySpace *s, PolyAtom a) {
  vec_push(s->cx->arena, &s->atoms, a);
  return s->atoms.n - 1;
}

static int atom_of_value(PolySpace *s, Value *v) {
  for (int i = 0; i < s->atoms.n; i++)
    if (s->atoms.at[i].kind == ATOM_VALUE && s->atoms.at[i].value == v) return i;
  int left = MOST_DEPTH;
  PolyAtom a = {.kind = ATOM_VALUE, .value = v, .is_static = is_static_value(s->f, v, &left), .divisible = 1};
  if (v->axis) a.sign = v->axis->non_negative, a.divisible = v->axis->divisible[0];
  if (!v->def && v->block == s->f->body) a.sign = SIGN_ASSUMED; /* a launch checks it */
  return new_atom(s, a);
}

static int atom_of_index(PolySpace *s, int dim) {
  for (int i = 0; i < s->atoms.n; i++)
    if (is_index(s, i, dim)) return i;
  return new_atom(s, (PolyAtom){.kind = ATOM_INDEX, .dim = dim, .sign = SIGN_INDEX, .divisible = 1});
}

static int atom_of_trip(PolySpace *s, const Op *loop) {
  for (int i = 0; i < s->atoms.n; i++)
    if (s->atoms.at[i].kind == ATOM_TRIP && s->atoms.at[i].loop == loop) return i;
  return new_atom(s, (PolyAtom){.kind = ATOM_TRIP, .loop = loop, .sign = SIGN_INDEX, .divisible = 1});
}

static int atom_of_rem(PolySpace *s, const Poly *x, const Poly *y, Dtype type) {
  for (int i = 0; i < s->atoms.n; i++) {
    PolyAtom *a = &s->atoms.at[i];
    if (a->kind != ATOM_REM || !poly_equal(a->x, x) || !poly_equal(a->y, y)) continue;
    if (dtype_bits(type) > dtype_bits(a->type)) a->type = type;
    return i;
  }
  int64_t a = poly_divisible(s, x), b = poly_divisible(s, y);
  PolyAtom atom = {.kind = ATOM_REM, .x = x, .y = y, .type = type, .sign = SIGN_KNOWN, .divisible = a < b ? a : b};
  atom.is_static = poly_is_static(s, x);
  return new_atom(s, atom);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bool poly_dims(const Op *op, const int *dims, int *out) {
  const Type *from = op->in[0]->type, *to = op->out[0]->type;
  int i = 0;
  switch (op->code) {
    case OP_SPLAT: return true;
    case OP_BROADCAST: memcpy(out, dims, sizeof *out * (size_t)from->rank); return true;
    case OP_EXPAND_DIMS:
      for (int d = 0; d < from->rank; d++) out[d] = dims[d + (d >= op->axis)];
      return true;
    case OP_TRANS:
      for (int d = 0; d < to->rank; d++) out[op->dims[d]] = dims[d];
      return true;
    case OP_RESHAPE: /* dims of size 1 come and go */
      if (op->reorder) return false;
      for (int d = 0; d < from->rank; d++) {
        out[d] = 0;
        if (from->shape[d] == 1) continue;
        while (i < to->rank && to->shape[i] == 1) i++;
        if (i == to->rank || to->shape[i] != from->shape[d]) return false;
        out[d] = dims[i++];
      }
      return true;
    default: return false;
  }
}

static const Poly *fails(PolySpace *s, const char *why) {
  s->why = why;
  return NULL;
}

static bool is_readable(const Type *t) {
  return !t->ptr && dtype_is_int(t->dtype) && dtype_is_signed(t->dtype) && dtype_bits(t->dtype) >= 32;
}

static bool is_within(const Value *v, const Block *body) {
  for (const Block *b = value_block(v); b; b = b->parent ? b->parent->block : NULL)
    if (b == body) return true;
  return false;
}

/* Whether x is the same in all iterations of the loop. */
static bool is_invariant(const PolySpace *s, const Poly *x, const Op *loop) {
  stack_guard();
  for (int i = 0; i < x->count; i++)
    for (int k = 0; k < x->at[i].count; k++) {
      const PolyAtom *a = &s->atoms.at[x->at[i].atoms[k]];
      if (a->kind == ATOM_VALUE && is_within(a->value, loop->body[0])) return false;
      if (a->kind == ATOM_TRIP && (a->loop == loop || is_within(a->loop->body[0]->args[0], loop->body[0])))
        return false;
      if (a->kind == ATOM_REM && !is_invariant(s, a->x, loop)) return false;
    }
  return true;
}

/* init + stride * #loop */
static const Poly *growing(PolySpace *s, const Op *loop, const Poly *init, const Poly *stride) {
  if (!init || !stride) return NULL;
  if (!is_invariant(s, stride, loop)) return fails(s, "it moves on by a step that changes in the loop");
  return poly_add(s, init, poly_mul(s, stride, of_atom(s, atom_of_trip(s, loop))));
}

/* What `next` adds to the carried value. */
static Value *stride_of(const Value *carried, const Value *next) {
  const Op *op = next->def;
  if (!op || (op->code != OP_ADD && op->code != OP_ADDPTR)) return NULL;
  if (op->in[0] == carried) return op->in[1];
  return op->code == OP_ADD && op->in[1] == carried ? op->in[0] : NULL;
}

static const Poly *opaque(PolySpace *s, Value *v) {
  if (v->type->rank) return fails(s, "its address is no sum of indices times strides");
  return of_atom(s, atom_of_value(s, v));
}

static const Poly *of_block_argument(PolySpace *s, Value *v, const int *dims) {
  const Op *loop = v->block->parent;
  if (!loop || loop->code != OP_FOR) return opaque(s, v);
  if (!v->index) return growing(s, loop, poly_of(s, loop->in[0], NULL), poly_of(s, loop->in[2], NULL));
  Value *stride = stride_of(v, loop->body[0]->last->in[v->index - 1]);
  if (!stride) return opaque(s, v);
  return growing(s, loop, poly_of(s, loop->in[2 + v->index], dims), poly_of(s, stride, dims));
}

/* x % y: of a block of indices that starts at a multiple of its size, all that changes is where it starts, if the size
 * divides y. */
static const Poly *of_remainder(PolySpace *s, const Op *op, const int *dims) {
  const Type *t = op->out[0]->type;
  const Poly *x = poly_of(s, op->in[0], dims), *y = poly_of(s, op->in[1], dims), *per;
  if (!x || !y) return NULL;
  if (!poly_is_static(s, y)) return fails(s, "it is wrapped at a number that only the kernel knows");
  for (int d = 0; d < t->rank; d++) {
    int64_t one;
    if (t->shape[d] == 1) continue;
    per = poly_per_index(s, x, dims[d]);
    if (!per || !poly_is_int(per, &one) || one > 1 || one < 0) return opaque(s, op->out[0]);
    if (!one) continue;
    const Poly *start = poly_without_indices(s, x);
    if (!start || !poly_equal(poly_add(s, start, of_atom(s, atom_of_index(s, dims[d]))), x))
      return opaque(s, op->out[0]);
    if (poly_divisible(s, start) < t->shape[d] || !poly_non_negative(s, start))
      return fails(s, "it is wrapped, and where it starts is not known to be a multiple of its size");
    if (!poly_need(s, POLY_MULTIPLE, y, t->shape[d]) || !poly_need(s, POLY_AT_LEAST, y, 1))
      return fails(s, "it is wrapped at no multiple of its size");
    if (start->count) start = of_atom(s, atom_of_rem(s, start, y, t->dtype));
    return poly_add(s, start, of_atom(s, atom_of_index(s, dims[d])));
  }
  return opaque(s, op->out[0]);
}

static const Poly *of_integer(PolySpace *s, Value *v, const int *dims) {
  int of_operand[MAX_RANK];
  Op *op = v->def;
  int64_t c;
  switch (op->code) {
    case OP_CONST: return poly_int(s, op->value);
    case OP_ARANGE:
      if (op->end - op->start == 1) return poly_int(s, op->start);
      return poly_add(s, poly_int(s, op->start), of_atom(s, atom_of_index(s, dims[0])));
    case OP_ADD: return poly_add(s, poly_of(s, op->in[0], dims), poly_of(s, op->in[1], dims));
    case OP_SUB: return poly_sub(s, poly_of(s, op->in[0], dims), poly_of(s, op->in[1], dims));
    case OP_MUL: return poly_mul(s, poly_of(s, op->in[0], dims), poly_of(s, op->in[1], dims));
    case OP_NEG: return poly_sub(s, poly_int(s, 0), poly_of(s, op->in[0], dims));
    case OP_SHL:
      if (!value_is_const(op->in[1], &c) || c < 0 || c > 30) return opaque(s, v);
      return poly_mul(s, poly_of(s, op->in[0], dims), poly_int(s, (int64_t)1 << c));
    case OP_REM: return v->type->rank ? of_remainder(s, op, dims) : opaque(s, v);
    case OP_CONVERT:
      if (!is_readable(op->in[0]->type) || dtype_bits(op->in[0]->type->dtype) > dtype_bits(v->type->dtype))
        return opaque(s, v);
      return poly_of(s, op->in[0], dims);
    case OP_HINT: return poly_of(s, op->in[0], dims);
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_TRANS:
    case OP_RESHAPE: return poly_dims(op, dims, of_operand) ? poly_of(s, op->in[0], of_operand) : opaque(s, v);
    default: return opaque(s, v);
  }
}

const Poly *poly_of(PolySpace *s, Value *v, const int *dims) {
  stack_guard();
  v = value_replacement(v);
  if (--s->steps < 0) return fails(s, "its address is too long a sum");
  if (!is_readable(v->type)) return opaque(s, v);
  if (v->def) return of_integer(s, v, dims);
  return v->block == s->f->body ? opaque(s, v) : of_block_argument(s, v, dims);
}

const Poly *poly_of_pointer(PolySpace *s, Value *v, const int *dims, Value **base) {
  stack_guard();
  v = value_replacement(v);
  if (--s->steps < 0) return fails(s, "its address is too long a sum");
  int of_operand[MAX_RANK];
  const Op *op = v->def;
  if (!op) {
    const Op *loop = v->block->parent;
    *base = v;
    if (v->block == s->f->body) return poly_int(s, 0);
    Value *stride = NULL;
    if (loop->code == OP_FOR && v->index) stride = stride_of(v, loop->body[0]->last->in[v->index - 1]);
    if (!stride) return fails(s, "a loop carries its pointer, and moves it on by more than a step");
    return growing(s, loop, poly_of_pointer(s, loop->in[2 + v->index], dims, base), poly_of(s, stride, dims));
  }
  switch (op->code) {
    case OP_ADDPTR: return poly_add(s, poly_of_pointer(s, op->in[0], dims, base), poly_of(s, op->in[1], dims));
    case OP_HINT: return poly_of_pointer(s, op->in[0], dims, base);
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_TRANS:
    case OP_RESHAPE:
      if (poly_dims(op, dims, of_operand)) return poly_of_pointer(s, op->in[0], of_operand, base);
      return fails(s, "its pointers are put in another order");
    default: return fails(s, "its pointer is no argument plus an index");
  }
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static Value *again(Builder *b, Value *v, Map *made) {
  stack_guard();
  Value *there = map_get(made, v);
  if (!v->def || there) return there ? there : v;
  Map *operands = map_create(b->func->cx->arena, false);
  for (int i = 0; i < v->def->in_count; i++) map_put(operands, v->def->in[i], again(b, v->def->in[i], made));
  Op *clone = op_clone(b, v->def, operands);
  clone->out[v->index]->axis = v->axis;
  map_put(made, v, clone->out[v->index]);
  return clone->out[v->index];
}

static Value *number(Builder *b, Dtype t, int64_t v) {
  return build_int(b, type_number(b->func->cx, t), int_wrap(t, v));
}

/* The trips of the loop times *factor, which loses the loop's step if it can. */
static Value *build_trip(Builder *b, const Op *loop, int64_t *factor, Dtype t) {
  int64_t step, first;
  Value *iv = loop->body[0]->args[0], *lb = loop->in[0];
  Value *way = value_is_const(lb, &first) && !first ? iv : build_binary(b, OP_SUB, iv, lb);
  if (value_is_const(loop->in[2], &step) && step && *factor % step == 0) *factor /= step;
  else way = build_binary(b, OP_DIV, way, loop->in[2]);
  return build_convert(b, way, t);
}

static Value *build_atom(PolySpace *s, Builder *b, const PolyAtom *a, int64_t *factor, Dtype t, bool top) {
  stack_guard();
  Value *v = NULL;
  switch (a->kind) {
    case ATOM_VALUE:
      v = top ? again(b, a->value, map_create(s->cx->arena, false)) : a->value;
      return build_convert(b, v, t);
    case ATOM_TRIP: return build_trip(b, a->loop, factor, t);
    case ATOM_REM: /* x may not fit t, the remainder does; it fits the type in which the kernel computes it */
      v = build_binary(b, OP_REM, poly_build(s, b, a->x, a->type, top), poly_build(s, b, a->y, a->type, top));
      return build_convert(b, v, t);
    case ATOM_INDEX: break;
  }
  diag_fail(s->cx, (Span){0}, "internal: an index of a tile is no scalar");
}

Value *poly_build(PolySpace *s, Builder *b, const Poly *x, Dtype t, bool top) {
  stack_guard();
  Value *total = NULL;
  for (int i = 0; i < x->count; i++) {
    int64_t factor = x->at[i].factor;
    Value *v = NULL;
    for (int k = 0; k < x->at[i].count; k++) {
      Value *a = build_atom(s, b, &s->atoms.at[x->at[i].atoms[k]], &factor, t, top);
      v = v ? build_binary(b, OP_MUL, v, a) : a;
    }
    bool less = factor < 0 && total && v;
    if (less) factor = -factor;
    if (!v) v = number(b, t, factor);
    else if (factor != 1) v = build_binary(b, OP_MUL, v, number(b, t, factor));
    total = total ? build_binary(b, less ? OP_SUB : OP_ADD, total, v) : v;
  }
  return total ? total : number(b, t, 0);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_value(Buf *out, const Value *v) {
  const Op *op = v->def;
  if (v->name) buf_puts(out, v->name);
  else if (op && op->code == OP_PROGRAM_ID) buf_printf(out, "program_id(%d)", (int)op->axis);
  else if (op) buf_printf(out, "%s", op_info[op->code].name);
  else buf_puts(out, "carried");
}

void poly_print(Buf *out, const PolySpace *s, const Poly *x) {
  stack_guard();
  if (!x->count) buf_puts(out, "0");
  for (int i = 0; i < x->count; i++) {
    const PolyTerm *t = &x->at[i];
    if (i) buf_puts(out, t->factor < 0 ? " - " : " + ");
    else if (t->factor < 0) buf_puts(out, "-");
    uint64_t size = t->factor < 0 ? 0 - (uint64_t)t->factor : (uint64_t)t->factor;
    if (size != 1 || !t->count) buf_printf(out, "%llu%s", (unsigned long long)size, t->count ? " " : "");
    for (int k = 0; k < t->count; k++) {
      const PolyAtom *a = &s->atoms.at[t->atoms[k]];
      if (k) buf_puts(out, " ");
      switch (a->kind) {
        case ATOM_VALUE: print_value(out, a->value); break;
        case ATOM_INDEX: buf_printf(out, "@%d", a->dim); break;
        case ATOM_TRIP:
          buf_puts(out, "#");
          print_value(out, a->loop->body[0]->args[0]);
          break;
        case ATOM_REM:
          buf_puts(out, "(");
          poly_print(out, s, a->x);
          buf_puts(out, " % ");
          poly_print(out, s, a->y);
          buf_puts(out, ")");
          break;
      }
    }
  }
}
