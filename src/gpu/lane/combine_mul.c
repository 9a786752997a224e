/* Both halves of a product by one multiplication:
 *
 *     %h = mulhi.u32 %x, %y            %w = mulwide.u32 %x, %y : b64
 *     %l = mul.s32 %x, %y       ->     %l, %h = unpack.b64 %w
 *
 * Counter-based random numbers (Philox) are made of such pairs; ptxas leaves them apart. Pairs are sought within a
 * block, by the numbers of their operands in a hash table.
 */
#include "gpu/lane/scope.h"
#include "gpu/lane/table.h"

typedef struct Wide {
  LaneFunc *f;
  LaneValue **instead; /* by id, of values there were at first */
  int count;
  LaneOp **table; /* of the block: mulhi and mul, by their operands */
  int size;
} Wide;

static bool is_half(const LaneOp *op) {
  return op->in_count == 2 && !op->guard &&
         ((op->code == LANE_MULHI && op->kind == LK_U32) || (op->code == LANE_MUL && op->kind == LK_S32));
}

static bool same_operands(const LaneOp *a, const LaneOp *b) {
  return (a->in[0] == b->in[0] && a->in[1] == b->in[1]) || (a->in[0] == b->in[1] && a->in[1] == b->in[0]);
}

static void join(Wide *w, LaneOp *first, LaneOp *second) {
  LaneBlock alone = {.parent = first->block->parent};
  LaneBuilder b = lane_builder(w->f);
  LaneValue *half[2];
  b.block = &alone;
  b.span = first->span;
  LaneOp *product =
      lane_op_raw(&b, (LaneOp){.code = LANE_MULWIDE, .kind = LK_U32}, 2, first->in, 1, (LaneType[]){LT_B64});
  LaneOp *apart =
      lane_op_raw(&b, (LaneOp){.code = LANE_UNPACK, .kind = LK_B64}, 1, product->out, 2, (LaneType[]){LT_B32, LT_B32});
  half[0] = apart->out[0];
  half[1] = apart->out[1];
  lane_insert_before(product, first);
  lane_insert_before(apart, first);
  w->instead[first->out[0]->id] = half[first->code == LANE_MULHI];
  w->instead[second->out[0]->id] = half[second->code == LANE_MULHI];
  lane_remove(first);
  lane_remove(second);
}

static void visit_block(Wide *w, LaneBlock *block) {
  stack_guard();
  int n = 0;
  for (const LaneOp *op = block->first; op; op = op->next) n += is_half(op);
  if (n > 1) {
    w->size = 4;
    while (w->size < 2 * n) w->size *= 2;
    w->table = NEW_N(w->f->cx->arena, LaneOp *, w->size);
    for (LaneOp *op = block->first, *next; op; op = next) {
      next = op->next;
      if (!is_half(op)) continue;
      uint32_t at = (uint32_t)(op->in[0]->id + op->in[1]->id) * 2654435761u & (uint32_t)(w->size - 1);
      while (w->table[at] && !(w->table[at]->block && same_operands(w->table[at], op)))
        at = (at + 1) & (uint32_t)(w->size - 1);
      LaneOp *other = w->table[at];
      if (!other) w->table[at] = op;
      else if (other->code != op->code) join(w, other, op);
    }
  }
  for (LaneOp *op = block->first; op; op = op->next)
    for (int i = 0; i < 2 && op->body[i]; i++) visit_block(w, op->body[i]);
}

static void rename_operands(LaneOp *op, void *arg) {
  const Wide *w = arg;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->id < w->count && w->instead[op->in[i]->id]) op->in[i] = w->instead[op->in[i]->id];
}

void lane_combine_mul(LaneFunc *f) {
  Wide w = {.f = f, .instead = NEW_N(f->cx->arena, LaneValue *, f->value_count + 1), .count = f->value_count};
  visit_block(&w, f->body);
  lane_walk(f->body, rename_operands, &w);
}
