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

#include <math.h>
#include <stdlib.h>

enum { MAX_DEPTH = 200, MAX_LIST = 1 << 16 };

typedef VEC(Value *) Values;
typedef VEC(const Type *) Types;

typedef struct Parser {
  Cursor *in;
  Func *func;
  Map *values; /* name -> Value */
  int depth;
} Parser;

static int shown(size_t n) { return n < 40 ? (int)n : 40; }

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static double parse_number(Parser *p) {
  bool negative = cursor_take(p->in, '-');
  size_t n;
  const char *s = cursor_peek_word(p->in, &n);
  double v;
  if (cursor_same(s, n, "inf")) v = INFINITY, p->in->at += n;
  else if (cursor_same(s, n, "nan")) v = NAN, p->in->at += n;
  else {
    char text[64];
    size_t length = 0;
    const char *from = s;
    for (; from < p->in->end && length < sizeof text - 1; from++) {
      bool exponent_sign = (*from == '+' || *from == '-') && length && (text[length - 1] | 32) == 'e';
      if (!exponent_sign && !(*from >= '0' && *from <= '9') && *from != '.' && (*from | 32) != 'e') break;
      text[length++] = *from;
    }
    text[length] = 0;
    char *stop;
    v = text_to_double(text, &stop);
    if (!length || *stop) cursor_wrong(p->in, "a number");
    p->in->at = from;
  }
  return negative ? -v : v;
}

static void parse_dims(Parser *p, Op *op) {
  VEC(int64_t) dims = {0};
  cursor_expect(p->in, '[');
  if (!cursor_take(p->in, ']')) {
    do {
      if (dims.n >= MAX_LIST) cursor_wrong(p->in, "a shorter list");
      vec_push(p->in->cx->arena, &dims, cursor_int(p->in));
    } while (cursor_take(p->in, ','));
    cursor_expect(p->in, ']');
  }
  op->dims = dims.at;
  op->dim_count = dims.n;
}

/* ---- types and values -------------------------------------------------------------------------------------------- */

const Type *type_parse(Cursor *c) {
  Type t = {0};
  while (cursor_take(c, '*')) {
    if (t.ptr == 8) cursor_wrong(c, "at most 8 stars");
    t.ptr++;
  }
  t.is_const = t.ptr && cursor_take_word(c, "const");
  size_t n;
  const char *word = cursor_peek_word(c, &n);
  char name[16];
  Dtype dtype = DT_I1;
  if (n && n < sizeof name) memcpy(name, word, n), name[n] = 0;
  if (!n || n >= sizeof name || !dtype_parse(name, &dtype)) cursor_wrong(c, "a type");
  t.dtype = dtype;
  c->at += n;
  if (!cursor_take(c, '[')) return type_make(c->cx, t);
  int64_t numel = 1;
  do {
    if (t.rank == MAX_RANK) diag_fail(c->cx, cursor_span(c, word), "a tensor has at most %d dimensions", MAX_RANK);
    t.shape[t.rank] = cursor_int_between(c, 1, MAX_TILE_ELEMENTS, "a dimension");
    numel *= t.shape[t.rank++];
    if (numel > MAX_TILE_ELEMENTS)
      diag_fail(c->cx, cursor_span(c, word), "a tensor has at most %d elements", MAX_TILE_ELEMENTS);
  } while (cursor_take(c, ','));
  cursor_expect(c, ']');
  return type_make(c->cx, t);
}

static void parse_types(Parser *p, Types *types) {
  do {
    if (types->n >= MAX_LIST) cursor_wrong(p->in, "fewer types");
    vec_push(p->in->cx->arena, types, type_parse(p->in));
  } while (cursor_take(p->in, ','));
}

/* A name of digits only is a number the printer gave. */
static const char *source_name(const char *name) { return strspn(name, "0123456789") == strlen(name) ? NULL : name; }

static void define(Parser *p, const char *name, Value *v, const char *where) {
  if (map_has(p->values, name)) diag_fail(p->in->cx, cursor_span(p->in, where), "%%%s is defined twice", name);
  map_put(p->values, name, v);
  v->name = source_name(name);
}

static Value *parse_use(Parser *p) {
  cursor_space(p->in);
  const char *where = p->in->at, *name = cursor_value_name(p->in);
  Value *v = map_get(p->values, name);
  if (!v) diag_fail(p->in->cx, cursor_span(p->in, where), "%%%s is used but not defined above", name);
  return v;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void parse_attr(Parser *p, Op *op, const AttrInfo *attrs, int n) {
  size_t length;
  const char *name = cursor_word(p->in, "an attribute", &length);
  const AttrInfo *a = NULL;
  for (int i = 0; i < n && !a; i++)
    if ((size_t)attrs[i].name_length == length && !memcmp(attrs[i].name, name, length)) a = &attrs[i];
  if (!a)
    diag_fail(p->in->cx, cursor_span(p->in, name), "'%s' has no attribute '%.*s'", op_info[op->code].name,
              shown(length), name);
  cursor_expect(p->in, '=');
  switch (a->kind) {
    case ATTR_DIMS: parse_dims(p, op); break;
    case ATTR_TEXT: op->text = cursor_text(p->in); break;
    case ATTR_NUMBER: op->number = parse_number(p); break;
    case ATTR_INT: op->attr[a->slot] = cursor_int(p->in); break;
    case ATTR_WORD:
    case ATTR_MATH: {
      const char *word = cursor_word(p->in, "a word", &length);
      int value = attr_word_value(a, word, length);
      if (value < 0)
        diag_fail(p->in->cx, cursor_span(p->in, word), "'%.*s' is no value of '%.*s'", shown(length), word,
                  a->name_length, a->name);
      op->attr[a->slot] = value;
    }
  }
}

static void parse_attrs(Parser *p, Op *op) {
  AttrInfo attrs[MAX_ATTRS];
  int n = op_attrs(op->code, attrs);
  do parse_attr(p, op, attrs, n);
  while (cursor_take(p->in, ','));
  cursor_expect(p->in, '}');
}

/* A constant's value can be read only once its type is known, which stands after it. */
static void parse_const_value(Parser *p, const char *at, Op *op) {
  const Type *t = op->out_count ? op->out[0]->type : NULL;
  const char *after = p->in->at;
  p->in->at = at;
  cursor_expect(p->in, '{');
  if (!cursor_take_word(p->in, "value")) cursor_wrong(p->in, "'value'");
  cursor_expect(p->in, '=');
  if (t && !t->ptr && dtype_is_float(t->dtype)) {
    char memory[8] = {0};
    dtype_store_float(t->dtype, memory, parse_number(p));
    op->number = dtype_load_float(t->dtype, memory);
  } else {
    op->value = cursor_int(p->in);
    if (t && !t->ptr) op->value = int_wrap(t->dtype, op->value);
  }
  cursor_expect(p->in, '}');
  p->in->at = after;
}

static OpCode parse_op_name(Parser *p) {
  size_t n;
  const char *s = cursor_word(p->in, "an operation", &n);
  for (int i = 0; i < OP_COUNT; i++)
    if (cursor_same(s, n, op_info[i].name)) return (OpCode)i;
  diag_fail(p->in->cx, cursor_span(p->in, s), "there is no operation '%.*s'", shown(n), s);
}

static void parse_block(Parser *p, Block *b);

static void parse_region(Parser *p, Op *op, int index) {
  const char *where = p->in->at;
  if (index >= op_info[op->code].regions)
    diag_fail(p->in->cx, cursor_span(p->in, where), "'%s' has no body here", op_info[op->code].name);
  if (++p->depth > MAX_DEPTH)
    diag_fail(p->in->cx, cursor_span(p->in, where), "bodies are nested more than %d deep", MAX_DEPTH);
  Block *b = block_create(p->func, op);
  cursor_expect(p->in, '(');
  if (!cursor_take(p->in, ')')) {
    do {
      cursor_space(p->in);
      const char *at = p->in->at, *name = cursor_value_name(p->in);
      cursor_expect(p->in, ':');
      if (b->arg_count >= MAX_LIST) cursor_wrong(p->in, "fewer arguments");
      define(p, name, block_add_arg(p->func, b, type_parse(p->in), NULL), at);
    } while (cursor_take(p->in, ','));
    cursor_expect(p->in, ')');
  }
  cursor_expect(p->in, '{');
  parse_block(p, b);
  p->depth--;
}

static void parse_op(Parser *p, Block *block) {
  stack_guard();
  Arena *arena = p->in->cx->arena;
  cursor_space(p->in);
  const char *start = p->in->at;
  VEC(const char *) names = {0};
  if (cursor_peek(p->in) == '%') {
    do {
      if (names.n >= MAX_LIST) cursor_wrong(p->in, "fewer results");
      vec_push(arena, &names, cursor_value_name(p->in));
    } while (cursor_take(p->in, ','));
    cursor_expect(p->in, '=');
  }
  OpCode code = parse_op_name(p);
  Values in = {0};
  cursor_peek_line(p->in); /* after "barrier", "%x = ..." may follow */
  bool more = p->in->at < p->in->end && *p->in->at == '%';
  while (more) {
    if (in.n >= MAX_LIST) cursor_wrong(p->in, "fewer operands");
    vec_push(arena, &in, parse_use(p));
    more = cursor_take(p->in, ',');
  }

  /* The attributes stand before the types, but the operation is made with its types: read over them first. */
  const char *attrs = NULL, *after_attrs = NULL;
  if (cursor_take(p->in, '{')) {
    attrs = p->in->at - 1;
    for (; p->in->at < p->in->end && *p->in->at != '}'; p->in->at++)
      if (*p->in->at == '"') /* to the closing quote, so that a brace in a text does not count */
        for (p->in->at++; p->in->at < p->in->end && *p->in->at != '"' && *p->in->at != '\n'; p->in->at++)
          if (*p->in->at == '\\' && p->in->at + 1 < p->in->end && p->in->at[1] != '\n') p->in->at++;
    cursor_expect(p->in, '}');
    after_attrs = p->in->at;
  }
  Types types = {0};
  if (cursor_take(p->in, ':')) parse_types(p, &types);
  if (types.n != names.n)
    diag_fail(p->in->cx, cursor_span(p->in, start), "'%s' names %d results but gives %d types", op_info[code].name,
              names.n, types.n);

  Builder b = {.func = p->func, .block = block};
  Op *op = build_op(&b, code, in.n, in.at, types.n, types.at);
  if (attrs && code == OP_CONST) {
    parse_const_value(p, attrs, op);
  } else if (attrs) {
    const char *after_types = p->in->at;
    p->in->at = attrs + 1;
    parse_attrs(p, op);
    if (p->in->at != after_attrs) cursor_wrong(p->in, "the end of the attributes");
    p->in->at = after_types;
  }
  op->span = cursor_place(p->in, start);
  for (int i = 0; i < names.n; i++) define(p, names.at[i], op->out[i], start);
  for (int i = 0; cursor_take_word(p->in, "do"); i++) parse_region(p, op, i);
}

static void parse_block(Parser *p, Block *b) {
  while (!cursor_take(p->in, '}')) parse_op(p, b);
}

static void parse_header_word(Parser *p) {
  static const char *const words[] = {"warps", "stages", "ctas", "debug", "persistent"};
  size_t n;
  const char *s = cursor_word(p->in, "'{'", &n);
  int which = 0;
  while (which < 5 && !cursor_same(s, n, words[which])) which++;
  if (which == 5) diag_fail(p->in->cx, cursor_span(p->in, s), "a kernel has no '%.*s'", shown(n), s);
  cursor_expect(p->in, '=');
  int value = cursor_int_between(p->in, 0, 1024, words[which]);
  if (which == 0) p->func->num_warps = value;
  else if (which == 1) p->func->num_stages = value;
  else if (which == 2) p->func->num_ctas = value;
  else if (which == 3) p->func->debug = value != 0;
  else p->func->persistent = value != 0;
}

Func *tile_parse(Context *cx, const Source *text) {
  Cursor in = cursor_source(cx, text);
  Parser parser = {.in = &in, .values = map_create(cx->arena, true)}, *p = &parser;
  if (!cursor_take_word(p->in, "kernel")) cursor_wrong(p->in, "'kernel'");
  cursor_expect(p->in, '@');
  size_t n;
  const char *name = cursor_word(p->in, "the kernel's name", &n);
  Func *f = p->func = func_create(cx, intern(cx, name, n));
  cursor_expect(p->in, '(');
  if (!cursor_take(p->in, ')')) {
    do {
      cursor_space(p->in);
      const char *where = p->in->at, *arg = cursor_value_name(p->in);
      cursor_expect(p->in, ':');
      const Type *type = type_parse(p->in);
      int64_t divisible = 1;
      if (cursor_take(p->in, '{')) {
        if (!cursor_take_word(p->in, "divisible")) cursor_wrong(p->in, "'divisible'");
        cursor_expect(p->in, '=');
        divisible = cursor_int_between(p->in, 1, 1 << 30, "divisible");
        cursor_expect(p->in, '}');
      }
      if (f->body->arg_count >= MAX_LIST) cursor_wrong(p->in, "fewer arguments");
      define(p, arg, func_add_arg(f, type, NULL, divisible), where);
    } while (cursor_take(p->in, ','));
    cursor_expect(p->in, ')');
  }
  while (cursor_peek(p->in) != '{') parse_header_word(p);
  cursor_expect(p->in, '{');
  parse_block(p, f->body);
  if (cursor_peek(p->in) || p->in->at < p->in->end) cursor_wrong(p->in, "nothing after the kernel");
  return f;
}
