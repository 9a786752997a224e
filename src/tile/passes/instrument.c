/* Regions of a kernel that is instrumented: which there are, and how a warp written in C records them (instrument.h).
 *
 * Automatic regions, by the source line that they stand in:
 *
 *     loop 12          a `for` or `while`, from before its first iteration to after its last
 *     iteration 12          one iteration of it (of a `while`, without its condition)
 *     dot 14, reduce 15, scan 16, sort 17      operations over a whole tile
 *     barrier 15       where a block's warps wait for each other: of a GPU alone, which adds them itself
 *                      (gpu/lower/scope.c)
 *
 * They are added late, when the passes have done their work, so that they hinder none.
 */
#include "tile/passes/instrument.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

int instrument_region(Context *cx, Instrument *in, const char *name, const Span *span, bool automatic) {
  for (int i = 0; i < in->regions.n; i++)
    if (!strcmp(in->regions.at[i].name, name)) return i;
  vec_push(cx->arena, &in->regions, (InstrumentRegion){name, span, automatic});
  return in->regions.n - 1;
}

bool instrument_repeats(const Op *op) {
  for (const Op *up = op->block->parent; up; up = up->block->parent)
    if (up->code == OP_FOR || up->code == OP_WHILE) return true;
  return false;
}

/* ---- automatic regions ------------------------------------------------------------------------------------------- */

static const char *called(Func *f, const char *what, const Op *op) {
  return op->span && op->span->line ? arena_printf(f->cx->arena, "%s %d", what, op->span->line) : what;
}

static void put(Func *f, Block *block, Op *before, bool end, const char *name, const Span *span) {
  Builder b = {.func = f, .block = block, .before = before, .span = span};
  Op *op = build_op(&b, OP_SCOPE, 0, NULL, 0, NULL);
  op->end = end;
  op->text = name;
  instrument_region(f->cx, f->instrument, name, span, true);
}

static const char *region_of(const Op *op) {
  switch (op->code) {
    case OP_FOR:
    case OP_WHILE: return "loop";
    case OP_DOT: return "dot";
    case OP_REDUCE: return "reduce";
    case OP_SCAN: return "scan";
    case OP_SORT: return "sort";
    default: return NULL;
  }
}

static void add_to(Func *f, Block *block) {
  stack_guard();
  for (Op *op = block->first, *next; op; op = next) {
    next = op->next;
    const char *what = region_of(op);
    if (what) {
      const char *name = called(f, what, op);
      put(f, block, op, false, name, op->span);
      put(f, block, next, true, name, op->span);
    }
    if (op->code == OP_IF)
      for (int i = 0; i < 2; i++) add_to(f, op->body[i]);
    if (op->code != OP_FOR && op->code != OP_WHILE) continue;
    Block *body = op->body[op->code == OP_WHILE];
    const char *name = called(f, "iteration", op);
    if (op->code == OP_WHILE) add_to(f, op->body[0]);
    put(f, body, body->first, false, name, op->span);
    add_to(f, body);
    put(f, body, body->last, true, name, op->span);
  }
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static void check(Op *op, void *arg) {
  Func *f = arg;
  for (const Op *up = op->code == OP_SCOPE ? op->block->parent : NULL; up; up = up->block->parent)
    if (up->code == OP_REDUCE || up->code == OP_SCAN || up->code == OP_MAP)
      diag_fail_hint(f->cx, op->span ? *op->span : (Span){0}, "mark the call",
                     "a region cannot stand in a function that works on single elements");
}

void tile_instrument_check(Func *f) {
  if (!f->instrument) return;
  tile_walk(f->body, check, f);
  if (f->instrument->mode == INSTRUMENT_MARKED && !f->instrument->marked)
    diag_fail_hint(f->cx, (Span){0},
                   "put lines `# nereid: begin NAME` and `# nereid: end NAME` around what is to be timed, or ask for "
                   "automatic regions",
                   "kernel '%s' marks no regions", f->name);
}

static void number(Op *op, void *arg) {
  Func *f = arg;
  if (op->code == OP_SCOPE) op->region = instrument_region(f->cx, f->instrument, op->text, op->span, false);
}

void tile_instrument(Func *f) {
  Instrument *in = f->instrument;
  if (!in) return;
  tile_walk(f->body, number, f);
  in->automatic = in->mode == INSTRUMENT_AUTOMATIC || in->mode == INSTRUMENT_BOTH ||
                  (in->mode == INSTRUMENT_DEFAULT && !in->marked);
  if (!in->automatic) return;
  add_to(f, f->body);
  tile_walk(f->body, number, f);
}

/* ---- records of a warp written in C ------------------------------------------------------------------------------ */

void instrument_open(InstrumentCursor *c, void *buffer, int64_t program, uint32_t sm, uint64_t clock, uint64_t timer) {
  InstrumentBuffer *b = buffer;
  *c = (InstrumentCursor){0};
  if (!b || program >= b->programs || !b->slot[program]) return;
  c->limit = b->limit;
  instrument_begin(
      c, (InstrumentWarp *)(void *)((char *)b + b->first + (uint64_t)(b->slot[program] - 1) * b->warps * b->stride), sm,
      clock, timer);
}

void instrument_begin(InstrumentCursor *c, InstrumentWarp *at, uint32_t sm, uint64_t clock, uint64_t timer) {
  c->at = at;
  c->used = c->lost = 0;
  c->at->sm = sm;
  c->at->clock[0] = clock;
  c->at->timer[0] = timer;
}

void instrument_mark(InstrumentCursor *c, uint32_t tag, uint64_t clock) {
  if (!c->at) return;
  if (c->used + (tag & INSTRUMENT_REPEATED ? INSTRUMENT_RESERVE : 0) >= c->limit) {
    c->lost++;
    return;
  }
  c->at->records[c->used / sizeof(InstrumentRecord)] = (InstrumentRecord){tag & ~INSTRUMENT_REPEATED, (uint32_t)clock};
  c->used += sizeof(InstrumentRecord);
}

void instrument_close(InstrumentCursor *c, uint64_t clock, uint64_t timer) {
  if (!c->at) return;
  c->at->clock[1] = clock;
  c->at->timer[1] = timer;
  c->at->used = c->used;
  c->at->lost = c->lost;
}
