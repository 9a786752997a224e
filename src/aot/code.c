/* One specialization for one target: tile IR -> C -> a shared object, or -> PTX -> a cubin, with what a launch needs
 * beside it. Neither the GPU nor the processor need be here.
 *
 * Where a GPU's kernel uses tensor maps, or relies on arrays that lie apart, kernels without stand after it, for
 * launches whose arguments do not allow that.
 */
#include <assert.h>
#include <elf.h>
#include <stdlib.h>

#include "aot/aot.h"
#include "gpu/launch_plan.h"
#include "tile/analysis/provenance.h"

/* ---- targets ----------------------------------------------------------------------------------------------------- */

static void cpu_target(nereid_build *b, AotTarget *t, const char *processor) {
  Context *cx = b->cx;
  t->march = !strcmp(processor, "native") ? NULL : *processor ? arena_printf(cx->arena, "-march=%s", processor) : "";
  const char *macros = cpu_compiler_macros(cx, b->cc, t->march);
  bool x86 = strstr(macros, "#define __x86_64__ 1\n") != NULL;
  t->machine = x86                                           ? EM_X86_64
               : strstr(macros, "#define __aarch64__ 1\n")   ? EM_AARCH64
               : strstr(macros, "#define __riscv 1\n")       ? EM_RISCV
               : strstr(macros, "#define __powerpc64__ 1\n") ? EM_PPC64
                                                             : EM_NONE;
  if (!t->machine)
    diag_fail_hint(cx, (Span){0}, "name another compiler with --cc",
                   "%s: the C compiler makes code for a machine that is "
                   "not known here",
                   t->name);
  if (x86 && !*processor) { /* without vectors of a size that most have code is slow */
    t->name = "cpu:x86-64-v3";
    cpu_target(b, t, "x86-64-v3");
    return;
  }
  const char *all[PROCESSOR_MOST_FEATURES];
  int n = processor_features(t->machine, all);
  t->feature_count = 0;
  for (int i = 0; i < n; i++)
    if (strstr(macros, arena_printf(cx->arena, "#define __%s", all[i])) &&
        (strstr(macros, arena_printf(cx->arena, "#define __%s__ 1\n", all[i])) ||
         strstr(macros, arena_printf(cx->arena, "#define __%s 1\n", all[i]))))
      t->features[t->feature_count++] = all[i];
}

static void add_target(nereid_build *b, const char *name) {
  Context *cx = b->cx;
  for (int i = 0; i < b->target_count; i++)
    if (!strcmp(b->targets[i].name, name)) return;
  AotTarget *t = &b->targets[b->target_count++];
  *t = (AotTarget){.name = name};
  if (!strncmp(name, "cpu", 3) && (!name[3] || name[3] == ':')) {
    cpu_target(b, t, name[3] ? name + 4 : "");
    return;
  }
  t->gpu = gpu_target_find(name);
  if (t->gpu) return;
  Buf hint = {.arena = cx->arena};
  buf_puts(&hint, "there are cpu, cpu:PROCESSOR (cpu:native, cpu:x86-64-v4)");
  for (const GpuTarget *g = gpu_targets; g->name; g++) buf_printf(&hint, ", %s", g->name);
  diag_fail_hint(cx, (Span){0}, hint.at, "there is no target '%s'", name);
}

static bool is_exact(const GpuTarget *g) { return !g || g->name[strlen(g->name) - 1] == 'a'; }

void aot_targets(nereid_build *b, const char *text) {
  Context *cx = b->cx;
  int most = 3;
  for (const char *p = text; *p; p++) most += *p == ',';
  b->targets = NEW_N(cx->arena, AotTarget, most);
  char *copy = arena_strdup(cx->arena, text), *save = NULL;
  for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) add_target(b, w);
  if (!b->target_count) diag_fail_hint(cx, (Span){0}, "as in sm_80,sm_90a,cpu", "no target is named");
  /* PTX for later GPUs: of the newest target that others are like; where none is named, of the oldest */
  AotTarget *newest = NULL;
  bool gpu = false;
  for (int i = 0; i < b->target_count; i++) {
    AotTarget *t = &b->targets[i];
    gpu |= t->gpu != NULL;
    if (!is_exact(t->gpu) && (!newest || t->gpu->sm > newest->gpu->sm)) newest = t;
  }
  if (!newest && gpu) {
    newest = &b->targets[b->target_count++];
    *newest = (AotTarget){.name = "sm_80", .gpu = gpu_target_find("sm_80"), .is_added = true};
  }
  if (newest) newest->keeps_ptx = true;
}

/* ---- what all codes have ----------------------------------------------------------------------------------------- */

static Func *make_func(const AotSpecialization *s, const AotTarget *t, BundleVariant *v, BundleCode *c,
                       uint64_t *written) {
  Context *cx = s->cx;
  Buf print = {.arena = cx->arena};
  *s->phase = NEREID_BAD_SOURCE;
  Compiled *front = compile_front(s->module, s->call, s->options, t->gpu ? t->gpu->sm : 0, cx, &print);
  *s->phase = NEREID_UNSUPPORTED;
  if (front->zeroed_count)
    diag_fail(cx, (Span){0},
              "its autotune configuration zeroes arrays before each launch, which a launcher does not do");
  Func *f = front->func;
  if (!t->gpu) tile_expand_asm(f);
  *s->phase = NEREID_INTERNAL;
  tile_optimize(f, NULL, NULL, false);
  c->programs_wait = tile_waits(f);
  c->target = t->name;
  c->slot_count = front->slot_count;
  Arena *keep = s->keep;
  c->slots = NEW_N(keep, ArgSlot, front->slot_count + 1);
  bool *reads = NEW_N(cx->arena, bool, front->slot_count + 1), *writes = NEW_N(cx->arena, bool, front->slot_count + 1);
  tile_mod_ref(f, provenance_create(cx->arena, f), reads, writes);
  for (int i = 0; i < front->slot_count; i++) {
    const Slot *from = &front->slots[i];
    int value = aot_slot_value(s->entry, from);
    c->slots[i] = (ArgSlot){.param = value, .dtype = from->type->dtype, .is_pointer = from->type->ptr > 0};
    if (writes[i]) *written |= (uint64_t)1 << (value < 63 ? value : 63);
  }
  if (v->constants) return f;
  v->constants = NEW_N(keep, BundleConstant, front->constexpr_count + 2);
  for (int i = 0; i < front->constexpr_count; i++) {
    const char *value = front->constexpr_values[i];
    char *end;
    long long n = !strcmp(value, "True") ? 1 : strtoll(value, &end, 10);
    if (strcmp(value, "True") && (end == value || *end)) continue;
    v->constants[v->constant_count++] = (BundleConstant){arena_strdup(keep, front->constexpr_names[i]), n};
  }
  v->constants[v->constant_count++] = (BundleConstant){"num_warps", front->num_warps};
  v->constants[v->constant_count++] = (BundleConstant){"num_stages", front->num_stages};
  return f;
}

static BundleCode *add_code(const AotSpecialization *s, BundleVariant *v) {
  enum { ROOM = 8 }; /* machine code and PTX, with tensor maps and for arrays apart, and without */
  if (!v->codes) v->codes = NEW_N(s->keep, BundleCode, ROOM);
  assert(v->code_count < ROOM);
  return &v->codes[v->code_count];
}

/* ---- processors -------------------------------------------------------------------------------------------------- */

static void keep_places(Context *cx, Arena *keep, const Func *f, BundleCode *c) {
  AssertLocation *list = NULL, **end = &c->places;
  bool kept = assert_places_keep(f, &list);
  for (const AssertLocation *p = list; p && kept; p = p->next) {
    AssertLocation *q = NEW(keep, AssertLocation);
    *q = (AssertLocation){NULL, p->line, p->column, arena_strdup(keep, p->path), arena_strdup(keep, p->text)};
    *end = q;
    end = &q->next;
  }
  assert_locations_free(list);
  if (!kept) context_out_of_memory(cx);
}

static const void *keep_bytes(Arena *keep, const void *bytes, size_t n) {
  void *out = arena_alloc(keep, n + 1);
  memcpy(out, bytes, n);
  return out;
}

static const void *compile_object(const nereid_build *b, const AotSpecialization *s, const AotTarget *t,
                                  const Buf *text, size_t headers, size_t *bytes) {
  Buf image = {.arena = s->cx->arena};
  cpu_compile_for(s->cx, b->cc, t->march, &(CpuText){text->at, text->n, headers}, &image);
  *bytes = image.n;
  return keep_bytes(s->keep, image.at, image.n);
}

static void compile_cpu(const nereid_build *b, const AotSpecialization *s, const AotTarget *t, BundleVariant *v,
                        uint64_t *written) {
  Context *cx = s->cx;
  BundleCode *c = add_code(s, v);
  *c = (BundleCode){.kind = CODE_CPU, .machine = t->machine, .entry = "", .feature_count = t->feature_count};
  c->features = (const char **)t->features;
  Func *f = make_func(s, t, v, c, written);
  keep_places(cx, s->keep, f, c);
  Buf text = {.arena = cx->arena}, overlap = {.arena = cx->arena};
  *s->phase = NEREID_UNSUPPORTED;
  size_t headers, overlap_headers;
  bool differs = cpu_emit_c(f, false, CPU_TEXT_COMPILED, &text, &headers);
  if (differs) cpu_emit_c(f, true, CPU_TEXT_COMPILED, &overlap, &overlap_headers);
  *s->phase = NEREID_NO_COMPILER;
  c->image = compile_object(b, s, t, &text, headers, &c->image_bytes);
  if (differs) c->overlap = compile_object(b, s, t, &overlap, overlap_headers, &c->overlap_bytes);
  v->code_count++;
}

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */

static void keep_sites(Context *cx, Arena *keep, const LaneFunc *f, BundleCode *c) {
  DiagSites *kept = NULL;
  if (!diag_sites_keep(f, &kept)) context_out_of_memory(cx);
  if (!kept) return;
  size_t bytes = sizeof *kept + sizeof *kept->site * (size_t)kept->count;
  c->sites = arena_alloc(keep, bytes);
  memcpy(c->sites, kept, bytes);
  for (int i = 0; i < kept->count; i++) {
    DiagSite *to = &c->sites->site[i];
    to->types = NEW_N(keep, Type, to->type_count + 1);
    memcpy(to->types, kept->site[i].types, sizeof *to->types * (size_t)to->type_count);
    to->text = arena_strdup(keep, to->text);
    to->place = to->place ? arena_strdup(keep, to->place) : NULL;
    to->path = to->path ? arena_strdup(keep, to->path) : NULL;
  }
  diag_sites_free(kept);
}

static GpuLaunchPlan *keep_plan(Arena *keep, const GpuLaunchPlan *p) {
  GpuLaunchPlan *out = NEW(keep, GpuLaunchPlan);
  *out = *p;
  out->steps = arena_copy(keep, p->steps, sizeof *p->steps * (size_t)p->step_count);
  out->requires = arena_copy(keep, p->requires, sizeof *p->requires * (size_t)p->require_count);
  out->maps = arena_copy(keep, p->maps, sizeof *p->maps * (size_t)p->map_count);
  out->spans = arena_copy(keep, p->spans, sizeof *p->spans * (size_t)p->span_count);
  out->aparts = arena_copy(keep, p->aparts, sizeof *p->aparts * (size_t)p->apart_count);
  return out;
}

/* What the kernel asks of a launch. */
typedef struct Asks {
  bool maps, apart;
} Asks;

static Asks compile_gpu_once(const AotSpecialization *s, const AotTarget *t, BundleVariant *v, Asks may,
                             uint64_t *written) {
  Context *cx = s->cx;
  const char *wrong;
  BundleCode *c = add_code(s, v), made = {.kind = CODE_CUBIN, .sm = t->gpu->sm, .exact = is_exact(t->gpu)};
  Func *func = make_func(s, t, v, &made, written);
  const GpuOptions options = {.target = t->gpu,
                              .persist = s->options->persist,
                              .specialize = s->options->specialize,
                              .tensor_maps = may.maps,
                              .apart = may.apart,
                              .without = gpu_without(s->options->without, &wrong)};
  *s->phase = NEREID_UNSUPPORTED;
  LaneFunc *f = gpu_compile(func, &options);
  Buf *text = NEW(cx->arena, Buf);
  text->arena = cx->arena;
  GpuPtx ptx = gpu_print_ptx(text, f, t->gpu, false);
  *s->phase = NEREID_INTERNAL;
  GpuCubin cubin = {0};
  bool assembled = gpu_ptxas(cx, text, &ptx, t->gpu, &cubin);
  made.entry = arena_strdup(s->keep, gpu_entry_name(cx, f));
  made.num_warps = f->num_warps, made.shared_bytes = f->shared_bytes, made.persistent = f->persistent;
  made.blocks = gpu_occupancy(t->gpu, cubin.registers, f->shared_bytes, f->num_warps).blocks;
  if (f->plan) made.plan = keep_plan(s->keep, f->plan);
  keep_sites(cx, s->keep, f, &made);
  if (assembled) {
    made.image = keep_bytes(s->keep, cubin.bytes, cubin.size), made.image_bytes = cubin.size;
    gpu_cubin_free(&cubin);
    *c = made;
    v->code_count++;
  }
  if (t->keeps_ptx || !assembled) {
    c = add_code(s, v);
    *c = made;
    c->kind = CODE_PTX;
    c->image = keep_bytes(s->keep, text->at, text->n + 1), c->image_bytes = text->n + 1;
    v->code_count++;
  }
  return (Asks){f->plan && (f->plan->map_count || f->plan->require_count), f->plan && f->plan->apart_count};
}

/* The best code first; each launch takes the first that it allows. The last one asks nothing. */
static void compile_gpu(const AotSpecialization *s, const AotTarget *t, BundleVariant *v, uint64_t *written) {
  Asks asks = compile_gpu_once(s, t, v, (Asks){true, true}, written);
  bool maps = asks.maps;
  if (asks.apart) maps |= compile_gpu_once(s, t, v, (Asks){true, false}, written).maps;
  if (maps && compile_gpu_once(s, t, v, (Asks){false, true}, written).apart)
    compile_gpu_once(s, t, v, (Asks){false, false}, written);
}

void aot_compile(const nereid_build *b, const AotSpecialization *s, const AotTarget *t, BundleVariant *v,
                 uint64_t *written) {
  if (t->gpu) compile_gpu(s, t, v, written);
  else compile_cpu(b, s, t, v, written);
}
