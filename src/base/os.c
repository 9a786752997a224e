/* Files, processes, the clock: what the rest of Nereid asks of the operating system.
 *
 * Everything here is safe with other threads and other processes doing the same: a file appears whole under its name or
 * not at all, descriptors are closed on exec, no shell is involved, nothing changes the process's directory, umask or
 * signal handlers.
 */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
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
  int wrong = fstat(fd, &st) != 0 ? errno : !S_ISREG(st.st_mode) ? ESPIPE : (st.st_size > most) ? EFBIG : 0;
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

static bool write_and_rename(const char *path, const void *bytes, size_t n, bool sync) {
  char temporary[PATH_MAX];
  int fd = create_beside(path, temporary, sizeof temporary);
  if (fd < 0) return false;
  bool ok = write_all(fd, bytes, n) && (!sync || fsync(fd) == 0);
  int error = errno;
  if (close(fd) != 0 && ok) ok = false, error = errno;
  if (ok && rename(temporary, path) != 0) ok = false, error = errno;
  if (!ok) {
    unlink(temporary);
    errno = error;
  }
  return ok;
}

bool file_write_atomic(const char *path, const void *bytes, size_t n) { return write_and_rename(path, bytes, n, true); }

bool file_write_checked(const char *path, const void *bytes, size_t n) {
  return write_and_rename(path, bytes, n, false);
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
    if (mkdir(prefix, 0777) != 0) {
      int error = errno;
      if (!is_directory(prefix)) return errno = error == EEXIST ? ENOTDIR : error, false;
    }
    prefix[i] = kept;
  }
  return true;
}

char *find_program(Arena *a, const char *name) {
  if (strchr(name, '/')) return access(name, X_OK) == 0 && !is_directory(name) ? arena_strdup(a, name) : NULL;
  const char *at = getenv("PATH");
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

static const char *set_variable(const char *name) {
  const char *v = getenv(name);
  return v && *v ? v : NULL;
}

char *cache_dir(Arena *a) {
  const char *dir;
  if ((dir = set_variable("NEREID_CACHE_DIR"))) return arena_strdup(a, dir);
  if ((dir = set_variable("XDG_CACHE_HOME")) && dir[0] == '/')
    return arena_printf(a, "%s/nereid", dir); /* relative: ignored, as XDG says */
  if ((dir = set_variable("HOME"))) return arena_printf(a, "%s/.cache/nereid", dir);
  return NULL;
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

/* Starts argv with stdin empty and stdout, stderr going to fd. Returns an errno value. */
/* The environment with a setting more, or as it is: where that has a value already, or memory ran out. *made is to be
 * freed. */
static char **environment_with(const char *setting, char ***made) {
  size_t n = 0, name = setting ? strcspn(setting, "=") + 1 : 0;
  *made = NULL;
  if (!setting) return environ;
  for (; environ[n]; n++)
    if (!strncmp(environ[n], setting, name)) return environ;
  *made = malloc((n + 2) * sizeof *environ);
  if (!*made) return environ;
  memcpy(*made, environ, n * sizeof *environ);
  (*made)[n] = (char *)(uintptr_t)setting; /* posix_spawn does not write through it */
  (*made)[n + 1] = NULL;
  return *made;
}

static int spawn(const char *const *argv, const char *setting, int fd, pid_t *child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (error) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  /* The child starts with the usual signals, whatever the calling thread blocks or ignores. */
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!error) error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, fd, 1);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, fd, 2);
  /* posix_spawn wants char *const *, but does not write through it. */
  char **made, **environment = environment_with(setting, &made);
  if (!error) error = posix_spawnp(child, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environment);
  free(made);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

int process_run(const char *const *argv, Buf *output) { return process_run_with(argv, NULL, output); }

int process_run_with(const char *const *argv, const char *setting, Buf *output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  /* Were stdout or stderr closed here, the pipe could have got their numbers, and dup2 of a descriptor onto itself
   * keeps close-on-exec: move it out of the way. */
  if (ends[1] <= 2) {
    int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    close(ends[1]);
    ends[1] = moved;
  }
  pid_t child = 0;
  int error = ends[1] < 0 ? errno : spawn(argv, setting, ends[1], &child);
  if (ends[1] >= 0) close(ends[1]);
  if (error) {
    close(ends[0]);
    errno = error;
    return -1;
  }
  char piece[4096];
  for (;;) {
    ssize_t n = read(ends[0], piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (output) buf_write(output, piece, (size_t)n);
  }
  close(ends[0]);
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
