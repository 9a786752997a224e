/* The machine code of a cubin as text, by the tools of the CUDA toolkit: nvdisasm, which shows source lines beside the instructions, else
 * cuobjdump. Both are looked for in PATH and where the toolkit installs itself.
 */
#define _GNU_SOURCE
#include "gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const files[] = {"kernel.cubin", NULL};

static const char *find_tool(Context *cx, const char *name) {
  const char *path = find_program(cx->arena, name);
  if (path) return path;
  path = arena_printf(cx->arena, "/usr/local/cuda/bin/%s", name);
  return access(path, X_OK) == 0 ? path : NULL;
}

void gpu_sass(Context *cx, const GpuCubin *c, Buf *out) {
  const char *nvdisasm = find_tool(cx, "nvdisasm"), *cuobjdump = find_tool(cx, "cuobjdump");
  if (!nvdisasm && !cuobjdump)
    fail_hint(cx, (Span){0}, "install CUDA's package cuda-nvdisasm or cuda-cuobjdump; the stage ptx needs neither",
              "no disassembler was found: neither nvdisasm nor cuobjdump is in PATH or /usr/local/cuda/bin");
  const char *temporary = getenv("TMPDIR");
  if (!temporary || !*temporary) temporary = "/tmp";
  char *folder = folder_private(cx, temporary);
  char *path = folder ? arena_printf(cx->arena, "%s/kernel.cubin", folder) : NULL;
  if (!folder || !file_write_new(path, c->bytes, c->size)) {
    int error = errno;
    if (folder) folder_remove(folder, files);
    fail_hint(cx, (Span){0}, "set TMPDIR to a folder that can be written", "the cubin cannot be written to %s: %s", temporary, strerror(error));
  }
  const char *lines[] = {nvdisasm, "-g", "-c", path, NULL}, *plain[] = {cuobjdump, "-sass", path, NULL};
  Buf said = {0};
  int status = process_run(nvdisasm ? lines : plain, &said);
  int error = errno;
  folder_remove(folder, files);
  const char *tool = nvdisasm ? nvdisasm : cuobjdump;
  if (status == 0) {
    buf_write(out, said.at ? said.at : "", said.n);
    if (said.failed) out->failed = true;
    buf_destroy(&said);
    return;
  }
  const char *words = status < 0 ? arena_strdup(cx->arena, strerror(error)) : arena_strndup(cx->arena, said.at ? said.at : "", said.n > 2000 ? 2000 : said.n);
  buf_destroy(&said);
  if (status < 0) fail(cx, (Span){0}, "%s could not be started: %s", tool, words);
  fail(cx, (Span){0}, "%s failed on the cubin with status %d:\n%s", tool, status, words);
}
