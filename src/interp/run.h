/* run: what the interpreter's own files share. Instrument src/interp only.
 *
 * A launch first turns the Func into Code (prepare.c): one Node an operation that does something, with the function
 * that runs it and the addresses of its operands and results, which are fixed for the launch. Running a program is then
 * a walk over arrays of Nodes; nothing is allocated and nothing looked up by name.
 *
 * A value is an array of its type's elements, row-major, as interp_value shows it: i1 is a byte 0 or 1, a pointer 8
 * bytes.
 *
 * The body of a reduce, scan or map is a block over scalars. When it holds elementwise operations only, it is compiled
 * in lane form: each of its values is an array of up to LANES elements, and one walk over the body serves that many
 * elements. Hence a NodeFn is told the number of elements: node->n in ordinary code, the number of lanes in a lane
 * body.
 */
#ifndef NEREID_INTERP_RUN_H
#define NEREID_INTERP_RUN_H

#include "interp/memory.h"
#include "tile/analysis/provenance.h"
#include "tile/passes/instrument.h"

enum { LANES = 512 };

typedef struct InterpFrame Run;
typedef struct Node Node;
typedef struct Code Code;
typedef struct Plan Plan;

typedef bool (*NodeFn)(Run *run, const Node *node, int64_t n); /* false: a fault was recorded */
typedef void (*Kernel)(void *out, void *const *in, int64_t n); /* an elementwise loop over typed arrays */

struct Node {
  NodeFn fn;
  Kernel kernel; /* for fn of elementwise operations */
  const Op *op;
  char **in, **out;  /* where the operands and results lie */
  int64_t n;         /* elements of the first result; without results, of the first operand */
  int64_t scratch;   /* bytes at run->scratch that fn uses */
  const void *extra; /* what prepare made for fn */
  Code *body[2];
};

/* A value from outside that a lane body uses: copied to every lane before the body runs. */
typedef struct Capture {
  const Value *value;
  char *from, *lanes;
  int bytes;
} Capture;

struct Code {
  const Block *block;
  Node *nodes;
  int count;
  int64_t work;   /* of one walk over it, in elements and 64 an operation */
  char **args;    /* of the block */
  char **results; /* the operands of its yield or condition */
  bool lanes;
  Capture *captures;
  int capture_count;
};

struct InterpFrame {
  const Func *func;
  Plan *plan;
  const InterpOptions *options;
  InterpFault *fault;
  MemoryView view;
  Shadow *shadow;           /* NULL: races are not looked for */
  RegionSpan **arg_regions; /* per Func argument that points into a region */
  int32_t program[3], grid[3];
  char *scratch;  /* free from here on */
  bool *computed; /* per value id; only with a step hook */
  InstrumentCursor cursor;
  _Atomic int64_t *left; /* of the launch's work */
  Residents *residents;  /* NULL: no program waits for another */
  const Op *loop;        /* in which this one waited last */
  uint64_t operations;   /* of this program so far, as records have them */
  const Source *step_source;
  int step_line;
};

/* ---- code.c
 * -------------------------------------------------------------------------------------------------------- */

/* Records a fault at op and returns false. `element` counts row-major in `type`'s shape; -1: no element. */
bool run_fault(Run *run, const Op *op, const Type *type, int64_t element, const char *format, ...) PRINTF_LIKE(5, 6);
bool run_out_of_memory(Run *run, const Op *op);
bool run_too_deep(Run *run);
bool run_work(Run *run, const Op *op, int64_t work); /* counts it; false after a fault: that is more than is left */
bool run_code(Run *run, const Code *code);
/* Runs a lane body over n <= LANES lanes; code->args hold the lanes. run_captures must have been called since the
 * values outside last changed. */
bool run_lanes(Run *run, const Code *code, int64_t n);
void run_captures(const Code *code);

bool run_for(Run *run, const Node *node, int64_t n);
bool run_while(Run *run, const Node *node, int64_t n);
bool run_if(Run *run, const Node *node, int64_t n);

/* ---- prepare.c
 * ---------------------------------------------------------------------------------------------------------- */

struct Plan {
  Arena *arena;
  const Func *func;
  bool keep_values; /* every value keeps a place of its own, for interp_value */
  Code *code;
  int64_t *offset;              /* per value id: where it lies in `values`; -1: nowhere */
  const Provenance *provenance; /* which array an access must stay in */
  char *values;                 /* the values of the running program, then scratch space */
  char *scratch;
  int64_t bytes; /* of values and scratch */
  bool failed;   /* memory ran out, or a limit was met */
};

/* Returns NULL when out of memory. */
/* memory: in, the most bytes of values, 0: any; out, why there is no plan, unless memory has run out. */
typedef struct PlanLimits {
  int64_t memory, needed;
  bool too_deep;
} PlanLimits;
Plan *plan_create(const Func *f, bool keep_values, PlanLimits *limits);
void plan_destroy(Plan *p);
const Value *plan_root(const Value *v);        /* the value whose place v shares, after resolving forwards */
const Value *plan_same_elements(const Op *op); /* the operand whose elements are the result's, or NULL */
void *plan_alloc(Plan *p, size_t bytes);       /* zeroed, lives as long as the plan; NULL when out of memory */
int64_t plan_type_bytes(const Type *t);        /* of a whole value */
int plan_elem_bytes(const Type *t);

/* How each operation is run: one row each in prepare.c. `prepare` sets node->fn and what it needs (false: out of
 * memory); `scratch` says how much space at run->scratch it takes. */
typedef bool (*Prepare)(Plan *p, Node *node);
typedef int64_t (*ScratchSize)(const Op *op);

bool prepare_elementwise(Plan *p, Node *node);
bool prepare_math(Plan *p, Node *node);
bool prepare_convert(Plan *p, Node *node);
bool prepare_addptr(Plan *p, Node *node);
bool prepare_strided(Plan *p, Node *node); /* broadcast, trans */

int64_t scratch_for(const Op *op);
int64_t scratch_reduce(const Op *op);
int64_t scratch_sort(const Op *op);
int64_t scratch_dot(const Op *op);

bool run_arange(Run *run, const Node *node, int64_t n);
bool run_program_id(Run *run, const Node *node, int64_t n);
bool run_splat(Run *run, const Node *node, int64_t n);
bool run_join(Run *run, const Node *node, int64_t n);
bool run_split(Run *run, const Node *node, int64_t n);
bool run_cat(Run *run, const Node *node, int64_t n);
bool run_gather(Run *run, const Node *node, int64_t n);
bool run_load(Run *run, const Node *node, int64_t n);
bool run_store(Run *run, const Node *node, int64_t n);
bool run_barrier(Run *run, const Node *node, int64_t n);
bool run_atomic_rmw(Run *run, const Node *node, int64_t n);
bool run_atomic_cas(Run *run, const Node *node, int64_t n);
bool run_reduce(Run *run, const Node *node, int64_t n);
bool run_scan(Run *run, const Node *node, int64_t n);
bool run_map(Run *run, const Node *node, int64_t n);
bool run_dot(Run *run, const Node *node, int64_t n);
bool run_sort(Run *run, const Node *node, int64_t n);
bool run_histogram(Run *run, const Node *node, int64_t n);
bool run_scope(Run *run, const Node *node, int64_t n);
bool run_assume(Run *run, const Node *node, int64_t n);
bool run_print(Run *run, const Node *node, int64_t n);
bool run_assert(Run *run, const Node *node, int64_t n);
bool run_asm(Run *run, const Node *node, int64_t n);
bool run_kernel(Run *run, const Node *node, int64_t n); /* node->kernel over the operands */
bool run_nothing(Run *run, const Node *node, int64_t n);

/* ---- elements
 * -------------------------------------------------------------------------------------------------------- */

/* Writes n copies of the element at `from`. */
void fill_elements(void *out, const void *from, int bytes, int64_t n);
/* Loops over whole arrays between a narrow type and f32; `convert.c`. NULL when t has none. */
Kernel widen_kernel(Dtype t);
Kernel narrow_kernel(Dtype t);

/* Loops whose iterations are independent, which gcc cannot see. */
#if defined(__GNUC__) && !defined(__clang__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

#endif
