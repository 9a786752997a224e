/* What surrounds a kernel, answered from Python: the host of nereid.h's nereid_module_load_source.
 *
 * The front end asks for a free name, an attribute, a default or an annotation; nereid.triton's Python code finds the
 * object (SETTING_ASK) and, where it is no plain value, says what it is (SETTING_DESCRIBE):
 *
 *     ("type", "fp32")   ("library", "triton.language.load")   ("module", name)   ("object", name)   ("other", text)
 *     ("constexpr", value)                          a value that kernels may read as a global
 *     ("value", value)                              what it stands for
 *     ("function", name)                            a constexpr function, to be called back
 *     ("named_tuple", class name, class, fields, items)   ("named_tuple_class", class name, fields)
 *     ("enum", class name, class, member, value)
 *     ("source", kind, path, text, line, name, scope, noinline, launch only, must_use, plain, unaligned)
 *
 * Objects that the front end keeps pointers to are kept alive by the Module. Callbacks come on any thread.
 */
#include <string.h>

#include "native.h"

enum { MAX_DEPTH = 60 };

static void fill(Module *m, PyObject *o, nereid_value *out, int depth);

/* A Python error becomes the compilation's: with what the exception says. */
static void fill_error(nereid_value *out) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  PyObject *name = type ? PyObject_GetAttrString(type, "__name__") : NULL;
  PyObject *both = text && name ? PyUnicode_FromFormat("%U: %U", name, text) : NULL;
  const char *s = both ? PyUnicode_AsUTF8AndSize(both, NULL) : NULL;
  nereid_value_set_error(out, s ? s : "Python failed");
  PyErr_Clear();
  Py_XDECREF(both);
  Py_XDECREF(name);
  Py_XDECREF(text);
  Py_XDECREF(trace);
  Py_XDECREF(value);
  Py_XDECREF(type);
}

static const char *utf8(PyObject *o) {
  if (!o || o == Py_None) return NULL;
  return PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, NULL) : NULL;
}

/* The module holds o from now on, since the front end has its address. Once: a module compiles many times. */
static void *keep(Module *m, PyObject *o) {
  PyObject *address = PyLong_FromVoidPtr(o);
  if (!address || PyDict_SetItem(m->kept, address, o)) PyErr_Clear();
  Py_XDECREF(address);
  return o;
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static void fill_items(Module *m, PyObject *sequence, nereid_value *out, int depth) {
  Py_ssize_t n = PySequence_Size(sequence);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(sequence, i);
    nereid_value *v = nereid_value_item(out, (int)i);
    if (item && v) fill(m, item, v, depth + 1);
    Py_XDECREF(item);
  }
}

static void fill_dict(Module *m, PyObject *dict, nereid_value *out, int depth) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  nereid_value_set_dict(out, (int)PyDict_Size(dict));
  for (int i = 0; PyDict_Next(dict, &at, &key, &value); i++) {
    nereid_value *k = nereid_value_item(out, 2 * i), *v = nereid_value_item(out, 2 * i + 1);
    if (k) fill(m, key, k, depth + 1);
    if (v) fill(m, value, v, depth + 1);
  }
}

enum { MAX_FIELDS = 256 };
/* The strings of a tuple; they live as long as it does. */
static int texts(PyObject *tuple, const char **out) {
  Py_ssize_t n = tuple && PyTuple_Check(tuple) ? PyTuple_Size(tuple) : 0;
  if (n > MAX_FIELDS) n = MAX_FIELDS;
  for (Py_ssize_t i = 0; i < n; i++) {
    const char *s = utf8(PyTuple_GetItem(tuple, i));
    out[i] = s ? s : "";
  }
  return (int)n;
}

/* ---- what is described ------------------------------------------------------------------------------------------- */

enum { SOURCE_ITEMS = 12 };
typedef struct SourceTexts {
  const char *plain[MAX_FIELDS], *unaligned[MAX_FIELDS];
} SourceTexts;

/* d: ("source", ...). Texts are d's. False: d is not right. */
static bool read_source(Module *m, PyObject *d, SourceTexts *t, nereid_source *out) {
  if (!PyTuple_Check(d) || PyTuple_Size(d) != SOURCE_ITEMS) return false;
  PyObject *text = PyTuple_GetItem(d, 3);
  Py_ssize_t bytes = 0;
  *out = (nereid_source){.size = sizeof *out,
                         .kind = (nereid_source_kind)PyLong_AsLong(PyTuple_GetItem(d, 1)),
                         .path = utf8(PyTuple_GetItem(d, 2)),
                         .text = PyUnicode_AsUTF8AndSize(text, &bytes),
                         .line = (int)PyLong_AsLong(PyTuple_GetItem(d, 4)),
                         .name = utf8(PyTuple_GetItem(d, 5)),
                         .scope = keep(m, PyTuple_GetItem(d, 6)),
                         .noinline = PyObject_IsTrue(PyTuple_GetItem(d, 7)) == 1,
                         .launch_only = PyObject_IsTrue(PyTuple_GetItem(d, 8)) == 1,
                         .must_use_result = utf8(PyTuple_GetItem(d, 9)),
                         .do_not_specialize = t->plain,
                         .do_not_specialize_on_alignment = t->unaligned};
  out->text_bytes = (size_t)bytes;
  out->do_not_specialize_count = texts(PyTuple_GetItem(d, 10), t->plain);
  out->do_not_specialize_on_alignment_count = texts(PyTuple_GetItem(d, 11), t->unaligned);
  return out->text != NULL;
}

/* kind: the tuple's first item. */
static void fill_described(Module *m, PyObject *o, PyObject *d, const char *kind, nereid_value *out, int depth) {
  Py_ssize_t n = PyTuple_Size(d);
  PyObject *first = n > 1 ? PyTuple_GetItem(d, 1) : NULL;
  const char *text = utf8(first), *fields[MAX_FIELDS];
  SourceTexts t;
  nereid_source source;
  if (!strcmp(kind, "value") && first) {
    fill(m, first, out, depth + 1);
  } else if (!strcmp(kind, "constexpr") && first) {
    fill(m, first, out, depth + 1);
    nereid_value_mark_constexpr(out);
  } else if (!strcmp(kind, "type") && text) {
    nereid_value_set_type(out, text);
  } else if (!strcmp(kind, "library") && text) {
    nereid_value_set_library(out, text);
  } else if (!strcmp(kind, "module") && text) {
    nereid_value_set_module(out, text, keep(m, o));
  } else if (!strcmp(kind, "object") && text) {
    nereid_value_set_object(out, text, keep(m, o));
  } else if (!strcmp(kind, "function") && text) {
    nereid_value_set_constexpr_function(out, text, keep(m, o));
  } else if (!strcmp(kind, "named_tuple") && n == 5) {
    int count = texts(PyTuple_GetItem(d, 3), fields);
    nereid_value_set_named_tuple(out, text, keep(m, PyTuple_GetItem(d, 2)), count, fields);
    fill_items(m, PyTuple_GetItem(d, 4), out, depth);
  } else if (!strcmp(kind, "named_tuple_class") && n == 3) {
    nereid_value_set_named_tuple_class(out, text, keep(m, o), texts(PyTuple_GetItem(d, 2), fields), fields);
  } else if (!strcmp(kind, "enum") && n == 5) {
    nereid_value_set_enum(out, text, keep(m, PyTuple_GetItem(d, 2)), utf8(PyTuple_GetItem(d, 3)));
    nereid_value *item = nereid_value_item(out, 0);
    if (item) fill(m, PyTuple_GetItem(d, 4), item, depth + 1);
  } else if (!strcmp(kind, "source") && read_source(m, d, &t, &source)) {
    nereid_value_set_source(out, &source);
  } else {
    nereid_value_set_other(out, text ? text : kind);
  }
}

static void describe(Module *m, PyObject *o, nereid_value *out, int depth) {
  PyObject *d = PyObject_CallFunctionObjArgs(setting(SETTING_DESCRIBE), o, NULL);
  const char *kind = d && PyTuple_Check(d) && PyTuple_Size(d) ? utf8(PyTuple_GetItem(d, 0)) : NULL;
  if (kind) {
    fill_described(m, o, d, kind, out, depth); /* copies texts */
  } else {
    if (d && !PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "an object was not described");
    fill_error(out);
  }
  Py_XDECREF(d);
}

static void fill_int(PyObject *o, nereid_value *out) {
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) {
    nereid_value_set_int(out, v);
    return;
  }
  PyObject *text = PyObject_Str(o);
  const char *s = utf8(text);
  if (s) nereid_value_set_int_text(out, s);
  else fill_error(out);
  Py_XDECREF(text);
}

static void fill(Module *m, PyObject *o, nereid_value *out, int depth) {
  if (depth > MAX_DEPTH) {
    nereid_value_set_other(out, "a value that is nested too deeply");
  } else if (o == Py_None) {
    nereid_value_set_none(out);
  } else if (o == Py_True || o == Py_False) {
    nereid_value_set_bool(out, o == Py_True);
  } else if (PyLong_CheckExact(o)) {
    fill_int(o, out);
  } else if (PyFloat_CheckExact(o)) {
    nereid_value_set_float(out, PyFloat_AsDouble(o));
  } else if (PyUnicode_CheckExact(o)) {
    Py_ssize_t n = 0;
    const char *s = PyUnicode_AsUTF8AndSize(o, &n);
    if (s) nereid_value_set_str(out, s, (size_t)n);
    else fill_error(out);
  } else if (PyTuple_CheckExact(o)) {
    nereid_value_set_tuple(out, (int)PyTuple_Size(o));
    fill_items(m, o, out, depth);
  } else if (PyList_CheckExact(o)) {
    nereid_value_set_list(out, (int)PyList_Size(o));
    fill_items(m, o, out, depth);
  } else if (PyDict_CheckExact(o)) {
    fill_dict(m, o, out, depth);
  } else {
    describe(m, o, out, depth);
  }
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static bool answer_ask(void *arg, nereid_ask what, void *of, const char *name, nereid_value *out) {
  Module *m = arg;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *found = PyObject_CallFunction(setting(SETTING_ASK), "OiOs", (PyObject *)m, (int)what, (PyObject *)of, name);
  bool known = !found || found != Py_NotImplemented;
  if (!found) {
    fill_error(out);
  } else if (known) {
    fill(m, found, out, 0);
  }
  Py_XDECREF(found);
  PyGILState_Release(state);
  return known;
}

/* A constant of the kernel as a Python object: a new reference. */
static PyObject *object_of(const nereid_value *v) {
  size_t bytes = 0;
  const char *text = nereid_value_get_text(v, &bytes);
  int n = nereid_value_get_count(v);
  PyObject *object = nereid_value_get_object(v), *list;
  switch (nereid_value_get_kind(v)) {
    case NEREID_VALUE_NONE: Py_RETURN_NONE;
    case NEREID_VALUE_BOOL: return PyBool_FromLong((long)nereid_value_get_int(v));
    case NEREID_VALUE_INT: return PyLong_FromString(text, NULL, 10);
    case NEREID_VALUE_FLOAT: return PyFloat_FromDouble(nereid_value_get_float(v));
    case NEREID_VALUE_STR: return PyUnicode_FromStringAndSize(text, (Py_ssize_t)bytes);
    case NEREID_VALUE_OBJECT:
      if (object) return Py_INCREF(object), object;
      break;
    case NEREID_VALUE_TUPLE:
    case NEREID_VALUE_LIST:
    case NEREID_VALUE_TENSOR:
    case NEREID_VALUE_DICT:
      list = PyList_New(0);
      for (int i = 0; list && i < n; i++) {
        PyObject *item = object_of(nereid_value_get_item(v, i));
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
      }
      if (!list) return NULL;
      if (nereid_value_get_kind(v) == NEREID_VALUE_LIST) return list;
      if (nereid_value_get_kind(v) == NEREID_VALUE_TUPLE) {
        PyObject *tuple = PyList_AsTuple(list);
        Py_DECREF(list);
        return tuple;
      }
      PyObject *made = PyObject_CallFunction(setting(SETTING_VALUE), "isOO", (int)nereid_value_get_kind(v),
                                             text ? text : "", object ? object : Py_None, list);
      Py_DECREF(list);
      return made;
    default: break;
  }
  return PyObject_CallFunction(setting(SETTING_VALUE), "isOO", (int)nereid_value_get_kind(v), text ? text : "",
                               object ? object : Py_None, Py_None);
}

static bool answer_call(void *arg, void *object, int count, const nereid_value *const *args, const char *const *names,
                        nereid_value *out) {
  Module *m = arg;
  PyGILState_STATE state = PyGILState_Ensure();
  PyObject *positional = PyList_New(0), *named = PyDict_New(), *tuple = NULL, *result = NULL;
  bool good = positional && named;
  for (int i = 0; good && i < count; i++) {
    PyObject *v = object_of(args[i]);
    good = v && !(names && names[i] ? PyDict_SetItemString(named, names[i], v) : PyList_Append(positional, v));
    Py_XDECREF(v);
  }
  if (good) tuple = PyList_AsTuple(positional);
  if (tuple) result = PyObject_Call(object, tuple, named);
  if (result) {
    fill(m, result, out, 0);
  } else {
    fill_error(out);
  }
  Py_XDECREF(result);
  Py_XDECREF(tuple);
  Py_XDECREF(named);
  Py_XDECREF(positional);
  PyGILState_Release(state);
  return true;
}

bool load_source(Module *m, PyObject *d) {
  SourceTexts t;
  nereid_source source;
  if (!read_source(m, d, &t, &source)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "Module(source): not a source");
    return false;
  }
  const nereid_host host = {.size = sizeof host, .arg = m, .ask = answer_ask, .call = answer_call, .unchanging = true};
  nereid_error *error = NULL;
  nereid_status status;
  Py_BEGIN_ALLOW_THREADS;
  status = nereid_module_load_source(&source, &host, &m->module, &error);
  Py_END_ALLOW_THREADS;
  if (status) raise_error(error);
  return !status;
}
