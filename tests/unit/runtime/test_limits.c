/* Hostile source and hostile files: each gets an answer, on `interp`, `sim` and every compiler that only makes text,
 * on a thread of 256 KiB as on the main one; what goes over a limit is NEREID_OVER_LIMIT and says which, and where. */
#include "unit/runtime/runtime_kit.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) /* frames are several times as large */
enum { SMALL_STACK = 1 << 20 };
#else
enum { SMALL_STACK = 256 << 10 };
#endif

static char *text;
static size_t text_size;
static FILE *text_open(void) {
  FILE *f = open_memstream(&text, &text_size);
  fputs("import triton\nimport triton.language as tl\n", f);
  return f;
}
static char *text_close(FILE *f) {
  fclose(f);
  return text;
}

static const char head[] = "@triton.jit\ndef k(out, n):\n";

/* What is tried with one source: for whom, and what came of it. */
typedef struct Try {
  const char *source, *device, *stage, *target; /* stage: of nereid_inspect, else a launch on device */
  nereid_limits limits;
  int n, warps; /* warps 0: one */
  nereid_status status;
  char message[400];
  float out[64];
} Try;

static void print_nothing(void *arg, const char *line) {}

static void *attempt(void *arg) {
  Try *t = arg;
  nereid_error *error = NULL;
  nereid_module *m = NULL;
  nereid_device *d = NULL;
  nereid_options o = {.limits = t->limits, .num_warps = t->warps ? t->warps : 1, .print = print_nothing};
  char *shown = NULL;
  void *out = NULL;
  t->status = nereid_module_load_string("hostile.py", t->source, &m, &error);
  if (!t->status && !t->stage) t->status = nereid_device_open(t->device, &d, &error);
  if (!t->status && d) t->status = nereid_alloc(d, sizeof t->out, &out, &error);
  nereid_arg args[] = {nereid_pointer(out, NEREID_F32), nereid_int(t->n)};
  if (!t->status && d) t->status = nereid_launch(d, NULL, m, "k", (int64_t[]){1, 1, 1}, args, 2, &o, &error);
  if (!t->status && d) t->status = nereid_copy_to_host(d, t->out, out, sizeof t->out, &error);
  if (!t->status && t->stage) t->status = nereid_inspect(m, "k", args, 2, &o, t->stage, t->target, &shown, &error);
  if (error) snprintf(t->message, sizeof t->message, "%s", nereid_error_text(error));
  nereid_error_free(error);
  if (d) nereid_free(d, out);
  free(shown);
  nereid_module_free(m);
  nereid_device_close(d);
  return NULL;
}

static void on_small_stack(Try *t) {
  pthread_attr_t a;
  pthread_t thread;
  pthread_attr_init(&a);
  pthread_attr_setstacksize(&a, SMALL_STACK);
  assert_int_equal(pthread_create(&thread, &a, attempt, t), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&a);
}

/* On every device and stage, with both stacks: OK or one of the statuses that a source can cause. */
static void try_all(const char *name, char *source, nereid_limits limits) {
  static const Try kinds[] = {{.device = "interp"},
                              {.device = "sim"},
                              {.stage = "c"},
                              {.stage = "ptx", .target = "sm_80"},
                              {.stage = "ptx", .target = "sm_90a"}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    for (int small = 0; small < 2; small++) {
      Try t = kinds[i];
      t.source = source, t.limits = limits, t.n = 40;
      if (small) on_small_stack(&t);
      else attempt(&t);
      if (t.status != NEREID_OK && t.status != NEREID_BAD_SOURCE && t.status != NEREID_OVER_LIMIT &&
          t.status != NEREID_UNSUPPORTED && t.status != NEREID_KERNEL_FAULT)
        fail_msg("%s on %s: status %d: %s", name, t.stage ? t.stage : t.device, t.status, t.message);
      if (t.status && strlen(t.message) < 20) fail_msg("%s: no message", name);
    }
  free(source);
}

static void test_deep_sources(void **state) {
  FILE *f = text_open(); /* each constant is evaluated for the next */
  fputs("C0 = tl.constexpr(1)\n", f);
  for (int i = 0; i < 20000; i++) fprintf(f, "C%d = tl.constexpr(C%d + 1)\n", i + 1, i);
  fprintf(f, "%s  tl.store(out, C20000)\n", head);
  try_all("chained constants", text_close(f), (nereid_limits){0});

  f = text_open();
  fprintf(f, "%s  x = 1", head);
  for (int i = 0; i < 20000; i++) fputs(" + 1", f);
  fputs("\n  tl.store(out, x)\n", f);
  try_all("a long sum", text_close(f), (nereid_limits){0});

  f = text_open();
  fprintf(f, "%s  x = n", head);
  for (int i = 0; i < 900; i++) fputs(" * 3 + n", f);
  fputs("\n  tl.store(out, x)\n", f);
  try_all("a sum as long as the parser takes", text_close(f), (nereid_limits){0});

  f = text_open();
  fputs("x = []\nfor _ in range(100000):\n    x = [x]\ny = []\nfor _ in range(100000):\n    y = [y]\n"
        "X = tl.constexpr(x)\nY = tl.constexpr(x == y)\n",
        f);
  fprintf(f, "%s  tl.static_print(X)\n  tl.store(out, Y)\n", head);
  try_all("deep lists", text_close(f), (nereid_limits){0});

  f = text_open();
  fprintf(f, "%s  v = tl.load(out)\n  for i in tl.static_range(3000):\n    v = v * 2 + n\n  tl.store(out, v)\n", head);
  try_all("a long chain of operations", text_close(f), (nereid_limits){0});

  f = text_open();
  fprintf(f, "%s  v = 0\n", head);
  for (int i = 0; i < 95; i++) fprintf(f, "%*sif n > %d:\n", 2 + i, "", i);
  fprintf(f, "%*stl.store(out, n)\n", 2 + 95, "");
  try_all("nested branches", text_close(f), (nereid_limits){0});

  f = text_open();
  fputs("@triton.jit\ndef f(out, n, D: tl.constexpr):\n", f);
  for (int i = 0; i < 12; i++) fprintf(f, "%*sif n > %d + D * 12:\n", 2 + i, "", i);
  fprintf(f, "%*sif D < 60:\n%*sf(out, n, D + 1)\n", 14, "", 16, "");
  fprintf(f, "%s  f(out, n, 0)\n", head);
  try_all("branches nested through calls", text_close(f), (nereid_limits){0});
}

static void test_much_work(void **state) {
  FILE *f = text_open();
  fputs("x = (1, 2)\nfor _ in range(200):\n    x = (x, x)\nX = tl.constexpr(x == (x, x))\n", f);
  fprintf(f, "%s  tl.store(out, X)\n", head);
  try_all("a value that holds itself a 2^200th time", text_close(f), (nereid_limits){.steps = 1000000});

  f = text_open();
  fprintf(f, "%s  for i in tl.static_range(1000000000):\n    tl.store(out, i)\n", head);
  try_all("endless unrolling", text_close(f), (nereid_limits){.steps = 1000000});

  f = text_open();
  fputs("n = 0\nwhile True:\n    n += 1\nN = tl.constexpr(n)\n", f);
  fprintf(f, "%s  tl.store(out, N)\n", head);
  try_all("an endless loop of the host", text_close(f), (nereid_limits){0});

  f = text_open();
  fputs("s = 'aa'\nfor _ in range(60):\n    s = s.replace('a', s)\nS = tl.constexpr(len(s))\n", f);
  fprintf(f, "%s  tl.store(out, S)\n", head);
  try_all("a text in place of its letters", text_close(f), (nereid_limits){.memory_bytes = 64 << 20});
}

/* The status and the whole message, on both devices. */
static void test_messages(void **state) {
  static const char unrolled[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(out, n):\n"
                                 "  for i in tl.static_range(100000):\n    tl.store(out + i, n)\n";
  Try t = {.source = unrolled, .device = "interp", .limits.steps = 20000};
  attempt(&t);
  assert_int_equal(t.status, NEREID_OVER_LIMIT);
  assert_memory_equal(t.message, "hostile.py:6:", 13); /* in which operand of the statement, is the compiler's affair */
  assert_non_null(strstr(t.message, ": error: compiling takes more than 20000 steps\n"
                                    "      tl.store(out + i, n)\n"));
  assert_non_null(strstr(t.message, "hint: let it unroll or compute less, or raise limits.steps"));

  t = (Try){.source = unrolled, .device = "interp", .limits.memory_bytes = 4 << 20};
  attempt(&t);
  assert_int_equal(t.status, NEREID_OVER_LIMIT);
  assert_memory_equal(t.message, "hostile.py:6:", 13);
  assert_non_null(strstr(t.message, ": error: compiling takes more than 4 MiB of memory\n"));
  assert_non_null(strstr(t.message, "raise limits.memory_bytes"));

  static const char endless[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(out, n):\n"
                                "  while n > 0:\n    n = n | 1\n  tl.store(out, n)\n";
  static const char *const devices[] = {"interp", "sim"};
  for (int i = 0; i < 2; i++) {
    t = (Try){.source = endless, .device = devices[i], .n = 7, .limits.operations = 1000000};
    attempt(&t);
    assert_int_equal(t.status, NEREID_OVER_LIMIT);
    assert_non_null(strstr(t.message, "operations"));
    if (!strstr(t.message, "hostile.py:")) fail_msg("%s", t.message);
    t.n = 0;
    attempt(&t);
    assert_int_equal(t.status, NEREID_OK);
  }

  /* a function that is a long recurrence, for each element; n larger than an order may be folded with */
  static const char orders[] =
      "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
      "@triton.jit\ndef k(out, n):\n  x = tl.arange(0, 64).to(tl.float64) * 1e8 + 3e9\n"
      "  y = libdevice.jn(tl.full([64], 0, tl.int32) + n, x)\n"
      "  tl.store(out + tl.arange(0, 64), y.to(tl.float32))\n";
  t = (Try){.source = orders, .device = "interp", .n = 1 << 30, .limits.operations = 1000000};
  attempt(&t);
  assert_int_equal(t.status, NEREID_OVER_LIMIT);
  if (!strstr(t.message, "hostile.py:7:7: error: the launch takes more than 1000000 operations"))
    fail_msg("%s", t.message);
  t.n = 3;
  attempt(&t);
  assert_int_equal(t.status, NEREID_OK);

  /* On sim a dot is as much work as its products of two elements: of 20 such as these, 5,242,880. */
  static const char dots[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(out, n):\n"
                             "  r = tl.arange(0, 64)\n  a = (r[:, None] + r[None, :]).to(tl.float16)\n"
                             "  acc = tl.zeros([64, 64], tl.float32)\n"
                             "  for i in range(0, n):\n    acc = tl.dot(a, a, acc)\n  tl.store(out, tl.sum(acc))\n";
  static const char *const multiply[] = {"sim:sm_80", "sim:sm_90a", "sim:sm_100a"};
  for (int i = 0; i < 3; i++) {
    t = (Try){.source = dots, .device = multiply[i], .n = 20, .warps = 4, .limits.operations = 4000000};
    attempt(&t);
    if (t.status != NEREID_OVER_LIMIT) fail_msg("%s: %d %s", multiply[i], t.status, t.message);
    assert_non_null(strstr(t.message, "operations"));
    t.limits.operations = 40000000;
    attempt(&t);
    if (t.status) fail_msg("%s: %s", multiply[i], t.message);
  }

  /* So is a line that is printed: of 20 times 64 lines, 81,920. */
  static const char prints[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(out, n):\n"
                               "  for i in range(0, n):\n    tl.device_print('x', tl.arange(0, 64) + i)\n";
  t = (Try){.source = prints, .device = "interp", .n = 20, .limits.operations = 40000};
  attempt(&t);
  if (t.status != NEREID_OVER_LIMIT) fail_msg("prints: %d %s", t.status, t.message);
  t.limits.operations = 400000;
  attempt(&t);
  assert_int_equal(t.status, NEREID_OK);

  static const char large[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(out, n):\n"
                              "  a = tl.full([1024, 1024], 1.0, tl.float32) * n\n  b = a + 1.0\n"
                              "  tl.store(out, tl.sum(a * b))\n";
  for (int i = 0; i < 2; i++) {
    t = (Try){.source = large, .device = devices[i], .n = 7, .limits.memory_bytes = 2 << 20};
    attempt(&t);
    assert_int_equal(t.status, NEREID_OVER_LIMIT);
    assert_non_null(strstr(t.message, "memory_bytes"));
  }
}

static void test_reading_limits(void **state) {
  nereid_limits l;
  assert_ok(nereid_limits_read("memory=4G,steps=1e9,operations=1e12,file=1M", &l, &error));
  assert_true(l.memory_bytes == 4LL << 30 && l.steps == 1000000000 && l.operations == 1000000000000);
  assert_true(l.file_bytes == 1 << 20);
  assert_ok(nereid_limits_read("", &l, &error));
  assert_true(!l.memory_bytes && !l.steps && !l.operations && !l.file_bytes);
  static const char *const bad[] = {"memory", "memory=", "memory=x", "memory=1X", "memory=-1", "room=4", "memory=1GG"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char want[200];
    snprintf(want, sizeof want,
             "error: these are no limits: %s\n  hint: as in \"memory=4G,steps=1e9,operations=1e12,file=1M\"\n", bad[i]);
    assert_error(nereid_limits_read(bad[i], &l, &error), NEREID_BAD_ARGUMENT, want);
  }
  nereid_device *d = NULL;
  setenv("NEREID_LIMITS", "everything=1", 1);
  assert_error(nereid_device_open("interp", &d, &error), NEREID_BAD_ARGUMENT,
               "error: these are no limits: everything=1\n"
               "  hint: as in \"memory=4G,steps=1e9,operations=1e12,file=1M\"\n");
  setenv("NEREID_LIMITS", "steps=2000", 1);
  Try t = {.source = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(out, n):\n"
                     "  for i in tl.static_range(1000):\n    tl.store(out + i, n)\n",
           .device = "interp"};
  attempt(&t);
  assert_int_equal(t.status, NEREID_OVER_LIMIT);
  unsetenv("NEREID_LIMITS");
}

/* ---- files ---- */

static void write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static void test_files(void **state) {
  char folder[] = "/tmp/nereid-limits-XXXXXX", path[100], want[300];
  assert_non_null(mkdtemp(folder));
  static const char *const names[] = {"/dev/zero", "fifo", "folder", "sparse"};
  static const char *const why[] = {"it is not a regular file", "it is not a regular file", "Is a directory",
                                    "it is too large"};
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s%s%s", i ? folder : "", i ? "/" : "", names[i]);
    if (i == 1) assert_int_equal(mkfifo(path, 0600), 0);
    if (i == 2) assert_int_equal(mkdir(path, 0700), 0);
    if (i == 3) {
      write_file(path, "x");
      assert_int_equal(truncate(path, 1LL << 40), 0);
    }
    nereid_module *m = NULL;
    nereid_array a;
    snprintf(want, sizeof want, "error: cannot read %s: %s\n", path, why[i]);
    assert_error(nereid_module_load(path, &m, &error), NEREID_BAD_FILE, want);
    if (i < 3) assert_error(nereid_npy_read(path, &a, &error), NEREID_BAD_FILE, want);
  }
  /* An array whose file is larger than the machine's memory costs its writer nothing. */
  snprintf(path, sizeof path, "%s/sparse.npy", folder);
  char header[129] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }";
  header[8] = 0x76, header[7] = 0;
  FILE *f = fopen(path, "w");
  size_t n = 10 + strlen(header + 10);
  memset(header + n, ' ', 127 - n);
  header[127] = '\n';
  fwrite(header, 1, 128, f);
  fclose(f);
  assert_int_equal(truncate(path, 128 + (4LL << 40)), 0);
  nereid_array a;
  snprintf(want, sizeof want, "error: %s: its 4398046511104 bytes of data are more than this machine's memory\n", path);
  assert_error(nereid_npy_read(path, &a, &error), NEREID_BAD_FILE, want);
  unlink(path);
  for (int i = 1; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    if (i == 2) rmdir(path);
    else unlink(path);
  }
  rmdir(folder);
}

/* An import is looked for up to the project's top, and not where others put files. */
static void test_imports(void **state) {
  char folder[] = "/tmp/nereid-imports-XXXXXX", path[200];
  assert_non_null(mkdtemp(folder));
  static const char *const folders[] = {"", "/everybody", "/everybody/project", "/everybody/project/src",
                                        "/everybody/project/src/deep"};
  for (size_t i = 0; i < 5; i++) {
    snprintf(path, sizeof path, "%s%s", folder, folders[i]);
    if (i) mkdir(path, 0755);
    if (i == 1) chmod(path, 0777);
    snprintf(path, sizeof path, "%s%s/level%zu.py", folder, folders[i], i);
    write_file(path, "import triton.language as tl\nV = tl.constexpr(3)\n");
  }
  static const bool found[] = {false, false, true, true, true}, found_from_top[] = {false, false, false, true, true};
  for (int marked = 0; marked < 2; marked++) {
    snprintf(path, sizeof path, "%s/everybody/project/src/pyproject.toml", folder);
    if (marked) write_file(path, "");
    for (size_t i = 0; i < 5; i++) {
      char text[400];
      snprintf(text, sizeof text,
               "import triton\nimport triton.language as tl\nfrom level%zu import V\n%s  tl.store(out, V)\n", i, head);
      snprintf(path, sizeof path, "%s/everybody/project/src/deep/k.py", folder);
      nereid_module *m = NULL;
      char *shown = NULL;
      nereid_error *error = NULL;
      assert_ok(nereid_module_load_string(path, text, &m, &error));
      nereid_arg args[] = {nereid_pointer(NULL, NEREID_F32), nereid_int(1)};
      bool there = nereid_inspect(m, "k", args, 2, NULL, "tile", NULL, &shown, &error) == NEREID_OK;
      if (there != (marked ? found_from_top[i] : found[i])) fail_msg("level %zu, marked %d: %d", i, marked, there);
      nereid_error_free(error);
      free(shown);
      nereid_module_free(m);
    }
  }
  snprintf(path, sizeof path, "rm -r %s", folder);
  assert_int_equal(system(path), 0);
}

/* A compiler that does not end is over a limit too, not a fault of Nereid. */
static void test_compiler_seconds(void **state) {
  char folder[] = "/tmp/nereid-limits-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/cc", folder);
  FILE *f = fopen(path, "w");
  fprintf(f, "#!/bin/sh\ncase \"$*\" in *--version*) echo cc 13; exit;; esac\nsleep 1000\n");
  fclose(f);
  chmod(path, 0755);
  setenv("NEREID_CC", path, 1);
  setenv("NEREID_COMPILER_SECONDS", "0.2", 1);
  static const char source[] = "import triton\nimport triton.language as tl\n@triton.jit\ndef k(out, n):\n"
                               "  tl.store(out, n * 7 + 12345)\n";
  Try t = {.source = source, .device = "cpu:1", .n = 7};
  attempt(&t);
  assert_int_equal(t.status, NEREID_OVER_LIMIT);
  assert_non_null(strstr(t.message, "was stopped after 0.2 seconds"));
  unsetenv("NEREID_CC");
  unsetenv("NEREID_COMPILER_SECONDS");
  remove(path);
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deep_sources),     cmocka_unit_test(test_much_work), cmocka_unit_test(test_messages),
      cmocka_unit_test(test_reading_limits),   cmocka_unit_test(test_files),     cmocka_unit_test(test_imports),
      cmocka_unit_test(test_compiler_seconds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
