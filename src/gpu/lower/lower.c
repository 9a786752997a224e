/* lower: the walk from tile IR with layouts to lane IR, and what all of lower_*.c share.
 *
 * A tile value becomes an array of lane values, one for each register of its layout, a scalar becomes one. In the
 * kernel
 *
 *     %x = load %p : f32[8,32]        reg 0: 1  reg 1: 2 | lane 0: 4 ... lane 3: 32 ... | warp 0: 128
 *
 * %x is four lane values: registers 0 to 3 hold columns c, c+1, c+2, c+3 of a row, where c and the row follow from the
 * thread. What a thread holds in register 0 (the thread part of its index) is computed once for a layout: the builder
 * finds it again. Register r adds a constant, its register part, which ends as the offset of an address. For ordinary
 * layouts the two have no bit in common, so that the xor of the layout is an addition.
 *
 * The thread part is a linear map of the thread's id. Bits that move by one distance move together: `(tid & mask) <<
 * n`, and a blocked layout has one or two such groups for each dim (lower_linear).
 */
#include "gpu/lower/lower.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

int lower_count(const Value *v) { return v->type->rank ? layout_registers(v->layout) : 1; }

LaneValue **lower_array(Lower *l, int n) { return NEW_N(l->cx->arena, LaneValue *, n > 0 ? n : 1); }

LaneValue **lower_get(Lower *l, const Value *v) { return l->values[v->id]; }

void lower_set(Lower *l, const Value *v, LaneValue **regs) { l->values[v->id] = regs; }

LaneValue *lower_and(Lower *l, LaneValue *p, LaneValue *q) {
  return !p ? q : !q ? p : lane_2(&l->b, LANE_AND, LK_PRED, p, q);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

LaneValue *lower_linear(Lower *l, int bits, const uint32_t *columns, LaneValue *x) {
  LaneBuilder *b = &l->b;
  uint32_t all = bits >= 32 ? ~0u : (1u << bits) - 1, seen = 0;
  LaneValue *sum = NULL;
  for (int s = -(bits - 1); s < 32; s++) { /* input bit i goes to output bit i + s */
    uint32_t mask = 0;
    for (int i = 0; i < bits; i++)
      if (i + s >= 0 && i + s < 32 && (columns[i] >> (i + s) & 1)) mask |= 1u << i;
    if (!mask) continue;
    uint32_t reach = s < 0 ? all & ~((1u << -s) - 1) : all; /* what a shift alone would bring */
    LaneValue *part = x;
    if (mask != reach) part = lane_2(b, LANE_AND, LK_B32, part, lane_const(b, LT_B32, mask));
    if (s < 0) part = lane_2(b, LANE_SHR, LK_U32, part, lane_i32(b, -s));
    else if (s > 0) part = lane_2(b, LANE_SHL, LK_B32, part, lane_i32(b, s));
    uint32_t image = s < 0 ? mask >> -s : mask << s;
    sum = !sum ? part : lane_2(b, seen & image ? LANE_XOR : LANE_OR, LK_B32, sum, part);
    seen |= image;
  }
  return sum ? sum : lane_i32(b, 0);
}

/* The map from the thread's id, with the bits outside `mask` cleared and the rest moved down by `shift`. */
static LaneValue *thread_part(Lower *l, const Layout *layout, uint32_t mask, int shift, uint32_t *image) {
  uint32_t columns[F2_MAX] = {0};
  int bits = layout->lane_bits + layout->warp_bits;
  *image = 0;
  for (int i = 0; i < bits; i++) {
    columns[i] = (layout->basis[layout->reg_bits + i] & mask) >> shift;
    *image |= columns[i];
  }
  return lower_linear(l, bits, columns, l->tid);
}

static LaneValue *with_register(Lower *l, LaneValue *thread, uint32_t image, uint32_t part) {
  if (!part) return thread;
  LaneCode code = image & part ? LANE_XOR : LANE_ADD;
  return lane_2(&l->b, code, code == LANE_ADD ? LK_S32 : LK_B32, thread, lane_const(&l->b, LT_B32, part));
}

LaneValue *lower_element(Lower *l, const Layout *layout, int reg) {
  uint32_t image;
  LaneValue *thread = thread_part(l, layout, ~0u, 0, &image);
  return with_register(l, thread, image, layout_register_part(layout, reg));
}

LaneValue *lower_index(Lower *l, const Type *t, const Layout *layout, int reg, int d) {
  uint32_t mask = layout_dim_mask(t, d), image;
  int shift = layout_dim_shift(t, d);
  if (!mask) return lane_i32(&l->b, 0);
  LaneValue *thread = thread_part(l, layout, mask, shift, &image);
  return with_register(l, thread, image, (layout_register_part(layout, reg) & mask) >> shift);
}

uint32_t lower_same(const Value *v) {
  const Layout *layout = v->layout;
  if (!v->type->rank || !v->axis) return 0;
  uint32_t flat = 0, same = 0; /* flat: bits of the element's index that make no difference */
  for (int d = 0; d < v->type->rank; d++) {
    int64_t run = v->axis->constant[d] & -v->axis->constant[d];
    if (run > v->type->shape[d]) run = v->type->shape[d];
    flat |= (uint32_t)(run - 1) << layout_dim_shift(v->type, d);
  }
  for (int i = 0; i < layout->reg_bits; i++)
    if (!(layout->basis[i] & ~flat)) same |= 1u << i;
  return same;
}

LaneValue *lower_first_holder(Lower *l, const Layout *layout) {
  LaneBuilder *b = &l->b;
  if (l->divergent) return NULL; /* each thread works on an element of its own */
  uint32_t copies = layout ? layout_copies(layout) : (uint32_t)(32 * l->out->num_warps - 1);
  if (!copies) return NULL;
  LaneValue *bits = l->tid;
  if (copies != (uint32_t)(32 * l->out->num_warps - 1))
    bits = lane_2(b, LANE_AND, LK_B32, bits, lane_const(b, LT_B32, copies));
  return lane_setp(b, CMP_EQ, LK_U32, bits, lane_i32(b, 0));
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

typedef void (*LowerFn)(Lower *l, Op *op);

static void lower_hint(Lower *l, Op *op) { lower_set(l, op->out[0], lower_get(l, op->in[0])); }

static const LowerFn table[OP_COUNT] = {
    [OP_CONST] = lower_shape,
    [OP_PROGRAM_ID] = lower_shape,
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
    [OP_RELAYOUT] = lower_convert_layout,
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
    [OP_DOT_WAIT] = lower_ring,
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

static bool is_end(const Op *op) { return op_info[op->code].effect == EFFECT_END; }

void lower_op(Lower *l, Op *op) {
  const Span *outer = l->b.span;
  int around = l->b.statement;
  if (op->span) l->b.span = op->span;
  l->b.statement = ++l->statements;
  if (!table[op->code])
    fail(l->cx, op->span ? *op->span : (Span){0}, "the CUDA device does not support `%s` yet", op_info[op->code].name);
  if (op->code != OP_TRANS || !lower_ring_read(op->out[0])) table[op->code](l, op);
  l->b.span = outer;
  l->b.statement = around;
}

void lower_block(Lower *l, Block *block) {
  const Span *outer = l->b.span;
  lower_plan_later(l, block);
  for (Op *op = block->first; op && !is_end(op); op = op->next) {
    if (op->span) l->b.span = op->span;
    if (!lower_is_later(l, op)) lower_op(l, op);
  }
  l->b.span = outer;
}

Op *lower_body(Lower *l, Block *block) {
  lower_block(l, block);
  return block->last;
}

void lower_inline(Lower *l, Block *body, LaneValue *const *args, LaneValue **out) {
  for (int i = 0; i < body->arg_count; i++) {
    LaneValue **one = lower_array(l, 1);
    one[0] = args[i];
    lower_set(l, body->args[i], one);
  }
  l->divergent++;
  Op *end = lower_body(l, body);
  l->divergent--;
  for (int i = 0; i < end->in_count; i++) out[i] = lower_get(l, end->in[i])[0];
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static void add_params(Lower *l, const GpuOptions *o) {
  Func *f = l->f;
  for (int i = 0; i < f->body->arg_count; i++) {
    const Value *v = f->body->args[i];
    LaneValue **one = lower_array(l, 1);
    one[0] = lane_func_param(l->out, lane_type_of(v->type), v->type, f->arg_divisible ? f->arg_divisible[i] : 1);
    lower_set(l, v, one);
  }
  if (l->out->uses_diag) l->diag = lane_func_param(l->out, LT_B64, NULL, 1);
  if (l->out->uses_list) l->list = lane_func_param(l->out, LT_B64, NULL, 1);
  if (l->out->instrument) l->instrument = lane_func_param(l->out, LT_B64, NULL, 1);
  l->out->hidden_params = (l->diag != NULL) + (l->list != NULL) + (l->instrument != NULL);
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
  bool program, stores, adds, loops;
} Found;

static void count_uses(Op *op, void *arg) {
  Found *found = arg;
  for (int i = 0; i < op->in_count; i++) found->uses[op->in[i]->id]++;
  if (op->code == OP_PROGRAM_ID) found->program = true;
  if (op->code == OP_STORE && op->in[1]->type->rank) found->stores = true;
  if (op->code == OP_FOR || op->code == OP_WHILE) found->loops = true;
  if (op->code == OP_ATOMIC_RMW && op->in[1]->type->rank) found->adds = true;
}

LaneFunc *gpu_lower(Func *f, const GpuOptions *o, bool register_limited) {
  Lower l = {.cx = f->cx,
             .f = f,
             .target = o->target,
             .wgmma = gpu_has_wgmma(o),
             .fp8 = o->target->sm >= 89,
             .register_limited = register_limited};
  l.out = lane_func_create(f->cx, f->name);
  l.out->num_warps = f->num_warps;
  l.out->uses_list = o->list;
  l.out->instrument = f->instrument;
  tile_walk(f->body, find_diag, &l.out->uses_diag);
  l.values = NEW_N(f->cx->arena, LaneValue **, f->value_count + 1);
  l.rings = NEW_N(f->cx->arena, struct LowerRing *, f->value_count + 1);
  l.uses = NEW_N(f->cx->arena, int, f->value_count + 1);
  l.later = lower_later_create(&l, f->value_count + 1);
  Found found = {.uses = l.uses};
  tile_walk(f->body, count_uses, &found);
  l.asks_program = found.program;
  /* a policy takes two registers */
  l.streams =
      register_limited ? PRIORITY_NONE : lower_stream_priority(l.target, found.stores, found.adds && !found.loops);
  add_params(&l, o);
  l.b = lane_builder(l.out);
  LaneBuilder *b = &l.b;
  l.tid = lane_special(b, SP_TID_X);
  l.lane = f->num_warps == 1 ? l.tid : lane_2(b, LANE_AND, LK_B32, l.tid, lane_i32(b, 31));
  l.warp = f->num_warps == 1 ? lane_i32(b, 0) : lane_2(b, LANE_SHR, LK_U32, l.tid, lane_i32(b, 5));
  place_program(&l);
  lower_records_open(&l);
  lower_block(&l, f->body);
  lower_records_close(&l);
  return l.out;
}
