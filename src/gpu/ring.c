/* Building rings, the maps of their tiles, and walks over their slots. */
#include "gpu/ring.h"

Value *ring_build(Builder *b, const Op *load, int inner, int64_t slots) {
  const Type *t = load->out[0]->type, *handle = type_pointer(b->func->cx, t->dtype);
  b->span = load->span;
  Op *ring = build_op(b, OP_RING, 0, NULL, 1, &handle);
  ring->slots = slots;
  ring->inner = inner;
  ring->dim_count = t->rank;
  ring->dims = NEW_N(b->func->cx->arena, int64_t, t->rank);
  for (int d = 0; d < t->rank; d++) ring->dims[d] = t->shape[d];
  ring->out[0]->name = load->out[0]->name;
  return ring->out[0];
}

Value *ring_build_own(Builder *b, const Op *load, int64_t slots) {
  Value *ring = ring_build(b, load, 0, slots);
  ring->def->own = 1;
  return ring;
}

bool ring_may_be_passed(const Op *op) {
  bool reads = op->code == OP_RING_READ || op->code == OP_RING_LOAD;
  return !op->body[0] && (op_info[op->code].effect == EFFECT_PURE || reads);
}

void ring_note_stages(Func *f, const GpuOptions *o, int64_t stages, int64_t slots) {
  if (stages > o->target->budgets->ring_slots) stages = o->target->budgets->ring_slots;
  if (slots < stages && stages > f->stages_missed) f->stages_missed = (int)stages;
}

static void require(Builder *b, PolySpace *s, const PolyCondition *c) {
  Value *of = poly_build(s, b, c->of, DT_I64, true), *n = build_int(b, of->type, c->number), *holds;
  if (c->need == POLY_AT_LEAST) holds = build_cmp(b, CMP_GE, of, n);
  else holds = build_cmp(b, CMP_EQ, build_binary(b, OP_REM, of, n), build_int(b, of->type, 0));
  build_op(b, OP_REQUIRE, 1, &holds, 0, NULL);
}

void ring_require(Builder *b, PolySpace *s) {
  for (int i = 0; i < s->conditions.n; i++) /* what is aligned the launch sees where it makes the map */
    if (s->conditions.at[i].need != POLY_ALIGNED) require(b, s, &s->conditions.at[i]);
}

Value *ring_map(Builder *b, const RegularTile *box) {
  PolySpace *s = box->space;
  Context *cx = b->func->cx;
  Value *in[2 * REGULAR_DIMS];
  in[0] = box->offset->count ? build_addptr(b, box->base, poly_build(s, b, box->offset, DT_I64, true)) : box->base;
  for (int i = 0; i < box->count; i++) {
    const RegularDim *dim = &box->dims[i];
    in[1 + i] =
        dim->size ? poly_build(s, b, dim->size, DT_I64, true) : build_int(b, type_number(cx, DT_I64), (int64_t)1 << 31);
    if (i) in[box->count + i] = poly_build(s, b, dim->stride, DT_I64, true);
  }
  Op *map = build_op(b, OP_TENSOR_MAP, 2 * box->count, in, 1, &in[0]->type);
  map->dim_count = box->count;
  map->dims = NEW_N(cx->arena, int64_t, box->count);
  for (int i = 0; i < box->count; i++) map->dims[i] = box->dims[i].box;
  for (int i = 0; i < s->conditions.n; i++) map->unaligned |= s->conditions.at[i].need == POLY_ALIGNED;
  ring_require(b, s);
  return map->out[0];
}

/* ---- maps that loads share --------------------------------------------------------------------------------------- */

int ring_map_count(const Func *f) {
  int n = 0;
  for (const Op *op = f->body->first; op; op = op->next) n += op->code == OP_TENSOR_MAP;
  return n;
}

/* Whether both are the same number or address: values of the function's beginning. */
static bool is_same(const Value *x, const Value *y) {
  stack_guard();
  const Op *a = x->def, *b = y->def;
  if (x == y) return true;
  if (!a || !b || a->code != b->code || x->type != y->type || a->in_count != b->in_count) return false;
  if (op_info[a->code].effect != EFFECT_PURE || a->body[0] || a->dim_count || b->dim_count) return false;
  if (memcmp(a->attr, b->attr, sizeof a->attr) || memcmp(&a->number, &b->number, sizeof a->number)) return false;
  for (int i = 0; i < a->in_count; i++)
    if (!is_same(a->in[i], b->in[i])) return false;
  return true;
}

static bool is_same_map(const Op *a, const Op *b) {
  if (a->in_count != b->in_count || a->dim_count != b->dim_count || a->in[0]->type != b->in[0]->type) return false;
  for (int i = 0; i < a->dim_count; i++)
    if (a->dims[i] != b->dims[i]) return false;
  for (int i = 0; i < a->in_count; i++)
    if (!is_same(a->in[i], b->in[i])) return false;
  return true;
}

typedef struct MapUses {
  const Value *map;
  bool loads; /* they are all loads */
} MapUses;

static void find_map_use(Op *op, void *arg) {
  MapUses *u = arg;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i] == u->map && op->code != OP_RING_TENSOR) u->loads = false;
}

Value *ring_map_of_load(Builder *b, const RegularTile *box) {
  Value *made = ring_map(b, box);
  Op *map = made->def;
  for (Op *op = map->block->first; op; op = op->next) {
    if (op == map || op->code != OP_TENSOR_MAP || !is_same_map(op, map)) continue;
    MapUses uses = {op->out[0], true};
    tile_walk(b->func->body, find_map_use, &uses);
    if (!uses.loads) continue;
    op->unaligned |= map->unaligned;
    op_remove(map);
    return op->out[0];
  }
  return made;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

Value *ring_read(Builder *b, Value *ring, Value *slot, const Op *load) {
  bool loads = ring->def->own || ring->def->dim_count == 1;
  Op *read = build_op(b, loads ? OP_RING_LOAD : OP_RING_READ, 2, (Value *[]){ring, slot}, 1, &load->out[0]->type);
  read->out[0]->name = load->out[0]->name;
  return read->out[0];
}

void ring_full(Builder *b, Value *ring, RingPlace at) {
  build_op(b, OP_RING_FULL, 3, (Value *[]){ring, at.slot, at.parity}, 0, NULL);
}

static void find_stored(Op *op, void *arg) {
  int64_t *most = arg;
  if (op->code != OP_STORE) return;
  const Type *t = op->in[1]->type;
  int64_t bytes = type_numel(t) * type_elem_bytes(t);
  if (bytes > *most) *most = bytes;
}

int64_t ring_stored_bytes(const Func *f, const GpuOptions *o) {
  int64_t stored = 0, most = o->target->budgets->converted_parted;
  tile_walk(f->body, find_stored, &stored);
  return stored < most ? stored : most;
}

/* ---- walks ------------------------------------------------------------------------------------------------------- */

RingPlace ring_first(Builder *b) {
  Value *zero = build_int(b, type_number(b->func->cx, DT_I32), 0);
  return (RingPlace){zero, zero};
}

/* *wraps: whether the slot is the last. */
static Value *next_slot(Builder *b, int64_t slots, Value *slot, Value **wraps) {
  const Type *t = slot->type;
  Value *next = build_binary(b, OP_ADD, slot, build_int(b, t, 1));
  *wraps = build_cmp(b, CMP_EQ, next, build_int(b, t, slots));
  return build_select(b, *wraps, build_int(b, t, 0), next);
}

Value *ring_next_slot(Builder *b, int64_t slots, Value *slot) {
  Value *wraps;
  return next_slot(b, slots, slot, &wraps);
}

RingPlace ring_next(Builder *b, int64_t slots, RingPlace at) {
  Value *wraps, *next = next_slot(b, slots, at.slot, &wraps);
  Value *other = build_binary(b, OP_XOR, at.parity, build_int(b, at.parity->type, 1));
  return (RingPlace){next, build_select(b, wraps, other, at.parity)};
}

static Value *carry(Func *f, Op *loop, Value *first) {
  Value *v = control_carry(f, loop, first, first);
  v->axis = loop_constant_axis(f->cx, v->type);
  return v;
}

RingPlace ring_carry(Func *f, Op *loop, RingPlace first) {
  return (RingPlace){carry(f, loop, first.slot), carry(f, loop, first.parity)};
}

RingPlace ring_result(const Op *loop, RingPlace at) {
  return (RingPlace){loop->out[at.slot->index - 1], loop->out[at.parity->index - 1]};
}

RingPlace ring_yield(Op *loop, RingPlace at, RingPlace next) {
  Op *end = loop->body[0]->last;
  end->in[at.slot->index - 1] = next.slot;
  end->in[at.parity->index - 1] = next.parity;
  return ring_result(loop, at);
}
