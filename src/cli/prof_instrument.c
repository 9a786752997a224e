/* prof --instrument: where the time goes inside of one kernel, warp by warp.
 *
 *     nereid prof FILE.py[:KERNEL] ARG=SPEC ... --grid G --instrument [--blocks 0,5 | all] [--regions marked|auto|both]
 *       [--html F.html]
 *
 * The kernel's regions are recorded in one more launch (nereid_instrument_run); here they become a table, and files
 * with the timeline.
 */
#include "bench.h"

#include "base/json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BLOCKS = 4096 };

typedef struct Instrument {
  const Verb *verb;
  Plan plan; /* one launch, as bench takes it */
  const char *device, *trace, *chrome, *html, *title;
  int64_t blocks[MAX_BLOCKS];
  nereid_instrument_options options;
  bool json;
} Instrument;

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int wrong(const Instrument *p, const char *option, const char *value, const char *why) {
  return usage_error(p->verb, "%s %s: %s", option, value, why), -1;
}

static int blocks_option(Instrument *p, const char *text) {
  if (!strcmp(text, "all")) return p->options.all_blocks = true, 2;
  p->options.blocks = p->blocks;
  for (const char *at = text;;) {
    const char *end;
    int64_t v;
    if (!read_whole(at, 10, &end, &v) || v < 0 || (*end && *end != ','))
      return wrong(p, "--blocks", text, "give numbers of blocks with commas between, counted from 0, or all");
    if (p->options.block_count == MAX_BLOCKS) return wrong(p, "--blocks", text, "too many; give all");
    p->blocks[p->options.block_count++] = v;
    if (!*end) return 2;
    at = end + 1;
  }
}

static int regions_option(Instrument *p, const char *text) {
  static const struct {
    const char *name;
    nereid_instrument_regions regions;
  } names[] = {
      {"marked", NEREID_INSTRUMENT_MARKED}, {"auto", NEREID_INSTRUMENT_AUTOMATIC}, {"both", NEREID_INSTRUMENT_BOTH}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i].name, text)) return p->options.regions = names[i].regions, 2;
  return wrong(p, "--regions", text, "there are marked, auto and both");
}

/* How many words, 0 for none of ours, -1 for wrong. */
static int option(Instrument *p, int argc, char **argv) {
  const char *o = argv[0];
  if (!strcmp(o, "--instrument")) return 1;
  if (!strcmp(o, "--json")) return p->json = true, 1;
  const char **text = !strcmp(o, "--device")   ? &p->device
                      : !strcmp(o, "--trace")  ? &p->trace
                      : !strcmp(o, "--chrome") ? &p->chrome
                      : !strcmp(o, "--html")   ? &p->html
                      : !strcmp(o, "--title")  ? &p->title
                                               : NULL;
  int *n = !strcmp(o, "--records") ? &p->options.records : !strcmp(o, "--repeat") ? &p->options.trials : NULL;
  bool blocks = !strcmp(o, "--blocks"), regions = !strcmp(o, "--regions");
  if (!text && !n && !blocks && !regions) return 0;
  if (argc < 2) return usage_error(p->verb, "%s needs a value", o), -1;
  if (text) return *text = argv[1], 2;
  if (blocks) return blocks_option(p, argv[1]);
  if (regions) return regions_option(p, argv[1]);
  if (!read_count(argv[1], n == &p->options.trials ? 0 : 1, 100000000, n))
    return wrong(p, o, argv[1], "give a whole number");
  if (!*n) *n = -1; /* --repeat 0: the slowdown is not measured */
  return 2;
}

static int parse(Instrument *p, int argc, char **argv) {
  Words *words = &p->plan.segments[0].words;
  p->plan.segment_count = 1;
  for (int i = 1; i < argc;) {
    int took = option(p, argc - i, argv + i);
    if (took < 0) return 2;
    if (!took && !strcmp(argv[i], "--then"))
      return usage_error(p->verb, "--instrument looks into one launch; leave --then out");
    if (!took && !words->n && argv[i][0] == '-') took = option_of_others(p->verb, argc - i, argv + i);
    if (took < 0) return 2;
    if (!took && !words_add(words, argv[i])) return report_error(NULL);
    i += took ? took : 1;
  }
  return words->n
             ? 0
             : usage_error(p->verb, "which file? usage: nereid prof FILE[:KERNEL] ARG=SPEC ... --grid G --instrument");
}

/* ---- what is printed --------------------------------------------------------------------------------------------- */

static void put_time(double ns) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  int u = 0;
  while (ns >= 999.5 && u < 3) ns /= 1000, u++;
  printf("%.*f %s", ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0, ns, units[u]);
}

/* Cycles in whole numbers; a mean of few with a digit after. */
static void put_units(double v) { printf(" %10.*f", v < 100 && v != (double)(int64_t)v ? 1 : 0, v); }

static void print_table(const nereid_instrument *in, const nereid_instrument_info *i) {
  int width = 6;
  bool timed = i->ns_per_unit > 0 && strcmp(i->unit, "ns");
  for (int64_t k = 0; k < i->region_count; k++) {
    const nereid_instrument_region *r = nereid_instrument_region_at(in, k);
    int n = (int)strlen(r->name) + 2 * r->depth;
    if (n > width) width = n;
  }
  printf("%s on %s: %lld block%s, %d warp%s each; a warp takes %.0f %s", i->kernel, i->device, (long long)i->blocks,
         i->blocks == 1 ? "" : "s", i->warps, i->warps == 1 ? "" : "s", i->warp_mean, i->unit);
  if (timed) printf(" (%.3f ns each)", i->ns_per_unit);
  printf("\n%-*s %9s %10s %10s %10s", width, "region", "count", "mean", "min", "max");
  printf(timed ? " %10s %7s\n" : "%.0s %7s\n", "mean ns", "share");
  for (int64_t k = 0; k < i->region_count; k++) {
    const nereid_instrument_region *r = nereid_instrument_region_at(in, k);
    printf("%*s%-*s %9lld", 2 * r->depth, "", width - 2 * r->depth, r->name, (long long)r->count);
    put_units(r->mean), put_units(r->min), put_units(r->max);
    if (timed) printf(" %10.1f", r->mean * i->ns_per_unit);
    printf(" %6.1f%%\n", 100 * r->share);
  }
  if (!i->region_count) printf("(no region was met)\n");
  if (i->lost)
    printf("%lld of %lld records found no room%s; --records N makes more\n", (long long)i->lost,
           (long long)(i->lost + i->records), i->cut ? ", and what they would have ended is left out" : "");
  else if (i->cut) printf("%lld regions have no end and are left out\n", (long long)i->cut);
  if (i->plain_ns > 0) {
    printf("a launch takes ");
    put_time(i->plain_ns);
    printf(", with records ");
    put_time(i->instrument_ns);
    printf(" (%+.1f%%)\n", 100 * (i->instrument_ns / i->plain_ns - 1));
  }
}

static void put_region(JsonWriter *w, const nereid_instrument_region *r) {
  json_begin_object(w, NULL);
  json_put_text(w, "name", r->name);
  json_put_int(w, "line", r->line);
  json_put_bool(w, "automatic", r->automatic);
  json_put_int(w, "depth", r->depth);
  json_put_int(w, "count", r->count);
  json_put_real(w, "mean", 9, r->mean);
  json_put_real(w, "min", 9, r->min);
  json_put_real(w, "max", 9, r->max);
  json_put_real(w, "share", 6, r->share);
  json_end_object(w);
}

static void print_json(const nereid_instrument *in, const nereid_instrument_info *i) {
  JsonWriter w = {.file = stdout};
  json_begin_object(&w, NULL);
  json_put_text(&w, "kernel", i->kernel);
  json_put_text(&w, "device", i->device);
  json_put_text(&w, "unit", i->unit);
  json_put_real(&w, "ns_per_unit", 6, i->ns_per_unit);
  json_put_int(&w, "warps", i->warps);
  json_put_int(&w, "blocks", i->blocks);
  json_put_real(&w, "warp_mean", 9, i->warp_mean);
  json_put_real(&w, "warp_max", 9, i->warp_max);
  json_put_int(&w, "records", i->records);
  json_put_int(&w, "lost", i->lost);
  json_put_int(&w, "cut", i->cut);
  if (i->plain_ns > 0) {
    json_put_real(&w, "plain_ns", 9, i->plain_ns);
    json_put_real(&w, "instrument_ns", 9, i->instrument_ns);
  }
  json_begin_array(&w, "regions");
  for (int64_t k = 0; k < i->region_count; k++) put_region(&w, nereid_instrument_region_at(in, k));
  json_end_array(&w);
  json_end_object(&w);
  printf("\n");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int write_views(const Instrument *p, const char *trace) {
  nereid_error *err = NULL;
  const nereid_prof_view_options o = {.title = p->title};
  if (p->chrome && nereid_prof_view(trace, "chrome", p->chrome, &o, &err)) return report_error(err);
  if (p->html && nereid_prof_view(trace, "html", p->html, &o, &err)) return report_error(err);
  return 0;
}

static int write_files(const Instrument *p, const nereid_instrument *in) {
  if (!p->trace && !p->chrome && !p->html) return 0;
  TempFolder folder = {0};
  if (!p->trace && !temp_create(&folder, NULL)) {
    fprintf(stderr, "nereid prof: no temporary folder can be made: %s; TMPDIR names another place\n", strerror(errno));
    return 1;
  }
  char *path = p->trace ? format_string("%s", p->trace) : format_string("%s/regions.trace", folder.path);
  nereid_error *err = NULL;
  int status = !path || nereid_instrument_save(in, path, &err) ? report_error(err) : 0;
  if (!status) status = write_views(p, path);
  temp_remove(&folder);
  free(path);
  return status;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static int run_on(Instrument *p, nereid_device *d, const Case *c) {
  const Launch *l = &c->launches[0];
  const nereid_bench_launch *b = &c->bench[0];
  int status = 0;
  nereid_instrument *in = NULL;
  nereid_error *err = NULL;
  if (nereid_instrument_run(d, l->module, l->kernel->name, b->grid, b->args, b->arg_count, &l->options, &p->options,
                            &in, &err))
    status = report_error(err);
  if (!status) status = write_files(p, in);
  if (!status) {
    nereid_instrument_info info;
    nereid_instrument_get_info(in, &info);
    if (p->json) print_json(in, &info);
    else print_table(in, &info);
  }
  nereid_instrument_free(in);
  return status;
}

int prof_instrument(const Verb *v, int argc, char **argv) {
  Instrument *p = calloc(1, sizeof *p);
  Case *c = calloc(1, sizeof *c);
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  int status = p && c ? 0 : report_error(NULL);
  if (!status) p->verb = p->plan.verb = v, p->device = "cpu", status = parse(p, argc, argv);
  if (!status && nereid_device_open(p->device, &d, &err)) status = report_error(err);
  char *bytes = d ? format_string("bytes=%lld", (long long)nereid_bench_bytes(d)) : NULL;
  Words variables = {0};
  if (!status && (!bytes || !words_add(&variables, bytes))) status = report_error(NULL);
  if (!status) {
    status = case_open(c, d, &p->plan, 0, &variables);
    if (!status) status = run_on(p, d, c);
    case_close(c, d);
  }
  nereid_device_close(d);
  words_free(&variables);
  if (p) words_free(&p->plan.segments[0].words);
  free(bytes), free(p), free(c);
  return status;
}
