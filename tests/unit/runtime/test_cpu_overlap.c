/* Arguments of one launch that overlap, on the cpu device: the arrays' places decide which of a kernel's two texts
 * runs, and every place gives what the interpreter gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <nereid.h>
#include <stdlib.h>
#include <string.h>

#include "rt/rt.h"

#include <cmocka.h>

enum { ROOM = 6000, MIDDLE = 2000 };

static const char source[] =
    "import triton\nimport triton.language as tl\n\n"
    "@triton.jit\ndef add(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.program_id(0) * B + tl.arange(0, B)\n    m = i < n\n"
    "    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)\n\n"
    "@triton.jit\ndef total(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    v = tl.load(x + i, mask=i < n, other=0)\n    s = tl.sum(v, 0)\n"
    "    tl.store(o + 1 + i, v + s, mask=i < n)\n    tl.store(y, tl.sum(v, 0))\n\n"
    "@triton.jit\ndef taken(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    at = tl.load(y + i) & 63\n    v = tl.load(x + at)\n    tl.store(o + i, v + i)\n\n"
    "@triton.jit\ndef corner(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, 16)\n    at = i[:, None] * 16 + i[None, :]\n    m = i[None, :] < 2\n"
    "    tl.store(o + at, tl.load(x + at, mask=m, other=0) + 1, mask=m)\n\n"
    "@triton.jit\ndef steps(x, y, o, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n    p = x + i\n    q = o + i\n    for k in range(0, n, B):\n"
    "        tl.store(q, tl.load(p, mask=i + k < n, other=1) * 3 + 1, mask=i + k < n)\n        p += B\n        q += "
    "B\n";

typedef struct Devices {
  nereid_device *cpu, *interp;
  nereid_module *module;
  int32_t *memory; /* the interpreter's */
} Devices;

static int setup(void **state) {
  static Devices d;
  nereid_error *error = NULL;
  if (!getenv("NEREID_TEST_CACHE")) setenv("NEREID_CACHE_DIR", "/dev/null/none", 1);
  else setenv("NEREID_CACHE_DIR", getenv("NEREID_TEST_CACHE"), 1);
  assert_int_equal(nereid_device_open("cpu:1", &d.cpu, &error), NEREID_OK);
  assert_int_equal(nereid_device_open("interp", &d.interp, &error), NEREID_OK);
  assert_int_equal(nereid_module_load_string("k.py", source, &d.module, &error), NEREID_OK);
  assert_int_equal(nereid_alloc(d.interp, ROOM * 4, (void **)&d.memory, &error), NEREID_OK);
  *state = &d;
  return 0;
}

static int teardown(void **state) {
  Devices *d = *state;
  nereid_free(d->interp, d->memory);
  nereid_module_free(d->module);
  nereid_device_close(d->cpu);
  nereid_device_close(d->interp);
  return 0;
}

static void launch(nereid_device *d, nereid_module *m, const char *kernel, int32_t *x, int32_t *y, int32_t *o, int n,
                   int block, int programs) {
  nereid_error *error = NULL;
  nereid_arg args[] = {nereid_pointer(x, NEREID_I32), nereid_pointer(y, NEREID_I32), nereid_pointer(o, NEREID_I32),
                       nereid_int(n), nereid_constexpr_int(block)};
  if (nereid_launch(d, NULL, m, kernel, (int64_t[]){programs, 1, 1}, args, 5, NULL, &error))
    fail_msg("%s", nereid_error_text(error));
}

static void fill(int32_t *p) {
  for (int i = 0; i < ROOM; i++) p[i] = (int32_t)((uint32_t)i * 2654435761u >> 20);
}

/* x in the middle of one array, y and o so far from it; the array is `known` to the device or not. */
static void check(Devices *d, const char *kernel, int y, int o, int n, int block, int programs, bool known) {
  nereid_error *error = NULL;
  int32_t *mine = aligned_alloc(64, (size_t)(ROOM * 4 + 63) / 64 * 64);
  assert_non_null(mine);
  fill(mine);
  if (known) assert_int_equal(nereid_register(d->cpu, mine, ROOM * 4, "array", &error), NEREID_OK);
  assert_int_equal(nereid_copy_to_device(d->interp, d->memory, mine, ROOM * 4, &error), NEREID_OK);
  int32_t *at = mine + MIDDLE, *there = d->memory + MIDDLE;
  launch(d->cpu, d->module, kernel, at, at + y, at + o, n, block, programs);
  launch(d->interp, d->module, kernel, there, there + y, there + o, n, block, programs);
  int32_t *want = malloc(ROOM * 4);
  assert_non_null(want);
  assert_int_equal(nereid_copy_to_host(d->interp, want, d->memory, ROOM * 4, &error), NEREID_OK);
  for (int i = 0; i < ROOM; i++)
    if (mine[i] != want[i])
      fail_msg("%s, y %d, o %d: element %d is %d, not %d", kernel, y, o, i - MIDDLE, mine[i], want[i]);
  if (known) nereid_unregister(d->cpu, mine);
  free(mine);
  free(want);
}

/* One program: what it stores is what it has read before. */
static void one_program(void **state) {
  static const char *const kernels[] = {"add", "total", "taken", "corner", "steps"};
  static const int far[] = {0, 1, -1, 7, -16, 96, 255, 256, -256, 1500};
  for (int k = 0; k < 5; k++)
    for (int i = 0; i < 10; i++) {
      check(*state, kernels[k], 1000, far[i], 250, 256, 1, i & 1);
      check(*state, kernels[k], far[i] + 2, 1000, 256, 256, 1, i & 1);
    }
}

/* Many: only what no two of them share has one result. */
static void programs(void **state) {
  static const int far[] = {0, 1000, -1000, 1024};
  for (int i = 0; i < 4; i++) check(*state, "add", 2000, far[i], 1000, 256, 4, true);
}

/* What a caller says of its arrays holds until it says otherwise, for what the device knows nothing of. */
static void arrays_of_a_run(void **state) {
  Devices *d = *state;
  nereid_error *error = NULL;
  static char memory[4096];
  uintptr_t at = (uintptr_t)memory;
  const Allocation arrays[] = {{at + 64, 100, false}, {at + 256, 64, false}, {at + 1024, 8, false}};
  int64_t range[2];
  device_know(arrays, 3);
  assert_true(device_array_around(d->cpu, memory + 64, range));
  assert_true(range[0] == (int64_t)at + 64 && range[1] == (int64_t)at + 163);
  assert_true(device_array_around(d->cpu, memory + 319, range) && range[0] == (int64_t)at + 256);
  assert_false(device_array_around(d->cpu, memory, range));
  assert_false(device_array_around(d->cpu, memory + 164, range));
  assert_false(device_array_around(d->cpu, memory + 320, range));
  assert_int_equal(device_bytes_behind(d->cpu, (uint64_t[]){at + 64, at + 70, at + 1024, at}, 4), 108);
  assert_int_equal(nereid_register(d->cpu, memory, 4096, "array", &error), NEREID_OK);
  assert_true(device_array_around(d->cpu, memory + 64, range) && range[1] == (int64_t)at + 4095);
  nereid_unregister(d->cpu, memory);
  device_know(NULL, 0);
  assert_false(device_array_around(d->cpu, memory + 64, range));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_program),
      cmocka_unit_test(programs),
      cmocka_unit_test(arrays_of_a_run),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
