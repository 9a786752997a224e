/* Launches what tests/aot/check_build built: softmax in two alignments, a vector addition, a tensor descriptor with a
 * tuple, and with an argument the same from that bundle. */
#include "built.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, N = 781, SIZE = 1000 };

static int failed(nereid_error *error) {
  fputs(nereid_error_text(error), stderr);
  nereid_error_free(error);
  return 1;
}

static int check_softmax(nereid_device *cpu, float *x, float *out) {
  nereid_error *error = NULL;
  const int64_t grid[3] = {ROWS, 1, 1};
  for (int i = 0; i < ROWS * N; i++) x[i] = (float)(i * 37 % 101) / 10;
  if (softmax(cpu, NULL, grid, x, out, N, N, N, &error)) return failed(error);
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += exp(x[r * N + i]);
    for (int i = 0; i < N; i++)
      if (fabs(exp(x[r * N + i]) / sum - out[r * N + i]) > 1e-6) return fprintf(stderr, "softmax is wrong\n"), 1;
  }
  return 0;
}

static int check_sum(const float *x, const float *y, const float *out, int n) {
  for (int i = 0; i < n; i++)
    if (out[i] != x[i] + y[i]) return fprintf(stderr, "the sum is wrong\n"), 1;
  return 0;
}

static int check_scaled(nereid_device *cpu, float *x, float *out) {
  nereid_error *error = NULL;
  for (int i = 0; i < 6 * 12; i++) x[i] = (float)i;
  if (scaled(cpu, NULL, x, 6, 7, 12, 1, out, 2.5f, 3, &error)) return failed(error);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 8; k++)
      if (out[8 * i + k] != (3 + i < 6 && k < 7 ? x[(3 + i) * 12 + k] * 2.5f : 0))
        return fprintf(stderr, "the descriptor's block is wrong\n"), 1;
  if (!scaled(cpu, NULL, x, 6, 7, 11, 1, out, 2.5f, 3, &error)) return fprintf(stderr, "a stride of 11 is taken\n"), 1;
  nereid_error_free(error);
  return 0;
}

static int check_bundle(nereid_device *cpu, const char *path, float *x, float *y, float *out) {
  nereid_error *error = NULL;
  nereid_bundle *bundle = NULL;
  if (nereid_bundle_open(cpu, path, &bundle, &error)) return failed(error);
  for (int n = SIZE; n <= SIZE + 24; n += 24) {
    const int64_t grid[3] = {4, 1, 1};
    nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(y, NEREID_F32), nereid_pointer(out, NEREID_F32),
                         nereid_int(n)};
    if (nereid_bundle_launch(bundle, NULL, "vector_add", grid, args, 4, &error)) return failed(error);
    if (check_sum(x, y, out, n)) return 1;
  }
  nereid_bundle_close(bundle);
  return 0;
}

int main(int argc, char **argv) {
  nereid_error *error = NULL;
  nereid_device *cpu = NULL;
  if (nereid_device_open(getenv("DEVICE") ? getenv("DEVICE") : "cpu:2", &cpu, &error)) return failed(error);
  float *x = (float *)calloc(ROWS * N + 16, sizeof *x), *out = (float *)calloc(ROWS * N + 16, sizeof *out);
  float *y = (float *)calloc(ROWS * N + 16, sizeof *y);
  int bad = check_softmax(cpu, x, out) || check_softmax(cpu, x + 1, out + 3) || check_scaled(cpu, x, out);
  for (int i = 0; i < 2000; i++) y[i] = (float)i;
  if (!bad && vector_add(cpu, NULL, x, y, out, SIZE, &error)) bad = failed(error);
  if (!bad) bad = check_sum(x, y, out, SIZE);
  if (!bad && argc > 1) bad = check_bundle(cpu, argv[1], x, y, out);
  free(x), free(y), free(out);
  nereid_device_close(cpu);
  return bad;
}
