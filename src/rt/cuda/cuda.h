/* cuda: what the files of the CUDA device share. Private to them.
 *
 *     cuda/device.c   opening, memory, the table
 *     cuda/stream.c   streams, events, asynchronous copies
 *     cuda/load.c     cubin or PTX -> a loaded function
 *     cuda/launch.c   launches, what they leave behind, synchronizing
 *     cuda/graph_replay.c   a kernel that is launched over and over
 *     cuda/maps.c     tensor maps of a launch's arguments
 *     cuda/messages.c   what device_print and device_assert leave behind
 *
 * Compiling for it stands in src/runtime/cuda. Others know this folder by the table device_cuda alone.
 *
 * One Cuda serves one nereid_device. The kernels compiled for it hold references on it, so that a module may be freed
 * after its device was closed.
 */
#ifndef NEREID_CUDA_H
#define NEREID_CUDA_H

#include "rt/cuda/api.h"
#include "rt/rt.h"

typedef struct CudaKernel CudaKernel;
typedef struct CudaList CudaList;
typedef struct CudaReport CudaReport;
typedef struct CudaLocked { /* memory of the host that we page-locked */
  struct CudaLocked *next;
  void *p;
} CudaLocked;

/* A CUDA graph of one launch of a kernel, for the launches of it on one stream (cuda/graph_replay.c). */
typedef struct CudaReplay {
  atomic_bool busy;     /* a thread is at it; the rest but the key is that thread's */
  atomic_uintptr_t key; /* the stream's handle and one; 0: of none */
  CuGraph graph;
  CuGraphNode node;
  CuGraphExec exec;  /* NULL: not made yet */
  unsigned launches; /* since it was adopted */
  bool waits;        /* the stream had work left when it was last asked */
} CudaReplay;

/* The tensor maps that were made of these arguments (cuda/maps.c). */
typedef struct CudaMap {
  _Alignas(64) char bytes[128];
} CudaMap;
typedef struct CudaMaps {
  atomic_bool busy; /* a thread is at it; the rest is that thread's */
  bool full;
  bool copied; /* of copies of the arguments' arrays, which each launch makes: there are no maps here */
  GpuPlanFit fit;
  uint64_t *args;
  CudaMap *maps;
} CudaMaps;

enum { CUDA_REPLAYS = 4, CUDA_MAPS = 4 };
enum { CUDA_PAGES = 256, CUDA_PAGE_SHIFT = 21 };

/* What copies arrays for a launch (cuda/copies.c). */
typedef struct CudaCopier {
  bool tried;
  CuModule module;
  CuFunction function[2]; /* of elements of 1 and 2 bytes */
  CuMemPool pool;         /* NULL: there is none */
} CudaCopier;

typedef struct Cuda {
  CudaApi api;
  atomic_int references;
  CuContext context;
  bool primary; /* the context is the device's primary one, and retained */
  CuDevice device;
  char name[32]; /* as the device was opened: "cuda:0" */
  int sm;        /* compute capability: 90 */
  int driver_version;
  int max_block[3], shared_per_block;
  bool pageable;     /* kernels reach all of the host's memory */
  bool blocking;     /* NEREID_CUDA_BLOCKING */
  bool replays_work; /* cuda_replays_work */
  /* What was launched since the last synchronize: the first kernel, and whether there was another. Written without a
   * lock. */
  _Atomic(CudaKernel *) suspect;
  atomic_bool several;
  _Atomic(void *) suspect_stream; /* the first one's, and whether there was another */
  atomic_bool several_streams;
  /* 2 MiB pages that pointers of the device's memory were found in; a hash table whose entries push each other out. */
  _Atomic uint64_t pages[CUDA_PAGES];
  /* Of the rest, and of a kernel's being freed. Nobody waits for the GPU under it, and no warm launch takes it, but of
   * kernels that print, assert, or run listed programs. */
  pthread_mutex_t lock;
  pthread_cond_t changed; /* a CudaReport: no launch is entering, or it was handed back */
  char *lost;             /* the context is lost: what was said then */
  nereid_error *pending;  /* a fault found where it could not be said */
  CudaReport *reports;    /* the open ones */
  CudaList *lists;        /* program lists that running kernels may read */
  int list_count;
  CudaLocked *locked;
  uint64_t captured_in; /* the capture whose last launch of a kernel with waits_for_grid is `captured`; 0: none */
  CuGraphNode captured;
  CudaCopier copier;
} Cuda;

/* Which kernels a fault may be of; name "": none that we launched. */
typedef struct CudaBlame {
  char name[128];
  bool several;
} CudaBlame;

struct CudaKernel {
  Cuda *cuda;
  const char *name;
  CuModule module;
  CuFunction function;
  unsigned threads;         /* of a block; CUDA C: the most */
  atomic_uint shared_bytes; /* dynamic; CUDA C: so many are allowed so far */
  bool is_cuda_c;           /* the launch says block and shared memory */
  int registers;
  bool uses_list;
  bool waits_for_grid;      /* before it reaches memory it waits for the kernel ahead of it in the stream */
  bool persistent;          /* a launch has as many blocks as run at once, and tells them how many programs there are */
  unsigned blocks;          /* that run at once */
  int cluster;              /* of so many blocks at most; 0, 1: none */
  CudaList *captured_lists; /* a graph may read them as long as the kernel lives */
  atomic_bool launched;     /* since a synchronize: the module must not be unloaded */
  CudaReplay replays[CUDA_REPLAYS];
  CudaMaps maps[CUDA_MAPS];
  atomic_uint plain_launches; /* on streams that had no repeat */
  atomic_bool no_replays;     /* the driver makes none of this kernel */
  /* device_print and device_assert */
  DiagSites *sites;
  bool reports;
  CudaReport *spare;
  int closed; /* of its reports: who synchronizes will read them */
};

/* ---- cuda/device.c ----------------------------------------------------------------------------------------------- */
void cuda_unref(Cuda *c);
typedef enum { CUDA_WAS_CURRENT, CUDA_PUSHED, CUDA_NOT_CURRENT } CudaEntered;
/* Makes the context current if it is not. A thread that had none keeps it; one with another gets that back from
 * cuda_leave. */
CuResult cuda_enter(Cuda *c, CudaEntered *entered);
void cuda_leave(Cuda *c, CudaEntered entered);
typedef struct CudaRelaxed {
  bool relaxed;
  int mode; /* the thread's before */
} CudaRelaxed;
/* Until cuda_restrict the calling thread may do what a capture, of any stream and by any thread, forbids else. */
static inline CudaRelaxed cuda_relax(const Cuda *c) {
  CudaRelaxed was = {.mode = CU_CAPTURE_RELAXED};
  was.relaxed = c->api.thread_capture_mode && !c->api.thread_capture_mode(&was.mode);
  return was;
}
static inline void cuda_restrict(const Cuda *c, CudaRelaxed was) {
  if (was.relaxed) c->api.thread_capture_mode(&was.mode);
}
/* "WHAT: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)", with the way out. Errors that end the
 * context name the kernels that may be meant. */
nereid_status cuda_error(Cuda *c, CuResult r, nereid_error **error, const char *format, ...) PRINTF_LIKE(4, 5);
/* The same under the lock, when a fault would be blame's. */
nereid_status cuda_error_blaming(Cuda *c, CuResult r, const CudaBlame *blame, nereid_error **error, const char *format,
                                 ...) PRINTF_LIKE(5, 6);

/* ---- cuda/load.c ------------------------------------------------------------------------------------------------- */
CudaKernel *cuda_kernel_create(nereid_device *d,
                               LoadedKernel *kernel); /* kernel->cuda, with nothing loaded; NULL: no memory */
enum { CUDA_LOG_BYTES = 16384 };
typedef struct CudaLoadError {
  CuResult result;
  nereid_status status;
  const char *hint; /* or NULL */
  char message[700];
  char info[CUDA_LOG_BYTES], error[CUDA_LOG_BYTES]; /* what the driver wrote while it made machine code */
} CudaLoadError;
/* A cubin or PTX, loaded; else false. ptx may be NULL where there is a cubin. */
bool cuda_load(CudaKernel *k, const void *cubin, const char *ptx, const char *function, CudaLoadError *why);
CuResult cuda_keep_reports(CudaKernel *k, DiagSites *sites); /* of a kernel that prints or asserts; takes sites */
void cuda_discard(LoadedKernel *k);
/* DeviceKind.load */
nereid_status cuda_load_bundle(nereid_device *d, LoadedKernel *k, const BundleCode *code, nereid_error **error);
/* Lets k's blocks have so many bytes of dynamic shared memory. In the context. */
nereid_status cuda_allow_shared(CudaKernel *k, unsigned bytes, nereid_error **error);

/* ---- cuda/graph_replay.c ----------------------------------------------------------------------------------------- */
bool cuda_replays_work(const CudaApi *api);
/* Launches by a graph of the kernel's, if one may and there is one, or it is time that there is: true, with what the
 * driver said. The kernel's parameters are launch->params alone. In the context. */
bool cuda_replay_launch(Cuda *c, CudaKernel *k, const CuKernelNode *launch, CuStream stream, CuResult *result);
void cuda_replays_drop(CudaKernel *k); /* none of them runs; in the context */

/* ---- cuda/maps.c ------------------------------------------------------------------------------------------------- */
/* Copies that a launch made for its maps: to be given back after it. */
typedef struct CudaCopies {
  int count;
  CuPointer at[GPU_PLAN_MAPS];
} CudaCopies;

/* Those of k, which has some, for a launch: out gets them, and copies what they are of. copies NULL: whether they can
 * be made is all that is asked. In the context. */
GpuPlanFit cuda_maps_make(CudaKernel *k, const Launch *l, CudaMap *out, CudaCopies *copies);
void cuda_maps_drop(CudaKernel *k);

/* ---- cuda/copies.c ----------------------------------------------------------------------------------------------- */
/* Whether the array of a map with `padded` can be copied in this stream. In the context. */
bool cuda_may_copy(Cuda *c, CuStream stream, const GpuTensorMap *m);
/* Copies it, and makes m the copy's map; *out is to be given back after the launch, if it is not 0. */
CuResult cuda_copy_rows(Cuda *c, CuStream stream, GpuTensorMap *m, CuPointer *out);
void cuda_free_copies(Cuda *c, CuStream stream, const CudaCopies *copies);
void cuda_drop_copier(Cuda *c); /* in the context; nothing runs that uses it */

/* ---- cuda/launch.c ----------------------------------------------------------------------------------------------- */
nereid_status cuda_launch(nereid_device *d, const Launch *l, nereid_error **error);
GpuPlanFit cuda_plan_fit(nereid_device *d, const Launch *l);
nereid_status cuda_synchronize(nereid_device *d, nereid_error **error);
nereid_status cuda_synchronize_stream(nereid_device *d, void *stream, nereid_error **error);
/* Waits for k, if it was launched, and takes it out of all lists; a fault is kept for the next synchronize. */
void cuda_retire(CudaKernel *k);
CudaList *cuda_take_lists(Cuda *c);            /* of kernels that were launched. Under the lock */
void cuda_free_lists(Cuda *c, CudaList *list); /* when all kernels that may read them have ended. In the context */

/* ---- cuda/messages.c: in the context, where it says no more -------------------------------------------------------- */
CuResult cuda_reports_prepare(CudaKernel *k); /* a buffer, so that the first launch finds one */
/* Around the driver's launch of a kernel that reports, which writes to *out's diag. */
nereid_status cuda_report_enter(CudaKernel *k, CuStream stream, bool captured, const nereid_options *o,
                                CudaReport **out, nereid_error **error);
GpuDiag *cuda_report_diag(const CudaReport *report);
void cuda_report_leave(CudaReport *report);
void cuda_reports_graph(Cuda *c, CuStream stream); /* a graph of ours was launched there */
/* Before a wait for all, or for a stream: closes what launches up to now write to. Under the lock, which it may let go
 * for a moment. */
CudaReport *cuda_reports_close(Cuda *c, bool all, CuStream stream);
/* After the wait, without the lock: hands out the lines, if the launches have `ended`; the first failed assert becomes
 * *error. */
nereid_status cuda_reports_read(Cuda *c, CudaReport *closed, bool ended, nereid_error **error);
/* once all launches have ended; without the context its memory has gone too */
void cuda_reports_discard(CudaKernel *k, bool in_context);

/* ---- cuda_stream.c ----------------------------------------------------------------------------------------------- */
extern const AsyncKind cuda_async;

#endif
