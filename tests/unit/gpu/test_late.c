/* Tests of gpu/sink_masks.c: masks go behind the products that stand between them and their users, and nothing else
 * moves. */
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const text = "kernel @k(%p: *f32, %n: i32) {\n"
                                "  %i = arange {start=0, end=256} : i32[256]\n"
                                "  %at = reshape %i : i32[16,16]\n"
                                "  %ns = splat %n : i32[16,16]\n"
                                "  %inside = cmp %at, %ns {pred=lt} : i1[16,16]\n" /* of the load, too: stays */
                                "  %even = cmp %at, %ns {pred=ne} : i1[16,16]\n"
                                "  %seen = and %even, %inside : i1[16,16]\n"
                                "  %twice = add %at, %at : i32[16,16]\n" /* no mask: stays */
                                "  %ps = splat %p : *f32[16,16]\n"
                                "  %a = addptr %ps, %at : *f32[16,16]\n"
                                "  %x = load %a, %inside : f32[16,16]\n"
                                "  %zero = const {value=0.0} : f32[16,16]\n"
                                "  %s = dot %x, %x, %zero : f32[16,16]\n"
                                "  %t = select %seen, %s, %zero : f32[16,16]\n"
                                "  %b = addptr %ps, %twice : *f32[16,16]\n"
                                "  store %b, %t, %even\n"
                                "}\n";

static int place_of(const Func *f, const char *name) {
  int n = 0;
  for (const Op *op = f->body->first; op; op = op->next, n++)
    if (op->out_count && op->out[0]->name && !strcmp(op->out[0]->name, name)) return n;
  fail_msg("no %s", name);
  return -1;
}

static void masks_behind_products(void **state) {
  Context *cx = context_create();
  Func *f = tile_parse(cx, source_from_text(cx, "k.ir", text, strlen(text)));
  GpuOptions o = {.target = gpu_target_find("sm_90a")};
  gpu_sink_masks(f, &o);
  tile_verify(f, "late");
  int dot = place_of(f, "s");
  assert_true(place_of(f, "inside") < dot);
  assert_true(place_of(f, "twice") < dot);
  assert_true(place_of(f, "even") > dot);
  assert_true(place_of(f, "seen") > place_of(f, "even"));
  assert_true(place_of(f, "seen") < place_of(f, "t"));
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(masks_behind_products)};
  return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
