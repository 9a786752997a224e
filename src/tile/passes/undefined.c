/* Reports what Triton leaves undefined where it is used; for the interpreter, with `debug`.
 *
 * Next to each value that may hold an undefined element the pass computes one number an element: 0, or which operation
 * made it undefined (an "origin", from 1). An undefined element may be computed with, chosen away by a select, or never
 * stored: masked-off lanes often divide by 0. It must not reach a store, an address, a mask, a branch or a loop's
 * bound; there stands an `assert {undefined=1}`, which faults with the origin's place.
 *
 *     %x = load %p, %m                    %x' = select %m, 0, 1
 *     %y = div %x, %n                     %y' = max(%x', select(%n == 0, 2, 0))
 *     store %q, %y, %m                    assert %y', %m {undefined=1, text="..."}    before it
 *
 * Origins: integer division by zero, a shift by the width or more, a float that its integer type does not hold, an
 * element that a mask switched off and that has no `other`. Loops carry the numbers of what they carry.
 */
#include "tile/tile.h"

typedef struct Tracker {
  Func *f;
  Builder b;
  Map *notes;  /* value -> its numbers; none: every element is defined */
  Buf origins; /* a line each */
  int origin_count;
  VEC(Op *) checks;
} Tracker;

static void track_block(Tracker *t, Block *block);

/* ---- numbers ---- */

static Value *note_of(Tracker *t, const Value *v) { return map_get(t->notes, v); }
static void set_note(Tracker *t, const Value *v, Value *note) {
  if (note) map_put(t->notes, v, note);
}

static const Type *note_type(Tracker *t, const Type *like) { return type_with_dtype(t->f->cx, like, DT_I32); }
static Value *zero_like(Tracker *t, const Type *like) { return build_int(&t->b, note_type(t, like), 0); }
static Value *note_or_zero(Tracker *t, const Value *v) {
  Value *note = note_of(t, v);
  return note ? note : zero_like(t, v->type);
}

static Value *greater(Tracker *t, Value *a, Value *b) {
  if (!a || !b) return a ? a : b;
  return build_binary(&t->b, OP_MAX, a, b);
}

static Value *where(Tracker *t, Value *bad, int origin) { /* bad: i1 */
  return build_select(&t->b, bad, build_int(&t->b, note_type(t, bad->type), origin), zero_like(t, bad->type));
}

static int origin(Tracker *t, const Op *op, const char *what) {
  buf_printf(&t->origins, "\n%s", what);
  if (op->span && op->span->source)
    buf_printf(&t->origins, ", %s:%d:%d", op->span->source->path, op->span->line, op->span->col + 1);
  return ++t->origin_count;
}

static void check(Tracker *t, const Value *v, Value *mask, const char *use) {
  Value *note = note_of(t, v);
  if (!note) return;
  Op *op = build_op(&t->b, OP_ASSERT, mask ? 2 : 1, (Value *[]){note, mask}, 0, NULL);
  op->undefined = 1;
  op->text = use;
  vec_push(t->f->cx->arena, &t->checks, op);
}

/* ---- origins ---- */

static bool is_in_range(const Value *v, int64_t low, int64_t high) {
  int64_t c;
  return value_is_const(v, &c) && c >= low && c < high;
}

static Value *by_zero(Tracker *t, const Op *op) {
  Value *y = op->in[1];
  int64_t c;
  if (value_is_const(y, &c) && c) return NULL;
  Value *bad = build_cmp(&t->b, CMP_EQ, y, build_int(&t->b, y->type, 0));
  return where(t, bad, origin(t, op, "a division by zero"));
}

static Value *too_far(Tracker *t, const Op *op) {
  Value *y = op->in[1];
  Dtype d = y->type->dtype;
  int bits = dtype_bits(d);
  if (bits == 1 || is_in_range(y, 0, bits)) return NULL;
  Value *bad = build_cmp(&t->b, CMP_GE, y, build_int(&t->b, y->type, bits));
  if (dtype_is_signed(d))
    bad = build_binary(&t->b, OP_OR, bad, build_cmp(&t->b, CMP_LT, y, build_int(&t->b, y->type, 0)));
  return where(t, bad, origin(t, op, "a shift by the width or more"));
}

static Value *too_large(Tracker *t, const Op *op) {
  Dtype to = op->out[0]->type->dtype;
  int bits = dtype_bits(to);
  if (bits == 1) return NULL;
  Value *x = build_convert(&t->b, op->in[0], DT_F64);
  bool sign = dtype_is_signed(to);
  double end = sign ? 0x1p63 : 0x1p64, least = sign ? -0x1p63 : 0;
  for (int i = bits; i < 64; i++) end /= 2, least /= 2;
  Value *low = build_float(&t->b, x->type, bits < 64 || !sign ? least - 1 : least);
  Value *fits = build_binary(&t->b, OP_AND, build_cmp(&t->b, bits < 64 || !sign ? CMP_GT : CMP_GE, x, low),
                             build_cmp(&t->b, CMP_LT, x, build_float(&t->b, x->type, end)));
  Value *bad = build_unary(&t->b, OP_NOT, fits);
  return where(t, bad, origin(t, op, "a float that the integer type does not hold"));
}

static Value *own_origin(Tracker *t, const Op *op) {
  const Type *x = op->in[0]->type, *to = op->out[0]->type;
  bool ints = !x->ptr && dtype_is_int(x->dtype) && x->dtype != DT_I1;
  switch (op->code) {
    case OP_DIV:
    case OP_REM: return ints ? by_zero(t, op) : NULL;
    case OP_SHL:
    case OP_SHR: return ints ? too_far(t, op) : NULL;
    case OP_CONVERT: return dtype_is_float(x->dtype) && dtype_is_int(to->dtype) ? too_large(t, op) : NULL;
    default: return NULL;
  }
}

static bool may_begin(const Block *block);
static bool begins(const Op *op) {
  switch (op->code) {
    case OP_DIV:
    case OP_REM:
    case OP_SHL:
    case OP_SHR: return dtype_is_int(op->out[0]->type->dtype);
    case OP_CONVERT: return dtype_is_float(op->in[0]->type->dtype) && dtype_is_int(op->out[0]->type->dtype);
    case OP_LOAD: return op->in_count == 2;
    case OP_ATOMIC_RMW: return op->in_count == 3;
    default: return (op->body[0] && may_begin(op->body[0])) || (op->body[1] && may_begin(op->body[1]));
  }
}
static bool may_begin(const Block *block) {
  stack_guard();
  for (const Op *op = block->first; op; op = op->next)
    if (begins(op)) return true;
  return false;
}

/* ---- operations ---- */

/* An element of a product or of an `and` is known where the other factor is 0 and defined. */
static Value *unless_zero(Tracker *t, const Op *op, Value *note) {
  for (int i = 0; i < 2 && note; i++) {
    Value *zero = build_cmp(&t->b, CMP_EQ, op->in[i], build_int(&t->b, op->in[i]->type, op->code == OP_OR));
    Value *own = note_of(t, op->in[i]);
    if (own) zero = build_binary(&t->b, OP_AND, zero, build_cmp(&t->b, CMP_EQ, own, zero_like(t, own->type)));
    note = build_select(&t->b, zero, zero_like(t, note->type), note);
  }
  return note;
}

static Value *of_elements(Tracker *t, const Op *op) {
  Value *note = NULL;
  if (op->code == OP_SELECT) {
    if (note_of(t, op->in[1]) || note_of(t, op->in[2]))
      note = build_select(&t->b, op->in[0], note_or_zero(t, op->in[1]), note_or_zero(t, op->in[2]));
    return greater(t, note, note_of(t, op->in[0]));
  }
  for (int i = 0; i < op->in_count; i++) note = greater(t, note, note_of(t, op->in[i]));
  const Type *type = op->out[0]->type;
  bool ints = !type->ptr && dtype_is_int(type->dtype);
  if (ints && (op->code == OP_AND || op->code == OP_MUL || (op->code == OP_OR && type->dtype == DT_I1)))
    note = unless_zero(t, op, note);
  return greater(t, note, own_origin(t, op));
}

/* The same change of shape for the numbers. */
static void of_shape(Tracker *t, const Op *op, int operands) {
  bool any = false;
  Value *in[2];
  const Type *types[2];
  for (int i = 0; i < operands; i++) any = any || note_of(t, op->in[i]);
  if (!any) return;
  for (int i = 0; i < operands; i++) in[i] = note_or_zero(t, op->in[i]);
  if (operands < op->in_count) in[1] = op->in[1]; /* gather's index */
  for (int i = 0; i < op->out_count; i++) types[i] = note_type(t, op->out[i]->type);
  Op *same = build_op(&t->b, op->code, op->in_count, in, op->out_count, types);
  memcpy(same->attr, op->attr, sizeof op->attr);
  same->dims = op->dims, same->dim_count = op->dim_count;
  for (int i = 0; i < op->out_count; i++) set_note(t, op->out[i], same->out[i]);
}

/* The greatest along an axis, or the running one. */
static Value *along(Tracker *t, OpCode code, Value *v, int axis, int64_t reverse) {
  Context *cx = t->f->cx;
  int32_t shape[MAX_RANK];
  for (int d = 0, n = 0; d < v->type->rank; d++)
    if (d != axis) shape[n++] = v->type->shape[d];
  const Type *elem = type_number(cx, DT_I32);
  const Type *type = code == OP_SCAN ? v->type : type_tensor(cx, elem, v->type->rank - 1, shape);
  Op *op = build_op(&t->b, code, 1, &v, 1, &type);
  op->axis = axis, op->reverse = reverse;
  Block *body = block_create(t->f, op);
  Value *a = block_add_arg(t->f, body, elem, NULL), *b = block_add_arg(t->f, body, elem, NULL);
  Builder inner = {.func = t->f, .block = body, .span = t->b.span};
  Value *most = build_binary(&inner, OP_MAX, a, b);
  build_yield(&inner, 1, &most);
  return op->out[0];
}

/* The greatest along an axis, for every element of it again. */
static Value *spread(Tracker *t, Value *v, int axis, const Type *like) {
  Value *most = build_expand_dims(&t->b, along(t, OP_REDUCE, v, axis, 0), axis);
  return build_broadcast(&t->b, most, like->rank, like->shape);
}

static Value *of_all(Tracker *t, const Op *op) {
  Value *note = NULL;
  for (int i = 0; i < op->in_count; i++) note = greater(t, note, note_of(t, op->in[i]));
  return note;
}

static void of_dot(Tracker *t, const Op *op) {
  const Type *to = op->out[0]->type;
  Value *a = note_of(t, op->in[0]), *b = note_of(t, op->in[1]), *note = note_of(t, op->in[2]);
  if (a) note = greater(t, note, spread(t, a, to->rank - 1, to));
  if (b) note = greater(t, note, spread(t, b, to->rank - 2, to));
  set_note(t, op->out[0], note);
}

static void of_tile(Tracker *t, const Op *op) {
  Value *note = of_all(t, op);
  const Type *type = op->in[0]->type;
  if (op->code == OP_DOT) {
    of_dot(t, op);
    return;
  }
  if (!note) return;
  if (op->code == OP_REDUCE || op->code == OP_SCAN) {
    note = along(t, op->code, note, (int)op->axis, op->reverse);
  } else if (op->code == OP_SORT) {
    note = spread(t, note, type->rank - 1, type);
  } else if (op->code == OP_HISTOGRAM) {
    Value *counted = op->in_count > 1 ? build_select(&t->b, op->in[1], note, zero_like(t, note->type)) : note;
    note = build_splat(&t->b, along(t, OP_REDUCE, counted, 0, 0), 1, op->out[0]->type->shape);
  } else if (op->pack > 1) { /* map: of all of a group */
    int32_t groups[] = {(int32_t)(type_numel(type) / op->pack), (int32_t)op->pack};
    Value *flat = build_reshape(&t->b, note, 2, groups);
    note = build_reshape(&t->b, spread(t, flat, 1, flat->type), type->rank, type->shape);
  }
  for (int i = 0; i < op->out_count; i++) set_note(t, op->out[i], note);
}

static void of_memory(Tracker *t, Op *op) {
  int at = op->code == OP_LOAD ? 1 : 2;
  Value *mask = op->in_count > at && op->code != OP_ATOMIC_CAS ? op->in[at] : NULL;
  t->b.before = op;
  if (mask) check(t, mask, NULL, "an undefined mask");
  check(t, op->in[0], mask, "an undefined address");
  if (op->code != OP_LOAD) check(t, op->in[1], mask, "an undefined value is stored");
  if (op->code == OP_ATOMIC_CAS) check(t, op->in[2], NULL, "an undefined value is stored");
  t->b.before = op->next;
  if (!mask || !op->out_count) return;
  Value *off = build_unary(&t->b, OP_NOT, mask), *note = NULL;
  if (op->code == OP_LOAD && op->in_count > 2) {
    Value *other = note_of(t, op->in[2]);
    if (other) note = build_select(&t->b, off, other, zero_like(t, other->type));
  } else {
    note = where(t, off, origin(t, op, "an element that the mask switches off, without `other`"));
  }
  set_note(t, op->out[0], note);
}

/* ---- control ---- */

static void append(Tracker *t, Value ***list, int *count, Value *v) {
  Value **longer = NEW_N(t->f->cx->arena, Value *, *count + 1);
  if (*count) memcpy(longer, *list, sizeof *longer * (size_t)*count);
  longer[(*count)++] = v;
  *list = longer;
}

static Value *add_result(Tracker *t, Op *op, const Type *type) {
  Value *v = value_create(t->f, type, op->out_count);
  v->def = op;
  append(t, &op->out, &op->out_count, v);
  return v;
}

/* A loop carries a number for each value that it carries, where anything in it or before it may be undefined. */
static void of_loop(Tracker *t, Op *op) {
  int skip = control_skip(op), n = op->in_count - skip, first = op->code == OP_FOR;
  bool any = false;
  for (int b = 0; b < op_info[op->code].regions; b++) any = any || may_begin(op->body[b]);
  for (int i = 0; i < n; i++) any = any || note_of(t, op->in[skip + i]);
  t->b.before = op;
  for (int i = 0; i < skip; i++) check(t, op->in[i], NULL, "an undefined bound of a loop");
  for (int i = 0; i < n && any; i++) {
    Value *init = note_or_zero(t, op->in[skip + i]);
    append(t, &op->in, &op->in_count, init);
    set_note(t, op->out[i], add_result(t, op, init->type));
    for (int b = 0; b < op_info[op->code].regions; b++)
      set_note(t, op->body[b]->args[first + i], block_add_arg(t->f, op->body[b], init->type, NULL));
  }
  for (int b = 0; b < op_info[op->code].regions; b++) {
    track_block(t, op->body[b]);
    Op *end = op->body[b]->last;
    int before = end->code == OP_CONDITION;
    t->b = (Builder){.func = t->f, .block = end->block, .before = end, .span = end->span ? end->span : op->span};
    if (before) check(t, end->in[0], NULL, "an undefined condition");
    for (int i = 0; i < n && any; i++) append(t, &end->in, &end->in_count, note_or_zero(t, end->in[before + i]));
  }
}

static void of_branch(Tracker *t, Op *op) {
  t->b.before = op;
  check(t, op->in[0], NULL, "an undefined condition");
  int n = op->out_count;
  for (int b = 0; b < 2; b++) track_block(t, op->body[b]);
  for (int i = 0; i < n; i++) {
    if (!note_of(t, op->body[0]->last->in[i]) && !note_of(t, op->body[1]->last->in[i])) continue;
    set_note(t, op->out[i], add_result(t, op, note_type(t, op->out[i]->type)));
    for (int b = 0; b < 2; b++) {
      Op *end = op->body[b]->last;
      t->b = (Builder){.func = t->f, .block = end->block, .before = end, .span = op->span};
      append(t, &end->in, &end->in_count, note_or_zero(t, end->in[i]));
    }
  }
}

static void track(Tracker *t, Op *op) {
  stack_guard();
  if (op_is_elementwise(op)) {
    set_note(t, op->out[0], of_elements(t, op));
    return;
  }
  switch (op->code) {
    case OP_SPLAT:
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_SPLIT: of_shape(t, op, 1); return;
    case OP_JOIN:
    case OP_CAT: of_shape(t, op, 2); return;
    case OP_GATHER:
      of_shape(t, op, 1);
      set_note(t, op->out[0], greater(t, note_of(t, op->out[0]), note_of(t, op->in[1])));
      return;
    case OP_HINT: set_note(t, op->out[0], note_of(t, op->in[0])); return;
    case OP_LOAD:
    case OP_STORE:
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: of_memory(t, op); return;
    case OP_DOT:
    case OP_REDUCE:
    case OP_SCAN:
    case OP_MAP:
    case OP_SORT:
    case OP_HISTOGRAM: of_tile(t, op); return;
    case OP_FOR:
    case OP_WHILE: of_loop(t, op); return;
    case OP_IF: of_branch(t, op); return;
    default: return;
  }
}

static void track_block(Tracker *t, Block *block) {
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next;
    t->b = (Builder){.func = t->f, .block = block, .before = next, .span = op->span};
    track(t, op);
  }
}

void tile_track_undefined(Func *f) {
  if (!may_begin(f->body)) return;
  Tracker t = {.f = f, .notes = map_create(f->cx->arena, false)};
  track_block(&t, f->body);
  const char *origins = arena_strdup(f->cx->arena, t.origins.at ? t.origins.at : "");
  bool failed = t.origins.failed;
  buf_destroy(&t.origins);
  if (failed) context_out_of_memory(f->cx);
  for (int i = 0; i < t.checks.n; i++)
    t.checks.at[i]->text = arena_printf(f->cx->arena, "%s: it comes from%s", t.checks.at[i]->text, origins);
}
