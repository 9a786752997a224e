/* reduce, scan and map: operations whose body says what happens to scalars.
 *
 * A tensor is seen as [outer, length, inner] around the axis. Where the body is elementwise (any combine function
 * without control flow), one walk over it serves up to LANES elements at once; else it runs once for each element.
 *
 * reduce combines neighbours, then neighbours of the results, and so on: a balanced tree, which keeps the order of
 * operands (an associative body is enough), gives float sums a small error, and is the same for every LANES. Each
 * partial result has the body's type:
 *
 *     length 8:  (((0 1) (2 3)) ((4 5) (6 7)))
 *
 * scan goes along the axis one step at a time, all lines at once: result[i] = body(result[i - 1], x[i]); reversed from
 * the end. map takes `pack` neighbours at a time, in row-major order.
 */
#include "interp/run.h"

enum { MOST_OPERANDS = 64 };

/* Where the axis of a reduce or scan lies. */
typedef struct Lines {
  int64_t outer, length, inner;
} Lines;

static Lines lines_of(const Op *op) {
  const Type *t = op->in[0]->type;
  int axis = (int)op->axis;
  Lines l = {1, t->shape[axis], 1};
  for (int d = 0; d < axis; d++) l.outer *= t->shape[d];
  for (int d = axis + 1; d < t->rank; d++) l.inner *= t->shape[d];
  return l;
}

static bool run_body(Run *run, const Node *node, int64_t lanes) {
  const Code *body = node->body[0];
  return body->lanes ? run_lanes(run, body, lanes) : run_code(run, body);
}

static int64_t most_lanes(const Node *node) { return node->body[0]->lanes ? LANES : 1; }

/* Copies n elements that lie `stride` elements apart, from or to. */
static void take_lanes(char *lanes, const char *from, int64_t n, int64_t stride, int bytes) {
  switch (bytes) {
#define TAKE(size, T) \
  case size: \
    for (int64_t i = 0; i < n; i++) ((T *)lanes)[i] = ((const T *)from)[i * stride]; \
    break;
    TAKE(1, uint8_t)
    TAKE(2, uint16_t)
    TAKE(4, uint32_t)
    TAKE(8, uint64_t)
#undef TAKE
  }
}

static void put_lanes(char *to, const char *lanes, int64_t n, int64_t stride, int bytes) {
  switch (bytes) {
#define PUT(size, T) \
  case size: \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i * stride] = ((const T *)lanes)[i]; \
    break;
    PUT(1, uint8_t)
    PUT(2, uint16_t)
    PUT(4, uint32_t)
    PUT(8, uint64_t)
#undef PUT
  }
}

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

/* A copy of each operand, which the levels of the tree shrink in place. */
int64_t scratch_reduce(const Op *op) {
  int64_t bytes = 0;
  for (int k = 0; k < op->in_count; k++) bytes += align_up(plan_type_bytes(op->in[k]->type), 64);
  return bytes;
}

/* Combines pairs [first, first + n) of the operands in `work`. Pair p is of rows 2p and 2p + 1, which have `inner`
 * elements each; its result becomes row p. Elements of results count row by row: element e is made of elements that lie
 * at e or later, so going front to back nothing is overwritten that is still to be read. */
static bool combine(Run *run, const Node *node, char *const *work, int64_t first, int64_t n, int64_t inner) {
  const Op *op = node->op;
  const Code *body = node->body[0];
  int operands = op->in_count;
  for (int k = 0; k < operands; k++) {
    int bytes = plan_elem_bytes(op->in[k]->type);
    char *a = body->args[k], *b = body->args[operands + k];
    if (inner == 1) {
      const char *pairs = work[k] + 2 * first * bytes;
      take_lanes(a, pairs, n, 2, bytes);
      take_lanes(b, pairs + bytes, n, 2, bytes);
      continue;
    }
    for (int64_t done = 0; done < n;) {
      int64_t row = (first + done) / inner, column = (first + done) % inner;
      int64_t m = inner - column < n - done ? inner - column : n - done;
      const char *upper = work[k] + (2 * row * inner + column) * bytes;
      memcpy(a + done * bytes, upper, (size_t)(m * bytes));
      memcpy(b + done * bytes, upper + inner * bytes, (size_t)(m * bytes));
      done += m;
    }
  }
  if (!run_body(run, node, n)) return false;
  for (int k = 0; k < operands; k++) {
    int bytes = plan_elem_bytes(op->in[k]->type);
    memcpy(work[k] + first * bytes, body->results[k], (size_t)(n * bytes));
  }
  return true;
}

bool run_reduce(Run *run, const Node *node, int64_t unused) {
  const Op *op = node->op;
  Lines l = lines_of(op);
  char *scratch = run->scratch, *at = scratch, *work[MOST_OPERANDS];
  if (op->in_count > MOST_OPERANDS)
    return run_fault(run, op, NULL, -1, "a reduction of more than %d tensors", MOST_OPERANDS);
  for (int k = 0; k < op->in_count; k++) {
    int64_t bytes = plan_type_bytes(op->in[k]->type);
    work[k] = at;
    memcpy(at, node->in[k], (size_t)bytes);
    at += align_up(bytes, 64);
  }
  run->scratch += node->scratch;
  if (node->body[0]->lanes) run_captures(node->body[0]);
  bool ok = true;
  for (int64_t length = l.length; length > 1 && ok; length /= 2) {
    int64_t results = l.outer * (length / 2) * l.inner, step = most_lanes(node);
    for (int64_t i = 0; i < results && ok; i += step)
      ok = combine(run, node, work, i, results - i < step ? results - i : step, l.inner);
  }
  for (int k = 0; k < op->out_count; k++) memcpy(node->out[k], work[k], (size_t)plan_type_bytes(op->out[k]->type));
  run->scratch = scratch;
  return ok;
}

/* ---- scan -------------------------------------------------------------------------------------------------------- */

bool run_scan(Run *run, const Node *node, int64_t unused) {
  const Op *op = node->op;
  const Code *body = node->body[0];
  Lines l = lines_of(op);
  bool reverse = op->reverse != 0;
  int operands = op->in_count;
  int64_t step = most_lanes(node), lines = l.outer * l.inner;
  if (body->lanes) run_captures(body);
  /* Lines of one outer index are neighbours; with inner 1 the lines of all outer indices lie `length` apart. */
  int64_t across = l.inner == 1 ? lines : l.inner, stride = l.inner == 1 ? l.length : 1;
  for (int64_t first = 0; first < lines;) {
    int64_t n = across - first % across < step ? across - first % across : step;
    int64_t base = l.inner == 1 ? first * l.length : first / l.inner * l.length * l.inner + first % l.inner;
    for (int64_t i = 0; i < l.length; i++) {
      int64_t at = base + (reverse ? l.length - 1 - i : i) * l.inner;
      for (int k = 0; k < operands; k++) {
        int bytes = plan_elem_bytes(op->in[k]->type);
        const char *x = node->in[k] + at * bytes;
        if (i == 0) {
          take_lanes(body->args[k], x, n, stride, bytes);
          put_lanes(node->out[k] + at * bytes, body->args[k], n, stride, bytes);
        } else {
          take_lanes(body->args[operands + k], x, n, stride, bytes);
        }
      }
      if (i == 0) continue;
      if (!run_body(run, node, n)) return false;
      for (int k = 0; k < operands; k++) {
        int bytes = plan_elem_bytes(op->in[k]->type);
        put_lanes(node->out[k] + at * bytes, body->results[k], n, stride, bytes);
      }
      for (int k = 0; k < operands; k++) { /* from the result, since a body may yield its operands crosswise */
        int bytes = plan_elem_bytes(op->in[k]->type);
        take_lanes(body->args[k], node->out[k] + at * bytes, n, stride, bytes);
      }
    }
    first += n;
  }
  return true;
}

/* ---- map --------------------------------------------------------------------------------------------------------- */

bool run_map(Run *run, const Node *node, int64_t unused) {
  const Op *op = node->op;
  const Code *body = node->body[0];
  int64_t pack = op->pack > 1 ? op->pack : 1, groups = type_numel(op->out[0]->type) / pack, step = most_lanes(node);
  if (body->lanes) run_captures(body);
  for (int64_t g = 0; g < groups; g += step) {
    int64_t n = groups - g < step ? groups - g : step;
    for (int k = 0; k < op->in_count; k++) {
      int bytes = plan_elem_bytes(op->in[k]->type);
      for (int64_t p = 0; p < pack; p++)
        take_lanes(body->args[k * pack + p], node->in[k] + (g * pack + p) * bytes, n, pack, bytes);
    }
    if (!run_body(run, node, n)) return false;
    for (int k = 0; k < op->out_count; k++) {
      int bytes = plan_elem_bytes(op->out[k]->type);
      for (int64_t p = 0; p < pack; p++)
        put_lanes(node->out[k] + (g * pack + p) * bytes, body->results[k * pack + p], n, pack, bytes);
    }
  }
  return true;
}
