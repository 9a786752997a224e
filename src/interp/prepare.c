/* Plan: from a Func to Code, once a launch.
 *
 * Every value gets a fixed place in one block of memory. Places are reused: a value's place is free again after the
 * last operation that uses it, counted in the block that defines it, so a value from outside a loop lives through all
 * of the loop. Tiles have power-of-two sizes, hence a list of free places per power of two is all the allocator there
 * is.
 *
 *     for's results      lie where its carried arguments lie
 *     reshape, hint, ... lie where their operand lies: nothing moves
 *     const              is written once, before the first program
 *
 * While Code is being made, places are offsets; when all are known, memory is taken and the offsets become addresses.
 */
#include "interp/run.h"

#include <stdlib.h>

enum { CLASSES = 48, PLACE_ALIGN = 64 };

typedef struct FreePlace {
  int64_t offset;
  struct FreePlace *next;
} FreePlace;

typedef struct Const {
  const Op *op;
  int64_t offset, count;
  struct Const *next;
} Const;

typedef struct Scope { /* a block being walked, and the number of the operation in it that is being looked at */
  const Block *block;
  int op;
  struct Scope *up;
} Scope;

typedef struct Planner {
  Plan *plan;
  const Block **home; /* per value id: the block that defines it */
  int *last_use;      /* per value id: number of the operation after which it is dead */
  int op_count;
  const Value **dying; /* per operation number: the values that die after it, linked by dying_next */
  const Value **dying_next;
  FreePlace *free[CLASSES], *spare;
  int64_t end; /* bytes used so far */
  int64_t scratch_now, scratch_most;
  Const *consts;
  Capture *captures; /* of the lane body being made */
  int capture_count;
} Planner;

/* ---- the table of what runs each operation ----------------------------------------------------------------------- */

static const struct {
  NodeFn run;
  Prepare prepare;
  ScratchSize scratch;
} op_impl[OP_COUNT] = {
    [OP_PROGRAM_ID] = {run_program_id},
    [OP_NUM_PROGRAMS] = {run_program_id},
    [OP_ARANGE] = {run_arange},
    [OP_SPLAT] = {run_splat},
    [OP_BROADCAST] = {NULL, prepare_strided},
    [OP_TRANS] = {NULL, prepare_strided},
    [OP_JOIN] = {run_join},
    [OP_SPLIT] = {run_split},
    [OP_CAT] = {run_cat},
    [OP_GATHER] = {run_gather},
    [OP_ADD] = {NULL, prepare_elementwise},
    [OP_SUB] = {NULL, prepare_elementwise},
    [OP_MUL] = {NULL, prepare_elementwise},
    [OP_DIV] = {NULL, prepare_elementwise},
    [OP_REM] = {NULL, prepare_elementwise},
    [OP_AND] = {NULL, prepare_elementwise},
    [OP_OR] = {NULL, prepare_elementwise},
    [OP_XOR] = {NULL, prepare_elementwise},
    [OP_SHL] = {NULL, prepare_elementwise},
    [OP_SHR] = {NULL, prepare_elementwise},
    [OP_MIN] = {NULL, prepare_elementwise},
    [OP_MAX] = {NULL, prepare_elementwise},
    [OP_MULHI] = {NULL, prepare_elementwise},
    [OP_NEG] = {NULL, prepare_elementwise},
    [OP_NOT] = {NULL, prepare_elementwise},
    [OP_ABS] = {NULL, prepare_elementwise},
    [OP_FMA] = {NULL, prepare_elementwise},
    [OP_CMP] = {NULL, prepare_elementwise},
    [OP_SELECT] = {NULL, prepare_elementwise},
    [OP_MATH] = {NULL, prepare_math},
    [OP_CONVERT] = {NULL, prepare_convert},
    [OP_BITCAST] = {NULL, prepare_convert},
    [OP_ADDPTR] = {NULL, prepare_addptr},
    [OP_LOAD] = {run_load},
    [OP_STORE] = {run_store},
    [OP_ATOMIC_RMW] = {run_atomic_rmw},
    [OP_ATOMIC_CAS] = {run_atomic_cas},
    [OP_DOT] = {run_dot, NULL, scratch_dot},
    [OP_REDUCE] = {run_reduce, NULL, scratch_reduce},
    [OP_SCAN] = {run_scan},
    [OP_MAP] = {run_map},
    [OP_SORT] = {run_sort, NULL, scratch_sort},
    [OP_HISTOGRAM] = {run_histogram},
    [OP_FOR] = {run_for, NULL, scratch_for},
    [OP_WHILE] = {run_while},
    [OP_IF] = {run_if},
    [OP_ASSUME] = {run_assume},
    [OP_BARRIER] = {run_barrier},
    [OP_SCOPE] = {run_scope},
    [OP_PRINT] = {run_print},
    [OP_ASSERT] = {run_assert},
    [OP_ASM] = {run_asm},
};

/* ---- where values are used last ---------------------------------------------------------------------------------- */

static void note_use(Planner *pl, const Value *v, const Scope *scope) {
  v = plan_root(v);
  for (; scope; scope = scope->up)
    if (scope->block == pl->home[v->id]) {
      pl->last_use[v->id] = scope->op;
      return;
    }
}

static void find_last_uses(Planner *pl, const Block *block, const Scope *up) {
  Scope scope = {.block = block, .up = (Scope *)up};
  for (int i = 0; i < block->arg_count; i++) pl->home[block->args[i]->id] = block;
  for (const Op *op = block->first; op; op = op->next) {
    scope.op = pl->op_count++;
    for (int i = 0; i < op->in_count; i++) note_use(pl, op->in[i], &scope);
    for (int r = 0; r < op_info[op->code].regions; r++) find_last_uses(pl, op->body[r], &scope);
    for (int i = 0; i < op->out_count; i++) {
      pl->home[op->out[i]->id] = block;
      pl->last_use[op->out[i]->id] = scope.op;
    }
  }
}

/* Whether blocks nest as deeply as this thread's stack takes: no walk over them has frames as large as this one. */
static bool fits_stack(const Block *block) {
  char frame[1024];
  __asm__ volatile("" : : "r"(frame) : "memory");
  if (stack_short()) return false;
  for (const Op *op = block->first; op; op = op->next)
    for (int r = 0; r < op_info[op->code].regions; r++)
      if (!fits_stack(op->body[r])) return false;
  return true;
}

static int count_ops(const Block *block) {
  int n = 0;
  for (const Op *op = block->first; op; op = op->next) {
    n++;
    for (int r = 0; r < op_info[op->code].regions; r++) n += count_ops(op->body[r]);
  }
  return n;
}

/* Files each value under the operation after which it dies. Block arguments are freed by the operation that owns the
 * block, constants never. */
static void list_dying(Planner *pl, const Block *block) {
  for (const Op *op = block->first; op; op = op->next) {
    for (int r = 0; r < op_info[op->code].regions; r++) list_dying(pl, op->body[r]);
    if (op->code == OP_CONST) continue;
    for (int i = 0; i < op->out_count; i++) {
      const Value *v = op->out[i];
      if (plan_root(v) != v) continue;
      pl->dying_next[v->id] = pl->dying[pl->last_use[v->id]];
      pl->dying[pl->last_use[v->id]] = v;
    }
  }
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static int size_class(int64_t bytes) {
  int c = 6; /* PLACE_ALIGN */
  while (c < CLASSES - 1 && bytes > 1LL << c) c++;
  return c;
}

static int64_t take_new_place(Planner *pl, int64_t bytes) {
  int c = size_class(bytes);
  int64_t offset = pl->end;
  if (1LL << c > INT64_MAX / 4 - pl->end) pl->plan->failed = true;
  else pl->end += 1LL << c;
  return offset;
}

static int64_t take_place(Planner *pl, int64_t bytes) {
  int c = size_class(bytes);
  FreePlace *p = pl->free[c];
  if (!p || pl->plan->keep_values) return take_new_place(pl, bytes);
  pl->free[c] = p->next;
  p->next = pl->spare;
  pl->spare = p;
  return p->offset;
}

static void free_place(Planner *pl, int64_t offset, int64_t bytes) {
  FreePlace *p = pl->spare;
  if (p) pl->spare = p->next;
  else p = plan_alloc(pl->plan, sizeof *p);
  if (!p) return;
  int c = size_class(bytes);
  *p = (FreePlace){.offset = offset, .next = pl->free[c]};
  pl->free[c] = p;
}

static int64_t place_bytes(const Value *v, bool lanes) {
  return lanes ? LANES * (int64_t)plan_elem_bytes(v->type) : plan_type_bytes(v->type);
}

static void place_value(Planner *pl, const Value *v, bool lanes) {
  pl->plan->offset[v->id] = take_place(pl, place_bytes(v, lanes));
}

static void free_value(Planner *pl, const Value *v, bool lanes) {
  free_place(pl, pl->plan->offset[v->id], place_bytes(v, lanes));
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

static bool elementwise(const Op *op) {
  switch (op->code) {
    case OP_CONST:
    case OP_PROGRAM_ID:
    case OP_NUM_PROGRAMS:
    case OP_HINT:
    case OP_BARRIER:
    case OP_YIELD: return true;
    default: return op_is_elementwise(op) || op->code == OP_RESHAPE;
  }
}

/* Whether one walk over the block can serve many elements at once: operations on scalars without control flow. */
static bool fits_lanes(const Block *b) {
  for (int i = 0; i < b->arg_count; i++)
    if (b->args[i]->type->rank) return false;
  for (const Op *op = b->first; op; op = op->next) {
    if (!elementwise(op)) return false;
    for (int i = 0; i < op->out_count; i++)
      if (op->out[i]->type->rank) return false;
  }
  return true;
}

static char *place_of(Planner *pl, const Value *v) {
  v = plan_root(v);
  for (int i = 0; i < pl->capture_count; i++)
    if (pl->captures[i].value == v) return pl->captures[i].lanes;
  return (char *)(intptr_t)pl->plan->offset[v->id];
}

static char **places_of(Planner *pl, Value *const *values, int n) {
  char **at = plan_alloc(pl->plan, (size_t)n * sizeof *at);
  if (at)
    for (int i = 0; i < n; i++) at[i] = place_of(pl, values[i]);
  return at;
}

/* Places for the values from outside that a lane body uses. */
static void make_captures(Planner *pl, Code *code) {
  int most = code->block->arg_count;
  for (const Op *op = code->block->first; op; op = op->next) most += op->in_count;
  code->captures = plan_alloc(pl->plan, (size_t)most * sizeof *code->captures);
  if (!code->captures) return;
  for (const Op *op = code->block->first; op; op = op->next)
    for (int i = 0; i < op->in_count; i++) {
      const Value *v = plan_root(op->in[i]);
      if (pl->home[v->id] == code->block) continue;
      bool known = false;
      for (int c = 0; c < code->capture_count; c++) known |= code->captures[c].value == v;
      if (known) continue;
      int bytes = plan_elem_bytes(v->type);
      code->captures[code->capture_count++] = (Capture){.value = v,
                                                        .bytes = bytes,
                                                        .from = place_of(pl, v),
                                                        .lanes = (char *)(intptr_t)take_place(pl, LANES * bytes)};
    }
}

static Code *make_code(Planner *pl, const Block *block, bool lanes);

static void make_node(Planner *pl, Code *code, const Op *op) {
  Plan *p = pl->plan;
  bool lanes = code->lanes;
  int number = pl->op_count++;

  if (op->code == OP_CONST) {
    Const *c = plan_alloc(p, sizeof *c);
    if (!c) return;
    p->offset[op->out[0]->id] =
        take_new_place(pl, place_bytes(op->out[0], lanes)); /* nothing else may ever lie there */
    *c = (Const){op, p->offset[op->out[0]->id], lanes ? LANES : type_numel(op->out[0]->type), pl->consts};
    pl->consts = c;
  }
  bool nothing = op->code == OP_CONST || plan_same_elements(op) || op_info[op->code].effect == EFFECT_TERMINATOR;
  if (!nothing || (p->keep_values && op_info[op->code].effect != EFFECT_TERMINATOR)) {
    Node *node = &code->nodes[code->count++];
    node->op = op;
    node->n = op->out_count ? type_numel(op->out[0]->type) : op->in_count ? type_numel(op->in[0]->type) : 1;
    node->in = places_of(pl, op->in, op->in_count);
    if (nothing) {
      node->fn = run_nothing;
      node->out = places_of(pl, op->out, op->out_count);
    } else {
      /* The arguments of a for's body are its results. */
      bool shared = op->code == OP_FOR;
      for (int i = 0; i < op->out_count && !shared; i++) place_value(pl, op->out[i], lanes);
      int64_t scratch_before = pl->scratch_now;
      node->scratch = op_impl[op->code].scratch ? (op_impl[op->code].scratch(op) + 63) & ~63LL : 0;
      pl->scratch_now += node->scratch;
      if (pl->scratch_now > pl->scratch_most) pl->scratch_most = pl->scratch_now;

      bool body_lanes = false;
      if (op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_MAP) body_lanes = fits_lanes(op->body[0]);
      int regions = op_info[op->code].regions;
      for (int r = 0; r < regions; r++)
        for (int i = 0; i < op->body[r]->arg_count; i++) place_value(pl, op->body[r]->args[i], body_lanes);
      for (int i = 0; i < op->out_count && shared; i++)
        p->offset[op->out[i]->id] = p->offset[op->body[0]->args[i + 1]->id];
      node->out = places_of(pl, op->out, op->out_count);
      for (int r = 0; r < regions && !pl->plan->failed; r++) node->body[r] = make_code(pl, op->body[r], body_lanes);
      for (int r = 0; r < regions; r++)
        for (int i = shared ? op->out_count + 1 : 0; i < op->body[r]->arg_count; i++)
          free_value(pl, op->body[r]->args[i], body_lanes);
      if (shared) free_value(pl, op->body[0]->args[0], body_lanes);

      pl->scratch_now = scratch_before;
      node->fn = op_impl[op->code].run;
      if (op_impl[op->code].prepare && !pl->plan->failed && !op_impl[op->code].prepare(p, node))
        pl->plan->failed = true;
    }
  }
  for (const Value *v = pl->dying[number]; v && !pl->plan->failed; v = pl->dying_next[v->id]) free_value(pl, v, lanes);
}

static Code *make_code(Planner *pl, const Block *block, bool lanes) {
  Code *code = plan_alloc(pl->plan, sizeof *code);
  int count = 0;
  for (const Op *op = block->first; op; op = op->next) count++;
  if (code) code->nodes = plan_alloc(pl->plan, (size_t)count * sizeof *code->nodes);
  if (pl->plan->failed) return NULL;
  code->block = block;
  code->lanes = lanes;

  Capture *outer = pl->captures;
  int outer_count = pl->capture_count;
  if (lanes) {
    make_captures(pl, code);
    pl->captures = code->captures;
    pl->capture_count = code->capture_count;
  }
  code->args = places_of(pl, block->args, block->arg_count);
  for (const Op *op = block->first; op && !pl->plan->failed; op = op->next) make_node(pl, code, op);
  code->work = 64;
  for (int i = 0; i < code->count; i++) code->work += 64 + code->nodes[i].n;
  const Op *end = block->last;
  if (!pl->plan->failed && end && op_info[end->code].effect == EFFECT_TERMINATOR)
    code->results = places_of(pl, end->in, end->in_count);
  pl->captures = outer;
  pl->capture_count = outer_count;
  for (int i = 0; i < code->capture_count; i++)
    free_place(pl, (intptr_t)code->captures[i].lanes, LANES * code->captures[i].bytes);
  return pl->plan->failed ? NULL : code;
}

/* ---- from offsets to addresses ----------------------------------------------------------------------------------- */

static void move_places(char **places, int n, char *base) {
  for (int i = 0; i < n; i++) places[i] = base + (intptr_t)places[i];
}

static void move_code(Code *code, char *base) {
  const Op *end = code->block->last;
  move_places(code->args, code->block->arg_count, base);
  if (code->results) move_places(code->results, end->in_count, base);
  for (int i = 0; i < code->capture_count; i++) {
    move_places(&code->captures[i].from, 1, base);
    move_places(&code->captures[i].lanes, 1, base);
  }
  for (int i = 0; i < code->count; i++) {
    Node *node = &code->nodes[i];
    move_places(node->in, node->op->in_count, base);
    move_places(node->out, node->op->out_count, base);
    for (int r = 0; r < 2; r++)
      if (node->body[r]) move_code(node->body[r], base);
  }
}

static void write_const(Plan *p, const Const *c) {
  const Type *t = c->op->out[0]->type;
  char element[8] = {0};
  if (dtype_is_float(t->dtype)) scalar_store(t->dtype, element, (Scalar){.f = c->op->number});
  else scalar_store(t->dtype, element, (Scalar){.i = c->op->value});
  fill_elements(p->values + c->offset, element, plan_elem_bytes(t), c->count);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool plan_fill(Plan *p, PlanLimits *limits) {
  const Func *f = p->func;
  limits->too_deep = !fits_stack(f->body);
  if (limits->too_deep) return false;
  size_t values = (size_t)f->value_count, ops = (size_t)count_ops(f->body);
  Planner planner = {.plan = p}, *pl = &planner;
  p->offset = plan_alloc(p, values * sizeof *p->offset);
  p->provenance = provenance_create(p->arena, f);
  if (!p->provenance) pl->plan->failed = true;
  pl->home = plan_alloc(p, values * sizeof *pl->home);
  pl->last_use = plan_alloc(p, values * sizeof *pl->last_use);
  pl->dying = plan_alloc(p, ops * sizeof *pl->dying);
  pl->dying_next = plan_alloc(p, values * sizeof *pl->dying_next);
  if (!pl->plan->failed) {
    for (size_t i = 0; i < values; i++) p->offset[i] = -1;
    find_last_uses(pl, f->body, NULL);
    list_dying(pl, f->body);
    pl->op_count = 0;
    for (int i = 0; i < f->body->arg_count; i++) place_value(pl, f->body->args[i], false);
    p->code = make_code(pl, f->body, false);
  }
  int64_t bytes = p->bytes = pl->end + pl->scratch_most + PLACE_ALIGN;
  if (!pl->plan->failed && limits->memory && bytes > limits->memory) {
    limits->needed = bytes;
    pl->plan->failed = true;
  }
  if (!pl->plan->failed) {
    if (posix_memalign((void **)&p->values, PLACE_ALIGN, (size_t)bytes)) p->values = NULL;
    if (!p->values) pl->plan->failed = true;
  }
  if (!pl->plan->failed) {
    p->scratch = p->values + pl->end;
    move_code(p->code, p->values);
    for (const Const *c = pl->consts; c; c = c->next) write_const(p, c);
  }
  return !pl->plan->failed;
}

Plan *plan_create(const Func *f, bool keep_values, PlanLimits *limits) {
  Arena *arena = arena_create(NULL);
  Plan *p = arena ? arena_alloc(arena, sizeof *p) : NULL;
  if (!p) {
    arena_destroy(arena);
    return NULL;
  }
  p->arena = arena;
  p->func = f;
  p->keep_values = keep_values;
  if (plan_fill(p, limits)) return p;
  plan_destroy(p);
  return NULL;
}

void plan_destroy(Plan *p) {
  if (!p) return;
  free(p->values);
  arena_destroy(p->arena); /* p lies in it */
}
