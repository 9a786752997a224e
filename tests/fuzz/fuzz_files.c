/* libFuzzer target of what lies in the cache's folder: sealed files, machine code with its figures, NVRTC's results,
 * ceilings, what tuning found; and of the limits' text. A seal carries a hash, which no mutation keeps: the target
 * seals the content itself, and gives it as it is, too. The first byte chooses. */
#define _GNU_SOURCE
#include "measure/ceilings_file.c" /* read_all */
#undef KEY_VERSION
#define key_of ptxas_key_of
#define build_files ptxas_build_files
#define name_of ptxas_name_of
#include "gpu/ptx/ptxas.c" /* unpack */
#undef key_of
#undef name_of
#include "base/store.c" /* seal_add, seal_take */

#include "check.h"
#include "measure/tune.h"
#include "runtime/cuda_c/cuda_c.h"
#include "runtime/runtime.h"
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find_nvrtc(const Buf *content) {
  Context *cx = context_create();
  int fd = memfd_create("nvrtc", 0);
  CHECK(cx && fd >= 0 && write(fd, content->at ? content->at : "", content->n) == (ssize_t)content->n);
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  NvrtcResult r = {0};
  if (context_try(cx)) {
    if (nvrtc_find(cx, path, &r)) CHECK(r.ptx && r.lowered && strlen(r.ptx) + strlen(r.lowered) <= content->n);
    context_end_try(cx);
  }
  context_destroy(cx);
  close(fd);
}

static void read_cubin(Buf *content) {
  GpuCubin c = {0};
  if (!seal_take(content, "entry") || !unpack(content, &c)) return;
  CHECK(c.bytes && c.log && c.size <= content->n && strlen(c.log) <= content->n);
  gpu_cubin_free(&c);
}

static void read_tuned(const char *text) {
  Found f = {0};
  buf_puts(&f.text, text);
  if (f.text.at && found_parse(&f))
    for (int i = 0; i < f.chosen.count; i++) CHECK(f.chosen.names[i][0] && f.chosen.texts[i]);
  found_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  Buf content = {0};
  buf_write(&content, data + 1, size - 1);
  char *text = strndup((const char *)data + 1, size - 1);
  CHECK(text && !content.failed);
  nereid_ceilings *c = calloc(1, sizeof *c);
  nereid_limits limits;
  nereid_error *error = NULL;
  switch (data[0] % 6) {
    case 0: read_all(c, text); break;
    case 1: seal_add(&content, "entry"); /* fall through */
    case 2: read_cubin(&content); break;
    case 3: seal_add(&content, "entry"), find_nvrtc(&content); break;
    case 4: read_tuned(text); break;
    default:
      if (nereid_limits_read(text, &limits, &error)) CHECK(error);
      nereid_error_free(error);
  }
  free(c);
  free(text);
  buf_destroy(&content);
  return 0;
}
