/* lower_debug: device_print, device_assert, barriers.
 *
 * What a kernel says goes into a buffer that the host reads (GpuDiag, gpu.h): a thread takes words from it by adding to
 * `used`, and writes a record if they lie within `capacity`; what does not fit is lost, and the host sees that from
 * `used`. Prints make one record an element of each operand. The host sorts by program, site and element, so lines come
 * out in the order in which the interpreter prints them.
 *
 * A failed assert leaves a record, counts in `failed`, and the thread ends; or, where the host has said so (`traps`),
 * the kernel, by a trap, once the host can see the record.
 */
#include "gpu/lower/lower.h"

static int add_site(Lower *l, const Op *op, const char *text, const Value *v) {
  LaneSite site = {
      .is_assert = op->code == OP_ASSERT, .text = text, .hex = op->code == OP_PRINT && op->hex, .span = op->span};
  if (v) {
    site.types = NEW_N(l->cx->arena, const Type *, 1);
    site.types[0] = v->type;
    site.value_count = op->code == OP_PRINT;
  }
  vec_push(l->cx->arena, &l->out->sites, site);
  return l->out->sites.n - 1;
}

/* Atomically adds to a word of the diag, where guard. */
static LaneValue *bump(Lower *l, size_t offset, int by, LaneValue *guard, bool used) {
  LaneOp proto = {.code = LANE_ATOM,
                  .kind = LK_U32,
                  .space = SPACE_GLOBAL,
                  .rmw = RMW_ADD,
                  .sem = SEM_RELAXED,
                  .scope = SCOPE_SYS,
                  .imm = (int64_t)offset,
                  .guard = guard,
                  .buffer = -1};
  LaneOp *op = lane_op_raw(&l->b, proto, 2, (LaneValue *[]){l->diag, lane_i32(&l->b, by)}, used, (LaneType[]){LT_B32});
  return used ? op->out[0] : NULL;
}

/* The bits as two words, low first; 8- and 16-bit numbers as they lie in registers. */
static void words_of(Lower *l, LaneValue *v, LaneValue **low, LaneValue **high) {
  LaneBuilder *b = &l->b;
  *high = lane_i32(b, 0);
  if (v->type == LT_PRED) *low = lane_select(b, v, lane_i32(b, 1), lane_i32(b, 0));
  else if (v->type == LT_B16) *low = lane_pack(b, v, lane_const(b, LT_B16, 0));
  else if (v->type == LT_B64) lane_unpack(b, v, low, high);
  else *low = v;
}

static void record(Lower *l, int site, LaneValue *element, LaneValue *value, LaneValue *guard) {
  LaneBuilder *b = &l->b;
  LaneValue *word[GPU_RECORD_WORDS + 2] = {lane_i32(b, site + 1), l->program[0], l->program[1], l->program[2], element};
  int n = GPU_RECORD_WORDS;
  if (value) {
    words_of(l, value, &word[n], &word[n + 1]);
    n += 2;
  }
  LaneValue *at = bump(l, offsetof(GpuDiag, used), n, guard, true);
  LaneValue *capacity = lane_load(b, SPACE_GLOBAL, LK_B32, 1, l->diag, offsetof(GpuDiag, capacity), NULL, NULL)->out[0];
  /* at + n may pass 2^32 */
  LaneValue *fits = lane_setp(b, CMP_LE, LK_U32, at, lane_2(b, LANE_SUB, LK_S32, capacity, lane_i32(b, n)));
  guard = lower_and(l, guard, fits);
  LaneValue *address = lane_2(b, LANE_ADD, LK_S64, l->diag, lane_2(b, LANE_MULWIDE, LK_U32, at, lane_i32(b, 4)));
  for (int i = 0; i < n; i++)
    lane_store(b, SPACE_GLOBAL, LK_B32, 1, address, (int64_t)offsetof(GpuDiag, words) + 4 * i, guard, &word[i]);
}

static LaneValue *element_of(Lower *l, const Value *v, int r) {
  return v && v->type->rank ? lower_element(l, v->layout, r) : lane_i32(&l->b, 0);
}

static void lower_print(Lower *l, const Op *op) {
  if (op->in_count == 0) {
    record(l, add_site(l, op, op->text ? op->text : "", NULL), lane_i32(&l->b, 0), NULL, lower_elected_thread(l, NULL));
    return;
  }
  for (int k = 0; k < op->in_count; k++) {
    const Value *v = op->in[k];
    const char *text = op->text ? op->text : "";
    if (op->in_count > 1) text = arena_printf(l->cx->arena, "%s(operand %d) ", text, k);
    int site = add_site(l, op, text, v), n = lower_count(v);
    LaneValue *first = lower_elected_thread(l, v->type->rank ? v->layout : NULL), **regs = lower_get(l, v);
    for (int r = 0; r < n; r++) record(l, site, element_of(l, v, r), regs[r], first);
  }
}

static LaneValue *is_zero(Lower *l, const Type *t, LaneValue *v) {
  LaneBuilder *b = &l->b;
  if (v->type == LT_PRED) return lane_1(b, LANE_NOT, LK_PRED, v);
  return lane_setp(b, CMP_EQ, lane_type_of(t) == LT_B64 ? LK_U64 : LK_U32, v, lane_const(b, v->type, 0));
}

static void trap_if_asked(Lower *l) {
  LaneBuilder *b = &l->b;
  LaneValue *traps = lane_load(b, SPACE_GLOBAL, LK_B32, 1, l->diag, offsetof(GpuDiag, traps), NULL, NULL)->out[0];
  LaneOp *branch = lane_if(b, lane_setp(b, CMP_NE, LK_U32, traps, lane_i32(b, 0)), false, 0, NULL);
  LaneOp fence = {.code = LANE_FENCE, .kind = LK_NONE, .sem = SEM_ACQ_REL, .scope = SCOPE_SYS, .buffer = -1};
  lane_op_raw(b, fence, 0, NULL, 0, NULL);
  lane_op_raw(b, (LaneOp){.code = LANE_TRAP, .kind = LK_NONE, .buffer = -1}, 0, NULL, 0, NULL);
  lane_leave(b, branch);
}

static void lower_assert(Lower *l, const Op *op) {
  const Value *v = op->in[0];
  int n = lower_count(v), site = add_site(l, op, op->text ? op->text : "", v);
  LaneValue **regs = lower_get(l, v), **m = op->in_count > 1 ? lower_get(l, op->in[1]) : NULL;
  LaneValue *first = lower_elected_thread(l, v->type->rank ? v->layout : NULL), *any = NULL;
  for (int r = 0; r < n; r++) {
    LaneValue *wrong = lower_and(l, is_zero(l, v->type, regs[r]), m ? m[r] : NULL);
    any = any ? lane_2(&l->b, LANE_OR, LK_PRED, any, wrong) : wrong;
  }
  /* The rare case in a branch of its own; it diverges. */
  LaneOp *branch = lane_if(&l->b, any, false, 0, NULL);
  for (int r = 0; r < n; r++) {
    LaneValue *wrong = lower_and(l, lower_and(l, is_zero(l, v->type, regs[r]), m ? m[r] : NULL), first);
    record(l, site, element_of(l, v, r), NULL, wrong);
    bump(l, offsetof(GpuDiag, failed), 1, wrong, false);
  }
  trap_if_asked(l);
  lane_op_raw(&l->b, (LaneOp){.code = LANE_EXIT, .kind = LK_NONE, .buffer = -1}, 0, NULL, 0, NULL);
  lane_leave(&l->b, branch);
}

/* An acquire is a fence of each thread, which then meets the others: whichever has seen what it is about has fenced. */
static void lower_barrier(Lower *l, const Op *op) {
  if (op->acquire) {
    LaneOp fence = {.code = LANE_FENCE, .kind = LK_NONE, .sem = SEM_ACQUIRE, .scope = (uint8_t)op->scope, .buffer = -1};
    lane_op_raw(&l->b, fence, 0, NULL, 0, NULL);
    if (l->divergent) return;
  } else if (l->divergent) {
    diag_fail(l->cx, op->span ? *op->span : (Span){0}, "a barrier inside a function that works on single elements");
  }
  lane_barrier(&l->b, l->out->num_warps == 1);
  lower_membar_met(l);
}

void lower_debug(Lower *l, Op *op) {
  switch (op->code) {
    case OP_PRINT: lower_print(l, op); break;
    case OP_ASSERT: lower_assert(l, op); break;
    case OP_BARRIER: lower_barrier(l, op); break;
    default: break; /* a promise */
  }
}
