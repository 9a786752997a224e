/* Which bits of a value are surely zero, from the operations it is made by.
 *
 * What it is for: tid.x has ten bits, tid.x & 31 five; so (tid.x & 31) | 32 is an addition, which moves into an
 * address, and tid.x >> 5 < 32 is always so. The walk goes a few operations deep and never far: it is asked about each
 * operation that is made.
 */
#include "gpu/lane/known_bits.h"

#include "gpu/lane/table.h"

enum { DEPTH = 6 };

static uint64_t above(int bits) { return bits >= 64 ? 0 : ~0ull << bits; }

/* Zeros of a number of at most so much. */
static uint64_t zeros_up_to(uint64_t most) { return most ? above(64 - __builtin_clzll(most)) : ~0ull; }

static int low_zeros(uint64_t zeros) { return ~zeros ? __builtin_ctzll(~zeros) : 64; }

/* An operation whose result's zeros are asked for. */
typedef struct Ask {
  const LaneOp *op;
  uint64_t unknown; /* what is known of any value of its type: bits beyond */
  int depth;
} Ask;

static uint64_t zeros_of(const LaneValue *v, int depth);

static uint64_t operand(const Ask *a, int i) { return zeros_of(a->op->in[i], a->depth - 1); }
static bool constant(const Ask *a, uint64_t *c) { return lane_is_const(a->op->in[1], c); }

static uint64_t of_special(const Ask *a) {
  LaneSpecial s = (LaneSpecial)a->op->special;
  if (s == SP_TID_X) return zeros_up_to(1023);
  if (s == SP_LANE) return zeros_up_to(31);
  if (s == SP_CTAID_Y || s == SP_CTAID_Z || s == SP_NCTAID_Y || s == SP_NCTAID_Z) return zeros_up_to(UINT16_MAX);
  return s >= SP_CTAID_X && s <= SP_NCTAID_Z ? zeros_up_to(INT32_MAX) : a->unknown;
}

static uint64_t of_shared(const Ask *a) { return zeros_up_to((1u << 20) - 1); }
static uint64_t of_and(const Ask *a) { return operand(a, 0) | operand(a, 1); }
static uint64_t of_or(const Ask *a) { return operand(a, 0) & operand(a, 1); }
static uint64_t of_select(const Ask *a) { return operand(a, 1) & operand(a, 2); }
static uint64_t of_count(const Ask *a) { return above(7); }

static uint64_t of_shl(const Ask *a) {
  uint64_t c;
  if (!constant(a, &c) || c > 63) return a->unknown;
  return operand(a, 0) << c | ((1ull << c) - 1) | a->unknown;
}

static uint64_t of_shr(const Ask *a) {
  uint64_t c;
  if (!constant(a, &c) || c > 63) return a->unknown;
  uint64_t x = operand(a, 0);
  LaneKind k = a->op->kind;
  if (lane_kind_is_signed(k) && !(x & 1ull << (lane_kind_info[k].bits - 1))) return a->unknown;
  return x >> c | ~(~0ull >> c);
}

/* No carry leaves a number below both; trailing zeros of both stay. */
static uint64_t of_add(const Ask *a) {
  if (lane_kind_is_float(a->op->kind)) return a->unknown;
  uint64_t zx = operand(a, 0), zy = operand(a, 1), mask = ~a->unknown, x = ~zx & mask, y = ~zy & mask;
  uint64_t low = ~above(low_zeros(zx & zy));
  if (x + y < x || x + y > mask) return a->unknown | low;
  return (~zx & ~zy ? zeros_up_to(x + y) : zx & zy) | (zx & zy & low);
}

static uint64_t of_mul(const Ask *a) {
  uint64_t c;
  if (lane_kind_is_float(a->op->kind) || !constant(a, &c)) return a->unknown;
  uint64_t x = operand(a, 0), mask = ~a->unknown, most = ~x & mask;
  int low = low_zeros(x) + (c ? __builtin_ctzll(c) : 64);
  uint64_t high = c && most > mask / c ? a->unknown : zeros_up_to(most * c);
  return high | (low >= 64 ? ~0ull : (1ull << low) - 1);
}

static uint64_t of_mulwide(const Ask *a) {
  uint64_t c;
  bool is_signed = a->op->kind == LK_S32;
  if (!constant(a, &c) || (is_signed && c & 1ull << 31)) return 0;
  uint64_t x = operand(a, 0) | ~0xffffffffull;
  if (is_signed && !(x & 1ull << 31)) {
    int low = low_zeros(x) + (c ? __builtin_ctzll(c) : 0);
    return low >= 64 ? ~0ull : (1ull << low) - 1;
  }
  return zeros_up_to(~x * c) | ((1ull << __builtin_ctzll(c | 1ull << 63)) - 1);
}

static bool is_unsigned(LaneKind k) { return k == LK_U32 || k == LK_U64; }

static uint64_t of_min(const Ask *a) {
  if (!is_unsigned(a->op->kind)) return a->unknown;
  uint64_t x = ~operand(a, 0), y = ~operand(a, 1);
  return zeros_up_to(x < y ? x : y);
}

static uint64_t of_rem(const Ask *a) {
  uint64_t c;
  if (!is_unsigned(a->op->kind) || !constant(a, &c) || c == 0) return a->unknown;
  return zeros_up_to(c - 1);
}

static uint64_t of_bfe(const Ask *a) { return lane_kind_is_signed(a->op->kind) ? a->unknown : above(a->op->bits); }

static uint64_t of_cvt(const Ask *a) {
  uint64_t x = operand(a, 0);
  LaneKind from = a->op->kind, to = a->op->to;
  if (from == LK_U32 && to == LK_U64) return x | ~0xffffffffull;
  if (from == LK_S32 && to == LK_S64) return x & 1ull << 31 ? x | ~0xffffffffull : x & 0x7fffffff;
  if (from == LK_S64 && to == LK_S32) return x | a->unknown;
  return a->unknown;
}

static uint64_t of_ld(const Ask *a) {
  LaneKind k = a->op->kind;
  return a->op->guard ? a->unknown : k == LK_U8 ? above(8) : k == LK_U16 ? above(16) : a->unknown;
}

static uint64_t (*const table[LANE_COUNT])(const Ask *a) = {
    [LANE_SPECIAL] = of_special, [LANE_SHARED] = of_shared, [LANE_AND] = of_and,   [LANE_OR] = of_or,
    [LANE_XOR] = of_or,          [LANE_SELECT] = of_select, [LANE_SHL] = of_shl,   [LANE_SHR] = of_shr,
    [LANE_ADD] = of_add,         [LANE_MUL] = of_mul,       [LANE_MIN] = of_min,   [LANE_REM] = of_rem,
    [LANE_BFE] = of_bfe,         [LANE_POPC] = of_count,    [LANE_CLZ] = of_count, [LANE_CVT] = of_cvt,
    [LANE_MULWIDE] = of_mulwide, [LANE_LD] = of_ld,
};

/* A loop counts from its first number by its step: the trailing zeros of both stay, if it wraps too. */
static uint64_t of_induction(const LaneOp *loop, int depth) {
  return ~above(low_zeros(zeros_of(loop->in[0], depth - 1) & zeros_of(loop->in[2], depth - 1)));
}

static uint64_t zeros_of(const LaneValue *v, int depth) {
  stack_guard();
  const LaneOp *op = v->def, *parent = op ? NULL : v->block->parent;
  Ask a = {op, ~lane_type_mask(v->type), depth};
  if (!op && depth && parent && parent->code == LANE_FOR && v->index == 0)
    return a.unknown | of_induction(parent, depth);
  if (!op) return a.unknown;
  if (op->code == LANE_CONST) return ~(uint64_t)op->imm;
  return depth && table[op->code] ? table[op->code](&a) : a.unknown;
}

uint64_t lane_zero_bits(const LaneValue *v) { return zeros_of(v, DEPTH); }
