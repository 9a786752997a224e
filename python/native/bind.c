/* The arguments of a launch, by position and name, as the values of parameters; what is left over are options. */
#include <string.h>

#include "launcher.h"

static bool same_name(PyObject *a, PyObject *b) { return a == b || PyUnicode_Compare(a, b) == 0; }

static int param_named(const Launcher *l, PyObject *name) {
  for (int i = 0; i < l->param_count; i++)
    if (l->params[i].name == name) return i;
  for (int i = 0; i < l->param_count; i++)
    if (same_name(l->params[i].name, name)) return i;
  return -1;
}

PyObject *str_grid, *str_warmup;

bool launcher_bind_named(const Launcher *l, PyObject *name, PyObject *value, bool is_run, Bound *b) {
  int i = param_named(l, name);
  if (i >= 0) {
    if (b->values[i]) {
      PyErr_Format(PyExc_TypeError, "got multiple values for argument '%U'", name);
      return false;
    }
    b->values[i] = value;
    return true;
  }
  if (is_run && same_name(name, str_grid)) {
    b->grid = value;
    return true;
  }
  if (is_run && same_name(name, str_warmup)) {
    b->warmup = PyObject_IsTrue(value) == 1;
    return true;
  }
  if (b->option_count == MAX_OPTIONS) {
    PyErr_SetString(PyExc_TypeError, "too many options");
    return false;
  }
  b->option_names[b->option_count] = name;
  b->options[b->option_count++] = value;
  return true;
}

bool launcher_bind(const Launcher *l, PyObject *const *args, Py_ssize_t n, PyObject *names, bool is_run, Bound *b) {
  memset(b->values, 0, sizeof b->values[0] * (size_t)l->param_count);
  b->option_count = 0;
  b->grid = NULL;
  b->warmup = false;
  if (n > l->param_count) {
    PyErr_Format(PyExc_TypeError, "the kernel takes %d arguments but %zd were given", l->param_count, n);
    return false;
  }
  memcpy(b->values, args, sizeof *args * (size_t)n);
  Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  for (Py_ssize_t i = 0; i < named; i++)
    if (!launcher_bind_named(l, PyTuple_GetItem(names, i), args[n + i], is_run, b)) return false;
  for (int i = 0; i < l->param_count; i++) {
    if (!b->values[i]) b->values[i] = l->params[i].fallback;
    if (b->values[i]) continue;
    PyErr_Format(PyExc_TypeError, "missing a required argument: '%U'", l->params[i].name);
    return false;
  }
  return true;
}

PyObject *launcher_bound_dict(const Launcher *l, const Bound *b) {
  PyObject *d = PyDict_New();
  for (int i = 0; d && i < l->param_count; i++)
    if (PyDict_SetItem(d, l->params[i].name, b->values[i])) Py_CLEAR(d);
  return d;
}

PyObject *launcher_option_dict(const Bound *b) {
  PyObject *d = PyDict_New();
  for (int i = 0; d && i < b->option_count; i++)
    if (PyDict_SetItem(d, b->option_names[i], b->options[i])) Py_CLEAR(d);
  return d;
}
