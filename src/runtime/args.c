/* Copies of arguments that outlive the call they were given to. */
#include <stdlib.h>

#include "runtime/runtime.h"

void args_free(nereid_arg *args, int n) {
  for (int i = 0; args && i < n; i++) {
    free((char *)args[i].name);
    if (args[i].kind == NEREID_ARG_CONSTEXPR) free((char *)args[i].text);
    if (args[i].kind == NEREID_ARG_TUPLE) args_free((nereid_arg *)args[i].items, args[i].item_count);
  }
  free(args);
}

static bool copy_one(nereid_arg *out, const nereid_arg *a) {
  *out = *a;
  out->name = NULL;
  out->text = NULL;
  out->items = NULL;
  if (a->name && !(out->name = strdup(a->name))) return false;
  if (a->kind == NEREID_ARG_CONSTEXPR && a->text && !(out->text = strdup(a->text))) return false;
  return a->kind != NEREID_ARG_TUPLE || (out->items = args_copy(a->items, a->item_count));
}

nereid_arg *args_copy(const nereid_arg *args, int n) {
  nereid_arg *out = calloc((size_t)n + 1, sizeof *out);
  for (int i = 0; i < n && out; i++)
    if (!copy_one(&out[i], &args[i])) {
      args_free(out, i + 1);
      out = NULL;
    }
  return out;
}
