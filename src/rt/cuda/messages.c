/* Kernels that print or assert: who may write to which buffer when, and who reads it.
 *
 * A launch of such a kernel is given a GpuDiag in memory of the host. The GPU appends to it at any time until the
 * launch has ended, and says nothing of when it does; so what is to be read must be a buffer that only launches which
 * have ended were given:
 *
 *     launch                     the buffer that is open for this kernel and stream, or a spare one of the kernel, or
 *                                a new one
 *     synchronize, before        closes the buffers of what it is about to wait for: launches that come now get others
 *                 then           waits for the GPU, without a lock
 *                 after          reads what it closed, which nobody else knows; each goes back to its kernel as a
 *                                spare one
 *
 * Between being given a buffer and being with the driver a launch is in neither's hands: `entering` counts those, and
 * who closes a buffer waits until there are none, before waiting for the GPU.
 *
 * A launch that a stream captures is none: it comes as often as the graph is launched, and always with the same buffer.
 * That buffer stays the graph's. A synchronize of the device reads it, one of a stream where all graphs since were
 * launched there; it is not closed by that, so that nobody may launch the graph meanwhile.
 */
#include <stdlib.h>

#include "rt/cuda/cuda.h"

struct CudaReport {
  CudaReport *next;
  CudaKernel *kernel;
  GpuDiag *diag;
  CuStream stream;
  int entering;
  bool captured;
  int graphs;             /* captured: launches of graphs since it was read */
  bool several;           /* captured: those were in several streams, or none is known */
  nereid_options options; /* of the last launch: print, print_arg, print_threads */
};

/* This handle means another stream in each thread. */
static CuStream stream_key(CuStream s) {
  static _Thread_local char mine;
  return s == CU_STREAM_PER_THREAD ? (CuStream)&mine : s;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static CudaReport *make(CudaKernel *k, CuResult *r) {
  const CudaApi *api = &k->cuda->api;
  CudaReport *report = calloc(1, sizeof *report);
  CudaRelaxed was = cuda_relax(k->cuda); /* a capture, of this stream or of another, forbids it else */
  *r = report ? api->host_alloc((void **)&report->diag, DIAG_BYTES, CU_HOST_PORTABLE | CU_HOST_MAPPED)
              : CU_OUT_OF_MEMORY;
  cuda_restrict(k->cuda, was);
  if (*r) return free(report), NULL;
  report->kernel = k;
  diag_clear(report->diag, DIAG_BYTES);
  return report;
}

CuResult cuda_reports_prepare(CudaKernel *k) {
  CuResult r;
  k->spare = make(k, &r);
  return r;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* The open one, or a spare one, opened; NULL when there is neither. Under the lock. */
static CudaReport *open_one(CudaKernel *k, CuStream stream, bool captured) {
  Cuda *c = k->cuda;
  CudaReport *report = c->reports;
  while (report && !(report->kernel == k && report->captured == captured && (captured || report->stream == stream)))
    report = report->next;
  if (report || !(report = k->spare)) return report;
  k->spare = report->next;
  report->stream = stream;
  report->captured = report->several = captured;
  report->next = c->reports;
  return c->reports = report;
}

nereid_status cuda_report_enter(CudaKernel *k, CuStream stream, bool captured, const nereid_options *o,
                                CudaReport **out, nereid_error **error) {
  Cuda *c = k->cuda;
  CuStream key = stream_key(stream);
  CudaReport *report;
  pthread_mutex_lock(&c->lock);
  while (!(report = open_one(k, key, captured))) {
    pthread_mutex_unlock(&c->lock);
    CuResult r;
    CudaReport *fresh = make(k, &r);
    if (!fresh)
      return cuda_error(c, r, error,
                        "%d bytes of the host's memory, for what kernel '%s' prints, cannot be page-locked", DIAG_BYTES,
                        k->name);
    pthread_mutex_lock(&c->lock);
    fresh->next = k->spare;
    k->spare = fresh;
  }
  report->entering++;
  report->diag->traps = o->trap_asserts;
  report->options.print = o->print;
  report->options.print_arg = o->print_arg;
  report->options.print_threads = o->print_threads;
  pthread_mutex_unlock(&c->lock);
  *out = report;
  return NEREID_OK;
}

GpuDiag *cuda_report_diag(const CudaReport *report) { return report->diag; }

void cuda_report_leave(CudaReport *report) {
  Cuda *c = report->kernel->cuda;
  pthread_mutex_lock(&c->lock);
  if (--report->entering == 0) pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

void cuda_reports_graph(Cuda *c, CuStream stream) {
  CuStream key = stream_key(stream);
  pthread_mutex_lock(&c->lock);
  for (CudaReport *at = c->reports; at; at = at->next) {
    if (!at->captured) continue;
    if (!at->graphs++) at->stream = key, at->several = false;
    else if (at->stream != key) at->several = true;
  }
  pthread_mutex_unlock(&c->lock);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

CudaReport *cuda_reports_close(Cuda *c, bool all, CuStream stream) {
  CuStream key = stream_key(stream);
  CudaReport *closed = NULL, **end = &closed;
  for (CudaReport **at = &c->reports, *report; (report = *at);) {
    if (!all && (report->several || report->stream != key)) {
      at = &report->next;
      continue;
    }
    *at = report->next;
    report->next = NULL;
    report->kernel->closed++;
    *end = report;
    end = &report->next;
  }
  for (CudaReport *report = closed; report; report = report->next)
    while (report->entering) pthread_cond_wait(&c->changed, &c->lock);
  return closed;
}

/* Hands a closed one back. Under the lock. */
static void hand_back(Cuda *c, CudaReport *report, bool open) {
  CudaReport **list = open ? &c->reports : &report->kernel->spare;
  report->next = *list;
  *list = report;
  if (--report->kernel->closed == 0) pthread_cond_broadcast(&c->changed);
}

nereid_status cuda_reports_read(Cuda *c, CudaReport *closed, bool ended, nereid_error **error) {
  nereid_status first = NEREID_OK;
  for (CudaReport *report = closed, *next; report; report = next) {
    next = report->next;
    const CudaKernel *k = report->kernel;
    if (ended && (report->diag->used || report->diag->failed)) {
      nereid_status status = diag_report(k->sites, report->diag, k->name, &report->options, first ? NULL : error);
      if (!first) first = status;
      diag_clear(report->diag, DIAG_BYTES);
    }
    pthread_mutex_lock(&c->lock);
    if (ended) report->graphs = 0, report->several = report->captured;
    hand_back(c, report, !ended || report->captured);
    pthread_mutex_unlock(&c->lock);
  }
  return first;
}

void cuda_reports_discard(CudaKernel *k, bool in_context) {
  Cuda *c = k->cuda;
  pthread_mutex_lock(&c->lock);
  while (k->closed) pthread_cond_wait(&c->changed, &c->lock);
  for (CudaReport **at = &c->reports, *report; (report = *at);) {
    if (report->kernel != k) {
      at = &report->next;
      continue;
    }
    *at = report->next;
    report->next = k->spare;
    k->spare = report;
  }
  CudaReport *own = k->spare;
  k->spare = NULL;
  pthread_mutex_unlock(&c->lock);
  for (CudaReport *next; own; own = next) {
    next = own->next;
    if (in_context) c->api.host_free(own->diag);
    free(own);
  }
}
