/* cost: counts what a launch asks of the machine (cost.h), by walking its programs over the known values of
 * analysis/abstract.h.
 *
 * The counters of a walk are one flat row of numbers: the kinds of operations, some of them by type, then the bytes
 * loaded and stored through each argument, and through none. Rows are added over the programs of a grid, compared to
 * see which programs count alike, and of the two sides of an undecided `if` the lesser of each number is taken. Beside
 * them stands, per argument, the span of addresses touched.
 */
#include "tile/analysis/cost.h"

#include <math.h>

#include "tile/analysis/abstract.h"
#include "tile/analysis/provenance.h"

enum { STEPS = 6000000, SOME_ITERATIONS = 4, MANY = 64 };
enum { TYPED = COST_KINDS, DOTS = TYPED + 3 * COST_TYPES, BYTES = DOTS + DOT_TYPES }; /* where in a row what begins */

typedef struct Touched {
  int64_t low, high;
  bool any, unknown;
} Touched;

typedef struct Walk {
  AbstractState k;
  TileCost *out;
  const Provenance *provenance;
  int args, width;     /* of the Func; numbers of a row */
  int64_t *row;        /* of the program that is walked */
  int64_t times;       /* how often what is walked now counts: in the body of a reduction once a pair */
  int undecided;       /* how many branches that data decides are around what is walked now */
  Touched *touched[2]; /* loads, stores; per argument */
  int64_t walked;
} Walk;

const char *cost_note_text(CostNote note) {
  static const char *const text[COST_NOTES] = {
      [COST_NOTE_MASK] = "a mask that data decides: counted for all its elements",
      [COST_NOTE_BRANCH] = "a branch that data decides: at least its lesser side is counted",
      [COST_NOTE_LOOP] = "a loop whose end data decides: at least its certain iterations are counted",
      [COST_NOTE_ADDRESS] = "addresses that data decides: all that is asked for counts as distinct",
      [COST_NOTE_ASM] = "inline assembly: not counted",
      [COST_NOTE_SAMPLED] = "some programs were counted for those between them",
      [COST_NOTE_LONG] = "a long loop's later iterations were counted as the last one walked",
  };
  return note < COST_NOTES ? text[note] : "";
}

static void remark(Walk *w, CostNote n, const Op *op) {
  if (w->out->noted[n]) return;
  w->out->noted[n] = true;
  w->out->place[n] = op ? op->span : NULL;
}

/* to + a * b; what takes centuries (three loops of 2^31 iterations around each other) stays at some 10^17, so that sums
 * of it fit as well. */
static int64_t plus_times(int64_t to, int64_t a, int64_t b) {
  const int64_t most = INT64_MAX / 64;
  int64_t v;
  return __builtin_mul_overflow(a, b, &v) || __builtin_add_overflow(to, v, &v) || v > most ? most : v;
}

static void count(Walk *w, int at, int64_t n) { w->row[at] = plus_times(w->row[at], n, w->times); }
static void count_arithmetic(Walk *w, CostKind kind, Dtype t, int64_t n) {
  CostType type = t == DT_F64 ? COST_F64 : t == DT_F16 ? COST_F16 : t == DT_BF16 ? COST_BF16 : COST_F32;
  count(w, kind, n);
  if (kind <= COST_FMA) count(w, TYPED + 3 * (int)type + (int)kind, n);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static int64_t *accessed(Walk *w, int which, int arg) {
  return &w->row[BYTES + which * (w->args + 1) + (arg < 0 ? w->args : arg)];
}

static void touch(Touched *t, int64_t low, int64_t high) {
  if (!t->any || low < t->low) t->low = low;
  if (!t->any || high > t->high) t->high = high;
  t->any = true;
}

/* One access of ptr where mask holds (NULL: everywhere), of so many bytes an element. Returns for how many elements,
 * and in *inside the box they lie in. */
static int64_t elements_of(Walk *w, const Op *op, const Value *mask, Range *inside) {
  const Type *t = op->in[0]->type;
  AbstractValue whole = abstract_unknown(t);
  memcpy(inside, whole.live, sizeof whole.live);
  if (!mask) return type_numel(t);
  const AbstractValue *m = abstract_of(&w->k, mask);
  int64_t value;
  if (m->form == FORM_BOX) memcpy(inside, m->box, sizeof m->box);
  else if (!t->rank && abstract_scalar(m, mask->type, &value)) return value != 0;
  else if (m->form == FORM_DENSE) {
    int64_t n = 0;
    for (int64_t i = 0; i < type_numel(t); i++) n += m->dense[i] != 0;
    return n;
  } else remark(w, COST_NOTE_MASK, op);
  return range_volume(inside, t);
}

/* Of an access: whose address its pointer counts from in this program, or the only one it can be; else -1. */
static int argument_of(Walk *w, const Op *op) {
  const AbstractValue *p = abstract_of(&w->k, op->in[0]);
  return p->form != FORM_UNKNOWN ? p->arg : provenance_argument(w->provenance, op->in[0]);
}

/* The elements from `low` to those that end at `high` are accessed, counted in bytes from the argument. */
static void check_bounds(Walk *w, const Op *op, int arg, const AbstractValue *mask, int64_t low, int64_t high,
                         int64_t bytes) {
  CostFault *f = &w->out->fault;
  int64_t size = w->k.contents[arg].bytes;
  bool certain = !w->undecided && (!mask || mask->form != FORM_UNKNOWN), outside = low < 0 || high > size;
  if (f->op || !certain || size <= 0 || !outside) return;
  *f = (CostFault){.op = op, .arg = arg, .at = low < 0 ? low : high - bytes, .bytes = bytes};
  memcpy(f->program, w->k.program, sizeof f->program);
}

static void touch_access(Walk *w, const Op *op, int which, const Value *mask, const Range *inside, int64_t bytes) {
  const AbstractValue *p = abstract_of(&w->k, op->in[0]);
  const Type *t = op->in[0]->type;
  int arg = argument_of(w, op);
  if (arg < 0) {
    remark(w, COST_NOTE_ADDRESS, op);
    return;
  }
  Touched *to = &w->touched[which][arg];
  const AbstractValue *m = mask ? abstract_of(&w->k, mask) : NULL;
  bool dense = p->form == FORM_DENSE || (m && m->form == FORM_DENSE);
  const int64_t *at = dense ? abstract_elements(&w->k, p, t, 0) : NULL,
                *on = at && m ? abstract_elements(&w->k, m, mask->type, 1) : NULL;
  for (int64_t i = 0; at && i < type_numel(t); i++) {
    if (on && !on[i]) continue;
    touch(to, at[i], at[i] + bytes);
    check_bounds(w, op, arg, m, at[i], at[i] + bytes, bytes);
  }
  if (at) return;
  if (p->form != FORM_AFFINE) {
    to->unknown = true;
    remark(w, COST_NOTE_ADDRESS, op);
    return;
  }
  int64_t low = p->base, high = p->base + bytes;
  for (int d = 0; d < t->rank; d++) {
    int64_t first = p->step[d] * inside[d].lo, last = p->step[d] * (inside[d].hi - 1);
    low += first < last ? first : last;
    high += first < last ? last : first;
  }
  touch(to, low, high);
  check_bounds(w, op, arg, m, low, high, bytes);
}

static void access(Walk *w, const Op *op, bool loads, bool stores, const Value *mask, Range *inside) {
  const Type *t = op->in[0]->type;
  int64_t bytes = t->ptr > 1 ? 8 : dtype_bytes(t->dtype), n = elements_of(w, op, mask, inside);
  if (!n) return;
  for (int which = 0; which < 2; which++) {
    if (!(which ? stores : loads)) continue;
    int64_t *sum = accessed(w, which, argument_of(w, op));
    *sum = plus_times(*sum, n * bytes, w->times);
    touch_access(w, op, which, mask, inside, bytes);
  }
}

static void walk_memory(Walk *w, const Op *op) {
  bool load = op->code == OP_LOAD, store = op->code == OP_STORE;
  const Value *mask = op_mask(op);
  Range inside[MAX_RANK];
  access(w, op, !store, !load, mask, inside);
  const Type *t = op->in[0]->type;
  if (!load && !store) {
    count(w, COST_ATOMIC, range_volume(inside, t));
    bool adds = op->code == OP_ATOMIC_RMW && op->kind == RMW_ADD && dtype_is_float(op->in[1]->type->dtype);
    if (adds) count(w, COST_ADD, range_volume(inside, t));
  }
  if (!op->out_count) return;
  AbstractValue r = abstract_unknown(op->out[0]->type);
  const AbstractValue *p = abstract_of(&w->k, op->in[0]);
  for (int d = 0; d < t->rank; d++) {
    r.live[d] = (Range){inside[d].lo > p->live[d].lo ? inside[d].lo : p->live[d].lo,
                        inside[d].hi < p->live[d].hi ? inside[d].hi : p->live[d].hi};
    if (r.live[d].hi < r.live[d].lo) r.live[d].hi = r.live[d].lo;
  }
  if (load) abstract_load(&w->k, op, &r);
  *abstract_of(&w->k, op->out[0]) = r;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* What a function of math.def counts as; COST_KINDS: nothing. */
static CostKind math_kind(const Op *op) {
  if (!dtype_is_float(op->out[0]->type->dtype) || !dtype_is_float(op->in[0]->type->dtype)) return COST_INTEGER;
  switch ((MathFn)op->fn) {
    case MATH_ABS:
    case MATH_FLOOR:
    case MATH_CEIL:
    case MATH_TRUNC:
    case MATH_RINT:
    case MATH_NEARBYINT:
    case MATH_ROUND:
    case MATH_SATURATEF:
    case MATH_COPYSIGN:
    case MATH_NEXTAFTER:
    case MATH_FDIM:
    case MATH_LDEXP:
    case MATH_SCALBN:
    case MATH_LOGB:
    case MATH_DOUBLE2FLOAT_RN:
    case MATH_DOUBLE2FLOAT_RZ:
    case MATH_DOUBLE2FLOAT_RD:
    case MATH_DOUBLE2FLOAT_RU: return COST_COMPARE;
    case MATH_FMA:
    case MATH_FMA_RN:
    case MATH_FMA_RZ:
    case MATH_FMA_RD:
    case MATH_FMA_RU: return COST_FMA;
    case MATH_ADD_RN:
    case MATH_ADD_RZ:
    case MATH_ADD_RD:
    case MATH_ADD_RU:
    case MATH_SUB_RN:
    case MATH_SUB_RZ:
    case MATH_SUB_RD:
    case MATH_SUB_RU: return COST_ADD;
    case MATH_MUL_RN:
    case MATH_MUL_RZ:
    case MATH_MUL_RD:
    case MATH_MUL_RU: return COST_MUL;
    case MATH_DIV_RN:
    case MATH_DIV_RZ:
    case MATH_DIV_RD:
    case MATH_DIV_RU:
    case MATH_RCP_RN:
    case MATH_RCP_RZ:
    case MATH_RCP_RD:
    case MATH_RCP_RU:
    case MATH_RCP64H:
    case MATH_FAST_DIVIDEF:
    case MATH_FMOD:
    case MATH_REMAINDER: return COST_DIV;
    default: return COST_TRANSCENDENTAL;
  }
}

static CostKind kind_of(const Op *op) {
  const Type *t = op->in_count ? op->in[0]->type : NULL;
  bool number = t && !t->ptr && dtype_is_float(t->dtype);
  switch (op->code) {
    case OP_ADDPTR: return COST_INTEGER;
    case OP_MATH: return math_kind(op);
    case OP_ADD:
    case OP_SUB: return number ? COST_ADD : COST_INTEGER;
    case OP_MUL: return number ? COST_MUL : COST_INTEGER;
    case OP_DIV:
    case OP_REM: return number ? COST_DIV : COST_INTEGER;
    case OP_FMA: return number ? COST_FMA : COST_INTEGER;
    case OP_MIN:
    case OP_MAX:
    case OP_NEG:
    case OP_ABS:
    case OP_CMP: return number ? COST_COMPARE : COST_INTEGER;
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_SHL:
    case OP_SHR:
    case OP_MULHI:
    case OP_NOT: return COST_INTEGER;
    default: return COST_KINDS;
  }
}

static void walk_block(Walk *w, const Block *b);

static void walk_dot(Walk *w, const Op *op) {
  const Type *t = op->in[0]->type;
  const Range *a = abstract_of(&w->k, op->in[0])->live, *b = abstract_of(&w->k, op->in[1])->live;
  int r = t->rank;
  int64_t n = range_volume(abstract_of(&w->k, op->out[0])->live, op->out[0]->type);
  Range k = {a[r - 1].lo > b[r - 2].lo ? a[r - 1].lo : b[r - 2].lo,
             a[r - 1].hi < b[r - 2].hi ? a[r - 1].hi : b[r - 2].hi};
  int64_t products = k.hi > k.lo ? n * (k.hi - k.lo) : 0;
  Dtype d = t->dtype;
  DotType type = d == DT_F64                       ? DOT_F64
                 : d == DT_F16                     ? DOT_F16
                 : d == DT_BF16                    ? DOT_BF16
                 : dtype_is_fp8(d)                 ? DOT_F8
                 : dtype_is_int(d)                 ? DOT_I8
                 : op->precision == PRECISION_IEEE ? DOT_F32
                                                   : DOT_TF32;
  count(w, COST_DOT, products);
  count(w, DOTS + (int)type, products);
}

/* The body of a reduce, scan or map, for `times` elements or pairs. */
static void walk_body(Walk *w, const Op *op, int64_t times) {
  const Block *b = op->body[0];
  int64_t before = w->times;
  for (int i = 0; i < b->arg_count; i++) *abstract_of(&w->k, b->args[i]) = abstract_unknown(b->args[i]->type);
  w->times *= times;
  if (times > 0) walk_block(w, b);
  w->times = before;
}

static void walk_axis(Walk *w, const Op *op) {
  const Type *t = op->in[0]->type;
  const Range *live = abstract_of(&w->k, op->in[0])->live;
  int64_t n = range_volume(live, t), along = live[op->axis].hi - live[op->axis].lo;
  abstract_op(&w->k, op);
  walk_body(w, op, n ? n - n / along : 0);
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

static void set_all(Walk *w, Value *const *values, int n, Value *const *from) {
  for (int i = 0; i < n; i++) {
    const AbstractValue *x = abstract_of(&w->k, from[i]);
    abstract_set(&w->k, values[i], x);
  }
}

/* What a loop's body hands on becomes its arguments: all at once, for it may exchange them. A number that is loaded
 * over and over keeps as live what any iteration loaded. */
static void carry(Walk *w, Value *const *values, int n, Value *const *from) {
  AbstractValue next[n + 1];
  for (int i = 0; i < n; i++) {
    next[i] = *abstract_of(&w->k, from[i]);
    bool moves = next[i].form == FORM_DENSE && !from[i]->def && from[i] != values[i];
    if (moves) next[i].form = FORM_UNKNOWN;
    const AbstractValue *before = abstract_of(&w->k, values[i]);
    for (int d = 0; d < values[i]->type->rank; d++) {
      if (before->live[d].lo < next[i].live[d].lo) next[i].live[d].lo = before->live[d].lo;
      if (before->live[d].hi > next[i].live[d].hi) next[i].live[d].hi = before->live[d].hi;
    }
  }
  for (int i = 0; i < n; i++) abstract_set(&w->k, values[i], &next[i]);
}

static void forget(Walk *w, Value *const *values, int n) {
  for (int i = 0; i < n; i++) *abstract_of(&w->k, values[i]) = abstract_unknown(values[i]->type);
}

static void forget_addresses(Walk *w) {
  for (int i = 0; i < w->args; i++) w->touched[0][i].unknown = w->touched[1][i].unknown = true;
}

static void walk_for(Walk *w, const Op *op) {
  const Block *b = op->body[0];
  int n = op->in_count - 3;
  Value **carried = b->args + 1;
  int64_t low, high, step;
  bool known = abstract_scalar(abstract_of(&w->k, op->in[0]), op->in[0]->type, &low) &&
               abstract_scalar(abstract_of(&w->k, op->in[1]), op->in[1]->type, &high) &&
               abstract_scalar(abstract_of(&w->k, op->in[2]), op->in[2]->type, &step) && step != 0;
  set_all(w, carried, n, op->in + 3);
  if (!known) {
    remark(w, COST_NOTE_LOOP, op);
    set_all(w, op->out, n, carried);
    forget(w, op->out, n);
    return;
  }
  int64_t before[w->width],
      iterations = step > 0 ? (high > low ? (high - low + step - 1) / step : 0)
                            : (low > high ? (low - high - step - 1) / -step : 0),
      t = 0;
  for (; t < iterations && (w->k.steps < w->k.budget || t < SOME_ITERATIONS); t++) {
    AbstractValue iv = abstract_int(b->args[0]->type, low + t * step);
    abstract_set(&w->k, b->args[0], &iv);
    memcpy(before, w->row, sizeof *before * (size_t)w->width);
    walk_block(w, b);
    carry(w, carried, n, b->last->in);
  }
  set_all(w, op->out, n, carried);
  if (t == iterations) return;
  for (int i = 0; i < w->width; i++) w->row[i] = plus_times(w->row[i], w->row[i] - before[i], iterations - t);
  remark(w, COST_NOTE_LONG, op);
  forget(w, op->out, n);
  forget_addresses(w);
}

static void walk_while(Walk *w, const Op *op) {
  const Block *head = op->body[0], *b = op->body[1];
  int n = op->in_count;
  int64_t go = 0;
  bool known;
  set_all(w, head->args, n, op->in);
  for (;;) {
    walk_block(w, head);
    known = abstract_scalar(abstract_of(&w->k, head->last->in[0]), head->last->in[0]->type, &go);
    set_all(w, op->out, op->out_count, head->last->in + 1);
    if (known && !go) return;
    if (!known || w->k.steps >= w->k.budget) break;
    set_all(w, b->args, b->arg_count, head->last->in + 1);
    walk_block(w, b);
    carry(w, head->args, n, b->last->in);
  }
  remark(w, COST_NOTE_LOOP, op);
  forget(w, op->out, op->out_count);
  if (known) forget_addresses(w); /* it went on for too long */
}

static void walk_if(Walk *w, const Op *op) {
  int64_t c;
  if (abstract_scalar(abstract_of(&w->k, op->in[0]), op->in[0]->type, &c)) {
    const Block *b = op->body[c ? 0 : 1];
    if (!b) return;
    walk_block(w, b);
    set_all(w, op->out, op->out_count, b->last->in);
    return;
  }
  int64_t start[w->width], first[w->width];
  size_t bytes = sizeof start;
  memcpy(start, w->row, bytes);
  w->undecided++;
  walk_block(w, op->body[0]);
  memcpy(first, w->row, bytes);
  memcpy(w->row, start, bytes);
  if (op->body[1]) walk_block(w, op->body[1]);
  w->undecided--;
  if (memcmp(first, w->row, bytes)) remark(w, COST_NOTE_BRANCH, op);
  for (int i = 0; i < w->width; i++)
    if (first[i] < w->row[i]) w->row[i] = first[i];
  for (int i = 0; i < op->out_count; i++) *abstract_of(&w->k, op->out[i]) = abstract_unknown(op->out[i]->type);
}

static void walk_op(Walk *w, const Op *op) {
  w->k.steps++;
  switch (op->code) {
    case OP_LOAD:
    case OP_STORE:
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: walk_memory(w, op); return;
    case OP_FOR: walk_for(w, op); return;
    case OP_WHILE: walk_while(w, op); return;
    case OP_IF: walk_if(w, op); return;
    case OP_REDUCE:
    case OP_SCAN: walk_axis(w, op); return;
    case OP_MAP:
      abstract_op(&w->k, op);
      walk_body(w, op, type_numel(op->in[0]->type) / (op->pack > 0 ? op->pack : 1));
      return;
    case OP_ASM: remark(w, COST_NOTE_ASM, op); break;
    default: break;
  }
  abstract_op(&w->k, op);
  if (op->code == OP_DOT) walk_dot(w, op);
  CostKind kind = kind_of(op);
  if (kind != COST_KINDS && op->out_count)
    count_arithmetic(w, kind, op->out[0]->type->dtype,
                     range_volume(abstract_of(&w->k, op->out[0])->live, op->out[0]->type));
}

static void walk_block(Walk *w, const Block *b) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next)
    if (op_info[op->code].effect != EFFECT_TERMINATOR) walk_op(w, op);
}

/* ---- the programs of a grid -------------------------------------------------------------------------------------- */

static void walk_program(Walk *w, const int32_t at[3], int64_t *row) {
  memcpy(w->k.program, at, sizeof w->k.program);
  memset(row, 0, sizeof *row * (size_t)w->width);
  w->row = row;
  w->times = 1;
  walk_block(w, w->k.f->body);
  w->walked++;
}

static void add_rows(const Walk *w, int64_t *to, const int64_t *row, int64_t times) {
  for (int i = 0; i < w->width; i++) to[i] = plus_times(to[i], row[i], times);
}

/* The sum over all programs whose ids along the axes above `axis` stand in `at`. */
static void walk_axis_of_grid(Walk *w, int axis, int32_t at[3], int64_t *sum, bool all);

static void walk_at(Walk *w, int axis, int32_t at[3], int32_t i, int64_t *row, bool all) {
  at[axis] = i;
  if (axis) walk_axis_of_grid(w, axis - 1, at, row, all);
  else walk_program(w, at, row);
}

/* Adds the programs strictly between lo and hi, whose rows are given. */
static void walk_between(Walk *w, int axis, int32_t at[3], int32_t lo, const int64_t *low, int32_t hi,
                         const int64_t *high, int64_t *sum) {
  int64_t between = (int64_t)hi - lo - 1;
  if (between <= 0) return;
  int64_t row[w->width];
  size_t bytes = sizeof row;
  int32_t middle = lo + (hi - lo) / 2;
  walk_at(w, axis, at, middle, row, false);
  bool alike = !memcmp(low, row, bytes) && !memcmp(high, row, bytes);
  if (alike || w->k.steps > w->k.budget) {
    if (between > 1) remark(w, COST_NOTE_SAMPLED, NULL);
    for (int i = 0; i < w->width; i++) /* a straight line through the three */
      if (alike || between == 1) sum[i] = plus_times(sum[i], row[i], between);
      else
        sum[i] = plus_times(sum[i], 1,
                            (int64_t)fmin(((double)low[i] + high[i] + 2 * (double)row[i]) / 4 * (double)between, 1e17));
    return;
  }
  add_rows(w, sum, row, 1);
  walk_between(w, axis, at, lo, low, middle, row, sum);
  walk_between(w, axis, at, middle, row, hi, high, sum);
}

static void walk_axis_of_grid(Walk *w, int axis, int32_t at[3], int64_t *sum, bool all) {
  int32_t n = w->k.grid[axis];
  memset(sum, 0, sizeof *sum * (size_t)w->width);
  int64_t low[w->width], high[w->width];
  if (all) {
    for (int32_t i = 0; i < n; i++) {
      walk_at(w, axis, at, i, low, true);
      add_rows(w, sum, low, 1);
    }
    return;
  }
  walk_at(w, axis, at, 0, low, false);
  add_rows(w, sum, low, 1);
  if (n == 1) return;
  walk_at(w, axis, at, n - 1, high, false);
  add_rows(w, sum, high, 1);
  walk_between(w, axis, at, 0, low, n - 1, high, sum);
}

/* Where data decide that are known, programs may be unlike those around them: some from all over the grid stand for
 * all. Multiples of the golden ratio spread evenly, and do not keep step with the grid's axes. */
static void walk_some(Walk *w, int64_t n, int64_t *sum) {
  const int32_t *grid = w->k.grid;
  int64_t programs = w->out->programs, row[w->width];
  memset(sum, 0, sizeof *sum * (size_t)w->width);
  for (int64_t i = 0; i < n; i++) {
    int64_t p = (int64_t)(((unsigned __int128)((uint64_t)i * 0x9E3779B97F4A7C15u) * (uint64_t)programs) >> 64);
    walk_program(
        w, (int32_t[3]){(int32_t)(p % grid[0]), (int32_t)(p / grid[0] % grid[1]), (int32_t)(p / grid[0] / grid[1])},
        row);
    add_rows(w, sum, row, 1);
  }
  for (int i = 0; i < w->width; i++) sum[i] = (int64_t)fmin((double)sum[i] / (double)n * (double)programs, 1e17);
  remark(w, COST_NOTE_SAMPLED, NULL);
}

/* ---- what addresses, masks and control depend on ----------------------------------------------------------------- */

static void need(bool *needed, const Value *v) {
  stack_guard();
  if (needed[v->id]) return;
  needed[v->id] = true;
  const Op *def = v->def, *parent = v->block ? v->block->parent : NULL;
  int i = v->index;
  bool along_axis = def && (def->code == OP_REDUCE || def->code == OP_SCAN);
  if (along_axis) {
    for (int k = 0; k < def->in_count && dtype_is_int(v->type->dtype); k++) need(needed, def->in[k]);
  } else if (def && def->code == OP_FOR) {
    need(needed, def->in[3 + i]), need(needed, def->body[0]->last->in[i]);
  } else if (def && def->code == OP_IF) {
    for (int b = 0; b < 2; b++)
      if (def->body[b]) need(needed, def->body[b]->last->in[i]);
  } else if (def && def->code == OP_WHILE) {
    need(needed, def->body[0]->last->in[1 + i]);
  } else if (def && (def->code == OP_LOAD ||
                     (op_info[def->code].effect == EFFECT_PURE && !def->body[0] && def->code != OP_DOT))) {
    for (int k = 0; k < def->in_count; k++) need(needed, def->in[k]);
  } else if (parent && parent->code == OP_FOR && i > 0) {
    need(needed, parent->in[2 + i]), need(needed, parent->body[0]->last->in[i - 1]);
  } else if (parent && parent->code == OP_WHILE) {
    if (v->block == parent->body[1]) need(needed, parent->body[0]->last->in[1 + i]);
    else need(needed, parent->in[i]), need(needed, parent->body[1]->last->in[i]);
  }
}

static void need_operands(Op *op, void *needed) {
  int count = op_is_access(op);
  switch (op->code) {
    case OP_IF:
    case OP_CONDITION: count = 1; break;
    case OP_FOR: count = 3; break;
    default: break;
  }
  for (int i = 0; i < count; i++) need(needed, op->in[i]);
  if (op_mask(op)) need(needed, op_mask(op));
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void begin(Walk *w, const uint64_t *args) {
  Func *f = w->k.f;
  for (int i = 0; i < w->args; i++) {
    const Value *v = f->body->args[i];
    AbstractValue x = abstract_unknown(v->type);
    if (v->type->ptr) x.form = FORM_AFFINE, x.arg = i;
    else if (dtype_is_int(v->type->dtype)) x = abstract_int(v->type, int_wrap(v->type->dtype, (int64_t)args[i]));
    *abstract_of(&w->k, v) = x;
  }
}

static void finish(Walk *w, const int64_t *sum) {
  TileCost *c = w->out;
  memcpy(c->count, sum, sizeof c->count);
  memcpy(c->typed, sum + TYPED, sizeof c->typed);
  memcpy(c->dots, sum + DOTS, sizeof c->dots);
  for (int which = 0; which < 2; which++) {
    CostAccess *each = which ? c->stores : c->loads, *total = which ? &c->store : &c->load;
    for (int i = 0; i <= w->args; i++) {
      int64_t bytes = sum[BYTES + which * (w->args + 1) + i], distinct = bytes;
      if (i < w->args) {
        const Touched *t = &w->touched[which][i];
        if (t->any && !t->unknown && t->high - t->low < distinct) distinct = t->high - t->low;
        each[i] = (CostAccess){bytes, distinct};
      }
      total->bytes += bytes, total->distinct += distinct;
    }
  }
  c->walked = w->walked;
}

void tile_host_arrays(const Func *f, const uint64_t *args, HostArray *contents) {
  Arena *a = f->cx->arena;
  int n = f->body->arg_count;
  bool *read = NEW_N(a, bool, n + 1), *written = NEW_N(a, bool, n + 1), *changed = NEW_N(a, bool, n + 1);
  tile_mod_ref(f, provenance_create(a, f), read, written);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      uint64_t size_i = (uint64_t)contents[i].bytes, size_k = (uint64_t)contents[k].bytes;
      bool meets = i == k || args[k] - args[i] < size_i || args[i] - args[k] < size_k;
      changed[i] |= written[k] && f->body->args[k]->type->ptr && meets;
    }
  for (int i = 0; i < n; i++)
    if (changed[i]) contents[i].at = NULL;
}

TileCost *tile_cost(Func *f, const uint64_t *args, const HostArray *contents, const int32_t grid[3]) {
  Arena *a = f->cx->arena;
  int n = f->body->arg_count;
  Walk w = {.args = n, .width = BYTES + 2 * (n + 1), .out = NEW(a, TileCost), .provenance = provenance_create(a, f)};
  w.k.f = f;
  w.k.of = NEW_N(a, AbstractValue, f->value_count + 1);
  bool *needed = NEW_N(a, bool, f->value_count + 1);
  tile_walk(f->body, need_operands, needed);
  w.k.needed = needed;
  w.k.contents = contents ? contents : NEW_N(a, HostArray, n + 1);
  w.k.room = NEW_N(a, int64_t *, f->value_count + 1);
  memcpy(w.k.grid, grid, sizeof w.k.grid);
  w.touched[0] = NEW_N(a, Touched, n + 1), w.touched[1] = NEW_N(a, Touched, n + 1);
  w.out->loads = NEW_N(a, CostAccess, n + 1), w.out->stores = NEW_N(a, CostAccess, n + 1);
  w.out->programs = (int64_t)grid[0] * grid[1] * grid[2];
  int64_t *sum = NEW_N(a, int64_t, w.width);
  if (w.out->programs) {
    begin(&w, args);
    w.k.budget = STEPS;
    int32_t at[3] = {grid[0] - 1, grid[1] - 1, grid[2] - 1};
    walk_program(&w, (int32_t[3]){0}, sum);
    int64_t most = w.k.steps;
    walk_program(&w, at, sum); /* a triangular loop is longer at the end */
    most = w.k.steps - most > most ? w.k.steps - most : most;
    bool all = w.out->programs <= MANY || most <= STEPS / w.out->programs;
    if (all) w.k.budget = 4 * (int64_t)STEPS;
    w.k.steps = 0, w.walked = 0;
    memset(w.out->noted, 0, sizeof w.out->noted);
    memset(w.touched[0], 0, sizeof(Touched) * (size_t)n), memset(w.touched[1], 0, sizeof(Touched) * (size_t)n);
    if (all || !w.k.has_read) walk_axis_of_grid(&w, 2, at, sum, all);
    else walk_some(&w, STEPS / most > MANY ? STEPS / most : MANY, sum);
  }
  finish(&w, sum);
  return w.out;
}
