/* Python objects as arguments of a kernel.
 *
 * Each adds to the call's key what its specialization depends on, as Triton sees it: an array its element type and
 * whether 16 divides its address; an integer its width, whether it is 1, whether 16 divides it; a constexpr its value.
 * The key may say more than nereid.h asks for: then two specializations share their code.
 *
 * Arrays are, in this order, what PyTorch makes (the fast way), what has data_ptr() and dtype, CUDA's array interface,
 * a buffer, DLPack. Their memory is the caller's: it must live until the kernel is done.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

enum Tag {
  TAG_NONE = 1,
  TAG_BOOL,
  TAG_INT,
  TAG_FLOAT,
  TAG_POINTER,
  TAG_TUPLE,
  TAG_DESCRIPTOR,
  TAG_CONST_INT,
  TAG_CONST_BOOL,
  TAG_CONST_FLOAT,
  TAG_CONST_OBJECT
};

void call_begin(Call *c, bool real) {
  c->word_count = c->object_count = c->owned_count = c->block_count = c->buffer_count = 0;
  c->where = -1;
  c->real = real;
  c->placed = false;
  c->extent_begin = c->extent_bytes = 0;
  memset(c->read_only, 0, sizeof c->read_only);
}

/* ---- the buffer protocol -----------------------------------------------------------------------------------------
 *
 * It is in the limited API from 3.11 on; in 3.10 its functions are there, and the struct is the same. */
typedef struct Buffer {
  void *buf;
  PyObject *obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void *internal;
} Buffer;
enum { BUFFER_FORMAT = 4, BUFFER_STRIDES = 0x18 };
static int (*get_buffer)(PyObject *, Buffer *, int);
static void (*release_buffer)(Buffer *);

static bool find_buffers(void) {
  if (!get_buffer) {
    release_buffer = (void (*)(Buffer *))dlsym(RTLD_DEFAULT, "PyBuffer_Release");
    get_buffer = (int (*)(PyObject *, Buffer *, int))dlsym(RTLD_DEFAULT, "PyObject_GetBuffer");
  }
  return get_buffer && release_buffer;
}

void call_end(Call *c) {
  for (int i = 0; i < c->owned_count; i++) Py_DECREF(c->owned[i]);
  for (int i = 0; i < c->block_count; i++) free(c->blocks[i]);
  for (int i = 0; i < c->buffer_count; i++) release_buffer(c->buffers[i]), free(c->buffers[i]);
  c->owned_count = c->block_count = c->buffer_count = 0;
}

static void set_read_only(Call *c, int index) { c->read_only[index / 64] |= 1ull << index % 64; }

static bool too_many(void) {
  PyErr_SetString(PyExc_TypeError, "the arguments of one launch hold too many tuples, objects or constexprs");
  return false;
}

static bool word(Call *c, uint64_t w) {
  if (c->word_count == KEY_WORDS) return too_many();
  c->words[c->word_count++] = w;
  return true;
}

static bool own(Call *c, PyObject *o) {
  if (c->owned_count == KEY_OBJECTS) {
    Py_DECREF(o);
    return too_many();
  }
  c->owned[c->owned_count++] = o;
  return true;
}

static void *block(Call *c, size_t bytes) {
  if (c->block_count == KEY_OBJECTS) return too_many(), NULL;
  void *p = calloc(1, bytes ? bytes : 1);
  if (!p) return PyErr_NoMemory(), NULL;
  return c->blocks[c->block_count++] = p;
}

/* ---- constexprs -------------------------------------------------------------------------------------------------- */

static bool add_object(Call *c, PyObject *o) {
  if (c->object_count == KEY_OBJECTS) return too_many();
  Py_hash_t hash = PyObject_Hash(o);
  if (hash == -1 && PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear(); /* a list or the like, which may change: its text stands for it */
    o = PyObject_Repr(o);
    if (!o || !own(c, o)) return false;
    hash = PyObject_Hash(o);
  }
  c->objects[c->object_count++] = o;
  return word(c, TAG_CONST_OBJECT) && word(c, (uint64_t)hash ^ (uint64_t)(uintptr_t)Py_TYPE(o));
}

static bool add_constexpr(Call *c, PyObject *o) {
  PyObject *wrapper = setting(SETTING_CONSTEXPR);
  while (wrapper && (PyObject *)Py_TYPE(o) == wrapper) {
    o = PyObject_GetAttr(o, str_value);
    if (!o || !own(c, o)) return false;
  }
  if (o == Py_None) return word(c, TAG_NONE);
  if (o == Py_True || o == Py_False) return word(c, TAG_CONST_BOOL | (uint64_t)(o == Py_True) << 8);
  if (PyLong_CheckExact(o)) {
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return word(c, TAG_CONST_INT) && word(c, (uint64_t)v);
  }
  if (PyFloat_CheckExact(o)) {
    double v = PyFloat_AsDouble(o);
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return word(c, TAG_CONST_FLOAT) && word(c, bits);
  }
  return add_object(c, o);
}

bool call_add_value(Call *c, PyObject *o) { return add_constexpr(c, o); }

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool add_int(Call *c, const ParamInfo *p, PyObject *o, nereid_arg *out) {
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (v == -1 && !overflow && PyErr_Occurred()) return false;
  *out = nereid_int(v);
  if (overflow) {
    unsigned long long u = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
    if (overflow < 0 || PyErr_Occurred()) {
      PyErr_Clear();
      PyErr_Format(PyExc_OverflowError, "integer argument '%U' is outside of what 64 bits hold", p->name);
      return false;
    }
    out->i = v = (long long)u;
    out->is_unsigned = true;
  }
  out->has_dtype = p->has_dtype;
  out->dtype = p->dtype;
  unsigned width = overflow ? 2 : v < INT32_MIN || v > INT32_MAX;
  bool one = v == 1 && !overflow && !p->no_specialize, even = !(v & 15) && !p->no_specialize && !p->no_align;
  return word(c, TAG_INT | width << 8 | (uint64_t)one << 16 | (uint64_t)even << 17);
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static bool add_pointer(Call *c, const ParamInfo *p, uint64_t address, nereid_dtype t, nereid_arg *out) {
  *out = nereid_pointer((void *)(uintptr_t)address, t);
  bool aligned = !(address & 15) && !p->no_specialize && !p->no_align;
  return word(c, TAG_POINTER | (uint64_t)t << 8 | (uint64_t)aligned << 16);
}

/* An array at 0 has no elements, and lies on either side: libraries pass an empty CPU tensor for what is left out. */
static bool place(Call *c, const ParamInfo *p, int where, const nereid_arg *a) {
  if (c->where < 0 || !c->real || (a->pointer && !c->placed)) c->where = (signed char)where;
  if (a->pointer) c->placed = true;
  if (c->where == where || !a->pointer) return true;
  PyErr_Format(PyExc_ValueError, "array argument '%U' lies %s, but another one of this launch %s", p->name,
               where ? "in CUDA memory" : "on the host", where ? "on the host" : "in CUDA memory");
  return false;
}

/* dtype objects are few and live on: a table from object to code, by address. */
static struct DtypeRow {
  PyObject *object;
  nereid_dtype dtype;
} dtype_rows[64];

static bool dtype_of(PyObject *o, nereid_dtype *out) {
  struct DtypeRow *row = &dtype_rows[(uintptr_t)o >> 4 & 63];
  if (row->object == o) {
    *out = row->dtype;
    return true;
  }
  PyObject *found = PyObject_CallFunctionObjArgs(setting(SETTING_DTYPE), o, NULL);
  if (!found) return false;
  *out = (nereid_dtype)PyLong_AsLong(found);
  Py_DECREF(found);
  Py_INCREF(o);
  Py_XDECREF(row->object);
  *row = (struct DtypeRow){o, *out};
  return true;
}

static bool dtype_attribute(PyObject *o, nereid_dtype *out) {
  PyObject *dtype = PyObject_GetAttr(o, str_dtype);
  if (!dtype) return false;
  bool good = dtype_of(dtype, out);
  Py_DECREF(dtype);
  return good;
}

/* 1: o has this attribute, and it is true; 0: it is not; -1: an exception is set. */
static int truth(PyObject *o, PyObject *name) {
  PyObject *v = PyObject_GetAttr(o, name);
  if (!v) return -1;
  int is = PyObject_IsTrue(v);
  Py_DECREF(v);
  return is;
}

/* PyTorch's own attributes, read by their descriptors: nothing is looked up in the type. */
static PyObject *described(enum Setting s, PyObject *name, PyObject *o) {
  PyObject *descriptor = setting(s);
  descrgetfunc get = descriptor ? (descrgetfunc)PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get) : NULL;
  return get ? get(descriptor, o, (PyObject *)Py_TYPE(o)) : PyObject_GetAttr(o, name);
}

/* Whether a shape says that an array has elements. */
static bool has_elements(PyObject *shape) {
  Py_ssize_t n = shape ? PySequence_Size(shape) : -1;
  bool found = n >= 0;
  for (Py_ssize_t i = 0; i < n && found; i++) {
    PyObject *size = PySequence_GetItem(shape, i);
    found = size && PyLong_Check(size) && PyLong_AsLongLong(size) != 0;
    Py_XDECREF(size);
  }
  PyErr_Clear();
  return found;
}

/* Whether an array at address 0 is right to be there: it has no elements, or does not say. */
static bool is_empty(PyObject *o) {
  PyObject *shape = PyObject_GetAttrString(o, "shape");
  bool empty = !has_elements(shape);
  Py_XDECREF(shape);
  return empty;
}

/* PyTorch has tensors that look like others but are nowhere: those of a FakeTensorMode, or with a storage of no bytes.
 */
static bool add_address(Call *c, const ParamInfo *p, PyObject *o, PyObject *address, nereid_dtype t, nereid_arg *out) {
  uint64_t at = PyLong_AsUnsignedLongLong(address);
  if (at == (uint64_t)-1 && PyErr_Occurred()) return false;
  if (!at && c->real && !is_empty(o)) {
    PyErr_Format(PyExc_ValueError, "tensor argument '%U' has no memory: it is fake, or its storage was freed", p->name);
    return false;
  }
  return add_pointer(c, p, at, t, out);
}

/* What an array's own library says of it (sparse, quantized, complex) is raised with the argument's name. */
static bool refused(const ParamInfo *p) {
  PyObject *type, *value, *trace, *said;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (type != PyExc_TypeError && type != PyExc_RuntimeError && type != PyExc_BufferError) {
    PyErr_Restore(type, value, trace);
    return false;
  }
  PyErr_Format(type, "array argument '%U': %S", p->name, value);
  Py_DECREF(type);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(trace);
  PyErr_Fetch(&type, &said, &trace);
  PyErr_NormalizeException(&type, &said, &trace);
  PyException_SetCause(said, value); /* which is its own now */
  PyErr_Restore(type, said, trace);
  return false;
}

static bool add_data_ptr(Call *c, const ParamInfo *p, PyObject *o, nereid_arg *out) {
  nereid_dtype t;
  if (!dtype_attribute(o, &t)) return refused(p);
  PyObject *address = PyObject_CallMethodObjArgs(o, str_data_ptr, NULL);
  bool good = address ? add_address(c, p, o, address, t, out) : refused(p);
  Py_XDECREF(address);
  return good;
}

/* The result of PyTorch's method data_ptr. The C function behind it is looked up once, which spares a launch of four
 * tensors a tenth of the host's time (1.28 us came to 1.16 on a CPU). */
static PyObject *data_ptr_of(PyObject *o) {
  static PyObject *of;
  static PyCFunction function;
  PyObject *method = setting(SETTING_DATA_PTR);
  if (!method) return PyObject_CallMethodObjArgs(o, str_data_ptr, NULL);
  if (method != of) {
    PyObject *bound = described(SETTING_DATA_PTR, str_data_ptr, o);
    if (!bound) return NULL;
    bool takes_none = PyCFunction_Check(bound) && PyCFunction_GetFlags(bound) == METH_NOARGS;
    function = takes_none ? PyCFunction_GetFunction(bound) : NULL;
    of = method;
    Py_DECREF(bound);
  }
  return function ? function(o, NULL) : PyObject_CallFunctionObjArgs(method, o, NULL);
}

/* o: exactly a torch.Tensor or a Parameter. */
static bool add_torch(Call *c, const ParamInfo *p, PyObject *o, nereid_arg *out) {
  PyObject *cuda = described(SETTING_IS_CUDA, str_is_cuda, o);
  if (!cuda) return false;
  int where = cuda == Py_True;
  Py_DECREF(cuda);
  if (!where && c->real) {
    int cpu = truth(o, str_is_cpu);
    if (cpu < 0) return false;
    if (!cpu) {
      PyErr_Format(PyExc_ValueError, "tensor argument '%U' is neither on a CPU nor on a CUDA device", p->name);
      return false;
    }
  }
  nereid_dtype t;
  PyObject *dtype = described(SETTING_DTYPE_OF, str_dtype, o);
  bool good = dtype && dtype_of(dtype, &t);
  Py_XDECREF(dtype);
  PyObject *address = good ? data_ptr_of(o) : NULL;
  good = address ? add_address(c, p, o, address, t, out) && place(c, p, where, out) : refused(p);
  Py_XDECREF(address);
  return good;
}

/* Something that has data_ptr(): where it lies says its `device`, if it has one. */
static bool add_tensor_like(Call *c, const ParamInfo *p, PyObject *o, nereid_arg *out) {
  PyObject *device = PyObject_GetAttr(o, str_device);
  PyObject *type = device ? PyObject_GetAttr(device, str_type) : NULL;
  if (!type) PyErr_Clear();
  bool good = add_data_ptr(c, p, o, out);
  if (good && type && PyUnicode_Check(type)) {
    bool cuda = !PyUnicode_CompareWithASCIIString(type, "cuda");
    if (cuda || !PyUnicode_CompareWithASCIIString(type, "cpu")) good = place(c, p, cuda, out);
  }
  Py_XDECREF(type);
  Py_XDECREF(device);
  return good;
}

static bool dtype_by_name(const char *kind, int bytes, nereid_dtype *out) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", kind, bytes * 8);
  if (!strcmp(kind, "bool")) *out = NEREID_I1;
  return !strcmp(kind, "bool") || nereid_dtype_parse(name, out);
}

static bool unknown_type(const ParamInfo *p, const char *what) {
  PyErr_Format(PyExc_TypeError, "array argument '%U' has elements of a type that kernels do not have: '%s'", p->name,
               what);
  return false;
}

/* An element of a dict, or of an element of it. NULL: it is not there. */
static PyObject *item_of(PyObject *d, const char *name, int at) {
  PyObject *v = PyMapping_GetItemString(d, name);
  PyObject *found = v && at >= 0 ? PySequence_GetItem(v, at) : v;
  if (at >= 0) Py_XDECREF(v);
  PyErr_Clear();
  return found;
}

/* What typestr says: "<f4". */
static bool cuda_dtype(const ParamInfo *p, const char *s, nereid_dtype *out) {
  char order = s[0], letter = order ? s[1] : 0;
  const char *kind = letter == 'f' ? "f" : letter == 'i' ? "i" : letter == 'u' ? "u" : letter == 'b' ? "bool" : "";
  int bytes = letter ? atoi(s + 2) : 0;
  if (!*kind || (order == '>' && bytes > 1) || !dtype_by_name(kind, bytes, out)) return unknown_type(p, s);
  return true;
}

/* {"data": (address, read_only), "typestr": "<f4", "shape": ..., "mask": ...} */
static bool add_cuda_interface(Call *c, const ParamInfo *p, int index, PyObject *d, nereid_arg *out) {
  PyObject *address = item_of(d, "data", 0), *read_only = item_of(d, "data", 1), *type = item_of(d, "typestr", -1);
  PyObject *mask = item_of(d, "mask", -1), *shape = item_of(d, "shape", -1);
  PyObject *bytes = type && PyUnicode_Check(type) ? PyUnicode_AsASCIIString(type) : NULL;
  uint64_t at = address && PyLong_Check(address) ? PyLong_AsUnsignedLongLong(address) : 0;
  bool whole = address && PyLong_Check(address) && read_only && bytes && !PyErr_Occurred();
  nereid_dtype t;
  bool good = false;
  if (!whole)
    PyErr_Format(PyExc_TypeError,
                 "array argument '%U' has no address, read-only flag and element type in its "
                 "__cuda_array_interface__",
                 p->name);
  else if (mask && mask != Py_None)
    PyErr_Format(PyExc_TypeError, "array argument '%U' has a mask, which kernels do not read", p->name);
  else if (!at && c->real && has_elements(shape))
    PyErr_Format(PyExc_ValueError, "array argument '%U' has elements and no memory", p->name);
  else good = cuda_dtype(p, PyBytes_AsString(bytes), &t) && add_pointer(c, p, at, t, out) && place(c, p, 1, out);
  if (good && PyObject_IsTrue(read_only) == 1) set_read_only(c, index);
  PyObject *all[] = {address, read_only, type, mask, shape, bytes};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) Py_XDECREF(all[i]);
  return good;
}

static bool buffer_dtype(const char *format, Py_ssize_t size, nereid_dtype *out) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') format++;
  if (!*format || format[1]) return false;
  const char *kind = strchr("bhilqn", *format)   ? "i"
                     : strchr("BHILQN", *format) ? "u"
                     : strchr("efd", *format)    ? "f"
                     : *format == '?'            ? "bool"
                                                 : NULL;
  return kind && dtype_by_name(kind, (int)size, out);
}

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a buffer's shape is read as DLPack's");

/* Strides are in units of so many bytes; none: row-major. An array may run backwards. */
static void keep_extent(Call *c, uint64_t at, int rank, const int64_t *shape, const int64_t *strides, int64_t unit,
                        int64_t itemsize) {
  int64_t low = 0, high = itemsize, dense = itemsize;
  for (int i = rank - 1; i >= 0; i--) {
    int64_t step = strides ? strides[i] * unit : dense, reach = (shape[i] - 1) * step;
    dense *= shape[i];
    *(reach < 0 ? &low : &high) += reach;
  }
  c->extent_begin = at + (uint64_t)low;
  c->extent_bytes = dense ? (uint64_t)(high - low) : 0;
}

/* 1: done; 0: it is no buffer, or could not be one now and has_other way; -1: an exception is set. */
static int add_buffer(Call *c, const ParamInfo *p, int index, PyObject *o, bool has_other, nereid_arg *out) {
  if (!find_buffers()) return 0;
  Buffer *b = malloc(sizeof *b);
  if (!b) return PyErr_NoMemory(), -1;
  if (get_buffer(o, b, BUFFER_FORMAT | BUFFER_STRIDES)) {
    free(b);
    bool is_none = PyErr_ExceptionMatches(PyExc_TypeError) || has_other;
    if (is_none) PyErr_Clear();
    return is_none ? 0 : -1; /* closed, released */
  }
  if (c->buffer_count == KEY_OBJECTS) {
    release_buffer(b);
    free(b);
    return too_many() ? 1 : -1;
  }
  c->buffers[c->buffer_count++] = b;
  nereid_dtype t;
  if (!buffer_dtype(b->format, b->itemsize, &t)) return unknown_type(p, b->format ? b->format : "") ? 1 : -1;
  if (b->readonly) set_read_only(c, index);
  if (!add_pointer(c, p, (uint64_t)(uintptr_t)b->buf, t, out) || !place(c, p, 0, out)) return -1;
  uint64_t at = (uint64_t)(uintptr_t)b->buf;
  keep_extent(c, at, b->ndim, (int64_t *)b->shape, (int64_t *)b->strides, 1, b->itemsize);
  out->bytes = (int64_t)(c->extent_begin + c->extent_bytes - at);
  return 1;
}

/* The structs of DLPack's specification, as a capsule "dltensor" holds them. */
typedef struct DLTensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;

static bool dlpack_dtype(const DLTensor *t, nereid_dtype *out) {
  static const char *const kinds[] = {"i", "u", "f", NULL, "bf", NULL, "bool"};
  int code = t->dtype.code;
  if (t->dtype.lanes != 1 || code >= (int)(sizeof kinds / sizeof *kinds) || !kinds[code]) return false;
  return dtype_by_name(kinds[code], t->dtype.bits / 8, out);
}

static bool add_dlpack(Call *c, const ParamInfo *p, PyObject *o, nereid_arg *out) {
  PyObject *capsule = PyObject_CallMethod(o, "__dlpack__", NULL);
  if (!capsule) return refused(p);
  const DLTensor *t = PyCapsule_GetPointer(capsule, "dltensor");
  bool good = t && own(c, capsule); /* gives the tensor back as it goes, since its name is still "dltensor" */
  if (!t) Py_DECREF(capsule);
  if (!good) return false;
  nereid_dtype dtype;
  int where = t->device.type == 1 || t->device.type == 3 ? 0 : t->device.type == 2 || t->device.type == 13 ? 1 : -1;
  if (where < 0) {
    PyErr_Format(PyExc_ValueError, "array argument '%U' lies on a device that Nereid does not run (DLPack's type %d)",
                 p->name, (int)t->device.type);
    return false;
  }
  if (!dlpack_dtype(t, &dtype)) return unknown_type(p, "by DLPack");
  uint64_t at = (uint64_t)(uintptr_t)t->data + t->byte_offset;
  int64_t size = (t->dtype.bits + 7) / 8;
  keep_extent(c, at, t->ndim, t->shape, t->strides, size, size);
  return add_pointer(c, p, at, dtype, out) && place(c, p, where, out);
}

/* 1: done; 0: o is no array; -1: an exception is set. */
static int add_array(Call *c, const ParamInfo *p, int index, PyObject *o, nereid_arg *out) {
  PyTypeObject *type = Py_TYPE(o);
  if ((PyObject *)type == setting(SETTING_TENSOR) || (PyObject *)type == setting(SETTING_PARAMETER))
    return add_torch(c, p, o, out) ? 1 : -1;
  if (PyObject_HasAttr(o, str_data_ptr)) return add_tensor_like(c, p, o, out) ? 1 : -1;
  PyObject *d = PyObject_GetAttrString(o, "__cuda_array_interface__");
  if (d) {
    bool good = add_cuda_interface(c, p, index, d, out);
    Py_DECREF(d);
    return good ? 1 : -1;
  }
  PyErr_Clear();
  bool dlpack = PyObject_HasAttrString(o, "__dlpack__");
  if (!dlpack && PyNumber_Check(o)) return 0; /* NumPy's scalars are buffers, too */
  int done = add_buffer(c, p, index, o, dlpack, out);
  if (done || !dlpack) return done;
  return add_dlpack(c, p, o, out) ? 1 : -1;
}

/* An array that is no argument of a launch. */
static bool look_at(PyObject *o, Call *c, nereid_arg *a) {
  PyObject *name = PyUnicode_FromString("x");
  call_begin(c, false);
  int found = name ? add_array(c, &(ParamInfo){.name = name}, 0, o, a) : -1;
  call_end(c);
  Py_XDECREF(name);
  if (found < 0) PyErr_Clear();
  return found > 0;
}

PyObject *argument_array_type(PyObject *m, PyObject *o) {
  Call c;
  nereid_arg a;
  if (!look_at(o, &c, &a)) return Py_BuildValue("zi", NULL, 0);
  return Py_BuildValue("sK", nereid_dtype_name(a.dtype), (unsigned long long)(uintptr_t)a.pointer);
}

PyObject *argument_array_extent(PyObject *m, PyObject *o) {
  Call c;
  nereid_arg a;
  if (!look_at(o, &c, &a) || !c.extent_bytes) Py_RETURN_NONE;
  return Py_BuildValue("KK", (unsigned long long)c.extent_begin, (unsigned long long)c.extent_bytes);
}

/* ---- descriptors and tuples -------------------------------------------------------------------------------------- */

static bool read_ints(PyObject *o, const char *attribute, int rank, int64_t *out) {
  PyObject *list = PyObject_GetAttrString(o, attribute);
  if (!list) return false;
  for (int i = 0; i < rank && !PyErr_Occurred(); i++) {
    PyObject *v = PySequence_GetItem(list, i), *n = v ? PyNumber_Index(v) : NULL;
    if (n) out[i] = PyLong_AsLongLong(n);
    Py_XDECREF(n);
    Py_XDECREF(v);
  }
  Py_DECREF(list);
  return !PyErr_Occurred();
}

static bool add_descriptor(Call *c, const ParamInfo *p, int index, PyObject *o, nereid_arg *out) {
  PyObject *base = PyObject_GetAttrString(o, "base"), *block_shape = PyObject_GetAttrString(o, "block_shape");
  PyObject *padding = PyObject_GetAttrString(o, "padding");
  Py_ssize_t rank = block_shape ? PySequence_Size(block_shape) : -1;
  bool good = base && padding && rank >= 1 && rank <= 5;
  if (!good && !PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "descriptor '%U' has %zd dimensions", p->name, rank);
  int found = good ? add_array(c, p, index, base, out) : -1;
  if (!found) PyErr_Format(PyExc_TypeError, "the base of descriptor '%U' is no array", p->name);
  good = found == 1;
  int64_t blocks[5] = {0};
  if (good) {
    out->kind = NEREID_ARG_DESCRIPTOR;
    out->rank = (int)rank;
    out->nan_padding = PyUnicode_Check(padding) && !PyUnicode_CompareWithASCIIString(padding, "nan");
    good = read_ints(o, "shape", out->rank, out->shape) && read_ints(o, "strides", out->rank, out->strides) &&
           read_ints(o, "block_shape", out->rank, blocks) &&
           word(c, TAG_DESCRIPTOR | (uint64_t)rank << 8 | (uint64_t)out->nan_padding << 16);
  }
  for (int i = 0; good && i < rank; i++) {
    out->block_shape[i] = (int32_t)blocks[i];
    bool even = !(out->shape[i] & 15), one = out->shape[i] == 1;
    bool even_stride = !(out->strides[i] & 15), one_stride = out->strides[i] == 1;
    good = word(c, (uint64_t)blocks[i] << 8 | even | (uint64_t)one << 1 | (uint64_t)even_stride << 2 |
                       (uint64_t)one_stride << 3 | (uint64_t)(out->shape[i] > INT32_MAX) << 4);
  }
  Py_XDECREF(padding);
  Py_XDECREF(block_shape);
  Py_XDECREF(base);
  return good;
}

static bool add_tuple(Call *c, const ParamInfo *p, int index, PyObject *o, nereid_arg *out) {
  Py_ssize_t n = PyTuple_Size(o);
  nereid_arg *items = block(c, sizeof *items * (size_t)n);
  PyObject *fields = items && !PyTuple_CheckExact(o) ? PyObject_GetAttrString(o, "_fields") : NULL;
  if (items && !fields) PyErr_Clear();
  if (!items || (fields && !own(c, fields))) return false;
  *out = (nereid_arg){.kind = NEREID_ARG_TUPLE, .item_count = (int)n, .items = items};
  bool good = word(c, TAG_TUPLE | (uint64_t)n << 8);
  if (good && fields) good = add_object(c, (PyObject *)Py_TYPE(o));
  ParamInfo item = {.name = p->name, .no_specialize = p->no_specialize, .no_align = p->no_align};
  for (Py_ssize_t i = 0; good && i < n; i++) {
    good = call_add(c, &item, index, PyTuple_GetItem(o, i), &items[i]);
    PyObject *field = good && fields && PyTuple_Check(fields) ? PyTuple_GetItem(fields, i) : NULL;
    if (field) items[i].name = PyUnicode_AsUTF8AndSize(field, NULL);
  }
  return good;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

bool call_add(Call *c, const ParamInfo *p, int index, PyObject *o, nereid_arg *out) {
  if (p->is_constexpr) {
    *out = (nereid_arg){.kind = NEREID_ARG_CONSTEXPR};
    return add_constexpr(c, o);
  }
  PyTypeObject *type = Py_TYPE(o);
  if ((PyObject *)type == setting(SETTING_TENSOR)) return add_torch(c, p, o, out);
  if (type == &PyLong_Type) return add_int(c, p, o, out);
  if (type == &PyFloat_Type) {
    *out = nereid_float(PyFloat_AsDouble(o));
    out->has_dtype = p->has_dtype;
    out->dtype = p->dtype;
    return word(c, TAG_FLOAT);
  }
  if (o == Py_True || o == Py_False) {
    *out = nereid_bool(o == Py_True);
    return word(c, TAG_BOOL);
  }
  if (o == Py_None) {
    *out = nereid_none();
    return word(c, TAG_NONE);
  }
  if (PyTuple_Check(o)) return add_tuple(c, p, index, o, out);
  if ((PyObject *)type == setting(SETTING_DESCRIPTOR)) return add_descriptor(c, p, index, o, out);
  *out = (nereid_arg){.kind = NEREID_ARG_CONSTEXPR};
  if ((PyObject *)type == setting(SETTING_CONSTEXPR) || PyUnicode_Check(o)) return add_constexpr(c, o);
  int done = add_array(c, p, index, o, out);
  if (done) return done > 0;
  if (PyNumber_Check(o) && !PyType_Check(o)) {
    PyObject *number = PyIndex_Check(o) ? PyNumber_Index(o) : PyNumber_Float(o);
    if (!number) return false;
    return own(c, number) && call_add(c, p, index, number, out);
  }
  *out = (nereid_arg){.kind = NEREID_ARG_CONSTEXPR};
  return add_constexpr(c, o); /* a type, a function: whether it can be one is said as it is compiled */
}
