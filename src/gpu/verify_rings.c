/* Checks the order of what a function does with its rings: whoever reads a slot has waited for its tile, and whoever
 * fills one has waited until its last tile is read.
 *
 *     ring_full %r, %slot, %parity      a wait for the tile: without it, or with another slot or parity,
 *     %a = ring_read %r, %slot          this read is an error,
 *     %d = dot %a, ... {async=1}
 *     ring_free %r, %slot               and this one too: the dot still reads, a dot_wait is missing
 *
 * Slots and parities are numbers that walk through loops, so text alone does not say which tile is where. The function
 * is run instead, as far as its scalars go: with a few sets of numbers for what is not known (arguments, programs, what
 * is loaded), so that loops run never, once, and more often than rings have slots. What it does with rings becomes a
 * list of events; of a specialized function (gpu/specialize.c) one list for each half. Then the lists are replayed,
 * the halves in turn, each as far as its waits let it. Copies arrive at once: what is checked is that somebody waits.
 *
 *     of each slot           tiles copied to it, waited for, and handed back (ring_free)
 *     ring_full, ring_empty  pass as an mbarrier does, by the parity of tiles copied, or handed back
 *     ring_wait              by groups; and all threads meet: reads before it are over, in all of them
 *     dot_wait, tmem_wait    reads of dots in flight are over
 *
 * A wait that never passes is an error, too. A wrong function may go unseen, if no set of numbers leads there; a right
 * one is never refused, since each set is a launch that could be.
 */
#include "gpu/tmem.h"

enum {
  TRIALS = 8,
  MOST_STEPS = 12000, /* operations of a trial */
  NO_TILE = -1
};

/* ---- events ------------------------------------------------------------------------------------------------------ */

typedef struct Event {
  const Op *op;
  int slot;   /* among those of all rings; or a barrier's number among those of all tensor memory */
  int parity; /* of a wait */
  int tile;   /* a ring_read's number; of another operation, that of the one it takes */
} Event;

typedef struct Trace {
  VEC(Event) events;
  bool is_cut; /* there would be more of them */
} Trace;

typedef struct RingInfo {
  const Op *op;
  int first;       /* of its slots among all */
  bool hands_back; /* warps of their own fill it (ring_free, ring_empty) */
  bool has_maps;   /* tensor maps bring its tiles */
} RingInfo;

typedef struct Rings {
  Func *f;
  const char *after;
  VEC(RingInfo) rings;
  VEC(const Op *) tmems; /* each has TMEM_BARS barriers */
  int slots;
} Rings;

static NORETURN PRINTF_LIKE(3, 4) void bad(const Rings *r, const Op *op, const char *format, ...) {
  char what[200];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof what, format, ap);
  va_end(ap);
  tile_wrong(r->f, r->after, op, what);
}

/* ---- the function, run ------------------------------------------------------------------------------------------- */

typedef struct Walk {
  const Rings *rings;
  Trace *to, *halves; /* halves: of a specialized function */
  int64_t *number;    /* of each scalar, by value id */
  int *tile;          /* of each tensor, by value id: the number of the ring_read that it is */
  int tiles, steps, trial;
  uint64_t random;
  int64_t program[3], grid[3];
} Walk;

static int below(Walk *w, int n) { return (int)(hash_number(w->random += 0x9E3779B97F4A7C15u) % (uint64_t)n); }

/* A size, a bound, an index. */
static int64_t some_number(uint64_t random, int64_t divisible) {
  static const int64_t numbers[] = {0, 1, 2, 3, 5, 16, 33, 64, 100, 128, 160, 256, 320};
  int64_t n = numbers[random % (sizeof numbers / sizeof *numbers)];
  return (n + divisible - 1) / divisible * divisible;
}

static int64_t int_of(const Type *t, int64_t v) {
  return t->ptr || dtype_is_float(t->dtype) ? v : int_wrap(t->dtype, v);
}

static int64_t get(const Walk *w, const Value *v) { return w->number[v->id]; }
static void set(Walk *w, const Value *v, int64_t n) { w->number[v->id] = int_of(v->type, n); }

static void set_arguments(Walk *w) {
  static const int64_t all[] = {0, 1, 64, 160, 320}; /* the first trials: all alike */
  const Func *f = w->rings->f;
  for (int i = 0; i < f->body->arg_count; i++) {
    const Value *v = f->body->args[i];
    bool is_grid = f->persistent && i >= f->body->arg_count - 3;
    int64_t divisible = v->type->ptr ? 1 : f->arg_divisible[i], n = some_number((uint64_t)below(w, 1 << 20), divisible);
    if (w->trial < (int)(sizeof all / sizeof *all)) n = (all[w->trial] + divisible - 1) / divisible * divisible;
    set(w, v, v->type->ptr ? (int64_t)(i + 1) << 40 : is_grid ? 1 + below(w, 3) : n);
  }
  for (int i = 0; i < 3; i++) w->grid[i] = 1 + below(w, 4), w->program[i] = below(w, (int)w->grid[i]);
}

/* A scalar that is not computed here: a number that could be there; the same of the same operands. */
static int64_t drawn(Walk *w, const Op *op) {
  uint64_t of = (uint64_t)(op->code * TRIALS + w->trial);
  for (int i = 0; i < op->in_count; i++) {
    if (op->in[i]->type->rank) return some_number((uint64_t)below(w, 1 << 20), 1);
    of = hash_number(of + (uint64_t)get(w, op->in[i]));
  }
  return some_number(of, 1);
}

static bool is_int(const Type *t) { return !t->ptr && dtype_is_int(t->dtype); }

static int64_t computed(Walk *w, const Op *op) {
  const Type *t = op->out[0]->type, *from = op->in_count ? op->in[0]->type : t;
  int64_t x = op->in_count && !from->rank ? get(w, op->in[0]) : 0,
          y = op->in_count > 1 && !op->in[1]->type->rank ? get(w, op->in[1]) : 0;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->type->rank) return drawn(w, op);
  switch (op->code) {
    case OP_CONST: return is_int(t) ? op->value : 0;
    case OP_PROGRAM_ID: return w->program[op->axis];
    case OP_NUM_PROGRAMS: return w->grid[op->axis];
    case OP_ADDPTR: return x + y * type_elem_bytes(type_pointee(w->rings->f->cx, t));
    case OP_SELECT: return x ? y : get(w, op->in[2]);
    case OP_HINT: return x;
    case OP_CMP:
      return is_int(from) ? scalar_cmp((CmpPred)op->pred, from->dtype, (Scalar){.i = x}, (Scalar){.i = y})
                          : drawn(w, op);
    case OP_CONVERT: return is_int(t) && is_int(from) ? x : drawn(w, op);
    default: break;
  }
  if (!op_is_elementwise(op) || !is_int(t) || !is_int(from) || op->code == OP_MATH || op->in_count > 2)
    return drawn(w, op);
  if (op->in_count == 1) return scalar_unary(op->code, t->dtype, (Scalar){.i = x}).i;
  return scalar_binary(op->code, t->dtype, (Scalar){.i = x}, (Scalar){.i = y}, op->variant).i;
}

static const RingInfo *ring_of(const Rings *r, const Value *v) {
  for (int i = 0; i < r->rings.n; i++)
    if (r->rings.at[i].op == v->def) return &r->rings.at[i];
  return NULL;
}

static int slot_at(Walk *w, const Op *op, int at) {
  const RingInfo *r = ring_of(w->rings, op->in[at]);
  int64_t slot = get(w, op->in[at + 1]);
  if (slot < 0 || slot >= r->op->slots)
    bad(w->rings, op, "slot %lld of a ring that has %lld", (long long)slot, (long long)r->op->slots);
  return r->first + (int)slot;
}

static int bar_at(Walk *w, const Op *op) {
  int64_t bar = get(w, op->in[1]);
  if (bar < 0 || bar >= TMEM_BARS) bad(w->rings, op, "barrier %lld of %d", (long long)bar, TMEM_BARS);
  for (int i = 0; i < w->rings->tmems.n; i++)
    if (w->rings->tmems.at[i] == op->in[0]->def) return i * TMEM_BARS + (int)bar;
  bad(w->rings, op, "operand 0 is no tensor memory");
}

static void note(Walk *w, const Op *op, int slot, int64_t parity, int tile) {
  vec_push(w->rings->f->cx->arena, &w->to->events, ((Event){op, slot, (int)parity & 1, tile}));
}

static void note_drain(Walk *w, const Op *op) {
  const RingInfo *r = ring_of(w->rings, op->in[0]);
  int64_t slot = get(w, op->in[1]), parity = get(w, op->in[2]), end = get(w, op->in[3]), end_parity = get(w, op->in[4]);
  for (int i = 0; i < 2 * r->op->slots && (slot != end || parity != end_parity); i++) {
    note(w, op, r->first + (int)slot, parity, NO_TILE);
    if (++slot == r->op->slots) slot = 0, parity ^= 1;
  }
}

/* Tiles go through what only names their dims; other operations read them. */
static void walk_tile(Walk *w, const Op *op) {
  for (int i = 0; i < op->out_count; i++) w->tile[op->out[i]->id] = NO_TILE;
  for (int i = 0; i < op->in_count; i++) {
    int tile = op->in[i]->type->rank ? w->tile[op->in[i]->id] : NO_TILE;
    if (tile == NO_TILE) continue;
    if (op_is_view(op) || op->code == OP_CONVERT_LAYOUT) w->tile[op->out[0]->id] = tile;
    else note(w, op, 0, 0, tile);
  }
}

static void walk_ring(Walk *w, const Op *op) {
  switch (op->code) {
    case OP_RING_COPY:
    case OP_RING_TENSOR: note(w, op, slot_at(w, op, 1), 0, NO_TILE); break;
    case OP_RING_FULL:
    case OP_RING_EMPTY: note(w, op, slot_at(w, op, 0), get(w, op->in[2]), NO_TILE); break;
    case OP_RING_FREE: note(w, op, slot_at(w, op, 0), 0, NO_TILE); break;
    case OP_RING_DRAIN: note_drain(w, op); break;
    case OP_RING_READ:
    case OP_RING_LOAD:
      w->tile[op->out[0]->id] = op->code == OP_RING_READ ? w->tiles : NO_TILE;
      note(w, op, slot_at(w, op, 0), 0, w->tiles++);
      break;
    case OP_TMEM_COMMIT: note(w, op, bar_at(w, op), 0, NO_TILE); break;
    case OP_TMEM_WAIT: note(w, op, bar_at(w, op), get(w, op->in[2]), NO_TILE); break;
    case OP_RING_COMMIT:
    case OP_RING_WAIT:
    case OP_BARRIER:
    case OP_TMEM_STORE:
    case OP_TMEM_LOAD:
    case OP_TMEM_DOT:
    case OP_DOT:
    case OP_DOT_WAIT: note(w, op, 0, 0, NO_TILE); break;
    default: break;
  }
}

/* Values go over to others, all at once: a loop may exchange them. */
static void hand_on(Walk *w, Value *const *to, int n, Value *const *from) {
  int64_t numbers[n + 1];
  int tiles[n + 1];
  for (int i = 0; i < n; i++) numbers[i] = get(w, from[i]), tiles[i] = w->tile[from[i]->id];
  for (int i = 0; i < n; i++) w->number[to[i]->id] = numbers[i], w->tile[to[i]->id] = tiles[i];
}

static bool walk_block(Walk *w, const Block *b);

static bool walk_for(Walk *w, const Op *op) {
  const Block *b = op->body[0];
  int n = op->out_count;
  int64_t i = get(w, op->in[0]), end = get(w, op->in[1]), step = get(w, op->in[2]);
  hand_on(w, b->args + 1, n, op->in + 3);
  for (; step && (step > 0 ? i < end : i > end); i += step) {
    set(w, b->args[0], i);
    if (!walk_block(w, b)) return false;
    hand_on(w, b->args + 1, n, b->last->in);
  }
  hand_on(w, op->out, n, b->args + 1);
  return true;
}

static bool walk_while(Walk *w, const Op *op) {
  const Block *head = op->body[0], *b = op->body[1];
  int n = op->out_count;
  hand_on(w, head->args, n, op->in);
  for (;;) {
    if (!walk_block(w, head)) return false;
    hand_on(w, op->out, n, head->last->in + 1);
    if (!get(w, head->last->in[0])) return true;
    hand_on(w, b->args, n, head->last->in + 1);
    if (!walk_block(w, b)) return false;
    hand_on(w, head->args, n, b->last->in);
  }
}

static bool walk_if(Walk *w, const Op *op) {
  const Op *of = op->in[0]->def;
  if (of && of->code == OP_COMPUTES) {
    for (int i = 0; i < 2; i++) {
      w->to = &w->halves[i];
      w->steps = 0;
      if (op->body[i]) walk_block(w, op->body[i]);
    }
    return false; /* nothing comes after it */
  }
  const Block *b = op->body[!get(w, op->in[0])];
  if (!walk_block(w, b)) return false;
  hand_on(w, op->out, op->out_count, b->last->in);
  return true;
}

static bool walk_op(Walk *w, const Op *op) {
  if (++w->steps > MOST_STEPS) {
    w->to->is_cut = true;
    return false;
  }
  if (op->code == OP_FOR) return walk_for(w, op);
  if (op->code == OP_WHILE) return walk_while(w, op);
  if (op->code == OP_IF) return walk_if(w, op);
  walk_tile(w, op);
  walk_ring(w, op);
  for (int i = 0; i < op->out_count; i++)
    if (!op->out[i]->type->rank) set(w, op->out[i], i ? drawn(w, op) : computed(w, op));
  return true;
}

/* False: the walk ends here. */
static bool walk_block(Walk *w, const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op && op_info[op->code].effect != EFFECT_TERMINATOR; op = op->next)
    if (!walk_op(w, op)) return false;
  return true;
}

/* ---- the events, replayed ---------------------------------------------------------------------------------------- */

typedef struct Slot {
  const RingInfo *ring;
  int copied, waited, handed_back; /* tiles */
  int group;                       /* of the last one's copies */
  int reading;                     /* dots in flight that read it */
  int last_read;                   /* or wait for it: so many times all threads had met then; -1: never */
  bool is_empty;                   /* somebody has waited for that, since the last copy */
} Slot;

typedef struct Read { /* a ring_read, which stands for a tile: the next one that is handed back, or the last copied */
  const Op *op;
  int slot, tile;
} Read;

typedef struct Flight { /* of an asynchronous dot */
  int slots[2], count;
  const Op *tmem; /* that it adds to; NULL: to registers */
  int number;     /* then, among those that do */
} Flight;

typedef struct Bar { /* of tensor memory: commits that have come to it, and the products before the last one */
  int commits, products;
} Bar;

typedef struct Replay {
  const Rings *rings;
  Slot *slots;
  Read *reads;
  VEC(Flight) flights;
  int taken[2], taken_count; /* slots that the next dot reads */
  int group, groups_done, meetings, tmem_dots;
  Bar *bars;
} Replay;

static int index_of(const Replay *p, const Slot *s) { return (int)(s - p->slots) - s->ring->first; }

/* `read`, a ring_read or ring_load, takes the tile where `op` stands. */
static void check_there(const Replay *p, const Op *read, const Op *op, const Slot *s) {
  const RingInfo *r = s->ring;
  const char *wrong = NULL;
  if (r->hands_back && s->waited <= s->handed_back) wrong = "nobody has waited for the tile in";
  else if (!s->copied) wrong = "no tile was copied to";
  else if (!r->hands_back && r->has_maps && s->waited < s->copied) wrong = "nobody has waited for the tile in";
  else if (!r->has_maps && s->group > p->groups_done) wrong = "nobody has waited for the copies to";
  if (wrong) bad(p->rings, read, "%s slot %d, where '%s' takes it", wrong, index_of(p, s), op_info[op->code].name);
}

static int tile_of(const Slot *s) { return s->ring->hands_back ? s->handed_back + 1 : s->copied; }

static void end_read(Replay *p, int slot) { p->slots[slot].last_read = p->meetings; }

static void name_tile(Replay *p, const Event *e) {
  Slot *s = &p->slots[e->slot];
  p->reads[e->tile] = (Read){e->op, e->slot, tile_of(s)};
  if (e->op->code != OP_RING_LOAD) return;
  check_there(p, e->op, e->op, s);
  end_read(p, e->slot);
}

/* What a ring_read has named is read. */
static void read_tile(Replay *p, const Event *e) {
  Read *r = &p->reads[e->tile];
  Slot *s = &p->slots[r->slot];
  if (tile_of(s) != r->tile)
    bad(p->rings, r->op, "slot %d has another tile, or was handed back, where '%s' takes it", index_of(p, s),
        op_info[e->op->code].name);
  check_there(p, r->op, e->op, s);
  bool dot = e->op->code == OP_DOT || e->op->code == OP_TMEM_DOT;
  if (dot && p->taken_count < 2) p->taken[p->taken_count++] = r->slot;
  else end_read(p, r->slot);
}

static void do_dot(Replay *p, const Op *op) {
  Flight f = {{p->taken[0], p->taken[1]}, p->taken_count, op->code == OP_TMEM_DOT ? op->in[2]->def : NULL, 0};
  if (f.tmem) f.number = ++p->tmem_dots;
  p->taken_count = 0;
  bool goes_on = f.tmem || op->async;
  for (int i = 0; i < f.count; i++)
    if (goes_on) p->slots[f.slots[i]].reading++;
    else end_read(p, f.slots[i]);
  if (goes_on) vec_push(p->rings->f->cx->arena, &p->flights, f);
}

/* Ends the flights of one kind, but for the last `pending`, as far as those numbered `most`. */
static void land(Replay *p, bool in_tmem, int64_t pending, int most) {
  int n = 0, all = 0, seen = 0;
  for (int i = 0; i < p->flights.n; i++) all += !p->flights.at[i].tmem == !in_tmem;
  for (int i = 0; i < p->flights.n; i++) {
    Flight f = p->flights.at[i];
    if (!f.tmem == in_tmem || seen++ >= all - pending || f.number > most) {
      p->flights.at[n++] = f;
      continue;
    }
    for (int k = 0; k < f.count; k++) {
      p->slots[f.slots[k]].reading--;
      if (!in_tmem) end_read(p, f.slots[k]); /* each thread waits for its own products; a commit is of all */
    }
  }
  p->flights.n = n;
}

static void copy_to(Replay *p, const Event *e) {
  Slot *s = &p->slots[e->slot];
  int i = index_of(p, s);
  if (s->reading) bad(p->rings, e->op, "a dot in flight reads slot %d", i);
  if (s->ring->hands_back && !s->is_empty) bad(p->rings, e->op, "nobody has waited for slot %d to be empty", i);
  if (!s->ring->hands_back && !s->ring->op->own && s->last_read == p->meetings)
    bad(p->rings, e->op, "other threads may still read slot %d, or wait for its tile: they have not met since", i);
  if (!s->ring->hands_back && s->copied && (s->ring->has_maps ? s->waited < s->copied : s->group > p->groups_done))
    bad(p->rings, e->op, "nobody has waited for the tile before in slot %d", i);
  s->copied++;
  s->group = p->group + 1;
  s->is_empty = false;
}

/* As an mbarrier's wait: it has come to so many phases. */
static bool passes(int phases, int parity) { return (phases & 1) != parity; }

static bool wait_full(Replay *p, const Event *e) {
  Slot *s = &p->slots[e->slot];
  if (!passes(s->copied, e->parity)) return false;
  if (s->waited + 1 < s->copied) bad(p->rings, e->op, "a tile of slot %d was not waited for", index_of(p, s));
  if (s->ring->hands_back && s->handed_back == s->copied)
    bad(p->rings, e->op, "passes by an earlier tile's parity: slot %d is empty", index_of(p, s));
  s->waited = s->copied;
  end_read(p, e->slot); /* who still waits when two more phases are over waits for ever */
  return true;
}

static bool wait_empty(Replay *p, const Event *e) {
  Slot *s = &p->slots[e->slot];
  if (!passes(s->handed_back, e->parity)) return false;
  if (s->handed_back < s->copied)
    bad(p->rings, e->op, "passes by an earlier tile's parity: slot %d is not empty", index_of(p, s));
  return s->is_empty = true;
}

static void hand_back(Replay *p, const Event *e) {
  Slot *s = &p->slots[e->slot];
  int i = index_of(p, s);
  if (s->waited <= s->handed_back) bad(p->rings, e->op, "nobody has waited for a tile in slot %d", i);
  if (s->reading) bad(p->rings, e->op, "a dot in flight reads slot %d", i);
  s->handed_back++;
}

/* Sums are nobody's while products add to them. */
static void touch_sums(Replay *p, const Op *op) {
  for (int i = 0; i < p->flights.n; i++)
    if (p->flights.at[i].tmem == op->in[0]->def) bad(p->rings, op, "a product in flight adds to these sums");
  if (op->code == OP_TMEM_STORE) p->meetings++;
}

static bool wait_tmem(Replay *p, const Event *e) {
  if (!passes(p->bars[e->slot].commits, e->parity)) return false;
  land(p, true, 0, p->bars[e->slot].products);
  return true;
}

/* False: it waits. */
static bool replay(Replay *p, const Event *e) {
  const Op *op = e->op;
  switch (op->code) {
    case OP_RING_READ:
    case OP_RING_LOAD: name_tile(p, e); return true;
    case OP_RING_COPY:
    case OP_RING_TENSOR: copy_to(p, e); return true;
    case OP_RING_DRAIN:
    case OP_RING_FULL: return wait_full(p, e);
    case OP_RING_EMPTY: return wait_empty(p, e);
    case OP_RING_FREE: hand_back(p, e); return true;
    case OP_RING_COMMIT: p->group++; return true;
    case OP_RING_WAIT:
      if (op->pending != RING_WAITS_FOR_NONE && p->group - op->pending > p->groups_done)
        p->groups_done = p->group - (int)op->pending;
      p->meetings++;
      return true;
    case OP_BARRIER: p->meetings++; return true;
    case OP_TMEM_LOAD:
    case OP_TMEM_STORE: touch_sums(p, op); return true;
    case OP_DOT_WAIT: land(p, false, op->pending, 0); return true;
    case OP_TMEM_COMMIT: p->bars[e->slot] = (Bar){p->bars[e->slot].commits + 1, p->tmem_dots}; return true;
    case OP_TMEM_WAIT: return wait_tmem(p, e);
    default: break;
  }
  if (e->tile != NO_TILE) read_tile(p, e);
  else do_dot(p, op);
  return true;
}

static void replay_all(const Rings *r, const Trace *traces, int tiles) {
  Arena *arena = r->f->cx->arena;
  Replay p = {.rings = r,
              .slots = NEW_N(arena, Slot, r->slots + 1),
              .reads = NEW_N(arena, Read, tiles + 1),
              .bars = NEW_N(arena, Bar, r->tmems.n * TMEM_BARS + 1)};
  for (int i = 0; i < r->rings.n; i++)
    for (int k = 0; k < r->rings.at[i].op->slots; k++)
      p.slots[r->rings.at[i].first + k] = (Slot){.ring = &r->rings.at[i], .last_read = -1};
  int at[2] = {0, 0};
  for (bool moves = true; moves;) {
    moves = false;
    for (int i = 0; i < 2; i++)
      for (; at[i] < traces[i].events.n && replay(&p, &traces[i].events.at[at[i]]); at[i]++) moves = true;
  }
  if (traces[0].is_cut || traces[1].is_cut) return;
  for (int i = 0; i < 2; i++)
    if (at[i] < traces[i].events.n) bad(r, traces[i].events.at[at[i]].op, "waits for ever");
  for (int i = 0; i < r->slots; i++) {
    const Slot *s = &p.slots[i];
    if (s->ring->hands_back && s->handed_back < s->copied)
      bad(r, s->ring->op, "the last tile of slot %d is not handed back", index_of(&p, s));
  }
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void find_ring(Op *op, void *arg) {
  Rings *r = arg;
  if (op->code == OP_RING) {
    vec_push(r->f->cx->arena, &r->rings, ((RingInfo){.op = op, .first = r->slots}));
    r->slots += (int)op->slots;
  }
  if (op->code == OP_TMEM) vec_push(r->f->cx->arena, &r->tmems, op);
  for (int i = 0; i < r->rings.n; i++) {
    RingInfo *ring = &r->rings.at[i];
    ring->hands_back |= (op->code == OP_RING_FREE || op->code == OP_RING_EMPTY) && op->in[0]->def == ring->op;
    ring->has_maps |= op->code == OP_RING_TENSOR && op->in[1]->def == ring->op;
  }
}

void gpu_verify_rings(Func *f, const char *after) {
  Rings r = {.f = f, .after = after};
  tile_walk(f->body, find_ring, &r);
  if (!r.slots) return;
  Arena *arena = f->cx->arena;
  Walk w = {.rings = &r, .number = NEW_N(arena, int64_t, f->value_count), .tile = NEW_N(arena, int, f->value_count)};
  Trace traces[2] = {{{0}}};
  for (w.trial = 0; w.trial < TRIALS; w.trial++) {
    for (int i = 0; i < 2; i++) traces[i].events.n = 0, traces[i].is_cut = false;
    for (int i = 0; i < f->value_count; i++) w.tile[i] = NO_TILE;
    w.to = w.halves = traces;
    w.steps = w.tiles = 0;
    w.random = (uint64_t)w.trial;
    set_arguments(&w);
    walk_block(&w, f->body);
    replay_all(&r, traces, w.tiles);
  }
}
