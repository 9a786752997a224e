/* Interp: runs a launch: the programs of a grid one after the other, each a walk over the plan's Code (code.c).
 *
 * Where programs may wait for each other, each is a coroutine with a plan of its own (base/resident.c).
 */
#include "interp/run.h"

#include <stdatomic.h>
#include <stdlib.h>

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

/* The i-th of n numbers in an order drawn from seed, without a table: a Feistel network permutes [0, 4^k), and what
 * lies at n or above goes through it again until it comes out below. */
static int64_t shuffled(int64_t i, int64_t n, uint64_t seed) {
  int half = 1;
  while (half < 31 && 1LL << 2 * half < n) half++;
  uint64_t mask = (1ULL << half) - 1, at = (uint64_t)i;
  do {
    uint64_t left = at >> half, right = at & mask;
    for (uint64_t round = 0; round < 6; round++) {
      uint64_t next = left ^ (hash_number(right + hash_number(seed + round * 0x9E3779B97F4A7C15ULL)) & mask);
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
  if (limits.too_deep) return run_too_deep(run);
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
