/* Lane sums: what a loop adds up, or takes the maximum of, over all elements of its tiles is carried for each thread.
 *
 *     for ... carrying %s : f32               for ... carrying %p : f32[T], of -0.0
 *       %t = reduce add %x {axis=0}             %q = reshape %x to [R,T,V], reduced along V, then along R
 *       yield add %s, %t               ->       yield add %p, %q
 *     ... %s                                  ... add %s0, reduce add %p
 *
 * T is the block's threads, V the elements side by side that one of them loads: %q takes no exchange. Each iteration of
 * the loop ended in shuffles and barriers for one number, in which nothing was under way; now the loop only loads and
 * adds, and is read ahead as such loops are (loads_ahead.c), while the number is exchanged once. Of loops in loops the
 * outer one carries the same parts. Sums are added in another order, as those of a tile are in any; a maximum begins
 * with %s0 in each thread. A sum of floats begins with -0.0, to which nothing is added but itself: where all that is
 * added is -0.0, so is the sum. From a constant 0 each thread begins as the loop did.
 */
#include "gpu/loop.h"

/* Elements of a tile a thread: more of them hide an exchange, and leave no register for a sum. */
enum { MOST_ELEMENTS = 64 };

typedef struct Sums {
  Func *f;
  Op *loop, *combine, *reduce;
  int carried;
} Sums;

static bool is_number(const Type *t) {
  return !t->ptr && !t->rank && (t->dtype == DT_F32 || t->dtype == DT_F64 || t->dtype == DT_I32 || t->dtype == DT_I64);
}

/* Whether the reduction is of a whole tile, by what combines carried values, too. */
static bool fits(const Sums *p, const Op *reduce, const Op *combine) {
  if (!reduce || reduce->code != OP_REDUCE || reduce->block != p->loop->body[0] || reduce->in_count != 1) return false;
  const Type *t = reduce->in[0]->type;
  int64_t n = type_numel(t), threads = 32 * p->f->num_warps;
  return t->rank == 1 && n >= threads && n <= threads * MOST_ELEMENTS && tile_body_single(reduce) == combine->code &&
         !memcmp(reduce->body[0]->first->attr, combine->attr, sizeof combine->attr);
}

static bool find(Sums *p, int carried) {
  Block *body = p->loop->body[0];
  Value *arg = body->args[1 + carried];
  Op *combine = body->last->in[carried]->def;
  if (!is_number(arg->type) || !combine || combine->block != body) return false;
  if (combine->code != OP_ADD && combine->code != OP_MAX && combine->code != OP_MIN) return false;
  if (block_uses(body, combine->out[0]) != 1 || block_uses(body, arg) != 1) return false;
  for (int k = 0; k < 2; k++) {
    Op *reduce = combine->in[k]->def;
    if (combine->in[!k] != arg || !fits(p, reduce, combine) || block_uses(body, reduce->out[0]) != 1) continue;
    p->combine = combine, p->reduce = reduce, p->carried = carried;
    return true;
  }
  return false;
}

/* Of an operation in the body: values that are loaded, or made of such element by element, have one layout. */
enum { MADE_OF_LOADS = 1, OF_TILE = 2 };

static bool spread(const Op *op, uint8_t *marks) {
  uint8_t *out = &marks[op->out[0]->id], before = *out, of = 0, changed = 0;
  for (int i = 0; i < op->in_count; i++) *out |= marks[op->in[i]->id] & MADE_OF_LOADS, of |= marks[op->in[i]->id];
  if (!(*out & MADE_OF_LOADS)) return *out != before;
  *out |= of & OF_TILE;
  for (int i = 0; i < op->in_count && *out & OF_TILE; i++) {
    uint8_t *in = &marks[op->in[i]->id];
    if (*in != MADE_OF_LOADS) continue;
    *in |= OF_TILE, changed = 1;
  }
  return changed || *out != before;
}

/* Elements side by side that a thread has of the tile: its layout goes by the load that brings the most at once, of
 * those that share it. */
static int run_of(const Sums *p, const Value *tile) {
  uint8_t *marks = NEW_N(p->f->cx->arena, uint8_t, p->f->value_count + 1);
  const Block *body = p->loop->body[0];
  int dim, run = 1;
  marks[tile->id] = OF_TILE;
  for (bool more = true; more;) {
    more = false;
    for (const Op *op = body->first; op; op = op->next) {
      if (op->code == OP_LOAD) marks[op->out[0]->id] |= MADE_OF_LOADS;
      else if (op_is_elementwise(op) && type_same_shape(op->out[0]->type, tile->type)) more |= spread(op, marks);
    }
  }
  for (const Op *op = body->first; op; op = op->next) {
    if (op->code != OP_LOAD || !(marks[op->out[0]->id] & OF_TILE)) continue;
    const Layout *l = access_layout(p->f->cx, op->in[0], op_mask(op), p->f->num_warps);
    int own = access_vector(op->in[0], op_mask(op), l, 16, &dim);
    if (own > run) run = own;
  }
  return run;
}

bool lane_sums_made(const Op *op) {
  stack_guard();
  if (op->code != OP_REDUCE || op->in_count != 1 || !op->in[0]->def) return false;
  const Op *of = op->in[0]->def;
  if (of->code == OP_REDUCE) return op->axis == 0 && of->axis == 2 && lane_sums_made(of);
  return of->code == OP_RESHAPE && op->axis == 2 && of->out[0]->type->rank == 3 && of->in[0]->type->rank == 1;
}

/* A thread's part of the tile. */
static Value *part_of(const Sums *p, Builder *b, int threads) {
  Value *tile = p->reduce->in[0];
  int n = (int)type_numel(tile->type), run = run_of(p, tile);
  if (n == threads) return tile;
  if (run > n / threads) run = n / threads;
  int32_t parts[] = {n / threads / run, threads, run};
  return loop_reduce_as(b, p->reduce, loop_reduce_as(b, p->reduce, build_reshape(b, tile, 3, parts), 2), 0);
}

/* Whether a sum that begins with `first` in each thread is the same as one that does so once: of either zero. */
static bool begins_alike(const Value *first) {
  const Op *op = first->def;
  return op && op->code == OP_CONST && (dtype_is_float(first->type->dtype) ? op->number == 0 : op->value == 0);
}

static void put(Sums *p) {
  Func *f = p->f;
  Op *loop = p->loop, *combine = p->combine;
  Block *body = loop->body[0];
  int32_t threads = 32 * f->num_warps;
  Value *first = loop->in[3 + p->carried];
  const Type *one = type_number(f->cx, first->type->dtype), *wide = type_tensor(f->cx, one, 1, &threads);
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = combine->span},
          here = {.func = f, .block = body, .before = combine, .span = combine->span},
          after = {.func = f, .block = loop->block, .before = loop->next, .span = combine->span};
  bool adds = combine->code == OP_ADD, all_begin = !adds || begins_alike(first);
  Value *begin = all_begin                    ? build_splat(&before, first, 1, &threads)
                 : dtype_is_float(one->dtype) ? build_float(&before, wide, -0.0)
                                              : build_int(&before, wide, 0);
  Value *carried = control_carry(f, loop, begin, begin), *part = part_of(p, &here, threads);
  Value *next = build_binary(&here, combine->code, carried, part);
  memcpy(next->def->attr, combine->attr, sizeof combine->attr);
  body->last->in[carried->index - 1] = next;
  Value *total = loop_reduce_as(&after, p->reduce, loop->out[carried->index - 1], 0);
  if (!all_begin) total = build_binary(&after, OP_ADD, first, total);
  loop_replace_but(f->body, loop->out[p->carried], total->def);
  body->last->in[p->carried] = body->args[1 + p->carried]; /* nobody asks for it any more */
  op_remove(combine);
  op_remove(p->reduce);
}

static bool replace(Func *f, Op *loop, int carried) {
  Sums p = {.f = f, .loop = loop};
  if (!find(&p, carried)) return false;
  put(&p);
  return true;
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) { loop_replace_carried(f, loop, replace); }

void gpu_lane_sums(Func *f, const GpuOptions *o) {
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_dce(f);
}
