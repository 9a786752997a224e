/* Tiles that neighbouring blocks share, in a cluster (sm_90a): each of them brings a part, and all get it.
 *
 *     programs 2n and 2n + 1 of a matmul in groups of rows of tiles       a   b
 *     first_m + n % group % rows,  n % group / rows                 ->   [0] [0]   program 0
 *                                                                        [1] [0]   program 1: the same tile of b
 *
 * What a multiprocessor gets from L2 a cycle is less than its products take, if tiles are small. A tile that two of
 * them take crosses that way once: half of it is asked for by each block, and goes to both (lower/tensor.c).
 *
 * Which programs are neighbours: a launch makes clusters of the blocks 2n and 2n + 1 where the grid's x is even, and so
 * are the blocks then. A persistent kernel's blocks take programs of a round in order or in reverse (gpu/persist.c);
 * either way the two have x and x ^ 1, the same y and z, and as many programs as each other. Both walk the same
 * iterations, if no bound and no condition around them depends on x; so a slot's number is the same in both.
 *
 * Whether they share a tile: its box begins at the same place for x and for x ^ 1. Where that does not depend on x it
 * is known. Else the copying warp computes it for both and compares, before each loop: where a group of rows is odd,
 * some neighbours take different tiles, and each of them brings its own. So it need not hold for all; that it holds
 * mostly is read from the index: x goes into it through a division alone (n % group / rows), not as it is.
 *
 * A slot is empty when the warps of all blocks have read it, whether they shared the tile or not. Before a block ends
 * its copying warp waits for all slots once more: nothing comes to it then (CUTLASS's producer tail).
 */
#include "gpu/specialize.h"

enum { ATOMS = 16, SWIZZLED_ROWS = 8, PANEL_BYTES = 128, MOST_WARPS = 32, COPYING_WARPS = 4, SHARED_COORDINATES = 4 };

/* ---- what depends on the program's x ----------------------------------------------------------------------------- */

static const bool answers[] = {false, true};

/* What fn says of v, which is asked once of each value. */
static bool once(const Specialize *p, Map *known, const Value *v, bool (*fn)(const Specialize *p, const Value *v)) {
  const bool *answer = map_get(known, v);
  if (!answer) map_put(known, v, (void *)(answer = &answers[fn(p, v)]));
  return *answer;
}

static bool find_dependence(const Specialize *p, const Value *v);
static bool depends(const Specialize *p, const Value *v) { return once(p, p->by_x, v, find_dependence); }

/* Not known of carried values and results of branches: taken to. */
static bool find_dependence(const Specialize *p, const Value *v) {
  stack_guard();
  const Op *op = v->def;
  int axis = loop_program_axis(p->f, v);
  if (axis >= 0) return axis == 0;
  if (!op) {
    const Op *loop = v->block->parent;
    if (!loop) return false;
    if (v->index || loop->code != OP_FOR || loop_runs_programs(p->f, loop)) return true;
    for (int i = 0; i < 3; i++)
      if (depends(p, loop->in[i])) return true;
    return false;
  }
  if (op_info[op->code].effect != EFFECT_PURE || op->body[0] || op->code == OP_PROGRAM_ID) return true;
  for (int i = 0; i < op->in_count; i++)
    if (depends(p, op->in[i])) return true;
  return false;
}

static bool find_sameness(const Specialize *p, const Value *v);
/* Whether it is the same for most neighbours. */
static bool is_mostly_same(const Specialize *p, const Value *v) { return once(p, p->mostly_same, v, find_sameness); }

static bool find_sameness(const Specialize *p, const Value *v) {
  stack_guard();
  const Op *op = v->def;
  int64_t by;
  if (!depends(p, v)) return true;
  if (!op || loop_program_axis(p->f, v) >= 0 || op->body[0]) return false;
  bool divides = op->code == OP_DIV && !(value_is_const(op->in[1], &by) && by < 2);
  for (int i = divides; i < op->in_count; i++)
    if (!is_mostly_same(p, op->in[i])) return false;
  return op->in_count > 0;
}

/* Whether v is there before the loop. */
static bool is_before(const Value *v, const Op *loop) {
  for (const Block *b = loop->block; b; b = b->parent ? b->parent->block : NULL)
    if (b == value_block(v)) return true;
  return false;
}

typedef struct Atoms { /* that depend on x, of where a box begins */
  Value *at[ATOMS];
  int count;
  bool unknown;
} Atoms;

static void add_atom(const Specialize *p, const Loop *l, Value *v, Atoms *a) {
  if (!depends(p, v)) return;
  for (int i = 0; i < a->count; i++)
    if (a->at[i] == v) return;
  if (a->count == ATOMS || !is_before(v, l->op)) a->unknown = true;
  else a->at[a->count++] = v;
}

static void find_atoms(const Specialize *p, const Loop *l, const PolySpace *s, const Poly *x, Atoms *a) {
  stack_guard();
  for (int i = 0; i < x->count; i++)
    for (int k = 0; k < x->at[i].count; k++) {
      const PolyAtom *atom = &s->atoms.at[x->at[i].atoms[k]];
      if (atom->kind == ATOM_VALUE) add_atom(p, l, atom->value, a);
      if (atom->kind == ATOM_REM) find_atoms(p, l, s, atom->x, a), find_atoms(p, l, s, atom->y, a);
      if (atom->kind == ATOM_TRIP && loop_runs_programs(p->f, atom->loop)) a->unknown = true;
    }
}

static Atoms atoms_of(const Specialize *p, const Loop *l, const RegularTile *box) {
  Atoms a = {.count = 0};
  for (int d = 0; d < box->count; d++) find_atoms(p, l, box->space, box->dims[d].start, &a);
  for (int g = 0; g < box->guard_count; g++) add_atom(p, l, box->guards[g], &a);
  return a;
}

/* ---- which tiles ------------------------------------------------------------------------------------------------- */

/* Whether each block has a part of whole boxes, whose rows the hardware's swizzle takes 8 at a time. */
static int parts_of(const Specialize *p, const RegularTile *box, const Type *t) {
  int64_t panels = (int64_t)box->dims[0].box * type_elem_bytes(t) / PANEL_BYTES;
  if (panels && panels % p->cluster == 0) return 1;
  return box->dims[1].box % (SWIZZLED_ROWS * p->cluster) == 0 ? p->cluster : 0;
}

/* Products read it from where it lies; a thread's loads would have to be done before another block hears of it. */
static bool can_share(const Specialize *p, const Loop *l, const Ring *r) {
  const Type *t = r->load->out[0]->type;
  if (r->is_row || t->rank != 2 || type_elem_bytes(t) > 2 || r->box->count > SHARED_COORDINATES) return false;
  if (!parts_of(p, r->box, t)) return false;
  Atoms a = atoms_of(p, l, r->box);
  for (int i = 0; i < a.count; i++)
    if (!is_mostly_same(p, a.at[i])) return false;
  return !a.unknown;
}

/* Whether both blocks walk the same iterations. */
static bool is_in_step(const Specialize *p, const Block *body) {
  for (const Op *op = body->parent; op; op = op->block->parent) {
    if (loop_runs_programs(p->f, op)) return true;
    for (int i = 0; i < (op->code == OP_FOR ? 3 : 1); i++)
      if (depends(p, op->in[i])) return false;
  }
  return false;
}

/* Whether an iteration's tiles take L2 about as long as its products. */
static bool gains(const Specialize *p, const Loop *l) {
  const GpuTarget *t = p->o->target;
  double tiles = 0, products = 0;
  for (int i = 0; i < l->ring_count; i++) {
    const Type *tile = l->rings[i].load->out[0]->type;
    tiles += (double)(type_numel(tile) * type_elem_bytes(tile)) / GPU_L2_BYTES;
  }
  for (const Op *op = l->op->body[0]->first; op; op = op->next) {
    if (op->code != OP_DOT) continue;
    const Type *a = op->in[0]->type;
    products += (double)(type_numel(op->out[0]->type) * a->shape[1] * type_elem_bytes(a)) / (2 * t->machine.tensor);
  }
  return 16 * tiles >= t->budgets->clustered * products;
}

/* Whether somebody asks for it, or it is faster. */
static bool is_wanted(const Specialize *p) {
  bool gain = p->f->num_ctas > 1;
  for (int i = 0; i < p->loop_count && p->o->target->budgets->clustered; i++)
    gain |= p->loops[i].dot_count && gains(p, &p->loops[i]);
  return gain;
}

static const char *refusal(Specialize *p) {
  const Func *f = p->f;
  bool any = false;
  if (gpu_leaves_out(p->o, "clusters")) return "they are left out";
  if (!f->persistent) return "a block runs one program";
  if ((f->num_warps + COPYING_WARPS) * p->cluster > MOST_WARPS) return "its blocks have too many warps";
  for (int i = 0; i < p->loop_count; i++)
    if (!is_in_step(p, p->loops[i].op->body[0])) return "how often its loops run depends on the program";
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++)
      any |= p->loops[i].rings[k].is_shared = can_share(p, &p->loops[i], &p->loops[i].rings[k]);
  return any ? NULL : "neighbours take different tiles, as far as their indices say";
}

void specialize_choose_cluster(Specialize *p) {
  if (!is_wanted(p)) return;
  p->cluster = p->o->target->budgets->cluster;
  p->by_x = map_create(p->f->cx->arena, false);
  p->mostly_same = map_create(p->f->cx->arena, false);
  p->f->unclustered = refusal(p);
  if (!p->f->unclustered) return;
  p->cluster = 0;
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++) p->loops[i].rings[k].is_shared = false;
}

/* ---- what is built ----------------------------------------------------------------------------------------------- */

void specialize_share_ring(Specialize *p, const Ring *r) {
  if (!r->is_shared) return;
  Op *map = r->map->def;
  int parts = parts_of(p, r->box, r->load->out[0]->type);
  r->handle->def->cluster = p->cluster;
  if (parts > 1) map->parts = parts;
}

/* v of the program whose x is xor'ed with `other`. */
static Value *of_other(Specialize *p, Builder *b, Value *v, int other, Map *made) {
  stack_guard();
  Value *known = map_get(made, v);
  if (known) return known;
  if (!depends(p, v)) return v;
  if (loop_program_axis(p->f, v) == 0) {
    known = build_binary(b, OP_XOR, v, build_int(b, v->type, other));
    known->axis = v->axis;
    map_put(made, v, known);
    return known;
  }
  for (int i = 0; i < v->def->in_count; i++) {
    Value *in = v->def->in[i], *of = of_other(p, b, in, other, made);
    if (of != in) map_put(made, in, of);
  }
  loop_clone(b, v->def, made, made);
  return map_get(made, v);
}

Value *specialize_is_same(Specialize *p, Builder *b, const Loop *l, const Ring *r) {
  Value *same = build_int(b, type_number(p->f->cx, DT_I1), r->is_shared);
  if (!r->is_shared) return same;
  Atoms a = atoms_of(p, l, r->box);
  for (int other = 1; other < p->cluster; other++) {
    Map *made = map_create(p->f->cx->arena, false);
    for (int i = 0; i < a.count; i++) {
      Value *equal = build_cmp(b, CMP_EQ, a.at[i], of_other(p, b, a.at[i], other, made));
      same = i || other > 1 ? build_binary(b, OP_AND, same, equal) : equal;
    }
  }
  return same;
}

/* At the function's end: until all have read what this block has sent. */
void specialize_wait_for_readers(Specialize *p, Builder *b, const Group *g, const Ring *r) {
  RingPlace at = g->at[r->is_ahead];
  for (int i = 0; i < g->slots && r->handle->def->cluster; i++) {
    Value *one = build_int(b, at.parity->type, 1);
    Value *wait[] = {r->handle, at.slot, build_binary(b, OP_XOR, at.parity, one)};
    build_op(b, OP_RING_EMPTY, 3, wait, 0, NULL);
    at = ring_next(b, g->slots, at);
  }
}
