/* Which device a launch runs on, by where its arrays are, and in which stream. */
#include "launcher.h"

enum { MAX_DEVICES = 16 };
static PyObject *devices[2][MAX_DEVICES]; /* on the host; CUDA */

static long cuda_index(void) {
  PyObject *f = setting(SETTING_CUDA_INDEX), *i = f ? PyObject_CallNoArgs(f) : NULL;
  long index = i ? PyLong_AsLong(i) : f ? -1 : 0;
  Py_XDECREF(i);
  return index < MAX_DEVICES ? index : -1;
}

Device *launcher_device(int where) {
  if (where < 0) {
    PyObject *d = PyObject_CallFunction(setting(SETTING_DEVICE), "ii", -1, 0);
    if (!d) return NULL;
    Py_DECREF(d); /* nereid._devices keeps it */
    return (Device *)d;
  }
  long index = where ? cuda_index() : 0;
  if (index < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "more CUDA devices than Nereid counts");
    return NULL;
  }
  PyObject **at = &devices[where][index];
  if (!*at) *at = PyObject_CallFunction(setting(SETTING_DEVICE), "ii", where, (int)index);
  if (*at && Py_TYPE(*at) != device_type) {
    Py_CLEAR(*at);
    PyErr_SetString(PyExc_TypeError, "a Device is needed");
  }
  return (Device *)*at;
}

PyObject *launcher_forget_devices(PyObject *module, PyObject *unused) {
  for (int i = 0; i < MAX_DEVICES; i++) {
    Py_CLEAR(devices[0][i]);
    Py_CLEAR(devices[1][i]);
  }
  Py_RETURN_NONE;
}

bool current_stream(Device *d, nereid_stream **out) {
  *out = NULL;
  PyObject *f = d->async ? setting(SETTING_CUDA_STREAM) : NULL;
  if (!f) return true;
  PyObject *index = PyLong_FromLong(d->index), *handle = index ? PyObject_CallFunctionObjArgs(f, index, NULL) : NULL;
  void *native = handle ? PyLong_AsVoidPtr(handle) : NULL;
  Py_XDECREF(index);
  if (!handle) return false;
  Py_DECREF(handle);
  return !(!native && PyErr_Occurred()) && device_stream(d, native, out);
}
