/* gen_memory: loads, stores and atomics with random strides, masks and sizes; block pointers and descriptors. See
 * gen.h.
 *
 * An array is as long as its accesses reach, not an element longer, and stands against a page that nobody may touch.
 */
#include "gen.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How the array is filled: what is known of an element of it. */
Val input_array(Gen *g, Param *p, nereid_dtype t) {
  Val v = {.t = t, .step = NO_STEP, .fresh = true};
  p->t = t, p->place_at_end = chance(g, 50);
  if (!is_float(t)) {
    p->fill = FILL_INTS, p->lo = 1, p->hi = 0; /* any bits */
    v.lo = int_min(t), v.hi = int_max(t);
    if (t == NEREID_I1) return v;
    if (chance(g, 60)) {
      p->lo = is_signed(t) && chance(g, 50) ? -(int)draw(g, 60) : 0, p->hi = chance(g, 50) ? 15 : 100;
      v.lo = p->lo, v.hi = p->hi;
    } else {
      p->edges = true;
    }
    return v;
  }
  p->fill = FILL_QUANTIZED;
  int k = is_fp8(t) ? 7 : t == NEREID_BF16 ? 31 : 63;
  p->hi = chance(g, 50) ? k : 7, p->lo = chance(g, 80) ? -p->hi : 0, p->step = is_fp8(t) ? -3 : -(int)draw(g, 5);
  v.flo = ldexp((double)p->lo, p->step), v.fhi = ldexp((double)p->hi, p->step), v.step = p->step;
  if (!is_fp8(t) && chance(g, 12)) {
    p->fill = FILL_SPECIAL;
    v.special = true, v.fresh = false, v.flo = -fmax(-v.flo, v.fhi);
  } else if (!is_fp8(t) && chance(g, 25)) {
    p->fill = FILL_NORMAL;
    v.flo = -4.01, v.fhi = 4.01, v.step = NO_STEP;
  }
  return v;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* Itself, a run-time argument or a constexpr argument. */
void number_text(Gen *g, int64_t n, char out[24]) {
  Param *p = chance(g, 35) ? add_param(g, chance(g, 70) ? PARAM_INT : PARAM_CONSTEXPR, "n") : NULL;
  if (p) p->i = n, snprintf(out, 24, "%s", p->name);
  else snprintf(out, 24, "%ld", (long)n);
}

static const char *index_text(int d, int rank) {
  static const char *const texts[4][4] = {
      {""},
      {"[:, None]", "[None, :]"},
      {"[:, None, None]", "[None, :, None]", "[None, None, :]"},
      {"[:, None, None, None]", "[None, :, None, None]", "[None, None, :, None]", "[None, None, None, :]"}};
  return texts[rank - 1][d];
}

int64_t place(Gen *g, char *out, size_t n) {
  int64_t count = g->programs;
  snprintf(out, n, "lin");
  for (int i = 0; i < g->loop_count; i++) {
    char outer[200];
    snprintf(outer, sizeof outer, "%.190s", out);
    snprintf(out, n, "(%s * %d + %s)", outer, g->loops[i].trips, g->loops[i].counter);
    count *= g->loops[i].trips;
  }
  return count;
}

bool make_access(Gen *g, int rank, const int *shape, bool unique, bool by_program, Access *a) {
  int order[MAX_RANK], extent[MAX_RANK];
  int64_t stride[MAX_RANK], reach = 0;
  *a = (Access){0};
  for (int d = 0; d < rank; d++) order[d] = d, extent[d] = shape[d];
  for (int d = rank - 1; d > 0 && chance(g, 30); d--) { /* some permutation */
    int e = (int)draw(g, (uint32_t)d + 1), keep = order[d];
    order[d] = order[e], order[e] = keep;
  }
  char where[240], text[24];
  int n = 0, m = 0;
  for (int d = 0; d < rank; d++) /* a mask by dims cuts extents */
    if (shape[d] > 1 && chance(g, 35)) {
      extent[d] = (int)draw_between(g, 1, shape[d]);
      number_text(g, extent[d], text);
      m += snprintf(a->mask + m, sizeof a->mask - (size_t)m, "%s(tl.arange(0, %d)%s < %s)", m ? " & " : "", shape[d],
                    index_text(d, rank), text);
      a->masked = true;
    }
  int64_t next = chance(g, 85) ? 1 : draw_between(g, 2, 5);
  for (int i = rank - 1; i >= 0; i--) {
    int d = order[i];
    stride[d] = next;
    next = next * shape[d];
    if (chance(g, 40)) next += draw_between(g, 0, 5);
    else if (chance(g, 20)) next = (next + 15) / 16 * 16;
    if (!unique && chance(g, 8)) stride[d] = chance(g, 50) ? 0 : 1;
    reach += stride[d] * (shape[d] - 1);
  }
  bool reversed = rank && chance(g, 8);
  int64_t count = 1, step = 0;
  if (by_program) {
    count = place(g, where, sizeof where);
    step = unique          ? reach + 1 + (chance(g, 50) ? 0 : (int64_t)draw(g, 7))
           : chance(g, 20) ? 0
           : chance(g, 50) ? reach + 1
                           : (int64_t)draw(g, 40);
    if (step && chance(g, 30)) step = (step + 15) / 16 * 16;
    number_text(g, step, text);
    if (step)
      n += snprintf(a->offsets, sizeof a->offsets, chance(g, 20) ? "%s.to(tl.int64) * %s" : "%s * %s", where, text);
  }
  for (int d = 0; d < rank; d++) {
    if (shape[d] == 1 && chance(g, 50)) continue;
    char range[80];
    if (reversed) snprintf(range, sizeof range, "(%d - tl.arange(0, %d))", shape[d] - 1, shape[d]);
    else snprintf(range, sizeof range, "tl.arange(0, %d)", shape[d]);
    number_text(g, stride[d], text);
    n += snprintf(a->offsets + n, sizeof a->offsets - (size_t)n,
                  stride[d] == 1 && chance(g, 80) ? "%s%s%s" : "%s%s%s * %s", n ? " + " : "", range,
                  index_text(d, rank), text);
  }
  if (!n) n = snprintf(a->offsets, sizeof a->offsets, "0");
  int64_t last = 0;
  for (int d = 0; d < rank; d++) last += stride[d] * ((reversed ? shape[d] : extent[d]) - 1);
  a->span = step * (count - 1) + last + 1;
  if (!a->masked && rank == 1 && chance(g, 40)) { /* or one limit for all: offsets < n */
    int64_t limit = a->span > 1 ? draw_between(g, 1, a->span) : 1;
    number_text(g, limit, text);
    snprintf(a->mask, sizeof a->mask, "%s < %s", a->offsets, text);
    a->masked = true, a->span = limit;
  } else if (rank && !a->masked && chance(g, 12)) { /* or any condition at all */
    Val tile = {0};
    set_shape(&tile, rank, shape);
    Val *c = pick_into(g, &tile, WANT_BOOL);
    if (c && (!c->rank || c->rank == rank)) /* a mask takes no new dims */
      snprintf(a->mask, sizeof a->mask, "%s", c->name), a->masked = true;
  }
  return a->span < 1 << 20;
}

/* A tile of pointers needs its whole shape in the offsets. */
static bool covers(const Access *a, int rank) {
  for (int d = 0; d < rank; d++)
    if (!strstr(a->offsets, "tl.arange") || !strstr(a->offsets, index_text(d, rank))) return false;
  return true;
}

/* ---- loads ------------------------------------------------------------------------------------------------------- */

static void widen_by_other(Gen *g, Val *v, const Access *a, char other[40]) {
  *other = 0;
  if (!a->masked) return;
  if (chance(g, 50)) { /* masked lanes are 0 */
    if (is_float(v->t)) v->flo = fmin(v->flo, 0), v->fhi = fmax(v->fhi, 0);
    else v->lo = v->lo < 0 ? v->lo : 0, v->hi = v->hi > 0 ? v->hi : 0;
    if (chance(g, 40)) snprintf(other, 40, is_float(v->t) ? ", other=0.0" : ", other=0");
    return;
  }
  if (is_float(v->t)) {
    double f = is_fp8(v->t) ? 0.5 : ldexp((double)draw_between(g, -6, 6), -1);
    v->flo = fmin(v->flo, f), v->fhi = fmax(v->fhi, f);
    if (v->step != NO_STEP && v->step > -1) v->step = -1;
    snprintf(other, 40, ", other=%g%s", f, f == floor(f) ? ".0" : "");
  } else {
    int n = (int)draw(g, v->t == NEREID_I1 ? 2 : 30);
    v->lo = v->lo < n ? v->lo : n, v->hi = v->hi > n ? v->hi : n;
    snprintf(other, 40, ", other=%d", n);
  }
}

static bool plain_load(Gen *g) {
  int rank, shape[MAX_RANK];
  random_shape(g, &rank, shape);
  if (chance(g, 8)) rank = 0;
  Access a;
  if (!make_access(g, rank, shape, false, true, &a)) return false;
  if (rank && !covers(&a, rank)) return false;
  Param *p = add_param(g, PARAM_IN, "i");
  if (!p) return false;
  Val v = input_array(g, p, random_dtype(g));
  p->count = a.span;
  set_shape(&v, rank, shape);
  char other[40];
  widen_by_other(g, &v, &a, other);
  static const char *const hints[] = {
      "", "", "", ", cache_modifier=\".cg\"", ", eviction_policy=\"evict_last\"", ", volatile=True"};
  if (chance(g, 30)) {
    line(g, "p%s = %s + %s", p->name, p->name, a.offsets);
    if (a.masked && chance(g, 50)) {
      line(g, "m%s = %s", p->name, a.mask);
      emit(g, v, "tl.load(p%s, m%s%s%s)", p->name, p->name, other, hints[draw(g, 6)]);
    } else {
      emit(g, v, "tl.load(p%s%s%s%s%s)", p->name, a.masked ? ", mask=" : "", a.mask, other, hints[draw(g, 6)]);
    }
  } else {
    emit(g, v, "tl.load(%s + %s%s%s%s%s)", p->name, a.offsets, a.masked ? ", mask=" : "", a.mask, other,
         hints[draw(g, 6)]);
  }
  return true;
}

/* Addresses from data. */
static bool indirect_load(Gen *g) {
  Val *x = pick(g, WANT_INT);
  if (!x) return false;
  int bits = (int)draw_between(g, 2, 6);
  Param *p = add_param(g, PARAM_IN, "i");
  if (!p) return false;
  Val index = *x, v = input_array(g, p, random_dtype(g));
  set_shape(&v, x->rank, x->shape);
  char mask[60] = "", other[40] = "";
  Access masked = {.masked = true};
  if (x->lo >= 0 && x->hi < 500) {
    p->count = (int64_t)x->hi + 1;
    Val *c = chance(g, 40) ? pick_into(g, x, WANT_BOOL) : NULL;
    if (c && (x->rank || !c->rank)) {
      snprintf(mask, sizeof mask, ", mask=%s", c->name);
      widen_by_other(g, &v, &masked, other);
    }
    emit(g, v, "tl.load(%s + %s%s%s)", p->name, index.name, mask, other);
    return true;
  }
  p->count = 1 << bits;
  if (chance(g, 40)) { /* only lanes whose index is in range are touched */
    int64_t limit = p->count;
    if (is_signed(x->t)) snprintf(mask, sizeof mask, ", mask=(%s >= 0) & (%s < %ld)", x->name, x->name, (long)limit);
    else snprintf(mask, sizeof mask, ", mask=%s < %ld", x->name, (long)limit);
    widen_by_other(g, &v, &masked, other);
    emit(g, v, "tl.load(%s + %s%s%s)", p->name, x->name, mask, other);
    return true;
  }
  if (width(x->t) < 8) return false;
  emit(g, v, "tl.load(%s + (%s & %d))", p->name, x->name, (1 << bits) - 1);
  return true;
}

/* A matrix through a block pointer, partly outside. */
static bool block_load(Gen *g) {
  int rank, shape[MAX_RANK];
  random_shape(g, &rank, shape);
  if (rank > 2) return false;
  Param *p = add_param(g, PARAM_IN, "i");
  if (!p) return false;
  Val v = input_array(g, p, random_dtype(g));
  set_shape(&v, rank, shape);
  int rows = rank == 2 ? (int)draw_between(g, 1, 2 * shape[0]) : 1,
      columns = (int)draw_between(g, 1, 2 * shape[rank - 1]);
  int stride = columns + (int)draw(g, 4);
  p->count = (int64_t)(rows - 1) * stride + columns;
  bool nan = is_float(v.t) && !is_fp8(v.t) && chance(g, 10);
  if (nan) v.special = true, v.fresh = false;
  if (is_float(v.t)) v.flo = fmin(v.flo, 0), v.fhi = fmax(v.fhi, 0);
  else v.lo = v.lo < 0 ? v.lo : 0, v.hi = v.hi > 0 ? v.hi : 0;
  if (v.t == NEREID_I1) return false;
  char r[24], c[24], s[24], padding[40], name[12];
  number_text(g, rows, r), number_text(g, columns, c), number_text(g, stride, s);
  snprintf(padding, sizeof padding, ", padding_option=\"%s\"", nan ? "nan" : "zero");
  snprintf(name, sizeof name, "bp%d", new_id(g));
  int x0 = (int)draw_between(g, -3, columns), y0 = (int)draw_between(g, -3, rows);
  if (rank == 1) {
    line(g, "%s = tl.make_block_ptr(%s, (%s,), (1,), (lin * 3 + %d,), (%d,), (0,))", name, p->name, c, x0, shape[0]);
    if (chance(g, 30)) line(g, "%s = tl.advance(%s, (%d,))", name, name, (int)draw_between(g, -4, 4));
    emit(g, v, "tl.load(%s, boundary_check=(0,)%s)", name, padding);
  } else {
    line(g,
         "%s = tl.make_block_ptr(%s, shape=(%s, %s), strides=(%s, 1), offsets=(%d, lin * 2 + %d), block_shape=(%d, "
         "%d), order=(%s))",
         name, p->name, r, c, s, y0, x0, shape[0], shape[1], chance(g, 80) ? "1, 0" : "0, 1");
    if (chance(g, 30))
      line(g, "%s = tl.advance(%s, (%d, %d))", name, name, (int)draw_between(g, -4, 4), (int)draw_between(g, -4, 4));
    emit(g, v, "tl.load(%s, boundary_check=(%s)%s)", name, chance(g, 80) ? "0, 1" : "1, 0", padding);
  }
  return true;
}

/* A tensor descriptor made in the kernel; strides are multiples of 16 bytes. */
static bool descriptor_load(Gen *g) {
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F16, NEREID_I32, NEREID_I8, NEREID_BF16};
  nereid_dtype t = types[draw(g, 5)];
  int bytes = (int)nereid_dtype_bytes(t), rows = (int)draw_between(g, 1, 12), columns = (int)draw_between(g, 1, 40);
  int stride = (columns * bytes + 15) / 16 * 16 / bytes;
  Param *p = add_param(g, PARAM_IN, "i");
  if (!p) return false;
  Val v = input_array(g, p, t);
  p->place_at_end = false; /* aligned */
  p->count = (int64_t)rows * stride;
  v.rank = 2, v.shape[0] = 1 << draw(g, 4), v.shape[1] = g->dims[0] * bytes >= 16 ? g->dims[0] : 16;
  bool gathers = v.shape[0] >= 8 && v.shape[1] * bytes >= 32 && chance(g, 50); /* rows in any order */
  if (is_float(t)) v.flo = fmin(v.flo, 0), v.fhi = fmax(v.fhi, 0);
  else v.lo = v.lo < 0 ? v.lo : 0, v.hi = v.hi > 0 ? v.hi : 0;
  char name[12];
  snprintf(name, sizeof name, "d%d", new_id(g));
  line(g, "%s = tl.make_tensor_descriptor(%s, shape=[%d, %d], strides=[%d, 1], block_shape=[%d, %d])", name, p->name,
       rows, columns, stride, gathers ? 1 : v.shape[0], v.shape[1]);
  if (gathers)
    emit(g, v, "%s.gather((tl.arange(0, %d) * %d + lin) & 15, %d)", name, v.shape[0], (int)draw(g, 8),
         (int)draw_between(g, 0, columns));
  else emit(g, v, "%s.load([%d, lin * %d])", name, (int)draw_between(g, -2, rows), 16 / bytes);
  return true;
}

bool make_load(Gen *g) {
  if (g->in_helper) return false;
  switch (draw(g, 10)) {
    case 0:
    case 1: return indirect_load(g);
    case 2: return block_load(g);
    case 3: return descriptor_load(g);
    default: return plain_load(g);
  }
}

/* ---- stores ------------------------------------------------------------------------------------------------------ */

/* Through a block pointer, partly outside; each program has its own matrix. */
static bool block_store(Gen *g, Val *v) {
  if (v->rank != 2 || v->t == NEREID_I1 || v->terminal) return false;
  int rows = (int)draw_between(g, 1, v->shape[0] + 3), columns = (int)draw_between(g, 1, v->shape[1] + 3),
      stride = columns + (int)draw(g, 4);
  int y = (int)draw_between(g, -2, 2), x = (int)draw_between(g, -2, 2);
  char where[240];
  int64_t count = place(g, where, sizeof where) * rows * stride;
  Param *p = count < 1 << 20 ? add_param(g, PARAM_OUT, "o") : NULL;
  if (!p) return false;
  p->t = v->t, p->count = count, p->place_at_end = chance(g, 50), p->fill = is_float(v->t) ? FILL_QUANTIZED : FILL_INTS;
  p->lo = 1, p->hi = is_float(v->t) ? 3 : 0, p->tolerance = v->err;
  line(g,
       "tl.store(tl.make_block_ptr(%s + %s * %d, (%d, %d), (%d, 1), (%d, %d), (%d, %d), (1, 0)), %s, "
       "boundary_check=(0, 1))",
       p->name, where, rows * stride, rows, columns, stride, y, x, v->shape[0], v->shape[1], v->name);
  v->uses++;
  return true;
}

/* Through a descriptor, likewise. */
static bool descriptor_store(Gen *g, Val *v) {
  int bytes = (int)nereid_dtype_bytes(v->t);
  if (v->rank != 2 || v->t == NEREID_I1 || v->terminal || v->shape[1] * bytes < 16) return false;
  int rows = (int)draw_between(g, 1, v->shape[0] + 3), columns = (int)draw_between(g, 1, v->shape[1] + 3),
      stride = (columns * bytes + 15) / 16 * 16 / bytes;
  char where[240], name[12];
  int64_t count = place(g, where, sizeof where) * rows * stride;
  Param *p = count < 1 << 20 ? add_param(g, PARAM_OUT, "o") : NULL;
  if (!p) return false;
  bool adds = (v->t == NEREID_I32 || v->t == NEREID_U32) && chance(g, 30);
  p->t = v->t, p->count = count, p->fill = is_float(v->t) ? FILL_QUANTIZED : FILL_INTS;
  p->lo = 1, p->hi = is_float(v->t) ? 3 : 0, p->tolerance = v->err;
  snprintf(name, sizeof name, "d%d", new_id(g));
  line(g, "%s = tl.make_tensor_descriptor(%s + %s * %d, shape=[%d, %d], strides=[%d, 1], block_shape=[%d, %d])", name,
       p->name, where, rows * stride, rows, columns, stride, v->shape[0], v->shape[1]);
  line(g, "%s.%s([%d, %d], %s)", name, adds ? "atomic_add" : "store", (int)draw_between(g, -2, 2),
       (int)draw_between(g, -2, 2), v->name);
  v->uses++;
  return true;
}

/* To an array of its own; sometimes cast by the store, sometimes spread by it. */
bool store_value(Gen *g, Val *v) {
  if (g->in_helper) return false;
  Val stored = *v, tile = *v;
  if (chance(g, 8) && block_store(g, v)) return true;
  if (chance(g, 8) && descriptor_store(g, v)) return true;
  if (!v->terminal && chance(g, 15)) {
    nereid_dtype t = random_dtype(g);
    if (t != NEREID_I1 && !(is_fp8(t) && !is_float(v->t)) &&
        !(is_fp8(v->t) && t != v->t && (is_fp8(t) || !is_float(t)))) {
      Val r;
      if (cast_val(v, t, &r)) stored = r;
    }
  }
  if (v->rank == 0 && chance(g, 20)) tile.rank = 1, tile.shape[0] = g->dims[0]; /* a scalar to a whole tile */
  Access a;
  if (!make_access(g, tile.rank, tile.shape, true, true, &a) || (tile.rank && !covers(&a, tile.rank))) return false;
  if (!tile.rank && a.masked) return false;
  Param *p = add_param(g, PARAM_OUT, "o");
  if (!p) return false;
  p->t = stored.t, p->count = a.span, p->place_at_end = chance(g, 50);
  p->fill = FILL_INTS, p->lo = 1, p->hi = 0;
  if (is_float(stored.t)) {
    p->fill = FILL_QUANTIZED, p->lo = 1, p->hi = 3;
    p->tolerance = stored.err, p->relative = stored.terminal ? stored.rel : 0;
  }
  if (stored.t == NEREID_I1) p->lo = p->hi = 0;
  line(g, "tl.store(%s + %s, %s%s%s)", p->name, a.offsets, v->name, a.masked ? ", mask=" : "", a.mask);
  v->uses++;
  return true;
}

/* Many lanes and programs on few counters: the order does not matter to integers, nor to floats whose sums are exact.
 */
bool make_atomic(Gen *g) {
  static const nereid_dtype types[] = {NEREID_I32, NEREID_I64, NEREID_U32, NEREID_U64, NEREID_F32};
  static const char *const kinds[] = {"add", "max", "min", "and", "or", "xor"};
  if (g->in_helper) return false;
  nereid_dtype t = types[draw(g, 5)];
  Val *x = pick(g, t == NEREID_F32 ? WANT_FLOAT | WANT_EXACT | WANT_FINITE : WANT_INT | WANT_BOOL), cast;
  if (!x || !cast_val(x, t, &cast)) return false;
  int64_t turns = g->programs;
  for (int i = 0; i < g->loop_count; i++) turns *= g->loops[i].trips;
  int kind = t == NEREID_F32 ? 0 : (int)draw(g, 6);
  if (t == NEREID_F32 && !exact_in((val_max(&cast) + 4) * (double)(turns * numel(x) + 1),
                                   cast.step < -1         ? cast.step
                                   : cast.step == NO_STEP ? NO_STEP
                                                          : -1,
                                   t))
    return false;
  Val value = *x;
  Param *p = add_param(g, PARAM_OUT, "o");
  if (!p) return false;
  p->t = t, p->place_at_end = chance(g, 50), p->fill = t == NEREID_F32 ? FILL_QUANTIZED : FILL_INTS;
  p->lo = t == NEREID_F32 ? -4 : 1, p->hi = t == NEREID_F32 ? 4 : 0;
  static const char *const how[] = {"", "", ", sem=\"relaxed\"", ", sem=\"acq_rel\", scope=\"gpu\""};
  Val *index = value.rank ? pick_into(g, &value, WANT_INT) : NULL;
  if (index && same_shape(index, &value)) {
    int bits = (int)draw_between(g, 1, 5);
    p->count = 1 << bits;
    if (width(index->t) < 8) return false;
    Val *c = chance(g, 40) ? pick_into(g, &value, WANT_BOOL) : NULL;
    if (c && c->rank && c->rank != value.rank) c = NULL; /* a mask takes no new dims */
    line(g, "tl.atomic_%s(%s + (%s & %d), %s%s%s%s)", kinds[kind], p->name, index->name, (1 << bits) - 1, value.name,
         c ? ", mask=" : "", c ? c->name : "", how[draw(g, 4)]);
    return true;
  }
  if (value.rank && chance(g, 50) && t != NEREID_F32) { /* each lane its own: the old values are certain */
    Access a;
    if (!make_access(g, value.rank, value.shape, true, true, &a) || !covers(&a, value.rank)) return p->count = 1, false;
    p->count = a.span;
    Val old = {.t = t, .step = NO_STEP};
    set_shape(&old, value.rank, value.shape);
    set_int_range(&old, int_min(t), int_max(t));
    if (a.masked) { /* what masked lanes give is not said */
      line(g, "tl.atomic_%s(%s + %s, %s, mask=%s)", kinds[kind], p->name, a.offsets, value.name, a.mask);
      return true;
    }
    emit(g, old, "tl.atomic_%s(%s + %s, %s)", kinds[kind], p->name, a.offsets, value.name);
    return true;
  }
  p->count = 1;
  if (value.rank) return false;
  line(g, "tl.atomic_%s(%s, %s%s)", kinds[kind], p->name, value.name, how[draw(g, 4)]);
  return true;
}
