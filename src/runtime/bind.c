/* Binding: which argument goes to which parameter, and which specialization a launch needs.
 *
 * Triton's rules (jit): a pointer specialises on its element type and on whether its address is divisible by 16; an
 * integer on being 1 (it is then a constant), on being divisible by 16, and on whether it is an int32, int64 or uint64;
 * a constexpr on its value. do_not_specialize drops the first two of the integer's and the pointer's; an annotation
 * with a type fixes the type and drops the rule of 1.
 *
 * The key spells exactly that, byte by byte, and the front end is told no more than the key says: of all integers that
 * specialise alike it gets one representative. So two launches with one key cannot mean two different kernels. Only
 * numbers that heuristics or the autotuner look at are in the key themselves.
 *
 *     kernel 0, cpu, 4 warps:   p f32 aligned | p f32 aligned | i i32 divisible | c "1024"
 */
#include <math.h>
#include <stdlib.h>

#include "gpu/gpu.h"
#include "runtime/runtime.h"

/* ---- the key as it grows ----------------------------------------------------------------------------------------- */

static bool key_grow(Call *c, size_t n) {
  size_t cap = 2 * (c->key_cap + n);
  unsigned char *grown = c->key == c->key_inline ? malloc(cap) : realloc(c->key, cap);
  if (!grown) return c->failed = true, false;
  if (c->key == c->key_inline) memcpy(grown, c->key_inline, c->key_size);
  c->key = grown;
  c->key_cap = cap;
  return true;
}

/* Inlined, so that the copies of few bytes, which most are, become moves. */
static inline void key_bytes(Call *c, const void *p, size_t n) {
  if (__builtin_expect(c->key_cap - c->key_size < n, 0) && !key_grow(c, n)) return;
  memcpy(c->key + c->key_size, p, n);
  c->key_size += n;
}

static void key_byte(Call *c, unsigned char b) { key_bytes(c, &b, 1); }

/* ---- what of an argument a specialization depends on ------------------------------------------------------------- */

/* Where an argument stands, for messages. */
typedef struct Place {
  const KernelInfo *kernel;
  const ParamRule *rule;
  int item; /* of a tuple; -1: the argument itself */
  nereid_error **error;
} Place;

static nereid_status wrong(const Place *at, const char *hint, const char *format, ...) PRINTF_LIKE(3, 4);
static nereid_status wrong(const Place *at, const char *hint, const char *format, ...) {
  char item[40] = "", why[400];
  if (at->item >= 0) snprintf(item, sizeof item, "item %d of ", at->item);
  va_list ap;
  va_start(ap, format);
  vsnprintf(why, sizeof why, format, ap);
  va_end(ap);
  return error_set(at->error, NEREID_BAD_ARGUMENT, hint, "%sparameter '%s' of kernel '%s' %s", item, at->rule->name,
                   at->kernel->info.name, why);
}

static const char *kind_text(const nereid_arg *a) {
  static const char *const names[] = {"a pointer",   "an integer",          "a float", "a bool", "None",
                                      "a constexpr", "a tensor descriptor", "a tuple"};
  return (unsigned)a->kind < sizeof names / sizeof names[0] ? names[a->kind] : "an argument of an unknown kind";
}

static Seen see_number(const ParamRule *r, const nereid_arg *a) {
  bool forced = r->forced_number || a->has_dtype;
  Dtype type = r->forced_number ? r->dtype : (Dtype)a->dtype;
  bool is_int = a->kind != NEREID_ARG_FLOAT;
  if (forced && type == DT_I1 && is_int) return (Seen){.kind = ARG_BOOL, .type = DT_I1};
  if (forced && dtype_is_float(type)) return (Seen){.kind = ARG_FLOAT, .type = type, .fixed = true};
  if (a->kind == NEREID_ARG_FLOAT) return (Seen){.kind = ARG_FLOAT, .type = DT_F32};
  if (a->kind == NEREID_ARG_BOOL && !forced) return (Seen){.kind = ARG_BOOL, .type = DT_I1};
  Seen s = {.kind = ARG_INT, .type = type, .fixed = forced};
  if (!forced) {
    if (a->is_unsigned && a->i < 0) s.type = DT_U64;
    else s.type = a->i >= INT32_MIN && a->i <= INT32_MAX ? DT_I32 : DT_I64;
    s.is_one = a->i == 1 && !r->no_specialize;
  }
  s.is_divisible = a->i % 16 == 0 && !r->no_specialize && !r->no_align;
  return s;
}

Seen arg_see(const ParamRule *r, const nereid_arg *a) {
  switch (a->kind) {
    case NEREID_ARG_INT:
    case NEREID_ARG_FLOAT:
    case NEREID_ARG_BOOL: return see_number(r, a);
    case NEREID_ARG_POINTER:
      return (Seen){.kind = ARG_POINTER,
                    .type = (Dtype)a->dtype,
                    .is_divisible = ((uintptr_t)a->pointer & 15) == 0 && !r->no_specialize && !r->no_align};
    case NEREID_ARG_NONE: return (Seen){.kind = ARG_NONE};
    case NEREID_ARG_CONSTEXPR: return (Seen){.kind = ARG_CONSTEXPR};
    case NEREID_ARG_DESCRIPTOR: return (Seen){.kind = ARG_DESCRIPTOR, .type = (Dtype)a->dtype, .is_divisible = true};
    default: return (Seen){.kind = ARG_TUPLE};
  }
}

uint8_t arg_divisible_shape(const ParamRule *r, const nereid_arg *a) {
  uint8_t dims = 0;
  for (int d = 0; d < a->rank && !r->no_specialize && !r->no_align; d++)
    if (a->shape[d] % 16 == 0) dims |= (uint8_t)(1 << d);
  return dims;
}

/* ---- constexprs: an argument as Python's text of its value ------------------------------------------------------- */

enum { MOST_NESTING = ARG_NESTING };

static void key_text(Call *c, const char *text, size_t n) {
  uint32_t length = (uint32_t)n;
  key_byte(c, 'c');
  key_bytes(c, &length, sizeof length);
  key_bytes(c, text, n);
}

static nereid_status key_constexpr(Call *c, const Place *at, const nereid_arg *a) {
  if (a->kind == NEREID_ARG_CONSTEXPR && a->text) { /* the usual one, without a detour */
    key_text(c, a->text, strlen(a->text));
    return NEREID_OK;
  }
  if ((a->kind == NEREID_ARG_CONSTEXPR || a->kind == NEREID_ARG_INT) && !a->is_unsigned) {
    char digits[24], *p = digits + sizeof digits;
    uint64_t v = a->i < 0 ? 0 - (uint64_t)a->i : (uint64_t)a->i;
    do *--p = (char)('0' + v % 10);
    while (v /= 10);
    if (a->i < 0) *--p = '-';
    key_text(c, p, (size_t)(digits + sizeof digits - p));
    return NEREID_OK;
  }
  Buf text = {0};
  bool ok = arg_python_text(&text, a);
  if (text.failed) c->failed = true;
  else if (ok) key_text(c, text.at, text.n);
  buf_destroy(&text);
  if (!ok)
    return wrong(at, "pass nereid_constexpr(\"...\") with a Python expression, or a number",
                 "is a constexpr: its value must be known when the kernel is compiled, but %s is given", kind_text(a));
  return NEREID_OK;
}

/* ---- checks of one argument -------------------------------------------------------------------------------------- */

/* What the type of a CUDA C parameter lets through: for a pointer, one to elements of the same kind and size; None is
 * NULL. */
static nereid_status check_c(const Place *at, const nereid_arg *a) {
  const ParamRule *r = at->rule;
  if (r->cannot_pass)
    return wrong(at, "numbers and pointers can be passed; put the rest into memory",
                 "is of type %s, which cannot be passed", r->annotation);
  if (!r->forced_pointer) {
    bool fits = a->kind == NEREID_ARG_INT || a->kind == NEREID_ARG_BOOL ||
                (a->kind == NEREID_ARG_FLOAT && dtype_is_float(r->dtype));
    return fits ? NEREID_OK : wrong(at, NULL, "is of type %s, but %s is given", r->annotation, kind_text(a));
  }
  if (a->kind == NEREID_ARG_NONE) return NEREID_OK;
  if (a->kind != NEREID_ARG_POINTER)
    return wrong(at, NULL, "is of type %s, but %s is given", r->annotation, kind_text(a));
  Dtype t = (Dtype)a->dtype;
  bool fits = !r->forced_target || t == r->dtype ||
              (dtype_bytes(t) == dtype_bytes(r->dtype) && dtype_is_int(t) && dtype_is_int(r->dtype));
  return fits ? NEREID_OK
              : wrong(at, NULL, "is of type %s, but a pointer to %s is given", r->annotation, dtype_name(t));
}

/* What an annotation with a type lets through. */
static nereid_status check_forced(const Place *at, const nereid_arg *a) {
  const ParamRule *r = at->rule;
  if (r->is_c) return check_c(at, a);
  if (r->forced_pointer && a->kind != NEREID_ARG_POINTER && a->kind != NEREID_ARG_NONE &&
      a->kind != NEREID_ARG_CONSTEXPR)
    return wrong(at, NULL, "is annotated %s, but %s is given", r->annotation, kind_text(a));
  if (!r->forced_number || a->kind == NEREID_ARG_NONE || a->kind == NEREID_ARG_CONSTEXPR) return NEREID_OK;
  bool number = a->kind == NEREID_ARG_INT || a->kind == NEREID_ARG_BOOL ||
                (a->kind == NEREID_ARG_FLOAT && dtype_is_float(r->dtype));
  if (!number) return wrong(at, NULL, "is annotated %s, but %s is given", r->annotation, kind_text(a));
  return NEREID_OK;
}

static nereid_status check_arg(const Place *at, const nereid_arg *a, int depth) {
  if ((unsigned)a->kind > NEREID_ARG_TUPLE)
    return wrong(at, "build arguments with nereid_pointer, nereid_int, ...",
                 "is given an argument of the unknown kind %d", (int)a->kind);
  bool typed = a->kind == NEREID_ARG_POINTER || a->kind == NEREID_ARG_DESCRIPTOR || a->has_dtype;
  if (typed && (unsigned)a->dtype >= DT_COUNT)
    return wrong(at, NULL, "is given the unknown element type %d", (int)a->dtype);
  if (a->has_dtype && a->kind == NEREID_ARG_FLOAT && !dtype_is_float((Dtype)a->dtype))
    return wrong(at, NULL, "is given a float that is to be of type %s", nereid_dtype_name(a->dtype));
  char why[160];
  const char *hint = NULL;
  if (a->kind == NEREID_ARG_DESCRIPTOR)
    return descriptor_fits(a, why, sizeof why, &hint) ? NEREID_OK : wrong(at, hint, "%s", why);
  if (a->kind == NEREID_ARG_TUPLE) {
    if (a->item_count < 0 || (a->item_count && !a->items)) return wrong(at, NULL, "is given a tuple without items");
    if (depth == MOST_NESTING) return wrong(at, NULL, "is given tuples nested deeper than four levels");
  }
  return check_forced(at, a);
}

/* ---- one argument into the key ----------------------------------------------------------------------------------- */

bool call_value_counts(const Call *c, const ParamRule *r) {
  return c->reads_values || r->is_read || (r->in_tune_key && c->tunes);
}

static nereid_status key_arg(Call *c, const Place *at, const nereid_arg *a, int depth) {
  const ParamRule *r = at->rule;
  nereid_status status = check_arg(at, a, depth);
  if (status) return status;
  if (r->is_constexpr || a->kind == NEREID_ARG_CONSTEXPR) return key_constexpr(c, at, a);
  Seen s = arg_see(r, a);
  unsigned char head[] = {(unsigned char)('A' + s.kind), (unsigned char)s.type,
                          (unsigned char)(s.fixed | s.is_one << 1 | s.is_divisible << 2)};
  key_bytes(c, head, sizeof head);
  if ((s.kind == ARG_INT || s.kind == ARG_BOOL || s.kind == ARG_FLOAT) && call_value_counts(c, r)) {
    if (a->kind == NEREID_ARG_FLOAT) key_bytes(c, &a->f, sizeof a->f);
    else key_bytes(c, &a->i, sizeof a->i);
  }
  if (s.kind == ARG_DESCRIPTOR) {
    key_byte(c, (unsigned char)(a->rank | a->nan_padding << 3));
    key_bytes(c, a->block_shape, sizeof a->block_shape[0] * (size_t)a->rank);
    key_byte(c, arg_divisible_shape(r, a));
  }
  if (s.kind == ARG_TUPLE) {
    const ParamRule plain = {.is_read = r->is_read, .in_tune_key = r->in_tune_key};
    key_bytes(c, &a->item_count, sizeof a->item_count);
    for (int i = 0; i < a->item_count && !status; i++) {
      ParamRule rule = plain;
      rule.name = r->name;
      Place inner = {at->kernel, &rule, i, at->error};
      const char *field = a->items[i].name ? a->items[i].name : "";
      key_bytes(c, field, strlen(field) + 1);
      status = key_arg(c, &inner, &a->items[i], depth + 1);
    }
  }
  return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static nereid_status count_error(const KernelInfo *k, int n, nereid_error **error) {
  Buf list = {0};
  buf_puts(&list, "its parameters are ");
  for (int i = 0; i < k->info.param_count; i++) buf_printf(&list, "%s%s", i ? ", " : "", k->names[i]);
  nereid_status s = error_set(error, NEREID_BAD_ARGUMENT, k->info.param_count ? list.at : NULL,
                              "kernel '%s' takes %d argument%s, but %d are given", k->info.name, k->info.param_count,
                              k->info.param_count == 1 ? "" : "s", n);
  buf_destroy(&list);
  return s;
}

static nereid_status unknown_name(const KernelInfo *k, const char *name, nereid_error **error) {
  const char *near = nearest_name(name, k->names);
  Buf hint = {0};
  if (near) {
    buf_printf(&hint, "did you mean '%s'?", near);
  } else {
    buf_puts(&hint, "its parameters are ");
    for (int i = 0; i < k->info.param_count; i++) buf_printf(&hint, "%s%s", i ? ", " : "", k->names[i]);
  }
  nereid_status s =
      error_set(error, NEREID_BAD_ARGUMENT, hint.at, "kernel '%s' has no parameter '%s'", k->info.name, name);
  buf_destroy(&hint);
  return s;
}

static int find_param(const KernelInfo *k, const char *name, int guess) {
  if (guess < k->info.param_count && !strcmp(k->names[guess], name)) return guess; /* named, but in order */
  for (int i = 0; i < k->info.param_count; i++)
    if (!strcmp(k->names[i], name)) return i;
  return -1;
}

static nereid_status match(Call *c, const nereid_arg *args, int n, nereid_error **error) {
  const KernelInfo *k = c->kernel;
  bool named = false;
  int rest = -1;
  for (int i = 0; i < k->info.param_count; i++)
    if (k->rules[i].is_rest) rest = i;
  for (int i = 0; i < n; i++) {
    int at = i;
    if (args[i].name) {
      named = true;
      at = find_param(k, args[i].name, i);
      if (at < 0) return unknown_name(k, args[i].name, error);
      if (at == rest && args[i].kind != NEREID_ARG_TUPLE && args[i].kind != NEREID_ARG_CONSTEXPR)
        return error_set(error, NEREID_BAD_ARGUMENT, "give them by position, or a tuple of them",
                         "'%s' of kernel '%s' stands for several arguments, and is given one", k->names[at],
                         k->info.name);
    } else if (named) {
      return error_set(error, NEREID_BAD_ARGUMENT, "name it with nereid_named",
                       "argument %d of kernel '%s' has no name, but follows one that has", i, k->info.name);
    } else if (rest >= 0 && at >= rest) {
      if (at == rest) c->rest = (nereid_arg){.kind = NEREID_ARG_TUPLE, .items = &args[i]}, c->args[rest] = &c->rest;
      c->rest.item_count++;
      continue;
    } else if (at >= k->info.param_count) {
      return count_error(k, n, error);
    }
    if (c->args[at])
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "parameter '%s' of kernel '%s' is given twice", k->names[at],
                       k->info.name);
    c->args[at] = &args[i];
  }
  return NEREID_OK;
}

/* Whether the launch must give parameter i: nobody else has a value for it. */
static bool must_give(const Call *c, int i) {
  const ParamRule *r = &c->kernel->rules[i];
  return !c->args[i] && !r->has_default && !(r->is_constexpr && r->is_set);
}

/* One message for all that is missing, parameter i being the first that was met. */
static nereid_status missing(const Call *c, int i, nereid_error **error) {
  const KernelInfo *k = c->kernel;
  char all[400] = "";
  int count = 0;
  size_t used = 0;
  bool only_constexprs = true;
  for (int j = 0; j < k->info.param_count; j++) {
    if (!must_give(c, j)) continue;
    count++;
    only_constexprs = only_constexprs && k->rules[j].is_constexpr;
    if (used < sizeof all)
      used += (size_t)snprintf(all + used, sizeof all - used, "%s'%s'", count > 1 ? ", " : "", k->names[j]);
  }
  const char *hint =
      only_constexprs ? "it is a constexpr: pass a number, or nereid_constexpr with a Python expression" : NULL;
  if (count > 1)
    return error_set(error, NEREID_BAD_ARGUMENT, hint, "parameters %s%s of kernel '%s' are missing (%d of %d)", all,
                     used >= sizeof all ? " ..." : "", k->info.name, count, k->info.param_count);
  return error_set(error, NEREID_BAD_ARGUMENT, hint, "parameter '%s' of kernel '%s' (%d of %d) is missing", k->names[i],
                   k->info.name, i + 1, k->info.param_count);
}

enum { HEAD_BYTES = sizeof(const DeviceKind *) + sizeof(uint64_t) + 14 * sizeof(int) };

static nereid_status key_param(Call *c, int i, nereid_error **error) {
  const ParamRule *r = &c->kernel->rules[i];
  Place at = {c->kernel, r, -1, error};
  if (c->args[i]) return key_arg(c, &at, c->args[i], 0);
  if (!r->has_default && !(r->is_constexpr && (c->open || c->kernel->decorated))) return missing(c, i, error);
  key_byte(c, '-'); /* the front end finds a value, or says why not */
  return NEREID_OK;
}

nereid_status options_check(const nereid_options *o, nereid_error **error) {
  const struct {
    const char *name;
    int value;
  } counts[] = {{"num_warps", o->num_warps}, {"num_stages", o->num_stages}, {"num_ctas", o->num_ctas}};
  for (int i = 0; i < 3; i++) {
    if (counts[i].value < 0 || counts[i].value > 1024)
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s is %d; give 0 for the usual one, or a count up to 1024",
                       counts[i].name, counts[i].value);
    if (i != 1 && counts[i].value & (counts[i].value - 1))
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s is %d; it must be a power of two", counts[i].name,
                       counts[i].value);
  }
  const char *wrong;
  if (o->without && gpu_without(o->without, &wrong) < 0)
    return error_set(error, NEREID_BAD_ARGUMENT, gpu_without_names, "without: there is no '%.*s' to leave out",
                     (int)strcspn(wrong, ","), wrong);
  if (o->dot_precision && front_dot_precision(o->dot_precision) < 0)
    return error_set(error, NEREID_BAD_ARGUMENT, "there are tf32, tf32x3, ieee, bf16x3 and bf16x6",
                     "dot_precision: there is no '%s'", o->dot_precision);
  if (o->max_registers < 0 || o->max_registers > 255)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL,
                     "max_registers is %d; give 0 for as many as are needed, or 1 to 255", o->max_registers);
  if (o->shared_bytes < 0)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "shared_bytes is %lld, below zero", (long long)o->shared_bytes);
  if (o->instrument < 0 || o->instrument > NEREID_INSTRUMENT_BOTH)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "inside is %d, which is no nereid_instrument_regions",
                     o->instrument);
  if (o->programs ? o->program_count < 0 : o->program_count != 0)
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "program_count is %lld, but programs is %s",
                     (long long)o->program_count, o->programs ? "a list" : "NULL");
  return NEREID_OK;
}

Tunes call_tunes(const nereid_device *d, const nereid_options *o) {
  if (!d || !d->autotunes || !d->kind->signature || o->no_autotune || o->programs || o->instrument) return TUNES_NOT;
  return !o->grid ? TUNES_NUMERIC : *o->grid ? TUNES_ANY : TUNES_KNOWN;
}

nereid_status call_still_open(const Call *c, nereid_error **error) {
  int i = 0;
  while (c->args[i] || c->kernel->rules[i].has_default || !c->kernel->rules[i].is_constexpr) i++;
  return missing(c, i, error);
}

const void *call_stable_key(const Call *c, size_t *size) {
  enum { NOT_STABLE = sizeof(const DeviceKind *) + sizeof(uint64_t) + 2 * sizeof(int) };
  *size = c->key_size - NOT_STABLE;
  return c->key + NOT_STABLE;
}

static nereid_status bind(Call *c, const KernelInfo *k, const DeviceKind *kind, uint64_t identity, Tunes tunes,
                          const nereid_arg *args, int n, const nereid_options *o, nereid_error **error) {
  c->chosen = NULL;
  c->open = false;
  c->tunes = tunes != TUNES_NOT;
  c->reads_values = false;
  c->kernel = k;
  c->key = c->key_inline;
  c->key_size = 0;
  c->key_cap = sizeof c->key_inline;
  c->failed = false;
  c->args = c->args_inline;
  size_t count = (size_t)k->info.param_count;
  if (count > sizeof c->args_inline / sizeof c->args_inline[0]) {
    c->args = malloc(count * sizeof *c->args);
    if (!c->args) {
      c->args = c->args_inline;
      return error_out_of_memory(error);
    }
  }
  memset(c->args, 0, count * sizeof *c->args);
  if (n < 0 || (n && !args))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "kernel '%s': %d arguments at NULL", k->info.name, n);
  nereid_status status = options_check(o, error);
  if (!status) status = match(c, args, n, error);
  if (status) return status;
  for (int i = 0; i < k->info.param_count && tunes; i++) {
    const ParamRule *r = &k->rules[i];
    if (!c->args[i] && r->is_constexpr && !r->has_default && !r->is_set)
      c->open = !k->decorated, c->reads_values = true;
  }

  /* there is nothing to measure: a launch finds what was compiled */
  if (tunes == TUNES_KNOWN && !k->decorated && !c->reads_values) tunes = TUNES_NUMERIC;
  const char *wrong;
  int64_t without = o->without ? gpu_without(o->without, &wrong) : 0;
  const int head[] = {(int)tunes,
                      atomic_load_explicit(&k->module->epoch, memory_order_acquire),
                      k->index,
                      o->num_warps,
                      o->num_stages,
                      o->num_ctas,
                      o->debug,
                      kind->lists_programs && o->programs,
                      o->instrument,
                      (int)without,
                      (int)(without >> 32),
                      o->persist | o->specialize << 1 | o->no_fp_fusion << 2 | o->no_sanitize_overflow << 3 |
                          o->allow_unwritten << 4,
                      o->max_registers,
                      o->dot_precision ? 1 + front_dot_precision(o->dot_precision) : 0};
  key_bytes(c, &kind, sizeof kind);
  key_bytes(c, &identity, sizeof identity);
  _Static_assert(HEAD_BYTES == sizeof kind + sizeof identity + sizeof head, "call_param_at begins after it");
  key_bytes(c, head, sizeof head);
  for (int i = 0; i < k->info.param_count && !status; i++) status = key_param(c, i, error);
  if (status) return status;
  if (c->failed) return error_out_of_memory(error);
  c->hash = hash_bytes(c->key, c->key_size, 0);
  return NEREID_OK;
}

nereid_status call_bind(Call *c, const KernelInfo *k, const DeviceKind *kind, const nereid_arg *args, int n,
                        const nereid_options *o, nereid_error **error) {
  return bind(c, k, kind, 0, TUNES_NOT, args, n, o, error);
}

nereid_status call_bind_on(Call *c, const KernelInfo *k, const nereid_device *d, const nereid_arg *args, int n,
                           const nereid_options *o, nereid_error **error) {
  return bind(c, k, d->kind, d->identity, call_tunes(d, o), args, n, o, error);
}

const char *call_param_at(const Call *c, size_t offset) {
  const KernelInfo *k = c->kernel;
  Call again = *c;
  again.key = again.key_inline;
  again.key_cap = sizeof again.key_inline;
  again.key_size = HEAD_BYTES;
  int i = 0;
  while (i < k->info.param_count && !key_param(&again, i, NULL) && again.key_size <= offset) i++;
  if (again.key != again.key_inline) free(again.key);
  return i < k->info.param_count ? k->names[i] : "?";
}

void call_free(Call *c) {
  if (c->key != c->key_inline) free(c->key);
  if (c->args != c->args_inline) free(c->args);
}

/* ---- the same for the front end ---------------------------------------------------------------------------------- */

/* One of the integers that specialise as s does: neither 1 nor a multiple of 16 unless s says so, and of its type. */
static int64_t representative(const Seen *s) {
  int64_t v = s->is_one ? 1 : s->is_divisible ? 16 : 3;
  if (s->fixed) return v;
  if (s->type == DT_I64) return v + ((int64_t)1 << 36);
  if (s->type == DT_U64) return (int64_t)((uint64_t)v | (uint64_t)1 << 63);
  return v;
}

/* arg_python_text into the arena. The Buf must not be lost when the arena unwinds. */
static const char *constexpr_copy(Context *cx, const nereid_arg *a) {
  Buf text = {0};
  arg_python_text(&text, a); /* call_bind has seen that it can be done */
  const char *volatile copy = NULL;
  if (!text.failed && context_try(cx)) {
    copy = arena_strdup(cx->arena, text.at);
    context_end_try(cx);
  }
  buf_destroy(&text);
  if (!copy) context_out_of_memory(cx);
  return copy;
}

static ArgSpec spec_of(const Call *c, const ParamRule *r, const nereid_arg *a, Context *cx) {
  if (!a) return (ArgSpec){.kind = ARG_MISSING};
  if (r->is_constexpr || a->kind == NEREID_ARG_CONSTEXPR) {
    if (a->kind == NEREID_ARG_CONSTEXPR && a->text)
      return (ArgSpec){.kind = ARG_CONSTEXPR, .text = arena_strdup(cx->arena, a->text)};
    return (ArgSpec){.kind = ARG_CONSTEXPR, .text = constexpr_copy(cx, a)};
  }
  Seen s = arg_see(r, a);
  ArgSpec spec = {.kind = s.kind, .dtype = s.type, .aligned = s.is_divisible};
  bool real = call_value_counts(c, r);
  if (s.kind == ARG_INT || s.kind == ARG_FLOAT) spec.has_dtype = s.fixed && !r->forced_number;
  if (s.kind == ARG_INT) {
    spec.has_value = true;
    spec.is_unsigned = real ? a->is_unsigned && a->i < 0 : s.type == DT_U64 && !s.fixed;
    spec.int_value = real ? a->i : representative(&s);
  }
  if (s.kind == ARG_BOOL) spec.int_value = real ? a->i != 0 : 0;
  if (s.kind == ARG_FLOAT) spec.float_value = !real ? 0.5 : a->kind == NEREID_ARG_FLOAT ? a->f : (double)a->i;
  if (s.kind == ARG_DESCRIPTOR) {
    spec.rank = a->rank;
    spec.nan_padding = a->nan_padding;
    memcpy(spec.block_shape, a->block_shape, sizeof a->block_shape);
    spec.divisible_shape = arg_divisible_shape(r, a);
  }
  if (s.kind == ARG_TUPLE) {
    ArgSpec *items = NEW_N(cx->arena, ArgSpec, a->item_count);
    const ParamRule plain = {.name = r->name, .is_read = r->is_read, .in_tune_key = r->in_tune_key};
    for (int i = 0; i < a->item_count; i++) {
      items[i] = spec_of(c, &plain, &a->items[i], cx);
      if (a->items[i].name) items[i].field = arena_strdup(cx->arena, a->items[i].name);
    }
    spec.item_count = a->item_count;
    spec.items = items;
  }
  return spec;
}

ArgSpec *call_specs(const Call *c, Context *cx) {
  int n = c->kernel->info.param_count;
  ArgSpec *specs = NEW_N(cx->arena, ArgSpec, n);
  for (int i = 0; i < n; i++) specs[i] = spec_of(c, &c->kernel->rules[i], c->args[i], cx);
  return specs;
}

const char *nereid_without_names(void) { return gpu_without_names; }
