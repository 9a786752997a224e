/* CUDA C -> PTX and cubin by NVRTC, NVIDIA's compiler as a library, which is opened at run time.
 *
 * A kernel is asked for by its name expression ("gelu", "scale<float, 4>"), so that one need not be extern "C"; NVRTC
 * tells the name it has in the PTX. Headers (cuda_fp16.h and the like) come from the toolkit: $CUDA_HOME, the folder
 * beside NVRTC's own, or /usr/local/cuda. What it made is kept on disk (nvrtc_cache.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cuda_c/cuda_c.h"

typedef struct NvrtcProgram *Program;
#define NVRTC_FUNCTIONS(X) \
  X(version, "nvrtcVersion", int, (int *major, int *minor)) \
  X(error_string, "nvrtcGetErrorString", const char *, (int r)) \
  X(create, "nvrtcCreateProgram", int, \
    (Program * out, const char *text, const char *name, int n, const char *const *headers, const char *const *names)) \
  X(destroy, "nvrtcDestroyProgram", int, (Program * p)) \
  X(add_name, "nvrtcAddNameExpression", int, (Program p, const char *name)) \
  X(compile, "nvrtcCompileProgram", int, (Program p, int n, const char *const *options)) \
  X(log_size, "nvrtcGetProgramLogSize", int, (Program p, size_t * n)) \
  X(log, "nvrtcGetProgramLog", int, (Program p, char *out)) \
  X(lowered_name, "nvrtcGetLoweredName", int, (Program p, const char *name, const char **out)) \
  X(ptx_size, "nvrtcGetPTXSize", int, (Program p, size_t * n)) \
  X(ptx, "nvrtcGetPTX", int, (Program p, char *out)) \
  X(cubin_size, "nvrtcGetCUBINSize", int, (Program p, size_t * n)) \
  X(cubin, "nvrtcGetCUBIN", int, (Program p, char *out))

typedef struct Nvrtc {
#define X(field, symbol, result, arguments) result(*field) arguments;
  NVRTC_FUNCTIONS(X)
#undef X
  char folder[PATH_MAX]; /* that the library lies in */
  const char *which;     /* path, size, time and version */
} Nvrtc;

static const LibrarySymbol functions[] = {
#define X(field, symbol, result, arguments) {symbol, offsetof(Nvrtc, field), true},
    NVRTC_FUNCTIONS(X)
#undef X
};

enum { NVRTC_NAME_NOT_FOUND = 12, NVRTC_COMPILATION = 6, NVRTC_INVALID_OPTION = 5 };

/* ---- finding the library ----------------------------------------------------------------------------------------- */

static const char *toolkit(void) {
  const char *home = environment_get("CUDA_HOME");
  if (!home || !*home) home = environment_get("CUDA_PATH");
  return home && *home ? home : "/usr/local/cuda";
}

static void *open_library(Context *cx, const char **tried) {
  const char *chosen = environment_get("NEREID_LIBNVRTC");
  if (chosen && *chosen) return *tried = chosen, dlopen(chosen, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  const char *const folders[] = {"", arena_printf(cx->arena, "%s/lib64/", toolkit()),
                                 arena_printf(cx->arena, "%s/lib/", toolkit())};
  *tried = "libnvrtc.so.13, libnvrtc.so.12 or libnvrtc.so";
  for (int f = 0; f < 3; f++)
    for (int i = 0; i < 3; i++) {
      void *library =
          dlopen(arena_printf(cx->arena, "%s%s", folders[f], names[i]), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
      if (library) return library;
    }
  return NULL;
}

static void load(Context *cx, Nvrtc *n) {
  const char *tried;
  const char *hint =
      "install it with the CUDA toolkit (or pip's nvidia-cuda-nvrtc); NEREID_LIBNVRTC may name the library's file";
  void *library = open_library(cx, &tried);
  if (!library) {
    const char *why = dlerror();
    diag_fail_hint(cx, (Span){0}, hint, "CUDA C needs NVRTC, which was not found: %s (%s)", tried,
                   why ? why : "it cannot be opened");
  }
  const char *missing = library_take(library, functions, sizeof functions / sizeof functions[0], n);
  if (missing) diag_fail_hint(cx, (Span){0}, hint, "this NVRTC is too old, or none: %s has no %s", tried, missing);
  Dl_info where;
  if (dladdr(*(void **)(void *)&n->create, &where) && where.dli_fname && realpath(where.dli_fname, n->folder)) {
    struct stat st = {0};
    int major = 0, minor = 0;
    stat(n->folder, &st);
    n->version(&major, &minor);
    n->which = arena_printf(cx->arena, "%s %lld %lld %d.%d", n->folder, (long long)st.st_size, (long long)st.st_mtime,
                            major, minor);
    char *slash = strrchr(n->folder, '/');
    if (slash) *slash = 0;
  } else {
    *n->folder = 0;
  }
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

enum { MOST_OPTIONS = 12 };

static bool has_headers(Context *cx, const char *folder) {
  return access(arena_printf(cx->arena, "%s/cuda_fp16.h", folder), R_OK) == 0;
}

static int make_options(Context *cx, const Nvrtc *n, const char *path, const char *arch, const char **out) {
  int k = 0;
  out[k++] = arena_printf(cx->arena, "--gpu-architecture=%s", arch);
  out[k++] = "--std=c++17";
  out[k++] = "-lineinfo";
  const char *slash = strrchr(path, '/');
  out[k++] = slash ? arena_printf(cx->arena, "-I%.*s", (int)(slash - path), path) : "-I.";
  const char *const folders[] = {arena_printf(cx->arena, "%s/include", toolkit()),
                                 arena_printf(cx->arena, "%s/../include", n->folder),
                                 arena_printf(cx->arena, "%s/../../include", n->folder),
                                 arena_printf(cx->arena, "%s/../../cuda_runtime/include", n->folder) /* pip's */};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
    if (has_headers(cx, folders[i])) {
      out[k++] = arena_printf(cx->arena, "-I%s", folders[i]);
      const char *cccl = arena_printf(cx->arena, "%s/cccl", folders[i]); /* <cuda/std/...> from CUDA 13 on */
      if (access(cccl, R_OK) == 0) out[k++] = arena_printf(cx->arena, "-I%s", cccl);
      break;
    }
  return k;
}

/* ---- what NVRTC says --------------------------------------------------------------------------------------------- */

/* "k.cu(12): error: expected a ";"": its place and message. */
static bool first_error(Context *cx, const char *log, const char *path, int *line, const char **message) {
  for (const char *p = log; (p = strstr(p, path)); p++) {
    const char *q = p + strlen(path);
    if (*q != '(' || (p != log && p[-1] != '\n')) continue;
    char *end;
    long v = strtol(q + 1, &end, 10);
    if (strncmp(end, "): error: ", 10) && strncmp(end, "): catastrophic error: ", 23)) continue;
    const char *text = strstr(end, "error: ") + 7;
    *line = (int)v;
    *message = arena_printf(cx->arena, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
  }
  return false;
}

static NORETURN void compilation_failed(Context *cx, const char *path, const char *text, char *log) {
  int line;
  const char *message;
  size_t n = strlen(log);
  while (n && (log[n - 1] == '\n' || log[n - 1] == ' ')) log[--n] = 0;
  if (!first_error(cx, log, path, &line, &message))
    diag_fail(cx, (Span){0}, "NVRTC does not compile %s:\n%s", path, log);
  const Source *src = source_from_text(cx, path, text, strlen(text));
  if (line < 1 || line > src->line_count) line = 1;
  Span at = {.source = src, .line = line, .end_line = line};
  const char *errors = strstr(log, "errors detected"); /* one has been said whole */
  if (errors) diag_fail_hint(cx, at, arena_printf(cx->arena, "all that NVRTC says:\n%s", log), "%s", message);
  diag_fail(cx, at, "%s", message);
}

static NORETURN void failed(Context *cx, const Nvrtc *n, int r, const char *what) {
  const char *text = n->error_string(r);
  diag_fail(cx, (Span){0}, "NVRTC: %s: %s", what, text ? text : "unknown error");
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static void use_program(Context *cx, const Nvrtc *n, Program p, const char *path, const char *text, const char *name,
                        const char *arch, int count, const char *const *options, NvrtcResult *out,
                        volatile nereid_status *phase) {
  const char *lowered = NULL;
  size_t size = 0;
  int r = n->add_name(p, name);
  if (r) failed(cx, n, r, name);
  r = n->compile(p, count, options);
  if (r == NVRTC_COMPILATION) {
    *phase = NEREID_BAD_SOURCE;
    char *log = n->log_size(p, &size) ? NULL : arena_alloc(cx->arena, size + 1);
    if (log && !n->log(p, log)) compilation_failed(cx, path, text, log);
  }
  if (r == NVRTC_INVALID_OPTION)
    diag_fail_hint(cx, (Span){0}, "a newer CUDA toolkit knows more GPUs", "this NVRTC does not compile for %s: %s",
                   arch, n->error_string(r));
  if (r) failed(cx, n, r, "compiling");
  if ((r = n->lowered_name(p, name, &lowered))) failed(cx, n, r, name);
  out->lowered = arena_strdup(cx->arena, lowered);
  if ((r = n->ptx_size(p, &size))) failed(cx, n, r, "the PTX");
  char *ptx = arena_alloc(cx->arena, size + 1);
  if ((r = n->ptx(p, ptx))) failed(cx, n, r, "the PTX");
  ptx[size] = 0;
  out->ptx = ptx;
  if ((r = n->cubin_size(p, &out->cubin_size))) failed(cx, n, r, "the cubin");
  if (!out->cubin_size) return;
  char *cubin = arena_alloc(cx->arena, out->cubin_size);
  if ((r = n->cubin(p, cubin))) failed(cx, n, r, "the cubin");
  out->cubin = cubin;
}

static void compile(Context *cx, const Nvrtc *n, const char *path, const char *text, const char *name, const char *arch,
                    int count, const char *const *options, NvrtcResult *out, volatile nereid_status *phase) {
  Program p = NULL;
  int r = n->create(&p, text, path, 0, NULL, NULL);
  if (r) failed(cx, n, r, "a program");
  if (context_try(cx)) {
    use_program(cx, n, p, path, text, name, arch, count, options, out, phase);
    context_end_try(cx);
    n->destroy(&p);
  } else {
    n->destroy(&p);
    diag_fail_now(cx);
  }
}

void nvrtc_compile(Context *cx, const char *path, const char *text, const char *name, const char *arch,
                   NvrtcResult *out, volatile nereid_status *phase) {
  Nvrtc *n = NEW(cx->arena, Nvrtc);
  *phase = NEREID_NO_COMPILER;
  load(cx, n);
  *phase = NEREID_INTERNAL;
  *out = (NvrtcResult){0};
  const char *options[MOST_OPTIONS];
  int count = make_options(cx, n, path, arch, options);
  const char *place = n->which ? nvrtc_place(cx, n->which, path, text, name, count, options) : NULL;
  if (nvrtc_find(cx, place, out)) return;
  compile(cx, n, path, text, name, arch, count, options, out, phase);
  if (place) nvrtc_keep(cx, place, out);
}
