/* known: the abstract values of analysis/abstract.h, operation by operation. What an operation does with forms it has
 * no rule for is done element by element, through scalar.c; so the result is right or unknown, never guessed. */
#include "tile/analysis/abstract.h"

AbstractValue *abstract_of(AbstractState *k, const Value *v) { return &k->of[v->id]; }

void live_whole(AbstractValue *x, const Type *t) {
  for (int d = 0; d < t->rank; d++) x->live[d] = (Range){0, t->shape[d]};
}

AbstractValue abstract_unknown(const Type *t) {
  AbstractValue x = {.form = FORM_UNKNOWN, .arg = -1};
  live_whole(&x, t);
  return x;
}

int64_t range_volume(const Range *r, const Type *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= r[d].hi > r[d].lo ? r[d].hi - r[d].lo : 0;
  return n;
}

AbstractValue abstract_int(const Type *t, int64_t v) {
  AbstractValue x = abstract_unknown(t);
  bool mask = t->rank && t->dtype == DT_I1 && !t->ptr;
  x.form = mask ? FORM_BOX : FORM_AFFINE;
  x.base = v;
  for (int d = 0; mask && d < t->rank; d++) x.box[d] = (Range){0, v ? t->shape[d] : 0};
  return x;
}

static bool is_int(const Type *t) { return !t->ptr && dtype_is_int(t->dtype); }

static bool is_constant(const AbstractValue *x, const Type *t) {
  for (int d = 0; d < t->rank; d++)
    if (x->step[d] && t->shape[d] > 1) return false;
  return x->form == FORM_AFFINE;
}

bool abstract_scalar(const AbstractValue *x, const Type *t, int64_t *out) {
  if (x->form == FORM_DENSE && type_numel(t) == 1) return *out = x->dense[0], true;
  return x->form == FORM_AFFINE && is_constant(x, t) ? *out = x->base, true : false;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

static int64_t *room_for(AbstractState *k, int64_t **at, int64_t n) {
  if (!*at) *at = NEW_N(k->f->cx->arena, int64_t, n);
  return *at;
}

void abstract_set(AbstractState *k, const Value *v, const AbstractValue *x) {
  AbstractValue *to = abstract_of(k, v);
  int64_t n = type_numel(v->type);
  if (to == x) return;
  *to = *x;
  if (x->form != FORM_DENSE) return;
  to->dense = room_for(k, &k->room[v->id], n);
  memmove(to->dense, x->dense, sizeof *x->dense * (size_t)n);
}

const int64_t *abstract_elements(AbstractState *k, const AbstractValue *x, const Type *t, int slot) {
  int64_t n = type_numel(t);
  if (x->form == FORM_DENSE) return x->dense;
  if (x->form == FORM_UNKNOWN || n > DENSE_MOST || k->steps > k->budget || k->skips_elements) return NULL;
  k->steps += n / 4;
  int64_t *out = room_for(k, &k->scratch[slot], DENSE_MOST);
  int32_t at[MAX_RANK] = {0};
  for (int64_t i = 0; i < n; i++) {
    int64_t v = x->base;
    bool inside = true;
    for (int d = 0; d < t->rank; d++) {
      v += x->step[d] * at[d];
      inside &= at[d] >= x->box[d].lo && at[d] < x->box[d].hi;
    }
    out[i] = x->form == FORM_BOX ? inside : v;
    for (int d = t->rank - 1; d >= 0 && ++at[d] == t->shape[d]; d--) at[d] = 0;
  }
  return out;
}

/* Where the elements of v's new dense form go; NULL when it may not have one. */
static int64_t *dense_result(AbstractState *k, const Value *v, AbstractValue *x) {
  int64_t n = type_numel(v->type);
  if (n > DENSE_MOST || k->steps > k->budget || k->skips_elements) return NULL;
  k->steps += n;
  x->form = FORM_DENSE;
  return x->dense = room_for(k, &k->room[v->id], n);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void abstract_load(AbstractState *k, const Op *op, AbstractValue *x) {
  const Value *result = op->out[0], *mask = op_mask(op), *other = op_other(op);
  const AbstractValue *p = abstract_of(k, op->in[0]);
  const HostArray *array = p->form != FORM_UNKNOWN && p->arg >= 0 ? &k->contents[p->arg] : NULL;
  if (!array || !array->at || !is_int(result->type) || !k->needed[result->id]) return;
  const int64_t *at = abstract_elements(k, p, op->in[0]->type, 0),
                *on = mask ? abstract_elements(k, abstract_of(k, mask), mask->type, 1) : NULL,
                *others = other ? abstract_elements(k, abstract_of(k, other), other->type, 2) : NULL;
  bool knows = at && (on || !mask) && (others || !other);
  int64_t *out = knows ? dense_result(k, result, x) : NULL, bytes = dtype_bytes(result->type->dtype);
  for (int64_t i = 0, n = type_numel(result->type); out && i < n; i++) {
    bool skipped = on && !on[i];
    if (!skipped && (at[i] < 0 || at[i] > array->bytes - bytes)) { /* past the array: nobody knows what is there */
      x->form = FORM_UNKNOWN;
      return;
    }
    if (skipped) out[i] = others ? others[i] : 0;
    else out[i] = dtype_load_int(result->type->dtype, (const char *)array->at + at[i]);
  }
  k->has_read |= out != NULL;
  if (out && !result->type->rank) *x = (AbstractValue){.form = FORM_AFFINE, .arg = -1, .base = out[0]};
}

/* ---- live elements ----------------------------------------------------------------------------------------------- */

static void live_meet(AbstractValue *x, const AbstractValue *y, const Type *t) {
  for (int d = 0; d < t->rank; d++) {
    if (y->live[d].lo > x->live[d].lo) x->live[d].lo = y->live[d].lo;
    if (y->live[d].hi < x->live[d].hi) x->live[d].hi = y->live[d].hi;
    if (x->live[d].hi < x->live[d].lo) x->live[d].hi = x->live[d].lo;
  }
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

/* Whether all elements of the affine x are numbers of t, so that no computation of them wrapped. */
static bool affine_fits(const AbstractValue *x, const Type *t) {
  int64_t low = x->base, high = x->base;
  for (int d = 0; d < t->rank; d++) {
    int64_t far;
    if (__builtin_mul_overflow(x->step[d], (int64_t)t->shape[d] - 1, &far)) return false;
    if (far < 0 ? __builtin_add_overflow(low, far, &low) : __builtin_add_overflow(high, far, &high)) return false;
  }
  return t->ptr || (int_wrap(t->dtype, low) == low && int_wrap(t->dtype, high) == high);
}

static bool affine_binary(const Op *op, const AbstractValue *x, const AbstractValue *y, AbstractValue *r) {
  const Type *t = op->out[0]->type;
  if (x->form != FORM_AFFINE || y->form != FORM_AFFINE) return false;
  bool cx = is_constant(x, t), cy = is_constant(y, t);
  r->form = FORM_AFFINE;
  if (cx && cy) {
    r->base = scalar_binary(op->code, t->dtype, (Scalar){.i = x->base}, (Scalar){.i = y->base}, op->variant).i;
    return true;
  }
  if (op->code == OP_MUL && (cx || cy)) {
    const AbstractValue *a = cx ? y : x;
    int64_t by = cx ? x->base : y->base;
    bool over = __builtin_mul_overflow(a->base, by, &r->base);
    for (int d = 0; d < t->rank; d++) over |= __builtin_mul_overflow(a->step[d], by, &r->step[d]);
    return !over && affine_fits(r, t);
  }
  if (op->code != OP_ADD && op->code != OP_SUB) return false;
  bool over = op->code == OP_ADD ? __builtin_add_overflow(x->base, y->base, &r->base)
                                 : __builtin_sub_overflow(x->base, y->base, &r->base);
  for (int d = 0; d < t->rank; d++) r->step[d] = op->code == OP_ADD ? x->step[d] + y->step[d] : x->step[d] - y->step[d];
  return !over && affine_fits(r, t);
}

static bool box_binary(const Op *op, const AbstractValue *x, const AbstractValue *y, AbstractValue *r) {
  const Type *t = op->out[0]->type;
  if (x->form != FORM_BOX || y->form != FORM_BOX) return false;
  int64_t vx = range_volume(x->box, t), vy = range_volume(y->box, t), n = type_numel(t);
  const AbstractValue *pick = NULL;
  if (op->code == OP_OR) pick = !vx || vy == n ? y : !vy || vx == n ? x : NULL;
  if (pick) return r->form = FORM_BOX, memcpy(r->box, pick->box, sizeof r->box), true;
  if (op->code != OP_AND) return false;
  r->form = FORM_BOX;
  for (int d = 0; d < t->rank; d++) {
    Range a = x->box[d], b = y->box[d];
    r->box[d] = (Range){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    if (r->box[d].hi < r->box[d].lo) r->box[d].hi = r->box[d].lo;
  }
  return true;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* x < y where their difference grows along one dim only: a box. */
static bool box_compare(const Op *op, const AbstractValue *x, const AbstractValue *y, AbstractValue *r) {
  const Type *t = op->in[0]->type;
  if (x->form != FORM_AFFINE || y->form != FORM_AFFINE || t->ptr) return false;
  int64_t base, step = 0;
  int along = -1;
  if (__builtin_sub_overflow(x->base, y->base, &base)) return false;
  for (int d = 0; d < t->rank; d++) {
    int64_t s = x->step[d] - y->step[d];
    if (!s || t->shape[d] == 1) continue;
    if (along >= 0) return false;
    along = d, step = s;
  }
  CmpPred p = (CmpPred)op->pred;
  if (along < 0) {
    bool holds = scalar_cmp(p, t->dtype, (Scalar){.i = x->base}, (Scalar){.i = y->base});
    Range live[MAX_RANK];
    memcpy(live, r->live, sizeof live);
    *r = abstract_int(op->out[0]->type, holds);
    memcpy(r->live, live, sizeof live);
    return true;
  }
  if (p == CMP_EQ || p == CMP_NE) return false;
  /* base + step * i < limit, with limit 0 or 1, or the opposite of that */
  int64_t limit = p == CMP_LT || p == CMP_GE ? 0 : 1;
  bool opposite = p == CMP_GE || p == CMP_GT, below = (step > 0) != opposite;
  int64_t n = t->shape[along],
          edge = step > 0 ? floor_div(limit - base - 1, step) + 1 : floor_div(base - limit, -step) + 1;
  edge = edge < 0 ? 0 : edge > n ? n : edge; /* the first index at which it no longer holds, or (step < 0) first does */
  r->form = FORM_BOX;
  for (int d = 0; d < t->rank; d++) r->box[d] = (Range){0, t->shape[d]};
  r->box[along] = below ? (Range){0, (int32_t)edge} : (Range){(int32_t)edge, (int32_t)n};
  return true;
}

static void elementwise(AbstractState *k, const Op *op, AbstractValue *r) {
  const Type *t = op->out[0]->type, *from = op->in[0]->type;
  const AbstractValue *in[3] = {NULL};
  for (int i = 0; i < op->in_count; i++) {
    if (i < 3) in[i] = abstract_of(k, op->in[i]);
    live_meet(r, abstract_of(k, op->in[i]), t);
  }
  if (!is_int(t) || !is_int(from) || op->code == OP_MATH || op->code == OP_FMA) return;
  if (op->code == OP_CMP ? box_compare(op, in[0], in[1], r)
                         : op->in_count == 2 && (affine_binary(op, in[0], in[1], r) || box_binary(op, in[0], in[1], r)))
    return;
  r->form = FORM_UNKNOWN;
  int64_t n = type_numel(t);
  const int64_t *x = abstract_elements(k, in[0], from, 0),
                *y = op->in_count > 1 && x ? abstract_elements(k, in[1], from, 1) : NULL;
  int64_t *out = x && (y || op->in_count == 1) ? dense_result(k, op->out[0], r) : NULL;
  for (int64_t i = 0; out && i < n; i++) {
    Scalar a = {.i = x[i]}, b = {.i = y ? y[i] : 0};
    out[i] = op->code == OP_CMP ? scalar_cmp((CmpPred)op->pred, from->dtype, a, b)
             : y                ? scalar_binary(op->code, t->dtype, a, b, op->variant).i
                                : scalar_unary(op->code, t->dtype, a).i;
  }
  if (r->form == FORM_DENSE && !t->rank) *r = (AbstractValue){.form = FORM_AFFINE, .arg = -1, .base = out[0]};
}

static void convert(AbstractState *k, const Op *op, AbstractValue *r) {
  const Type *t = op->out[0]->type, *from = op->in[0]->type;
  const AbstractValue *x = abstract_of(k, op->in[0]);
  live_meet(r, x, t);
  bool pointers = t->ptr && from->ptr, bits = op->code == OP_BITCAST;
  if (pointers) {
    *r = *x;
    return;
  }
  if (!is_int(t) || !is_int(from)) return;
  if (x->form == FORM_AFFINE && affine_fits(x, t)) {
    *r = *x;
    return;
  }
  const int64_t *e = abstract_elements(k, x, from, 0);
  int64_t *out = e ? dense_result(k, op->out[0], r) : NULL;
  for (int64_t i = 0, n = type_numel(t); out && i < n; i++)
    out[i] = (bits ? scalar_bitcast(from->dtype, t->dtype, (Scalar){.i = e[i]})
                   : scalar_convert(from->dtype, t->dtype, 0, (Scalar){.i = e[i]}))
                 .i;
  if (r->form == FORM_DENSE && !t->rank) *r = (AbstractValue){.form = FORM_AFFINE, .arg = -1, .base = out[0]};
}

static void add_pointer(AbstractState *k, const Op *op, AbstractValue *r) {
  const Type *t = op->out[0]->type;
  const AbstractValue *p = abstract_of(k, op->in[0]), *o = abstract_of(k, op->in[1]);
  live_meet(r, p, t), live_meet(r, o, t);
  r->arg = p->arg;
  int64_t bytes = t->ptr > 1 ? 8 : dtype_bytes(t->dtype);
  if (p->form == FORM_AFFINE && o->form == FORM_AFFINE) {
    bool over = __builtin_mul_overflow(o->base, bytes, &r->base) || __builtin_add_overflow(r->base, p->base, &r->base);
    for (int d = 0; d < t->rank; d++)
      over |= __builtin_mul_overflow(o->step[d], bytes, &r->step[d]) ||
              __builtin_add_overflow(r->step[d], p->step[d], &r->step[d]);
    r->form = FORM_AFFINE;
    if (!over && affine_fits(r, t)) return;
    r->form = FORM_UNKNOWN;
  }
  const int64_t *a = abstract_elements(k, p, op->in[0]->type, 0),
                *b = a ? abstract_elements(k, o, op->in[1]->type, 1) : NULL;
  int64_t *out = b ? dense_result(k, op->out[0], r) : NULL;
  for (int64_t i = 0, n = type_numel(t); out && i < n; i++)
    out[i] = (int64_t)((uint64_t)a[i] + (uint64_t)b[i] * (uint64_t)bytes);
}

static void choose(AbstractState *k, const Op *op, AbstractValue *r) {
  const Type *t = op->out[0]->type;
  const AbstractValue *c = abstract_of(k, op->in[0]), *x = abstract_of(k, op->in[1]), *y = abstract_of(k, op->in[2]);
  int64_t n = type_numel(t), inside = -1, value;
  for (int i = 0; i < 3; i++) live_meet(r, abstract_of(k, op->in[i]), t);
  r->arg = x->arg == y->arg ? x->arg : -1;
  if (c->form == FORM_BOX) inside = range_volume(c->box, t);
  else if (abstract_scalar(c, op->in[0]->type, &value)) inside = value ? n : 0;
  if (inside == n || inside == 0) {
    Range live[MAX_RANK];
    memcpy(live, r->live, sizeof live);
    abstract_set(k, op->out[0], inside ? x : y);
    *r = *abstract_of(k, op->out[0]);
    memcpy(r->live, live, sizeof live);
    return;
  }
  if ((!is_int(t) && !t->ptr) || (t->ptr && r->arg < 0)) return;
  const int64_t *m = abstract_elements(k, c, op->in[0]->type, 0), *a = m ? abstract_elements(k, x, t, 1) : NULL,
                *b = a ? abstract_elements(k, y, t, 2) : NULL;
  int64_t *out = b ? dense_result(k, op->out[0], r) : NULL;
  for (int64_t i = 0; out && i < n; i++) out[i] = m[i] ? a[i] : b[i];
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Result dim d is operand dim from[d], or (-1) one in which the operand does not vary. */
static void move_dims(AbstractState *k, const Op *op, AbstractValue *r, const int *from) {
  const Type *t = op->out[0]->type, *u = op->in[0]->type;
  const AbstractValue *x = abstract_of(k, op->in[0]);
  *r = *x;
  for (int d = 0; d < t->rank; d++) {
    Range whole = {0, t->shape[d]};
    bool same = from[d] >= 0 && u->shape[from[d]] == t->shape[d];
    bool empty = from[d] >= 0 && !same && x->box[from[d]].hi <= x->box[from[d]].lo;
    r->step[d] = same ? x->step[from[d]] : 0;
    r->box[d] = same ? x->box[from[d]] : empty ? (Range){0, 0} : whole;
    r->live[d] = same ? x->live[from[d]] : whole;
  }
  if (x->form == FORM_BOX && !range_volume(x->box, u)) r->box[0] = (Range){0, 0};
  if (x->form != FORM_DENSE) return;
  r->form = FORM_UNKNOWN;
  int64_t *out = dense_result(k, op->out[0], r), stride[MAX_RANK], s = 1, by[MAX_RANK];
  for (int d = u->rank - 1; d >= 0; d--) stride[d] = s, s *= u->shape[d];
  for (int d = 0; d < t->rank; d++) by[d] = from[d] >= 0 && u->shape[from[d]] == t->shape[d] ? stride[from[d]] : 0;
  int32_t at[MAX_RANK] = {0};
  for (int64_t i = 0, n = type_numel(t); out && i < n; i++) {
    int64_t j = 0;
    for (int d = 0; d < t->rank; d++) j += by[d] * at[d];
    out[i] = x->dense[j];
    for (int d = t->rank - 1; d >= 0 && ++at[d] == t->shape[d]; d--) at[d] = 0;
  }
}

static void splat(AbstractState *k, const Op *op, AbstractValue *r) {
  const AbstractValue *x = abstract_of(k, op->in[0]);
  int64_t v;
  int arg = x->arg;
  if (abstract_scalar(x, op->in[0]->type, &v)) *r = abstract_int(op->out[0]->type, v);
  r->arg = arg;
}

static void reshape(AbstractState *k, const Op *op, AbstractValue *r) {
  const Type *t = op->out[0]->type, *u = op->in[0]->type;
  const AbstractValue *x = abstract_of(k, op->in[0]);
  int from[MAX_RANK], at = 0;
  bool ones = !op->reorder;
  for (int d = 0; d < t->rank && ones; d++) { /* dims of one element come and go */
    while (at < u->rank && u->shape[at] == 1 && t->shape[d] != 1) at++;
    if (at < u->rank && u->shape[at] == t->shape[d]) from[d] = at++;
    else if (t->shape[d] == 1) from[d] = -1;
    else ones = false;
  }
  while (ones && at < u->rank && u->shape[at] == 1) at++;
  r->arg = x->arg;
  int64_t v;
  if (abstract_scalar(x, u, &v) && !(t->dtype == DT_I1 && t->rank)) { /* all elements alike */
    *r = abstract_int(t, v);
    r->arg = x->arg;
  } else if (ones && at == u->rank && t->rank && u->rank) {
    move_dims(k, op, r, from);
  } else if (!op->reorder) {
    const int64_t *e = abstract_elements(k, x, u, 0);
    int64_t *out = e ? dense_result(k, op->out[0], r) : NULL;
    if (out) memcpy(out, e, sizeof *e * (size_t)type_numel(t));
    if (out && !t->rank) *r = (AbstractValue){.form = FORM_AFFINE, .arg = x->arg, .base = out[0]};
  }
}

/* ---- reductions and scans ---------------------------------------------------------------------------------------- */

/* The body of a reduction on numbers; false where it does more than arithmetic on them. */
static bool apply_body(AbstractState *k, const Block *b, int n, const int64_t *left, const int64_t *right,
                       int64_t *out) {
  for (int i = 0; i < n; i++) {
    *abstract_of(k, b->args[i]) = abstract_int(b->args[i]->type, left[i]);
    *abstract_of(k, b->args[n + i]) = abstract_int(b->args[n + i]->type, right[i]);
  }
  for (const Op *op = b->first; op != b->last; op = op->next) {
    if (op->body[0]) return false;
    abstract_op(k, op);
    k->steps++;
  }
  for (int i = 0; i < n; i++)
    if (!abstract_scalar(abstract_of(k, b->last->in[i]), b->last->in[i]->type, &out[i])) return false;
  return true;
}

/* The operands, copied: the body uses the scratch memory. */
static bool gather_lines(AbstractState *k, const Op *op) {
  for (int i = 0; i < op->in_count; i++) {
    const Type *t = op->in[i]->type;
    const int64_t *e = is_int(t) ? abstract_elements(k, abstract_of(k, op->in[i]), t, 0) : NULL;
    if (!e) return false;
    memcpy(room_for(k, &k->lines[i], DENSE_MOST), e, sizeof *e * (size_t)type_numel(t));
  }
  return true;
}

/* Along the axis one after the other: integers and associative bodies give the same in any order. What live elements
 * the results have is there already. */
static void along_axis(AbstractState *k, const Op *op) {
  const Type *t = op->in[0]->type;
  int n = op->in_count, axis = (int)op->axis;
  bool scans = op->code == OP_SCAN, needed = false;
  for (int i = 0; i < n; i++) needed |= k->needed[op->out[i]->id];
  if (!needed || n > 3 || type_numel(t) > DENSE_MOST || !gather_lines(k, op)) return;
  int64_t length = t->shape[axis], inner = 1, *out[3];
  for (int d = axis + 1; d < t->rank; d++) inner *= t->shape[d];
  for (int i = 0; i < n; i++) out[i] = room_for(k, &k->room[op->out[i]->id], type_numel(op->out[i]->type));
  for (int64_t line = 0, lines = type_numel(t) / length; line < lines; line++) {
    int64_t first = line / inner * length * inner + line % inner, so_far[3], next[3];
    for (int64_t j = 0; j < length; j++) {
      int64_t at = first + (scans && op->reverse ? length - 1 - j : j) * inner;
      for (int i = 0; i < n; i++) next[i] = k->lines[i][at];
      if (!j) memcpy(so_far, next, sizeof so_far);
      else if (k->steps > k->budget || !apply_body(k, op->body[0], n, so_far, next, so_far)) return;
      for (int i = 0; i < n && scans; i++) out[i][at] = so_far[i];
    }
    for (int i = 0; i < n && !scans; i++) out[i][line] = so_far[i];
  }
  for (int i = 0; i < n; i++) {
    AbstractValue *r = abstract_of(k, op->out[i]);
    r->form = FORM_DENSE, r->dense = out[i];
    if (!op->out[i]->type->rank) *r = (AbstractValue){.form = FORM_AFFINE, .arg = -1, .base = out[i][0]};
  }
}

static void reduce_live(AbstractState *k, const Op *op) {
  for (int i = 0; i < op->out_count; i++) {
    AbstractValue r = abstract_unknown(op->out[i]->type), *x = abstract_of(k, op->in[i]);
    for (int d = 0, to = 0; d < op->in[i]->type->rank; d++)
      if (d != op->axis) r.live[to++] = x->live[d];
    *abstract_of(k, op->out[i]) = r;
  }
}

void abstract_op(AbstractState *k, const Op *op) {
  if (!op->out_count) return;
  if (op->code == OP_REDUCE) {
    reduce_live(k, op);
    along_axis(k, op);
    return;
  }
  if (op->code == OP_SCAN) {
    for (int i = 0; i < op->out_count; i++) {
      *abstract_of(k, op->out[i]) = abstract_unknown(op->out[i]->type);
      live_meet(abstract_of(k, op->out[i]), abstract_of(k, op->in[i]), op->out[i]->type);
    }
    along_axis(k, op);
    return;
  }
  for (int i = 1; i < op->out_count; i++) *abstract_of(k, op->out[i]) = abstract_unknown(op->out[i]->type);
  const Type *t = op->out[0]->type;
  AbstractValue r = abstract_unknown(t);
  int from[MAX_RANK];
  k->skips_elements = !k->needed[op->out[0]->id];
  switch (op->code) {
    case OP_CONST:
      if (is_int(t)) r = abstract_int(t, op->value);
      break;
    case OP_PROGRAM_ID: r = abstract_int(t, k->program[op->axis]); break;
    case OP_NUM_PROGRAMS: r = abstract_int(t, k->grid[op->axis]); break;
    case OP_ARANGE: r.form = FORM_AFFINE, r.base = op->start, r.step[0] = 1; break;
    case OP_SPLAT: splat(k, op, &r); break;
    case OP_BROADCAST:
      for (int d = 0; d < t->rank; d++) from[d] = d;
      move_dims(k, op, &r, from);
      break;
    case OP_EXPAND_DIMS:
      if (!op->in[0]->type->rank) {
        splat(k, op, &r);
        break;
      }
      for (int d = 0; d < t->rank; d++) from[d] = d < op->axis ? d : d == op->axis ? -1 : d - 1;
      move_dims(k, op, &r, from);
      break;
    case OP_TRANS:
      for (int d = 0; d < t->rank; d++) from[d] = (int)op->dims[d];
      move_dims(k, op, &r, from);
      break;
    case OP_RESHAPE: reshape(k, op, &r); break;
    case OP_HINT:
    case OP_CONVERT_LAYOUT:
      abstract_set(k, op->out[0], abstract_of(k, op->in[0]));
      k->skips_elements = false;
      return;
    case OP_CONVERT:
    case OP_BITCAST: convert(k, op, &r); break;
    case OP_ADDPTR: add_pointer(k, op, &r); break;
    case OP_SELECT: choose(k, op, &r); break;
    case OP_DOT: {
      const AbstractValue *a = abstract_of(k, op->in[0]), *b = abstract_of(k, op->in[1]);
      int n = t->rank;
      r.live[n - 2] = a->live[n - 2], r.live[n - 1] = b->live[n - 1];
      if (n == 3) r.live[0] = a->live[0];
      break;
    }
    default:
      if (op_is_elementwise(op)) elementwise(k, op, &r);
  }
  k->skips_elements = false;
  *abstract_of(k, op->out[0]) = r;
}
