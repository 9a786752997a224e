/* Loads, stores and masks of a nest.
 *
 * An address is an Index: a scalar part, known at some outer level, and what the vector dim adds. Adding the element's
 * size is one vector access; adding nothing a scalar one, shared by all lanes; adding something else a strided one; a
 * term that runs with the vector dim makes a gather.
 *
 * A mask is taken apart the same way. `offs < n` along the vector dim is a range of indices: whole vectors inside it
 * need no mask at all, and the nest runs them in a loop of their own. What does not run with the vector dim becomes a
 * scalar condition, which is the range 0..0 where it fails. What remains is a vector of lanes.
 */
#include "cpu/nest.h"

static int max_int(int a, int b) { return a > b ? a : b; }

const char *index_base(Nest *n, const Index *x, int rank, const int8_t *map, int *level, Sym **step,
                       const NestText **terms, Sym **scales, int *term_count) {
  Emit *e = n->e;
  const char *at = sym_text(n, x->base);
  *level = 0;
  *step = sym_const(e, 0);
  for (int d = 0; d < rank; d++)
    if (map[d] >= 0 && map[d] == n->vector_dim) *step = sym_add(e, *step, x->coef[d]);
  for (int l = 1; l <= n->loops; l++) {
    Sym *coef = sym_const(e, 0);
    for (int d = 0; d < rank; d++)
      if (map[d] == n->loop_dim[l - 1]) coef = sym_add(e, coef, x->coef[d]);
    if (sym_is(coef, 0)) continue;
    const char *i = index_name(n, n->loop_dim[l - 1]);
    if (!sym_is(coef, 1)) i = emit_text(e, "%s * %s", i, sym_text(n, coef));
    if (strcmp(at, "0") != 0) i = emit_text(e, "%s + %s", at, i);
    at = nest_named(n, l, i);
    *level = l;
  }
  *term_count = 0;
  for (int i = 0; i < x->term_count; i++) {
    int8_t inner[MAX_RANK];
    for (int k = 0; k < MAX_RANK; k++) inner[k] = x->term[i].dim[k] < 0 ? -1 : map[x->term[i].dim[k]];
    const NestText *t = nest_demand(n, x->term[i].value, inner);
    if (t->level >= n->vector_level) {
      terms[*term_count] = t;
      scales[(*term_count)++] = x->term[i].scale;
      continue;
    }
    *level = max_int(*level, t->level);
    at = nest_named(n, *level, emit_text(e, "%s + (int64_t)%s * %s", at, t->name, sym_text(n, x->term[i].scale)));
  }
  return at;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static bool is_signed_index(const Value *v) { return !v->type->ptr && dtype_is_signed(v->type->dtype); }

static void narrow(Nest *n, Mask *m, const char *lo, const char *hi, int level) {
  const char **mine = lo ? &m->lo : &m->hi, *more = lo ? lo : hi;
  m->range_level = max_int(m->range_level, level);
  if (*mine && strcmp(*mine, more) != 0)
    more = nest_named(n, m->range_level, emit_text(n->e, "nd_%s_i64(%s, %s)", lo ? "max" : "min", *mine, more));
  *mine = more;
}

/* x - y < 0 (or <= 0 when `equal`) along the vector dim, as a bound of its index. */
static bool range_of(Nest *n, Mask *m, Value *v, const Index *x, const Index *y, int rank, const int8_t *map,
                     bool equal) {
  stack_guard();
  Emit *e = n->e;
  for (int i = 0; i < n->range_count; i++) {
    if (n->ranges[i].value != v || memcmp(n->ranges[i].map, map, (size_t)rank) != 0) continue;
    narrow(n, m, n->ranges[i].lo, n->ranges[i].hi, n->ranges[i].level);
    return true;
  }
  /* sign: +1 for x - y, -1 for y - x. */
  Sym *plus = sym_const(e, 1), *minus = sym_const(e, -1);
  Sym *step = sym_const(e, 0);
  for (int d = 0; d < rank; d++)
    if (map[d] >= 0 && map[d] == n->vector_dim)
      step = sym_add(e, step, sym_add(e, x->coef[d], sym_mul(e, y->coef[d], minus)));
  if (step->kind != SYM_CONST || step->number == 0 || step->number > 1024 || step->number < -1024) return false;
  int64_t c = step->number;
  bool flip = c == 1; /* i < y - x */
  Index diff = {.base = sym_add(e, sym_mul(e, x->base, flip ? minus : plus), sym_mul(e, y->base, flip ? plus : minus))};
  for (int d = 0; d < MAX_RANK; d++)
    diff.coef[d] = sym_add(e, sym_mul(e, x->coef[d], flip ? minus : plus), sym_mul(e, y->coef[d], flip ? plus : minus));
  if (equal) diff.base = sym_add(e, diff.base, flip ? plus : minus);
  int level, count;
  const char *b = index_base(n, &diff, rank, map, &level, &step, NULL, NULL, &count), *name;
  if (flip) name = b;
  else if (c > 0) name = nest_named(n, level, emit_text(e, "(%lld - %s) / %lld", (long long)(c - 1), b, (long long)c));
  else
    name =
        nest_named(n, level, emit_text(e, c == -1 ? "%s + 1" : "(%s + %lld) / %lld", b, (long long)-c, (long long)-c));
  if (n->range_count < 32) {
    n->ranges[n->range_count] =
        (struct Range){.value = v, .lo = c < 0 ? name : NULL, .hi = c > 0 ? name : NULL, .level = level};
    memcpy(n->ranges[n->range_count++].map, map, MAX_RANK);
  }
  narrow(n, m, c < 0 ? name : NULL, c > 0 ? name : NULL, level);
  return true;
}

void mask_add(Nest *n, Mask *m, Value *v, const int8_t *map) {
  stack_guard();
  Emit *e = n->e;
  Op *op = v->def;
  if (op && v->type->rank > 0 && (value_is_recomputable(e, v) || !info_of(e, v)->view)) {
    if (op->code == OP_AND) {
      mask_add(n, m, op->in[0], map);
      mask_add(n, m, op->in[1], map);
      return;
    }
    if (op_is_view(op)) {
      int8_t vm[MAX_RANK], inner[MAX_RANK];
      view_map(op, vm);
      for (int k = 0; k < MAX_RANK; k++) inner[k] = vm[k] < 0 ? -1 : map[vm[k]];
      mask_add(n, m, op->in[0], inner);
      return;
    }
    if (op->code == OP_CONST) {
      if (!op->value) m->never = true;
      return;
    }
    if (op->code == OP_CMP && is_signed_index(op->in[0]) && index_is_plain(e, op->in[0]) &&
        index_is_plain(e, op->in[1])) {
      Index *x = index_of(e, op->in[0]), *y = index_of(e, op->in[1]);
      int rank = v->type->rank;
      CmpPred p = (CmpPred)op->pred;
      if ((p == CMP_LT || p == CMP_LE) && range_of(n, m, v, x, y, rank, map, p == CMP_LE)) return;
      if ((p == CMP_GT || p == CMP_GE) && range_of(n, m, v, y, x, rank, map, p == CMP_GE)) return;
    }
  }
  int64_t c;
  if (value_is_const(v, &c)) {
    if (!c) m->never = true;
    return;
  }
  const NestText *t = nest_demand(n, v, map);
  if (t->level >= n->vector_level) {
    m->vector = m->vector ? emit_text(e, "(%s & %s)", m->vector, t->name) : t->name;
  } else {
    m->cond = m->cond ? emit_text(e, "(%s & %s)", m->cond, t->name) : t->name;
    m->cond_level = max_int(m->cond_level, t->level);
  }
}

bool mask_is_scalar(const Mask *m) { return !m->vector && !m->hi && !m->lo; }

static const char *first_mask(Nest *n, const char *hi) {
  for (int i = 0; i < n->first_count; i++)
    if (!strcmp(n->first[i].hi, hi)) return n->first[i].name;
  const char *name = fresh_name(n->e, NULL);
  nest_put(n, &n->body, n->vector_level, "const nd_mask %s = nd_first(%s - %s);", name, hi,
           index_name(n, n->vector_dim));
  if (n->first_count < 32) n->first[n->first_count++] = (struct FirstMask){hi, name};
  return name;
}

const char NO_LANES[] = "nd_first(0)";

/* Where the mask's range ends; *bound, where whole vectors inside it do: there are none when it does not begin at 0. */
static const char *range_end(const Nest *n, const Mask *m, const char **bound) {
  const char *end = m->hi ? m->hi : emit_text(n->e, "%lld", (long long)n->width);
  *bound = m->lo ? emit_text(n->e, "(%s > 0 ? 0 : %s)", m->lo, end) : end;
  return end;
}

static bool bound_is_known(const Nest *n, const char *bound) {
  for (int i = 0; i < n->bounds.n; i++)
    if (!strcmp(n->bounds.at[i], bound)) return true;
  return false;
}

const char *mask_vector(Nest *n, Mask *m) {
  Emit *e = n->e;
  const char *all = NULL, *bound;
  if (m->never) return NO_LANES;
  if (n->mode == REST && (m->hi || m->lo)) { /* past the range, whatever else the mask asks */
    range_end(n, m, &bound);
    if (bound_is_known(n, bound)) return NO_LANES;
  }
  if (m->cond) {
    /* Part of the range: nothing of it where the condition fails. */
    int level = m->hi ? max_int(m->cond_level, m->range_level) : m->cond_level;
    m->hi = nest_named(n, level,
                       emit_text(e, "%s ? %s : 0", m->cond, m->hi ? m->hi : emit_text(e, "%lld", (long long)n->width)));
    m->cond = NULL;
    m->range_level = max_int(m->range_level, level);
  }
  if (m->hi || m->lo) {
    const char *end = range_end(n, m, &bound);
    bool known = bound_is_known(n, bound);
    if (n->mode == WHOLE) {
      if (!known) {
        vec_push(e->arena, &n->bounds, bound);
        vec_push(e->arena, &n->ends, end);
      }
    } else if (n->mode == REST && known) {
      return NO_LANES;
    } else {
      if (m->hi) all = first_mask(n, m->hi);
      if (m->lo) {
        const char *low = emit_text(e, "~%s", first_mask(n, m->lo));
        all = all ? emit_text(e, "(%s & %s)", all, low) : emit_text(e, "(%s)", low);
      }
    }
  }
  if (m->vector) all = all ? emit_text(e, "(%s & %s)", all, m->vector) : m->vector;
  return all;
}

/* Lanes past the end of a short dim never touch memory. */
static const char *with_width(Nest *n, const char *mask) {
  if (n->width >= 16) return mask;
  const char *short_mask = first_mask(n, emit_text(n->e, "%lld", (long long)n->width));
  return mask ? emit_text(n->e, "(%s & %s)", mask, short_mask) : short_mask;
}

/* ---- where an access goes ---------------------------------------------------------------------------------------- */

typedef struct Place {
  const char *base; /* int64_t without the vector dim */
  int level;
  Sym *step; /* bytes an index of the vector dim */
  int term_count;
  const NestText *terms[MAX_TERMS];
  Sym *scales[MAX_TERMS];
} Place;

static Place place_of(Nest *n, Value *ptr, const int8_t *map) {
  Place p;
  p.base =
      index_base(n, index_of(n->e, ptr), ptr->type->rank, map, &p.level, &p.step, p.terms, p.scales, &p.term_count);
  return p;
}

static bool runs_with_vector(const Place *p) { return p->term_count > 0 || !sym_is(p->step, 0); }

static const char *lane_address(Nest *n, const Place *p) {
  if (sym_is(p->step, 0)) return emit_text(n->e, "(void *)(%s)", p->base);
  const char *iv = index_name(n, n->vector_dim);
  if (sym_is(p->step, 1)) return emit_text(n->e, "(void *)(%s + %s)", p->base, iv);
  return emit_text(n->e, "(void *)(%s + %s * %s)", p->base, iv, sym_text(n, p->step));
}

/* All lanes' addresses, for gathers. */
static const char *lane_addresses(Nest *n, const Place *p) {
  Emit *e = n->e;
  const char *base = sym_is(p->step, 0)
                         ? p->base
                         : emit_text(e, "%s + %s * %s", p->base, index_name(n, n->vector_dim), sym_text(n, p->step));
  const char *sum = emit_text(e, "nd_splat_i64v(%s)", base);
  if (!sym_is(p->step, 0)) sum = emit_text(e, "%s + nd_iota_i64v() * nd_splat_i64v(%s)", sum, sym_text(n, p->step));
  for (int i = 0; i < p->term_count; i++) {
    const NestText *t = p->terms[i];
    const char *wide = t->dtype == DT_I64 ? t->name : emit_text(e, "nd_cvt_i64_%sv(%s)", dtype_name(t->dtype), t->name);
    sum = emit_text(e, "%s + %s * nd_splat_i64v(%s)", sum, wide, sym_text(n, p->scales[i]));
  }
  return sum;
}

static int elem_bytes(Dtype d) { return dtype_bytes(d); }

static bool one_index(const Place *p, int bytes) {
  return p->term_count == 1 && sym_is(p->step, 0) && p->terms[0]->dtype == DT_I32 && sym_is(p->scales[0], bytes);
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

static NestText load_from(Nest *n, const Value *v, Dtype d, const Place *p, Mask *m, const NestText *other) {
  Emit *e = n->e;
  const char *t = dtype_name(d);
  NestText r = {.dtype = d};
  bool vector = runs_with_vector(p) || (m && !mask_is_scalar(m)) || (other && other->level >= n->vector_level);
  if (m && m->never && !other) {
    r.name = emit_literal(e, held_dtype(d), 0, 0);
    return r;
  }
  if (!vector) {
    r.level = p->level;
    const char *value = emit_text(e, "nd_load_%s((void *)(%s))", t, p->base);
    if (m && m->never) value = other->name;
    else if (m && m->cond) {
      r.level = max_int(r.level, m->cond_level);
      value = emit_text(e, "%s ? %s : %s", m->cond, value, other ? other->name : emit_literal(e, held_dtype(d), 0, 0));
    }
    if (other) r.level = max_int(r.level, other->level);
    r.name = nest_declare(n, r.level, d, v, value);
    return r;
  }
  r.level = n->vector_level;
  const char *mask = m ? mask_vector(n, m) : NULL;
  if (mask == NO_LANES) {
    if (other) return *other;
    return (NestText){.name = emit_literal(e, held_dtype(d), 0, 0), .dtype = d};
  }
  int bytes = elem_bytes(d);
  const char *value;
  if (!runs_with_vector(p)) { /* one element, wanted by some lanes */
    const char *none = other ? as_vector(n, other) : splat_text(e, d, emit_literal(e, held_dtype(d), 0, 0));
    if (!mask) value = splat_text(e, d, emit_text(e, "nd_load_%s((void *)(%s))", t, p->base));
    else
      value = emit_text(e, "nd_select_%sv(%s, %s, %s)", dtype_name(held_dtype(d)), mask,
                        splat_text(e, d,
                                   emit_text(e, "nd_any(%s) ? nd_load_%s((void *)(%s)) : %s", mask, t, p->base,
                                             emit_literal(e, held_dtype(d), 0, 0))),
                        none);
    r.name = nest_declare(n, r.level, d, v, value);
    return r;
  }
  mask = with_width(n, mask);
  const char *none = other ? as_vector(n, other) : splat_text(e, d, emit_literal(e, held_dtype(d), 0, 0));
  if (p->term_count) {
    const char *all = mask ? mask : "nd_splat_i1v(1)";
    if (one_index(p, bytes))
      value =
          emit_text(e, "nd_xload_%sv((void *)(%s), %s, %d, %s, %s)", t, p->base, p->terms[0]->name, bytes, all, none);
    else value = emit_text(e, "nd_gather_%sv(%s, %s, %s)", t, lane_addresses(n, p), all, none);
  } else if (sym_is(p->step, bytes)) {
    if (mask) value = emit_text(e, "nd_mload_%sv(%s, %s, %s)", t, lane_address(n, p), mask, none);
    else value = emit_text(e, "nd_load_%sv(%s)", t, lane_address(n, p));
    if (n->mode == WHOLE && n->prefetch)
      nest_put(n, &n->body, n->vector_level, "__builtin_prefetch((char *)%s + %s, 0, 2);", lane_address(n, p),
               n->prefetch);
  } else {
    if (mask)
      value = emit_text(e, "nd_smload_%sv(%s, %s, %s, %s)", t, lane_address(n, p), sym_text(n, p->step), mask, none);
    else value = emit_text(e, "nd_sload_%sv(%s, %s)", t, lane_address(n, p), sym_text(n, p->step));
  }
  r.name = nest_declare(n, r.level, d, v, value);
  return r;
}

/* A load that this nest repeats has its data in cache: the time goes to bringing in what the loop's next iteration will
 * load, or the next program. Bytes ahead, or NULL. */
static const char *what_comes_next(Nest *n, Op *op) {
  bool repeated = false;
  for (int i = 0; i < n->g->repeats.n; i++) repeated |= n->g->repeats.at[i] == op;
  enum { CACHED_BYTES = 128 << 10 }; /* larger tiles would push each other out */
  if (!repeated || n->mode != WHOLE || type_numel(op->out[0]->type) * type_elem_bytes(op->out[0]->type) > CACHED_BYTES)
    return NULL;
  const Sym *base = index_of(n->e, op->in[0])->base;
  const Op *loop = op->block->parent;
  const char *bytes = loop && loop->code == OP_FOR ? induction_stride_of(n->e, base, loop) : NULL;
  if (!bytes || !strcmp(bytes, "0")) bytes = induction_stride_of(n->e, base, NULL);
  return bytes && strcmp(bytes, "0") != 0 ? bytes : NULL;
}

NestText load_value(Nest *n, Op *op, const int8_t *map) {
  stack_guard();
  Mask m = {0};
  const NestText *other = NULL;
  if (op->in_count > 1) mask_add(n, &m, op->in[1], map);
  if (op->in_count > 2) other = nest_demand(n, op->in[2], map);
  Place p = place_of(n, op->in[0], map);
  n->prefetch = what_comes_next(n, op);
  NestText r = load_from(n, op->out[0], type_dtype(op->out[0]->type), &p, op->in_count > 1 ? &m : NULL, other);
  n->prefetch = NULL;
  return r;
}

/* The Index of a kept element's address. */
static Place view_place(Nest *n, const View *v, const Type *t, const int8_t *map) {
  Emit *e = n->e;
  int bytes = elem_bytes(v->buffer->dtype);
  Index x = {.base = sym_const(e, 0)};
  for (int d = 0; d < MAX_RANK; d++) x.coef[d] = sym_const(e, d < t->rank ? v->stride[d] * bytes : 0);
  Place p;
  x.base = sym_const(e, v->buffer->place + v->offset * bytes);
  p.base = index_base(n, &x, t->rank, map, &p.level, &p.step, p.terms, p.scales, &p.term_count);
  const char *scratch = v->buffer->before ? emit_text(e, "scratch - %s", v->buffer->before) : "scratch";
  p.base = emit_text(e, "%s + %s", scratch, p.base);
  return p;
}

void view_address(Nest *n, const View *v, const Type *t, const int8_t *map, const char **base, int *level,
                  int64_t *step) {
  Place p = view_place(n, v, t, map);
  *base = p.base;
  *level = p.level;
  *step = p.step->number;
}

NestText load_view(Nest *n, const View *v, const Type *t, const int8_t *map) {
  stack_guard();
  Place p = view_place(n, v, t, map);
  return load_from(n, NULL, v->buffer->dtype, &p, NULL, NULL);
}

/* ---- stores ------------------------------------------------------------------------------------------------------ */

static void store_to(Nest *n, Dtype d, const Place *p, Mask *m, const NestText *x, const char *far) {
  Emit *e = n->e;
  const char *t = dtype_name(d);
  Buf *sinks = &n->sinks;
  int bytes = elem_bytes(d);
  if (m && m->never) return;
  if (n->vector_dim < 0) {
    const char *store = emit_text(e, "nd_store_%s((void *)(%s), %s);", t, p->base, x->name);
    if (m && m->cond) nest_put(n, sinks, 0, "if (%s) %s", m->cond, store);
    else nest_put(n, sinks, 0, "%s", store);
    return;
  }
  const char *mask = m ? mask_vector(n, m) : NULL;
  if (mask == NO_LANES) return;
  mask = with_width(n, mask);
  const char *value = as_vector(n, x);
  int level = n->vector_level;
  if (!runs_with_vector(p) || p->term_count) {
    const char *all = mask ? mask : "nd_splat_i1v(1)";
    if (p->term_count && one_index(p, bytes))
      nest_put(n, sinks, level, "nd_xscatter_%sv((void *)(%s), %s, %s, %s);", t, p->base, p->terms[0]->name, value,
               all);
    else nest_put(n, sinks, level, "nd_scatter_%sv(%s, %s, %s);", t, lane_addresses(n, p), value, all);
  } else if (sym_is(p->step, bytes)) {
    if (mask) nest_put(n, sinks, level, "nd_mstore_%sv(%s, %s, %s);", t, lane_address(n, p), value, mask);
    else if (far) nest_put(n, sinks, level, "nd_nstore_%sv(%s, %s, %s);", t, lane_address(n, p), value, far);
    else nest_put(n, sinks, level, "nd_store_%sv(%s, %s);", t, lane_address(n, p), value);
  } else if (mask) {
    nest_put(n, sinks, level, "nd_smstore_%sv(%s, %s, %s, %s);", t, lane_address(n, p), sym_text(n, p->step), value,
             mask);
  } else {
    nest_put(n, sinks, level, "nd_sstore_%sv(%s, %s, %s);", t, lane_address(n, p), sym_text(n, p->step), value);
  }
}

/* What memory holds for a pointer's pointee. */
static Dtype pointee_dtype(const Type *t) { return t->ptr > 1 ? DT_I64 : t->dtype; }

/* A narrow float that is only copied need not pass through f32: its bits, when v is no more than a load of them. */
static bool raw_bits(Nest *n, Value *v, Dtype to, const int8_t *map, NestText *bits) {
  Emit *e = n->e;
  int8_t at[MAX_RANK];
  memcpy(at, map, sizeof at);
  while (v->def && op_is_view(v->def) && v->type->rank > 0 && (!info_of(e, v)->view || loads_here(n->g, v->def))) {
    int8_t m[MAX_RANK], inner[MAX_RANK];
    view_map(v->def, m);
    for (int k = 0; k < MAX_RANK; k++) inner[k] = m[k] < 0 ? -1 : at[m[k]];
    memcpy(at, inner, sizeof at);
    v = v->def->in[0];
  }
  Dtype d = type_dtype(v->type);
  if (d != to || held_dtype(d) == d || !dtype_is_float(d) || n->vector_dim < 0 || v->type->rank == 0 ||
      info_of(e, v)->text)
    return false;
  Dtype raw = dtype_bits(d) == 16 ? DT_U16 : DT_U8;
  Op *op = v->def;
  bool runs = false; /* with the vectors */
  for (int k = 0; k < v->type->rank; k++) runs |= at[k] == n->vector_dim;
  if (!runs) return false;
  if (op && op->code == OP_LOAD && loads_here(n->g, op)) {
    Mask m = {0};
    if (op->in_count > 2) {
      Op *other = op->in[2]->def;
      if (!other || other->code != OP_CONST || other->number != 0 || 1 / other->number < 0) return false;
    }
    if (op->in_count > 1) mask_add(n, &m, op->in[1], at);
    Place p = place_of(n, op->in[0], at);
    *bits = load_from(n, v, raw, &p, op->in_count > 1 ? &m : NULL, NULL);
    return true;
  }
  const Info *info = info_of(e, v);
  if (!info->view || info->view->buffer->dtype != d || (info->owner == n->g && !info->closed) ||
      value_is_recomputable(e, v))
    return false;
  Place p = view_place(n, info->view, v->type, at);
  *bits = load_from(n, NULL, raw, &p, NULL, NULL);
  return true;
}

void store_root(Nest *n, FusionRoot *r) {
  Op *op = r->op;
  Mask m = {0};
  if (op->in_count > 2) mask_add(n, &m, op->in[2], r->map);
  Dtype d = pointee_dtype(op->in[0]->type);
  NestText bits;
  bool raw = raw_bits(n, op->in[1], d, r->map, &bits);
  n->e->unrounded = info_of(n->e, op->in[1])->uses == 1 ? op->in[1] : NULL;
  const NestText *x = raw ? &bits : nest_demand(n, op->in[1], r->map);
  n->e->unrounded = NULL;
  if (raw) d = bits.dtype;
  Place p = place_of(n, op->in[0], r->map);
  if (n->pass == 0) quote_source(n->e, &n->sinks, n->e->indent + 1 + n->vector_level, op->span);
  /* Past the caches where the launch is large, unless programs begin their rows within each other's lines. */
  const char *far = "far",
             *bytes = n->mode == WHOLE ? induction_stride_of(n->e, index_of(n->e, op->in[0])->base, NULL) : NULL;
  if (bytes && strcmp(bytes, "0") != 0) far = nest_named(n, 0, emit_text(n->e, "far && ((%s) & 63) == 0", bytes));
  store_to(n, d, &p, op->in_count > 2 ? &m : NULL, x, far);
}

void keep_root(Nest *n, FusionRoot *r) {
  Emit *e = n->e;
  Dtype d = r->view->buffer->dtype;
  NestText bits;
  bool raw = raw_bits(n, r->value, d, r->map, &bits);
  const NestText *x = raw ? &bits : nest_demand(n, r->value, r->map);
  if (raw) d = bits.dtype;
  Place p = view_place(n, r->view, r->value->type, r->map);
  bool with_vector = false;
  for (int k = 0; k < r->value->type->rank; k++) with_vector |= r->map[k] >= 0 && r->map[k] == n->vector_dim;
  if (with_vector) {
    store_to(n, d, &p, NULL, x, NULL);
    return;
  }
  if (n->vector_dim < 0) {
    nest_put(n, &n->sinks, 0, "nd_store_%s((void *)(%s), %s);", dtype_name(d), p.base, x->name);
    return;
  }
  if (n->pass > 0) return; /* written once, by the first pass */
  int level = max_int(p.level, x->level);
  for (int k = 0; k < r->value->type->rank; k++)
    if (r->map[k] >= 0) level = max_int(level, n->dim_level[r->map[k]]);
  nest_put(n, &n->at[level], level, "nd_store_%s((void *)(%s), %s);", dtype_name(d), p.base, x->name);
  (void)e;
}

/* ---- atomics: lane by lane, in the library's functions ----------------------------------------------------------- */

void atomic_root(Nest *n, FusionRoot *r) {
  static const char *const kinds[] = {"add", "max", "min", "and", "or", "xor", "xchg"};
  Emit *e = n->e;
  Op *op = r->op;
  bool cas = op->code == OP_ATOMIC_CAS;
  const char *kind = cas ? "cas" : kinds[op->kind];
  Mask m = {0};
  bool masked = !cas && op->in_count > 2;
  if (masked) mask_add(n, &m, op->in[2], r->map);
  const NestText *x = nest_demand(n, op->in[1], r->map), *y = cas ? nest_demand(n, op->in[2], r->map) : NULL;
  Place p = place_of(n, op->in[0], r->map);
  Dtype d = pointee_dtype(op->in[0]->type);
  const char *t = dtype_name(d);
  const View *keep = ((OpPlan *)op->note)->out[0];
  NestText old = {.dtype = d};
  if (n->pass == 0)
    quote_source(e, n->vector_dim < 0 ? &n->sinks : &n->body, e->indent + 1 + n->vector_level, op->span);
  if (n->vector_dim < 0) {
    const char *call = cas ? emit_text(e, "nd_atomic_cas_%s((void *)(%s), %s, %s)", t, p.base, x->name, y->name)
                           : emit_text(e, "nd_atomic_%s_%s((void *)(%s), %s)", kind, t, p.base, x->name);
    if (m.never) call = emit_literal(e, held_dtype(d), 0, 0);
    else if (m.cond) call = emit_text(e, "%s ? %s : %s", m.cond, call, emit_literal(e, held_dtype(d), 0, 0));
    old.name = fresh_name(e, NULL);
    nest_put(n, &n->sinks, 0, "const nd_%s %s = %s;", t, old.name, call);
  } else {
    const char *mask = with_width(n, masked ? mask_vector(n, &m) : NULL);
    if (!mask) mask = "nd_splat_i1v(1)";
    const char *addresses = lane_addresses(n, &p);
    old.name = fresh_name(e, NULL);
    old.level = n->vector_level;
    if (cas) {
      /* Lane by lane: the library has the scalar one. */
      const char *c = fresh_name(e, NULL), *v = fresh_name(e, NULL), *a = fresh_name(e, NULL), *k = fresh_name(e, NULL);
      Buf *b = &n->body;
      int l = n->vector_level;
      nest_put(n, b, l, "const nd_%sv %s = %s, %s = %s;", t, c, as_vector(n, x), v, as_vector(n, y));
      nest_put(n, b, l, "const nd_i64v %s = %s;", a, addresses);
      nest_put(n, b, l, "const nd_mask %s = %s;", k, mask);
      nest_put(n, b, l, "nd_%sv %s = {0};", t, old.name);
      nest_put(n, b, l, "for (int j = 0; j < ND_VL; j++)");
      nest_put(n, b, l + 1, "if (%s[j]) %s[j] = nd_atomic_cas_%s((void *)%s[j], %s[j], %s[j]);", k, old.name, t, a, c,
               v);
    } else {
      nest_put(n, &n->body, n->vector_level, "const nd_%sv %s = nd_atomic_%s_%sv(%s, %s, %s);", t, old.name, kind, t,
               addresses, as_vector(n, x), mask);
    }
  }
  if (keep) {
    Place at = view_place(n, keep, op->out[0]->type, r->map);
    store_to(n, keep->buffer->dtype, &at, NULL, &old, NULL);
  }
}
