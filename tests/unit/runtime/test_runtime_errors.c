/* Wrong uses of the interface, and the exact text each gets: grids, arguments, files, memory, compilers, cache folders.
 */
#include "unit/runtime/runtime_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Fixture {
  nereid_device *d;
  nereid_module *m;
  float x[64];
  nereid_arg add[5];
} Fixture;

static int setup(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  f->d = kit_device("interp");
  f->m = kit_module();
  nereid_register(f->d, f->x, sizeof f->x, "x", NULL);
  nereid_arg add[] = {nereid_pointer(f->x, NEREID_F32), nereid_pointer(f->x, NEREID_F32),
                      nereid_pointer(f->x, NEREID_F32), nereid_int(64), nereid_constexpr_int(64)};
  memcpy(f->add, add, sizeof add);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  Fixture *f = *state;
  nereid_module_free(f->m);
  nereid_device_close(f->d);
  free(f);
  return 0;
}

#define LAUNCH(kernel, grid, args, n) nereid_launch(f->d, NULL, f->m, kernel, grid, args, n, NULL, &error)
#define ONE ((int64_t[]){1, 1, 1})
#define BAD(call, text) assert_error(call, NEREID_BAD_ARGUMENT, text)

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static void test_device_names(void **state) {
  nereid_device *d = NULL;
  assert_error(nereid_device_open("gpu", &d, &error), NEREID_NO_DEVICE,
               "error: there is no device 'gpu'\n  hint: there are cpu, cpu:THREADS, interp, sim and cuda:N\n");
  static const char *const bad[] = {"0", "-1", "1025", "x", "", "1x", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char name[64], want[256];
    snprintf(name, sizeof name, "cpu:%s", bad[i]);
    snprintf(want, sizeof want,
             "error: device '%s': after the colon stands a number of threads from 1 to 1024\n  hint: cpu alone takes "
             "all processors\n",
             name);
    BAD(nereid_device_open(name, &d, &error), want);
  }
  BAD(nereid_device_open("interp:2", &d, &error),
      "error: device 'interp:2': interp has one thread, and nothing stands after its name\n");
  BAD(nereid_device_open(NULL, &d, &error), "error: nereid_device_open: name is NULL\n");
  BAD(nereid_device_open("cpu", NULL, &error), "error: nereid_device_open: out is NULL\n");
  assert_null(d);
  assert_int_equal(nereid_device_open("gpu", &d, NULL), NEREID_NO_DEVICE); /* nobody wants the text */
}

static void test_memory(void **state) {
  Fixture *f = *state;
  void *p = NULL;
  char byte[16];
  BAD(nereid_alloc(f->d, -1, &p, &error), "error: nereid_alloc: -1 bytes\n");
  BAD(nereid_alloc(NULL, 1, &p, &error), "error: nereid_alloc: the device is NULL\n");
  assert_error(nereid_alloc(f->d, INT64_MAX, &p, &error), NEREID_OUT_OF_MEMORY,
               "error: out of memory: interp has no 9223372036854775807 bytes\n");
  assert_error(nereid_alloc(f->d, (int64_t)1 << 60, &p, &error), NEREID_OUT_OF_MEMORY,
               "error: out of memory: interp has no 1152921504606846976 bytes\n");
  assert_null(p);
  assert_ok(nereid_alloc(f->d, 8, &p, &error));
  BAD(nereid_copy_to_device(f->d, p, byte, 9, &error),
      "error: nereid_copy_to_device: 9 bytes do not fit the 8 that the array has there\n");
  BAD(nereid_copy_to_device(f->d, (char *)p + 4, byte, 5, &error),
      "error: nereid_copy_to_device: 5 bytes do not fit the 4 that the array has there\n");
  BAD(nereid_copy_to_host(f->d, byte, p, -8, &error), "error: nereid_copy_to_host: -8 bytes\n");
  BAD(nereid_copy_to_host(f->d, NULL, p, 8, &error), "error: nereid_copy_to_host: the host's pointer is NULL\n");
  BAD(nereid_copy_to_host(f->d, byte, NULL, 8, &error), "error: nereid_copy_to_host: the device's pointer is NULL\n");
  BAD(nereid_register(f->d, NULL, 8, "x", &error), "error: nereid_register: the pointer is NULL\n");
  BAD(nereid_register(f->d, byte, -8, "x", &error), "error: nereid_register: -8 bytes\n");
  assert_ok(nereid_copy_to_host(f->d, NULL, NULL, 0, &error));
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static void test_modules(void **state) {
  nereid_module *m = NULL;
  assert_error(nereid_module_load("/nonexistent/k.py", &m, &error), NEREID_BAD_FILE,
               "error: cannot read /nonexistent/k.py: No such file or directory\n");
  assert_error(nereid_module_load("/tmp", &m, &error), NEREID_BAD_FILE, "error: cannot read /tmp: Is a directory\n");
  nereid_error *error = NULL;
  assert_int_equal(nereid_module_load_string("bad.py", "x = (1,\n\ndef f(:\n", &m, &error), NEREID_BAD_SOURCE);
  assert_int_equal(strncmp(nereid_error_text(error), "bad.py:", 7), 0);
  const char *file;
  int line, column;
  nereid_error_place(error, &file, &line, &column);
  assert_string_equal(file, "bad.py");
  assert_true(line >= 1 && column >= 1);
  nereid_error_free(error);
  assert_null(m);
  assert_ok(nereid_module_load_string("host.py", "x = 1\n", &m, &error));
  assert_int_equal(nereid_kernel_count(m), 0);
  nereid_module_free(m);
}

static void test_kernel_names(void **state) {
  Fixture *f = *state;
  BAD(LAUNCH("addd", ONE, f->add, 5), "error: kit.py has no kernel 'addd'\n  hint: did you mean 'add'?\n");
  BAD(LAUNCH("matmul", ONE, f->add, 5),
      "error: kit.py has no kernel 'matmul'\n  hint: it has add, scalars, mark, talk, nothing, typed, rows, guess\n");
  BAD(LAUNCH(NULL, ONE, f->add, 5), "error: nereid_launch: the kernel's name is NULL\n");
  BAD(nereid_launch(NULL, NULL, f->m, "add", ONE, f->add, 5, NULL, &error),
      "error: nereid_launch: the device is NULL\n");
  BAD(nereid_launch(f->d, NULL, NULL, "add", ONE, f->add, 5, NULL, &error),
      "error: nereid_launch: the module is NULL\n");
  nereid_device *other = kit_device("interp");
  nereid_stream *stream = NULL;
  assert_ok(nereid_stream_create(other, &stream, &error));
  BAD(nereid_launch(f->d, stream, f->m, "add", ONE, f->add, 5, NULL, &error),
      "error: the stream belongs to another device (interp) than this one (interp)\n  hint: make one for each "
      "device\n");
  nereid_stream_destroy(stream);
  nereid_device_close(other);
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static void test_grids(void **state) {
  Fixture *f = *state;
  BAD(LAUNCH("add", NULL, f->add, 5), "error: the grid is NULL\n");
  BAD(LAUNCH("add", ((int64_t[]){-1, 1, 1}), f->add, 5),
      "error: the grid (-1, 1, 1) has -1 programs along x; 0 to 2147483647 are possible\n");
  BAD(LAUNCH("add", ((int64_t[]){2147483648, 1, 1}), f->add, 5),
      "error: the grid (2147483648, 1, 1) has 2147483648 programs along x; 0 to 2147483647 are possible\n");
  BAD(LAUNCH("add", ((int64_t[]){1, 65536, 1}), f->add, 5),
      "error: the grid (1, 65536, 1) has 65536 programs along y; 0 to 65535 are possible\n  hint: put the largest "
      "dimension first: x may have 2147483647 programs\n");
  BAD(LAUNCH("add", ((int64_t[]){0, 1, 70000}), f->add, 5),
      "error: the grid (0, 1, 70000) has 70000 programs along z; 0 to 65535 are possible\n  hint: put the largest "
      "dimension first: x may have 2147483647 programs\n");
  nereid_options o = {.programs = (int64_t[]){0, 1, 12}, .program_count = 3};
  BAD(nereid_launch(f->d, NULL, f->m, "add", (int64_t[]){3, 4, 1}, f->add, 5, &o, &error),
      "error: options.programs[2] is 12, but the grid (3, 4, 1) has 12 programs\n");
  o = (nereid_options){.program_count = 3};
  BAD(nereid_launch(f->d, NULL, f->m, "add", ONE, f->add, 5, &o, &error),
      "error: program_count is 3, but programs is NULL\n");
  o = (nereid_options){.shared_bytes = -1};
  BAD(nereid_launch(f->d, NULL, f->m, "add", ONE, f->add, 5, &o, &error), "error: shared_bytes is -1, below zero\n");
  o = (nereid_options){.num_warps = 3};
  BAD(nereid_launch(f->d, NULL, f->m, "add", ONE, f->add, 5, &o, &error),
      "error: num_warps is 3; it must be a power of two\n");
  o = (nereid_options){.num_stages = -1};
  BAD(nereid_launch(f->d, NULL, f->m, "add", ONE, f->add, 5, &o, &error),
      "error: num_stages is -1; give 0 for the usual one, or a count up to 1024\n");
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static void test_argument_lists(void **state) {
  Fixture *f = *state;
  nereid_arg more[6];
  memcpy(more, f->add, sizeof f->add);
  more[5] = nereid_int(1);
  BAD(LAUNCH("add", ONE, f->add, 4), "error: parameter 'BLOCK' of kernel 'add' (5 of 5) is missing\n  hint: it is a "
                                     "constexpr: pass a number, or nereid_constexpr with a Python expression\n");
  BAD(LAUNCH("add", ONE, f->add, 2), "error: parameters 'out', 'n', 'BLOCK' of kernel 'add' are missing (3 of 5)\n");
  BAD(LAUNCH("add", ONE, more, 6),
      "error: kernel 'add' takes 5 arguments, but 6 are given\n  hint: its parameters are x, y, out, n, BLOCK\n");
  BAD(LAUNCH("nothing", ONE, more, 1), "error: kernel 'nothing' takes 0 arguments, but 1 are given\n");
  BAD(LAUNCH("add", ONE, NULL, 5), "error: kernel 'add': 5 arguments at NULL\n");
  BAD(LAUNCH("add", ONE, f->add, -1), "error: kernel 'add': -1 arguments at NULL\n");
  more[4] = nereid_named(nereid_int(64), "BLOK");
  BAD(LAUNCH("add", ONE, more, 5), "error: kernel 'add' has no parameter 'BLOK'\n  hint: did you mean 'BLOCK'?\n");
  more[4] = nereid_named(nereid_int(64), "num_elements");
  BAD(LAUNCH("add", ONE, more, 5),
      "error: kernel 'add' has no parameter 'num_elements'\n  hint: its parameters are x, y, out, n, BLOCK\n");
  more[4] = nereid_named(nereid_int(64), "x");
  BAD(LAUNCH("add", ONE, more, 5), "error: parameter 'x' of kernel 'add' is given twice\n");
  more[3] = nereid_named(nereid_int(64), "n");
  more[4] = nereid_int(64);
  BAD(LAUNCH("add", ONE, more, 5),
      "error: argument 4 of kernel 'add' has no name, but follows one that has\n  hint: name it with nereid_named\n");
}

static void test_argument_kinds(void **state) {
  Fixture *f = *state;
  nereid_arg a[5];
#define WITH(i, value) (memcpy(a, f->add, sizeof a), a[i] = value, LAUNCH("add", ONE, a, 5))
  BAD(WITH(4, nereid_pointer(f->x, NEREID_F32)),
      "error: parameter 'BLOCK' of kernel 'add' is a constexpr: its value must be known when the kernel is compiled, "
      "but a pointer is given\n"
      "  hint: pass nereid_constexpr(\"...\") with a Python expression, or a number\n");
  BAD(WITH(0, ((nereid_arg){.kind = 77})), "error: parameter 'x' of kernel 'add' is given an argument of the unknown "
                                           "kind 77\n  hint: build arguments with nereid_pointer, nereid_int, ...\n");
  BAD(WITH(0, nereid_pointer(f->x, (nereid_dtype)99)),
      "error: parameter 'x' of kernel 'add' is given the unknown element type 99\n");
  BAD(WITH(3, ((nereid_arg){.kind = NEREID_ARG_FLOAT, .has_dtype = true, .dtype = NEREID_I32})),
      "error: parameter 'n' of kernel 'add' is given a float that is to be of type i32\n");
  BAD(WITH(3, ((nereid_arg){.kind = NEREID_ARG_INT, .i = 300, .has_dtype = true, .dtype = NEREID_I8})),
      "error: parameter 'n' of kernel 'add' is 300 which does not fit its type i8\n");
  BAD(WITH(3, ((nereid_arg){.kind = NEREID_ARG_INT, .i = -1, .has_dtype = true, .dtype = NEREID_U32})),
      "error: parameter 'n' of kernel 'add' is -1 which does not fit its type u32\n");
  BAD(WITH(3, ((nereid_arg){.kind = NEREID_ARG_TUPLE, .item_count = 2})),
      "error: parameter 'n' of kernel 'add' is given a tuple without items\n");
  nereid_arg nested[6];
  for (int i = 0; i < 6; i++)
    nested[i] = i ? (nereid_arg){.kind = NEREID_ARG_TUPLE, .item_count = 1, .items = &nested[i - 1]} : nereid_int(3);
  BAD(WITH(3, nested[5]),
      "error: item 0 of parameter 'n' of kernel 'add' is given tuples nested deeper than four levels\n");

  BAD(WITH(4, nested[5]), "error: parameter 'BLOCK' of kernel 'add' is a constexpr: its value must be known when the "
                          "kernel is compiled, but a tuple is given\n"
                          "  hint: pass nereid_constexpr(\"...\") with a Python expression, or a number\n");

  nereid_arg typed[] = {nereid_pointer(f->x, NEREID_F16), nereid_float(1), nereid_int(1)};
  assert_ok(LAUNCH("typed", ONE, typed, 3));
  typed[1] = nereid_int(1); /* becomes a float */
  assert_ok(LAUNCH("typed", ONE, typed, 3));
  typed[0] = nereid_int(1);
  BAD(LAUNCH("typed", ONE, typed, 3),
      "error: parameter 'p' of kernel 'typed' is annotated *f16, but an integer is given\n");
  typed[0] = nereid_pointer(f->x, NEREID_F16);
  typed[2] = nereid_float(1);
  BAD(LAUNCH("typed", ONE, typed, 3), "error: parameter 'i' of kernel 'typed' is annotated i8, but a float is given\n");
  typed[2] = nereid_int(128);
  BAD(LAUNCH("typed", ONE, typed, 3), "error: parameter 'i' of kernel 'typed' is 128 which does not fit its type i8\n");
}

static void test_descriptors(void **state) {
  Fixture *f = *state;
  /* clang-format off */
  const nereid_arg good = {.kind = NEREID_ARG_DESCRIPTOR, .dtype = NEREID_F32,
    .pointer = (void *)(((uintptr_t)f->x + 15) & ~(uintptr_t)15), .rank = 2,
                           .shape = {6, 8}, .strides = {8, 1}, .block_shape = {4, 8}};
  /* clang-format on */
  nereid_arg args[] = {good, nereid_pointer(f->x, NEREID_F32)};
#define DESC "error: parameter 'd' of kernel 'rows' is given a tensor descriptor "
  args[0].rank = 6;
  BAD(LAUNCH("rows", ONE, args, 2), DESC "of rank 6; 1 to 5 are possible\n");
  args[0] = good, args[0].pointer = (char *)good.pointer + 4;
  BAD(LAUNCH("rows", ONE, args, 2), DESC "whose base is not aligned to 16 bytes\n");
  args[0] = good, args[0].strides[1] = 2;
  BAD(LAUNCH("rows", ONE, args, 2),
      DESC "whose last stride is 2; it must be 1\n  hint: copy the array so that its last dimension is contiguous\n");
  args[0] = good, args[0].strides[0] = 7;
  BAD(LAUNCH("rows", ONE, args, 2), DESC "whose stride 0 is 7 elements, which is not a multiple of 16 bytes\n");
  args[0] = good, args[0].shape[0] = 0;
  BAD(LAUNCH("rows", ONE, args, 2), DESC "whose dimension 0 is 0; 1 to 2147483647 are possible\n");
  args[0] = good, args[0].block_shape[1] = 6;
  BAD(LAUNCH("rows", ONE, args, 2), DESC "whose block shape 1 is 6; it must be a power of two\n");
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void test_faults(void **state) {
  Fixture *f = *state;
  nereid_error *error = NULL;
  f->add[3] = nereid_int(65);
  f->add[4] = nereid_int(128);
  assert_int_equal(LAUNCH("add", ONE, f->add, 5), NEREID_KERNEL_FAULT);
  const char *file;
  int line, column;
  nereid_error_place(error, &file, &line, &column);
  assert_string_equal(file, "kit.py");
  assert_int_equal(line, 8);
  assert_non_null(strstr(nereid_error_message(error), "element 64 reads"));
  assert_non_null(strstr(nereid_error_message(error), ", in program (0, 0, 0)"));
  nereid_error_free(error);
}

static bool never(void *arg, nereid_step *s, const char *file, int line, const int32_t program[3]) { return false; }

static void test_stepping(void **state) {
  nereid_device *d = kit_device("cpu:1");
  nereid_module *m = kit_module();
  assert_error(
      nereid_launch_stepped(d, m, "nothing", ONE, NULL, 0, NULL, never, NULL, &error), NEREID_UNSUPPORTED,
      "error: device 'cpu:1' cannot be stepped through; the interpreter can\n  hint: open the device \"interp\"\n");
  BAD(nereid_launch_stepped(d, m, "nothing", ONE, NULL, 0, NULL, NULL, NULL, &error),
      "error: nereid_launch_stepped: the function is NULL\n");
  nereid_module_free(m);
  nereid_device_close(d);
}

static void test_inspection(void **state) {
  Fixture *f = *state;
  char *text = NULL;
  nereid_options o = {.dump_after = "foldd"};
  BAD(nereid_inspect(f->m, "add", f->add, 5, NULL, "ptxx", NULL, &text, &error),
      "error: there is no stage 'ptxx'\n  hint: there are ast, tile-raw, tile and c; for a GPU layout, lane, ptx, sass "
      "and summary\n");
  assert_error(nereid_inspect(f->m, "add", f->add, 5, NULL, "tile", "sm_1", &text, &error), NEREID_NO_DEVICE,
               "error: there is no target 'sm_1'\n  hint: there are host, cpu and interp; for GPUs sm_80, sm_86, "
               "sm_87, sm_89, sm_90a, sm_100a, sm_103a, sm_110a, sm_120a, sm_121a\n");
  nereid_error *error = NULL;
  assert_int_equal(nereid_inspect(f->m, "add", f->add, 5, &o, "tile", NULL, &text, &error), NEREID_BAD_ARGUMENT);
  assert_string_equal(nereid_error_message(error), "there is no pass 'foldd'");
  nereid_error_free(error);
  assert_null(text);
}

static void test_eval(void **state) {
  int64_t v = 42;
  static const char *const bad[] = {"", "n +", "cdiv(m, 2)", "1 / 0", "'text'", "n.x", "__import__('os')"};
  const char *names[] = {"n"};
  double values[] = {3};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    nereid_error *error = NULL;
    assert_int_equal(nereid_eval(bad[i], 1, names, values, &v, &error), NEREID_BAD_ARGUMENT);
    assert_non_null(error);
    nereid_error_free(error);
  }
  assert_int_equal(v, 42);
  BAD(nereid_eval(NULL, 0, NULL, NULL, &v, &error), "error: nereid_eval: the expression is NULL\n");
  BAD(nereid_eval("n", 1, NULL, NULL, &v, &error), "error: nereid_eval: 1 names at NULL\n");
}

/* ---- the C compiler and its cache -------------------------------------------------------------------------------- */

/* Runs fn in a child process, whose environment and limits it may change. Returns its exit status. */
static int in_child(int (*fn)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(fn());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Launches `add` on cpu; 0 when that went well and gave the right sums, else the status, after comparing the error's
 * text. */
static int launch_add(const char *want) {
  nereid_device *d = NULL;
  nereid_module *m = NULL;
  nereid_error *error = NULL;
  float x[64], out[64];
  for (int i = 0; i < 64; i++) x[i] = (float)i;
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32), nereid_pointer(out, NEREID_F32),
                       nereid_int(64), nereid_int(64)};
  Lines lines = {.n = 0};
  nereid_options quiet = {.print = lines_print, .print_arg = &lines};
  nereid_status s = nereid_device_open("cpu:2", &d, &error);
  if (!s) s = nereid_module_load_string("kit.py", kernels_text, &m, &error);
  if (!s) s = nereid_launch(d, NULL, m, "add", (int64_t[]){1, 1, 1}, args, 5, &quiet, &error);
  if (!s)
    for (int i = 0; i < 64; i++)
      if (out[i] != 2 * x[i]) s = 99;
  if (want && strcmp(nereid_error_text(error), want))
    fprintf(stderr, "got:  %swant: %s", nereid_error_text(error), want), s = 98;
  else if (!want && error) fputs(nereid_error_text(error), stderr);
  nereid_error_free(error);
  nereid_module_free(m);
  nereid_device_close(d);
  return (int)s;
}

static char folder[64]; /* of the test's files */

static const char *path_in(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int no_compiler(void) {
  setenv("NEREID_CACHE_DIR", path_in("empty"), 1);
  unsetenv("NEREID_CC");
  setenv("PATH", "/nonexistent", 1);
  return launch_add("error: no C compiler was found: neither cc, gcc nor clang is in PATH\n"
                    "  hint: install gcc or clang (Debian, Ubuntu: apt install gcc), or set NEREID_CC; without one, "
                    "the device `interp` runs kernels slowly\n");
}

static int wrong_compiler(void) {
  setenv("NEREID_CACHE_DIR", path_in("empty"), 1);
  setenv("NEREID_CC", "no-such-cc -O2", 1);
  return launch_add("error: the C compiler that NEREID_CC names, `no-such-cc -O2`, was not found\n  hint: set "
                    "NEREID_CC to a gcc or clang, a path with a space in quotes, or unset it\n");
}

static int fresh_cache(void) { return setenv("NEREID_CACHE_DIR", path_in("cache"), 1), launch_add(NULL); }

static int read_only_cache(void) { /* root may write anywhere: a file in the folder's place is as bad */
  FILE *f = fopen(path_in("file"), "w");
  if (f) fclose(f);
  setenv("NEREID_CACHE_DIR", path_in("file"), 1);
  return launch_add(NULL);
}

static int no_place(void) {
  setenv("NEREID_CACHE_DIR", "/proc/nereid", 1);
  setenv("TMPDIR", "/nonexistent", 1);
  return launch_add("error: there is no place to compile in: neither the cache folder nor /nonexistent can be "
                    "written (No such file or directory)\n"
                    "  hint: set TMPDIR to a folder that can be written\n");
}

/* Cuts every object of the cache in half, then overwrites the middle of every one. */
static int damaged_cache(void) {
  char command[300];
  for (int turn = 0; turn < 2; turn++) {
    if (fresh_cache()) return 97;
    snprintf(command, sizeof command, "for f in %s/cpu/*; do %s; done", path_in("cache"),
             turn ? "printf damaged | dd of=$f bs=1 seek=5000 conv=notrunc status=none" : "truncate -s 4000 $f");
    if (system(command) != 0) return 96;
    int s = launch_add(NULL);
    if (s) return s;
  }
  return 0;
}

static void test_compiler_and_cache(void **state) {
  assert_int_equal(in_child(no_compiler), NEREID_NO_COMPILER);
  assert_int_equal(in_child(wrong_compiler), NEREID_NO_COMPILER);
  assert_int_equal(in_child(fresh_cache), NEREID_OK);
  assert_int_equal(in_child(fresh_cache), NEREID_OK);
  assert_int_equal(in_child(read_only_cache), NEREID_OK);
  assert_int_equal(in_child(no_place), NEREID_BAD_FILE);
  assert_int_equal(in_child(damaged_cache), NEREID_OK);
}

/* ---- memory runs out --------------------------------------------------------------------------------------------- */

/* Under every limit from hardly any memory to enough, each call fails cleanly or works. */
static int little_memory(void) {
  int worked = 0, failed = 0;
  long page = sysconf(_SC_PAGESIZE), used = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (!statm || fscanf(statm, "%ld", &used) != 1) return 97;
  fclose(statm);
  for (long extra = 0; extra < 600; extra += 7) {
    struct rlimit limit = {(rlim_t)((used + extra) * page), RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit)) return 96;
    nereid_device *d = NULL;
    nereid_module *m = NULL;
    nereid_error *error = NULL;
    nereid_function *f = NULL;
    void *p = NULL;
    float x[64] = {0};
    Lines lines = {.n = 0};
    nereid_options quiet = {.print = lines_print, .print_arg = &lines};
    nereid_status s = nereid_device_open("interp", &d, &error);
    if (!s) s = nereid_module_load_string("kit.py", kernels_text, &m, &error);
    if (!s) s = nereid_register(d, x, sizeof x, "x", &error);
    if (!s) s = nereid_alloc(d, 300000, &p, &error);
    nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32),
                         nereid_int(64), nereid_int(64)};
    if (!s) s = nereid_compile(d, m, "add", args, 5, &quiet, &f, &error);
    if (!s) s = nereid_run(f, NULL, (int64_t[]){1, 1, 1}, args, 5, &error);
    if (s && (s != NEREID_OUT_OF_MEMORY || !strstr(nereid_error_text(error), "out of memory"))) {
      fprintf(stderr, "with %ld pages: %d %s", extra, (int)s, nereid_error_text(error));
      return 95;
    }
    worked += !s;
    failed += s != 0;
    nereid_error_free(error);
    nereid_function_free(f);
    nereid_module_free(m);
    nereid_device_close(d);
  }
  return worked && failed ? 0 : 94;
}

#if defined(__has_feature)
#define CLANG_HAS(x) __has_feature(x)
#else
#define CLANG_HAS(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || CLANG_HAS(address_sanitizer) || \
    CLANG_HAS(thread_sanitizer)
enum { SANITIZED = 1 };
NEREID_API const char *__asan_default_options(void);                               /* visible to the sanitizer */
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; } /* as malloc does */
NEREID_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }
#else
enum { SANITIZED = 0 };
#endif

static void test_out_of_memory(void **state) {
  if (SANITIZED) skip(); /* a sanitizer needs terabytes of addresses */
  assert_int_equal(in_child(little_memory), 0);
}

/* ---- .npy files -------------------------------------------------------------------------------------------------- */

static const char *write_file(const char *name, const void *bytes, size_t n) {
  FILE *f = fopen(path_in(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
  return path_in(name);
}

/* A file with this header (format 1) and n bytes of data. */
static const char *npy(const char *header, size_t n) {
  static char file[1 << 16];
  size_t h = strlen(header);
  memset(file, 0, sizeof file);
  memcpy(file, "\x93NUMPY\x01\x00", 8);
  file[8] = (char)(h & 255);
  file[9] = (char)(h >> 8);
  memcpy(file + 10, header, h);
  return write_file("a.npy", file, 10 + h + n);
}

static void expect_status(nereid_status status, nereid_error **error, nereid_status want, const char *why) {
  assert_int_equal(status, want);
  assert_non_null(strstr(nereid_error_text(*error), why));
  nereid_error_free(*error);
  *error = NULL;
}

/* Complex numbers are pairs, for who takes such. */
static void test_npy_pairs(void **state) {
  (void)state;
  nereid_error *e = NULL;
  nereid_array a = {0};
  bool is_complex = false;
  static const char two[] = "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }";
  static const char plain[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
  static const char rank[] = "{'descr': '<c16', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1), }";
  expect_status(nereid_npy_read(npy(two, 16), &a, &e), &e, NEREID_BAD_FILE, "complex numbers ('<c8')");
  expect_status(nereid_npy_read_pairs(npy(rank, 16), &a, &is_complex, &e), &e, NEREID_BAD_FILE, "7 dimensions");
  expect_status(nereid_npy_read_pairs(npy(two, 15), &a, &is_complex, &e), &e, NEREID_BAD_FILE, "truncated");
  assert_ok(nereid_npy_read_pairs(npy(plain, 16), &a, &is_complex, &error));
  assert_true(!is_complex && a.rank == 1 && a.bytes == 16);
  expect_status(nereid_npy_write_pairs("b.npy", &a, &e), &e, NEREID_BAD_ARGUMENT, "pairs of f32 or f64");
  nereid_array_free(&a);
  assert_ok(nereid_npy_read_pairs(npy(two, 16), &a, &is_complex, &error));
  assert_true(is_complex && a.dtype == NEREID_F32 && a.rank == 2 && a.shape[0] == 2 && a.shape[1] == 2);
  memcpy(a.data, (float[]){1, 2, 3, 4}, 16);
  assert_ok(nereid_npy_write_pairs(path_in("pairs.npy"), &a, &error));
  nereid_array_free(&a);
  assert_ok(nereid_npy_read_pairs(path_in("pairs.npy"), &a, &is_complex, &error));
  assert_true(is_complex && a.rank == 2 && ((float *)a.data)[3] == 4);
  nereid_array_free(&a);
}

static void expect_npy(const char *path, const char *why) {
  nereid_array a;
  memset(&a, 0x5a, sizeof a);
  nereid_array before = a;
  char want[700];
  snprintf(want, sizeof want, "error: %s: %s", path, why);
  assert_error(nereid_npy_read(path, &a, &error), NEREID_BAD_FILE, want);
  assert_memory_equal(&a, &before, sizeof a);
}

static void test_npy_bad(void **state) {
#define DICT(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }    \n"
#define TYPES "  hint: there are b1, i1 to i8, u1 to u8, f2, f4, f8, and V2 for bfloat16\n"
#define NO_DICT "its header is no dict of descr, fortran_order and shape\n"
  nereid_array a;
  assert_error(nereid_npy_read("/nonexistent.npy", &a, &error), NEREID_BAD_FILE,
               "error: cannot read /nonexistent.npy: No such file or directory\n");
  assert_error(nereid_npy_read("/tmp", &a, &error), NEREID_BAD_FILE, "error: cannot read /tmp: Is a directory\n");
  expect_npy(write_file("a.npy", "", 0), "it is no .npy file\n");
  expect_npy(write_file("a.npy", "PK\3\4whatever", 12), "it is no .npy file\n");
  expect_npy(write_file("a.npy", "\x93NUMPY\x04\x00\x10\x00", 10),
             "it has the NumPy format 4.0; 1.0 to 3.0 can be read\n");
  expect_npy(write_file("a.npy", "\x93NUMPY\x01\x00\x10", 9), "it is truncated in its header\n");
  expect_npy(write_file("a.npy", "\x93NUMPY\x01\x00\x10\x00{'des", 15), "it is truncated in its header\n");
  expect_npy(write_file("a.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13),
             "its header has 4294967295 bytes, more than any array needs\n");
  expect_npy(npy(DICT("<f4", "False", "(3, 4)"), 47), "it is truncated: 47 bytes of data instead of 48\n");
  expect_npy(
      npy(DICT(">f4", "False", "(3, 4)"), 48),
      "it is big-endian ('>f4'); little-endian is wanted\n  hint: in NumPy: a.astype(a.dtype.newbyteorder('<'))\n");
  expect_npy(npy(DICT("<f4", "True", "(3, 4)"), 48),
             "it is in Fortran order; row-major (C) order is wanted\n  hint: in NumPy: numpy.ascontiguousarray(a)\n");
  expect_npy(npy(DICT("|O", "False", "(3,)"), 48), "its elements are Python objects ('|O')\n" TYPES);
  expect_npy(npy(DICT("<c8", "False", "(3,)"), 48), "its elements are complex numbers ('<c8')\n" TYPES);
  expect_npy(npy(DICT("<U7", "False", "(3,)"), 48), "its elements are strings ('<U7')\n" TYPES);
  expect_npy(npy(DICT("<f16", "False", "(3,)"), 48), "its element type '<f16' is none of a kernel's\n" TYPES);
  expect_npy(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }\n", 12),
             "its elements are records; an array of one number type is wanted\n");
  expect_npy(npy(DICT("<f4", "False", "(9223372036854775807, 9223372036854775807)"), 0),
             "its shape is larger than any memory\n");
  expect_npy(npy(DICT("<f4", "False", "(4611686018427387904, 2)"), 0), "its shape is larger than any memory\n");
  expect_npy(npy(DICT("<f4", "False", "(1099511627776,)"), 16),
             "it is truncated: 16 bytes of data instead of 4398046511104\n");
  expect_npy(npy(DICT("<f4", "False", "(99999999999999999999,)"), 0), "its shape has a size beyond 64 bits\n");
  expect_npy(npy(DICT("<f4", "False", "(-1,)"), 0), "its shape has a negative size\n");
  expect_npy(npy(DICT("<f4", "False", "(1,1,1,1,1,1,1,1,1)"), 4), "it has more than 8 dimensions\n");
  static const char *const no_dicts[] = {"",
                                         "x",
                                         "{",
                                         "{}",
                                         "{'descr': '<f4'}",
                                         "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
                                         "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
                                         "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
                                         "{'descr': '<f4', 'fortran_order': False, 'shape': (3",
                                         "{'descr': '<f4",
                                         "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
                                         "{'descr': '<f4', 'fortran_order': Falsetto, 'shape': (3,)}",
                                         "{'shape': (os.system('ls'),)}"};
  for (size_t i = 0; i < sizeof no_dicts / sizeof no_dicts[0]; i++) {
    if (i == 9) expect_npy(npy(no_dicts[i], 12), "its elements are records; an array of one number type is wanted\n");
    else expect_npy(npy(no_dicts[i], 12), NO_DICT);
  }
  assert_error(nereid_npy_read(NULL, &a, &error), NEREID_BAD_ARGUMENT, "error: nereid_npy_read: path is NULL\n");
}

/* Only regular files are read: a pipe may never end. */
static void test_npy_pipe(void **state) {
  char path[160];
  snprintf(path, sizeof path, "%s", path_in("pipe"));
  assert_int_equal(mkfifo(path, 0600), 0);
  nereid_array a;
  nereid_error *why = NULL;
  assert_int_equal(nereid_npy_read(path, &a, &why), NEREID_BAD_FILE);
  assert_non_null(strstr(nereid_error_text(why), "it is not a regular file"));
  nereid_error_free(why);
}

static void test_npy_round_trip(void **state) {
  static const nereid_dtype back[] = {NEREID_I1,  NEREID_I8,  NEREID_I16, NEREID_I32, NEREID_I64, NEREID_U8,
                                      NEREID_U16, NEREID_U32, NEREID_U64, NEREID_U8,  NEREID_U8,  NEREID_U8,
                                      NEREID_U8,  NEREID_U8,  NEREID_F16, NEREID_U16, NEREID_F32, NEREID_F64};
  unsigned char data[8 * 24];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37);
  for (int t = 0; t <= NEREID_F64; t++)
    for (int rank = 0; rank <= 8; rank += rank == 3 ? 5 : 1) {
      nereid_array a = {.dtype = (nereid_dtype)t, .rank = rank, .shape = {2, 3, 4, 1, 1, 1, 1, 1}, .data = data}, b;
      a.bytes = (int64_t)nereid_dtype_bytes(a.dtype);
      for (int i = 0; i < rank; i++) a.bytes *= a.shape[i];
      assert_ok(nereid_npy_write(path_in("b.npy"), &a, &error));
      assert_ok(nereid_npy_read(path_in("b.npy"), &b, &error));
      assert_int_equal(b.dtype, back[t]);
      assert_int_equal(b.rank, rank);
      assert_int_equal(b.bytes, a.bytes);
      for (int i = 0; i < rank; i++) assert_int_equal(b.shape[i], a.shape[i]);
      assert_memory_equal(b.data, data, (size_t)a.bytes);
      nereid_array_free(&b);
    }
  nereid_array empty = {.dtype = NEREID_F32, .rank = 2, .shape = {0, (int64_t)1 << 62}}, b;
  assert_ok(nereid_npy_write(path_in("b.npy"), &empty, &error));
  assert_ok(nereid_npy_read(path_in("b.npy"), &b, &error));
  assert_int_equal(b.bytes, 0);
  assert_non_null(b.data);
  nereid_array_free(&b);
  nereid_array_free(&b);
  nereid_array_free(NULL);
  assert_ok(nereid_npy_read(npy(DICT("<V2", "False", "(3, )"), 6), &b, &error)); /* bfloat16 by ml_dtypes */
  assert_int_equal(b.dtype, NEREID_BF16);
  nereid_array_free(&b);
  assert_ok(nereid_npy_read(npy("{\"shape\": (3L,), 'fortran_order': True, 'descr': '|u1'}", 6), &b, &error));
  assert_int_equal(b.bytes, 3);
  nereid_array_free(&b);
}

static void test_npy_write_bad(void **state) {
  float x[4] = {0};
  nereid_array a = {.dtype = NEREID_F32, .rank = 1, .shape = {4}, .bytes = 16, .data = x};
  assert_error(nereid_npy_write("/nonexistent/a.npy", &a, &error), NEREID_BAD_FILE,
               "error: cannot write /nonexistent/a.npy: No such file or directory\n");
  a.bytes = 15;
  BAD(nereid_npy_write(path_in("c.npy"), &a, &error),
      "error: nereid_npy_write: the array's bytes (15) are not those of its shape\n");
  a.rank = 9;
  BAD(nereid_npy_write(path_in("c.npy"), &a, &error), "error: nereid_npy_write: rank 9; 0 to 8 are possible\n");
  a.rank = 1, a.shape[0] = -4;
  BAD(nereid_npy_write(path_in("c.npy"), &a, &error), "error: nereid_npy_write: dimension 0 is -4\n");
  a.shape[0] = 4, a.bytes = 16, a.data = NULL;
  BAD(nereid_npy_write(path_in("c.npy"), &a, &error), "error: nereid_npy_write: the array's data is NULL\n");
  assert_int_equal(access(path_in("c.npy"), F_OK), -1);
}

static int make_folder(void **state) {
  snprintf(folder, sizeof folder, "/tmp/nereid-test-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(void) {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_device_names),       TEST(test_memory),        TEST(test_modules),
      TEST(test_kernel_names),       TEST(test_grids),         TEST(test_argument_lists),
      TEST(test_argument_kinds),     TEST(test_descriptors),   TEST(test_faults),
      TEST(test_stepping),           TEST(test_inspection),    TEST(test_eval),
      TEST(test_compiler_and_cache), TEST(test_out_of_memory), TEST(test_npy_bad),
      TEST(test_npy_pairs),          TEST(test_npy_pipe),      TEST(test_npy_round_trip),
      TEST(test_npy_write_bad),
  };
  return cmocka_run_group_tests_name("runtime errors", tests, make_folder, remove_folder);
}
