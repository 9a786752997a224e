/* runtime: what include/nereid.h promises, over the compilers and src/rt. Private to src/runtime.
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

#include "cpu/cpu.h"
#include "front/front.h"
#include "gpu/gpu.h"
#include "interp/interp.h"
#include "rt/rt.h"

typedef struct Specialization Specialization;

/* ---- error_context.c --------------------------------------------------------------------------------------------- */

/* From a failed compilation's diagnostics. `otherwise` is the status unless memory ran out. */
nereid_status error_from_context(nereid_error **out, nereid_status otherwise, const Context *cx);
/* Hands the compilation's warnings to o->warn. */
void warn_from_context(const nereid_options *o, const Context *cx);
Context *context_within(const nereid_options *o); /* a context with these limits; o may be NULL */

/* ---- assert_places.c, gpu_sites.c: what a LoadedKernel keeps of the compilation ---------------------------------------- */

bool assert_places_keep(const Func *f, AssertLocation **out); /* false: out of memory; *out holds what there is */
char *assert_location_text(Span span);                        /* malloc'ed; NULL: out of memory */
bool diag_sites_keep(const LaneFunc *f, DiagSites **out);     /* false: out of memory. NULL in *out: it has none */

/* ---- module.c ---------------------------------------------------------------------------------------------------- */

typedef struct ParamRule {
  const char *name, *annotation;
  bool is_constexpr, has_default, no_specialize, no_align;
  bool is_rest;                       /* *args: a tuple of the arguments by position that no parameter takes */
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
  const nereid_module *module;
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
  uint64_t number;                              /* no other module of this process has it */
  pthread_mutex_t lock;                         /* of the arena and the instances once the module is loaded */
  struct Instance *instances;                   /* of a CUDA C file's templates */
  struct TunedConfig *winners;                  /* measure/tuning_cache.c */
  pthread_mutex_t tuning_cache_lock, tune_lock; /* of the winners; one kernel is measured at a time */
  ForkHook fork, tuning_cache_fork;
  /* ---- names.c; NULL: all names are the file's ---- */
  const HostSource *source;
  nereid_host host;
  FrontHost front_host;
  Map *names;   /* of `asked`; in the arena */
  Asked *asked; /* malloc'ed: what compilations asked for, under `lock` */
  int asked_count, asked_cap;
  atomic_int epoch; /* of the names' values: part of every key */
};
const KernelInfo *module_kernel(const nereid_module *m, const char *name,
                                nereid_error **error); /* NULL: error is set */

/* ---- names.c ----------------------------------------------------------------------------------------------------- */

/* The module's text for one compilation in cx. */
Module *module_front(const nereid_module *m, Context *cx, int cuda_sm);
/* Copies *source into the module. False: out of memory. */
bool names_keep_source(nereid_module *m, const nereid_source *source, const nereid_host *host);
/* Remembers what a compilation asked for. */
void names_remember(nereid_module *m, const Module *front);
/* Asks again; a name that has changed begins a new epoch. Before a specialization is looked for. */
void names_check(nereid_module *m);
void names_free(nereid_module *m);

/* ---- bind.c ------------------------------------------------------------------------------------------------------ */

/* The arguments of one launch, one per parameter, and the key of the specialization they need. Equal keys give equal
 * ArgSpecs. Lies on the stack; call_free gives back what did not fit. */
typedef struct Call {
  const KernelInfo *kernel;
  const nereid_arg **args; /* per parameter; NULL: missing */
  nereid_arg rest;         /* *args, of those given by position */
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
/* Which dims of a descriptor's array are divisible by 16, a bit each. */
uint8_t arg_divisible_shape(const ParamRule *r, const nereid_arg *a);
/* What the front end is told of the arguments; in cx's arena. */
ArgSpec *call_specs(const Call *c, Context *cx);
/* The parameter whose part of the key holds byte `offset`. */
const char *call_param_at(const Call *c, size_t offset);

nereid_status options_check(const nereid_options *options, nereid_error **error);

/* ---- runtime/marshal.c ------------------------------------------------------------------------------------------- */

/* Fills out[s->slot_count]. */
nereid_status call_pack(const Call *c, const Specialization *s, uint64_t *out, nereid_error **error);
/* What the caller says that the slots' arrays hold. */
void call_contents(const Call *c, const Specialization *s, HostArray *out);

/* ---- marshal_fast.c ---------------------------------------------------------------------------------------------- */

/* how arguments like those that a function was compiled with are checked and packed in one pass */
typedef struct ArgPlan ArgPlan;
/* NULL: they are not of the simple kind, or memory ran out; then each run binds and packs. */
ArgPlan *arg_plan_create(const Call *c, const Specialization *s, const nereid_arg *args, int n);
void arg_plan_free(ArgPlan *p);
/* Fills the specialization's slots. False: something differs, which is for call_bind to name. */
bool arg_plan_pack(const ArgPlan *p, const nereid_arg *args, int n, uint64_t *out);

/* ---- compile.c --------------------------------------------------------------------------------------------------- */

struct Specialization {
  LoadedKernel run; /* the first member: what a launch needs */
  uint64_t hash;
  unsigned char *key;
  size_t key_size;
  nereid_module *module;
  const KernelInfo *kernel;
  nereid_function_info info;
  Context *cx; /* interp: where func lies */
  const Func *func;
  bool keeps_context;
  nereid_device *device;    /* which asked for it; only while it is compiled */
  bool lists_programs;      /* compiled for options.programs */
  const char *without;      /* while it is compiled: what the options say */
  bool persist, specialize; /* likewise */
  struct Constant {
    char *name;
    double value;
  } * constants; /* of constexprs that are numbers */
  int constant_count;
  char *config; /* "BLOCK=1024\nnum_warps=4\n..." */
  struct GridMemo *grid_memo;
  int *zeroed, zeroed_count;       /* parameters: arrays that are zeroed before each launch */
  uint64_t reads, writes;          /* parameters whose arrays may be; from the 64th on bit 63 */
  int block_warps;                 /* sim, cuda: of a block; what num_ctas gives it counts (gpu/pipeline.c) */
  uint64_t code_hash;              /* of the text that was compiled; 0: not known */
  const LaneFunc *lane;            /* sim; in cx */
  struct DiagSites *sites;         /* sim */
  struct InstrumentNames *regions; /* instrument.h: of an instrumented kernel, else NULL */
};
static inline Specialization *launch_spec(const Launch *l) { return (Specialization *)l->kernel; }

/* How a kind of device makes a Specialization runnable. */
typedef struct Compiler {
  const DeviceKind *kind;
  bool optimizes;       /* wants the Func after tile_optimize */
  bool runs_ptx;        /* takes inline assembly as it stands */
  bool finds_undefined; /* with `debug`, says where an undefined element is used */
  /* Makes s runnable from func; may diag_fail(). *phase says what a failure is called. Sets s->keeps_context when func
   * must live. */
  void (*compile)(Specialization *s, Func *func, Context *cx, Buf *text, volatile nereid_status *phase);
  /* The same for a kernel of CUDA C, for kinds that have such; s->run.slots are there. */
  void (*compile_cuda_c)(Specialization *s, Context *cx, volatile nereid_status *phase);
} Compiler;
extern const DeviceKind device_interp, device_sim;
extern const Compiler compiler_cpu, compiler_interp, compiler_sim, compiler_cuda;
bool cpu_compiler_name(char *out, size_t size); /* device_cpu.c; as RtHooks has it */
/* Runs the front end on the call in cx, which must be in a context_try; the Func is not optimised. cuda_sm as of a
 * device. */
Compiled *compile_front(nereid_module *m, const Call *c, const nereid_options *options, int cuda_sm, Context *cx,
                        Buf *print);
/* What of `from` a launch packs its arguments by, into s->slots, malloc'ed. */
void specialization_keep_slots(Specialization *s, const Compiled *from, Context *cx);
/* NULL: error is set. */
Specialization *specialization_create(nereid_module *m, const Call *c, nereid_device *d, const nereid_options *options,
                                      nereid_error **error);
/* How many bytes of one tile a thread of a GPU may hold; 0: as many as it likes. */
typedef struct TileLimit {
  int64_t thread_bytes;
  bool exceeded; /* out: the kernel holds more, which is why it was not compiled */
} TileLimit;

/* The same, within a limit; NEREID_UNSUPPORTED where it is exceeded. */
Specialization *specialization_create_within(nereid_module *m, const Call *c, nereid_device *d,
                                             const nereid_options *options, TileLimit *limit, nereid_error **error);
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

/* The options for a launch of which the plan does not fit; text: room for options.without. */
enum { WITHOUT_TEXT = 256 };
nereid_options launch_plainer(const nereid_options *o, GpuPlanFit fit, char text[WITHOUT_TEXT]);
/* With the slots filled. */
nereid_status launch_slots(nereid_device *d, void *stream, Specialization *s, const int64_t grid[3],
                           const uint64_t *slots, const nereid_options *o, const ProfCall *profiled,
                           nereid_error **error);
nereid_status launch_args(nereid_device *d, void *stream, nereid_module *m, const KernelInfo *k, const int64_t grid[3],
                          const nereid_arg *args, int arg_count, const nereid_options *o, const ProfCall *profiled,
                          nereid_error **error);

struct nereid_function {
  nereid_device *device;
  Specialization *spec;
  nereid_options options;
  int64_t *programs; /* options.programs, our copy */
  char *grid;        /* options.grid, likewise */
  ArgPlan *plan;     /* or NULL */
  nereid_arg *args;  /* of a kernel with tensor maps: what it was compiled with, or NULL */
  int arg_count;
};

/* ---- args.c ------------------------------------------------------------------------------------------------------ */

/* A copy with all that it points to but the arrays; NULL: out of memory. */
nereid_arg *args_copy(const nereid_arg *args, int n);
void args_free(nereid_arg *args, int n);
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

#endif
