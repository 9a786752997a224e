/* How far accesses go: reach.h. */
#include "tile/analysis/reach.h"
#include "tile/analysis/regular.h"

enum { MOST_DEPTH = 100, MOST_ACCESSES = 16, MOST_STEPS = 2000, ANYWHERE = -2 };

typedef struct Narrow { /* value, at that index, is less (or more) than `by` */
  const Value *value;
  int8_t map[MAX_RANK];
  bool below, equal;
  int by;
} Narrow;

typedef struct KnownStep {
  const Value *value;
  int8_t map[MAX_RANK];
  int step;
} KnownStep;

struct Reach {
  const Func *f;
  Arena *arena;
  const Provenance *provenance;
  VEC(SpanStep) steps;
  int *shared; /* by value id: what no mask narrows, and 1 */
  VEC(Narrow) narrowed;
  VEC(KnownStep) known; /* under them */
  const Value *mask;    /* of which they were read; NULL: none */
  int depth;
};

/* At no index that a mask knows. */
static const int8_t anywhere[MAX_RANK] = {ANYWHERE, ANYWHERE, ANYWHERE, ANYWHERE,
                                          ANYWHERE, ANYWHERE, ANYWHERE, ANYWHERE};

static int span_of(Reach *s, Value *v, const int8_t *map);

/* ---- steps ---- */

static bool is_of(const SpanStep *s, int64_t lo, int64_t hi) {
  return s->code == SPAN_OF && s->lo == lo && s->hi == hi;
}

static int number(Reach *s, int64_t lo, int64_t hi);

/* What takes constants alone is one. */
static int step(Reach *s, SpanStep x) {
  int operands = span_info[x.code].operands;
  bool constant = operands > 0;
  for (int i = 0; i < operands; i++) constant &= s->steps.at[x.in[i]].code == SPAN_OF;
  if (constant) {
    NdSpan done[3];
    for (int i = 0; i < operands; i++)
      done[i] = nd_span_of(s->steps.at[x.in[i]].lo, s->steps.at[x.in[i]].hi), x.in[i] = i;
    NdSpan is = span_compute(&x, done);
    return number(s, is.lo, is.hi);
  }
  for (int i = 0; i < 2 && x.code == SPAN_PLUS; i++)
    if (is_of(&s->steps.at[x.in[i]], 0, 0)) return x.in[!i];
  if (x.code == SPAN_TIMES && is_of(&s->steps.at[x.in[1]], 1, 1)) return x.in[0];
  for (int i = 0; i < s->steps.n; i++) {
    const SpanStep *y = &s->steps.at[i];
    if (y->code == x.code && y->type == x.type && y->lo == x.lo && y->hi == x.hi && !memcmp(y->in, x.in, sizeof x.in))
      return i;
  }
  if (s->steps.n >= MOST_STEPS) return 0; /* all */
  vec_push(s->arena, &s->steps, x);
  return s->steps.n - 1;
}

static int number(Reach *s, int64_t lo, int64_t hi) { return step(s, (SpanStep){.code = SPAN_OF, .lo = lo, .hi = hi}); }
static int all(Reach *s) { return number(s, INT64_MIN, INT64_MAX); }

static int binary(Reach *s, SpanCode code, int a, int b) { return step(s, (SpanStep){.code = code, .in = {a, b}}); }

static int times(Reach *s, int a, int64_t by) { return binary(s, SPAN_TIMES, a, number(s, by, by)); }

static bool type_range(const Type *t, int64_t *least, int64_t *most) {
  if (t->ptr || !dtype_is_int(t->dtype) || dtype_bits(t->dtype) == 64) return false;
  int bits = dtype_bits(t->dtype);
  *most = ((int64_t)1 << (dtype_is_signed(t->dtype) ? bits - 1 : bits)) - 1;
  *least = dtype_is_signed(t->dtype) ? -*most - 1 : 0;
  return true;
}

static int whole_type(Reach *s, const Type *t) {
  int64_t least, most;
  return type_range(t, &least, &most) ? number(s, least, most) : all(s);
}

/* A result may wrap around in a type below 64 bits. */
static int fitted(Reach *s, const Type *t, int value) {
  int64_t least, most;
  if (!type_range(t, &least, &most)) return value;
  return step(s, (SpanStep){.code = SPAN_FIT, .in = {value}, .lo = least, .hi = most});
}

/* ---- loops ---- */

static bool is_outside(const Value *v, const Op *loop) {
  for (const Block *b = value_block(v); b && b->parent; b = b->parent->block)
    if (b->parent == loop) return false;
  return true;
}

static int64_t pointee_bytes(const Reach *s, const Value *v) {
  return type_elem_bytes(type_pointee(s->f->cx, v->type));
}

/* What carried value `index` gains each time round; -1: not a fixed sum. */
static int gain(Reach *s, const Op *loop, int index) {
  const Value *arg = loop->body[0]->args[index + 1];
  Value *next = loop->body[0]->last->in[index];
  int sum = number(s, 0, 0);
  for (int i = 0; next != arg; i++) {
    const Op *op = next->def;
    if (!op || i == 16 || (op->code != OP_ADD && op->code != OP_SUB && op->code != OP_ADDPTR)) return -1;
    int own = op->code == OP_ADD && is_outside(op->in[0], loop) ? 1 : 0;
    Value *more = op->in[1 - own];
    if (!is_outside(more, loop) && !(more->def && more->def->code == OP_CONST)) return -1;
    int by = span_of(s, more, anywhere);
    if (op->code == OP_ADDPTR) by = times(s, by, pointee_bytes(s, next));
    sum = binary(s, op->code == OP_SUB ? SPAN_MINUS : SPAN_PLUS, sum, by);
    next = op->in[own];
  }
  return sum;
}

static int of_bounds(Reach *s, SpanCode code, const Op *loop, bool after) {
  SpanStep x = {.code = code, .lo = after};
  for (int i = 0; i < 3; i++) x.in[i] = span_of(s, loop->in[i], anywhere);
  return step(s, x);
}

/* The value carried at `index`, during the loop or after it. */
static int carried(Reach *s, const Op *loop, int index, bool after) {
  stack_guard();
  const Type *t = loop->body[0]->args[index + 1]->type;
  int by = gain(s, loop, index);
  if (by < 0) return whole_type(s, t);
  int rounds = of_bounds(s, SPAN_ROUNDS, loop, after);
  return fitted(s, t,
                binary(s, SPAN_PLUS, span_of(s, loop->in[3 + index], anywhere), binary(s, SPAN_TIMES, rounds, by)));
}

static int argument_span(Reach *s, const Value *v) {
  const Op *parent = v->block->parent;
  if (!parent) {
    if (v->type->ptr) return number(s, 0, 0);
    if (!dtype_is_int(v->type->dtype)) return all(s);
    return step(s, (SpanStep){.code = SPAN_ARGUMENT, .type = v->type->dtype, .lo = v->index});
  }
  if (parent->code == OP_FOR) {
    if (v->index > 0) return carried(s, parent, v->index - 1, false);
    return of_bounds(s, SPAN_LOOP, parent, false);
  }
  return whole_type(s, v->type);
}

/* ---- operations ---- */

static int programs(Reach *s, int64_t axis) { return step(s, (SpanStep){.code = SPAN_PROGRAMS, .lo = axis}); }

static int op_span(Reach *s, Value *v, const int8_t *map) {
  Op *op = v->def;
  const Type *t = v->type;
  int8_t inner[MAX_RANK];
  bool is_u64 = !t->ptr && t->dtype == DT_U64;
  if (op_is_view(op)) {
    int8_t m[MAX_RANK];
    view_map(op, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    return span_of(s, op->in[0], inner);
  }
  switch (op->code) {
    case OP_CONST: {
      int64_t n = t->dtype == DT_I1 && !t->ptr ? op->value != 0 : op->value;
      if (t->ptr || !dtype_is_int(t->dtype) || n == INT64_MIN) return whole_type(s, t);
      return number(s, n, n);
    }
    case OP_PROGRAM_ID:
      return step(s, (SpanStep){.code = SPAN_LOOP, .in = {number(s, 0, 0), programs(s, op->axis), number(s, 1, 1)}});
    case OP_NUM_PROGRAMS: return programs(s, op->axis);
    case OP_ARANGE: return number(s, op->start, op->start + t->shape[0] - 1);
    case OP_RESHAPE:
    case OP_SORT: return span_of(s, op->in[0], anywhere);
    case OP_GATHER: return span_of(s, op->in[0], anywhere);
    case OP_JOIN:
    case OP_CAT: return binary(s, SPAN_JOIN, span_of(s, op->in[0], anywhere), span_of(s, op->in[1], anywhere));
    case OP_SPLIT: return span_of(s, op->in[0], anywhere);
    case OP_ADD: return fitted(s, t, binary(s, SPAN_PLUS, span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    case OP_SUB: return fitted(s, t, binary(s, SPAN_MINUS, span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    case OP_NEG:
      return is_u64 ? all(s) : fitted(s, t, binary(s, SPAN_MINUS, number(s, 0, 0), span_of(s, op->in[0], map)));
    case OP_MUL: return fitted(s, t, binary(s, SPAN_TIMES, span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    case OP_DIV:
    case OP_REM:
    case OP_MIN:
    case OP_MAX: {
      SpanCode code = op->code == OP_DIV   ? SPAN_OVER
                      : op->code == OP_REM ? SPAN_REST
                      : op->code == OP_MIN ? SPAN_LEAST
                                           : SPAN_MOST;
      if (is_u64) return all(s);
      return fitted(s, t, binary(s, code, span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    }
    case OP_SHL: {
      int64_t by;
      if (!value_is_const(op->in[1], &by) || by < 0 || by > 62) return whole_type(s, t);
      return fitted(s, t, times(s, span_of(s, op->in[0], map), (int64_t)1 << by));
    }
    case OP_AND: { /* with what is not negative */
      int64_t mask;
      for (int i = 0; i < 2; i++)
        if (value_is_const(op->in[i], &mask) && mask >= 0) return number(s, 0, mask);
      return whole_type(s, t);
    }
    case OP_SELECT: return binary(s, SPAN_JOIN, span_of(s, op->in[1], map), span_of(s, op->in[2], map));
    case OP_CONVERT:
      if (t->ptr || op->in[0]->type->ptr || !dtype_is_int(op->in[0]->type->dtype)) return whole_type(s, t);
      return is_u64 ? all(s) : fitted(s, t, span_of(s, op->in[0], map));
    case OP_BITCAST: return t->ptr && op->in[0]->type->ptr ? span_of(s, op->in[0], map) : whole_type(s, t);
    case OP_ADDPTR: {
      int offset = times(s, span_of(s, op->in[1], map), pointee_bytes(s, v));
      return binary(s, SPAN_PLUS, span_of(s, op->in[0], map), offset);
    }
    case OP_FOR: return carried(s, op, v->index, true);
    case OP_IF:
      return binary(s, SPAN_JOIN, span_of(s, op->body[0]->last->in[v->index], anywhere),
                    span_of(s, op->body[1]->last->in[v->index], anywhere));
    default: return whole_type(s, t);
  }
}

static bool same_place(const int8_t *a, const int8_t *b, int rank) {
  for (int k = 0; k < rank; k++)
    if (a[k] != b[k] || a[k] == ANYWHERE) return false;
  return true;
}

static int span_of(Reach *s, Value *v, const int8_t *map) {
  stack_guard();
  int rank = v->type->rank;
  bool shared = rank == 0 || !s->narrowed.n;
  if (shared && s->shared[v->id]) return s->shared[v->id] - 1;
  for (int i = 0; !shared && i < s->known.n; i++)
    if (s->known.at[i].value == v && !memcmp(s->known.at[i].map, map, (size_t)rank)) return s->known.at[i].step;
  if (s->depth == MOST_DEPTH) return all(s);
  s->depth++;
  int span = v->def ? op_span(s, v, map) : argument_span(s, v);
  s->depth--;
  for (int i = 0; rank && i < s->narrowed.n; i++) {
    const Narrow *n = &s->narrowed.at[i];
    if (n->value != v || !same_place(n->map, map, rank)) continue;
    span = step(s, (SpanStep){.code = n->below ? SPAN_BELOW : SPAN_ABOVE, .in = {span, n->by}, .lo = n->equal});
  }
  if (shared) {
    s->shared[v->id] = span + 1;
  } else {
    KnownStep k = {.value = v, .step = span};
    memcpy(k.map, map, sizeof k.map);
    vec_push(s->arena, &s->known, k);
  }
  return span;
}

/* ---- masks ---- */

/* By `by`, at the value that v renames or widens. */
static void narrow(Reach *s, Value *v, const int8_t *map, bool below, bool equal, int by) {
  int8_t at[MAX_RANK];
  memcpy(at, map, sizeof at);
  for (;;) {
    Op *op = v->def;
    if (!op || v->type->rank == 0 || v->type->ptr) return;
    if (op_is_view(op)) {
      int8_t m[MAX_RANK], inner[MAX_RANK];
      view_map(op, m);
      for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : at[m[k]];
      memcpy(at, inner, sizeof at);
    } else if (op->code != OP_CONVERT || !dtype_is_signed(op->in[0]->type->dtype) ||
               dtype_bits(op->in[0]->type->dtype) > dtype_bits(v->type->dtype)) {
      break;
    }
    v = op->in[0];
  }
  if (v->def->code == OP_CONST) return;
  Narrow n = {.value = v, .below = below, .equal = equal, .by = by};
  memcpy(n.map, at, sizeof n.map);
  vec_push(s->arena, &s->narrowed, n);
}

typedef struct Comparison {
  Op *op;
  int8_t map[MAX_RANK];
} Comparison;
typedef VEC(Comparison) Comparisons;

static void comparisons_of(Reach *s, Value *mask, const int8_t *map, Comparisons *out) {
  stack_guard();
  Op *op = mask->def;
  if (!op || out->n == 16) return;
  if (op->code == OP_AND) {
    comparisons_of(s, op->in[0], map, out);
    comparisons_of(s, op->in[1], map, out);
  } else if (op_is_view(op)) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(op, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    comparisons_of(s, op->in[0], inner, out);
  } else if (op->code == OP_CMP && op->pred >= CMP_LT && op->pred <= CMP_GE && !op->in[0]->type->ptr &&
             dtype_is_int(op->in[0]->type->dtype) && op->in[0]->type->dtype != DT_U64) {
    Comparison c = {.op = op};
    memcpy(c.map, map, sizeof c.map);
    vec_push(s->arena, out, c);
  }
}

static void narrow_by(Reach *s, Value *mask, const int8_t *map) {
  Comparisons found = {0};
  comparisons_of(s, mask, map, &found);
  for (int i = 0; i < found.n; i++) {
    Op *op = found.at[i].op;
    const int8_t *at = found.at[i].map;
    bool below = op->pred == CMP_LT || op->pred == CMP_LE, equal = op->pred == CMP_LE || op->pred == CMP_GE;
    int x = span_of(s, op->in[0], at), y = span_of(s, op->in[1], at);
    narrow(s, op->in[0], at, below, equal, y);
    narrow(s, op->in[1], at, !below, equal, x);
    s->known.n = 0; /* what was known is narrower now */
  }
}

/* ---- accesses ---- */

/* ---- boxes ---- */

static int poly_span(Reach *s, const PolySpace *space, const Poly *x);

static int atom_span(Reach *s, const PolySpace *space, const PolyAtom *a) {
  stack_guard();
  switch (a->kind) {
    case ATOM_VALUE: return span_of(s, a->value, anywhere);
    case ATOM_TRIP: return of_bounds(s, SPAN_ROUNDS, a->loop, false);
    case ATOM_REM: return binary(s, SPAN_REST, poly_span(s, space, a->x), poly_span(s, space, a->y));
    default: return all(s);
  }
}

static int poly_span(Reach *s, const PolySpace *space, const Poly *x) {
  stack_guard();
  int sum = number(s, 0, 0);
  for (int i = 0; i < x->count; i++) {
    const PolyTerm *t = &x->at[i];
    int product = number(s, t->factor, t->factor);
    for (int k = 0; k < t->count; k++)
      product = binary(s, SPAN_TIMES, product, atom_span(s, space, &space->atoms.at[t->atoms[k]]));
    sum = binary(s, SPAN_PLUS, sum, product);
  }
  return sum;
}

/* Where the reading of the box rests on conditions that do not hold, it may be anywhere. (Alignment is none of these.)
 */
static int under_conditions(Reach *s, const PolySpace *space, int span) {
  for (int i = 0; i < space->conditions.n; i++) {
    const PolyCondition *c = &space->conditions.at[i];
    if (c->need == POLY_ALIGNED) continue;
    SpanStep when = {.code = SPAN_WHEN, .in = {span, poly_span(s, space, c->of)}, .lo = c->number};
    if (c->need == POLY_MULTIPLE) { /* the remainder is 0: not less, nor more */
      int rest = binary(s, SPAN_REST, when.in[1], number(s, c->number, c->number));
      when = (SpanStep){.code = SPAN_WHEN, .in = {span, rest}};
      when.in[0] = step(s, when), when.in[1] = binary(s, SPAN_MINUS, number(s, 0, 0), rest);
    }
    span = step(s, when);
  }
  return span;
}

/* Of a load of a box: no further than the array's sizes, where a pointer that advances and a mask that shrinks with it
 * (k < K - start) say nothing of each other as intervals. -1: it is none. */
static int box_span(Reach *s, const Op *load) {
  const char *why;
  const RegularTile *box = load->code == OP_LOAD ? regular_tile(s->f, load, &why) : NULL;
  if (!box) return -1;
  const PolySpace *space = box->space;
  int sum = poly_span(s, space, box->offset);
  for (int i = 0; i < box->count; i++) {
    const RegularDim *d = &box->dims[i];
    int index;
    if (d->size)
      index = step(s, (SpanStep){.code = SPAN_BELOW, .in = {number(s, 0, INT64_MAX), poly_span(s, space, d->size)}});
    else
      index =
          binary(s, SPAN_PLUS, d->start ? poly_span(s, space, d->start) : number(s, 0, 0), number(s, 0, d->box - 1));
    sum = binary(s, SPAN_PLUS, sum, binary(s, SPAN_TIMES, index, poly_span(s, space, d->stride)));
  }
  int64_t bytes = pointee_bytes(s, load->in[0]);
  SpanStep last = {.code = SPAN_BYTES, .in = {times(s, sum, bytes)}, .lo = bytes};
  return under_conditions(s, space, step(s, last));
}

static bool is_in_loop(const Op *op) {
  while (op && op->code != OP_FOR) op = op->block->parent;
  return op != NULL;
}

/* ---- accesses ---- */

static int access_span(Reach *s, const Op *op) {
  const Type *t = op->in[0]->type;
  int8_t map[MAX_RANK];
  for (int k = 0; k < MAX_RANK; k++) map[k] = k < t->rank && t->shape[k] > 1 ? (int8_t)k : -1;
  Value *by = op_mask(op);
  if (by != s->mask) {
    s->narrowed.n = s->known.n = 0;
    if (by) narrow_by(s, by, map);
    s->mask = by;
  }
  int span =
      step(s, (SpanStep){.code = SPAN_BYTES, .in = {span_of(s, op->in[0], map)}, .lo = pointee_bytes(s, op->in[0])});
  int box = is_in_loop(op) ? box_span(s, op) : -1;
  return box < 0 ? span : binary(s, SPAN_MEET, span, box);
}

typedef struct Finder {
  Reach *s;
  int argument, kinds, count, span;
  bool anywhere;
} Finder;

static int kinds_of(const Op *op) {
  if (op->code == OP_ASM) return op_is_pure(op) ? REACH_READS : REACH_READS | REACH_WRITES;
  if (!op_is_access(op)) return 0;
  return op_is_load(op) ? REACH_READS : op->code == OP_STORE ? REACH_WRITES : REACH_READS | REACH_WRITES;
}

static void visit_access(Op *op, void *arg) {
  Finder *f = arg;
  if (!(kinds_of(op) & f->kinds) || f->anywhere) return;
  const Provenance *p = f->s->provenance;
  if (op->code == OP_ASM) { /* may do with a pointer what it likes */
    for (int i = 0; i < op->in_count; i++)
      f->anywhere |= op->in[i]->type->ptr && provenance_may_be(p, op->in[i], f->argument);
    return;
  }
  if (!provenance_may_be(p, op->in[0], f->argument)) return;
  if (provenance_argument(p, op->in[0]) != f->argument || ++f->count > MOST_ACCESSES) f->anywhere = true;
  else f->span = binary(f->s, SPAN_JOIN, f->span, access_span(f->s, op));
}

/* ---- to the outside ---- */

Reach *reach_create(Arena *a, const Func *f, const Provenance *p) {
  Reach *r = NEW(a, Reach);
  *r = (Reach){.f = f, .arena = a, .provenance = p, .shared = NEW_N(a, int, f->value_count + 1)};
  all(r); /* the first one */
  return r;
}

int reach_through(Reach *r, int arg, int kinds) {
  Finder f = {.s = r, .argument = arg, .kinds = kinds, .span = number(r, 0, -1)};
  tile_walk(r->f->body, visit_access, &f);
  return f.anywhere ? all(r) : f.span;
}

const SpanStep *reach_steps(const Reach *r, int *count) {
  *count = r->steps.n;
  return r->steps.at;
}
