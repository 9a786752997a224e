/* Making, moving and removing operations.
 *
 * An operation knows its operands; a value does not know its users. A value that another takes the place of is
 * therefore told its replacement (value_replace), and one walk over the function (tile_replace_uses) rewrites every
 * operand. Until then a pass that looks at an operand follows `forward` itself.
 *
 * The shorthands infer result types and trust their operands; what they build wrongly the verifier reports.
 */
#include "tile/tile.h"

/* ---- functions, blocks, values ----------------------------------------------------------------------------------- */

Func *func_create(Context *cx, const char *name) {
  Func *f = NEW(cx->arena, Func);
  f->holds = FUNC_NO_LAYOUTS;
  f->cx = cx;
  f->name = intern_z(cx, name);
  f->num_warps = 4;
  f->num_stages = 3;
  f->num_ctas = 1;
  f->body = block_create(f, NULL);
  return f;
}

Value *value_create(Func *f, const Type *type, int index) {
  Value *v = NEW(f->cx->arena, Value);
  v->type = type;
  v->index = index;
  v->id = f->value_count++;
  return v;
}

Block *block_create(Func *f, Op *parent) {
  Block *b = NEW(f->cx->arena, Block);
  b->parent = parent;
  if (parent)
    for (int i = 0; i < op_info[parent->code].regions; i++)
      if (!parent->body[i]) {
        parent->body[i] = b;
        break;
      }
  return b;
}

int block_uses(const Block *b, const Value *v) {
  stack_guard();
  int n = 0;
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->in_count; i++) n += op->in[i] == v;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) n += block_uses(op->body[i], v);
  }
  return n;
}

Value *block_add_arg(Func *f, Block *b, const Type *type, const char *name) {
  /* Room for 4, 8, 16 ... arguments: a full array has a count that is a power of two. */
  if (b->arg_count == 0 || (b->arg_count >= 4 && (b->arg_count & (b->arg_count - 1)) == 0)) {
    Value **grown = NEW_N(f->cx->arena, Value *, b->arg_count ? 2 * b->arg_count : 4);
    if (b->arg_count) memcpy(grown, b->args, sizeof *grown * (size_t)b->arg_count);
    b->args = grown;
  }
  Value *v = value_create(f, type, b->arg_count);
  v->block = b;
  v->name = name;
  b->args[b->arg_count++] = v;
  return v;
}

Value *func_add_arg(Func *f, const Type *type, const char *name, int64_t divisible) {
  int n = f->body->arg_count;
  int64_t *grown = NEW_N(f->cx->arena, int64_t, n + 1);
  if (n) memcpy(grown, f->arg_divisible, sizeof *grown * (size_t)n);
  grown[n] = divisible < 1 ? 1 : divisible;
  f->arg_divisible = grown;
  return block_add_arg(f, f->body, type, name);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void insert(Builder *b, Op *op) {
  Block *block = b->block;
  op->block = block;
  op->next = b->before;
  op->prev = b->before ? b->before->prev : block->last;
  if (op->prev) op->prev->next = op;
  else block->first = op;
  if (op->next) op->next->prev = op;
  else block->last = op;
}

Op *build_op(Builder *b, OpCode code, int in_count, Value *const *in, int out_count, const Type *const *out_types) {
  Arena *arena = b->func->cx->arena;
  context_step(b->func->cx, 1);
  /* One piece of memory for the operation and its two lists. */
  Op *op = arena_alloc(arena, sizeof *op + sizeof(Value *) * (size_t)(in_count + out_count));
  op->code = code;
  op->span = b->span;
  op->in_count = in_count;
  op->out_count = out_count;
  op->in = (Value **)(op + 1);
  op->out = op->in + in_count;
  if (in_count) memcpy(op->in, in, sizeof *in * (size_t)in_count);
  for (int i = 0; i < out_count; i++) {
    op->out[i] = value_create(b->func, out_types[i], i);
    op->out[i]->def = op;
  }
  insert(b, op);
  return op;
}

static Value *build_one(Builder *b, OpCode code, int n, Value *const *in, const Type *type) {
  return build_op(b, code, n, in, 1, &type)->out[0];
}

Value *build_int(Builder *b, const Type *t, int64_t v) {
  Value *out = build_one(b, OP_CONST, 0, NULL, t);
  if (!t->ptr && dtype_is_float(t->dtype)) {
    char memory[8] = {0};
    dtype_store_int(t->dtype, memory, v);
    out->def->number = dtype_load_float(t->dtype, memory);
  } else {
    out->def->value = t->ptr ? v : int_wrap(t->dtype, v);
  }
  return out;
}

Value *build_float(Builder *b, const Type *t, double v) {
  Value *out = build_one(b, OP_CONST, 0, NULL, t);
  char memory[8] = {0};
  dtype_store_float(t->dtype, memory, v); /* rounds, or truncates for an integer type */
  if (dtype_is_float(t->dtype)) out->def->number = dtype_load_float(t->dtype, memory);
  else out->def->value = dtype_load_int(t->dtype, memory);
  return out;
}

Value *build_unary(Builder *b, OpCode code, Value *x) { return build_one(b, code, 1, &x, x->type); }

Value *build_binary(Builder *b, OpCode code, Value *x, Value *y) {
  return build_one(b, code, 2, (Value *[]){x, y}, x->type);
}

Value *build_cmp(Builder *b, CmpPred p, Value *x, Value *y) {
  Value *v = build_one(b, OP_CMP, 2, (Value *[]){x, y}, type_with_dtype(b->func->cx, x->type, DT_I1));
  v->def->pred = p;
  return v;
}

Value *build_select(Builder *b, Value *c, Value *x, Value *y) {
  return build_one(b, OP_SELECT, 3, (Value *[]){c, x, y}, x->type);
}

bool math_signature(MathFn fn, int n, const Dtype *in, Dtype *out) {
  for (const char *s = math_info[fn].sig; *s;) {
    bool fits = true;
    int count = 0;
    char name[16];
    for (;; s++) { /* one "a,b:c" */
      size_t length = strcspn(s, ",: ");
      if (length >= sizeof name) return false; /* no such type; the table's own mistake */
      memcpy(name, s, length);
      name[length] = 0;
      s += length;
      Dtype d;
      if (!dtype_parse(name, &d)) return false;
      if (*s == ',' || *s == ':') {
        fits = fits && count < n && in[count] == d;
        count++;
        continue;
      }
      if (fits && count == n) return *out = d, true;
      break;
    }
    s += *s == ' ';
  }
  return false;
}

Value *build_math(Builder *b, MathFn fn, int n, Value *const *in) {
  Dtype types[4], out = n ? in[0]->type->dtype : DT_F32; /* a call that no row allows is the verifier's to report */
  for (int i = 0; i < n && i < 4; i++) types[i] = in[i]->type->dtype;
  if (n <= 4) math_signature(fn, n, types, &out);
  Value *v = build_one(b, OP_MATH, n, in, type_with_dtype(b->func->cx, in[0]->type, out));
  v->def->fn = fn;
  return v;
}

Value *build_convert(Builder *b, Value *x, Dtype to) {
  if (!x->type->ptr && x->type->dtype == to) return x;
  return build_one(b, OP_CONVERT, 1, &x, type_with_dtype(b->func->cx, x->type, to));
}

Value *build_bitcast(Builder *b, Value *x, const Type *to_elem) {
  const Type *type = type_with_elem(b->func->cx, x->type, to_elem);
  return type == x->type ? x : build_one(b, OP_BITCAST, 1, &x, type);
}

Value *build_addptr(Builder *b, Value *ptr, Value *offset) {
  return build_one(b, OP_ADDPTR, 2, (Value *[]){ptr, offset}, ptr->type);
}

Value *build_splat(Builder *b, Value *scalar, int rank, const int32_t *shape) {
  if (rank == 0) return scalar;
  return build_one(b, OP_SPLAT, 1, &scalar, type_tensor(b->func->cx, scalar->type, rank, shape));
}

Value *build_broadcast(Builder *b, Value *x, int rank, const int32_t *shape) {
  const Type *type = type_tensor(b->func->cx, x->type, rank, shape);
  return type == x->type ? x : build_one(b, OP_BROADCAST, 1, &x, type);
}

Value *build_expand_dims(Builder *b, Value *x, int axis) {
  int32_t shape[MAX_RANK];
  int rank = x->type->rank;
  if (rank >= MAX_RANK) {
    Span none = {0};
    diag_fail(b->func->cx, b->span ? *b->span : none, "a tensor may have at most %d dimensions", MAX_RANK);
  }
  for (int d = 0; d < rank; d++) shape[d + (d >= axis)] = x->type->shape[d];
  shape[axis] = 1;
  Value *v = build_one(b, OP_EXPAND_DIMS, 1, &x, type_tensor(b->func->cx, x->type, rank + 1, shape));
  v->def->axis = axis;
  return v;
}

Value *build_reshape(Builder *b, Value *x, int rank, const int32_t *shape) {
  const Type *type = type_tensor(b->func->cx, x->type, rank, shape);
  return type == x->type ? x : build_one(b, OP_RESHAPE, 1, &x, type);
}

Value *build_trans(Builder *b, Value *x, const int64_t *perm) {
  int32_t shape[MAX_RANK];
  int rank = x->type->rank;
  for (int d = 0; d < rank; d++) shape[d] = x->type->shape[perm[d]];
  Value *v = build_one(b, OP_TRANS, 1, &x, type_tensor(b->func->cx, x->type, rank, shape));
  v->def->dims = arena_copy(b->func->cx->arena, perm, sizeof *perm * (size_t)rank);
  v->def->dim_count = rank;
  return v;
}

Value *build_load(Builder *b, Value *ptr, Value *mask, Value *other) {
  Value *in[3] = {ptr, mask, other};
  return build_one(b, OP_LOAD, mask ? (other ? 3 : 2) : 1, in, type_pointee(b->func->cx, ptr->type));
}

Op *build_store(Builder *b, Value *ptr, Value *value, Value *mask) {
  Value *in[3] = {ptr, value, mask};
  return build_op(b, OP_STORE, mask ? 3 : 2, in, 0, NULL);
}

Value *build_dot(Builder *b, Value *a, Value *x, Value *acc, DotPrecision precision) {
  Value *v = build_one(b, OP_DOT, 3, (Value *[]){a, x, acc}, acc->type);
  v->def->precision = precision;
  return v;
}

Value *build_arange(Builder *b, int64_t start, int64_t end) {
  Context *cx = b->func->cx;
  int32_t length = (int32_t)(end - start);
  Value *v = build_one(b, OP_ARANGE, 0, NULL, type_tensor(cx, type_number(cx, DT_I32), 1, &length));
  v->def->start = start;
  v->def->end = end;
  return v;
}

void build_yield(Builder *b, int n, Value *const *values) { build_op(b, OP_YIELD, n, values, 0, NULL); }

/* ---- looking, removing, replacing, copying ----------------------------------------------------------------------- */

bool value_is_zero(const Value *v) {
  while (v->def && op_is_view(v->def)) v = v->def->in[0];
  const Op *op = v->def;
  if (!op || op->code != OP_CONST || v->type->ptr) return false;
  return dtype_is_float(v->type->dtype) ? op->number == 0 && !__builtin_signbit(op->number) : op->value == 0;
}

bool value_is_const(const Value *v, int64_t *out) {
  stack_guard();
  while (v->replacement) v = v->replacement;
  if (!v->def || v->type->ptr || !dtype_is_int(v->type->dtype)) return false;
  if (v->def->code == OP_SPLAT) return value_is_const(v->def->in[0], out);
  if (v->def->code != OP_CONST) return false;
  *out = v->def->value;
  return true;
}

void op_remove(Op *op) {
  if (!op->block) return;
  if (op->prev) op->prev->next = op->next;
  else op->block->first = op->next;
  if (op->next) op->next->prev = op->prev;
  else op->block->last = op->prev;
  op->prev = op->next = NULL;
  op->block = NULL;
}

void op_move_before(Op *op, Op *place) {
  op_remove(op);
  insert(&(Builder){.block = place->block, .before = place}, op);
}

Value *value_replacement(Value *v) {
  Value *end = v;
  while (end->replacement) end = end->replacement;
  while (v->replacement && v->replacement != end) { /* shorten the way for the next one who asks */
    Value *next = v->replacement;
    v->replacement = end;
    v = next;
  }
  return end;
}

void value_replace(Value *old, Value *new_value) {
  new_value = value_replacement(new_value);
  if (old != new_value) old->replacement = new_value;
}

static void replace_operands(Op *op, void *arg) {
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->replacement) op->in[i] = value_replacement(op->in[i]);
}

void tile_replace_uses(Func *f) { tile_walk(f->body, replace_operands, NULL); }

static void clone_block(Func *f, Block *to, const Block *from, Map *value_map) {
  stack_guard();
  Builder inside = {.func = f, .block = to};
  for (int i = 0; i < from->arg_count; i++)
    map_put(value_map, from->args[i], block_add_arg(f, to, from->args[i]->type, from->args[i]->name));
  for (const Op *op = from->first; op; op = op->next) {
    inside.span = op->span;
    op_clone(&inside, op, value_map);
  }
}

Op *op_clone(Builder *b, const Op *op, Map *value_map) {
  Arena *arena = b->func->cx->arena;
  const Type *few[8], **types = op->out_count <= 8 ? few : NEW_N(arena, const Type *, op->out_count);
  for (int i = 0; i < op->out_count; i++) types[i] = op->out[i]->type;
  Op *copy = build_op(b, op->code, op->in_count, op->in, op->out_count, types);
  for (int i = 0; i < op->in_count; i++) {
    Value *old = value_replacement(op->in[i]), *mapped = map_get(value_map, old);
    copy->in[i] = mapped ? mapped : old;
  }
  memcpy(copy->attr, op->attr, sizeof copy->attr);
  copy->number = op->number;
  copy->text = op->text;
  copy->dims = op->dims;
  copy->dim_count = op->dim_count;
  copy->span = op->span;
  for (int i = 0; i < op->out_count; i++) {
    copy->out[i]->name = op->out[i]->name;
    map_put(value_map, op->out[i], copy->out[i]);
  }
  for (int i = 0; i < 2; i++)
    if (op->body[i]) {
      copy->body[i] = block_create(b->func, NULL);
      copy->body[i]->parent = copy;
      clone_block(b->func, copy->body[i], op->body[i], value_map);
    }
  return copy;
}

void tile_walk(Block *b, void (*fn)(Op *op, void *arg), void *arg) {
  stack_guard();
  for (Op *op = b->first, *next; op; op = next) {
    next = op->next;
    fn(op, arg);
    if (!op->block) continue; /* removed */
    next = op->next;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) tile_walk(op->body[i], fn, arg);
  }
}
