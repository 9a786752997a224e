/* Computing lists of spans. */
#include "tile/span_steps.h"

const SpanInfo span_info[SPAN_CODES_COUNT] = {
#define OP(id, name, operands, numbers) [SPAN_##id] = {name, operands, numbers},
    SPAN_CODES(OP)
#undef OP
        [SPAN_OF] = {"of", 0, 2},
    [SPAN_ARGUMENT] = {"argument", 0, 0},
    [SPAN_PROGRAMS] = {"programs", 0, 0},
};

NdSpan span_compute(const SpanStep *s, const NdSpan *done) {
  const NdSpan *x = done + s->in[0], *y = done + s->in[1], *z = done + s->in[2];
  switch (s->code) {
    case SPAN_PLUS: return nd_span_plus(*x, *y);
    case SPAN_MINUS: return nd_span_minus(*x, *y);
    case SPAN_TIMES: return nd_span_times(*x, *y);
    case SPAN_OVER: return nd_span_over(*x, *y);
    case SPAN_REST: return nd_span_rest(*x, *y);
    case SPAN_LEAST: return nd_span_least(*x, *y);
    case SPAN_MOST: return nd_span_most(*x, *y);
    case SPAN_JOIN: return nd_span_join(*x, *y);
    case SPAN_MEET: return nd_span_meet(*x, *y);
    case SPAN_WHEN: return nd_span_when(*x, *y, s->lo);
    case SPAN_FIT: return nd_span_fit(*x, s->lo, s->hi);
    case SPAN_BELOW: return nd_span_below(*x, *y, (int)s->lo);
    case SPAN_ABOVE: return nd_span_above(*x, *y, (int)s->lo);
    case SPAN_LOOP: return nd_span_loop(*x, *y, *z);
    case SPAN_ROUNDS: return nd_span_rounds(*x, *y, *z, (int)s->lo);
    case SPAN_BYTES: return nd_span_bytes(*x, (int)s->lo);
    case SPAN_OF: return nd_span_of(s->lo, s->hi);
    default: return nd_span_all();
  }
}

void span_mark(const SpanStep *steps, int count, bool *wanted) {
  while (count--)
    for (int k = 0; wanted[count] && k < span_info[steps[count].code].operands; k++) wanted[steps[count].in[k]] = true;
}

void span_run(const SpanStep *steps, int count, const uint64_t *args, const int32_t grid[3], NdSpan *done) {
  for (int i = 0; i < count; i++) {
    const SpanStep *s = &steps[i];
    int64_t v = 0;
    if (s->code == SPAN_ARGUMENT)
      v = s->type == DT_I1 ? (args[s->lo] & 0xff) != 0 : scalar_load(s->type, &args[s->lo]).i;
    else if (s->code == SPAN_PROGRAMS) v = grid[s->lo];
    done[i] = s->code == SPAN_ARGUMENT || s->code == SPAN_PROGRAMS ? nd_span_of(v, v) : span_compute(s, done);
  }
}
