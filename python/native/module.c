/* The module nereid._native: its settings, errors, and the small functions of nereid.h. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

static PyObject *settings[SETTING_COUNT];
static const char *const setting_names[SETTING_COUNT] = {
    "error",     "dtype",      "tensor",   "parameter",  "is_cuda",      "dtype_of", "data_ptr",
    "constexpr", "descriptor", "device",   "cuda_index", "cuda_stream",  "print",    "warn",
    "memory",    "ask",        "describe", "value",      "print_threads"};
PyObject *str_data_ptr, *str_dtype, *str_is_cuda, *str_is_cpu, *str_value, *str_device, *str_type;

PyObject *setting(enum Setting s) { return settings[s]; }

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Places of the error and of the calls that lead there, innermost first. */
static PyObject *places_of(const nereid_error *error) {
  const char *file;
  int line, column;
  PyObject *list = PyList_New(0);
  nereid_error_place(error, &file, &line, &column);
  bool more = line > 0;
  for (int i = 0; list && more; i++) {
    PyObject *row = Py_BuildValue("sii", file ? file : "", line, column);
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
    more = nereid_error_call(error, i, &file, &line, &column);
  }
  return list;
}

PyObject *raise_error(nereid_error *error) {
  if (PyErr_Occurred()) { /* a callback of ours has failed first */
    nereid_error_free(error);
    return NULL;
  }
  const char *resource = NULL;
  int64_t required = 0, limit = 0;
  nereid_error_resource(error, &resource, &required, &limit);
  PyObject *places = places_of(error), *raised = NULL;
  if (places)
    raised = PyObject_CallFunction(setting(SETTING_ERROR), "iissOzLL", (int)nereid_error_status(error),
                                   (int)nereid_error_get_kind(error), nereid_error_message(error),
                                   nereid_error_text(error), places, resource, (long long)required, (long long)limit);
  if (raised) PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
  Py_XDECREF(raised);
  Py_XDECREF(places);
  nereid_error_free(error);
  return NULL;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static PyObject *configure(PyObject *m, PyObject *args) {
  const char *name;
  PyObject *value;
  if (!PyArg_ParseTuple(args, "sO:configure", &name, &value)) return NULL;
  for (int i = 0; i < SETTING_COUNT; i++) {
    if (strcmp(name, setting_names[i])) continue;
    PyObject *old = settings[i];
    Py_INCREF(value);
    settings[i] = value == Py_None ? NULL : value;
    if (value == Py_None) Py_DECREF(value);
    Py_XDECREF(old);
    Py_RETURN_NONE;
  }
  return PyErr_Format(PyExc_KeyError, "no setting '%s'", name);
}

static PyObject *version(PyObject *m, PyObject *unused) { return PyUnicode_FromString(nereid_version()); }

static PyObject *language(PyObject *m, PyObject *unused) {
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < nereid_language_count(); i++) {
    nereid_language_name n = nereid_language_at(i);
    PyObject *row = Py_BuildValue("ssNNNNzzN", n.group, n.name, PyBool_FromLong(n.interp), PyBool_FromLong(n.cpu),
                                  PyBool_FromLong(n.sim), PyBool_FromLong(n.cuda), n.arguments, n.remark,
                                  PyBool_FromLong(n.is_method));
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list;
}

static PyObject *devices(PyObject *m, PyObject *unused) {
  enum { MOST = 32 };
  nereid_device_info *info = calloc(MOST, sizeof *info);
  if (!info) return PyErr_NoMemory();
  int n = nereid_devices(info, MOST);
  PyObject *list = PyList_New(0);
  for (int i = 0; list && i < n && i < MOST; i++) {
    PyObject *row =
        Py_BuildValue("{sssssisLsNsisisi}", "name", info[i].name, "description", info[i].description, "threads",
                      info[i].threads, "memory_bytes", (long long)info[i].memory_bytes, "available",
                      PyBool_FromLong(info[i].available), "compute_capability", info[i].compute_capability,
                      "multiprocessors", info[i].multiprocessors, "driver_version", info[i].driver_version);
    if (!row || PyList_Append(list, row)) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  free(info);
  return list;
}

static PyObject *dtype_code(PyObject *m, PyObject *args) {
  const char *name;
  nereid_dtype t;
  if (!PyArg_ParseTuple(args, "s:dtype_code", &name)) return NULL;
  if (!nereid_dtype_parse(name, &t)) return PyErr_Format(PyExc_TypeError, "kernels have no type '%s'", name);
  return PyLong_FromLong(t);
}

static PyObject *dtype_name(PyObject *m, PyObject *args) {
  int t;
  if (!PyArg_ParseTuple(args, "i:dtype_name", &t)) return NULL;
  if (t < 0 || t > NEREID_F64) return PyErr_Format(PyExc_ValueError, "no type %d", t);
  return PyUnicode_FromString(nereid_dtype_name((nereid_dtype)t));
}

static PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS, "configure(name, value): see enum Setting."},
    {"version", version, METH_NOARGS, NULL},
    {"language", language, METH_NOARGS, "Every name of the language: group, name, interp, cpu, sim, cuda, ..."},
    {"devices", devices, METH_NOARGS, "What there is, each as a dict."},
    {"dtype_code", dtype_code, METH_VARARGS, NULL},
    {"dtype_name", dtype_name, METH_VARARGS, NULL},
    {"array_type", argument_array_type, METH_O, "(element type, address) of an array; (None, 0) of anything else."},
    {"array_extent", argument_array_extent, METH_O,
     "(address, bytes) of all that an array's elements lie in, or None."},
    {"forget_devices", launcher_forget_devices, METH_NOARGS, "The device of each kind of array is asked for again."},
    {"prof_enter", prof_enter, METH_VARARGS, NULL},
    {"prof_leave", prof_leave, METH_VARARGS, NULL},
    {"prof_metric", prof_metric, METH_VARARGS, NULL},
    {"prof_view", prof_view, METH_VARARGS, "prof_view(trace, view, out, metrics=None): see nereid_prof_view."},
    {"set_state", launcher_set_state, METH_O, "What every key depends on; bit 0: launches have hooks."},
    {NULL, NULL, 0, NULL},
};

/* ---- the module -------------------------------------------------------------------------------------------------- */

static bool make_names(void) {
  struct {
    PyObject **at;
    const char *text;
  } rows[] = {{&str_data_ptr, "data_ptr"}, {&str_dtype, "dtype"},   {&str_is_cuda, "is_cuda"}, {&str_is_cpu, "is_cpu"},
              {&str_value, "value"},       {&str_device, "device"}, {&str_type, "type"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!(*rows[i].at = PyUnicode_InternFromString(rows[i].text))) return false;
  return true;
}

/* Once in each interpreter that imports it. */
static int execute(PyObject *m) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "Nereid runs in the main interpreter alone, not in sub-interpreters: "
                                       "take a thread, or a process of its own (multiprocessing)");
    return -1;
  }
  return make_names() && function_types_create(m) && launcher_type_create(m) && fusion_type_create(m) &&
                 prof_type_create(m)
             ? 0
             : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "nereid._native", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
