/* cuDNN without a GPU: its backend's descriptors, on the memory of fakes/cuda.c, which is the host's. It is built as a
 * library of its own; NEREID_LIBCUDNN names it, and a test opens it too (fake_cudnn()). */
#ifndef FAKE_CUDNN_H
#define FAKE_CUDNN_H

#include <stddef.h>
#include <stdint.h>

enum { FAKE_CUDNN_WAYS = 6 }; /* four of mode A, two of the fallbacks */
typedef struct FakeCudnn {
  int handles, descriptors; /* alive */
  int calls;                /* convolutions */
  int wrong;                /* calls that cuDNN would refuse, and convolutions without the memory they asked for */
  int way;                  /* of the last call */
  int64_t alignment;        /* of its arrays */
  void *stream;             /* likewise */
  int64_t dims;             /* of its tensors */
  int channels_last;        /* its last tensor lies so, and not row by row */
  int idle;                 /* it computes nothing */
  /* what these answer */
  int create_result, graph_result, execute_result;
  int plan_result[FAKE_CUDNN_WAYS];
  int note[FAKE_CUDNN_WAYS];          /* of its engine; -1: none */
  int64_t workspace[FAKE_CUDNN_WAYS]; /* bytes that it asks for */
} FakeCudnn;

#endif
