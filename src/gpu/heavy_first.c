/* Programs with more to do begin first.
 *
 *     %p = program_id {axis=0}                     %p = num_programs {axis=0} - 1 - program_id {axis=0}
 *     for %i = %zero to min(%n, (%p + 1) * 128) ->  for ...
 *
 * Blocks begin in the order of their numbers, and the last ones run while others have nothing left to do. Where a
 * loop's end grows with the program's number along x (causal attention), programs are counted from the other end, so
 * that those are short. Not done where who a program is, or when it runs, matters (gpu_cannot_persist).
 */
#include "gpu/loop.h"

typedef struct Heavy {
  Func *f;
  bool grows, shrinks; /* some loop's length, with the number */
} Heavy;

/* 1: v grows with the program's number along x, or stays; -1: it shrinks; 0: it does not depend on it. 2: unknown. */
enum { UNKNOWN = 2 };

static int direction(const Value *v, int depth);

static int both(int x, int y) {
  if (!x || !y || x == y) return x ? x : y;
  return UNKNOWN;
}

static int turned(int x) { return x == UNKNOWN ? x : -x; }

static int times(const Op *op, int k, int depth) {
  int64_t factor;
  int x = direction(op->in[k], depth);
  if (!x) return 0;
  return value_is_const(op->in[!k], &factor) ? factor < 0 ? turned(x) : x : UNKNOWN;
}

static int direction(const Value *v, int depth) {
  const Op *op = v->def;
  if (!op || v->type->rank) return 0;
  if (!depth) return UNKNOWN;
  switch (op->code) {
    case OP_PROGRAM_ID: return op->axis == 0;
    case OP_CONVERT:
    case OP_HINT: return direction(op->in[0], depth - 1);
    case OP_ADD:
    case OP_MIN:
    case OP_MAX: return both(direction(op->in[0], depth - 1), direction(op->in[1], depth - 1));
    case OP_SUB: return both(direction(op->in[0], depth - 1), turned(direction(op->in[1], depth - 1)));
    case OP_MUL: return both(times(op, 0, depth - 1), times(op, 1, depth - 1));
    case OP_DIV: return times(op, 0, depth - 1);
    default: break;
  }
  for (int i = 0; i < op->in_count; i++)
    if (direction(op->in[i], depth - 1)) return UNKNOWN;
  return 0;
}

static void find_loops(Op *op, void *arg) {
  enum { DEPTH = 12 };
  Heavy *p = arg;
  if (op->code != OP_FOR || loop_leads_down(op)) return;
  int length = both(direction(op->in[1], DEPTH), turned(direction(op->in[0], DEPTH)));
  p->grows |= length == 1;
  p->shrinks |= length == -1 || length == UNKNOWN;
}

static void count_backwards(Op *op, void *arg) {
  Heavy *p = arg;
  if (op->code != OP_PROGRAM_ID || op->axis != 0) return;
  Builder b = {.func = p->f, .block = op->block, .before = op->next, .span = op->span};
  const Type *t = op->out[0]->type;
  Value *count = build_op(&b, OP_NUM_PROGRAMS, 0, NULL, 1, &t)->out[0], *last, *number;
  count->axis = op->out[0]->axis;
  last = build_binary(&b, OP_SUB, count, build_int(&b, t, 1));
  Op *left = build_binary(&b, OP_SUB, last, op->out[0])->def;
  number = build_binary(&b, OP_MAX, left->out[0], build_int(&b, t, 0)); /* who asks sees that it is no less */
  last->axis = left->out[0]->axis = number->axis = op->out[0]->axis;
  number->name = op->out[0]->name;
  loop_replace_but(p->f->body, op->out[0], number->def);
  left->in[1] = op->out[0];
}

void gpu_heavy_first(Func *f, const GpuOptions *o) {
  Heavy p = {.f = f};
  tile_replace_uses(f);
  if (gpu_cannot_persist(f, o)) return;
  tile_walk(f->body, find_loops, &p);
  if (p.grows && !p.shrinks) tile_walk(f->body, count_backwards, &p);
}
