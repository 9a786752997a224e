/* dnn: convolutions by a library, which is opened at run time: cuDNN on a GPU (cudnn.c), oneDNN on a CPU (onednn.c).
 * $NEREID_LIBCUDNN and $NEREID_LIBDNNL name a file. */
#ifndef NEREID_FUSE_DNN_H
#define NEREID_FUSE_DNN_H

#include "graph/graph.h"
#include "runtime/runtime.h"

/* Three arrays, row by row or channels last, of one type; which of them is computed, sizes.part says. */
typedef struct DnnConvolution {
  Convolution sizes;
  Dtype type;
  bool tf32;    /* f32 may be rounded to it */
  bool aligned; /* the arrays begin at multiples of 16 bytes */
} DnnConvolution;

DnnConvolution dnn_convolution(const Tensor *t, bool aligned); /* of a GRAPH_CONVOLUTION */

typedef struct Dnn Dnn;         /* of one device; used by one thread at a time */
typedef struct DnnPlan DnnPlan; /* one convolution, in one of the library's ways */

/* Which types of convolutions the device's library has at all; no library is opened for that. */
bool dnn_takes(const nereid_device *d, Dtype t);
/* Whether its kernels may want images with their channels last, and lose no accuracy by it. */
bool dnn_wants_channels_last(const nereid_device *d);
nereid_status dnn_open(nereid_device *d, Dnn **out, nereid_error **error);
void dnn_close(Dnn *l); /* when its plans are freed; NULL: nothing */
/* "cuDNN 9.19.0", and what tells this library from others. */
const char *dnn_name(const Dnn *l);
void dnn_identity(const Dnn *l, Buf *out);
/* The library's ways are numbered, what it expects to be the fastest first. Takes the first one from *way on that it
 * can go here, with memory for it, and sets *way. NEREID_UNSUPPORTED: there is none. Not while a stream is recorded. */
nereid_status dnn_plan(Dnn *l, const DnnConvolution *c, int *way, DnnPlan **out, nereid_error **error);
void dnn_plan_free(DnnPlan *p); /* NULL: nothing */
/* a, b: the operands, in the order that graph.def has. */
nereid_status dnn_run(DnnPlan *p, nereid_stream *s, const void *a, const void *b, void *out, nereid_error **error);

/* ---- of dnn.c and the libraries ---------------------------------------------------------------------------------- */

typedef struct DnnCall { /* of a plan that is made */
  Dnn *library;
  const DnnConvolution *convolution;
  int *way;
  DnnPlan **plan;
} DnnCall;
typedef struct DnnRun {
  DnnPlan *plan;
  void *stream;                        /* the device's own handle */
  const void *image, *filter, *result; /* one of them is written */
} DnnRun;
struct Dnn {
  nereid_device *device;
  char path[LIBRARY_PATH], name[64];
  DeviceCall plan, run, free_plan, close; /* of a DnnCall, a DnnRun, a DnnPlan, a Dnn */
};
struct DnnPlan {
  Dnn *library;
  ConvolutionPart part;
};
nereid_status cudnn_open(Dnn **out, nereid_error **error);
nereid_status onednn_open(Dnn **out, nereid_error **error);

#endif
