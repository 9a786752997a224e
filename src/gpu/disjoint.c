/* Which loads may move before stores: disjoint.h. */
#include "gpu/disjoint.h"
#include "gpu/launch_plan.h"
#include "gpu/loop.h"

static bool holds(const Block *b, OpCode code) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    if (op->code == code) return true;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && holds(op->body[i], code)) return true;
  }
  return false;
}

static void find_loop(Op *op, void *arg) {
  bool *found = arg;
  *found |= op->code == OP_FOR && holds(op->body[0], OP_STORE) && holds(op->body[0], OP_LOAD);
}

void disjoint_begin(Func *f, const GpuOptions *o) {
  bool found = false;
  tile_walk(f->body, find_loop, &found);
  f->reach = NULL;
  if (!found || !o->apart || gpu_leaves_out(o, "apart")) return;
  Arena *a = f->cx->arena;
  Reach *r = reach_create(a, f, provenance_create(a, f));
  ArgReach *out = NEW(a, ArgReach);
  *out = (ArgReach){.reads = NEW_N(a, int, f->body->arg_count + 1), .writes = NEW_N(a, int, f->body->arg_count + 1)};
  for (int i = 0; i < f->body->arg_count; i++) {
    if (!f->body->args[i]->type->ptr) continue;
    out->reads[i] = reach_through(r, i, REACH_READS);
    out->writes[i] = reach_through(r, i, REACH_WRITES);
  }
  out->steps = reach_steps(r, &out->count);
  if (out->count <= GPU_PLAN_STEPS) f->reach = out;
}

static bool note_store(DisjointStores *s, const Op *store) {
  int arg = s->f->reach ? provenance_argument(s->provenance, op_pointer(store)) : -1;
  if (arg < 0 || !s->f->reach->writes[arg]) return false;
  for (int i = 0; i < s->count; i++)
    if (s->arguments[i] == arg) return true;
  if (s->count == DISJOINT_STORES) return false;
  s->arguments[s->count++] = arg;
  return true;
}

/* Whether its effects are on shared memory alone, or none. */
static bool is_of_ring(const Op *op) {
  switch (op->code) {
    case OP_RING_COPY:
    case OP_RING_COMMIT:
    case OP_RING_WAIT:
    case OP_RING_TENSOR:
    case OP_RING_FULL:
    case OP_RING_EMPTY:
    case OP_RING_FREE:
    case OP_DOT_WAIT:
    case OP_REQUIRE:
    case OP_APART:
    case OP_SCOPE: return true;
    case OP_ASM: return op_is_pure(op);
    default: return false;
  }
}

static bool note_effects(DisjointStores *s, const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    Effect e = op_info[op->code].effect;
    if (op->code == OP_STORE ? !note_store(s, op) : !is_of_ring(op) && (e == EFFECT_WRITE || e == EFFECT_SIDE))
      return false;
    if (op_is_volatile(op) || op_cache(op) == CACHE_CV) return false;
    for (int i = 0; i < 2; i++)
      if (op->body[i] && !note_effects(s, op->body[i])) return false;
  }
  return true;
}

bool disjoint_stores(Func *f, const Block *b, DisjointStores *out) {
  *out = (DisjointStores){.f = f};
  if (!loop_has_effects(b)) return true;
  if (f->reach) out->provenance = provenance_create(f->cx->arena, f);
  return note_effects(out, b);
}

bool disjoint_may_precede(const DisjointStores *s, const Op *load) {
  if (!s->count) return true;
  const ArgReach *reach = s->f->reach;
  int arg = provenance_argument(s->provenance, op_pointer(load));
  if (arg < 0 || !reach->reads[arg] || reach->required + s->count > GPU_PLAN_APARTS) return false;
  for (int i = 0; i < s->count; i++)
    if (s->arguments[i] == arg) return false;
  return true;
}

static bool is_required(const Func *f, const Value *loaded, const Value *stored) {
  for (const Op *op = f->body->first; op; op = op->next)
    if (op->code == OP_APART && op->in[0] == loaded && op->in[1] == stored) return true;
  return false;
}

void disjoint_require(const DisjointStores *s, const Op *load) {
  if (!s->count) return;
  Func *f = s->f;
  Builder b = {.func = f, .block = f->body, .before = f->body->first, .span = load->span};
  for (int i = 0; i < s->count; i++) {
    Value *in[] = {f->body->args[provenance_argument(s->provenance, op_pointer(load))], f->body->args[s->arguments[i]]};
    if (is_required(f, in[0], in[1])) continue;
    build_op(&b, OP_APART, 2, in, 0, NULL);
    f->reach->required++;
  }
}

bool disjoint_is_required(const Provenance *p, const Value *loaded, const Value *stored) {
  int from = provenance_argument(p, loaded), to = provenance_argument(p, stored);
  const Func *f = p->func;
  return f->reach && f->reach->required && from >= 0 && to >= 0 &&
         is_required(f, f->body->args[from], f->body->args[to]);
}
