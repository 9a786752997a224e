/* Loads and stores of boxes: regular.h. */
#include "tile/analysis/regular.h"

typedef struct Reading {
  PolySpace *s;
  const Op *access;
  bool by_engine; /* a copy engine is to read it */
  const Type *type;
  RegularTile *out;
  const Poly *upper[MAX_RANK]; /* index < upper; NULL: no bound */
  const Poly *lower[MAX_RANK]; /* index + lower >= 0 */
  const char *why;
} Reading;

static bool refuse(Reading *r, const char *why) {
  if (!r->why) r->why = why;
  return false;
}

static bool refuse_for(Reading *r, const char *otherwise) { return refuse(r, r->s->why ? r->s->why : otherwise); }

/* ---- the mask ---------------------------------------------------------------------------------------------------- */

static bool add_guard(Reading *r, Value *v) {
  RegularTile *t = r->out;
  for (int i = 0; i < t->guard_count; i++)
    if (t->guards[i] == v) return true;
  if (t->guard_count == REGULAR_GUARDS) return refuse(r, "its mask has too many conditions");
  t->guards[t->guard_count++] = v;
  return true;
}

/* Of two upper bounds of one dim: x or y, whichever is always lower. */
static const Poly *tighter(Reading *r, const Poly *x, const Poly *y) {
  int64_t by;
  const Poly *difference = poly_sub(r->s, x, y);
  if (!difference || !poly_is_int(difference, &by)) return NULL;
  return by <= 0 ? x : y;
}

/* difference > 0, elementwise. */
static bool add_bound(Reading *r, const Poly *difference, Value *cmp) {
  PolySpace *s = r->s;
  int dim = -1;
  int64_t factor = 0, found;
  for (int d = 0; d < r->type->rank; d++) {
    const Poly *per = poly_per_index(s, difference, d);
    if (!per || !poly_is_int(per, &found)) return refuse(r, "its mask bounds an index times a stride");
    if (!found) continue;
    if (dim >= 0) return refuse(r, "its mask compares indices of two dims");
    dim = d, factor = found;
  }
  if (dim < 0) return refuse(r, "its mask is one condition, computed for each element");
  if (factor != 1 && factor != -1) return refuse(r, "its mask bounds an index times a number");
  const Poly *rest = poly_without_indices(s, difference), **at = factor < 0 ? &r->upper[dim] : &r->lower[dim];
  if (factor > 0) rest = poly_sub(s, rest, poly_int(s, 1));
  if (!rest) return refuse_for(r, "its mask is too long a sum");
  if (*at) rest = tighter(r, *at, rest);
  if (!rest) return refuse(r, "its mask bounds a dim twice");
  *at = rest;
  return true;
}

static Value *scalar_of(Value *v) {
  while (v->type->rank && v->def &&
         (v->def->code == OP_SPLAT || v->def->code == OP_BROADCAST || v->def->code == OP_EXPAND_DIMS ||
          v->def->code == OP_RESHAPE))
    v = value_replacement(v->def->in[0]);
  return v->type->rank ? NULL : v;
}

static bool read_comparison(Reading *r, Value *v, const int *dims) {
  PolySpace *s = r->s;
  const Op *op = v->def;
  const Poly *x = poly_of(s, op->in[0], dims), *y = poly_of(s, op->in[1], dims), *difference = NULL;
  if (!x || !y) return refuse(r, "its mask is no bound of an index");
  switch ((CmpPred)op->pred) {
    case CMP_LT: difference = poly_sub(s, y, x); break;
    case CMP_GT: difference = poly_sub(s, x, y); break;
    case CMP_LE: difference = poly_add(s, poly_sub(s, y, x), poly_int(s, 1)); break;
    case CMP_GE: difference = poly_add(s, poly_sub(s, x, y), poly_int(s, 1)); break;
    default: return refuse(r, "its mask asks whether an index equals another");
  }
  return difference ? add_bound(r, difference, v) : refuse_for(r, "its mask is too long a sum");
}

static bool read_mask(Reading *r, Value *v, const int *dims) {
  stack_guard();
  v = value_replacement(v);
  int64_t all;
  int of_operand[MAX_RANK];
  Value *scalar = scalar_of(v);
  if (value_is_const(v, &all) && all) return true;
  if (scalar) return add_guard(r, scalar);
  const Op *op = v->def;
  if (!op) return refuse(r, "a loop carries its mask");
  switch (op->code) {
    case OP_AND: return read_mask(r, op->in[0], dims) && read_mask(r, op->in[1], dims);
    case OP_CMP: return read_comparison(r, v, dims);
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_TRANS:
    case OP_RESHAPE:
      if (poly_dims(op, dims, of_operand)) return read_mask(r, op->in[0], of_operand);
      return refuse(r, "its mask is put in another order");
    case OP_HINT: return read_mask(r, op->in[0], dims);
    default: return refuse(r, "its mask is no conjunction of bounds");
  }
}

/* ---- the array --------------------------------------------------------------------------------------------------- */

/* The tile's dims, the one with stride 1 first. */
static bool place_dims(Reading *r, const Poly *address) {
  RegularTile *t = r->out;
  int64_t one;
  for (int inner = 1; inner >= 0; inner--)
    for (int d = r->type->rank - 1; d >= 0; d--) {
      if (r->type->shape[d] == 1) continue;
      const Poly *stride = poly_per_index(r->s, address, d);
      if (!stride) return refuse(r, "its address multiplies indices with each other");
      if (!poly_is_static(r->s, stride)) return refuse(r, "a stride is known only in the kernel");
      bool is_inner = poly_is_int(stride, &one) && one == 1;
      if (is_inner != inner) continue;
      if (inner && t->count) return refuse(r, "neighbours along two dims lie side by side");
      if (!inner && !t->count) return refuse(r, "neighbours lie side by side along no dim");
      if (t->count == REGULAR_DIMS) return refuse(r, "it has more than five dims");
      t->dims[t->count++] = (RegularDim){.dim = d, .box = r->type->shape[d], .stride = stride};
    }
  return t->count ? true : refuse(r, "neighbours lie side by side along no dim");
}

static bool falls(const Poly *x) {
  for (int i = 0; i < x->count; i++)
    if (x->at[i].factor < 0) return true;
  return false;
}

/* Where the box begins along a dim with a bound, and the array's size there: index + start < size. */
static bool bound_dim(Reading *r, RegularDim *d) {
  stack_guard();
  PolySpace *s = r->s;
  const Poly *upper = r->upper[d->dim], *lower = r->lower[d->dim];
  if (!upper && !lower) return true;
  d->start = lower ? lower : poly_sub(s, poly_int(s, 0), poly_part(s, upper, false));
  if (!d->start) return refuse_for(r, "its mask is too long a sum");
  if (!upper) return true;
  if (!lower && falls(d->start)) return refuse(r, "a bound is known only in the kernel");
  d->size = poly_add(s, upper, d->start);
  if (!d->size) return refuse_for(r, "its mask is too long a sum");
  if (lower && !poly_is_static(s, d->size)) { /* another start's lower bound: one that always holds is none */
    r->lower[d->dim] = NULL;
    return poly_non_negative(s, lower) ? bound_dim(r, d) : refuse(r, "its mask's bounds are not of one index");
  }
  return poly_is_static(s, d->size) ? true : refuse(r, "a bound is known only in the kernel");
}

/* Splits a term into what changes and what does not. */
static void split_term(Reading *r, const PolyTerm *t, const Poly **moves, const Poly **stays) {
  PolySpace *s = r->s;
  PolyTerm part[2] = {{.factor = 1}, {.factor = t->factor}};
  for (int k = 0; k < t->count; k++) {
    PolyTerm *to = &part[s->atoms.at[t->atoms[k]].is_static];
    to->atoms[to->count++] = t->atoms[k];
  }
  for (int i = 0; i < 2; i++) {
    Poly *p = NEW(s->cx->arena, Poly);
    PolyTerm *at = NEW(s->cx->arena, PolyTerm);
    *at = part[i];
    *p = (Poly){1, at};
    *(i ? stays : moves) = p;
  }
}

/* n for which stays is n times the stride; 0: there is none. */
static int64_t multiple_of(const Poly *stays, const Poly *stride) {
  if (stays->count != 1 || stride->count != 1) return 0;
  const PolyTerm *x = stays->at, *y = stride->at;
  if (x->count != y->count || memcmp(x->atoms, y->atoms, sizeof *x->atoms * (size_t)x->count)) return 0;
  return x->factor % y->factor ? 0 : x->factor / y->factor;
}

/* A term of the address that no bounded dim accounts for: it moves the box along a dim without a bound, or along one of
 * its own. */
static bool place_term(Reading *r, const Poly *moves, const Poly *stays) {
  PolySpace *s = r->s;
  RegularTile *t = r->out;
  RegularDim *best = NULL;
  int64_t steps = 0;
  for (int i = 0; i < t->count; i++) {
    RegularDim *d = &t->dims[i];
    bool is_free = d->dim >= 0 && !r->upper[d->dim] && !r->lower[d->dim];
    int64_t n = is_free || d->dim < 0 ? multiple_of(stays, d->stride) : 0;
    if (n > 0 && (!best || n < steps)) best = d, steps = n;
  }
  if (!best) {
    if (t->count == REGULAR_DIMS) return refuse(r, "it has more than five dims");
    best = &t->dims[t->count++];
    *best = (RegularDim){.dim = -1, .box = 1, .stride = stays};
    steps = 1;
  }
  const Poly *by = poly_mul(s, poly_int(s, steps), moves);
  best->start = best->start ? poly_add(s, best->start, by) : by;
  return best->start ? true : refuse_for(r, "its address is too long a sum");
}

static bool place_rest(Reading *r, const Poly *address) {
  PolySpace *s = r->s;
  RegularTile *t = r->out;
  const Poly *rest = poly_without_indices(s, address), *moving;
  for (int i = 0; i < t->count; i++)
    if (t->dims[i].start) rest = poly_sub(s, rest, poly_mul(s, t->dims[i].start, t->dims[i].stride));
  t->offset = poly_part(s, rest, true);
  moving = poly_part(s, rest, false);
  if (!t->offset || !moving) return refuse_for(r, "its address is too long a sum");
  for (int i = 0; i < moving->count; i++) {
    const Poly *moves, *stays;
    split_term(r, &moving->at[i], &moves, &stays);
    if (!place_term(r, moves, stays)) return false;
  }
  return true;
}

/* Whether the box's rows begin at multiples of 16 bytes of the array's: an H200 ends a kernel whose tensor maps copy
 * from or to elsewhere by CUDA_ERROR_ILLEGAL_INSTRUCTION, which no document tells. Of what arguments say a launch sees
 * to. */
static bool begins_aligned(Reading *r, const Poly *start, int64_t unit) {
  PolySpace *s = r->s;
  const Poly *fixed = poly_part(s, start, true), *moving = poly_part(s, start, false);
  return fixed && moving && poly_divisible(s, moving) >= unit && poly_need(s, POLY_MULTIPLE, fixed, unit);
}

/* What a copy engine asks, and what the reading took for granted. */
static bool add_conditions(Reading *r) {
  PolySpace *s = r->s;
  RegularTile *t = r->out;
  int64_t unit = REGULAR_ALIGN / type_elem_bytes(r->type);
  if (unit < 1) unit = 1;
  if (r->by_engine && s->f->arg_divisible[t->base->index] % REGULAR_ALIGN)
    return refuse(r, "its array is not known to begin at 16 bytes");
  if (r->by_engine && !poly_need(s, POLY_ALIGNED, t->offset, unit)) return refuse(r, "it does not begin at 16 bytes");
  for (int i = 0; i < t->count; i++) {
    RegularDim *d = &t->dims[i];
    if (!d->start) d->start = poly_int(s, 0);
    bool is_bounded = d->dim >= 0 && r->lower[d->dim];
    if (!is_bounded && !poly_non_negative(s, d->start)) return refuse(r, "it may begin before its array");
    if (d->size && !poly_need(s, POLY_AT_LEAST, d->size, 1)) return refuse(r, "its array is empty");
    if (!i && r->by_engine && !begins_aligned(r, d->start, unit))
      return refuse(r, "its rows do not begin at multiples of 16 bytes");
    if (!i) continue;
    if (!poly_need(s, POLY_AT_LEAST, d->stride, 1)) return refuse(r, "a stride is not positive");
    if (r->by_engine && !poly_need(s, POLY_ALIGNED, d->stride, unit))
      return refuse(r, "a stride is no multiple of 16 bytes");
  }
  return true;
}

static bool can_be_read(Reading *r) {
  const Op *load = r->access;
  if (!r->by_engine) return true;
  if (load->code == OP_ATOMIC_RMW) return true;
  if (load->code != OP_LOAD && load->code != OP_STORE) return refuse(r, "it is no tile");
  if (r->type->ptr) return refuse(r, "its elements are pointers");
  if (op_is_volatile(load)) return refuse(r, "it is volatile");
  return !op_other(load) || value_is_zero(op_other(load)) ? true : refuse(r, "what is masked is not zero");
}

static bool read_access(Reading *r) {
  const Op *op = r->access;
  int dims[MAX_RANK];
  for (int d = 0; d < MAX_RANK; d++) dims[d] = d;
  if (!r->type->rank) return refuse(r, "it is no tile");
  if (!can_be_read(r)) return false;
  const Poly *address = poly_of_pointer(r->s, op->in[0], dims, &r->out->base);
  if (!address) return refuse_for(r, "its address is no sum of indices times strides");
  if (op_mask(op) && !read_mask(r, op_mask(op), dims)) return false;
  if (!place_dims(r, address)) return false;
  for (int i = 0; i < r->out->count; i++)
    if (!bound_dim(r, &r->out->dims[i])) return false;
  return place_rest(r, address) && add_conditions(r);
}

static RegularTile *read_box(const Func *f, const Op *op, bool by_engine, const char **why) {
  RegularTile *t = NEW(f->cx->arena, RegularTile);
  *t = (RegularTile){.space = poly_space(f)};
  const Type *type = op->code == OP_LOAD ? op->out[0]->type : op->in[1]->type;
  Reading r = {.s = t->space, .access = op, .by_engine = by_engine, .type = type, .out = t};
  bool is = read_access(&r);
  *why = r.why;
  return is ? t : NULL;
}

RegularTile *regular_tile(const Func *f, const Op *load, const char **why) { return read_box(f, load, true, why); }

RegularTile *regular_access(const Func *f, const Op *access, const char **why) {
  return read_box(f, access, false, why);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

bool regular_begins_inside(const RegularTile *r) {
  for (int i = 0; i < r->count; i++)
    if (!poly_non_negative(r->space, r->dims[i].start)) return false;
  return true;
}

void regular_print(Buf *out, const RegularTile *r) {
  const PolySpace *s = r->space;
  buf_printf(out, "%s", r->base->name);
  if (r->offset->count) {
    buf_puts(out, " + ");
    poly_print(out, s, r->offset);
  }
  for (int i = 0; i < r->count; i++) {
    const RegularDim *d = &r->dims[i];
    buf_printf(out, "%s%d from ", i ? "; " : ": ", d->box);
    poly_print(out, s, d->start);
    if (d->size) {
      buf_puts(out, " of ");
      poly_print(out, s, d->size);
    }
    buf_puts(out, " by ");
    poly_print(out, s, d->stride);
  }
  for (int i = 0; i < s->conditions.n; i++) {
    const PolyCondition *c = &s->conditions.at[i];
    buf_puts(out, i ? ", " : "; if ");
    poly_print(out, s, c->of);
    buf_printf(out, c->need == POLY_AT_LEAST ? " >= %lld" : " %% %lld == 0", (long long)c->number);
  }
  if (r->guard_count) buf_printf(out, "; %d guard%s", r->guard_count, r->guard_count > 1 ? "s" : "");
}
