/* Reads the lane IR's text, as lane_print writes it.
 *
 *     file   = "kernel" "@" name "(" [param {"," param}] ")" {word "=" int} "{" {buffer} {site} {op} "}"
 *     param  = value ":" type [tile type] ["{" "divisible" "=" int "}"]
 *     buffer = "buffer" text "bytes" "=" int "align" "=" int ["offset" "=" int]
 *     site   = "site" ("print" | "assert") text ["hex"] [":" tile type {"," tile type}] ["@" int ":" int]
 *     op     = [value {"," value} "="] name ["." kind] ["@" ["!"] value] [value {"," value}] ["{" {attr} "}"]
 *              [":" type {"," type}] ["@" int ":" int] {"do" "(" [value ":" type {"," ...}] ")" "{" {op} "}"}
 *     attr   = word | word "=" (int | kind | text) | int | ("+" | "-") int
 *     type   = "pred" | "b16" | "b32" | "b64"
 *
 * "//" begins a comment; white space only separates. A value is defined above its use, and once; what else makes IR
 * right is the verifier's business. An operation without "@line:col" is said to stand where its text stands.
 */
#include "gpu/lane_table.h"

#include "gpu/lane_scope.h"

enum { MAX_DEPTH = 200, MAX_LIST = 1 << 14 };

typedef struct Parser {
  Context *cx;
  const Source *source;
  const char *at, *end;
  LaneFunc *f;
  LaneBuilder b;
  Map *values; /* name -> LaneValue */
  int depth;
} Parser;

typedef VEC(LaneValue *) Values;
typedef VEC(LaneType) Types;

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

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Dots too: "tid.x"; an operation's name and its kind are taken apart by the one who reads them. */
static bool is_word_char(char ch) {
  unsigned char c = (unsigned char)ch;
  return c >= 0x80 || c == '_' || c == '.' || is_digit(ch) || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

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

static bool same(const char *s, size_t n, const char *word) { return strlen(word) == n && !memcmp(s, word, n); }

static bool take_word(Parser *p, const char *word) {
  size_t n;
  const char *s = peek_word(p, &n);
  if (!same(s, n, word)) return false;
  p->at += n;
  return true;
}

static int shown(size_t n) { return n < 40 ? (int)n : 40; }

/* ---- numbers and texts ---- */

static int hex_digit(char c) {
  return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static int64_t parse_int(Parser *p) {
  bool negative = take(p, '-');
  if (!negative) take(p, '+');
  if (!is_digit(peek(p))) wrong(p, "an integer");
  uint64_t base = 10, v = 0;
  if (*p->at == '0' && p->end - p->at > 2 && p->at[1] == 'x' && hex_digit(p->at[2]) >= 0) {
    base = 16;
    p->at += 2;
  }
  for (; p->at < p->end; p->at++) {
    int digit = base == 16 ? hex_digit(*p->at) : is_digit(*p->at) ? *p->at - '0' : -1;
    if (digit < 0) break;
    if (v > (UINT64_MAX - (uint64_t)digit) / base)
      fail(p->cx, span_at(p, p->at), "the integer does not fit into 64 bits");
    v = v * base + (uint64_t)digit;
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

static const char *parse_text(Parser *p) {
  expect(p, '"');
  const char *start = p->at, *line_end = memchr(start, '\n', (size_t)(p->end - start));
  char *text = arena_alloc(p->cx->arena, (size_t)((line_end ? line_end : p->end) - start) + 1), *to = text;
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

/* ---- types, kinds and values ---- */

static LaneType parse_type(Parser *p) {
  size_t n;
  const char *s = expect_word(p, "a type", &n);
  for (int t = LT_PRED; t <= LT_B64; t++)
    if (same(s, n, lane_kind_info[lane_bits_kind((LaneType)t)].name)) return (LaneType)t;
  fail(p->cx, span_at(p, s), "there is no type '%.*s'", shown(n), s);
}

/* A scalar of the tile IR: a number or a pointer. */
static const Type *parse_tile_type(Parser *p) {
  Type t = {0};
  while (take(p, '*')) {
    if (t.ptr == 8) wrong(p, "at most 8 stars");
    t.ptr++;
  }
  t.is_const = t.ptr && take_word(p, "const");
  size_t n;
  const char *s = peek_word(p, &n);
  char name[16];
  if (n && n < sizeof name) memcpy(name, s, n), name[n] = 0;
  if (!n || n >= sizeof name || !dtype_parse(name, &t.dtype)) wrong(p, "a type");
  p->at += n;
  return type_make(p->cx, t);
}

static LaneKind find_kind(Parser *p, const char *s, size_t n) {
  for (int k = 0; k < LK_COUNT; k++)
    if (same(s, n, lane_kind_info[k].name)) return (LaneKind)k;
  fail(p->cx, span_at(p, s), "there is no kind '%.*s'", shown(n), s);
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

static void define(Parser *p, const char *name, LaneValue *v, const char *where) {
  if (map_has(p->values, name)) fail(p->cx, span_at(p, where), "%%%s is defined twice", name);
  map_put(p->values, name, v);
}

static LaneValue *parse_use(Parser *p) {
  skip_space(p);
  const char *where = p->at, *name = parse_value_name(p);
  LaneValue *v = map_get(p->values, name);
  if (!v) fail(p->cx, span_at(p, where), "%%%s is used but not defined above", name);
  return v;
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

/* ---- attributes ---- */

static bool set_word(LaneOp *op, const LaneAttr *a, const char *s, size_t n) {
  uint8_t *byte = (uint8_t *)op + a->offset;
  if (a->kind == LANE_ATTR_FLAG && same(s, n, a->name)) return *byte = 1, true;
  if (a->kind == LANE_ATTR_WORD)
    for (int i = 0; i < a->word_count; i++)
      if (n && same(s, n, a->words[i])) return *byte = (uint8_t)i, true;
  return false;
}

static void set_number(Parser *p, LaneOp *op, const LaneAttr *a) {
  size_t n;
  const char *s;
  switch (a->kind) {
  case LANE_ATTR_NUMBER: *((uint8_t *)op + a->offset) = (uint8_t)parse_small(p, 0, 255, a->name); break;
  case LANE_ATTR_BUFFER: op->buffer = (int16_t)parse_small(p, 0, INT16_MAX, "a buffer"); break;
  case LANE_ATTR_IMM: op->imm = parse_int(p); break;
  case LANE_ATTR_TO:
    s = expect_word(p, "a kind", &n);
    op->to = find_kind(p, s, n);
    break;
  case LANE_ATTR_TEXT: op->text = parse_text(p); break;
  default: wrong(p, "no '='");
  }
}

static void parse_attrs(Parser *p, LaneOp *op) {
  const LaneAttr *attrs[LANE_MAX_ATTRS];
  int count = lane_attrs(op->code, attrs);
  bool has_imm = false;
  for (int i = 0; i < count; i++) has_imm = has_imm || attrs[i]->kind == LANE_ATTR_IMM;
  while (!take(p, '}')) {
    char c = peek(p);
    if (has_imm && (c == '+' || c == '-' || is_digit(c))) {
      op->imm = parse_int(p);
      continue;
    }
    size_t n;
    const char *s = expect_word(p, "an attribute", &n);
    bool known = false;
    if (take(p, '=')) {
      for (int i = 0; i < count && !known; i++)
        if ((known = same(s, n, attrs[i]->name))) set_number(p, op, attrs[i]);
    } else {
      for (int i = 0; i < count && !known; i++) known = set_word(op, attrs[i], s, n);
    }
    if (!known) fail(p->cx, span_at(p, s), "'%s' has no attribute '%.*s'", lane_info[op->code].name, shown(n), s);
  }
  if (op->code == LANE_CONST) op->imm &= (int64_t)lane_type_mask(lane_kind_info[op->kind].type);
}

/* ---- operations ---- */

static void parse_name(Parser *p, LaneOp *op) {
  size_t n;
  const char *s = expect_word(p, "an operation", &n), *dot = memchr(s, '.', n);
  size_t length = dot ? (size_t)(dot - s) : n;
  int code = 0;
  while (code < LANE_COUNT && !same(s, length, lane_info[code].name)) code++;
  if (code == LANE_COUNT) fail(p->cx, span_at(p, s), "there is no operation '%.*s'", shown(length), s);
  op->code = (LaneCode)code;
  if (dot) op->kind = find_kind(p, dot + 1, n - length - 1);
}

static void parse_block(Parser *p, LaneBlock *block);

static void parse_region(Parser *p, LaneOp *op, int index) {
  const char *where = p->at;
  if (index >= lane_info[op->code].regions)
    fail(p->cx, span_at(p, where), "'%s' has no body here", lane_info[op->code].name);
  if (++p->depth > MAX_DEPTH) fail(p->cx, span_at(p, where), "bodies are nested more than %d deep", MAX_DEPTH);
  LaneBlock *block = op->body[index] = NEW(p->cx->arena, LaneBlock);
  block->parent = op;
  Values args = {0};
  expect(p, '(');
  if (!take(p, ')')) {
    do {
      skip_space(p);
      const char *at = p->at, *name = parse_value_name(p);
      expect(p, ':');
      if (args.n >= MAX_LIST) wrong(p, "fewer arguments");
      LaneValue *v = lane_value_create(p->f, parse_type(p), args.n);
      v->block = block;
      vec_push(p->cx->arena, &args, v);
      define(p, name, v, at);
    } while (take(p, ','));
    expect(p, ')');
  }
  block->args = args.at;
  block->arg_count = args.n;
  expect(p, '{');
  parse_block(p, block);
  p->depth--;
}

static void parse_op(Parser *p, LaneBlock *block) {
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
  LaneOp proto = {.buffer = -1};
  parse_name(p, &proto);
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
    p->at++; /* after "barrier", "%x = ..." may follow on the next line */
  if (p->at + 1 < p->end && *p->at == '@' && (p->at[1] == '%' || p->at[1] == '!')) {
    p->at++;
    proto.guard_not = take(p, '!');
    proto.guard = parse_use(p);
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
  }
  Values in = {0};
  bool more = p->at < p->end && *p->at == '%';
  while (more) {
    if (in.n >= MAX_LIST) wrong(p, "fewer operands");
    vec_push(arena, &in, parse_use(p));
    more = take(p, ',');
  }
  if (take(p, '{')) parse_attrs(p, &proto);
  Types types = {0};
  if (take(p, ':')) do {
      if (types.n >= MAX_LIST) wrong(p, "fewer types");
      vec_push(arena, &types, parse_type(p));
    } while (take(p, ','));
  if (types.n != names.n)
    fail(p->cx, span_at(p, start), "'%s' names %d results but gives %d types", lane_info[proto.code].name, names.n,
         types.n);
  proto.span = parse_span(p, start);
  p->b.block = block;
  LaneOp *op = lane_op_raw(&p->b, proto, in.n, in.at, types.n, types.at);
  for (int i = 0; i < names.n; i++) define(p, names.at[i], op->out[i], start);
  for (int i = 0; take_word(p, "do"); i++) parse_region(p, op, i);
}

static void parse_block(Parser *p, LaneBlock *block) {
  while (!take(p, '}')) parse_op(p, block);
}

/* ---- the kernel ---- */

static int parse_field(Parser *p, const char *name, int64_t low, int64_t high) {
  if (!take_word(p, name)) wrong(p, name);
  expect(p, '=');
  return parse_small(p, low, high, name);
}

static void parse_buffer(Parser *p) {
  LaneBuffer b = {.name = parse_text(p), .offset = -1};
  b.bytes = parse_field(p, "bytes", 0, 1 << 24);
  b.align = parse_field(p, "align", 1, 1 << 16);
  size_t n;
  const char *s = peek_word(p, &n);
  if (same(s, n, "offset")) b.offset = parse_field(p, "offset", 0, 1 << 24);
  if (p->f->buffers.n >= MAX_LIST) wrong(p, "fewer buffers");
  vec_push(p->cx->arena, &p->f->buffers, b);
}

static void parse_site(Parser *p) {
  const char *start = p->at;
  LaneSite s = {.is_assert = take_word(p, "assert")};
  if (!s.is_assert && !take_word(p, "print")) wrong(p, "'print' or 'assert'");
  s.text = parse_text(p);
  s.hex = take_word(p, "hex");
  VEC(const Type *) types = {0};
  if (take(p, ':')) do {
      if (types.n >= MAX_LIST) wrong(p, "fewer types");
      vec_push(p->cx->arena, &types, parse_tile_type(p));
    } while (take(p, ','));
  s.value_count = types.n;
  s.types = types.at;
  s.span = parse_span(p, start);
  if (p->f->sites.n >= MAX_LIST) wrong(p, "fewer sites");
  vec_push(p->cx->arena, &p->f->sites, s);
}

static void parse_params(Parser *p) {
  expect(p, '(');
  if (take(p, ')')) return;
  do {
    if (p->f->param_count >= 4096) wrong(p, "fewer parameters");
    skip_space(p);
    const char *where = p->at, *name = parse_value_name(p);
    expect(p, ':');
    LaneType type = parse_type(p);
    const Type *of = NULL;
    char c = peek(p);
    if (c != ',' && c != ')' && c != '{') of = parse_tile_type(p);
    int64_t divisible = 1;
    if (take(p, '{')) {
      divisible = parse_field(p, "divisible", 1, 1 << 30);
      expect(p, '}');
    }
    define(p, name, lane_func_param(p->f, type, of, divisible), where);
  } while (take(p, ','));
  expect(p, ')');
}

static void parse_header_word(Parser *p) {
  static const char *const words[] = {"warps", "hidden", "diag", "list", "shared"};
  size_t n;
  const char *s = expect_word(p, "'{'", &n);
  int which = 0;
  while (which < 5 && !same(s, n, words[which])) which++;
  if (which == 5) fail(p->cx, span_at(p, s), "a kernel has no '%.*s'", shown(n), s);
  expect(p, '=');
  int value = parse_small(p, 0, which == 4 ? 1 << 24 : 1024, words[which]);
  LaneFunc *f = p->f;
  switch (which) {
  case 0: f->num_warps = value; break;
  case 1: f->hidden_params = value; break;
  case 2: f->uses_diag = value != 0; break;
  case 3: f->uses_list = value != 0; break;
  default: f->shared_bytes = value; break;
  }
}

LaneFunc *lane_parse(Context *cx, const Source *text) {
  Parser parser = {.cx = cx, .source = text, .at = text->text, .end = text->text + text->size}, *p = &parser;
  p->values = map_create(cx->arena, true);
  if (!take_word(p, "kernel")) wrong(p, "'kernel'");
  expect(p, '@');
  size_t n;
  const char *name = expect_word(p, "the kernel's name", &n);
  LaneFunc *f = p->f = lane_func_create(cx, intern(cx, name, n));
  p->b = lane_builder(f);
  parse_params(p);
  while (peek(p) != '{') parse_header_word(p);
  expect(p, '{');
  for (;;) {
    if (take_word(p, "buffer")) parse_buffer(p);
    else if (take_word(p, "site")) parse_site(p);
    else break;
  }
  parse_block(p, f->body);
  if (peek(p) || p->at < p->end) wrong(p, "nothing after the kernel");
  return f;
}
