/* shared: where each shared buffer lies, and the barriers that sharing of memory needs.
 *
 * Lives. A buffer is live from its first access to its last, in program order. A loop that it is used in but does not
 * begin its life in anew each time round is part of its life as a whole:
 *
 *     store x                  x: from the store to the end of the loop
 *     for { load x             y: the two lines; its first access in the loop's body is a store on every path,
 *           store y  load y }     so nothing of it is needed in the next round
 *
 * Places. The largest first, each at the lowest offset that no live neighbour covers; nor, where that costs no
 * occupancy, a buffer that threads may still be at when this one is written, so that no barrier is needed there. That
 * may always take a little memory (budgets.free_shared); in loops, as much as leaves room for as many blocks as before:
 *
 *     for { store x  barrier  load x       x and y in one place: a barrier before each store, four in all
 *           store y  barrier  load y }     apart: who stores y has passed x's barrier, who stores x again y's: two
 *
 * Barriers. Whoever wrote the lowering has put a barrier between the writes of a buffer and their reads. What is left
 * is reuse: the first write over bytes that another warp may still be reading, or writing, for an earlier purpose:
 * another buffer's, or the same buffer's in the last round of a loop. The walk carries which buffers may have been read
 * and written since the last barrier on some path; a write over bytes of any of these gets a barrier before it. Loops
 * are walked until nothing changes, as what stands at the end of the body is also what stands at its beginning.
 * A copy by a tensor map goes by another proxy: before it writes, threads have met at a barrier after a fence that
 * stands after their own accesses. Barriers without a fence do not end these, so they are carried by themselves.
 *
 * Where an `if` parts the block's warps, barriers inside are of one part, and one of the block stands before it, where
 * anything is to be waited for. mbarriers, what tensor maps store and what the second part uses keep their places from
 * beginning to end.
 */
#include "gpu/gpu.h"

#include <limits.h>

typedef struct User {
  int first, last; /* positions of accesses; -1 when there are none */
  const LaneOp *first_op;
  const LaneBlock *home; /* the innermost block around all accesses */
  bool stays;            /* from beginning to end */
} User;

/* Sets of buffers since the last barrier on some path. */
/* warp_read: since the last barrier of any kind. unfenced: by threads, since the last barrier after a fence; after:
 * since the last fence. copying: by asynchronous copies, which may still be under way: they write where somebody waits
 * for them. */
typedef struct State {
  uint64_t *read, *written, *warp_read, *unfenced, *after, *copying;
} State;
enum { STATE_SETS = 6 };

typedef struct Shared {
  LaneFunc *f;
  Arena *arena;
  User *users;
  int n, words, position;
  const LaneOp *parted; /* the `if` that parts the warps here, or NULL */
  int part;             /* which of its bodies this is */
  uint64_t *overlaps;   /* n rows of `words`: buffers of common bytes */
  /* n rows of buffers with which this one can share bytes only by a barrier; and those whose barrier is in a loop */
  uint64_t *meets, *meets_in_loop;
  enum { ALONE, MEETINGS, PLACED } walks; /* what a walk does, in this order: see place_buffers */
  int loops;                              /* depth */
} Shared;

static bool is_store(const LaneOp *op) { return op->code == LANE_ST || op->code == LANE_STMATRIX; }

static bool is_loop(const LaneOp *op) { return op->code == LANE_FOR || op->code == LANE_WHILE; }

static bool is_access(const LaneOp *op) { return op->buffer >= 0 && op->code != LANE_SHARED; }

static bool only_reads(const LaneOp *op) {
  return lane_only_reads(op->code) || op->code == LANE_SHARED_READ || op->code == LANE_TENSOR_STORE ||
         op->code == LANE_TENSOR_RED;
}

/* The engine reads it while threads go on. */
static bool reads_later(const LaneOp *op) { return op->code == LANE_TENSOR_STORE || op->code == LANE_TENSOR_RED; }

static bool parts_warps(const LaneOp *op) { return op->code == LANE_IF && op->warps; }

/* ---- lives ------------------------------------------------------------------------------------------------------- */

static int depth_of(const LaneBlock *b) {
  int depth = 0;
  while (b->parent) b = b->parent->block, depth++;
  return depth;
}

static const LaneBlock *common_block(const LaneBlock *a, const LaneBlock *b) {
  int da = depth_of(a), db = depth_of(b);
  for (; da > db; da--) a = a->parent->block;
  for (; db > da; db--) b = b->parent->block;
  while (a != b) a = a->parent->block, b = b->parent->block;
  return a;
}

/* Where a loop begins and ends, kept in its note while lives are found. */
typedef struct LoopRange {
  int first, last;
} LoopRange;

static void number_block(Shared *s, const LaneBlock *block) {
  stack_guard();
  for (LaneOp *op = block->first; op; op = op->next) {
    int at = s->position++;
    if (is_access(op)) {
      User *u = &s->users[op->buffer];
      if (u->first < 0) {
        u->first = at;
        u->first_op = op;
        u->home = block;
      }
      u->last = at;
      u->home = common_block(u->home, block);
      u->stays |= lane_is_mbar(op->code) || reads_later(op) || (s->parted && s->part);
    }
    if (!op->body[0]) continue;
    LoopRange *range = is_loop(op) ? NEW(s->arena, LoopRange) : NULL;
    bool parts = parts_warps(op);
    for (int i = 0; i < 2 && op->body[i]; i++) {
      if (parts) s->parted = op, s->part = i;
      number_block(s, op->body[i]);
    }
    if (parts) s->parted = NULL;
    if (!range) continue;
    *range = (LoopRange){at, s->position++};
    op->note = range;
  }
}

static void cover(User *u, const LaneOp *loop) {
  const LoopRange *r = loop->note;
  if (r->first < u->first) u->first = r->first;
  if (r->last > u->last) u->last = r->last;
}

/* Loops inside the home that hold some of the accesses but not all. */
static void cover_inner_loops(Shared *s, const LaneBlock *block) {
  stack_guard();
  for (const LaneOp *op = block->first; op; op = op->next) {
    if (is_access(op)) {
      User *u = &s->users[op->buffer];
      for (const LaneBlock *b = block; b != u->home; b = b->parent->block)
        if (is_loop(b->parent)) cover(u, b->parent);
    }
    for (int i = 0; i < 2 && op->body[i]; i++) cover_inner_loops(s, op->body[i]);
  }
}

static void find_lives(Shared *s) {
  s->users = NEW_N(s->arena, User, s->n);
  for (int i = 0; i < s->n; i++) s->users[i].first = s->users[i].last = -1;
  number_block(s, s->f->body);
  cover_inner_loops(s, s->f->body);
  for (int i = 0; i < s->n; i++) {
    User *u = &s->users[i];
    if (u->first < 0 || ((is_store(u->first_op) || s->f->buffers.at[i].ring) && u->first_op->block == u->home))
      continue;
    for (const LaneBlock *b = u->home; b->parent; b = b->parent->block) /* what an earlier round left may be read */
      if (is_loop(b->parent)) cover(u, b->parent);
  }
  for (int i = 0; i < s->n; i++)
    if (s->users[i].stays) s->users[i].first = 0, s->users[i].last = s->position;
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static bool has(const uint64_t *set, int i) { return set[i / 64] >> (i % 64) & 1; }
static void add(uint64_t *set, int i) { set[i / 64] |= 1ull << (i % 64); }

static State state_make(Shared *s) {
  uint64_t *bits = NEW_N(s->arena, uint64_t, STATE_SETS * s->words);
  return (State){
      bits, bits + s->words, bits + 2 * s->words, bits + 3 * s->words, bits + 4 * s->words, bits + 5 * s->words};
}

/* All threads have met. */
static void state_clear(const Shared *s, State *x) {
  size_t bytes = sizeof(uint64_t) * (size_t)s->words;
  memset(x->read, 0, 3 * bytes);
  memcpy(x->unfenced, x->after, bytes);
}

static void state_fence(const Shared *s, State *x) { memset(x->after, 0, sizeof(uint64_t) * (size_t)s->words); }

static State state_copy(Shared *s, const State *x) {
  State y = state_make(s);
  memcpy(y.read, x->read, sizeof(uint64_t) * STATE_SETS * (size_t)s->words);
  return y;
}

/* A thread has waited for its copies but the last few groups: others know of them after the next barrier. */
static void state_copied(const Shared *s, State *x, bool all) {
  for (int i = 0; i < s->words; i++) x->written[i] |= x->copying[i];
  if (all) memset(x->copying, 0, sizeof(uint64_t) * (size_t)s->words);
}

/* x becomes the union; whether that changed it. */
static bool state_join(const Shared *s, State *x, const State *y) {
  bool changed = false;
  for (int i = 0; i < STATE_SETS * s->words; i++) {
    changed |= (y->read[i] & ~x->read[i]) != 0;
    x->read[i] |= y->read[i];
  }
  return changed;
}

static void find_overlaps(Shared *s) {
  memset(s->overlaps, 0, sizeof(uint64_t) * (size_t)(s->n * s->words));
  for (int i = 0; i < s->n; i++)
    for (int j = 0; j < i; j++) {
      const LaneBuffer *a = &s->f->buffers.at[i], *b = &s->f->buffers.at[j];
      if (s->users[i].first < 0 || s->users[j].first < 0) continue;
      if (a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset) continue;
      add(s->overlaps + (size_t)i * s->words, j);
      add(s->overlaps + (size_t)j * s->words, i);
    }
}

static LaneOp *insert(Shared *s, LaneOp *before, LaneCode code) {
  LaneOp *op = NEW(s->arena, LaneOp);
  *op = (LaneOp){.code = code, .kind = LK_NONE, .buffer = -1, .span = before->span};
  lane_insert_before(op, before);
  return op;
}

static void insert_barrier(Shared *s, LaneOp *before, bool warp) {
  if (s->walks == MEETINGS) return;
  LaneOp *op = insert(s, before, LANE_BARRIER);
  int warps = !s->parted ? 0 : s->part ? s->f->num_warps - s->parted->warps : s->parted->warps;
  op->warp = warp || warps == 1;
  if (op->warp || !warps) return;
  op->warps = (uint8_t)warps;
  op->imm = s->part + 1;
}

/* Buffer b is written: it meets those of set i of words. */
static void note_meetings(Shared *s, int b, int word, uint64_t set) {
  for (; set; set &= set - 1) {
    int other = word * 64 + __builtin_ctzll(set);
    if (other == b) continue;
    for (int in_loop = 0; in_loop <= (s->loops > 0); in_loop++) {
      uint64_t *rows = in_loop ? s->meets_in_loop : s->meets;
      add(rows + (size_t)b * s->words, other);
      add(rows + (size_t)other * s->words, b);
    }
  }
}

/* A write of buffer b by `write`, which is `op` or somewhere inside it. */
static void before_write(Shared *s, LaneOp *op, const LaneOp *write, State *x) {
  int b = write->buffer;
  bool own = s->f->buffers.at[b].warp_local, hazard = has(x->read, b) && !own && !s->f->buffers.at[b].ring,
       by_map = write->code == LANE_TENSOR_LOAD;
  for (int i = 0; i < s->words; i++) {
    uint64_t since = x->read[i] | x->written[i] | (by_map ? x->unfenced[i] : 0);
    if (s->walks == MEETINGS) note_meetings(s, b, i, since);
    hazard |= (since & s->overlaps[(size_t)b * s->words + i]) != 0;
  }
  if (hazard) {
    if (by_map) {
      insert(s, op, LANE_FENCE_PROXY);
      state_fence(s, x);
    }
    insert_barrier(s, op, false);
    state_clear(s, x);
  } else if (own && has(x->warp_read, b) && s->walks == PLACED) {
    insert_barrier(s, op, true);
    memset(x->warp_read, 0, sizeof(uint64_t) * (size_t)s->words);
  }
}

static void after_access(const LaneOp *op, State *x) {
  if (only_reads(op)) {
    add(x->read, op->buffer);
    add(x->warp_read, op->buffer);
  } else {
    add(x->written, op->buffer);
  }
  if (op->code == LANE_CP_ASYNC) add(x->copying, op->buffer);
  if (op->code == LANE_SHARED_READ || lane_is_tensor(op->code)) return; /* asynchronous: by the same proxy */
  add(x->unfenced, op->buffer);
  add(x->after, op->buffer);
}

static bool has_barrier(const LaneOp *op) {
  stack_guard();
  for (int i = 0; i < 2 && op->body[i]; i++)
    for (const LaneOp *o = op->body[i]->first; o; o = o->next)
      if ((o->code == LANE_BARRIER && !o->warp) || has_barrier(o)) return true;
  return false;
}

/* Where threads go their own ways there can be no barrier: what happens inside happens at `at`. */
static void walk_divergent(Shared *s, LaneOp *at, const LaneOp *op, State *x, bool writes) {
  stack_guard();
  for (int i = 0; i < 2 && op->body[i]; i++)
    for (const LaneOp *o = op->body[i]->first; o; o = o->next) {
      if (is_access(o) && !lane_is_mbar(o->code)) {
        if (!writes) after_access(o, x);
        else if (!only_reads(o)) before_write(s, at, o, x);
      }
      walk_divergent(s, at, o, x, writes);
    }
}

static void walk(Shared *s, LaneBlock *block, State *x);

static void walk_loop(Shared *s, LaneOp *op, State *x) {
  State begin = state_copy(s, x), end;
  s->loops++;
  do {
    end = state_copy(s, &begin);
    walk(s, op->body[0], &end);
    *x = state_copy(s, &end); /* of a while: it is left at the end of body 0 */
    if (op->code == LANE_WHILE) walk(s, op->body[1], &end);
  } while (state_join(s, &begin, &end));
  s->loops--;
  if (op->code == LANE_FOR) state_join(s, x, &begin);
}

static bool is_empty(const Shared *s, const State *x) {
  for (int i = 0; i < 2 * s->words; i++)
    if (x->read[i]) return false;
  return true;
}

static void walk_parts(Shared *s, LaneOp *op, State *x) {
  if (!is_empty(s, x)) insert_barrier(s, op, false);
  state_clear(s, x);
  State other = state_copy(s, x);
  s->parted = op;
  for (int i = 0; i < 2 && op->body[i]; i++) {
    s->part = i;
    walk(s, op->body[i], i ? &other : x);
  }
  s->parted = NULL;
  state_join(s, x, &other);
}

static void walk(Shared *s, LaneBlock *block, State *x) {
  stack_guard();
  for (LaneOp *op = block->first; op; op = op->next) {
    if (op->code == LANE_BARRIER) {
      if (op->warp) memset(x->warp_read, 0, sizeof(uint64_t) * (size_t)s->words);
      else state_clear(s, x);
    } else if (op->code == LANE_FENCE_PROXY) {
      state_fence(s, x);
    } else if (op->code == LANE_CP_WAIT) {
      state_copied(s, x, !op->imm);
    } else if (lane_is_mbar(op->code)) {
      continue; /* they order themselves */
    } else if (is_access(op)) {
      if (!only_reads(op)) before_write(s, op, op, x);
      after_access(op, x);
    } else if (parts_warps(op)) {
      walk_parts(s, op, x);
    } else if (op->body[0] && !op->uniform && !has_barrier(op)) {
      walk_divergent(s, op, op, x, true);
      walk_divergent(s, op, op, x, false);
    } else if (is_loop(op)) {
      walk_loop(s, op, x);
    } else if (op->body[0]) {
      State other = state_copy(s, x);
      walk(s, op->body[0], x);
      if (op->body[1]) walk(s, op->body[1], &other);
      state_join(s, x, &other);
    }
  }
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* The lowest offset for buffer b beside those of placed[], which is in the order of offsets; only those alive with it
 * count, and those in `besides`. */
static int lowest_offset(const Shared *s, int b, const int *placed, int count, const uint64_t *besides) {
  const LaneBuffer *buffer = &s->f->buffers.at[b];
  const User *u = &s->users[b];
  int at = 0;
  for (int i = 0; i < count; i++) {
    const LaneBuffer *other = &s->f->buffers.at[placed[i]];
    const User *v = &s->users[placed[i]];
    if ((v->last < u->first || u->last < v->first) && !(besides && has(besides, placed[i]))) continue;
    if (other->offset + other->bytes <= at || at + buffer->bytes <= other->offset) continue;
    at = (int)align_up(other->offset + other->bytes, buffer->align);
  }
  return at;
}

/* The used ones, the largest first. */
static int by_size(const Shared *s, int *order) {
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    if (s->users[i].first < 0) {
      s->f->buffers.at[i].offset = 0; /* nobody uses it */
      continue;
    }
    int j = n++;
    for (; j > 0 && s->f->buffers.at[order[j - 1]].bytes < s->f->buffers.at[i].bytes; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  return n;
}

/* Apart from those with which a barrier would be needed, as long as all end before `little`; in loops, before `most`.
 */
static void place_within(Shared *s, int little, int most) {
  int *order = NEW_N(s->arena, int, s->n), *placed = NEW_N(s->arena, int, s->n), n = by_size(s, order), total = 0;
  for (int i = 0; i < n; i++) {
    int b = order[i];
    LaneBuffer *buffer = &s->f->buffers.at[b];
    const uint64_t *apart[] = {s->meets + (size_t)b * s->words, s->meets_in_loop + (size_t)b * s->words, NULL};
    const int limits[] = {little, most, INT_MAX};
    for (int k = 0; k < 3; k++) {
      buffer->offset = lowest_offset(s, b, placed, i, apart[k]);
      if (buffer->offset + buffer->bytes <= (limits[k] > total ? limits[k] : total)) break;
    }
    if (buffer->offset + buffer->bytes > total) total = buffer->offset + buffer->bytes;
    int j = i;
    for (; j > 0 && s->f->buffers.at[placed[j - 1]].offset > buffer->offset; j--) placed[j] = placed[j - 1];
    placed[j] = b;
  }
  s->f->shared_bytes = (int)align_up(total, 16);
}

static bool meets_in_loops(const Shared *s) {
  for (int i = 0; i < s->n * s->words; i++)
    if (s->meets_in_loop[i] & s->overlaps[i]) return true;
  return false;
}

/* What a block may take, so that as many are resident as with `bytes`. The registers are those that the assembler may
 * be asked to do with. */
static int most_for_as_many(const LaneFunc *f, const GpuTarget *t, int bytes) {
  int registers = lane_pressure(f) * (16 - t->budgets->given_up) / 16;
  int blocks = gpu_occupancy(t, registers, bytes, f->num_warps).blocks;
  if (blocks < 1) return bytes;
  int most = t->machine.shared_bytes / blocks / GPU_SHARED_UNIT * GPU_SHARED_UNIT - GPU_SHARED_RESERVED;
  return most < t->shared_bytes ? most : t->shared_bytes;
}

static void walk_for(Shared *s, int what) {
  State x = state_make(s);
  s->walks = what;
  walk(s, s->f->body, &x);
}

/* A buffer may want a barrier before its writes wherever it lies: those are put first, since they serve others, too.
 * Then it is noted which others would take one. */
static void place_buffers(Shared *s, const GpuTarget *t) {
  int little = t->budgets->free_shared * 32 * s->f->num_warps;
  if (little > t->shared_bytes) little = t->shared_bytes;
  s->overlaps = NEW_N(s->arena, uint64_t, s->n * s->words);
  s->meets = NEW_N(s->arena, uint64_t, s->n * s->words);
  s->meets_in_loop = NEW_N(s->arena, uint64_t, s->n * s->words);
  walk_for(s, ALONE);
  walk_for(s, MEETINGS);
  place_within(s, little, 0);
  find_overlaps(s);
  if (!meets_in_loops(s)) return;
  int most = most_for_as_many(s->f, t, s->f->shared_bytes);
  place_within(s, little, most);
  if (s->f->shared_bytes > most) place_within(s, little, 0); /* the order of sizes left gaps */
  find_overlaps(s);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* One warp alone has no others to wait for. */
static void weaken(LaneOp *op, void *arg) {
  if (op->code == LANE_BARRIER) op->warp = 1;
}

static void check_size(const Shared *s, const GpuTarget *t) {
  if (s->f->shared_bytes <= t->shared_bytes) return;
  int most[3] = {-1, -1, -1};
  for (int i = 0; i < s->n; i++) {
    if (s->users[i].first < 0) continue;
    int b = i;
    for (int k = 0; k < 3; k++)
      if (most[k] < 0 || s->f->buffers.at[b].bytes > s->f->buffers.at[most[k]].bytes) {
        int swap = most[k];
        most[k] = b;
        if (swap < 0) break;
        b = swap;
      }
  }
  char text[256] = "";
  size_t n = 0;
  for (int k = 0; k < 3 && most[k] >= 0 && n < sizeof text - 64; k++) {
    const LaneBuffer *b = &s->f->buffers.at[most[k]];
    const Span *span = s->users[most[k]].first_op->span;
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%d for `%.24s`", k ? ", " : "", b->bytes,
                          b->name ? b->name : "a buffer");
    if (span && span->source && n < sizeof text - 32)
      n += (size_t)snprintf(text + n, sizeof text - n, " in line %d", span->line);
  }
  const Span *span = s->users[most[0]].first_op->span;
  diag_fail_hint(diag_need(s->f->cx, "shared memory", s->f->shared_bytes, t->shared_bytes), span ? *span : (Span){0},
                 "use smaller blocks, or a smaller num_stages",
                 "the kernel needs %d bytes of shared memory in a block, but %s has %d: %s", s->f->shared_bytes,
                 t->name, t->shared_bytes, text);
}

void gpu_allocate_shared(LaneFunc *f, const GpuOptions *o) {
  Shared s = {.f = f, .arena = f->cx->arena, .n = f->buffers.n, .words = (f->buffers.n + 63) / 64};
  f->shared_bytes = 0;
  if (s.n) {
    find_lives(&s);
    place_buffers(&s, o->target);
    check_size(&s, o->target);
    walk_for(&s, PLACED);
  }
  if (f->num_warps == 1) lane_walk(f->body, weaken, NULL);
}
