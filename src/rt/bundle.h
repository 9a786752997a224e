/* bundle: kernels that were built ahead of time, as bytes: the form of a bundle, and what it holds once read.
 *
 *     "nereidB\n"  u32 format  u32 reserved  u64 size of all  u64 hash of what follows, up to the code
 *     u64 bytes of what comes before the code
 *     text made_by, u32 entries; entry by entry (bundle_read.c)
 *     the code, which entries point into; they have its hash, which is looked at when it is loaded
 *
 * Numbers are little-endian; a text is its length (u32) and its bytes, with a 0 after them. An entry is one kernel
 * with one type for each parameter. It has variants, the most special ones first: each has conditions on a launch's
 * values (16 divides them, one equals 1, ...) and code for each target. The first whose conditions hold is launched, by
 * the best code for the device; where that code's tensor maps cannot be made, by the next one that fits.
 *
 * Whoever changes the form changes BUNDLE_FORMAT: a bundle of another format is refused.
 */
#ifndef NEREID_BUNDLE_H
#define NEREID_BUNDLE_H

#include "rt/rt.h"

#define BUNDLE_MAGIC "nereidB\n"
enum { BUNDLE_FORMAT = 3, BUNDLE_HEADER = 32, BUNDLE_ALIGN = 64, BUNDLE_MOST_PARAMS = 256 };

/* A launch's values are words, one for each entry of a list: a tuple is followed by its items, a tensor descriptor by
 * its shape and its strides.
 *
 *     x: f32*, pair: (i32, f16*), desc: tensordesc<f16[64,32]>
 *     x  pair  pair.0  pair.1  desc  desc.shape0  desc.shape1  desc.stride0  desc.stride1
 *
 * Slots, conditions and grids name a value by its place in that list. */
typedef enum {
  PARAM_POINTER,
  PARAM_INT,
  PARAM_FLOAT,
  PARAM_BOOL,
  PARAM_NONE,
  PARAM_CONSTEXPR,
  PARAM_TUPLE,
  PARAM_DESCRIPTOR, /* its own word is the base */
  PARAM_KIND_COUNT
} ParamKind;
enum { DESCRIPTOR_MOST_RANK = 5 };
typedef struct BundleParam {
  const char *name;
  ParamKind kind;
  Dtype dtype;
  const char *constant; /* of a constexpr: Python's text of its value */
  int size;             /* with what belongs to it: 1, or more for a tuple or a descriptor */
  int rank;             /* of a descriptor */
  int32_t block_shape[DESCRIPTOR_MOST_RANK];
  bool nan_padding;
} BundleParam;

typedef enum { CONDITION_ALIGNED, CONDITION_DIVISIBLE, CONDITION_ONE, CONDITION_EQUAL, CONDITION_COUNT } ConditionKind;
typedef struct BundleCondition {
  ConditionKind kind;
  int param;
  int64_t value; /* EQUAL: an integer, or the bits of a double */
} BundleCondition;

typedef enum { CODE_CUBIN, CODE_PTX, CODE_CPU, CODE_COUNT } CodeKind;
struct BundleCode {
  CodeKind kind;
  const char *target; /* "sm_90a"; of cpu what -march said */
  int sm;             /* of a GPU: 90 */
  bool exact;         /* for that compute capability alone: "a" */
  int machine;        /* cpu: ELF's e_machine */
  int feature_count;  /* of the processor, that it needs: "AVX2" */
  const char **features;
  const char *entry; /* of a GPU's code: the function's name */
  ArgSlot *slots;
  int slot_count;
  int num_warps, shared_bytes, blocks; /* blocks: that a multiprocessor holds, for persistent kernels */
  bool persistent, programs_wait;
  GpuLaunchPlan *plan; /* or NULL */
  AssertLocation *places;
  DiagSites *sites;            /* or NULL */
  const void *image, *overlap; /* cpu: the shared object for arguments that overlap; NULL: image is right for all */
  size_t image_bytes, overlap_bytes;
  uint64_t image_hash, overlap_hash;
};

typedef struct BundleConstant { /* for grids */
  const char *name;
  int64_t value;
} BundleConstant;

typedef struct BundleVariant {
  BundleCondition *conditions;
  int condition_count;
  BundleConstant *constants;
  int constant_count;
  BundleCode *codes;
  int code_count;
} BundleVariant;

/* A grid as a program of a stack machine, one a dimension, with what it takes after some. */
typedef enum {
  GRID_NUMBER,
  GRID_PARAM,
  GRID_CONSTANT, /* by the variant's constants; its name */
  GRID_ADD,
  GRID_SUB,
  GRID_MUL,
  GRID_DIV, /* as Python's // */
  GRID_REM, /* as Python's % */
  GRID_NEGATE,
  GRID_CDIV,
  GRID_MIN,
  GRID_MAX,
  GRID_POWER_OF_2, /* the next one */
  GRID_OP_COUNT
} GridOp;
typedef struct GridStep {
  GridOp op;
  int64_t value;
  const char *name;
} GridStep;
enum { GRID_MOST_STEPS = 256, GRID_MOST_DEPTH = 32 };
typedef struct GridProgram {
  GridStep *steps;
  int count; /* 0: one program */
} GridProgram;

typedef struct BundleEntry {
  const char *name, *path;
  BundleParam *params;
  const char **param_names;
  int param_count; /* of values: with items and parts */
  bool has_grid;
  GridProgram grid[3];
  BundleVariant *variants;
  int variant_count;
} BundleEntry;

typedef struct Bundle {
  const char *made_by;
  BundleEntry *entries;
  int entry_count;
  struct BundleBlock *blocks; /* that all of it lies in */
} Bundle;

/* ---- bundle_read.c ----------------------------------------------------------------------------------------------- */

/* Reads bytes, which must stay; what it allocates bundle_free frees. `name` serves messages. */
nereid_status bundle_read(const char *name, const void *bytes, size_t size, Bundle *out, nereid_error **error);
void bundle_free(Bundle *b);
/* Whether code is what was built; else an error. */
nereid_status bundle_check_code(const char *kernel, const void *image, size_t bytes, uint64_t hash,
                                nereid_error **error);
/* Whether the stack of a grid's program never runs out or over, and its parameters are there. */
bool grid_program_fits(const GridProgram *g, int param_count);

/* ---- processor.c ------------------------------------------------------------------------------------------------- */

/* A feature of a processor, by the name that gcc and clang have for it without underscores: "__AVX2__" is "AVX2". */
bool processor_has(const char *feature);
int processor_machine(void); /* ELF's e_machine of this process */
/* All names that there are for a machine; their number. */
enum { PROCESSOR_MOST_FEATURES = 64 };
int processor_features(int machine, const char *out[PROCESSOR_MOST_FEATURES]);
const char *machine_name(int machine); /* "x86-64"; NULL: of no name here */

#endif
