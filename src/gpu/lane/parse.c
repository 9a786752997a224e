/* Reads the lane IR's text, as lane_print writes it.
 *
 *     file   = "kernel" "@" name "(" [param {"," param}] ")" {word "=" int} "{" {buffer} {site} {op} "}"
 *     param  = value ":" type [tile type] ["{" "divisible" "=" int "}"]
 *     buffer = "buffer" text "bytes" "=" int "align" "=" int ["offset" "=" int] ["ring" "=" int]
 *     site   = "site" ("print" | "assert") text ["hex"] [":" tile type {"," tile type}] ["@" int ":" int]
 *     op     = [value {"," value} "="] name ["." kind] ["@" ["!"] value] [value {"," value}] ["{" {attr} "}"]
 *              [":" type {"," type}] ["@" int ":" int] {"do" "(" [value ":" type {"," ...}] ")" "{" {op} "}"}
 *     attr   = word | word "=" (int | kind | text) | int | ("+" | "-") int
 *     type   = "pred" | "b16" | "b32" | "b64"
 *
 * "//" begins a comment; white space only separates. "tile type" is as the tile IR writes it. A value is defined above
 * its use, and once; what else makes IR right is the verifier's business. An operation without "@line:col" is said to
 * stand where its text stands.
 */
#include "gpu/lane/table.h"

#include "gpu/lane/scope.h"

enum { MAX_DEPTH = 200, MAX_LIST = 1 << 14 };

typedef struct Parser {
  Cursor *in;
  LaneFunc *f;
  LaneBuilder b;
  Map *values; /* name -> LaneValue */
  int depth;
} Parser;

typedef VEC(LaneValue *) Values;
typedef VEC(LaneType) Types;

/* ---- types, kinds and values ------------------------------------------------------------------------------------- */

static int shown(size_t n) { return n < 40 ? (int)n : 40; }

static LaneType parse_type(Parser *p) {
  size_t n;
  const char *s = cursor_word(p->in, "a type", &n);
  for (int t = LT_PRED; t <= LT_B64; t++)
    if (cursor_same(s, n, lane_kind_info[lane_bits_kind((LaneType)t)].name)) return (LaneType)t;
  diag_fail(p->in->cx, cursor_span(p->in, s), "there is no type '%.*s'", shown(n), s);
}

static LaneKind find_kind(Parser *p, const char *s, size_t n) {
  for (int k = 0; k < LK_COUNT; k++)
    if (cursor_same(s, n, lane_kind_info[k].name)) return (LaneKind)k;
  diag_fail(p->in->cx, cursor_span(p->in, s), "there is no kind '%.*s'", shown(n), s);
}

static void define(Parser *p, const char *name, LaneValue *v, const char *where) {
  if (map_has(p->values, name)) diag_fail(p->in->cx, cursor_span(p->in, where), "%%%s is defined twice", name);
  map_put(p->values, name, v);
}

static LaneValue *parse_use(Parser *p) {
  cursor_space(p->in);
  const char *where = p->in->at, *name = cursor_value_name(p->in);
  LaneValue *v = map_get(p->values, name);
  if (!v) diag_fail(p->in->cx, cursor_span(p->in, where), "%%%s is used but not defined above", name);
  return v;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static bool set_word(LaneOp *op, const LaneAttr *a, const char *s, size_t n) {
  uint8_t *byte = (uint8_t *)op + a->offset;
  if (a->kind == LANE_ATTR_FLAG && cursor_same(s, n, a->name)) return *byte = 1, true;
  if (a->kind == LANE_ATTR_WORD)
    for (int i = 0; i < a->word_count; i++)
      if (n && cursor_same(s, n, a->words[i])) return *byte = (uint8_t)i, true;
  return false;
}

static void set_number(Parser *p, LaneOp *op, const LaneAttr *a) {
  size_t n;
  const char *s;
  switch (a->kind) {
    case LANE_ATTR_NUMBER: *((uint8_t *)op + a->offset) = (uint8_t)cursor_int_between(p->in, 0, 255, a->name); break;
    case LANE_ATTR_WIDE:
      *(uint16_t *)(void *)((char *)op + a->offset) = (uint16_t)cursor_int_between(p->in, 0, UINT16_MAX, a->name);
      break;
    case LANE_ATTR_BUFFER: op->buffer = (int16_t)cursor_int_between(p->in, 0, INT16_MAX, "a buffer"); break;
    case LANE_ATTR_IMM: op->imm = cursor_int(p->in); break;
    case LANE_ATTR_TO:
      s = cursor_word(p->in, "a kind", &n);
      op->to = find_kind(p, s, n);
      break;
    case LANE_ATTR_TEXT: op->text = cursor_text(p->in); break;
    default: cursor_wrong(p->in, "no '='");
  }
}

static void parse_attrs(Parser *p, LaneOp *op) {
  const LaneAttr *attrs[LANE_MAX_ATTRS];
  int count = lane_attrs(op->code, attrs);
  bool has_imm = false;
  for (int i = 0; i < count; i++) has_imm = has_imm || attrs[i]->kind == LANE_ATTR_IMM;
  while (!cursor_take(p->in, '}')) {
    char c = cursor_peek(p->in);
    if (has_imm && (c == '+' || c == '-' || (c >= '0' && c <= '9'))) {
      op->imm = cursor_int(p->in);
      continue;
    }
    size_t n;
    const char *s = cursor_word(p->in, "an attribute", &n);
    bool known = false;
    if (cursor_take(p->in, '=')) {
      for (int i = 0; i < count && !known; i++)
        if ((known = cursor_same(s, n, attrs[i]->name))) set_number(p, op, attrs[i]);
    } else {
      for (int i = 0; i < count && !known; i++) known = set_word(op, attrs[i], s, n);
    }
    if (!known)
      diag_fail(p->in->cx, cursor_span(p->in, s), "'%s' has no attribute '%.*s'", lane_info[op->code].name, shown(n),
                s);
  }
  if (op->code == LANE_CONST) op->imm &= (int64_t)lane_type_mask(lane_kind_info[op->kind].type);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void parse_name(Parser *p, LaneOp *op) {
  size_t n;
  const char *s = cursor_word(p->in, "an operation", &n), *dot = memchr(s, '.', n);
  size_t length = dot ? (size_t)(dot - s) : n;
  int code = 0;
  while (code < LANE_COUNT && !cursor_same(s, length, lane_info[code].name)) code++;
  if (code == LANE_COUNT) diag_fail(p->in->cx, cursor_span(p->in, s), "there is no operation '%.*s'", shown(length), s);
  op->code = (LaneCode)code;
  if (dot) op->kind = find_kind(p, dot + 1, n - length - 1);
}

static void parse_block(Parser *p, LaneBlock *block);

static void parse_region(Parser *p, LaneOp *op, int index) {
  const char *where = p->in->at;
  if (index >= lane_info[op->code].regions)
    diag_fail(p->in->cx, cursor_span(p->in, where), "'%s' has no body here", lane_info[op->code].name);
  if (++p->depth > MAX_DEPTH)
    diag_fail(p->in->cx, cursor_span(p->in, where), "bodies are nested more than %d deep", MAX_DEPTH);
  LaneBlock *block = op->body[index] = NEW(p->in->cx->arena, LaneBlock);
  block->parent = op;
  Values args = {0};
  cursor_expect(p->in, '(');
  if (!cursor_take(p->in, ')')) {
    do {
      cursor_space(p->in);
      const char *at = p->in->at, *name = cursor_value_name(p->in);
      cursor_expect(p->in, ':');
      if (args.n >= MAX_LIST) cursor_wrong(p->in, "fewer arguments");
      LaneValue *v = lane_value_create(p->f, parse_type(p), args.n);
      v->block = block;
      vec_push(p->in->cx->arena, &args, v);
      define(p, name, v, at);
    } while (cursor_take(p->in, ','));
    cursor_expect(p->in, ')');
  }
  block->args = args.at;
  block->arg_count = args.n;
  cursor_expect(p->in, '{');
  parse_block(p, block);
  p->depth--;
}

static void parse_op(Parser *p, LaneBlock *block) {
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
  LaneOp proto = {.buffer = -1};
  parse_name(p, &proto);
  cursor_peek_line(p->in); /* after "barrier", "%x = ..." may follow on the next line */
  if (p->in->at + 1 < p->in->end && *p->in->at == '@' && (p->in->at[1] == '%' || p->in->at[1] == '!')) {
    p->in->at++;
    proto.guard_not = cursor_take(p->in, '!');
    proto.guard = parse_use(p);
    cursor_peek_line(p->in);
  }
  Values in = {0};
  bool more = p->in->at < p->in->end && *p->in->at == '%';
  while (more) {
    if (in.n >= MAX_LIST) cursor_wrong(p->in, "fewer operands");
    vec_push(arena, &in, parse_use(p));
    more = cursor_take(p->in, ',');
  }
  if (cursor_take(p->in, '{')) parse_attrs(p, &proto);
  Types types = {0};
  if (cursor_take(p->in, ':')) do {
      if (types.n >= MAX_LIST) cursor_wrong(p->in, "fewer types");
      vec_push(arena, &types, parse_type(p));
    } while (cursor_take(p->in, ','));
  if (types.n != names.n)
    diag_fail(p->in->cx, cursor_span(p->in, start), "'%s' names %d results but gives %d types",
              lane_info[proto.code].name, names.n, types.n);
  proto.span = cursor_place(p->in, start);
  p->b.block = block;
  LaneOp *op = lane_op_raw(&p->b, proto, in.n, in.at, types.n, types.at);
  for (int i = 0; i < names.n; i++) define(p, names.at[i], op->out[i], start);
  for (int i = 0; cursor_take_word(p->in, "do"); i++) parse_region(p, op, i);
}

static void parse_block(Parser *p, LaneBlock *block) {
  while (!cursor_take(p->in, '}')) parse_op(p, block);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static int parse_field(Parser *p, const char *name, int low, int high) {
  if (!cursor_take_word(p->in, name)) cursor_wrong(p->in, name);
  cursor_expect(p->in, '=');
  return cursor_int_between(p->in, low, high, name);
}

static void parse_buffer(Parser *p) {
  LaneBuffer b = {.name = cursor_text(p->in), .offset = -1};
  b.bytes = parse_field(p, "bytes", 0, 1 << 24);
  b.align = parse_field(p, "align", 1, 1 << 16);
  size_t n;
  const char *s = cursor_peek_word(p->in, &n);
  if (cursor_same(s, n, "offset")) b.offset = parse_field(p, "offset", 0, 1 << 24);
  s = cursor_peek_word(p->in, &n);
  if (cursor_same(s, n, "ring")) b.ring = parse_field(p, "ring", 1, 1 << 10);
  if (p->f->buffers.n >= MAX_LIST) cursor_wrong(p->in, "fewer buffers");
  vec_push(p->in->cx->arena, &p->f->buffers, b);
}

static void parse_site(Parser *p) {
  const char *start = p->in->at;
  LaneSite s = {.is_assert = cursor_take_word(p->in, "assert")};
  if (!s.is_assert && !cursor_take_word(p->in, "print")) cursor_wrong(p->in, "'print' or 'assert'");
  s.text = cursor_text(p->in);
  s.hex = cursor_take_word(p->in, "hex");
  VEC(const Type *) types = {0};
  if (cursor_take(p->in, ':')) do {
      if (types.n >= MAX_LIST) cursor_wrong(p->in, "fewer types");
      vec_push(p->in->cx->arena, &types, type_parse(p->in));
    } while (cursor_take(p->in, ','));
  s.value_count = types.n;
  s.types = types.at;
  s.span = cursor_place(p->in, start);
  if (p->f->sites.n >= MAX_LIST) cursor_wrong(p->in, "fewer sites");
  vec_push(p->in->cx->arena, &p->f->sites, s);
}

static void parse_params(Parser *p) {
  cursor_expect(p->in, '(');
  if (cursor_take(p->in, ')')) return;
  do {
    if (p->f->param_count >= 4096) cursor_wrong(p->in, "fewer parameters");
    cursor_space(p->in);
    const char *where = p->in->at, *name = cursor_value_name(p->in);
    cursor_expect(p->in, ':');
    LaneType type = parse_type(p);
    const Type *of = NULL;
    char c = cursor_peek(p->in);
    if (c != ',' && c != ')' && c != '{') of = type_parse(p->in);
    int64_t divisible = 1;
    if (cursor_take(p->in, '{')) {
      divisible = parse_field(p, "divisible", 1, 1 << 30);
      cursor_expect(p->in, '}');
    }
    define(p, name, lane_func_param(p->f, type, of, divisible), where);
  } while (cursor_take(p->in, ','));
  cursor_expect(p->in, ')');
}

static void parse_header_word(Parser *p) {
  static const char *const words[] = {"warps", "hidden", "maps", "diag", "list", "shared", "persistent", "cluster"};
  size_t n;
  const char *s = cursor_word(p->in, "'{'", &n);
  int which = 0;
  while (which < 8 && !cursor_same(s, n, words[which])) which++;
  if (which == 8) diag_fail(p->in->cx, cursor_span(p->in, s), "a kernel has no '%.*s'", shown(n), s);
  cursor_expect(p->in, '=');
  int value = cursor_int_between(p->in, 0, which == 5 ? 1 << 24 : 1024, words[which]);
  LaneFunc *f = p->f;
  switch (which) {
    case 0: f->num_warps = value; break;
    case 1: f->hidden_params = value; break;
    case 2: f->maps = value; break;
    case 3: f->uses_diag = value != 0; break;
    case 4: f->uses_list = value != 0; break;
    case 5: f->shared_bytes = value; break;
    case 6: f->persistent = value != 0; break;
    default: f->cluster = value; break;
  }
}

LaneFunc *lane_parse(Context *cx, const Source *text) {
  Cursor in = cursor_source(cx, text);
  Parser parser = {.in = &in, .values = map_create(cx->arena, true)}, *p = &parser;
  if (!cursor_take_word(p->in, "kernel")) cursor_wrong(p->in, "'kernel'");
  cursor_expect(p->in, '@');
  size_t n;
  const char *name = cursor_word(p->in, "the kernel's name", &n);
  LaneFunc *f = p->f = lane_func_create(cx, intern(cx, name, n));
  p->b = lane_builder(f);
  parse_params(p);
  while (cursor_peek(p->in) != '{') parse_header_word(p);
  cursor_expect(p->in, '{');
  for (;;) {
    if (cursor_take_word(p->in, "buffer")) parse_buffer(p);
    else if (cursor_take_word(p->in, "site")) parse_site(p);
    else break;
  }
  parse_block(p, f->body);
  if (cursor_peek(p->in) || p->in->at < p->in->end) cursor_wrong(p->in, "nothing after the kernel");
  return f;
}
