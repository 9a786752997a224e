/* The cuda device on a GPU: what tests/unit/runtime/test_cuda.c cannot see. Each test runs in a process of its own,
 * since some lose their context, and a process that has used CUDA cannot be forked. A machine with no GPU: every test
 * is skipped.
 */
#include "unit/runtime/runtime_kit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char text_py[] =
    "import triton\n"
    "import triton.language as tl\n"
    "\n"
    "@triton.jit\n"
    "def add(x, y, out, n, BLOCK: tl.constexpr):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)\n"
    "\n"
    "@triton.jit\n"
    "def wild(p, far: tl.int64):\n"
    "    tl.store(p + far, 1.0)\n"
    "\n"
    "@triton.jit\n"
    "def spin(out, n):\n"
    "    v = 0.0\n"
    "    for i in range(n):\n"
    "        v = v * 0.999 + 1.0\n"
    "    tl.store(out, v)\n"
    "\n"
    "@triton.jit\n"
    "def talk(limit):\n"
    "    p = tl.program_id(0)\n"
    "    tl.device_print('program', p)\n"
    "    tl.device_assert(p < limit, 'p is too large')\n"
    "\n"
    "@triton.jit\n"
    "def mark(out):\n"
    "    p = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))\n"
    "    tl.store(out + p, p + 1)\n"
    "\n"
    "@triton.jit\n"
    "def turn(x, y, N: tl.constexpr, M: tl.constexpr):\n"
    "    i = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]\n"
    "    j = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]\n"
    "    tl.store(y + j, tl.trans(tl.load(x + i)))\n"
    "\n"
    "@triton.jit\n"
    "def divide(x, y, q, r, N: tl.constexpr):\n"
    "    i = tl.arange(0, N)\n"
    "    a = tl.load(x + i)[:, None]\n"
    "    b = tl.load(y + i)[None, :]\n"
    "    at = i[:, None] * N + i[None, :]\n"
    "    tl.store(q + at, a // b)\n"
    "    tl.store(r + at, a % b)\n";

static const char text_cu[] =
    "#include <cuda_fp16.h>\n"
    "template <typename T> __global__ void scale(const T *__restrict__ x, T *__restrict__ y, float by, size_t n) {\n"
    "  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = T(float(x[i]) * by);\n"
    "}\n"
    "extern \"C\" __global__ void reverse(float *x, int n) {\n"
    "  extern __shared__ float line[];\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) line[i] = x[i];\n"
    "  __syncthreads();\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = line[n - 1 - i];\n"
    "}\n";

static const int64_t one[3] = {1, 1, 1};
enum { SKIPPED = 77 };

static void check(int failed, nereid_error **error, int line) {
  if (!failed) return;
  fprintf(stderr, "line %d: %s\n", line, *error ? nereid_error_text(*error) : "wrong");
  _exit(1);
}
/* GOOD(call with &error): must succeed; SAYS: must fail so. Both end the child otherwise. */
#define GOOD(call) \
  do { \
    nereid_error *error = NULL; \
    check((call) != NEREID_OK, &error, __LINE__); \
  } while (0)
#define SAYS(call, status, words) \
  do { \
    nereid_error *error = NULL; \
    nereid_status got = (call); \
    check(got != (status) || !error || !strstr(nereid_error_text(error), words), &error, __LINE__); \
    nereid_error_free(error); \
  } while (0)
#define TRUE(condition) check(!(condition), &(nereid_error *){NULL}, __LINE__)

typedef struct Gpu {
  nereid_device *d;
  nereid_module *m;
  float *p[3];
} Gpu;
enum { N = 1 << 16 };

static Gpu gpu_open(void) {
  Gpu g = {0};
  nereid_device_info info[32];
  int n = nereid_devices(info, 32), found = 0;
  for (int i = 0; i < n && i < 32; i++) found |= !strncmp(info[i].name, "cuda", 4) && info[i].available;
  if (!found) _exit(SKIPPED);
  GOOD(nereid_device_open("cuda:0", &g.d, &error));
  GOOD(nereid_module_load_string("gpu.py", text_py, &g.m, &error));
  for (int i = 0; i < 3; i++) {
    GOOD(nereid_alloc(g.d, sizeof(float) * N, (void **)&g.p[i], &error));
    GOOD(nereid_fill_async(g.d, NULL, g.p[i], 0, sizeof(float) * N, &error));
  }
  return g;
}

static void gpu_close(Gpu *g) {
  nereid_module_free(g->m);
  nereid_device_close(g->d);
}

/* In a child: 0 passed, SKIPPED no GPU. */
static void in_child(void (*test)(void)) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    alarm(120);
    test();
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) skip();
  if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("the child ended with status %x", status);
}

static nereid_status launch_wild(Gpu *g, const nereid_options *o, nereid_error **error) {
  return nereid_launch(g->d, NULL, g->m, "wild", one,
                       (nereid_arg[]){nereid_pointer(g->p[0], NEREID_F32), nereid_int((int64_t)1 << 40)}, 2, o, error);
}
static nereid_status launch_add(Gpu *g, nereid_stream *s, nereid_error **error) {
  nereid_arg a[] = {nereid_pointer(g->p[0], NEREID_F32), nereid_pointer(g->p[1], NEREID_F32),
                    nereid_pointer(g->p[2], NEREID_F32), nereid_int(N), nereid_constexpr_int(1024)};
  return nereid_launch(g->d, s, g->m, "add", (int64_t[]){N / 1024, 1, 1}, a, 5, NULL, error);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void illegal_address(void) {
  Gpu g = gpu_open();
  static const char words[] = "kernel 'wild' failed: an illegal memory access was encountered "
                              "(CUDA_ERROR_ILLEGAL_ADDRESS); the CUDA context of cuda:0 is lost";
  void *p;
  GOOD(launch_add(&g, NULL, &error));
  GOOD(nereid_synchronize(g.d, &error));
  GOOD(launch_wild(&g, NULL, &error));
  SAYS(nereid_synchronize(g.d, &error), NEREID_KERNEL_FAULT, words);
  SAYS(launch_add(&g, NULL, &error), NEREID_KERNEL_FAULT, words);
  SAYS(nereid_alloc(g.d, 100, &p, &error), NEREID_KERNEL_FAULT, words);
  gpu_close(&g); /* and nothing hangs */
}

static void illegal_address_of_several(void) {
  Gpu g = gpu_open();
  GOOD(launch_add(&g, NULL, &error));
  GOOD(launch_wild(&g, NULL, &error));
  SAYS(nereid_synchronize(g.d, &error), NEREID_KERNEL_FAULT,
       "one of the kernels launched since the last synchronize (the first was 'add') failed");
}

static void illegal_address_blocking(void) {
  Gpu g = gpu_open();
  nereid_options o = {.blocking = true};
  GOOD(launch_add(&g, NULL, &error));
  GOOD(nereid_synchronize(g.d, &error));
  SAYS(launch_wild(&g, &o, &error), NEREID_KERNEL_FAULT, "kernel 'wild' failed");
}

static void asserts_and_prints(void) {
  Gpu g = gpu_open();
  Lines lines = {0};
  nereid_options o = {.debug = true, .print = lines_print, .print_arg = &lines};
  nereid_arg limit[] = {nereid_int(9)};
  GOOD(nereid_launch(g.d, NULL, g.m, "talk", (int64_t[]){5, 1, 1}, limit, 1, &o, &error));
  GOOD(nereid_synchronize(g.d, &error));
  TRUE(lines.count == 5);
  limit[0] = nereid_int(3);
  GOOD(nereid_launch(g.d, NULL, g.m, "talk", (int64_t[]){5, 1, 1}, limit, 1, &o, &error));
  SAYS(nereid_synchronize(g.d, &error), NEREID_KERNEL_FAULT, "p is too large");
  SAYS(nereid_launch(g.d, NULL, g.m, "talk", (int64_t[]){5, 1, 1}, limit, 1,
                     &(nereid_options){.debug = true, .blocking = true, .print = lines_print, .print_arg = &lines},
                     &error),
       NEREID_KERNEL_FAULT, "gpu.py:24"); /* the failing line */
  GOOD(launch_add(&g, NULL, &error));     /* the context is well */
  GOOD(nereid_synchronize(g.d, &error));
  gpu_close(&g);
}

/* ---- arguments and memory ---------------------------------------------------------------------------------------- */

static void wrong_pointers(void) {
  Gpu g = gpu_open();
  float *good = g.p[1];
  float *host = malloc(sizeof(float) * N);
  g.p[1] = host;
  nereid_error *error = NULL;
  nereid_status status = launch_add(&g, NULL, &error); /* a GPU that reaches all of the host's memory takes it */
  TRUE(status == NEREID_OK ||
       (status == NEREID_BAD_ARGUMENT &&
        strstr(nereid_error_text(error), "parameter 'y' of kernel 'add' points to the host's memory")));
  nereid_error_free(error);
  GOOD(nereid_synchronize(g.d, &error));
  g.p[1] = (float *)((char *)good + 2);
  SAYS(launch_add(&g, NULL, &error), NEREID_BAD_ARGUMENT, "is not aligned to the 4 bytes of f32");
  g.p[1] = good;
  GOOD(launch_add(&g, NULL, &error));
  GOOD(nereid_synchronize(g.d, &error));
  free(host);
  gpu_close(&g);
}

static void out_of_memory(void) {
  Gpu g = gpu_open();
  void *p = NULL;
  SAYS(nereid_alloc(g.d, (int64_t)1 << 50, &p, &error), NEREID_OUT_OF_MEMORY,
       "out of memory: cuda:0 has no 1125899906842624 bytes; ");
  GOOD(launch_add(&g, NULL, &error));
  GOOD(nereid_synchronize(g.d, &error));
  gpu_close(&g);
}

static void no_such_device(void) {
  Gpu g = gpu_open();
  nereid_device *d = NULL;
  SAYS(nereid_device_open("cuda:99", &d, &error), NEREID_NO_DEVICE, "there is no device 'cuda:99': this machine has ");
  gpu_close(&g);
}

static void too_much_shared_memory(void) {
  Gpu g = gpu_open();
  nereid_arg a[] = {nereid_pointer(g.p[0], NEREID_F32), nereid_pointer(g.p[1], NEREID_F32), nereid_constexpr_int(256),
                    nereid_constexpr_int(256)};
  nereid_error *error = NULL;
  nereid_status status = nereid_launch(g.d, NULL, g.m, "turn", one, a, 4, NULL, &error);
  /* 256 KiB when the whole tile lies in shared memory at once; a lowering that needs less is welcome. */
  TRUE(status == NEREID_OK || strstr(nereid_error_text(error), "shared memory"));
  nereid_error_free(error);
  gpu_close(&g);
}

static void pinned_memory(void) {
  Gpu g = gpu_open();
  float *h[3];
  for (int k = 0; k < 3; k++) GOOD(nereid_alloc_host(g.d, sizeof(float) * N, (void **)&h[k], &error));
  for (int i = 0; i < N; i++) h[0][i] = (float)i, h[1][i] = 1, h[2][i] = 0;
  for (int k = 0; k < 3; k++) g.p[k] = h[k];
  GOOD(launch_add(&g, NULL, &error)); /* a kernel on the host's memory */
  GOOD(nereid_synchronize(g.d, &error));
  for (int i = 0; i < N; i++) TRUE(h[2][i] == (float)i + 1);
  static float mine[N]; /* a program's own array, registered */
  GOOD(nereid_register(g.d, mine, sizeof mine, "mine", &error));
  g.p[2] = mine;
  GOOD(launch_add(&g, NULL, &error));
  GOOD(nereid_synchronize(g.d, &error));
  for (int i = 0; i < N; i++) TRUE(mine[i] == (float)i + 1);
  nereid_unregister(g.d, mine);
  for (int k = 0; k < 3; k++) nereid_free_host(g.d, h[k]);
  gpu_close(&g);
}

/* ---- streams, events, lists, modules ----------------------------------------------------------------------------- */

static void streams_and_events(void) {
  Gpu g = gpu_open();
  nereid_stream *a, *b;
  nereid_event *start, *end;
  double ms = 0;
  static float in[N], out[N];
  for (int i = 0; i < N; i++) in[i] = (float)i;
  GOOD(nereid_stream_create(g.d, &a, &error));
  GOOD(nereid_stream_create(g.d, &b, &error));
  GOOD(nereid_event_create(g.d, &start, &error));
  GOOD(nereid_event_create(g.d, &end, &error));
  /* a: a long kernel, then the inputs; b waits for them. */
  nereid_arg spin[] = {nereid_pointer(g.p[2], NEREID_F32), nereid_int(10000000)};
  GOOD(nereid_event_record(start, a, &error));
  GOOD(nereid_launch(g.d, a, g.m, "spin", one, spin, 2, NULL, &error));
  GOOD(nereid_copy_to_device_async(g.d, a, g.p[0], in, sizeof in, &error));
  GOOD(nereid_copy_async(g.d, a, g.p[1], g.p[0], sizeof in, &error));
  GOOD(nereid_event_record(end, a, &error));
  GOOD(nereid_stream_wait(g.d, b, end, &error));
  GOOD(launch_add(&g, b, &error));
  GOOD(nereid_copy_to_host_async(g.d, b, out, g.p[2], sizeof out, &error));
  GOOD(nereid_stream_synchronize(g.d, b, &error));
  for (int i = 0; i < N; i++) TRUE(out[i] == 2 * (float)i);
  GOOD(nereid_event_elapsed(start, end, &ms, &error));
  TRUE(ms > 1);
  nereid_event_destroy(start), nereid_event_destroy(end);
  nereid_stream_destroy(a), nereid_stream_destroy(b);
  gpu_close(&g);
}

static void freeing_a_module_in_flight(void) {
  Gpu g = gpu_open();
  float v = 0;
  nereid_arg spin[] = {nereid_pointer(g.p[0], NEREID_F32), nereid_int(20000000)};
  GOOD(nereid_launch(g.d, NULL, g.m, "spin", one, spin, 2, NULL, &error));
  nereid_module_free(g.m);
  GOOD(nereid_copy_to_host(g.d, &v, g.p[0], sizeof v, &error));
  TRUE(v > 999 && v < 1001);
  nereid_device_close(g.d);
}

static void listed_programs(void) {
  Gpu g = gpu_open();
  static int32_t out[24];
  const int64_t programs[] = {23, 0, 7};
  nereid_options o = {.programs = programs, .program_count = 3};
  nereid_arg a[] = {nereid_pointer(g.p[0], NEREID_I32)};
  GOOD(nereid_launch(g.d, NULL, g.m, "mark", (int64_t[]){3, 4, 2}, a, 1, &o, &error));
  GOOD(nereid_synchronize(g.d, &error));
  GOOD(nereid_copy_to_host(g.d, out, g.p[0], sizeof out, &error));
  for (int i = 0; i < 24; i++) TRUE(out[i] == (i == 23 || i == 0 || i == 7 ? i + 1 : 0));
  gpu_close(&g);
}

/* Divisions of 64 bits, by 32 where both numbers fit. */
static void wide_divisions(void) {
  enum { SIDE = 32 };
  static const int64_t edges[] = {1,
                                  2,
                                  3,
                                  7,
                                  1000003,
                                  INT32_MAX,
                                  (int64_t)INT32_MAX + 1,
                                  UINT32_MAX,
                                  (int64_t)UINT32_MAX + 1,
                                  INT64_C(1) << 33,
                                  INT64_MAX - 1,
                                  INT64_MAX};
  enum { EDGES = sizeof edges / sizeof *edges };
  static int64_t x[SIDE], quotient[SIDE * SIDE], rest[SIDE * SIDE];
  Gpu g = gpu_open();
  void *p[4];
  for (int i = 0; i < SIDE; i++) x[i] = i < EDGES ? edges[i] : i < 2 * EDGES ? -edges[i - EDGES] : 5 * i * 12345677;
  for (int i = 0; i < 4; i++) GOOD(nereid_alloc(g.d, sizeof quotient, &p[i], &error));
  for (int i = 0; i < 2; i++) GOOD(nereid_copy_to_device(g.d, p[i], x, sizeof x, &error));
  for (int type = 0; type < 2; type++) {
    nereid_dtype t = type ? NEREID_U64 : NEREID_I64;
    nereid_arg a[] = {nereid_pointer(p[0], t), nereid_pointer(p[1], t), nereid_pointer(p[2], t),
                      nereid_pointer(p[3], t), nereid_constexpr_int(SIDE)};
    GOOD(nereid_launch(g.d, NULL, g.m, "divide", one, a, 5, NULL, &error));
    GOOD(nereid_copy_to_host(g.d, quotient, p[2], sizeof quotient, &error));
    GOOD(nereid_copy_to_host(g.d, rest, p[3], sizeof rest, &error));
    for (int i = 0; i < SIDE * SIDE; i++) {
      int64_t a = x[i / SIDE], b = x[i % SIDE];
      TRUE(quotient[i] == (type ? (int64_t)((uint64_t)a / (uint64_t)b) : a / b));
      TRUE(rest[i] == (type ? (int64_t)((uint64_t)a % (uint64_t)b) : a % b));
    }
  }
  gpu_close(&g);
}

static void without_ptxas(void) { /* the driver compiles */
  setenv("NEREID_PTXAS", "none", 1);
  Gpu g = gpu_open();
  static float x[N], out[N];
  for (int i = 0; i < N; i++) x[i] = (float)i;
  GOOD(nereid_copy_to_device(g.d, g.p[0], x, sizeof x, &error));
  GOOD(launch_add(&g, NULL, &error));
  GOOD(nereid_copy_to_host(g.d, out, g.p[2], sizeof out, &error));
  for (int i = 0; i < N; i++) TRUE(out[i] == x[i]);
  gpu_close(&g);
}

/* ---- CUDA C ------------------------------------------------------------------------------------------------------ */

static void cuda_c(void) {
  Gpu g = gpu_open();
  nereid_module *m;
  static float x[N], back[N];
  static uint16_t half[N];
  GOOD(nereid_module_load_string("k.cu", text_cu, &m, &error));
  nereid_options o = {.block = {256}};
  for (int i = 0; i < N; i++) x[i] = (float)(i % 1000);
  GOOD(nereid_copy_to_device(g.d, g.p[0], x, sizeof x, &error));
  nereid_arg scale[] = {nereid_pointer(g.p[0], NEREID_F32), nereid_pointer(g.p[1], NEREID_F32), nereid_float(2),
                        nereid_int(N)};
  nereid_error *error = NULL;
  /* no NVRTC here */
  if (nereid_launch(g.d, NULL, m, "scale<float>", (int64_t[]){N / 256, 1, 1}, scale, 4, &o, &error) ==
      NEREID_NO_COMPILER)
    _exit(SKIPPED);
  check(error != NULL, &error, __LINE__);
  GOOD(nereid_copy_to_host(g.d, back, g.p[1], sizeof back, &error));
  for (int i = 0; i < N; i++) TRUE(back[i] == 2 * x[i]);
  for (int i = 0; i < N; i++) nereid_dtype_store(NEREID_F16, &half[i], i % 1000);
  GOOD(nereid_copy_to_device(g.d, g.p[0], half, sizeof half, &error));
  scale[0].dtype = scale[1].dtype = NEREID_F16;
  GOOD(nereid_launch(g.d, NULL, m, "scale<__half>", (int64_t[]){N / 256, 1, 1}, scale, 4, &o, &error));
  GOOD(nereid_copy_to_host(g.d, half, g.p[1], sizeof half, &error));
  for (int i = 0; i < N; i++) TRUE(nereid_dtype_load(NEREID_F16, &half[i]) == 2 * (i % 1000));
  enum { ALL = 25000 }; /* 100 KB of shared memory */
  o.shared_bytes = sizeof(float) * ALL;
  GOOD(nereid_copy_to_device(g.d, g.p[0], x, sizeof(float) * ALL, &error));
  GOOD(nereid_launch(g.d, NULL, m, "reverse", one, (nereid_arg[]){nereid_pointer(g.p[0], NEREID_F32), nereid_int(ALL)},
                     2, &o, &error));
  GOOD(nereid_copy_to_host(g.d, back, g.p[0], sizeof(float) * ALL, &error));
  for (int i = 0; i < ALL; i++) TRUE(back[i] == x[ALL - 1 - i]);
  nereid_module_free(m);
  gpu_close(&g);
}

#define CHILD(name) \
  static void test_##name(void **state) { in_child(name); }
CHILD(illegal_address)
CHILD(illegal_address_of_several)
CHILD(illegal_address_blocking)
CHILD(asserts_and_prints)
CHILD(wrong_pointers)
CHILD(out_of_memory)
CHILD(no_such_device)
CHILD(too_much_shared_memory)
CHILD(pinned_memory)
CHILD(streams_and_events)
CHILD(freeing_a_module_in_flight)
CHILD(listed_programs)
CHILD(wide_divisions)
CHILD(without_ptxas)
CHILD(cuda_c)

int main(void) {
  /* clang-format off */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_illegal_address), cmocka_unit_test(test_illegal_address_of_several),
        cmocka_unit_test(test_illegal_address_blocking),
      cmocka_unit_test(test_asserts_and_prints), cmocka_unit_test(test_wrong_pointers),
        cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_no_such_device), cmocka_unit_test(test_too_much_shared_memory),
        cmocka_unit_test(test_pinned_memory),
      cmocka_unit_test(test_streams_and_events), cmocka_unit_test(test_freeing_a_module_in_flight),
        cmocka_unit_test(test_listed_programs),
      cmocka_unit_test(test_wide_divisions), cmocka_unit_test(test_without_ptxas),     cmocka_unit_test(test_cuda_c),
  };
  /* clang-format on */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
