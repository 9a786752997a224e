/* Looking on while a kernel runs, for reports: what LaneTraceHook says of lane.h. Loads, stores and atomics tell their
 * addresses, warp by warp; the values that they move are zeros, but for what is needed and goes through shared memory
 * or is known to be in global memory.
 *
 * Nothing here can go wrong: where data that are not there would have decided on an address, it may be anything. Shared
 * memory is only touched inside its bounds.
 */
#include "gpu/sim/sim_plan.h"

static int warps_of(const SimRun *r, const SimMask *m) {
  if (m->count == r->threads) return r->plan->warps;
  int n = 0;
  for (int w = 0; w < r->plan->warps; w++) n += memchr(m->on + 32 * w, 1, 32) != NULL;
  return n;
}

bool sim_enter(SimRun *r, const SimBlock *b, const SimMask *m) {
  const LaneTraceHook *w = r->o->hook;
  if (!w->enter || w->enter(w->arg, b->block, b->count, warps_of(r, m), m->count)) return true;
  r->fault->message[0] = 0;
  return false;
}

void sim_split(SimRun *r, const SimOp *o, const SimMask *on, const SimMask *off) {
  const LaneTraceHook *w = r->o->hook;
  if (!w->split || !on->count || !off->count) return;
  int n = 0;
  for (int i = 0; i < r->plan->warps; i++) n += memchr(on->on + 32 * i, 1, 32) && memchr(off->on + 32 * i, 1, 32);
  if (n) w->split(w->arg, o->op, n);
}

/* The bytes of an access to shared memory; NULL: not inside. */
static char *shared_at(const SimRun *r, uint64_t at, int bytes) {
  uint64_t size = (uint64_t)r->plan->shared_bytes;
  return at <= size && (uint64_t)bytes <= size - at ? r->shared + at : NULL;
}

static void move(SimRun *r, const SimOp *o, int t, uint64_t at, bool needed) {
  const LaneOp *op = o->op;
  const LaneTraceHook *w = r->o->hook;
  bool shared = op->space == SPACE_SHARED, load = op->code == LANE_LD;
  int n = load ? op->out_count : op->in_count - 1, bytes = lane_kind_info[op->kind].bits / 8;
  char *p = shared ? shared_at(r, at, n * bytes) : NULL;
  if (op->code == LANE_ST)
    for (int i = 0; p && i < n; i++) {
      uint64_t v = sim_get(r, o->in[i + 1], lane_kind_info[op->kind].type, t);
      memcpy(p + i * bytes, &v, (size_t)bytes);
    }
  for (int i = 0; needed && i < op->out_count; i++) {
    uint64_t v = 0;
    if (p && load) memcpy(&v, p + i * bytes, (size_t)bytes);
    if (!shared && load && w->read) w->read(w->arg, op, at + (uint64_t)(i * bytes), bytes, &v);
    if (op->kind == LK_S8) v = (uint32_t)(int8_t)v;
    if (op->kind == LK_S16) v = (uint32_t)(int16_t)v;
    sim_set(r, o->out[i], op->out[i]->type, t, v);
  }
}

/* Which of a warp's threads the operation is for, one bit each. */
static uint32_t lanes_of(const SimRun *r, const SimOp *o, const SimMask *m, int first) {
  const uint8_t *guard = o->op->guard ? (const uint8_t *)(r->regs + o->guard) + first : NULL;
  uint32_t lanes = 0;
  for (int lane = 0; lane < 32; lane++)
    lanes |= (uint32_t)(m->on[first + lane] && (!guard || (guard[lane] != 0) != o->op->guard_not)) << lane;
  return lanes;
}

static void addresses(const SimRun *r, const SimOp *o, int operand, uint64_t imm, int first, uint64_t at[32]) {
  const char *p = r->regs + o->in[operand];
  if (o->op->in[operand]->type == LT_B64)
    for (int lane = 0; lane < 32; lane++) at[lane] = ((const uint64_t *)(const void *)p)[first + lane] + imm;
  else
    for (int lane = 0; lane < 32; lane++)
      at[lane] = (uint32_t)(((const uint32_t *)(const void *)p)[first + lane] + (uint32_t)imm);
}

/* A copy reads where its guard holds, and writes everywhere: zeros where it does not. */
static bool look_at_copy(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneTraceHook *w = r->o->hook;
  for (int first = 0; w->access && first < r->threads; first += 32) {
    uint64_t at[32];
    uint32_t reads = lanes_of(r, o, m, first), writes = 0;
    for (int lane = 0; lane < 32; lane++) writes |= (uint32_t)(m->on[first + lane] != 0) << lane;
    addresses(r, o, 1, 0, first, at);
    if (reads) w->access(w->arg, o->op, SPACE_GLOBAL, at, reads);
    addresses(r, o, 0, (uint64_t)o->op->imm, first, at);
    if (writes) w->access(w->arg, o->op, SPACE_SHARED, at, writes);
  }
  return true;
}

bool sim_look(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneTraceHook *w = r->o->hook;
  const LaneOp *op = o->op;
  bool needed = false, memory = op->code != LANE_ASM;
  if (op->code == LANE_CP_ASYNC) return look_at_copy(r, o, m);
  for (int i = 0; i < op->out_count; i++) needed |= w->values[op->out[i]->id];
  bool stores = op->code == LANE_ST && op->space == SPACE_SHARED && op->buffer >= 0 && w->buffers[op->buffer];
  for (int first = 0; first < r->threads; first += 32) {
    uint64_t at[32];
    uint32_t lanes = memory ? lanes_of(r, o, m, first) : 0;
    /* the others' addresses are not asked for */
    if (op->code == LANE_LDMATRIX || op->code == LANE_STMATRIX)
      lanes &= (uint32_t)((1ull << 8 * (op->out_count + op->in_count - 1)) - 1);
    if (lanes) addresses(r, o, 0, (uint64_t)op->imm, first, at);
    for (int lane = 0; (needed || stores) && lane < 32; lane++) {
      int t = first + lane;
      if (lanes >> lane & 1) move(r, o, t, at[lane], needed);
      else if (needed && m->on[t])
        for (int i = 0; i < op->out_count; i++)
          sim_set(r, o->out[i], op->out[i]->type, t,
                  op->code == LANE_LD ? sim_get(r, o->in[i + 1], op->out[i]->type, t) : 0);
    }
    if (lanes && w->access) w->access(w->arg, op, (LaneSpace)op->space, at, lanes);
  }
  return true;
}
