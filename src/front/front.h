/* front: AST + one specialization -> tile IR.
 *
 * A Module is a parsed Python file whose host side is evaluated on demand: module constants, imports of sibling files,
 * decorators, heuristics. front_compile evaluates one kernel's body symbolically, as Triton's code generator does
 * (shared notes in docs/reference/language.md): constexprs and Python values now, tensors as operations.
 */
#ifndef NEREID_FRONT_H
#define NEREID_FRONT_H

#include "syntax/syntax.h"
#include "tile/tile.h"

typedef struct Module Module;
typedef struct Kernel Kernel; /* a @triton.jit function of a Module */

Module *front_load_file(Context *cx, const char *path); /* fails with a diagnostic */
Module *front_load_text(Context *cx, const char *path_for_messages, const char *text, size_t n);
/* The same, for a GPU of compute capability cuda_sm / 10 (0: for another device), of which host code may ask. */
Module *front_load_text_for(Context *cx, const char *path_for_messages, const char *text, size_t n, int cuda_sm);

/* ---- a host that says what surrounds a source (python/ask.c; nereid.h, "what surrounds a source") ---------------- */

typedef enum {
  HOST_UNSET,
  HOST_NONE,
  HOST_BOOL,
  HOST_INT,
  HOST_FLOAT,
  HOST_STR,
  HOST_TYPE,
  HOST_LIBRARY,
  HOST_TUPLE, /* fields: a named one's */
  HOST_LIST,
  HOST_DICT, /* items: key, value, key, value, ... */
  HOST_NAMED_TUPLE_CLASS,
  HOST_ENUM,
  HOST_MODULE,
  HOST_OBJECT,
  HOST_CONSTEXPR_FUNCTION,
  HOST_SOURCE,
  HOST_EXPRESSION, /* text: Python's, over the kernel's file */
  HOST_TENSOR,     /* an argument of the running kernel */
  HOST_OTHER,
  HOST_ERROR
} HostKind;
typedef enum { HOST_FILE, HOST_JIT, HOST_CONSTEXPR, HOST_CLASS } HostSourceKind;
typedef struct HostSource {
  HostSourceKind kind;
  const char *path, *text, *name, *must_use;
  size_t text_size;
  int line;
  bool whole; /* text is all of the file (NULL: it is read): the def or class `name` nearest to line is meant */
  void *scope;
  bool noinline, debug, launch_only;
  const char *const *no_specialize, *const *no_align; /* NULL-terminated; or NULL */
} HostSource;
typedef struct HostValue HostValue;
struct HostValue {
  HostKind kind;
  bool is_constexpr;
  __int128 i;
  double f;
  const char *text; /* STR; TYPE, LIBRARY, OTHER, ERROR; the name of a class, module, function */
  size_t n;
  const char *member; /* ENUM */
  int count;
  HostValue *items;
  const char *const *fields;
  void *object;
  const HostSource *source;
  struct HostAnswer *answer; /* whose part it is; NULL: an argument of `call` */
  int depth;
};
/* What a callback fills in, and its memory, which is not the compilation's: nothing may unwind through the host. */
typedef struct HostAnswer {
  HostValue value;
  Arena *arena;
  int64_t parts;
  const char *problem; /* NULL: it is whole */
} HostAnswer;
enum { MAX_HOST_PARTS = 1000000, MAX_HOST_DEPTH = 64 };

typedef enum { ASK_NAME, ASK_ATTRIBUTE, ASK_DEFAULT, ASK_ANNOTATION } Ask;
typedef struct FrontHost {
  const void *of;
  bool (*ask)(const void *of, Ask what, void *object, const char *name, HostAnswer *out);
  bool (*call)(const void *of, void *object, int n, const HostValue *const *args, const char *const *names,
               HostAnswer *out);
  bool allow_globals;
} FrontHost;
/* host may be NULL for a file. It must live as long as cx. */
Module *front_load_source(Context *cx, const HostSource *source, const FrontHost *host, int cuda_sm);
/* What was asked for since m was loaded, in order, and a hash of each answer (0: there is none). */
typedef struct Asked {
  Ask what;
  void *object;
  const char *name;
  uint64_t hash;
} Asked;
const Asked *front_asked(const Module *m, int *count);
uint64_t host_value_hash(const HostValue *v);

/* jit functions of the file in order. */
int front_kernel_count(Module *m);
Kernel *front_kernel_at(Module *m, int i);
Kernel *front_kernel(Module *m, const char *name); /* fails, naming the nearest */

typedef struct KernelParam {
  const char *name;
  bool is_constexpr;
  bool has_default;
  bool no_specialize;       /* do_not_specialize */
  bool no_align;            /* do_not_specialize_on_alignment */
  bool is_rest;             /* *args: a tuple of the arguments by position that no parameter takes; () without any */
  const char *annotation;   /* "i64", "*fp16", ... when a type is forced, else NULL */
  const char *default_text; /* source text of the default, or NULL */
} KernelParam;
const char *kernel_name(const Kernel *k);
int kernel_line(const Kernel *k); /* first line, decorators not counted */
int kernel_param_count(const Kernel *k);
/* What the decorators (heuristics, autotune) do with a parameter (kernel/key_dependences.c). A specialization holds for
 * exactly the values that they read. */
typedef struct DecoratorUse {
  bool reads;  /* what they decide may depend on its value */
  bool in_key; /* autotune's `key` names it: its value decides which configuration is chosen, and nothing else */
  bool sets;   /* they may give it a value */
} DecoratorUse;
/* use: one per parameter; false: there are no such decorators */
bool kernel_decorator_use(const Kernel *k, DecoratorUse *use);
const KernelParam *kernel_param(const Kernel *k, int i);

/* One argument of a launch, as far as a specialization depends on it. */
typedef enum {
  ARG_MISSING,
  ARG_POINTER,
  ARG_INT,
  ARG_FLOAT,
  ARG_BOOL,
  ARG_NONE,
  ARG_CONSTEXPR,
  ARG_DESCRIPTOR,
  ARG_TUPLE
} ArgKind;
typedef struct ArgSpec {
  ArgKind kind;
  Dtype dtype; /* POINTER, DESCRIPTOR: element type; INT, FLOAT: see has_dtype */
  /* INT, FLOAT: a number of exactly type `dtype` (as if the parameter were annotated), not of what its value suggests
   */
  bool has_dtype;
  bool aligned;       /* POINTER, DESCRIPTOR: address divisible by 16 */
  bool has_value;     /* INT: value is known (else: any int32 not specialised) */
  bool is_unsigned;   /* INT: value is a uint64 above INT64_MAX */
  int64_t int_value;  /* INT, BOOL */
  double float_value; /* FLOAT */
  const char *
      text; /* CONSTEXPR: a Python expression: "128", "'relu'", "tl.float16", "None", "(1, 2)", a jit function's name */
  int rank; /* DESCRIPTOR */
  int32_t block_shape[MAX_RANK]; /* DESCRIPTOR */
  uint8_t divisible_shape;       /* DESCRIPTOR: bit d: dim d of the array is divisible by 16 */
  bool nan_padding;              /* DESCRIPTOR */
  int item_count;                /* TUPLE */
  const struct ArgSpec *items;
  const char *field; /* an item of a named tuple: its name there; else NULL */
} ArgSpec;

/* What a launch takes in the stead of autotune's first configuration that fits. */
typedef struct Chosen {
  int config; /* of @triton.autotune's list, counted from 1; 0: none of it */
  int count;  /* parameters that `nereid tune` found values for, as Python expressions */
  const char *const *names, *const *texts;
  int num_warps, num_stages, num_ctas; /* 0: open */
} Chosen;

typedef struct CompileOptions {
  int num_warps, num_stages, num_ctas; /* 0: by autotune's first fitting configuration, else Triton's defaults */
  bool debug;                          /* device_assert is compiled */
  int instrument;            /* InstrumentMode (tile/passes/instrument.h): regions become `scope` operations */
  bool no_autotune;          /* do not take missing constexprs from autotune/heuristics */
  const Chosen *chosen;      /* or NULL */
  bool no_sanitize_overflow; /* also with debug */
  bool no_fp_fusion;
  int max_registers;
  const char *dot_precision; /* of tl.dot that says none; NULL: "tf32" */
  int cuda_sm;               /* 90: a CUDA device of compute capability 9.0; 0: another device */
  Buf *print;                /* static_print's output; NULL: stderr */
} CompileOptions;

typedef struct Slot {
  SlotKind kind;
  int param;          /* the kernel's parameter */
  int path[4], depth; /* into nested tuples */
  int dim;            /* SHAPE, STRIDE */
  const Type *type;   /* of the Func's argument */
} Slot;

/* "tf32", "IEEE", ...: a DotPrecision; -1: none. */
int front_dot_precision(const char *name);

typedef struct Compiled {
  Func *func;     /* not optimised yet */
  int slot_count; /* = func->body->arg_count */
  Slot *slots;
  int num_warps, num_stages, num_ctas;
  /* what was chosen, as text: for messages and grid functions */
  const char **constexpr_names;
  const char **constexpr_values;
  int constexpr_count;
  /* parameters whose arrays are to be filled with zeros before each launch: the configuration's pre_hook */
  const int *zeroed;
  int zeroed_count;
} Compiled;

/* args: one per parameter. Missing ones take their default, a heuristic's value or the autotune configuration's. Fails
 * with diagnostics that carry the chain of calls. */
Compiled *front_compile(Module *m, Kernel *k, const ArgSpec *args, const CompileOptions *options);

/* The configurations that autotune would try for a launch (tuning.c). */
typedef struct TuneConfig {
  int config;
  const char *text;
  bool like_first;
} TuneConfig; /* text: "BLOCK=128\nnum_warps=4\nnum_stages=3\nnum_ctas=1\n"; like_first: with all
                 parameters as the first, only warps, stages and ctas may differ */
typedef struct Tuning {
  int count;
  TuneConfig *configs;
  const char *key;            /* values of the arguments that `key` names, element types of all arrays */
  const int *reset, *restore; /* parameters: reset_to_zero, restore_value */
  int reset_count, restore_count;
  double warmup_ms, rep_ms; /* 0: not said */
} Tuning;
/* NULL: nothing is to be tried; the kernel is not autotuned, or the caller has decided. Evaluates prune_configs_by, and
 * fails where that cannot be done. */
Tuning *front_tuning(Module *m, Kernel *k, const ArgSpec *args, const CompileOptions *options);

/* Evaluates a Python expression such as "cdiv(n, BLOCK)" over named integers and floats (triton.cdiv, next_power_of_2,
 * min, max are known without a prefix): grids of the command line. Fails with a diagnostic. */
int64_t front_eval_int(Context *cx, const char *expression, int n, const char *const *names, const double *values);
/* The same for one to three of them, separated by commas: a grid. */
void front_eval_grid(Context *cx, const char *expressions, int n, const char *const *names, const double *values,
                     int64_t out[3]);

/* The table behind docs/reference/language.md: every library name and who supports it. */
typedef struct LanguageName {
  const char *group, *name;
  bool interp, cpu, sim, cuda;
  const char *remark, *arguments; /* either may be NULL */
  bool is_method;                 /* of tensors too */
} LanguageName;
const LanguageName *front_language_table(int *count);

#endif
