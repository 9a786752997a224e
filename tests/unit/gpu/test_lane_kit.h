/* A kernel under construction in the lane IR, and what its values are to be. */
#ifndef NEREID_TEST_LANE_KIT_H
#define NEREID_TEST_LANE_KIT_H

#include "gpu/lane/lane.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* A kernel with parameters of every register type, and what stands in its body. */
typedef struct Kit {
  Context *cx;
  LaneFunc *f;
  LaneBuilder builder, *b;
  LaneValue *x, *y, *w, *h, *p, *q; /* b32, b32, b64, b16, pred, pred */
} Kit;

static inline void start(Kit *k) {
  k->cx = context_create();
  k->f = lane_func_create(k->cx, "k");
  k->x = lane_func_param(k->f, LT_B32, NULL, 1);
  k->y = lane_func_param(k->f, LT_B32, NULL, 1);
  k->w = lane_func_param(k->f, LT_B64, NULL, 16);
  k->h = lane_func_param(k->f, LT_B16, NULL, 1);
  k->p = lane_func_param(k->f, LT_PRED, NULL, 1);
  k->q = lane_func_param(k->f, LT_PRED, NULL, 1);
  k->builder = lane_builder(k->f);
  k->b = &k->builder;
}

static inline void finish(Kit *k) { context_destroy(k->cx); }

static inline LaneValue *i32(Kit *k, int32_t v) { return lane_i32(k->b, v); }
static inline LaneValue *add(Kit *k, LaneValue *x, LaneValue *y) { return lane_2(k->b, LANE_ADD, LK_S32, x, y); }

static inline void is_const(const LaneValue *v, uint64_t want) {
  uint64_t bits;
  assert_true(lane_is_const(v, &bits));
  assert_int_equal(bits, want);
}

/* v is base + offset. */
static inline void is_sum(LaneKind kind, LaneValue *v, const LaneValue *base, int64_t offset) {
  LaneValue *got;
  int64_t by;
  lane_split_offset(kind, v, &got, &by);
  assert_ptr_equal(got, base);
  assert_int_equal(by, offset);
}

#endif
