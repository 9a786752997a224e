/* Candidates run in turn, each until it has run often enough: the least time of each counts, which other programs on
 * the machine disturb the least. One that is far behind after its first rounds is not run on.
 *
 * Arrays hold random numbers, since zeros are multiplied at less power, and so at a higher clock; those of integers
 * zeros, since they may be places in other arrays. */
#include <stdlib.h>

#include "fuse/race.h"

enum { MOST_ARRAYS = 64, ROUNDS = 12, FIRST_ROUNDS = 2, PART = 1 << 20 };
static const double round_ms = 2, most_ms = 400, long_ms = 50, least_ms = 0.001, hopeless = 1.4;

/* ---- who is raced ------------------------------------------------------------------------------------------------ */

/* A microsecond of a GPU, a tenth of a millisecond of a processor. */
static const double worth_on_gpu = 1 << 25, worth_on_cpu = 1 << 22;

bool race_is_worth_it(const nereid_device *d, double multiply_adds) {
  return d->autotunes && d->kind->signature && multiply_adds >= (d->cuda_sm ? worth_on_gpu : worth_on_cpu);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

nereid_status race_open(RaceClock *c, nereid_device *d, nereid_error **error) {
  nereid_status status = nereid_stream_create(d, &c->stream, error);
  if (!status) status = nereid_event_create(d, &c->start, error);
  if (!status) status = nereid_event_create(d, &c->end, error);
  return status;
}

void race_close(RaceClock *c) {
  nereid_event_destroy(c->start);
  nereid_event_destroy(c->end);
  nereid_stream_destroy(c->stream);
}

typedef struct Rounds {
  const RaceClock *clock;
  RaceRun run;
  void *arg;
} Rounds;

static nereid_status time_some(const Rounds *r, int i, int times, double *ms, nereid_error **error) {
  const RaceClock *c = r->clock;
  nereid_status status = nereid_event_record(c->start, c->stream, error);
  for (int n = 0; n < times && !status; n++) status = r->run(r->arg, i, c->stream, error);
  if (!status) status = nereid_event_record(c->end, c->stream, error);
  if (!status) status = nereid_event_synchronize(c->end, error);
  if (!status) status = nereid_event_elapsed(c->start, c->end, ms, error);
  *ms /= times;
  return status;
}

/* Pages, caches and threads get ready. */
static void warm(const Rounds *r, int i, RaceTime *t) {
  double ms = 0;
  nereid_status status = time_some(r, i, 1, &ms, NULL);
  if (!status && ms < long_ms) status = time_some(r, i, 1, &ms, NULL);
  t->times = status ? 0 : ms >= round_ms ? 1 : (int)(round_ms / (ms > least_ms ? ms : least_ms));
}

static void note_time(RaceTime *t, double ms) {
  if (!t->ms || ms < t->ms) {
    t->twice_ms = t->ms;
    t->ms = ms;
  } else if (!t->twice_ms || ms < t->twice_ms) t->twice_ms = ms;
}

nereid_status race_rounds(const RaceClock *c, int n, RaceTime *times, RaceRun run, void *arg, nereid_error **error) {
  const Rounds r = {c, run, arg};
  double best = 0, spent = 0;
  nereid_status status = NEREID_OK;
  for (int i = 0; i < n; i++) warm(&r, i, &times[i]);
  for (int round = 0; round < ROUNDS && !status && (round < FIRST_ROUNDS || spent < most_ms); round++)
    for (int i = 0; i < n && !status; i++) {
      RaceTime *t = &times[i];
      double ms = 0;
      if (!t->times || (round >= FIRST_ROUNDS && t->ms > hopeless * best)) continue;
      status = time_some(&r, i, t->times, &ms, error);
      note_time(t, ms);
      if (!best || t->ms < best) best = t->ms;
      spent += ms * t->times;
    }
  return status;
}

nereid_status race_fill(nereid_device *d, nereid_stream *s, void *to, Dtype t, int64_t bytes, nereid_error **error) {
  if (!dtype_is_float(t)) return nereid_fill_async(d, s, to, 0, bytes, error);
  int64_t part = bytes < PART ? bytes : PART, size = dtype_bytes(t);
  char *host = malloc((size_t)part + 1);
  if (!host) return error_out_of_memory(error);
  uint64_t x = 88172645463325252u;
  for (int64_t i = 0; i < part / size; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17; /* Marsaglia's xorshift64 */
    dtype_store_float(t, host + i * size, (double)(int64_t)x * 0x1p-63);
  }
  nereid_status status = nereid_copy_to_device_async(d, s, to, host, part, error);
  if (!status) status = nereid_stream_synchronize(d, s, error);
  free(host);
  for (int64_t done = part; done < bytes && !status; done *= 2) {
    int64_t n = bytes - done < done ? bytes - done : done;
    status = nereid_copy_async(d, s, (char *)to + done, to, n, error);
  }
  return status;
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

Race *race_make(const FusePlan *p, const FuseGroup *group, const FuseLibrary *library) {
  Arena *a = p->g->cx->arena;
  Race *r = NEW(a, Race);
  FuseTile tiles[RACE_TILES];
  r->device = p->products.device;
  r->library = library;
  r->plan = arena_copy(a, p, sizeof *p);
  r->plan->names = map_create(a, true);
  r->plan->stored = arena_copy(a, p->stored, sizeof *p->stored * (size_t)(p->g->at.n + 1));
  memset(&r->plan->kernels, 0, sizeof r->plan->kernels);
  const Size *dims[4];
  product_dims(p->g, group->roots[0], dims);
  int count = fuse_tiles(&p->target, group->roots[0], dims, tiles, RACE_TILES);
  for (int i = 0; i < count + (library != NULL); i++) { /* the library last: it stores the product */
    Candidate *c = &r->at[r->n++];
    c->first = r->plan->kernels.n;
    c->library = i == count;
    if (c->library) product_by_library(r->plan, group, library, NULL);
    else {
      c->tile = tiles[i];
      vec_push(a, &r->plan->kernels, kernel_product(r->plan, group, tiles[i]));
    }
    c->count = r->plan->kernels.n - c->first;
  }
  return r;
}

/* ---- what it runs on --------------------------------------------------------------------------------------------- */

typedef struct Track {
  Race *race;
  FuseStep *steps;
  nereid_module *module;
  RaceClock clock;
  struct {
    const Tensor *tensor;
    void *at;
  } arrays[MOST_ARRAYS];
  int array_count;
} Track;

static nereid_status array_for(Track *k, const Tensor *t, void **out, nereid_error **error) {
  const FusePlan *p = k->race->plan;
  const Tensor *base = fuse_base(p, t);
  int64_t bytes = dtype_bytes(base->dtype), n;
  for (int i = 0; i < k->array_count; i++)
    if (k->arrays[i].tensor == base) return *out = k->arrays[i].at, NEREID_OK;
  for (int d = 0; d < base->rank; d++)
    if (!size_value(base->size[d], p->products.symbols, &n) || __builtin_mul_overflow(bytes, n, &bytes))
      return error_set(error, NEREID_OUT_OF_MEMORY, NULL, "an array does not fit in 63 bits");
  if (k->array_count == MOST_ARRAYS) return error_set(error, NEREID_UNSUPPORTED, NULL, "too many arrays");
  nereid_status status = nereid_alloc(k->race->device, bytes, out, error);
  if (status) return status;
  k->arrays[k->array_count].tensor = base;
  k->arrays[k->array_count++].at = *out;
  return race_fill(k->race->device, k->clock.stream, *out, base->dtype, bytes, error);
}

static nereid_status open_track(Track *k, nereid_error **error) {
  FusePlan *p = k->race->plan;
  nereid_device *d = k->race->device;
  int n = p->kernels.n;
  k->steps = calloc((size_t)n + 1, sizeof *k->steps);
  nereid_status status = k->steps ? NEREID_OK : error_out_of_memory(error);
  if (!status) status = nereid_module_load_string("measured.py", p->text, &k->module, error);
  if (!status) status = race_open(&k->clock, d, error);
  if (!status && k->race->library) status = blas_start(*p->products.blas, error);
  for (int i = 0; i < n && !status; i++) {
    const FuseKernel *kernel = p->kernels.at[i];
    status = step_make(&k->steps[i], kernel, p->products.symbols, 0, error);
    for (int b = 0; b < kernel->buffer_count && !status; b++)
      status = array_for(k, kernel->buffers[b], &k->steps[i].args[b].pointer, error);
  }
  if (!status) steps_compile(k->steps, n, d, k->module, NULL); /* who cannot be compiled does not run */
  return status;
}

static void close_track(Track *k) {
  for (int i = 0; k->steps && i < k->race->plan->kernels.n; i++) step_free(&k->steps[i]);
  free(k->steps);
  for (int i = 0; i < k->array_count; i++) nereid_free(k->race->device, k->arrays[i].at);
  race_close(&k->clock);
  nereid_module_free(k->module);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static bool compiled(const Track *k, const Candidate *c) {
  for (int s = c->first; s < c->first + c->count; s++)
    if (k->steps[s].status) return false;
  return true;
}

static nereid_status run_candidate(void *arg, int i, nereid_stream *s, nereid_error **error) {
  Track *k = arg;
  const Candidate *c = &k->race->at[i];
  if (!compiled(k, c)) return NEREID_UNSUPPORTED;
  nereid_status status = NEREID_OK;
  for (int n = 0; n < c->count && !status; n++)
    status = step_run(&k->steps[c->first + n], *k->race->plan->products.blas, s, error);
  return status;
}

static nereid_status run(void *arg, nereid_error **error) {
  Track *k = *(Track **)arg;
  nereid_status status = open_track(k, error);
  if (!status) status = race_rounds(&k->clock, k->race->n, k->race->time, run_candidate, k, error);
  close_track(k);
  return status;
}

nereid_status race_run(Race *r, nereid_error **error) {
  Track track = {.race = r}, *k = &track;
  r->plan->text = fuse_text(r->plan);
  return device_call(r->device, NULL, run, &k, sizeof k, error);
}
