/* The value of a tensor at an index, as lines of a kernel. Stored tensors are loaded; a view asks its operand at
 * another index; elementwise work is a line on the operands' values. What was computed at an index once is not computed
 * again. */
#include <math.h>

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
    for (int k = 0; k < *n; k++) known |= seen[k] == v;
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

static FuseValue load(Writer *w, Tensor *t, const Index *at) {
  Index place = index_linear(w->g, t->rank, t->size, at);
  count_symbols(w, &place);
  const char *pointer = writer_buffer(w, t), *mask = writer_mask(w, &place, 0, NULL);
  unsigned bits = index_bits(&place);
  const char *text = spread(w, &place, w->condition_bits);
  bits |= w->condition_bits;
  Buf b = {.arena = w->cx->arena};
  buf_printf(&b, "tl.load(%s", pointer);
  if (place.n || !size_is(place.constant, 0) || w->condition_bits) buf_printf(&b, " + %s", text);
  if (mask) buf_printf(&b, ", mask=%s", mask);
  buf_putc(&b, ')');
  if (dtype_is_float(t->dtype) && dtype_bits(t->dtype) < 32) buf_puts(&b, ".to(tl.float32)");
  FuseValue v = variable(w, t, "value", bits, b.at);
  v.loaded = true;
  return v;
}

void writer_store(Writer *w, Tensor *t, const Index *at, FuseValue v) {
  Index place = index_linear(w->g, t->rank, t->size, at);
  count_symbols(w, &place);
  const char *mask = writer_mask(w, &place, 0, NULL), *text = spread(w, &place, v.bits);
  bool plain = !strcmp(text, "0");
  writer_line(w, "tl.store(%s%s%s, %s%s%s)", writer_buffer(w, t), plain ? "" : " + ", plain ? "" : text, v.text,
              mask ? ", mask=" : "", mask ? mask : "");
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
    default: break;
  }
  return fill(w, graph_points[t->point].triton, in);
}

static FuseValue point(Writer *w, Tensor *t, const Index *at) {
  FuseValue in[3];
  unsigned bits = 0;
  bool literals = true;
  for (int i = 0; i < t->in_count; i++) {
    in[i] = writer_value(w, t->in[i], at);
    bits |= in[i].bits;
    literals &= in[i].literal;
  }
  int first = t->point == POINT_WHERE;
  for (int i = 0; i < t->in_count; i++) /* numbers alone have no type */
    if (in[i].literal && (literals || (first && in[1].literal && in[2].literal) || t->in_count == 3))
      in[i].text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", in[i].text, triton_compute_type(t->in[i]->dtype));
    else if (in[i].literal && in[i].text[0] == '-') in[i].text = arena_printf(w->cx->arena, "(%s)", in[i].text);
  vec_push(w->cx->arena, &w->members, t);
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
  *v = (IndexVar){.text = name, .extent = extent, .bit = bits};
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

static FuseValue pad(Writer *w, Tensor *t, const Index *at) {
  Graph *g = w->g;
  Tensor *x = t->in[0];
  Index in[GRAPH_MAX_RANK];
  Buf test = {.arena = w->cx->arena};
  unsigned bits = 0;
  for (int d = 0; d < t->rank; d++) {
    Index i = index_add(g, at[d], index_constant(g, size_sub(g, size_int(g, 0), t->sizes[d])));
    in[d] = i;
    if (size_is(t->sizes[d], 0) && !t->dims[d] && t->size[d] == x->size[d]) continue;
    count_symbols(w, &i);
    const char *text = index_text(g, &i);
    bits |= index_bits(&i);
    const Size *reach = size_int(g, 0); /* behind the last element */
    reach =
        size_add(g, size_mul(g, size_sub(g, x->size[d], size_int(g, 1)), size_int(g, t->dims[d] + 1)), size_int(g, 1));
    if (!size_is(t->sizes[d], 0)) buf_printf(&test, "%s(%s >= 0)", test.n ? " & " : "", text);
    buf_printf(&test, "%s(%s < %s)", test.n ? " & " : "", text, writer_size(w, reach));
    if (!t->dims[d]) continue;
    buf_printf(&test, " & ((%s) %% %lld == 0)", text, (long long)t->dims[d] + 1);
    Index q, r;
    i = named(w, i, size_mul(g, x->size[d], size_int(g, t->dims[d] + 1)));
    if (!index_divide(g, i, size_int(g, t->dims[d] + 1), &q, &r))
      diag_fail(w->cx, t->span, "internal error: padding's index");
    in[d] = q;
  }
  int n = w->conditions.n;
  unsigned outer = w->condition_bits;
  push_condition(w, test.at, bits);
  const char *inside = w->conditions.at[n];
  FuseValue v = writer_value(w, x, in), other = literal(w, t->dtype, t->number);
  w->conditions.n = n;
  w->condition_bits = outer;
  if (v.literal) v.text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", v.text, triton_compute_type(t->dtype));
  return variable(w, t, "padded", bits | v.bits,
                  arena_printf(w->cx->arena, "tl.where(%s, %s, %s)", inside, v.text, other.text));
}

static FuseValue concat(Writer *w, Tensor *t, const Index *at) {
  Graph *g = w->g;
  int dim = (int)t->dims[0], n = w->conditions.n;
  unsigned outer = w->condition_bits, bits = index_bits(&at[dim]);
  const Size *begin = size_int(g, 0);
  FuseValue v = {0};
  count_symbols(w, &at[dim]);
  const char *place = index_text(g, &at[dim]);
  for (int i = 0; i < t->in_count; i++) {
    Index in[GRAPH_MAX_RANK];
    const Size *end = size_add(g, begin, t->in[i]->size[dim]);
    memcpy(in, at, sizeof *in * (size_t)t->rank);
    in[dim] = index_add(g, at[dim], index_constant(g, size_sub(g, size_int(g, 0), begin)));
    push_condition(w,
                   i ? arena_printf(w->cx->arena, "(%s >= %s) & (%s < %s)", place, writer_size(w, begin), place,
                                    writer_size(w, end))
                     : arena_printf(w->cx->arena, "%s < %s", place, writer_size(w, end)),
                   bits);
    const char *inside = w->conditions.at[n];
    FuseValue part = writer_value(w, t->in[i], in);
    w->conditions.n = n;
    w->condition_bits = outer;
    if (part.literal)
      part.text = arena_printf(w->cx->arena, "tl.full([], %s, %s)", part.text, triton_compute_type(t->dtype));
    v = i ? variable(w, t, "joined", bits | part.bits | v.bits,
                     arena_printf(w->cx->arena, "tl.where(%s, %s, %s)", inside, part.text, v.text))
          : part;
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
      in[t->dims[0]] =
          index_add(g, index_scale(g, at[t->dims[0]], size_int(g, t->dims[1])), index_constant(g, t->sizes[0]));
      return true;
    case GRAPH_UNFOLD:
      for (int d = 0; d + 1 < t->rank; d++) in[d] = at[d];
      in[t->dims[0]] = index_add(g, index_scale(g, at[t->dims[0]], size_int(g, t->dims[2])),
                                 index_scale(g, at[t->rank - 1], size_int(g, t->dims[3])));
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

static FuseValue gather(Writer *w, Tensor *t, const Index *at) {
  Index in[GRAPH_MAX_RANK];
  FuseValue i = writer_value(w, t->in[1], at);
  IndexVar *v = NEW(w->cx->arena, IndexVar);
  *v = (IndexVar){.text = i.text, .extent = t->in[0]->size[t->dims[0]], .bit = i.bits};
  memcpy(in, at, sizeof *in * (size_t)t->rank);
  Index *dim = &in[t->dims[0]];
  *dim = index_constant(w->g, size_int(w->g, 0));
  if (!size_is(v->extent, 1)) {
    dim->at = NEW(w->cx->arena, IndexTerm);
    dim->n = 1;
    dim->at[0] = (IndexTerm){v, size_int(w->g, 1), size_int(w->g, 1), NULL};
    Index own = {.constant = size_int(w->g, 0)}; /* where the index itself is not there, nothing is loaded */
    for (int d = 0; d < t->rank; d++) own = index_add(w->g, own, at[d]);
    v->mask = plain_mask(w, &own);
    v->bit |= index_bits(&own);
  }
  vec_push(w->cx->arena, &w->members, t);
  return writer_value(w, t->in[0], in);
}

static FuseValue create(Writer *w, Tensor *t, const Index *at) {
  Graph *g = w->g;
  if (t->op == GRAPH_FULL) return literal(w, t->dtype, t->number);
  if (t->op == GRAPH_EXTENT) {
    const char *text =
        arena_printf(w->cx->arena, "(%s).to(%s)", writer_size(w, t->sizes[0]), triton_compute_type(t->dtype));
    return variable(w, t, "size", 0, text);
  }
  if (t->op == GRAPH_IOTA) {
    Index i = index_add(g, index_scale(g, at[0], size_int(g, t->attr[1])), index_constant(g, size_int(g, t->attr[0])));
    count_symbols(w, &i);
    if (!i.n && dtype_is_int(t->dtype)) return (FuseValue){index_text(g, &i), 0, true};
    const char *text = index_text(g, &i);
    return variable(w, t, "iota", index_bits(&i),
                    i.n ? arena_printf(w->cx->arena, "(%s).to(%s)", text, triton_compute_type(t->dtype))
                        : arena_printf(w->cx->arena, "tl.full([], %s, %s)", text, triton_compute_type(t->dtype)));
  }
  Index place = index_linear(g, t->rank, t->size, at);
  count_symbols(w, &place);
  w->kernel->seed = true;
  vec_push(w->cx->arena, &w->members, t);
  const char *text = index_text(g, &place);
  if (!place.n) text = arena_printf(w->cx->arena, "tl.full([], %s, tl.int32)", text);
  return variable(w, t, "random", index_bits(&place),
                  arena_printf(w->cx->arena, "tl.rand(seed + %lld, %s)", (long long)t->attr[0], text));
}

FuseValue writer_value(Writer *w, Tensor *t, const Index *at) {
  stack_guard();
  FuseValue *known = map_get(w->held, t);
  if (known) return *known;
  Buf key = {.arena = w->cx->arena};
  buf_printf(&key, "%d", t->id);
  for (int d = 0; d < t->rank; d++) {
    buf_putc(&key, ',');
    index_print(&key, &at[d]);
  }
  for (int i = 0; i < w->conditions.n; i++) buf_printf(&key, "&%s", w->conditions.at[i]);
  known = map_get(w->memo, key.at);
  if (known) return *known;
  FuseValue v;
  bool own = false; /* stored by this very kernel: computed, not loaded */
  for (int i = 0; i < w->group->n; i++) own |= w->group->roots[i] == t;
  if (t->op == GRAPH_INPUT || (w->plan->stored[t->id] && !w->plan->alias[t->id] && !own)) v = load(w, t, at);
  else switch (graph_ops[t->op].group) {
      case CLASS_CREATE: v = create(w, t, at); break;
      case CLASS_POINT: v = point(w, t, at); break;
      case CLASS_VIEW: v = view(w, t, at); break;
      default:
        if (t->op != GRAPH_GATHER)
          diag_fail(w->cx, t->span, "internal error: %%%d (%s) is not stored and cannot be computed here", t->id,
                    graph_ops[t->op].name);
        v = gather(w, t, at);
    }
  map_put(w->memo, key.at, arena_copy(w->cx->arena, &v, sizeof v));
  return v;
}
