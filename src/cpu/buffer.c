/* Tiles that are kept: buffers, views of them, and where each stands in the scratch area.
 *
 * The plan's items are numbered in the order in which they run. A buffer is alive from the step that first touches it
 * to the last; one that was alive when a loop began is alive until the loop ends, since the next iteration wants it.
 * What outlives the program, since the next one may want it (gemm.c), is alive throughout. Buffers that are never alive
 * together may stand in one place (first fit, oldest first).
 */
#include "cpu/emit.h"

Buffer *buffer_new(Emit *e, const Type *t) {
  Buffer *b = NEW(e->arena, Buffer);
  b->id = e->buffers.n;
  b->dtype = t->ptr ? DT_I64 : t->dtype;
  b->count = type_numel(t);
  b->first = -1;
  vec_push(e->arena, &e->buffers, b);
  return b;
}

View *view_row_major(Emit *e, Buffer *b, const Type *t) {
  View *v = NEW(e->arena, View);
  v->buffer = b;
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    v->stride[d] = stride;
    stride *= t->shape[d];
  }
  return v;
}

bool view_is_compact(const View *v, const Type *t) {
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (t->shape[d] > 1 && v->stride[d] != stride) return false;
    stride *= t->shape[d];
  }
  return v->offset == 0;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void touch(Buffer *b, int step) {
  if (!b) return;
  if (b->first < 0) b->first = step;
  b->last = step;
}

static void touch_view(const View *v, int step) {
  if (v) touch(v->buffer, step);
}

static void walk_plan(Emit *e, const Block *b);

static void walk_group(Emit *e, Group *g) {
  int step = g->step = ++e->step;
  for (int i = 0; i < g->reads.n; i++) touch(g->reads.at[i], step);
  for (int i = 0; i < g->roots.n; i++) {
    FusionRoot *r = g->roots.at[i];
    touch_view(r->view, step);
    if (r->kind != ROOT_REDUCE && r->kind != ROOT_ATOMIC) continue;
    OpPlan *o = r->op->note;
    for (int k = 0; k < r->op->out_count; k++) touch_view(o->out[k], step), touch(o->carry[k], step);
  }
}

static void walk_op(Emit *e, const Op *op) {
  stack_guard();
  OpPlan *o = op->note;
  int start = ++e->step;
  if (!o) return;
  for (int i = 0; i < op->in_count; i++) touch_view(o->in[i], start);
  for (int k = 0; k < op->out_count; k++) touch_view(o->out[k], start);
  int n = op->in_count + op->out_count;
  for (int k = 0; k < n; k++) touch(o->carry[k], start), touch(o->carry2[k], start);
  if (!op->body[0] || op_info[op->code].effect != EFFECT_CONTROL) return;
  for (int r = 0; r < 2; r++)
    if (op->body[r]) walk_plan(e, op->body[r]);
  int end = ++e->step;
  for (int k = 0; k < n; k++) {
    if (o->carry[k]) touch(o->carry[k], end);
    if (o->carry2[k]) touch(o->carry2[k], end);
  }
  if (op->code == OP_IF) return;
  for (int i = 0; i < e->buffers.n; i++) {
    Buffer *b = e->buffers.at[i];
    if (b->first >= 0 && b->first < start && b->last > start && b->last < end) b->last = end;
  }
}

static void walk_plan(Emit *e, const Block *b) {
  Plan *p = map_get(e->plans, b);
  for (int i = 0; p && i < p->n; i++) {
    Item *item = &p->at[i];
    if (item->group) {
      walk_group(e, item->group);
    } else if (item->op) {
      walk_op(e, item->op);
    } else {
      int step = ++e->step;
      touch(item->copy_to, step);
      touch(item->copy_from, step);
    }
  }
}

static int64_t buffer_bytes(const Buffer *b) {
  return (b->count * dtype_bytes(b->dtype) + 127) / 64 * 64; /* a vector may read past the end of a short row */
}

void place_buffers(Emit *e) {
  walk_plan(e, e->f->body);
  int n = e->buffers.n;
  Buffer **order = NEW_N(e->arena, Buffer *, n + 1); /* by first */
  int m = 0;
  for (int i = 0; i < n; i++) {
    Buffer *b = e->buffers.at[i];
    if (b->first < 0) continue;
    int k = m++;
    for (; k > 0 && order[k - 1]->first > b->first; k--) order[k] = order[k - 1];
    order[k] = b;
  }
  Buffer **alive = NEW_N(e->arena, Buffer *, n + 1); /* by place */
  int alive_count = 0;
  for (int i = 0; i < m; i++) {
    Buffer *b = order[i];
    int kept = 0;
    for (int k = 0; k < alive_count; k++)
      if (alive[k]->last >= b->first) alive[kept++] = alive[k];
    alive_count = kept;
    int64_t at = 0, bytes = buffer_bytes(b);
    int k = 0;
    for (; k < alive_count; k++) {
      if (at + bytes <= alive[k]->place) break;
      at = alive[k]->place + buffer_bytes(alive[k]);
    }
    b->place = at;
    memmove(alive + k + 1, alive + k, sizeof *alive * (size_t)(alive_count - k));
    alive[k] = b;
    alive_count++;
    if (at + bytes > e->scratch) e->scratch = at + bytes;
  }
}
