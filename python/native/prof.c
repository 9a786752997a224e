/* Profile sessions and scopes, for nereid.triton.profiler. */
#include "native.h"

typedef struct Session {
  PyObject_HEAD nereid_prof *prof;
} Session;

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  const char *path;
  int no_cuda;
  nereid_prof_options options = {.count_work = false};
  if (!PyArg_ParseTuple(args, "sp:Session", &path, &no_cuda)) return NULL;
  options.no_cuda = no_cuda;
  nereid_prof *prof = NULL;
  nereid_error *error = NULL;
  if (nereid_prof_start(path, &options, &prof, &error)) return raise_error(error);
  Session *s = (Session *)PyType_GenericAlloc(type, 0);
  if (!s) return nereid_prof_stop(prof, NULL), NULL;
  s->prof = prof;
  return (PyObject *)s;
}

static PyObject *done(nereid_status status, nereid_error *error) {
  if (status) return raise_error(error);
  Py_RETURN_NONE;
}

static PyObject *session_stop(PyObject *self, PyObject *unused) {
  Session *s = (Session *)self;
  nereid_prof *prof = s->prof;
  nereid_error *error = NULL;
  nereid_status status = NEREID_OK;
  s->prof = NULL;
  Py_BEGIN_ALLOW_THREADS;
  if (prof) status = nereid_prof_stop(prof, &error);
  Py_END_ALLOW_THREADS;
  return done(status, error);
}

static PyObject *session_pause(PyObject *self, PyObject *unused) {
  nereid_error *error = NULL;
  return done(nereid_prof_pause(((Session *)self)->prof, &error), error);
}

static PyObject *session_resume(PyObject *self, PyObject *unused) {
  nereid_error *error = NULL;
  return done(nereid_prof_resume(((Session *)self)->prof, &error), error);
}

static void session_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  if (((Session *)self)->prof) nereid_prof_stop(((Session *)self)->prof, NULL);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyMethodDef session_methods[] = {{"stop", session_stop, METH_NOARGS, NULL},
                                        {"pause", session_pause, METH_NOARGS, NULL},
                                        {"resume", session_resume, METH_NOARGS, NULL},
                                        {NULL, NULL, 0, NULL}};
static PyType_Slot session_slots[] = {{Py_tp_new, session_new},
                                      {Py_tp_dealloc, session_dealloc},
                                      {Py_tp_methods, session_methods},
                                      {Py_tp_doc, "Session(path, no_cuda): writes a trace from now on."},
                                      {0, NULL}};
static PyType_Spec session_spec = {"nereid._native.Session", sizeof(Session), 0, Py_TPFLAGS_DEFAULT, session_slots};

PyObject *prof_enter(PyObject *m, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "s:prof_enter", &name)) return NULL;
  nereid_prof_enter(name);
  Py_RETURN_NONE;
}

PyObject *prof_leave(PyObject *m, PyObject *args) {
  const char *name;
  if (!PyArg_ParseTuple(args, "z:prof_leave", &name)) return NULL;
  return PyBool_FromLong(nereid_prof_leave(name));
}

PyObject *prof_metric(PyObject *m, PyObject *args) {
  const char *name;
  double value;
  if (!PyArg_ParseTuple(args, "sd:prof_metric", &name, &value)) return NULL;
  nereid_prof_metric(name, value);
  Py_RETURN_NONE;
}

PyObject *prof_view(PyObject *m, PyObject *args) {
  const char *trace, *view, *out;
  nereid_prof_view_options options = {0};
  if (!PyArg_ParseTuple(args, "ssz|z:prof_view", &trace, &view, &out, &options.metrics)) return NULL;
  nereid_error *error = NULL;
  nereid_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = nereid_prof_view(trace, view, out, &options, &error);
  Py_END_ALLOW_THREADS;
  return done(status, error);
}

bool prof_type_create(PyObject *m) {
  PyObject *type = PyType_FromSpec(&session_spec);
  return type && !PyModule_AddObject(m, "Session", type);
}
