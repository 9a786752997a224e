/* Tuning: configurations compiled side by side, measured in turn, and dropped as soon as they are known to lose.
 *
 *     compile     on all processors; one that fails, or whose tiles no registers can hold, is out
 *     twins       the same code on the same grid is measured once (stages where nothing is pipelined, warps on a CPU)
 *     check       each runs once, and what it writes must be what the first wrote
 *     race        rounds of 3, 6, 12, 25, ... trials in all (twice as many by the host's clock, which hears of all that
 *                 the machine does); after each, out goes whose median is worse for certain, or by more than the
 *                 round's slack, or who is not among the best so many
 *
 * What disturbs a trial makes it longer, never shorter: who is worse is judged by the tenth percentile, and the winner
 * at the end by the median.
 *
 * Within a round the candidates take turns, forth and back (A B C C B A), so that all of them meet the same clocks. A
 * median of n trials lies, nineteen times of twenty, between the samples of rank n/2 - sqrt(n) and n/2 + sqrt(n): one
 * whose lower bound is above the leader's upper bound has lost for certain.
 */
#include <math.h>
#include <stdlib.h>

#include "measure/tune.h"

enum {
  USUAL_TRIALS = 100,
  EXHAUSTIVE_TRIALS = 30,
  FLUSH_BLOCK = 4096,
  FLUSH_BYTES = 256 << 20,
  REGISTER_BYTES = 4 * 255
};
static const double usual_budget = 60;

/* Rounds: up to how many trials, the slack, and how many go on at most. */
/* clang-format off */
static const struct { int trials; double slack; int left; } rounds[] = {{3, 1.6, 1000}, {6, 1.3, 64}, {12, 1.12, 24}, {25, 1.06, 10}, {50, 1.03, 5}, {100, 1.02, 3}};
/* clang-format on */
enum { ROUNDS = sizeof rounds / sizeof rounds[0] };

static const char flush_text[] = /* reads: what was written would have to leave the cache while the next is measured */
    "import triton\n"
    "import triton.language as tl\n"
    "\n"
    "@triton.jit\n"
    "def flush(x, BLOCK: tl.constexpr):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    s = tl.sum(tl.load(x + i), axis=0)\n"
    "    tl.store(x, s, mask=s == 12345)\n";

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* True: go on. */
static bool report_progress(Tuner *t, int done, int best) {
  if (clock_ns() > t->deadline) return false;
  const nereid_tune_options *o = t->options;
  if (!o->progress) return true;
  pthread_mutex_lock(&t->lock);
  nereid_tune_progress p = {.phase = t->phase,
                            .done = done,
                            .of = t->of,
                            .best = best,
                            .best_ns = best >= 0 ? t->at[best].result->times.median : 0,
                            .seconds = (double)(clock_ns() - t->started) / 1e9};
  for (int i = 0; i < t->count; i++) p.left += t->at[i].racing;
  if (!t->ended && !o->progress(o->progress_arg, &p)) t->ended = true;
  bool on = !t->ended;
  pthread_mutex_unlock(&t->lock);
  return on;
}

static void out_of_race(Candidate *c, nereid_tune_state state, const char *format, ...) PRINTF_LIKE(3, 4);
static void out_of_race(Candidate *c, nereid_tune_state state, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(c->result->why, sizeof c->result->why, format, ap);
  va_end(ap);
  c->result->state = state;
  c->racing = false;
}

static void failed(Candidate *c, nereid_error *why) {
  out_of_race(c, NEREID_TUNE_FAILED, "%s", why ? nereid_error_message(why) : "out of memory");
  nereid_error_free(why);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static void keep_line(void *arg, const char *line) { buf_puts(arg, line), buf_putc(arg, '\n'); }
static void drop_line(void *arg, const char *line) {}

static void prepare_launch(Tuner *t, Candidate *c) {
  nereid_error *why = NULL;
  Specialization *s = c->spec;
  c->slots = malloc(sizeof *c->slots * (size_t)(s->run.slot_count + 1));
  c->launch = (Launch){.kernel = &s->run, .options = &c->options, .args = c->slots};
  nereid_status status = c->slots ? call_pack(c->call, s, c->slots, &why) : NEREID_OUT_OF_MEMORY;
  if (!status) status = grid_find(c->call, s, t->grid, &c->options, c->result->grid, &why);
  if (!status) status = grid_check(c->result->grid, &c->options, c->launch.grid, &c->launch.total, &why);
  if (status) failed(c, why);
}

/* On a GPU: a block that no multiprocessor holds. */
static void check_fits(const Tuner *t, Candidate *c) {
  const nereid_function_info *i = &c->spec->info;
  const GpuTarget *target = t->device->cuda_sm ? gpu_target_for(t->device->cuda_sm) : NULL;
  nereid_occupancy o;
  if (!target || !i->registers ||
      nereid_occupancy_of(target->name, i->registers, i->shared_bytes, i->num_warps, &o, NULL) || o.blocks)
    return;
  out_of_race(c, NEREID_TUNE_SKIPPED,
              "no multiprocessor holds a block of it: %d registers in each of %d threads, %d bytes of shared memory",
              i->registers, 32 * i->num_warps, i->shared_bytes);
}

/* A candidate whose launch plan does not fit the call's arguments is compiled anew, with options like o. */
static void fit_plan(Tuner *t, Candidate *c, const Call *call, const nereid_options *o) {
  GpuPlanFit fit =
      c->racing ? launch_plan_fit(t->device, &c->spec->run, NULL, c->result->grid, c->slots) : GPU_PLAN_FITS;
  if (!fit) return;
  char text[WITHOUT_TEXT];
  const nereid_options plain = launch_plainer(o, fit, text);
  nereid_error *why = NULL;
  specialization_destroy(c->spec);
  free(c->slots);
  c->slots = NULL;
  c->spec =
      specialization_create_within(t->module, call, t->device, &plain, &(TileLimit){t->most_thread_bytes, false}, &why);
  if (!c->spec) {
    failed(c, why);
    return;
  }
  c->result->info = c->spec->info;
  prepare_launch(t, c);
  fit_plan(t, c, call, &plain); /* it lacks one thing more each time */
}

static void compile_some(void *arg, int64_t begin, int64_t end, int worker) {
  Tuner *t = arg;
  for (int64_t i = begin; i < end; i++) {
    Candidate *c = &t->at[t->order[i]];
    if (c->spec || c->result->state == NEREID_TUNE_FAILED) continue;
    if (!report_progress(t, t->count - atomic_load(&t->left), -1)) return;
    Call call = *c->call; /* the bound one may be the same for all */
    call.chosen = &c->chosen;
    nereid_error *why = NULL;
    c->options.print = keep_line, c->options.print_arg = &c->print;
    TileLimit limit = {t->most_thread_bytes, false};
    c->spec = specialization_create_within(t->module, &call, t->device, &c->options, &limit, &why);
    c->options.print = drop_line; /* what candidates say while they are measured */
    if (c->spec) c->result->info = c->spec->info, c->racing = true;
    else if (limit.exceeded)
      out_of_race(c, NEREID_TUNE_SKIPPED, "%s", nereid_error_message(why)), nereid_error_free(why);
    else failed(c, why);
    if (!c->spec && !report_progress(t, t->count - atomic_load(&t->left), -1)) { /* Ctrl-C ends compilers too */
      out_of_race(c, NEREID_TUNE_NOT_REACHED, "not reached");
      return;
    }
    if (c->spec) prepare_launch(t, c), fit_plan(t, c, &call, &c->options);
    if (c->racing) check_fits(t, c);
    atomic_fetch_sub(&t->left, 1);
  }
}

/* By stages first: configurations that differ in these alone are often the same code, which the later ones find made.
 */
static nereid_status order_compilations(Tuner *t, nereid_error **error) {
  t->order = malloc(sizeof *t->order * (size_t)t->count);
  if (!t->order) return error_out_of_memory(error);
  int n = 0;
  for (int stages = 0; n < t->count; stages++)
    for (int i = 0; i < t->count; i++)
      if (t->at[i].options.num_stages == stages) t->order[n++] = i;
  return NEREID_OK;
}

static nereid_status compile_all(Tuner *t, nereid_error **error) {
  nereid_status status = order_compilations(t, error);
  if (status) return status;
  Pool *pool = pool_create(t->options->threads);
  if (!pool) return error_out_of_memory(error);
  t->phase = "compiling", t->of = t->count;
  t->most_thread_bytes = t->device->cuda_sm && !t->options->exhaustive ? REGISTER_BYTES : 0;
  bool again = false;
  do {
    atomic_init(&t->left, t->count);
    pool_run(pool, t->count, 1, compile_some, t);
    again = t->most_thread_bytes != 0;
    for (int i = 0; i < t->count; i++) again &= !t->at[i].racing;
    t->most_thread_bytes = 0; /* when none is left: those that were skipped */
  } while (again);
  pool_destroy(pool);
  for (int i = 0; i < t->count; i++) {
    Candidate *c = &t->at[i];
    c->duplicate_of = -1;
    for (int k = 0; k < i && c->racing; k++) {
      const Candidate *o = &t->at[k];
      if (!o->racing || !o->spec->code_hash || o->spec->code_hash != c->spec->code_hash ||
          memcmp(o->launch.grid, c->launch.grid, sizeof o->launch.grid))
        continue;
      c->duplicate_of = k;
      out_of_race(c, NEREID_TUNE_SAME, "the same code as number %d", k + 1);
      c->result->same_as = k;
    }
  }
  return NEREID_OK;
}

/* ---- one trial --------------------------------------------------------------------------------------------------- */

static nereid_status flush_open(Tuner *t, nereid_error **error) {
  nereid_status status = nereid_module_load_string("flush.py", flush_text, &t->flush, error);
  if (!status) status = nereid_alloc(t->device, FLUSH_BYTES, &t->flush_memory, error);
  if (!status) status = nereid_fill_async(t->device, NULL, t->flush_memory, 0, FLUSH_BYTES, error);
  t->flush_args[0] = nereid_pointer(t->flush_memory, NEREID_I32), t->flush_args[1] = nereid_constexpr_int(FLUSH_BLOCK);
  const nereid_options plain = {.no_autotune = true};
  if (!status)
    status = nereid_compile(t->device, t->flush, "flush", t->flush_args, 2, &plain, &t->flush_function, error);
  return status;
}

static nereid_status launch_candidate(Tuner *t, Candidate *c, nereid_error **error) {
  return c->launch.total ? t->device->kind->launch(t->device, &c->launch, error) : NEREID_OK;
}

/* Nanoseconds. On a device that works while the host goes on, the launch waits behind what prepares it: its own cost
 * does not show. */
static nereid_status trial(Tuner *t, Candidate *c, double *ns, nereid_error **error) {
  nereid_device *d = t->device;
  static const int64_t flush_grid[3] = {FLUSH_BYTES / 4 / FLUSH_BLOCK, 1, 1};
  nereid_status status = arrays_prepare(&t->arrays, error);
  if (!status && c->spec->zeroed_count) status = autotune_zero(d, NULL, c->call, c->spec, error);
  if (!status && t->flush_function) status = nereid_run(t->flush_function, NULL, flush_grid, t->flush_args, 2, error);
  if (!status && !t->flush_function) status = nereid_synchronize(d, error);
  if (!status && t->start) status = nereid_event_record(t->start, NULL, error);
  int64_t begin = clock_ns();
  if (!status) status = launch_candidate(t, c, error);
  if (!status && t->end) status = nereid_event_record(t->end, NULL, error);
  if (!status) status = nereid_synchronize(d, error);
  *ns = (double)(clock_ns() - begin);
  double ms;
  if (!status && t->end) {
    status = nereid_event_elapsed(t->start, t->end, &ms, error);
    *ns = ms * 1e6;
  }
  if (!status && t->options->measure) *ns = t->options->measure(t->options->measure_arg, (int)(c - t->at), c->count);
  return status;
}

static bool take_sample(Tuner *t, Candidate *c) {
  nereid_error *why = NULL;
  double ns;
  if (trial(t, c, &ns, &why)) return failed(c, why), false;
  c->samples[c->count++] = ns;
  return true;
}

static void tally(Candidate *c) {
  double copy[USUAL_TRIALS * 10];
  memcpy(copy, c->samples, sizeof *copy * (size_t)c->count);
  c->result->times = nereid_times_of(copy, c->count);
}

static int leader(const Tuner *t) {
  int best = -1;
  for (int i = 0; i < t->count; i++)
    if (t->at[i].racing && t->at[i].count &&
        (best < 0 || t->at[i].result->times.median < t->at[best].result->times.median))
      best = i;
  return best;
}

/* ---- the check, and a first impression --------------------------------------------------------------------------- */

static bool check_one(Tuner *t, Candidate *c, bool first, nereid_error **error) {
  nereid_error *why = NULL;
  double ns;
  nereid_status status = trial(t, c, &ns, &why);
  if (status) return failed(c, why), true;
  if (!t->checks) return true;
  char differs[sizeof c->result->why] = "";
  if (first) status = arrays_expect(&t->arrays, error);
  else status = arrays_compare(&t->arrays, c->call, differs, sizeof differs, error);
  if (*differs) out_of_race(c, NEREID_TUNE_WRONG, "%s", differs);
  return !status;
}

/* Each once: compiled code is loaded, the caches of addresses are filled. False: it cannot go on. */
static bool check_all(Tuner *t, nereid_error **error) {
  bool first = true;
  int racing = 0, done = 0;
  for (int i = 0; i < t->count; i++) racing += t->at[i].racing;
  t->phase = "checking", t->of = racing;
  for (int i = 0; i < t->count; i++) {
    Candidate *c = &t->at[i];
    if (!c->racing) continue;
    if (!report_progress(t, done++, -1)) {
      for (; i < t->count; i++)
        if (t->at[i].racing) out_of_race(&t->at[i], NEREID_TUNE_NOT_REACHED, "not reached");
      return true;
    }
    if (!check_one(t, c, first, error)) return false;
    if (c->racing) first = false;
  }
  return true;
}

/* ---- the race ---------------------------------------------------------------------------------------------------- */

/* Bounds of the median of the sorted samples, nineteen times of twenty. */
static void bounds(const Candidate *c, double *low, double *high) {
  double sorted[USUAL_TRIALS * 10];
  int n = c->count, off = (int)floor(n / 2.0 - sqrt(n));
  memcpy(sorted, c->samples, sizeof *sorted * (size_t)n);
  nereid_times_of(sorted, n);
  if (off < 0) off = 0;
  *low = sorted[off], *high = sorted[n - 1 - off];
}

static int rank_of(const Tuner *t, int which) {
  int rank = 0;
  for (int i = 0; i < t->count; i++)
    rank += t->at[i].racing && t->at[i].result->times.p10 < t->at[which].result->times.p10;
  return rank;
}

static nereid_status drop_losers(Tuner *t, int best, double slack, int left, nereid_error **error) {
  double low, high, best_low, best_high, median = t->at[best].result->times.median,
                                         least = t->at[best].result->times.p10;
  bool *drop = calloc((size_t)t->count, sizeof *drop);
  if (!drop) return error_out_of_memory(error);
  bounds(&t->at[best], &best_low, &best_high);
  for (int i = 0; i < t->count; i++)
    if (t->at[i].racing && t->at[i].result->times.p10 < least) least = t->at[i].result->times.p10;
  for (int i = 0; i < t->count; i++) {
    const Candidate *c = &t->at[i];
    if (!c->racing || i == best) continue;
    bounds(c, &low, &high);
    bool certain = low > best_high && c->result->times.median > 1.01 * median;
    drop[i] = certain || c->result->times.p10 > slack * least || rank_of(t, i) >= left;
  }
  for (int i = 0; i < t->count; i++)
    if (drop[i]) out_of_race(&t->at[i], NEREID_TUNE_DROPPED, "dropped after %d trials", t->at[i].count);
  free(drop);
  return NEREID_OK;
}

/* All that race up to so many trials each. False: time is up, or the caller ends it. */
static bool trials_up_to(Tuner *t, int trials) {
  for (int done = 0;; done++) {
    bool any = false, forth = done % 2 == 0;
    for (int k = 0; k < t->count; k++) {
      Candidate *c = &t->at[forth ? k : t->count - 1 - k];
      if (!c->racing || c->count >= trials) continue;
      any = true;
      if (take_sample(t, c)) tally(c);
      if (!report_progress(t, c->count, leader(t))) return false;
    }
    if (!any) return true;
  }
}

static nereid_status race(Tuner *t, nereid_error **error) {
  t->phase = "measuring";
  for (int r = 0; r < ROUNDS; r++) {
    int trials = rounds[r].trials * (t->device->kind->async ? 1 : 2), racing = 0;
    if (t->options->exhaustive || trials > t->most) trials = t->most;
    t->of = trials;
    bool on = trials_up_to(t, trials);
    int best = leader(t);
    if (!on || best < 0 || trials == t->most) break;
    nereid_status status = drop_losers(t, best, rounds[r].slack, rounds[r].left, error);
    if (status) return status;
    for (int i = 0; i < t->count; i++) racing += t->at[i].racing;
    if (racing < 2) break;
  }
  return NEREID_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool among(const TuneArray *x, uint64_t params) { return params >> (x->param < 63 ? x->param : 63) & 1; }
static bool overlap(const TuneArray *x, const TuneArray *y) {
  return (uintptr_t)x->at < (uintptr_t)y->at + (uint64_t)y->bytes &&
         (uintptr_t)y->at < (uintptr_t)x->at + (uint64_t)x->bytes;
}

/* What the kernel writes and reads, by whichever parameter, of all candidates together. */
static void guard_arrays(Tuner *t) {
  uint64_t read = 0, written = 0;
  for (int i = 0; i < t->count; i++)
    if (t->at[i].spec) read |= t->at[i].spec->reads, written |= t->at[i].spec->writes;
  for (int i = 0; i < t->arrays.count; i++) {
    TuneArray *x = &t->arrays.at[i];
    x->compared &= among(x, written);
    for (int k = 0; k < t->arrays.count && among(x, written) && !x->resets; k++)
      x->restores |= among(&t->arrays.at[k], read) && overlap(x, &t->arrays.at[k]);
  }
}

/* Whether all that can be launched are launches of nothing: each would win. */
static bool runs_nothing(const Tuner *t) {
  int racing = 0;
  for (int i = 0; i < t->count; i++) {
    const Candidate *c = &t->at[i];
    if (c->racing && c->launch.total) return false;
    racing += c->racing;
  }
  return racing > 0;
}

static nereid_status none_left(const Tuner *t, nereid_error **error) {
  for (int i = 0; i < t->count; i++)
    if (t->at[i].result->state == NEREID_TUNE_FAILED)
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "none of %d configuration%s could be measured; number %d: %s",
                       t->count, t->count == 1 ? "" : "s", i + 1, t->at[i].result->why);
  return error_set(error, NEREID_BAD_ARGUMENT, t->ended ? NULL : "allow more time",
                   "none of %d configuration%s was measured%s", t->count, t->count == 1 ? "" : "s",
                   t->ended ? ": tuning was ended" : " within the time");
}

static nereid_status open_clock(Tuner *t, nereid_error **error) {
  nereid_device *d = t->device;
  int caches = t->options->caches;
  bool cold = caches == NEREID_CACHES_COLD || (caches == NEREID_CACHES_USUAL && d->kind->async);
  nereid_status status = NEREID_OK;
  if (d->kind->async) status = nereid_event_create(d, &t->start, error);
  if (!status && d->kind->async) status = nereid_event_create(d, &t->end, error);
  if (status || !cold || t->options->measure) return status;
  nereid_error *why = NULL;
  status = flush_open(t, &why);
  /* nobody asked for it: a launch must not fail for it */
  if (status == NEREID_OUT_OF_MEMORY && caches == NEREID_CACHES_USUAL) status = NEREID_OK;
  else if (status && error) *error = why, why = NULL;
  nereid_error_free(why);
  return status;
}

/* Skipped ones come in after all when nothing else is left. */
static void finish(Tuner *t) {
  for (int i = 0; i < t->count; i++) {
    Candidate *c = &t->at[i];
    nereid_tune_result *r = c->result;
    if (c->racing) r->state = c->count ? NEREID_TUNE_MEASURED : NEREID_TUNE_NOT_REACHED;
    if (r->state == NEREID_TUNE_NOT_REACHED && !*r->why) snprintf(r->why, sizeof r->why, "not reached");
  }
  for (int i = 0; i < t->count; i++)
    if (t->at[i].duplicate_of >= 0) t->at[i].result->times = t->at[t->at[i].duplicate_of].result->times;
}

nereid_status tuner_run(Tuner *t, int *best, nereid_error **error) {
  const nereid_tune_options *o = t->options;
  *best = -1;
  t->started = clock_ns();
  t->deadline = t->started + (int64_t)((o->budget_s > 0 ? o->budget_s : usual_budget) * 1e9);
  t->most = o->repeat > 0 ? o->repeat : o->exhaustive ? EXHAUSTIVE_TRIALS : USUAL_TRIALS;
  if (t->most > USUAL_TRIALS * 10) t->most = USUAL_TRIALS * 10;
  for (int i = 0; i < t->count; i++) {
    t->at[i].result->state = NEREID_TUNE_NOT_REACHED;
    t->at[i].samples = malloc(sizeof(double) * (size_t)t->most);
    if (!t->at[i].samples) return error_out_of_memory(error);
  }
  nereid_status status = compile_all(t, error);
  if (!status && runs_nothing(t))
    status =
        error_set(error, t->no_programs, "give a grid with programs", "the grid is empty: there is nothing to measure");
  guard_arrays(t);
  if (!status) status = open_clock(t, error);
  if (!status) status = arrays_save(&t->arrays, error);
  if (!status && !check_all(t, error)) status = error && *error ? nereid_error_status(*error) : NEREID_OUT_OF_MEMORY;
  if (!status) status = race(t, error);
  *best = status ? -1 : leader(t);
  if (!status && *best < 0) status = none_left(t, error);
  if (t->arrays.at) {
    nereid_error *unused = NULL; /* what went wrong before says more */
    nereid_status last = arrays_prepare(&t->arrays, status ? &unused : error);
    if (!last) last = nereid_synchronize(t->device, status ? &unused : error);
    if (!status) status = last;
    else nereid_error_free(unused);
  }
  finish(t);
  return status;
}

void tuner_close(Tuner *t) {
  for (int i = 0; i < t->count; i++) {
    Candidate *c = &t->at[i];
    specialization_destroy(c->spec);
    free(c->samples);
    free(c->slots);
    buf_destroy(&c->print);
  }
  free(t->order);
  nereid_function_free(t->flush_function);
  nereid_module_free(t->flush);
  if (t->flush_memory) nereid_free(t->device, t->flush_memory);
  nereid_event_destroy(t->start), nereid_event_destroy(t->end);
  arrays_close(&t->arrays);
  pthread_mutex_destroy(&t->lock);
}

/* ---- zeroing, for pre_hook --------------------------------------------------------------------------------------- */

nereid_status autotune_zero(nereid_device *d, void *stream, const Call *c, const Specialization *s,
                            nereid_error **error) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < s->zeroed_count && !status; i++) {
    const nereid_arg *a = c->args[s->zeroed[i]];
    int64_t bytes = a ? array_bytes(d, a) : 0;
    if (!a || !a->pointer) continue;
    if (bytes < 1) return array_unknown(c, s->zeroed[i], "the configuration's pre_hook zeroes", error);
    if (!stream) status = nereid_fill_async(d, NULL, a->pointer, 0, bytes, error);
    else if (d->kind->async) status = d->kind->async->fill(d, stream, a->pointer, 0, bytes, error);
    else status = graph_record_fill(stream, a->pointer, 0, bytes, error);
  }
  return status;
}
