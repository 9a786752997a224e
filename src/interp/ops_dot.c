/* dot: out[b, m, n] = acc[b, m, n] + sum over k of a[b, m, k] * x[b, k, n].
 *
 * Floats narrower than 64 bits are multiplied and summed in f32 (tf32 counts as f32), in the order of k, starting from
 * the accumulator; an f16 accumulator is widened, and rounded once at the end. f64 is summed in f64, integers modulo
 * 2^32 (int8's products fit) or 2^64.
 *
 * The loop keeps a block of 4 rows by 2 vectors of the result in registers while it walks along k. It is compiled three
 * times, for AVX-512, AVX2 with FMA, and any machine; where there is FMA a product is not rounded before it is added.
 */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif
#include "interp/run.h"

/* One block: rows i .. i+3 of c, V's at columns j. B is the row stride of x and c. */
#define ROW_BLOCK(V, T, vectors) \
  do { \
    V s00, s01, s10, s11, s20, s21, s30, s31; \
    T *c0 = c + i * n + j, *c1 = c0 + n, *c2 = c1 + n, *c3 = c2 + n; \
    const T *a0 = a + i * k, *a1 = a0 + k, *a2 = a1 + k, *a3 = a2 + k, *row = x + j; \
    memcpy(&s00, c0, sizeof(V)), memcpy(&s10, c1, sizeof(V)), memcpy(&s20, c2, sizeof(V)), \
        memcpy(&s30, c3, sizeof(V)); \
    if (vectors == 2) { \
      memcpy(&s01, c0 + W, sizeof(V)), memcpy(&s11, c1 + W, sizeof(V)); \
      memcpy(&s21, c2 + W, sizeof(V)), memcpy(&s31, c3 + W, sizeof(V)); \
    } \
    for (int64_t p = 0; p < k; p++, row += n) { \
      V v0, v1; \
      memcpy(&v0, row, sizeof(V)); \
      s00 = s00 + a0[p] * v0, s10 = s10 + a1[p] * v0, s20 = s20 + a2[p] * v0, s30 = s30 + a3[p] * v0; \
      if (vectors == 2) { \
        memcpy(&v1, row + W, sizeof(V)); \
        s01 = s01 + a0[p] * v1, s11 = s11 + a1[p] * v1, s21 = s21 + a2[p] * v1, s31 = s31 + a3[p] * v1; \
      } \
    } \
    memcpy(c0, &s00, sizeof(V)), memcpy(c1, &s10, sizeof(V)), memcpy(c2, &s20, sizeof(V)), \
        memcpy(c3, &s30, sizeof(V)); \
    if (vectors == 2) { \
      memcpy(c0 + W, &s01, sizeof(V)), memcpy(c1 + W, &s11, sizeof(V)); \
      memcpy(c2 + W, &s21, sizeof(V)), memcpy(c3 + W, &s31, sizeof(V)); \
    } \
  } while (0)

#define MULTIPLY(name, T, bytes, attributes) \
  attributes static void name(T *c, const T *a, const T *x, int64_t m, int64_t n, int64_t k) { \
    typedef T V __attribute__((vector_size(bytes))); \
    enum { W = bytes / sizeof(T) }; \
    int64_t i = 0; \
    for (; i + 4 <= m; i += 4) { \
      int64_t j = 0; \
      for (; j + 2 * W <= n; j += 2 * W) ROW_BLOCK(V, T, 2); \
      for (; j + W <= n; j += W) ROW_BLOCK(V, T, 1); \
      for (; j < n; j++) \
        for (int64_t r = i; r < i + 4; r++) { \
          T sum = c[r * n + j]; \
          for (int64_t p = 0; p < k; p++) sum = sum + a[r * k + p] * x[p * n + j]; \
          c[r * n + j] = sum; \
        } \
    } \
    for (; i < m; i++) \
      for (int64_t p = 0; p < k; p++) \
        for (int64_t j = 0; j < n; j++) c[i * n + j] = c[i * n + j] + a[i * k + p] * x[p * n + j]; \
  }

#if defined(__x86_64__)
#define MULTIPLY_ALL(name, T) \
  MULTIPLY(name##_512, T, 64, __attribute__((target("avx512f,fma")))) \
  MULTIPLY(name##_256, T, 32, __attribute__((target("avx2,fma")))) \
  MULTIPLY(name##_any, T, 16, ) \
  static void name(T *c, const T *a, const T *x, int64_t m, int64_t n, int64_t k) { \
    if (__builtin_cpu_supports("avx512f") && n >= (int64_t)(64 / sizeof(T))) name##_512(c, a, x, m, n, k); \
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) name##_256(c, a, x, m, n, k); \
    else name##_any(c, a, x, m, n, k); \
  }
#else
#define MULTIPLY_ALL(name, T) MULTIPLY(name, T, 16, )
#endif
MULTIPLY_ALL(multiply_f32, float)
MULTIPLY_ALL(multiply_f64, double)
MULTIPLY_ALL(multiply_i32, uint32_t)
MULTIPLY_ALL(multiply_i64, uint64_t)

/* The type that the sum is formed in. */
static Dtype sum_type(const Op *op) {
  Dtype t = op->out[0]->type->dtype;
  if (dtype_is_float(t)) return t == DT_F64 ? DT_F64 : DT_F32;
  return dtype_bits(t) <= 32 ? DT_I32 : DT_I64;
}

static int64_t tile(const Type *t) { return (int64_t)t->shape[t->rank - 2] * t->shape[t->rank - 1]; }

int64_t scratch_dot(const Op *op) {
  return (tile(op->in[0]->type) + tile(op->in[1]->type) + tile(op->in[2]->type)) * dtype_bytes(sum_type(op));
}

/* The elements as `sum`: where they lie when they are that already, else converted to `scratch`. */
static void *as_sum(Dtype from, Dtype sum, char *at, char *scratch, int64_t n) {
  void *in = at;
  int bytes = dtype_bytes(from), sum_bytes = dtype_bytes(sum);
  if (from == sum || (dtype_is_int(from) && bytes == sum_bytes)) return at;
  if (sum == DT_F32 && widen_kernel(from)) {
    widen_kernel(from)(scratch, &in, n);
  } else {
    for (int64_t i = 0; i < n; i++)
      scalar_store(sum, scratch + i * sum_bytes, scalar_convert(from, sum, 0, scalar_load(from, at + i * bytes)));
  }
  return scratch;
}

bool run_dot(Run *run, const Node *node, int64_t total) {
  const Op *op = node->op;
  const Type *ta = op->in[0]->type, *tx = op->in[1]->type, *tc = op->out[0]->type;
  int64_t m = ta->shape[ta->rank - 2], k = ta->shape[ta->rank - 1], n = tx->shape[tx->rank - 1];
  int64_t batches = total / (m * n);
  Dtype sum = sum_type(op);
  int a_bytes = dtype_bytes(ta->dtype), x_bytes = dtype_bytes(tx->dtype), c_bytes = dtype_bytes(tc->dtype);
  int sum_bytes = dtype_bytes(sum);
  char *scratch_a = run->scratch, *scratch_x = scratch_a + m * k * sum_bytes,
       *scratch_c = scratch_x + k * n * sum_bytes;
  if (node->out[0] != node->in[2]) memcpy(node->out[0], node->in[2], (size_t)(total * c_bytes));
  for (int64_t b = 0; b < batches; b++) {
    char *out = node->out[0] + b * m * n * c_bytes;
    void *a = as_sum(ta->dtype, sum, node->in[0] + b * m * k * a_bytes, scratch_a, m * k);
    void *x = as_sum(tx->dtype, sum, node->in[1] + b * k * n * x_bytes, scratch_x, k * n);
    void *c = as_sum(tc->dtype, sum, out, scratch_c, m * n);
    switch (sum) {
      case DT_F32: multiply_f32(c, a, x, m, n, k); break;
      case DT_F64: multiply_f64(c, a, x, m, n, k); break;
      case DT_I32: multiply_i32(c, a, x, m, n, k); break;
      default: multiply_i64(c, a, x, m, n, k);
    }
    if (c == out) continue;
    if (sum == DT_F32 && narrow_kernel(tc->dtype)) narrow_kernel(tc->dtype)(out, &c, m * n);
    else
      for (int64_t i = 0; i < m * n; i++)
        scalar_store(tc->dtype, out + i * c_bytes,
                     scalar_convert(sum, tc->dtype, 0, scalar_load(sum, (char *)c + i * sum_bytes)));
  }
  return true;
}
