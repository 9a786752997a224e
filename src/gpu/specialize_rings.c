/* The rings of a function whose tiles warps of their own bring: how many slots they have, and the numbers of the slots,
 * which run through all its loops and branches. What is built here both halves hold: the copies, with waits for empty
 * slots, and the reads, with waits for full ones.
 */
#include "gpu/ahead.h"
#include "gpu/specialize.h"
#include "tile/analysis/provenance.h"

/* ---- sums in memory ---------------------------------------------------------------------------------------------- */

enum { BOX_ROWS = 16, BOX_COLUMNS = 32 }; /* of what a warp holds of a product's result, in f32 */

typedef struct Others {
  Specialize *p;
  const Op *op;
  RegularTile *boxes[MAX_OTHERS];
  int count;
  bool unknown;
} Others;

static void find_other(Op *op, void *arg) {
  Others *o = arg;
  const char *why;
  bool is_access = op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_ATOMIC_RMW;
  if (op->code == OP_ATOMIC_CAS || op->code == OP_ASM) o->unknown = true;
  if (!is_access || op == o->op) return;
  RegularTile *box = o->count < MAX_OTHERS && op->in[0]->type->rank ? regular_access(o->p->f, op, &why) : NULL;
  if (!box || !box_end(o->p->f, box)) o->unknown = true;
  else o->boxes[o->count++] = box;
}

/* An atomic addition to a box of an array that nothing else in the kernel touches: a map's adds it, when it comes to
 * it, and warps go on. A product's result, which warps hold in boxes of 16 rows. */
static RegularTile *box_of_sums(Specialize *p, const Op *op, Others *others) {
  const Type *t = op->in[1]->type;
  const char *why;
  const Op *dot = op->in[1]->def;
  if (op->code != OP_ATOMIC_RMW || op->kind != RMW_ADD || t->rank != 2 || t->dtype != DT_F32) return NULL;
  if (!dot || dot->code != OP_DOT || !layout_takes_wgmma(dot, p->f->num_warps)) return NULL;
  int64_t groups = p->f->num_warps / 4 * 64 / t->shape[0]; /* that share the columns, at most */
  if (t->shape[0] % 64 || t->shape[1] / (groups > 1 ? groups : 1) < BOX_COLUMNS) return NULL;
  RegularTile *box = regular_tile(p->f, op, &why);
  if (!box || box->guard_count || !regular_begins_inside(box) || box->dims[0].dim != 1 || box->count < 2 ||
      box->dims[1].dim != 0)
    return NULL;
  *others = (Others){.p = p, .op = op};
  tile_walk(p->f->body, find_other, others);
  return others->unknown ? NULL : box;
}

/* ---- how many slots ---------------------------------------------------------------------------------------------- */

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

static bool is_single(const Specialize *p, const Value *v) {
  v = loop_untransposed(v);
  for (int i = 0; i < p->single_count; i++)
    if (p->singles[i].ring.load->out[0] == v) return true;
  return false;
}

typedef struct Beside {
  const Specialize *p;
  int64_t bytes;
} Beside;

/* A product outside of the loops, whose operands go through shared memory while it runs. */
static void find_beside(Op *op, void *arg) {
  Beside *b = arg;
  const Specialize *p = b->p;
  int64_t bytes = 0;
  if (op->code != OP_DOT) return;
  for (int i = 0; i < p->loop_count; i++)
    if (op->block == p->loops[i].op->body[0]) return;
  for (int k = 0; k < 2; k++)
    if (!is_single(p, op->in[k])) bytes += type_numel(op->in[k]->type) * type_elem_bytes(op->in[k]->type);
  if (bytes > b->bytes) b->bytes = bytes;
}

/* Whether warps hold whole rows of v, and make them of a product's result. */
static bool has_whole_rows(const void *f, const Value *v) {
  return v->type->rank == 2 && v->type->shape[0] >= 16 * ((const Func *)f)->num_warps;
}
static bool stays_in_registers(const Specialize *p, const Value *v) { return loop_is_of_dot(v, has_whole_rows, p->f); }

/* Beside the rings lie operands that are no ring's, and what is stored, on its way to its layout; of loops that add to
 * memory, what is added. */
static int64_t other_bytes(const Specialize *p) {
  Beside beside = {p, 0};
  tile_walk(p->f->body, find_beside, &beside);
  int64_t operands = beside.bytes;
  for (int i = 0; i < p->loop_count; i++) {
    int64_t bytes = 0;
    for (const Op *op = p->loops[i].op->body[0]->first; op; op = op->next) {
      if (op->code == OP_DOT && op->precision == PRECISION_SPLIT)
        bytes += type_numel(op->in[1]->type) * type_elem_bytes(op->in[1]->type); /* second pieces */
      for (int k = 0; k < 2 && op->code == OP_DOT; k++)
        if (!specialize_is_tile(&p->loops[i], op->in[k]) && !is_single(p, op->in[k]) &&
            !behind_keeps_registers(p->f, p->o, p->loops[i].op, op->in[k]) &&
            !(p->write_count && k == 0 && stays_in_registers(p, op->in[k])))
          bytes += type_numel(op->in[k]->type) * type_elem_bytes(op->in[k]->type);
    }
    if (bytes > operands) operands = bytes;
  }
  return operands + ring_stored_bytes(p->f, p->o);
}

static bool is_in_loop(const Block *b) {
  for (const Op *op = b->parent; op; op = op->block->parent)
    if (op->code == OP_FOR) return true;
  return false;
}

static int64_t stages_of(const Specialize *p, const Loop *l) {
  return l->op->num_stages ? l->op->num_stages : p->f->num_stages;
}

bool specialize_choose_rings(Specialize *p) {
  const GpuBudgets *budgets = p->o->target->budgets;
  int64_t stages = 0, bytes = 0, rows = 0, room = p->o->target->shared_bytes - budgets->beside_rings - other_bytes(p);
  for (int i = 0; i < p->loop_count; i++) {
    Loop *l = &p->loops[i];
    int64_t asked = stages_of(p, l);
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
      *(l->rings[k].is_row ? &rows : &g->bytes) += type_numel(t) * type_elem_bytes(t);
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
  if (slots > budgets->ring_slots) slots = budgets->ring_slots;
  if (slots > room / bytes) slots = room / bytes;
  if (slots * (bytes + rows) > room && slots * rows > budgets->beside_rings * 3 / 4)
    return specialize_refuse(p, "there is no shared memory for its rows");
  room -= slots * (bytes + rows);
  for (int i = 0; i < p->single_count; i++) { /* the next one, of a loop around, comes before this one is free */
    Group *g = &p->groups[p->singles[i].group];
    if (!is_in_loop(p->singles[i].home) || g->bytes > room) continue;
    room -= g->bytes;
    g->slots = 2;
  }
  /* so many warps have all registers of a multiprocessor: memory that no other block can use is for more slots */
  for (; p->f->num_warps >= budgets->specialized_warps && slots < budgets->ring_slots && bytes + rows <= room; slots++)
    room -= bytes + rows;
  for (int i = 0; i < loops; i++) p->groups[i].slots = (int)slots;
  return slots >= 2 ? true : specialize_refuse(p, "there is no shared memory for two tiles of each");
}

/* ---- rings and their slots --------------------------------------------------------------------------------------- */

static Value *number(Specialize *p, Builder *b, int64_t v) { return build_int(b, type_number(p->f->cx, DT_I32), v); }

/* Loops of a group take turns with its rings. */
static void make_ring(Builder *b, Ring *r, Group *g, int number) {
  if (!g->handles[number]) g->handles[number] = ring_build(b, r->load, r->box->dims[0].dim, g->slots);
  r->handle = g->handles[number];
}

static void make_map(Builder *b, Ring *r) {
  b->span = r->load->span;
  r->map = ring_map_of_load(b, r->box);
}

/* The producer waits for the slot, and fills it: with the box, or (is_none) with zeros. */
static void build_copy(Specialize *p, Builder *b, const Ring *r, RingPlace at, bool is_none) {
  RegularTile *box = r->box;
  b->span = r->load->span;
  Value *in[5 + REGULAR_DIMS] = {r->map, r->handle, at.slot}, *exists = NULL;
  Value *wait[] = {r->handle, at.slot, build_binary(b, OP_XOR, at.parity, number(p, b, 1))};
  build_op(b, OP_RING_EMPTY, 3, wait, 0, NULL);
  for (int g = 0; g < box->guard_count && !is_none; g++)
    exists = exists ? build_binary(b, OP_AND, exists, box->guards[g]) : box->guards[g];
  in[3] = build_int(b, type_number(p->f->cx, DT_I1), 1);
  for (int d = 0; d < box->count; d++)
    in[4 + d] = is_none ? number(p, b, d ? 0 : OUTSIDE) : poly_build(box->space, b, box->dims[d].start, DT_I32, false);
  if (exists) in[4] = build_select(b, exists, in[4], number(p, b, OUTSIDE)); /* zeros */
  int count = 4 + box->count;
  if (r->same) in[count++] = r->same;
  build_op(b, OP_RING_TENSOR, count, in, 0, NULL);
}

static Value *slot_before(Specialize *p, Builder *b, const Group *g, Value *slot) {
  Value *is_first = build_cmp(b, CMP_EQ, slot, number(p, b, 0));
  return build_select(b, is_first, number(p, b, g->slots - 1), build_binary(b, OP_SUB, slot, number(p, b, 1)));
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

/* Dots in flight: a wait at the body's end frees the tiles of the iteration before, one after the loop the last ones.
 */
static void fly(Specialize *p, Loop *l, Value *slot, Ring *const *late, int late_count) {
  Func *f = p->f;
  Op *loop = l->op;
  Block *body = loop->body[0];
  const Group *g = &p->groups[l->group];
  bool down = loop_leads_down(loop);
  Builder end = {.func = f, .block = body, .before = body->last, .span = loop->span};
  Op *wait = build_op(&end, OP_DOT_WAIT, 0, NULL, 0, NULL);
  wait->pending = l->dot_count;
  Value *later = build_cmp(&end, CMP_NE, body->args[0], loop->in[0]), *before = slot_before(p, &end, g, slot);
  Builder inside = loop_branch_on(&end, later);
  for (int i = 0; i < late_count; i++) free_slot(&inside, late[i], before);
  Builder after = {.func = f, .block = loop->block, .before = loop->next, .span = loop->span};
  for (int i = 0; i < l->dot_count; i++) loop_leave_in_flight(&after, loop, l->dots[i]);
  Value *ran = build_cmp(&after, down ? CMP_GT : CMP_LT, loop->in[0], loop->in[1]);
  before = slot_before(p, &after, g, loop->out[slot->index - 1]);
  inside = loop_branch_on(&after, ran);
  for (int i = 0; i < late_count; i++) free_slot(&inside, late[i], before);
}

/* The dot ahead is the next iteration's. Its own tiles come a place later than the iteration's; the first one's before
 * the loop, and after the last one's come zeros, which it takes and nobody reads. */
static void put_ahead(Specialize *p, Loop *l, RingPlace first, RingPlace next) {
  Func *f = p->f;
  Op *loop = l->op, *dot = l->ahead, *use = ahead_first_step(loop->body[0], dot), *last = dot;
  for (Op *op = dot; op; op = op->next)
    if (op->code == OP_DOT) last = op;
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = dot->span};
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].is_ahead) ring_full(&before, l->rings[i].handle, first);
  Value *carried = ahead_step(&before, use, dot, ahead_dot(&before, loop->body[0], dot, first.slot, false));
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].is_ahead) free_slot(&before, &l->rings[i], first.slot);
  Op *place = NULL; /* after the waits of its tiles */
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

/* Threads read it where they first take it, and say at the iteration's end that they have. */
static void put_row(Specialize *p, Loop *l, Ring *r, RingPlace at) {
  Op *load = r->load, *first = load->next;
  Builder copies = {.func = p->f, .block = load->block, .before = load, .span = load->span};
  build_copy(p, &copies, r, at, false);
  while (first != load->block->last && !uses(first, load->out[0])) first = first->next;
  Builder here = {.func = p->f, .block = load->block, .before = first, .span = load->span};
  ring_full(&here, r->handle, at);
  value_replace(load->out[0], ring_read(&here, r->handle, at.slot, load));
  Builder end = {.func = p->f, .block = load->block, .before = load->block->last, .span = l->op->span};
  free_slot(&end, r, at.slot);
}

static void put_rings(Specialize *p, Loop *l) {
  Func *f = p->f;
  Group *g = &p->groups[l->group];
  Block *body = l->op->body[0];
  RingPlace at[2], first = g->at[1], next = {NULL};
  Ring *late[MAX_RINGS];
  Builder before = {.func = f, .block = l->op->block, .before = l->op, .span = l->op->span};
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].handle->def->cluster) l->rings[i].same = specialize_is_same(p, &before, l, &l->rings[i]);
  int late_count = 0;
  for (int t = 0; t < g->tracks; t++) at[t] = ring_carry(p->f, l->op, g->at[t]);
  Builder top = {.func = f, .block = body, .before = body->first, .span = l->op->span};
  if (l->ahead) next = ring_next(&top, g->slots, at[1]);
  for (int i = 0; i < l->ring_count; i++) {
    Ring *r = &l->rings[i];
    bool async = false;
    Op *last = last_use(l, r->load->out[0], &async);
    Builder here = {.func = f, .block = body, .before = r->load, .span = r->load->span};
    RingPlace own = at[r->is_ahead];
    if (r->is_row) {
      put_row(p, l, r, own);
      continue;
    }
    build_copy(p, &here, r, own, false);
    ring_full(&here, r->handle, r->is_ahead ? next : own);
    value_replace(r->load->out[0], ring_read(&here, r->handle, own.slot, r->load));
    Builder after = {.func = f, .block = body, .before = last->next, .span = last->span};
    if (async) late[late_count++] = r;
    else if (!r->is_ahead) free_slot(&after, r, own.slot);
  }
  tile_replace_uses(f);
  for (int i = 0; i < l->ring_count; i++) op_remove(l->rings[i].load);
  if (l->ahead) put_ahead(p, l, first, next);
  Builder end = {.func = f, .block = body, .before = body->last, .span = l->op->span};
  for (int t = 0; t < g->tracks; t++) g->at[t] = ring_yield(l->op, at[t], ring_next(&end, g->slots, at[t]));
  if (late_count) fly(p, l, at[0].slot, late, late_count);
  if (!l->ahead) return;
  Builder after = {.func = f, .block = l->op->block, .before = l->op->next, .span = l->op->span};
  for (int i = 0; i < l->ring_count; i++)
    if (l->rings[i].is_ahead) build_copy(p, &after, &l->rings[i], g->at[1], true);
  g->at[1] = ring_next(&after, g->slots, g->at[1]);
}

/* It is free after the last operation beside it that takes it, or holds one that does. */
static void put_single(Specialize *p, Single *single) {
  Ring *r = &single->ring;
  Group *g = &p->groups[single->group];
  Op *load = r->load, *last = load;
  for (Op *op = load->next; op; op = op->next)
    if (uses(op, load->out[0])) last = op;
  Builder here = {.func = p->f, .block = load->block, .before = load, .span = load->span};
  RingPlace at = g->at[0];
  build_copy(p, &here, r, at, false);
  ring_full(&here, r->handle, at);
  value_replace(load->out[0], ring_read(&here, r->handle, at.slot, r->load));
  g->at[0] = ring_next(&here, g->slots, at);
  Builder after = {.func = p->f, .block = load->block, .before = last->next, .span = load->span};
  free_slot(&after, r, at.slot);
  tile_replace_uses(p->f);
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
  RingPlace of[MAX_GROUPS][2] = {{{NULL}}};
  for (int g = 0; g < p->group_count; g++)
    for (int t = 0; t < p->groups[g].tracks && holds_group(p, loop, g); t++)
      of[g][t] = p->groups[g].at[t] = ring_carry(p->f, loop, p->groups[g].at[t]);
  thread_block(p, loop->body[0]);
  for (int g = 0; g < p->group_count; g++)
    for (int t = 0; t < 2 && of[g][t].slot; t++) p->groups[g].at[t] = ring_yield(loop, of[g][t], p->groups[g].at[t]);
}

static void thread_if(Specialize *p, Op *branch) {
  RingPlace before[MAX_GROUPS][2], ends[2][MAX_GROUPS][2];
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
      p->groups[g].at[t] = (RingPlace){control_result(p->f, branch, ends[0][g][t].slot, ends[1][g][t].slot),
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

typedef struct Accesses {
  const Provenance *provenance;
  int arg, count;
} Accesses;

static void count_access(Op *op, void *arg) {
  Accesses *a = arg;
  bool is_access = op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_ATOMIC_RMW ||
                   op->code == OP_ATOMIC_CAS || op->code == OP_ASM;
  for (int i = 0; i < op->in_count && is_access; i++)
    if (op->in[i]->type->ptr && provenance_may_be(a->provenance, op->in[i], a->arg)) {
      a->count++;
      break;
    }
}

/* Whether the kernel accesses memory through the argument once. */
static bool is_sole(const Specialize *p, const Provenance *provenance, const Value *arg) {
  Accesses a = {provenance, arg->index, 0};
  tile_walk(p->f->body, count_access, &a);
  return a.count == 1;
}

static void put_sums(Specialize *p, Builder *top, Op *op) {
  Others others;
  RegularTile *box = box_of_sums(p, op, &others);
  if (!box || p->map_count == MAX_MAPS) return;
  Func *f = p->f;
  RegularTile boxes = *box;
  boxes.dims[0].box = BOX_COLUMNS, boxes.dims[1].box = BOX_ROWS;
  top->span = op->span;
  Value *in[2 + REGULAR_DIMS] = {ring_map(top, &boxes), op->in[1]};
  p->map_count++;
  for (int i = 0; i < others.count; i++) {
    ring_require(top, others.boxes[i]->space);
    box_require_apart(top, box, others.boxes[i]);
  }
  Builder here = {.func = f, .block = op->block, .before = op, .span = op->span};
  for (int d = 0; d < box->count; d++) in[2 + d] = poly_build(box->space, &here, box->dims[d].start, DT_I32, false);
  build_op(&here, OP_TENSOR_ADD, 2 + box->count, in, 0, NULL);
  op_remove(op);
}

/* What a launch must check of loops that write. */
static void keep_apart(Specialize *p, Builder *top) {
  Func *f = p->f;
  const Provenance *provenance = p->write_count ? provenance_create(f->cx->arena, f) : NULL;
  for (int i = 0; i < p->read_count; i++) ring_require(top, p->reads_in_loops[i]->space);
  for (int w = 0; w < p->write_count; w++) {
    const RegularTile *write = p->writes_in_loops[w];
    ring_require(top, write->space);
    for (int i = 0; i < p->loop_count; i++)
      for (int k = 0; k < p->loops[i].ring_count; k++) box_require_apart(top, write, p->loops[i].rings[k].box);
    for (int i = 0; i < p->single_count; i++) box_require_apart(top, write, p->singles[i].ring.box);
    for (int i = 0; i < p->read_count; i++) {
      const RegularTile *read = p->reads_in_loops[i];
      if (!is_sole(p, provenance, write->base) || !is_sole(p, provenance, read->base)) continue;
      box_require_apart(top, write, read);
      ApartArgs *apart = NEW(f->cx->arena, ApartArgs);
      *apart = (ApartArgs){write->base->index, read->base->index, f->apart};
      f->apart = apart;
    }
  }
  for (int w = 0; w < p->write_count; w++) put_sums(p, top, p->write_ops[w]);
}

void specialize_put_rings(Specialize *p) {
  Func *f = p->f;
  for (int i = 0; i < p->loop_count; i++)
    ring_note_stages(f, p->o, stages_of(p, &p->loops[i]), p->groups[p->loops[i].group].slots);
  Op *first = f->body->first;
  Builder top = {.func = f, .block = f->body, .before = first, .span = first->span};
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++) disjoint_require(&p->stores, p->loops[i].rings[k].load);
  for (int i = 0; i < p->single_count; i++) disjoint_require(&p->stores, p->singles[i].ring.load);
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++)
      make_ring(&top, &p->loops[i].rings[k], &p->groups[p->loops[i].group], k);
  for (int i = 0; i < p->single_count; i++) make_ring(&top, &p->singles[i].ring, &p->groups[p->singles[i].group], 0);
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++) make_map(&top, &p->loops[i].rings[k]);
  for (int i = 0; i < p->single_count; i++) make_map(&top, &p->singles[i].ring);
  for (int i = 0; i < p->loop_count; i++)
    for (int k = 0; k < p->loops[i].ring_count; k++) specialize_share_ring(p, &p->loops[i].rings[k]);
  keep_apart(p, &top);
  RingPlace start = ring_first(&top);
  for (int i = 0; i < p->group_count; i++)
    for (int t = 0; t < 2; t++) p->groups[i].at[t] = start;
  thread_block(p, f->body);
  Builder end = {.func = f, .block = f->body};
  bool waited[MAX_GROUPS] = {false};
  for (int i = 0; i < p->loop_count; i++) { /* loops of a group have the same rings */
    Loop *l = &p->loops[i];
    for (int k = 0; k < l->ring_count && !waited[l->group]; k++)
      specialize_wait_for_readers(p, &end, &p->groups[l->group], &l->rings[k]);
    waited[l->group] = true;
  }
}
