/* libFuzzer target of the lane IR's text: any bytes get a function or a diagnostic, any function a verdict, and what
 * the verifier lets through reads back from its own text, is still right when swept, and gives the same when its
 * operations are made anew by the builder, folding as it goes.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Isrc tests/fuzz/fuzz_lane.c src/base/?*.c src/tile/?*.c \
 *           src/gpu/lane_?*.c src/gpu/sim?*.c src/gpu/sim/sim.c -lm -pthread
 *     ./a.out -dict=tests/fuzz/lane.dict -max_len=4096 CORPUS
 *
 * A function without memory, atomics, shuffles, clocks and `while` runs, too, before and after. */
#include "gpu/lane/lane.h"

#include "check.h"

/* Printed text must parse to a function with the same text. */
static void check_text(Context *cx, const LaneFunc *f, Buf *first, Buf *second) {
  first->n = second->n = 0;
  lane_print(first, f, false);
  LaneFunc *again = lane_parse(cx, source_from_text(cx, "again", first->at, first->n));
  lane_print(second, again, false);
  CHECK(first->n == second->n && !memcmp(first->at, second->at, first->n));
  lane_print(second, f, true);
}

/* ---- the same function, made by the builder ---------------------------------------------------------------------- */

typedef struct Copy {
  LaneFunc *f;
  LaneBuilder b;
  LaneValue **value; /* by id of the original */
  Arena *arena;
} Copy;

static LaneValue **operands(Copy *c, const LaneOp *op) {
  LaneValue **in = NEW_N(c->arena, LaneValue *, op->in_count);
  for (int i = 0; i < op->in_count; i++) in[i] = c->value[op->in[i]->id];
  return in;
}

static void copy_block(Copy *c, const LaneBlock *block);

static void copy_args(Copy *c, const LaneBlock *from, const LaneBlock *to) {
  for (int i = 0; i < from->arg_count; i++) c->value[from->args[i]->id] = to->args[i];
}

static void copy_control(Copy *c, const LaneOp *op) {
  LaneValue **in = operands(c, op);
  LaneType *types = NEW_N(c->arena, LaneType, op->out_count);
  for (int i = 0; i < op->out_count; i++) types[i] = op->out[i]->type;
  LaneOp *made;
  if (op->code == LANE_FOR) made = lane_for(&c->b, op->kind, in[0], in[1], in[2], op->in_count - 3, in + 3);
  else if (op->code == LANE_WHILE) made = lane_while(&c->b, op->in_count, in);
  else made = lane_if(&c->b, in[0], op->uniform, op->out_count, types);
  made->uniform = op->uniform;
  for (int i = 0; i < 2; i++) {
    if (!op->body[i]) continue;
    if (i) lane_enter(&c->b, made, 1);
    copy_args(c, op->body[i], made->body[i]);
    copy_block(c, op->body[i]);
  }
  lane_leave(&c->b, made);
  for (int i = 0; i < op->out_count; i++) c->value[op->out[i]->id] = made->out[i];
}

static void copy_block(Copy *c, const LaneBlock *block) {
  for (const LaneOp *op = block->first; op; op = op->next) {
    if (op->body[0]) {
      copy_control(c, op);
      continue;
    }
    LaneOp proto = *op;
    if (op->guard) proto.guard = c->value[op->guard->id];
    LaneValue **in = operands(c, op);
    bool single = lane_op_is_pure(op) && op->code != LANE_ASM && op->out_count == 1;
    if (single) {
      c->value[op->out[0]->id] = lane_op(&c->b, proto, op->in_count, in);
      CHECK(c->value[op->out[0]->id]->type == op->out[0]->type);
    } else if (op->code == LANE_UNPACK) {
      lane_unpack(&c->b, in[0], &c->value[op->out[0]->id], &c->value[op->out[1]->id]);
    } else {
      LaneType *types = NEW_N(c->arena, LaneType, op->out_count);
      for (int i = 0; i < op->out_count; i++) types[i] = op->out[i]->type;
      LaneOp *made = lane_op_raw(&c->b, proto, op->in_count, in, op->out_count, types);
      for (int i = 0; i < op->out_count; i++) c->value[op->out[i]->id] = made->out[i];
    }
  }
}

static LaneFunc *copy_of(Context *cx, const LaneFunc *f) {
  Copy c = {
      .f = lane_func_create(cx, f->name), .arena = cx->arena, .value = NEW_N(cx->arena, LaneValue *, f->value_count)};
  c.f->num_warps = f->num_warps;
  c.b = lane_builder(c.f);
  for (int i = 0; i < f->param_count; i++)
    c.value[f->params[i]->id] = lane_func_param(c.f, f->params[i]->type, f->param_types[i], f->param_divisible[i]);
  for (int i = 0; i < f->buffers.n; i++)
    lane_buffer(&c.b, f->buffers.at[i].name, f->buffers.at[i].bytes, f->buffers.at[i].align);
  copy_block(&c, f->body);
  return c.f;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct Census {
  bool may_run;
  int ops;
} Census;

static void count(LaneOp *op, void *arg) {
  Census *c = arg;
  c->ops++;
  bool pure = lane_info[op->code].effect == LE_PURE && (op->code != LANE_SPECIAL || lane_op_is_pure(op));
  c->may_run = c->may_run &&
               (pure || lane_info[op->code].effect == LE_TERMINATOR || op->code == LANE_IF || op->code == LANE_EXIT);
}

static void run(const LaneFunc *f) {
  uint64_t args[64] = {0};
  Census c = {true, 0};
  lane_walk(f->body, count, &c);
  if (!c.may_run || c.ops > 2000 || f->param_count > 64) return;
  for (int i = 0; i < f->param_count; i++) args[i] = (uint64_t)i * 0x9e3779b97f4a7c15u;
  LaneSimFault fault;
  bool ok = lane_sim_run(f, args, &(LaneSimOptions){.grid = (int32_t[]){2, 1, 1}, .end = 2}, &fault);
  CHECK(ok || fault.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Context *cx = context_create();
  if (!cx) return 0;
  Buf first = {0}, second = {0};
  volatile Stage stage = PARSING;
  Source *s = source_from_text(cx, "fuzz.lane", (const char *)data, size);
  if (context_try(cx)) {
    LaneFunc *f = lane_parse(cx, s);
    check_text(cx, f, &first, &second);
    stage = VERIFYING;
    lane_verify(f, NULL);
    stage = AFTER;
    run(f);
    LaneFunc *copy = copy_of(cx, f);
    lane_verify(copy, "copying");
    run(copy);
    lane_dce(f);
    lane_verify(f, "sweeping");
    check_text(cx, f, &first, &second);
    context_end_try(cx);
  } else {
    check_refused(cx, stage);
  }
  buf_destroy(&first);
  buf_destroy(&second);
  context_destroy(cx);
  return 0;
}
