/* Prefetch: a loop's loads are issued one iteration ahead, into registers.
 *
 *     for %i = %lb to %ub step %s                      %x0 = load(%lb), masked by %lb < %ub
 *       %x = load(%i)                         ->       for %i ... carrying %x
 *       ... reduce %x ...                                %next = load(%i + %s), masked by %i + %s < %ub
 *                                                        ... reduce %x ...
 *                                                        yield %next
 *
 * A reduction over a tile ends in shuffles and a barrier, in which a block has nothing in flight; the next tile's loads
 * fill that time. Done for loops that hold such work and wait for nobody, and have loads whose addresses and masks are
 * known an iteration ahead: pure arithmetic on the loop's variable, on what comes from outside, and on carried values
 * that advance by such arithmetic themselves. What the loop stores must lie apart from what is read ahead
 * (gpu/disjoint.h).
 * num_stages=1, of the loop or the launch, forbids it.
 *
 * They are issued first of all in an iteration. (After the last fence, MEMBAR.ALL.CTA, that writes of operands for
 * products of warpgroups need, they made states with gates 1.1 to 1.3 times as slow on an H200.)
 *
 * Not of loops of which it is known that they have a few iterations at most (a block's place among four, say), and not
 * how many: the first one's loads are waited for in any case, those of the one or two after it are hidden behind as
 * little work; and the registers that they wait in keep out other blocks, which hide all of them (gradients within
 * chunks of gated linear attention: 114 registers for 72, four blocks for seven, a third more time on an H200).
 *
 * A loop of two iterations, as a tile of a few hundred columns taken in halves, has both iterations' loads before it:
 * its first does not wait for memory before it asks for the second's.
 *
 * What is read ahead stays in registers for an iteration, twice while the next comes in: it may take what the values
 * that the loop carries leave of a thread's, GpuBudgets.prefetched at most. Where that is not enough for all, nothing
 * is read ahead, since the iteration would wait for the rest. Loops that hold loops are left alone: theirs would lie
 * idle for all the iterations of those.
 */
#include "gpu/disjoint.h"
#include "gpu/loop.h"

enum { MAX_COPIED = 96, FEW_TRIPS = 4 };

typedef struct Prefetch {
  Func *f;
  Op *loop;
  Block *body;
  DisjointStores stores; /* the loop's */
  bool twice;            /* it runs so often: both iterations' loads are issued before it */
  Builder ahead, before; /* at the top of the body, or if twice there too; before the loop */
  Value *next_iv;
  Map *copies[3]; /* by iteration: what stands for a value of the body */
  int copied;
} Prefetch;

/* Iterations: of the iteration that runs, but computed at its top; of the one after it; of the first, computed before
 * the loop.
 */
enum { ITERATION_THIS, ITERATION_NEXT, ITERATION_FIRST };

static bool in_body(const Prefetch *p, const Value *v) { return value_block(v) == p->body; }
static Value *yielded(const Prefetch *p, const Value *arg) { return p->body->last->in[arg->index - 1]; }

/* Whether copy() can make v: arithmetic all the way down, and not too much of it. */
static bool can_copy(const Prefetch *p, const Value *v, int iteration, int *left) {
  stack_guard();
  if (!in_body(p, v)) return true;
  if (--*left < 0) return false;
  if (!v->def) return v->index == 0 || iteration != ITERATION_NEXT || can_copy(p, yielded(p, v), ITERATION_THIS, left);
  const Op *op = v->def;
  if (op_info[op->code].effect != EFFECT_PURE || op->body[0]) return false;
  for (int i = 0; i < op->in_count; i++)
    if (!can_copy(p, op->in[i], iteration, left)) return false;
  return true;
}

static Value *copy(Prefetch *p, Value *v, int iteration) {
  stack_guard();
  if (!in_body(p, v)) return v;
  if (!v->def) {
    int carried = v->index - 1;
    if (iteration == ITERATION_THIS) return v;
    if (iteration == ITERATION_FIRST) return p->loop->in[carried < 0 ? 0 : 3 + carried];
    return carried < 0 ? p->next_iv : copy(p, yielded(p, v), p->twice ? ITERATION_FIRST : ITERATION_THIS);
  }
  Value *known = map_get(p->copies[iteration], v);
  if (known) return known;
  Op *op = v->def;
  for (int i = 0; i < op->in_count; i++) copy(p, op->in[i], iteration);
  Map *operands = map_create(p->f->cx->arena, false);
  for (int i = 0; i < op->in_count; i++) map_put(operands, op->in[i], copy(p, op->in[i], iteration));
  loop_clone(iteration == ITERATION_FIRST ? &p->before : &p->ahead, op, operands, p->copies[iteration]);
  return map_get(p->copies[iteration], v);
}

static bool has_exchange(const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    if (lane_sums_made(op)) continue;
    if (op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT || op->code == OP_DOT) return true;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && has_exchange(op->body[i])) return true;
  }
  return false;
}

static bool holds(const Block *b, OpCode code) {
  for (const Op *op = b->first; op; op = op->next)
    if (op->code == code) return true;
  return false;
}

/* Whether the loop has a first iteration. */
static Value *has_first(Prefetch *p) {
  return build_cmp(&p->before, loop_leads_down(p->loop) ? CMP_GT : CMP_LT, p->loop->in[0], p->loop->in[1]);
}

/* Whether the loop has another iteration after the one that runs: whether the way that is left, which is more than
 * nothing, is longer than a step. As unsigned numbers both are exact, also where the next iteration's variable would
 * leave its type.
 */
static Value *has_next(Prefetch *p, Value *iv) {
  Builder *b = &p->ahead;
  Value *end = p->loop->in[1];
  Dtype t = dtype_bits(iv->type->dtype) == 64 ? DT_I64 : DT_I32;
  Dtype bits = t == DT_I64 ? DT_U64 : DT_U32;
  int64_t step;
  bool down = loop_leads_down(p->loop) && value_is_const(p->loop->in[2], &step);
  Value *from = build_convert(b, iv, t), *to = build_convert(b, end, t);
  Value *left = down ? build_binary(b, OP_SUB, from, to) : build_binary(b, OP_SUB, to, from);
  Value *one_step = down ? build_int(b, type_number(p->f->cx, bits), int_wrap(bits, (int64_t)(0 - (uint64_t)step)))
                         : build_convert(b, build_convert(b, p->loop->in[2], t), bits);
  return build_cmp(b, CMP_LT, one_step, build_convert(b, left, bits));
}

static Value *mask_of(Prefetch *p, Op *load, int iteration, Value *valid) {
  Context *cx = p->f->cx;
  Builder *b = iteration == ITERATION_FIRST ? &p->before : &p->ahead;
  const Type *t = load->out[0]->type;
  Value *own = load->in_count > 1 ? copy(p, load->in[1], iteration) : NULL;
  if (!valid) return own;
  Value *all = t->rank ? build_splat(b, valid, t->rank, t->shape) : valid;
  if (t->rank) all->axis = loop_constant_axis(cx, type_with_dtype(cx, t, DT_I1));
  if (!own) return all;
  Value *mask = build_binary(b, OP_AND, own, all);
  mask->axis = load->in[1]->axis;
  return mask;
}

/* The load of that iteration, which reads nothing when there is no such iteration; valid NULL: there is. */
static Value *load_of(Prefetch *p, Op *load, int iteration, Value *valid) {
  Builder *b = iteration == ITERATION_FIRST ? &p->before : &p->ahead;
  b->span = load->span;
  Value *mask = mask_of(p, load, iteration, valid);
  Value *out =
      build_load(b, copy(p, load->in[0], iteration), mask, load->in_count > 2 ? copy(p, load->in[2], iteration) : NULL);
  memcpy(out->def->attr, load->attr, sizeof load->attr);
  out->axis = load->out[0]->axis;
  return out;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */

static int64_t registers_of(const Func *f, const Value *v, bool packed) {
  int64_t threads = f->num_warps * 32, bytes = v->type->ptr ? 8 : type_elem_bytes(v->type);
  if (!packed && bytes < 4) bytes = 4;
  return cdiv(v->type->rank ? cdiv(type_numel(v->type), threads) * bytes : bytes, 4);
}

/* Of a load's result. Elements narrower than a word come in whole words where some lie side by side. */
static int64_t registers_loaded(const Func *f, const Op *load) {
  const Value *ptr = load->in[0];
  bool packed = false;
  for (int d = 0; ptr->axis && d < ptr->type->rank; d++)
    packed |= ptr->axis->contiguous[d] * type_elem_bytes(load->out[0]->type) >= 4 && ptr->axis->divisible[d] >= 4;
  return registers_of(f, load->out[0], packed);
}

/* What is left for tiles that come an iteration early. A product wants its operands' parts beside the accumulator,
 * which may be another than what the loop carries, and addresses of what is loaded for it. */
static int64_t budget_in(const Func *f, const GpuBudgets *most, const Op *loop) {
  const Block *body = loop->body[0];
  int64_t taken = holds(body, OP_DOT) ? most->beside_prefetched_dot : most->beside_prefetched, other = 0;
  for (int i = 3; i < loop->in_count; i++) taken += registers_of(f, loop->in[i], true);
  for (const Op *op = body->first; op; op = op->next) {
    if (op->code != OP_DOT || value_replacement(op->in[2])->block == body) continue;
    int64_t sum = registers_of(f, op->out[0], false);
    if (sum > other) other = sum;
  }
  int64_t budget = (gpu_thread_registers(f->num_warps) - taken - other) / 2;
  return budget < most->prefetched ? budget : most->prefetched;
}

bool prefetch_holds(const Func *f, const GpuOptions *o, const Op *loop, Op *const *loads, int n) {
  int64_t budget = budget_in(f, o->target->budgets, loop);
  for (int i = 0; i < n; i++) budget -= registers_loaded(f, loads[i]);
  return budget >= 0;
}

/* Takes what the load needs from *budget, which may come out below nothing. */
static bool is_wanted(const Prefetch *p, const Op *op, int64_t *budget) {
  if (op->code != OP_LOAD || op_is_volatile(op) || !disjoint_may_precede(&p->stores, op)) return false;
  if (!op->out[0]->type->rank && !p->stores.count) return false;
  int left = MAX_COPIED;
  for (int i = 0; i < op->in_count; i++)
    if (!in_body(p, op->in[0]) || !can_copy(p, op->in[i], ITERATION_NEXT, &left) ||
        !can_copy(p, op->in[i], ITERATION_FIRST, &left))
      return false;
  *budget -= registers_loaded(p->f, op);
  return true;
}

/* Whether a program knows how many before it runs. */
static bool has_known_trips(const Op *loop) {
  int64_t bound;
  return value_is_const(loop->in[0], &bound) && value_is_const(loop->in[1], &bound);
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  Block *body = loop->body[0];
  int64_t stages = loop->num_stages ? loop->num_stages : f->num_stages;
  if (loop_most_trips(loop) <= FEW_TRIPS && !has_known_trips(loop)) return;
  if (stages == 1 || !has_exchange(body) || holds(body, OP_FOR) || holds(body, OP_WHILE)) return;
  Prefetch p = {.f = f, .loop = loop, .body = body};
  if (!disjoint_stores(f, body, &p.stores)) return;
  int64_t budget = budget_in(f, o->target->budgets, loop);
  VEC(Op *) loads = {0};
  for (Op *op = body->first; op; op = op->next)
    if (is_wanted(&p, op, &budget)) vec_push(f->cx->arena, &loads, op);
  if (!loads.n || budget < 0) return;
  for (int i = 0; i < 3; i++) p.copies[i] = map_create(f->cx->arena, false);
  Op *place = holds(body, OP_SCOPE) ? loads.at[0] : body->first; /* regions that are marked keep their loads */
  p.ahead = (Builder){.func = f, .block = body, .before = place, .span = loop->span};
  p.before = (Builder){.func = f, .block = loop->block, .before = loop, .span = loop->span};
  p.twice = has_known_trips(loop) && loop_most_trips(loop) == 2 && !holds(body, OP_SCOPE);
  if (p.twice) p.ahead = p.before;
  Value *iv = body->args[0];
  p.next_iv = build_binary(&p.ahead, OP_ADD, p.twice ? loop->in[0] : iv, loop->in[2]);
  p.next_iv->axis = iv->axis;
  Value *first_valid = p.twice ? NULL : has_first(&p), *next_valid = p.twice ? NULL : has_next(&p, iv);
  Value **first = NEW_N(f->cx->arena, Value *, loads.n);
  for (int i = 0; i < loads.n; i++) first[i] = load_of(&p, loads.at[i], ITERATION_FIRST, first_valid);
  for (int i = 0; i < loads.n; i++) {
    Op *load = loads.at[i];
    disjoint_require(&p.stores, load);
    Value *next = load_of(&p, load, ITERATION_NEXT, next_valid);
    Value *now = control_carry(f, loop, first[i], next);
    now->name = load->out[0]->name;
    now->axis = load->out[0]->axis;
    value_replace(load->out[0], now);
    if (p.ahead.before == load) p.ahead.before = load->next;
    op_remove(load);
  }
}

void gpu_prefetch(Func *f, const GpuOptions *o) {
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_replace_uses(f);
}
