/* The pass: every `asm` becomes operations of the tile IR.
 *
 * The assembly works on `pack` elements at a time, which share registers as gpu/lower/asm.c has it: pack=4 of int8 is
 * one 32-bit register, of f32 four. With pack=1 the operations are on whole tensors; else the assembly is the body of a
 * `map` over groups of `pack` neighbours, whose scalars are parts of registers.
 */
#include "tile/asm/asm.h"

enum { MOST = 256 };

typedef struct Constraint {
  char letter;
  bool result;
} Constraint;

static int read_constraints(Asm *x, const char *text, Constraint *out) {
  int n = 0;
  for (const char *p = text; *p;) {
    while (*p == ' ' || *p == ',') p++;
    if (!*p) break;
    const char *end = p + strcspn(p, ",");
    if (*p == '~') { /* a clobber, which says nothing here */
      p = end;
      continue;
    }
    Constraint c = {0};
    if (*p == '=') c.result = true, p++;
    if (*p == '&') p++;
    c.letter = *p;
    if (!c.letter || !strchr("rfhldn", c.letter))
      asm_refuse(x, "the constraint '%.*s' is not one of r, f, h, l, d, n", (int)(end - p), p);
    if (n == MOST) asm_refuse(x, "more than %d constraints", MOST);
    out[n++] = c;
    p = end;
  }
  return n;
}

static int element_bits(const Type *t) { return t->ptr ? 64 : dtype_bits(t->dtype) < 8 ? 8 : dtype_bits(t->dtype); }

/* Elements a register takes. */
static int share_of(const Type *t, int pack) {
  int most = element_bits(t) < 32 ? 32 / element_bits(t) : 1;
  return most < pack ? most : pack;
}

static int register_bits(Asm *x, char letter, const Type *t) {
  if (letter == 'n') return element_bits(t) < 32 ? 32 : element_bits(t);
  return letter == 'h' ? 16 : letter == 'l' || letter == 'd' ? 64 : 32;
}

static void check_width(Asm *x, const AsmReg *r, int used) {
  if (used > r->bits)
    asm_refuse(x, "%s has %d bits by its constraint, and its elements have %d", r->name, r->bits, used);
}

static void fill_register(Asm *x, AsmReg *r, const Type *t, Value *const *element, int share) {
  int used = element_bits(t) * share;
  check_width(x, r, used);
  AsmReg low = {.name = r->name, .bits = used, .parts = share};
  for (int k = 0; k < share; k++)
    low.part[k] = !t->ptr && t->dtype == DT_I1 ? build_convert(x->b, element[k], DT_U8) : element[k];
  r->parts = 0;
  if (used == r->bits) {
    r->parts = share;
    memcpy(r->part, low.part, sizeof low.part);
    return;
  }
  Value *v;
  asm_parts(x, &low, 1, &v);
  AsmOperand to = {.kind = ASM_REG, .reg = r};
  Dtype u = used == 8 ? DT_U8 : used == 16 ? DT_U16 : DT_U32;
  asm_set_operand(x, &to, asm_as(x, v, u));
}

static void read_elements(Asm *x, AsmReg *r, const Type *t, Value **element, int share) {
  int width = element_bits(t), used = width * share;
  check_width(x, r, used);
  AsmReg low = *r;
  if (used < r->bits) {
    AsmOperand from = {.kind = ASM_REG, .reg = r};
    low = (AsmReg){.name = r->name, .bits = used, .parts = 1};
    low.part[0] = asm_get_operand(x, &from, used == 8 ? DT_U8 : used == 16 ? DT_U16 : DT_U32);
  }
  asm_parts(x, &low, share, element);
  for (int k = 0; k < share; k++) {
    if (t->ptr) {
      if (element[k]->type->ptr == 0) element[k] = asm_as(x, element[k], DT_U64);
      element[k] = build_bitcast(x->b, element[k], type_elem(x->b->func->cx, t));
    } else if (t->dtype == DT_I1) {
      Value *bits = asm_as(x, element[k], DT_U8);
      element[k] = build_cmp(x->b, CMP_NE, asm_2(x, OP_AND, bits, asm_const(x, DT_U8, 1)), asm_const(x, DT_U8, 0));
    } else {
      element[k] = asm_as(x, element[k], t->dtype);
    }
  }
}

/* `in` and `out` hold pack elements of each operand and result, one after the other. */
static void expand_group(Asm *x, const char *text, const Constraint *c, int results, int pack, Value *const *in,
                         Value **out) {
  const Op *op = x->op;
  int k = 0;
  for (int i = 0; i < op->out_count; i++)
    for (int e = 0; e < pack; e += share_of(op->out[i]->type, pack), k++)
      x->operand[k].bits = register_bits(x, c[k].letter, op->out[i]->type);
  for (int i = 0; i < op->in_count; i++) {
    const Type *t = op->in[i]->type;
    int share = share_of(t, pack);
    for (int e = 0; e < pack; e += share, k++) {
      x->operand[k].bits = register_bits(x, c[k].letter, t);
      fill_register(x, &x->operand[k], t, &in[i * pack + e], share);
    }
  }
  asm_read(x, text);
  k = 0;
  for (int i = 0; i < op->out_count; i++) {
    int share = share_of(op->out[i]->type, pack);
    for (int e = 0; e < pack; e += share, k++)
      read_elements(x, &x->operand[k], op->out[i]->type, &out[i * pack + e], share);
  }
}

/* A map over groups of `group` neighbours; where a tensor has fewer elements than the assembly takes at a time, the
 * last one is repeated. */
static void expand_map(Asm *x, const char *text, const Constraint *c, int results, int pack, int group) {
  const Op *op = x->op;
  Func *f = x->b->func;
  Context *cx = f->cx;
  const Type **types = NEW_N(cx->arena, const Type *, op->out_count + 1);
  for (int i = 0; i < op->out_count; i++) types[i] = op->out[i]->type;
  Op *map = build_op(x->b, OP_MAP, op->in_count, op->in, op->out_count, types);
  map->pack = group;
  Block *body = block_create(f, map);
  Value **in = NEW_N(cx->arena, Value *, op->in_count * pack + 1),
        **out = NEW_N(cx->arena, Value *, op->out_count * pack);
  for (int i = 0; i < op->in_count; i++)
    for (int e = 0; e < pack; e++)
      in[i * pack + e] =
          e < group ? block_add_arg(f, body, type_elem(cx, op->in[i]->type), NULL) : in[i * pack + group - 1];
  Builder inner = {.func = f, .block = body, .span = op->span}, *outer = x->b;
  x->b = &inner;
  x->shape = type_number(cx, DT_I32);
  expand_group(x, text, c, results, pack, in, out);
  for (int i = 0; i < op->out_count; i++) memmove(&out[i * group], &out[i * pack], sizeof *out * (size_t)group);
  build_yield(&inner, op->out_count * group, out);
  x->b = outer;
  for (int i = 0; i < op->out_count; i++) value_replace(op->out[i], map->out[i]);
}

static void expand(Func *f, Op *op) {
  Context *cx = f->cx;
  for (int i = 0; i < op->in_count; i++) op->in[i] = value_replacement(op->in[i]);
  Builder b = {.func = f, .block = op->block, .before = op, .span = op->span};
  Asm x = {.b = &b, .op = op, .shape = op->out[0]->type};
  int pack = op->pack < 1 ? 1 : (int)op->pack, results = 0, operands = 0;
  const char *split = strchr(op->text, '\x1f');
  if (!split) asm_refuse(&x, "there are no constraints");
  Constraint c[MOST];
  int n = read_constraints(&x, split + 1, c);
  bool ordered = true;
  for (int i = 0; i < op->out_count; i++) results += pack / share_of(op->out[i]->type, pack);
  for (int i = 0; i < op->in_count; i++) operands += pack / share_of(op->in[i]->type, pack);
  for (int i = 0; i < n; i++) ordered = ordered && c[i].result == (i < results);
  if (!ordered || n != results + operands)
    asm_refuse(&x,
               "%d results and %d operands need as many constraints, results ('=') first, in this order (with pack=%d)",
               results, operands, pack);
  x.operand = NEW_N(cx->arena, AsmReg, n + 1);
  x.operand_count = n;
  for (int i = 0; i < n; i++) x.operand[i].name = arena_printf(cx->arena, "$%d", i);
  const char *text = arena_strndup(cx->arena, op->text, (size_t)(split - op->text));
  int64_t size = type_numel(op->out[0]->type);
  int group = size < pack ? (int)size : pack;
  if (group > 1) {
    if (size % group) asm_refuse(&x, "pack=%d does not divide the number of elements", pack);
    expand_map(&x, text, c, results, pack, group);
  } else {
    Value **in = NEW_N(cx->arena, Value *, op->in_count * pack + 1),
          **out = NEW_N(cx->arena, Value *, op->out_count * pack);
    for (int i = 0; i < op->in_count * pack; i++) in[i] = op->in[i / pack];
    expand_group(&x, text, c, results, pack, in, out);
    for (int i = 0; i < op->out_count; i++) value_replace(op->out[i], out[i * pack]);
  }
  op_remove(op);
}

static void visit(Op *op, void *arg) {
  if (op->code == OP_ASM) expand(arg, op);
}

void tile_expand_asm(Func *f) {
  tile_walk(f->body, visit, f);
  tile_replace_uses(f);
}
