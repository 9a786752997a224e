/* Warp specialization: warps of their own bring the tiles that products take, the others multiply.
 *
 *     for %i ... carrying %acc                   if %computes {                                  } else {
 *       %a = load %p(%i)                           for %i ... carrying %acc, %slot, %parity        for %i ... %slot,
 * %parity %b = load %q(%i)                 ->          ring_full %ring_a, %slot, %parity               ring_empty
 * %ring_a, ... %acc = dot %a, %b, %acc                      ring_full %ring_b, %slot, %parity               ring_tensor
 * %map_a, ... store %c, %acc                                 dot ring_read, ring_read {async=1}              ring_empty
 * %ring_b, ... ring_free what the dot before took              ring_tensor %map_b, ... store %c, %acc }
 *                                                }
 *
 * Both halves are slices of one function. Rings and the numbers of their slots are put in first, which run through all
 * loops, nested ones too; then the function is taken twice. The half that computes leaves out the copies. The half that
 * copies keeps these, the control flow around them and the scalars that all this needs, and nothing else. So both walk
 * the same iterations, whatever they are. A slot is full when its tile has come, and empty when all warps that compute
 * have said that they are done with it; no barrier of the block stands between, so that the copies run ahead (of a
 * persistent kernel into the next program), and warpgroups drift apart.
 *
 * A function is sliced if tiles that products of warpgroups take in loops are boxes of arrays
 * (tile/analysis/regular.h), and what says where they begin is made of scalars that no memory decides. What it writes
 * may be what it loads (two arguments may be one array): no write comes before the last copy of a program. Else it
 * stays whole, and says why.
 *
 * Tiles that a program loads once, for the products of its loops (the queries of attention), come likewise, in rings of
 * a slot or two: of the next program while this one ends.
 *
 * A dot that adds to what the loop only carries is waited for an iteration later: then the tiles of the iteration
 * before are free. Others are waited for where they stand, and their tiles are free at once.
 */
#include "gpu/ahead.h"
#include "tile/analysis/regular.h"

enum {
  MAX_RINGS = 8,
  MAX_LOOPS = 8,
  MAX_SINGLES = 4,
  MAX_GROUPS = MAX_LOOPS + MAX_SINGLES,
  MAX_MAPS = 8,
  OUTSIDE = -(1 << 30)
};

typedef struct Ring {
  Op *load;
  RegularTile *box;
  Value *handle, *map;
  bool is_ahead; /* its tiles are waited for an iteration earlier */
} Ring;

/* Where the walk is: the slot of the next tile, and the parity of the phase in which it comes. */
typedef struct Place {
  Value *slot, *parity;
} Place;

/* Loops whose tiles are alike take turns with the same rings. */
typedef struct Group {
  Value *handles[MAX_RINGS];
  int count, slots;
  int64_t bytes; /* of a slot of all */
  int tracks;    /* 2: some rings are ahead, and at a place of their own */
  Place at[2];
} Group;

typedef struct Loop {
  Op *op;
  Ring rings[MAX_RINGS];
  int ring_count, dot_count, group;
  Op *dots[MAX_RINGS]; /* asynchronous ones */
  Op *ahead;           /* a dot that is computed an iteration earlier (gpu/dots_ahead.c), or NULL */
} Loop;

/* A tile that is loaded outside of the loops whose products take it. */
typedef struct Single {
  Ring ring;
  const Block *home; /* the load's; the load goes */
  int group;
} Single;

typedef struct Specialize {
  Func *f;
  const GpuOptions *o;
  Loop loops[MAX_LOOPS];
  Single singles[MAX_SINGLES];
  Group groups[MAX_GROUPS];
  int loop_count, single_count, group_count, map_count;
  Block *programs; /* what one program does: the Func's body, or that of the loop over programs */
  Map *needed;     /* values that the half that copies needs */
  Op *first;       /* of what is sliced */
  bool asked, writes;
  const char *why;
} Specialize;

static bool refuse(Specialize *p, const char *why) {
  if (!p->why) p->why = why;
  return false;
}

/* ---- what is taken ----------------------------------------------------------------------------------------------- */

/* Whether operand i of op is one of a product of warpgroups that takes it as it lies. */
static bool is_operand(const Specialize *p, const Op *op, int i, int inner) {
  Dtype as[2];
  if (op->code != OP_DOT || i > 1 || !layout_takes_wgmma(op, p->f->num_warps)) return false;
  const Type *t = op->in[i]->type;
  return layout_takes_mma(op, true, p->f->num_warps, as) && as[i] == t->dtype &&
         (type_elem_bytes(t) == 2 || inner == !i);
}

/* Whether v, whose dim `inner` is side by side in memory, goes to products of warpgroups of the body alone. */
static bool feeds_dots(const Specialize *p, const Block *body, const Value *v, int inner) {
  stack_guard();
  int uses = 0;
  for (const Op *op = body->first; op; op = op->next)
    for (int i = 0; i < op->in_count; i++) {
      if (op->in[i] != v) continue;
      if (is_operand(p, op, i, inner)) {
        uses++;
        continue;
      }
      if (op->code != OP_TRANS || !feeds_dots(p, body, op->out[0], op->dims[0] == inner ? 0 : 1)) { return false; }
      uses++;
    }
  return uses > 0 && loop_uses(body, v) == uses;
}

static bool is_transposed_or_load(const Value *v, const Block *body) {
  while (v->def && v->def->code == OP_TRANS && v->def->block == body) v = v->def->in[0];
  return v->def && v->def->code == OP_LOAD && v->def->block == body;
}

static bool is_ring_value(const Loop *l, const Value *v) {
  while (v->def && v->def->code == OP_TRANS) v = v->def->in[0];
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].load->out[0] == v) return true;
  return false;
}

/* A dot of two rings' tiles that adds to what the loop only carries for it. */
static bool can_be_async(const Loop *l, const Op *op) {
  const Block *body = l->op->body[0];
  const Value *acc = op->in[2], *out = op->out[0];
  if (op->code != OP_DOT || acc->block != body || acc->index < 1) return false;
  if (out->type->dtype != DT_F32 && out->type->dtype != DT_I32) return false;
  return is_ring_value(l, op->in[0]) && is_ring_value(l, op->in[1]) && body->last->in[acc->index - 1] == out &&
         loop_uses(body, acc) == 1 && loop_uses(body, out) == 1;
}

static bool takes(const Op *dot, const Value *tile) {
  for (int k = 0; k < 2; k++) {
    const Value *v = dot->in[k];
    while (v->def && v->def->code == OP_TRANS) v = v->def->in[0];
    if (v == tile) return true;
  }
  return false;
}

static bool is_of_ring(const Value *v, void *loop) { return is_ring_value(loop, v); }

/* A dot whose tiles from the loop are its own, before the last one. */
static bool can_be_ahead(const Specialize *p, Loop *l, Op *op) {
  Block *body = l->op->body[0];
  bool last = true;
  if (op->code != OP_DOT || gpu_leaves_out(p->o, "dots_ahead")) return false;
  for (const Op *other = body->first; other; other = other->next)
    for (int i = 0; i < l->ring_count && other != op && other->code == OP_DOT; i++) {
      const Value *tile = l->rings[i].load->out[0];
      if (takes(op, tile) && takes(other, tile)) return false;
    }
  for (const Op *other = op->next; other; other = other->next) last &= other->code != OP_DOT;
  return !last && ahead_is_wanted(p->f, p->o, body, op, is_of_ring, l);
}

static bool take_load(Specialize *p, Loop *l, Op *load) {
  const char *why;
  RegularTile *box = regular_tile(p->f, load, &why);
  if (!box) return refuse(p, why);
  const Type *t = load->out[0]->type;
  if (box->dims[0].box < 16 || box->dims[1].box < 16 || t->rank != 2)
    return refuse(p, "a tile is smaller than 16 by 16");
  if (!feeds_dots(p, l->op->body[0], load->out[0], box->dims[0].dim))
    return refuse(p, "a tile is taken by more than products of warpgroups");
  if (l->ring_count == MAX_RINGS || p->map_count == MAX_MAPS) return refuse(p, "it loads too many tiles");
  l->rings[l->ring_count++] = (Ring){.load = load, .box = box};
  p->map_count++;
  return true;
}

static bool holds_dot(const Block *b) {
  for (const Op *op = b->first; op; op = op->next)
    if (op->code == OP_DOT) return true;
  return false;
}

/* A loop of products. */
static bool take_loop(Specialize *p, Op *op) {
  if (p->loop_count == MAX_LOOPS) return refuse(p, "it has too many loops of products");
  Loop *l = &p->loops[p->loop_count];
  *l = (Loop){.op = op};
  Block *body = op->body[0];
  if (op->attr[0] == 1) return refuse(p, "num_stages is 1");
  if (loop_has_effects(body)) return refuse(p, "a loop of products writes, prints or waits");
  for (Op *inner = body->first; inner; inner = inner->next) {
    if (inner->code == OP_FOR || inner->code == OP_WHILE) return refuse(p, "a loop of products holds another loop");
    for (int k = 0; k < 2 && inner->code == OP_DOT; k++) {
      Value *v = inner->in[k];
      if (!is_transposed_or_load(v, body)) continue;
      while (v->def->code == OP_TRANS) v = v->def->in[0];
      if (!is_ring_value(l, v) && !take_load(p, l, v->def)) return false;
    }
  }
  if (!l->ring_count) return refuse(p, "its products take no tiles that are loaded beside them");
  for (Op *inner = body->first; inner && l->dot_count < MAX_RINGS; inner = inner->next)
    if (can_be_async(l, inner)) l->dots[l->dot_count++] = inner;
  for (Op *inner = body->first; inner && !l->dot_count && !l->ahead; inner = inner->next)
    if (can_be_ahead(p, l, inner)) l->ahead = inner;
  for (int i = 0; i < l->ring_count && l->ahead; i++) l->rings[i].is_ahead = takes(l->ahead, l->rings[i].load->out[0]);
  p->asked |= (op->attr[2] & LOOP_WARP_SPECIALIZE) != 0;
  p->loop_count++;
  return true;
}

/* Walks a program as it runs. writes: it has written before. */
static bool take_block(Specialize *p, Block *b) {
  stack_guard();
  for (Op *op = b->first; op; op = op->next) {
    Effect e = op_info[op->code].effect;
    int before = p->loop_count;
    bool written = p->writes;
    if (op->code == OP_FOR && op->body[0] != p->programs && holds_dot(op->body[0])) {
      if (!take_loop(p, op)) return false;
    } else if (op->code == OP_LOAD && !p->writes && p->single_count < MAX_SINGLES) {
      p->singles[p->single_count++].ring.load = op; /* choose_singles() looks whether it is one */
    } else if (op->code == OP_DOT) {
      if (!layout_takes_wgmma(op, p->f->num_warps)) return refuse(p, "a product is none of warpgroups");
    } else if (e == EFFECT_CONTROL) {
      for (int i = 0; i < 2; i++)
        if (op->body[i] && !take_block(p, op->body[i])) return false;
    }
    p->writes |= e == EFFECT_WRITE || op->code == OP_ASM;
    bool loops = op->code == OP_FOR || op->code == OP_WHILE;
    bool is_programs = op->body[0] && op->body[0] == p->programs;
    if (p->loop_count > before && (written || (loops && p->writes && !is_programs)))
      return refuse(p, "it writes before it loads tiles, and that may be what it loads");
  }
  return true;
}

typedef struct Takers {
  Specialize *p;
  const Value *tile;
  int inner;
  bool in_loop, others;
} Takers;

static void find_takers(Op *op, void *arg) {
  Takers *t = arg;
  for (int i = 0; i < op->in_count; i++) {
    if (op->in[i] != t->tile) continue;
    if (op->code == OP_TRANS) {
      Takers turned = {t->p, op->out[0], op->dims[0] == t->inner ? 0 : 1, false, false};
      tile_walk(t->p->f->body, find_takers, &turned);
      t->in_loop |= turned.in_loop, t->others |= turned.others;
      continue;
    }
    t->others |= !is_operand(t->p, op, i, t->inner);
    for (int k = 0; k < t->p->loop_count; k++) t->in_loop |= op->block == t->p->loops[k].op->body[0];
  }
}

/* Of the loads outside of loops, those whose tiles go to products of warpgroups alone, in a loop of them at least. */
static void choose_singles(Specialize *p) {
  int count = p->single_count;
  p->single_count = 0;
  for (int i = 0; i < count; i++) {
    Op *load = p->singles[i].ring.load;
    const Type *t = load->out[0]->type;
    const char *why;
    RegularTile *box = t->rank == 2 && p->map_count < MAX_MAPS ? regular_tile(p->f, load, &why) : NULL;
    if (!box || box->dims[0].box < 16 || box->dims[1].box < 16) continue;
    Takers takers = {p, load->out[0], box->dims[0].dim, false, false};
    tile_walk(p->f->body, find_takers, &takers);
    if (!takers.in_loop || takers.others) continue;
    p->singles[p->single_count++] = (Single){.ring = {.load = load, .box = box}, .home = load->block};
    p->map_count++;
  }
}

/* ---- what the half that copies needs ----------------------------------------------------------------------------- */

static bool need(Specialize *p, Value *v) {
  stack_guard();
  if (map_get(p->needed, v)) return true;
  map_put(p->needed, v, v);
  if (v->type->rank) return refuse(p, "which tiles it takes depends on a tile");
  const Op *op = v->def;
  if (!op) {
    const Op *parent = v->block->parent;
    if (!parent) return true;
    if (parent->code != OP_FOR) return refuse(p, "which tiles it takes depends on a while");
    return !v->index || (need(p, parent->in[v->index + 2]) && need(p, v->block->last->in[v->index - 1]));
  }
  if (op->code == OP_FOR) return need(p, op->body[0]->args[v->index + 1]);
  if (op->code == OP_IF) {
    for (int i = 0; i < 2; i++)
      if (!need(p, op->body[i]->last->in[v->index])) return false;
    return need(p, op->in[0]);
  }
  if (op_info[op->code].effect != EFFECT_PURE || op->body[0])
    return refuse(p, op->code == OP_LOAD ? "which tiles it takes is read from memory"
                                         : "which tiles it takes is computed by what has effects");
  for (int i = 0; i < op->in_count; i++)
    if (!need(p, op->in[i])) return false;
  return true;
}

/* What the control flow around a block goes by. */
static bool need_around(Specialize *p, const Block *b) {
  for (const Op *op = b->parent; op; op = op->block->parent) {
    if (op->code != OP_FOR && op->code != OP_IF) return refuse(p, "a loop of products is in a while");
    for (int i = 0; i < (op->code == OP_FOR ? 3 : 1); i++)
      if (!need(p, op->in[i])) return false;
  }
  return true;
}

static bool need_poly(Specialize *p, const PolySpace *s, const Poly *x) {
  stack_guard();
  for (int i = 0; i < x->count; i++)
    for (int k = 0; k < x->at[i].count; k++) {
      const PolyAtom *a = &s->atoms.at[x->at[i].atoms[k]];
      if (a->kind == ATOM_VALUE && !need(p, a->value)) return false;
      if (a->kind == ATOM_REM && (!need_poly(p, s, a->x) || !need_poly(p, s, a->y))) return false;
    }
  return true;
}

static bool need_ring(Specialize *p, const Ring *r) {
  const RegularTile *box = r->box;
  for (int d = 0; d < box->count; d++)
    if (!need_poly(p, box->space, box->dims[d].start)) return false;
  for (int g = 0; g < box->guard_count; g++)
    if (!need(p, box->guards[g])) return false;
  return true;
}

static bool can_slice(Specialize *p) {
  for (int i = 0; i < p->loop_count; i++) {
    const Loop *l = &p->loops[i];
    if (!need_around(p, l->op->body[0])) return false;
    for (int k = 0; k < l->ring_count; k++)
      if (!need_ring(p, &l->rings[k])) return false;
  }
  for (int i = 0; i < p->single_count; i++) {
    const Ring *r = &p->singles[i].ring;
    if (!need_around(p, r->load->block) || !need_ring(p, r)) return false;
  }
  return true;
}

/* ---- rings ------------------------------------------------------------------------------------------------------- */

static bool is_like(const Loop *a, const Loop *b) {
  if (a->ring_count != b->ring_count) return false;
  for (int i = 0; i < a->ring_count; i++) {
    const Ring *x = &a->rings[i], *y = &b->rings[i];
    if (x->load->out[0]->type != y->load->out[0]->type || x->box->dims[0].dim != y->box->dims[0].dim ||
        x->is_ahead != y->is_ahead)
      return false;
  }
  return true;
}

static void find_stored(Op *op, void *arg) {
  int64_t *most = arg;
  if (op->code != OP_STORE) return;
  const Type *t = op->in[1]->type;
  int64_t bytes = type_numel(t) * type_elem_bytes(t);
  if (bytes > *most) *most = bytes;
}

static bool is_single(const Specialize *p, const Value *v) {
  while (v->def && v->def->code == OP_TRANS) v = v->def->in[0];
  for (int i = 0; i < p->single_count; i++)
    if (p->singles[i].ring.load->out[0] == v) return true;
  return false;
}

/* Beside the rings lie operands that are no ring's, and what is stored, on its way to its layout. */
static int64_t other_bytes(const Specialize *p) {
  int64_t stored = 0, operands = 0;
  tile_walk(p->f->body, find_stored, &stored);
  for (int i = 0; i < p->loop_count; i++) {
    int64_t bytes = 0;
    for (const Op *op = p->loops[i].op->body[0]->first; op; op = op->next)
      for (int k = 0; k < 2 && op->code == OP_DOT; k++)
        if (!is_ring_value(&p->loops[i], op->in[k]) && !is_single(p, op->in[k]))
          bytes += type_numel(op->in[k]->type) * type_elem_bytes(op->in[k]->type);
    if (bytes > operands) operands = bytes;
  }
  int64_t most = p->o->target->budgets->converted_parted;
  return operands + (stored < most ? stored : most);
}

static bool choose_groups(Specialize *p) {
  int64_t stages = 0, bytes = 0,
          room = p->o->target->shared_bytes - p->o->target->budgets->beside_rings - other_bytes(p);
  for (int i = 0; i < p->loop_count; i++) {
    Loop *l = &p->loops[i];
    int64_t asked = l->op->attr[0] ? l->op->attr[0] : p->f->num_stages;
    if (asked > stages) stages = asked;
    l->group = p->group_count;
    for (int k = 0; k < i && l->group == p->group_count; k++)
      if (is_like(l, &p->loops[k])) l->group = p->loops[k].group;
    if (l->group < p->group_count) continue;
    Group *g = &p->groups[p->group_count++];
    g->count = l->ring_count;
    g->tracks = l->ahead ? 2 : 1;
    for (int k = 0; k < l->ring_count; k++) {
      const Type *t = l->rings[k].load->out[0]->type;
      g->bytes += type_numel(t) * type_elem_bytes(t);
    }
    bytes += g->bytes;
  }
  int loops = p->group_count;
  for (int i = 0; i < p->single_count; i++) {
    const Type *t = p->singles[i].ring.load->out[0]->type;
    p->singles[i].group = p->group_count;
    p->groups[p->group_count++] =
        (Group){.count = 1, .tracks = 1, .slots = 1, .bytes = type_numel(t) * type_elem_bytes(t)};
    room -= p->groups[p->group_count - 1].bytes;
  }
  int64_t slots = stages + 1;
  if (slots > p->o->target->budgets->ring_slots) slots = p->o->target->budgets->ring_slots;
  if (slots > room / bytes) slots = room / bytes;
  for (int i = 0; i < loops; i++) p->groups[i].slots = (int)slots;
  room -= slots * bytes;
  for (int i = loops; i < p->group_count && p->groups[i].bytes <= room; i++) {
    room -= p->groups[i].bytes;
    p->groups[i].slots = 2; /* the next program's comes before this one's is free */
  }
  return slots >= 2 ? true : refuse(p, "there is no shared memory for two tiles of each");
}

/* ---- whether ----------------------------------------------------------------------------------------------------- */

static bool plan(Specialize *p) {
  Func *f = p->f;
  p->needed = map_create(f->cx->arena, false);
  p->programs = f->body;
  if (f->persistent)
    for (Op *op = f->body->first; op; op = op->next)
      if (op->code == OP_FOR) p->programs = op->body[0];
  if (!gpu_has_wgmma(p->o) || !p->o->tensor_maps || gpu_leaves_out(p->o, "tensor_maps"))
    return refuse(p, "the target has no products of warpgroups or no tensor maps, or they are left out");
  if (f->num_warps % 4 || f->num_warps > 16) return refuse(p, "its warps are no warpgroups");
  if (f->num_stages < 2) return refuse(p, "num_stages is 1");
  if (f->instrument || p->o->list) return refuse(p, "it is timed, or its programs are listed");
  if (!take_block(p, f->body)) return false;
  if (!p->loop_count) return refuse(p, "it has no loop of products");
  choose_singles(p);
  return can_slice(p) && choose_groups(p);
}

/* Whether it is faster, as measured (bench/results/h200.md). */
static bool pays(const Specialize *p) {
  const GpuBudgets *budgets = p->o->target->budgets;
  int64_t most = 0;
  for (int i = 0; i < p->loop_count; i++) {
    int64_t sums = 0;
    for (const Op *op = p->loops[i].op->body[0]->first; op; op = op->next)
      if (op->code == OP_DOT) sums += type_numel(op->out[0]->type) / (32 * p->f->num_warps);
    if (sums > most) most = sums;
  }
  return p->f->num_warps >= budgets->specialized_warps && most >= budgets->specialized_sums;
}

bool gpu_specializes(Func *f, const GpuOptions *o, const char **why) {
  tile_resolve(f);
  Specialize p = {.f = f, .o = o};
  bool can = !gpu_leaves_out(o, "specialize") && plan(&p);
  bool wanted = p.asked || o->specialize || (can && pays(&p));
  if (can && !wanted)
    refuse(&p, "its products are small, and nobody asks for it (warp_specialize=True, or --specialize)");
  *why = p.why;
  return can && wanted;
}

/* ---- rings and their slots --------------------------------------------------------------------------------------- */

static Value *number(Specialize *p, Builder *b, int64_t v) { return build_int(b, type_number(p->f->cx, DT_I32), v); }

static void make_ring(Specialize *p, Builder *b, Ring *r, Group *g, int number) {
  Value **handle = &g->handles[number];
  if (!*handle) {
    const Type *t = r->load->out[0]->type, *pointer = type_pointer(p->f->cx, t->dtype);
    Op *ring = build_op(b, OP_RING, 0, NULL, 1, &pointer);
    ring->attr[0] = g->slots;
    ring->attr[1] = r->box->dims[0].dim;
    ring->dim_count = 2;
    ring->dims = NEW_N(p->f->cx->arena, int64_t, 2);
    for (int d = 0; d < 2; d++) ring->dims[d] = t->shape[d];
    ring->span = r->load->span;
    *handle = ring->out[0];
    (*handle)->name = r->load->out[0]->name;
  }
  r->handle = *handle;
}

/* The map of a ring's tiles, and what a launch must check. */
static void make_map(Specialize *p, Builder *b, Ring *r) {
  RegularTile *box = r->box;
  PolySpace *s = box->space;
  b->span = r->load->span;
  Value *in[2 * REGULAR_DIMS], *base = box->base;
  int64_t none;
  if (!poly_is_int(box->offset, &none) || none)
    base = build_addptr(b, base, poly_build(s, b, box->offset, DT_I64, true));
  in[0] = base;
  for (int d = 0; d < box->count; d++) {
    const RegularDim *dim = &box->dims[d];
    in[1 + d] = dim->size ? poly_build(s, b, dim->size, DT_I64, true)
                          : build_int(b, type_number(p->f->cx, DT_I64), (int64_t)1 << 31);
    if (d) in[box->count + d] = poly_build(s, b, dim->stride, DT_I64, true);
  }
  const Type *t = type_pointer(p->f->cx, r->load->out[0]->type->dtype);
  Op *map = build_op(b, OP_TENSOR_MAP, 2 * box->count, in, 1, &t);
  map->dim_count = box->count;
  map->dims = NEW_N(p->f->cx->arena, int64_t, box->count);
  for (int d = 0; d < box->count; d++) map->dims[d] = box->dims[d].box;
  r->map = map->out[0];
  for (int i = 0; i < s->conditions.n; i++) {
    const PolyCondition *c = &s->conditions.at[i];
    const Type *wide = type_number(p->f->cx, DT_I64);
    Value *v = poly_build(s, b, c->of, DT_I64, true), *holds;
    if (c->need == POLY_AT_LEAST) holds = build_cmp(b, CMP_GE, v, build_int(b, wide, c->number));
    else holds = build_cmp(b, CMP_EQ, build_binary(b, OP_REM, v, build_int(b, wide, c->number)), build_int(b, wide, 0));
    build_op(b, OP_REQUIRE, 1, &holds, 0, NULL);
  }
}

/* The producer waits for the slot, and fills it: with the box, or (is_none) with zeros. */
static void build_copy(Specialize *p, Builder *b, const Ring *r, Place at, bool is_none) {
  RegularTile *box = r->box;
  b->span = r->load->span;
  Value *in[4 + REGULAR_DIMS] = {r->map, r->handle, at.slot}, *exists = NULL;
  Value *wait[] = {r->handle, at.slot, build_binary(b, OP_XOR, at.parity, number(p, b, 1))};
  build_op(b, OP_RING_EMPTY, 3, wait, 0, NULL);
  for (int g = 0; g < box->guard_count && !is_none; g++)
    exists = exists ? build_binary(b, OP_AND, exists, box->guards[g]) : box->guards[g];
  in[3] = build_int(b, type_number(p->f->cx, DT_I1), 1);
  for (int d = 0; d < box->count; d++)
    in[4 + d] = is_none ? number(p, b, d ? 0 : OUTSIDE) : poly_build(box->space, b, box->dims[d].start, DT_I32, false);
  if (exists) in[4] = build_select(b, exists, in[4], number(p, b, OUTSIDE)); /* zeros */
  build_op(b, OP_RING_TENSOR, 4 + box->count, in, 0, NULL);
}

static Place next_place(Specialize *p, Builder *b, const Group *g, Place at) {
  Value *one = number(p, b, 1), *next = build_binary(b, OP_ADD, at.slot, one),
        *wraps = build_cmp(b, CMP_EQ, next, number(p, b, g->slots));
  return (Place){build_select(b, wraps, number(p, b, 0), next),
                 build_select(b, wraps, build_binary(b, OP_XOR, at.parity, one), at.parity)};
}

static Value *slot_before(Specialize *p, Builder *b, const Group *g, Value *slot) {
  Value *is_first = build_cmp(b, CMP_EQ, slot, number(p, b, 0));
  return build_select(b, is_first, number(p, b, g->slots - 1), build_binary(b, OP_SUB, slot, number(p, b, 1)));
}

static void wait_full(Builder *b, const Ring *r, Place at) {
  build_op(b, OP_RING_FULL, 3, (Value *[]){r->handle, at.slot, at.parity}, 0, NULL);
}

static void free_slot(Builder *b, const Ring *r, Value *slot) {
  build_op(b, OP_RING_FREE, 2, (Value *[]){r->handle, slot}, 0, NULL);
}

static bool is_async(const Loop *l, const Op *dot) {
  for (int i = 0; i < l->dot_count; i++)
    if (l->dots[i] == dot) return true;
  return false;
}

/* The last operation of the body that takes v or a transpose of it; *async: an asynchronous dot does. */
static Op *last_use(const Loop *l, Value *v, bool *async) {
  stack_guard();
  Op *last = NULL;
  for (Op *op = l->op->body[0]->first; op; op = op->next)
    for (int i = 0; i < op->in_count; i++) {
      if (op->in[i] != v) continue;
      *async |= is_async(l, op);
      Op *use = op->code == OP_TRANS ? last_use(l, op->out[0], async) : op;
      if (!last) last = use;
      for (Op *x = last; x; x = x->next)
        if (x == use) last = use;
    }
  return last;
}

static Builder branch_on(Builder *b, Value *cond) {
  Op *branch = build_op(b, OP_IF, 1, &cond, 0, NULL);
  Builder inside = {.func = b->func, .span = b->span};
  for (int i = 0; i < 2; i++) {
    Builder body = {.func = b->func, .block = block_create(b->func, branch), .span = b->span};
    build_yield(&body, 0, NULL);
    if (!i) inside.block = body.block, inside.before = body.block->last;
  }
  return inside;
}

typedef struct Replace {
  Value *old, *by;
  const Op *but;
} Replace;

static void replace_use(Op *op, void *arg) {
  const Replace *r = arg;
  for (int i = 0; i < op->in_count && op != r->but; i++)
    if (op->in[i] == r->old) op->in[i] = r->by;
}

/* Dots in flight: a wait at the body's end frees the tiles of the iteration before, one behind the loop the last ones.
 */
static void fly(Specialize *p, Loop *l, Value *slot, Ring *const *late, int late_count) {
  Func *f = p->f;
  Op *loop = l->op;
  Block *body = loop->body[0];
  const Group *g = &p->groups[l->group];
  bool down = loop_leads_down(loop);
  Builder end = {.func = f, .block = body, .before = body->last, .span = loop->span};
  Op *wait = build_op(&end, OP_DOT_WAIT, 0, NULL, 0, NULL);
  wait->attr[0] = l->dot_count;
  Value *later = build_cmp(&end, CMP_NE, body->args[0], loop->in[0]), *before = slot_before(p, &end, g, slot);
  Builder inside = branch_on(&end, later);
  for (int i = 0; i < late_count; i++) free_slot(&inside, late[i], before);
  Builder after = {.func = f, .block = loop->block, .before = loop->next, .span = loop->span};
  for (int i = 0; i < l->dot_count; i++) {
    Value *out = loop->out[l->dots[i]->in[2]->index - 1];
    l->dots[i]->attr[1] = 1;
    wait = build_op(&after, OP_DOT_WAIT, 1, &out, 1, &out->type);
    Replace r = {out, wait->out[0], wait};
    tile_walk(f->body, replace_use, &r);
  }
  Value *ran = build_cmp(&after, down ? CMP_GT : CMP_LT, loop->in[0], loop->in[1]);
  before = slot_before(p, &after, g, loop->out[slot->index - 1]);
  inside = branch_on(&after, ran);
  for (int i = 0; i < late_count; i++) free_slot(&inside, late[i], before);
}

static Place carry_place(Specialize *p, Op *loop, Place at) {
  return (Place){control_carry(p->f, loop, at.slot, at.slot), control_carry(p->f, loop, at.parity, at.parity)};
}

/* The loop hands on `next`; where it ends. */
static Place yield_place(Op *loop, Place at, Place next) {
  loop->body[0]->last->in[at.slot->index - 1] = next.slot;
  loop->body[0]->last->in[at.parity->index - 1] = next.parity;
  return (Place){loop->out[at.slot->index - 1], loop->out[at.parity->index - 1]};
}

static Value *put_read(Builder *b, const Ring *r, Value *slot) {
  Op *read = build_op(b, OP_RING_READ, 2, (Value *[]){r->handle, slot}, 1, &r->load->out[0]->type);
  read->out[0]->name = r->load->out[0]->name;
  return read->out[0];
}

/* The dot ahead is the next iteration's. Its own tiles come a place later than the iteration's; the first one's before
 * the loop, and after the last one's come zeros, which it takes and nobody reads. */
static void put_ahead(Specialize *p, Loop *l, Place first, Place next) {
  Func *f = p->f;
  Op *loop = l->op, *dot = l->ahead, *use = ahead_first_step(loop->body[0], dot), *last = dot;
  for (Op *op = dot; op; op = op->next)
    if (op->code == OP_DOT) last = op;
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = dot->span};
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].is_ahead) wait_full(&before, &l->rings[i], first);
  Value *carried = ahead_step(&before, use, dot, ahead_dot(&before, loop->body[0], dot, first.slot, false));
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].is_ahead) free_slot(&before, &l->rings[i], first.slot);
  Op *place = NULL; /* behind the waits of its tiles */
  for (Op *op = loop->body[0]->first; op; op = op->next)
    for (int i = 0; i < l->ring_count && op->code == OP_RING_FULL; i++)
      if (l->rings[i].is_ahead && op->in[0] == l->rings[i].handle) place = op->next;
  Builder top = {.func = f, .block = loop->block, .span = dot->span};
  top.block = loop->body[0], top.before = place;
  Value *result = ahead_dot(&top, loop->body[0], dot, next.slot, true);
  Builder after = {.func = f, .block = loop->body[0], .before = last->next, .span = dot->span};
  Op *wait = build_op(&after, OP_DOT_WAIT, 1, &result, 1, &result->type);
  Value *then = ahead_step(&after, use, dot, wait->out[0]);
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].is_ahead) free_slot(&after, &l->rings[i], next.slot);
  carried = control_carry(f, loop, carried, then);
  Op *old = use ? use : dot;
  carried->name = old->out[0]->name;
  value_replace(old->out[0], carried);
  op_remove(old);
  if (use) op_remove(dot);
}

static void put_rings(Specialize *p, Loop *l) {
  Func *f = p->f;
  Group *g = &p->groups[l->group];
  Block *body = l->op->body[0];
  Place at[2], first = g->at[1], next = {NULL};
  Ring *late[MAX_RINGS];
  int late_count = 0;
  for (int t = 0; t < g->tracks; t++) at[t] = carry_place(p, l->op, g->at[t]);
  Builder top = {.func = f, .block = body, .before = body->first, .span = l->op->span};
  if (l->ahead) next = next_place(p, &top, g, at[1]);
  for (int i = 0; i < l->ring_count; i++) {
    Ring *r = &l->rings[i];
    bool async = false;
    Op *last = last_use(l, r->load->out[0], &async);
    Builder here = {.func = f, .block = body, .before = r->load, .span = r->load->span};
    Place own = at[r->is_ahead];
    build_copy(p, &here, r, own, false);
    wait_full(&here, r, r->is_ahead ? next : own);
    value_replace(r->load->out[0], put_read(&here, r, own.slot));
    Builder behind = {.func = f, .block = body, .before = last->next, .span = last->span};
    if (async) late[late_count++] = r;
    else if (!r->is_ahead) free_slot(&behind, r, own.slot);
  }
  tile_resolve(f);
  for (int i = 0; i < l->ring_count; i++) op_remove(l->rings[i].load);
  if (l->ahead) put_ahead(p, l, first, next);
  Builder end = {.func = f, .block = body, .before = body->last, .span = l->op->span};
  for (int t = 0; t < g->tracks; t++) g->at[t] = yield_place(l->op, at[t], next_place(p, &end, g, at[t]));
  if (late_count) fly(p, l, at[0].slot, late, late_count);
  if (!l->ahead) return;
  Builder after = {.func = f, .block = l->op->block, .before = l->op->next, .span = l->op->span};
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].is_ahead) build_copy(p, &after, &l->rings[i], g->at[1], true);
  g->at[1] = next_place(p, &after, g, g->at[1]);
}

static bool uses(const Op *op, const Value *v) {
  stack_guard();
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i] == v || (op->in[i]->def && op->in[i]->def->code == OP_TRANS && op->in[i]->def->in[0] == v))
      return true;
  for (int i = 0; i < 2; i++)
    for (const Op *inner = op->body[i] ? op->body[i]->first : NULL; inner; inner = inner->next)
      if (uses(inner, v)) return true;
  return false;
}

/* It is free behind the last operation beside it that takes it, or holds one that does. */
static void put_single(Specialize *p, Single *single) {
  Ring *r = &single->ring;
  Group *g = &p->groups[single->group];
  Op *load = r->load, *last = load;
  for (Op *op = load->next; op; op = op->next)
    if (uses(op, load->out[0])) last = op;
  Builder here = {.func = p->f, .block = load->block, .before = load, .span = load->span};
  Place at = g->at[0];
  build_copy(p, &here, r, at, false);
  wait_full(&here, r, at);
  value_replace(load->out[0], put_read(&here, r, at.slot));
  g->at[0] = next_place(p, &here, g, at);
  Builder behind = {.func = p->f, .block = load->block, .before = last->next, .span = load->span};
  free_slot(&behind, r, at.slot);
  tile_resolve(p->f);
  op_remove(load);
}

static Single *single_of(Specialize *p, const Op *op) {
  for (int i = 0; i < p->single_count; i++)
    if (p->singles[i].ring.load == op) return &p->singles[i];
  return NULL;
}

static Loop *loop_of(Specialize *p, const Op *op) {
  for (int i = 0; i < p->loop_count; i++)
    if (p->loops[i].op == op) return &p->loops[i];
  return NULL;
}

static bool is_inside(const Op *inner, const Op *op) {
  for (; inner; inner = inner->block->parent)
    if (inner == op) return true;
  return false;
}

static bool holds_group(const Specialize *p, const Op *op, int group) {
  for (int i = 0; i < p->single_count; i++)
    if (p->singles[i].group == group && is_inside(p->singles[i].home->parent, op)) return true;
  for (int i = 0; i < p->loop_count; i++) {
    if (p->loops[i].group == group && is_inside(p->loops[i].op, op)) return true;
  }
  return false;
}

static void thread_block(Specialize *p, Block *b);

/* The groups' places go through a loop as carried values, through a branch as its results. */
static void thread_for(Specialize *p, Op *loop) {
  Place of[MAX_GROUPS][2] = {{{NULL}}};
  for (int g = 0; g < p->group_count; g++)
    for (int t = 0; t < p->groups[g].tracks && holds_group(p, loop, g); t++)
      of[g][t] = p->groups[g].at[t] = carry_place(p, loop, p->groups[g].at[t]);
  thread_block(p, loop->body[0]);
  for (int g = 0; g < p->group_count; g++)
    for (int t = 0; t < 2 && of[g][t].slot; t++) p->groups[g].at[t] = yield_place(loop, of[g][t], p->groups[g].at[t]);
}

static void thread_if(Specialize *p, Op *branch) {
  Place before[MAX_GROUPS][2], ends[2][MAX_GROUPS][2];
  for (int g = 0; g < p->group_count; g++) memcpy(before[g], p->groups[g].at, sizeof before[g]);
  for (int i = 0; i < 2; i++) {
    thread_block(p, branch->body[i]);
    for (int g = 0; g < p->group_count; g++) {
      memcpy(ends[i][g], p->groups[g].at, sizeof ends[i][g]);
      memcpy(p->groups[g].at, before[g], sizeof before[g]);
    }
  }
  for (int g = 0; g < p->group_count; g++)
    for (int t = 0; t < p->groups[g].tracks && holds_group(p, branch, g); t++)
      p->groups[g].at[t] = (Place){control_result(p->f, branch, ends[0][g][t].slot, ends[1][g][t].slot),
                                   control_result(p->f, branch, ends[0][g][t].parity, ends[1][g][t].parity)};
}

static void thread_block(Specialize *p, Block *b) {
  stack_guard();
  for (Op *op = b->first, *next; op; op = next) {
    next = op->next;
    Loop *l = loop_of(p, op);
    Single *single = single_of(p, op);
    if (single) put_single(p, single);
    else if (l) put_rings(p, l);
    else if (op->code == OP_FOR) thread_for(p, op);
    else if (op->code == OP_IF) thread_if(p, op);
  }
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static bool is_copy(const Op *op) { return op->code == OP_RING_TENSOR || op->code == OP_RING_EMPTY; }

static void remove_copies(Op *op, void *arg) {
  if (is_copy(op)) op_remove(op);
}

static bool holds_copy(const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    if (is_copy(op)) return true;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && holds_copy(op->body[i])) return true;
  }
  return false;
}

static void need_copies(Op *op, void *arg) {
  Specialize *p = arg;
  if (!is_copy(op)) return;
  for (int i = 0; i < op->in_count; i++) need(p, op->in[i]);
  need_around(p, op->block);
}

static bool is_needed(const Specialize *p, const Op *op) {
  for (int i = 0; i < op->out_count; i++)
    if (map_get(p->needed, op->out[i])) return true;
  return is_copy(op) || (op->body[0] && op_info[op->code].effect == EFFECT_CONTROL &&
                         (holds_copy(op->body[0]) || (op->body[1] && holds_copy(op->body[1]))));
}

/* Leaves of a block what is needed. */
static void keep_needed(Specialize *p, Block *b) {
  stack_guard();
  for (Op *op = b->last, *before; op; op = before) {
    before = op->prev;
    if (op_info[op->code].effect == EFFECT_END) continue;
    if (!is_needed(p, op)) {
      op_remove(op);
      continue;
    }
    if (op->code != OP_FOR && op->code != OP_IF) continue;
    for (int i = op->out_count - 1; i >= 0; i--)
      if (!map_get(p->needed, op->out[i]) && (op->code == OP_IF || !map_get(p->needed, op->body[0]->args[i + 1])))
        control_drop(op, i);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) keep_needed(p, op->body[i]);
  }
}

/* Clones keep what is known of integers and pointers. */
static void copy_axis(const Block *from, Block *to) {
  stack_guard();
  for (int i = 0; i < from->arg_count; i++) to->args[i]->axis = from->args[i]->axis;
  Op *twin = to->first;
  for (const Op *op = from->first; op; op = op->next, twin = twin->next) {
    for (int i = 0; i < op->out_count; i++) twin->out[i]->axis = op->out[i]->axis;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) copy_axis(op->body[i], twin->body[i]);
  }
}

static void slice(Specialize *p) {
  Func *f = p->f;
  const Type *t = type_number(f->cx, DT_I1);
  Builder b = {.func = f, .block = f->body};
  Value *computes = build_op(&b, OP_COMPUTES, 0, NULL, 1, &t)->out[0];
  Op *halves = build_op(&b, OP_IF, 1, &computes, 0, NULL);
  Block *half[2];
  for (int i = 0; i < 2; i++) half[i] = block_create(f, halves);
  for (Op *op = p->first, *next; op != computes->def; op = next) {
    next = op->next;
    op_remove(op);
    op->block = half[0];
    op->prev = half[0]->last, op->next = NULL;
    if (half[0]->last) half[0]->last->next = op;
    else half[0]->first = op;
    half[0]->last = op;
  }
  Map *twins = map_create(f->cx->arena, false);
  Builder other = {.func = f, .block = half[1]};
  for (Op *op = half[0]->first; op; op = op->next) op_clone(&other, op, twins);
  copy_axis(half[0], half[1]);
  for (int i = 0; i < 2; i++) build_yield(&(Builder){.func = f, .block = half[i]}, 0, NULL);
  tile_walk(half[0], remove_copies, NULL);
  p->needed = map_create(f->cx->arena, false);
  tile_walk(half[1], need_copies, p);
  keep_needed(p, half[1]);
}

void gpu_specialize(Func *f, const GpuOptions *o) {
  if (!gpu_specializes(f, o, &f->unspecialized)) return;
  Specialize p = {.f = f, .o = o};
  plan(&p);
  p.first = f->body->first;
  Builder top = {.func = f, .block = f->body, .before = p.first, .span = p.first->span};
  for (int i = 0; i < p.loop_count; i++)
    for (int k = 0; k < p.loops[i].ring_count; k++)
      make_ring(&p, &top, &p.loops[i].rings[k], &p.groups[p.loops[i].group], k);
  for (int i = 0; i < p.single_count; i++) make_ring(&p, &top, &p.singles[i].ring, &p.groups[p.singles[i].group], 0);
  for (int i = 0; i < p.loop_count; i++)
    for (int k = 0; k < p.loops[i].ring_count; k++) make_map(&p, &top, &p.loops[i].rings[k]);
  for (int i = 0; i < p.single_count; i++) make_map(&p, &top, &p.singles[i].ring);
  Value *zero = number(&p, &top, 0);
  for (int i = 0; i < p.group_count; i++)
    for (int t = 0; t < 2; t++) p.groups[i].at[t] = (Place){zero, zero};
  thread_block(&p, f->body);
  tile_resolve(f);
  slice(&p);
  tile_resolve(f);
  tile_dce(f);
}
