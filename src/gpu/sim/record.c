/* Records of an instrumented kernel on the simulator (tile/passes/instrument.h).
 *
 * Its clock counts what a warp executes: one for each operation of the lane IR that some lane of it takes part in. A
 * barrier of the block brings all warps to the time of the latest. Each block begins at zero, on a multiprocessor of
 * its own. So what is recorded depends on the kernel and its input alone: it shows where the instructions are, not how
 * long they take.
 */
#include "gpu/sim/sim_plan.h"
#include "tile/passes/instrument.h"

struct SimClock {
  uint64_t common;          /* operations that all warps took part in */
  uint64_t *own;            /* by warp: others */
  InstrumentCursor *cursor; /* by warp */
};

SimClock *sim_clock(Context *cx, int warps) {
  SimClock *c = NEW(cx->arena, SimClock);
  c->own = NEW_N(cx->arena, uint64_t, warps);
  c->cursor = NEW_N(cx->arena, InstrumentCursor, warps);
  return c;
}

void sim_clock_start(SimRun *r) {
  int warps = r->plan->warps;
  r->clocks->common = 0;
  memset(r->clocks->own, 0, sizeof *r->clocks->own * (size_t)warps);
  memset(r->clocks->cursor, 0, sizeof *r->clocks->cursor * (size_t)warps);
}

static bool takes_part(const SimMask *m, int warp) {
  for (int lane = 0; lane < 32; lane++)
    if (m->on[32 * warp + lane]) return true;
  return false;
}

static bool is_record(const LaneOp *op) {
  return op->code == LANE_RECORD_OPEN || op->code == LANE_RECORD || op->code == LANE_RECORD_CLOSE;
}

void sim_tick(SimRun *r, const SimOp *o, const SimMask *m) {
  SimClock *c = r->clocks;
  if (is_record(o->op)) return;
  if (m->count == r->threads) {
    c->common++;
    return;
  }
  for (int w = r->from / 32; w < r->to / 32; w++) c->own[w] += takes_part(m, w);
}

void sim_clock_meet(SimRun *r) {
  SimClock *c = r->clocks;
  uint64_t latest = 0;
  for (int w = 0; w < r->plan->warps; w++)
    if (c->own[w] > latest) latest = c->own[w];
  for (int w = 0; w < r->plan->warps; w++) c->own[w] = latest;
}

/* The first lane of each warp records, as in record_open's room. */
void sim_record(SimRun *r, const SimOp *o, const SimMask *m) {
  SimClock *c = r->clocks;
  const LaneOp *op = o->op;
  for (int w = r->from / 32; w < r->to / 32; w++) { /* warps that go their own ways: this one */
    uint64_t now = c->common + c->own[w];
    InstrumentCursor *cursor = &c->cursor[w];
    if (!m->on[32 * w]) continue;
    if (op->code == LANE_RECORD) instrument_mark(cursor, (uint32_t)op->imm, now);
    else if (op->code == LANE_RECORD_CLOSE) instrument_close(cursor, now, now);
    else if ((cursor->limit = (uint32_t)sim_get(r, o->in[1], LT_B32, 32 * w)))
      instrument_begin(cursor, (InstrumentWarp *)(uintptr_t)sim_get(r, o->in[0], LT_B64, 32 * w), 0, now, now);
  }
}
