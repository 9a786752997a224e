/* .npy files: one array, as NumPy saves it.
 *
 *     "\x93NUMPY" major minor   header length: 2 bytes (format 1), 4 bytes (2 and 3), little-endian
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      a Python dict, padded with blanks, ending in
 *                                                                      "\n"
 *     the elements, row-major
 *
 * (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.) The header is read by a small parser for
 * what such dicts hold: strings, booleans, integers, tuples and lists. A file may come from anywhere, so nothing in it
 * is believed: sizes are computed with overflow checked, and memory is taken for data that is there, not for what a
 * header promises.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum { MOST_HEADER = 1 << 20, MOST_DIMS = 8 };

typedef struct Npy {
  const char *path;
  nereid_error **error;
  nereid_status status; /* the first failure */
  const char *at;       /* in the header */
  char descr[32];
  bool fortran, has_descr, has_order, has_shape;
  bool is_structured; /* descr is no string */
  bool takes_complex, is_complex;
  int rank;
  int64_t shape[MOST_DIMS];
} Npy;

#define bad(f, hint, ...) error_bad_file(&(f)->status, (f)->error, (f)->path, (hint), __VA_ARGS__)

/* ---- the header's dict ------------------------------------------------------------------------------------------- */

static void skip_blanks(Npy *f) {
  while (*f->at && strchr(" \t\r\n", *f->at)) f->at++;
}

static bool take(Npy *f, char c) {
  skip_blanks(f);
  if (*f->at != c) return false;
  f->at++;
  return true;
}

static bool malformed(Npy *f) { return bad(f, NULL, "its header is no dict of descr, fortran_order and shape"); }

/* A string without escapes, cut to the size. */
static bool read_string(Npy *f, char *out, size_t size) {
  skip_blanks(f);
  char quote = *f->at;
  if (quote != '\'' && quote != '"') return false;
  const char *end = strchr(f->at + 1, quote);
  if (!end) return false;
  snprintf(out, size, "%.*s", (int)(end - f->at - 1 > 1000 ? 1000 : end - f->at - 1), f->at + 1);
  f->at = end + 1;
  return true;
}

static bool read_word(Npy *f, const char *word) {
  skip_blanks(f);
  size_t n = strlen(word);
  if (strncmp(f->at, word, n) || isalnum((unsigned char)f->at[n]) || f->at[n] == '_') return false;
  f->at += n;
  return true;
}

static bool read_shape(Npy *f) {
  if (!take(f, '(')) return malformed(f);
  while (!take(f, ')')) {
    skip_blanks(f);
    if (*f->at == '-') return bad(f, NULL, "its shape has a negative size");
    if (!isdigit((unsigned char)*f->at)) return malformed(f);
    char *end;
    errno = 0;
    long long v = strtoll(f->at, &end, 10);
    if (errno) return bad(f, NULL, "its shape has a size beyond 64 bits");
    if (*end == 'L') end++; /* Python 2 */
    f->at = end;
    if (f->rank == MOST_DIMS) return bad(f, NULL, "it has more than %d dimensions", MOST_DIMS);
    f->shape[f->rank++] = v;
    if (!take(f, ',')) {
      if (!take(f, ')')) return malformed(f);
      break;
    }
  }
  return true;
}

static bool read_header(Npy *f) {
  if (!take(f, '{')) return malformed(f);
  while (!take(f, '}')) {
    char key[32];
    if (!read_string(f, key, sizeof key) || !take(f, ':')) return malformed(f);
    if (!strcmp(key, "descr")) {
      f->has_descr = true;
      if (!read_string(f, f->descr, sizeof f->descr))
        return bad(f, NULL, "its elements are records; an array of one number type is wanted");
    } else if (!strcmp(key, "fortran_order")) {
      f->has_order = true;
      if (read_word(f, "True")) f->fortran = true;
      else if (!read_word(f, "False")) return malformed(f);
    } else if (!strcmp(key, "shape")) {
      f->has_shape = true;
      f->rank = 0;
      if (!read_shape(f)) return false;
    } else {
      return malformed(f);
    }
    if (!take(f, ',')) {
      if (!take(f, '}')) return malformed(f);
      break;
    }
  }
  skip_blanks(f);
  if (*f->at || !f->has_descr || !f->has_order || !f->has_shape) return malformed(f);
  return true;
}

/* ---- element types ----------------------------------------------------------------------------------------------- */

static const struct {
  const char *descr;
  nereid_dtype dtype;
} types[] = {
    {"b1", NEREID_I1},  {"i1", NEREID_I8},  {"i2", NEREID_I16},  {"i4", NEREID_I32}, {"i8", NEREID_I64},
    {"u1", NEREID_U8},  {"u2", NEREID_U16}, {"u4", NEREID_U32},  {"u8", NEREID_U64}, {"f2", NEREID_F16},
    {"f4", NEREID_F32}, {"f8", NEREID_F64}, {"V2", NEREID_BF16}, /* ml_dtypes' bfloat16, as NumPy saves it */
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static bool read_type(Npy *f, nereid_dtype *out) {
  const char *d = f->descr;
  char order = 0;
  if (*d && strchr("<>=|", *d)) order = *d++;
  for (int i = 0; i < TYPE_COUNT; i++) {
    if (strcmp(types[i].descr, d)) continue;
    if (order == '>' && d[1] != '1')
      return bad(f, "in NumPy: a.astype(a.dtype.newbyteorder('<'))", "it is big-endian ('%s'); little-endian is wanted",
                 f->descr);
    *out = types[i].dtype;
    return true;
  }
  if (f->takes_complex && *d == 'c' && order != '>' && (!strcmp(d, "c8") || !strcmp(d, "c16"))) {
    if (f->rank == MOST_DIMS) return bad(f, NULL, "of complex numbers it has more than %d dimensions", MOST_DIMS - 1);
    f->is_complex = true;
    f->shape[f->rank++] = 2;
    *out = d[1] == '8' ? NEREID_F32 : NEREID_F64;
    return true;
  }
  const char *what = *d == 'O'                ? "Python objects"
                     : *d == 'c'              ? "complex numbers"
                     : *d == 'U' || *d == 'S' ? "strings"
                     : *d == 'M' || *d == 'm' ? "times"
                                              : NULL;
  const char *hint = "there are b1, i1 to i8, u1 to u8, f2, f4, f8, and V2 for bfloat16";
  if (what) return bad(f, hint, "its elements are %s ('%s')", what, f->descr);
  return bad(f, hint, "its element type '%s' is none of a kernel's", f->descr);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool element_bytes(const Npy *f, nereid_dtype t, int64_t *out) {
  int64_t n = (int64_t)nereid_dtype_bytes(t);
  bool empty = false;
  for (int i = 0; i < f->rank; i++) empty |= f->shape[i] == 0;
  for (int i = 0; i < f->rank && !empty; i++)
    if (__builtin_mul_overflow(n, f->shape[i], &n)) return false;
  *out = empty ? 0 : n;
  return n < PTRDIFF_MAX / 2;
}

static void *read_data(Npy *f, FILE *file, int64_t n) {
  struct stat st;
  long at = ftell(file);
  if (at < 0 || fstat(fileno(file), &st) != 0) {
    f->status = error_errno(f->error, NEREID_BAD_FILE, errno, "cannot read %s", f->path);
    return NULL;
  }
  if (st.st_size - at < n) {
    bad(f, NULL, "it is truncated: %lld bytes of data instead of %lld", (long long)(st.st_size - at), (long long)n);
    return NULL;
  }
  int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (memory > 0 && n > memory) { /* a sparse file costs nothing where it lies */
    bad(f, NULL, "its %lld bytes of data are more than this machine's memory", (long long)n);
    return NULL;
  }
  void *data = malloc(n ? (size_t)n : 1);
  if (!data) {
    f->status = error_out_of_memory(f->error);
    return NULL;
  }
  int64_t got = (int64_t)fread(data, 1, (size_t)n, file);
  if (got == n) return data;
  if (ferror(file)) f->status = error_errno(f->error, NEREID_BAD_FILE, errno ? errno : EIO, "cannot read %s", f->path);
  else bad(f, NULL, "it is truncated: %lld bytes of data instead of %lld", (long long)got, (long long)n);
  free(data);
  return NULL;
}

static bool read_file(Npy *f, FILE *file, nereid_array *out) {
  unsigned char head[12] = {0};
  if (fread(head, 1, 8, file) != 8 || memcmp(head, "\x93NUMPY", 6)) {
    if (ferror(file))
      return f->status = error_errno(f->error, NEREID_BAD_FILE, errno ? errno : EIO, "cannot read %s", f->path), false;
    return bad(f, NULL, "it is no .npy file");
  }
  int major = head[6], length_bytes = major == 1 ? 2 : 4;
  if (major < 1 || major > 3)
    return bad(f, NULL, "it has the NumPy format %d.%d; 1.0 to 3.0 can be read", major, head[7]);
  if (fread(head + 8, 1, (size_t)length_bytes, file) != (size_t)length_bytes)
    return bad(f, NULL, "it is truncated in its header");
  uint32_t length = head[8] | head[9] << 8 | head[10] << 16 | (uint32_t)head[11] << 24;
  if (length > MOST_HEADER) return bad(f, NULL, "its header has %u bytes, more than any array needs", length);
  char *header = malloc(length + 1);
  if (!header) return f->status = error_out_of_memory(f->error), false;
  bool ok = fread(header, 1, length, file) == length;
  if (!ok) bad(f, NULL, "it is truncated in its header");
  header[length] = 0;
  if (ok && strlen(header) != length) ok = malformed(f);
  f->at = header;
  nereid_array a = {0};
  ok = ok && read_header(f) && read_type(f, &a.dtype);
  free(header);
  if (!ok) return false;
  if (f->fortran && f->rank > 1)
    return bad(f, "in NumPy: numpy.ascontiguousarray(a)", "it is in Fortran order; row-major (C) order is wanted");
  if (!element_bytes(f, a.dtype, &a.bytes)) return bad(f, NULL, "its shape is larger than any memory");
  a.rank = f->rank;
  memcpy(a.shape, f->shape, sizeof a.shape);
  a.data = read_data(f, file, a.bytes);
  if (!a.data) return false;
  *out = a;
  return true;
}

static nereid_status read_path(const char *path, nereid_array *out, bool *is_complex, nereid_error **error) {
  errno = 0;
  FILE *file = file_open_stream(path, INT64_MAX);
  if (!file) return error_errno(error, NEREID_BAD_FILE, errno, "cannot read %s", path);
  Npy f = {.path = path, .error = error, .takes_complex = is_complex != NULL};
  errno = 0;
  read_file(&f, file, out);
  fclose(file);
  if (is_complex) *is_complex = f.is_complex;
  return f.status;
}

nereid_status nereid_npy_read(const char *path, nereid_array *out, nereid_error **error) {
  if (!path) return error_null(error, "nereid_npy_read", "path");
  if (!out) return error_null(error, "nereid_npy_read", "out");
  return read_path(path, out, NULL, error);
}

nereid_status nereid_npy_read_pairs(const char *path, nereid_array *out, bool *is_complex, nereid_error **error) {
  if (!path) return error_null(error, "nereid_npy_read_pairs", "path");
  if (!out) return error_null(error, "nereid_npy_read_pairs", "out");
  if (!is_complex) return error_null(error, "nereid_npy_read_pairs", "is_complex");
  return read_path(path, out, is_complex, error);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static const char *written_type(nereid_dtype t) {
  if (t == NEREID_BF16) return "<u2";
  if (dtype_is_fp8((Dtype)t)) return "|u1";
  for (int i = 0; i < TYPE_COUNT; i++) {
    static const char *const little[] = {"|b1", "|i1", "<i2", "<i4", "<i8", "|u1",
                                         "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"};
    if (types[i].dtype == t) return little[i];
  }
  return NULL;
}

static nereid_status write_path(const char *path, const nereid_array *a, bool is_complex, nereid_error **error) {
  if (!path) return error_null(error, "nereid_npy_write", "path");
  if (!a) return error_null(error, "nereid_npy_write", "the array");
  if ((unsigned)a->dtype >= DT_COUNT)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_npy_write: unknown element type %d", (int)a->dtype);
  if (a->rank < 0 || a->rank > MOST_DIMS)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_npy_write: rank %d; 0 to %d are possible", a->rank,
                     MOST_DIMS);
  Npy f = {.rank = a->rank};
  for (int i = 0; i < a->rank; i++) {
    if (a->shape[i] < 0)
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_npy_write: dimension %d is %lld", i,
                       (long long)a->shape[i]);
    f.shape[i] = a->shape[i];
  }
  int64_t bytes;
  if (!element_bytes(&f, a->dtype, &bytes) || bytes != a->bytes)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                     "nereid_npy_write: the array's bytes (%lld) are not those of its shape", (long long)a->bytes);
  if (bytes && !a->data) return error_null(error, "nereid_npy_write", "the array's data");

  char header[512];
  const char *type = !is_complex ? written_type(a->dtype) : a->dtype == NEREID_F32 ? "<c8" : "<c16";
  int rank = a->rank - is_complex;
  int n = snprintf(header, sizeof header, "\x93NUMPY\x01%c%c%c{'descr': '%s', 'fortran_order': False, 'shape': (", 0, 0,
                   0, type);
  for (int i = 0; i < rank; i++)
    n += snprintf(header + n, sizeof header - (size_t)n, "%s%lld", i ? ", " : "", (long long)a->shape[i]);
  n += snprintf(header + n, sizeof header - (size_t)n, "%s), }", rank == 1 ? "," : "");
  int size = (n + 1 + 63) / 64 * 64; /* data is aligned for whoever maps the file */
  memset(header + n, ' ', (size_t)(size - n - 1));
  header[size - 1] = '\n';
  header[8] = (char)((size - 10) & 255);
  header[9] = (char)((size - 10) >> 8);

  char *whole = malloc((size_t)(size + bytes));
  if (!whole) return error_out_of_memory(error);
  memcpy(whole, header, (size_t)size);
  if (bytes) memcpy(whole + size, a->data, (size_t)bytes);
  errno = 0;
  bool ok = file_write_atomic(path, whole, (size_t)(size + bytes));
  int why = errno;
  free(whole);
  return ok ? NEREID_OK : error_errno(error, NEREID_BAD_FILE, why ? why : EIO, "cannot write %s", path);
}

nereid_status nereid_npy_write(const char *path, const nereid_array *a, nereid_error **error) {
  return write_path(path, a, false, error);
}

nereid_status nereid_npy_write_pairs(const char *path, const nereid_array *a, nereid_error **error) {
  bool good = !a || ((a->dtype == NEREID_F32 || a->dtype == NEREID_F64) && a->rank > 0 && a->rank <= MOST_DIMS &&
                     a->shape[a->rank - 1] == 2);
  if (!good)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                     "nereid_npy_write_pairs: complex numbers are pairs of f32 or f64 in the last dim");
  return write_path(path, a, true, error);
}

void nereid_array_free(nereid_array *a) {
  if (!a) return;
  free(a->data);
  *a = (nereid_array){0};
}
