/* Modules: the text of one file of Python, or of CUDA C, as it was when it was loaded, and what its kernels look like
 * from outside.
 *
 * The front end's own Module belongs to one compilation and is made again for each (parsing takes a fraction of a
 * millisecond); here are kept the text, and copies of the kernels' names and parameters. So a file that is edited while
 * a program runs does not change the kernels that were loaded from it. Files that it imports are read when a kernel is
 * compiled.
 */
#include <errno.h>
#include <stdlib.h>

#include "runtime/hooks.h"
#include "runtime/cuda_c/cuda_c.h"
#include "runtime/runtime.h"

static const char *keep(Arena *a, const char *s) { return s ? arena_strdup(a, s) : NULL; }

/* An annotation that forces a type, "i64" or "*fp16": what it asks of an argument. */
static void read_forced(ParamRule *r, const char *annotation) {
  if (!annotation) return;
  if (strchr(annotation, '*')) r->forced_pointer = true;
  else r->forced_number = dtype_parse(annotation, &r->dtype);
}

/* Copies what the front end's k says. False: out of memory. */
static bool keep_kernel(nereid_module *m, KernelInfo *out, int index, const Kernel *k) {
  int n = kernel_param_count(k);
  nereid_param *params = NEW_N(m->arena, nereid_param, n);
  ParamRule *rules = NEW_N(m->arena, ParamRule, n);
  const char **names = NEW_N(m->arena, const char *, n + 1);
  const char *name = keep(m->arena, kernel_name(k));
  DecoratorUse *use = NEW_N(m->arena, DecoratorUse, n);
  if (!params || !rules || !names || !name || !use) return false;
  bool decorated = kernel_decorator_use(k, use);
  for (int i = 0; i < n; i++) {
    const KernelParam *p = kernel_param(k, i);
    names[i] = keep(m->arena, p->name);
    if (!names[i]) return false;
    params[i] = (nereid_param){names[i], keep(m->arena, p->annotation), keep(m->arena, p->default_text),
                               p->is_constexpr, use[i].sets};
    if ((p->annotation && !params[i].annotation) || (p->default_text && !params[i].default_text)) return false;
    rules[i] = (ParamRule){.name = names[i],
                           .annotation = params[i].annotation,
                           .is_constexpr = p->is_constexpr,
                           .has_default = p->has_default,
                           .no_specialize = p->no_specialize,
                           .no_align = p->no_align,
                           .is_rest = p->is_rest,
                           .is_read = use[i].reads,
                           .in_tune_key = use[i].in_key,
                           .is_set = use[i].sets};
    if (!p->is_constexpr) read_forced(&rules[i], p->annotation);
  }
  *out = (KernelInfo){.info = {name, kernel_line(k), n, params},
                      .index = index,
                      .rules = rules,
                      .names = names,
                      .decorated = decorated,
                      .module = m};
  return true;
}

/* ---- CUDA C ------------------------------------------------------------------------------------------------------ */

static bool keep_cuda_c(nereid_module *m, KernelInfo *out, int index, const char *name, const CudaCKernel *k) {
  int n = k->param_count;
  nereid_param *params = NEW_N(m->arena, nereid_param, n);
  ParamRule *rules = NEW_N(m->arena, ParamRule, n);
  const char **names = NEW_N(m->arena, const char *, n + 1);
  name = keep(m->arena, name);
  if (!params || !rules || !names || !name) return false;
  for (int i = 0; i < n; i++) {
    const CudaCParam *p = &k->params[i];
    names[i] = keep(m->arena, p->name);
    params[i] = (nereid_param){.name = names[i], .annotation = keep(m->arena, p->type)};
    if (!names[i] || !params[i].annotation) return false;
    rules[i] = (ParamRule){.name = names[i],
                           .annotation = params[i].annotation,
                           .no_specialize = true,
                           .no_align = true,
                           .is_c = true,
                           .dtype = p->dtype,
                           .forced_pointer = p->is_pointer,
                           .forced_target = p->is_pointer && p->known,
                           .forced_number = !p->is_pointer && p->known,
                           .cannot_pass = !p->is_pointer && !p->known,
                           .align = p->align};
  }
  *out = (KernelInfo){.info = {name, k->line, n, params},
                      .index = index,
                      .rules = rules,
                      .names = names,
                      .is_template = k->is_template,
                      .module = m};
  return true;
}

static void find_cuda_c(nereid_module *m, Context *cx) {
  CudaCKernel *k;
  int n = cuda_c_kernels(cx, source_from_text(cx, m->path, m->text, m->size), &k);
  m->kernels = NEW_N(m->arena, KernelInfo, n);
  m->kernel_names = NEW_N(m->arena, const char *, n + 1);
  bool ok = m->kernels && m->kernel_names;
  for (int i = 0; ok && i < n; i++) {
    ok = keep_cuda_c(m, &m->kernels[i], i, k[i].name, &k[i]);
    if (ok) m->kernel_names[i] = m->kernels[i].info.name, m->kernel_count = i + 1;
  }
  if (!ok) context_out_of_memory(cx);
}

/* "scale<float, 4>": the template with these arguments, read when it is first asked for. */
typedef struct Instance {
  struct Instance *next;
  KernelInfo kernel;
} Instance;

static const KernelInfo *make_instance(nereid_module *m, const char *name, size_t base, nereid_error **error) {
  Context *cx = context_within(NULL);
  if (!cx) return error_out_of_memory(error), NULL;
  const KernelInfo *volatile found = NULL;
  if (context_try(cx)) {
    const Source *src = source_from_text(cx, m->path, m->text, m->size);
    const char *arguments = arena_printf(cx->arena, "%.*s", (int)(strlen(name) - base - 2), name + base + 1);
    CudaCKernel *k = cuda_c_instance(cx, src, arena_printf(cx->arena, "%.*s", (int)base, name), arguments);
    Instance *new = k && k->is_template ? NEW(m->arena, Instance) : NULL;
    if (new && !keep_cuda_c(m, &new->kernel, m->instances ? m->instances->kernel.index + 1 : m->kernel_count, name, k))
      context_out_of_memory(cx);
    if (new) {
      new->kernel.is_template = false;
      new->next = m->instances;
      m->instances = new;
      found = &new->kernel;
    }
    context_end_try(cx);
  } else {
    error_from_context(error, NEREID_BAD_ARGUMENT, cx);
  }
  context_destroy(cx);
  return found;
}

/* NULL without an error: there is no such template. */
static const KernelInfo *find_instance(nereid_module *m, const char *name, nereid_error **error) {
  size_t base = strcspn(name, "<"), n = strlen(name);
  if (!m->is_cuda_c || !name[base] || name[n - 1] != '>') return NULL;
  pthread_mutex_lock(&m->lock);
  const Instance *i = m->instances;
  while (i && strcmp(i->kernel.info.name, name)) i = i->next;
  const KernelInfo *k = i ? &i->kernel : make_instance(m, name, base, error);
  pthread_mutex_unlock(&m->lock);
  return k;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Parses the text and fills m->kernels. */
static nereid_status find_kernels(nereid_module *m, nereid_error **error) {
  Context *cx = context_within(NULL);
  if (!cx) return error_out_of_memory(error);
  nereid_status status = NEREID_OK;
  if (m->is_cuda_c && context_try(cx)) {
    find_cuda_c(m, cx);
    context_end_try(cx);
  } else if (!m->is_cuda_c && context_try(cx)) {
    Module *front = module_front(m, cx, 0);
    int n = front_kernel_count(front);
    m->kernels = NEW_N(m->arena, KernelInfo, n);
    m->kernel_names = NEW_N(m->arena, const char *, n + 1);
    bool ok = m->kernels && m->kernel_names;
    for (int i = 0; ok && i < n; i++) {
      ok = keep_kernel(m, &m->kernels[i], i, front_kernel_at(front, i));
      if (ok) m->kernel_names[i] = m->kernels[i].info.name, m->kernel_count = i + 1;
    }
    if (!ok) context_out_of_memory(cx);
    names_remember(m, front);
    context_end_try(cx);
  } else {
    status = error_from_context(error, NEREID_BAD_SOURCE, cx);
  }
  context_destroy(cx);
  return status;
}

/* What another thread was measuring goes on being measured in the parent. */
static void in_child(void *owner) {
  nereid_module *m = owner;
  pthread_mutex_init(&m->tune_lock, NULL);
}

/* source, host: NULL, or of nereid_module_load_source. */
static nereid_status module_create(const char *path, const char *text, size_t size, const nereid_source *source,
                                   const nereid_host *host, nereid_module **out, nereid_error **error) {
  static _Atomic uint64_t created;
  nereid_module *m = calloc(1, sizeof *m);
  if (!m) return error_out_of_memory(error);
  m->number = atomic_fetch_add(&created, 1);
  pthread_mutex_init(&m->lock, NULL);
  pthread_mutex_init(&m->tuning_cache_lock, NULL);
  pthread_mutex_init(&m->tune_lock, NULL);
  m->fork = (ForkHook){.held = &m->lock, .in_child = in_child, .owner = m};
  m->tuning_cache_fork = (ForkHook){.held = &m->tuning_cache_lock};
  fork_hook_add(&m->fork);
  fork_hook_add(&m->tuning_cache_fork);
  size_t path_n = strlen(path);
  m->is_cuda_c = path_n > 3 && !strcmp(path + path_n - 3, ".cu");
  m->arena = arena_create(NULL);
  m->cache = cache_create();
  m->path = strdup(path);
  m->text = malloc(size + 1);
  m->size = size;
  nereid_status status;
  if (!m->arena || !m->cache || !m->path || !m->text) {
    status = error_out_of_memory(error);
  } else {
    memcpy(m->text, text, size);
    m->text[size] = 0;
    bool kept = !source || names_keep_source(m, source, host);
    status = kept ? find_kernels(m, error) : error_out_of_memory(error);
  }
  if (status) nereid_module_free(m);
  else *out = m;
  return status;
}

nereid_status nereid_module_load_string(const char *name, const char *text, nereid_module **out, nereid_error **error) {
  if (!name) return error_null(error, "nereid_module_load_string", "name");
  if (!text) return error_null(error, "nereid_module_load_string", "text");
  if (!out) return error_null(error, "nereid_module_load_string", "out");
  return module_create(name, text, strlen(text), NULL, NULL, out, error);
}

static nereid_status load_file(const char *path, const nereid_source *source, const nereid_host *host,
                               nereid_module **out, nereid_error **error) {
  Context *cx = context_within(NULL);
  if (!cx) return error_out_of_memory(error);
  nereid_status status;
  if (context_try(cx)) {
    errno = 0;
    const Source *s = source_from_file(cx, path);
    status = s ? module_create(path, s->text, s->size, source, host, out, error)
               : error_errno(error, NEREID_BAD_FILE, errno ? errno : EIO, "cannot read %s", path);
    context_end_try(cx);
  } else {
    status = error_from_context(error, NEREID_BAD_FILE, cx);
  }
  context_destroy(cx);
  return status;
}

nereid_status nereid_module_load(const char *path, nereid_module **out, nereid_error **error) {
  if (!path) return error_null(error, "nereid_module_load", "path");
  if (!out) return error_null(error, "nereid_module_load", "out");
  return load_file(path, NULL, NULL, out, error);
}

nereid_status nereid_module_load_source(const nereid_source *given, const nereid_host *given_host, nereid_module **out,
                                        nereid_error **error) {
  static const char name[] = "nereid_module_load_source";
  if (!given) return error_null(error, name, "source");
  if (!given_host) return error_null(error, name, "host");
  if (!out) return error_null(error, name, "out");
  nereid_source source;
  nereid_host host;
  if (!STRUCT_TAKE(&source, given) || !STRUCT_TAKE(&host, given_host))
    return error_set(error, NEREID_BAD_ARGUMENT, "set it to sizeof the struct", "%s: a struct's `size` is not its size",
                     name);
  if (!host.ask) return error_null(error, name, "host->ask");
  if (!source.path) return error_null(error, name, "source->path");
  if (source.kind != NEREID_SOURCE_FILE && source.kind != NEREID_SOURCE_JIT)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s: only files and jit functions are modules", name);
  size_t path_n = strlen(source.path);
  if (path_n > 3 && !strcmp(source.path + path_n - 3, ".cu"))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s is CUDA C, whose names cannot be given", source.path);
  if (!source.text && source.kind == NEREID_SOURCE_JIT && !source.name)
    return error_null(error, name, "source->text, and source->name");
  if (!source.text) return load_file(source.path, &source, &host, out, error);
  return module_create(source.path, source.text, source.text_bytes, &source, &host, out, error);
}

void nereid_module_free(nereid_module *m) {
  if (!m) return;
  fork_hook_remove(&m->fork);
  fork_hook_remove(&m->tuning_cache_fork);
  measure_hooks.module_closes(m);
  names_free(m);
  cache_destroy(m->cache);
  arena_destroy(m->arena);
  pthread_mutex_destroy(&m->lock);
  pthread_mutex_destroy(&m->tuning_cache_lock);
  pthread_mutex_destroy(&m->tune_lock);
  free(m->path);
  free(m->text);
  free(m);
}

int nereid_kernel_count(const nereid_module *m) { return m ? m->kernel_count : 0; }

const nereid_kernel_info *nereid_kernel_at(const nereid_module *m, int i) {
  return m && i >= 0 && i < m->kernel_count ? &m->kernels[i].info : NULL;
}

static const KernelInfo *find(const nereid_module *m, const char *name) {
  for (int i = m->kernel_count - 1; i >= 0; i--) /* of two with one name Python keeps the last */
    if (!strcmp(m->kernels[i].info.name, name)) return &m->kernels[i];
  return NULL;
}

const nereid_kernel_info *nereid_kernel_find(const nereid_module *m, const char *name) {
  const KernelInfo *k = m && name ? find(m, name) : NULL;
  if (!k && m && name) k = find_instance((nereid_module *)m, name, NULL);
  return k ? &k->info : NULL;
}

const KernelInfo *module_kernel(const nereid_module *m, const char *name, nereid_error **error) {
  const KernelInfo *k = find(m, name);
  if (k && k->is_template) {
    error_set(error, NEREID_BAD_ARGUMENT, "name its arguments too, as in \"k<float, 4>\"",
              "kernel '%s' of %s is a template", name, m->path);
    return NULL;
  }
  nereid_error *why = NULL;
  if (!k) k = find_instance((nereid_module *)m, name, &why);
  if (k) return k;
  if (why) {
    if (error) *error = why;
    else nereid_error_free(why);
    return NULL;
  }
  const char *near = nearest_name(name, m->kernel_names);
  Buf hint = {0};
  if (near) {
    buf_printf(&hint, "did you mean '%s'?", near);
  } else if (m->kernel_count) {
    buf_puts(&hint, "it has ");
    for (int i = 0; i < m->kernel_count && i < 8; i++) buf_printf(&hint, "%s%s", i ? ", " : "", m->kernel_names[i]);
    if (m->kernel_count > 8) buf_printf(&hint, " and %d more", m->kernel_count - 8);
  } else {
    buf_puts(&hint, m->is_cuda_c ? "it has no __global__ function" : "it has no @triton.jit function");
  }
  error_set(error, NEREID_BAD_ARGUMENT, hint.at, "%s has no kernel '%s'", m->path, name);
  buf_destroy(&hint);
  return NULL;
}
