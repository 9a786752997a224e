/* Compiling one specialization: text -> AST -> tile IR -> what the device runs.
 *
 * All of it happens in one Context, which goes at the end, but for the interpreter's: it runs the tile IR itself. Only
 * the slots and the loaded code outlive it.
 */
#include <stdlib.h>

#include "runtime/inside.h"

const nereid_options options_default = {0};

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
                                  .inside = o->inside,
                                  .print = print};
  Module *front = front_load_text(cx, m->path, m->text, m->size);
  return front_compile(front, front_kernel_at(front, c->kernel->index), call_specs(c, cx), &options);
}

void specialization_keep_slots(Specialization *s, const Compiled *from, Context *cx) {
  s->slots = calloc((size_t)from->slot_count + 1, sizeof *s->slots);
  if (!s->slots) context_out_of_memory(cx);
  s->slot_count = from->slot_count;
  for (int i = 0; i < from->slot_count; i++) {
    const Slot *f = &from->slots[i];
    ArgSlot *t = &s->slots[i];
    *t = (ArgSlot){.kind = f->kind,
                   .param = f->param,
                   .depth = f->depth,
                   .dim = f->dim,
                   .dtype = f->type->dtype,
                   .is_pointer = f->type->ptr > 0};
    memcpy(t->path, f->path, sizeof t->path);
    s->pointer_count += t->is_pointer;
  }
}

/* Of CUDA C every parameter is one slot. */
static void keep_c_slots(Specialization *s, Context *cx) {
  int n = s->kernel->info.param_count;
  s->slots = calloc((size_t)n + 1, sizeof *s->slots);
  if (!s->slots) context_out_of_memory(cx);
  s->slot_count = n;
  for (int i = 0; i < n; i++) {
    const ParamRule *r = &s->kernel->rules[i];
    s->slots[i] = (ArgSlot){.kind = SLOT_ARG, .param = i, .dtype = r->dtype, .is_pointer = r->forced_pointer, .align = r->forced_target ? 0 : r->align};
    s->pointer_count += r->forced_pointer;
  }
}

static void compile_cuda_c(Specialization *s, Context *cx, volatile nereid_status *phase) {
  *phase = NEREID_UNSUPPORTED;
  if (!s->kind->compile_cuda_c)
    fail_hint(cx, (Span){0}, "open the device \"cuda\"", "kernel '%s' is CUDA C, which the device %s does not run", s->kernel->info.name,
              s->device->name);
  keep_c_slots(s, cx);
  s->kind->compile_cuda_c(s, cx, phase);
}

/* Buffers that must not be lost when the compilation unwinds. */
typedef struct Texts {
  Buf print, c;
} Texts;

static bool compile(Specialization *s, const Call *c, const nereid_options *o, Context *cx, Texts *texts,
                    nereid_error **error) {
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
    phase = NEREID_INTERNAL;
    if (s->kind->optimizes) tile_optimize(front->func, NULL, NULL, false);
    else tile_sum_dots(front->func); /* the order of sums is the same everywhere */
    s->info.front_ms = (double)(clock_ns() - start) / 1e6;
    s->info.num_warps = front->num_warps;
    s->info.num_stages = front->num_stages;
    s->kind->compile(s, front->func, cx, &texts->c, &phase);
    inside_keep_regions(s, front->func, cx);
    s->info.peak_bytes = (int64_t)(arena_used(cx->arena) + texts->c.cap);
    context_end_try(cx);
    return true;
  }
  error_from_context(error, phase, cx);
  return false;
}

Specialization *specialization_create(nereid_module *m, const Call *c, nereid_device *d, const nereid_options *o,
                                      nereid_error **error) {
  Specialization *s = calloc(1, sizeof *s);
  Context *cx = context_create();
  unsigned char *key = malloc(c->key_size + 1);
  if (!s || !cx || !key) {
    free(s);
    free(key);
    context_destroy(cx);
    error_out_of_memory(error);
    return NULL;
  }
  memcpy(key, c->key, c->key_size);
  *s = (Specialization){.hash = c->hash,
                        .key = key,
                        .key_size = c->key_size,
                        .module = m,
                        .kernel = c->kernel,
                        .kind = d->kind,
                        .device = d,
                        .lists_programs = d->kind->lists_programs && o->programs};
  Texts texts = {0};
  bool done = compile(s, c, o, cx, &texts, error);
  s->device = NULL;
  print_lines(&texts.print, o);
  buf_destroy(&texts.print);
  buf_destroy(&texts.c);
  if (done && s->keeps_context) s->cx = cx;
  else context_destroy(cx);
  if (done) return s;
  specialization_destroy(s);
  return NULL;
}

void specialization_destroy(Specialization *s) {
  if (!s) return;
  s->kind->discard(s);
  inside_free_regions(s->regions);
  context_destroy(s->cx);
  free(s->slots);
  free(s->key);
  free(s);
}
