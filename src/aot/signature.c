/* What a parameter is built for, as people write it:
 *
 *     f32*  *f32  f32[M,N]    a pointer to elements of that type; the shape is for people, in the launcher's comment
 *     i32  i64  u32  f32  i1  a number
 *     none                    None
 *     f32*:16  i32:1|16|any   with the cases to build for: divisible by 16 (a pointer: aligned), equal to one, any
 *     (f32*, n=i32:16, 5)     a tuple of such; its items may have names
 *     tensordesc<f16[64,32]>  a tensor descriptor with that block shape; its cases are those of the array's shape.
 *                             Behind ",nan": what lies outside is NaN
 *     1024  'relu'  tl.f16    anything else: a constant
 */
#include <ctype.h>
#include <stdlib.h>

#include "aot/aot.h"

static bool read_cases(const char *text, AotParam *p, const char **why) {
  ParamKind kind = p->value.kind;
  bool has = kind == PARAM_INT || kind == PARAM_POINTER || kind == PARAM_DESCRIPTOR;
  p->chosen = true;
  p->cases = 0;
  for (;;) {
    size_t n = strcspn(text, "|");
    unsigned one = n == 2 && !strncmp(text, "16", n)    ? FOR_DIVISIBLE
                   : n == 1 && *text == '1'             ? FOR_ONE
                   : n == 3 && !strncmp(text, "any", n) ? FOR_ANY
                                                        : 0;
    if (!one || (one == FOR_ONE && kind != PARAM_INT) || !has) {
      *why = kind == PARAM_INT ? "after the colon stand 16, 1 or any, with | between"
             : has             ? "after the colon of a pointer or a descriptor stand 16 or any, with | between"
                               : "only pointers, integers and descriptors have cases";
      return false;
    }
    p->cases |= one;
    if (!text[n]) return true;
    text += n + 1;
  }
}

AotParam *aot_param_add(AotParams *to, const char *name, const ParamRule *rule, ParamKind kind) {
  if (to->n == BUNDLE_MOST_PARAMS) return NULL;
  AotParam *p = &to->at[to->n++];
  *p = (AotParam){.value = {.name = name, .kind = kind, .size = 1, .constant = ""}, .rule = rule, .cases = FOR_ANY};
  return p;
}

static const char descriptor[] = "tensordesc<";
enum { DESCRIPTOR_WORD = sizeof descriptor - 1 };
static const char too_many[] = "the kernel has too many parameters";

/* The dtype that a word names; the rest is after *end. */
static bool read_dtype(Context *cx, const char *text, Dtype *out, const char **end) {
  const char *at = text;
  while (isalnum((unsigned char)*at) || *at == '_') at++;
  *end = at;
  return dtype_parse(arena_strndup(cx->arena, text, (size_t)(at - text)), out);
}

/* Whether text is a type; the rest of it is after *end. */
static bool read_type(Context *cx, const char *text, AotParam *p, const char **end) {
  bool star = *text == '*', pointer = star;
  if (!strncmp(text, "none", 4) || !strncmp(text, "None", 4)) {
    p->value.kind = PARAM_NONE;
    *end = text + 4;
    return true;
  }
  if (!read_dtype(cx, text + star, &p->value.dtype, end)) return false;
  const char *at = *end;
  if (*at == '*' && !star) pointer = true, at++;
  else if (*at == '[') {
    const char *close = strchr(at, ']');
    if (!close) return false;
    p->shape = arena_strndup(cx->arena, at, (size_t)(close + 1 - at));
    pointer = true, at = close + 1;
  }
  Dtype t = p->value.dtype;
  p->value.kind = pointer ? PARAM_POINTER : t == DT_I1 ? PARAM_BOOL : dtype_is_float(t) ? PARAM_FLOAT : PARAM_INT;
  *end = at;
  return true;
}

/* "tensordesc<f16[128,64]>": its value, and those of its parts. */
static bool read_descriptor(Context *cx, const char *text, AotParam *p, AotParams *out, const char **end,
                            const char **why) {
  BundleParam *d = &p->value;
  *why = "a tensor descriptor is tensordesc<f16[128,64]>, or tensordesc<f16[128,64],nan>, with a block shape of 1 to 5 "
         "powers of two";
  if (!read_dtype(cx, text, &d->dtype, &text) || *text != '[') return false;
  do {
    char *after;
    long n = strtol(text + 1, &after, 10);
    if (after == text + 1 || n < 1 || n > 1 << 20 || n & (n - 1) || d->rank == DESCRIPTOR_MOST_RANK) return false;
    d->block_shape[d->rank++] = (int32_t)n;
    for (text = after; *text == ' ';) text++;
  } while (*text == ',');
  if (*text++ != ']') return false;
  d->nan_padding = !strncmp(text, ",nan", 4);
  text += d->nan_padding ? 4 : 0;
  if (*text++ != '>') return false;
  *end = text;
  d->size += 2 * d->rank;
  for (int i = 0; i < 2 * d->rank; i++) {
    const char *name = arena_printf(cx->arena, "%s.%s%d", d->name, i < d->rank ? "shape" : "stride", i % d->rank);
    AotParam *part = aot_param_add(out, name, p->rule, PARAM_INT);
    if (!part) return *why = too_many, false;
    part->value.dtype = i < d->rank ? DT_I32 : DT_I64;
  }
  return true;
}

static bool read_param(Context *cx, const char *text, const char *name, const ParamRule *rule, int depth,
                       AotParams *out, const char **why);

/* Where an item of a tuple ends: at a comma or parenthesis of its own. */
static const char *item_end(const char *text) {
  int open = 0;
  for (char quote = 0; *text; text++) {
    if (quote) {
      if (*text == quote) quote = 0;
    } else if (*text == '\'' || *text == '"') {
      quote = *text;
    } else if (!strncmp(text, descriptor, DESCRIPTOR_WORD) && strchr(text, '>')) {
      text = strchr(text, '>');
    } else if (strchr("([{", *text)) {
      open++;
    } else if (open && strchr(")]}", *text)) {
      open--;
    } else if (!open && (*text == ',' || *text == ')')) {
      break;
    }
  }
  return text;
}

/* The item's name in front of a "=", and what is after it. */
static const char *field_of(Context *cx, const char **text) {
  const char *p = *text;
  while (isalnum((unsigned char)*p) || *p == '_') p++;
  if (p == *text || *p != '=' || p[1] == '=') return NULL;
  const char *name = arena_strndup(cx->arena, *text, (size_t)(p - *text));
  *text = p + 1;
  return name;
}

/* "(f32*, n=i32)": 1; 0: it is a tuple of constants, or none; -1: it is wrong. */
static int read_tuple(Context *cx, const char *text, const char *name, const ParamRule *rule, int depth, AotParams *out,
                      const char **why) {
  int start = out->n, constants = 0, n = 0;
  AotParam *tuple = aot_param_add(out, name, rule, PARAM_TUPLE);
  if (!tuple) return *why = too_many, -1;
  ParamRule *plain = NEW(cx->arena, ParamRule);
  *plain = (ParamRule){.name = rule->name, .is_read = rule->is_read, .in_tune_key = rule->in_tune_key};
  for (text++; *text && *text != ')'; n++) {
    while (*text == ' ') text++;
    const char *end = item_end(text), *field = field_of(cx, &text), *after = end;
    while (after > text && after[-1] == ' ') after--;
    const char *word = arena_strndup(cx->arena, text, (size_t)(after - text));
    const char *full =
        field ? arena_printf(cx->arena, "%s.%s", name, field) : arena_printf(cx->arena, "%s.%d", name, n);
    int item = out->n;
    if (depth == ARG_NESTING) return *why = "tuples nest more than four deep", -1;
    if (!read_param(cx, word, full, plain, depth + 1, out, why)) return -1;
    out->at[item].field = field;
    constants += out->at[item].value.kind == PARAM_CONSTEXPR;
    text = *end == ',' ? end + 1 : end;
    while (*text == ' ') text++;
  }
  if (constants == n || strcmp(text, ")")) return out->n = start, 0;
  tuple->value.size = out->n - start;
  return 1;
}

/* "f33*", "flaot32[N]": a type that there is not, rather than a constant; NULL: it may be one. */
static const char *no_type(Context *cx, const char *text) {
  bool star = *text == '*';
  const char *word = text + star, *at = word;
  while (isalnum((unsigned char)*at) || *at == '_') at++;
  bool points = star || (*at == '*' && (!at[1] || at[1] == ':'));
  bool shaped = *at == '[' && at > word && isdigit((unsigned char)at[-1]);
  if (!isalpha((unsigned char)*word) || !(points || shaped)) return NULL;
  return arena_printf(cx->arena, "there is no type '%.*s' (there are f32, bf16, f16, f64, i32, i64, u8, i1, ...)",
                      (int)(at - word), word);
}

static bool read_param(Context *cx, const char *text, const char *name, const ParamRule *rule, int depth,
                       AotParams *out, const char **why) {
  int tuple = *text == '(' && !rule->is_constexpr ? read_tuple(cx, text, name, rule, depth, out, why) : 0;
  if (tuple) return tuple > 0;
  bool is_descriptor = !rule->is_constexpr && !strncmp(text, descriptor, DESCRIPTOR_WORD);
  AotParam *p = aot_param_add(out, name, rule, is_descriptor ? PARAM_DESCRIPTOR : PARAM_CONSTEXPR);
  if (!p) return *why = too_many, false;
  const char *end = "";
  if (is_descriptor && !read_descriptor(cx, text + DESCRIPTOR_WORD, p, out, &end, why)) return false;
  bool is_type = is_descriptor || (!rule->is_constexpr && read_type(cx, text, p, &end));
  if (is_type && (!*end || *end == ':')) {
    ParamKind kind = p->value.kind;
    bool has = kind == PARAM_POINTER || kind == PARAM_INT || is_descriptor;
    p->cases = has ? FOR_DIVISIBLE | FOR_ANY : FOR_ANY;
    return !*end || read_cases(end + 1, p, why);
  }
  if (is_descriptor) return false;
  const char *wrong = rule->is_constexpr ? NULL : no_type(cx, text);
  if (wrong) return *why = wrong, false;
  p->value.kind = PARAM_CONSTEXPR, p->value.dtype = 0, p->shape = NULL;
  p->value.constant = !strcmp(text, "true")    ? "True"
                      : !strcmp(text, "false") ? "False"
                      : !strcmp(text, "none")  ? "None"
                                               : text;
  if (!*text) *why = "a type, or a constant's value, is missing";
  return *text != 0;
}

bool aot_param_parse(Context *cx, const char *text, const ParamRule *rule, AotParams *out, const char **why) {
  int first = out->n;
  if (!read_param(cx, text, rule->name, rule, 0, out, why)) return false;
  for (int i = first; i < out->n; i++) out->at[i].given = true;
  return true;
}
