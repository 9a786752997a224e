/* The machine code of a cubin as text, by the tools of the CUDA toolkit: nvdisasm, which shows source lines beside the
 * instructions, else cuobjdump. Both are looked for in PATH and where the toolkit installs itself.
 *
 *     //## File "softmax.py", line 16        nvdisasm gives the file and line; the text of the line is put after
 *
 * when the file is one that this compilation has read. Warnings of the tool are left out.
 */
#define _GNU_SOURCE
#include "gpu/gpu.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static const char *find_tool(Context *cx, const char *name) {
  const char *path = find_program(cx->arena, name);
  if (path) return path;
  path = arena_printf(cx->arena, "/usr/local/cuda/bin/%s", name);
  return access(path, X_OK) == 0 ? path : NULL;
}

/* The source line that `text` ("//## File "PATH", line N...") speaks of. */
static void put_source(Context *cx, const char *text, size_t n, Buf *out) {
  static const char before[] = "//## File \"", between[] = "\", line ";
  const char *path = memmem(text, n, before, strlen(before));
  if (!path) return;
  path += strlen(before);
  const char *end = memmem(path, n - (size_t)(path - text), between, strlen(between));
  const Source *s = end ? map_get_n(cx->sources, path, (size_t)(end - path)) : NULL;
  int line = end ? atoi(end + strlen(between)) : 0;
  if (!s || line < 1 || line > s->line_count) return;
  const char *at = s->text + s->line_start[line - 1];
  at += strspn(at, " \t");
  buf_puts(out, "   ");
  buf_write(out, at, strcspn(at, "\r\n"));
}

static void put_listing(Context *cx, const char *text, Buf *out) {
  for (size_t n; *text; text += n + (text[n] != 0)) {
    n = strcspn(text, "\n");
    if (!strncmp(text, "nvdisasm warning", 16) || !strncmp(text, "cuobjdump warning", 17)) continue;
    buf_write(out, text, n);
    put_source(cx, text, n, out);
    buf_putc(out, '\n');
  }
}

void gpu_sass(Context *cx, const GpuCubin *c, Buf *out) {
  const char *nvdisasm = find_tool(cx, "nvdisasm"), *cuobjdump = find_tool(cx, "cuobjdump");
  if (!nvdisasm && !cuobjdump)
    diag_fail_hint(cx, (Span){0}, "install CUDA's package cuda-nvdisasm or cuda-cuobjdump; the stage ptx needs neither",
                   "no disassembler was found: neither nvdisasm nor cuobjdump is in PATH or /usr/local/cuda/bin");
  TempFolder folder;
  char path[PATH_MAX] = "";
  bool made = temp_create(&folder, NULL);
  if (made) snprintf(path, sizeof path, "%s/kernel.cubin", folder.path);
  if (!made || !file_write_new(path, c->bytes, c->size)) {
    int error = errno;
    temp_remove(&folder);
    diag_fail_hint(cx, (Span){0}, "set TMPDIR to a folder that can be written", "the cubin cannot be written to %s: %s",
                   temp_place(), strerror(error));
  }
  const char *lines[] = {nvdisasm, "-g", "-c", path, NULL}, *plain[] = {cuobjdump, "-sass", path, NULL};
  Buf said = {0};
  int status = process_run_with(nvdisasm ? lines : plain,
                                &(ProcessOptions){.folder = folder.path, .most_ns = compiler_ns(cx)}, &said);
  int error = errno;
  temp_remove(&folder);
  const char *tool = nvdisasm ? nvdisasm : cuobjdump;
  if (status == 0) {
    put_listing(cx, said.at ? said.at : "", out);
    if (said.failed) out->failed = true;
    buf_destroy(&said);
    return;
  }
  const char *words = status < 0 ? arena_strdup(cx->arena, strerror(error))
                                 : arena_strndup(cx->arena, said.at ? said.at : "", said.n > 2000 ? 2000 : said.n);
  buf_destroy(&said);
  if (status < 0) diag_fail(cx, (Span){0}, "%s could not be started: %s", tool, words);
  diag_fail(cx, (Span){0}, "%s failed on the cubin with status %d:\n%s", tool, status, words);
}
