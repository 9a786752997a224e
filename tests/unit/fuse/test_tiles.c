/* Tiles of products: large where there is enough to do, small where processors would stand idle; what a GPU rounds. And
 * what is made of reductions and products before kernels are planned. */
#include "fuse/fuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const FuseTarget gpu = {TARGET_GPU, 132, 90}, cpu = {TARGET_CPU, 16, 0};

typedef struct Test {
  Context *cx;
  Graph *g;
} Test;

static Test start(void) {
  Context *cx = context_create();
  return (Test){cx, graph_create(cx, "test")};
}

static Tensor *input(Test *t, Dtype type, int64_t rows, int64_t columns) {
  const Size *size[] = {size_int(t->g, rows), size_int(t->g, columns)};
  return graph_input(t->g, "x", type, 2, size);
}

static Tensor *product(Test *t, Dtype type, int64_t m, int64_t n, int64_t k, bool tf32) {
  return graph_product(t->g, input(t, type, m, k), input(t, type, k, n), tf32);
}

static FuseTile tile(Test *t, const FuseTarget *target, Tensor *p) {
  return fuse_tile(target, p, p->size[0], p->size[1], p->in[0]->size[1], size_int(t->g, 1));
}

static void large_products_have_large_tiles(void **state) {
  Test t = start();
  FuseTile f16 = tile(&t, &gpu, product(&t, DT_F16, 4096, 4096, 4096, false));
  assert_int_equal(f16.m * f16.n, 128 * 256);
  assert_int_equal(f16.num_warps, 8);
  assert_true(tile(&t, &cpu, product(&t, DT_F32, 4096, 4096, 4096, false)).m >= 128);
  context_destroy(t.cx);
}

static void few_rows_are_not_filled_up(void **state) {
  Test t = start();
  FuseTile few = tile(&t, &gpu, product(&t, DT_BF16, 8, 4096, 4096, false));
  assert_int_equal(few.m, 16);
  FuseTile small = tile(&t, &gpu, product(&t, DT_F32, 256, 256, 256, false));
  assert_true((256 / small.m) * (256 / small.n) >= 64); /* of 132 processors */
  context_destroy(t.cx);
}

static void symbols_count_as_large(void **state) {
  Test t = start();
  const Size *s = size_symbol(t.g, "s0");
  Tensor *p = product(&t, DT_F16, 64, 4096, 4096, false);
  assert_true(fuse_tile(&gpu, p, s, p->size[1], p->in[0]->size[1], size_int(t.g, 1)).m >= 128);
  context_destroy(t.cx);
}

static void precision(void **state) {
  Test t = start();
  assert_string_equal(fuse_precision(&gpu, product(&t, DT_F32, 64, 64, 576, true), false), "tf32");
  assert_string_equal(fuse_precision(&gpu, product(&t, DT_F32, 64, 64, 27, true), false), "ieee"); /* gains nothing */
  assert_string_equal(fuse_precision(&gpu, product(&t, DT_F32, 64, 64, 4096, false), false), "tf32x3");
  assert_string_equal(fuse_precision(&gpu, product(&t, DT_F32, 64, 64, 24, false), false), "ieee");
  assert_string_equal(fuse_precision(&gpu, product(&t, DT_F32, 64, 64, 64, false), true), "tf32x3");
  assert_string_equal(fuse_precision(&cpu, product(&t, DT_F32, 64, 64, 64, false), true), "ieee");
  assert_string_equal(fuse_precision(&cpu, product(&t, DT_F32, 64, 64, 4096, true), false), "ieee");
  assert_string_equal(fuse_precision(&gpu, product(&t, DT_F64, 64, 64, 4096, true), false), "ieee");
  context_destroy(t.cx);
}

/* Operations of a kind that a result is made of. */
static int count(const Graph *g, GraphOp op) {
  int n = 0;
  for (int i = 0; i < g->at.n; i++) n += g->at.at[i]->op == op;
  return n;
}

static void finish(Test *t, Tensor *result, const FuseTarget *target) {
  vec_push(t->cx->arena, &t->g->outputs, result);
  fuse_split_reductions(t->g, target);
  graph_dce(t->g);
  graph_verify(t->g, "splitting");
}

static void long_sums_are_cut_where_processors_are_idle(void **state) {
  Test t = start();
  finish(&t, graph_reduce(t.g, REDUCE_SUM, input(&t, DT_F32, 1024, 4096), 2, (int64_t[]){0, 1}), &gpu);
  assert_int_equal(count(t.g, GRAPH_REDUCE), 2);
  context_destroy(t.cx);
  t = start();
  finish(&t, graph_reduce(t.g, REDUCE_SUM, input(&t, DT_F32, 1024, 4096), 1, (int64_t[]){1}), &gpu);
  assert_int_equal(count(t.g, GRAPH_REDUCE), 1);
  context_destroy(t.cx);
  t = start(); /* 64 rows are few for a GPU, and enough for 16 threads */
  finish(&t, graph_reduce(t.g, REDUCE_SUM, input(&t, DT_F32, 64, 65536), 1, (int64_t[]){1}), &cpu);
  assert_int_equal(count(t.g, GRAPH_REDUCE), 1);
  context_destroy(t.cx);
}

/* Groups of channels that lie last, and are reduced with what stands before them. */
static Tensor *groups_sum(Test *t, Dtype type, int64_t pixels, int64_t groups, int64_t channels) {
  Tensor *x = input(t, type, 64 * pixels, groups * channels);
  const Size *size[] = {size_int(t->g, 64), size_int(t->g, pixels), size_int(t->g, groups), size_int(t->g, channels)};
  return graph_reduce(t->g, REDUCE_SUM, graph_reshape(t->g, x, 4, size), 2, (int64_t[]){1, 3});
}

static void rows_of_short_runs_are_reduced_in_two_steps(void **state) {
  static const struct {
    Dtype type;
    int64_t pixels, groups, channels;
    int reductions;
  } rows[] = {{DT_F32, 4096, 8, 8, 2},
              {DT_F16, 4096, 8, 8, 2},
              {DT_F32, 4096, 8, 32, 1},  /* a line */
              {DT_F32, 2048, 8, 8, 1},   /* rows that are held */
              {DT_F32, 16384, 2, 2, 1}}; /* no line beside others' */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Test t = start();
    finish(&t, groups_sum(&t, rows[i].type, rows[i].pixels, rows[i].groups, rows[i].channels), &gpu);
    assert_int_equal(count(t.g, GRAPH_REDUCE), rows[i].reductions);
    context_destroy(t.cx);
  }
}

static void long_products_are_cut_where_processors_are_idle(void **state) {
  Test t = start();
  finish(&t, product(&t, DT_F32, 64, 64, 8192, false), &gpu);
  assert_int_equal(count(t.g, GRAPH_REDUCE), 1);
  assert_int_equal(count(t.g, GRAPH_PRODUCT), 1);
  context_destroy(t.cx);
  t = start(); /* its parts would be rounded */
  finish(&t, product(&t, DT_F16, 64, 64, 8192, false), &gpu);
  assert_int_equal(count(t.g, GRAPH_REDUCE), 0);
  context_destroy(t.cx);
}

static void small_windows_are_elementwise(void **state) {
  Test t = start();
  Tensor *windows = graph_unfold(t.g, input(&t, DT_F32, 64, 64), 1, 3, 2, 1);
  finish(&t, graph_reduce(t.g, REDUCE_MAX, windows, 1, (int64_t[]){2}), &gpu);
  assert_int_equal(count(t.g, GRAPH_REDUCE), 0);
  assert_int_equal(count(t.g, GRAPH_POINT), 2);
  context_destroy(t.cx);
}

/* A place of a window of an array above 2^31 elements, though the result is small. */
static void divisions_split_constants(void **state) {
  Test t = start();
  IndexVar x = {.text = "x", .extent = size_int(t.g, 100), .bit = 1};
  Index at =
      index_add(t.g, index_scale(t.g, index_var(t.g, &x), size_int(t.g, 27)), index_constant(t.g, size_int(t.g, 13)));
  Index q, r;
  assert_true(index_divide(t.g, at, size_int(t.g, 9), &q, &r));
  assert_string_equal(index_text(t.g, &q), "x * 3 + 1");
  assert_string_equal(index_text(t.g, &r), "4");
  context_destroy(t.cx);
}

/* What has been read: a tensor that a gradient stood for, one without elements, and one that nobody needs. */
static void passes_leave_what_the_plan_needs(void **state) {
  for (int eager = 0; eager < 2; eager++) {
    Test t = start();
    Tensor *x = input(&t, DT_F32, 64, 32), *none = graph_slice(t.g, x, 0, size_int(t.g, 0), size_int(t.g, 0), 1);
    Tensor *sum = graph_point(t.g, POINT_ADD, 2, (Tensor *[]){x, x});
    graph_reduce(t.g, REDUCE_MAX, x, 1, (int64_t[]){1});
    vec_push(t.cx->arena, &t.g->outputs, graph_detach(t.g, sum, x));
    vec_push(t.cx->arena, &t.g->outputs, graph_point(t.g, POINT_ADD, 2, (Tensor *[]){none, none}));
    assert_int_equal(count(t.g, GRAPH_DETACH) + count(t.g, GRAPH_REDUCE), 2);
    if (context_try(t.cx)) {
      fuse_optimize(t.g, &(FuseOptions){.eager = eager, .target = gpu});
      context_end_try(t.cx);
    } else {
      Buf b = {0};
      diags_print(&b, t.cx, false);
      fail_msg("%s", b.at);
    }
    assert_int_equal(count(t.g, GRAPH_DETACH) + count(t.g, GRAPH_REDUCE) + count(t.g, GRAPH_SLICE), 0);
    assert_int_equal(count(t.g, GRAPH_POINT), 1);
    assert_int_equal(count(t.g, GRAPH_FULL), 1);
    context_destroy(t.cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(large_products_have_large_tiles),
                                     cmocka_unit_test(few_rows_are_not_filled_up),
                                     cmocka_unit_test(symbols_count_as_large),
                                     cmocka_unit_test(precision),
                                     cmocka_unit_test(long_sums_are_cut_where_processors_are_idle),
                                     cmocka_unit_test(rows_of_short_runs_are_reduced_in_two_steps),
                                     cmocka_unit_test(long_products_are_cut_where_processors_are_idle),
                                     cmocka_unit_test(small_windows_are_elementwise),
                                     cmocka_unit_test(divisions_split_constants),
                                     cmocka_unit_test(passes_leave_what_the_plan_needs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
