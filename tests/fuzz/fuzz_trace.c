/* libFuzzer target of traces: any file of chunks gets, of each view, its text or a reason.
 *
 * A chunk of a trace carries its hash, which no mutation keeps: the input is what the chunks hold. After the header
 * come the bytes of a chunk, "\xff\xfe\xfd" ends one. */
#define _GNU_SOURCE
#include "prof/prof.h"

#include "check.h"
#include "prof/record/trace_format.h"
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int fd, const void *bytes, size_t n) { CHECK(write(fd, bytes, n) == (ssize_t)n); }

static void put_chunk(int fd, const uint8_t *bytes, size_t n) {
  uint32_t length = (uint32_t)n, magic = TRACE_CHUNK_MAGIC;
  uint64_t hash = hash_bytes(bytes, n, 0);
  put(fd, &magic, 4), put(fd, &length, 4), put(fd, &hash, 8);
  put(fd, bytes, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int (*const views[])(TraceReader *, FILE *, const ViewOptions *, char *) = {
      view_table,  view_tree,  view_hatchet,    view_chrome,    view_html,  view_functions,
      view_folded, view_flame, view_folded_gpu, view_flame_gpu, view_advice};
  int fd = memfd_create("trace", 0);
  CHECK(fd >= 0);
  uint32_t words[] = {TRACE_VERSION, 7};
  put(fd, TRACE_MAGIC, 8), put(fd, words, 8);
  for (size_t at = 0; at < size;) {
    const uint8_t *end = memmem(data + at, size - at, "\xff\xfe\xfd", 3);
    size_t n = end ? (size_t)(end - data) - at : size - at;
    if (n > TRACE_CHUNK) n = TRACE_CHUNK;
    put_chunk(fd, data + at, n);
    at += n + (end ? 3 : 0);
  }
  put_chunk(fd, data, 0);
  char path[40], why[300];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  FILE *out = fopen("/dev/null", "w");
  for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
    const char *reason = NULL;
    TraceReader *r = trace_open(path, &reason, why);
    CHECK(r || reason);
    if (!r) break;
    ViewOptions o = {.json = i % 2, .shapes = true};
    why[0] = 0;
    int failed = views[i](r, out, &o, why);
    CHECK(!failed || why[0]);
    trace_reader_free(r);
  }
  fclose(out);
  close(fd);
  return 0;
}
