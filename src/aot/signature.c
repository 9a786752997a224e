/* What a parameter is built for, as people write it:
 *
 *     f32*  *f32  f32[M,N]    a pointer to elements of that type; the shape is for people, in the launcher's comment
 *     i32  i64  u32  f32  i1  a number
 *     none                    None
 *     f32*:16  i32:1|16|any   the cases to build for: divisible by 16 (a pointer: aligned to 16 bytes), equal to one,
 * any 1024  'relu'  tl.f16    anything else: a constant
 */
#include <ctype.h>

#include "aot/aot.h"

static bool read_cases(const char *text, AotParam *p, const char **why) {
  p->chosen = true;
  for (;;) {
    size_t n = strcspn(text, "|");
    unsigned one = n == 2 && !strncmp(text, "16", n)    ? FOR_DIVISIBLE
                   : n == 1 && *text == '1'             ? FOR_ONE
                   : n == 3 && !strncmp(text, "any", n) ? FOR_ANY
                                                        : 0;
    if (!one || (one == FOR_ONE && p->kind != PARAM_INT) || (p->kind != PARAM_INT && p->kind != PARAM_POINTER)) {
      *why = p->kind == PARAM_INT       ? "behind the colon stand 16, 1 or any, with | between"
             : p->kind == PARAM_POINTER ? "behind the colon of a pointer stand 16 or any, with | between"
                                        : "only pointers and integers have cases";
      return false;
    }
    p->cases |= one;
    if (!text[n]) return true;
    text += n + 1;
  }
}

/* Whether text is a type; the rest of it is behind *end. */
static bool read_type(Context *cx, const char *text, AotParam *p, const char **end) {
  bool star = *text == '*';
  const char *name = text + star, *at = name;
  while (isalnum((unsigned char)*at) || *at == '_') at++;
  const char *word = arena_strndup(cx->arena, name, (size_t)(at - name));
  if (!strcmp(word, "none") || !strcmp(word, "None")) {
    p->kind = PARAM_NONE;
    *end = at;
    return !star;
  }
  if (!dtype_parse(word, &p->dtype)) return false;
  bool pointer = star;
  if (*at == '*' && !star) pointer = true, at++;
  else if (*at == '[') {
    const char *close = strchr(at, ']');
    if (!close) return false;
    p->shape = arena_strndup(cx->arena, at, (size_t)(close + 1 - at));
    pointer = true, at = close + 1;
  }
  p->kind = pointer                    ? PARAM_POINTER
            : p->dtype == DT_I1        ? PARAM_BOOL
            : dtype_is_float(p->dtype) ? PARAM_FLOAT
                                       : PARAM_INT;
  *end = at;
  return true;
}

bool aot_param_parse(Context *cx, const char *text, AotParam *p, const char **why) {
  const char *end = "";
  p->given = true;
  bool is_type = !p->rule->is_constexpr && read_type(cx, text, p, &end) && (!*end || *end == ':');
  if (!is_type) {
    p->kind = PARAM_CONSTEXPR;
    p->text = !strcmp(text, "true") ? "True" : !strcmp(text, "false") ? "False" : !strcmp(text, "none") ? "None" : text;
    p->cases = FOR_ANY;
    if (*text) return true;
    *why = "a type, or a constant's value, is missing";
    return false;
  }
  if (*end) return read_cases(end + 1, p, why);
  p->cases = p->kind == PARAM_POINTER || p->kind == PARAM_INT ? FOR_DIVISIBLE | FOR_ANY : FOR_ANY;
  return true;
}

nereid_arg aot_argument(const AotParam *p, unsigned which) {
  nereid_arg a;
  int64_t value = which == FOR_ONE ? 1 : which == FOR_DIVISIBLE ? 16 : 3;
  switch (p->kind) {
    case PARAM_POINTER:
      a = nereid_pointer((void *)(uintptr_t)(which == FOR_DIVISIBLE ? 4096 : 4104), (nereid_dtype)p->dtype);
      break;
    case PARAM_INT:
      if (p->dtype == DT_I64 && which != FOR_ONE) value += (int64_t)1 << 36;
      a = nereid_int(value);
      if (p->dtype != DT_I32 && p->dtype != DT_I64) a.has_dtype = true, a.dtype = (nereid_dtype)p->dtype;
      break;
    case PARAM_FLOAT:
      a = nereid_float(0.5);
      if (p->dtype != DT_F32) a.has_dtype = true, a.dtype = (nereid_dtype)p->dtype;
      break;
    case PARAM_BOOL: a = nereid_bool(true); break;
    case PARAM_NONE: a = nereid_none(); break;
    default: a = nereid_constexpr(p->text);
  }
  return nereid_named(a, p->rule->name);
}
