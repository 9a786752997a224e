/* libFuzzer target of the command line: the first line is a grid, each further one a word, ARG=SPEC or an option. Any
 * words get a launch's arguments and grid, or an exit status. Arrays are described, not made. */
#include "cli/cli.h"

#include "check.h"
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char kernel[] = "import triton\nimport triton.language as tl\n@triton.jit\n"
                             "def k(x, y, out, n, scale, B: tl.constexpr):\n"
                             "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
                             "    tl.store(out + i, tl.load(x + i) * scale, mask=i < n)\n";
static const char file[] = "fuzz_spec.py";

static int no_option(void *arg, int argc, char **argv) { return 0; }

static void run(int argc, char **argv, const char *grid) {
  static const Verb verb = {.name = "run", .synopsis = "run FILE"};
  Launch l = {.shapes_only = true};
  int64_t programs[3], value;
  char *text = NULL;
  int status = launch_parse(&l, &verb, argc, argv, no_option, NULL);
  if (!status) status = launch_make_args(&l);
  if (!status) {
    nereid_arg *list = launch_arg_list(&l);
    CHECK(list);
    free(list);
    launch_grid(&l, grid, programs);
    launch_eval(&l, grid, &value);
    if (!launch_grid_text(&l, grid, &text)) CHECK(text);
    free(text);
  }
  CHECK(status >= 0 && status <= 2);
  launch_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static FILE *nowhere;
  if (!nowhere) {
    FILE *f = fopen(file, "w");
    nowhere = fopen("/dev/null", "w");
    CHECK(f && nowhere);
    fputs(kernel, f);
    fclose(f);
  }
  enum { MOST = 24 };
  char *text = malloc(size + 1), *argv[MOST + 3] = {(char *)"run", (char *)file};
  CHECK(text);
  memcpy(text, data, size);
  text[size] = 0;
  char *at = strchr(text, '\n');
  if (at) *at++ = 0;
  int argc = 2;
  while (at && argc < MOST) {
    argv[argc++] = at;
    at = strchr(at, '\n');
    if (at) *at++ = 0;
  }
  FILE *terminal = stderr;
  stderr = nowhere;
  run(argc, argv, text);
  stderr = terminal;
  free(text);
  return 0;
}
