/* Provenance, by a forward walk over the operations that is repeated until no set grows. Sets only grow, and a round
 * hands them through everything but a loop's back edge, so that a few rounds do.
 *
 * An operation without memory makes its pointers of its pointer operands, if any: that one rule covers addptr, views,
 * select, join, gather and the rest, also such as are yet to come. Control and the bodies of reductions, scans and maps
 * hand values from place to place.
 */
#include "tile/analysis/provenance.h"

#include <assert.h>

typedef struct Walk {
  Provenance *p;
  bool grew;
} Walk;

static const Value *resolved(const Value *v) {
  while (v->replacement) v = v->replacement;
  return v;
}

static uint64_t *set_of(const Provenance *p, const Value *v) {
  v = resolved(v);
  assert(v->id < p->value_count);
  return p->sets[v->id];
}

static void set_put(uint64_t *set, int i) { set[i / 64] |= (uint64_t)1 << (i % 64); }
static bool set_has(const uint64_t *set, int i) { return set[i / 64] >> (i % 64) & 1; }
static int unknown_of(const Provenance *p) { return p->func->body->arg_count; }

/* ---- sets grow ---- */

static void join(Walk *w, const Value *to, const Value *from) {
  uint64_t *into = set_of(w->p, to), *set = set_of(w->p, from);
  for (int i = 0; into && set && i < w->p->words; i++) {
    w->grew |= (set[i] & ~into[i]) != 0;
    into[i] |= set[i];
  }
}

static void join_unknown(Walk *w, const Value *to) {
  uint64_t *into = set_of(w->p, to);
  int unknown = unknown_of(w->p);
  if (!into || set_has(into, unknown)) return;
  set_put(into, unknown);
  w->grew = true;
}

/* ---- operations ---- */

static void visit_plain(Walk *w, const Op *op) {
  bool pure = op_info[op->code].effect == EFFECT_PURE;
  for (int o = 0; o < op->out_count; o++) {
    bool made = false; /* of other pointers */
    for (int i = 0; i < op->in_count && pure; i++) {
      if (!op->in[i]->type->ptr) continue;
      join(w, op->out[o], op->in[i]);
      made = true;
    }
    if (!made) join_unknown(w, op->out[o]);
  }
}

static void visit_for(Walk *w, const Op *op) {
  const Block *body = op->body[0];
  for (int i = 0; i < op->out_count; i++) {
    const Value *carried = body->args[i + 1];
    join(w, carried, op->in[i + 3]);
    join(w, carried, body->last->in[i]);
    join(w, op->out[i], carried);
  }
}

static void visit_while(Walk *w, const Op *op) {
  const Op *condition = op->body[0]->last, *yield = op->body[1]->last;
  for (int i = 0; i < op->in_count; i++) {
    join(w, op->body[0]->args[i], op->in[i]);
    join(w, op->body[0]->args[i], yield->in[i]);
  }
  for (int i = 0; i < op->out_count; i++) {
    join(w, op->body[1]->args[i], condition->in[i + 1]);
    join(w, op->out[i], condition->in[i + 1]);
  }
}

static void visit_if(Walk *w, const Op *op) {
  for (int i = 0; i < op->out_count; i++)
    for (int b = 0; b < 2; b++) join(w, op->out[i], op->body[b]->last->in[i]);
}

/* reduce, scan, map: the body gets elements of any operand, and of what it has made before. */
static void visit_elements(Walk *w, const Op *op) {
  const Block *body = op->body[0];
  for (int a = 0; a < body->arg_count; a++) {
    for (int i = 0; i < op->in_count; i++) join(w, body->args[a], op->in[i]);
    for (int i = 0; i < body->last->in_count; i++) join(w, body->args[a], body->last->in[i]);
  }
  for (int o = 0; o < op->out_count; o++) {
    for (int i = 0; i < op->in_count; i++) join(w, op->out[o], op->in[i]); /* an axis of one element */
    for (int i = 0; i < body->last->in_count; i++) join(w, op->out[o], body->last->in[i]);
  }
}

static void visit_block(Walk *w, const Block *block) {
  stack_guard();
  for (const Op *op = block->first; op; op = op->next) {
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(w, op->body[i]);
    switch (op->code) {
      case OP_FOR: visit_for(w, op); break;
      case OP_WHILE: visit_while(w, op); break;
      case OP_IF: visit_if(w, op); break;
      default:
        if (op->body[0]) visit_elements(w, op);
        else visit_plain(w, op);
    }
  }
}

/* ---- the whole ---- */

static int only_argument(const Provenance *p, const uint64_t *set) {
  int found = -1;
  for (int i = 0; i <= unknown_of(p); i++) {
    if (!set_has(set, i)) continue;
    if (found >= 0 || i == unknown_of(p)) return -1;
    found = i;
  }
  return found;
}

typedef struct Space {
  Provenance *p;
  uint64_t *free; /* NULL: only count */
  int pointers;
} Space;

static void make_set(Space *s, const Value *v) {
  if (!v->type->ptr) return;
  if (s->free) s->p->sets[v->id] = s->free + (size_t)s->pointers * (size_t)s->p->words;
  s->pointers++;
}

static void make_sets(Space *s, const Block *b) {
  stack_guard();
  for (int i = 0; i < b->arg_count; i++) make_set(s, b->args[i]);
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++) make_set(s, op->out[i]);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) make_sets(s, op->body[i]);
  }
}

Provenance *provenance_create(Arena *a, const Func *f) {
  Provenance *p = NEW(a, Provenance);
  if (!p) return NULL;
  *p = (Provenance){.func = f, .value_count = f->value_count, .words = f->body->arg_count / 64 + 1};
  Space count = {.p = p}, space = {.p = p};
  make_sets(&count, f->body);
  p->sets = NEW_N(a, uint64_t *, p->value_count + 1);
  space.free = NEW_N(a, uint64_t, count.pointers * p->words + 1);
  p->argument = NEW_N(a, int, p->value_count + 1);
  if (!p->sets || !space.free || !p->argument) return NULL;
  make_sets(&space, f->body);
  for (int i = 0; i < f->body->arg_count; i++)
    if (set_of(p, f->body->args[i])) set_put(set_of(p, f->body->args[i]), i);
  Walk w = {.p = p};
  do {
    w.grew = false;
    visit_block(&w, f->body);
  } while (w.grew);
  for (int i = 0; i < p->value_count; i++) p->argument[i] = p->sets[i] ? only_argument(p, p->sets[i]) : -1;
  return p;
}

int provenance_argument(const Provenance *p, const Value *v) { return p->argument[resolved(v)->id]; }

bool provenance_may_be(const Provenance *p, const Value *v, int arg) {
  const uint64_t *set = set_of(p, v);
  return set_has(set, arg) || set_has(set, unknown_of(p));
}

bool provenance_may_alias(const Provenance *p, const Value *v, const Value *w, ArgumentOverlap arguments) {
  const uint64_t *a = set_of(p, v), *b = set_of(p, w);
  int unknown = unknown_of(p);
  if (arguments == ARGS_MAY_OVERLAP || set_has(a, unknown) || set_has(b, unknown)) return true;
  for (int i = 0; i < p->words; i++)
    if (a[i] & b[i]) return true;
  return false;
}

void provenance_print(Buf *out, const Provenance *p, const Value *v) {
  const uint64_t *set = set_of(p, v);
  const char *before = "{";
  for (int i = 0; i < unknown_of(p); i++) {
    if (!set_has(set, i)) continue;
    const char *name = p->func->body->args[i]->name;
    buf_puts(out, before);
    if (name) buf_puts(out, name);
    else buf_printf(out, "%d", i);
    before = ", ";
  }
  if (set_has(set, unknown_of(p))) buf_printf(out, "%sunknown", before);
  else if (*before == '{') buf_putc(out, '{');
  buf_putc(out, '}');
}

/* ---- mod/ref ---- */

typedef struct ModRef {
  const Provenance *p;
  bool *read, *written;
} ModRef;

static void note_access(ModRef *m, const Value *pointer, bool reads, bool writes) {
  const Block *body = m->p->func->body;
  for (int i = 0; i < body->arg_count; i++) {
    if (!body->args[i]->type->ptr || !provenance_may_be(m->p, pointer, i)) continue;
    m->read[i] |= reads;
    m->written[i] |= writes;
  }
}

static void visit_access(Op *op, void *arg) {
  switch (op->code) {
    case OP_RING_COPY:
    case OP_LOAD: note_access(arg, op->in[0], true, false); break;
    case OP_STORE: note_access(arg, op->in[0], false, true); break;
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: note_access(arg, op->in[0], true, true); break;
    case OP_ASM: /* may do with a pointer what it likes */
      for (int i = 0; i < op->in_count; i++)
        if (op->in[i]->type->ptr) note_access(arg, op->in[i], true, !op_is_pure(op));
      break;
    default: break;
  }
}

void tile_mod_ref(const Func *f, const Provenance *p, bool *read, bool *written) {
  for (int i = 0; i < f->body->arg_count; i++) read[i] = written[i] = false;
  tile_walk(f->body, visit_access, &(ModRef){p, read, written});
}
