/* gen_core: chance, text, types and what is known of values. See gen.h. */
#include "gen.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t draw(Gen *g, uint32_t below) {
  uint64_t z = (g->random += 0x9E3779B97F4A7C15u); /* splitmix64 */
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)((z ^ (z >> 31)) >> 32) % below;
}

bool chance(Gen *g, int percent) { return (int)draw(g, 100) < percent; }
int64_t draw_between(Gen *g, int64_t lo, int64_t hi) { return lo + (int64_t)draw(g, (uint32_t)(hi - lo + 1)); }
int new_id(Gen *g) { return g->next_id++; }

void text_vprint(Text *t, const char *format, va_list ap) {
  va_list again;
  va_copy(again, ap);
  size_t n = (size_t)vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (t->n + n + 1 > t->cap) {
    t->cap = 2 * (t->n + n + 1);
    t->at = realloc(t->at, t->cap);
    if (!t->at) fprintf(stderr, "out of memory\n"), exit(2);
  }
  vsnprintf(t->at + t->n, n + 1, format, ap);
  t->n += n;
}

void text_print(Text *t, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  text_vprint(t, format, ap);
  va_end(ap);
}

void line(Gen *g, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  text_print(g->out, "%*s", 4 * g->indent, "");
  text_vprint(g->out, format, ap);
  text_print(g->out, "\n");
  va_end(ap);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

/* Floats: bits of mantissa with the hidden one, largest value, exponent of the least multiple. */
/* clang-format off */
static const struct { const char *name; int width, mantissa; double max; int least; } types[] = {
    [NEREID_I1] = {"tl.int1", 1, 0, 0, 0},           [NEREID_I8] = {"tl.int8", 8, 0, 0, 0},
    [NEREID_I16] = {"tl.int16", 16, 0, 0, 0},        [NEREID_I32] = {"tl.int32", 32, 0, 0, 0},
    [NEREID_I64] = {"tl.int64", 64, 0, 0, 0},        [NEREID_U8] = {"tl.uint8", 8, 0, 0, 0},
    [NEREID_U16] = {"tl.uint16", 16, 0, 0, 0},       [NEREID_U32] = {"tl.uint32", 32, 0, 0, 0},
    [NEREID_U64] = {"tl.uint64", 64, 0, 0, 0},       [NEREID_F8E5] = {"tl.float8e5", 8, 3, 57344, -16},
    [NEREID_F8E4NV] = {"tl.float8e4nv", 8, 4, 448, -9}, [NEREID_F8E4B15] = {"tl.float8e4b15", 8, 4, 1.75, -17},
    [NEREID_F8E4B8] = {"tl.float8e4b8", 8, 4, 240, -10}, [NEREID_F8E5B16] = {"tl.float8e5b16", 8, 3, 57344, -17},
    [NEREID_F16] = {"tl.float16", 16, 11, 65504, -24}, [NEREID_BF16] = {"tl.bfloat16", 16, 8, 0x1.fep127, -133},
    [NEREID_F32] = {"tl.float32", 32, 24, 0x1.fffffep127, -149},
      [NEREID_F64] = {"tl.float64", 64, 53, 0x1.fffffffffffffp1023, -1074},
};
/* clang-format on */

bool is_float(nereid_dtype t) { return t >= NEREID_F8E5; }
bool is_fp8(nereid_dtype t) { return t >= NEREID_F8E5 && t < NEREID_F16; }
bool is_signed(nereid_dtype t) { return t >= NEREID_I8 && t <= NEREID_I64; }
int width(nereid_dtype t) { return types[t].width; }
int mantissa(nereid_dtype t) { return types[t].mantissa; }
double unit(nereid_dtype t) { return ldexp(1, -types[t].mantissa); }
double float_max(nereid_dtype t) { return types[t].max; }
const char *tl_name(nereid_dtype t) { return types[t].name; }
Int int_min(nereid_dtype t) { return is_signed(t) ? -((Int)1 << (width(t) - 1)) : 0; }
Int int_max(nereid_dtype t) { return ((Int)1 << (width(t) - is_signed(t))) - 1; }

int gen_sm;
nereid_dtype gpu_dtype(nereid_dtype t) {
  bool amd = t == NEREID_F8E4B8 || t == NEREID_F8E5B16;
  return gen_sm && (amd || (t == NEREID_F8E4NV && gen_sm < 89)) ? NEREID_F8E5 : t;
}

nereid_dtype random_dtype(Gen *g) {
  static const nereid_dtype likely[] = {NEREID_F32, NEREID_F32, NEREID_F32, NEREID_F32, NEREID_F16, NEREID_BF16,
                                        NEREID_F64, NEREID_I32, NEREID_I32, NEREID_I32, NEREID_I64, NEREID_U32,
                                        NEREID_U8,  NEREID_I8,  NEREID_I16, NEREID_I1};
  return chance(g, 75) ? likely[draw(g, 16)] : gpu_dtype((nereid_dtype)draw(g, NEREID_F64 + 1));
}

/* Rules 1 and 2 of Triton's arithmetic: numbers written in the kernel are weak where the operator says so. */
bool promote(const Val *a, bool a_const, const Val *b, bool b_const, bool weak, bool divides, nereid_dtype *out) {
  if (weak && a_const != b_const) {
    const Val *c = a_const ? a : b, *x = a_const ? b : a;
    int kind_c = is_float(c->t)      ? 2
                 : c->t == NEREID_I1 ? 0
                                     : 1,
        kind_x = is_float(x->t)      ? 2
                 : x->t == NEREID_I1 ? 0
                                     : 1;
    if (kind_c <= kind_x) {
      if (is_fp8(x->t)) return false;
      if (kind_x < 2 && (c->lo < int_min(x->t) || c->hi > int_max(x->t))) return false;
      *out = divides && (x->t == NEREID_F16 || x->t == NEREID_BF16) ? NEREID_F32 : x->t;
      return true;
    }
  }
  if (is_fp8(a->t) || is_fp8(b->t)) return false;
  if (a->t == NEREID_F64 || b->t == NEREID_F64) return *out = NEREID_F64, true;
  if (a->t == NEREID_F32 || b->t == NEREID_F32) return *out = NEREID_F32, true;
  if (a->t == NEREID_F16 || b->t == NEREID_F16) return *out = divides ? NEREID_F32 : NEREID_F16, true;
  if (a->t == NEREID_BF16 || b->t == NEREID_BF16)
    return *out = divides || a->t != b->t ? NEREID_F32 : NEREID_BF16, true;
  const Val *wide = width(a->t) >= width(b->t) ? a : b, *other = wide == a ? b : a;
  if (is_signed(a->t) == is_signed(b->t)) *out = wide->t;
  else {
    const Val *u = is_signed(a->t) ? b : a, *s = u == a ? b : a;
    *out = width(u->t) >= width(s->t) ? u->t : s->t;
  }
  (void)other;
  return true;
}

/* ---- what is known of a value ------------------------------------------------------------------------------------ */

double val_max(const Val *v) {
  double a = is_float(v->t) ? fabs(v->flo) : fabs((double)v->lo),
         b = is_float(v->t) ? fabs(v->fhi) : fabs((double)v->hi);
  return a > b ? a : b;
}

int64_t numel(const Val *v) {
  int64_t n = 1;
  for (int d = 0; d < v->rank; d++) n *= v->shape[d];
  return n;
}

bool exact_in(double max, int step, nereid_dtype t) {
  return step != NO_STEP && step >= types[t].least && max <= ldexp(1, mantissa(t) + step) && max <= float_max(t);
}

void set_int_range(Val *v, Int lo, Int hi) {
  if (lo < int_min(v->t) || hi > int_max(v->t)) lo = int_min(v->t), hi = int_max(v->t);
  v->lo = lo, v->hi = hi;
}

Val scalar_int(nereid_dtype t, Int lo, Int hi) { return (Val){.t = t, .lo = lo, .hi = hi, .step = NO_STEP}; }

void set_shape(Val *v, int rank, const int *shape) {
  v->rank = rank;
  for (int d = 0; d < rank; d++) v->shape[d] = shape[d];
}

bool same_shape(const Val *a, const Val *b) {
  return a->rank == b->rank && !memcmp(a->shape, b->shape, sizeof a->shape[0] * (size_t)a->rank);
}

bool broadcast_shape(const Val *a, const Val *b, Val *out) {
  int rank = a->rank > b->rank ? a->rank : b->rank, shape[MAX_RANK];
  for (int i = 1; i <= rank; i++) {
    int x = i <= a->rank ? a->shape[a->rank - i] : 1, y = i <= b->rank ? b->shape[b->rank - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    shape[rank - i] = x > y ? x : y;
  }
  Val v = *out;
  set_shape(&v, rank, shape);
  if (numel(&v) > MAX_NUMEL) return false;
  return set_shape(out, rank, shape), true;
}

/* After flo, fhi, err and step say what the exact result is: what rounding to the type adds. */
bool float_result(Val *v, bool rounded) {
  double max = val_max(v);
  if (!v->special && max > float_max(v->t) / 4) return false;
  if (max > 1e25 || v->err > 1e25) return false;
  if (exact_in(max, v->step, v->t) && v->err == 0) return true;
  if (!exact_in(max, v->step, v->t)) v->step = NO_STEP;
  if (v->err > 0 || rounded) v->err += 2 * unit(v->t) * (max + v->err) + ldexp(1, types[v->t].least);
  double grown = v->err + (v->step == NO_STEP ? unit(v->t) * max : 0);
  v->flo -= grown, v->fhi += grown;
  return true;
}

bool cast_val(const Val *v, nereid_dtype t, Val *out) {
  Val r = *v;
  r.t = t, r.uses = 0;
  if (v->t == t) return *out = r, true;
  r.fresh = false;
  if (t == NEREID_I1) {
    if (is_fp8(v->t) || (is_float(v->t) && v->err > 0)) return false;
    r.lo = 0, r.hi = 1, r.special = false, r.err = 0;
    return *out = r, true;
  }
  if (!is_float(v->t) && !is_float(t)) {
    set_int_range(&r, v->lo, v->hi);
    return *out = r, true;
  }
  if (is_float(v->t) && !is_float(t)) {
    if (is_fp8(v->t) || v->err > 0 || v->special) return false;
    if (v->flo <= (double)int_min(t) || v->fhi >= (double)int_max(t)) return false;
    set_int_range(&r, (Int)floor(v->flo), (Int)ceil(v->fhi));
    r.step = NO_STEP;
    return *out = r, true;
  }
  if (!is_float(v->t)) {
    if (is_fp8(t)) return false;
    r.flo = (double)v->lo, r.fhi = (double)v->hi, r.err = 0, r.step = 0, r.special = false;
    if (t == NEREID_F16 && val_max(&r) > 30000) return false;
    if (!exact_in(val_max(&r), 0, t)) r.step = NO_STEP;
    r.flo -= unit(t) * fabs(r.flo), r.fhi += unit(t) * fabs(r.fhi);
    return *out = r, true;
  }
  if (mantissa(t) >= mantissa(v->t) && float_max(t) >= float_max(v->t) && types[t].least <= types[v->t].least)
    return *out = r, true;
  if (is_fp8(t)) { /* saturates */
    if (r.flo < -float_max(t)) r.flo = -float_max(t);
    if (r.fhi > float_max(t)) r.fhi = float_max(t);
    if (r.flo > float_max(t)) r.flo = float_max(t);
    if (r.fhi < -float_max(t)) r.fhi = -float_max(t);
    if (v->special) r.flo = -float_max(t), r.fhi = float_max(t);
  } else if (val_max(v) > float_max(t) / 4) {
    if (v->err > 0) return false;
    r.special = true;
    r.flo = -float_max(t), r.fhi = float_max(t);
  }
  if (!exact_in(val_max(&r), r.step, t)) {
    r.step = NO_STEP;
    double max = val_max(&r);
    if (v->err > 0) r.err += 2 * unit(t) * (max + v->err) + ldexp(1, types[t].least);
    if (!is_fp8(t)) r.flo -= unit(t) * max + r.err, r.fhi += unit(t) * max + r.err;
  }
  return *out = r, true;
}

/* ---- values and parameters --------------------------------------------------------------------------------------- */

void print_shape(const Val *v, char out[64]) {
  int n = snprintf(out, 64, "[");
  for (int d = 0; d < v->rank; d++) n += snprintf(out + n, 64 - (size_t)n, "%s%d", d ? ", " : "", v->shape[d]);
  snprintf(out + n, 64 - (size_t)n, "]");
}

/* broadcast_to takes a scalar or a tile of the same rank. */
void spread_text(const Val *x, const Val *tile, char *text, size_t n) {
  char shape[64], index[40] = "";
  if (same_shape(x, tile)) {
    snprintf(text, n, "%s", x->name);
    return;
  }
  print_shape(tile, shape);
  if (x->rank && x->rank < tile->rank)
    for (int d = 0; d < tile->rank; d++) strcat(strcat(index, d ? ", " : "["), d < tile->rank - x->rank ? "None" : ":");
  snprintf(text, n, "tl.broadcast_to(%s%s%s, %s)", x->name, index, *index ? "]" : "", shape);
}

Val *add_named(Gen *g, Val v, const char *name) {
  if (g->count == POOL) { /* forget an old one */
    memmove(&g->pool[g->base], &g->pool[g->base + 1], sizeof g->pool[0] * (size_t)(POOL - g->base - 1));
    g->count--;
  }
  Val *p = &g->pool[g->count++];
  *p = v;
  p->uses = 0;
  snprintf(p->name, sizeof p->name, "%s", name);
  return p;
}

Val *emit(Gen *g, Val v, const char *format, ...) {
  char name[12];
  snprintf(name, sizeof name, "v%d", new_id(g));
  va_list ap;
  va_start(ap, format);
  text_print(g->out, "%*s%s = ", 4 * g->indent, "", name);
  text_vprint(g->out, format, ap);
  text_print(g->out, "\n");
  va_end(ap);
  if (v.rank)
    line(g, "tl.static_assert(%s.dtype == %s and %s.numel == %ld)", name, tl_name(v.t), name, (long)numel(&v));
  return add_named(g, v, name);
}

Param *add_param(Gen *g, ParamKind kind, const char *prefix) {
  if (g->in_helper || g->k->param_count == MAX_PARAMS - 4) return NULL;
  Param *p = &g->k->params[g->k->param_count];
  *p = (Param){.kind = kind, .t = NEREID_I32};
  snprintf(p->name, sizeof p->name, "%s%d", prefix, g->k->param_count++);
  return p;
}

void random_shape(Gen *g, int *rank, int *shape) {
  int a = g->dims[0], b = g->dims[1], c = g->dims[2];
  switch (draw(g, 12)) {
    case 0:
    case 1:
    case 2: *rank = 1, shape[0] = a; return;
    case 3: *rank = 1, shape[0] = b; return;
    case 4: *rank = 2, shape[0] = a, shape[1] = 1; return;
    case 5: *rank = 2, shape[0] = b, shape[1] = a; return;
    case 6: *rank = 3, shape[0] = c, shape[1] = a, shape[2] = b; return;
    case 7: *rank = 2, shape[0] = 1, shape[1] = b; return;
    default: *rank = 2, shape[0] = a, shape[1] = b; return;
  }
}

bool fits_want(const Val *v, int want) {
  if (v->terminal) return false;
  int kind = v->t == NEREID_I1 ? WANT_BOOL : !is_float(v->t) ? WANT_INT : is_fp8(v->t) ? WANT_FP8 : WANT_FLOAT;
  if (!(want & kind)) return false;
  if ((want & WANT_EXACT) && is_float(v->t) && v->err > 0) return false;
  if ((want & WANT_FINITE) && is_float(v->t) && v->special) return false;
  if ((want & WANT_BLOCK) && !v->rank) return false;
  if ((want & WANT_SCALAR) && v->rank) return false;
  if (is_float(v->t) && v->err > 0.02 * val_max(v) + 1e-30) return false; /* nothing left to compare */
  return true;
}

/* Mostly a recent one, and one that nobody used yet. */
static Val *pick_where(Gen *g, int want, const Val *other, int how) {
  Val *found = NULL;
  int seen = 0;
  for (int i = g->count - 1; i >= g->base; i--) {
    Val *v = &g->pool[i], shape = {0};
    if (!fits_want(v, want)) continue;
    if (how && !broadcast_shape(v, other, &shape)) continue;
    if (how == 2 && !same_shape(&shape, other)) continue;
    seen++;
    if (draw(g, (uint32_t)seen) == 0 || (v->uses == 0 && chance(g, 25))) found = v;
    if (seen >= 12 && found && chance(g, 20)) break;
  }
  if (found) found->uses++;
  return found;
}

Val *pick(Gen *g, int want) { return pick_where(g, want, NULL, 0); }
Val *pick_with(Gen *g, const Val *other, int want) { return pick_where(g, want, other, 1); }
Val *pick_into(Gen *g, const Val *other, int want) { return pick_where(g, want, other, 2); }

/* ---- what arrays hold -------------------------------------------------------------------------------------------- */

static int64_t fill_int(Gen *g, const Param *p) {
  if (p->edges && chance(g, 30)) {
    switch (draw(g, 5)) {
      case 0: return (int64_t)int_min(p->t);
      case 1: return (int64_t)int_max(p->t); /* of u64: its bits */
      case 2: return 0;
      case 3: return 1;
      default: return is_signed(p->t) ? -1 : 2;
    }
  }
  if (p->lo > p->hi) return (int64_t)((uint64_t)draw(g, UINT32_MAX) << 32 | draw(g, UINT32_MAX)); /* any bits */
  return draw_between(g, p->lo, p->hi);
}

void random_fill(const Param *p, void *data, uint64_t seed) {
  Gen g = {.random = seed};
  for (int64_t i = 0; i < p->count; i++) {
    char *at = (char *)data + i * (int64_t)nereid_dtype_bytes(p->t);
    if (p->fill == FILL_INTS) {
      int64_t v = fill_int(&g, p);
      if (p->t == NEREID_I1) v &= 1;
      memcpy(at, &v, nereid_dtype_bytes(p->t)); /* little-endian: the low bytes */
      continue;
    }
    double v = 0;
    if (p->fill == FILL_NORMAL) { /* sum of uniforms: bounded by 4 */
      for (int j = 0; j < 4; j++) v += (double)draw(&g, UINT32_MAX) * 0x1p-32 * 2 - 1;
    } else {
      v = ldexp((double)draw_between(&g, p->lo, p->hi), p->step);
    }
    if (p->fill == FILL_SPECIAL && chance(&g, 40)) {
      static const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
      v = odd[draw(&g, p->t >= NEREID_F16 ? 5 : 1)];
    }
    nereid_dtype_store(p->t, at, v);
  }
}
