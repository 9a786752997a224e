/* hooks: the ways out of a program that no atexit handler sees: _exit (Python's forked workers end so) and the exec
 * family. And sigaction, so that a program that sets every signal to its default, as daemons do, is not ended by the
 * next sample (sampler_shares), and sees no handlers of ours.
 *
 * libc's own callers of these (exit, system, popen, posix_spawn) do not come through here, and need not: exit runs our
 * destructor, and the others start another process. A vfork's child does come through, in its parent's memory:
 * inject_finish looks at its process number.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/inject.h"

static struct {
  int (*execve)(const char *, char *const[], char *const[]);
  int (*execvpe)(const char *, char *const[], char *const[]);
  int (*fexecve)(int, char *const[], char *const[]);
} real;
int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);

/* not at the first call: a vfork's child shall do as little as it can */
__attribute__((constructor(101))) static void resolve(void) {
  *(void **)&real.execve = dlsym(RTLD_NEXT, "execve");
  *(void **)&real.execvpe = dlsym(RTLD_NEXT, "execvpe");
  *(void **)&real.fexecve = dlsym(RTLD_NEXT, "fexecve");
  *(void **)&real_sigaction = dlsym(RTLD_NEXT, "sigaction");
}

/* An exec that cannot work needs no end: who searches through PATH tries many. */
#define EXEC(can_work, call) \
  do { \
    if (!(can_work)) return (call); \
    inject_finish(FINISH_EXEC); \
    int result = (call), why = errno; \
    inject_finish_undo(); \
    errno = why; \
    return result; \
  } while (0)

ENTRY int execve(const char *path, char *const argv[], char *const envp[]) {
  EXEC(!access(path, X_OK), real.execve(path, argv, envp));
}
ENTRY int execv(const char *path, char *const argv[]) { EXEC(!access(path, X_OK), real.execve(path, argv, environ)); }
ENTRY int execvpe(const char *file, char *const argv[], char *const envp[]) {
  EXEC(true, real.execvpe(file, argv, envp));
}
ENTRY int execvp(const char *file, char *const argv[]) { EXEC(true, real.execvpe(file, argv, environ)); }
ENTRY int fexecve(int fd, char *const argv[], char *const envp[]) { EXEC(true, real.fexecve(fd, argv, envp)); }

/* The arguments of execl and the like, on the stack; after the NULL comes execle's environment. */
#define GATHER(first, argv, last) \
  va_list args; \
  size_t count = 1; \
  va_start(args, first); \
  while (va_arg(args, const char *)) count++; \
  va_end(args); \
  char *argv[count + 1]; \
  va_start(args, first); \
  argv[0] = (char *)first; \
  for (size_t i = 1; i <= count; i++) argv[i] = va_arg(args, char *); \
  last; \
  va_end(args)

ENTRY int execl(const char *path, const char *first, ...) {
  GATHER(first, argv, (void)0);
  return execv(path, argv);
}
ENTRY int execlp(const char *file, const char *first, ...) {
  GATHER(first, argv, (void)0);
  return execvp(file, argv);
}
ENTRY int execle(const char *path, const char *first, ...) {
  GATHER(first, argv, char *const *envp = va_arg(args, char *const *));
  return execve(path, argv, envp);
}

ENTRY __attribute__((noreturn)) void _exit(int status) {
  inject_finish(FINISH_EXIT);
  for (;;) syscall(SYS_exit_group, status);
}
ENTRY __attribute__((noreturn)) void _Exit(int status) { _exit(status); }

ENTRY int sigaction(int number, const struct sigaction *act, struct sigaction *old) {
  if (sampler_shares(number, act, old)) return 0;
  if (!real_sigaction) resolve(); /* a library's constructor may come before ours */
  return inject_sigaction(number, act, old);
}
ENTRY sighandler_t signal(int number, sighandler_t handler) {
  struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old; /* BSD's semantics, as in glibc */
  return sigaction(number, &act, &old) ? SIG_ERR : old.sa_handler;
}
