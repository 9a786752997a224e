/* Making operations: each is put into canonical form, folded, looked up, and only then made.
 *
 *     lane_2(b, LANE_ADD, LK_U32, c4, x)    canonical: add.s32 x, 4      (constants last; signs only where they matter)
 *                                           fold: x is (y + 3)?  add y, 7
 *                                           find: is there an `add.s32 y, 7` in this block or one around it?
 *
 * What was made is remembered in a hash table. Blocks nest like scopes: leaving one takes out what was entered in it
 * (LaneScope.marks), and whatever is found must in any case stand in a block that is open here. Only pure operations
 * without a guard are looked up.
 *
 * The shorthands trust their operands; what they build wrongly the verifier reports.
 */
#include "gpu/lane/table.h"
#include "gpu/lane/scope.h"

/* ---- functions and values ---------------------------------------------------------------------------------------- */

LaneFunc *lane_func_create(Context *cx, const char *name) {
  LaneFunc *f = NEW(cx->arena, LaneFunc);
  f->cx = cx;
  f->name = intern_z(cx, name);
  f->num_warps = 4;
  f->body = NEW(cx->arena, LaneBlock);
  return f;
}

LaneValue *lane_value_create(LaneFunc *f, LaneType type, int index) {
  LaneValue *v = NEW(f->cx->arena, LaneValue);
  v->type = type;
  v->id = f->value_count++;
  v->index = index;
  return v;
}

LaneValue *lane_func_param(LaneFunc *f, LaneType type, const Type *of, int64_t divisible) {
  Arena *arena = f->cx->arena;
  int n = f->param_count++;
  LaneValue **params = NEW_N(arena, LaneValue *, n + 1);
  const Type **types = NEW_N(arena, const Type *, n + 1);
  int64_t *divisibles = NEW_N(arena, int64_t, n + 1);
  if (n) {
    memcpy(params, f->params, sizeof *params * (size_t)n);
    memcpy(types, f->param_types, sizeof *types * (size_t)n);
    memcpy(divisibles, f->param_divisible, sizeof *divisibles * (size_t)n);
  }
  LaneValue *v = lane_value_create(f, type, n);
  v->block = f->body;
  params[n] = v;
  types[n] = of;
  divisibles[n] = divisible < 1 ? 1 : divisible;
  f->params = f->body->args = params;
  f->body->arg_count = n + 1;
  f->param_types = types;
  f->param_divisible = divisibles;
  return v;
}

int lane_buffer(LaneBuilder *b, const char *name, int bytes, int align) {
  LaneFunc *f = b->f;
  vec_push(f->cx->arena, &f->buffers, (LaneBuffer){intern_z(f->cx, name), bytes, align < 1 ? 1 : align, -1});
  return f->buffers.n - 1;
}

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

LaneBuilder lane_builder(LaneFunc *f) {
  LaneScope *scope = NEW(f->cx->arena, LaneScope);
  scope->mask = 1023;
  scope->buckets = NEW_N(f->cx->arena, LaneEntry *, scope->mask + 1);
  return (LaneBuilder){.f = f, .block = f->body, .scope = scope};
}

void lane_scope_push(LaneBuilder *b, const LaneOp *op) {
  LaneScope *s = b->scope;
  vec_push(b->f->cx->arena, &s->marks, (LaneMark){op, s->entries.n});
}

/* Out of the body of op, and of whatever was left open inside it. */
void lane_scope_pop(LaneBuilder *b, const LaneOp *op) {
  LaneScope *s = b->scope;
  int i = s->marks.n - 1;
  while (i >= 0 && s->marks.at[i].op != op) i--;
  if (i < 0) return; /* another builder's */
  while (s->entries.n > s->marks.at[i].first) {
    LaneEntry *e = s->entries.at[--s->entries.n];
    s->buckets[e->hash & s->mask] =
        e->next; /* the newest of its bucket, since entries go in the reverse of their order */
  }
  s->marks.n = i;
}

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9fb21c651e98df25ull;
  return h ^ h >> 29;
}

static uint64_t hash_op(const LaneOp *op, int n, LaneValue *const *in) {
  uint64_t h = mix((uint64_t)op->code << 16 | (uint64_t)op->kind << 8 | (uint64_t)op->to, (uint64_t)op->imm);
  h = mix(h, (uint64_t)op->pred | (uint64_t)op->special << 8 | (uint64_t)op->bit << 16 | (uint64_t)op->bits << 24 |
                 (uint64_t)op->rounding << 32 | (uint64_t)(uint16_t)op->buffer << 40);
  for (int i = 0; i < n; i++) h = mix(h, (uint64_t)in[i]->id);
  return h ^ h >> 32;
}

static bool is_open(const LaneBuilder *b, const LaneOp *op) {
  if (!op->block) return false;
  for (const LaneBlock *block = b->block; block; block = block->parent ? block->parent->block : NULL)
    if (block == op->block) return true;
  return false;
}

static LaneOp *find(const LaneBuilder *b, uint64_t hash, const LaneOp *proto, int n, LaneValue *const *in,
                    int out_count) {
  const LaneScope *s = b->scope;
  for (LaneEntry *e = s->buckets[hash & s->mask]; e; e = e->next) {
    LaneOp *op = e->op;
    if (e->hash != hash || op->code != proto->code || op->in_count != n || op->out_count != out_count) continue;
    if (!lane_same_attrs(op, proto) || (n && memcmp(op->in, in, sizeof *in * (size_t)n))) continue;
    if (op->text != proto->text && (!op->text || !proto->text || strcmp(op->text, proto->text))) continue;
    if (is_open(b, op)) return op;
  }
  return NULL;
}

static void grow(LaneBuilder *b) {
  LaneScope *s = b->scope;
  s->mask = s->mask * 4 + 3;
  s->buckets = NEW_N(b->f->cx->arena, LaneEntry *, s->mask + 1);
  for (int i = 0; i < s->entries.n; i++) { /* in their order, so that the newest of a bucket stays first */
    LaneEntry *e = s->entries.at[i];
    e->next = s->buckets[e->hash & s->mask];
    s->buckets[e->hash & s->mask] = e;
  }
}

static void remember(LaneBuilder *b, uint64_t hash, LaneOp *op) {
  LaneScope *s = b->scope;
  if ((uint64_t)s->entries.n > s->mask) grow(b);
  LaneEntry *e = NEW(b->f->cx->arena, LaneEntry);
  *e = (LaneEntry){op, hash, s->buckets[hash & s->mask]};
  s->buckets[hash & s->mask] = e;
  vec_push(b->f->cx->arena, &s->entries, e);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void append(LaneBlock *block, LaneOp *op) {
  op->block = block;
  op->prev = block->last;
  op->next = NULL;
  if (block->last) block->last->next = op;
  else block->first = op;
  block->last = op;
}

static bool has_buffer(const LaneOp *op) {
  return op->code == LANE_SHARED || op->code == LANE_SHARED_READ || op->code == LANE_CP_ASYNC ||
         op->code == LANE_TMEM_ALLOC || lane_is_mbar(op->code) || lane_is_tensor(op->code) ||
         (lane_is_access(op->code) && op->space == SPACE_SHARED);
}

LaneOp *lane_op_raw(LaneBuilder *b, LaneOp proto, int n, LaneValue *const *in, int out_count, const LaneType *out) {
  context_step(b->f->cx, 1);
  /* One piece of memory for the operation and its two lists. */
  LaneOp *op = arena_alloc(b->f->cx->arena, sizeof *op + sizeof(LaneValue *) * (size_t)(n + out_count));
  *op = proto;
  if (!has_buffer(op)) op->buffer = -1;
  op->span = proto.span ? proto.span : b->span;
  op->statement = proto.statement ? proto.statement : b->statement;
  op->in_count = n;
  op->out_count = out_count;
  op->in = (LaneValue **)(op + 1);
  op->out = op->in + n;
  op->body[0] = op->body[1] = NULL;
  op->note = NULL;
  if (n) memcpy(op->in, in, sizeof *in * (size_t)n);
  for (int i = 0; i < out_count; i++) {
    op->out[i] = lane_value_create(b->f, out[i], i);
    op->out[i]->def = op;
  }
  append(b->block, op);
  return op;
}

/* The operation as it is, found or made. */
static LaneOp *find_or_make(LaneBuilder *b, LaneOp *proto, int n, LaneValue *const *in, int out_count,
                            const LaneType *out) {
  if (!has_buffer(proto)) proto->buffer = -1;
  if (!lane_op_is_pure(proto)) return lane_op_raw(b, *proto, n, in, out_count, out);
  uint64_t hash = hash_op(proto, n, in);
  LaneOp *op = find(b, hash, proto, n, in, out_count);
  if (op) return op;
  op = lane_op_raw(b, *proto, n, in, out_count, out);
  remember(b, hash, op);
  return op;
}

static LaneKind signless(LaneKind k) {
  switch (lane_kind_info[k].type) {
    case LT_PRED: return LK_PRED;
    case LT_B16: return LK_B16;
    case LT_B32: return LK_B32;
    default: return LK_B64;
  }
}

/* One form for what means the same: signs and attributes only where they matter. */
static void canonical(LaneOp *op) {
  bool is_float = lane_kind_is_float(op->kind), wide = lane_kind_info[op->kind].bits == 64;
  switch (op->code) {
    case LANE_ADD:
    case LANE_SUB:
    case LANE_MUL:
    case LANE_FMA:
    case LANE_NEG:
      if (is_float) break;
      op->kind = wide ? LK_S64 : LK_S32;
      op->rounding = op->ftz = op->exact = 0;
      break;
    case LANE_AND:
    case LANE_OR:
    case LANE_XOR:
    case LANE_NOT:
    case LANE_SHL:
    case LANE_SELECT:
    case LANE_POPC:
    case LANE_CLZ:
    case LANE_BREV:
    case LANE_BFI:
    case LANE_MOVE: op->kind = signless(op->kind); break;
    case LANE_SHR:
      if (op->kind == LK_B32) op->kind = LK_U32;
      if (op->kind == LK_B64) op->kind = LK_U64;
      break;
    case LANE_MIN:
    case LANE_MAX:
      if (!is_float) op->nan = op->ftz = 0;
      break;
    case LANE_SETP:
      if (!is_float) op->unordered = op->ftz = 0;
      else if (op->pred == CMP_NE) op->unordered = 1;
      if (op->kind == LK_S8 || op->kind == LK_S16) op->kind = LK_S32; /* they are extended */
      if (op->kind == LK_U8 || op->kind == LK_U16 || op->kind == LK_B32) op->kind = LK_U32;
      if (op->kind == LK_B64) op->kind = LK_U64;
      if (op->pred == CMP_EQ || op->pred == CMP_NE) {
        if (op->kind == LK_U32) op->kind = LK_S32;
        if (op->kind == LK_U64) op->kind = LK_S64;
      }
      break;
    default: break;
  }
}

LaneValue *lane_op(LaneBuilder *b, LaneOp proto, int n, LaneValue *const *in) {
  LaneValue *sorted[4];
  canonical(&proto);
  if (n >= 2 && n <= 4 && lane_commutes(&proto)) {
    bool first_const = lane_is_const(in[0], NULL), second_const = lane_is_const(in[1], NULL);
    if (first_const != second_const ? first_const : in[0]->id > in[1]->id) {
      memcpy(sorted, in, sizeof *in * (size_t)n);
      sorted[0] = in[1];
      sorted[1] = in[0];
      in = sorted;
    }
  }
  if (lane_op_is_pure(&proto)) {
    LaneValue *simpler = lane_fold(b, &proto, n, in);
    if (simpler) return simpler;
  }
  LaneType type;
  if (!lane_result_type(&proto, &type))
    diag_fail(b->f->cx, b->span ? *b->span : (Span){0}, "lane operation '%s' has no single result",
              lane_info[proto.code].name);
  return find_or_make(b, &proto, n, in, 1, &type)->out[0];
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

LaneValue *lane_const(LaneBuilder *b, LaneType type, uint64_t bits) {
  LaneOp proto = {.code = LANE_CONST, .kind = lane_bits_kind(type), .imm = (int64_t)(bits & lane_type_mask(type))};
  return find_or_make(b, &proto, 0, NULL, 1, &type)->out[0];
}

LaneValue *lane_i32(LaneBuilder *b, int32_t v) { return lane_const(b, LT_B32, (uint32_t)v); }
LaneValue *lane_i64(LaneBuilder *b, int64_t v) { return lane_const(b, LT_B64, (uint64_t)v); }
LaneValue *lane_pred(LaneBuilder *b, bool v) { return lane_const(b, LT_PRED, v); }

LaneValue *lane_f32(LaneBuilder *b, float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return lane_const(b, LT_B32, bits);
}

LaneValue *lane_f64(LaneBuilder *b, double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return lane_const(b, LT_B64, bits);
}

/* ---- shorthands -------------------------------------------------------------------------------------------------- */

LaneValue *lane_special(LaneBuilder *b, LaneSpecial s) {
  return lane_op(b, (LaneOp){.code = LANE_SPECIAL, .kind = LK_B32, .special = (uint8_t)s}, 0, NULL);
}

LaneValue *lane_shared(LaneBuilder *b, int buffer) {
  return lane_op(b, (LaneOp){.code = LANE_SHARED, .kind = LK_B32, .buffer = (int16_t)buffer}, 0, NULL);
}

LaneValue *lane_1(LaneBuilder *b, LaneCode c, LaneKind k, LaneValue *x) {
  return lane_op(b, (LaneOp){.code = c, .kind = k}, 1, &x);
}

LaneValue *lane_2(LaneBuilder *b, LaneCode c, LaneKind k, LaneValue *x, LaneValue *y) {
  return lane_op(b, (LaneOp){.code = c, .kind = k}, 2, (LaneValue *[]){x, y});
}

LaneValue *lane_3(LaneBuilder *b, LaneCode c, LaneKind k, LaneValue *x, LaneValue *y, LaneValue *z) {
  return lane_op(b, (LaneOp){.code = c, .kind = k}, 3, (LaneValue *[]){x, y, z});
}

LaneValue *lane_setp(LaneBuilder *b, CmpPred p, LaneKind k, LaneValue *x, LaneValue *y) {
  return lane_op(b, (LaneOp){.code = LANE_SETP, .kind = k, .pred = (uint8_t)p}, 2, (LaneValue *[]){x, y});
}

LaneValue *lane_select(LaneBuilder *b, LaneValue *p, LaneValue *x, LaneValue *y) {
  return lane_op(b, (LaneOp){.code = LANE_SELECT, .kind = lane_bits_kind(x->type)}, 3, (LaneValue *[]){p, x, y});
}

LaneValue *lane_cvt(LaneBuilder *b, LaneKind from, LaneKind to, LaneRounding r, LaneValue *x) {
  return lane_op(b, (LaneOp){.code = LANE_CVT, .kind = from, .to = to, .rounding = (uint8_t)r}, 1, &x);
}

LaneValue *lane_pack(LaneBuilder *b, LaneValue *low, LaneValue *high) {
  LaneKind k = low->type == LT_B16 ? LK_B32 : LK_B64;
  return lane_op(b, (LaneOp){.code = LANE_PACK, .kind = k}, 2, (LaneValue *[]){low, high});
}

void lane_unpack(LaneBuilder *b, LaneValue *x, LaneValue **low, LaneValue **high) {
  LaneType half = x->type == LT_B64 ? LT_B32 : LT_B16;
  uint64_t bits;
  if (x->def && x->def->code == LANE_PACK) {
    *low = x->def->in[0];
    *high = x->def->in[1];
    return;
  }
  if (lane_is_const(x, &bits)) {
    *low = lane_const(b, half, bits);
    *high = lane_const(b, half, bits >> (half == LT_B32 ? 32 : 16));
    return;
  }
  LaneOp proto = {.code = LANE_UNPACK, .kind = x->type == LT_B64 ? LK_B64 : LK_B32};
  LaneOp *op = find_or_make(b, &proto, 1, &x, 2, (LaneType[]){half, half});
  *low = op->out[0];
  *high = op->out[1];
}

LaneValue *lane_bfe(LaneBuilder *b, LaneKind k, LaneValue *x, int bit, int bits) {
  return lane_op(b, (LaneOp){.code = LANE_BFE, .kind = k, .bit = (uint8_t)bit, .bits = (uint8_t)bits}, 1, &x);
}

LaneValue *lane_extend(LaneBuilder *b, LaneKind k, LaneValue *x) {
  switch (k) {
    case LK_S8: return lane_bfe(b, LK_S32, x, 0, 8);
    case LK_S16: return lane_bfe(b, LK_S32, x, 0, 16);
    case LK_U8: return lane_bfe(b, LK_U32, x, 0, 8);
    case LK_U16: return lane_bfe(b, LK_U32, x, 0, 16);
    default: return x;
  }
}

LaneValue *lane_shfl(LaneBuilder *b, LaneShuffle s, LaneValue *x, LaneValue *lane) {
  LaneValue *low, *high;
  switch (x->type) {
    case LT_PRED: {
      LaneValue *moved = lane_shfl(b, s, lane_select(b, x, lane_i32(b, 1), lane_i32(b, 0)), lane);
      return lane_setp(b, CMP_NE, LK_S32, moved, lane_i32(b, 0));
    }
    case LT_B16:
      lane_unpack(b, lane_shfl(b, s, lane_pack(b, x, lane_const(b, LT_B16, 0)), lane), &low, &high);
      return low;
    case LT_B64:
      lane_unpack(b, x, &low, &high);
      low = lane_shfl(b, s, low, lane);
      high = lane_shfl(b, s, high, lane);
      return lane_pack(b, low, high);
    default:
      return lane_op(b, (LaneOp){.code = LANE_SHFL, .kind = LK_B32, .shuffle = (uint8_t)s, .imm = 32}, 2,
                     (LaneValue *[]){x, lane});
  }
}

void lane_barrier(LaneBuilder *b, bool warp) {
  LaneOp proto = {.code = LANE_BARRIER, .kind = LK_NONE, .warp = warp};
  if (!warp && b->part_warps) proto.warps = (uint8_t)b->part_warps, proto.imm = b->part;
  lane_op_raw(b, proto, 0, NULL, 0, NULL);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The shared buffer whose address x is made of, or -1. */
static int buffer_of(const LaneValue *x, int depth) {
  stack_guard();
  const LaneOp *op = x->def;
  if (!op || depth == 0) return -1;
  if (op->code == LANE_SHARED) return op->buffer;
  if (op->code != LANE_ADD && op->code != LANE_FMA && op->code != LANE_OR && op->code != LANE_XOR &&
      op->code != LANE_SELECT)
    return -1;
  for (int i = op->in_count - 1; i >= 0; i--) {
    int found = buffer_of(op->in[i], depth - 1);
    if (found >= 0) return found;
  }
  return -1;
}

/* NULL for a guard that always holds. */
static LaneValue *real_guard(LaneValue *guard) {
  uint64_t bits;
  return guard && lane_is_const(guard, &bits) && bits ? NULL : guard;
}

/* The address without its constant part, which goes into *imm while that still has 32 bits. */
static LaneValue *split_address(LaneSpace space, LaneValue *address, int64_t *imm) {
  LaneValue *base;
  int64_t offset;
  lane_split_offset(space == SPACE_SHARED ? LK_S32 : LK_S64, address, &base, &offset);
  if (!base) return address;
  if (offset > INT32_MAX || offset < INT32_MIN || *imm + offset > INT32_MAX || *imm + offset < INT32_MIN)
    return address;
  *imm += offset;
  return base;
}

LaneOp *lane_load(LaneBuilder *b, LaneSpace space, LaneKind k, int vector, LaneValue *address, int64_t imm,
                  LaneValue *guard, LaneValue *const *other) {
  LaneValue *in[17];
  LaneType out[16], type = lane_kind_info[k].type;
  address = split_address(space, address, &imm);
  guard = real_guard(guard);
  if (vector > 16) vector = 16; /* the verifier says so */
  in[0] = address;
  for (int i = 0; i < vector; i++) {
    out[i] = type;
    if (guard) in[i + 1] = other ? other[i] : lane_const(b, type, 0);
  }
  LaneOp proto = {.code = LANE_LD, .kind = k, .space = (uint8_t)space, .imm = imm, .guard = guard, .buffer = -1};
  if (space == SPACE_SHARED) proto.buffer = (int16_t)buffer_of(address, 8);
  return lane_op_raw(b, proto, guard ? vector + 1 : 1, in, vector, out);
}

LaneOp *lane_store(LaneBuilder *b, LaneSpace space, LaneKind k, int vector, LaneValue *address, int64_t imm,
                   LaneValue *guard, LaneValue *const *values) {
  LaneValue *in[17];
  address = split_address(space, address, &imm);
  if (vector > 16) vector = 16;
  in[0] = address;
  memcpy(in + 1, values, sizeof *values * (size_t)vector);
  LaneOp proto = {
      .code = LANE_ST, .kind = k, .space = (uint8_t)space, .imm = imm, .guard = real_guard(guard), .buffer = -1};
  if (space == SPACE_SHARED) proto.buffer = (int16_t)buffer_of(address, 8);
  return lane_op_raw(b, proto, vector + 1, in, 0, NULL);
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------ */

void lane_ldmatrix(LaneBuilder *b, int n, bool trans, LaneValue *address, int64_t imm, int buffer, LaneValue **out) {
  static const LaneType words[] = {LT_B32, LT_B32, LT_B32, LT_B32};
  address = split_address(SPACE_SHARED, address, &imm);
  LaneOp proto = {.code = LANE_LDMATRIX,
                  .kind = LK_B32,
                  .space = SPACE_SHARED,
                  .trans = trans,
                  .imm = imm,
                  .buffer = (int16_t)buffer};
  LaneOp *op = lane_op_raw(b, proto, 1, &address, n, words);
  memcpy(out, op->out, sizeof *out * (size_t)n);
}

LaneOp *lane_stmatrix(LaneBuilder *b, int n, bool trans, LaneValue *address, int64_t imm, int buffer,
                      LaneValue *const *words, LaneValue *guard) {
  LaneValue *in[5] = {split_address(SPACE_SHARED, address, &imm)};
  for (int i = 0; i < n; i++) in[1 + i] = words[i];
  LaneOp proto = {.code = LANE_STMATRIX,
                  .kind = LK_B32,
                  .space = SPACE_SHARED,
                  .trans = trans,
                  .imm = imm,
                  .guard = real_guard(guard),
                  .buffer = (int16_t)buffer};
  return lane_op_raw(b, proto, 1 + n, in, 0, NULL);
}

void lane_mma(LaneBuilder *b, LaneKind k, bool mixed, LaneValue *const a[4], LaneValue *const x[2], LaneValue *acc[4]) {
  LaneType t = lane_kind_info[lane_mma_sum(k)].type, words[] = {t, t, t, t};
  LaneValue *in[] = {a[0], a[1], a[2], a[3], x[0], x[1], acc[0], acc[1], acc[2], acc[3]};
  LaneOp *op = lane_op_raw(b, (LaneOp){.code = LANE_MMA, .kind = k, .mixed = mixed}, 10, in, 4, words);
  memcpy(acc, op->out, sizeof *acc * 4);
}

/* ---- asynchronous products and copies ---------------------------------------------------------------------------- */

void lane_wgmma(LaneBuilder *b, LaneKind k, bool mixed, bool a_registers, LaneValue *const *a, LaneValue *x,
                uint64_t high, bool trans_a, bool trans_b, int n, LaneValue *const *acc, LaneValue **out) {
  enum { MOST = 128 };
  LaneValue *in[5 + MOST];
  LaneType words[MOST];
  int count = a_registers ? 4 : 1;
  if (n > MOST) n = MOST; /* the verifier says so */
  memcpy(in, a, sizeof *in * (size_t)count);
  in[count++] = x;
  for (int i = 0; i < n; i++) words[i] = LT_B32;
  if (acc) {
    memcpy(in + count, acc, sizeof *in * (size_t)n);
    count += n;
  }
  LaneOp proto = {
      .code = LANE_WGMMA, .kind = k, .imm = (int64_t)high, .mixed = mixed, .trans_a = trans_a, .trans_b = trans_b};
  LaneOp *op = lane_op_raw(b, proto, count, in, n, words);
  memcpy(out, op->out, sizeof *out * (size_t)n);
}

void lane_wgmma_wait(LaneBuilder *b, int pending, int n, LaneValue *const *in, LaneValue **out) {
  LaneType *types = NEW_N(b->f->cx->arena, LaneType, n + 1);
  for (int i = 0; i < n; i++) types[i] = in[i]->type;
  LaneOp *op = lane_op_raw(b, (LaneOp){.code = LANE_WGMMA_WAIT, .imm = pending}, n, in, n, types);
  for (int i = 0; i < n; i++) out[i] = op->out[i];
}

LaneOp *lane_simple(LaneBuilder *b, LaneCode c, int64_t imm, int buffer) {
  return lane_op_raw(b, (LaneOp){.code = c, .imm = imm, .buffer = (int16_t)buffer}, 0, NULL, 0, NULL);
}

LaneOp *lane_cp_async(LaneBuilder *b, int bytes, LaneValue *to, int64_t imm, int buffer, LaneValue *from,
                      LaneValue *guard) {
  to = split_address(SPACE_SHARED, to, &imm);
  LaneValue *in[] = {to, from};
  LaneOp proto = {.code = LANE_CP_ASYNC,
                  .kind = LK_B32,
                  .space = SPACE_SHARED,
                  .bits = (uint8_t)(8 * bytes),
                  .imm = imm,
                  .guard = real_guard(guard),
                  .buffer = (int16_t)buffer};
  return lane_op_raw(b, proto, 2, in, 0, NULL);
}

LaneOp *lane_mbar(LaneBuilder *b, LaneCode c, LaneValue *at, int64_t imm, int buffer, LaneValue *x) {
  at = split_address(SPACE_SHARED, at, &imm);
  LaneOp proto = {.code = c, .space = SPACE_SHARED, .imm = imm, .buffer = (int16_t)buffer};
  return lane_op_raw(b, proto, x ? 2 : 1, (LaneValue *[]){at, x}, 0, NULL);
}

LaneOp *lane_tensor(LaneBuilder *b, LaneCode c, int rank, LaneValue *at, int64_t imm, int buffer, LaneValue *bar,
                    LaneValue *map, LaneValue *const *coordinates) {
  LaneValue *in[8];
  int n = 0;
  in[n++] = split_address(SPACE_SHARED, at, &imm);
  if (bar) in[n++] = bar;
  in[n++] = map;
  for (int i = 0; i < rank && n < 8; i++) in[n++] = coordinates[i]; /* more the verifier finds */
  LaneOp proto = {.code = c, .space = SPACE_SHARED, .imm = imm, .buffer = (int16_t)buffer};
  return lane_op_raw(b, proto, n, in, 0, NULL);
}

/* ---- tensor memory ----------------------------------------------------------------------------------------------- */

void lane_tmem_mma(LaneBuilder *b, LaneKind k, bool mixed, bool trans_a, bool trans_b, int rows, int columns,
                   uint64_t high, LaneValue *d, LaneValue *a, LaneValue *x, LaneValue *adds) {
  LaneOp proto = {.code = LANE_TMEM_MMA,
                  .kind = k,
                  .imm = (int64_t)high,
                  .mixed = mixed,
                  .trans_a = trans_a,
                  .trans_b = trans_b,
                  .rows = (uint16_t)rows,
                  .columns = (uint16_t)columns};
  lane_op_raw(b, proto, 4, (LaneValue *[]){d, a, x, adds}, 0, NULL);
}

/* n results in the registers of as many operands, or (loads) of none. */
static void tmem_results(LaneBuilder *b, LaneOp proto, int n, int in_count, LaneValue *const *in, LaneValue **out) {
  LaneType *types = NEW_N(b->f->cx->arena, LaneType, n + 1);
  for (int i = 0; i < n; i++) types[i] = LT_B32;
  LaneOp *op = lane_op_raw(b, proto, in_count, in, n, types);
  for (int i = 0; i < n; i++) out[i] = op->out[i];
}

void lane_tmem_ld(LaneBuilder *b, int rows, LaneValue *at, int n, LaneValue **out) {
  tmem_results(b, (LaneOp){.code = LANE_TMEM_LD, .rows = (uint16_t)rows}, n, 1, &at, out);
}

void lane_tmem_wait_ld(LaneBuilder *b, int n, LaneValue *const *in, LaneValue **out) {
  tmem_results(b, (LaneOp){.code = LANE_TMEM_WAIT_LD}, n, n, in, out);
}

void lane_tmem_st(LaneBuilder *b, int rows, LaneValue *at, int n, LaneValue *const *in) {
  LaneValue **all = NEW_N(b->f->cx->arena, LaneValue *, n + 1);
  all[0] = at;
  memcpy(all + 1, in, sizeof *in * (size_t)n);
  lane_op_raw(b, (LaneOp){.code = LANE_TMEM_ST, .rows = (uint16_t)rows}, n + 1, all, 0, NULL);
}

/* ---- taking out, moving, walking --------------------------------------------------------------------------------- */

void lane_remove(LaneOp *op) {
  if (!op->block) return;
  if (op->prev) op->prev->next = op->next;
  else op->block->first = op->next;
  if (op->next) op->next->prev = op->prev;
  else op->block->last = op->prev;
  op->prev = op->next = NULL;
  op->block = NULL;
}

void lane_insert_before(LaneOp *op, LaneOp *place) {
  op->block = place->block;
  op->next = place;
  op->prev = place->prev;
  if (op->prev) op->prev->next = op;
  else op->block->first = op;
  place->prev = op;
}

void lane_walk(LaneBlock *block, void (*fn)(LaneOp *op, void *arg), void *arg) {
  stack_guard();
  for (LaneOp *op = block->first, *next; op; op = next) {
    next = op->next;
    fn(op, arg);
    if (!op->block) continue; /* removed */
    next = op->next;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) lane_walk(op->body[i], fn, arg);
  }
}
