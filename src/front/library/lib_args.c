/* lib_args.c: reading the arguments of a library function, with one kind of message for each way in which one can be
 * wrong.
 *
 *     tl.arange: `end` must be known while compiling, but it is a run-time value (i32)
 *     hint: `n` was assigned a plain value: annotate it, `n: tl.constexpr = ...`
 */
#include "front/library/lib.h"
#include "front/core.h"

const char *lib_full_name(Front *fr, const Builtin *b) {
  static const struct {
    const char *library, *prefix;
  } names[] = {
      {"tl", "tl."},
      {"tl.math", "tl."},
      {"tl.core", "tl.core."},
      {"tl.extra.cuda", "tl.extra.cuda."},
      {"libdevice", "libdevice."},
      {"helpers", "triton_helpers."},
      {"triton", "triton."},
      {"math", "math."},
      {"operator", "operator."},
      {"tl.target_info", "tl.target_info."},
      {"tensor", "x."},
      {"dtype", "dtype."},
      {"desc", "desc."},
      {"block_ptr", "block_ptr."},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i].library, b->library)) return arena_printf(fr->cx->arena, "%s%s", names[i].prefix, b->name);
  return b->name; /* Python's own, and methods */
}

/* Where nothing else has been said. */
static Context *as_value(Front *fr) { return fr->cx->error ? fr->cx : diag_as(fr->cx, ERROR_VALUE); }

NORETURN void lib_fail(Front *fr, Span at, const Builtin *b, const char *hint, const char *format, ...) {
  Buf t = {.arena = fr->cx->arena};
  va_list ap;
  va_start(ap, format);
  buf_vprintf(&t, format, ap);
  va_end(ap);
  const char *text = arena_strdup(fr->cx->arena, t.at ? t.at : "");
  buf_destroy(&t);
  if (hint) diag_fail_hint(as_value(fr), at, hint, "%s: %s", lib_full_name(fr, b), text);
  diag_fail(as_value(fr), at, "%s: %s", lib_full_name(fr, b), text);
}

NORETURN void lib_refuse(Front *fr, Span at, const char *hint, const char *format, ...) {
  Buf t = {0};
  va_list ap;
  va_start(ap, format);
  buf_vprintf(&t, format, ap);
  va_end(ap);
  const char *text = arena_strdup(fr->cx->arena, t.at ? t.at : "");
  buf_destroy(&t);
  if (hint) diag_fail_hint(as_value(fr), at, hint, "%s", text);
  diag_fail(as_value(fr), at, "%s", text);
}

bool lib_none(const Py *p) { return !p || p->kind == PY_NONE; }

/* ---- compile-time arguments -------------------------------------------------------------------------------------- */

/* A run-time value stands where a constexpr is wanted: say which and how to repair it. b NULL: `name` is how the
 * message begins. */
static NORETURN void not_constexpr(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  Value *v = p->value;
  const char *hint = "pass a literal or a value annotated tl.constexpr";
  if (v->name && v->def && v->def->code == OP_CONST)
    hint = arena_printf(
        fr->cx->arena,
        "`%s` was assigned a plain value, which makes it a run-time one: annotate it, `%s: tl.constexpr = ...`",
        v->name, v->name);
  else if (v->name && !v->def) hint = arena_printf(fr->cx->arena, "declare the parameter `%s: tl.constexpr`", v->name);
  else if (v->def && v->def->code == OP_CONST)
    hint = "a plain assignment makes a run-time value: annotate the variable, `n: tl.constexpr = ...`";
  if (!b) lib_refuse(fr, at, hint, "%s is a run-time value (%s)", name, type_text(fr, v->type));
  lib_fail(fr, at, b, hint, "`%s` must be constexpr, but it is a run-time value (%s)", name, type_text(fr, v->type));
}

NORETURN void lib_not_constexpr(Front *fr, Span at, const char *text, const Py *p) {
  not_constexpr(fr, at, NULL, text, p);
}

PyInt lib_int(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  if (p->kind == PY_INT || p->kind == PY_BOOL) return p->i;
  if (p->kind == PY_TENSOR) not_constexpr(fr, at, b, name, p);
  lib_fail(fr, at, b, NULL, "`%s` must be a constexpr int, but it is %s", name, py_describe(fr, p));
}

int lib_small_int(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  PyInt v = lib_int(fr, at, b, name, p);
  if (v < INT32_MIN || v > INT32_MAX)
    lib_fail(fr, at, b, NULL, "`%s` must fit in 32 bits, but it is %s", name, py_describe(fr, p));
  return (int)v;
}

static NORETURN void no_bool(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  if (p->kind == PY_TENSOR) not_constexpr(fr, at, b, name, p);
  lib_fail(fr, at, b, NULL, "`%s` must be a constexpr bool, but it is %s", name, py_describe(fr, p));
}

bool lib_bool(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  if (!lib_none(p) && !py_is_number(p)) no_bool(fr, at, b, name, p);
  return lib_truth(p);
}

bool lib_flag(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  bool wrapped = lib_none(p) || py_is_number(p) || p->kind == PY_STR || (p->kind == PY_TUPLE && p->is_python);
  if (!wrapped) no_bool(fr, at, b, name, p);
  return lib_truth(p);
}

bool lib_condition(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  if (!lib_none(p) && p->kind != PY_INT && p->kind != PY_BOOL) no_bool(fr, at, b, name, p);
  return lib_truth(p);
}

bool lib_truth(const Py *p) { return !lib_none(p) && py_truth_known(p) != 0; }

const char *lib_str(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  if (lib_none(p)) return "";
  if (p->kind == PY_STR) return p->str.s;
  if (p->kind == PY_TENSOR) not_constexpr(fr, at, b, name, p);
  lib_fail(fr, at, b, NULL, "`%s` must be a string, but it is %s", name, py_describe(fr, p));
}

const char *lib_option(Front *fr, Span at, const Builtin *b, const char *name, Py *p) {
  if (lib_none(p) || p->kind == PY_STR) return lib_str(fr, at, b, name, p);
  if (p->kind == PY_TENSOR) not_constexpr(fr, at, b, name, p);
  const char *why;
  Py *text = py_truth(fr, at, p) ? py_format(fr, p, 0, "", &why) : NULL;
  return text ? text->str.s : "";
}

const Type *lib_dtype(Front *fr, Span at, const Builtin *b, const char *name, const Py *p) {
  if (p->kind == PY_TYPE) return type_elem(fr->cx, p->type);
  Dtype d;
  if (p->kind == PY_STR && dtype_parse(p->str.s, &d))
    lib_fail(fr, at, b, arena_printf(fr->cx->arena, "write tl.%s", dtype_torch_name(d)),
             "`%s` must be a dtype, not a string", name);
  if (p->kind == PY_TENSOR)
    lib_fail(fr, at, b, "use the tensor's `.dtype`", "`%s` must be a dtype such as tl.float32, but it is a tensor (%s)",
             name, type_text(fr, p->value->type));
  lib_fail(fr, at, b, NULL, "`%s` must be a dtype such as tl.float32, but it is %s", name, py_describe(fr, p));
}

/* ---- run-time arguments ------------------------------------------------------------------------------------------ */

Value *lib_value(Front *fr, Span at, const Builtin *b, const char *name, Py *p) {
  if (p->kind == PY_TENSOR) return p->value;
  if (!py_is_number(p)) {
    const char *hint = p->kind == PY_BLOCK_PTR ? "tl.load gives a block pointer's elements"
                       : p->kind == PY_DESC    ? "use the descriptor's .load(offsets)"
                                               : NULL;
    lib_refuse(fr, at, hint,
               "cannot convert %s of type <class '%s'> to tensor: `%s` of %s must be a tensor or a number",
               py_describe(fr, p), py_class_name(p), name, lib_full_name(fr, b));
  }
  return sem_to_value(fr, at, p, name);
}

Value *lib_tensor(Front *fr, Span at, const Builtin *b, const char *name, Py *p) {
  if (p->kind == PY_TENSOR) return p->value;
  lib_fail(fr, at, b,
           py_is_number(p) ? "tl.full((...), value, dtype) or tl.to_tensor(value) makes a tensor of a number" : NULL,
           "`%s` must be a tensor, but it is %s", name, py_describe(fr, p));
}

Value *lib_block(Front *fr, Span at, const Builtin *b, const char *name, Py *p) {
  Value *v = lib_tensor(fr, at, b, name, p);
  if (v->type->rank == 0)
    lib_fail(fr, at, b, NULL, "`%s` must be a block, but it is a scalar (%s)", name, type_text(fr, v->type));
  return v;
}

/* ---- shapes and axes --------------------------------------------------------------------------------------------- */

int lib_axis(Front *fr, Span at, const Builtin *b, const char *name, const Py *p, int rank) {
  int axis = lib_small_int(fr, at, b, name, p);
  if (axis < -rank || axis >= rank)
    lib_fail(fr, at, b, NULL, "`%s` must be in [%d, %d) for a tensor of rank %d, but it is %d", name, -rank, rank, rank,
             axis);
  return axis < 0 ? axis + rank : axis;
}

/* The items of a list-like argument: one value stands for a list of itself; a *args tuple that holds one tuple is that.
 */
static void items_of(const Py *p, int *n, Py *const **items, const Py **single) {
  if (p->kind == PY_TUPLE && p->tuple.n == 1 && p->tuple.at[0]->kind == PY_TUPLE) p = p->tuple.at[0];
  if (p->kind == PY_TUPLE) {
    *n = p->tuple.n, *items = p->tuple.at;
    return;
  }
  *single = p, *n = 1, *items = (Py *const *)single;
}

int lib_ints(Front *fr, Span at, const Builtin *b, const char *name, const Py *p, int64_t *out, int max) {
  int n;
  Py *const *items;
  const Py *single;
  items_of(p, &n, &items, &single);
  if (n > max) lib_fail(fr, at, b, NULL, "`%s` has %d entries, but at most %d can be", name, n, max);
  for (int i = 0; i < n; i++) {
    if (!strcmp(name, "shape") && items[i]->kind == PY_TENSOR)
      not_constexpr(fr, at, NULL,
                    arena_printf(fr->cx->arena, "Shape element %d must have type `constexpr[int]`, but it", i),
                    items[i]);
    PyInt v = lib_int(fr, at, b, arena_printf(fr->cx->arena, "%s[%d]", name, i), items[i]);
    if (v < INT64_MIN || v > INT64_MAX) lib_fail(fr, at, b, NULL, "`%s[%d]` does not fit in 64 bits", name, i);
    out[i] = (int64_t)v;
  }
  return n;
}

int lib_shape(Front *fr, Span at, const Builtin *b, const char *name, const Py *p, int32_t *shape) {
  if (p->kind != PY_TUPLE && p->kind != PY_INT && p->kind != PY_BOOL && p->kind != PY_TENSOR)
    lib_fail(fr, at, b, "write it as a tuple or list of constexpr ints", "`%s` must be a shape, but it is %s", name,
             py_describe(fr, p));
  int64_t dims[MAX_RANK], numel = 1;
  int n = lib_ints(fr, at, b, name, p, dims, MAX_RANK);
  for (int i = 0; i < n; i++) {
    if (dims[i] < 0 || (dims[i] & (dims[i] - 1))) /* 0 is a size, too: of tensors that are made and never used */
      lib_refuse(fr, at,
                 arena_printf(fr->cx->arena,
                              "it is %lld: round it up with triton.next_power_of_2 and mask what is too much",
                              (long long)dims[i]),
                 "Shape element %d must be a power of 2", i);
    if (__builtin_mul_overflow(numel, dims[i], &numel) || numel > MAX_TILE_ELEMENTS)
      lib_refuse(fr, at, "use smaller blocks and more programs",
                 "numel (%lld) exceeds triton maximum tensor numel (%d)", (long long)numel, MAX_TILE_ELEMENTS);
    shape[i] = (int32_t)dims[i];
    fr->has_empty |= dims[i] == 0;
  }
  return n;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

void lib_jit_function(Front *fr, Span at, const Builtin *b, const char *name, const Py *fn) {
  const Builtin *row = fn->kind == PY_BUILTIN ? fn->builtin.b : NULL;
  if (row && (!strcmp(row->library, "helpers") || !strcmp(row->library, "tl.core") ||
              (!strcmp(row->library, "tl") && !strcmp(row->name, "cdiv"))))
    return;
  if (fn->kind == PY_FUNCTION && fn->fn->kind == FN_JIT) return;
  if (fn->kind == PY_FUNCTION && fn->fn->kind == FN_CONSTEXPR)
    lib_refuse(fr, at, "put @triton.jit above it",
               "'ConstexprFunction' object has no attribute 'arg_names': `%s` of "
               "%s must be a jit function, but it is the constexpr_function %s",
               name, lib_full_name(fr, b), fn->fn->name);
  bool callable = row || fn->kind == PY_FUNCTION;
  lib_refuse(fr, at, "pass a @triton.jit function that calls it",
             "'%s' object has no attribute 'fn': `%s` of %s must be a jit function, but it is %s",
             callable ? "function" : "constexpr", name, lib_full_name(fr, b),
             row ? lib_full_name(fr, row) : py_describe(fr, fn));
}

static void note_tensor(Op *op, void *arg) {
  Front *fr = arg;
  for (int i = 0; i < op->out_count; i++) fr->has_inner_tensors |= op->out[i]->type->rank > 0;
}

void lib_note_inner_tensors(Front *fr, Block *body) { tile_walk(body, note_tensor, fr); }

/* ---- regions ----------------------------------------------------------------------------------------------------- */

Builder lib_enter(Front *fr, Block *block) {
  Builder keep = fr->b;
  fr->b.block = block;
  fr->b.before = NULL;
  return keep;
}

int lib_cache(Front *fr, Span at, const Builtin *b, Py *p, bool store) {
  static const struct {
    const char *name;
    int hint;
    bool load, store;
  } hints[] = {{"", CACHE_NONE, true, true},  {".ca", CACHE_CA, true, false}, {".cg", CACHE_CG, true, true},
               {".cs", CACHE_CS, true, true}, {".cv", CACHE_CV, true, false}, {".wb", CACHE_WB, false, true},
               {".wt", CACHE_WT, false, true}};
  const char *s = lib_option(fr, at, b, "cache_modifier", p);
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
    if (!strcmp(hints[i].name, s) && (store ? hints[i].store : hints[i].load)) return hints[i].hint;
  lib_refuse(fr, at,
             store ? "it is \"\", \".wb\", \".cg\", \".cs\" or \".wt\""
                   : "it is \"\", \".ca\", \".cg\", \".cs\" or \".cv\"",
             "Cache modifier %s not supported", s);
}

int lib_evict(Front *fr, Span at, const Builtin *b, Py *p) {
  const char *s = lib_option(fr, at, b, "eviction_policy", p);
  if (!s[0]) return EVICT_DEFAULT;
  if (!strcmp(s, "evict_first")) return EVICT_FIRST;
  if (!strcmp(s, "evict_last")) return EVICT_LAST;
  lib_refuse(fr, at, "it is \"\", \"evict_first\" or \"evict_last\"", "Eviction policy %s not supported", s);
}
