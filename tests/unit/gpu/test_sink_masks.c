/* Tests of gpu/sink_masks.c: masks go after the products that stand between them and their users, and nothing else
 * moves. Of gpu/late_scales.c: what multiplies a tile multiplies its maximum instead, where that is the same number. Of
 * gpu/skip_masks.c: a mask that is made again in a branch takes what was loaded and branched for as it is. */
#include "unit/gpu/test_dot_kit.h"

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

/* ---- scales ------------------------------------------------------------------------------------------------------ */

typedef struct Scales {
  const char *scale; /* what the tile is multiplied by */
  const char *low;   /* of masked elements */
  const char *more;  /* in the loop's body */
  bool maps, moved;
  int requires;
} Scales;

static const Scales scales[] = {
    {"%c", "-inf", "", true, true, 2},
    {"%c", "-inf", "", false, false, 0},     /* no launch looks at the scale */
    {"%loaded", "-inf", "", true, false, 0}, /* nor can it at this one */
    {"2.5", "-inf", "", false, true, 0},
    {"-2.5", "-inf", "", true, false, 0},
    {"0.0", "-inf", "", true, false, 0},
    {"inf", "-inf", "", true, false, 0},
    {"%c", "-1.0", "", true, false, 0},                  /* masked ones would be scaled */
    {"%c", "-inf", "  store %at, %u\n", true, false, 0}, /* somebody else wants the product */
    {"%c", "-inf", "  store %at, %t\n", true, false, 0},
    {"%c", "-inf", "  %w = sub %e, %u : f32[4,8]\n", true, false, 0}, /* and this one with its sign turned */
};

static void count_op(Op *op, void *arg) {
  int *n = arg;
  n[op->code]++;
}

static Func *move_scales(Context *cx, const char *ir) {
  Func *volatile f = NULL;
  if (context_try(cx)) {
    Func *parsed = tile_parse(cx, source_from_text(cx, "k.ir", ir, strlen(ir)));
    GpuOptions o = {.target = gpu_target_find("sm_90a")};
    gpu_late_scales(parsed, &o);
    tile_verify(parsed, "late_scales");
    f = parsed;
    context_end_try(cx);
  }
  if (!f) fail_msg("%s\n%s", cx->diags.at[0].message, ir);
  return f;
}

static void scales_behind_maxima(void **state) {
  for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
    const Scales *c = &scales[i];
    char k[3000], tile[200];
    if (c->scale[0] == '%') snprintf(tile, sizeof tile, "splat %s", c->scale);
    else snprintf(tile, sizeof tile, "const {value=%s}", c->scale);
    snprintf(k, sizeof k,
             "kernel @k(%%p: *f32 {divisible=16}, %%q: *f16 {divisible=16}, %%n: i32, %%x: f32) {\n"
             "  %%log = const {value=1.442695} : f32\n"
             "  %%c = mul %%x, %%log : f32\n"
             "  %%loaded = load %%p : f32\n"
             "  %%size = convert %%n : i64\n"
             "%s"
             "  %%i = arange {start=0, end=32} : i32[32]\n"
             "  %%square = reshape %%i : i32[4,8]\n"
             "  %%ps = splat %%p : *f32[4,8]\n"
             "  %%at = addptr %%ps, %%square : *f32[4,8]\n"
             "  %%ns = splat %%n : i32[4,8]\n"
             "  %%cs = %s : f32[4,8]\n"
             "  %%low = const {value=%s} : f32[4,8]\n"
             "  %%first = const {value=0} : i32\n"
             "  %%step = const {value=1} : i32\n"
             "  for %%first, %%n, %%step do (%%turn: i32) {\n"
             "    %%s = load %%at : f32[4,8]\n"
             "    %%t = mul %%s, %%cs : f32[4,8]\n"
             "    %%seen = cmp %%square, %%ns {pred=lt} : i1[4,8]\n"
             "    %%u = select %%seen, %%t, %%low : f32[4,8]\n"
             "    %%m = reduce %%u {axis=1} : f32[4] do (%%a: f32, %%b: f32) {\n"
             "      %%ab = max %%a, %%b : f32\n"
             "      yield %%ab\n"
             "    }\n"
             "    %%column = expand_dims %%m {axis=1} : f32[4,1]\n"
             "    %%wide = broadcast %%column : f32[4,8]\n"
             "    %%d = sub %%u, %%wide : f32[4,8]\n"
             "    %%e = math %%d {fn=exp2} : f32[4,8]\n"
             "%s"
             "    store %%at, %%e\n"
             "    yield\n"
             "  }\n"
             "}\n",
             c->maps ? "  %map = tensor_map %q, %size, %size, %size {dims=[16, 16]} : *f16\n" : "", tile, c->low,
             c->more);
    Context *cx = context_create();
    Func *f = move_scales(cx, k);
    int counts[OP_COUNT + 1] = {0};
    tile_walk(f->body, count_op, counts);
    const Op *max = NULL;
    for (const Op *loop = f->body->first; loop; loop = loop->next)
      for (const Op *op = loop->code == OP_FOR ? loop->body[0]->first : NULL; op; op = op->next)
        if (op->code == OP_REDUCE) max = op;
    assert_non_null(max);
    bool plain = max->in[0]->def->code == OP_SELECT && max->in[0]->def->in[1]->def->code == OP_LOAD;
    if (plain != c->moved || counts[OP_REQUIRE] != c->requires || counts[OP_MUL] != (c->moved ? 3 : 2))
      fail_msg("case %zu: the maximum is of the %s tile, %d requires, %d mul", i, plain ? "plain" : "scaled",
               counts[OP_REQUIRE], counts[OP_MUL]);
    context_destroy(cx);
  }
}

/* ---- masks that hold for whole tiles ----------------------------------------------------------------------------- */

/* A bound is made of both results of one branch, and of elements that the iteration stores to before the mask. */
static const char bounds[] = HEAD "@triton.jit\ndef k(x_ptr, out_ptr, K, n):\n"
                                  "    i = tl.arange(0, 1024)\n"
                                  "    x_ptrs = x_ptr + tl.arange(0, 16)\n"
                                  "    for k in range(0, K):\n"
                                  "        if k < n:\n"
                                  "            a = k\n"
                                  "            b = 3\n"
                                  "        else:\n"
                                  "            a = 2 * k\n"
                                  "            b = 5\n"
                                  "        low = tl.min(tl.load(x_ptrs), 0).to(tl.int32)\n"
                                  "        tl.store(x_ptrs, tl.zeros([16], tl.float32) + (low + 100))\n"
                                  "        z = tl.where(i - low >= b * 64 - a, i, -1)\n"
                                  "        tl.store(out_ptr + k * 1024 + i, z.to(tl.float32))\n";

static void bounds_of_branches(void **state) {
  enum { K = 9, N = 4, COUNT = 1024 };
  for (int warps = 1; warps <= 2; warps++) {
    DotCase c = dot_case(bounds, "sm_90a", warps, 3);
    DotArg *x = dot_array(&c, DT_F32, 16), *out = dot_array(&c, DT_F32, K * COUNT);
    dot_int(&c, K), dot_int(&c, N);
    for (int i = 0; i < 16; i++) dot_store(x, i, 0);
    dot_run(&c, "bounds");
    for (int k = 0; k < K; k++)
      for (int i = 0; i < COUNT; i++) {
        int a = k < N ? k : 2 * k, b = k < N ? 3 : 5;
        assert_true(out->values[k * COUNT + i] == (i - 100 * k >= b * 64 - a ? i : -1));
      }
    dot_free(&c);
  }
}

/* What a branch gives may be the mask of a store: it is known about it what was known of the choice. */
static void masks_of_branches(void **state) {
  enum { K = 5, COUNT = 1024 };
  static const char text_of_masks[] = HEAD "@triton.jit\ndef k(out_ptr, K, n):\n"
                                           "    i = tl.arange(0, 1024)\n"
                                           "    for k in range(0, K):\n"
                                           "        at = k * 1024 + i\n"
                                           "        m = tl.where(at < n, (i & 1) == 0, (i & 3) == 0)\n"
                                           "        tl.store(out_ptr + at, i.to(tl.float32) + 1, mask=m)\n";
  DotCase c = dot_case(text_of_masks, "sm_90a", 1, 3);
  int n = 2 * COUNT + 100;
  DotArg *out = dot_array(&c, DT_F32, K * COUNT);
  dot_int(&c, K), dot_int(&c, n);
  for (int i = 0; i < K * COUNT; i++) dot_store(out, i, -1);
  dot_run(&c, "masks");
  for (int at = 0; at < K * COUNT; at++) {
    int i = at % COUNT;
    assert_true(out->values[at] == (i & (at < n ? 1 : 3) ? -1 : i + 1));
  }
  dot_free(&c);
}

/* A branch has the whole tile in registers: not where that is half of what a thread may have. */
static void tiles_too_large_for_a_branch(void **state) {
  static const struct {
    int warps, elements;
    bool branches;
  } cases[] = {{32, 16384, true}, {32, 32768, false}, {16, 32768, false},
               {8, 16384, true},  {4, 16384, false},  {4, 1024, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char k[1000];
    int n = cases[i].elements, counts[OP_COUNT + 1] = {0};
    snprintf(k, sizeof k,
             "kernel @k(%%p: *f32, %%n: i32) {\n  %%first = const {value=0} : i32\n  %%step = const {value=1} : i32\n"
             "  %%i = arange {start=0, end=%d} : i32[%d]\n  %%ps = splat %%p : *f32[%d]\n"
             "  %%a = addptr %%ps, %%i : *f32[%d]\n  %%low = const {value=-1.0} : f32[%d]\n"
             "  for %%first, %%n, %%step do (%%turn: i32) {\n    %%ns = splat %%turn : i32[%d]\n"
             "    %%seen = cmp %%i, %%ns {pred=lt} : i1[%d]\n    %%x = load %%a : f32[%d]\n"
             "    %%y = select %%seen, %%x, %%low : f32[%d]\n    store %%a, %%y\n    yield\n  }\n}\n",
             n, n, n, n, n, n, n, n, n);
    Context *cx = context_create();
    Func *f = tile_parse(cx, source_from_text(cx, "k.ir", k, strlen(k)));
    f->num_warps = cases[i].warps;
    gpu_skip_masks(f, &(GpuOptions){.target = gpu_target_find("sm_90a")});
    tile_verify(f, "skip_masks");
    tile_walk(f->body, count_op, counts);
    if (counts[OP_IF] != cases[i].branches) fail_msg("case %zu: %d branches", i, counts[OP_IF]);
    context_destroy(cx);
  }
}

/* Nor where the loop's sums leave no room for the tile beside what it is made of: a mean, a variance and a count. */
static void sums_that_leave_no_room(void **state) {
  static const char *const form =
      "kernel @k(%%p: *f32, %%n: i32) {\n  %%first = const {value=0} : i32\n  %%step = const {value=1} : i32\n"
      "  %%i = arange {start=0, end=16384} : i32[16384]\n  %%ps = splat %%p : *f32[16384]\n"
      "  %%a = addptr %%ps, %%i : *f32[16384]\n  %%zero = const {value=0.0} : f32[16384]\n"
      "  %%s%s = for %%first, %%n, %%step, %%zero%s : f32[16384]%s do (%%turn: i32, %%x: f32[16384]%s) {\n"
      "    %%ns = splat %%turn : i32[16384]\n    %%seen = cmp %%i, %%ns {pred=lt} : i1[16384]\n"
      "    %%v = load %%a : f32[16384]\n    %%w = add %%v, %%x : f32[16384]\n"
      "    %%c = select %%seen, %%w, %%x : f32[16384]\n    yield %%c%s\n  }\n  store %%a, %%s\n}\n";
  for (int three = 0; three < 2; three++) {
    char k[2000];
    int counts[OP_COUNT + 1] = {0};
    snprintf(k, sizeof k, form, three ? ", %t, %u" : "", three ? ", %zero, %zero" : "",
             three ? ", f32[16384], f32[16384]" : "", three ? ", %y: f32[16384], %z: f32[16384]" : "",
             three ? ", %y, %z" : "");
    Context *cx = context_create();
    Func *f = tile_parse(cx, source_from_text(cx, "k.ir", k, strlen(k)));
    f->num_warps = 8; /* 64 registers a tile, of 255 */
    gpu_skip_masks(f, &(GpuOptions){.target = gpu_target_find("sm_90a")});
    tile_verify(f, "skip_masks");
    tile_walk(f->body, count_op, counts);
    if (counts[OP_IF] != !three) fail_msg("%d branches beside %d sums", counts[OP_IF], three ? 3 : 1);
    context_destroy(cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_that_leave_no_room), cmocka_unit_test(masks_behind_products),
      cmocka_unit_test(scales_behind_maxima),    cmocka_unit_test(bounds_of_branches),
      cmocka_unit_test(masks_of_branches),       cmocka_unit_test(tiles_too_large_for_a_branch)};
  return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
