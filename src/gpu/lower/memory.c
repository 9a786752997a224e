/* lower_memory: loads and stores through pointers.
 *
 * Consecutive registers whose addresses follow each other go in one access, as far as pointer and mask are known to
 * allow (access_vector). An access moves words:
 *
 *     bytes an element   1       2       4     8
 *     register           b32     b16/b32 b32   b64
 *     8 elements         2 words 4 words -     -        taken apart after a load, put together before a store
 *
 * One element of 8 or 16 bits is moved by itself; the load extends it. Elements that a mask leaves out get `other`,
 * else zeros: `other` is put together like a value to store, which for constants folds away.
 *
 * Threads that hold copies of one element all load it, but only the first of them stores. What other programs may be
 * writing meanwhile (a volatile load) the first one loads, and hands it out: a loop that waits for it must end for all
 * threads at once.
 */
#include "gpu/lower/lower.h"

/* How a group of elements goes through memory: `words` registers of `kind`, each holding `each` elements. */
typedef struct Shape {
  LaneKind elem, kind;
  int bytes, words, each;
} Shape;

static Shape shape_of(const Type *t, int vector) {
  Shape s = {.elem = lane_kind_of(t), .bytes = type_elem_bytes(t)};
  int total = s.bytes * vector;
  if (s.bytes >= 4) s.kind = s.bytes == 8 ? LK_B64 : LK_B32, s.each = 1;
  else if (vector == 1) s.kind = s.elem == LK_PRED ? LK_U8 : s.elem, s.each = 1;
  else if (total == 2) s.kind = LK_U16, s.each = 2;
  else s.kind = LK_B32, s.each = 4 / s.bytes;
  s.words = vector / s.each;
  return s;
}

static LaneValue *bool_to_byte(Lower *l, LaneValue *p) {
  return lane_select(&l->b, p, lane_i32(&l->b, 1), lane_i32(&l->b, 0));
}

/* The words that hold these elements. */
static void put_together(Lower *l, const Shape *s, LaneValue *const *regs, LaneValue **words) {
  for (int w = 0; w < s->words; w++) {
    LaneValue *x[4];
    for (int i = 0; i < s->each; i++) {
      x[i] = regs[w * s->each + i];
      if (s->elem == LK_PRED) x[i] = bool_to_byte(l, x[i]);
    }
    words[w] = s->each == 1 ? x[0] : lower_pack_word(l, s->bytes, x[0]->type, x, s->each);
  }
}

static void take_apart(Lower *l, const Shape *s, LaneValue *const *words, LaneValue **regs) {
  for (int w = 0; w < s->words; w++) {
    LaneValue **x = regs + w * s->each;
    if (s->elem == LK_PRED && s->each == 1) x[0] = lane_setp(&l->b, CMP_NE, LK_U32, words[w], lane_i32(&l->b, 0));
    else if (s->each == 1) x[0] = words[w];
    else lower_unpack_word(l, s->elem, words[w], s->each, x);
  }
}

static int vector_of(Lower *l, const Op *op, const Value *mask) {
  const Value *ptr = op->in[0];
  int dim;
  if (!ptr->type->rank) return 1;
  int vector = access_vector(ptr, mask, ptr->layout, l->target->max_vector_bytes, &dim);
  int most = l->target->max_vector_bytes / type_elem_bytes(type_pointee(l->cx, ptr->type));
  return vector < most ? vector : most;
}

enum { MOST_WORDS = 8 };

/* The registers before r that were loaded from the same address under the same mask: -1 when there are none. The last
 * load of an address is found by its note, the register's number plus one. */
static int loaded_before(LaneValue **ptr, LaneValue **m, LaneValue **other, int r, int vector) {
  int before = (int)(intptr_t)ptr[r]->note - 1;
  if (before >= 0 && m && m[before] != m[r]) before = -1;
  for (int i = 0; i < vector && before >= 0 && m && other; i++)
    if (other[before + i] != other[r + i]) before = -1;
  if (before < 0) ptr[r]->note = (void *)(intptr_t)(r + 1);
  return before;
}

/* Whether the value is the same in every program: made of arguments and constants alone. Where finding out would take
 * long, or a loop has to do with it: no. */
static bool same_everywhere(const Value *v, int *budget) {
  stack_guard();
  const Op *d = v->def;
  if (!d) return !v->block || !v->block->parent; /* an argument of the kernel */
  if (d->code == OP_PROGRAM_ID || d->code == OP_LOAD || d->body[0] || --*budget < 0) return false;
  for (int i = 0; i < d->in_count; i++)
    if (!same_everywhere(d->in[i], budget)) return false;
  return true;
}

static LanePriority priority_asked(const Op *op) {
  return op_evict(op) == EVICT_NORMAL ? PRIORITY_NONE : (LanePriority)op_evict(op);
}

/* Every program reads again what lies at an address that is the same in all of them (a norm's weights): the caches are
 * to keep it while the rest streams by. What else is read or written gets lower_stream_priority's. */
static LanePriority priority_of(const Lower *l, const Op *op) {
  int budget = 64;
  if (!l->asks_program || op_cache(op) || op_evict(op) || op_is_volatile(op) || !op->in[0]->type->rank)
    return priority_asked(op);
  return op->code == OP_LOAD && same_everywhere(op->in[0], &budget) ? PRIORITY_LAST : l->streams;
}

/* Of a kernel that streams from one place to another, both leave the L2 cache last: on an H200 that takes 1 to 5% off
 * the time, also of chains of kernels. Where nothing is stored but added to memory, by programs that read once, reads
 * pass the L1 cache by (0.6%). Both were found by trying (bench/results/h200.md): other GPUs get no hint until someone
 * has tried there. */
LanePriority lower_stream_priority(const GpuTarget *t, bool stores, bool adds_once) {
  if (!t->has_measured_hints) return PRIORITY_NONE;
  return stores ? PRIORITY_L2_LAST : adds_once ? PRIORITY_NO_L1 : PRIORITY_NONE;
}

void lower_load(Lower *l, Op *op) {
  const Value *v = op->out[0], *mask = op_mask(op);
  LanePriority priority = priority_of(l, op);
  lower_membar(l, op);
  int n = lower_count(v), vector = vector_of(l, op, mask);
  Shape s = shape_of(v->type, vector);
  LaneValue **ptr = lower_get(l, op->in[0]), **m = mask ? lower_get(l, mask) : NULL;
  LaneValue **other = op_other(op) ? lower_get(l, op_other(op)) : NULL, **out = lower_array(l, n);
  const Layout *layout = v->type->rank ? v->layout : NULL;
  bool may_change = op_is_volatile(op) || op_cache(op) == CACHE_CV;
  LaneValue *first = may_change && !l->divergent ? lower_elected_thread(l, layout) : NULL;
  for (int r = 0; r < n; r += vector) ptr[r]->note = NULL;
  for (int r = 0; r < n; r += vector) {
    LaneValue *guard = m ? m[r] : NULL, *fill[MOST_WORDS];
    uint64_t bits;
    int before = may_change ? -1 : loaded_before(ptr, m, other, r, vector);
    if (before >= 0) {
      memcpy(out + r, out + before, sizeof *out * (size_t)vector);
      continue;
    }
    if (guard && lane_is_const(guard, &bits)) {
      if (bits) guard = NULL;
    }
    if (guard && other) put_together(l, &s, other + r, fill);
    LaneOp *load = lane_load(&l->b, SPACE_GLOBAL, s.kind, s.words, ptr[r], 0, lower_and(l, guard, first),
                             guard && other ? fill : NULL);
    load->cache = (uint8_t)op_cache(op);
    load->evict = (uint8_t)priority;
    load->is_volatile = op_is_volatile(op);
    take_apart(l, &s, load->out, out + r);
  }
  if (may_change) lower_hand_out(l, layout, lane_type_of(v->type), n, out);
  lower_set(l, v, out);
}

void lower_store(Lower *l, Op *op) {
  const Value *v = op_value(op), *mask = op_mask(op);
  LanePriority priority = priority_of(l, op);
  lower_membar(l, op);
  int n = lower_count(v), vector = vector_of(l, op, mask);
  Shape s = shape_of(v->type, vector);
  LaneValue **ptr = lower_get(l, op->in[0]), **m = mask ? lower_get(l, mask) : NULL, **values = lower_get(l, v);
  LaneValue *first = lower_elected_thread(l, v->type->rank ? v->layout : NULL);
  for (int r = 0; r < n; r += vector) {
    LaneValue *guard = m ? m[r] : NULL, *words[MOST_WORDS];
    uint64_t bits;
    if (guard && lane_is_const(guard, &bits)) {
      if (!bits) continue;
      guard = NULL;
    }
    put_together(l, &s, values + r, words);
    LaneOp *store = lane_store(&l->b, SPACE_GLOBAL, s.kind, s.words, ptr[r], 0, lower_and(l, guard, first), words);
    store->cache = (uint8_t)op_cache(op);
    store->evict = (uint8_t)priority;
  }
}
