/* Memory, and what threads tell one another: ld, st, atom and red, shfl, vote, redux, bar, fence, and inline assembly.
 *
 *     @%p1 ld.global.L1::evict_first.L2::cache_hint.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16], %rd2;
 *     red.relaxed.gpu.global.add.f32 [%rd1], %r1;
 *
 * A guarded load first sets its registers to what a lane that does not load gets. Shared buffers have fixed places in
 * the block's dynamic memory, so an address that is one of them is written as such: [$shared+1024]. A cache operator
 * (.cg) and a priority (L1::evict_first) cannot stand together; the operator wins. A priority stands for both caches;
 * L2's is a policy in a register, made where the kernel begins. Predicates are a byte in memory.
 */
#include "gpu/ptx/ptx.h"

static NORETURN void cannot(Ptx *p, const LaneOp *op, const char *what) {
  diag_fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no %s", p->target->name, what);
}

/* ---- addresses and names ----------------------------------------------------------------------------------------- */

/* "[%rd1+16]" */
Arg ptx_address(Ptx *p, const LaneOp *op) {
  const LaneValue *v = ptx_value(p, op->in[0]);
  int64_t offset = op->imm;
  Arg a = ptx_text("["), at;
  if (v->def && v->def->code == LANE_SHARED) {
    strcat(a.s, "$shared");
    offset += p->f->buffers.at[v->def->buffer].offset;
  } else if (offset != (int32_t)offset) {
    Arg base = ptx_reg(p, v);
    at = ptx_fresh(p, v->type);
    ptx_open(p, NULL, v->type == LT_B64 ? "add.s64" : "add.s32");
    ptx_args_of(p, at, base, ptx_int(v->type == LT_B64 ? offset : (int32_t)offset));
    strcat(a.s, at.s);
    offset = 0;
  } else {
    strcat(a.s, ptx_reg(p, v).s);
  }
  if (offset) {
    strcat(a.s, "+");
    strcat(a.s, ptx_int(offset).s);
  }
  strcat(a.s, "]");
  return a;
}

static const char *space_name(const LaneOp *op) { return op->space == SPACE_SHARED ? ".shared" : ".global"; }

/* The type in ld and st: bits, but small integers, which extend. */
static const char *memory_name(LaneKind k) {
  switch (k) {
    case LK_PRED:
    case LK_U8: return "u8";
    case LK_S8: return "s8";
    case LK_U16: return "u16";
    case LK_S16: return "s16";
    default: return ptx_type_name(lane_kind_info[k].type);
  }
}

static const char *vector_name(int n) { return n == 1 ? "." : n == 2 ? ".v2." : n == 4 ? ".v4." : ".v8."; }

static void check_vector(Ptx *p, const LaneOp *op, int n) {
  int bytes = n * lane_kind_info[op->kind].bits / 8,
      most = op->space == SPACE_SHARED ? 16 : p->target->max_vector_bytes;
  bool eight = n == 8 && lane_kind_info[op->kind].bits == 32; /* .v8.b8 and .v8.b16 crash the assembler */
  if ((n != 1 && n != 2 && n != 4 && !eight) || bytes > most)
    diag_fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no access of %d elements of %s at once", p->target->name,
              n, lane_kind_info[op->kind].name);
}

static void put_group(Ptx *p, int n, const Arg *regs) {
  for (int i = 0; i < n; i++) {
    put(p, i ? ", " : "{");
    put(p, regs[i].s);
  }
  put(p, "}");
}

static void put_vector(Ptx *p, int n, const Arg *regs) {
  if (n > 1) put_group(p, n, regs);
  else put(p, regs[0].s);
}

/* "ld.global.cg", and so on; the register of the access's policy, or NULL. */
static const Arg *put_hints(Ptx *p, const LaneOp *op, const char *what) {
  static const char *const caches[] = {"", ".ca", ".cg", ".cs", ".cv", ".wb", ".wt"};
  static const char *const priorities[] = {"", ".L1::evict_first.L2::cache_hint", ".L1::evict_last.L2::cache_hint",
                                           ".L2::cache_hint", ".L1::no_allocate"};
  static const char *const policies[] = {"", "createpolicy.fractional.L2::evict_first.b64",
                                         "createpolicy.fractional.L2::evict_last.b64"};
  static const uint8_t policy_of[] = {0, 1, 2, 2, 0};
  bool load = op->code == LANE_LD, hints = op->space == SPACE_GLOBAL && !op->is_volatile;
  bool fits = op->cache == CACHE_CG || op->cache == CACHE_CS ||
              (load ? op->cache == CACHE_CA || op->cache == CACHE_CV : op->cache == CACHE_WB || op->cache == CACHE_WT);
  int number = hints && !fits ? policy_of[op->evict] : 0;
  Arg *policy = number ? &p->policy[number] : NULL;
  if (policy && !*policy->s) {
    Buf *before = p->out;
    *policy = ptx_fresh(p, LT_B64);
    p->out = &p->entry;
    ptx_open(p, NULL, policies[number]);
    ptx_args_of(p, *policy, ptx_text("1.0"));
    p->out = before;
  }
  ptx_open(p, op, what);
  put(p, space_name(op));
  if (hints) put(p, fits ? caches[op->cache] : priorities[op->evict]);
  return policy;
}

static void put_policy(Ptx *p, const Arg *policy) {
  if (policy) put(p, ", "), put(p, policy->s);
  put(p, ";\n");
}

/* ---- loads and stores -------------------------------------------------------------------------------------------- */

void ptx_load(Ptx *p, const LaneOp *op) {
  int n = op->out_count;
  check_vector(p, op, n);
  LaneType t = op->out[0]->type;
  Arg regs[8], from = ptx_address(p, op);
  for (int i = 0; i < n; i++) regs[i] = op->kind == LK_PRED ? ptx_fresh(p, LT_B32) : ptx_reg(p, op->out[i]);
  if (op->guard)
    for (int i = 0; i < n; i++) {
      const LaneValue *other = i + 1 < op->in_count ? op->in[i + 1] : NULL;
      if (op->kind != LK_PRED) {
        ptx_move(p, t, NULL, regs[i], other ? ptx_arg(p, other, lane_bits_kind(t)) : ptx_int(0));
      } else if (other) {
        Arg o = ptx_reg(p, other);
        ptx_open(p, NULL, "selp.b32");
        ptx_args_of(p, regs[i], ptx_int(1), ptx_int(0), o);
      } else {
        ptx_move(p, LT_B32, NULL, regs[i], ptx_int(0));
      }
    }
  const Arg *policy = put_hints(p, op, op->is_volatile ? "ld.volatile" : "ld");
  put(p, vector_name(n));
  put(p, memory_name(op->kind));
  put(p, " ");
  put_vector(p, n, regs);
  put(p, ", ");
  put(p, from.s);
  put_policy(p, policy);
  if (op->kind != LK_PRED) return;
  for (int i = 0; i < n; i++) {
    Arg d = ptx_reg(p, op->out[i]);
    ptx_open(p, NULL, "setp.ne.b32");
    ptx_args_of(p, d, regs[i], ptx_int(0));
  }
}

void ptx_store(Ptx *p, const LaneOp *op) {
  int n = op->in_count - 1;
  check_vector(p, op, n);
  Arg regs[8], to = ptx_address(p, op);
  for (int i = 0; i < n; i++) {
    const LaneValue *v = op->in[i + 1];
    if (op->kind == LK_PRED) {
      Arg bit = ptx_reg(p, v);
      regs[i] = ptx_fresh(p, LT_B32);
      ptx_open(p, NULL, "selp.b32");
      ptx_args_of(p, regs[i], ptx_int(1), ptx_int(0), bit);
    } else {
      /* vectors take registers only */
      regs[i] = n > 1 || v->type == LT_B16 ? ptx_reg(p, v) : ptx_arg(p, v, lane_bits_kind(v->type));
    }
  }
  const Arg *policy = put_hints(p, op, op->is_volatile ? "st.volatile" : "st");
  put(p, vector_name(n));
  put(p, memory_name(op->kind));
  put(p, " ");
  put(p, to.s);
  put(p, ", ");
  put_vector(p, n, regs);
  put_policy(p, policy);
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

static const char *rmw_name(int rmw) {
  static const char *const names[] = {"add", "max", "min", "and", "or", "xor", "exch", "cas"};
  return names[rmw];
}

static const char *atomic_type(const LaneOp *op) {
  LaneKind k = op->kind;
  bool bits = op->rmw >= RMW_AND;
  if (bits) return ptx_type_name(lane_kind_info[k].type);
  if (k == LK_B32) return "u32";
  if (k == LK_B64 || (k == LK_S64 && op->rmw == RMW_ADD)) return "u64";
  return lane_kind_info[k].name;
}

void ptx_atomic(Ptx *p, const LaneOp *op) {
  static const char *const sems[] = {".acq_rel", ".acquire", ".release", ".relaxed"};
  static const char *const scopes[] = {".gpu", ".cta", ".sys"};
  bool cas = op->rmw == RMW_CAS;
  int values = op->in_count - 1, n = cas ? 1 : values;
  /* Without a result it is red, which has no exch, no cas and no acquire; the others drop the result. */
  bool red = !op->out_count && op->rmw < RMW_XCHG && (op->sem == SEM_RELEASE || op->sem == SEM_RELAXED);
  LaneKind k = op->kind;
  bool half = k == LK_F16 || k == LK_F16X2 || k == LK_BF16 || k == LK_BF16X2, add_half = half && op->rmw <= RMW_MIN;
  if (n > 1 && (!p->target->has_vector_atomics || op->space != SPACE_GLOBAL))
    cannot(p, op, "atomic operation on several elements at once");
  if ((k == LK_BF16 || k == LK_BF16X2) && op->rmw <= RMW_MIN && !p->target->has_bf16_atomics)
    cannot(p, op, "atomic addition of bf16");
  Arg at = ptx_address(p, op), regs[8], results[8];
  for (int i = 0; i < values; i++)
    regs[i] = n > 1 || op->in[i + 1]->type == LT_B16
                  ? ptx_reg(p, op->in[i + 1])
                  : ptx_arg(p, op->in[i + 1], op->rmw >= RMW_AND ? lane_bits_kind(op->in[i + 1]->type) : k);
  for (int i = 0; i < n; i++) /* of halves, _ crashes ptxas 13.0 */
    results[i] = op->out_count ? ptx_reg(p, op->out[i]) : half ? ptx_fresh(p, lane_kind_info[k].type) : ptx_text("_");
  ptx_open(p, op, red ? "red" : "atom");
  put(p, space_name(op));
  put(p, sems[op->sem]);
  put(p, scopes[op->scope]);
  put(p, ".");
  put(p, rmw_name(op->rmw));
  if (add_half) put(p, ".noftz");
  put(p, vector_name(n));
  put(p, atomic_type(op));
  put(p, " ");
  if (!red) {
    put_vector(p, n, results);
    put(p, ", ");
  }
  put(p, at.s);
  put(p, ", ");
  if (cas) {
    put(p, regs[0].s);
    put(p, ", ");
    put(p, regs[1].s);
  } else {
    put_vector(p, n, regs);
  }
  put(p, ";\n");
}

/* ---- between lanes ----------------------------------------------------------------------------------------------- */

void ptx_shuffle(Ptx *p, const LaneOp *op) {
  static const char *const names[] = {"shfl.sync.bfly.b32", "shfl.sync.up.b32", "shfl.sync.down.b32",
                                      "shfl.sync.idx.b32"};
  int width = op->imm ? (int)op->imm : 32;
  Arg d = ptx_reg(p, op->out[0]), x = ptx_reg(p, op->in[0]), lane = ptx_arg(p, op->in[1], LK_U32);
  p->shuffles++;
  ptx_open(p, NULL, names[op->shuffle]);
  ptx_args_of(p, d, x, lane, ptx_int((32 - width) << 8 | (op->shuffle == SHUFFLE_UP ? 0 : 31)), ptx_int(-1));
}

void ptx_ldmatrix(Ptx *p, const LaneOp *op) {
  int n = op->out_count;
  Arg regs[4], from = ptx_address(p, op);
  for (int i = 0; i < n; i++) regs[i] = ptx_reg(p, op->out[i]);
  ptx_open(p, NULL, "ldmatrix.sync.aligned.m8n8.x");
  put(p, ptx_int(n).s);
  put(p, op->trans ? ".trans.shared.b16 " : ".shared.b16 ");
  put_group(p, n, regs);
  put(p, ", ");
  put(p, from.s);
  put(p, ";\n");
}

void ptx_stmatrix(Ptx *p, const LaneOp *op) {
  int n = op->in_count - 1;
  Arg regs[4], to = ptx_address(p, op);
  for (int i = 0; i < n; i++) regs[i] = ptx_reg(p, op->in[1 + i]);
  ptx_open(p, op, "stmatrix.sync.aligned.m8n8.x");
  put(p, ptx_int(n).s);
  put(p, op->trans ? ".trans.shared.b16 " : ".shared.b16 ");
  put(p, to.s);
  put(p, ", ");
  put_group(p, n, regs);
  put(p, ";\n");
}

/* As products name the type of their operands. */
const char *ptx_mma_type(LaneKind k) {
  switch (k) {
    case LK_F32: return "tf32";
    case LK_E4M3X2: return "e4m3";
    case LK_E5M2X2: return "e5m2";
    default: return lane_kind_info[k].name;
  }
}

/* Before sm_90 products of f64 are of 8 by 8 by 4: two of rows, one after the other of k's. */
static void mma_f64_by_quarters(Ptx *p, const Arg *d, const Arg *a, const Arg *x, const Arg *c) {
  for (int k = 0; k < 2; k++)
    for (int row = 0; row < 2; row++) {
      ptx_open(p, NULL, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 ");
      put_group(p, 2, d + 2 * row);
      put(p, ", ");
      put_group(p, 1, a + row + 2 * k);
      put(p, ", ");
      put_group(p, 1, x + k);
      put(p, ", ");
      put_group(p, 2, (k ? d : c) + 2 * row);
      put(p, ";\n");
    }
}

void ptx_mma(Ptx *p, const LaneOp *op) {
  Arg regs[14];
  for (int i = 0; i < 4; i++) regs[i] = ptx_reg(p, op->out[i]);
  for (int i = 0; i < 10; i++) regs[4 + i] = ptx_reg(p, op->in[i]);
  if (op->kind == LK_E4M3X2 || op->kind == LK_E5M2X2) {
    if (p->target->sm < 89) cannot(p, op, "mma of fp8");
    if (strcmp(p->version, "8.4") < 0) p->version = "8.4";
  }
  if (op->kind == LK_F64 && p->target->sm < 90) {
    mma_f64_by_quarters(p, regs, regs + 4, regs + 8, regs + 10);
    return;
  }
  const char *types[] = {lane_kind_info[lane_mma_sum(op->kind)].name, ptx_mma_type(op->kind),
                         ptx_mma_type(lane_mma_other(op))};
  ptx_open(p, NULL, "mma.sync.aligned.m16n8k");
  ptx_put_int(p, 8 << lane_mma_pack(op->kind));
  put(p, ".row.col");
  for (int i = 0; i < 4; i++) {
    put(p, ".");
    put(p, types[i % 3]);
  }
  put(p, " ");
  static const int first[] = {0, 4, 8, 10, 14};
  for (int i = 0; i < 4; i++) {
    put_group(p, first[i + 1] - first[i], regs + first[i]);
    put(p, i < 3 ? ", " : ";\n");
  }
}

void ptx_vote(Ptx *p, const LaneOp *op) {
  static const char *const names[] = {"vote.sync.any.pred", "vote.sync.all.pred", "vote.sync.ballot.b32"};
  Arg d = ptx_reg(p, op->out[0]), x = ptx_reg(p, op->in[0]);
  ptx_open(p, NULL, names[op->vote]);
  ptx_args_of(p, d, x, ptx_int(-1));
}

void ptx_redux(Ptx *p, const LaneOp *op) {
  bool floating = op->kind == LK_F32;
  if (floating && !p->target->has_redux_f32) cannot(p, op, "redux of f32");
  Arg d = ptx_reg(p, op->out[0]), x = ptx_reg(p, op->in[0]);
  ptx_open(p, NULL, "redux.sync.");
  put(p, rmw_name(op->rmw));
  if (floating && op->nan) put(p, ".NaN");
  put(p, ".");
  put(p, op->rmw >= RMW_AND ? "b32" : floating ? "f32" : op->kind == LK_S32 ? "s32" : "u32");
  ptx_args_of(p, d, x, ptx_int(-1));
}

void ptx_barrier(Ptx *p, const LaneOp *op) {
  if (op->warp || p->f->num_warps == 1) {
    ptx_open(p, NULL, "bar.warp.sync");
    ptx_args_of(p, ptx_int(-1));
  } else if (op->warps) {
    p->barriers++;
    ptx_open(p, NULL, op->code == LANE_BARRIER_ARRIVE ? "bar.arrive" : "bar.sync");
    ptx_args_of(p, ptx_int(op->imm), ptx_int(32 * op->warps));
  } else {
    p->barriers++;
    ptx_open(p, NULL, "bar.sync");
    ptx_args_of(p, ptx_int(0));
  }
}

void ptx_fence(Ptx *p, const LaneOp *op) {
  static const char *const names[] = {"fence.acq_rel.gpu", "fence.acq_rel.cta", "fence.acq_rel.sys"};
  if (op->sem == SEM_RELAXED) return; /* orders nothing */
  ptx_open(p, op, names[op->scope]);
  ptx_args(p, 0, NULL);
}

/* ---- inline assembly --------------------------------------------------------------------------------------------- */

/* $0, $1, ... are results, then operands; ${0} the same; $$ a dollar sign. */
void ptx_asm(Ptx *p, const LaneOp *op) {
  int n = op->out_count + op->in_count;
  Arg *regs = NEW_N(p->cx->arena, Arg, n + 1);
  for (int i = 0; i < op->out_count; i++) regs[i] = ptx_reg(p, op->out[i]);
  for (int i = 0; i < op->in_count; i++) regs[op->out_count + i] = ptx_reg(p, op->in[i]);
  if (op->guard) diag_fail(p->cx, op->span ? *op->span : (Span){0}, "inline assembly cannot be guarded");
  put(p, "\t");
  char last = 0;
  for (const char *c = op->text; *c; c++) {
    if (c[0] == '/' && (c[1] == '/' || c[1] == '*')) { /* comments go: what ends the text must not be in one */
      c += c[1] == '/' ? strcspn(c, "\n") : strstr(c + 2, "*/") ? (size_t)(strstr(c + 2, "*/") - c) + 2 : strlen(c);
      c--;
      continue;
    }
    if (*c != '$') {
      buf_putc(p->out, *c);
      if (!strchr(" \t\r\n", *c)) last = *c;
      continue;
    }
    bool braces = c[1] == '{';
    const char *at = c + 1 + braces;
    if (*at == '$' && !braces) {
      buf_putc(p->out, '$');
      last = *(c = at);
      continue;
    }
    int number = 0, length = 0;
    while (at[length] >= '0' && at[length] <= '9' && length < 4) number = 10 * number + at[length++] - '0';
    if (!length || (braces && at[length] != '}'))
      diag_fail_hint(p->cx, op->span ? *op->span : (Span){0}, "write $$ for a dollar sign",
                     "the assembly has a $ that no number follows");
    if (number >= n)
      diag_fail(p->cx, op->span ? *op->span : (Span){0}, "the assembly names $%d, but there are %d operands", number,
                n);
    put(p, regs[number].s);
    c = at + length - 1 + braces;
    last = '0';
  }
  if (last && last != ';' && last != '}') put(p, ";");
  put(p, "\n");
}
