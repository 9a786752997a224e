/* Conversions between kinds of numbers.
 *
 * cvt{.rounding}{.ftz}{.sat}.to.from d, a. Integers of 8 and 16 bits lie extended in 32-bit registers, so that, as a
 * source, they are s32 or u32; as a result, the low bits are extended again. Towards integers floats are cut at zero
 * (.rzi) unless the operation says otherwise; a float too large for the 32- or 64-bit integer gives its nearest value,
 * as PTX does.
 *
 * bf16 converts to and from f32 on every target, to and from all else since sm_90; before, f32 stands between. That is
 * exact on the way from bf16, and rounds once from f16; from f64 and wide integers it rounds twice.
 *
 * Two at once: cvt.rn.f16x2.f32 d, high, low has the first source in the upper half.
 */
#include "gpu/ptx/ptx.h"

static bool is_float(LaneKind k) { return k >= LK_F16 && k <= LK_F64; }
static bool is_small(LaneKind k) { return k >= LK_S8 && k <= LK_U16; }
static bool is_signed(LaneKind k) { return k == LK_S8 || k == LK_S16 || k == LK_S32 || k == LK_S64; }

static LaneKind plain_kind(LaneKind k) { /* bits are taken for unsigned numbers */
  return k == LK_B32 ? LK_U32 : k == LK_B64 ? LK_U64 : k == LK_B16 ? LK_U16 : k;
}
static LaneKind held_as(LaneKind k) { return is_small(k) ? (is_signed(k) ? LK_S32 : LK_U32) : k; }

static const char *rounding_name(const LaneOp *op, LaneKind from, LaneKind to) {
  static const char *const floats[] = {".rn", ".rn", ".rz", ".rm", ".rp", ".rna"};
  static const char *const ints[] = {".rzi", ".rni", ".rzi", ".rmi", ".rpi", ".rni"};
  if (is_float(from) && !is_float(to)) return ints[op->rounding];
  if (!is_float(from)) return is_float(to) ? floats[op->rounding] : "";
  bool narrower = lane_kind_info[to].bits < lane_kind_info[from].bits || (lane_kind_info[to].bits == 16 && from != to);
  return narrower ? floats[op->rounding] : "";
}

/* Whether an integer of kind `to` can hold every one of kind `from`. PTX rejects .sat there. */
static bool holds(LaneKind to, LaneKind from) {
  int room = lane_kind_info[to].bits - is_signed(to), need = lane_kind_info[from].bits - is_signed(from);
  return room >= need && (is_signed(to) || !is_signed(from));
}

/* One instruction. Narrow integers as results: see extend. */
static void convert(Ptx *p, const LaneOp *op, LaneKind from, LaneKind to, bool sat, Arg d, Arg x) {
  ptx_open(p, op, "cvt");
  put(p, rounding_name(op, from, to));
  if (op->ftz && (from == LK_F32 || to == LK_F32)) put(p, ".ftz");
  if (sat && (is_float(from) || is_float(to) || !holds(to, from))) put(p, to == LK_BF16 ? ".satfinite" : ".sat");
  put(p, ".");
  put(p, lane_kind_info[to].name);
  put(p, ".");
  put(p, lane_kind_info[from].name);
  ptx_args_of(p, d, x);
}

/* d = the low bits of x (32 bits) as a number of kind `to`. */
static void extend(Ptx *p, const LaneOp *op, LaneKind to, Arg d, Arg x) {
  ptx_open(p, op, is_signed(to) ? "cvt.s32." : "cvt.u32.");
  put(p, lane_kind_info[to].name);
  ptx_args_of(p, d, x);
}

static void from_pred(Ptx *p, const LaneOp *op, LaneKind to) {
  LaneType t = op->out[0]->type;
  static const char *const ones[] = {"0x3C00", "0x3F80", "0f3F800000", "0d3FF0000000000000"}; /* f16 bf16 f32 f64 */
  Arg d = ptx_reg(p, op->out[0]), c = ptx_reg(p, op->in[0]);
  ptx_open(p, op, "selp.");
  put(p, ptx_type_name(t));
  ptx_args_of(p, d, is_float(to) ? ptx_text(ones[to - LK_F16]) : ptx_int(1),
              to == LK_F32   ? ptx_text("0f00000000")
              : to == LK_F64 ? ptx_text("0d0000000000000000")
                             : ptx_int(0),
              c);
}

static void to_pred(Ptx *p, const LaneOp *op, LaneKind from) {
  Arg d = ptx_reg(p, op->out[0]), x = ptx_reg(p, op->in[0]);
  if (from == LK_F16 || from == LK_BF16) { /* not +0 and not -0 */
    Arg wide = ptx_fresh(p, LT_B32);
    ptx_open(p, op, from == LK_F16 ? "cvt.f32.f16" : "cvt.f32.bf16");
    ptx_args_of(p, wide, x);
    x = wide;
    from = LK_F32;
  }
  ptx_open(p, op, is_float(from) ? "setp.neu." : "setp.ne.");
  put(p, lane_kind_info[held_as(from)].name);
  ptx_args_of(p, d, x,
              from == LK_F32   ? ptx_text("0f00000000")
              : from == LK_F64 ? ptx_text("0d0000000000000000")
                               : ptx_int(0));
}

static bool needs_f32_between(const Ptx *p, const LaneOp *op, LaneKind from, LaneKind to) {
  if (from == LK_BF16 && op->sat && !is_float(to)) return true; /* cvt.rzi.sat.s32.bf16 does not exist */
  if (p->target->sm >= 90 || (from != LK_BF16 && to != LK_BF16)) return false;
  return from != LK_F32 && to != LK_F32;
}

void ptx_cvt(Ptx *p, const LaneOp *op) {
  LaneKind from = plain_kind(op->kind), to = plain_kind(op->to);
  if (from == LK_PRED && to == LK_PRED) {
    ptx_move(p, LT_PRED, op, ptx_reg(p, op->out[0]), ptx_arg(p, op->in[0], LK_PRED));
    return;
  }
  if (from == LK_PRED) return from_pred(p, op, to);
  if (to == LK_PRED) return to_pred(p, op, from);
  Arg x = ptx_reg(p, op->in[0]), d = ptx_reg(p, op->out[0]);
  if (needs_f32_between(p, op, from, to)) {
    Arg wide = ptx_fresh(p, LT_B32);
    convert(p, op, held_as(from), LK_F32, false, wide, x);
    x = wide;
    from = LK_F32;
  }
  LaneKind source = held_as(from);
  if (is_small(to)) { /* 64 bits and floats come to 32 bits first, or, with sat, to where they belong */
    if (lane_kind_info[source].bits == 64 || is_float(source) || op->sat) {
      Arg middle = ptx_fresh(p, LT_B32);
      convert(p, op, source, op->sat ? to : is_signed(to) ? LK_S32 : LK_U32, op->sat, middle, x);
      x = middle;
    }
    extend(p, op, to, d, x);
    return;
  }
  if (!is_float(source) && !is_float(to) && lane_kind_info[source].bits == lane_kind_info[to].bits && !op->sat) {
    ptx_move(p, op->out[0]->type, op, d, x);
    return;
  }
  if (source == to && !op->sat && !op->ftz) {
    ptx_move(p, op->out[0]->type, op, d, x);
    return;
  }
  convert(p, op, source, to, op->sat, d, x);
}

static bool is_fp8(LaneKind k) { return k == LK_E4M3X2 || k == LK_E5M2X2; }

void ptx_cvt2(Ptx *p, const LaneOp *op) {
  Arg d = ptx_reg(p, op->out[0]), low = ptx_arg(p, op->in[0], LK_F32), high = ptx_arg(p, op->in[1], LK_F32);
  ptx_open(p, op, op->rounding == ROUND_RZ ? "cvt.rz" : "cvt.rn");
  if (is_fp8(op->to) || op->sat) put(p, ".satfinite");
  put(p, ".");
  put(p, lane_kind_info[op->to].name);
  put(p, ".f32");
  ptx_args_of(p, d, high, low);
}

void ptx_cvt1x2(Ptx *p, const LaneOp *op) {
  Arg d = ptx_reg(p, op->out[0]), x = ptx_reg(p, op->in[0]);
  ptx_open(p, op, is_fp8(op->to) ? "cvt.rn.satfinite." : "cvt.rn.");
  put(p, lane_kind_info[op->to].name);
  put(p, ".");
  put(p, lane_kind_info[op->kind].name);
  ptx_args_of(p, d, x);
}
