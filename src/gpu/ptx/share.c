/* Which values of a loop share a register, so that iterations end with few copies.
 *
 *     for ... carrying %acc from %start            before the loop nothing, if %start is not needed again: %acc lies
 *                                                  in its register
 *       %next = fma %a, %b, %acc                   writes %acc's register, if %acc is not needed after it
 *       yield %next                                then nothing is left to copy
 *
 * An accumulator of nested loops keeps one register through all of them. ptxas would find this out, but takes its time
 * over each copy.
 *
 * Decided before anything is printed, inner loops first. Operations are numbered in the order of the text; a value's
 * last use is the number of the last operation that takes it, or, when that stands in a loop or branch deeper than the
 * value, that loop's end.
 *
 *   start     A carried value begins in the register of what it starts from, when that was made in the block around the
 * loop (not outside, where a further iteration of an outer loop would want it again) and the loop is all that still
 * takes it, once. next      What is yielded is written into the carried value's register, when it is made in the body's
 * own block by an operation of one instruction, after the last use of the carried value.
 *
 *     %t = if %all { yield %s } else { yield select %seen, %s, %low }      the first branch has nothing to copy
 *
 *   branch    A result lies where one branch finds it, when that was made in the block around and nobody takes it
 * after the branches.
 */
#include "gpu/ptx/ptx.h"

/* the number of the last operation that takes a value, how often that one does */
typedef struct Use {
  int last, times;
} Use;

typedef struct Share {
  Ptx *p;
  Use *uses;  /* by value id */
  int *begin; /* by value id: the number of the operation that makes it */
  int *end;   /* the same: of its end, where it has bodies */
  int *last;  /* by value id: the last use of all that lie in its register, once it has been given away */
  int position;
} Share;

static const LaneBlock *home(const LaneValue *v) { return v->def ? v->def->block : v->block; }

static void use(Share *s, const LaneValue *v, int at) {
  Use *u = &s->uses[v->id];
  if (u->last == at) u->times++;
  else if (at > u->last) *u = (Use){at, 1};
}

/* Numbers the block's operations from s->position on. `outside`: what they and those in them take from around. */
typedef struct Taken {
  VEC(const LaneValue *) list;
} Taken;

static void number_block(Share *s, const LaneBlock *b, Taken *outside) {
  stack_guard();
  Arena *arena = s->p->cx->arena;
  for (const LaneOp *op = b->first; op; op = op->next) {
    int at = ++s->position;
    for (int i = 0; i <= op->in_count; i++) {
      const LaneValue *v = i < op->in_count ? op->in[i] : op->guard;
      if (!v) continue;
      use(s, v, at);
      if (outside && home(v) != b) vec_push(arena, &outside->list, v);
    }
    for (int i = 0; i < op->out_count; i++) s->begin[op->out[i]->id] = at;
    if (!op->body[0]) continue;
    Taken inside = {0};
    for (int k = 0; k < 2 && op->body[k]; k++) number_block(s, op->body[k], &inside);
    int end = ++s->position;
    for (int i = 0; i < op->out_count; i++) s->end[op->out[i]->id] = end;
    for (int i = 1; i < 3 && op->code == LANE_FOR; i++)
      use(s, op->in[i], end); /* every iteration asks for bound and step */
    for (int i = 0; i < inside.list.n; i++) {
      const LaneValue *v = inside.list.at[i];
      use(s, v, end);
      if (outside && home(v) != b) vec_push(arena, &outside->list, v);
    }
  }
}

/* Whether it prints as one instruction that reads its operands before it writes. */
static bool is_plain(const LaneOp *op) {
  if (op->guard) return false;
  switch (op->code) {
    case LANE_FMA:
    case LANE_ADD:
    case LANE_SUB:
    case LANE_MUL: return true;
    case LANE_MIN:
    case LANE_MAX: return op->kind == LK_F32 || op->kind == LK_S32 || op->kind == LK_U32;
    default: return false;
  }
}

static int last_of(const Share *s, const LaneValue *v) {
  int own = s->uses[v->id].last;
  return own > s->last[v->id] ? own : s->last[v->id];
}

/* v lies in the register of `in` from now on. */
static void lay(Share *s, const LaneValue *v, const LaneValue *in) {
  Ptx *p = s->p;
  int last = last_of(s, v);
  p->same[v->id] = in;
  in = ptx_value(p, in);
  if (last > s->last[in->id]) s->last[in->id] = last;
}

/* Parameters are set elsewhere, constants have no register, and what a `while` hands on may lie in that of a value from
 * outside. */
static bool may_be_overwritten(const LaneValue *v) {
  uint64_t bits;
  if (ptx_const(v, &bits)) return false;
  if (v->def) return v->def->code != LANE_WHILE;
  return v->block->parent && v->block->parent->code == LANE_FOR && v->index > 0;
}

static void begin_in_place(Share *s, const LaneOp *loop) {
  for (int i = 0; i < loop->out_count; i++) {
    const LaneValue *v = loop->in[3 + i], *arg = loop->body[0]->args[1 + i];
    const Use *u = &s->uses[v->id];
    lay(s, loop->out[i], arg);
    if (home(v) == loop->block && may_be_overwritten(v) && u->last == s->begin[loop->out[i]->id] && u->times == 1)
      lay(s, arg, v);
  }
}

static void next_in_place(Share *s, const LaneOp *loop) {
  const LaneBlock *body = loop->body[0];
  for (int i = 0; i < loop->out_count; i++) {
    const LaneValue *arg = body->args[1 + i], *next = ptx_value(s->p, body->last->in[i]);
    if (next == arg || !next->def || next->def->block != body || !is_plain(next->def)) continue;
    if (last_of(s, arg) <= s->begin[next->id]) lay(s, next, arg);
  }
}

static bool is_taken(const Share *s, const LaneOp *branch, int count, const LaneValue *place) {
  for (int i = 0; i < count; i++)
    if (ptx_value(s->p, branch->out[i]) == place) return true;
  return false;
}

static void branch_in_place(Share *s, const LaneOp *branch) {
  for (int i = 0; i < branch->out_count; i++)
    for (int k = 0; k < 2; k++) {
      const LaneValue *v = branch->body[k]->last->in[i], *place = ptx_value(s->p, v), *out = branch->out[i];
      int last = last_of(s, v) > last_of(s, place) ? last_of(s, v) : last_of(s, place);
      if (home(v) != branch->block || !may_be_overwritten(v) || !may_be_overwritten(place)) continue;
      if (last > s->end[out->id] || is_taken(s, branch, i, place)) continue;
      lay(s, out, v);
      break;
    }
}

/* A product's results, and a wait's, lie where its accumulators lay, where nobody else needs those any more: copies
 * would make the assembler wait for each product. */
static void tie(Share *s, const LaneOp *op) {
  int first = op->code == LANE_WGMMA ? lane_wgmma_inputs(op) : 0;
  for (int i = 0; first < op->in_count && i < op->out_count; i++) {
    const LaneValue *in = op->in[first + i];
    const Use *u = &s->uses[in->id];
    if (home(in) == op->block && may_be_overwritten(in) && u->last == s->begin[op->out[i]->id] && u->times == 1)
      lay(s, op->out[i], in);
  }
}

static void visit_block(Share *s, const LaneBlock *b) {
  stack_guard();
  for (const LaneOp *op = b->first; op; op = op->next) {
    if (op->code == LANE_WGMMA || op->code == LANE_WGMMA_WAIT || op->code == LANE_TMEM_WAIT_LD) tie(s, op);
    for (int k = 0; k < 2 && op->body[k]; k++) visit_block(s, op->body[k]);
    if (op->code == LANE_IF) branch_in_place(s, op);
    if (op->code != LANE_FOR) continue;
    next_in_place(s, op);
    begin_in_place(s, op);
  }
}

void ptx_share(Ptx *p) {
  Share s = {.p = p};
  s.uses = NEW_N(p->cx->arena, Use, p->f->value_count + 1);
  s.begin = NEW_N(p->cx->arena, int, p->f->value_count + 1);
  s.end = NEW_N(p->cx->arena, int, p->f->value_count + 1);
  s.last = NEW_N(p->cx->arena, int, p->f->value_count + 1);
  number_block(&s, p->f->body, NULL);
  visit_block(&s, p->f->body);
}
