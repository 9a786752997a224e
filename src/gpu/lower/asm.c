/* lower_asm: inline_asm_elementwise.
 *
 * The assembly works on `pack` elements at a time: the next `pack` registers of each operand. Elements narrower than 32
 * bits share registers:
 *
 *     pack=4, int8   one 32-bit register holds four       pack=2, float16  one holds two
 *     pack=1, int8   one register, the element in its low bits
 *
 * so that an operand takes pack * bits / 32 registers (at least one), elements of 32 bits and more `pack` of them.
 * Constraints come in the order of the text's $0, $1, ...: results, then operands. r and f are 32-bit registers, h
 * 16-bit, l and d 64-bit ones; n is a number known now, which is written into the text. Where a thread holds fewer
 * elements than `pack`, the last is repeated.
 */
#include "gpu/lower/lower.h"

#include <stdlib.h>

enum { MOST = 256 };

static NORETURN void refuse(Lower *l, const Op *op, const char *what) {
  diag_fail(l->cx, op->span ? *op->span : (Span){0}, "inline_asm_elementwise: %s", what);
}

/* One of these a register: the letter, and whether it is a result. */
typedef struct Constraint {
  char letter;
  bool result;
} Constraint;

static int read_constraints(Lower *l, const Op *op, const char *text, Constraint *out) {
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
      refuse(l, op,
             arena_printf(l->cx->arena, "the constraint '%.*s' is not one of r, f, h, l, d, n", (int)(end - p), p));
    if (n == MOST) refuse(l, op, "more than 256 constraints");
    out[n++] = c;
    p = end;
  }
  return n;
}

static LaneType register_of(char letter) {
  return letter == 'h' ? LT_B16 : letter == 'l' || letter == 'd' ? LT_B64 : LT_B32;
}

static int bits_of(const Type *t) { return t->ptr ? 64 : dtype_bits(t->dtype) < 8 ? 8 : dtype_bits(t->dtype); }

/* Elements a register takes. */
static int share_of(const Type *t, int pack) {
  int most = bits_of(t) < 32 ? 32 / bits_of(t) : 1;
  return most < pack ? most : pack;
}

/* What a register of `type` is when it holds these elements. */
static LaneValue *to_register(Lower *l, const Op *op, const Type *t, LaneType type, LaneValue *const *x, int n) {
  LaneBuilder *b = &l->b;
  LaneValue *v, *part[4], *high;
  for (int i = 0; i < n; i++) {
    part[i] = x[i];
    if (x[i]->type == LT_PRED) part[i] = lane_select(b, x[i], lane_i32(b, 1), lane_i32(b, 0));
  }
  if (part[0]->type == LT_B64) v = part[0];
  else if (n == 1)
    v = part[0]->type == LT_B16 && type != LT_B16 ? lane_pack(b, part[0], lane_const(b, LT_B16, 0)) : part[0];
  else v = lower_pack_word(l, bits_of(t) / 8, part[0]->type, part, n);
  if (v->type == LT_B32 && type == LT_B16) {
    lane_unpack(b, v, &v, &high);
    return v;
  }
  if (v->type != type) refuse(l, op, "a constraint names a register of another width than its elements");
  return v;
}

static void from_register(Lower *l, const Op *op, const Type *t, LaneValue *v, LaneValue **x, int n) {
  LaneBuilder *b = &l->b;
  LaneType want = lane_type_of(t);
  LaneKind k = lane_kind_of(t);
  if ((want == LT_B64) != (v->type == LT_B64))
    refuse(l, op, "a constraint names a register of another width than its elements");
  if (want == LT_B64) {
    x[0] = v;
    return;
  }
  if (v->type == LT_B16 && want == LT_B16 && n == 1) {
    x[0] = v;
    return;
  }
  if (v->type == LT_B16) v = lane_pack(b, v, lane_const(b, LT_B16, 0));
  if (bits_of(t) == 32) x[0] = v;
  else lower_unpack_word(l, k, v, n, x);
}

/* The text with numbers in place of the operands known now, and the others counted anew. known[k]: which it is. */
static const char *with_numbers(Lower *l, const char *text, const Value *const *known, int n) {
  Buf out = {0};
  for (const char *c = text; *c; c++) {
    const char *digits = c + 1 + (c[1] == '{');
    size_t length = *c == '$' ? strspn(digits, "0123456789") : 0;
    int k = length && length < 4 ? atoi(digits) : n, before = 0;
    if (k >= n) {
      buf_putc(&out, *c);
      if (*c == '$' && c[1] == '$') buf_putc(&out, *++c);
      continue;
    }
    for (int i = 0; i < k; i++) before += known[i] != NULL;
    int64_t v = 0;
    if (known[k] && value_is_const(known[k], &v)) buf_printf(&out, "%lld", (long long)v);
    else buf_printf(&out, "$%d", k - before);
    c = digits + length - (c[1] != '{');
  }
  const char *kept = arena_strdup(l->cx->arena, out.at ? out.at : "");
  bool failed = out.failed;
  buf_destroy(&out);
  if (failed) context_out_of_memory(l->cx);
  return kept;
}

void lower_asm(Lower *l, Op *op) {
  int pack = (int)op->pack < 1 ? 1 : (int)op->pack, n = lower_count(op->out[0]);
  const char *split = strchr(op->text, '\x1f');
  if (!split) refuse(l, op, "there are no constraints");
  Constraint *c = NEW_N(l->cx->arena, Constraint, MOST);
  int constraints = read_constraints(l, op, split + 1, c), results = 0, operands = 0;
  for (int i = 0; i < op->out_count; i++) results += pack / share_of(op->out[i]->type, pack);
  for (int i = 0; i < op->in_count; i++) operands += pack / share_of(op->in[i]->type, pack);
  for (int i = 0; i < constraints; i++)
    if (c[i].result != (i < results)) constraints = -1;
  if (constraints != results + operands)
    refuse(l, op,
           arena_printf(
               l->cx->arena,
               "%d results and %d operands need as many constraints, results ('=') first, in this order (with pack=%d)",
               results, operands, pack));
  const char *text = arena_strndup(l->cx->arena, op->text, (size_t)(split - op->text));
  const Value **known = NEW_N(l->cx->arena, const Value *, constraints + 1);
  int64_t number;
  for (int i = 0, k = results; i < op->in_count; i++)
    for (int e = 0; e < pack; e += share_of(op->in[i]->type, pack), k++) {
      if (c[k].letter != 'n') continue;
      if (!value_is_const(op->in[i], &number)) refuse(l, op, "an operand with the constraint 'n' is no constant");
      known[k] = op->in[i];
    }
  text = with_numbers(l, text, known, constraints);
  LaneValue **in = lower_array(l, operands), ***out = NEW_N(l->cx->arena, LaneValue **, op->out_count);
  LaneType *types = NEW_N(l->cx->arena, LaneType, results + 1);
  for (int i = 0; i < results; i++) types[i] = register_of(c[i].letter);
  for (int i = 0; i < op->out_count; i++) out[i] = lower_array(l, n);
  for (int r = 0; r < n; r += pack) {
    int k = 0, taken = 0;
    LaneValue *x[4];
    for (int i = 0; i < op->in_count; i++) {
      int share = share_of(op->in[i]->type, pack);
      LaneValue **regs = lower_get(l, op->in[i]);
      for (int e = 0; e < pack; e += share, k++) {
        if (known[results + k]) continue;
        for (int j = 0; j < share; j++) x[j] = regs[r + e + j < n ? r + e + j : n - 1];
        in[taken++] = to_register(l, op, op->in[i]->type, register_of(c[results + k].letter), x, share);
      }
    }
    LaneOp proto = {.code = LANE_ASM, .kind = LK_NONE, .text = text, .is_pure = op->pure != 0, .buffer = -1};
    LaneOp *done = lane_op_raw(&l->b, proto, taken, in, results, types);
    k = 0;
    for (int i = 0; i < op->out_count; i++) {
      int share = share_of(op->out[i]->type, pack);
      for (int e = 0; e < pack; e += share, k++) {
        from_register(l, op, op->out[i]->type, done->out[k], x, share);
        for (int j = 0; j < share && r + e + j < n; j++) out[i][r + e + j] = x[j];
      }
    }
  }
  for (int i = 0; i < op->out_count; i++) lower_set(l, op->out[i], out[i]);
}
