/* What the tests of the front end share: compiling a kernel from text, its messages, and running it in the interpreter.
 */
#ifndef TEST_FRONT_KIT_H
#define TEST_FRONT_KIT_H

#include "front/front.h"
#include "interp/interp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define HEAD "import triton\nimport triton.language as tl\n"

/* Arguments by the names that these tests give to parameters: x, y, out: arrays f32 / f32 / i32; n, m: integers without
 * a known value; one: 1; f: a float; N: 16; b: a bool; none: None. Others are missing. */
static inline void kit_arguments(Kernel *k, ArgSpec *args) {
  for (int i = 0; i < kernel_param_count(k); i++) {
    const char *name = kernel_param(k, i)->name;
    if (!strcmp(name, "x") || !strcmp(name, "y"))
      args[i] = (ArgSpec){.kind = ARG_POINTER, .dtype = DT_F32, .aligned = true};
    else if (!strcmp(name, "out")) args[i] = (ArgSpec){.kind = ARG_POINTER, .dtype = DT_I32};
    else if (!strcmp(name, "n") || !strcmp(name, "m")) args[i] = (ArgSpec){.kind = ARG_INT};
    else if (!strcmp(name, "one")) args[i] = (ArgSpec){.kind = ARG_INT, .has_value = true, .int_value = 1};
    else if (!strcmp(name, "f")) args[i] = (ArgSpec){.kind = ARG_FLOAT, .float_value = 1.5};
    else if (!strcmp(name, "N")) args[i] = (ArgSpec){.kind = ARG_CONSTEXPR, .text = "16"};
    else if (!strcmp(name, "b")) args[i] = (ArgSpec){.kind = ARG_BOOL, .int_value = 1};
    else if (!strcmp(name, "none")) args[i] = (ArgSpec){.kind = ARG_NONE};
  }
}

typedef struct Kit {
  Context *cx;
  Module *module;
  Compiled *c;
  char *messages;
  char *printed;
} Kit;

static inline void kit_free(Kit *k) {
  free(k->messages);
  free(k->printed);
  context_destroy(k->cx);
}

/* Compiles the last kernel of the text, with `options` or the default ones. c is NULL when it failed; messages hold the
 * diagnostics. */
static inline Kit kit_compile_with(const char *text, const CompileOptions *options) {
  Kit k = {.cx = context_create()};
  Buf messages = {0}, printed = {0};
  Compiled *volatile c = NULL;
  Module *volatile m = NULL;
  CompileOptions o = options ? *options : (CompileOptions){0};
  o.print = &printed;
  if (context_try(k.cx)) {
    m = front_load_text_for(k.cx, "k.py", text, strlen(text), o.cuda_sm);
    Kernel *kernel = front_kernel_at(m, front_kernel_count(m) - 1);
    ArgSpec *args = NEW_N(k.cx->arena, ArgSpec, kernel_param_count(kernel) + 1);
    kit_arguments(kernel, args);
    c = front_compile(m, kernel, args, &o);
    tile_verify(c->func, "the front end");
    context_end_try(k.cx);
  } else c = NULL;
  diags_print(&messages, k.cx, false);
  k.module = m;
  k.c = c;
  k.messages = messages.at ? messages.at : strdup("");
  k.printed = printed.at ? printed.at : strdup("");
  return k;
}

static inline Kit kit_compile(const char *text) { return kit_compile_with(text, NULL); }

static inline void kit_accepts(const char *text) {
  Kit k = kit_compile(text);
  if (!k.c) fail_msg("refused:\n%s\n%s", text, k.messages);
  kit_free(&k);
}

/* The kernel must be refused, and the message must contain `what`. */
static inline void kit_refuses(const char *text, const char *what) {
  Kit k = kit_compile(text);
  if (k.c) fail_msg("accepted:\n%s", text);
  if (!strstr(k.messages, what)) fail_msg("expected \"%s\" for:\n%s\ngot:\n%s", what, text, k.messages);
  kit_free(&k);
}

/* The IR's text must contain `what`. */
static inline void kit_builds(const char *text, const char *what) {
  Kit k = kit_compile(text);
  if (!k.c) fail_msg("refused:\n%s\n%s", text, k.messages);
  Buf b = {0};
  tile_print(&b, k.c->func, 0);
  if (!strstr(b.at, what)) fail_msg("expected \"%s\" in:\n%s", what, b.at);
  buf_destroy(&b);
  kit_free(&k);
}

/* Runs kernel k(out, n) for one program; out starts as eight times -1. */
static inline void kit_run(const char *text, int32_t n, int32_t out[8]) {
  Kit k = kit_compile(text);
  if (!k.c) fail_msg("refused:\n%s\n%s", text, k.messages);
  InterpMemory *m = interp_memory_create();
  for (int i = 0; i < 8; i++) out[i] = -1;
  assert_true(interp_memory_add(m, out, 8 * sizeof *out, "out"));
  uint64_t args[2] = {(uint64_t)(uintptr_t)out, (uint64_t)(int64_t)n};
  int32_t grid[3] = {1, 1, 1};
  InterpFault fault = {0};
  InterpOptions options = {0};
  if (!interp_run(k.c->func, m, args, grid, &options, &fault)) fail_msg("%s", fault.message);
  interp_memory_destroy(m);
  kit_free(&k);
}

/* out[0] must be expected[i] for n = from + i. */
static inline void kit_gives(const char *text, int from, int count, const int32_t *expected) {
  for (int i = 0; i < count; i++) {
    int32_t out[8];
    kit_run(text, from + i, out);
    if (out[0] != expected[i]) fail_msg("n = %d: expected %d, got %d in:\n%s", from + i, expected[i], out[0], text);
  }
}

#endif
