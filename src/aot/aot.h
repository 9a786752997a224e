/* aot: kernels compiled ahead of time: nereid_build_add for each kernel, then a bundle (rt/bundle.h), or C files with
 * launchers around it. Private to src/aot.
 *
 *     build.c      a signature        ──▶  the specializations to compile, the most special ones first
 *     signature.c  "f32[M,N]:16|any"  ──▶  what types and conditions a parameter is built for
 *     params.c     a kernel's parameters ──▶ the values that its launches have
 *     grid.c       "cdiv(n, BLOCK)"   ──▶  a GridProgram
 *     code.c       a specialization and a target ──▶ BundleCode
 *     write.c      all of it          ──▶  a bundle's bytes
 *     launcher.c                      ──▶  NAME.h, NAME.c
 *
 * What a build holds lies in its context's arena; what was compiled, in arenas of its own.
 */
#ifndef NEREID_AOT_H
#define NEREID_AOT_H

#include "rt/bundle.h"
#include "runtime/runtime.h"

typedef struct AotTarget {
  const char *name;     /* "sm_90a", "cpu:x86-64-v3" */
  const GpuTarget *gpu; /* NULL: cpu */
  bool keeps_ptx;
  bool is_added;     /* by us, for later GPUs: a kernel that cannot be compiled for it has none */
  const char *march; /* cpu: as cpu_compile_for takes it */
  int machine, feature_count;
  const char *features[PROCESSOR_MOST_FEATURES];
} AotTarget;

/* What one value of a launch is built for, by a signature. */
enum { FOR_ANY = 1, FOR_DIVISIBLE = 2, FOR_ONE = 4 };
typedef struct AotParam {
  BundleParam value;
  const ParamRule *rule; /* of an item of a tuple: as the language has it there */
  const char *field;     /* of an item: its name, or NULL */
  bool given;            /* else it is left to the kernel: a default, or what autotune sets */
  bool chosen;           /* cases were named */
  unsigned cases;        /* FOR_...; of a descriptor: of its shape */
  const char *shape;     /* "[M,N]", for people; or NULL */
} AotParam;
typedef struct AotParams {
  AotParam at[BUNDLE_MOST_PARAMS];
  int n;
} AotParams;

/* How the launcher of an entry is described. */
typedef struct AotDoc {
  bool is_launcher;
  const AotParams *params;
  const char *grid; /* or NULL */
  uint64_t written; /* parameters whose arrays are; from the 64th on bit 63 */
  uint64_t meaning; /* of the kernel's names: entries of one name have one */
} AotDoc;

struct nereid_build {
  Context *cx;
  const char *cc; /* or NULL */
  AotTarget *targets;
  int target_count;
  Bundle content;
  int entry_cap;
  struct AotDoc *docs; /* by entry */
  VEC(Arena *) kept;   /* what was compiled, each on a thread of its own */
};

/* signature.c: appends a parameter, with all that belongs to it; false, with *why, when the text is wrong. */
bool aot_param_parse(Context *cx, const char *text, const ParamRule *rule, AotParams *out, const char **why);
/* One of them; NULL: there would be too many. */
AotParam *aot_param_add(AotParams *to, const char *name, const ParamRule *rule, ParamKind kind);

/* params.c: the values of an entry, with what stands for each in a compilation. */
typedef struct AotValues {
  const BundleParam *params;
  const ParamRule **rules;
  nereid_arg **args; /* NULL: nothing is given, or it is a part of a descriptor */
  int count;
} AotValues;
AotValues aot_values(Context *cx, const AotParams *signature);
/* The arguments that stand for the cases `which`, one a value; their number. */
int aot_arguments(Context *cx, const AotParams *signature, const unsigned *which, nereid_arg *out, AotValues *values);
/* What a launch with these arguments is built for: one a parameter of the kernel, or NULL; out has room for each. */
AotValues aot_values_of(Context *cx, const KernelInfo *k, const nereid_arg *const *args, nereid_arg *out, int *count);
/* What a specialization takes for granted of the arguments that stand for it: appended to v's. */
void aot_conditions(Context *cx, const AotValues *values, BundleVariant *v);
/* The value that fills a slot. */
int aot_slot_value(const BundleEntry *e, const Slot *s);

/* grid.c: up to three expressions with commas between. NULL when they are right, else what is wrong, in the arena. */
const char *aot_grid_parse(Context *cx, const char *text, const BundleEntry *e, GridProgram out[3]);

/* code.c: aot_targets diag_fail()s in the build's context, aot_compile in the specialization's. */
typedef struct AotSpecialization {
  Context *cx; /* of the compilation */
  Arena *keep; /* of what is kept */
  nereid_module *module;
  const Call *call;
  const nereid_options *options;
  const BundleEntry *entry;
  volatile nereid_status *phase;
} AotSpecialization;
void aot_targets(nereid_build *b, const char *text);
/* Appends v's codes for a target, and, when v has none, its constants; which parameters are written: a bit each. Any
 * number of threads may compile for one build. */
void aot_compile(const nereid_build *b, const AotSpecialization *s, const AotTarget *t, BundleVariant *v,
                 uint64_t *written);

/* write.c, launcher.c: appended to out. */
void aot_write(const Bundle *b, Arena *a, Buf *out);
void aot_write_header(const nereid_build *b, const char *name, Buf *out);
void aot_write_c(const nereid_build *b, const char *name, const Buf *bytes, Buf *out);

#endif
