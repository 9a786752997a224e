/* Products and copies that go on while the thread does other things: wgmma (sm_90a), cp.async (sm_80), mbarriers and
 * copies by tensor maps (sm_90).
 *
 *     wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%r1, ...}, %rd1, %rd2, 1, 1, 1, 0, 1;
 *     cp.async.cg.shared.global [%r1+2048], [%rd1], 16, %r2;
 *     cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}],
 *       [%r4];
 *
 * A product adds to registers in place. ptx/share.c lays results into the registers of their accumulators; where that
 * could not be, they are copied before the product, and a fence makes the copies seen.
 */
#include "gpu/ptx/ptx.h"

Arg ptx_word(Ptx *p, uint32_t bits) {
  for (int i = 0; i < p->high_count; i++)
    if (p->high[i].bits == bits) return p->high[i].reg;
  Arg reg = ptx_const_reg(p, LT_B32, bits);
  if (p->high_count < (int)(sizeof p->high / sizeof *p->high)) {
    p->high[p->high_count].bits = bits;
    p->high[p->high_count++].reg = reg;
  }
  return reg;
}

Arg ptx_descriptor(Ptx *p, const LaneValue *low, uint32_t high) {
  Arg l = ptx_reg(p, low), h = ptx_word(p, high), d = ptx_fresh(p, LT_B64);
  ptx_open(p, NULL, "mov.b64 ");
  put(p, d.s);
  put(p, ", {");
  put(p, l.s);
  put(p, ", ");
  put(p, h.s);
  put(p, "};\n");
  return d;
}

bool ptx_move_in(Ptx *p, const LaneOp *op, LaneValue *const *from) {
  bool any = false;
  for (int i = 0; i < op->out_count; i++) {
    if (ptx_value(p, op->out[i]) == ptx_value(p, from[i])) continue;
    ptx_move(p, LT_B32, NULL, ptx_reg(p, op->out[i]), ptx_arg(p, from[i], LK_B32));
    any = true;
  }
  return any;
}

void ptx_put_list(Ptx *p, int n, LaneValue *const *values) {
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
  if (p->target->sm != 90) diag_fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no wgmma", p->target->name);
  if (adds && ptx_move_in(p, op, op->in + first)) put(p, "\twgmma.fence.sync.aligned;\n");
  Arg a = registers ? ptx_text("") : ptx_descriptor(p, op->in[0], (uint32_t)high),
      x = ptx_descriptor(p, op->in[first - 1], (uint32_t)(high >> 32));
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
  ptx_put_list(p, n, op->out);
  put(p, ", ");
  if (registers) ptx_put_list(p, 4, op->in);
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
  ptx_move_in(p, op, op->in);
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

/* ---- mbarriers and copies by tensor maps ------------------------------------------------------------------------- */

static void needs_sm_90(const Ptx *p, const LaneOp *op) {
  if (p->target->sm < 90)
    diag_fail(p->cx, op->span ? *op->span : (Span){0}, "%s has no %s", p->target->name, lane_info[op->code].name);
}

/* The generic address of a map that is a parameter. */
void ptx_map_param(Ptx *p, const LaneValue *to, int i) {
  Arg r = ptx_reg(p, to), name = ptx_text("p");
  strcat(name.s, ptx_int(i).s);
  ptx_open(p, NULL, "mov.b64");
  ptx_args_of(p, r, name);
  ptx_open(p, NULL, "cvta.param.u64");
  ptx_args_of(p, r, r);
}

void ptx_wait(Ptx *p, const LaneOp *op, const LaneValue *where) {
  Arg at = ptx_address(p, op), parity = ptx_reg(p, op->in[1]), done = ptx_fresh(p, LT_PRED), label = ptx_text("$wait");
  strcat(label.s, ptx_int(++p->labels).s);
  Arg asks = where ? ptx_reg(p, where) : done;
  if (where) {
    ptx_open(p, NULL, "not.pred");
    ptx_args_of(p, done, asks);
  }
  put(p, label.s);
  put(p, ":\n\t");
  if (where) put(p, "@"), put(p, asks.s), put(p, " ");
  put(p, "mbarrier.try_wait.parity.shared::cta.b64");
  ptx_args_of(p, done, at, parity);
  put(p, "\t@!");
  put(p, done.s);
  put(p, " bra");
  ptx_args_of(p, label);
}

/* At another block's barrier, too, with what the block's own scope orders: who arrives has read by products, which it
 * has waited for, and who waits writes by copies. `.release.cluster` would wait for all that is under way to memory. */
static void arrive(Ptx *p, const LaneOp *op, Arg at) {
  if (op->in_count == 1) {
    ptx_open(p, op, "mbarrier.arrive.shared::cta.b64");
    ptx_args_of(p, ptx_text("_"), at);
    return;
  }
  Arg there = ptx_fresh(p, LT_B32), to = ptx_text("[");
  ptx_open(p, NULL, "add.s32");
  ptx_args_of(p, there, ptx_reg(p, op->in[0]), ptx_int(op->imm));
  ptx_open(p, NULL, "mapa.shared::cluster.u32");
  ptx_args_of(p, there, there, ptx_arg(p, op->in[1], LK_U32));
  strcat(strcat(to.s, there.s), "]");
  ptx_open(p, op, "mbarrier.arrive.shared::cluster.b64");
  ptx_args_of(p, ptx_text("_"), to);
}

void ptx_mbar(Ptx *p, const LaneOp *op) {
  needs_sm_90(p, op);
  if (op->code == LANE_MBAR_WAIT) {
    ptx_wait(p, op, NULL);
    return;
  }
  Arg at = ptx_address(p, op);
  switch (op->code) {
    case LANE_MBAR_INIT: {
      Arg count = ptx_arg(p, op->in[1], LK_U32);
      ptx_open(p, op, "mbarrier.init.shared::cta.b64");
      ptx_args_of(p, at, count);
      break;
    }
    case LANE_MBAR_EXPECT: {
      Arg bytes = ptx_arg(p, op->in[1], LK_U32);
      ptx_open(p, op, "mbarrier.arrive.expect_tx.shared::cta.b64");
      ptx_args_of(p, ptx_text("_"), at, bytes);
      break;
    }
    default: arrive(p, op, at); break;
  }
}

void ptx_tensor(Ptx *p, const LaneOp *op) {
  static const char *const names[] = {
      [RMW_ADD] = "add", [RMW_MAX] = "max", [RMW_MIN] = "min", [RMW_AND] = "and", [RMW_OR] = "or", [RMW_XOR] = "xor"};
  needs_sm_90(p, op);
  bool load = op->code == LANE_TENSOR_LOAD;
  int first = load ? 3 : 2;
  Arg at = ptx_address(p, op), bar = load ? ptx_reg(p, op->in[1]) : at, map = ptx_reg(p, op->in[first - 1]), to[5];
  for (int i = first; i < op->in_count; i++) to[i - first] = ptx_reg(p, op->in[i]);
  Arg mask = op->multicast ? ptx_const_reg(p, LT_B16, op->multicast) : at;
  ptx_open(p, op, op->code == LANE_TENSOR_RED ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.");
  ptx_put_int(p, op->in_count - first);
  put(p, load ? "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" : "d.global.shared::cta.");
  if (load) put(p, op->multicast ? ".multicast::cluster " : " ");
  if (op->code == LANE_TENSOR_RED) put(p, names[op->rmw]), put(p, ".");
  if (!load) put(p, "tile.bulk_group ");
  if (load) put(p, at.s), put(p, ", ");
  put(p, "[");
  put(p, map.s);
  for (int i = first; i < op->in_count; i++) {
    put(p, i == first ? ", {" : ", ");
    put(p, to[i - first].s);
  }
  put(p, load ? "}], [" : "}], ");
  put(p, bar.s);
  if (load) put(p, "]");
  if (op->multicast) put(p, ", "), put(p, mask.s);
  put(p, ";\n");
}

void ptx_bulk(Ptx *p, const LaneOp *op) {
  needs_sm_90(p, op);
  switch (op->code) {
    case LANE_FENCE_MBAR: ptx_open(p, op, "fence.mbarrier_init.release.cluster;\n"); break;
    case LANE_BULK_COMMIT: ptx_open(p, op, "cp.async.bulk.commit_group;\n"); break;
    case LANE_CLUSTER_BARRIER: /* what it is for was fenced (CUTLASS does so, too) */
      ptx_open(p, op, "barrier.cluster.arrive.relaxed.aligned;\n");
      ptx_open(p, op, "barrier.cluster.wait.aligned;\n");
      break;
    case LANE_BULK_WAIT:
      ptx_open(p, op, op->read ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group");
      ptx_args_of(p, ptx_int(op->imm));
      break;
    case LANE_PREFETCH_MAP: {
      Arg map = ptx_text("[");
      strcat(strcat(map.s, ptx_reg(p, op->in[0]).s), "]");
      ptx_open(p, op, "prefetch.tensormap");
      ptx_args_of(p, map);
      break;
    }
    case LANE_ELECT: {
      Arg elected = ptx_text("_|");
      strcat(elected.s, ptx_reg(p, op->out[0]).s);
      ptx_open(p, NULL, "elect.sync");
      ptx_args_of(p, elected, ptx_int(-1));
      break;
    }
    default:
      p->one_block = true;
      ptx_open(p, NULL, op->inc ? "setmaxnreg.inc.sync.aligned.u32" : "setmaxnreg.dec.sync.aligned.u32");
      ptx_args_of(p, ptx_int(op->imm));
      break;
  }
}
