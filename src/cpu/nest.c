/* A Group's loop nest. Nothing is placed in advance: each root asks for the values it needs at its own index (demand),
 * those ask for theirs, and each is written once, at the outermost level where its indices are known.
 *
 * View operations (splat, expand_dims, broadcast, trans) write nothing: they ask for their operand at another index. An
 * index is a map: dim k of the value runs with dim map[k] of the nest, or stands at 0 (-1).
 */
#include "cpu/nest.h"

Buf *nest_at(Nest *n, int level) {
  if (level >= n->vector_level) return &n->body;
  return n->mode == REST && level == n->loops ? &n->rest : &n->at[level];
}

void nest_put(Nest *n, Buf *b, int level, const char *format, ...) {
  for (int i = 0; i < n->e->indent + 1 + level; i++) buf_puts(b, "  ");
  va_list ap;
  va_start(ap, format);
  buf_vprintf(b, format, ap);
  va_end(ap);
  buf_putc(b, '\n');
}

const char *nest_declare(Nest *n, int level, Dtype d, const Value *v, const char *value) {
  bool vector = level >= n->vector_level;
  const char *name = fresh_name(n->e, v);
  Buf *b = nest_at(n, level);
  if (v && v->def && n->pass == 0) quote_source(n->e, b, n->e->indent + 1 + level, v->def->span);
  nest_put(n, b, level, "const nd_%s%s %s = %s;", dtype_name(held_dtype(d)), vector ? "v" : "", name, value);
  return name;
}

const char *as_vector(Nest *n, const NestText *t) {
  return t->level >= n->vector_level ? t->name : splat_text(n->e, t->dtype, t->name);
}
const char *as_form(Nest *n, const NestText *t, bool vector) { return vector ? as_vector(n, t) : t->name; }

const char *index_name(Nest *n, int dim) {
  return n->copy && dim == n->vector_dim ? emit_text(n->e, "(i%d + %d * ND_VL)", dim, n->copy)
                                         : emit_text(n->e, "i%d", dim);
}

const char *nest_named(Nest *n, int level, const char *value) {
  for (int i = 0; i < n->names.n; i++)
    if (n->names.at[i].level == level && !strcmp(n->names.at[i].value, value)) return n->names.at[i].name;
  const char *name = fresh_name(n->e, NULL);
  nest_put(n, nest_at(n, level), level, "const int64_t %s = %s;", name, value);
  vec_push(n->e->arena, &n->names, (NamedText){level, value, name});
  return name;
}

/* A 64-bit scalar expression; sums and products get a variable before the nest. */
const char *sym_text(Nest *n, Sym *s) {
  stack_guard();
  Emit *e = n->e;
  if (s->local) return s->local;
  const char *t;
  switch (s->kind) {
    case SYM_CONST: return emit_literal(e, DT_I64, s->number, 0);
    case SYM_VALUE: {
      const char *name = scalar_text(e, s->value);
      return type_dtype(s->value->type) == DT_I64 ? name : emit_text(e, "(int64_t)%s", name);
    }
    case SYM_ADD: t = emit_text(e, "%s + %s", sym_text(n, s->l), sym_text(n, s->r)); break;
    default: t = emit_text(e, "%s * %s", sym_text(n, s->l), sym_text(n, s->r)); break;
  }
  const char *name = nest_named(n, 0, t);
  s->local = name;
  vec_push(e->arena, &n->syms, s);
  return name;
}

static bool same_map(const int8_t *a, const int8_t *b, int rank) {
  for (int k = 0; k < rank; k++)
    if (a[k] != b[k]) return false;
  return true;
}

/* Index arithmetic as numbers: a vector of base + i * step. */
static NestText index_value(Nest *n, Value *v, const Index *x, const int8_t *map) {
  stack_guard();
  Emit *e = n->e;
  Dtype d = type_dtype(v->type);
  int level, term_count;
  Sym *step, *scales[MAX_TERMS];
  const NestText *terms[MAX_TERMS];
  const char *base = index_base(n, x, v->type->rank, map, &level, &step, terms, scales, &term_count);
  const char *cast = d == DT_I64 ? "" : "(nd_i32)";
  NestText t = {.dtype = d};
  if (sym_is(step, 0)) {
    t.level = level;
    t.name = d == DT_I64 ? base : emit_text(e, "((nd_i32)%s)", base);
    return t;
  }
  t.level = n->vector_level;
  const char *iv = index_name(n, n->vector_dim), *tn = dtype_name(d);
  const char *value;
  if (sym_is(step, 1)) value = emit_text(e, "nd_splat_%sv(%s(%s + %s)) + nd_iota_%sv()", tn, cast, base, iv, tn);
  else
    value = emit_text(e, "nd_splat_%sv(%s(%s + %s * %s)) + nd_iota_%sv() * nd_splat_%sv(%s%s)", tn, cast, base, iv,
                      sym_text(n, step), tn, tn, cast, sym_text(n, step));
  t.name = nest_declare(n, t.level, d, v, value);
  return t;
}

static NestText element_value(Nest *n, Value *v, const int8_t *map) {
  stack_guard();
  Emit *e = n->e;
  Op *op = v->def;
  NestText t = {.dtype = type_dtype(v->type)};
  if (op->code == OP_SELECT) { /* on a mask that holds for all lanes of this pass, or for none */
    Mask m = {0};
    mask_add(n, &m, op->in[0], map);
    if (!m.cond && !m.never && !m.vector && (n->mode != MASKED || (!m.hi && !m.lo))) {
      bool always = !m.hi && !m.lo;
      const char *mask = mask_vector(n, &m);
      if (!mask || mask == NO_LANES) {
        t = *nest_demand(n, op->in[mask ? 2 : 1], map);
        /* True in this pass only: what is made of it, a constant too, must not be found again by the next. */
        if (!always && n->mode == WHOLE && t.level < n->vector_level) {
          t.name = as_vector(n, &t);
          t.level = n->vector_level;
        }
        return t;
      }
    }
  }
  const NestText *in[4];
  for (int i = 0; i < op->in_count; i++) {
    in[i] = nest_demand(n, op->in[i], map);
    if (in[i]->level > t.level) t.level = in[i]->level;
  }
  bool vector = t.level >= n->vector_level;
  const char *names[4];
  for (int i = 0; i < op->in_count; i++) names[i] = as_form(n, in[i], vector);
  t.name = nest_declare(n, t.level, t.dtype, v, element_text(e, op, names, vector));
  return t;
}

static NestText value_text(Nest *n, Value *v, const int8_t *map) {
  stack_guard();
  Emit *e = n->e;
  Info *info = info_of(e, v);
  Op *op = v->def;
  Dtype d = type_dtype(v->type);
  if (v->type->rank == 0) return (NestText){.name = scalar_text(e, v), .dtype = d};
  bool recomputable = value_is_recomputable(e, v);
  if (info->view && !recomputable && (info->owner != n->g || info->closed) && !loads_here(n->g, op))
    return load_view(n, info->view, v->type, map);
  if (op_is_view(op)) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(op, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : map[m[k]];
    return *nest_demand(n, op->in[0], inner);
  }
  if (op->code == OP_CONST) return (NestText){.name = const_text(e, op), .dtype = d};
  if (recomputable && index_is_plain(e, v)) return index_value(n, v, index_of(e, v), map);
  if (op->code == OP_LOAD) return load_value(n, op, map);
  return element_value(n, v, map);
}

const NestText *nest_demand(Nest *n, Value *v, const int8_t *map) {
  Info *info = info_of(n->e, v);
  for (NestText *t = info->text; t; t = t->next)
    if (same_map(t->map, map, v->type->rank)) return t;
  NestText made = value_text(n, v, map);
  NestText *t = NEW(n->e->arena, NestText);
  *t = made;
  memcpy(t->map, map, sizeof t->map);
  if (!info->text) vec_push(n->e->arena, &n->touched, info);
  t->next = info->text;
  info->text = t;
  return t;
}

/* ---- the frame --------------------------------------------------------------------------------------------------- */

static void run_roots(Nest *n) {
  stack_guard();
  for (int i = 0; i < n->g->roots.n; i++) {
    FusionRoot *r = n->g->roots.at[i];
    switch (r->kind) {
      case ROOT_KEEP: keep_root(n, r); break;
      case ROOT_STORE: store_root(n, r); break;
      case ROOT_ATOMIC: atomic_root(n, r); break;
      case ROOT_REDUCE: reduce_root(n, r); break;
    }
  }
}

static void forget_vectors(Nest *n) {
  for (int i = 0; i < n->touched.n; i++) {
    NestText **at = &n->touched.at[i]->text;
    while (*at) {
      if ((*at)->level >= n->vector_level) *at = (*at)->next;
      else at = &(*at)->next;
    }
  }
  n->first_count = 0;
}

/* A piece of the nest's text, in the arena: when memory runs out, the compilation fails there and then. */
static Buf piece(Emit *e) { return (Buf){.arena = e->arena}; }

static void take(Emit *e, Buf *b) {
  if (b->n) buf_write(e->out, b->at, b->n);
  *b = piece(e);
}

/* A vector loop: `for (HEAD)` around body and sinks. */
static void vector_loop(Nest *n, Buf *body, Buf *sinks, const char *head) {
  Emit *e = n->e;
  emit_line(e, "for (int64_t %s) {", head);
  take(e, body);
  take(e, sinks);
  emit_line(e, "}");
}

static const char *upwards(Nest *n, const char *from, const char *to) {
  const char *i = index_name(n, n->vector_dim);
  return emit_text(n->e, "%s = %s; %s < %s; %s += ND_VL", i, from, i, to, i);
}

/* min or max of the texts. */
static const char *fold_text(Emit *e, const char *fn, const char *const *at, int count) {
  const char *t = at[0];
  for (int i = 1; i < count; i++) {
    bool seen = false;
    for (int k = 0; k < i; k++) seen |= !strcmp(at[k], at[i]);
    if (!seen) t = emit_text(e, "nd_%s_i64(%s, %s)", fn, t, at[i]);
  }
  return t;
}

enum { MAX_COPIES = 4 };

/* The copies' statements in turn, so that neighbours do not wait for each other. They are the same but for their names.
 */
static void interleave(Buf *out, Buf *each, int copies) {
  size_t at[MAX_COPIES] = {0};
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < copies; i++) {
      const char *end = at[i] < each[i].n ? memchr(each[i].at + at[i], '\n', each[i].n - at[i]) : NULL;
      if (!end) continue;
      size_t n = (size_t)(end - each[i].at) + 1 - at[i];
      buf_write(out, each[i].at + at[i], n);
      at[i] += n;
      more = true;
    }
  }
}

/* How many vectors an iteration of the loop over whole vectors takes. One sum or maximum after another waits for the
 * last, and so does a chain like exp(..) / ..: several at once keep the machine busy where the body is short enough. */
static int copies_of(Nest *n, const Buf *body, const Buf *sinks) {
  Emit *e = n->e;
  if (n->vector_dim < 0 || n->width < 256) return 1;
  bool reduces = false;
  for (int i = 0; i < n->g->roots.n; i++) {
    const FusionRoot *r = n->g->roots.at[i];
    if (r->kind == ROOT_ATOMIC) return 1;
    if (r->kind != ROOT_REDUCE) continue;
    if ((int)r->op->axis != n->vector_dim || !reduce_splits(e, r->op)) return 1;
    reduces = true;
  }
  if (!reduces && !n->e->met_slow) return 1;
  int lines = 0;
  for (size_t i = 0; i < body->n; i++) lines += body->at[i] == ';';
  for (size_t i = 0; i < sinks->n; i++) lines += sinks->at[i] == ';';
  return lines <= 8 ? MAX_COPIES : lines <= 20 ? 2 : 1;
}

/* The vector loops of the passes. */
static void write_vector_loops(Nest *n, Buf *body, Buf *sinks, int copies, Buf *many, Buf *many_sinks) {
  Emit *e = n->e;
  const char *width = emit_text(e, "%lld", (long long)n->width), *i = index_name(n, n->vector_dim), *from = "0";
  if (n->bounds.n) {
    const char *end = fold_text(e, "min", n->bounds.at, n->bounds.n);
    emit_line(e, "const int64_t whole = nd_min_i64(nd_max_i64(%s, 0), %s) / ND_VL * ND_VL;", end, width);
  }
  if (copies > 1) {
    const char *end = n->bounds.n ? "whole" : width;
    emit_line(e, "const int64_t many = %s / (%d * ND_VL) * (%d * ND_VL);", end, copies, copies);
    vector_loop(n, many, many_sinks, emit_text(e, "%s = 0; %s < many; %s += %d * ND_VL", i, i, i, copies));
    take(e, &n->merge);
    from = "many";
  }
  if (!n->bounds.n) {
    vector_loop(n, &body[WHOLE], &sinks[WHOLE], upwards(n, from, width));
    return;
  }
  vector_loop(n, &body[WHOLE], &sinks[WHOLE], upwards(n, from, "whole"));
  const char *last = fold_text(e, "max", n->ends.at, n->ends.n);
  emit_line(e, "const int64_t rest = nd_max_i64(whole, nd_min_i64((%s + ND_VL - 1) / ND_VL * ND_VL, %s));", last,
            width);
  vector_loop(n, &body[MASKED], &sinks[MASKED], upwards(n, "whole", "rest"));
  if (sinks[REST].n) { /* what nothing is done with is not computed */
    emit_line(e, "if (rest < %s) {", width);
    take(e, &n->rest);
    vector_loop(n, &body[REST], &sinks[REST], upwards(n, "rest", width));
    emit_line(e, "}");
  }
}

void emit_group(Emit *e, Group *g) {
  stack_guard();
  Nest nest = {.e = e, .g = g, .vector_dim = g->vector_dim}, *n = &nest;
  for (int d = 0; d < g->rank; d++) {
    if (g->shape[d] == 1 || d == n->vector_dim) continue;
    n->loop_dim[n->loops++] = d;
    n->dim_level[d] = n->loops;
  }
  n->vector_level = n->loops + 1;
  if (n->vector_dim >= 0) {
    n->width = g->shape[n->vector_dim];
    n->dim_level[n->vector_dim] = n->vector_level;
  }
  /* Scalar results are declared outside. */
  for (int i = 0; i < g->roots.n; i++) {
    FusionRoot *r = g->roots.at[i];
    if (r->kind != ROOT_REDUCE) continue;
    for (int k = 0; k < r->op->out_count; k++) {
      Value *v = r->op->out[k];
      if (v->type->rank == 0) emit_line(e, "nd_%s %s;", dtype_name(held_dtype(type_dtype(v->type))), value_name(e, v));
    }
  }
  Buf body[3], sinks[3], many = piece(e), many_sinks = piece(e);
  for (int k = 0; k < 3; k++) body[k] = sinks[k] = piece(e);
  for (int l = 0; l <= MAX_RANK; l++) n->at[l] = n->after[l] = piece(e);
  n->body = n->sinks = n->rest = n->merge = piece(e);
  int copies = 1;
  n->mode = n->width >= 16 ? WHOLE : MASKED; /* no machine has longer vectors */
  for (bool more = true; more; n->pass++) {
    forget_vectors(n);
    e->met_slow = false;
    run_roots(n);
    int k = n->pass == 0 ? WHOLE : (int)n->mode;
    body[k] = n->body, sinks[k] = n->sinks;
    n->body = n->sinks = piece(e);
    if (n->pass == 0 && n->mode == WHOLE) copies = copies_of(n, &body[WHOLE], &sinks[WHOLE]);
    if (n->pass == 0 && copies > 1) {
      n->pass = 1;
      Buf each[MAX_COPIES];
      for (n->copy = 0; n->copy < copies; n->copy++) {
        forget_vectors(n);
        run_roots(n);
        each[n->copy] = n->body;
        n->body = piece(e);
      }
      n->copy = 0;
      interleave(&many, each, copies);
      many_sinks = n->sinks;
      n->sinks = piece(e);
    }
    more = n->mode != REST && n->bounds.n > 0;
    n->mode = n->mode == WHOLE ? MASKED : REST;
  }
  emit_line(e, "{");
  take(e, &n->at[0]);
  int indent = e->indent++;
  for (int l = 0; l < n->loops; l++) {
    const char *i = index_name(n, n->loop_dim[l]);
    if (n->loop_dim[l] == 0 && g->from) emit_line(e, "for (int64_t %s = %s; %s < %s; %s++) {", i, g->from, i, g->to, i);
    else emit_line(e, "for (int64_t %s = 0; %s < %d; %s++) {", i, i, g->shape[n->loop_dim[l]], i);
    take(e, &n->at[l + 1]);
    e->indent++;
  }
  if (n->vector_dim < 0) {
    take(e, &body[WHOLE]);
    take(e, &sinks[WHOLE]);
  } else {
    write_vector_loops(n, body, sinks, copies, &many, &many_sinks);
  }
  for (int l = n->loops; l > 0; l--) {
    take(e, &n->after[l]);
    e->indent--;
    emit_line(e, "}");
  }
  take(e, &n->after[0]);
  e->indent = indent;
  emit_line(e, "}");
  for (int i = 0; i < n->touched.n; i++) n->touched.at[i]->text = NULL;
  for (int i = 0; i < n->syms.n; i++) n->syms.at[i]->local = NULL;
}
