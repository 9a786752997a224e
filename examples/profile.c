/* Where the time goes in a small network: scopes around launches, with the operations that each does, as a tree with
 * rates.
 *
 *     profile kernels [DEVICE [TRACE]]
 */
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, WIDTH = 128, LAYERS = 3, STEPS = 4, TILE = 32 };

typedef struct Net {
  nereid_device *device;
  nereid_module *matmul, *gelu;
  void *x, *y, *w[LAYERS]; /* activations go from x to y and back */
} Net;

static int net_open(Net *n, const char *kernels, const char *device, nereid_error **error) {
  char path[1000];
  float *values = malloc(sizeof(float) * WIDTH * WIDTH);
  if (!values) return 1;
  for (int i = 0; i < WIDTH * WIDTH; i++) values[i] = (float)(i * 7919 % 1000 - 500) / 5000;
  int failed = nereid_device_open(device, &n->device, error) != NEREID_OK;
  snprintf(path, sizeof path, "%s/matmul.py", kernels);
  failed = failed || nereid_module_load(path, &n->matmul, error);
  snprintf(path, sizeof path, "%s/gelu.py", kernels);
  failed = failed || nereid_module_load(path, &n->gelu, error);
  void **arrays[] = {&n->x, &n->y, &n->w[0], &n->w[1], &n->w[2]};
  for (int i = 0; i < 2 + LAYERS && !failed; i++) {
    int64_t bytes = (int64_t)sizeof(float) * (i < 2 ? BATCH : WIDTH) * WIDTH;
    failed = nereid_alloc(n->device, bytes, arrays[i], error) ||
             nereid_copy_to_device(n->device, *arrays[i], values, bytes, error);
  }
  free(values);
  return failed;
}

/* y = gelu(x w) */
static int layer(Net *n, int i, nereid_error **error) {
  const int64_t M = BATCH, N = WIDTH, K = WIDTH;
  nereid_arg a[] = {nereid_pointer(n->x, NEREID_F32),
                    nereid_pointer(n->w[i], NEREID_F32),
                    nereid_pointer(n->y, NEREID_F32),
                    nereid_int(M),
                    nereid_int(N),
                    nereid_int(K),
                    nereid_int(K),
                    nereid_int(1),
                    nereid_int(N),
                    nereid_int(1),
                    nereid_int(N),
                    nereid_int(1),
                    nereid_named(nereid_constexpr_int(TILE), "BLOCK_M"),
                    nereid_named(nereid_constexpr_int(TILE), "BLOCK_N"),
                    nereid_named(nereid_constexpr_int(TILE), "BLOCK_K"),
                    nereid_named(nereid_constexpr_int(4), "GROUP_M")};
  nereid_arg b[] = {nereid_pointer(n->y, NEREID_F32), nereid_pointer(n->y, NEREID_F32), nereid_int(M * N),
                    nereid_named(nereid_constexpr_int(1024), "BLOCK")};
  int64_t tiles[3] = {M / TILE * (N / TILE), 1, 1}, blocks[3] = {(M * N + 1023) / 1024, 1, 1};
  char name[60];

  snprintf(name, sizeof name, "matmul [M=%d, N=%d, K=%d]", (int)M, (int)N, (int)K);
  nereid_prof_enter(name);
  /* what the algorithm needs: it takes the place of what is counted */
  nereid_prof_metric("flops", 2.0 * (double)(M * N * K));
  nereid_prof_metric("bytes", 4.0 * (double)(M * K + K * N + M * N));
  int failed = nereid_launch(n->device, NULL, n->matmul, "matmul", tiles, a, 16, NULL, error) != NEREID_OK;
  nereid_prof_leave(name);

  /* counted by the compiler */
  failed = failed || nereid_launch(n->device, NULL, n->gelu, "gelu", blocks, b, 4, NULL, error);
  void *swap = n->x;
  n->x = n->y, n->y = swap;
  return failed;
}

int main(int argc, char **argv) {
  const char *kernels = argc > 1 ? argv[1] : "kernels", *device = argc > 2 ? argv[2] : "cpu",
             *trace = argc > 3 ? argv[3] : "profile.trace";
  Net n = {0};
  nereid_error *error = NULL;
  nereid_prof *prof = NULL;
  nereid_prof_options options = {.count_work = true};
  int failed = net_open(&n, kernels, device, &error) || nereid_prof_start(trace, &options, &prof, &error);

  /* The first step compiles; what it does is not of interest, but that work is counted in it. */
  failed = failed || nereid_prof_pause(prof, &error);
  for (int i = 0; i < LAYERS && !failed; i++) failed = layer(&n, i, &error);
  failed = failed || nereid_synchronize(n.device, &error) || nereid_prof_resume(prof, &error);

  for (int step = 0; step < STEPS && !failed; step++) {
    nereid_prof_enter("step");
    for (int i = 0; i < LAYERS && !failed; i++) {
      char name[20];
      snprintf(name, sizeof name, "layer %d", i);
      nereid_prof_enter(name);
      failed = layer(&n, i, &error);
      nereid_prof_leave(name);
    }
    failed = failed || nereid_synchronize(n.device, &error);
    nereid_prof_leave("step");
  }
  if (prof && nereid_prof_stop(prof, failed ? NULL : &error)) failed = 1;
  nereid_prof_view_options view = {.metrics = "time/us,gflop/s,gbyte/s,count"};
  failed = failed || nereid_prof_view(trace, "tree", NULL, &view, &error);
  if (failed) fputs(error ? nereid_error_text(error) : "out of memory\n", stderr);
  nereid_error_free(error);
  nereid_module_free(n.matmul);
  nereid_module_free(n.gelu);
  nereid_device_close(n.device);
  return failed;
}
