/* What the tests of specialized kernels share: the plain matmul on matrices of all sizes, with what float64 says of it,
 * and taking out in turn what its halves wait for. */
#ifndef TEST_PRODUCT_KIT_H
#define TEST_PRODUCT_KIT_H
#include "unit/gpu/test_dot_kit.h"
#include "unit/gpu/test_order_kit.h"

enum { SEEDS = 3 };

typedef struct Product {
  int m, n, k, block_m, block_n, block_k, warps, blocks;
  Dtype
      type; /* of a and b; 0 (which is no type of them): f16. Others are multiplied along k: b's columns are in rows */
} Product;

static inline bool lies_along(const Product *p) { return p->type != 0; }

static inline DotCase product_case(const Product *p, const char *kernel) {
  DotCase c = {.file = "matmul.py", .kernel = kernel, .target = "sm_90a", .warps = p->warps, .stages = 3};
  c.specialize = true, c.blocks = p->blocks;
  int tiles = (p->m + p->block_m - 1) / p->block_m * ((p->n + p->block_n - 1) / p->block_n);
  c.grid[0] = tiles, c.grid[1] = c.grid[2] = 1;
  if (c.blocks > tiles) c.blocks = tiles;
  Dtype t = p->type ? p->type : DT_F16;
  dot_array(&c, t, p->m * p->k), dot_array(&c, t, p->k * p->n), dot_array(&c, DT_F16, p->m * p->n);
  dot_int(&c, p->m), dot_int(&c, p->n), dot_int(&c, p->k);
  dot_int(&c, p->k), dot_int(&c, 1);
  dot_int(&c, lies_along(p) ? 1 : p->n), dot_int(&c, lies_along(p) ? p->k : 1);
  dot_int(&c, p->n), dot_int(&c, 1);
  dot_const(&c, p->block_m), dot_const(&c, p->block_n), dot_const(&c, p->block_k), dot_const(&c, 8);
  return c;
}

static inline void check_product(const Product *p, const DotCase *c, const char *what) {
  const double *a = c->args[0].values, *b = c->args[1].values, *out = c->args[2].values;
  for (int i = 0; i < p->m; i++)
    for (int j = 0; j < p->n; j++) {
      double sum = 0;
      for (int k = 0; k < p->k; k++) sum += a[i * p->k + k] * b[lies_along(p) ? j * p->k + k : k * p->n + j];
      uint16_t half;
      dtype_store_float(DT_F16, &half, sum);
      if (out[i * p->n + j] != dtype_load_float(DT_F16, &half))
        fail_msg("%s, %d x %d x %d: element %d, %d is %g, not %g", what, p->m, p->n, p->k, i, j, out[i * p->n + j],
                 sum);
    }
}

static inline bool is_specialized(const DotCase *c) { return c->lane->num_warps > c->warps; }

/* ---- what the two halves wait for -------------------------------------------------------------------------------- */

static inline bool orders(const LaneOp *op) {
  switch (op->code) {
    case LANE_MBAR_INIT:
    case LANE_MBAR_WAIT:
    case LANE_MBAR_ARRIVE:
    case LANE_MBAR_EXPECT:
    case LANE_FENCE_MBAR:
    case LANE_WGMMA_WAIT:
    case LANE_WGMMA_FENCE:
    case LANE_WGMMA_COMMIT:
    case LANE_FENCE_PROXY:
    case LANE_BULK_WAIT:
    case LANE_BULK_COMMIT:
    case LANE_CLUSTER_BARRIER:
    case LANE_BARRIER_ARRIVE:
    case LANE_BARRIER: return true;
    default: return false;
  }
}

/* `length`: the argument that says how far the loop goes; so far, and for one iteration, which fills no ring. */
static inline bool is_seen(DotCase *c, int length, int most) {
  LaneSimFault fault;
  bool seen = !order_verifies(c->lane);
  for (int one = 0; !seen && one < 2; one++) {
    c->args[length].bits = one ? 32 : (uint64_t)most;
    for (uint64_t seed = 0; !seen && seed < 2 * SEEDS; seed++) seen = !dot_simulate(c, seed, &fault);
  }
  return seen;
}

/* Takes out each in turn, but barriers of a warp, whose lanes the simulator runs together; all but `spare` must be
 * missed. Those: of two slots that are freed together, the second one's wait is the first one's; and barriers between
 * two stores by threads, which write to other places here. */
static inline void needs_all(DotCase *c, int length, int most, int least, int spare) {
  int tried = 0, unseen = 0;
  dot_compile(c);
  assert_true(is_specialized(c) && !is_seen(c, length, most));
  context_destroy(c->cx);
  Buf all = {0};
  for (;; tried++) {
    dot_compile(c);
    LaneOp *op = order_find(c->lane, orders, tried);
    if (!op) break;
    bool lanes = op->code == LANE_BARRIER && op->warp;
    char what[80];
    snprintf(what, sizeof what, " %d, %s {%lld}", tried, lane_info[op->code].name, (long long)op->imm);
    order_take_out(c->lane, op);
    if (!lanes && !is_seen(c, length, most)) unseen++, buf_puts(&all, what);
    context_destroy(c->cx);
  }
  if (tried < least || unseen != spare) fail_msg("%d of %d are not missed:%s", unseen, tried, all.at ? all.at : "");
  buf_destroy(&all);
}

#endif
