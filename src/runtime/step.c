/* Stepping: a launch on the interpreter that stops before each statement and shows what has been computed.
 *
 * Values of the tile IR bear the names of the source's variables. Several may bear one name (x is assigned twice, or
 * carried by a loop); of those computed so far the last in the text counts, as in Python.
 */
#include <ctype.h>
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
  nereid_device *device;
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
  double whole_number = text_to_double(text, NULL);
  if (strstr(text, "e+") && fabs(v) < 1e16) snprintf(text, sizeof text, "%.0f", whole_number); /* 30.0, not 3e+01 */
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

/* What of a dimension is shown. */
typedef struct Part {
  int from, n;
  bool one; /* an element, without brackets */
} Part;

/* Dimension d of the tensor at p; `edge` elements are shown at each end of a dimension, -1: all. */
static void put_dim(Buf *out, const Type *t, const Part *parts, int d, const char *p, int edge, int indent) {
  if (d == t->rank) {
    put_element(out, t, p);
    return;
  }
  int64_t stride = type_elem_bytes(t);
  for (int k = d + 1; k < t->rank; k++) stride *= t->shape[k];
  int n = parts[d].n;
  p += parts[d].from * stride;
  if (parts[d].one) {
    put_dim(out, t, parts, d + 1, p, edge, indent);
    return;
  }
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
    put_dim(out, t, parts, d + 1, p + i * stride, edge, indent);
  }
  buf_putc(out, ']');
}

static char *text_of(const Type *t, const Part *parts, const char *p, int max_elements) {
  Buf out = {0};
  int64_t all = 1;
  int rank = 0;
  const char *name = t->ptr ? NULL : dtype_name(t->dtype);
  for (int d = 0; d < t->rank; d++) all *= parts[d].n;
  if (name) buf_puts(&out, name);
  for (int d = 0; d < t->rank && name; d++)
    if (!parts[d].one) buf_printf(&out, "%c%d", rank++ ? ',' : '[', parts[d].n);
  if (rank) buf_putc(&out, ']');
  if (!name) type_print(&out, t);
  buf_putc(&out, ' ');
  int edge = -1;
  if (all > max_elements) { /* as many at each end as make no more than max_elements, at least one */
    for (edge = 1;; edge++) {
      int64_t n = 1;
      for (int d = 0; d < t->rank; d++) n *= parts[d].n < 2 * (edge + 1) ? parts[d].n : 2 * (edge + 1);
      if (n > max_elements) break;
    }
  }
  put_dim(&out, t, parts, 0, p, edge, (int)out.n);
  if (!out.failed) return out.at;
  buf_destroy(&out);
  return NULL;
}

static void whole(const Type *t, Part *parts) {
  for (int d = 0; d < t->rank; d++) parts[d] = (Part){.n = t->shape[d]};
}

char *nereid_step_value_text(nereid_step *s, int i, int max_elements) {
  if (!s || i < 0 || i >= s->shown_count) return NULL;
  const Value *v = s->shown[i];
  const char *p = interp_value(s->frame, v);
  Part parts[MAX_RANK];
  if (!p) return NULL;
  whole(v->type, parts);
  return text_of(v->type, parts, p, max_elements);
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
  nereid_step s = {.fn = fn, .fn_arg = fn_arg, .body = spec->func->body, .named_count = all.n, .device = d};
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

/* ---- expressions ------------------------------------------------------------------------------------------------- */

/* A kernel is made of the expression, which loads what it names and prints the result: what it means, Triton says. The
 * walk over that kernel reads what is to be printed. */
typedef struct Expression {
  nereid_step *step;
  const char *text;
  size_t base, n; /* of text: up to base is Triton's; what stands in brackets up to n picks from that */
  int count;
  const char *const *names;
  const double *values;
  int max_elements;
  Buf source, params;
  nereid_arg *args; /* arrays that are freed */
  int arg_count;
  char *result;
  nereid_status status;
  nereid_error *error;
} Expression;

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether the name stands in the expression, not as an attribute. */
static bool names_it(const Expression *e, const char *name) {
  size_t n = strlen(name);
  for (const char *at = e->text; (at = strstr(at, name)); at += n)
    if (!is_letter(at[n]) && (at == e->text || (!is_letter(at[-1]) && at[-1] != '.'))) return true;
  return false;
}

/* The bracket that opens what the one at text[end - 1] closes; 0: none. */
static size_t opening(const char *text, size_t end) {
  int depth = 0;
  for (size_t i = end; i-- > 0;) {
    depth += strchr(")]", text[i]) ? 1 : strchr("([", text[i]) ? -1 : 0;
    if (!depth) return i;
  }
  return 0;
}

/* "a.b(c)[1, 2:3]": where its last bracket opens, if all before it is what Python takes it of. */
static void split_subscript(Expression *e) {
  e->n = strlen(e->text);
  while (e->n && isspace((unsigned char)e->text[e->n - 1])) e->n--;
  e->base = e->n;
  if (!e->n || e->text[e->n - 1] != ']') return;
  size_t open = opening(e->text, e->n), at = open;
  const char *none = strstr(e->text + open, "None");
  while (at && (is_letter(e->text[at - 1]) || strchr(".)]", e->text[at - 1])))
    at = strchr(")]", e->text[at - 1]) ? opening(e->text, at) : at - 1;
  while (at && e->text[at - 1] == ' ') at--;
  if (open && !at && !none) e->base = open;
}

static bool failed(Expression *e, nereid_status status) {
  if (!e->status) e->status = status;
  return false;
}

static bool bound(Expression *e, const char *at, size_t n, int usual, int size, int *out) {
  int64_t v = usual;
  while (n && *at == ' ') at++, n--;
  char *text = n ? strndup(at, n) : NULL;
  nereid_status status = NEREID_OK;
  if (n) status = text ? nereid_eval(text, e->count, e->names, e->values, &v, &e->error) : NEREID_OUT_OF_MEMORY;
  free(text);
  if (status) return failed(e, status);
  if (v < 0) v += size;
  *out = v < 0 ? -1 : v > size ? size : (int)v;
  return true;
}

/* Elements and slices, as NumPy takes them, but for steps. */
static bool read_parts(Expression *e, const Type *t, Part *parts) {
  whole(t, parts);
  const char *at = e->text + e->base + 1, *end = e->text + e->n - 1;
  for (int d = 0; e->base < e->n && at <= end; d++) {
    const char *colon = NULL, *stop = at;
    for (int depth = 0; stop < end && (depth || *stop != ','); stop++) {
      depth += strchr("([", *stop) ? 1 : strchr(")]", *stop) ? -1 : 0;
      if (*stop == ':' && !colon) colon = stop;
    }
    if (d >= t->rank)
      return failed(e, error_set(&e->error, NEREID_BAD_ARGUMENT, NULL, "more indices than the tensor's %d", t->rank));
    int size = t->shape[d], from = 0, to = size;
    if (!bound(e, at, (size_t)((colon ? colon : stop) - at), 0, size, &from)) return false;
    if (colon && !bound(e, colon + 1, (size_t)(stop - colon - 1), size, size, &to)) return false;
    if (!colon && (from < 0 || from >= size))
      return failed(e, error_set(&e->error, NEREID_BAD_ARGUMENT, NULL, "dimension %d has %d elements, not %.*s", d,
                                 size, (int)(stop - at), at));
    if (from < 0) from = 0;
    parts[d] = (Part){.from = from, .n = colon ? (to > from ? to - from : 0) : 1, .one = !colon};
    at = stop + 1;
  }
  return true;
}

/* Loads the value under its name. */
static bool add_value(Expression *e, const Value *v) {
  const Type *t = v->type;
  if (t->ptr)
    return failed(e, error_set(&e->error, NEREID_UNSUPPORTED, NULL, "%s is a pointer; expressions take none", v->name));
  nereid_arg *a = &e->args[e->arg_count];
  size_t bytes = (size_t)(type_numel(t) * type_elem_bytes(t));
  void *array = NULL;
  nereid_status status = nereid_alloc(e->step->device, bytes, &array, &e->error);
  if (!status) *a = nereid_pointer(array, t->dtype == DT_I1 ? NEREID_I8 : (nereid_dtype)t->dtype), e->arg_count++;
  const void *from = interp_value(e->step->frame, v);
  if (!status) status = nereid_copy_to_device(e->step->device, array, from, bytes, &e->error);
  if (status) return failed(e, status);
  buf_printf(&e->params, "%sat_%s", e->params.n ? ", " : "", v->name);
  buf_printf(&e->source, "    %s = tl.load(at_%s", v->name, v->name);
  if (t->rank) buf_printf(&e->source, " + tl.reshape(tl.arange(0, %lld), [", (long long)type_numel(t));
  for (int d = 0; d < t->rank; d++) buf_printf(&e->source, "%s%d", d ? ", " : "", t->shape[d]);
  buf_printf(&e->source, "%s)%s\n", t->rank ? "])" : "", t->dtype == DT_I1 ? " != 0" : "");
  return true;
}

static const Op *find_print(const Block *b) {
  const Op *op = b->first;
  while (op && op->code != OP_PRINT) op = op->next;
  return op;
}

static bool on_result(void *arg, nereid_step *inner, const char *file, int line, const int32_t program[3]) {
  Expression *e = arg;
  const Op *print = find_print(inner->body);
  const char *p = print && print->in_count ? interp_value(inner->frame, print->in[0]) : NULL;
  if (!p) return true;
  Part parts[MAX_RANK];
  const Type *t = print->in[0]->type;
  if (!read_parts(e, t, parts)) return false;
  e->result = text_of(t, parts, p, e->max_elements);
  if (!e->result) failed(e, error_out_of_memory(&e->error));
  return false;
}

static bool make_source(Expression *e, Buf *all) {
  const nereid_step *s = e->step;
  for (int i = 0; i < s->shown_count; i++)
    if (names_it(e, s->shown[i]->name) && !add_value(e, s->shown[i])) return false;
  buf_puts(all, "import triton\nimport triton.language as tl\nfrom triton.language import *\n\n\n@triton.jit\n");
  buf_printf(all, "def expression(%s):\n", e->params.n ? e->params.at : "");
  for (int i = 0; i < e->count; i++) {
    bool shown = false;
    for (int k = 0; k < s->shown_count; k++) shown = shown || !strcmp(s->shown[k]->name, e->names[i]);
    if (!shown && names_it(e, e->names[i]))
      buf_printf(all, "    %s: tl.constexpr = %.17g\n", e->names[i], e->values[i]);
  }
  if (e->source.n) buf_write(all, e->source.at, e->source.n);
  buf_printf(all, "    result = tl.to_tensor(\n        %.*s\n    )\n    tl.device_print(\"\", result)\n", (int)e->base,
             e->text);
  return !all->failed && !e->source.failed && !e->params.failed ? true : failed(e, error_out_of_memory(&e->error));
}

static void evaluate(Expression *e) {
  Buf all = {0};
  nereid_module *m = NULL;
  nereid_options o = {.num_warps = 1};
  if (make_source(e, &all)) {
    nereid_status status = nereid_module_load_string("<expression>", all.at, &m, &e->error);
    if (!status)
      status = nereid_launch_stepped(e->step->device, m, "expression", (int64_t[]){1, 1, 1}, e->args, e->arg_count, &o,
                                     on_result, e, &e->error);
    if (status) failed(e, status);
    if (!e->status && !e->result) failed(e, error_set(&e->error, NEREID_INTERNAL, NULL, "the result is not there"));
  }
  nereid_module_free(m);
  buf_destroy(&all);
}

nereid_status nereid_step_eval(nereid_step *s, const char *expression, int count, const char *const *names,
                               const double *values, int max_elements, char **text, nereid_error **error) {
  if (!s) return error_null(error, "nereid_step_eval", "the step");
  if (!expression) return error_null(error, "nereid_step_eval", "the expression");
  if (!text) return error_null(error, "nereid_step_eval", "text");
  if (count < 0 || (count && (!names || !values)))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_step_eval: %d names at NULL", count);
  expression += strspn(expression, " \t");
  Expression e = {.step = s, .text = expression, .count = count, .names = names, .values = values};
  e.max_elements = max_elements;
  e.args = calloc((size_t)s->shown_count + 1, sizeof *e.args);
  split_subscript(&e);
  if (e.args) evaluate(&e);
  else failed(&e, error_out_of_memory(&e.error));
  for (int i = 0; i < e.arg_count; i++) nereid_free(s->device, e.args[i].pointer);
  free(e.args);
  buf_destroy(&e.source);
  buf_destroy(&e.params);
  *text = e.result;
  if (e.status && error) *error = e.error;
  else nereid_error_free(e.error);
  return e.status;
}
