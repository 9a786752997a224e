/* Twenty launches, one by one and as a CUDA graph: the gaps between small kernels are the launches' cost, and a graph,
 * which the driver gets as a whole, has hardly any.
 *
 *     cuda_graph kernels/vector_add.py
 *
 * A warm nereid_run is one call of the driver, so a stream that captures records it as one node. Times are device
 * events', the best of many rounds. libcuda.so.1 is opened by the program itself, for the calls that make and launch
 * the graph.
 */
#include <dlfcn.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 4096, BLOCK = 1024, LAUNCHES = 20, ROUNDS = 200 };

typedef struct Driver {
  int (*begin_capture)(void *stream, int mode);
  int (*end_capture)(void *stream, void **graph);
  int (*instantiate)(void **exec, void *graph, unsigned long long flags);
  int (*launch)(void *exec, void *stream);
  int (*destroy_exec)(void *exec);
  int (*destroy)(void *graph);
} Driver;

static int open_driver(Driver *d) {
  static const char *const names[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
                                      "cuGraphLaunch",           "cuGraphExecDestroy", "cuGraphDestroy"};
  void **functions[] = {(void **)&d->begin_capture, (void **)&d->end_capture,  (void **)&d->instantiate,
                        (void **)&d->launch,        (void **)&d->destroy_exec, (void **)&d->destroy};
  const char *file = getenv("NEREID_LIBCUDA");
  void *library = dlopen(file && *file ? file : "libcuda.so.1", RTLD_NOW);
  for (int i = 0; i < 6; i++)
    if (!library || !(*functions[i] = dlsym(library, names[i])))
      return fprintf(stderr, "there is no %s: this example needs an NVIDIA driver\n", names[i]), 0;
  return 1;
}

typedef struct Work {
  nereid_device *device;
  nereid_stream *stream;
  nereid_function *function;
  nereid_event *start, *end;
  nereid_arg args[5];
  nereid_error *error;
} Work;

static int launch_all(Work *w) {
  int64_t grid[3] = {N / BLOCK, 1, 1};
  for (int i = 0; i < LAUNCHES; i++)
    if (nereid_run(w->function, w->stream, grid, w->args, 5, &w->error)) return 1;
  return 0;
}

/* Microseconds for all launches, the best of ROUNDS; exec NULL: one by one. Negative: w->error says why. */
static double measure(Work *w, const Driver *d, void *exec) {
  double best = 1e30, ms;
  for (int i = 0; i < ROUNDS; i++) {
    if (nereid_event_record(w->start, w->stream, &w->error)) return -1;
    if (exec ? d->launch(exec, nereid_stream_native(w->stream)) : launch_all(w)) return -1;
    if (nereid_event_record(w->end, w->stream, &w->error) || nereid_event_synchronize(w->end, &w->error) ||
        nereid_event_elapsed(w->start, w->end, &ms, &w->error))
      return -1;
    if (ms < best) best = ms;
  }
  return best * 1e3;
}

int main(int argc, char **argv) {
  Work w = {0};
  Driver d = {0};
  nereid_module *module = NULL;
  void *memory[3] = {0}, *graph = NULL, *exec = NULL;
  static float host[N];
  if (!open_driver(&d)) return 77;
  int failed = nereid_device_open("cuda", &w.device, &w.error) ||
               nereid_module_load(argc > 1 ? argv[1] : "kernels/vector_add.py", &module, &w.error) ||
               nereid_stream_create(w.device, &w.stream, &w.error) ||
               nereid_event_create(w.device, &w.start, &w.error) || nereid_event_create(w.device, &w.end, &w.error);
  for (int i = 0; i < 3 && !failed; i++) {
    failed = nereid_alloc(w.device, sizeof host, &memory[i], &w.error) ||
             nereid_fill_async(w.device, w.stream, memory[i], 0, sizeof host, &w.error);
    w.args[i] = nereid_pointer(memory[i], NEREID_F32);
  }
  w.args[3] = nereid_int(N);
  w.args[4] = nereid_named(nereid_constexpr_int(BLOCK), "BLOCK");
  for (int i = 0; i < N; i++) host[i] = (float)i;
  if (!failed) failed = nereid_copy_to_device(w.device, memory[0], host, sizeof host, &w.error);
  /* Compiled and loaded before the capture, which allows neither. */
  if (!failed)
    failed = nereid_compile(w.device, module, "vector_add", w.args, 5, NULL, &w.function, &w.error) || launch_all(&w);
  if (!failed) {
    void *stream = nereid_stream_native(w.stream);
    failed = d.begin_capture(stream, 2 /* relaxed: other threads may do what they like */);
    if (!failed) failed = launch_all(&w) | d.end_capture(stream, &graph);
    if (!failed) failed = d.instantiate(&exec, graph, 0);
  }
  double single = failed ? -1 : measure(&w, &d, NULL), whole = failed ? -1 : measure(&w, &d, exec);
  failed |= single < 0 || whole < 0;
  if (!failed)
    failed = nereid_stream_synchronize(w.device, w.stream, &w.error) ||
             nereid_copy_to_host(w.device, host, memory[2], sizeof host, &w.error);
  int wrong = 0;
  for (int i = 0; i < N && !failed; i++) wrong += host[i] != (float)i;
  if (failed) fputs(w.error ? nereid_error_text(w.error) : "a CUDA graph call fails\n", stderr);
  else
    printf("%d launches one by one: %.1f us, one each %.2f us\n%d launches as a graph:   %.1f us, one each %.2f us\n%d "
           "sums wrong\n",
           LAUNCHES, single, single / LAUNCHES, LAUNCHES, whole, whole / LAUNCHES, wrong);
  if (exec) d.destroy_exec(exec);
  if (graph) d.destroy(graph);
  nereid_error_free(w.error);
  nereid_function_free(w.function);
  nereid_module_free(module);
  nereid_event_destroy(w.start), nereid_event_destroy(w.end);
  nereid_stream_destroy(w.stream);
  nereid_device_close(w.device);
  return failed || wrong;
}
