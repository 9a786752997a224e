/* recorded: a launch of a log: its arguments, and its kernel with what surrounds it.
 *
 * `python -m nereid.record` says of each launch what the kernel's free names are, and those of the functions among
 * them (python/nereid/_surroundings.py has the forms). So nothing of the program is evaluated here: the kernel's text
 * comes from its file, names from the log. A log without "functions" has constants alone, or nothing: the rest is the
 * file's.
 *
 *     {"file": "ops.py", "line": 12, "kernel": "apply", "args": [...],
 *      "names": {"act": {"jit": "relu", "function": 0}, "WIDTH": 64},
 *      "functions": [{"jit": "relu", "file": "acts.py", "line": 3, "names": {...}}]}
 *
 * A constexpr argument that is no constant (a function, an Enum's member) is a name that is asked back. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Of a list and the tuples in it. */
static int count_arguments(const Json *list) {
  int n = list ? list->count : 0;
  for (const Json *a = list ? list->first : NULL; a; a = a->next) n += count_arguments(json_get(a, "tuple"));
  return n;
}

bool recorded_read(Recorded *r, char *why, size_t size) {
  const Json *list = json_get(r->row, "args");
  size_t n = (size_t)count_arguments(list) + 1;
  r->args = calloc(n, sizeof *r->args);
  r->nodes = calloc(n, sizeof *r->nodes);
  r->texts = calloc(n, sizeof *r->texts);
  if (!r->args || !r->nodes || !r->texts) return snprintf(why, size, "out of memory"), false;
  for (const Json *a = list ? list->first : NULL; a; a = a->next) r->nodes[r->count++] = a;
  r->given = r->count;
  for (int i = 0; i < r->count; i++) {
    if (!replay_argument(r->nodes[i], i, &r->args[i], &r->texts[i], why, size)) return false;
    if (r->args[i].kind != NEREID_ARG_TUPLE) continue;
    r->args[i].items = &r->args[r->count];
    for (const Json *item = json_get(r->nodes[i], "tuple")->first; item; item = item->next) r->nodes[r->count++] = item;
  }
  return true;
}

void recorded_free(Recorded *r) {
  for (int i = 0; i < r->count && r->texts; i++) free(r->texts[i]);
  free(r->args), free(r->nodes), free(r->texts);
}

/* ---- values of names --------------------------------------------------------------------------------------------- */

enum { MOST_LISTED = 64 };

static bool recorded_value(const Recorded *r, const Json *v, nereid_value *out);

static void recorded_items(const Recorded *r, const Json *list, nereid_value *out) {
  int i = 0;
  for (const Json *item = list->first; item; item = item->next, i++) {
    nereid_value *to = nereid_value_item(out, i);
    if (to && !recorded_value(r, item, to)) nereid_value_set_other(to, "a value of an unknown form in the log");
  }
}

static int texts_of(const Json *list, const char **out) {
  int n = 0;
  for (const Json *v = list ? list->first : NULL; v && n < MOST_LISTED; v = v->next)
    if (v->kind == JSON_STRING) out[n++] = v->text;
  return n;
}

static const Json *item_of(const Json *list, int64_t n) {
  const Json *v = list && list->kind == JSON_ARRAY && n >= 0 && n < list->count ? list->first : NULL;
  while (v && n--) v = v->next;
  return v;
}

/* of: the launch, or one of its functions. path: where its text is, or what stands for it. */
static nereid_source source_of(const Json *of, nereid_source_kind kind, const char *name, const char *path) {
  const char *text = json_get_text(of, "text", NULL);
  return (nereid_source){.size = sizeof(nereid_source),
                         .kind = kind,
                         .path = path,
                         .text = text,
                         .text_bytes = text ? strlen(text) : 0,
                         .line = (int)json_get_int(of, "line", 1),
                         .name = name,
                         .scope = (void *)of,
                         .noinline = json_get_int(of, "noinline", 0) != 0,
                         .must_use_result = json_get_text(of, "must_use", NULL)};
}

static bool recorded_function(const Recorded *r, const Json *v, nereid_value *out) {
  const Json *of = item_of(json_get(r->row, "functions"), json_get_int(v, "function", -1));
  const char *jit = json_get_text(of, "jit", NULL), *cls = json_get_text(of, "class", NULL);
  const char *name = jit ? jit : cls ? cls : json_get_text(of, "constexpr_function", NULL);
  const char *file = json_get_text(of, "file", NULL);
  if (!name || !file) return false;
  char *path = replay_path(r->root, file);
  nereid_source s = source_of(of,
                              jit   ? NEREID_SOURCE_JIT
                              : cls ? NEREID_SOURCE_CLASS
                                    : NEREID_SOURCE_CONSTEXPR,
                              name, path ? path : file);
  nereid_value_set_source(out, &s);
  free(path);
  return true;
}

static bool recorded_object(const Recorded *r, const Json *v, nereid_value *out) {
  const char *name, *fields[MOST_LISTED];
  const Json *items;
  if (json_get(v, "function")) return recorded_function(r, v, out);
  if ((name = json_get_text(v, "dtype", NULL))) nereid_value_set_type(out, name);
  else if ((name = json_get_text(v, "library", NULL))) nereid_value_set_library(out, name);
  else if ((name = json_get_text(v, "module", NULL))) nereid_value_set_module(out, name, (void *)v);
  else if ((name = json_get_text(v, "object", NULL))) nereid_value_set_object(out, name, (void *)v);
  else if ((name = json_get_text(v, "other", NULL))) nereid_value_set_other(out, name);
  else if ((name = json_get_text(v, "enum", NULL)) && (items = json_get(v, "value"))) {
    nereid_value_set_enum(out, name, NULL, json_get_text(v, "member", ""));
    nereid_value *item = nereid_value_item(out, 0);
    if (item) recorded_value(r, items, item);
  } else if ((name = json_get_text(v, "named_tuple", NULL))) {
    int n = texts_of(json_get(v, "fields"), fields);
    if (!(items = json_get(v, "items"))) return nereid_value_set_named_tuple_class(out, name, NULL, n, fields), true;
    if (items->count != n) return false;
    nereid_value_set_named_tuple(out, name, NULL, n, fields);
    recorded_items(r, items, out);
  } else if ((items = json_get(v, "list")) && items->kind == JSON_ARRAY) {
    nereid_value_set_list(out, items->count);
    recorded_items(r, items, out);
  } else if ((items = json_get(v, "dict")) && items->kind == JSON_ARRAY) {
    nereid_value_set_dict(out, items->count);
    int i = 0;
    for (const Json *pair = items->first; pair; pair = pair->next, i++) {
      nereid_value *key = nereid_value_item(out, 2 * i), *value = nereid_value_item(out, 2 * i + 1);
      if (key &&
          (pair->count != 2 || !recorded_value(r, pair->first, key) || !recorded_value(r, pair->first->next, value)))
        return false;
    }
  } else {
    return false; /* of earlier logs: it is as the file has it */
  }
  return true;
}

/* False: the log does not say it. */
static bool recorded_value(const Recorded *r, const Json *v, nereid_value *out) {
  switch (v->kind) {
    case JSON_NULL: nereid_value_set_none(out); break;
    case JSON_BOOL: nereid_value_set_bool(out, v->i != 0); break;
    case JSON_INT: {
      char digits[32];
      snprintf(digits, sizeof digits, v->is_unsigned ? "%lu" : "%ld", (unsigned long)v->i);
      nereid_value_set_int_text(out, digits);
      break;
    }
    case JSON_DOUBLE: nereid_value_set_float(out, v->f); break;
    case JSON_STRING: nereid_value_set_str(out, v->text, strlen(v->text)); break;
    case JSON_ARRAY:
      nereid_value_set_tuple(out, v->count);
      recorded_items(r, v, out);
      break;
    case JSON_OBJECT:
      if (!recorded_object(r, v, out)) return false;
  }
  if (!json_get(v, "module")) nereid_value_mark_constexpr(out); /* kernels read it as it was launched with it */
  return true;
}

/* ---- constexprs that have no text --------------------------------------------------------------------------------- */

static const Json *find_constant(const Recorded *r, const char *name) {
  for (int i = 0; i < r->count; i++)
    if (r->texts[i] && !strcmp(r->texts[i], name)) {
      const Json *v = json_get(r->nodes[i], "constexpr");
      if (v && !replay_has_text(v)) return v;
    }
  return NULL;
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static bool ask(void *arg, nereid_ask what, void *of, const char *name, nereid_value *out) {
  const Recorded *r = arg;
  const Json *v = NULL;
  if (what == NEREID_ASK_NAME && of == r->row) {
    if (r->defines && defines_answer(r->defines, name, out)) return true;
    v = find_constant(r, name);
  }
  if (what == NEREID_ASK_NAME && !v) v = json_get(json_get(of, "names"), name);
  else if (what == NEREID_ASK_ATTRIBUTE) v = json_get(json_get(of, "attributes"), name);
  else if (what == NEREID_ASK_DEFAULT) v = json_get(json_get(of, "defaults"), name);
  return v && recorded_value(r, v, out);
}

nereid_status recorded_load(const Recorded *r, nereid_module **out, nereid_error **error) {
  const char *plain[MOST_LISTED], *unaligned[MOST_LISTED];
  char *path = replay_path(r->root, json_get_text(r->row, "file", ""));
  if (!path) return NEREID_OUT_OF_MEMORY;
  nereid_source s = source_of(r->row, NEREID_SOURCE_FILE, NULL, path);
  if (json_get(r->row, "functions")) {
    s.kind = NEREID_SOURCE_JIT;
    s.name = json_get_text(r->row, "kernel", "");
    s.do_not_specialize = plain, s.do_not_specialize_on_alignment = unaligned;
    s.do_not_specialize_count = texts_of(json_get(r->row, "do_not_specialize"), plain);
    s.do_not_specialize_on_alignment_count = texts_of(json_get(r->row, "do_not_specialize_on_alignment"), unaligned);
  }
  const nereid_host host = {.size = sizeof host, .arg = (void *)r, .ask = ask, .unchanging = true};
  nereid_status status = nereid_module_load_source(&s, &host, out, error);
  free(path);
  return status;
}

/* ---- two launches ------------------------------------------------------------------------------------------------ */

static bool same_json(const Json *a, const Json *b) {
  if (!a || !b) return a == b;
  if (a->kind != b->kind || a->i != b->i || a->is_unsigned != b->is_unsigned || a->count != b->count ||
      memcmp(&a->f, &b->f, sizeof a->f) || !a->key != !b->key || (a->key && strcmp(a->key, b->key)) ||
      (a->kind == JSON_STRING && strcmp(a->text, b->text)))
    return false;
  const Json *x = a->first, *y = b->first;
  for (; x && y && same_json(x, y); x = x->next) y = y->next;
  return !x && !y;
}

bool recorded_same_module(const Recorded *a, const Recorded *b) {
  static const char *const of_kernel[] = {
      "text", "line", "kernel", "do_not_specialize", "functions", "do_not_specialize_on_alignment"};
  bool same = same_json(json_get(a->row, "file"), json_get(b->row, "file")) &&
              same_json(json_get(a->row, "names"), json_get(b->row, "names"));
  size_t n = json_get(a->row, "functions") || json_get(b->row, "functions") ? sizeof of_kernel / sizeof *of_kernel : 0;
  for (size_t i = 0; i < n && same; i++)
    same = same_json(json_get(a->row, of_kernel[i]), json_get(b->row, of_kernel[i]));
  for (int i = 0; same && (i < a->count || i < b->count); i++) {
    const Json *x = i < a->count ? json_get(a->nodes[i], "constexpr") : NULL;
    const Json *y = i < b->count ? json_get(b->nodes[i], "constexpr") : NULL;
    if ((x && !replay_has_text(x)) || (y && !replay_has_text(y))) same = same_json(x, y);
  }
  return same;
}
