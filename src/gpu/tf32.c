/* How many products whose operands are cut to tf32 a result of the kernel may have gone through, one after the other.
 *
 *     s = dot(q, k)             1
 *     o = dot(exp(s), v, o)     2: an operand is a result.  The accumulator adds its own chain, not one more
 *
 * Each cuts 2^-11 of its operands off, so that errors add up along such a chain. Of a loop that takes its own results
 * for operands (powers of a matrix) PASSES iterations are followed.
 */
#include "gpu/gpu.h"

enum { PASSES = 8 };

typedef struct Chains {
  Map *length; /* Value* -> products before it; absent: 0 */
  intptr_t longest;
  bool changed;
} Chains;

static intptr_t length_of(const Chains *c, const Value *v) { return (intptr_t)map_get(c->length, v); }

static void raise(Chains *c, Value *v, intptr_t length) {
  if (length <= length_of(c, v)) return;
  map_put(c->length, v, (void *)length);
  c->changed = true;
  if (length > c->longest) c->longest = length;
}

static intptr_t of_operands(const Chains *c, const Op *op) {
  intptr_t most = 0;
  for (int i = 0; i < op->in_count; i++)
    if (length_of(c, op->in[i]) > most) most = length_of(c, op->in[i]);
  if (op->code != OP_DOT || op->in[0]->type->dtype != DT_F32 || op->precision != PRECISION_TF32) return most;
  intptr_t a = length_of(c, op->in[0]), b = length_of(c, op->in[1]), longer = (a > b ? a : b) + 1;
  return longer > most ? longer : most;
}

static void visit_block(Chains *c, const Block *b);

/* A `for`, `while` or `if`: values go from its operands to its bodies' arguments, from there to its results and, of a
 * loop, round again. */
static void visit_control(Chains *c, const Op *op) {
  int skip = control_skip(op);
  for (int i = 0; i < op->out_count; i++)
    if (op->code != OP_IF) raise(c, op->out[i], length_of(c, op->in[skip + i]));
  for (int r = 0; r < 2 && op->body[r]; r++) {
    const Block *body = op->body[r];
    int first = op->code == OP_FOR;
    for (int i = first; i < body->arg_count; i++) raise(c, body->args[i], length_of(c, op->out[i - first]));
    visit_block(c, body);
    if (body->last->in_count != op->out_count) continue; /* the condition of a `while` */
    for (int i = 0; i < op->out_count; i++) raise(c, op->out[i], length_of(c, body->last->in[i]));
  }
}

static void visit_block(Chains *c, const Block *b) {
  stack_guard();
  for (Op *op = b->first; op; op = op->next) {
    if (op->code == OP_FOR || op->code == OP_WHILE || op->code == OP_IF) {
      visit_control(c, op);
      continue;
    }
    intptr_t length = of_operands(c, op);
    for (int i = 0; i < op->out_count; i++) raise(c, op->out[i], length);
  }
}

int gpu_tf32_chain(const Func *f, const GpuOptions *o) {
  if (!gpu_has_tensor_cores(o)) return 0;
  Chains c = {.length = map_create(f->cx->arena, false), .changed = true};
  for (int pass = 0; pass < PASSES && c.changed; pass++) {
    c.changed = false;
    visit_block(&c, f->body);
  }
  return (int)c.longest;
}
