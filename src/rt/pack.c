/* Arguments for compiled code. One argument as the 8-byte slot that compiled code reads: integers are extended by their
 * sign, floats stand as the bits of their type in the low bytes. */
#include <math.h>

#include "rt/rt.h"

typedef struct Names {
  const char *kernel, *param;
} Names;

static nereid_status wrong(const Names *n, const ArgSlot *s, const char *what, const nereid_arg *a,
                           nereid_error **error) {
  char value[40] = "";
  if (a && a->kind == NEREID_ARG_INT) {
    if (a->is_unsigned) snprintf(value, sizeof value, "%llu ", (unsigned long long)a->i);
    else snprintf(value, sizeof value, "%lld ", (long long)a->i);
  }
  return error_set(error, NEREID_BAD_ARGUMENT, NULL, "parameter '%s' of kernel '%s' is %s%s %s", n->param, n->kernel,
                   value, what, dtype_name(s->dtype));
}

static uint64_t float_bits(Dtype t, double v) {
  uint64_t bits = 0;
  dtype_store_float(t, &bits, v);
  return bits;
}

static bool int_fits(Dtype t, int64_t v, bool is_unsigned) {
  int bits = dtype_bits(t);
  bool above = is_unsigned && v < 0; /* beyond INT64_MAX */
  if (t == DT_I1) return true;
  if (dtype_is_signed(t))
    return !above && (bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1)));
  if (bits == 64) return above || v >= 0;
  return !above && v >= 0 && v < (int64_t)1 << bits;
}

static nereid_status pack_number(const Names *n, const ArgSlot *s, const nereid_arg *a, uint64_t *out,
                                 nereid_error **error) {
  bool is_float = a->kind == NEREID_ARG_FLOAT;
  if (!is_float && a->kind != NEREID_ARG_INT && a->kind != NEREID_ARG_BOOL)
    return wrong(n, s, "not a number, but must be", a, error);
  if (dtype_is_float(s->dtype)) {
    *out = float_bits(s->dtype, is_float ? a->f : a->is_unsigned ? (double)(uint64_t)a->i : (double)a->i);
    return NEREID_OK;
  }
  if (is_float) return wrong(n, s, "a float, but must be", a, error);
  if (!int_fits(s->dtype, a->i, a->is_unsigned)) return wrong(n, s, "which does not fit its type", a, error);
  *out = s->dtype == DT_I1 ? a->i != 0 : (uint64_t)a->i;
  return NEREID_OK;
}

nereid_status pack_arg(const char *kernel, const char *param, const ArgSlot *s, const nereid_arg *a, uint64_t *out,
                       nereid_error **error) {
  const Names n = {kernel, param};
  if (!s->is_pointer) return pack_number(&n, s, a, out, error);
  if (a->kind == NEREID_ARG_NONE) return *out = 0, NEREID_OK; /* CUDA C's NULL */
  if (a->kind != NEREID_ARG_POINTER) return wrong(&n, s, "not a pointer, but must be one to", a, error);
  *out = (uint64_t)(uintptr_t)a->pointer;
  return NEREID_OK;
}

/* ---- tensor descriptors ------------------------------------------------------------------------------------------ */

bool descriptor_fits(const nereid_arg *a, char *why, size_t size, const char **hint) {
  int64_t bytes = (int64_t)nereid_dtype_bytes(a->dtype);
  int n = 0;
  if (a->rank < 1 || a->rank > 5)
    n = snprintf(why, size, "is given a tensor descriptor of rank %d; 1 to 5 are possible", a->rank);
  else if ((uintptr_t)a->pointer & 15)
    n = snprintf(why, size, "is given a tensor descriptor whose base is not aligned to 16 bytes");
  else if (a->strides[a->rank - 1] != 1)
    *hint = "copy the array so that its last dimension is contiguous",
    n = snprintf(why, size, "is given a tensor descriptor whose last stride is %lld; it must be 1",
                 (long long)a->strides[a->rank - 1]);
  for (int d = 0; d < a->rank && !n; d++) {
    if (a->shape[d] < 1 || a->shape[d] > INT32_MAX)
      n = snprintf(why, size, "is given a tensor descriptor whose dimension %d is %lld; 1 to 2147483647 are possible",
                   d, (long long)a->shape[d]);
    else if (d < a->rank - 1 && a->strides[d] % 16 * bytes % 16)
      n = snprintf(why, size,
                   "is given a tensor descriptor whose stride %d is %lld elements, which is not a multiple of 16 bytes",
                   d, (long long)a->strides[d]);
    else if (a->block_shape[d] < 1 || (a->block_shape[d] & (a->block_shape[d] - 1)))
      n = snprintf(why, size, "is given a tensor descriptor whose block shape %d is %d; it must be a power of two", d,
                   (int)a->block_shape[d]);
  }
  return !n;
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static bool constexpr_text(Buf *out, const nereid_arg *a, int depth) {
  switch (a->kind) {
    case NEREID_ARG_CONSTEXPR:
      if (a->text) buf_puts(out, a->text);
      else buf_printf(out, "%lld", (long long)a->i);
      return true;
    case NEREID_ARG_INT:
      if (a->is_unsigned) buf_printf(out, "%llu", (unsigned long long)a->i);
      else buf_printf(out, "%lld", (long long)a->i);
      return true;
    case NEREID_ARG_FLOAT:
      if (isfinite(a->f)) buf_double(out, a->f);
      else buf_puts(out, isnan(a->f) ? "float('nan')" : a->f > 0 ? "float('inf')" : "float('-inf')");
      return true;
    case NEREID_ARG_BOOL: return buf_puts(out, a->i ? "True" : "False"), true;
    case NEREID_ARG_NONE: return buf_puts(out, "None"), true;
    case NEREID_ARG_TUPLE:
      if (depth == ARG_NESTING || a->item_count < 0 || (a->item_count && !a->items)) return false;
      buf_putc(out, '(');
      for (int i = 0; i < a->item_count; i++) {
        if (!constexpr_text(out, &a->items[i], depth + 1)) return false;
        buf_puts(out, ", ");
      }
      buf_putc(out, ')');
      return true;
    default: return false;
  }
}

bool arg_python_text(Buf *out, const nereid_arg *a) { return constexpr_text(out, a, 0); }

/* ---- building arguments ------------------------------------------------------------------------------------------ */

nereid_arg nereid_pointer(const void *p, nereid_dtype t) {
  return (nereid_arg){.kind = NEREID_ARG_POINTER, .pointer = (void *)(uintptr_t)p, .dtype = t};
}
nereid_arg nereid_int(int64_t v) { return (nereid_arg){.kind = NEREID_ARG_INT, .i = v}; }
nereid_arg nereid_float(double v) { return (nereid_arg){.kind = NEREID_ARG_FLOAT, .f = v}; }
nereid_arg nereid_bool(bool v) { return (nereid_arg){.kind = NEREID_ARG_BOOL, .i = v}; }
nereid_arg nereid_none(void) { return (nereid_arg){.kind = NEREID_ARG_NONE}; }
nereid_arg nereid_constexpr(const char *python_text) {
  return (nereid_arg){.kind = NEREID_ARG_CONSTEXPR, .text = python_text ? python_text : "None"};
}
nereid_arg nereid_constexpr_int(int64_t v) { return (nereid_arg){.kind = NEREID_ARG_CONSTEXPR, .i = v}; }
nereid_arg nereid_named(nereid_arg a, const char *parameter) { return a.name = parameter, a; }
