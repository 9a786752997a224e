/* bench_table: what `nereid bench` prints and saves, and how saved results are compared with new ones. */
#include "bench.h"
#include "base/json.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const nereid_times *row_times(const Row *r) { return r->result.device.count ? &r->result.device : &r->result.wall; }
static double bytes_of(const Row *r) {
  return r->counted ? (double)r->cost.load_distinct + (double)r->cost.store_distinct : 0;
}
double row_gbs(const Row *r) { return r->is_simulated ? 0 : bytes_of(r) / row_times(r)->median; } /* bytes a ns */
double row_tflops(const Row *r) {
  return r->counted && !r->is_simulated ? r->cost.flops / row_times(r)->median / 1e3 : 0;
}
/* Whether most trials of one took longer than most of the other: their ranges of 10% to 90% do not meet. */
static bool apart(const nereid_times *a, const nereid_times *b) { return a->p10 > b->p90 || a->p90 < b->p10; }
double row_intensity(const Row *r) { return bytes_of(r) > 0 ? r->cost.flops / bytes_of(r) : 0; }
double row_share(const Row *r) {
  const nereid_times *copy = r->result.device.count ? &r->copy.device : &r->copy.wall;
  return copy->count && r->copy_bytes ? row_gbs(r) / ((double)r->copy_bytes / copy->median) : 0;
}

double row_kernel_ns(const Row *r) { return r->result.graph.count ? r->result.graph.min : row_times(r)->min; }
double row_against_triton(const Row *r) {
  if (!r->has_triton) return 0;
  if (r->result.graph.count && r->triton.graph.count) return r->triton.graph.median / r->result.graph.median;
  const nereid_times *theirs = r->triton.device.count ? &r->triton.device : &r->triton.wall;
  return theirs->count ? theirs->median / row_times(r)->median : 0;
}
static bool is_wrong(const Row *r) {
  return r->verdict.state == VERDICT_DIFFERS || r->triton_verdict.state == VERDICT_DIFFERS;
}
bool table_is_wrong(const Table *t) {
  for (int i = 0; i < t->n; i++)
    if (is_wrong(&t->rows[i])) return true;
  return false;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* 123 ns -> "123 ns", 45678 ns -> "45.7 us": three digits. */
void put_row_time(char out[24], double ns) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  int u = 0;
  while (ns >= 999.5 && u < 3) ns /= 1000, u++;
  snprintf(out, 24, "%.*f %s", ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0, ns, units[u]);
}

static void put_number(char out[24], double v, const char *mark) {
  if (v <= 0) snprintf(out, 24, "-");
  else snprintf(out, 24, "%s%.*f", mark, v < 0.0995 ? 4 : v < 9.995 ? 2 : v < 999.5 ? 1 : 0, v);
}

static const Row *first_of_size(const Table *t, const Row *r) {
  for (int i = 0; i < t->n; i++)
    if (!strcmp(t->rows[i].size, r->size)) return &t->rows[i];
  return r;
}

static void print_remarks(const Table *t) {
  for (int i = 0; i < t->n; i++) {
    const Row *r = &t->rows[i];
    bool said = false;
    for (int k = 0; k < i && !said; k++)
      said = !strcmp(t->rows[k].label, r->label) && !strcmp(t->rows[k].cost.remarks, r->cost.remarks);
    if (said || !r->counted || r->cost.exact) continue;
    for (const char *p = r->cost.remarks; *p; p += strcspn(p, "\n"), p += *p == '\n')
      printf("~ %s: %.*s\n", r->label, (int)strcspn(p, "\n"), p);
  }
}

/* What was compared with what, in a line for all that agree, and one for each that does not. */
static void print_checks(const Table *t) {
  int agree = 0, most = 0;
  double worst = 0;
  const char *with = NULL;
  for (int i = 0; i < t->n; i++) {
    const Row *r = &t->rows[i];
    if (r->verdict.state == VERDICT_NONE) continue;
    if (r->verdict.state == VERDICT_AGREES) agree++, worst = fmax(worst, r->verdict.worst);
    with = r->checked_with, most++;
  }
  if (with && agree == most) printf("results: all agree with %s's (largest difference %.2g)\n", with, worst);
  else if (with) printf("results: %d of %d agree with %s's\n", agree, most, with);
  for (int i = 0; i < t->n; i++) {
    const Row *r = &t->rows[i];
    const char *at = *r->size ? " " : "";
    if (r->verdict.state == VERDICT_DIFFERS)
      print_in(stdout, COLOR_ERROR, "WRONG"), printf(" %s%s%s: %s\n", r->label, at, r->size, r->verdict.text);
    if (r->triton_verdict.state == VERDICT_DIFFERS)
      print_in(stdout, COLOR_ERROR, "WRONG"),
          printf(" %s%s%s: Triton's: %s\n", r->label, at, r->size, r->triton_verdict.text);
    if (r->triton_why) printf("no Triton for %s%s%s: %s\n", r->label, at, r->size, r->triton_why);
  }
  if (t->triton)
    printf("%s; vs Triton: its time by ours, above 1 when ours is faster, of both in graphs where ours is\n",
           t->triton);
}

/* "1.25x", above 1 faster than the other; "=" when the two do not differ beyond their spread. */
static void print_ratio(int width, double ratio, bool same) {
  Color c = same ? COLOR_SAME : ratio < 1 ? COLOR_BAD : ratio > 1 ? COLOR_GOOD : COLOR_OFF;
  printf("  %s%*.2fx%s%s", color(stdout, c), width - 2, ratio, same ? "=" : " ", color(stdout, COLOR_OFF));
}

/* Which columns there are, and how wide the first two. */
typedef struct Columns {
  int name, size;
  bool several, against, host, queued, graph, bounded, triton;
} Columns;

static Columns columns_of(const Table *t) {
  Columns c = {.name = 6, .against = t->compared, .triton = t->triton != NULL};
  for (int i = 0; i < t->n; i++) {
    const Row *r = &t->rows[i];
    if ((int)strlen(r->label) > c.name) c.name = (int)strlen(r->label);
    if ((int)strlen(r->size) > c.size) c.size = (int)strlen(r->size);
    c.several |= r->case_index > 0;
    c.host |= r->result.launch.count > 0;
    c.queued |= r->result.queued > 0;
    c.graph |= r->result.graph.count > 0;
    c.bounded |= r->bounded;
  }
  return c;
}

static void print_head(const Columns *c) {
  printf("%-*s", c->name, "kernel");
  if (c->size) printf("  %-*s", c->size, "size");
  printf("  %9s  %21s  %9s  %9s  %9s  %7s", "time", "10% .. 90%", "GB/s", "TFLOP/s", "flop/byte", "of copy");
  if (c->bounded) printf("  %-15s", "ceiling");
  if (c->several) printf("  %-7s", " speed");
  if (c->graph) printf("  %9s", "graph");
  if (c->triton) printf("  %9s  %-10s", "Triton", "vs Triton");
  if (c->host) printf("  %9s", "wall");
  if (c->host) printf("  %9s", "launch");
  if (c->queued) printf("  %9s", "queued");
  if (c->against) printf("  %7s  %9s  %21s", "against", "then", "10% .. 90%");
  printf("\n");
}

static void put_spread(char out[56], const nereid_times *x) {
  char low[24], high[24];
  put_row_time(low, x->p10);
  put_row_time(high, x->p90);
  snprintf(out, 56, "%s .. %s", low, high);
}

/* *equal: a ratio of two that do not differ has been printed. */
static void print_row(const Table *t, const Columns *c, const Row *r, bool *equal) {
  const nereid_times *x = row_times(r);
  char time[24], spread[56], gbs[24], tflops[24], intensity[24], share[24];
  const char *mark = r->cost.exact ? "" : "~";
  put_row_time(time, x->median);
  put_spread(spread, x);
  put_number(gbs, row_gbs(r), mark), put_number(tflops, row_tflops(r), mark),
      put_number(intensity, row_intensity(r), mark);
  if (row_share(r) > 0) snprintf(share, sizeof share, "%.0f%%", 100 * row_share(r));
  else snprintf(share, sizeof share, "-");
  printf("%-*s", c->name, r->label);
  if (c->size) printf("  %-*s", c->size, r->size);
  printf("  %9s  %21s  %9s  %9s  %9s  %7s", time, spread, gbs, tflops, intensity, share);
  if (c->bounded) {
    char ceiling[48] = "-";
    if (r->bounded) snprintf(ceiling, sizeof ceiling, "%s %.0f%%", r->bound.name, 100 * r->bound.share);
    printf("  %-15s", ceiling);
  }
  if (c->several) {
    const nereid_times *first = row_times(first_of_size(t, r));
    bool same = first != x && !apart(first, x);
    *equal |= same;
    print_ratio(7, first->median / x->median, same);
  }
  if (c->graph) put_row_time(time, r->result.graph.median), printf("  %9s", r->result.graph.count ? time : "-");
  if (c->triton) {
    const nereid_times *theirs = r->triton.device.count ? &r->triton.device : &r->triton.wall;
    bool same = r->has_triton && !(r->result.graph.count && r->triton.graph.count) && !apart(theirs, x);
    *equal |= same;
    if (r->has_triton) {
      put_row_time(time, theirs->median);
      printf("  %9s", time);
      print_ratio(10, row_against_triton(r), same);
    } else {
      printf("  %9s  %10s", "-", "- ");
    }
  }
  if (c->host) put_row_time(time, r->result.wall.median), printf("  %9s", time);
  if (c->host) put_row_time(time, r->result.launch.median), printf("  %9s", time);
  if (c->queued) put_row_time(time, r->result.queued), printf("  %9s", r->result.queued > 0 ? time : "-");
  if (c->against && r->before.count) {
    put_row_time(time, r->before.median);
    put_spread(spread, &r->before);
    bool same = !apart(&r->before, x);
    *equal |= same;
    print_ratio(7, r->before_ratio, same);
    printf("  %9s  %21s", time, spread);
  } else if (c->against) {
    printf("  %7s", "new");
  }
  if (is_wrong(r)) printf("  "), print_in(stdout, COLOR_ERROR, "WRONG");
  printf("\n");
}

static void print_foot(const Table *t) {
  const Row *last = t->n ? &t->rows[t->n - 1] : NULL;
  if (last && last->is_simulated)
    printf("times are those of the %s, which say nothing of a machine: no rates are given\n",
           !strncmp(t->device, "sim", 3) ? "simulator" : "interpreter");
  else if (last && last->copy_bytes) {
    const nereid_times *c = last->result.device.count ? &last->copy.device : &last->copy.wall;
    printf("copy: %.1f GB/s (%.0f MiB read, as much written), measured in turn with the kernels; times are medians of "
           "%d trials or more%s\n",
           (double)last->copy_bytes / c->median, (double)last->copy_bytes / 2 / (1 << 20), row_times(last)->count,
           t->cold ? ", caches emptied before each" : "");
  }
}

void table_print(const Table *t) {
  Columns c = columns_of(t);
  bool equal = false;
  if (t->title) printf("%s\n", t->title);
  print_head(&c);
  for (int i = 0; i < t->n; i++) print_row(t, &c, &t->rows[i], &equal);
  if (equal) printf("=: the two do not differ beyond their spread (10%% .. 90%% of the trials overlap)\n");
  print_foot(t);
  print_checks(t);
  print_remarks(t);
  fflush(stdout);
}

/* ---- JSON and CSV ------------------------------------------------------------------------------------------------ */

static void put_times(JsonWriter *w, const char *name, const nereid_times *t) {
  if (!t->count) return;
  json_begin_object(w, name);
  json_put_int(w, "trials", t->count);
  json_put_real(w, "median", 9, t->median);
  json_put_real(w, "mean", 9, t->mean);
  json_put_real(w, "min", 9, t->min);
  json_put_real(w, "max", 9, t->max);
  json_put_real(w, "deviation", 9, t->deviation);
  json_put_real(w, "p10", 9, t->p10);
  json_put_real(w, "p90", 9, t->p90);
  json_end_object(w);
}

static void put_verdict(JsonWriter *w, const char *name, const Verdict *v, const char *with) {
  if (v->state == VERDICT_NONE) return;
  json_begin_object(w, name);
  json_put_bool(w, "agrees", v->state == VERDICT_AGREES);
  json_put_text(w, "with", with);
  json_put_real(w, "largest_difference", 6, isfinite(v->worst) ? v->worst : 1e300);
  json_put_text(w, "text", v->text);
  json_end_object(w);
}

static void put_cost(JsonWriter *w, const nereid_cost *c) {
  json_put_real(w, "flops", 17, c->flops);
  json_put_int(w, "add", c->add);
  json_put_int(w, "mul", c->mul);
  json_put_int(w, "fma", c->fma);
  json_put_int(w, "div", c->div);
  json_put_int(w, "transcendental", c->transcendental);
  json_put_int(w, "dot", c->dot);
  json_put_int(w, "compare", c->compare);
  json_put_int(w, "integer", c->integer);
  json_put_int(w, "atomic", c->atomic);
  json_put_int(w, "load_bytes", c->load_bytes);
  json_put_int(w, "store_bytes", c->store_bytes);
  json_put_int(w, "load_distinct", c->load_distinct);
  json_put_int(w, "store_distinct", c->store_distinct);
  json_put_bool(w, "exact", c->exact);
  json_put_bool(w, "at_least", c->at_least);
  json_put_text(w, "remarks", c->remarks);
}

static void put_row(JsonWriter *w, const Row *r) {
  json_begin_object(w, NULL);
  json_put_text(w, "kernel", r->label);
  json_put_text(w, "size", r->size);
  put_times(w, "device_ns", &r->result.device);
  put_times(w, "wall_ns", &r->result.wall);
  put_times(w, "launch_ns", &r->result.launch);
  if (r->result.queued > 0) json_put_real(w, "queued_ns", 9, r->result.queued);
  put_times(w, "graph_ns", &r->result.graph);
  if (r->has_triton) put_times(w, "triton_ns", r->triton.device.count ? &r->triton.device : &r->triton.wall);
  if (r->triton.graph.count) json_put_real(w, "triton_graph_ns", 9, r->triton.graph.median);
  if (row_against_triton(r) > 0) json_put_real(w, "against_triton", 6, row_against_triton(r));
  if (r->triton_why) json_put_text(w, "no_triton", r->triton_why);
  put_verdict(w, "result", &r->verdict, r->checked_with);
  put_verdict(w, "triton_result", &r->triton_verdict, "Triton");
  if (r->bounded) {
    json_put_text(w, "bound", r->bound.name);
    json_put_real(w, "share_of_ceiling", 6, r->bound.share);
  }
  if (r->counted) {
    put_cost(w, &r->cost);
    json_put_real(w, "gb_per_s", 6, row_gbs(r));
    json_put_real(w, "tflop_per_s", 6, row_tflops(r));
    json_put_real(w, "flop_per_byte", 6, row_intensity(r));
  }
  if (r->copy_bytes) {
    json_put_real(w, "share_of_copy", 6, row_share(r));
    json_put_int(w, "copy_bytes", r->copy_bytes);
    put_times(w, "copy_ns", r->result.device.count ? &r->copy.device : &r->copy.wall);
  }
  if (r->before.count) {
    json_begin_object(w, "against");
    json_put_real(w, "ratio", 6, r->before_ratio);
    json_put_real(w, "median", 9, r->before.median);
    json_put_real(w, "p10", 9, r->before.p10);
    json_put_real(w, "p90", 9, r->before.p90);
    json_end_object(w);
  }
  json_end_object(w);
}

void table_json(FILE *out, const Table *tables, int n) {
  JsonWriter w = {.file = out};
  json_begin_object(&w, NULL);
  json_put_text(&w, "nereid", nereid_version());
  json_put_text(&w, "device", n ? tables[0].device : "");
  json_begin_array(&w, "tables");
  for (int i = 0; i < n; i++) {
    const Table *t = &tables[i];
    json_break(&w, "\n ");
    json_begin_object(&w, NULL);
    json_put_text(&w, "title", t->title ? t->title : "");
    json_put_bool(&w, "cold", t->cold);
    json_begin_array(&w, "rows");
    for (int k = 0; k < t->n; k++) {
      json_break(&w, "\n  ");
      put_row(&w, &t->rows[k]);
    }
    json_break(&w, "\n ");
    json_end_array(&w);
    json_end_object(&w);
  }
  json_break(&w, "\n");
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}

static void csv_text(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) fprintf(out, *s == '"' ? "\"\"" : "%c", *s);
  fputc('"', out);
}

void table_csv(FILE *out, const Table *t, bool header) {
  if (header)
    fprintf(out, "table,kernel,size,device,trials,median_ns,mean_ns,min_ns,max_ns,deviation_ns,p10_ns,p90_ns,wall_"
                 "median_ns,launch_median_ns,queued_ns,flops,bytes,"
                 "requested_bytes,exact,gb_per_s,tflop_per_s,flop_per_byte,share_of_copy,graph_ns,bound,share_of_"
                 "ceiling,agrees,triton_ns,against_triton\n");
  for (int i = 0; i < t->n; i++) {
    const Row *r = &t->rows[i];
    const nereid_times *x = row_times(r);
    csv_text(out, t->title ? t->title : ""), fputc(',', out), csv_text(out, r->label), fputc(',', out),
        csv_text(out, r->size), fputc(',', out), csv_text(out, t->device);
    fprintf(out, ",%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g", x->count, x->median, x->mean, x->min, x->max,
            x->deviation, x->p10, x->p90, r->result.wall.median);
    fprintf(out, r->result.launch.count ? ",%.9g" : ",", r->result.launch.median);
    fprintf(out, r->result.queued > 0 ? ",%.9g" : ",", r->result.queued);
    if (r->counted)
      fprintf(out, ",%.17g,%.17g,%.17g,%d,%.6g,%.6g,%.6g", r->cost.flops, bytes_of(r),
              (double)r->cost.load_bytes + (double)r->cost.store_bytes, r->cost.exact, row_gbs(r), row_tflops(r),
              row_intensity(r));
    else fprintf(out, ",,,,,,,");
    fprintf(out, row_share(r) > 0 ? ",%.6g" : ",", row_share(r));
    fprintf(out, r->result.graph.count ? ",%.9g" : ",", r->result.graph.median);
    fprintf(out, r->bounded ? ",%s,%.6g" : ",,", r->bound.name, r->bound.share);
    fprintf(out, ",%s", r->verdict.state == VERDICT_NONE ? "" : is_wrong(r) ? "no" : "yes");
    if (r->has_triton)
      fprintf(out, ",%.9g,%.6g\n", (r->triton.device.count ? &r->triton.device : &r->triton.wall)->median,
              row_against_triton(r));
    else fprintf(out, ",,\n");
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void compare_row(Row *r, const Table *t, const Json *tables) {
  for (const Json *table = tables->first; table; table = table->next) {
    const Json *rows = json_get(table, "rows");
    const Json *cold = json_get(table, "cold");
    if (strcmp(json_get_text(table, "title", ""), t->title ? t->title : "") || !cold || (cold->i != 0) != t->cold)
      continue;
    for (const Json *row = rows ? rows->first : NULL; row; row = row->next) {
      if (strcmp(json_get_text(row, "kernel", ""), r->label) || strcmp(json_get_text(row, "size", ""), r->size))
        continue;
      const Json *x = json_get(row, r->result.device.count ? "device_ns" : "wall_ns");
      if (!x || json_get_number(x, "median", 0) <= 0) continue;
      r->before = (nereid_times){.count = (int)json_get_number(x, "trials", 0),
                                 .median = json_get_number(x, "median", 0),
                                 .p10 = json_get_number(x, "p10", 0),
                                 .p90 = json_get_number(x, "p90", 0)};
      r->before_ratio = r->before.median / row_times(r)->median;
      return;
    }
  }
}

int table_compare(Table *tables, int n, const char *path) {
  static const int64_t most = 256 << 20;
  const char *why = NULL;
  char *text = read_text(path, most, &why);
  if (!text) return fprintf(stderr, "nereid bench: --against %s: cannot be read: %s\n", path, why), 1;
  Json *j = json_parse(text, &why);
  const Json *saved = j ? json_get(j, "tables") : NULL;
  int status = !saved || saved->kind != JSON_ARRAY;
  if (status)
    fprintf(stderr, "nereid bench: --against %s: %s; give a file that --save wrote\n", path,
            why ? why : "there are no results in it");
  for (int i = 0; i < n; i++) tables[i].compared = true;
  for (int i = 0; i < n && !status; i++)
    for (int k = 0; k < tables[i].n; k++) compare_row(&tables[i].rows[k], &tables[i], saved);
  if (!status && n && strcmp(json_get_text(j, "device", ""), tables[0].device))
    fprintf(stderr, "nereid bench: --against %s: it was measured on %s, this is %s\n", path,
            json_get_text(j, "device", "?"), tables[0].device);
  json_free(j);
  free(text);
  return status;
}
