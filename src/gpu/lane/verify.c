/* Whether lane IR is right: structure, the kinds and types of each operation, dominance, and who may stand where.
 *
 *     k.py:12:9: error: wrong lane IR after building: 'add': operand 1 is b64, not b32
 *
 * Kinds and the types of operands are in one table (rules). A value may be used where it is visible: below its
 * definition in the same block or one inside it. Operations that all lanes of a warp must reach together may not stand
 * under control that is not uniform: an `if`, `for` or `while` without that mark, but for a `for` whose bounds are
 * constants or parameters. An `if` that parts the block by warps gives each part barriers of its own; in a part, what
 * is uniform is so for the part's threads. What holds of asynchronous products stands in verify_products.c.
 */
#include "gpu/lane/table.h"

typedef struct Verifier {
  LaneFunc *f;
  const char *after;
  const LaneValue **visible; /* by id: the value itself while it may be used */
  const LaneValue **seen;    /* by id: defined somewhere */
  int divergent;             /* how many open control operations are not uniform */
  const LaneOp *parted;      /* the `if` that has parted the block here, or NULL */
  int part;                  /* which of its bodies this is */
  struct Attrs {             /* by code, as lane_attrs says, plus 1; 0: it was not asked */
    int count;
    const LaneAttr *at[LANE_MAX_ATTRS];
  } * attrs;
} Verifier;

static NORETURN void wrong(Verifier *v, const LaneOp *op, const char *format, ...) PRINTF_LIKE(3, 4);
static NORETURN void wrong(Verifier *v, const LaneOp *op, const char *format, ...) {
  char what[256];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof what, format, ap);
  va_end(ap);
  Span span = op && op->span ? *op->span : (Span){0};
  if (op) diag_fail(v->f->cx, span, "wrong lane IR after %s: '%s': %s", v->after, lane_info[op->code].name, what);
  diag_fail(v->f->cx, span, "wrong lane IR after %s: %s", v->after, what);
}

static const char *type_name(LaneType t) { return lane_kind_info[lane_bits_kind(t)].name; }

/* ---- rules ------------------------------------------------------------------------------------------------------- */

#define K(k) (1u << LK_##k)
enum {
  INT32 = K(S32) | K(U32),
  INTS = INT32 | K(S64) | K(U64),
  SCALARS = K(F16) | K(BF16) | K(F32) | K(F64),
  FLOATS = SCALARS | K(F16X2) | K(BF16X2),
  BITS = K(PRED) | K(B16) | K(B32) | K(B64),
  WORDS = K(B32) | K(B64),
  NARROW = K(F16) | K(BF16) | K(F16X2) | K(BF16X2),
  SMALL = K(S8) | K(U8) | K(S16) | K(U16),
  MEMORY = K(B16) | WORDS | SMALL | INTS | FLOATS | K(E4M3X2) | K(E5M2X2),
  PRODUCTS = K(F16) | K(BF16) | K(F32) | K(S8) | K(U8) | K(E4M3X2) | K(E5M2X2),
  ANY = ~0,
};

/* Kinds an operation may have, and the types of its operands: a letter each, the last one for all that follow.
 * k: the kind's; m: the kind's sums'; p: pred; h: b16; w: b32; h of pack: half of the kind's; a: an address; g: a
 * global one; *: anything.
 */
typedef struct Rule {
  uint32_t kinds;
  const char *in;
} Rule;
static const Rule rules[LANE_COUNT] = {
    [LANE_CONST] = {BITS, ""},
    [LANE_PARAM] = {ANY, ""},
    [LANE_SPECIAL] = {ANY, ""},
    [LANE_SHARED] = {ANY, ""},
    [LANE_ADD] = {INTS | FLOATS, "k"},
    [LANE_SUB] = {INTS | FLOATS, "k"},
    [LANE_MUL] = {INTS | FLOATS, "k"},
    [LANE_MULHI] = {INTS, "k"},
    [LANE_MULWIDE] = {INT32, "k"},
    [LANE_FMA] = {INTS | FLOATS, "k"},
    [LANE_DIV] = {INTS | K(F32) | K(F64), "k"},
    [LANE_REM] = {INTS, "k"},
    [LANE_MIN] = {INTS | FLOATS, "k"},
    [LANE_MAX] = {INTS | FLOATS, "k"},
    [LANE_AND] = {BITS, "k"},
    [LANE_OR] = {BITS, "k"},
    [LANE_XOR] = {BITS, "k"},
    [LANE_NOT] = {BITS, "k"},
    [LANE_SHL] = {K(B16) | WORDS, "kw"},
    [LANE_SHR] = {INTS, "kw"},
    [LANE_NEG] = {INTS | FLOATS, "k"},
    [LANE_ABS] = {INTS | FLOATS, "k"},
    [LANE_COPYSIGN] = {K(F32) | K(F64), "k"},
    [LANE_SQRT] = {K(F32) | K(F64), "k"},
    [LANE_RCP] = {K(F32) | K(F64), "k"},
    [LANE_RSQRT] = {K(F32) | K(F64), "k"},
    [LANE_EX2] = {K(F32) | NARROW, "k"},
    [LANE_LG2] = {K(F32), "k"},
    [LANE_SIN] = {K(F32), "k"},
    [LANE_COS] = {K(F32), "k"},
    [LANE_TANH] = {K(F32) | NARROW, "k"},
    [LANE_ROUND] = {K(F32) | K(F64), "k"},
    [LANE_POPC] = {WORDS, "k"},
    [LANE_CLZ] = {WORDS, "k"},
    [LANE_BREV] = {WORDS, "k"},
    [LANE_BFE] = {INTS, "k"},
    [LANE_BFI] = {WORDS, "k"},
    [LANE_PRMT] = {K(B32), "k"},
    [LANE_FUNNEL] = {K(B32), "k"},
    [LANE_SAD] = {INT32, "k"},
    [LANE_PACK] = {WORDS, "/"},
    [LANE_UNPACK] = {WORDS, "k"},
    [LANE_MOVE] = {BITS, "k"},
    [LANE_SETP] = {INTS | SCALARS, "k"},
    [LANE_SELECT] = {BITS, "pk"},
    [LANE_CVT] = {SMALL | INTS | SCALARS, "k"},
    [LANE_CVT2] = {K(F32), "k"},
    [LANE_CVT1X2] = {K(E4M3X2) | K(E5M2X2) | K(F16X2), "k"},
    [LANE_LD] = {MEMORY, "ak"},
    [LANE_ST] = {MEMORY, "ak"},
    [LANE_ATOM] = {K(B16) | WORDS | INTS | FLOATS, "ak"},
    [LANE_SHFL] = {K(B32), "w"},
    [LANE_LDMATRIX] = {K(B32), "a"},
    [LANE_STMATRIX] = {K(B32), "aw"},
    [LANE_MMA] = {PRODUCTS | K(F64), "m"},
    [LANE_WGMMA] = {PRODUCTS, "w"},
    [LANE_WGMMA_FENCE] = {ANY, ""},
    [LANE_WGMMA_COMMIT] = {ANY, ""},
    [LANE_WGMMA_WAIT] = {ANY, "w"},
    [LANE_FENCE_PROXY] = {ANY, ""},
    [LANE_CP_ASYNC] = {K(B32), "ag"},
    [LANE_CP_COMMIT] = {ANY, ""},
    [LANE_CP_WAIT] = {ANY, ""},
    [LANE_SHARED_READ] = {ANY, ""},
    [LANE_VOTE] = {ANY, "p"},
    [LANE_REDUX] = {INT32 | K(B32), "w"},
    [LANE_MBAR_INIT] = {ANY, "aw"},
    [LANE_MBAR_ARRIVE] = {ANY, "aw"},
    [LANE_MBAR_EXPECT] = {ANY, "aw"},
    [LANE_MBAR_WAIT] = {ANY, "aw"},
    [LANE_FENCE_MBAR] = {ANY, ""},
    [LANE_TENSOR_LOAD] = {ANY, "awgw"},
    [LANE_TENSOR_STORE] = {ANY, "agw"},
    [LANE_TENSOR_RED] = {ANY, "agw"},
    [LANE_BULK_COMMIT] = {ANY, ""},
    [LANE_BULK_WAIT] = {ANY, ""},
    [LANE_PREFETCH_MAP] = {ANY, "g"},
    [LANE_ELECT] = {ANY, ""},
    [LANE_SETMAXNREG] = {ANY, ""},
    [LANE_TMEM_COMMIT] = {ANY, "a"},
    [LANE_TMEM_ALLOC] = {ANY, "a"},
    [LANE_TMEM_RELINQUISH] = {ANY, ""},
    [LANE_TMEM_DEALLOC] = {ANY, "w"},
    [LANE_TMEM_MMA] = {PRODUCTS, "wwwp"},
    [LANE_TMEM_LD] = {ANY, "w"},
    [LANE_TMEM_ST] = {ANY, "w"},
    [LANE_TMEM_WAIT_LD] = {ANY, "w"},
    [LANE_TMEM_WAIT_ST] = {ANY, ""},
    [LANE_TMEM_FENCE_BEFORE] = {ANY, ""},
    [LANE_TMEM_FENCE_AFTER] = {ANY, ""},
    [LANE_BARRIER] = {ANY, ""},
    [LANE_BARRIER_ARRIVE] = {ANY, ""},
    [LANE_CLUSTER_BARRIER] = {ANY, ""},
    [LANE_FENCE] = {ANY, ""},
    [LANE_GRID_WAIT] = {ANY, ""},
    [LANE_FOR] = {INTS, "kkk*"},
    [LANE_WHILE] = {ANY, "*"},
    [LANE_IF] = {ANY, "p"},
    [LANE_YIELD] = {ANY, "*"},
    [LANE_CONDITION] = {ANY, "p*"},
    [LANE_RECORD_OPEN] = {ANY, "aw"},
    [LANE_RECORD] = {ANY, ""},
    [LANE_RECORD_CLOSE] = {ANY, ""},
    [LANE_EXIT] = {ANY, ""},
    [LANE_TRAP] = {ANY, ""},
    [LANE_ASM] = {ANY, "*"},
};

static void check_operands(Verifier *v, const LaneOp *op) {
  const Rule *rule = &rules[op->code];
  if (op->kind < 0 || op->kind >= LK_COUNT || !(rule->kinds & 1u << op->kind))
    wrong(v, op, "no such operation on '%s'", op->kind < LK_COUNT ? lane_kind_info[op->kind].name : "?");
  LaneType own = lane_kind_info[op->kind].type;
  const char *letter = rule->in;
  for (int i = 0; i < op->in_count; i++) {
    const LaneValue *x = op->in[i];
    if (!x || x->id < 0 || x->id >= v->f->value_count || v->visible[x->id] != x)
      wrong(v, op, "operand %d is not defined above", i);
    if (x->def && x->def->code == LANE_TMEM_LD && op->code != LANE_TMEM_WAIT_LD)
      wrong(v, op, "operand %d is a load from tensor memory that nobody has waited for", i);
    LaneType want = own;
    switch (*letter) {
      case '*': want = x->type; break;
      case 'p': want = LT_PRED; break;
      case 'w': want = LT_B32; break;
      case 'm': want = lane_kind_info[lane_mma_sum(op->kind)].type; break;
      case '/': want = own == LT_B64 ? LT_B32 : LT_B16; break;
      case 'g': want = LT_B64; break;
      case 'a': want = op->space == SPACE_SHARED ? LT_B32 : LT_B64; break;
      default: break;
    }
    if (x->type != want) wrong(v, op, "operand %d is %s, not %s", i, type_name(x->type), type_name(want));
    if (*letter && letter[1]) letter++;
  }
  if (!op->guard) return;
  const LaneValue *g = op->guard;
  if (g->id < 0 || g->id >= v->f->value_count || v->visible[g->id] != g) wrong(v, op, "the guard is not defined above");
  if (g->type != LT_PRED) wrong(v, op, "the guard is %s, not pred", type_name(g->type));
  LaneEffect effect = lane_info[op->code].effect;
  if (effect != LE_READ && effect != LE_WRITE && effect != LE_SIDE && op->code != LANE_STMATRIX)
    wrong(v, op, "it cannot have a guard");
}

static void check_counts(Verifier *v, const LaneOp *op) {
  const LaneInfo *info = &lane_info[op->code];
  if (op->in_count < info->min_in || (info->max_in >= 0 && op->in_count > info->max_in))
    wrong(v, op, "it has %d operands", op->in_count);
  if (op->out_count < info->min_out || (info->max_out >= 0 && op->out_count > info->max_out))
    wrong(v, op, "it has %d results", op->out_count);
  for (int i = 0; i < 2; i++)
    if ((op->body[i] != NULL) != (i < info->regions)) wrong(v, op, "it has %s body %d", op->body[i] ? "a" : "no", i);
  struct Attrs *attrs = &v->attrs[op->code];
  if (!attrs->count) attrs->count = 1 + lane_attrs(op->code, attrs->at);
  for (int i = 0; i < attrs->count - 1; i++) {
    const LaneAttr *a = attrs->at[i];
    uint8_t byte = *((const uint8_t *)op + a->offset);
    if (a->kind == LANE_ATTR_WORD && byte >= a->word_count) wrong(v, op, "%s is %d", a->name, byte);
    if (a->kind == LANE_ATTR_TO && (op->to <= LK_NONE || op->to >= LK_COUNT)) wrong(v, op, "it does not say to what");
  }
}

/* ---- results and attributes -------------------------------------------------------------------------------------- */

static void check_results(Verifier *v, const LaneOp *op) {
  LaneType type;
  if (op->code == LANE_UNPACK) {
    for (int i = 0; i < 2; i++)
      if (op->out[i]->type != (op->kind == LK_B64 ? LT_B32 : LT_B16))
        wrong(v, op, "result %d is %s", i, type_name(op->out[i]->type));
  } else if (op->out_count && lane_result_type(op, &type)) {
    for (int i = 0; i < op->out_count; i++)
      if (op->out[i]->type != type)
        wrong(v, op, "result %d is %s, not %s", i, type_name(op->out[i]->type), type_name(type));
  }
}

static bool is_power(int n) { return n > 0 && (n & (n - 1)) == 0; }

static void check_offset(Verifier *v, const LaneOp *op) {
  if (op->imm > INT32_MAX || op->imm < INT32_MIN) wrong(v, op, "the offset does not fit into 32 bits");
  if (op->space == SPACE_SHARED ? op->buffer < -1 || op->buffer >= v->f->buffers.n : op->buffer != -1)
    wrong(v, op, "there is no buffer %d", op->buffer);
}

/* Of n elements; PTX ISA, atom and red. What one generation lacks the printer says. */
static void check_atomic(Verifier *v, const LaneOp *op, int n) {
  static const uint32_t one[] = {
      [RMW_ADD] = WORDS | INTS | FLOATS,
      [RMW_MAX] = WORDS | INTS,
      [RMW_MIN] = WORDS | INTS,
      [RMW_AND] = WORDS | INTS,
      [RMW_OR] = WORDS | INTS,
      [RMW_XOR] = WORDS | INTS,
      [RMW_XCHG] = WORDS | INTS | K(F32) | K(F64),
      [RMW_CAS] = K(B16) | WORDS | INTS | SCALARS,
  };
  static const uint32_t several[] = {
      [RMW_ADD] = K(F32) | NARROW, [RMW_MAX] = NARROW, [RMW_MIN] = NARROW, [RMW_CAS] = 0};
  uint32_t kinds = n > 1 ? several[op->rmw] : one[op->rmw];
  if (!(kinds >> op->kind & 1) || (n > 1 && n * lane_kind_info[op->kind].bits > 128))
    wrong(v, op, "no such atomic operation on %d of %s", n, lane_kind_info[op->kind].name);
}

static void check_memory(Verifier *v, const LaneOp *op) {
  int n = op->code == LANE_LD ? op->out_count : op->in_count - 1, bits = lane_kind_info[op->kind].bits;
  if (op->code == LANE_ATOM && op->rmw == RMW_CAS) {
    if (op->in_count != 3 || op->out_count > 1)
      wrong(v, op, "cas has a value to compare with, one to store, and a result");
    n = 1;
  } else if (op->code == LANE_ATOM && op->out_count && op->out_count != n) {
    wrong(v, op, "it has %d values and %d results", n, op->out_count);
  }
  if (!is_power(n) || n * bits > 256) wrong(v, op, "%d elements of %d bits are no access", n, bits);
  if (op->code == LANE_ATOM) check_atomic(v, op, n);
  if (op->code == LANE_LD && op->in_count != (op->guard ? n + 1 : 1))
    wrong(v, op, "it has %d other values for %d results", op->in_count - 1, op->guard ? n : 0);
  check_offset(v, op);
}

static void check_conversion(Verifier *v, const LaneOp *op) {
  uint32_t to = 1u << op->to, packed = K(E4M3X2) | K(E5M2X2), allowed;
  if (op->code == LANE_CVT) allowed = SMALL | INTS | SCALARS;
  else if (op->code == LANE_CVT2) allowed = K(F16X2) | K(BF16X2) | packed;
  else allowed = op->kind == LK_F16X2 ? packed : K(F16X2);
  if (!(to & allowed))
    wrong(v, op, "no conversion from %s to %s", lane_kind_info[op->kind].name, lane_kind_info[op->to].name);
}

static void check_mma(Verifier *v, const LaneOp *op) {
  if (op->mixed && lane_mma_pack(op->kind) != 2)
    wrong(v, op, "%s is mixed with nothing", lane_kind_info[op->kind].name);
}

static void check_across(Verifier *v, const LaneOp *op) {
  check_mma(v, op);
  if ((op->trans_a || op->trans_b) && lane_mma_pack(op->kind) != 1)
    wrong(v, op, "only operands of 16 bits may lie across");
}

static void check_wgmma(Verifier *v, const LaneOp *op) {
  check_across(v, op);
  int n = 2 * op->out_count, inputs = lane_wgmma_inputs(op);
  if (n % 8 || n > 256) wrong(v, op, "%d columns", n);
  if (inputs != 2 && inputs != 5) wrong(v, op, "%d operands", op->in_count);
}

/* PTX ISA, tcgen05.mma: matrix shapes of one block's products. */
static void check_tmem_mma(Verifier *v, const LaneOp *op) {
  check_across(v, op);
  int step = op->rows == 128 || (lane_mma_sum(op->kind) == LK_S32 && op->columns > 32) ? 16 : 8;
  if (op->rows != 64 && op->rows != 128) wrong(v, op, "%d rows", op->rows);
  if (op->columns < step || op->columns > 256 || op->columns % step) wrong(v, op, "%d columns", op->columns);
}

/* PTX ISA, tcgen05.ld: 1 to 128 neighbours of a row, or 1 to 32 times 8 columns. */
static void check_tmem_access(Verifier *v, const LaneOp *op, int n) {
  if (op->rows != 32 && op->rows != 16) wrong(v, op, "%d rows", op->rows);
  if (!is_power(n) || n > 128 || (op->rows == 16 && n < 4)) wrong(v, op, "%d registers", n);
}

/* Warps that stand here: the block's, or those of its part. */
static int warps_here(const Verifier *v) {
  if (!v->parted) return v->f->num_warps;
  return v->part ? v->f->num_warps - v->parted->warps : v->parted->warps;
}

enum { MOST_BARRIERS = 16 };

static void check_barrier(Verifier *v, const LaneOp *op) {
  bool named = op->code == LANE_BARRIER_ARRIVE || op->warps;
  if (op->warp ? named || op->imm : !named && op->imm) wrong(v, op, "it has number %lld", (long long)op->imm);
  if (!op->warp && !named && v->parted) wrong(v, op, "it is the block's, but only a part of its warps is here");
  if (!named) return;
  if (op->imm < 1 || op->imm >= MOST_BARRIERS) wrong(v, op, "there is no barrier %lld", (long long)op->imm);
  if (op->warps < 1 || op->warps > v->f->num_warps) wrong(v, op, "it is of %d warps", op->warps);
}

static void check_cluster_barrier(Verifier *v, const LaneOp *op) {
  if (v->parted) wrong(v, op, "it is of the block's warps, but only a part of them is here");
  if (v->f->cluster < 2) wrong(v, op, "there is no cluster");
}

/* Of a warpgroup's operation. */
static void check_group(Verifier *v, const LaneOp *op) {
  if (warps_here(v) % 4) wrong(v, op, "%d warps are no warpgroups", warps_here(v));
}

static void check_tensor(Verifier *v, const LaneOp *op) {
  if (op->space != SPACE_SHARED) wrong(v, op, "one side is shared memory");
  if (op->multicast >> (v->f->cluster > 1 ? v->f->cluster : 0))
    wrong(v, op, "the cluster has %d blocks", v->f->cluster);
  if (op->code == LANE_TENSOR_RED && (op->rmw > RMW_XOR || op->kind != LK_NONE)) wrong(v, op, "no such reduction");
  check_offset(v, op);
}

static void check_const(Verifier *v, const LaneOp *op) {
  if ((uint64_t)op->imm & ~lane_type_mask(lane_kind_info[op->kind].type))
    wrong(v, op, "the number does not fit into %s", lane_kind_info[op->kind].name);
}

static void check_param(Verifier *v, const LaneOp *op) {
  if (op->imm < 0 || op->imm >= v->f->param_count) wrong(v, op, "there is no parameter %lld", (long long)op->imm);
  if (op->out[0]->type != v->f->params[op->imm]->type)
    wrong(v, op, "the parameter is %s", type_name(v->f->params[op->imm]->type));
}

static void check_buffer(Verifier *v, const LaneOp *op) {
  if (op->buffer < 0 || op->buffer >= v->f->buffers.n) wrong(v, op, "there is no buffer %d", op->buffer);
}

static void check_bits(Verifier *v, const LaneOp *op) {
  int width = lane_kind_info[op->kind].bits;
  if (op->bit >= width || op->bits < 1 || op->bits > width)
    wrong(v, op, "bits [%d, %d + %d) of %d", op->bit, op->bit, op->bits, width);
}

static void check_shuffle(Verifier *v, const LaneOp *op) {
  if (!is_power((int)(op->imm & 63)) || op->imm < 1 || op->imm > 32)
    wrong(v, op, "a segment of %lld lanes", (long long)op->imm);
}

static void check_ldmatrix(Verifier *v, const LaneOp *op) {
  if (op->space != SPACE_SHARED) wrong(v, op, "it reads shared memory only");
  if (!is_power(op->out_count)) wrong(v, op, "%d squares", op->out_count);
  check_offset(v, op);
}

static void check_stmatrix(Verifier *v, const LaneOp *op) {
  if (op->space != SPACE_SHARED) wrong(v, op, "it writes shared memory only");
  if (!is_power(op->in_count - 1)) wrong(v, op, "%d squares", op->in_count - 1);
  check_offset(v, op);
}

static void check_mbar(Verifier *v, const LaneOp *op) {
  if (op->code == LANE_MBAR_WAIT && op->guard) wrong(v, op, "it cannot have a guard");
  if (op->space != SPACE_SHARED) wrong(v, op, "an mbarrier is in shared memory");
  if (op->imm % 8) wrong(v, op, "an mbarrier is aligned to 8 bytes");
  if (op->code == LANE_MBAR_ARRIVE && op->in_count > 1 && v->f->cluster < 2) wrong(v, op, "there is no cluster");
  check_offset(v, op);
}

static void check_tmem_columns(Verifier *v, const LaneOp *op) {
  if (op->code == LANE_TMEM_ALLOC) {
    if (op->space != SPACE_SHARED) wrong(v, op, "the address goes to shared memory");
    check_offset(v, op);
  }
  if (!is_power(op->columns) || op->columns < 32 || op->columns > 512) wrong(v, op, "%d columns", op->columns);
}

static void check_tmem_ld(Verifier *v, const LaneOp *op) { check_tmem_access(v, op, op->out_count); }
static void check_tmem_st(Verifier *v, const LaneOp *op) { check_tmem_access(v, op, op->in_count - 1); }

static void check_setmaxnreg(Verifier *v, const LaneOp *op) {
  if (op->imm < 24 || op->imm > 256 || op->imm % 8) wrong(v, op, "%lld registers", (long long)op->imm);
  check_group(v, op);
}

static void check_handed_on(Verifier *v, const LaneOp *op) {
  if (op->in_count != op->out_count) wrong(v, op, "%d operands and %d results", op->in_count, op->out_count);
}

static void check_cp_async(Verifier *v, const LaneOp *op) {
  if (op->space != SPACE_SHARED) wrong(v, op, "it writes shared memory");
  if (op->bits != 32 && op->bits != 64 && op->bits != 128) wrong(v, op, "a copy of %d bits", op->bits);
  check_offset(v, op);
}

static void check_warpgroup_mma(Verifier *v, const LaneOp *op) {
  check_wgmma(v, op);
  check_group(v, op);
}

/* Of the block's threads each waits, before anybody reaches global memory. */
static void check_grid_wait(Verifier *v, const LaneOp *op) {
  if (op->block != v->f->body) wrong(v, op, "not every thread comes to it");
}

static void check_redux(Verifier *v, const LaneOp *op) {
  if (op->rmw > RMW_XOR) wrong(v, op, "no such reduction");
}

static void check_asm(Verifier *v, const LaneOp *op) {
  if (!op->text) wrong(v, op, "it has no text");
}

/* What is asked of the attributes of an operation, beyond its rule. */
static void (*const attr_checks[LANE_COUNT])(Verifier *v, const LaneOp *op) = {
    [LANE_CONST] = check_const,
    [LANE_PARAM] = check_param,
    [LANE_SHARED] = check_buffer,
    [LANE_SHARED_READ] = check_buffer,
    [LANE_BFE] = check_bits,
    [LANE_BFI] = check_bits,
    [LANE_CVT] = check_conversion,
    [LANE_CVT2] = check_conversion,
    [LANE_CVT1X2] = check_conversion,
    [LANE_LD] = check_memory,
    [LANE_ST] = check_memory,
    [LANE_ATOM] = check_memory,
    [LANE_SHFL] = check_shuffle,
    [LANE_LDMATRIX] = check_ldmatrix,
    [LANE_STMATRIX] = check_stmatrix,
    [LANE_MMA] = check_mma,
    [LANE_WGMMA] = check_warpgroup_mma,
    [LANE_WGMMA_WAIT] = check_handed_on,
    [LANE_MBAR_INIT] = check_mbar,
    [LANE_MBAR_ARRIVE] = check_mbar,
    [LANE_MBAR_EXPECT] = check_mbar,
    [LANE_MBAR_WAIT] = check_mbar,
    [LANE_TENSOR_LOAD] = check_tensor,
    [LANE_TENSOR_STORE] = check_tensor,
    [LANE_TENSOR_RED] = check_tensor,
    [LANE_TMEM_COMMIT] = check_mbar,
    [LANE_TMEM_ALLOC] = check_tmem_columns,
    [LANE_TMEM_DEALLOC] = check_tmem_columns,
    [LANE_TMEM_MMA] = check_tmem_mma,
    [LANE_TMEM_LD] = check_tmem_ld,
    [LANE_TMEM_ST] = check_tmem_st,
    [LANE_TMEM_WAIT_LD] = check_handed_on,
    [LANE_SETMAXNREG] = check_setmaxnreg,
    [LANE_BARRIER] = check_barrier,
    [LANE_BARRIER_ARRIVE] = check_barrier,
    [LANE_CLUSTER_BARRIER] = check_cluster_barrier,
    [LANE_CP_ASYNC] = check_cp_async,
    [LANE_GRID_WAIT] = check_grid_wait,
    [LANE_REDUX] = check_redux,
    [LANE_ASM] = check_asm,
};

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void define(Verifier *v, const LaneOp *op, const LaneValue *x, const LaneOp *def, int index) {
  if (!x || x->id < 0 || x->id >= v->f->value_count) wrong(v, op, "a value without a number");
  if (v->seen[x->id]) wrong(v, op, "value %d is defined twice", x->id);
  if (x->def != def || x->index != index) wrong(v, op, "value %d does not know where it is defined", x->id);
  if (x->type > LT_B64) wrong(v, op, "value %d has no type", x->id);
  v->seen[x->id] = v->visible[x->id] = x;
}

static void check_block(Verifier *v, const LaneBlock *block);

static bool same_everywhere(const LaneValue *x) {
  return x->def ? x->def->code == LANE_CONST || x->def->code == LANE_PARAM : !x->block->parent;
}

static bool is_uniform(const LaneOp *op) {
  if (op->uniform) return true;
  if (op->code == LANE_FOR)
    return same_everywhere(op->in[0]) && same_everywhere(op->in[1]) && same_everywhere(op->in[2]);
  return op->code == LANE_IF && same_everywhere(op->in[0]);
}

/* What a body hands on, from operand `first` of its end, must fit these values. */
static void check_end(Verifier *v, const LaneOp *op, int body, LaneCode code, int first, LaneValue *const *to, int n) {
  const LaneOp *end = op->body[body]->last;
  if (!end || end->code != code) wrong(v, op, "body %d does not end in %s", body, lane_info[code].name);
  if (end->in_count != n + first) wrong(v, end, "it hands on %d values, not %d", end->in_count - first, n);
  for (int i = 0; i < n; i++)
    if (end->in[i + first]->type != to[i]->type)
      wrong(v, end, "value %d is %s, not %s", i, type_name(end->in[i + first]->type), type_name(to[i]->type));
}

static void check_args(Verifier *v, const LaneOp *op, int body, int first, LaneValue *const *from, int n) {
  const LaneBlock *b = op->body[body];
  if (b->arg_count != n + first) wrong(v, op, "body %d has %d arguments, not %d", body, b->arg_count, n + first);
  for (int i = 0; i < n; i++)
    if (b->args[i + first]->type != from[i]->type)
      wrong(v, op, "argument %d of body %d is %s, not %s", i + first, body, type_name(b->args[i + first]->type),
            type_name(from[i]->type));
}

static void check_control(Verifier *v, const LaneOp *op) {
  int n = op->out_count;
  switch (op->code) {
    case LANE_FOR:
      if (op->in_count != n + 3) wrong(v, op, "it carries %d values in and %d out", op->in_count - 3, n);
      check_args(v, op, 0, 1, op->in + 3, n);
      if (op->body[0]->args[0]->type != op->in[0]->type)
        wrong(v, op, "its counter is %s", type_name(op->body[0]->args[0]->type));
      check_args(v, op, 0, 1, op->out, n);
      break;
    case LANE_WHILE:
      if (op->in_count != n) wrong(v, op, "it carries %d values in and %d out", op->in_count, n);
      check_args(v, op, 0, 0, op->in, n);
      check_args(v, op, 1, 0, op->out, n);
      for (int i = 0; i < n; i++)
        if (op->in[i]->type != op->out[i]->type)
          wrong(v, op, "result %d is %s, not %s", i, type_name(op->out[i]->type), type_name(op->in[i]->type));
      break;
    default: check_args(v, op, 0, 0, NULL, 0); check_args(v, op, 1, 0, NULL, 0);
  }
  bool parts = op->code == LANE_IF && op->warps;
  if (parts && (v->parted || v->divergent || op->out_count || op->warps >= v->f->num_warps))
    wrong(v, op, "it cannot part the block here, or so");
  bool uniform = parts || is_uniform(op);
  v->divergent += !uniform;
  if (parts) v->parted = op;
  for (int i = 0; i < 2; i++) {
    LaneBlock *body = op->body[i];
    if (!body) continue;
    if (parts) v->part = i;
    if (body->parent != op) wrong(v, op, "body %d does not know its operation", i);
    for (int j = 0; j < body->arg_count; j++) {
      if (body->args[j]->block != body) wrong(v, op, "argument %d of body %d does not know its block", j, i);
      define(v, op, body->args[j], NULL, j);
    }
    check_block(v, body);
    for (int j = 0; j < body->arg_count; j++) v->visible[body->args[j]->id] = NULL;
  }
  v->divergent -= !uniform;
  if (parts) v->parted = NULL;
  if (op->code == LANE_WHILE) {
    check_end(v, op, 0, LANE_CONDITION, 1, op->out, n);
    check_end(v, op, 1, LANE_YIELD, 0, op->out, n);
  } else {
    check_end(v, op, 0, LANE_YIELD, 0, op->out, n);
    if (op->code == LANE_IF) check_end(v, op, 1, LANE_YIELD, 0, op->out, n);
  }
}

static void check_block(Verifier *v, const LaneBlock *block) {
  stack_guard();
  const LaneOp *before = NULL;
  for (const LaneOp *op = block->first; op; before = op, op = op->next) {
    if (op->block != block || op->prev != before) wrong(v, op, "it is not linked into its block");
    check_counts(v, op);
    check_operands(v, op);
    check_results(v, op);
    if (attr_checks[op->code]) attr_checks[op->code](v, op);
    LaneEffect effect = lane_info[op->code].effect;
    if (effect == LE_TERMINATOR && (op->next || !block->parent)) wrong(v, op, "it does not end a body");
    if (effect == LE_CONVERGED && v->divergent) wrong(v, op, "it stands under control that is not uniform");
    if (effect == LE_CONTROL) check_control(v, op);
    for (int i = 0; i < op->out_count; i++) define(v, op, op->out[i], op, i);
  }
  if (block->last != before) wrong(v, before, "it is not the last of its block");
  for (const LaneOp *op = block->first; op; op = op->next)
    for (int i = 0; i < op->out_count; i++) v->visible[op->out[i]->id] = NULL;
}

void lane_verify(LaneFunc *f, const char *after) {
  Verifier v = {.f = f, .after = after ? after : "building"};
  if (f->num_warps < 1 || f->num_warps > 32) wrong(&v, NULL, "%d warps", f->num_warps);
  if (f->hidden_params < 0 || f->hidden_params > f->param_count)
    wrong(&v, NULL, "%d hidden parameters of %d", f->hidden_params, f->param_count);
  if (f->maps < 0 || f->maps > f->hidden_params)
    wrong(&v, NULL, "%d maps of %d hidden parameters", f->maps, f->hidden_params);
  for (int i = 0; i < f->buffers.n; i++)
    if (f->buffers.at[i].bytes < 0 || !is_power(f->buffers.at[i].align))
      wrong(&v, NULL, "buffer %d has %d bytes, aligned to %d", i, f->buffers.at[i].bytes, f->buffers.at[i].align);
  v.visible = NEW_N(f->cx->arena, const LaneValue *, f->value_count);
  v.seen = NEW_N(f->cx->arena, const LaneValue *, f->value_count);
  v.attrs = NEW_N(f->cx->arena, struct Attrs, LANE_COUNT);
  for (int i = 0; i < f->param_count; i++) {
    const Type *t = f->param_types[i];
    if (t && (t->rank || lane_type_of(t) != f->params[i]->type))
      wrong(&v, NULL, "parameter %d is %s", i, type_name(f->params[i]->type));
    define(&v, NULL, f->params[i], NULL, i);
  }
  check_block(&v, f->body);
  lane_verify_products(f, v.after);
}
