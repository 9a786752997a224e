/* A library of products that is not there: CBLAS's two functions, which count their calls. fakes/blas.c is built as a
 * library of its own; NEREID_LIBOPENBLAS names it, and a test opens it too (fake_blas()). */
#ifndef FAKE_BLAS_H
#define FAKE_BLAS_H

#include <stdbool.h>

typedef struct FakeBlas {
  int calls, threads, threads_in_call;
  int slow_us; /* a call takes that much longer */
  bool idle;   /* a call does nothing */
} FakeBlas;

#endif
