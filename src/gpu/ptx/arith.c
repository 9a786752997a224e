/* Arithmetic, comparison and selection.
 *
 * Most operations are one instruction whose name follows from code and kind:
 *
 *     add.s32   mul.lo.u64   fma.rn.ftz.f32   min.NaN.f16x2   div.full.f32   shr.u64   and.pred
 *
 * What a target lacks: bf16 before sm_90 has only fma, min, max, neg and abs. There a + b is fma(a, 1, b), a - b is
 * fma(b, -1, a) and a * b is fma(a, b, -0), each rounded once as the true instruction would; comparisons go through
 * f32, which is exact. f64 has no min.NaN.
 */
#include "gpu/ptx/ptx.h"

static bool is_float(LaneKind k) { return k >= LK_F16 && k <= LK_BF16X2; }
static bool is_bf16(LaneKind k) { return k == LK_BF16 || k == LK_BF16X2; }
static bool is_half(LaneKind k) { return k == LK_F16 || k == LK_F16X2 || is_bf16(k); }

/* The kind's name in arithmetic: registers hold 8 and 16 bits extended. */
static const char *number_name(LaneKind k) {
  switch (k) {
    case LK_S8:
    case LK_S16:
    case LK_B32: return "s32";
    case LK_U8:
    case LK_U16: return "u32";
    case LK_B64: return "s64";
    default: return lane_kind_info[k].name;
  }
}

static const char *bits_name(LaneKind k) { return ptx_type_name(lane_kind_info[k].type); }

static const char *const round_names[] = {"", ".rn", ".rz", ".rm", ".rp", ".rna"};

static Arg out(Ptx *p, const LaneOp *op) { return ptx_reg(p, op->out[0]); }
static Arg in(Ptx *p, const LaneOp *op, int i) { return ptx_arg(p, op->in[i], op->kind); }

/* mnemonic.kind d, operands */
static void plain(Ptx *p, const LaneOp *op, const char *mnemonic, const char *kind) {
  Arg args[4] = {out(p, op)};
  for (int i = 0; i < op->in_count; i++) args[i + 1] = in(p, op, i);
  ptx_open(p, op, mnemonic);
  put(p, ".");
  put(p, kind);
  ptx_args(p, op->in_count + 1, args);
}

/* The same with .rn or another rounding (`otherwise` where the op names none), and .ftz where the kind has it. */
static void rounded(Ptx *p, const LaneOp *op, const char *mnemonic, const char *otherwise) {
  char text[48];
  bool ftz = op->ftz && (op->kind == LK_F32 || op->kind == LK_F16 || op->kind == LK_F16X2);
  snprintf(text, sizeof text, "%s%s%s", mnemonic, op->rounding ? round_names[op->rounding] : otherwise,
           ftz ? ".ftz" : "");
  plain(p, op, text, lane_kind_info[op->kind].name);
}

static void bf16_by_fma(Ptx *p, const LaneOp *op) {
  bool two = op->kind == LK_BF16X2;
  uint64_t constant = op->code == LANE_ADD ? 0x3F80 : op->code == LANE_SUB ? 0xBF80 : 0x8000; /* 1, -1, -0 */
  if (two) constant |= constant << 16;
  Arg x = in(p, op, 0), y = in(p, op, 1), c = ptx_const_reg(p, two ? LT_B32 : LT_B16, constant), d = out(p, op);
  ptx_open(p, op, two ? "fma.rn.bf16x2" : "fma.rn.bf16");
  if (op->code == LANE_ADD) ptx_args_of(p, d, x, c, y);
  else if (op->code == LANE_SUB) ptx_args_of(p, d, y, c, x);
  else ptx_args_of(p, d, x, y, c);
}

static void add_mul(Ptx *p, const LaneOp *op, const char *integer, const char *floating) {
  if (!is_float(op->kind)) plain(p, op, integer, number_name(op->kind));
  else if (is_bf16(op->kind) && !p->target->has_bf16_arith) bf16_by_fma(p, op);
  else rounded(p, op, floating, op->exact ? ".rn" : "");
}

static void min_max(Ptx *p, const LaneOp *op, const char *mnemonic) {
  if (!is_float(op->kind)) {
    plain(p, op, mnemonic, number_name(op->kind));
    return;
  }
  char text[24];
  bool ftz = op->ftz && !is_bf16(op->kind) && op->kind != LK_F64, nan = op->nan && op->kind != LK_F64;
  snprintf(text, sizeof text, "%s%s%s", mnemonic, ftz ? ".ftz" : "", nan ? ".NaN" : "");
  plain(p, op, text, lane_kind_info[op->kind].name);
  if (!op->nan || nan) return;
  Arg p1 = ptx_fresh(p, LT_PRED), d = out(p, op), x = in(p, op, 0), y = in(p, op, 1), sum = ptx_fresh(p, LT_B64);
  ptx_open(p, op, "setp.nan.f64");
  ptx_args_of(p, p1, x, y);
  ptx_open(p, op, "add.f64");
  ptx_args_of(p, sum, x, y);
  ptx_open(p, op, "selp.b64");
  ptx_args_of(p, d, sum, d, p1);
}

/* sqrt, rcp: .approx or correctly rounded */
static void root(Ptx *p, const LaneOp *op, const char *mnemonic) {
  char text[32];
  if (op->approx) {
    snprintf(text, sizeof text, "%s.approx%s", mnemonic, op->ftz || op->kind == LK_F64 ? ".ftz" : "");
    plain(p, op, text, lane_kind_info[op->kind].name);
  } else {
    rounded(p, op, mnemonic, ".rn");
  }
}

/* A quotient of 64 bits is a function of some 70 instructions. Where the upper halves of both numbers are clear, as of
 * most sizes and indices, 32 bits do: each thread asks. */
static void divide_wide(Ptx *p, const LaneOp *op) {
  int number = ++p->labels;
  Arg d = out(p, op), x = ptx_reg(p, op->in[0]), y = ptx_reg(p, op->in[1]), both = ptx_fresh(p, LT_B64),
      high = ptx_fresh(p, LT_B32), wide = ptx_fresh(p, LT_PRED), a = ptx_fresh(p, LT_B32), b = ptx_fresh(p, LT_B32);
  ptx_open(p, NULL, "or.b64");
  ptx_args_of(p, both, x, y);
  ptx_open(p, NULL, "shr.u64");
  ptx_args_of(p, both, both, ptx_int(32));
  ptx_open(p, NULL, "cvt.u32.u64");
  ptx_args_of(p, high, both);
  ptx_open(p, NULL, "setp.ne.u32");
  ptx_args_of(p, wide, high, ptx_int(0));
  ptx_branch(p, &wide, false, false, "wide", number);
  ptx_open(p, NULL, "cvt.u32.u64");
  ptx_args_of(p, a, x);
  ptx_open(p, NULL, "cvt.u32.u64");
  ptx_args_of(p, b, y);
  ptx_open(p, NULL, "div.u32");
  ptx_args_of(p, a, a, b);
  ptx_open(p, NULL, "cvt.u64.u32");
  ptx_args_of(p, d, a);
  ptx_branch(p, NULL, false, true, "divided", number);
  ptx_label(p, "wide", number);
  plain(p, op, "div", number_name(op->kind));
  ptx_label(p, "divided", number);
}

static void divide(Ptx *p, const LaneOp *op) {
  bool wide = op->kind == LK_S64 || op->kind == LK_U64 || op->kind == LK_B64;
  if (wide && !op->guard) divide_wide(p, op);
  else if (!is_float(op->kind)) plain(p, op, "div", number_name(op->kind));
  else if (op->approx && op->kind == LK_F32) plain(p, op, op->ftz ? "div.full.ftz" : "div.full", "f32");
  else rounded(p, op, "div", ".rn");
}

/* Approximations of the special function unit. The halves differ in whether .ftz must or must not stand there. */
static void special_function(Ptx *p, const LaneOp *op, const char *mnemonic) {
  char text[32];
  bool ftz = is_bf16(op->kind) ? op->code == LANE_EX2 : !is_half(op->kind) && op->ftz && op->code != LANE_TANH;
  snprintf(text, sizeof text, "%s.approx%s", mnemonic, ftz ? ".ftz" : "");
  plain(p, op, text, lane_kind_info[op->kind].name);
}

static void round_whole(Ptx *p, const LaneOp *op) {
  static const char *const names[] = {"cvt.rni", "cvt.rni", "cvt.rzi", "cvt.rmi", "cvt.rpi"};
  if (op->rounding >= sizeof names / sizeof *names)
    diag_fail(p->cx, op->span ? *op->span : (Span){0},
              "rounding to whole numbers has no form with ties away from zero in PTX");
  Arg d = out(p, op), x = in(p, op, 0);
  ptx_open(p, op, names[op->rounding]);
  if (op->ftz && op->kind == LK_F32) put(p, ".ftz");
  const char *k = lane_kind_info[op->kind].name;
  put(p, ".");
  put(p, k);
  put(p, ".");
  put(p, k);
  ptx_args_of(p, d, x);
}

static void field(Ptx *p, const LaneOp *op) {
  bool insert = op->code == LANE_BFI;
  Arg args[5] = {out(p, op)};
  int n = 1;
  for (int i = 0; i < op->in_count; i++) args[n++] = in(p, op, i);
  args[n++] = ptx_int(op->bit);
  args[n++] = ptx_int(op->bits);
  ptx_open(p, op, insert ? "bfi." : "bfe.");
  put(p, insert ? bits_name(op->kind) : number_name(op->kind));
  ptx_args(p, n, args);
}

static void shift(Ptx *p, const LaneOp *op) {
  Arg d = out(p, op), x = in(p, op, 0), n = ptx_arg(p, op->in[1], LK_U32);
  ptx_open(p, op, op->code == LANE_SHL ? "shl." : "shr.");
  put(p, op->code == LANE_SHL ? bits_name(op->kind)
         : op->kind == LK_B32 ? "u32"
         : op->kind == LK_B64 ? "u64"
                              : number_name(op->kind));
  ptx_args_of(p, d, x, n);
}

void ptx_arith(Ptx *p, const LaneOp *op) {
  const char *number = number_name(op->kind), *bits = bits_name(op->kind), *name = lane_kind_info[op->kind].name;
  switch (op->code) {
    case LANE_ADD: add_mul(p, op, "add", "add"); break;
    case LANE_SUB: add_mul(p, op, "sub", "sub"); break;
    case LANE_MUL: add_mul(p, op, "mul.lo", "mul"); break;
    case LANE_MULHI: plain(p, op, "mul.hi", number); break;
    case LANE_MULWIDE: plain(p, op, "mul.wide", number); break;
    case LANE_FMA:
      p->sums += op->kind == LK_F32;
      if (is_float(op->kind)) rounded(p, op, "fma", ".rn");
      else plain(p, op, "mad.lo", number);
      break;
    case LANE_DIV: divide(p, op); break;
    case LANE_REM: plain(p, op, "rem", number); break;
    case LANE_MIN: min_max(p, op, "min"); break;
    case LANE_MAX: min_max(p, op, "max"); break;
    case LANE_AND: plain(p, op, "and", bits); break;
    case LANE_OR: plain(p, op, "or", bits); break;
    case LANE_XOR: plain(p, op, "xor", bits); break;
    case LANE_NOT: plain(p, op, "not", bits); break;
    case LANE_SHL:
    case LANE_SHR: shift(p, op); break;
    case LANE_NEG:
      plain(p, op, op->ftz && op->kind == LK_F32 ? "neg.ftz" : "neg",
            is_float(op->kind)   ? name
            : op->kind == LK_U64 ? "s64"
            : op->kind == LK_U32 ? "s32"
                                 : number);
      break;
    case LANE_ABS:
      plain(p, op, op->ftz && op->kind == LK_F32 ? "abs.ftz" : "abs", is_float(op->kind) ? name : number);
      break;
    case LANE_COPYSIGN: plain(p, op, "copysign", name); break;
    case LANE_SQRT: root(p, op, "sqrt"); break;
    case LANE_RCP: root(p, op, "rcp"); break;
    case LANE_RSQRT: plain(p, op, op->ftz ? "rsqrt.approx.ftz" : "rsqrt.approx", name); break;
    case LANE_EX2: special_function(p, op, "ex2"); break;
    case LANE_LG2: special_function(p, op, "lg2"); break;
    case LANE_SIN: special_function(p, op, "sin"); break;
    case LANE_COS: special_function(p, op, "cos"); break;
    case LANE_TANH: special_function(p, op, "tanh"); break;
    case LANE_ROUND: round_whole(p, op); break;
    case LANE_POPC: plain(p, op, "popc", bits); break;
    case LANE_CLZ: plain(p, op, "clz", bits); break;
    case LANE_BREV: plain(p, op, "brev", bits); break;
    case LANE_BFE:
    case LANE_BFI: field(p, op); break;
    case LANE_PRMT: plain(p, op, "prmt", "b32"); break;
    case LANE_FUNNEL: plain(p, op, op->right ? "shf.r.wrap" : "shf.l.wrap", "b32"); break;
    case LANE_SAD: plain(p, op, "sad", number); break;
    default:
      diag_fail(p->cx, op->span ? *op->span : (Span){0}, "PTX has no form of the lane operation %s",
                lane_info[op->code].name);
  }
}

/* ---- comparison and selection ------------------------------------------------------------------------------------ */

static Arg widened(Ptx *p, const LaneOp *op, int i) { /* a bf16 as f32 */
  Arg r = ptx_fresh(p, LT_B32), x = in(p, op, i);
  ptx_open(p, op, "cvt.f32.bf16");
  ptx_args_of(p, r, x);
  return r;
}

void ptx_setp(Ptx *p, const LaneOp *op) {
  static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  Arg d = out(p, op);
  if (op->kind == LK_PRED) { /* only eq and ne have a meaning */
    Arg x = ptx_arg(p, op->in[0], LK_PRED), y = ptx_arg(p, op->in[1], LK_PRED);
    ptx_open(p, op, "xor.pred");
    ptx_args_of(p, d, x, y);
    if (op->pred != CMP_EQ) return;
    ptx_open(p, op, "not.pred");
    ptx_args_of(p, d, d);
    return;
  }
  bool floating = is_float(op->kind), through_f32 = op->kind == LK_BF16 && !p->target->has_bf16_arith;
  Arg x = through_f32 ? widened(p, op, 0) : in(p, op, 0), y = through_f32 ? widened(p, op, 1) : in(p, op, 1);
  ptx_open(p, op, "setp.");
  put(p, names[op->pred]);
  if (floating && (op->unordered || op->pred == CMP_NE)) put(p, "u");
  if (op->ftz && (op->kind == LK_F32 || op->kind == LK_F16)) put(p, ".ftz");
  put(p, ".");
  put(p, through_f32 ? "f32" : op->kind == LK_B16 ? "b16" : number_name(op->kind));
  ptx_args_of(p, d, x, y);
}

void ptx_select(Ptx *p, const LaneOp *op) {
  LaneType t = op->out[0]->type;
  Arg d = out(p, op), c = ptx_reg(p, op->in[0]);
  LaneKind k = lane_bits_kind(t);
  Arg x = ptx_arg(p, op->in[1], k), y = ptx_arg(p, op->in[2], k);
  if (t != LT_PRED) {
    ptx_open(p, op, "selp.");
    put(p, ptx_type_name(t));
    ptx_args_of(p, d, x, y, c);
    return;
  }
  Arg both = ptx_fresh(p, LT_PRED), neither = ptx_fresh(p, LT_PRED); /* c & x | !c & y */
  ptx_open(p, op, "and.pred");
  ptx_args_of(p, both, c, x);
  ptx_open(p, op, "not.pred");
  ptx_args_of(p, neither, c);
  ptx_open(p, op, "and.pred");
  ptx_args_of(p, neither, neither, y);
  ptx_open(p, op, "or.pred");
  ptx_args_of(p, d, both, neither);
}
