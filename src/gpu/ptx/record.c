/* Records of an instrumented kernel (tile/passes/instrument.h), in PTX.
 *
 * Where a warp records to and how far it has come are registers of their own, which every record changes:
 *
 *     %inbase  its InstrumentWarp      %inused  bytes of its records so far      %inlost  how many found no room
 *     %inroom  bytes there are room for; 0: this thread keeps none
 *
 *     mov.u32 %intime, %clock;                        a record
 *     mad.wide.u32 %inat, %inused, 1, %inbase;
 *     setp.lt.u32 %inkeep, %inused, %inroom;          of what a loop repeats: %inused + INSTRUMENT_RESERVE
 *     @%inkeep st.global.v2.b32 [%inat+48], {tag, %intime};
 *     @%inkeep add.u32 %inused, %inused, 8;
 *     @!%inkeep add.u32 %inlost, %inlost, 1;
 *
 * All lanes of a warp do the same, and the store happens in one; nothing branches.
 */
#include "gpu/ptx/ptx.h"
#include "tile/passes/instrument.h"

void ptx_record_registers(Buf *out) {
  buf_puts(out,
           "\t.reg .b64 %inbase, %inat;\n\t.reg .b32 %inused, %inlost, %inroom, %intime;\n\t.reg .pred %inkeep;\n");
}

/* One moment in full: clock and timer number i of the header. */
static void put_moment(Ptx *p, int i) {
  static const char *const names[] = {"clock64", "globaltimer"};
  const size_t offsets[] = {offsetof(InstrumentWarp, clock), offsetof(InstrumentWarp, timer)};
  for (int k = 0; k < 2; k++) {
    buf_printf(p->out, "\tmov.u64 %%inat, %%%s;\n", names[k]);
    buf_printf(p->out, "\t@%%inkeep st.global.b64 [%%inbase+%zu], %%inat;\n", offsets[k] + 8 * (size_t)i);
  }
}

static void put_open(Ptx *p, const LaneOp *op) {
  Arg area = ptx_reg(p, op->in[0]), room = ptx_reg(p, op->in[1]);
  buf_printf(p->out,
             "\tmov.b64 %%inbase, %s;\n\tmov.b32 %%inroom, %s;\n\tmov.b32 %%inused, 0;\n\tmov.b32 %%inlost, 0;\n",
             area.s, room.s);
  put(p, "\tsetp.ne.b32 %inkeep, %inroom, 0;\n\tmov.u32 %intime, %smid;\n");
  buf_printf(p->out, "\t@%%inkeep st.global.b32 [%%inbase+%zu], %%intime;\n", offsetof(InstrumentWarp, sm));
  put_moment(p, 0);
}

static void put_record(Ptx *p, const LaneOp *op) {
  uint32_t tag = (uint32_t)op->imm;
  put(p, "\tmov.u32 %intime, %clock;\n\tmad.wide.u32 %inat, %inused, 1, %inbase;\n");
  if (tag & INSTRUMENT_REPEATED) {
    /* A register of its own would do as well; ptxas folds this into the comparison's operand. */
    Arg ahead = ptx_fresh(p, LT_B32);
    buf_printf(p->out, "\tadd.u32 %s, %%inused, %d;\n\tsetp.lt.u32 %%inkeep, %s, %%inroom;\n", ahead.s,
               INSTRUMENT_RESERVE, ahead.s);
  } else {
    put(p, "\tsetp.lt.u32 %inkeep, %inused, %inroom;\n");
  }
  buf_printf(p->out, "\t@%%inkeep st.global.v2.b32 [%%inat+%zu], {%u, %%intime};\n", offsetof(InstrumentWarp, records),
             tag & ~INSTRUMENT_REPEATED);
  buf_printf(p->out, "\t@%%inkeep add.u32 %%inused, %%inused, %zu;\n\t@!%%inkeep add.u32 %%inlost, %%inlost, 1;\n",
             sizeof(InstrumentRecord));
}

static void put_close(Ptx *p) {
  put(p, "\tsetp.ne.b32 %inkeep, %inroom, 0;\n");
  put_moment(p, 1);
  buf_printf(p->out, "\t@%%inkeep st.global.v2.b32 [%%inbase+%zu], {%%inused, %%inlost};\n",
             offsetof(InstrumentWarp, used));
}

void ptx_record(Ptx *p, const LaneOp *op) {
  p->records = true;
  if (op->code == LANE_RECORD_OPEN) put_open(p, op);
  else if (op->code == LANE_RECORD) put_record(p, op);
  else put_close(p);
}
