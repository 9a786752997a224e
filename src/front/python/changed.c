/* What a node of the tree changes in place, and what becomes of it where nobody knows how: the list or dict itself is
 * unknown from then on (py_spoil), and so it is under all of its names. */
#include "front/core.h"

static bool is_mutator(const char *method) {
  static const char *const names[] = {"append",  "extend",  "insert", "update",     "pop",
                                      "popitem", "clear",   "remove", "setdefault", "sort",
                                      "reverse", "discard", "add",    "appendleft", "popleft"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(method, names[i])) return true;
  return false;
}

static const Node *root_of(const Node *n) { /* a.b[c]: a */
  while (n->kind == NODE_SUBSCRIPT || n->kind == NODE_ATTRIBUTE)
    n = n->kind == NODE_SUBSCRIPT ? n->Subscript.value : n->Attribute.value;
  return n;
}

/* What a node changes in place, or NULL: a in a.append(x), a[i] = x, a.b = x, del a[i], a += x. */
const Node *host_changed_by(const Node *n) {
  switch (n->kind) {
    case NODE_CALL:
      return n->Call.func->kind == NODE_ATTRIBUTE && is_mutator(n->Call.func->Attribute.attr)
                 ? root_of(n->Call.func->Attribute.value)
                 : NULL;
    case NODE_SUBSCRIPT: return n->Subscript.ctx != CTX_LOAD ? root_of(n) : NULL;
    case NODE_ATTRIBUTE: return n->Attribute.ctx != CTX_LOAD ? root_of(n) : NULL;
    case NODE_AUG_ASSIGN: return root_of(n->AugAssign.target);
    default: return NULL;
  }
}

typedef struct Spoil {
  Front *fr;
  HostScope *sc;
  const char *why;
} Spoil;

static void spoil_in(void *arg, Node *n) {
  stack_guard();
  Spoil *s = arg;
  if (n->kind == NODE_LAMBDA || n->kind == NODE_FUNCTION_DEF || n->kind == NODE_CLASS_DEF) return;
  const Node *what = host_changed_by(n);
  if (what && what->kind == NODE_NAME) py_spoil(s->fr, host_eval(s->fr, s->sc, (Node *)what), s->why);
  for (int i = 0; n->kind == NODE_CALL && i < n->Call.args.n; i++) /* a function may change its arguments */
    if (n->Call.args.at[i]->kind == NODE_NAME) py_spoil(s->fr, host_eval(s->fr, s->sc, n->Call.args.at[i]), s->why);
  if (n->kind == NODE_NAME && n->Name.ctx == CTX_STORE) host_name(s->sc, n->Name.id, py_unknown(s->fr, "%s", s->why));
  node_children(n, spoil_in, arg);
}

void host_spoil_changed(Front *fr, HostScope *sc, Node *stmt, const char *why) {
  spoil_in(&(Spoil){fr, sc, why}, stmt);
}
