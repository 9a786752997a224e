/* What the CPU back end's tests share: one kernel as IR text, run by the interpreter and as compiled C on the same
 * random arrays; then every element of every array is compared.
 */
#ifndef TEST_CPU_KIT_H
#define TEST_CPU_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "interp/interp.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

typedef enum { FILL_SMALL, FILL_WIDE, FILL_UNIT } Fill; /* small numbers; any bits but NaN; floats in [0.1, 1] */

typedef struct CpuCase {
  const char *ir;
  int64_t count;       /* elements of each array */
  const int64_t *ints; /* values of the integer arguments, in order */
  Fill fill;
  int32_t grid[3];  /* zeros: 1 */
  double tolerance; /* of f32, relative; 0: 2e-5. Narrow floats: two units in the last place at least */
  bool overlap;     /* arguments 0 and 1 point into one array, argument 1 `distance` elements further on */
  int64_t distance;
  bool optimize; /* run the tile passes first */
  const char *expect_print;
  bool expect_fault;
} CpuCase;

static inline uint64_t kit_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *state ^ *state >> 29;
  return x * 0x9E3779B97F4A7C15u ^ x >> 31;
}

static inline void kit_fill(void *p, Dtype d, int64_t n, Fill fill, uint64_t seed) {
  uint64_t state = seed * 77 + 1;
  int bytes = dtype_bytes(d);
  for (int64_t i = 0; i < n; i++) {
    void *at = (char *)p + i * bytes;
    uint64_t r = kit_random(&state);
    if (d == DT_I1) {
      *(uint8_t *)at = r >> 17 & 1;
    } else if (dtype_is_float(d)) {
      double unit = (double)(r >> 11) / 9007199254740992.0;
      if (fill == FILL_WIDE) {
        do {
          memcpy(at, &r, (size_t)bytes);
          r = kit_random(&state);
        } while (isnan(dtype_load_float(d, at)));
      } else {
        dtype_store_float(d, at, fill == FILL_UNIT ? 0.1 + 0.9 * unit : unit * 8 - 4);
      }
    } else if (fill == FILL_WIDE) {
      memcpy(at, &r, (size_t)bytes);
      if (i % 7 == 0) memset(at, 0, (size_t)bytes);
    } else {
      dtype_store_int(d, at, dtype_is_signed(d) ? (int64_t)(r >> 33) % 17 - 8 : (int64_t)(r >> 33) % 17);
    }
  }
}

static void kit_host_print(void *arg, const char *line) { buf_printf((Buf *)arg, "%s\n", line); }
static void kit_host_fault(void *arg, const char *message, const int32_t program[3], int line) {
  (void)program, (void)line;
  buf_printf((Buf *)arg, "fault: %s\n", message);
}

/* How far apart two elements may be. */
static inline bool kit_agree(Dtype d, const void *x, const void *y, double tolerance) {
  if (!dtype_is_float(d)) return memcmp(x, y, (size_t)dtype_bytes(d)) == 0;
  double a = dtype_load_float(d, x), b = dtype_load_float(d, y);
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (a == b) return true;
  if (isinf(a) || isinf(b)) return false;
  double relative = tolerance > 0 ? tolerance : d == DT_F64 ? 1e-12 : 2e-5;
  double unit = d == DT_F16                       ? 0x1p-10
                : d == DT_BF16                    ? 0x1p-7
                : d == DT_F8E5 || d == DT_F8E5B16 ? 0x1p-2
                : dtype_is_fp8(d)                 ? 0x1p-3
                                                  : 0;
  if (2.01 * unit > relative) relative = 2.01 * unit;
  double absolute = d == DT_F64 ? 1e-300 : d == DT_F16 ? 2e-7 : dtype_is_fp8(d) ? 2e-2 : 1e-37;
  return fabs(a - b) <= relative * fmax(fabs(a), fabs(b)) + absolute;
}

static inline void cpu_check_in(Context *cx, const CpuCase *c, Buf *text) {
  InterpMemory *m = interp_memory_create();
  uint64_t args[32] = {0}, cpu_args[32] = {0};
  enum { GUARD = 256 };
  char *copies[32] = {0};
  const char *arrays[32] = {0}; /* the interpreter's */
  Func *f = tile_parse(cx, source_from_text(cx, "k.ir", c->ir, strlen(c->ir)));
  tile_verify(f, "parse");
#ifndef KIT_NO_OPTIMIZE
  if (c->optimize) tile_optimize(f, NULL, NULL, true);
#endif
  int n = f->body->arg_count, next_int = 0;
  for (int k = 0; k < n; k++) {
    const Type *t = f->body->args[k]->type;
    if (k == 1 && c->overlap) {
      int64_t bytes = dtype_bytes(t->dtype), half = c->count / 2 * bytes;
      args[0] += (uint64_t)half, cpu_args[0] += (uint64_t)half;
      args[1] = args[0] + (uint64_t)(c->distance * bytes), cpu_args[1] = cpu_args[0] + (uint64_t)(c->distance * bytes);
    } else if (t->ptr) {
      size_t bytes = (size_t)(c->count * dtype_bytes(t->dtype));
      char name[16];
      snprintf(name, sizeof name, "arg%d", k);
      void *p = interp_memory_alloc(m, bytes, name);
      kit_fill(p, t->dtype, c->count, c->fill, (uint64_t)k + 1);
      interp_memory_mark_written(m, p, bytes);
      copies[k] = malloc(bytes + 2 * GUARD);
      memset(copies[k], 0xA5, bytes + 2 * GUARD);
      memcpy(copies[k] + GUARD, p, bytes);
      arrays[k] = p;
      args[k] = (uint64_t)(uintptr_t)p;
      cpu_args[k] = (uint64_t)(uintptr_t)(copies[k] + GUARD);
    } else if (dtype_is_float(t->dtype)) {
      dtype_store_float(t->dtype, &args[k], 1.5);
      cpu_args[k] = args[k];
    } else {
      args[k] = cpu_args[k] = (uint64_t)(c->ints ? c->ints[next_int++] : 0);
    }
  }
  int32_t grid[3] = {c->grid[0] ? c->grid[0] : 1, c->grid[1] ? c->grid[1] : 1, c->grid[2] ? c->grid[2] : 1};
  Buf interp_said = {0}, cpu_said = {0};
  InterpOptions options = {.print = kit_host_print, .print_arg = &interp_said, .allow_unwritten = true};
  InterpFault fault = {0};
  bool ran = interp_run(f, m, args, grid, &options, &fault);
  if (ran == c->expect_fault) {
    fprintf(stderr, "%s\n", c->ir);
    fail_msg("interp: %s", fault.message);
  }

  size_t headers;
  cpu_emit_c(f, c->overlap, CPU_TEXT_COMPILED, text, &headers);
  CpuCode *code = cpu_compile(cx, &(CpuText){text->at, text->n, headers}, NULL);
  void *scratch = aligned_alloc(64, (cpu_code_scratch(code) + 63) / 64 * 64 + 64);
  memset(scratch, 0x5A, (cpu_code_scratch(code) + 63) / 64 * 64 + 64);
  NereidHost host = {.print = kit_host_print, .fault = kit_host_fault, .arg = &cpu_said};
  int64_t programs = (int64_t)grid[0] * grid[1] * grid[2];
  int status = cpu_code_entry(code)(cpu_args, grid, 0, programs / 2, scratch, &host);
  if (!status) status = cpu_code_entry(code)(cpu_args, grid, programs / 2, programs, scratch, &host);
  const char *body = strstr(text->at, "static int nd_program");
  if ((status != 0) != c->expect_fault) fail_msg("status %d\n%s", status, c->ir);
  if (c->expect_print && strcmp(cpu_said.at ? cpu_said.at : "", c->expect_print) != 0)
    fail_msg("printed:\n%s\nnot:\n%s\n", cpu_said.at ? cpu_said.at : "", c->expect_print);
  if (c->expect_print && !c->expect_fault && strcmp(interp_said.at ? interp_said.at : "", c->expect_print) != 0)
    fail_msg("interp printed:\n%s\nnot:\n%s\n", interp_said.at ? interp_said.at : "", c->expect_print);
  for (int k = 0; k < n && !c->expect_fault; k++) {
    const Type *t = f->body->args[k]->type;
    if (!copies[k]) continue;
    int bytes = dtype_bytes(t->dtype);
    int wrong = 0;
    for (int64_t i = 0; i < c->count; i++) {
      const void *want = arrays[k] + i * bytes, *got = copies[k] + GUARD + i * bytes;
      if (kit_agree(t->dtype, want, got, c->tolerance)) continue;
      if (wrong++ < 5)
        fprintf(stderr, "argument %d element %lld: interp %.9g (%llx), cpu %.9g (%llx)\n", k, (long long)i,
                dtype_is_float(t->dtype) ? dtype_load_float(t->dtype, want) : (double)dtype_load_int(t->dtype, want),
                (unsigned long long)dtype_load_int(DT_U8, want),
                dtype_is_float(t->dtype) ? dtype_load_float(t->dtype, got) : (double)dtype_load_int(t->dtype, got),
                (unsigned long long)dtype_load_int(DT_U8, got));
    }
    size_t size = (size_t)(c->count * bytes);
    for (int i = 0; i < GUARD; i++)
      if ((uint8_t)copies[k][i] != 0xA5 || (uint8_t)copies[k][GUARD + size + (size_t)i] != 0xA5) {
        fprintf(stderr, "argument %d: written outside its array\n", k);
        wrong++;
        break;
      }
    if (wrong) {
      fprintf(stderr, "%s\n%s\n", c->ir, body ? body : "");
      fail_msg("%d elements of argument %d differ", wrong, k);
    }
  }
  cpu_code_release(code);
  for (int k = 0; k < n; k++) free(copies[k]);
  free(scratch);
  buf_destroy(&interp_said);
  buf_destroy(&cpu_said);
  interp_memory_destroy(m);
}

static inline void cpu_check(const CpuCase *c) {
  Context *cx = context_create();
  Buf text = {0};
  if (context_try(cx)) {
    cpu_check_in(cx, c, &text);
    context_end_try(cx);
  } else {
    Buf b = {0};
    diags_print(&b, cx, false);
    const char *body = text.at ? strstr(text.at, "static int nd_program") : NULL;
    fprintf(stderr, "%s\n%s\n%s\n", body ? body : "", c->ir, b.at);
    fail_msg("it does not compile");
  }
  buf_destroy(&text);
  context_destroy(cx);
}

/* Caches of the tests stay out of the user's. */
static inline int kit_setup(void **state) {
  (void)state;
  static char folder[] = "/tmp/nereid-test-cpu-XXXXXX";
  if (getenv("NEREID_TEST_CACHE")) setenv("NEREID_CACHE_DIR", getenv("NEREID_TEST_CACHE"), 1);
  else if (mkdtemp(folder)) setenv("NEREID_CACHE_DIR", folder, 1);
  return 0;
}
static inline int kit_teardown(void **state) {
  (void)state;
  const char *folder = getenv("NEREID_CACHE_DIR");
  if (getenv("NEREID_TEST_CACHE") || !folder || strncmp(folder, "/tmp/nereid-test-cpu-", 21) != 0) return 0;
  const char *argv[] = {"/bin/rm", "-rf", folder, NULL};
  Buf b = {0};
  process_run(argv, &b);
  buf_destroy(&b);
  return 0;
}

#endif
