/* The rules that layout_choose promises (layout.h), checked: what lowering relies on, operation by operation.
 *
 *     error: wrong layouts: 'add': operand 1 is held as "reg 1 2 | lane 4 ...", the result as "reg 1 | lane 2 ..."
 */
#include "layout/choose.h"

typedef struct Check {
  Context *cx;
  const Func *f;
  int lane_bits, warp_bits;
} Check;

static NORETURN PRINTF_LIKE(3, 4) void bad(const Check *k, const Op *op, const char *format, ...) {
  char what[600];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof what, format, ap);
  va_end(ap);
  Buf text = {.arena = k->cx->arena};
  tile_print_op(&text, op, 0, 0);
  const char *line = text.at ? arena_strndup(k->cx->arena, text.at, strcspn(text.at, "\n")) : NULL;
  buf_destroy(&text);
  diag_fail_hint(k->cx, op->span ? *op->span : (Span){0}, line, "wrong layouts: '%s': %s", op_info[op->code].name,
                 what);
}

static const char *show(const Check *k, const Layout *l) {
  if (!l) return "nothing";
  Buf text = {.arena = k->cx->arena};
  static const char *const names[] = {"reg", " | lane", " | warp"};
  int counts[] = {l->reg_bits, l->lane_bits, l->warp_bits};
  for (int part = 0, i = 0; part < 3; part++) {
    buf_puts(&text, names[part]);
    for (int n = 0; n < counts[part]; n++) buf_printf(&text, " %u", l->basis[i++]);
  }
  const char *kept = text.at ? arena_strdup(k->cx->arena, text.at) : "?";
  buf_destroy(&text);
  return kept;
}

static void need(const Check *k, const Op *op, const char *what, int i, const Value *v, const Layout *want) {
  if (is_tensor(v) && v->layout != want)
    bad(k, op, "%s %d is held as \"%s\", not \"%s\"", what, i, show(k, v->layout), show(k, want));
}

/* A tensor's own: a layout that covers it, for this many threads, registers independent. */
static void check_value(const Check *k, const Op *op, const Value *v) {
  const Layout *l = v->layout;
  if (!is_tensor(v)) {
    if (l) bad(k, op, "a scalar has a layout");
    return;
  }
  if (!l) bad(k, op, "a tensor has no layout");
  if (l->lane_bits != k->lane_bits || l->warp_bits != k->warp_bits)
    bad(k, op, "\"%s\" is not for these threads", show(k, l));
  if (l->out_bits != log2_floor(type_numel(v->type))) bad(k, op, "\"%s\" has %d bits", show(k, l), l->out_bits);
  F2Map whole = layout_map(l), regs = f2_columns(&whole, 0, l->reg_bits);
  if (f2_rank(&whole) != l->out_bits) bad(k, op, "\"%s\" does not cover the tensor", show(k, l));
  if (f2_rank(&regs) != l->reg_bits) bad(k, op, "\"%s\" holds elements twice", show(k, l));
}

static void check_shared(const Check *k, const Op *op) {
  const Layout *l = NULL;
  for (int i = 0; i < op->in_count && !l; i++) l = op->in[i]->layout;
  for (int i = 0; i < op->out_count && !l; i++) l = op->out[i]->layout;
  for (int i = 0; i < op->in_count; i++) need(k, op, "operand", i, op->in[i], l);
  for (int i = 0; i < op->out_count; i++) need(k, op, "result", i, op->out[i], l);
  if (l && !layout_suits(op, l)) bad(k, op, "cannot work on \"%s\"", show(k, l));
}

static void check_carried(const Check *k, const Op *op) {
  for (int i = 0; i < op->out_count; i++) {
    const Layout *l = op->out[i]->layout;
    if (op->code != OP_IF) need(k, op, "operand", i, op->in[i + control_skip(op)], l);
    for (int b = 0; b < op_info[op->code].regions; b++) {
      const Op *end = op->body[b]->last;
      if (op->code != OP_IF) need(k, op, "body argument", i, op->body[b]->args[i + (op->code == OP_FOR)], l);
      need(k, end, "operand", i, end->in[i + (end->code == OP_CONDITION)], l);
    }
  }
}

static void check_op(const Check *k, const Op *op) {
  switch (op->code) {
    case OP_BROADCAST:
    case OP_EXPAND_DIMS:
    case OP_RESHAPE:
    case OP_TRANS:
    case OP_JOIN:
    case OP_CAT:
      for (int i = 0; i < op->in_count; i++)
        if (is_tensor(op->in[i]) && is_tensor(op->out[0]))
          need(k, op, "operand", i, op->in[i], layout_backward(k->cx, op, i, op->out[0]->layout));
      return;
    case OP_SPLIT: {
      if (!layout_suits(op, op->in[0]->layout))
        bad(k, op, "the last dim of \"%s\" is in no register's vector", show(k, op->in[0]->layout));
      for (int i = 0; i < 2; i++) need(k, op, "result", i, op->out[i], layout_forward(k->cx, op, 0, op->in[0]->layout));
      return;
    }
    case OP_REDUCE: {
      const Layout *l = op->in[0]->layout;
      if (!l) return;
      for (int i = 0; i < op->in_count; i++) need(k, op, "operand", i, op->in[i], l);
      if (!layout_suits(op, l)) bad(k, op, "cannot work on \"%s\"", show(k, l));
      for (int i = 1; i < op->out_count; i++) need(k, op, "result", i, op->out[i], op->out[0]->layout);
      return;
    }
    case OP_TMEM_STORE:
      need(k, op, "operand", 1, op->in[1], layout_for_tmem(k->cx, op->in[1]->type, k->f->num_warps));
      return;
    case OP_DOT: need(k, op, "operand", 2, op->in[2], op->out[0]->layout); return;
    case OP_GATHER: need(k, op, "operand", 1, op->in[1], op->out[0]->layout); return;
    case OP_HISTOGRAM:
      if (op->in_count > 1) need(k, op, "operand", 1, op->in[1], op->in[0]->layout);
      return;
    case OP_PRINT:
      for (int i = 0; i < op->in_count; i++)
        for (int j = 0; j < i; j++)
          if (type_same_shape(op->in[i]->type, op->in[j]->type))
            need(k, op, "operand", i, op->in[i], op->in[j]->layout);
      return;
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: check_carried(k, op); return;
    default:
      if (op_shares_layout(op)) check_shared(k, op);
  }
}

static void check_block(const Check *k, const Block *b) {
  stack_guard();
  for (int i = 0; i < b->arg_count; i++)
    if (b->parent) check_value(k, b->parent, b->args[i]);
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++) check_value(k, op, op->out[i]);
    check_op(k, op);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) check_block(k, op->body[i]);
  }
}

/* Of the first tensor; all others must have as many. */
static void find_threads(Op *op, void *arg) {
  Check *k = arg;
  for (int i = 0; i < op->out_count && k->lane_bits < 0; i++)
    if (op->out[i]->layout) k->lane_bits = op->out[i]->layout->lane_bits, k->warp_bits = op->out[i]->layout->warp_bits;
}

void layout_verify(const Func *f) {
  Check k = {.cx = f->cx, .f = f, .lane_bits = -1};
  tile_walk(f->body, find_threads, &k);
  if (k.lane_bits < 0) k.lane_bits = 5, k.warp_bits = log2_floor(f->num_warps);
  check_block(&k, f->body);
}
