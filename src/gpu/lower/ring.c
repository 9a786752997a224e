/* Rings in shared memory: a few tiles that copies bring while products read others (gpu/async_loads.c), and waits.
 *
 * A tile lies as products want it, whichever way they take it: in rows along its inner dim, of 128 bytes at most (then
 * come the next 128 bytes of all rows), with places of 16 bytes xor'ed with the row's number (lower/mma.c,
 * lower/wgmma.c). Tiles of one dim lie as they are, and threads read them (ring_load). A ring of the threads' own holds
 * what each of them copied, for itself alone.
 */
#include "gpu/lower/ring.h"

typedef LowerRing Ring;

/* shift: log2 of an element's bytes. singly: elements are loaded one by one (lower/mma.c), by nobody else. */
F2Map lower_tile_map(const int64_t *dims, int inner_dim, int shift, bool singly) {
  int panel = 7 - shift, place = (singly ? 5 : 4) - shift,
      swizzled = singly ? 2 : 3; /* log2 of elements, and of rows */
  int bits[2] = {log2_floor(dims[0]), log2_floor(dims[1])}, first[2] = {bits[1], 0};
  int inner = bits[inner_dim], rows = bits[!inner_dim], low = inner < panel ? inner : panel;
  F2Map map = {.in_bits = inner + rows, .out_bits = inner + rows};
  for (int i = 0; i < inner; i++) map.column[first[inner_dim] + i] = 1u << (i < low ? i : rows + i);
  for (int i = 0; i < rows; i++) map.column[first[!inner_dim] + i] = 1u << (low + i);
  int apart = panel - low; /* rows that share 128 bytes */
  for (int i = apart; i < swizzled && i < rows; i++) map.column[first[!inner_dim] + i] ^= 1u << (place + i - apart);
  return map;
}

/* Which products read a ring's tiles: those of warps across, those of warpgroups from where they lie. */
typedef struct Readers {
  const Lower *l;
  const Value *ring;
  bool across, groups;
} Readers;

static bool is_of_groups(const Lower *l, const Op *dot) {
  const Type *t = dot->out[0]->type;
  return l->wgmma && (layout_is_wgmma(t, dot->out[0]->layout) || layout_is_wgmma_loaded(t, dot->out[0]->layout)) &&
         t->shape[t->rank - 1] >= 16;
}

static void find_readers(Op *op, void *arg) {
  Readers *r = arg;
  for (int k = 0; k < 2 && op->code == OP_DOT; k++) {
    const Op *read = lower_ring_read(op->in[k]);
    if (!read || read->in[0] != r->ring) continue;
    bool loaded = layout_is_wgmma_loaded(op->out[0]->type, op->out[0]->layout);
    r->groups |= is_of_groups(r->l, op) && !(loaded && k == 0);
    r->across |= !loaded && !lower_ring_along(op->in[k], k);
  }
}

LowerRing *lower_ring_of(Lower *l, const Value *ring) {
  Ring **r = &l->rings[ring->id];
  if (!*r) {
    *r = NEW(l->cx->arena, Ring);
    **r = (Ring){0};
  }
  return *r;
}

/* The most that all copies to a ring of the threads' own can take at once. */
typedef struct OwnCopies {
  const Value *ring;
  int vector;
} OwnCopies;

static void find_own_copy(Op *op, void *arg) {
  OwnCopies *o = arg;
  int dim;
  if (op->code != OP_RING_COPY || op->in[1] != o->ring) return;
  int vector = access_vector(op->in[0], op_mask(op), op->in[0]->layout, 16, &dim);
  if (vector < o->vector) o->vector = vector;
}

/* Of a slot: the first elements of all threads, one thread's after the other's, then the next ones of all. */
static void make_own(Lower *l, const Op *op, Ring *r) {
  OwnCopies copies = {op->out[0], 16};
  tile_walk(l->f->body, find_own_copy, &copies);
  const Layout *layout = layout_ring_user(l->f, op->out[0], OP_RING_LOAD)->out[0]->layout;
  r->own = copies.vector;
  r->bytes = (32 * l->f->num_warps * layout_registers(layout)) << r->place.shift;
  r->place.buffer = lane_buffer(&l->b, "own ring", r->bytes * (int)op->slots, 16);
  l->out->buffers.at[r->place.buffer].ring = (int)op->slots;
}

static void make_ring(Lower *l, const Op *op) {
  Ring *r = lower_ring_of(l, op->out[0]);
  LaneKind kind = lane_kind_of(&(Type){.dtype = op->out[0]->type->dtype});
  int shift = lower_kind_shift(kind);
  if (op->own) {
    r->place = (Place){.kind = kind, .shift = shift};
    make_own(l, op, r);
    return;
  }
  Readers readers = {.l = l, .ring = op->out[0]};
  tile_walk(l->f->body, find_readers, &readers);
  bool singly = !r->tensor && (shift == 3 || (shift == 2 && readers.across && !readers.groups));
  F2Map map = op->dim_count == 1 ? f2_identity(log2_floor(op->dims[0]))
                                 : lower_tile_map(op->dims, (int)op->inner, shift, singly);
  r->place = (Place){.kind = kind, .shift = shift, .map = map};
  r->bytes = 1 << (map.out_bits + r->place.shift);
  r->place.buffer = lane_buffer(&l->b, "ring", r->bytes * (int)op->slots, 1024);
  l->out->buffers.at[r->place.buffer].ring = (int)op->slots;
}

LaneValue *lower_slot_begin(Lower *l, const Ring *r, const Value *slot) {
  return lane_2(&l->b, LANE_MUL, LK_S32, lower_get(l, slot)[0], lane_i32(&l->b, r->bytes));
}

/* Where this thread's elements lie in a slot. */
static LaneValue *own_begin(Lower *l, const Ring *r, const Value *slot) {
  LaneValue *mine = lane_2(&l->b, LANE_MUL, LK_S32, l->tid, lane_i32(&l->b, r->own << r->place.shift));
  LaneValue *first = lane_2(&l->b, LANE_ADD, LK_S32, lane_shared(&l->b, r->place.buffer), mine);
  return lane_2(&l->b, LANE_ADD, LK_S32, first, lower_slot_begin(l, r, slot));
}

static int64_t own_offset(const Lower *l, const Ring *r, int reg) {
  return (int64_t)(32 * l->f->num_warps * reg) << r->place.shift;
}

static void copy_own(Lower *l, const Op *op, const Ring *r) {
  const Value *mask = op_mask(op);
  LaneValue **pointers = lower_get(l, op->in[0]), **masks = mask ? lower_get(l, mask) : NULL,
            *begin = own_begin(l, r, op->in[2]);
  for (int i = 0; i < lower_count(op->in[0]); i += r->own)
    lane_cp_async(&l->b, r->own << r->place.shift, begin, own_offset(l, r, i), r->place.buffer, pointers[i],
                  masks ? masks[i] : NULL);
}

static void load(Lower *l, const Op *op) {
  const Ring *r = l->rings[op->in[0]->id];
  int n = lower_count(op->out[0]);
  LaneValue **out = lower_array(l, n);
  if (!r->own) {
    Place place = r->place;
    place.begin = lower_slot_begin(l, r, op->in[1]);
    lower_place_read(l, &place, out, op->out[0]->layout, 0);
    lower_set(l, op->out[0], out);
    return;
  }
  LaneValue *begin = own_begin(l, r, op->in[1]);
  for (int i = 0; i < n; i += r->own)
    lower_vector_load(l, r->place.kind, r->own, begin, own_offset(l, r, i), r->place.buffer, NULL, out + i);
  lower_set(l, op->out[0], out);
}

static void copy_tile(Lower *l, Op *op) {
  const Value *ptr = op->in[0], *mask = op_mask(op);
  const Ring *r = l->rings[op->in[1]->id];
  int dim, vector = r->own ? r->own : access_vector(ptr, mask, ptr->layout, 16, &dim);
  if (vector << r->place.shift < 4)
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "an asynchronous copy moves 4 bytes at least");
  lower_membar(l, op);
  if (r->own) {
    copy_own(l, op, r);
    return;
  }
  LaneValue *elected = lower_elected_thread(l, ptr->layout);
  LaneOp *branch = elected ? lane_if(&l->b, elected, false, 0, NULL) : NULL;
  Place place = r->place;
  place.begin = lower_slot_begin(l, r, op->in[2]);
  lower_place_copy(l, &place, lower_get(l, ptr), mask ? lower_get(l, mask) : NULL, ptr->layout, vector);
  if (!branch) return;
  lane_yield(&l->b, 0, NULL);
  lane_enter(&l->b, branch, 1);
  lane_yield(&l->b, 0, NULL);
  lane_leave(&l->b, branch);
}

static void find_copy(Op *op, void *arg) { *(bool *)arg |= op->code == OP_RING_COPY; }

/* Whether threads copy tiles themselves. */
static bool has_copies(const Lower *l) {
  bool found = !l->out->maps;
  if (!found) tile_walk(l->f->body, find_copy, &found);
  return found;
}

typedef struct Loaded {
  const Lower *l;
  const Value *ring; /* NULL: of any that tensor maps bring tiles to */
  bool any;
} Loaded;

static bool is_tensor(const Lower *l, const Value *ring) {
  const Ring *r = l->rings[ring->id];
  return r && r->tensor;
}

/* By products of warps, and by threads for those of warpgroups, which are the asynchronous unit's. */
static void find_loads(Op *op, void *arg) {
  Loaded *s = arg;
  if (op->code == OP_RING_LOAD) s->any |= s->ring ? op->in[0] == s->ring : is_tensor(s->l, op->in[0]);
  for (int k = 0; k < 2 && op->code == OP_DOT; k++) {
    const Op *read = lower_ring_read(op->in[k]);
    if (!read || (s->ring ? read->in[0] != s->ring : !is_tensor(s->l, read->in[0]))) continue;
    bool loaded = layout_is_wgmma_loaded(op->out[0]->type, op->out[0]->layout);
    s->any |= !is_of_groups(s->l, op) || (loaded && k == 0) || op->precision == PRECISION_SPLIT;
  }
}

bool lower_ring_is_loaded(const Lower *l, const Value *ring) {
  Loaded s = {l, ring, false};
  tile_walk(l->f->body, find_loads, &s);
  return s.any;
}

/* Whether threads must fence before copies by tensor maps write over what they have read. */
static bool is_loaded(const Lower *l) { return l->out->maps && lower_ring_is_loaded(l, NULL); }

static void find_shared(Op *op, void *arg) { *(bool *)arg |= op->code == OP_RING && !op->own; }

/* Whether threads read what others have copied. */
static bool has_shared(const Lower *l) {
  bool found = false;
  tile_walk(l->f->body, find_shared, &found);
  return found;
}

static void wait_for_copies(Lower *l, const Op *op) {
  if (has_copies(l) && op->pending != RING_WAITS_FOR_NONE) lane_simple(&l->b, LANE_CP_WAIT, op->pending, -1);
  if (!has_shared(l)) return;
  if (is_loaded(l) || (l->tmem && has_copies(l))) lane_simple(&l->b, LANE_FENCE_PROXY, 0, -1);
  lane_barrier(&l->b, false);
  lower_membar_met(l);
}

void lower_ring(Lower *l, Op *op) {
  switch (op->code) {
    case OP_RING: make_ring(l, op); break;
    case OP_RING_COPY: copy_tile(l, op); break;
    case OP_RING_LOAD: load(l, op); break;
    case OP_RING_COMMIT:
      if (has_copies(l)) lane_simple(&l->b, LANE_CP_COMMIT, 0, -1);
      break;
    case OP_RING_WAIT: wait_for_copies(l, op); break;
    default: break; /* products find what a ring_read stands for */
  }
}

/* ---- as operands ------------------------------------------------------------------------------------------------- */

const Op *lower_ring_read(const Value *v) {
  while (v->def && v->def->code == OP_TRANS) v = v->def->in[0];
  return v->def && v->def->code == OP_RING_READ ? v->def : NULL;
}

/* The tile's map, of a transposed tile too; *inner: which of v's dims is the tile's inner one. */
static F2Map map_of(const Ring *r, const Value *v, int *inner) {
  stack_guard();
  const Op *op = v->def;
  if (op->code == OP_RING_READ) {
    *inner = (int)op->in[0]->def->inner;
    return r->place.map;
  }
  const Type *from = op->in[0]->type, *to = v->type;
  int before;
  F2Map of = map_of(r, op->in[0], &before), map = of;
  for (int d = 0; d < to->rank; d++) {
    memcpy(map.column + layout_dim_shift(to, d), of.column + layout_dim_shift(from, (int)op->dims[d]),
           sizeof *of.column * (size_t)log2_floor(to->shape[d]));
    if (op->dims[d] == before) *inner = d;
  }
  return map;
}

bool lower_ring_along(const Value *v, int k) {
  int inner = (int)lower_ring_read(v)->in[0]->def->inner;
  for (; v->def->code == OP_TRANS; v = v->def->in[0]) k = !k;
  return inner == !k;
}

bool lower_ring_operand(Lower *l, const Dot *d, DotOperand *o, int k) {
  const Value *v = d->op->in[k];
  const Op *read = lower_ring_read(v);
  if (!read) return false;
  const Ring *r = l->rings[read->in[0]->id];
  int inner = 0;
  o->is_a = k == 0;
  o->outer = o->is_a ? d->shape.m : d->shape.n;
  o->place = r->place;
  o->place.map = map_of(r, v, &inner);
  o->along = inner == (o->is_a ? 1 : 0);
  o->begin = lower_slot_begin(l, r, read->in[1]);
  return true;
}
