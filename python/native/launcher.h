/* Launcher's parts, which launcher.c puts together. */
#ifndef NEREID_NATIVE_LAUNCHER_H
#define NEREID_NATIVE_LAUNCHER_H

#include "native.h"

enum { MAX_OPTIONS = 16, FAST_PARAMS = 32 };

typedef struct Entry {
  struct Entry *next;
  uint64_t hash;
  int word_count, object_count;
  uint64_t *words;
  PyObject **objects;
  PyObject *kernel; /* the CompiledKernel, which launches return */
  Function *function;
} Entry;

/* A global that a compiled kernel has read: it may not change. */
typedef struct Global {
  PyObject *dict, *name, *value;
} Global;

typedef struct Launcher {
  PyObject_HEAD int param_count, global_count;
  ParamInfo *params;
  Global *globals;
  Entry **table; /* of `room` chains, a power of 2 */
  int room, count;
  bool slow;      /* hooks: each launch goes by _slow */
  PyObject *last; /* what kernel[last_grid] gave: a loop asks for it each time */
  PyObject *last_grid;
} Launcher;

/* ---- bind.c ------------------------------------------------------------------------------------------------------ */

typedef struct Bound {
  PyObject *values[MAX_PARAMS]; /* borrowed */
  PyObject *option_names[MAX_OPTIONS], *options[MAX_OPTIONS];
  int option_count;
  PyObject *grid; /* of run(grid=...); borrowed */
  bool warmup;
} Bound;

extern PyObject *str_grid, *str_warmup;
/* is_run: grid= and warmup= are not options. False: an exception is set. */
bool launcher_bind(const Launcher *l, PyObject *const *args, Py_ssize_t n, PyObject *names, bool is_run, Bound *b);
bool launcher_bind_named(const Launcher *l, PyObject *name, PyObject *value, bool is_run, Bound *b);
/* By name; new references. */
PyObject *launcher_bound_dict(const Launcher *l, const Bound *b);
PyObject *launcher_option_dict(const Bound *b);

/* ---- entries.c --------------------------------------------------------------------------------------------------- */

uint64_t launcher_hash(const Call *c);
Entry *launcher_find(const Launcher *l, const Call *c, uint64_t hash);
/* Takes neither kernel nor function over. */
Entry *launcher_enter(Launcher *l, const Call *c, uint64_t hash, PyObject *kernel, Function *function);
void launcher_forget_entries(Launcher *l);

/* ---- device.c ---------------------------------------------------------------------------------------------------- */

/* where: of the call's arrays; -1: it has none. Borrowed; NULL: an exception is set. */
Device *launcher_device(int where);

/* ---- compile.c --------------------------------------------------------------------------------------------------- */

PyObject *launcher_compile(PyObject *self, PyObject *args);
PyObject *launcher_inspect(PyObject *self, PyObject *args);

#endif
