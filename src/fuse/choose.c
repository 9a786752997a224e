/* Who does a product: a kernel of ours, with its epilogue, or a library, with kernels around it; and with which tile.
 *
 * The table of tiles (tiles.c) says which tiles are likely to be the fastest. On a device that measures, a product that
 * is worth it is tried with some of them, and by the library (race.c), and the outcome is kept in the cache's folder
 * `product`: a line of text, under a name made of all that decides on it. What cannot be read back as one of the
 * candidates is measured again. */
#include <math.h>
#include <stdlib.h>

#include "fuse/race.h"

/* A library, or another tile than the table's, must be faster by so much, twice. */
static const double library_gain = 0.95, tile_gain = 0.97;

/* ---- what decides ------------------------------------------------------------------------------------------------ */

static void put_matrix(Buf *out, const FuseMatrix *m) {
  buf_printf(out, "%d %s %s %s\n", m->across, m->first->text, m->lead->text, m->batch->text);
}

/* The kernels of race's first candidate, the library, and the device. */
static const char *key_of(const Race *r, const int64_t size[4]) {
  const FusePlan *p = r->plan;
  Buf b = {.arena = p->g->cx->arena};
  buf_printf(&b, "%s\n", NEREID_VERSION);
  r->device->kind->signature(r->device, &b);
  buf_putc(&b, '\n');
  if (r->library) {
    blas_identity(*p->products.blas, &b);
    buf_putc(&b, '\n');
    put_matrix(&b, &r->library->a);
    put_matrix(&b, &r->library->b);
  }
  for (int i = 0; i < 4; i++) buf_printf(&b, "%lld ", (long long)size[i]);
  for (int i = 0; i < p->g->symbols.n; i++) buf_printf(&b, "%lld ", (long long)p->products.symbols[i]);
  for (int i = 0; i < r->n; i++) buf_printf(&b, "%d ", r->at[i].library);
  const FuseKernel *k = p->kernels.at[0];
  for (int i = 0; i < k->buffer_count; i++) buf_printf(&b, "%s ", dtype_name(k->buffers[i]->dtype));
  fuse_unnamed(&b, k->text);
  return b.at;
}

typedef struct Outcome {
  bool library;
  FuseTile tile;             /* our kernel's best */
  double own_ms, library_ms; /* 0: not measured */
} Outcome;

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

static bool same_tile(const FuseTile *a, const FuseTile *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k && a->num_warps == b->num_warps && a->steps == b->steps;
}

static const char *record(Arena *arena, const void *outcome) {
  const Outcome *o = outcome;
  const FuseTile *t = &o->tile;
  return arena_printf(arena, "library=%d tile=%lld,%lld,%lld warps=%d steps=%lld own_ms=%.6f library_ms=%.6f\n",
                      o->library, (long long)t->m, (long long)t->n, (long long)t->k, t->num_warps, (long long)t->steps,
                      o->own_ms, o->library_ms);
}

/* Only what this process could have measured, too. */
static bool read_record(void *race, const char *text, void *outcome) {
  const Race *r = race;
  Outcome *out = outcome;
  long long m, n, k, steps;
  int library, warps, end = 0;
  *out = (Outcome){0};
  if (sscanf(text, "library=%d tile=%lld,%lld,%lld warps=%d steps=%lld own_ms=%lf library_ms=%lf%n", &library, &m, &n,
             &k, &warps, &steps, &out->own_ms, &out->library_ms, &end) != 8 ||
      strcmp(text + end, "\n") || !(out->own_ms > 0) || !(out->library_ms >= 0) || !isfinite(out->own_ms) ||
      !isfinite(out->library_ms))
    return false;
  out->tile = (FuseTile){m, n, k, warps, steps};
  out->library = library == 1;
  bool known = false, has_library = false;
  for (int i = 0; i < r->n; i++) {
    known |= !r->at[i].library && same_tile(&r->at[i].tile, &out->tile);
    has_library |= r->at[i].library;
  }
  return known && (library == 0 || (library == 1 && has_library && out->library_ms > 0));
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Of the least times, of which one of two must have come twice: other programs make a machine slow, and never fast.
 * at[0] has the table's tile. */
static bool decide(const Race *r, Outcome *out) {
  const RaceTime *table = &r->time[0], *best = table, *library = NULL;
  for (int i = 1; i < r->n; i++) {
    const RaceTime *t = &r->time[i];
    if (r->at[i].library && t->twice_ms > 0) library = t;
    else if (!r->at[i].library && t->twice_ms > 0 && (!table->ms || t->twice_ms < tile_gain * table->ms) &&
             (best == table || t->ms < best->ms))
      best = t;
  }
  if (!(best->ms > 0)) return false;
  bool faster = library && library->twice_ms < library_gain * best->ms;
  *out = (Outcome){faster, r->at[best - table].tile, best->ms, library ? library->ms : 0};
  return true;
}

static const char *explain(const FusePlan *p, const Outcome *o) {
  Buf b = {.arena = p->g->cx->arena};
  buf_printf(&b, "    %s, as measured: tiles of %lld x %lld take %.4g ms", o->library ? "the library's" : "ours",
             (long long)o->tile.m, (long long)o->tile.n, o->own_ms);
  if (o->library_ms > 0) buf_printf(&b, ", %s %.4g ms", blas_name(*p->products.blas), o->library_ms);
  buf_putc(&b, '\n');
  return b.at;
}

/* m, n, k and batches; false: such a product is not measured. */
static bool is_worth_it(const FusePlan *p, const Tensor *t, int64_t size[4]) {
  const FuseProducts *o = &p->products;
  const Size *dims[4];
  int64_t work = 1;
  if ((o->who != PRODUCTS_AUTO && o->who != PRODUCTS_KEPT) || !o->device) return false;
  product_dims(p->g, t, dims);
  for (int i = 0; i < 4; i++)
    if (!size_value(dims[i], o->symbols, &size[i]) || __builtin_mul_overflow(work, size[i], &work)) return false;
  return race_is_worth_it(o->device, (double)work);
}

static bool measure(void *race, void *out) { return !race_run(race, NULL) && decide(race, out); }

static bool find_outcome(FusePlan *p, const FuseGroup *group, const FuseLibrary *library, const int64_t size[4],
                         Outcome *out) {
  static const OutcomeKind kind = {"product", sizeof *out, read_record, measure, record};
  Race *r = race_make(p, group, library);
  return outcome_find(&kind, r, key_of(r, size), p->products.who == PRODUCTS_AUTO, p->g->cx->arena, p->outcomes, out);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static bool has_library(FusePlan *p, const Tensor *t) {
  FuseProducts *o = &p->products;
  if (!o->device || !blas_takes(o->device, t->dtype)) return false;
  if (o->who == PRODUCTS_LIBRARY || *o->blas) return true; /* one that cannot be opened is an error when it runs */
  if (!o->no_library) o->no_library = blas_open(o->device, o->blas, NULL);
  return !o->no_library;
}

void product_add(FusePlan *p, const FuseGroup *group) {
  Tensor *t = group->roots[0];
  int64_t size[4];
  FuseLibrary library;
  Outcome outcome = {0};
  bool measures = is_worth_it(p, t, size), always = p->products.who == PRODUCTS_LIBRARY;
  bool can = (measures || always) && has_library(p, t) && product_as_library(p, t, &library);
  bool known = measures && find_outcome(p, group, can ? &library : NULL, size, &outcome);
  const char *notes = known ? explain(p, &outcome) : NULL;
  if (can && (outcome.library || always)) {
    product_by_library(p, group, &library, notes);
    return;
  }
  const Size *dims[4];
  product_dims(p->g, t, dims);
  if (!known) fuse_tiles(&p->target, t, dims, &outcome.tile, 1);
  FuseKernel *k = kernel_product(p, group, outcome.tile);
  k->notes = notes;
  vec_push(p->g->cx->arena, &p->kernels, k);
}
