/* What decorators say: their arguments, and values that they choose for parameters. */
#include "front/core.h"

int choice_param(const Kernel *k, const char *name) {
  for (int i = 0; i < k->param_count; i++)
    if (!strcmp(k->params[i].name, name)) return i;
  return -1;
}

Node *decorator_argument(Node *call, int position, const char *name) {
  if (call->kind != NODE_CALL) return NULL;
  if (position < call->Call.args.n) return call->Call.args.at[position];
  for (int i = 0; i < call->Call.keywords.n; i++)
    if (call->Call.keywords.at[i]->keyword.arg && !strcmp(call->Call.keywords.at[i]->keyword.arg, name))
      return call->Call.keywords.at[i]->keyword.value;
  return NULL;
}

void choice_take(Choice *c, int p, Py *v) {
  if (c->args[p].kind != ARG_MISSING || (c->chosen[p] && c->chosen[p]->kind != PY_UNKNOWN)) return;
  c->chosen[p] = c->known[p] = v;
}
