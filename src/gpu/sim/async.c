/* What is in flight: asynchronous products (wgmma) and copies (cp.async).
 *
 * They are done at once, and their bytes marked in the shadow until somebody waits for them as the hardware wants it:
 *
 *     copy       its thread has waited for the group; then the block has met. Until then nobody reads or writes the
 *                bytes
 *     product    its warp has waited for the group. Until then nobody writes what it reads, and after it, other warps
 *                only when the block has met: a product reads up to the wait. (Who may touch its accumulators is told
 *                from the text: lane/verify_products.c.)
 *
 * So a missing wait is found wherever it could do harm, and every time. Products read through another proxy than
 * stores write: whoever stored must have fenced since (of copies, nobody asks for that).
 *
 * Operands are found as the hardware finds them, by descriptors: rows of 128, 64 or 32 bytes, in groups of eight, whose
 * places of 16 bytes are xor'ed with the row's number, by the bits of the address.
 */
#include "gpu/sim/sim_plan.h"

typedef unsigned long long ull;

typedef struct Bytes {
  uint32_t address, count, group;
} Bytes;

/* Of a thread's copies, or a warp's products. */
typedef struct Queue {
  VEC(Bytes) list;
  uint32_t committed; /* groups; what was issued since is of the next one */
} Queue;

typedef struct SimAsync {
  Arena *arena;
  Queue *copies;   /* by thread */
  Queue *products; /* by warp */
  uint32_t *fence; /* by thread: when it fenced last */
  int threads;
} SimAsync;

static void find_async(LaneOp *op, void *arg) {
  if (op->code == LANE_WGMMA || op->code == LANE_CP_ASYNC) *(bool *)arg = true;
}

SimAsync *sim_async(Context *cx, const LaneFunc *f, int threads) {
  bool any = false;
  lane_walk(f->body, find_async, &any);
  if (!any) return NULL;
  SimAsync *a = NEW(cx->arena, SimAsync);
  *a = (SimAsync){.arena = cx->arena, .threads = threads};
  a->copies = NEW_N(cx->arena, Queue, threads);
  a->products = NEW_N(cx->arena, Queue, threads / 32);
  a->fence = NEW_N(cx->arena, uint32_t, threads);
  return a;
}

/* The warp has read the byte just now, for all that anybody knows. */
static void has_read(SimRun *r, SimShadow *s, uint64_t byte, int warp) {
  if (r->apart) {
    sim_unit_reads(r, byte)[warp] = r->time;
    return;
  }
  bool others = s->read >= r->block_sync && s->read >= r->block_start &&
                (s->reader == SIM_MANY || (s->reader & SIM_WARP ? s->reader & 31 : s->reader / 32) != warp);
  s->reader = (uint16_t)(others ? SIM_MANY : SIM_WARP | warp);
  s->read = r->time;
}

/* thread: whose copies, or the first of the warp whose products these are. */
static void retire(SimRun *r, Queue *q, uint32_t before, int thread, bool copies) {
  int kept = 0;
  for (int i = 0; i < q->list.n; i++) {
    Bytes b = q->list.at[i];
    if (b.group >= before) {
      q->list.at[kept++] = b;
      continue;
    }
    for (uint32_t k = 0; k < b.count; k++) {
      SimShadow *s = &r->shadow[b.address + k];
      if (copies) {
        s->in_flight = SIM_BY_COPY;
        s->written = r->time;
      } else {
        s->in_flight--;
        has_read(r, s, b.address + k, thread / 32);
      }
    }
  }
  q->list.n = kept;
}

/* What an earlier block left in flight is nobody's. */
static void forget(SimRun *r, Queue *q) {
  for (int i = 0; i < q->list.n; i++)
    for (uint32_t k = 0; k < q->list.at[i].count; k++) r->shadow[q->list.at[i].address + k].in_flight = 0;
  q->list.n = 0;
}

void sim_async_start(SimRun *r) {
  SimAsync *a = r->async;
  for (int t = 0; t < a->threads; t++) {
    forget(r, &a->copies[t]);
    if (t % 32 == 0) forget(r, &a->products[t / 32]);
    a->fence[t] = 0;
  }
}

static void issue(SimRun *r, Queue *q, uint64_t address, int bytes) {
  Bytes b = {(uint32_t)address, (uint32_t)bytes, q->committed};
  vec_push(r->async->arena, &q->list, b);
}

static uint32_t still_open(const Queue *q, int64_t pending) {
  return pending >= q->committed ? 0 : q->committed - (uint32_t)pending;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

bool sim_cp_async(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneOp *op = o->op;
  int bytes = op->bits / 8;
  LaneOp global = *op;
  global.space = SPACE_GLOBAL;
  SimOp read = *o;
  read.op = &global;
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t]) continue;
    char data[16] = {0};
    if (sim_guarded(r, o, t)) {
      SimAccess from = {r, &read, t, bytes, sim_get(r, o->in[1], LT_B64, t), false, false, false, false};
      const char *p = sim_reach(&from);
      if (!p || !sim_note_read(&from)) return false;
      sim_fetch(data, p, bytes);
    }
    uint64_t at = sim_shared_at(r, t, sim_get(r, o->in[0], LT_B32, t) + (uint64_t)op->imm);
    SimAccess to = {r, o, t, bytes, at, true, false, false, false};
    char *p = sim_reach(&to);
    if (!p || !sim_note_write(&to, p, data)) return false;
    memcpy(p, data, (size_t)bytes);
    for (int i = 0; i < bytes; i++) r->shadow[to.address + (uint64_t)i].in_flight = SIM_COPIED;
    issue(r, &r->async->copies[t], to.address, bytes);
  }
  return true;
}

void sim_cp_group(SimRun *r, const SimOp *o, const SimMask *m) {
  if (r->apart && o->op->code == LANE_FENCE_PROXY) sim_fence_warp(r);
  if (!r->async) return;
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t]) continue;
    Queue *q = &r->async->copies[t];
    if (o->op->code == LANE_CP_COMMIT) q->committed++;
    else if (o->op->code == LANE_CP_WAIT) retire(r, q, still_open(q, o->op->imm), t, true);
    else r->async->fence[t] = r->time;
  }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

bool sim_is_fenced(const SimRun *r, const SimShadow *s) {
  return s->in_flight & (SIM_BY_COPY | SIM_BY_BULK) || s->written <= r->async->fence[s->writer & ~SIM_ATOMIC];
}

bool sim_operand(SimRun *r, const SimOp *o, int thread, uint32_t low, uint32_t high, bool across, SimOperand *out) {
  static const uint32_t spans[] = {0, 128, 64, 32};
  uint32_t mode = high >> 30;
  *out = (SimOperand){.start = (low & 0x3fff) << 4,
                      .leading = (low >> 16 & 0x3fff) << 4,
                      .stride = (high & 0x3fff) << 4,
                      .span = spans[mode],
                      .mask = mode == 1   ? 7
                              : mode == 2 ? 3
                                          : 1,
                      .across = across};
  if (!mode) return sim_fault(r, o->op, thread, "the simulator knows no descriptor without a swizzle");
  if ((high >> 14 & 7) != (o->op->code == LANE_TMEM_MMA))
    return sim_fault(r, o->op, thread, "this is no descriptor of its kind");
  if (high >> 17 & 7) return sim_fault(r, o->op, thread, "the simulator knows no descriptor with a base offset");
  return true;
}

/* Where 16 bytes of elements of `size` bytes lie: along k of a line, or across, of one k; the first one's line and k
 * are multiples of 8, or of what 16 bytes hold. */
static uint32_t chunk_at(const SimOperand *p, uint32_t size, uint32_t line, uint32_t k) {
  uint32_t row = p->across ? k : line, in = p->across ? line : k, span = p->span / size;
  uint32_t at = p->start + row / 8 * p->stride + row % 8 * p->span + in % span * size;
  if (p->across) at += in / span * p->leading;
  return at ^ (at >> 7 & p->mask) << 4;
}

bool sim_read_unit(const SimAccess *of) {
  SimRun *r = of->r;
  const LaneOp *op = of->o->op;
  uint64_t at = of->address - sim_shared_of(r, of->thread);
  if (at + (uint64_t)of->bytes > (uint64_t)r->plan->shared_bytes)
    return sim_fault(r, op, of->thread, "a product reads shared memory at byte %llu of %d", (ull)at,
                     r->plan->shared_bytes);
  LaneOp shared = *op;
  shared.space = SPACE_SHARED;
  shared.buffer = r->shadow[of->address].buffer;
  SimOp read = *of->o;
  read.op = &shared;
  SimAccess a = *of;
  a.o = &read;
  return sim_note_read(&a);
}

static bool read_chunk(SimRun *r, const SimOp *o, int w, uint32_t at, char out[16]) {
  at += sim_shared_of(r, 32 * w);
  SimAccess a = {r, o, 32 * w, 16, at, false, false, true, true};
  if (!sim_read_unit(&a)) return false;
  for (int i = 0; i < 16; i++)
    if (!sim_is_fenced(r, &r->shadow[at + (uint32_t)i]))
      return sim_fault(r, o->op, 32 * w, "a product reads byte %u of shared memory, which was written without a fence",
                       at + (uint32_t)i);
  memcpy(out, r->shared + at, 16);
  for (int i = 0; i < 16; i++) r->shadow[at + (uint32_t)i].in_flight++;
  issue(r, &r->async->products[w], at, 16);
  return true;
}

bool sim_read_operand(SimRun *r, const SimOp *o, int w, LaneKind kind, const SimOperand *p, int from, int n,
                      float (*out)[32], SimChunk *read) {
  int size = 4 >> lane_mma_pack(kind), each = 16 / size; /* elements of a chunk */
  char chunk[16];
  float numbers[16];
  for (int k = 0; k < 2 * each; k += p->across ? 1 : each)
    for (int line = 0; line < n; line += p->across ? each : 1) {
      uint32_t at = chunk_at(p, (uint32_t)size, (uint32_t)(from + line), (uint32_t)k);
      if (!read(r, o, w, at, chunk)) return false;
      sim_numbers(kind, chunk, 16, numbers);
      for (int i = 0; i < each; i++) out[line + (p->across ? i : 0)][k + (p->across ? 0 : i)] = numbers[i];
    }
  return true;
}

/* One warp's 16 rows of the group's 64. */
bool sim_wgmma(SimRun *r, const SimOp *o, int w) {
  const LaneOp *op = o->op;
  int n = 2 * op->out_count, first = lane_wgmma_inputs(op), t0 = 32 * w;
  int each = 1 << lane_mma_pack(op->kind); /* elements of a word */
  LaneKind sum = lane_mma_sum(op->kind);
  float a[16][32], x[256][32];
  SimOperand p;
  if (first == 5) {
    for (int lane = 0; lane < 32; lane++)
      for (int i = 0; i < 4; i++) {
        uint32_t word = (uint32_t)sim_get(r, o->in[i], LT_B32, t0 + lane);
        sim_numbers(op->kind, &word, 4, &a[lane / 4 + 8 * (i & 1)][each * (lane % 4 + 4 * (i >> 1))]);
      }
  } else {
    uint32_t low = (uint32_t)sim_get(r, o->in[0], LT_B32, t0);
    if (!sim_operand(r, o, t0, low, (uint32_t)op->imm, op->trans_a, &p) ||
        !sim_read_operand(r, o, w, op->kind, &p, 16 * (w % r->plan->block_warps % 4), 16, a, read_chunk))
      return false;
  }
  uint32_t low = (uint32_t)sim_get(r, o->in[first - 1], LT_B32, t0);
  if (!sim_operand(r, o, t0, low, (uint32_t)((uint64_t)op->imm >> 32), op->trans_b, &p) ||
      !sim_read_operand(r, o, w, lane_mma_other(op), &p, 0, n, x, read_chunk))
    return false;
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < op->out_count; i++) {
      int row = lane / 4 + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * (lane % 4) + (i & 1);
      uint32_t bits = op->in_count > first ? (uint32_t)sim_get(r, o->in[first + i], LT_B32, t0 + lane) : 0;
      sim_set(r, o->out[i], LT_B32, t0 + lane, sim_add_products(sum, bits, 8 * each, a[row], x[column]));
    }
  return true;
}

void sim_wgmma_group(SimRun *r, const SimOp *o, int w) {
  const LaneOp *op = o->op;
  Queue *q = r->async ? &r->async->products[w] : NULL; /* a wait may stand for products that single warps computed */
  if (q && op->code == LANE_WGMMA_COMMIT) q->committed++;
  if (op->code != LANE_WGMMA_WAIT) return;
  if (q) retire(r, q, still_open(q, op->imm), 32 * w, false);
  for (int i = 0; i < op->out_count; i++)
    for (int t = 32 * w; t < 32 * w + 32; t++)
      sim_set(r, o->out[i], op->out[i]->type, t, sim_get(r, o->in[i], op->in[i]->type, t));
}
