/* Early loads: a load that stands after a reduction, and does not need it, is issued before it.
 *
 *     %x = load row                              %x = load row
 *     %s = reduce %x                             %w = load weights
 *     %w = load weights               ->         %s = reduce %x
 *     store %x * %s * %w                         store %x * %s * %w
 *
 * A reduction ends in shuffles and a barrier, over which the assembler moves nothing: what is loaded after it is
 * waited for anew. So loads, and the arithmetic of their addresses, go up in their block to the first reduction, scan
 * or sort that they can pass: memory that is written in between, or anything else with effects or bodies that may hold
 * such, keeps them below. At most GpuBudgets.hoisted_bytes of each thread's registers are spent on it.
 *
 * The same before products on tensor cores, which end in waits and barriers as well, and before loops of a few
 * iterations with such: what comes after them (another product's tiles) is under way while they run. That takes
 * GpuBudgets.hoisted_over_products, and no more than their sums leave.
 */
#include "gpu/loop.h"

enum { MAX_MOVED = 64, SHORT = 4 };

static bool is_exchange(const Op *op) { return op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT; }

/* Whether a load may pass op. */
static bool is_passable(const Op *op) {
  Effect e = op_info[op->code].effect;
  return (e == EFFECT_PURE || e == EFFECT_READ) && op->code != OP_DOT;
}

/* Marks what must move for v to be known before `place`: the operations of the block after it, by their notes. False
 * when something cannot. */
static bool mark(Value *v, const Block *block, const Op *place, int *left) {
  stack_guard();
  Op *op = v->def;
  /* notes of what stands after place are set */
  if (!op || op->block != block || op->note != (void *)place) return true;
  if (--*left < 0 || op == place || op_info[op->code].effect != EFFECT_PURE || op->body[0] || op->code == OP_DOT)
    return false;
  for (int i = 0; i < op->in_count; i++)
    if (!mark(op->in[i], block, place, left)) return false;
  return true;
}

static void move(Value *v, Block *block, Op *place) {
  stack_guard();
  Op *op = v->def;
  if (!op || op->block != block || op->note != (void *)place) return;
  for (int i = 0; i < op->in_count; i++) move(op->in[i], block, place);
  op->note = NULL;
  op_move_before(op, place);
}

static int64_t bytes_of(const Func *f, const Type *t) {
  int64_t threads = (int64_t)f->num_warps * 32;
  return cdiv(type_numel(t), threads) * type_elem_bytes(t);
}

/* Loads after `place` go before it, up to the first operation that none may pass, which `passes` tells. Returns that
 * operation, or NULL at the block's end. */
static Op *raise(Func *f, Block *block, Op *place, int64_t *budget, bool (*passes)(const Op *op)) {
  Op *end = place;
  while (end && passes(end)) end->note = place, end = end->next;
  for (Op *op = place->next, *next; op && op != end; op = next) {
    next = op->next;
    if (op->code != OP_LOAD || op_is_volatile(op) || op->note != (void *)place) continue;
    int64_t bytes = bytes_of(f, op->out[0]->type);
    int left = MAX_MOVED;
    bool can = bytes <= *budget;
    for (int i = 0; i < op->in_count && can; i++) can = mark(op->in[i], block, place, &left);
    if (!can) continue;
    for (int i = 0; i < op->in_count; i++) move(op->in[i], block, place);
    op->note = NULL;
    op_move_before(op, place);
    *budget -= bytes;
  }
  return end;
}

static void clear_note(Op *op, void *arg) { op->note = NULL; }

/* ---- before products --------------------------------------------------------------------------------------------- */

/* Whether it waits for tiles or products, or gives a slot back, and does nothing else. */
static bool is_wait(const Op *op) {
  stack_guard();
  for (int i = 0; op->code == OP_IF && i < 2; i++)
    for (const Op *inner = op->body[i] ? op->body[i]->first : NULL; inner; inner = inner->next)
      if (inner != op->body[i]->last && !is_passable(inner) && !is_wait(inner)) return false;
  return op->code == OP_IF || op->code == OP_RING_FULL || op->code == OP_RING_FREE || op->code == OP_RING_DRAIN ||
         op->code == OP_DOT_WAIT;
}

/* Whether the block holds a product and, besides, what loads may pass alone. */
static bool only_multiplies(const Block *b) {
  bool any = false;
  for (const Op *op = b->first; op; op = op->next) {
    if (is_exchange(op) || op_is_volatile(op)) return false;
    if (op->code != OP_DOT && op != b->last && !is_wait(op) && (op->body[0] || !is_passable(op))) return false;
    any |= op->code == OP_DOT;
  }
  return any;
}

static bool is_short(const Op *loop) {
  int64_t from, to, step;
  return value_is_const(loop->in[0], &from) && value_is_const(loop->in[1], &to) && value_is_const(loop->in[2], &step) &&
         step > 0 && to - from <= SHORT * step;
}

static bool is_product(const Op *op) {
  return op->code == OP_DOT || (op->code == OP_FOR && is_short(op) && only_multiplies(op->body[0]));
}

static bool passes_products(const Op *op) { return is_passable(op) || is_product(op) || is_wait(op); }

static void visit_products(Func *f, const GpuOptions *o, Block *block) {
  int64_t sums = loop_sums(f, block);
  for (const Op *op = block->first; op; op = op->next)
    if (op->code == OP_FOR) sums += loop_sums(f, op->body[0]);
  int64_t budget = 4 * (gpu_thread_registers(f->num_warps) - o->target->budgets->beside_prefetched_dot - sums);
  if (budget > o->target->budgets->hoisted_over_products) budget = o->target->budgets->hoisted_over_products;
  for (Op *op = block->first; op && budget > 0;) {
    Op *next = is_product(op) ? raise(f, block, op, &budget, passes_products) : op->next;
    op = next == op ? op->next : next;
  }
}

static void visit_block(Func *f, const GpuOptions *o, Block *block) {
  stack_guard();
  int64_t budget = o->target->budgets->hoisted_bytes;
  for (Op *op = block->first; op;) {
    for (int i = 0; i < 2; i++)
      if (op->body[i] && !is_exchange(op)) visit_block(f, o, op->body[i]);
    Op *next = is_exchange(op) ? raise(f, block, op, &budget, is_passable) : op->next;
    op = next == op ? op->next : next;
  }
  tile_walk(block, clear_note, NULL);
  if (gpu_has_tensor_cores(o)) visit_products(f, o, block);
}

void gpu_hoist_loads(Func *f, const GpuOptions *o) {
  tile_replace_uses(f);
  tile_walk(f->body, clear_note, NULL);
  visit_block(f, o, f->body);
  tile_walk(f->body, clear_note, NULL);
}
