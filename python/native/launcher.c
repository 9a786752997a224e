/* Launcher: what a @jit function is from the outside. kernel[grid](*args, **kwargs) goes
 *
 *     bind      arguments to parameters, by position and name, and defaults; what is left over are options
 *     key       argument.c reads each argument and adds to the key of its specialization
 *     entry     found in a table of those that were launched before; else Python compiles (_miss) and it is entered
 *     launch    nereid_run on the current stream
 *
 * in one pass without Python code, and without allocating but for the result of kernel[grid]. What is rare goes to
 * methods of the Python subclass: _miss (a new specialization), _slow (hooks are set), _changed (a global has another
 * value than when it was compiled).
 */
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

static PyTypeObject *launcher_type;
static PyTypeObject *bound_type;
static long global_state; /* what knobs say that every key depends on; bit 0: each launch goes by _slow */

/* ---- the grid ----------------------------------------------------------------------------------------------------- */

static bool grid_number(PyObject *o, int64_t *out) {
  PyObject *n = PyLong_CheckExact(o) ? NULL : PyNumber_Index(o);
  if (!n && !PyLong_CheckExact(o)) return false;
  *out = PyLong_AsLongLong(n ? n : o);
  Py_XDECREF(n);
  return !(*out == -1 && PyErr_Occurred());
}

static bool read_grid(PyObject *o, int64_t grid[3]) {
  Py_ssize_t n = PyTuple_Check(o) ? PyTuple_Size(o) : PySequence_Size(o);
  grid[0] = grid[1] = grid[2] = 1;
  if (n < 0) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "a grid is one to three integers, or a function that returns them, not %R", o);
    return false;
  }
  if (n < 1 || n > 3) {
    PyErr_Format(PyExc_ValueError, "a grid has one to three dimensions, not %zd", n);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(o, i);
    bool good = item && grid_number(item, &grid[i]);
    Py_XDECREF(item);
    if (!good) return false;
  }
  return true;
}

/* o: a sequence, or a function of the arguments. */
static bool find_grid(const Launcher *l, const Bound *b, PyObject *o, int64_t grid[3]) {
  if (PyTuple_Check(o) || !PyCallable_Check(o)) return read_grid(o, grid);
  PyObject *arguments = launcher_bound_dict(l, b);
  PyObject *found = arguments ? PyObject_CallFunctionObjArgs(o, arguments, NULL) : NULL;
  bool good = found && read_grid(found, grid);
  Py_XDECREF(found);
  Py_XDECREF(arguments);
  return good;
}

/* ---- launching ---------------------------------------------------------------------------------------------------- */

/* Constexprs within `now` get the texts that they were compiled with. */
static void take_constexprs(nereid_arg *now, const nereid_arg *then, const bool *is_constexpr, int n) {
  for (int i = 0; i < n; i++) {
    if (is_constexpr ? is_constexpr[i] : now[i].kind == NEREID_ARG_CONSTEXPR) {
      const char *name = now[i].name;
      now[i] = then[i];
      now[i].name = name;
    } else if (now[i].kind == NEREID_ARG_TUPLE) {
      take_constexprs((nereid_arg *)now[i].items, then[i].items, NULL, now[i].item_count);
    }
  }
}

static bool check_writable(const Launcher *l, const Function *f, const Call *c) {
  for (int i = 0; i < l->param_count; i++)
    if (c->read_only[i / 64] >> i % 64 & 1 && f->writes[i]) {
      PyErr_Format(PyExc_ValueError, "array argument '%U' is read-only, and the kernel writes it", l->params[i].name);
      return false;
    }
  return true;
}

static bool run_now(const Launcher *l, Function *f, nereid_arg *args, const Call *c, const int64_t grid[3]) {
  nereid_stream *stream;
  nereid_error *error = NULL;
  nereid_status status;
  take_constexprs(args, f->args, f->is_constexpr, f->count);
  if (!check_writable(l, f, c) || !current_stream(f->device, &stream)) return false;
  if (f->device->async) { /* the call comes back at once */
    status = nereid_run(f->function, stream, grid, args, f->count, &error);
  } else {
    Py_BEGIN_ALLOW_THREADS;
    status = nereid_run(f->function, stream, grid, args, f->count, &error);
    Py_END_ALLOW_THREADS;
  }
  if (status) raise_error(error);
  return !status;
}

/* A device that checks accesses is told of the arrays while the kernel runs. */
static bool run_registered(const Launcher *l, const Bound *b, Function *f, nereid_arg *args, const Call *c,
                           const int64_t grid[3]) {
  PyObject *arguments = launcher_bound_dict(l, b), *list = NULL;
  if (arguments) list = PyObject_CallFunctionObjArgs(setting(SETTING_MEMORY), arguments, NULL);
  Py_XDECREF(arguments);
  Py_ssize_t n = list ? PySequence_Size(list) : -1, done = 0;
  bool good = n >= 0;
  for (; good && done < n; done++) {
    PyObject *row = PySequence_GetItem(list, done);
    unsigned long long address;
    long long bytes;
    nereid_error *error = NULL;
    good = row && PyArg_ParseTuple(row, "KL", &address, &bytes);
    if (good && nereid_register(f->device->device, (void *)(uintptr_t)address, bytes, "array", &error)) {
      raise_error(error);
      good = false;
    }
    Py_XDECREF(row);
    if (!good) break;
  }
  if (good) good = run_now(l, f, args, c, grid);
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  for (Py_ssize_t i = 0; i < done; i++) {
    PyObject *row = PySequence_GetItem(list, i);
    PyObject *address = row ? PySequence_GetItem(row, 0) : NULL;
    if (address) nereid_unregister(f->device->device, PyLong_AsVoidPtr(address));
    Py_XDECREF(address);
    Py_XDECREF(row);
  }
  PyErr_Restore(type, value, trace);
  Py_XDECREF(list);
  return good;
}

/* 1, 0, or -1 with an exception set. Of constexprs the values are compared: operators on them are Python code. */
static int same_global(PyObject *now, PyObject *then) {
  if (!now || now == then) return now != NULL;
  if ((PyObject *)Py_TYPE(now) != setting(SETTING_CONSTEXPR) || Py_TYPE(then) != Py_TYPE(now))
    return PyObject_RichCompareBool(now, then, Py_EQ);
  PyObject *a = PyObject_GetAttr(now, str_value), *b = PyObject_GetAttr(then, str_value);
  int same = a && b ? PyObject_RichCompareBool(a, b, Py_EQ) : -1;
  Py_XDECREF(a);
  Py_XDECREF(b);
  return same;
}

static bool globals_hold(Launcher *l) {
  for (int i = 0; i < l->global_count; i++) {
    const Global *g = &l->globals[i];
    PyObject *now = PyDict_GetItem(g->dict, g->name);
    if (same_global(now, g->value) == 1) continue;
    PyErr_Clear();
    PyObject *raised = PyObject_CallMethod((PyObject *)l, "_changed", "OOO", g->name, g->value, now ? now : Py_None);
    Py_XDECREF(raised);
    return false;
  }
  return true;
}

/* Compiles by Python. New reference to the kernel; *function is borrowed from it, NULL: nothing is to run. */
static PyObject *miss(Launcher *l, const Bound *b, Device *d, Function **function) {
  PyObject *arguments = launcher_bound_dict(l, b), *options = launcher_option_dict(b), *kernel = NULL;
  if (arguments && options)
    kernel = PyObject_CallMethod((PyObject *)l, "_miss", "OOOO", arguments, options, (PyObject *)d,
                                 b->warmup ? Py_True : Py_False);
  Py_XDECREF(arguments);
  Py_XDECREF(options);
  *function = NULL;
  if (!kernel || kernel == Py_None) return kernel;
  PyObject *f = PyObject_GetAttrString(kernel, "_function");
  if (f && Py_TYPE(f) == function_type) *function = (Function *)f;
  else if (f && f != Py_None) PyErr_SetString(PyExc_TypeError, "_miss returned no compiled kernel");
  Py_XDECREF(f); /* the kernel keeps it */
  if (PyErr_Occurred()) Py_CLEAR(kernel);
  return kernel;
}

static PyObject *call_slow(Launcher *l, const Bound *b, PyObject *grid) {
  PyObject *arguments = launcher_bound_dict(l, b), *options = launcher_option_dict(b), *result = NULL;
  if (arguments && options)
    result = PyObject_CallMethod((PyObject *)l, "_slow", "OOOO", arguments, options, grid ? grid : Py_None,
                                 b->warmup ? Py_True : Py_False);
  Py_XDECREF(arguments);
  Py_XDECREF(options);
  return result;
}

static bool read_call(const Launcher *l, const Bound *b, Call *c, nereid_arg *args) {
  for (int i = 0; i < l->param_count; i++)
    if (!call_add(c, &l->params[i], i, b->values[i], &args[i])) return false;
  for (int i = 0; i < b->option_count; i++)
    if (!call_add_value(c, b->option_names[i]) || !call_add_value(c, b->options[i])) return false;
  return true;
}

/* args: of l->param_count. */
static PyObject *launch_with(Launcher *l, const Bound *b, PyObject *grid, nereid_arg *args, Call *c) {
  int64_t size[3];
  if (!read_call(l, b, c, args)) return NULL;
  Device *d = launcher_device(c->where);
  if (!d) return NULL;
  if (c->word_count + 1 >= KEY_WORDS) return PyErr_SetString(PyExc_TypeError, "too many arguments"), NULL;
  c->words[c->word_count++] = (uint64_t)(uintptr_t)d ^ (uint64_t)global_state;
  uint64_t hash = launcher_hash(c);
  Entry *e = launcher_find(l, c, hash);
  PyObject *kernel;
  Function *f;
  if (e) {
    Py_INCREF(kernel = e->kernel);
    f = e->function;
  } else {
    kernel = miss(l, b, d, &f);
    if (!f) return kernel;
    if (!launcher_find(l, c, hash) && !launcher_enter(l, c, hash, kernel, f)) return Py_DECREF(kernel), NULL;
  }
  if (!globals_hold(l)) return Py_DECREF(kernel), NULL;
  if (b->warmup) return kernel;
  if (!grid || !find_grid(l, b, grid, size)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a launch needs a grid");
    return Py_DECREF(kernel), NULL;
  }
  Py_INCREF((PyObject *)f); /* another thread may forget the entry */
  bool good = f->device->registers ? run_registered(l, b, f, args, c, size) : run_now(l, f, args, c, size);
  Py_DECREF((PyObject *)f);
  if (!good) Py_CLEAR(kernel);
  return kernel;
}

static PyObject *launch(Launcher *l, const Bound *b, PyObject *grid) {
  Call c;
  nereid_arg few[FAST_PARAMS], *args = few;
  if (l->param_count > FAST_PARAMS) {
    args = malloc(sizeof *args * (size_t)l->param_count);
    if (!args) return PyErr_NoMemory();
  }
  call_begin(&c, !b->warmup);
  PyObject *result = launch_with(l, b, grid, args, &c);
  call_end(&c);
  if (args != few) free(args);
  return result;
}

/* ---- kernel[grid] ------------------------------------------------------------------------------------------------- */

/* What kernel[grid] is bound to: the builtin function made of it has the fast calling convention in every version. */
typedef struct BoundGrid {
  PyObject_HEAD Launcher *launcher;
  PyObject *grid;
} BoundGrid;

static PyObject *grid_call(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  BoundGrid *g = (BoundGrid *)self;
  Bound b;
  if (!launcher_bind(g->launcher, args, n, names, false, &b)) return NULL;
  if (g->launcher->slow || global_state & 1) return call_slow(g->launcher, &b, g->grid);
  return launch(g->launcher, &b, g->grid);
}

static PyMethodDef grid_method = {"launch", (PyCFunction)(void (*)(void))grid_call, METH_FASTCALL | METH_KEYWORDS,
                                  NULL};

static int grid_traverse(PyObject *self, visitproc visit, void *arg) {
  BoundGrid *g = (BoundGrid *)self;
  Py_VISIT((PyObject *)Py_TYPE(self));
  Py_VISIT((PyObject *)g->launcher);
  Py_VISIT(g->grid);
  return 0;
}

static void grid_dealloc(PyObject *self) {
  BoundGrid *g = (BoundGrid *)self;
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_XDECREF((PyObject *)g->launcher);
  Py_XDECREF(g->grid);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyType_Slot bound_slots[] = {{Py_tp_dealloc, grid_dealloc}, {Py_tp_traverse, grid_traverse}, {0, NULL}};
static PyType_Spec bound_spec = {"nereid._native.BoundGrid", sizeof(BoundGrid), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, bound_slots};

static PyObject *launcher_subscript(PyObject *self, PyObject *grid) {
  Launcher *l = (Launcher *)self;
  if (l->last && l->last_grid == grid) {
    Py_INCREF(l->last);
    return l->last;
  }
  BoundGrid *g = PyObject_GC_New(BoundGrid, bound_type);
  if (!g) return NULL;
  Py_INCREF(self);
  Py_INCREF(grid);
  g->launcher = (Launcher *)self;
  g->grid = grid;
  PyObject_GC_Track((PyObject *)g);
  PyObject *f = PyCFunction_NewEx(&grid_method, (PyObject *)g, NULL);
  Py_DECREF((PyObject *)g);
  if (f && PyTuple_CheckExact(grid)) { /* a function may hold on to arrays: it is not kept */
    PyObject *before = l->last, *grid_before = l->last_grid;
    Py_INCREF(f);
    Py_INCREF(grid);
    l->last = f;
    l->last_grid = grid;
    Py_XDECREF(before);
    Py_XDECREF(grid_before);
  }
  return f;
}

static PyObject *launcher_run(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
  Launcher *l = (Launcher *)self;
  Bound b;
  if (!launcher_bind(l, args, n, names, true, &b)) return NULL;
  if (l->slow || global_state & 1) return call_slow(l, &b, b.grid);
  return launch(l, &b, b.grid);
}

/* As the fast way does, after _slow has called its hooks. */
static PyObject *launcher_launch(PyObject *self, PyObject *args) {
  Launcher *l = (Launcher *)self;
  PyObject *arguments, *options, *grid, *warmup, *name, *value;
  Py_ssize_t at = 0;
  if (!PyArg_ParseTuple(args, "OOOO:_launch", &arguments, &options, &grid, &warmup)) return NULL;
  Bound b = {.warmup = PyObject_IsTrue(warmup) == 1};
  for (int i = 0; i < l->param_count; i++) {
    b.values[i] = PyDict_GetItem(arguments, l->params[i].name);
    if (!b.values[i]) return PyErr_Format(PyExc_TypeError, "missing a required argument: '%U'", l->params[i].name);
  }
  while (PyDict_Next(options, &at, &name, &value))
    if (!launcher_bind_named(l, name, value, false, &b)) return NULL;
  return launch(l, &b, grid == Py_None ? NULL : grid);
}

/* ---- the object --------------------------------------------------------------------------------------------------- */

static void free_params(Launcher *l) {
  for (int i = 0; i < l->param_count; i++) {
    Py_XDECREF(l->params[i].name);
    Py_XDECREF(l->params[i].fallback);
  }
  free(l->params);
  l->params = NULL;
  l->param_count = 0;
}

static void free_globals(Launcher *l) {
  for (int i = 0; i < l->global_count; i++) {
    Py_DECREF(l->globals[i].dict);
    Py_DECREF(l->globals[i].name);
    Py_DECREF(l->globals[i].value);
  }
  free(l->globals);
  l->globals = NULL;
  l->global_count = 0;
}

/* _configure([(name, has default, default, constexpr, no specialize, no align, dtype or -1), ...]) */
static PyObject *launcher_configure(PyObject *self, PyObject *list) {
  Launcher *l = (Launcher *)self;
  Py_ssize_t n = PySequence_Size(list);
  if (n < 0) return NULL;
  if (n > MAX_PARAMS) return PyErr_Format(PyExc_TypeError, "a kernel has %d parameters at most", MAX_PARAMS);
  launcher_forget_entries(l);
  free_params(l);
  l->params = calloc((size_t)n + 1, sizeof *l->params);
  if (!l->params) return PyErr_NoMemory();
  for (; l->param_count < n; l->param_count++) {
    ParamInfo *p = &l->params[l->param_count];
    PyObject *row = PySequence_GetItem(list, l->param_count), *name, *fallback;
    int has, is_constexpr, plain, unaligned, dtype;
    bool good =
        row && PyArg_ParseTuple(row, "UpOpppi", &name, &has, &fallback, &is_constexpr, &plain, &unaligned, &dtype);
    if (good) {
      Py_INCREF(name);
      PyUnicode_InternInPlace(&name);
      if (has) Py_INCREF(fallback);
      *p = (ParamInfo){name,
                       has ? fallback : NULL,
                       is_constexpr,
                       plain,
                       unaligned,
                       dtype >= 0,
                       (nereid_dtype)(dtype >= 0 ? dtype : 0)};
    }
    Py_XDECREF(row);
    if (!good) return NULL;
  }
  Py_RETURN_NONE;
}

/* _hold([(dict, name, value), ...]): globals that must stay as they are. */
static PyObject *launcher_hold(PyObject *self, PyObject *list) {
  Launcher *l = (Launcher *)self;
  Py_ssize_t n = PySequence_Size(list);
  if (n < 0) return NULL;
  Global *globals = calloc((size_t)n + 1, sizeof *globals);
  if (!globals) return PyErr_NoMemory();
  free_globals(l);
  l->globals = globals;
  for (; l->global_count < n; l->global_count++) {
    Global *g = &globals[l->global_count];
    PyObject *row = PySequence_GetItem(list, l->global_count);
    bool good = row && PyArg_ParseTuple(row, "O!OO", &PyDict_Type, &g->dict, &g->name, &g->value);
    if (good) Py_INCREF(g->dict), Py_INCREF(g->name), Py_INCREF(g->value);
    Py_XDECREF(row);
    if (!good) return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject *launcher_forget(PyObject *self, PyObject *unused) {
  launcher_forget_entries((Launcher *)self);
  Py_RETURN_NONE;
}

static PyObject *launcher_set_slow(PyObject *self, PyObject *flag) {
  ((Launcher *)self)->slow = PyObject_IsTrue(flag) == 1;
  Py_RETURN_NONE;
}

static int launcher_traverse(PyObject *self, visitproc visit, void *arg) {
  Launcher *l = (Launcher *)self;
  Py_VISIT((PyObject *)Py_TYPE(self));
  Py_VISIT(l->last);
  Py_VISIT(l->last_grid);
  for (int i = 0; i < l->param_count; i++) Py_VISIT(l->params[i].fallback);
  for (int i = 0; i < l->global_count; i++) {
    Py_VISIT(l->globals[i].dict);
    Py_VISIT(l->globals[i].value);
  }
  for (int i = 0; i < l->room; i++)
    for (Entry *e = l->table[i]; e; e = e->next) {
      Py_VISIT(e->kernel);
      Py_VISIT((PyObject *)e->function);
      for (int k = 0; k < e->object_count; k++) Py_VISIT(e->objects[k]);
    }
  return 0;
}

static int launcher_clear(PyObject *self) {
  Py_CLEAR(((Launcher *)self)->last);
  Py_CLEAR(((Launcher *)self)->last_grid);
  launcher_forget_entries((Launcher *)self);
  free_globals((Launcher *)self);
  free_params((Launcher *)self);
  return 0;
}

static void launcher_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  launcher_clear(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyMethodDef launcher_methods[] = {
    {"run", (PyCFunction)(void (*)(void))launcher_run, METH_FASTCALL | METH_KEYWORDS,
     "run(*args, grid, warmup=False, **kwargs): launches; kernel[grid](...) is the same."},
    {"_launch", launcher_launch, METH_VARARGS, NULL},
    {"_compile", launcher_compile, METH_VARARGS, NULL},
    {"_inspect", launcher_inspect, METH_VARARGS, NULL},
    {"_configure", launcher_configure, METH_O, NULL},
    {"_hold", launcher_hold, METH_O, NULL},
    {"_forget", launcher_forget, METH_NOARGS, NULL},
    {"_set_slow", launcher_set_slow, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot launcher_slots[] = {{Py_tp_dealloc, launcher_dealloc},
                                       {Py_tp_traverse, launcher_traverse},
                                       {Py_tp_clear, launcher_clear},
                                       {Py_tp_methods, launcher_methods},
                                       {Py_mp_subscript, launcher_subscript},
                                       {Py_tp_doc, "What launches a kernel."},
                                       {0, NULL}};
static PyType_Spec launcher_spec = {"nereid._native.Launcher", sizeof(Launcher), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, launcher_slots};

PyObject *launcher_set_state(PyObject *module, PyObject *number) {
  long state = PyLong_AsLong(number);
  if (state == -1 && PyErr_Occurred()) return NULL;
  global_state = state;
  Py_RETURN_NONE;
}

bool launcher_type_create(PyObject *m) {
  str_grid = PyUnicode_InternFromString("grid");
  str_warmup = PyUnicode_InternFromString("warmup");
  launcher_type = (PyTypeObject *)PyType_FromSpec(&launcher_spec);
  bound_type = (PyTypeObject *)PyType_FromSpec(&bound_spec);
  if (!launcher_type || !bound_type || !str_grid || !str_warmup) return false;
  Py_INCREF((PyObject *)launcher_type);
  return !PyModule_AddObject(m, "Launcher", (PyObject *)launcher_type);
}
