/* What all of host evaluation shares: its budget of steps, and that what is computed of an unknown value is unknown. */
#include "front/core.h"

Project *front_project(Front *fr) { return fr->module->project; }

bool host_step(Front *fr) { return --front_project(fr)->steps > 0; }

Py *host_binary(Front *fr, PyOp op, Py *a, Py *b) {
  if (a->kind == PY_UNKNOWN) return a;
  if (b->kind == PY_UNKNOWN) return b;
  const char *why = NULL;
  Py *v = py_binary(fr, op, a, b, &why);
  return v ? v : py_unknown(fr, "%s", why);
}

Py *host_iterate(Front *fr, Py *x) {
  if (x->kind == PY_UNKNOWN) return x;
  Py *items = py_items(fr, x);
  if (!items && x->kind == PY_RANGE) return py_unknown(fr, "a range of more than %d numbers", MAX_HOST_ITEMS);
  return items ? items : py_unknown(fr, "%s, which cannot be iterated", py_describe(fr, x));
}
