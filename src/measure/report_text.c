/* A report as text for people, and as one JSON object with the names of nereid_report. */
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

static void put_string(Buf *b, const char *s) {
  buf_putc(b, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') buf_printf(b, "\\%c", c);
    else if (c == '\n') buf_puts(b, "\\n");
    else if (c < 32) buf_printf(b, "\\u%04x", c);
    else buf_putc(b, (char)c);
  }
  buf_putc(b, '"');
}

static void text(Buf *b, const char *name, const char *s) {
  buf_printf(b, "%s\"%s\":", b->at[b->n - 1] == '{' ? "" : ",", name);
  put_string(b, s);
}
static void whole(Buf *b, const char *name, int64_t n) {
  buf_printf(b, "%s\"%s\":%lld", b->at[b->n - 1] == '{' ? "" : ",", name, (long long)n);
}
static void real(Buf *b, const char *name, double v) {
  buf_printf(b, "%s\"%s\":%.9g", b->at[b->n - 1] == '{' ? "" : ",", name, v);
}
static void truth(Buf *b, const char *name, bool v) {
  buf_printf(b, "%s\"%s\":%s", b->at[b->n - 1] == '{' ? "" : ",", name, v ? "true" : "false");
}

static void json_occupancy(Buf *b, const nereid_report *p) {
  const nereid_occupancy *o = &p->occupancy;
  buf_puts(b, ",\"occupancy\":{");
  whole(b, "blocks", o->blocks), whole(b, "by_registers", o->by_registers), whole(b, "by_shared", o->by_shared);
  whole(b, "by_warps", o->by_warps), whole(b, "by_blocks", o->by_blocks), text(b, "limit", o->limit);
  whole(b, "warps", o->warps), whole(b, "max_warps", o->max_warps), real(b, "occupancy", o->occupancy);
  whole(b, "registers_granted", o->registers_granted), whole(b, "shared_granted", o->shared_granted);
  buf_puts(b, "}");
}

static void json_access(Buf *b, const nereid_report_access *a) {
  buf_puts(b, "{");
  text(b, "file", a->file), whole(b, "line", a->line), text(b, "text", a->text), text(b, "what", a->what);
  truth(b, "shared", a->shared), text(b, "buffer", a->buffer), whole(b, "bytes", a->bytes), whole(b, "count", a->count);
  truth(b, "masked", a->masked), truth(b, "in_loop", a->in_loop), truth(b, "known", a->known);
  whole(b, "requests", a->requests), whole(b, "lanes", a->lanes);
  if (a->shared) whole(b, "wavefronts", a->wavefronts), whole(b, "ideal_wavefronts", a->ideal_wavefronts);
  else whole(b, "sectors", a->sectors), whole(b, "ideal_sectors", a->ideal_sectors);
  buf_puts(b, "}");
}

static void json_counts(Buf *b, const nereid_report *p) {
  const nereid_cost *c = &p->cost;
  whole(b, "programs_walked", p->programs_walked), truth(b, "exact", p->exact);
  whole(b, "warp_instructions", p->warp_instructions), whole(b, "divergent", p->divergent),
      real(b, "active_lanes", p->active_lanes);
  real(b, "flops", c->flops), whole(b, "load_bytes", p->load_bytes), whole(b, "store_bytes", p->store_bytes);
  real(b, "intensity", p->intensity), text(b, "bound", p->bound);
  buf_puts(b, ",\"accesses\":[");
  for (int i = 0; i < p->access_count; i++) {
    if (i) buf_putc(b, ',');
    json_access(b, &p->accesses[i]);
  }
  buf_puts(b, "],\"classes\":{");
  for (int i = 0; i < p->class_count; i++) whole(b, p->classes[i].name, p->classes[i].warps);
  buf_puts(b, "},\"times\":[");
  for (int i = 0; i < p->time_count; i++) {
    buf_puts(b, i ? ",{" : "{");
    text(b, "bound", p->times[i].bound), real(b, "ns", p->times[i].ns), text(b, "why", p->times[i].why);
    buf_puts(b, "}");
  }
  buf_puts(b, "]");
  text(b, "remarks", p->remarks);
}

static void put_json(Buf *b, const nereid_report *p) {
  buf_puts(b, "{");
  text(b, "kernel", p->kernel), text(b, "target", p->target), text(b, "machine", p->machine);
  whole(b, "num_warps", p->num_warps), whole(b, "num_stages", p->num_stages);
  whole(b, "registers", p->registers), whole(b, "spill_bytes", p->spill_bytes), whole(b, "stack_bytes", p->stack_bytes);
  whole(b, "shared_bytes", p->shared_bytes);
  json_occupancy(b, p);
  whole(b, "multiprocessors", p->multiprocessors), real(b, "clock_mhz", p->clock_mhz),
      real(b, "memory_gbs", p->memory_gbs);
  buf_printf(b, ",\"grid\":[%lld,%lld,%lld]", (long long)p->grid[0], (long long)p->grid[1], (long long)p->grid[2]);
  whole(b, "programs", p->programs), real(b, "waves", p->waves), real(b, "tail_waste", p->tail_waste),
      truth(b, "counted", p->counted);
  if (p->counted) json_counts(b, p);
  buf_puts(b, "}\n");
}

nereid_status nereid_report_text(const nereid_report *r, bool json, char **out, nereid_error **error) {
  if (!r) return error_null(error, "nereid_report_text", "the report");
  if (!out) return error_null(error, "nereid_report_text", "text");
  Buf b = {0};
  buf_puts(&b, ""); /* so that there is something to look back at */
  if (b.at && json) put_json(&b, r);
  else if (b.at) put_text(&b, r);
  if (!b.at || b.failed) {
    buf_destroy(&b);
    return error_out_of_memory(error);
  }
  *out = b.at;
  return NEREID_OK;
}
