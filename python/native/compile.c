/* Compiling a kernel for given arguments, or looking at a stage of it, while other threads of Python run. */
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

/* text(value) is the Python text of a constexpr. */
static bool write_constexprs(PyObject *text, PyObject *value, nereid_arg *a, PyObject *kept) {
  if (a->kind == NEREID_ARG_TUPLE) {
    for (int i = 0; i < a->item_count; i++)
      if (!write_constexprs(text, PyTuple_GetItem(value, i), (nereid_arg *)&a->items[i], kept)) return false;
    return true;
  }
  if (a->kind != NEREID_ARG_CONSTEXPR) return true;
  PyObject *s = PyObject_CallFunctionObjArgs(text, value, NULL);
  if (!s) return false;
  bool good = !PyList_Append(kept, s);
  a->text = good ? PyUnicode_AsUTF8AndSize(s, NULL) : NULL;
  Py_DECREF(s);
  return a->text != NULL;
}

static nereid_arg *copy_args(const nereid_arg *args, int n) {
  nereid_arg *out = malloc(sizeof *out * (size_t)(n + 1));
  if (!out) return NULL;
  memcpy(out, args, sizeof *out * (size_t)n);
  for (int i = 0; i < n; i++)
    if (out[i].kind == NEREID_ARG_TUPLE) out[i].items = copy_args(args[i].items, args[i].item_count);
  return out;
}

static void print_line(void *arg, const char *line) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *done = PyObject_CallFunction(setting(SETTING_PRINT), "s", line);
  if (!done) PyErr_WriteUnraisable(setting(SETTING_PRINT));
  Py_XDECREF(done);
  PyGILState_Release(state);
}

/* A warning becomes Python's; one that is an error there (-W error) is dropped here, since the compiler goes on. */
static void warn(void *arg, const nereid_error *warning) {
  const char *file;
  int line, column;
  PyGILState_STATE state = PyGILState_Ensure();
  nereid_error_place(warning, &file, &line, &column);
  PyObject *done = PyObject_CallFunction(setting(SETTING_WARN), "szi", nereid_error_message(warning), file, line);
  if (!done) PyErr_WriteUnraisable(setting(SETTING_WARN));
  Py_XDECREF(done);
  PyGILState_Release(state);
}

/* d must outlive o, which has its texts. */
static bool read_options(PyObject *d, nereid_options *o) {
  const struct {
    const char *name;
    int *number;
    bool *flag;
  } rows[] = {{"num_warps", &o->num_warps, NULL},
              {"num_stages", &o->num_stages, NULL},
              {"num_ctas", &o->num_ctas, NULL},
              {"maxnreg", &o->max_registers, NULL},
              {"debug", NULL, &o->debug},
              {"no_sanitize_overflow", NULL, &o->no_sanitize_overflow},
              {"no_fp_fusion", NULL, &o->no_fp_fusion},
              {"launch_pdl", NULL, &o->launch_pdl},
              {"launch_cooperative_grid", NULL, &o->cooperative_grid}};
  *o = (nereid_options){.size = sizeof *o,
                        .print = print_line,
                        .print_threads = setting(SETTING_PRINT_THREADS) != NULL,
                        .no_autotune = true,
                        .trap_asserts = true, /* the context is PyTorch's, too */
                        .warn = setting(SETTING_WARN) ? warn : NULL};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    PyObject *v = PyDict_GetItemString(d, rows[i].name);
    if (!v || v == Py_None) continue;
    if (rows[i].flag) *rows[i].flag = PyObject_IsTrue(v) == 1;
    else *rows[i].number = (int)PyLong_AsLong(v);
    if (PyErr_Occurred()) return false;
  }
  PyObject *precision = PyDict_GetItemString(d, "dot_precision");
  if (precision && precision != Py_None) o->dot_precision = PyUnicode_AsUTF8AndSize(precision, NULL);
  return !PyErr_Occurred();
}

typedef struct Compilation {
  Device *device;
  Module *module;
  const char *kernel;
  nereid_options options;
  nereid_arg *args; /* with the texts of constexprs */
} Compilation;

/* A Function of these arguments; keeps `kept`. */
static PyObject *compile_now(Launcher *l, const Compilation *w, PyObject *kept) {
  int n = l->param_count;
  nereid_function *made = NULL;
  nereid_error *error = NULL;
  nereid_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = nereid_compile(w->device->device, w->module->module, w->kernel, w->args, n, &w->options, &made, &error);
  Py_END_ALLOW_THREADS;
  if (status) return raise_error(error);
  Function *f = (Function *)PyType_GenericAlloc(function_type, 0);
  if (!f) return nereid_function_free(made), NULL;
  f->function = made;
  Py_INCREF((PyObject *)(f->device = w->device));
  Py_INCREF((PyObject *)(f->module = w->module));
  if (w->device->async) w->module->on_gpu = true;
  f->count = n;
  f->args = copy_args(w->args, n);
  f->is_constexpr = calloc((size_t)n + 1, 1);
  f->writes = calloc((size_t)n + 1, 1);
  if (!f->args || !f->is_constexpr || !f->writes) return Py_DECREF((PyObject *)f), PyErr_NoMemory();
  Py_INCREF(f->kept = kept);
  for (int i = 0; i < n; i++) {
    f->is_constexpr[i] = w->args[i].kind == NEREID_ARG_CONSTEXPR;
    const char *name = PyUnicode_AsUTF8AndSize(l->params[i].name, NULL);
    f->writes[i] = name && nereid_function_writes(made, name);
  }
  return (PyObject *)f;
}

/* What a launch of these arguments needs: fills w, calls then(l, w, kept, arg). */
static PyObject *with_args(Launcher *l, PyObject *args, PyObject *then_arg,
                           PyObject *(*then)(Launcher *, const Compilation *, PyObject *, PyObject *)) {
  PyObject *module, *device, *values, *text, *options;
  Compilation w = {0};
  if (!PyArg_ParseTuple(args, "O!OsO!OO!:_compile", module_type, &module, &device, &w.kernel, &PyTuple_Type, &values,
                        &text, &PyDict_Type, &options))
    return NULL;
  w.device = device == Py_None ? NULL : (Device *)device;
  w.module = (Module *)module;
  if (w.device && Py_TYPE(device) != device_type) return PyErr_Format(PyExc_TypeError, "a Device is needed");
  if (PyTuple_Size(values) != l->param_count) return PyErr_Format(PyExc_TypeError, "one value a parameter is needed");
  PyObject *kept = PyList_New(0), *result = NULL;
  Call c;
  call_begin(&c, false);
  w.args = calloc((size_t)l->param_count + 1, sizeof *w.args);
  bool good = kept && w.args && read_options(options, &w.options) && !PyList_Append(kept, values) &&
              !PyList_Append(kept, options);
  for (int i = 0; good && i < l->param_count; i++) {
    PyObject *value = PyTuple_GetItem(values, i);
    good = call_add(&c, &l->params[i], i, value, &w.args[i]) && write_constexprs(text, value, &w.args[i], kept);
  }
  if (good) result = then(l, &w, kept, then_arg);
  call_end(&c);
  free(w.args);
  Py_XDECREF(kept);
  return result;
}

static PyObject *then_compile(Launcher *l, const Compilation *w, PyObject *kept, PyObject *unused) {
  if (!w->device) return PyErr_Format(PyExc_TypeError, "a Device is needed");
  return compile_now(l, w, kept);
}

PyObject *launcher_compile(PyObject *self, PyObject *args) {
  return with_args((Launcher *)self, args, NULL, then_compile);
}

static PyObject *then_inspect(Launcher *l, const Compilation *w, PyObject *kept, PyObject *what) {
  const char *stage, *target;
  void *data = NULL;
  size_t bytes = 0;
  nereid_error *error = NULL;
  nereid_status status;
  if (!PyArg_ParseTuple(what, "ss:_inspect", &stage, &target)) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = nereid_inspect_bytes(w->module->module, w->kernel, w->args, l->param_count, &w->options, stage, target,
                                &data, &bytes, &error);
  Py_END_ALLOW_THREADS;
  if (status) return raise_error(error);
  PyObject *s = strcmp(stage, "cubin") ? PyUnicode_DecodeUTF8(data, (Py_ssize_t)bytes, "replace")
                                       : PyBytes_FromStringAndSize(data, (Py_ssize_t)bytes);
  free(data);
  return s;
}

/* _inspect((module, None, kernel, values, text, options), (stage, target)) */
PyObject *launcher_inspect(PyObject *self, PyObject *args) {
  PyObject *what, *how;
  if (!PyArg_ParseTuple(args, "O!O!:_inspect", &PyTuple_Type, &what, &PyTuple_Type, &how)) return NULL;
  return with_args((Launcher *)self, what, how, then_inspect);
}
