/* lower_atomic: atomic operations on global memory.
 *
 * Each element is updated once, by its elected thread. Where elements lie next to each other the hardware adds several
 * at once: v2 and v4 of f32, pairs of halves and vectors of those. What it does not have is made of what it has:
 *
 *     min, max of floats     as integers: bits with the sign clear are ordered as signed integers are, those with the
 *                            sign set as unsigned ones are, the other way round. The value's sign says which; one of
 *                            two guarded atomics runs
 *     bf16 before sm_90      a loop on cas
 *
 * Order: only atomics on scalars order a program's memory with other programs' (locks and counters are scalars; the
 * interpreter, which is the meaning of the language, knows no other). One thread does such a one for all: a barrier
 * before it brings the others' accesses under its release, a barrier after it brings them after its acquire. Nobody
 * needs the acquire of one whose old value is not used and that no access follows. Atomics of tensors are relaxed, a
 * fence an element would cost more than they do. What control does because of one that does not acquire comes after a
 * barrier of its own (tile/passes/waits.c).
 *
 * The old value is wanted rarely. When it is, it goes from the elected thread to those that hold copies: by shuffle
 * within the warp, else through shared memory.
 */
#include "gpu/loop.h"
#include "gpu/lower/lower.h"

enum { MOST = 8 };

typedef struct Atomic {
  const Op *op;
  const Type *type; /* of the values */
  RmwKind rmw;
  MemSem sem;
  MemScope scope;
  bool used; /* the old value is */
} Atomic;

static void emit(Lower *l, const Atomic *a, LaneKind k, int rmw, LaneValue *address, int n, LaneValue *const *values,
                 LaneValue *guard, int out_count, LaneValue **out) {
  LaneValue *in[1 + MOST], *base;
  LaneType types[MOST];
  int64_t offset;
  lane_split_offset(LK_S64, address, &base, &offset);
  if (!base || offset != (int32_t)offset) base = address, offset = 0;
  in[0] = base;
  for (int i = 0; i < n; i++) in[i + 1] = values[i];
  for (int i = 0; i < out_count; i++) types[i] = values[i]->type;
  LaneOp proto = {.code = LANE_ATOM,
                  .kind = k,
                  .space = SPACE_GLOBAL,
                  .rmw = (uint8_t)rmw,
                  .sem = (uint8_t)a->sem,
                  .scope = (uint8_t)a->scope,
                  .imm = offset,
                  .guard = guard,
                  .buffer = -1};
  LaneOp *op = lane_op_raw(&l->b, proto, n + 1, in, out_count, types);
  for (int i = 0; i < out_count; i++) out[i] = op->out[i];
}

static LaneValue *emit_one(Lower *l, const Atomic *a, LaneKind k, int rmw, LaneValue *address, LaneValue *value,
                           LaneValue *guard) {
  LaneValue *old = NULL;
  emit(l, a, k, rmw, address, 1, &value, guard, a->used, &old);
  return old;
}

static NORETURN void refuse(Lower *l, const Atomic *a) {
  Span span = a->op->span ? *a->op->span : (Span){0};
  diag_fail_hint(l->cx, span, "use elements of 32 or 64 bits",
                 "the CUDA device has no such atomic operation on elements of type %s",
                 a->type->ptr ? "pointer" : dtype_name(a->type->dtype));
}

/* ---- min and max of floats --------------------------------------------------------------------------------------- */

static LaneValue *float_extreme(Lower *l, const Atomic *a, LaneValue *address, LaneValue *value, LaneValue *guard) {
  LaneBuilder *b = &l->b;
  bool wide = value->type == LT_B64;
  LaneKind s = wide ? LK_S64 : LK_S32, u = wide ? LK_U64 : LK_U32;
  LaneValue *zero = lane_const(b, value->type, 0), *clear = lane_setp(b, CMP_GE, s, value, zero);
  LaneValue *set = lane_1(b, LANE_NOT, LK_PRED, clear);
  LaneValue *up = emit_one(l, a, s, a->rmw, address, value, lower_and(l, guard, clear));
  LaneValue *down = emit_one(l, a, u, a->rmw == RMW_MAX ? RMW_MIN : RMW_MAX, address, value, lower_and(l, guard, set));
  return a->used ? lane_select(b, clear, up, down) : NULL;
}

/* ---- loops on cas ------------------------------------------------------------------------------------------------ */

static LaneValue *in_word(Lower *l, LaneValue *half) { return lane_pack(&l->b, half, lane_const(&l->b, LT_B16, 0)); }

/* bf16 += value where the hardware only compares and swaps. */
static LaneValue *half_add_loop(Lower *l, const Atomic *a, LaneValue *address, LaneValue *value, LaneValue *guard) {
  LaneBuilder *b = &l->b;
  Dtype t = a->type->dtype;
  LaneOp *load = lane_load(b, SPACE_GLOBAL, LK_B16, 1, address, 0, guard, NULL);
  load->is_volatile = true;
  LaneValue *first = load->out[0], *wide[2], *sum, *next;
  LaneOp *loop = lane_while(b, 1, &first);
  LaneValue *old = loop->body[0]->args[0];
  lower_cast(l, t, DT_F32, 0, 2, (LaneValue *[]){old, value}, wide);
  LaneOp add = {.code = LANE_ADD, .kind = LK_F32, .rounding = ROUND_RN, .exact = true};
  sum = lane_op(b, add, 2, wide);
  lower_cast(l, DT_F32, t, 0, 1, &sum, &next);
  LaneValue *found;
  emit(l, a, LK_B16, RMW_CAS, address, 2, (LaneValue *[]){old, next}, guard, 1, &found);
  LaneValue *again = lane_setp(b, CMP_NE, LK_U32, in_word(l, found), in_word(l, old));
  lane_condition(b, lower_and(l, again, guard), 1, &found);
  lane_enter(b, loop, 1);
  lane_yield(b, 1, &loop->body[1]->args[0]);
  lane_leave(b, loop);
  return loop->out[0];
}

/* ---- one element ------------------------------------------------------------------------------------------------- */

static LaneValue *rmw_one(Lower *l, const Atomic *a, LaneValue *address, LaneValue *value, LaneValue *guard) {
  const Type *t = a->type;
  int bits = t->ptr ? 64 : dtype_bits(t->dtype);
  bool wide = bits == 64, is_float = !t->ptr && dtype_is_float(t->dtype), sign = !t->ptr && dtype_is_signed(t->dtype);
  if (bits == 16 && is_float && a->rmw == RMW_ADD) {
    if (t->dtype == DT_F16) return emit_one(l, a, LK_F16, RMW_ADD, address, value, guard);
    if (l->target->has_bf16_atomics) return emit_one(l, a, LK_BF16, RMW_ADD, address, value, guard);
    return half_add_loop(l, a, address, value, guard);
  }
  if (bits < 32) refuse(l, a);
  switch (a->rmw) {
    case RMW_ADD:
      return emit_one(l, a, is_float ? lane_kind_of(t) : wide ? LK_U64 : LK_U32, RMW_ADD, address, value, guard);
    case RMW_MIN:
    case RMW_MAX:
      if (is_float) return float_extreme(l, a, address, value, guard);
      return emit_one(l, a, wide ? sign ? LK_S64 : LK_U64 : sign ? LK_S32 : LK_U32, a->rmw, address, value, guard);
    default: return emit_one(l, a, wide ? LK_B64 : LK_B32, a->rmw, address, value, guard);
  }
}

static LaneValue *cas_one(Lower *l, const Atomic *a, LaneValue *address, LaneValue *expected, LaneValue *value,
                          LaneValue *guard) {
  LaneBuilder *b = &l->b;
  int bits = a->type->ptr ? 64 : dtype_bits(a->type->dtype);
  LaneValue *old = NULL, *high;
  if (bits < 16) refuse(l, a);
  LaneKind k = bits == 16 ? LK_B16 : bits == 64 ? LK_B64 : LK_B32;
  bool narrow_int = bits == 16 && value->type == LT_B32; /* i16, u16 */
  if (narrow_int) {
    lane_unpack(b, expected, &expected, &high);
    lane_unpack(b, value, &value, &high);
  }
  emit(l, a, k, RMW_CAS, address, 2, (LaneValue *[]){expected, value}, guard, a->used, &old);
  if (old && narrow_int) old = lane_extend(b, lane_kind_of(a->type), in_word(l, old));
  return old;
}

/* ---- several at once --------------------------------------------------------------------------------------------- */

/* How many consecutive registers one atomic may take. */
static int vector_of(Lower *l, const Atomic *a, const Value *mask) {
  const Value *ptr = a->op->in[0];
  Dtype t = a->type->dtype;
  int dim;
  bool halves = t == DT_F16 || (t == DT_BF16 && l->target->has_bf16_atomics);
  if (a->op->code != OP_ATOMIC_RMW || a->rmw != RMW_ADD || a->type->ptr || !a->type->rank || (t != DT_F32 && !halves))
    return 1;
  if (t == DT_F32 && !l->target->has_vector_atomics) return 1;
  int most = l->target->has_vector_atomics ? 16 : 4;
  return access_vector(ptr, mask, ptr->layout, most, &dim);
}

static void rmw_vector(Lower *l, const Atomic *a, LaneValue *address, int n, LaneValue *const *values, LaneValue *guard,
                       LaneValue **old) {
  LaneBuilder *b = &l->b;
  LaneValue *words[MOST], *results[MOST];
  if (a->type->dtype == DT_F32) {
    emit(l, a, LK_F32, RMW_ADD, address, n, values, guard, a->used ? n : 0, old);
    return;
  }
  LaneKind k = a->type->dtype == DT_F16 ? LK_F16X2 : LK_BF16X2;
  for (int i = 0; i < n / 2; i++) words[i] = lane_pack(b, values[2 * i], values[2 * i + 1]);
  emit(l, a, k, RMW_ADD, address, n / 2, words, guard, a->used ? n / 2 : 0, results);
  for (int i = 0; a->used && i < n / 2; i++) lane_unpack(b, results[i], &old[2 * i], &old[2 * i + 1]);
}

/* ---- old values -------------------------------------------------------------------------------------------------- */

static LaneValue *zero_of(Lower *l, LaneType t) {
  return t == LT_PRED ? lane_pred(&l->b, false) : lane_const(&l->b, t, 0);
}

void lower_hand_out(Lower *l, const Layout *layout, LaneType type, int n, LaneValue **regs) {
  LaneBuilder *b = &l->b;
  int warps = l->f->num_warps;
  uint32_t copies = layout ? layout_copies(layout) : (uint32_t)(32 * warps - 1);
  if (!copies || l->divergent) return;
  bool plain = true; /* copies differ in these bits alone */
  for (int i = 0; layout && i < layout->lane_bits + layout->warp_bits; i++)
    if ((copies >> i & 1) && layout->basis[layout->reg_bits + i]) plain = false;
  if (plain && copies < 32) {
    LaneValue *source =
        copies == 31 ? lane_i32(b, 0) : lane_2(b, LANE_AND, LK_B32, l->lane, lane_i32(b, (int32_t)(31 & ~copies)));
    for (int r = 0; r < n; r++) regs[r] = lane_shfl(b, SHUFFLE_IDX, regs[r], source);
    return;
  }
  int bytes = lower_shared_bytes(type), elements = layout ? 1 << layout->out_bits : 1;
  int buffer = lane_buffer(b, "atomic", bytes * elements, bytes < 4 ? 4 : bytes);
  LaneValue *base = lane_shared(b, buffer), *first = lower_elected_thread(l, layout);
  LaneValue **address = lower_array(l, n);
  for (int r = 0; r < n; r++) {
    address[r] = base;
    if (layout)
      address[r] = lane_2(b, LANE_ADD, LK_S32, base,
                          lane_2(b, LANE_MUL, LK_S32, lower_element(l, layout, r), lane_i32(b, bytes)));
  }
  lane_barrier(b, false); /* the last iteration's readers are done */
  for (int r = 0; r < n; r++) lower_shared_store(l, type, address[r], 0, buffer, regs[r], first);
  lane_barrier(b, false);
  lower_membar_met(l);
  for (int r = 0; r < n; r++) regs[r] = lower_shared_load(l, type, address[r], 0, buffer);
}

/* ---- the operations ---------------------------------------------------------------------------------------------- */

static bool acquires(const Atomic *a) { return a->sem == SEM_ACQ_REL || a->sem == SEM_ACQUIRE; }
static bool releases(const Atomic *a) { return a->sem == SEM_ACQ_REL || a->sem == SEM_RELEASE; }

static void find_access(Op *op, void *arg) { *(bool *)arg |= op_is_access(op) || op->code == OP_ASM; }

/* Whether the program accesses nothing after op: what it acquires is for nobody. */
static bool is_last(const Lower *l, const Op *op) {
  for (const Op *at = op; at; at = at->block->parent) {
    bool accesses = false;
    for (const Op *next = at->next; next; next = next->next) {
      if (op_is_access(next) || next->code == OP_ASM) return false;
      for (int r = 0; r < 2; r++)
        if (next->body[r]) tile_walk(next->body[r], find_access, &accesses);
    }
    bool again = at != op && (at->code == OP_FOR || at->code == OP_WHILE) && !loop_runs_programs(l->f, at);
    if (accesses || again) return false;
  }
  return true;
}

static Atomic describe(Lower *l, const Op *op) {
  bool rmw = op->code == OP_ATOMIC_RMW;
  Atomic a = {.op = op, .type = op->in[1]->type, .rmw = rmw ? (RmwKind)op->kind : RMW_XCHG};
  a.sem = op_sem(op);
  a.scope = op_scope(op);
  a.used = l->uses[op->out[0]->id] > 0;
  if (a.type->rank || l->divergent) a.sem = SEM_RELAXED;
  else if (acquires(&a) && !a.used && is_last(l, op)) a.sem = releases(&a) ? SEM_RELEASE : SEM_RELAXED;
  return a;
}

void lower_atomic(Lower *l, Op *op) {
  LaneBuilder *b = &l->b;
  Atomic a = describe(l, op);
  const Value *v = op->out[0], *mask = op_mask(op);
  const Layout *layout = v->type->rank ? op->in[0]->layout : NULL;
  int n = lower_count(op->in[1]), vector = vector_of(l, &a, mask);
  LaneValue **ptr = lower_get(l, op->in[0]), **x = lower_get(l, op->in[1]),
            **y = op->code == OP_ATOMIC_CAS ? lower_get(l, op->in[2]) : NULL;
  LaneValue **m = mask ? lower_get(l, mask) : NULL, **old = lower_array(l, n), *first = lower_elected_thread(l, layout);
  bool one_warp = l->out->num_warps == 1;
  if (releases(&a)) {
    lane_barrier(b, one_warp);
    lower_membar_met(l);
  }
  lower_membar(l, op);
  for (int r = 0; r < n; r += vector) {
    LaneValue *guard = lower_and(l, m ? m[r] : NULL, first);
    if (y) old[r] = cas_one(l, &a, ptr[r], x[r], y[r], guard);
    else if (vector > 1) rmw_vector(l, &a, ptr[r], vector, x + r, guard, old + r);
    else old[r] = rmw_one(l, &a, ptr[r], x[r], guard);
  }
  if (!a.used) {
    if (!acquires(&a)) return;
    lane_barrier(b, one_warp);
    lower_membar_met(l);
    return;
  }
  for (int r = 0; r < n; r++)
    if (m) old[r] = lane_select(b, m[r - r % vector], old[r], zero_of(l, old[r]->type));
  lower_hand_out(l, layout, lane_type_of(v->type), n, old);
  if (one_warp && acquires(&a)) lane_barrier(b, true);
  lower_set(l, v, old);
}
