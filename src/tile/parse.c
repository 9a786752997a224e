/* Reads the IR's text, as print.c writes it.
 *
 *     file   = "kernel" "@" name "(" [arg {"," arg}] ")" {word "=" int} "{" {op} "}"
 *     arg    = "%" name ":" type ["{" "divisible" "=" int "}"]
 *     op     = [value {"," value} "="] name [value {"," value}] ["{" attr {"," attr} "}"] [":" type {"," type}]
 *              ["@" int ":" int] {"do" "(" [value ":" type {"," ...}] ")" "{" {op} "}"}
 *     attr   = name "=" (int | number | word | "[" ints "]" | text)
 *     type   = {"*"} ["const"] dtype ["[" int {"," int} "]"]
 *
 * "//" begins a comment. White space, line ends included, only separates, but that an operation's first operand
 * stands on the line of its name. A value must be defined above its use, and once; everything else that makes IR right
 * is the verifier's business. An operation without "@line:col" is said to stand where its text stands.
 */
#include "tile/tile.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_DEPTH = 200, MAX_LIST = 1 << 16 };

typedef VEC(Value *) Values;
typedef VEC(const Type *) Types;

typedef struct Parser {
  Context *cx;
  const Source *source;
  const char *at, *end;
  Func *func;
  Map *values; /* name -> Value */
  int depth;
} Parser;

/* ---- characters ---- */

static Span span_at(const Parser *p, const char *at) {
  const Source *s = p->source;
  uint32_t offset = (uint32_t)(at - s->text);
  int low = 0, high = s->line_count; /* the last line that starts at or before the offset */
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (s->line_start[middle] <= offset) low = middle;
    else high = middle;
  }
  int col = (int)(offset - s->line_start[low]);
  return (Span){.source = s, .line = low + 1, .col = col, .end_line = low + 1, .end_col = col + 1};
}

static NORETURN void wrong(Parser *p, const char *expected) {
  if (p->at >= p->end) fail(p->cx, span_at(p, p->at), "expected %s, found the end of the text", expected);
  fail(p->cx, span_at(p, p->at), "expected %s, found '%c'", expected, *p->at >= ' ' && *p->at < 0x7f ? *p->at : '?');
}

static void skip_space(Parser *p) {
  while (p->at < p->end) {
    if (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
    else if (*p->at == '/' && p->at + 1 < p->end && p->at[1] == '/')
      while (p->at < p->end && *p->at != '\n') p->at++;
    else break;
  }
}

static char peek(Parser *p) {
  skip_space(p);
  return p->at < p->end ? *p->at : 0;
}

static bool take(Parser *p, char c) {
  if (peek(p) != c || p->at >= p->end) return false;
  p->at++;
  return true;
}

static void expect(Parser *p, char c) {
  if (!take(p, c)) wrong(p, (char[]){'\'', c, '\'', 0});
}

static bool is_word_char(char ch) {
  unsigned char c = (unsigned char)ch;
  return c >= 0x80 || c == '_' || c == '.' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* A word as it stands in the text; *n is its length, 0 when there is none. */
static const char *peek_word(Parser *p, size_t *n) {
  skip_space(p);
  const char *s = p->at;
  while (s < p->end && is_word_char(*s)) s++;
  *n = (size_t)(s - p->at);
  return p->at;
}

static const char *expect_word(Parser *p, const char *expected, size_t *n) {
  const char *s = peek_word(p, n);
  if (!*n) wrong(p, expected);
  p->at += *n;
  return s;
}

static bool take_word(Parser *p, const char *word) {
  size_t n;
  const char *s = peek_word(p, &n);
  if (n != strlen(word) || memcmp(s, word, n)) return false;
  p->at += n;
  return true;
}

static bool same(const char *s, size_t n, const char *word) { return strlen(word) == n && !memcmp(s, word, n); }

/* ---- numbers and texts ---- */

static int64_t parse_int(Parser *p) {
  bool negative = take(p, '-');
  if (peek(p) < '0' || *p->at > '9') wrong(p, "an integer");
  uint64_t v = 0;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
    uint64_t digit = (uint64_t)(*p->at - '0');
    if (v > (UINT64_MAX - digit) / 10) fail(p->cx, span_at(p, p->at), "the integer does not fit into 64 bits");
    v = v * 10 + digit;
  }
  return (int64_t)(negative ? 0 - v : v);
}

static int parse_small(Parser *p, int64_t low, int64_t high, const char *what) {
  skip_space(p);
  const char *start = p->at;
  int64_t v = parse_int(p);
  if (v < low || v > high)
    fail(p->cx, span_at(p, start), "%s must lie between %lld and %lld", what, (long long)low, (long long)high);
  return (int)v;
}

static double parse_number(Parser *p) {
  bool negative = take(p, '-');
  size_t n;
  const char *s = peek_word(p, &n);
  double v;
  if (same(s, n, "inf")) v = INFINITY, p->at += n;
  else if (same(s, n, "nan")) v = NAN, p->at += n;
  else {
    char text[64];
    size_t length = 0;
    const char *from = s;
    for (; from < p->end && length < sizeof text - 1; from++) {
      bool exponent_sign = (*from == '+' || *from == '-') && length && (text[length - 1] | 32) == 'e';
      if (!exponent_sign && !(*from >= '0' && *from <= '9') && *from != '.' && (*from | 32) != 'e') break;
      text[length++] = *from == '.' ? *localeconv()->decimal_point : *from;
    }
    text[length] = 0;
    char *stop;
    v = strtod(text, &stop);
    if (!length || *stop) wrong(p, "a number");
    p->at = from;
  }
  return negative ? -v : v;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static const char *parse_text(Parser *p) {
  expect(p, '"');
  const char *start = p->at, *line_end = memchr(start, '\n', (size_t)(p->end - start));
  char *text = arena_alloc(p->cx->arena, (size_t)((line_end ? line_end : p->end) - start) + 1);
  char *to = text;
  for (;; p->at++) {
    if (p->at >= p->end || *p->at == '\n') fail(p->cx, span_at(p, start), "the text has no closing quote on its line");
    if (*p->at == '"') break;
    char c = *p->at;
    if (c == 0) wrong(p, "no NUL in a text");
    if (c == '\\' && p->at + 1 < p->end) {
      c = *++p->at;
      if (c == 'n') c = '\n';
      else if (c == 't') c = '\t';
      else if (c == 'x') {
        int high = p->end - p->at > 2 ? hex_digit(p->at[1]) : -1, low = high >= 0 ? hex_digit(p->at[2]) : -1;
        if (low < 0 || (high == 0 && low == 0)) wrong(p, "two hexadecimal digits other than 00 after \\x");
        c = (char)(high << 4 | low);
        p->at += 2;
      } else if (c != '"' && c != '\\') wrong(p, "one of n t x \" \\ after a backslash");
    }
    *to++ = c;
  }
  p->at++;
  *to = 0;
  return text;
}

static void parse_dims(Parser *p, Op *op) {
  VEC(int64_t) dims = {0};
  expect(p, '[');
  if (!take(p, ']')) {
    do {
      if (dims.n >= MAX_LIST) wrong(p, "a shorter list");
      vec_push(p->cx->arena, &dims, parse_int(p));
    } while (take(p, ','));
    expect(p, ']');
  }
  op->dims = dims.at;
  op->dim_count = dims.n;
}

/* ---- types and values ---- */

static const Type *parse_type(Parser *p) {
  Type t = {0};
  while (take(p, '*')) {
    if (t.ptr == 8) wrong(p, "at most 8 stars");
    t.ptr++;
  }
  t.is_const = t.ptr && take_word(p, "const");
  size_t n;
  const char *s = peek_word(p, &n);
  char name[16];
  Dtype dtype = DT_I1;
  if (n && n < sizeof name) memcpy(name, s, n), name[n] = 0;
  if (!n || n >= sizeof name || !dtype_parse(name, &dtype)) wrong(p, "a type");
  t.dtype = dtype;
  p->at += n;
  if (!take(p, '[')) return type_make(p->cx, t);
  int64_t numel = 1;
  do {
    if (t.rank == MAX_RANK) fail(p->cx, span_at(p, s), "a tensor has at most %d dimensions", MAX_RANK);
    t.shape[t.rank] = parse_small(p, 1, MAX_TILE_ELEMENTS, "a dimension");
    numel *= t.shape[t.rank++];
    if (numel > MAX_TILE_ELEMENTS) fail(p->cx, span_at(p, s), "a tensor has at most %d elements", MAX_TILE_ELEMENTS);
  } while (take(p, ','));
  expect(p, ']');
  return type_make(p->cx, t);
}

static void parse_types(Parser *p, Types *types) {
  do {
    if (types->n >= MAX_LIST) wrong(p, "fewer types");
    vec_push(p->cx->arena, types, parse_type(p));
  } while (take(p, ','));
}

static const char *parse_value_name(Parser *p) {
  expect(p, '%');
  size_t n = 0; /* directly after the sign */
  while (p->at + n < p->end && is_word_char(p->at[n])) n++;
  if (!n) wrong(p, "a value's name");
  const char *name = intern(p->cx, p->at, n);
  p->at += n;
  return name;
}

/* A name of digits only is a number the printer gave. */
static const char *source_name(const char *name) { return strspn(name, "0123456789") == strlen(name) ? NULL : name; }

static void define(Parser *p, const char *name, Value *v, const char *where) {
  if (map_has(p->values, name)) fail(p->cx, span_at(p, where), "%%%s is defined twice", name);
  map_put(p->values, name, v);
  v->name = source_name(name);
}

static Value *parse_use(Parser *p) {
  skip_space(p);
  const char *where = p->at, *name = parse_value_name(p);
  Value *v = map_get(p->values, name);
  if (!v) fail(p->cx, span_at(p, where), "%%%s is used but not defined above", name);
  return v;
}

/* ---- operations ---- */

static void parse_attr(Parser *p, Op *op, const AttrInfo *attrs, int n) {
  size_t length;
  const char *name = expect_word(p, "an attribute", &length);
  const AttrInfo *a = NULL;
  for (int i = 0; i < n && !a; i++)
    if ((size_t)attrs[i].name_length == length && !memcmp(attrs[i].name, name, length)) a = &attrs[i];
  if (!a)
    fail(p->cx, span_at(p, name), "'%s' has no attribute '%.*s'", op_info[op->code].name,
         (int)(length < 40 ? length : 40), name);
  expect(p, '=');
  switch (a->kind) {
  case ATTR_DIMS: parse_dims(p, op); break;
  case ATTR_TEXT: op->text = parse_text(p); break;
  case ATTR_NUMBER: op->number = parse_number(p); break;
  case ATTR_INT: op->attr[a->slot] = parse_int(p); break;
  case ATTR_WORD:
  case ATTR_MATH: {
    const char *word = expect_word(p, "a word", &length);
    int value = attr_word_value(a, word, length);
    if (value < 0)
      fail(p->cx, span_at(p, word), "'%.*s' is no value of '%.*s'", (int)(length < 40 ? length : 40), word,
           a->name_length, a->name);
    op->attr[a->slot] = value;
  }
  }
}

static void parse_attrs(Parser *p, Op *op) {
  AttrInfo attrs[MAX_ATTRS];
  int n = op_attrs(op->code, attrs);
  do parse_attr(p, op, attrs, n);
  while (take(p, ','));
  expect(p, '}');
}

/* A constant's value can be read only once its type is known, which stands behind it. */
static void parse_const_value(Parser *p, const char *at, Op *op) {
  const Type *t = op->out_count ? op->out[0]->type : NULL;
  const char *after = p->at;
  p->at = at;
  expect(p, '{');
  if (!take_word(p, "value")) wrong(p, "'value'");
  expect(p, '=');
  if (t && !t->ptr && dtype_is_float(t->dtype)) {
    char memory[8] = {0};
    dtype_store_float(t->dtype, memory, parse_number(p));
    op->number = dtype_load_float(t->dtype, memory);
  } else {
    op->attr[0] = parse_int(p);
    if (t && !t->ptr) op->attr[0] = int_wrap(t->dtype, op->attr[0]);
  }
  expect(p, '}');
  p->at = after;
}

static OpCode parse_op_name(Parser *p) {
  size_t n;
  const char *s = expect_word(p, "an operation", &n);
  for (int i = 0; i < OP_COUNT; i++)
    if (same(s, n, op_info[i].name)) return (OpCode)i;
  fail(p->cx, span_at(p, s), "there is no operation '%.*s'", (int)(n < 40 ? n : 40), s);
}

static void parse_block(Parser *p, Block *b);

static void parse_region(Parser *p, Op *op, int index) {
  const char *where = p->at;
  if (index >= op_info[op->code].regions)
    fail(p->cx, span_at(p, where), "'%s' has no body here", op_info[op->code].name);
  if (++p->depth > MAX_DEPTH) fail(p->cx, span_at(p, where), "bodies are nested more than %d deep", MAX_DEPTH);
  Block *b = block_create(p->func, op);
  expect(p, '(');
  if (!take(p, ')')) {
    do {
      skip_space(p);
      const char *at = p->at, *name = parse_value_name(p);
      expect(p, ':');
      if (b->arg_count >= MAX_LIST) wrong(p, "fewer arguments");
      define(p, name, block_add_arg(p->func, b, parse_type(p), NULL), at);
    } while (take(p, ','));
    expect(p, ')');
  }
  expect(p, '{');
  parse_block(p, b);
  p->depth--;
}

static const Span *parse_span(Parser *p, const char *start) {
  Span *span = NEW(p->cx->arena, Span);
  *span = span_at(p, start);
  if (!take(p, '@')) return span;
  span->line = span->end_line = parse_small(p, 1, INT32_MAX, "a line");
  expect(p, ':');
  span->col = parse_small(p, 0, INT32_MAX - 1, "a column");
  span->end_col = span->col + 1;
  return span;
}

static void parse_op(Parser *p, Block *block) {
  Arena *arena = p->cx->arena;
  skip_space(p);
  const char *start = p->at;
  VEC(const char *) names = {0};
  if (peek(p) == '%') {
    do {
      if (names.n >= MAX_LIST) wrong(p, "fewer results");
      vec_push(arena, &names, parse_value_name(p));
    } while (take(p, ','));
    expect(p, '=');
  }
  OpCode code = parse_op_name(p);
  Values in = {0};
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++; /* after "barrier", "%x = ..." may follow */
  bool more = p->at < p->end && *p->at == '%';
  while (more) {
    if (in.n >= MAX_LIST) wrong(p, "fewer operands");
    vec_push(arena, &in, parse_use(p));
    more = take(p, ',');
  }

  /* The attributes stand before the types, but the operation is made with its types: read over them first. */
  const char *attrs = NULL, *after_attrs = NULL;
  if (take(p, '{')) {
    attrs = p->at - 1;
    for (; p->at < p->end && *p->at != '}'; p->at++)
      if (*p->at == '"') /* to the closing quote, so that a brace in a text does not count */
        for (p->at++; p->at < p->end && *p->at != '"' && *p->at != '\n'; p->at++)
          if (*p->at == '\\' && p->at + 1 < p->end && p->at[1] != '\n') p->at++;
    expect(p, '}');
    after_attrs = p->at;
  }
  Types types = {0};
  if (take(p, ':')) parse_types(p, &types);
  if (types.n != names.n)
    fail(p->cx, span_at(p, start), "'%s' names %d results but gives %d types", op_info[code].name, names.n, types.n);

  Builder b = {.func = p->func, .block = block};
  Op *op = build_op(&b, code, in.n, in.at, types.n, types.at);
  if (attrs && code == OP_CONST) {
    parse_const_value(p, attrs, op);
  } else if (attrs) {
    const char *after_types = p->at;
    p->at = attrs + 1;
    parse_attrs(p, op);
    if (p->at != after_attrs) wrong(p, "the end of the attributes");
    p->at = after_types;
  }
  op->span = parse_span(p, start);
  for (int i = 0; i < names.n; i++) define(p, names.at[i], op->out[i], start);
  for (int i = 0; take_word(p, "do"); i++) parse_region(p, op, i);
}

static void parse_block(Parser *p, Block *b) {
  while (!take(p, '}')) parse_op(p, b);
}

static void parse_header_word(Parser *p) {
  static const char *const words[] = {"warps", "stages", "ctas", "debug"};
  size_t n;
  const char *s = expect_word(p, "'{'", &n);
  int which = 0;
  while (which < 4 && !same(s, n, words[which])) which++;
  if (which == 4) fail(p->cx, span_at(p, s), "a kernel has no '%.*s'", (int)(n < 40 ? n : 40), s);
  expect(p, '=');
  int value = parse_small(p, 0, 1024, words[which]);
  if (which == 0) p->func->num_warps = value;
  else if (which == 1) p->func->num_stages = value;
  else if (which == 2) p->func->num_ctas = value;
  else p->func->debug = value != 0;
}

Func *tile_parse(Context *cx, const Source *text) {
  Parser parser = {.cx = cx, .source = text, .at = text->text, .end = text->text + text->size}, *p = &parser;
  p->values = map_create(cx->arena, true);
  if (!take_word(p, "kernel")) wrong(p, "'kernel'");
  expect(p, '@');
  size_t n;
  const char *name = expect_word(p, "the kernel's name", &n);
  Func *f = p->func = func_create(cx, intern(cx, name, n));
  expect(p, '(');
  if (!take(p, ')')) {
    do {
      skip_space(p);
      const char *where = p->at, *arg = parse_value_name(p);
      expect(p, ':');
      const Type *type = parse_type(p);
      int64_t divisible = 1;
      if (take(p, '{')) {
        if (!take_word(p, "divisible")) wrong(p, "'divisible'");
        expect(p, '=');
        divisible = parse_small(p, 1, 1 << 30, "divisible");
        expect(p, '}');
      }
      if (f->body->arg_count >= MAX_LIST) wrong(p, "fewer arguments");
      define(p, arg, func_add_arg(f, type, NULL, divisible), where);
    } while (take(p, ','));
    expect(p, ')');
  }
  while (peek(p) != '{') parse_header_word(p);
  expect(p, '{');
  parse_block(p, f->body);
  if (peek(p) || p->at < p->end) wrong(p, "nothing after the kernel");
  return f;
}
