/* The simulator's shadow: what happened to each byte of shared and global memory last, so that a missing barrier is
 * found even where it did no harm this time.
 *
 * A byte's shadow names the thread that wrote it last and those that read it since, with the time, which counts
 * barriers. Two accesses by different threads of a block, one of them a write, need a barrier between: one of the
 * block, or of their warp when they are of one.
 *
 *     thread 0 writes byte 8, barrier, thread 40 reads byte 8       in order
 *     thread 0 writes byte 8,          thread 40 reads byte 8       a race, in whatever order they are simulated
 *
 * Two writes of the same bytes are let pass: copies that hold one element may all store it. Atomics go with atomics.
 *
 * A program's accesses to global memory happen in the order in which the kernel says them, whatever thread makes them:
 * who compiles the kernel puts the barriers in. So such a race is the compiler's fault, but for one kind: elements of
 * one store that go to one address are the kernel's affair. A write therefore remembers its tile operation and the
 * iterations of loops around it. Programs against programs are the kernel's affair, too; this shadow is a block's own.
 *
 * Global memory is shadowed page by page, as it is touched, in a hash table that every barrier of the block empties:
 * what was before it is in order. Where a block touches more than MOST_PAGES without a barrier, its shadow is forgotten
 * and begins anew; races may be missed then, but none is made up.
 */
#include "gpu/sim/sim_plan.h"

typedef unsigned long long ull;

enum { PAGE_BYTES = 128, PAGES_AT_ONCE = 64, FIRST_SLOTS = 256, MOST_PAGES = 1 << 15 };

typedef struct Slot {
  uint64_t page; /* address / PAGE_BYTES */
  uint32_t generation;
  SimShadow *cells;
} Slot;

struct SimGlobal {
  Arena *arena;
  Slot *slots;
  uint32_t slot_count, generation; /* a power of two; slots of other generations are empty */
  VEC(SimShadow *) pages;          /* in use: the first `used`; what is left of an earlier use is too old to matter */
  int used;
  uint64_t last_page;
  SimShadow *last;
};

SimGlobal *sim_shadow_create(Context *cx) {
  SimGlobal *g = NEW(cx->arena, SimGlobal);
  *g = (SimGlobal){.arena = cx->arena, .slot_count = FIRST_SLOTS, .generation = 1};
  g->slots = NEW_N(g->arena, Slot, g->slot_count);
  return g;
}

void sim_shadow_meet(SimGlobal *g) {
  g->generation++;
  g->used = 0;
  g->last = NULL;
}

static Slot *slot_of(const SimGlobal *g, uint64_t page) {
  uint32_t mask = g->slot_count - 1, i = (uint32_t)(page * 0x9e3779b97f4a7c15ull >> 32) & mask;
  while (g->slots[i].generation == g->generation && g->slots[i].page != page) i = (i + 1) & mask;
  return &g->slots[i];
}

static void grow(SimGlobal *g) {
  Slot *old = g->slots;
  uint32_t n = g->slot_count;
  g->slot_count = 2 * n;
  g->slots = NEW_N(g->arena, Slot, g->slot_count);
  for (uint32_t i = 0; i < n; i++)
    if (old[i].generation == g->generation) *slot_of(g, old[i].page) = old[i];
}

static SimShadow *new_page(SimGlobal *g) {
  if (g->used == g->pages.n) {
    SimShadow *cells = NEW_N(g->arena, SimShadow, PAGES_AT_ONCE * PAGE_BYTES);
    for (int i = 0; i < PAGES_AT_ONCE; i++) vec_push(g->arena, &g->pages, cells + i * PAGE_BYTES);
  }
  return g->pages.at[g->used++];
}

static void forget(SimGlobal *g) {
  for (int i = 0; i < g->used; i++) memset(g->pages.at[i], 0, PAGE_BYTES * sizeof *g->pages.at[i]);
  sim_shadow_meet(g);
}

static SimShadow *global_page(SimGlobal *g, uint64_t page) {
  if (g->last && g->last_page == page) return g->last;
  Slot *s = slot_of(g, page);
  if (s->generation != g->generation) {
    if (g->used == MOST_PAGES) forget(g);
    if ((uint32_t)g->used >= g->slot_count / 2) grow(g);
    s = slot_of(g, page);
    *s = (Slot){page, g->generation, new_page(g)};
  }
  g->last_page = page;
  return g->last = s->cells;
}

static SimShadow *cell(const SimAccess *a, int i) {
  uint64_t at = a->address + (uint64_t)i;
  if (a->o->op->space == SPACE_SHARED) return &a->r->shadow[at];
  return global_page(a->r->global, at / PAGE_BYTES) + at % PAGE_BYTES;
}

/* ---- what is said ---- */

const char *sim_buffer_name(const SimAccess *a) {
  int i = a->o->op->buffer;
  const LaneFunc *f = a->r->plan->f;
  return i >= 0 && i < f->buffers.n ? f->buffers.at[i].name : "?";
}

/* other: its thread, or -1 for several. */
static bool race(const SimAccess *a, int i, int other, const char *did) {
  char who[32] = "other threads";
  const char *does = a->write ? "writes" : "reads";
  ull byte = (ull)a->address + (ull)i;
  if (other >= 0) snprintf(who, sizeof who, "thread %d", other);
  if (a->o->op->space == SPACE_GLOBAL) {
    a->r->fault->of_order = true;
    return sim_fault(a->r, a->o->op, a->thread,
                     "race in global memory: thread %d %s address 0x%llx that %s of its block %s, without a barrier "
                     "between: a fault of the compiler, not of the kernel",
                     a->thread, does, byte, who, did);
  }
  return sim_fault(a->r, a->o->op, a->thread,
                   "race in shared memory: thread %d %s byte %llu (buffer '%s') that %s %s, without a barrier between",
                   a->thread, does, byte, sim_buffer_name(a), who, did);
}

/* ---- accesses ---- */

/* Of global memory: whether that warp is of another block, whose program may do what it likes. */
static bool is_of_other(const SimAccess *a, int warp) {
  return a->o->op->space == SPACE_GLOBAL && sim_block_of(a->r, 32 * warp) != sim_block_of(a->r, a->thread);
}

/* Whether an access at that time, by a thread of that warp, is not yet ordered before this thread. */
static bool is_recent(const SimAccess *a, uint32_t time, int warp) {
  if (time < a->r->block_start || (a->r->apart && time < a->r->block_sync)) return false;
  if (is_of_other(a, warp)) return false;
  if (a->r->apart && warp != a->thread / 32) return !sim_knows(a->r, a->thread / 32, warp, time, false);
  return time >= (warp == a->thread / 32 ? a->r->warp_sync[warp] : a->r->block_sync);
}

static uint32_t statement_of(const SimAccess *a) {
  const LaneOp *op = a->o->op;
  uint32_t own = op->statement ? (uint32_t)op->statement : (uint32_t)((uintptr_t)op >> 4) | 0x80000000u;
  return sim_mix(own, a->r->iteration);
}

/* Of shared memory: whether byte i holds what this buffer was given. */
static bool is_written(const SimAccess *a, int i, const SimShadow *s) {
  SimRun *r = a->r;
  int buffer = a->o->op->buffer;
  ull byte = (ull)a->address + (ull)i;
  if (s->written < r->block_start)
    return sim_fault(r, a->o->op, a->thread,
                     "thread %d reads byte %llu of shared memory (buffer '%s'), which nobody has written", a->thread,
                     byte, sim_buffer_name(a));
  if (buffer >= 0 && s->buffer >= 0 && s->buffer != buffer)
    return sim_fault(r, a->o->op, a->thread,
                     "thread %d reads byte %llu of shared memory (buffer '%s'), which was written last as buffer '%s'",
                     a->thread, byte, sim_buffer_name(a), r->plan->f->buffers.at[s->buffer].name);
  return true;
}

static void note_reader(const SimAccess *a, SimShadow *s) {
  SimRun *r = a->r;
  int t = a->thread, warp = t / 32;
  if (r->apart) {
    bool others = false;
    if (a->o->op->space == SPACE_GLOBAL) {
      if (s->read < r->block_sync) s->readers = 0;
      for (int w = 0; w < r->plan->warps; w++) /* who knows of this read knows of those that this warp knows of */
        if (s->readers >> w & 1 && (is_of_other(a, w) || sim_knows(r, warp, w, s->read, false)))
          s->readers &= ~(1u << w);
      others = s->readers != 0; /* there is one time for all: the first one's, lest a race be made up */
      s->readers |= 1u << warp;
    }
    bool same = s->read >= r->warp_sync[warp] && s->reader != t && s->reader < SIM_WARP && s->reader / 32 == warp;
    if (same || (s->reader == (SIM_WARP | warp) && s->read >= r->warp_sync[warp]))
      s->reader = (uint16_t)(SIM_WARP | warp);
    else s->reader = (uint16_t)t;
    if (!others) s->read = r->time;
    return;
  }
  bool fresh = s->read >= r->block_sync && s->read >= r->block_start;
  if (!fresh) s->reader = (uint16_t)t;
  else if (s->reader != t) {
    int old_warp = s->reader == SIM_MANY ? -1 : s->reader & SIM_WARP ? s->reader & 31 : s->reader / 32;
    if (old_warp != warp) s->reader = SIM_MANY;
    else if (s->read >= r->warp_sync[warp]) s->reader = (uint16_t)(SIM_WARP | warp);
    else s->reader = (uint16_t)t;
  }
  s->read = r->time;
}

bool sim_note_read(const SimAccess *a) {
  SimRun *r = a->r;
  const LaneOp *op = a->o->op;
  bool shared = op->space == SPACE_SHARED;
  if (!shared && !r->global) return true;
  for (int i = 0; i < a->bytes; i++) {
    SimShadow *s = cell(a, i);
    bool ordered = shared ? s->written >= r->block_start && s->written < r->block_sync && s->buffer == op->buffer
                          : s->written < r->block_sync || s->written < r->block_start;
    if (shared && s->in_flight & SIM_COPIED)
      return sim_fault(
          r, op, a->thread,
          "thread %d reads byte %llu of shared memory (buffer '%s'), which an asynchronous copy that nobody "
          "has waited for writes",
          a->thread, (ull)a->address + (ull)i, sim_buffer_name(a));
    if (ordered && s->read == r->time && s->reader == SIM_MANY && !r->apart)
      continue; /* the common case: nothing to find or to note */
    if (shared && !is_written(a, i, s)) return false;
    if (shared && r->apart && !a->unit && !a->atomic) sim_reads(r, a->address + (uint64_t)i)[a->thread / 32] = r->time;
    if (shared && s->in_flight & SIM_BY_BULK) {
      if (!sim_bulk_there(r, op, a->thread, a->address + (uint64_t)i, "reads")) return false;
      if (!a->unit) note_reader(a, s);
      continue;
    }
    int writer = s->writer & ~SIM_ATOMIC;
    bool recent = (writer != a->thread || a->spread) && !(a->atomic && s->writer & SIM_ATOMIC) &&
                  is_recent(a, s->written, writer / 32);
    if (recent && (shared || s->statement != statement_of(a))) return race(a, i, writer, "wrote");
    if (!a->atomic && !(a->unit && r->apart)) note_reader(a, s); /* else noted as a write, or when the unit is done */
  }
  return true;
}

/* Where warps go apart: each may have read it at another time. */
static bool was_read_apart(const SimAccess *a, const SimShadow *s, uint64_t byte, int *reader) {
  SimRun *r = a->r;
  int own = a->thread / 32;
  bool shared = a->o->op->space == SPACE_SHARED;
  if (!shared && s->read < r->block_sync) return false;
  if (s->read >= r->block_start && s->read >= r->warp_sync[own]) {
    *reader = s->reader < SIM_WARP ? s->reader : -1;
    if (s->reader == (SIM_WARP | own) || (s->reader < SIM_WARP && s->reader / 32 == own && s->reader != a->thread))
      return true;
  }
  for (int w = 0; w < r->plan->warps; w++) {
    if (w == own || is_of_other(a, w)) continue;
    uint32_t time = shared ? sim_reads(r, byte)[w] : s->readers >> w & 1 ? s->read : 0;
    if (shared && sim_unit_reads(r, byte)[w] > time) time = sim_unit_reads(r, byte)[w];
    *reader = -1;
    if (!sim_knows(r, own, w, time, false)) return true;
  }
  return false;
}

/* Whether byte i was read by others, and not yet in order before this thread. */
static bool was_read(const SimAccess *a, const SimShadow *s, uint64_t byte, int *reader) {
  *reader = -1;
  if (a->r->apart) return was_read_apart(a, s, byte, reader);
  if (s->read < a->r->block_start) return false;
  if (s->reader == SIM_MANY) return s->read >= a->r->block_sync;
  if (s->reader & SIM_WARP) return is_recent(a, s->read, s->reader & 31);
  *reader = s->reader;
  return s->reader != a->thread && is_recent(a, s->read, s->reader / 32);
}

/* Both may be global memory, which other programs reach at once. */
static bool is_same(const char *old, const char *new_bytes, int i) {
  return __atomic_load_n(old + i, __ATOMIC_RELAXED) == __atomic_load_n(new_bytes + i, __ATOMIC_RELAXED);
}

/* Whether a barrier has come since this thread wrote there, at that time: where warps go apart, one that another warp
 * of its block knows of. */
static bool has_met_since(const SimAccess *a, uint32_t time) {
  const SimRun *r = a->r;
  int own = a->thread / 32, warps = r->plan->block_warps, first = own / warps * warps;
  if (!r->apart) return time < r->block_sync;
  if (time >= r->warp_sync[own]) return false;
  bool known = warps == 1;
  for (int w = first; w < first + warps; w++) known |= w != own && sim_knows(r, w, own, time, false);
  return known;
}

bool sim_note_write(const SimAccess *a, const char *old, const void *new_bytes) {
  SimRun *r = a->r;
  bool shared = a->o->op->space == SPACE_SHARED;
  int t = a->thread, reader;
  if (!shared && !r->global) return true;
  uint32_t statement = shared ? 0 : statement_of(a);
  for (int i = 0; i < a->bytes; i++) {
    SimShadow *s = cell(a, i);
    if (shared && s->in_flight & SIM_BY_BULK && !sim_bulk_there(r, a->o->op, t, a->address + (uint64_t)i, "writes"))
      return false;
    if (shared && s->in_flight & ~(SIM_BY_COPY | SIM_BY_BULK))
      return sim_fault(r, a->o->op, t, "thread %d writes byte %llu of shared memory (buffer '%s'), which %s", t,
                       (ull)a->address + (ull)i, sim_buffer_name(a),
                       s->in_flight & SIM_COPIED ? "an asynchronous copy that nobody has waited for writes"
                       : s->in_flight & SIM_MBAR ? "is an mbarrier's"
                                                 : "a product or copy that nobody has waited for reads");
    int writer = s->writer & ~SIM_ATOMIC;
    bool both_atomic = a->atomic && s->writer & SIM_ATOMIC;
    bool same = !a->atomic && !(s->writer & SIM_ATOMIC) && is_same(old, new_bytes, i);
    same |= !shared && s->statement == statement;
    same |= shared && s->in_flight & SIM_BY_BULK; /* it knows of the copy */
    if (writer != t && !both_atomic && !same && is_recent(a, s->written, writer / 32))
      return race(a, i, writer, "wrote");
    if (was_read(a, s, a->address + (uint64_t)i, &reader)) return race(a, i, reader, "read");
    /* An atomic of the thread that stored before it leaves that store as it was for the others. */
    bool plain = !a->atomic || (s->writer == t && !has_met_since(a, s->written));
    s->written = r->time;
    s->writer = (uint16_t)(t | (plain ? 0 : SIM_ATOMIC));
    s->in_flight = 0;
    s->readers = 0;
    s->buffer = a->o->op->buffer;
    s->statement = statement;
  }
  return true;
}
