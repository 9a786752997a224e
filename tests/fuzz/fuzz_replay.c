/* libFuzzer target of JSON: a recorded launch a line, as `nereid replay --compile-only` takes it, and the whole as what
 * `nereid bench --against` compares with. The kernels are those of NEREID_FUZZ_ROOT (default kernels). */
#define _GNU_SOURCE
#include "cli/bench.h"
#include "cli/replay.h"

#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *nowhere(void) {
  static FILE *f;
  if (!f) f = fopen("/dev/null", "w");
  CHECK(f);
  return f;
}

static void replay_lines(char *text) {
  static nereid_device *interp;
  if (!interp) CHECK(!nereid_device_open("interp", &interp, NULL));
  const char *root = getenv("NEREID_FUZZ_ROOT");
  ReplayOptions o = {.root = root ? root : "kernels", .device = "interp", .compile_only = true, .max_programs = 2};
  Replayer r = {.options = &o, .device = interp, .interp = interp};
  int64_t number = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    const char *why = NULL;
    Json *j = json_parse(line, &why);
    CHECK(!j == !!why);
    if (j) replay_row(&r, j, ++number, nowhere());
    json_free(j);
  }
}

static void compare(const uint8_t *data, size_t size) {
  int fd = memfd_create("saved", 0);
  CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  Row row = {.label = (char *)"add", .size = (char *)"n=1024"};
  row.result.device.count = 1, row.result.device.median = 1000;
  Table t = {.rows = &row, .n = 1, .title = "add", .device = "cpu"};
  FILE *terminal = stderr;
  stderr = nowhere();
  table_compare(&t, 1, path);
  stderr = terminal;
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  CHECK(text);
  memcpy(text, data, size);
  text[size] = 0;
  compare(data, size);
  replay_lines(text);
  free(text);
  return 0;
}
