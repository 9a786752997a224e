/* .safetensors files: many arrays by name, as model weights are kept.
 *
 *     header length: 8 bytes, little-endian
 *     {"layers.0.weight": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}, "__metadata__": {...}}
 *     data, to which the offsets count
 *
 * (https://github.com/huggingface/safetensors.) A file may come from anywhere: nothing in its header is believed. It is
 * as long as the file allows, each array lies within the data and has the bytes of its shape. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/json.h"
#include "runtime/runtime.h"

enum { MOST_HEADER = 100 << 20, MOST_DIMS = 8 };

typedef struct Safetensors {
  const char *path, *name;
  FILE *file;
  int64_t data, bytes; /* where the data begins, and how much there is */
  nereid_error **error;
  nereid_status status; /* the first failure */
} Safetensors;

#define bad(f, hint, ...) error_bad_file(&(f)->status, (f)->error, (f)->path, (hint), __VA_ARGS__)

static const struct {
  const char *name;
  nereid_dtype dtype;
} types[] = {{"F64", NEREID_F64}, {"F32", NEREID_F32},      {"F16", NEREID_F16},       {"BF16", NEREID_BF16},
             {"I64", NEREID_I64}, {"I32", NEREID_I32},      {"I16", NEREID_I16},       {"I8", NEREID_I8},
             {"U64", NEREID_U64}, {"U32", NEREID_U32},      {"U16", NEREID_U16},       {"U8", NEREID_U8},
             {"BOOL", NEREID_I1}, {"F8_E5M2", NEREID_F8E5}, {"F8_E4M3", NEREID_F8E4NV}};

static bool read_type(Safetensors *f, const Json *entry, nereid_dtype *out) {
  const char *name = json_get_text(entry, "dtype", "");
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, name)) {
      *out = types[i].dtype;
      return true;
    }
  return bad(f, NULL, "'%s' has elements of %s, which are not known", f->name, *name ? name : "no type");
}

static bool read_shape(Safetensors *f, const Json *entry, nereid_array *a) {
  const Json *shape = json_get(entry, "shape");
  if (!shape || shape->kind != JSON_ARRAY) return bad(f, NULL, "'%s' has no shape", f->name);
  if (shape->count > MOST_DIMS) return bad(f, NULL, "'%s' has more than %d dims", f->name, MOST_DIMS);
  a->bytes = (int64_t)nereid_dtype_bytes(a->dtype);
  for (const Json *d = shape->first; d; d = d->next) {
    if (d->kind != JSON_INT || d->is_unsigned || d->i < 0) return bad(f, NULL, "'%s' has no shape of sizes", f->name);
    a->shape[a->rank++] = d->i;
    if (__builtin_mul_overflow(a->bytes, d->i, &a->bytes))
      return bad(f, NULL, "the shape of '%s' is larger than any memory", f->name);
  }
  return true;
}

static bool read_data(Safetensors *f, const Json *entry, nereid_array *a) {
  const Json *offsets = json_get(entry, "data_offsets");
  const Json *begin = offsets && offsets->kind == JSON_ARRAY && offsets->count == 2 ? offsets->first : NULL;
  const Json *end = begin ? begin->next : NULL;
  if (!begin || begin->kind != JSON_INT || end->kind != JSON_INT || begin->is_unsigned || end->is_unsigned)
    return bad(f, NULL, "'%s' does not say where its data lies", f->name);
  if (begin->i < 0 || end->i < begin->i || end->i > f->bytes)
    return bad(f, NULL, "'%s' would lie from byte %lld to %lld of %lld bytes of data", f->name, (long long)begin->i,
               (long long)end->i, (long long)f->bytes);
  if (end->i - begin->i != a->bytes)
    return bad(f, NULL, "'%s' has %lld bytes of data, and %lld by its shape", f->name, (long long)(end->i - begin->i),
               (long long)a->bytes);
  a->data = malloc((size_t)a->bytes + 1);
  if (!a->data) {
    f->status = error_out_of_memory(f->error);
    return false;
  }
  if (!fseeko(f->file, f->data + begin->i, SEEK_SET) &&
      fread(a->data, 1, (size_t)a->bytes, f->file) == (size_t)a->bytes)
    return true;
  free(a->data);
  a->data = NULL;
  return bad(f, NULL, "the data of '%s' cannot be read", f->name);
}

/* NULL: it failed. */
static char *read_header(Safetensors *f) {
  struct stat s;
  unsigned char head[8];
  if (fstat(fileno(f->file), &s) || fread(head, 1, 8, f->file) != 8) {
    bad(f, NULL, "it is no .safetensors file");
    return NULL;
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | head[i];
  if (length > MOST_HEADER || length > (uint64_t)s.st_size - 8) {
    bad(f, NULL, "it is no .safetensors file: its header would have %llu bytes", (unsigned long long)length);
    return NULL;
  }
  f->data = 8 + (int64_t)length;
  f->bytes = (int64_t)s.st_size - f->data;
  char *text = malloc(length + 1);
  if (!text) {
    f->status = error_out_of_memory(f->error);
    return NULL;
  }
  text[length] = 0;
  if (fread(text, 1, length, f->file) == length && strlen(text) == length) return text;
  free(text);
  bad(f, NULL, "its header cannot be read");
  return NULL;
}

static const Json *find(Safetensors *f, const Json *header) {
  const Json *found = NULL;
  char some[200] = "";
  size_t n = 0;
  for (const Json *e = header->first; e; e = e->next) {
    if (!strcmp(e->key, "__metadata__")) continue;
    if (!strcmp(e->key, f->name)) {
      if (found) {
        bad(f, NULL, "'%s' is there twice", f->name);
        return NULL;
      }
      found = e;
    } else if (n < 120) n += (size_t)snprintf(some + n, sizeof some - n, "%s%.60s", n ? ", " : "it has ", e->key);
  }
  if (!found)
    f->status = error_set(f->error, NEREID_BAD_ARGUMENT, *some ? some : NULL, "%s: there is no '%s'", f->path, f->name);
  return found;
}

nereid_status nereid_safetensors_read(const char *path, const char *name, nereid_array *out, nereid_error **error) {
  if (!path) return error_null(error, "nereid_safetensors_read", "path");
  if (!name) return error_null(error, "nereid_safetensors_read", "name");
  if (!out) return error_null(error, "nereid_safetensors_read", "out");
  errno = 0;
  Safetensors f = {.path = path, .name = name, .error = error, .file = file_open_stream(path, INT64_MAX)};
  if (!f.file) return error_errno(error, NEREID_BAD_FILE, errno, "cannot read %s", path);
  nereid_array a = {0};
  const char *why = NULL;
  char *text = read_header(&f);
  Json *header = text ? json_parse(text, &why) : NULL;
  if (text && (!header || header->kind != JSON_OBJECT))
    bad(&f, NULL, "its header is no JSON object%s%s", why ? ": " : "", why ? why : "");
  const Json *entry = f.status ? NULL : find(&f, header);
  if (entry && read_type(&f, entry, &a.dtype) && read_shape(&f, entry, &a) && read_data(&f, entry, &a)) *out = a;
  json_free(header);
  free(text);
  fclose(f.file);
  return f.status;
}
