/* What a pass needs, gives and keeps: properties of a Func beyond what tile_verify() checks.
 *
 *     canonical_loops       needs no_layouts              gives canonical_loops
 *     axis_info             needs canonical_loops         gives axis_info            keeps all
 *     drop_hints            needs axis_info               gives no_hints             keeps all
 *     layout (of a GPU)     needs no_layouts access_info  gives layouts              keeps canonical_loops no_hints
 *
 * Func.holds is what holds now: after a pass, what it gives, and of what held before what it keeps. A pass that needs
 * what does not hold stands in the wrong place of its pipeline, which is found when it begins; a pass that keeps less
 * than its row says is found when it has run, where the pipeline verifies. (Loops are checked where they are made
 * canonical: folding may show later that another value grows evenly, and a hint may have hidden it.)
 */
#include "tile/tile.h"

static const Op *find_op(const Block *b, bool (*wrong)(const Op *op)) {
  stack_guard();
  for (const Op *op = b->first; op; op = op->next) {
    if (wrong(op)) return op;
    for (int i = 0; i < 2; i++) {
      const Op *inner = op->body[i] ? find_op(op->body[i], wrong) : NULL;
      if (inner) return inner;
    }
  }
  return NULL;
}

static bool any_value(const Op *op, bool (*wrong)(const Value *v)) {
  for (int i = 0; i < op->out_count; i++)
    if (wrong(op->out[i])) return true;
  for (int b = 0; b < 2 && op->body[b]; b++)
    for (int i = 0; i < op->body[b]->arg_count; i++)
      if (wrong(op->body[b]->args[i])) return true;
  return false;
}

static bool is_unknown(const Value *v) { return (v->type->ptr || dtype_is_int(v->type->dtype)) && !v->axis; }
static bool lacks_axis_info(const Op *op) { return any_value(op, is_unknown); }

/* Where it lacks, an access goes element by element. */
static bool is_blind_access(const Op *op) {
  if (!op_is_access(op)) return false;
  const Value *mask = op_mask(op);
  return (op->in[0]->type->rank && !op->in[0]->axis) || (mask && mask->type->rank && !mask->axis);
}

static bool is_laid_out(const Value *v) { return v->layout != NULL; }
static bool has_layout(const Op *op) { return any_value(op, is_laid_out); }
static bool lacks_layout(const Value *v) { return v->type->rank && !v->layout; }
static bool is_without_layout(const Op *op) { return any_value(op, lacks_layout); }

/* A hint under an `if` may speak of less than all that its operand stands for. */
static bool is_needless_hint(const Op *op) {
  if (op->code == OP_ASSUME) return true;
  if (op->code != OP_HINT) return false;
  for (const Op *p = op->block->parent; p; p = p->block->parent)
    if (p->code != OP_FOR && p->code != OP_WHILE) return false;
  return true;
}

static const struct Property {
  unsigned bit;
  const char *name;
  bool (*is_wrong)(const Op *op);
  bool once; /* holds where it is given; later passes may show more that it could be said of */
} properties[] = {
    {FUNC_NO_LAYOUTS, "no layouts", has_layout},
    {FUNC_CANONICAL_LOOPS, "canonical loops", tile_loop_grows, true},
    {FUNC_AXIS_INFO, "axis info", lacks_axis_info},
    {FUNC_NO_HINTS, "no hints", is_needless_hint},
    {FUNC_ACCESS_INFO, "axis info of accesses", is_blind_access},
    {FUNC_LAYOUTS, "layouts", is_without_layout},
};

void tile_pass_begin(Func *f, const char *name, const PassContract *c) {
  for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
    if (c->needs & ~f->holds & properties[i].bit)
      diag_fail(f->cx, (Span){0}, "wrong pipeline: %s needs '%s', which does not hold", name, properties[i].name);
}

void tile_pass_end(Func *f, const char *name, const PassContract *c, bool verify) {
  f->holds = (f->holds & c->keeps) | c->gives;
  if (!verify) return;
  tile_verify(f, name);
  for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
    const struct Property *p = &properties[i];
    const Op *op = (p->once ? c->gives : f->holds) & p->bit ? find_op(f->body, p->is_wrong) : NULL;
    if (op)
      diag_fail(f->cx, op->span ? *op->span : (Span){0}, "wrong IR after %s: '%s' does not hold at %s", name, p->name,
                op_info[op->code].name);
  }
}
