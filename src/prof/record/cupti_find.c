/* cupti_find: one machine may have several CUPTIs: the toolkit's, one beside PyTorch, one in Triton. Tried in turn
 * until one takes a subscription:
 *
 *     $NEREID_CUPTI, alone when it is set
 *     one that the process has loaded already (PyTorch's is, before the first CUDA call)
 *     one in the same folder of Python packages as a library that is loaded (site-packages/nvidia/...)
 *     the linker's, then those of $CUDA_HOME, $CUDA_PATH and /usr/local/cuda
 *
 * CUPTI of a newer CUDA than the driver does not start; an older one does. Two in one process get in each other's way,
 * so the loaded one comes first, and one that did not work is closed.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "prof/record/cupti_find.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
enum { SONAMES = 3, WHERE = 8 };

/* The folders of Python packages from which libraries are loaded ("/x/site-packages/"). */
typedef struct Roots {
  char at[WHERE][400];
  int n;
} Roots;
static int find_root(struct dl_phdr_info *info, size_t size, void *p) {
  Roots *r = p;
  const char *found = info->dlpi_name ? strstr(info->dlpi_name, "-packages/") : NULL;
  if (!found || r->n == WHERE) return 0;
  size_t n = (size_t)(found - info->dlpi_name) + strlen("-packages/");
  if (n >= sizeof r->at[0]) return 0;
  for (int i = 0; i < r->n; i++)
    if (strlen(r->at[i]) == n && !memcmp(r->at[i], info->dlpi_name, n)) return 0;
  memcpy(r->at[r->n], info->dlpi_name, n);
  r->at[r->n++][n] = 0;
  return 0;
}

typedef struct Attempt {
  CuptiApi *api;
  CuptiSubscriber *subscriber;
  CuptiCallback on_call;
  char *why;        /* of the first that was found, 500 characters: it should have been the right one */
  bool found, stop; /* no other will do */
} Attempt;

static bool has_driver(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda) dlclose(cuda);
  return cuda != NULL;
}

/* Takes the library if it is one that works; else closes it and says why. */
static bool use(Attempt *a, void *library, const char *path) {
  char unused[500], *why = a->found ? unused : a->why;
  if (!library) return false;
  a->found = true;
  *a->api = (CuptiApi){.library = library};
  const char *missing = NULL;
#define X(field, symbol, needed, arguments) \
  *(void **)&a->api->field = dlsym(library, symbol); \
  if (needed && !a->api->field && !missing) missing = symbol;
  CUPTI_FUNCTIONS(X)
#undef X
  uint32_t version = 0;
  if (missing)
    snprintf(why, 500, "%s is not a CUPTI that nereid can use: it has no %s (CUDA 11.6 or later is needed)", path,
             missing);
  else if (a->api->version(&version) || version < CUPTI_OLDEST)
    snprintf(why, 500, "%s is CUPTI's version %u, which is too old: CUDA 11.6 or later is needed", path, version);
  else {
    CuptiResult r = a->api->subscribe(a->subscriber, a->on_call, NULL);
    if (!r) return true;
    const char *text = NULL;
    a->api->result_string(r, &text);
    if (r == CUPTI_MULTIPLE_SUBSCRIBERS || r == CUPTI_MAX_LIMIT_REACHED) {
      snprintf(a->why, 500,
               "another profiler is attached to this process (Nsight, torch.profiler, Proton, a debugger), and CUPTI "
               "serves one at a "
               "time: run without it");
      a->stop = true;
    } else if (!has_driver())
      snprintf(why, 500, "%s does not start: there is no NVIDIA driver here (libcuda.so.1)", path);
    else if (r == CUPTI_NOT_INITIALIZED)
      snprintf(why, 500,
               "%s does not start (%s): the driver is older than this CUPTI, or refuses it; NEREID_CUPTI may name "
               "another libcupti",
               path, text ? text : "?");
    else if (r == CUPTI_INSUFFICIENT_PRIVILEGES)
      snprintf(why, 500,
               "this user may not profile the GPU (%s): run as root, or ask for NVreg_RestrictProfilingToAdminUsers=0",
               text ? text : "?");
    else snprintf(why, 500, "%s does not start: %s", path, text ? text : "unknown error");
  }
  dlclose(library);
  *a->api = (CuptiApi){0};
  return false;
}

static bool use_path(Attempt *a, const char *folder, const char *rest, const char *name) {
  char path[600];
  if (!folder || a->stop || (size_t)snprintf(path, sizeof path, "%s%s%s", folder, rest, name) >= sizeof path ||
      access(path, R_OK))
    return false;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    if (!a->found) snprintf(a->why, 500, "%.400s", dlerror());
    a->found = true;
  }
  return use(a, library, path);
}

bool cupti_open(CuptiApi *api, CuptiSubscriber *subscriber, CuptiCallback on_call, char why[500]) {
  Attempt a = {api, subscriber, on_call, why};
  why[0] = 0;
  const char *named = environment_get("NEREID_CUPTI");
  if (named && *named) {
    void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return snprintf(why, 500, "NEREID_CUPTI names a library that does not open: %.400s", dlerror()), false;
    return use(&a, library, named);
  }
  for (int i = 0; i < SONAMES && !a.stop; i++)
    if (use(&a, dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD), sonames[i])) return true;
  if (!a.found) { /* one that is loaded and does not start is not mended by a second */
    Roots roots = {.n = 0};
    dl_iterate_phdr(find_root, &roots);
    static const char *const packages[][2] = {{"nvidia/cu13/lib/", "libcupti.so.13"},
                                              {"nvidia/cuda_cupti/lib/", "libcupti.so.12"},
                                              {"triton/backends/nvidia/lib/cupti/", "libcupti.so.12"},
                                              {"triton/backends/nvidia/lib/cupti/", "libcupti.so"}};
    for (int i = 0; i < roots.n; i++)
      for (int p = 0; p < 4; p++)
        if (use_path(&a, roots.at[i], packages[p][0], packages[p][1])) return true;
    for (int i = 0; i < SONAMES && !a.stop; i++)
      if (use(&a, dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL), sonames[i])) return true;
    const char *const homes[] = {environment_get("CUDA_HOME"), environment_get("CUDA_PATH"), "/usr/local/cuda"};
    for (int h = 0; h < 3; h++)
      for (int i = 0; i < SONAMES; i++)
        for (int p = 0; p < 3; p++)
          if (use_path(&a, homes[h], (const char *const[]){"/extras/CUPTI/lib64/", "/lib64/", "/lib/"}[p], sonames[i]))
            return true;
  }
  if (!a.found)
    snprintf(why, 500,
             "libcupti was not found, without which the GPU cannot be recorded: it comes with the CUDA toolkit "
             "(extras/CUPTI) and with "
             "PyTorch (pip install nvidia-cuda-cupti); NEREID_CUPTI may name it");
  return false;
}

void cupti_wait_for_devices(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!cuda) return;
  int (*count_of)(int *) = (int (*)(int *))dlsym(cuda, "cuDeviceGetCount");
  int (*state)(int, unsigned *, int *) = (int (*)(int, unsigned *, int *))dlsym(cuda, "cuDevicePrimaryCtxGetState");
  int (*retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
  int (*release)(int) = (int (*)(int))dlsym(cuda, "cuDevicePrimaryCtxRelease_v2");
  int (*push)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxPushCurrent_v2");
  int (*pop)(void **) = (int (*)(void **))dlsym(cuda, "cuCtxPopCurrent_v2");
  int (*synchronize)(void) = (int (*)(void))dlsym(cuda, "cuCtxSynchronize");
  int n = 0;
  if (count_of && state && retain && release && push && pop && synchronize && !count_of(&n))
    for (int i = 0; i < n; i++) {
      unsigned flags = 0;
      int active = 0;
      void *context = NULL;
      if (state(i, &flags, &active) || !active || retain(&context, i)) continue;
      if (!push(context)) {
        synchronize();
        pop(&context);
      }
      release(i);
    }
  dlclose(cuda);
}
