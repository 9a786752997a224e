/* Scalars and control flow: plain C locals, if, for.
 *
 * A carried scalar is one variable: the loop's argument, its next value and the loop's result share it. A carried
 * tensor stands in its buffer (plan.c), so nothing of it is left to do here.
 */
#include "cpu/gemm.h"
#include "tile/passes/instrument.h"

static void emit_op(Emit *e, Op *op);

static void declare_scalar(Emit *e, Value *v, const char *value) {
  emit_line(e, "const nd_%s %s = %s;", dtype_name(held_dtype(type_dtype(v->type))), value_name(e, v), value);
}

/* Assigns values to variables, all read before any is changed. */
static void assign(Emit *e, int n, Value **values, const char *const *to) {
  bool crossed = false;
  for (int k = 0; k < n; k++)
    for (int j = 0; to[k] && j < k; j++)
      if (to[j] && values[k]->type->rank == 0 && !strcmp(scalar_text(e, values[k]), to[j])) crossed = true;
  if (!crossed) {
    for (int k = 0; k < n; k++)
      if (to[k] && strcmp(scalar_text(e, values[k]), to[k]) != 0)
        emit_line(e, "%s = %s;", to[k], scalar_text(e, values[k]));
    return;
  }
  emit_line(e, "{");
  for (int k = 0; k < n; k++)
    if (to[k])
      emit_line(e, "  const nd_%s n%d = %s;", dtype_name(held_dtype(type_dtype(values[k]->type))), k,
                scalar_text(e, values[k]));
  for (int k = 0; k < n; k++)
    if (to[k]) emit_line(e, "  %s = n%d;", to[k], k);
  emit_line(e, "}");
}

static void carry_scalars(Emit *e, Op *loop, void *to) { assign(e, loop->out_count, loop->body[0]->last->in, to); }

static void emit_for(Emit *e, Op *op) {
  Block *body = op->body[0];
  int n = op->out_count;
  const char **to = NEW_N(e->arena, const char *, n + 1);
  for (int k = 0; k < n; k++) {
    Value *arg = body->args[k + 1];
    if (arg->type->rank) continue;
    to[k] = value_name(e, arg);
    info_of(e, op->out[k])->name = to[k];
    emit_line(e, "nd_%s %s = %s;", dtype_name(held_dtype(type_dtype(arg->type))), to[k], scalar_text(e, op->in[3 + k]));
  }
  Gemm *gemm = ((OpPlan *)op->note)->gemm;
  if (gemm) {
    emit_gemm(e, op, gemm, map_get(e->plans, body), carry_scalars, to);
    return;
  }
  Value *iv = body->args[0];
  int64_t step;
  bool down = value_is_const(op->in[2], &step) && dtype_is_signed(op->in[2]->type->dtype) && step < 0;
  const char *t = dtype_name(iv->type->dtype), *i = value_name(e, iv);
  if (iv->type->dtype == DT_U64) {
    emit_line(e, "for (nd_u64 %s_at = %s; %s_at < %s; %s_at += %s) {", i, scalar_text(e, op->in[0]), i,
              scalar_text(e, op->in[1]), i, scalar_text(e, op->in[2]));
  } else {
    emit_line(e, "for (int64_t %s_at = %s; %s_at %s %s; %s_at += %s) {", i, scalar_text(e, op->in[0]), i,
              down ? ">" : "<", scalar_text(e, op->in[1]), i, scalar_text(e, op->in[2]));
  }
  e->indent++;
  emit_line(e, "const nd_%s %s = (nd_%s)%s_at;", t, i, t, i);
  emit_block(e, body);
  assign(e, n, body->last->in, to);
  e->indent--;
  emit_line(e, "}");
}

static void emit_while(Emit *e, Op *op) {
  Block *before = op->body[0], *body = op->body[1];
  int n = op->in_count, m = op->out_count;
  const char **to = NEW_N(e->arena, const char *, n + 1), **handed = NEW_N(e->arena, const char *, m + 1);
  for (int k = 0; k < n; k++) {
    Value *arg = before->args[k];
    if (arg->type->rank) continue;
    to[k] = value_name(e, arg);
    emit_line(e, "nd_%s %s = %s;", dtype_name(held_dtype(type_dtype(arg->type))), to[k], scalar_text(e, op->in[k]));
  }
  for (int k = 0; k < m; k++) {
    Value *arg = body->args[k];
    if (arg->type->rank) continue;
    handed[k] = value_name(e, arg);
    info_of(e, op->out[k])->name = handed[k];
    emit_line(e, "nd_%s %s;", dtype_name(held_dtype(type_dtype(arg->type))), handed[k]);
  }
  Wait wait = op_waits(op);
  const char *first = wait == WAIT_LOOKS ? emit_text(e, "first_%d", e->serial++) : "1";
  if (wait == WAIT_LOOKS) emit_line(e, "int %s = 1;", first);
  emit_line(e, "for (;;) {");
  e->indent++;
  emit_block(e, before);
  Op *condition = before->last;
  assign(e, m, condition->in + 1, handed);
  emit_line(e, "if (!%s) break;", scalar_text(e, condition->in[0]));
  emit_block(e, body);
  assign(e, n, body->last->in, to);
  if (wait) emit_line(e, "if (host->wait(host->arg, program, %d, %s)) return 1;", op->span ? op->span->line : 0, first);
  if (wait == WAIT_LOOKS) emit_line(e, "%s = 0;", first);
  e->indent--;
  emit_line(e, "}");
}

static void emit_if(Emit *e, Op *op) {
  const char **to = NEW_N(e->arena, const char *, op->out_count + 1);
  for (int k = 0; k < op->out_count; k++) {
    Value *v = op->out[k];
    if (v->type->rank) continue;
    to[k] = value_name(e, v);
    emit_line(e, "nd_%s %s;", dtype_name(held_dtype(type_dtype(v->type))), to[k]);
  }
  emit_line(e, "if (%s) {", scalar_text(e, op->in[0]));
  for (int r = 0; r < 2; r++) {
    Block *b = op->body[r];
    if (r == 1) {
      if (!b || !b->first || (b->first == b->last && op->out_count == 0)) break;
      emit_line(e, "} else {");
    }
    e->indent++;
    emit_block(e, b);
    if (b->last && b->last->code == OP_YIELD) assign(e, op->out_count, b->last->in, to);
    e->indent--;
  }
  emit_line(e, "}");
}

static const char *masked(Emit *e, const Op *op, int mask, const char *value, const char *other) {
  return op->in_count > mask ? emit_text(e, "%s ? %s : %s", scalar_text(e, op->in[mask]), value, other) : value;
}

static Dtype pointee(const Type *t) { return t->ptr > 1 ? DT_I64 : t->dtype; }

static void emit_memory(Emit *e, Op *op) {
  static const char *const kinds[] = {"add", "max", "min", "and", "or", "xor", "xchg"};
  const char *t = dtype_name(pointee(op->in[0]->type)), *p = scalar_text(e, op->in[0]);
  const char *zero = emit_literal(e, held_dtype(pointee(op->in[0]->type)), 0, 0);
  switch (op->code) {
    case OP_LOAD: {
      const char *other = op->in_count > 2 ? scalar_text(e, op->in[2]) : zero;
      declare_scalar(e, op->out[0], masked(e, op, 1, emit_text(e, "nd_load_%s((void *)%s)", t, p), other));
      break;
    }
    case OP_STORE:
      emit_line(e, "%snd_store_%s((void *)%s, %s);",
                op->in_count > 2 ? emit_text(e, "if (%s) ", scalar_text(e, op->in[2])) : "", t, p,
                scalar_text(e, op->in[1]));
      break;
    case OP_ATOMIC_RMW:
      declare_scalar(
          e, op->out[0],
          masked(e, op, 2,
                 emit_text(e, "nd_atomic_%s_%s((void *)%s, %s)", kinds[op->kind], t, p, scalar_text(e, op->in[1])),
                 zero));
      break;
    default:
      declare_scalar(e, op->out[0],
                     emit_text(e, "nd_atomic_cas_%s((void *)%s, %s, %s)", t, p, scalar_text(e, op->in[1]),
                               scalar_text(e, op->in[2])));
      break;
  }
}

static void emit_op(Emit *e, Op *op) {
  stack_guard();
  quote_source(e, e->out, e->indent, op->span);
  switch (op->code) {
    case OP_CONST:
    case OP_YIELD:
    case OP_CONDITION:
    case OP_ASSUME: return;
    case OP_BARRIER:
      if (e->waits || op->acquire) emit_line(e, "__atomic_thread_fence(__ATOMIC_SEQ_CST);");
      return;
    case OP_SCOPE:
      emit_line(e, "host->record(cursor, host->instrument, program, grid, %uu);",
                INSTRUMENT_TAG(op->region, op->end) | (instrument_repeats(op) ? INSTRUMENT_REPEATED : 0));
      return;
    case OP_FOR: emit_for(e, op); return;
    case OP_WHILE: emit_while(e, op); return;
    case OP_IF: emit_if(e, op); return;
    case OP_PROGRAM_ID: declare_scalar(e, op->out[0], emit_text(e, "program[%d]", (int)op->axis)); return;
    case OP_NUM_PROGRAMS: declare_scalar(e, op->out[0], emit_text(e, "grid[%d]", (int)op->axis)); return;
    case OP_LOAD:
    case OP_STORE:
    case OP_ATOMIC_RMW:
    case OP_ATOMIC_CAS: emit_memory(e, op); return;
    case OP_HINT: declare_scalar(e, op->out[0], scalar_text(e, op->in[0])); return;
    default: break;
  }
  if (op_is_elementwise(op)) {
    const char *in[4];
    for (int i = 0; i < op->in_count; i++) in[i] = scalar_text(e, op->in[i]);
    declare_scalar(e, op->out[0], element_text(e, op, in, false));
    return;
  }
  emit_library_op(e, op);
}

static void emit_copy(Emit *e, const Item *item) {
  const char *to = buffer_text(e, item->copy_to), *from = buffer_text(e, item->copy_from);
  int bytes = dtype_bytes(item->copy_to->dtype);
  if (!item->matrices) {
    emit_line(e, "memcpy((void *)%s, (void *)%s, %lld);", to, from, (long long)(item->copy_to->count * bytes));
    return;
  }
  long long rows = item->rows, columns = item->columns;
  if (item->matrices > 1) {
    emit_line(e, "for (int64_t at = 0; at < %lld; at += %lld)", (long long)(item->matrices * rows * columns * bytes),
              rows * columns * bytes);
    emit_line(e, "  nd_transpose_%d((void *)(%s + at), %lld, (void *)(%s + at), %lld, %lld, %lld);", bytes, to, rows,
              from, columns, rows, columns);
  } else {
    emit_line(e, "nd_transpose_%d((void *)%s, %lld, (void *)%s, %lld, %lld, %lld);", bytes, to, rows, from, columns,
              rows, columns);
  }
}

static Gemm *gemm_of_item(const Item *item) {
  return item->op && item->op->code == OP_FOR ? ((OpPlan *)item->op->note)->gemm : NULL;
}

void emit_item(Emit *e, const Item *item) {
  if (item->group) emit_group(e, item->group);
  else if (item->op) emit_op(e, item->op);
  else emit_copy(e, item);
}

void emit_block(Emit *e, const Block *b) {
  Plan *p = map_get(e->plans, b);
  if (!p) { /* the body of a reduce, scan or map: scalars */
    for (Op *op = b->first; op; op = op->next) emit_op(e, op);
    return;
  }
  for (int i = 0; i < p->n; i++) {
    Gemm *gemm = gemm_of_item(&p->at[i]);
    emit_item(e, &p->at[i]);
    if (!gemm) continue;
    int epilogue = gemm_find_epilogue(e, gemm, p, i);
    for (; i + 1 < epilogue; i++) emit_item(e, &p->at[i + 1]);
    emit_gemm_last(e, gemm);
    i = epilogue;
  }
}

void emit_body(Emit *e, const Block *b, const char *const *args, const char **out) {
  for (int k = 0; k < b->arg_count; k++) info_of(e, b->args[k])->name = args[k];
  emit_block(e, b);
  for (int k = 0; k < b->last->in_count; k++) out[k] = scalar_text(e, b->last->in[k]);
}

/* A value of a vector body: of its own a vector, from outside a scalar. */
static const char *vector_text(Emit *e, const Block *b, Value *v) {
  bool own = v->block == b || (v->def && v->def->block == b && v->def->code != OP_CONST);
  return own ? value_name(e, v) : splat_text(e, type_dtype(v->type), scalar_text(e, v));
}

void emit_vector_body(Emit *e, const Block *b, const char *const *args, const char **out) {
  for (int k = 0; k < b->arg_count; k++) info_of(e, b->args[k])->name = args[k];
  for (Op *op = b->first; op != b->last; op = op->next) {
    if (op->code == OP_CONST) continue;
    const char *in[4];
    for (int i = 0; i < op->in_count; i++) in[i] = vector_text(e, b, op->in[i]);
    emit_line(e, "const nd_%sv %s = %s;", dtype_name(held_dtype(type_dtype(op->out[0]->type))),
              value_name(e, op->out[0]), element_text(e, op, in, true));
  }
  for (int k = 0; k < b->last->in_count; k++) out[k] = vector_text(e, b, b->last->in[k]);
}
