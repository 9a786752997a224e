/* Interp: runs a launch: the programs of a grid one after the other, each a walk over the plan's Code.
 *
 * Control flow copies values between the places that the plan gave them. A for loop's carried values stay where they
 * are (body arguments and results share a place) and a yield copies into them; where a yield permutes them (`yield %b,
 * %a`) it goes through scratch space. The copy of a while loop needs none: its two bodies' arguments lie apart.
 *
 * Where programs may wait for each other, each is a coroutine with a plan of its own (base/resident.c).
 *
 * A fault ends the launch. It is written where it is found (run_fault) and every caller returns false.
 */
#include "interp/run.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- faults ------------------------------------------------------------------------------------------------------ */

bool run_fault(Run *run, const Op *op, const Type *type, int64_t element, const char *format, ...) {
  InterpFault *f = run->fault;
  f->set = true;
  va_list ap;
  va_start(ap, format);
  vsnprintf(f->message, sizeof f->message, format, ap);
  va_end(ap);
  if (op && op->span) f->span = *op->span;
  memcpy(f->program, run->program, sizeof f->program);
  f->rank = 0;
  if (type && element >= 0) {
    f->rank = type->rank;
    for (int d = type->rank - 1; d >= 0; d--) {
      f->index[d] = (int32_t)(element % type->shape[d]);
      element /= type->shape[d];
    }
  }
  return false;
}

bool run_out_of_memory(Run *run, const Op *op) {
  run->fault->out_of_memory = true;
  return run_fault(run, op, NULL, -1, "out of memory");
}

/* ---- the debugger's hook ----------------------------------------------------------------------------------------- */

const void *interp_value(const InterpFrame *frame, const Value *v) {
  while (v->forward) v = v->forward;
  if (frame->computed && !frame->computed[v->id]) return NULL;
  int64_t offset = frame->plan->offset[plan_root(v)->id];
  return offset < 0 ? NULL : frame->plan->values + offset;
}

void interp_program(const InterpFrame *frame, int32_t out[3]) { memcpy(out, frame->program, sizeof frame->program); }

typedef struct Step {
  Run *run;
  const Op *op;
  bool goes_on;
} Step;

static void call_step(void *arg) {
  Step *s = arg;
  s->goes_on = s->run->options->step(s->run->options->step_arg, s->run, s->op);
}

static bool step(Run *run, const Op *op) {
  const Span *at = op->span;
  if (!at || !at->source || (at->source == run->step_source && at->line == run->step_line)) return true;
  run->step_source = at->source;
  run->step_line = at->line;
  Step call = {run, op, false};
  coroutine_outside(call_step, &call);
  if (call.goes_on) return true;
  return run_fault(run, op, NULL, -1, "stopped");
}

/* What an earlier turn or branch computed does not count in this one. */
static void forget(Run *run, const Block *block) {
  for (const Op *op = block->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++) run->computed[op->out[i]->id] = false;
    for (int r = 0; r < op_info[op->code].regions; r++) {
      for (int i = 0; i < op->body[r]->arg_count; i++) run->computed[op->body[r]->args[i]->id] = false;
      forget(run, op->body[r]);
    }
  }
}

static bool run_code_stepping(Run *run, const Code *code) {
  forget(run, code->block);
  for (int i = 0; i < code->block->arg_count; i++) run->computed[code->block->args[i]->id] = true;
  for (int i = 0; i < code->count; i++) {
    const Node *node = &code->nodes[i];
    if (!step(run, node->op) || !node->fn(run, node, node->n)) return false;
    for (int k = 0; k < node->op->out_count; k++) run->computed[node->op->out[k]->id] = true;
  }
  return true;
}

/* ---- code -------------------------------------------------------------------------------------------------------- */

static const char too_deep[] = "the kernel is nested too deeply for the stack of this thread";

static bool waited_in_vain(Run *run, const Op *op) {
  char message[256];
  residents_message(run->residents, message, sizeof message);
  run->fault->over_limit = true;
  return run_fault(run, op, NULL, -1, "%s", message);
}

static bool over_operations(Run *run, const Op *op) {
  if (run->residents && residents_all_wait(run->residents)) return waited_in_vain(run, run->loop);
  run->fault->over_limit = true;
  return run_fault(run, op, NULL, -1,
                   "the launch takes more than %lld operations; let it do less, or raise limits.operations",
                   (long long)run->options->operations);
}

/* A thread runs all programs of a launch. */
static int64_t take_work(Run *run, int64_t work) {
  int64_t left = atomic_load_explicit(run->left, memory_order_relaxed) - work;
  atomic_store_explicit(run->left, left, memory_order_relaxed);
  return left;
}

bool run_work(Run *run, const Op *op, int64_t work) { return take_work(run, work) >= 0 || over_operations(run, op); }

bool run_code(Run *run, const Code *code) {
  if (take_work(run, code->work) < 0) return over_operations(run, code->count ? code->nodes[0].op : NULL);
  if (stack_short()) {
    run->fault->over_limit = true;
    return run_fault(run, NULL, NULL, -1, "%s", too_deep);
  }
  if (run->computed) return run_code_stepping(run, code);
  for (int i = 0; i < code->count; i++) {
    const Node *node = &code->nodes[i];
    run->operations++;
    if (!node->fn(run, node, node->n)) return false;
  }
  return true;
}

void run_captures(const Code *code) {
  for (int i = 0; i < code->capture_count; i++)
    fill_elements(code->captures[i].lanes, code->captures[i].from, code->captures[i].bytes, LANES);
}

bool run_lanes(Run *run, const Code *code, int64_t n) {
  for (int i = 0; i < code->count; i++)
    if (!code->nodes[i].fn(run, &code->nodes[i], n)) return false;
  return true;
}

bool run_nothing(Run *run, const Node *node, int64_t n) { return true; }

static void copy_value(char *to, const char *from, const Value *v) {
  if (to != from) memcpy(to, from, (size_t)plan_type_bytes(v->type));
}

/* ---- for --------------------------------------------------------------------------------------------------------- */

/* Whether some carried value would be overwritten by the yield before the yield reads it. */
static bool yield_permutes(const Op *op) {
  const Op *yield = op->body[0]->last;
  for (int i = 0; i < op->out_count; i++) {
    const Value *v = plan_root(yield->in[i]);
    if (!v->def && v->block == op->body[0] && v->index > 0 && v->index - 1 != i) return true;
  }
  return false;
}

int64_t scratch_for(const Op *op) {
  if (!yield_permutes(op)) return 0;
  int64_t bytes = 0;
  for (int i = 0; i < op->out_count; i++) bytes += (plan_type_bytes(op->out[i]->type) + 63) & ~63LL;
  return bytes;
}

bool run_for(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const Code *body = node->body[0];
  Dtype t = op->body[0]->args[0]->type->dtype;
  int64_t i = scalar_load(t, node->in[0]).i, end = scalar_load(t, node->in[1]).i,
          stride = scalar_load(t, node->in[2]).i;
  bool is_unsigned = !dtype_is_signed(t);
  for (int k = 0; k < op->out_count; k++) copy_value(body->args[k + 1], node->in[k + 3], op->out[k]);

  int64_t constant;
  bool down = !is_unsigned && stride < 0;
  bool enters = is_unsigned ? (uint64_t)i < (uint64_t)end : i < end;
  if ((stride == 0 && enters) || (down && !value_is_const(op->in[2], &constant)))
    return run_fault(run, op, NULL, -1,
                     "the step of this loop is %lld, and a step computed at run time must be positive",
                     (long long)stride);
  char *scratch = run->scratch;
  run->scratch += node->scratch;
  const Op *yield = op->body[0]->last;
  while (is_unsigned ? (uint64_t)i < (uint64_t)end : down ? i > end : i < end) {
    scalar_store(t, body->args[0], (Scalar){.i = i});
    if (!run_code(run, body)) return false;
    if (node->scratch) {
      char *at = scratch;
      for (int k = 0; k < op->out_count; k++) {
        copy_value(at, body->results[k], op->out[k]);
        at += (plan_type_bytes(op->out[k]->type) + 63) & ~63LL;
      }
      at = scratch;
      for (int k = 0; k < op->out_count; k++) {
        copy_value(body->args[k + 1], at, op->out[k]);
        at += (plan_type_bytes(op->out[k]->type) + 63) & ~63LL;
      }
    } else {
      for (int k = 0; k < op->out_count; k++) copy_value(body->args[k + 1], body->results[k], yield->in[k]);
    }
    /* The distance left is exact even where i + stride would overflow. */
    uint64_t left = down ? (uint64_t)i - (uint64_t)end : (uint64_t)end - (uint64_t)i;
    uint64_t turn = down ? 0 - (uint64_t)stride : (uint64_t)stride;
    if (left <= turn) break;
    i = (int64_t)((uint64_t)i + (uint64_t)stride);
  }
  run->scratch = scratch;
  return true;
}

/* ---- while, if --------------------------------------------------------------------------------------------------- */

/* Others go on, before the loop looks again at what it waits for. */
static bool give_way(Run *run, const Op *loop, bool got_ahead) {
  if (!run->residents) return true;
  ShadowProgram mine = run->shadow ? shadow_leave(run->shadow) : (ShadowProgram){0};
  run->loop = loop;
  bool goes_on = residents_wait(run->residents, got_ahead);
  if (run->shadow) shadow_enter(run->shadow, mine);
  if (goes_on) return true;
  return residents_in_vain(run->residents) && !run->fault->set ? waited_in_vain(run, loop) : false;
}

bool run_while(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  Wait wait = op_waits(op);
  const Code *test = node->body[0], *body = node->body[1];
  const Op *condition = op->body[0]->last, *yield = op->body[1]->last;
  for (int i = 0; i < op->in_count; i++) copy_value(test->args[i], node->in[i], op->in[i]);
  for (bool first = true;; first = false) {
    if (!run_code(run, test)) return false;
    bool go_on = *(uint8_t *)test->results[0] != 0;
    for (int i = 1; i < condition->in_count; i++)
      copy_value(go_on ? body->args[i - 1] : node->out[i - 1], test->results[i], condition->in[i]);
    if (!go_on) return true;
    if (!run_code(run, body)) return false;
    for (int i = 0; i < yield->in_count; i++) copy_value(test->args[i], body->results[i], yield->in[i]);
    if (wait && !give_way(run, op, first || wait == WAIT_WORKS)) return false;
  }
}

bool run_if(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const Code *body = node->body[*(uint8_t *)node->in[0] ? 0 : 1];
  if (!run_code(run, body)) return false;
  for (int i = 0; i < op->out_count; i++) copy_value(node->out[i], body->results[i], op->out[i]);
  return true;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static bool run_program(Run *run, int64_t linear) {
  int64_t x = run->grid[0], y = run->grid[1];
  run->program[0] = (int32_t)(linear % x);
  run->program[1] = (int32_t)(linear / x % y);
  run->program[2] = (int32_t)(linear / x / y);
  run->step_source = NULL;
  if (run->shadow && !shadow_begin_program(run->shadow, linear)) return run_out_of_memory(run, NULL);
  if (!run->options->instrument) return run_code(run, run->plan->code);
  run->operations = 0;
  instrument_open(&run->cursor, run->options->instrument, linear, 0, 0, 0);
  bool ok = run_code(run, run->plan->code);
  instrument_close(&run->cursor, run->operations, run->operations);
  return ok;
}

static uint64_t mix(uint64_t x) { /* splitmix64's finalizer */
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

/* The i-th of n numbers in an order drawn from seed, without a table: a Feistel network permutes [0, 4^k), and what
 * lies at n or above goes through it again until it comes out below. */
static int64_t shuffled(int64_t i, int64_t n, uint64_t seed) {
  int half = 1;
  while (half < 31 && 1LL << 2 * half < n) half++;
  uint64_t mask = (1ULL << half) - 1, at = (uint64_t)i;
  do {
    uint64_t left = at >> half, right = at & mask;
    for (uint64_t round = 0; round < 6; round++) {
      uint64_t next = left ^ (mix(right + mix(seed + round * 0x9E3779B97F4A7C15ULL)) & mask);
      left = right;
      right = next;
    }
    at = left << half | right;
  } while (at >= (uint64_t)n);
  return (int64_t)at;
}

/* The i-th of the launch's n programs; -1 after a fault. */
static int64_t program_at(Run *run, int64_t i, int64_t n, int64_t total) {
  const InterpOptions *o = run->options;
  int64_t at = o->shuffle ? shuffled(i, n, o->seed) : i, linear = o->programs ? o->programs[at] : at;
  if (linear >= 0 && linear < total) return linear;
  run_fault(run, NULL, NULL, -1, "program %lld is not in the grid, which has %lld", (long long)linear,
            (long long)total);
  return -1;
}

static bool make_plan(Run *run) {
  PlanLimits limits = {.memory = run->options->memory};
  run->plan = plan_create(run->func, run->options->step != NULL, &limits);
  run->fault->over_limit = limits.too_deep || limits.needed;
  if (limits.too_deep) return run_fault(run, NULL, NULL, -1, "%s", too_deep);
  if (limits.needed)
    return run_fault(run, NULL, NULL, -1,
                     "the values of a program take %lld MiB; use smaller tiles, or raise limits.memory_bytes",
                     (long long)(limits.needed >> 20));
  return run->plan || run_out_of_memory(run, NULL);
}

/* Makes the plan, and puts the arguments where it has them. */
static bool get_ready(Run *run, const uint64_t *args) {
  const Func *f = run->func;
  if (!make_plan(run)) return false;
  Plan *plan = run->plan;
  run->arg_regions = plan_alloc(plan, (size_t)f->body->arg_count * sizeof *run->arg_regions);
  if (!run->arg_regions) return run_out_of_memory(run, NULL);
  for (int i = 0; i < f->body->arg_count; i++) {
    const Type *t = f->body->args[i]->type;
    char *place = plan->values + plan->offset[f->body->args[i]->id];
    if (t->ptr) run->arg_regions[i] = memory_view_find(&run->view, (uintptr_t)args[i]);
    memcpy(place, &args[i], (size_t)plan_elem_bytes(t));
    if (!t->ptr && t->dtype == DT_I1) *place = args[i] != 0;
  }
  if (run->options->step) {
    run->computed = plan_alloc(plan, (size_t)f->value_count);
    if (!run->computed) return run_out_of_memory(run, NULL);
  }
  run->scratch = plan->scratch;
  return true;
}

static bool run_in_order(Run *run, const uint64_t *args, int64_t n, int64_t total) {
  bool ok = get_ready(run, args);
  for (int64_t i = 0; i < n && ok; i++) {
    int64_t linear = program_at(run, i, n, total);
    ok = linear >= 0 && run_program(run, linear);
  }
  plan_destroy(run->plan);
  return ok;
}

/* ---- programs that wait for each other: each has values of its own ---- */

typedef struct Together {
  const Run *run; /* what they have in common */
  const uint64_t *args;
  int64_t n, total;
} Together;

static void *open_program(void *arg) {
  const Together *t = arg;
  Run *run = malloc(sizeof *run);
  if (!run) return NULL;
  *run = *t->run;
  InterpFault fault; /* for want of memory: it may wait until there is some */
  run->fault = &fault;
  if (get_ready(run, t->args)) {
    run->fault = t->run->fault;
    return run;
  }
  plan_destroy(run->plan);
  free(run);
  return NULL;
}

static void close_program(void *arg, void *state) {
  Run *run = state;
  plan_destroy(run->plan);
  free(run);
}

static bool run_one_of(void *arg, void *state, int64_t i) {
  const Together *t = arg;
  int64_t linear = program_at(state, i, t->n, t->total);
  return linear >= 0 && run_program(state, linear);
}

static bool run_together(Run *run, const uint64_t *args, int64_t n, int64_t total) {
  Together t = {run, args, n, total};
  bool ready = get_ready(run, args);
  int64_t bytes = ready ? run->plan->bytes : 0;
  plan_destroy(run->plan);
  if (!ready) return false;
  Residents r = {.count = n,
                 .bytes = bytes,
                 .open = open_program,
                 .close = close_program,
                 .run = run_one_of,
                 .arg = &t,
                 .operations = run->left};
  residents_init(&r, 1);
  run->residents = &r;
  bool ok = residents_work(&r);
  return ok || run->fault->set ? ok : run_out_of_memory(run, NULL);
}

bool interp_run(const Func *f, InterpMemory *m, const uint64_t *args, const int32_t grid[3],
                const InterpOptions *options, InterpFault *fault) {
  static const InterpOptions defaults;
  *fault = (InterpFault){0};
  Run run = {.func = f, .options = options ? options : &defaults, .fault = fault};
  memcpy(run.grid, grid, sizeof run.grid);
  __int128 total = 1;
  for (int d = 0; d < 3; d++) {
    if (grid[d] < 0)
      return run_fault(&run, NULL, NULL, -1, "the grid (%d, %d, %d) has a negative size", grid[0], grid[1], grid[2]);
    total *= grid[d];
  }
  if (total == 0) return true;
  if (total > INT64_MAX / 4)
    return run_fault(&run, NULL, NULL, -1, "the grid (%d, %d, %d) has too many programs", grid[0], grid[1], grid[2]);
  _Atomic int64_t left = run.options->operations ? run.options->operations : INT64_MAX;
  run.left = &left;
  int64_t n = run.options->programs ? run.options->program_count : (int64_t)total;
  bool ok = memory_view_take(m, &run.view) && (!run.options->check_races || (run.shadow = shadow_create()));
  if (!ok) run_out_of_memory(&run, NULL);
  else if (tile_waits(f)) ok = run_together(&run, args, n, (int64_t)total);
  else ok = run_in_order(&run, args, n, (int64_t)total);
  shadow_destroy(run.shadow);
  memory_view_drop(&run.view);
  return ok;
}
