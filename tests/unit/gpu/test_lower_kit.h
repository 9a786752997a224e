/* What the tests of lowering share: a kernel in tile IR, run by the interpreter and, lowered, by the simulator of lane
 * IR, on the same memory. What both leave must be the same, bit for bit (NaNs are equal to each other), or within a
 * tolerance where an operation is approximate. */
#ifndef TEST_LOWER_KIT_H
#define TEST_LOWER_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdlib.h>

#include "gpu/gpu.h"
#include "interp/interp.h"
#include "layout/layout.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

enum { KIT_ARGS = 12, KIT_DIAG_WORDS = 4096 };

typedef struct KitArg {
  bool array;
  Dtype t;
  int64_t n;
  void *data;
  uint64_t value;
} KitArg;

typedef struct Kit {
  const char *ir;
  KitArg args[KIT_ARGS];
  int arg_count;
  int32_t grid[3];
  int warps;
  const char *target;
  double tolerance;  /* relative, of floats */
  bool list;         /* programs by list, in the reverse order */
  const char *fails; /* compiling must fail with a message that holds this */
  bool show;
  uint32_t diag_used; /* words that others took before */
  GpuDiag *diag;      /* what prints and asserts left, after kit_check */
  Buf printed;        /* the interpreter's lines */
} Kit;

static inline uint64_t kit_random(uint64_t *state) {
  uint64_t x = *state += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

static inline Kit kit_of(const char *ir) { return (Kit){.ir = ir, .grid = {1, 1, 1}, .warps = 4, .target = "sm_90a"}; }

static inline void *kit_array(Kit *k, Dtype t, int64_t n) {
  KitArg *a = &k->args[k->arg_count++];
  *a = (KitArg){.array = true, .t = t, .n = n};
  a->data = aligned_alloc(64, ((size_t)n * (size_t)dtype_bytes(t) + 64) / 64 * 64 + 64);
  memset(a->data, 0, (size_t)n * (size_t)dtype_bytes(t));
  return a->data;
}

static inline void kit_int(Kit *k, int64_t v) { k->args[k->arg_count++] = (KitArg){.value = (uint64_t)v}; }

static inline void kit_free(Kit *k) {
  for (int i = 0; i < k->arg_count; i++)
    if (k->args[i].array) free(k->args[i].data);
  free(k->diag);
  buf_destroy(&k->printed);
}

/* Bits of all kinds, numbers of ordinary size, and the corners of the type. */
static inline void kit_fill(Dtype t, void *data, int64_t n, uint64_t seed) {
  /* clang-format off */
  static const double corners[] = {0.0, -0.0, 1, -1, 0.5, 2, 3, 65504, 65520, 448, 464, 57344, 61440, 240, 0.0625, 1e-3,
    1e-8, 1e30, -1e30,
                                   INFINITY, -INFINITY, NAN, 2147483647.0, 2147483648.0, -2147483648.0, 4294967295.0,
                                     1e19, -1e19, 127.5, 255.5};
  /* clang-format on */
  int bytes = dtype_bytes(t);
  for (int64_t i = 0; i < n; i++) {
    char *p = (char *)data + i * bytes;
    uint64_t r = kit_random(&seed), pick = r >> 60, bits = kit_random(&seed);
    if (t == DT_I1) {
      *p = (char)(bits & 1);
    } else if (dtype_is_float(t)) {
      double v = (double)(int64_t)(bits % 20001) / 100 - 100;
      if (pick < 4) memcpy(p, &bits, (size_t)bytes);
      else if (pick < 7) dtype_store_float(t, p, corners[bits % (sizeof corners / sizeof *corners)]);
      else dtype_store_float(t, p, v);
    } else {
      /* clang-format off */
      static const int64_t ints[] = {0, 1, -1, 2, -2, 3, 7, 8, 127, 128, -128, 255, 32767, 32768, -32768, 65535,
        2147483647, -2147483648LL,
                                     4294967295LL, INT64_MAX, INT64_MIN, 100, 10, 16};
      /* clang-format on */
      int64_t v = pick < 5   ? (int64_t)bits
                  : pick < 9 ? ints[bits % (sizeof ints / sizeof *ints)]
                             : (int64_t)(bits % 201) - 100;
      memcpy(p, &v, (size_t)bytes);
    }
  }
}

static inline void kit_print(void *arg, const char *line) { buf_printf(arg, "%s\n", line); }

static inline Func *kit_parse(Kit *k, Context *cx) {
  Func *f = tile_parse(cx, source_from_text(cx, "k.ir", k->ir, strlen(k->ir)));
  f->num_warps = k->warps;
  tile_optimize(f, NULL, NULL, true);
  return f;
}

static inline void kit_messages(Context *cx, char *out, size_t n) {
  Buf b = {0};
  diags_print(&b, cx, false);
  snprintf(out, n, "%s", b.at ? b.at : "?");
  buf_destroy(&b);
}

/* Copies of the arrays, and the slots that point to them. */
static inline void kit_copy(Kit *k, uint64_t *slots, void **copies) {
  for (int i = 0; i < k->arg_count; i++) {
    KitArg *a = &k->args[i];
    slots[i] = a->value;
    if (!a->array) continue;
    size_t bytes = (size_t)a->n * (size_t)dtype_bytes(a->t);
    copies[i] = aligned_alloc(64, (bytes + 64) / 64 * 64);
    memcpy(copies[i], a->data, bytes);
    slots[i] = (uint64_t)(uintptr_t)copies[i];
  }
}

static inline bool kit_in_bounds(void *arg, uint64_t address, int bytes, bool write) {
  const Kit *k = ((void **)arg)[0];
  void **copies = arg;
  if (k->diag && address >= (uint64_t)(uintptr_t)k->diag) return true;
  for (int i = 0; i < k->arg_count; i++) {
    uint64_t at = (uint64_t)(uintptr_t)copies[i + 1];
    if (k->args[i].array && address >= at &&
        address + (uint64_t)bytes <= at + (uint64_t)(k->args[i].n * dtype_bytes(k->args[i].t)))
      return true;
  }
  return false;
}

static inline bool kit_same(const Kit *k, Dtype t, const void *a, const void *b) {
  size_t bytes = (size_t)dtype_bytes(t);
  if (!memcmp(a, b, bytes)) return true;
  if (!dtype_is_float(t)) return false;
  /* what NaN becomes, whose sign no device keeps */
  if (t == DT_F8E4B15) return (*(const uint8_t *)a & *(const uint8_t *)b & 0x7f) == 0x7e;
  double x = dtype_load_float(t, a), y = dtype_load_float(t, b);
  if (isnan(x) && isnan(y)) return true;
  return k->tolerance > 0 && fabs(x - y) <= k->tolerance * fmax(fabs(x), fabs(y));
}

/* The lowered kernel's text, for a failed test. */
static inline void kit_show(Kit *k, const LaneFunc *lane) {
  Buf b = {0};
  lane_print(&b, lane, false);
  fprintf(stderr, "%s\n%s\n", k->ir, b.at ? b.at : "");
  buf_destroy(&b);
}

/* Runs both and compares; the interpreter must not fault. */
static inline void kit_check(Kit *k) {
  static char text[4000];
  uint64_t slots[KIT_ARGS + 2] = {0}, gpu_slots[KIT_ARGS + 2] = {0};
  void *copies[KIT_ARGS] = {0}, *gpu_copies[KIT_ARGS + 1] = {0};
  kit_copy(k, slots, copies);
  kit_copy(k, gpu_slots, gpu_copies + 1);
  gpu_copies[0] = k;
  Context *cx = context_create();
  LaneFunc *volatile lane = NULL;
  text[0] = 0;
  if (context_try(cx)) {
    Func *f = kit_parse(k, cx);
    InterpMemory *m = interp_memory_create();
    for (int i = 0; i < k->arg_count; i++)
      if (k->args[i].array)
        interp_memory_add(m, copies[i], (size_t)k->args[i].n * (size_t)dtype_bytes(k->args[i].t), NULL);
    InterpFault fault = {0};
    InterpOptions options = {.print = kit_print, .print_arg = &k->printed};
    if (!k->fails && !interp_run(f, m, slots, k->grid, &options, &fault) && !strstr(fault.message, "assertion")) {
      fprintf(stderr, "%s\n", k->ir);
      fail_msg("the interpreter: %s", fault.message);
    }
    interp_memory_destroy(m);
    f = kit_parse(k, cx);
    GpuOptions o = {.target = gpu_target_find(k->target), .list = k->list, .verify = true};
    lane = gpu_compile(f, &o);
    context_end_try(cx);
  } else {
    kit_messages(cx, text, sizeof text);
  }
  if (k->fails) {
    if (lane || !strstr(text, k->fails)) fail_msg("expected \"%s\", got: %s", k->fails, lane ? "no failure" : text);
    context_destroy(cx);
    return;
  }
  if (!lane) {
    fprintf(stderr, "%s\n", k->ir);
    fail_msg("%s", text);
  }
  if (k->show) kit_show(k, lane);
  int64_t programs = (int64_t)k->grid[0] * k->grid[1] * k->grid[2];
  GpuProgramList *list = calloc(1, sizeof *list + sizeof(int64_t) * (size_t)programs);
  k->diag = calloc(1, sizeof *k->diag + 4 * KIT_DIAG_WORDS);
  k->diag->capacity = KIT_DIAG_WORDS;
  k->diag->used = k->diag_used;
  int slot = k->arg_count;
  if (lane->uses_diag) gpu_slots[slot++] = (uint64_t)(uintptr_t)k->diag;
  if (lane->uses_list) gpu_slots[slot++] = (uint64_t)(uintptr_t)list;
  memcpy(list->grid, k->grid, sizeof list->grid);
  for (int64_t i = 0; i < programs; i++) list->programs[i] = programs - 1 - i;
  LaneSimFault fault = {{0}};
  LaneSimOptions options = {
      .grid = k->grid, .end = programs, .seed = 1, .check = k->list ? NULL : kit_in_bounds, .check_arg = gpu_copies};
  int32_t flat[3] = {(int32_t)programs, 1, 1};
  if (k->list) options.grid = flat;
  if (!lane_sim_run(lane, gpu_slots, &options, &fault)) {
    kit_show(k, lane);
    fail_msg("the simulator: %s (thread %d)", fault.message, fault.thread);
  }
  for (int i = 0; i < k->arg_count; i++) {
    if (!k->args[i].array) continue;
    int bytes = dtype_bytes(k->args[i].t);
    for (int64_t e = 0; e < k->args[i].n; e++) {
      const char *want = (const char *)copies[i] + e * bytes, *got = (const char *)gpu_copies[i + 1] + e * bytes;
      if (kit_same(k, k->args[i].t, want, got)) continue;
      uint64_t w = 0, g = 0;
      memcpy(&w, want, (size_t)bytes);
      memcpy(&g, got, (size_t)bytes);
      kit_show(k, lane);
      fail_msg("argument %d, element %lld: expected 0x%llx (%g), got 0x%llx (%g), %d warps, %s", i, (long long)e,
               (unsigned long long)w, dtype_load_float(k->args[i].t, want), (unsigned long long)g,
               dtype_load_float(k->args[i].t, got), k->warps, k->target);
    }
    free(copies[i]);
    free(gpu_copies[i + 1]);
  }
  free(list);
  context_destroy(cx);
}

#endif
