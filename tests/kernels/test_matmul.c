/* The kernels of kernels/ that multiply matrices, beside matmul.py's, on every device against a float64 reference:
 * sizes that no tile divides, K of 0, shares of the work that are empty. A product of K terms summed in any order is
 * within (K + 1) u sum|a b| of the exact one; what a kernel rounds besides is counted where it does. */
#include "harness.h"

static const double U = 0x1p-24;

/* What is wanted and the bound of each element. */
typedef struct Reference {
  double *want, *bound;
  int64_t count;
} Reference;
static Reference reference_create(int64_t count) {
  Reference r = {calloc((size_t)count + 1, 8), calloc((size_t)count + 1, 8), count};
  assert_true(r.want && r.bound);
  return r;
}
static void reference_destroy(Reference *r) { free(r->want), free(r->bound); }

/* Elements of a matrix: values[row * rows + column * columns], and how far each may be off, or NULL. */
typedef struct Matrix {
  const double *values;
  int64_t rows, columns;
  const double *error;
} Matrix;

/* a @ b; rounding: what each term may be off by, relative to it, before the sum. */
static Reference product(Matrix a, Matrix b, int64_t M, int64_t N, int64_t K, double rounding) {
  Reference r = reference_create(M * N);
  for (int64_t i = 0; i < M; i++)
    for (int64_t j = 0; j < N; j++) {
      double sum = 0, size = 0, error = 0;
      for (int64_t k = 0; k < K; k++) {
        int64_t at = i * a.rows + k * a.columns, bt = k * b.rows + j * b.columns;
        double x = a.values[at], y = b.values[bt], ex = a.error ? a.error[at] : 0, ey = b.error ? b.error[bt] : 0;
        sum += x * y, size += fabs(x * y), error += fabs(x) * ey + ex * fabs(y) + ex * ey;
      }
      r.want[i * N + j] = sum, r.bound[i * N + j] = ((double)(K + 1) * U + rounding) * (size + error) + error;
    }
  return r;
}

static void check(const char *what, const Tensor *out, Reference *r) {
  assert_true(out->count >= r->count);
  check_close(what, out, r->want, r->bound, r->count);
}

static void arg_ints(Call *c, int n, const int64_t *values) {
  for (int i = 0; i < n; i++) arg_int(c, values[i]);
}
static void arg_blocks(Call *c, int64_t m, int64_t n, int64_t k) {
  arg_const(c, "BLOCK_M", m), arg_const(c, "BLOCK_N", n), arg_const(c, "BLOCK_K", k);
}

/* One product A @ B and its arrays; B is transposed in memory where asked. */
typedef struct Problem {
  int64_t M, N, K;
  Tensor a, b;
  int64_t strides[4]; /* of A and B */
  Reference want;
} Problem;
static Problem problem_create(nereid_dtype t, int64_t M, int64_t N, int64_t K, bool transposed) {
  Problem p = {M,
               N,
               K,
               tensor_random(t, M * K, 21),
               tensor_random(t, K * N, 22),
               {K, 1, transposed ? 1 : N, transposed ? K : 1}};
  p.want =
      product((Matrix){p.a.values, K, 1, NULL}, (Matrix){p.b.values, p.strides[2], p.strides[3], NULL}, M, N, K, 0);
  return p;
}
static void problem_destroy(Problem *p) { tensor_free(&p->a), tensor_free(&p->b), reference_destroy(&p->want); }

/* The arguments that most of these kernels begin with. */
static Call call(Problem *p, Tensor *out) {
  Call c = {0};
  arg_tensor(&c, &p->a), arg_tensor(&c, &p->b), arg_tensor(&c, out);
  arg_ints(&c, 7, (int64_t[]){p->M, p->N, p->K, p->strides[0], p->strides[1], p->strides[2], p->strides[3]});
  return c;
}

/* tf32 has 10 bits of a fraction: what is cut off an operand is less than 2^-10 of it. Each operand along K in memory,
 * and across it; tiles that divide nothing, and K of 0. */
static void tf32_on(const char *device) {
  static const int64_t ks[] = {104, 72, 40, 0};
  for (int i = 0; i < 8; i++) {
    Problem p = problem_create(NEREID_F32, 72, 136, ks[i % 4], i & 1);
    reference_destroy(&p.want);
    p.want = product((Matrix){p.a.values, p.K, 1, NULL}, (Matrix){p.b.values, p.strides[2], p.strides[3], NULL}, p.M,
                     p.N, p.K, 0x1p-9 + 0x1p-20);
    Tensor out = tensor_full(NEREID_F32, p.M * p.N, 7);
    Call c = call(&p, &out);
    arg_int(&c, p.N), arg_int(&c, 1);
    arg_blocks(&c, i & 2 ? 64 : 32, 64, 32), arg_const(&c, "GROUP_M", 2);
    launch(device, "matmul.py", "matmul_tf32", &c, (i & 2 ? 2 : 3) * 3, 1);
    check("matmul_tf32", &out, &p.want);
    problem_destroy(&p), tensor_free(&out);
  }
}
static void test_tf32(void **s) {
  (void)s;
  on_every_device(tf32_on);
}

/* Neighbouring blocks share tiles of b, where there are clusters: all of them, some of them (an odd group of rows), in
 * an odd grid none; K of 0. Tiles of b of one panel, and of two, whose distance a descriptor has. */
static void clusters_on(const char *device) {
  static const int64_t sizes[][3] = {{128, 64, 328}, {192, 128, 200}, {192, 64, 72}, {520, 136, 64}, {128, 64, 0}};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (int k = 0; k < 2 * SIZES; k++) {
    int64_t i = k % SIZES, columns = k < SIZES ? 64 : 128;
    Problem p = problem_create(NEREID_BF16, sizes[i][0], sizes[i][1], sizes[i][2], false);
    Tensor out = tensor_full(p.a.dtype, p.M * p.N, 7);
    Call c = call(&p, &out);
    arg_int(&c, p.N), arg_int(&c, 1);
    arg_blocks(&c, 64, columns, 64), arg_const(&c, "GROUP_M", 8);
    c.options.num_warps = 2, c.options.num_ctas = 2;
    launch(device, "matmul.py", "matmul", &c, (p.M + 63) / 64 * ((p.N + columns - 1) / columns), 1);
    check("matmul in clusters", &out, &p.want);
    problem_destroy(&p), tensor_free(&out);
  }
}
static void test_clusters(void **s) {
  (void)s;
  on_every_device(clusters_on);
}

static void descriptor_on(const char *device) {
  static const nereid_dtype types[] = {NEREID_F32, NEREID_BF16};
  for (int i = 0; i < 2; i++) {
    Problem p = problem_create(types[i], 70, 40, 88, false);
    Tensor out = tensor_full(types[i], p.M * p.N, 7);
    Call c = {0};
    arg_tensor(&c, &p.a), arg_tensor(&c, &p.b), arg_tensor(&c, &out), arg_ints(&c, 3, (int64_t[]){p.M, p.N, p.K});
    arg_blocks(&c, 32, 16, 32), arg_const(&c, "GROUP_M", 2);
    launch(device, "matmul_persistent.py", "matmul_descriptor", &c, 3 * 3, 1);
    check("matmul_descriptor", &out, &p.want);
    problem_destroy(&p), tensor_free(&out);
  }
}
static void test_descriptor(void **s) {
  (void)s;
  on_every_device(descriptor_on);
}

/* More programs than tiles, fewer, one. */
static void persistent_on(const char *device) {
  static const int64_t programs[] = {20, 4, 1}, ks[] = {90, 50, 0};
  for (int i = 0; i < 3; i++) {
    Problem p = problem_create(i ? NEREID_F32 : NEREID_F16, 70, 51, ks[i], i & 1);
    Tensor out = tensor_full(p.a.dtype, p.M * p.N, 7);
    Call c = call(&p, &out);
    arg_int(&c, p.N), arg_int(&c, 1), arg_blocks(&c, 32, 16, 32), arg_const(&c, "GROUP_M", 2);
    launch(device, "matmul_persistent.py", "matmul_persistent", &c, programs[i], 1);
    check("matmul_persistent", &out, &p.want);
    problem_destroy(&p), tensor_free(&out);
  }
}
static void test_persistent(void **s) {
  (void)s;
  on_every_device(persistent_on);
}

/* One B for the whole batch, or one each, transposed. */
static void batched_on(const char *device) {
  enum { BATCH = 3, M = 37, N = 21, K = 50 };
  for (int shared = 0; shared < 2; shared++) {
    Tensor a = tensor_random(NEREID_F32, BATCH * M * K, 1), b = tensor_random(NEREID_F32, BATCH * K * N, 2),
           out = tensor_full(NEREID_F32, BATCH * M * N, 7);
    int64_t b_batch = shared ? 0 : K * N, b_row = shared ? N : 1, b_column = shared ? 1 : K;
    Call c = {0};
    arg_tensor(&c, &a), arg_tensor(&c, &b), arg_tensor(&c, &out), arg_ints(&c, 3, (int64_t[]){M, N, K});
    arg_ints(&c, 9, (int64_t[]){M * K, K, 1, b_batch, b_row, b_column, M * N, N, 1});
    arg_blocks(&c, 16, 16, 32), arg_const(&c, "GROUP_M", 8);
    launch(device, "matmul_batched.py", "matmul_batched", &c, cdiv(M, 16) * cdiv(N, 16), BATCH);
    for (int i = 0; i < BATCH; i++) {
      Reference r = product((Matrix){a.values + i * M * K, K, 1, NULL},
                            (Matrix){b.values + i * b_batch, b_row, b_column, NULL}, M, N, K, 0);
      Tensor item = {out.dtype, M * N, out.values + i * M * N, NULL};
      check("matmul_batched", &item, &r);
      reference_destroy(&r);
    }
    tensor_free(&a), tensor_free(&b), tensor_free(&out);
  }
}
static void test_batched(void **s) {
  (void)s;
  on_every_device(batched_on);
}

enum { GROUPS = 5 };

/* The arrays' addresses are data, so that this launches by hand. A problem without rows and one without terms. */
static void groups_on(const char *device, const int64_t shapes[GROUPS][3], bool aligned) {
  nereid_device *d = test_device(device);
  nereid_error *err = NULL;
  nereid_module *m = NULL;
  Problem problems[GROUPS];
  Tensor out[GROUPS];
  void *arrays[GROUPS][3], *on_device[2];
  int64_t addresses[GROUPS][3];
  int32_t sizes[GROUPS][3];
  char path[512];
  const char *dir = getenv("NEREID_KERNELS_DIR");
  snprintf(path, sizeof path, "%s/matmul_batched.py", dir ? dir : KERNELS_DIR);
  nereid_status status = nereid_module_load(path, &m, &err);
  for (int g = 0; g < GROUPS; g++) {
    problems[g] = problem_create(NEREID_F16, shapes[g][0], shapes[g][1], shapes[g][2], false);
    out[g] = tensor_full(NEREID_F16, shapes[g][0] * shapes[g][1], 7);
    const Tensor *tensors[3] = {&problems[g].a, &problems[g].b, &out[g]};
    for (int i = 0; i < 3 && !status; i++) {
      sizes[g][i] = (int32_t)shapes[g][i];
      status = nereid_alloc(d, tensors[i]->count * 2, &arrays[g][i], &err);
      if (!status) status = nereid_copy_to_device(d, arrays[g][i], tensors[i]->data, tensors[i]->count * 2, &err);
      addresses[g][i] = (int64_t)(intptr_t)arrays[g][i];
    }
  }
  if (!status) status = nereid_alloc(d, sizeof addresses, &on_device[0], &err);
  if (!status) status = nereid_alloc(d, sizeof sizes, &on_device[1], &err);
  if (!status) status = nereid_copy_to_device(d, on_device[0], addresses, sizeof addresses, &err);
  if (!status) status = nereid_copy_to_device(d, on_device[1], sizes, sizeof sizes, &err);
  const nereid_arg args[] = {nereid_pointer(on_device[0], NEREID_I64),
                             nereid_pointer(on_device[1], NEREID_I32),
                             nereid_int(GROUPS),
                             nereid_named(nereid_constexpr_int(16), "BLOCK_M"),
                             nereid_named(nereid_constexpr_int(16), "BLOCK_N"),
                             nereid_named(nereid_constexpr_int(32), "BLOCK_K"),
                             nereid_named(nereid_constexpr_int(aligned), "ALIGNED")};
  const nereid_options options = {.check_races = true};
  if (!status) status = nereid_launch(d, NULL, m, "matmul_grouped", (int64_t[]){4, 1, 1}, args, 7, &options, &err);
  for (int g = 0; g < GROUPS && !status; g++) {
    status = nereid_copy_to_host(d, out[g].data, arrays[g][2], out[g].count * 2, &err);
    for (int64_t i = 0; i < out[g].count; i++)
      out[g].values[i] = nereid_dtype_load(NEREID_F16, (char *)out[g].data + 2 * i);
    if (!status) check("matmul_grouped", &out[g], &problems[g].want);
  }
  if (status) fail_msg("%s: %s", device, nereid_error_text(err));
  for (int g = 0; g < GROUPS; g++) {
    for (int i = 0; i < 3; i++) nereid_free(d, arrays[g][i]);
    problem_destroy(&problems[g]), tensor_free(&out[g]);
  }
  nereid_free(d, on_device[0]), nereid_free(d, on_device[1]), nereid_module_free(m);
}
static void grouped_on(const char *device) {
  groups_on(device, (const int64_t[][3]){{33, 20, 40}, {0, 16, 16}, {16, 16, 70}, {5, 40, 0}, {50, 7, 17}}, false);
  groups_on(device, (const int64_t[][3]){{33, 24, 40}, {0, 16, 16}, {16, 16, 72}, {5, 40, 0}, {50, 8, 104}}, true);
}
static void test_grouped(void **s) {
  (void)s;
  on_every_device(grouped_on);
}

/* Parts of K that end inside a block, that are empty, all empty. */
static void split_k_on(const char *device) {
  static const int64_t ks[] = {200, 70, 0}, parts[] = {3, 4, 2};
  for (int i = 0; i < 3; i++) {
    Problem p = problem_create(NEREID_F32, 20, 37, ks[i], i & 1);
    Tensor sums = tensor_full(NEREID_F32, parts[i] * p.M * p.N, 7), out = tensor_full(NEREID_BF16, p.M * p.N, 7);
    Call c = call(&p, &sums);
    arg_blocks(&c, 16, 16, 32), arg_const(&c, "GROUP_M", 2);
    launch(device, "matmul_split.py", "matmul_split_k", &c, 2 * 3, parts[i]);
    c = (Call){0};
    arg_tensor(&c, &sums), arg_tensor(&c, &out), arg_int(&c, p.M * p.N), arg_int(&c, parts[i]),
        arg_const(&c, "BLOCK", 256);
    launch(device, "matmul_split.py", "split_k_sum", &c, cdiv(p.M * p.N, 256), 1);
    check("matmul_split_k", &out, &p.want);
    problem_destroy(&p), tensor_free(&sums), tensor_free(&out);
  }
}
static void test_split_k(void **s) {
  (void)s;
  on_every_device(split_k_on);
}

/* Shares of less than a tile and of several, programs without any. */
static void stream_k_on(const char *device) {
  static const int64_t ks[] = {200, 70, 0, 40}, programs[] = {7, 4, 2, 40};
  for (int i = 0; i < 4; i++) {
    Problem p = problem_create(NEREID_F32, 20, 37, ks[i], i & 1);
    Tensor out = tensor_full(NEREID_F32, p.M * p.N, 0);
    Call c = call(&p, &out);
    arg_int(&c, p.N), arg_int(&c, 1), arg_blocks(&c, 16, 16, 32);
    c.any_order = true;
    launch(device, "matmul_split.py", "matmul_stream_k", &c, programs[i], 1);
    check("matmul_stream_k", &out, &p.want);
    problem_destroy(&p), tensor_free(&out);
  }
}
static void test_stream_k(void **s) {
  (void)s;
  on_every_device(stream_k_on);
}

/* ---- quantized --------------------------------------------------------------------------------------------------- */

/* matmul_fp8_rows, matmul_fp8_blocks and matmul_int8_scaled: their scales are given back in float64 before the product,
 * three roundings of theirs a term. */
static void scaled(const char *device, const char *kernel, nereid_dtype t, int64_t K, int64_t length_m,
                   int64_t length_n, int64_t length_k) {
  enum { M = 33, N = 150 };
  int64_t scales_k = cdiv(K + !K, length_k), scales_n = cdiv(N, length_n);
  Tensor a = tensor_random(t, M * K, 1), b = tensor_random(t, K * N, 2), out = tensor_full(NEREID_BF16, M * N, 7),
         a_scale = tensor_random(NEREID_F32, M * scales_k, 3),
         b_scale = tensor_random(NEREID_F32, scales_k * scales_n, 4);
  if (t == NEREID_I8)
    for (int64_t i = 0; i < K * N; i++) tensor_set(&b, i, (double)(i * 2654435761u >> 8 & 255) - 128);
  double *x = malloc(sizeof *x * (size_t)(M * K + 1)), *y = malloc(sizeof *y * (size_t)(K * N + 1));
  assert_true(x && y);
  for (int64_t i = 0; i < M; i++)
    for (int64_t k = 0; k < K; k++)
      x[i * K + k] = a.values[i * K + k] * a_scale.values[i / length_m * scales_k + k / length_k];
  for (int64_t k = 0; k < K; k++)
    for (int64_t j = 0; j < N; j++)
      y[k * N + j] = b.values[k * N + j] * b_scale.values[k / length_k * scales_n + j / length_n];
  Reference r = product((Matrix){x, K, 1, NULL}, (Matrix){y, N, 1, NULL}, M, N, K, 3 * U);
  Call c = {0};
  arg_tensor(&c, &a), arg_tensor(&c, &b), arg_tensor(&c, &out), arg_tensor(&c, &a_scale), arg_tensor(&c, &b_scale);
  arg_ints(&c, 9, (int64_t[]){M, N, K, K, 1, N, 1, N, 1}), arg_blocks(&c, 32, 32, 64), arg_const(&c, "GROUP_M", 2);
  launch(device, "matmul_quantized.py", kernel, &c, cdiv(M, 32) * cdiv(N, 32), 1);
  check(kernel, &out, &r);
  free(x), free(y), reference_destroy(&r);
  tensor_free(&a), tensor_free(&b), tensor_free(&out), tensor_free(&a_scale), tensor_free(&b_scale);
}

static void quantized_on(const char *device) {
  static const int64_t ks[] = {0, 200};
  for (int i = 0; i < 2; i++) {
    scaled(device, "matmul_fp8_rows", i ? NEREID_F8E4NV : NEREID_F8E5, ks[i], 1, 1, 1000);
    scaled(device, "matmul_fp8_blocks", NEREID_F8E4NV, ks[i], 1, 128, 128);
    scaled(device, "matmul_int8_scaled", NEREID_I8, ks[i], 1, 1, 1000);
  }
}
static void test_quantized(void **s) {
  (void)s;
  on_every_device(quantized_on);
}

static void int4_on(const char *device) {
  enum { M = 20, N = 37, GROUP = 64 };
  static const nereid_dtype types[] = {NEREID_F16, NEREID_BF16};
  static const int64_t ks[] = {150, 64};
  for (int v = 0; v < 2; v++) {
    int64_t K = ks[v], groups = cdiv(K, GROUP);
    Tensor a = tensor_random(types[v], M * K, 1), packed = tensor_full(NEREID_U8, K / 2 * N, 0),
           scale = tensor_random(types[v], groups * N, 2), zero = tensor_full(NEREID_U8, groups * N, 0),
           out = tensor_full(types[v], M * N, 7);
    double *b = malloc(sizeof *b * (size_t)(K * N)), *error = malloc(sizeof *b * (size_t)(K * N));
    assert_true(b && error);
    for (int64_t i = 0; i < groups * N; i++) tensor_set(&zero, i, (double)(i * 7 % 16));
    for (int64_t k = 0; k < K; k++)
      for (int64_t j = 0; j < N; j++) {
        int64_t q = (k * 31 + j * 17 + k * j) % 16, at = k / GROUP * N + j, byte = k / 2 * N + j;
        tensor_set(&packed, byte, packed.values[byte] + (double)(k % 2 ? q * 16 : q));
        b[k * N + j] = ((double)q - zero.values[at]) * scale.values[at];
        error[k * N + j] = unit_roundoff(types[v]) * fabs(b[k * N + j]) + 0x1p-25; /* f16's least numbers */
      }
    Reference r = product((Matrix){a.values, K, 1, NULL}, (Matrix){b, N, 1, error}, M, N, K, 0);
    Call c = {0};
    arg_tensor(&c, &a), arg_tensor(&c, &packed), arg_tensor(&c, &out), arg_tensor(&c, &scale), arg_tensor(&c, &zero);
    arg_ints(&c, 7, (int64_t[]){M, N, K, K, 1, N, 1}), arg_blocks(&c, 16, 32, 32);
    arg_const(&c, "GROUP_M", 2), arg_const(&c, "GROUP_K", GROUP);
    launch(device, "matmul_quantized.py", "matmul_int4", &c, cdiv(M, 16) * cdiv(N, 32), 1);
    check("matmul_int4", &out, &r);
    free(b), free(error), reference_destroy(&r);
    tensor_free(&a), tensor_free(&packed), tensor_free(&scale), tensor_free(&zero), tensor_free(&out);
  }
}
static void test_int4(void **s) {
  (void)s;
  on_every_device(int4_on);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* exp is within 8 u, and its rounded argument adds |z| u; below the least normal number it may be 0. */
static double sigmoid(double z) { return 1 / (1 + exp(-z)); }
static double sigmoid_error(double z) { return sigmoid(z) * (8 + fabs(z) + 3) * U + 0x1p-126; }

/* silu of a z that is off by `error`: silu's slope is at most 1.1. */
static double silu_error(double z, double error) {
  return 1.1 * error + fabs(z) * (sigmoid_error(z) + 2 * sigmoid(z) * U);
}

static double slope(double z, bool relu) {
  double s = sigmoid(z);
  return relu ? z > 0 : s * (1 + z * (1 - s));
}
/* Of s (1 + z (1 - s)): s twice, and four operations. */
static double slope_error(double z, bool relu) {
  return relu ? 0 : (1 + fabs(z)) * (2 * sigmoid_error(z) + 4 * U * sigmoid(z));
}

static void arg_activation(Call *c, bool relu) {
  c->args[c->n++] = nereid_named(nereid_constexpr(relu ? "'relu'" : "'silu'"), "ACTIVATION");
}

static void linear_on(const char *device) {
  enum { M = 37, N = 50 };
  for (int v = 0; v < 3; v++) {
    nereid_dtype t = v ? NEREID_F32 : NEREID_BF16;
    bool relu = v == 1;
    int64_t K = v == 2 ? 0 : 70;
    Tensor x = tensor_random(t, M * K, 1), w = tensor_random(t, K * N, 2), bias = tensor_random(t, N, 3),
           z = tensor_full(t, M * N, 7), y = tensor_full(t, M * N, 7);
    Reference rz = product((Matrix){x.values, K, 1, NULL}, (Matrix){w.values, N, 1, NULL}, M, N, K, 0),
              ry = reference_create(M * N);
    for (int64_t i = 0; i < M * N; i++) {
      rz.want[i] += bias.values[i % N], rz.bound[i] += U * fabs(rz.want[i]);
      double value = rz.want[i];
      ry.want[i] = relu ? fmax(value, 0) : value * sigmoid(value);
      ry.bound[i] = relu ? rz.bound[i] : silu_error(value, rz.bound[i]);
    }
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &w), arg_tensor(&c, &bias), arg_tensor(&c, &z), arg_tensor(&c, &y);
    arg_ints(&c, 3, (int64_t[]){M, N, K}), arg_activation(&c, relu), arg_blocks(&c, 16, 32, 32);
    arg_const(&c, "GROUP_M", 2);
    launch(device, "linear.py", "linear", &c, cdiv(M, 16) * cdiv(N, 32), 1);
    check("linear's z", &z, &rz), check("linear's y", &y, &ry);
    reference_destroy(&rz), reference_destroy(&ry);
    tensor_free(&x), tensor_free(&w), tensor_free(&bias), tensor_free(&z), tensor_free(&y);
  }
}
static void test_linear(void **s) {
  (void)s;
  on_every_device(linear_on);
}

static void linear_backward_on(const char *device) {
  enum { M = 37, N = 50, K = 70 };
  for (int v = 0; v < 2; v++) {
    nereid_dtype t = v ? NEREID_F32 : NEREID_F16;
    bool relu = v;
    Tensor x = tensor_random(t, M * K, 1), w = tensor_random(t, K * N, 2), dy = tensor_random(t, M * N, 3),
           z = tensor_random(t, M * N, 4), dx = tensor_full(t, M * K, 7), dw = tensor_full(t, K * N, 7),
           dbias = tensor_full(NEREID_F32, N, 7);
    Reference dz = reference_create(M * N), db = reference_create(N);
    for (int64_t i = 0; i < M * N; i++) {
      dz.want[i] = dy.values[i] * slope(z.values[i], relu);
      dz.bound[i] = fabs(dy.values[i]) * slope_error(z.values[i], relu) + U * fabs(dz.want[i]);
      db.want[i % N] += dz.want[i];
      db.bound[i % N] += dz.bound[i] + M * U * (fabs(dz.want[i]) + dz.bound[i]);
      dz.bound[i] += unit_roundoff(t) * (fabs(dz.want[i]) + dz.bound[i]) + 0x1p-25; /* in W's type, to be multiplied */
    }
    Reference rx = product((Matrix){dz.want, N, 1, dz.bound}, (Matrix){w.values, 1, N, NULL}, M, K, N, 0),
              rw = product((Matrix){x.values, 1, K, NULL}, (Matrix){dz.want, N, 1, dz.bound}, K, N, M, 0);
    Call c = {0};
    arg_tensor(&c, &dy), arg_tensor(&c, &z), arg_tensor(&c, &w), arg_tensor(&c, &dx);
    arg_ints(&c, 3, (int64_t[]){M, N, K}), arg_activation(&c, relu), arg_blocks(&c, 16, 32, 32);
    arg_const(&c, "GROUP_M", 2);
    launch(device, "linear.py", "linear_backward_x", &c, cdiv(M, 16) * cdiv(K, 32), 1);
    check("linear's dx", &dx, &rx);
    c = (Call){0};
    arg_tensor(&c, &x), arg_tensor(&c, &dy), arg_tensor(&c, &z), arg_tensor(&c, &dw), arg_tensor(&c, &dbias);
    arg_ints(&c, 3, (int64_t[]){M, N, K}), arg_activation(&c, relu), arg_blocks(&c, 16, 32, 32);
    arg_const(&c, "GROUP_K", 2);
    launch(device, "linear.py", "linear_backward_w", &c, cdiv(K, 32) * cdiv(N, 32), 1);
    check("linear's dw", &dw, &rw), check("linear's dbias", &dbias, &db);
    reference_destroy(&dz), reference_destroy(&db), reference_destroy(&rx), reference_destroy(&rw);
    Tensor *all[] = {&x, &w, &dy, &z, &dx, &dw, &dbias};
    for (int i = 0; i < 7; i++) tensor_free(all[i]);
  }
}
static void test_linear_backward(void **s) {
  (void)s;
  on_every_device(linear_backward_on);
}

static void swiglu_on(const char *device) {
  enum { M = 37, N = 50, K = 70 };
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F16};
  for (int v = 0; v < 2; v++) {
    nereid_dtype t = types[v];
    Tensor x = tensor_random(t, M * K, 1), gate = tensor_random(t, K * N, 2), up = tensor_random(t, K * N, 3),
           out = tensor_full(t, M * N, 7);
    Matrix rows = {x.values, K, 1, NULL};
    Reference g = product(rows, (Matrix){gate.values, N, 1, NULL}, M, N, K, 0),
              u = product(rows, (Matrix){up.values, N, 1, NULL}, M, N, K, 0), r = reference_create(M * N);
    for (int64_t i = 0; i < M * N; i++) {
      double silu = g.want[i] * sigmoid(g.want[i]), error = silu_error(g.want[i], g.bound[i]);
      r.want[i] = silu * u.want[i];
      r.bound[i] = error * (fabs(u.want[i]) + u.bound[i]) + fabs(silu) * u.bound[i] + U * fabs(r.want[i]);
    }
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &gate), arg_tensor(&c, &up), arg_tensor(&c, &out);
    arg_ints(&c, 3, (int64_t[]){M, N, K}), arg_blocks(&c, 16, 32, 32), arg_const(&c, "GROUP_M", 2);
    launch(device, "linear.py", "swiglu", &c, cdiv(M, 16) * cdiv(N, 32), 1);
    check("swiglu", &out, &r);
    reference_destroy(&g), reference_destroy(&u), reference_destroy(&r);
    tensor_free(&x), tensor_free(&gate), tensor_free(&up), tensor_free(&out);
  }
}
static void test_swiglu(void **s) {
  (void)s;
  on_every_device(swiglu_on);
}

/* An expert without tokens, one with more than a block of them; more blocks in the grid than there are. */
static void moe_on(const char *device) {
  enum { TOKENS = 29, TOP_K = 2, ROUTES = TOKENS * TOP_K, EXPERTS = 4, N = 40, K = 50, BLOCK = 16, MOST = ROUTES };
  for (int second = 0; second < 2; second++) { /* a layer's second product: a row of x a route, and the weights */
    nereid_dtype t = second ? NEREID_BF16 : NEREID_F32;
    int64_t top_k = second ? 1 : TOP_K;
    Tensor x = tensor_random(t, ROUTES / top_k * K, 1), w = tensor_random(t, EXPERTS * K * N, 2),
           route = tensor_random(NEREID_F32, ROUTES, 3), out = tensor_full(t, ROUTES * N, 7);
    Tensor order = tensor_full(NEREID_I32, MOST * BLOCK, ROUTES), expert = tensor_full(NEREID_I32, MOST, 0),
           blocks = tensor_full(NEREID_I32, 1, 0);
    Reference r = reference_create(ROUTES * N);
    int64_t places = 0;
    for (int64_t e = 0; e < EXPERTS; e++) {
      for (int64_t i = 0; i < ROUTES; i++) {
        int64_t of_route = i % 7 == 3 ? 3 : i % 2 * 2; /* never expert 1 */
        if (of_route != e) continue;
        tensor_set(&expert, places / BLOCK, (double)e), tensor_set(&order, places++, (double)i);
        Reference row = product((Matrix){x.values + i / top_k * K, K, 1, NULL},
                                (Matrix){w.values + e * K * N, N, 1, NULL}, 1, N, K, second ? U : 0);
        double weight = second ? route.values[i] : 1;
        for (int64_t n = 0; n < N; n++)
          r.want[i * N + n] = weight * row.want[n], r.bound[i * N + n] = fabs(weight) * row.bound[n];
        reference_destroy(&row);
      }
      places = cdiv(places, BLOCK) * BLOCK;
    }
    tensor_set(&blocks, 0, (double)(places / BLOCK));
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &w), arg_tensor(&c, &out), arg_tensor(&c, &order), arg_tensor(&c, &expert);
    arg_tensor(&c, &route), arg_int(&c, ROUTES), arg_tensor(&c, &blocks), arg_int(&c, N), arg_int(&c, K);
    arg_const(&c, "TOP_K", top_k), arg_const(&c, "WEIGHTED", second), arg_blocks(&c, BLOCK, 32, 32);
    launch(device, "moe.py", "fused_moe", &c, places / BLOCK + 2, cdiv(N, 32));
    check("fused_moe", &out, &r);
    reference_destroy(&r);
    Tensor *all[] = {&x, &w, &route, &out, &order, &expert, &blocks};
    for (int i = 0; i < 7; i++) tensor_free(all[i]);
  }
}
static void test_moe(void **s) {
  (void)s;
  on_every_device(moe_on);
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

typedef struct Image {
  int64_t h, w, c, strides[4]; /* of image, row, column, channel */
} Image;
static Image image(int64_t h, int64_t w, int64_t c, bool channels_first) {
  return channels_first ? (Image){h, w, c, {h * w * c, w, 1, h * w}} : (Image){h, w, c, {h * w * c, w * c, c, 1}};
}
static int64_t place(Image m, int64_t i, int64_t h, int64_t w, int64_t c) {
  return i * m.strides[0] + h * m.strides[1] + w * m.strides[2] + c * m.strides[3];
}

static void convolution_on(const char *device) {
  enum { IMAGES = 2, C = 19, OC = 21 };
  static const struct {
    nereid_dtype t;
    int64_t h, w, kh, kw, step, pad;
    bool channels_first;
  } cases[] = {{NEREID_F32, 7, 6, 3, 3, 1, 1, false},
               {NEREID_F16, 9, 5, 3, 2, 2, 0, true},
               {NEREID_F32, 5, 6, 1, 1, 1, 0, true},
               {NEREID_BF16, 6, 6, 5, 3, 3, 2, false}};
  for (int v = 0; v < 4; v++) {
    int64_t kh = cases[v].kh, kw = cases[v].kw, step = cases[v].step, pad = cases[v].pad;
    Image in = image(cases[v].h, cases[v].w, C, cases[v].channels_first),
          out = image((in.h + 2 * pad - kh) / step + 1, (in.w + 2 * pad - kw) / step + 1, OC, cases[v].channels_first);
    Tensor x = tensor_random(cases[v].t, IMAGES * in.h * in.w * C, 1),
           w = tensor_random(cases[v].t, kh * kw * C * OC, 2),
           y = tensor_full(cases[v].t, IMAGES * out.h * out.w * OC, 7);
    Reference r = reference_create(y.count);
    for (int64_t at = 0; at < y.count; at++) {
      int64_t o = at % OC, column = at / OC % out.w, row = at / OC / out.w % out.h, i = at / OC / out.w / out.h;
      double sum = 0, size = 0;
      for (int64_t k = 0; k < kh * kw * C; k++) {
        int64_t h = row * step + k / C / kw - pad, l = column * step + k / C % kw - pad;
        if (h < 0 || h >= in.h || l < 0 || l >= in.w) continue;
        double term = x.values[place(in, i, h, l, k % C)] * w.values[k * OC + o];
        sum += term, size += fabs(term);
      }
      r.want[place(out, i, row, column, o)] = sum;
      r.bound[place(out, i, row, column, o)] = (double)(kh * kw * C + 1) * U * size;
    }
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &w), arg_tensor(&c, &y);
    arg_ints(&c, 7, (int64_t[]){IMAGES, in.h, in.w, C, out.h, out.w, OC});
    arg_ints(&c, 4, in.strides), arg_ints(&c, 4, out.strides), arg_const(&c, "STEP", step), arg_const(&c, "PAD", pad);
    arg_const(&c, "KH", kh), arg_const(&c, "KW", kw), arg_blocks(&c, 32, 16, 16), arg_const(&c, "GROUP_M", 2);
    launch(device, "convolution.py", "conv2d", &c, cdiv(IMAGES * out.h * out.w, 32) * cdiv(OC, 16), 1);
    check("conv2d", &y, &r);
    reference_destroy(&r), tensor_free(&x), tensor_free(&w), tensor_free(&y);
  }
}
static void test_convolution(void **s) {
  (void)s;
  on_every_device(convolution_on);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_descriptor),      cmocka_unit_test(test_persistent), cmocka_unit_test(test_batched),
      cmocka_unit_test(test_grouped),         cmocka_unit_test(test_split_k),    cmocka_unit_test(test_stream_k),
      cmocka_unit_test(test_quantized),       cmocka_unit_test(test_int4),       cmocka_unit_test(test_linear),
      cmocka_unit_test(test_linear_backward), cmocka_unit_test(test_swiglu),     cmocka_unit_test(test_moe),
      cmocka_unit_test(test_convolution),     cmocka_unit_test(test_clusters),   cmocka_unit_test(test_tf32),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  test_devices_close();
  return failed;
}
