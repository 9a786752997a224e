/* What the runtime's tests share: kernels in a string, one launch, and the check of an error's status and text. */
#ifndef RUNTIME_KIT_H
#define RUNTIME_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kernels_text[] =
    "import triton\n"
    "import triton.language as tl\n"
    "\n"
    "@triton.jit\n"
    "def add(x, y, out, n, BLOCK: tl.constexpr):\n"
    "    tl.static_print('compiling add')\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    a = tl.load(x + i, mask=i < n)\n"
    "    b = tl.load(y + i, mask=i < n)\n"
    "    tl.store(out + i, a + b, mask=i < n)\n"
    "\n"
    "@triton.jit\n"
    "def scalars(out, i, f, flag, nothing, pair, wide: tl.int64, scale=2.5, K: tl.constexpr = 3):\n"
    "    tl.store(out + 0, i.to(tl.float64))\n"
    "    tl.store(out + 1, f.to(tl.float64))\n"
    "    tl.store(out + 2, flag.to(tl.float64))\n"
    "    if nothing is None:\n"
    "        tl.store(out + 3, 1.0)\n"
    "    tl.store(out + 4, pair[0].to(tl.float64) * 100 + pair[1][0].to(tl.float64))\n"
    "    tl.store(out + 5, wide.to(tl.float64))\n"
    "    tl.store(out + 6, scale)\n"
    "    tl.store(out + 7, K)\n"
    "\n"
    "@triton.jit\n"
    "def mark(out):\n"
    "    p = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))\n"
    "    tl.store(out + p, p + 1)\n"
    "\n"
    "@triton.jit\n"
    "def talk(out, limit):\n"
    "    p = tl.program_id(0)\n"
    "    tl.device_print('p', p)\n"
    "    tl.device_assert(p < limit, 'p is too large')\n"
    "\n"
    "@triton.jit\n"
    "def nothing():\n"
    "    pass\n"
    "\n"
    "@triton.jit\n"
    "def typed(p: '*fp16', f: tl.float64, i: tl.int8):\n"
    "    pass\n"
    "\n"
    "@triton.jit\n"
    "def rows(d, out):\n"
    "    tile = d.load([4, 0])\n"
    "    tl.store(out + tl.arange(0, 4), tl.sum(tile, axis=1))\n"
    "\n"
    "@triton.heuristics({'EVEN': lambda args: args['n'] % 5 == 0})\n"
    "@triton.jit\n"
    "def guess(out, n, EVEN: tl.constexpr):\n"
    "    if EVEN:\n"
    "        tl.store(out, 1)\n"
    "    else:\n"
    "        tl.store(out, 2)\n";

static inline nereid_module *kit_module(void) {
  nereid_module *m = NULL;
  nereid_error *error = NULL;
  if (nereid_module_load_string("kit.py", kernels_text, &m, &error)) fail_msg("%s", nereid_error_text(error));
  return m;
}

static inline nereid_device *kit_device(const char *name) {
  nereid_device *d = NULL;
  nereid_error *error = NULL;
  if (nereid_device_open(name, &d, &error)) fail_msg("%s", nereid_error_text(error));
  return d;
}

#define assert_ok(call) \
  do { \
    nereid_error *error = NULL; \
    if ((call) != NEREID_OK) fail_msg("%s: %s", #call, nereid_error_text(error)); \
    assert_null(error); \
  } while (0)

/* The call fails with exactly this status and text (nereid_error_text). */
#define assert_error(call, want_status, want_text) \
  do { \
    nereid_error *error = NULL; \
    nereid_status got = (call); \
    assert_non_null(error); \
    assert_string_equal(nereid_error_text(error), want_text); \
    assert_int_equal(got, want_status); \
    assert_int_equal(nereid_error_status(error), want_status); \
    nereid_error_free(error); \
  } while (0)

/* Lines printed by kernels, one after another. */
typedef struct Lines {
  char text[8192];
  size_t n;
  int count;
} Lines;
static inline void lines_print(void *arg, const char *line) {
  Lines *l = arg;
  l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, "%s\n", line);
  l->count++;
}

#endif
