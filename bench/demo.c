/* bench/demo: what the main kernels cost on a device of this machine (an NVIDIA GPU where there is one, else the CPU),
 * beside ceilings measured in the same run: a copy in memory, and the product of matrices of OpenBLAS or cuBLAS where
 * it is found.
 *
 *     build/bench/demo [--device cpu|cuda] [--quick] [--json] [--case TEXT] [--threads N] [--kernels DIR]
 *
 * A case is launched once to warm up and then timed `runs` times; between its runs the ceiling is timed (A B A B), so
 * that both meet the same machine: on the CPU a copy loop in C on as many threads, through the caches or past them,
 * whichever is faster, by the clock; on a GPU a copy by the
 * driver, by events. Time is the median, with the smallest and largest beside it. Bytes are what the algorithm must
 * move: each input read once, each output written once. Results are checked against float64 references on a sample of
 * elements. --quick takes arrays of 64 MiB on the CPU, of 256 MiB on a GPU (else 256 and 1024), and fewer runs: `make
 * demo`.
 */
#include <dlfcn.h>
#include <math.h>
#include <nereid.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

enum { MAX_RUNS = 15, MAX_LAUNCHES = 10, MAX_ARGS = 20, MAX_ARRAYS = 16 };

/* clang-format off */
static struct { int runs, threads; bool json, quick, gpu; const char *only, *kernels, *device; int64_t elements; } opt = {.runs = 9, .kernels = "kernels"};
/* clang-format on */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(nereid_error *err) {
  fprintf(stderr, "%s\n", err ? nereid_error_text(err) : "out of memory");
  exit(1);
}

/* ---- time: on a GPU between two events in its default stream ----------------------------------------------------- */

static nereid_device *device;
static nereid_event *begun, *ended;
static double begun_at;

static void start(void) {
  nereid_error *err = NULL;
  if (opt.gpu && nereid_event_record(begun, NULL, &err)) die(err);
  begun_at = now();
}

static double stop(void) { /* seconds since start() */
  nereid_error *err = NULL;
  double ms = 0;
  if (!opt.gpu) return now() - begun_at;
  if (nereid_event_record(ended, NULL, &err) || nereid_synchronize(device, &err) ||
      nereid_event_elapsed(begun, ended, &ms, &err))
    die(err);
  return ms * 1e-3;
}

/* ---- arrays: what is worked with is the host's copy; on the CPU device there is no other ------------------------- */

typedef struct Pair {
  void *host, *device;
  int64_t bytes;
} Pair;
static Pair pairs[MAX_ARRAYS];

static Pair *pair_of(const void *host) {
  for (int i = 0; i < MAX_ARRAYS; i++)
    if (pairs[i].host == host) return &pairs[i];
  return NULL;
}
static void *on_device(const void *host) { return host ? pair_of(host)->device : NULL; }

static void *array_bytes(int64_t bytes) {
  nereid_error *err = NULL;
  Pair *p = pair_of(NULL);
  *p = (Pair){.bytes = bytes};
  if (nereid_alloc(device, bytes, &p->device, &err)) die(err);
  p->host = opt.gpu ? malloc((size_t)bytes) : p->device;
  if (!p->host) die(NULL);
  return p->host;
}

static void upload(const void *host) {
  nereid_error *err = NULL;
  Pair *p = pair_of(host);
  if (opt.gpu && nereid_copy_to_device(device, p->device, p->host, p->bytes, &err)) die(err);
}

static void download(const void *host) {
  nereid_error *err = NULL;
  Pair *p = pair_of(host);
  if (opt.gpu && nereid_copy_to_host(device, p->host, p->device, p->bytes, &err)) die(err);
}

static void release(const void *host) {
  if (!host) return;
  Pair *p = pair_of(host);
  nereid_free(device, p->device);
  if (opt.gpu) free(p->host);
  *p = (Pair){0};
}

static float *array(int64_t n, uint64_t seed) {
  float *x = array_bytes(n * 4);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)((double)(int64_t)seed * 0x1p-62); /* uniform in [-2, 2) */
  }
  upload(x);
  return x;
}

static uint16_t bf16_of(float v) { /* nearest even; no NaN in here */
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* ---- ceilings ---------------------------------------------------------------------------------------------------- */

typedef struct CopyPart {
  float *dst;
  const float *src;
  int64_t n;
  bool past_caches;
} CopyPart;

/* Stores as the kernels' own where arrays are larger than the caches: their lines are not read first. */
static void stream(float *to, const float *from, int64_t n) {
  int64_t i = 0;
#if defined(__SSE__)
  for (; i < n && ((uintptr_t)(to + i) & 15); i++) to[i] = from[i];
  for (; i + 4 <= n; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
  _mm_sfence();
#endif
  for (; i < n; i++) to[i] = from[i];
}

static void *copy_part(void *arg) {
  CopyPart *p = arg;
  if (p->past_caches) stream(p->dst, p->src, p->n);
  else
    for (int64_t i = 0; i < p->n; i++) p->dst[i] = p->src[i];
  return NULL;
}

static double copy_on_threads(float *dst, const float *src, int64_t n, bool past_caches) {
  pthread_t threads[64];
  CopyPart parts[64];
  start();
  for (int i = 0; i < opt.threads; i++) {
    int64_t from = n * i / opt.threads, to = n * (i + 1) / opt.threads;
    parts[i] = (CopyPart){dst + from, src + from, to - from, past_caches};
    if (i && pthread_create(&threads[i], NULL, copy_part, &parts[i])) die(NULL);
  }
  copy_part(&parts[0]);
  for (int i = 1; i < opt.threads; i++) pthread_join(threads[i], NULL);
  return stop();
}

/* Seconds that a copy of n floats takes: by the GPU's driver; or by a loop on all threads, through the caches or past
 * them, whichever is faster. */
static double copy_seconds(float *dst, const float *src, int64_t n) {
  nereid_error *err = NULL;
  if (opt.gpu) {
    start();
    if (nereid_copy_async(device, NULL, on_device(dst), on_device(src), n * 4, &err)) die(err);
    return stop();
  }
  double through = copy_on_threads(dst, src, n, false), past = copy_on_threads(dst, src, n, true);
  return through < past ? through : past;
}

/* The product of two n x n matrices by the library that the machine has for it: OpenBLAS in f32 on the CPU, cuBLAS on a
 * GPU, in f32 or bf16. */
typedef struct Blas {
  const char *name; /* NULL: none found */
  void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
  void *handle;
  int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int,
              const void *, void *, int, int, int, int);
} Blas;

static Blas find_blas(void) {
  Blas b = {0};
  if (opt.gpu) {
    void *lib = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!lib) lib = dlopen("libcublas.so.12", RTLD_NOW | RTLD_LOCAL);
    int (*create)(void **) = lib ? (int (*)(void **))dlsym(lib, "cublasCreate_v2") : NULL;
    *(void **)&b.gemm = lib ? dlsym(lib, "cublasGemmEx") : NULL;
    if (create && b.gemm && !create(&b.handle)) b.name = "cuBLAS";
    return b;
  }
  void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return b;
  void (*set_threads)(int) = (void (*)(int))dlsym(lib, "openblas_set_num_threads");
  if (set_threads) set_threads(opt.threads);
  *(void **)&b.sgemm = dlsym(lib, "cblas_sgemm");
  if (b.sgemm) b.name = "OpenBLAS";
  return b;
}

static double blas_seconds(const Blas *l, int n, const void *a, const void *b, void *c, bool bf16) {
  enum { R_32F = 0, R_16BF = 14, COMPUTE_32F = 68, ALGORITHM_DEFAULT = -1 }; /* library_types.h, cublas_api.h */
  float one = 1, zero = 0;
  int type = bf16 ? R_16BF : R_32F;
  start();
  if (!l->name) return 0;
  if (l->sgemm) l->sgemm(101, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);
  else /* its matrices are stored by columns: ours are their transposes */
    l->gemm(l->handle, 0, 0, n, n, n, &one, on_device(b), type, n, on_device(a), type, n, &zero, on_device(c), type, n,
            COMPUTE_32F, ALGORITHM_DEFAULT);
  return stop();
}

static float *src, *dst; /* the copy's own arrays */

/* ---- launches ---------------------------------------------------------------------------------------------------- */

typedef struct Launch {
  nereid_function *f;
  nereid_module *m;
  nereid_arg args[MAX_ARGS];
  int n;
  int64_t grid[3];
} Launch;

static Launch prepare_warps(const char *file, const char *kernel, int n, const nereid_arg *args, int64_t grid,
                            int warps) {
  Launch l = {.n = n, .grid = {grid, 1, 1}};
  char path[512];
  nereid_error *err = NULL;
  memcpy(l.args, args, sizeof *args * (size_t)n);
  snprintf(path, sizeof path, "%s/%s", opt.kernels, file);
  if (nereid_module_load(path, &l.m, &err) ||
      nereid_compile(device, l.m, kernel, args, n, &(nereid_options){.num_warps = opt.gpu ? warps : 0}, &l.f, &err))
    die(err);
  return l;
}

static Launch prepare(const char *file, const char *kernel, int n, const nereid_arg *args, int64_t grid) {
  return prepare_warps(file, kernel, n, args, grid, 8);
}

static void launch(Launch *l) {
  nereid_error *err = NULL;
  if (nereid_run(l->f, NULL, l->grid, l->args, l->n, &err)) die(err);
}

static void forget(Launch *l) { nereid_function_free(l->f), nereid_module_free(l->m); }

static nereid_arg ptr(const void *host) { return nereid_pointer(on_device(host), NEREID_F32); }
static nereid_arg block(const char *name, int64_t v) { return nereid_named(nereid_constexpr_int(v), name); }
static int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- one case ---------------------------------------------------------------------------------------------------- */

typedef struct Timing {
  double median, low, high;
} Timing;
typedef struct Case {
  const char *name;
  double work; /* bytes moved, or operations */
  bool flops;
  Launch launches[MAX_LAUNCHES]; /* run in order */
  int count;
  double (*error)(void *arg); /* largest error over its bound; at most 1 when right */
  void *arg;
  const void *out;      /* what it looks at */
  Timing time, ceiling; /* seconds; the ceiling's for the same work */
} Case;

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static Timing timing(double *t, int n) {
  qsort(t, (size_t)n, sizeof *t, by_value);
  return (Timing){t[n / 2], t[0], t[n - 1]};
}

static bool wanted(const char *name) { return !opt.only || strstr(name, opt.only); }
static int printed, wrong;

static void header(void) {
  if (opt.json) return;
  printf("%-34s %10s %21s %12s %9s %s\n", "case", "ms", "(least .. most)", "rate", "of ceiling", "result");
}

static void print_case(const Case *c, double speedup) {
  download(c->out);
  double rate = c->work / c->time.median, share = c->ceiling.median > 0 ? c->ceiling.median / c->time.median : 0,
         error = c->error(c->arg);
  bool right = error <= 1;
  wrong += !right;
  if (opt.json) {
    printf("%s{\"case\":\"%s\",\"ms\":%.4f,\"ms_least\":%.4f,\"ms_most\":%.4f,\"%s\":%.3f,\"share_of_ceiling\":%.4f,"
           "\"speedup_over_unfused\":%.3f,\"right\":%s}",
           printed++ ? ",\n" : "[", c->name, c->time.median * 1e3, c->time.low * 1e3, c->time.high * 1e3,
           c->flops ? "gflops" : "gbps", rate / 1e9, share, speedup, right ? "true" : "false");
    return;
  }
  char spread[40], of[16] = "", faster[32] = "";
  snprintf(spread, sizeof spread, "(%.3f .. %.3f)", c->time.low * 1e3, c->time.high * 1e3);
  if (share > 0) snprintf(of, sizeof of, "%.0f%%", share * 100);
  if (speedup > 0) snprintf(faster, sizeof faster, ", %.1f times unfused", speedup);
  printf("%-34s %10.3f %21s %7.1f %s %9s %s%s\n", c->name, c->time.median * 1e3, spread, rate / 1e9,
         c->flops ? "GF/s" : "GB/s", of, right ? "right" : "WRONG", faster);
  fflush(stdout);
}

static void run_memory_case(Case *c) {
  double times[MAX_RUNS], copies[MAX_RUNS];
  int64_t copied = opt.elements;
  for (int i = 0; i < c->count; i++) launch(&c->launches[i]);
  for (int r = 0; r < opt.runs; r++) {
    if (isatty(2)) fprintf(stderr, "\r\033[K%s: run %d of %d", c->name, r + 1, opt.runs);
    start();
    for (int i = 0; i < c->count; i++) launch(&c->launches[i]);
    times[r] = stop();
    copies[r] = copy_seconds(dst, src, copied) * c->work / (8.0 * (double)copied);
  }
  if (isatty(2)) fprintf(stderr, "\r\033[K");
  c->time = timing(times, opt.runs), c->ceiling = timing(copies, opt.runs);
}

/* ---- checks: a sample of elements or rows in float64 ------------------------------------------------------------- */

typedef struct Check {
  const float *x, *y, *z, *out;
  int64_t n, rows;
} Check;

static double error_add(void *arg) {
  Check *c = arg;
  double worst = 0;
  for (int64_t i = 0; i < c->n; i += 997) worst = fmax(worst, fabs(c->out[i] - (float)((double)c->x[i] + c->y[i])));
  return worst > 0 ? INFINITY : 0;
}

static double error_gelu(void *arg) {
  Check *c = arg;
  double worst = 0;
  for (int64_t i = 0; i < c->n; i += 997) {
    double x = c->x[i], want = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    worst = fmax(worst, fabs(c->out[i] - want) / (0x1p-24 * 64 * (1 + fabs(x))));
  }
  return worst;
}

static double error_softmax(void *arg) {
  Check *c = arg;
  double worst = 0;
  for (int64_t r = 0; r < c->rows; r += c->rows / 7 + 1) {
    const float *x = c->x + r * c->n;
    double top = -INFINITY, total = 0;
    for (int64_t i = 0; i < c->n; i++) top = fmax(top, x[i]);
    for (int64_t i = 0; i < c->n; i++) total += exp(x[i] - top);
    for (int64_t i = 0; i < c->n; i++) {
      double want = exp(x[i] - top) / total;
      worst = fmax(worst, fabs(c->out[r * c->n + i] - want) / (want * 0x1p-24 * (64 + (double)c->n)));
    }
  }
  return worst;
}

static double error_layer_norm(void *arg) {
  Check *c = arg;
  double worst = 0;
  for (int64_t r = 0; r < c->rows; r += c->rows / 7 + 1) {
    const float *x = c->x + r * c->n;
    double mean = 0, var = 0;
    for (int64_t i = 0; i < c->n; i++) mean += x[i] / (double)c->n;
    for (int64_t i = 0; i < c->n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)c->n;
    for (int64_t i = 0; i < c->n; i++) {
      double want = (x[i] - mean) / sqrt(var + 1e-5) * c->y[i] + c->z[i];
      worst = fmax(worst, fabs(c->out[r * c->n + i] - want) / (0x1p-24 * 4 * (double)c->n));
    }
  }
  return worst;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

static void elementwise_cases(void) {
  int64_t n = opt.elements, grid = cdiv(n, 4096);
  float *x = array(n, 1), *y = array(n, 2), *out = array(n, 3);
  Check check = {x, y, NULL, out, n, 0};
  nereid_arg args[] = {ptr(x), ptr(y), ptr(out), nereid_int(n), block("BLOCK", 4096)};
  Case add = {
      .name = "vector add f32", .work = 12.0 * (double)n, .error = error_add, .arg = &check, .out = out, .count = 1};
  if (wanted(add.name)) {
    add.launches[0] = prepare("vector_add.py", "vector_add", 5, args, grid);
    run_memory_case(&add), print_case(&add, 0), forget(&add.launches[0]);
  }
  nereid_arg gelu_args[] = {ptr(x), ptr(out), nereid_int(n), block("BLOCK", 4096)};
  Case gelu = {.name = "GELU f32", .work = 8.0 * (double)n, .error = error_gelu, .arg = &check, .out = out, .count = 1};
  Case unfused = {.name = "GELU f32, a kernel an operation",
                  .work = 8.0 * (double)n,
                  .error = error_gelu,
                  .arg = &check,
                  .out = out,
                  .count = 8};
  if (wanted(gelu.name)) {
    struct {
      const char *kernel;
      const float *a, *b;
      float *to;
      double factor;
    } steps[] = {{"pow3", x, NULL, y, 0},    {"scale", y, NULL, y, 0.044715},
                 {"add", x, y, y, 0},        {"scale", y, NULL, y, 0.7978845608028654},
                 {"tanh_op", y, NULL, y, 0}, {"shift", y, NULL, y, 1},
                 {"mul", x, y, out, 0},      {"scale", out, NULL, out, 0.5}};
    for (int i = 0; i < 8; i++) {
      nereid_arg a[6];
      int k = 0;
      a[k++] = ptr(steps[i].a);
      if (steps[i].b) a[k++] = ptr(steps[i].b);
      a[k++] = ptr(steps[i].to);
      if (steps[i].factor != 0) a[k++] = nereid_float(steps[i].factor);
      a[k++] = nereid_int(n), a[k++] = block("BLOCK", 4096);
      unfused.launches[i] = prepare("unfused.py", steps[i].kernel, k, a, grid);
    }
    run_memory_case(&unfused), print_case(&unfused, 0);
    gelu.launches[0] = prepare("gelu.py", "gelu", 4, gelu_args, grid);
    run_memory_case(&gelu), print_case(&gelu, unfused.time.median / gelu.time.median);
    forget(&gelu.launches[0]);
    for (int i = 0; i < 8; i++) forget(&unfused.launches[i]);
  }
  release(x), release(y), release(out);
}

static void softmax_case(const char *name, const char *kernel, int64_t rows, int64_t cols, int64_t tile,
                         bool with_unfused) {
  if (!wanted(name)) return;
  int64_t n = rows * cols;
  float *x = array(n, 4), *t = with_unfused ? array(n, 5) : NULL, *v = array(rows, 6), *out = array(n, 7);
  Check check = {x, NULL, NULL, out, cols, rows};
  Case fused = {.name = name, .work = 8.0 * (double)n, .error = error_softmax, .arg = &check, .out = out, .count = 1};
  double slow = 0;
  if (with_unfused) {
    char title[96];
    snprintf(title, sizeof title, "%s, a kernel an op.", name);
    Case c = {.name = title, .work = 8.0 * (double)n, .error = error_softmax, .arg = &check, .out = out, .count = 5};
    nereid_arg row_max[] = {ptr(x), ptr(v), nereid_int(cols), block("BLOCK", tile)},
               sub[] = {ptr(x), ptr(v), ptr(t), nereid_int(cols), block("BLOCK", tile)};
    nereid_arg e[] = {ptr(t), ptr(t), nereid_int(n), block("BLOCK", 4096)},
               sum[] = {ptr(t), ptr(v), nereid_int(cols), block("BLOCK", tile)};
    nereid_arg div[] = {ptr(t), ptr(v), ptr(out), nereid_int(cols), block("BLOCK", tile)};
    c.launches[0] = prepare("unfused.py", "row_max", 4, row_max, rows),
    c.launches[1] = prepare("unfused.py", "row_sub", 5, sub, rows);
    c.launches[2] = prepare("unfused.py", "exp_op", 4, e, cdiv(n, 4096)),
    c.launches[3] = prepare("unfused.py", "row_sum", 4, sum, rows);
    c.launches[4] = prepare("unfused.py", "row_div", 5, div, rows);
    run_memory_case(&c), print_case(&c, 0);
    slow = c.time.median;
    for (int i = 0; i < 5; i++) forget(&c.launches[i]);
  }
  nereid_arg args[] = {ptr(x), ptr(out), nereid_int(cols), nereid_int(cols), nereid_int(cols), block("BLOCK", tile)};
  fused.launches[0] = prepare("softmax.py", kernel, 6, args, rows);
  run_memory_case(&fused), print_case(&fused, slow > 0 ? slow / fused.time.median : 0), forget(&fused.launches[0]);
  release(x), release(t), release(v), release(out);
}

static void layer_norm_case(void) {
  int64_t cols = 4096, rows = opt.elements / cols, n = rows * cols;
  Case c = {.name = "layer norm f32, rows of 4096", .work = 8.0 * (double)n, .error = error_layer_norm, .count = 1};
  if (!wanted(c.name)) return;
  float *x = array(n, 8), *w = array(cols, 9), *b = array(cols, 10), *out = array(n, 11), *mean = array(rows, 12),
        *rstd = array(rows, 13);
  Check check = {x, w, b, out, cols, rows};
  c.arg = &check, c.out = out;
  nereid_arg args[] = {ptr(x),    ptr(w),           ptr(b),           ptr(out),           ptr(mean),
                       ptr(rstd), nereid_int(cols), nereid_int(cols), nereid_float(1e-5), block("BLOCK", 4096)};
  c.launches[0] = prepare("layer_norm.py", "layer_norm", 10, args, rows);
  run_memory_case(&c), print_case(&c, 0), forget(&c.launches[0]);
  float *all[] = {x, w, b, out, mean, rstd};
  for (int i = 0; i < 6; i++) release(all[i]);
}

typedef struct MatmulCheck {
  const float *a, *b;
  const void *out;
  int64_t n;
  bool bf16;
} MatmulCheck;

static double error_matmul(void *arg) {
  MatmulCheck *c = arg;
  double worst = 0;
  for (int64_t s = 0; s < 64; s++) {
    int64_t i = s * 7919 % c->n, j = s * 104729 % c->n;
    double want = 0, size = 0, got;
    for (int64_t k = 0; k < c->n; k++) {
      double p = (double)c->a[i * c->n + k] * c->b[k * c->n + j];
      want += p, size += fabs(p);
    }
    if (c->bf16) got = nereid_dtype_load(NEREID_BF16, (const uint16_t *)c->out + i * c->n + j);
    else got = ((const float *)c->out)[i * c->n + j];
    worst = fmax(worst, fabs(got - want) / ((double)c->n * 0x1p-24 * size + (c->bf16 ? 0x1p-8 * fabs(want) : 0)));
  }
  return worst;
}

static void matmul_case(int64_t n, bool bf16, const Blas *blas) {
  char name[64];
  snprintf(name, sizeof name, "matmul %s %ld", bf16 ? "bf16" : "f32", (long)n);
  if (!wanted(name)) return;
  float *a = array(n * n, 14), *b = array(n * n, 15), *out = array(n * n, 16), *theirs = array(n * n, 17);
  uint16_t *ah = NULL, *bh = NULL;
  if (bf16) {
    ah = array_bytes(n * n * 2), bh = array_bytes(n * n * 2);
    for (int64_t i = 0; i < n * n; i++) {
      ah[i] = bf16_of(a[i]), bh[i] = bf16_of(b[i]);
      a[i] = (float)nereid_dtype_load(NEREID_BF16, &ah[i]), b[i] = (float)nereid_dtype_load(NEREID_BF16, &bh[i]);
    }
    upload(ah), upload(bh);
  }
  MatmulCheck check = {a, b, out, n, bf16};
  Case c = {.name = name,
            .work = 2.0 * (double)n * (double)n * (double)n,
            .flops = true,
            .error = error_matmul,
            .arg = &check,
            .out = out,
            .count = 1};
  nereid_dtype t = bf16 ? NEREID_BF16 : NEREID_F32;
  nereid_arg args[] = {nereid_pointer(on_device(bf16 ? (void *)ah : a), t),
                       nereid_pointer(on_device(bf16 ? (void *)bh : b), t),
                       nereid_pointer(on_device(out), t),
                       nereid_int(n),
                       nereid_int(n),
                       nereid_int(n),
                       nereid_int(n),
                       nereid_int(1),
                       nereid_int(n),
                       nereid_int(1),
                       nereid_int(n),
                       nereid_int(1),
                       block("BLOCK_M", 128),
                       block("BLOCK_N", 128),
                       block("BLOCK_K", opt.gpu ? 32 : 64),
                       block("GROUP_M", 8)};
  c.launches[0] = prepare("matmul.py", "matmul", 16, args, cdiv(n, 128) * cdiv(n, 128));
  double times[MAX_RUNS], ceilings[MAX_RUNS];
  launch(&c.launches[0]);
  for (int r = 0; r < opt.runs; r++) {
    start();
    launch(&c.launches[0]);
    times[r] = stop();
    ceilings[r] = opt.gpu && bf16 ? blas_seconds(blas, (int)n, ah, bh, theirs, true)
                                  : blas_seconds(blas, (int)n, a, b, theirs, false);
  }
  c.time = timing(times, opt.runs), c.ceiling = timing(ceilings, opt.runs);
  print_case(&c, 0), forget(&c.launches[0]);
  const void *all[] = {a, b, out, theirs, ah, bh};
  for (int i = 0; i < 6; i++) release(all[i]);
}

/* The device asked for; else a GPU, if there is one, else the CPU. */
static void open_device(void) {
  nereid_error *err = NULL;
  char cpu[16];
  snprintf(cpu, sizeof cpu, "cpu:%d", opt.threads);
  static nereid_device_info info[16]; /* opt.device may point into it */
  int n = nereid_devices(info, 16);
  if (n > 16) n = 16;
  for (int i = 0; i < n && !opt.device; i++)
    if (!strncmp(info[i].name, "cuda", 4) && info[i].available) opt.device = info[i].name;
  if (!opt.device) opt.device = "cpu";
  opt.gpu = !strncmp(opt.device, "cuda", 4);
  if (nereid_device_open(opt.gpu ? opt.device : cpu, &device, &err)) die(err);
  if (opt.gpu && (nereid_event_create(device, &begun, &err) || nereid_event_create(device, &ended, &err))) die(err);
  if (!strcmp(opt.device, "cuda")) opt.device = "cuda:0";
  for (int i = 0; i < n && !opt.json; i++) {
    if (strcmp(info[i].name, opt.device)) continue;
    printf("%s", info[i].description);
    if (!opt.gpu) printf("; %d threads used", opt.threads);
    printf("\n");
  }
}

int main(int argc, char **argv) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  opt.threads = processors < 1 ? 1 : processors > 64 ? 64 : (int)processors;
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (!strcmp(argv[i], "--quick")) opt.quick = true, opt.runs = 5;
    else if (!strcmp(argv[i], "--json")) opt.json = true;
    else if (!strcmp(argv[i], "--case") && more) opt.only = argv[++i];
    else if (!strcmp(argv[i], "--device") && more && (!strcmp(argv[i + 1], "cpu") || !strncmp(argv[i + 1], "cuda", 4)))
      opt.device = argv[++i];
    else if (!strcmp(argv[i], "--threads") && more) opt.threads = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--kernels") && more) opt.kernels = argv[++i];
    else
      return fprintf(stderr,
                     "usage: %s [--device cpu|cuda] [--quick] [--json] [--case TEXT] [--threads N] [--kernels DIR]\n",
                     argv[0]),
             2;
  }
  if (opt.threads < 1 || opt.threads > 64) return fprintf(stderr, "--threads takes 1 to 64\n"), 2;
  open_device();
  opt.elements = (int64_t)1 << ((opt.quick ? 24 : 26) + 2 * opt.gpu);
  src = array(opt.elements, 20), dst = array(opt.elements, 21);
  copy_seconds(dst, src, opt.elements);
  double copies[MAX_RUNS];
  for (int r = 0; r < opt.runs; r++) copies[r] = copy_seconds(dst, src, opt.elements);
  Timing copy = timing(copies, opt.runs);
  Blas blas = find_blas();
  if (!opt.json)
    printf("ceilings: copy %.1f GB/s (%ld MiB arrays); matmul %s\n\n", 8e-9 * (double)opt.elements / copy.median,
           (long)(opt.elements * 4 >> 20),
           blas.name ? blas.name
           : opt.gpu ? "none: libcublas.so.12 or 13 is not found"
                     : "none: OpenBLAS is not installed (libopenblas0)");
  header();
  elementwise_cases();
  softmax_case("softmax f32, rows of 4096", "softmax", opt.elements / 4096, 4096, 4096, true);
  softmax_case("softmax f32, rows of 781", "softmax", opt.elements / 781, 781, 1024, false);
  softmax_case("softmax f32, rows of 131072", opt.gpu ? "softmax_three_pass" : "softmax", opt.elements / 131072, 131072,
               opt.gpu ? 4096 : 131072, false);
  softmax_case("online softmax f32, rows of 131072", "softmax_online", opt.elements / 131072, 131072, 4096, false);
  layer_norm_case();
  for (int64_t n = opt.gpu ? 2048 : 1024, last = opt.quick ? n : 2 * n; n <= last; n *= 2) matmul_case(n, false, &blas);
  matmul_case(opt.gpu ? 2048 : 1024, true, &blas);
  if (opt.json) printf("%s]\n", printed ? "" : "[");
  release(src), release(dst);
  nereid_event_destroy(begun), nereid_event_destroy(ended);
  nereid_device_close(device);
  if (wrong) fprintf(stderr, "%d cases are wrong\n", wrong);
  return wrong != 0;
}
