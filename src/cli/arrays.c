/* arrays: arrays in host memory: made, filled, compared, read and written.
 *
 * Strides may be anything that is not negative (0 repeats an element); memory spans from the first to the last element.
 * Random numbers come from xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64, so that a seed makes every
 * run repeat. */
#include "cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void random_seed(Random *r, uint64_t seed) {
  for (int i = 0; i < 4; i++) {
    uint64_t z = (seed += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    r->s[i] = z ^ (z >> 31);
  }
  r->has_spare = false;
}

static uint64_t rotate(uint64_t x, int k) { return x << k | x >> (64 - k); }

uint64_t random_bits(Random *r) {
  uint64_t *s = r->s, out = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
  s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t, s[3] = rotate(s[3], 45);
  return out;
}

double random_uniform(Random *r) { return (double)(random_bits(r) >> 11) * 0x1p-53; }

double random_normal(Random *r) { /* Marsaglia's polar method */
  if (r->has_spare) return r->has_spare = false, r->spare;
  double u, v, s;
  do u = 2 * random_uniform(r) - 1, v = 2 * random_uniform(r) - 1, s = u * u + v * v;
  while (s >= 1 || s == 0);
  double k = sqrt(-2 * log(s) / s);
  r->spare = v * k, r->has_spare = true;
  return u * k;
}

int64_t array_count(const Array *a) {
  int64_t n = 1;
  for (int d = 0; d < a->rank; d++) n *= a->shape[d];
  return n;
}

int64_t array_offset(const Array *a, int64_t linear) {
  int64_t at = 0;
  for (int d = a->rank - 1; d >= 0; d--) {
    at += linear % a->shape[d] * a->strides[d];
    linear /= a->shape[d];
  }
  return at;
}

double array_get(const Array *a, int64_t linear) {
  return nereid_dtype_load(a->dtype, (char *)a->data + array_offset(a, linear) * (int64_t)nereid_dtype_bytes(a->dtype));
}

/* The span of memory in bytes, or -1 when it does not fit in 2^62. */
static int64_t span_bytes(const Array *a) {
  int64_t count = 1, last = 0, item = (int64_t)nereid_dtype_bytes(a->dtype);
  for (int d = 0; d < a->rank; d++) {
    int64_t extent;
    if (a->shape[d] < 0 || a->strides[d] < 0) return -1;
    if (__builtin_mul_overflow(count, a->shape[d], &count)) return -1;
    if (a->shape[d] == 0) continue;
    if (__builtin_mul_overflow(a->shape[d] - 1, a->strides[d], &extent) || __builtin_add_overflow(last, extent, &last))
      return -1;
  }
  if (count == 0) return 0;
  int64_t bytes;
  if (__builtin_mul_overflow(last + 1, item, &bytes) || bytes > (int64_t)1 << 62) return -1;
  return bytes;
}

static bool is_integer(nereid_dtype t) { return t < NEREID_F8E5; }

static void fill_one(Array *a, void *p, Fill fill, double lo, double hi, int64_t i, Random *r) {
  double v = 0;
  switch (fill) {
    case FILL_RANDN:
      v = random_normal(r);
      if (a->dtype == NEREID_I1) v = v > 0;
      else if (is_integer(a->dtype)) v = floor(fabs(v) * 8);
      break;
    case FILL_RAND: v = a->dtype == NEREID_I1 ? random_uniform(r) < 0.5 : random_uniform(r); break;
    case FILL_ONES: v = 1; break;
    case FILL_FULL: v = lo; break;
    case FILL_ARANGE: v = (double)i; break;
    case FILL_RANDINT: v = floor(lo + random_uniform(r) * (hi - lo)); break;
    case FILL_ZEROS:
    case FILL_EMPTY: break;
  }
  nereid_dtype_store(a->dtype, p, v);
}

const char *array_describe(Array *a, nereid_dtype t, int rank, const int64_t *shape, const int64_t *strides) {
  memset(a, 0, sizeof *a);
  a->dtype = t, a->rank = rank;
  for (int d = rank - 1; d >= 0; d--) {
    a->shape[d] = shape[d];
    if (strides) a->strides[d] = strides[d];
    else if (d == rank - 1) a->strides[d] = 1;
    else if (__builtin_mul_overflow(a->strides[d + 1], a->shape[d + 1] ? a->shape[d + 1] : 1, &a->strides[d]))
      return "is too large";
  }
  a->bytes = span_bytes(a);
  return a->bytes < 0 ? "is too large, or has a negative size or stride" : NULL;
}

const char *array_make(Array *a, nereid_dtype t, int rank, const int64_t *shape, const int64_t *strides, Fill fill,
                       double lo, double hi, Random *r) {
  const char *why = array_describe(a, t, rank, shape, strides);
  if (why) return why;
  size_t room = ((size_t)a->bytes + 127) / 64 * 64;
  a->data = fill == FILL_ZEROS ? calloc(room, 1) : aligned_alloc(64, room);
  if (!a->data) return "does not fit in memory";
  if (fill == FILL_ZEROS || fill == FILL_EMPTY) return NULL;
  /* Fill all of the memory in order, gaps between strided rows too: a stray read then meets numbers, not chance. */
  int64_t item = (int64_t)nereid_dtype_bytes(t), n = a->bytes / item;
  for (int64_t i = 0; i < n; i++) fill_one(a, (char *)a->data + i * item, fill, lo, hi, i, r);
  if (fill == FILL_ARANGE && strides)
    for (int64_t i = 0, count = array_count(a); i < count; i++)
      fill_one(a, (char *)a->data + array_offset(a, i) * item, fill, lo, hi, i, r);
  return NULL;
}

void array_free(Array *a) {
  free(a->data);
  memset(a, 0, sizeof *a);
}

static void take(Array *a, nereid_array in) {
  memset(a, 0, sizeof *a);
  a->dtype = in.dtype, a->rank = in.rank, a->bytes = in.bytes, a->data = in.data;
  for (int d = in.rank - 1, stride = 1; d >= 0; d--) {
    a->shape[d] = in.shape[d];
    a->strides[d] = d == in.rank - 1 ? stride : a->strides[d + 1] * a->shape[d + 1];
  }
}

const char *array_read_npy(Array *a, const char *path, nereid_error **err) {
  nereid_array in;
  if (nereid_npy_read(path, &in, err)) return "";
  take(a, in);
  return NULL;
}

const char *array_read_npy_pairs(Array *a, const char *path, nereid_error **err) {
  nereid_array in;
  bool is_complex;
  if (nereid_npy_read_pairs(path, &in, &is_complex, err)) return "";
  take(a, in);
  a->is_complex = is_complex;
  return NULL;
}

nereid_status array_read_safetensors(Array *a, const char *path, const char *name, nereid_error **err) {
  nereid_array in;
  nereid_status status = nereid_safetensors_read(path, name, &in, err);
  if (!status) take(a, in);
  return status;
}

int array_write_npy(const Array *a, const char *path, nereid_error **err) {
  int64_t count = array_count(a), item = (int64_t)nereid_dtype_bytes(a->dtype);
  nereid_array out = {
      .dtype = a->dtype, .rank = a->rank, .bytes = count * item, .data = malloc((size_t)(count * item) + 1)};
  if (!out.data) return -1;
  memcpy(out.shape, a->shape, sizeof out.shape);
  for (int64_t i = 0; i < count; i++)
    memcpy((char *)out.data + i * item, (char *)a->data + array_offset(a, i) * item, (size_t)item);
  nereid_status status = a->is_complex ? nereid_npy_write_pairs(path, &out, err) : nereid_npy_write(path, &out, err);
  int failed = status != NEREID_OK;
  free(out.data);
  return failed;
}

Difference array_compare(const Array *got, const Array *want, double rtol, double atol) {
  Difference d = {.count = array_count(got), .worst_at = -1};
  for (int64_t i = 0; i < d.count; i++) {
    double g = array_get(got, i), w = array_get(want, i);
    if (g == w || (isnan(g) && isnan(w))) continue;
    double error = fabs(g - w), excess = error / (atol + rtol * fabs(w));
    if (isnan(error) || isinf(w) || isinf(g)) error = excess = INFINITY;
    if (error > d.max_abs_error) d.max_abs_error = error;
    if (!(excess <= 1)) d.mismatches++;
    if (d.worst_at < 0 || excess > d.worst_error)
      d.worst_at = i, d.worst_error = excess, d.worst_got = g, d.worst_want = w;
  }
  return d;
}

double array_largest(const Array *a) {
  double most = 0;
  int64_t n = array_count(a);
  if (a->dtype == NEREID_F32 && array_count(a) * (int64_t)sizeof(float) == a->bytes) {
    const float *p = a->data;
    float m = 0;
    for (int64_t i = 0; i < n; i++) m = fabsf(p[i]) > m && fabsf(p[i]) <= 3.4e38f ? fabsf(p[i]) : m;
    return m;
  }
  for (int64_t i = 0; i < n; i++) {
    double v = fabs(array_get(a, i));
    if (v > most && isfinite(v)) most = v;
  }
  return most;
}

double dtype_tolerance(nereid_dtype t) {
  switch (t) {
    case NEREID_F64: return 0x1p-46;
    case NEREID_F32: return 0x1p-18;
    case NEREID_F16: return 0x1p-9;
    case NEREID_BF16: return 0x1p-6;
    case NEREID_F8E4NV:
    case NEREID_F8E4B15:
    case NEREID_F8E4B8: return 0x1p-3;
    case NEREID_F8E5:
    case NEREID_F8E5B16: return 0x1p-2;
    default: return 0;
  }
}
