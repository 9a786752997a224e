/* Loops of many loads get registers for them: ptxas is told how many blocks are to be resident (ptx/ptx.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "gpu/gpu.h"

#include <cmocka.h>

/* What a loop does with loads of `width` floats, so many of them, in a kernel of 8 warps. */
typedef struct Loop {
  int loads, width;
  bool meets, stores;
  int blocks; /* 0: ptxas is told nothing */
} Loop;

static char *print_loop(Context *cx, const Loop *c, int turns) {
  LaneFunc *f = lane_func_create(cx, "kernel_of_test");
  f->num_warps = 8;
  LaneValue *p = lane_func_param(f, LT_B64, type_pointer(cx, DT_F32), 16);
  LaneBuilder b = lane_builder(f);
  LaneValue *sum = lane_load(&b, SPACE_GLOBAL, LK_F32, 1, p, 0, NULL, NULL)->out[0];
  LaneOp *loop = lane_for(&b, LK_S32, lane_i32(&b, 0), lane_i32(&b, turns), lane_i32(&b, 1), 1, &sum);
  sum = loop->body[0]->args[1];
  for (int i = 0; i < c->loads; i++) {
    LaneOp *load = lane_load(&b, SPACE_GLOBAL, LK_F32, c->width, p, 64 * i, NULL, NULL);
    for (int j = 0; j < c->width; j++) sum = lane_2(&b, LANE_ADD, LK_F32, sum, load->out[j]);
  }
  if (c->meets) lane_barrier(&b, false);
  if (c->stores) lane_store(&b, SPACE_GLOBAL, LK_F32, 1, p, 0, NULL, &sum);
  lane_yield(&b, 1, &sum);
  lane_leave(&b, loop);
  loop->uniform = true;
  lane_store(&b, SPACE_GLOBAL, LK_F32, 1, p, 0, NULL, &loop->out[0]);
  Buf out = {0};
  gpu_print_ptx(&out, f, gpu_target_find("sm_90a"), false);
  assert_false(out.failed);
  char *text = arena_strndup(cx->arena, out.at, out.n);
  buf_destroy(&out);
  return text;
}

static void streams(void **state) {
  static const Loop loops[] = {
      {4, 1, false, false, 0},  {16, 1, false, false, 4}, {16, 1, true, false, 0}, /* small loads, and little else */
      {16, 4, false, false, 2}, {16, 4, true, false, 2},  {8, 4, true, false, 0}, /* large tiles, which may be summed */
      {16, 4, true, true, 0},
  };
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    Context *cx = context_create();
    char *text = print_loop(cx, &loops[i], 64), want[60];
    snprintf(want, sizeof want, ".reqntid 256\n.minnctapersm %d\n", loops[i].blocks);
    if (loops[i].blocks ? !strstr(text, want) : strstr(text, ".minnctapersm") != NULL)
      fail_msg("case %zu: not %d blocks\n%s", i, loops[i].blocks, text);
    context_destroy(cx);
  }
}

/* A loop of a few turns that loads and stores is the assembler's to unroll; one of many turns, or in which threads
 * meet, is not. */
static void short_loops(void **state) {
  static const Loop loops[] = {{2, 1, false, true, 0}, {2, 1, true, true, 0}};
  for (int meets = 0; meets < 2; meets++)
    for (int turns = 8; turns <= 9; turns++) {
      Context *cx = context_create();
      char *text = print_loop(cx, &loops[meets], turns);
      assert_non_null(strstr(text, "$loop1;"));
      bool whole = strstr(text, "bra $loop1;") != NULL;
      if (whole != (!meets && turns == 8)) fail_msg("%d turns, meets: %d\n%s", turns, meets, text);
      context_destroy(cx);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(streams), cmocka_unit_test(short_loops)};
  return cmocka_run_group_tests_name("ptx_streams", tests, NULL, NULL);
}
