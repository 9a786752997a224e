/* lib_debug.c: hints, assertions, printing, inline assembly and functions mapped over elements. */
#include "front/core.h"
#include "front/library/lib.h"

static const char HINTS[] = "Compiler hints", DEBUG[] = "Debugging", ASM[] = "Inline assembly and map",
                  LOOPS[] = "Iterators";

/* ---- promises ---------------------------------------------------------------------------------------------------- */

static void check_hint_values(Front *fr, Span at, Py *values) {
  int n = values->kind == PY_TUPLE ? values->tuple.n : 1;
  for (int i = 0; i < n; i++) {
    const Py *v = values->kind == PY_TUPLE ? values->tuple.at[i] : values;
    if (v->kind == PY_TENSOR)
      lib_not_constexpr(fr, at, arena_printf(fr->cx->arena, "values element %d must have type `constexpr`: it", i), v);
    if (v->kind != PY_INT && v->kind != PY_BOOL)
      lib_refuse(fr, at, NULL, "values element %d must have type `constexpr[int]`, got `constexpr[<class '%s'>]`", i,
                 py_kind_name(v));
  }
}

static Py *call_hint(Front *fr, const Builtin *b, Span at, Py **args) {
  HintKind kind = !strcmp(b->name, "multiple_of")      ? HINT_DIVISIBLE
                  : !strcmp(b->name, "max_contiguous") ? HINT_CONTIGUOUS
                                                       : HINT_CONSTANT;
  int64_t values[MAX_RANK];
  check_hint_values(fr, at, args[1]);
  int n = lib_ints(fr, at, b, "values", args[1], values, MAX_RANK);
  if (py_is_number(args[0]))
    lib_refuse(fr, at,
               "an integer argument that equals 1 is a constexpr: annotate the parameter with its type, list it in "
               "do_not_specialize, or leave the hint out",
               "'constexpr' object has no attribute 'shape': `input` of %s is the constexpr %s", lib_full_name(fr, b),
               py_describe(fr, args[0]));
  Value *x = lib_tensor(fr, at, b, "input", args[0]);
  int want = x->type->rank ? x->type->rank : kind == HINT_DIVISIBLE;
  if (n != want)
    lib_refuse(fr, at, NULL, "Shape of input to %s does not match the length of values: %s and %d", b->name,
               type_text(fr, x->type), n);
  for (int i = 0; i < n; i++)
    if (values[i] < 1 || values[i] > INT32_MAX)
      lib_fail(fr, at, b, NULL, "`values[%d]` must be positive and fit in 32 bits, but it is %lld", i,
               (long long)values[i]);
  if (n == 0) return args[0];
  Op *op = build_op(&fr->b, OP_HINT, 1, &x, 1, &x->type);
  op->kind = kind;
  op->dims = arena_copy(fr->cx->arena, values, sizeof *values * (size_t)n);
  op->dim_count = n;
  op->out[0]->name = x->name;
  return py_tensor(fr, op->out[0]);
}

static Py *call_assume(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind == PY_BOOL && args[0]->i) return py_none(fr); /* one that is false stands where nothing comes */
  Value *c = lib_value(fr, at, b, "cond", args[0]);
  if (c->type->rank || c->type->ptr || c->type->dtype != DT_I1)
    lib_fail(fr, at, b, "compare first, as in `n > 0`", "`cond` must be a condition (i1), but it is of type %s",
             type_text(fr, c->type));
  build_op(&fr->b, OP_ASSUME, 1, &c, 0, NULL);
  return py_void(fr);
}

static Py *call_barrier(Front *fr, const Builtin *b, Span at, Py **args) {
  build_op(&fr->b, OP_BARRIER, 0, NULL, 0, NULL);
  return py_void(fr);
}

/* tl.condition(c, disable_licm=False) around a while loop's condition. */
static Py *call_condition(Front *fr, const Builtin *b, Span at, Py **args) { return args[0]; }

/* ---- assertions -------------------------------------------------------------------------------------------------- */

static Py *call_static_assert(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind != PY_BOOL)
    lib_refuse(fr, at,
               args[0]->kind == PY_TENSOR ? "tl.device_assert checks run-time values"
               : args[0]->kind == PY_INT  ? "compare it: `n != 0`"
                                          : NULL,
               "Assertion condition could not be determined at compile-time: it is no constexpr bool, but %s",
               py_describe(fr, args[0]));
  if (args[0]->i) return py_none(fr);
  const char *text = lib_none(args[1]) ? "" : args[1]->kind == PY_STR ? args[1]->str.s : py_describe(fr, args[1]);
  diag_fail(diag_as(fr->cx, ERROR_ASSERTION), at, "static assertion failed%s%s", text[0] ? ": " : "", text);
}

static Py *call_device_assert(Front *fr, const Builtin *b, Span at, Py **args) {
  if (!fr->func) return py_none(fr);
  Value *in[2] = {lib_value(fr, at, b, "cond", args[0]),
                  lib_none(args[2]) ? NULL : lib_value(fr, at, b, "mask", args[2])};
  if (!fr->func->debug) return py_none(fr); /* compiled only with debug */
  if (in[0]->type->ptr || !dtype_is_int(in[0]->type->dtype))
    lib_fail(fr, at, b, "compare first", "`cond` must be a condition, but it is of type %s",
             type_text(fr, in[0]->type));
  in[0] = sem_cast_value(fr, at, in[0], type_number(fr->cx, DT_I1), 0, false);
  if (in[1]) {
    in[1] = sem_cast_value(fr, at, in[1], type_number(fr->cx, DT_I1), 0, false);
    sem_broadcast_pair(fr, at, &in[0], &in[1]);
  }
  Op *op = build_op(&fr->b, OP_ASSERT, in[1] ? 2 : 1, in, 0, NULL);
  op->text = intern_z(fr->cx, lib_str(fr, at, b, "msg", args[1]));
  return py_void(fr);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* As Triton has it: `fp32[constexpr[16], constexpr[8]]`, `pointer<int32>[]`. */
static const char *tensor_text(Front *fr, const Type *t) {
  Buf b = {.arena = fr->cx->arena};
  buf_printf(&b, "%s[", py_text(fr, py_type(fr, type_elem(fr->cx, t))));
  for (int i = 0; i < t->rank; i++) buf_printf(&b, "%sconstexpr[%d]", i ? ", " : "", t->shape[i]);
  buf_putc(&b, ']');
  return b.at;
}

static const char *plain_text(Front *fr, const Py *p) {
  if (p->kind == PY_STR) return p->str.s;
  if (p->kind == PY_TENSOR) return tensor_text(fr, p->value->type);
  return py_text(fr, p);
}

static Py *call_static_print(Front *fr, const Builtin *b, Span at, Py **args) {
  const char *sep = lib_str(fr, at, b, "sep", args[1]), *end = lib_str(fr, at, b, "end", args[2]);
  Buf line = {.arena = fr->cx->arena}, *out = fr->options && fr->options->print ? fr->options->print : &line;
  for (int i = 0; i < args[0]->tuple.n; i++) {
    if (i) buf_puts(out, sep);
    buf_puts(out, plain_text(fr, args[0]->tuple.at[i]));
  }
  buf_puts(out, end);
  if (out == &line && line.at) fwrite(line.at, 1, line.n, stderr);
  buf_destroy(&line);
  return py_none(fr);
}

/* Triton's normal form of a prefix: a space before it and, when values follow, ": " after it. */
static const char *print_prefix(Front *fr, const char *s, int values) {
  size_t n = strlen(s);
  const char *p = s;
  if (values) {
    if (!n || p[n - 1] != ' ') p = arena_printf(fr->cx->arena, "%s ", p), n = strlen(p);
    if (n < 2 || strcmp(p + n - 2, ": ")) p = arena_printf(fr->cx->arena, "%.*s: ", (int)n - 1, p);
  }
  if (strlen(p) > 2 && p[0] != ' ') p = arena_printf(fr->cx->arena, " %s", p);
  return p;
}

static Py *call_device_print(Front *fr, const Builtin *b, Span at, Py **args) {
  const char *prefix = lib_str(fr, at, b, "prefix", args[0]);
  if (args[0]->kind == PY_NONE) lib_refuse(fr, at, NULL, "None is not string: `prefix` must be one");
  for (const char *c = prefix; *c; c++)
    if (!((*c >= ' ' && *c <= '~') || (*c >= '\t' && *c <= '\r')))
      lib_refuse(fr, at, NULL, "%s is not an ascii string: `prefix` must be printable", prefix);
  int n = args[1]->tuple.n;
  Value **in = NEW_N(fr->cx->arena, Value *, n + 1);
  for (int i = 0; i < n; i++) {
    Py *p = args[1]->tuple.at[i];
    if (p->kind == PY_STR)
      lib_fail(fr, at, b, "put the text into the first argument",
               "only the first argument can be a string, but argument %d is %s", i + 2, py_describe(fr, p));
    in[i] = lib_value(fr, at, b, "an argument", p);
  }
  Op *op = build_op(&fr->b, OP_PRINT, n, in, 0, NULL);
  op->hex = lib_flag(fr, at, b, "hex", args[2]);
  op->text = intern_z(fr->cx, print_prefix(fr, prefix, n));
  return py_void(fr);
}

/* ---- assembly ---------------------------------------------------------------------------------------------------- */

static Py *call_asm(Front *fr, const Builtin *b, Span at, Py **args) {
  for (int i = 0; i < 2; i++)
    if (lib_none(args[i]))
      lib_fail(fr, at, b, NULL, "`%s` must be a string, but it is None", i ? "constraints" : "asm");
  const char *text = lib_str(fr, at, b, "asm", args[0]), *constraints = lib_str(fr, at, b, "constraints", args[1]);
  const Py *list = args[2];
  if (list->kind != PY_TUPLE)
    lib_fail(fr, at, b, NULL, "`args` must be a list of tensors, but it is %s", py_describe(fr, list));
  int n = list->tuple.n, pack = lib_small_int(fr, at, b, "pack", args[5]);
  if (pack < 1) lib_fail(fr, at, b, NULL, "`pack` must be positive, but it is %d", pack);
  Value **in = NEW_N(fr->cx->arena, Value *, n + 1);
  for (int i = 0; i < n; i++) in[i] = lib_value(fr, at, b, "an argument", list->tuple.at[i]);
  if (n) sem_broadcast_all(fr, at, n, in);
  if (n && in[0]->type->rank && type_numel(in[0]->type) % pack)
    lib_refuse(fr, at, NULL,
               "number of input elements %lld must be a multiple of the op's packed_element attribute, %d",
               (long long)type_numel(in[0]->type), pack);
  bool several = args[3]->kind == PY_TUPLE;
  int k = several ? args[3]->tuple.n : 1;
  if (k == 0) lib_fail(fr, at, b, NULL, "`dtype` must name at least one result");
  const Type **out = NEW_N(fr->cx->arena, const Type *, k);
  for (int i = 0; i < k; i++) {
    const Type *elem = lib_dtype(fr, at, b, "dtype", several ? args[3]->tuple.at[i] : args[3]);
    out[i] = n ? type_with_elem(fr->cx, in[0]->type, elem) : elem;
  }
  Op *op = build_op(&fr->b, OP_ASM, n, in, k, out);
  op->pure = lib_bool(fr, at, b, "is_pure", args[4]);
  op->pack = pack;
  op->text = arena_printf(fr->cx->arena, "%s\x1f%s", text, constraints);
  if (!several) return py_tensor(fr, op->out[0]);
  Py **items = NEW_N(fr->cx->arena, Py *, k);
  for (int i = 0; i < k; i++) items[i] = py_tensor(fr, op->out[i]);
  return py_tuple(fr, k, items);
}

/* ---- map_elementwise --------------------------------------------------------------------------------------------- */

/* The body is built first, apart, since its results' types decide the operation's. */
static Py *call_map(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *fn = args[0];
  int n = args[1]->tuple.n, pack = lib_small_int(fr, at, b, "pack", args[2]);
  if (n == 0) lib_fail(fr, at, b, NULL, "at least one tensor must be given");
  if (pack < 1) lib_fail(fr, at, b, NULL, "`pack` must be positive, but it is %d", pack);
  lib_jit_function(fr, at, b, "scalar_fn", fn);
  Value **in = NEW_N(fr->cx->arena, Value *, n);
  for (int i = 0; i < n; i++) in[i] = lib_tensor(fr, at, b, "an argument", args[1]->tuple.at[i]);
  sem_broadcast_all(fr, at, n, in);
  if (!in[0]->type->rank) lib_fail(fr, at, b, "call the function itself", "one of the arguments must be a block");
  Block *body = block_create(fr->func, NULL);
  Py **scalars = NEW_N(fr->cx->arena, Py *, n * pack);
  for (int i = 0; i < n * pack; i++)
    scalars[i] = py_tensor(fr, block_add_arg(fr->func, body, type_elem(fr->cx, in[i / pack]->type), NULL));
  Builder keep = lib_enter(fr, body);
  Py *result = front_hooks.call_values(fr, fn, at, n * pack, scalars);
  bool several = result->kind == PY_TUPLE;
  int k = several ? result->tuple.n : 1;
  Value **values = NEW_N(fr->cx->arena, Value *, k + 1);
  for (int i = 0; i < k; i++) {
    values[i] = lib_value(fr, at, b, "the function's result", several ? result->tuple.at[i] : result);
    if (values[i]->type->rank)
      lib_fail(fr, at, b, NULL, "the function must return scalars, but it returns %s", type_text(fr, values[i]->type));
  }
  build_yield(&fr->b, k, values);
  fr->b = keep;
  lib_note_inner_tensors(fr, body);
  if (k == 0 || k % pack)
    lib_fail(fr, at, b, NULL, "the function must return a multiple of `pack` values, but it returns %d", k);
  const Type **out = NEW_N(fr->cx->arena, const Type *, k);
  for (int i = 0; i < k; i++)
    if (values[i]->type != values[i / pack * pack]->type)
      lib_fail(fr, at, b, NULL, "the %d results of one packed value must be of one type, but they are %s and %s", pack,
               type_text(fr, values[i / pack * pack]->type), type_text(fr, values[i]->type));
  int m = k / pack;
  for (int i = 0; i < m; i++) out[i] = type_with_elem(fr->cx, in[0]->type, values[i * pack]->type);
  Op *op = build_op(&fr->b, OP_MAP, n, in, m, out);
  op->pack = pack;
  op->body[0] = body;
  body->parent = op;
  if (!several) return py_tensor(fr, op->out[0]);
  Py **items = NEW_N(fr->cx->arena, Py *, m);
  for (int i = 0; i < m; i++) items[i] = py_tensor(fr, op->out[i]);
  return py_tuple(fr, m, items);
}

/* ---- iterators --------------------------------------------------------------------------------------------------- */

Py *lib_range(Front *fr, Py *first, Py *second, Py *step, Py *hints, bool is_static, bool is_tl) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_RANGE;
  bool one = lib_none(second);
  p->range.start = one ? py_int(fr, 0) : first;
  p->range.stop = one ? first : second;
  p->range.step = lib_none(step) ? py_int(fr, 1) : step;
  p->range.hints = hints;
  p->range.is_static = is_static, p->range.is_tl = is_tl;
  return p;
}

static Py *call_range(Front *fr, const Builtin *b, Span at, Py **args) {
  if (strcmp(b->name, "static_range")) {
    static const char *const names[] = {"num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer",
                                        "flatten",    "warp_specialize",    "disable_licm"};
    Py *hints = py_dict(fr);
    for (int i = 0; i < 6; i++)
      if (!lib_none(args[3 + i])) py_dict_put(fr, hints, py_str(fr, names[i]), args[3 + i]);
    return lib_range(fr, args[0], args[1], args[2], hints, false, true);
  }
  static const char *const names[] = {"arg1", "arg2", "step"};
  bool two = !lib_none(args[1]);
  const char *const values[] = {two ? "start" : "end", "end", "step"};
  for (int i = 0; i < 3; i++) {
    if (args[i] && args[i]->kind == PY_TENSOR)
      lib_refuse(fr, at, "use range or tl.range for bounds that are known only at run time",
                 "%s used as tl.static_range %s value is not a constexpr",
                 args[i]->value->name ? args[i]->value->name : py_describe(fr, args[i]), values[i]);
    if (!lib_none(args[i])) lib_int(fr, at, b, names[i], args[i]);
  }
  return lib_range(fr, args[0], args[1], args[2], NULL, true, true);
}

const Builtin lib_debug_table[] = {
    {"tl", "range",
     "arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None, disallow_acc_multi_buffer=False, "
     "flatten=False, warp_specialize=False, disable_licm=False",
     call_range, LOOPS, 0, "hints are kept, for GPUs"},
    {"tl", "static_range", "arg1, arg2=None, step=None", call_range, LOOPS, 0, NULL},
    {"tl", "condition", "cond, disable_licm=False", call_condition, LOOPS, 0, NULL},
    {"tl", "multiple_of", "input, values", call_hint, HINTS, 0, NULL},
    {"tl", "max_contiguous", "input, values", call_hint, HINTS, 0, NULL},
    {"tl", "max_constancy", "input, values", call_hint, HINTS, 0, NULL},
    {"tl", "assume", "cond", call_assume, HINTS, 0, NULL},
    {"tl", "debug_barrier", "", call_barrier, HINTS, 0, NULL},
    {"tl", "static_print", "*values, sep=\" \", end=\"\n\", file=None, flush=False", call_static_print, DEBUG, 0, NULL},
    {"tl", "static_assert", "cond, msg=\"\", /", call_static_assert, DEBUG, 0, NULL},
    {"tl", "device_print", "prefix, *args, hex=False", call_device_print, DEBUG, 0, NULL},
    {"tl", "device_assert", "cond, msg=\"\", mask=None", call_device_assert, DEBUG, 0, "compiled with debug only"},
    {"tl", "inline_asm_elementwise", "asm, constraints, args, dtype, is_pure, pack", call_asm, ASM, 0,
     "PTX; without a GPU, the instructions of [inline-ptx](inline-ptx.md)"},
    {"tl", "map_elementwise", "scalar_fn, *args, pack=1", call_map, ASM, 0, NULL},
    {0},
};
