/* Products and copies that go on while the thread does other things: wgmma (sm_90a), cp.async (sm_80).
 *
 *     wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%r1, ...}, %rd1, %rd2, 1, 1, 1, 0, 1;
 *     cp.async.cg.shared.global [%r1+2048], [%rd1], 16, %r2;
 *
 * A product adds to registers in place. ptx/share.c lays results into the registers of their accumulators; where that
 * could not be, they are copied before the product, and a fence makes the copies seen.
 */
#include "gpu/ptx/ptx.h"

static Arg high_word(Ptx *p, uint32_t bits) {
  for (int i = 0; i < p->high_count; i++)
    if (p->high[i].bits == bits) return p->high[i].reg;
  Arg reg = ptx_const_reg(p, LT_B32, bits);
  if (p->high_count < (int)(sizeof p->high / sizeof *p->high)) {
    p->high[p->high_count].bits = bits;
    p->high[p->high_count++].reg = reg;
  }
  return reg;
}

static Arg descriptor(Ptx *p, const LaneValue *low, uint32_t high) {
  Arg l = ptx_reg(p, low), h = high_word(p, high), d = ptx_fresh(p, LT_B64);
  ptx_open(p, NULL, "mov.b64 ");
  put(p, d.s);
  put(p, ", {");
  put(p, l.s);
  put(p, ", ");
  put(p, h.s);
  put(p, "};\n");
  return d;
}

/* Brings what is not there yet into the results' registers; whether there was such. */
static bool move_in(Ptx *p, const LaneOp *op, LaneValue *const *from) {
  bool any = false;
  for (int i = 0; i < op->out_count; i++) {
    if (ptx_value(p, op->out[i]) == ptx_value(p, from[i])) continue;
    ptx_move(p, LT_B32, NULL, ptx_reg(p, op->out[i]), ptx_arg(p, from[i], LK_B32));
    any = true;
  }
  return any;
}

static void put_list(Ptx *p, int n, LaneValue *const *values) {
  for (int i = 0; i < n; i++) {
    put(p, i ? ", " : "{");
    put(p, ptx_reg(p, values[i]).s);
  }
  put(p, "}");
}

void ptx_wgmma(Ptx *p, const LaneOp *op) {
  int n = op->out_count, first = lane_wgmma_inputs(op);
  bool adds = first < op->in_count, registers = first == 5;
  uint64_t high = (uint64_t)op->imm;
  if (p->target->sm != 90) fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no wgmma", p->target->name);
  if (adds && move_in(p, op, op->in + first)) put(p, "\twgmma.fence.sync.aligned;\n");
  Arg a = registers ? ptx_text("") : descriptor(p, op->in[0], (uint32_t)high),
      x = descriptor(p, op->in[first - 1], (uint32_t)(high >> 32));
  const char *types[] = {lane_kind_info[lane_mma_sum(op->kind)].name, ptx_mma_type(op->kind),
                         ptx_mma_type(lane_mma_other(op))};
  put(p, "\twgmma.mma_async.sync.aligned.m64n");
  ptx_put_int(p, 2 * n);
  put(p, "k");
  ptx_put_int(p, 8 << lane_mma_pack(op->kind));
  for (int i = 0; i < 3; i++) {
    put(p, ".");
    put(p, types[i]);
  }
  put(p, " ");
  put_list(p, n, op->out);
  put(p, ", ");
  if (registers) put_list(p, 4, op->in);
  else put(p, a.s);
  put(p, ", ");
  put(p, x.s);
  put(p, adds ? ", 1" : ", 0");
  if (types[0][0] == 'f') put(p, ", 1, 1");
  if (lane_mma_pack(op->kind) == 1) {
    if (!registers) put(p, op->trans_a ? ", 1" : ", 0");
    put(p, op->trans_b ? ", 1" : ", 0");
  }
  put(p, ";\n");
}

void ptx_wgmma_wait(Ptx *p, const LaneOp *op) {
  ptx_open(p, NULL, "wgmma.wait_group.sync.aligned");
  ptx_args_of(p, ptx_int(op->imm));
  move_in(p, op, op->in);
}

void ptx_cp_async(Ptx *p, const LaneOp *op) {
  int bytes = op->bits / 8;
  Arg to = ptx_address(p, op), from = ptx_text("["), size = ptx_int(bytes);
  strcat(from.s, ptx_reg(p, op->in[1]).s);
  strcat(from.s, "]");
  if (op->guard) {
    Arg guard = ptx_reg(p, op->guard), there = ptx_fresh(p, LT_B32);
    ptx_open(p, NULL, "selp.b32");
    ptx_args_of(p, there, ptx_int(op->guard_not ? 0 : bytes), ptx_int(op->guard_not ? bytes : 0), guard);
    ptx_open(p, NULL, bytes == 16 ? "cp.async.cg.shared.global" : "cp.async.ca.shared.global");
    ptx_args_of(p, to, from, size, there);
    return;
  }
  ptx_open(p, NULL, bytes == 16 ? "cp.async.cg.shared.global" : "cp.async.ca.shared.global");
  ptx_args_of(p, to, from, size);
}
