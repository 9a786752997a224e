/* What NVRTC made, kept on disk.
 *
 * A result is named by the hash of all that decides it: the library (its path, size, time and version), the options,
 * the kernel's name, the text and its path, and every file that the text may include. Which those are is read from the
 * text, before any macro is looked at: each #include and __has_include("...") is looked for in every folder that NVRTC
 * might look in, and what is found counts with its content and is read in turn. So files count that an #if leaves out,
 * which costs a compilation now and then, never a wrong result. Where the text leaves open what it reads (`#include
 * NAME`) or when (`__TIME__`), nothing is kept. The toolkit's own headers count alike, but may leave things open: they
 * find only each other.
 *
 * A damaged entry counts as absent (base/store.c). In it: PTX, cubin, the kernel's name in them, the
 * three sizes.
 */
#include <ctype.h>
#include <stdlib.h>

#include "runtime/cuda_c/cuda_c.h"

enum { KEY_VERSION = 1, MOST_FILES = 4000 };

typedef struct File {
  const char *path, *text;
  bool of_toolkit;
} File;

typedef struct Reach {
  Context *cx;
  const char *const *folders; /* NULL at the end; the first is the text's own, the others are the toolkit's */
  Map *seen;                  /* by path */
  VEC(File) files;
  Buf *key;
} Reach;

/* ---- what a text includes ---------------------------------------------------------------------------------------- */

typedef enum { NOTHING, A_FILE, LEFT_OPEN } Includes;

static const char *skip_blanks(const char *p) { return p + strspn(p, " \t"); }
static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* What the word "include" at p, of a text that begins at `text`, means. */
static Includes read_include(const char *text, const char *p, const char **file, size_t *n) {
  static const char has[] = "__has_";
  size_t before = sizeof has - 1;
  bool question = (size_t)(p - text) >= before && !memcmp(p - before, has, before);
  const char *q = p;
  while (q > text && (q[-1] == ' ' || q[-1] == '\t')) q--;
  char last = q > text ? q[-1] : 0, one_before = q > text + 1 ? q[-2] : 0;
  bool directive = last == '#' || (last == ':' && one_before == '%');
  p += strlen("include");
  if (!strncmp(p, "_next", 5)) p += 5;
  if (in_name(*p)) return NOTHING;
  if (!directive && !question)
    return (last == '/' && one_before == '*') || (last == '\n' && one_before == '\\') ? LEFT_OPEN : NOTHING;
  p = skip_blanks(p);
  if (question && *p != '(') return NOTHING; /* `defined(__has_include)` */
  if (question) p = skip_blanks(p + 1);
  if (*p != '<' && *p != '"') return LEFT_OPEN;
  *file = p + 1;
  *n = strcspn(p + 1, *p == '<' ? ">\n" : "\"\n");
  return (*file)[*n] == (*p == '<' ? '>' : '"') ? A_FILE : LEFT_OPEN;
}

/* ---- all that it reaches ----------------------------------------------------------------------------------------- */

static bool visit(Reach *r, const char *path, bool of_toolkit) {
  Buf b = {0};
  if (map_has(r->seen, path)) return true;
  bool there = file_read(path, &b) && !b.failed;
  const char *text = there ? arena_strndup(r->cx->arena, b.at ? b.at : "", b.n) : NULL;
  if (there) {
    char hash[33];
    hash_hex(text, b.n, hash);
    buf_printf(r->key, "%s %s\n", path, hash);
    map_put(r->seen, path, r);
    vec_push(r->cx->arena, &r->files, ((File){path, text, of_toolkit}));
  }
  buf_destroy(&b);
  return r->files.n <= MOST_FILES;
}

static bool find(Reach *r, const File *from, const char *name, size_t n) {
  Arena *a = r->cx->arena;
  const char *slash = strrchr(from->path, '/');
  if (*name == '/') return visit(r, arena_printf(a, "%.*s", (int)n, name), from->of_toolkit);
  bool ok = visit(r, arena_printf(a, "%.*s%.*s", slash ? (int)(slash + 1 - from->path) : 0, from->path, (int)n, name),
                  from->of_toolkit);
  ok = ok && visit(r, arena_printf(a, "%.*s", (int)n, name), false);
  for (int i = 0; ok && r->folders[i]; i++)
    ok = visit(r, arena_printf(a, "%s/%.*s", r->folders[i], (int)n, name), i > 0);
  return ok;
}

static bool follow(Reach *r, const File *file) {
  bool open = strstr(file->text, "__TIME__") || strstr(file->text, "__DATE__") || strstr(file->text, "__TIMESTAMP__");
  if (open && !file->of_toolkit) return false;
  for (const char *p = file->text; (p = strstr(p, "include")); p++) {
    const char *name;
    size_t n;
    Includes what = read_include(file->text, p, &name, &n);
    if (what == LEFT_OPEN && !file->of_toolkit) return false;
    if (what == A_FILE && !find(r, file, name, n)) return false;
  }
  return true;
}

const char *nvrtc_place(Context *cx, const char *library, const char *path, const char *text, const char *name,
                        int option_count, const char *const *options) {
  const char *folders[16];
  Buf key = {0};
  int n = 0;
  buf_printf(&key, "%d\n%s\n%s\n", KEY_VERSION, library, name);
  for (int i = 0; i < option_count; i++) {
    buf_printf(&key, "%s\n", options[i]);
    if (!strncmp(options[i], "-I", 2) && n < 15) folders[n++] = options[i] + 2;
  }
  folders[n] = NULL;
  buf_printf(&key, "%s %zu\n%s\n", path, strlen(text), text);
  Reach r = {.cx = cx, .folders = folders, .seen = map_create(cx->arena, true), .key = &key};
  vec_push(cx->arena, &r.files, ((File){path, text, false}));
  bool known = true;
  for (int i = 0; known && i < r.files.n; i++) {
    File file = r.files.at[i]; /* the array grows meanwhile */
    known = follow(&r, &file);
  }
  char hash[33] = "";
  known = known && !key.failed;
  if (known) hash_hex(key.at, key.n, hash);
  buf_destroy(&key);
  return known ? arena_printf(cx->arena, "%s.nvrtc", hash) : NULL;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef struct Sizes {
  uint64_t ptx, cubin, name;
} Sizes;

bool nvrtc_find(Context *cx, const char *place, NvrtcResult *out) {
  Buf b = {0};
  Sizes s;
  bool ok = place && store_find("nvrtc", place, "", &b) && b.n >= sizeof s;
  if (ok) {
    memcpy(&s, b.at + b.n - sizeof s, sizeof s);
    size_t rest = b.n - sizeof s;
    ok = s.ptx <= rest && s.cubin <= rest - s.ptx && s.name == rest - s.ptx - s.cubin;
  }
  if (ok) {
    char *cubin = s.cubin ? arena_alloc(cx->arena, s.cubin) : NULL;
    if (cubin) memcpy(cubin, b.at + s.ptx, s.cubin);
    *out = (NvrtcResult){.ptx = arena_strndup(cx->arena, b.at, s.ptx),
                         .lowered = arena_strndup(cx->arena, b.at + s.ptx + s.cubin, s.name),
                         .cubin = cubin,
                         .cubin_size = s.cubin,
                         .from_cache = true};
  }
  buf_destroy(&b);
  return ok;
}

void nvrtc_keep(Context *cx, const char *place, const NvrtcResult *r) {
  const Sizes s = {strlen(r->ptx), r->cubin_size, strlen(r->lowered)};
  Buf b = {0};
  buf_write(&b, r->ptx, s.ptx);
  if (s.cubin) buf_write(&b, r->cubin, s.cubin);
  buf_write(&b, r->lowered, s.name);
  buf_write(&b, &s, sizeof s);
  if (!b.failed) store_keep("nvrtc", place, "", b.at, b.n); /* where it cannot be kept, it is made again */
  buf_destroy(&b);
}
