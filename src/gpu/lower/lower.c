/* lower: from tile IR with layouts to lane IR: which file lowers which operation, and what stands at a kernel's
 * beginning. values.c says what a tile value becomes; walk.c goes through the operations.
 */
#include "gpu/lower/move.h"

/* ---- operations ---------------------------------------------------------------------------------------------------- */

static void lower_hint(Lower *l, Op *op) { lower_set(l, op->out[0], lower_get(l, op->in[0])); }

static void lower_conversion(Lower *l, Op *op) {
  if (!lower_staged_read(l, op)) lower_convert_layout(l, op);
}

static const LowerFn table[OP_COUNT] = {
    [OP_CONST] = lower_shape,
    [OP_PROGRAM_ID] = lower_shape,
    [OP_COMPUTES] = lower_shape,
    [OP_NUM_PROGRAMS] = lower_shape,
    [OP_ARANGE] = lower_shape,
    [OP_SPLAT] = lower_shape,
    [OP_BROADCAST] = lower_shape,
    [OP_EXPAND_DIMS] = lower_shape,
    [OP_RESHAPE] = lower_shape,
    [OP_TRANS] = lower_shape,
    [OP_JOIN] = lower_shape,
    [OP_SPLIT] = lower_shape,
    [OP_CAT] = lower_shape,
    [OP_GATHER] = lower_gather,
    [OP_CONVERT_LAYOUT] = lower_conversion,
    [OP_ADD] = lower_element_op,
    [OP_SUB] = lower_element_op,
    [OP_MUL] = lower_element_op,
    [OP_DIV] = lower_element_op,
    [OP_REM] = lower_element_op,
    [OP_AND] = lower_element_op,
    [OP_OR] = lower_element_op,
    [OP_XOR] = lower_element_op,
    [OP_SHL] = lower_element_op,
    [OP_SHR] = lower_element_op,
    [OP_MIN] = lower_element_op,
    [OP_MAX] = lower_element_op,
    [OP_MULHI] = lower_element_op,
    [OP_NEG] = lower_element_op,
    [OP_NOT] = lower_element_op,
    [OP_ABS] = lower_element_op,
    [OP_FMA] = lower_element_op,
    [OP_MATH] = lower_math,
    [OP_CMP] = lower_element_op,
    [OP_SELECT] = lower_element_op,
    [OP_CONVERT] = lower_convert,
    [OP_BITCAST] = lower_convert,
    [OP_ADDPTR] = lower_element_op,
    [OP_LOAD] = lower_load,
    [OP_STORE] = lower_store,
    [OP_ATOMIC_RMW] = lower_atomic,
    [OP_ATOMIC_CAS] = lower_atomic,
    [OP_DOT] = lower_dot,
    [OP_RING] = lower_ring,
    [OP_RING_COPY] = lower_ring,
    [OP_RING_COMMIT] = lower_ring,
    [OP_RING_WAIT] = lower_ring,
    [OP_RING_READ] = lower_ring,
    [OP_RING_LOAD] = lower_ring,
    [OP_DOT_WAIT] = lower_dot_wait,
    [OP_TENSOR_MAP] = lower_tensor,
    [OP_REQUIRE] = lower_tensor,
    [OP_APART] = lower_tensor,
    [OP_RING_TENSOR] = lower_tensor,
    [OP_STORE_TENSOR] = lower_store_tensor,
    [OP_TENSOR_ADD] = lower_tensor,
    [OP_RING_FULL] = lower_tensor,
    [OP_RING_EMPTY] = lower_tensor,
    [OP_RING_FREE] = lower_tensor,
    [OP_RING_DRAIN] = lower_tensor,
    [OP_TMEM] = lower_tmem,
    [OP_TMEM_STORE] = lower_tmem,
    [OP_TMEM_DOT] = lower_tmem,
    [OP_TMEM_COMMIT] = lower_tmem,
    [OP_TMEM_WAIT] = lower_tmem,
    [OP_TMEM_LOAD] = lower_tmem,
    [OP_REDUCE] = lower_reduce,
    [OP_SCAN] = lower_scan,
    [OP_MAP] = lower_map,
    [OP_SORT] = lower_sort,
    [OP_HISTOGRAM] = lower_gather,
    [OP_FOR] = lower_control,
    [OP_WHILE] = lower_control,
    [OP_IF] = lower_control,
    [OP_HINT] = lower_hint,
    [OP_ASSUME] = lower_debug,
    [OP_BARRIER] = lower_debug,
    [OP_PRINT] = lower_debug,
    [OP_ASSERT] = lower_debug,
    [OP_SCOPE] = lower_scope,
    [OP_ASM] = lower_asm,
};

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static void add_params(Lower *l, const GpuOptions *o) {
  Func *f = l->f;
  int shown = f->body->arg_count - (f->persistent ? 3 : 0);
  for (int i = 0; i < f->body->arg_count; i++) {
    const Value *v = f->body->args[i];
    LaneValue **one = lower_array(l, 1);
    one[0] = lane_func_param(l->out, lane_type_of(v->type), i < shown ? v->type : NULL,
                             f->arg_divisible ? f->arg_divisible[i] : 1);
    lower_set(l, v, one);
  }
  if (l->out->uses_diag) l->diag = lane_func_param(l->out, LT_B64, NULL, 1);
  if (l->out->uses_list) l->list = lane_func_param(l->out, LT_B64, NULL, 1);
  if (l->out->instrument) l->instrument = lane_func_param(l->out, LT_B64, NULL, 1);
  l->out->hidden_params = f->body->arg_count - shown + (l->diag != NULL) + (l->list != NULL) + (l->instrument != NULL);
  lower_tensor_params(l);
}

static void find_diag(Op *op, void *arg) {
  if (op->code == OP_PRINT || op->code == OP_ASSERT) *(bool *)arg = true;
}

/* Programs are numbered x fastest; a block of a launch by list finds its number there. */
static void place_program(Lower *l) {
  LaneBuilder *b = &l->b;
  if (!l->list) {
    for (int i = 0; i < 3; i++) {
      l->program[i] = lane_special(b, (LaneSpecial)(SP_CTAID_X + i));
      l->programs[i] = lane_special(b, (LaneSpecial)(SP_NCTAID_X + i));
    }
    return;
  }
  for (int i = 0; i < 3; i++)
    l->programs[i] =
        lane_load(b, SPACE_GLOBAL, LK_B32, 1, l->list, (int64_t)offsetof(GpuProgramList, grid) + 4 * i, NULL, NULL)
            ->out[0];
  LaneValue *at = lane_2(b, LANE_ADD, LK_S64, l->list,
                         lane_2(b, LANE_MULWIDE, LK_U32, lane_special(b, SP_CTAID_X), lane_i32(b, 8)));
  LaneValue *rest =
      lane_load(b, SPACE_GLOBAL, LK_B64, 1, at, (int64_t)offsetof(GpuProgramList, programs), NULL, NULL)->out[0];
  for (int i = 0; i < 3; i++) {
    if (i == 2) {
      l->program[i] = lane_cvt(b, LK_U64, LK_U32, ROUND_DEFAULT, rest);
      break;
    }
    LaneValue *size = lane_cvt(b, LK_U32, LK_U64, ROUND_DEFAULT, l->programs[i]);
    LaneValue *quotient = lane_2(b, LANE_DIV, LK_U64, rest, size);
    LaneValue *back = lane_2(b, LANE_MUL, LK_U64, quotient, size);
    l->program[i] = lane_cvt(b, LK_U64, LK_U32, ROUND_DEFAULT, lane_2(b, LANE_SUB, LK_U64, rest, back));
    rest = quotient;
  }
}

typedef struct Found {
  int *uses;
  bool program, stores, adds, loops, groups; /* groups: products of warpgroups, as they are laid out */
} Found;

static void count_uses(Op *op, void *arg) {
  Found *found = arg;
  for (int i = 0; i < op->in_count; i++) found->uses[op->in[i]->id]++;
  if (op->code == OP_PROGRAM_ID) found->program = true;
  if (op->code == OP_STORE && op->in[1]->type->rank) found->stores = true;
  if (op->code == OP_FOR || op->code == OP_WHILE) found->loops = true;
  if (op->code == OP_ATOMIC_RMW && op->in[1]->type->rank) found->adds = true;
  if (op->code != OP_DOT) return;
  const Type *sums = op->out[0]->type;
  const Layout *layout = op->out[0]->layout;
  found->groups |= layout_is_wgmma(sums, layout) || layout_is_wgmma_loaded(sums, layout);
}

/* What a kernel's own assembly says of grids, it says at a better place. */
static void find_grid_wait(Op *op, void *arg) {
  if (op->code == OP_ASM && strstr(op->text, "griddepcontrol")) *(bool *)arg = true;
}

/* Barriers and maps are made ready while the kernel ahead in the stream still runs: a launch may ask for that. */
static void wait_for_grid(Lower *l, const GpuOptions *o) {
  bool waits = o->target->sm < 90 || gpu_leaves_out(o, "grid_wait");
  tile_walk(l->f->body, find_grid_wait, &waits);
  if (!waits) lane_simple(&l->b, LANE_GRID_WAIT, 0, -1);
}

/* Of a function that is parted: those that copy. */
static void add_warps(Op *op, void *arg) {
  const Lower *l = arg;
  if (op->code == OP_COMPUTES) l->out->num_warps += lower_copy_warps(l->f);
}

LaneFunc *gpu_lower(Func *f, const GpuOptions *o, bool register_limited) {
  Lower l = {.cx = f->cx,
             .f = f,
             .target = o->target,
             .table = table,
             .fp8 = o->target->sm >= 89,
             .short_sums = !gpu_leaves_out(o, "short_sums"),
             .lockstep = !gpu_leaves_out(o, "lockstep"),
             .staged_reads = !gpu_leaves_out(o, "staged_reads"),
             .register_limited = register_limited};
  l.out = lane_func_create(f->cx, f->name);
  l.out->num_warps = f->num_warps;
  l.out->num_ctas = f->num_ctas;
  tile_walk(f->body, add_warps, &l);
  l.out->uses_list = o->list;
  l.out->persistent = f->persistent;
  l.out->unspecialized = f->unspecialized;
  l.out->unclustered = f->unclustered;
  l.out->not_in_tmem = f->not_in_tmem;
  l.out->unturned = f->unturned;
  l.out->stages_missed = f->stages_missed;
  l.out->maps_missed = f->maps_missed;
  l.out->instrument = f->instrument;
  tile_walk(f->body, find_diag, &l.out->uses_diag);
  l.values = NEW_N(f->cx->arena, LaneValue **, f->value_count + 1);
  l.rings = NEW_N(f->cx->arena, struct LowerRing *, f->value_count + 1);
  l.uses = NEW_N(f->cx->arena, int, f->value_count + 1);
  l.deferred = lower_deferred_create(&l, f->value_count + 1);
  Found found = {.uses = l.uses};
  tile_walk(f->body, count_uses, &found);
  l.asks_program = found.program;
  l.wgmma = gpu_has_wgmma(o) && f->num_warps >= 4 && found.groups;
  /* a policy takes two registers */
  l.streams =
      register_limited ? PRIORITY_NONE : lower_stream_priority(l.target, found.stores, found.adds && !found.loops);
  add_params(&l, o);
  l.b = lane_builder(l.out);
  LaneBuilder *b = &l.b;
  l.tid = lane_special(b, SP_TID_X);
  l.lane = f->num_warps == 1 ? l.tid : lane_2(b, LANE_AND, LK_B32, l.tid, lane_i32(b, 31));
  l.warp = f->num_warps == 1 ? lane_i32(b, 0) : lane_2(b, LANE_SHR, LK_U32, l.tid, lane_i32(b, 5));
  lower_tensor_open(&l);
  wait_for_grid(&l, o);
  place_program(&l);
  lower_records_open(&l);
  lower_body(&l, f->body);
  lower_tmem_close(&l);
  lower_records_close(&l);
  lower_store_tensor_close(&l);
  return l.out;
}
