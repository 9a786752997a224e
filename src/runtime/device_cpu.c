/* Compiling for the cpu device (rt/cpu.c): tile IR -> C text -> code, with the system's C compiler. */
#include <stdlib.h>

#include "runtime/instrument.h"

/* The text for arguments that overlap (cpu/cpu.h). It is compiled when a launch first has such. */
typedef struct OverlapText {
  CpuOverlap overlap; /* the first member: what a launch sees */
  unsigned support;
  char *body;
  size_t body_size;
} OverlapText;

/* `phase` becomes what a failure is to be called. */
static CpuCode *compile_text(Context *cx, const Buf *text, size_t headers, CpuCompileInfo *info,
                             volatile nereid_status *phase) {
  if (text->failed) context_out_of_memory(cx);
  *phase = NEREID_INTERNAL;
  CpuCode *volatile code = NULL;
  if (context_try(cx)) {
    code = cpu_compile(cx, &(CpuText){text->at, text->n, headers}, info);
    context_end_try(cx);
  } else {
    if (info->step == CC_FINDING) *phase = NEREID_NO_COMPILER;
    if (info->step == CC_STORING) *phase = NEREID_BAD_FILE;
    diag_fail_now(cx);
  }
  return code;
}

static CpuCode *overlap_compile(CpuOverlap *overlap, nereid_error **error) {
  const OverlapText *o = (const OverlapText *)overlap;
  Context *cx = context_create();
  if (!cx) {
    error_out_of_memory(error);
    return NULL;
  }
  Buf text = {0};
  CpuCompileInfo info = {0};
  CpuCode *volatile code = NULL;
  volatile nereid_status status = NEREID_INTERNAL;
  if (context_try(cx)) {
    cpu_emit_support(o->support, &text);
    size_t headers = text.n;
    buf_write(&text, o->body, o->body_size);
    code = compile_text(cx, &text, headers, &info, &status);
    context_end_try(cx);
  } else {
    error_from_context(error, status, cx);
  }
  buf_destroy(&text);
  context_destroy(cx);
  return code;
}

static void overlap_destroy(CpuOverlap *overlap) {
  OverlapText *o = (OverlapText *)overlap;
  cpu_code_release(overlap->code);
  pthread_mutex_destroy(&overlap->lock);
  free(o->body);
  free(o);
}

static CpuOverlap *overlap_create(Func *func, Context *cx) {
  Buf body = {.arena = cx->arena};
  unsigned support;
  cpu_emit_body(func, true, CPU_TEXT_COMPILED, &support, &body);
  OverlapText *o = calloc(1, sizeof *o);
  char *kept = malloc(body.n + 1);
  if (!o || !kept || pthread_mutex_init(&o->overlap.lock, NULL)) {
    free(o);
    free(kept);
    context_out_of_memory(cx);
    return NULL;
  }
  memcpy(kept, body.at, body.n);
  o->overlap.make = overlap_compile;
  o->overlap.destroy = overlap_destroy;
  o->support = support;
  o->body = kept;
  o->body_size = body.n;
  return &o->overlap;
}

static void compile_kernel(Specialization *s, Func *func, Context *cx, Buf *text, volatile nereid_status *phase) {
  *phase = NEREID_UNSUPPORTED;
  if (!assert_places_keep(func, &s->run.places)) context_out_of_memory(cx);
  int64_t start = clock_ns();
  tile_instrument(func);
  size_t headers;
  if (cpu_emit_c(func, false, CPU_TEXT_COMPILED, text, &headers)) s->run.overlap = overlap_create(func, cx);
  s->info.backend_ms = (double)(clock_ns() - start) / 1e6;
  CpuCompileInfo info = {0};
  s->run.code = compile_text(cx, text, headers, &info, phase);
  s->info.compiler_ms = info.from_cache ? 0 : info.cc_ms;
  s->info.from_cache = info.from_cache;
}

/* The first line of the C compiler's --version: "gcc
 * (Debian 12.2.0-14) 12.2.0". False when there is no compiler. */
static bool compiler_version(char *out, size_t size) {
  Context *cx = context_create();
  if (!cx) return false;
  Buf text = {0};
  volatile bool found = false;
  if (context_try(cx)) {
    found = cpu_compiler_version(cx, &text);
    context_end_try(cx);
  }
  context_destroy(cx);
  if (found) snprintf(out, size, "%.*s", (int)strcspn(text.at, "\n"), text.at);
  buf_destroy(&text);
  return found;
}

bool cpu_compiler_name(char *out, size_t size) {
  if (compiler_version(out, size)) return true;
  snprintf(out, size, "no C compiler was found: install gcc or clang, or name one in NEREID_CC");
  return false;
}

const Compiler compiler_cpu = {.kind = &device_cpu, .optimizes = true, .compile = compile_kernel};
