/* A launch's arguments as the kernel sees them: Triton's specialization (docs/reference/language.md).
 *
 *     argument            parameter                becomes
 *     f32 array           x_ptr                    an argument *f32, divisible by 16 if its address is
 *     4096                n                        an argument i32, divisible by 16
 *     1                   n                        the constexpr 1 (not with do_not_specialize or a type annotation)
 *     2**40, 1e-5, True   n, eps, flag             i64, f32, i1
 *     None                bias                     the constexpr None
 *     128                 BLOCK: tl.constexpr      the constexpr 128
 *     a descriptor        desc                     base, shape, strides: dims divisible by 16 where they are
 *     (missing)           eps=1e-5                 a run-time constant of the default's type
 *
 * A Slot says for each argument of the Func which part of which launch argument fills it. */
#include "front/core.h"

typedef struct Spec {
  Front *fr;
  Kernel *k;
  Arguments *out;
  int param;
  int path[4];
  int depth;
} Spec;

static NORETURN void bad_argument(Spec *s, const char *hint, const char *format, ...) PRINTF_LIKE(3, 4);
static void bad_argument(Spec *s, const char *hint, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  Buf b = {.arena = s->fr->cx->arena};
  buf_vprintf(&b, format, ap);
  va_end(ap);
  const char *what = arena_strdup(s->fr->cx->arena, b.at ? b.at : "");
  buf_destroy(&b);
  Span at = s->k->param_nodes[s->param]->span;
  if (hint)
    diag_fail_hint(s->fr->cx, at, hint, "argument `%s` of %s %s", s->k->params[s->param].name, s->k->fn->name, what);
  diag_fail(s->fr->cx, at, "argument `%s` of %s %s", s->k->params[s->param].name, s->k->fn->name, what);
}

static Value *add_slot(Spec *s, SlotKind kind, int dim, const Type *type, int64_t divisible, const char *suffix) {
  Arena *a = s->fr->cx->arena;
  Slot slot = {.kind = kind, .param = s->param, .depth = s->depth, .dim = dim, .type = type};
  memcpy(slot.path, s->path, sizeof slot.path);
  vec_push(a, &s->out->slots, slot);
  const char *name = s->k->params[s->param].name;
  for (int i = 0; i < s->depth; i++) name = arena_printf(a, "%s.%d", name, s->path[i]);
  if (suffix) name = arena_printf(a, "%s.%s", name, suffix);
  return func_add_arg(s->fr->func, type, name, divisible);
}

static Py *descriptor(Spec *s, const ArgSpec *arg) {
  Front *fr = s->fr;
  Context *cx = fr->cx;
  if (arg->rank < 1 || arg->rank > MAX_RANK)
    bad_argument(s, NULL, "is a descriptor of rank %d; 1 to 5 are possible", arg->rank);
  BlockPtr *bp = NEW(cx->arena, BlockPtr);
  bp->rank = arg->rank;
  bp->nan_padding = arg->nan_padding;
  memcpy(bp->block_shape, arg->block_shape, sizeof bp->block_shape);
  bp->base = add_slot(s, SLOT_DESC_BASE, 0, type_pointer(cx, arg->dtype), 16, "base");
  /* outer strides are multiples of 16 bytes */
  int64_t step = 16 / (dtype_bytes(arg->dtype) > 16 ? 16 : dtype_bytes(arg->dtype));
  for (int i = 0; i < bp->rank; i++)
    bp->shape[i] = add_slot(s, SLOT_DESC_SHAPE, i, type_number(cx, DT_I32), arg->divisible_shape >> i & 1 ? 16 : 1,
                            arena_printf(cx->arena, "shape%d", i));
  for (int i = 0; i + 1 < bp->rank; i++)
    bp->strides[i] =
        add_slot(s, SLOT_DESC_STRIDE, i, type_number(cx, DT_I64), step, arena_printf(cx->arena, "stride%d", i));
  bp->strides[bp->rank - 1] = build_int(&fr->b, type_number(cx, DT_I64), 1); /* a descriptor's last stride is 1 */
  Py *p = NEW(cx->arena, Py);
  p->kind = PY_DESC;
  p->bp = bp;
  return p;
}

static Dtype int_type(const ArgSpec *arg) {
  if (!arg->has_value) return DT_I32;
  if (arg->is_unsigned) return DT_U64;
  return arg->int_value >= INT32_MIN && arg->int_value <= INT32_MAX ? DT_I32 : DT_I64;
}

/* The class of a tuple whose items all have names, or NULL. */
static const PyClass *fields_of(Spec *s, const ArgSpec *tuple) {
  Context *cx = s->fr->cx;
  PyClass *cls = NEW(cx->arena, PyClass);
  cls->name = "tuple";
  cls->module = s->fr->module;
  cls->is_namedtuple = true;
  cls->members = map_create(cx->arena, true);
  cls->field_count = tuple->item_count;
  cls->fields = NEW_N(cx->arena, const char *, tuple->item_count + 1);
  cls->defaults = NEW_N(cx->arena, Py *, tuple->item_count + 1);
  for (int i = 0; i < tuple->item_count; i++) {
    if (!tuple->items[i].field) return NULL;
    cls->fields[i] = intern_z(cx, tuple->items[i].field);
  }
  return tuple->item_count ? cls : NULL;
}

static Py *runtime_argument(Spec *s, const ArgSpec *arg) {
  stack_guard();
  Front *fr = s->fr;
  Context *cx = fr->cx;
  const KernelParam *p = &s->k->params[s->param];
  const Type *forced = s->depth ? NULL : s->k->forced[s->param];
  if (!forced && arg->has_dtype && (arg->kind == ARG_INT || arg->kind == ARG_FLOAT))
    forced = type_number(cx, arg->dtype);
  bool specialize = !p->no_specialize || s->depth, align = specialize && !p->no_align;
  switch (arg->kind) {
    case ARG_NONE: return py_none(fr);
    case ARG_POINTER: {
      if (forced && !forced->ptr) bad_argument(s, NULL, "is annotated %s, but an array is given", p->annotation);
      Type t = forced ? *forced : (Type){.dtype = arg->dtype, .ptr = 1};
      t.is_const |= s->k->is_const[s->param];
      return py_tensor(fr, add_slot(s, SLOT_ARG, 0, type_make(cx, t), arg->aligned && align ? 16 : 1, NULL));
    }
    case ARG_INT: {
      bool divisible = align && arg->has_value && arg->int_value % 16 == 0 &&
                       !(forced && !forced->ptr && (dtype_is_float(forced->dtype) || forced->dtype == DT_I1));
      if (forced) return py_tensor(fr, add_slot(s, SLOT_ARG, 0, forced, divisible ? 16 : 1, NULL));
      if (specialize && arg->has_value && !arg->is_unsigned && arg->int_value == 1) return py_int(fr, 1);
      return py_tensor(fr, add_slot(s, SLOT_ARG, 0, type_number(cx, int_type(arg)), divisible ? 16 : 1, NULL));
    }
    case ARG_FLOAT:
      if (forced && (forced->ptr || dtype_is_int(forced->dtype)))
        bad_argument(s, NULL, "is annotated %s, but a float is given", p->annotation);
      return py_tensor(fr, add_slot(s, SLOT_ARG, 0, forced ? forced : type_number(cx, DT_F32), 1, NULL));
    case ARG_BOOL: return py_tensor(fr, add_slot(s, SLOT_ARG, 0, forced ? forced : type_number(cx, DT_I1), 1, NULL));
    case ARG_DESCRIPTOR: return descriptor(s, arg);
    case ARG_TUPLE: {
      if (s->depth == 4) bad_argument(s, NULL, "is a tuple nested more than 4 deep");
      Py *t = py_tuple(fr, 0, NULL);
      for (int i = 0; i < arg->item_count; i++) {
        s->path[s->depth++] = i;
        py_append(fr, t, runtime_argument(s, &arg->items[i]));
        s->depth--;
      }
      t->tuple.cls = fields_of(s, arg);
      return t;
    }
    case ARG_CONSTEXPR: return host_constexpr(fr, s->k, arg->text, p->name);
    case ARG_MISSING: break;
  }
  bad_argument(s, NULL, "is missing");
}

static Py *constexpr_argument(Spec *s, const ArgSpec *arg) {
  stack_guard();
  Front *fr = s->fr;
  const KernelParam *p = &s->k->params[s->param];
  switch (arg->kind) {
    case ARG_CONSTEXPR: return core_python_tuple(fr, host_constexpr(fr, s->k, arg->text, p->name));
    case ARG_NONE: return py_none(fr);
    case ARG_BOOL: return py_bool(fr, arg->int_value != 0);
    case ARG_FLOAT: return py_float(fr, arg->float_value);
    case ARG_INT:
      if (!arg->has_value) bad_argument(s, NULL, "is a constexpr and needs a value, not only a type");
      return py_int(fr, arg->is_unsigned ? (PyInt)(uint64_t)arg->int_value : (PyInt)arg->int_value);
    case ARG_TUPLE: {
      Py *t = py_tuple(fr, 0, NULL);
      for (int i = 0; i < arg->item_count; i++) py_append(fr, t, constexpr_argument(s, &arg->items[i]));
      return core_python_tuple(fr, t);
    }
    default: bad_argument(s, NULL, "is a constexpr, but an array is given");
  }
}

/* a default or heuristic's value of a plain parameter */
static Py *as_runtime(Front *fr, Py *v, const KernelParam *p, const Type *forced, Span at) {
  if (v->kind == PY_INT && v->i == 1 && !p->no_specialize && !forced) return v;
  if (!py_is_number(v)) return v;
  if (forced && !forced->ptr)
    return py_tensor(fr, v->kind == PY_FLOAT ? build_float(&fr->b, forced, v->f)
                                             : build_int(&fr->b, forced, (int64_t)v->i));
  if (v->kind == PY_FLOAT) return py_tensor(fr, build_float(&fr->b, type_number(fr->cx, DT_F32), v->f));
  return py_tensor(fr, sem_to_value(fr, at, v, p->name));
}

Arguments *front_specialize(Front *fr, Kernel *k, const ArgSpec *args, Py **chosen) {
  Context *cx = fr->cx;
  Arguments *out = NEW(cx->arena, Arguments);
  out->values = NEW_N(cx->arena, Py *, k->param_count + 1);
  for (int i = 0; i < k->param_count; i++) {
    const KernelParam *p = &k->params[i];
    Spec s = {.fr = fr, .k = k, .out = out, .param = i};
    Span at = k->param_nodes[i]->span;
    if (p->is_constexpr && (p->no_specialize || p->no_align))
      diag_fail(
          cx, at,
          "%s marked as constexpr and listed in do_not_specialize/do_not_specialize_on_alignment. Remove constexpr "
          "designation to skip specialization.",
          p->name);
    if (args[i].kind != ARG_MISSING) {
      out->values[i] = p->is_constexpr ? constexpr_argument(&s, &args[i]) : runtime_argument(&s, &args[i]);
      continue;
    }
    Py *v = chosen[i];
    if (!v && p->is_rest) v = py_tuple(fr, 0, NULL);
    if (!v && p->has_default) v = host_default(fr, k->fn, p->name);
    if (!v && p->has_default)
      v = host_eval_at(fr, k->fn->around ? k->fn->around : k->module->globals, k->default_nodes[i],
                       k->fn->def->span.line);
    if (v && v->kind == PY_UNKNOWN)
      diag_fail_hint(cx, at, "pass it", "argument `%s` of %s is missing, and its %s is not known here: %s", p->name,
                     k->fn->name, chosen[i] ? "autotune or heuristics value" : "default", v->library);
    if (!v)
      bad_argument(
          &s,
          p->is_constexpr ? arena_printf(cx->arena, "it is a tl.constexpr: pass a value, as in %s=128", p->name) : NULL,
          "is missing");
    out->values[i] = p->is_constexpr ? v : as_runtime(fr, v, p, k->forced[i], at);
  }
  return out;
}
