/* span_steps: intervals of a kernel's integers (base/span.h) as a list of operations, each of which takes results of
 * earlier ones. analysis/reach.h makes such lists; the CPU's back end prints them as C, launch plans of GPUs compute
 * them.
 */
#ifndef NEREID_TILE_SPAN_STEPS_H
#define NEREID_TILE_SPAN_STEPS_H

#include "base/span.h"
#include "tile/tile.h"

/* OP(id, name of the function nd_span_..., operands, numbers that follow these: of lo, hi) */
#define SPAN_CODES(OP) \
  OP(PLUS, "plus", 2, 0) \
  OP(MINUS, "minus", 2, 0) \
  OP(TIMES, "times", 2, 0) \
  OP(OVER, "over", 2, 0) \
  OP(REST, "rest", 2, 0) \
  OP(LEAST, "least", 2, 0) \
  OP(MOST, "most", 2, 0) \
  OP(JOIN, "join", 2, 0) \
  OP(MEET, "meet", 2, 0) \
  OP(WHEN, "when", 2, 1)   /* a where b is at least lo; else anything */ \
  OP(FIT, "fit", 1, 2)     /* to a type's least and most: where it may leave these, it may also wrap */ \
  OP(BELOW, "below", 2, 1) /* a where it is less than b; 1: or equal */ \
  OP(ABOVE, "above", 2, 1) \
  OP(LOOP, "loop", 3, 0)     /* a loop's variable; from, to, step */ \
  OP(ROUNDS, "rounds", 3, 1) /* how often it has come round; 1: after the loop */ \
  OP(BYTES, "bytes", 1, 1)   /* the last element's, too */

typedef enum {
#define OP(id, name, operands, numbers) SPAN_##id,
  SPAN_CODES(OP)
#undef OP
      SPAN_OF,   /* lo to hi */
  SPAN_ARGUMENT, /* number lo, of `type`, as it is */
  SPAN_PROGRAMS, /* how many there are along axis lo */
  SPAN_CODES_COUNT
} SpanCode;

typedef struct SpanStep {
  SpanCode code;
  Dtype type;
  int in[3];
  int64_t lo, hi;
} SpanStep;

typedef struct SpanInfo {
  const char *name;
  int operands, numbers;
} SpanInfo;
extern const SpanInfo span_info[SPAN_CODES_COUNT];

/* Of one that takes other spans alone. */
NdSpan span_compute(const SpanStep *s, const NdSpan *done);
/* Marks what the marked ones take. */
void span_mark(const SpanStep *steps, int count, bool *wanted);
/* All of them, into `done`. args: a launch's, 8 bytes each. */
void span_run(const SpanStep *steps, int count, const uint64_t *args, const int32_t grid[3], NdSpan *done);

#endif
