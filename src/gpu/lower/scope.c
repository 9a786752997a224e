/* lower_scope: regions of an instrumented kernel (tile/passes/instrument.h).
 *
 * Each warp records into an area of its own, which it finds once, at the kernel's beginning:
 *
 *     program = x + nx * (y + ny * z)                     below buffer.programs, else it is not recorded
 *     slot    = buffer.slot[program]                      0: not recorded either
 *     area    = buffer + first + ((slot - 1) * warps + warp) * stride
 *     room    = buffer.limit in lane 0 of a warp that is recorded, else 0
 *
 * `record_open area, room` keeps both in registers that the lane IR does not see (ptx/record.c), and each `record`
 * appends to the area while there is room. So a record costs what it must: a clock, a store, an addition; no thread
 * waits for memory, and nothing is carried through loops.
 *
 * A record stands where the source has it, between the operations that are lowered before and after it. What holds it
 * there: in the lane IR it has an effect, over which nothing with effects moves; for ptxas it is a store to global
 * memory that may meet any other, and a read of the clock. Arithmetic on registers may pass it all the same, and the
 * time that a load takes is spent where its result is first needed.
 */
#include "gpu/lower/lower.h"
#include "tile/passes/instrument.h"

static void record_op(LaneBuilder *b, LaneCode code, int n, LaneValue *const *in, int64_t imm) {
  lane_op_raw(b, (LaneOp){.code = code, .kind = LK_NONE, .buffer = -1, .imm = imm}, n, in, 0, NULL);
}

static LaneValue *field(Lower *l, LaneKind k, size_t offset) {
  return lane_load(&l->b, SPACE_GLOBAL, k, 1, l->instrument, (int64_t)offset, NULL, NULL)->out[0];
}

static LaneValue *wide(Lower *l, LaneValue *v) { return lane_cvt(&l->b, LK_U32, LK_U64, ROUND_DEFAULT, v); }

/* The program's place in the grid, x fastest, in 64 bits. */
static LaneValue *linear_program(Lower *l) {
  LaneBuilder *b = &l->b;
  LaneValue *at = wide(l, l->program[2]);
  for (int i = 1; i >= 0; i--) at = lane_3(b, LANE_FMA, LK_U64, at, wide(l, l->programs[i]), wide(l, l->program[i]));
  return at;
}

void lower_records_open(Lower *l) {
  if (!l->instrument) return;
  LaneBuilder *b = &l->b;
  LaneValue *program = linear_program(l), *programs = field(l, LK_B32, offsetof(InstrumentBuffer, programs));
  LaneValue *known = lane_setp(b, CMP_LT, LK_U64, program, wide(l, programs));
  LaneValue *entry = lane_2(b, LANE_ADD, LK_S64, l->instrument, lane_2(b, LANE_SHL, LK_B64, program, lane_i32(b, 2)));
  LaneValue *slot =
      lane_load(b, SPACE_GLOBAL, LK_B32, 1, entry, (int64_t)offsetof(InstrumentBuffer, slot), known, NULL)->out[0];
  LaneValue *records = lower_and(l, lane_setp(b, CMP_NE, LK_U32, slot, lane_i32(b, 0)),
                                 lane_setp(b, CMP_EQ, LK_U32, l->lane, lane_i32(b, 0)));
  LaneValue *warp = lane_3(b, LANE_FMA, LK_S32, lane_2(b, LANE_SUB, LK_S32, slot, lane_i32(b, 1)),
                           lane_i32(b, l->out->num_warps), l->warp);
  LaneValue *offset = lane_2(b, LANE_MULWIDE, LK_U32, warp, field(l, LK_B32, offsetof(InstrumentBuffer, stride)));
  LaneValue *area = lane_2(b, LANE_ADD, LK_S64, l->instrument,
                           lane_2(b, LANE_ADD, LK_S64, offset, field(l, LK_B64, offsetof(InstrumentBuffer, first))));
  LaneValue *room = lane_select(b, records, field(l, LK_B32, offsetof(InstrumentBuffer, limit)), lane_i32(b, 0));
  record_op(b, LANE_RECORD_OPEN, 2, (LaneValue *[]){area, room}, 0);
}

void lower_records_close(Lower *l) {
  if (l->instrument) record_op(&l->b, LANE_RECORD_CLOSE, 0, NULL, 0);
}

static int64_t tag_of(int64_t region, bool end, bool repeats) {
  return (int64_t)(INSTRUMENT_TAG(region, end) | (repeats ? INSTRUMENT_REPEATED : 0));
}

void lower_scope(Lower *l, Op *op) {
  record_op(&l->b, LANE_RECORD, 0, NULL, tag_of(op->region, op->end != 0, instrument_repeats(op)));
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static void insert_record(LaneFunc *f, const LaneOp *barrier, LaneOp *place, int64_t tag) {
  LaneOp *op = NEW(f->cx->arena, LaneOp);
  *op = (LaneOp){.code = LANE_RECORD, .kind = LK_NONE, .buffer = -1, .imm = tag, .span = barrier->span};
  lane_insert_before(op, place);
}

static void record_barrier(LaneOp *op, void *arg) {
  LaneFunc *f = arg;
  if (op->code != LANE_BARRIER || op->warp || !op->next) return;
  const char *name = op->span && op->span->line ? arena_printf(f->cx->arena, "barrier %d", op->span->line) : "barrier";
  int region = instrument_region(f->cx, f->instrument, name, op->span, true);
  bool repeats = false;
  for (const LaneOp *up = op->block->parent; up; up = up->block->parent)
    repeats |= up->code == LANE_FOR || up->code == LANE_WHILE;
  insert_record(f, op, op, tag_of(region, false, repeats));
  insert_record(f, op, op->next, tag_of(region, true, repeats));
}

void gpu_record_barriers(LaneFunc *f, const GpuOptions *o) {
  if (f->instrument && f->instrument->automatic && f->num_warps > 1) lane_walk(f->body, record_barrier, f);
}
