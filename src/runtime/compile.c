/* Compiling one specialization: text -> AST -> tile IR -> what the device runs.
 *
 * All of it happens in one Context, which goes at the end, but for the interpreter's: it runs the tile IR itself. Only
 * the slots and the loaded code outlive it.
 */
#include <stdlib.h>

#include "runtime/hooks.h"
#include "runtime/instrument.h"
#include "tile/analysis/provenance.h"

const DeviceKind *const device_kinds[] = {&device_cpu, &device_interp, &device_sim, &device_cuda, NULL};
const char device_kinds_hint[] = "there are cpu, cpu:THREADS, interp, sim and cuda:N";
static const Compiler *const compilers[] = {&compiler_cpu, &compiler_interp, &compiler_sim, &compiler_cuda};

static const Compiler *compiler_of(const DeviceKind *kind) {
  int i = 0;
  while (compilers[i]->kind != kind) i++;
  return compilers[i];
}

atomic_int prof_sessions;

void print_lines(const Buf *text, const nereid_options *o) {
  for (size_t i = 0; i < text->n;) {
    size_t n = strcspn(text->at + i, "\n");
    if (o->print) {
      char *line = strndup(text->at + i, n);
      if (line) o->print(o->print_arg, line);
      free(line);
    } else {
      fprintf(stderr, "%.*s\n", (int)n, text->at + i);
    }
    i += n + (text->at[i + n] != 0);
    if (i < text->n && !text->at[i]) break;
  }
}

Compiled *compile_front(nereid_module *m, const Call *c, const nereid_options *o, int cuda_sm, Context *cx,
                        Buf *print) {
  const CompileOptions options = {.num_warps = o->num_warps,
                                  .num_stages = o->num_stages,
                                  .num_ctas = o->num_ctas,
                                  .debug = o->debug,
                                  .cuda_sm = cuda_sm,
                                  .instrument = o->instrument,
                                  .chosen = c->chosen,
                                  .no_sanitize_overflow = o->no_sanitize_overflow,
                                  .dot_precision = o->dot_precision,
                                  .no_fp_fusion = o->no_fp_fusion,
                                  .max_registers = o->max_registers,
                                  .print = print};
  Module *front = module_front(m, cx, cuda_sm);
  Compiled *compiled = front_compile(front, front_kernel_at(front, c->kernel->index), call_specs(c, cx), &options);
  names_remember(m, front);
  return compiled;
}

void specialization_keep_slots(Specialization *s, const Compiled *from, Context *cx) {
  s->run.slots = calloc((size_t)from->slot_count + 1, sizeof *s->run.slots);
  if (!s->run.slots) context_out_of_memory(cx);
  s->run.slot_count = from->slot_count;
  for (int i = 0; i < from->slot_count; i++) {
    const Slot *f = &from->slots[i];
    ArgSlot *t = &s->run.slots[i];
    *t = (ArgSlot){.kind = f->kind,
                   .param = f->param,
                   .depth = f->depth,
                   .dim = f->dim,
                   .dtype = f->type->dtype,
                   .is_pointer = f->type->ptr > 0};
    memcpy(t->path, f->path, sizeof t->path);
    s->run.pointer_count += t->is_pointer;
  }
}

/* The configuration, for grids and for people; what it zeroes. */
static void keep_config(Specialization *s, const Compiled *from, Context *cx) {
  s->constants = calloc((size_t)from->constexpr_count + 1, sizeof *s->constants);
  s->zeroed = calloc((size_t)from->zeroed_count + 1, sizeof *s->zeroed);
  s->grid_memo = grid_memo_create();
  if (!s->constants || !s->zeroed || !s->grid_memo) context_out_of_memory(cx);
  Buf text = {0};
  bool failed = false;
  for (int i = 0; i < from->constexpr_count && !failed; i++) {
    const char *value = from->constexpr_values[i];
    char *end;
    double v = !strcmp(value, "True") ? 1 : !strcmp(value, "False") ? 0 : text_to_double(value, &end);
    bool number = !strcmp(value, "True") || !strcmp(value, "False") || (end != value && !*end);
    buf_printf(&text, "%s=%s\n", from->constexpr_names[i], value);
    if (!number) continue;
    struct Constant *k = &s->constants[s->constant_count];
    k->name = strdup(from->constexpr_names[i]), k->value = v;
    failed = !k->name;
    s->constant_count += !failed;
  }
  buf_printf(&text, "num_warps=%d\nnum_stages=%d\nnum_ctas=%d\n", from->num_warps, from->num_stages, from->num_ctas);
  s->config = text.failed ? NULL : strdup(text.at);
  buf_destroy(&text);
  if (failed || !s->config) context_out_of_memory(cx);
  if (from->zeroed_count) memcpy(s->zeroed, from->zeroed, sizeof *s->zeroed * (size_t)from->zeroed_count);
  s->zeroed_count = from->zeroed_count;
}

static uint64_t by_param(const Specialization *s, const bool *by_slot) {
  uint64_t out = 0;
  for (int i = 0; i < s->run.slot_count; i++)
    if (by_slot[i]) out |= (uint64_t)1 << (s->run.slots[i].param < 63 ? s->run.slots[i].param : 63);
  return out;
}

static void keep_mod_ref(Specialization *s, const Func *f) {
  Arena *a = f->cx->arena;
  bool *read = NEW_N(a, bool, f->body->arg_count + 1), *written = NEW_N(a, bool, f->body->arg_count + 1);
  tile_mod_ref(f, provenance_create(a, f), read, written);
  s->reads = by_param(s, read), s->writes = by_param(s, written);
}

/* The most bytes of one tile that a thread holds, when all threads share it. */
typedef struct Widest {
  int64_t bytes;
  const Type *type;
} Widest;
static void find_widest(Op *op, void *arg) {
  Widest *w = arg;
  for (int i = 0; i < op->out_count; i++) {
    const Type *t = op->out[i]->type;
    if (op->code != OP_LOAD || t->ptr || type_numel(t) * dtype_bytes(t->dtype) <= w->bytes) continue;
    w->bytes = type_numel(t) * dtype_bytes(t->dtype), w->type = t;
  }
}

static void check_thread_bytes(const Compiled *front, TileLimit *limit, Context *cx, volatile nereid_status *phase) {
  Widest w = {0};
  tile_walk(front->func->body, find_widest, &w);
  int64_t each = w.bytes / (32 * front->num_warps), most = limit->thread_bytes;
  *phase = NEREID_UNSUPPORTED;
  limit->exceeded = most && each > most;
  if (limit->exceeded)
    diag_fail(cx, (Span){0}, "a thread would hold %lld bytes of a tile of %lld in its %lld bytes of registers",
              (long long)each, (long long)w.bytes, (long long)most);
}

/* Of CUDA C every parameter is one slot. */
static void keep_c_slots(Specialization *s, Context *cx) {
  int n = s->kernel->info.param_count;
  s->run.slots = calloc((size_t)n + 1, sizeof *s->run.slots);
  if (!s->run.slots) context_out_of_memory(cx);
  s->run.slot_count = n;
  for (int i = 0; i < n; i++) {
    const ParamRule *r = &s->kernel->rules[i];
    s->run.slots[i] = (ArgSlot){.kind = SLOT_ARG,
                                .param = i,
                                .dtype = r->dtype,
                                .is_pointer = r->forced_pointer,
                                .align = r->forced_target ? 0 : r->align};
    s->run.pointer_count += r->forced_pointer;
  }
}

static void compile_cuda_c(Specialization *s, Context *cx, volatile nereid_status *phase) {
  *phase = NEREID_UNSUPPORTED;
  if (!compiler_of(s->run.kind)->compile_cuda_c)
    diag_fail_hint(cx, (Span){0}, "open the device \"cuda\"", "kernel '%s' is CUDA C, which the device %s does not run",
                   s->kernel->info.name, s->device->name);
  keep_c_slots(s, cx);
  compiler_of(s->run.kind)->compile_cuda_c(s, cx, phase);
}

/* Buffers that must not be lost when the compilation unwinds. */
typedef struct Texts {
  Buf print, c;
} Texts;

static bool compile(Specialization *s, const Call *c, const nereid_options *o, TileLimit *limit, Context *cx,
                    Texts *texts, nereid_error **error) {
  const Compiler *const volatile of = compiler_of(s->run.kind);
  volatile nereid_status phase = NEREID_BAD_SOURCE; /* what a failure here is called */
  if (s->module->is_cuda_c && context_try(cx)) {
    compile_cuda_c(s, cx, &phase);
    s->info.peak_bytes = (int64_t)arena_used(cx->arena);
    context_end_try(cx);
    return true;
  }
  if (!s->module->is_cuda_c && context_try(cx)) {
    int64_t start = clock_ns();
    Compiled *front = compile_front(s->module, c, o, s->device->cuda_sm, cx, &texts->print);
    specialization_keep_slots(s, front, cx);
    keep_config(s, front, cx);
    check_thread_bytes(front, limit, cx, &phase);
    phase = NEREID_UNSUPPORTED;
    if (!of->runs_ptx) tile_expand_asm(front->func);
    phase = NEREID_INTERNAL;
    if (of->optimizes) tile_optimize(front->func, NULL, NULL, false);
    else tile_fold_dot_sum(front->func), tile_mark_waits(front->func); /* the order of sums is the same everywhere */
    if (of->finds_undefined && o->debug && !o->allow_unwritten) tile_track_undefined(front->func);
    s->info.programs_wait = s->run.programs_wait = tile_waits(front->func);
    keep_mod_ref(s, front->func);
    s->info.front_ms = (double)(clock_ns() - start) / 1e6;
    s->info.num_warps = front->num_warps;
    s->info.num_stages = front->num_stages;
    of->compile(s, front->func, cx, &texts->c, &phase);
    s->block_warps = front->func->num_warps;
    if (texts->c.n) s->code_hash = hash_bytes(texts->c.at, texts->c.n, 0) | 1;
    instrument_keep_regions(s, front->func, cx);
    s->info.peak_bytes = (int64_t)(arena_used(cx->arena) + texts->c.cap);
    context_end_try(cx);
    return true;
  }
  error_from_context(error, phase, cx);
  return false;
}

/* Once: a cache that is not used costs a compilation a launch. */
static void say_problem(const nereid_options *o) {
  static atomic_bool said;
  Buf why = {0}, line = {0};
  if (store_problem(&why) && why.at && !atomic_exchange(&said, true)) {
    buf_printf(&line, "nereid: the cache is not used: %s", why.at);
    if (!line.failed) print_lines(&line, o);
  }
  buf_destroy(&why);
  buf_destroy(&line);
}

Specialization *specialization_create(nereid_module *m, const Call *c, nereid_device *d, const nereid_options *o,
                                      nereid_error **error) {
  return specialization_create_within(m, c, d, o, &(TileLimit){0}, error);
}

Specialization *specialization_create_within(nereid_module *m, const Call *c, nereid_device *d, const nereid_options *o,
                                             TileLimit *limit, nereid_error **error) {
  Specialization *s = calloc(1, sizeof *s);
  Context *cx = context_within(o);
  unsigned char *key = malloc(c->key_size + 1);
  if (!s || !cx || !key) {
    free(s);
    free(key);
    context_destroy(cx);
    error_out_of_memory(error);
    return NULL;
  }
  cx->compiler_seconds = o->compiler_seconds;
  memcpy(key, c->key, c->key_size);
  *s = (Specialization){
      .run = {.kind = d->kind, .name = c->kernel->info.name, .params = c->kernel->names, .path = m->path},
      .hash = c->hash,
      .key = key,
      .key_size = c->key_size,
      .module = m,
      .kernel = c->kernel,
      .device = d,
      .lists_programs = d->kind->lists_programs && o->programs,
      .without = o->without,
      .persist = o->persist,
      .specialize = o->specialize};
  Texts texts = {0};
  bool done = compile(s, c, o, limit, cx, &texts, error);
  s->device = NULL;
  print_lines(&texts.print, o);
  warn_from_context(o, cx);
  buf_destroy(&texts.print);
  buf_destroy(&texts.c);
  if (done && s->keeps_context) s->cx = cx;
  else context_destroy(cx);
  if (done && s->info.compiler_ms > 0) say_problem(o);
  if (done) return s;
  specialization_destroy(s);
  return NULL;
}

void specialization_destroy(Specialization *s) {
  if (!s) return;
  kernel_release(&s->run);
  instrument_free_regions(s->regions);
  context_destroy(s->cx);
  for (int i = 0; i < s->constant_count; i++) free(s->constants[i].name);
  free(s->constants);
  free(s->config);
  free(s->zeroed);
  grid_memo_free(s->grid_memo);
  free(s->key);
  free(s);
}
