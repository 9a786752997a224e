/* Every kernel of kernels/, on every device, against a float64 reference: odd sizes, strides with gaps, NaN and
 * infinities, one row and many. The bound beside each reference counts the roundings of the kernel's own formula; e is
 * the error of one elementary function in units of u (libmvec documents 4 ulp; expf through exp2 of a rounded product
 * adds |x| u, which the callers count). */
#include "harness.h"

enum { E = 8 };
static const double U = 0x1p-24;

typedef struct Work {
  double *want, *bound;
  int64_t n;
} Work;
static Work work(int64_t n) {
  Work w = {calloc((size_t)n + 1, 8), calloc((size_t)n + 1, 8), n};
  assert_true(w.want && w.bound);
  return w;
}
static void done(Work *w) { free(w->want), free(w->bound); }

/* exp is one instruction of a GPU's, which gives 0 for results below the least normal number, as Triton's does. */
static double least_exp(const char *device) { return strstr(device, "sim") || strstr(device, "cuda") ? 0x1p-126 : 0; }

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

static void vector_add_on(const char *device) {
  static const int64_t sizes[] = {0, 1, 17, 1023, 1024, 5000};
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F16, NEREID_BF16, NEREID_F64, NEREID_I32, NEREID_I8};
  for (int k = 0; k < 6; k++) {
    for (int s = 0; s < 6; s++) {
      int64_t n = sizes[s];
      Tensor x = tensor_random(types[k], n + 3, 1), y = tensor_random(types[k], n + 3, 2),
             out = tensor_full(types[k], n + 3, 7);
      if (n > 5 && types[k] == NEREID_F32)
        tensor_set(&x, 1, INFINITY), tensor_set(&y, 1, -INFINITY), tensor_set(&x, 2, NAN), tensor_set(&x, 3, INFINITY);
      Work w = work(n + 3);
      /* what lies beyond n stays */
      for (int64_t i = 0; i < n + 3; i++) w.want[i] = i < n ? x.values[i] + y.values[i] : 7;
      Call c = {0};
      arg_tensor(&c, &x), arg_tensor(&c, &y), arg_tensor(&c, &out), arg_int(&c, n), arg_const(&c, "BLOCK", 1024);
      launch(device, "vector_add.py", "vector_add", &c, cdiv(n, 1024), 1);
      check_close("out", &out, w.want, w.bound, n + 3);
      done(&w), tensor_free(&x), tensor_free(&y), tensor_free(&out);
    }
  }
}
static void test_vector_add(void **s) {
  (void)s;
  on_every_device(vector_add_on);
}

static double gelu_reference(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
/* tanh is 1 - 2 / (exp(2t) + 1): its absolute error is a few u (1 + |t|); times |x| / 2. */
static double gelu_bound(double x) {
  double t = fabs(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return fabs(x) * (2 * E + 8 * (t < 20 ? t : 20)) * U;
}

static void gelu_on(const char *device) {
  static const nereid_dtype types[] = {NEREID_F32, NEREID_BF16, NEREID_F16};
  for (int k = 0; k < 3; k++) {
    int64_t n = 3001;
    Tensor x = tensor_random(types[k], n, 3), out = tensor_full(types[k], n, 0);
    for (int64_t i = 0; i < n; i++) tensor_set(&x, i, 4 * x.values[i]);
    tensor_set(&x, 0, INFINITY), tensor_set(&x, 1, NAN), tensor_set(&x, 2, 60), tensor_set(&x, 3, -60),
        tensor_set(&x, 4, 0);
    Work w = work(n);
    for (int64_t i = 0; i < n; i++)
      w.want[i] = gelu_reference(x.values[i]), w.bound[i] = isfinite(x.values[i]) ? gelu_bound(x.values[i]) : 0;
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, n), arg_const(&c, "BLOCK", 512);
    launch(device, "gelu.py", "gelu", &c, cdiv(n, 512), 1);
    check_close("gelu", &out, w.want, w.bound, n);
    done(&w), tensor_free(&x), tensor_free(&out);
  }
}
static void test_gelu(void **s) {
  (void)s;
  on_every_device(gelu_on);
}

static void unfused_step(const char *device, const char *kernel, Tensor *a, Tensor *b, Tensor *out, double factor,
                         int64_t n) {
  Call c = {0};
  arg_tensor(&c, a);
  if (b) arg_tensor(&c, b);
  arg_tensor(&c, out);
  if (!strcmp(kernel, "scale") || !strcmp(kernel, "shift")) arg_float(&c, factor);
  arg_int(&c, n), arg_const(&c, "BLOCK", 256);
  launch(device, "unfused.py", kernel, &c, cdiv(n, 256), 1);
}

static void unfused_gelu_on(const char *device) {
  int64_t n = 1000;
  Tensor x = tensor_random(NEREID_F32, n, 4), t = tensor_full(NEREID_F32, n, 0), out = tensor_full(NEREID_F32, n, 0);
  unfused_step(device, "pow3", &x, NULL, &t, 0, n), unfused_step(device, "scale", &t, NULL, &t, 0.044715, n);
  unfused_step(device, "add", &x, &t, &t, 0, n), unfused_step(device, "scale", &t, NULL, &t, 0.7978845608028654, n);
  unfused_step(device, "tanh_op", &t, NULL, &t, 0, n), unfused_step(device, "shift", &t, NULL, &t, 1, n);
  unfused_step(device, "mul", &x, &t, &out, 0, n), unfused_step(device, "scale", &out, NULL, &out, 0.5, n);
  Work w = work(n);
  for (int64_t i = 0; i < n; i++) w.want[i] = gelu_reference(x.values[i]), w.bound[i] = gelu_bound(x.values[i]);
  check_close("unfused gelu", &out, w.want, w.bound, n);
  done(&w), tensor_free(&x), tensor_free(&t), tensor_free(&out);
}
static void test_unfused_gelu(void **s) {
  (void)s;
  on_every_device(unfused_gelu_on);
}

static void cos_cos_on(const char *device) {
  int64_t n = 2049;
  Tensor x = tensor_random(NEREID_F32, n, 5), out = tensor_full(NEREID_F32, n, 0);
  Work w = work(n);
  for (int64_t i = 0; i < n; i++) w.want[i] = cos(cos(x.values[i])), w.bound[i] = 2 * E * U;
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, n), arg_const(&c, "XBLOCK", 512);
  launch(device, "cos_cos.py", "triton_poi_fused_cos_0", &c, cdiv(n, 512), 1);
  check_close("cos cos", &out, w.want, w.bound, n);
  done(&w), tensor_free(&x), tensor_free(&out);
}
static void test_cos_cos(void **s) {
  (void)s;
  on_every_device(cos_cos_on);
}

/* Philox-4x32-10, written from the paper (Salmon et al., "Parallel Random Numbers", SC 2011), as Triton's rand uses it.
 */
static double philox_uniform(uint64_t seed, uint32_t offset) {
  uint32_t c[4] = {offset, 0, 0, 0}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t n0 = (uint32_t)(b >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;
    c[0] = n0, c[1] = (uint32_t)b, c[2] = n2, c[3] = (uint32_t)a;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  int32_t v = (int32_t)c[0];
  if (v < 0) v = -v - 1;
  return (float)v * 0x1.fffffep-32f;
}

static void dropout_on(const char *device) {
  int64_t n = 1500, kept = 0;
  double p = 0.25;
  Tensor x = tensor_random(NEREID_F32, n, 6), out = tensor_full(NEREID_F32, n, 0);
  Work w = work(n);
  for (int64_t i = 0; i < n; i++) {
    bool keep = philox_uniform(123, (uint32_t)i) > p;
    w.want[i] = keep ? x.values[i] / (1 - p) : 0, w.bound[i] = 2 * U * fabs(w.want[i]), kept += keep;
  }
  assert_in_range(kept, 1050, 1200); /* 1125 expected, standard deviation 17 */
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, n), arg_float(&c, p), arg_int(&c, 123),
      arg_const(&c, "BLOCK", 256);
  launch(device, "dropout.py", "dropout", &c, cdiv(n, 256), 1);
  check_close("dropout", &out, w.want, w.bound, n);
  done(&w), tensor_free(&x), tensor_free(&out);
}
static void test_dropout(void **s) {
  (void)s;
  on_every_device(dropout_on);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void softmax_row(const double *x, int64_t n, double *want, double *bound, double passes) {
  double top = -INFINITY, total = 0;
  for (int64_t i = 0; i < n; i++) top = fmax(top, x[i]);
  for (int64_t i = 0; i < n; i++) total += exp(x[i] - top);
  for (int64_t i = 0; i < n; i++) {
    want[i] = exp(x[i] - top) / total;
    bound[i] = want[i] * U * (2 * E + 2 * fabs(x[i] - top) + (double)n + passes * E);
  }
}

static void softmax_on(const char *device) {
  /* clang-format off */
  static const struct { const char *kernel; int64_t block; double passes; } ways[] = {{"softmax", 1024, 0}, {"softmax_three_pass", 128, 0}, {"softmax_online", 128, 8}};
  /* clang-format on */
  int64_t rows = 5, n = 781, stride = 800;
  for (int k = 0; k < 3; k++) {
    Tensor x = tensor_random(NEREID_F32, rows * stride, 7), out = tensor_full(NEREID_F32, rows * stride, 9);
    tensor_set(&x, stride + 5, -INFINITY), tensor_set(&x, 2 * stride + 780, 90), tensor_set(&x, 3 * stride, -1e30);
    Work w = work(rows * stride);
    for (int64_t i = 0; i < rows * stride; i++) w.want[i] = 9;
    for (int64_t r = 0; r < rows; r++)
      softmax_row(x.values + r * stride, n, w.want + r * stride, w.bound + r * stride, ways[k].passes);
    for (int64_t i = 0; i < rows * stride; i++)
      if (isnan(w.bound[i])) w.bound[i] = 0; /* exp(-inf) is exact */
    for (int64_t i = 0; i < rows * stride; i++) w.bound[i] += w.want[i] > 0 && w.want[i] < 1 ? least_exp(device) : 0;
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, stride), arg_int(&c, stride), arg_int(&c, n),
        arg_const(&c, "BLOCK", ways[k].block);
    launch(device, "softmax.py", ways[k].kernel, &c, rows, 1);
    check_close(ways[k].kernel, &out, w.want, w.bound, rows * stride);
    done(&w), tensor_free(&x), tensor_free(&out);
  }
}
static void test_softmax(void **s) {
  (void)s;
  on_every_device(softmax_on);
}

static void row_kernel(const char *device, const char *kernel, Tensor *x, Tensor *v, Tensor *out, int64_t rows,
                       int64_t n) {
  Call c = {0};
  arg_tensor(&c, x);
  if (v) arg_tensor(&c, v);
  arg_tensor(&c, out), arg_int(&c, n), arg_const(&c, "BLOCK", 128);
  launch(device, "unfused.py", kernel, &c, rows, 1);
}

static void unfused_softmax_on(const char *device) {
  int64_t rows = 4, n = 100;
  Tensor x = tensor_random(NEREID_F32, rows * n, 8), t = tensor_full(NEREID_F32, rows * n, 0),
         v = tensor_full(NEREID_F32, rows, 0);
  Work w = work(rows * n);
  for (int64_t r = 0; r < rows; r++) softmax_row(x.values + r * n, n, w.want + r * n, w.bound + r * n, 0);
  row_kernel(device, "row_max", &x, NULL, &v, rows, n), row_kernel(device, "row_sub", &x, &v, &t, rows, n);
  unfused_step(device, "exp_op", &t, NULL, &t, 0, rows * n);
  row_kernel(device, "row_sum", &t, NULL, &v, rows, n), row_kernel(device, "row_div", &t, &v, &t, rows, n);
  check_close("unfused softmax", &t, w.want, w.bound, rows * n);
  done(&w), tensor_free(&x), tensor_free(&t), tensor_free(&v);
}
static void test_unfused_softmax(void **s) {
  (void)s;
  on_every_device(unfused_softmax_on);
}

static void reduce_on(const char *device) {
  int64_t rows = 6, n = 333, stride = 340;
  Tensor x = tensor_random(NEREID_F32, rows * stride, 9);
  tensor_set(&x, 2 * stride + 40, 50), tensor_set(&x, 2 * stride + 90, 50); /* a tie: the lower index wins */
  tensor_set(&x, 3 * stride + 7, NAN);
  Work sum = work(rows), mean = work(rows), arg = work(rows);
  for (int64_t r = 0; r < rows; r++) {
    double total = 0, size = 0, top = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
      double v = x.values[r * stride + i];
      total += v, size += fabs(v);
      if (v > top) top = v, arg.want[r] = (double)i;
    }
    sum.want[r] = total, sum.bound[r] = (double)n * U * size;
    mean.want[r] = total / (double)n, mean.bound[r] = ((double)n + 2) * U * size / (double)n;
  }
  static const char *const kernels[] = {"row_sum", "row_mean", "row_argmax"};
  for (int k = 0; k < 3; k++) {
    Tensor out = tensor_full(k == 2 ? NEREID_I32 : NEREID_F32, rows, -1);
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, stride), arg_int(&c, n),
        arg_const(&c, "BLOCK", k == 2 ? 512 : 64);
    launch(device, "reduce.py", kernels[k], &c, rows, 1);
    Work *w = k == 0 ? &sum : k == 1 ? &mean : &arg;
    if (k == 2) out.values[3] = w->want[3] = 0; /* a row with NaN: only that it runs */
    check_close(kernels[k], &out, w->want, w->bound, rows);
    tensor_free(&out);
  }
  done(&sum), done(&mean), done(&arg), tensor_free(&x);
}
static void test_reduce(void **s) {
  (void)s;
  on_every_device(reduce_on);
}

static void dot_product_on(const char *device) {
  int64_t n = 10007;
  Tensor x = tensor_random(NEREID_F32, n, 10), y = tensor_random(NEREID_F32, n, 11),
         out = tensor_full(NEREID_F32, 1, 0);
  double want = 0, size = 0, bound;
  for (int64_t i = 0; i < n; i++) want += x.values[i] * y.values[i], size += fabs(x.values[i] * y.values[i]);
  bound = (double)n * U * size;
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &y), arg_tensor(&c, &out), arg_int(&c, n), arg_const(&c, "BLOCK", 256);
  c.any_order = true;
  launch(device, "dot_product.py", "dot_product", &c, 7, 1);
  check_close("dot", &out, &want, &bound, 1);
  tensor_free(&x), tensor_free(&y), tensor_free(&out);
}
static void test_dot_product(void **s) {
  (void)s;
  on_every_device(dot_product_on);
}

static void array_sum_on(const char *device) {
  int64_t n = 10007;
  Tensor x = tensor_random(NEREID_F32, n, 31), out = tensor_full(NEREID_F32, 1, 0);
  double want = 0, size = 0, bound;
  for (int64_t i = 0; i < n; i++) want += x.values[i], size += fabs(x.values[i]);
  bound = (double)n * U * size;
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, n), arg_const(&c, "BLOCK", 256);
  c.any_order = true;
  launch(device, "reduce.py", "array_sum", &c, 7, 1);
  check_close("array sum", &out, &want, &bound, 1);
  tensor_free(&x), tensor_free(&out);
}
static void test_array_sum(void **s) {
  (void)s;
  on_every_device(array_sum_on);
}

static void embedding_on(const char *device) {
  enum { ROWS = 11, N = 40, WIDTH = 50 };
  static const nereid_dtype types[] = {NEREID_F32, NEREID_BF16};
  for (int k = 0; k < 2; k++) {
    Tensor table = tensor_random(types[k], ROWS * WIDTH, 32), grad = tensor_random(types[k], N * WIDTH, 33);
    Tensor index = tensor_full(NEREID_I64, N, 0), out = tensor_full(types[k], N * WIDTH, 7),
           dtable = tensor_full(NEREID_F32, ROWS * WIDTH, 0);
    Work w = work(N * WIDTH), d = work(ROWS * WIDTH);
    for (int64_t i = 0; i < N; i++) {
      int64_t row = i * i % ROWS; /* some rows often, some never */
      tensor_set(&index, i, (double)row);
      for (int64_t c = 0; c < WIDTH; c++) {
        w.want[i * WIDTH + c] = table.values[row * WIDTH + c];
        d.want[row * WIDTH + c] += grad.values[i * WIDTH + c];
        d.bound[row * WIDTH + c] += N * U * fabs(grad.values[i * WIDTH + c]);
      }
    }
    Call c = {0};
    arg_tensor(&c, &table), arg_tensor(&c, &index), arg_tensor(&c, &out), arg_int(&c, WIDTH),
        arg_const(&c, "BLOCK", 64);
    launch(device, "embedding.py", "embedding", &c, N, 1);
    check_close("embedding", &out, w.want, w.bound, N * WIDTH);
    c = (Call){0};
    arg_tensor(&c, &grad), arg_tensor(&c, &index), arg_tensor(&c, &dtable), arg_int(&c, WIDTH),
        arg_const(&c, "BLOCK", 64);
    c.any_order = true;
    launch(device, "embedding.py", "embedding_backward", &c, N, 1);
    check_close("embedding's gradient", &dtable, d.want, d.bound, ROWS * WIDTH);
    done(&w), done(&d), tensor_free(&table), tensor_free(&grad), tensor_free(&index), tensor_free(&out),
        tensor_free(&dtable);
  }
}
static void test_embedding(void **s) {
  (void)s;
  on_every_device(embedding_on);
}

static void quantize_on(const char *device) {
  enum { ROWS = 5, N = 70, STRIDE = 72 };
  Tensor x = tensor_random(NEREID_F32, ROWS * STRIDE, 34), out = tensor_full(NEREID_F8E4NV, ROWS * STRIDE, 1),
         scale = tensor_full(NEREID_F32, ROWS, 0);
  for (int64_t c = 0; c < STRIDE; c++) tensor_set(&x, 3 * STRIDE + c, 0);
  Work w = work(ROWS * STRIDE), v = work(ROWS);
  for (int64_t i = 0; i < ROWS * STRIDE; i++) w.want[i] = 1;
  for (int64_t r = 0; r < ROWS; r++) {
    double top = 0;
    for (int64_t c = 0; c < N; c++) top = fmax(top, fabs(x.values[r * STRIDE + c]));
    v.want[r] = top > 0 ? top / 448 : 1, v.bound[r] = 4 * U * v.want[r];
    /* half a step of e4m3 (three bits behind the point; 2^-9 is the least), and the scale's error may tip a tie */
    for (int64_t c = 0; c < N; c++) {
      double y = x.values[r * STRIDE + c] / v.want[r];
      w.want[r * STRIDE + c] = y, w.bound[r * STRIDE + c] = fmax(fabs(y) * 0x1p-4, 0x1p-10) * (1 + 16 * U);
    }
  }
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &out), arg_tensor(&c, &scale), arg_int(&c, STRIDE), arg_int(&c, N),
      arg_const(&c, "BLOCK", 128);
  launch(device, "quantize.py", "quantize_rows", &c, ROWS, 1);
  check_close("scales", &scale, v.want, v.bound, ROWS);
  check_close("quantized", &out, w.want, w.bound, ROWS * STRIDE);
  done(&w), done(&v), tensor_free(&x), tensor_free(&out), tensor_free(&scale);
}
static void test_quantize(void **s) {
  (void)s;
  on_every_device(quantize_on);
}

static void layer_norm_on(const char *device) {
  int64_t rows = 7, n = 250, stride = 256, groups = 3;
  double eps = 1e-5;
  Tensor x = tensor_random(NEREID_F32, rows * stride, 12), weight = tensor_random(NEREID_F32, n, 13),
         bias = tensor_random(NEREID_F32, n, 14);
  Tensor out = tensor_full(NEREID_F32, rows * stride, 0), mean = tensor_full(NEREID_F32, rows, 0),
         rstd = tensor_full(NEREID_F32, rows, 0);
  Tensor grad = tensor_random(NEREID_F32, rows * stride, 15), dx = tensor_full(NEREID_F32, rows * stride, 0);
  Tensor dw = tensor_full(NEREID_F32, groups * n, 0), db = tensor_full(NEREID_F32, groups * n, 0),
         total = tensor_full(NEREID_F32, n, 0);
  Work y = work(rows * stride), g = work(rows * stride), w = work(n), b = work(n);
  for (int64_t r = 0; r < rows; r++) {
    const double *xr = x.values + r * stride, *gr = grad.values + r * stride;
    double m = 0, var = 0, c1 = 0, c2 = 0;
    for (int64_t i = 0; i < n; i++) m += xr[i] / (double)n;
    for (int64_t i = 0; i < n; i++) var += (xr[i] - m) * (xr[i] - m) / (double)n;
    double s = 1 / sqrt(var + eps);
    for (int64_t i = 0; i < n; i++) {
      double h = (xr[i] - m) * s;
      y.want[r * stride + i] = h * weight.values[i] + bias.values[i];
      y.bound[r * stride + i] = 4 * (double)n * U * (fabs(h * weight.values[i]) + fabs(s * weight.values[i]));
      c1 += h * weight.values[i] * gr[i] / (double)n, c2 += weight.values[i] * gr[i] / (double)n;
      w.want[i] += gr[i] * h, w.bound[i] += 4 * (double)n * U * fabs(gr[i]) * (fabs(h) + 1);
      b.want[i] += gr[i], b.bound[i] += (double)rows * U * fabs(gr[i]);
    }
    for (int64_t i = 0; i < n; i++) {
      double h = (xr[i] - m) * s;
      g.want[r * stride + i] = (weight.values[i] * gr[i] - (h * c1 + c2)) * s;
      g.bound[r * stride + i] =
          8 * (double)n * U * s * (fabs(weight.values[i] * gr[i]) + (fabs(h) + 1) * (1 + fabs(c1)) + fabs(c2));
    }
  }
  Call f = {0};
  arg_tensor(&f, &x), arg_tensor(&f, &weight), arg_tensor(&f, &bias), arg_tensor(&f, &out), arg_tensor(&f, &mean),
      arg_tensor(&f, &rstd);
  arg_int(&f, stride), arg_int(&f, n), arg_float(&f, eps), arg_const(&f, "BLOCK", 256);
  launch(device, "layer_norm.py", "layer_norm", &f, rows, 1);
  check_close("layer norm", &out, y.want, y.bound, rows * stride);
  Call k = {0};
  arg_tensor(&k, &x), arg_tensor(&k, &weight), arg_tensor(&k, &grad), arg_tensor(&k, &mean), arg_tensor(&k, &rstd),
      arg_tensor(&k, &dx);
  arg_tensor(&k, &dw), arg_tensor(&k, &db), arg_int(&k, stride), arg_int(&k, rows), arg_int(&k, n),
      arg_const(&k, "BLOCK", 256);
  launch(device, "layer_norm.py", "layer_norm_backward", &k, groups, 1);
  check_close("dx", &dx, g.want, g.bound, rows * stride);
  for (int which = 0; which < 2; which++) {
    Call s = {0};
    arg_tensor(&s, which ? &db : &dw), arg_tensor(&s, &total), arg_int(&s, groups), arg_int(&s, n),
        arg_const(&s, "BLOCK_ROWS", 4), arg_const(&s, "BLOCK_COLS", 64);
    launch(device, "layer_norm.py", "column_sum", &s, cdiv(n, 64), 1);
    check_close(which ? "dbias" : "dweight", &total, which ? b.want : w.want, which ? b.bound : w.bound, n);
  }
  done(&y), done(&g), done(&w), done(&b);
  Tensor *all[] = {&x, &weight, &bias, &out, &mean, &rstd, &grad, &dx, &dw, &db, &total};
  for (int i = 0; i < 11; i++) tensor_free(all[i]);
}
static void test_layer_norm(void **s) {
  (void)s;
  on_every_device(layer_norm_on);
}

static void rms_norm_on(const char *device) {
  static const nereid_dtype types[] = {NEREID_F32, NEREID_BF16};
  for (int k = 0; k < 2; k++) {
    int64_t rows = 3, n = 130, stride = 131;
    Tensor x = tensor_random(types[k], rows * stride, 16), weight = tensor_random(types[k], n, 17),
           out = tensor_full(types[k], rows * stride, 0);
    Work w = work(rows * stride);
    for (int64_t r = 0; r < rows; r++) {
      double square = 0;
      for (int64_t i = 0; i < n; i++) square += x.values[r * stride + i] * x.values[r * stride + i];
      for (int64_t i = 0; i < n; i++) {
        w.want[r * stride + i] = x.values[r * stride + i] / sqrt(square / (double)n + 1e-6) * weight.values[i];
        w.bound[r * stride + i] = fabs(w.want[r * stride + i]) * U * ((double)n + E + 4);
      }
    }
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &weight), arg_tensor(&c, &out), arg_int(&c, stride), arg_int(&c, n),
        arg_float(&c, 1e-6), arg_const(&c, "BLOCK", 256);
    launch(device, "rms_norm.py", "rms_norm", &c, rows, 1);
    check_close("rms norm", &out, w.want, w.bound, rows * stride);
    done(&w), tensor_free(&x), tensor_free(&weight), tensor_free(&out);
  }
}
static void test_rms_norm(void **s) {
  (void)s;
  on_every_device(rms_norm_on);
}

static void cross_entropy_on(const char *device) {
  int64_t rows = 5, n = 300, stride = 300, ignored = -100;
  Tensor x = tensor_random(NEREID_F32, rows * stride, 18), target = tensor_full(NEREID_I64, rows, 0),
         loss = tensor_full(NEREID_F32, rows, -1);
  Tensor grad = tensor_full(NEREID_F32, rows * stride, -1);
  Work l = work(rows), g = work(rows * stride);
  for (int64_t r = 0; r < rows; r++) {
    int64_t t = r == 2 ? ignored : (r * 97) % n;
    tensor_set(&target, r, (double)t);
    if (t == ignored) continue;
    const double *row = x.values + r * stride;
    double top = -INFINITY, total = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, row[i]);
    for (int64_t i = 0; i < n; i++) total += exp(row[i] - top);
    double lse = top + log(total);
    l.want[r] = lse - row[t], l.bound[r] = U * (fabs(lse) + fabs(row[t]) + 3 * E + (double)n);
    for (int64_t i = 0; i < n; i++) {
      double p = exp(row[i] - lse);
      g.want[r * stride + i] = p - (i == t), g.bound[r * stride + i] =
                                                 U * (1 + p * ((double)n + 4 * E + 2 * fabs(row[i] - lse) + fabs(lse)));
    }
  }
  Call c = {0};
  arg_tensor(&c, &x), arg_tensor(&c, &target), arg_tensor(&c, &loss), arg_tensor(&c, &grad), arg_int(&c, stride),
      arg_int(&c, n), arg_int(&c, ignored), arg_const(&c, "BLOCK", 128);
  launch(device, "cross_entropy.py", "cross_entropy", &c, rows, 1);
  check_close("loss", &loss, l.want, l.bound, rows);
  check_close("grad", &grad, g.want, g.bound, rows * stride);
  done(&l), done(&g), tensor_free(&x), tensor_free(&target), tensor_free(&loss), tensor_free(&grad);
}
static void test_cross_entropy(void **s) {
  (void)s;
  on_every_device(cross_entropy_on);
}

static void transpose_on(const char *device) {
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F16, NEREID_I64, NEREID_I1};
  for (int k = 0; k < 4; k++) {
    int64_t rows = 45, cols = 70, xs = 77, os = 50;
    Tensor x = tensor_random(types[k], rows * xs, 19), out = tensor_full(types[k], cols * os, 1);
    Work w = work(cols * os);
    for (int64_t i = 0; i < cols * os; i++) w.want[i] = 1;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < cols; i++) w.want[i * os + r] = x.values[r * xs + i];
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, rows), arg_int(&c, cols), arg_int(&c, xs), arg_int(&c, os),
        arg_const(&c, "BLOCK_R", 16), arg_const(&c, "BLOCK_C", 32);
    launch(device, "transpose.py", "transpose", &c, cdiv(rows, 16), cdiv(cols, 32));
    check_close("transpose", &out, w.want, w.bound, cols * os);
    done(&w), tensor_free(&x), tensor_free(&out);
  }
}
static void test_transpose(void **s) {
  (void)s;
  on_every_device(transpose_on);
}

static void cumsum_on(const char *device) {
  static const nereid_dtype types[] = {NEREID_F32, NEREID_I32};
  for (int k = 0; k < 2; k++) {
    int64_t rows = 3, n = 700, stride = 700;
    Tensor x = tensor_random(types[k], rows * stride, 20), out = tensor_full(types[k], rows * stride, 0);
    Work w = work(rows * stride);
    for (int64_t r = 0; r < rows; r++) {
      double total = 0, size = 0;
      for (int64_t i = 0; i < n; i++) {
        total += x.values[r * stride + i], size += fabs(x.values[r * stride + i]);
        w.want[r * stride + i] = total, w.bound[r * stride + i] = types[k] == NEREID_F32 ? (double)n * U * size : 0;
      }
    }
    Call c = {0};
    arg_tensor(&c, &x), arg_tensor(&c, &out), arg_int(&c, stride), arg_int(&c, n), arg_const(&c, "BLOCK", 128);
    launch(device, "cumsum.py", "cumsum", &c, rows, 1);
    check_close("cumsum", &out, w.want, w.bound, rows * stride);
    done(&w), tensor_free(&x), tensor_free(&out);
  }
}
static void test_cumsum(void **s) {
  (void)s;
  on_every_device(cumsum_on);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static void matmul_on(const char *device) {
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F16, NEREID_BF16};
  for (int variant = 0; variant < 8; variant++) {
    nereid_dtype t = types[variant % 3];
    bool fused = variant >= 3, transposed = variant & 1, large = variant >= 6; /* more than a thread's registers */
    int64_t block_m = large ? 64 : 32, block_n = large ? 64 : 16;
    int64_t M = 70, N = 51, K = 90;
    Tensor a = tensor_random(t, M * K, 21), b = tensor_random(t, K * N, 22), bias = tensor_random(t, N, 23),
           out = tensor_full(t, M * N, 0);
    int64_t bk = transposed ? 1 : N, bn = transposed ? K : 1;
    Work w = work(M * N);
    for (int64_t i = 0; i < M; i++)
      for (int64_t j = 0; j < N; j++) {
        double total = 0, size = 0;
        for (int64_t k = 0; k < K; k++) {
          double p = a.values[i * K + k] * b.values[k * bk + j * bn];
          total += p, size += fabs(p);
        }
        if (fused) total = fmax(total + bias.values[j], 0), size += fabs(bias.values[j]);
        w.want[i * N + j] = total, w.bound[i * N + j] = (double)(K + 1) * U * size;
      }
    Call c = {0};
    arg_tensor(&c, &a), arg_tensor(&c, &b);
    if (fused) arg_tensor(&c, &bias);
    arg_tensor(&c, &out), arg_int(&c, M), arg_int(&c, N), arg_int(&c, K), arg_int(&c, K), arg_int(&c, 1),
        arg_int(&c, bk), arg_int(&c, bn), arg_int(&c, N), arg_int(&c, 1);
    arg_const(&c, "BLOCK_M", block_m), arg_const(&c, "BLOCK_N", block_n), arg_const(&c, "BLOCK_K", 32),
        arg_const(&c, "GROUP_M", 2);
    if (large) c.options.num_warps = 1;
    launch(device, "matmul.py", fused ? "matmul_bias_relu" : "matmul", &c, cdiv(M, block_m) * cdiv(N, block_n), 1);
    check_close("matmul", &out, w.want, w.bound, M * N);
    done(&w), tensor_free(&a), tensor_free(&b), tensor_free(&bias), tensor_free(&out);
  }
}
static void test_matmul(void **s) {
  (void)s;
  on_every_device(matmul_on);
}

enum { HEADS = 2, LENGTH = 75, DIM = 32, SIZE = HEADS * LENGTH * DIM };

/* Forward and backward in float64; bounds grow with the sums' lengths and the exponents' sizes, by the largest
 * intermediate. */
static void attention_reference(const double *q, const double *k, const double *v, const double *grad, bool causal,
                                double scale, Work *out, Work *dq, Work *dk, Work *dv) {
  static double p[LENGTH][LENGTH], ds[LENGTH][LENGTH];
  double bound = U * 64 * (LENGTH + DIM);
  for (int h = 0; h < HEADS; h++) {
    const double *Q = q + h * LENGTH * DIM, *K = k + h * LENGTH * DIM, *V = v + h * LENGTH * DIM,
                 *G = grad + h * LENGTH * DIM;
    for (int i = 0; i < LENGTH; i++) {
      double top = -INFINITY, total = 0, delta = 0;
      int end = causal ? i + 1 : LENGTH;
      for (int j = 0; j < end; j++) {
        p[i][j] = 0;
        for (int d = 0; d < DIM; d++) p[i][j] += scale * Q[i * DIM + d] * K[j * DIM + d];
        top = fmax(top, p[i][j]);
      }
      for (int j = 0; j < end; j++) total += p[i][j] = exp(p[i][j] - top);
      for (int j = 0; j < LENGTH; j++) p[i][j] = j < end ? p[i][j] / total : 0;
      for (int d = 0; d < DIM; d++) {
        double o = 0;
        for (int j = 0; j < LENGTH; j++) o += p[i][j] * V[j * DIM + d];
        out->want[h * LENGTH * DIM + i * DIM + d] = o, out->bound[h * LENGTH * DIM + i * DIM + d] = bound * 4;
        delta += o * G[i * DIM + d];
      }
      for (int j = 0; j < LENGTH; j++) {
        double dp = 0;
        for (int d = 0; d < DIM; d++) dp += G[i * DIM + d] * V[j * DIM + d];
        ds[i][j] = p[i][j] * (dp - delta);
      }
    }
    for (int i = 0; i < LENGTH; i++)
      for (int d = 0; d < DIM; d++) {
        double sums[3] = {0};
        for (int j = 0; j < LENGTH; j++) {
          sums[0] += ds[i][j] * K[j * DIM + d] * scale;
          sums[1] += ds[j][i] * Q[j * DIM + d] * scale;
          sums[2] += p[j][i] * G[j * DIM + d];
        }
        Work *grads[3] = {dq, dk, dv};
        for (int s = 0; s < 3; s++)
          grads[s]->want[h * LENGTH * DIM + i * DIM + d] = sums[s],
                                                      grads[s]->bound[h * LENGTH * DIM + i * DIM + d] = bound * 32;
      }
  }
}

static void attention_on(const char *device) {
  for (int variant = 0; variant < 3; variant++) {
    bool causal = variant & 1, large = variant == 2; /* more than a thread's registers */
    double scale = 0.17;
    Tensor q = tensor_random(NEREID_F32, SIZE, 24), k = tensor_random(NEREID_F32, SIZE, 25),
           v = tensor_random(NEREID_F32, SIZE, 26), grad = tensor_random(NEREID_F32, SIZE, 27);
    Tensor out = tensor_full(NEREID_F32, SIZE, 0), lse = tensor_full(NEREID_F32, HEADS * LENGTH, 0),
           delta = tensor_full(NEREID_F32, HEADS * LENGTH, 0);
    Tensor dq = tensor_full(NEREID_F32, SIZE, 0), dk = tensor_full(NEREID_F32, SIZE, 0),
           dv = tensor_full(NEREID_F32, SIZE, 0);
    Work w[4] = {work(SIZE), work(SIZE), work(SIZE), work(SIZE)};
    attention_reference(q.values, k.values, v.values, grad.values, causal, scale, &w[0], &w[1], &w[2], &w[3]);
    Call f = {0};
    arg_tensor(&f, &q), arg_tensor(&f, &k), arg_tensor(&f, &v), arg_tensor(&f, &out), arg_tensor(&f, &lse),
        arg_int(&f, LENGTH), arg_float(&f, scale);
    int64_t rows = large ? 64 : 32, columns = large ? 64 : 16, block = large ? 64 : 16;
    arg_const(&f, "D", DIM), arg_const(&f, "BLOCK_M", rows), arg_const(&f, "BLOCK_N", columns),
        arg_const(&f, "CAUSAL", causal);
    if (large) f.options.num_warps = 1;
    launch(device, "attention.py", "attention", &f, cdiv(LENGTH, rows), HEADS);
    check_close("attention", &out, w[0].want, w[0].bound, SIZE);
    Call t = {0};
    arg_tensor(&t, &out), arg_tensor(&t, &grad), arg_tensor(&t, &delta), arg_int(&t, LENGTH), arg_const(&t, "D", DIM),
        arg_const(&t, "BLOCK_M", 32);
    launch(device, "attention.py", "attention_delta", &t, cdiv(LENGTH, 32), HEADS);
    for (int which = 0; which < 2; which++) {
      Call b = {0};
      arg_tensor(&b, &q), arg_tensor(&b, &k), arg_tensor(&b, &v), arg_tensor(&b, &grad), arg_tensor(&b, &lse),
          arg_tensor(&b, &delta);
      if (which) arg_tensor(&b, &dq);
      else arg_tensor(&b, &dk), arg_tensor(&b, &dv);
      arg_int(&b, LENGTH), arg_float(&b, scale), arg_const(&b, "D", DIM), arg_const(&b, "BLOCK_M", block),
          arg_const(&b, "BLOCK_N", block), arg_const(&b, "CAUSAL", causal);
      if (large) b.options.num_warps = 1;
      launch(device, "attention.py", which ? "attention_backward_q" : "attention_backward_kv", &b, cdiv(LENGTH, block),
             HEADS);
    }
    Tensor *grads[] = {&dq, &dk, &dv}, sums = tensor_full(NEREID_F32, SIZE, NAN);
    static const char *const names[] = {"dq", "dk", "dv"};
    for (int i = 0; i < 3; i++) check_close(names[i], grads[i], w[1 + i].want, w[1 + i].bound, SIZE);
    for (int i = 0; i < 3; i++) tensor_free(grads[i]), *grads[i] = tensor_full(NEREID_F32, SIZE, NAN);
    Call begin = {0}, main = {0}, end = {0};
    arg_tensor(&begin, &out), arg_tensor(&begin, &grad), arg_tensor(&begin, &delta), arg_tensor(&begin, &sums),
        arg_int(&begin, LENGTH), arg_const(&begin, "D", DIM), arg_const(&begin, "BLOCK_M", 32);
    launch(device, "attention.py", "attention_backward_begin", &begin, cdiv(LENGTH, 32), HEADS);
    Tensor *read[] = {&q, &k, &v, &grad, &lse, &delta, &sums, &dk, &dv};
    for (int i = 0; i < 9; i++) arg_tensor(&main, read[i]);
    arg_int(&main, LENGTH), arg_float(&main, scale), arg_const(&main, "D", DIM), arg_const(&main, "BLOCK_M", block),
        arg_const(&main, "BLOCK_N", block), arg_const(&main, "CAUSAL", causal);
    main.any_order = true;
    if (large) main.options.num_warps = 1;
    launch(device, "attention.py", "attention_backward", &main, cdiv(LENGTH, block), HEADS);
    arg_tensor(&end, &sums), arg_tensor(&end, &dq), arg_float(&end, scale), arg_int(&end, SIZE),
        arg_const(&end, "BLOCK", 256);
    launch(device, "attention.py", "attention_backward_end", &end, cdiv(SIZE, 256), 1);
    for (int i = 0; i < 3; i++) check_close(names[i], grads[i], w[1 + i].want, w[1 + i].bound, SIZE);
    for (int i = 0; i < 4; i++) done(&w[i]);
    Tensor *all[] = {&q, &k, &v, &grad, &out, &lse, &delta, &dq, &dk, &dv, &sums};
    for (int i = 0; i < 11; i++) tensor_free(all[i]);
  }
}
static void test_attention(void **s) {
  (void)s;
  on_every_device(attention_on);
}

/* Where the compiler moves the scale behind the maximum, which is right for a scale greater than zero, a launch with
 * another one takes a kernel of its own. */
static void test_attention_scales(void **state) {
  (void)state;
  if (getenv("NEREID_TEST_DEVICES")) skip(); /* on devices of its own */
  static const double scales[] = {0.17, -0.17, 0};
  static const char *const devices[] = {"sim", "interp"};
  Tensor q = tensor_random(NEREID_F16, SIZE, 24), k = tensor_random(NEREID_F16, SIZE, 25),
         v = tensor_random(NEREID_F16, SIZE, 26);
  for (int i = 0; i < 3; i++) {
    Tensor out[2], lse = tensor_full(NEREID_F32, HEADS * LENGTH, 0);
    for (int on = 0; on < 2; on++) {
      out[on] = tensor_full(NEREID_F16, SIZE, 0);
      Call f = {.options.without = "dots_ahead"};
      arg_tensor(&f, &q), arg_tensor(&f, &k), arg_tensor(&f, &v), arg_tensor(&f, &out[on]), arg_tensor(&f, &lse),
          arg_int(&f, LENGTH), arg_float(&f, scales[i]), arg_const(&f, "D", DIM), arg_const(&f, "BLOCK_M", 64),
          arg_const(&f, "BLOCK_N", 64), arg_const(&f, "CAUSAL", 1);
      launch(devices[on], "attention.py", "attention", &f, cdiv(LENGTH, 64), HEADS);
    }
    double bound[SIZE];
    for (int j = 0; j < SIZE; j++) bound[j] = 0x1p-9;
    check_close("attention", &out[0], out[1].values, bound, SIZE);
    tensor_free(&out[0]), tensor_free(&out[1]), tensor_free(&lse);
  }
  tensor_free(&q), tensor_free(&k), tensor_free(&v);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* More than 2^31 elements: the last programs of the grid reach past what 32 bits count. Only the pages they touch are
 * real. */
static void large_array_on(const char *name) {
  static const char source[] =
      "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef fill(x_ptr, n, BLOCK: tl.constexpr):\n"
      "    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)\n"
      "    tl.store(x_ptr + at, (at % 100).to(tl.int8), mask=at < n)\n";
  nereid_device *d = test_device(name);
  nereid_error *err = NULL;
  nereid_module *m = NULL;
  void *x = NULL;
  int64_t n = ((int64_t)1 << 31) + 4321, block = 1024, last = cdiv(n, block) - 1, programs[] = {0, last - 1, last};
  assert_int_equal(nereid_alloc(d, n, &x, &err), NEREID_OK);
  assert_int_equal(nereid_module_load_string("fill.py", source, &m, &err), NEREID_OK);
  nereid_arg args[] = {nereid_pointer(x, NEREID_I8), nereid_int(n), nereid_named(nereid_constexpr_int(block), "BLOCK")};
  nereid_options options = {.programs = programs, .program_count = 3};
  int64_t grid[3] = {last + 1, 1, 1};
  if (nereid_launch(d, NULL, m, "fill", grid, args, 3, &options, &err)) fail_msg("%s", nereid_error_text(err));
  int64_t first = (last - 1) * block;
  int8_t tail[2048];
  assert_int_equal(nereid_copy_to_host(d, tail, (char *)x + first, n - first, &err), NEREID_OK);
  for (int64_t i = 0; i < n - first; i++) assert_int_equal(tail[i], (first + i) % 100);
  nereid_module_free(m), nereid_free(d, x);
}
static void test_large_array(void **s) {
  (void)s;
  on_every_device(large_array_on);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_vector_add),      cmocka_unit_test(test_gelu),
                                     cmocka_unit_test(test_unfused_gelu),    cmocka_unit_test(test_cos_cos),
                                     cmocka_unit_test(test_dropout),         cmocka_unit_test(test_softmax),
                                     cmocka_unit_test(test_unfused_softmax), cmocka_unit_test(test_reduce),
                                     cmocka_unit_test(test_dot_product),     cmocka_unit_test(test_array_sum),
                                     cmocka_unit_test(test_embedding),       cmocka_unit_test(test_quantize),
                                     cmocka_unit_test(test_layer_norm),      cmocka_unit_test(test_rms_norm),
                                     cmocka_unit_test(test_cross_entropy),   cmocka_unit_test(test_transpose),
                                     cmocka_unit_test(test_cumsum),          cmocka_unit_test(test_matmul),
                                     cmocka_unit_test(test_attention),       cmocka_unit_test(test_attention_scales),
                                     cmocka_unit_test(test_large_array)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  test_devices_close();
  return failed;
}
