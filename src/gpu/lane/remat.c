/* Again: cheap values are computed again where they are used, rather than kept in registers around a loop or a barrier.
 *
 *     %row = add %first, 8                      for ... {
 *     %at = mul %row, %stride                     %row = add %first, 8
 *     for ... {                         ->        %at = mul %row, %stride
 *       ... ld [%at + ...]                        ... ld [%at + ...]
 *     }                                         }
 *     ... setp %row, %rows                      %row' = add %first, 8
 *                                               ... setp %row', %rows
 *
 * Addresses, one for each row that a thread loads, and rows of masks stay in registers around loops when what they are
 * made of (the first row, a parameter) would do. Done where registers are short (gpu/pipeline.c). A block is cut into
 * regions by its loops and barriers, a loop with barriers is a region, too: an operation whose results are used in
 * other regions than its own is copied to each of them, if the operands that this keeps alive take no more registers
 * than its results do. From the last operation to the first: what is copied for its users can be copied in turn.
 */
#include "gpu/gpu.h"

/* A use of a value: by `op`, which is, or lies in, the operation `at` of the block. */
typedef struct Use {
  LaneOp *op;
  int operand;
  int at;
  struct Use *next;
} Use; /* operand -1: the guard */

typedef struct Again {
  LaneFunc *f;
  Use **uses;   /* by LaneValue.id */
  int *last;    /* by LaneValue.id: the last use */
  int values;   /* that these have room for */
  LaneOp **at;  /* of the block, from 1 */
  int *region;  /* by position */
  bool *inside; /* by position: a loop that is a region */
} Again;

static bool is_loop(const LaneOp *op) { return op->code == LANE_FOR || op->code == LANE_WHILE; }

static bool has_barrier(const LaneOp *op) {
  stack_guard();
  for (int i = 0; i < 2 && op->body[i]; i++)
    for (const LaneOp *o = op->body[i]->first; o; o = o->next)
      if ((o->code == LANE_BARRIER && !o->warp) || has_barrier(o)) return true;
  return false;
}

static bool is_cheap(const LaneOp *op) {
  switch (op->code) {
    case LANE_ADD:
    case LANE_SUB:
    case LANE_MUL:
    case LANE_MULWIDE:
    case LANE_FMA:
    case LANE_AND:
    case LANE_OR:
    case LANE_XOR:
    case LANE_SHL:
    case LANE_SHR:
    case LANE_SETP:
    case LANE_SELECT:
    case LANE_CVT:
    case LANE_PACK:
    case LANE_UNPACK:
    case LANE_BFE:
    case LANE_MIN:
    case LANE_MAX:
    case LANE_PRMT: return lane_op_is_pure(op);
    default: return false;
  }
}

static int bits_of(const LaneValue *v) {
  if (v->def && (v->def->code == LANE_CONST || v->def->code == LANE_PARAM || v->def->code == LANE_SHARED)) return 0;
  if (!v->def && !v->block->parent) return 0;
  return v->type == LT_PRED ? 4 : v->type == LT_B64 ? 64 : 32;
}

static void add_use(Again *a, const LaneValue *v, LaneOp *op, int operand, int at) {
  if (!v || v->id >= a->values) return;
  Use *u = NEW(a->f->cx->arena, Use);
  *u = (Use){op, operand, at, a->uses[v->id]};
  a->uses[v->id] = u;
  if (at > a->last[v->id]) a->last[v->id] = at;
}

typedef struct Finder {
  Again *a;
  int at;
} Finder;

static void find_uses(LaneOp *op, void *arg) {
  Finder *f = arg;
  for (int i = 0; i < op->in_count; i++) add_use(f->a, op->in[i], op, i, f->at);
  add_use(f->a, op->guard, op, -1, f->at);
}

/* The region of a use, and its operation in the block, or in the body of the loop that is a region. */
static LaneOp *place_of(const Again *a, const Use *u, int *region) {
  LaneOp *top = a->at[u->at], *op = u->op;
  *region = a->region[u->at];
  if (op->block == top->block) return op; /* top, or a copy that is used where top is */
  if (!a->inside[u->at]) return top;
  (*region)++;
  while (op->block->parent != top) op = op->block->parent;
  return op;
}

static bool comes_before(const LaneOp *a, const LaneOp *b) { /* in one block */
  for (; a; a = a->next)
    if (a == b) return true;
  return false;
}

/* A group of asynchronous products reads registers that were written before its fence. */
static LaneOp *before_group(LaneOp *place) {
  LaneOp *op = place;
  while (op->prev && (op->prev->code == LANE_WGMMA || lane_op_is_pure(op->prev))) op = op->prev;
  return op->prev && op->prev->code == LANE_WGMMA_FENCE ? op->prev : place;
}

static LaneOp *copy_before(Again *a, const LaneOp *op, LaneOp *place) {
  LaneBuilder b = lane_builder(a->f);
  LaneBlock alone = {.parent = place->block->parent};
  LaneType types[2];
  for (int i = 0; i < op->out_count; i++) types[i] = op->out[i]->type;
  b.block = &alone;
  b.span = op->span;
  LaneOp proto = *op;
  LaneOp *copy = lane_op_raw(&b, proto, op->in_count, op->in, op->out_count, types);
  lane_remove(copy);
  lane_insert_before(copy, before_group(place));
  return copy;
}

/* Whether copies pay: what they keep alive against what need not be kept. */
static bool pays(const Again *a, const LaneOp *op, int own, int *far) {
  int gain = 0, cost = 0;
  *far = 0;
  for (int i = 0; i < op->out_count; i++) {
    bool away = false;
    for (const Use *u = a->uses[op->out[i]->id]; u; u = u->next) {
      int region;
      place_of(a, u, &region);
      if (region == own) continue;
      away = true;
      if (u->at > *far) *far = u->at;
    }
    if (away) gain += bits_of(op->out[i]);
  }
  for (int i = 0; i < op->in_count; i++)
    if (a->last[op->in[i]->id] < *far) cost += bits_of(op->in[i]);
  return gain > 0 && cost <= gain;
}

static void visit_op(Again *a, LaneOp *op, int position) {
  int own = a->region[position], far;
  if (op->out_count > 2 || !pays(a, op, own, &far)) return;
  for (;;) { /* a region at a time */
    LaneOp *first = NULL;
    int region = 0, at = 0;
    for (int i = 0; i < op->out_count; i++)
      for (const Use *u = a->uses[op->out[i]->id]; u; u = u->next) {
        int s;
        LaneOp *place = place_of(a, u, &s);
        if (s == own || (region && s != region)) continue;
        if (!first || comes_before(place, first)) first = place;
        region = s;
        at = u->at;
      }
    if (!first) return;
    LaneOp *copy = copy_before(a, op, first);
    for (int i = 0; i < op->in_count; i++) add_use(a, op->in[i], copy, i, at);
    for (int i = 0; i < op->out_count; i++)
      for (Use **u = &a->uses[op->out[i]->id]; *u;) {
        int s;
        place_of(a, *u, &s);
        if (s != region) {
          u = &(*u)->next;
          continue;
        }
        if ((*u)->operand < 0) (*u)->op->guard = copy->out[i];
        else (*u)->op->in[(*u)->operand] = copy->out[i];
        *u = (*u)->next;
      }
  }
}

static void visit(Again *a, LaneBlock *block) {
  stack_guard();
  Arena *arena = a->f->cx->arena;
  int n = 0;
  for (LaneOp *op = block->first; op; op = op->next) {
    for (int i = 0; i < 2 && op->body[i]; i++) visit(a, op->body[i]);
    n++;
  }
  a->values = a->f->value_count;
  a->uses = NEW_N(arena, Use *, a->values);
  a->last = NEW_N(arena, int, a->values);
  a->at = NEW_N(arena, LaneOp *, n + 1);
  a->region = NEW_N(arena, int, n + 1);
  a->inside = NEW_N(arena, bool, n + 1);
  n = 0;
  int region = 1;
  for (LaneOp *op = block->first; op; op = op->next) {
    a->at[++n] = op;
    a->region[n] = region;
    a->inside[n] = is_loop(op) && has_barrier(op);
    if (is_loop(op) || op->code == LANE_BARRIER) region += 2; /* one for what is inside */
    Finder f = {a, n};
    find_uses(op, &f);
    for (int i = 0; i < 2 && op->body[i]; i++) lane_walk(op->body[i], find_uses, &f);
  }
  if (region == 1) return;
  for (int i = n; i > 0; i--)
    if (is_cheap(a->at[i])) visit_op(a, a->at[i], i);
}

void lane_rematerialize(LaneFunc *f) {
  Again a = {.f = f};
  visit(&a, f->body);
}
