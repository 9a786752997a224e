/* Operations on whole tiles, which read and write kept tiles (plan.c has put them there, rows one after the other):
 * dot, sort, histogram, gather, map, device_print, device_assert, and tiles that become scalars.
 */
#include "cpu/library.h"

Dtype kept(const Value *v) { return type_dtype(v->type); }

const char *view_text(Emit *e, const View *v) {
  return emit_text(e, "scratch + %lld", (long long)(v->buffer->place + v->offset * dtype_bytes(v->buffer->dtype)));
}

/* "(const void *)(scratch + 128)" and the like, to element [at] (text). */
const char *element_at(Emit *e, const View *v, const char *at) {
  return emit_text(e, "(void *)(%s + (%s) * %d)", view_text(e, v), at, dtype_bytes(v->buffer->dtype));
}

void open_scope(Emit *e, const char *format, ...) {
  for (int i = 0; i < e->indent; i++) buf_puts(e->out, "  ");
  va_list ap;
  va_start(ap, format);
  buf_vprintf(e->out, format, ap);
  va_end(ap);
  buf_puts(e->out, " {\n");
  e->indent++;
}

void close_scope(Emit *e) {
  e->indent--;
  emit_line(e, "}");
}

/* ---- dot --------------------------------------------------------------------------------------------------------- */

/* A copy of n elements in another type; C variables of both are scalars in registers. */
static void convert_tile(Emit *e, const char *to, Dtype to_type, const char *from, Dtype from_type, int64_t n) {
  const char *value =
      emit_text(e, "nd_load_%s((char *)(%s) + i * %d)", dtype_name(from_type), from, dtype_bytes(from_type));
  Dtype held_to = held_dtype(to_type), held_from = held_dtype(from_type);
  if (held_to != held_from) value = emit_text(e, "nd_cvt_%s_%s(%s)", dtype_name(held_to), dtype_name(held_from), value);
  if (to_type == DT_F32 && dtype_is_float(from_type) && from_type != DT_F64) {
    emit_line(e, "nd_widen_%s((float *)(%s), (void *)(%s), %lld);", dtype_name(from_type), to, from, (long long)n);
    return;
  }
  if (from_type == DT_F32 && dtype_is_float(to_type) && to_type != DT_F64) {
    emit_line(e, "nd_narrow_%s((void *)(%s), (float *)(%s), %lld);", dtype_name(to_type), to, from, (long long)n);
    return;
  }
  emit_line(e, "for (int64_t i = 0; i < %lld; i++) nd_store_%s((char *)(%s) + i * %d, %s);", (long long)n,
            dtype_name(to_type), to, dtype_bytes(to_type), value);
}

static void emit_dot(Emit *e, Op *op) {
  OpPlan *o = op->note;
  const Type *a = op->in[0]->type, *b = op->in[1]->type, *c = op->out[0]->type;
  int r = a->rank;
  long long m = a->shape[r - 2], k = a->shape[r - 1], n = b->shape[r - 1], batch = 1;
  for (int d = 0; d < r - 2; d++) batch *= a->shape[d];
  DotKind kind = dot_kind(op);
  static const struct {
    const char *name, *acc, *in;
    Dtype dtype;
  } kinds[] = {
      [DOT_F32] = {"f32", "float", "float", DT_F32},     [DOT_F64] = {"f64", "double", "double", DT_F64},
      [DOT_I32] = {"i32", "int32_t", "int32_t", DT_I32}, [DOT_BF16] = {"bf16", "float", "uint16_t", DT_BF16},
      [DOT_I8] = {"i8", "int32_t", "int8_t", DT_I8},
  };
  const char *at = emit_text(e, "(%s)", view_text(e, o->out[0])), *pa = emit_text(e, "(%s)", view_text(e, o->in[0])),
             *pb = emit_text(e, "(%s)", view_text(e, o->in[1])), *acc = at;
  bool packs = kind == DOT_BF16 || kind == DOT_I8;
  Dtype wide = packs ? (kind == DOT_BF16 ? DT_F32 : DT_I32) : kinds[kind].dtype;
  if (!o->in[2]) emit_line(e, "memset((void *)%s, 0, %lld);", at, (long long)(type_numel(c) * dtype_bytes(c->dtype)));
  if (!packs) {
    if (o->carry[0]) {
      const char *to = buffer_text(e, o->carry[0]);
      convert_tile(e, to, wide, pa, a->dtype, type_numel(a));
      pa = to;
    }
    if (o->carry[1]) {
      const char *to = buffer_text(e, o->carry[1]);
      convert_tile(e, to, wide, pb, b->dtype, type_numel(b));
      pb = to;
    }
    if (o->carry[2]) {
      acc = buffer_text(e, o->carry[2]);
      convert_tile(e, acc, wide, at, c->dtype, type_numel(c));
    }
  }
  const char *in = kinds[kind].in, *out = kinds[kind].acc, *pack = "";
  if (packs) pack = emit_text(e, ", (void *)%s", buffer_text(e, o->carry[0]));
  if (batch > 1) {
    open_scope(e, "for (int64_t batch = 0; batch < %lld; batch++)", batch);
    emit_line(
        e,
        "nd_dot_%s((%s *)%s + batch * %lld, %lld, (%s *)%s + batch * %lld, %lld, (%s *)%s + batch * %lld, %lld, %lld, "
        "%lld, %lld%s);",
        kinds[kind].name, out, acc, m * n, n, in, pa, m * k, k, in, pb, k * n, n, m, n, k, pack);
    close_scope(e);
  } else {
    emit_line(e, "nd_dot_%s((%s *)%s, %lld, (%s *)%s, %lld, (%s *)%s, %lld, %lld, %lld, %lld%s);", kinds[kind].name,
              out, acc, n, in, pa, k, in, pb, n, m, n, k, pack);
  }
  if (!packs && o->carry[2]) convert_tile(e, at, c->dtype, acc, wide, type_numel(c));
}

/* ---- map: the body on scalars ------------------------------------------------------------------------------------ */

static void emit_map(Emit *e, Op *op) {
  OpPlan *o = op->note;
  int pack = (int)op->pack < 1 ? 1 : (int)op->pack;
  const Block *b = op->body[0];
  const char **args = NEW_N(e->arena, const char *, b->arg_count + 1),
             **out = NEW_N(e->arena, const char *, b->last->in_count + 1);
  open_scope(e, "for (int64_t i = 0; i < %lld; i += %d)", (long long)type_numel(op->in[0]->type), pack);
  for (int k = 0; k < b->arg_count; k++) {
    Value *in = op->in[k / pack];
    args[k] = fresh_name(e, NULL);
    emit_line(e, "const nd_%s %s = nd_load_%s(%s);", dtype_name(held_dtype(kept(in))), args[k], dtype_name(kept(in)),
              element_at(e, o->in[k / pack], emit_text(e, "i + %d", k % pack)));
  }
  emit_body(e, b, args, out);
  for (int k = 0; k < b->last->in_count; k++)
    emit_line(e, "nd_store_%s(%s, %s);", dtype_name(kept(op->out[k / pack])),
              element_at(e, o->out[k / pack], emit_text(e, "i + %d", k % pack)), out[k]);
  close_scope(e);
}

/* ---- sort, histogram, gather ------------------------------------------------------------------------------------- */

static void emit_sort(Emit *e, Op *op) {
  OpPlan *o = op->note;
  const Type *t = op->in[0]->type;
  long long n = t->shape[t->rank - 1], rows = type_numel(t) / n;
  Dtype d = kept(op->in[0]);
  const char *name = dtype_name(d == DT_I1 ? DT_U8 : d);
  emit_line(e, "memcpy((void *)(%s), (void *)(%s), %lld);", view_text(e, o->out[0]), view_text(e, o->in[0]),
            rows * n * dtype_bytes(d));
  emit_line(e, "for (int64_t row = 0; row < %lld; row++) nd_%s_%s(%s, %lld, %d);", rows, op->bitonic ? "merge" : "sort",
            name, element_at(e, o->out[0], emit_text(e, "row * %lld", n)), n, (int)op->descending);
}

static void emit_histogram(Emit *e, Op *op) {
  OpPlan *o = op->note;
  long long bins = type_numel(op->out[0]->type), n = type_numel(op->in[0]->type);
  Dtype d = kept(op->in[0]);
  emit_line(e, "memset((void *)(%s), 0, %lld);", view_text(e, o->out[0]), bins * 4);
  const char *mask = op->in_count < 2 ? "NULL" : NULL;
  if (!mask && o->in[1]) mask = emit_text(e, "(void *)(%s)", view_text(e, o->in[1]));
  if (!mask) mask = "NULL";
  const char *call =
      emit_text(e, "nd_histogram_%s((void *)(%s), %lld, (void *)(%s), %s, %lld);", dtype_name(d == DT_I1 ? DT_U8 : d),
                view_text(e, o->out[0]), bins, view_text(e, o->in[0]), mask, n);
  if (op->in_count > 1 && !o->in[1]) emit_line(e, "if (%s) %s", scalar_text(e, op->in[1]), call);
  else emit_line(e, "%s", call);
}

static void emit_gather(Emit *e, Op *op) {
  OpPlan *o = op->note;
  const Type *src = op->in[0]->type, *ix = op->in[1]->type;
  int axis = (int)op->axis;
  long long outer = 1, inner = 1, n = src->shape[axis], m = ix->shape[axis];
  for (int d = 0; d < axis; d++) outer *= ix->shape[d];
  for (int d = axis + 1; d < ix->rank; d++) inner *= ix->shape[d];
  Dtype d = kept(op->in[0]);
  open_scope(e, "for (int64_t o = 0; o < %lld; o++)", outer);
  open_scope(e, "for (int64_t j = 0; j < %lld; j++)", m);
  open_scope(e, "for (int64_t i = 0; i < %lld; i++)", inner);
  const char *at = emit_text(e, "(o * %lld + j) * %lld + i", m, inner);
  emit_line(e, "const int64_t from = (int64_t)nd_load_%s(%s) & %lld;", dtype_name(kept(op->in[1])),
            element_at(e, o->in[1], at), n - 1);
  emit_line(e, "memcpy(%s, %s, %d);", element_at(e, o->out[0], at),
            element_at(e, o->in[0], emit_text(e, "(o * %lld + from) * %lld + i", n, inner)), dtype_bytes(d));
  close_scope(e);
  close_scope(e);
  close_scope(e);
}

/* ---- tiles and scalars ------------------------------------------------------------------------------------------- */

static void emit_to_scalars(Emit *e, Op *op) {
  OpPlan *o = op->note;
  for (int k = 0; k < op->out_count; k++) {
    Value *v = op->out[k];
    const View *from = op->code == OP_SPLIT ? o->out[k] : o->in[0];
    emit_line(e, "const nd_%s %s = nd_load_%s(%s);", dtype_name(held_dtype(kept(v))), value_name(e, v),
              dtype_name(kept(v)), element_at(e, from, "0"));
  }
}

static void emit_join_scalars(Emit *e, Op *op) {
  OpPlan *o = op->note;
  for (int i = 0; i < 2; i++)
    emit_line(e, "nd_store_%s(%s, %s);", dtype_name(kept(op->out[0])), element_at(e, o->out[0], i ? "1" : "0"),
              scalar_text(e, op->in[i]));
}

/* ---- debugging --------------------------------------------------------------------------------------------------- */

static const char *string_literal(Emit *e, const char *s) {
  Buf b = {.arena = e->arena};
  buf_putc(&b, '"');
  for (; s && *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') buf_printf(&b, "\\%c", c);
    else if (c < 32 || c > 126 || c == '?') buf_printf(&b, "\\%03o", c);
    else buf_putc(&b, (char)c);
  }
  buf_putc(&b, '"');
  return b.at;
}

static int source_line(const Op *op) { return op->span ? op->span->line : 0; }

static void emit_assert(Emit *e, Op *op) {
  OpPlan *o = op->note;
  bool tensor = op->in[0]->type->rank > 0;
  Dtype d = kept(op->in[0]);
  const char *condition =
      tensor ? emit_text(e, "nd_load_%s(%s)", dtype_name(d), element_at(e, o->in[0], "i")) : scalar_text(e, op->in[0]);
  condition = emit_text(e, "%s == 0", condition);
  if (op->in_count > 1) {
    const char *mask = op->in[1]->type->rank > 0 ? emit_text(e, "nd_load_i1(%s)", element_at(e, o->in[1], "i"))
                                                 : scalar_text(e, op->in[1]);
    condition = emit_text(e, "%s && %s", mask, condition);
  }
  if (tensor) open_scope(e, "for (int64_t i = 0; i < %lld; i++)", (long long)type_numel(op->in[0]->type));
  open_scope(e, "if (%s)", condition);
  emit_line(e, "host->fault(host->arg, %s, program, %d);", string_literal(e, op->text ? op->text : ""),
            source_line(op));
  emit_line(e, "return 1;");
  close_scope(e);
  if (tensor) close_scope(e);
}

/* device_print: operand after operand, a line an element. */
static void emit_print(Emit *e, Op *op) {
  OpPlan *o = op->note;
  const char *prefix = string_literal(e, op->text ? op->text : "");
  bool hex = op->hex;
  if (op->in_count == 0) emit_line(e, "nd_print(host, program, %s, 0, 0, 0, NULL, NULL, ' ', 0, 0);", prefix);
  for (int k = 0; k < op->in_count; k++) {
    const Type *t = op->in[k]->type;
    Dtype d = kept(op->in[k]), held = held_dtype(d);
    open_scope(e, "%s", "");
    const char *widths = "0";
    for (int r = 0; r < t->rank; r++)
      widths = emit_text(e, "%s%s%d", r ? widths : "", r ? ", " : "", type_print_width(t, r));
    emit_line(e, "int32_t index[%d] = {0};", t->rank > 0 ? t->rank : 1);
    emit_line(e, "const int widths[] = {%s};", widths);
    for (int r = 0; r < t->rank; r++)
      open_scope(e, "for (index[%d] = 0; index[%d] < %d; index[%d]++)", r, r, t->shape[r], r);
    const char *value = scalar_text(e, op->in[k]);
    if (t->rank) {
      const char *at = "0";
      for (int r = 0; r < t->rank; r++) at = emit_text(e, "(%s) * %d + index[%d]", at, t->shape[r], r);
      value = emit_text(e, "nd_load_%s(%s)", dtype_name(d), element_at(e, o->in[k], emit_text(e, "(int64_t)(%s)", at)));
    }
    const char *bits;
    char kind;
    if (t->ptr) kind = 'p', bits = emit_text(e, "(uint64_t)%s", value);
    else if (hex && dtype_is_float(d) && held != d)
      kind = 'x', bits = emit_text(e, "(uint64_t)nd_bits_%s(%s)", dtype_name(d), value);
    else if (hex && d == DT_F32) kind = 'x', bits = emit_text(e, "(uint64_t)nd_cast_u32_f32(%s)", value);
    else if (hex && d == DT_F64) kind = 'x', bits = emit_text(e, "(uint64_t)nd_cast_u64_f64(%s)", value);
    else if (hex) kind = 'x', bits = emit_text(e, "(uint64_t)%s", value);
    else if (dtype_is_float(d)) kind = 'f', bits = emit_text(e, "nd_cast_u64_f64((double)%s)", value);
    else if (dtype_is_signed(d)) kind = 'd', bits = emit_text(e, "(uint64_t)(int64_t)%s", value);
    else kind = 'u', bits = emit_text(e, "(uint64_t)%s", value);
    emit_line(e, "nd_print(host, program, %s, %d, %d, %d, index, widths, '%c', %d, %s);", prefix, k, op->in_count,
              t->rank, kind, t->ptr ? 64 : dtype_bits(d), bits);
    for (int r = 0; r < t->rank; r++) close_scope(e);
    close_scope(e);
  }
}

void emit_library_op(Emit *e, Op *op) {
  quote_source(e, e->out, e->indent, op->span);
  switch (op->code) {
    case OP_DOT: emit_dot(e, op); break;
    case OP_SCAN: emit_scan(e, op); break; /* scan.c */
    case OP_MAP: emit_map(e, op); break;
    case OP_SORT: emit_sort(e, op); break;
    case OP_HISTOGRAM: emit_histogram(e, op); break;
    case OP_GATHER: emit_gather(e, op); break;
    case OP_SPLIT:
    case OP_RESHAPE: emit_to_scalars(e, op); break;
    case OP_JOIN:
    case OP_CAT: emit_join_scalars(e, op); break;
    case OP_ASSERT: emit_assert(e, op); break;
    case OP_PRINT: emit_print(e, op); break;
    default:
      diag_fail(e->cx, op->span ? *op->span : (Span){0}, "the CPU back end does not support the operation `%s` here",
                op_info[op->code].name);
  }
}
