/* A warm nereid_run: the arguments checked and packed in one pass.
 *
 * A function was compiled for arguments of certain kinds, types and classes (aligned, equal to 1, ...). What bind.c
 * spells as a key byte by byte is here compared with what was seen then, an argument at a time, and its value goes into
 * its slot. Anything that is not plainly alike goes the long way, through bind.c, which either finds it alike after all
 * or says what differs. Tuples, descriptors and calls that were tuned for their numbers alone always do.
 */
#include <stdlib.h>

#include "runtime/runtime.h"

typedef struct PlannedArg {
  const ParamRule *rule;
  const char *name; /* NULL: given by position */
  nereid_arg_kind kind;
  bool has_dtype, is_constexpr;
  nereid_dtype dtype;
  Seen seen;
  const ArgSlot *slot; /* NULL: it has none */
  int slot_index;
  bool value_counts; /* of a number: decorators read it */
  nereid_arg value;  /* text is our copy */
} PlannedArg;

struct ArgPlan {
  const KernelInfo *kernel;
  int count;
  PlannedArg args[];
};

void arg_plan_free(ArgPlan *p) {
  if (!p) return;
  for (int i = 0; i < p->count; i++) free((char *)p->args[i].value.text);
  free(p);
}

static int param_of(const Call *c, const nereid_arg *a) {
  for (int i = 0; i < c->kernel->info.param_count; i++)
    if (c->args[i] == a) return i;
  return -1;
}

static bool plan_one(PlannedArg *p, const Call *c, const nereid_arg *a) {
  int param = param_of(c, a);
  if (param < 0 || a->kind == NEREID_ARG_TUPLE || a->kind == NEREID_ARG_DESCRIPTOR) return false;
  const ParamRule *r = &c->kernel->rules[param];
  *p = (PlannedArg){.rule = r,
                    .name = a->name ? c->kernel->names[param] : NULL,
                    .kind = a->kind,
                    .has_dtype = a->has_dtype,
                    .dtype = a->dtype,
                    .is_constexpr = r->is_constexpr || a->kind == NEREID_ARG_CONSTEXPR};
  p->value = *a;
  if (!p->is_constexpr) {
    p->seen = arg_see(r, a);
    p->value.text = NULL;
    p->value_counts = call_value_counts(c, r) && a->kind != NEREID_ARG_POINTER;
    return true;
  }
  p->value.text = a->text && a->kind == NEREID_ARG_CONSTEXPR ? strdup(a->text) : NULL;
  return !a->text || p->value.text;
}

ArgPlan *arg_plan_create(const Call *c, const Specialization *s, const nereid_arg *args, int n) {
  if (c->reads_values) return NULL;
  ArgPlan *p = calloc(1, sizeof *p + sizeof p->args[0] * (size_t)n);
  bool good = p != NULL;
  if (good) p->kernel = c->kernel;
  for (int i = 0; i < n && good; i++) {
    good = plan_one(&p->args[i], c, &args[i]);
    p->count = i + 1;
  }
  for (int i = 0; i < s->run.slot_count && good; i++) {
    const ArgSlot *slot = &s->run.slots[i];
    int k = 0;
    while (k < n && c->args[slot->param] != &args[k]) k++;
    good = slot->kind == SLOT_ARG && !slot->depth && k < n && !p->args[k].slot;
    if (good) p->args[k].slot = slot, p->args[k].slot_index = i;
  }
  if (good) return p;
  arg_plan_free(p);
  return NULL;
}

static bool same_constexpr(const nereid_arg *a, const nereid_arg *b) {
  if (a->kind == NEREID_ARG_FLOAT) return !memcmp(&a->f, &b->f, sizeof a->f);
  if (a->kind == NEREID_ARG_NONE) return true;
  if (a->kind == NEREID_ARG_CONSTEXPR && (a->text || b->text)) return a->text && b->text && !strcmp(a->text, b->text);
  return a->i == b->i && a->is_unsigned == b->is_unsigned;
}

bool arg_plan_pack(const ArgPlan *p, const nereid_arg *args, int n, uint64_t *out) {
  if (n != p->count || !args) return false;
  for (int i = 0; i < n; i++) {
    const PlannedArg *w = &p->args[i];
    const nereid_arg *a = &args[i];
    if (a->kind != w->kind || a->has_dtype != w->has_dtype || a->dtype != w->dtype) return false;
    if (a->name ? !w->name || strcmp(a->name, w->name) : w->name != NULL) return false;
    if (w->is_constexpr) {
      if (!same_constexpr(a, &w->value)) return false;
      continue;
    }
    Seen seen = arg_see(w->rule, a);
    if (seen.kind != w->seen.kind || seen.type != w->seen.type || seen.fixed != w->seen.fixed ||
        seen.is_one != w->seen.is_one || seen.is_divisible != w->seen.is_divisible ||
        (w->value_counts && !same_constexpr(a, &w->value)))
      return false;
    if (w->slot && pack_arg(p->kernel->info.name, w->rule->name, w->slot, a, &out[w->slot_index], NULL)) return false;
  }
  return true;
}
