/* A kernel that is launched over and over on a stream.
 *
 * A launch costs what the driver takes: 2.8 to 3.6 us of the host's time for cuLaunchKernel. A CUDA graph that holds
 * one kernel takes 1.2 us to launch, and 0.1 us to be given other arguments and another grid before; but of what is
 * queued the GPU runs it 0.4 to 1.1 us later (H200, driver 580; bench/results/h200.md). So such a kernel gets a graph
 * of its own, for where the GPU waits for the host:
 *
 *     launches 1 to 32 on a stream   cuLaunchKernel
 *     launch 33                      the graph is made, in 10 to 120 us
 *     from then on                   cuStreamIsCapturing, cuGraphExecKernelNodeSetParams, cuGraphLaunch
 *     every 16th of them             cuStreamQuery: while the stream has work left, cuLaunchKernel until the next
 *
 * Who launches sees no difference. A graph's launch waits for the one before of the same graph, which in a stream it
 * does anyway; so each stream has one of its own, for the few streams a kernel is used on. When there are more, one
 * that stood for another stream goes over to the new one.
 *
 * Launched plainly is what a graph may not do, or not yet: in a stream that captures; in the stream of each thread (one
 * handle stands for many); while another thread is at the same graph; kernels with a buffer of ours (prints, asserts,
 * lists, records); while somebody watches (a profile of ours, a tool that CUDA injects), who is to see the launches
 * that the program makes; and where the driver has no such graphs.
 */
#include <stdlib.h>

#include "rt/hooks.h"
#include "rt/cuda/cuda.h"

enum { REPLAY_AT = 33, ASK_EVERY = 16 };

bool cuda_replays_work(const CudaApi *api) {
  const char *wanted = environment_get("NEREID_CUDA_REPEAT"), *injected = environment_get("CUDA_INJECTION64_PATH");
  return (!wanted || strcmp(wanted, "0")) && !(injected && *injected) && api->graph_create && api->graph_add_kernel &&
         api->graph_set_kernel && api->graph_instantiate && api->graph_launch && api->graph_destroy &&
         api->graph_exec_destroy && api->thread_capture_mode;
}

/* ---- whose turn it is -------------------------------------------------------------------------------------------- */

static uintptr_t key_of(CuStream stream) { return (uintptr_t)stream + 1; } /* 0: of no stream */

static bool take(CudaReplay *p) { return !atomic_exchange_explicit(&p->busy, true, memory_order_acquire); }
static void give(CudaReplay *p) { atomic_store_explicit(&p->busy, false, memory_order_release); }

/* The stream's, taken; NULL: it has none, or another thread has it. */
static CudaReplay *find(CudaKernel *k, uintptr_t key, bool *any) {
  for (int i = 0; i < CUDA_REPLAYS; i++) {
    CudaReplay *p = &k->replays[i];
    if (atomic_load_explicit(&p->key, memory_order_relaxed) != key) continue;
    *any = true;
    if (!take(p)) return NULL;
    if (atomic_load_explicit(&p->key, memory_order_relaxed) == key) return p;
    give(p); /* it has just gone over to another stream */
  }
  return NULL;
}

/* One for a stream that had none, taken: at every 33rd of the launches that found none. */
static CudaReplay *adopt(CudaKernel *k, uintptr_t key) {
  unsigned n = atomic_fetch_add_explicit(&k->plain_launches, 1, memory_order_relaxed) + 1;
  if (n % REPLAY_AT) return NULL;
  CudaReplay *p = &k->replays[n / REPLAY_AT % CUDA_REPLAYS];
  if (!take(p)) return NULL;
  atomic_store_explicit(&p->key, key, memory_order_relaxed);
  p->launches = 0;
  return p;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static void drop(Cuda *c, CudaReplay *p) {
  if (p->exec) c->api.graph_exec_destroy(p->exec);
  if (p->graph) c->api.graph_destroy(p->graph);
  p->exec = NULL, p->graph = NULL;
}

static bool make(Cuda *c, CudaReplay *p, const CuKernelNode *launch) {
  CudaRelaxed was = cuda_relax(c); /* else a capture in another thread would forbid it, and fail */
  bool ok = !c->api.graph_create(&p->graph, 0) && !c->api.graph_add_kernel(&p->node, p->graph, NULL, 0, launch) &&
            !c->api.graph_instantiate(&p->exec, p->graph, 0);
  cuda_restrict(c, was);
  if (!ok) drop(c, p);
  return ok;
}

/* True while the host is ahead of the stream: what a launch costs the host is hidden then, what it costs the GPU is
 * not.
 */
static bool stream_waits(Cuda *c, CudaReplay *p, CuStream stream) {
  if (c->api.stream_query && p->launches++ % ASK_EVERY == 0) {
    CudaRelaxed was = cuda_relax(c);
    p->waits = c->api.stream_query(stream) == CU_NOT_READY;
    cuda_restrict(c, was);
  }
  return p->waits;
}

bool cuda_replay_launch(Cuda *c, CudaKernel *k, const CuKernelNode *launch, CuStream stream, CuResult *result) {
  if (!c->replays_work || prof_on() || stream == CU_STREAM_PER_THREAD ||
      atomic_load_explicit(&k->no_replays, memory_order_relaxed))
    return false;
  bool any = false;
  CudaReplay *p = find(k, key_of(stream), &any);
  if (!p && !any) p = adopt(k, key_of(stream));
  if (!p) return false;
  int capturing = 0;
  bool ready = !c->api.stream_capturing(stream, &capturing) && !capturing;
  if (ready && !p->exec && !make(c, p, launch)) {
    atomic_store(&k->no_replays, true);
    ready = false;
  }
  if (ready && stream_waits(c, p, stream)) ready = false;
  if (ready) {
    *result = c->api.graph_set_kernel(p->exec, p->node, launch);
    if (!*result) *result = c->api.graph_launch(p->exec, stream);
  }
  give(p);
  return ready;
}

void cuda_replays_drop(CudaKernel *k) {
  for (int i = 0; i < CUDA_REPLAYS; i++) drop(k->cuda, &k->replays[i]);
}
