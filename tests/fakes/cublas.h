/* cuBLAS without a GPU: on the memory of fakes/cuda.c, which is the host's. It is built as a library of its own;
 * NEREID_LIBCUBLAS names it, and a test opens it too (fake_cublas()). */
#ifndef FAKE_CUBLAS_H
#define FAKE_CUBLAS_H

#include <stddef.h>

typedef struct FakeCublas {
  int handles;               /* alive */
  int calls;                 /* products */
  int batched;               /* of which by one call for all batches */
  int wrong;                 /* calls that cuBLAS would refuse, or that lack our workspace or mode */
  int compute;               /* of the last call */
  int create_result, result; /* what these calls answer */
  void *stream;              /* of the last call */
  size_t workspace;
} FakeCublas;

#endif
