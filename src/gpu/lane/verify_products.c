/* Whether asynchronous products (wgmma) are right: how a group of them stands in the text, and who may see what they
 * leave.
 *
 *     wgmma_fence                     registers written before are seen by the products; so a's stand before it
 *     %r = wgmma ...                  a group: products, with nothing but pure operations between
 *     wgmma_commit
 *     wgmma_wait {imm=1} ...          until one group, the last, is in flight
 *     %s = wgmma_wait {imm=0} %r      %s may be used by anybody; %r only by products, waits, and where it is handed on
 *
 * A register of a that a loop writes in each iteration is written when the products that read it in the last one are
 * over: a wait stands between.
 *
 * Groups are numbered as they stand. A wait is good for a value whose group is not among the last `imm` ones. What a
 * loop or a branch hands on is of the last group before it is seen: a wait for it lets none in flight.
 */
#include "gpu/lane/table.h"

typedef struct Verifier {
  LaneFunc *f;
  const char *after;
  bool *pending, changed;  /* by id: what products leave that nobody has waited for */
  int *group;              /* by id: of pending ones */
  int *at;                 /* by id: where it is defined, in operations */
  int groups, time, fence; /* so far; fence: where the open group's stands, or -1 */
  bool open;               /* products since the fence */
} Verifier;

static NORETURN void wrong(const Verifier *v, const LaneOp *op, const char *what) {
  diag_fail(v->f->cx, op->span ? *op->span : (Span){0}, "wrong lane IR after %s: '%s': %s", v->after,
            lane_info[op->code].name, what);
}

static void set_pending(Verifier *v, const LaneValue *x, bool pending) {
  if (!pending || v->pending[x->id]) return;
  v->pending[x->id] = v->changed = true;
}

static void find_pending(LaneOp *op, void *arg) {
  Verifier *v = arg;
  const LaneOp *end = op->body[0] ? op->body[0]->last : NULL;
  for (int i = 0; i < op->out_count; i++) {
    if (op->code == LANE_WGMMA) set_pending(v, op->out[i], true);
    if (op->code == LANE_FOR) {
      bool pending = v->pending[op->in[3 + i]->id] || v->pending[end->in[i]->id];
      set_pending(v, op->body[0]->args[1 + i], pending);
      set_pending(v, op->out[i], pending);
    }
    for (int b = 0; op->code == LANE_IF && b < 2; b++)
      set_pending(v, op->out[i], v->pending[op->body[b]->last->in[i]->id]);
  }
}

/* Operands that may be pending: they stay in their registers. */
static bool may_take_pending(const LaneOp *op, int operand) {
  switch (op->code) {
    case LANE_WGMMA: return operand >= lane_wgmma_inputs(op);
    case LANE_FOR: return operand >= 3;
    case LANE_WGMMA_WAIT:
    case LANE_YIELD: return true;
    default: return false;
  }
}

static void check_operands(const Verifier *v, const LaneOp *op) {
  for (int i = 0; i < op->in_count; i++) {
    const LaneValue *x = op->in[i];
    if (!v->pending[x->id]) continue;
    if (!may_take_pending(op, i)) wrong(v, op, "an operand is the result of a product that nobody has waited for");
    if (op->code == LANE_WGMMA_WAIT && v->group[x->id] >= v->groups - op->imm)
      wrong(v, op, "the product whose result it hands on may still be in flight");
  }
}

static void check_product(Verifier *v, const LaneOp *op) {
  int n = lane_wgmma_inputs(op); /* 5: the first four are a's registers */
  if (v->fence < 0) wrong(v, op, "no wgmma_fence begins its group");
  v->open = true;
  for (int i = 0; i < op->in_count; i++)
    if ((i < n ? n == 5 && i < 4 : !v->pending[op->in[i]->id]) && v->at[op->in[i]->id] > v->fence)
      wrong(v, op, "a register that it reads is written after the wgmma_fence");
}

/* Whether a wait from `op` on, before `end`, is good for a group that *after others have followed so far. */
static bool is_over(const LaneOp *op, const LaneOp *end, int *after) {
  for (; op && op != end; op = op->next) {
    if (op->code == LANE_WGMMA_COMMIT) ++*after;
    if (op->code == LANE_WGMMA_WAIT && *after >= op->imm) return true;
  }
  return false;
}

/* The product's words that its own loop's body makes anew. */
static void check_words(const Verifier *v, const LaneOp *op) {
  const LaneOp *loop = op->block->parent, *commit = op;
  if (!loop || loop->code != LANE_FOR || lane_wgmma_inputs(op) != 5) return;
  while (commit && commit->code != LANE_WGMMA_COMMIT) commit = commit->next;
  for (int i = 0; i < 4 && commit; i++) {
    const LaneOp *def = op->in[i]->def;
    int after = 0;
    if (!def || def->block != op->block) continue;
    if (!is_over(commit->next, NULL, &after) && !is_over(op->block->first, def, &after))
      wrong(v, op, "the next iteration writes a register that it may still read");
  }
}

static void define(Verifier *v, const LaneValue *x, int group) {
  v->at[x->id] = v->time;
  v->group[x->id] = group;
}

static void check_block(Verifier *v, const LaneBlock *block) {
  stack_guard();
  for (const LaneOp *op = block->first; op; op = op->next) {
    v->time++;
    check_operands(v, op);
    switch (op->code) {
      case LANE_WGMMA_FENCE:
        if (v->open) wrong(v, op, "products before it are in no group");
        v->fence = v->time;
        break;
      case LANE_WGMMA:
        check_product(v, op);
        check_words(v, op);
        break;
      case LANE_WGMMA_COMMIT:
        v->groups++;
        v->fence = -1;
        v->open = false;
        break;
      default:
        if (v->open && !lane_op_is_pure(op)) wrong(v, op, "products before it are in no group");
        if (!lane_op_is_pure(op)) v->fence = -1;
    }
    for (int b = 0; b < 2 && op->body[b]; b++) {
      for (int i = 0; i < op->body[b]->arg_count; i++) define(v, op->body[b]->args[i], v->groups - 1);
      check_block(v, op->body[b]);
    }
    for (int i = 0; i < op->out_count; i++) define(v, op->out[i], v->groups - (op->code == LANE_WGMMA ? 0 : 1));
  }
}

static void find_product(LaneOp *op, void *arg) {
  if (op->code == LANE_WGMMA) *(bool *)arg = true;
}

void lane_verify_products(LaneFunc *f, const char *after) {
  Verifier v = {.f = f, .after = after, .fence = -1};
  bool any = false;
  lane_walk(f->body, find_product, &any);
  if (!any) return;
  v.pending = NEW_N(f->cx->arena, bool, f->value_count);
  v.group = NEW_N(f->cx->arena, int, f->value_count);
  v.at = NEW_N(f->cx->arena, int, f->value_count);
  do {
    v.changed = false;
    lane_walk(f->body, find_pending, &v);
  } while (v.changed);
  check_block(&v, f->body);
}
