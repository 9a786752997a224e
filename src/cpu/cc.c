/* C text -> loaded code, by way of the system's compiler and a cache on disk.
 *
 * A cached object is named by the hash of all that decides it: the text, the flags, the compiler (its file's path, size
 * and time) and the processor. The ELF image is sealed (base/store.c): a file that was damaged or half copied is built
 * anew. It appears whole under its name (a rename), so any number of processes may build the same kernel at once: the
 * last one wins, with the same bytes.
 *
 * Where the cache folder is missing, read-only or full, or the file system does not let code be mapped from it, the
 * object is loaded from a private temporary folder that is removed at once (the mapping stays).
 */
#define _GNU_SOURCE
#include "cpu/cpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct CpuCode {
  void *handle;
  NereidKernelFn entry;
  uint64_t scratch;
  NereidApartFn apart; /* or NULL */
  bool shares;
};

enum { MAX_CC_WORDS = 16 };

/* clang-format off */
static const char *const compile_flags[] = {
    "-std=gnu11", "-O2",
#if defined(__x86_64__) || defined(__i386__)
    "-march=native",
#else
    "-mcpu=native",
#endif
    "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC",
    "-fvisibility=hidden",
    "-w", "-shared"};
/* clang-format on */
enum { FLAG_COUNT = sizeof compile_flags / sizeof *compile_flags };

static NORETURN void fail_cc(Context *cx, const char *hint, const char *message) {
  fail_hint(cx, (Span){0}, hint, "%s", message);
}

/* ---- the compiler ------------------------------------------------------------------------------------------------ */

/* $NEREID_CC may hold arguments: "ccache gcc". words gets the program's full path and them; returns how many. */
static int find_compiler(Context *cx, const char **words) {
  const char *chosen = getenv("NEREID_CC");
  if (chosen && *chosen) {
    char *copy = arena_strdup(cx->arena, chosen), *save = NULL;
    int n = 0;
    for (char *w = strtok_r(copy, " \t", &save); w && n < MAX_CC_WORDS; w = strtok_r(NULL, " \t", &save))
      words[n++] = w;
    const char *path = n ? find_program(cx->arena, words[0]) : NULL;
    if (!path)
      fail_cc(cx, "set NEREID_CC to a gcc or clang, or unset it",
              arena_printf(cx->arena, "the C compiler that NEREID_CC names, `%s`, was not found", chosen));
    words[0] = path;
    return n;
  }
  static const char *const names[] = {"cc", "gcc", "clang"};
  for (int i = 0; i < 3; i++) {
    words[0] = find_program(cx->arena, names[i]);
    if (words[0]) return 1;
  }
  fail_cc(cx,
          "install gcc or clang (Debian, Ubuntu: apt install gcc), or set NEREID_CC; without one, the device `interp` "
          "runs kernels slowly",
          "no C compiler was found: neither cc, gcc nor clang is in PATH");
}

/* What -march=native depends on. */
static void add_processor(Buf *key) {
#if defined(__x86_64__) || defined(__i386__)
  for (unsigned leaf = 0; leaf <= 7; leaf++) {
    unsigned a, b, c = 0, d;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "+c"(c), "=d"(d) : "a"(leaf));
    if (leaf == 1) b = 0; /* which core we are on */
    if (leaf == 4 || leaf == 5 || leaf == 6) continue;
    buf_printf(key, "%x.%x.%x.%x ", a, b, c, d);
  }
#else
  int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
  char text[4096];
  ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  if (n > 0) buf_write(key, text, (size_t)n);
#endif
}

static void key_of(Context *cx, const char *const *words, int word_count, const char *text, size_t n, char out[33]) {
  Buf key = {0};
  for (int i = 0; i < word_count; i++) buf_printf(&key, "%s ", words[i]);
  struct stat st;
  if (stat(words[0], &st) == 0) buf_printf(&key, "%lld %lld ", (long long)st.st_size, (long long)st.st_mtime);
  for (int i = 0; i < FLAG_COUNT; i++) buf_printf(&key, "%s ", compile_flags[i]);
  add_processor(&key);
  buf_write(&key, text, n);
  if (key.failed) {
    buf_destroy(&key);
    context_out_of_memory(cx);
  }
  hash_hex(key.at, key.n, out);
  buf_destroy(&key);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char *const build_files[] = {"kernel.c", "kernel.so", NULL};

static bool is_sound(const char *path) {
  Buf b = {0};
  bool ok = file_read(path, &b) && seal_take(&b) && b.n > 0;
  buf_destroy(&b);
  return ok;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* Builds text in `folder`; the object's path, or NULL with errno when the folder takes no files. Compiler errors
 * fail(). */
static char *build_in(Context *cx, const char *folder, const char *const *words, int word_count, const char *text,
                      size_t n) {
  char *source = arena_printf(cx->arena, "%s/kernel.c", folder),
       *object = arena_printf(cx->arena, "%s/kernel.so", folder);
  if (!file_write_new(source, text, n)) return NULL;
  const char *argv[MAX_CC_WORDS + FLAG_COUNT + 6];
  int argc = 0;
  for (int i = 0; i < word_count; i++) argv[argc++] = words[i];
  for (int i = 0; i < FLAG_COUNT; i++) argv[argc++] = compile_flags[i];
  argv[argc++] = "-o";
  argv[argc++] = object;
  argv[argc++] = source;
  argv[argc++] = "-lm";
  argv[argc] = NULL;
  Buf output = {0};
  int status = process_run(argv, &output);
  int error = errno;
  if (status == 0) {
    buf_destroy(&output);
    return object;
  }
  bool full = output.at && strstr(output.at, "No space left on device");
  char *said = status < 0 ? arena_strdup(cx->arena, strerror(error))
                          : arena_strndup(cx->arena, output.at ? output.at : "", output.n > 4000 ? 4000 : output.n);
  buf_destroy(&output);
  if (full) return errno = ENOSPC, NULL;
  folder_remove(folder, build_files);
  if (status < 0)
    fail_cc(cx, "set NEREID_CC to a working gcc or clang",
            arena_printf(cx->arena, "%s could not be started: %s", words[0], said));
  fail_cc(cx, "this is a fault of Nereid or of the compiler; gcc 12 or clang 14 and newer are known to work",
          arena_printf(cx->arena, "%s failed on the kernel's C text with status %d:\n%s", words[0], status, said));
}

static CpuCode *load(const char *path) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return NULL;
  NereidKernelFn entry;
  *(void **)&entry = dlsym(handle, "nereid_kernel");
  const uint64_t *scratch = dlsym(handle, "nereid_scratch_bytes"), *shares = dlsym(handle, "nereid_shares");
  CpuCode *code = entry && scratch ? malloc(sizeof *code) : NULL;
  if (!code) {
    dlclose(handle);
    return NULL;
  }
  *code = (CpuCode){handle, entry, *scratch, NULL, shares && *shares};
  *(void **)&code->apart = dlsym(handle, "nereid_apart");
  return code;
}

CpuCode *cpu_compile(Context *cx, const char *c_text, size_t n, CpuCompileInfo *info) {
  CpuCompileInfo unwanted;
  if (!info) info = &unwanted;
  *info = (CpuCompileInfo){0};
  const char *words[MAX_CC_WORDS];
  int word_count = find_compiler(cx, words);
  info->step = CC_BUILDING;
  char key[33];
  key_of(cx, words, word_count, c_text, n, key);

  char *cache = cache_dir(cx->arena), *path = NULL;
  if (cache) cache = arena_printf(cx->arena, "%s/cpu", cache);
  if (cache) path = arena_printf(cx->arena, "%s/%s.so", cache, key);
  if (path && is_sound(path)) {
    CpuCode *code = load(path);
    if (code) {
      info->from_cache = true;
      info->path = path;
      return code;
    }
  }
  if (cache && !dir_create_all(cache)) cache = NULL;

  int64_t start = clock_ns();
  const char *temporary = getenv("TMPDIR");
  if (!temporary || !*temporary) temporary = "/tmp";
  const char *parents[] = {cache, temporary};
  int error = ENOENT;
  for (int i = 0; i < 2; i++) {
    char *folder = parents[i] ? folder_private(cx, parents[i]) : NULL;
    if (!folder) {
      error = parents[i] ? errno : error;
      continue;
    }
    char *object = build_in(cx, folder, words, word_count, c_text, n);
    if (!object) {
      error = errno;
      folder_remove(folder, build_files);
      continue;
    }
    info->cc_ms = (double)(clock_ns() - start) / 1e6;
    CpuCode *code = NULL;
    Buf image = {0};
    if (cache && file_read(object, &image)) {
      seal_add(&image);
      if (!image.failed && file_write_checked(path, image.at, image.n)) {
        code = load(path);
        info->path = path;
      }
    }
    buf_destroy(&image);
    if (!code) {
      code = load(object);
      info->path = object;
    }
    const char *said = code ? NULL : dlerror();
    if (said) said = arena_strdup(cx->arena, said);
    folder_remove(folder, build_files);
    if (code) return code;
    if (i == 1)
      fail_cc(cx, "set TMPDIR to a folder from which code may be loaded",
              arena_printf(cx->arena, "the compiled kernel could not be loaded: %s", said ? said : "out of memory"));
  }
  info->step = CC_STORING;
  fail_cc(cx, "set TMPDIR to a folder that can be written",
          arena_printf(cx->arena,
                       "there is no place for compiled kernels: neither the cache folder nor %s can be written (%s)",
                       temporary, strerror(error)));
}

NereidKernelFn cpu_code_entry(const CpuCode *code) { return code->entry; }
uint64_t cpu_code_scratch(const CpuCode *code) { return code->scratch; }
NereidApartFn cpu_code_apart(const CpuCode *code) { return code->apart; }
bool cpu_code_shares(const CpuCode *code) { return code->shares; }

void cpu_code_release(CpuCode *code) {
  if (!code) return;
  dlclose(code->handle);
  free(code);
}
