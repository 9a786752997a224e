/* Tensor memory and products that add to it (sm_100a; PTX ISA, tcgen05).
 *
 *     tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 256;
 *     tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd1, %rd2, %r3, %p1;
 *     tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];
 *     tcgen05.ld.sync.aligned.32x32b.x32.b32 {%r5, ...}, [%r6];
 *
 * The operands' descriptors are wgmma's but for one bit. What wgmma says by its name stands in a word more, the
 * instruction descriptor:
 *
 *     bits 4-5  sums        1 f32, 2 s32              15, 16    a's, b's k's are rows in memory
 *     bits 7-9  a's type    f16 0, bf16 1; tf32 2;    17-22     columns / 8
 *     10-12     b's type    e4m3 0, e5m2 1; u8 0, s8 1    24-28     rows / 16
 */
#include "gpu/ptx/ptx.h"

static uint32_t type_code(LaneKind k) {
  switch (k) {
    case LK_BF16:
    case LK_E5M2X2:
    case LK_S8: return 1;
    case LK_F32: return 2;
    default: return 0;
  }
}

static uint32_t instruction_descriptor(const LaneOp *op) {
  uint32_t sums = lane_mma_sum(op->kind) == LK_S32 ? 2 : 1;
  return sums << 4 | type_code(op->kind) << 7 | type_code(lane_mma_other(op)) << 10 | (uint32_t)op->trans_a << 15 |
         (uint32_t)op->trans_b << 16 | (uint32_t)op->columns / 8 << 17 | (uint32_t)op->rows / 16 << 24;
}

static const char *kind_name(LaneKind k) {
  switch (k) {
    case LK_F16:
    case LK_BF16: return "f16";
    case LK_F32: return "tf32";
    case LK_S8:
    case LK_U8: return "i8";
    default: return "f8f6f4";
  }
}

static Arg in_brackets(Ptx *p, const LaneValue *at) {
  Arg a = ptx_text("[");
  strcat(strcat(a.s, ptx_reg(p, at).s), "]");
  return a;
}

static void multiply(Ptx *p, const LaneOp *op) {
  uint64_t high = (uint64_t)op->imm;
  bool int8 = lane_mma_sum(op->kind) == LK_S32;
  if (int8 && p->target->sm != 100 && p->target->sm != 110)
    diag_fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no tcgen05.mma of 8-bit integers", p->target->name);
  Arg a = ptx_descriptor(p, op->in[1], (uint32_t)high), x = ptx_descriptor(p, op->in[2], (uint32_t)(high >> 32)),
      how = ptx_word(p, instruction_descriptor(op)), adds = ptx_reg(p, op->in[3]), to = in_brackets(p, op->in[0]);
  ptx_open(p, op, "tcgen05.mma.cta_group::1.kind::");
  put(p, kind_name(op->kind));
  ptx_args_of(p, to, a, x, how, adds);
}

/* "tcgen05.ld.sync.aligned.32x32b.x8.b32" */
static void open_access(Ptx *p, const LaneOp *op, const char *name, int n) {
  ptx_open(p, NULL, name);
  put(p, op->rows == 32 ? ".sync.aligned.32x32b.x" : ".sync.aligned.16x256b.x");
  ptx_put_int(p, op->rows == 32 ? n : n / 4);
  put(p, ".b32 ");
}

static void load(Ptx *p, const LaneOp *op) {
  Arg at = in_brackets(p, op->in[0]);
  open_access(p, op, "tcgen05.ld", op->out_count);
  ptx_put_list(p, op->out_count, op->out);
  put(p, ", ");
  put(p, at.s);
  put(p, ";\n");
}

static void store(Ptx *p, const LaneOp *op) {
  Arg at = in_brackets(p, op->in[0]);
  for (int i = 1; i < op->in_count; i++) ptx_reg(p, op->in[i]); /* constants go to registers before */
  open_access(p, op, "tcgen05.st", op->in_count - 1);
  put(p, at.s);
  put(p, ", ");
  ptx_put_list(p, op->in_count - 1, op->in + 1);
  put(p, ";\n");
}

void ptx_tmem(Ptx *p, const LaneOp *op) {
  if (p->target->sm < 100 || p->target->sm >= 120)
    diag_fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no tensor memory", p->target->name);
  switch (op->code) {
    case LANE_TMEM_COMMIT: {
      Arg at = ptx_address(p, op);
      ptx_open(p, op, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64");
      ptx_args_of(p, at);
      break;
    }
    case LANE_TMEM_ALLOC: {
      Arg at = ptx_address(p, op);
      ptx_open(p, op, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32");
      ptx_args_of(p, at, ptx_int(op->columns));
      break;
    }
    case LANE_TMEM_RELINQUISH: ptx_open(p, op, "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"); break;
    case LANE_TMEM_DEALLOC: {
      Arg at = ptx_reg(p, op->in[0]);
      ptx_open(p, op, "tcgen05.dealloc.cta_group::1.sync.aligned.b32");
      ptx_args_of(p, at, ptx_int(op->columns));
      break;
    }
    case LANE_TMEM_MMA: multiply(p, op); break;
    case LANE_TMEM_LD: load(p, op); break;
    case LANE_TMEM_ST: store(p, op); break;
    case LANE_TMEM_WAIT_LD:
      put(p, "\ttcgen05.wait::ld.sync.aligned;\n");
      ptx_move_in(p, op, op->in);
      break;
    case LANE_TMEM_WAIT_ST: put(p, "\ttcgen05.wait::st.sync.aligned;\n"); break;
    case LANE_TMEM_FENCE_BEFORE: ptx_open(p, op, "tcgen05.fence::before_thread_sync;\n"); break;
    default: ptx_open(p, op, "tcgen05.fence::after_thread_sync;\n"); break;
  }
}
