/* Each wait, barrier, commit and fence of a pipelined loop is taken out in turn, and each time that is seen: by the
 * verifier of products or by the simulator. */
#include "unit/gpu/test_async_kit.h"
#include "unit/gpu/test_order_kit.h"

enum { SEEDS = 5 };

static bool orders(const LaneOp *op) {
  switch (op->code) {
    case LANE_WGMMA_WAIT:
    case LANE_WGMMA_FENCE:
    case LANE_WGMMA_COMMIT:
    case LANE_FENCE_PROXY:
    case LANE_CP_WAIT:
    case LANE_CP_COMMIT:
    case LANE_FENCE_MBAR:
    case LANE_MBAR_INIT:
    case LANE_MBAR_EXPECT:
    case LANE_MBAR_ARRIVE:
    case LANE_MBAR_WAIT:
    case LANE_TMEM_COMMIT:
    case LANE_TMEM_DEALLOC:
    case LANE_TMEM_WAIT_LD:
    case LANE_TMEM_WAIT_ST:
    case LANE_TMEM_FENCE_BEFORE:
    case LANE_TMEM_FENCE_AFTER:
    case LANE_BARRIER: return true;
    default: return false;
  }
}

static bool is_loop(const LaneOp *op) { return op->code == LANE_FOR || op->code == LANE_WHILE; }

/* Whether it stands in a loop that holds no other. */
static bool in_inner_loop(const LaneOp *op) {
  for (const LaneOp *o = op->block->first; o; o = o->next)
    if (is_loop(o)) return false;
  return op->block->parent && is_loop(op->block->parent);
}

/* False: it is no wait, or one before it has waited for all that it waits for. */
static bool weaken(LaneOp *op) {
  if (op->code != LANE_WGMMA_WAIT && op->code != LANE_CP_WAIT) return false;
  for (const LaneOp *o = op->prev; o && !is_loop(o) && o->code != LANE_WGMMA_COMMIT && o->code != LANE_CP_COMMIT;
       o = o->prev)
    if (o->code == op->code && o->imm <= op->imm) return false;
  op->imm++;
  return true;
}

/* Lengths of the loop: `steps` iterations and fewer, whose ends find other slots of the ring in flight. `number`: the
 * argument that says how far the loop goes. */
typedef struct Lengths {
  int number, each, steps;
} Lengths;

static bool is_seen(DotCase *c, const Lengths *l) {
  LaneSimFault fault;
  bool seen = !order_verifies(c->lane);
  for (int steps = l->steps; !seen && steps >= 0; steps--) {
    if (steps < l->steps - 3 && steps > 2) continue; /* of short ones, slots are filled for nothing */
    c->args[l->number].bits = (uint64_t)(steps * l->each);
    for (uint64_t seed = 0; !seen && seed < SEEDS; seed++) seen = !dot_simulate(c, seed, &fault);
  }
  return seen;
}

/* Only slots of tiles that do not exist are stored to by threads; most loops do not read such, and wait for them (in a
 * `while`) only lest later phases be taken for theirs. */
static bool is_of_no_tile(const LaneOp *op) {
  bool stores = false;
  if (op->code == LANE_MBAR_WAIT) return op->block->parent && op->block->parent->code == LANE_WHILE;
  for (const LaneOp *o = op->prev; o; o = o->prev) stores |= o->code == LANE_ST;
  return stores && op->block->parent && op->block->parent->code == LANE_IF;
}

/* Takes out each in turn, and lets each wait leave one group more in flight. In loops every such change must be seen.
 * Outside, `spare` waits and barriers need not be: the loop's first wait meets again whoever met before it; after a
 * loop, copies that are under way bring nothing that anybody reads, and the wait for them and its barrier are for
 * those who take the ring's memory next, if there are such. (The last group has no copies, and may be left in flight.)
 */
static void needs_all(DotCase *c, const Lengths *l, int least, int spare) {
  int tried = 0, unseen = 0;
  dot_compile(c);
  assert_false(is_seen(c, l));
  context_destroy(c->cx);
  for (int weaker = 0; weaker < 2; weaker++)
    for (int n = 0;; n++, tried++) {
      dot_compile(c);
      LaneOp *op = order_find(c->lane, orders, n);
      if (!op) {
        context_destroy(c->cx);
        break;
      }
      char what[80];
      bool inside = in_inner_loop(op), no_tile = is_of_no_tile(op),
           spared = no_tile || (!inside && (op->code == LANE_BARRIER || op->code == LANE_CP_WAIT ||
                                            (op->code == LANE_FENCE_PROXY && op->next->code == LANE_BARRIER)));
      snprintf(what, sizeof what, "number %d, %s%s {%lld}%s", n, weaker ? "a weaker " : "", lane_info[op->code].name,
               (long long)op->imm, inside ? " in the loop" : "");
      bool done = !weaker || weaken(op);
      if (!weaker) order_take_out(c->lane, op);
      if (done && !is_seen(c, l)) {
        if (!spared) fail_msg("nobody misses %s", what);
        unseen += !no_tile;
      }
      context_destroy(c->cx);
    }
  c->cx = NULL;
  if (tried < 2 * least || unseen > spare) fail_msg("%d of %d are not missed", unseen, tried);
}

static void a_pipelined_product_needs_its_waits(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int stages = 2; stages <= 4; stages++) {
      DotCase c = whole_case(transposed.text, targets[t], 4, stages);
      dot_array(&c, DT_F16, 64 * 32 * 8), dot_array(&c, DT_F16, 32 * 8 * 32), dot_array(&c, DT_F32, 64 * 32);
      dot_int(&c, 0), dot_int(&c, 8);
      dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 32 * 8);
      needs_all(&c, &(Lengths){4, 1, 8}, 5, 3);
      dot_free(&c);
    }
}

/* No thread reads what another has copied: it waits for its own, and meets others at products alone. */
static void threads_own_copies_need_their_waits(void **state) {
  for (int t = 0; t < TARGETS - 1; t++)
    for (int stages = 2; stages <= 4; stages++) {
      bool groups = !strcmp(targets[t], "sm_90a");
      int m = groups ? 128 : 64;
      DotCase c = whole_case(scaled.text, targets[t], groups ? 4 : 2, stages);
      dot_array(&c, DT_F16, m * 64 * 8), dot_array(&c, DT_F16, 64 * 8 * 64), dot_array(&c, DT_F32, m * 64);
      dot_int(&c, 0), dot_int(&c, 8);
      dot_const(&c, m), dot_const(&c, 64), dot_const(&c, 64), dot_const(&c, 64 * 8);
      needs_all(&c, &(Lengths){4, 1, 8}, 5, 3);
      dot_free(&c);
    }
}

/* The accumulator stays in flight from one iteration to the next. */
static void asynchronous_products_need_their_waits(void **state) {
  for (int stages = 2; stages <= 5; stages++) {
    int t = stages == 5 ? 2 : 0, steps = t ? 10 : 8;
    DotCase c = whole_case(wide.text, targets[t], 4, t ? 3 : stages);
    dot_array(&c, DT_F16, 64 * 32 * steps), dot_array(&c, DT_F16, 32 * steps * 32), dot_array(&c, DT_F32, 64 * 32);
    dot_int(&c, 0), dot_int(&c, 32 * steps);
    dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 32 * steps);
    needs_all(&c, &(Lengths){4, 32, steps}, 8, 3);
    dot_free(&c);
  }
}

/* Where a slot more would keep a block out, threads meet before they copy to that of the product before: copies are as
 * far ahead as with it. */
static void products_without_a_slot_to_spare(void **state) {
  enum { M = 64, N = 128, BK = 64, STEPS = 5 };
  DotCase c = whole_case(wide.text, "sm_90a", 4, 3);
  dot_array(&c, DT_F16, M * BK * STEPS), dot_array(&c, DT_F16, BK * STEPS * N), dot_array(&c, DT_F32, M * N);
  dot_int(&c, 0), dot_int(&c, BK * STEPS);
  dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK), dot_const(&c, BK * STEPS);
  c.without |= gpu_without("tensor_maps", &(const char *){NULL});
  dot_compile(&c);
  assert_int_equal(gpu_bytes_in_flight(c.lane), 2 * 2 * BK * (M + N));
  context_destroy(c.cx);
  needs_all(&c, &(Lengths){4, BK, STEPS}, 6, 3);
  dot_free(&c);
}

/* The second loop's ring lies where the first one's was, and so does the same loop's when it begins again. (A launch
 * shows of the latter that its store lies apart from what it loads: no second barrier stands for that one.) */
static void memory_of_a_ring_is_waited_for(void **state) {
  static const Loop *const loops[] = {&twice, &nested};
  for (int i = 0; i < 2 * TARGETS; i++) {
    int steps = i / 2 == 2 ? 10 : 8;
    DotCase c = whole_case(loops[i % 2]->text, targets[i / 2], 4, 3);
    dot_array(&c, DT_F16, 64 * 32 * steps), dot_array(&c, DT_F16, 32 * steps * 32), dot_array(&c, DT_F32, 64 * 32);
    dot_int(&c, 0), dot_int(&c, steps);
    dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 32 * steps);
    int spare = loops[i % 2] == &twice ? 4 : i / 2 == 2 ? 3 : 0;
    needs_all(&c, &(Lengths){4, 1, steps}, 7, spare);
    dot_free(&c);
  }
}

/* Words of the next k's are loaded while products of the last ones run. */
static void turned_products_need_their_waits(void **state) {
  static const Shape shape = {64, 64, 16, 0, 4, DT_F32};
  for (int stages = 2; stages <= 3; stages++) {
    DotCase c = stored_case(&stored[0], &shape, 6, stages, "specialize");
    needs_all(&c, &(Lengths){4, 1, 6}, 8, 3);
    dot_free(&c);
  }
}

static void pipelined_attention_needs_its_waits(void **state) {
  for (int t = 0; t < TARGETS; t++) {
    Attention a = {64 * 5, 32, 64, 64, 4, DT_F16, false, targets[t]};
    Work w = attention_work(&a);
    DotCase c = attention_case(&a, &w, "attention", forward_arrays, 5);
    c.grid[0] = c.grid[1] = 1;
    needs_all(&c, &(Lengths){5, 64, 5}, 8, 6);
    close_case(&c);
    free_work(&w);
  }
}

static const char once_text[] = HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr):\n"
                                     "    r = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]\n"
                                     "    tl.store(out_ptr + r, tl.dot(tl.load(a_ptr + r), tl.load(b_ptr + r)))\n";

static void find_first(LaneOp *op, void *arg) {
  LaneOp **first = arg;
  if (!first[op->code] && (op->code != LANE_ST || op->space == SPACE_SHARED)) first[op->code] = op;
}

static void copy_before(LaneFunc *f, const LaneOp *op, LaneOp *place) {
  LaneOp *copy = NEW(f->cx->arena, LaneOp);
  *copy = *op;
  copy->prev = copy->next = NULL;
  copy->block = NULL;
  lane_insert_before(copy, place);
}

/* A product reads up to its wait: whoever meets before it may not yet write what the product reads. */
static void a_product_reads_up_to_its_wait(void **state) {
  for (int meets = 0; meets < 2; meets++) {
    DotCase c = whole_case(once_text, "sm_90a", 4, 3);
    LaneSimFault fault;
    dot_array(&c, DT_F16, 64 * 64), dot_array(&c, DT_F16, 64 * 64), dot_array(&c, DT_F32, 64 * 64);
    dot_compile(&c);
    LaneOp *first[LANE_COUNT] = {0};
    lane_walk(c.lane->body, find_first, first);
    LaneOp *wait = first[LANE_WGMMA_WAIT], *after = wait->next;
    copy_before(c.lane, first[LANE_BARRIER], wait);
    if (meets) copy_before(c.lane, first[LANE_BARRIER], after);
    copy_before(c.lane, first[LANE_ST], after);
    assert_true(order_verifies(c.lane));
    bool ok = dot_simulate(&c, 0, &fault);
    if (ok != meets) fail_msg("%s", ok ? "no fault" : fault.message);
    if (!meets) assert_non_null(strstr(fault.message, "read, without a barrier between"));
    dot_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pipelined_product_needs_its_waits),    cmocka_unit_test(threads_own_copies_need_their_waits),
      cmocka_unit_test(asynchronous_products_need_their_waits), cmocka_unit_test(products_without_a_slot_to_spare),
      cmocka_unit_test(a_product_reads_up_to_its_wait),         cmocka_unit_test(memory_of_a_ring_is_waited_for),
      cmocka_unit_test(turned_products_need_their_waits),       cmocka_unit_test(pipelined_attention_needs_its_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
