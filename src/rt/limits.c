/* The limits of compilations and launches: the caller's, else the environment's, else the defaults. */
#include <stdlib.h>

#include "rt/rt.h"

/* One "name=value" of n bytes. */
static bool read_one(const char *text, size_t n, nereid_limits *out) {
  static const char *const names[] = {"memory", "steps", "operations", "file"};
  int64_t *const places[] = {&out->memory_bytes, &out->steps, &out->operations, &out->file_bytes};
  char word[64], *value, *end;
  if (n >= sizeof word) return false;
  memcpy(word, text, n);
  word[n] = 0;
  value = strchr(word, '=');
  if (!value) return false;
  *value++ = 0;
  double v = text_to_double(value, &end);
  const char *unit = *end ? strchr("KMGT", *end) : NULL;
  if (end == value || (*end && !(unit && !end[1]))) return false;
  for (const char *u = "KMGT"; unit && u <= unit; u++) v *= 1024;
  if (!(v >= 1) || v > 4e18) return false;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(word, names[i])) continue;
    *places[i] = (int64_t)v;
    return true;
  }
  return false;
}

static bool read_all(const char *text, nereid_limits *out) {
  *out = (nereid_limits){0};
  while (*text) {
    size_t n = strcspn(text, ",");
    if (!read_one(text, n, out)) return false;
    text += n;
    if (*text) text++;
  }
  return true;
}

nereid_status nereid_limits_read(const char *text, nereid_limits *out, nereid_error **error) {
  if (!text) return error_null(error, "nereid_limits_read", "the text");
  if (!out) return error_null(error, "nereid_limits_read", "out");
  if (read_all(text, out)) return NEREID_OK;
  return error_set(error, NEREID_BAD_ARGUMENT, "as in \"memory=4G,steps=1e9,operations=1e12,file=1M\"",
                   "these are no limits: %s", text);
}

static int64_t first_of(int64_t a, int64_t b, int64_t c) { return a > 0 ? a : b > 0 ? b : c; }

nereid_limits limits_of(const nereid_options *o) {
  static const int64_t operations = 1LL << 40;
  nereid_limits mine = o ? o->limits : (nereid_limits){0}, environment = {0};
  const char *text = environment_get("NEREID_LIMITS");
  if (text && !read_all(text, &environment)) environment = (nereid_limits){0}; /* nereid_device_open complains */
  return (nereid_limits){
      .memory_bytes = first_of(mine.memory_bytes, environment.memory_bytes, limits_default.memory),
      .steps = first_of(mine.steps, environment.steps, limits_default.steps),
      .operations = first_of(mine.operations, environment.operations, operations),
      .file_bytes = first_of(mine.file_bytes, environment.file_bytes, limits_default.file),
  };
}
