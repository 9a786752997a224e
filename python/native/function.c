/* Device, Module and Function: objects of nereid.h in Python's hands. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

PyTypeObject *device_type, *module_type, *function_type;

/* ---- Device ------------------------------------------------------------------------------------------------------ */

/* PyTorch has a handful of streams a device, which live on: each is wrapped once. */
typedef struct WrappedStream {
  struct WrappedStream *next;
  void *native;
  nereid_stream *stream;
} WrappedStream;

bool device_stream(Device *d, void *native, nereid_stream **out) {
  *out = NULL;
  if (!native) return true;
  for (WrappedStream *w = d->streams; w; w = w->next)
    if (w->native == native) {
      *out = w->stream;
      return true;
    }
  nereid_error *error = NULL;
  WrappedStream *w = malloc(sizeof *w);
  if (!w) return PyErr_NoMemory(), false;
  if (nereid_stream_wrap(d->device, native, &w->stream, &error)) {
    free(w);
    return raise_error(error), false;
  }
  w->native = native;
  w->next = d->streams;
  d->streams = w;
  *out = w->stream;
  return true;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s:Device", &name)) return NULL;
  nereid_device *device = NULL;
  nereid_error *error = NULL;
  nereid_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = nereid_device_open(name, &device, &error);
  Py_END_ALLOW_THREADS;
  if (status) return raise_error(error);
  Device *d = (Device *)PyType_GenericAlloc(type, 0);
  if (!d) return nereid_device_close(device), NULL;
  d->device = device;
  d->async = !strncmp(name, "cuda", 4);
  d->registers = !strcmp(name, "interp") || !strncmp(name, "sim", 3);
  d->index = d->async && name[4] == ':' ? atoi(name + 5) : 0;
  return (PyObject *)d;
}

static void device_dealloc(PyObject *self) {
  Device *d = (Device *)self;
  PyTypeObject *type = Py_TYPE(self);
  for (WrappedStream *w = d->streams, *next; w; w = next) {
    next = w->next;
    nereid_stream_destroy(w->stream);
    free(w);
  }
  nereid_device_close(d->device);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *device_synchronize(PyObject *self, PyObject *unused) {
  nereid_error *error = NULL;
  nereid_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = nereid_synchronize(((Device *)self)->device, &error);
  Py_END_ALLOW_THREADS;
  if (status) return raise_error(error);
  Py_RETURN_NONE;
}

static PyObject *device_register(PyObject *self, PyObject *args) {
  unsigned long long address;
  long long bytes;
  const char *name;
  nereid_error *error = NULL;
  if (!PyArg_ParseTuple(args, "KLs:register", &address, &bytes, &name)) return NULL;
  if (nereid_register(((Device *)self)->device, (void *)(uintptr_t)address, bytes, name, &error))
    return raise_error(error);
  Py_RETURN_NONE;
}

static PyObject *device_unregister(PyObject *self, PyObject *args) {
  unsigned long long address;
  if (!PyArg_ParseTuple(args, "K:unregister", &address)) return NULL;
  nereid_unregister(((Device *)self)->device, (void *)(uintptr_t)address);
  Py_RETURN_NONE;
}

static PyMethodDef device_methods[] = {
    {"synchronize", device_synchronize, METH_NOARGS, "Waits for all that was asked of the device."},
    {"register", device_register, METH_VARARGS, "register(address, bytes, name): tells the device of memory."},
    {"unregister", device_unregister, METH_VARARGS, "unregister(address)"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot device_slots[] = {{Py_tp_new, device_new},
                                     {Py_tp_dealloc, device_dealloc},
                                     {Py_tp_methods, device_methods},
                                     {Py_tp_doc, "Device(name): \"cpu\", \"cuda:0\", \"interp\", ..."},
                                     {0, NULL}};
static PyType_Spec device_spec = {"nereid._native.Device", sizeof(Device), 0, Py_TPFLAGS_DEFAULT, device_slots};

/* ---- Module ------------------------------------------------------------------------------------------------------ */

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *source;
  if (!PyArg_ParseTuple(args, "O:Module", &source)) return NULL;
  Module *m = (Module *)PyType_GenericAlloc(type, 0);
  if (m) m->kept = PyDict_New();
  if (m && m->kept && load_source(m, source)) return (PyObject *)m;
  Py_XDECREF((PyObject *)m);
  return NULL;
}

static int module_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT((PyObject *)Py_TYPE(self));
  Py_VISIT(((Module *)self)->kept);
  return 0;
}

static int module_clear(PyObject *self) {
  Py_CLEAR(((Module *)self)->kept);
  return 0;
}

static void module_dealloc(PyObject *self) {
  Module *m = (Module *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (!m->on_gpu) nereid_module_free(m->module);
  Py_XDECREF(m->kept);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyObject *module_kernels(PyObject *self, PyObject *unused) {
  Module *m = (Module *)self;
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < nereid_kernel_count(m->module); i++) {
    PyObject *name = PyUnicode_FromString(nereid_kernel_at(m->module, i)->name);
    if (!name || PyList_Append(list, name)) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  return list;
}

static PyMethodDef module_methods[] = {
    {"kernels", module_kernels, METH_NOARGS, "The names of its kernels."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot module_slots[] = {{Py_tp_new, module_new},
                                     {Py_tp_dealloc, module_dealloc},
                                     {Py_tp_traverse, module_traverse},
                                     {Py_tp_clear, module_clear},
                                     {Py_tp_methods, module_methods},
                                     {Py_tp_doc, "Module(source): the kernels of a source (names.c)."},
                                     {0, NULL}};
static PyType_Spec module_spec = {"nereid._native.Module", sizeof(Module), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  module_slots};

/* ---- Function ---------------------------------------------------------------------------------------------------- */

static void free_items(nereid_arg *args, int n) {
  for (int i = 0; i < n; i++)
    if (args[i].kind == NEREID_ARG_TUPLE) {
      free_items((nereid_arg *)args[i].items, args[i].item_count);
      free((nereid_arg *)args[i].items);
    }
}

static int function_traverse(PyObject *self, visitproc visit, void *arg) {
  Function *f = (Function *)self;
  Py_VISIT((PyObject *)Py_TYPE(self));
  Py_VISIT(f->kept);
  Py_VISIT((PyObject *)f->module);
  return 0;
}

static void function_dealloc(PyObject *self) {
  Function *f = (Function *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  nereid_function_free(f->function);
  if (f->args) free_items(f->args, f->count);
  free(f->args);
  free(f->is_constexpr);
  free(f->writes);
  Py_XDECREF(f->kept);
  Py_XDECREF((PyObject *)f->device);
  Py_XDECREF((PyObject *)f->module);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyObject *function_info(PyObject *self, PyObject *unused) {
  nereid_function_info i;
  nereid_function_get_info(((Function *)self)->function, &i);
  return Py_BuildValue("{sdsdsdsOsisisisisisOsi}", "front_ms", i.front_ms, "backend_ms", i.backend_ms, "compiler_ms",
                       i.compiler_ms, "from_cache", i.from_cache ? Py_True : Py_False, "num_warps", i.num_warps,
                       "num_stages", i.num_stages, "registers", i.registers, "spill_bytes", i.spill_bytes,
                       "shared_bytes", i.shared_bytes, "programs_wait", i.programs_wait ? Py_True : Py_False,
                       "tf32_chain", i.tf32_chain);
}

/* A bool a parameter. */
static PyObject *function_writes(PyObject *self, PyObject *unused) {
  Function *f = (Function *)self;
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < f->count; i++)
    if (PyList_Append(list, f->writes[i] ? Py_True : Py_False)) Py_CLEAR(list);
  return list;
}

static PyMethodDef function_methods[] = {
    {"info", function_info, METH_NOARGS, "What compiling it took, and what it needs, as a dict."},
    {"writes", function_writes, METH_NOARGS, "Of each parameter, whether the kernel writes its array."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot function_slots[] = {{Py_tp_dealloc, function_dealloc},
                                       {Py_tp_traverse, function_traverse},
                                       {Py_tp_methods, function_methods},
                                       {Py_tp_doc, "One specialization of a kernel, compiled for a device."},
                                       {0, NULL}};
static PyType_Spec function_spec = {"nereid._native.Function", sizeof(Function), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, function_slots};

bool function_types_create(PyObject *m) {
  struct {
    PyType_Spec *spec;
    PyTypeObject **type;
    const char *name;
  } rows[] = {{&device_spec, &device_type, "Device"},
              {&module_spec, &module_type, "Module"},
              {&function_spec, &function_type, "Function"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    *rows[i].type = (PyTypeObject *)PyType_FromSpec(rows[i].spec);
    if (!*rows[i].type) return false;
    Py_INCREF(*rows[i].type);
    if (PyModule_AddObject(m, rows[i].name, (PyObject *)*rows[i].type)) return false;
  }
  return true;
}
