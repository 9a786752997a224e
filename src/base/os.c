/* Files, the clock: what the rest of Nereid asks of the operating system.
 *
 * Everything here is safe with other threads and other processes doing the same: a file appears whole under its name or
 * not at all, descriptors are closed on exec, no shell is involved, nothing changes the process's directory, umask or
 * signal handlers.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "base/handlers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 30 }; /* of a file that is read whole */

int64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- signal handlers ---------------------------------------------------------------------------------------------- */

static atomic_int holders;
static void in_child(void *owner) { atomic_store(&holders, 0); } /* the threads that held them are the parent's */
static ForkHook fork_hook = {.in_child = in_child};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_forks(void) { fork_hook_add(&fork_hook); }

void handlers_hold(HandlerHold *h) {
  sigset_t all;
  pthread_once(&once, watch_forks);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &h->before);
  atomic_fetch_add(&holders, 1);
}

void handlers_release(HandlerHold *h) {
  int error = errno;
  atomic_fetch_sub(&holders, 1);
  pthread_sigmask(SIG_SETMASK, &h->before, NULL);
  errno = error;
}

void handlers_wait(void) {
  while (atomic_load(&holders) > 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *at, size_t n) {
  while (n) {
    ssize_t written = write(fd, at, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    at += written;
    n -= (size_t)written;
  }
  return true;
}

int file_open(const char *path, int64_t most, int64_t *size) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return -1;
  int wrong = 0;
  if (fstat(fd, &st) != 0) wrong = errno;
  else if (S_ISDIR(st.st_mode)) wrong = EISDIR;
  else if (!S_ISREG(st.st_mode)) wrong = ESPIPE;
  else if (st.st_size > most) wrong = EFBIG;
  if (wrong) {
    close(fd);
    errno = wrong;
    return -1;
  }
  if (size) *size = st.st_size;
  return fd;
}

FILE *file_open_stream(const char *path, int64_t most) {
  int fd = file_open(path, most, NULL);
  if (fd < 0) return NULL;
  FILE *f = fdopen(fd, "rb");
  if (!f) close(fd);
  return f;
}

const char *file_reason(int number) {
  if (number == ESPIPE) return "it is not a regular file";
  if (number == EFBIG) return "it is too large";
#if defined(__GLIBC__)
  const char *reason = strerrordesc_np(number); /* glibc's strerror depends on the locale */
#else
  const char *reason = strerror(number);
#endif
  return reason ? reason : "unknown error";
}

/* A new file beside `path`. Not mkstemp, whose files only their owner may read: open applies the umask, and O_EXCL
 * settles who owns a name. */
static int create_beside(const char *path, char *name, size_t size) {
  for (int attempt = 0; attempt < 1000; attempt++) {
    int n = snprintf(name, size, "%s.%ld-%llx-%d.tmp", path, (long)getpid(), (unsigned long long)clock_ns(), attempt);
    if (n < 0 || (size_t)n >= size) return errno = ENAMETOOLONG, -1;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* A rename takes the place of whatever stands there, of /dev/stdout and of a pipe, too. */
int whole_file_open(WholeFile *w, const char *path) {
  struct stat st, link;
  *w = (WholeFile){.path = ""};
  bool exists = !stat(path, &st);
  if (exists && !S_ISREG(st.st_mode)) return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  bool is_link = exists && !lstat(path, &link) && S_ISLNK(link.st_mode);
  if (is_link && !realpath(path, w->path)) return -1;
  if (!is_link && snprintf(w->path, sizeof w->path, "%s", path) >= (int)sizeof w->path) return errno = ENAMETOOLONG, -1;
  int fd = create_beside(w->path, w->temporary, sizeof w->temporary);
  if (fd < 0) w->temporary[0] = 0;
  if (fd >= 0 && exists) (void)!fchmod(fd, st.st_mode & 0777); /* what only its owner reads stays so */
  return fd;
}

bool whole_file_end(WholeFile *w, bool good) {
  int error = errno;
  if (!w->temporary[0]) return good;
  if (good && rename(w->temporary, w->path) != 0) good = false, error = errno;
  if (!good) unlink(w->temporary);
  w->temporary[0] = 0;
  errno = error;
  return good;
}

bool file_write_atomic(const char *path, const void *bytes, size_t n) {
  WholeFile w;
  int fd = whole_file_open(&w, path);
  if (fd < 0) return false;
  bool ok = write_all(fd, bytes, n) && (!w.temporary[0] || fsync(fd) == 0);
  int error = errno;
  if (close(fd) != 0 && ok) ok = false, error = errno;
  errno = error;
  return whole_file_end(&w, ok);
}

bool file_read(const char *path, Buf *out) {
  int fd = file_open(path, MOST_BYTES, NULL);
  if (fd < 0) return false;
  char chunk[1 << 14];
  ssize_t n;
  while ((n = read(fd, chunk, sizeof chunk)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    buf_write(out, chunk, (size_t)n);
  }
  int error = errno;
  close(fd);
  errno = error;
  return n == 0 && !out->failed;
}

bool file_write_new(const char *path, const void *bytes, size_t n) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool ok = write_all(fd, bytes, n);
  int error = errno;
  if (close(fd) != 0 && ok) ok = false, error = errno;
  errno = error;
  return ok;
}

static bool is_directory(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return false;
  if (S_ISDIR(st.st_mode)) return true;
  errno = ENOTDIR;
  return false;
}

bool dir_create_all(const char *path) {
  char prefix[PATH_MAX];
  size_t n = strlen(path);
  if (n == 0) return errno = ENOENT, false;
  if (n >= sizeof prefix) return errno = ENAMETOOLONG, false;
  memcpy(prefix, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (prefix[i] != '/' && prefix[i] != 0) continue;
    char kept = prefix[i];
    prefix[i] = 0;
    /* Whatever mkdir says of a directory that exists (EEXIST, or EROFS, EACCES above a home), it is there. */
    if (mkdir(prefix, 0700) != 0) {
      int error = errno;
      if (!is_directory(prefix)) return errno = error == EEXIST ? ENOTDIR : error, false;
    }
    prefix[i] = kept;
  }
  return true;
}

const char *environment_get(const char *name) { return secure_getenv(name); }

char *find_program(Arena *a, const char *name) {
  if (strchr(name, '/')) return access(name, X_OK) == 0 && !is_directory(name) ? arena_strdup(a, name) : NULL;
  const char *at = environment_get("PATH");
  if (!at || !*name) return NULL;
  for (;;) {
    size_t n = strcspn(at, ":");
    char full[PATH_MAX];
    int length =
        n ? snprintf(full, sizeof full, "%.*s/%s", (int)n, at, name) : snprintf(full, sizeof full, "./%s", name);
    if (length > 0 && (size_t)length < sizeof full && access(full, X_OK) == 0 && !is_directory(full))
      return arena_strdup(a, full);
    if (!at[n]) return NULL;
    at += n + 1;
  }
}
