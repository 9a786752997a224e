/* The tables of the lane IR as data: lane_info and lane_kind_info from lane.def and lane.h, and what each attribute is
 * called.
 *
 * lane.def names an operation's attributes in one string. Each is a field of LaneOp; most are one byte, which may stand
 * for a word.
 */
#include "gpu/lane/table.h"

#include <stddef.h>

const LaneKindInfo lane_kind_info[LK_COUNT] = {
#define X(id, name, type, bits) [LK_##id] = {name, type, bits},
    LANE_KINDS(X)
#undef X
};

/* "2", "10", "2-3" and "2+" as bounds. */
#define TWO_DIGITS(s) (sizeof(s) == 3 && (s)[1] != '+')
#define LOW(s) (TWO_DIGITS(s) ? 10 * ((s)[0] - '0') + (s)[1] - '0' : (s)[0] - '0')
#define HIGH(s) (TWO_DIGITS(s) ? LOW(s) : sizeof(s) == 3 ? -1 : (s)[sizeof(s) - 2] - '0')

const LaneInfo lane_info[LANE_COUNT] = {
#define LANE(id, name, in, out, regions, effects, attrs) \
  [LANE_##id] = {name, LOW(in), HIGH(in), LOW(out), HIGH(out), regions, LE_##effects, attrs},
#include "gpu/lane/lane.def"
#undef LANE
};

const char *const lane_special_names[SP_COUNT] = {
    "tid.x",    "laneid",  "ctaid.x",     "ctaid.y", "ctaid.z",         "nctaid.x",        "nctaid.y",
    "nctaid.z", "clock64", "globaltimer", "smid",    "cluster_ctarank", "cluster_nctarank"};

/* ---- kinds and types --------------------------------------------------------------------------------------------- */

LaneKind lane_kind_of(const Type *t) {
  if (t->ptr) return LK_U64;
  switch (t->dtype) {
    case DT_I1: return LK_PRED;
    case DT_I8: return LK_S8;
    case DT_I16: return LK_S16;
    case DT_I32: return LK_S32;
    case DT_I64: return LK_S64;
    case DT_U16: return LK_U16;
    case DT_U32: return LK_U32;
    case DT_U64: return LK_U64;
    case DT_F16: return LK_F16;
    case DT_BF16: return LK_BF16;
    case DT_F32: return LK_F32;
    case DT_F64: return LK_F64;
    default: return LK_U8; /* u8 and the fp8 types */
  }
}

LaneType lane_type_of(const Type *t) { return lane_kind_info[lane_kind_of(t)].type; }

LaneKind lane_bits_kind(LaneType t) {
  static const LaneKind kinds[] = {[LT_PRED] = LK_PRED, [LT_B16] = LK_B16, [LT_B32] = LK_B32, [LT_B64] = LK_B64};
  return kinds[t];
}

uint64_t lane_type_mask(LaneType t) {
  static const uint64_t masks[] = {[LT_PRED] = 1, [LT_B16] = 0xffff, [LT_B32] = 0xffffffff, [LT_B64] = ~0ull};
  return masks[t];
}

bool lane_kind_is_float(LaneKind k) { return k >= LK_F16; }

bool lane_kind_is_signed(LaneKind k) { return k == LK_S8 || k == LK_S16 || k == LK_S32 || k == LK_S64; }

LaneKind lane_mma_other(const LaneOp *op) {
  if (!op->mixed) return op->kind;
  switch (op->kind) {
    case LK_S8: return LK_U8;
    case LK_U8: return LK_S8;
    case LK_E4M3X2: return LK_E5M2X2;
    default: return LK_E4M3X2;
  }
}

int lane_mma_pack(LaneKind k) { return k == LK_F16 || k == LK_BF16 ? 1 : k == LK_F32 || k == LK_F64 ? 0 : 2; }

LaneKind lane_mma_sum(LaneKind k) { return k == LK_F64 ? LK_F64 : k == LK_S8 || k == LK_U8 ? LK_S32 : LK_F32; }

bool lane_result_type(const LaneOp *op, LaneType *out) {
  const LaneInfo *info = &lane_info[op->code];
  *out = lane_kind_info[op->kind].type;
  switch (op->code) {
    case LANE_SPECIAL: return *out = op->special == SP_CLOCK64 || op->special == SP_GLOBALTIMER ? LT_B64 : LT_B32, true;
    case LANE_SHARED:
    case LANE_POPC:
    case LANE_CLZ:
    case LANE_SHFL:
    case LANE_WGMMA:
    case LANE_TMEM_LD: return *out = LT_B32, true;
    case LANE_MMA: return *out = lane_kind_info[lane_mma_sum(op->kind)].type, true;
    case LANE_MULWIDE: return *out = LT_B64, true;
    case LANE_SETP: return *out = LT_PRED, true;
    case LANE_ELECT: return *out = LT_PRED, true;
    case LANE_VOTE: return *out = op->vote == VOTE_BALLOT ? LT_B32 : LT_PRED, true;
    case LANE_CVT:
    case LANE_CVT2:
    case LANE_CVT1X2: return *out = lane_kind_info[op->to].type, true;
    case LANE_WGMMA_WAIT:
    case LANE_TMEM_WAIT_LD:
    case LANE_ASM: return false;
    default: return info->regions == 0 && info->max_out != 0;
  }
}

bool lane_commutes(const LaneOp *op) {
  switch (op->code) {
    case LANE_ADD:
    case LANE_MUL:
    case LANE_MULHI:
    case LANE_MULWIDE:
    case LANE_FMA:
    case LANE_MIN:
    case LANE_MAX:
    case LANE_AND:
    case LANE_OR:
    case LANE_XOR:
    case LANE_SAD: return true;
    case LANE_SETP: return op->pred == CMP_EQ || op->pred == CMP_NE;
    default: return false;
  }
}

bool lane_op_is_pure(const LaneOp *op) {
  if (op->guard) return false;
  if (op->code == LANE_ASM) return op->is_pure;
  if (op->code == LANE_SPECIAL) return op->special != SP_CLOCK64 && op->special != SP_GLOBALTIMER;
  return lane_info[op->code].effect == LE_PURE;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static const char *const roundings[] = {"", "rn", "rz", "rm", "rp", "rna"};
static const char *const spaces[] = {"global", "shared"};
static const char *const caches[] = {"", "ca", "cg", "cs", "cv", "wb", "wt"};
static const char *const evicts[] = {"", "evict_first", "evict_last", "l2_last", "no_allocate"}; /* LanePriority */
static const char *const rmws[] = {"add", "max", "min", "and", "or", "xor", "xchg", "cas"};
static const char *const sems[] = {"acq_rel", "acquire", "release", "relaxed"};
static const char *const scopes[] = {"gpu", "cta", "sys"};
static const char *const shuffles[] = {"bfly", "up", "down", "idx"};
static const char *const votes[] = {"any", "all", "ballot"};
static const char *const preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};

static const char *const waits[] = {"", "looks", "works"}; /* Wait */

#define FLAG(name, field) \
  { name, LANE_ATTR_FLAG, offsetof(LaneOp, field), false, NULL, 0 }
#define WORD(name, field, words, always) \
  { name, LANE_ATTR_WORD, offsetof(LaneOp, field), always, words, (int)(sizeof(words) / sizeof *(words)) }
#define NUMBER(name, field) \
  { name, LANE_ATTR_NUMBER, offsetof(LaneOp, field), false, NULL, 0 }

static const LaneAttr attrs[] = {
    {"imm", LANE_ATTR_IMM, 0, false, NULL, 0},
    {"buffer", LANE_ATTR_BUFFER, 0, false, NULL, 0},
    {"to", LANE_ATTR_TO, 0, false, NULL, 0},
    {"text", LANE_ATTR_TEXT, 0, false, NULL, 0},
    FLAG("ftz", ftz),
    FLAG("approx", approx),
    FLAG("exact", exact),
    FLAG("nan", nan),
    FLAG("sat", sat),
    FLAG("unordered", unordered),
    FLAG("right", right),
    FLAG("uniform", uniform),
    FLAG("warp", warp),
    FLAG("pure", is_pure),
    FLAG("volatile", is_volatile),
    FLAG("trans", trans),
    FLAG("mixed", mixed),
    FLAG("inc", inc),
    FLAG("read", read),
    FLAG("trans_a", trans_a),
    FLAG("trans_b", trans_b),
    WORD("rounding", rounding, roundings, false),
    WORD("space", space, spaces, true),
    WORD("cache", cache, caches, false),
    WORD("evict", evict, evicts, false),
    WORD("rmw", rmw, rmws, true),
    WORD("sem", sem, sems, true),
    WORD("scope", scope, scopes, true),
    WORD("shuffle", shuffle, shuffles, true),
    WORD("vote", vote, votes, true),
    WORD("pred", pred, preds, true),
    WORD("special", special, lane_special_names, true),
    WORD("waits", waits, waits, false),
    NUMBER("bit", bit),
    NUMBER("bits", bits),
    NUMBER("unroll", unroll),
    NUMBER("multicast", multicast),
    NUMBER("warps", warps),
    {"rows", LANE_ATTR_WIDE, offsetof(LaneOp, rows), false, NULL, 0},
    {"columns", LANE_ATTR_WIDE, offsetof(LaneOp, columns), false, NULL, 0},
};

int lane_attrs(LaneCode code, const LaneAttr *out[LANE_MAX_ATTRS]) {
  int n = 0;
  for (const char *s = lane_info[code].attrs; *s;) {
    size_t length = strcspn(s, " ");
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++)
      if (strlen(attrs[i].name) == length && !memcmp(attrs[i].name, s, length)) out[n++] = &attrs[i];
    s += length;
    s += *s == ' ';
  }
  return n;
}

bool lane_same_attrs(const LaneOp *a, const LaneOp *b) {
  size_t first = offsetof(LaneOp, rounding), end = offsetof(LaneOp, warps) + sizeof a->warps;
  return a->kind == b->kind && a->to == b->to && a->imm == b->imm && a->buffer == b->buffer && a->rows == b->rows &&
         a->columns == b->columns && !memcmp((const char *)a + first, (const char *)b + first, end - first);
}

bool lane_is_const(const LaneValue *v, uint64_t *bits) {
  if (!v->def || v->def->code != LANE_CONST) return false;
  if (bits) *bits = (uint64_t)v->def->imm;
  return true;
}
