/* Names that the caller knows: a nereid_host's answers on their way to the front end (front/python/ask.c), and what
 * becomes of compiled kernels when an answer changes.
 *
 * A nereid_value is the front end's HostValue, in memory of its own: a callback must not unwind, so nothing here fails
 * at once; what went wrong is kept in the answer and said when the callback has returned.
 *
 * Each compilation lists what it asked for. Before a launch the names are asked for again, in the order in which they
 * were first met; one that differs begins a new epoch, which is part of every key, so that what was compiled before is
 * not found any more. */
#include <stdlib.h>

#include "runtime/hooks.h"

static HostValue *value_of(nereid_value *v) { return (HostValue *)(void *)v; }
static const HostValue *given(const nereid_value *v) { return (const HostValue *)(const void *)v; }

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void problem(HostValue *v, const char *text) {
  if (!v->answer->problem) v->answer->problem = text;
}

/* A value of this kind in v's place; NULL: v is no answer. */
static HostValue *begin(nereid_value *value, HostKind kind) {
  HostValue *v = value_of(value);
  if (!v || !v->answer) return NULL;
  *v = (HostValue){.kind = kind, .answer = v->answer, .depth = v->depth};
  return v;
}

static const char *copy_text(HostValue *v, const char *s, size_t n) {
  if (!s) {
    problem(v, "the host gave NULL for a text");
    return NULL;
  }
  if (n > (size_t)1 << 30) {
    problem(v, "the host gave a text of more than a gigabyte");
    return NULL;
  }
  char *copy = arena_alloc(v->answer->arena, n + 1);
  if (!copy) problem(v, "out of memory");
  else if (n) memcpy(copy, s, n);
  return copy;
}

static void set_text(HostValue *v, const char *s, size_t n) {
  if (!v) return;
  v->text = copy_text(v, s, n);
  v->n = v->text ? n : 0;
  if (!v->text) v->kind = HOST_UNSET;
}

static size_t length(const char *s) { return s ? strlen(s) : 0; }

static const char *const *copy_list(HostValue *v, const char *const *list, int n) {
  if (n < 0 || n > MAX_HOST_PARTS || (n && !list)) {
    problem(v, "the host gave a list of names without names");
    return NULL;
  }
  const char **out = arena_alloc(v->answer->arena, sizeof *out * ((size_t)n + 1));
  if (!out) problem(v, "out of memory");
  for (int i = 0; out && i < n; i++)
    if (!(out[i] = copy_text(v, list[i], length(list[i])))) return NULL;
  if (out) out[n] = NULL;
  return out;
}

void nereid_value_set_none(nereid_value *v) { begin(v, HOST_NONE); }

static void set_int(nereid_value *value, HostKind kind, __int128 i) {
  HostValue *v = begin(value, kind);
  if (v) v->i = i;
}

void nereid_value_set_bool(nereid_value *v, bool b) { set_int(v, HOST_BOOL, b); }
void nereid_value_set_int(nereid_value *v, int64_t i) { set_int(v, HOST_INT, i); }

void nereid_value_set_int_text(nereid_value *value, const char *digits) {
  HostValue *v = begin(value, HOST_INT);
  if (!v) return;
  const char *s = digits ? digits + (*digits == '-') : "";
  unsigned __int128 u = 0, limit = ~(unsigned __int128)0 >> 1;
  bool fits = *s != 0;
  for (; *s && fits; s++) {
    fits = *s >= '0' && *s <= '9' && u <= (limit - (unsigned)(*s - '0')) / 10;
    if (fits) u = u * 10 + (unsigned)(*s - '0');
  }
  if (!fits) problem(v, "the host gave an int that is no number, or has more than 128 bits");
  v->i = digits && *digits == '-' ? -(__int128)u : (__int128)u;
}

void nereid_value_set_float(nereid_value *value, double f) {
  HostValue *v = begin(value, HOST_FLOAT);
  if (v) v->f = f;
}

void nereid_value_set_str(nereid_value *v, const char *utf8, size_t bytes) {
  set_text(begin(v, HOST_STR), utf8, bytes);
}

void nereid_value_set_type(nereid_value *v, const char *type) { set_text(begin(v, HOST_TYPE), type, length(type)); }

void nereid_value_set_library(nereid_value *v, const char *path) {
  set_text(begin(v, HOST_LIBRARY), path, length(path));
}

void nereid_value_set_other(nereid_value *v, const char *what) { set_text(begin(v, HOST_OTHER), what, length(what)); }

void nereid_value_set_expression(nereid_value *v, const char *python_text) {
  set_text(begin(v, HOST_EXPRESSION), python_text, length(python_text));
}

void nereid_value_set_error(nereid_value *v, const char *message) {
  set_text(begin(v, HOST_ERROR), message, length(message));
}

static void set_items(nereid_value *value, HostKind kind, int count, int parts) {
  HostValue *v = begin(value, kind);
  if (!v) return;
  v->answer->parts += parts;
  const char *why = count < 0                             ? "the host gave a tuple of fewer than no items"
                    : v->answer->parts > MAX_HOST_PARTS   ? "the host gave a value of more than a million parts"
                    : v->depth >= MAX_HOST_DEPTH && parts ? "the host gave a value that is nested too deeply"
                                                          : NULL;
  if (!why && parts) {
    v->items = arena_alloc(v->answer->arena, sizeof *v->items * (size_t)parts);
    if (!v->items) why = "out of memory";
  }
  if (why) {
    problem(v, why);
    v->kind = HOST_UNSET;
    return;
  }
  v->count = parts;
  for (int i = 0; i < parts; i++) v->items[i] = (HostValue){.answer = v->answer, .depth = v->depth + 1};
}

void nereid_value_set_tuple(nereid_value *v, int count) { set_items(v, HOST_TUPLE, count, count); }
void nereid_value_set_list(nereid_value *v, int count) { set_items(v, HOST_LIST, count, count); }
void nereid_value_set_dict(nereid_value *v, int count) {
  set_items(v, HOST_DICT, count, count > MAX_HOST_PARTS ? MAX_HOST_PARTS : 2 * count);
}

/* After set_items or begin. */
static void set_class(nereid_value *value, const char *name, void *cls, int count, const char *const *fields) {
  HostValue *v = value_of(value);
  if (!v || !v->answer || v->kind == HOST_UNSET) return;
  v->text = copy_text(v, name, length(name));
  v->n = length(v->text);
  v->object = cls;
  v->count = count;
  v->fields = copy_list(v, fields, count);
  if (!v->text || !v->fields) v->kind = HOST_UNSET;
}

void nereid_value_set_named_tuple(nereid_value *v, const char *class_name, void *cls, int count,
                                  const char *const *fields) {
  set_items(v, HOST_TUPLE, count, count);
  set_class(v, class_name, cls, count, fields);
}

void nereid_value_set_named_tuple_class(nereid_value *v, const char *class_name, void *cls, int count,
                                        const char *const *fields) {
  begin(v, HOST_NAMED_TUPLE_CLASS);
  set_class(v, class_name, cls, count, fields);
}

void nereid_value_set_enum(nereid_value *value, const char *class_name, void *cls, const char *member) {
  set_items(value, HOST_ENUM, 1, 1);
  HostValue *v = value_of(value);
  if (!v || v->kind == HOST_UNSET) return;
  v->text = copy_text(v, class_name, length(class_name));
  v->n = length(v->text);
  v->object = cls;
  v->member = copy_text(v, member, length(member));
  if (!v->text || !v->member) v->kind = HOST_UNSET;
}

nereid_value *nereid_value_item(nereid_value *value, int i) {
  HostValue *v = value_of(value);
  return v && v->answer && v->items && i >= 0 && i < v->count ? (nereid_value *)(void *)&v->items[i] : NULL;
}

static void set_object(nereid_value *value, HostKind kind, const char *what, void *object) {
  HostValue *v = begin(value, kind);
  set_text(v, what, length(what));
  if (v) v->object = object;
  if (v && !object) problem(v, "the host gave NULL for an object");
}

void nereid_value_set_module(nereid_value *v, const char *what, void *object) {
  set_object(v, HOST_MODULE, what, object);
}
void nereid_value_set_object(nereid_value *v, const char *what, void *object) {
  set_object(v, HOST_OBJECT, what, object);
}
void nereid_value_set_constexpr_function(nereid_value *v, const char *what, void *object) {
  set_object(v, HOST_CONSTEXPR_FUNCTION, what, object);
}

void nereid_value_mark_constexpr(nereid_value *value) {
  HostValue *v = value_of(value);
  if (v && v->answer) v->is_constexpr = true;
}

/* Fills *out with copies that live as long as v's answer. */
static void copy_source(HostValue *v, HostSource *out, const nereid_source *s) {
  *out = (HostSource){.kind = (HostSourceKind)s->kind,
                      .path = copy_text(v, s->path, length(s->path)),
                      .whole = !s->text,
                      .line = s->line,
                      .scope = s->scope,
                      .noinline = s->noinline,
                      .debug = s->debug,
                      .launch_only = s->launch_only};
  if (s->text) out->text = copy_text(v, s->text, s->text_bytes), out->text_size = s->text_bytes;
  else if (!s->name && s->kind != NEREID_SOURCE_FILE)
    problem(v, "the host gave a source without a text, and without a name to look for");
  if (s->name) out->name = copy_text(v, s->name, strlen(s->name));
  if (s->must_use_result) out->must_use = copy_text(v, s->must_use_result, strlen(s->must_use_result));
  out->no_specialize = copy_list(v, s->do_not_specialize, s->do_not_specialize_count);
  out->no_align = copy_list(v, s->do_not_specialize_on_alignment, s->do_not_specialize_on_alignment_count);
}

void nereid_value_set_source(nereid_value *value, const nereid_source *given_source) {
  HostValue *v = begin(value, HOST_SOURCE);
  nereid_source source;
  if (!v) return;
  HostSource *kept = arena_alloc(v->answer->arena, sizeof *kept);
  if (!kept) problem(v, "out of memory");
  else if (!given_source || !STRUCT_TAKE(&source, given_source))
    problem(v, "the host gave a source whose `size` is not its size");
  else if (source.kind < NEREID_SOURCE_JIT || source.kind > NEREID_SOURCE_CLASS)
    problem(v, "the host gave a source that is no function and no class");
  else copy_source(v, kept, &source);
  if (v->answer->problem) v->kind = HOST_UNSET;
  else v->source = kept;
}

/* ---- arguments of a call ----------------------------------------------------------------------------------------- */

nereid_value_kind nereid_value_get_kind(const nereid_value *v) {
  static const nereid_value_kind kinds[] = {
      [HOST_NONE] = NEREID_VALUE_NONE,       [HOST_BOOL] = NEREID_VALUE_BOOL,   [HOST_INT] = NEREID_VALUE_INT,
      [HOST_FLOAT] = NEREID_VALUE_FLOAT,     [HOST_STR] = NEREID_VALUE_STR,     [HOST_TYPE] = NEREID_VALUE_TYPE,
      [HOST_LIBRARY] = NEREID_VALUE_LIBRARY, [HOST_TUPLE] = NEREID_VALUE_TUPLE, [HOST_LIST] = NEREID_VALUE_LIST,
      [HOST_DICT] = NEREID_VALUE_DICT,       [HOST_ENUM] = NEREID_VALUE_ENUM,   [HOST_OBJECT] = NEREID_VALUE_OBJECT,
      [HOST_TENSOR] = NEREID_VALUE_TENSOR,   [HOST_OTHER] = NEREID_VALUE_OTHER};
  const HostValue *value = given(v);
  return value && value->kind != HOST_UNSET && (size_t)value->kind < sizeof kinds / sizeof *kinds ? kinds[value->kind]
                                                                                                  : NEREID_VALUE_OTHER;
}

int64_t nereid_value_get_int(const nereid_value *v) {
  __int128 i = v ? given(v)->i : 0;
  return i >= INT64_MIN && i <= INT64_MAX ? (int64_t)i : 0;
}

double nereid_value_get_float(const nereid_value *v) {
  if (!v) return 0;
  return given(v)->kind == HOST_FLOAT ? given(v)->f : (double)given(v)->i;
}

const char *nereid_value_get_text(const nereid_value *v, size_t *bytes) {
  const char *text = v && given(v)->text ? given(v)->text : "";
  if (bytes) *bytes = v && given(v)->text ? given(v)->n : 0;
  return text;
}

int nereid_value_get_count(const nereid_value *v) { return v && given(v)->items ? given(v)->count : 0; }

const nereid_value *nereid_value_get_item(const nereid_value *v, int i) {
  return i >= 0 && i < nereid_value_get_count(v) ? (const nereid_value *)(const void *)&given(v)->items[i] : NULL;
}

const char *nereid_value_get_field(const nereid_value *v, int i) {
  return i >= 0 && i < nereid_value_get_count(v) && given(v)->fields ? given(v)->fields[i] : NULL;
}

void *nereid_value_get_object(const nereid_value *v) { return v ? given(v)->object : NULL; }

/* ---- a module's host --------------------------------------------------------------------------------------------- */

static bool ask(const void *of, Ask what, void *object, const char *name, HostAnswer *out) {
  const nereid_host *h = of;
  return h->ask(h->arg, (nereid_ask)what, object, name, (nereid_value *)(void *)&out->value);
}

static bool call(const void *of, void *object, int n, const HostValue *const *args, const char *const *names,
                 HostAnswer *out) {
  const nereid_host *h = of;
  return h->call(h->arg, object, n, (const nereid_value *const *)(const void *)args, names,
                 (nereid_value *)(void *)&out->value);
}

bool names_keep_source(nereid_module *m, const nereid_source *s, const nereid_host *host) {
  HostAnswer in_module = {.arena = m->arena};
  HostValue v = {.answer = &in_module};
  HostSource *kept = NEW(m->arena, HostSource);
  if (!kept) return false;
  copy_source(&v, kept, s);
  kept->text = m->text;
  kept->text_size = m->size;
  m->source = kept;
  m->host = *host;
  if (host->identity && !(m->host.identity = arena_strdup(m->arena, host->identity))) return false;
  m->front_host = (FrontHost){&m->host, ask, host->call ? call : NULL, host->allow_globals};
  return !in_module.problem;
}

Module *module_front(const nereid_module *m, Context *cx, int cuda_sm) {
  if (!m->source) return front_load_text_for(cx, m->path, m->text, m->size, cuda_sm);
  return front_load_source(cx, m->source, &m->front_host, cuda_sm);
}

static bool same_question(const Asked *a, const Asked *b) {
  return a->what == b->what && a->object == b->object && !strcmp(a->name, b->name);
}

/* A name that lives as long as the module; NULL: out of memory. */
static const char *keep_name(nereid_module *m, const char *name) {
  if (!m->names && !(m->names = map_create(m->arena, true))) return NULL;
  const char *kept = map_get(m->names, name);
  if (kept) return kept;
  char *copy = arena_strdup(m->arena, name);
  if (copy) map_put(m->names, copy, copy);
  return copy;
}

static bool remember(nereid_module *m, const Asked *a) {
  for (int i = 0; i < m->asked_count; i++)
    if (same_question(&m->asked[i], a)) return true;
  if (m->asked_count == m->asked_cap) {
    int cap = m->asked_cap ? 2 * m->asked_cap : 16;
    Asked *grown = realloc(m->asked, sizeof *grown * (size_t)cap);
    if (!grown) return false;
    m->asked = grown;
    m->asked_cap = cap;
  }
  const char *name = keep_name(m, a->name);
  if (!name) return false;
  m->asked[m->asked_count] = *a;
  m->asked[m->asked_count++].name = name;
  return true;
}

static void begin_epoch(nereid_module *m) {
  m->asked_count = 0;
  atomic_fetch_add(&m->epoch, 1);
}

void names_remember(nereid_module *m, const Module *front) {
  if (!m->source || m->host.unchanging) return;
  int n;
  const Asked *asked = front_asked(front, &n);
  pthread_mutex_lock(&m->lock);
  bool kept = true;
  for (int i = 0; i < n && kept; i++) kept = remember(m, &asked[i]);
  if (!kept) begin_epoch(m); /* what cannot be looked at again counts as changed */
  pthread_mutex_unlock(&m->lock);
}

static bool differs(const nereid_module *m, const Asked *a) {
  HostAnswer answer = {.arena = arena_create(NULL)};
  if (!answer.arena) return true;
  answer.value.answer = &answer;
  bool known = ask(&m->host, a->what, a->object, a->name, &answer);
  uint64_t hash = known ? host_value_hash(&answer.value) : 0;
  bool failed = answer.problem != NULL;
  arena_destroy(answer.arena);
  return failed || hash != a->hash;
}

/* No lock is held while the host is asked: it may have locks of its own. */
void names_check(nereid_module *m) {
  if (!m->source || m->host.unchanging) return;
  pthread_mutex_lock(&m->lock);
  int n = m->asked_count, epoch = atomic_load(&m->epoch);
  Asked *list = malloc(sizeof *list * (size_t)(n + 1));
  if (list && n) memcpy(list, m->asked, sizeof *list * (size_t)n);
  pthread_mutex_unlock(&m->lock);
  bool changed = !list;
  for (int i = 0; i < n && !changed; i++) changed = differs(m, &list[i]);
  free(list);
  if (!changed) return;
  pthread_mutex_lock(&m->lock);
  if (atomic_load(&m->epoch) == epoch) begin_epoch(m);
  pthread_mutex_unlock(&m->lock);
}

void names_free(nereid_module *m) { free(m->asked); }
