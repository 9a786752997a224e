/* What decides on addresses, masks and control, so that a report computes that alone; and of what comes from memory,
 * which of these it decides.
 *
 * Needed is what an address, a guard, an `if` or a loop's bounds are computed from, backwards through loops and
 * branches. Shared memory is taken buffer by buffer: one value that is needed makes all that is stored there needed.
 *
 * Data go forwards: from loads of global memory (but of arrays whose contents are known), atomics, clocks and inline
 * assembly through everything that is computed from them, through buffers of shared memory, and to the results of
 * control that they decide. An access is unknown when its address or guard is data, or when it stands in control that
 * is.
 */
#include "gpu/report/counts.h"

typedef struct Slicer {
  const LaneFunc *f;
  const HostArray *contents;
  Arena *arena;
  GpuSlice *out;
  bool *data_buffers;
  VEC(LaneOp *) work; /* of whose results some have become needed */
  bool changed;
} Slicer;

/* ---- needed, backwards ------------------------------------------------------------------------------------------- */

static void need(Slicer *s, const LaneValue *v) {
  if (!v || s->out->values[v->id]) return;
  s->out->values[v->id] = true;
  vec_push(s->arena, &s->work, v->def ? v->def : v->block->parent);
}

static void need_stores(LaneOp *op, void *arg) {
  Slicer *s = arg;
  if ((op->code == LANE_ST || op->code == LANE_ATOM) && op->space == SPACE_SHARED) vec_push(s->arena, &s->work, op);
}

static void need_buffer(Slicer *s, int buffer) {
  if (buffer < 0 || s->out->buffers[buffer]) return;
  s->out->buffers[buffer] = true;
  lane_walk(s->f->body, need_stores, s);
}

static const LaneOp *end_of(const LaneBlock *b) { return b->last; }

static bool wants(const Slicer *s, const LaneValue *v) { return s->out->values[v->id]; }

/* What op's needed results are made of. */
static void need_operands(LaneOp *op, void *arg) {
  Slicer *s = arg;
  bool any = false;
  need(s, op->guard);
  for (int i = 0; i < op->out_count; i++) any |= wants(s, op->out[i]);
  switch (op->code) {
    case LANE_LD:
      need(s, op->in[0]);
      for (int i = 1; any && i < op->in_count; i++) need(s, op->in[i]);
      if (any && op->space == SPACE_SHARED) need_buffer(s, op->buffer);
      return;
    case LANE_LDMATRIX:
    case LANE_STMATRIX: need(s, op->in[0]); return;
    case LANE_CP_ASYNC: need(s, op->in[0]), need(s, op->in[1]); return;
    case LANE_ST:
    case LANE_ATOM:
      need(s, op->in[0]);
      for (int i = 1; op->space == SPACE_SHARED && op->buffer >= 0 && s->out->buffers[op->buffer] && i < op->in_count;
           i++)
        need(s, op->in[i]);
      return;
    case LANE_FOR:
      for (int i = 0; i < 3; i++) need(s, op->in[i]);
      for (int i = 0; i < op->out_count; i++)
        if (wants(s, op->out[i]) || wants(s, op->body[0]->args[i + 1]))
          need(s, op->out[i]), need(s, op->in[3 + i]), need(s, op->body[0]->args[i + 1]),
              need(s, end_of(op->body[0])->in[i]);
      return;
    case LANE_WHILE: {
      const LaneOp *go = end_of(op->body[0]), *end = end_of(op->body[1]);
      need(s, go->in[0]);
      for (int i = 0; i < op->out_count; i++)
        if (wants(s, op->out[i]) || wants(s, op->body[1]->args[i]))
          need(s, op->out[i]), need(s, op->body[1]->args[i]), need(s, go->in[i + 1]);
      for (int i = 0; i < op->in_count; i++)
        if (wants(s, op->body[0]->args[i])) need(s, op->in[i]), need(s, end->in[i]);
      return;
    }
    case LANE_IF:
      need(s, op->in[0]);
      for (int i = 0; i < op->out_count; i++)
        for (int b = 0; wants(s, op->out[i]) && b < 2; b++)
          if (op->body[b]) need(s, end_of(op->body[b])->in[i]);
      return;
    case LANE_ASM: return;
    default:
      for (int i = 0; any && i < op->in_count; i++) need(s, op->in[i]);
  }
}

/* ---- data, forwards ---------------------------------------------------------------------------------------------- */

static bool is_data(const Slicer *s, const LaneValue *v) { return v && s->out->data[v->id]; }

static void taint(Slicer *s, const LaneValue *v, bool data) {
  if (!data || s->out->data[v->id]) return;
  s->out->data[v->id] = s->changed = true;
}

static void mark(Slicer *s, const LaneOp *op) {
  if (!map_get(s->out->unknown, op)) map_put(s->out->unknown, op, (void *)op);
}

static void flow(Slicer *s, const LaneBlock *block, bool decided);

/* What a loop carries in a certain iteration is data when what it is made of is; after the loop also when the number of
 * iterations is. */
static void flow_control(Slicer *s, const LaneOp *op, bool decided) {
  bool own = false;
  if (op->code == LANE_FOR) {
    const LaneBlock *b = op->body[0];
    own = is_data(s, op->in[0]) || is_data(s, op->in[1]) || is_data(s, op->in[2]);
    taint(s, b->args[0], is_data(s, op->in[0]) || is_data(s, op->in[2]));
    for (int i = 0; i < op->out_count; i++) {
      bool data = is_data(s, op->in[3 + i]) || is_data(s, end_of(b)->in[i]);
      taint(s, b->args[i + 1], data), taint(s, op->out[i], own || data);
    }
  } else if (op->code == LANE_WHILE) {
    const LaneOp *go = end_of(op->body[0]), *end = end_of(op->body[1]);
    own = is_data(s, go->in[0]);
    for (int i = 0; i < op->in_count; i++)
      taint(s, op->body[0]->args[i], is_data(s, op->in[i]) || is_data(s, end->in[i]));
    for (int i = 0; i < op->out_count; i++) {
      bool data = is_data(s, go->in[i + 1]);
      taint(s, op->body[1]->args[i], data), taint(s, op->out[i], own || data);
    }
  } else {
    own = is_data(s, op->in[0]);
    for (int i = 0; i < op->out_count; i++)
      for (int b = 0; b < 2; b++) taint(s, op->out[i], own || (op->body[b] && is_data(s, end_of(op->body[b])->in[i])));
  }
  if (own) mark(s, op);
  for (int b = 0; b < 2; b++)
    if (op->body[b]) flow(s, op->body[b], decided || own);
}

static int base_of(const LaneValue *v, int depth) {
  stack_guard();
  const LaneOp *parent = v->block ? v->block->parent : NULL;
  if (!depth) return -1;
  if (v->block && !parent) return v->index;
  if (parent && parent->code == LANE_FOR) return v->index ? base_of(parent->in[2 + v->index], depth - 1) : -1;
  if (!v->def) return -1;
  if (v->def->code == LANE_PARAM) return (int)v->def->imm;
  if (v->def->code != LANE_ADD && v->def->code != LANE_MOVE) return -1;
  for (int i = 0; i < v->def->in_count; i++) {
    int base = v->def->in[i]->type == LT_B64 ? base_of(v->def->in[i], depth - 1) : -1;
    if (base >= 0) return base;
  }
  return -1;
}

int gpu_base_param(const LaneValue *pointer) { return base_of(pointer, 100); }

static bool reads_known(const Slicer *s, const LaneOp *op) {
  int base = op->code == LANE_LD ? gpu_base_param(op->in[0]) : -1;
  return base >= 0 && s->contents[base].at;
}

static void flow_memory(Slicer *s, const LaneOp *op, bool decided) {
  bool shared = op->space == SPACE_SHARED, unknown = decided || is_data(s, op->in[0]) || is_data(s, op->guard);
  if (unknown) mark(s, op);
  bool *buffer = shared && op->buffer >= 0 ? &s->data_buffers[op->buffer] : NULL,
       data = unknown || op->code == LANE_STMATRIX; /* whose squares are not followed */
  for (int i = 1; i < op->in_count; i++) data |= is_data(s, op->in[i]);
  if (!lane_only_reads(op->code) && buffer && data && !*buffer) *buffer = s->changed = true;
  bool known = buffer ? !*buffer && op->code != LANE_LDMATRIX : !shared && reads_known(s, op);
  for (int i = 0; i < op->out_count; i++) taint(s, op->out[i], data || !known);
}

static void flow_copy(Slicer *s, const LaneOp *op, bool decided) {
  if (decided || is_data(s, op->in[0]) || is_data(s, op->in[1]) || is_data(s, op->guard)) mark(s, op);
  if (s->data_buffers[op->buffer]) return;
  s->data_buffers[op->buffer] = s->changed = true;
}

static bool is_clock(const LaneOp *op) {
  return op->code == LANE_SPECIAL &&
         (op->special == SP_CLOCK64 || op->special == SP_GLOBALTIMER || op->special == SP_SMID);
}

static void flow(Slicer *s, const LaneBlock *block, bool decided) {
  stack_guard();
  for (const LaneOp *op = block->first; op; op = op->next) {
    if (op->body[0]) {
      flow_control(s, op, decided);
    } else if (lane_is_access(op->code)) {
      flow_memory(s, op, decided);
    } else if (op->code == LANE_CP_ASYNC) {
      flow_copy(s, op, decided);
    } else {
      bool data = op->code == LANE_ASM || is_clock(op) || is_data(s, op->guard);
      for (int i = 0; i < op->in_count; i++) data |= is_data(s, op->in[i]);
      for (int i = 0; i < op->out_count; i++) taint(s, op->out[i], data);
    }
  }
}

GpuSlice *gpu_slice(const LaneFunc *f, const HostArray *contents) {
  Arena *a = f->cx->arena;
  Slicer s = {.f = f,
              .contents = contents,
              .arena = a,
              .out = NEW(a, GpuSlice),
              .data_buffers = NEW_N(a, bool, f->buffers.n + 1)};
  *s.out = (GpuSlice){NEW_N(a, bool, f->value_count + 1), NEW_N(a, bool, f->buffers.n + 1),
                      NEW_N(a, bool, f->value_count + 1), map_create(a, false)};
  lane_walk(f->body, need_operands, &s);
  while (s.work.n) {
    LaneOp *op = s.work.at[--s.work.n];
    if (op) need_operands(op, &s); /* NULL: a parameter */
  }
  do {
    s.changed = false;
    flow(&s, f->body, false);
  } while (s.changed);
  return s.out;
}
