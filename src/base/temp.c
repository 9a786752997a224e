/* Temporary folders and files: the one place that makes them.
 *
 * A folder is its owner's alone and locked while it is used. It goes with temp_remove; when a signal ends the process,
 * its handler may call temp_remove_all. What a killed process left is found by a later one that makes a folder in the
 * same place: nereid-tmp-XXXXXX, of the same user, some minutes old and locked by nobody.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "base/handlers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  MOST_FOLDERS = 64, /* that temp_remove_all knows */
  MOST_DEPTH = 4,
  STALE_SECONDS = 600, /* between mkdtemp and the lock passes less */
};
static const char prefix[] = "nereid-tmp-";

/* Read by a signal handler, so without a lock; a slot's text stays as it is while it is used. */
static struct Known {
  atomic_bool taken, used;
  char path[512];
} known[MOST_FOLDERS];

static void in_child(void *owner) { /* they are the parent's */
  for (int i = 0; i < MOST_FOLDERS; i++) atomic_store(&known[i].used, false);
}
static ForkHook fork_hook = {.in_child = in_child};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_forks(void) { fork_hook_add(&fork_hook); }

const char *temp_place(void) {
  const char *chosen = environment_get("TMPDIR");
  return chosen && *chosen ? chosen : "/tmp";
}

/* ---- removing: by system calls alone, for a signal handler ------------------------------------------------------- */

typedef struct Entry { /* linux_dirent64 */
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[];
} Entry;

static void clear_folder(int folder, int depth) {
  _Alignas(Entry) char piece[2048];
  for (bool found = true; found;) { /* what is removed moves the rest */
    found = false;
    lseek(folder, 0, SEEK_SET);
    for (long n; (n = syscall(SYS_getdents64, folder, piece, sizeof piece)) > 0;) {
      for (long at = 0; at < n;) {
        const Entry *e = (const Entry *)(piece + at);
        at += e->size;
        if (!strcmp(e->name, ".") || !strcmp(e->name, "..")) continue;
        if (unlinkat(folder, e->name, 0) == 0) {
          found = true;
          continue;
        }
        int inner = depth < MOST_DEPTH
                        ? openat(folder, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                        : -1;
        if (inner < 0) continue;
        clear_folder(inner, depth + 1);
        close(inner);
        found = unlinkat(folder, e->name, AT_REMOVEDIR) == 0 || found;
      }
    }
  }
}

static void remove_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  clear_folder(folder, 0);
  close(folder);
  rmdir(path);
}

void temp_remove_all(void) {
  handlers_wait(); /* one that is there and not noted yet */
  for (int i = 0; i < MOST_FOLDERS; i++)
    if (atomic_load(&known[i].used)) remove_folder(known[i].path);
}

/* ---- what others left -------------------------------------------------------------------------------------------- */

static void sweep_one(const char *parent, const char *name, int64_t now) {
  char path[PATH_MAX];
  struct stat st;
  if ((size_t)snprintf(path, sizeof path, "%s/%s", parent, name) >= sizeof path) return;
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  if (fstat(folder, &st) == 0 && st.st_uid == geteuid() && now - (int64_t)st.st_mtime > STALE_SECONDS &&
      flock(folder, LOCK_EX | LOCK_NB) == 0)
    remove_folder(path);
  close(folder);
}

static void sweep(const char *parent) {
  DIR *d = opendir(parent);
  int64_t now = (int64_t)time(NULL);
  for (struct dirent *e; d && (e = readdir(d));)
    if (!strncmp(e->d_name, prefix, sizeof prefix - 1)) sweep_one(parent, e->d_name, now);
  if (d) closedir(d);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Makes the folder of path, which ends with XXXXXX, and notes it for temp_remove_all; false with errno. */
static bool make_known(TempFolder *t, char *path) {
  HandlerHold hold;
  size_t n = strlen(path) + 1;
  handlers_hold(&hold);
  bool made = mkdtemp(path) != NULL;
  for (int i = 0; made && i < MOST_FOLDERS && t->slot < 0 && n <= sizeof known[i].path; i++) {
    if (atomic_exchange(&known[i].taken, true)) continue;
    t->slot = i;
    memcpy(known[i].path, path, n);
    atomic_store(&known[i].used, true);
  }
  handlers_release(&hold);
  return made;
}

bool temp_create(TempFolder *t, const char *parent) {
  *t = (TempFolder){.lock = -1, .slot = -1};
  if (!parent) parent = temp_place();
  pthread_once(&once, watch_forks);
  sweep(parent);
  size_t n = strlen(parent) + sizeof prefix + 8;
  char *path = malloc(n);
  if (!path) return errno = ENOMEM, false;
  snprintf(path, n, "%s/%sXXXXXX", parent, prefix);
  if (!make_known(t, path)) {
    int error = errno;
    free(path);
    return errno = error, false;
  }
  t->path = path;
  t->lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (t->lock >= 0) flock(t->lock, LOCK_EX | LOCK_NB); /* where there are no locks, nothing is swept */
  return true;
}

void temp_remove(TempFolder *t) {
  int error = errno;
  if (t->path) remove_folder(t->path);
  if (t->slot >= 0) {
    atomic_store(&known[t->slot].used, false);
    atomic_store(&known[t->slot].taken, false);
  }
  if (t->lock >= 0) close(t->lock);
  free(t->path);
  *t = (TempFolder){.lock = -1, .slot = -1};
  errno = error;
}

int temp_file(void) {
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/nereid-XXXXXX", temp_place()) >= sizeof path)
    return errno = ENAMETOOLONG, -1;
  HandlerHold hold;
  handlers_hold(&hold);
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) unlink(path);
  handlers_release(&hold);
  return fd;
}
