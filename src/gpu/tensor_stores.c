/* Tiles that a kernel computes and stores at its end go to memory by tensor maps.
 *
 *     if %computes {                             if %computes {
 *       for programs {                             for programs {
 *         ... %acc                         ->        ... %acc
 *         store %c_ptr, convert %acc                 store_tensor %map, convert %acc, %column, %row
 *
 * Each warp writes its rows to shared memory, and one thread of it asks the copy engine to bring them to the array, cut
 * where that ends (lower/store_tensor.c). Nobody computes addresses or masks, and the next program begins while the
 * last one's tile is on its way.
 *
 * Done for specialized kernels whose last access to memory is a store of a tile that is a box of an array
 * (tile/analysis/regular.h) and begins inside of it, and who write nothing else: what the engine brings is in no order
 * with other accesses.
 */
#include "gpu/launch_plan.h"
#include "gpu/ring.h"

enum { LEAST_ROWS = 8, LEAST_BYTES = 32, MOST_BYTES = 128, MOST_COORDINATES = 2 + REGULAR_DIMS };

typedef struct Found {
  Op *store;
  int writes, maps;
  bool loaded; /* warps may hold a product's rows in an order in which they have no boxes (layout_is_wgmma_loaded) */
} Found;

static void find_write(Op *op, void *arg) {
  Found *f = arg;
  f->maps += op->code == OP_TENSOR_MAP;
  f->loaded |= op->code == OP_DOT && op->in[0]->type->dtype == DT_F32;
  if (op_info[op->code].effect != EFFECT_WRITE && op->code != OP_ASM) return;
  f->writes++;
  f->store = op->code == OP_STORE ? op : NULL;
}

/* The first body of the `if` that parts the block's warps; NULL: they are not parted. */
static Block *computing(const Func *f) {
  for (const Op *op = f->body->first; op; op = op->next)
    if (op->code == OP_IF && op->in[0]->def && op->in[0]->def->code == OP_COMPUTES) return op->body[0];
  return NULL;
}

/* Whether nothing of a program that comes after reads memory. */
static bool is_last(const Func *f, const Op *store) {
  const Block *b = store->block, *half = computing(f);
  if (b != half && !(b->parent && b->parent->block == half && loop_runs_programs(f, b->parent))) return false;
  for (const Op *op = store->next; op; op = op->next)
    if (op_info[op->code].effect == EFFECT_READ || op_info[op->code].effect == EFFECT_CONTROL) return false;
  return true;
}

/* Whether the box is the tile, and each warp can have a part of it with rows of LEAST_BYTES and LEAST_ROWS of them. */
static bool is_whole(const Func *f, const RegularTile *r, const Type *t) {
  if (r->count < 2 || r->dims[0].dim < 0 || r->dims[1].dim < 0) return false;
  for (int i = 2; i < r->count; i++)
    if (r->dims[i].box != 1) return false;
  int64_t bytes = (int64_t)type_elem_bytes(t) * r->dims[0].box;
  int64_t row = bytes > MOST_BYTES ? MOST_BYTES : bytes, parts = r->dims[1].box / LEAST_ROWS * (bytes / row);
  return type_elem_bytes(t) <= 4 && bytes >= LEAST_BYTES && parts >= 2 * f->num_warps; /* two on their way */
}

/* Whether it is what a turned product leaves (gpu/turn_dots.c): threads hold neighbours of a row, and store them. */
static bool is_turned(const Value *v) {
  stack_guard();
  const Op *op = v->def;
  if (!op || !v->type->rank) return false;
  if (op->code == OP_TRANS) return true;
  for (int i = 0; i < op->in_count && op_is_elementwise(op); i++)
    if (is_turned(op->in[i])) return true;
  return false;
}

/* A launch for which a condition does not hold takes a kernel without any maps, or the map of a copy whose rows begin
 * at 16 bytes (rt/cuda/copies.c): neither may be for a store's sake. */
static bool is_free(const RegularTile *r) {
  for (int i = 0; i < r->space->conditions.n; i++)
    if (r->space->conditions.at[i].need != POLY_AT_LEAST) return false;
  return true;
}

static void put(Func *f, Op *store, RegularTile *box) {
  Builder top = {.func = f, .block = f->body, .before = f->body->first, .span = store->span},
          b = {.func = f, .block = store->block, .before = store, .span = store->span};
  Value *in[MOST_COORDINATES] = {ring_map(&top, box), store->in[1]}, *holds = NULL;
  for (int i = 0; i < box->count; i++) in[2 + i] = poly_build(box->space, &b, box->dims[i].start, DT_I32, false);
  for (int i = 0; i < box->guard_count; i++)
    holds = holds ? build_binary(&b, OP_AND, holds, box->guards[i]) : box->guards[i];
  if (holds) b = loop_branch_on(&b, holds);
  Op *op = build_op(&b, OP_STORE_TENSOR, 2 + box->count, in, 0, NULL);
  op->inner = box->dims[0].dim;
  op_remove(store);
}

void gpu_tensor_stores(Func *f, const GpuOptions *o) {
  Found found = {NULL, 0, 0, false};
  const char *why;
  tile_replace_uses(f);
  if (!computing(f)) return;
  tile_walk(f->body, find_write, &found);
  Op *store = found.store;
  if (found.writes != 1 || !store || found.loaded || found.maps >= GPU_PLAN_MAPS || !is_last(f, store)) return;
  const Type *t = store->in[1]->type;
  if (t->rank != 2 || t->ptr || op_cache(store) || op_evict(store) || is_turned(store->in[1])) return;
  RegularTile *box = regular_tile(f, store, &why);
  if (box && is_whole(f, box, t) && regular_begins_inside(box) && is_free(box)) put(f, store, box);
  tile_replace_uses(f);
}
