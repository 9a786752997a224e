/* nereid_build: which specializations of which kernels a bundle has.
 *
 * Of a signature, parameters whose cases are named multiply: i32:1|any and i32:16|any make four. The others go
 * together, so that few are compiled: all are divisible by 16; the pointers alone; none. The most special one whose
 * conditions hold is launched. Two that the compiler cannot tell apart are one.
 *
 * For values that are named (--for n=4096:BLOCK=256, or what tuning found for them) there is one more, before the
 * others.
 */
#include <errno.h>
#include <stdlib.h>

#include "aot/aot.h"
#include "runtime/hooks.h"

enum { MOST_VARIANTS = 64 };

/* ---- the object -------------------------------------------------------------------------------------------------- */

nereid_status nereid_build_create(const nereid_build_options *o, nereid_build **out, nereid_error **error) {
  if (!out) return error_null(error, "nereid_build_create", "out");
  if (!o || !o->targets) return error_null(error, "nereid_build_create", "the targets");
  nereid_build *b = calloc(1, sizeof *b);
  if (b) b->cx = context_create();
  if (!b || !b->cx) {
    free(b);
    return error_out_of_memory(error);
  }
  b->cx->limits.memory = INT64_MAX; /* each compilation has its own */
  volatile nereid_status status = NEREID_OK;
  if (context_try(b->cx)) {
    b->cc = o->cc && *o->cc ? arena_strdup(b->cx->arena, o->cc) : NULL;
    b->content.made_by = "Nereid " NEREID_VERSION;
    aot_targets(b, o->targets);
    context_end_try(b->cx);
    *out = b;
  } else {
    status = error_from_context(error, NEREID_BAD_ARGUMENT, b->cx);
    nereid_build_free(b);
  }
  return status;
}

void nereid_build_free(nereid_build *b) {
  if (!b) return;
  for (int i = 0; i < b->kept.n; i++) arena_destroy(b->kept.at[i]);
  context_destroy(b->cx);
  free(b);
}

static BundleEntry *new_entry(nereid_build *b) {
  Arena *a = b->cx->arena;
  if (b->content.entry_count == b->entry_cap) {
    b->entry_cap = 2 * b->entry_cap + 4;
    BundleEntry *entries = NEW_N(a, BundleEntry, b->entry_cap);
    AotDoc *docs = NEW_N(a, AotDoc, b->entry_cap);
    if (b->content.entry_count) {
      memcpy(entries, b->content.entries, sizeof *entries * (size_t)b->content.entry_count);
      memcpy(docs, b->docs, sizeof *docs * (size_t)b->content.entry_count);
    }
    b->content.entries = entries, b->docs = docs;
  }
  return &b->content.entries[b->content.entry_count];
}

/* ---- specializations --------------------------------------------------------------------------------------------- */

typedef struct Wanted {
  nereid_module *module;
  const KernelInfo *kernel;
  const nereid_arg *args;
  int arg_count;
  const nereid_options *options;
  const Chosen *chosen; /* or NULL */
  const BundleEntry *entry;
} Wanted;

/* A variant of an entry that is not compiled yet. */
typedef struct Pending {
  BundleVariant *variant;
  Wanted wanted;
  Call call;
} Pending;

/* The variants of one entry. */
typedef struct Additions {
  nereid_build *build;
  VEC(Pending) pending;
} Additions;

/* One of them for one target. What it makes lies in an arena of its own. */
typedef struct Job {
  const nereid_build *build;
  const Pending *of;
  const AotTarget *target;
  BundleVariant made;
  uint64_t written;
  Arena *keep;
  nereid_status status;
  nereid_error *error;
} Job;

static void add_variant(Additions *a, BundleVariant *v, const Wanted *w) {
  vec_push(a->build->cx->arena, &a->pending, (Pending){.variant = v, .wanted = *w});
}

static nereid_status compile_for(Job *j, const AotTarget *target) {
  const Wanted *w = &j->of->wanted;
  volatile nereid_status phase = NEREID_BAD_SOURCE, status = NEREID_OK;
  Context *cx = context_within(w->options);
  if (!cx) return error_out_of_memory(&j->error);
  cx->compiler_seconds = w->options->compiler_seconds;
  if (context_try(cx)) {
    j->keep = arena_create(cx);
    aot_compile(j->build, &(AotSpecialization){cx, j->keep, w->module, &j->of->call, w->options, w->entry, &phase},
                target, &j->made, &j->written);
    context_end_try(cx);
  } else {
    status = error_from_context(&j->error, phase, cx);
  }
  context_destroy(cx);
  return status;
}

/* PTX for later GPUs that nobody named is of sm_89 where sm_80 lacks something: its types of fp8. */
static nereid_status compile_job(Job *j) {
  nereid_status status = compile_for(j, j->target);
  if (!status || !j->target->is_added || status == NEREID_OUT_OF_MEMORY) return status;
  AotTarget next = *j->target;
  next.gpu = gpu_target_find("sm_89");
  arena_destroy(j->keep);
  nereid_error *first = j->error;
  j->keep = NULL, j->error = NULL, j->made = (BundleVariant){0};
  status = compile_for(j, &next);
  if (status) nereid_error_free(j->error), j->error = first;
  else nereid_error_free(first);
  return status;
}

/* The kernel has no PTX for later GPUs. */
static void warn_of(const Job *j) {
  const nereid_options *o = j->of->wanted.options;
  nereid_error *warning = NULL;
  if (!o->warn) return;
  error_set(&warning, NEREID_OK, NULL, "kernel '%s' is built without PTX for later GPUs: %s",
            j->of->wanted.kernel->info.name, nereid_error_message(j->error));
  if (warning) o->warn(o->warn_arg, warning);
  nereid_error_free(warning);
}

static void compile_some(void *arg, int64_t begin, int64_t end, int worker) {
  Job *jobs = arg;
  for (int64_t i = begin; i < end; i++) jobs[i].status = compile_job(&jobs[i]);
}

/* The codes of a variant for all targets, in their order. */
static void join_codes(Arena *arena, const Job *jobs, int n, BundleVariant *v, uint64_t *written) {
  int count = 0;
  for (int i = 0; i < n; i++) count += jobs[i].made.code_count;
  v->codes = NEW_N(arena, BundleCode, count + 1);
  v->constants = jobs[0].made.constants, v->constant_count = jobs[0].made.constant_count;
  for (int i = 0; i < n; i++) {
    const BundleVariant *from = &jobs[i].made;
    if (from->code_count) memcpy(v->codes + v->code_count, from->codes, sizeof *v->codes * (size_t)from->code_count);
    v->code_count += from->code_count;
    *written |= jobs[i].written;
  }
}

static nereid_status bind_all(Additions *a, nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < a->pending.n && !status; i++) {
    Pending *p = &a->pending.at[i];
    const Wanted *w = &p->wanted;
    status = call_bind(&p->call, w->kernel, &device_cpu, w->args, w->arg_count, w->options, error);
    p->call.chosen = w->chosen;
  }
  return status;
}

/* All at once, on all processors. Of what fails the first is told, of kernels without PTX for later GPUs one. */
static nereid_status compile_jobs(nereid_build *b, Job *jobs, int n, nereid_error **error) {
  Pool *pool = n > 1 ? pool_create(0) : NULL;
  if (pool) pool_run(pool, n, 1, compile_some, jobs);
  else compile_some(jobs, 0, n, 0);
  pool_destroy(pool);
  bool warned = false;
  nereid_status status = NEREID_OK;
  for (int i = 0; i < n; i++) {
    b->kept.n += jobs[i].keep != NULL;
    if (jobs[i].keep) b->kept.at[b->kept.n - 1] = jobs[i].keep;
    if (jobs[i].status && jobs[i].target->is_added && jobs[i].status != NEREID_OUT_OF_MEMORY) {
      if (!status && !warned) warn_of(&jobs[i]);
      warned = true;
      nereid_error_free(jobs[i].error);
      jobs[i].made = (BundleVariant){0};
    } else if (jobs[i].status && !status) {
      status = jobs[i].status;
      if (error) *error = jobs[i].error;
      else nereid_error_free(jobs[i].error);
    } else {
      nereid_error_free(jobs[i].error);
    }
  }
  return status;
}

/* In a context_try of the build's. */
static nereid_status compile_all(Additions *a, uint64_t *written, nereid_error **error) {
  nereid_build *b = a->build;
  int targets = b->target_count, n = a->pending.n * targets;
  Job *jobs = NEW_N(b->cx->arena, Job, n + 1);
  for (int i = 0; i < n; i++)
    jobs[i] = (Job){.build = b, .of = &a->pending.at[i / targets], .target = &b->targets[i % targets]};
  vec_reserve(b->cx->arena, (void **)&b->kept.at, &b->kept.cap, b->kept.n + n, sizeof *b->kept.at);
  nereid_status status = bind_all(a, error);
  if (!status) status = compile_jobs(b, jobs, n, error);
  for (int i = 0; i < a->pending.n; i++) {
    Pending *p = &a->pending.at[i];
    call_free(&p->call);
    if (!status) join_codes(b->cx->arena, jobs + i * targets, targets, p->variant, written);
  }
  return status;
}

/* ---- signatures -------------------------------------------------------------------------------------------------- */

static const char *param_text(Context *cx, const nereid_build_arg *args, int n, const KernelInfo *k) {
  for (int i = 0; i < n; i++) {
    const char *name = args[i].name ? args[i].name : "";
    bool known = false;
    for (int j = 0; j < k->info.param_count; j++) known |= !strcmp(k->names[j], name);
    if (known) continue;
    const char *near = nearest_name(name, k->names);
    diag_fail(cx, (Span){0}, "kernel '%s' has no parameter '%s'%s%s%s", k->info.name, name,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
  return NULL;
}

static AotParams *read_signature(Context *cx, const KernelInfo *k, const nereid_build_arg *args, int n) {
  AotParams *out = NEW(cx->arena, AotParams);
  param_text(cx, args, n, k);
  for (int p = 0; p < k->info.param_count; p++) {
    const ParamRule *r = &k->rules[p];
    int first = out->n;
    for (int i = 0; i < n; i++) {
      const char *why = "is NULL";
      if (strcmp(args[i].name, r->name)) continue;
      if (out->n > first) diag_fail(cx, (Span){0}, "the parameter '%s' is given twice", r->name);
      if (!args[i].type || !aot_param_parse(cx, arena_strdup(cx->arena, args[i].type), r, out, &why))
        diag_fail(cx, (Span){0}, "%s=%s: %s", r->name, args[i].type ? args[i].type : "", why);
    }
    if (out->n > first) continue;
    if (!r->has_default && !r->is_set)
      diag_fail_hint(cx, (Span){0},
                     r->is_constexpr ? "give its value, as in BLOCK=1024"
                                     : "give its type, as in x_ptr=f32[M,N] or n=i32 (nereid build --help)",
                     "kernel '%s' lacks its parameter '%s'", k->info.name, r->name);
    if (!aot_param_add(out, r->name, r, PARAM_CONSTEXPR))
      diag_fail(cx, (Span){0}, "kernel '%s' has more than %d parameters", k->info.name, BUNDLE_MOST_PARAMS);
  }
  return out;
}

/* Numbers that heuristics look at decide on code, so that one code cannot serve all of them. */
static void check_read(Context *cx, const KernelInfo *k, const AotParams *params, const bool *fixed) {
  const char *sets = NULL;
  for (int p = 0; p < params->n; p++)
    if (!params->at[p].given && params->at[p].rule->is_set) sets = params->at[p].value.name;
  for (int p = 0; p < params->n && sets; p++) {
    const AotParam *q = &params->at[p];
    if (q->rule->is_read && (q->value.kind == PARAM_INT || q->value.kind == PARAM_FLOAT) && !fixed[p])
      diag_fail_hint(cx, (Span){0},
                     arena_printf(cx->arena, "give %s, or build for values: --for %s=4096", sets, q->value.name),
                     "the decorators of kernel '%s' compute '%s' of '%s'", k->info.name, sets, q->value.name);
  }
}

static bool same_conditions(const BundleVariant *a, const BundleVariant *b) {
  return a->condition_count == b->condition_count &&
         !memcmp(a->conditions, b->conditions, sizeof *a->conditions * (size_t)a->condition_count);
}

/* The next combination of what the parameters are built for; false: it was the last. chain: 0 all that may be are
 * divisible, 1 pointers are, 2 none is. */
static bool next_combination(const AotParams *params, unsigned *which, int *chain) {
  static const unsigned order[] = {FOR_ONE, FOR_DIVISIBLE, FOR_ANY};
  bool free = false;
  for (int p = 0; p < params->n; p++) free |= !params->at[p].chosen && params->at[p].cases & FOR_DIVISIBLE;
  if (free && *chain < 2) {
    ++*chain;
  } else {
    *chain = 0;
    int p = 0;
    for (; p < params->n; p++) {
      if (!params->at[p].chosen) continue;
      unsigned cases = params->at[p].cases;
      int at = 0;
      while (order[at] != which[p]) at++;
      for (at++; at < 3 && !(cases & order[at]);) at++;
      if (at < 3) {
        which[p] = order[at];
        break;
      }
      for (at = 0; !(cases & order[at]);) at++;
      which[p] = order[at];
    }
    if (p == params->n) return false;
  }
  for (int p = 0; p < params->n; p++) {
    const AotParam *q = &params->at[p];
    if (!q->chosen && q->cases & FOR_DIVISIBLE)
      which[p] = *chain == 0 || (*chain == 1 && q->value.kind == PARAM_POINTER) ? FOR_DIVISIBLE : FOR_ANY;
  }
  return true;
}

static int by_specialness(const void *x, const void *y) {
  const BundleVariant *a = x, *b = y;
  return b->condition_count - a->condition_count;
}

static void add_general(Additions *a, BundleEntry *e, Wanted *w, const AotParams *params) {
  Context *cx = a->build->cx;
  int n = params->n, chain = 0, first = e->variant_count;
  unsigned *which = NEW_N(cx->arena, unsigned, n + 1);
  bool *none = NEW_N(cx->arena, bool, n + 1);
  check_read(cx, w->kernel, params, none);
  for (int p = 0; p < n; p++) {
    unsigned cases = params->at[p].cases;
    which[p] = params->at[p].chosen && cases & FOR_ONE ? FOR_ONE : cases & FOR_DIVISIBLE ? FOR_DIVISIBLE : FOR_ANY;
  }
  AotValues values = aot_values(cx, params);
  do {
    nereid_arg *args = NEW_N(cx->arena, nereid_arg, n + 1);
    w->args = args;
    w->arg_count = aot_arguments(cx, params, which, args, &values);
    BundleVariant v = {0};
    aot_conditions(cx, &values, &v);
    bool known = false;
    for (int i = first; i < e->variant_count; i++) known |= same_conditions(&e->variants[i], &v);
    if (known) continue;
    if (e->variant_count == MOST_VARIANTS)
      diag_fail_hint(cx, (Span){0}, "name fewer cases: TYPE:16|any",
                     "kernel '%s' would have more than %d specializations", w->kernel->info.name, MOST_VARIANTS);
    e->variants[e->variant_count] = v;
    add_variant(a, &e->variants[e->variant_count++], w);
  } while (next_combination(params, which, &chain));
}

/* ---- for values -------------------------------------------------------------------------------------------------- */

/* "n=4096,m=8:BLOCK=256,num_warps=8" */
typedef struct Case {
  Chosen chosen;
  bool chooses;
} Case;

static void read_case(Context *cx, const char *text, const AotValues *values, BundleVariant *v, bool *fixed,
                      Case *out) {
  char *copy = arena_strdup(cx->arena, text), *colon = strchr(copy, ':'), *save = NULL;
  if (colon) *colon = 0;
  for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
    char *equals = strchr(w, '='), *end = w;
    int p = 0;
    if (equals) *equals = 0;
    while (p < values->count && strcmp(values->params[p].name, w)) p++;
    long long value = equals ? strtoll(equals + 1, &end, 0) : 0;
    bool is_int = p < values->count && values->params[p].kind == PARAM_INT && values->args[p];
    if (!equals || end == equals + 1 || *end || !is_int)
      diag_fail_hint(cx, (Span){0},
                     "values of integers, as in n=4096,m=8; after a colon a configuration: n=4096:BLOCK=256",
                     "--for %s: '%s' is no value of an integer of the kernel", text, w);
    values->args[p]->i = value;
    fixed[p] = true;
    v->conditions[v->condition_count++] = (BundleCondition){CONDITION_EQUAL, p, value};
  }
  if (!v->condition_count) diag_fail(cx, (Span){0}, "--for %s: it names no value", text);
  if (!colon) return;
  int most = 1;
  for (const char *p = colon + 1; *p; p++) most += *p == ',';
  const char **names = NEW_N(cx->arena, const char *, most), **texts = NEW_N(cx->arena, const char *, most);
  out->chooses = true;
  out->chosen = (Chosen){.names = names, .texts = texts};
  for (char *w = strtok_r(colon + 1, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
    char *equals = strchr(w, '=');
    if (!equals) diag_fail(cx, (Span){0}, "--for %s: '%s' is not NAME=VALUE", text, w);
    *equals = 0;
    int *count = !strcmp(w, "num_warps")    ? &out->chosen.num_warps
                 : !strcmp(w, "num_stages") ? &out->chosen.num_stages
                 : !strcmp(w, "num_ctas")   ? &out->chosen.num_ctas
                                            : NULL;
    if (count) *count = atoi(equals + 1);
    else names[out->chosen.count] = w, texts[out->chosen.count++] = equals + 1;
  }
}

/* What tuning found on d for these arguments. */
static nereid_status find_winner(nereid_device *d, const Wanted *w, const char *text, Context *cx, Case *out,
                                 nereid_error **error) {
  Call c;
  nereid_options o = *w->options;
  if (!o.grid) o.grid = "1";
  Found found = {0};
  Specialization *made = NULL;
  nereid_status status = call_bind_on(&c, w->kernel, d, w->args, w->arg_count, &o, error);
  if (!status) status = measure_hooks.find_configuration(d, w->module, &c, &o, NULL, false, &found, &made, error);
  const Chosen *from = c.chosen;
  call_free(&c);
  if (!status && from) {
    out->chooses = true;
    out->chosen = *from;
    const char **names = NEW_N(cx->arena, const char *, from->count + 1),
               **texts = NEW_N(cx->arena, const char *, from->count + 1);
    for (int i = 0; i < from->count; i++)
      names[i] = arena_strdup(cx->arena, from->names[i]), texts[i] = arena_strdup(cx->arena, from->texts[i]);
    out->chosen.names = names, out->chosen.texts = texts;
  }
  measure_hooks.found_free(&found);
  if (!status && !from)
    status =
        error_set(error, NEREID_BAD_ARGUMENT,
                  "tune it first (nereid tune, or a launch of an @triton.autotune kernel), or say the configuration: "
                  "--for n=4096:BLOCK=256,num_warps=8",
                  "--for %s: no winner for kernel '%s' is known on %s", text, w->kernel->info.name, d->name);
  return status;
}

static nereid_status add_case(Additions *a, BundleEntry *e, Wanted w, const AotParams *params, const char *text,
                              nereid_device *tuned_on, nereid_error **error) {
  Context *cx = a->build->cx;
  int n = params->n;
  unsigned *which = NEW_N(cx->arena, unsigned, n + 1);
  bool *fixed = NEW_N(cx->arena, bool, n + 1);
  nereid_arg *args = NEW_N(cx->arena, nereid_arg, n + 1);
  for (int p = 0; p < n; p++)
    which[p] = params->at[p].value.kind != PARAM_INT && params->at[p].cases & FOR_DIVISIBLE ? FOR_DIVISIBLE : FOR_ANY;
  AotValues values = aot_values(cx, params);
  w.args = args;
  w.arg_count = aot_arguments(cx, params, which, args, &values);
  BundleVariant v = {.conditions = NEW_N(cx->arena, BundleCondition, 3 * n + 1)}, special = {0};
  Case *how = NEW(cx->arena, Case);
  read_case(cx, text, &values, &v, fixed, how);
  check_read(cx, w.kernel, params, fixed);
  aot_conditions(cx, &values, &special);
  for (int i = 0; i < special.condition_count; i++)
    if (!fixed[special.conditions[i].param]) v.conditions[v.condition_count++] = special.conditions[i];
  if (!how->chooses && tuned_on) {
    nereid_status status = find_winner(tuned_on, &w, text, cx, how, error);
    if (status) return status;
  }
  if (how->chooses) w.chosen = &how->chosen;
  e->variants[e->variant_count] = v;
  add_variant(a, &e->variants[e->variant_count++], &w);
  return NEREID_OK;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

/* The same where a kernel of one name is the same: of a file its text, where a host says the names the module. */
static uint64_t meaning_of(const nereid_module *m) {
  return m->source ? hash_bytes(&m->number, sizeof m->number, 1) : hash_bytes(m->text, m->size, 2);
}

static nereid_status add(nereid_build *b, nereid_module *m, const KernelInfo *k, const nereid_build_arg *args, int n,
                         const nereid_build_how *how, const nereid_options *o, nereid_error **error) {
  Context *cx = b->cx;
  AotParams *params = read_signature(cx, k, args, n);
  BundleEntry *e = new_entry(b);
  AotDoc *doc = &b->docs[b->content.entry_count];
  *doc = (AotDoc){.is_launcher = true, .params = params, .meaning = meaning_of(m)};
  *e = (BundleEntry){.name = arena_strdup(cx->arena, k->info.name), .path = arena_strdup(cx->arena, m->path)};
  e->param_count = params->n;
  e->params = NEW_N(cx->arena, BundleParam, params->n + 1);
  for (int p = 0; p < params->n; p++) {
    e->params[p] = params->at[p].value;
    e->params[p].name = arena_strdup(cx->arena, e->params[p].name);
  }
  const char *grid = how ? how->grid : NULL;
  if (grid) {
    const char *wrong = aot_grid_parse(cx, grid, e, e->grid);
    if (wrong) diag_fail(cx, (Span){0}, "the grid '%s' %s", grid, wrong);
    e->has_grid = true;
    doc->grid = arena_strdup(cx->arena, grid);
  }
  e->variants = NEW_N(cx->arena, BundleVariant, MOST_VARIANTS + (how ? how->case_count : 0) + 1);
  Wanted w = {.module = m, .kernel = k, .options = o, .entry = e};
  nereid_status status = NEREID_OK;
  Additions a = {.build = b};
  for (int i = 0; how && i < how->case_count && !status; i++)
    status = add_case(&a, e, w, params, how->cases[i], how->tuned_on, error);
  int first = e->variant_count;
  if (!status && !(how && how->only_cases)) add_general(&a, e, &w, params);
  if (!status) status = compile_all(&a, &doc->written, error);
  if (!status) qsort(e->variants + first, (size_t)(e->variant_count - first), sizeof *e->variants, by_specialness);
  for (int i = 0; i < e->variant_count && !status && grid; i++)
    for (int d = 0; d < 3; d++)
      for (int s = 0; s < e->grid[d].count; s++) {
        const GridStep *step = &e->grid[d].steps[s];
        int c = 0;
        if (step->op != GRID_CONSTANT) continue;
        while (c < e->variants[i].constant_count && strcmp(e->variants[i].constants[c].name, step->name)) c++;
        if (c == e->variants[i].constant_count)
          diag_fail(cx, (Span){0}, "the grid '%s' names '%s', which kernel '%s' does not have as an integer", grid,
                    step->name, k->info.name);
      }
  if (!status) b->content.entry_count++;
  return status;
}

static nereid_status begin(nereid_build *b, const char *function, nereid_module *m, const char *kernel,
                           const KernelInfo **k, nereid_error **error) {
  if (!b) return error_null(error, function, "the build");
  if (!m) return error_null(error, function, "the module");
  if (!kernel) return error_null(error, function, "the kernel's name");
  if (!(*k = module_kernel(m, kernel, error))) return NEREID_BAD_ARGUMENT;
  if (m->is_cuda_c)
    return error_set(error, NEREID_UNSUPPORTED, NULL, "%s is CUDA C; nvcc builds it ahead of time", m->path);
  return NEREID_OK;
}

nereid_status nereid_build_add(nereid_build *b, nereid_module *m, const char *kernel, const nereid_build_arg *args,
                               int n, const nereid_build_how *how, const nereid_options *o, nereid_error **error) {
  const KernelInfo *k;
  nereid_status status = begin(b, "nereid_build_add", m, kernel, &k, error);
  if (status) return status;
  if (n < 0 || (n && !args)) return error_null(error, "nereid_build_add", "args");
  volatile nereid_status result = NEREID_BAD_ARGUMENT;
  b->cx->diags.n = 0;
  if (context_try(b->cx)) {
    result = add(b, m, k, args, n, how, o ? o : &options_default, error);
    context_end_try(b->cx);
  } else {
    result = error_from_context(error, NEREID_BAD_ARGUMENT, b->cx);
  }
  return result;
}

/* ---- one launch -------------------------------------------------------------------------------------------------- */

static bool same_params(const BundleEntry *a, const BundleEntry *b) {
  if (strcmp(a->name, b->name) || strcmp(a->path, b->path) || a->param_count != b->param_count) return false;
  for (int p = 0; p < a->param_count; p++)
    if (a->params[p].kind != b->params[p].kind || a->params[p].dtype != b->params[p].dtype ||
        strcmp(a->params[p].constant, b->params[p].constant) || strcmp(a->params[p].name, b->params[p].name) ||
        a->params[p].size != b->params[p].size || a->params[p].nan_padding != b->params[p].nan_padding ||
        memcmp(a->params[p].block_shape, b->params[p].block_shape, sizeof a->params[p].block_shape))
      return false;
  return true;
}

/* The entry that launches of e's kind take, NULL if there is none yet. A kernel of the same name, types and constants
 * whose free names (or whose def) are others has an entry of its own, which a launch must be able to name: k.2, k.3. */
static BundleEntry *entry_for(nereid_build *b, BundleEntry *e, uint64_t meaning) {
  const char *name = e->name;
  for (int nth = 2, i = 0; i < b->content.entry_count; i++) {
    BundleEntry *other = &b->content.entries[i];
    if (!same_params(other, e)) continue;
    if (b->docs[i].meaning == meaning) return other;
    e->name = arena_printf(b->cx->arena, "%s.%d", name, nth++);
    i = -1; /* again, by that name */
  }
  return NULL;
}

static nereid_status add_launch(nereid_build *b, nereid_module *m, const Call *c, const nereid_options *o,
                                nereid_error **error) {
  Context *cx = b->cx;
  BundleEntry e = {.name = c->kernel->info.name, .path = m->path}, *at;
  nereid_arg *args = NEW_N(cx->arena, nereid_arg, c->kernel->info.param_count + 1);
  int n = 0;
  AotValues values = aot_values_of(cx, c->kernel, c->args, args, &n);
  e.params = arena_copy(cx->arena, values.params, sizeof *e.params * (size_t)(values.count + 1));
  e.param_count = values.count;
  BundleVariant v = {0};
  aot_conditions(cx, &values, &v);
  for (int p = 0; p < e.param_count; p++) { /* numbers that decide on code themselves */
    const nereid_arg *a = values.args[p];
    if (!a || !call_value_counts(c, values.rules[p])) continue;
    int64_t value = a->i;
    if (a->kind == NEREID_ARG_FLOAT) memcpy(&value, &a->f, sizeof value);
    if (e.params[p].kind == PARAM_INT || e.params[p].kind == PARAM_FLOAT)
      v.conditions[v.condition_count++] = (BundleCondition){CONDITION_EQUAL, p, value};
  }
  at = entry_for(b, &e, meaning_of(m));
  for (int i = 0; at && i < at->variant_count; i++)
    if (same_conditions(&at->variants[i], &v)) return NEREID_OK;
  bool is_new = !at;
  if (is_new) {
    at = new_entry(b);
    *at = e;
    at->name = arena_strdup(cx->arena, e.name), at->path = arena_strdup(cx->arena, e.path);
    b->docs[b->content.entry_count] = (AotDoc){.meaning = meaning_of(m)};
  }
  if ((at->variant_count & (at->variant_count + 1)) == 0) {
    BundleVariant *grown = NEW_N(cx->arena, BundleVariant, 2 * at->variant_count + 2);
    if (at->variant_count) memcpy(grown, at->variants, sizeof *grown * (size_t)at->variant_count);
    at->variants = grown;
  }
  uint64_t written = 0;
  Wanted w = {.module = m, .kernel = c->kernel, .args = args, .arg_count = n, .options = o, .entry = &e};
  Additions a = {.build = b};
  add_variant(&a, &v, &w);
  nereid_status status = compile_all(&a, &written, error);
  if (status) return status;
  at->variants[at->variant_count++] = v;
  qsort(at->variants, (size_t)at->variant_count, sizeof *at->variants, by_specialness);
  b->content.entry_count += is_new;
  return NEREID_OK;
}

nereid_status nereid_build_add_launch(nereid_build *b, nereid_module *m, const char *kernel, const nereid_arg *args,
                                      int n, const nereid_options *o, nereid_error **error) {
  const KernelInfo *k;
  nereid_status status = begin(b, "nereid_build_add_launch", m, kernel, &k, error);
  if (status) return status;
  Call c;
  status = call_bind(&c, k, &device_cpu, args, n, o ? o : &options_default, error);
  volatile nereid_status result = status;
  b->cx->diags.n = 0;
  if (!status && context_try(b->cx)) {
    result = add_launch(b, m, &c, o ? o : &options_default, error);
    context_end_try(b->cx);
  } else if (!status) {
    result = error_from_context(error, NEREID_UNSUPPORTED, b->cx);
  }
  call_free(&c);
  return result;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static nereid_status write_file(const char *path, const Buf *b, nereid_error **error) {
  if (b->failed) return error_out_of_memory(error);
  if (file_write_atomic(path, b->at, b->n)) return NEREID_OK;
  return error_errno(error, NEREID_BAD_FILE, errno, "cannot write %s", path);
}

nereid_status nereid_build_write(nereid_build *b, const char *path, nereid_error **error) {
  if (!b) return error_null(error, "nereid_build_write", "the build");
  if (!path) return error_null(error, "nereid_build_write", "the path");
  Arena *a = b->cx->arena;
  volatile nereid_status status = NEREID_OUT_OF_MEMORY;
  if (context_try(b->cx)) {
    Buf out = {.arena = a};
    aot_write(&b->content, a, &out);
    status = write_file(path, &out, error);
    context_end_try(b->cx);
  } else {
    status = error_from_context(error, NEREID_INTERNAL, b->cx);
  }
  return status;
}

nereid_status nereid_build_write_c(nereid_build *b, const char *base, nereid_error **error) {
  if (!b) return error_null(error, "nereid_build_write_c", "the build");
  if (!base || !*base) return error_null(error, "nereid_build_write_c", "the name");
  Context *cx = b->cx;
  const char *slash = strrchr(base, '/'), *name = slash ? slash + 1 : base;
  volatile nereid_status status = NEREID_OUT_OF_MEMORY;
  bool good = *name != 0; /* it stands in C texts */
  for (const char *p = name; *p; p++) good = good && (unsigned char)*p >= ' ' && !strchr("\"\\*?", *p);
  if (!good)
    return error_set(error, NEREID_BAD_ARGUMENT, "as in out/kernels, for out/kernels.h and out/kernels.c",
                     "'%s' names no C files", base);
  if (context_try(cx)) {
    Buf bytes = {.arena = cx->arena}, header = {.arena = cx->arena}, c = {.arena = cx->arena};
    aot_write(&b->content, cx->arena, &bytes);
    aot_write_header(b, name, &header);
    aot_write_c(b, name, &bytes, &c);
    status = write_file(arena_printf(cx->arena, "%s.h", base), &header, error);
    if (!status) status = write_file(arena_printf(cx->arena, "%s.c", base), &c, error);
    context_end_try(cx);
  } else {
    status = error_from_context(error, NEREID_INTERNAL, cx);
  }
  return status;
}
