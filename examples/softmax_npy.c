/* Softmax over the rows of a .npy file (f32, two dimensions), saved to another.
 *
 *     softmax_npy kernels/softmax.py IN.npy OUT.npy [DEVICE]
 *
 * Here the arrays lie in the device's own memory and are copied there and back, as a device with memory of its own
 * needs it.
 */
#include <math.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>

/* What the kernel computes, in double precision; returns the largest difference. */
static double check(const float *x, const float *y, int64_t rows, int64_t cols) {
  double worst = 0;
  for (int64_t r = 0; r < rows; r++, x += cols, y += cols) {
    double top = -INFINITY, total = 0;
    for (int64_t c = 0; c < cols; c++) top = fmax(top, x[c]);
    for (int64_t c = 0; c < cols; c++) total += exp(x[c] - top);
    for (int64_t c = 0; c < cols; c++) {
      double difference = fabs(y[c] - exp(x[c] - top) / total);
      if (!(difference <= worst)) worst = difference;
    }
  }
  return worst;
}

/* data: rows x cols, replaced by its softmax. */
static nereid_status softmax(nereid_device *device, nereid_module *module, float *data, int64_t rows, int64_t cols,
                             nereid_error **error) {
  int64_t bytes = rows * cols * (int64_t)sizeof *data, block = 1;
  while (block < cols) block *= 2;
  void *x = NULL, *y = NULL;
  nereid_status status = nereid_alloc(device, bytes, &x, error);
  if (!status) status = nereid_alloc(device, bytes, &y, error);
  if (!status) status = nereid_copy_to_device(device, x, data, bytes, error);
  if (!status) {
    nereid_arg args[] = {nereid_pointer(x, NEREID_F32),
                         nereid_pointer(y, NEREID_F32),
                         nereid_int(cols),
                         nereid_int(cols),
                         nereid_int(cols),
                         nereid_constexpr_int(block)};
    int64_t grid[3] = {rows, 1, 1}; /* a program takes one row */
    status = nereid_launch(device, NULL, module, "softmax", grid, args, 6, NULL, error);
  }
  if (!status) status = nereid_copy_to_host(device, data, y, bytes, error);
  nereid_free(device, x);
  nereid_free(device, y);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: softmax_npy kernels/softmax.py IN.npy OUT.npy [DEVICE]\n"), 2;
  nereid_error *error = NULL;
  nereid_device *device = NULL;
  nereid_module *module = NULL;
  nereid_array in = {0}, out = {0};
  int status = 1;
  if (nereid_device_open(argc > 4 ? argv[4] : "cpu", &device, &error) || nereid_module_load(argv[1], &module, &error) ||
      nereid_npy_read(argv[2], &in, &error) || nereid_npy_read(argv[2], &out, &error)) {
    fputs(nereid_error_text(error), stderr);
  } else if (in.dtype != NEREID_F32 || in.rank != 2 || in.bytes == 0) {
    fprintf(stderr, "%s: an f32 array of two dimensions is wanted, not %s of %d\n", argv[2],
            nereid_dtype_name(in.dtype), in.rank);
  } else if (softmax(device, module, out.data, in.shape[0], in.shape[1], &error) ||
             nereid_npy_write(argv[3], &out, &error)) {
    fputs(nereid_error_text(error), stderr);
  } else {
    double worst = check(in.data, out.data, in.shape[0], in.shape[1]);
    printf("%lld rows of %lld, largest difference %.2g\n", (long long)in.shape[0], (long long)in.shape[1], worst);
    status = worst > 1e-5;
  }
  nereid_error_free(error);
  nereid_array_free(&in);
  nereid_array_free(&out);
  nereid_module_free(module);
  nereid_device_close(device);
  return status;
}
