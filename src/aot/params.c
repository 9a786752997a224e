/* A kernel's parameters as the list of values that its launches have (rt/bundle.h), from a signature or from the
 * arguments of a launch; and what a specialization takes for granted of them.
 */
#include "aot/aot.h"

static AotValues new_values(Context *cx, int room) {
  return (AotValues){.params = NEW_N(cx->arena, BundleParam, room + 1),
                     .rules = NEW_N(cx->arena, const ParamRule *, room + 1),
                     .args = NEW_N(cx->arena, nereid_arg *, room + 1)};
}

/* ---- of a signature ---------------------------------------------------------------------------------------------- */

AotValues aot_values(Context *cx, const AotParams *signature) {
  AotValues v = new_values(cx, signature->n);
  BundleParam *params = NEW_N(cx->arena, BundleParam, signature->n + 1);
  for (int i = 0; i < signature->n; i++) params[i] = signature->at[i].value, v.rules[i] = signature->at[i].rule;
  v.params = params, v.count = signature->n;
  return v;
}

static nereid_arg number(const BundleParam *p, unsigned which) {
  int64_t value = which == FOR_ONE ? 1 : which == FOR_DIVISIBLE ? 16 : 3;
  if (p->dtype == DT_I64 && which != FOR_ONE) value += (int64_t)1 << 36;
  nereid_arg a = nereid_int(value);
  if (p->dtype != DT_I32 && p->dtype != DT_I64) a.has_dtype = true, a.dtype = (nereid_dtype)p->dtype;
  return a;
}

static nereid_arg tensor_descriptor(const BundleParam *p, unsigned which) {
  nereid_arg a = {.kind = NEREID_ARG_DESCRIPTOR, .dtype = (nereid_dtype)p->dtype, .rank = p->rank};
  a.pointer = (void *)(uintptr_t)4096;
  a.nan_padding = p->nan_padding;
  for (int d = 0; d < p->rank; d++) {
    a.shape[d] = which == FOR_DIVISIBLE ? 4096 : 4099;
    a.strides[d] = d + 1 < p->rank ? 8192 : 1;
    a.block_shape[d] = p->block_shape[d];
  }
  return a;
}

/* The argument for value i, whose items are told to args. */
static nereid_arg argument(Context *cx, const AotParams *signature, int i, const unsigned *which, nereid_arg **args) {
  const BundleParam *p = &signature->at[i].value;
  nereid_arg a = {0};
  switch (p->kind) {
    case PARAM_POINTER:
      a = nereid_pointer((void *)(uintptr_t)(which[i] == FOR_DIVISIBLE ? 4096 : 4104), (nereid_dtype)p->dtype);
      break;
    case PARAM_INT: a = number(p, which[i]); break;
    case PARAM_FLOAT:
      a = nereid_float(0.5);
      if (p->dtype != DT_F32) a.has_dtype = true, a.dtype = (nereid_dtype)p->dtype;
      break;
    case PARAM_BOOL: a = nereid_bool(true); break;
    case PARAM_NONE: a = nereid_none(); break;
    case PARAM_DESCRIPTOR: a = tensor_descriptor(p, which[i]); break;
    case PARAM_TUPLE: {
      nereid_arg *items = NEW_N(cx->arena, nereid_arg, p->size);
      a = (nereid_arg){.kind = NEREID_ARG_TUPLE, .items = items};
      for (int at = i + 1; at < i + p->size; at += signature->at[at].value.size) {
        args[at] = &items[a.item_count++];
        *args[at] = nereid_named(argument(cx, signature, at, which, args), signature->at[at].field);
      }
      break;
    }
    default: a = nereid_constexpr(p->constant);
  }
  return a;
}

int aot_arguments(Context *cx, const AotParams *signature, const unsigned *which, nereid_arg *out, AotValues *values) {
  int n = 0;
  for (int i = 0; i < signature->n; i += signature->at[i].value.size) {
    values->args[i] = signature->at[i].given ? &out[n++] : NULL;
    if (values->args[i])
      *values->args[i] = nereid_named(argument(cx, signature, i, which, values->args), signature->at[i].value.name);
  }
  return n;
}

/* ---- of a launch ------------------------------------------------------------------------------------------------- */

typedef struct Flat {
  Context *cx;
  BundleParam *params;
  AotValues *values;
} Flat;

static BundleParam *add(Flat *f, const char *name, const ParamRule *rule, ParamKind kind, Dtype type, nereid_arg *a) {
  AotValues *v = f->values;
  if (v->count == BUNDLE_MOST_PARAMS)
    diag_fail(f->cx, (Span){0}, "parameter '%s' is more than %d values, with those before it", rule->name,
              BUNDLE_MOST_PARAMS);
  v->rules[v->count] = rule, v->args[v->count] = a;
  BundleParam *p = &f->params[v->count++];
  *p = (BundleParam){.name = name, .kind = kind, .dtype = type, .constant = "", .size = 1};
  return p;
}

static void add_arg(Flat *f, const char *name, const ParamRule *rule, nereid_arg *a);

static void add_descriptor(Flat *f, const char *name, const ParamRule *rule, nereid_arg *a) {
  BundleParam *d = add(f, name, rule, PARAM_DESCRIPTOR, (Dtype)a->dtype, a);
  d->rank = a->rank, d->nan_padding = a->nan_padding;
  memcpy(d->block_shape, a->block_shape, sizeof d->block_shape);
  d->size += 2 * a->rank;
  for (int i = 0; i < 2 * a->rank; i++)
    add(f, arena_printf(f->cx->arena, "%s.%s%d", name, i < a->rank ? "shape" : "stride", i % a->rank), rule, PARAM_INT,
        i < a->rank ? DT_I32 : DT_I64, NULL);
}

static void add_tuple(Flat *f, const char *name, const ParamRule *rule, nereid_arg *a) {
  Arena *arena = f->cx->arena;
  BundleParam *tuple = add(f, name, rule, PARAM_TUPLE, 0, a);
  int first = f->values->count - 1;
  ParamRule *plain = NEW(arena, ParamRule);
  *plain = (ParamRule){.name = rule->name, .is_read = rule->is_read, .in_tune_key = rule->in_tune_key};
  nereid_arg *items = NEW_N(arena, nereid_arg, a->item_count + 1);
  for (int i = 0; i < a->item_count; i++) {
    items[i] = a->items[i];
    if (items[i].name) items[i].name = arena_strdup(arena, items[i].name);
    add_arg(f,
            items[i].name ? arena_printf(arena, "%s.%s", name, items[i].name) : arena_printf(arena, "%s.%d", name, i),
            plain, &items[i]);
  }
  a->items = items;
  tuple->size = f->values->count - first;
}

/* A constexpr becomes its text. */
static void add_arg(Flat *f, const char *name, const ParamRule *rule, nereid_arg *a) {
  if (rule->is_constexpr || a->kind == NEREID_ARG_CONSTEXPR) {
    Buf text = {.arena = f->cx->arena};
    const char *constant = arg_python_text(&text, a) ? text.at : "";
    *a = nereid_named(nereid_constexpr(constant), a->name);
    add(f, name, rule, PARAM_CONSTEXPR, 0, a)->constant = constant;
    return;
  }
  Seen s = arg_see(rule, a);
  if (s.kind == ARG_TUPLE) add_tuple(f, name, rule, a);
  else if (s.kind == ARG_DESCRIPTOR) add_descriptor(f, name, rule, a);
  else if (s.kind == ARG_POINTER) add(f, name, rule, PARAM_POINTER, s.type, a);
  else if (s.kind == ARG_INT) add(f, name, rule, PARAM_INT, s.type, a);
  else if (s.kind == ARG_FLOAT) add(f, name, rule, PARAM_FLOAT, s.type, a);
  else if (s.kind == ARG_BOOL) add(f, name, rule, PARAM_BOOL, s.type, a);
  else add(f, name, rule, PARAM_NONE, 0, a);
}

AotValues aot_values_of(Context *cx, const KernelInfo *k, const nereid_arg *const *args, nereid_arg *out, int *count) {
  AotValues v = new_values(cx, BUNDLE_MOST_PARAMS);
  Flat f = {cx, NEW_N(cx->arena, BundleParam, BUNDLE_MOST_PARAMS + 1), &v};
  v.params = f.params;
  for (int p = 0; p < k->info.param_count; p++) {
    const char *name = arena_strdup(cx->arena, k->names[p]);
    if (!args[p]) {
      add(&f, name, &k->rules[p], PARAM_CONSTEXPR, 0, NULL);
      continue;
    }
    nereid_arg *a = &out[(*count)++];
    *a = nereid_named(*args[p], name);
    add_arg(&f, name, &k->rules[p], a);
  }
  return v;
}

/* ---- conditions and slots ---------------------------------------------------------------------------------------- */

static void condition(BundleVariant *v, ConditionKind kind, int param) {
  v->conditions[v->condition_count++] = (BundleCondition){kind, param, 0};
}

void aot_conditions(Context *cx, const AotValues *values, BundleVariant *v) {
  BundleCondition *all = NEW_N(cx->arena, BundleCondition, v->condition_count + 2 * values->count + 1);
  if (v->condition_count) memcpy(all, v->conditions, sizeof *all * (size_t)v->condition_count);
  v->conditions = all;
  for (int p = 0; p < values->count; p++) {
    const nereid_arg *a = values->args[p];
    const ParamRule *r = values->rules[p];
    if (!a || r->is_constexpr || a->kind == NEREID_ARG_CONSTEXPR) continue;
    Seen s = arg_see(r, a);
    if (s.kind == ARG_POINTER && s.is_divisible) condition(v, CONDITION_ALIGNED, p);
    if (s.kind == ARG_INT && s.is_one) condition(v, CONDITION_ONE, p);
    if (s.kind == ARG_INT && s.is_divisible && !s.is_one) condition(v, CONDITION_DIVISIBLE, p);
    for (int d = 0; s.kind == ARG_DESCRIPTOR && d < a->rank; d++)
      if (arg_divisible_shape(r, a) >> d & 1) condition(v, CONDITION_DIVISIBLE, p + 1 + d);
  }
}

int aot_slot_value(const BundleEntry *e, const Slot *s) {
  int at = 0;
  for (int i = 0; i < s->param; i++) at += e->params[at].size;
  for (int k = 0; k < s->depth; k++) {
    at++;
    for (int i = 0; i < s->path[k]; i++) at += e->params[at].size;
  }
  if (s->kind == SLOT_DESC_SHAPE) at += 1 + s->dim;
  if (s->kind == SLOT_DESC_STRIDE) at += 1 + e->params[at].rank + s->dim;
  return at;
}
