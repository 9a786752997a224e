/* harness: what the tests of kernels/ share: every device of the machine, arrays with random contents and a float64
 * copy, launches, and comparison against a float64 reference with an error bound an element, derived from the
 * arithmetic where it is made.
 *
 * u(t) is the unit roundoff of type t. A bound says how far rounding alone can take a result: n additions in any order
 * cost at most n * u * sum|x_i| (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2), an elementary function
 * a few u.
 */
#ifndef NEREID_TESTS_HARNESS_H
#define NEREID_TESTS_HARNESS_H

#include <nereid.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the four above before it */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Tensor {
  nereid_dtype dtype;
  int64_t count;  /* elements of memory */
  double *values; /* what the elements are, exactly */
  void *data;     /* the same in dtype */
} Tensor;

static inline int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
double unit_roundoff(nereid_dtype t);
extern const char *test_devices[];            /* ends with NULL */
nereid_device *test_device(const char *name); /* opened once; one that is not among test_devices is added */
void test_devices_close(void);
void on_every_device(void (*test)(const char *device));

/* normal; rounded to t first, so that values are exact */
Tensor tensor_random(nereid_dtype t, int64_t count, uint64_t seed);
Tensor tensor_full(nereid_dtype t, int64_t count, double v);
void tensor_set(Tensor *t, int64_t i, double v);
void tensor_free(Tensor *t);

/* One launch of kernels/FILE:KERNEL. Arguments by position; a Tensor is given by tensor(), copied to the device before
 * and back after. */
enum { MAX_ARGS = 40 };
typedef struct Call {
  nereid_arg args[MAX_ARGS];
  Tensor *tensors[MAX_ARGS];
  int n;
  nereid_options options;
  int64_t grid_z; /* 0: 1 */
  bool may_race;  /* interp does not look for races */
  bool any_order; /* programs add floats to one place: results of several threads differ in their last bits */
} Call;
void arg_tensor(Call *c, Tensor *t);
void arg_int(Call *c, int64_t v);
void arg_float(Call *c, double v);
void arg_const(Call *c, const char *name, int64_t v);
/* Whether it was a success; else *error says why, and the arrays are as they were. */
bool try_launch(const char *device, const char *file, const char *kernel, Call *c, int64_t gx, int64_t gy,
                nereid_error **error);
/* Fails the test where it was not; then repeats it with an allocation refused ($NEREID_TEST_ALLOCATIONS, harness.c). */
void launch(const char *device, const char *file, const char *kernel, Call *c, int64_t gx, int64_t gy);

/* Fails the test unless |out[i] - want[i]| <= bound[i] (+ one rounding to out's type); NaN wants NaN. */
void check_close(const char *what, const Tensor *out, const double *want, const double *bound, int64_t n);

#endif
