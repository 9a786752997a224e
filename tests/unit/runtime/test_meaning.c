/* What the elementwise operations, reductions, sorts and atomics give on the edges of their types, on every device that
 * needs no GPU: the interpreter says it; the simulator, and compiled C on vectors, on scalars and with a constant
 * operand, must give the same bits. The vector functions of other instruction sets than this machine's are tested
 * against plain C with the same edges (test_support_vec.c, test_support_convert.c).
 *
 * Every operation has a defined result for all operands (docs/language.md, "Where Triton leaves it open"), so there is
 * one table of what may differ: `loose`, below. A NaN equals any other NaN, but where an operation moves bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "gpu/gpu.h"
#include "interp/interp.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

/* ---- edges ---- */

enum { MOST_EDGES = 64 };

static int int_edges(Dtype t, char *out) {
  int bits = dtype_bits(t), n = 0, bytes = dtype_bytes(t);
  uint64_t top = 1ull << (bits - 1);
  const uint64_t v[] = {0,
                        1,
                        2,
                        3,
                        7,
                        10,
                        (uint64_t)bits - 1,
                        (uint64_t)bits,
                        (uint64_t)bits + 1,
                        (uint64_t)bits * 2,
                        (uint64_t)bits * 2 + 1,
                        255,
                        256,
                        0x0102030405060708ull,
                        0x8080808080808080ull,
                        -1ull,
                        -2ull,
                        -7ull,
                        top,
                        top + 1,
                        top - 1,
                        top - 2,
                        top >> 1,
                        (uint64_t)-bits,
                        0x5555555555555555ull};
  for (size_t i = 0; i < sizeof v / sizeof *v; i++, n++) memcpy(out + n * bytes, &v[i], (size_t)bytes);
  return n;
}

static int float_edges(Dtype t, char *out) {
  int bytes = dtype_bytes(t), n = 0;
  static const double v[] = {0.0,
                             0.5,
                             1,
                             1.5,
                             2.5,
                             3,
                             1e-3,
                             100.25,
                             127,
                             127.75,
                             128,
                             255,
                             255.5,
                             256,
                             32767,
                             32767.5,
                             32768,
                             65535.5,
                             65504,
                             65520,
                             65536,
                             448,
                             464,
                             57344,
                             61440,
                             2147483647.0,
                             2147483648.0,
                             4294967295.0,
                             4294967296.0,
                             9223372036854775808.0,
                             18446744073709551616.0,
                             1e30,
                             INFINITY};
  for (size_t i = 0; i < 2 * sizeof v / sizeof *v && n < MOST_EDGES - 8; i++, n++)
    dtype_store_float(t, out + n * bytes, i & 1 ? -v[i / 2] : v[i / 2]);
  /* The least and the greatest subnormal number, the least normal one, the greatest, NaNs quiet and signalling. */
  int fraction = t == DT_F64                       ? 52
                 : t == DT_F32                     ? 23
                 : t == DT_F16                     ? 10
                 : t == DT_BF16                    ? 7
                 : t == DT_F8E5 || t == DT_F8E5B16 ? 2
                                                   : 3;
  uint64_t one = 1ull << fraction, sign = 1ull << (8 * bytes - 1);
  uint64_t inf = dtype_is_fp8(t) ? 0x7c : ((1ull << (8 * bytes - 1 - fraction)) - 1) << fraction;
  const uint64_t bits[] = {1, one - 1, one, inf - 1, inf + one / 2, inf + 1, sign | 1, sign | (inf + one / 2)};
  for (int i = 0; i < 8; i++, n++) memcpy(out + n * bytes, &bits[i], (size_t)bytes);
  return n;
}

static int edges_of(Dtype t, char *out) {
  if (t == DT_I1) {
    out[0] = 0, out[1] = 1;
    return 2;
  }
  return dtype_is_float(t) ? float_edges(t, out) : int_edges(t, out);
}

/* Arrays x, y, z of `count` elements: all pairs of edges, and all triples of some, in turn. */
static int fill_pairs(Dtype t, char *x, char *y, char *z, int most) {
  char edge[8 * MOST_EDGES];
  int n = edges_of(t, edge), bytes = dtype_bytes(t), count = 1;
  while (count < n * n) count *= 2;
  assert_true(count <= most);
  for (int i = 0; i < count; i++) {
    memcpy(x + i * bytes, edge + i % n * bytes, (size_t)bytes);
    memcpy(y + i * bytes, edge + i / n % n * bytes, (size_t)bytes);
    memcpy(z + i * bytes, edge + (i * 7 + i / n) % n * bytes, (size_t)bytes);
  }
  return count;
}

/* ---- a kernel in IR, and what it writes ---- */

enum { MOST = 4096, MOST_OUTPUTS = 400 };

typedef struct Output {
  Dtype type;
  Dtype from;   /* of a bitcast, else type */
  double loose; /* how far apart the devices may be, relative; 0: the same bits */
  char what[64];
} Output;

typedef struct Trial {
  Buf ir;
  const char *shape; /* "[512]", or "" for scalars: one program an element */
  char shape_text[16];
  int count, outputs, next;
  Dtype in;
  Output out[MOST_OUTPUTS];
  char x[8 * MOST], y[8 * MOST], z[8 * MOST];
} Trial;

static Trial trial;
#define ADD(...) buf_printf(&trial.ir, __VA_ARGS__)

static void begin(Dtype t, int count, bool scalars) {
  trial.ir.n = 0;
  trial.in = t, trial.count = count, trial.outputs = trial.next = 0;
  snprintf(trial.shape_text, sizeof trial.shape_text, "[%d]", count);
  trial.shape = scalars ? "" : trial.shape_text;
  const char *s = trial.shape, *n = dtype_name(t);
  ADD("kernel @k(%%x: *%s, %%y: *%s, %%z: *%s, %%o: *i8) {\n", n, n, n);
  if (scalars) ADD("  %%i = program_id {axis=0} : i32\n");
  else ADD("  %%i = arange {start=0, end=%d} : i32%s\n", count, s);
  for (const char *p = "xyz"; *p; p++) {
    if (!scalars) ADD("  %%s%c = splat %%%c : *%s%s\n", *p, *p, n, s);
    ADD("  %%p%c = addptr %%%s%c, %%i : *%s%s\n  %%%c%c = load %%p%c : %s%s\n", *p, scalars ? "" : "s", *p, n, s, *p,
        *p, *p, n, s);
  }
}

/* Stores a value of the trial's shape as output `what`. */
static void keep(Dtype t, double loose, const char *what, const char *value) {
  Output *o = &trial.out[trial.outputs];
  assert_true(trial.outputs < MOST_OUTPUTS);
  *o = (Output){.type = t, .from = t, .loose = loose};
  snprintf(o->what, sizeof o->what, "%s", what);
  int k = trial.outputs++;
  const char *n = dtype_name(t), *s = trial.shape;
  ADD("  %%c%d = const {value=%d} : i32\n  %%b%d = addptr %%o, %%c%d : *i8\n  %%q%d = bitcast %%b%d : *%s\n", k,
      k * 8 * trial.count, k, k, k, k, n);
  if (*s) ADD("  %%r%d = splat %%q%d : *%s%s\n", k, k, n, s);
  ADD("  %%a%d = addptr %%%c%d, %%i : *%s%s\n  store %%a%d, %s\n", k, *s ? 'r' : 'q', k, n, s, k, value);
}

static const char *fresh(void) {
  static char name[4][16];
  char *at = name[trial.next & 3];
  snprintf(at, 16, "%%v%d", trial.next++);
  return at;
}

/* keep(op operands {attributes}): the result is of type t. */
static void op(Dtype t, double loose, const char *operation, const char *operands, const char *attributes) {
  const char *v = fresh();
  char what[64];
  ADD("  %s = %s %s %s : %s%s\n", v, operation, operands, attributes, dtype_name(t), trial.shape);
  snprintf(what, sizeof what, "%s %s %s", operation, attributes, dtype_name(t));
  keep(t, loose, what, v);
}

/* ---- the devices ---- */

static size_t output_bytes(void) { return (size_t)trial.outputs * 8 * (size_t)trial.count; }

static Func *parse(Context *cx) {
  Func *f = tile_parse(cx, source_from_text(cx, "k.ir", trial.ir.at, trial.ir.n));
  f->num_warps = 4;
  tile_verify(f, "parse");
  return f;
}

static void on_interp(Context *cx, char *out, int32_t *grid) {
  InterpMemory *m = interp_memory_create();
  uint64_t args[] = {(uintptr_t)trial.x, (uintptr_t)trial.y, (uintptr_t)trial.z, (uintptr_t)out};
  interp_memory_add(m, trial.x, sizeof trial.x, NULL);
  interp_memory_add(m, trial.y, sizeof trial.y, NULL);
  interp_memory_add(m, trial.z, sizeof trial.z, NULL);
  interp_memory_add(m, out, output_bytes(), NULL);
  InterpFault fault = {0};
  if (!interp_run(parse(cx), m, args, grid, &(InterpOptions){0}, &fault)) fail_msg("interp: %s", fault.message);
  interp_memory_destroy(m);
}

static void on_cpu(Context *cx, char *out, int32_t *grid) {
  Func *f = parse(cx);
  tile_optimize(f, NULL, NULL, true);
  Buf text = {0};
  size_t headers;
  cpu_emit_c(f, false, CPU_TEXT_COMPILED, &text, &headers);
  CpuCode *code = cpu_compile(cx, &(CpuText){text.at, text.n, headers}, NULL);
  uint64_t args[] = {(uintptr_t)trial.x, (uintptr_t)trial.y, (uintptr_t)trial.z, (uintptr_t)out};
  void *scratch = aligned_alloc(64, (cpu_code_scratch(code) + 127) / 64 * 64);
  assert_int_equal(cpu_code_entry(code)(args, grid, 0, grid[0], scratch, &(NereidHost){0}), 0);
  free(scratch);
  cpu_code_release(code);
  buf_destroy(&text);
}

static void on_sim(Context *cx, char *out, int32_t *grid, const char *target) {
  Func *f = parse(cx);
  tile_optimize(f, NULL, NULL, true);
  LaneFunc *lane = gpu_compile(f, &(GpuOptions){.target = gpu_target_find(target), .verify = true});
  uint64_t args[] = {(uintptr_t)trial.x, (uintptr_t)trial.y, (uintptr_t)trial.z, (uintptr_t)out};
  LaneSimFault fault = {{0}};
  if (!lane_sim_run(lane, args, &(LaneSimOptions){.grid = grid, .end = grid[0]}, &fault))
    fail_msg("sim: %s", fault.message);
}

static bool agree(const Output *o, const void *x, const void *want, const void *got) {
  size_t bytes = (size_t)dtype_bytes(o->type);
  if (!memcmp(want, got, bytes)) return true;
  /* A narrow float is held as f32 on the CPU, where which NaN it was is lost. */
  if (o->from != o->type && dtype_is_float(o->from) && dtype_bits(o->from) < 32 && isnan(dtype_load_float(o->from, x)))
    return true;
  if (!dtype_is_float(o->type)) return false;
  /* What NaN becomes there, whose sign no device keeps. */
  if (o->type == DT_F8E4B15) return (*(const uint8_t *)want & *(const uint8_t *)got & 0x7f) == 0x7e;
  double a = dtype_load_float(o->type, want), b = dtype_load_float(o->type, got);
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (o->loose == 0 || isinf(a) || isinf(b)) return false;
  double tiny = o->type == DT_F64 ? 0x1p-1022 : 0x1p-126;
  return fabs(a - b) <= o->loose * fmax(fabs(a), fabs(b)) || (fabs(a) <= tiny && fabs(b) <= tiny);
}

static int disagreements(const char *device, const char *want, const char *got) {
  int wrong = 0, bytes = dtype_bytes(trial.in);
  for (int k = 0; k < trial.outputs; k++) {
    const Output *o = &trial.out[k];
    int size = dtype_bytes(o->type), here = 0;
    for (int i = 0; i < trial.count; i++) {
      const char *w = want + (size_t)k * 8 * (size_t)trial.count + i * size, *g = got + (w - want);
      if (agree(o, trial.x + i * bytes, w, g)) continue;
      uint64_t v[5] = {0};
      memcpy(&v[0], trial.x + i * bytes, (size_t)bytes), memcpy(&v[1], trial.y + i * bytes, (size_t)bytes);
      memcpy(&v[2], trial.z + i * bytes, (size_t)bytes), memcpy(&v[3], w, (size_t)size), memcpy(&v[4], g, (size_t)size);
      if (here++ < 3)
        print_error("%s: %s of %s x=%llx y=%llx z=%llx: interp %llx, %s %llx\n", device, o->what, dtype_name(trial.in),
                    (unsigned long long)v[0], (unsigned long long)v[1], (unsigned long long)v[2],
                    (unsigned long long)v[3], device, (unsigned long long)v[4]);
    }
    wrong += here;
  }
  return wrong;
}

static int wrong_in_all;

static void run(void) {
  ADD("}\n");
  int32_t grid[3] = {*trial.shape ? 1 : trial.count, 1, 1};
  size_t bytes = output_bytes();
  char *want = aligned_alloc(64, bytes + 64), *got = aligned_alloc(64, bytes + 64);
  memset(want, 0, bytes);
  static const char *const devices[] = {"interp", "cpu", "sm_80", "sm_90a"};
  for (int d = 0; d < 4; d++) {
    Context *cx = context_create();
    if (context_try(cx)) {
      memset(got, 0, bytes);
      if (d == 0) on_interp(cx, want, grid);
      else if (d == 1) on_cpu(cx, got, grid);
      else on_sim(cx, got, grid, devices[d]);
      context_end_try(cx);
    } else {
      Buf b = {0};
      diags_print(&b, cx, false);
      fail_msg("%s: %s\n%s", devices[d], b.at, trial.ir.at);
    }
    context_destroy(cx);
    if (d) wrong_in_all += disagreements(devices[d], want, got);
  }
  free(want);
  free(got);
}

/* ---- what may differ ---- */

/* Approximations: a few units in the last place. */
static double loose_of(Dtype t) {
  return t == DT_F64 ? 0x1p-46 : t == DT_F32 ? 0x1p-20 : t == DT_F16 ? 0x1p-9 : t == DT_BF16 ? 0x1p-6 : 0;
}

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* Functions whose result is exact or correctly rounded: the same bits everywhere. */
static bool is_exact(const char *name) {
  static const char *const names[] = {
      "clz",       "popc",    "byte_perm", "mulhi",   "mul24", "brev",      "sad",   "abs",       "floor",
      "ceil",      "trunc",   "saturatef", "hadd",    "rhadd", "ffs",       "rint",  "llrint",    "nearbyint",
      "isnan",     "signbit", "copysign",  "finitef", "isinf", "nextafter", "ldexp", "scalbn",    "fmod",
      "remainder", "fma",     "round",     "llround", "fdim",  "ilogb",     "logb",  "isfinited", NULL};
  static const char *const heads[] = {"fma_r",   "div_r",    "rcp_r",       "sqrt_r",    "add_r",   "sub_r", "mul_r",
                                      "double2", "float2",   "int2",        "uint2",     "ll2",     "ull2",  "int_as",
                                      "uint_as", "float_as", "longlong_as", "double_as", "hiloint", NULL};
  for (int i = 0; names[i]; i++)
    if (!strcmp(name, names[i])) return true;
  for (int i = 0; heads[i]; i++)
    if (begins(name, heads[i])) return true;
  return false;
}

/* ---- arithmetic ---- */

static void binaries(Dtype t, const char *y) {
  static const char *const ints[] = {"add", "sub", "mul", "div", "rem", "and",   "or",
                                     "xor", "shl", "shr", "min", "max", "mulhi", NULL};
  static const char *const floats[] = {"add", "sub", "mul", "rem", "min", "max", NULL};
  char both[40];
  snprintf(both, sizeof both, "%%xx, %s", y);
  const char *const *names = dtype_is_float(t) ? floats : ints;
  for (int i = 0; names[i]; i++) op(t, 0, names[i], both, "");
  if (dtype_is_float(t)) {
    op(t, t == DT_F64 ? 0 : loose_of(t), "div", both, ""); /* f32: div.full on a GPU */
    op(t, 0, "div", both, "{rounding=1}");
    op(t, 0, "min", both, "{nan=1}");
    op(t, 0, "max", both, "{nan=1}");
  }
  static const char *const preds[] = {"{pred=eq}", "{pred=ne}", "{pred=lt}", "{pred=le}", "{pred=gt}", "{pred=ge}"};
  for (int i = 0; i < 6; i++) op(DT_I1, 0, "cmp", both, preds[i]);
}

static void arithmetic(Dtype t, bool scalars) {
  int count = fill_pairs(t, trial.x, trial.y, trial.z, MOST);
  begin(t, count, scalars);
  binaries(t, "%yy");
  op(t, 0, "neg", "%xx", "");
  op(t, 0, "abs", "%xx", "");
  if (dtype_is_int(t)) op(t, 0, "not", "%xx", "");
  op(t, 0, "fma", "%xx, %yy, %zz", "");
  ADD("  %%cond = cmp %%xx, %%yy {pred=lt} : i1%s\n", trial.shape);
  op(t, 0, "select", "%cond, %yy, %zz", "");
  run();
}

static bool has_arithmetic(Dtype t) { return !dtype_is_fp8(t); } /* Triton has none on fp8 */

static void test_arithmetic(void **state) {
  /* Scalars of one type of each kind: compiling takes the time. */
  const unsigned scalar_types = 1u << DT_I1 | 1u << DT_I8 | 1u << DT_U16 | 1u << DT_I32 | 1u << DT_U64 | 1u << DT_F16 |
                                1u << DT_F32 | 1u << DT_F64;
  wrong_in_all = 0;
  for (int t = 0; t < DT_COUNT; t++)
    for (int scalars = 0; scalars < 2; scalars++)
      if (has_arithmetic((Dtype)t) && (!scalars || scalar_types >> t & 1)) arithmetic((Dtype)t, scalars);
  assert_int_equal(wrong_in_all, 0);
}

/* A constant on the right goes ways of its own: shifts by an immediate, quotients by multiplication. */
static void test_constants(void **state) {
  wrong_in_all = 0;
  for (int t = 0; t < DT_COUNT; t++) {
    if (!has_arithmetic((Dtype)t) || t == DT_I1) continue;
    char edge[8 * MOST_EDGES];
    int n = edges_of((Dtype)t, edge), bytes = dtype_bytes((Dtype)t), count = 64;
    for (int i = 0; i < count; i++) memcpy(trial.x + i * bytes, edge + i % n * bytes, (size_t)bytes);
    memcpy(trial.y, trial.x, sizeof trial.y), memcpy(trial.z, trial.x, sizeof trial.z);
    begin((Dtype)t, count, false);
    for (int k = 0; k < n && trial.outputs + 20 < MOST_OUTPUTS; k++) {
      char name[16];
      snprintf(name, sizeof name, "%%k%d", k);
      if (dtype_is_float((Dtype)t)) {
        double v = dtype_load_float((Dtype)t, edge + k * bytes);
        if (isnan(v) || (k > 12 && k < n - 8)) continue; /* the zeros, small ones, and the ends */
        ADD("  %s = const {value=%.17g} : %s%s\n", name, v, dtype_name((Dtype)t), trial.shape);
      } else {
        ADD("  %s = const {value=%lld} : %s%s\n", name, (long long)dtype_load_int((Dtype)t, edge + k * bytes),
            dtype_name((Dtype)t), trial.shape);
      }
      binaries((Dtype)t, name);
    }
    run();
  }
  assert_int_equal(wrong_in_all, 0);
}

/* ---- conversions ---- */

static void test_conversions(void **state) {
  wrong_in_all = 0;
  for (int from = 0; from < DT_COUNT; from++)
    for (int scalars = 0; scalars < (from == DT_F32 || from == DT_F64 || from == DT_I64 ? 2 : 1); scalars++) {
      char edge[8 * MOST_EDGES];
      int n = edges_of((Dtype)from, edge), bytes = dtype_bytes((Dtype)from), count = 128;
      for (int i = 0; i < count; i++) memcpy(trial.x + i * bytes, edge + i % n * bytes, (size_t)bytes);
      begin((Dtype)from, count, scalars);
      for (int to = 0; to < DT_COUNT; to++) {
        bool fp8 = dtype_is_fp8((Dtype)to) || dtype_is_fp8((Dtype)from);
        if (fp8 && (dtype_is_int((Dtype)to) || dtype_is_int((Dtype)from))) continue; /* none in the language */
        if (to != from) op((Dtype)to, 0, "convert", "%xx", "");
        if (dtype_is_float((Dtype)to) && dtype_is_float((Dtype)from) &&
            dtype_bits((Dtype)to) < dtype_bits((Dtype)from) && (to == DT_F16 || to == DT_BF16 || to == DT_F32))
          op((Dtype)to, 0, "convert", "%xx", "{rounding=1}");
        if (dtype_bits((Dtype)to) == dtype_bits((Dtype)from) && to != from) {
          op((Dtype)to, 0, "bitcast", "%xx", "");
          trial.out[trial.outputs - 1].from = (Dtype)from;
        }
      }
      run();
    }
  assert_int_equal(wrong_in_all, 0);
}

/* ---- functions ---- */

/* Operand `name` (x, y, z) as type `to`: the same bits, or the nearest number. */
static void operand_as(Dtype to, char name, int k, char out[16]) {
  if (to == trial.in) {
    snprintf(out, 16, "%%%c%c", name, name);
    return;
  }
  snprintf(out, 16, "%%m%d", k);
  ADD("  %s = %s %%%c%c : %s%s\n", out, dtype_bits(to) == dtype_bits(trial.in) ? "bitcast" : "convert", name, name,
      dtype_name(to), trial.shape);
}

/* Each row of math.def whose first operand is of type t; every edge, beside some others. */
static void functions(Dtype t) {
  char edge[8 * MOST_EDGES];
  int n = edges_of(t, edge), bytes = dtype_bytes(t), count = 256;
  for (int i = 0; i < count; i++) {
    memcpy(trial.x + i * bytes, edge + i % n * bytes, (size_t)bytes);
    memcpy(trial.y + i * bytes, edge + (i * 5 + i / n) % n * bytes, (size_t)bytes);
    memcpy(trial.z + i * bytes, edge + (i * 7 + i / n) % n * bytes, (size_t)bytes);
  }
  begin(t, count, false);
  for (int fn = 0, operands = 0; fn < MATH_COUNT; fn++) {
    const MathInfo *info = &math_info[fn];
    if (begins(info->name, "fast_") || !strcmp(info->name, "rcp64h")) continue; /* near where CUDA says so only */
    if (fn == MATH_JN || fn == MATH_YN) continue;                               /* as many steps as the order says */
    static const Dtype types[] = {DT_I32, DT_I64, DT_U32, DT_U64, DT_F32, DT_F64};
    for (int second = 0; second < (info->arity > 1 ? 6 : 1); second++) {
      Dtype in[4] = {t, types[second], t, t}, result;
      if (fn == MATH_SAD) in[2] = DT_U32;
      if (!math_signature((MathFn)fn, info->arity, in, &result)) continue;
      char all[80] = "", one[16], attributes[64];
      for (int i = 0; i < info->arity; i++) {
        operand_as(in[i], "xyzy"[i], operands++, one);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", one);
      }
      snprintf(attributes, sizeof attributes, "{fn=%s}", info->name);
      if (trial.outputs < MOST_OUTPUTS)
        op(result, is_exact(info->name) ? 0 : loose_of(result), "math", all, attributes);
    }
  }
  run();
}

static void test_functions(void **state) {
  wrong_in_all = 0;
  static const Dtype types[] = {DT_I32, DT_I64, DT_U32, DT_U64, DT_F32, DT_F64};
  for (int i = 0; i < 6; i++) functions(types[i]);
  assert_int_equal(wrong_in_all, 0);
}

/* ---- many elements to one ---- */

/* Of rows of eight neighbours: min and max in any order; sorted; a running maximum. */
static void test_across(void **state) {
  wrong_in_all = 0;
  for (int t = 0; t < DT_COUNT; t++) {
    if (!has_arithmetic((Dtype)t) || t == DT_I1) continue;
    char edge[8 * MOST_EDGES];
    int n = edges_of((Dtype)t, edge), bytes = dtype_bytes((Dtype)t), count = 512, next = 0;
    uint64_t seed = 1;
    for (int i = 0; i < count; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      /* The first rows hold zeros of both signs and NaNs alone, most zeros of a row of one sign. */
      int pick = i < 64 && dtype_is_float((Dtype)t) ? ((seed >> 40) % 8 == 0) ^ (i / 8 & 1) : (int)(seed >> 40) % n;
      if (i >= 64 && i < 128) pick = seed >> 50 & 1 ? n - 4 : pick;
      memcpy(trial.x + i * bytes, edge + pick * bytes, (size_t)bytes);
    }
    memset(trial.y, 0, sizeof trial.y), memset(trial.z, 0, sizeof trial.z);
    begin((Dtype)t, count, false);
    const char *name = dtype_name((Dtype)t);
    static const char *const bodies[] = {"min", "max", "min {nan=1}", "max {nan=1}"};
    for (int lanes = 8; lanes <= 64; lanes *= 8)
      for (int b = 0; b < (dtype_is_float((Dtype)t) ? 4 : 2); b++) {
        int rows = count / lanes, k = next++;
        const char *brace = strchr(bodies[b], '{');
        ADD("  %%w%d = reshape %%xx : %s[%d,%d]\n", k, name, rows, lanes);
        ADD("  %%e%d = reduce %%w%d {axis=1} : %s[%d] do (%%f%d: %s, %%g%d: %s) {\n    %%h%d = %.3s %%f%d, %%g%d %s : "
            "%s\n"
            "    yield %%h%d\n  }\n",
            k, k, name, rows, k, name, k, name, k, bodies[b], k, k, brace ? brace : "", name, k);
        ADD("  %%j%d = expand_dims %%e%d {axis=1} : %s[%d,1]\n  %%l%d = broadcast %%j%d : %s[%d,%d]\n  %%n%d = reshape "
            "%%l%d : %s[%d]\n",
            k, k, name, rows, k, k, name, rows, lanes, k, k, name, count);
        char what[64], value[16];
        snprintf(what, sizeof what, "reduce by %s of %d", bodies[b], lanes);
        snprintf(value, sizeof value, "%%n%d", k);
        keep((Dtype)t, 0, what, value);
        ADD("  %%t%d = scan %%w%d {axis=1, reverse=0} : %s[%d,%d] do (%%f%d: %s, %%g%d: %s) {\n    %%h%d = %.3s %%f%d, "
            "%%g%d %s : "
            "%s\n    yield %%h%d\n  }\n  %%u%d = reshape %%t%d : %s[%d]\n",
            k, k, name, rows, lanes, k + 100, name, k + 100, name, k + 100, bodies[b], k + 100, k + 100,
            brace ? brace : "", name, k + 100, k, k, name, count);
        snprintf(what, sizeof what, "scan by %s of %d", bodies[b], lanes);
        snprintf(value, sizeof value, "%%u%d", k);
        keep((Dtype)t, 0, what, value);
      }
    run();
  }
  assert_int_equal(wrong_in_all, 0);
}

int main(void) {
  const char *cache = getenv("NEREID_TEST_CACHE");
  static char folder[] = "/tmp/nereid-test-meaning-XXXXXX";
  if (cache) setenv("NEREID_CACHE_DIR", cache, 1);
  else if (mkdtemp(folder)) setenv("NEREID_CACHE_DIR", folder, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_constants), cmocka_unit_test(test_conversions),
      cmocka_unit_test(test_functions),  cmocka_unit_test(test_across),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
