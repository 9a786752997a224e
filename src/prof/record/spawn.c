/* spawn: starts a program with libnereid-prof.so in it, and waits for it.
 *
 * The environment is the caller's with what src/inject reads. While the program runs, Ctrl-C and Ctrl-\ are its
 * business (the terminal sends them to both), and a SIGTERM or SIGHUP to us is passed on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prof/prof.h"

extern char **environ;

static volatile sig_atomic_t child;
static void pass_on(int number) {
  if (child > 0) kill((pid_t)child, number);
}

/* The caller's environment without `names`, then `more`; NULL when out of memory. The strings of the caller's are
 * shared. */
static char **environment(const char *const *names, char **more, int more_count) {
  int n = 0, kept = 0;
  while (environ[n]) n++;
  char **all = calloc((size_t)(n + more_count) + 1, sizeof *all);
  if (!all) return NULL;
  for (int i = 0; i < n; i++) {
    bool replaced = false;
    for (int j = 0; names[j]; j++) {
      size_t length = strlen(names[j]);
      replaced |= !strncmp(environ[i], names[j], length) && environ[i][length] == '=';
    }
    if (!replaced) all[kept++] = environ[i];
  }
  for (int i = 0; i < more_count; i++) all[kept++] = more[i];
  return all;
}

static int start_and_wait(char **argv, char **env, char why[500]) {
  static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  struct sigaction before[4], ignore = {.sa_handler = SIG_IGN}, pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
  sigset_t none, defaults;
  sigemptyset(&defaults);
  for (int i = 0; i < 4; i++) { /* what was ignored (nohup) stays so, in the program too */
    sigaction(numbers[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN)
      sigaction(numbers[i], i < 2 ? &ignore : &pass, NULL), sigaddset(&defaults, numbers[i]);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  pthread_sigmask(SIG_SETMASK, NULL, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  int wrong = posix_spawnp(&pid, argv[0], NULL, &attributes, argv, env), status = 0;
  posix_spawnattr_destroy(&attributes);
  if (!wrong) {
    child = pid;
    while (waitpid(pid, &status, 0) < 0)
      if (errno != EINTR) {
        wrong = errno;
        break;
      }
    child = 0;
  }
  for (int i = 0; i < 4; i++)
    if (before[i].sa_handler != SIG_IGN) sigaction(numbers[i], &before[i], NULL);
  if (wrong)
    return snprintf(why, 500, "%.300s cannot be started: %s", argv[0], strerror(wrong)), wrong == ENOENT ? -127 : -126;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* LD_PRELOAD holds paths with spaces or colons between: a library in a folder with one in its name is loaded by a link
 * to it. NULL with a reason. */
static char *preloadable(const char *library, TempFolder *links, char why[500]) {
  char *path = realpath(library, NULL), *link = NULL;
  if (!path)
    snprintf(why, 500, "%.300s is not there (%s): it comes with nereid, as lib/libnereid-prof.so", library,
             strerror(errno));
  if (!path || !strpbrk(path, " :")) return path;
  if (strpbrk(temp_place(), " :"))
    snprintf(why, 500, "'%.200s' and the place for temporary files, '%.200s', have a space or a colon: set TMPDIR",
             path, temp_place());
  else if (!temp_create(links, NULL) || asprintf(&link, "%s/libnereid-prof.so", links->path) < 0 ||
           symlink(path, link)) {
    snprintf(why, 500, "no link to '%.300s' can be made: %s", path, strerror(errno));
    free(link);
    link = NULL;
  }
  free(path);
  return link;
}

int inject_run(const char *library, const char *trace_dir, const InjectOptions *o, char **argv, char why[500]) {
  why[0] = 0;
  if (!argv || !argv[0]) return snprintf(why, 500, "no program was given"), -1;
  TempFolder links = {.lock = -1, .slot = -1};
  char *path = preloadable(library, &links, why), *folder = realpath(trace_dir, NULL), **env = NULL;
  char *more[8] = {0};
  int n = 0, status = -1;
  struct stat s;
  if (!path) goto out;
  if (!folder || stat(folder, &s) || !S_ISDIR(s.st_mode) || access(folder, W_OK | X_OK))
    snprintf(why, 500, "%.300s is no folder that can be written", trace_dir);
  else if (o->sample_hz < 0 || o->sample_hz > 10000)
    snprintf(why, 500, "samples a second must be from 0 (none) to 10000, not %d", o->sample_hz);
  else {
    /* clang-format off */
    const char *replaced[] = {"LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NEREID_PROF_DIR",
      "NEREID_PROF_HZ",
                              "NEREID_PROF_KINDS", "NEREID_PROF_RUNNER", o->python ? "PYTHONPERFSUPPORT" : NULL, NULL};
    /* clang-format on */
    const char *preload = environment_get("LD_PRELOAD");
    bool all =
        asprintf(&more[n++], "LD_PRELOAD=%s%s%s", path, preload && *preload ? ":" : "", preload ? preload : "") > 0;
    all &= asprintf(&more[n++], "CUDA_INJECTION64_PATH=%s", path) > 0;
    all &= asprintf(&more[n++], "NVTX_INJECTION64_PATH=%s", path) > 0;
    all &= asprintf(&more[n++], "NEREID_PROF_DIR=%s", folder) > 0;
    all &= asprintf(&more[n++], "NEREID_PROF_HZ=%d", o->sample_hz) > 0;
    all &= asprintf(&more[n++], "NEREID_PROF_KINDS=%s%s%s%s%s%s", o->runtime_api ? "runtime," : "",
                    o->driver_api ? "driver," : "", o->memory ? "memory," : "", o->nvtx ? "nvtx," : "",
                    o->work ? "work," : "", o->python ? "python," : "") > 0;
    all &= asprintf(&more[n++], "NEREID_PROF_RUNNER=%ld", (long)getpid()) > 0;
    if (o->python) all &= asprintf(&more[n++], "PYTHONPERFSUPPORT=1") > 0;
    if (!all || !(env = environment(replaced, more, n))) snprintf(why, 500, "out of memory");
    else status = start_and_wait(argv, env, why);
  }
out:
  for (int i = 0; i < n; i++) free(more[i]);
  free(env);
  free(path);
  free(folder);
  temp_remove(&links);
  return status;
}
