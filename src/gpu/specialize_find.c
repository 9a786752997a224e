/* Of a function: loops of products of warpgroups, their tiles that are boxes of arrays, and such tiles that come once,
 * for the products of its loops.
 */
#include "gpu/ahead.h"
#include "gpu/specialize.h"

bool specialize_refuse(Specialize *p, const char *why) {
  if (!p->why) p->why = why;
  return false;
}

/* Whether operand i of op is one of a product of warpgroups that takes it as it lies. */
static bool is_operand(const Specialize *p, const Op *op, int i, int inner) {
  Dtype as[2];
  if (op->code != OP_DOT || i > 1 || !layout_takes_wgmma(op, p->f->num_warps)) return false;
  const Type *t = op->in[i]->type;
  return layout_takes_mma(op, true, p->f->num_warps, as) && as[i] == t->dtype && layout_wgmma_takes(op, i, inner);
}

/* Whether v, whose dim `inner` is side by side in memory, goes to products of warpgroups of the body alone. */
static bool feeds_dots(const Specialize *p, const Block *body, const Value *v, int inner) {
  stack_guard();
  int uses = 0;
  for (const Op *op = body->first; op; op = op->next)
    for (int i = 0; i < op->in_count; i++) {
      if (op->in[i] != v) continue;
      bool turned = op->code == OP_TRANS && feeds_dots(p, body, op->out[0], op->dims[0] == inner ? 0 : 1);
      if (!turned && !is_operand(p, op, i, inner)) return false;
      uses++;
    }
  return uses > 0 && block_uses(body, v) == uses;
}

/* The load in the body that v is of, or a transpose of it is; NULL: v is made otherwise. */
static Op *load_of(const Value *v, const Block *body) {
  Op *op = loop_untransposed(v)->def;
  return op && op->code == OP_LOAD && op->block == body ? op : NULL;
}

bool specialize_is_tile(const Loop *l, const Value *v) {
  v = loop_untransposed(v);
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].load->out[0] == v) return true;
  return false;
}

/* A dot of two rings' tiles that adds to what the loop only carries for it. */
static bool can_be_async(const Specialize *p, const Loop *l, const Op *op) {
  return loop_carries_sum(l->op->body[0], op) && layout_flies(op, p->f->num_warps) &&
         specialize_is_tile(l, op->in[0]) && specialize_is_tile(l, op->in[1]);
}

static bool takes(const Op *dot, const Value *tile) {
  return loop_untransposed(dot->in[0]) == tile || loop_untransposed(dot->in[1]) == tile;
}

static bool is_of_ring(const Value *v, void *loop) { return specialize_is_tile(loop, v); }

/* A dot whose tiles from the loop are its own, before the last one. */
static bool can_be_ahead(const Specialize *p, Loop *l, Op *op) {
  Block *body = l->op->body[0];
  bool last = true;
  if (op->code != OP_DOT || gpu_leaves_out(p->o, "dots_ahead") || behind_is_wanted(p->f, p->o, l->op)) return false;
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
  if (!box) return specialize_refuse(p, why);
  const Type *t = load->out[0]->type;
  if (box->dims[0].box < 16 || box->dims[1].box < 16 || t->rank != 2)
    return specialize_refuse(p, "a tile is smaller than 16 by 16");
  if (!feeds_dots(p, l->op->body[0], load->out[0], box->dims[0].dim))
    return specialize_refuse(p, "a tile is taken by more than products of warpgroups");
  if (l->ring_count == MAX_RINGS || p->map_count == MAX_MAPS) return specialize_refuse(p, "it loads too many tiles");
  l->rings[l->ring_count++] = (Ring){.load = load, .box = box};
  p->map_count++;
  return true;
}

static bool holds_dot(const Block *b) {
  for (const Op *op = b->first; op; op = op->next)
    if (op->code == OP_DOT) return true;
  return false;
}

/* Tiles of later iterations come before such a write: it has to reach elsewhere. */
static bool take_write(Specialize *p, const Op *op) {
  const char *why;
  bool is_store = op->code == OP_STORE, is_atomic = op->code == OP_ATOMIC_RMW && !block_uses(p->f->body, op->out[0]);
  if ((!is_store && !is_atomic) || !op->in[1]->type->rank) return false;
  if (!p->persistent)
    return specialize_refuse(p, "a loop of products writes, and is not persistent: how far is not known");
  RegularTile *box = p->write_count < MAX_WRITES ? regular_access(p->f, op, &why) : NULL;
  if (!box || !box_end(p->f, box))
    return specialize_refuse(p, "a loop of products writes, and how far that reaches a launch does not know");
  p->write_ops[p->write_count] = (Op *)op;
  p->writes_in_loops[p->write_count++] = box;
  return true;
}

/* Writes that a launch knows to be apart from all tiles, at the loop's own level, are all the effects it has. */
static bool take_effects(Specialize *p, Block *body) {
  for (const Op *op = body->first; op; op = op->next) {
    Effect e = op_info[op->code].effect;
    bool other = op_is_volatile(op) || op_cache(op) == CACHE_CV || (e == EFFECT_SIDE && op->code != OP_SCOPE);
    for (int i = 0; i < 2; i++) other |= op->body[i] && loop_has_effects(op->body[i]);
    if (other || (e == EFFECT_WRITE && !take_write(p, op)))
      return specialize_refuse(p, "a loop of products writes, prints or waits");
  }
  return true;
}

/* A loop of products. */
static bool take_loop(Specialize *p, Op *op) {
  if (p->loop_count == MAX_LOOPS) return specialize_refuse(p, "it has too many loops of products");
  Loop *l = &p->loops[p->loop_count];
  *l = (Loop){.op = op};
  Block *body = op->body[0];
  if (op->num_stages == 1) return specialize_refuse(p, "num_stages is 1");
  if (!take_effects(p, body)) return false;
  for (Op *inner = body->first; inner; inner = inner->next) {
    if (inner->code == OP_FOR || inner->code == OP_WHILE)
      return specialize_refuse(p, "a loop of products holds another loop");
    for (int k = 0; k < 2 && inner->code == OP_DOT; k++) {
      Op *load = load_of(inner->in[k], body);
      if (load && !specialize_is_tile(l, load->out[0]) && !take_load(p, l, load)) return false;
    }
  }
  if (!l->ring_count) return specialize_refuse(p, "its products take no tiles that are loaded beside them");
  for (Op *inner = body->first; inner && l->dot_count < MAX_RINGS; inner = inner->next)
    if (can_be_async(p, l, inner)) l->dots[l->dot_count++] = inner;
  for (Op *inner = body->first; inner && !l->dot_count && !l->ahead; inner = inner->next)
    if (can_be_ahead(p, l, inner)) l->ahead = inner;
  for (int i = 0; i < l->ring_count && l->ahead; i++) l->rings[i].is_ahead = takes(l->ahead, l->rings[i].load->out[0]);
  p->asked |= (op->flags & LOOP_WARP_SPECIALIZE) != 0;
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
      if (!layout_takes_wgmma(op, p->f->num_warps)) return specialize_refuse(p, "a product is none of warpgroups");
    } else if (e == EFFECT_CONTROL) {
      for (int i = 0; i < 2; i++)
        if (op->body[i] && !take_block(p, op->body[i])) return false;
    }
    p->writes |= e == EFFECT_WRITE || op->code == OP_ASM;
    bool loops = op->code == OP_FOR || op->code == OP_WHILE;
    bool is_programs = op->body[0] && op->body[0] == p->programs;
    p->after_stores |= p->loop_count > before && (written || (loops && p->writes && !is_programs));
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

/* Whether a launch can show that no store of the function meets what it loads as tiles. */
static bool can_be_apart(Specialize *p) {
  if (!disjoint_stores(p->f, p->f->body, &p->stores)) return false;
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++)
      if (!disjoint_may_precede(&p->stores, p->loops[i].rings[k].load)) return false;
  for (int i = 0; i < p->single_count; i++)
    if (!disjoint_may_precede(&p->stores, p->singles[i].ring.load)) return false;
  return true;
}

static bool is_ring(const Specialize *p, const Op *load) {
  for (int i = 0; i < p->loop_count; i++)
    if (specialize_is_tile(&p->loops[i], load->out[0])) return true;
  return false;
}

/* Loads of the loops that write which stay where they are, as far as a launch can know where they read. */
static void find_reads(Specialize *p) {
  const char *why;
  for (int i = 0; i < p->loop_count && p->write_count; i++)
    for (const Op *op = p->loops[i].op->body[0]->first; op; op = op->next) {
      if (op->code != OP_LOAD || is_ring(p, op) || p->read_count == MAX_READS) continue;
      RegularTile *box = regular_access(p->f, op, &why);
      if (box && box_end(p->f, box)) p->reads_in_loops[p->read_count++] = box;
    }
}

static bool loops_can_be_apart(Specialize *p) {
  bool known = true;
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++) known &= box_end(p->f, p->loops[i].rings[k].box) != NULL;
  for (int i = 0; i < p->single_count; i++) known &= box_end(p->f, p->singles[i].ring.box) != NULL;
  return known || !p->write_count
             ? true
             : specialize_refuse(p, "a loop of products writes, and how far its tiles reach a launch does not know");
}

/* Whether some launches of other sizes cannot make its map: what is aligned, or divides, is not known. */
static bool is_conditional(const RegularTile *box) {
  bool any = false;
  for (int i = 0; i < (int)box->space->conditions.n; i++) any |= box->space->conditions.at[i].need != POLY_AT_LEAST;
  return any;
}

/* A tile of one dim that the loop loads. */
static void take_row(Specialize *p, Loop *l, Op *load) {
  const char *why;
  const Type *t = load->out[0]->type;
  int64_t bytes = t->rank == 1 && !t->ptr ? type_numel(t) * type_elem_bytes(t) : 0;
  if (bytes < 64 || bytes > MAX_ROW_BYTES || type_numel(t) > 256 || l->ring_count == MAX_RINGS) return;
  RegularTile *box = p->map_count + p->write_count < MAX_MAPS ? regular_tile(p->f, load, &why) : NULL;
  if (!box || box->dims[0].dim != 0 || is_conditional(box) || (p->write_count && !box_end(p->f, box))) return;
  l->rings[l->ring_count++] = (Ring){.load = load, .box = box, .is_row = true};
  p->map_count++;
}

void specialize_take_rows(Specialize *p) {
  for (int i = 0; i < p->loop_count && !p->after_stores && !gpu_leaves_out(p->o, "row_rings"); i++)
    for (Op *op = p->loops[i].op->body[0]->first; op; op = op->next)
      if (op->code == OP_LOAD && !is_ring(p, op)) take_row(p, &p->loops[i], op);
  p->read_count = 0;
  find_reads(p);
}

void specialize_drop_rows(Specialize *p) {
  for (int i = 0; i < p->loop_count; i++)
    for (Loop *l = &p->loops[i]; l->ring_count && l->rings[l->ring_count - 1].is_row; p->map_count--) l->ring_count--;
  p->read_count = p->group_count = 0;
  memset(p->groups, 0, sizeof p->groups);
  find_reads(p);
  p->needed = map_create(p->f->cx->arena, false);
  p->why = NULL;
}

bool specialize_find(Specialize *p) {
  if (!take_block(p, p->f->body)) return false;
  if (!p->loop_count) return specialize_refuse(p, "it has no loop of products");
  choose_singles(p);
  if (!loops_can_be_apart(p)) return false;
  if (!p->after_stores || can_be_apart(p)) return true;
  return specialize_refuse(p, "it writes before it loads tiles, and that may be what it loads");
}
