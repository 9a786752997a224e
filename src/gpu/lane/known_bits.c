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

static uint64_t zeros_of(const LaneValue *v, int depth) {
  stack_guard();
  const LaneOp *op = v->def;
  uint64_t mask = lane_type_mask(v->type), c;
  if (!op) return ~mask;
  if (op->code == LANE_CONST) return ~(uint64_t)op->imm;
  if (depth == 0) return ~mask;
  LaneValue *x = op->in_count > 0 ? op->in[0] : NULL, *y = op->in_count > 1 ? op->in[1] : NULL;
  uint64_t zx, zy;
  switch (op->code) {
    case LANE_SPECIAL:
      if (op->special == SP_TID_X) return zeros_up_to(1023);
      if (op->special == SP_LANE) return zeros_up_to(31);
      if (op->special >= SP_CTAID_X && op->special <= SP_NCTAID_Z) return zeros_up_to(INT32_MAX);
      return ~mask;
    case LANE_SHARED: return zeros_up_to((1u << 20) - 1);
    case LANE_AND: return zeros_of(x, depth - 1) | zeros_of(y, depth - 1);
    case LANE_OR:
    case LANE_XOR: return zeros_of(x, depth - 1) & zeros_of(y, depth - 1);
    case LANE_SELECT: return zeros_of(y, depth - 1) & zeros_of(op->in[2], depth - 1);
    case LANE_SHL:
      if (!lane_is_const(y, &c) || c > 63) return ~mask;
      return zeros_of(x, depth - 1) << c | ((1ull << c) - 1) | ~mask;
    case LANE_SHR:
      if (!lane_is_const(y, &c) || c > 63) return ~mask;
      zx = zeros_of(x, depth - 1);
      if (lane_kind_is_signed(op->kind) && !(zx & 1ull << (lane_kind_info[op->kind].bits - 1))) return ~mask;
      return zx >> c | ~(~0ull >> c);
    case LANE_ADD:
      if (lane_kind_is_float(op->kind)) return ~mask;
      zx = zeros_of(x, depth - 1);
      zy = zeros_of(y, depth - 1);
      /* No carry leaves a number below both; trailing zeros of both stay. */
      c = ~zx & ~zy;
      if ((~zx & mask) + (~zy & mask) >= (~zx & mask) && (~zx & mask) + (~zy & mask) <= mask)
        return (c ? zeros_up_to((~zx & mask) + (~zy & mask)) : zx & zy) | (zx & zy & ~above(low_zeros(zx & zy)));
      return ~mask | ~above(low_zeros(zx & zy));
    case LANE_MUL:
      if (lane_kind_is_float(op->kind) || !lane_is_const(y, &c)) return ~mask;
      zx = zeros_of(x, depth - 1);
      {
        int low = low_zeros(zx) + (c ? __builtin_ctzll(c) : 64);
        uint64_t most = ~zx & mask;
        uint64_t high = c && most > mask / c ? ~mask : zeros_up_to(most * c);
        return high | (low >= 64 ? ~0ull : (1ull << low) - 1);
      }
    case LANE_BFE:
      if (lane_kind_is_signed(op->kind)) return ~mask;
      return above(op->bits);
    case LANE_MIN:
      if (op->kind == LK_U32 || op->kind == LK_U64) {
        zx = zeros_of(x, depth - 1);
        zy = zeros_of(y, depth - 1);
        return zeros_up_to(~zx < ~zy ? ~zx : ~zy);
      }
      return ~mask;
    case LANE_REM:
      if ((op->kind != LK_U32 && op->kind != LK_U64) || !lane_is_const(y, &c) || c == 0) return ~mask;
      return zeros_up_to(c - 1);
    case LANE_POPC:
    case LANE_CLZ: return above(7);
    case LANE_CVT:
      zx = zeros_of(x, depth - 1);
      if (op->kind == LK_U32 && op->to == LK_U64) return zx | ~0xffffffffull;
      if (op->kind == LK_S32 && op->to == LK_S64) return zx & 1ull << 31 ? zx | ~0xffffffffull : zx & 0x7fffffff;
      if (op->kind == LK_S64 && op->to == LK_S32) return zx | ~mask;
      return ~mask;
    case LANE_MULWIDE:
      if (!lane_is_const(y, &c) || (op->kind == LK_S32 && c & 1ull << 31)) return 0;
      zx = zeros_of(x, depth - 1) | ~0xffffffffull;
      if (op->kind == LK_S32 && !(zx & 1ull << 31)) {
        int low = low_zeros(zx) + (c ? __builtin_ctzll(c) : 0);
        return low >= 64 ? ~0ull : (1ull << low) - 1;
      }
      return zeros_up_to(~zx * c) | ((1ull << __builtin_ctzll(c | 1ull << 63)) - 1);
    case LANE_LD:
      if (op->guard) return ~mask;
      return op->kind == LK_U8 ? above(8) : op->kind == LK_U16 ? above(16) : ~mask;
    default: return ~mask;
  }
}

uint64_t lane_zero_bits(const LaneValue *v) { return zeros_of(v, DEPTH); }
