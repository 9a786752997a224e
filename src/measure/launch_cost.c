/* nereid_launch_cost: a launch's cost in the public interface's words; the counting is tile/analysis/cost.c's. */
#include <stdlib.h>

#include "measure/report.h"
#include "measure/tune.h"

static void put_remarks(nereid_cost *out, const TileCost *c) {
  Buf text = {0};
  for (int i = 0; i < COST_NOTES; i++) {
    if (!c->noted[i]) continue;
    const Span *at = c->place[i];
    if (at && at->source) buf_printf(&text, "%s:%d: ", at->source->path, at->line);
    buf_printf(&text, "%s\n", cost_note_text((CostNote)i));
    out->exact = false;
  }
  if (text.n >= sizeof out->remarks) text.n = sizeof out->remarks - 1;
  if (text.n) memcpy(out->remarks, text.at, text.n);
  buf_destroy(&text);
}

void cost_put(nereid_cost *out, const TileCost *c) {
  const int64_t *n = c->count;
  *out = (nereid_cost){.programs = c->programs,
                       .programs_walked = c->walked,
                       .add = n[COST_ADD],
                       .mul = n[COST_MUL],
                       .fma = n[COST_FMA],
                       .div = n[COST_DIV],
                       .transcendental = n[COST_TRANSCENDENTAL],
                       .dot = n[COST_DOT],
                       .compare = n[COST_COMPARE],
                       .integer = n[COST_INTEGER],
                       .atomic = n[COST_ATOMIC],
                       .load_bytes = c->load.bytes,
                       .store_bytes = c->store.bytes,
                       .load_distinct = c->load.distinct,
                       .store_distinct = c->store.distinct,
                       .exact = true,
                       .at_least = c->noted[COST_NOTE_LOOP] || c->noted[COST_NOTE_BRANCH] || c->noted[COST_NOTE_ASM]};
  for (int i = 0; i < COST_TYPES; i++)
    out->typed[i] = (nereid_typed_cost){c->typed[i][COST_ADD], c->typed[i][COST_MUL], c->typed[i][COST_FMA]};
  memcpy(out->dots, c->dots, sizeof out->dots);
  out->flops = (double)out->add + (double)out->mul + 2.0 * (double)out->fma + (double)out->div +
               (double)out->transcendental + 2.0 * (double)out->dot;
  put_remarks(out, c);
}

typedef struct Counting {
  nereid_module *module;
  const Call *call;
  const nereid_options *options;
  int32_t grid[3];
  int cuda_sm;
  Specialization spec; /* its slots alone */
  uint64_t *args;
  Buf print;                /* of static_print, which a launch has said or will say */
  nereid_device *checks_on; /* bounds alone are checked, of this device's arrays */
} Counting;

/* Sizes that the caller did not say, the device may know. */
static void find_sizes(const Counting *n, HostArray *contents) {
  for (int i = 0; i < n->spec.run.slot_count; i++) {
    const void *p = (const void *)(uintptr_t)n->args[i];
    int64_t bytes = n->spec.run.slots[i].is_pointer && !contents[i].bytes ? device_bytes_from(n->checks_on, p) : 0;
    if (bytes > 0) contents[i].bytes = bytes;
  }
}

static void tell_fault(const Counting *n, Context *cx, const CostFault *f, const HostArray *contents) {
  const char *name = n->call->kernel->names[n->spec.run.slots[f->arg].param];
  const char *what = f->op->code == OP_LOAD    ? "load"
                     : f->op->code == OP_STORE ? "store"
                                               : "atomic",
             *does = f->op->code == OP_LOAD    ? "reads"
                     : f->op->code == OP_STORE ? "writes"
                                               : "updates";
  diag_fail(cx, f->op->span ? *f->op->span : (Span){0},
            "%s out of bounds: program (%d,%d,%d) %s %lld bytes at %s%+lld (%s has %lld bytes)", what, f->program[0],
            f->program[1], f->program[2], does, (long long)f->bytes, name, (long long)f->at, name,
            (long long)contents[f->arg].bytes);
}

static nereid_status count(Counting *n, Context *cx, nereid_cost *out, nereid_error **error) {
  volatile nereid_status phase = NEREID_BAD_SOURCE, status = NEREID_OK;
  if (context_try(cx)) {
    Compiled *front = compile_front(n->module, n->call, n->options, n->cuda_sm, cx, &n->print);
    phase = NEREID_INTERNAL;
    n->spec.kernel = n->call->kernel;
    specialization_keep_slots(&n->spec, front, cx);
    tile_optimize(front->func, NULL, NULL, false);
    n->args = NEW_N(cx->arena, uint64_t, n->spec.run.slot_count + 1);
    status = call_pack(n->call, &n->spec, n->args, error);
    HostArray *contents = NEW_N(cx->arena, HostArray, n->spec.run.slot_count + 1);
    call_contents(n->call, &n->spec, contents);
    tile_host_arrays(front->func, n->args, contents);
    if (!status && n->checks_on) find_sizes(n, contents);
    const TileCost *cost = status ? NULL : tile_cost(front->func, n->args, contents, n->grid);
    phase = NEREID_KERNEL_FAULT;
    if (cost && n->checks_on && cost->fault.op) tell_fault(n, cx, &cost->fault, contents);
    if (cost && out) cost_put(out, cost);
    context_end_try(cx);
  } else {
    status = error_from_context(error, phase, cx);
  }
  return status;
}

nereid_status grid_countable(int64_t programs, nereid_error **error) {
  if (programs <= (int64_t)1 << 40) return NEREID_OK;
  return error_set(error, NEREID_UNSUPPORTED, "ask for a part of the grid: 2^40 programs are counted",
                   "%lld programs are too many to be counted: the figures would not fit", (long long)programs);
}

/* out NULL: bounds are checked. */
static nereid_status walk_launch(nereid_device *d, nereid_module *m, const char *kernel, const int64_t grid[3],
                                 const nereid_arg *args, int arg_count, const nereid_options *o, nereid_cost *out,
                                 nereid_error **error) {
  TAKE_OPTIONS(o);
  const KernelInfo *k = module_kernel(m, kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  if (m->is_cuda_c)
    return error_set(error, NEREID_UNSUPPORTED, NULL,
                     "kernel '%s' is CUDA C, whose operations and bytes are not counted", kernel);
  Call c;
  Found found = {0};
  nereid_status status =
      d ? call_bind_on(&c, k, d, args, arg_count, o, error) : call_bind(&c, k, &device_cpu, args, arg_count, o, error);
  Counting n = {.module = m, .call = &c, .options = o, .cuda_sm = d ? d->cuda_sm : 0, .checks_on = out ? NULL : d};
  int64_t total;
  if (!status) status = grid_check(grid, o, n.grid, &total, error);
  if (!status) status = grid_countable(total, error);
  if (!status && o->programs)
    status =
        error_set(error, NEREID_UNSUPPORTED, "count the whole grid", "the cost of a list of programs is not counted");
  if (!status) status = autotune_find(d, m, &c, o, NULL, false, &found, NULL, error);
  Context *cx = status ? NULL : context_within(o);
  if (!status) status = cx ? count(&n, cx, out, error) : error_out_of_memory(error);
  context_destroy(cx);
  free(n.spec.run.slots);
  buf_destroy(&n.print);
  found_free(&found);
  call_free(&c);
  return status;
}

nereid_status nereid_launch_cost(nereid_device *d, nereid_module *m, const char *kernel, const int64_t grid[3],
                                 const nereid_arg *args, int arg_count, const nereid_options *o, nereid_cost *out,
                                 nereid_error **error) {
  if (!m) return error_null(error, "nereid_launch_cost", "the module");
  if (!kernel) return error_null(error, "nereid_launch_cost", "the kernel's name");
  if (!out) return error_null(error, "nereid_launch_cost", "out");
  return walk_launch(d, m, kernel, grid, args, arg_count, o, out, error);
}

nereid_status nereid_check_bounds(nereid_device *d, nereid_module *m, const char *kernel, const int64_t grid[3],
                                  const nereid_arg *args, int arg_count, const nereid_options *o,
                                  nereid_error **error) {
  if (!d) return error_null(error, "nereid_check_bounds", "the device");
  if (!m) return error_null(error, "nereid_check_bounds", "the module");
  if (!kernel) return error_null(error, "nereid_check_bounds", "the kernel's name");
  return walk_launch(d, m, kernel, grid, args, arg_count, o, NULL, error);
}
