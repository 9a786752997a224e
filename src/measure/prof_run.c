/* nereid_prof_run: a program of any kind, run with libnereid-prof.so in it. The library is looked for where the caller
 * says ($NEREID_PROF_LIBRARY), and then around the executable and around this library: where a build has it, and where
 * it is installed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prof/prof.h"
#include "runtime/runtime.h"

static const char library_name[] = "libnereid-prof.so";

static bool try_beside(const char *file, char out[PATH_MAX]) {
  static const char *const places[] = {"", "lib/", "../lib/"};
  const char *slash = strrchr(file, '/');
  for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%.*s/%s%s", (int)(slash - file), file, places[i], library_name);
    if (n < (int)sizeof path && !access(path, R_OK) && realpath(path, out)) return true;
  }
  return false;
}

static nereid_status find_library(char out[PATH_MAX], nereid_error **error) {
  const char *named = environment_get("NEREID_PROF_LIBRARY");
  if (named && *named) {
    if (realpath(named, out) && !access(out, R_OK)) return NEREID_OK;
    return error_errno(error, NEREID_BAD_FILE, errno, "NEREID_PROF_LIBRARY names %s, which cannot be read", named);
  }
  char self[PATH_MAX] = "";
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0 && try_beside(self, out)) return NEREID_OK;
  Dl_info here;
  if (dladdr(library_name, &here) && here.dli_fname && realpath(here.dli_fname, self) && try_beside(self, out))
    return NEREID_OK;
  return error_set(error, NEREID_BAD_FILE,
                   "make builds it as build/lib/libnereid-prof.so; NEREID_PROF_LIBRARY names it anywhere else",
                   "%s, which goes into the program, is not found", library_name);
}

static bool holds_traces(const char *folder) {
  DIR *d = opendir(folder);
  bool found = false;
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    const char *dot = strrchr(e->d_name, '.');
    found = dot && !strcmp(dot, ".trace");
  }
  if (d) closedir(d);
  return found;
}

nereid_status nereid_prof_run(char *const *argv, const char *folder, const nereid_prof_options *options,
                              int *exit_status, nereid_error **error) {
  if (!argv || !argv[0]) return error_null(error, "nereid_prof_run", "the program");
  if (!folder) return error_null(error, "nereid_prof_run", "the folder");
  if (!exit_status) return error_null(error, "nereid_prof_run", "exit_status");
  static const nereid_prof_options none;
  const nereid_prof_options *o = options ? options : &none;
  char library[PATH_MAX], why[500] = "";
  nereid_status status = find_library(library, error);
  if (status) return status;
  if (mkdir(folder, 0777) && errno != EEXIST)
    return error_errno(error, NEREID_BAD_FILE, errno, "cannot make the folder %s", folder);
  struct stat s;
  if (stat(folder, &s) || !S_ISDIR(s.st_mode))
    return error_set(error, NEREID_BAD_FILE, "traces of a program lie in a folder, one a process", "%s is no folder",
                     folder);
  if (holds_traces(folder))
    return error_set(error, NEREID_BAD_FILE,
                     "name another folder, or remove what is there: a report would add the two runs up",
                     "%s holds traces of another run", folder);
  InjectOptions inject = {.sample_hz = o->sample_hz,
                          .runtime_api = !o->no_cuda,
                          .driver_api = !o->no_cuda,
                          .memory = !o->no_cuda,
                          .nvtx = true,
                          .work = o->count_work,
                          .python = o->sample_hz > 0 && o->python_names};
  int result = inject_run(library, folder, &inject, (char **)argv, why);
  if (result < -1) *exit_status = -result;
  if (result < 0) return error_set(error, NEREID_BAD_FILE, NULL, "%s", why);
  return *exit_status = result, NEREID_OK;
}
