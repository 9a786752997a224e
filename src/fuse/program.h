/* A program in the caller's hands: what program.c reads and run.c runs. */
#ifndef NEREID_FUSE_PROGRAM_H
#define NEREID_FUSE_PROGRAM_H

#include "fuse/blas.h"
#include "fuse/dnn.h"
#include "fuse/fuse.h"

/* ---- step.c ------------------------------------------------------------------------------------------------------ */

typedef struct FuseStep { /* a launch */
  const FuseKernel *kernel;
  BlasProduct product; /* of one that a library does; and where in their arrays its operands begin */
  int64_t first[2];
  DnnPlan *plan; /* of a convolution that a library computes */
  nereid_function *function;
  nereid_arg *args;
  int arg_count;
  int64_t grid[3];
  uint64_t aligned;     /* buffers at multiples of 16 bytes, by their bits: what the function was compiled for */
  nereid_status status; /* of compiling it */
  nereid_error *error;
} FuseStep;
/* All but its buffers' addresses, args[0] and on; seed: of random numbers. */
nereid_status step_make(FuseStep *s, const FuseKernel *k, const int64_t *symbols, uint64_t seed, nereid_error **error);
nereid_status step_compile(FuseStep *s, nereid_device *d, nereid_module *m,
                           nereid_error **error); /* for these addresses */
bool step_is_stale(const FuseStep *s);            /* it was compiled for others */
/* compile.c: all at once, on all processors. */
nereid_status steps_compile(FuseStep *steps, int n, nereid_device *d, nereid_module *m, nereid_error **error);
/* A library's convolution gets ready, for these addresses. */
nereid_status step_plan(FuseStep *s, Dnn *dnn, nereid_error **error);
/* blas: of the step's device; NULL where no step is a library's product */
nereid_status step_run(const FuseStep *s, Blas *blas, nereid_stream *stream, nereid_error **error);
void step_free(FuseStep *s);

/* ---- a program --------------------------------------------------------------------------------------------------- */

typedef struct FuseRecording { /* all launches on one set of arrays */
  void **arrays;
  nereid_graph *graph; /* NULL: run once so far */
  uint64_t used;       /* when last */
} FuseRecording;
enum { FUSE_RECORDINGS = 8 };

struct nereid_fusion {
  Context *cx;
  Graph *g;
  FusePlan *plan;
  int64_t *symbols; /* values */
  Dtype *narrowest;
  uint64_t seed;
  char *graph_text, *explain_text, *plot_text;
  char *launches_text; /* malloc'd */
  nereid_module *module;
  FuseMemory *memory;
  int *place; /* by tensor's id: input or output whose memory it is, counted from 0 and from -1; INT32_MAX */
  /* run.c's */
  nereid_device *device;
  void **slots; /* memory of stored tensors */
  FuseStep *steps;
  Blas *blas;        /* NULL: no step needs it */
  Dnn *dnn;          /* likewise */
  void **arrays;     /* of the run at hand: inputs, then outputs */
  Allocation *known; /* the same with their sizes, by address; of a CPU alone */
  int known_count;
  nereid_stream *stream;
  FuseRecording recordings[FUSE_RECORDINGS];
  uint64_t runs;
  bool cannot_record;
  bool resized; /* a size has changed since memory was planned */
};

int64_t fusion_count(const nereid_fusion *f, const Tensor *t); /* elements; -1: not a number of 63 bits */
int64_t fusion_bytes(const nereid_fusion *f, const Tensor *t);
/* graph_text: of a graph, in the place of the file at path */
nereid_status fusion_create(const char *path, const char *graph_text, const char *function,
                            const nereid_fuse_input *inputs, int n, const nereid_fuse_options *options,
                            nereid_fusion **out, nereid_error **error);
void fusion_release(nereid_fusion *f); /* what it holds of its device */

#endif
