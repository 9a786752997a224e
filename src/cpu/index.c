/* Index analysis: which integer and pointer tensors are arithmetic on indices.
 *
 * A kernel spends most of its text on where things are: `x_ptr + row * stride + tl.arange(0, 1024)`. Such a tensor is
 *
 *     element [i0, i1, ..] = base + coef0 * i0 + coef1 * i1 + .. + scale * term[..] + ..
 *
 * with scalar base and coefficients (Sym), and, where a part of it is data (`% M`, a loaded index), terms. So an
 * address needs no tile of pointers: a coefficient equal to the element's size is a vector access, 0 a broadcast,
 * others a strided one, and a term makes a gather along the dims it runs with, only.
 *
 * All arithmetic here is in 64 bits. That is exact for what wraps nowhere; a signed 32-bit sum that overflows in
 * address arithmetic is the kernel's bug (as it is on a GPU, where it addresses the wrong place). Unsigned arithmetic,
 * which wraps on purpose in hashes, is left to the vectors.
 */
#include "cpu/emit.h"

/* ---- scalar expressions ---- */

static Sym *sym_make(Emit *e, SymKind kind, int64_t number, Value *value, Sym *l, Sym *r) {
  uint64_t h = (uint64_t)kind * 31 + (uint64_t)number * 0x9E3779B97F4A7C15u + (uint64_t)(uintptr_t)value * 7 +
               (uint64_t)(uintptr_t)l * 0x85EBCA6Bu + (uint64_t)(uintptr_t)r * 0xC2B2AE35u;
  Sym **slot = &e->sym_table[(h ^ h >> 17 ^ h >> 33) & 255];
  for (Sym *s = *slot; s; s = s->chain)
    if (s->kind == kind && s->number == number && s->value == value && s->l == l && s->r == r) return s;
  Sym *s = NEW(e->arena, Sym);
  *s = (Sym){.kind = kind, .number = number, .value = value, .l = l, .r = r, .chain = *slot};
  return *slot = s;
}

Sym *sym_const(Emit *e, int64_t n) { return sym_make(e, SYM_CONST, n, NULL, NULL, NULL); }
Sym *sym_value(Emit *e, Value *v) {
  int64_t n;
  if (value_is_const(v, &n) && !v->type->ptr) {
    if (v->type->dtype == DT_I1) n = n != 0;
    return sym_const(e, n);
  }
  return sym_make(e, SYM_VALUE, 0, v, NULL, NULL);
}
bool sym_is(const Sym *s, int64_t n) { return s->kind == SYM_CONST && s->number == n; }

Sym *sym_add(Emit *e, Sym *a, Sym *b) {
  stack_guard();
  if (a->kind == SYM_CONST && b->kind == SYM_CONST)
    return sym_const(e, (int64_t)((uint64_t)a->number + (uint64_t)b->number));
  if (sym_is(a, 0)) return b;
  if (sym_is(b, 0)) return a;
  if (a->kind == SYM_CONST) {
    Sym *t = a;
    a = b;
    b = t;
  }
  /* (x + 1) + 2 is x + 3; (x + 1) + y is (x + y) + 1, so that constants meet. */
  if (a->kind == SYM_ADD && a->r->kind == SYM_CONST)
    return b->kind == SYM_CONST ? sym_add(e, a->l, sym_add(e, a->r, b)) : sym_add(e, sym_add(e, a->l, b), a->r);
  if (b->kind == SYM_ADD && b->r->kind == SYM_CONST) return sym_add(e, sym_add(e, a, b->l), b->r);
  return sym_make(e, SYM_ADD, 0, NULL, a, b);
}

Sym *sym_mul(Emit *e, Sym *a, Sym *b) {
  stack_guard();
  if (a->kind == SYM_CONST && b->kind == SYM_CONST)
    return sym_const(e, (int64_t)((uint64_t)a->number * (uint64_t)b->number));
  if (a->kind == SYM_CONST) {
    Sym *t = a;
    a = b;
    b = t;
  }
  if (sym_is(b, 0)) return b;
  if (sym_is(b, 1)) return a;
  if (b->kind == SYM_CONST && a->kind == SYM_MUL && a->r->kind == SYM_CONST)
    return sym_mul(e, a->l, sym_mul(e, a->r, b));
  if (b->kind == SYM_CONST && a->kind == SYM_ADD && a->r->kind == SYM_CONST)
    return sym_add(e, sym_mul(e, a->l, b), sym_mul(e, a->r, b));
  return sym_make(e, SYM_MUL, 0, NULL, a, b);
}

/* ---- the analysis ---- */

static bool indexable(const Type *t) { return t->ptr || t->dtype == DT_I32 || t->dtype == DT_I64; }

static Index *index_new(Emit *e) {
  Index *x = NEW(e->arena, Index);
  x->base = sym_const(e, 0);
  for (int d = 0; d < MAX_RANK; d++) x->coef[d] = x->base;
  return x;
}

static Index *opaque(Emit *e, Value *v) {
  Index *x = index_new(e);
  x->term_count = 1;
  x->term[0].value = v;
  x->term[0].scale = sym_const(e, 1);
  for (int d = 0; d < MAX_RANK; d++) x->term[0].dim[d] = d < v->type->rank && v->type->shape[d] > 1 ? (int8_t)d : -1;
  return x;
}

static bool is_uniform(const Index *x) {
  if (x->term_count) return false;
  for (int d = 0; d < MAX_RANK; d++)
    if (!sym_is(x->coef[d], 0)) return false;
  return true;
}

static Index *combine(Emit *e, const Index *a, const Index *b, Sym *factor) { /* a + b * factor */
  Index *x = index_new(e);
  x->base = sym_add(e, a->base, sym_mul(e, b->base, factor));
  for (int d = 0; d < MAX_RANK; d++) x->coef[d] = sym_add(e, a->coef[d], sym_mul(e, b->coef[d], factor));
  if (a->term_count + b->term_count > MAX_TERMS) return NULL;
  for (int i = 0; i < a->term_count; i++) x->term[x->term_count++] = a->term[i];
  for (int i = 0; i < b->term_count; i++) {
    Term *t = &x->term[x->term_count++];
    *t = b->term[i];
    t->scale = sym_mul(e, t->scale, factor);
  }
  return x;
}

static Index *renamed(Emit *e, const Index *a, const Op *op) {
  int8_t map[MAX_RANK];
  view_map(op, map);
  Index *x = index_new(e);
  x->base = a->base;
  for (int k = 0; k < op->in[0]->type->rank; k++)
    if (map[k] >= 0) x->coef[map[k]] = a->coef[k];
  x->term_count = a->term_count;
  for (int i = 0; i < a->term_count; i++) {
    x->term[i] = a->term[i];
    for (int k = 0; k < MAX_RANK; k++) {
      int d = a->term[i].dim[k];
      x->term[i].dim[k] = d < 0 ? -1 : map[d];
    }
  }
  return x;
}

/* A row-major reshape: each old dim splits into new ones, or runs of old dims whose coefficients fit merge. */
static Index *reshaped(Emit *e, const Index *a, const Type *from, const Type *to) {
  if (a->term_count) return NULL;
  Index *x = index_new(e);
  x->base = a->base;
  int k = from->rank - 1, d = to->rank - 1;
  while (k >= 0 || d >= 0) {
    int64_t old = 1, new = 1;
    int k0 = k, d0 = d;
    if (k >= 0) old = from->shape[k--];
    if (d >= 0) new = to->shape[d--];
    while (old != new) {
      if (old < new) {
        if (k < 0) return NULL;
        old *= from->shape[k--];
      } else {
        if (d < 0) return NULL;
        new *= to->shape[d--];
      }
    }
    Sym *coef = NULL; /* of the innermost old dim; outer ones of the run must continue it */
    int64_t inner = 1;
    for (int i = k0; i > k; i--) {
      if (from->shape[i] > 1) {
        if (!coef) coef = a->coef[i];
        else if (a->coef[i] != sym_mul(e, coef, sym_const(e, inner))) return NULL;
        inner *= from->shape[i];
      }
    }
    inner = 1;
    for (int i = d0; i > d; i--) {
      if (to->shape[i] > 1) x->coef[i] = coef ? sym_mul(e, coef, sym_const(e, inner)) : sym_const(e, 0);
      inner *= to->shape[i];
    }
  }
  return x;
}

static Index *index_of_op(Emit *e, Value *v) {
  Op *op = v->def;
  Sym *one = sym_const(e, 1);
  switch (op->code) {
    case OP_CONST: {
      Index *x = index_new(e);
      x->base = sym_const(e, op->value);
      return x;
    }
    case OP_ARANGE: {
      Index *x = index_new(e);
      x->base = sym_const(e, op->start);
      if (v->type->shape[0] > 1) x->coef[0] = one;
      return x;
    }
    case OP_SPLAT:
    case OP_HINT:
    case OP_EXPAND_DIMS:
    case OP_BROADCAST:
    case OP_TRANS:
    case OP_RESHAPE: {
      Value *in = op->in[0];
      Index *a = index_of(e, in);
      if (!a) return NULL;
      if (in->type->rank == 0) { /* splat and its like */
        Index *x = index_new(e);
        x->base = a->base;
        return x;
      }
      return op_is_view(op) ? renamed(e, a, op) : reshaped(e, a, in->type, v->type);
    }
    case OP_ADD:
    case OP_SUB: {
      Index *a = index_of(e, op->in[0]), *b = index_of(e, op->in[1]);
      return a && b ? combine(e, a, b, op->code == OP_ADD ? one : sym_const(e, -1)) : NULL;
    }
    case OP_NEG: {
      Index *a = index_of(e, op->in[0]);
      return a ? combine(e, index_new(e), a, sym_const(e, -1)) : NULL;
    }
    case OP_MUL: {
      Index *a = index_of(e, op->in[0]), *b = index_of(e, op->in[1]);
      if (!a || !b) return NULL;
      if (is_uniform(b)) return combine(e, index_new(e), a, b->base);
      if (is_uniform(a)) return combine(e, index_new(e), b, a->base);
      return NULL;
    }
    case OP_SHL: {
      Index *a = index_of(e, op->in[0]), *b = index_of(e, op->in[1]);
      if (!a || !b || !is_uniform(b) || b->base->kind != SYM_CONST || b->base->number < 0 || b->base->number > 30)
        return NULL;
      return combine(e, index_new(e), a, sym_const(e, (int64_t)1 << b->base->number));
    }
    case OP_CONVERT: {
      if (v->type->ptr || op->in[0]->type->ptr) return NULL;
      Index *a = index_of(e, op->in[0]);
      return a && dtype_bits(v->type->dtype) >= dtype_bits(op->in[0]->type->dtype) ? combine(e, index_new(e), a, one)
                                                                                   : NULL;
    }
    case OP_ADDPTR: {
      Index *a = index_of(e, op->in[0]);
      if (!a) return NULL;
      const Type *it = op->in[1]->type;
      Index *b = it->dtype == DT_U64 || it->dtype == DT_I1 ? NULL
                 : indexable(it)                           ? index_of(e, op->in[1])
                                                           : opaque(e, op->in[1]);
      if (!b) return NULL;
      const Type *pt = op->in[0]->type;
      int bytes = pt->ptr > 1 ? 8 : dtype_bytes(pt->dtype);
      return combine(e, a, b, sym_const(e, bytes));
    }
    default: return NULL;
  }
}

Index *index_of(Emit *e, Value *v) {
  stack_guard();
  if (!indexable(v->type)) return NULL;
  Info *info = info_of(e, v);
  if (info->index_known) return info->index;
  Index *x = NULL;
  if (v->type->rank == 0) {
    x = index_new(e);
    x->base = sym_value(e, v);
  } else if (v->def) {
    x = index_of_op(e, v);
  }
  if (!x) x = opaque(e, v);
  info->index = x;
  info->index_known = true;
  return x;
}

bool index_is_plain(Emit *e, Value *v) {
  Index *x = index_of(e, v);
  return x && x->term_count == 0;
}

bool index_equal(const Index *a, const Index *b, int rank) {
  if (a->base != b->base || a->term_count != b->term_count) return false;
  for (int d = 0; d < rank; d++)
    if (a->coef[d] != b->coef[d]) return false;
  for (int i = 0; i < a->term_count; i++) {
    if (a->term[i].value != b->term[i].value || a->term[i].scale != b->term[i].scale) return false;
    if (memcmp(a->term[i].dim, b->term[i].dim, sizeof a->term[i].dim) != 0) return false;
  }
  return true;
}

/* ---- what is cheap enough to be computed wherever it is needed ---- */

enum { RECOMPUTED_COST = 12 };

static int op_cost(const Op *op) {
  switch (op->code) {
    case OP_DIV:
    case OP_REM: return dtype_is_int(type_dtype(op->out[0]->type)) ? 20 : 5; /* a lane at a time */
    case OP_MATH: return 20;
    case OP_MUL:
    case OP_MULHI: return 2;
    default: return 1;
  }
}

bool value_is_recomputable(Emit *e, Value *v) {
  stack_guard();
  Info *info = info_of(e, v);
  if (info->is_recomputable) return info->is_recomputable > 0;
  bool yes = false;
  int cost = 0;
  if (v->type->rank == 0) {
    yes = true;
  } else if (v->def) {
    Op *op = v->def;
    if (op->code == OP_CONST || op->code == OP_ARANGE || op->code == OP_SPLAT) {
      yes = true;
    } else if (index_is_plain(e, v)) {
      yes = true;
      cost = 1;
    } else if (op_is_view(op) || (op_is_elementwise(op) && op->code != OP_BITCAST)) {
      yes = true;
      cost = op_is_view(op) ? 0 : op_cost(op);
      for (int i = 0; yes && i < op->in_count; i++) {
        yes = value_is_recomputable(e, op->in[i]);
        cost += info_of(e, op->in[i])->cost;
      }
      yes = yes && cost <= RECOMPUTED_COST;
    }
  }
  info->is_recomputable = yes ? 1 : -1;
  info->cost = (int16_t)cost;
  return yes;
}

int address_terms(Emit *e, const Op *op, int i, const Term **terms) {
  if (i > 0 || !op_is_access(op) || op->in[0]->type->rank == 0) return 0;
  Index *x = index_of(e, op->in[0]);
  *terms = x->term;
  return x->term_count;
}
