/* math: functions of one to four numbers, scalar_math for each element; those that kernels call most have a loop of
 * their own, which spares the conversions around each call. An f32 function is the double one, rounded
 * (tile/scalar_math.c).
 */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif
#include "interp/run.h"

#include "base/mathfn.h"

/* The functions that are one double function for both types. */
#define THROUGH_DOUBLE(X) \
  X(EXP, exp) \
  X(EXP2, exp2) \
  X(LOG, log) \
  X(LOG2, log2) \
  X(LOG1P, log1p) \
  X(EXPM1, expm1) \
  X(SQRT, sqrt) X(RSQRT, rsqrt) X(SIN, sin) X(COS, cos) X(TANH, tanh) X(ERF, erf) X(FAST_EXPF, exp) X(FAST_LOGF, log)
/* The functions with a float version of their own. */
#define OWN_FLOAT(X) \
  X(FLOOR, floor) X(CEIL, ceil) X(TRUNC, trunc) X(ABS, abs) X(ROUND, round) X(RINT, rint) X(SQRT_RN, sqrt_rn)

#define LOOP(name, T, call) \
  static void name(void *out, void *const *in, int64_t n) { \
    const T *x = in[0]; \
    T *o = out; \
    for (int64_t i = 0; i < n; i++) o[i] = (T)call(x[i]); \
  }
#define BOTH(ID, fn) LOOP(loop_##ID##_f32, float, nd_##fn) LOOP(loop_##ID##_f64, double, nd_##fn)
#define OWN(ID, fn) LOOP(loop_##ID##_f32, float, nd_##fn##f) LOOP(loop_##ID##_f64, double, nd_##fn)
THROUGH_DOUBLE(BOTH)
OWN_FLOAT(OWN)

static const struct {
  Kernel f32, f64;
} loops[MATH_COUNT] = {
#define ROW(ID, fn) [MATH_##ID] = {loop_##ID##_f32, loop_##ID##_f64},
    THROUGH_DOUBLE(ROW) OWN_FLOAT(ROW)
#undef ROW
};

/* Bits that a function takes for another type's: through a Scalar a signalling NaN would become quiet. */
LOOP(copy_32, uint32_t, )
LOOP(copy_64, uint64_t, )
static Kernel bits_kernel(MathFn fn) {
  switch ((int)fn) {
    case MATH_INT_AS_FLOAT:
    case MATH_UINT_AS_FLOAT:
    case MATH_FLOAT_AS_INT:
    case MATH_FLOAT_AS_UINT: return copy_32;
    case MATH_LONGLONG_AS_DOUBLE:
    case MATH_DOUBLE_AS_LONGLONG: return copy_64;
    default: return NULL;
  }
}

enum { STEP_WORK = 8 };

/* Whether it is a recurrence of as many steps, each with a division, as its first operand says. */
static bool takes_steps(MathFn fn) { return fn == MATH_JN || fn == MATH_YN; }

static bool run_each(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  Dtype in[4], to = op->out[0]->type->dtype;
  int bytes[4], to_bytes = dtype_bytes(to);
  for (int k = 0; k < op->in_count; k++) {
    in[k] = op->in[k]->type->dtype;
    bytes[k] = dtype_bytes(in[k]);
  }
  Scalar x[4];
  bool steps = takes_steps((MathFn)op->fn);
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < op->in_count; k++) x[k] = scalar_load(in[k], node->in[k] + i * bytes[k]);
    if (steps && x[0].i > 0 && !run_work(run, op, STEP_WORK * x[0].i)) return false;
    scalar_store(to, node->out[0] + i * to_bytes, scalar_math((MathFn)op->fn, in, to, x));
  }
  return true;
}

bool prepare_math(Plan *p, Node *node) {
  Dtype t = node->op->in[0]->type->dtype;
  MathFn fn = (MathFn)node->op->fn;
  node->kernel = bits_kernel(fn);
  if (!node->kernel && node->op->in_count == 1)
    node->kernel = t == DT_F32 ? loops[fn].f32 : t == DT_F64 ? loops[fn].f64 : NULL;
  node->fn = node->kernel ? run_kernel : run_each;
  return true;
}
