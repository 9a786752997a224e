/* Making a LaneFunc ready for the simulator: once a call, not once a block.
 *
 * Each value gets a place in the register file, by a linear scan: operations are numbered in the order of the text, a
 * value lives from its definition to its last use, or to the end of every loop that uses it but does not contain its
 * definition; what a loop carries lives as long as the loop. Constants are merged and keep their places. A place freed
 * at an operation is not given to that operation's own results, so that what moves between lanes never writes over what
 * it still reads.
 */
#include "gpu/sim/sim_plan.h"

enum { MOST_WARPS = 32, SHARED_ALIGN = 1024 };

static const int type_bytes[] = {[LT_PRED] = 1, [LT_B16] = 2, [LT_B32] = 4, [LT_B64] = 8};

typedef struct Interval {
  int def, last, next_dying;
} Interval; /* next_dying: the next value that dies at the same place, + 1 */

typedef struct Planner {
  SimPlan *plan;
  Arena *arena;
  const LaneTraceHook *hook;
  Interval *live; /* by value id */
  int position;
  VEC(int) loop_first;     /* of the loops that are open: position */
  VEC(uint32_t) loop_uses; /* ids used in open loops and defined before them: extended when the loop closes */
  int *dying;              /* by position: first value id + 1 */
  uint32_t *place;         /* by value id */
  bool *is_fixed;
  Map *constants;
  VEC(uint32_t) free[4]; /* by type */
  uint32_t units;        /* bytes a thread */
  int depth;
} Planner;

/* ---- positions and uses ------------------------------------------------------------------------------------------ */

/* Not run: their value is there from the start. */
static bool is_constant(const LaneOp *op) {
  return op->code == LANE_CONST || op->code == LANE_SHARED || op->code == LANE_PARAM;
}

static void use(Planner *p, const LaneValue *v) {
  Interval *i = &p->live[v->id];
  if (i->last < p->position) i->last = p->position;
  if (p->loop_first.n && i->def < p->loop_first.at[p->loop_first.n - 1])
    vec_push(p->arena, &p->loop_uses, (uint32_t)v->id);
}

static void define(Planner *p, const LaneValue *v) { p->live[v->id] = (Interval){p->position, p->position, 0}; }

static void number_block(Planner *p, const LaneBlock *block) {
  stack_guard();
  for (const LaneOp *op = block->first; op; op = op->next) {
    p->position++;
    for (int i = 0; i < op->in_count; i++) use(p, op->in[i]);
    if (op->guard) use(p, op->guard);
    for (int i = 0; i < op->out_count; i++) define(p, op->out[i]);
    if (lane_info[op->code].effect == LE_TERMINATOR) return;
    if (!op->body[0]) continue;
    bool loops = op->code != LANE_IF;
    int uses_before = p->loop_uses.n;
    for (int i = 0; i < 2; i++)
      for (int j = 0; op->body[i] && j < op->body[i]->arg_count; j++) define(p, op->body[i]->args[j]);
    if (loops) {
      vec_push(p->arena, &p->loop_first, p->position + 1);
      for (int i = 0; i < op->in_count; i++) vec_push(p->arena, &p->loop_uses, (uint32_t)op->in[i]->id);
    }
    for (int i = 0; i < 2; i++)
      if (op->body[i]) number_block(p, op->body[i]);
    p->position++; /* the end of the control operation */
    int end = p->position;
    for (int i = 0; i < 2; i++)
      for (int j = 0; op->body[i] && j < op->body[i]->arg_count; j++) p->live[op->body[i]->args[j]->id].last = end;
    for (int i = 0; i < op->out_count; i++) p->live[op->out[i]->id].last = end;
    if (!loops) continue;
    p->loop_first.n--;
    /* What was defined before the loop lives to its end; what was defined before the loop around it concerns that one
     * too. */
    int outer = p->loop_first.n ? p->loop_first.at[p->loop_first.n - 1] : -1, kept = uses_before;
    for (int i = uses_before; i < p->loop_uses.n; i++) {
      uint32_t id = p->loop_uses.at[i];
      if (p->live[id].last < end) p->live[id].last = end;
      if (p->live[id].def < outer) p->loop_uses.at[kept++] = id;
    }
    p->loop_uses.n = kept;
  }
}

static void list_dying(Planner *p, int values) {
  p->dying = NEW_N(p->arena, int, p->position + 2);
  for (int id = 0; id < values; id++) {
    Interval *i = &p->live[id];
    if (!i->def) continue;
    i->next_dying = p->dying[i->last];
    p->dying[i->last] = id + 1;
  }
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static uint32_t take(Planner *p, LaneType type) {
  if (p->free[type].n) return p->free[type].at[--p->free[type].n];
  uint32_t bytes = (uint32_t)type_bytes[type];
  if (p->units % bytes) p->units += bytes - p->units % bytes;
  uint32_t at = p->units;
  p->units += bytes;
  return at * (uint32_t)p->plan->threads;
}

static uint32_t constant_place(Planner *p, LaneType type, uint64_t bits, bool is_shared) {
  char *key = arena_printf(p->arena, "%d %d %llx", is_shared, (int)type, (unsigned long long)bits);
  intptr_t known = (intptr_t)map_get(p->constants, key);
  if (known) return p->plan->fixed.at[known - 1].offset;
  /* Never from a freed place: that is written while the block runs, and this only before. */
  VEC(uint32_t) none = {0};
  memcpy(&none, &p->free[type], sizeof none);
  p->free[type].n = 0;
  uint32_t at = take(p, type);
  memcpy(&p->free[type], &none, sizeof none);
  vec_push(p->arena, &p->plan->fixed, (SimFixed){at, type, is_shared, bits});
  map_put(p->constants, key, (void *)(intptr_t)p->plan->fixed.n);
  return at;
}

static void place(Planner *p, const LaneValue *v) { p->place[v->id] = take(p, v->type); }

static void release(Planner *p, const LaneType *types) {
  for (int id = p->dying[p->position]; id; id = p->live[id - 1].next_dying)
    if (!p->is_fixed[id - 1]) vec_push(p->arena, &p->free[types[id - 1]], p->place[id - 1]);
}

static void note_type(LaneType *types, const LaneValue *v) { types[v->id] = v->type; }

static void note_types(LaneType *types, const LaneBlock *block) {
  stack_guard();
  for (int i = 0; i < block->arg_count; i++) note_type(types, block->args[i]);
  for (const LaneOp *op = block->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++) note_type(types, op->out[i]);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) note_types(types, op->body[i]);
  }
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static SimBlock *plan_block(Planner *p, const LaneBlock *block, const LaneType *types);

static void plan_op(Planner *p, SimOp *o, const LaneOp *op, const LaneType *types) {
  p->position++;
  o->op = op;
  o->in = NEW_N(p->arena, uint32_t, op->in_count + op->out_count);
  o->out = o->in + op->in_count;
  for (int i = 0; i < op->in_count; i++) o->in[i] = p->place[op->in[i]->id];
  if (op->guard) o->guard = p->place[op->guard->id];
  for (int i = 0; i < op->out_count; i++) {
    if (op->code == LANE_PARAM && op->imm >= 0 && op->imm < p->plan->f->param_count) {
      p->place[op->out[0]->id] = p->plan->params[op->imm];
      p->is_fixed[op->out[0]->id] = true;
    } else if (is_constant(op)) {
      bool known = op->buffer >= 0 && op->buffer < p->plan->f->buffers.n;
      uint64_t bits = op->code == LANE_CONST ? (uint64_t)op->imm
                      : known                ? (uint64_t)p->plan->buffer_offset[op->buffer]
                                             : 0;
      p->place[op->out[0]->id] = constant_place(p, op->out[0]->type, bits, op->code == LANE_SHARED);
      p->is_fixed[op->out[0]->id] = true;
    } else {
      place(p, op->out[i]);
    }
    o->out[i] = p->place[op->out[i]->id];
  }
  if (lane_info[op->code].effect == LE_PURE && op->code != LANE_SPECIAL) o->pure = sim_pure_function(op);
  if (op->body[0]) {
    if (++p->depth > p->plan->depth) p->plan->depth = p->depth;
    for (int i = 0; i < 2; i++)
      for (int j = 0; op->body[i] && j < op->body[i]->arg_count; j++) place(p, op->body[i]->args[j]);
    release(p, types);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) o->body[i] = plan_block(p, op->body[i], types);
    p->depth--;
    p->position++;
  }
  release(p, types);
}

/* Its results are not needed, and it does nothing else; ldmatrix and stmatrix are accesses to be counted. */
static bool is_idle(const Planner *p, const LaneOp *op) {
  LaneEffect e = lane_info[op->code].effect;
  if (!p->hook || op->body[0] || op->code == LANE_LDMATRIX || op->code == LANE_STMATRIX ||
      (e != LE_PURE && e != LE_CONVERGED && op->code != LANE_ASM))
    return false;
  for (int i = 0; i < op->out_count; i++)
    if (p->hook->values[op->out[i]->id]) return false;
  return true;
}

/* ---- regions ---- */

/* Whether warps wait for one another so that the block cannot go together. */
static bool parts_warps(const LaneOp *op) {
  return lane_is_mbar(op->code) || lane_is_tensor(op->code) || lane_is_tmem(op->code) ||
         op->code == LANE_BARRIER_ARRIVE || op->code == LANE_CLUSTER_BARRIER || op->code == LANE_SETMAXNREG ||
         (op->code == LANE_BARRIER && op->warps) || (op->code == LANE_IF && op->warps);
}

static void note_memory(Planner *p, SimOp *o) {
  const LaneOp *op = o->op;
  bool global = op->space == SPACE_GLOBAL;
  o->meets = (op->code == LANE_BARRIER && !op->warp) || (op->body[0] && op->uniform);
  if (op->code == LANE_LD) o->touches = global ? SIM_READS_GLOBAL : SIM_READS_SHARED;
  if (op->code == LANE_LDMATRIX || op->code == LANE_WGMMA) o->touches = SIM_READS_SHARED;
  if (parts_warps(op)) p->plan->apart = true;
  if (op->code == LANE_TENSOR_STORE || op->code == LANE_TENSOR_RED) p->plan->writes_global = true;
  if (op->code == LANE_CP_ASYNC) o->touches = SIM_WRITES_SHARED | SIM_READS_GLOBAL;
  if (op->code == LANE_STMATRIX) o->touches = SIM_WRITES_SHARED;
  if (op->code == LANE_ST) o->touches = global ? SIM_WRITES_GLOBAL : SIM_WRITES_SHARED;
  /* Atomics alone stay in order, that their old values are the same each time. */
  if (global && (op->code == LANE_ST || op->code == LANE_ATOM)) p->plan->writes_global = true;
  for (int i = 0; i < 2; i++)
    for (int k = 0; o->body[i] && k < o->body[i]->count; k++) {
      o->touches |= o->body[i]->ops[k].touches;
      o->meets |= o->body[i]->ops[k].meets;
    }
}

static void find_regions(Planner *p, SimBlock *s) {
  SimRegion now = {0};
  uint8_t touched = 0;
  for (int i = 0; i <= s->count; i++) {
    bool ends = i == s->count || s->ops[i].meets;
    if (!ends) touched |= s->ops[i].touches;
    if (!ends || (i == s->count && now.begin == i)) continue;
    now.end = i;
    now.mixed = (touched & 3) == 3 || (touched & 12) == 12;
    if (now.end > now.begin) vec_push(p->arena, &s->regions, now);
    if (i < s->count) vec_push(p->arena, &s->regions, (SimRegion){i, i + 1, false});
    now.begin = i + 1;
    touched = 0;
  }
}

/* An mma's, wgmma's or tmem_mma's products of two elements each, of 128 threads. */
static int64_t products_of(const LaneOp *op) {
  int64_t k = op->kind == LK_F64 ? 8 : (int64_t)8 << lane_mma_pack(op->kind);
  switch (op->code) {
    case LANE_MMA: return 4 * 16 * 8 * k;
    case LANE_WGMMA: return 64 * 2 * (int64_t)op->out_count * k;
    case LANE_TMEM_MMA: return op->rows * op->columns * k;
    default: return 0;
  }
}

static SimBlock *plan_block(Planner *p, const LaneBlock *block, const LaneType *types) {
  stack_guard();
  SimBlock *s = NEW(p->arena, SimBlock);
  s->block = block;
  int n = 0;
  for (const LaneOp *op = block->first; op; op = op->next) n++;
  s->ops = NEW_N(p->arena, SimOp, n);
  s->args = NEW_N(p->arena, uint32_t, block->arg_count);
  for (int i = 0; i < block->arg_count; i++) s->args[i] = p->place[block->args[i]->id];
  for (const LaneOp *op = block->first; op; op = op->next) {
    plan_op(p, &s->ops[s->count], op, types);
    s->products += products_of(op);
    if (!is_constant(op) && !is_idle(p, op)) s->count++;
    else s->ops[s->count] = (SimOp){0};
    if (lane_info[op->code].effect != LE_TERMINATOR) continue;
    s->end = &s->ops[--s->count];
    size_t bytes = 0;
    for (int i = 0; i < op->in_count; i++) {
      bytes += (size_t)type_bytes[op->in[i]->type];
      if (op->in[i]->block == block) s->end_reads_args = true;
    }
    bytes *= (size_t)p->plan->threads;
    if (bytes > p->plan->copy_bytes) p->plan->copy_bytes = bytes;
    break;
  }
  for (int i = 0; i < s->count; i++) note_memory(p, &s->ops[i]);
  find_regions(p, s);
  return s;
}

static void plan_shared(SimPlan *plan, const LaneFunc *f) {
  plan->buffer_offset = NEW_N(plan->cx->arena, int, f->buffers.n);
  plan->shared_bytes = f->shared_bytes;
  int end = 0;
  for (int i = 0; i < f->buffers.n; i++) {
    const LaneBuffer *b = &f->buffers.at[i];
    if (b->offset >= 0) {
      plan->buffer_offset[i] = b->offset;
    } else { /* not laid out yet: one after the other */
      end = (int)align_up(end, b->align);
      plan->buffer_offset[i] = end;
      end += b->bytes;
    }
    if (plan->buffer_offset[i] + b->bytes > plan->shared_bytes) plan->shared_bytes = plan->buffer_offset[i] + b->bytes;
  }
}

SimPlan *sim_plan(Context *cx, const LaneFunc *f, int cluster, const LaneTraceHook *hook) {
  Planner planner = {.arena = cx->arena, .hook = hook}, *p = &planner;
  SimPlan *plan = p->plan = NEW(cx->arena, SimPlan);
  plan->cx = cx;
  plan->f = f;
  plan->cluster = cluster > 1 ? cluster : 1;
  plan->block_warps = f->num_warps < 1 ? 1 : f->num_warps > MOST_WARPS ? MOST_WARPS : f->num_warps;
  plan->block_threads = 32 * plan->block_warps;
  plan->warps = plan->block_warps * plan->cluster;
  plan->threads = 32 * plan->warps;
  if (plan->warps > MOST_WARPS)
    diag_fail(cx, (Span){0}, "the simulator has no room for a cluster of %d blocks of %d warps", plan->cluster,
              plan->block_warps);
  plan_shared(plan, f);
  plan->block_bytes = (int)align_up(plan->shared_bytes, SHARED_ALIGN);
  plan->all_bytes = (plan->cluster - 1) * plan->block_bytes + plan->shared_bytes;

  p->live = NEW_N(cx->arena, Interval, f->value_count + 1);
  p->place = NEW_N(cx->arena, uint32_t, f->value_count + 1);
  p->is_fixed = NEW_N(cx->arena, bool, f->value_count + 1);
  p->constants = map_create(cx->arena, true);
  LaneType *types = NEW_N(cx->arena, LaneType, f->value_count + 1);
  note_types(types, f->body);
  number_block(p, f->body);
  list_dying(p, f->value_count);

  p->position = 0;
  plan->params = NEW_N(cx->arena, uint32_t, f->param_count);
  for (int i = 0; i < f->param_count; i++) {
    place(p, f->params[i]);
    p->is_fixed[f->params[i]->id] = true;
    plan->params[i] = p->place[f->params[i]->id];
  }
  plan->body = plan_block(p, f->body, types);
  plan->reg_bytes = ((size_t)p->units + 8) * (size_t)plan->threads;
  return plan;
}
