/* Warps that go their own ways: of kernels whose warps wait for one another by mbarriers, or by barriers of some of
 * them.
 *
 * Each warp runs the kernel's body on a coroutine. Before an operation with an effect it may stop for others, and where
 * it waits it must; who goes on is chance, as is when the bytes of copies by tensor maps move (sim/bulk.c). Where
 * nobody can go on and nothing is under way, that is a fault, which says where each warp stands.
 *
 * What is in order is told from what each warp knows of the others, not from the order in which they happened to run.
 * Every access has a time. A warp that arrives at a barrier leaves what it knows there: of each warp, the time before
 * which its accesses are known. Who leaves the barrier takes it along. An access that another warp does not know of is
 * not in order with that one's:
 *
 *     warp 1 writes x at 5, arrives at 6        the barrier: 1 -> 6
 *     warp 2 waits                              warp 2 knows: 1 -> 6, so of x, for 5 < 6
 *     warp 1 writes y at 7, warp 2 reads y      a race: 2 does not know of 7
 *
 * For asynchronous units a warp must have fenced before it arrived (PTX ISA, Async proxy): that is known likewise.
 */
#include "gpu/sim/sim_plan.h"

enum { BARRIERS = 16, ENTRY_REGISTERS = 65536, MOST_BLOCKS = 8, OF_CLUSTER = -1 };

struct SimKnown {
  uint32_t *known, *fenced, *tmem, *seen; /* by warp three times, by mbarrier */
};

typedef struct Warp {
  SimRun *r;
  Coroutine *on;
  jmp_buf *unwind; /* of the context, while others run */
  bool (*ready)(SimRun *r, void *arg);
  void (*tell)(void *arg, char *out, size_t size); /* what it waits for */
  void *arg;
  const LaneOp *at;
  bool ended, ok, failed; /* failed: in the context */
  int registers;
  uint32_t fence; /* when it fenced last */
} Warp;

typedef struct Barrier {
  int arrived, need;
  uint32_t generation;
  SimKnown *now, *done; /* of those who have arrived; of the last time */
} Barrier;

typedef struct SimApart {
  Context *cx;
  Warp *warps;
  int count, now;
  int behind, turns; /* the warp that is left behind, or -1; for how many choices yet */
  bool (*body)(SimRun *r, SimMask *m);
  Barrier barriers[MOST_BLOCKS][BARRIERS], of_cluster; /* by block; number 0: of all its warps */
  SimKnown **known;                                    /* by warp */
  uint32_t *reads, *unit_reads;
  int free_registers[MOST_BLOCKS];
} SimApart;

/* ---- what warps know --------------------------------------------------------------------------------------------- */

static int known_words(const SimRun *r) { return 3 * r->plan->warps + SIM_MOST_MBARS; }

SimKnown *sim_known_create(SimRun *r) {
  Arena *arena = r->plan->cx->arena;
  SimKnown *k = NEW(arena, SimKnown);
  k->known = NEW_N(arena, uint32_t, known_words(r));
  k->fenced = k->known + r->plan->warps;
  k->tmem = k->fenced + r->plan->warps;
  k->seen = k->tmem + r->plan->warps;
  return k;
}

void sim_known_clear(SimRun *r, SimKnown *k) { memset(k->known, 0, sizeof *k->known * (size_t)known_words(r)); }

void sim_known_add(SimRun *r, SimKnown *to, const SimKnown *from) {
  for (int i = 0; i < known_words(r); i++)
    if (from->known[i] > to->known[i]) to->known[i] = from->known[i];
}

void sim_release(SimRun *r, SimKnown *to) {
  SimApart *a = r->apart;
  SimKnown *own = a->known[a->now];
  own->known[a->now] = ++r->time;
  own->fenced[a->now] = a->warps[a->now].fence;
  if (r->tmem) own->tmem[a->now] = sim_tmem_before(r, a->now);
  sim_known_add(r, to, own);
}

void sim_acquire(SimRun *r, const SimKnown *from) {
  int w = r->apart->now;
  sim_known_add(r, r->apart->known[w], from);
  if (from->known[w] > r->warp_sync[w]) r->warp_sync[w] = from->known[w];
}

void sim_fence_warp(SimRun *r) { r->apart->warps[r->apart->now].fence = ++r->time; }

bool sim_knows(const SimRun *r, int warp, int w, uint32_t time, bool fenced) {
  const SimApart *a = r->apart;
  if (time < r->block_start || (!fenced && time < r->block_sync)) return true; /* whoever runs has been there */
  if (warp == w) return !fenced || time < a->warps[w].fence;
  return time < (fenced ? a->known[warp]->fenced : a->known[warp]->known)[w];
}

uint32_t *sim_reads(SimRun *r, uint64_t byte) { return r->apart->reads + byte * (uint64_t)r->plan->warps; }
uint32_t *sim_unit_reads(SimRun *r, uint64_t byte) {
  return r->apart->unit_reads + byte / 16 * (uint64_t)r->plan->warps;
}
const uint32_t *sim_known_tmem(const SimRun *r, int warp) { return r->apart->known[warp]->tmem; }
uint32_t *sim_seen(SimRun *r, int warp) { return r->apart->known[warp]->seen; }

/* ---- who runs ---------------------------------------------------------------------------------------------------- */

uint32_t sim_random(SimRun *r, uint32_t below) {
  r->random = r->random * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)((r->random >> 33) * below >> 31);
}

static bool give_way(SimRun *r) {
  SimApart *a = r->apart;
  int now = a->now, from = r->from, to = r->to;
  uint32_t iteration = r->iteration;
  coroutine_suspend();
  a->now = now;
  r->from = from, r->to = to;
  r->iteration = iteration;
  return !r->stopped;
}

bool sim_pause(SimRun *r) { return sim_random(r, 8) ? !r->stopped : give_way(r); }

bool sim_wait_until(SimRun *r, const LaneOp *op, bool (*ready)(SimRun *r, void *arg),
                    void (*tell)(void *arg, char *out, size_t size), void *arg) {
  Warp *w = &r->apart->warps[r->apart->now];
  w->ready = ready, w->tell = tell, w->arg = arg, w->at = op;
  bool ok = give_way(r);
  w->ready = NULL;
  return ok;
}

typedef struct Outside {
  bool (*fn)(void *arg, bool ahead);
  void *arg;
  bool ahead, result;
} Outside;

static void outside(void *arg) {
  Outside *o = arg;
  o->result = o->fn(o->arg, o->ahead);
}

bool sim_outside(SimRun *r, bool ahead) {
  if (!r->apart) return r->o->wait(r->o->wait_arg, ahead);
  Outside o = {r->o->wait, r->o->wait_arg, ahead, false};
  coroutine_outside(outside, &o);
  return o.result;
}

static void run_warp(void *arg) {
  Warp *w = arg;
  SimRun *r = w->r;
  SimApart *a = r->apart;
  int number = (int)(w - a->warps);
  if (context_try(a->cx)) {
    a->now = number;
    r->from = 32 * number, r->to = r->from + 32;
    r->iteration = 0;
    SimMask all = {r->masks[0], 32};
    w->ok = a->body(r, &all);
    context_end_try(a->cx);
  } else {
    w->failed = true;
  }
  w->ended = true;
}

static void resume(SimApart *a, Warp *w) {
  jmp_buf *outer = a->cx->unwind;
  if (w->unwind) a->cx->unwind = w->unwind;
  coroutine_resume(w->on);
  w->unwind = a->cx->unwind;
  a->cx->unwind = outer;
}

static bool deadlock(SimRun *r) {
  SimApart *a = r->apart;
  char text[200] = "", what[2][128] = {"", ""};
  size_t n = 0;
  const Warp *first = NULL;
  for (int i = 0, to; i < a->count; i = to) {
    const Warp *w = &a->warps[i];
    to = i + 1;
    if (w->ended) continue;
    w->tell(w->arg, what[0], sizeof what[0]);
    for (; to < a->count && !a->warps[to].ended; to++) {
      a->warps[to].tell(a->warps[to].arg, what[1], sizeof what[1]);
      if (strcmp(what[0], what[1])) break;
    }
    if (!first) first = w;
    char who[40];
    if (to - i > 1) snprintf(who, sizeof who, "warps %d to %d wait", i, to - 1);
    else snprintf(who, sizeof who, "warp %d waits", i);
    if (n < sizeof text) n += (size_t)snprintf(text + n, sizeof text - n, "%s %s %s", n ? ";" : "", who, what[0]);
  }
  if (!first) return sim_fault(r, NULL, -1, "no warp is left to go on");
  return sim_fault(r, first->at, (int)(first - a->warps) * 32, "no warp can go on:%s", text);
}

/* One warp that can go on, or NULL. Now and then one is left behind until it is the only one that can (*last), so that
 * others come as far ahead of it as they may: a phase that it waits for may then be over, and the next one too. */
static Warp *choose(SimRun *r, bool *last) {
  enum { LEFT_BEHIND = 256 };
  SimApart *a = r->apart;
  int ready[32], n = 0;
  bool behind = false;
  if (a->turns-- <= 0) {
    a->turns = (int)sim_random(r, LEFT_BEHIND);
    a->behind = sim_random(r, 2) ? (int)sim_random(r, (uint32_t)a->count) : -1;
  }
  for (int i = 0; i < a->count; i++) {
    Warp *w = &a->warps[i];
    if (w->ended || (w->ready && !w->ready(r, w->arg))) continue;
    if (i == a->behind) behind = true;
    else ready[n++] = i;
  }
  *last = behind && !n;
  if (*last) ready[n++] = a->behind;
  return n ? &a->warps[ready[sim_random(r, (uint32_t)n)]] : NULL;
}

static bool all_ended(const SimApart *a) {
  for (int i = 0; i < a->count; i++)
    if (!a->warps[i].ended) return false;
  return true;
}

/* Something that is under way goes on; false: nothing is, or a fault. */
static bool land(SimRun *r) {
  bool first = r->tmem && sim_random(r, 2);
  if (first && (sim_tmem_land(r) || sim_tmem_faulted(r))) return !sim_tmem_faulted(r);
  if (sim_bulk_land(r)) return true;
  return !sim_bulk_faulted(r) && r->tmem && sim_tmem_land(r);
}

static bool run_all(SimRun *r) {
  SimApart *a = r->apart;
  while (!all_ended(a)) {
    bool last, moved = false;
    Warp *w = choose(r, &last);
    if (!w || last || !sim_random(r, 2)) moved = land(r);
    if (sim_bulk_faulted(r) || sim_tmem_faulted(r)) return false;
    if ((!w || last) && moved) continue;
    if (!w) return deadlock(r);
    resume(a, w);
    if (w->ended && (!w->ok || w->failed)) return false;
  }
  return sim_tmem_end(r) && sim_bulk_end(r);
}

static void clear(SimRun *r, Barrier *b) {
  b->arrived = 0;
  sim_known_clear(r, b->now), sim_known_clear(r, b->done);
}

bool sim_run_apart(SimRun *r, bool (*body)(SimRun *r, SimMask *m)) {
  SimApart *a = r->apart;
  a->body = body;
  a->turns = 0;
  memset(a->free_registers, 0, sizeof a->free_registers);
  r->stopped = false;
  sim_bulk_start(r);
  if (r->tmem) sim_tmem_start(r);
  clear(r, &a->of_cluster);
  for (int k = 0; k < r->plan->cluster; k++)
    for (int i = 0; i < BARRIERS; i++) clear(r, &a->barriers[k][i]);
  bool ok = true, failed = false;
  int groups = (r->plan->block_warps + 3) / 4, registers = ENTRY_REGISTERS / (128 * groups) / 8 * 8, made = 0;
  for (int i = 0; i < a->count; i++) {
    a->warps[i] = (Warp){.r = r, .registers = registers > 256 ? 256 : registers};
    sim_known_clear(r, a->known[i]);
  }
  for (; made < a->count && ok; made++) {
    a->warps[made].on = coroutine_create(run_warp, &a->warps[made]);
    ok = a->warps[made].on != NULL;
  }
  if (!ok) made--, sim_fault(r, NULL, -1, "out of memory"), r->fault->out_of_memory = true;
  ok = ok && run_all(r);
  r->stopped = true;
  for (int i = 0; i < made; i++) {
    while (!a->warps[i].ended) resume(a, &a->warps[i]);
    failed |= a->warps[i].failed;
    coroutine_destroy(a->warps[i].on);
  }
  r->from = 0, r->to = r->threads;
  if (failed) diag_fail_now(a->cx);
  return ok;
}

void sim_apart(SimRun *r, Context *cx) {
  SimApart *a = r->apart = NEW(cx->arena, SimApart);
  int warps = r->plan->warps, bytes = r->plan->all_bytes;
  *a = (SimApart){.cx = cx, .count = warps};
  a->warps = NEW_N(cx->arena, Warp, warps);
  a->known = NEW_N(cx->arena, SimKnown *, warps);
  for (int i = 0; i < warps; i++) a->known[i] = sim_known_create(r);
  a->of_cluster = (Barrier){0, 0, 0, sim_known_create(r), sim_known_create(r)};
  for (int k = 0; k < r->plan->cluster; k++)
    for (int i = 0; i < BARRIERS; i++) a->barriers[k][i] = (Barrier){0, 0, 0, sim_known_create(r), sim_known_create(r)};
  a->reads = NEW_N(cx->arena, uint32_t, (int64_t)bytes * warps);
  a->unit_reads = NEW_N(cx->arena, uint32_t, (int64_t)(bytes / 16 + 1) * warps);
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

/* Of a block, or (OF_CLUSTER) of all. */
static int live_warps(const SimRun *r, int block) {
  int n = 0, each = r->plan->block_warps;
  for (int i = 0; i < r->apart->count; i++)
    n += !r->apart->warps[i].ended && (block == OF_CLUSTER || i / each == block);
  return n;
}

bool sim_has_ended(const SimRun *r, int block) { return !live_warps(r, block); }

/* met: all warps of all blocks have. */
static void complete(SimRun *r, Barrier *b, bool met) {
  SimKnown *done = b->done;
  b->done = b->now, b->now = done;
  sim_known_clear(r, done);
  b->arrived = 0;
  b->generation++;
  if (!met) return;
  r->block_sync = ++r->time;
  if (r->global) sim_shadow_meet(r->global);
  if (r->clocks) sim_clock_meet(r);
}

typedef struct Meeting {
  Barrier *barrier;
  uint32_t generation;
  int number, warps, block; /* block: whose all warps meet; OF_CLUSTER: those of all */
} Meeting;

static void tell_meeting(void *arg, char *out, size_t size) {
  const Meeting *m = arg;
  if (m->block == OF_CLUSTER) snprintf(out, size, "at a barrier of the cluster");
  else if (m->number) snprintf(out, size, "at barrier %d of %d warps", m->number, m->warps);
  else snprintf(out, size, "at a barrier of the block");
}

static bool has_met(SimRun *r, void *arg) {
  Meeting *m = arg;
  Barrier *b = m->barrier;
  if (b->generation == m->generation && !m->number && b->arrived == live_warps(r, m->block))
    complete(r, b, m->block == OF_CLUSTER || r->plan->cluster == 1);
  return b->generation != m->generation;
}

bool sim_meet(SimRun *r, const LaneOp *op) {
  SimApart *a = r->apart;
  int number = op->warps ? (int)op->imm : 0;
  int own = a->now / r->plan->block_warps, block = op->code == LANE_CLUSTER_BARRIER ? OF_CLUSTER : own;
  Barrier *b = block == OF_CLUSTER ? &a->of_cluster : &a->barriers[own][number];
  Meeting m = {b, b->generation, number, op->warps, block};
  if (b->arrived && op->warps && b->need != op->warps)
    return sim_fault(r, op, r->from, "barrier %d is of %d warps here, and of %d where others wait", number, op->warps,
                     b->need);
  b->need = op->warps;
  sim_release(r, b->now);
  b->arrived++;
  if (op->warps && b->arrived == op->warps) complete(r, b, false);
  if (op->code == LANE_BARRIER_ARRIVE) return true;
  if (!has_met(r, &m) && !sim_wait_until(r, op, has_met, tell_meeting, &m)) return false;
  sim_acquire(r, b->done);
  r->warp_sync[a->now] = r->time;
  return true;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

typedef struct Wanted {
  int more;
  const int *of;
} Wanted;

static void tell_registers(void *arg, char *out, size_t size) {
  snprintf(out, size, "for %d more registers a thread", ((const Wanted *)arg)->more);
}

static int *free_registers(const SimRun *r) { return &r->apart->free_registers[r->apart->now / r->plan->block_warps]; }

static bool are_free(SimRun *r, void *arg) {
  const Wanted *w = arg;
  return *w->of >= w->more;
}

bool sim_take_registers(SimRun *r, const LaneOp *op) {
  SimApart *a = r->apart;
  Warp *w = &a->warps[a->now];
  int more = (int)op->imm - w->registers;
  if (op->inc ? more < 0 : more > 0)
    return sim_fault(r, op, r->from, "a thread has %d registers, and wants %s: %lld", w->registers,
                     op->inc ? "more" : "fewer", (long long)op->imm);
  Wanted wanted = {more, free_registers(r)};
  if (more > 0 && !are_free(r, &wanted) && !sim_wait_until(r, op, are_free, tell_registers, &wanted)) return false;
  *free_registers(r) -= more;
  w->registers = (int)op->imm;
  return true;
}
