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
    cpu_check(&(CpuCase){.ir = kernels[i], .count = 5 * sizes[i], .ints = (int64_t[]){sizes[i], sizes[i]}, .grid = {5}});
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_softmax),
  };
  return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
