/* replay_args: the arguments of a recorded launch as the interface takes them, but for their arrays. */
#include "replay.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The Python text of a recorded constexpr value; "triton_dtype:fp16" of a type. NULL: it has none. */
static char *constant_text(const Json *v) {
  const char *name;
  switch (v->kind) {
    case JSON_NULL: return format_string("None");
    case JSON_BOOL: return format_string(v->i ? "True" : "False");
    case JSON_INT: return v->is_unsigned ? format_string("%lu", (unsigned long)v->i) : format_string("%ld", (long)v->i);
    case JSON_DOUBLE:
      if (isnan(v->f)) return format_string("float('nan')");
      if (isinf(v->f)) return format_string(v->f > 0 ? "float('inf')" : "float('-inf')");
      return format_string(v->f == floor(v->f) && fabs(v->f) < 1e15 ? "%.1f" : "%.17g", v->f);
    case JSON_STRING: {
      char *out = format_string("'%s'", v->text);
      for (char *p = out ? out + 1 : NULL; p && *p && p[1]; p++)
        if (*p == '\'' || *p == '\\' || *p == '\n') *p = '_'; /* no recorded value has any */
      return out;
    }
    case JSON_ARRAY: {
      char *out = format_string("(");
      for (const Json *m = v->first; m && out; m = m->next) {
        char *item = constant_text(m), *longer = format_string("%s%s, ", out, item ? item : "None");
        free(out), free(item);
        out = longer;
      }
      char *closed = out ? format_string("%s)", out) : NULL;
      return free(out), closed;
    }
    case JSON_OBJECT:
      if ((name = json_get_text(v, "dtype", NULL))) return format_string("triton_dtype:%s", name);
      if ((name = json_get_text(v, "jit", NULL))) return format_string("%s", name);
      return NULL;
  }
  return NULL;
}

bool replay_has_text(const Json *v) {
  bool good = v->kind != JSON_OBJECT || json_get(v, "dtype") || (json_get(v, "jit") && !json_get(v, "function"));
  for (const Json *item = v->kind == JSON_ARRAY ? v->first : NULL; item && good; item = item->next)
    good = item->kind != JSON_OBJECT && replay_has_text(item);
  return good;
}

static const char *called(const Json *v) {
  static const char *const keys[] = {"jit", "constexpr_function", "class", "member", "object", "named_tuple"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_get_text(v, keys[i], NULL)) return json_get_text(v, keys[i], NULL);
  return "value";
}

/* The name that is asked back for what has no text. */
static char *asked_back(const Json *v, const char *parameter) {
  return replay_has_text(v) ? NULL : format_string("%s_is_%s", parameter ? parameter : "item", called(v));
}

/* Type names stand in a log as Triton's short ("fp16") or long ("float16") names; in Python text they are
 * triton.language's. */
static char *dtype_text(const char *name) {
  static const char *const table[][2] = {
      {"fp16", "float16"}, {"bf16", "bfloat16"}, {"fp32", "float32"}, {"fp64", "float64"},   {"i1", "int1"},
      {"i8", "int8"},      {"i16", "int16"},     {"i32", "int32"},    {"i64", "int64"},      {"u8", "uint8"},
      {"u16", "uint16"},   {"u32", "uint32"},    {"u64", "uint64"},   {"fp8e5", "float8e5"}, {"fp8e4nv", "float8e4nv"}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (!strcmp(name, table[i][0])) name = table[i][1];
  return format_string("triton.language.%s", name);
}

char *replay_path(const char *root, const char *file) {
  return *file == '/' ? format_string("%s", file) : format_string("%s/%s", root, file);
}

bool replay_dims(const Json *list, int64_t *out, int *rank) {
  *rank = 0;
  for (const Json *d = list ? list->first : NULL; d; d = d->next) {
    if (*rank == MAX_DIMS) return false;
    out[(*rank)++] = d->i;
  }
  return list != NULL;
}

bool replay_argument(const Json *a, int i, nereid_arg *arg, char **text, char *why, size_t size) {
  const Json *v;
  const char *type = json_get_text(a, "ptr", json_get_text(a, "desc", NULL));
  if (type) {
    nereid_dtype t;
    if (!nereid_dtype_parse(type, &t)) return snprintf(why, size, "unknown type %s in the log", type), false;
    *arg = nereid_pointer(NULL, t);
    if (json_get(a, "desc")) {
      int64_t block[MAX_DIMS], shape[MAX_DIMS], strides[MAX_DIMS];
      int rank;
      arg->kind = NEREID_ARG_DESCRIPTOR;
      if (!replay_dims(json_get(a, "block"), block, &arg->rank) || arg->rank > 5 ||
          !replay_dims(json_get(a, "shape"), shape, &rank) || rank != arg->rank ||
          !replay_dims(json_get(a, "strides"), strides, &rank) || rank != arg->rank)
        return snprintf(why, size, "argument %d is no descriptor", i), false;
      for (int d = 0; d < arg->rank; d++)
        arg->shape[d] = shape[d], arg->strides[d] = strides[d], arg->block_shape[d] = (int32_t)block[d];
    }
  } else if ((v = json_get(a, "int"))) {
    *arg = nereid_int(v->i), arg->is_unsigned = v->is_unsigned;
  } else if ((v = json_get(a, "float"))) {
    *arg = nereid_float(v->f);
  } else if ((v = json_get(a, "bool"))) {
    *arg = nereid_bool(v->i != 0);
  } else if (json_get(a, "none")) {
    *arg = nereid_none();
  } else if ((v = json_get(a, "constexpr"))) {
    *text = asked_back(v, json_get_text(a, "name", NULL));
    if (!*text) *text = constant_text(v);
    if (*text && !strncmp(*text, "triton_dtype:", 13)) {
      char *python = dtype_text(*text + 13);
      free(*text);
      *text = python;
    }
    if (!*text) return snprintf(why, size, "argument %d: a constexpr of an unknown form", i), false;
    *arg = nereid_constexpr(*text);
  } else if ((v = json_get(a, "tuple")) && v->kind == JSON_ARRAY) {
    *arg = (nereid_arg){.kind = NEREID_ARG_TUPLE, .item_count = v->count};
  } else {
    return snprintf(why, size, "argument %d is of an unknown form", i), false;
  }
  arg->name = json_get_text(a, "name", NULL);
  if (arg->name && *arg->name >= '0' && *arg->name <= '9') arg->name = NULL; /* an item that has no name */
  return true;
}
