/* What the interpreter's tests share: a kernel from IR text, arrays for its arguments, a run. */
#ifndef TEST_INTERP_KIT_H
#define TEST_INTERP_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>

#include "interp/interp.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

enum { KIT_ARGS = 16 };

typedef struct Kit {
  Context *cx;
  Func *f;
  InterpMemory *m;
  uint64_t args[KIT_ARGS];
  int arg_count;
  int32_t grid[3];
  InterpOptions options;
  InterpFault fault;
  Buf printed;
} Kit;

static void kit_print(void *arg, const char *line) {
  Kit *k = arg;
  buf_printf(&k->printed, "%s\n", line);
}

/* The grid is 1, races are looked for, print goes to k->printed. */
static inline Kit *kit_open(const char *ir) {
  Kit *k = calloc(1, sizeof *k);
  k->cx = context_create();
  if (context_try(k->cx)) {
    k->f = tile_parse(k->cx, source_from_text(k->cx, "k.ir", ir, strlen(ir)));
    tile_verify(k->f, "parse");
    context_end_try(k->cx);
  } else {
    Buf b = {0};
    diags_print(&b, k->cx, false);
    fail_msg("%s", b.at);
  }
  k->m = interp_memory_create();
  k->grid[0] = k->grid[1] = k->grid[2] = 1;
  k->options.check_races = true;
  k->options.print = kit_print;
  k->options.print_arg = k;
  return k;
}

static inline void kit_close(Kit *k) {
  buf_destroy(&k->printed);
  interp_memory_destroy(k->m);
  context_destroy(k->cx);
  free(k);
}

/* The next argument: a new array, zero and unwritten, or a copy of `from`. */
static inline void *kit_array(Kit *k, const char *name, size_t bytes, const void *from) {
  void *p = interp_memory_alloc(k->m, bytes, name);
  assert_non_null(p);
  if (from) {
    memcpy(p, from, bytes);
    interp_memory_mark_written(k->m, p, bytes);
  }
  k->args[k->arg_count++] = (uint64_t)(uintptr_t)p;
  return p;
}

static inline void kit_int(Kit *k, int64_t v) { k->args[k->arg_count++] = (uint64_t)v; }

static inline bool kit_run(Kit *k) { return interp_run(k->f, k->m, k->args, k->grid, &k->options, &k->fault); }

static inline void kit_succeeds(Kit *k) {
  if (!kit_run(k)) fail_msg("%s", k->fault.message);
}

static inline void kit_faults(Kit *k, const char *message) {
  assert_false(kit_run(k));
  assert_true(k->fault.set);
  assert_string_equal(k->fault.message, message);
}

/* Random numbers, the same in every run. */
static inline uint64_t kit_random(uint64_t *state) {
  uint64_t x = *state += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

static inline float kit_uniform(uint64_t *state) { return (float)(kit_random(state) >> 40) / (1 << 24) * 2 - 1; }

#endif
