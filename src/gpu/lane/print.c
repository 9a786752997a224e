/* The lane IR as text that lane_parse reads back.
 *
 *     kernel @add(%p0: b64 *f32 {divisible=16}, %p1: b64) warps=4 hidden=1 diag=1 shared=1024 {
 *       buffer "acc" bytes=1024 align=16 offset=0
 *       site assert "i < n" @3:8
 *       %0 = special {tid.x} : b32
 *       %1 = const.b32 {0x3f800000} : b32
 *       %2 = setp.f32 %1, %1 {lt} : pred
 *       %3 = ld.b32 @!%2 %p0, %1 {global cg +16} : b32
 *       if %2 {uniform} do () {
 *         yield
 *       } do () {
 *         yield
 *       }
 *     }
 *
 * Values are numbered in the order of the text, whatever their ids; a parameter's name begins with p.
 */
#include "gpu/lane/table.h"

typedef struct Printer {
  Buf *out;
  bool spans;
  int *number; /* by value id; parameters have theirs negative: -1 - i */
  int next;
} Printer;

static void number_block(Printer *p, const LaneBlock *block) {
  stack_guard();
  for (int i = 0; i < block->arg_count && block->parent; i++) p->number[block->args[i]->id] = p->next++;
  for (const LaneOp *op = block->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++) p->number[op->out[i]->id] = p->next++;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) number_block(p, op->body[i]);
  }
}

static void put_value(Printer *p, const LaneValue *v) {
  int n = p->number[v->id];
  if (n < 0) buf_printf(p->out, "%%p%d", -1 - n);
  else buf_printf(p->out, "%%%d", n);
}

static const char *type_name(LaneType t) { return lane_kind_info[lane_bits_kind(t)].name; }

/* Small numbers in decimal, negative ones by the sign of the width; others in hexadecimal. */
static void put_const(Buf *out, LaneType t, uint64_t bits) {
  int64_t v = t == LT_B32 ? (int32_t)(uint32_t)bits : t == LT_B16 ? (int16_t)(uint16_t)bits : (int64_t)bits;
  if (v >= -65536 && v <= 65536) buf_printf(out, "%lld", (long long)v);
  else buf_printf(out, "0x%llx", (unsigned long long)bits);
}

static void put_attrs(Printer *p, const LaneOp *op) {
  const LaneAttr *attrs[LANE_MAX_ATTRS];
  int n = lane_attrs(op->code, attrs);
  Buf *out = p->out;
  const char *before = " {";
  bool memory = lane_is_access(op->code) || lane_is_mbar(op->code) || lane_is_tensor(op->code);
  for (int i = 0; i < n; i++) {
    const LaneAttr *a = attrs[i];
    uint8_t byte = *((const uint8_t *)op + a->offset);
    uint16_t wide = a->kind == LANE_ATTR_WIDE ? *(const uint16_t *)(const void *)((const char *)op + a->offset) : 0;
    bool shown;
    switch (a->kind) {
      case LANE_ATTR_TO: shown = true; break;
      case LANE_ATTR_WIDE: shown = wide != 0; break;
      case LANE_ATTR_BUFFER: shown = op->buffer >= 0; break;
      case LANE_ATTR_TEXT: shown = op->text != NULL; break;
      case LANE_ATTR_IMM:
        shown = op->code == LANE_CONST || op->code == LANE_PARAM || op->code == LANE_SHFL || op->imm != 0;
        break;
      default: shown = a->always_shown || byte != 0;
    }
    if (!shown) continue;
    buf_puts(out, before);
    before = " ";
    switch (a->kind) {
      case LANE_ATTR_FLAG: buf_puts(out, a->name); break;
      case LANE_ATTR_WORD:
        if (byte < a->word_count) buf_puts(out, a->words[byte]);
        else buf_printf(out, "%s?%d", a->name, byte);
        break;
      case LANE_ATTR_NUMBER: buf_printf(out, "%s=%d", a->name, byte); break;
      case LANE_ATTR_WIDE: buf_printf(out, "%s=%d", a->name, wide); break;
      case LANE_ATTR_BUFFER: buf_printf(out, "buffer=%d", op->buffer); break;
      case LANE_ATTR_TO: buf_printf(out, "to=%s", lane_kind_info[op->to].name); break;
      case LANE_ATTR_TEXT:
        buf_puts(out, "text=");
        buf_quote(out, op->text);
        break;
      case LANE_ATTR_IMM:
        if (op->code == LANE_CONST) put_const(out, lane_kind_info[op->kind].type, (uint64_t)op->imm);
        else if (memory) buf_printf(out, "%+lld", (long long)op->imm);
        else buf_printf(out, "imm=%lld", (long long)op->imm);
        break;
    }
  }
  if (*before == ' ' && !before[1]) buf_putc(out, '}');
}

static void put_indent(Buf *out, int indent) {
  for (int i = 0; i < indent; i++) buf_puts(out, "  ");
}

static void put_span(Printer *p, const Span *span) {
  if (p->spans && span && span->line > 0) buf_printf(p->out, " @%d:%d", span->line, span->col);
}

static void put_op(Printer *p, const LaneOp *op, int indent) {
  stack_guard();
  Buf *out = p->out;
  put_indent(out, indent);
  for (int i = 0; i < op->out_count; i++) {
    if (i) buf_puts(out, ", ");
    put_value(p, op->out[i]);
  }
  buf_printf(out, "%s%s", op->out_count ? " = " : "", lane_info[op->code].name);
  if (op->kind != LK_NONE) buf_printf(out, ".%s", lane_kind_info[op->kind].name);
  if (op->guard) {
    buf_puts(out, op->guard_not ? " @!" : " @");
    put_value(p, op->guard);
  }
  for (int i = 0; i < op->in_count; i++) {
    buf_puts(out, i ? ", " : " ");
    put_value(p, op->in[i]);
  }
  put_attrs(p, op);
  for (int i = 0; i < op->out_count; i++) buf_printf(out, "%s%s", i ? ", " : " : ", type_name(op->out[i]->type));
  put_span(p, op->span);
  for (int i = 0; i < 2; i++) {
    const LaneBlock *body = op->body[i];
    if (!body) continue;
    buf_puts(out, " do (");
    for (int j = 0; j < body->arg_count; j++) {
      if (j) buf_puts(out, ", ");
      put_value(p, body->args[j]);
      buf_printf(out, ": %s", type_name(body->args[j]->type));
    }
    buf_puts(out, ") {\n");
    for (const LaneOp *inner = body->first; inner; inner = inner->next) put_op(p, inner, indent + 1);
    put_indent(out, indent);
    buf_putc(out, '}');
  }
  buf_putc(out, '\n');
}

static void put_site(Printer *p, const LaneSite *s) {
  buf_puts(p->out, s->is_assert ? "  site assert " : "  site print ");
  buf_quote(p->out, s->text ? s->text : "");
  if (s->hex) buf_puts(p->out, " hex");
  for (int i = 0; i < s->value_count; i++) {
    buf_puts(p->out, i ? ", " : " : ");
    type_print(p->out, s->types[i]);
  }
  put_span(p, s->span);
  buf_putc(p->out, '\n');
}

void lane_print(Buf *out, const LaneFunc *f, bool spans) {
  Printer p = {.out = out, .spans = spans, .number = NEW_N(f->cx->arena, int, f->value_count + 1)};
  if (!p.number) { /* outside of a context_try */
    out->failed = true;
    return;
  }
  for (int i = 0; i < f->param_count; i++) p.number[f->params[i]->id] = -1 - i;
  number_block(&p, f->body);

  buf_printf(out, "kernel @%s(", f->name);
  for (int i = 0; i < f->param_count; i++) {
    buf_printf(out, "%s%%p%d: %s", i ? ", " : "", i, type_name(f->params[i]->type));
    if (f->param_types[i]) {
      buf_putc(out, ' ');
      type_print(out, f->param_types[i]);
    }
    if (f->param_divisible[i] > 1) buf_printf(out, " {divisible=%lld}", (long long)f->param_divisible[i]);
  }
  buf_printf(out, ") warps=%d", f->num_warps);
  if (f->hidden_params) buf_printf(out, " hidden=%d", f->hidden_params);
  if (f->maps) buf_printf(out, " maps=%d", f->maps);
  if (f->uses_diag) buf_puts(out, " diag=1");
  if (f->uses_list) buf_puts(out, " list=1");
  if (f->shared_bytes) buf_printf(out, " shared=%d", f->shared_bytes);
  if (f->persistent) buf_puts(out, " persistent=1");
  if (f->cluster) buf_printf(out, " cluster=%d", f->cluster);
  buf_puts(out, " {\n");
  for (int i = 0; i < f->buffers.n; i++) {
    const LaneBuffer *b = &f->buffers.at[i];
    buf_puts(out, "  buffer ");
    buf_quote(out, b->name);
    buf_printf(out, " bytes=%d align=%d", b->bytes, b->align);
    if (b->offset >= 0) buf_printf(out, " offset=%d", b->offset);
    if (b->ring) buf_printf(out, " ring=%d", b->ring);
    buf_putc(out, '\n');
  }
  for (int i = 0; i < f->sites.n; i++) put_site(&p, &f->sites.at[i]);
  for (const LaneOp *op = f->body->first; op; op = op->next) put_op(&p, op, 1);
  buf_puts(out, "}\n");
}
