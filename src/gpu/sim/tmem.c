/* Tensor memory and products that add to it (PTX ISA, tcgen05).
 *
 * Products and commits stand in one queue. Each is done at a moment of chance after its issue, and before what was
 * issued after it: a product reads its operands and adds up then, a commit arrives at its mbarrier then.
 *
 *     operands      written, known to the issuing warp and fenced (fence_proxy); until the commit has arrived nobody
 *                   writes them
 *     sums          after a product, only who knows the phase of a commit after it to be complete and has fenced
 *                   since (tmem_fence_after) loads or stores them
 *     stores,       of another warp, and before a product: waited for (tmem_wait_st, tmem_wait_ld), fenced
 *     loads         (tmem_fence_before), known by a barrier, fenced again (tmem_fence_after); of the same warp: waited
 *                   for
 *
 * So what a warp may rely on is taken at its tmem_fence_after: of each other warp, the time before which its accesses
 * are done; of products, up to which one they are. Allocations begin at a column of chance, and hold nonsense; all must
 * be freed, with nothing under way.
 */
#include "gpu/sim/sim_plan.h"

enum { LANES = 128, COLUMNS = 512, LEAST = 32, MOST_LINES = 256 };

typedef enum { CELL_FREE, CELL_NEW, CELL_STORED, CELL_PRODUCT } CellState;

typedef struct Cell {
  uint32_t bits, written; /* time of a store; number of a product */
  uint32_t read;          /* time */
  uint8_t state, writer, reader;
} Cell;

typedef struct Bytes {
  uint32_t address, time;
} Bytes;

/* A product, or (bar) a commit. */
typedef struct Job {
  const SimOp *o;
  uint32_t number, to, low[2];
  bool adds;
  uint32_t bar;
  SimKnown *known; /* of a commit: by the warp that made it, then */
  struct Job *next;
} Job;

typedef struct Commit { /* that has arrived */
  uint32_t number, phase;
  int mbar;
} Commit;

typedef struct Warp {
  uint32_t before;           /* its accesses before that time are done */
  uint32_t loading, storing; /* since when there are some that it has not waited for; 0: none */
  uint32_t *after;           /* by warp: their `before`, as known at its last fence */
  uint32_t reach;            /* products with lower numbers are done, likewise */
} Warp;

typedef struct SimTmem {
  Arena *arena;
  Cell (*cells)[COLUMNS]; /* by lane */
  Warp *warps;
  Job *first, **last;
  VEC(Bytes) reads; /* of operands, by products whose commit has not arrived, in their order */
  VEC(uint32_t) read_of;
  VEC(Commit) commits;
  int issuer;         /* thread; -1: none yet */
  uint32_t numbers;   /* of jobs */
  uint32_t allocated; /* columns */
  struct {
    uint32_t at, columns;
  } pieces[COLUMNS / LEAST];
  int piece_count;
  bool relinquished, faulted;
  float a[LANES][32], x[MOST_LINES][32];
} SimTmem;

static void find_tmem(LaneOp *op, void *arg) { *(bool *)arg |= lane_is_tmem(op->code) || op->code == LANE_TMEM_COMMIT; }

struct SimTmem *sim_tmem_create(Context *cx, const LaneFunc *f, int warps) {
  bool any = false;
  lane_walk(f->body, find_tmem, &any);
  if (!any) return NULL;
  SimTmem *m = NEW(cx->arena, SimTmem);
  memset(m, 0, sizeof *m);
  m->arena = cx->arena;
  m->cells = arena_alloc(cx->arena, sizeof(Cell) * LANES * COLUMNS);
  m->warps = NEW_N(cx->arena, Warp, warps);
  for (int w = 0; w < warps; w++) m->warps[w].after = NEW_N(cx->arena, uint32_t, warps);
  return m;
}

void sim_tmem_start(SimRun *r) {
  SimTmem *m = r->tmem;
  memset(m->cells, 0, sizeof(Cell) * LANES * COLUMNS);
  for (int w = 0; w < r->plan->warps; w++) {
    uint32_t *after = m->warps[w].after;
    memset(after, 0, sizeof *after * (size_t)r->plan->warps);
    m->warps[w] = (Warp){.after = after};
  }
  m->first = NULL, m->last = &m->first;
  m->reads.n = m->read_of.n = m->commits.n = m->piece_count = 0;
  m->issuer = -1;
  m->numbers = m->allocated = 0;
  m->relinquished = m->faulted = false;
}

uint32_t sim_tmem_before(const SimRun *r, int warp) { return r->tmem->warps[warp].before; }

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool whole_warp(SimRun *r, const SimOp *o, const SimMask *m) {
  for (int t = r->from; t < r->to; t++)
    if (!m->on[t]) return sim_fault(r, o->op, t, "'%s' is a whole warp's", lane_info[o->op->code].name);
  return true;
}

static bool one_thread(SimRun *r, const SimOp *o, const SimMask *m, int *thread) {
  *thread = -1;
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t] || !sim_guarded(r, o, t)) continue;
    if (*thread >= 0) return sim_fault(r, o->op, t, "'%s' is one thread's", lane_info[o->op->code].name);
    *thread = t;
  }
  if (*thread < 0) return true;
  SimTmem *tm = r->tmem;
  if (tm->issuer >= 0 && tm->issuer != *thread)
    return sim_fault(r, o->op, *thread, "products are issued by thread %d and by thread %d", tm->issuer, *thread);
  tm->issuer = *thread;
  return true;
}

static bool allocate(SimRun *r, const SimOp *o) {
  SimTmem *m = r->tmem;
  uint32_t n = o->op->columns, begin[COLUMNS], count = 0;
  if (m->relinquished) return sim_fault(r, o->op, r->from, "tensor memory is asked for after 'tmem_relinquish'");
  for (uint32_t at = 0; at + n <= COLUMNS; at += LEAST) {
    bool is_free = true;
    for (uint32_t i = 0; i < n; i += LEAST) is_free &= m->cells[0][at + i].state == CELL_FREE;
    if (is_free) begin[count++] = at;
  }
  if (!count) return sim_fault(r, o->op, r->from, "no %u columns of tensor memory are free: this never ends", n);
  uint32_t at = begin[sim_random(r, count)];
  for (int lane = 0; lane < LANES; lane++)
    for (uint32_t i = 0; i < n; i++) m->cells[lane][at + i] = (Cell){.bits = 0xffffffff, .state = CELL_NEW};
  m->pieces[m->piece_count].at = at;
  m->pieces[m->piece_count++].columns = n;
  SimAccess to = {r,    o,     r->from, 4,    sim_get(r, o->in[0], LT_B32, r->from) + (uint64_t)o->op->imm,
                  true, false, false,   false};
  char *p = sim_reach(&to);
  if (!p || !sim_note_write(&to, p, &at)) return false;
  memcpy(p, &at, 4);
  return true;
}

static bool is_done(SimRun *r, const SimOp *o, const Cell *c, int lane, uint32_t column, const char *does);

static bool deallocate(SimRun *r, const SimOp *o) {
  SimTmem *m = r->tmem;
  uint32_t at = (uint32_t)sim_get(r, o->in[0], LT_B32, r->from);
  int i = 0;
  while (i < m->piece_count && (m->pieces[i].at != at || m->pieces[i].columns != o->op->columns)) i++;
  if (i == m->piece_count)
    return sim_fault(r, o->op, r->from, "no %d columns were allocated at 0x%x of tensor memory", o->op->columns, at);
  for (int lane = 0; lane < LANES; lane++)
    for (uint32_t c = at; c < at + o->op->columns; c++) {
      if (!is_done(r, o, &m->cells[lane][c], lane, c, "frees")) return false;
      m->cells[lane][c].state = CELL_FREE;
    }
  m->pieces[i] = m->pieces[--m->piece_count];
  return true;
}

/* Whether the running warp may write over the cell: what happened to it is done, and known to it. */
static bool is_done(SimRun *r, const SimOp *o, const Cell *c, int lane, uint32_t column, const char *does) {
  const SimTmem *m = r->tmem;
  int own = r->from / 32;
  const Warp *w = &m->warps[own];
  const char *what = NULL;
  bool by_thread = o->op->code == LANE_TMEM_MMA || o->op->code == LANE_TMEM_DEALLOC;
  if (c->state == CELL_PRODUCT && c->written >= w->reach && !(o->op->code == LANE_TMEM_MMA))
    what = "a product writes, and the warp has not waited for its commit, or not fenced since";
  if (c->state == CELL_STORED && (c->writer != own || by_thread) && c->written >= w->after[c->writer])
    what = "was stored without a wait, fences and a barrier since";
  if (c->state == CELL_STORED && c->writer == own && w->storing && c->written >= w->storing)
    what = "is being stored: the warp has not waited for that";
  if (c->read && (c->reader != own || by_thread) && c->read >= w->after[c->reader] && !what)
    what = "was loaded without a wait, fences and a barrier since";
  if (c->read && c->reader == own && w->loading && c->read >= w->loading && !what)
    what = "is being loaded: the warp has not waited for that";
  if (!what) return true;
  return sim_fault(r, o->op, r->from, "warp %d %s lane %d, column %u of tensor memory, which %s", own, does, lane,
                   column, what);
}

static Cell *cell_at(SimRun *r, const SimOp *o, uint32_t lane, uint32_t column) {
  Cell *c = lane < LANES && column < COLUMNS ? &r->tmem->cells[lane][column] : NULL;
  if (c && c->state != CELL_FREE) return c;
  return sim_fault(r, o->op, r->from, "lane %u, column %u of tensor memory is not allocated", lane, column), NULL;
}

static bool is_there(SimRun *r, const SimOp *o, const Cell *c, uint32_t lane, uint32_t column) {
  return c->state != CELL_NEW ||
         sim_fault(r, o->op, r->from, "lane %u, column %u of tensor memory is read, which nobody has written", lane,
                   column);
}

/* Register i of lane t: its cell, beside the address. */
static void spread(const LaneOp *op, int i, int t, uint32_t *lane, uint32_t *column) {
  bool row = op->rows == 32;
  *lane = (uint32_t)(row ? t : t / 4 + 8 * (i >> 1 & 1));
  *column = (uint32_t)(row ? i : 8 * (i >> 2) + 2 * (t % 4) + (i & 1));
}

static bool access(SimRun *r, const SimOp *o) {
  const LaneOp *op = o->op;
  SimTmem *m = r->tmem;
  bool load = op->code == LANE_TMEM_LD;
  int own = r->from / 32, n = load ? op->out_count : op->in_count - 1;
  uint32_t at = (uint32_t)sim_get(r, o->in[0], LT_B32, r->from), quarter = 32 * (uint32_t)(own % 4), lane, column;
  for (int t = r->from; t < r->to; t++)
    if (sim_get(r, o->in[0], LT_B32, t) != at)
      return sim_fault(r, op, t, "the address in tensor memory is not the same for all of the warp");
  if (at >> 16 != quarter && (op->rows == 32 || at >> 16 != quarter + 16))
    return sim_fault(r, op, r->from, "warp %d reaches lanes %u to %u of tensor memory, not %u", own, quarter,
                     quarter + 31, at >> 16);
  Warp *w = &m->warps[own];
  uint32_t *since = load ? &w->loading : &w->storing;
  uint32_t time = ++r->time;
  if (!*since) *since = time;
  for (int t = 0; t < 32; t++)
    for (int i = 0; i < n; i++) {
      spread(op, i, t, &lane, &column);
      lane += at >> 16, column += at & 0xffff;
      Cell *c = cell_at(r, o, lane, column);
      if (!c) return false;
      uint32_t read = c->read;
      if (load) c->read = 0; /* of loads no load minds */
      bool ok = is_done(r, o, c, (int)lane, column, load ? "loads" : "stores");
      c->read = read;
      if (!ok || (load && !is_there(r, o, c, lane, column))) return false;
      if (load) {
        c->read = time, c->reader = (uint8_t)own;
        sim_set(r, o->out[i], LT_B32, r->from + t, c->bits);
      } else {
        *c = (Cell){.bits = (uint32_t)sim_get(r, o->in[1 + i], LT_B32, r->from + t),
                    .written = time,
                    .state = CELL_STORED,
                    .writer = (uint8_t)own};
      }
    }
  return true;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void enqueue(SimTmem *m, Job job) {
  Job *j = NEW(m->arena, Job);
  *j = job;
  j->number = m->numbers++;
  j->next = NULL;
  *m->last = j;
  m->last = &j->next;
}

/* 16 bytes of an operand as the product is issued. */
static bool note_chunk(SimRun *r, const SimOp *o, int w, uint32_t at, char out[16]) {
  SimTmem *m = r->tmem;
  SimAccess a = {r, o, m->issuer, 16, at, false, false, true, true};
  if (!sim_read_unit(&a)) return false;
  for (uint32_t i = at; i < at + 16; i++) {
    SimShadow *s = &r->shadow[i];
    int writer = (s->writer & ~SIM_ATOMIC) / 32;
    if (!(s->in_flight & SIM_BY_BULK) && !sim_knows(r, w, writer, s->written, true))
      return sim_fault(r, o->op, m->issuer,
                       "a product reads byte %u of shared memory, which was written without a fence_proxy", i);
    s->in_flight++;
  }
  memset(out, 0, 16);
  vec_push(m->arena, &m->reads, ((Bytes){at, r->time}));
  vec_push(m->arena, &m->read_of, m->numbers);
  return true;
}

static bool fetch_chunk(SimRun *r, const SimOp *o, int w, uint32_t at, char out[16]) {
  memcpy(out, r->shared + at, 16);
  return true;
}

static bool read_operands(SimRun *r, const SimOp *o, const uint32_t low[2], SimChunk *read) {
  const LaneOp *op = o->op;
  SimTmem *m = r->tmem;
  uint64_t high = (uint64_t)op->imm;
  int w = m->issuer / 32;
  SimOperand a, x;
  return sim_operand(r, o, m->issuer, low[0], (uint32_t)high, op->trans_a, &a) &&
         sim_operand(r, o, m->issuer, low[1], (uint32_t)(high >> 32), op->trans_b, &x) &&
         sim_read_operand(r, o, w, op->kind, &a, 0, op->rows, m->a, read) &&
         sim_read_operand(r, o, w, lane_mma_other(op), &x, 0, op->columns, m->x, read);
}

static uint32_t lane_of(const LaneOp *op, int row) {
  return (uint32_t)(op->rows == 128 ? row : row % 16 + 32 * (row / 16));
}

static bool issue(SimRun *r, const SimOp *o, int t) {
  const LaneOp *op = o->op;
  SimTmem *m = r->tmem;
  Job job = {.o = o, .to = (uint32_t)sim_get(r, o->in[0], LT_B32, t)};
  for (int i = 0; i < 2; i++) job.low[i] = (uint32_t)sim_get(r, o->in[1 + i], LT_B32, t);
  job.adds = sim_get(r, o->in[3], LT_PRED, t) != 0;
  if (job.to >> 16) return sim_fault(r, op, t, "sums begin at lane 0 of tensor memory, not at %u", job.to >> 16);
  r->time++;
  if (!read_operands(r, o, job.low, note_chunk)) return false;
  for (int row = 0; row < op->rows; row++)
    for (uint32_t i = 0; i < op->columns; i++) {
      uint32_t lane = lane_of(op, row), column = job.to + i;
      Cell *c = cell_at(r, o, lane, column);
      if (!c || !is_done(r, o, c, (int)lane, column, "adds to") || (job.adds && !is_there(r, o, c, lane, column)))
        return false;
      *c = (Cell){.bits = c->bits, .written = m->numbers, .state = CELL_PRODUCT};
    }
  enqueue(m, job);
  return true;
}

static void multiply(SimRun *r, const Job *job) {
  const LaneOp *op = job->o->op;
  SimTmem *m = r->tmem;
  LaneKind sum = lane_mma_sum(op->kind);
  read_operands(r, job->o, job->low, fetch_chunk);
  for (int row = 0; row < op->rows; row++)
    for (uint32_t i = 0; i < op->columns; i++) {
      Cell *c = &m->cells[lane_of(op, row)][job->to + i];
      c->bits = sim_add_products(sum, job->adds ? c->bits : 0, 8 << lane_mma_pack(op->kind), m->a[row], m->x[i]);
    }
}

/* What products before it have read is free, for those who wait for the commit's phase. */
static bool arrive(SimRun *r, const Job *job) {
  SimTmem *m = r->tmem;
  int kept = 0;
  for (int i = 0; i < m->reads.n; i++) {
    Bytes b = m->reads.at[i];
    if (m->read_of.at[i] > job->number) {
      m->read_of.at[kept] = m->read_of.at[i];
      m->reads.at[kept++] = b;
      continue;
    }
    for (uint32_t k = b.address; k < b.address + 16; k++) r->shadow[k].in_flight--;
    sim_unit_reads(r, b.address)[m->issuer / 32] = b.time;
  }
  m->reads.n = m->read_of.n = kept;
  Commit c = {.number = job->number};
  if (!sim_mbar_arrive(r, job->o->op, m->issuer, job->bar, job->known, &c.mbar, &c.phase)) return false;
  vec_push(m->arena, &m->commits, c);
  return true;
}

static bool commit(SimRun *r, const SimOp *o, int t) {
  uint32_t at = (uint32_t)(sim_get(r, o->in[0], LT_B32, t) + (uint64_t)o->op->imm);
  if (!sim_mbar_known(r, o->op, t, at)) return false;
  Job job = {.o = o, .bar = at, .known = sim_known_create(r)};
  sim_release(r, job.known);
  enqueue(r->tmem, job);
  return true;
}

bool sim_tmem_land(SimRun *r) {
  SimTmem *m = r->tmem;
  Job *job = m->first;
  if (!job) return false;
  m->first = job->next;
  if (!m->first) m->last = &m->first;
  if (job->known) m->faulted = !arrive(r, job);
  else multiply(r, job);
  return !m->faulted;
}

bool sim_tmem_faulted(SimRun *r) { return r->tmem && r->tmem->faulted; }

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void fence_before(SimRun *r) {
  Warp *w = &r->tmem->warps[r->from / 32];
  uint32_t since = !w->loading || (w->storing && w->storing < w->loading) ? w->storing : w->loading;
  w->before = since ? since : ++r->time;
}

static void fence_after(SimRun *r) {
  SimTmem *m = r->tmem;
  int own = r->from / 32;
  memcpy(m->warps[own].after, sim_known_tmem(r, own), sizeof(uint32_t) * (size_t)r->plan->warps);
  for (int i = m->commits.n - 1; i >= 0; i--) {
    const Commit *c = &m->commits.at[i];
    if (c->number < m->warps[own].reach) break;
    if (sim_seen(r, own)[c->mbar] <= c->phase) continue;
    m->warps[own].reach = c->number;
    break;
  }
}

bool sim_tmem(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneOp *op = o->op;
  Warp *w = &r->tmem->warps[r->from / 32];
  int t = -1;
  switch (op->code) {
    case LANE_TMEM_FENCE_BEFORE: fence_before(r); return true;
    case LANE_TMEM_FENCE_AFTER: fence_after(r); return true;
    case LANE_TMEM_MMA: return one_thread(r, o, m, &t) && (t < 0 || issue(r, o, t));
    case LANE_TMEM_COMMIT: return one_thread(r, o, m, &t) && (t < 0 || commit(r, o, t));
    default: break;
  }
  if (!whole_warp(r, o, m)) return false;
  switch (op->code) {
    case LANE_TMEM_ALLOC: return allocate(r, o);
    case LANE_TMEM_DEALLOC: return deallocate(r, o);
    case LANE_TMEM_RELINQUISH: r->tmem->relinquished = true; return true;
    case LANE_TMEM_WAIT_ST: w->storing = 0; return true;
    case LANE_TMEM_WAIT_LD:
      w->loading = 0;
      for (int i = 0; i < op->out_count; i++)
        for (t = r->from; t < r->to; t++) sim_set(r, o->out[i], LT_B32, t, sim_get(r, o->in[i], LT_B32, t));
      return true;
    default: return access(r, o);
  }
}

bool sim_tmem_end(SimRun *r) {
  const SimTmem *m = r->tmem;
  if (!m) return true;
  if (m->first) return sim_fault(r, m->first->o->op, m->issuer, "the program ends while products are under way");
  if (m->piece_count) return sim_fault(r, NULL, -1, "the program ends, and has not freed its tensor memory");
  return true;
}
