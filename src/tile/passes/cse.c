/* Common subexpressions: of two pure operations that compute the same, the later one is replaced by the earlier.
 *
 * A hash table holds the operations seen so far that are visible here. Bodies nest like scopes: what was entered inside
 * one is taken out when the walk leaves it, so an operation never stands for one that it does not dominate. Loads are
 * left alone (a store may lie between), and so are branches and loops. Not for use once layouts are chosen: what is
 * held by other threads is not the same.
 *
 * Two values that a `for` carries are one where they begin alike and every iteration adds the same to them, as the
 * offsets of several pointers do; and one that counts as the loop's variable does, from 0 in the same steps, is that
 * variable.
 */
#include "tile/tile.h"

typedef struct Entry {
  Op *op;
  uint64_t hash;
  struct Entry *next; /* in its bucket */
} Entry;

typedef struct Table {
  Func *func;
  Entry **buckets;
  uint64_t mask;
  VEC(Entry *) scope; /* all entries, in the order they came */
} Table;

static bool is_candidate(const Op *op) {
  if (op->out_count == 0 || op_info[op->code].effect == EFFECT_CONTROL) return false;
  return op_is_pure(op);
}

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9fb21c651e98df25ull;
  return h ^ h >> 29;
}

static uint64_t hash_op(const Op *op) {
  uint64_t h = mix((uint64_t)op->code, (uint64_t)op->in_count << 32 | (uint64_t)op->out_count), number;
  for (int i = 0; i < 4; i++) h = mix(h, (uint64_t)op->attr[i]);
  memcpy(&number, &op->number, 8);
  h = mix(h, number);
  for (int i = 0; i < op->dim_count; i++) h = mix(h, (uint64_t)op->dims[i]);
  if (op->in_count == 2 && op_commutes(op)) {
    uint64_t a = (uint64_t)op->in[0]->id, b = (uint64_t)op->in[1]->id;
    h = mix(mix(h, a + b), a ^ b);
  } else {
    for (int i = 0; i < op->in_count; i++) h = mix(h, (uint64_t)op->in[i]->id);
  }
  for (int i = 0; i < op->out_count; i++) h = mix(h, (uint64_t)(uintptr_t)op->out[i]->type);
  return h;
}

/* What carried value i grows by in every iteration, a value from outside the loop; NULL when it is anything else. */
static Value *induction_stride(const Op *loop, int i) {
  const Block *body = loop->body[0];
  const Value *arg = body->args[i + 1], *next = value_replacement(body->last->in[i]);
  const Op *op = next->def;
  if (!op || op->block != body || op->code != OP_ADD || dtype_is_float(arg->type->dtype)) return NULL;
  for (int k = 0; k < 2; k++) {
    Value *by = value_replacement(op->in[1 - k]);
    if (value_replacement(op->in[k]) == arg && value_block(by) != body) return by;
  }
  return NULL;
}

static bool same_const(const Value *a, const Value *b) {
  int64_t x, y;
  return a == b || (value_is_const(a, &x) && value_is_const(b, &y) && x == y);
}

static void merge_carried(Func *f, Op *loop) {
  Block *body = loop->body[0];
  Value *iv = body->args[0];
  int64_t first, step;
  bool counts = value_is_const(loop->in[0], &first) && first == 0 && value_is_const(loop->in[2], &step) && step > 0 &&
                dtype_is_signed(iv->type->dtype);
  for (int i = 0; i < loop->out_count; i++) {
    Value *arg = body->args[i + 1], *by = induction_stride(loop, i);
    if (!by) continue;
    for (int j = loop->out_count - 1; j > i; j--) {
      if (loop->out[j]->type != loop->out[i]->type || !same_const(loop->in[3 + i], loop->in[3 + j])) continue;
      Value *other = induction_stride(loop, j);
      if (!other || !same_const(by, other)) continue;
      value_replace(body->args[j + 1], arg);
      value_replace(loop->out[j], loop->out[i]);
      control_drop(loop, j);
    }
    if (counts && !arg->type->rank && dtype_bits(arg->type->dtype) >= dtype_bits(iv->type->dtype) &&
        same_const(loop->in[3 + i], loop->in[0]) && same_const(by, loop->in[2])) {
      Builder b = {.func = f, .block = body, .before = body->first, .span = loop->span};
      value_replace(arg, build_convert(&b, iv, arg->type->dtype));
    }
  }
}

static void visit_block(Table *t, Block *block) {
  stack_guard();
  int scope_start = t->scope.n;
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next;
    for (int i = 0; i < op->in_count; i++) op->in[i] = value_replacement(op->in[i]);
    if (op->code == OP_FOR) merge_carried(t->func, op);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) visit_block(t, op->body[i]);
    if (!is_candidate(op)) continue;
    uint64_t hash = hash_op(op);
    Entry *e = t->buckets[hash & t->mask];
    while (e && !(e->hash == hash && op_same(t->func->cx->arena, e->op, op))) e = e->next;
    if (e) {
      for (int i = 0; i < op->out_count; i++) {
        if (!e->op->out[i]->name) e->op->out[i]->name = op->out[i]->name;
        value_replace(op->out[i], e->op->out[i]);
      }
      op_remove(op);
      continue;
    }
    e = NEW(t->func->cx->arena, Entry);
    *e = (Entry){op, hash, t->buckets[hash & t->mask]};
    t->buckets[hash & t->mask] = e;
    vec_push(t->func->cx->arena, &t->scope, e);
  }
  while (t->scope.n > scope_start) { /* newest first, so each is the head of its bucket */
    Entry *e = t->scope.at[--t->scope.n];
    t->buckets[e->hash & t->mask] = e->next;
  }
}

void tile_cse(Func *f) {
  Table t = {.func = f, .mask = 63};
  while ((int64_t)t.mask < f->value_count) t.mask = t.mask * 2 + 1;
  t.buckets = NEW_N(f->cx->arena, Entry *, t.mask + 1);
  visit_block(&t, f->body);
  tile_replace_uses(f);
}
