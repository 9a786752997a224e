/* A graph's text, as print.c writes it, read back. Whoever wrote it may be wrong: each line is checked against the rule
 * of its operation (verify.c), and what is wrong is said with line and column.
 *
 *     graph    = "graph" "@" word ["[" symbol {"," symbol} "]"] "(" [input {"," input}] ")" "{" {line} "}"
 *     input    = "%" number [word] ":" type ["state"]
 *     line     = "%" number "=" operation [operands] ["{" attributes "}"] ":" type ["//" word]
 *              | "write" value "," value  |  "return" [result {"," result}]
 *     result   = value [word] | "none" [word]
 *     type     = dtype "[" [size {"," size}] "]"        size = a polynomial, "4*n*m - 2"
 *
 * A word is of letters, digits, "_" and "."; or anything in quotes. From "#" to the end of the line is a comment. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "graph/graph.h"

typedef struct Parser {
  Context *cx;
  Graph *g;
  const Source *source;
  const char *at, *end, *line_start;
  int line;
  Map *values; /* "12" -> Tensor */
} Parser;

/* ---- words ------------------------------------------------------------------------------------------------------- */

static Span here(const Parser *p) {
  int col = (int)(p->at - p->line_start);
  return (Span){.source = p->source, .line = p->line, .col = col, .end_line = p->line, .end_col = col + 1};
}

static void space(Parser *p) {
  for (; p->at < p->end && *p->at && strchr(" \t\r\n#", *p->at); p->at++) {
    if (*p->at == '#')
      while (p->at + 1 < p->end && p->at[1] != '\n') p->at++;
    if (*p->at != '\n') continue;
    p->line++;
    p->line_start = p->at + 1;
  }
}

static bool take(Parser *p, const char *text) { /* and the space before it */
  space(p);
  size_t n = strlen(text);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n)) return false;
  p->at += n;
  return true;
}

static void want(Parser *p, const char *text) {
  if (!take(p, text)) diag_fail(p->cx, here(p), "'%s' is wanted here", text);
}

static bool is_word(char c) {
  return c == '_' || c == '.' || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

/* NULL: there is none. */
static const char *word(Parser *p) {
  space(p);
  const char *from = p->at;
  if (p->at < p->end && *p->at == '"') {
    Buf b = {.arena = p->cx->arena};
    buf_puts(&b, "");
    for (p->at++; p->at < p->end && *p->at != '"' && *p->at != '\n'; p->at++) {
      if (*p->at == '\\' && p->at + 1 < p->end && p->at[1] != '\n') p->at++;
      buf_putc(&b, *p->at);
    }
    want(p, "\"");
    return b.at ? b.at : "";
  }
  while (p->at < p->end && is_word(*p->at)) p->at++;
  return p->at > from ? arena_strndup(p->cx->arena, from, (size_t)(p->at - from)) : NULL;
}

static int64_t integer(Parser *p) {
  space(p);
  const char *from = p->at;
  bool minus = p->at < p->end && *p->at == '-';
  uint64_t v = 0;
  p->at += minus;
  if (p->at == p->end || *p->at < '0' || *p->at > '9') diag_fail(p->cx, here(p), "a number is wanted here");
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
    v = v * 10 + (uint64_t)(*p->at - '0');
    if (v <= INT64_MAX / 16) continue;
    p->at = from;
    diag_fail(p->cx, here(p), "a number that is too large");
  }
  return minus ? -(int64_t)v : (int64_t)v;
}

static double real(Parser *p) {
  space(p);
  char text[64];
  size_t n = 0;
  while (p->at + n < p->end && n + 1 < sizeof text && (is_word(p->at[n]) || p->at[n] == '+' || p->at[n] == '-')) {
    text[n] = p->at[n];
    n++;
  }
  text[n] = 0;
  char *stop;
  double v = text_to_double(text, &stop);
  if (!n || *stop) diag_fail(p->cx, here(p), "a number is wanted here");
  p->at += n;
  return v;
}

/* ---- sizes and types --------------------------------------------------------------------------------------------- */

static const Size *term(Parser *p) { /* factors with * between */
  const Size *s = size_int(p->g, 1);
  do {
    space(p);
    p->g->place = here(p);
    if (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
      s = size_mul(p->g, s, size_int(p->g, integer(p)));
      continue;
    }
    const char *name = p->at < p->end && *p->at != '"' ? word(p) : NULL;
    if (!name) diag_fail(p->cx, here(p), "a size is wanted here");
    s = size_mul(p->g, s, size_symbol(p->g, name));
  } while (take(p, "*"));
  return s;
}

static const Size *size(Parser *p) {
  const Size *s = size_int(p->g, 0);
  bool minus = take(p, "-");
  for (;;) {
    s = minus ? size_sub(p->g, s, term(p)) : size_add(p->g, s, term(p));
    if (take(p, "+")) minus = false;
    else if (take(p, "-")) minus = true;
    else return s;
  }
}

static int sizes(Parser *p, const Size **out, const char *close) { /* after the opening bracket */
  int n = 0;
  if (take(p, close)) return 0;
  do {
    if (n == GRAPH_MAX_RANK) diag_fail(p->cx, here(p), "a tensor has at most %d dims", GRAPH_MAX_RANK);
    out[n++] = size(p);
  } while (take(p, ","));
  want(p, close);
  return n;
}

static void type(Parser *p, Tensor *t) {
  const Size *of[GRAPH_MAX_RANK];
  space(p);
  Span place = here(p);
  const char *name = word(p);
  int d = 0;
  while (name && d < DT_COUNT && strcmp(dtype_name((Dtype)d), name)) d++;
  if (!name || d == DT_COUNT) diag_fail(p->cx, place, "a type is wanted here, such as f32[2, n]");
  want(p, "[");
  t->dtype = (Dtype)d;
  t->rank = sizes(p, of, "]");
  t->size = arena_copy(p->cx->arena, of, sizeof *of * (size_t)(t->rank + 1));
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static const char *value_name(Parser *p) {
  want(p, "%");
  const char *from = p->at;
  while (p->at < p->end && *p->at >= '0' && *p->at <= '9') p->at++;
  if (p->at == from) diag_fail(p->cx, here(p), "a value's number is wanted here");
  return arena_strndup(p->cx->arena, from, (size_t)(p->at - from));
}

static Tensor *value(Parser *p) {
  space(p);
  Span place = here(p);
  const char *name = value_name(p);
  Tensor *t = map_get(p->values, name);
  if (!t) diag_fail(p->cx, place, "there is no %%%s yet", name);
  return t;
}

static void define(Parser *p, Span place, const char *name, Tensor *t) {
  if (map_get(p->values, name)) diag_fail(p->cx, place, "%%%s is there already", name);
  map_put(p->values, name, t);
}

static void check_pairs(Parser *p, Span place, const Tensor *t) {
  bool good = t && t->rank && size_is(t->size[t->rank - 1], 2) && (t->dtype == DT_F32 || t->dtype == DT_F64);
  if (!good) diag_fail(p->cx, place, "complex numbers are pairs of f32 or f64 in the last dim");
}

static void input(Parser *p) {
  Tensor like = {0};
  space(p);
  Span place = p->g->place = here(p);
  const char *name = value_name(p), *called = word(p);
  want(p, ":");
  type(p, &like);
  p->g->place = place;
  Tensor *t = graph_input(p->g, called, like.dtype, like.rank, like.size);
  t->is_state = take(p, "state");
  t->is_complex = take(p, "complex");
  if (t->is_complex) check_pairs(p, place, t);
  define(p, place, name, t);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void attribute(Parser *p, Tensor *t, const GraphAttr *a) {
  want(p, a->name);
  want(p, "=");
  switch (a->type) {
    case GRAPH_ATTR_INT: t->attr[a->slot] = integer(p); break;
    case GRAPH_ATTR_NUMBER: t->number = real(p); break;
    case GRAPH_ATTR_SIZE: t->first = size(p); break;
    case GRAPH_ATTR_WORD: {
      space(p);
      Span place = here(p);
      const char *said = word(p);
      int k = 0;
      while (a->words[k] && (!said || strcmp(a->words[k], said))) k++;
      if (!a->words[k]) diag_fail(p->cx, place, "there is no %s %s", a->name, said ? said : "here");
      t->attr[a->slot] = k;
      break;
    }
    case GRAPH_ATTR_DIMS: {
      VEC(int64_t) dims = {0};
      want(p, "[");
      if (!take(p, "]")) {
        do vec_push(p->cx->arena, &dims, integer(p));
        while (take(p, ","));
        want(p, "]");
      }
      t->dim_count = dims.n;
      t->dims =
          arena_copy(p->cx->arena, dims.at ? dims.at : (int64_t[]){0}, sizeof(int64_t) * (size_t)(dims.n + !dims.n));
      break;
    }
    case GRAPH_ATTR_SIZES: {
      const Size *of[GRAPH_MAX_RANK];
      want(p, "[");
      t->before_count = sizes(p, of, "]");
      t->before = arena_copy(p->cx->arena, of, sizeof *of * (size_t)(t->before_count + 1));
      break;
    }
  }
}

static void operation(Parser *p, Tensor *t) {
  space(p);
  Span place = here(p);
  const char *name = word(p), *names[GRAPH_OP_COUNT + POINT_COUNT + 1];
  if (!name) diag_fail(p->cx, place, "an operation is wanted here");
  int point = graph_point_named(name), n = 0, op = 0;
  while (op < GRAPH_OP_COUNT && strcmp(graph_ops[op].name, name)) op++;
  if (point >= 0) op = GRAPH_POINT;
  if (op == GRAPH_OP_COUNT || op == GRAPH_INPUT) {
    for (int i = GRAPH_INPUT + 1; i < GRAPH_OP_COUNT; i++)
      if (i != GRAPH_POINT) names[n++] = graph_ops[i].name;
    for (int i = 0; i < POINT_COUNT; i++) names[n++] = graph_points[i].name;
    names[n] = NULL;
    const char *near = nearest_name(name, names);
    if (!near) diag_fail(p->cx, place, "there is no operation %s", name);
    diag_fail_hint(p->cx, place, arena_printf(p->cx->arena, "did you mean %s?", near), "there is no operation %s",
                   name);
  }
  t->op = (GraphOp)op;
  t->point = point >= 0 ? (PointOp)point : 0;
  const GraphOpInfo *info = &graph_ops[op];
  int least = point >= 0 ? graph_points[point].operands : info->least, most = point >= 0 ? least : info->most;
  VEC(Tensor *) in = {0};
  space(p);
  if (p->at < p->end && *p->at == '%') {
    do vec_push(p->cx->arena, &in, value(p));
    while (take(p, ","));
  }
  if (in.n < least || (most >= 0 && in.n > most))
    diag_fail(p->cx, place, "%s takes %d operand%s%s, and not %d", name, least, least == 1 ? "" : "s",
              most < 0 ? " or more" : "", in.n);
  t->in_count = in.n;
  t->in = arena_copy(p->cx->arena, in.at ? in.at : (Tensor *[]){NULL}, sizeof *in.at * (size_t)(in.n + !in.n));
  const GraphAttr *attrs[GRAPH_MAX_ATTRS];
  n = graph_attrs(t->op, attrs);
  for (int i = 0; i < n; i++) {
    want(p, i ? "," : "{");
    attribute(p, t, attrs[i]);
    if (i == n - 1) want(p, "}");
  }
}

/* What an operation's rule looks into: which dim there is, and how many numbers a list has. */
static void check_attributes(Parser *p, Span place, const Tensor *t) {
  const GraphAttr *attrs[GRAPH_MAX_ATTRS];
  int rank = t->in_count ? t->in[0]->rank : 0;
  for (int i = 0, n = graph_attrs(t->op, attrs); i < n; i++) {
    const char *name = attrs[i]->name;
    int count = attrs[i]->type == GRAPH_ATTR_SIZES ? t->before_count : t->dim_count;
    bool list = attrs[i]->type == GRAPH_ATTR_SIZES ||
                (attrs[i]->type == GRAPH_ATTR_DIMS && t->op != GRAPH_REDUCE && t->op != GRAPH_CONVOLUTION);
    if (list && count != rank) diag_fail(p->cx, place, "%s has %d numbers here, and not %d", name, rank, count);
    if (!strcmp(name, "dim") && (t->dim < 0 || t->dim >= rank))
      diag_fail(p->cx, place, "there is no dim %lld in a tensor of %d dims", (long long)t->dim, rank);
  }
  if ((t->op == GRAPH_PAD || t->op == GRAPH_SLICE || t->op == GRAPH_SORT) && t->rank != rank)
    diag_fail(p->cx, place, "%s keeps the number of dims", graph_ops[t->op].name);
}

static void line(Parser *p) {
  Graph *g = p->g;
  Tensor *t = NEW(p->cx->arena, Tensor);
  space(p);
  Span place = here(p);
  const char *name = value_name(p);
  want(p, "=");
  operation(p, t);
  want(p, ":");
  type(p, t);
  g->place = t->span = place;
  check_attributes(p, place, t);
  int n = g->at.n;
  const Tensor *same = graph_again(g, t);
  g->at.n = n;
  if (same->dtype != t->dtype || !graph_same_shape(same, t)) {
    Buf is = {.arena = p->cx->arena}, said = {.arena = p->cx->arena};
    graph_print_type(&is, same);
    graph_print_type(&said, t);
    diag_fail(p->cx, place, "%%%s is %s, and not %s", name, is.at, said.at);
  }
  if (t->op == GRAPH_UNIFORM && t->stream >= 0 && t->stream < INT32_MAX && g->streams <= t->stream)
    g->streams = (int)t->stream + 1;
  t->id = n;
  vec_push(p->cx->arena, &g->at, t);
  define(p, place, name, t);
  if (take(p, "//")) t->name = word(p);
}

static void write_line(Parser *p) {
  space(p);
  Span place = here(p);
  Tensor *to = value(p);
  want(p, ",");
  Tensor *from = value(p);
  if (to->op != GRAPH_INPUT) diag_fail(p->cx, place, "only inputs are written");
  if (to->dtype != from->dtype || !graph_same_shape(to, from))
    diag_fail(p->cx, place, "an input is written with a tensor of its type and shape");
  vec_push(p->cx->arena, &p->g->writes, (GraphWrite){to, from});
}

static void results(Parser *p) {
  if (take(p, "}")) return;
  do {
    bool is_complex = take(p, "complex");
    Span place = here(p);
    Tensor *t = take(p, "none") ? NULL : value(p);
    if (is_complex) check_pairs(p, place, t);
    if (is_complex) graph_complex_output(p->g, p->g->outputs.n);
    const char *name = word(p);
    if (name) graph_name_output(p->g, p->g->outputs.n, name);
    vec_push(p->cx->arena, &p->g->outputs, t);
  } while (take(p, ","));
  want(p, "}");
}

Graph *graph_parse(Context *cx, const Source *text) {
  Parser *p = &(Parser){
      .cx = cx, .source = text, .at = text->text, .end = text->text + text->size, .line_start = text->text, .line = 1};
  p->values = map_create(cx->arena, true);
  p->g = graph_create(cx, "graph");
  want(p, "graph");
  want(p, "@");
  const char *name = word(p);
  if (name) p->g->name = name;
  if (take(p, "[")) { /* in which order sizes have their symbols */
    do term(p);
    while (take(p, ","));
    want(p, "]");
  }
  want(p, "(");
  if (!take(p, ")")) {
    do input(p);
    while (take(p, ","));
    want(p, ")");
  }
  want(p, "{");
  for (;;) {
    context_step(cx, 1);
    if (take(p, "write ")) write_line(p);
    else if (take(p, "return")) break;
    else line(p);
  }
  results(p);
  space(p);
  if (p->at < p->end) diag_fail(cx, here(p), "text after the graph");
  p->g->place = (Span){0};
  return p->g;
}
