/* functions: the functions of tile/math.def, for who lowers a kernel. How they are made: math.h. */
#ifndef NEREID_GPU_MATH_FUNCTIONS_H
#define NEREID_GPU_MATH_FUNCTIONS_H

#include "gpu/gpu.h"

/* out[i] = fn(in[0][i], in[1][i], ...) for i < n, all elements of one type each. A rare
 * slow path is one branch for all n. fails for what is not there. */
void gpu_math(LaneBuilder *b, const GpuTarget *t, MathFn fn, int arity, const Dtype *types, Dtype out_type, int n,
              LaneValue *const *const *in, LaneValue **out);

#endif
