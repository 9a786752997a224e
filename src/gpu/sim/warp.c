/* What the lanes of a warp, or the warps of a block, do together: shuffles, votes, reductions, barriers.
 *
 * All lanes of a warp must come to such an operation together. Here that means: of each warp all lanes that have not
 * ended are active, or none; for a barrier of the block, all threads that have not ended.
 */
#include "gpu/sim/sim_plan.h"

/* Which lanes of warp w take part; false after a fault. */
static bool lanes_of(SimRun *r, const SimOp *o, const SimMask *m, int w, uint32_t *lanes) {
  *lanes = 0;
  int missing = -1;
  for (int lane = 0; lane < 32; lane++) {
    int t = 32 * w + lane;
    if (m->on[t]) *lanes |= 1u << lane;
    else if (!r->exited[t]) missing = t;
  }
  if (*lanes == 0 || missing < 0) return true;
  return sim_fault(r, o->op, missing, "'%s' is reached by a part of warp %d only: thread %d is not there",
                   lane_info[o->op->code].name, w, missing);
}

/* The lane that lane `lane` reads from, as the PTX ISA says under shfl.sync. */
static int shuffle_source(const LaneOp *op, int lane, uint32_t b) {
  int width = op->imm >= 1 && op->imm <= 32 ? (int)op->imm : 32, n = (int)(b & 31);
  int first = lane & ~(width - 1), last = first | (width - 1), source;
  switch (op->shuffle) {
    case SHUFFLE_UP: return source = lane - n, source >= first ? source : lane;
    case SHUFFLE_DOWN: return source = lane + n, source <= last ? source : lane;
    case SHUFFLE_XOR: return source = lane ^ n, source <= last ? source : lane;
    default: return first | (n & (width - 1));
  }
}

static bool shuffle(SimRun *r, const SimOp *o, int w, uint32_t lanes) {
  const uint32_t *value = (const uint32_t *)(void *)(r->regs + o->in[0]),
                 *b = (const uint32_t *)(void *)(r->regs + o->in[1]);
  uint32_t *out = (uint32_t *)(void *)(r->regs + o->out[0]);
  for (int lane = 0; lane < 32; lane++) {
    if (!(lanes >> lane & 1)) continue;
    int t = 32 * w + lane, source = shuffle_source(o->op, lane, b[t]);
    if (!(lanes >> source & 1))
      return sim_fault(r, o->op, t, "lane %d reads from lane %d, whose thread has ended", lane, source);
    out[t] = value[32 * w + source];
  }
  return true;
}

static void vote(SimRun *r, const SimOp *o, int w, uint32_t lanes) {
  const uint8_t *in = (const uint8_t *)(r->regs + o->in[0]) + 32 * w;
  uint32_t ballot = 0;
  for (int lane = 0; lane < 32; lane++)
    if (lanes >> lane & 1 && in[lane]) ballot |= 1u << lane;
  LaneType type = o->op->out[0]->type;
  uint64_t result = o->op->vote == VOTE_BALLOT ? ballot : o->op->vote == VOTE_ANY ? ballot != 0 : ballot == lanes;
  for (int lane = 0; lane < 32; lane++)
    if (lanes >> lane & 1) sim_set(r, o->out[0], type, 32 * w + lane, result);
}

static void reduce(SimRun *r, const SimOp *o, int w, uint32_t lanes) {
  const uint32_t *in = (const uint32_t *)(void *)(r->regs + o->in[0]) + 32 * w;
  uint32_t *out = (uint32_t *)(void *)(r->regs + o->out[0]) + 32 * w;
  uint64_t sum = 0;
  bool first = true;
  for (int lane = 0; lane < 32; lane++) {
    if (!(lanes >> lane & 1)) continue;
    sum = first ? in[lane] : lane_eval_rmw(o->op->rmw, o->op->kind, sum, in[lane], 0);
    first = false;
  }
  for (int lane = 0; lane < 32; lane++)
    if (lanes >> lane & 1) out[lane] = (uint32_t)sum;
}

static bool all_there(SimRun *r, const SimOp *o, int w, uint32_t lanes) {
  return lanes == ~0u ||
         sim_fault(r, o->op, 32 * w + __builtin_ctz(~lanes),
                   "'%s' wants all lanes of a warp, but a thread of warp %d has ended", lane_info[o->op->code].name, w);
}

bool sim_converged(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneOp *op = o->op;
  if (r->apart && ((op->code == LANE_BARRIER && !op->warp) || op->code == LANE_BARRIER_ARRIVE ||
                   op->code == LANE_CLUSTER_BARRIER)) {
    uint32_t lanes;
    return lanes_of(r, o, m, r->from / 32, &lanes) && sim_meet(r, op);
  }
  if (op->code == LANE_BARRIER && !op->warp) {
    if (m->count != r->live) {
      int missing = 0;
      while (missing < r->threads && (m->on[missing] || r->exited[missing])) missing++;
      return sim_fault(r, op, missing, "a barrier that thread %d does not reach", missing);
    }
    r->block_sync = ++r->time;
    if (r->global) sim_shadow_meet(r->global);
    if (r->clocks) sim_clock_meet(r);
    for (int w = 0; w < r->plan->warps; w++) r->warp_sync[w] = r->time;
    return true;
  }
  if (op->code == LANE_BARRIER) r->time++;
  for (int w = r->from / 32; w < r->to / 32; w++) {
    uint32_t lanes;
    if (!lanes_of(r, o, m, w, &lanes)) return false;
    if (lanes == 0) continue;
    switch (op->code) {
      case LANE_SHFL:
        if (!shuffle(r, o, w, lanes)) return false;
        break;
      case LANE_LDMATRIX:
        if (!all_there(r, o, w, lanes) || !sim_ldmatrix(r, o, w)) return false;
        break;
      case LANE_STMATRIX:
        if (!all_there(r, o, w, lanes) || !sim_stmatrix(r, o, w)) return false;
        break;
      case LANE_MMA:
        if (!all_there(r, o, w, lanes)) return false;
        sim_mma(r, o, w);
        break;
      case LANE_WGMMA:
        if (!all_there(r, o, w, lanes) || (r->async && !sim_wgmma(r, o, w))) return false;
        break;
      case LANE_WGMMA_FENCE:
      case LANE_WGMMA_COMMIT:
      case LANE_WGMMA_WAIT:
        if (!all_there(r, o, w, lanes)) return false;
        sim_wgmma_group(r, o, w);
        break;
      case LANE_ELECT:
        for (int lane = 0; lane < 32; lane++)
          if (lanes >> lane & 1) sim_set(r, o->out[0], LT_PRED, 32 * w + lane, lane == __builtin_ctz(lanes));
        break;
      case LANE_SETMAXNREG:
        if (!all_there(r, o, w, lanes) || (r->apart && !sim_take_registers(r, op))) return false;
        break;
      case LANE_BARRIER_ARRIVE: break; /* looked at, not run */
      case LANE_VOTE: vote(r, o, w, lanes); break;
      case LANE_REDUX: reduce(r, o, w, lanes); break;
      default:
        r->warp_sync[w] = r->time;
        if (r->plan->warps == 1) r->block_sync = r->time; /* there are no others */
        break;
    }
  }
  return true;
}
