/* The walk over a plan's Code, and control flow.
 *
 * Control flow copies values between the places that the plan gave them. A for loop's carried values stay where they
 * are (body arguments and results share a place) and a yield copies into them; where a yield permutes them (`yield %b,
 * %a`) it goes through scratch space. The copy of a while loop needs none: its two bodies' arguments lie apart.
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

bool run_too_deep(Run *run) {
  return run_fault(run, NULL, NULL, -1, "the kernel is nested too deeply for the stack of this thread");
}

/* ---- the debugger's hook ----------------------------------------------------------------------------------------- */

const void *interp_value(const InterpFrame *frame, const Value *v) {
  while (v->replacement) v = v->replacement;
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

/* What an earlier iteration or branch computed does not count in this one. */
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
    return run_too_deep(run);
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
  for (int i = 0; i < op->out_count; i++) bytes += align_up(plan_type_bytes(op->out[i]->type), 64);
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
        at += align_up(plan_type_bytes(op->out[k]->type), 64);
      }
      at = scratch;
      for (int k = 0; k < op->out_count; k++) {
        copy_value(body->args[k + 1], at, op->out[k]);
        at += align_up(plan_type_bytes(op->out[k]->type), 64);
      }
    } else {
      for (int k = 0; k < op->out_count; k++) copy_value(body->args[k + 1], body->results[k], yield->in[k]);
    }
    /* The distance left is exact even where i + stride would overflow. */
    uint64_t left = down ? (uint64_t)i - (uint64_t)end : (uint64_t)end - (uint64_t)i;
    uint64_t step = down ? 0 - (uint64_t)stride : (uint64_t)stride;
    if (left <= step) break;
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

bool run_kernel(Run *run, const Node *node, int64_t n) {
  node->kernel(node->out[0], (void *const *)node->in, n);
  return true;
}
