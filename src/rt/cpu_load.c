/* A shared object in memory -> loaded code.
 *
 * What was checked is what is mapped: the bytes go into a file that only this process has (a memfd), and dlopen gets it
 * by its descriptor. Two objects must not have one name, since dlopen takes the second for the first; a descriptor's
 * number comes again, so the name spells a count as well: "fd/", "fd//" and "fd/./" are one folder, and each bit of the
 * count is a "/" or a "./". So is each bit of the count's address, since a process may have two copies of this library,
 * which count for themselves. Where there are no memfds, or no /proc, the bytes go into a new file in a private folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rt/cpu_code.h"

struct CpuCode {
  void *handle;
  NereidKernelFn entry;
  uint64_t scratch;
  NereidApartFn apart; /* or NULL */
  bool shares;
};

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER; /* so that a child of fork finds the loader's lock free */
static ForkHook loading_hook = {.held = &loading};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_forks(void) { fork_hook_add(&loading_hook); }

static void *open_object(const char *path) {
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&loading);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  pthread_mutex_unlock(&loading);
  return handle;
}

static void close_object(void *handle) {
  pthread_mutex_lock(&loading);
  dlclose(handle);
  pthread_mutex_unlock(&loading);
}

/* Bits of x as parts of a path that lead nowhere, `bits` of them. */
static void spell(char *path, uint64_t x, int bits) {
  for (; bits > 0; bits--, x >>= 1) strcat(path, x & 1 ? "./" : "/");
}

static void *open_in_memory(const char *image, size_t n) {
  static _Atomic uint32_t count;
  int fd = memfd_create("nereid-kernel", MFD_CLOEXEC);
  if (fd < 0) return NULL;
  bool whole = true;
  for (size_t done = 0; done < n && whole;) {
    ssize_t w = write(fd, image + done, n - done);
    whole = w > 0 || (w < 0 && errno == EINTR);
    done += w > 0 ? (size_t)w : 0;
  }
  char name[(64 + 32) * 2 + 40] = "/proc/self/fd/";
  spell(name, (uintptr_t)&count, 64);
  spell(name, atomic_fetch_add(&count, 1), 32);
  snprintf(name + strlen(name), 12, "%d", fd);
  void *handle = whole ? open_object(name) : NULL;
  close(fd);
  return handle;
}

static void *open_in_folder(const char *image, size_t n, const char *parent, char why[256]) {
  TempFolder t;
  if (!temp_create(&t, parent)) {
    snprintf(why, 256, "%s: %s", parent ? parent : temp_place(), strerror(errno));
    return NULL;
  }
  Buf path = {0};
  buf_printf(&path, "%s/kernel.so", t.path);
  void *handle = NULL;
  if (path.failed || !file_write_new(path.at, image, n)) snprintf(why, 256, "%s", strerror(errno));
  else if (!(handle = open_object(path.at))) snprintf(why, 256, "%s", dlerror());
  buf_destroy(&path);
  temp_remove(&t);
  return handle;
}

CpuCode *cpu_load(const char *image, size_t n, char why[256]) {
  void *handle = open_in_memory(image, n);
  if (!handle) handle = open_in_folder(image, n, NULL, why);
  if (!handle) return NULL;
  NereidKernelFn entry;
  *(void **)&entry = dlsym(handle, "nereid_kernel");
  const uint64_t *scratch = dlsym(handle, "nereid_scratch_bytes"), *shares = dlsym(handle, "nereid_shares");
  CpuCode *code = entry && scratch ? malloc(sizeof *code) : NULL;
  if (!code) {
    snprintf(why, 256, "%s", entry && scratch ? "out of memory" : "it has no nereid_kernel");
    close_object(handle);
    return NULL;
  }
  *code = (CpuCode){handle, entry, *scratch, NULL, shares && *shares};
  *(void **)&code->apart = dlsym(handle, "nereid_apart");
  return code;
}

NereidKernelFn cpu_code_entry(const CpuCode *code) { return code->entry; }
uint64_t cpu_code_scratch(const CpuCode *code) { return code->scratch; }
NereidApartFn cpu_code_apart(const CpuCode *code) { return code->apart; }
bool cpu_code_shares(const CpuCode *code) { return code->shares; }

void cpu_code_release(CpuCode *code) {
  if (!code) return;
  close_object(code->handle);
  free(code);
}
