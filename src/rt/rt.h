/* rt: what runs compiled kernels: devices, memory, streams, launches. It knows nothing of compilers: libnereid-rt is
 * this folder over base/, and libnereid is this folder below the compilers. Private to src/rt and src/runtime.
 *
 *     a compiled kernel, or one of a bundle ──▶ LoadedKernel: its code, loaded, and how its arguments are packed
 *     launch.c ──▶ DeviceKind.launch: cpu (cpu.c), cuda (cuda/); interp and sim stand in src/runtime
 *
 * A device kind is one table of functions; device.c is what all kinds share. What rt asks of what stands above it are
 * tables, too (hooks.h, device_kinds); alone.c fills them where nothing does.
 */
#ifndef NEREID_RT_H
#define NEREID_RT_H

#include <nereid.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rt/cpu_code.h"
#include "rt/gpu_memory.h"
#include "rt/launch_plan.h"

/* ---- error.c: all return the status, so that `return error_set(...)` ends a function; `out` may be NULL ---------- */

/* hint may be NULL. */
nereid_status error_set(nereid_error **out, nereid_status status, const char *hint, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* "cannot open PATH: REASON" and the like, with errno's text: format says all but the reason. */
nereid_status error_errno(nereid_error **out, nereid_status status, int number, const char *format, ...)
    PRINTF_LIKE(4, 5);
nereid_status error_out_of_memory(nereid_error **out);
/* "PATH: REASON" of a file that is not what it should be, unless *first has a failure already, which stays. False. */
bool error_bad_file(nereid_status *first, nereid_error **out, const char *path, const char *hint, const char *format,
                    ...) PRINTF_LIKE(5, 6);
nereid_status error_null(nereid_error **out, const char *function, const char *what);
/* With a place in a source. */
nereid_status error_at(nereid_error **out, nereid_status status, Span span, const char *hint, const char *message);
/* Takes text, malloc'ed, which is all that there is to print. path NULL: it has no place. */
nereid_status error_rendered(nereid_error **out, nereid_status status, const char *message, char *text,
                             const char *path, int line, int column);
nereid_error *error_copy(const nereid_error *e);
/* What *out, which may be NULL, is about; need: of ERROR_RESOURCES; calls: through which its place was reached. */
void error_about(nereid_error **out, ErrorKind kind, const Need *need, const Span *calls);

/* ---- structs.c: public structs that have a `size` grow at their end ------------------------------------------------ */

/* Of a program that was built against another version, of which it has `theirs` bytes: what it does not have is zero.
 * False: `theirs` cannot be. */
bool struct_take(void *out, size_t size, const void *given, size_t theirs);
#define STRUCT_TAKE(out, given) struct_take((out), sizeof *(out), (given), (given)->size)
/* Fills the caller's struct, whose first member is its size, as far as that goes. */
bool struct_give(void *given, const void *from, size_t size);

/* ---- device.c ---------------------------------------------------------------------------------------------------- */

typedef struct DeviceKind DeviceKind;
typedef struct LoadedKernel LoadedKernel;
typedef struct BundleCode BundleCode; /* bundle.h */
typedef struct Launch Launch;
typedef struct ProfCall ProfCall;

typedef struct Allocation {
  uintptr_t base;
  int64_t bytes;
  bool owned; /* by nereid_alloc; else registered */
} Allocation;

struct nereid_device {
  const DeviceKind *kind;
  char name[32];
  int threads;
  void *state;           /* the kind's own */
  uint64_t identity;     /* part of every key: devices whose specializations cannot be shared differ in it */
  bool autotunes;        /* NEREID_AUTOTUNE was not 0 when it was opened */
  int cuda_sm;           /* 90: what is compiled for it is for a GPU of compute capability 9.0; else 0 */
  pthread_rwlock_t lock; /* of the allocations; launches only read */
  ForkHook fork;
  Allocation *allocations; /* by base */
  int allocation_count, allocation_cap;
  _Atomic(struct nereid_bundle *) bundles; /* that programs carry inside; and what closes them, where there are some */
  void (*_Atomic close_bundles)(nereid_device *d);
};

typedef nereid_status (*DeviceCall)(void *arg, nereid_error **error); /* of a library that works on the device, too */

/* Streams and events of a device that works while the host goes on; handles are the kind's own, NULL is the default
 * stream. */
typedef enum { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE } CopyKind;
typedef struct AsyncKind {
  nereid_status (*stream_create)(nereid_device *d, void **out, nereid_error **error);
  void (*stream_destroy)(nereid_device *d, void *stream);
  nereid_status (*stream_synchronize)(nereid_device *d, void *stream, nereid_error **error);
  nereid_status (*stream_wait)(nereid_device *d, void *stream, void *event, nereid_error **error);
  nereid_status (*event_create)(nereid_device *d, void **out, nereid_error **error);
  void (*event_destroy)(nereid_device *d, void *event);
  nereid_status (*event_record)(nereid_device *d, void *event, void *stream, nereid_error **error);
  nereid_status (*event_synchronize)(nereid_device *d, void *event, nereid_error **error);
  nereid_status (*event_elapsed)(nereid_device *d, void *start, void *end, double *ms, nereid_error **error);
  nereid_status (*copy)(nereid_device *d, void *stream, void *dst, const void *src, int64_t bytes, CopyKind kind,
                        nereid_error **error);
  nereid_status (*fill)(nereid_device *d, void *stream, void *dst, int value, int64_t bytes, nereid_error **error);
  nereid_status (*host_alloc)(nereid_device *d, int64_t bytes, void **out, nereid_error **error);
  void (*host_free)(nereid_device *d, void *p);
  nereid_status (*graph_begin)(nereid_device *d, void *stream, nereid_error **error);
  nereid_status (*graph_end)(nereid_device *d, void *stream, void **out, nereid_error **error);
  nereid_status (*graph_launch)(nereid_device *d, void *graph, void *stream, nereid_error **error);
  void (*graph_free)(nereid_device *d, void *graph);
  nereid_status (*call)(nereid_device *d, DeviceCall call, void *arg, nereid_error **error); /* in its context */
} AsyncKind;

struct DeviceKind {
  const char *name;
  /* `suffix` is what follows the colon of "cpu:2", or NULL. Sets d->threads and d->state. */
  nereid_status (*open)(nereid_device *d, const char *suffix, nereid_error **error);
  void (*close)(nereid_device *d);
  void (*describe)(nereid_device_info *out); /* threads, memory_bytes, available, description */
  /* Instead, for a kind of which the machine may have several: fills up to max rows, returns how many there are. */
  int (*enumerate)(nereid_device_info *out, int max);

  void *(*alloc)(nereid_device *d, int64_t bytes); /* NULL: out of memory */
  /* Instead of alloc, for a kind that has more to say about a failure. */
  nereid_status (*allocate)(nereid_device *d, int64_t bytes, void **out, nereid_error **error);
  void (*free)(nereid_device *d, void *p, int64_t bytes);
  bool (*attach)(nereid_device *d, void *p, int64_t bytes, const char *name); /* false: out of memory */
  /* instead of attach, likewise */
  nereid_status (*adopt)(nereid_device *d, void *p, int64_t bytes, nereid_error **error);
  void (*detach)(nereid_device *d, void *p);
  nereid_status (*copy_in)(nereid_device *d, void *dst, const void *host, int64_t bytes, nereid_error **error);
  nereid_status (*copy_out)(nereid_device *d, void *host, const void *src, int64_t bytes, nereid_error **error);

  void (*discard)(LoadedKernel *k); /* what was made or loaded to run it */
  /* Makes k, which has its slots, runnable by code of a bundle; NULL: bundles have none for this kind. */
  nereid_status (*load)(nereid_device *d, LoadedKernel *k, const BundleCode *code, nereid_error **error);
  nereid_status (*launch)(nereid_device *d, const Launch *l, nereid_error **error);
  /* Whether l->kernel, which has a plan, may be launched with l's arguments; else a kernel without what its plan is for
   * must be. */
  GpuPlanFit (*plan_fit)(nereid_device *d, const Launch *l);
  nereid_status (*synchronize)(nereid_device *d, nereid_error **error);

  const AsyncKind *async; /* NULL: what is asked of the device has been done when the call returns */
  bool lists_programs;    /* options.programs needs a specialization of its own */
  /* What decides on which configuration is fastest: model, threads or multiprocessors, driver. NULL: the device does
   * not measure. */
  void (*signature)(nereid_device *d, Buf *out);
};
extern const DeviceKind device_cpu, device_cuda;
extern const DeviceKind *const device_kinds[];                  /* all that there are here; ends with NULL */
extern const char device_kinds_hint[];                          /* "there are cpu, ..." */
const DeviceKind *device_kind_find(const char *name, size_t n); /* NULL when there is none */
/* The rest of opening: a device of this kind whose `open` is given. */
nereid_status device_create(const DeviceKind *kind, const char *name, nereid_device **out,
                            nereid_status (*open)(nereid_device *d, const void *arg, nereid_error **error),
                            const void *arg, nereid_error **error);
/* A copy of so many bytes must not leave the array that `device` lies in. */
nereid_status device_check_copy(nereid_device *d, const char *function, const void *device, const void *host,
                                int64_t bytes, nereid_error **error);
/* ---- allocations.c: the memory that a device knows of ------------------------------------------------------------ */

bool device_add_allocation(nereid_device *d, Allocation a); /* false: out of memory */
/* Takes the entry that begins at p off the list. */
bool device_take_allocation(nereid_device *d, const void *p, bool owned, Allocation *out);
/* Arrays that the caller knows of, by address, each address once: for what this thread launches, until it says 0 of
 * them. They stay the caller's. */
void device_know(const Allocation *arrays, int n);
/* The first and last byte of the allocation that p points into. */
bool device_array_around(nereid_device *d, const void *p, int64_t range[2]);
/* Total size of the distinct allocations that the pointers lie in; memory that the device was not told of counts
 * nothing. */
int64_t device_bytes_behind(nereid_device *d, const uint64_t *pointers, int n);
/* From p to the end of the array that it lies in; -1: the device knows none. */
int64_t device_bytes_from(nereid_device *d, const void *p);

/* ---- a compiled kernel ------------------------------------------------------------------------------------------- */

typedef struct ArgSlot { /* a front Slot without its compilation */
  SlotKind kind;
  int param, path[4], depth, dim;
  Dtype dtype;
  bool is_pointer;
  int align; /* of a pointer of CUDA C; 0: the size of dtype */
} ArgSlot;
/* One slot that is a whole argument, of a kernel's parameter; the names serve messages. */
nereid_status pack_arg(const char *kernel, const char *param, const ArgSlot *s, const nereid_arg *a, uint64_t *out,
                       nereid_error **error);

enum { ARG_NESTING = 4 }; /* of tuples: as long as a slot's path */
/* Whether a tensor descriptor is one; else why not, to stand after "parameter 'x' of kernel 'k' ". */
bool descriptor_fits(const nereid_arg *a, char *why, size_t size, const char **hint);
/* Appends Python's text of a value, for a constexpr; false: it has none. */
bool arg_python_text(Buf *out, const nereid_arg *a);

/* The code of `cpu` for arguments that overlap, where that differs; it is made when a launch first has such. */
typedef struct CpuOverlap CpuOverlap;
struct CpuOverlap {
  pthread_mutex_t lock;
  CpuCode *_Atomic code; /* NULL: not made yet */
  CpuCode *(*make)(CpuOverlap *o, nereid_error **error);
  void (*destroy)(CpuOverlap *o); /* with its lock and code */
};

/* All that a launch needs of a specialization; the compilers fill it, or a bundle. */
struct LoadedKernel {
  const DeviceKind *kind;
  const char *name, *const *params; /* of the kernel and its parameters, for messages */
  const char *path;                 /* of its source, likewise */
  ArgSlot *slots;                   /* malloc'ed */
  int slot_count, pointer_count;
  bool programs_wait, instrumented;
  bool borrows;                  /* slots, plan, places and sites are somebody else's */
  CpuCode *code;                 /* cpu */
  CpuOverlap *overlap;           /* cpu; or NULL */
  struct AssertLocation *places; /* cpu: of its asserts */
  _Atomic int64_t program_ns;    /* cpu: what one program took lately, 0: not known */
  struct CudaKernel *cuda;
  GpuLaunchPlan *plan; /* malloc'ed; NULL: a launch computes nothing */
};
void kernel_release(LoadedKernel *k); /* all that it holds */

/* ---- launch.c ---------------------------------------------------------------------------------------------------- */

typedef struct InterpFrame InterpFrame;
struct Launch {
  LoadedKernel *kernel;
  const uint64_t *args;
  int32_t grid[3];
  int64_t total;                                               /* programs of the grid */
  const nereid_options *options;                               /* never NULL */
  void *stream;                                                /* the kind's handle; NULL: the default stream */
  bool (*step)(void *arg, InterpFrame *frame, const Op *next); /* interp only */
  void *step_arg;
};
extern const nereid_options options_default;
/* o, or the defaults; *taken gets those of a program that was built against a version with fewer or more. */
const nereid_options *options_take(const nereid_options *o, nereid_options *taken);
#define TAKE_OPTIONS(o) \
  nereid_options taken_options; \
  (o) = options_take((o), &taken_options)
nereid_status grid_check(const int64_t grid[3], const nereid_options *options, int32_t out[3], int64_t *total,
                         nereid_error **error);
/* Done, or where a stream that is recorded has taken it. profiled: what a profile is told of the launch; NULL: nothing.
 */
nereid_status launch_now(nereid_device *d, const Launch *l, const ProfCall *profiled, nereid_error **error);
/* Whether a launch of k with these slots may go on; else one of another kernel must. */
GpuPlanFit launch_plan_fit(nereid_device *d, LoadedKernel *k, void *stream, const int64_t grid[3],
                           const uint64_t *slots);
/* The error of a launch that goes on nevertheless. */
nereid_status plan_refused(const char *kernel, GpuPlanFit fit, nereid_error **error);
/* Of an instrumented kernel: there is memory to record to. */
nereid_status launch_check_instrument(const Launch *l, nereid_error **error);
/* limits.c */
nereid_limits limits_of(const nereid_options *o); /* none of them 0; o may be NULL */

/* ---- stream.c ---------------------------------------------------------------------------------------------------- */

/* The handle of a stream that d's launches may go to; s may be NULL. Of a device without an AsyncKind: its Recording,
 * or NULL. */
nereid_status stream_handle(const nereid_device *d, const nereid_stream *s, void **out, nereid_error **error);
/* Calls it in the device's context; of a stream that is recorded each launch of the graph does, with a copy of *arg. */
nereid_status device_call(nereid_device *d, nereid_stream *s, DeviceCall call, const void *arg, size_t bytes,
                          nereid_error **error);

/* ---- graph.c ----------------------------------------------------------------------------------------------------- */

typedef struct Recording Recording; /* what goes into a stream of a device without an AsyncKind, while it is recorded */
void stream_set_recording(nereid_stream *s, Recording *r); /* stream.c; NULL: none any more */
void graph_recording_free(Recording *r);
nereid_status graph_record_launch(Recording *r, const Launch *l, nereid_error **error);
nereid_status graph_record_copy(Recording *r, void *to, const void *from, int64_t bytes, bool to_host,
                                nereid_error **error);
Recording *graph_recording_create(void);         /* NULL: out of memory */
bool graph_recording_failed(const Recording *r); /* out of memory: it is not whole */
nereid_status graph_replay(nereid_device *d, const Recording *r, nereid_error **error);
nereid_status graph_record_fill(Recording *r, void *to, unsigned char value, int64_t bytes, nereid_error **error);
nereid_status graph_record_call(Recording *r, DeviceCall call, const void *arg, size_t bytes, nereid_error **error);

/* "message, in program (0, 0, 0), element [3, 4]"; program NULL, rank 0: the message names it, or there is none */
void fault_message(Buf *out, const char *message, const int32_t program[3], int rank, const int32_t *index);

/* ---- assert_places.c --------------------------------------------------------------------------------------------- */

/* Where the device_asserts of compiled code stand: what a diagnostic there says, with ASSERT_MARK in the message's
 * stead. All malloc'ed. */
typedef struct AssertLocation {
  struct AssertLocation *next;
  int line, column;
  char *path, *text;
} AssertLocation;
#define ASSERT_MARK "\001"
void assert_locations_free(AssertLocation *p);
const AssertLocation *assert_location_find(const AssertLocation *list, const char *path, int line); /* path NULL: any */
/* line is what compiled code told; of several files main_path is meant first. */
nereid_status assert_places_error(nereid_error **out, nereid_status status, const AssertLocation *places,
                                  const char *main_path, const char *message, int line);
/* The error that such a text makes with a message. */
nereid_status assert_location_error(nereid_error **out, nereid_status status, const char *place_text,
                                    const char *message, const char *path, int line, int column);

/* ---- gpu_records.c: what device_print and device_assert of a GPU's kernel left in a GpuDiag ---------------------- */

/* A device_print or device_assert of a kernel, apart from its compilation. */
typedef struct DiagSite {
  bool is_assert, hex;
  int value_count;
  Type *types; /* value_count of them; of an assert one, when it is known */
  int type_count;
  char *text;  /* the prefix, or the assert's message */
  char *place; /* an assert's place, as in an AssertLocation */
  char *path;
  int line, column;
} DiagSite;
typedef struct DiagSites {
  int count;
  int threads; /* of the kernel */
  DiagSite site[];
} DiagSites;
void diag_sites_free(DiagSites *s);
enum { DIAG_BYTES = 4 << 20 }; /* a good size of a GpuDiag and its words */
/* Makes d, of `bytes` bytes, ready for a launch: all zeros but the capacity. (Of a device: copy such a header there,
 * and zero the rest, or all that an earlier launch used.) */
void diag_clear(GpuDiag *d, size_t bytes);
/* Prints the lines of the records in d, ordered by program, through options->print or to stderr. When an assert failed,
 * makes the error of the first one. `kernel` serves a message that has no record. Any number of threads may call. */
nereid_status diag_report(const DiagSites *sites, const GpuDiag *d, const char *kernel, const nereid_options *options,
                          nereid_error **error);

#endif
