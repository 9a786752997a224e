/* Fusion: a tensor program (an ATen graph as text) with its kernels, for torch.compile. */
#include <stdlib.h>

#include "native.h"

typedef struct Fusion {
  PyObject_HEAD nereid_fusion *fusion;
  Device *device;
} Fusion;

static PyObject *fusion_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  const char *path;
  PyObject *device, *texts;
  int products;
  if (!PyArg_ParseTuple(args, "sO!O!i:Fusion", &path, device_type, &device, &PyDict_Type, &texts, &products))
    return NULL;
  int n = (int)PyDict_Size(texts), i = 0;
  nereid_fuse_input *inputs = calloc((size_t)n + 1, sizeof *inputs);
  if (!inputs) return PyErr_NoMemory();
  PyObject *name, *text;
  Py_ssize_t at = 0;
  bool good = true;
  while (good && PyDict_Next(texts, &at, &name, &text)) {
    inputs[i].name = PyUnicode_AsUTF8AndSize(name, NULL);
    inputs[i].text = PyUnicode_AsUTF8AndSize(text, NULL);
    good = inputs[i].name && inputs[i].text;
    i++;
  }
  nereid_fusion *made = NULL;
  nereid_error *error = NULL;
  nereid_status status = NEREID_OK;
  const nereid_fuse_options options = {.device = ((Device *)device)->device,
                                       .products = (nereid_fuse_products)products};
  Py_BEGIN_ALLOW_THREADS;
  if (good) status = nereid_fuse(path, NULL, inputs, n, &options, &made, &error);
  Py_END_ALLOW_THREADS;
  free(inputs);
  if (status) return raise_error(error);
  Fusion *f = good ? (Fusion *)PyType_GenericAlloc(type, 0) : NULL;
  if (!f) return nereid_fusion_free(made), NULL;
  f->fusion = made;
  Py_INCREF(device);
  f->device = (Device *)device;
  return (PyObject *)f;
}

static void fusion_dealloc(PyObject *self) {
  Fusion *f = (Fusion *)self;
  PyTypeObject *type = Py_TYPE(self);
  nereid_fusion_free(f->fusion);
  Py_XDECREF((PyObject *)f->device);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* Complex numbers are shown as PyTorch has them, not as pairs. */
static const char *type_name(const nereid_tensor_info *t) {
  if (t->is_complex) return t->dtype == NEREID_F32 ? "c64" : "c128";
  return nereid_dtype_name(t->dtype);
}

static PyObject *tensors(int n, nereid_tensor_info (*at)(const nereid_fusion *, int), const nereid_fusion *f) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < n; i++) {
    nereid_tensor_info t = at(f, i);
    PyObject *shape = t.rank < 0 ? Py_BuildValue("") : PyList_New(0);
    for (int k = 0; shape && k < t.rank - t.is_complex; k++) {
      PyObject *size = PyLong_FromLongLong(t.shape[k]);
      if (!size || PyList_Append(shape, size)) Py_CLEAR(shape);
      Py_XDECREF(size);
    }
    PyObject *row =
        shape ? Py_BuildValue("ssNO", t.name ? t.name : "", type_name(&t), shape, t.is_written ? Py_True : Py_False)
              : NULL;
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static PyObject *fusion_inputs(PyObject *self, PyObject *unused) {
  const nereid_fusion *f = ((Fusion *)self)->fusion;
  return tensors(nereid_fusion_input_count(f), nereid_fusion_input, f);
}

static PyObject *fusion_outputs(PyObject *self, PyObject *unused) {
  const nereid_fusion *f = ((Fusion *)self)->fusion;
  return tensors(nereid_fusion_output_count(f), nereid_fusion_output, f);
}

static PyObject *fusion_text(PyObject *self, PyObject *args) {
  const char *what;
  if (!PyArg_ParseTuple(args, "s:text", &what)) return NULL;
  const char *text = nereid_fusion_text(((Fusion *)self)->fusion, what);
  return text ? PyUnicode_FromString(text) : PyErr_Format(PyExc_KeyError, "no text '%s'", what);
}

/* Addresses of a sequence of integers, or NULL with an exception. */
static void **addresses(PyObject *list, int n) {
  if (PySequence_Size(list) != n) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "the program has %d arrays here", n);
    return NULL;
  }
  void **out = calloc((size_t)n + 1, sizeof *out);
  for (int i = 0; out && i < n; i++) {
    PyObject *v = PySequence_GetItem(list, i);
    out[i] = v ? PyLong_AsVoidPtr(v) : NULL;
    Py_XDECREF(v);
  }
  if (out && PyErr_Occurred()) {
    free(out);
    return NULL;
  }
  return out ? out : (void **)PyErr_NoMemory();
}

/* run(inputs, outputs): addresses of row-major arrays of the device; one run at a time. */
static PyObject *fusion_run(PyObject *self, PyObject *args) {
  Fusion *f = (Fusion *)self;
  PyObject *in, *out;
  nereid_stream *stream;
  if (!PyArg_ParseTuple(args, "OO:run", &in, &out) || !current_stream(f->device, &stream)) return NULL;
  void **inputs = addresses(in, nereid_fusion_input_count(f->fusion));
  void **outputs = inputs ? addresses(out, nereid_fusion_output_count(f->fusion)) : NULL;
  nereid_error *error = NULL;
  nereid_status status = NEREID_OK;
  Py_BEGIN_ALLOW_THREADS;
  if (outputs) status = nereid_fusion_run(f->fusion, f->device->device, stream, inputs, outputs, &error);
  Py_END_ALLOW_THREADS;
  bool good = outputs && !status;
  free(inputs);
  free(outputs);
  if (status) return raise_error(error);
  return good ? Py_BuildValue("") : NULL;
}

/* compile(): the kernels, without the GIL. */
static PyObject *fusion_compile(PyObject *self, PyObject *unused) {
  Fusion *f = (Fusion *)self;
  nereid_error *error = NULL;
  nereid_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = nereid_fusion_compile(f->fusion, f->device->device, &error);
  Py_END_ALLOW_THREADS;
  return status ? raise_error(error) : Py_BuildValue("");
}

static PyObject *fusion_set_size(PyObject *self, PyObject *args) {
  const char *name;
  long long value;
  nereid_error *error = NULL;
  if (!PyArg_ParseTuple(args, "sL:set_size", &name, &value)) return NULL;
  return nereid_fusion_set_size(((Fusion *)self)->fusion, name, value, &error) ? raise_error(error) : Py_BuildValue("");
}

static PyObject *fusion_kernel_count(PyObject *self, PyObject *unused) {
  return PyLong_FromLong(nereid_fusion_kernel_count(((Fusion *)self)->fusion));
}

static PyMethodDef fusion_methods[] = {
    {"inputs", fusion_inputs, METH_NOARGS, "(name, element type, shape, is written) of each input."},
    {"outputs", fusion_outputs, METH_NOARGS, "The same of outputs; a shape of None: it is no tensor."},
    {"text", fusion_text, METH_VARARGS, "text(what): \"graph\", \"code\" or \"explain\"."},
    {"compile", fusion_compile, METH_NOARGS, "Compiles all kernels, which the first run does else."},
    {"set_size", fusion_set_size, METH_VARARGS, "set_size(name, value): of a symbolic size."},
    {"kernel_count", fusion_kernel_count, METH_NOARGS, "How many kernels a run launches."},
    {"run", fusion_run, METH_VARARGS, "run(inputs, outputs): addresses of row-major arrays."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot fusion_slots[] = {{Py_tp_new, fusion_new},
                                     {Py_tp_dealloc, fusion_dealloc},
                                     {Py_tp_methods, fusion_methods},
                                     {Py_tp_doc, "Fusion(path, device, texts): a tensor program's kernels."},
                                     {0, NULL}};
static PyType_Spec fusion_spec = {"nereid._native.Fusion", sizeof(Fusion), 0, Py_TPFLAGS_DEFAULT, fusion_slots};

bool fusion_type_create(PyObject *m) {
  PyObject *type = PyType_FromSpec(&fusion_spec);
  return type && !PyModule_AddObject(m, "Fusion", type);
}
