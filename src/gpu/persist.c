/* Persistence: a block runs one program after the other, as many as fall to it.
 *
 *     kernel @k(%x, ...) {                  kernel @k(%x, ..., %grid_x, %grid_y, %grid_z) {
 *       %p = program_id {axis=0}              %total = grid_x * grid_y * grid_z
 *       ...                          ->       for %i = program_id {axis=0} to %total step num_programs {axis=0}
 *     }                                           carrying %n = program_id {axis=0} {
 *                                               %p = %n % %grid_x
 *                                               ...
 *                                               %n = %i's successor, or its mirror image in the next round
 *                                             }
 *                                           }
 *
 * So there are as many blocks as the machine runs at once, and what a program does first (its first tiles' way from
 * memory) may be under way while the one before it ends. Program ids and their number are the loop's and the new
 * arguments', which a launch gives: Func.persistent. Each program's effects happen once, in no order that the grid
 * promised otherwise.
 *
 * As many programs as there are blocks are a round. In every other round the blocks take them in reverse: of programs
 * whose work grows with their number, as the rows of causal attention, some blocks would get the larger ones each time.
 * (128 heads of 128, 32 blocks of rows, on an H200: one block in four had 9% more to do.)
 *
 * Not done where programs wait for each other (one that waits may stand before the one it waits for, in one block),
 * where they print or assert or are timed (which says who they are), and where inline assembly may ask for the block.
 */
#include "gpu/gpu.h"

enum { GRID = 3 };

typedef struct Persist {
  Func *f;
  Value *program[GRID], *programs[GRID];
  const char *why;
} Persist;

static void find_reason(Op *op, void *arg) {
  const char **why = arg;
  if (op->code == OP_PRINT || op->code == OP_ASSERT) *why = "it prints or asserts";
  if (op->code == OP_SCOPE) *why = "it is timed";
  if (op->code == OP_ASM) *why = "inline assembly may ask for its block";
}

const char *gpu_cannot_persist(const Func *f, const GpuOptions *o) {
  const char *why = NULL;
  tile_walk(f->body, find_reason, &why);
  if (tile_waits(f)) return "its programs wait for each other";
  if (f->instrument) return "it is timed";
  return o->list ? "its programs are listed" : why;
}

void gpu_put_grid(const LaneFunc *f, const int32_t grid[3], uint64_t *args) {
  for (int i = 0; f->persistent && i < GRID; i++) args[f->param_count - f->hidden_params + i] = (uint32_t)grid[i];
}

static AxisInfo *index_axis(Context *cx) {
  AxisInfo *axis = NEW(cx->arena, AxisInfo);
  for (int d = 0; d < MAX_RANK; d++) axis->divisible[d] = axis->contiguous[d] = axis->constant[d] = 1;
  axis->non_negative = SIGN_INDEX;
  return axis;
}

static Value *id_op(Builder *b, OpCode code) {
  const Type *t = type_number(b->func->cx, DT_I32);
  Value *v = build_op(b, code, 0, NULL, 1, &t)->out[0];
  v->axis = index_axis(b->func->cx);
  return v;
}

static void replace_id(Op *op, void *arg) {
  Persist *p = arg;
  if (op->code != OP_PROGRAM_ID && op->code != OP_NUM_PROGRAMS) return;
  Value *by = (op->code == OP_PROGRAM_ID ? p->program : p->programs)[op->axis];
  by->name = by->name ? by->name : op->out[0]->name;
  value_replace(op->out[0], by);
  op_remove(op);
}

/* x, y and z of program number `linear`, x fastest; two divisions less where the grid is a line. */
static void place_program(Persist *p, Builder *b, Value *linear) {
  const Type *t = linear->type, *results[] = {t, t, t};
  Value *is_line = build_cmp(b, CMP_LT, linear, p->programs[0]), *zero = build_int(b, t, 0);
  Op *branch = build_op(b, OP_IF, 1, &is_line, GRID, results);
  Builder line = {.func = p->f, .block = block_create(p->f, branch)};
  build_yield(&line, GRID, (Value *[]){linear, zero, zero});
  Builder box = {.func = p->f, .block = block_create(p->f, branch)};
  Value *rows = build_binary(&box, OP_DIV, linear, p->programs[0]);
  Value *at[] = {build_binary(&box, OP_REM, linear, p->programs[0]), build_binary(&box, OP_REM, rows, p->programs[1]),
                 build_binary(&box, OP_DIV, rows, p->programs[1])};
  build_yield(&box, GRID, at);
  for (int i = 0; i < GRID; i++) {
    p->program[i] = branch->out[i];
    p->program[i]->axis = index_axis(p->f->cx);
  }
}

static Value *carry(Func *f, Op *loop, Value *init) {
  Value *v = control_carry(f, loop, init, init);
  v->axis = index_axis(f->cx);
  return v;
}

static void carry_on(Op *loop, const Value *carried, Value *next) {
  loop->body[0]->last->in[carried->index - 1] = next;
}

/* The number of the program that iteration `iv` runs: it and whether this round is in reverse the loop carries, and
 * computes at its end, so that a block's first program begins with less. */
static Value *number_of(Func *f, Op *loop, Value *iv, Value *first, Value *total, Value *blocks) {
  Builder before = {.func = f, .block = loop->block, .before = loop};
  Value *reversed = carry(f, loop, build_int(&before, iv->type, 0));
  Value *number = carry(f, loop, build_convert(&before, first, DT_I32));
  Builder b = {.func = f, .block = loop->body[0], .before = loop->body[0]->last};
  Value *one = build_int(&b, iv->type, 1);
  Value *begin = build_binary(&b, OP_SUB, build_binary(&b, OP_ADD, iv, blocks), first);
  Value *size = build_binary(&b, OP_MIN, blocks, build_binary(&b, OP_SUB, total, begin));
  Value *mirrored = build_binary(&b, OP_SUB, build_binary(&b, OP_SUB, size, one), first);
  Value *was_reversed = build_cmp(&b, CMP_EQ, reversed, one);
  Value *next = build_binary(&b, OP_ADD, begin, build_select(&b, was_reversed, first, mirrored));
  carry_on(loop, reversed, build_binary(&b, OP_XOR, reversed, one));
  carry_on(loop, number, build_convert(&b, next, DT_I32)); /* a launch sees to it that it fits */
  return number;
}

/* What is the same for all programs, and a scalar, is computed before the loop. */
static void hoist_scalars(Block *body, Op *loop) {
  for (Op *op = body->first, *next; op; op = next) {
    next = op->next;
    bool moves =
        op_info[op->code].effect == EFFECT_PURE && !op->body[0] && op->out_count == 1 && !op->out[0]->type->rank;
    for (int i = 0; i < op->in_count && moves; i++) moves = value_block(op->in[i]) != body;
    if (moves) op_move_before(op, loop);
  }
}

static void wrap(Func *f) {
  static const char *const names[GRID] = {"grid_x", "grid_y", "grid_z"};
  Persist p = {.f = f};
  const Type *t = type_number(f->cx, DT_I32), *wide = type_number(f->cx, DT_I64);
  for (int i = 0; i < GRID; i++) {
    p.programs[i] = func_add_arg(f, t, names[i], 1);
    p.programs[i]->axis = index_axis(f->cx);
  }
  f->persistent = true;
  Op *first = f->body->first;
  if (!first) return;
  Builder b = {.func = f, .block = f->body, .before = first, .span = first->span};
  Value *total = p.programs[0]; /* it fits, too */
  for (int i = 1; i < GRID; i++) total = build_binary(&b, OP_MUL, total, p.programs[i]);
  Value *in[] = {build_convert(&b, id_op(&b, OP_PROGRAM_ID), DT_I64), build_convert(&b, total, DT_I64),
                 build_convert(&b, id_op(&b, OP_NUM_PROGRAMS), DT_I64)}; /* and how many blocks there are */
  Op *loop = build_op(&b, OP_FOR, 3, in, 0, NULL);
  loop->num_stages = 1; /* num_stages */
  Block *body = block_create(f, loop);
  Value *iv = block_add_arg(f, body, wide, "program");
  iv->axis = index_axis(f->cx);
  build_yield(&(Builder){.func = f, .block = body}, 0, NULL);
  for (Op *op = first, *next; op; op = next) {
    next = op->next;
    op_move_before(op, body->last);
  }
  Builder top = {.func = f, .block = body, .before = first, .span = first->span};
  Value *linear = number_of(f, loop, iv, in[0], in[1], in[2]);
  place_program(&p, &top, linear);
  for (Op *op = first, *next; op; op = next) { /* what stands before are the ids themselves */
    next = op->next;
    replace_id(op, &p);
    for (int i = 0; i < 2 && op->block; i++)
      if (op->body[i]) tile_walk(op->body[i], replace_id, &p);
  }
  tile_replace_uses(f);
  hoist_scalars(body, loop);
}

void gpu_persist(Func *f, const GpuOptions *o) {
  const char *why;
  tile_replace_uses(f);
  if (gpu_cannot_persist(f, o) || (!o->persist && !gpu_specializes(f, o, true, &why))) return;
  wrap(f);
}
