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

/* Elements of a matrix: values[row * rows + column * columns]. */
typedef struct Matrix {
  const double *values;
  int64_t rows, columns;
} Matrix;
static double element(Matrix m, int64_t i, int64_t j) { return m.values[i * m.rows + j * m.columns]; }

/* a @ b; rounding: what each term may be off by, relative to it, before the sum. */
static Reference product(Matrix a, Matrix b, int64_t M, int64_t N, int64_t K, double rounding) {
  Reference r = reference_create(M * N);
  for (int64_t i = 0; i < M; i++)
    for (int64_t j = 0; j < N; j++) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < K; k++) {
        double term = element(a, i, k) * element(b, k, j);
        sum += term, size += fabs(term);
      }
      r.want[i * N + j] = sum, r.bound[i * N + j] = ((double)(K + 1) * U + rounding) * size;
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
  p.want = product((Matrix){p.a.values, K, 1}, (Matrix){p.b.values, p.strides[2], p.strides[3]}, M, N, K, 0);
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
      Reference r =
          product((Matrix){a.values + i * M * K, K, 1}, (Matrix){b.values + i * b_batch, b_row, b_column}, M, N, K, 0);
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

/* The arrays' addresses are data, so that this launches by hand. A problem without rows and one without terms. */
static void grouped_on(const char *device) {
  enum { GROUPS = 5 };
  static const int64_t shapes[GROUPS][3] = {{33, 20, 40}, {0, 16, 16}, {16, 16, 70}, {5, 40, 0}, {50, 7, 17}};
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
                             nereid_named(nereid_constexpr_int(32), "BLOCK_K")};
  const nereid_options options = {.check_races = true};
  if (!status) status = nereid_launch(d, NULL, m, "matmul_grouped", (int64_t[]){4, 1, 1}, args, 6, &options, &err);
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
    launch(device, "matmul_split.py", "matmul_stream_k", &c, programs[i], 1);
    check("matmul_stream_k", &out, &p.want);
    problem_destroy(&p), tensor_free(&out);
  }
}
static void test_stream_k(void **s) {
  (void)s;
  on_every_device(stream_k_on);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_descriptor), cmocka_unit_test(test_persistent), cmocka_unit_test(test_batched),
      cmocka_unit_test(test_grouped),    cmocka_unit_test(test_split_k),    cmocka_unit_test(test_stream_k),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  test_devices_close();
  return failed;
}
