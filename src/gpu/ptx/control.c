/* Structured control into labels and branches.
 *
 * A carried value keeps one register through its loop: the body's argument, what the next iteration gets, and the
 * loop's result (ptx/share.c). So an iteration ends with a parallel copy of what was yielded into those registers, in
 * which one may be the source of another: a swap needs a third register. The copies are put in an order in which
 * nothing is overwritten before it is read; cycles are opened with one spare register each. The time is linear in the
 * number of values.
 *
 *     for lb, ub, step        while             if
 *       iv = lb; carried      $loop: body 0     @!p bra $else
 *       @!(iv < ub) bra $end    @!p bra $end    then; results
 *     $loop:                    body 1          bra $end
 *       body; carried           carried       $else: else; results
 *       iv += step              bra $loop     $end:
 *       @(iv < ub) bra $loop  $end:
 *     $end:
 *
 * What a `while` condition hands on needs no copies: body 1 and the results lie in the registers of the condition's
 * operands, which nothing changes before they are read.
 */
#include "gpu/ptx/ptx.h"

typedef struct PtxCopy { /* of the value with this id, while a parallel copy is under way */
  const LaneValue *from; /* what it must get; NULL: nothing */
  int readers;           /* copies yet to come that read it */
  bool done;
} PtxCopy;

/* ---- parallel copies --------------------------------------------------------------------------------------------- */

static void copy_one(Ptx *p, const LaneValue *to, const LaneValue *from) {
  if (ptx_value(p, to) == ptx_value(p, from)) return;
  ptx_move(p, to->type, NULL, ptx_reg(p, to), ptx_arg(p, from, lane_bits_kind(to->type)));
}

/* to[i] <- from[i] for all i at once. `to` are distinct values with registers of their own. */
static void copy_all(Ptx *p, int n, LaneValue *const *to, LaneValue *const *from) {
  const LaneValue **ready = NEW_N(p->cx->arena, const LaneValue *, n + 1);
  PtxCopy *copies = p->copies;
  int ready_count = 0;
  for (int i = 0; i < n; i++) {
    const LaneValue *d = ptx_value(p, to[i]), *s = ptx_value(p, from[i]);
    copies[d->id].from = d == s ? NULL : s;
    copies[d->id].done = d == s;
    if (d != s) copies[s->id].readers++;
  }
  for (int i = 0; i < n; i++) {
    const LaneValue *d = ptx_value(p, to[i]);
    if (copies[d->id].from && !copies[d->id].readers) ready[ready_count++] = d;
  }
  for (int i = 0; i <= n; i++) {
    while (ready_count) {
      const LaneValue *d = ready[--ready_count], *s = copies[d->id].from;
      copy_one(p, d, s);
      copies[d->id].done = true;
      if (--copies[s->id].readers == 0 && copies[s->id].from && !copies[s->id].done) ready[ready_count++] = s;
    }
    if (i == n) break;
    const LaneValue *d = ptx_value(p, to[i]);
    if (copies[d->id].done) continue;
    /* Only cycles are left: d is read by exactly one copy. Keep what it holds, let it be overwritten, and go round from
     * there. */
    Arg spare = ptx_fresh(p, d->type);
    ptx_move(p, d->type, NULL, spare, ptx_reg(p, d));
    const LaneValue *at = d;
    for (;;) {
      const LaneValue *s = copies[at->id].from;
      copies[at->id].done = true;
      if (s == d) {
        ptx_move(p, at->type, NULL, ptx_reg(p, at), spare);
        break;
      }
      copy_one(p, at, s);
      at = s;
    }
  }
  for (int i = 0; i < n; i++) {
    copies[ptx_value(p, to[i])->id] = (PtxCopy){0};
    copies[ptx_value(p, from[i])->id] = (PtxCopy){0};
  }
}

static void copy_scratch(Ptx *p) {
  if (!p->copies) p->copies = NEW_N(p->cx->arena, PtxCopy, p->f->value_count + 1);
}

/* ---- labels and branches ----------------------------------------------------------------------------------------- */

static void put_label(Ptx *p, const char *name, int number) {
  put(p, "$");
  put(p, name);
  ptx_put_int(p, number);
}

void ptx_label(Ptx *p, const char *name, int number) {
  put_label(p, name, number);
  put(p, ":\n");
}

void ptx_branch(Ptx *p, const Arg *pred, bool not, bool uniform, const char *name, int number) {
  put(p, "\t");
  if (pred) {
    put(p, not ? "@!" : "@");
    put(p, pred->s);
    put(p, " ");
  }
  put(p, uniform ? "bra.uni " : "bra ");
  put_label(p, name, number);
  put(p, ";\n");
}

/* ---- the three --------------------------------------------------------------------------------------------------- */

void ptx_block(Ptx *p, const LaneBlock *b) {
  stack_guard();
  for (const LaneOp *op = b->first; op; op = op->next) {
    if (op->code == LANE_YIELD || op->code == LANE_CONDITION) return;
    p->print_op(p, op);
  }
}

/* Whether the loop is known to run at least once. */
static bool runs_once(LaneKind k, const LaneValue *lb, const LaneValue *ub, bool down) {
  uint64_t x, y;
  if (!ptx_const(lb, &x) || !ptx_const(ub, &y)) return false;
  bool wide = lane_kind_info[k].bits == 64, is_signed = k == LK_S32 || k == LK_S64;
  if (!is_signed) return down ? x > y : x < y;
  int64_t a = wide ? (int64_t)x : (int32_t)x, b = wide ? (int64_t)y : (int32_t)y;
  return down ? a > b : a < b;
}

static void test(Ptx *p, LaneKind k, bool down, Arg pred, Arg iv, Arg ub) {
  ptx_open(p, NULL, down ? "setp.gt." : "setp.lt.");
  put(p, lane_kind_info[k].name);
  ptx_args_of(p, pred, iv, ub);
}

/* Whether all that the block does to memory is to load from it, and nothing in it waits for others. */
static bool only_loads(const LaneBlock *b, bool *from_global) {
  stack_guard();
  for (const LaneOp *op = b->first; op; op = op->next) {
    if (op->code == LANE_LD ? op->is_volatile : op->code != LANE_IF && op->code != LANE_YIELD && !lane_op_is_pure(op))
      return false;
    *from_global |= op->code == LANE_LD && op->space == SPACE_GLOBAL;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && !only_loads(op->body[i], from_global)) return false;
  }
  return true;
}

/* Whether the loop runs a few times, known here, over a few operations, loads among them, in which nobody meets. */
static bool is_short(const LaneOp *op) {
  enum { MOST_ITERATIONS = 8, MOST_OPS = 64 };
  uint64_t from, to, by;
  int ops = 0;
  bool loads = false;
  if (op->kind != LK_S32 || !ptx_const(op->in[0], &from) || !ptx_const(op->in[1], &to) || !ptx_const(op->in[2], &by))
    return false;
  int64_t step = (int32_t)by, way = (int64_t)(int32_t)to - (int32_t)from;
  if (step <= 0 || way <= 0 || (way + step - 1) / step > MOST_ITERATIONS) return false;
  for (const LaneOp *o = op->body[0]->first; o; o = o->next, ops++) {
    bool accesses = (o->code == LANE_LD || o->code == LANE_ST) && o->space == SPACE_GLOBAL && !o->is_volatile;
    if (!accesses && o->code != LANE_YIELD && !lane_op_is_pure(o)) return false;
    loads |= o->code == LANE_LD;
  }
  return loads && ops <= MOST_OPS;
}

/* The assembler unrolls no loop whose branch back is `bra.uni`. One that only loads it may unroll by four: then the
 * loads of four iterations are under way at once, where each iteration would wait for its own. And one of few
 * iterations it unrolls whole: then addresses are constants apart. */
static bool may_unroll(const LaneOp *op) {
  bool from_global = false;
  return op->unroll != 1 && ((only_loads(op->body[0], &from_global) && from_global) || is_short(op));
}

/* Loads of a block, and the registers that they fill. */
static void count_loads(const LaneBlock *b, int *loads, int *words) {
  stack_guard();
  for (const LaneOp *op = b->first; op; op = op->next) {
    if (op->code == LANE_LD && op->space == SPACE_GLOBAL) *loads += 1, *words += op->out_count;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) count_loads(op->body[i], loads, words);
  }
}

/* Whether all that the block does to global memory is to load from it; its threads may meet. */
static bool changes_nothing(const LaneBlock *b) {
  stack_guard();
  for (const LaneOp *op = b->first; op; op = op->next) {
    bool meets = op->code == LANE_BARRIER || op->code == LANE_SHFL || op->code == LANE_VOTE,
         loads = op->code == LANE_LD && !op->is_volatile, shares = op->code == LANE_ST && op->space == SPACE_SHARED;
    if (!meets && !loads && !shares && op->code != LANE_IF && op->code != LANE_YIELD && !lane_op_is_pure(op))
      return false;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && !changes_nothing(op->body[i])) return false;
  }
  return true;
}

/* Whether the loop is a stream of many loads, of 8 bytes at most: then notes what registers it wants. So does one of a
 * large tile (a product of a matrix and a vector), all of which is to be under way before its sums are taken. */
static void find_stream(Ptx *p, const LaneOp *op) {
  const GpuBudgets *budgets = p->target->budgets;
  bool from_global = false;
  int loads = 0, words = 0;
  count_loads(op->body[0], &loads, &words);
  int wanted = op->out_count + words + budgets->beside_streamed;
  if (words >= budgets->streamed_tile && changes_nothing(op->body[0]) && wanted > p->tile_streamed)
    p->tile_streamed = wanted;
  if (!only_loads(op->body[0], &from_global)) return;
  if (loads >= budgets->streamed && words <= 2 * loads && wanted > p->streamed) p->streamed = wanted;
}

void ptx_for(Ptx *p, const LaneOp *op) {
  copy_scratch(p);
  LaneKind k = op->kind;
  LaneBlock *body = op->body[0];
  int n = op->out_count, number = ++p->labels;
  uint64_t step_bits;
  bool down = ptx_const(op->in[2], &step_bits) &&
              (k == LK_S32 ? (int32_t)step_bits < 0 : k == LK_S64 && (int64_t)step_bits < 0);
  bool once = runs_once(k, op->in[0], op->in[1], down);
  LaneValue *iv = body->args[0];
  for (int i = 0; i < n; i++) copy_one(p, body->args[i + 1], op->in[i + 3]);
  ptx_move(p, iv->type, NULL, ptx_reg(p, iv), ptx_arg(p, op->in[0], k));
  Arg pred = ptx_fresh(p, LT_PRED), ub = ptx_arg(p, op->in[1], k);
  if (!once) {
    test(p, k, down, pred, ptx_reg(p, iv), ub);
    ptx_branch(p, &pred, true, op->uniform, "end", number);
  }
  ptx_label(p, "loop", number);
  find_stream(p, op);
  if (op->unroll == 1) put(p, "\t.pragma \"nounroll\";\n");
  ptx_block(p, body);
  if (n) copy_all(p, n, body->args + 1, body->last->in);
  ptx_open(p, NULL, "add.");
  put(p, lane_kind_info[k].name);
  ptx_args_of(p, ptx_reg(p, iv), ptx_reg(p, iv), ptx_arg(p, op->in[2], k));
  test(p, k, down, pred, ptx_reg(p, iv), ub);
  ptx_branch(p, &pred, false, op->uniform && !may_unroll(op), "loop", number);
  if (!once) ptx_label(p, "end", number);
}

void ptx_while(Ptx *p, const LaneOp *op) {
  copy_scratch(p);
  LaneBlock *before = op->body[0], *after = op->body[1];
  int number = ++p->labels;
  for (int i = 0; i < before->arg_count; i++) copy_one(p, before->args[i], op->in[i]);
  ptx_label(p, "loop", number);
  ptx_block(p, before);
  const LaneOp *condition = before->last;
  for (int i = 1; i < condition->in_count; i++) {
    if (i <= after->arg_count) p->same[after->args[i - 1]->id] = condition->in[i];
    if (i <= op->out_count) p->same[op->out[i - 1]->id] = condition->in[i];
  }
  Arg pred = ptx_reg(p, condition->in[0]);
  ptx_branch(p, &pred, true, op->uniform, "end", number);
  ptx_block(p, after);
  if (before->arg_count) copy_all(p, before->arg_count, before->args, after->last->in);
  ptx_branch(p, NULL, false, true, "loop", number);
  ptx_label(p, "end", number);
}

static void results(Ptx *p, const LaneOp *op, const LaneBlock *body) {
  copy_scratch(p);
  if (op->out_count) copy_all(p, op->out_count, op->out, body->last->in);
}

static bool is_empty(const LaneBlock *b) { return !b->first || b->first->code == LANE_YIELD; }

/* The block's wait for a phase, where nothing else is in it that has effects. */
static const LaneOp *lone_wait(const LaneBlock *b) {
  const LaneOp *wait = NULL;
  for (const LaneOp *op = b->first; op && op->code != LANE_YIELD; op = op->next) {
    if (op->code != LANE_MBAR_WAIT && !lane_op_is_pure(op)) return NULL;
    if (wait) return NULL;
    if (op->code == LANE_MBAR_WAIT) wait = op;
  }
  return wait;
}

void ptx_if(Ptx *p, const LaneOp *op) {
  const LaneOp *wait = op->out_count == 0 && is_empty(op->body[1]) ? lone_wait(op->body[0]) : NULL;
  if (wait) { /* a loop that is left at once, over which the assembler moves as little as over any other wait */
    for (const LaneOp *inner = op->body[0]->first; inner != wait; inner = inner->next) p->print_op(p, inner);
    ptx_wait(p, wait, op->in[0]);
    return;
  }
  int number = ++p->labels;
  Arg pred = ptx_reg(p, op->in[0]);
  bool nothing = op->out_count == 0 && is_empty(op->body[1]);
  if (op->out_count == 0 && is_empty(op->body[0])) {
    if (nothing) return;
    ptx_branch(p, &pred, false, op->uniform, "end", number);
    ptx_block(p, op->body[1]);
    ptx_label(p, "end", number);
    return;
  }
  ptx_branch(p, &pred, true, op->uniform, nothing ? "end" : "else", number);
  ptx_block(p, op->body[0]);
  results(p, op, op->body[0]);
  if (!nothing) {
    ptx_branch(p, NULL, false, true, "end", number);
    ptx_label(p, "else", number);
    ptx_block(p, op->body[1]);
    results(p, op, op->body[1]);
  }
  ptx_label(p, "end", number);
}
