/* Creation and shape: operations that only put elements in other places.
 *
 * broadcast and trans are one loop: the result is walked in order while the operand is read with a stride for each
 * dimension, 0 where it is broadcast. Neighbouring dimensions that can be walked as one are merged when the plan is
 * made, so most cases end as a few long rows:
 *
 *     broadcast f32[64,1] -> f32[64,128]   shape (64, 128), strides (1, 0): 64 fills
 *     broadcast f32[1,128] -> f32[64,128]  shape (64, 128), strides (0, 1): 64 copies
 *
 * reshape, expand_dims and hint move nothing and never come here (prepare.c).
 */
#include "interp/run.h"

/* ---- creation ---------------------------------------------------------------------------------------------------- */

bool run_arange(Run *run, const Node *node, int64_t n) {
  int32_t *out = (int32_t *)node->out[0], start = (int32_t)node->op->start;
  for (int64_t i = 0; i < n; i++) out[i] = (int32_t)((uint32_t)start + (uint32_t)i);
  return true;
}

bool run_program_id(Run *run, const Node *node, int64_t n) {
  int axis = (int)node->op->axis;
  fill_elements(node->out[0], node->op->code == OP_PROGRAM_ID ? &run->program[axis] : &run->grid[axis], 4, n);
  return true;
}

bool run_splat(Run *run, const Node *node, int64_t n) {
  fill_elements(node->out[0], node->in[0], plan_elem_bytes(node->op->out[0]->type), n);
  return true;
}

/* ---- broadcast, trans -------------------------------------------------------------------------------------------- */

typedef struct Strided {
  int rank; /* after merging; at least 1 */
  int64_t shape[MAX_RANK], stride[MAX_RANK];
} Strided;

static void copy_row(char *out, const char *in, int64_t n, int64_t stride, int bytes) {
  if (stride == 1) {
    memcpy(out, in, (size_t)(n * bytes));
    return;
  }
  if (stride == 0) {
    fill_elements(out, in, bytes, n);
    return;
  }
  switch (bytes) {
#define ROW(size, T) \
  case size: { \
    T *o = (T *)out; \
    const T *x = (const T *)in; \
    for (int64_t i = 0; i < n; i++) o[i] = x[i * stride]; \
    break; \
  }
    ROW(1, uint8_t)
    ROW(2, uint16_t)
    ROW(4, uint32_t)
    ROW(8, uint64_t)
#undef ROW
  }
}

static bool run_strided(Run *run, const Node *node, int64_t n) {
  const Strided *s = node->extra;
  int bytes = plan_elem_bytes(node->op->out[0]->type), inner = s->rank - 1;
  int64_t row = s->shape[inner], index[MAX_RANK] = {0}, at = 0;
  char *out = node->out[0];
  for (int64_t done = 0; done < n; done += row) {
    copy_row(out + done * bytes, node->in[0] + at * bytes, row, s->stride[inner], bytes);
    for (int d = inner - 1; d >= 0; d--) {
      at += s->stride[d];
      if (++index[d] < s->shape[d]) break;
      at -= s->stride[d] * s->shape[d];
      index[d] = 0;
    }
  }
  return true;
}

bool prepare_strided(Plan *p, Node *node) {
  const Op *op = node->op;
  const Type *from = op->in[0]->type, *to = op->out[0]->type;
  int64_t stride[MAX_RANK], step = 1;
  for (int d = from->rank - 1; d >= 0; d--) {
    stride[d] = step;
    step *= from->shape[d];
  }
  Strided *s = plan_alloc(p, sizeof *s);
  if (!s) return false;
  for (int d = 0; d < to->rank; d++) {
    int source = op->code == OP_TRANS ? (int)op->dims[d] : d;
    int64_t by = from->shape[source] == 1 ? 0 : stride[source];
    if (to->shape[d] == 1) continue;
    if (s->rank && s->stride[s->rank - 1] == by * to->shape[d]) { /* 0 and 0 as well */
      s->shape[s->rank - 1] *= to->shape[d];
      s->stride[s->rank - 1] = by;
    } else {
      s->shape[s->rank] = to->shape[d];
      s->stride[s->rank++] = by;
    }
  }
  if (!s->rank) s->shape[s->rank++] = 1;
  node->extra = s;
  node->fn = run_strided;
  return true;
}

/* ---- join, split, cat -------------------------------------------------------------------------------------------- */

bool run_join(Run *run, const Node *node, int64_t n) {
  int bytes = plan_elem_bytes(node->op->out[0]->type);
  for (int k = 0; k < 2; k++) {
    switch (bytes) {
#define INTERLEAVE(size, T) \
  case size: { \
    T *o = (T *)node->out[0] + k; \
    const T *x = (const T *)node->in[k]; \
    for (int64_t i = 0; i < n / 2; i++) o[2 * i] = x[i]; \
    break; \
  }
      INTERLEAVE(1, uint8_t)
      INTERLEAVE(2, uint16_t)
      INTERLEAVE(4, uint32_t)
      INTERLEAVE(8, uint64_t)
#undef INTERLEAVE
    }
  }
  return true;
}

bool run_split(Run *run, const Node *node, int64_t n) {
  int bytes = plan_elem_bytes(node->op->in[0]->type);
  for (int k = 0; k < 2; k++) copy_row(node->out[k], node->in[0] + k * bytes, n, 2, bytes);
  return true;
}

bool run_cat(Run *run, const Node *node, int64_t n) {
  const Type *a = node->op->in[0]->type, *b = node->op->in[1]->type;
  int axis = (int)node->op->axis;
  int64_t outer = 1, inner = plan_elem_bytes(a);
  for (int d = 0; d < axis; d++) outer *= a->shape[d];
  for (int d = axis + 1; d < a->rank; d++) inner *= a->shape[d];
  size_t bytes_a = (size_t)(inner * a->shape[axis]), bytes_b = (size_t)(inner * b->shape[axis]);
  char *out = node->out[0];
  for (int64_t o = 0; o < outer; o++) {
    memcpy(out, node->in[0] + (size_t)o * bytes_a, bytes_a);
    memcpy(out + bytes_a, node->in[1] + (size_t)o * bytes_b, bytes_b);
    out += bytes_a + bytes_b;
  }
  return true;
}

/* ---- gather ------------------------------------------------------------------------------------------------------ */

bool run_gather(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const Type *src = op->in[0]->type, *index = op->in[1]->type;
  int axis = (int)op->axis, bytes = plan_elem_bytes(src), index_bytes = plan_elem_bytes(index);
  int64_t size = src->shape[axis], src_inner = 1, index_inner = 1;
  for (int d = axis + 1; d < src->rank; d++) src_inner *= src->shape[d], index_inner *= index->shape[d];
  int64_t length = index->shape[axis];
  /* Dimensions other than the axis are equal, so outer and inner parts of the place are the same in both. */
  for (int64_t i = 0; i < n; i++) {
    int64_t outer = i / (length * index_inner), inner = i % index_inner;
    int64_t at = scalar_load(index->dtype, node->in[1] + i * index_bytes).i;
    if (at < 0 || at >= size)
      return run_fault(run, op, op->out[0]->type, i, "gather out of range: index %lld along axis %d of size %lld",
                       (long long)at, axis, (long long)size);
    memcpy(node->out[0] + i * bytes, node->in[0] + ((outer * size + at) * src_inner + inner) * bytes, (size_t)bytes);
  }
  return true;
}
