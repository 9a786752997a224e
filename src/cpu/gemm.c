/* Loops that add up products: their operands are packed over many iterations, and multiplied once.
 *
 *     for k:                                    for k, up to a capacity:
 *       a = load ..; b = load ..                  b -> its panels of packed B      unless they stand there already
 *       acc = dot(a, b, acc)            ->        a -> its rows of packed A        likewise, or read where they lie
 *     store acc                                 acc += packed A * packed B         blocked for caches and registers
 *                                               for some rows:
 *                                                 acc += packed A * packed B       the last block of k
 *                                                 store acc
 *
 * That an iteration does nothing but make operands is all it takes: no writes, no carried tensor but the accumulators.
 * Whatever the plan says of an operand (nests, copies: its items) makes its tile in scratch, from where it is packed.
 *
 * Programs that a thread runs one after the other often want an operand again: tiles of C in one column share B's. An
 * operand is a function of a few scalars, such as the tile's column, and of memory; where the kernel writes to no
 * argument that the operand is loaded from, those scalars' values say whether what was packed is what is wanted (a
 * memo). Rows of A are read where they lie when a tile is a plain load whose mask holds throughout, of a type that the
 * kernel takes as it is.
 *
 * The nest that reads the sums, the epilogue, takes some rows at a time, right after the last block of k was added to
 * them. Where that is the only block, no more than these rows of the accumulator are ever in memory. An accumulator
 * that begins as zeros is not written before: the first block of k is put in its place. Where the epilogue but stores
 * the sums, and this tile's mask holds throughout, the last block writes them to their place from registers.
 *
 * After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"; nereid_dot.h has the kernels.
 */
#include "cpu/gemm.h"

#include "cpu/memory.h"

enum {
  MAX_KEYS = 8,            /* ND_GEMM_KEYS */
  MEMO_BYTES = 8 + 8 * 8,  /* of nd_gemm_memo */
  PACKED_BYTES = 4 << 20,  /* of an operand, a thread: K of 8192 in f32 with 128 columns */
  SMALL_BYTES = 256 << 10, /* where few rows share b, it is packed piece by piece and stays in the second cache */
  FEW_ROWS = 64,
  ROW_AFTER = 128, /* of a panel: nd_dot_panel4 reads a row after the last one */
};

/* ---- which loops ---- */

static const char *const kind_names[] = {
    [DOT_F32] = "f32", [DOT_F64] = "f64", [DOT_I32] = "i32", [DOT_BF16] = "bf16", [DOT_I8] = "i8"};
static const Dtype kind_types[] = {
    [DOT_F32] = DT_F32, [DOT_F64] = DT_F64, [DOT_I32] = DT_I32, [DOT_BF16] = DT_BF16, [DOT_I8] = DT_I8};

/* Whether its tile is kept as elements of the kernel's type (plan_dot). */
static bool is_kept_as(const Value *v, DotKind kind, const Block *body) {
  Dtype d = v->type->dtype;
  if (d == kind_types[kind]) return true;
  return kind == DOT_F32 && dtype_is_float(d) && d != DT_F64 && v->def && v->def->block == body &&
         v->def->code != OP_RESHAPE;
}

static bool dot_packs(const Op *op) {
  const Type *a = op->in[0]->type, *b = op->in[1]->type, *c = op->in[2]->type;
  DotKind kind = dot_kind(op);
  for (int i = 0; i < 2; i++)
    if (!is_kept_as(op->in[i], kind, op->block)) return false;
  Dtype sum = kind == DOT_F64 ? DT_F64 : kind == DOT_I32 || kind == DOT_I8 ? DT_I32 : DT_F32;
  return a->rank == 2 && c->dtype == sum && b->shape[1] % 32 == 0 && a->shape[1] % 4 == 0;
}

static int carried_dot(const Block *body, const Op *dot) {
  for (int k = 0; k < body->last->in_count; k++)
    if (body->last->in[k] == dot->out[0]) return k;
  return -1;
}

/* Whether the accumulator is the loop's own and nobody else's. */
static bool adds_up(Emit *e, const Block *body, const Op *dot) {
  int k = carried_dot(body, dot);
  return k >= 0 && dot->in[2] == body->args[k + 1] && info_of(e, dot->in[2])->uses == 1 &&
         info_of(e, dot->out[0])->uses == 1;
}

/* Another shape of a tile, for dots alone: it is made with the operand. */
bool gemm_takes_reshape(Emit *e, const Op *op) {
  if (op->code != OP_RESHAPE || op->in[0]->type->rank == 0 || op_is_view(op)) return false;
  for (const Op *user = op->block->first; user; user = user->next)
    for (int i = 0; i < user->in_count; i++)
      if (user->in[i] == op->out[0] && (user->code != OP_DOT || i == 2)) return false;
  return true;
}

/* Whether an operation of the body does nothing but compute. */
static bool only_computes(Emit *e, const Op *op) {
  if (op->code == OP_YIELD || op->code == OP_ASSUME || gemm_takes_reshape(e, op)) return true;
  if (op->code == OP_LOAD) return !op->is_volatile;
  if (op_info[op->code].effect != EFFECT_PURE) return false;
  bool scalar = op->out_count == 1 && op->out[0]->type->rank == 0;
  for (int i = 0; i < op->in_count; i++) scalar = scalar && op->in[i]->type->rank == 0;
  return scalar || op_is_elementwise(op) || op_is_view(op) ||
         (op->out_count == 1 && value_is_recomputable(e, op->out[0]));
}

Gemm *gemm_of(Emit *e, const Op *loop) {
  const Block *body = loop->body[0];
  int dots = 0, tensors = 0;
  int64_t step;
  if (e->f->instrument || body->args[0]->type->dtype == DT_U64) return NULL;
  if (value_is_const(loop->in[2], &step) && step <= 0) return NULL;
  for (const Op *op = body->first; op; op = op->next) {
    if (op->code == OP_DOT) {
      if (!dot_packs(op) || !adds_up(e, body, op)) return NULL;
      dots++;
    } else if (!only_computes(e, op)) {
      return NULL;
    }
  }
  for (int k = 0; k < loop->out_count; k++) tensors += loop->out[k]->type->rank > 0;
  if (!dots || tensors != dots) return NULL;
  return NEW(e->arena, Gemm);
}

/* ---- what an operand depends on ---- */

typedef struct Leaves {
  Emit *e;
  const Op *loop;
  Map *seen;
  Value *keys[MAX_KEYS];
  int count;
  bool failed;
} Leaves;

static bool is_inside(const Block *b, const Op *loop) {
  for (; b && b->parent; b = b->parent->block)
    if (b->parent == loop) return true;
  return false;
}

/* Whether a scalar is the same in all programs: made of the kernel's arguments alone. */
static bool is_same_everywhere(const Value *v, int depth) {
  stack_guard();
  if (v->block) return !v->block->parent;
  const Op *op = v->def;
  if (op->code == OP_CONST || op->code == OP_NUM_PROGRAMS) return true;
  if (depth > 16 || op_info[op->code].effect != EFFECT_PURE || op->body[0] || op->code == OP_PROGRAM_ID) return false;
  for (int i = 0; i < op->in_count; i++)
    if (!is_same_everywhere(op->in[i], depth + 1)) return false;
  return true;
}

typedef struct Writes {
  Emit *e;
  Op *load;
  bool conflict;
} Writes;

static void note_write(Op *op, void *arg) {
  Writes *w = arg;
  if (!memory_writes(op) || w->conflict) return;
  w->conflict = memory_conflict(w->e, op, w->load);
  if (!w->conflict) plan_relies_apart(w->e, op, w->load);
}

/* Whether the kernel writes where `load` reads. That arguments do not overlap is noted. */
static bool is_written(Emit *e, Op *load) {
  Writes w = {.e = e, .load = load};
  tile_walk(e->f->body, note_write, &w);
  return w.conflict;
}

static void leaves_of(Leaves *l, Value *v) {
  stack_guard();
  const Op *loop = l->loop;
  if (l->failed || map_get(l->seen, v)) return;
  map_put(l->seen, v, v);
  const Block *home = v->block ? v->block : v->def->block;
  bool inside = is_inside(home, loop), own = v->block && v->block == loop->body[0];
  if (own && v->index == 0) {
    for (int i = 0; i < 3; i++) leaves_of(l, loop->in[i]);
    return;
  }
  if (own && v->type->rank == 0) {
    leaves_of(l, loop->in[3 + v->index - 1]);
    leaves_of(l, v->block->last->in[v->index - 1]);
    return;
  }
  if (!inside && v->type->rank == 0) {
    if (is_same_everywhere(v, 0)) return;
    Dtype d = type_dtype(v->type);
    if (l->count == MAX_KEYS || (dtype_is_float(d) && !v->type->ptr)) l->failed = true;
    else l->keys[l->count++] = v;
    return;
  }
  Op *op = v->def;
  if (!op || (op->code == OP_LOAD && (op->is_volatile || is_written(l->e, op))) ||
      (op->code != OP_LOAD && op_info[op->code].effect != EFFECT_PURE) || op->body[0]) {
    l->failed = true;
    return;
  }
  for (int i = 0; i < op->in_count; i++) leaves_of(l, op->in[i]);
}

/* ---- planning: called for the dots of the body, in order ---- */

static bool reads_own(const Group *g, const Buffer *const *own, int n) {
  for (int i = 0; i < g->reads.n; i++)
    for (int k = 0; k < n; k++)
      if (g->reads.at[i] == own[k]) return true;
  return false;
}

/* Whether the items [first, end) make something that items of [from, to) read: then both always run. */
static bool items_feed(const Plan *p, int first, int end, int from, int to) {
  const Buffer *made[16];
  int n = 0;
  for (int i = first; i < end; i++) {
    const Item *item = &p->at[i];
    if (item->copy_to) made[n++] = item->copy_to;
    for (int k = 0; item->group && k < item->group->roots.n; k++)
      if (item->group->roots.at[k]->view && n < 16) made[n++] = item->group->roots.at[k]->view->buffer;
    if (n > 14) return true;
  }
  for (int i = from; i < to; i++) {
    const Item *item = &p->at[i];
    if (item->group && reads_own(item->group, made, n)) return true;
    for (int k = 0; k < n; k++)
      if (item->copy_from == made[k]) return true;
  }
  return false;
}

static Buffer *pinned(Emit *e, int64_t bytes) {
  Type t = {.dtype = DT_U8, .rank = 1, .shape = {(int32_t)bytes}};
  Buffer *b = buffer_new(e, type_make(e->cx, t));
  b->first = 0;
  b->last = INT32_MAX;
  return b;
}

GemmOperand *gemm_known(const Gemm *g, const Op *dot, int which) {
  for (int i = 0; i < g->operands.n; i++) {
    GemmOperand *o = g->operands.at[i];
    if (o->value == dot->in[which] && o->which == which && o->kind == dot_kind(dot)) return o;
  }
  return NULL;
}

GemmOperand *gemm_operand(Planner *p, Gemm *g, Op *dot, int which, int first) {
  Emit *e = p->e;
  Value *v = dot->in[which];
  DotKind kind = dot_kind(dot);
  GemmOperand *o = NEW(e->arena, GemmOperand);
  o->value = v;
  o->which = which;
  o->kind = kind;
  o->first = first;
  o->end = p->plan->n;
  o->view = ((OpPlan *)dot->note)->in[which];
  const Type *t = v->type;
  int64_t tile = type_numel(t) * (kind == DOT_F64 ? 8 : 4), rows = dot->in[0]->type->shape[0],
          wanted = rows < FEW_ROWS ? SMALL_BYTES : PACKED_BYTES;
  o->capacity = tile > wanted ? tile : wanted;
  o->packed = pinned(e, o->capacity + ROW_AFTER);
  Leaves l = {.e = e, .loop = dot->block->parent, .seen = map_create(e->arena, false)};
  leaves_of(&l, v);
  for (int i = 0; i < 3; i++) leaves_of(&l, l.loop->in[i]);
  if (!l.failed) {
    o->memo = pinned(e, MEMO_BYTES);
    o->key_count = l.count;
    memcpy(o->keys, l.keys, sizeof l.keys);
    vec_push(e->arena, &e->memos, o->memo);
  }
  vec_push(e->arena, &g->operands, o);
  return o;
}

static bool belongs_to_operand(const Gemm *g, int item) {
  for (int i = 0; i < g->operands.n; i++)
    if (item >= g->operands.at[i]->first && item < g->operands.at[i]->end) return true;
  return false;
}

/* Once the body is planned: an operand whose items another's need is made in every iteration. So is one whose tile was
 * there before its items: another's items made it. */
void gemm_planned(Planner *p, Gemm *g) {
  const Plan *plan = p->plan;
  bool others = false; /* nests that belong to no operand */
  for (int i = 0; i < plan->n; i++) others |= !plan->at[i].op && !belongs_to_operand(g, i);
  for (int i = 0; i < g->operands.n; i++) {
    GemmOperand *o = g->operands.at[i];
    o->always = others;
    for (int k = 0; k < g->operands.n; k++) {
      const GemmOperand *x = g->operands.at[k];
      if (x == o) continue;
      if (items_feed(plan, o->first, o->end, x->first, x->end)) o->always = true;
      for (int j = o->first; j < o->end && x->first == x->end; j++)
        for (int r = 0; plan->at[j].group && r < plan->at[j].group->roots.n; r++)
          if (plan->at[j].group->roots.at[r]->view && plan->at[j].group->roots.at[r]->view->buffer == x->view->buffer)
            o->always = true;
    }
  }
}

/* ---- text ---- */

/* A scalar expression outside of any nest. */
static const char *sym_scalar(Emit *e, const Sym *s) {
  stack_guard();
  switch (s->kind) {
    case SYM_CONST: return emit_literal(e, DT_I64, s->number, 0);
    case SYM_VALUE: return emit_text(e, "(int64_t)%s", scalar_text(e, s->value));
    case SYM_ADD: return emit_text(e, "(%s + %s)", sym_scalar(e, s->l), sym_scalar(e, s->r));
    default: return emit_text(e, "%s * %s", sym_scalar(e, s->l), sym_scalar(e, s->r));
  }
}

/* A condition under which the mask holds for every element, or NULL when there is none to be told. */
static const char *holds_throughout(Emit *e, Value *mask) {
  stack_guard();
  int64_t c;
  if (value_is_const(mask, &c)) return c ? "1" : NULL;
  if (mask->type->rank == 0) return scalar_text(e, mask);
  Op *op = mask->def;
  if (!op) return NULL;
  if (op->code == OP_SPLAT || op_is_view(op)) return holds_throughout(e, op->in[0]);
  if (op->code == OP_AND) {
    const char *a = holds_throughout(e, op->in[0]), *b = holds_throughout(e, op->in[1]);
    return a && b ? emit_text(e, "%s && %s", a, b) : NULL;
  }
  if (op->code != OP_CMP || op->in[0]->type->ptr || !dtype_is_signed(op->in[0]->type->dtype) ||
      !index_is_plain(e, op->in[0]) || !index_is_plain(e, op->in[1]))
    return NULL;
  CmpPred pred = (CmpPred)op->pred;
  if (pred != CMP_LT && pred != CMP_LE && pred != CMP_GT && pred != CMP_GE) return NULL;
  bool less = pred == CMP_LT || pred == CMP_LE;
  Index *x = index_of(e, op->in[less ? 0 : 1]), *y = index_of(e, op->in[less ? 1 : 0]);
  Sym *minus = sym_const(e, -1);
  int64_t most = 0; /* of what the indices add to x - y */
  for (int d = 0; d < mask->type->rank; d++) {
    Sym *coef = sym_add(e, x->coef[d], sym_mul(e, y->coef[d], minus));
    if (coef->kind != SYM_CONST) return NULL;
    if (coef->number > 0) most += coef->number * (mask->type->shape[d] - 1);
  }
  return emit_text(e, "%s - %s + %lld %s 0", sym_scalar(e, x->base), sym_scalar(e, y->base), (long long)most,
                   pred == CMP_LT || pred == CMP_GT ? "<" : "<=");
}

/* Where rows of an operand may be read from memory: the C text of their address, of the distance between them, and of
 * the condition. */
typedef struct InPlace {
  const char *address, *apart, *condition;
} InPlace;

static bool lies_in_place(Emit *e, const GemmOperand *o, InPlace *out) {
  Op *op = o->value->def;
  if (!op || op->code != OP_LOAD || o->value->type->dtype != kind_types[o->kind]) return false;
  Index *x = index_of(e, op->in[0]);
  int bytes = dtype_bytes(kind_types[o->kind]);
  if (x->term_count || !sym_is(x->coef[1], bytes)) return false;
  const char *mask = op->in_count > 1 ? holds_throughout(e, op->in[1]) : "1";
  if (!mask) return false;
  out->address = sym_scalar(e, x->base);
  out->apart = sym_scalar(e, x->coef[0]);
  const char *name = kind_names[o->kind];
  out->condition =
      o->which ? mask
               : emit_text(e, "ND_GEMM_RAW_%s && %s %% ND_GEMM_UNIT_%s == 0 && %s", name, out->apart, name, mask);
  return true;
}

static void make_tile(Emit *e, const Plan *p, const GemmOperand *o) {
  for (int i = o->first; i < o->end; i++) emit_item(e, &p->at[i]);
}

static const char *held_text(Emit *e, const GemmOperand *o) {
  return o->memo ? emit_text(e, "held_%d", o->packed->id) : "0";
}

/* Packs this iteration's tile of o, number `at` of those packed. Where its rows lie in memory, those of a need no
 * packing, and those of b are packed from there. */
static void emit_operand(Emit *e, const Plan *p, const GemmOperand *o) {
  const char *name = kind_names[o->kind], *to = buffer_text(e, o->packed),
             *tile =
                 emit_text(e, "(scratch + %lld)",
                           (long long)(o->view->buffer->place + o->view->offset * dtype_bytes(o->view->buffer->dtype)));
  const Type *t = o->value->type;
  int id = o->packed->id;
  InPlace in;
  bool in_place = lies_in_place(e, o, &in);
  if (in_place) emit_line(e, "const int in_place_%d = %s;", id, in.condition);
  if (o->always) make_tile(e, p, o);
  const char *packs = emit_text(e, "!%s", held_text(e, o));
  if (in_place && o->which == 0) packs = emit_text(e, "%s && !in_place_%d", packs, id);
  emit_line(e, "if (%s) {", packs);
  e->indent++;
  bool around = in_place && o->which == 1 && !o->always;
  if (around) {
    emit_line(e, "if (!in_place_%d) {", id);
    e->indent++;
  }
  if (!o->always) make_tile(e, p, o);
  if (around) {
    e->indent--;
    emit_line(e, "}");
  }
  if (o->which == 0) {
    emit_line(e, "nd_gemm_rows_%s((void *)(%s + at * %d * ND_GEMM_A_%s), apart_%d, (void *)%s, %d, %d);", name, to,
              t->shape[1], name, id, tile, t->shape[0], t->shape[1]);
  } else {
    const char *from = tile;
    int bytes = dtype_bytes(o->view->buffer->dtype);
    const char *from_apart = emit_text(e, "%d", t->shape[1] * bytes);
    if (in_place) {
      from = emit_text(e, "(in_place_%d ? %s : (int64_t)%s)", id, in.address, tile);
      from_apart = emit_text(e, "in_place_%d ? %s : %s", id, in.apart, from_apart);
    }
    emit_line(e,
              "nd_gemm_panels_%s((void *)(%s + at * %d * ND_GEMM_W_%s * ND_GEMM_B_%s), apart_%d, (void *)%s, %s, %d, "
              "%d);",
              name, to, t->shape[0], name, name, id, from, from_apart, t->shape[1], t->shape[0]);
  }
  e->indent--;
  emit_line(e, "}");
  if (o->which == 0) {
    emit_line(e, "const int64_t rows_%d = %s%s + at * %d * ND_GEMM_A_%s;", id,
              in_place ? emit_text(e, "in_place_%d ? %s : ", id, in.address) : "", to, t->shape[1], name);
    emit_line(e, "const int64_t rows_apart_%d = %sapart_%d;", id,
              in_place ? emit_text(e, "in_place_%d ? %s : ", id, in.apart) : "", id);
  }
}

static const Buffer *sum_of(const GemmDot *d) { return ((OpPlan *)d->op->note)->out[0]->buffer; }

/* Iterations whose rows of a continue each other make one product: [since_N, at). Of the last ones, the last block of k
 * is left for emit_gemm_last(). */
static void emit_product(Emit *e, const GemmDot *d, int n, const char *more) {
  const Type *a = d->op->in[0]->type, *b = d->op->in[1]->type;
  const char *name = kind_names[d->a->kind];
  int id = sum_of(d)->id, k = a->shape[1], packed = d->b->packed->id;
  emit_line(e, "{");
  e->indent++;
  emit_line(e, "const int all = (int)(at - since_%d) * %d, last = %s ? 0 : nd_gemm_last(all, ND_GEMM_BLOCK_%s);", n, k,
            more, name);
  emit_line(e, "const int64_t panels = %s + since_%d * %d * ND_GEMM_W_%s * ND_GEMM_B_%s;", buffer_text(e, d->b->packed),
            n, k, name, name);
  emit_line(e, "if (all > last) {");
  emit_line(
      e,
      "  nd_gemm_%s((void *)(%s), %d, (void *)from_%d, from_apart_%d, (void *)panels, apart_%d, %d, %d, all - last, "
      "!begun_%d);",
      name, buffer_text(e, sum_of(d)), b->shape[1], n, n, packed, a->shape[0], b->shape[1], id);
  emit_line(e, "  begun_%d = 1;", id);
  emit_line(e, "}");
  emit_line(e,
            "last_%d = (nd_gemm_product){from_%d + (all - last) * ND_GEMM_A_%s, from_apart_%d, panels + (all - last) * "
            "ND_GEMM_W_%s * ND_GEMM_B_%s, apart_%d, last};",
            id, n, name, n, name, name, packed);
  e->indent--;
  emit_line(e, "}");
}

static bool reads(Buffer *const *at, int n, const Buffer *b) {
  for (int i = 0; i < n; i++)
    if (at[i] == b) return true;
  return false;
}

/* Whether the nest g may run its first rows before the last rows of the products are made: what it writes is read by no
 * product, and it reads the sums row by row. */
static bool follows_rows(Emit *e, const Gemm *gemm, const Group *g) {
  if (g->rank < 2 || g->vector_dim == 0 || g->shape[0] == 1) return false;
  bool sums = false;
  for (int k = 0; k < gemm->dots.n; k++) {
    const GemmDot *d = &gemm->dots.at[k];
    if (d->op->in[0]->type->shape[0] != g->shape[0] || reads(g->skewed.at, g->skewed.n, sum_of(d))) return false;
    sums |= reads(g->reads.at, g->reads.n, sum_of(d));
  }
  for (int i = 0; i < g->roots.n; i++) {
    const FusionRoot *r = g->roots.at[i];
    if (r->kind != ROOT_KEEP && r->kind != ROOT_STORE) return false;
    for (int k = 0; r->kind == ROOT_STORE && k < gemm->operands.n; k++) {
      const GemmOperand *o = gemm->operands.at[k];
      if (o->which == 0 && o->value->def && o->value->def->code == OP_LOAD && memory_conflict(e, r->op, o->value->def))
        return false;
    }
  }
  return sums;
}

static bool is_pure_scalar(const Op *op) {
  if (!op || op_info[op->code].effect != EFFECT_PURE || op->body[0] || op->out_count != 1 || op->out[0]->type->rank)
    return false;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i]->type->rank) return false;
  return true;
}

int gemm_find_epilogue(Emit *e, Gemm *gemm, const Plan *p, int at) {
  int i = at + 1;
  while (i < p->n && is_pure_scalar(p->at[i].op)) i++;
  Group *g = i < p->n ? p->at[i].group : NULL;
  if (!g || !follows_rows(e, gemm, g)) return at;
  gemm->epilogue = g;
  for (int n = 0; n < g->roots.n; n++) /* as is_written() does */
    for (int k = 0; g->roots.at[n]->kind == ROOT_STORE && k < gemm->operands.n; k++) {
      const Op *load = gemm->operands.at[k]->value->def;
      if (gemm->operands.at[k]->which == 0 && load && load->code == OP_LOAD)
        plan_relies_apart(e, g->roots.at[n]->op, load);
    }
  return i;
}

/* The epilogue as a place in memory: the C text of the address of its first element, of the distance between rows in
 * bytes, and of a condition. */
typedef struct Target {
  const char *address, *apart, *condition;
} Target;

/* Whether the epilogue but stores the sums, as they are, row by row. Then the last block of k writes there what it
 * would write into the accumulator: of what it still reads, rows of a, follows_rows() has seen that they are elsewhere.
 */
static bool stores_sums(Emit *e, const Gemm *g, Target *out) {
  const Group *nest = g->epilogue;
  if (!nest || g->dots.n != 1 || nest->roots.n != 1 || nest->roots.at[0]->kind != ROOT_STORE) return false;
  const GemmDot *d = &g->dots.at[0];
  const Buffer *sum = sum_of(d);
  const Op *store = nest->roots.at[0]->op;
  const Value *v = store->in[1];
  const View *view = info_of(e, v)->view;
  if (v->type->rank != 2 || v->type->dtype != sum->dtype || !view || view->buffer != sum ||
      !view_is_compact(view, v->type) || sum->last != nest->step)
    return false;
  const Index *x = index_of(e, store->in[0]);
  int bytes = dtype_bytes(sum->dtype);
  if (x->term_count || !sym_is(x->coef[1], bytes)) return false;
  const char *mask = store->in_count > 2 ? holds_throughout(e, store->in[2]) : "1";
  if (!mask) return false;
  out->address = sym_scalar(e, x->base);
  out->apart = sym_scalar(e, x->coef[0]);
  /* What is large a nest stores past the caches. */
  out->condition = emit_text(e, "!far && ND_GEMM_INTO_%s && last_%d.k > 0 && %s %% %d == 0 && %s",
                             kind_names[d->a->kind], sum->id, out->apart, bytes, mask);
  return true;
}

/* The last block of k, and after it the epilogue, some rows at a time. */
static void emit_last_rows(Emit *e, const Gemm *g) {
  Group *nest = g->epilogue;
  const GemmDot *first = &g->dots.at[0];
  int id = sum_of(first)->id, rows = first->op->in[0]->type->shape[0];
  const char *row = emit_text(e, "row_%d", id), *strip = emit_text(e, "strip_%d", id);
  if (nest) {
    emit_line(e, "const int64_t %s = nd_min_i64(%d, ND_GEMM_ROWS_%s);", strip, rows, kind_names[first->a->kind]);
    emit_line(e, "for (int64_t %s = 0; %s < %d; %s += %s) {", row, row, rows, row, strip);
    e->indent++;
  }
  for (int k = 0; k < g->dots.n; k++) {
    const GemmDot *d = &g->dots.at[k];
    Buffer *sum = ((OpPlan *)d->op->note)->out[0]->buffer;
    int n = d->op->in[1]->type->shape[1], bytes = dtype_bytes(sum->dtype);
    const char *to = buffer_text(e, sum), *from = emit_text(e, "last_%d.a", sum->id),
               *count = emit_text(e, "%d", d->op->in[0]->type->shape[0]);
    if (nest) {
      to = emit_text(e, "%s + %s * %d", to, row, n * bytes);
      from = emit_text(e, "%s + %s * last_%d.a_apart", from, row, sum->id);
      count = emit_text(e, "(int)%s", strip);
      if (sum->last == nest->step) { /* nobody else wants these rows */
        sum->before = emit_text(e, "before_%d", sum->id);
        emit_line(e, "const int64_t %s = begun_%d ? 0 : %s * %d;", sum->before, sum->id, row, n * bytes);
        to = emit_text(e, "%s - %s", to, sum->before);
      }
    }
    emit_line(e,
              "nd_gemm_%s((void *)(%s), %d, (void *)(%s), last_%d.a_apart, (void *)last_%d.b, last_%d.b_apart, %s, %d, "
              "last_%d.k, !begun_%d);",
              kind_names[d->a->kind], to, n, from, sum->id, sum->id, sum->id, count, n, sum->id, sum->id);
  }
  if (!nest) return;
  nest->from = row;
  nest->to = emit_text(e, "%s + %s", row, strip);
  emit_group(e, nest);
  e->indent--;
  emit_line(e, "}");
}

void emit_gemm_last(Emit *e, const Gemm *g) {
  Target target;
  if (!stores_sums(e, g, &target)) {
    emit_last_rows(e, g);
    return;
  }
  const GemmDot *d = &g->dots.at[0];
  const Buffer *sum = sum_of(d);
  int id = sum->id, n = d->op->in[1]->type->shape[1];
  emit_line(e, "if (%s) {", target.condition);
  emit_line(e,
            "  nd_gemm_into_%s((void *)(%s), %s / %d, (void *)(%s), %d, (void *)last_%d.a, last_%d.a_apart, (void "
            "*)last_%d.b, last_%d.b_apart, %d, %d, last_%d.k, !begun_%d);",
            kind_names[d->a->kind], target.address, target.apart, dtype_bytes(sum->dtype), buffer_text(e, sum), n, id,
            id, id, id, d->op->in[0]->type->shape[0], n, id, id);
  emit_line(e, "} else {");
  e->indent++;
  emit_last_rows(e, g);
  e->indent--;
  emit_line(e, "}");
}

void emit_gemm(Emit *e, Op *loop, Gemm *g, const Plan *p, void (*carry)(Emit *e, Op *loop, void *arg), void *arg) {
  Block *body = loop->body[0];
  const char *i = value_name(e, body->args[0]), *t = dtype_name(body->args[0]->type->dtype),
             *to = scalar_text(e, loop->in[1]), *step = scalar_text(e, loop->in[2]);
  for (int k = 0; k < g->dots.n; k++) {
    int id = sum_of(&g->dots.at[k])->id;
    emit_line(e, "nd_gemm_product last_%d = {0, 0, 0, 0, 0};", id);
    emit_line(e, "int begun_%d = %d;", id, !value_is_zero(loop->in[3 + carried_dot(body, g->dots.at[k].op)]));
  }
  emit_line(e, "{ /* operands packed over many iterations, then multiplied at once */");
  e->indent++;
  emit_line(e, "int64_t %s_at = %s, block = nd_gemm_iterations(%s_at, %s, %s);", i, scalar_text(e, loop->in[0]), i, to,
            step);
  emit_line(e, "const int64_t iterations = block;");
  for (int k = 0; k < g->operands.n; k++) {
    const GemmOperand *o = g->operands.at[k];
    const Type *type = o->value->type;
    const char *name = kind_names[o->kind];
    emit_line(e, "block = nd_min_i64(block, %lld / (%lld * ND_GEMM_%s_%s));", (long long)o->capacity,
              (long long)type_numel(type), o->which ? "B" : "A", name);
  }
  for (int k = 0; k < g->operands.n; k++) {
    const GemmOperand *o = g->operands.at[k];
    const char *name = kind_names[o->kind];
    int id = o->packed->id;
    if (o->which == 0)
      emit_line(e, "const int64_t apart_%d = block * %d * ND_GEMM_A_%s;", id, o->value->type->shape[1], name);
    else
      emit_line(e, "const int64_t apart_%d = block * %d * ND_GEMM_W_%s * ND_GEMM_B_%s;", id, o->value->type->shape[0],
                name, name);
    if (!o->memo) continue;
    const char *keys = "0";
    for (int n = 0; n < o->key_count; n++)
      keys = emit_text(e, "%s%s(int64_t)%s", n ? keys : "", n ? ", " : "", scalar_text(e, o->keys[n]));
    emit_line(e,
              "const int held_%d = nd_gemm_held((nd_gemm_memo *)%s, block == iterations, %d, (const int64_t[]){%s});",
              id, buffer_text(e, o->memo), o->key_count, keys);
  }
  emit_line(e, "while (%s_at < %s) {", i, to);
  e->indent++;
  emit_line(e, "int64_t at = 0;");
  for (int k = 0; k < g->dots.n; k++) emit_line(e, "int64_t since_%d = 0, from_%d = 0, from_apart_%d = 0;", k, k, k);
  emit_line(e, "for (; at < block && %s_at < %s; at++, %s_at += %s) {", i, to, i, step);
  e->indent++;
  emit_line(e, "const nd_%s %s = (nd_%s)%s_at;", t, i, t, i);
  for (int n = 0; n <= p->n; n++) {
    for (int k = 0; k < g->operands.n; k++)
      if (g->operands.at[k]->end == n) emit_operand(e, p, g->operands.at[k]);
    if (n < p->n && !belongs_to_operand(g, n) && !(p->at[n].op && p->at[n].op->code == OP_DOT)) emit_item(e, &p->at[n]);
  }
  for (int k = 0; k < g->dots.n; k++) {
    const GemmDot *d = &g->dots.at[k];
    int a = d->a->packed->id;
    const char *name = kind_names[d->a->kind];
    emit_line(e,
              "if (at == since_%d || rows_%d != from_%d + (at - since_%d) * %d * ND_GEMM_A_%s || rows_apart_%d != "
              "from_apart_%d) {",
              k, a, k, k, d->op->in[0]->type->shape[1], name, a, k);
    e->indent++;
    emit_line(e, "if (at > since_%d)", k);
    e->indent++;
    emit_product(e, d, k, "1");
    e->indent--;
    emit_line(e, "since_%d = at, from_%d = rows_%d, from_apart_%d = rows_apart_%d;", k, k, a, k, a);
    e->indent--;
    emit_line(e, "}");
  }
  carry(e, loop, arg);
  e->indent--;
  emit_line(e, "}");
  for (int k = 0; k < g->dots.n; k++) emit_product(e, &g->dots.at[k], k, emit_text(e, "%s_at < %s", i, to));
  e->indent--;
  emit_line(e, "}");
  e->indent--;
  emit_line(e, "}");
}
