/* Stepping: a launch on the interpreter that stops before each statement and shows what has been computed.
 *
 * Values of the tile IR bear the names of the source's variables. Several may bear one name (x is assigned twice, or
 * carried by a loop); of those computed so far the last in the text counts, as in Python.
 */
#include <math.h>
#include <stdlib.h>

#include "runtime/runtime.h"

struct nereid_step {
  nereid_step_fn fn;
  void *fn_arg;
  InterpFrame *frame;  /* while fn runs */
  const Block *body;   /* of the kernel */
  const Op *next;      /* before which the walk has stopped */
  const Value **named; /* all named values of the Func, in the order of the text */
  int named_count;
  const Value **shown; /* the last computed of each name; by the order of the text */
  int shown_count;
  bool stopped;
};

/* ---- named values ------------------------------------------------------------------------------------------------ */

typedef struct Collect {
  const Value **at; /* NULL: only count */
  int n;
} Collect;

static void collect_value(Collect *c, const Value *v) {
  if (!v->name || v->replacement) return;
  if (c->at) c->at[c->n] = v;
  c->n++;
}

static void collect_block(Collect *c, const Block *b) {
  stack_guard();
  for (int i = 0; i < b->arg_count; i++) collect_value(c, b->args[i]);
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < 2; i++)
      if (op->body[i] && op->code != OP_REDUCE && op->code != OP_SCAN && op->code != OP_MAP)
        collect_block(c, op->body[i]);
    for (int i = 0; i < op->out_count; i++) collect_value(c, op->out[i]);
  }
}

static void refresh(nereid_step *s) {
  s->shown_count = 0;
  for (int i = 0; i < s->named_count; i++) {
    const Value *v = s->named[i];
    if (!interp_value(s->frame, v)) continue;
    for (int k = 0; k < s->shown_count; k++) { /* a later one of the same name takes its place at the end */
      if (strcmp(s->shown[k]->name, v->name)) continue;
      memmove(&s->shown[k], &s->shown[k + 1], sizeof *s->shown * (size_t)(s->shown_count - k - 1));
      s->shown_count--;
      break;
    }
    s->shown[s->shown_count++] = v;
  }
}

/* ---- texts as NumPy prints arrays: rows on lines, the middle of long dimensions left out ------------------------- */

/* The shortest text that reads back as the same value of type t. */
static void put_float(Buf *out, Dtype t, double v) {
  char text[40];
  if (isnan(v) || isinf(v)) {
    buf_puts(out, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (t == DT_F64 ? text_to_double(text, NULL) == v : (float)text_to_double(text, NULL) == (float)v) break;
    if (t != DT_F64 && t != DT_F32) { /* short types: enough that another rounding gives the same bits */
      uint64_t a = 0, b = 0;
      dtype_store_float(t, &a, text_to_double(text, NULL));
      dtype_store_float(t, &b, v);
      if (a == b) break;
    }
  }
  buf_puts(out, text);
  if (!strpbrk(text, ".e")) buf_puts(out, ".0");
}

static void put_element(Buf *out, const Type *t, const char *p) {
  if (t->ptr) {
    uint64_t address;
    memcpy(&address, p, sizeof address);
    buf_printf(out, "0x%llx", (unsigned long long)address);
  } else if (dtype_is_float(t->dtype)) {
    put_float(out, t->dtype, dtype_load_float(t->dtype, p));
  } else if (t->dtype == DT_I1) {
    buf_puts(out, *p ? "True" : "False");
  } else if (t->dtype == DT_U64) {
    buf_printf(out, "%llu", (unsigned long long)dtype_load_int(t->dtype, p));
  } else {
    buf_printf(out, "%lld", (long long)dtype_load_int(t->dtype, p));
  }
}

/* Dimension d of the tensor at p; `edge` elements are shown at each end of a dimension, -1: all. */
static void put_dim(Buf *out, const Type *t, int d, const char *p, int edge, int indent) {
  if (d == t->rank) {
    put_element(out, t, p);
    return;
  }
  int64_t stride = type_elem_bytes(t);
  for (int k = d + 1; k < t->rank; k++) stride *= t->shape[k];
  int n = t->shape[d];
  bool cut = edge >= 0 && n > 2 * edge;
  buf_putc(out, '[');
  for (int i = 0; i < n; i++) {
    if (i && d == t->rank - 1) buf_puts(out, ", ");
    else if (i) buf_printf(out, ",\n%*s", indent + d + 1, "");
    if (cut && i == edge) {
      buf_puts(out, "...");
      i = n - edge - 1;
      continue;
    }
    put_dim(out, t, d + 1, p + i * stride, edge, indent);
  }
  buf_putc(out, ']');
}

char *nereid_step_value_text(nereid_step *s, int i, int max_elements) {
  if (!s || i < 0 || i >= s->shown_count) return NULL;
  const Value *v = s->shown[i];
  const char *p = interp_value(s->frame, v);
  if (!p) return NULL;
  Buf out = {0};
  type_print(&out, v->type);
  buf_putc(&out, ' ');
  int edge = -1;
  if (type_numel(v->type) > max_elements) { /* as many at each end as make no more than max_elements, at least one */
    for (edge = 1;; edge++) {
      int64_t n = 1;
      for (int d = 0; d < v->type->rank; d++)
        n *= v->type->shape[d] < 2 * (edge + 1) ? v->type->shape[d] : 2 * (edge + 1);
      if (n > max_elements) break;
    }
  }
  put_dim(&out, v->type, 0, p, edge, (int)out.n);
  if (!out.failed) return out.at;
  buf_destroy(&out);
  return NULL;
}

int nereid_step_value_count(nereid_step *s) { return s ? s->shown_count : 0; }
const char *nereid_step_value_name(nereid_step *s, int i) {
  return s && i >= 0 && i < s->shown_count ? s->shown[i]->name : NULL;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static int line_in(const Block *b, const Source *file, int from) {
  stack_guard();
  int best = 0;
  for (const Op *op = b->first; op; op = op->next) {
    const Span *at = op->code == OP_CONST ? NULL : op->span; /* constants are there before the walk */
    if (at && at->source == file && at->line >= from && (!best || at->line < best)) best = at->line;
    for (int i = 0; i < 2; i++) {
      int inner = op->body[i] && op->code != OP_REDUCE && op->code != OP_SCAN && op->code != OP_MAP
                      ? line_in(op->body[i], file, from)
                      : 0;
      if (inner && (!best || inner < best)) best = inner;
    }
  }
  return best;
}

int nereid_step_line(nereid_step *s, int line) {
  return s && s->next ? line_in(s->body, s->next->span->source, line) : 0;
}

/* ---- the launch -------------------------------------------------------------------------------------------------- */

static bool on_step(void *arg, InterpFrame *frame, const Op *next) {
  nereid_step *s = arg;
  int32_t program[3];
  s->frame = frame;
  s->next = next;
  interp_program(frame, program);
  refresh(s);
  bool go = s->fn(s->fn_arg, s, next->span->source->path, next->span->line, program);
  if (!go) s->stopped = true;
  return go;
}

static nereid_status launch_stepped(nereid_device *d, const Call *c, Specialization *spec, const int64_t grid[3],
                                    const nereid_options *o, nereid_step_fn fn, void *fn_arg, nereid_error **error) {
  Collect all = {0};
  collect_block(&all, spec->func->body);
  nereid_step s = {.fn = fn, .fn_arg = fn_arg, .body = spec->func->body, .named_count = all.n};
  s.named = calloc((size_t)all.n + 1, sizeof *s.named);
  s.shown = calloc((size_t)all.n + 1, sizeof *s.shown);
  nereid_status status;
  if (!s.named || !s.shown) {
    status = error_out_of_memory(error);
  } else {
    all = (Collect){.at = s.named};
    collect_block(&all, spec->func->body);
    nereid_error *why = NULL;
    status = launch_call(d, NULL, c, spec, grid, o, on_step, &s, NULL, &why);
    if (s.stopped) status = NEREID_OK; /* the caller's wish */
    if (status && error) *error = why;
    else nereid_error_free(why);
  }
  free(s.named);
  free(s.shown);
  return status;
}

nereid_status nereid_launch_stepped(nereid_device *d, nereid_module *m, const char *kernel, const int64_t grid[3],
                                    const nereid_arg *args, int arg_count, const nereid_options *o, nereid_step_fn fn,
                                    void *fn_arg, nereid_error **error) {
  if (!d) return error_null(error, "nereid_launch_stepped", "the device");
  if (!m) return error_null(error, "nereid_launch_stepped", "the module");
  if (!kernel) return error_null(error, "nereid_launch_stepped", "the kernel's name");
  if (!fn) return error_null(error, "nereid_launch_stepped", "the function");
  if (d->kind != &device_interp)
    return error_set(error, NEREID_UNSUPPORTED, "open the device \"interp\"",
                     "device '%s' cannot be stepped through; the interpreter can", d->name);
  TAKE_OPTIONS(o);
  const KernelInfo *k = module_kernel(m, kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  Call c;
  nereid_status status = call_bind_on(&c, k, d, args, arg_count, o, error);
  Specialization *spec = NULL;
  if (!status) status = launch_specialization(d, m, &c, o, &spec, error);
  if (!status) status = launch_stepped(d, &c, spec, grid, o, fn, fn_arg, error);
  call_free(&c);
  return status;
}
