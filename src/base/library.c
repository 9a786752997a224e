/* Libraries that are opened at run time, and their functions by name: nothing is linked, so that a machine without them
 * runs all that needs none.
 *
 * A library is looked for where its variable says; among those that the process has loaded (PyTorch brings cuBLAS);
 * where the system's linker looks; and where Python's packages and the CUDA toolkit keep such. It stays loaded: what
 * has started threads must not be unmapped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base.h"

enum { HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

/* nvidia/cublas/lib/libcublas.so.12, nvidia/cu13/lib/libcublas.so.13 */
static const char *const package_folders[] = {
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib/", "/usr/lib/python3*/*-packages/nvidia/*/lib/",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib/", "/usr/local/cuda*/lib64/", "/usr/local/cuda*/targets/*/lib/"};
enum { FOLDERS = sizeof package_folders / sizeof *package_folders };

static void *open_in_packages(const char *name) {
  void *library = NULL;
  char own[2][300] = {"", ""};
  const char *home = environment_get("HOME"), *venv = environment_get("VIRTUAL_ENV");
  if (home) snprintf(own[0], sizeof own[0], "%s/.local/lib/python3*/site-packages/nvidia/*/lib/", home);
  if (venv) snprintf(own[1], sizeof own[1], "%s/lib/python3*/site-packages/nvidia/*/lib/", venv);
  for (int i = 0; i < FOLDERS + 2 && !library; i++) {
    const char *folder = i < 2 ? own[1 - i] : package_folders[i - 2];
    char pattern[400];
    snprintf(pattern, sizeof pattern, "%s%s", folder, name);
    glob_t found = {0};
    if (*folder && !glob(pattern, 0, NULL, &found))
      for (size_t k = 0; k < found.gl_pathc && !library; k++) library = dlopen(found.gl_pathv[k], HOW);
    globfree(&found);
  }
  return library;
}

void *library_open(const char *variable, const char *const *names) {
  const char *chosen = environment_get(variable);
  if (chosen && *chosen) return dlopen(chosen, HOW);
  void *library = NULL;
  for (int i = 0; names[i] && !library; i++) library = dlopen(names[i], HOW | RTLD_NOLOAD);
  for (int i = 0; names[i] && !library; i++) library = dlopen(names[i], HOW);
  for (int i = 0; names[i] && !library; i++) library = open_in_packages(names[i]);
  return library;
}

const char *library_take(void *library, const LibrarySymbol *symbols, size_t n, void *into) {
  const char *missing = NULL;
  for (size_t i = 0; i < n; i++) {
    void *f = dlsym(library, symbols[i].name);
    memcpy((char *)into + symbols[i].offset, &f, sizeof f);
    if (!f && symbols[i].needed && !missing) missing = symbols[i].name;
  }
  return missing;
}

void library_of(const void *function, char path[LIBRARY_PATH]) {
  Dl_info where;
  *path = 0;
  if (dladdr(function, &where) && where.dli_fname && strlen(where.dli_fname) < LIBRARY_PATH)
    strcpy(path, where.dli_fname);
}

void library_identity(Buf *out, const char *path) {
  struct stat st = {0};
  stat(path, &st);
  buf_printf(out, "%s %lld %lld", path, (long long)st.st_size, (long long)st.st_mtime);
}
