/* One device and one kernel, used by four threads at once: each with its own rows and its own number of columns, so
 * that two of them need one compilation between them and the others one each.
 *
 *     four_threads kernels/rms_norm.py [DEVICE]
 */
#include <math.h>
#include <nereid.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, LAUNCHES = 20, ROWS = 64 };

typedef struct Worker {
  nereid_device *device;
  nereid_module *module;
  int cols, seed;
  double worst; /* largest difference from the reference */
  nereid_error *error;
  int failed;
} Worker;

static double reference_difference(const float *x, const float *w, const float *y, int cols) {
  double squares = 0, worst = 0;
  for (int c = 0; c < cols; c++) squares += (double)x[c] * x[c];
  double scale = 1 / sqrt(squares / cols + 1e-5);
  for (int c = 0; c < cols; c++) worst = fmax(worst, fabs(y[c] - x[c] * scale * w[c]));
  return worst;
}

static void *work(void *arg) {
  Worker *self = arg;
  int cols = self->cols, block = 1;
  while (block < cols) block *= 2;
  size_t bytes = sizeof(float) * ROWS * (size_t)cols;
  float *memory[3] = {malloc(bytes), malloc(bytes), malloc(bytes)}, *x = memory[0], *w = memory[1], *y = memory[2];
  self->failed = !x || !w || !y;
  for (int i = 0; i < 3 && !self->failed; i++)
    self->failed = nereid_register(self->device, memory[i], (int64_t)bytes, "row data", &self->error) != NEREID_OK;
  unsigned random = (unsigned)self->seed;
  for (int turn = 0; turn < LAUNCHES && !self->failed; turn++) {
    for (int i = 0; i < ROWS * cols; i++) {
      random = random * 1664525u + 1013904223u;
      x[i] = (float)(random >> 8) / (1 << 23) - 1;
      w[i % cols] = 1 + (float)(i % 7);
    }
    nereid_arg args[] = {nereid_named(nereid_pointer(x, NEREID_F32), "x_ptr"),
                         nereid_named(nereid_pointer(w, NEREID_F32), "weight_ptr"),
                         nereid_named(nereid_pointer(y, NEREID_F32), "out_ptr"),
                         nereid_named(nereid_int(cols), "stride"),
                         nereid_named(nereid_int(cols), "n_cols"),
                         nereid_named(nereid_float(1e-5), "eps"),
                         nereid_named(nereid_constexpr_int(block), "BLOCK")};
    int64_t grid[3] = {ROWS, 1, 1};
    self->failed =
        nereid_launch(self->device, NULL, self->module, "rms_norm", grid, args, 7, NULL, &self->error) != NEREID_OK;
    for (int r = 0; r < ROWS && !self->failed; r++)
      self->worst = fmax(self->worst, reference_difference(x + r * cols, w, y + r * cols, cols));
  }
  for (int i = 0; i < 3; i++) {
    nereid_unregister(self->device, memory[i]);
    free(memory[i]);
  }
  return NULL;
}

int main(int argc, char **argv) {
  nereid_error *error = NULL;
  nereid_device *device = NULL;
  nereid_module *module = NULL;
  int failed = nereid_device_open(argc > 2 ? argv[2] : "cpu", &device, &error) ||
               nereid_module_load(argc > 1 ? argv[1] : "kernels/rms_norm.py", &module, &error);
  if (failed) fputs(nereid_error_text(error), stderr);
  nereid_error_free(error);

  static const int cols[THREADS] = {256, 256, 781, 1000};
  Worker workers[THREADS];
  pthread_t threads[THREADS];
  int started = 0;
  for (; started < THREADS && !failed; started++) {
    workers[started] = (Worker){.device = device, .module = module, .cols = cols[started], .seed = started + 1};
    if (pthread_create(&threads[started], NULL, work, &workers[started])) break;
  }
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
    if (workers[i].error) fputs(nereid_error_text(workers[i].error), stderr);
    nereid_error_free(workers[i].error);
    int bad = workers[i].failed || !(workers[i].worst < 1e-4);
    printf("thread %d: %d launches of %d rows of %d, largest difference %.2g%s\n", i, LAUNCHES, ROWS, workers[i].cols,
           workers[i].worst, bad ? " FAILED" : "");
    failed |= bad;
  }
  nereid_module_free(module);
  nereid_device_close(device);
  return failed || started != THREADS;
}
