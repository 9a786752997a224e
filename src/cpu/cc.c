/* C text -> shared object, by way of the system's compiler and the cache on disk.
 *
 * An entry of the cache is named by the hash of what decides it and is known without a compiler: the text, the flags,
 * what NEREID_CC says, the processor. Which compiler made it (its file's path, size and time) stands in it: where
 * another one is found now it is made anew; where none is found it serves as it is.
 *
 * NEREID_CC is a command, in words as a shell splits them (quotes and backslashes, nothing else): those up to the first
 * that begins with '-' come first, then our flags, then its options, so that they win. -march=native is left out when
 * an option says -march= or -mcpu=, and for a compiler that does not take it, which is tried once and kept in the
 * cache.
 *
 * A kernel's text begins with all support headers, which a compiler would read for longer than it works on the kernel.
 * They are preprocessed once and kept in the cache; a kernel is compiled after those declarations of them that it uses
 * (prune.c).
 *
 * The compiler works in a temporary folder in the cache's, or where that is missing, read-only or full, below $TMPDIR.
 */
#include "cpu/cpu.h"
#include "cpu/prune.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CC_WORDS = 16, KEY_VERSION = 3 };

#if defined(__x86_64__) || defined(__i386__)
static const char native[] = "-march=native";
#else
static const char native[] = "-mcpu=native";
#endif
static const char *const compile_flags[] = {"-std=gnu11",
                                            "-O2",
                                            "-fwrapv",
                                            "-fno-strict-aliasing",
                                            "-fno-math-errno",
                                            "-fno-trapping-math",
                                            "-ffp-contract=fast",
                                            "-fPIC",
                                            "-fvisibility=hidden",
                                            "-w",
                                            "-shared"};
enum { FLAG_COUNT = sizeof compile_flags / sizeof *compile_flags };

typedef struct Compiler {
  const char *chosen;              /* what a build or $NEREID_CC says, or NULL */
  const char *by;                  /* whom to tell of it: "NEREID_CC" */
  const char *words[MAX_CC_WORDS]; /* of it */
  int count, options_at;           /* words[options_at...] are its options */
  const char *path;                /* of words[0]; NULL: not found */
  const char *identity;            /* path, size and time of what the words name; "": not found */
} Compiler;

static NORETURN void fail_cc(Context *cx, const char *hint, const char *message) {
  diag_fail_hint(cx, (Span){0}, hint, "%s", message);
}

/* ---- the compiler ------------------------------------------------------------------------------------------------ */

static void add_identity(Context *cx, Buf *out, const char *word) {
  const char *path = find_program(cx->arena, word);
  struct stat st;
  if (path && stat(path, &st) == 0)
    buf_printf(out, "%s %lld %lld ", path, (long long)st.st_size, (long long)st.st_mtime);
}

/* The next word at *at, or NULL: quotes and backslashes keep what stands in them together, as in a shell. */
static char *next_word(Context *cx, const char *by, const char *all, const char **at) {
  const char *p = *at + strspn(*at, " \t\n");
  if (!*p) return NULL;
  char *word = arena_alloc(cx->arena, strlen(p) + 1), *out = word, quote = 0;
  for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
    bool escapes = *p == '\\' && (quote == '"' ? p[1] && strchr("\\\"$`", p[1]) : !quote && p[1]);
    if (escapes) *out++ = *++p;
    else if (quote ? *p == quote : *p == '"' || *p == '\'') quote = quote ? 0 : *p;
    else *out++ = *p;
  }
  if (quote) fail_cc(cx, NULL, arena_printf(cx->arena, "in %s a quote is not closed: %s", by, all));
  *out = 0, *at = p;
  return word;
}

/* `command`: as NEREID_CC has it; NULL: what that says. */
static Compiler find_compiler(Context *cx, const char *command) {
  static const char *const names[] = {"cc", "gcc", "clang"};
  Compiler c = {.identity = "", .by = command ? "--cc" : "NEREID_CC"};
  const char *chosen = command ? command : environment_get("NEREID_CC");
  if (chosen && *chosen) {
    c.chosen = chosen;
    for (char *w; (w = next_word(cx, c.by, c.chosen, &chosen));) {
      if (c.count == MAX_CC_WORDS)
        fail_cc(cx, NULL, arena_printf(cx->arena, "%s has more than %d words", c.by, MAX_CC_WORDS));
      c.words[c.count++] = w;
    }
    c.path = c.count ? find_program(cx->arena, c.words[0]) : NULL;
  }
  for (int i = 0; i < 3 && !c.chosen && !c.path; i++) {
    c.words[0] = names[i];
    c.path = find_program(cx->arena, names[i]);
    c.count = 1;
  }
  c.options_at = 1;
  while (c.options_at < c.count && c.words[c.options_at][0] != '-') c.options_at++;
  Buf identity = {0};
  for (int i = 0; c.path && i < c.options_at && i < c.count; i++) add_identity(cx, &identity, c.words[i]);
  if (identity.at) c.identity = arena_strdup(cx->arena, identity.at);
  buf_destroy(&identity);
  return c;
}

/* A cache that is there, and is not used, is mostly why one is asked for. */
static NORETURN void fail_no_compiler(Context *cx, const Compiler *c) {
  Buf why = {0};
  const char *cache =
      store_problem(&why) && why.at ? arena_printf(cx->arena, " (the cache is not used: %s)", why.at) : "";
  buf_destroy(&why);
  if (c->chosen)
    fail_cc(cx, arena_printf(cx->arena, "set %s to a gcc or clang, a path with a space in quotes, or unset it", c->by),
            arena_printf(cx->arena, "the C compiler that %s names, `%s`, was not found%s", c->by, c->chosen, cache));
  fail_cc(cx,
          "install gcc or clang (Debian, Ubuntu: apt install gcc), or set NEREID_CC; without one, the device `interp` "
          "runs kernels slowly",
          arena_printf(cx->arena, "no C compiler was found: neither cc, gcc nor clang is in PATH%s", cache));
}

static int put_program(const Compiler *c, const char **argv) {
  int n = 0;
  argv[n++] = c->path;
  for (int i = 1; i < c->options_at; i++) argv[n++] = c->words[i];
  return n;
}

static int put_options(const Compiler *c, const char **argv, int n) {
  for (int i = c->options_at; i < c->count; i++) argv[n++] = c->words[i];
  return n;
}

static void hash_of(Context *cx, Buf *b, char out[33]) {
  if (!b->failed) hash_hex(b->at ? b->at : "", b->n, out);
  bool failed = b->failed;
  buf_destroy(b);
  if (failed) context_out_of_memory(cx);
}

/* A compiler that did not end with status 0; `said`: its words, which go. */
static NORETURN void fail_run(Context *cx, const Compiler *c, int status, int error, const ProcessOptions *o,
                              Buf *said) {
  char *text = status < 0 ? arena_strdup(cx->arena, strerror(error))
                          : arena_strndup(cx->arena, said->at ? said->at : "", said->n > 4000 ? 4000 : said->n);
  buf_destroy(said);
  cx->over_limit |= status < 0 && error == ETIMEDOUT;
  if (status < 0 && error == ETIMEDOUT)
    fail_cc(cx, "NEREID_COMPILER_SECONDS, or options.compiler_seconds, grants it more",
            arena_printf(cx->arena, "%s was stopped after %.3g seconds of the kernel's C text", c->path,
                         (double)o->most_ns / 1e9));
  if (status < 0 && error == ECANCELED) fail_cc(cx, NULL, arena_printf(cx->arena, "%s was stopped", c->path));
  if (status < 0)
    fail_cc(cx, "set NEREID_CC to a working gcc or clang",
            arena_printf(cx->arena, "%s could not be started: %s", c->path, text));
  fail_cc(cx,
          c->count > c->options_at
              ? "look at the options in NEREID_CC; else this is a fault of Nereid or of the compiler"
              : "this is a fault of Nereid or of the compiler; gcc 12 or clang 14 and newer are known to work",
          arena_printf(cx->arena, "%s failed on the kernel's C text with status %d:\n%s", c->path, status, text));
}

/* Whether the compiler takes -march=native, by preprocessing nothing with it. */
static bool takes_native(Context *cx, const Compiler *c) {
  for (int i = c->options_at; i < c->count; i++)
    if (!strncmp(c->words[i], "-march=", 7) || !strncmp(c->words[i], "-mcpu=", 6)) return false;
  Buf b = {0}, kept = {0};
  char name[33];
  buf_printf(&b, "%d %s%s", KEY_VERSION, c->identity, native);
  for (int i = c->options_at; i < c->count; i++) buf_printf(&b, " %s", c->words[i]);
  hash_of(cx, &b, name);
  bool known = store_find("cc", name, "", &kept), takes = known && kept.at && *kept.at == '1';
  buf_destroy(&kept);
  if (known) return takes;
  const char *argv[MAX_CC_WORDS + 8];
  int n = put_program(c, argv);
  argv[n++] = native;
  n = put_options(c, argv, n);
  static const char *const rest[] = {"-E", "-x", "c", "-o", "/dev/null", "/dev/null", NULL};
  for (int i = 0; i < 7; i++) argv[n++] = rest[i];
  ProcessOptions o = {.most_ns = compiler_ns(cx)};
  int status = process_run_with(argv, &o, &kept);
  if (status < 0 || status >= 128) fail_run(cx, c, status, errno, &o, &kept); /* killed: that is no answer */
  buf_destroy(&kept);
  takes = status == 0;
  store_keep("cc", name, "", takes ? "1" : "0", 1);
  return takes;
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

/* Of what is made of a text: "so", "headers". */
static const char *name_of(Context *cx, const Compiler *c, const char *march, const char *kind, const char *text,
                           size_t n) {
  char hash[33];
  Buf key = {0};
  buf_printf(&key, "%d %s %s ", KEY_VERSION, c->chosen ? c->chosen : "", march ? march : native);
  for (int i = 0; i < FLAG_COUNT; i++) buf_printf(&key, "%s ", compile_flags[i]);
  if (!march) add_processor(&key);
  buf_write(&key, text, n);
  hash_of(cx, &key, hash);
  return arena_printf(cx->arena, "%s.%s", hash, kind);
}

/* ---- who makes what ----------------------------------------------------------------------------------------------- */

/* Who compiles what now. Kernels that are alike, as those of a model's layers, are often compiled at the same time. */
typedef struct Making {
  const char *name;
  struct Making *next;
} Making;
static Making *makings;
static pthread_mutex_t makings_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;
static pthread_once_t makings_once = PTHREAD_ONCE_INIT;
static ForkHook makings_hook = {.held = &makings_lock};

static void forget_makings(void *unused) {
  makings = NULL;
  pthread_cond_init(&made, NULL);
}

static void watch_forks(void) {
  makings_hook.in_child = forget_makings;
  fork_hook_add(&makings_hook);
}

/* Waits until nobody else makes this. */
static void making_begin(Making *m) {
  pthread_once(&makings_once, watch_forks);
  pthread_mutex_lock(&makings_lock);
  for (Making *other = makings; other;) {
    if (strcmp(other->name, m->name)) {
      other = other->next;
      continue;
    }
    pthread_cond_wait(&made, &makings_lock);
    other = makings;
  }
  m->next = makings;
  makings = m;
  pthread_mutex_unlock(&makings_lock);
}

static void making_end(Making *m) {
  pthread_mutex_lock(&makings_lock);
  for (Making **at = &makings; *at; at = &(*at)->next) {
    if (*at != m) continue;
    *at = m->next;
    break;
  }
  pthread_cond_broadcast(&made);
  pthread_mutex_unlock(&makings_lock);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* The command up to our flags and the user's. march: the option that names the processor; "": none, NULL: this
 * machine's. */
static int put_command(Context *cx, const Compiler *c, const char *march, const char **argv) {
  int n = put_program(c, argv);
  if (march && *march) argv[n++] = march;
  if (!march && takes_native(cx, c)) argv[n++] = native;
  for (int i = 0; i < FLAG_COUNT; i++) argv[n++] = compile_flags[i];
  return put_options(c, argv, n);
}

/* Runs the compiler in the folder, in which it leaves `made`, the bytes of *out. False with errno when the folder takes
 * no files. Compiler errors diag_fail(). */
static bool run_compiler(Context *cx, const char *folder, const Compiler *c, const char *const *argv, const char *made,
                         Buf *out) {
  Buf output = {0};
  ProcessOptions o = {.folder = folder, .most_ns = compiler_ns(cx)};
  int status = process_run_with(argv, &o, &output);
  int error = errno;
  if (status == 0) {
    buf_destroy(&output);
    if (access(made, F_OK) != 0)
      fail_cc(cx, "set NEREID_CC to a working gcc or clang",
              arena_printf(cx->arena, "%s reported success and left no object", c->path));
    return file_read(made, out);
  }
  if (!output.at || !strstr(output.at, "No space left on device")) fail_run(cx, c, status, error, &o, &output);
  buf_destroy(&output);
  return errno = ENOSPC, false;
}

/* The headers, `n` bytes of text, as the compiler preprocesses them, without what no kernel can name. */
static bool preprocess(Context *cx, const char *folder, const Compiler *c, const char *march, const char *text,
                       size_t n, Buf *out) {
  char *source = arena_printf(cx->arena, "%s/support.c", folder),
       *made = arena_printf(cx->arena, "%s/support.i", folder);
  Buf all = {.arena = cx->arena};
  const char *argv[MAX_CC_WORDS + FLAG_COUNT + 10];
  int argc = put_command(cx, c, march, argv);
  const char *const rest[] = {"-E", "-dD", "-P", "-o", made, source, NULL};
  for (int i = 0; i < 7; i++) argv[argc++] = rest[i];
  if (!file_write_new(source, text, n) || !run_compiler(cx, folder, c, argv, made, &all)) return false;
  if (all.failed) context_out_of_memory(cx);
  c_prune(cx->arena, all.at, all.n, NULL, 0, out);
  if (out->failed) context_out_of_memory(cx);
  return true;
}

/* The same, from the cache if it is there. Many kernels need it at once, when none was compiled before. */
static bool find_headers(Context *cx, const char *folder, const Compiler *c, const char *march, const char *text,
                         size_t n, Buf *out) {
  Making making = {.name = name_of(cx, c, march, "headers", text, n)};
  volatile bool found = false, failed = true;
  int error = 0;
  making_begin(&making);
  if (context_try(cx)) {
    found = store_find("cc", making.name, c->identity, out);
    if (!found) {
      out->n = 0;
      found = preprocess(cx, folder, c, march, text, n, out);
      error = errno;
      if (found) store_keep("cc", making.name, c->identity, out->at, out->n);
    }
    failed = false;
    context_end_try(cx);
  }
  making_end(&making);
  if (failed) diag_fail_now(cx);
  errno = error;
  return found;
}
/* march: see put_command. False with errno when the folder takes no files. Compiler errors diag_fail(). */
static bool build_in(Context *cx, const char *folder, const Compiler *c, const char *march, const CpuText *text,
                     Buf *image) {
  char *source = arena_printf(cx->arena, "%s/kernel.c", folder),
       *object = arena_printf(cx->arena, "%s/kernel.so", folder);
  Buf used = {.arena = cx->arena}, headers = {.arena = cx->arena};
  const char *own = text->at + text->headers;
  size_t n = text->n - text->headers;
  if (text->headers) {
    if (!find_headers(cx, folder, c, march, text->at, text->headers, &headers)) return false;
    c_prune(cx->arena, headers.at, headers.n, own, n, &used);
  }
  buf_write(&used, own, n);
  if (used.failed) context_out_of_memory(cx);
  if (!file_write_new(source, used.at, used.n)) return false;
  const char *argv[MAX_CC_WORDS + FLAG_COUNT + 8];
  int argc = put_command(cx, c, march, argv);
  const char *const rest[] = {"-o", object, source, "-lm", NULL};
  for (int i = 0; i < 5; i++) argv[argc++] = rest[i];
  return run_compiler(cx, folder, c, argv, object, image);
}

/* The same, and the folder goes. */
static bool build_and_remove(Context *cx, TempFolder *t, const Compiler *c, const char *march, const CpuText *text,
                             Buf *image) {
  volatile bool failed = true, built = false;
  if (context_try(cx)) {
    built = build_in(cx, t->path, c, march, text, image);
    failed = false;
    context_end_try(cx);
  }
  temp_remove(t);
  if (failed) diag_fail_now(cx);
  return built;
}

/* The same in whichever folder takes files; *error says why none does. */
static bool build(Context *cx, const Compiler *c, const char *march, const CpuText *text, Buf *image, int *error) {
  for (int i = 0; i < 2; i++) {
    TempFolder t;
    bool made = i == 0 ? store_temp(&t) : temp_create(&t, NULL);
    if (made && build_and_remove(cx, &t, c, march, text, image)) return true;
    *error = errno;
    image->n = 0;
  }
  return false;
}

static NORETURN void fail_no_place(Context *cx, int error) {
  fail_cc(cx, "set TMPDIR to a folder that can be written",
          arena_printf(cx->arena,
                       "there is no place to compile in: neither the cache folder nor %s can be written (%s)",
                       temp_place(), strerror(error)));
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static CpuCode *compile(Context *cx, const Compiler *given, const char *name, const CpuText *text, CpuCompileInfo *info,
                        Buf *image) {
  Compiler c = *given;
  char why[256] = "";
  CpuCode *code = NULL;
  if (store_find("cpu", name, c.identity, image)) code = cpu_load(image->at, image->n, why);
  info->from_cache = code != NULL;
  if (code) return code;
  if (!c.path) fail_no_compiler(cx, &c);
  info->step = CC_BUILDING;
  image->n = 0;
  int64_t start = clock_ns();
  int error = ENOENT;
  if (!build(cx, &c, NULL, text, image, &error)) {
    info->step = CC_STORING;
    fail_no_place(cx, error);
  }
  info->cc_ms = (double)(clock_ns() - start) / 1e6;
  if (image->failed) context_out_of_memory(cx);
  store_keep("cpu", name, c.identity, image->at, image->n); /* where it cannot be kept, it is made again */
  code = cpu_load(image->at, image->n, why);
  if (!code)
    fail_cc(cx, "the compiler must make code for this machine; TMPDIR names a folder from which code may be loaded",
            arena_printf(cx->arena, "the compiled kernel could not be loaded: %s", why));
  return code;
}

static CpuCode *compile_and_clean(Context *cx, const CpuText *text, CpuCompileInfo *info) {
  Buf *image = NEW(cx->arena, Buf);
  Compiler c = find_compiler(cx, NULL);
  Making making = {.name = name_of(cx, &c, NULL, "so", text->at, text->n)};
  CpuCode *volatile code = NULL;
  making_begin(&making);
  if (context_try(cx)) {
    code = compile(cx, &c, making.name, text, info, image);
    context_end_try(cx);
  }
  making_end(&making);
  buf_destroy(image);
  if (!code) diag_fail_now(cx);
  return code;
}

CpuCode *cpu_compile(Context *cx, const CpuText *text, CpuCompileInfo *info) {
  CpuCompileInfo unwanted;
  if (!info) info = &unwanted;
  *info = (CpuCompileInfo){0};
  return compile_and_clean(cx, text, info);
}

bool cpu_compiler_version(Context *cx, Buf *out) {
  Compiler c = find_compiler(cx, NULL);
  const char *argv[MAX_CC_WORDS + 2];
  if (!c.path) return false;
  int n = put_program(&c, argv);
  argv[n++] = "--version";
  argv[n] = NULL;
  return process_run_with(argv, &(ProcessOptions){.most_ns = compiler_ns(cx)}, out) == 0 && out->at;
}

/* ---- for other processors ---------------------------------------------------------------------------------------- */

char *cpu_compiler_macros(Context *cx, const char *command, const char *march) {
  Compiler c = find_compiler(cx, command);
  const char *argv[MAX_CC_WORDS + 10];
  if (!c.path) fail_no_compiler(cx, &c);
  int n = put_program(&c, argv);
  if (march && *march) argv[n++] = march;
  if (!march && takes_native(cx, &c)) argv[n++] = native;
  n = put_options(&c, argv, n);
  static const char *const rest[] = {"-dM", "-E", "-x", "c", "/dev/null", NULL};
  for (int i = 0; i < 6; i++) argv[n++] = rest[i];
  Buf out = {0};
  int status = process_run_with(argv, &(ProcessOptions){.most_ns = compiler_ns(cx)}, &out);
  char *text = out.at && !out.failed ? arena_strdup(cx->arena, out.at) : "";
  buf_destroy(&out);
  if (status)
    fail_cc(cx, "name the compiler with --cc, and a processor that it knows after cpu: (cpu:x86-64-v3)",
            arena_printf(cx->arena, "%s does not compile for %s:\n%s", c.path, march ? march : "this machine", text));
  return text;
}

void cpu_compile_for(Context *cx, const char *command, const char *march, const CpuText *text, Buf *image) {
  Compiler c = find_compiler(cx, command);
  if (!c.path) fail_no_compiler(cx, &c);
  const char *name = name_of(cx, &c, march, "so", text->at, text->n);
  if (store_find("cpu", name, c.identity, image)) return;
  int error = ENOENT;
  image->n = 0;
  if (!build(cx, &c, march, text, image, &error)) fail_no_place(cx, error);
  if (image->failed) context_out_of_memory(cx);
  store_keep("cpu", name, c.identity, image->at, image->n);
}
