/* Tiles that products take are copied to shared memory while products of earlier iterations run.
 *
 *     for %i = %lb to %ub step %s             %r = ring {slots=4}
 *       %a = load %p(%i)                      ring_copy %p(%lb), slot 0; ring_commit; ... as far ahead as `distance`
 *       ... %d = dot %a, ...          ->      for %i ... carrying the slot, and what %p is made of, `distance` ahead
 *                                               ring_wait {pending=distance-1}
 *                                               %a = ring_read %r, slot
 *                                               ... %d = dot %a, ...
 *                                               ring_copy %p(%i + distance * %s), another slot; ring_commit
 *
 * A copy passes registers by, so that as many may be in flight as there is shared memory for. The one after the last
 * iteration's fills its slot with zeros (gpu/dots_ahead.c reads that); after it there are none: a branch, over which
 * the assembler moves no products either. Taken are loads of tiles whose results go to dots on tensor cores alone, as
 * they lie, transposed or not, in runs of 4 bytes at least, with addresses and masks that are known ahead: pure
 * arithmetic on the loop's variable, on what comes from outside, and on carried values that advance by such arithmetic
 * themselves; and on what such addresses hold (tables of pages, lists of rows), as nobody writes meanwhile: it is read
 * again, ahead, where there is such an iteration. Loops that wait or hold loops are left alone, and what a loop stores
 * must lie apart from what is read ahead (gpu/disjoint.h); num_stages=1, of the loop or the launch, forbids it.
 *
 * Of the loop of a product, tiles and rows that go through arithmetic, too (a decay, a scale), or to others than dots:
 * those each thread copies for itself, and reads again (ring_load) in the layout of the load, without a barrier, where
 * registers do not hold them (prefetch.c). They cost no registers while they are under way, but shared memory, of which
 * a few blocks are to find enough. Addresses are not made of them (those tables are read ahead, see above).
 *
 * By tensor maps. Where such a tile is a box of an array (tile/analysis/regular.h) that the kernel has not written, one
 * thread asks for all of it, and threads compute no addresses: ring_tensor instead of ring_copy, ring_full beside the
 * ring_wait, and (ring_drain) what was asked for and not waited for is waited for after a loop inside others. A slot's
 * phase goes with its number, through loops around too. Conditions on arguments are the launch's to check (`require`).
 *
 * A tile that is loaded once, before the loop, for its dots alone, comes by a map as well, to a ring of one slot: else
 * it would go from registers to shared memory in each iteration.
 *
 * Slots. What slot the next copy goes into, nobody may still read. All threads meet at the ring_wait: the iterations
 * before it are over. So with `slots` of them
 *
 *     dots that are waited for      the copy stands after the ring_wait, distance slots - 1
 *     those to tensor memory        the copy stands after the dots and a wait for those of the iteration before
 *                                   (gpu/tmem.c), distance slots - 1
 *     tiles of a short loop         as many slots as iterations: all copies stand before it, distance slots
 *     asynchronous ones             wgmma that adds to an accumulator which the loop only carries is waited for an
 *                                   iteration later: the ring_wait knows the iterations before the last one to be
 *                                   over. The copy stands after the dots, distance slots - 2
 *     the same, no slot to spare    where another slot would keep a block out: all threads meet once more, after the
 *                                   dots and the wait for those of the iteration before, whose slot is free then:
 *                                   distance slots - 1
 */
#include "gpu/disjoint.h"
#include "gpu/launch_plan.h"
#include "gpu/tmem.h"

enum { MAX_COPIED = 96, MAX_RINGS = 16, MAX_AROUND = 8 };

typedef struct Ring {
  Op *load;
  int inner; /* dim */
  bool own;  /* threads read what they copy */
  int64_t bytes;
  Value *handle;
  RegularTile *box; /* that a tensor map brings; NULL: none does */
  Value *from[REGULAR_DIMS], *map;
} Ring;

typedef struct AsyncLoads {
  Func *f;
  const GpuOptions *o;
  Op *loop;
  Block *body;
  DisjointStores stores; /* the loop's */
  Ring rings[MAX_RINGS], singles[MAX_RINGS];
  int ring_count, single_count;
  VEC(const Op *) tables; /* loads that addresses and masks are made of */
  int *needed;            /* indices of carried values that addresses and masks are made of */
  int needed_count;
  Op *dots[MAX_RINGS]; /* asynchronous ones */
  int dot_count;
  bool tmem; /* they add to tensor memory, of which so many columns */
  int64_t columns;
  int slots, distance;
  bool all;       /* tiles come before the loop: it has no more iterations than slots */
  bool late_maps; /* tiles come by tensor maps only where threads cannot copy them */
  bool meets;     /* dots are in flight, and have no slot to spare: threads meet before they copy */
  Builder b;      /* where copies are made */
  Value *exists;  /* whether there is the iteration that they are for */
  Map *known;
} AsyncLoads;

static bool in_body(const AsyncLoads *p, const Value *v) { return value_block(v) == p->body; }

/* ---- what is taken ----------------------------------------------------------------------------------------------- */

static bool note_needed(AsyncLoads *p, int carried) {
  for (int i = 0; i < p->needed_count; i++)
    if (p->needed[i] == carried) return false;
  p->needed[p->needed_count++] = carried;
  return true;
}

/* Whether v can be computed ahead; notes the carried values that it takes, and theirs. Those must be known beyond the
 * last iteration too, where nothing is read. */
static bool can_compute(AsyncLoads *p, const Value *v, bool may_read, int *left) {
  stack_guard();
  if (!in_body(p, v)) return true;
  if (--*left < 0) return false;
  if (!v->def) {
    int carried = v->index - 1;
    return carried < 0 || !note_needed(p, carried) || can_compute(p, p->body->last->in[carried], false, left);
  }
  const Op *op = v->def;
  bool reads = op->code == OP_LOAD && !op_is_volatile(op);
  if (reads && !disjoint_may_precede(&p->stores, op)) return false;
  if (reads) vec_push(p->f->cx->arena, &p->tables, op);
  if (reads ? !may_read : op_info[op->code].effect != EFFECT_PURE || op->body[0]) return false;
  for (int i = 0; i < op->in_count; i++)
    if (!can_compute(p, op->in[i], may_read, left)) return false;
  return true;
}

static int inner_before(const Op *trans, int inner) {
  return trans->dims[0] == inner ? 0 : 1;
} /* of its result, by its operand's */

/* Whether an operation in a body of op takes v. */
static bool takes_inside(const Op *op, const Value *v) {
  stack_guard();
  for (int i = 0; i < 2; i++)
    for (const Op *inner = op->body[i] ? op->body[i]->first : NULL; inner; inner = inner->next) {
      for (int k = 0; k < inner->in_count; k++)
        if (inner->in[k] == v) return true;
      if (takes_inside(inner, v)) return true;
    }
  return false;
}

/* Whether everything that takes v, whose neighbours along the dim `inner` lie side by side in memory, is a dot of the
 * body, as an operand that can be copied as it is, or a transpose of which that holds. */
static bool goes_to_dots(const AsyncLoads *p, const Value *v, int inner) {
  stack_guard();
  int uses = 0;
  for (const Op *op = p->body->first; op; op = op->next) {
    for (int i = 0; i < op->in_count; i++) {
      if (op->in[i] != v) continue;
      Dtype as[2];
      if (op->code == OP_DOT && i < 2) {
        bool fp8 = p->o->target->sm >= 89;
        if (!layout_takes_mma(op, fp8, p->f->num_warps, as) || as[i] != v->type->dtype) return false;
        if (dtype_bits(as[i]) == 8 && inner != !i) return false; /* they are turned on their way (lower/dot.c) */
      } else if (op->code != OP_TRANS || !goes_to_dots(p, op->out[0], inner_before(op, inner))) {
        return false;
      }
      uses++;
    }
    if (takes_inside(op, v)) return false;
  }
  return uses > 0;
}

/* ---- by tensor maps ---------------------------------------------------------------------------------------------- */

/* Making barriers known to the asynchronous unit, and its reading of the map, take longer than what a short loop's
 * threads spend on addresses. */
enum { LEAST_TRIPS_OF_MAPS = 4 };

static bool writes(const Op *op) {
  stack_guard();
  if (op_info[op->code].effect == EFFECT_WRITE || (op->code == OP_ASM && !op_is_pure(op))) return true;
  for (int i = 0; i < 2; i++)
    for (const Op *inner = op->body[i] ? op->body[i]->first : NULL; inner; inner = inner->next)
      if (writes(inner)) return true;
  return false;
}

/* Whether the program may have written to memory before the loop: such writes go by another proxy. (Programs that a
 * block runs one after the other are in no order anyway.) Loops alone may stand around: they carry slots and phases. */
static bool may_take_maps(const AsyncLoads *p) {
  if (!p->o->tensor_maps || p->o->target->sm < 90 || gpu_leaves_out(p->o, "tensor_maps")) return false;
  if (loop_most_trips(p->loop) < LEAST_TRIPS_OF_MAPS) return false;
  int around = 0;
  for (const Op *loop = p->loop; loop; loop = loop->block->parent) {
    if (loop->code != OP_FOR || around++ > MAX_AROUND) return false;
    bool own = loop != p->loop && !loop_runs_programs(p->f, loop);
    for (const Op *op = own ? loop->body[0]->first : NULL; op; op = op->next)
      if (writes(op)) return false;
    for (const Op *op = loop->block->first; op != loop; op = op->next)
      if (writes(op)) return false;
  }
  return true;
}

static bool is_same_tile(const RegularTile *r, const Type *t, int inner) {
  if (r->count < 2 || r->dims[0].dim != inner || r->dims[1].dim != !inner || r->dims[0].box != t->shape[inner] ||
      r->dims[1].box != t->shape[!inner])
    return false;
  for (int i = 2; i < r->count; i++)
    if (r->dims[i].box != 1) return false;
  return true;
}

/* Elements of 4 bytes that products take across lie in an order that maps do not know (lower/ring.c). */
static bool is_tensor_type(const Type *t) { return type_elem_bytes(t) <= 2; }

/* Whether the kernel may have another map beside those that it has and those of the rings chosen so far. */
static bool may_have_map(const AsyncLoads *p) {
  int n = ring_map_count(p->f) + p->single_count;
  for (int i = 0; i < p->ring_count; i++) n += p->rings[i].box != NULL;
  if (n >= GPU_PLAN_MAPS) p->f->maps_missed++;
  return n < GPU_PLAN_MAPS;
}

/* Of which dim neighbours lie side by side the array says, whatever is known of alignment. */
static bool take_box(AsyncLoads *p, Op *op, Ring *out) {
  const char *why;
  const Type *t = op->out[0]->type;
  if (!may_take_maps(p) || !is_tensor_type(t)) return false;
  if (!goes_to_dots(p, op->out[0], 0) && !goes_to_dots(p, op->out[0], 1)) return false;
  RegularTile *r = regular_tile(p->f, op, &why);
  int inner = r ? r->dims[0].dim : -1;
  if (inner < 0 || !is_same_tile(r, t, inner) || !goes_to_dots(p, op->out[0], inner) || !may_have_map(p)) return false;
  Builder b = {.func = p->f, .block = p->body, .before = op, .span = op->span};
  int left = MAX_COPIED, before = p->needed_count;
  bool known = true;
  for (int i = 0; i < r->count; i++) {
    out->from[i] = poly_build(r->space, &b, r->dims[i].start ? r->dims[i].start : poly_int(r->space, 0), DT_I32, false);
    known = known && can_compute(p, out->from[i], false, &left);
  }
  for (int i = 0; i < r->guard_count; i++) known = known && can_compute(p, r->guards[i], false, &left);
  out->box = known ? r : NULL;
  if (known) out->inner = inner;
  if (!known) p->needed_count = before;
  return known;
}

/* ---- what is taken, of loads ------------------------------------------------------------------------------------- */

/* Whether an asynchronous copy may bring what this reads, as far as the operation itself tells. */
static bool is_copyable(const AsyncLoads *p, Op *op) {
  return op->code == OP_LOAD && !op_is_volatile(op) && disjoint_may_precede(&p->stores, op) && !op->out[0]->type->ptr &&
         in_body(p, op->in[0]) && (!op_other(op) || value_is_zero(op_other(op)));
}

/* Whether the load's addresses and mask can be computed ahead; notes what they need. */
static bool can_address(AsyncLoads *p, const Op *load) {
  const Value *mask = op_mask(load);
  int before = p->needed_count, left = MAX_COPIED;
  if (can_compute(p, load->in[0], true, &left) && (!mask || can_compute(p, mask, true, &left))) return true;
  p->needed_count = before;
  return false;
}

/* Whether tiles had better not come by tensor maps: single warps read them, so that a fence stands in each iteration,
 * which waits for what else the loop loads to registers. */
static bool copies_before_maps(const AsyncLoads *p) {
  bool loads = false;
  for (const Op *op = p->body->first; op; op = op->next) {
    if (op->code == OP_DOT && layout_takes_wgmma(op, p->f->num_warps)) return false;
    loads |= op->code == OP_LOAD && op->out[0]->type->rank == 2 && !goes_to_dots(p, op->out[0], 0) &&
             !goes_to_dots(p, op->out[0], 1);
  }
  return loads;
}

static bool is_wanted(AsyncLoads *p, Op *op, Ring *out) {
  if (!is_copyable(p, op)) return false;
  const Value *ptr = op->in[0], *mask = op_mask(op);
  const Type *t = op->out[0]->type;
  if (t->rank != 2 || t->shape[0] < 16 || t->shape[1] < 16) return false;
  *out = (Ring){.load = op, .bytes = type_numel(t) * type_elem_bytes(t)};
  if (!p->late_maps && take_box(p, op, out)) return true;
  const Layout *l = access_layout(p->f->cx, ptr, mask, p->f->num_warps);
  if (access_may_copy(op, l, &out->inner) && goes_to_dots(p, op->out[0], out->inner) && can_address(p, op)) return true;
  return p->late_maps && take_box(p, op, out);
}

/* A tile that goes through arithmetic before a product takes it, or beside one: each thread copies what it reads. */
static bool is_own(AsyncLoads *p, Op *op, Ring *out) {
  if (!is_copyable(p, op)) return false;
  const Value *ptr = op->in[0], *mask = op_mask(op);
  const Type *t = op->out[0]->type;
  int dim;
  if (!t->rank || t->dtype == DT_I1) return false;
  const Layout *l = access_layout(p->f->cx, ptr, mask, p->f->num_warps);
  if (!access_may_copy(op, l, &dim)) return false;
  *out = (Ring){.load = op, .own = true, .bytes = layout_own_bytes(t, p->f->num_warps)};
  return can_address(p, op);
}

static bool holds_loop(const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    if (op->code == OP_FOR || op->code == OP_WHILE) return true;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && holds_loop(op->body[i])) return true;
  }
  return false;
}

static bool is_in_ring(const AsyncLoads *p, const Value *v) {
  v = loop_untransposed(v);
  for (int i = 0; i < p->ring_count; i++)
    if (p->rings[i].load->out[0] == v) return !p->rings[i].own;
  return false;
}

/* Whether k's neighbours of operand k lie side by side in its ring. */
static bool lies_along(const AsyncLoads *p, const Value *v, int k) {
  while (v->def->code == OP_TRANS) {
    k = v->def->dims[0] == 0 ? k : !k;
    v = v->def->in[0];
  }
  for (int i = 0; i < p->ring_count; i++)
    if (p->rings[i].load->out[0] == v) return p->rings[i].inner == !k;
  return false;
}

/* A dot of two rings' tiles that adds to what the loop only carries for it. (Other operands are written to shared
 * memory where the dot stands: it has to be over before the next one.) */
static bool can_be_async(AsyncLoads *p, const Op *op) {
  if (!loop_carries_sum(p->body, op)) return false;
  if (!p->tmem && (!gpu_has_wgmma(p->o) || !layout_flies(op, p->f->num_warps))) return false;
  for (int k = 0; k < 2; k++) {
    bool along = lies_along(p, op->in[k], k);
    if (!is_in_ring(p, op->in[k])) return false;
    if (p->tmem ? type_elem_bytes(op->in[k]->type) != 2 && !along : !layout_wgmma_takes(op, k, along ? !k : k))
      return false;
  }
  return !p->tmem || tmem_takes(p->f, p->o, p->loop, op, &p->columns);
}

/* ---- tiles that come once ---------------------------------------------------------------------------------------- */

/* Whether the load, before the loop, is of a box of an array that dots of the loop take, and nobody else. */
static bool is_single(AsyncLoads *p, const Op *op, Ring *out) {
  const Type *t = op->out[0]->type;
  const char *why;
  if (op_is_volatile(op) || t->ptr || t->rank != 2 || t->shape[0] < 16 || t->shape[1] < 16) return false;
  if (!is_tensor_type(t) || (op_other(op) && !value_is_zero(op_other(op)))) return false;
  if (block_uses(p->f->body, op->out[0]) != block_uses(p->body, op->out[0])) return false;
  if (!goes_to_dots(p, op->out[0], 0) && !goes_to_dots(p, op->out[0], 1)) return false;
  RegularTile *r = regular_tile(p->f, op, &why);
  int inner = r ? r->dims[0].dim : -1;
  if (inner < 0 || !is_same_tile(r, t, inner) || !goes_to_dots(p, op->out[0], inner) || !may_have_map(p)) return false;
  *out = (Ring){.load = (Op *)op, .box = r, .inner = inner};
  return true;
}

/* For products of warpgroups, which take both operands from shared memory; where no loop is around, whose iterations
 * would have to wait for each other. */
static void find_singles(AsyncLoads *p) {
  if (!gpu_has_wgmma(p->o) || !may_take_maps(p) || p->loop->block->parent) return;
  for (const Op *op = p->body->first; op; op = op->next)
    for (int k = 0; k < 2 && op->code == OP_DOT && layout_takes_wgmma(op, p->f->num_warps); k++) {
      const Op *load = loop_untransposed(op->in[k])->def;
      if (!load || load->code != OP_LOAD || load->block != p->loop->block) continue;
      bool known = p->single_count == MAX_RINGS;
      for (int i = 0; i < p->single_count; i++) known |= p->singles[i].load == load;
      if (!known && is_single(p, load, &p->singles[p->single_count])) p->single_count++;
    }
}

static void put_single(AsyncLoads *p, Ring *r) {
  Func *f = p->f;
  Builder b = {.func = f, .block = r->load->block, .before = r->load, .span = r->load->span},
          top = {.func = f, .block = f->body, .before = f->body->first, .span = r->load->span},
          before = {.func = f, .block = p->loop->block, .before = p->loop, .span = r->load->span};
  r->handle = ring_build(&b, r->load, r->inner, 1);
  r->map = ring_map_of_load(&top, r->box);
  RingPlace at = ring_first(&b);
  Value *in[4 + REGULAR_DIMS] = {r->map, r->handle, at.slot, build_int(&b, type_number(f->cx, DT_I1), 1)};
  for (int i = 0; i < r->box->guard_count; i++) in[3] = build_binary(&b, OP_AND, in[3], r->box->guards[i]);
  for (int i = 0; i < r->box->count; i++) {
    const Poly *start = r->box->dims[i].start;
    in[4 + i] = poly_build(r->box->space, &b, start ? start : poly_int(r->box->space, 0), DT_I32, false);
  }
  build_op(&b, OP_RING_TENSOR, 4 + r->box->count, in, 0, NULL);
  ring_full(&before, r->handle, at);
  value_replace(r->load->out[0], ring_read(&b, r->handle, at.slot, r->load));
  op_remove(r->load);
}

/* ---- how many slots ---------------------------------------------------------------------------------------------- */

static bool has_map(const AsyncLoads *p) {
  for (int i = 0; i < p->ring_count; i++)
    if (p->rings[i].box) return true;
  return false;
}

typedef struct Beside {
  const AsyncLoads *p;
  int64_t bytes, rings;
  bool specialized, stores_by_map;
} Beside;

/* Rings that other warps fill are there all the time. */
static void find_rings(Op *op, void *arg) {
  Beside *b = arg;
  b->specialized |= op->code == OP_RING_EMPTY;
  b->stores_by_map |= op->code == OP_STORE_TENSOR;
  if (op->code != OP_RING) return;
  int64_t bytes = op->slots * type_elem_bytes(&(Type){.dtype = op->out[0]->type->dtype});
  for (int i = 0; i < op->dim_count; i++) bytes *= op->dims[i];
  b->rings += bytes;
}

static void find_beside(Op *op, void *arg) {
  Beside *b = arg;
  Dtype as[2];
  if (op->code != OP_DOT) return;
  as[0] = as[1] = op->out[0]->type->dtype;
  layout_takes_mma(op, b->p->o->target->sm >= 89, b->p->f->num_warps, as);
  for (int k = 0; k < 2; k++) {
    const Op *def = loop_untransposed(op->in[k])->def;
    bool counted = is_in_ring(b->p, op->in[k]) || (b->specialized && def && def->code == OP_RING_READ);
    if (!counted) b->bytes += type_numel(op->in[k]->type) * dtype_bytes(as[k]);
  }
  if (op->precision == PRECISION_SPLIT) b->bytes += type_numel(op->in[1]->type) * dtype_bytes(as[1]);
}

/* Bytes that dots of the body, in its branches too, keep in shared memory beside the rings; the rings of a specialized
 * function; and what a persistent one that has some stores while it goes on. What threads store themselves in a
 * specialized one takes the place of the operands. */
static int64_t other_bytes(const AsyncLoads *p) {
  Beside beside = {.p = p};
  tile_walk(p->f->body, find_rings, &beside);
  tile_walk(p->body, find_beside, &beside);
  if (!beside.specialized) return beside.bytes + (p->f->persistent && has_map(p) ? ring_stored_bytes(p->f, p->o) : 0);
  int64_t stored = ring_stored_bytes(p->f, p->o);
  if (beside.stores_by_map) return beside.rings + beside.bytes + stored;
  return beside.rings + (beside.bytes > stored ? beside.bytes : stored);
}

/* A product in flight keeps a slot, unless none is written again. */
static int least_slots(const AsyncLoads *p) { return p->dot_count && loop_most_trips(p->loop) > 2 ? 3 : 2; }

/* What threads copy for themselves may not keep a few other blocks out, which hide latency as well: as many as the
 * other rings leave room for, but a loop that finds none for two slots goes on with fewer. */
enum { BLOCKS_BESIDE_OWN = 3 };

static int64_t slots_with_own(const AsyncLoads *p, int64_t stages, int64_t slot, int64_t beside, int64_t blocks) {
  int64_t own = 0, all = p->o->target->machine.shared_bytes;
  for (int i = 0; i < p->ring_count; i++) own += p->rings[i].own ? p->rings[i].bytes : 0;
  if (!own) return INT64_MAX;
  int64_t beside_others = all / (stages * (slot - own) + beside + GPU_SHARED_RESERVED);
  if (blocks > BLOCKS_BESIDE_OWN) blocks = BLOCKS_BESIDE_OWN;
  if (own < slot && blocks > beside_others) blocks = beside_others > 1 ? beside_others : 1;
  int64_t room = 0;
  for (; blocks > 0 && room < least_slots(p); blocks--) room = (all / blocks - GPU_SHARED_RESERVED - beside) / slot;
  return room;
}

/* As many blocks as a multiprocessor's registers have room for should find room in its shared memory, if num_stages
 * lets them; one slot more than stages, where a dot in flight keeps one. */
static int choose_slots(const AsyncLoads *p, int64_t stages) {
  const GpuTarget *t = p->o->target;
  const GpuBudgets *budgets = t->budgets;
  int64_t slot = 0, beside = other_bytes(p) + budgets->beside_rings,
          registers = budgets->beside_sums + loop_sums(p->f, p->body), threads = p->f->num_warps * 32;
  for (int i = 0; i < p->ring_count; i++) slot += p->rings[i].bytes;
  if (!slot) return 0;
  int64_t blocks = GPU_REGISTERS / (threads * registers), most = (t->shared_bytes - beside) / slot;
  if (blocks < 1) blocks = 1;
  int64_t shared = (t->machine.shared_bytes / blocks - GPU_SHARED_RESERVED - beside) / slot;
  int64_t want = stages + (p->dot_count > 0);
  if (want > shared) want = shared > stages ? shared : stages;
  if (want > most) want = most;
  int64_t own = slots_with_own(p, stages, slot, beside, blocks), trips = loop_most_trips(p->loop);
  if (want > own) want = own;
  if (want > trips) want = trips;
  return (int)(want > budgets->ring_slots ? budgets->ring_slots : want);
}

/* ---- computing ahead --------------------------------------------------------------------------------------------- */

static Value *compute(AsyncLoads *p, Value *v);

/* `own` (NULL: all) where the iteration exists, for a tile of type t. */
static Value *mask_ahead(AsyncLoads *p, Value *own, const Type *t) {
  if (!t->rank) return own ? build_binary(&p->b, OP_AND, compute(p, own), p->exists) : p->exists;
  Value *mask = build_splat(&p->b, p->exists, t->rank, t->shape);
  mask->axis = loop_constant_axis(p->f->cx, mask->type);
  if (!own) return mask;
  mask = build_binary(&p->b, OP_AND, compute(p, own), mask);
  mask->axis = own->axis;
  return mask;
}

static Value *read_ahead(AsyncLoads *p, const Op *load) {
  disjoint_require(&p->stores, load);
  Value *other = op_other(load), *mask = mask_ahead(p, op_mask(load), load->out[0]->type);
  Value *v = build_load(&p->b, compute(p, load->in[0]), mask, other ? compute(p, other) : NULL);
  memcpy(v->def->attr, load->attr, sizeof load->attr);
  return v;
}

/* v with the block's arguments as `known` has them. */
static Value *compute(AsyncLoads *p, Value *v) {
  stack_guard();
  if (!in_body(p, v)) return v;
  Value *there = map_get(p->known, v);
  if (there) return there;
  Op *op = v->def;
  if (op->code == OP_LOAD) {
    Value *read = read_ahead(p, op);
    read->axis = v->axis;
    map_put(p->known, v, read);
    return read;
  }
  Map *operands = map_create(p->f->cx->arena, false);
  for (int i = 0; i < op->in_count; i++) map_put(operands, op->in[i], compute(p, op->in[i]));
  loop_clone(&p->b, op, operands, p->known);
  return map_get(p->known, v);
}

static void begin_iteration(AsyncLoads *p, Value *iv, Value *const *carried) {
  p->known = map_create(p->f->cx->arena, false);
  map_put(p->known, p->body->args[0], iv);
  for (int i = 0; i < p->needed_count; i++) map_put(p->known, p->body->args[1 + p->needed[i]], carried[i]);
}

static void next_iteration(AsyncLoads *p, Value **carried) {
  Value **next = NEW_N(p->f->cx->arena, Value *, p->needed_count + 1);
  for (int i = 0; i < p->needed_count; i++) next[i] = compute(p, p->body->last->in[p->needed[i]]);
  memcpy(carried, next, sizeof *next * (size_t)p->needed_count);
}

static Value *number(AsyncLoads *p, Dtype t, int64_t v) { return build_int(&p->b, type_number(p->f->cx, t), v); }

/* Whether the loop has an iteration `way` after that of `from`. A 32-bit variable cannot leave 64 bits; of a 64-bit one
 * the distance to the end is taken, without a sign, lest the sum wraps. */
static Value *iteration_exists(AsyncLoads *p, Value *from, Value *way) {
  Builder *b = &p->b;
  Value *end = p->loop->in[1];
  bool down = loop_leads_down(p->loop);
  CmpPred before = down ? CMP_GT : CMP_LT;
  if (dtype_bits(from->type->dtype) < 64)
    return build_cmp(b, before, build_binary(b, OP_ADD, build_convert(b, from, DT_I64), way),
                     build_convert(b, end, DT_I64));
  Value *left = down ? build_binary(b, OP_SUB, from, end) : build_binary(b, OP_SUB, end, from);
  Value *ahead = down ? build_binary(b, OP_SUB, number(p, DT_I64, 0), way) : way;
  Value *far = build_cmp(b, CMP_GT, build_convert(b, left, DT_U64), build_convert(b, ahead, DT_U64));
  return build_binary(b, OP_AND, build_cmp(b, before, from, end), far);
}

/* The loop's variable n iterations after `from`, and whether the loop has that iteration. */
static Value *variable_after(AsyncLoads *p, Value *from, int n, Value **exists) {
  Builder *b = &p->b;
  Value *step = p->loop->in[2];
  Dtype t = from->type->dtype;
  *exists = iteration_exists(p, from, build_binary(b, OP_MUL, build_convert(b, step, DT_I64), number(p, DT_I64, n)));
  Value *iv = build_binary(b, OP_ADD, from, build_binary(b, OP_MUL, step, number(p, t, n)));
  iv->axis = p->body->args[0]->axis;
  return iv;
}

static void copy_box(AsyncLoads *p, const Ring *r, Value *exists, Value *slot) {
  Value *in[4 + REGULAR_DIMS] = {r->map, r->handle, slot, exists};
  for (int i = 0; i < r->box->guard_count; i++)
    in[3] = build_binary(&p->b, OP_AND, in[3], compute(p, r->box->guards[i]));
  for (int i = 0; i < r->box->count; i++) in[4 + i] = compute(p, r->from[i]);
  build_op(&p->b, OP_RING_TENSOR, 4 + r->box->count, in, 0, NULL);
}

static void copy_all(AsyncLoads *p, Value *exists, Value *slot) {
  Builder *b = &p->b;
  p->exists = exists;
  for (int i = 0; i < p->ring_count; i++) {
    const Ring *r = &p->rings[i];
    b->span = r->load->span;
    if (r->box) {
      copy_box(p, r, exists, slot);
      continue;
    }
    Value *mask = mask_ahead(p, op_mask(r->load), r->load->out[0]->type);
    Value *in[] = {compute(p, r->load->in[0]), r->handle, slot, mask};
    Op *copy = build_op(b, OP_RING_COPY, 4, in, 0, NULL);
    memcpy(copy->attr, r->load->attr, sizeof copy->attr);
    copy->is_volatile = 0;
  }
}

/* ---- the change -------------------------------------------------------------------------------------------------- */

static Op *wait_op(Builder *b, OpCode code, int64_t pending) {
  Op *op = build_op(b, code, 0, NULL, 0, NULL);
  op->pending = pending;
  return op;
}

/* The place where the loop's first tile comes: that of the first slot, or what loops around it have come to. */
static RingPlace first_place(AsyncLoads *p, bool tensor) {
  Op *loop = p->loop, *around[MAX_AROUND];
  int n = 0;
  for (Op *o = loop->block->parent; o && tensor; o = o->block->parent) around[n++] = o;
  Builder b = {.func = p->f, .block = (n ? around[n - 1] : loop)->block, .before = n ? around[n - 1] : loop};
  RingPlace at = ring_first(&b);
  while (n--) at = ring_carry(p->f, around[n], at);
  return at;
}

/* Loops around hand on what the loop has come to. */
static void hand_on(AsyncLoads *p, RingPlace begin, RingPlace end) {
  for (Op *o = p->loop->block->parent; o; o = o->block->parent) {
    end = ring_yield(o, begin, end);
    begin = (RingPlace){o->in[3 + begin.slot->index - 1], o->in[3 + begin.parity->index - 1]};
  }
}

/* Maps are made at the function's beginning, where arguments alone are known. */
static void make_rings(AsyncLoads *p) {
  for (int i = 0; i < p->ring_count; i++) {
    Ring *r = &p->rings[i];
    r->handle = r->own ? ring_build_own(&p->b, r->load, p->slots) : ring_build(&p->b, r->load, r->inner, p->slots);
    Builder top = {.func = p->f, .block = p->f->body, .before = p->f->body->first, .span = r->load->span};
    if (r->box) r->map = ring_map_of_load(&top, r->box);
  }
}

/* The slots of this iteration stand for its tiles. */
static void read_rings(AsyncLoads *p, RingPlace now) {
  for (int i = 0; i < p->ring_count; i++) {
    Ring *r = &p->rings[i];
    Builder here = {.func = p->f, .block = p->body, .before = r->load, .span = r->load->span};
    value_replace(r->load->out[0], ring_read(&here, r->handle, now.slot, r->load));
  }
}

static void rewrite(AsyncLoads *p) {
  Func *f = p->f;
  Op *loop = p->loop;
  Block *body = p->body;
  bool async = p->dot_count > 0, tensor = has_map(p);
  const Span *span = loop->span;
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = span},
          top = {.func = f, .block = body, .before = body->first, .span = span},
          after = {.func = f, .block = loop->block, .before = loop->next, .span = span};
  p->b = before;
  for (int i = 0; i < p->ring_count; i++) disjoint_require(&p->stores, p->rings[i].load);
  make_rings(p);
  RingPlace first = first_place(p, tensor), at = first;
  Value **carried = NEW_N(f->cx->arena, Value *, p->needed_count + 1), *exists;
  for (int i = 0; i < p->needed_count; i++) carried[i] = loop->in[3 + p->needed[i]];
  for (int s = 0; s < p->distance; s++) {
    Value *iv = variable_after(p, loop->in[0], s, &exists);
    begin_iteration(p, iv, carried);
    copy_all(p, exists, at.slot);
    at = ring_next(&p->b, p->slots, at);
    build_op(&p->b, OP_RING_COMMIT, 0, NULL, 0, NULL);
    next_iteration(p, carried);
  }
  RingPlace now = ring_carry(p->f, loop, first), ahead = ring_carry(p->f, loop, at);
  for (int i = 0; i < p->needed_count; i++) {
    Value *of = body->args[1 + p->needed[i]];
    carried[i] = control_carry(f, loop, carried[i], carried[i]);
    carried[i]->axis = of->axis;
    carried[i]->name = of->name;
  }
  for (int i = 0; i < p->ring_count; i++)
    if (p->rings[i].box) ring_full(&top, p->rings[i].handle, now);
  wait_op(&top, OP_RING_WAIT, p->distance - 1);
  read_rings(p, now);
  p->b = async ? (Builder){.func = f, .block = body, .before = body->last, .span = span} : top;
  if (async && p->tmem) tmem_put(f, loop, p->dots, p->dot_count, &p->b, &after);
  else if (async) wait_op(&p->b, OP_DOT_WAIT, p->dot_count);
  if (p->meets) wait_op(&p->b, OP_RING_WAIT, RING_WAITS_FOR_NONE);
  Value *wanted, *iv = variable_after(p, body->args[0], p->distance, &exists);
  variable_after(p, body->args[0], p->distance - 1, &wanted);
  Value **next = NEW_N(f->cx->arena, Value *, p->needed_count + 1);
  begin_iteration(p, iv, carried);
  next_iteration(p, next);
  Builder outside = p->b;
  if (!p->all) {
    p->b = loop_branch_on(&outside, wanted);
    copy_all(p, exists, ahead.slot);
  }
  build_op(&outside, OP_RING_COMMIT, 0, NULL, 0, NULL);
  Builder end = {.func = f, .block = body, .before = body->last, .span = span};
  ring_yield(loop, now, ring_next(&end, p->slots, now));
  if (!p->all) {
    RingPlace later = ring_next(&end, p->slots, ahead);
    ring_yield(loop, ahead,
               (RingPlace){build_select(&end, wanted, later.slot, ahead.slot),
                           build_select(&end, wanted, later.parity, ahead.parity)});
  }
  for (int i = 0; i < p->needed_count; i++) body->last->in[carried[i]->index - 1] = next[i];
  for (int i = 0; i < p->dot_count && !p->tmem; i++) loop_leave_in_flight(&after, loop, p->dots[i]);
  RingPlace read = ring_result(loop, now), asked = ring_result(loop, ahead);
  for (int i = 0; i < p->ring_count; i++) { /* what is left are tiles that do not exist: only later phases need that */
    Value *in[] = {p->rings[i].handle, read.slot, read.parity, asked.slot, asked.parity};
    if (p->rings[i].box && loop->block->parent) build_op(&after, OP_RING_DRAIN, 5, in, 0, NULL);
  }
  if (tensor) hand_on(p, first, asked);
  wait_op(&after, OP_RING_WAIT, 0);
  for (int i = 0; i < p->ring_count; i++) op_remove(p->rings[i].load);
  tile_replace_uses(f);
}

static bool is_ring(const AsyncLoads *p, const Op *op) {
  for (int i = 0; i < p->ring_count; i++)
    if (p->rings[i].load == op) return true;
  return false;
}

static bool is_table(const AsyncLoads *p, const Op *op) {
  for (int i = 0; i < p->tables.n; i++)
    if (p->tables.at[i] == op) return true;
  return false;
}

static bool has_product(const AsyncLoads *p) {
  Dtype as[2];
  for (const Op *op = p->body->first; op; op = op->next)
    if (op->code == OP_DOT && layout_takes_mma(op, p->o->target->sm >= 89, p->f->num_warps, as)) return true;
  return false;
}

/* Whether threads hold v, of this iteration's product, as the next product takes it. */
static bool is_of_body(const void *p, const Value *v) { return in_body(p, v); }
static bool stays_in_registers(const AsyncLoads *p, const Value *v) { return loop_is_of_dot(v, is_of_body, p); }

/* Whether threads write operands for products of warpgroups: the fence after that waits for all that they have asked of
 * memory, what comes to registers for the next iteration, too. */
static bool has_fence(const AsyncLoads *p) {
  if (!gpu_has_wgmma(p->o)) return false;
  for (const Op *op = p->body->first; op; op = op->next)
    for (int k = 0; k < 2 && op->code == OP_DOT && layout_takes_wgmma(op, p->f->num_warps); k++)
      if (in_body(p, op->in[k]) && !is_in_ring(p, op->in[k]) && (k || !stays_in_registers(p, op->in[k]))) return true;
  return false;
}

/* Whether other warps bring tiles of the loop's (gpu/specialize.c). */
static bool is_served(const AsyncLoads *p) {
  for (const Op *op = p->body->first; op; op = op->next)
    if (op->code == OP_RING_READ) return true;
  return false;
}

/* Whether what an iteration loads for the next one is better copied, several ahead, though registers would hold it:
 * where a fence waits for it at once, of short sums, all of whose tiles can come before the first product (0.83 of the
 * time on an H200), and of long loops; and in long loops that store, which are recurrences: an iteration is short
 * beside memory's latency. (States passed along, of chunked linear attention on an H200: 0.59 to 1.07 of the time, 0.89
 * in the mean; int8 weights that are made bf16 0.85. Short loops that store took up to 1.14.) Not beside warps that
 * copy: what those do not bring is little. */
static bool waits_for_memory(const AsyncLoads *p) {
  bool is_short = loop_most_trips(p->loop) <= p->o->target->budgets->ring_slots, stores = loop_has_effects(p->body);
  return is_short ? !stores && has_fence(p) : !is_served(p) && (stores || has_fence(p));
}

/* Whether a product in pieces, which is over where it stands, has the loop's loads to registers after it. */
static bool waits_for_pieces(const AsyncLoads *p) {
  for (const Op *op = p->body->first; op; op = op->next)
    if (op->code == OP_DOT && op->precision == PRECISION_SPLIT) return true;
  return false;
}

/* What else the loop of a product loads, where there is room for it. */
static void find_own(AsyncLoads *p, int64_t stages) {
  int shared = p->ring_count, needed = p->needed_count;
  if (p->tmem || gpu_leaves_out(p->o, "own_rings") || !has_product(p)) return;
  for (Op *op = p->body->first; op && p->ring_count < MAX_RINGS; op = op->next)
    if (!is_ring(p, op) && is_own(p, op, &p->rings[p->ring_count])) p->ring_count++;
  int n = shared;
  for (int i = shared; i < p->ring_count; i++) /* what says where others lie is read where it is needed */
    if (!is_table(p, p->rings[i].load)) p->rings[n++] = p->rings[i];
  p->ring_count = n;
  Op *loads[MAX_RINGS];
  for (int i = shared; i < n; i++) loads[i - shared] = p->rings[i].load;
  bool wanted = n > shared &&
                (waits_for_memory(p) || waits_for_pieces(p) || !prefetch_holds(p->f, p->o, p->loop, loads, n - shared));
  if (wanted && choose_slots(p, stages) >= least_slots(p)) return;
  p->ring_count = shared;
  p->needed_count = needed;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  AsyncLoads p = {.f = f, .o = o, .loop = loop, .body = loop->body[0]};
  int64_t stages = loop->num_stages ? loop->num_stages : f->num_stages, step;
  bool wide = dtype_bits(loop->in[0]->type->dtype) == 64;
  if (stages < 2 || holds_loop(p.body) || !disjoint_stores(f, p.body, &p.stores)) return;
  if (wide && !(value_is_const(loop->in[2], &step) && step > -(1 << 30) && step < 1 << 30)) return;
  p.needed = NEW_N(f->cx->arena, int, loop->out_count + 1);
  p.late_maps = copies_before_maps(&p);
  for (Op *op = p.body->first; op && p.ring_count < MAX_RINGS; op = op->next)
    if (is_wanted(&p, op, &p.rings[p.ring_count])) p.ring_count++;
  p.tmem = gpu_has_tcgen05(o);
  for (Op *op = p.body->first; op && p.dot_count < MAX_RINGS; op = op->next)
    if (can_be_async(&p, op)) p.dots[p.dot_count++] = op;
  find_own(&p, stages);
  if (!p.ring_count) return;
  p.slots = choose_slots(&p, stages);
  ring_note_stages(f, o, stages < loop_most_trips(loop) ? stages : loop_most_trips(loop), p.slots);
  if (p.slots < least_slots(&p) && !p.tmem) p.dot_count = 0;
  if (p.slots < 2) return;
  p.all =
      !p.tmem && !has_map(&p) && p.slots == loop_most_trips(loop); /* of maps, a dot ahead waits for one tile more */
  if (!p.all && p.slots < 3 && !p.tmem) p.dot_count = 0;
  p.meets = p.dot_count && !p.tmem && !p.all && p.slots <= stages;
  p.distance = p.all ? p.slots : p.slots - (p.dot_count && !p.tmem && !p.meets ? 2 : 1);
  if (has_map(&p)) find_singles(&p);
  for (int i = 0; i < p.single_count; i++) put_single(&p, &p.singles[i]);
  rewrite(&p);
}

void gpu_async_loads(Func *f, const GpuOptions *o) {
  if (!gpu_has_tensor_cores(o)) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_replace_uses(f);
  if (gpu_has_tcgen05(o)) tile_dce(f); /* what loops carried before */
  tmem_note_left(f, o);
}
