/* In which order the CPU back end's nests load and store, against the interpreter: memory that a kernel reads, changes
 * and reads again, in place, shifted, turned, through one argument and through several that overlap; the verifier's
 * findings; bodies that do not commute; and memory that runs out while the text is made.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "test_cpu_kit.h"

#include "cpu/emit.h"

#define ROW \
  "  %i = arange {start=0, end=64} : i32[64]\n" \
  "  %sx = splat %x : *i32[64]\n  %px = addptr %sx, %i : *i32[64]\n  %v = load %px : i32[64]\n" \
  "  %sy = splat %y : *i32[64]\n  %py = addptr %sy, %i : *i32[64]\n"
#define SUM(S, V) \
  "  %" S " = reduce %" V " {axis=0} : i32 do (%a" S ": i32, %b" S ": i32) {\n    %c" S " = add %a" S ", %b" S \
  " : i32\n    yield %c" S "\n  }\n  %t" S " = splat %" S " : i32[64]\n"
#define LAST "  %l = const {value=63} : i32[64]\n  %back = sub %l, %i : i32[64]\n  %pb = addptr %sx, %back : *i32[64]\n"
#define NEXT "  %one = const {value=1} : i32[64]\n  %next = add %i, %one : i32[64]\n"

static void check(const char *ir) { cpu_check(&(CpuCase){.ir = ir, .count = 4096}); }
static void check_at(const char *ir, int64_t distance) {
  cpu_check(&(CpuCase){.ir = ir, .count = 4096, .overlap = true, .distance = distance});
}

/* What a nest has read is not read again beside a store that changes it. */
static void test_in_place(void **state) {
  (void)state;
  /* flipped after a statistic; read once more afterwards */
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW SUM("s", "v") LAST
        "  %w = sub %v, %ts : i32[64]\n  store %pb, %w\n"
        "  %u = load %px : i32[64]\n  %z = add %u, %v : i32[64]\n  store %py, %z\n}\n");
  /* shifted by one */
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW SUM("s", "v") NEXT
        "  %pn = addptr %sx, %next : *i32[64]\n"
        "  %w = add %v, %ts : i32[64]\n  store %pn, %w\n  store %py, %w\n}\n");
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW NEXT "  %pn = addptr %sx, %next : *i32[64]\n  store %pn, %v\n}\n");
  /* the same places: one nest may do it, twice too; and two stores to one place */
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW SUM(
      "s", "v") "  %w = add %v, %ts : i32[64]\n  store %px, %w\n"
                "  %w2 = mul %v, %w : i32[64]\n  store %px, %w2\n  store %py, %v\n}\n");
  /* places that come twice */
  check("kernel @k(%x: *i32, %y: *i32) {\n  %i0 = arange {start=0, end=64} : i32[64]\n  %four = const {value=4} : "
        "i32[64]\n  %i = div %i0, %four : i32[64]\n"
        "  %sx = splat %x : *i32[64]\n  %px = addptr %sx, %i : *i32[64]\n  %v = load %px : i32[64]\n"
        "  %w = add %v, %four : i32[64]\n  store %px, %w\n}\n");
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW "  %z = const {value=0} : i32[64]\n  %pz = addptr %sx, %z : *i32[64]\n"
        "  %f = load %pz : i32[64]\n  %w = add %f, %f : i32[64]\n  store %pz, %w\n  store %py, %f\n}\n");
  /* cat reads first */
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW LAST "  %c = cat %v, %v {axis=0} : i32[128]\n  store %pb, %v\n"
        "  %i2 = arange {start=0, end=128} : i32[128]\n  %sy2 = splat %y : *i32[128]\n"
        "  %py2 = addptr %sy2, %i2 : *i32[128]\n  store %py2, %c\n}\n");
  /* an atomic changes what a statistic has read */
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW SUM("s", "v") LAST
        "  %w = sub %v, %ts : i32[64]\n"
        "  %old = atomic_rmw %pb, %w {kind=add} : i32[64]\n  store %py, %v\n}\n");
  /* a scalar store changes it */
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW SUM("s", "v") "  store %x, %s\n  %w = add %v, %ts : i32[64]\n"
                                                              "  store %py, %w\n}\n");
  /* a loop changes it, and reads what the iteration before has stored */
  check("kernel @k(%x: *i32, %y: *i32) {\n" ROW SUM("s", "v") LAST
        "  %l0 = const {value=0} : i32\n  %l1 = const {value=1} : i32\n  %l3 = const {value=3} : i32\n"
        "  for %l0, %l3, %l1 do (%n: i32) {\n    %u = load %px : i32[64]\n    %w = add %u, %v : i32[64]\n"
        "    store %pb, %w\n    yield\n  }\n  store %py, %v\n}\n");
}

/* Every n-th element from one place on, and from another: they meet nowhere, or they do. */
static void test_in_turn(void **state) {
  (void)state;
  static const int cases[][3] = {{2, 2, 1}, {2, 2, 2}, {3, 3, 2}, {2, 4, 1},
                                 {4, 6, 1}, {4, 6, 2}, {1, 2, 1}, {2, 2, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char ir[1400];
    snprintf(ir, sizeof ir,
             "%s  %%sa = const {value=%d} : i32[64]\n  %%sb = const {value=%d} : i32[64]\n"
             "  %%at = mul %%i, %%sa : i32[64]\n  %%bt = mul %%i, %%sb : i32[64]\n"
             "  %%c8 = const {value=8} : i32[64]\n  %%c = const {value=%d} : i32[64]\n"
             "  %%a8 = add %%at, %%c8 : i32[64]\n  %%b8 = add %%bt, %%c8 : i32[64]\n  %%bc = add %%b8, %%c : i32[64]\n"
             "  %%pa = addptr %%sx, %%a8 : *i32[64]\n  %%pb = addptr %%sx, %%bc : *i32[64]\n"
             "  %%u = load %%pb : i32[64]\n  %%w = add %%u, %%i : i32[64]\n  store %%pa, %%w\n"
             "  %%z = mul %%u, %%w : i32[64]\n  store %%pb, %%z\n  store %%py, %%u\n}\n",
             "kernel @k(%x: *i32, %y: *i32) {\n" ROW, cases[i][0], cases[i][1], cases[i][2]);
    check(ir);
  }
}

#define TILE \
  "  %i = arange {start=0, end=32} : i32[32]\n  %ic = expand_dims %i {axis=1} : i32[32,1]\n" \
  "  %ir = expand_dims %i {axis=0} : i32[1,32]\n  %w = const {value=32} : i32[32,1]\n  %iw = mul %ic, %w : " \
  "i32[32,1]\n" \
  "  %rows = broadcast %iw : i32[32,32]\n  %cols = broadcast %ir : i32[32,32]\n  %at = add %rows, %cols : " \
  "i32[32,32]\n  %sx = splat %x : *i32[32,32]\n  %px = addptr %sx, %at : *i32[32,32]\n  %v = load %px : i32[32,32]\n" \
  "  %turned = trans %at {dims=[1,0]} : i32[32,32]\n  %pt = addptr %sx, %turned : *i32[32,32]\n"

static void test_turned(void **state) {
  (void)state;
  check("kernel @k(%x: *i32, %y: *i32) {\n" TILE "  store %pt, %v\n}\n");
  check("kernel @k(%x: *i32, %y: *i32) {\n" TILE "  %t = trans %v {dims=[1,0]} : i32[32,32]\n  store %px, %t\n}\n");
  check("kernel @k(%x: *i32, %y: *i32) {\n" TILE "  %t = trans %v {dims=[1,0]} : i32[32,32]\n  %s = add %t, %v : "
        "i32[32,32]\n  store %px, %s\n}\n");
  check("kernel @k(%x: *i32, %y: *i32) {\n" TILE
        "  %m = reduce %v {axis=0} : i32[32] do (%a: i32, %b: i32) {\n    %c = max %a, %b : i32\n    yield %c\n  }\n"
        "  %mr = expand_dims %m {axis=0} : i32[1,32]\n  %mb = broadcast %mr : i32[32,32]\n  %d = sub %v, %mb : "
        "i32[32,32]\n  store %pt, %d\n  %u = load %px : i32[32,32]\n"
        "  %sy = splat %y : *i32[32,32]\n  %py = addptr %sy, %turned : *i32[32,32]\n  store %py, %u\n}\n");
}

/* Two arguments in one array: apart, the same, a little further, a little before. */
static void test_overlap(void **state) {
  (void)state;
  static const char *const kernels[] = {
      "kernel @k(%x: *i32, %y: *i32, %r: *i32) {\n" ROW SUM(
          "s", "v") "  %w = add %v, %ts : i32[64]\n  store %py, %w\n" SUM("s2", "v") "  store %r, %s2\n}\n",
      "kernel @k(%x: *i32, %y: *i32) {\n" ROW "  %w = add %v, %i : i32[64]\n  store %py, %w\n}\n",
      "kernel @k(%x: *i32, %y: *i32, %r: *i32) {\n" ROW "  %o = load %py : i32[64]\n  %w = add %v, %o : i32[64]\n"
      "  store %py, %w\n  store %px, %o\n  %u = load %px : i32[64]\n  %sr = splat %r : *i32[64]\n"
      "  %pr = addptr %sr, %i : *i32[64]\n  store %pr, %u\n}\n",
      "kernel @k(%x: *i32, %y: *i32) {\n" ROW "  %l0 = const {value=0} : i32\n  %l1 = const {value=1} : i32\n"
      "  %l3 = const {value=3} : i32\n  for %l0, %l3, %l1 do (%n: i32) {\n    %u = load %px : i32[64]\n"
      "    %w = add %u, %v : i32[64]\n    store %py, %w\n    yield\n  }\n}\n",
  };
  static const int64_t distances[] = {0, 1, -1, 5, 64, 1000};
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    for (int i = 0; i < 6; i++) check_at(kernels[k], distances[i]);
}

/* (a1, b1) o (a2, b2) = (a1 a2, b1 a2 + b2), and `the right one`: the order shows. */
static void test_order(void **state) {
  (void)state;
  static const int widths[] = {2, 4, 8, 16, 32, 256, 2048};
  for (int i = 0; i < 7; i++) {
    char ir[2400];
    for (int two = 0; two < 2; two++) { /* along the vectors, and along them in each of 4 rows */
      const char *shape = two ? "4," : "", *rows = two ? "[4]" : "";
      int n = two && widths[i] > 512 ? 512 : widths[i];
      snprintf(
          ir, sizeof ir,
          "kernel @k(%%x: *i32, %%y: *i32, %%z: *i32) {\n  %%n = arange {start=0, end=%d} : i32[%d]\n"
          "  %%i = reshape %%n : i32[%s%d]\n  %%sx = splat %%x : *i32[%s%d]\n  %%px = addptr %%sx, %%i : "
          "*i32[%s%d]\n  %%v = load %%px : i32[%s%d]\n  %%w = add %%v, %%i : i32[%s%d]\n"
          "  %%p, %%q = reduce %%v, %%w {axis=%d} : i32%s, i32%s do (%%a1: i32, %%b1: i32, %%a2: i32, %%b2: i32) "
          "{\n    %%a = mul %%a1, %%a2 : i32\n    %%ba = mul %%b1, %%a2 : i32\n    %%b = add %%ba, %%b2 : i32\n"
          "    yield %%a, %%b\n  }\n  %%last = reduce %%v {axis=%d} : i32%s do (%%l: i32, %%r: i32) {\n    %%one = "
          "const {value=1} : i32\n    %%s = mul %%r, %%one : i32\n    yield %%s\n  }\n",
          two ? 4 * n : n, two ? 4 * n : n, shape, n, shape, n, shape, n, shape, n, shape, n, two, rows, rows, two,
          rows);
      size_t at = strlen(ir);
      if (two)
        snprintf(ir + at, sizeof ir - at,
                 "  %%o = arange {start=0, end=4} : i32[4]\n  %%sy = splat %%y : *i32[4]\n  %%py = addptr %%sy, %%o : "
                 "*i32[4]\n  store %%py, %%q\n  %%sz = splat %%z : *i32[4]\n  %%pz = addptr %%sz, %%o : *i32[4]\n"
                 "  store %%pz, %%last\n}\n");
      else snprintf(ir + at, sizeof ir - at, "  store %%y, %%q\n  store %%z, %%last\n}\n");
      check(ir);
    }
  }
}

/* ---- memory that runs out ---------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void test_out_of_memory(void **state) { (void)state; } /* malloc is theirs */
#else

static long allocations_left = -1; /* the one after these fails; -1: none does */

static bool refused(void) { return allocations_left >= 0 && allocations_left-- == 0; }

void *calloc(size_t n, size_t bytes) {
  static void *(*next)(size_t, size_t);
  static _Alignas(16) char early[4096]; /* for dlsym itself */
  static size_t used;
  static bool looking;
  if (looking) {
    char *p = early + used;
    used += (n * bytes + 15) / 16 * 16;
    return used <= sizeof early ? p : NULL;
  }
  if (!next) {
    looking = true;
    *(void **)&next = dlsym(RTLD_NEXT, "calloc");
    looking = false;
  }
  return refused() ? NULL : next(n, bytes);
}

void *realloc(void *p, size_t bytes) {
  static void *(*next)(void *, size_t);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "realloc");
  return refused() ? NULL : next(p, bytes);
}

/* The text with the n-th allocation refused; false: the compilation failed. */
static bool emit_with(const char *ir, long n, Buf *text) {
  allocations_left = n;
  Context *cx = context_create();
  volatile bool good = false;
  if (cx && context_try(cx)) {
    Func *f = tile_parse(cx, source_from_text(cx, "k.ir", ir, strlen(ir)));
    cpu_emit_c(f, n & 1, CPU_TEXT_READABLE, text, NULL);
    if (text->failed) context_out_of_memory(cx);
    context_end_try(cx);
    good = true;
  } else if (cx) {
    assert_true(cx->out_of_memory);
  }
  context_destroy(cx);
  return good;
}

/* One allocation that fails, whichever it is, fails the compilation: no piece of the text is missing. */
static void test_out_of_memory(void **state) {
  (void)state;
  static const char ir[] = "kernel @k(%x: *i32, %y: *i32, %r: *i32) {\n" ROW SUM("s", "v") NEXT
      "  %w = add %v, %ts : i32[64]\n  %o = load %py : i32[64]\n  %z = add %w, %o : i32[64]\n  store %py, %z\n"
      "  print %v {text=\"v\"}\n  store %r, %s\n}\n";
  Buf whole[2] = {{0}, {0}};
  assert_true(emit_with(ir, -2, &whole[0]) && emit_with(ir, -1, &whole[1]));
  int failures = 0;
  for (long n = 0, in_a_row = 0; in_a_row < 4; n++) {
    Buf text = {0};
    bool good = emit_with(ir, n, &text);
    bool spent = allocations_left < 0;
    allocations_left = -1;
    if (good) {
      assert_int_equal(text.n, whole[n & 1].n);
      assert_memory_equal(text.at, whole[n & 1].at, text.n);
    }
    failures += !good;
    in_a_row = good && !spent ? in_a_row + 1 : 0;
    buf_destroy(&text);
  }
  assert_true(failures > 5);
  buf_destroy(&whole[0]);
  buf_destroy(&whole[1]);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_place), cmocka_unit_test(test_in_turn), cmocka_unit_test(test_turned),
      cmocka_unit_test(test_overlap),  cmocka_unit_test(test_order),   cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
