/* A report as text for people, and as one JSON object with the names of nereid_report. */
#include "base/json.h"
#include "measure/report.h"

#include <stdlib.h>

static double per(int64_t n, int64_t of) { return of ? (double)n / (double)of : 0; }

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void put_head(Buf *b, const nereid_report *p) {
  const nereid_occupancy *o = &p->occupancy;
  buf_printf(b, "%s for %s: %d warp%s of 32 threads a block", p->kernel, p->target, p->num_warps, plural(p->num_warps));
  if (p->programs) buf_printf(b, ", %lld program%s", (long long)p->programs, plural(p->programs));
  if (p->grid[1] > 1 || p->grid[2] > 1)
    buf_printf(b, " (%lld, %lld, %lld)", (long long)p->grid[0], (long long)p->grid[1], (long long)p->grid[2]);
  if (p->registers) buf_printf(b, "\nregisters     %d a thread, ", p->registers);
  else buf_puts(b, "\nregisters     not known: no ptxas was found");
  if (p->registers && p->spill_bytes) buf_printf(b, "%d bytes of spill stores and loads", p->spill_bytes);
  else if (p->registers) buf_puts(b, "nothing spilled");
  buf_printf(b, "\nshared memory %d bytes a block\n", p->shared_bytes);
  for (int i = 0; i < p->ring_count; i++)
    buf_printf(b, "%s of %d slots of %d bytes", i ? ", ring" : "copies        ring", p->rings[i].slots,
               p->rings[i].slot_bytes);
  if (p->ring_count) buf_printf(b, "; %d bytes in flight at most\n", p->bytes_in_flight);
  buf_printf(b,
             "occupancy     %.0f%%: %d block%s, %d of %d warps a multiprocessor, limited by %s (blocks by registers ",
             100 * o->occupancy, o->blocks, plural(o->blocks), o->warps, o->max_warps, o->limit);
  if (p->registers) buf_printf(b, "%d", o->by_registers);
  else buf_puts(b, "?");
  buf_printf(b, ", shared memory %d, warps %d, slots %d)\n", o->by_shared, o->by_warps, o->by_blocks);
  if (!p->programs) return;
  buf_printf(b, "waves         %.2f on %d multiprocessors (%s); the last one's empty places cost %.1f%%\n", p->waves,
             p->multiprocessors, p->machine, 100 * p->tail_waste);
}

static void put_line_end(Buf *b, const char *remarks, const char *text) {
  buf_printf(b, "%-15s %.*s", remarks, 80, text);
  while (b->n && b->at[b->n - 1] == ' ') b->at[--b->n] = 0;
  buf_putc(b, '\n');
}

static void put_accesses(Buf *b, const nereid_report *p, bool shared) {
  int n = 0;
  for (int i = 0; i < p->access_count; i++) {
    const nereid_report_access *a = &p->accesses[i];
    if (a->shared != shared) continue;
    if (!n++ && shared)
      buf_puts(b,
               "shared memory:\n  line  access  bytes  places    requests  passes/request  ideal   conflicts  for\n");
    else if (n == 1)
      buf_puts(b, "global memory:\n  line  access  bytes  places    requests  sectors/request  ideal  threads/request  "
                  "remarks\n");
    int64_t did = shared ? a->wavefronts : a->sectors, ideal = shared ? a->ideal_wavefronts : a->ideal_sectors;
    char remarks[64];
    snprintf(remarks, sizeof remarks, "%s%s%s", a->masked && !shared ? "masked " : "", a->in_loop ? "loop " : "",
             a->known ? "" : "data");
    if (a->line) buf_printf(b, "  %4d", a->line);
    else buf_puts(b, "     -");
    buf_printf(b, "  %-6s  %5d  %6d  %10lld", a->what, a->bytes, a->count, (long long)a->requests);
    if (shared) {
      buf_printf(b, "  %14.2f  %5.2f  %10lld  ", per(did, a->requests), per(ideal, a->requests),
                 (long long)(did - ideal));
      snprintf(remarks, sizeof remarks, "%s%s", a->buffer, a->known ? "" : " (data)");
    } else {
      buf_printf(b, "  %15.2f  %5.2f  %15.1f  ", per(did, a->requests), per(ideal, a->requests),
                 per(a->lanes, a->requests));
    }
    put_line_end(b, remarks, a->text);
  }
  if (!n && !shared) buf_puts(b, "global memory: not touched\n");
}

static void put_mix(Buf *b, const nereid_report *p) {
  buf_printf(b, "instructions of warps, estimated from the lane IR: %lld, with %.1f of 32 threads",
             (long long)p->warp_instructions, p->active_lanes);
  if (p->divergent) buf_printf(b, "; %lld times the threads of a warp part", (long long)p->divergent);
  buf_putc(b, '\n');
  for (int i = 0; i < p->class_count; i++)
    buf_printf(b, "  %-26s %12lld %5.1f%%\n", p->classes[i].name, (long long)p->classes[i].warps,
               100 * per(p->classes[i].warps, p->warp_instructions));
}

static void put_duration(Buf *b, double ns) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  int u = 0;
  while (ns >= 999.5 && u < 3) ns /= 1000, u++;
  buf_printf(b, "%8.3g %s", ns, units[u]);
}

static void put_bounds(Buf *b, const nereid_report *p) {
  const nereid_cost *c = &p->cost;
  buf_printf(b, "work          %.4g floating-point operations, %.4g MB that must be moved: %.3g flop/byte%s\n",
             c->flops, ((double)p->load_bytes + (double)p->store_bytes) / 1e6, p->intensity,
             c->exact ? "" : " (about: see nereid bench)");
  buf_printf(b, "bound         %s, at %.0f MHz: at least\n", p->bound, p->clock_mhz);
  for (int i = 0; i < p->time_count; i++) {
    buf_printf(b, "  %-22s", p->times[i].bound);
    put_duration(b, p->times[i].ns);
    buf_printf(b, "%*s%s\n", 5, "", p->times[i].why);
  }
}

static void put_text(Buf *b, const nereid_report *p) {
  put_head(b, p);
  if (!p->counted) return;
  put_bounds(b, p);
  put_accesses(b, p, false);
  put_accesses(b, p, true);
  put_mix(b, p);
  if (*p->remarks) buf_puts(b, "remarks:\n");
  for (const char *at = p->remarks; *at;) {
    size_t n = strcspn(at, "\n");
    buf_puts(b, "  - ");
    buf_write(b, at, n);
    buf_putc(b, '\n');
    at += n + (at[n] != 0);
  }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_occupancy(JsonWriter *w, const nereid_report *p) {
  const nereid_occupancy *o = &p->occupancy;
  json_begin_object(w, "occupancy");
  json_put_int(w, "blocks", o->blocks);
  json_put_int(w, "by_registers", o->by_registers);
  json_put_int(w, "by_shared", o->by_shared);
  json_put_int(w, "by_warps", o->by_warps);
  json_put_int(w, "by_blocks", o->by_blocks);
  json_put_text(w, "limit", o->limit);
  json_put_int(w, "warps", o->warps);
  json_put_int(w, "max_warps", o->max_warps);
  json_put_real(w, "occupancy", 9, o->occupancy);
  json_put_int(w, "registers_granted", o->registers_granted);
  json_put_int(w, "shared_granted", o->shared_granted);
  json_end_object(w);
}

static void put_access(JsonWriter *w, const nereid_report_access *a) {
  json_begin_object(w, NULL);
  json_put_text(w, "file", a->file);
  json_put_int(w, "line", a->line);
  json_put_text(w, "text", a->text);
  json_put_text(w, "what", a->what);
  json_put_bool(w, "shared", a->shared);
  json_put_text(w, "buffer", a->buffer);
  json_put_int(w, "bytes", a->bytes);
  json_put_int(w, "count", a->count);
  json_put_bool(w, "masked", a->masked);
  json_put_bool(w, "in_loop", a->in_loop);
  json_put_bool(w, "known", a->known);
  json_put_int(w, "requests", a->requests);
  json_put_int(w, "lanes", a->lanes);
  if (a->shared) {
    json_put_int(w, "wavefronts", a->wavefronts);
    json_put_int(w, "ideal_wavefronts", a->ideal_wavefronts);
  } else {
    json_put_int(w, "sectors", a->sectors);
    json_put_int(w, "ideal_sectors", a->ideal_sectors);
  }
  json_end_object(w);
}

static void put_counts(JsonWriter *w, const nereid_report *p) {
  json_put_int(w, "programs_walked", p->programs_walked);
  json_put_bool(w, "exact", p->exact);
  json_put_int(w, "warp_instructions", p->warp_instructions);
  json_put_int(w, "divergent", p->divergent);
  json_put_real(w, "active_lanes", 9, p->active_lanes);
  json_put_real(w, "flops", 9, p->cost.flops);
  json_put_int(w, "load_bytes", p->load_bytes);
  json_put_int(w, "store_bytes", p->store_bytes);
  json_put_real(w, "intensity", 9, p->intensity);
  json_put_text(w, "bound", p->bound);
  json_begin_array(w, "accesses");
  for (int i = 0; i < p->access_count; i++) put_access(w, &p->accesses[i]);
  json_end_array(w);
  json_begin_object(w, "classes");
  for (int i = 0; i < p->class_count; i++) json_put_int(w, p->classes[i].name, p->classes[i].warps);
  json_end_object(w);
  json_begin_array(w, "times");
  for (int i = 0; i < p->time_count; i++) {
    json_begin_object(w, NULL);
    json_put_text(w, "bound", p->times[i].bound);
    json_put_real(w, "ns", 9, p->times[i].ns);
    json_put_text(w, "why", p->times[i].why);
    json_end_object(w);
  }
  json_end_array(w);
  json_put_text(w, "remarks", p->remarks);
}

static void put_json(Buf *b, const nereid_report *p) {
  JsonWriter w = {.buf = b};
  json_begin_object(&w, NULL);
  json_put_text(&w, "kernel", p->kernel);
  json_put_text(&w, "target", p->target);
  json_put_text(&w, "machine", p->machine);
  json_put_int(&w, "num_warps", p->num_warps);
  json_put_int(&w, "num_stages", p->num_stages);
  json_put_int(&w, "registers", p->registers);
  json_put_int(&w, "spill_bytes", p->spill_bytes);
  json_put_int(&w, "stack_bytes", p->stack_bytes);
  json_put_int(&w, "shared_bytes", p->shared_bytes);
  json_begin_array(&w, "rings");
  for (int i = 0; i < p->ring_count; i++) {
    json_begin_object(&w, NULL);
    json_put_int(&w, "slots", p->rings[i].slots);
    json_put_int(&w, "slot_bytes", p->rings[i].slot_bytes);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_put_int(&w, "bytes_in_flight", p->bytes_in_flight);
  put_occupancy(&w, p);
  json_put_int(&w, "multiprocessors", p->multiprocessors);
  json_put_real(&w, "clock_mhz", 9, p->clock_mhz);
  json_put_real(&w, "memory_gbs", 9, p->memory_gbs);
  json_put_ints(&w, "grid", p->grid, 3);
  json_put_int(&w, "programs", p->programs);
  json_put_real(&w, "waves", 9, p->waves);
  json_put_real(&w, "tail_waste", 9, p->tail_waste);
  json_put_bool(&w, "counted", p->counted);
  if (p->counted) put_counts(&w, p);
  json_end_object(&w);
  buf_putc(b, '\n');
}

nereid_status nereid_report_text(const nereid_report *r, bool json, char **out, nereid_error **error) {
  if (!r) return error_null(error, "nereid_report_text", "the report");
  if (!out) return error_null(error, "nereid_report_text", "text");
  Buf b = {0};
  if (json) put_json(&b, r);
  else put_text(&b, r);
  if (!b.at || b.failed) {
    buf_destroy(&b);
    return error_out_of_memory(error);
  }
  *out = b.at;
  return NEREID_OK;
}
