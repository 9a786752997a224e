/* Products on tensor cores: what lanes hold, what the two operations of the lane IR do on the simulator, and that
 * shared memory is met without conflicts. */
#include "gpu/report/counts.h"
#include "layout/layout.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int log2_of(int n) { return n > 1 ? 31 - __builtin_clz((unsigned)n) : 0; }

/* ---- a product as tile IR ---------------------------------------------------------------------------------------- */

typedef struct Product {
  int batch, m, n, k, warps;
  const char *type, *out;
  bool a_trans, x_trans; /* loaded the other way round, and transposed */
  const char *precision; /* NULL: tf32 */
} Product;

static void put_shape(Buf *b, int batch, int rows, int columns) {
  buf_printf(b, batch ? "[%d,%d,%d]" : "[", batch, rows, columns);
  if (!batch) buf_printf(b, "%d,%d]", rows, columns);
}

static void put_pointers(Buf *b, const char *name, const char *param, const char *type, int batch, int rows,
                         int columns) {
  buf_printf(b, "  %%%s_i = arange {start=0, end=%d} : i32[%d]\n  %%%s_f = reshape %%%s_i : i32", name,
             (batch ? batch : 1) * rows * columns, (batch ? batch : 1) * rows * columns, name, name);
  put_shape(b, batch, rows, columns);
  buf_printf(b, "\n  %%%s_s = splat %%%s : *%s", name, param, type);
  put_shape(b, batch, rows, columns);
  buf_printf(b, "\n  %%%s_p = addptr %%%s_s, %%%s_f : *%s", name, name, name, type);
  put_shape(b, batch, rows, columns);
  buf_puts(b, "\n");
}

static void put_load(Buf *b, const char *name, const char *param, const Product *p, int rows, int columns, bool trans) {
  put_pointers(b, name, param, p->type, p->batch, trans ? columns : rows, trans ? rows : columns);
  buf_printf(b, "  %%%s%s = load %%%s_p : %s", name, trans ? "_t" : "", name, p->type);
  put_shape(b, p->batch, trans ? columns : rows, trans ? rows : columns);
  buf_puts(b, "\n");
  if (!trans) return;
  buf_printf(b, "  %%%s = trans %%%s_t {dims=[%s]} : %s", name, name, p->batch ? "0, 2, 1" : "1, 0", p->type);
  put_shape(b, p->batch, rows, columns);
  buf_puts(b, "\n");
}

static Func *product(Context *cx, const Product *p) {
  Buf b = {0};
  buf_printf(&b, "kernel @k(%%a_ptr: *%s {divisible=16}, %%x_ptr: *%s {divisible=16}, %%c_ptr: *%s {divisible=16}) {\n",
             p->type, p->type, p->out);
  put_load(&b, "a", "a_ptr", p, p->m, p->k, p->a_trans);
  put_load(&b, "x", "x_ptr", p, p->k, p->n, p->x_trans);
  buf_printf(&b, "  %%z = const {value=%s} : %s", !strcmp(p->out, "i32") ? "0" : "0.0", p->out);
  put_shape(&b, p->batch, p->m, p->n);
  buf_printf(&b, "\n  %%y = dot %%a, %%x, %%z {precision=%s} : %s", p->precision ? p->precision : "tf32", p->out);
  put_shape(&b, p->batch, p->m, p->n);
  buf_puts(&b, "\n");
  put_pointers(&b, "c", "c_ptr", p->out, p->batch, p->m, p->n);
  buf_puts(&b, "  store %c_p, %y\n}\n");
  char *text = arena_strdup(cx->arena, b.at);
  buf_destroy(&b);
  Func *f = tile_parse(cx, source_from_text(cx, "k.tile", text, strlen(text)));
  f->num_warps = p->warps;
  tile_optimize(f, NULL, NULL, true);
  return f;
}

static void find_dot(Op *op, void *arg) {
  if (op->code == OP_DOT) *(const Op **)arg = op;
}

static const Op *laid_out(Context *cx, const Product *p) {
  const Op *dot = NULL;
  Func *f = product(cx, p);
  layout_choose(f, p->warps, true);
  layout_verify(f);
  tile_walk(f->body, find_dot, &dot);
  return dot;
}

static void with_context(void (*test)(Context *cx, const void *arg), const void *arg) {
  Context *cx = context_create();
  if (context_try(cx)) {
    test(cx, arg);
    context_end_try(cx);
  } else fail_msg("%s", cx->diags.n ? cx->diags.at[0].message : "?");
  context_destroy(cx);
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static const Product shapes[] = {
    {0, 16, 8, 16, 1, "f16", "f32", 0, 0, NULL},     {0, 64, 64, 64, 4, "bf16", "f32", 0, 0, NULL},
    {0, 128, 128, 64, 8, "f16", "f32", 0, 0, NULL},  {0, 16, 64, 32, 4, "f16", "f16", 0, 0, NULL},
    {0, 256, 8, 16, 8, "bf16", "f32", 0, 0, NULL},   {0, 64, 128, 256, 16, "f16", "f32", 0, 0, NULL},
    {4, 16, 16, 32, 2, "f16", "f32", 0, 0, NULL},    {2, 64, 32, 16, 8, "bf16", "f32", 0, 0, NULL},
    {8, 16, 8, 16, 8, "f16", "f32", 0, 0, NULL},     {0, 32, 32, 32, 4, "fp8e4nv", "f32", 0, 0, NULL},
    {0, 128, 256, 64, 32, "f16", "f32", 0, 0, NULL}, {0, 64, 64, 32, 4, "f32", "f32", 0, 0, NULL},
    {2, 32, 16, 8, 4, "f32", "f32", 0, 0, NULL},     {0, 64, 128, 64, 8, "i8", "i32", 0, 0, NULL},
    {0, 16, 8, 32, 1, "u8", "i32", 0, 0, NULL},      {0, 64, 32, 64, 4, "fp8e5", "f32", 0, 0, NULL},
    {0, 32, 64, 32, 4, "f64", "f64", 0, 0, NULL},    {0, 16, 16, 64, 4, "f16", "f32", 0, 0, NULL},
    {0, 32, 8, 16, 8, "f32", "f32", 0, 0, NULL},     {2, 16, 8, 32, 16, "bf16", "f32", 0, 0, NULL},
};

static int elements_a_word(const char *type) { return strstr(type, "8") ? 4 : strstr(type, "16") ? 2 : 1; }

/* Where PTX's tables put things (ISA, mma.m16n8kK), for lane 4g + t, with e elements a word: the accumulator's number i
 * in row g + 8 (i / 2), column 2t + i % 2; of word i of a, row g + 8 (i % 2), k et + 4e (i / 2); of word i of x, column
 * g, k et + 4ei. Every tile of a warp finds all of that in its own lanes. */
static void check_lanes(Context *cx, const void *arg) {
  const Product *p = arg;
  const Op *dot = laid_out(cx, p);
  Dtype as[2];
  int words = elements_a_word(p->type);
  assert_true(layout_mma_type(dot, true, as));
  const Layout *acc = dot->out[0]->layout, *a = layout_mma_operand(cx, dot, acc, 0, layout_mma_pack(as[0])),
               *x = layout_mma_operand(cx, dot, acc, 1, layout_mma_pack(as[1]));
  assert_string_equal(dtype_name(as[0]), p->type);
  assert_int_equal(1 << layout_mma_pack(as[0]), words);
  if (!layout_is_mma(dot->out[0]->type, acc)) fail_msg("%d by %d by %d is not for tensor cores", p->m, p->n, p->k);
  int numel = (p->batch ? p->batch : 1) * p->m * p->n, *owners = calloc((size_t)numel, sizeof *owners);
  int nbits = log2_of(p->n), mbits = log2_of(p->m), kbits = log2_of(p->k);
  for (int warp = 0; warp < p->warps; warp++)
    for (int lane = 0; lane < 32; lane++)
      for (int r = 0; r < layout_registers(acc); r++) {
        int e = (int)layout_element(acc, r, lane, warp), g = lane / 4, t = lane % 4;
        int column = e & (p->n - 1), row = e >> nbits & (p->m - 1), batch = e >> (nbits + mbits);
        owners[e]++;
        assert_int_equal(row % 8, g);
        assert_int_equal(column % 8 / 2, t);
        int others[] = {e ^ 1, e ^ 8 << nbits}; /* the rest of the tile */
        for (int i = 0; i < 2; i++)
          assert_true(layout_find_register(acc, layout_register_part(acc, r) ^ (uint32_t)(e ^ others[i])) >= 0);
        for (int k = 0; k < p->k; k++) {
          if (k / words % 4 != t) continue;
          uint32_t in_a = (uint32_t)((batch << mbits | row) << kbits | k), line = (uint32_t)((column & ~7) | g);
          uint32_t in_x = (uint32_t)(batch << kbits | k) << nbits | line;
          assert_true(layout_find_register(a, in_a ^ layout_element(a, 0, lane, warp)) >= 0);
          assert_true(layout_find_register(x, in_x ^ layout_element(x, 0, lane, warp)) >= 0);
        }
      }
  int copies = p->warps * 128 > numel ? p->warps * 128 / numel : 1; /* of fewer tiles than warps */
  for (int i = 0; i < numel; i++) assert_int_equal(owners[i], copies);
  free(owners);
}

static void lanes_hold_what_the_hardware_wants(void **state) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) with_context(check_lanes, &shapes[i]);
}

static void check_others(Context *cx, const void *arg) {
  static const Product others[] = {
      {0, 64, 64, 64, 4, "f32", "f32", 0, 0, "ieee"},  {0, 64, 64, 4, 4, "f32", "f32", 0, 0, NULL},
      {0, 64, 64, 8, 4, "f32", "f32", 0, 0, "bf16x3"}, {0, 64, 64, 4, 4, "f64", "f64", 0, 0, NULL},
      {0, 64, 64, 16, 4, "i8", "i32", 0, 0, NULL},     {0, 64, 64, 64, 4, "i16", "i32", 0, 0, NULL},
      {0, 64, 64, 64, 4, "i32", "i32", 0, 0, NULL},    {0, 8, 64, 64, 4, "f16", "f32", 0, 0, NULL},
      {0, 64, 4, 64, 2, "f16", "f32", 0, 0, NULL},     {0, 64, 64, 8, 4, "f16", "f32", 0, 0, NULL},
      {0, 16, 16, 64, 4, "f64", "f64", 0, 0, NULL}, /* two tiles for four warps */
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const Op *dot = laid_out(cx, &others[i]);
    if (layout_is_mma(dot->out[0]->type, dot->out[0]->layout)) fail_msg("case %zu", i);
  }
}

static void other_products_stay_with_multiply_adds(void **state) { with_context(check_others, NULL); }

/* One product alone: warps share the tile in both directions; 32 rows and 64 columns each of 128 by 128. */
static void check_warps(Context *cx, const void *arg) {
  const Layout *l = laid_out(cx, &shapes[2])->out[0]->layout;
  const uint32_t *warps = l->basis + l->reg_bits + 5;
  assert_int_equal(warps[0], 16 << 7);
  assert_int_equal(warps[1], 32 << 7);
  assert_int_equal(warps[2], 8);
}

static void warps_read_little(void **state) { with_context(check_warps, NULL); }

/* ---- the operations, on the simulator ---------------------------------------------------------------------------- */

static LaneFunc *parse(Context *cx, const char *text) {
  LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
  lane_verify(f, NULL);
  Buf once = {0}, twice = {0}; /* what is printed reads back as the same */
  lane_print(&once, f, false);
  const char *copy = arena_strdup(cx->arena, once.at);
  LaneFunc *again = lane_parse(cx, source_from_text(cx, "t.lane", copy, strlen(copy)));
  lane_print(&twice, again, false);
  assert_string_equal(once.at, twice.at);
  buf_destroy(&once), buf_destroy(&twice);
  return again;
}

static const char *run(Context *cx, const char *text, const uint64_t *args) {
  static LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1};
  return lane_sim_run(parse(cx, text), args, &o, &fault) ? "" : fault.message;
}

#define HEAD(warps) \
  "kernel @k(%in: b64, %out: b64) warps=" #warps " {\n  buffer \"tile\" bytes=1024 align=16\n" \
  "  %tid = special {tid.x} : b32\n  %c16 = const.b32 {16} : b32\n  %c2 = const.b32 {2} : b32\n  %c3 = const.b32 {3} " \
  ": b32\n  %c40 = const.b32 {40} : b32\n" \
  "  %s = shared {buffer=0} : b32\n  %d16 = mulwide.u32 %tid, %c16 : b64\n  %d40 = mulwide.u32 %tid, %c40 : b64\n" \
  "  %from = add.s64 %in, %d16 : b64\n  %to = add.s64 %out, %d16 : b64\n  %words = add.s64 %in, %d40 : b64\n"

typedef struct Kind {
  const char *name;
  Dtype a, x;
} Kind;

static void put_number(Dtype t, void *at, double v) {
  switch (t) {
    case DT_F64: memcpy(at, &v, 8); break;
    case DT_F32: memcpy(at, &(float){(float)v}, 4); break;
    case DT_F16: memcpy(at, &(uint16_t){f32_to_f16((float)v)}, 2); break;
    case DT_BF16: memcpy(at, &(uint16_t){f32_to_bf16((float)v)}, 2); break;
    case DT_I32: memcpy(at, &(int32_t){(int32_t)v}, 4); break;
    case DT_I8: *(int8_t *)at = (int8_t)v; break;
    case DT_U8: *(uint8_t *)at = (uint8_t)v; break;
    default: *(uint8_t *)at = f32_to_f8(t, (float)v);
  }
}

static double number_at(Dtype t, const void *at) {
  int32_t whole;
  float single;
  double v;
  if (t == DT_F64) return memcpy(&v, at, 8), v;
  if (t == DT_F32) return memcpy(&single, at, 4), single;
  memcpy(&whole, at, 4);
  return whole;
}

/* Small whole numbers, whose products and sums are exact in any order. */
static double small(uint64_t *seed, bool natural) {
  *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(*seed >> 60) - (natural ? 0 : 7);
}

/* Two warps with tiles of their own. */
static void check_mma(Context *cx, const void *arg) {
  const Kind *kind = arg;
  enum { MOST_K = 32 };
  double a[2][16][MOST_K], x[2][MOST_K][8], c[2][16][8];
  int size = dtype_bytes(kind->a), words = size < 4 ? 4 / size : 1, word = words * size, ks = 8 * words;
  Dtype sum = kind->a == DT_F64 ? DT_F64 : dtype_is_float(kind->a) ? DT_F32 : DT_I32;
  char in[64][80], out[64][32]; /* a thread's ten words, and four */
  uint64_t seed = 5;
  for (int w = 0; w < 2; w++)
    for (int i = 0; i < MOST_K; i++) {
      for (int k = 0; k < ks && i < 16; k++) a[w][i][k] = small(&seed, kind->a == DT_U8);
      for (int j = 0; j < 8; j++) {
        x[w][i][j] = small(&seed, kind->x == DT_U8);
        if (i < 16) c[w][i][j] = i * j;
      }
    }
  for (int thread = 0; thread < 64; thread++) {
    int w = thread / 32, g = thread % 32 / 4, t = thread % 4;
    for (int i = 0; i < 6; i++)
      for (int h = 0; h < words; h++) {
        char *at = in[thread] + i * word + h * size;
        if (i < 4) put_number(kind->a, at, a[w][g + 8 * (i % 2)][words * t + h + 4 * words * (i / 2)]);
        else put_number(kind->x, at, x[w][words * t + h + 4 * words * (i - 4)][g]);
      }
    for (int i = 0; i < 4; i++) put_number(sum, in[thread] + (6 + i) * word, c[w][g + 8 * (i / 2)][2 * t + i % 2]);
  }
  Buf b = {0};
  int bits = 8 * word;
  buf_puts(&b, HEAD(2));
  buf_printf(&b, "  %%c4w = const.b32 {%d} : b32\n  %%d = mulwide.u32 %%tid, %%c4w : b64\n", 4 * word);
  buf_printf(&b, "  %%c80 = const.b32 {%d} : b32\n  %%e = mulwide.u32 %%tid, %%c80 : b64\n", (int)sizeof *in);
  buf_puts(&b, "  %f = add.s64 %in, %e : b64\n  %g = add.s64 %out, %d : b64\n");
  for (int i = 0; i < 10; i++) buf_printf(&b, "  %%w%d = ld.b%d %%f {global +%d} : b%d\n", i, bits, i * word, bits);
  buf_printf(&b, "  %%r0, %%r1, %%r2, %%r3 = mma.%s %%w0, %%w1, %%w2, %%w3, %%w4, %%w5, %%w6, %%w7, %%w8, %%w9%s : ",
             kind->name, kind->a == kind->x ? "" : " {mixed}");
  buf_printf(&b, "b%d, b%d, b%d, b%d\n", bits, bits, bits, bits);
  for (int i = 0; i < 4; i++) buf_printf(&b, "  st.b%d %%g, %%r%d {global +%d}\n", bits, i, i * word);
  buf_puts(&b, "}\n");
  assert_string_equal(run(cx, arena_strdup(cx->arena, b.at), (uint64_t[]){(uintptr_t)in, (uintptr_t)out}), "");
  buf_destroy(&b);
  for (int w = 0; w < 2; w++)
    for (int i = 0; i < 16; i++)
      for (int j = 0; j < 8; j++) {
        double want = c[w][i][j];
        for (int k = 0; k < ks; k++) want += a[w][i][k] * x[w][k][j];
        int thread = 32 * w + 4 * (i % 8) + j / 2, at = 2 * (i / 8) + j % 2;
        assert_true(number_at(sum, (char *)out + (thread * 4 + at) * word) == want);
      }
}

static void mma_multiplies(void **state) {
  static const Kind kinds[] = {{"f16", DT_F16, DT_F16},        {"bf16", DT_BF16, DT_BF16},
                               {"f32", DT_F32, DT_F32},        {"s8", DT_I8, DT_I8},
                               {"u8", DT_U8, DT_U8},           {"s8", DT_I8, DT_U8},
                               {"u8", DT_U8, DT_I8},           {"e4m3x2", DT_F8E4NV, DT_F8E4NV},
                               {"e5m2x2", DT_F8E5, DT_F8E5},   {"e4m3x2", DT_F8E4NV, DT_F8E5},
                               {"e5m2x2", DT_F8E5, DT_F8E4NV}, {"f64", DT_F64, DT_F64}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) with_context(check_mma, &kinds[i]);
}

/* Rows of 16 bytes lie in the order of the lanes that name them, last first. */
static void check_ldmatrix(Context *cx, const void *arg) {
  int n = ((const int *)arg)[0];
  bool trans = ((const int *)arg)[1];
  uint16_t in[32][8];
  uint32_t out[32][4] = {{0}};
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 8; j++) in[i][j] = (uint16_t)(100 * i + j);
  Buf b = {0};
  buf_puts(
      &b, HEAD(1) "  %c31 = const.b32 {31} : b32\n  %m = sub.s32 %c31, %tid : b32\n  %at = fma.s32 %m, %c16, %s : b32\n"
                  "  %w0, %w1, %w2, %w3 = ld.b32 %from {global} : b32, b32, b32, b32\n  st.b32 %at, %w0, %w1, %w2, %w3 "
                  "{shared buffer=0 +16}\n  barrier {warp}\n  ");
  for (int i = 0; i < n; i++) buf_printf(&b, "%s%%r%d", i ? ", " : "", i);
  buf_printf(&b, " = ldmatrix.b32 %%at {shared%s buffer=0 +16} : ", trans ? " trans" : "");
  for (int i = 0; i < n; i++) buf_printf(&b, "%sb32", i ? ", " : "");
  buf_puts(&b, "\n  st.b32 %to");
  for (int i = 0; i < n; i++) buf_printf(&b, ", %%r%d", i);
  buf_puts(&b, " {global}\n}\n");
  assert_string_equal(run(cx, b.at, (uint64_t[]){(uintptr_t)in, (uintptr_t)out}), "");
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < n; i++)
      for (int h = 0; h < 2; h++) {
        int row = trans ? 2 * (lane % 4) + h : lane / 4, column = trans ? lane / 4 : 2 * (lane % 4) + h;
        assert_int_equal((uint16_t)(out[lane][i] >> 16 * h), 100 * (8 * i + row) + column);
      }
  buf_destroy(&b);
}

static void ldmatrix_spreads_squares(void **state) {
  for (int n = 1; n <= 4; n *= 2)
    with_context(check_ldmatrix, (int[]){n, false}), with_context(check_ldmatrix, (int[]){n, true});
}

/* The reverse: lane 31 - n names row n of what is read back, and each lane gives words of its own. */
static void check_stmatrix(Context *cx, const void *arg) {
  int n = ((const int *)arg)[0];
  bool trans = ((const int *)arg)[1];
  uint16_t in[32][8], out[32][8] = {{0}};
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 8; j++) in[i][j] = (uint16_t)(100 * i + j);
  Buf b = {0};
  buf_puts(
      &b,
      HEAD(1) "  %c31 = const.b32 {31} : b32\n  %m = sub.s32 %c31, %tid : b32\n  %at = fma.s32 %m, %c16, %s : b32\n"
              "  %own = fma.s32 %tid, %c16, %s : b32\n"
              "  %w0, %w1, %w2, %w3 = ld.b32 %from {global} : b32, b32, b32, b32\n  st.b32 %own, %w0, %w1, %w2, %w3 "
              "{shared buffer=0 +16}\n  barrier {warp}\n  stmatrix.b32 %at");
  for (int i = 0; i < n; i++) buf_printf(&b, ", %%w%d", i);
  buf_printf(&b, " {shared%s buffer=0 +16}\n  barrier {warp}\n", trans ? " trans" : "");
  buf_puts(&b, "  %r0, %r1, %r2, %r3 = ld.b32 %own {shared buffer=0 +16} : b32, b32, b32, b32\n"
               "  st.b32 %to, %r0, %r1, %r2, %r3 {global}\n}\n");
  assert_string_equal(run(cx, b.at, (uint64_t[]){(uintptr_t)in, (uintptr_t)out}), "");
  for (int i = 0; i < 4; i++)
    for (int row = 0; row < 8; row++)
      for (int j = 0; j < 8; j++) {
        int lane = trans ? 4 * j + row / 2 : 4 * row + j / 2, half = (trans ? row : j) % 2, at = 31 - (8 * i + row);
        assert_int_equal(out[at][j], i < n ? 100 * lane + 2 * i + half : 100 * at + j);
      }
  buf_destroy(&b);
}

static void stmatrix_gathers_squares(void **state) {
  for (int n = 1; n <= 4; n *= 2)
    with_context(check_stmatrix, (int[]){n, false}), with_context(check_stmatrix, (int[]){n, true});
}

static void check_wrong_uses(Context *cx, const void *arg) {
  static const char fill[] =
      "  %at = fma.s32 %tid, %c16, %s : b32\n  st.b32 %at, %tid, %tid, %tid, %tid {shared buffer=0}\n";
  /* clang-format off */
  static const struct { const char *body, *fault; } cases[] = {
      {"  barrier {warp}\n  %r = ldmatrix.b32 %at {shared buffer=0} : b32\n", ""},
      {"  %r = ldmatrix.b32 %at {shared buffer=0} : b32\n",
       "race in shared memory: thread 0 reads byte 0 (buffer 'tile') that thread 0 wrote, without a barrier between"},
      {"  barrier {warp}\n  %r = ldmatrix.b32 %at {shared buffer=0 +4} : b32\n", "a load of 16 bytes at address 0x4, which is not a multiple of 16"},
      {"  barrier {warp}\n  %q, %r = ldmatrix.b32 %at {shared buffer=0 +512} : b32, b32\n",
       "thread 0 reads byte 512 of shared memory (buffer 'tile'), which nobody has written"},
      {"  barrier {warp}\n  %r = ldmatrix.b32 %at {shared buffer=0 +1024} : b32\n", "shared memory at byte 1024 of 1024"},
      {
      "  barrier {warp}\n  %p = setp.s32 %tid, %c3 {lt} : pred\n  exit @%p\n  %r = ldmatrix.b32 %at {shared buffer=0} : b32\n",
       "'ldmatrix' wants all lanes of a warp, but a thread of warp 0 has ended"},
      {"  barrier {warp}\n  stmatrix.b32 %at, %tid {shared buffer=0}\n", ""},
      {"  stmatrix.b32 %at, %s {shared buffer=0}\n",
       "race in shared memory: thread 4 writes byte 16 (buffer 'tile') that thread 1 wrote, without a barrier between"},
      {"  barrier {warp}\n  stmatrix.b32 %at, %tid {shared buffer=0}\n  %r = ld.b32 %at {shared buffer=0 +4} : b32\n",
       "race in shared memory: thread 0 reads byte 4 (buffer 'tile') that thread 1 wrote, without a barrier between"},
      {"  barrier {warp}\n  %r = ld.b32 %at {shared buffer=0 +4} : b32\n  stmatrix.b32 %at, %tid {shared buffer=0}\n",
       "race in shared memory: thread 1 writes byte 4 (buffer 'tile') that thread 0 read, without a barrier between"},
      {"  barrier {warp}\n  stmatrix.b32 %at, %tid {shared buffer=0 +8}\n", "a store of 16 bytes at address 0x8, which is not a multiple of 16"},
      {"  barrier {warp}\n  %p = setp.s32 %tid, %c3 {ge} : pred\n  stmatrix.b32 @%p %at, %tid {shared buffer=0}\n",
       "'stmatrix' has a guard on which a warp's lanes differ"},
      {"  barrier {warp}\n  %p = setp.s32 %tid, %c40 {ge} : pred\n  stmatrix.b32 @%p %at, %tid {shared buffer=0 +2048}\n", ""},
      {
      "  %p = setp.s32 %tid, %c3 {eq} : pred\n  exit @%p\n  %a, %b, %c, %d = mma.f16 %s, %s, %s, %s, %s, %s, %s, %s, %s, %s : b32, b32, b32, b32\n",
       "'mma' wants all lanes of a warp, but a thread of warp 0 has ended"},
  };
  /* clang-format on */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_string_equal(run(cx, arena_printf(cx->arena, "%s%s%s}\n", HEAD(1), fill, cases[i].body), (uint64_t[2]){0}),
                        cases[i].fault);
}

static void wrong_uses_are_found(void **state) { with_context(check_wrong_uses, NULL); }

/* ---- lowering ---------------------------------------------------------------------------------------------------- */

typedef struct Count {
  int mma, wgmma, ldmatrix, fma, plain_loads;
} Count;

static void count(LaneOp *op, void *arg) {
  Count *c = arg;
  c->mma += op->code == LANE_MMA;
  c->wgmma += op->code == LANE_WGMMA;
  c->ldmatrix += op->code == LANE_LDMATRIX;
  c->fma += op->code == LANE_FMA && op->kind == LK_F32;
  c->plain_loads += op->code == LANE_LD && op->space == SPACE_SHARED;
}

static LaneFunc *compiled(Context *cx, const Product *p, const char *target, bool plain) {
  return gpu_compile(
      product(cx, p),
      &(GpuOptions){.target = gpu_target_find(target), .verify = true, .plain_dot = plain, .no_wgmma = true});
}

/* A warp's 32 by 64 of a product, 64 k's: 2 by 8 tiles 4 times, each with 2 loads of a and 4 of x. */
static void check_counts(Context *cx, const void *target) {
  Count n = {0}, plain = {0};
  lane_walk(compiled(cx, &shapes[2], target, false)->body, count, &n);
  assert_int_equal(n.mma, 64);
  assert_int_equal(n.ldmatrix, 24);
  assert_int_equal(n.fma, 0);
  lane_walk(compiled(cx, &shapes[2], target, true)->body, count, &plain);
  assert_int_equal(plain.mma, 0);
  assert_true(plain.fma >= 256);
}

static void a_product_is_few_operations(void **state) {
  static const char *const targets[] = {"sm_80", "sm_90a", "sm_100a"};
  for (int i = 0; i < 3; i++) with_context(check_counts, targets[i]);
}

/* Where warpgroups may multiply: their instructions take columns side by side, so that few are needed; and f32 that
 * they do not take, since it lies across, is dealt to warps as anywhere else. */
static void check_groups(Context *cx, const void *arg) {
  GpuOptions o = {.target = gpu_target_find("sm_90a"), .verify = true};
  Count wide = {0}, across = {0}, elsewhere = {0};
  Product p = {0, 64, 64, 64, 8, "f16", "f32", 0, 0, NULL}, q = {0, 128, 128, 32, 8, "f32", "f32", 0, 0, NULL};
  lane_walk(gpu_compile(product(cx, &p), &o)->body, count, &wide);
  assert_int_equal(wide.wgmma, 4);
  lane_walk(gpu_compile(product(cx, &q), &o)->body, count, &across);
  lane_walk(compiled(cx, &q, "sm_80", false)->body, count, &elsewhere);
  assert_int_equal(across.mma, 64);
  assert_int_equal(across.plain_loads, elsewhere.plain_loads);
}

static void groups_take_much_at_once(void **state) { with_context(check_groups, NULL); }

static void check_banks(Context *cx, const void *arg) {
  const Product p = *(const Product *)arg;
  LaneFunc *f = compiled(cx, &p, "sm_90a", false);
  GpuReport *r = gpu_report(f, (uint64_t[]){4096, 1 << 20, 1 << 24}, NULL, (int32_t[]){1, 1, 1});
  int met = 0;
  for (int j = 0; j < r->access_count; j++) {
    const GpuAccess *a = &r->accesses[j];
    if (!a->shared || strncmp(f->buffers.at[a->op->buffer].name, "dot", 3)) continue;
    met++;
    if (a->wavefronts != a->ideal_wavefronts)
      fail_msg("%s %d by %d by %d, %d warps, a %s k, x %s k: a %s of '%s' takes %lld passes instead of %lld", p.type,
               p.m, p.n, p.k, p.warps, p.a_trans ? "across" : "along", p.x_trans ? "along" : "across",
               a->op->code == LANE_ST ? "store" : "load", f->buffers.at[a->op->buffer].name, (long long)a->wavefronts,
               (long long)a->ideal_wavefronts);
  }
  assert_true(met >= 4);
}

static void shared_memory_without_conflicts(void **state) {
  /* a and x along k and across, 5 sizes of k, 4 of the tile, 3 numbers of warps; of 8 bits the stores of what lies
   * across are single bytes, which meet */
  static const char *const types[] = {"f16", "f32", "i8", "f64"};
  for (int t = 0; t < 4; t++)
    for (int i = 0; i < 2 * 2 * 5 * 4 * 3; i++) {
      static const int sides[][2] = {{16, 16}, {32, 64}, {128, 32}, {64, 128}};
      const int *side = sides[i / 20 % 4], k = (t == 2 ? 32 : t ? 8 : 16) << i / 4 % 5;
      const char *out = t == 2 ? "i32" : t == 3 ? "f64" : "f32";
      Product p = {0, side[0], side[1], k, 1 << i / 80, types[t], out, i & 1, i >> 1 & 1, NULL};
      if (t == 2 && (p.a_trans || !p.x_trans)) continue;
      if (t == 3 && p.m * p.k + p.n * p.k > 8192) continue;
      if (p.m * p.n / 128 >= p.warps) with_context(check_banks, &p); /* else by multiply-adds */
    }
}

/* ---- whole products, on the simulator ---------------------------------------------------------------------------- */

typedef struct Whole {
  Product p;
  Dtype type, out;
  const char *target;
  bool no_wgmma;
} Whole;

static void check_whole(Context *cx, const void *arg) {
  const Whole *test = arg;
  const Product *p = &test->p;
  int size = dtype_bytes(test->type), out_size = dtype_bytes(test->out), batches = p->batch ? p->batch : 1;
  int rows = batches * p->m, columns = batches * p->n;
  char *a = calloc((size_t)(rows * p->k), (size_t)size), *x = calloc((size_t)(columns * p->k), (size_t)size),
       *c = calloc((size_t)(rows * p->n), (size_t)out_size);
  double *va = calloc((size_t)(rows * p->k), sizeof *va), *vx = calloc((size_t)(columns * p->k), sizeof *vx);
  uint64_t seed = (uint64_t)(p->m + p->n * p->k);
  for (int b = 0; b < batches; b++)
    for (int k = 0; k < p->k; k++) {
      for (int i = 0; i < p->m; i++) {
        double *v = &va[(b * p->m + i) * p->k + k];
        int at = p->a_trans ? (b * p->k + k) * p->m + i : (b * p->m + i) * p->k + k;
        put_number(test->type, a + at * size, *v = small(&seed, test->type == DT_U8));
      }
      for (int j = 0; j < p->n; j++) {
        double *v = &vx[(b * p->n + j) * p->k + k];
        int at = p->x_trans ? (b * p->n + j) * p->k + k : (b * p->k + k) * p->n + j;
        put_number(test->type, x + at * size, *v = small(&seed, test->type == DT_U8));
      }
    }
  static LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1};
  Func *f = product(cx, p);
  LaneFunc *lane = gpu_compile(
      f, &(GpuOptions){.target = gpu_target_find(test->target), .verify = true, .no_wgmma = test->no_wgmma});
  Count n = {0};
  lane_walk(lane->body, count, &n);
  if (!lane_sim_run(lane, (uint64_t[]){(uintptr_t)a, (uintptr_t)x, (uintptr_t)c}, &o, &fault))
    fail_msg("%s %d by %d by %d, %d warps, %s: %s", p->type, p->m, p->n, p->k, p->warps, test->target, fault.message);
  if (!n.mma && !n.wgmma) fail_msg("%s %d by %d by %d by multiply-adds", p->type, p->m, p->n, p->k);
  for (int b = 0; b < batches; b++)
    for (int i = 0; i < p->m; i++)
      for (int j = 0; j < p->n; j++) {
        double want = 0, got = number_at(test->out, c + ((b * p->m + i) * p->n + j) * out_size);
        for (int k = 0; k < p->k; k++) want += va[(b * p->m + i) * p->k + k] * vx[(b * p->n + j) * p->k + k];
        if (got != want)
          fail_msg("%s %d by %d by %d, batch %d, %d warps, a %s k, x %s k, %s, %s: %g at %d, %d instead of %g", p->type,
                   p->m, p->n, p->k, p->batch, p->warps, p->a_trans ? "across" : "along",
                   p->x_trans ? "along" : "across", test->target, p->precision ? p->precision : "tf32", got, i, j,
                   want);
      }
  free(a), free(x), free(c), free(va), free(vx);
}

static void every_type_multiplies(void **state) {
  static const struct {
    const char *name, *out;
    Dtype type, sum;
    int least_k;
    const char *precision;
  } types[] = {{"f16", "f32", DT_F16, DT_F32, 16, NULL},     {"f32", "f32", DT_F32, DT_F32, 8, NULL},
               {"f32", "f32", DT_F32, DT_F32, 8, "tf32x3"},  {"f32", "f32", DT_F32, DT_F32, 16, "bf16x3"},
               {"f32", "f32", DT_F32, DT_F32, 16, "bf16x6"}, {"i8", "i32", DT_I8, DT_I32, 32, NULL},
               {"u8", "i32", DT_U8, DT_I32, 32, NULL},       {"fp8e4nv", "f32", DT_F8E4NV, DT_F32, 32, NULL},
               {"fp8e5", "f32", DT_F8E5, DT_F32, 32, NULL},  {"f64", "f64", DT_F64, DT_F64, 8, NULL}};
  static const struct {
    int batch, m, n, k, warps; /* k: times the least */
  } sizes[] = {{0, 16, 8, 1, 1}, {0, 64, 64, 2, 4}, {0, 128, 32, 4, 8}, {2, 16, 32, 2, 2}, {0, 64, 128, 1, 16}};
  static const char *const targets[] = {"sm_80", "sm_89", "sm_90a"};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int i = 0; i < 4 * 4; i++) {
        Product p = {sizes[s].batch, sizes[s].m,        sizes[s].n,   sizes[s].k * types[t].least_k,
                     sizes[s].warps, types[t].name,     types[t].out, i & 1,
                     i >> 1 & 1,     types[t].precision};
        Whole test = {p, types[t].type, types[t].sum, targets[i / 4 < 3 ? i / 4 : 2], i / 4 == 3};
        with_context(check_whole, &test);
      }
}

/* Pieces: products as near as f32's own; an infinity is one. */
typedef struct Near {
  const char *precision;
  double error;
} Near;

static void check_near(Context *cx, const void *arg) {
  const Near *near = arg;
  Product p = {0, 16, 8, 16, 1, "f32", "f32", 0, 0, near->precision};
  float a[16][16], x[16][8], c[16][8];
  uint64_t seed = 9;
  for (int i = 0; i < 16; i++) {
    for (int k = 0; k < 16; k++) a[i][k] = (float)((small(&seed, false) + small(&seed, true) / 7) * 0.737);
    for (int j = 0; j < 8; j++) x[i][j] = (float)((small(&seed, false) + small(&seed, true) / 11) * 1.313);
  }
  a[3][5] = INFINITY;
  for (int j = 0; j < 8; j++) x[5][j] = 1.25f;
  static LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1};
  LaneFunc *f = compiled(cx, &p, "sm_80", false);
  assert_true(lane_sim_run(f, (uint64_t[]){(uintptr_t)a, (uintptr_t)x, (uintptr_t)c}, &o, &fault));
  double worst = 0;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      double want = 0, scale = 0;
      for (int k = 0; k < 16; k++) want += (double)a[i][k] * x[k][j], scale += fabs((double)a[i][k] * x[k][j]);
      if (i == 3) assert_true(isinf(c[i][j]) && c[i][j] > 0);
      else worst = fmax(worst, fabs(c[i][j] - want) / scale);
    }
  if (worst > near->error) fail_msg("%s: %g of the sum of magnitudes, %g wanted", near->precision, worst, near->error);
  if (worst < near->error / 1e4) fail_msg("%s is too near: %g", near->precision, worst);
}

static void pieces_come_near(void **state) {
  with_context(check_near, &(Near){"tf32", 0x1p-9}), with_context(check_near, &(Near){"tf32x3", 0x1p-19});
  with_context(check_near, &(Near){"bf16x3", 0x1p-13}), with_context(check_near, &(Near){"bf16x6", 0x1p-20});
}

/* An infinity, and what is next to one, meets numbers of one piece, of several whose rests have either sign, itself,
 * and nothing, beside other numbers: what comes out is what IEEE's sum is. */
static void check_infinities(Context *cx, const void *arg) {
  static const float rows[] = {INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 2.5f, NAN};
  static const float columns[] = {1.25f, 1, -1.3700001e30f, 1.3699999e30f, INFINITY, -INFINITY, 0, -1.1e-20f};
  Product p = {0, 16, 8, 16, 1, "f32", "f32", 0, 0, arg};
  float a[16][16], x[16][8], c[16][8];
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k++) a[i][k] = k == 5 ? rows[i % 6] : 0.75f;
  for (int k = 0; k < 16; k++)
    for (int j = 0; j < 8; j++) x[k][j] = k == 5 ? columns[j] : 0.625f;
  static LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1};
  LaneFunc *f = compiled(cx, &p, "sm_80", false);
  assert_true(lane_sim_run(f, (uint64_t[]){(uintptr_t)a, (uintptr_t)x, (uintptr_t)c}, &o, &fault));
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      float want = (float)((double)rows[i % 6] * columns[j] + 15 * 0.75 * 0.625), got = c[i][j];
      bool right = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabsf(got - want) <= fabsf(want) / 512;
      if (!right) fail_msg("%s: %g * %g is %g", p.precision, rows[i % 6], columns[j], got);
    }
}

static void infinities_in_pieces(void **state) {
  with_context(check_infinities, "tf32x3"), with_context(check_infinities, "bf16x3");
  with_context(check_infinities, "bf16x6");
}

/* What tensor cores cut off tf32 is nothing in the mean; numbers of 10 bits of a fraction stay what they are. */
static void check_balance(Context *cx, const void *arg) {
  const Whole *test = arg;
  const Product *p = &test->p;
  static float a[64 * 64], x[64 * 64], c[64 * 64];
  static LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1};
  LaneFunc *f = compiled(cx, p, test->target, test->no_wgmma);
  for (int exact = 0; exact < 2; exact++) {
    uint64_t seed = 5;
    for (int i = 0; i < 64 * 64; i++) {
      float *const both[] = {&a[i], &x[i]};
      for (int n = 0; n < 2; n++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        *both[n] = 1 + (exact ? (float)(seed >> 54) * 0x1p-10f : (float)(seed >> 41) * 0x1p-23f);
      }
    }
    assert_true(lane_sim_run(f, (uint64_t[]){(uintptr_t)a, (uintptr_t)x, (uintptr_t)c}, &o, &fault));
    double most = 0, mean = 0;
    for (int i = 0; i < p->m; i++)
      for (int j = 0; j < p->n; j++) {
        double want = 0;
        for (int k = 0; k < p->k; k++)
          want += (double)(p->a_trans ? a[k * p->m + i] : a[i * p->k + k]) *
                  (p->x_trans ? x[j * p->k + k] : x[k * p->n + j]);
        double error = c[i * p->n + j] / want - 1;
        mean += error / (p->m * p->n);
        most = fmax(most, fabs(error));
      }
    if (fabs(mean) > (exact ? 0x1p-22 : 0x1p-14) || most > (exact ? 0x1p-20 : 0x1p-10))
      fail_msg("%d by %d, %s: %g in the mean, %g at most", p->m, p->n, test->target, mean, most);
  }
}

static void tf32_is_balanced(void **state) {
  for (int i = 0; i < 4; i++) {
    with_context(check_balance, &(Whole){{0, 16, 8, 16, 1, "f32", "f32", i & 1, i >> 1}, .target = "sm_80"});
    with_context(check_balance, &(Whole){{0, 64, 64, 64, 4, "f32", "f32", i & 1, i >> 1}, .target = "sm_90a"});
  }
}

int main(void) {
  /* clang-format off */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lanes_hold_what_the_hardware_wants), cmocka_unit_test(other_products_stay_with_multiply_adds),
        cmocka_unit_test(warps_read_little),
      cmocka_unit_test(mma_multiplies), cmocka_unit_test(ldmatrix_spreads_squares), cmocka_unit_test(stmatrix_gathers_squares),
        cmocka_unit_test(wrong_uses_are_found),
      cmocka_unit_test(a_product_is_few_operations),        cmocka_unit_test(shared_memory_without_conflicts),
      cmocka_unit_test(groups_take_much_at_once), cmocka_unit_test(every_type_multiplies), cmocka_unit_test(pieces_come_near), cmocka_unit_test(infinities_in_pieces),
      cmocka_unit_test(tf32_is_balanced),
  };
  /* clang-format on */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
