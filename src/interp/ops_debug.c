/* print, assert, assume, and inline assembly, which cannot run here.
 *
 * device_print writes a line an element, in the order of operands, then of elements:
 *
 *     pid (x, y, z) idx (i, j) prefix: (operand 1) value
 *
 * with the prefix as the front end normalised it (" prefix: "), "(operand n) " only where there are several. Without
 * operands it is one line: pid (x, y, z) prefix.
 */
#include "interp/run.h"

#include <inttypes.h>

typedef struct Line {
  const InterpOptions *options;
  const char *text;
} Line;

static void print_line(void *arg) {
  const Line *l = arg;
  if (l->options->print) l->options->print(l->options->print_arg, l->text);
  else fprintf(stderr, "%s\n", l->text);
}

static void emit(Run *run, const Buf *b) {
  if (b->at) coroutine_outside(print_line, &(Line){run->options, b->at});
}

static void put_element(Buf *b, const Type *t, const void *p, bool hex) {
  uint64_t bits = 0;
  int bytes = plan_elem_bytes(t);
  memcpy(&bits, p, (size_t)bytes);
  if (t->ptr) buf_printf(b, "0x%" PRIx64, bits);
  else if (hex) buf_printf(b, "0x%0*" PRIx64, t->dtype == DT_I1 ? 1 : 2 * bytes, bits);
  else if (dtype_is_float(t->dtype)) buf_printf(b, "%f", dtype_load_float(t->dtype, p));
  else if (dtype_is_signed(t->dtype)) buf_printf(b, "%" PRId64, scalar_load(t->dtype, p).i);
  else buf_printf(b, "%" PRIu64, bits);
}

enum { LINE_WORK = 64 }; /* what a line takes, in operations of the launch's limit */

bool run_print(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const char *text = op->text ? op->text : "";
  Buf b = {0};
  if (op->in_count == 0) {
    buf_printf(&b, "pid (%d, %d, %d)%s", run->program[0], run->program[1], run->program[2], text);
    emit(run, &b);
  }
  for (int k = 0; k < op->in_count; k++) {
    const Type *t = op->in[k]->type;
    int64_t count = type_numel(t);
    int32_t index[MAX_RANK] = {0};
    if (!run_work(run, op, LINE_WORK * count)) return buf_destroy(&b), false;
    for (int64_t i = 0; i < count; i++) {
      b.n = 0;
      buf_printf(&b, "pid (%d, %d, %d) idx (", run->program[0], run->program[1], run->program[2]);
      for (int d = 0; d < t->rank; d++) buf_printf(&b, "%s%*d", d ? ", " : "", type_print_width(t, d), index[d]);
      buf_printf(&b, ")%s", text);
      if (op->in_count > 1) buf_printf(&b, "(operand %d) ", k);
      put_element(&b, t, node->in[k] + i * plan_elem_bytes(t), op->hex != 0);
      emit(run, &b);
      for (int d = t->rank - 1; d >= 0 && ++index[d] == t->shape[d]; d--) index[d] = 0;
    }
  }
  bool failed = b.failed;
  buf_destroy(&b);
  return failed ? run_out_of_memory(run, op) : true;
}

static bool is_zero(const char *p, int bytes) {
  for (int i = 0; i < bytes; i++)
    if (p[i]) return false;
  return true;
}

/* Of passes/undefined.c: the elements number the operations that made them undefined, whose lines follow the text. */
static bool run_defined(Run *run, const Node *node, int64_t n, const uint8_t *mask) {
  const int32_t *origin = (const int32_t *)node->in[0];
  for (int64_t i = 0; i < n; i++) {
    if (!origin[i] || (mask && !mask[i])) continue;
    const char *line = node->op->text;
    int head = (int)strcspn(line, "\n");
    for (int k = 0; k < origin[i] && *line; k++) line += strcspn(line, "\n") + 1;
    return run_fault(run, node->op, node->op->in[0]->type, i, "%.*s %.*s", head, node->op->text,
                     (int)strcspn(line, "\n"), line);
  }
  return true;
}

bool run_assert(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const Type *t = op->in[0]->type;
  const uint8_t *mask = op->in_count > 1 ? (const uint8_t *)node->in[1] : NULL;
  int bytes = plan_elem_bytes(t);
  if (op->undefined) return run_defined(run, node, n, mask);
  for (int64_t i = 0; i < n; i++)
    if ((!mask || mask[i]) && is_zero(node->in[0] + i * bytes, bytes)) {
      if (op->text && *op->text) return run_fault(run, op, t, i, "assertion failed: %s", op->text);
      return run_fault(run, op, t, i, "assertion failed");
    }
  return true;
}

bool run_assume(Run *run, const Node *node, int64_t n) {
  const Type *t = node->op->in[0]->type;
  int bytes = plan_elem_bytes(t);
  for (int64_t i = 0; i < n; i++)
    if (is_zero(node->in[0] + i * bytes, bytes)) return run_fault(run, node->op, t, i, "assumption does not hold");
  return true;
}

bool run_asm(Run *run, const Node *node, int64_t n) {
  return run_fault(run, node->op, NULL, -1, "inline assembly cannot run on the interpreter; use a CUDA device");
}

/* The record itself does not count. */
bool run_scope(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  run->operations--;
  if (run->options->instrument)
    instrument_mark(&run->cursor,
                    INSTRUMENT_TAG(op->region, op->end) | (instrument_repeats(op) ? INSTRUMENT_REPEATED : 0),
                    run->operations);
  return true;
}
