/* lib_types.c: dtypes as values: pointer_type, block_type, the methods of a dtype, and the type names that appear in
 * isinstance and in annotations (tl.tensor, tl.dtype, ...).
 */
#include "front/core.h"
#include "front/library/lib.h"

typedef bool (*DtypeTest)(const Type *elem);

static bool is_number(const Type *t) { return !t->ptr; }
static bool is_floating(const Type *t) { return is_number(t) && dtype_is_float(t->dtype); }
static bool is_standard_floating(const Type *t) { return is_floating(t) && !dtype_is_fp8(t->dtype); }
static bool is_int(const Type *t) { return is_number(t) && dtype_is_int(t->dtype); }
static bool is_int_signed(const Type *t) { return is_number(t) && dtype_is_signed(t->dtype); }
static bool is_int_unsigned(const Type *t) { return is_int(t) && !dtype_is_signed(t->dtype); }
static bool is_fp8(const Type *t) { return is_number(t) && dtype_is_fp8(t->dtype); }

/* x.is_floating(), x.is_fp16(), ...: the row's name says which. */
static Py *call_is(Front *fr, const Builtin *b, Span at, Py **args) {
  static const struct {
    const char *name;
    DtypeTest test;
  } tests[] = {{"is_floating", is_floating},     {"is_standard_floating", is_standard_floating}, {"is_int", is_int},
               {"is_int_signed", is_int_signed}, {"is_int_unsigned", is_int_unsigned},           {"is_fp8", is_fp8}};
  static const struct {
    const char *name;
    Dtype d;
  } kinds[] = {
      {"is_fp8e4nv", DT_F8E4NV},   {"is_fp8e4b8", DT_F8E4B8}, {"is_fp8e4b15", DT_F8E4B15}, {"is_fp8e5", DT_F8E5},
      {"is_fp8e5b16", DT_F8E5B16}, {"is_fp16", DT_F16},       {"is_bf16", DT_BF16},        {"is_fp32", DT_F32},
      {"is_fp64", DT_F64},         {"is_int1", DT_I1},        {"is_bool", DT_I1},          {"is_int8", DT_I8},
      {"is_int16", DT_I16},        {"is_int32", DT_I32},      {"is_int64", DT_I64},        {"is_uint8", DT_U8},
      {"is_uint16", DT_U16},       {"is_uint32", DT_U32},     {"is_uint64", DT_U64}};
  const Type *t = args[0]->type, *elem = type_elem(fr->cx, t);
  if (!strcmp(b->name, "is_ptr")) return py_bool(fr, t->ptr && !t->rank);
  if (!strcmp(b->name, "is_block")) return py_bool(fr, t->rank > 0);
  if (!strcmp(b->name, "is_const")) return py_bool(fr, elem->ptr && elem->is_const);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    if (!strcmp(tests[i].name, b->name)) return py_bool(fr, !t->rank && tests[i].test(elem));
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i].name, b->name)) return py_bool(fr, !t->rank && !t->ptr && t->dtype == kinds[i].d);
  return py_bool(fr, false); /* is_void, is_tuple */
}

static Py *call_kind(Front *fr, const Builtin *b, Span at, Py **args) {
  const Type *t = type_elem(fr->cx, args[0]->type);
  return py_int(fr, t->ptr ? -1 : t->dtype == DT_I1 ? 0 : dtype_is_float(t->dtype) ? 2 : 1);
}

static Py *call_int_limit(Front *fr, const Builtin *b, Span at, Py **args) {
  const Type *t = args[0]->type;
  if (!is_int(t)) lib_fail(fr, at, b, NULL, "%s is not an integer type", type_text(fr, t));
  int bits = dtype_bits(t->dtype);
  bool is_signed = dtype_is_signed(t->dtype), max = !strcmp(b->name, "get_int_max_value");
  PyInt one = 1;
  return py_int(fr, max ? (one << (bits - is_signed)) - 1 : is_signed ? -(one << (bits - 1)) : 0);
}

static Py *call_with_element_ty(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_type(fr, type_with_elem(fr->cx, args[0]->type, lib_dtype(fr, at, b, "element_ty", args[1])));
}

static Py *call_get_block_shapes(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *items[MAX_RANK];
  const Type *t = args[0]->type;
  for (int i = 0; i < t->rank; i++) items[i] = py_int(fr, t->shape[i]);
  return py_tuple(fr, t->rank, items);
}

static Py *call_pointer_type(Front *fr, const Builtin *b, Span at, Py **args) {
  const Type *e = lib_dtype(fr, at, b, "element_ty", args[0]);
  Type t = {.dtype = e->dtype, .ptr = (uint8_t)(e->ptr + 1), .is_const = lib_flag(fr, at, b, "const", args[2])};
  return py_type(fr, type_make(fr->cx, t));
}

static Py *call_block_type(Front *fr, const Builtin *b, Span at, Py **args) {
  int32_t shape[MAX_RANK];
  if (args[1]->kind != PY_TUPLE)
    lib_fail(fr, at, b, "write it as a list, [n]", "`shape` must be a list, but it is %s", py_describe(fr, args[1]));
  if (!args[1]->tuple.n) lib_refuse(fr, at, NULL, "0d block_type is forbidden");
  int rank = lib_shape(fr, at, b, "shape", args[1], shape);
  return py_type(fr, type_tensor(fr->cx, lib_dtype(fr, at, b, "element_ty", args[0]), rank, shape));
}

static Py *call_dtype(Front *fr, const Builtin *b, Span at, Py **args) {
  Dtype d;
  const char *name = lib_str(fr, at, b, "name", args[0]);
  if (!dtype_parse(name, &d)) lib_fail(fr, at, b, NULL, "there is no type `%s`", name);
  return py_dtype(fr, d);
}

static Py *call_get_int_dtype(Front *fr, const Builtin *b, Span at, Py **args) {
  static const struct {
    int bits;
    Dtype s, u;
  } ints[] = {{1, DT_I1, DT_I1}, {8, DT_I8, DT_U8}, {16, DT_I16, DT_U16}, {32, DT_I32, DT_U32}, {64, DT_I64, DT_U64}};
  int bits = lib_small_int(fr, at, b, "bitwidth", args[0]);
  bool is_signed = lib_truth(args[1]);
  for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
    if (ints[i].bits == bits) return py_dtype(fr, is_signed ? ints[i].s : ints[i].u);
  lib_fail(fr, at, b, NULL, "there is no integer type of %d bits", bits);
}

static Py *call_tuple_type(Front *fr, const Builtin *b, Span at, Py **args) {
  lib_fail(fr, at, b, NULL, "this type cannot be made in a kernel");
}

static Py *call_constexpr_type(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *o = py_object(fr, NULL, "constexpr_type");
  map_put(o->object.fields, "value", args[0]);
  return o;
}

static Py *call_tl_tuple(Front *fr, const Builtin *b, Span at, Py **args) {
  if (args[0]->kind != PY_TUPLE)
    lib_fail(fr, at, b, NULL, "`args` must be a tuple or list, but it is %s", py_describe(fr, args[0]));
  return py_tuple(fr, args[0]->tuple.n, args[0]->tuple.at);
}

#define IS(name) \
  { "dtype", name, "self", call_is, NULL, BUILTIN_HOST, NULL }
const Builtin lib_types_table[] = {
    {"tl", "pointer_type", "element_ty, address_space=1, const=False", call_pointer_type, "Types", BUILTIN_HOST, NULL},
    {"tl", "block_type", "element_ty, shape", call_block_type, "Types", BUILTIN_HOST, NULL},
    {"tl", "dtype", "name", call_dtype, "Types", BUILTIN_HOST, NULL},
    {"tl.core", "get_int_dtype", "bitwidth, signed", call_get_int_dtype, "Types", BUILTIN_HOST, NULL},
    {"tl.core", "_get_int_dtype", "bitwidth, signed", call_get_int_dtype, NULL, BUILTIN_HOST, NULL},
    {"tl", "tensor", "handle, type", call_tuple_type, "Types", 0, "in isinstance and annotations"},
    {"tl", "tensor_descriptor", "handle, type", call_tuple_type, "Types", 0, "in isinstance and annotations"},
    {"tl.core", "tensor_descriptor_base", "handle, type", call_tuple_type, NULL, 0, NULL},
    {"tl", "tensor_descriptor_type", "block_type", call_tuple_type, NULL, 0, NULL},
    {"tl", "tuple_type", "types", call_tuple_type, NULL, 0, NULL},
    {"tl", "constexpr_type", "value", call_constexpr_type, "Types", BUILTIN_HOST, "what `.type` of a constexpr is"},
    {"tl", "const", "", call_tuple_type, "Types", 0, "in annotations of parameters"},
    {"tl", "slice", "start, stop, step", call_tuple_type, NULL, 0, NULL},
    {"tl", "tuple", "args", call_tl_tuple, "Types", BUILTIN_HOST, NULL},
    IS("is_floating"),
    IS("is_standard_floating"),
    IS("is_int"),
    IS("is_int_signed"),
    IS("is_int_unsigned"),
    IS("is_fp8"),
    IS("is_fp8e4nv"),
    IS("is_fp8e4b8"),
    IS("is_fp8e4b15"),
    IS("is_fp8e5"),
    IS("is_fp8e5b16"),
    IS("is_fp16"),
    IS("is_bf16"),
    IS("is_fp32"),
    IS("is_fp64"),
    IS("is_int1"),
    IS("is_bool"),
    IS("is_int8"),
    IS("is_int16"),
    IS("is_int32"),
    IS("is_int64"),
    IS("is_uint8"),
    IS("is_uint16"),
    IS("is_uint32"),
    IS("is_uint64"),
    IS("is_ptr"),
    IS("is_block"),
    IS("is_const"),
    IS("is_void"),
    IS("is_tuple"),
    {"dtype", "kind", "self", call_kind, NULL, BUILTIN_HOST, NULL},
    {"dtype", "get_int_max_value", "self", call_int_limit, NULL, BUILTIN_HOST, NULL},
    {"dtype", "get_int_min_value", "self", call_int_limit, NULL, BUILTIN_HOST, NULL},
    {"dtype", "with_element_ty", "self, element_ty", call_with_element_ty, NULL, BUILTIN_HOST, NULL},
    {"dtype", "get_block_shapes", "self", call_get_block_shapes, NULL, BUILTIN_HOST, NULL},
    {0},
};
