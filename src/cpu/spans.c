/* spans: C text that finds out at a launch whether arrays overlap on which the
 * plan relies that they do not.
 *
 *     int nereid_apart(const uint64_t *args, const int32_t grid[3], const
 * NereidHost *host)
 *
 * For each of those arguments it computes which bytes the launch may touch, as
 * an interval, from the kernel's own index arithmetic over the intervals of
 * program ids, loop variables and aranges:
 *
 *     offs = program_id(0) * 1024 + arange(0, 1024)      [0, (grid - 1) * 1024
 * + 1023] load x + offs, mask = offs < n                     x + 4 * [0, n - 1]
 *
 * A mask narrows the values that it compares, where they stand at the element's
 * own index: `i[:, None] < m` says nothing of i[None, :]. What depends on data
 * has the interval of its type; then the host is asked where the array ends.
 * Who does not know either runs the text for arguments that overlap.
 */
#include "cpu/emit.h"

enum { MOST_DEPTH = 100, MOST_ACCESSES = 16, ANYWHERE = -2 };

typedef struct Narrow { /* value, at that index, is less (or more) than `by` */
  const Value *value;
  int8_t map[MAX_RANK];
  bool below, equal;
  const char *by;
} Narrow;

typedef struct Known {
  const Value *value;
  int8_t map[MAX_RANK];
  const char *name;
} Known;

typedef struct Spans {
  Emit *e;
  const char **shared; /* by value id: what no mask narrows */
  VEC(Narrow) narrowed;
  VEC(Known) known;  /* under them */
  const Value *mask; /* of which they were read; NULL: none */
  int count, depth;
} Spans;

/* At no index that a mask knows. */
static const int8_t anywhere[MAX_RANK] = {ANYWHERE, ANYWHERE, ANYWHERE, ANYWHERE,
                                          ANYWHERE, ANYWHERE, ANYWHERE, ANYWHERE};

static const char *span_of(Spans *s, Value *v, const int8_t *map);

static const char *declare_span(Spans *s, const char *value) {
  const char *name = emit_text(s->e, "s%d", ++s->count);
  emit_line(s->e, "const NdSpan %s = %s;", name, value);
  return name;
}

static const char ALL[] = "nd_span_all()";

static const char *whole_type(Spans *s, const Type *t) {
  if (t->ptr || !dtype_is_int(t->dtype) || dtype_bits(t->dtype) == 64) return ALL;
  int bits = dtype_bits(t->dtype);
  int64_t most = ((int64_t)1 << (dtype_is_signed(t->dtype) ? bits - 1 : bits)) - 1;
  return emit_text(s->e, "nd_span_of(INT64_C(%lld), INT64_C(%lld))",
                   (long long)(dtype_is_signed(t->dtype) ? -most - 1 : 0), (long long)most);
}

/* A result may wrap around in a type below 64 bits. */
static const char *fitted(Spans *s, const Type *t, const char *value) {
  if (t->ptr || dtype_bits(t->dtype) == 64) return value;
  const char *whole = whole_type(s, t);
  return emit_text(s->e, "nd_span_fit(%s, %s", value, strchr(whole, '(') + 1);
}

static const char *call(Spans *s, const char *fn, const char *a, const char *b) {
  return emit_text(s->e, "nd_span_%s(%s, %s)", fn, a, b);
}

/* ---- loops ---- */

static bool is_outside(const Value *v, const Op *loop) {
  for (const Block *b = value_block(v); b && b->parent; b = b->parent->block)
    if (b->parent == loop) return false;
  return true;
}

/* What carried value `index` gains each time round, as a span; NULL: not a
 * fixed sum. */
static const char *gain(Spans *s, const Op *loop, int index) {
  const Value *arg = loop->body[0]->args[index + 1];
  Value *next = loop->body[0]->last->in[index];
  const char *sum = "nd_span_of(0, 0)";
  for (int i = 0; next != arg; i++) {
    const Op *op = next->def;
    if (!op || i == 16 || (op->code != OP_ADD && op->code != OP_SUB && op->code != OP_ADDPTR)) return NULL;
    int own = op->code == OP_ADD && is_outside(op->in[0], loop) ? 1 : 0;
    Value *more = op->in[1 - own];
    if (!is_outside(more, loop) && !(more->def && more->def->code == OP_CONST)) return NULL;
    const char *by = span_of(s, more, anywhere);
    if (op->code == OP_ADDPTR)
      by = emit_text(s->e, "nd_span_times(%s, nd_span_of(%d, %d))", by,
                     type_elem_bytes(type_pointee(s->e->cx, next->type)),
                     type_elem_bytes(type_pointee(s->e->cx, next->type)));
    sum = call(s, op->code == OP_SUB ? "minus" : "plus", sum, by);
    next = op->in[own];
  }
  return sum;
}

/* The value carried at `index`, during the loop or after it. */
static const char *carried(Spans *s, const Op *loop, int index, bool after) {
  stack_guard();
  const Type *t = loop->body[0]->args[index + 1]->type;
  const char *by = gain(s, loop, index);
  if (!by) return whole_type(s, t);
  const char *rounds = emit_text(s->e, "nd_span_rounds(%s, %s, %s, %d)", span_of(s, loop->in[0], anywhere),
                                 span_of(s, loop->in[1], anywhere), span_of(s, loop->in[2], anywhere), after);
  return fitted(s, t, call(s, "plus", span_of(s, loop->in[3 + index], anywhere), call(s, "times", rounds, by)));
}

static const char *argument_span(Spans *s, const Value *v) {
  const Op *parent = v->block->parent;
  if (!parent) {
    if (v->type->ptr) return "nd_span_of(0, 0)";
    if (!dtype_is_int(v->type->dtype)) return ALL;
    const char *name = value_name(s->e, (Value *)v);
    return emit_text(s->e, "nd_span_of((int64_t)%s, (int64_t)%s)", name, name);
  }
  if (parent->code == OP_FOR) {
    if (v->index > 0) return carried(s, parent, v->index - 1, false);
    return emit_text(s->e, "nd_span_loop(%s, %s, %s)", span_of(s, parent->in[0], anywhere),
                     span_of(s, parent->in[1], anywhere), span_of(s, parent->in[2], anywhere));
  }
  return whole_type(s, v->type);
}

/* ---- operations ---- */

static const char *op_span(Spans *s, Value *v, const int8_t *map) {
  Op *op = v->def;
  Emit *e = s->e;
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
      long long n = t->dtype == DT_I1 && !t->ptr ? op->attr[0] != 0 : op->attr[0];
      if (t->ptr || !dtype_is_int(t->dtype) || n == INT64_MIN) return whole_type(s, t);
      return emit_text(e, "nd_span_of(INT64_C(%lld), INT64_C(%lld))", n, n);
    }
    case OP_PROGRAM_ID: return emit_text(e, "nd_span_of(0, grid[%d] - 1)", (int)op->attr[0]);
    case OP_NUM_PROGRAMS: return emit_text(e, "nd_span_of(grid[%d], grid[%d])", (int)op->attr[0], (int)op->attr[0]);
    case OP_ARANGE:
      return emit_text(e, "nd_span_of(%lld, %lld)", (long long)op->attr[0], (long long)op->attr[0] + t->shape[0] - 1);
    case OP_RESHAPE:
    case OP_SORT: return span_of(s, op->in[0], anywhere);
    case OP_GATHER: return span_of(s, op->in[0], anywhere);
    case OP_JOIN:
    case OP_CAT: return call(s, "join", span_of(s, op->in[0], anywhere), span_of(s, op->in[1], anywhere));
    case OP_SPLIT: return span_of(s, op->in[0], anywhere);
    case OP_ADD: return fitted(s, t, call(s, "plus", span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    case OP_SUB: return fitted(s, t, call(s, "minus", span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    case OP_MUL: return fitted(s, t, call(s, "times", span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    case OP_DIV:
    case OP_REM:
    case OP_MIN:
    case OP_MAX: {
      if (is_u64) return ALL;
      const char *fn = op->code == OP_DIV   ? "over"
                       : op->code == OP_REM ? "rest"
                       : op->code == OP_MIN ? "least"
                                            : "most";
      return fitted(s, t, call(s, fn, span_of(s, op->in[0], map), span_of(s, op->in[1], map)));
    }
    case OP_SHL: {
      int64_t by;
      if (!value_is_const(op->in[1], &by) || by < 0 || by > 62) return whole_type(s, t);
      const char *factor = emit_text(e, "nd_span_of(INT64_C(%lld), INT64_C(%lld))", 1LL << by, 1LL << by);
      return fitted(s, t, call(s, "times", span_of(s, op->in[0], map), factor));
    }
    case OP_AND: { /* with what is not negative */
      int64_t mask;
      for (int i = 0; i < 2; i++)
        if (value_is_const(op->in[i], &mask) && mask >= 0)
          return emit_text(e, "nd_span_of(0, INT64_C(%lld))", (long long)mask);
      return whole_type(s, t);
    }
    case OP_SELECT: return call(s, "join", span_of(s, op->in[1], map), span_of(s, op->in[2], map));
    case OP_CONVERT:
      if (t->ptr || op->in[0]->type->ptr || !dtype_is_int(op->in[0]->type->dtype)) return whole_type(s, t);
      return is_u64 ? ALL : fitted(s, t, span_of(s, op->in[0], map));
    case OP_BITCAST: return t->ptr && op->in[0]->type->ptr ? span_of(s, op->in[0], map) : whole_type(s, t);
    case OP_ADDPTR: {
      int bytes = type_elem_bytes(type_pointee(e->cx, t));
      const char *offset =
          emit_text(e, "nd_span_times(%s, nd_span_of(%d, %d))", span_of(s, op->in[1], map), bytes, bytes);
      return call(s, "plus", span_of(s, op->in[0], map), offset);
    }
    case OP_FOR: return carried(s, op, v->index, true);
    case OP_IF:
      return call(s, "join", span_of(s, op->body[0]->last->in[v->index], anywhere),
                  span_of(s, op->body[1]->last->in[v->index], anywhere));
    default: return whole_type(s, t);
  }
}

static bool same_place(const int8_t *a, const int8_t *b, int rank) {
  for (int k = 0; k < rank; k++)
    if (a[k] != b[k] || a[k] == ANYWHERE) return false;
  return true;
}

static const char *span_of(Spans *s, Value *v, const int8_t *map) {
  stack_guard();
  Emit *e = s->e;
  int rank = v->type->rank;
  bool shared = rank == 0 || !s->narrowed.n;
  if (shared && s->shared[v->id]) return s->shared[v->id];
  for (int i = 0; !shared && i < s->known.n; i++)
    if (s->known.at[i].value == v && !memcmp(s->known.at[i].map, map, (size_t)rank)) return s->known.at[i].name;
  if (s->depth == MOST_DEPTH) return ALL;
  s->depth++;
  const char *span = v->def ? op_span(s, v, map) : argument_span(s, v);
  s->depth--;
  for (int i = 0; rank && i < s->narrowed.n; i++) {
    const Narrow *n = &s->narrowed.at[i];
    if (n->value != v || !same_place(n->map, map, rank)) continue;
    span = emit_text(e, "nd_span_%s(%s, %s, %d)", n->below ? "below" : "above", span, n->by, n->equal);
  }
  span = declare_span(s, span);
  if (shared) {
    s->shared[v->id] = span;
  } else {
    Known k = {.value = v, .name = span};
    memcpy(k.map, map, sizeof k.map);
    vec_push(e->arena, &s->known, k);
  }
  return span;
}

/* ---- masks ---- */

/* By `by`, at the value that v renames or widens. */
static void narrow(Spans *s, Value *v, const int8_t *map, bool below, bool equal, const char *by) {
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
  vec_push(s->e->arena, &s->narrowed, n);
}

typedef struct Comparison {
  Op *op;
  int8_t map[MAX_RANK];
} Comparison;
typedef VEC(Comparison) Comparisons;

static void comparisons_of(Spans *s, Value *mask, const int8_t *map, Comparisons *out) {
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
  } else if (op->code == OP_CMP && op->attr[0] >= CMP_LT && op->attr[0] <= CMP_GE && !op->in[0]->type->ptr &&
             dtype_is_int(op->in[0]->type->dtype) && op->in[0]->type->dtype != DT_U64) {
    Comparison c = {.op = op};
    memcpy(c.map, map, sizeof c.map);
    vec_push(s->e->arena, out, c);
  }
}

static void narrow_by(Spans *s, Value *mask, const int8_t *map) {
  Comparisons all = {0};
  comparisons_of(s, mask, map, &all);
  for (int i = 0; i < all.n; i++) {
    Op *op = all.at[i].op;
    const int8_t *at = all.at[i].map;
    bool below = op->attr[0] == CMP_LT || op->attr[0] == CMP_LE, equal = op->attr[0] == CMP_LE || op->attr[0] == CMP_GE;
    const char *x = span_of(s, op->in[0], at), *y = span_of(s, op->in[1], at);
    narrow(s, op->in[0], at, below, equal, y);
    narrow(s, op->in[1], at, !below, equal, x);
    s->known.n = 0; /* what was known is narrower now */
  }
}

/* ---- accesses ---- */

static void add_access(Spans *s, Op *op, int argument) {
  Emit *e = s->e;
  const Type *t = op->in[0]->type;
  int8_t map[MAX_RANK];
  for (int k = 0; k < MAX_RANK; k++) map[k] = k < t->rank && t->shape[k] > 1 ? (int8_t)k : -1;
  Value *by = op_mask(op);
  if (by != s->mask) {
    s->narrowed.n = s->known.n = 0;
    if (by) narrow_by(s, by, map);
    s->mask = by;
  }
  emit_line(e, "a%d = nd_span_join(a%d, nd_span_bytes(%s, %d));", argument, argument, span_of(s, op->in[0], map),
            type_elem_bytes(type_pointee(e->cx, t)));
}

typedef struct Finder {
  Spans *s;
  int argument, count;
  bool anywhere;
} Finder;

static void visit_access(Op *op, void *arg) {
  Finder *f = arg;
  if (!op_is_access(op) || f->anywhere) return;
  if (!provenance_may_be(f->s->e->provenance, op->in[0], f->argument)) return;
  bool only = provenance_argument(f->s->e->provenance, op->in[0]) == f->argument;
  if (only && ++f->count <= MOST_ACCESSES) add_access(f->s, op, f->argument);
  else f->anywhere = true;
}

void write_apart(Emit *e) {
  const Func *f = e->f;
  Spans spans = {.e = e, .shared = NEW_N(e->arena, const char *, f->value_count + 1)}, *s = &spans;
  if (!e->apart.n) return;
  buf_puts(e->out, "\n__attribute__((visibility(\"default\"))) int "
                   "nereid_apart(const uint64_t *args, const "
                   "int32_t grid[3],\n                                 const "
                   "NereidHost *host) {\n");
  e->indent = 1;
  bool *wanted = NEW_N(e->arena, bool, f->body->arg_count + 1);
  for (int i = 0; i < e->apart.n; i++) wanted[e->apart.at[i].a] = wanted[e->apart.at[i].b] = true;
  for (int k = 0; k < f->body->arg_count; k++) {
    Value *v = f->body->args[k];
    if (!v->type->ptr && dtype_is_int(v->type->dtype)) write_argument(e, k, v);
    if (wanted[k]) emit_line(e, "NdSpan a%d = nd_span_of(0, -1);", k);
  }
  for (int k = 0; k < f->body->arg_count; k++) {
    if (!wanted[k]) continue;
    Finder finder = {.s = s, .argument = k};
    tile_walk(f->body, visit_access, &finder);
    if (finder.anywhere) emit_line(e, "a%d = %s;", k, ALL);
  }
  for (int i = 0; i < e->apart.n; i++) {
    const ArgPair *p = &e->apart.at[i];
    emit_line(e, "if (!nd_span_apart(a%d, args[%d], a%d, args[%d], %d, host)) return 0;", p->a, p->a, p->b, p->b,
              p->or_same);
  }
  emit_line(e, "return 1;");
  buf_puts(e->out, "}\n");
}
