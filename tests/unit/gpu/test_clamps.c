/* Conversions that saturate, behind clamps (lane/fold.c): whose ends are those of the conversion's type, or further
 * out, or not so far, in either order, of NaN too. */
#include "unit/gpu/test_lower_kit.h"

static void clamps(void **state) {
  static const struct {
    Dtype to;
    double ends[3];
  } cases[] = {{DT_F8E4NV, {240, 448, 464}},
               {DT_F8E5, {240, 57344, 1e30}},
               {DT_I8, {126.5, 127, 1000}},
               {DT_U8, {100, 255, 255.5}}};
  for (int i = 0; i < 4 * 3 * 3 * 2 * 4; i++) {
    int way = i / 4;
    Dtype to = cases[i % 4].to;
    double end = cases[i % 4].ends[way % 3], high = cases[i % 4].ends[way / 3 % 3],
           low = to == DT_I8   ? -end - 1
                 : to == DT_U8 ? 255 - end
                               : -end;
    const char *first = way / 9 % 2 ? "min %x, %high" : "max %x, %low",
               *then = way / 9 % 2 ? "max %c, %low" : "min %c, %high", *nan = " {nan=1}", *t = dtype_name(to);
    Buf b = {0};
    buf_printf(&b,
               "kernel @k(%%p: *f32 {divisible=16}, %%o: *%s {divisible=16}) {\n"
               "  %%i = arange {start=0, end=256} : i32[256]\n  %%s = splat %%p : *f32[256]\n"
               "  %%a = addptr %%s, %%i : *f32[256]\n  %%x = load %%a : f32[256]\n"
               "  %%low = const {value=%.1f} : f32[256]\n  %%high = const {value=%.1f} : f32[256]\n"
               "  %%c = %s%s : f32[256]\n  %%d = %s%s : f32[256]\n  %%r = convert %%d : %s[256]\n"
               "  %%so = splat %%o : *%s[256]\n  %%ao = addptr %%so, %%i : *%s[256]\n  store %%ao, %%r\n}\n",
               t, low, high, first, way / 18 % 2 ? nan : "", then, way / 36 ? nan : "", t, t, t);
    Kit k = kit_of(b.at);
    k.warps = 2, k.target = "sm_90a";
    kit_fill(DT_F32, kit_array(&k, DT_F32, 256), 256, (uint64_t)i);
    kit_array(&k, to, 256);
    kit_check(&k);
    kit_free(&k);
    buf_destroy(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(clamps)};
  return cmocka_run_group_tests_name("clamps", tests, NULL, NULL);
}
