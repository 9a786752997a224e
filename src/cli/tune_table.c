/* tune_table: what `nereid tune` prints and saves. */
#include "tune.h"

#include "base/json.h"
#include <stdlib.h>
#include <string.h>

static void time_text(char out[24], double ns) { /* three digits */
  static const char *const units[] = {"ns", "us", "ms", "s"};
  int u = 0;
  while (ns >= 999.5 && u < 3) ns /= 1000, u++;
  snprintf(out, 24, "%.*f %s", ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0, ns, units[u]);
}

static double bytes_of(const Search *s) { return (double)s->cost.load_distinct + (double)s->cost.store_distinct; }

static const nereid_tune_result *sorting; /* qsort has no argument; the CLI searches once a process */
static int by_time(const void *a, const void *b) {
  const nereid_tune_result *x = &sorting[*(const int *)a], *y = &sorting[*(const int *)b];
  if ((x->times.count != 0) != (y->times.count != 0)) return x->times.count ? -1 : 1;
  if (x->state != y->state && (x->state == NEREID_TUNE_MEASURED || y->state == NEREID_TUNE_MEASURED))
    return x->state == NEREID_TUNE_MEASURED ? -1 : 1;
  return (x->times.median > y->times.median) - (x->times.median < y->times.median);
}

static int *sorted(const nereid_tune_result *results, int n) {
  int *order = malloc(sizeof *order * (size_t)n);
  for (int i = 0; order && i < n; i++) order[i] = i;
  sorting = results;
  if (order) qsort(order, (size_t)n, sizeof *order, by_time);
  return order;
}

static bool is_row(const nereid_tune_result *r) {
  return r->times.count && r->state != NEREID_TUNE_SAME && r->state != NEREID_TUNE_WRONG &&
         r->state != NEREID_TUNE_FAILED;
}

static int duplicates_of(const Search *s, int which) {
  int n = 0;
  for (int i = 0; i < s->count; i++) n += s->results[i].state == NEREID_TUNE_SAME && s->results[i].same_as == which;
  return n;
}

static void print_row(const Search *s, int i, int width, bool gpu) {
  const nereid_tune_result *r = &s->results[i];
  const nereid_times *t = &r->times, *best = &s->results[s->best].times;
  char time[24], low[24], high[24], spread[56];
  time_text(time, t->median), time_text(low, t->p10), time_text(high, t->p90);
  snprintf(spread, sizeof spread, "%s .. %s", low, high);
  printf("%-*s  %9s  %21s  %6d", width, s->labels[i], time, spread, t->count);
  if (s->counted) printf("  %8.1f  %8.3f", bytes_of(s) / t->median, s->cost.flops / t->median / 1e3);
  if (gpu) printf("  %9d  %6d  %6d", r->info.registers, r->info.spill_bytes, r->info.shared_bytes);
  printf("  %5.1f%%", 100 * best->median / t->median);
  int duplicates = duplicates_of(s, i);
  if (i == s->best) printf("  "), print_in(stdout, COLOR_GOOD, "best");
  else if (r->state == NEREID_TUNE_DROPPED) printf("  dropped");
  else if (t->p10 <= best->p90) printf("  "), print_in(stdout, COLOR_SAME, "= best, within the spread");
  if (duplicates)
    printf("%s%d more with this code",
           i == s->best || r->state == NEREID_TUNE_DROPPED || t->p10 <= best->p90 ? "; " : "  ", duplicates);
  printf("\n");
}

/* "skipped, 12: why" and the configurations, for each reason. */
static void print_others(const Search *s, nereid_tune_state state, const char *what) {
  for (int i = 0; i < s->count; i++) {
    const nereid_tune_result *r = &s->results[i];
    if (r->state != state || (state == NEREID_TUNE_NOT_REACHED && r->times.count)) continue;
    bool said = false;
    int n = 0, shown = 0;
    for (int k = 0; k < s->count; k++) {
      if (s->results[k].state != state || strcmp(s->results[k].why, r->why)) continue;
      said |= k < i, n++;
    }
    if (said) continue;
    if (strcmp(what, r->why)) printf("%s, %d: %s\n", what, n, r->why);
    else printf("%s, %d\n", what, n);
    for (int k = i; k < s->count && state != NEREID_TUNE_NOT_REACHED; k++) {
      if (s->results[k].state != state || strcmp(s->results[k].why, r->why)) continue;
      if (shown++ < 4) printf("    %s\n", s->labels[k]);
    }
    if (shown > 4) printf("    and %d more\n", shown - 4);
  }
}

void search_table(const Search *s) {
  int width = 13, *order = sorted(s->results, s->count);
  bool gpu = false;
  for (int i = 0; i < s->count; i++) {
    if (is_row(&s->results[i]) && (int)strlen(s->labels[i]) > width) width = (int)strlen(s->labels[i]);
    gpu |= s->results[i].info.registers > 0;
  }
  if (s->best >= 0 && order) {
    printf("%-*s  %9s  %21s  %6s", width, "configuration", "time", "10% .. 90%", "trials");
    if (s->counted) printf("  %8s  %8s", "GB/s", "TFLOP/s");
    if (gpu) printf("  %9s  %6s  %6s", "registers", "spills", "shared");
    printf("  %6s\n", "best /");
    for (int i = 0; i < s->count; i++)
      if (is_row(&s->results[order[i]])) print_row(s, order[i], width, gpu);
  }
  print_others(s, NEREID_TUNE_WRONG, "WRONG RESULTS");
  print_others(s, NEREID_TUNE_FAILED, "failed");
  print_others(s, NEREID_TUNE_SKIPPED, "skipped");
  print_others(s, NEREID_TUNE_NOT_REACHED, "not reached");
  free(order);
  if (s->best < 0) printf("no configuration was measured\n");
  else {
    printf("%s%s on %s: %s, of %d configurations in %.1f s\n", s->interrupted ? "interrupted; the best so far of " : "",
           s->launch.kernel->name, s->device, s->labels[s->best], s->count, s->seconds);
    if (s->kept) printf("kept: launches of this kernel that leave it open take it from now on\n");
    else if (s->interrupted) printf("not kept\n");
  }
  if (s->all)
    printf("all %d measured in full: best is %s; the winner is %.2f%% behind it, measured in turn\n", s->count,
           s->labels[s->all_best], 100 * s->behind);
  fflush(stdout);
}

static const char *const state_names[] = {"not reached", "measured", "dropped", "same", "skipped", "failed", "wrong"};

static void put_config(JsonWriter *w, const char *key, const Search *s, int i) {
  const nereid_config *c = &s->configs[i];
  const nereid_tune_result *r = &s->results[i];
  json_begin_object(w, key);
  for (int k = 0; k < c->arg_count; k++) json_put_text(w, c->args[k].name, c->args[k].text);
  json_put_int(w, "warps", r->info.num_warps ? r->info.num_warps : c->num_warps);
  json_put_int(w, "stages", r->info.num_stages ? r->info.num_stages : c->num_stages);
  json_put_int(w, "ctas", c->num_ctas);
  json_end_object(w);
}

static void put_result(JsonWriter *w, const Search *s, int i) {
  const nereid_tune_result *r = &s->results[i];
  json_begin_object(w, NULL);
  put_config(w, "config", s, i);
  json_put_text(w, "state", state_names[r->state]);
  if (r->state == NEREID_TUNE_SAME) json_put_int(w, "same_as", r->same_as);
  if (*r->why) json_put_text(w, "why", r->why);
  if (r->times.count) {
    json_put_int(w, "trials", r->times.count);
    json_put_real(w, "median_ns", 9, r->times.median);
    json_put_real(w, "p10_ns", 9, r->times.p10);
    json_put_real(w, "p90_ns", 9, r->times.p90);
    json_put_real(w, "min_ns", 9, r->times.min);
  }
  json_put_ints(w, "grid", r->grid, 3);
  json_put_int(w, "registers", r->info.registers);
  json_put_int(w, "spill_bytes", r->info.spill_bytes);
  json_put_int(w, "shared_bytes", r->info.shared_bytes);
  json_end_object(w);
}

void search_json(FILE *out, const Search *s) {
  JsonWriter w = {.file = out};
  json_begin_object(&w, NULL);
  json_put_text(&w, "nereid", nereid_version());
  json_put_text(&w, "kernel", s->launch.kernel->name);
  json_put_text(&w, "device", s->device);
  json_put_fixed(&w, "seconds", 3, s->seconds);
  json_put_bool(&w, "interrupted", s->interrupted);
  json_put_bool(&w, "kept", s->kept);
  if (s->best >= 0) put_config(&w, "best", s, s->best);
  else json_put_null(&w, "best");
  if (s->counted) {
    json_put_real(&w, "flops", 17, s->cost.flops);
    json_put_real(&w, "bytes", 17, bytes_of(s));
  }
  if (s->all) {
    json_begin_object(&w, "exhaustive");
    put_config(&w, "best", s, s->all_best);
    json_put_real(&w, "behind", 6, s->behind);
    json_end_object(&w);
  }
  json_begin_array(&w, "results");
  for (int i = 0; i < s->count; i++) {
    json_break(&w, "\n ");
    put_result(&w, s, i);
  }
  json_break(&w, "\n");
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}
