/* Tests of reports: occupancy, sectors and passes over banks against figures made by hand, and what is said of launches
 * whose addresses are known, repeat with a period, or are decided by data. */
#include "gpu/report/counts.h"
#include "unit/runtime/runtime_kit.h"

/* ---- occupancy --------------------------------------------------------------------------------------------------- */

static void occupancy_follows_cudas_rules(void **state) {
  static const struct {
    const char *target;
    int registers, shared, warps, by_registers, by_shared, by_warps, by_blocks, blocks;
    const char *limit;
  } cases[] = {
      /* 40 registers: 1280 a warp, 12 a partition of 16384, 48 warps */
      {"sm_90a", 40, 0, 4, 12, 228, 16, 32, 12, "registers"},
      {"sm_90a", 32, 0, 4, 16, 228, 16, 32, 16, "warps"},
      {"sm_90a", 33, 0, 4, 12, 228, 16, 32, 12, "registers"}, /* handed out as 40 */
      {"sm_90a", 32, 0, 1, 64, 228, 64, 32, 32, "blocks"},
      {"sm_90a", 255, 0, 8, 1, 228, 8, 32, 1, "registers"},
      {"sm_90a", 128, 0, 16, 1, 228, 4, 32, 1, "registers"},
      {"sm_90a", 136, 0, 16, 0, 228, 4, 32, 0, "registers"},           /* 4352 a warp, 16 of them: more than 65536 */
      {"sm_90a", 168, 0, 3, 4, 228, 21, 32, 4, "registers"},           /* 3 warps a partition, 12 in all */
      {"sm_90a", 32, 48 * 1024, 4, 16, 4, 16, 32, 4, "shared memory"}, /* 49 KiB each of 228 */
      {"sm_90a", 32, 227 * 1024, 4, 16, 1, 16, 32, 1, "shared memory"},
      {"sm_90a", 32, 227 * 1024 + 1, 4, 16, 0, 16, 32, 0, "shared memory"},
      {"sm_90a", 32, 1, 4, 16, 202, 16, 32, 16, "warps"}, /* 1025 bytes are handed out as 1152 */
      {"sm_80", 64, 32 * 1024, 8, 4, 4, 8, 32, 4, "registers"},
      {"sm_86", 32, 0, 4, 16, 100, 12, 16, 12, "warps"},
      {"sm_86", 32, 0, 2, 32, 100, 24, 16, 16, "blocks"},
      {"sm_89", 32, 20 * 1024, 2, 32, 4, 24, 24, 4, "shared memory"},
      {"sm_120a", 48, 0, 32, 1, 100, 1, 24, 1, "warps"},
      {"sm_90a", 0, 0, 4, 32, 228, 16, 32, 16, "warps"}, /* not known */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    nereid_occupancy o;
    assert_ok(nereid_occupancy_of(cases[i].target, cases[i].registers, cases[i].shared, cases[i].warps, &o, &error));
    assert_int_equal(o.by_registers, cases[i].by_registers);
    assert_int_equal(o.by_shared, cases[i].by_shared);
    assert_int_equal(o.by_warps, cases[i].by_warps);
    assert_int_equal(o.by_blocks, cases[i].by_blocks);
    assert_int_equal(o.blocks, cases[i].blocks);
    assert_string_equal(o.limit, cases[i].limit);
    assert_int_equal(o.warps, cases[i].blocks * cases[i].warps);
  }
  nereid_occupancy o;
  assert_ok(nereid_occupancy_of(NULL, 33, 100, 4, &o, &error));
  assert_int_equal(o.registers_granted, 4 * 1280);
  assert_int_equal(o.shared_granted, 1152);
  assert_true(o.occupancy == 0.75);
}

static void wrong_occupancies_are_refused(void **state) {
  nereid_occupancy o;
  assert_error(nereid_occupancy_of("sm_99", 32, 0, 4, &o, &error), NEREID_NO_DEVICE,
               "error: there is no GPU's target 'sm_99'\n"
               "  hint: there are sm_80, sm_86, sm_87, sm_89, sm_90a, sm_100a, sm_103a, sm_110a, sm_120a, sm_121a\n");
  assert_error(nereid_occupancy_of("sm_80", -1, 0, 4, &o, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_occupancy_of: -1 registers, 0 bytes of shared memory and 4 warps\n"
               "  hint: registers and shared bytes are 0 or more, warps 1 or more\n");
  assert_error(nereid_occupancy_of("sm_80", 1, 0, 4, NULL, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_occupancy_of: out is NULL\n");
}

/* ---- one request ------------------------------------------------------------------------------------------------- */

enum { ALL = 0xffffffffu };

/* Threads `distance` bytes apart. */
static int sectors(uint64_t base, int distance, int bytes, uint32_t lanes, int *ideal) {
  uint64_t at[32];
  for (int i = 0; i < 32; i++) at[i] = base + (uint64_t)(distance * i);
  *ideal = gpu_request_ideal(at, lanes, bytes);
  return gpu_request_sectors(at, lanes, bytes);
}

static void sectors_of_a_request(void **state) {
  /* clang-format off */
  static const struct { uint64_t base; int distance, bytes; uint32_t lanes; int sectors, ideal; } cases[] = {
      {1024, 4, 4, ALL, 4, 4}, {1024, 8, 4, ALL, 8, 4}, {1024, 128, 4, ALL, 32, 4}, {1028, 4, 4, ALL, 5, 4},
      {1024, 16, 16, ALL, 16, 16}, {1024, 8, 8, ALL, 8, 8}, {1024, 2, 2, ALL, 2, 2}, {1024, 1, 1, ALL, 1, 1},
      {1024, 0, 4, ALL, 1, 1}, {1024, 4, 4, 0xff, 1, 1}, {1024, 4, 4, 0x55555555, 4, 2}, {1024, 4, 4, 1, 1, 1},
      {1024, -4, 4, ALL, 5, 4}, {1040, 16, 16, ALL, 17, 16}, {1024, 32, 32, ALL, 32, 32},
      {1024, 4, 4, 0x0000000fu, 1, 1},
      {1052, 4, 4, 0x3, 2, 1},       {1024, 3124, 4, ALL, 32, 4},
  };
  /* clang-format on */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int ideal, n = sectors(cases[i].base, cases[i].distance, cases[i].bytes, cases[i].lanes, &ideal);
    if (n != cases[i].sectors || ideal != cases[i].ideal) fail_msg("case %zu: %d sectors, ideal %d", i, n, ideal);
  }
}

static void check_passes(const char *what, const uint64_t at[32], uint32_t lanes, int bytes, int want, int want_ideal) {
  int ideal, n = gpu_request_wavefronts(at, lanes, bytes, true, &ideal);
  if (n != want || ideal != want_ideal) fail_msg("%s, %d bytes: %d passes, ideal %d", what, bytes, n, ideal);
}

static void check_stored(const uint64_t at[32], uint32_t lanes, int bytes, int want, int want_ideal) {
  int ideal, n = gpu_request_wavefronts(at, lanes, bytes, false, &ideal);
  if (n != want || ideal != want_ideal) fail_msg("a store, %d bytes: %d passes, ideal %d", bytes, n, ideal);
}

static void passes_over_the_banks(void **state) {
  /* clang-format off */
  static const struct { int distance, bytes; uint32_t lanes; int passes, ideal; } strides[] = {
      {4, 4, ALL, 1, 1}, {8, 4, ALL, 2, 1}, {16, 4, ALL, 4, 1}, {128, 4, ALL, 32, 1}, {132, 4, ALL, 1, 1},
      {0, 4, ALL, 1, 1},
      {12, 4, ALL, 1, 1}, {128, 4, 0xff, 8, 1}, {128, 4, 1, 1, 1}, {2, 2, ALL, 1, 1}, {1, 1, ALL, 1, 1},
      {64, 2, ALL, 16, 1},
      {8, 8, ALL, 2, 2},   {16, 8, ALL, 4, 2},   {8, 8, 0xffff, 1, 1},   {128, 8, ALL, 32, 2},  {0, 8, ALL, 1, 1},
      {16, 16, ALL, 4, 4}, {32, 16, ALL, 8, 4}, {16, 16, 0xff, 1, 1}, {128, 16, ALL, 32, 4}, {144, 16, ALL, 4, 4},
      {0, 16, ALL, 2, 2},
  };
  /* clang-format on */
  uint64_t at[32];
  for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
    for (int lane = 0; lane < 32; lane++) at[lane] = (uint64_t)(strides[i].distance * lane);
    check_passes("a stride", at, strides[i].lanes, strides[i].bytes, strides[i].passes, strides[i].ideal);
  }
  for (int lane = 0; lane < 32; lane++) at[lane] = 16 * (uint64_t)(lane / 2);
  check_passes("pairs", at, ALL, 16, 2, 2); /* the quarters of a half at once */
  check_stored(at, ALL, 16, 4, 4);
  check_stored(at, 0x55555555, 16, 4, 4);
  for (int lane = 0; lane < 32; lane++) at[lane] = 8 * (uint64_t)lane;
  check_passes("a half of the threads", at, 0x55555555, 8, 2, 1);
  check_stored(at, 0x55555555, 8, 2, 2);
  for (int lane = 0; lane < 32; lane++) at[lane] = 16 * (uint64_t)(lane % 2 + lane / 4 * 2);
  check_passes("pairs two apart", at, ALL, 16, 2, 2);
  for (int lane = 0; lane < 32; lane++) at[lane] = 16 * (uint64_t)(lane % 8);
  check_passes("quarters alike", at, ALL, 16, 4, 4);
  /* eight rows of 128 bytes, read down a column of 16 bytes: all in four banks; with the place xor'ed by the row, in
   * all */
  for (int lane = 0; lane < 32; lane++) at[lane] = 128 * (uint64_t)(lane % 8) + 16 * (uint64_t)(lane / 8);
  check_passes("columns", at, ALL, 16, 32, 4);
  for (int lane = 0; lane < 32; lane++) at[lane] = 128 * (uint64_t)(lane % 8) + 16 * (uint64_t)(lane / 8 ^ lane % 8);
  check_passes("swizzled columns", at, ALL, 16, 4, 4);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static const char text[] =
    "import triton\n"
    "import triton.language as tl\n"
    "\n"
    "@triton.jit\n"
    "def strided(x, out, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    tl.store(out + i, tl.load(x + i * STRIDE, mask=i < n), mask=i < n)\n"
    "\n"
    "@triton.jit\n"
    "def rows(x, out, stride, n, BLOCK: tl.constexpr):\n"
    "    i = tl.arange(0, BLOCK)\n"
    "    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0) * stride + i, mask=i < n, other=0.0)))\n"
    "\n"
    "@triton.jit\n"
    "def triangle(x, out, BLOCK: tl.constexpr):\n"
    "    i = tl.arange(0, BLOCK)\n"
    "    sum = tl.zeros([BLOCK], tl.float32)\n"
    "    for k in range(tl.program_id(0) + 1):\n"
    "        sum += tl.load(x + k * BLOCK + i)\n"
    "    tl.store(out + tl.program_id(0) * BLOCK + i, sum)\n"
    "\n"
    "@triton.jit\n"
    "def gather(x, index, out, BLOCK: tl.constexpr):\n"
    "    i = tl.arange(0, BLOCK)\n"
    "    tl.store(out + i, tl.load(x + tl.load(index + i)))\n"
    "\n"
    "@triton.jit\n"
    "def wait(lock):\n"
    "    while tl.atomic_add(lock, 1) == 0:\n"
    "        pass\n";

static nereid_module *module(void) {
  nereid_module *m = NULL;
  assert_ok(nereid_module_load_string("report.py", text, &m, &error));
  return m;
}

static nereid_arg constant(const char *name, int64_t v) { return nereid_named(nereid_constexpr_int(v), name); }
static void *address(uint64_t at) { return (void *)(uintptr_t)at; }

static nereid_report *report_on(nereid_module *m, const char *kernel, int64_t x, const nereid_arg *args, int n) {
  nereid_report *r = NULL;
  assert_ok(nereid_report_launch(m, kernel, (int64_t[]){x, 1, 1}, args, n, NULL, NULL, &r, &error));
  return r;
}

static nereid_report_access total(const nereid_report *r, const char *what, bool shared) {
  nereid_report_access sum = {.known = true};
  for (int i = 0; i < r->access_count; i++) {
    const nereid_report_access *a = &r->accesses[i];
    if (strcmp(a->what, what) || a->shared != shared) continue;
    sum.requests += a->requests, sum.lanes += a->lanes, sum.sectors += a->sectors,
        sum.ideal_sectors += a->ideal_sectors;
    sum.known &= a->known, sum.line = a->line, sum.bytes = a->bytes;
  }
  return sum;
}

static void strides_masks_and_alignment_show_in_sectors(void **state) {
  static const struct {
    uint64_t x;
    int64_t n, stride, requests, sectors, ideal;
  } cases[] = {
      {1 << 20, 1280, 1, 40, 160, 160},       {1 << 20, 1280, 2, 40, 320, 160}, {1 << 20, 1280, 32, 40, 1280, 160},
      {(1 << 20) + 4, 1280, 1, 40, 200, 160}, {1 << 20, 1188, 1, 38, 149, 149}, {1 << 20, 1152, 1, 36, 144, 144},
  };
  nereid_module *m = module();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    nereid_arg args[] = {nereid_pointer(address(cases[i].x), NEREID_F32), nereid_pointer(address(1 << 24), NEREID_F32),
                         nereid_int(cases[i].n), constant("STRIDE", cases[i].stride), constant("BLOCK", 128)};
    nereid_report *r = report_on(m, "strided", 10, args, 5);
    nereid_report_access load = total(r, "load", false), store = total(r, "store", false);
    if (cases[i].stride > 1 || i == 3) assert_int_equal(load.bytes, 4);
    if (load.bytes == 4) assert_int_equal(load.requests, cases[i].requests);
    assert_int_equal(load.lanes * load.bytes, cases[i].n * 4);
    assert_int_equal(load.sectors, cases[i].sectors);
    assert_int_equal(load.ideal_sectors, cases[i].ideal);
    assert_int_equal(load.line, 7);
    assert_int_equal(store.sectors, (cases[i].n * 4 + 31) / 32);
    assert_true(load.known && store.known && r->exact);
    assert_int_equal(r->programs_walked, 10);
    nereid_report_free(r);
  }
  nereid_module_free(m);
}

/* Rows of 781 floats begin in eight ways in a sector. Of 100000 programs few are walked, and the sum is that of all. */
static void rows_that_begin_anywhere_are_counted_exactly(void **state) {
  enum { N = 781, ROWS = 300000 };
  nereid_module *m = module();
  nereid_arg args[] = {nereid_pointer(address(1 << 20), NEREID_F32), nereid_pointer(address(1 << 24), NEREID_F32),
                       nereid_int(N), nereid_int(N), constant("BLOCK", 1024)};
  nereid_report *r = report_on(m, "rows", ROWS, args, 5);
  int64_t want = 0;
  for (int64_t row = 0; row < ROWS; row++)
    for (int64_t first = 0; first < N; first += 32) {
      int64_t begin = (row * N + first) * 4, end = begin + 4 * (N - first < 32 ? N - first : 32);
      want += (end + 31) / 32 - begin / 32;
    }
  nereid_report_access load = total(r, "load", false);
  assert_int_equal(load.bytes, 4);
  assert_int_equal(load.sectors, want);
  assert_int_equal(load.lanes, (int64_t)N * ROWS);
  assert_true(r->exact);
  assert_in_range(r->programs_walked, 16, 1000);
  nereid_report_free(r);
  nereid_module_free(m);
}

static void programs_that_grow_evenly_are_counted_exactly(void **state) {
  enum { PROGRAMS = 2000 };
  nereid_module *m = module();
  nereid_arg args[] = {nereid_pointer(address(1 << 20), NEREID_F32), nereid_pointer(address(1 << 24), NEREID_F32),
                       constant("BLOCK", 1024)};
  nereid_report *r = report_on(m, "triangle", PROGRAMS, args, 3);
  assert_int_equal(total(r, "load", false).sectors, (int64_t)PROGRAMS * (PROGRAMS + 1) / 2 * 128);
  assert_int_equal(total(r, "store", false).sectors, (int64_t)PROGRAMS * 128);
  assert_true(r->exact);
  assert_in_range(r->programs_walked, 8, 200);
  nereid_report_free(r);
  nereid_module_free(m);
}

static void what_data_decide_is_marked(void **state) {
  nereid_module *m = module();
  nereid_arg args[] = {nereid_pointer(address(1 << 20), NEREID_F32), nereid_pointer(address(1 << 22), NEREID_I32),
                       nereid_pointer(address(1 << 24), NEREID_F32), constant("BLOCK", 128)};
  nereid_report *r = report_on(m, "gather", 1, args, 4);
  int known = 0, unknown = 0;
  for (int i = 0; i < r->access_count; i++) r->accesses[i].known ? known++ : unknown++;
  assert_int_equal(known, 2);
  assert_int_equal(unknown, 1);
  assert_false(r->exact);
  assert_non_null(
      strstr(r->remarks,
             "line 25: data decide where or how often this load is done: it is counted as if such data were zeros\n"));
  nereid_report_free(r);
  r = report_on(m, "wait", 1, (nereid_arg[]){nereid_pointer(address(1 << 20), NEREID_I32)}, 1); /* for ever, by zeros */
  assert_false(r->exact);
  assert_non_null(strstr(r->remarks, "a program was not walked to its end"));
  int64_t beginning = r->warp_instructions;
  nereid_report_free(r);
  r = report_on(m, "wait", 6, (nereid_arg[]){nereid_pointer(address(1 << 20), NEREID_I32)}, 1);
  assert_int_equal(r->warp_instructions, 6 * beginning); /* of all programs alike */
  assert_true(beginning < 2000000); /* of what does not end, little is walked: a grid of it would take minutes */
  nereid_report_free(r);
  nereid_module_free(m);
}

/* The same gather with its indices: what they are decides on the sectors. Not where the kernel writes over them, or an
 * array that overlaps them; and what lies past their end is not known. */
static void known_indices_decide(void **state) {
  nereid_module *m = module();
  static int32_t near[128], far[128];
  for (int i = 0; i < 128; i++) near[i] = i, far[i] = i * 8;
  const struct {
    const int32_t *values;
    int64_t bytes, sectors; /* of the gather; 0: not known */
    uint64_t out;
  } cases[] = {{near, sizeof near, 16, 1 << 24},      {far, sizeof far, 128, 1 << 24},
               {far, sizeof far, 0, 1 << 22},         {far, sizeof far, 0, (1 << 22) + 256},
               {far, sizeof far, 0, (1 << 22) - 256}, {far, sizeof far, 128, (1 << 22) + sizeof far},
               {far, sizeof far / 2, 0, 1 << 24}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    nereid_arg index = nereid_pointer(address(1 << 22), NEREID_I32),
               out = nereid_pointer(address(cases[i].out), NEREID_F32);
    index.values = cases[i].values, index.bytes = cases[i].bytes;
    out.bytes = 512, out.values = far; /* what it holds does not matter */
    nereid_arg args[] = {nereid_pointer(address(1 << 20), NEREID_F32), index, out, constant("BLOCK", 128)};
    nereid_report *r = report_on(m, "gather", 1, args, 4);
    bool known = cases[i].sectors != 0;
    assert_int_equal(r->exact, known);
    assert_int_equal(r->cost.exact, known);
    nereid_report_access load = total(r, "load", false);
    if (known) assert_int_equal(load.sectors, 16 + cases[i].sectors);
    if (known) assert_int_equal(r->cost.load_distinct, 2 * 512);
    nereid_report_free(r);
  }
  nereid_module_free(m);
}

static const nereid_report_time *time_of(const nereid_report *r, const char *bound) {
  for (int i = 0; i < r->time_count; i++)
    if (!strcmp(r->times[i].bound, bound)) return &r->times[i];
  fail_msg("there is no bound '%s'", bound);
  return NULL;
}

static void waves_and_bounds_follow_from_the_machine(void **state) {
  nereid_module *m = module();
  nereid_arg args[] = {nereid_pointer(address(1 << 20), NEREID_F32),
                       nereid_pointer(address((int64_t)1 << 32), NEREID_F32), nereid_int(1 << 28),
                       constant("STRIDE", 1), constant("BLOCK", 1024)};
  nereid_report_options how = {.target = "sm_90a", .multiprocessors = 100, .clock_mhz = 1000, .memory_gbs = 1000};
  nereid_report *r = NULL;
  assert_ok(nereid_report_launch(m, "strided", (int64_t[]){1 << 18, 1, 1}, args, 5, NULL, &how, &r, &error));
  assert_int_equal(r->multiprocessors, 100);
  assert_int_equal(r->programs, 1 << 18);
  double at_once = 100.0 * r->occupancy.blocks, waves = (1 << 18) / at_once, whole = (double)(int64_t)waves + 1;
  assert_true(r->waves == waves);
  assert_true(r->tail_waste > (1 - waves / whole) - 1e-9 && r->tail_waste < (1 - waves / whole) + 1e-9);
  assert_string_equal(r->bound, "memory");
  assert_true(r->times[0].ns == (double)(1 << 28) * 8 / 1000);
  assert_true(time_of(r, "launch")->ns == 2000);
  for (int i = 1; i < r->time_count; i++) assert_true(r->times[i].ns <= r->times[i - 1].ns);
  int64_t sum = 0;
  for (int i = 0; i < r->class_count; i++) sum += r->classes[i].warps;
  assert_int_equal(sum, r->warp_instructions);
  assert_true(r->active_lanes == 32);
  char *out = NULL;
  assert_ok(nereid_report_text(r, false, &out, &error));
  assert_non_null(strstr(out, "bound         memory, at 1000 MHz"));
  free(out);
  assert_ok(nereid_report_text(r, true, &out, &error));
  assert_true(!strncmp(out, "{\"kernel\":\"strided\",", 20) && !strcmp(out + strlen(out) - 2, "}\n"));
  free(out);
  nereid_report_free(r);
  nereid_report_free(NULL);
  nereid_module_free(m);
}

static void occupancy_alone_needs_no_grid(void **state) {
  nereid_module *m = module();
  nereid_arg args[] = {nereid_pointer(address(1 << 20), NEREID_F32), nereid_pointer(address(1 << 24), NEREID_F32),
                       nereid_int(100), constant("STRIDE", 1), constant("BLOCK", 128)};
  nereid_report_options how = {.occupancy_only = true};
  nereid_options o = {.num_warps = 8};
  nereid_report *r = NULL;
  assert_ok(nereid_report_launch(m, "strided", NULL, args, 5, &o, &how, &r, &error));
  assert_false(r->counted);
  assert_int_equal(r->num_warps, 8);
  assert_int_equal(r->occupancy.by_warps, 8);
  assert_int_equal(r->access_count + r->class_count + r->time_count, 0);
  nereid_report_free(r);
  assert_error(nereid_report_launch(m, "strided", NULL, args, 5, &o, NULL, &r, &error), NEREID_BAD_ARGUMENT,
               "error: nereid_report_launch: the grid is NULL\n");
  assert_error(nereid_report_launch(m, "strided", (int64_t[]){1, -1, 1}, args, 5, &o, NULL, &r, &error),
               NEREID_BAD_ARGUMENT, "error: the grid (1, -1, 1) has -1 programs along y; 0 to 65535 are possible\n");
  assert_error(nereid_report_launch(m, "strided", (int64_t[]){INT32_MAX, 65535, 1}, args, 5, &o, NULL, &r, &error),
               NEREID_UNSUPPORTED,
               "error: 140735340806145 programs are too many to be counted: the figures would not fit\n  hint: ask for "
               "a part of the grid: 2^40 programs are counted\n");
  nereid_cost cost;
  assert_int_equal(
      nereid_launch_cost(NULL, m, "strided", (int64_t[]){INT32_MAX, 65535, 65535}, args, 5, &o, &cost, NULL),
      NEREID_UNSUPPORTED);
  how = (nereid_report_options){.multiprocessors = -1};
  assert_error(
      nereid_report_launch(m, "strided", (int64_t[]){1, 1, 1}, args, 5, &o, &how, &r, &error), NEREID_BAD_ARGUMENT,
      "error: a report on -1 multiprocessors at 0 MHz and 0 GB/s\n  hint: leave it 0 for that of a typical machine\n");
  assert_ok(nereid_report_launch(m, "strided", (int64_t[]){0, 1, 1}, args, 5, &o, NULL, &r, &error)); /* no programs */
  assert_int_equal(total(r, "load", false).requests, 0);
  nereid_report_free(r);
  nereid_module_free(m);
}

/* ---- lane IR ----------------------------------------------------------------------------------------------------- */

/* 64 threads store to shared memory at a distance of `by` bytes and read their neighbours' words. */
static GpuReport *shared_report(Context *cx, int by) {
  char source[2000];
  snprintf(
      source, sizeof source,
      "kernel @k(%%p0: b64 *f32) warps=2 {\nbuffer \"buf\" bytes=16384 align=16\n"
      "%%tid = special {tid.x} : b32\n%%lane = special {laneid} : b32\n%%base = shared {buffer=0} : b32\n%%d = "
      "const.b32 {%d} : b32\n%%c4 = const.b32 {4} : b32\n"
      "%%c8 = const.b32 {8} : b32\n%%at = fma.s32 %%tid, %%d, %%base : b32\n%%to = fma.s32 %%tid, %%c4, %%base : b32\n"
      "st.b32 %%at, %%tid {shared buffer=0}\nbarrier\n%%v = ld.b32 %%to {shared buffer=0} : b32\n"
      "%%o = mulwide.s32 %%tid, %%c4 : b64\n%%a = add.s64 %%p0, %%o : b64\n%%p = setp.s32 %%lane, %%c8 {lt} : pred\n"
      "if %%p do () {\n  st.b32 %%a, %%v {global}\n  yield\n} do () {\n  st.b32 %%a, %%tid {global +4096}\n  "
      "yield\n}\n}\n",
      by);
  LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", source, strlen(source)));
  lane_verify(f, NULL);
  return gpu_report(f, (uint64_t[]){1 << 20}, NULL, (int32_t[]){3, 1, 1});
}

static void check_shared_report(const GpuReport *r, int passes) {
  assert_int_equal(r->access_count, 4);
  for (int k = 0; k < 4; k++) {
    const GpuAccess *a = &r->accesses[k];
    assert_int_equal(a->requests, 6);
    assert_true(a->known);
    if (a->shared) assert_int_equal(a->wavefronts, 6 * (a->op->code == LANE_ST ? passes : 1));
    if (a->shared) assert_int_equal(a->ideal_wavefronts, 6);
    if (!a->shared) assert_int_equal(a->lanes, a->op->imm ? 6 * 24 : 6 * 8);
    if (!a->shared) assert_int_equal(a->sectors, a->op->imm ? 6 * 3 : 6);
  }
  assert_int_equal(r->splits, 6);
  assert_int_equal(r->classes[GC_STORE_GLOBAL], 12);
  assert_int_equal(r->classes[GC_BARRIER], 6);
  assert_true(r->threads < 32 * r->instructions);
  assert_false(r->data || r->cut || r->sampled);
}

static void bank_conflicts_of(int by, int passes) {
  Context *cx = context_create();
  if (context_try(cx)) {
    check_shared_report(shared_report(cx, by), passes);
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
}

static void bank_conflicts_and_divergence_are_counted(void **state) {
  bank_conflicts_of(4, 1), bank_conflicts_of(8, 2), bank_conflicts_of(128, 32), bank_conflicts_of(132, 1),
      bank_conflicts_of(64, 16);
}

/* An address that went through shared memory is computed, and is no data unless what was stored there is. */
static void check_address(const GpuReport *r, bool data) {
  for (int k = 0; k < r->access_count; k++) {
    const GpuAccess *a = &r->accesses[k];
    if (a->shared || a->op->code != LANE_ST) continue;
    assert_int_equal(a->known, !data);
    assert_int_equal(a->sectors, data ? 1 : 8);
  }
  assert_int_equal(r->data, data);
}

static void addresses_go_through_shared_memory(void **state) {
  static const char *const values[] = {"%v = add.s32 %tid, %tid : b32\n", "%v = ld.b32 %p0 {global} : b32\n"};
  for (volatile int data = 0; data < 2; data++) {
    Context *cx = context_create();
    char source[1000];
    snprintf(
        source, sizeof source,
        "kernel @k(%%p0: b64 *f32) warps=1 {\nbuffer \"buf\" bytes=128 align=16\n%%tid = special {tid.x} : b32\n"
        "%%base = shared {buffer=0} : b32\n%%c4 = const.b32 {4} : b32\n%%at = fma.s32 %%tid, %%c4, %%base : b32\n%s"
        "st.b32 %%at, %%v {shared buffer=0}\nbarrier {warp}\n%%i = ld.b32 %%at {shared buffer=0} : b32\n"
        "%%o = mulwide.s32 %%i, %%c4 : b64\n%%a = add.s64 %%p0, %%o : b64\nst.b32 %%a, %%tid {global}\n}\n",
        values[data]);
    if (context_try(cx)) {
      LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", source, strlen(source)));
      check_address(gpu_report(f, (uint64_t[]){1 << 20}, NULL, (int32_t[]){1, 1, 1}), data);
      context_end_try(cx);
    } else {
      fail_msg("%s", cx->diags.at[0].message);
    }
    context_destroy(cx);
  }
}

/* Two loads of which one waits for the other take twice as long as two that do not, and a loop as many times as it has
 * turns. */
static double cycles_of(const char *body) {
  Context *cx = context_create();
  double cycles = 0;
  if (context_try(cx)) {
    char source[1000];
    snprintf(source, sizeof source,
             "kernel @k(%%p: b64 *f32, %%n: b32 i32) warps=1 {\n%%c0 = const.b32 {0} : b32\n%%c1 = const.b32 {1} : "
             "b32\n%s}\n",
             body);
    LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", source, strlen(source)));
    cycles = gpu_report(f, (uint64_t[]){1 << 20, 10}, NULL, (int32_t[]){1, 1, 1})->block_cycles;
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
  return cycles;
}

static void what_waits_for_each_other_takes_longer(void **state) {
  double one = cycles_of("%a = ld.b32 %p {global} : b32\nst.b32 %p, %a {global}\n");
  assert_true(one >= 600 && one < 620);
  assert_true(cycles_of("%a = ld.b32 %p {global} : b32\n%b = ld.b32 %p {global +4} : b32\n%s = add.s32 %a, %b : "
                        "b32\nst.b32 %p, %s {global}\n") < one + 20);
  assert_true(cycles_of("%a = ld.b32 %p {global} : b32\n%o = mulwide.s32 %a, %c1 : b64\n%q = add.s64 %p, %o : b64\n%b "
                        "= ld.b32 %q {global} : b32\nst.b32 %p, %b {global}\n") >= 2 * one);
  double loop = cycles_of("%r = for.s32 %c0, %n, %c1, %c0 {uniform} : b32 do (%i: b32, %x: b32) {\n%o = mulwide.s32 "
                          "%x, %c1 : b64\n%q = add.s64 %p, %o : b64\n"
                          "%b = ld.b32 %q {global} : b32\nyield %b\n}\nst.b32 %p, %r {global}\n");
  assert_true(loop >= 10 * one && loop < 11 * one);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(occupancy_follows_cudas_rules),
      cmocka_unit_test(wrong_occupancies_are_refused),
      cmocka_unit_test(sectors_of_a_request),
      cmocka_unit_test(passes_over_the_banks),
      cmocka_unit_test(strides_masks_and_alignment_show_in_sectors),
      cmocka_unit_test(rows_that_begin_anywhere_are_counted_exactly),
      cmocka_unit_test(programs_that_grow_evenly_are_counted_exactly),
      cmocka_unit_test(what_data_decide_is_marked),
      cmocka_unit_test(known_indices_decide),
      cmocka_unit_test(waves_and_bounds_follow_from_the_machine),
      cmocka_unit_test(occupancy_alone_needs_no_grid),
      cmocka_unit_test(bank_conflicts_and_divergence_are_counted),
      cmocka_unit_test(addresses_go_through_shared_memory),
      cmocka_unit_test(what_waits_for_each_other_takes_longer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
