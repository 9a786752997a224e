/* runtime: what include/nereid.h promises, over the compilers. Private to src/runtime.
 *
 * A launch goes this way:
 *
 *     nereid_launch ──bind.c──▶ Call: every parameter's argument, checked, and the key of its specialization
 *                   ──cache.c─▶ Specialization: found without a lock, or compiled once (compile.c)
 *                   ──runtime/marshal.c──▶ one 8-byte slot per argument of the Func
 *                   ──launch.c▶ DeviceKind.launch: cpu, interp, cuda
 *
 * A device kind is one table of functions; device.c is what all kinds share. A module owns its specializations, of all
 * device kinds; none goes before the module does, so that whoever found one may keep it.
 */
#ifndef NEREID_RUNTIME_H
#define NEREID_RUNTIME_H

#include <nereid.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cpu/cpu.h"
#include "front/front.h"
#include "gpu/gpu.h"
#include "interp/interp.h"
#include "prof/record/trace.h"

/* ---- error.c: all return the status, so that `return error_set(...)` ends a function; `out` may be NULL ---------- */

/* hint may be NULL. */
nereid_status error_set(nereid_error **out, nereid_status status, const char *hint, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* "cannot open PATH: REASON" and the like, with errno's text: format says all but the reason. */
nereid_status error_errno(nereid_error **out, nereid_status status, int number, const char *format, ...)
    PRINTF_LIKE(4, 5);
nereid_status error_out_of_memory(nereid_error **out);
nereid_status error_null(nereid_error **out, const char *function, const char *what);
/* From a failed compilation's diagnostics. `otherwise` is the status unless memory ran out. */
nereid_status error_from_context(nereid_error **out, nereid_status otherwise, const Context *cx);
/* With a place in a source. */
nereid_status error_at(nereid_error **out, nereid_status status, Span span, const char *hint, const char *message);
/* Takes text, malloc'ed, which is all that there is to print. */
nereid_status error_rendered(nereid_error **out, nereid_status status, const char *message, char *text,
                             const char *path, int line, int column);
nereid_error *error_copy(const nereid_error *e);

/* ---- device.c ---------------------------------------------------------------------------------------------------- */

typedef struct DeviceKind DeviceKind;
typedef struct Specialization Specialization;
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
};

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

  bool optimizes;       /* wants the Func after tile_optimize */
  bool runs_ptx;        /* takes inline assembly as it stands */
  bool finds_undefined; /* with `debug`, says where an undefined element is used */
  /* Makes s runnable from func; may diag_fail(). *phase says what a failure is called. Sets s->keeps_context when func
   * must live. */
  void (*compile)(Specialization *s, Func *func, Context *cx, Buf *text, volatile nereid_status *phase);
  /* The same for a kernel of CUDA C, for kinds that have such; s->slots are there. */
  void (*compile_cuda_c)(Specialization *s, Context *cx, volatile nereid_status *phase);
  void (*discard)(Specialization *s); /* what compile made */
  nereid_status (*launch)(nereid_device *d, const Launch *l, nereid_error **error);
  /* Whether the tensor maps of l->spec, which has some, can be made of l's arguments; else a specialization without
   * maps must be launched. */
  bool (*takes_maps)(nereid_device *d, const Launch *l);
  nereid_status (*synchronize)(nereid_device *d, nereid_error **error);

  const AsyncKind *async; /* NULL: what is asked of the device has been done when the call returns */
  bool lists_programs;    /* options.programs needs a specialization of its own */
  /* What decides on which configuration is fastest: model, threads or multiprocessors, driver. NULL: the device does
   * not measure. */
  void (*signature)(nereid_device *d, Buf *out);
};
extern const DeviceKind device_cpu, device_interp, device_sim, device_cuda;
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
/* The first and last byte of the allocation that p points into. */
bool device_array_around(nereid_device *d, const void *p, int64_t range[2]);
/* Total size of the distinct allocations that the pointers lie in; memory that the device was not told of counts
 * nothing. */
int64_t device_bytes_behind(nereid_device *d, const uint64_t *pointers, int n);
/* From p to the end of the array that it lies in; -1: the device knows none. */
int64_t device_bytes_from(nereid_device *d, const void *p);

/* ---- module.c ---------------------------------------------------------------------------------------------------- */

typedef struct ParamRule {
  const char *name, *annotation;
  bool is_constexpr, has_default, no_specialize, no_align;
  bool is_read, in_tune_key, is_set;  /* by decorators: see DecoratorUse */
  bool forced_pointer, forced_number; /* an annotation says so; the number's type is dtype */
  Dtype dtype;
  bool is_c;          /* of a CUDA C kernel: annotation is its C type */
  bool forced_target; /* is_c: a pointer to elements of type dtype */
  bool cannot_pass;   /* is_c: neither a number nor a pointer */
  int align;          /* is_c: of what it points to */
} ParamRule;

typedef struct KernelInfo {
  nereid_kernel_info info; /* the first member: nereid_kernel_at's result */
  int index;               /* in its module */
  const ParamRule *rules;
  const char **names; /* of the parameters, NULL-terminated */
  bool decorated;     /* by heuristics or autotune */
  bool is_template;   /* of CUDA C: must be named with its arguments */
} KernelInfo;

/* Text of a module, and of what decides on a specialization. */
struct nereid_module {
  char *path, *text;
  size_t size;
  Arena *arena; /* of what follows, down to the cache */
  KernelInfo *kernels;
  const char **kernel_names; /* NULL-terminated */
  int kernel_count;
  struct Cache *cache;
  bool is_cuda_c;
  pthread_mutex_t lock;                         /* of the arena and the instances once the module is loaded */
  struct Instance *instances;                   /* of a CUDA C file's templates */
  struct Winner *winners;                       /* measure/tuning_cache.c */
  pthread_mutex_t tuning_cache_lock, tune_lock; /* of the winners; one kernel is measured at a time */
  ForkHook fork, tuning_cache_fork;
};
const KernelInfo *module_kernel(const nereid_module *m, const char *name,
                                nereid_error **error); /* NULL: error is set */

/* ---- bind.c ------------------------------------------------------------------------------------------------------ */

/* The arguments of one launch, one per parameter, and the key of the specialization they need. Equal keys give equal
 * ArgSpecs. Lies on the stack; call_free gives back what did not fit. */
typedef struct Call {
  const KernelInfo *kernel;
  const nereid_arg **args; /* per parameter; NULL: missing */
  unsigned char *key;
  size_t key_size, key_cap;
  uint64_t hash;
  bool failed; /* out of memory */
  bool tunes;  /* a configuration may be chosen by the values that autotune's `key` names */
  /* all numbers are in the key, not just those that decorators read: a constexpr is left open that these do not set */
  bool reads_values;
  bool open;            /* a constexpr without a value: tuning may have found one */
  const Chosen *chosen; /* what tuning found; set after binding */
  const nereid_arg *args_inline[48];
  unsigned char key_inline[640];
} Call;
nereid_status call_bind(Call *c, const KernelInfo *k, const DeviceKind *kind, const nereid_arg *args, int n,
                        const nereid_options *options, nereid_error **error);
/* The same for a launch on d. */
nereid_status call_bind_on(Call *c, const KernelInfo *k, const nereid_device *d, const nereid_arg *args, int n,
                           const nereid_options *options, nereid_error **error);
/* Whether a number given for r is in the key itself. */
bool call_value_counts(const Call *c, const ParamRule *r);
void call_free(Call *c); /* also after call_bind failed */
/* What of the key is the same in every process. */
const void *call_stable_key(const Call *c, size_t *size);
/* How a launch's configuration is found, as the key has it. NUMERIC: with a grid of numbers, only what does not change
 * parameters. */
typedef enum {
  TUNES_NOT,
  TUNES_ANY,
  TUNES_NUMERIC,
  TUNES_KNOWN
} Tunes; /* KNOWN: options.grid is "": compiled without a grid, so that nothing can be measured */
Tunes call_tunes(const nereid_device *d, const nereid_options *o);
/* The error for a call that is `open`, when nothing was found. */
nereid_status call_still_open(const Call *c, nereid_error **error);
/* An argument as the specialization sees it. For numbers, `type` is what it is passed as. */
typedef struct Seen {
  ArgKind kind;
  Dtype type;
  bool fixed;                /* the type is asked for, not suggested by the value */
  bool is_one, is_divisible; /* ints; of pointers is_divisible alone */
} Seen;
Seen arg_see(const ParamRule *r, const nereid_arg *a);
/* What the front end is told of the arguments; in cx's arena. */
ArgSpec *call_specs(const Call *c, Context *cx);
/* The parameter whose part of the key holds byte `offset`. */
const char *call_param_at(const Call *c, size_t offset);
/* limits.c */
nereid_limits limits_of(const nereid_options *o); /* none of them 0; o may be NULL */
Context *context_within(const nereid_options *o); /* a context with these limits */

nereid_status options_check(const nereid_options *options, nereid_error **error);

/* ---- runtime/marshal.c ------------------------------------------------------------------------------------------- */

typedef struct ArgSlot { /* a front Slot without its compilation */
  SlotKind kind;
  int param, path[4], depth, dim;
  Dtype dtype;
  bool is_pointer;
  int align; /* of a pointer of CUDA C; 0: the size of dtype */
} ArgSlot;
/* Fills out[s->slot_count]. */
nereid_status call_pack(const Call *c, const Specialization *s, uint64_t *out, nereid_error **error);
/* What the caller says that the slots' arrays hold. */
void call_contents(const Call *c, const Specialization *s, HostArray *out);
/* One slot that is a whole argument. */
nereid_status pack_arg(const KernelInfo *k, const ArgSlot *s, const nereid_arg *a, uint64_t *out, nereid_error **error);

/* ---- plan.c ------------------------------------------------------------------------------------------------------ */

/* how arguments like those that a function was compiled with are checked and packed in one pass */
typedef struct ArgPlan ArgPlan;
/* NULL: they are not of the simple kind, or memory ran out; then each run binds and packs. */
ArgPlan *arg_plan_create(const Call *c, const Specialization *s, const nereid_arg *args, int n);
void arg_plan_free(ArgPlan *p);
/* Fills the specialization's slots. False: something differs, which is for call_bind to name. */
bool arg_plan_pack(const ArgPlan *p, const nereid_arg *args, int n, uint64_t *out);

/* ---- compile.c --------------------------------------------------------------------------------------------------- */

struct Specialization {
  uint64_t hash;
  unsigned char *key;
  size_t key_size;
  nereid_module *module;
  const KernelInfo *kernel;
  const DeviceKind *kind;
  ArgSlot *slots;
  int slot_count, pointer_count;
  nereid_function_info info;
  Context *cx; /* interp: where func lies */
  const Func *func;
  bool keeps_context;
  CpuCode *code;                 /* cpu */
  struct AssertLocation *places; /* of its asserts */
  _Atomic int64_t program_ns;    /* cpu: what one program took lately, 0: not known */
  nereid_device *device;         /* which asked for it; only while it is compiled */
  bool lists_programs;           /* compiled for options.programs */
  const char *without;           /* while it is compiled: what the options say */
  bool persist, specialize;      /* likewise */
  struct Constant {
    char *name;
    double value;
  } * constants; /* of constexprs that are numbers */
  int constant_count;
  char *config; /* "BLOCK=1024\nnum_warps=4\n..." */
  struct GridMemo *grid_memo;
  int *zeroed, zeroed_count; /* parameters: arrays that are zeroed before each launch */
  uint64_t reads, writes;    /* parameters whose arrays may be; from the 64th on bit 63 */
  uint64_t code_hash;        /* of the text that was compiled; 0: not known */
  struct CudaKernel *cuda;
  struct GpuLaunchPlan *plan;      /* gpu/launch_plan.h; NULL: a launch computes nothing */
  const LaneFunc *lane;            /* sim; in cx */
  struct DiagSites *sites;         /* sim */
  struct InstrumentNames *regions; /* inside.h: of an instrumented kernel, else NULL */
  struct CpuOverlap *overlap;      /* cpu: its text for arguments that overlap, where that differs */
};
/* Runs the front end on the call in cx, which must be in a context_try; the Func is not optimised. cuda_sm as of a
 * device. */
Compiled *compile_front(nereid_module *m, const Call *c, const nereid_options *options, int cuda_sm, Context *cx,
                        Buf *print);
/* What of `from` a launch packs its arguments by, into s->slots, malloc'ed. */
void specialization_keep_slots(Specialization *s, const Compiled *from, Context *cx);
/* NULL: error is set. */
Specialization *specialization_create(nereid_module *m, const Call *c, nereid_device *d, const nereid_options *options,
                                      nereid_error **error);
/* The same, but for kernels that hold, on a GPU, more than so many bytes of one tile in a thread: NEREID_UNSUPPORTED.
 * 0: no limit. */
Specialization *specialization_create_within(nereid_module *m, const Call *c, nereid_device *d,
                                             const nereid_options *options, int64_t most_thread_bytes,
                                             nereid_error **error);
void specialization_destroy(Specialization *s);
struct GridMemo *grid_memo_create(void);
void grid_memo_free(struct GridMemo *g);
/* Hands the lines of `text` to options->print, or stderr. */
void print_lines(const Buf *text, const nereid_options *options);

/* ---- cache.c ----------------------------------------------------------------------------------------------------- */

typedef struct Cache Cache;
Cache *cache_create(void);
void cache_destroy(Cache *c);                                                   /* with all specializations */
Specialization *cache_find(Cache *c, uint64_t hash, const void *key, size_t n); /* takes no lock; NULL when absent */
/* Finds, or calls make once however many threads ask at a time; the others wait and get its result or a copy of its
 * error. */
Specialization *cache_get(Cache *c, uint64_t hash, const void *key, size_t n,
                          Specialization *(*make)(void *arg, nereid_error **error), void *arg, nereid_error **error);

/* ---- launch.c ---------------------------------------------------------------------------------------------------- */

struct Launch {
  Specialization *spec;
  const uint64_t *args;
  int32_t grid[3];
  int64_t total;                                               /* programs of the grid */
  const nereid_options *options;                               /* never NULL */
  void *stream;                                                /* the kind's handle; NULL: the default stream */
  bool (*step)(void *arg, InterpFrame *frame, const Op *next); /* interp only */
  void *step_arg;
};
/* Whether a launch of s with these slots may go on; else one of a specialization that launch_without_maps is for. */
bool launch_takes_maps(nereid_device *d, Specialization *s, const int64_t grid[3], const uint64_t *slots);
/* The options for that; text: room for options.without. */
enum { WITHOUT_TEXT = 256 };
nereid_options launch_without_maps(const nereid_options *o, char text[WITHOUT_TEXT]);
extern const nereid_options options_default;
nereid_status grid_check(const int64_t grid[3], const nereid_options *options, int32_t out[3], int64_t *total,
                         nereid_error **error);
/* Of counts that are 64 bits wide. */
nereid_status grid_countable(int64_t programs, nereid_error **error);
/* Finds or compiles; nothing is measured. */
nereid_status launch_specialization(nereid_device *d, nereid_module *m, const Call *c, const nereid_options *options,
                                    Specialization **out, nereid_error **error);
/* profiled: what a profile is told of the launch; NULL: nothing. */
nereid_status launch_call(nereid_device *d, void *stream, const Call *c, Specialization *s, const int64_t grid[3],
                          const nereid_options *options, bool (*step)(void *, InterpFrame *, const Op *),
                          void *step_arg, const ProfCall *profiled, nereid_error **error);

/* ---- grid.c ------------------------------------------------------------------------------------------------------ */

/* given, or else what o->grid says for the call and the specialization. */
nereid_status grid_find(const Call *c, const Specialization *s, const int64_t given[3], const nereid_options *o,
                        int64_t out[3], nereid_error **error);

/* ---- inspect.c --------------------------------------------------------------------------------------------------- */

const GpuTarget *target_named(const char *name); /* a target's name, or a GPU device's; NULL: there is none */

/* ---- stream.c ---------------------------------------------------------------------------------------------------- */

/* The handle of a stream that d's launches may go to; s may be NULL. Of a device without an AsyncKind: its Recording,
 * or NULL. */
nereid_status stream_handle(const nereid_device *d, const nereid_stream *s, void **out, nereid_error **error);

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

/* "message, in program (0, 0, 0), element [3, 4]"; program NULL, rank 0: the message names it, or there is none */
void fault_message(Buf *out, const char *message, const int32_t program[3], int rank, const int32_t *index);

/* ---- runtime/assert_places.c ------------------------------------------------------------------------------------- */

typedef struct AssertLocation AssertLocation;                /* a list of the places of a Func's asserts */
bool fault_places_keep(const Func *f, AssertLocation **out); /* false: out of memory; *out holds what there is */
void assert_locations_free(AssertLocation *p);
/* line is what compiled code told; of several files main_path is meant first. */
nereid_status fault_places_error(nereid_error **out, nereid_status status, const AssertLocation *places,
                                 const char *main_path, const char *message, int line);
/* The two halves of it for one place: what a diagnostic there says, with a mark in the message's stead (malloc'ed;
 * NULL: out of memory), and the error that it makes with a message. */
char *assert_location_text(Span span);
nereid_status assert_location_error(nereid_error **out, nereid_status status, const char *place_text,
                                    const char *message, const char *path, int line, int column);

/* ---- diag.c: what device_print and device_assert of a GPU's kernel left in a GpuDiag ----------------------------- */

typedef struct DiagSites DiagSites;                       /* a LaneFunc's sites, apart from its compilation */
bool diag_sites_keep(const LaneFunc *f, DiagSites **out); /* false: out of memory. NULL in *out: it has none */
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
