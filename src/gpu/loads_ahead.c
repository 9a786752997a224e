/* Loads of recurrences and sums, several iterations ahead, into registers.
 *
 *     for %i = %lb to %ub step %s                   %x0, %x1 = loads of the first two iterations
 *       %x = load(%i)                        ->     for %i = %lb to %end step 2 * %s ... carrying %x0, %x1
 *       %h = ... %h ... %x ...                        %h = ... %h ... %x0 ...; store %h; %y0 = load(%i + 2 * %s)
 *       store %h                                      %h = ... %h ... %x1 ...; store %h; %y1 = load(%i + 3 * %s)
 *                                                     yield %y0, %y1
 *                                                   for %i = %end to %ub step %s: what is left, as before
 *
 * Where a small state goes through thousands of iterations, each of a few operations, an iteration takes as long as its
 * loads: a copy of the body for each iteration that is in flight lets each load write the registers that its
 * predecessor has left, with no moves, which would wait for it (modulo variable expansion; Lam, 1988). As many
 * iterations are in flight as hide the latency of memory by the work between them, and as there are registers for.
 *
 * Done for innermost loops all of whose loads have addresses and masks that are known ahead. Those that store must
 * carry numbers other than addresses, and load apart from what is stored (gpu/disjoint.h). Those that only load (a
 * sum over a long axis) get copies if these are small, else the assembler unrolls them (ptx/control.c), but not where
 * loads have masks; gpu/prefetch.c serves those with reductions and products. num_stages=1, of the loop or the launch,
 * forbids it.
 */
#include "gpu/disjoint.h"
#include "gpu/loop.h"

enum { MOST_COPIED = 96, MOST_AHEAD = 8, MOST_LOADS = 16, MOST_NEEDED = 32, HIDDEN = 1024, MOST_BODY = 1024 };
/* Of loops that only load: so many iterations the assembler loads at once, too; and such work hides a load beside what
 * other warps do, for which registers are to be left. */
enum { LEAST_AHEAD = 4, HIDDEN_OF_SUMS = 128 };

typedef struct LoadsAhead {
  Func *f;
  Op *loop;
  Block *body;
  DisjointStores stores;
  Op *loads[MOST_LOADS];
  int load_count;
  int needed[MOST_NEEDED]; /* carried values that addresses and masks are made of */
  int needed_count;
} LoadsAhead;

static bool in_body(const LoadsAhead *p, const Value *v) { return value_block(v) == p->body; }

/* ---- what is taken ----------------------------------------------------------------------------------------------- */

/* Whether v is arithmetic that can be done ahead, all the way down; notes the carried values that it takes, and theirs.
 */
static bool can_compute(LoadsAhead *p, const Value *v, int *left) {
  stack_guard();
  if (!in_body(p, v)) return true;
  if (--*left < 0) return false;
  if (!v->def) {
    int carried = v->index - 1;
    for (int i = 0; i < p->needed_count; i++)
      if (p->needed[i] == carried) return true;
    if (carried < 0) return true;
    if (p->needed_count == MOST_NEEDED) return false;
    p->needed[p->needed_count++] = carried;
    return can_compute(p, p->body->last->in[carried], left);
  }
  const Op *op = v->def;
  if (op_info[op->code].effect != EFFECT_PURE || op->body[0]) return false;
  for (int i = 0; i < op->in_count; i++)
    if (!can_compute(p, op->in[i], left)) return false;
  return true;
}

/* A load that is the same in each iteration is no matter. */
static bool take_load(LoadsAhead *p, Op *op) {
  int left = MOST_COPIED;
  if (op_is_volatile(op) || p->load_count == MOST_LOADS || !disjoint_may_precede(&p->stores, op)) return false;
  for (int i = 0; i < op->in_count; i++)
    if (!can_compute(p, op->in[i], &left)) return false;
  p->loads[p->load_count++] = op;
  return true;
}

static int64_t of_thread(const LoadsAhead *p, const Type *t) {
  int64_t threads = 32 * p->f->num_warps;
  return t->rank ? cdiv(type_numel(t), threads) : 1;
}

static int64_t registers(const LoadsAhead *p, const Type *t) {
  return of_thread(p, t) * (t->ptr || type_elem_bytes(t) == 8 ? 2 : 1);
}

/* Instructions of a thread, about; -1: the body holds what is not unrolled. */
static int64_t work_of(const LoadsAhead *p, const Block *b) {
  stack_guard();
  int64_t work = 0;
  for (const Op *op = b->first; op; op = op->next) {
    if (op->code == OP_FOR || op->code == OP_WHILE || op->code == OP_DOT || op->code == OP_SORT) return -1;
    if (op->code == OP_LOAD && b != p->body) return -1;
    if (op->code == OP_REDUCE || op->code == OP_SCAN) {
      if (!p->stores.count) return -1; /* prefetch's */
      work += 64;                      /* shuffles that wait for each other */
    }
    for (int i = 0; i < op->in_count && (op->out_count || op->code == OP_STORE); i++)
      if (!i || of_thread(p, op->in[i]->type) > of_thread(p, op->in[0]->type)) work += of_thread(p, op->in[i]->type);
    for (int i = 0; i < 2; i++) {
      int64_t inner = op->body[i] && op->code == OP_IF ? work_of(p, op->body[i]) : 0;
      if (inner < 0) return -1;
      work += inner;
    }
  }
  return work;
}

/* Whether the loop carries more than addresses: numbers that an iteration gets of the one before. */
static bool carries_state(const LoadsAhead *p) {
  for (int i = 0; i < p->body->arg_count - 1; i++) {
    const Value *v = p->body->args[1 + i];
    if (!v->type->ptr && dtype_is_float(v->type->dtype) && p->body->last->in[i] != v) return true;
  }
  return false;
}

/* How many iterations are in flight; 0: none. */
static int choose_distance(const LoadsAhead *p, const GpuBudgets *budgets) {
  int64_t work = work_of(p, p->body), each = 0, taken = budgets->beside_prefetched;
  if (work < 0 || work > MOST_BODY) return 0;
  for (int i = 0; i < p->load_count; i++) each += registers(p, p->loads[i]->out[0]->type);
  for (int i = 3; i < p->loop->in_count; i++) taken += registers(p, p->loop->in[i]->type);
  int64_t budget = gpu_thread_registers(p->f->num_warps) - taken;
  if (budget > budgets->prefetched) budget = budgets->prefetched;
  int n = 1;
  while (n < MOST_AHEAD && n * work < (p->stores.count ? HIDDEN : HIDDEN_OF_SUMS)) n *= 2;
  while (n && n * each > budget) n /= 2;
  return p->stores.count || n >= LEAST_AHEAD ? n : 0;
}

/* ---- the change -------------------------------------------------------------------------------------------------- */

/* v in the iteration that `known` stands for. */
static Value *compute(const LoadsAhead *p, Builder *b, Map *known, Value *v) {
  stack_guard();
  Value *there = map_get(known, v);
  if (there || !in_body(p, v)) return there ? there : v;
  Op *op = v->def;
  for (int i = 0; i < op->in_count; i++) compute(p, b, known, op->in[i]);
  loop_clone(b, op, known, known);
  return map_get(known, v);
}

/* `exists` NULL: the iteration does. */
static Value *load_again(const LoadsAhead *p, Builder *b, Map *known, const Op *load, Value *exists) {
  Context *cx = p->f->cx;
  const Type *t = load->out[0]->type;
  Value *mask = exists, *own = op_mask(load), *other = op_other(load);
  b->span = load->span;
  if (exists && t->rank) {
    mask = build_splat(b, exists, t->rank, t->shape);
    mask->axis = loop_constant_axis(cx, mask->type);
  }
  if (own) {
    mask = exists ? build_binary(b, OP_AND, compute(p, b, known, own), mask) : compute(p, b, known, own);
    mask->axis = own->axis;
  }
  Value *v = build_load(b, compute(p, b, known, load->in[0]), mask, other ? compute(p, b, known, other) : NULL);
  memcpy(v->def->attr, load->attr, sizeof load->attr);
  v->axis = load->out[0]->axis;
  v->name = load->out[0]->name;
  return v;
}

/* The loads of the iteration `iv`, if it `exists` (NULL: it does), before which the needed values are `carried`; these
 * become those of the next one. */
static void issue(const LoadsAhead *p, Builder *b, Value *iv, Value *exists, Value **carried, Value **loaded) {
  Map *known = map_create(p->f->cx->arena, false);
  Value *next[MOST_NEEDED];
  map_put(known, p->body->args[0], iv);
  for (int i = 0; i < p->needed_count; i++) map_put(known, p->body->args[1 + p->needed[i]], carried[i]);
  for (int i = 0; i < p->load_count; i++) loaded[i] = load_again(p, b, known, p->loads[i], exists);
  for (int i = 0; i < p->needed_count; i++) next[i] = compute(p, b, known, p->body->last->in[p->needed[i]]);
  memcpy(carried, next, sizeof *next * (size_t)p->needed_count);
}

static Value *variable_after(const LoadsAhead *p, Builder *b, Value *iv, int n) {
  Value *step = p->loop->in[2];
  if (!n) return iv;
  Value *way = build_binary(b, OP_MUL, step, build_int(b, step->type, n));
  Value *v = build_binary(b, OP_ADD, iv, way);
  v->axis = p->body->args[0]->axis;
  return v;
}

/* Where the iterations end that come in groups of n: a variable, as the loop counts. The way to the end is taken
 * without a sign, since it may be longer than the type's numbers. */
static Value *end_of_groups(const LoadsAhead *p, Builder *b, int n) {
  Value *lb = p->loop->in[0], *ub = p->loop->in[1], *step = p->loop->in[2];
  Dtype t = lb->type->dtype, bits = dtype_bits(t) == 64 ? DT_U64 : DT_U32;
  const Type *u = type_number(p->f->cx, bits);
  Value *one = build_int(b, u, 1), *way = build_convert(b, build_binary(b, OP_SUB, ub, lb), bits);
  Value *trips = build_binary(
      b, OP_ADD, build_binary(b, OP_DIV, build_binary(b, OP_SUB, way, one), build_convert(b, step, bits)), one);
  trips = build_select(b, build_cmp(b, CMP_LT, lb, ub), trips, build_int(b, u, 0));
  trips = build_binary(b, OP_AND, trips, build_int(b, u, int_wrap(bits, -n)));
  return build_binary(b, OP_ADD, lb, build_binary(b, OP_MUL, build_convert(b, trips, t), step));
}

/* The iterations of one of the loop's groups: `state` is what the loop carries, its own values first, and becomes what
 * it carries on. */
static void copy_bodies(LoadsAhead *p, Builder *b, Value *iv, Value *more, Value **state, int n) {
  int own = p->loop->out_count, loads = p->load_count;
  for (int j = 0; j < n; j++) {
    Map *known = map_create(p->f->cx->arena, false);
    Value **here = state + own + p->needed_count + j * loads;
    map_put(known, p->body->args[0], variable_after(p, b, iv, j));
    for (int i = 0; i < own; i++) map_put(known, p->body->args[1 + i], state[i]);
    for (int i = 0; i < loads; i++) map_put(known, p->loads[i]->out[0], here[i]);
    for (Op *op = p->body->first; op != p->body->last; op = op->next) {
      if (op->out_count && map_get(known, op->out[0])) continue;
      b->span = op->span;
      loop_clone(b, op, known, known);
    }
    for (int i = 0; i < own; i++) {
      Value *next = map_get(known, p->body->last->in[i]);
      state[i] = next ? next : p->body->last->in[i];
    }
    issue(p, b, variable_after(p, b, iv, n + j), more, state + own, here);
  }
}

/* The loop of groups, and the loads before it. */
static Op *group_loop(LoadsAhead *p, Builder *before, Value *end, int n) {
  Func *f = p->f;
  Op *loop = p->loop;
  Arena *a = f->cx->arena;
  int own = loop->out_count, needed = p->needed_count, loads = p->load_count, count = own + needed + n * loads;
  Value **init = NEW_N(a, Value *, 3 + count), **carried = init + 3 + own, **loaded = carried + needed;
  const Type **types = NEW_N(a, const Type *, count);
  memcpy(init, loop->in, sizeof *init * (size_t)(3 + own));
  for (int i = 0; i < needed; i++) carried[i] = loop->in[3 + p->needed[i]];
  for (int j = 0; j < n; j++)
    issue(p, before, variable_after(p, before, loop->in[0], j), NULL, carried, loaded + j * loads);
  init[1] = end;
  init[2] = build_binary(before, OP_MUL, loop->in[2], build_int(before, loop->in[2]->type, n));
  for (int i = 0; i < count; i++) types[i] = init[3 + i]->type;
  before->span = loop->span;
  Op *main = build_op(before, OP_FOR, 3 + count, init, count, types);
  memcpy(main->attr, loop->attr, sizeof main->attr);
  main->num_stages = 1; /* it is pipelined already, */
  main->unroll = 1;     /* and unrolled */
  Block *body = block_create(f, main);
  Builder b = {.func = f, .block = body, .span = loop->span};
  Value *iv = block_add_arg(f, body, loop->in[0]->type, p->body->args[0]->name);
  iv->axis = p->body->args[0]->axis;
  Value **state = NEW_N(a, Value *, count);
  for (int i = 0; i < count; i++) {
    const Value *as = i < own            ? p->body->args[1 + i]
                      : i < own + needed ? p->body->args[1 + p->needed[i - own]]
                                         : p->loads[(i - own - needed) % loads]->out[0];
    state[i] = block_add_arg(f, body, types[i], as->name);
    state[i]->axis = as->axis;
  }
  copy_bodies(p, &b, iv, build_cmp(&b, CMP_LT, variable_after(p, &b, iv, n), end), state, n);
  build_yield(&b, count, state);
  return main;
}

/* A loop that is too short for a group passes it by, with all its loads. */
static void rewrite(LoadsAhead *p, int n) {
  Func *f = p->f;
  Op *loop = p->loop;
  int own = loop->out_count;
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = loop->span};
  const Type **types = NEW_N(f->cx->arena, const Type *, own + 1);
  for (int i = 0; i < own; i++) types[i] = loop->out[i]->type;
  Value *end = end_of_groups(p, &before, n), *any = build_cmp(&before, CMP_LT, loop->in[0], end);
  Op *branch = build_op(&before, OP_IF, 1, &any, own, types);
  Builder there = {.func = f, .block = block_create(f, branch), .span = loop->span};
  Builder passed = {.func = f, .block = block_create(f, branch), .span = loop->span};
  build_yield(&there, own, group_loop(p, &there, end, n)->out);
  build_yield(&passed, own, loop->in + 3);
  for (int i = 0; i < own; i++) loop->in[3 + i] = branch->out[i];
  loop->in[0] = end;
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  LoadsAhead p = {.f = f, .loop = loop, .body = loop->body[0]};
  int64_t stages = loop->num_stages ? loop->num_stages : f->num_stages;
  Dtype t = loop->in[0]->type->dtype;
  if (stages == 1 || loop_leads_down(loop) || (t != DT_I32 && t != DT_I64)) return;
  if (!disjoint_stores(f, p.body, &p.stores)) return;
  if (p.stores.count ? !carries_state(&p) : loop_has_effects(p.body)) return;
  for (Op *op = p.body->first; op; op = op->next)
    if (op->code == OP_LOAD ? !take_load(&p, op) : op_info[op->code].effect == EFFECT_SIDE) return;
  int n = p.load_count ? choose_distance(&p, o->target->budgets) : 0;
  if (!n) return;
  for (int i = 0; i < p.load_count; i++) disjoint_require(&p.stores, p.loads[i]);
  rewrite(&p, n);
}

void gpu_loads_ahead(Func *f, const GpuOptions *o) {
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_replace_uses(f);
}
