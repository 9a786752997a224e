/* What a pass needs, gives and keeps: properties of a LaneFunc beyond what lane_verify() checks. As of tile IR
 * (tile/passes/contract.c): a pass that stands before what it needs fails as it begins; a pass that gives or keeps less
 * than its row of the pipeline says fails when it has run, where the pipeline verifies.
 */
#include "gpu/lane/lane.h"

/* What is accessed lies inside the block's shared memory, and as it is aligned. */
static bool is_unplaced(const LaneFunc *f, const LaneBlock *block) {
  stack_guard();
  for (const LaneOp *op = block->first; op; op = op->next) {
    if (op->buffer >= 0 && op->code != LANE_SHARED) {
      const LaneBuffer *b = &f->buffers.at[op->buffer];
      if (b->offset < 0 || b->offset % b->align || b->offset + b->bytes > f->shared_bytes) return true;
    }
    for (int i = 0; i < 2 && op->body[i]; i++)
      if (is_unplaced(f, op->body[i])) return true;
  }
  return false;
}

static bool lacks_places(const LaneFunc *f) { return is_unplaced(f, f->body); }

static const struct Property {
  unsigned bit;
  const char *name;
  bool (*is_wrong)(const LaneFunc *f);
} properties[] = {
    {LANE_SWEPT, "no dead operations", lane_has_dead},
    {LANE_PLACED, "places in shared memory", lacks_places},
};

void lane_pass_begin(LaneFunc *f, const char *name, const PassContract *c) {
  for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
    if (c->needs & ~f->holds & properties[i].bit)
      diag_fail(f->cx, (Span){0}, "wrong pipeline: %s needs '%s', which does not hold", name, properties[i].name);
}

void lane_pass_end(LaneFunc *f, const char *name, const PassContract *c, bool verify) {
  f->holds = (f->holds & c->keeps) | c->gives;
  if (!verify) return;
  lane_verify(f, name);
  for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
    if (f->holds & properties[i].bit && properties[i].is_wrong(f))
      diag_fail(f->cx, (Span){0}, "wrong lane IR after %s: '%s' does not hold", name, properties[i].name);
}
