/* bind.c: calls of library functions: arguments bound to a row's signature as Python binds them.
 *
 * A signature is text as in Python: "input, *shape, can_reorder=False". It is read at each call; the parts are a name,
 * an optional default (None, True, False, a number, a string, or ()), `*name` for the remaining positional arguments, a
 * lone `*` before keyword-only ones, a `/` after positional-only ones, and `**name` for keywords that no parameter
 * bears.
 */
#include "front/core.h"
#include "front/library/lib.h"

#include <stdlib.h>

enum { MAX_PARAMS = 24 };
typedef enum { PARAM_PLAIN, PARAM_KEYWORD_ONLY, PARAM_REST, PARAM_KEYWORDS } ParamKind;
typedef struct Param {
  ParamKind kind;
  bool by_position; /* not by its name */
  char name[40];
  const char *def;
  size_t def_size;
} Param;

static int read_signature(const char *s, Param *params) {
  int n = 0;
  bool keyword_only = false;
  while (*s) {
    while (*s == ' ' || *s == ',') s++;
    if (!*s) break;
    if (*s == '/') {
      for (int i = 0; i < n; i++) params[i].by_position = true;
      s++;
      continue;
    }
    Param p = {.kind = keyword_only ? PARAM_KEYWORD_ONLY : PARAM_PLAIN};
    if (s[0] == '*' && s[1] == '*') p.kind = PARAM_KEYWORDS, s += 2;
    else if (s[0] == '*') p.kind = PARAM_REST, s++, keyword_only = true;
    size_t k = strcspn(s, "=, ");
    memcpy(p.name, s, k < sizeof p.name ? k : sizeof p.name - 1);
    s += k;
    if (*s == '=') {
      p.def = ++s;
      if (*s == '"') s = strchr(s + 1, '"') + 1;
      else s += strcspn(s, ",");
      p.def_size = (size_t)(s - p.def);
    }
    if (p.name[0]) params[n++] = p;
  }
  return n;
}

static Py *default_value(Front *fr, const Param *p) {
  const char *s = p->def;
  size_t n = p->def_size;
  if (!s) return NULL;
  if (n == 4 && !strncmp(s, "None", n)) return py_none(fr);
  if (n == 4 && !strncmp(s, "True", n)) return py_bool(fr, true);
  if (n == 5 && !strncmp(s, "False", n)) return py_bool(fr, false);
  if (*s == '"') return py_str(fr, arena_strndup(fr->cx->arena, s + 1, n - 2));
  if (*s == '(') return py_tuple(fr, 0, NULL);
  const char *text = arena_strndup(fr->cx->arena, s, n);
  if (strcspn(text, ".e") < n) return py_float(fr, text_to_double(text, NULL));
  return py_int(fr, strtoll(text, NULL, 10));
}

static bool ignored_keyword(const char *name) { /* what Triton's own code generator passes */
  return !strcmp(name, "_semantic") || !strcmp(name, "_builder") || !strcmp(name, "_generator");
}

static NORETURN void unexpected_keyword(Front *fr, const Builtin *b, Span at, const char *name, const Param *params,
                                        int n) {
  const char *names[MAX_PARAMS + 1];
  int k = 0;
  for (int i = 0; i < n; i++)
    if (params[i].kind == PARAM_PLAIN || params[i].kind == PARAM_KEYWORD_ONLY) names[k++] = params[i].name;
  names[k] = NULL;
  const char *near = nearest_name(name, names);
  diag_as(fr->cx, ERROR_TYPE);
  lib_refuse(fr, at,
             near ? arena_printf(fr->cx->arena, "did you mean `%s`?", near)
                  : arena_printf(fr->cx->arena, "its parameters are (%s)", b->signature),
             "%s() got an unexpected keyword argument '%s'", b->name, name);
}

Py *builtin_call(Front *fr, const Builtin *b, Py *self, const Call *call) {
  Param params[MAX_PARAMS];
  int n = read_signature(b->signature, params), self_n = self ? 1 : 0, given = call->n + self_n;
  Py **args = NEW_N(fr->cx->arena, Py *, n + 1);
  int positional = 0, rest = -1, keywords = -1;
  for (int i = 0; i < n; i++) {
    if (params[i].kind == PARAM_PLAIN && rest < 0) positional = i + 1;
    if (params[i].kind == PARAM_REST) rest = i;
    if (params[i].kind == PARAM_KEYWORDS) keywords = i;
  }
  int taken = given < positional ? given : positional;
  for (int i = 0; i < taken; i++) args[i] = i < self_n ? self : call->args[i - self_n];
  if (rest >= 0) {
    int extra = given - taken;
    args[rest] = py_tuple(fr, extra, call->args + (taken - self_n < 0 ? 0 : taken - self_n));
  } else if (given > taken) {
    lib_refuse(fr, call->span, arena_printf(fr->cx->arena, "its parameters are (%s)", b->signature),
               "%s() takes %d positional argument%s but %d %s given", b->name, positional - self_n,
               positional - self_n == 1 ? "" : "s", given - self_n, given - self_n == 1 ? "was" : "were");
  }
  Py *extra_keys[64], *extra_values[64];
  int extra_n = 0;
  for (int k = 0; k < call->kw_n; k++) {
    const char *name = call->kw_names[k];
    int i = 0;
    while (i < n &&
           !((params[i].kind == PARAM_PLAIN || params[i].kind == PARAM_KEYWORD_ONLY) && !strcmp(params[i].name, name)))
      i++;
    if (i < n) {
      if (params[i].by_position)
        lib_refuse(fr, call->span, arena_printf(fr->cx->arena, "its parameters are (%s)", b->signature),
                   "`%s` requires %spositional arguments only: `%s` is given by name", b->name,
                   positional == 2 && params[1].def ? "one or two " : "", name);
      if (args[i]) lib_refuse(fr, call->span, NULL, "%s() got multiple values for argument '%s'", b->name, name);
      args[i] = call->kw_values[k];
    } else if (rest >= 0 && !strcmp(params[rest].name, name)) { /* tl.reshape(x, shape=(...)) */
      args[rest] = call->kw_values[k];
    } else if (keywords >= 0 && extra_n < 64) {
      extra_keys[extra_n] = py_str(fr, name), extra_values[extra_n++] = call->kw_values[k];
    } else if (!ignored_keyword(name)) {
      unexpected_keyword(fr, b, call->arg_spans ? call->arg_spans[call->n + k] : call->span, name, params, n);
    }
  }
  VEC(const char *) missing = {0};
  for (int i = 0; i < n; i++) {
    if (args[i] || params[i].kind == PARAM_REST) continue;
    if (params[i].kind == PARAM_KEYWORDS) {
      Py *d = py_dict(fr);
      for (int k = 0; k < extra_n; k++) py_dict_put(fr, d, extra_keys[k], extra_values[k]);
      args[i] = d;
      continue;
    }
    args[i] = default_value(fr, &params[i]);
    if (args[i]) args[i]->is_default = true;
    else vec_push(fr->cx->arena, &missing, params[i].name);
  }
  if (missing.n)
    lib_refuse(fr, call->span, arena_printf(fr->cx->arena, "its parameters are (%s)", b->signature), "%s",
               py_missing_arguments(fr, b->name, missing.n, missing.at));
  for (int i = 0; i < n; i++)
    if (args[i]->is_constexpr && (args[i]->kind == PY_TENSOR || args[i]->kind == PY_BLOCK_PTR) &&
        !builtin_takes_declared(b, i))
      py_fail_declared(fr, call->span, args[i]);
  return b->call(fr, b, call->span, args);
}
