/* libFuzzer target of all compilers, from source: any text gets, for every device and several GPUs, a result or one
 * error that says why; what compiles runs on `interp` and `sim`, within limits.
 *
 * The first line says how the kernels' parameters are filled, a letter each: "#pni3" is pointer, int, ..., see
 * argument(). A text without such a line gets pointers and ints in turn. tests/fuzz/check_fuzzers has the command. */
#include <nereid.h>
#include <stdio.h>

#include "check.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ARGS = 24, MOST_KERNELS = 3, ARRAY = 4096 };
static const nereid_options options = {
    .num_warps = 2,
    .allow_unwritten = true,
    .limits = {.memory_bytes = 256 << 20, .steps = 3000000, .operations = 20000000, .file_bytes = 1 << 20}};

static void drop(void *arg, const char *line) { CHECK(line); }

static nereid_arg argument(char letter, int i, void *array) {
  switch (letter) {
    case 'p': return nereid_pointer(array, NEREID_F32);
    case 'h': return nereid_pointer(array, NEREID_F16);
    case 'b': return nereid_pointer(array, NEREID_BF16);
    case 'j': return nereid_pointer(array, NEREID_I32);
    case 'l': return nereid_pointer(array, NEREID_I64);
    case 'e': return nereid_pointer(array, NEREID_F8E4NV);
    case 'n': return nereid_none();
    case 'f': return nereid_float(0.5);
    case 't': return nereid_bool(true);
    case '1': return nereid_int(1);
    case '3': return nereid_constexpr_int(32);
    case '6': return nereid_constexpr_int(16);
    case '2': return nereid_constexpr_int(2);
    case 's': return nereid_constexpr("'relu'");
    case 'i': return nereid_int(64 + i);
    default: return i % 2 ? nereid_int(16) : nereid_pointer(array, NEREID_F32);
  }
}

/* A call either succeeds or gives an error that can be shown. */
static void judge(nereid_status status, nereid_error *error) {
  CHECK(!status == !error);
  if (error) {
    CHECK(nereid_error_status(error) == status && strlen(nereid_error_text(error)) > 10);
    if (status == NEREID_INTERNAL) fprintf(stderr, "%s", nereid_error_text(error));
    CHECK(status != NEREID_INTERNAL);
  }
  nereid_error_free(error);
}

static void inspect(nereid_module *m, const char *kernel, const nereid_arg *args, int n) {
  static const char *const stages[][2] = {{"tile", NULL},   {"c", NULL},        {"layout", "sm_80"}, {"ptx", "sm_90a"},
                                          {"ptx", "sm_80"}, {"ptx", "sm_100a"}, {"lane", "sm_90a"}};
  nereid_options o = options;
  o.print = drop;
  for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
    char *text = NULL;
    nereid_error *error = NULL;
    nereid_status status = nereid_inspect(m, kernel, args, n, &o, stages[i][0], stages[i][1], &text, &error);
    CHECK(!status == !!text);
    judge(status, error);
    free(text);
  }
}

static void launch(nereid_device *d, nereid_module *m, const char *kernel, const char *letters, int n) {
  nereid_arg args[MOST_ARGS];
  nereid_options o = options;
  o.print = drop;
  void *array = NULL;
  nereid_error *error = NULL;
  if (nereid_alloc(d, ARRAY, &array, NULL)) return;
  for (int i = 0; i < n; i++) args[i] = argument(letters[i], i, array);
  nereid_status status = nereid_launch(d, NULL, m, kernel, (int64_t[]){2, 1, 1}, args, n, &o, &error);
  judge(status, error);
  nereid_free(d, array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static nereid_device *interp, *sim;
  if (!interp) CHECK(!nereid_device_open("interp", &interp, NULL) && !nereid_device_open("sim", &sim, NULL));
  char letters[MOST_ARGS + 1] = "........................";
  char *text = malloc(size + 1);
  CHECK(text);
  memcpy(text, data, size);
  text[size] = 0;
  if (text[0] == '#')
    for (int i = 0; i < MOST_ARGS && text[1 + i] >= ' '; i++) letters[i] = text[1 + i];
  nereid_module *m = NULL;
  nereid_error *error = NULL;
  nereid_status status = nereid_module_load_string("fuzz.py", text, &m, &error);
  judge(status, error);
  for (int k = 0; m && k < nereid_kernel_count(m) && k < MOST_KERNELS; k++) {
    const nereid_kernel_info *info = nereid_kernel_at(m, k);
    int n = info->param_count < MOST_ARGS ? info->param_count : MOST_ARGS;
    static char somewhere[ARRAY];
    nereid_arg args[MOST_ARGS];
    for (int i = 0; i < n; i++) args[i] = argument(letters[i], i, somewhere);
    inspect(m, info->name, args, n);
    launch(interp, m, info->name, letters, n);
    launch(sim, m, info->name, letters, n);
  }
  nereid_module_free(m);
  free(text);
  return 0;
}
