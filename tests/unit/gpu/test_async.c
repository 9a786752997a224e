/* Loops whose tiles come by asynchronous copies: they leave what float64 says, whatever their trip counts, steps,
 * masks, alignment and number of stages; nothing is read that the kernel does not read (the simulator knows the arrays'
 * ends); and copies are as wide as rows allow. */
#include "unit/gpu/test_async_kit.h"

/* ---- trip counts and stages -------------------------------------------------------------------------------------- */

static void every_trip_count(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int stages = 1; stages <= 5; stages++)
      for (int trips = 0; trips <= 8; trips++) {
        DotCount n = check_loop(&pointers, &usual, 0, trips * usual.bk - (trips > 1 ? 5 : 0), stages, targets[t]);
        assert_int_equal(n.copies[16] > 0, stages > 1);
        assert_int_equal(n.copies[0], n.copies[16]);
      }
}

static void every_kind_of_loop(void **state) {
  static const Loop *const loops[] = {&stepped, &computed, &hinted, &twice, &nested, &transposed, &branching};
  for (int t = 0; t < TARGETS; t++)
    for (int i = 0; i < (int)(sizeof loops / sizeof *loops); i++)
      for (int trips = 0; trips <= 9; trips++) {
        DotCount n = check_loop(loops[i], &usual, 4, 4 + trips, 3, targets[t]);
        if (!n.copies[0]) fail_msg("%s: no copies", loops[i]->name);
      }
  for (int i = 0; i < (int)(sizeof loops / sizeof *loops); i++) /* those that only multiply get warps that copy */
    for (int trips = 0; trips <= 5; trips++)
      check_case(dot_case(loops[i]->text, "sm_90a", usual.warps, 3), loops[i], &usual, 4, 4 + trips, 3, "sm_90a");
  for (int t = 0; t < TARGETS; t++)
    for (int trips = 0; trips <= 6; trips++) {
      assert_true(check_loop(&down, &usual, 7 + trips, 7, 3, targets[t]).copies[0] > 0);
      assert_true(check_loop(&down, &usual, trips - 3, -3, 4, targets[t]).copies[0] > 0);
      assert_true(check_loop(&indices, &usual, 100, 100 + 32 * trips + 7, 3, targets[t]).copies[0] > 0);
    }
}

/* Single warps read what comes by tensor maps behind a fence, which waits for loads to registers: where there are such,
 * threads copy. */
static void no_maps_beside_loads(void **state) {
  static const char text[] =
      HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, K, SCALED: tl.constexpr):\n"
           "    m = tl.arange(0, 32)\n    k = tl.arange(0, 64)\n    acc = tl.zeros([32, 32], tl.float32)\n"
           "    for i in range(0, K, 64):\n"
           "        a = tl.load(a_ptr + m[:, None] + (i + k)[None, :] * 32)\n"
           "        b = tl.load(b_ptr + (i + k)[:, None] * 32 + m[None, :])\n"
           "        if SCALED:\n            b = (b * 2.0).to(tl.float16)\n"
           "        acc = tl.dot(a, b, acc)\n"
           "    tl.store(out_ptr + m[:, None] * 32 + m[None, :], acc)\n";
  for (int scaled = 0; scaled < 2; scaled++) {
    DotCase c = dot_case(text, "sm_90a", 4, 3);
    const DotArg *a = dot_array(&c, DT_F16, 256 * 32), *b = dot_array(&c, DT_F16, 256 * 32),
                 *out = dot_array(&c, DT_F32, 32 * 32);
    dot_int(&c, 256), dot_const(&c, scaled);
    dot_run(&c, scaled ? "scaled" : "plain");
    DotCount n = dot_count(&c);
    if (!n.mma || n.wgmma || (n.tensors > 0) == scaled || !n.copies[16])
      fail_msg("%d: %d mma, %d boxes, %d copies", scaled, n.mma, n.tensors, n.copies[16]);
    for (int i = 0; i < 32 * 32; i++) {
      double want = 0;
      for (int k = 0; k < 256; k++) want += a->values[k * 32 + i / 32] * b->values[k * 32 + i % 32] * (1 + scaled);
      if (fabs(out->values[i] - want) > 1e-3 * (1 + fabs(want))) fail_msg("%d: %g, not %g", i, out->values[i], want);
    }
    dot_free(&c);
  }
}

/* More than registers hold; of any number of slots, of elements of 2 and 4 bytes. */
static void what_threads_copy_for_themselves(void **state) {
  static const Shape shapes[] = {{128, 64, 64, 0, 4, DT_F16}, {64, 32, 32, 0, 1, DT_F16}, {64, 32, 32, 0, 1, DT_F32}};
  for (int t = 0; t < TARGETS - 1; t++) /* the first asks for more memory than an A100 has for three blocks */
    for (int s = strcmp(targets[t], "sm_90a") != 0; s < (int)(sizeof shapes / sizeof *shapes); s++)
      for (int trips = 0; trips <= 6; trips++) {
        DotCount n = check_loop(&scaled, &shapes[s], 4, 4 + trips, 2 + trips % 3, targets[t]);
        if (!n.copies[0]) fail_msg("shape %d, %d times, %s: no copies", s, trips, targets[t]);
      }
}

/* Copies fill with zeros what is masked off: +0, where the kernel may have asked for -0. */
static void what_is_masked_off_has_its_sign(void **state) {
  enum { M = 128, N = 64, LONG = 512 };
  static const char text[] = HEAD
      "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr,"
      " OTHER: tl.constexpr):\n"
      "  i = tl.arange(0, M)[:, None]\n  j = tl.arange(0, N)[None, :]\n  acc = tl.zeros([M, N], tl.float32)\n"
      "  for s in range(0, K, BK):\n    k = s + tl.arange(0, BK)\n"
      "    a = tl.load(a_ptr + i * K + k[None, :], mask=k[None, :] < 0, other=-0.0 if OTHER else 0.0)\n"
      "    b = tl.load(b_ptr + k[:, None] * N + j)\n"
      "    acc += tl.dot(tl.where(1 / a.to(tl.float32) < 0, 1.0, 2.0).to(tl.float16), b)\n"
      "  tl.store(out_ptr + i * N + j, acc)\n";
  for (int t = 0; t < TARGETS - 1; t++)
    for (int negative = 0; negative < 2; negative++) {
      DotCase c = dot_case(text, targets[t], 4, 3);
      dot_array(&c, DT_F16, M * LONG);
      DotArg *b = dot_array(&c, DT_F16, LONG * N), *out = dot_array(&c, DT_F32, M * N);
      dot_const(&c, M), dot_const(&c, N), dot_const(&c, LONG), dot_const(&c, 64), dot_const(&c, negative);
      for (int i = 0; i < LONG * N; i++) ((uint16_t *)b->data)[i] = 0x3c00; /* 1 */
      dot_run(&c, "a sign");
      for (int i = 0; i < M * N; i++)
        if (out->values[i] != LONG * (negative ? 1 : 2)) fail_msg("%s, %d: %g", targets[t], i, out->values[i]);
      dot_free(&c);
    }
}

/* The loop's hint goes before the launch's number, which forbids copies or asks for others. */
static void the_loops_own_stages(void **state) {
  assert_true(check_loop(&hinted, &usual, 0, 6, 1, "sm_90a").copies[0] > 0);
  assert_int_equal(check_loop(&hinted, &usual, 0, 6, 1, "sm_90a").copies[0],
                   check_loop(&hinted, &usual, 0, 6, 5, "sm_90a").copies[0]);
  int before = 0;
  for (int stages = 2; stages <= 5; stages++) { /* one copy of each tile more before the loop */
    int copies = check_loop(&wide, &usual, 0, 32 * 6, stages, "sm_90a").copies[0];
    assert_true(copies > before);
    before = copies;
  }
}

/* Which blocks an iteration takes is read from a table, which has no entries beyond those of the iterations there are:
 * a number for each, or (LIST) one for each row of b. */
static const char table_text[] = HEAD
    "@triton.jit\ndef k(a_ptr, b_ptr, table_ptr, out_ptr, trips, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, "
    "LIST: tl.constexpr, SA: tl.constexpr):\n" TILES "    for i in range(trips):\n"
    "        if LIST:\n"
    "            at = tl.load(table_ptr + i * BK + k)\n"
    "        else:\n"
    "            at = tl.load(table_ptr + i) * BK + k\n"
    "        a = tl.load(a_ptr + m[:, None] * SA + i * BK + k[None, :])\n"
    "        acc = tl.dot(a * 2, tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n" STORE;

static void tiles_that_tables_name(void **state) {
  enum { M = 64, N = 32, BK = 32, TRIPS = 5 };
  for (int trips = 0; trips <= TRIPS; trips++)
    for (int list = 0; list < 2; list++) {
      DotCase c = whole_case(table_text, targets[(trips + list) % TARGETS], 4, 3);
      DotArg *a = dot_array(&c, DT_F16, M * TRIPS * BK), *b = dot_array(&c, DT_F16, TRIPS * BK * N),
             *table = dot_array(&c, DT_I32, list ? trips * BK : trips), *out = dot_array(&c, DT_F32, M * N);
      for (int i = 0; i < table->count; i++)
        ((int32_t *)table->data)[i] = list ? (i * 37 + 5) % (TRIPS * BK) : (i * 3 + 1) % TRIPS;
      dot_int(&c, trips), dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK), dot_const(&c, list);
      dot_const(&c, TRIPS * BK);
      dot_run(&c, list ? "rows that a table lists" : "blocks that a table lists");
      if (trips > 1) assert_true(dot_count(&c).copies[16] > 0);
      for (int e = 0; e < M * N; e++) {
        double want = 0;
        for (int i = 0; i < trips * BK; i++) {
          const int32_t *t = table->data;
          int row = list ? t[i] : t[i / BK] * BK + i % BK;
          want += 2 * a->values[e / N * TRIPS * BK + i] * b->values[row * N + e % N];
        }
        if (out->values[e] != want) fail_msg("%d trips: element %d is %g, not %g", trips, e, out->values[e], want);
      }
      dot_free(&c);
    }
}

/* ---- arrays of which a kernel knows nothing but that descriptors describe them ------------------------------------- */

static const char described_text[] = HEAD
    "@triton.jit\ndef k(a_ptr, b_ptr, sizes_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, APART: "
    "tl.constexpr):\n" TILES "    K = tl.load(sizes_ptr)\n    row = tl.load(sizes_ptr + APART)\n"
    "    a_ptr += tl.load(sizes_ptr + 2)\n"
    "    a = tl.make_tensor_descriptor(a_ptr, [M, K], [row if APART else K, 1], [M, BK])\n"
    "    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, N])\n"
    "    for i in range(0, K, BK):\n        acc = tl.dot(a.load([0, i]), b.load([i, 0]), acc)\n" STORE;

/* Rows and their beginning are at 16 bytes, as descriptors promise; where the number of columns is the stride, so is
 * their end. Where it is another, columns that end anywhere come as ever. */
static void what_descriptors_promise(void **state) {
  enum { M = 64, N = 32, BK = 32, ROW = 88, BEGIN = 8 };
  for (int t = 0; t < TARGETS; t++)
    for (int apart = 0; apart < 2; apart++) {
      int columns = apart ? 83 : ROW;
      DotCase c = whole_case(described_text, targets[t], 4, 3);
      DotArg *a = dot_array(&c, DT_F16, BEGIN + M * ROW), *b = dot_array(&c, DT_F16, ROW * N),
             *sizes = dot_array(&c, DT_I32, 3), *out = dot_array(&c, DT_F32, M * N);
      memcpy(sizes->data, (int32_t[]){columns, ROW, BEGIN}, 3 * sizeof(int32_t));
      dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK), dot_const(&c, apart);
      dot_run(&c, "described by what is loaded");
      int wide = dot_count(&c).copies[16];
      if (!apart && wide < 2) fail_msg("%s: %d copies of 16 bytes", targets[t], wide);
      for (int e = 0; e < M * N; e++) {
        double want = 0;
        for (int i = 0; i < columns; i++) want += a->values[BEGIN + e / N * ROW + i] * b->values[i * N + e % N];
        if (out->values[e] != want) fail_msg("%s: element %d is %g, not %g", targets[t], e, out->values[e], want);
      }
      dot_free(&c);
    }
}

/* ---- many tiles -------------------------------------------------------------------------------------------------- */

/* A kernel has eight tensor maps. Five loops want two each, of arrays of their own: those of the last come by
 * cp.async. */
static const char many_text[] =
    HEAD "@triton.jit\ndef k(a0, b0, a1, b1, a2, b2, a3, b3, a4, b4, out_ptr, trips, M: tl.constexpr, N: tl.constexpr, "
         "BK: tl.constexpr):\n" TILES "    a0 += m[:, None] * BK * 8 + k[None, :]\n"
         "    a1 += m[:, None] * BK * 8 + k[None, :]\n"
         "    a2 += m[:, None] * BK * 8 + k[None, :]\n"
         "    a3 += m[:, None] * BK * 8 + k[None, :]\n"
         "    a4 += m[:, None] * BK * 8 + k[None, :]\n"
         "    at = k[:, None] * N + n[None, :]\n"
         "    for i in range(trips):\n"
         "        acc = tl.dot(tl.load(a0 + i * BK), tl.load(b0 + i * BK * N + at), acc)\n"
         "    for i in range(trips):\n"
         "        acc = tl.dot(tl.load(a1 + i * BK), tl.load(b1 + i * BK * N + at), acc)\n"
         "    for i in range(trips):\n"
         "        acc = tl.dot(tl.load(a2 + i * BK), tl.load(b2 + i * BK * N + at), acc)\n"
         "    for i in range(trips):\n"
         "        acc = tl.dot(tl.load(a3 + i * BK), tl.load(b3 + i * BK * N + at), acc)\n"
         "    for i in range(trips):\n"
         "        acc = tl.dot(tl.load(a4 + i * BK), tl.load(b4 + i * BK * N + at), acc)\n" STORE;

static void more_tiles_than_maps(void **state) {
  enum { M = 64, N = 32, BK = 32, LOOPS = 5 };
  for (int trips = 1; trips <= 7; trips += 3) {
    DotCase c = whole_case(many_text, "sm_90a", 4, 3);
    DotArg *a[LOOPS], *b[LOOPS];
    for (int i = 0; i < LOOPS; i++) a[i] = dot_array(&c, DT_F16, M * 8 * BK), b[i] = dot_array(&c, DT_F16, 8 * BK * N);
    DotArg *out = dot_array(&c, DT_F32, M * N);
    dot_int(&c, trips), dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK);
    dot_run(&c, "five loops of two arrays each");
    if (trips > 1) assert_true(dot_count(&c).copies[16] > 0);
    for (int e = 0; e < M * N; e++) {
      double want = 0;
      for (int l = 0; l < LOOPS; l++)
        for (int i = 0; i < trips * BK; i++) want += a[l]->values[e / N * 8 * BK + i] * b[l]->values[i * N + e % N];
      if (out->values[e] != want) fail_msg("%d trips: element %d is %g, not %g", trips, e, out->values[e], want);
    }
    dot_free(&c);
  }
}

/* Loops of two to five iterations, a constant, with tiles that go to a product as they are and by way of arithmetic;
 * what is loaded after the loop. */
static const char short_text[] =
    HEAD "@triton.jit\ndef k(a_ptr, b_ptr, c_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, "
         "TRIPS: tl.constexpr):\n" TILES "    for i in range(TRIPS):\n"
         "        a = tl.load(a_ptr + m[:, None] * TRIPS * BK + i * BK + k[None, :])\n"
         "        b = tl.load(b_ptr + (i * BK + k)[:, None] * N + n[None, :])\n"
         "        if i >= 0:\n"
         "            acc += tl.dot(a * 2, b)\n"
         "    c = tl.load(c_ptr + m[:, None] * N + n[None, :])\n"
         "    acc += c\n" STORE;

static void loops_that_are_short(void **state) {
  enum { M = 64, N = 32, BK = 32 };
  for (int t = 0; t < TARGETS; t++)
    for (int trips = 1; trips <= 6; trips++)
      for (int stages = 2; stages <= 4; stages++) {
        DotCase c = whole_case(short_text, targets[t], 4, stages);
        DotArg *a = dot_array(&c, DT_F16, M * trips * BK), *b = dot_array(&c, DT_F16, trips * BK * N),
               *d = dot_array(&c, DT_F32, M * N), *out = dot_array(&c, DT_F32, M * N);
        dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK), dot_const(&c, trips);
        dot_run(&c, "a short loop");
        if (trips > 1) assert_true(dot_count(&c).copies[16] > 0);
        for (int e = 0; e < M * N; e++) {
          double want = d->values[e];
          for (int i = 0; i < trips * BK; i++) want += 2 * a->values[e / N * trips * BK + i] * b->values[i * N + e % N];
          if (out->values[e] != want) fail_msg("%d trips: element %d is %g, not %g", trips, e, out->values[e], want);
        }
        dot_free(&c);
      }
}

/* A chain of products, and two that take what the chain leaves: they are in flight together. */
static const char chain_text[] =
    HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, trips, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):\n" TILES
         "    h = tl.zeros([M, N], tl.float32)\n"
         "    g = tl.zeros([M, N], tl.float32)\n"
         "    for i in range(trips):\n"
         "        a = tl.load(a_ptr + i * M * BK * 2 + m[:, None] * BK + k[None, :])\n"
         "        e = tl.load(a_ptr + i * M * BK * 2 + M * BK + m[:, None] * BK + k[None, :])\n"
         "        b = tl.load(b_ptr + k[:, None] * N + n[None, :])\n"
         "        s = tl.dot(a, (b * (i + 1)).to(tl.float16))\n"
         "        s += tl.dot(e, (b + i).to(tl.float16))\n"
         "        p = (s % 4).to(tl.float16)\n"
         "        h += tl.dot(a, p)\n"
         "        g += tl.dot(e, p)\n"
         "    tl.store(out_ptr + m[:, None] * N + n[None, :], h)\n"
         "    tl.store(out_ptr + M * N + m[:, None] * N + n[None, :], g)\n";

static void products_in_flight_together(void **state) {
  enum { M = 64, N = 64, BK = 64 };
  for (int trips = 0; trips <= 3; trips++) {
    DotCase c = whole_case(chain_text, "sm_90a", 4, 3);
    DotArg *a = dot_array(&c, DT_F16, 2 * M * BK * (trips + 1)), *b = dot_array(&c, DT_F16, BK * N),
           *out = dot_array(&c, DT_F32, 2 * M * N);
    dot_int(&c, trips), dot_const(&c, M), dot_const(&c, N), dot_const(&c, BK);
    dot_run(&c, "a chain of products");
    static double s[M * N], want[2 * M * N];
    memset(want, 0, sizeof want);
    for (int i = 0; i < trips; i++) {
      const double *at = a->values + 2 * i * M * BK;
      for (int e = 0; e < M * N; e++) {
        s[e] = 0;
        for (int k = 0; k < BK; k++) {
          double x = b->values[k * N + e % N];
          s[e] += at[e / N * BK + k] * x * (i + 1) + at[M * BK + e / N * BK + k] * (x + i);
        }
        s[e] = fmod(s[e], 4);
      }
      for (int e = 0; e < 2 * M * N; e++)
        for (int k = 0; k < BK; k++) want[e] += at[e / N * BK + k] * s[k * N + e % N];
    }
    for (int e = 0; e < 2 * M * N; e++)
      if (out->values[e] != want[e]) fail_msg("%d trips: element %d is %g, not %g", trips, e, out->values[e], want[e]);
    dot_free(&c);
  }
}

/* ---- the ends of the variable's type ----------------------------------------------------------------------------- */

static void the_ends_of_the_type(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int trips = 1; trips <= 5; trips++) {
      int64_t n = (int64_t)trips * usual.bk;
      assert_true(check_loop(&wide, &usual, INT64_MAX - n, INT64_MAX, 3, targets[t]).copies[0] > 0);
      check_loop(&wide, &usual, INT64_MIN, INT64_MIN + n, 3, targets[t]);
      check_loop(&wide, &usual, INT64_MAX - n - 40, INT64_MAX - 40, 5, targets[t]);
      check_loop(&narrow, &usual, INT32_MAX - n, INT32_MAX, 3, targets[t]);
      check_loop(&narrow, &usual, INT32_MIN, INT32_MIN + n, 3, targets[t]);
      check_loop(&wide_down, &usual, INT64_MIN + trips, INT64_MIN, 4, targets[t]);
      check_loop(&down, &usual, INT32_MIN + trips, INT32_MIN, 4, targets[t]);
    }
}

/* ---- rows and what they allow ------------------------------------------------------------------------------------ */

/* Rows of a that begin at multiples of 16, 8, 4 and 2 bytes. Copies of 2 bytes there are none: that operand is loaded.
 */
static void rows_that_are_not_aligned(void **state) {
  static const int beyond[] = {8, 4, 2, 1};
  for (int t = 0; t < TARGETS; t++)
    for (int i = 0; i < 4; i++) {
      Shape s = usual;
      s.row = beyond[i];
      DotCount n = check_loop(&stepped, &s, 0, 10, 3, targets[t]);
      int bytes = 2 * beyond[i];
      assert_true(n.copies[16] > 0); /* b's, at least */
      for (int width = 4; width < 16; width *= 2)
        if ((n.copies[width] > 0) != (width == bytes))
          fail_msg("rows of a at multiples of %d bytes: %d copies of %d bytes", bytes, n.copies[width], width);
      check_loop(&pointers, &s, 0, 32 * 5 - 3, 4, targets[t]);
    }
}

static void other_shapes(void **state) {
  static const Shape shapes[] = {
      {128, 64, 64, 0, 4, DT_BF16},  {128, 128, 32, 0, 8, DT_F16}, {64, 16, 16, 0, 4, DT_F16},
      {256, 64, 32, 0, 16, DT_BF16}, {64, 256, 16, 0, 4, DT_F16},  {32, 32, 64, 0, 4, DT_F16},
      {16, 16, 64, 0, 4, DT_F16},    {64, 16, 32, 0, 16, DT_F16}, /* too few tiles for the warps: some compute copies */
      {16, 16, 128, 0, 1, DT_BF16},  {64, 64, 128, 0, 8, DT_F16},
  };
  for (int t = 0; t < TARGETS; t++)
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
      const Shape *s = &shapes[i];
      check_loop(&pointers, s, 0, 6 * s->bk - 1, 3, targets[t]);
      DotCount n = check_loop(&pointers, s, 0, 6 * s->bk, 3, targets[t]);
      bool group = (t != 2 || s->n >= 2 * s->warps) && t != 1 && s->m >= 64 && s->n >= 16 && s->warps >= 4;
      assert_true(n.copies[0] > 0);
      assert_int_equal(n.wgmma > 0, group && t == 0);
      assert_int_equal(n.tmem > 0, group && t == 2);
      assert_int_equal(n.mma > 0, !group);
      if (group && t == 0 && n.products_at_once != 1)
        fail_msg("%d by %d by %d: %d", s->m, s->n, s->bk, n.products_at_once);
    }
}

/* ---- f32, the other way round ------------------------------------------------------------------------------------ */

static void f32_that_lies_across(void **state) {
  static const Shape shapes[] = {{64, 64, 32, 0, 4},  {128, 64, 16, 0, 4},  {64, 128, 64, 0, 4},  {128, 128, 32, 0, 8},
                                 {16, 64, 32, 0, 4},  {64, 16, 32, 0, 4},   {128, 256, 32, 0, 8}, {256, 128, 16, 0, 8},
                                 {32, 128, 32, 0, 4}, {256, 64, 32, 0, 16}, {64, 256, 16, 0, 8}};
  static const char *const ways[] = {"", "specialize", "specialize,tensor_maps"};
  for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
    for (int t = 0; t < 4; t++)
      for (int trips = i ? 3 : 1; trips <= (i ? 3 : 6); trips++) {
        const Shape *s = &shapes[i];
        const Stored *of = &stored[t];
        bool turned = of->b_across, both = of->a_across && of->b_across;
        bool group =
            !both && (turned ? s->n : s->m) >= 64 && (turned ? s->m : s->n) >= 16 && s->m * s->n / 128 >= s->warps;
        DotCount n = check_stored(of, s, trips, ways[(i + trips) % 3]);
        if ((n.wgmma > 0) != group || (n.from_registers > 0) != (group && (turned || of->a_across)))
          fail_msg("%d by %d, %d warps, case %d: %d wgmma, %d from registers", s->m, s->n, s->warps, t, n.wgmma,
                   n.from_registers);
      }
  assert_int_equal(check_stored(&stored[0], &shapes[0], 3, "turn_dots").wgmma, 0);
}

/* Two products of one tile, of which one is turned: what it loads in an iteration it may still read in the next. */
static void a_turned_product_beside_another(void **state) {
  enum { M = 64, N = 64, BK = 32, TRIPS = 5 };
  DotCase c = dot_case(HEAD "@triton.jit\ndef k(a_ptr, b_ptr, c_ptr, out_ptr, trips, M: tl.constexpr, N: tl.constexpr, "
                            "BK: tl.constexpr, K: tl.constexpr):\n" TILES "    other = acc\n"
                            "    for i in range(trips):\n        at = i * BK + k\n"
                            "        a = tl.load(a_ptr + m[:, None] * K + at[None, :])\n"
                            "        acc = tl.dot(a, tl.load(b_ptr + at[:, None] * N + n[None, :]), acc)\n"
                            "        other = tl.dot(a, tl.load(c_ptr + n[None, :] * K + at[:, None]), other)\n"
                            "    acc += other\n" STORE,
                       "sm_90a", 4, 3);
  for (int way = 0; way < 2; way++) {
    DotCase turned = c;
    DotArg *a, *b, *x, *out;
    a = dot_array(&turned, DT_F32, M * BK * TRIPS), b = dot_array(&turned, DT_F32, N * BK * TRIPS);
    x = dot_array(&turned, DT_F32, N * BK * TRIPS), out = dot_array(&turned, DT_F32, M * N);
    dot_int(&turned, TRIPS), dot_const(&turned, M), dot_const(&turned, N), dot_const(&turned, BK);
    dot_const(&turned, BK * TRIPS);
    turned.specialize = way;
    dot_run(&turned, "a turned product beside another");
    assert_true(dot_count(&turned).wgmma > 0 && dot_count(&turned).mma == 0);
    for (int e = 0; e < M * N; e++) {
      double want = 0;
      for (int k = 0; k < BK * TRIPS; k++)
        want += a->values[e / N * BK * TRIPS + k] * (b->values[k * N + e % N] + x->values[e % N * BK * TRIPS + k]);
      if (out->values[e] != want) fail_msg("element %d is %g, not %g", e, out->values[e], want);
    }
    dot_free(&turned);
  }
}

static const char nothing_text[] =
    HEAD "@triton.jit\ndef k(" PARAMS ", rows):\n" TILES "    for i in range(lo, hi):\n"
         "        at = (i - lo) * BK + k\n"
         "        acc = tl.dot(tl.load(a_ptr + m[:, None] * SA + at[None, :], mask=m[:, None] < rows, other=0.0), "
         "tl.load(b_ptr + at[:, None] * N + n[None, :], mask=at[:, None] < rows * 1000, other=0.0), acc)\n" STORE;

/* Masks that let nothing through: the arrays have one element, and zeros are summed. */
static void masks_all_false(void **state) {
  for (int t = 0; t < TARGETS; t++) {
    DotCase c = whole_case(nothing_text, targets[t], 4, 3);
    dot_array(&c, DT_F16, 1), dot_array(&c, DT_F16, 1);
    DotArg *out = dot_array(&c, DT_F32, 64 * 32);
    dot_int(&c, 0), dot_int(&c, 7), dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32), dot_const(&c, 512);
    dot_int(&c, 0);
    dot_run(&c, "masks all false");
    assert_true(dot_count(&c).copies[16] > 0);
    for (int i = 0; i < 64 * 32; i++) assert_true(out->values[i] == 0);
    dot_free(&c);
  }
}

/* A mask of rows that are loaded, for what is read and for what is stored, ties neither to the other: copies are of 16
 * bytes, though sums lie by two elements, which of fp8 are less than a copy may be. */
static void a_mask_that_loads_and_stores_share(void **state) {
  static const char text[] =
      HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, rows_ptr, K, N):\n"
           "    m = tl.arange(0, 64)\n    k = tl.arange(0, 64)\n    acc = tl.zeros([64, 64], tl.float32)\n"
           "    row = tl.load(rows_ptr + m)\n    real = row < 50\n"
           "    for i in range(0, K, 64):\n"
           "        a = tl.load(a_ptr + row[:, None] * 128 + (i + k)[None, :],\n"
           "                    mask=real[:, None] & (k[None, :] < K - i), other=0.0)\n"
           "        b = tl.load(b_ptr + (i + k)[:, None] + m[None, :] * 128)\n"
           "        acc += tl.dot(a, b)\n"
           "    tl.store(out_ptr + m[:, None] * 64 + m[None, :], acc, mask=real[:, None] & (m[None, :] < N))\n";
  static const Dtype types[] = {DT_F16, DT_F8E4NV};
  for (int t = 0; t < (int)(sizeof types / sizeof *types); t++) {
    DotCase c = dot_case(text, "sm_90a", 4, 3);
    const DotArg *a = dot_array(&c, types[t], 64 * 128), *b = dot_array(&c, types[t], 64 * 128);
    DotArg *out = dot_array(&c, DT_F32, 64 * 64), *rows = dot_array(&c, DT_I32, 64);
    for (int i = 0; i < 64; i++) ((int32_t *)rows->data)[i] = i * 37 % 64;
    for (int i = 0; i < 64 * 64; i++) dot_store(out, i, 7);
    dot_int(&c, 128), dot_int(&c, 61);
    dot_run(&c, "a mask of rows");
    DotCount n = dot_count(&c);
    if (!n.wgmma || !n.copies[16] || n.copies[16] != n.copies[0])
      fail_msg("%d wgmma, %d of %d copies are of 16 bytes", n.wgmma, n.copies[16], n.copies[0]);
    for (int i = 0; i < 64 * 64; i++) {
      int row = (i / 64 * 37) % 64;
      bool stored = row < 50 && i % 64 < 61;
      double want = stored ? 0 : 7;
      for (int k = 0; k < 128 && stored; k++) want += a->values[row * 128 + k] * b->values[i % 64 * 128 + k];
      if (fabs(out->values[i] - want) > 1e-3 * (1 + fabs(want))) fail_msg("%d: %g, not %g", i, out->values[i], want);
    }
    dot_free(&c);
  }
}

/* One loop over all steps of all tiles: addresses come out of a branch where a tile begins, and are computed ahead with
 * it. Rows of a and b lie by k. */
static void a_loop_over_tiles_and_steps(void **state) {
  static const char text[] =
      HEAD "@triton.jit\ndef k(a_ptr, b_ptr, out_ptr, M, N, K, S: tl.constexpr, PROGRAMS: tl.constexpr):\n"
           "    across = tl.cdiv(N, S)\n    steps = tl.cdiv(K, 32)\n    tiles = tl.cdiv(M, S) * across\n"
           "    mine = (tiles - tl.program_id(0) + PROGRAMS - 1) // PROGRAMS\n"
           "    tile = tl.program_id(0) - PROGRAMS\n    step = -1\n"
           "    row = tl.arange(0, S)\n    column = tl.arange(0, S)\n    acc = tl.zeros([S, S], tl.float32)\n"
           "    for _ in range(steps * mine):\n"
           "        step = tl.where(step == steps - 1, 0, step + 1)\n"
           "        if step == 0:\n            tile += PROGRAMS\n"
           "            row = tile // across * S + tl.arange(0, S)\n"
           "            column = tile % across * S + tl.arange(0, S)\n"
           "            if tile > 3:\n                row = tl.where(row < M, row, 0)\n"
           "            else:\n                row = tl.minimum(row, M - 1)\n"
           "            column = tl.where(column < N, column, 0)\n"
           "        k = step * 32 + tl.arange(0, 32)\n"
           "        a = tl.load(a_ptr + row[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)\n"
           "        b = tl.load(b_ptr + k[:, None] + column[None, :] * K, mask=k[:, None] < K, other=0.0)\n"
           "        acc = tl.dot(a, b, acc)\n"
           "        if step == steps - 1:\n"
           "            m = tile // across * S + tl.arange(0, S)[:, None]\n"
           "            n = tile % across * S + tl.arange(0, S)[None, :]\n"
           "            tl.store(out_ptr + m * N + n, acc, mask=(m < M) & (n < N))\n"
           "            acc = tl.zeros([S, S], tl.float32)\n";
  enum { M = 130, N = 100, S = 64, PROGRAMS = 4 };
  for (int i = 0; i < 6; i++) {
    int K = (int[]){16, 32, 80, 160, 96, 48}[i];
    DotCase c = dot_case(text, i % 3 ? "sm_90a" : "sm_80", 4, 2 + i % 3);
    c.grid[0] = PROGRAMS;
    const DotArg *a = dot_array(&c, DT_F16, M * K), *b = dot_array(&c, DT_F16, N * K),
                 *out = dot_array(&c, DT_F32, M * N);
    dot_int(&c, M), dot_int(&c, N), dot_int(&c, K), dot_const(&c, S), dot_const(&c, PROGRAMS);
    dot_run(&c, "a loop over tiles and steps");
    DotCount n = dot_count(&c);
    if (!n.copies[16]) fail_msg("K %d: of %d copies none is of 16 bytes, %d of 4", K, n.copies[0], n.copies[4]);
    for (int at = 0; at < M * N; at++) {
      double want = 0;
      for (int k = 0; k < K; k++) want += a->values[at / N * K + k] * b->values[at % N * K + k];
      if (out->values[at] != want) fail_msg("K %d, [%d, %d] is %g, not %g", K, at / N, at % N, out->values[at], want);
    }
    dot_free(&c);
  }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* The rings leave room for the operands of a product in a branch. */
static void products_in_branches_have_room(void **state) {
  static const char text[] = HEAD "@triton.jit\ndef k(a_ptr, b_ptr, c_ptr, out_ptr, n):\n"
                                  "    m = tl.arange(0, 128)\n"
                                  "    k = tl.arange(0, 64)\n"
                                  "    at = k[:, None] * 64 + k[None, :]\n"
                                  "    rows = m[:, None] * 64 + k[None, :]\n"
                                  "    s = tl.zeros([128, 64], tl.float32)\n"
                                  "    t = tl.zeros([128, 64], tl.float32)\n"
                                  "    for i in range(n):\n"
                                  "        a = tl.load(a_ptr + rows + i * 8192)\n"
                                  "        tl.store(a_ptr + rows + i * 8192, -a)\n"
                                  "        b = tl.load(b_ptr + at + i * 4096)\n"
                                  "        c = tl.trans(tl.load(c_ptr + at + i * 4096))\n"
                                  "        s = tl.dot(a, b, s, input_precision=\"bf16x3\")\n"
                                  "        if i == 1:\n"
                                  "            t += tl.dot(a, c, input_precision=\"tf32\")\n"
                                  "    tl.store(out_ptr + rows, s + t)\n";
  enum { M = 128, K = 64, N = 3 };
  for (int stages = 2; stages <= 5; stages++) {
    DotCase c = dot_case(text, "sm_80", 2, stages);
    DotArg *a = dot_array(&c, DT_F32, M * K * N), *b = dot_array(&c, DT_F32, K * K * N),
           *x = dot_array(&c, DT_F32, K * K * N), *out = dot_array(&c, DT_F32, M * K);
    dot_int(&c, N);
    dot_run(&c, "a product in a branch");
    for (int i = 0; i < M; i++)
      for (int j = 0; j < K; j++) {
        double sum = 0; /* of a, which was negated */
        for (int k = 0; k < K; k++) {
          for (int n = 0; n < N; n++) sum -= a->values[(n * M + i) * K + k] * b->values[(n * K + k) * K + j];
          sum -= a->values[(M + i) * K + k] * x->values[(K + j) * K + k];
        }
        if (out->values[i * K + j] != sum)
          fail_msg("%d stages: [%d, %d] is %g, not %g", stages, i, j, out->values[i * K + j], sum);
      }
    dot_free(&c);
  }
}

static void attention_forward_and_backward(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int causal = 0; causal < 2; causal++) {
      check_attention(&(Attention){130, 64, 64, 64, 4, DT_F16, causal, targets[t]});
      check_attention(&(Attention){100, 32, 64, 32, 4, DT_BF16, causal, targets[t]});
    }
  check_attention(&(Attention){256, 64, 128, 64, 8, DT_F16, true, "sm_90a"});
}

/* ---- boxes of three dims ----------------------------------------------------------------------------------------- */

/* A batch by descriptors of three dims: tiles of two come by tensor maps, and leave by one, as those of two dims do. */
static void batches(void **state) {
  static const char text[] = HEAD "@triton.jit\n"
                                  "def k(a, b, c, N: tl.constexpr, K: tl.constexpr, S: tl.constexpr):\n"
                                  "  a_desc = tl.make_tensor_descriptor(a, [3, S, S], [S * S, S, 1], [1, 64, K])\n"
                                  "  b_desc = tl.make_tensor_descriptor(b, [3, S, S], [S * S, S, 1], [1, K, N])\n"
                                  "  c_desc = tl.make_tensor_descriptor(c, [3, S, S], [S * S, S, 1], [1, 64, N])\n"
                                  "  m = tl.program_id(0) * 64\n"
                                  "  i = tl.program_id(1)\n"
                                  "  acc = tl.zeros([64, N], tl.float32)\n"
                                  "  for k in range(0, S, K):\n"
                                  "    x = tl.reshape(a_desc.load([i, m, k]), [64, K])\n"
                                  "    y = tl.reshape(b_desc.load([i, k, 0]), [K, N])\n"
                                  "    acc = tl.dot(x, y, acc)\n"
                                  "  c_desc.store([i, m, 0], tl.reshape(acc.to(tl.bfloat16), [1, 64, N]))\n";
  enum { S = 128, N = 64, BATCH = 3 };
  DotCase c = dot_case(text, "sm_90a", 4, 3);
  for (int i = 0; i < 3; i++) dot_array(&c, DT_BF16, BATCH * S * S);
  dot_const(&c, N), dot_const(&c, 32), dot_const(&c, S);
  c.grid[0] = S / 64, c.grid[1] = BATCH + 1; /* one batch more than there are: nothing is loaded, nor stored */
  dot_run(&c, "a batch");
  DotCount n = dot_count(&c);
  assert_true(n.wgmma > 0 && n.tensors > 0 && n.copies[0] == n.tensors);
  for (int i = 0; i < BATCH * S * N; i++) {
    int batch = i / (S * N), row = i / N % S, column = i % N;
    double want = 0;
    for (int k = 0; k < S; k++)
      want += c.args[0].values[(batch * S + row) * S + k] * c.args[1].values[(batch * S + k) * S + column];
    uint16_t bits;
    dtype_store_float(DT_BF16, &bits, want);
    assert_true(c.args[2].values[(batch * S + row) * S + column] == dtype_load_float(DT_BF16, &bits));
  }
  dot_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_trip_count),
      cmocka_unit_test(no_maps_beside_loads),
      cmocka_unit_test(every_kind_of_loop),
      cmocka_unit_test(what_threads_copy_for_themselves),
      cmocka_unit_test(what_is_masked_off_has_its_sign),
      cmocka_unit_test(the_loops_own_stages),
      cmocka_unit_test(tiles_that_tables_name),
      cmocka_unit_test(what_descriptors_promise),
      cmocka_unit_test(more_tiles_than_maps),
      cmocka_unit_test(loops_that_are_short),
      cmocka_unit_test(products_in_flight_together),
      cmocka_unit_test(the_ends_of_the_type),
      cmocka_unit_test(rows_that_are_not_aligned),
      cmocka_unit_test(other_shapes),
      cmocka_unit_test(f32_that_lies_across),
      cmocka_unit_test(a_turned_product_beside_another),
      cmocka_unit_test(masks_all_false),
      cmocka_unit_test(a_mask_that_loads_and_stores_share),
      cmocka_unit_test(a_loop_over_tiles_and_steps),
      cmocka_unit_test(products_in_branches_have_room),
      cmocka_unit_test(attention_forward_and_backward),
      cmocka_unit_test(batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
