/* The IR as text that tile_parse reads back.
 *
 *     kernel @copy(%x: *f32 {divisible=16}, %n: i32) warps=8 {
 *       %0 = arange {start=0, end=64} : i32[64]
 *       %p = splat %x : *f32[64] @3:8
 *     }
 *
 * Values are numbered in the order of the text, whatever their ids; one with a name from the source shows it, with a
 * number after it from the second of that name on. So text -> Func -> text gives the same text.
 */
#include "tile/tile.h"

#include <math.h>
#include <stdlib.h>

typedef struct Printer {
  Buf *out;
  int flags;
  const char **names; /* by value id; NULL when single operations are printed */
  int name_count;
  Arena *arena;
  TileNote note; /* or NULL */
  void *note_arg;
} Printer;

/* ---- names of values --------------------------------------------------------------------------------------------- */

/* Names that the parser takes and that cannot be a number. */
static bool name_is_plain(const char *name) {
  if (!name || !*name || (*name >= '0' && *name <= '9')) return false;
  for (const char *s = name; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (!(c >= 0x80 || c == '_' || c == '.' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')))
      return false;
  }
  return true;
}

typedef struct Naming {
  Printer *p;
  Map *used;  /* name as printed -> how many numbers were tried after it, + 1 */
  int number; /* of the next value without a name */
} Naming;

static void name_value(Naming *n, const Value *v) {
  Arena *arena = n->p->arena;
  if (!name_is_plain(v->name)) {
    n->p->names[v->id] = arena_printf(arena, "%d", n->number++);
    return;
  }
  const char *name = v->name;
  intptr_t tried = (intptr_t)map_get(n->used, v->name);
  if (tried) {
    do name = arena_printf(arena, "%s_%d", v->name, (int)++tried);
    while (map_has(n->used, name));
    map_put(n->used, v->name, (void *)tried);
  }
  map_put(n->used, name, (void *)(intptr_t)1);
  n->p->names[v->id] = name;
}

static void name_block(Naming *n, const Block *b) {
  stack_guard();
  for (int i = 0; i < b->arg_count; i++) name_value(n, b->args[i]);
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++) name_value(n, op->out[i]);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) name_block(n, op->body[i]);
  }
}

/* As it is defined: of an operation that nobody uses any more, what has taken a result's place is not its name. */
static void put_name(Printer *p, const Value *v) {
  if (p->names && v->id < p->name_count && p->names[v->id]) buf_printf(p->out, "%%%s", p->names[v->id]);
  else if (name_is_plain(v->name)) buf_printf(p->out, "%%%s_%d", v->name, v->id);
  else buf_printf(p->out, "%%%d", v->id);
}

static void put_value(Printer *p, const Value *v) {
  while (v->replacement) v = v->replacement;
  put_name(p, v);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* The fewest digits that still give v once the reader has rounded them to type t. */
static void put_number(Buf *out, Dtype t, double v) {
  if (!isfinite(v) || v == 0) {
    buf_double(out, v);
    return;
  }
  for (int digits = 1; digits < 17 && t != DT_F64; digits++) {
    char text[40], memory[8] = {0};
    snprintf(text, sizeof text, "%.*e", digits - 1, v);
    double shorter = strtod(text, NULL); /* the locale's point goes out and comes back in */
    dtype_store_float(t, memory, shorter);
    if (isfinite(shorter) && dtype_load_float(t, memory) == v) {
      v = shorter;
      break;
    }
  }
  buf_double(out, v);
}

static void put_dims(Buf *out, const int64_t *dims, int n) {
  for (int i = 0; i < n; i++) buf_printf(out, "%s%lld", i ? ", " : "[", (long long)dims[i]);
  buf_puts(out, n ? "]" : "[]");
}

static void put_attrs(Printer *p, const Op *op) {
  Buf *out = p->out;
  AttrInfo attrs[MAX_ATTRS];
  int n = op_attrs(op->code, attrs);
  const char *before = " {";
  bool is_const = op->code == OP_CONST;
  const Type *type = op->out_count ? op->out[0]->type : NULL;
  bool float_const = is_const && type && !type->ptr && dtype_is_float(type->dtype);

  for (int i = 0; i < n; i++) {
    const AttrInfo *a = &attrs[i];
    int64_t value = a->slot >= 0 ? op->attr[a->slot] : 0;
    bool shown = a->kind == ATTR_DIMS     ? op->dim_count > 0
                 : a->kind == ATTR_TEXT   ? op->text != NULL
                 : a->kind == ATTR_NUMBER ? float_const
                 : is_const               ? !float_const
                                          : value != 0 || a->always_shown;
    if (!shown) continue;
    buf_printf(out, "%s%.*s=", before, is_const ? 5 : a->name_length, is_const ? "value" : a->name);
    before = ", ";
    const char *word = a->kind == ATTR_WORD || a->kind == ATTR_MATH ? attr_word(a, value) : NULL;
    if (a->kind == ATTR_DIMS) put_dims(out, op->dims, op->dim_count);
    else if (a->kind == ATTR_TEXT) buf_quote(out, op->text);
    else if (a->kind == ATTR_NUMBER) put_number(out, type->dtype, op->number);
    else if (word) buf_puts(out, word);
    else if (is_const && type && type->dtype == DT_U64) buf_printf(out, "%llu", (unsigned long long)value);
    else buf_printf(out, "%lld", (long long)value);
  }
  if (*before == ',') buf_putc(out, '}');
}

static void put_axis_info(Buf *out, const Value *v) {
  int rank = v->type->rank ? v->type->rank : 1;
  buf_puts(out, " // divisible=");
  put_dims(out, v->axis->divisible, rank);
  buf_puts(out, " contiguous=");
  put_dims(out, v->axis->contiguous, rank);
  buf_puts(out, " constant=");
  put_dims(out, v->axis->constant, rank);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void put_indent(Buf *out, int indent) {
  for (int i = 0; i < indent; i++) buf_puts(out, "  ");
}

static void put_op(Printer *p, const Op *op, int indent);

static void put_typed_values(Printer *p, const Block *b) {
  buf_putc(p->out, '(');
  for (int i = 0; i < b->arg_count; i++) {
    if (i) buf_puts(p->out, ", ");
    put_name(p, b->args[i]);
    buf_puts(p->out, ": ");
    type_print(p->out, b->args[i]->type);
  }
  buf_putc(p->out, ')');
}

static void put_op(Printer *p, const Op *op, int indent) {
  stack_guard();
  Buf *out = p->out;
  put_indent(out, indent);
  for (int i = 0; i < op->out_count; i++) {
    if (i) buf_puts(out, ", ");
    put_name(p, op->out[i]);
  }
  buf_printf(out, "%s%s", op->out_count ? " = " : "", op_info[op->code].name);
  for (int i = 0; i < op->in_count; i++) {
    buf_puts(out, i ? ", " : " ");
    put_value(p, op->in[i]);
  }
  put_attrs(p, op);
  for (int i = 0; i < op->out_count; i++) {
    buf_puts(out, i ? ", " : " : ");
    type_print(out, op->out[i]->type);
  }
  if (p->flags & PRINT_SPANS && op->span && op->span->line > 0)
    buf_printf(out, " @%d:%d", op->span->line, op->span->col);
  for (int i = 0; i < op_info[op->code].regions; i++) {
    if (!op->body[i]) continue;
    buf_puts(out, " do ");
    put_typed_values(p, op->body[i]);
    buf_puts(out, " {");
    if (p->note && i == 0) p->note(out, op, p->note_arg);
    buf_putc(out, '\n');
    for (const Op *inner = op->body[i]->first; inner; inner = inner->next) put_op(p, inner, indent + 1);
    put_indent(out, indent);
    buf_putc(out, '}');
  }
  if (p->flags & PRINT_AXIS_INFO && op->out_count == 1 && op->out[0]->axis) put_axis_info(out, op->out[0]);
  if (p->note && !op->body[0]) p->note(out, op, p->note_arg);
  buf_putc(out, '\n');
}

void tile_print_op(Buf *out, const Op *op, int indent, int flags) {
  put_op(&(Printer){.out = out, .flags = flags}, op, indent);
}

void tile_print(Buf *out, const Func *f, int flags) { tile_print_noted(out, f, flags, NULL, NULL); }

void tile_print_noted(Buf *out, const Func *f, int flags, TileNote note, void *arg) {
  Printer p = {.out = out, .flags = flags, .arena = f->cx->arena, .note = note, .note_arg = arg};
  p.names = NEW_N(p.arena, const char *, f->value_count + 1);
  Map *used = map_create(p.arena, true);
  if (!p.names || !used) { /* outside of a context_try */
    out->failed = true;
    return;
  }
  p.name_count = f->value_count;
  name_block(&(Naming){.p = &p, .used = used}, f->body);

  buf_printf(out, "kernel @%s(", f->name);
  for (int i = 0; i < f->body->arg_count; i++) {
    if (i) buf_puts(out, ", ");
    put_value(&p, f->body->args[i]);
    buf_puts(out, ": ");
    type_print(out, f->body->args[i]->type);
    if (f->arg_divisible[i] > 1) buf_printf(out, " {divisible=%lld}", (long long)f->arg_divisible[i]);
  }
  buf_putc(out, ')');
  if (f->num_warps != 4) buf_printf(out, " warps=%d", f->num_warps);
  if (f->num_stages != 3) buf_printf(out, " stages=%d", f->num_stages);
  if (f->num_ctas != 1) buf_printf(out, " ctas=%d", f->num_ctas);
  if (f->debug) buf_puts(out, " debug=1");
  if (f->persistent) buf_puts(out, " persistent=1");
  buf_puts(out, " {\n");
  for (const Op *op = f->body->first; op; op = op->next) put_op(&p, op, 1);
  buf_puts(out, "}\n");
}
