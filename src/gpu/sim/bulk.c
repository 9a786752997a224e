/* mbarriers, and copies by tensor maps (PTX ISA, mbarrier; cp.async.bulk.tensor).
 *
 * A copy's bytes move row by row, at moments of chance between its issue and the completion of its phase, copies under
 * way mixed; where it will write, there is nonsense until then. Who reads or writes such a byte must know that the
 * phase is complete: its own warp has waited for it, or knows a warp that has (sim/apart.c). So a read that comes too
 * early is found also where the bytes have come by luck.
 *
 *     issue         of a load: everybody who read or wrote the bytes is known, and has fenced where it was no unit; of
 *                   a store: they were written, and fenced
 *     arrivals      as many as a phase is made for; bytes come in the phase in which their copy was issued
 *     waits         a warp does not wait twice for one phase
 *     end           nothing is under way
 *
 * A phase's barrier takes what those who arrive know, and gives it to those who wait.
 */
#include "gpu/sim/sim_plan.h"
#include "rt/tensor_map.h"

typedef unsigned long long ull;

enum { MOST_COUNT = (1 << 20) - 1, MOST_BOX = 256 };

typedef struct Mbar {
  uint32_t at, count, pending;
  int64_t bytes; /* expected and not come */
  uint32_t phase;
  SimKnown *now, *done; /* of those who arrived: in the phase that is open, before it */
  int maker;            /* warp */
  uint32_t made;        /* when */
  bool fenced;
  uint32_t brings;     /* phases up to the last one in which bytes were expected */
  uint32_t waited[32]; /* by warp: phase + 1 */
} Mbar;

typedef struct Copy {
  const SimOp *o;
  GpuTensorMap map;
  int thread;
  uint32_t at, phase, group; /* group: of a store, among its thread's */
  int32_t first[GPU_MAP_MOST_RANK];
  Mbar *bar;
  int rows, inner; /* inner: bytes of a row */
  int read, written;
  bool released; /* of a store: somebody has waited until it was read */
  char *data;    /* of a store: what it has read */
} Copy;

typedef struct Chunk { /* of 16 bytes, where a load wrote last */
  uint32_t phase;
  int mbar;
} Chunk;

typedef struct SimBulk {
  Arena *arena;
  Mbar mbars[SIM_MOST_MBARS];
  int count;
  Chunk *chunks;
  VEC(Copy *) copies; /* that are under way, or not waited for */
  uint32_t *groups;   /* by thread: committed */
  bool faulted;
} SimBulk;

struct SimBulk *sim_bulk(Context *cx, SimRun *r) {
  SimBulk *b = NEW(cx->arena, SimBulk);
  *b = (SimBulk){.arena = cx->arena};
  b->chunks = NEW_N(cx->arena, Chunk, r->plan->all_bytes / 16 + 1);
  b->groups = NEW_N(cx->arena, uint32_t, r->threads);
  for (int i = 0; i < SIM_MOST_MBARS; i++)
    b->mbars[i].now = sim_known_create(r), b->mbars[i].done = sim_known_create(r);
  return b;
}

void sim_bulk_start(SimRun *r) {
  SimBulk *b = r->bulk;
  for (int i = 0; i < r->plan->all_bytes; i++) r->shadow[i].in_flight = 0;
  memset(b->groups, 0, sizeof *b->groups * (size_t)r->threads);
  b->count = b->copies.n = 0;
  b->faulted = false;
}

bool sim_bulk_faulted(SimRun *r) { return r->bulk->faulted; }

/* ---- mbarriers --------------------------------------------------------------------------------------------------- */

static int number_of(const SimBulk *b, const Mbar *bar) { return (int)(bar - b->mbars); }

static void complete(SimRun *r, Mbar *bar) {
  if (bar->pending || bar->bytes) return;
  bar->phase++;
  bar->pending = bar->count;
  sim_known_add(r, bar->done, bar->now);
  sim_known_clear(r, bar->now);
  r->time++;
}

static Mbar *at_byte(SimBulk *b, uint64_t at) {
  for (int i = 0; i < b->count; i++)
    if (b->mbars[i].at == at) return &b->mbars[i];
  return NULL;
}

/* The barrier at that byte, as thread t may use it; NULL after a fault. unit: a copy will use it. */
static Mbar *mbar_at(SimRun *r, const LaneOp *op, int t, uint32_t at, bool unit) {
  Mbar *bar = at_byte(r->bulk, at);
  if (!bar) return sim_fault(r, op, t, "there is no mbarrier at byte %u of shared memory", at), NULL;
  bool known = sim_knows(r, t / 32, bar->maker, bar->made, false);
  if (known && (bar->fenced || (!unit && bar->maker == t / 32))) return bar;
  return sim_fault(r, op, t, "the mbarrier at byte %u was made without %s since", at,
                   known ? "a fence_mbar" : "a barrier that this warp has come to"),
         NULL;
}

static bool make(SimRun *r, const SimOp *o, int t, uint32_t at, uint32_t count) {
  SimBulk *b = r->bulk;
  const LaneOp *op = o->op;
  uint32_t in_block = at - sim_shared_of(r, t);
  if (at % 8 || in_block + 8 > (uint32_t)r->plan->shared_bytes)
    return sim_fault(r, op, t, "no mbarrier can be at byte %u of %d of shared memory", in_block, r->plan->shared_bytes);
  if (at_byte(b, at)) return sim_fault(r, op, t, "an mbarrier is made twice at byte %u", at);
  if (b->count == SIM_MOST_MBARS) return sim_fault(r, op, t, "more than %d mbarriers", SIM_MOST_MBARS);
  if (count < 1 || count > MOST_COUNT) return sim_fault(r, op, t, "an mbarrier of %u arrivals", count);
  Mbar *bar = &b->mbars[b->count++];
  SimKnown *now = bar->now, *done = bar->done;
  *bar = (Mbar){.at = at, .count = count, .pending = count, .now = now, .done = done, .maker = t / 32, .made = r->time};
  sim_known_clear(r, now), sim_known_clear(r, done);
  for (int i = 0; i < 8; i++) r->shadow[at + (uint32_t)i].in_flight = SIM_MBAR;
  return true;
}

static bool too_many(SimRun *r, const LaneOp *op, int t, const Mbar *bar) {
  return sim_fault(r, op, t, "one arrival too many in phase %u of the mbarrier at byte %u, which is of %u", bar->phase,
                   bar->at, bar->count);
}

static bool arrive(SimRun *r, const LaneOp *op, int t, Mbar *bar, uint32_t bytes) {
  if (!bar->pending) return too_many(r, op, t, bar);
  bar->bytes += bytes;
  if (bytes) bar->brings = bar->phase + 1;
  if (bytes > MOST_COUNT || bar->bytes > MOST_COUNT)
    return sim_fault(r, op, t, "%lld bytes are expected of a phase; the most are %d", (long long)bar->bytes,
                     MOST_COUNT);
  sim_release(r, bar->now);
  bar->pending--;
  complete(r, bar);
  return true;
}

bool sim_mbar_known(SimRun *r, const LaneOp *op, int t, uint32_t at) { return mbar_at(r, op, t, at, true) != NULL; }

bool sim_mbar_arrive(SimRun *r, const LaneOp *op, int t, uint32_t at, const SimKnown *known, int *number,
                     uint32_t *phase) {
  Mbar *bar = at_byte(r->bulk, at);
  *number = number_of(r->bulk, bar);
  *phase = bar->phase;
  if (!bar->pending) return too_many(r, op, t, bar);
  sim_known_add(r, bar->now, known);
  bar->pending--;
  complete(r, bar);
  return true;
}

typedef struct Phase {
  Mbar *bar;
  uint32_t parity;
} Phase;

static bool is_complete(SimRun *r, void *arg) {
  const Phase *w = arg;
  return (w->bar->phase & 1) != w->parity;
}

static void tell_phase(void *arg, char *out, size_t size) {
  const Phase *w = arg;
  const Mbar *bar = w->bar;
  snprintf(out, size, "for parity %u of the mbarrier at byte %u, in phase %u (%u arrivals, %lld bytes to come)",
           w->parity, bar->at, bar->phase, bar->pending, (long long)bar->bytes);
}

static bool wait_for(SimRun *r, const LaneOp *op, int t, Mbar *bar, uint32_t parity) {
  SimBulk *b = r->bulk;
  Phase w = {bar, parity & 1};
  uint32_t *waited = &bar->waited[t / 32];
  if (!is_complete(r, &w) && !sim_wait_until(r, op, is_complete, tell_phase, &w)) return false;
  if (*waited == bar->phase + 1)
    return sim_fault(r, op, t,
                     "warp %d waits for parity %u of the mbarrier at byte %u again: it has waited for that phase, and "
                     "phase %u is open",
                     t / 32, w.parity, bar->at, bar->phase);
  *waited = bar->phase + 1;
  sim_acquire(r, bar->done);
  sim_seen(r, t / 32)[number_of(b, bar)] = bar->phase;
  return true;
}

/* Whether block x of the cluster has memory that thread t may reach. */
static bool is_there(SimRun *r, const LaneOp *op, int t, uint32_t x) {
  if (x >= (uint32_t)r->plan->cluster)
    return sim_fault(r, op, t, "there is no block %u: the cluster has %d", x, r->plan->cluster);
  return !sim_has_ended(r, (int)x) || sim_fault(r, op, t, "block %u of the cluster has ended", x);
}

bool sim_mbar(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneOp *op = o->op;
  SimBulk *b = r->bulk;
  if (op->code == LANE_FENCE_MBAR) {
    for (int i = 0; i < b->count; i++) b->mbars[i].fenced |= b->mbars[i].maker == r->from / 32;
    return true;
  }
  uint32_t last_at = 0, last_x = 0;
  for (int t = r->from, waits = 0; t < r->to; t++) {
    if (!m->on[t] || !sim_guarded(r, o, t)) continue;
    uint32_t at = sim_shared_at(r, t, sim_get(r, o->in[0], LT_B32, t) + (uint64_t)op->imm),
             x = op->in_count > 1 ? (uint32_t)sim_get(r, o->in[1], LT_B32, t) : 0;
    if (op->code == LANE_MBAR_ARRIVE && op->in_count > 1) {
      if (!is_there(r, op, t, x)) return false;
      at = at - sim_shared_of(r, t) + x * (uint32_t)r->plan->block_bytes;
      x = 0;
    }
    if (op->code == LANE_MBAR_INIT) {
      if (!make(r, o, t, at, x)) return false;
      continue;
    }
    Mbar *bar = mbar_at(r, op, t, at, false);
    if (!bar) return false;
    if (op->code != LANE_MBAR_WAIT) {
      if (!arrive(r, op, t, bar, x)) return false;
      continue;
    }
    if (waits++ && at == last_at && x == last_x) continue; /* with the threads before it */
    if (!wait_for(r, op, t, bar, x)) return false;
    last_at = at, last_x = x;
  }
  return true;
}

/* ---- who may touch what ------------------------------------------------------------------------------------------ */

static const char *buffer_name(const SimRun *r, const LaneOp *op) {
  return op->buffer >= 0 && op->buffer < r->plan->f->buffers.n ? r->plan->f->buffers.at[op->buffer].name : "?";
}

bool sim_bulk_there(SimRun *r, const LaneOp *op, int t, uint64_t byte, const char *does) {
  SimBulk *b = r->bulk;
  const Chunk *c = &b->chunks[byte / 16];
  if (sim_seen(r, t / 32)[c->mbar] > c->phase) return true;
  return sim_fault(
      r, op, t,
      "thread %d %s byte %llu of shared memory (buffer '%s'), which a copy by a tensor map writes, and warp %d "
      "has not waited for phase %u of its mbarrier, at byte %u",
      t, does, (ull)byte, buffer_name(r, op), t / 32, c->phase, b->mbars[c->mbar].at);
}

static bool early(SimRun *r, const Copy *c, uint64_t byte, int w, const char *did) {
  return sim_fault(r, c->o->op, c->thread,
                   "a copy by a tensor map %s byte %llu of shared memory (buffer '%s'), which warp %d %s",
                   c->bar ? "writes" : "reads", (ull)byte, buffer_name(r, c->o->op), w, did);
}

/* Whether the writer of a byte is known to who issues the copy, with a fence. */
static bool writer_is_known(SimRun *r, const Copy *c, uint64_t byte, const SimShadow *s) {
  int own = c->thread / 32, w = (s->writer & ~SIM_ATOMIC) / 32;
  if (s->written < r->block_start) return true;
  if (s->in_flight & SIM_BY_BULK) return sim_bulk_there(r, c->o->op, c->thread, byte, c->bar ? "overwrites" : "stores");
  if (s->in_flight & SIM_COPIED) return early(r, c, byte, w, "is copying to");
  if (own != w && !sim_knows(r, own, w, s->written, false))
    return early(r, c, byte, w, "wrote, without a barrier since");
  return (s->in_flight & SIM_BY_COPY) || sim_knows(r, own, w, s->written, true) ||
         early(r, c, byte, w, "wrote, without a fence_proxy before the barrier");
}

static bool may_write(SimRun *r, const Copy *c, uint64_t byte) {
  SimShadow *s = &r->shadow[byte];
  int own = c->thread / 32;
  if (s->in_flight & SIM_MBAR) return early(r, c, byte, own, "made an mbarrier of");
  if (s->in_flight & (SIM_MBAR - 1)) return early(r, c, byte, own, "has not waited for: a product or copy reads it");
  if (!writer_is_known(r, c, byte, s)) return false;
  for (int w = 0; w < r->plan->warps; w++) {
    uint32_t read = sim_reads(r, byte)[w], by_unit = sim_unit_reads(r, byte)[w];
    if (w != own && (!sim_knows(r, own, w, read, false) || !sim_knows(r, own, w, by_unit, false)))
      return early(r, c, byte, w, "read, without a barrier since");
    if (!sim_knows(r, own, w, read, true))
      return early(r, c, byte, w, "read, without a fence_proxy before the barrier");
  }
  return true;
}

static bool may_read(SimRun *r, const Copy *c, uint64_t byte) {
  const SimShadow *s = &r->shadow[byte];
  if (s->written < r->block_start || s->in_flight & SIM_MBAR)
    return sim_fault(r, c->o->op, c->thread,
                     "a copy by a tensor map stores byte %llu of shared memory, which nobody has "
                     "written",
                     (ull)byte);
  return writer_is_known(r, c, byte, s);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static uint32_t place(const Copy *c, int row, int byte) {
  return gpu_swizzle(c->at + (uint32_t)(row * c->inner + byte), c->map.swizzle);
}

static bool is_map(const GpuTensorMap *m, int rank) {
  return m->magic == GPU_MAP_MAGIC && m->rank == rank && m->swizzle <= 3;
}

/* block: of the cluster, where it goes. */
static bool open_copy(SimRun *r, const SimOp *o, int t, int block, Copy *c) {
  const LaneOp *op = o->op;
  bool load = op->code == LANE_TENSOR_LOAD;
  int first = load ? 3 : 2, rank = op->in_count - first;
  uint32_t base = (uint32_t)(block * r->plan->block_bytes),
           at = base + sim_in_block(sim_get(r, o->in[0], LT_B32, t) + (uint64_t)op->imm);
  if (!is_there(r, op, t, (uint32_t)block)) return false;
  *c = (Copy){.o = o, .thread = t, .at = at, .group = r->bulk->groups[t], .rows = 1};
  memcpy(&c->map, (const void *)(uintptr_t)sim_get(r, o->in[first - 1], LT_B64, t), sizeof c->map);
  if (!is_map(&c->map, rank)) return sim_fault(r, op, t, "this is no tensor map of %d dimensions", rank);
  for (int i = 0; i < rank; i++) {
    c->first[i] = (int32_t)sim_get(r, o->in[first + i], LT_B32, t);
    if (i) c->rows *= c->map.box[i];
    if (!load && c->first[i] < 0) return sim_fault(r, op, t, "a store to coordinate %d", c->first[i]);
    if (!i && (int64_t)c->first[0] * dtype_bits(c->map.dtype) % 128) /* the GPU calls it an illegal instruction */
      return sim_fault(r, op, t, "a copy at column %d, no multiple of 16 bytes", c->first[0]);
  }
  c->inner = c->map.box[0] * dtype_bits(c->map.dtype) / 8;
  uint32_t period = c->map.swizzle ? 128u << c->map.swizzle : 128, bytes = (uint32_t)(c->rows * c->inner);
  if (at % period) return sim_fault(r, op, t, "a box at byte %u of shared memory, not a multiple of %u", at, period);
  if (c->inner % 16 || (c->map.swizzle && c->inner > 16 << c->map.swizzle))
    return sim_fault(r, op, t, "a box whose rows have %d bytes", c->inner);
  uint64_t from = base, end = base + (uint64_t)r->plan->shared_bytes;
  if (op->buffer >= 0 && op->buffer < r->plan->f->buffers.n) {
    from = base + (uint64_t)r->plan->buffer_offset[op->buffer];
    end = from + (uint64_t)r->plan->f->buffers.at[op->buffer].bytes;
  }
  if (at < from || at + bytes > end)
    return sim_fault(r, op, t, "a box of %u bytes at byte %lld of buffer '%s', which has %llu", bytes,
                     (long long)at - (long long)from, buffer_name(r, op), (ull)(end - from));
  if (load) {
    c->bar = mbar_at(r, op, t, base + sim_in_block(sim_get(r, o->in[1], LT_B32, t)), true);
    if (!c->bar) return false;
    c->phase = c->bar->phase;
  } else {
    c->data = arena_alloc(r->bulk->arena, (size_t)bytes);
  }
  return true;
}

/* What the bytes are from now on. */
static bool mark(SimRun *r, const Copy *c) {
  uint32_t end = c->at + (uint32_t)(c->rows * c->inner); /* swizzled too: the box begins where the pattern does */
  for (uint32_t byte = c->at; byte < end; byte++)
    if (c->bar ? !may_write(r, c, byte) : !may_read(r, c, byte)) return false;
  for (uint32_t byte = c->at; byte < end; byte++) {
    SimShadow *s = &r->shadow[byte];
    if (!c->bar) {
      s->in_flight++;
      continue;
    }
    s->in_flight = SIM_BY_BULK;
    s->written = r->time;
    s->buffer = c->o->op->buffer;
    r->bulk->chunks[byte / 16] = (Chunk){c->phase, number_of(r->bulk, c->bar)};
    r->shared[byte] = (char)0xff;
  }
  return true;
}

bool sim_tensor(SimRun *r, const SimOp *o, const SimMask *m) {
  SimBulk *b = r->bulk;
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t] || !sim_guarded(r, o, t)) continue;
    unsigned blocks = o->op->multicast ? o->op->multicast : 1u << sim_block_of(r, t);
    for (int block = 0; blocks >> block; block++) {
      if (!(blocks >> block & 1)) continue;
      Copy *c = NEW(b->arena, Copy);
      if (!open_copy(r, o, t, block, c) || !mark(r, c)) return false;
      vec_push(b->arena, &b->copies, c);
    }
  }
  return true;
}

/* The part of a row that is in the array: from byte *begin of it to *end, at *at; empty: nothing. False after a fault.
 */
static bool global_row(SimRun *r, const Copy *c, int row, bool write, char **at, int *begin, int *end) {
  int whole = row;
  const GpuTensorMap *m = &c->map;
  int64_t size = dtype_bits(m->dtype) / 8, first = c->first[0], last = first + m->box[0];
  uint64_t address = m->base;
  bool inside = true;
  for (int i = 1; i < m->rank; i++) {
    int64_t x = (int64_t)c->first[i] + row % m->box[i];
    row /= m->box[i];
    inside &= x >= 0 && (uint64_t)x < m->sizes[i];
    address += (uint64_t)x * m->strides[i - 1];
  }
  if (first < 0) first = 0;
  if (last > (int64_t)m->sizes[0]) last = (int64_t)m->sizes[0];
  *begin = (int)((first - c->first[0]) * size);
  *end = inside && last > first ? (int)((last - c->first[0]) * size) : *begin;
  if (*end == *begin) return true;
  *at = (char *)(uintptr_t)(address + (uint64_t)(first * size));
  LaneOp global = *c->o->op;
  global.space = SPACE_GLOBAL;
  SimOp o = *c->o;
  o.op = &global;
  if (r->o->check && !r->o->check(r->o->check_arg, (uint64_t)(uintptr_t)*at, *end - *begin, write))
    return sim_fault(r, c->o->op, c->thread,
                     "a copy by a tensor map %s %d bytes at address 0x%llx, which is no memory of "
                     "the kernel's",
                     write ? "writes" : "reads", *end - *begin, (ull)(uintptr_t)*at);
  bool adds = global.code == LANE_TENSOR_RED;
  SimAccess a = {r, &o, c->thread, *end - *begin, (uint64_t)(uintptr_t)*at, write, adds, false, true};
  return write ? !r->global || sim_note_write(&a, *at, c->data + whole * c->inner + *begin) : sim_note_read(&a);
}

static bool load_row(SimRun *r, Copy *c, int row) {
  char data[MOST_BOX * 8] = {0}, *from = NULL;
  int begin, end;
  if (!global_row(r, c, row, false, &from, &begin, &end)) return false;
  sim_fetch(data + begin, from, end - begin);
  int block = (int)c->at / r->plan->block_bytes;
  if (sim_has_ended(r, block))
    return sim_fault(r, c->o->op, c->thread, "bytes of a copy come to block %d of the cluster, which has ended", block);
  for (int i = 0; i < c->inner; i += 16) memcpy(r->shared + place(c, row, i), data + i, 16);
  if (c->bar->phase != c->phase)
    return sim_fault(
        r, c->o->op, c->thread,
        "bytes of a copy come after phase %u of the mbarrier at byte %u is complete: fewer were expected of it",
        c->phase, c->bar->at);
  c->bar->bytes -= c->inner;
  complete(r, c->bar);
  return true;
}

static void read_row(SimRun *r, Copy *c, int row) {
  for (int i = 0; i < c->inner; i += 16) memcpy(c->data + row * c->inner + i, r->shared + place(c, row, i), 16);
}

static bool store_row(SimRun *r, Copy *c, int row) {
  char *to = NULL, *data = c->data + row * c->inner;
  int begin, end, size = dtype_bits(c->map.dtype) / 8;
  const LaneOp *op = c->o->op;
  if (!global_row(r, c, row, true, &to, &begin, &end)) return false;
  if (op->code == LANE_TENSOR_STORE) {
    sim_put(to, data + begin, end - begin);
    return true;
  }
  LaneKind kind = lane_kind_of(&(Type){.dtype = c->map.dtype});
  for (int i = begin; i < end; i += size) {
    uint64_t x = 0;
    memcpy(&x, data + i, (size_t)size);
    sim_exchange(to + i - begin, op->rmw, kind, x, 0);
  }
  return true;
}

static bool is_under_way(const Copy *c) { return c->written < c->rows; }

/* Some of a copy's rows, of one that chance takes. */
bool sim_bulk_land(SimRun *r) {
  SimBulk *b = r->bulk;
  int open = 0;
  for (int i = 0; i < b->copies.n; i++) open += is_under_way(b->copies.at[i]);
  if (!open) return false;
  int which = (int)sim_random(r, (uint32_t)open), i = 0;
  while (!is_under_way(b->copies.at[i]) || which--) i++;
  Copy *c = b->copies.at[i];
  for (int n = 1 + (int)sim_random(r, (uint32_t)c->rows); n > 0 && is_under_way(c); n--) {
    if (!c->bar && c->read < c->rows && (c->read == c->written || sim_random(r, 2))) {
      read_row(r, c, c->read++);
      continue;
    }
    b->faulted = c->bar ? !load_row(r, c, c->written) : !store_row(r, c, c->written);
    if (b->faulted) return false;
    c->written++;
  }
  if (c->bar && !is_under_way(c)) b->copies.at[i] = b->copies.at[--b->copies.n];
  return true;
}

/* ---- groups of stores -------------------------------------------------------------------------------------------- */

typedef struct Group {
  int thread;
  uint32_t before; /* groups before this one */
  bool read;
} Group;

static bool is_done(SimRun *r, void *arg) {
  const Group *g = arg;
  for (int i = 0; i < r->bulk->copies.n; i++) {
    const Copy *c = r->bulk->copies.at[i];
    if (!c->bar && c->thread == g->thread && c->group < g->before && (g->read ? c->read : c->written) < c->rows)
      return false;
  }
  return true;
}

/* Nobody needs to mind the bytes that were read. */
static void release(SimRun *r, Copy *c) {
  for (uint32_t i = 0; i < (uint32_t)(c->rows * c->inner) && !c->released; i++) {
    r->shadow[c->at + i].in_flight--;
    sim_unit_reads(r, c->at + i)[c->thread / 32] = r->time;
  }
  c->released = true;
}

static void tell_groups(void *arg, char *out, size_t size) { snprintf(out, size, "for copies to global memory"); }

static bool wait_for_groups(SimRun *r, const LaneOp *op, int t) {
  SimBulk *b = r->bulk;
  uint32_t committed = b->groups[t];
  Group g = {t, op->imm >= committed ? 0 : committed - (uint32_t)op->imm, op->read};
  if (!is_done(r, &g) && !sim_wait_until(r, op, is_done, tell_groups, &g)) return false;
  int kept = 0;
  for (int i = 0; i < b->copies.n; i++) {
    Copy *c = b->copies.at[i];
    bool mine = !c->bar && c->thread == t && c->group < g.before;
    if (mine) release(r, c);
    if (!mine || is_under_way(c)) b->copies.at[kept++] = c;
  }
  b->copies.n = kept;
  return true;
}

bool sim_bulk_group(SimRun *r, const SimOp *o, const SimMask *m) {
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t] || !sim_guarded(r, o, t)) continue;
    if (o->op->code == LANE_BULK_COMMIT) r->bulk->groups[t]++;
    else if (!wait_for_groups(r, o->op, t)) return false;
  }
  return true;
}

/* ---- the end of a block ------------------------------------------------------------------------------------------ */

bool sim_bulk_end(SimRun *r) {
  SimBulk *b = r->bulk;
  for (int i = 0; i < b->copies.n; i++) {
    const Copy *c = b->copies.at[i];
    if (c->bar || !c->released)
      return sim_fault(r, c->o->op, c->thread, "the program ends while a copy by a tensor map is under way%s",
                       c->bar ? "" : ": nobody has waited until it has read shared memory");
  }
  for (int i = 0; i < b->count; i++) {
    const Mbar *bar = &b->mbars[i];
    bool known = false;
    for (int w = 0; w < r->plan->warps; w++) known |= sim_seen(r, w)[i] >= bar->brings;
    if (!known)
      return sim_fault(r, NULL, -1, "the program ends, and nobody has waited for phase %u of the mbarrier at byte %u",
                       bar->brings - 1, bar->at);
  }
  while (sim_bulk_land(r)) continue;
  return !b->faulted;
}
