/* Random kernels through the passes and the interpreter.
 *
 * A kernel of random operations, branches and loops is run as it is and after the passes: what it writes must not
 * change. And every fact that tile_axis_info states is held against the values that the interpreter computes: for each
 * result of each operation, the runs, groups and divisors that were promised.
 *
 * A kernel whose numbers leave [-2^30, 2^30] is not held to its facts, which take index arithmetic not to overflow.
 */
#include "unit/interp/test_interp_kit.h"

enum { ELEMENTS = 16384, OUT = 65536, POOL = 400 };

typedef enum { T_I32, T_I64, T_I1, T_V32, T_V64, T_V1, T_M32, T_M1, T_VF, T_VP, T_P, T_COUNT } Kind;
static const char *const type_text[T_COUNT] = {"i32",      "i64",     "i1",      "i32[16]",  "i64[16]", "i1[16]",
                                               "i32[4,8]", "i1[4,8]", "f32[16]", "*i32[16]", "*i32"};

typedef struct Gen {
  Buf text;
  uint64_t random;
  int pool[T_COUNT][POOL], count[T_COUNT];
  int next_id, budget, depth;
  bool small; /* index arithmetic only: what facts are about */
} Gen;

static uint32_t draw(Gen *g, uint32_t below) {
  g->random = g->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(g->random >> 33) % below;
}

static int add(Gen *g, Kind k, int id) {
  if (g->count[k] < POOL) g->pool[k][g->count[k]++] = id;
  return id;
}

static void line(Gen *g, const char *format, ...) PRINTF_LIKE(2, 3);
static void line(Gen *g, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  for (int i = 0; i <= g->depth; i++) buf_puts(&g->text, "  ");
  buf_vprintf(&g->text, format, ap);
  buf_putc(&g->text, '\n');
  va_end(ap);
}

static int make(Gen *g, Kind k);

/* A value of kind k, mostly a recent one. */
static int pick(Gen *g, Kind k) {
  if (!g->count[k]) return make(g, k);
  int n = g->count[k], recent = n < 6 ? n : 6;
  return draw(g, 3) ? g->pool[k][n - 1 - (int)draw(g, (uint32_t)recent)] : g->pool[k][draw(g, (uint32_t)n)];
}

static Kind mask_of(Kind k) { return k == T_M32 ? T_M1 : k == T_V32 || k == T_V64 || k == T_VF ? T_V1 : T_I1; }

static int constant(Gen *g, Kind k) {
  static const int likely[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 48, 64, -1, -4, -16};
  int id = g->next_id++;
  int value = likely[draw(g, g->small ? 13 : 16)];
  if (k == T_I1 || k == T_V1 || k == T_M1) value &= 1;
  line(g, "%%%d = const {value=%d} : %s", id, value, type_text[k]);
  return add(g, k, id);
}

static int arithmetic(Gen *g, Kind k) {
  static const char *const ops[] = {"add", "mul", "div", "rem", "add", "sub",
                                    "min", "max", "and", "or",  "xor", "mulhi"};
  int x = pick(g, k), y = pick(g, k), id;
  uint32_t which = draw(g, g->small ? 9 : 12);
  if (g->small && which == 1) y = constant(g, k);
  if (g->small && (which == 2 || which == 3)) { /* facts are about quotients that mean something */
    int one = g->next_id++, divisor = g->next_id++;
    line(g, "%%%d = const {value=%d} : %s", one, 1 << draw(g, 4), type_text[k]);
    line(g, "%%%d = %s %%%d, %%%d : %s", divisor, draw(g, 2) ? "max" : "mul", y, one, type_text[k]);
    y = g->next_id++;
    line(g, "%%%d = max %%%d, %%%d : %s", y, divisor, one, type_text[k]);
  }
  if (draw(g, 3) == 0) {
    int c = constant(g, k);
    id = g->next_id++;
    if (g->small && which != 2 && which != 3) y = c;
    if (draw(g, 4) == 0) line(g, "%%%d = %s %%%d, %%%d : %s", id, draw(g, 2) ? "shr" : "shl", x, c, type_text[k]);
    else line(g, "%%%d = %s %%%d, %%%d : %s", id, ops[which], x, g->small ? y : c, type_text[k]);
    return add(g, k, id);
  }
  id = g->next_id++;
  line(g, "%%%d = %s %%%d, %%%d : %s", id, ops[which], x, y, type_text[k]);
  return add(g, k, id);
}

static int unary(Gen *g, Kind k, const char *op, const char *attrs, Kind from) {
  int x = pick(g, from), id = g->next_id++;
  line(g, "%%%d = %s %%%d%s : %s", id, op, x, attrs, type_text[k]);
  return add(g, k, id);
}

static int select_or_number(Gen *g, Kind k) {
  if (draw(g, 4)) return arithmetic(g, k);
  int c = pick(g, mask_of(k)), x = pick(g, k), y = pick(g, k), id = g->next_id++;
  line(g, "%%%d = select %%%d, %%%d, %%%d : %s", id, c, x, y, type_text[k]);
  return add(g, k, id);
}

static int compare(Gen *g, Kind k, Kind of) {
  static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  int x = pick(g, of), y = draw(g, 3) ? pick(g, of) : constant(g, of), id = g->next_id++;
  line(g, "%%%d = cmp %%%d, %%%d {pred=%s} : %s", id, x, y, preds[draw(g, 6)], type_text[k]);
  return add(g, k, id);
}

/* A pointer into the first 1024 elements; a loop may move it by 32 an iteration and stay inside. */
static int pointer(Gen *g, Kind k) {
  Kind of = k == T_P ? T_I32 : T_V32;
  int x = pick(g, of), mask = g->next_id++, in = g->next_id++, base = g->next_id++, id = g->next_id++;
  line(g, "%%%d = const {value=1023} : %s", mask, type_text[of]);
  line(g, "%%%d = and %%%d, %%%d : %s", in, x, mask, type_text[of]);
  if (k == T_VP) line(g, "%%%d = splat %%in : *i32[16]", base);
  if (k == T_VP) line(g, "%%%d = addptr %%%d, %%%d : *i32[16]", id, base, in);
  else line(g, "%%%d = addptr %%in, %%%d : *i32", id, in);
  return add(g, k, id);
}

static int load(Gen *g) {
  int p = pick(g, T_VP), id;
  if (draw(g, 2)) {
    id = g->next_id++;
    line(g, "%%%d = load %%%d : i32[16]", id, p);
  } else {
    int m = pick(g, T_V1), other = pick(g, T_V32);
    id = g->next_id++;
    if (draw(g, 2)) line(g, "%%%d = load %%%d, %%%d : i32[16]", id, p, m);
    else line(g, "%%%d = load %%%d, %%%d, %%%d : i32[16]", id, p, m, other);
  }
  return add(g, T_V32, id);
}

/* [4,8] from vectors of 4 and 8 */
static int matrix(Gen *g) {
  int start = (int)draw(g, 3) * 4, scale = pick(g, T_I32), a = g->next_id++, s = g->next_id++, m = g->next_id++,
      e = g->next_id++, b = g->next_id++;
  bool rows = draw(g, 2);
  int n = rows ? 4 : 8;
  line(g, "%%%d = arange {start=%d, end=%d} : i32[%d]", a, start, start + n, n);
  line(g, "%%%d = splat %%%d : i32[%d]", s, scale, n);
  line(g, "%%%d = %s %%%d, %%%d : i32[%d]", m, draw(g, 2) ? "mul" : "add", a, s, n);
  line(g, "%%%d = expand_dims %%%d {axis=%d} : i32[%s]", e, m, rows, rows ? "4,1" : "1,8");
  line(g, "%%%d = broadcast %%%d : i32[4,8]", b, e);
  return add(g, T_M32, b);
}

static int reduce(Gen *g) {
  bool whole = draw(g, 2);
  int x = pick(g, whole ? T_V32 : T_V64), id = g->next_id++, a = g->next_id++, b = g->next_id++, c = g->next_id++;
  Kind k = whole ? T_I32 : T_I64;
  const char *op = draw(g, 2) ? "add" : "max", *t = type_text[k];
  line(g, "%%%d = reduce %%%d {axis=0} : %s do (%%%d: %s, %%%d: %s) {", id, x, t, a, t, b, t);
  line(g, "  %%%d = %s %%%d, %%%d : %s", c, op, a, b, t);
  line(g, "  yield %%%d", c);
  line(g, "}");
  return add(g, k, id);
}

static int arange(Gen *g) {
  int id = g->next_id++, start = (int)draw(g, 4) * 8;
  line(g, "%%%d = arange {start=%d, end=%d} : i32[16]", id, start, start + 16);
  return add(g, T_V32, id);
}

static int make(Gen *g, Kind k) {
  uint32_t way = draw(g, 10);
  g->budget--;
  switch (k) {
    case T_I32:
      if (way == 0 && !g->small) return unary(g, k, "convert", "", T_I64);
      if (way == 1) return reduce(g);
      return g->count[k] < 2 || way < 3 ? constant(g, k) : select_or_number(g, k);
    case T_I64:
      if (way < 3 || !g->count[k]) return unary(g, k, "convert", "", draw(g, 2) ? T_I32 : T_I1);
      return select_or_number(g, k);
    case T_V32:
      if (way < 2) return arange(g);
      if (way == 2) return unary(g, k, "splat", "", T_I32);
      if (way == 3) return load(g);
      if (way == 4) return unary(g, k, "convert", "", draw(g, 2) ? T_V1 : T_V64);
      if (way == 5) return unary(g, k, "hint", " {kind=divisible, dims=[1]}", T_V32);
      return g->count[k] < 2 ? arange(g) : select_or_number(g, k);
    case T_V64:
      if (way == 0) return unary(g, k, "splat", "", T_I64);
      if (way < 5 || !g->count[k]) return unary(g, k, "convert", "", T_V32);
      return select_or_number(g, k);
    case T_I1:
    case T_V1:
    case T_M1: {
      Kind of = k == T_I1 ? T_I32 : k == T_V1 ? T_V32 : T_M32;
      static const char *const logic[] = {"and", "or", "xor"};
      if (way == 0) return constant(g, k);
      if (way < 7 || !g->count[k]) return compare(g, k, k == T_V1 && way == 1 ? T_V64 : of);
      if (way == 7) return unary(g, k, "not", "", k);
      int x = pick(g, k), y = pick(g, k), id = g->next_id++;
      line(g, "%%%d = %s %%%d, %%%d : %s", id, logic[draw(g, 3)], x, y, type_text[k]);
      return add(g, k, id);
    }
    case T_M32: {
      if (way < 4 || !g->count[k]) return matrix(g);
      if (way < 7) return select_or_number(g, k);
      if (way < 9) {
        int a = pick(g, T_V32), b = pick(g, T_V32), c = g->next_id++, r = g->next_id++;
        line(g, "%%%d = cat %%%d, %%%d {axis=0} : i32[32]", c, a, b);
        line(g, "%%%d = reshape %%%d : i32[4,8]", r, c);
        return add(g, k, r);
      }
      int x = pick(g, k), t = g->next_id++, r = g->next_id++;
      line(g, "%%%d = trans %%%d {dims=[1, 0]} : i32[8,4]", t, x);
      line(g, "%%%d = reshape %%%d : i32[4,8]", r, t);
      return add(g, k, r);
    }
    case T_VF: return unary(g, k, "convert", "", T_V32);
    default: return pointer(g, k);
  }
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

typedef struct Scope {
  int count[T_COUNT];
} Scope;

static Scope enter(Gen *g) {
  Scope s;
  memcpy(s.count, g->count, sizeof s.count);
  g->depth++;
  return s;
}

static void leave(Gen *g, Scope s) {
  memcpy(g->count, s.count, sizeof s.count);
  g->depth--;
}

static void statements(Gen *g, int n);

static void list(Gen *g, const char *before, const int *ids, int n) {
  for (int i = 0; i < n; i++) buf_printf(&g->text, "%s%%%d", i ? ", " : before, ids[i]);
}

static void branch(Gen *g) {
  Kind kinds[3];
  int n = 1 + (int)draw(g, 3), ids[3], ends[3], c = pick(g, T_I1);
  for (int i = 0; i < n; i++) kinds[i] = (Kind)draw(g, T_COUNT), ids[i] = g->next_id++;
  for (int i = 0; i <= g->depth; i++) buf_puts(&g->text, "  ");
  list(g, "", ids, n);
  buf_printf(&g->text, " = if %%%d :", c);
  for (int i = 0; i < n; i++) buf_printf(&g->text, "%s %s", i ? "," : "", type_text[kinds[i]]);
  buf_puts(&g->text, " do () {\n");
  for (int side = 0; side < 2; side++) {
    Scope s = enter(g);
    statements(g, 2 + (int)draw(g, 4));
    for (int i = 0; i < n; i++) ends[i] = pick(g, kinds[i]);
    buf_puts(&g->text, "  yield");
    list(g, " ", ends, n);
    buf_putc(&g->text, '\n');
    leave(g, s);
    line(g, side ? "}" : "} do () {");
  }
  for (int i = 0; i < n; i++) add(g, kinds[i], ids[i]);
}

/* What a loop hands on: something computed, or the carried value moved by a scalar. */
static int carried_end(Gen *g, Kind k, int arg) {
  if (k == T_VP || k == T_P) {
    int by = pick(g, T_I32), mask = g->next_id++, s = g->next_id++, id;
    line(g, "%%%d = const {value=31} : i32", mask);
    line(g, "%%%d = and %%%d, %%%d : i32", s, by, mask);
    int times = 1 + (int)draw(g, 2);
    for (int i = 0; i < times; i++) {
      if (k == T_P) {
        id = g->next_id++;
        line(g, "%%%d = addptr %%%d, %%%d : *i32", id, arg, s);
      } else {
        int wide = g->next_id++;
        id = g->next_id++;
        line(g, "%%%d = splat %%%d : i32[16]", wide, s);
        line(g, "%%%d = addptr %%%d, %%%d : *i32[16]", id, arg, wide);
        add(g, T_VP, id);
      }
      arg = id;
      mask = g->next_id++;
      line(g, "%%%d = const {value=%d} : i32", mask, 8 * (int)draw(g, 4));
      s = mask;
    }
    return arg;
  }
  if ((k == T_V32 || k == T_M32 || k == T_V64) && draw(g, 2)) {
    int s = k == T_V64 ? pick(g, T_I64) : pick(g, T_I32), wide = g->next_id++, id = g->next_id++;
    line(g, "%%%d = splat %%%d : %s", wide, s, type_text[k]);
    if (draw(g, 4)) line(g, "%%%d = add %%%d, %%%d : %s", id, draw(g, 2) ? arg : wide, wide, type_text[k]);
    else line(g, "%%%d = sub %%%d, %%%d : %s", id, arg, wide, type_text[k]);
    return id;
  }
  return draw(g, 5) ? pick(g, k) : arg;
}

static void loop(Gen *g) {
  Kind kinds[4];
  bool is_while = draw(g, 4) == 0;
  int n = 1 + (int)draw(g, 3), ids[4], inits[4], args[4], ends[4];
  for (int i = 0; i < n; i++) kinds[i] = draw(g, 3) ? (draw(g, 2) ? T_VP : T_V32) : (Kind)draw(g, T_COUNT);
  if (is_while) kinds[n++] = T_I32; /* counts the turns */
  for (int i = 0; i < n; i++) inits[i] = pick(g, kinds[i]);
  int low = g->next_id++, high = g->next_id++, step = g->next_id++, mask = g->next_id++, some = pick(g, T_I32);
  line(g, "%%%d = const {value=%d} : i32", low, (int)draw(g, 3) * 8);
  line(g, "%%%d = const {value=%d} : i32", step, 1 << draw(g, 4));
  line(g, "%%%d = const {value=%d} : i32", mask, 1 << draw(g, 5));
  line(g, "%%%d = and %%%d, %%%d : i32", high, some, mask);
  if (is_while) inits[n - 1] = low;
  for (int i = 0; i < n; i++) ids[i] = g->next_id++;
  for (int i = 0; i <= g->depth; i++) buf_puts(&g->text, "  ");
  list(g, "", ids, n);
  if (is_while) buf_puts(&g->text, " = while");
  else buf_printf(&g->text, " = for %%%d, %%%d, %%%d", low, high, step);
  for (int i = 0; i < n; i++) buf_printf(&g->text, "%s%%%d", i || !is_while ? ", " : " ", inits[i]);
  for (int i = 0; i < n; i++) buf_printf(&g->text, "%s %s", i ? "," : " :", type_text[kinds[i]]);
  for (int part = 0; part < 1 + is_while; part++) {
    int counter = g->next_id++;
    for (int i = 0; i < n; i++) args[i] = g->next_id++;
    buf_puts(&g->text, " do (");
    if (!is_while) buf_printf(&g->text, "%%%d: i32, ", counter);
    for (int i = 0; i < n; i++) buf_printf(&g->text, "%s%%%d: %s", i ? ", " : "", args[i], type_text[kinds[i]]);
    buf_puts(&g->text, ") {\n");
    Scope s = enter(g);
    for (int i = 0; i < n; i++) add(g, kinds[i], args[i]);
    if (!is_while) add(g, T_I32, counter);
    if (is_while && part == 0) {
      int c = g->next_id++;
      line(g, "%%%d = cmp %%%d, %%%d {pred=lt} : i1", c, args[n - 1], high);
      for (int i = 0; i < n; i++) ends[i] = args[i];
      buf_printf(&g->text, "  condition %%%d", c);
      list(g, ", ", ends, n);
    } else {
      statements(g, 3 + (int)draw(g, 5));
      for (int i = 0; i < n; i++) ends[i] = carried_end(g, kinds[i], args[i]);
      if (is_while) {
        ends[n - 1] = g->next_id++;
        line(g, "%%%d = add %%%d, %%%d : i32", ends[n - 1], args[n - 1], step);
      }
      buf_puts(&g->text, "  yield");
      list(g, " ", ends, n);
    }
    buf_putc(&g->text, '\n');
    leave(g, s);
    for (int i = 0; i <= g->depth; i++) buf_puts(&g->text, "  ");
    buf_putc(&g->text, '}');
  }
  buf_putc(&g->text, '\n');
  /* A pointer that has moved may be moved further by the next loop, and further still: let it be read, not handed on.
   */
  for (int i = 0; i < n; i++)
    if (kinds[i] != T_VP && kinds[i] != T_P) add(g, kinds[i], ids[i]);
}

static void statements(Gen *g, int n) {
  for (int i = 0; i < n && g->budget > 0; i++) {
    uint32_t way = draw(g, 12);
    if (way == 0 && g->depth < 3) branch(g);
    else if (way < 3 && g->depth < 3) loop(g);
    else make(g, (Kind)draw(g, T_COUNT));
  }
}

/* The last values of each kind, each to its place. */
static void write_out(Gen *g) {
  int place = 0;
  for (int k = 0; k < T_COUNT; k++)
    for (int i = g->count[k] - 1, n = 0; i >= 0 && n < 12; i--, n++) {
      int v = g->pool[k][i], p = g->next_id++, at = g->next_id++, c = g->next_id++, wide = g->next_id++;
      if (k == T_VP || k == T_P) { /* what they point to */
        int l = g->next_id++;
        line(g, "%%%d = load %%%d : %s", l, v, k == T_P ? "i32" : "i32[16]");
        v = l;
      }
      const char *shape = k == T_M32 || k == T_M1                             ? "[32]"
                          : k == T_I32 || k == T_I64 || k == T_I1 || k == T_P ? ""
                                                                              : "[16]";
      if (k == T_M32 || k == T_M1) {
        int r = g->next_id++;
        line(g, "%%%d = reshape %%%d : %s[32]", r, v, k == T_M32 ? "i32" : "i1");
        v = r;
      }
      bool already = k == T_I64 || k == T_V64;
      if (!already) line(g, "%%%d = convert %%%d : i64%s", wide, v, shape);
      if (already) wide = v;
      line(g, "%%%d = const {value=%d} : i64", c, place);
      line(g, "%%%d = addptr %%out, %%%d : *i64", p, c);
      if (*shape) {
        int size = shape[1] == '3' ? 32 : 16, r = g->next_id++, b = g->next_id++;
        line(g, "%%%d = arange {start=0, end=%d} : i32%s", r, size, shape);
        line(g, "%%%d = splat %%%d : *i64%s", b, p, shape);
        line(g, "%%%d = addptr %%%d, %%%d : *i64%s", at, b, r, shape);
        line(g, "store %%%d, %%%d", at, wide);
        place += size;
      } else {
        line(g, "store %%%d, %%%d", p, wide);
        place++;
      }
    }
}

static char *generate(uint64_t seed, bool small) {
  Gen g = {.random = seed * 0x9e3779b97f4a7c15u + 1, .budget = 60, .small = small};
  buf_puts(&g.text, "kernel @random(%in: *i32 {divisible=16}, %out: *i64, %n: i32 {divisible=16}, %m: i32) {\n");
  line(&g, "%%0 = add %%n, %%m : i32");
  line(&g, "%%1 = program_id {axis=0} : i32");
  line(&g, "%%2 = hint %%n {kind=divisible, dims=[16]} : i32");
  g.next_id = 3;
  for (int i = 0; i < 3; i++) add(&g, T_I32, i);
  statements(&g, 40);
  write_out(&g);
  buf_puts(&g.text, "}\n");
  return g.text.at;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int32_t *input(Kit *k) {
  static int32_t in[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++) in[i] = (int32_t)((uint32_t)i * 2654435761u >> 20) - 1000;
  return kit_array(k, "in", sizeof in, in);
}

static void run(Kit *k, const char *text, int64_t *out) {
  input(k);
  int64_t *written = interp_memory_alloc(k->m, OUT * 8, "out");
  assert_non_null(written);
  memset(written, 0, OUT * 8);
  k->args[k->arg_count++] = (uint64_t)(uintptr_t)written;
  kit_int(k, 48);
  kit_int(k, 13);
  k->grid[0] = 1;
  if (!kit_run(k)) fail_msg("%s\n%s", k->fault.message, text);
  memcpy(out, written, OUT * 8);
}

static void optimize(Kit *k, const char *pass, const char *text) {
  if (context_try(k->cx)) {
    if (pass) {
      const PassInfo *p = tile_passes;
      while (p->name && strcmp(p->name, pass)) p++;
      p->run(k->f);
      tile_verify(k->f, pass);
    } else {
      tile_optimize(k->f, NULL, NULL, true);
    }
    context_end_try(k->cx);
  } else {
    Buf b = {0};
    diags_print(&b, k->cx, false);
    fail_msg("%s\n%s", b.at, text);
  }
}

static void passes_keep_the_meaning(void **state) {
  static int64_t before[OUT], after[OUT];
  static const char *const passes[] = {NULL, "fold", "cse", "licm", "canonical_loops", "dce"};
  int seeds = getenv("NEREID_RANDOM_SEEDS") ? atoi(getenv("NEREID_RANDOM_SEEDS")) : 300;
  for (int seed = 0; seed < seeds; seed++) {
    char *text = generate((uint64_t)seed, seed % 2);
    Kit *k = kit_open(text);
    run(k, text, before);
    kit_close(k);
    for (size_t p = 0; p < (seed % 4 ? 1 : sizeof passes / sizeof *passes); p++) {
      k = kit_open(text);
      optimize(k, passes[p], text);
      run(k, text, after);
      kit_close(k);
      for (int i = 0; i < OUT; i++)
        if (before[i] != after[i])
          fail_msg("seed %d: after %s element %d is %lld, not %lld\n%s", seed, passes[p] ? passes[p] : "all", i,
                   (long long)after[i], (long long)before[i], text);
    }
    free(text);
  }
}

typedef struct Watch {
  const Op *last;
  bool overflowed;
  int checked;
  char problem[512];
} Watch;

static int64_t element(const Type *t, const void *p, int64_t i) {
  return dtype_load_int(t->ptr ? DT_I64 : t->dtype, (const char *)p + i * type_elem_bytes(t));
}

static void check_value(Watch *w, const InterpFrame *frame, const Value *v) {
  const Type *t = v->type;
  const void *p = v->axis ? interp_value(frame, v) : NULL;
  if (!p || w->overflowed || *w->problem) return;
  int64_t unit = t->ptr ? dtype_bytes(t->dtype) : 1, numel = type_numel(t);
  for (int64_t i = 0; i < numel && !t->ptr; i++)
    if (element(t, p, i) > 1 << 30 || element(t, p, i) < -(1 << 30)) w->overflowed = true;
  if (w->overflowed) return;
  w->checked++;
  const char *wrong = NULL;
  int64_t stride = numel;
  for (int d = 0; d < (t->rank ? t->rank : 1) && !wrong; d++) {
    int64_t size = t->rank ? t->shape[d] : 1;
    stride /= size;
    for (int64_t i = 0; i < numel && !wrong; i++) {
      int64_t at = i / stride % size, x = element(t, p, i), run = v->axis->contiguous[d], group = v->axis->constant[d];
      if (size % run || size % group) wrong = "a length that does not divide the dim";
      else if (at % run == 0 && x % v->axis->divisible[d]) wrong = "divisible";
      else if (at % run && x != element(t, p, i - stride) + unit) wrong = "contiguous";
      else if (at % group && x != element(t, p, i - stride)) wrong = "constant";
      else if (v->axis->non_negative >= SIGN_KNOWN && x < 0 && t->dtype != DT_I1) wrong = "non_negative";
    }
  }
  if (!wrong) return;
  Buf b = {0};
  tile_print_op(&b, v->def, 0, PRINT_AXIS_INFO);
  snprintf(w->problem, sizeof w->problem, "%s is wrong of line %d: %.300s", wrong, v->def->span->line, b.at);
  buf_destroy(&b);
}

static bool watch(void *arg, InterpFrame *frame, const Op *next) {
  Watch *w = arg;
  if (w->last)
    for (int i = 0; i < w->last->out_count; i++) check_value(w, frame, w->last->out[i]);
  w->last = next;
  return !*w->problem && !w->overflowed;
}

static void facts_are_true(void **state) {
  static int64_t out[OUT];
  int seeds = getenv("NEREID_RANDOM_SEEDS") ? atoi(getenv("NEREID_RANDOM_SEEDS")) : 300, held = 0;
  for (int seed = 0; seed < seeds; seed++) {
    char *text = generate((uint64_t)seed + 1000000, true);
    Kit *k = kit_open(text);
    Watch w = {0};
    optimize(k, "axis_info", text);
    k->options.step = watch;
    k->options.step_arg = &w;
    input(k);
    kit_array(k, "out", sizeof out, out);
    kit_int(k, 48);
    kit_int(k, 13);
    bool ran = kit_run(k);
    if (*w.problem) fail_msg("seed %d: %s\n%s", seed, w.problem, text);
    if (!ran && !w.overflowed) fail_msg("seed %d: %s\n%s", seed, k->fault.message, text);
    held += w.checked;
    kit_close(k);
    free(text);
  }
  assert_true(held > 20 * seeds); /* most kernels stay within bounds: else nothing was tested */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_the_meaning), cmocka_unit_test(facts_are_true)};
  return cmocka_run_group_tests_name("random tile IR", tests, NULL, NULL);
}
