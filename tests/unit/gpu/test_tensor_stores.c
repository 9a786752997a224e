/* Rows that a tensor map loads or stores begin at multiples of 16 bytes of the array's: elsewhere an H200 ends the
 * kernel by CUDA_ERROR_ILLEGAL_INSTRUCTION, and threads do it. */
#include "unit/gpu/test_dot_kit.h"

enum { M = 64, N = 32, BK = 32, K = 64, PROGRAMS = 3, PITCH = 192 };

static const char stored[] =
    HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, n_k, STEP: tl.constexpr, LOADS: tl.constexpr, M: tl.constexpr, "
         "N: tl.constexpr, BK: tl.constexpr, PITCH: tl.constexpr):\n"
         "    m = tl.arange(0, M)[:, None]\n"
         "    n = tl.arange(0, N)[None, :]\n"
         "    k = tl.arange(0, BK)\n"
         "    acc = tl.zeros([M, N], tl.float32)\n"
         "    out = tl.make_tensor_descriptor(out_ptr, [M, PITCH], [PITCH, 1], [M, N])\n"
         "    column = tl.program_id(0) * STEP\n"
         "    for i in range(0, n_k, BK):\n"
         "        a = tl.load(a_ptr + m * n_k + (i + k)[None, :])\n"
         "        b = tl.load(b_ptr + (i + k)[:, None] * PITCH + n + column * LOADS)\n"
         "        acc = tl.dot(a, b, acc)\n"
         "    out.store([0, column], acc)\n";

static void count_box(LaneOp *op, void *arg) { *(int *)arg += op->code == LANE_TENSOR_STORE; }

static void check(int step, bool loads) {
  DotCase c = dot_case(stored, "sm_90a", 4, 3);
  int boxes = 0;
  c.grid[0] = PROGRAMS, c.specialize = true, c.blocks = 2;
  const DotArg *a = dot_array(&c, DT_F16, M * K), *b = dot_array(&c, DT_F16, K * PITCH);
  DotArg *out = dot_array(&c, DT_F32, M * PITCH);
  dot_int(&c, K), dot_const(&c, step), dot_const(&c, loads);
  dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK), dot_const(&c, PITCH);
  for (int i = 0; i < M * PITCH; i++) dot_store(out, i, 0);
  dot_run(&c, "stored");
  lane_walk(c.lane->body, count_box, &boxes);
  bool by_map = step % 4 == 0 && (step % 8 == 0 || !loads); /* what loads less so is not specialized */
  if ((boxes > 0) != by_map) fail_msg("columns %d apart%s: %d boxes stored", step, loads ? ", of both" : "", boxes);
  dot_read_back(out);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < PITCH; j++) {
      double want = 0;
      int column = j % step;
      for (int k = 0; k < K && column < N && j / step < PROGRAMS; k++)
        want += a->values[i * K + k] * b->values[k * PITCH + (loads ? j : column)];
      if (out->values[i * PITCH + j] != want)
        fail_msg("columns %d apart: [%d, %d] is %g, not %g", step, i, j, out->values[i * PITCH + j], want);
    }
  dot_free(&c);
}

static void rows_at_16_bytes(void **state) {
  for (int step = 32; step <= 40; step++) check(step, false), check(step, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_at_16_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
