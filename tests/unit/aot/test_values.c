/* What kernels built ahead of time take beside pointers and numbers: tuples, and tensor descriptors of the host, on
 * processors and on GPUs. */
#include "unit/aot/aot_kit.h"

static const char text[] =
    "import triton\n"
    "import triton.language as tl\n"
    "\n"
    "@triton.jit\n"
    "def tuples(t, out, n, BLOCK: tl.constexpr):\n"
    "    i = tl.arange(0, BLOCK)\n"
    "    v = tl.load(t.x + i, mask=i < n) * t.more[1] + tl.load(t.more[0] + i * t.more[2], mask=i < n)\n"
    "    if t.bias is not None:\n"
    "        v += tl.load(t.bias + i, mask=i < n)\n"
    "    tl.store(out + i, v + t.K, mask=i < n)\n"
    "\n"
    "@triton.jit\n"
    "def blocks(desc, out, row):\n"
    "    a = desc.load([row, 8])\n"
    "    i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]\n"
    "    tl.store(out + i, a)\n"
    "    tl.store(out + 32, desc.shape[0] % 16)\n";

static int setup(void **state) { return aot_setup(state, text); }

/* What `tuples` takes: x, more=(y, by, step), bias, K. */
typedef struct Tuple {
  nereid_arg more[3], items[4];
} Tuple;

static nereid_arg tuple_of(Tuple *t, const float *x, const float *y, int64_t step, const float *bias) {
  t->more[0] = nereid_pointer(y, NEREID_F32), t->more[1] = nereid_float(2), t->more[2] = nereid_int(step);
  t->items[0] = nereid_named(nereid_pointer(x, NEREID_F32), "x");
  t->items[1] = (nereid_arg){.kind = NEREID_ARG_TUPLE, .name = "more", .item_count = 3, .items = t->more};
  t->items[2] = nereid_named(bias ? nereid_pointer(bias, NEREID_F32) : nereid_none(), "bias");
  t->items[3] = nereid_named(nereid_constexpr("5"), "K");
  return (nereid_arg){.kind = NEREID_ARG_TUPLE, .item_count = 4, .items = t->items};
}

static void check_tuples(nereid_bundle *b, int shift, int n, int64_t step, bool has_bias) {
  _Alignas(16) float x[80], y[160], bias[80], out[80];
  for (int i = 0; i < 80; i++) x[i] = (float)i, bias[i] = (float)(100 * i), out[i] = -1;
  for (int i = 0; i < 160; i++) y[i] = (float)(1000 + i);
  Tuple t;
  nereid_arg args[] = {tuple_of(&t, x + shift, y + shift, step, has_bias ? bias : NULL),
                       nereid_pointer(out, NEREID_F32), nereid_int(n)};
  assert_ok(nereid_bundle_launch(b, NULL, "tuples", one_program, args, 3, &error));
  for (int i = 0; i < 80; i++) {
    int at = i + shift;
    float want = (float)(2 * at + 1005 + shift + i * (int)step + (has_bias ? 100 * i : 0));
    assert_true(out[i] == (i < n && i < 64 ? want : -1));
  }
}

/* Of a signature, and of launches: every combination of what holds and what does not. */
static void test_tuples(void **state) {
  Fixture *f = *state;
  for (int recorded = 0; recorded < 2; recorded++) {
    nereid_build *built = new_build("cpu:native");
    static const char *const biases[] = {"none", "f32*"};
    for (int i = 0; i < 2 && !recorded; i++) {
      char text[100];
      snprintf(text, sizeof text, "(x=f32*:16|any, more=(f32*, f32, i32:1|any), bias=%s, K=5)", biases[i]);
      ADD(built, f, "tuples", NULL, {"t", text}, {"out", "f32*"}, {"n", "i32"}, {"BLOCK", "64"});
    }
    for (int i = 0; i < 16 && recorded; i++) {
      Tuple t;
      const float *p = (const float *)4096;
      nereid_arg args[] = {tuple_of(&t, p + i % 2, p + i % 2, i & 2 ? 1 : 2, i & 4 ? p : NULL),
                           nereid_pointer(p, NEREID_F32), nereid_int(i & 8 ? 48 : 50),
                           nereid_named(nereid_constexpr_int(64), "BLOCK")};
      assert_ok(nereid_build_add_launch(built, f->m, "tuples", args, 4, NULL, &error));
    }
    nereid_bundle *b = write_and_open(f, built, f->cpu);
    assert_int_equal(nereid_bundle_kernel_count(b), 2); /* with a bias, and without */
    assert_int_equal(nereid_bundle_kernel_at(b, 0)->param_count, 4);
    assert_string_equal(nereid_bundle_kernel_at(b, 0)->params[1].name, "out");
    for (int i = 0; i < 16; i++) check_tuples(b, i % 2, i & 8 ? 48 : 50, i & 2 ? 1 : 2, i & 4);
    Tuple t;
    float x[64];
    nereid_arg args[] = {tuple_of(&t, x, x, 1, NULL), nereid_pointer(x, NEREID_F32), nereid_int(3)};
    args[0].item_count = 3;
    assert_says(nereid_bundle_launch(b, NULL, "tuples", one_program, args, 3, &error), NEREID_BAD_ARGUMENT,
                "kernel 'tuples' was not built for arguments of these types and constants");
    args[0].item_count = 4, t.items[3] = nereid_named(nereid_constexpr("6"), "K");
    assert_int_equal(nereid_bundle_launch(b, NULL, "tuples", one_program, args, 3, NULL), NEREID_BAD_ARGUMENT);
    args[0] = nereid_pointer(x, NEREID_F32);
    assert_int_equal(nereid_bundle_launch(b, NULL, "tuples", one_program, args, 3, NULL), NEREID_BAD_ARGUMENT);
    nereid_bundle_close(b);
  }
}

static nereid_arg matrix(const float *p, int64_t rows, int64_t columns, int64_t stride) {
  return (nereid_arg){.kind = NEREID_ARG_DESCRIPTOR,
                      .dtype = NEREID_F32,
                      .pointer = (void *)(uintptr_t)p,
                      .rank = 2,
                      .shape = {rows, columns},
                      .strides = {stride, 1},
                      .block_shape = {4, 8}};
}

static void check_blocks(nereid_bundle *b, int64_t rows, int64_t columns, int row) {
  _Alignas(16) float in[20 * 24];
  float out[33];
  for (int i = 0; i < 20 * 24; i++) in[i] = (float)i + 1;
  nereid_arg args[] = {matrix(in, rows, columns, 24), nereid_pointer(out, NEREID_F32), nereid_int(row)};
  assert_ok(nereid_bundle_launch(b, NULL, "blocks", one_program, args, 3, &error));
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 8; k++)
      assert_true(out[8 * i + k] == (row + i < rows && 8 + k < columns ? in[(row + i) * 24 + 8 + k] : 0));
  assert_true(out[32] == (float)(rows % 16));
}

static void test_tensor_descriptors(void **state) {
  Fixture *f = *state;
  for (int recorded = 0; recorded < 2; recorded++) {
    nereid_build *built = new_build("cpu:native");
    if (!recorded)
      ADD(built, f, "blocks", NULL, {"desc", "tensordesc<f32[4,8]>:16|any"}, {"out", "f32*"}, {"row", "i32"});
    for (int i = 0; i < 2 && recorded; i++) {
      nereid_arg args[] = {matrix((float *)4096, i ? 16 : 20, i ? 16 : 13, 24),
                           nereid_pointer((void *)4104, NEREID_F32), nereid_int(3)};
      assert_ok(nereid_build_add_launch(built, f->m, "blocks", args, 3, NULL, &error));
    }
    nereid_bundle *b = write_and_open(f, built, f->cpu);
    assert_int_equal(nereid_bundle_kernel_count(b), 1);
    check_blocks(b, 20, 13, 3);
    check_blocks(b, 16, 16, 3);
    check_blocks(b, 5, 13, 3);
    _Alignas(16) float in[64] = {0};
    nereid_arg args[] = {matrix(in, 5, 6, 7), nereid_pointer(in, NEREID_F32), nereid_int(0)};
    assert_says(nereid_bundle_launch(b, NULL, "blocks", one_program, args, 3, &error), NEREID_BAD_ARGUMENT,
                "parameter 'desc' of kernel 'blocks' is given a tensor descriptor whose stride 0 is 7 elements");
    args[0] = matrix(in, 5, 6, 8), args[0].strides[1] = 2;
    assert_says(nereid_bundle_launch(b, NULL, "blocks", one_program, args, 3, &error), NEREID_BAD_ARGUMENT,
                "whose last stride is 2");
    args[0] = matrix(in, 5, 6, 8), args[0].block_shape[1] = 4;
    assert_says(nereid_bundle_launch(b, NULL, "blocks", one_program, args, 3, &error), NEREID_BAD_ARGUMENT,
                "kernel 'blocks' was not built for arguments of these types and constants: look at 'desc'");
    nereid_bundle_close(b);
  }
}

/* With its checksum made right again. */
static bool refuses(nereid_device *d, const char *bytes, size_t n) {
  char *copy = aligned_alloc(64, (n + 63) / 64 * 64);
  nereid_bundle *b = NULL;
  uint64_t entries;
  memcpy(copy, bytes, n);
  memcpy(&entries, copy + BUNDLE_HEADER, 8);
  uint64_t hash = hash_bytes(copy + BUNDLE_HEADER, entries + 8, 0);
  memcpy(copy + 24, &hash, 8);
  nereid_status status = nereid_bundle_open_memory(d, copy, n, &b, NULL);
  if (status) assert_int_equal(status, NEREID_BAD_FILE);
  nereid_bundle_close(b);
  free(copy);
  return status != NEREID_OK;
}

/* Each byte of what the bundle says is changed in turn: it is opened, or refused. */
static void test_damaged_values(void **state) {
  Fixture *f = *state;
  nereid_build *built = new_build("cpu:native");
  ADD(built, f, "tuples", NULL, {"t", "(x=f32*:16, more=(f32*:16, f32, i32:1), bias=none, K=5)"}, {"out", "f32*:16"},
      {"n", "i32:16"}, {"BLOCK", "64"});
  ADD(built, f, "blocks", NULL, {"desc", "tensordesc<f32[4,8]>:16"}, {"out", "f32*:16"}, {"row", "i32:16"});
  assert_ok(nereid_build_write(built, f->path, &error));
  nereid_build_free(built);
  size_t n;
  char *bytes = read_all(f->path, &n);
  uint64_t entries;
  memcpy(&entries, bytes + BUNDLE_HEADER, 8);
  int refused = 0;
  for (size_t at = BUNDLE_HEADER + 8; at < BUNDLE_HEADER + 8 + entries; at++) {
    char was = bytes[at];
    bytes[at]++;
    refused += refuses(f->cpu, bytes, n);
    bytes[at] = was;
  }
  assert_true(refused > 100);
  free(bytes);
}

static void test_wrong_values(void **state) {
  Fixture *f = *state;
  static const struct {
    const char *kernel, *type, *message;
  } wrong[] = {{"tuples", "(x=f32*:1, 3)", "after the colon of a pointer or a descriptor stand 16 or any"},
               {"tuples", "(f32*,(f32*,(f32*,(f32*,(f32*,(f32*,1))))))", "tuples nest more than four deep"},
               {"tuples", "(f32*, )x", "t=(f32*, )x"},
               {"blocks", "tensordesc<f32[4,8]", "a tensor descriptor is tensordesc<f16[128,64]>"},
               {"blocks", "tensordesc<f32[4,7]>", "with a block shape of 1 to 5 powers of two"},
               {"blocks", "tensordesc<f32[1,1,1,1,1,1]>", "with a block shape of 1 to 5 powers of two"},
               {"blocks", "tensordesc<f32[4]>:1", "after the colon of a pointer or a descriptor"}};
  nereid_build *b = new_build("cpu:native");
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    bool first = !strcmp(wrong[i].kernel, "tuples");
    nereid_build_arg args[] = {
        {first ? "t" : "desc", wrong[i].type}, {"out", "f32*"}, {first ? "n" : "row", "i32"}, {"BLOCK", "64"}};
    if (i != 2)
      assert_says(nereid_build_add(b, f->m, wrong[i].kernel, args, first ? 4 : 3, NULL, NULL, &error),
                  NEREID_BAD_ARGUMENT, wrong[i].message);
    else assert_int_not_equal(nereid_build_add(b, f->m, wrong[i].kernel, args, 4, NULL, NULL, NULL), NEREID_OK);
  }
  nereid_build_free(b);
}

/* ---- on a GPU that is not there ---------------------------------------------------------------------------------- */

static void *given;

static int run_tuples(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  assert_ptr_equal(*(void **)p[0], given);              /* t.x */
  assert_ptr_equal(*(char **)p[1], (char *)given + 64); /* t.more.0 */
  assert_true(*(float *)p[2] == 2);
  assert_int_equal(*(int32_t *)p[3], 7);
  assert_ptr_equal(*(void **)p[4], given); /* out */
  assert_int_equal(*(int32_t *)p[5], 50);
  return 0;
}

static int run_blocks(void **p, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  assert_ptr_equal(*(void **)p[0], given);
  assert_int_equal(*(int32_t *)p[1], 5);
  assert_int_equal(*(int32_t *)p[2], 13);
  assert_int_equal(*(int64_t *)p[3], 24);
  return 0;
}

static void test_a_gpu(void **state) {
  Fixture *f = *state;
  nereid_device *d;
  fake_kernel("tuples", run_tuples);
  fake_kernel("blocks", run_blocks);
  fake->major = 9, fake->minor = 0;
  assert_ok(nereid_device_open("cuda", &d, &error));
  assert_ok(nereid_alloc(d, 4096, &given, &error));
  nereid_build *built = new_build("sm_80,sm_90a");
  ADD(built, f, "tuples", NULL, {"t", "(x=f32*, more=(f32*, f32, i32), bias=none, K=5)"}, {"out", "f32*"}, {"n", "i32"},
      {"BLOCK", "64"});
  ADD(built, f, "blocks", NULL, {"desc", "tensordesc<f32[4,8]>"}, {"out", "f32*"}, {"row", "i32"});
  nereid_bundle *b = write_and_open(f, built, d);
  Tuple t;
  const float *p = given;
  nereid_arg args[] = {tuple_of(&t, p, p + 16, 7, NULL), nereid_pointer(p, NEREID_F32), nereid_int(50)};
  assert_ok(nereid_bundle_launch(b, NULL, "tuples", one_program, args, 3, &error));
  nereid_arg block[] = {matrix(p, 5, 13, 24), nereid_pointer(p, NEREID_F32), nereid_int(3)};
  assert_ok(nereid_bundle_launch(b, NULL, "blocks", one_program, block, 3, &error));
  nereid_free(d, given);
  nereid_bundle_close(b);
  nereid_device_close(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, aot_teardown)
      T(test_tuples), T(test_tensor_descriptors), T(test_damaged_values), T(test_wrong_values), T(test_a_gpu),
  };
  aot_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
