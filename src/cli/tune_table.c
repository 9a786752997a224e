/* tune_table: what `nereid tune` prints and saves. */
#include "tune.h"
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

static int twins_of(const Search *s, int which) {
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
  int twins = twins_of(s, i);
  if (i == s->best) printf("  best");
  else if (r->state == NEREID_TUNE_DROPPED) printf("  dropped");
  else if (t->p10 <= best->p90) printf("  = best, within the spread");
  if (twins)
    printf("%s%d more with this code",
           i == s->best || r->state == NEREID_TUNE_DROPPED || t->p10 <= best->p90 ? "; " : "  ", twins);
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

static void json_config(FILE *out, const Search *s, int i) {
  const nereid_config *c = &s->configs[i];
  fprintf(out, "{");
  for (int k = 0; k < c->arg_count; k++) {
    json_string(out, c->args[k].name);
    fprintf(out, ":");
    json_string(out, c->args[k].text);
    fprintf(out, ",");
  }
  fprintf(out, "\"warps\":%d,\"stages\":%d,\"ctas\":%d}",
          s->results[i].info.num_warps ? s->results[i].info.num_warps : c->num_warps,
          s->results[i].info.num_stages ? s->results[i].info.num_stages : c->num_stages, c->num_ctas);
}

void search_json(FILE *out, const Search *s) {
  fprintf(out, "{\"nereid\":\"%s\",\"kernel\":", nereid_version());
  json_string(out, s->launch.kernel->name);
  fprintf(out, ",\"device\":");
  json_string(out, s->device);
  fprintf(out, ",\"seconds\":%.3f,\"interrupted\":%s,\"kept\":%s,\"best\":", s->seconds,
          s->interrupted ? "true" : "false", s->kept ? "true" : "false");
  if (s->best >= 0) json_config(out, s, s->best);
  else fprintf(out, "null");
  if (s->counted) fprintf(out, ",\"flops\":%.17g,\"bytes\":%.17g", s->cost.flops, bytes_of(s));
  if (s->all) {
    fprintf(out, ",\"exhaustive\":{\"best\":");
    json_config(out, s, s->all_best);
    fprintf(out, ",\"behind\":%.6g}", s->behind);
  }
  fprintf(out, ",\"results\":[\n");
  for (int i = 0; i < s->count; i++) {
    const nereid_tune_result *r = &s->results[i];
    fprintf(out, " {\"config\":");
    json_config(out, s, i);
    fprintf(out, ",\"state\":\"%s\"", state_names[r->state]);
    if (r->state == NEREID_TUNE_SAME) fprintf(out, ",\"same_as\":%d", r->same_as);
    if (*r->why) fprintf(out, ",\"why\":"), json_string(out, r->why);
    if (r->times.count)
      fprintf(out, ",\"trials\":%d,\"median_ns\":%.9g,\"p10_ns\":%.9g,\"p90_ns\":%.9g,\"min_ns\":%.9g", r->times.count,
              r->times.median, r->times.p10, r->times.p90, r->times.min);
    fprintf(out, ",\"grid\":[%lld,%lld,%lld],\"registers\":%d,\"spill_bytes\":%d,\"shared_bytes\":%d}%s\n",
            (long long)r->grid[0], (long long)r->grid[1], (long long)r->grid[2], r->info.registers, r->info.spill_bytes,
            r->info.shared_bytes, i + 1 < s->count ? "," : "");
  }
  fprintf(out, "]}\n");
}
