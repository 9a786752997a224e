/* Running lane IR on a CPU: for tests, and as a device where there is no GPU.
 *
 * Each operation is done for all threads before the next one, or, from one barrier to the next, for all of a warp's:
 * where memory is both read and written in between, warps run one after the other in an order of chance, so that a
 * kernel which lacks a barrier does not get the right values by luck. Where warps wait for one
 * another in other ways than that, each goes its own way (sim/apart.c). Control keeps a mask of the threads it is for:
 *
 *     if p     the mask and p, then the mask and not p
 *     for      round after round with those threads whose counter is not yet at its end; carried values are written
 *              under the mask
 *     while    likewise, with those for which the condition held
 *
 * Operations without effect ignore the mask (sim/pure.c): SSA sees to it that nobody reads what an inactive thread
 * computes. So threads that diverge run one after the other, as on a GPU without forward progress between them: a
 * thread must not wait for another of its block. `uniform` is checked where it is claimed. Programs of one call run one
 * after the other; of several calls, on coroutines, in turn: one that waits for another gives way (o->wait).
 */
#include "gpu/sim/sim_plan.h"

#include <stdatomic.h>

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static const int type_bytes[] = {[LT_PRED] = 1, [LT_B16] = 2, [LT_B32] = 4, [LT_B64] = 8};

static void copy_value(const SimRun *r, char *to, const char *from, LaneType type, const SimMask *m) {
  size_t bytes = (size_t)type_bytes[type];
  if (m->count == r->to - r->from) {
    memcpy(to + (size_t)r->from * bytes, from + (size_t)r->from * bytes, (size_t)m->count * bytes);
    return;
  }
  for (int t = r->from; t < r->to; t++)
    if (m->on[t]) memcpy(to + (size_t)t * bytes, from + (size_t)t * bytes, bytes);
}

/* Hands values of the body's end on: operands first.. of `end` to the places `to`. */
static void hand_on(SimRun *r, const SimBlock *body, int first, const uint32_t *to, const SimMask *m) {
  const SimOp *end = body->end;
  int n = end->op->in_count;
  if (body->end_reads_args) {
    char *copy = r->copy;
    for (int i = first; i < n; i++) {
      size_t bytes = (size_t)(type_bytes[end->op->in[i]->type] * r->threads);
      memcpy(copy, r->regs + end->in[i], bytes);
      copy += bytes;
    }
    copy = r->copy;
    for (int i = first; i < n; i++) {
      copy_value(r, r->regs + to[i - first], copy, end->op->in[i]->type, m);
      copy += (size_t)(type_bytes[end->op->in[i]->type] * r->threads);
    }
    return;
  }
  for (int i = first; i < n; i++) copy_value(r, r->regs + to[i - first], r->regs + end->in[i], end->op->in[i]->type, m);
}

static void copy_mask(const SimRun *r, SimMask *to, const SimMask *m) {
  memcpy(to->on + r->from, m->on + r->from, (size_t)(r->to - r->from));
}

static void drop_exited(const SimRun *r, SimMask *m) {
  int count = 0;
  for (int t = r->from; t < r->to; t++) count += m->on[t] &= !r->exited[t];
  m->count = count;
}

static bool not_uniform(SimRun *r, const SimOp *o, const SimMask *m) {
  return sim_fault(r, o->op, -1, "a uniform '%s' on which threads differ: %d go on, others do not",
                   lane_info[o->op->code].name, m->count);
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

static bool run_block(SimRun *r, const SimBlock *b, SimMask *m, int depth);

static bool run_if(SimRun *r, const SimOp *o, SimMask *m, int depth) {
  const uint8_t *p = (const uint8_t *)(r->regs + o->in[0]);
  SimMask sides[2] = {{r->masks[2 * depth], 0}, {r->masks[2 * depth + 1], 0}};
  for (int t = r->from; t < r->to; t++) {
    sides[0].count += sides[0].on[t] = m->on[t] && p[t];
    sides[1].count += sides[1].on[t] = m->on[t] && !p[t];
  }
  if (o->op->uniform && sides[0].count && sides[1].count) return not_uniform(r, o, &sides[0]);
  if (r->o->hook) sim_split(r, o, &sides[0], &sides[1]);
  for (int i = 0; i < 2; i++) {
    if (!sides[i].count || !o->body[i]) continue;
    if (!run_block(r, o->body[i], &sides[i], depth + 1)) return false;
    hand_on(r, o->body[i], 0, o->out, &sides[i]);
  }
  return true;
}

static bool goes_on(const SimRun *r, const SimOp *o, int t) {
  const LaneOp *op = o->op;
  LaneType type = op->in[0]->type;
  uint64_t iv = sim_get(r, o->body[0]->args[0], type, t), ub = sim_get(r, o->in[1], type, t),
           step = sim_get(r, o->in[2], type, t);
  switch (op->kind) {
    case LK_U32:
    case LK_U64: return iv < ub;
    case LK_S64: return (int64_t)step < 0 ? (int64_t)iv > (int64_t)ub : (int64_t)iv < (int64_t)ub;
    default: return (int32_t)step < 0 ? (int32_t)iv > (int32_t)ub : (int32_t)iv < (int32_t)ub;
  }
}

static bool run_for(SimRun *r, const SimOp *o, SimMask *m, int depth) {
  const LaneOp *op = o->op;
  const SimBlock *body = o->body[0];
  LaneType type = op->in[0]->type;
  SimMask on = {r->masks[2 * depth], m->count};
  copy_mask(r, &on, m);
  copy_value(r, r->regs + body->args[0], r->regs + o->in[0], type, m);
  for (int i = 3; i < op->in_count; i++)
    copy_value(r, r->regs + body->args[i - 2], r->regs + o->in[i], op->in[i]->type, m);
  uint32_t outside = r->iteration;
  for (uint32_t i = 0;; i++) {
    int before = on.count, count = 0;
    r->iteration = sim_mix(outside, i);
    SimMask off = {r->masks[2 * depth + 1], 0};
    for (int t = r->from; t < r->to; t++) {
      bool was = on.on[t];
      if (was) count += on.on[t] = goes_on(r, o, t);
      off.on[t] = was && !on.on[t];
    }
    on.count = count;
    off.count = before - count;
    if (!count) break;
    if (op->uniform && count != before) return not_uniform(r, o, &on);
    if (off.count && r->o->hook) sim_split(r, o, &on, &off);
    if (!run_block(r, body, &on, depth + 1)) return false;
    hand_on(r, body, 0, body->args + 1, &on);
    for (int t = r->from; t < r->to; t++)
      if (on.on[t])
        sim_set(r, body->args[0], type, t, sim_get(r, body->args[0], type, t) + sim_get(r, o->in[2], type, t));
  }
  r->iteration = outside;
  for (int i = 0; i < op->out_count; i++)
    copy_value(r, r->regs + o->out[i], r->regs + body->args[i + 1], op->out[i]->type, m);
  return true;
}

static bool run_while(SimRun *r, const SimOp *o, SimMask *m, int depth) {
  const LaneOp *op = o->op;
  SimMask on = {r->masks[2 * depth], m->count}, leaving = {r->masks[2 * depth + 1], 0};
  copy_mask(r, &on, m);
  for (int i = 0; i < op->in_count; i++)
    copy_value(r, r->regs + o->body[0]->args[i], r->regs + o->in[i], op->in[i]->type, m);
  uint32_t outside = r->iteration;
  for (uint32_t i = 0; on.count; i++) {
    r->iteration = sim_mix(outside, i);
    if (!run_block(r, o->body[0], &on, depth + 1)) return false;
    if (!on.count) break;
    const uint8_t *p = (const uint8_t *)(r->regs + o->body[0]->end->in[0]);
    leaving.count = 0;
    int count = 0;
    for (int t = r->from; t < r->to; t++) {
      leaving.count += leaving.on[t] = on.on[t] && !p[t];
      count += on.on[t] = on.on[t] && p[t];
    }
    on.count = count;
    if (op->uniform && on.count && leaving.count) return not_uniform(r, o, &on);
    if (leaving.count && r->o->hook) sim_split(r, o, &on, &leaving);
    if (leaving.count) hand_on(r, o->body[0], 1, o->out, &leaving);
    if (!on.count) break;
    hand_on(r, o->body[0], 1, o->body[1]->args, &on);
    if (!run_block(r, o->body[1], &on, depth + 1)) return false;
    hand_on(r, o->body[1], 0, o->body[0]->args, &on);
    if (op->waits && r->o->wait && !sim_outside(r, i == 0 || op->waits == WAIT_WORKS))
      return sim_fault(r, op, -1, "%s", "");
  }
  r->iteration = outside;
  return true;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* Of a persistent kernel, which run in a line. */
static int64_t blocks_of(const SimRun *r) {
  const int32_t *grid = r->o->grid;
  return r->o->blocks ? r->o->blocks : (int64_t)grid[0] * grid[1] * grid[2];
}

static void special(SimRun *r, const SimOp *o) {
  const int32_t *grid = r->o->grid;
  LaneType type = o->op->out[0]->type;
  uint64_t v = 0;
  switch ((LaneSpecial)o->op->special) {
    case SP_CTAID_X: v = r->plan->f->persistent ? (uint32_t)r->number : (uint32_t)r->program[0]; break;
    case SP_CTAID_Y: v = (uint32_t)r->program[1]; break;
    case SP_CTAID_Z: v = (uint32_t)r->program[2]; break;
    case SP_NCTAID_X: v = r->plan->f->persistent ? (uint32_t)blocks_of(r) : (uint32_t)grid[0]; break;
    case SP_NCTAID_Y: v = (uint32_t)grid[1]; break;
    case SP_NCTAID_Z: v = (uint32_t)grid[2]; break;
    case SP_CLUSTER_SIZE: v = (uint32_t)r->plan->cluster; break;
    case SP_CLOCK64: v = r->clock += 16; break;
    case SP_GLOBALTIMER: v = (uint64_t)clock_ns(); break;
    default: break;
  }
  for (int t = r->from; t < r->to; t++) {
    uint64_t block = (uint64_t)sim_block_of(r, t), own = v;
    switch ((LaneSpecial)o->op->special) {
      case SP_TID_X: own = (uint64_t)(t % r->plan->block_threads); break;
      case SP_LANE: own = (uint64_t)(t & 31); break;
      case SP_CTAID_X: own = v + block; break;
      case SP_CLUSTER_RANK: own = block; break;
      default: break;
    }
    sim_set(r, o->out[0], type, t, own);
  }
}

static void leave(SimRun *r, const SimOp *o, SimMask *m) {
  for (int t = r->from; t < r->to; t++)
    if (m->on[t] && sim_guarded(r, o, t)) {
      r->exited[t] = 1;
      r->live--;
    }
  drop_exited(r, m);
}

/* Takes some more of what is left of the launch's work. */
static bool take_work(SimRun *r, const SimBlock *b) {
  enum { PIECE = 1 << 24, SMALL_PIECE = 1 << 18 };
  int64_t piece = r->o->wait ? SMALL_PIECE : PIECE; /* many programs have one each */
  if (!r->o->operations) {
    r->left = INT64_MAX;
    return true;
  }
  int64_t there = 1;
  while (r->left < 0 && there > 0) {
    there = atomic_fetch_sub(r->o->operations, piece);
    r->left += there < piece ? there : piece;
  }
  if (there > 0) return true;
  r->fault->over_limit = true;
  const LaneOp *at = b->end ? b->end->op : NULL;
  for (int i = b->count - 1; i >= 0; i--)
    if (b->ops[i].op->span) at = b->ops[i].op;
  return sim_fault(r, at, -1,
                   "the launch takes more operations than limits.operations; let it do less, or raise that limit");
}

static bool run_special(SimRun *r, const SimOp *o, const SimMask *m) { return special(r, o), true; }
static bool run_cp_group(SimRun *r, const SimOp *o, const SimMask *m) { return sim_cp_group(r, o, m), true; }
static bool run_nothing(SimRun *r, const SimOp *o, const SimMask *m) { return true; }

static bool run_fence(SimRun *r, const SimOp *o, const SimMask *m) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  sim_cache_acquire(r, o->op);
  return true;
}

static bool run_record(SimRun *r, const SimOp *o, const SimMask *m) {
  if (r->clocks) sim_record(r, o, m);
  return true;
}

static bool run_asm(SimRun *r, const SimOp *o, const SimMask *m) {
  return sim_fault(r, o->op, -1, "the simulator does not run inline PTX");
}

/* What runs an operation that is neither pure nor control. Where the accesses are only watched, some are shown to who
 * watches instead, and some passed over. */
typedef enum { RUNS, IS_SHOWN, IS_PASSED } Hooked;
static const struct Runner {
  bool (*run)(SimRun *r, const SimOp *o, const SimMask *m);
  Hooked hooked;
} runners[LANE_COUNT] = {
    [LANE_SPECIAL] = {run_special},
    [LANE_LD] = {sim_load, IS_SHOWN},
    [LANE_ST] = {sim_store, IS_SHOWN},
    [LANE_ATOM] = {sim_atomic, IS_SHOWN},
    [LANE_LDMATRIX] = {sim_converged, IS_SHOWN},
    [LANE_STMATRIX] = {sim_converged, IS_SHOWN},
    [LANE_CP_ASYNC] = {sim_cp_async, IS_SHOWN},
    [LANE_CP_COMMIT] = {run_cp_group, IS_PASSED},
    [LANE_CP_WAIT] = {run_cp_group, IS_PASSED},
    [LANE_FENCE_PROXY] = {run_cp_group, IS_PASSED},
    [LANE_SHARED_READ] = {run_nothing},
    [LANE_PREFETCH_MAP] = {run_nothing},
    [LANE_GRID_WAIT] = {run_nothing},
    [LANE_MBAR_INIT] = {sim_mbar, IS_PASSED},
    [LANE_MBAR_ARRIVE] = {sim_mbar, IS_PASSED},
    [LANE_MBAR_EXPECT] = {sim_mbar, IS_PASSED},
    [LANE_MBAR_WAIT] = {sim_mbar, IS_PASSED},
    [LANE_FENCE_MBAR] = {sim_mbar, IS_PASSED},
    [LANE_TENSOR_LOAD] = {sim_tensor, IS_PASSED},
    [LANE_TENSOR_STORE] = {sim_tensor, IS_PASSED},
    [LANE_TENSOR_RED] = {sim_tensor, IS_PASSED},
    [LANE_BULK_COMMIT] = {sim_bulk_group, IS_PASSED},
    [LANE_BULK_WAIT] = {sim_bulk_group, IS_PASSED},
    [LANE_TMEM_COMMIT] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_ALLOC] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_RELINQUISH] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_DEALLOC] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_MMA] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_LD] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_ST] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_WAIT_LD] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_WAIT_ST] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_FENCE_BEFORE] = {sim_tmem, IS_PASSED},
    [LANE_TMEM_FENCE_AFTER] = {sim_tmem, IS_PASSED},
    [LANE_BARRIER_ARRIVE] = {sim_converged},
    [LANE_CLUSTER_BARRIER] = {sim_converged},
    [LANE_SETMAXNREG] = {sim_converged},
    [LANE_ELECT] = {sim_converged},
    [LANE_WGMMA] = {sim_converged},
    [LANE_WGMMA_FENCE] = {sim_converged},
    [LANE_WGMMA_COMMIT] = {sim_converged},
    [LANE_WGMMA_WAIT] = {sim_converged},
    [LANE_MMA] = {sim_converged},
    [LANE_SHFL] = {sim_converged},
    [LANE_VOTE] = {sim_converged},
    [LANE_REDUX] = {sim_converged},
    [LANE_BARRIER] = {sim_converged},
    [LANE_FENCE] = {run_fence},
    [LANE_RECORD_OPEN] = {run_record},
    [LANE_RECORD] = {run_record},
    [LANE_RECORD_CLOSE] = {run_record},
    [LANE_ASM] = {run_asm, IS_SHOWN},
};

static bool run_op(SimRun *r, const SimOp *o, SimMask *m, int depth) {
  const struct Runner *runner = &runners[o->op->code];
  if (runner->run) {
    if (!r->o->hook || runner->hooked == RUNS) return runner->run(r, o, m);
    return runner->hooked == IS_PASSED || sim_look(r, o, m);
  }
  switch (o->op->code) {
    case LANE_FOR: return run_for(r, o, m, depth);
    case LANE_WHILE: return run_while(r, o, m, depth);
    case LANE_IF: return run_if(r, o, m, depth);
    case LANE_EXIT: return leave(r, o, m), true;
    case LANE_TRAP: return sim_fault(r, o->op, -1, "a trap");
    default: return sim_fault(r, o->op, -1, "the simulator does not know '%s'", lane_info[o->op->code].name);
  }
}

static bool run_ops(SimRun *r, const SimBlock *b, int begin, int end, SimMask *m, int depth) {
  for (int i = begin; i < end; i++) {
    const SimOp *o = &b->ops[i];
    if (r->clocks) sim_tick(r, o, m);
    if (o->pure) {
      o->pure(o, r->regs, r->from, r->to);
      continue;
    }
    if (r->apart && !sim_pause(r)) return false;
    int live = r->live;
    if (!run_op(r, o, m, depth)) return false;
    if (r->live != live) {
      drop_exited(r, m);
      if (!m->count) return true;
    }
  }
  return true;
}

/* ---- warps out of step ---- */

/* The region's operations, warp after warp, in any order. */
static bool run_warps(SimRun *r, const SimBlock *b, const SimRegion *s, SimMask *m, int depth) {
  int warps = r->plan->warps, order[32] = {0}, live = r->live;
  bool ok = true;
  for (int i = 0; i < warps; i++) {
    int k = (int)sim_random(r, (uint32_t)i + 1);
    order[i] = order[k];
    order[k] = i;
  }
  for (int i = 0; i < warps && ok; i++) {
    r->from = 32 * order[i], r->to = r->from + 32;
    SimMask warp = {m->on, 0}; /* control and memory look at its part alone */
    for (int t = r->from; t < r->to; t++) warp.count += m->on[t];
    if (warp.count) ok = run_ops(r, b, s->begin, s->end, &warp, depth);
  }
  r->from = 0, r->to = r->threads;
  if (r->live != live) drop_exited(r, m);
  return ok;
}

static bool run_block(SimRun *r, const SimBlock *b, SimMask *m, int depth) {
  int threads = r->to - r->from;
  r->left -= (int64_t)(b->count + 1) * (threads + 32) + b->products * threads / 128;
  if (r->left < 0 && !take_work(r, b)) return false;
  if (stack_short()) {
    r->fault->over_limit = true;
    return sim_fault(r, b->count ? b->ops[0].op : NULL, -1,
                     "the kernel is nested too deeply for the stack of this thread");
  }
  if (r->o->hook && !sim_enter(r, b, m)) return false;
  bool together = !r->o->seed || r->o->hook || r->clocks || r->plan->warps == 1 || r->to - r->from < r->threads;
  for (int i = 0; i < b->regions.n && m->count; i++) {
    const SimRegion *s = &b->regions.at[i];
    bool ok = together || !s->mixed ? run_ops(r, b, s->begin, s->end, m, depth) : run_warps(r, b, s, m, depth);
    if (!ok) return false;
  }
  return true;
}

static bool run_body(SimRun *r, SimMask *m) { return run_block(r, r->plan->body, m, 1); }

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

bool lane_sim_program(SimRun *r, int64_t program) {
  const int32_t *grid = r->o->grid;
  r->number = program;
  r->program[0] = (int32_t)(program % grid[0]);
  r->program[1] = (int32_t)(program / grid[0] % grid[1]);
  r->program[2] = (int32_t)(program / grid[0] / grid[1]);
  r->cache = sim_cache_of(r->o->caches, program);
  r->from = 0, r->to = r->threads;
  r->random = (uint64_t)program * 0x9e3779b97f4a7c15ull + r->o->seed;
  r->iteration = 0;
  memset(r->exited, 0, (size_t)r->threads);
  memset(r->masks[0], 1, (size_t)r->threads);
  r->live = r->threads;
  r->block_start = r->block_sync = ++r->time;
  if (r->global) sim_shadow_meet(r->global);
  for (int w = 0; w < r->plan->warps; w++) r->warp_sync[w] = r->time;
  if (r->clocks) sim_clock_start(r);
  if (r->async) sim_async_start(r);
  if (r->apart) return sim_run_apart(r, run_body);
  SimMask all = {r->masks[0], r->threads};
  return run_block(r, r->plan->body, &all, 1);
}

SimRun *lane_sim_prepare(Context *cx, const LaneFunc *f, const uint64_t *args, const LaneSimOptions *o,
                         LaneSimFault *fault) {
  Arena *arena = cx->arena;
  SimRun *r = NEW(arena, SimRun);
  SimPlan *plan = sim_plan(cx, f, o->cluster, o->hook);
  int threads = plan->threads;
  *r = (SimRun){.plan = plan, .o = o, .fault = fault, .threads = threads};
  r->regs = arena_alloc(arena, plan->reg_bytes);
  r->copy = arena_alloc(arena, plan->copy_bytes);
  r->masks = NEW_N(arena, uint8_t *, 2 * plan->depth + 4);
  for (int i = 0; i < 2 * plan->depth + 4; i++) r->masks[i] = NEW_N(arena, uint8_t, threads);
  r->exited = NEW_N(arena, uint8_t, threads);
  r->shared = arena_alloc(arena, (size_t)plan->all_bytes);
  r->shadow = NEW_N(arena, SimShadow, plan->all_bytes);
  r->warp_sync = NEW_N(arena, uint32_t, plan->warps);
  if (plan->writes_global && !o->hook) r->global = sim_shadow_create(cx);
  if (!o->hook) r->async = sim_async(cx, f, threads);
  if (plan->apart && !o->hook) {
    sim_apart(r, cx);
    r->bulk = sim_bulk(cx, r);
    r->tmem = sim_tmem_create(cx, f, plan->warps);
  }
  if (f->instrument && !o->hook) r->clocks = sim_clock(cx, plan->warps);
  for (int i = 0; i < f->param_count; i++)
    for (int t = 0; t < threads; t++) {
      LaneType type = f->params[i]->type;
      uint64_t bits = args[i];
      const Type *of = f->param_types[i];
      if (of && !of->ptr && of->dtype == DT_I1) bits = (bits & 0xff) != 0;
      else if (of && !of->ptr && dtype_is_int(of->dtype)) bits = (uint64_t)dtype_load_int(of->dtype, &bits);
      else if (of && !of->ptr && dtype_is_fp8(of->dtype)) bits &= 0xff;
      sim_set(r, plan->params[i], type, t, bits & lane_type_mask(type));
    }
  for (int i = 0; i < plan->fixed.n; i++)
    for (int t = 0; t < threads; t++) {
      const SimFixed *x = &plan->fixed.at[i];
      uint64_t block = x->is_shared ? (uint64_t)sim_block_of(r, t) << SIM_BLOCK_SHIFT : 0;
      sim_set(r, x->offset, x->type, t, x->bits | block);
    }
  return r;
}

static void find_wait(LaneOp *op, void *found) { *(bool *)found |= op->waits != WAIT_NONE; }

bool lane_waits(const LaneFunc *f) {
  bool found = false;
  lane_walk(f->body, find_wait, &found);
  return found;
}

static void find_learning(LaneOp *op, void *found) {
  if (op->space != SPACE_GLOBAL) return;
  *(bool *)found |= (op->code == LANE_ATOM && op->out_count > 0) || (op->code == LANE_LD && op->is_volatile);
}

bool lane_learns(const LaneFunc *f) {
  bool found = lane_waits(f);
  lane_walk(f->body, find_learning, &found);
  return found;
}

static void out_of_memory(const Context *cx, LaneSimFault *fault) {
  fault->over_limit = cx && cx->over_limit;
  fault->out_of_memory = !fault->over_limit;
  snprintf(fault->message, sizeof fault->message, "%s",
           fault->over_limit ? "a block's values take more memory than limits.memory_bytes" : "out of memory");
}

LaneSim *lane_sim_open(const LaneFunc *f, const uint64_t *args, const LaneSimOptions *o, LaneSimFault *fault) {
  static const LaneSimFault nothing;
  *fault = nothing;
  Context *cx = context_create();
  if (cx && o->memory) cx->limits.memory = o->memory;
  if (cx && context_try(cx)) {
    SimRun *r = lane_sim_prepare(cx, f, args, o, fault);
    context_end_try(cx);
    return r;
  }
  out_of_memory(cx, fault);
  if (cx) context_destroy(cx);
  return NULL;
}

bool lane_sim_gave_up(const LaneSim *s) { return s->live < s->threads; }

int64_t lane_sim_bytes(const LaneSim *s) { return (int64_t)arena_used(s->plan->cx->arena); }

void lane_sim_close(LaneSim *s) {
  if (s) context_destroy(s->plan->cx);
}

bool lane_sim_step(LaneSim *s, int64_t program) {
  Context *cx = s->plan->cx;
  volatile bool ok = false;
  if (context_try(cx)) {
    ok = lane_sim_program(s, program);
    context_end_try(cx);
  } else {
    out_of_memory(cx, s->fault);
  }
  return ok;
}

bool lane_sim_run(const LaneFunc *f, const uint64_t *args, const LaneSimOptions *o, LaneSimFault *fault) {
  LaneSim *s = lane_sim_open(f, args, o, fault);
  bool ok = s != NULL;
  for (int64_t i = o->begin; i < o->end && ok; i += o->cluster > 1 ? o->cluster : 1)
    ok = lane_sim_step(s, o->programs ? o->programs[i] : i);
  lane_sim_close(s);
  return ok;
}
