/* The CPU back end against the interpreter: loop nests, reductions, loops, dots, tile operations. */
#include "test_cpu_kit.h"

#define SOFTMAX(N) \
  "kernel @softmax(%x: *f32, %y: *f32, %xs: i32, %n: i32) {\n" \
  "  %row = program_id {axis=0} : i32\n" \
  "  %cols = arange {start=0, end=" #N "} : i32[" #N "]\n" \
  "  %ns = splat %n : i32[" #N "]\n" \
  "  %mask = cmp %cols, %ns {pred=lt} : i1[" #N "]\n" \
  "  %ro = mul %row, %xs : i32\n" \
  "  %xr = addptr %x, %ro : *f32\n" \
  "  %xp = splat %xr : *f32[" #N "]\n" \
  "  %xa = addptr %xp, %cols : *f32[" #N "]\n" \
  "  %ninf = const {value=-inf} : f32[" #N "]\n" \
  "  %v = load %xa, %mask, %ninf : f32[" #N "]\n" \
  "  %m = reduce %v {axis=0} : f32 do (%a: f32, %b: f32) {\n" \
  "    %c = max %a, %b : f32\n" \
  "    yield %c\n" \
  "  }\n" \
  "  %ms = splat %m : f32[" #N "]\n" \
  "  %d = sub %v, %ms : f32[" #N "]\n" \
  "  %e = math %d {fn=exp} : f32[" #N "]\n" \
  "  %s = reduce %e {axis=0} : f32 do (%a2: f32, %b2: f32) {\n" \
  "    %c2 = add %a2, %b2 : f32\n" \
  "    yield %c2\n" \
  "  }\n" \
  "  %ss = splat %s : f32[" #N "]\n" \
  "  %r = div %e, %ss : f32[" #N "]\n" \
  "  %yr = addptr %y, %ro : *f32\n" \
  "  %yp = splat %yr : *f32[" #N "]\n" \
  "  %ya = addptr %yp, %cols : *f32[" #N "]\n" \
  "  store %ya, %r, %mask\n" \
  "}\n"

static void test_softmax(void **state) {
  (void)state;
  static const char *const kernels[] = {SOFTMAX(1024), SOFTMAX(64), SOFTMAX(16), SOFTMAX(8), SOFTMAX(2), SOFTMAX(1)};
  static const int sizes[] = {1024, 64, 16, 8, 2, 1};
  for (int i = 0; i < 6; i++) {
    int n = sizes[i] > 4 ? sizes[i] * 3 / 4 + 1 : sizes[i];
    cpu_check(&(CpuCase){.ir = kernels[i], .count = 5 * (n + 3), .ints = (int64_t[]){n + 3, n}, .grid = {5}});
    cpu_check(
        &(CpuCase){.ir = kernels[i], .count = 5 * sizes[i], .ints = (int64_t[]){sizes[i], sizes[i]}, .grid = {5}});
  }
}

/* A tile of M x N of type T at %NAME, addresses in %pNAME; strides N and 1. */
#define INDEX2(M, N) \
  "  %im = arange {start=0, end=" #M "} : i32[" #M "]\n" \
  "  %in = arange {start=0, end=" #N "} : i32[" #N "]\n" \
  "  %im1 = expand_dims %im {axis=1} : i32[" #M ",1]\n" \
  "  %in1 = expand_dims %in {axis=0} : i32[1," #N "]\n" \
  "  %sn = const {value=" #N "} : i32[" #M ",1]\n" \
  "  %imn = mul %im1, %sn : i32[" #M ",1]\n" \
  "  %ib = broadcast %imn : i32[" #M "," #N "]\n" \
  "  %jb = broadcast %in1 : i32[" #M "," #N "]\n" \
  "  %ij = add %ib, %jb : i32[" #M "," #N "]\n"
#define POINTERS2(P, T, M, N) \
  "  %s" P " = splat %" P " : *" T "[" #M "," #N "]\n" \
  "  %p" P " = addptr %s" P ", %ij : *" T "[" #M "," #N "]\n"
#define LOAD2(V, P, T, M, N) POINTERS2(P, T, M, N) "  %" V " = load %p" P " : " T "[" #M "," #N "]\n"

#define TWO(M, N) \
  "kernel @k(%x: *f32, %y: *f32, %o: *f32) {\n" INDEX2(M, N) LOAD2("a", "x", "f32", M, N) LOAD2("b", "y", "f32", M, N) \
      POINTERS2("o", "f32", M, N)

static void check(const char *ir, int64_t count) { cpu_check(&(CpuCase){.ir = ir, .count = count}); }

/* Transposes, broadcasts of rows and columns, and the same value at two indices. */
static void test_views(void **state) {
  (void)state;
  check(TWO(16, 16) "  %t = trans %a {dims=[1,0]} : f32[16,16]\n  %r = add %t, %b : f32[16,16]\n  %q = mul %r, %a : "
                    "f32[16,16]\n  store %po, %q\n}\n",
        256);
  check(TWO(4, 8) "  %r = reshape %a : f32[8,4]\n  %t = trans %r {dims=[1,0]} : f32[4,8]\n  %q = sub %t, %b : "
                  "f32[4,8]\n  store %po, %q\n}\n",
        32);
  check(TWO(2, 32) "  %ra = reduce %a {axis=1} : f32[2] do (%u: f32, %v: f32) {\n    %w = add %u, %v : f32\n    yield "
                   "%w\n  }\n"
                   "  %ca = reduce %b {axis=0} : f32[32] do (%u2: f32, %v2: f32) {\n    %w2 = max %u2, %v2 : f32\n    "
                   "yield %w2\n  }\n"
                   "  %re = expand_dims %ra {axis=1} : f32[2,1]\n  %rb = broadcast %re : f32[2,32]\n"
                   "  %ce = expand_dims %ca {axis=0} : f32[1,32]\n  %cb = broadcast %ce : f32[2,32]\n"
                   "  %s1 = sub %a, %rb : f32[2,32]\n  %s2 = mul %s1, %cb : f32[2,32]\n  store %po, %s2\n}\n",
        64);
}

/* Loads and stores that are contiguous along another dim than the last: tiles are turned on the way. */
static void test_turned(void **state) {
  (void)state;
  static const char ir[] =
      "kernel @k(%x: *T, %y: *T, %o: *T, %q: *T, %n: i32) {\n"
      "  %im = arange {start=0, end=32} : i32[32]\n  %in = arange {start=0, end=16} : i32[16]\n"
      "  %im1 = expand_dims %im {axis=1} : i32[32,1]\n  %in1 = expand_dims %in {axis=0} : i32[1,16]\n"
      "  %ib = broadcast %im1 : i32[32,16]\n  %jb = broadcast %in1 : i32[32,16]\n"
      "  %w = const {value=32} : i32[32,16]\n  %c = const {value=16} : i32[32,16]\n"
      "  %jw = mul %jb, %w : i32[32,16]\n  %col = add %ib, %jw : i32[32,16]\n  %iw = mul %ib, %c : i32[32,16]\n  %row "
      "= add %iw, %jb : i32[32,16]\n"
      "  %ns = splat %n : i32[32,16]\n  %m = cmp %ib, %ns {pred=lt} : i1[32,16]\n"
      "  %sx = splat %x : *T[32,16]\n  %px = addptr %sx, %col : *T[32,16]\n  %a = load %px, %m : T[32,16]\n"
      "  %sy = splat %y : *T[32,16]\n  %py = addptr %sy, %row : *T[32,16]\n  %b = load %py : T[32,16]\n"
      "  %s = add %a, %b : T[32,16]\n  %so = splat %o : *T[32,16]\n  %po = addptr %so, %row : *T[32,16]\n  store %po, "
      "%s, %m\n"
      "  %d = sub %a, %b : T[32,16]\n  %sq = splat %q : *T[32,16]\n  %pq = addptr %sq, %col : *T[32,16]\n  store %pq, "
      "%d, %m\n"
      "  %r = reduce %a {axis=1} : T[32] do (%u: T, %v: T) {\n    %g = max %u, %v : T\n    yield %g\n  }\n"
      "  %sq1 = splat %q : *T[32]\n  %pr = addptr %sq1, %im : *T[32]\n  %old = load %pr : T[32]\n  %z = mul %old, %r : "
      "T[32]\n  store %pr, %z\n}\n";
  static const char *const types[] = {"f32", "bf16", "i8", "f64", "i1"};
  for (int i = 0; i < 4; i++) {
    Buf b = {0};
    for (const char *c = ir; *c; c++) {
      if (*c == 'T') buf_puts(&b, types[i]);
      else buf_putc(&b, *c);
    }
    for (int n = 20; n <= 32; n += 12)
      for (int optimize = 0; optimize < 2; optimize++)
        cpu_check(&(CpuCase){.ir = b.at, .count = 512, .ints = (int64_t[]){n}, .optimize = optimize});
    buf_destroy(&b);
  }
  check("kernel @k(%x: *f32, %o: *f32) {\n"
        "  %n = arange {start=0, end=512} : i32[512]\n  %i = reshape %n : i32[2,16,16]\n  %t = trans %i {dims=[0,2,1]} "
        ": i32[2,16,16]\n"
        "  %s = splat %x : *f32[2,16,16]\n  %p = addptr %s, %t : *f32[2,16,16]\n  %a = load %p : f32[2,16,16]\n  %q = "
        "addptr %s, %i : *f32[2,16,16]\n  %b = load %q : f32[2,16,16]\n"
        "  %z = const {value=0.0} : f32[2,16,16]\n  %c = dot %a, %b, %z {precision=ieee} : f32[2,16,16]\n  %bt = trans "
        "%b {dims=[0,2,1]} : f32[2,16,16]\n"
        "  %d = dot %c, %bt, %c {precision=ieee} : f32[2,16,16]\n  %so = splat %o : *f32[2,16,16]\n  %po = addptr %so, "
        "%i : *f32[2,16,16]\n  store %po, %d\n}\n",
        512);
}

#define ONE(N, T) \
  "kernel @k(%x: *" T ", %y: *" T ", %o: *" T ", %oi: *i32) {\n" \
  "  %i = arange {start=0, end=" #N "} : i32[" #N "]\n" \
  "  %sx = splat %x : *" T "[" #N "]\n  %px = addptr %sx, %i : *" T "[" #N "]\n  %a = load %px : " T "[" #N "]\n" \
  "  %sy = splat %y : *" T "[" #N "]\n  %py = addptr %sy, %i : *" T "[" #N "]\n  %b = load %py : " T "[" #N "]\n" \
  "  %so = splat %o : *" T "[" #N "]\n  %po = addptr %so, %i : *" T "[" #N "]\n"

/* Every known combine function, on every type and several widths; what it gives goes to o[0]. */
static void test_simple_reduces(void **state) {
  (void)state;
  static const char *const ops[] = {"add", "mul", "max", "min", "and", "or", "xor"};
  for (int d = 0; d < DT_COUNT; d++) {
    const char *t = dtype_name((Dtype)d);
    Buf b = {0};
    buf_printf(&b, "kernel @k(%%x: *%s, %%o: *%s) {\n", t, t);
    int stored = 0;
    static const int sizes[] = {1, 2, 8, 16, 64};
    for (int w = 0; w < 5; w++) {
      int n = sizes[w];
      buf_printf(&b,
                 "  %%i%d = arange {start=0, end=%d} : i32[%d]\n  %%s%d = splat %%x : *%s[%d]\n  %%p%d = addptr %%s%d, "
                 "%%i%d : *%s[%d]\n  %%a%d = load %%p%d : %s[%d]\n",
                 w, n, n, w, t, n, w, w, w, t, n, w, w, t, n);
      for (int k = 0; k < (dtype_is_float((Dtype)d) ? 4 : 7); k++) {
        if (k == 1 && dtype_is_float((Dtype)d)) continue; /* products of 64 numbers leave every range */
        if (k == 0 && dtype_is_fp8((Dtype)d)) continue;   /* sums of them are kept wider than the interpreter's */
        buf_printf(&b,
                   "  %%r%d_%d = reduce %%a%d {axis=0} : %s do (%%u%d_%d: %s, %%v%d_%d: %s) {\n    %%w%d_%d = %s "
                   "%%u%d_%d, %%v%d_%d : %s\n    yield %%w%d_%d\n  }\n",
                   w, k, w, t, w, k, t, w, k, t, w, k, ops[k], w, k, w, k, t, w, k);
        buf_printf(&b, "  %%k%d = const {value=%d} : i32\n  %%q%d = addptr %%o, %%k%d : *%s\n  store %%q%d, %%r%d_%d\n",
                   stored, stored, stored, stored, t, stored, w, k);
        stored++;
      }
    }
    buf_puts(&b, "}\n");
    cpu_check(&(CpuCase){.ir = b.at, .count = 64, .tolerance = d == DT_F16 || d == DT_BF16 ? 0.05 : 1e-4});
    buf_destroy(&b);
  }
}

/* max and min pass NaN over; of nothing but NaN they are NaN, not the infinity that they begin with. The first n
 * elements are loaded or not, the rest is NaN or an infinity. */
static void test_reduces_of_nan(void **state) {
  (void)state;
  static const int sizes[] = {2, 4, 16, 64, 256};
  for (int w = 0; w < 5; w++)
    for (int other = 0; other < 2; other++) {
      int n = sizes[w];
      Buf b = {0};
      buf_printf(&b,
                 "kernel @k(%%x: *f32, %%o: *f32, %%n: i32) {\n  %%i = arange {start=0, end=%d} : i32[%d]\n  %%sn = "
                 "splat %%n : i32[%d]\n  %%m = cmp %%i, %%sn {pred=lt} : i1[%d]\n",
                 n, n, n, n);
      buf_printf(&b,
                 "  %%s = splat %%x : *f32[%d]\n  %%p = addptr %%s, %%i : *f32[%d]\n  %%rest = const {value=%s} : "
                 "f32[%d]\n  %%a = load %%p, %%m, %%rest : f32[%d]\n",
                 n, n, other ? "-inf" : "nan", n, n);
      buf_printf(&b, "  %%d = sub %%a, %%a : f32[%d]\n  %%z = div %%d, %%d : f32[%d]\n", n, n); /* NaN everywhere */
      static const char *const what[] = {"a", "z"}, *const ops[] = {"max", "min"};
      for (int k = 0; k < 4; k++)
        buf_printf(&b,
                   "  %%r%d = reduce %%%s {axis=0} : f32 do (%%u%d: f32, %%v%d: f32) {\n    %%w%d = %s %%u%d, %%v%d : "
                   "f32\n    yield %%w%d\n  }\n"
                   "  %%k%d = const {value=%d} : i32\n  %%q%d = addptr %%o, %%k%d : *f32\n  store %%q%d, %%r%d\n",
                   k, what[k / 2], k, k, k, ops[k % 2], k, k, k, k, k, k, k, k, k);
      buf_puts(&b, "}\n");
      for (int64_t count = 0; count <= n; count += count ? n : 1)
        for (int optimize = 0; optimize < 2; optimize++)
          cpu_check(&(CpuCase){.ir = b.at, .count = 256, .ints = (int64_t[]){count}, .optimize = optimize});
      buf_destroy(&b);
    }
}

/* argmax with the lower index on ties: a body of six operations on pairs. */
#define ARGMAX(N) \
  ONE(N, "f32") \
  "  %r, %ri = reduce %a, %i {axis=0} : f32, i32 do (%v1: f32, %i1: i32, %v2: f32, %i2: i32) {\n" \
  "    %gt = cmp %v1, %v2 {pred=gt} : i1\n    %eq = cmp %v1, %v2 {pred=eq} : i1\n    %lt = cmp %i1, %i2 {pred=lt} : " \
  "i1\n" \
  "    %tie = and %eq, %lt : i1\n    %first = or %gt, %tie : i1\n" \
  "    %v = select %first, %v1, %v2 : f32\n    %ix = select %first, %i1, %i2 : i32\n    yield %v, %ix\n  }\n" \
  "  store %o, %r\n  store %oi, %ri\n}\n"
/* The same with a branch, which vectors cannot run. */
#define ARGMAX_IF(N) \
  ONE(N, "f32") \
  "  %r, %ri = reduce %a, %i {axis=0} : f32, i32 do (%v1: f32, %i1: i32, %v2: f32, %i2: i32) {\n" \
  "    %gt = cmp %v1, %v2 {pred=ge} : i1\n" \
  "    %v, %ix = if %gt : f32, i32 do () {\n      yield %v1, %i1\n    } do () {\n      yield %v2, %i2\n    }\n    " \
  "yield %v, %ix\n  }\n" \
  "  store %o, %r\n  store %oi, %ri\n}\n"

static void test_pair_reduces(void **state) {
  (void)state;
  check(ARGMAX(1), 64);
  check(ARGMAX(2), 64);
  check(ARGMAX(4), 64);
  check(ARGMAX(16), 64);
  check(ARGMAX(512), 512);
  check(ARGMAX_IF(4), 64);
  check(ARGMAX_IF(64), 64);
}

static void reduce3(const char *a, const char *b, const char *c, int axis, const char *t) {
  int dims[3] = {atoi(a), atoi(b), atoi(c)};
  char out[32];
  int rest = dims[0] * dims[1] * dims[2] / dims[axis];
  snprintf(out, sizeof out, "%d,%d", axis == 0 ? dims[1] : dims[0], axis == 2 ? dims[1] : dims[2]);
  char ir[4000];
  snprintf(
      ir, sizeof ir,
      "kernel @k(%%x: *%s, %%o: *%s) {\n  %%n = arange {start=0, end=256} : i32[256]\n  %%i = reshape %%n : "
      "i32[%s,%s,%s]\n"
      "  %%s = splat %%x : *%s[%s,%s,%s]\n  %%p = addptr %%s, %%i : *%s[%s,%s,%s]\n  %%a = load %%p : %s[%s,%s,%s]\n"
      "  %%r = reduce %%a {axis=%d} : %s[%s] do (%%u: %s, %%v: %s) {\n    %%w = add %%u, %%v : %s\n    yield %%w\n  }\n"
      "  %%m = reduce %%a {axis=%d} : %s[%s] do (%%u2: %s, %%v2: %s) {\n    %%w2 = min %%u2, %%v2 : %s\n    yield "
      "%%w2\n  }\n"
      "  %%q = mul %%r, %%m : %s[%s]\n  %%f = reshape %%q : %s[%d]\n  %%k = arange {start=0, end=%d} : i32[%d]\n"
      "  %%so = splat %%o : *%s[%d]\n  %%po = addptr %%so, %%k : *%s[%d]\n  store %%po, %%f\n}\n",
      t, t, a, b, c, t, a, b, c, t, a, b, c, t, a, b, c, axis, t, out, t, t, t, axis, t, out, t, t, t, t, out, t, rest,
      rest, rest, t, rest, t, rest);
  cpu_check(&(CpuCase){.ir = ir, .count = 256, .fill = FILL_UNIT, .tolerance = strstr(t, "16") ? 0.03 : 1e-4});
}

static void test_axes(void **state) {
  (void)state;
  for (int axis = 0; axis < 3; axis++) {
    reduce3("4", "2", "32", axis, "f32");
    reduce3("32", "4", "2", axis, "f32");
    reduce3("1", "64", "4", axis, "i32");
    reduce3("64", "4", "1", axis, "f64");
    reduce3("2", "128", "1", axis, "bf16");
    reduce3("8", "8", "4", axis, "f16");
  }
}

/* c = a b over a loop with pointers carried, masks, odd sizes; every input type. */
static void matmul(const char *t, const char *acc, int m, int n, int k) {
  char ir[6000];
  snprintf(ir, sizeof ir,
           "kernel @mm(%%a: *%1$s, %%b: *%1$s, %%c: *%2$s, %%M: i32, %%N: i32, %%K: i32) {\n"
           "  %%im = arange {start=0, end=%3$d} : i32[%3$d]\n  %%in = arange {start=0, end=%4$d} : i32[%4$d]\n  %%ik = "
           "arange {start=0, end=%5$d} : i32[%5$d]\n"
           "  %%im1 = expand_dims %%im {axis=1} : i32[%3$d,1]\n  %%in1 = expand_dims %%in {axis=0} : i32[1,%4$d]\n"
           "  %%ikr = expand_dims %%ik {axis=0} : i32[1,%5$d]\n  %%ikc = expand_dims %%ik {axis=1} : i32[%5$d,1]\n"
           "  %%Ks = splat %%K : i32[%3$d,1]\n  %%ra = mul %%im1, %%Ks : i32[%3$d,1]\n  %%rab = broadcast %%ra : "
           "i32[%3$d,%5$d]\n"
           "  %%kb = broadcast %%ikr : i32[%3$d,%5$d]\n  %%oa = add %%rab, %%kb : i32[%3$d,%5$d]\n"
           "  %%Ns = splat %%N : i32[%5$d,1]\n  %%rb = mul %%ikc, %%Ns : i32[%5$d,1]\n  %%rbb = broadcast %%rb : "
           "i32[%5$d,%4$d]\n"
           "  %%nb = broadcast %%in1 : i32[%5$d,%4$d]\n  %%ob = add %%rbb, %%nb : i32[%5$d,%4$d]\n"
           "  %%sa = splat %%a : *%1$s[%3$d,%5$d]\n  %%pa0 = addptr %%sa, %%oa : *%1$s[%3$d,%5$d]\n"
           "  %%sb = splat %%b : *%1$s[%5$d,%4$d]\n  %%pb0 = addptr %%sb, %%ob : *%1$s[%5$d,%4$d]\n"
           "  %%zero = const {value=0} : i32\n  %%step = const {value=%5$d} : i32\n  %%acc0 = const {value=0} : "
           "%2$s[%3$d,%4$d]\n"
           "  %%stepN = mul %%step, %%N : i32\n  %%da = splat %%step : i32[%3$d,%5$d]\n  %%db = splat %%stepN : "
           "i32[%5$d,%4$d]\n"
           "  %%Ms = splat %%M : i32[%3$d,1]\n  %%mm1 = cmp %%im1, %%Ms {pred=lt} : i1[%3$d,1]\n  %%mm = broadcast "
           "%%mm1 : i1[%3$d,%5$d]\n"
           "  %%Nsr = splat %%N : i32[1,%4$d]\n  %%mn1 = cmp %%in1, %%Nsr {pred=lt} : i1[1,%4$d]\n  %%mn = broadcast "
           "%%mn1 : i1[%5$d,%4$d]\n"
           "  %%res, %%pa9, %%pb9 = for %%zero, %%K, %%step, %%acc0, %%pa0, %%pb0 : %2$s[%3$d,%4$d], *%1$s[%3$d,%5$d], "
           "*%1$s[%5$d,%4$d] do (%%k: i32, %%acc: %2$s[%3$d,%4$d], %%pa: *%1$s[%3$d,%5$d], %%pb: *%1$s[%5$d,%4$d]) {\n"
           "    %%left = sub %%K, %%k : i32\n    %%lr = splat %%left : i32[1,%5$d]\n    %%mk1 = cmp %%ikr, %%lr "
           "{pred=lt} : i1[1,%5$d]\n    %%mk = broadcast %%mk1 : i1[%3$d,%5$d]\n"
           "    %%ma = and %%mm, %%mk : i1[%3$d,%5$d]\n"
           "    %%lc = splat %%left : i32[%5$d,1]\n    %%mkc1 = cmp %%ikc, %%lc {pred=lt} : i1[%5$d,1]\n    %%mkc = "
           "broadcast %%mkc1 : i1[%5$d,%4$d]\n    %%mb = and %%mkc, %%mn : i1[%5$d,%4$d]\n"
           "    %%ta = load %%pa, %%ma : %1$s[%3$d,%5$d]\n    %%tb = load %%pb, %%mb : %1$s[%5$d,%4$d]\n"
           "    %%next = dot %%ta, %%tb, %%acc {precision=ieee} : %2$s[%3$d,%4$d]\n"
           "    %%pan = addptr %%pa, %%da : *%1$s[%3$d,%5$d]\n    %%pbn = addptr %%pb, %%db : *%1$s[%5$d,%4$d]\n    "
           "yield %%next, %%pan, %%pbn\n  }\n"
           "  %%Nc = splat %%N : i32[%3$d,1]\n  %%rc = mul %%im1, %%Nc : i32[%3$d,1]\n  %%rcb = broadcast %%rc : "
           "i32[%3$d,%4$d]\n  %%ncb = broadcast %%in1 : i32[%3$d,%4$d]\n"
           "  %%oc = add %%rcb, %%ncb : i32[%3$d,%4$d]\n  %%sc = splat %%c : *%2$s[%3$d,%4$d]\n  %%pc = addptr %%sc, "
           "%%oc : *%2$s[%3$d,%4$d]\n"
           "  %%mcm = broadcast %%mm1 : i1[%3$d,%4$d]\n  %%mcn = broadcast %%mn1 : i1[%3$d,%4$d]\n  %%mc = and %%mcm, "
           "%%mcn : i1[%3$d,%4$d]\n  store %%pc, %%res, %%mc\n}\n",
           t, acc, m, n, k);
  for (int optimize = 0; optimize < 2; optimize++) {
    int64_t rows = m - m / 4, columns = n - n / 4, depth = 2 * k + k / 2 + (k == 1);
    cpu_check(&(CpuCase){.ir = ir,
                         .count = 16384,
                         .ints = (int64_t[]){rows, columns, depth},
                         .optimize = optimize,
                         .fill = FILL_UNIT,
                         .tolerance = strstr(t, "f8") || strstr(t, "fp8") ? 2e-3 : 2e-4});
  }
}

static void test_matmul(void **state) {
  (void)state;
  matmul("f32", "f32", 16, 32, 16);
  matmul("f32", "f32", 4, 8, 2);
  matmul("f32", "f32", 1, 16, 1);
  matmul("f64", "f64", 8, 16, 8);
  matmul("bf16", "f32", 32, 32, 16);
  matmul("bf16", "f32", 2, 4, 2);
  matmul("f16", "f32", 16, 16, 16);
  matmul("f16", "f16", 16, 16, 8);
  matmul("i8", "i32", 16, 16, 32);
  matmul("fp8e5", "f32", 16, 16, 16);
  matmul("fp8e4nv", "f32", 8, 16, 16);
}

static void test_batched_dot(void **state) {
  (void)state;
  check("kernel @k(%x: *f32, %y: *f32, %o: *f32) {\n"
        "  %n = arange {start=0, end=256} : i32[256]\n  %ia = reshape %n : i32[4,8,8]\n"
        "  %sx = splat %x : *f32[4,8,8]\n  %px = addptr %sx, %ia : *f32[4,8,8]\n  %a = load %px : f32[4,8,8]\n"
        "  %sy = splat %y : *f32[4,8,8]\n  %py = addptr %sy, %ia : *f32[4,8,8]\n  %b0 = load %py : f32[4,8,8]\n"
        "  %b = trans %b0 {dims=[0,2,1]} : f32[4,8,8]\n  %one = const {value=1.5} : f32[4,8,8]\n"
        "  %c = dot %a, %b, %one {precision=ieee} : f32[4,8,8]\n  %d = mul %c, %a : f32[4,8,8]\n"
        "  %so = splat %o : *f32[4,8,8]\n  %po = addptr %so, %ia : *f32[4,8,8]\n  store %po, %d\n}\n",
        256);
}

/* Two passes over tiles with a running maximum and sum, scalars and tiles carried; then one with values swapped and
 * shifted. */
static void test_loops(void **state) {
  (void)state;
  for (int optimize = 0; optimize < 2; optimize++) {
    cpu_check(
        &(CpuCase){.ir = "kernel @k(%x: *f32, %o: *f32, %n: i32) {\n"
                         "  %i = arange {start=0, end=32} : i32[32]\n  %zero = const {value=0} : i32\n  %step = const "
                         "{value=32} : i32\n"
                         "  %m0 = const {value=-inf} : f32[32]\n  %l0 = const {value=0.0} : f32[32]\n  %c0 = const "
                         "{value=0.0} : f32\n"
                         "  %m, %l, %c = for %zero, %n, %step, %m0, %l0, %c0 : f32[32], f32[32], f32 do (%at: i32, "
                         "%mi: f32[32], %li: f32[32], %ci: f32) {\n"
                         "    %ats = splat %at : i32[32]\n    %j = add %ats, %i : i32[32]\n    %ns = splat %n : "
                         "i32[32]\n    %mask = cmp %j, %ns {pred=lt} : i1[32]\n"
                         "    %sx = splat %x : *f32[32]\n    %px = addptr %sx, %j : *f32[32]\n    %ninf = const "
                         "{value=-inf} : f32[32]\n    %v = load %px, %mask, %ninf : f32[32]\n"
                         "    %mn = max %mi, %v : f32[32]\n    %d = sub %mi, %mn : f32[32]\n    %alpha = math %d "
                         "{fn=exp} : f32[32]\n    %e0 = sub %v, %mn : f32[32]\n    %e = math %e0 {fn=exp} : f32[32]\n"
                         "    %dead = cmp %mi, %ninf {pred=eq} : i1[32]\n    %zf = const {value=0.0} : f32[32]\n    "
                         "%al = select %dead, %zf, %alpha : f32[32]\n"
                         "    %ls = mul %li, %al : f32[32]\n    %ln = add %ls, %e : f32[32]\n"
                         "    %s = reduce %mn {axis=0} : f32 do (%u: f32, %w: f32) {\n      %q = max %u, %w : f32\n    "
                         "  yield %q\n    }\n"
                         "    %cn = add %ci, %s : f32\n    yield %mn, %ln, %cn\n  }\n"
                         "  %so = splat %o : *f32[32]\n  %po = addptr %so, %i : *f32[32]\n  %cs = splat %c : f32[32]\n "
                         " %r0 = add %m, %l : f32[32]\n  %r = add %r0, %cs : f32[32]\n  store %po, %r\n}\n",
                   .count = 100,
                   .ints = (int64_t[]){100},
                   .optimize = optimize});
    cpu_check(
        &(CpuCase){.ir = "kernel @k(%x: *f32, %y: *f32, %o: *f32, %n: i32) {\n"
                         "  %i = arange {start=0, end=16} : i32[16]\n  %zero = const {value=0} : i32\n  %one = const "
                         "{value=1} : i32\n"
                         "  %sx = splat %x : *f32[16]\n  %px = addptr %sx, %i : *f32[16]\n  %a0 = load %px : f32[16]\n"
                         "  %sy = splat %y : *f32[16]\n  %py = addptr %sy, %i : *f32[16]\n  %b0 = load %py : f32[16]\n"
                         "  %a, %b, %s, %t = for %zero, %n, %one, %a0, %b0, %zero, %one : f32[16], f32[16], i32, i32 "
                         "do (%k: i32, %ai: f32[16], %bi: f32[16], %si: i32, %ti: i32) {\n"
                         "    %r = reshape %ai : f32[4,4]\n    %tr = trans %r {dims=[1,0]} : f32[4,4]\n    %f = "
                         "reshape %tr : f32[16]\n    %g = add %bi, %f : f32[16]\n"
                         "    %tn = add %si, %ti : i32\n    yield %bi, %g, %ti, %tn\n  }\n"
                         "  %q = sub %a, %b : f32[16]\n  %tf = convert %t : f32\n  %ts = splat %tf : f32[16]\n  %z = "
                         "add %q, %ts : f32[16]\n"
                         "  %so = splat %o : *f32[16]\n  %po = addptr %so, %i : *f32[16]\n  store %po, %z\n}\n",
                   .count = 16,
                   .ints = (int64_t[]){5},
                   .optimize = optimize});
    /* A negative step, and no turn at all. */
    for (int n = 0; n < 10; n += 9)
      cpu_check(&(CpuCase){
          .ir = "kernel @k(%o: *i32, %n: i32) {\n  %zero = const {value=0} : i32\n  %down = const {value=-3} : i32\n"
                "  %s = for %n, %zero, %down, %zero : i32 do (%k: i32, %a: i32) {\n    %t = mul %a, %k : i32\n    %u = "
                "add %t, %k : i32\n    yield %u\n  }\n  store %o, %s\n}\n",
          .count = 4,
          .ints = (int64_t[]){n},
          .optimize = optimize});
  }
}

static void test_while_and_if(void **state) {
  (void)state;
  for (int optimize = 0; optimize < 2; optimize++) {
    cpu_check(&(CpuCase){
        .ir = "kernel @k(%x: *f32, %o: *f32, %n: i32) {\n"
              "  %i = arange {start=0, end=16} : i32[16]\n  %zero = const {value=0} : i32\n  %one = const {value=1} : "
              "i32\n"
              "  %sx = splat %x : *f32[16]\n  %px = addptr %sx, %i : *f32[16]\n  %a0 = load %px : f32[16]\n"
              "  %k, %a = while %zero, %a0 : i32, f32[16] do (%ki: i32, %ai: f32[16]) {\n    %c = cmp %ki, %n "
              "{pred=lt} : i1\n    condition %c, %ki, %ai\n  } do (%kb: i32, %ab: f32[16]) {\n"
              "    %two = const {value=2} : i32\n    %rem = rem %kb, %two : i32\n    %odd = cmp %rem, %zero {pred=ne} "
              ": i1\n"
              "    %r = if %odd : f32[16] do () {\n      %d = mul %ab, %ab : f32[16]\n      yield %d\n    } do () {\n  "
              "    %h = const {value=0.5} : f32[16]\n      %e = mul %ab, %h : f32[16]\n      yield %e\n    }\n"
              "    %kn = add %kb, %one : i32\n    yield %kn, %r\n  }\n"
              "  %kf = convert %k : f32\n  %ks = splat %kf : f32[16]\n  %z = add %a, %ks : f32[16]\n  %so = splat %o : "
              "*f32[16]\n  %po = addptr %so, %i : *f32[16]\n  store %po, %z\n}\n",
        .count = 16,
        .ints = (int64_t[]){4},
        .optimize = optimize});
    cpu_check(&(CpuCase){.ir = "kernel @k(%x: *f32, %o: *f32, %n: i32) {\n"
                               "  %p = program_id {axis=0} : i32\n  %q = program_id {axis=1} : i32\n  %np = "
                               "num_programs {axis=0} : i32\n  %t = mul %q, %np : i32\n  %at = add %p, %t : i32\n"
                               "  %c = cmp %at, %n {pred=lt} : i1\n  if %c do () {\n    %xa = addptr %x, %at : *f32\n  "
                               "  %v = load %xa : f32\n    %w = mul %v, %v : f32\n    %oa = addptr %o, %at : *f32\n    "
                               "store %oa, %w\n    yield\n  } do () {\n    yield\n  }\n}\n",
                         .count = 30,
                         .ints = (int64_t[]){13},
                         .grid = {5, 4},
                         .optimize = optimize});
  }
}

/* A scan in a body that does not run (a branch, a loop of no turns) keeps what it takes in memory; the scan after must
 * not look there. */
static void test_kept_in_body(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "  %c = cmp %n, %one {pred=gt} : i1\n  if %c do () {\n%s    yield\n  } do () {\n    yield\n  }\n",
      "  for %one, %n, %one do (%k: i32) {\n%s    yield\n  }\n"};
  static const char scan[] = "%%%s = scan %%i {axis=0} : i32[8] do (%%%sa: i32, %%%sb: i32) {\n      %%%ss = add "
                             "%%%sa, %%%sb : i32\n      yield %%%ss\n    }\n";
  for (int turn = 0; turn < 8; turn++) {
    char first[300], second[300], inside[500], ir[2000];
    snprintf(first, sizeof first, scan, "x", "x", "x", "x", "x", "x", "x"),
        snprintf(second, sizeof second, scan, "y", "y", "y", "y", "y", "y", "y");
    snprintf(inside, sizeof inside, "    %s    store %%po, %%x\n", first);
    const char *body = bodies[turn & 1], *hole = strstr(body, "%s");
    snprintf(ir, sizeof ir,
             "kernel @k(%%o: *i32, %%n: i32) {\n  %%i = arange {start=0, end=8} : i32[8]\n  %%one = const {value=1} : "
             "i32\n  %%so = splat %%o : *i32[8]\n"
             "  %%po = addptr %%so, %%i : *i32[8]\n%.*s%s%s  %s  store %%po, %%y\n}\n",
             (int)(hole - body), body, inside, hole + 2, second);
    cpu_check(&(CpuCase){.ir = ir, .count = 8, .ints = (int64_t[]){turn & 2 ? 2 : 0}, .optimize = turn >> 2});
  }
}

/* In place: the row is read at two places and written at both (rotary embedding), then reversed. */
static void test_memory_order(void **state) {
  (void)state;
  check(
      "kernel @k(%x: *f32, %y: *f32) {\n"
      "  %i = arange {start=0, end=16} : i32[16]\n  %h = const {value=8} : i32[16]\n  %j = add %i, %h : i32[16]\n"
      "  %sx = splat %x : *f32[16]\n  %p = addptr %sx, %i : *f32[16]\n  %q = addptr %sx, %j : *f32[16]\n"
      "  %a = load %p : f32[16]\n  %b = load %q : f32[16]\n  %s = sub %a, %b : f32[16]\n  %t = add %a, %b : f32[16]\n  "
      "store %p, %s\n  store %q, %t\n"
      "  %f = const {value=15} : i32[16]\n  %r = sub %f, %i : i32[16]\n  %pr = addptr %sx, %r : *f32[16]\n  %c = load "
      "%p : f32[16]\n  store %pr, %c\n"
      "  %sy = splat %y : *f32[16]\n  %py = addptr %sy, %i : *f32[16]\n  %e = load %p : f32[16]\n  store %py, %e\n}\n",
      32);
}

/* Gathers by loaded indices, strided and reversed accesses, masks that are data. */
static void test_gather_scatter(void **state) {
  (void)state;
  cpu_check(&(CpuCase){.ir = "kernel @k(%x: *f32, %ix: *i32, %o: *f32, %oo: *f32, %n: i32) {\n"
                             "  %i = arange {start=0, end=64} : i32[64]\n  %si = splat %ix : *i32[64]\n  %pi = addptr "
                             "%si, %i : *i32[64]\n  %k0 = load %pi : i32[64]\n"
                             "  %eight = const {value=8} : i32[64]\n  %k = add %k0, %eight : i32[64]\n"
                             "  %sx = splat %x : *f32[64]\n  %px = addptr %sx, %k : *f32[64]\n  %zero = const "
                             "{value=0} : i32[64]\n  %pos = cmp %k0, %zero {pred=ge} : i1[64]\n"
                             "  %ns = splat %n : i32[64]\n  %in = cmp %i, %ns {pred=lt} : i1[64]\n  %m = and %pos, %in "
                             ": i1[64]\n  %neg = const {value=-7.0} : f32[64]\n"
                             "  %v = load %px, %m, %neg : f32[64]\n  %so = splat %o : *f32[64]\n  %po = addptr %so, %i "
                             ": *f32[64]\n  store %po, %v\n"
                             "  %three = const {value=3} : i32[64]\n  %i3 = mul %i, %three : i32[64]\n  %p3 = addptr "
                             "%sx, %i3 : *f32[64]\n  %w = load %p3, %in : f32[64]\n"
                             "  %last = const {value=190} : i32[64]\n  %ir = sub %last, %i3 : i32[64]\n  %soo = splat "
                             "%oo : *f32[64]\n  %pr = addptr %soo, %ir : *f32[64]\n  store %pr, %w, %m\n}\n",
                       .count = 200,
                       .ints = (int64_t[]){50}});
  /* Rows found by a remainder, as matmul tutorials do. */
  cpu_check(&(CpuCase){
      .ir = "kernel @k(%x: *f32, %o: *f32, %n: i32) {\n"
            "  %i = arange {start=0, end=8} : i32[8]\n  %ns = splat %n : i32[8]\n  %five = const {value=5} : i32[8]\n  "
            "%ii = add %i, %five : i32[8]\n  %r = rem %ii, %ns : i32[8]\n"
            "  %j = arange {start=0, end=16} : i32[16]\n  %r1 = expand_dims %r {axis=1} : i32[8,1]\n  %w = const "
            "{value=16} : i32[8,1]\n  %rw = mul %r1, %w : i32[8,1]\n"
            "  %rb = broadcast %rw : i32[8,16]\n  %j1 = expand_dims %j {axis=0} : i32[1,16]\n  %jb = broadcast %j1 : "
            "i32[8,16]\n  %at = add %rb, %jb : i32[8,16]\n"
            "  %sx = splat %x : *f32[8,16]\n  %px = addptr %sx, %at : *f32[8,16]\n  %v = load %px : f32[8,16]\n"
            "  %i1 = expand_dims %i {axis=1} : i32[8,1]\n  %iw = mul %i1, %w : i32[8,1]\n  %ib = broadcast %iw : "
            "i32[8,16]\n  %ao = add %ib, %jb : i32[8,16]\n"
            "  %so = splat %o : *f32[8,16]\n  %po = addptr %so, %ao : *f32[8,16]\n  store %po, %v\n"
            "  %tr = trans %at {dims=[1,0]} : i32[16,8]\n  %sx2 = splat %x : *f32[16,8]\n  %px2 = addptr %sx2, %tr : "
            "*f32[16,8]\n  %v2 = load %px2 : f32[16,8]\n"
            "  %f = reshape %v2 : f32[128]\n  %k = arange {start=128, end=256} : i32[128]\n  %so2 = splat %o : "
            "*f32[128]\n  %po2 = addptr %so2, %k : *f32[128]\n  store %po2, %f\n}\n",
      .count = 256,
      .ints = (int64_t[]){6}});
}

static void test_shapes(void **state) {
  (void)state;
  check(
      ONE(32, "bf16") "  %j = join %a, %b : bf16[32,2]\n  %f = reshape %j : bf16[64]\n  %k = arange {start=0, end=64} "
                      ": i32[64]\n  %s2 = splat %o : *bf16[64]\n  %p2 = addptr %s2, %k : *bf16[64]\n  store %p2, %f\n"
                      "  %c = cat %a, %b {axis=0} : bf16[64]\n  %r = reshape %c : bf16[32,2]\n  %u, %v = split %r : "
                      "bf16[32], bf16[32]\n  %m = mul %u, %v : bf16[32]\n"
                      "  %k3 = arange {start=64, end=96} : i32[32]\n  %p3 = addptr %so, %k3 : *bf16[32]\n  store %p3, "
                      "%m\n}\n",
      96);
  check(ONE(16, "i16") "  %g = sort %a : i16[16]\n  store %po, %g\n  %w = convert %b : i32[16]\n  %fifteen = const "
                       "{value=15} : i32[16]\n  %ix = and %w, %fifteen : i32[16]\n"
                       "  %ga = gather %a, %ix {axis=0} : i16[16]\n  %k3 = arange {start=16, end=32} : i32[16]\n  %p3 "
                       "= addptr %so, %k3 : *i16[16]\n  store %p3, %ga\n"
                       "  %h = histogram %ix : i32[32]\n  %k4 = arange {start=0, end=32} : i32[32]\n  %s4 = splat %oi "
                       ": *i32[32]\n  %p4 = addptr %s4, %k4 : *i32[32]\n  store %p4, %h\n}\n",
        32);
  check("kernel @k(%x: *f32, %o: *f32) {\n  %n = arange {start=0, end=64} : i32[64]\n  %i = reshape %n : i32[4,16]\n  "
        "%s = splat %x : *f32[4,16]\n  %p = addptr %s, %i : *f32[4,16]\n  %a = load %p : f32[4,16]\n"
        "  %d = sort %a {descending=1} : f32[4,16]\n  %c = scan %d {axis=1} : f32[4,16] do (%u: f32, %v: f32) {\n    "
        "%w = add %u, %v : f32\n    yield %w\n  }\n"
        "  %r = scan %c {axis=0, reverse=1} : f32[4,16] do (%u2: f32, %v2: f32) {\n    %w2 = max %u2, %v2 : f32\n    "
        "yield %w2\n  }\n"
        "  %so = splat %o : *f32[4,16]\n  %po = addptr %so, %i : *f32[4,16]\n  store %po, %r\n}\n",
        64);
  check("kernel @k(%x: *f32, %o: *f32) {\n  %n = arange {start=0, end=2} : i32[2]\n  %s = splat %x : *f32[2]\n  %p = "
        "addptr %s, %n : *f32[2]\n  %a = load %p : f32[2]\n"
        "  %u, %v = split %a : f32, f32\n  %d = sub %u, %v : f32\n  %j = join %d, %v : f32[2]\n  %so = splat %o : "
        "*f32[2]\n  %po = addptr %so, %n : *f32[2]\n  store %po, %j\n}\n",
        2);
}

/* Sums forwards and backwards, along either dim, and the composition of linear functions, which does not commute. */
static void test_scans(void **state) {
  (void)state;
  static const char *const types[] = {"f32", "i32", "i64", "f64", "bf16", "i8", "i1"};
  static const int sizes[][2] = {{2, 64}, {4, 16}, {16, 8}, {64, 32}, {8, 2}, {1, 128}, {32, 1}};
  for (int i = 0; i < 7; i++)
    for (int z = 0; z < 7; z++) {
      const char *t = types[i];
      int m = sizes[z][0], n = sizes[z][1];
      Buf b = {0};
      buf_printf(&b,
                 "kernel @k(%%x: *%s, %%o: *%s, %%q: *%s) {\n  %%n = arange {start=0, end=%d} : i32[%d]\n  %%i = "
                 "reshape %%n : i32[%d,%d]\n  %%s = splat %%x : *%s[%d,%d]\n  %%p = addptr %%s, %%i : *%s[%d,%d]\n  "
                 "%%a = load %%p : %s[%d,%d]\n",
                 t, t, t, m * n, m * n, m, n, t, m, n, t, m, n, t, m, n);
      for (int k = 0; k < 2; k++)
        buf_printf(&b,
                   "  %%c%d = scan %%a {axis=%d%s} : %s[%d,%d] do (%%u%d: %s, %%v%d: %s) {\n    %%w%d = %s %%u%d, "
                   "%%v%d : %s\n    yield %%w%d\n  }\n  %%s%d = splat %%%c : *%s[%d,%d]\n  %%p%d = addptr %%s%d, %%i : "
                   "*%s[%d,%d]\n  store %%p%d, %%c%d\n",
                   k, k, (i + z + k) % 2 ? ", reverse=1" : "", t, m, n, k, t, k, t, k, i == 6 ? "xor" : "add", k, k, t,
                   k, k, k ? 'q' : 'o', t, m, n, k, k, t, m, n, k, k);
      buf_puts(&b, "}\n");
      cpu_check(&(CpuCase){.ir = b.at, .count = m * n, .fill = FILL_UNIT, .tolerance = 1e-4});
      buf_destroy(&b);
    }
  for (int reverse = 0; reverse < 2; reverse++) {
    Buf b = {0};
    buf_puts(&b, ONE(64, "f32"));
    buf_printf(
        &b,
        "  %%r, %%q = scan %%a, %%b {axis=0%s} : f32[64], f32[64] do (%%a1: f32, %%b1: f32, %%a2: f32, %%b2: f32) {\n"
        "    %%m = mul %%a1, %%a2 : f32\n    %%t = mul %%b1, %%a2 : f32\n    %%w = add %%t, %%b2 : f32\n    yield %%m, "
        "%%w\n  }\n"
        "  store %%po, %%q\n}\n",
        reverse ? ", reverse=1" : "");
    cpu_check(&(CpuCase){.ir = b.at, .count = 64, .fill = FILL_UNIT, .tolerance = 1e-4});
    buf_destroy(&b);
  }
}

static void test_map(void **state) {
  (void)state;
  check(
      ONE(16, "f32") "  %r, %q = map %a, %b {pack=2} : f32[16], f32[16] do (%a0: f32, %a1: f32, %b0: f32, %b1: f32) {\n"
                     "    %c = cmp %a0, %b1 {pred=lt} : i1\n    %m = if %c : f32 do () {\n      %s = add %a0, %b0 : "
                     "f32\n      yield %s\n    } do () {\n      yield %a1\n    }\n    yield %m, %b0, %a1, %a0\n  }\n"
                     "  %z = sub %r, %q : f32[16]\n  store %po, %z\n}\n",
      16);
}

static void test_atomics(void **state) {
  (void)state;
  cpu_check(
      &(CpuCase){.ir = "kernel @k(%x: *i32, %o: *i32, %old: *i32, %f: *f32, %n: i32) {\n"
                       "  %i = arange {start=0, end=32} : i32[32]\n  %sx = splat %x : *i32[32]\n  %px = addptr %sx, %i "
                       ": *i32[32]\n  %v = load %px : i32[32]\n"
                       "  %seven = const {value=7} : i32[32]\n  %k = and %v, %seven : i32[32]\n  %so = splat %o : "
                       "*i32[32]\n  %pk = addptr %so, %k : *i32[32]\n"
                       "  %ns = splat %n : i32[32]\n  %m = cmp %i, %ns {pred=lt} : i1[32]\n  %r = atomic_rmw %pk, %v, "
                       "%m {kind=add} : i32[32]\n"
                       "  %sq = splat %old : *i32[32]\n  %pq = addptr %sq, %i : *i32[32]\n  store %pq, %r\n"
                       "  %r2 = atomic_rmw %pk, %v {kind=max} : i32[32]\n  %cas = atomic_cas %pk, %r2, %i : i32[32]\n"
                       "  %fv = convert %v : f32[32]\n  %sf = splat %f : *f32[32]\n  %pf = addptr %sf, %k : *f32[32]\n "
                       " %rf = atomic_rmw %pf, %fv, %m {kind=add} : f32[32]\n"
                       "  %one = const {value=1} : i32\n  %rs = atomic_rmw %o, %one {kind=add} : i32\n  %last = const "
                       "{value=63} : i32\n  %pl = addptr %old, %last : *i32\n  store %pl, %rs\n}\n",
                 .count = 64,
                 .ints = (int64_t[]){20},
                 .grid = {3}});
}

static void test_print_and_assert(void **state) {
  (void)state;
  cpu_check(&(CpuCase){
      .ir = "kernel @k(%x: *i32) {\n  %p = program_id {axis=0} : i32\n  %i = arange {start=0, end=2} : i32[2]\n  %f = "
            "const {value=1.5} : f32\n"
            "  print %i, %f {text=\" it: \"}\n  print {text=\" bare\"}\n  print %p {hex=1, text=\" h: \"}\n}\n",
      .count = 1,
      .expect_print = "pid (0, 0, 0) idx (0) it: (operand 0) 0\npid (0, 0, 0) idx (1) it: (operand 0) 1\npid (0, 0, 0) "
                      "idx () it: (operand 1) 1.500000\n"
                      "pid (0, 0, 0) bare\npid (0, 0, 0) idx () h: 0x00000000\n"});
  cpu_check(&(CpuCase){.ir = "kernel @k(%x: *i32, %n: i32) {\n  %i = arange {start=0, end=8} : i32[8]\n  %ns = splat "
                             "%n : i32[8]\n  %c = cmp %i, %ns {pred=lt} : i1[8]\n  assert %c {text=\"in range\"}\n}\n",
                       .count = 1,
                       .ints = (int64_t[]){8}});
  cpu_check(&(CpuCase){.ir = "kernel @k(%x: *i32, %n: i32) {\n  %i = arange {start=0, end=8} : i32[8]\n  %ns = splat "
                             "%n : i32[8]\n  %c = cmp %i, %ns {pred=lt} : i1[8]\n  assert %c {text=\"in range\"}\n}\n",
                       .count = 1,
                       .ints = (int64_t[]){7},
                       .expect_fault = true,
                       .expect_print = "fault: in range\n"});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_views),
      cmocka_unit_test(test_turned),
      cmocka_unit_test(test_simple_reduces),
      cmocka_unit_test(test_reduces_of_nan),
      cmocka_unit_test(test_pair_reduces),
      cmocka_unit_test(test_axes),
      cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_batched_dot),
      cmocka_unit_test(test_loops),
      cmocka_unit_test(test_while_and_if),
      cmocka_unit_test(test_kept_in_body),
      cmocka_unit_test(test_memory_order),
      cmocka_unit_test(test_gather_scatter),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_scans),
      cmocka_unit_test(test_map),
      cmocka_unit_test(test_atomics),
      cmocka_unit_test(test_print_and_assert),
  };
  return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
