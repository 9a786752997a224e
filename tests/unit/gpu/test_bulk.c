/* Warps that go their own ways, and copies by tensor maps, in the simulator: what they bring is right at every seed,
 * and each thing that a kernel must do for that is missed when it is left out. */
#include "gpu/gpu.h"
#include "rt/tensor_map.h"
#include "unit/gpu/test_order_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h> /* after base.h: it makes a macro of fail */

enum { SEEDS = 12, ROWS = 8, COLUMNS = 32, MOST = 9 };

/* Two warps add up n tiles that the third one copies to a ring of two slots. A tile: 8 rows of 32 f32, swizzled. */
static const char ring_text[] =
    "kernel @k(%out: b64 *f32, %n: b32 i32, %map: b64) warps=3 hidden=1 maps=1 {\n"
    "  buffer \"ring\" bytes=2048 align=1024 ring=2\n"
    "  buffer \"barriers\" bytes=32 align=8\n"
    "  %tid = special {tid.x} : b32\n"
    "  %c0 = const.b32 {0} : b32\n  %c1 = const.b32 {1} : b32\n  %c3 = const.b32 {3} : b32\n"
    "  %c7 = const.b32 {7} : b32\n  %c8 = const.b32 {8} : b32\n  %c64 = const.b32 {64} : b32\n"
    "  %c16 = const.b32 {16} : b32\n  %c128 = const.b32 {128} : b32\n  %c1024 = const.b32 {1024} : b32\n"
    "  %ring = shared {buffer=0} : b32\n  %bars = shared {buffer=1} : b32\n"
    "  %first = setp.s32 %tid, %c0 {eq} : pred\n"
    "  if %first do () {\n"
    "    mbar_init %bars, %c1 {shared buffer=1}\n    mbar_init %bars, %c1 {shared buffer=1 +8}\n"
    "    mbar_init %bars, %c64 {shared buffer=1 +16}\n    mbar_init %bars, %c64 {shared buffer=1 +24}\n"
    "    fence_mbar\n    yield\n  } do () {\n    yield\n  }\n"
    "  barrier\n"
    "  %reads = setp.s32 %tid, %c64 {lt} : pred\n"
    "  if %reads {warps=2} do () {\n"
    "    %row = shr.s32 %tid, %c3 : b32\n    %x = xor.b32 %tid, %row : b32\n    %chunk = and.b32 %x, %c7 : b32\n"
    "    %a = fma.s32 %row, %c128, %ring : b32\n    %at = fma.s32 %chunk, %c16, %a : b32\n"
    "    %s0, %s1, %s2, %s3 = for.s32 %c0, %n, %c1, %c0, %c0, %c0, %c0 : b32, b32, b32, b32\n"
    "    do (%i: b32, %v0: b32, %v1: b32, %v2: b32, %v3: b32) {\n"
    "      %slot = and.b32 %i, %c1 : b32\n      %half = shr.s32 %i, %c1 : b32\n      %phase = and.b32 %half, %c1 : "
    "b32\n"
    "      %bar = fma.s32 %slot, %c8, %bars : b32\n      %from = fma.s32 %slot, %c1024, %at : b32\n"
    "      mbar_wait %bar, %phase {shared buffer=1}\n"
    "      %x0, %x1, %x2, %x3 = ld.b32 %from {shared buffer=0} : b32, b32, b32, b32\n"
    "      fence_proxy\n"
    "      mbar_arrive %bar {shared buffer=1 +16}\n"
    "      %y0 = add.f32 %v0, %x0 : b32\n      %y1 = add.f32 %v1, %x1 : b32\n"
    "      %y2 = add.f32 %v2, %x2 : b32\n      %y3 = add.f32 %v3, %x3 : b32\n"
    "      yield %y0, %y1, %y2, %y3\n    }\n"
    "    %off = mulwide.s32 %tid, %c16 : b64\n    %to = add.s64 %out, %off : b64\n"
    "    st.b32 %to, %s0, %s1, %s2, %s3 {global}\n    yield\n"
    "  } do () {\n"
    "    %one = elect : pred\n"
    "    if %one do () {\n"
    "      for.s32 %c0, %n, %c1 do (%pi: b32) {\n"
    "        %pslot = and.b32 %pi, %c1 : b32\n        %phalf = shr.s32 %pi, %c1 : b32\n"
    "        %pother = add.s32 %phalf, %c1 : b32\n        %pphase = and.b32 %pother, %c1 : b32\n"
    "        %pbar = fma.s32 %pslot, %c8, %bars : b32\n        %pinto = fma.s32 %pslot, %c1024, %ring : b32\n"
    "        %pline = mul.s32 %pi, %c8 : b32\n"
    "        mbar_wait %pbar, %pphase {shared buffer=1 +16}\n"
    "        mbar_expect %pbar, %c1024 {shared buffer=1}\n"
    "        tensor_load %pinto, %pbar, %map, %c0, %pline {shared buffer=0}\n"
    "        yield\n      }\n      yield\n    } do () {\n      yield\n    }\n    yield\n  }\n}\n";

/* Four warps write a tile, which is stored twice: after it is read, the tile is written anew. */
static const char store_text[] =
    "kernel @k(%out: b64 *f32, %n: b32 i32, %map: b64) warps=4 hidden=1 maps=1 {\n"
    "  buffer \"tile\" bytes=2048 align=1024\n"
    "  %tid = special {tid.x} : b32\n  %tile = shared {buffer=0} : b32\n"
    "  %c0 = const.b32 {0} : b32\n  %c8 = const.b32 {8} : b32\n  %c16 = const.b32 {16} : b32\n"
    "  %one = const.b32 {0x3f800000} : b32\n  %two = const.b32 {0x40000000} : b32\n"
    "  %at = fma.s32 %tid, %c16, %tile : b32\n  %first = setp.s32 %tid, %c0 {eq} : pred\n"
    "  %read = setp.s32 %n, %c0 {ne} : pred\n"
    "  st.b32 %at, %one, %one, %one, %one {shared buffer=0}\n"
    "  fence_proxy\n"
    "  barrier\n"
    "  if %first do () {\n"
    "    tensor_store %tile, %map, %c0, %c0 {shared buffer=0}\n"
    "    tensor_red %tile, %map, %c16, %c8 {shared add buffer=0}\n"
    "    bulk_commit\n    bulk_wait {read}\n    yield\n  } do () {\n    yield\n  }\n"
    "  barrier\n"
    "  st.b32 %at, %two, %two, %two, %two {shared buffer=0}\n"
    "  fence_proxy\n"
    "  barrier\n"
    "  if %first do () {\n"
    "    tensor_red %tile, %map, %c0, %c8 {shared add buffer=0}\n"
    "    bulk_commit\n    bulk_wait\n    yield\n  } do () {\n    yield\n  }\n}\n";

/* The ring of two blocks of a cluster, which copy tiles in turn, for both. */
static const char cluster_text[] =
    "kernel @k(%out: b64 *f32, %n: b32 i32, %map: b64) warps=3 hidden=1 maps=1 cluster=2 {\n"
    "  buffer \"ring\" bytes=2048 align=1024 ring=2\n"
    "  buffer \"barriers\" bytes=32 align=8\n"
    "  %tid = special {tid.x} : b32\n"
    "  %rank = special {cluster_ctarank} : b32\n"
    "  %size = special {cluster_nctarank} : b32\n"
    "  %c0 = const.b32 {0} : b32\n"
    "  %c1 = const.b32 {1} : b32\n"
    "  %c3 = const.b32 {3} : b32\n"
    "  %c7 = const.b32 {7} : b32\n"
    "  %c8 = const.b32 {8} : b32\n"
    "  %c64 = const.b32 {64} : b32\n"
    "  %c16 = const.b32 {16} : b32\n"
    "  %readers = mul.s32 %size, %c64 : b32\n"
    "  %c128 = const.b32 {128} : b32\n"
    "  %c1024 = const.b32 {1024} : b32\n"
    "  %ring = shared {buffer=0} : b32\n"
    "  %bars = shared {buffer=1} : b32\n"
    "  %first = setp.s32 %tid, %c0 {eq} : pred\n"
    "  if %first do () {\n"
    "    mbar_init %bars, %c1 {shared buffer=1}\n"
    "    mbar_init %bars, %c1 {shared buffer=1 +8}\n"
    "    mbar_init %bars, %readers {shared buffer=1 +16}\n"
    "    mbar_init %bars, %readers {shared buffer=1 +24}\n"
    "    fence_mbar\n"
    "    yield\n"
    "  } do () {\n"
    "    yield\n"
    "  }\n"
    "  cluster_barrier\n"
    "  %reads = setp.s32 %tid, %c64 {lt} : pred\n"
    "  if %reads {warps=2} do () {\n"
    "    %row = shr.s32 %tid, %c3 : b32\n"
    "    %x = xor.b32 %tid, %row : b32\n"
    "    %chunk = and.b32 %x, %c7 : b32\n"
    "    %a = fma.s32 %row, %c128, %ring : b32\n"
    "    %at = fma.s32 %chunk, %c16, %a : b32\n"
    "    %s0, %s1, %s2, %s3 = for.s32 %c0, %n, %c1, %c0, %c0, %c0, %c0 : b32, b32, b32, b32\n"
    "    do (%i: b32, %v0: b32, %v1: b32, %v2: b32, %v3: b32) {\n"
    "      %slot = and.b32 %i, %c1 : b32\n"
    "      %half = shr.s32 %i, %c1 : b32\n"
    "      %phase = and.b32 %half, %c1 : b32\n"
    "      %bar = fma.s32 %slot, %c8, %bars : b32\n"
    "      %from = fma.s32 %slot, %c1024, %at : b32\n"
    "      mbar_wait %bar, %phase {shared buffer=1}\n"
    "      %x0, %x1, %x2, %x3 = ld.b32 %from {shared buffer=0} : b32, b32, b32, b32\n"
    "      fence_proxy\n"
    "      mbar_arrive %bar, %c0 {shared buffer=1 +16}\n"
    "      mbar_arrive %bar, %c1 {shared buffer=1 +16}\n"
    "      %y0 = add.f32 %v0, %x0 : b32\n"
    "      %y1 = add.f32 %v1, %x1 : b32\n"
    "      %y2 = add.f32 %v2, %x2 : b32\n"
    "      %y3 = add.f32 %v3, %x3 : b32\n"
    "      yield %y0, %y1, %y2, %y3\n"
    "    }\n"
    "    %mine = fma.s32 %rank, %c64, %tid : b32\n"
    "    %off = mulwide.s32 %mine, %c16 : b64\n"
    "    %to = add.s64 %out, %off : b64\n"
    "    st.b32 %to, %s0, %s1, %s2, %s3 {global}\n"
    "    yield\n"
    "  } do () {\n"
    "    %one = elect : pred\n"
    "    if %one do () {\n"
    "      for.s32 %c0, %n, %c1 do (%pi: b32) {\n"
    "        %pslot = and.b32 %pi, %c1 : b32\n"
    "        %phalf = shr.s32 %pi, %c1 : b32\n"
    "        %pother = add.s32 %phalf, %c1 : b32\n"
    "        %pphase = and.b32 %pother, %c1 : b32\n"
    "        %pbar = fma.s32 %pslot, %c8, %bars : b32\n"
    "        %pinto = fma.s32 %pslot, %c1024, %ring : b32\n"
    "        %pline = mul.s32 %pi, %c8 : b32\n"
    "        mbar_wait %pbar, %pphase {shared buffer=1 +16}\n"
    "        mbar_expect %pbar, %c1024 {shared buffer=1}\n"
    "        %turn = and.b32 %pi, %c1 : b32\n"
    "        %own = setp.s32 %turn, %rank {eq} : pred\n"
    "        if %own do () {\n"
    "          tensor_load %pinto, %pbar, %map, %c0, %pline {shared multicast=3 buffer=0}\n"
    "          yield\n"
    "        } do () {\n"
    "          yield\n"
    "        }\n"
    "        yield\n"
    "      }\n"
    "      yield\n"
    "    } do () {\n"
    "      yield\n"
    "    }\n"
    "    yield\n"
    "  }\n"
    "  cluster_barrier\n"
    "}\n";

typedef struct Case {
  Context *cx;
  LaneFunc *f;
} Case;

static Case parse(const char *text) {
  Case c = {.cx = context_create()};
  if (context_try(c.cx)) {
    c.f = lane_parse(c.cx, source_from_text(c.cx, "t.lane", text, strlen(text)));
    lane_verify(c.f, NULL);
    context_end_try(c.cx);
  } else {
    fail_msg("%s", c.cx->diags.at[0].message);
  }
  return c;
}

typedef union Map128 {
  GpuTensorMap map;
  _Alignas(GPU_MAP_ALIGN) char bytes[GPU_MAP_BYTES];
} Map128;

static Map128 map_of(float *array, int columns, int rows, int box_rows, int swizzle) {
  Map128 m = {.map = {.magic = GPU_MAP_MAGIC,
                      .rank = 2,
                      .swizzle = (uint8_t)swizzle,
                      .dtype = DT_F32,
                      .base = (uintptr_t)array,
                      .sizes = {(uint64_t)columns, (uint64_t)rows, 1, 1, 1},
                      .strides = {(uint64_t)columns * 4},
                      .box = {32, (uint16_t)box_rows, 1, 1, 1}}};
  return m;
}

typedef struct Bounds {
  const float *at;
  int64_t count;
} Bounds;

static bool inside(void *arg, uint64_t address, int bytes, bool write) {
  const Bounds *b = arg;
  for (int i = 0; i < 2; i++, b++)
    if (address >= (uintptr_t)b->at && address + (uint64_t)bytes <= (uintptr_t)(b->at + b->count)) return true;
  return false;
}

static bool run(const LaneFunc *f, float *out, int64_t out_count, float *array, int64_t count, int n, const Map128 *map,
                uint64_t seed, LaneSimFault *fault) {
  int32_t grid[] = {1, 1, 1};
  Bounds bounds[] = {{out, out_count}, {array, count}};
  LaneSimOptions o = {.grid = grid, .end = 1, .seed = seed, .check = inside, .check_arg = bounds};
  return lane_sim_run(f, (uint64_t[]){(uintptr_t)out, (uint64_t)n, (uintptr_t)map}, &o, fault);
}

/* ---- a ring ------------------------------------------------------------------------------------------------------ */

/* columns: of the array; its rows end before the last tile does. Whether it ended without a fault. */
static bool run_ring(const LaneFunc *f, int n, uint64_t seed, LaneSimFault *fault) {
  int rows = n ? n * ROWS - 3 : 1, columns = COLUMNS - 4;
  float *array = malloc(sizeof *array * (size_t)(rows * columns)), out[ROWS * COLUMNS] = {0};
  for (int i = 0; i < rows * columns; i++) array[i] = (float)(i % 1000);
  Map128 map = map_of(array, columns, rows, ROWS, 3);
  bool ok = run(f, out, ROWS * COLUMNS, array, rows * columns, n, &map, seed, fault);
  for (int r = 0; ok && r < ROWS; r++)
    for (int c = 0; ok && c < COLUMNS; c++) {
      float want = 0;
      for (int i = 0; i < n; i++) want += c < columns && i * ROWS + r < rows ? array[(i * ROWS + r) * columns + c] : 0;
      if (out[r * COLUMNS + c] != want) {
        ok = false;
        snprintf(fault->message, sizeof fault->message, "%g, not %g", (double)out[r * COLUMNS + c], (double)want);
      }
    }
  free(array);
  return ok;
}

static void a_ring_brings_every_tile(void **state) {
  Case c = parse(ring_text);
  LaneSimFault fault;
  for (int n = 0; n < MOST; n++)
    for (uint64_t seed = 0; seed < SEEDS; seed++)
      if (!run_ring(c.f, n, seed, &fault)) fail_msg("%d tiles, seed %d: %s", n, (int)seed, fault.message);
  context_destroy(c.cx);
}

static bool orders(const LaneOp *op) {
  return lane_is_mbar(op->code) || op->code == LANE_FENCE_MBAR || op->code == LANE_FENCE_PROXY ||
         op->code == LANE_BARRIER || op->code == LANE_BULK_WAIT || op->code == LANE_BULK_COMMIT;
}

static bool ring_is_wrong(const Case *c) {
  LaneSimFault fault;
  bool seen = !order_verifies(c->f);
  for (int n = MOST - 3; n < MOST && !seen; n++)
    for (uint64_t seed = 0; seed < SEEDS && !seen; seed++) seen = !run_ring(c->f, n, seed, &fault);
  return seen;
}

static void a_ring_needs_all_that_it_waits_for(void **state) {
  int n = 0;
  for (;; n++) {
    Case c = parse(ring_text);
    LaneOp *op = order_find(c.f, orders, n);
    if (op) lane_remove(op);
    if (op && !ring_is_wrong(&c)) fail_msg("nobody misses number %d, %s", n, lane_info[op->code].name);
    context_destroy(c.cx);
    if (!op) break;
  }
  assert_int_equal(n, 11);
}

/* ---- a ring of two blocks ---------------------------------------------------------------------------------------- */

/* Whether both blocks end without a fault and have summed up all tiles. */
static bool run_cluster(const LaneFunc *f, int n, uint64_t seed, LaneSimFault *fault) {
  enum { EACH = ROWS * COLUMNS };
  int32_t grid[] = {2, 1, 1};
  float *array = malloc(sizeof *array * (size_t)(EACH * n + 1)), out[2 * EACH] = {0};
  for (int i = 0; i < EACH * n; i++) array[i] = (float)(i % 1000);
  Map128 map = map_of(array, COLUMNS, n ? n * ROWS : 1, ROWS, 3);
  Bounds bounds[] = {{out, 2 * EACH}, {array, EACH * n}};
  LaneSimOptions o = {.grid = grid, .end = 2, .cluster = 2, .seed = seed, .check = inside, .check_arg = bounds};
  bool ok = lane_sim_run(f, (uint64_t[]){(uintptr_t)out, (uint64_t)n, (uintptr_t)&map}, &o, fault);
  for (int i = 0; ok && i < 2 * EACH; i++) {
    float want = 0;
    for (int k = 0; k < n; k++) want += array[k * EACH + i % EACH];
    ok = out[i] == want;
  }
  free(array);
  return ok;
}

static bool orders_blocks(const LaneOp *op) { return orders(op) || op->code == LANE_CLUSTER_BARRIER; }

static void a_cluster_needs_all_that_it_waits_for(void **state) {
  LaneSimFault fault;
  int n = -1;
  for (bool any = true; any; n++) { /* first as it is */
    Case c = parse(cluster_text);
    LaneOp *op = n < 0 ? NULL : order_find(c.f, orders_blocks, n);
    any = op || n < 0;
    if (op) lane_remove(op);
    bool seen = !order_verifies(c.f);
    for (int tiles = n < 0 ? 0 : MOST - 2; tiles < MOST && !seen; tiles++)
      for (uint64_t seed = 0; seed < SEEDS && !seen; seed++) seen = !run_cluster(c.f, tiles, seed, &fault);
    if (seen != (op != NULL)) fail_msg("number %d: %s", n, seen ? fault.message : lane_info[op->code].name);
    context_destroy(c.cx);
  }
  assert_int_equal(n, 13 + 1);
}

static void change(LaneOp *op, void *arg) {
  if (op->code == LANE_MBAR_ARRIVE) op->in[1] = arg;
}

static void find_eight(LaneOp *op, void *arg) {
  if (op->code == LANE_CONST && op->imm == 8) *(LaneValue **)arg = op->out[0];
}

/* A block that is not there, and multicasts and barriers of what is no cluster. */
static void what_is_no_cluster(void **state) {
  Case c = parse(cluster_text);
  LaneSimFault fault;
  LaneValue *eight = NULL;
  lane_walk(c.f->body, find_eight, &eight);
  lane_walk(c.f->body, change, eight);
  assert_false(run_cluster(c.f, 3, 1, &fault));
  assert_non_null(strstr(fault.message, "there is no block 8: the cluster has 2"));
  c.f->cluster = 0;
  assert_false(order_verifies(c.f));
  context_destroy(c.cx);
}

/* ---- stores ------------------------------------------------------------------------------------------------------ */

enum { OUT_ROWS = 21, OUT_COLUMNS = 28 };

static bool run_store(const LaneFunc *f, uint64_t seed, LaneSimFault *fault) {
  float array[OUT_ROWS * OUT_COLUMNS];
  for (int i = 0; i < OUT_ROWS * OUT_COLUMNS; i++) array[i] = 0.5f;
  Map128 map = map_of(array, OUT_COLUMNS, OUT_ROWS, 16, 0);
  bool ok = run(f, array, OUT_ROWS * OUT_COLUMNS, array, OUT_ROWS * OUT_COLUMNS, 0, &map, seed, fault);
  for (int r = 0; ok && r < OUT_ROWS; r++)
    for (int c = 0; ok && c < OUT_COLUMNS; c++) {
      float want = (r < 16 ? 1 : 0.5f) + (r >= 8 && c >= 16 ? 1 : 0) + (r >= 8 ? 2 : 0);
      if (array[r * OUT_COLUMNS + c] == want) continue;
      /* a store and an addition to one place are in no order */
      if (r >= 8 && r < 16 && c >= 16 && array[r * OUT_COLUMNS + c] == 3) continue;
      ok = false;
      snprintf(fault->message, sizeof fault->message, "row %d, column %d: %g, not %g", r, c,
               (double)array[r * OUT_COLUMNS + c], (double)want);
    }
  return ok;
}

static void stores_leave_the_tile(void **state) {
  Case c = parse(store_text);
  LaneSimFault fault;
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    if (!run_store(c.f, seed, &fault)) fail_msg("seed %d: %s", (int)seed, fault.message);
  context_destroy(c.cx);
}

static void stores_need_their_waits(void **state) {
  int n = 0;
  for (;; n++) {
    Case c = parse(store_text);
    LaneSimFault fault;
    LaneOp *op = order_find(c.f, orders, n);
    bool seen = !op;
    if (op) lane_remove(op);
    for (uint64_t seed = 0; seed < SEEDS && !seen; seed++) seen = !run_store(c.f, seed, &fault);
    if (!seen) fail_msg("nobody misses number %d, %s", n, lane_info[op->code].name);
    context_destroy(c.cx);
    if (!op) break;
  }
  assert_int_equal(n, 9);
}

/* What a thread stores and what another warp's copy brings to the same place are in no order without a barrier; where
 * both add they need none. */
static void copies_race_with_stores(void **state) {
  static const struct {
    const char *own, *copy;
    bool barrier, races;
  } all[] = {
      {"st.b32 %out, %one {global}", "tensor_store", false, true},
      {"st.b32 %out, %one {global}", "tensor_store", true, false},
      {"st.b32 %out, %one {global}", "tensor_red", false, true},
      {"atom.f32 %out, %one {global add relaxed gpu}", "tensor_red", false, false},
      {"atom.f32 %out, %one {global add relaxed gpu}", "tensor_store", false, true},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    Context *cx = context_create();
    const char *text = arena_printf(
        cx->arena,
        "kernel @k(%%out: b64 *f32, %%n: b32 i32, %%map: b64) warps=2 hidden=1 maps=1 {\n"
        "  buffer \"tile\" bytes=2048 align=1024\n"
        "  %%tid = special {tid.x} : b32\n  %%tile = shared {buffer=0} : b32\n"
        "  %%c0 = const.b32 {0} : b32\n  %%c32 = const.b32 {32} : b32\n  %%c64 = const.b32 {64} : b32\n"
        "  %%one = const.b32 {0x3f800000} : b32\n  %%two = const.b32 {0x40000000} : b32\n"
        "  %%at = fma.s32 %%tid, %%c32, %%tile : b32\n"
        "  %%first = setp.s32 %%tid, %%c0 {eq} : pred\n  %%other = setp.s32 %%tid, %%c32 {eq} : pred\n"
        "  st.b32 %%at, %%two, %%two, %%two, %%two {shared buffer=0}\n"
        "  st.b32 %%at, %%two, %%two, %%two, %%two {shared buffer=0 +16}\n"
        "  fence_proxy\n  barrier\n"
        "  if %%other do () {\n    %s\n    yield\n  } do () {\n    yield\n  }\n"
        "  %s\n"
        "  if %%first do () {\n    %s %%tile, %%map, %%c0, %%c0 {shared %sbuffer=0}\n"
        "    bulk_commit\n    bulk_wait\n    yield\n  } do () {\n    yield\n  }\n}\n",
        all[i].own, all[i].barrier ? "barrier" : "", all[i].copy, strcmp(all[i].copy, "tensor_red") ? "" : "add ");
    Case c = parse(text);
    LaneSimFault fault = {{0}};
    bool seen = false;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
      float array[16 * 32] = {0};
      Map128 map = map_of(array, 32, 16, 16, 0);
      if (run(c.f, array, 16 * 32, array, 16 * 32, 0, &map, seed, &fault)) continue;
      if (!all[i].races || !strstr(fault.message, "barrier")) fail_msg("number %zu: %s", i, fault.message);
      seen = true;
    }
    if (seen != all[i].races) fail_msg("number %zu: nobody sees it", i);
    context_destroy(c.cx), context_destroy(cx);
  }
}

/* ---- what is said ------------------------------------------------------------------------------------------------ */

#define KERNEL(warps, body) \
  "kernel @k(%out: b64 *f32, %n: b32 i32, %map: b64) warps=" warps " hidden=1 maps=1 {\n" \
  "buffer \"tile\" bytes=1024 align=1024\nbuffer \"barriers\" bytes=32 align=8\n" \
  "%tid = special {tid.x} : b32\n%tile = shared {buffer=0} : b32\n%bar = shared {buffer=1} : b32\n" \
  "%c0 = const.b32 {0} : b32\n%c1 = const.b32 {1} : b32\n%c2 = const.b32 {2} : b32\n%c32 = const.b32 {32} : b32\n" \
  "%c1024 = const.b32 {1024} : b32\n%c1008 = const.b32 {1008} : b32\n" \
  "%first = setp.s32 %tid, %c0 {eq} : pred\n%warp0 = setp.s32 %tid, %c32 {lt} : pred\n" body "\n}\n"
#define ONE(body) "if %first do () {\n" body "\nyield\n} do () {\nyield\n}\n"
#define MADE(count) ONE("mbar_init %bar, " count " {shared buffer=1}\nfence_mbar") "barrier\n"
#define LOAD "tensor_load %tile, %bar, %map, %c0, %c0 {shared buffer=0}\n"

/* Some seed must end in that. */
static void says(const char *text, const char *message) {
  Case c = parse(text);
  LaneSimFault fault = {{0}};
  float array[ROWS * COLUMNS] = {0}, out[32] = {0};
  Map128 map = map_of(array, COLUMNS, ROWS, ROWS, 3);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    if (run(c.f, out, 32, array, ROWS * COLUMNS, 0, &map, seed, &fault)) continue;
    if (!strncmp(fault.message, message, strlen(message))) break;
  }
  if (strncmp(fault.message, message, strlen(message))) fail_msg("'%s', not '%s'", fault.message, message);
  context_destroy(c.cx);
}

/* A read that was in order before another one of its reader's is no later one. */
static void reads_are_forgotten_in_order(void **state) {
  Case c = parse(KERNEL("2", "%x = ld.b32 %out {global} : b32\nbarrier {warps=2 imm=3}\n" ONE(
                                 "%y = ld.b32 %out {global} : b32\nst.b32 %out, %y {global}")));
  LaneSimFault fault = {{0}};
  float array[ROWS * COLUMNS] = {0}, out[32] = {0};
  Map128 map = map_of(array, COLUMNS, ROWS, ROWS, 3);
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    if (!run(c.f, out, 32, array, ROWS * COLUMNS, 0, &map, seed, &fault)) fail_msg("%s", fault.message);
  context_destroy(c.cx);
}

/* An atomic's read is none that another warp's atomic would have to wait for. */
static void atomics_are_in_no_order(void **state) {
  Case c = parse(KERNEL(
      "2",
      MADE("%c1") ONE(
          "st.b32 %tile, %c0 {shared buffer=0}") "barrier\n"
                                                 "%x = atom.s32 %tile, %c1 {shared add relaxed cta buffer=0} : b32\n"
                                                 "barrier\n%y = ld.b32 %tile {shared buffer=0} : b32\n"));
  LaneSimFault fault = {{0}};
  float array[ROWS * COLUMNS] = {0}, out[32] = {0};
  Map128 map = map_of(array, COLUMNS, ROWS, ROWS, 3);
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    if (!run(c.f, out, 32, array, ROWS * COLUMNS, 0, &map, seed, &fault)) fail_msg("%s", fault.message);
  context_destroy(c.cx);
}

static void faults_say_what_is_wrong(void **state) {
  says(KERNEL("2", "mbar_wait %bar, %c0 {shared buffer=1}"), "there is no mbarrier at byte 1024 of shared memory");
  says(KERNEL("1", ONE("mbar_init %bar, %c1 {shared buffer=1}\n" LOAD)),
       "the mbarrier at byte 1024 was made without a fence_mbar since");
  says(KERNEL("2", ONE("mbar_init %bar, %c1 {shared buffer=1}\nfence_mbar") "mbar_wait %bar, %c1 {shared buffer=1}\n"),
       "the mbarrier at byte 1024 was made without a barrier that this warp has come to since");
  says(KERNEL("1", MADE("%c1") ONE("mbar_arrive %bar {shared buffer=1}") "mbar_wait %bar, %c1 {shared buffer=1}"),
       "no warp can go on: warp 0 waits for parity 1 of the mbarrier at byte 1024, in phase 1 (1 arrivals, 0 bytes");
  says(KERNEL("2", MADE("%c2") "mbar_expect %bar, %c1024 {shared buffer=1}\n"),
       "one arrival too many in phase 0 of the mbarrier at byte 1024, which is of 2");
  says(KERNEL(
           "1",
           MADE("%c1") ONE(
               "mbar_expect %bar, %c1024 {shared buffer=1}\n" LOAD) "barrier\n"
                                                                    "mbar_wait %bar, %c0 {shared buffer=1}\nmbar_wait "
                                                                    "%bar, %c0 {shared buffer=1}"),
       "warp 0 waits for parity 0 of the mbarrier at byte 1024 again");
  says(KERNEL("1", MADE("%c1") ONE(
                       "mbar_expect %bar, %c1008 {shared buffer=1}\n" LOAD) "mbar_wait %bar, %c0 {shared buffer=1}"),
       "no warp can go on: warp 0 waits for parity 0 of the mbarrier at byte 1024, in phase 0 (0 arrivals, -16 bytes");
  says(
      KERNEL("1",
             MADE("%c1") ONE(
                 "mbar_expect %bar, %c1024 {shared buffer=1}\n" LOAD) "%x = ld.b32 %tile {shared buffer=0} : b32\n"),
      "thread 0 reads byte 0 of shared memory (buffer 'tile'), which a copy by a tensor map writes, and warp 0 has not "
      "waited for phase 0 of its mbarrier, at byte 1024");
  says(KERNEL("1", MADE("%c1") ONE("mbar_expect %bar, %c1024 {shared buffer=1}\n" LOAD)), "the program ends");
  says(KERNEL("2", "if %warp0 {warps=1} do () {\nbarrier_arrive {warps=2 imm=3}\nyield\n} do () {\n"
                   "barrier {warps=2 imm=4}\nyield\n}\n"),
       "no warp can go on: warp 1 waits at barrier 4 of 2 warps");
  says(KERNEL("12", "%p = setp.s32 %tid, %c1024 {lt} : pred\nsetmaxnreg {imm=240}\n"),
       "a thread has 168 registers, and wants fewer: 240");
  says(KERNEL("12", "setmaxnreg {inc imm=240}\n"),
       "no warp can go on: warps 0 to 11 wait for 72 more registers a thread");
  says(KERNEL("1", "%bad = const.b64 {0} : b64\n" MADE("%c1")
                       ONE("mbar_expect %bar, %c1024 {shared buffer=1}\n"
                           "tensor_load %tile, %bar, %map, %c0, %c0, %c0 {shared buffer=0}\n")),
       "this is no tensor map of 3 dimensions");
  says(KERNEL("1", "st.b32 %bar, %c0 {shared buffer=1}\n" ONE(
                       "mbar_init %bar, %c1 {shared buffer=1}") "barrier\n"
                                                                "st.b32 %bar, %c1 {shared buffer=1}\n"),
       "thread 0 writes byte 1024 of shared memory (buffer 'barriers'), which is an mbarrier's");
}

/* Registers that some give up are for others. */
static void registers_go_round(void **state) {
  Case c = parse(KERNEL("12", "%p = setp.s32 %tid, %c1024 {lt} : pred\n%c256 = const.b32 {256} : b32\n"
                              "%q = setp.s32 %tid, %c256 {lt} : pred\n"
                              "if %q {warps=8} do () {\nsetmaxnreg {inc imm=240}\nbarrier {warps=8 imm=1}\nyield\n} "
                              "do () {\nsetmaxnreg {imm=24}\nyield\n}\n"));
  LaneSimFault fault;
  float out[32];
  for (uint64_t seed = 0; seed < SEEDS; seed++)
    if (!run(c.f, out, 32, out, 32, 0, &(Map128){0}, seed, &fault)) fail_msg("%s", fault.message);
  context_destroy(c.cx);
}

static void wrong_text_is_refused(void **state) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {KERNEL("2", "if %warp0 {warps=1} do () {\nbarrier\nyield\n} do () {\nyield\n}\n"),
       "wrong lane IR after building: 'barrier': it is the block's, but only a part of its warps is here"},
      {KERNEL("2", "barrier {warps=2 imm=16}\n"), "wrong lane IR after building: 'barrier': there is no barrier 16"},
      {KERNEL("2", "barrier {warps=3 imm=1}\n"), "wrong lane IR after building: 'barrier': it is of 3 warps"},
      {KERNEL("2", "if %warp0 {warps=2} do () {\nyield\n} do () {\nyield\n}\n"),
       "wrong lane IR after building: 'if': it cannot part the block here, or so"},
      {KERNEL("4", "setmaxnreg {imm=100}\n"), "wrong lane IR after building: 'setmaxnreg': 100 registers"},
      {KERNEL("3", "setmaxnreg {imm=24}\n"), "wrong lane IR after building: 'setmaxnreg': 3 warps are no warpgroups"},
      {KERNEL("4", "mbar_wait @%first %bar, %c0 {shared buffer=1}\n"),
       "wrong lane IR after building: 'mbar_wait': it cannot have a guard"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Context *cx = context_create();
    if (context_try(cx)) {
      LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", cases[i].text, strlen(cases[i].text)));
      lane_verify(f, NULL);
      fail_msg("taken: %s", cases[i].message);
    } else {
      assert_string_equal(cx->diags.at[0].message, cases[i].message);
    }
    context_destroy(cx);
  }
}

static void text_reads_back(void **state) {
  const char *const texts[] = {
      ring_text, store_text,
      KERNEL("12",
             "setmaxnreg {inc imm=240}\nbarrier_arrive {warps=4 imm=3}\nprefetch_map %map\nbulk_wait {read imm=1}\n"
             "tensor_red %tile, %map, %c0 {shared max buffer=0 +512}\n")};
  for (int i = 0; i < 3; i++) {
    Case a = parse(texts[i]);
    Buf once = {0}, twice = {0};
    lane_print(&once, a.f, false);
    Case b = parse(once.at);
    lane_print(&twice, b.f, false);
    assert_string_equal(once.at, twice.at);
    buf_destroy(&once), buf_destroy(&twice);
    context_destroy(a.cx), context_destroy(b.cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_ring_brings_every_tile),
      cmocka_unit_test(a_ring_needs_all_that_it_waits_for),
      cmocka_unit_test(a_cluster_needs_all_that_it_waits_for),
      cmocka_unit_test(what_is_no_cluster),
      cmocka_unit_test(stores_leave_the_tile),
      cmocka_unit_test(stores_need_their_waits),
      cmocka_unit_test(copies_race_with_stores),
      cmocka_unit_test(reads_are_forgotten_in_order),
      cmocka_unit_test(atomics_are_in_no_order),
      cmocka_unit_test(faults_say_what_is_wrong),
      cmocka_unit_test(registers_go_round),
      cmocka_unit_test(wrong_text_is_refused),
      cmocka_unit_test(text_reads_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
