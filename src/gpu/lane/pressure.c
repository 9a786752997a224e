/* How many registers a thread would need: the most that hold something at once, in the order in which the operations
 * stand.
 *
 * The walk goes backwards and keeps the set of values that something after still reads. A loop keeps all that it reads
 * from outside for all of its iteration. The assembler orders operations anew within a block, so it may need fewer, or
 * a few more for vectors that must lie side by side; but over barriers and loops it moves little, and there the peaks
 * are.
 */
#include "gpu/gpu.h"

typedef struct Pressure {
  const LaneFunc *f;
  bool *live;     /* by LaneValue.id */
  int bits, most; /* of registers */
} Pressure;

/* Constants, parameters and the places of buffers stand in the instructions; predicates have registers of their own. */
static int bits_of(const LaneValue *v) {
  if (v->def && (v->def->code == LANE_CONST || v->def->code == LANE_PARAM || v->def->code == LANE_SHARED)) return 0;
  if (!v->def && !v->block->parent) return 0;
  return v->type == LT_PRED ? 0 : v->type == LT_B16 ? 16 : v->type == LT_B32 ? 32 : 64;
}

static void add(Pressure *p, const LaneValue *v) {
  if (p->live[v->id]) return;
  p->live[v->id] = true;
  p->bits += bits_of(v);
  if (p->bits > p->most) p->most = p->bits;
}

static void take(Pressure *p, const LaneValue *v) {
  if (!p->live[v->id]) return;
  p->live[v->id] = false;
  p->bits -= bits_of(v);
}

static bool inside(const LaneBlock *b, const LaneOp *loop) {
  for (; b; b = b->parent ? b->parent->block : NULL)
    if (b->parent == loop) return true;
  return false;
}

/* What a loop reads from outside. */
typedef struct Outside {
  Pressure *p;
  const LaneOp *loop;
} Outside;

static void add_outside(LaneOp *op, void *arg) {
  Outside *o = arg;
  for (int i = 0; i <= op->in_count; i++) {
    const LaneValue *v = i < op->in_count ? op->in[i] : op->guard;
    if (v && !inside(v->def ? v->def->block : v->block, o->loop)) add(o->p, v);
  }
}

static void walk(Pressure *p, const LaneBlock *block);

static void walk_bodies(Pressure *p, const LaneOp *op) {
  bool is_loop = op->code == LANE_FOR || op->code == LANE_WHILE;
  Outside outside = {p, op};
  if (is_loop)
    for (int i = 0; i < 2 && op->body[i]; i++) lane_walk(op->body[i], add_outside, &outside);
  /* of a branch: what either reads is taken to be read by both, which is a little too much */
  for (int i = 1; i >= 0; i--) {
    if (!op->body[i]) continue;
    walk(p, op->body[i]);
    for (int k = 0; k < op->body[i]->arg_count; k++) take(p, op->body[i]->args[k]);
  }
}

static void walk(Pressure *p, const LaneBlock *block) {
  stack_guard();
  for (const LaneOp *op = block->last; op; op = op->prev) {
    for (int i = 0; i < op->out_count; i++) add(p, op->out[i]); /* also what nobody reads is written somewhere */
    for (int i = 0; i < op->out_count; i++) take(p, op->out[i]);
    if (op->body[0]) walk_bodies(p, op);
    for (int i = 0; i < op->in_count; i++) add(p, op->in[i]);
    if (op->guard) add(p, op->guard);
  }
}

int lane_pressure(const LaneFunc *f) {
  Pressure p = {.f = f, .live = NEW_N(f->cx->arena, bool, f->value_count + 1)};
  walk(&p, f->body);
  return (p.most + 31) / 32;
}
