/* Layouts: made, asked, and carried through the operations that only rename elements.
 *
 * Most of the tile IR's shape operations are renamings of the bits of an element's flat index, and then what they make
 * of a layout is the same renaming of each of its vectors, whoever holds them:
 *
 *     f32[8,32], bits of the flat index:  r2 r1 r0 c4 c3 c2 c1 c0
 *     trans -> f32[32,8]                  c4 c3 c2 c1 c0 r2 r1 r0         each vector's bits move
 *     reshape, expand_dims                the same bits                   nothing changes
 *     reduce along the columns -> f32[8]  r2 r1 r0                        column bits go; what is left empty holds
 *                                                                         copies
 *     join -> f32[8,32,2]                 r2 r1 r0 c4 c3 c2 c1 c0 j       bits move up, a new register has j
 *
 * Backwards is the inverse renaming; where forward drops bits there is none. Layouts are kept one each in cx->layouts,
 * so that comparing them is comparing pointers.
 */
#include "layout/layout.h"

/* ---- making and finding ------------------------------------------------------------------------------------------ */

/* The registers' vectors in reduced form: each leading bit is in no other vector. See f2.c. */
struct LayoutIndex {
  int n;
  uint32_t vector[F2_MAX], regs[F2_MAX], lead[F2_MAX];
};

typedef struct Interned {
  Layout layout; /* must stay first */
  struct LayoutIndex index;
} Interned;

/* False when the vector depends on those before it. */
static bool index_add(struct LayoutIndex *index, uint32_t vector, uint32_t reg) {
  uint32_t regs = reg;
  for (int i = 0; i < index->n; i++)
    if (vector & index->lead[i]) vector ^= index->vector[i], regs ^= index->regs[i];
  if (!vector) return false;
  uint32_t lead = UINT32_C(1) << (31 - __builtin_clz(vector));
  for (int i = 0; i < index->n; i++)
    if (index->vector[i] & lead) index->vector[i] ^= vector, index->regs[i] ^= regs;
  index->vector[index->n] = vector;
  index->regs[index->n] = regs;
  index->lead[index->n++] = lead;
  return true;
}

const Layout *layout_make(Context *cx, const Layout *l) {
  Interned key;
  memset(&key, 0, sizeof key);
  Layout *k = &key.layout;
  k->lane_bits = l->lane_bits;
  k->warp_bits = l->warp_bits;
  k->out_bits = l->out_bits;
  for (int i = 0; i < l->reg_bits; i++)
    if (index_add(&key.index, l->basis[i], UINT32_C(1) << k->reg_bits)) k->basis[k->reg_bits++] = l->basis[i];
  for (int i = 0; i < l->lane_bits + l->warp_bits; i++) k->basis[k->reg_bits + i] = l->basis[l->reg_bits + i];

  if (!cx->layouts) cx->layouts = map_create(cx->arena, true);
  size_t size = offsetof(Layout, index);
  Layout *known = map_get_n(cx->layouts, (const char *)k, size);
  if (known) return known;
  Interned *made = arena_copy(cx->arena, &key, sizeof key);
  made->layout.index = &made->index;
  map_put_n(cx->layouts, (const char *)&made->layout, size, &made->layout);
  return &made->layout;
}

F2Map layout_map(const Layout *l) {
  F2Map m = {.in_bits = l->reg_bits + l->lane_bits + l->warp_bits, .out_bits = l->out_bits};
  memcpy(m.column, l->basis, sizeof m.column);
  return m;
}

static uint32_t sum(const uint32_t *vectors, int n, uint32_t bits) {
  uint32_t y = 0;
  for (int i = 0; i < n; i++) y ^= bits >> i & 1 ? vectors[i] : 0;
  return y;
}

uint32_t layout_register_part(const Layout *l, int reg) { return sum(l->basis, l->reg_bits, (uint32_t)reg); }

uint32_t layout_element(const Layout *l, int reg, int lane, int warp) {
  const uint32_t *lanes = l->basis + l->reg_bits;
  return layout_register_part(l, reg) ^ sum(lanes, l->lane_bits, (uint32_t)lane) ^
         sum(lanes + l->lane_bits, l->warp_bits, (uint32_t)warp);
}

int layout_find_register(const Layout *l, uint32_t part) {
  const struct LayoutIndex *index = l->index;
  uint32_t regs = 0;
  for (int i = 0; i < index->n; i++)
    if (part & index->lead[i]) part ^= index->vector[i], regs ^= index->regs[i];
  return part ? -1 : (int)regs;
}

/* Threads whose bits here are 0 hold every element that there is, each once: those bits are the ones whose vectors
 * depend on vectors before them. */
uint32_t layout_copies(const Layout *l) {
  struct LayoutIndex index = *l->index;
  uint32_t copies = 0;
  for (int i = 0; i < l->lane_bits + l->warp_bits; i++)
    if (!index_add(&index, l->basis[l->reg_bits + i], 0)) copies |= UINT32_C(1) << i;
  return copies;
}

int layout_dim_shift(const Type *t, int d) {
  int shift = 0;
  for (int i = t->rank - 1; i > d; i--) shift += log2_floor(t->shape[i]);
  return shift;
}

uint32_t layout_dim_mask(const Type *t, int d) { return ((uint32_t)t->shape[d] - 1) << layout_dim_shift(t, d); }

/* ---- blocked ----------------------------------------------------------------------------------------------------- */

/* Hands out a tensor's bits: the next `want` bits of one dim, or as many as are left, go to the vectors at *to. */
typedef struct Deal {
  int next[MAX_RANK], end[MAX_RANK];
} Deal;

static int deal(Deal *d, int dim, int want, uint32_t **to) {
  int given = 0;
  for (; given < want && d->next[dim] < d->end[dim]; given++) *(*to)++ = UINT32_C(1) << d->next[dim]++;
  return given;
}

const Layout *layout_blocked(Context *cx, const Type *t, const int *vector, const int *order, int num_warps) {
  Layout l = {.lane_bits = 5, .warp_bits = log2_floor(num_warps), .out_bits = log2_floor(type_numel(t))};
  Deal d;
  for (int i = 0; i < t->rank; i++) {
    d.next[i] = layout_dim_shift(t, i);
    d.end[i] = d.next[i] + log2_floor(t->shape[i]);
  }
  uint32_t regs[F2_MAX], threads[F2_MAX] = {0}, *reg = regs, *thread;
  for (int i = 0; i < t->rank; i++) deal(&d, order[i], log2_floor(vector[order[i]]), &reg);
  thread = threads;
  for (int i = 0, left = l.lane_bits; i < t->rank; i++) left -= deal(&d, order[i], left, &thread);
  thread = threads + l.lane_bits;
  for (int i = 0, left = l.warp_bits; i < t->rank; i++) left -= deal(&d, order[i], left, &thread);
  for (int i = 0; i < t->rank; i++) deal(&d, order[i], F2_MAX, &reg);

  l.reg_bits = (int)(reg - regs);
  memcpy(l.basis, regs, (size_t)l.reg_bits * sizeof *regs);
  memcpy(l.basis + l.reg_bits, threads, (size_t)(l.lane_bits + l.warp_bits) * sizeof *threads);
  return layout_make(cx, &l);
}

/* Blocked over the tensor taken as one row, with 4 elements a thread where there are that many for each. */
const Layout *layout_default(Context *cx, const Type *t, int num_warps) {
  int64_t n = type_numel(t), each = n / (32 * num_warps);
  Type flat = {.dtype = t->dtype, .rank = 1, .shape = {(int32_t)n}};
  return layout_blocked(cx, &flat, &(int){each >= 4 ? 4 : each >= 2 ? 2 : 1}, &(int){0}, num_warps);
}

/* ---- through the shape operations -------------------------------------------------------------------------------- */

/* Bit i of each vector becomes bit to[i]; to[i] < 0 drops it. */
static const Layout *rename_bits(Context *cx, const Layout *l, const int *to, int out_bits) {
  Layout m = *l;
  m.out_bits = out_bits;
  for (int i = 0; i < l->reg_bits + l->lane_bits + l->warp_bits; i++) {
    m.basis[i] = 0;
    for (uint32_t left = l->basis[i]; left; left &= left - 1) {
      int bit = to[__builtin_ctz(left)];
      if (bit >= 0) m.basis[i] |= UINT32_C(1) << bit;
    }
  }
  return layout_make(cx, &m);
}

/* Without `count` bits from `first` on. */
static const Layout *drop_bits(Context *cx, const Layout *l, int first, int count) {
  int to[F2_MAX];
  if (!count) return l;
  for (int i = 0; i < l->out_bits; i++) to[i] = i < first ? i : i < first + count ? -1 : i - count;
  return rename_bits(cx, l, to, l->out_bits - count);
}

const Layout *layout_slice(Context *cx, const Type *t, const Layout *l, int axis) {
  return drop_bits(cx, l, layout_dim_shift(t, axis), log2_floor(t->shape[axis]));
}

/* trans: dim d of `to` is dim dims[d] of `from`. Or, `back`, the inverse. */
static const Layout *permute(Context *cx, const Op *op, const Layout *l, bool back) {
  const Type *from = op->in[0]->type, *result = op->out[0]->type;
  int to[F2_MAX] = {0};
  for (int d = 0; d < result->rank; d++) {
    int a = layout_dim_shift(from, (int)op->dims[d]), b = layout_dim_shift(result, d);
    for (int i = 0; i < log2_floor(result->shape[d]); i++) to[back ? b + i : a + i] = back ? a + i : b + i;
  }
  return rename_bits(cx, l, to, l->out_bits);
}

/* A new bit of the index at place `bit`, held in a register of its own: the first, or the last. */
static const Layout *add_register_bit(Context *cx, const Layout *l, int bit, bool first) {
  int to[F2_MAX], n = l->reg_bits;
  for (int i = 0; i < l->out_bits; i++) to[i] = i < bit ? i : i + 1;
  const Layout *moved = rename_bits(cx, l, to, l->out_bits + 1);
  Layout m = *moved;
  int at = first ? 0 : n;
  m.reg_bits = n + 1;
  memcpy(m.basis + at + 1, moved->basis + at, (size_t)(n + l->lane_bits + l->warp_bits - at) * sizeof *m.basis);
  m.basis[at] = UINT32_C(1) << bit;
  return layout_make(cx, &m);
}

/* The inverse: NULL unless one register's vector is that bit alone and no other vector has it. */
static const Layout *drop_register_bit(Context *cx, const Layout *l, int bit) {
  int holders = 0;
  bool alone = false;
  for (int i = 0; i < l->reg_bits + l->lane_bits + l->warp_bits; i++)
    if (l->basis[i] >> bit & 1) {
      holders++;
      alone = i < l->reg_bits && l->basis[i] == UINT32_C(1) << bit;
    }
  return holders == 1 && alone ? drop_bits(cx, l, bit, 1) : NULL;
}

/* In cat's result, the bit of the index that says which operand. */
static int cat_bit(const Op *op) {
  int axis = (int)op->axis;
  return layout_dim_shift(op->out[0]->type, axis) + log2_floor(op->in[0]->type->shape[axis]);
}

bool op_shares_layout(const Op *op) {
  switch (op->code) {
    case OP_SCAN:
    case OP_MAP:
    case OP_SORT:
    case OP_HINT:
    case OP_ASSERT:
    case OP_DOT_WAIT:
    case OP_STORE_TENSOR:
    case OP_ASM: return true;
    default: return op_is_elementwise(op) || op_is_access(op);
  }
}

const Layout *layout_forward(Context *cx, const Op *op, int operand, const Layout *l) {
  const Type *from = op->in[operand]->type, *to = op->out_count ? op->out[0]->type : from;
  if (!l || !from->rank || !to->rank) return NULL;
  if (op_shares_layout(op)) return l;
  switch (op->code) {
    case OP_EXPAND_DIMS:
    case OP_RESHAPE: return l;
    case OP_TRANS: return permute(cx, op, l, false);
    case OP_REDUCE: return layout_slice(cx, from, l, (int)op->axis);
    case OP_JOIN: return add_register_bit(cx, l, 0, true);
    case OP_SPLIT: return drop_register_bit(cx, l, 0);
    case OP_CAT: return add_register_bit(cx, l, cat_bit(op), false);
    default: return NULL;
  }
}

const Layout *layout_backward(Context *cx, const Op *op, int operand, const Layout *l) {
  const Type *from = op->in[operand]->type, *to = op->out_count ? op->out[0]->type : from;
  if (!l || !from->rank || !to->rank) return NULL;
  if (op_shares_layout(op)) return l;
  switch (op->code) {
    case OP_EXPAND_DIMS:
    case OP_RESHAPE: return l;
    case OP_TRANS: return permute(cx, op, l, true);
    case OP_BROADCAST: /* the highest bits first, so that those below keep their places */
      for (int d = 0; d < to->rank; d++)
        if (from->shape[d] != to->shape[d]) l = drop_bits(cx, l, layout_dim_shift(to, d), log2_floor(to->shape[d]));
      return l;
    case OP_JOIN: return drop_register_bit(cx, l, 0);
    case OP_SPLIT: return add_register_bit(cx, l, 0, true);
    case OP_CAT: return drop_register_bit(cx, l, cat_bit(op));
    default: return NULL;
  }
}
