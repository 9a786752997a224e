/* The value of a tensor at an index, as lines of a kernel. Stored tensors are loaded; a view asks its operand at
 * another index; elementwise work is a line on the operands' values. What was computed at an index once is not computed
 * again. */
#include <math.h>
#include <stdlib.h>

#include "fuse/fuse.h"

static FuseValue literal(Writer *w, Dtype t, double v) {
  Buf b = {.arena = w->cx->arena};
  if (t == DT_I1) buf_puts(&b, v != 0 ? "True" : "False");
  else if (dtype_is_int(t)) buf_printf(&b, "%lld", v >= 0x1p63 ? INT64_MAX : (long long)v);
  else if (isnan(v)) buf_puts(&b, "float(\"nan\")");
  else if (isinf(v)) buf_printf(&b, "float(\"%sinf\")", v < 0 ? "-" : "");
  else buf_double(&b, v);
  return (FuseValue){b.at, 0, true};
}

static FuseValue variable(Writer *w, const Tensor *t, const char *fallback, unsigned bits, const char *text) {
  const char *name = writer_name(w, t->name ? t->name : fallback);
  writer_line(w, "%s = %s", name, text);
  return (FuseValue){name, bits, false};
}

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

static void add_masks(Buf *b, const Index *at, const IndexVar **seen, int *n) {
  for (int i = 0; i < at->n; i++) {
    const IndexVar *v = at->at[i].var;
    bool known = !v->mask;
    for (int k = 0; k < *n && !known; k++) known = !strcmp(seen[k]->mask, v->mask);
    if (known || *n == 16) continue;
    seen[(*n)++] = v;
    buf_printf(b, "%s%s", b->n ? " & " : "", v->mask);
  }
}

const char *writer_mask(Writer *w, const Index *at, int extra_n, const Index *extra) {
  Buf b = {.arena = w->cx->arena};
  const IndexVar *seen[16];
  int n = 0;
  add_masks(&b, at, seen, &n);
  for (int i = 0; i < extra_n; i++) add_masks(&b, &extra[i], seen, &n);
  for (int i = 0; i < w->conditions.n; i++) buf_printf(&b, "%s%s", b.n ? " & " : "", w->conditions.at[i]);
  return b.at;
}

/* The mask without the conditions of padding around: those are added where a load stands. */
static const char *plain_mask(Writer *w, const Index *at) {
  int n = w->conditions.n;
  w->conditions.n = 0;
  const char *mask = writer_mask(w, at, 0, NULL);
  w->conditions.n = n;
  return mask;
}

/* An index that varies along all axes of `bits`, so that its mask has no more dims than it. */
static const char *spread(Writer *w, const Index *at, unsigned bits) {
  const char *text = index_text(w->g, at);
  for (int i = 0; i < w->vars.n; i++)
    if (w->vars.at[i]->bit & bits & ~index_bits(at))
      text = arena_printf(w->cx->arena, "%s + 0 * %s", text, w->vars.at[i]->text);
  return text;
}

static void count_symbols(Writer *w, const Index *at) {
  writer_size(w, at->constant);
  for (int i = 0; i < at->n; i++) {
    writer_size(w, at->at[i].factor);
    writer_size(w, at->at[i].below);
    if (at->at[i].size) writer_size(w, at->at[i].size);
  }
}

static void note_place(Map *map, const Tensor *t, const char *text) {
  const char *before = map_get(map, t);
  map_put(map, t, (void *)(!before || !strcmp(before, text) ? text : ""));
}

static void note_run(Writer *w, const Index *place) {
  for (int i = 0; i < place->n; i++) {
    const IndexTerm *t = &place->at[i];
    int64_t n = 1;
    if (t->var->bit != w->run_bit) continue;
    if (!size_is(t->below, 1)) w->run = gcd(w->run, size_is_int(t->below, &n) ? n : 1);
    if (t->size) w->run = gcd(w->run, size_is_int(size_mul(w->g, t->below, t->size), &n) ? n : 1);
  }
}

/* Whether neighbours in memory lie far apart in the tile, which then needs a second axis. On a CPU what is the same for
 * many elements in a row is no reason. */
static void note_transpose(Writer *w, const Index *place) {
  const IndexTerm *unit = NULL;
  bool flat = true, varies = w->plan->target.kind != TARGET_CPU;
  for (int i = 0; i < place->n; i++) varies |= size_is(place->at[i].below, 1);
  for (int i = 0; i < place->n && varies; i++) {
    const IndexTerm *t = &place->at[i];
    flat &= !size_is(t->below, 1);
    if (!size_is(t->factor, 1)) continue;
    if (size_is(t->below, 1) || unit) return;
    unit = t;
  }
  if (!unit || unit->var->bit != 1 || (w->turned_below && (flat || !w->turned_flat))) return;
  w->turned_flat = flat;
  w->turned_below = unit->below;
  w->turned_size = unit->size ? unit->size : size_divide(w->g, unit->var->extent, unit->below);
}

static const char last_use[] = ", eviction_policy=\"evict_first\"";

static FuseValue load(Writer *w, Tensor *t, const Index *at) {
  Index place = index_linear(w->g, t->rank, t->size, at);
  count_symbols(w, &place);
  const char *pointer = writer_buffer(w, t), *mask = writer_mask(w, &place, 0, NULL);
  unsigned bits = index_bits(&place);
  const char *text = spread(w, &place, w->condition_bits);
  note_place(w->loaded_at, t, text);
  note_transpose(w, &place);
  note_run(w, &place);
  bits |= w->condition_bits;
  Buf b = {.arena = w->cx->arena};
  buf_printf(&b, "tl.load(%s", pointer);
  if (place.n || !size_is(place.constant, 0) || w->condition_bits) buf_printf(&b, " + %s", text);
  if (mask) buf_printf(&b, ", mask=%s%s", mask, w->zeros ? dtype_is_float(t->dtype) ? ", other=0.0" : ", other=0" : "");
  if (w->last_use && bits == 3) buf_puts(&b, last_use);
  buf_putc(&b, ')');
  if (dtype_is_float(t->dtype) && dtype_bits(t->dtype) < 32 && !w->raw) buf_puts(&b, ".to(tl.float32)");
  FuseValue v = variable(w, t, "value", bits, b.at);
  v.loaded = true;
  return v;
}

void writer_store(Writer *w, Tensor *t, const Index *at, FuseValue v) {
  Index place = index_linear(w->g, t->rank, t->size, at);
  count_symbols(w, &place);
  Index others[4]; /* axes along which it has one place: only what is there is stored */
  int n = 0;
  for (int i = 0; i < w->vars.n && n < 4; i++)
    if (w->vars.at[i]->bit & v.bits & ~index_bits(&place)) others[n++] = index_var(w->g, w->vars.at[i]);
  if (w->phased) note_run(w, &place);
  const char *mask = writer_mask(w, &place, n, others), *text = spread(w, &place, v.bits);
  bool plain = !strcmp(text, "0");
  note_place(w->stored_at, t, text);
  writer_line(w, "tl.store(%s%s%s, %s%s%s%s)", writer_buffer(w, t), plain ? "" : " + ", plain ? "" : text, v.text,
              mask ? ", mask=" : "", mask ? mask : "", w->last_use && index_bits(&place) == 3 ? last_use : "");
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

static const char *fill(Writer *w, const char *form, const FuseValue *in) { /* $0, $1 by the operands' texts */
  Buf b = {.arena = w->cx->arena};
  for (const char *s = form; *s; s++)
    if (*s == '$') buf_puts(&b, in[*++s - '0'].text);
    else buf_putc(&b, *s);
  return b.at;
}

static const char *convert(Writer *w, const Tensor *t, FuseValue x) {
  Dtype from = t->in[0]->dtype, to = t->dtype;
  if (to == DT_I1) return arena_printf(w->cx->arena, "%s != 0", x.text);
  const char *text = x.text;
  bool narrow = dtype_is_float(to) && dtype_bits(to) < 32;
  if (narrow) return arena_printf(w->cx->arena, "%s.to(%s).to(tl.float32)", text, triton_type(to));
  if (dtype_is_float(from) && dtype_bits(from) < 32 && to == DT_F32) return text;
  return arena_printf(w->cx->arena, "%s.to(%s)", text, triton_type(to));
}

static const char *point_text(Writer *w, const Tensor *t, FuseValue *in) {
  Dtype from = t->in[t->in_count - 1]->dtype;
  bool ints = dtype_is_int(from);
  switch (t->point) {
    case POINT_CONVERT: return convert(w, t, in[0]);
    case POINT_ADD:
      if (from == DT_I1) return fill(w, "$0 | $1", in);
      break;
    case POINT_MUL:
      if (from == DT_I1) return fill(w, "$0 & $1", in);
      break;
    case POINT_MINIMUM:
    case POINT_MAXIMUM:
      if (from == DT_I1) return fill(w, t->point == POINT_MINIMUM ? "$0 & $1" : "$0 | $1", in);
      if (ints) return fill(w, t->point == POINT_MINIMUM ? "tl.minimum($0, $1)" : "tl.maximum($0, $1)", in);
      break;
    case POINT_FLOORDIV:
      if (!ints) return fill(w, "tl.floor($0 / $1)", in);
      return fill(w, "tl.where(($0 % $1 != 0) & (($0 % $1 < 0) != ($1 < 0)), $0 // $1 - 1, $0 // $1)", in);
    case POINT_REM: return fill(w, "$0 % $1", in);
    case POINT_NOT:
      if (from == DT_I1) return fill(w, "$0 == 0", in);
      break;
    case POINT_SQRT:
      if (from == DT_F64) return fill(w, "tl.sqrt($0)", in);
      break;
    default: break;
  }
  return fill(w, graph_points[t->point].triton, in);
}

/* One division for a row of a tile, in place of one for each element. */
static FuseValue inverse(Writer *w, FuseValue v) {
  const char *key = arena_printf(w->cx->arena, "1 / %s", v.text);
  FuseValue *known = map_get(w->memo, key);
  if (known) return *known;
  FuseValue r = v;
  r.text = writer_name(w, "inverse");
  writer_line(w, "%s = %s", r.text, key);
  map_put(w->memo, key, arena_copy(w->cx->arena, &r, sizeof r));
  return r;
}

bool writer_affine(Writer *w, Tensor *t, const Index *at, Index *out) {
  stack_guard();
  Graph *g = w->g;
  Index in[GRAPH_MAX_RANK], x, y;
  if (!dtype_is_int(t->dtype) || t->op == GRAPH_INPUT || (w->plan->stored[t->id] && !w->plan->alias[t->id]))
    return false;
  if (t->op == GRAPH_FULL) {
    *out = index_constant(g, size_int(g, (int64_t)t->number));
    return true;
  }
  if (t->op == GRAPH_IOTA) {
    *out = index_add(g, index_scale(g, at[0], size_int(g, t->step)), index_constant(g, size_int(g, t->start)));
    return true;
  }
  if (graph_is_view(t) && fuse_view_index(g, t, at, in)) return writer_affine(w, t->in[0], in, out);
  if (t->op != GRAPH_POINT || dtype_bits(t->dtype) < 32) return false;
  if (t->point == POINT_CONVERT) return writer_affine(w, t->in[0], at, out);
  if (t->point != POINT_ADD && t->point != POINT_SUB) return false;
  if (!writer_affine(w, t->in[0], at, &x) || !writer_affine(w, t->in[1], at, &y)) return false;
  *out = index_add(g, x, t->point == POINT_ADD ? y : index_scale(g, y, size_int(g, -1)));
  return true;
}

/* Whether an index fits in 32 bits, in which kernels count. */
static bool is_small(const Index *a) {
  int64_t c, most, factor, extent;
  if (!size_is_int(a->constant, &c)) return false;
  most = c < 0 ? -c : c;
  for (int i = 0; i < a->n; i++) {
    if (!size_is_int(a->at[i].factor, &factor) || !size_is_int(a->at[i].var->extent, &extent)) return false;
    if (__builtin_mul_overflow(factor < 0 ? -factor : factor, extent + 65536, &extent) || extent >= INT32_MAX)
      return false;
    most += extent;
  }
  return most < INT32_MAX;
}

/* A comparison of places (causal masks) needs no arange of its own. */
static bool compares_places(Writer *w, Tensor *t, const Index *at, FuseValue *out) {
  FuseValue in[2];
  Index i[2];
  if (graph_points[t->point].result != RESULT_TEST) return false;
  for (int k = 0; k < 2; k++) {
    if (!writer_affine(w, t->in[k], at, &i[k]) || !is_small(&i[k])) return false;
    in[k] = (FuseValue){.text = index_text(w->g, &i[k]), .bits = index_bits(&i[k])};
  }
  if (!i[0].n && !i[1].n) return false;
  vec_push(w->cx->arena, &w->members, t);
  *out =
      variable(w, t, graph_points[t->point].name, in[0].bits | in[1].bits, fill(w, graph_points[t->point].triton, in));
  return true;
}

/* Triton rounds a number to f32 before it meets a tensor of f64. */
static bool is_inexact(Dtype t, const char *number) {
  double v = text_to_double(number, NULL);
  return t == DT_F64 && (double)(float)v != v && isfinite(v);
}

/* Narrow floats are equal as they would be stored: whether an element is the maximum of its row, which another kernel
 * may have stored, is asked of its rounded value. */
static void round_compared(Writer *w, const Tensor *t, FuseValue *in) {
  Dtype type = t->in[0]->dtype;
  if ((t->point != POINT_EQ && t->point != POINT_NE) || !dtype_is_float(type) || dtype_bits(type) >= 32) return;
  for (int i = 0; i < 2; i++)
    if (!in[i].literal) in[i].text = arena_printf(w->cx->arena, "(%s).to(%s)", in[i].text, triton_type(type));
}

/* A number has i32 in Triton's functions, where operators take it as of the other's type. */
static bool widens(Dtype t) { return dtype_is_int(t) && t != DT_I1 && dtype_bits(t) < 32; }

static FuseValue point(Writer *w, Tensor *t, const Index *at) {
  FuseValue in[3];
  unsigned bits = 0;
  bool literals = true;
  FuseValue places;
  if (compares_places(w, t, at, &places)) return places;
  for (int i = 0; i < t->in_count; i++) {
    in[i] = writer_value(w, t->in[i], at);
    bits |= in[i].bits;
    literals &= in[i].literal;
  }
  round_compared(w, t, in);
  int first = t->point == POINT_WHERE;
  const char *form = graph_points[t->point].triton;
  bool exact = !strncmp(form, "libdevice", 9) /* it promotes nothing */ || (form[0] == 't' && widens(t->in[0]->dtype));
  for (int i = 0; i < t->in_count; i++) /* numbers alone have no type */
    if (in[i].literal && (literals || exact || is_inexact(t->in[i]->dtype, in[i].text) ||
                          (first && in[1].literal && in[2].literal) || t->in_count == 3))
      in[i].text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", in[i].text, triton_compute_type(t->in[i]->dtype));
    else if (in[i].literal && in[i].text[0] == '-') in[i].text = arena_printf(w->cx->arena, "(%s)", in[i].text);
  vec_push(w->cx->arena, &w->members, t);
  if (t->point == POINT_DIV && w->tile_at && in[0].bits == 3 && in[1].bits && in[1].bits != 3) {
    in[1] = inverse(w, in[1]);
    return variable(w, t, graph_points[t->point].name, bits, fill(w, "$0 * $1", in));
  }
  return variable(w, t, graph_points[t->point].name, bits, point_text(w, t, in));
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

/* An index that terms cannot say, as a variable of its own. */
static Index named(Writer *w, Index a, const Size *extent) {
  IndexVar *v = NEW(w->cx->arena, IndexVar);
  count_symbols(w, &a);
  const char *name = writer_name(w, "i");
  writer_line(w, "%s = %s", name, index_text(w->g, &a));
  unsigned bits = index_bits(&a);
  *v = (IndexVar){.text = name, .extent = extent, .bit = bits, .narrow = a.n && !index_is_wide(extent)};
  v->mask = plain_mask(w, &a);
  return index_var(w->g, v);
}

static FuseValue reshape(Writer *w, Tensor *t, const Index *at) {
  Index in[GRAPH_MAX_RANK], linear = index_linear(w->g, t->rank, t->size, at);
  if (!index_split(w->g, linear, t->in[0]->rank, t->in[0]->size, NULL, in)) {
    linear = named(w, linear, graph_numel(w->g, t));
    if (!index_split(w->g, linear, t->in[0]->rank, t->in[0]->size, NULL, in))
      diag_fail(w->cx, t->span, "internal error: a view's index");
  }
  return writer_value(w, t->in[0], in);
}

static void push_condition(Writer *w, const char *text, unsigned bits) {
  const char *name = writer_name(w, "inside");
  writer_line(w, "%s = %s", name, text);
  vec_push(w->cx->arena, &w->conditions, name);
  w->condition_bits |= bits;
}

/* Along one dim. */
typedef struct Padding {
  Index in; /* of the operand */
  const char *test;
  bool outside; /* whatever the index is */
} Padding;

/* What is between elements, where i counts from the first one. */
static void pad_between(Writer *w, Tensor *t, int d, Index i, Padding *out) {
  Graph *g = w->g;
  const Size *step = size_int(g, t->between[d] + 1);
  int64_t first, rest, each = t->between[d] + 1;
  Index up = i, q, r;
  if (size_is_int(i.constant, &first))
    up = index_add(g, i, index_constant(g, size_int(g, (first < 0 ? -first : 0) * each)));
  if (index_divide(g, up, step, &q, &r) && !r.n && size_is_int(r.constant, &rest)) { /* one digit of x for all */
    out->outside |= rest != 0;
    out->in = i;
    if (rest || index_divide(g, i, step, &out->in, &r)) return;
  }
  out->test = arena_printf(w->cx->arena, "%s%s((%s) %% %lld == 0)", out->test, *out->test ? " & " : "",
                           index_text(g, &i), (long long)each);
  i = named(w, i, size_mul(g, t->in[0]->size[d], step));
  if (!index_divide(g, i, step, &out->in, &r)) diag_fail(w->cx, t->span, "internal error: padding's index");
}

static Padding pad_dim(Writer *w, Tensor *t, int d, const Index *at) {
  Graph *g = w->g;
  Tensor *x = t->in[0];
  Index i = index_add(g, *at, index_constant(g, size_sub(g, size_int(g, 0), t->before[d])));
  Padding p = {.in = i, .test = ""};
  int64_t least, most, end;
  if (size_is(t->before[d], 0) && !t->between[d] && t->size[d] == x->size[d]) return p;
  count_symbols(w, &i);
  const Size *last = size_mul(g, size_sub(g, x->size[d], size_int(g, 1)), size_int(g, t->between[d] + 1)),
             *reach = size_add(g, last, size_int(g, 1));
  bool known = index_range(g, &i, &least, &most) && size_is_int(reach, &end);
  const char *text = index_text(g, &i);
  Buf test = {.arena = w->cx->arena};
  if (!size_is(t->before[d], 0) && !(known && least >= 0)) buf_printf(&test, "(%s >= 0)", text);
  if (!(known && most < end)) buf_printf(&test, "%s(%s < %s)", test.n ? " & " : "", text, writer_size(w, reach));
  if (test.n) {
    p.test = test.at;
    note_run(w, &i);
  }
  p.outside = known && (most < 0 || least >= end);
  if (t->between[d]) {
    fuse_note_phase(w, &i, 1, t->between[d] + 1);
    pad_between(w, t, d, i, &p);
  }
  return p;
}

static FuseValue pad(Writer *w, Tensor *t, const Index *at) {
  Tensor *x = t->in[0];
  Index in[GRAPH_MAX_RANK];
  Buf test = {.arena = w->cx->arena};
  unsigned bits = 0;
  FuseValue other = literal(w, t->dtype, t->number);
  for (int d = 0; d < t->rank; d++) {
    Padding p = pad_dim(w, t, d, &at[d]);
    in[d] = p.in;
    if (p.outside) return other;
    if (!*p.test) continue;
    bits |= index_bits(&at[d]);
    buf_printf(&test, "%s%s", test.n ? " & " : "", p.test);
  }
  if (!test.n) return writer_value(w, x, in);
  int n = w->conditions.n;
  unsigned outer = w->condition_bits;
  push_condition(w, test.at, bits);
  const char *inside = w->conditions.at[n];
  FuseValue v = writer_value(w, x, in);
  w->conditions.n = n;
  w->condition_bits = outer;
  if (v.loaded && w->zeros && t->number == 0 && !__builtin_signbit(t->number)) return v;
  if (v.literal) v.text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", v.text, triton_compute_type(t->dtype));
  if (widens(t->dtype))
    other.text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", other.text, triton_type(t->dtype));
  return variable(w, t, "padded", bits | v.bits,
                  arena_printf(w->cx->arena, "tl.where(%s, %s, %s)", inside, v.text, other.text));
}

/* Whether an index of the range [least, most] is in [begin, end): 1: always; 0: it depends; -1: never. */
static int within(bool known, int64_t least, int64_t most, const Size *begin, const Size *end) {
  int64_t first, after;
  if (!known || !size_is_int(begin, &first) || !size_is_int(end, &after)) return 0;
  return least >= first && most < after ? 1 : most < first || least >= after ? -1 : 0;
}

/* What all parts' bounds divide. */
static void note_parts(Writer *w, const Tensor *t, const Index *at) {
  int64_t step = 0, n, all;
  for (int i = 0; i < t->in_count; i++) {
    if (!size_is_int(t->in[i]->size[t->dim], &n)) return;
    step = gcd(step, n);
  }
  if (step && size_is_int(t->size[t->dim], &all)) fuse_note_phase(w, at, step, all / step);
}

static FuseValue concat(Writer *w, Tensor *t, const Index *at) {
  Graph *g = w->g;
  int dim = (int)t->dim, n = w->conditions.n;
  unsigned outer = w->condition_bits, bits = index_bits(&at[dim]);
  const Size *begin = size_int(g, 0);
  int64_t least, most;
  bool known = index_range(g, &at[dim], &least, &most);
  FuseValue v = {0};
  count_symbols(w, &at[dim]);
  note_parts(w, t, &at[dim]);
  const char *place = index_text(g, &at[dim]);
  for (int i = 0; i < t->in_count; i++) {
    Index in[GRAPH_MAX_RANK];
    const Size *end = size_add(g, begin, t->in[i]->size[dim]);
    int is_here = within(known, least, most, begin, end);
    memcpy(in, at, sizeof *in * (size_t)t->rank);
    in[dim] = index_add(g, at[dim], index_constant(g, size_sub(g, size_int(g, 0), begin)));
    if (is_here > 0) return writer_value(w, t->in[i], in);
    if (!is_here) {
      const char *low = arena_printf(w->cx->arena, "%s >= %s", place, writer_size(w, begin)),
                 *high = arena_printf(w->cx->arena, "%s < %s", place, writer_size(w, end));
      bool is_last = end == t->size[dim];
      push_condition(w, !i ? high : is_last ? low : arena_printf(w->cx->arena, "(%s) & (%s)", low, high), bits);
      const char *inside = w->conditions.at[n];
      FuseValue part = writer_value(w, t->in[i], in);
      w->conditions.n = n;
      w->condition_bits = outer;
      if (part.literal)
        part.text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", part.text, triton_compute_type(t->dtype));
      v = v.text ? variable(w, t, "joined", bits | part.bits | v.bits,
                            arena_printf(w->cx->arena, "tl.where(%s, %s, %s)", inside, part.text, v.text))
                 : part;
    }
    begin = end;
  }
  return v;
}

bool fuse_view_index(Graph *g, const Tensor *t, const Index *at, Index *in) {
  const Tensor *x = t->in[0];
  switch (t->op) {
    case GRAPH_PERMUTE:
      for (int d = 0; d < t->rank; d++) in[t->dims[d]] = at[d];
      return true;
    case GRAPH_EXPAND:
      for (int d = 0; d < t->rank; d++) in[d] = size_is(x->size[d], 1) ? index_constant(g, size_int(g, 0)) : at[d];
      return true;
    case GRAPH_SLICE:
      for (int d = 0; d < t->rank; d++) in[d] = at[d];
      in[t->dim] = index_add(g, index_scale(g, at[t->dim], size_int(g, t->step)), index_constant(g, t->first));
      return true;
    case GRAPH_UNFOLD:
      for (int d = 0; d + 1 < t->rank; d++) in[d] = at[d];
      in[t->dim] = index_add(g, index_scale(g, at[t->dim], size_int(g, t->step)),
                             index_scale(g, at[t->rank - 1], size_int(g, t->dilation)));
      return true;
    case GRAPH_RESHAPE: return index_split(g, index_linear(g, t->rank, t->size, at), x->rank, x->size, NULL, in);
    default: return false;
  }
}

static FuseValue view(Writer *w, Tensor *t, const Index *at) {
  Index in[GRAPH_MAX_RANK];
  if (t->op == GRAPH_RESHAPE) return reshape(w, t, at);
  if (t->op == GRAPH_PAD) return pad(w, t, at);
  if (t->op == GRAPH_CONCAT) return concat(w, t, at);
  if (!fuse_view_index(w->g, t, at, in)) diag_fail(w->cx, t->span, "internal error: a view's index");
  return writer_value(w, t->in[0], in);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* (t >= first) & (t < last), as algebra.c asks before it reads one element of a row */
static bool asks_within(const Tensor *c, const Tensor *t, int64_t n) {
  if (c->op != GRAPH_POINT || c->point != POINT_AND) return false;
  const Tensor *least = c->in[0], *most = c->in[1];
  double first, last;
  return least->op == GRAPH_POINT && least->point == POINT_GE && least->in[0] == t &&
         graph_is_number(least->in[1], &first) && first >= 0 && most->op == GRAPH_POINT && most->point == POINT_LT &&
         most->in[0] == t && graph_is_number(most->in[1], &last) && last <= (double)n;
}

/* Whether all elements of an index are among n, whatever the inputs are. */
static bool stays_within(const Tensor *index, int64_t n) {
  stack_guard();
  int64_t count;
  double v;
  if (graph_is_number(index, &v)) return v >= 0 && v < (double)n;
  while (graph_is_view(index) && index->in_count == 1 && index->op != GRAPH_PAD) index = index->in[0];
  if (index->op == GRAPH_SORT) return size_is_int(index->in[0]->size[index->dim], &count) && count <= n;
  if (index->op == GRAPH_POINT && index->point == POINT_WHERE)
    return asks_within(index->in[0], index->in[1], n) && stays_within(index->in[2], n);
  if (index->op != GRAPH_IOTA || !size_is_int(index->size[0], &count)) return false;
  int64_t first = index->start, last = first + (count - 1) * index->step;
  return first >= 0 && first < n && last >= 0 && last < n;
}

void writer_check_index(Writer *w, const Tensor *t, FuseValue i, const Size *n, const char *mask) {
  int64_t most;
  if (size_is_int(n, &most) && stays_within(t->in[1], most)) return;
  const char *text = i.text;
  if (i.literal) text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", i.text, triton_type(t->in[1]->dtype));
  Buf says = {.arena = w->cx->arena};
  if (t->span.source) {
    buf_printf(&says, "%s:%d: ", t->span.source->path, t->span.line);
    for (char *c = says.at; *c; c++)
      if (strchr("\"\\\n", *c)) *c = '?';
  }
  writer_line(w, "tl.device_assert((%s >= 0) & (%s < %s), \"%san index is out of bounds\"%s%s)", text, text,
              writer_size(w, n), says.n ? says.at : "", mask ? ", mask=" : "", mask ? mask : "");
  w->kernel->checks = true;
}

static FuseValue gather(Writer *w, Tensor *t, const Index *at) {
  Index in[GRAPH_MAX_RANK];
  FuseValue i = writer_value(w, t->in[1], at);
  Index own = {.constant = size_int(w->g, 0)}; /* where the index itself is not there, nothing is loaded */
  for (int d = 0; d < t->rank; d++) own = index_add(w->g, own, at[d]);
  writer_check_index(w, t, i, t->in[0]->size[t->dim], writer_mask(w, &own, 0, NULL));
  IndexVar *v = NEW(w->cx->arena, IndexVar);
  *v = (IndexVar){.text = i.text, .extent = t->in[0]->size[t->dim], .bit = i.bits};
  memcpy(in, at, sizeof *in * (size_t)t->rank);
  Index *dim = &in[t->dim];
  *dim = index_constant(w->g, size_int(w->g, 0));
  if (!size_is(v->extent, 1)) {
    dim->at = NEW(w->cx->arena, IndexTerm);
    dim->n = 1;
    dim->at[0] = (IndexTerm){v, size_int(w->g, 1), size_int(w->g, 1), NULL};
    v->mask = plain_mask(w, &own);
    if (v->mask && index_bits(&own) & ~i.bits) { /* one index for many elements: as many pointers as the mask has */
      IndexVar one = *v;
      Index alone = {
          .n = 1, .at = &(IndexTerm){&one, size_int(w->g, 1), size_int(w->g, 1), NULL}, .constant = size_int(w->g, 0)};
      v->text = writer_name(w, "i");
      writer_line(w, "%s = %s", v->text, spread(w, &alone, index_bits(&own)));
    }
    v->bit |= index_bits(&own);
  }
  vec_push(w->cx->arena, &w->members, t);
  return writer_value(w, t->in[0], in);
}

/* The element's order as a number of 32 bits with a sign, above its place (sort.c). */
static FuseValue sort_key(Writer *w, Tensor *t, const Index *at) {
  Arena *a = w->cx->arena;
  Dtype type = t->in[0]->dtype;
  FuseValue x = writer_value(w, t->in[0], at);
  bool is_double = type == DT_F64, is_long = dtype_bits(type) == 64;
  if (x.literal) x.text = arena_printf(a, "tl.full([], %s, %s)", x.text, triton_compute_type(type));
  const char *helper = is_double ? "double_order" : "float_order", *order = arena_printf(a, "%s.to(tl.int64)", x.text);
  if (dtype_is_float(type)) {
    fuse_need_helper(w->plan, helper);
    order = arena_printf(a, is_double ? "%s(%s)" : "%s(%s).to(tl.int64)", helper, x.text);
  } else if (type == DT_U64) order = arena_printf(a, "(%s ^ -0x8000000000000000)", order);
  else if (type == DT_U32) order = arena_printf(a, "(%s - 0x80000000)", order);
  if (is_long) order = arena_printf(a, t->word ? "(%s >> 32)" : "((%s & 0xFFFFFFFF) - 0x80000000)", order);
  const Index *place = &at[t->rank - 1];
  count_symbols(w, place);
  vec_push(a, &w->members, t);
  return variable(w, t, "key", x.bits | index_bits(place),
                  arena_printf(a, "(%s%s << 32) | (%s)", t->descending ? "~" : "", order, index_text(w->g, place)));
}

static FuseValue create(Writer *w, Tensor *t, const Index *at) {
  Graph *g = w->g;
  if (t->op == GRAPH_FULL) return literal(w, t->dtype, t->number);
  if (t->op == GRAPH_EXTENT) {
    const char *text =
        arena_printf(w->cx->arena, "tl.full([], %s, %s)", writer_size(w, t->extent), triton_compute_type(t->dtype));
    return variable(w, t, "size", 0, text);
  }
  if (t->op == GRAPH_IOTA) {
    Index i = index_add(g, index_scale(g, at[0], size_int(g, t->step)), index_constant(g, size_int(g, t->start)));
    count_symbols(w, &i);
    if (!i.n && dtype_is_int(t->dtype)) return (FuseValue){index_text(g, &i), 0, true};
    const char *text = index_text(g, &i);
    return variable(w, t, "iota", index_bits(&i),
                    i.n ? arena_printf(w->cx->arena, "(%s).to(%s)", text, triton_compute_type(t->dtype))
                        : arena_printf(w->cx->arena, "tl.full([], %s, %s)", text, triton_compute_type(t->dtype)));
  }
  Index place = index_linear(g, t->rank, t->size, at);
  count_symbols(w, &place);
  const char *seed = "seed";
  if (g->seed) seed = arena_printf(w->cx->arena, "tl.load(%s)", writer_buffer(w, g->seed));
  else w->kernel->seed = true;
  vec_push(w->cx->arena, &w->members, t);
  const char *text = index_text(g, &place);
  if (!place.n) text = arena_printf(w->cx->arena, "tl.full([], %s, tl.int32)", text);
  return variable(w, t, "random", index_bits(&place),
                  arena_printf(w->cx->arena, "tl.rand(%s + %lld, %s)", seed, (long long)t->stream, text));
}

static const char *key_of(Writer *w, const Tensor *t, const Index *at) {
  Buf key = {.arena = w->cx->arena};
  buf_printf(&key, w->raw ? "raw %d" : "%d", t->id);
  for (int d = 0; d < t->rank; d++) {
    buf_putc(&key, ',');
    index_print(&key, &at[d]);
  }
  for (int i = 0; i < w->conditions.n; i++) buf_printf(&key, "&%s", w->conditions.at[i]);
  if (w->raw) buf_puts(&key, "&raw");
  if (w->zeros) buf_puts(&key, "&zeros");
  return key.at;
}

void writer_know(Writer *w, const Tensor *t, const Index *at, FuseValue v) {
  map_put(w->memo, key_of(w, t, at), arena_copy(w->cx->arena, &v, sizeof v));
}

void writer_hold(Writer *w, const Tensor *t, FuseValue v) {
  map_put(w->held, t, arena_copy(w->cx->arena, &v, sizeof v));
}

FuseValue writer_value(Writer *w, Tensor *t, const Index *at) {
  stack_guard();
  FuseValue *known = map_get(w->held, t);
  if (known) return *known;
  known = map_get(w->memo, key_of(w, t, at));
  if (known) return *known;
  FuseValue v;
  bool own = false; /* stored by this very kernel: computed, not loaded */
  for (int i = 0; i < w->group->n; i++) own |= w->group->roots[i] == t;
  if (t->op == GRAPH_INPUT || (w->plan->stored[t->id] && !w->plan->alias[t->id] && !own)) v = load(w, t, at);
  else switch (graph_ops[t->op].group) {
      case CLASS_CREATE: v = create(w, t, at); break;
      case CLASS_POINT: v = point(w, t, at); break;
      case CLASS_VIEW: v = view(w, t, at); break;
      case CLASS_PRODUCT:
        if (w->tile_at) {
          v = w->tile_at(w, t, at);
          break;
        } /* fall through */
      default:
        if (t->op == GRAPH_SORT && t->in_count == 2) {
          v = writer_value(w, t->in[1], at);
          break;
        }
        if (t->op == GRAPH_SORT_KEYS) {
          v = sort_key(w, t, at);
          break;
        }
        if (t->op != GRAPH_GATHER)
          diag_fail(w->cx, t->span, "internal error: %%%d (%s) is not stored and cannot be computed here", t->id,
                    graph_ops[t->op].name);
        v = gather(w, t, at);
    }
  writer_know(w, t, at, v);
  return v;
}
