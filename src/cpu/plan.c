/* The plan: which operations share a loop nest, what is kept in memory between nests, and in what order all runs.
 *
 * The walk goes through a block in order with at most one open Group. Pure tensor operations and loads are not placed
 * when they are met: they run in the nest of whoever needs them (the producer is fused). What places things are roots:
 * stores, reductions, and values that must be kept, because dot, sort, a loop, another nest, ... reads them. A root
 * joins the open Group when it runs over the same dims and needs nothing that this very nest has yet to finish; else
 * the Group is closed and the next one opened.
 *
 *     x = load; m = reduce max x        group 1 { x; m }
 *     e = exp(x - m); s = reduce e      group 2 { x (loaded again: no store came between); e -> kept; s }
 *     store e / s                       group 3 { e <- kept; store }
 *
 * A value that a second nest needs is kept by the first after all, unless it is recomputable (index arithmetic) or a
 * load that may be repeated since no memory was written in between.
 *
 * Memory order (memory.h has the rule). A load that waits to be fused runs at the latest before the first write that
 * it conflicts with (settle_loads), or in the nest of that store where both go to the same places. After a write no
 * load is repeated: the nest that ran it keeps it. A load after a store opens a new nest. plan_verify() checks what
 * came of it.
 */
#include "cpu/gemm.h"

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void new_result(Planner *p, Op *op, int k) {
  Emit *e = p->e;
  Value *v = op->out[k];
  if (v->type->rank == 0) return;
  Info *info = info_of(e, v);
  info->view = ((OpPlan *)op->note)->out[k] = view_row_major(e, buffer_new(e, v->type), v->type);
}

/* Operations that read and write whole tiles. */
static void plan_library_op(Planner *p, Op *op) {
  OpPlan *o = op_plan(p, op);
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->type->rank > 0) o->in[i] = need_compact(p, op->in[i]);
  close_group(p);
  for (int k = 0; k < op->out_count; k++) new_result(p, op, k);
  push_op(p, op);
}

static void plan_reshape(Planner *p, Op *op) {
  Emit *e = p->e;
  Value *in = op->in[0], *out = op->out[0];
  View *from = need_compact(p, in);
  if (out->type->rank == 0) {
    OpPlan *o = op_plan(p, op);
    o->in[0] = from;
    close_group(p);
    push_op(p, op);
    return;
  }
  Info *info = info_of(e, out);
  info->view = view_row_major(e, from->buffer, out->type);
  info->owner = p->open; /* which may be writing it */
  info->closed = true;
}

/* Buffers that a dot works in, by type: NULL where it needs none. */
static void dot_room(Emit *e, const Op *op, const Type *room[3]) {
  const Type *a = op->in[0]->type, *b = op->in[1]->type, *c = op->in[2]->type;
  DotKind kind = dot_kind(op);
  room[0] = room[1] = room[2] = NULL;
  if (kind == DOT_BF16 || kind == DOT_I8) {
    int64_t n = b->shape[b->rank - 1], k = b->shape[b->rank - 2];
    Type t = {.dtype = DT_U8, .rank = 1, .shape = {(int32_t)(n * (k + 3) * 4 + 128)}}; /* nd_dot_pack_bytes */
    room[0] = type_make(e->cx, t);
    return;
  }
  Dtype wide = kind == DOT_I32 ? DT_I32 : kind == DOT_F64 ? DT_F64 : DT_F32;
  if (a->dtype != wide) room[0] = type_with_dtype(e->cx, a, wide);
  if (b->dtype != wide) room[1] = type_with_dtype(e->cx, b, wide);
  if (c->dtype != wide) room[2] = type_with_dtype(e->cx, c, wide);
}

/* The accumulator's tile is copied to the result's, which the product is then added to. */
static void plan_dot(Planner *p, Op *op) {
  OpPlan *o = op_plan(p, op);
  Emit *e = p->e;
  Value *out = op->out[0];
  /* Room for what library.c widens or packs: a, b, the accumulator. */
  const Type *room[3];
  GemmDot packed = {.op = op};
  dot_room(e, op, room);
  if (p->gemm) room[0] = dot_kind(op) == DOT_BF16 || dot_kind(op) == DOT_I8 ? NULL : room[0];
  for (int i = 0; i < 2; i++) {
    Value *v = op->in[i];
    GemmOperand *known = p->gemm ? gemm_known(p->gemm, op, i) : NULL;
    if (known) {
      o->in[i] = known->view;
      *(i ? &packed.b : &packed.a) = known;
      room[i] = NULL;
      continue;
    }
    if (p->gemm) close_group(p);
    int first = p->plan->n;
    if (p->gemm && v->def && v->def->block == op->block && gemm_takes_reshape(e, v->def) && !info_of(e, v)->view)
      plan_reshape(p, v->def);
    if (room[i] && room[i]->dtype == DT_F32 && dtype_is_float(v->type->dtype) && v->type->dtype != DT_F64 &&
        !info_of(e, v)->view) {
      /* A register holds it as f32 anyway: so it is kept. */
      o->in[i] = view_row_major(e, buffer_new(e, room[i]), room[i]);
      keep_at(p, v, o->in[i]);
      room[i] = NULL;
    } else {
      o->in[i] = need_compact(p, v);
    }
    if (!p->gemm) continue;
    close_group(p);
    *(i ? &packed.b : &packed.a) = gemm_operand(p, p->gemm, op, i, first);
  }
  if (p->gemm) vec_push(e->arena, &p->gemm->dots, packed);
  for (int i = 0; i < 3; i++)
    if (room[i]) o->carry[i] = buffer_new(e, room[i]);
  Info *info = info_of(e, out);
  View *wanted = info->view; /* a loop may have said where it wants it */
  info->view = NULL;
  if (!wanted) wanted = view_row_major(e, buffer_new(e, out->type), out->type);
  Info *acc = info_of(e, op->in[2]);
  if (!(acc->view && acc->view->buffer == wanted->buffer) && !value_is_zero(op->in[2])) keep_at(p, op->in[2], wanted);
  close_group(p);
  info->view = o->out[0] = wanted;
  o->in[2] = value_is_zero(op->in[2]) ? NULL : wanted;
  push_op(p, op);
}

static void plan_join(Planner *p, Op *op) {
  Emit *e = p->e;
  Value *out = op->out[0];
  const Type *t = out->type;
  View *whole = view_row_major(e, buffer_new(e, t), t);
  bool cat = op->code == OP_CAT;
  Group *g = NULL;
  for (int i = 0; i < 2; i++) {
    if (op->in[i]->type->rank == 0) continue;
    View *part = NEW(e->arena, View);
    *part = *whole;
    part->offset = i == 0 ? 0 : cat ? whole->stride[op->axis] * op->in[0]->type->shape[op->axis] : 1;
    g = keep_at(p, op->in[i], part);
  }
  Info *info = info_of(e, out);
  info->view = whole;
  info->owner = g;
  info->closed = true;
  if (op->in[0]->type->rank == 0) { /* two scalars */
    close_group(p);
    OpPlan *o = op_plan(p, op);
    o->out[0] = whole;
    info->owner = NULL;
    push_op(p, op);
  }
}

static void plan_split(Planner *p, Op *op) {
  Emit *e = p->e;
  Value *in = op->in[0];
  View *from = need_view(p, in);
  Info *of = info_of(e, in);
  OpPlan *o = op_plan(p, op);
  for (int k = 0; k < 2; k++) {
    View *v = NEW(e->arena, View);
    *v = *from;
    v->offset += k * from->stride[in->type->rank - 1];
    v->stride[in->type->rank - 1] = 0;
    o->in[k > 0 ? 0 : 0] = from;
    o->out[k] = v;
    if (op->out[k]->type->rank == 0) continue;
    Info *info = info_of(e, op->out[k]);
    info->view = v;
    info->owner = of->owner;
    info->closed = true;
  }
  if (op->out[0]->type->rank == 0) {
    close_group(p);
    push_op(p, op);
  }
}

static void plan_reduce(Planner *p, Op *op) {
  Emit *e = p->e;
  OpPlan *o = op_plan(p, op);
  FusionRoot *r = NEW(e->arena, FusionRoot);
  r->kind = ROOT_REDUCE;
  r->op = op;
  Group *g = add_root(p, r);
  for (int k = 0; k < op->out_count; k++) {
    Info *info = info_of(e, op->out[k]);
    new_result(p, op, k);
    info->owner = g;
    info->closed = true;
    if (op->out[k]->type->rank && reduces_wide(op))
      o->carry[k] = buffer_new(e, type_with_dtype(e->cx, op->out[k]->type, DT_F32));
  }
}

static void plan_store(Planner *p, Op *op) {
  settle_loads(p, op);
  FusionRoot *r = NEW(p->e->arena, FusionRoot);
  r->kind = ROOT_STORE;
  r->op = op;
  add_root(p, r);
  p->epoch++;
}

static void plan_atomic(Planner *p, Op *op) {
  Emit *e = p->e;
  settle_loads(p, NULL); /* other programs may wait for it */
  settle_loads(p, op);
  close_group(p);
  op_plan(p, op);
  FusionRoot *r = NEW(e->arena, FusionRoot);
  r->kind = ROOT_ATOMIC;
  r->op = op;
  Group *g = add_root(p, r);
  if (info_of(e, op->out[0])->uses) {
    new_result(p, op, 0);
    info_of(e, op->out[0])->owner = g;
    info_of(e, op->out[0])->closed = true;
  }
  close_group(p);
  p->epoch++;
}

static bool group_stores(const Group *g) {
  for (int i = 0; g && i < g->roots.n; i++)
    if (g->roots.at[i]->kind == ROOT_STORE) return true;
  return false;
}

static bool all_scalar(const Op *op) {
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->type->rank) return false;
  for (int i = 0; i < op->out_count; i++)
    if (op->out[i]->type->rank) return false;
  return true;
}

static void plan_scalar(Planner *p, Op *op) {
  Emit *e = p->e;
  if (p->open) {
    bool close = false;
    for (int i = 0; i < op->in_count; i++) close |= info_of(e, op->in[i])->owner == p->open;
    Effect effect = op_info[op->code].effect;
    if (effect == EFFECT_READ) close |= group_stores(p->open);
    if (effect == EFFECT_WRITE || effect == EFFECT_SIDE) close = true;
    if (close) close_group(p);
  }
  if (op_info[op->code].effect == EFFECT_WRITE) {
    settle_loads(p, op->code == OP_STORE ? op : NULL);
    close_group(p);
    p->epoch++;
  }
  push_op(p, op);
}

static void plan_op(Planner *p, Op *op) {
  stack_guard();
  Emit *e = p->e;
  switch (op->code) {
    case OP_FOR: plan_for(p, op); return;
    case OP_WHILE: plan_while(p, op); return;
    case OP_IF: plan_if(p, op); return;
    case OP_YIELD:
    case OP_CONDITION:
    case OP_ASSUME: return;
    case OP_BARRIER:
      settle_loads(p, NULL);
      close_group(p);
      if (e->waits || op->acquire) push_op(p, op);
      p->epoch++;
      return;
    case OP_SCOPE: /* what was computed stays before it */
      if (is_last_mark(op)) return;
      close_group(p);
      push_op(p, op);
      return;
    case OP_ASM:
      diag_fail_hint(e->cx, op->span ? *op->span : (Span){0},
                     "write the same in Triton's own operations, or run it on a GPU",
                     "inline assembly is for a GPU; it cannot run on a CPU");
    default: break;
  }
  if (all_scalar(op) && op->code != OP_REDUCE) {
    plan_scalar(p, op);
    return;
  }
  switch (op->code) {
    case OP_LOAD:
      if (group_stores(p->open)) close_group(p);
      info_of(e, op->out[0])->epoch = p->epoch;
      vec_push(e->arena, &p->loads, op);
      break;
    case OP_STORE: plan_store(p, op); break;
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: plan_atomic(p, op); break;
    case OP_REDUCE: plan_reduce(p, op); break;
    case OP_DOT: plan_dot(p, op); break;
    case OP_JOIN:
    case OP_CAT: plan_join(p, op); break;
    case OP_SPLIT:
      if (info_of(e, op->out[0])->uses || info_of(e, op->out[1])->uses) plan_split(p, op);
      break;
    case OP_RESHAPE:
      if (p->gemm && gemm_takes_reshape(e, op)) break;
      if (info_of(e, op->out[0])->uses && op->in[0]->type->rank > 0 &&
          (op->out[0]->type->rank == 0 || (!op_is_view(op) && !value_is_recomputable(e, op->out[0]))))
        plan_reshape(p, op);
      break;
    case OP_SCAN:
    case OP_SORT:
    case OP_HISTOGRAM:
    case OP_GATHER:
    case OP_MAP: plan_library_op(p, op); break;
    case OP_PRINT:
    case OP_ASSERT: plan_library_op(p, op); break;
    default: break; /* elementwise and views: fused where they are needed */
  }
}

/* Without what the block's last operation asks for. */
void plan_body(Emit *e, Block *b, Planner *p) {
  p->plan = NEW(e->arena, Plan);
  for (Op *op = b->first; op; op = op->next) plan_op(p, op);
}

void plan_block(Emit *e, Block *b, Planner *p) {
  plan_body(e, b, p);
  close_group(p);
  map_put(e->plans, b, p->plan);
}

static void count_uses(Op *op, void *arg) {
  Emit *e = arg;
  for (int i = 0; i < op->in_count; i++) info_of(e, op->in[i])->uses++;
}

void plan_function(Emit *e) {
  tile_walk(e->f->body, count_uses, e);
  Planner p = {.e = e};
  plan_block(e, e->f->body, &p);
  plan_verify(e);
}
