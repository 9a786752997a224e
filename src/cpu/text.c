/* Small pieces of C text: names, literals, lines, comments that quote the kernel's source. */
#include "cpu/emit.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

Dtype type_dtype(const Type *t) { return t->ptr ? DT_I64 : t->dtype; }

Dtype held_dtype(Dtype d) { return dtype_is_float(d) && d != DT_F64 ? DT_F32 : d; }

char *emit_text(Emit *e, const char *format, ...) {
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  size_t size = n < 0 ? 1 : (size_t)n + 1;
  char *s = arena_alloc(e->arena, size);
  vsnprintf(s, size, format, again);
  va_end(again);
  return s;
}

void emit_line(Emit *e, const char *format, ...) {
  for (int i = 0; i < e->indent; i++) buf_puts(e->out, "  ");
  va_list ap;
  va_start(ap, format);
  buf_vprintf(e->out, format, ap);
  va_end(ap);
  buf_putc(e->out, '\n');
}

void quote_source(Emit *e, Buf *out, int indent, const Span *span) {
  if (e->use == CPU_TEXT_COMPILED) return;
  while (span && span->inlined_at) span = span->inlined_at; /* the kernel's own line, not a helper's */
  if (!span || !span->source || span->line <= 0 || span->line > span->source->line_count) return;
  if (span->source == e->last_source && span->line == e->last_line) return;
  e->last_source = span->source;
  e->last_line = span->line;
  const char *at = span->source->text + span->source->line_start[span->line - 1];
  while (*at == ' ' || *at == '\t') at++;
  int n = (int)strcspn(at, "\r\n");
  for (int i = 0; i < indent; i++) buf_puts(out, "  ");
  buf_printf(out, "/* %d: ", span->line);
  for (int i = 0; i < n; i++) {
    buf_putc(out, at[i]);
    if (i + 1 < n && ((at[i] == '*' && at[i + 1] == '/') || (at[i] == '/' && at[i + 1] == '*'))) buf_putc(out, ' ');
  }
  buf_puts(out, " */\n");
}

static char *clean_name(Emit *e, const Value *v) {
  if (!v->name || !*v->name || e->use == CPU_TEXT_COMPILED) return emit_text(e, "v%d", v->id);
  char *s = emit_text(e, "%s_%d", v->name, v->id);
  for (char *c = s; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  if (isdigit((unsigned char)*s) || *s == '_') s = emit_text(e, "v%s", s);
  return s;
}

const char *value_name(Emit *e, Value *v) {
  Info *info = info_of(e, v);
  if (!info->name) info->name = clean_name(e, v);
  return info->name;
}

const char *fresh_name(Emit *e, const Value *v) {
  return v ? emit_text(e, "%s_%d", clean_name(e, v), ++e->serial) : emit_text(e, "t_%d", ++e->serial);
}

static const char *plain_literal(Emit *e, Dtype d, int64_t i, double f) {
  switch (d) {
    case DT_I1: return i ? "1" : "0";
    case DT_I64:
      return i == INT64_MIN                   ? "INT64_MIN"
             : i > INT32_MAX || i < INT32_MIN ? emit_text(e, "INT64_C(%lld)", (long long)i)
                                              : emit_text(e, "%lld", (long long)i);
    case DT_I32: return i == INT32_MIN ? "INT32_MIN" : emit_text(e, "%d", (int)(int32_t)i);
    case DT_I16: return emit_text(e, "%d", (int)(int16_t)i);
    case DT_I8: return emit_text(e, "%d", (int)(int8_t)i);
    case DT_U8: return emit_text(e, "%uu", (unsigned)(uint8_t)i);
    case DT_U16: return emit_text(e, "%uu", (unsigned)(uint16_t)i);
    case DT_U32: return emit_text(e, "%uu", (unsigned)(uint32_t)i);
    case DT_U64: return emit_text(e, "UINT64_C(%llu)", (unsigned long long)i);
    default: break;
  }
  bool wide = d == DT_F64;
  if (isnan(f)) return wide ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")";
  if (isinf(f)) return emit_text(e, "%s__builtin_inf%s()", f < 0 ? "-" : "", wide ? "" : "f");
  char s[64];
  if (wide) {
    snprintf(s, sizeof s, "%.17g", f);
  } else {
    for (int digits = 6; digits <= 9; digits++) {
      snprintf(s, sizeof s, "%.*g", digits, f);
      if (strtof(s, NULL) == (float)f) break;
    }
  }
  if (!strpbrk(s, ".e")) strcat(s, ".0");
  return emit_text(e, "%s%s", s, wide ? "" : "f");
}

/* Negative ones in parentheses, so that any operator may stand before them. */
const char *emit_literal(Emit *e, Dtype d, int64_t i, double f) {
  const char *s = plain_literal(e, d, i, f);
  return *s == '-' ? emit_text(e, "(%s)", s) : s;
}

const char *const_text(Emit *e, const Op *op) {
  const Type *t = op->out[0]->type;
  return emit_literal(e, type_dtype(t), op->value, op->number);
}

const char *scalar_text(Emit *e, Value *v) {
  if (v->def && v->def->code == OP_CONST) return const_text(e, v->def);
  return value_name(e, v);
}

const char *buffer_text(Emit *e, const Buffer *b) { return emit_text(e, "(scratch + %lld)", (long long)b->place); }

void write_argument(Emit *e, int k, Value *v) {
  Dtype d = type_dtype(v->type);
  const char *name = value_name(e, v), *from = emit_text(e, "args[%d]", k);
  if (v->type->ptr || d == DT_I64) emit_line(e, "const int64_t %s = (int64_t)%s;", name, from);
  else if (d == DT_I1) emit_line(e, "const nd_i1 %s = (%s & 255) != 0;", name, from);
  else if (d == DT_F32) emit_line(e, "const nd_f32 %s = nd_cast_f32_u32((uint32_t)%s);", name, from);
  else if (d == DT_F64) emit_line(e, "const nd_f64 %s = nd_cast_f64_u64(%s);", name, from);
  else if (dtype_is_float(d))
    emit_line(e, "const nd_%s %s = nd_from_bits_%s((nd_u%d)%s);", dtype_name(d), name, dtype_name(d), dtype_bits(d),
              from);
  else emit_line(e, "const nd_%s %s = (nd_%s)%s;", dtype_name(d), name, dtype_name(d), from);
}
