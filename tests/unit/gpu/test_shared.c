/* Shared memory: lives, places and the barriers that reuse needs, on small functions made with the builder. */
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct Test {
  Context *cx;
  LaneFunc *f;
  LaneBuilder b;
  LaneValue *tid, *four;
} Test;

static Test begin(int num_warps) {
  Test t = {.cx = context_create()};
  t.f = lane_func_create(t.cx, "k");
  t.f->num_warps = num_warps;
  t.b = lane_builder(t.f);
  t.tid = lane_special(&t.b, SP_TID_X);
  t.four = lane_i32(&t.b, 4);
  return t;
}

/* Each thread's word of buffer n; `shift` words further. */
static LaneValue *word(Test *t, int n, int shift) {
  LaneValue *bytes =
      lane_2(&t->b, LANE_MUL, LK_S32, lane_2(&t->b, LANE_XOR, LK_B32, t->tid, lane_i32(&t->b, shift)), t->four);
  return lane_2(&t->b, LANE_ADD, LK_S32, lane_shared(&t->b, n), bytes);
}

static void put(Test *t, int n) {
  LaneValue *v = t->tid;
  lane_store(&t->b, SPACE_SHARED, LK_B32, 1, word(t, n, 0), 0, NULL, &v)->buffer = (int16_t)n;
}

static void get(Test *t, int n, int shift) {
  lane_load(&t->b, SPACE_SHARED, LK_B32, 1, word(t, n, shift), 0, NULL, NULL)->buffer = (int16_t)n;
}

/* Write, barrier, read the word of a thread of another warp. */
static void use(Test *t, int n) {
  put(t, n);
  lane_barrier(&t->b, false);
  get(t, n, 32);
}

static LaneOp *loop(Test *t, int rounds) {
  LaneOp *op = lane_for(&t->b, LK_S32, lane_i32(&t->b, 0), lane_i32(&t->b, rounds), lane_i32(&t->b, 1), 0, NULL);
  op->uniform = 1;
  return op;
}

static void allocate(Test *t) { gpu_allocate_shared(t->f, &(GpuOptions){.target = gpu_target_find("sm_90a")}); }

static void count(LaneOp *op, void *arg) {
  int *n = arg;
  if (op->code == LANE_BARRIER) n[op->warp]++;
}

/* Allocates, counts barriers, runs it: the simulator finds races and reads of what nobody wrote. */
static void finish(Test *t, int block_barriers, int warp_barriers) {
  allocate(t);
  int n[2] = {0};
  lane_walk(t->f->body, count, n);
  assert_int_equal(n[0], block_barriers);
  assert_int_equal(n[1], warp_barriers);
  LaneSimFault fault;
  int32_t grid[3] = {1, 1, 1};
  if (!lane_sim_run(t->f, NULL, &(LaneSimOptions){.grid = grid, .begin = 0, .end = 1}, &fault))
    fail_msg("%s", fault.message);
  context_destroy(t->cx);
}

static int buffer(Test *t, int bytes) { return lane_buffer(&t->b, "b", bytes, 16); }
static int offset(const Test *t, int n) { return t->f->buffers.at[n].offset; }
static bool overlap(const Test *t, int a, int b) {
  const LaneBuffer *x = &t->f->buffers.at[a], *y = &t->f->buffers.at[b];
  return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/* Large buffers that live one after the other share their memory; the second's writes wait for the first's reads. */
static void one_after_the_other(void **state) {
  Test t = begin(4);
  int a = buffer(&t, 64 << 10), b = buffer(&t, 32 << 10), c = buffer(&t, 100 << 10);
  use(&t, a);
  use(&t, b);
  use(&t, c);
  allocate(&t);
  assert_int_equal(t.f->shared_bytes, 100 << 10);
  assert_true(overlap(&t, a, c) && overlap(&t, b, c));
  finish(&t, 3 + 2, 0);
}

typedef struct Order {
  int fenced; /* 1: a fence stands after the last access by threads; 2: and a barrier after that */
  int loads, bare;
} Order;

static void look_before_copies(LaneOp *op, void *arg) {
  Order *o = arg;
  if (op->code == LANE_ST || op->code == LANE_LD) o->fenced = 0;
  if (op->code == LANE_FENCE_PROXY) o->fenced = 1;
  if (op->code == LANE_BARRIER && o->fenced == 1) o->fenced = 2;
  if (op->code != LANE_TENSOR_LOAD) return;
  o->loads++;
  o->bare += o->fenced != 2;
}

/* A copy by a tensor map over memory that threads have read or written: a barrier is not enough, whoever put it. */
static void before_copies_by_maps(void **state) {
  for (int barriers = 0; barriers < 2; barriers++) {
    Test t = begin(4);
    LaneValue *map = lane_func_param(t.f, LT_B64, NULL, 1), *zero = lane_i32(&t.b, 0), *to[] = {zero, zero};
    int a = buffer(&t, 100 << 10), ring = lane_buffer(&t.b, "ring", 200 << 10, 1024),
        bars = lane_buffer(&t.b, "barriers", 8, 8);
    t.f->buffers.at[ring].ring = 2;
    LaneValue *bar = lane_shared(&t.b, bars), *one = lane_setp(&t.b, CMP_EQ, LK_S32, t.tid, zero);
    use(&t, a);
    if (barriers) lane_barrier(&t.b, false);
    LaneOp *branch = lane_if(&t.b, one, false, 0, NULL);
    lane_tensor(&t.b, LANE_TENSOR_LOAD, 2, lane_shared(&t.b, ring), 0, ring, bar, map, to);
    lane_yield(&t.b, 0, NULL);
    lane_enter(&t.b, branch, 1);
    lane_yield(&t.b, 0, NULL);
    lane_leave(&t.b, branch);
    allocate(&t);
    assert_true(overlap(&t, a, ring));
    Order order = {0};
    lane_walk(t.f->body, look_before_copies, &order);
    assert_int_equal(order.loads, 1);
    assert_int_equal(order.bare, 0);
    context_destroy(t.cx);
  }
}

/* Small ones get memory of their own, which needs no barriers. */
static void small_ones_apart(void **state) {
  Test t = begin(4);
  int a = buffer(&t, 512), b = buffer(&t, 512);
  use(&t, a);
  use(&t, b);
  finish(&t, 2, 0);
}

static void at_the_same_time(void **state) {
  Test t = begin(4);
  int a = buffer(&t, 90 << 10), b = buffer(&t, 90 << 10);
  put(&t, a);
  put(&t, b);
  lane_barrier(&t.b, false);
  get(&t, a, 32);
  get(&t, b, 32);
  allocate(&t);
  assert_false(overlap(&t, a, b));
  assert_int_equal(t.f->shared_bytes, 180 << 10);
  finish(&t, 1, 0);
}

/* Alignment and unused buffers. */
static void alignment(void **state) {
  Test t = begin(1);
  int a = lane_buffer(&t.b, "a", 130, 2), b = lane_buffer(&t.b, "b", 128, 128),
      c = lane_buffer(&t.b, "never", 1 << 20, 16);
  put(&t, a);
  put(&t, b);
  lane_barrier(&t.b, false);
  get(&t, a, 1);
  get(&t, b, 1);
  allocate(&t);
  assert_int_equal(offset(&t, b) % 128, 0);
  assert_false(overlap(&t, a, b));
  assert_true(t.f->shared_bytes <= 384);
  (void)c;
  finish(&t, 0, 1); /* one warp has warp barriers only */
}

/* In a loop, the next round's writes must wait for this round's reads. */
static void around_a_loop(void **state) {
  Test t = begin(4);
  int a = buffer(&t, 512);
  LaneOp *l = loop(&t, 3);
  use(&t, a);
  lane_leave(&t.b, l);
  finish(&t, 2, 0);

  t = begin(4); /* with two buffers, each one's barrier serves the other */
  a = buffer(&t, 512);
  int b = buffer(&t, 512);
  l = loop(&t, 3);
  use(&t, a);
  use(&t, b);
  lane_leave(&t.b, l);
  finish(&t, 2, 0);

  t = begin(4); /* a loop in a loop */
  a = buffer(&t, 512);
  LaneOp *outer = loop(&t, 2);
  l = loop(&t, 2);
  use(&t, a);
  lane_leave(&t.b, l);
  lane_leave(&t.b, outer);
  finish(&t, 2, 0);
}

/* What is written before a loop and read in it lives as long as the loop; so does what a round reads before it writes
 * it. */
static void live_in_a_loop(void **state) {
  Test t = begin(4);
  int kept = buffer(&t, 80 << 10), inside = buffer(&t, 80 << 10);
  put(&t, kept);
  LaneOp *l = loop(&t, 3);
  lane_barrier(&t.b, false);
  get(&t, kept, 32);
  use(&t, inside);
  lane_leave(&t.b, l);
  allocate(&t);
  assert_false(overlap(&t, kept, inside));
  finish(&t, 2, 0);

  t = begin(4);
  int carried = buffer(&t, 60 << 10), first = buffer(&t, 60 << 10), last = buffer(&t, 60 << 10);
  put(&t, carried);
  lane_barrier(&t.b, false);
  l = loop(&t, 3);
  use(&t, first);
  get(&t, carried, 32);
  lane_barrier(&t.b, false);
  put(&t, carried);
  use(&t, last);
  lane_leave(&t.b, l);
  allocate(&t);
  assert_false(overlap(&t, carried, first));
  assert_false(overlap(&t, carried, last));
  assert_false(overlap(&t, first, last)); /* all fit */
  finish(&t, 4, 0);

  t = begin(4); /* only in the loop, and read there first: what an earlier round left */
  carried = buffer(&t, 60 << 10), last = buffer(&t, 60 << 10);
  int early = buffer(&t, 60 << 10);
  l = loop(&t, 2);
  use(&t, early);
  LaneOp *second =
      lane_if(&t.b, lane_setp(&t.b, CMP_NE, LK_S32, l->body[0]->args[0], lane_i32(&t.b, 0)), true, 0, NULL);
  get(&t, carried, 32);
  lane_leave(&t.b, second);
  lane_barrier(&t.b, false);
  put(&t, carried);
  use(&t, last);
  lane_leave(&t.b, l);
  allocate(&t);
  assert_false(overlap(&t, carried, last));
  assert_false(overlap(&t, carried, early));
  assert_false(overlap(&t, early, last));
  finish(&t, 3, 0); /* early does not wait for the reads of last */
}

/* Buffers 1 to `count` in a loop, with `registers` values that are live around it. */
static Test changes_in_a_loop(int registers, int count, int bytes) {
  Test t = begin(4);
  int kept = buffer(&t, 512);
  LaneValue *values[256], *sum = t.tid;
  for (int i = 0; i < registers; i++)
    values[i] = lane_2(&t.b, LANE_MULHI, LK_U32, t.tid, lane_const(&t.b, LT_B32, 0x9e3779b1u * (uint32_t)(i + 1)));
  for (int i = 0; i < count; i++) buffer(&t, bytes);
  LaneOp *l = loop(&t, 3);
  for (int i = 1; i <= count; i++) use(&t, i);
  lane_leave(&t.b, l);
  lane_barrier(&t.b, false);
  for (int i = 0; i < registers; i++) sum = lane_2(&t.b, LANE_XOR, LK_B32, sum, values[i]);
  lane_store(&t.b, SPACE_SHARED, LK_B32, 1, word(&t, kept, 0), 0, NULL, &sum)->buffer = (int16_t)kept;
  return t;
}

/* In loops, buffers are apart as long as as many blocks fit on a multiprocessor as if they were not: what else limits
 * these is warps, registers and the shared memory that the kernel takes anyway. */
static void apart_in_loops(void **state) {
  Test t = changes_in_a_loop(8, 2, 40 << 10); /* five blocks, of 80 KiB two */
  allocate(&t);
  assert_true(overlap(&t, 1, 2));
  finish(&t, 5, 0);

  t = changes_in_a_loop(220, 2, 40 << 10); /* two blocks by their registers */
  allocate(&t);
  assert_false(overlap(&t, 1, 2));
  finish(&t, 3, 0);

  t = changes_in_a_loop(220, 2, 70 << 10); /* two blocks still, of 140 KiB one */
  allocate(&t);
  assert_true(overlap(&t, 1, 2));
  finish(&t, 5, 0);

  t = changes_in_a_loop(8, 2, 120 << 10); /* one block, whose shared memory has not room for both */
  allocate(&t);
  assert_true(overlap(&t, 1, 2));
  finish(&t, 5, 0);

  t = changes_in_a_loop(8, 2, 110 << 10); /* two, of both one */
  allocate(&t);
  assert_true(overlap(&t, 1, 2));
  finish(&t, 5, 0);
}

/* Four changes of a loop need two places only: between the uses of each there is another's barrier. */
static void two_places_serve(void **state) {
  Test t = changes_in_a_loop(220, 4, 50 << 10);
  allocate(&t);
  assert_int_equal(t.f->shared_bytes, 100 << 10);
  finish(&t, 5, 0);
}

/* Where a buffer's write waits anyway, it is no reason to lie apart, and its barrier serves those behind it. */
static void own_barriers_first(void **state) {
  Test t = begin(4);
  int other = buffer(&t, 100 << 10), a = buffer(&t, 20 << 10), b = buffer(&t, 20 << 10);
  use(&t, other);
  LaneOp *l = loop(&t, 3);
  put(&t, a);
  put(&t, b);
  lane_barrier(&t.b, false);
  get(&t, a, 32);
  get(&t, b, 32);
  lane_leave(&t.b, l);
  finish(&t, 3, 0);
}

/* A barrier in one branch does not serve the other way. */
static void branches(void **state) {
  for (int both = 0; both < 2; both++) {
    Test t = begin(4);
    int a = buffer(&t, 120 << 10), b = buffer(&t, 120 << 10);
    use(&t, a);
    LaneOp *op = lane_if(&t.b, lane_setp(&t.b, CMP_EQ, LK_S32, lane_special(&t.b, SP_CTAID_X), lane_i32(&t.b, 1)), true,
                         0, NULL);
    lane_barrier(&t.b, false);
    lane_enter(&t.b, op, 1);
    if (both) lane_barrier(&t.b, false);
    lane_leave(&t.b, op);
    use(&t, b);
    finish(&t, both ? 4 : 3 + 1, 0);
  }
}

/* Where threads part, a barrier stands before. */
static void divergent(void **state) {
  Test t = begin(4);
  int a = buffer(&t, 120 << 10), b = buffer(&t, 120 << 10);
  use(&t, a);
  LaneOp *op = lane_if(&t.b, lane_setp(&t.b, CMP_LT, LK_S32, t.tid, lane_i32(&t.b, 5)), false, 0, NULL);
  put(&t, b);
  get(&t, b, 0);
  lane_leave(&t.b, op);
  allocate(&t);
  assert_true(op->prev && op->prev->code == LANE_BARRIER);
  finish(&t, 2, 0);
}

/* A while loop is left after its first body, and begins anew after its second. */
static void while_loop(void **state) {
  Test t = begin(4);
  int a = buffer(&t, 512), b = buffer(&t, 512);
  LaneValue *zero = lane_i32(&t.b, 0);
  LaneOp *op = lane_while(&t.b, 1, &zero);
  op->uniform = 1;
  LaneValue *i = op->body[0]->args[0];
  put(&t, a); /* over what the second body read */
  lane_barrier(&t.b, false);
  lane_condition(&t.b, lane_setp(&t.b, CMP_LT, LK_S32, i, lane_i32(&t.b, 3)), 1, &i);
  lane_enter(&t.b, op, 1);
  get(&t, a, 32);
  LaneValue *next = lane_2(&t.b, LANE_ADD, LK_S32, op->body[1]->args[0], lane_i32(&t.b, 1));
  lane_yield(&t.b, 1, &next);
  lane_leave(&t.b, op);
  use(&t, b);
  finish(&t, 3, 0);
}

/* Each warp in bytes of its own: warp barriers are enough, also for the next round. */
static void within_warps(void **state) {
  Test t = begin(4);
  int a = buffer(&t, 512);
  t.f->buffers.at[a].warp_local = true;
  LaneOp *l = loop(&t, 3);
  put(&t, a);
  lane_barrier(&t.b, true);
  get(&t, a, 1);
  lane_leave(&t.b, l);
  finish(&t, 0, 2);

  t = begin(4); /* but another buffer's bytes may be another warp's */
  a = buffer(&t, 120 << 10);
  int b = buffer(&t, 120 << 10);
  t.f->buffers.at[a].warp_local = t.f->buffers.at[b].warp_local = true;
  for (int i = 0; i < 2; i++) {
    put(&t, i ? b : a);
    lane_barrier(&t.b, true);
    get(&t, i ? b : a, 1);
  }
  finish(&t, 1, 2);
}

static void too_much(void **state) {
  Test t = begin(4);
  Source *text = source_from_text(t.cx, "k.py", "a\nb\nc\n", 6);
  Span spans[3];
  int n[3];
  for (int i = 0; i < 3; i++) {
    spans[i] = (Span){text, i + 1, 0, i + 1, 1, NULL};
    static const char *const names[] = {"gather", "dot a", "dot b"};
    n[i] = lane_buffer(&t.b, names[i], (40 + 30 * i) << 10, 16);
    t.b.span = &spans[i];
    put(&t, n[i]);
  }
  lane_barrier(&t.b, false);
  for (int i = 0; i < 3; i++) get(&t, n[i], 32);
  int barred = lane_buffer(&t.b, "none", 1 << 30, 16);
  (void)barred;
  if (context_try(t.cx)) {
    gpu_allocate_shared(t.f, &(GpuOptions){.target = gpu_target_find("sm_80")});
    context_end_try(t.cx);
    fail_msg("it fits?");
  }
  assert_int_equal(t.cx->diags.n, 1);
  assert_string_equal(t.cx->diags.at[0].message, "the kernel needs 215040 bytes of shared memory in a block, but sm_80 "
                                                 "has 166912: 102400 for `dot b` in line 3, 71680 for "
                                                 "`dot a` in line 2, 40960 for `gather` in line 1");
  assert_int_equal(t.cx->diags.at[0].span.line, 3);
  context_destroy(t.cx);
}

int main(void) {
  /* clang-format off */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_after_the_other), cmocka_unit_test(before_copies_by_maps), cmocka_unit_test(small_ones_apart), cmocka_unit_test(at_the_same_time),
        cmocka_unit_test(alignment),
      cmocka_unit_test(around_a_loop), cmocka_unit_test(live_in_a_loop), cmocka_unit_test(apart_in_loops), cmocka_unit_test(two_places_serve),
      cmocka_unit_test(own_barriers_first), cmocka_unit_test(branches),
        cmocka_unit_test(divergent),
      cmocka_unit_test(while_loop),          cmocka_unit_test(within_warps),     cmocka_unit_test(too_much),
  };
  /* clang-format on */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
