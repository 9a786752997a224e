/* The smallest program: a kernel of a Python file on two arrays of this process.
 *
 *     vector_add kernels/vector_add.py [DEVICE]
 */
#include <nereid.h>
#include <stdio.h>

enum { N = 100000, BLOCK = 1024 };
static float x[N], y[N], out[N];

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "kernels/vector_add.py";
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 2.0f * (float)(i % 1000);

  nereid_device *device = NULL;
  nereid_module *module = NULL;
  nereid_error *error = NULL;
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(y, NEREID_F32), nereid_pointer(out, NEREID_F32),
                       nereid_int(N), nereid_named(nereid_constexpr_int(BLOCK), "BLOCK")};
  int64_t grid[3] = {(N + BLOCK - 1) / BLOCK, 1, 1};
  int failed = nereid_device_open(argc > 2 ? argv[2] : "cpu", &device, &error) ||
               nereid_module_load(path, &module, &error) ||
               /* The interpreter checks every access, so it is told of the arrays; the CPU takes any pointer. */
               nereid_register(device, x, sizeof x, "x", &error) || nereid_register(device, y, sizeof y, "y", &error) ||
               nereid_register(device, out, sizeof out, "out", &error) ||
               nereid_launch(device, NULL, module, "vector_add", grid, args, 5, NULL, &error);
  if (failed) fputs(nereid_error_text(error), stderr);
  nereid_error_free(error);
  nereid_module_free(module);
  nereid_device_close(device);
  if (failed) return 1;

  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += out[i] != x[i] + y[i];
  printf("%d sums, %d wrong\n", N, wrong);
  return wrong != 0;
}
