/* The cache on disk: entries by kind and name, each a file in KIND/NAME below the cache's folder.
 *
 * Entries are code that will run, so nobody else may have written them. The folder, and all folders above it up to the
 * user's home, belong to the user or root, and only they may write there (a sticky folder like /tmp may stand above):
 * ssh's rule for its keys. Where that does not hold the cache is not used, and store_problem says why. Folders are made
 * for their owner alone. Files are opened by the folder's descriptor, without following links, and must be regular
 * files of the same owners.
 *
 *     content | its maker, as text | length of that text, 8 bytes | seal
 *
 * The name is made of what is known without a maker (a compiler, an assembler); which one made the content stands in
 * the entry: where another one is found now it counts as absent, and where none is found it serves. The seal is a magic
 * word, the size of what stands before, and the hash of that and of the name. A file that does not agree with it was
 * damaged, half copied or renamed, and counts as absent. It stands at the end, so that tools which know the content by
 * its first bytes (an ELF image) still take the file. A file appears whole under its name, by rename, so any number of
 * processes may write the same entry; one whose writer was killed keeps another name, and is swept.
 *
 * The cache has a size limit. A file's time of modification is that of its last use; where the entries are larger than
 * the limit together, those used longest ago go, down to seven eighths of it. Not every write looks: adding up takes
 * some microseconds an entry. Whoever has an entry open keeps it.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  SEAL_BYTES = 48,
  BLOCK = 4096,        /* what a file takes is counted in */
  STALE_SECONDS = 600, /* a file that is being written is renamed long before */
  FRESH_SECONDS = 60,  /* the time of last use is not kept more exactly */
  LOOK_EVERY = 32,     /* of this many names one makes its writer look for what is too much */
  SHARES = 16,         /* and so does a writer that wrote this share of the limit */
};
static const int64_t most_entry = (int64_t)1 << 31, usual_limit = (int64_t)1 << 30;
static const char seal_magic[8] = "NEREIDs2";
static const char temporary[] = ".tmp-";

/* ---- the seal ---------------------------------------------------------------------------------------------------- */

static void seal_hash(const char *name, const char *content, size_t n, char out[33]) {
  Buf both = {0};
  hash_hex(content, n, out);
  buf_write(&both, out, 32);
  buf_puts(&both, name);
  if (!both.failed) hash_hex(both.at, both.n, out);
  buf_destroy(&both);
}

static void seal_add(Buf *b, const char *name) {
  char hash[33];
  seal_hash(name, b->at ? b->at : "", b->n, hash);
  uint64_t size = b->n;
  buf_write(b, seal_magic, 8);
  buf_write(b, &size, 8);
  buf_write(b, hash, 32);
}

static bool seal_take(Buf *b, const char *name) {
  if (b->failed || b->n < SEAL_BYTES) return false;
  size_t content = b->n - SEAL_BYTES;
  const char *seal = b->at + content;
  uint64_t size;
  char hash[33];
  memcpy(&size, seal + 8, 8);
  if (memcmp(seal, seal_magic, 8) || size != content) return false;
  seal_hash(name, b->at, content, hash);
  if (memcmp(seal + 16, hash, 32)) return false;
  b->n = content;
  b->at[content] = 0;
  return true;
}

/* ---- whom a folder belongs to ------------------------------------------------------------------------------------ */

static bool is_ours(const struct stat *st) { return st->st_uid == geteuid() || st->st_uid == 0; }

/* What speaks against this folder; NULL: nothing. One above the cache may be sticky: what lies in it is its owner's. */
static const char *fault_of(const struct stat *st, bool above) {
  if (!S_ISDIR(st->st_mode)) return "it is no folder";
  if (!is_ours(st)) return "it belongs to another user";
  if ((st->st_mode & 022) && !(above && (st->st_mode & S_ISVTX))) return "other users may write there (chmod go-w)";
  return NULL;
}

static bool refuse(Buf *problem, const char *path, const char *why) {
  if (problem) buf_printf(problem, "%s: %s", path, why);
  return false;
}

/* path is a real path, without links. What lies above the home folder is the administrator's. */
static bool check_above(const char *path, Buf *problem) {
  char at[PATH_MAX], home[PATH_MAX];
  const char *named = environment_get("HOME");
  if (!named || !realpath(named, home)) *home = 0;
  snprintf(at, sizeof at, "%s", path);
  while (strcmp(at, home) && strcmp(at, "/")) {
    char *slash = strrchr(at, '/');
    if (slash == at) slash++;
    *slash = 0;
    struct stat st;
    if (stat(at, &st) != 0) return refuse(problem, at, strerror(errno));
    const char *fault = fault_of(&st, true);
    if (fault) return refuse(problem, at, fault);
  }
  return true;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

char *cache_dir(Arena *a) {
  const char *dir = environment_get("NEREID_CACHE_DIR");
  if (dir && *dir) return arena_strdup(a, dir);
  dir = environment_get("XDG_CACHE_HOME");
  if (dir && *dir == '/') return arena_printf(a, "%s/nereid", dir); /* relative: ignored, as XDG says */
  dir = environment_get("HOME");
  return dir && *dir ? arena_printf(a, "%s/.cache/nereid", dir) : NULL;
}

/* That a folder is missing is no problem. -1 with errno. */
static int cannot_open(Buf *problem, const char *path) {
  int error = errno;
  if (error != ENOENT && error != ENOTDIR) refuse(problem, path, strerror(error));
  return errno = error, -1;
}

/* The cache's folder, checked; -1 with errno. */
static int open_root(bool create, Buf *problem) {
  Arena *a = arena_create(NULL);
  const char *named = a ? cache_dir(a) : NULL;
  char path[PATH_MAX];
  bool known = named && strlen(named) < sizeof path;
  if (known) strcpy(path, named);
  if (a) arena_destroy(a);
  if (!known) return errno = ENOENT, -1;
  if (create && !dir_create_all(path)) {
    int error = errno;
    refuse(problem, path, strerror(error));
    return errno = error, -1;
  }
  char real[PATH_MAX];
  if (!realpath(path, real)) return cannot_open(problem, path);
  if (!check_above(real, problem)) return errno = EPERM, -1;
  struct stat st;
  int root = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (root < 0) return cannot_open(problem, real);
  const char *fault = fstat(root, &st) == 0 ? fault_of(&st, false) : strerror(errno);
  if (!fault) return root;
  close(root);
  refuse(problem, real, fault);
  return errno = EPERM, -1;
}

static int open_kind(int root, const char *kind, bool create) {
  if (create && mkdirat(root, kind, 0700) != 0 && errno != EEXIST && errno != EROFS) return -1;
  int folder = openat(root, kind, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  if (folder < 0 || (fstat(folder, &st) == 0 && !fault_of(&st, false))) return folder;
  close(folder);
  return errno = EPERM, -1;
}

static int open_folder(const char *kind, bool create) {
  int root = open_root(create, NULL);
  if (root < 0) return -1;
  int folder = open_kind(root, kind, create), error = errno;
  close(root);
  return errno = error, folder;
}

/* Where the folder is not there yet: whether it can be made below the first one above it that is. */
static void check_missing(Buf *problem) {
  Arena *a = arena_create(NULL);
  char *at = a ? cache_dir(a) : NULL, *slash;
  struct stat st;
  while (at && stat(at, &st) != 0 && strcmp(at, "/") && (slash = strrchr(at, '/'))) slash[slash == at] = 0;
  if (at && stat(at, &st) == 0 && !S_ISDIR(st.st_mode)) refuse(problem, at, "it is no folder");
  else if (at && *at == '/' && access(at, W_OK | X_OK) != 0) refuse(problem, at, strerror(errno));
  if (a) arena_destroy(a);
}

static bool is_readable(int folder, const char *name, const char *kind, const char *parent, Buf *problem) {
  struct stat st;
  bool is_folder = fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
  if (faccessat(folder, name, is_folder ? R_OK | X_OK : R_OK, AT_EACCESS) == 0 || errno != EACCES) return true;
  if (problem) buf_printf(problem, "%s%s%s/%s: %s", parent, kind ? "/" : "", kind ? kind : "", name, strerror(EACCES));
  return false;
}

/* What a copy may be that another user made: there, and not to be read. One file of each kind is looked at. */
static void check_readable(int root, Buf *problem) {
  Arena *a = arena_create(NULL);
  const char *parent = a ? cache_dir(a) : NULL;
  DIR *kinds = parent ? fdopendir(fcntl(root, F_DUPFD_CLOEXEC, 3)) : NULL;
  bool good = true;
  for (struct dirent *d; kinds && good && (d = readdir(kinds));) {
    if (*d->d_name == '.' || !strcmp(d->d_name, "tmp")) continue;
    good = is_readable(root, d->d_name, NULL, parent, problem);
    int folder = good ? openat(root, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    DIR *files = folder >= 0 ? fdopendir(folder) : NULL;
    struct dirent *f = NULL;
    while (files && (f = readdir(files)) && *f->d_name == '.') {}
    if (f) good = is_readable(folder, f->d_name, d->d_name, parent, problem);
    if (files) closedir(files);
    else if (folder >= 0) close(folder);
  }
  if (kinds) closedir(kinds);
  if (a) arena_destroy(a);
}

bool store_problem(Buf *out) {
  size_t before = out->n;
  int root = open_root(false, out);
  bool is_missing = root < 0 && (errno == ENOENT || errno == ENOTDIR);
  if (root >= 0) check_readable(root, out), close(root);
  else if (is_missing && out->n == before) check_missing(out);
  return out->n > before;
}

bool store_temp(TempFolder *t) {
  Arena *a = arena_create(NULL);
  const char *dir = a ? cache_dir(a) : NULL;
  int folder = dir ? open_folder("tmp", true) : (errno = ENOENT, -1);
  bool made = folder >= 0 && temp_create(t, arena_printf(a, "%s/tmp", dir));
  int error = errno;
  if (folder >= 0) close(folder);
  if (a) arena_destroy(a);
  return errno = error, made;
}

/* ---- one entry --------------------------------------------------------------------------------------------------- */

static bool read_whole(int fd, size_t n, Buf *out) {
  char chunk[1 << 14];
  while (n) {
    ssize_t got = read(fd, chunk, n < sizeof chunk ? n : sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    buf_write(out, chunk, (size_t)got);
    n -= (size_t)got;
  }
  return !out->failed;
}

static bool open_entry(Buf *b, const char *name, const char *maker) {
  uint64_t n;
  if (!maker) return true;
  if (!seal_take(b, name) || b->n < sizeof n) return false;
  memcpy(&n, b->at + b->n - sizeof n, sizeof n);
  b->n -= sizeof n;
  if (n > b->n) return false;
  b->n -= n;
  bool same = !*maker || (n == strlen(maker) && !memcmp(b->at + b->n, maker, n));
  b->at[b->n] = 0;
  return same;
}

bool store_find(const char *kind, const char *name, const char *maker, Buf *out) {
  int folder = open_folder(kind, false);
  if (folder < 0) return false;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  close(folder);
  if (fd < 0) return false;
  struct stat st;
  bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_ours(&st) && !(st.st_mode & 022) &&
              st.st_size <= most_entry && read_whole(fd, (size_t)st.st_size, out) && open_entry(out, name, maker);
  if (good && (int64_t)time(NULL) - (int64_t)st.st_mtime > FRESH_SECONDS) futimens(fd, NULL);
  close(fd);
  if (!good) buf_destroy(out);
  return good;
}

static bool write_whole(int fd, const char *at, size_t n) {
  while (n) {
    ssize_t written = write(fd, at, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written, n -= (size_t)written;
  }
  return true;
}

static bool write_entry(int folder, const char *name, const Buf *b) {
  char hidden[100];
  int fd = -1;
  for (int i = 0; i < 100 && fd < 0; i++) {
    snprintf(hidden, sizeof hidden, "%s%ld-%llx-%d", temporary, (long)getpid(), (unsigned long long)clock_ns(), i);
    fd = openat(folder, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) return false;
  }
  if (fd < 0) return false;
  bool good = write_whole(fd, b->at, b->n);
  int error = errno;
  if (close(fd) != 0 && good) good = false, error = errno;
  if (good && renameat(folder, hidden, folder, name) != 0) good = false, error = errno;
  if (!good) unlinkat(folder, hidden, 0);
  return errno = error, good;
}

bool store_keep(const char *kind, const char *name, const char *maker, const void *bytes, size_t n) {
  static _Atomic int64_t written; /* since this process last looked */
  int folder = open_folder(kind, true);
  if (folder < 0) return false;
  Buf b = {0};
  buf_write(&b, bytes, n);
  if (maker) {
    uint64_t length = strlen(maker);
    buf_puts(&b, maker);
    buf_write(&b, &length, sizeof length);
    seal_add(&b, name);
  }
  bool kept = !b.failed && write_entry(folder, name, &b);
  int error = b.failed ? ENOMEM : errno;
  close(folder);
  int64_t limit = store_limit(), size = (int64_t)b.n + BLOCK;
  buf_destroy(&b);
  bool look = limit && (atomic_fetch_add(&written, size) + size >= limit / SHARES ||
                        hash_bytes(name, strlen(name), 0) % LOOK_EVERY == 0);
  if (kept && look) {
    atomic_store(&written, 0);
    store_trim(limit);
  }
  return errno = error, kept;
}

/* ---- the size of all --------------------------------------------------------------------------------------------- */

static const char *const kinds[] = {"cpu", "cubin", "nvrtc", "tune", "cc", "product"};
enum { KINDS = sizeof kinds / sizeof *kinds };

int64_t store_limit(void) {
  const char *text = environment_get("NEREID_CACHE_SIZE");
  int64_t size;
  return text && *text && parse_size(text, &size) ? size : usual_limit;
}

bool parse_size(const char *text, int64_t *out) {
  static const char units[] = "KMGT";
  char *end;
  errno = 0;
  double v = text_to_double(text, &end);
  if (end == text) return false;
  const char *unit = *end ? strchr(units, *end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end) : NULL;
  if (unit && *end) v *= (double)((int64_t)1 << 10 * (unit - units + 1)), end++;
  if (unit && *end == 'i') end++;
  if (*end == 'B' || *end == 'b') end++;
  if (*end || errno || !(v >= 0 && v < 9e18)) return false;
  return *out = (int64_t)v, true;
}

typedef struct File {
  int kind;
  int64_t bytes, used; /* ns */
  char name[64];
} File;

typedef struct Files {
  int folders[KINDS];
  File *at;
  int n, cap;
  int64_t bytes;
} Files;

/* Also sweeps what was left half written. */
static void add_file(Files *f, int kind, const char *name, int64_t now) {
  struct stat st;
  if (name[0] == '.' && strncmp(name, temporary, sizeof temporary - 1)) return;
  if (fstatat(f->folders[kind], name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return;
  if (name[0] == '.') {
    if (now - (int64_t)st.st_mtime > STALE_SECONDS) unlinkat(f->folders[kind], name, 0);
    return;
  }
  if (strlen(name) >= sizeof f->at->name) return; /* not of ours */
  if (f->n == f->cap) {
    int cap = f->cap ? 2 * f->cap : 256;
    File *more = realloc(f->at, (size_t)cap * sizeof *more);
    if (!more) return;
    f->at = more, f->cap = cap;
  }
  File *file = &f->at[f->n++];
  int64_t bytes = align_up(st.st_size, BLOCK);
  *file = (File){.kind = kind, .bytes = bytes, .used = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec};
  strcpy(file->name, name);
  f->bytes += file->bytes;
}

static Files list_files(int root) {
  Files f = {0};
  int64_t now = (int64_t)time(NULL);
  for (int k = 0; k < KINDS; k++) {
    f.folders[k] = root < 0 ? -1 : open_kind(root, kinds[k], false);
    int own = f.folders[k] < 0 ? -1 : openat(f.folders[k], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = own < 0 ? NULL : fdopendir(own);
    for (struct dirent *e; d && (e = readdir(d));) add_file(&f, k, e->d_name, now);
    if (d) closedir(d);
    else if (own >= 0) close(own);
  }
  return f;
}

static void free_files(Files *f) {
  for (int k = 0; k < KINDS; k++)
    if (f->folders[k] >= 0) close(f->folders[k]);
  free(f->at);
}

static int by_use(const void *x, const void *y) {
  const File *a = x, *b = y;
  return a->used < b->used ? -1 : a->used > b->used;
}

StoreSize store_size(void) {
  int root = open_root(false, NULL);
  Files f = list_files(root);
  StoreSize s = {f.n, f.bytes};
  free_files(&f);
  if (root >= 0) close(root);
  return s;
}

bool store_trim(int64_t limit) {
  int root = open_root(false, NULL);
  if (root < 0) return errno == ENOENT;
  /* One process at a time; what it does not see the next one does. */
  bool alone = flock(root, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  int error = 0;
  Files f = {0};
  for (int k = 0; k < KINDS; k++) f.folders[k] = -1;
  if (alone || !limit) f = list_files(root);
  if (f.bytes > limit) {
    if (f.n) qsort(f.at, (size_t)f.n, sizeof *f.at, by_use);
    int64_t wanted = limit / 8 * 7, left = f.bytes;
    for (int i = 0; i < f.n && left > wanted; i++) {
      if (unlinkat(f.folders[f.at[i].kind], f.at[i].name, 0) == 0 || errno == ENOENT) left -= f.at[i].bytes;
      else error = errno;
    }
  }
  free_files(&f);
  close(root);
  return errno = error, !error;
}
