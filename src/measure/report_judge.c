/* What is bad about a launch, in words: each remark says what, where, how bad, and what to do. And what the report is
 * not certain of. */
#include "measure/report.h"

#include <stdlib.h>

typedef struct Judge {
  const nereid_report *p;
  Buf text;
} Judge;

static void place(Judge *j, const nereid_report_access *a) {
  if (a->line) buf_printf(&j->text, "line %d: ", a->line);
}

static double per(int64_t n, int64_t of) { return of ? (double)n / (double)of : 0; }

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static void judge_global(Judge *j, const nereid_report_access *a, int64_t all) {
  bool bad = a->sectors * 2 > a->ideal_sectors * 3 && a->sectors * 20 > all;
  if (!bad || !a->known) return;
  place(j, a);
  buf_printf(&j->text, "the %s asks for %.3g sectors a request where %.3g would do: ", a->what,
             per(a->sectors, a->requests), per(a->ideal_sectors, a->requests));
  if (a->sectors >= a->lanes * 3 / 4)
    buf_puts(&j->text, "each thread of a warp hits a sector of its own; let neighbouring threads have neighbouring "
                       "elements (the contiguous axis last in the tile), or go through a transposed tile\n");
  else
    buf_puts(&j->text, "runs of neighbouring elements are short or begin in the middle of a sector; align rows to 32 "
                       "bytes, or make the tile wider along the contiguous axis\n");
}

static void judge_shared(Judge *j, const nereid_report_access *a, int64_t all) {
  if (a->wavefronts * 2 <= a->ideal_wavefronts * 3 || a->wavefronts * 20 <= all) return;
  place(j, a);
  buf_printf(&j->text, "bank conflicts: the %s of shared memory%s%s takes %.3g passes a request where %.3g would do\n",
             a->what, *a->buffer ? " for " : "", a->buffer, per(a->wavefronts, a->requests),
             per(a->ideal_wavefronts, a->requests));
}

static void judge_accesses(Judge *j) {
  int64_t sectors = 0, passes = 0;
  const nereid_report *p = j->p;
  for (int i = 0; i < p->access_count; i++) sectors += p->accesses[i].sectors, passes += p->accesses[i].wavefronts;
  for (int i = 0; i < p->access_count; i++) {
    if (p->accesses[i].shared) judge_shared(j, &p->accesses[i], passes);
    else judge_global(j, &p->accesses[i], sectors);
  }
}

/* ---- the launch -------------------------------------------------------------------------------------------------- */

static void judge_residence(Judge *j) {
  const nereid_report *p = j->p;
  const nereid_occupancy *o = &p->occupancy;
  if (p->spill_bytes)
    buf_printf(&j->text,
               "%d bytes of registers are spilled to memory: fewer elements a thread (a smaller tile, more warps) "
               "would keep them\n",
               p->spill_bytes);
  if (!o->blocks) buf_printf(&j->text, "not one block fits on a multiprocessor (%s): a launch fails\n", o->limit);
  else if (o->occupancy < 0.26)
    buf_printf(&j->text,
               "%d of %d warps are resident, for want of %s: little hides the latency of memory but what each warp has "
               "in flight itself\n",
               o->warps, o->max_warps, o->limit);
  if (!p->programs) return;
  if (p->programs < p->multiprocessors)
    buf_printf(&j->text,
               "%lld program%s on %d multiprocessors: the others stand idle; smaller tiles, or more programs along "
               "another axis, would use them\n",
               (long long)p->programs, p->programs == 1 ? "" : "s", p->multiprocessors);
  else if (p->tail_waste > 0.15 && p->waves > 1)
    buf_printf(&j->text,
               "a tail: the last of %lld waves fills a part of the machine, which costs %.0f%%; another tile size, or "
               "a persistent kernel (as many programs as fit at once, each with a loop), would even it out\n",
               (long long)p->waves + 1, 100 * p->tail_waste);
  if (p->divergent && p->active_lanes < 28)
    buf_printf(
        &j->text,
        "divergence: at %lld branches or loops the threads of a warp part, and each instruction has %.1f of 32\n",
        (long long)p->divergent, p->active_lanes);
}

static void judge_certainty(Judge *j) {
  const nereid_report *p = j->p;
  const GpuReport *g = ((const Report *)p)->counted;
  int last = 0; /* line; 0: no access is unknown */
  for (int i = 0; i < p->access_count; i++) {
    const nereid_report_access *a = &p->accesses[i];
    if (a->known || a->shared || a->line == last) continue;
    place(j, a);
    buf_printf(&j->text, "data decide where or how often this %s is done: it is counted as if such data were zeros\n",
               a->what);
    last = a->line;
  }
  if (g->data && !last)
    buf_puts(&j->text,
             "data decide on some branches or loops: their instructions are counted as if such data were zeros\n");
  if (g->cut)
    buf_puts(&j->text, "a program was not walked to its end, as it is too long: counts are of its beginning\n");
  if (g->sampled) buf_puts(&j->text, "some programs were counted for those between them\n");
}

void report_judge(Report *r) {
  Judge j = {.p = &r->out, .text.arena = r->arena};
  judge_accesses(&j);
  judge_residence(&j);
  judge_certainty(&j);
  r->out.remarks = j.text.n ? j.text.at : "";
}
