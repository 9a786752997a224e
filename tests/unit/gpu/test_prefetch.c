/* Prefetching: a kernel computes the same before and after gpu_prefetch (or gpu_loads_ahead), and reads nothing that it
 * did not read before; both run on the interpreter, which knows the arrays' ends. How many loads a loop issues ahead is
 * counted by what it carries.
 */
#include "unit/interp/test_interp_kit.h"

#include "gpu/gpu.h"

enum { TILE = 128, MOST = 4096 };

typedef struct Case {
  const char *ir;
  int num_stages;                             /* of the launch; 0: Triton's default */
  int ahead;                                  /* loads that must be issued ahead; -1: any number */
  bool twice;                                 /* the loop runs twice: no load stays in it */
  void (*pass)(Func *f, const GpuOptions *o); /* NULL: gpu_prefetch */
  const float *x;
  int64_t count; /* elements of x */
  int64_t args[4];
  int arg_count;
} Case;

static int carried(const Block *b) {
  int n = 0;
  for (const Op *op = b->first; op; op = op->next) {
    if (op->code == OP_FOR) n += op->out_count;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) n += carried(op->body[i]);
  }
  return n;
}

static int loads_in_loops(const Block *b, bool in_loop) {
  int n = 0;
  for (const Op *op = b->first; op; op = op->next) {
    n += in_loop && op->code == OP_LOAD;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) n += loads_in_loops(op->body[i], in_loop || op->code == OP_FOR);
  }
  return n;
}

static Func *parsed(Context *cx, const Case *c) {
  Func *f = tile_parse(cx, source_from_text(cx, "k.ir", c->ir, strlen(c->ir)));
  f->num_warps = 4;
  f->num_stages = c->num_stages ? c->num_stages : 3;
  tile_optimize(f, NULL, NULL, true);
  return f;
}

/* Runs f on a fresh copy of x, which it gets first, and an output of MOST f32, which it gets next. */
static bool run(const Case *c, Func *f, float *out, InterpFault *fault) {
  InterpMemory *m = interp_memory_create();
  uint64_t args[8] = {0};
  size_t bytes = sizeof(float) * (size_t)c->count;
  float *x = interp_memory_alloc(m, bytes, "x"), *o = interp_memory_alloc(m, sizeof(float) * MOST, "out");
  assert_non_null(x);
  memcpy(x, c->x, bytes);
  memset(o, 0, sizeof(float) * MOST);
  interp_memory_mark_written(m, x, bytes);
  interp_memory_mark_written(m, o, sizeof(float) * MOST);
  args[0] = (uint64_t)(uintptr_t)x, args[1] = (uint64_t)(uintptr_t)o;
  for (int i = 0; i < c->arg_count; i++) args[2 + i] = (uint64_t)c->args[i];
  int32_t grid[3] = {1, 1, 1};
  InterpOptions options = {0};
  bool ok = interp_run(f, m, args, grid, &options, fault);
  memcpy(out, o, sizeof(float) * MOST);
  interp_memory_destroy(m);
  return ok;
}

static void check(const Case *c) {
  static float before[MOST], after[MOST];
  Context *cx = context_create();
  Buf text = {0};
  volatile bool done = false;
  volatile int ahead = 0, inside = 0;
  InterpFault fault = {0};
  if (context_try(cx)) {
    Func *f = parsed(cx, c);
    int had = carried(f->body);
    if (run(c, f, before, &fault)) {
      GpuOptions o = {.target = gpu_target_find("sm_90a")};
      (c->pass ? c->pass : gpu_prefetch)(f, &o);
      tile_print(&text, f, 0);
      tile_verify(f, "prefetch");
      ahead = carried(f->body) - had;
      inside = loads_in_loops(f->body, false);
      run(c, f, after, &fault);
    }
    context_end_try(cx);
    done = true;
  } else {
    diags_print(&text, cx, false);
  }
  bool same = done && !fault.set && !memcmp(before, after, sizeof before);
  if (!same || (c->ahead >= 0 && ahead != c->ahead) || (c->ahead > 0 && !inside != c->twice)) {
    fprintf(stderr, "%s\n----\n%s\n", c->ir, text.at ? text.at : "");
    for (int i = 0; done && i < MOST; i++)
      if (memcmp(&before[i], &after[i], sizeof(float))) {
        fprintf(stderr, "element %d: %g, then %g\n", i, (double)before[i], (double)after[i]);
        break;
      }
    fail_msg("%s; %d loads ahead, %d wanted, %d in loops",
             fault.set ? fault.message
             : done    ? same ? "right" : "another result"
                       : "an error",
             ahead, c->ahead, inside);
  }
  buf_destroy(&text);
  context_destroy(cx);
}

static float numbers[MOST];
static int fill(void **state) {
  uint64_t seed = 7;
  for (int i = 0; i < MOST; i++) numbers[i] = (float)(int)(kit_random(&seed) % 200) - 100; /* sums of these are exact */
  return 0;
}

/* The sum of x[0, n) in tiles, written out; T is the type of n and of the loop's variable. */
#define SUM(T) \
  "kernel @sum(%x: *f32, %out: *f32, %n: " T ") {\n" \
  "  %zero = const {value=0} : " T "\n  %tile = const {value=128} : " T "\n  %none = const {value=0.0} : f32\n" \
  "  %r = arange {start=0, end=128} : i32[128]\n  %rt = convert %r : " T "[128]\n" \
  "  %ns = splat %n : " T "[128]\n  %xs = splat %x : *f32[128]\n" \
  "  %sum = for %zero, %n, %tile, %none : f32 do (%i: " T ", %acc: f32) {\n" \
  "    %is = splat %i : " T "[128]\n    %at = add %is, %rt : " T "[128]\n" \
  "    %mask = cmp %at, %ns {pred=lt} : i1[128]\n    %p = addptr %xs, %at : *f32[128]\n    %v = load %p, %mask : " \
  "f32[128]\n" \
  "    %part = reduce %v {axis=0} : f32 do (%a: f32, %b: f32) {\n      %c = add %a, %b : f32\n      yield %c\n    }\n" \
  "    %next = add %acc, %part : f32\n    yield %next\n  }\n" \
  "  store %out, %sum\n}\n"

static void sums(void **state) {
  static const char *const kernels[] = {SUM("i32"), SUM("i64"), SUM("u32"), SUM("u64"), SUM("i16"), SUM("u16")};
  static const int64_t lengths[] = {0, 1, 127, 128, 129, 255, 256, 257, 1000, 1024};
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
      check(&(Case){
          .ir = kernels[k], .ahead = 1, .x = numbers, .count = lengths[i], .args = {lengths[i]}, .arg_count = 1});
  check(&(Case){.ir = SUM("i32"), .ahead = 1, .x = numbers, .count = 0, .args = {-5}, .arg_count = 1});
}

static void num_stages(void **state) {
  check(&(Case){
      .ir = SUM("i32"), .num_stages = 1, .ahead = 0, .x = numbers, .count = 300, .args = {300}, .arg_count = 1});
  check(&(Case){
      .ir = SUM("i32"), .num_stages = 2, .ahead = 1, .x = numbers, .count = 300, .args = {300}, .arg_count = 1});
}

/* ---- loops that only load: copies of their body ------------------------------------------------------------------ */

/* The sums of x[i + 128 * step * turn], turn by turn, for each i in [0, 128). */
#define COLUMNS(WIDTH, TYPE, LOAD) \
  "kernel @columns(%x: *f32, %out: *f32, %n: " TYPE ", %step: " TYPE ") {\n" \
  "  %zero = const {value=0} : " TYPE "\n  %none = const {value=0.0} : f32[" WIDTH "]\n" \
  "  %r = arange {start=0, end=" WIDTH "} : i32[" WIDTH "]\n  %xs = splat %x : *f32[" WIDTH "]\n" \
  "  %rw = convert %r : i64[" WIDTH "]\n  %nw = convert %n : i64\n  %ns = splat %nw : i64[" WIDTH "]\n" \
  "  %sum = for %zero, %n, %step, %none : f32[" WIDTH "] do (%i: " TYPE ", %acc: f32[" WIDTH "]) {\n" \
  "    %iw = convert %i : i64\n    %is = splat %iw : i64[" WIDTH "]\n    %at = add %is, %rw : i64[" WIDTH "]\n" \
  "    %mask = cmp %at, %ns {pred=lt} : i1[" WIDTH "]\n    %p = addptr %xs, %at : *f32[" WIDTH "]\n" LOAD \
  "    %next = add %acc, %v : f32[" WIDTH "]\n    yield %next\n  }\n" \
  "  %os = splat %out : *f32[" WIDTH "]\n  %op = addptr %os, %r : *f32[" WIDTH "]\n  store %op, %sum\n}\n"
#define PLAIN_LOAD "    %v = load %p, %mask : f32[128]\n"

static void columns(const char *ir, int64_t n, int64_t step, int stages, int ahead) {
  check(&(Case){.ir = ir,
                .num_stages = stages,
                .ahead = ahead,
                .pass = gpu_loads_ahead,
                .x = numbers,
                .count = n > 0 ? n : 0,
                .args = {n, step},
                .arg_count = 2});
}

/* Trips of none, fewer than a group, whole groups and some more. What the loop of groups carries is its own value and a
 * load of each iteration that is in flight. */
static void loads_alone(void **state) {
  static const char *const kernels[] = {COLUMNS("128", "i32", PLAIN_LOAD), COLUMNS("128", "i64", PLAIN_LOAD)};
  for (int k = 0; k < 2; k++)
    for (int64_t n = 0; n < 19; n++) {
      columns(kernels[k], n * 128, 128, 0, 1 + 8);
      columns(kernels[k], n * 200 - 7, 200, 0, 1 + 8);
    }
  columns(kernels[0], -5, 1, 0, 1 + 8);
  columns(kernels[0], 3000, INT32_MAX, 0, 1 + 8);
  columns(kernels[0], 1000, 100, 1, 0);
  /* 8 registers a thread: four iterations; 16: left to the assembler */
  columns(COLUMNS("1024", "i32", "    %v = load %p, %mask : f32[1024]\n"), 4096, 300, 0, 1 + 4);
  columns(COLUMNS("2048", "i32", "    %v = load %p, %mask : f32[2048]\n"), 4096, 1000, 0, 0);
  /* volatile; and an address that is a loaded value's */
  columns(COLUMNS("128", "i32", "    %v = load %p, %mask {volatile=1} : f32[128]\n"), 1000, 128, 0, 0);
  columns(COLUMNS("128", "i32",
                  "    %u = load %p, %mask : f32[128]\n    %un = cmp %u, %u {pred=ne} : i1[128]\n"
                  "    %ui = convert %un : i32[128]\n    %q = addptr %p, %ui : *f32[128]\n"
                  "    %v = load %q, %mask : f32[128]\n"),
          1000, 128, 0, 0);
}

/* ---- bounds of all kinds ----------------------------------------------------------------------------------------- */

/* One element a thread at x[(i - lb) / step * 128]: whole tiles, no mask, so that a tile read in vain is found. */
static void bounds_case(const char *type, int64_t lb, int64_t ub, int64_t step, bool constant_step, int turns) {
  char ir[4096], by[64] = "";
  if (constant_step) snprintf(by, sizeof by, "%%by = const {value=%lld} : %s\n", (long long)step, type);
  snprintf(ir, sizeof ir,
           "kernel @k(%%x: *f32, %%out: *f32, %%lb: %s, %%ub: %s%s%s) {\n%s"
           "%%none = const {value=0.0} : f32\n%%zero = const {value=0} : %s\n%%r = arange {start=0, end=128} : "
           "i32[128]\n%%os = splat %%out : *f32[128]\n"
           "%%tile = const {value=128} : i32\n%%first = const {value=0} : i32\n"
           "%%sum, %%turns = for %%lb, %%ub, %%by, %%none, %%first : f32, i32 do (%%i: %s, %%acc: f32, %%turn: i32) {\n"
           "  %%way = sub %%i, %%lb : %s\n  %%q = div %%way, %%by : %s\n  %%q32 = convert %%q : i32\n  %%start = mul "
           "%%q32, %%tile : i32\n"
           "  %%ss = splat %%start : i32[128]\n  %%at = add %%ss, %%r : i32[128]\n  %%xs = splat %%x : *f32[128]\n  "
           "%%p = addptr %%xs, %%at : *f32[128]\n"
           "  %%v = load %%p : f32[128]\n"
           "  %%part = reduce %%v {axis=0} : f32 do (%%a: f32, %%b: f32) {\n    %%c = add %%a, %%b : f32\n    yield "
           "%%c\n  }\n"
           "  %%next = add %%acc, %%part : f32\n  %%one = const {value=1} : i32\n  %%turn2 = add %%turn, %%one : i32\n "
           " yield %%next, %%turn2\n}\n"
           "store %%out, %%sum\n%%of = const {value=1} : i32\n%%o1 = addptr %%out, %%of : *f32\n%%tf = convert %%turns "
           ": f32\nstore %%o1, %%tf\n}\n",
           type, type, constant_step ? "" : ", %by: ", constant_step ? "" : type, by, type, type, type, type);
  check(&(Case){.ir = ir,
                .ahead = 1,
                .x = numbers,
                .count = turns * TILE,
                .args = {lb, ub, step},
                .arg_count = constant_step ? 2 : 3});
}

static void bounds(void **state) {
  for (int constant = 0; constant < 2; constant++) {
    bounds_case("i32", 0, 10, 3, constant, 4);
    bounds_case("i32", 5, 5, 1, constant, 0);
    bounds_case("i32", 5, 4, 1, constant, 0);
    bounds_case("i32", -7, -6, 100, constant, 1);
    bounds_case("i32", INT32_MAX - 10, INT32_MAX, 4, constant, 3);
    bounds_case("i32", INT32_MAX - 1, INT32_MAX, INT32_MAX, constant, 1);
    bounds_case("i32", 0, INT32_MAX, INT32_MAX - 1, constant, 2);
    bounds_case("i64", INT64_MAX - 10, INT64_MAX, 4, constant, 3);
    bounds_case("i64", INT64_MAX - 1, INT64_MAX, INT64_MAX, constant, 1);
    bounds_case("i64", INT64_MIN, INT64_MIN + 5, 2, constant, 3);
    bounds_case("u64", 0, 10, 3, constant, 4);
    bounds_case("u64", -11, -1, 4, constant, 3); /* 2^64 - 11 to 2^64 - 1 */
    bounds_case("u64", 5, -1, -2, constant, 1);  /* a step of 2^64 - 2: upwards */
    bounds_case("u32", 4294967285, 4294967295, 4, constant, 3);
    bounds_case("u32", 5, 4294967295, 4294967290, constant, 1);
    bounds_case("u8", 250, 255, 2, constant, 3);
    bounds_case("u8", 0, 255, 200, constant, 2);
    bounds_case("i8", 100, 127, 10, constant, 3);
    bounds_case("u16", 65530, 65535, 4, constant, 2);
  }
  bounds_case("i32", 10, 0, -3, true, 4);
  bounds_case("i32", 10, 10, -1, true, 0);
  bounds_case("i32", 10, 11, -1, true, 0);
  bounds_case("i32", INT32_MIN + 10, INT32_MIN, -4, true, 3);
  bounds_case("i64", INT64_MIN + 10, INT64_MIN, -4, true, 3);
  bounds_case("i64", 10, INT64_MIN, INT64_MIN + 1, true, 2);
  bounds_case("i64", 0, INT64_MIN, INT64_MIN, true, 1);
  bounds_case("i8", 100, -128, -128, true, 2);
}

/* ---- what is carried, masked, nested ----------------------------------------------------------------------------- */

#define HEAD \
  "kernel @k(%x: *f32, %out: *f32, %n: i32) {\n%zero = const {value=0} : i32\n%one = const {value=1} : i32\n%two = " \
  "const {value=2} : i32\n" \
  "%tile = const {value=128} : i32\n%none = const {value=0.0} : f32\n%r = arange {start=0, end=128} : i32[128]\n%xs " \
  "= splat %x : *f32[128]\n" \
  "%ns = splat %n : i32[128]\n%p0 = addptr %xs, %r : *f32[128]\n"
#define PART \
  "%part = reduce %v {axis=0} : f32 do (%ra: f32, %rb: f32) {\n%rc = add %ra, %rb : f32\nyield %rc\n}\n%next = add " \
  "%acc, %part : f32\n"
#define AT \
  "%is = splat %i : i32[128]\n%at = add %is, %r : i32[128]\n%p = addptr %xs, %at : *f32[128]\n%mask = cmp %at, %ns " \
  "{pred=lt} : i1[128]\n"

static void same(const char *ir, int64_t n, int ahead) {
  check(&(Case){.ir = ir, .ahead = ahead, .x = numbers, .count = n, .args = {n}, .arg_count = 1});
}

static void carried_pointers(void **state) {
  /* A pointer that grows by a tile each iteration, an offset beside it for the mask, both carried. */
  const char *pointers = HEAD "%steps = splat %tile : i32[128]\n"
                              "%sum, %pe, %ae = for %zero, %n, %tile, %none, %p0, %r : f32, *f32[128], i32[128] do "
                              "(%i: i32, %acc: f32, %p: *f32[128], %at: i32[128]) {\n"
                              "%mask = cmp %at, %ns {pred=lt} : i1[128]\n%v = load %p, %mask : f32[128]\n" PART
                              "%p2 = addptr %p, %steps : *f32[128]\n%at2 = add %at, %steps : i32[128]\nyield %next, "
                              "%p2, %at2\n}\nstore %out, %sum\n}\n";
  /* Two pointers that change places. */
  const char *swapped = HEAD
      "%h = const {value=128} : i32[128]\n%q0 = addptr %p0, %h : *f32[128]\n%four = const {value=4} : i32\n"
      "%sum, %pe, %qe = for %zero, %four, %one, %none, %p0, %q0 : f32, *f32[128], *f32[128] do (%i: i32, %acc: f32, "
      "%p: *f32[128], %q: *f32[128]) {\n"
      "%w = load %p : f32[128]\n%is = convert %i : f32\n%iv = splat %is : f32[128]\n%v = mul %w, %iv : f32[128]\n" PART
      "yield %next, %q, %p\n}\nstore %out, %sum\n}\n";
  /* What is carried depends on what was loaded: the next address is not known. */
  const char *chased =
      HEAD "%big = const {value=200.0} : f32\n"
           "%sum, %e = for %zero, %two, %one, %none, %zero : f32, i32 do (%i: i32, %acc: f32, %o: i32) {\n"
           "%os = splat %o : i32[128]\n%p = addptr %p0, %os : *f32[128]\n%v = load %p : f32[128]\n" PART
           "%c = cmp %part, %big {pred=lt} : i1\n%o2 = select %c, %one, %two : i32\nyield %next, %o2\n}\nstore %out, "
           "%sum\n}\n";
  for (int64_t n = 0; n < 520; n += 43) same(pointers, n, 1);
  same(swapped, 256, 1);
  same(chased, 130, 0);
}

/* Both iterations' loads stand before a loop that is known to run twice, not before one of one or three. */
static void two_iterations(void **state) {
  static const char body[] =
      HEAD "%s, %e = for %from, %to, %by, %none, %r : f32, i32[128] do (%i: i32, %acc: f32, %o: i32[128]) {\n"
           "%is = splat %i : i32[128]\n%at = add %is, OTHER : i32[128]\n%zs = splat %zero : i32[128]\n"
           "%low = cmp %at, %zs {pred=ge} : i1[128]\n%below = cmp %at, %ns {pred=lt} : i1[128]\n"
           "%mask = and %low, %below : i1[128]\n%p = addptr %xs, %at : *f32[128]\n%v = load %p, %mask : f32[128]\n" PART
           "%o2 = add %o, %is : i32[128]\nyield %next, %o2\n}\nstore %out, %s\n}\n";
  static const struct {
    int from, to, step;
    bool twice;
  } loops[] = {{0, 256, 128, true}, {0, 129, 128, true},  {-128, 128, 128, true}, {128, 384, 128, true},
               {3, 5, 1, true},     {0, 384, 128, false}, {0, 257, 128, false},   {-1, 1, 2, false}};
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
    for (int carries = 0; carries < 2; carries++) { /* where it loads */
      Buf text = {0};
      const char *at = strchr(body, '\n') + 1, *other = strstr(body, "OTHER");
      buf_write(&text, body, (size_t)(at - body));
      buf_printf(&text,
                 "%%from = const {value=%d} : i32\n%%to = const {value=%d} : i32\n%%by = const {value=%d} : i32\n",
                 loops[i].from, loops[i].to, loops[i].step);
      buf_write(&text, at, (size_t)(other - at));
      buf_puts(&text, carries ? "%o" : "%r");
      buf_puts(&text, other + strlen("OTHER"));
      check(&(Case){.ir = text.at,
                    .ahead = loops[i].to - loops[i].from > loops[i].step ? 1 : -1,
                    .twice = loops[i].twice,
                    .x = numbers,
                    .count = 300,
                    .args = {300},
                    .arg_count = 1});
      buf_destroy(&text);
    }
}

/* A loop to a program's place among four has three iterations at most, and one below a constant beside an unknown
 * number: nothing is ahead. Up to a place among eight there may be seven. */
static void few_iterations(void **state) {
  static const struct {
    const char *to;
    int ahead;
  } loops[] = {{"%to = rem %place, %four : i32\n", 0},
               {"%to = min %place, %four : i32\n", 0},
               {"%q = mul %four, %two : i32\n%to = rem %place, %q : i32\n", 1},
               {"%to = add %place, %zero : i32\n", 1}};
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    Buf text = {0};
    buf_puts(&text, HEAD "%place = program_id {axis=0} : i32\n%four = const {value=4} : i32\n");
    buf_puts(&text, loops[i].to);
    buf_puts(&text, "%s = for %zero, %to, %one, %none : f32 do (%k: i32, %acc: f32) {\n%i = mul %k, %tile : i32\n" AT
                    "%v = load %p, %mask : f32[128]\n" PART "yield %next\n}\nstore %out, %s\n}\n");
    same(text.at, 300, loops[i].ahead);
    buf_destroy(&text);
  }
}

static void masks_and_others(void **state) {
  /* `other` and the mask change from turn to turn; what the last iteration loaded is used after the loop. */
  const char *others = HEAD
      "%sum, %last = for %zero, %n, %tile, %none, %p0 : f32, *f32[128] do (%i: i32, %acc: f32, %unused: *f32[128]) "
      "{\n" AT "%twos = const {value=2} : i32[128]\n%even = rem %at, %twos : i32[128]\n%zs = const {value=0} : "
      "i32[128]\n%e = cmp %even, %zs {pred=eq} : i1[128]\n%m2 = and %mask, %e : i1[128]\n"
      "%if = convert %at : f32[128]\n%v = load %p, %m2, %if : f32[128]\n" PART "yield %next, %p\n}\n"
      "store %out, %sum\n%os = splat %out : *f32[128]\n%op = addptr %os, %r : *f32[128]\n%inside = cmp %r, %ns "
      "{pred=lt} : i1[128]\n%lv = load %p0, %inside : f32[128]\nstore %op, %lv\n}\n";
  same(others, 1, 1);
  same(others, 300, 1);
  same(others, 384, 1);
}

static void wide_loads(int loads, int ahead) {
  char *wide = calloc(1, 20000);
  size_t n = (size_t)sprintf(wide, "kernel @k(%%x: *f32, %%out: *f32, %%n: i32) {\n%%zero = const {value=0} : "
                                   "i32\n%%one = const {value=1} : i32\n%%none = const {value=0.0} : f32\n"
                                   "%%r = arange {start=0, end=1024} : i32[1024]\n%%xs = splat %%x : *f32[1024]\n%%sum "
                                   "= for %%zero, %%n, %%one, %%none : f32 do (%%i: i32, %%acc: f32) {\n"
                                   "%%is = splat %%i : i32[1024]\n%%at = add %%is, %%r : i32[1024]\n%%p = addptr %%xs, "
                                   "%%at : *f32[1024]\n%%t0 = load %%p : f32[1024]\n");
  for (int i = 1; i < loads; i++)
    n += (size_t)sprintf(wide + n,
                         "%%o%d = const {value=%d} : i32[1024]\n%%p%d = addptr %%p, %%o%d : *f32[1024]\n%%l%d = load "
                         "%%p%d : f32[1024]\n%%t%d = add %%t%d, %%l%d : f32[1024]\n",
                         i, i * 64, i, i, i, i, i, i - 1, i);
  sprintf(wide + n,
          "%%part = reduce %%t%d {axis=0} : f32 do (%%ra: f32, %%rb: f32) {\n%%rc = add %%ra, %%rb : f32\nyield "
          "%%rc\n}\n%%next = add %%acc, %%part : f32\nyield %%next\n}\nstore %%out, %%sum\n}\n",
          loads - 1);
  check(&(Case){.ir = wide, .ahead = ahead, .x = numbers, .count = 2 + 1024 + 256, .args = {3}, .arg_count = 1});
  free(wide);
}

static void several_loads(void **state) {
  /* Both are known an iteration ahead; the third's address is the first's value. */
  const char *dependent =
      HEAD "%hundred = const {value=100.0} : f32[128]\n%sum = for %zero, %n, %tile, %none : f32 do (%i: i32, %acc: "
           "f32) {\n" AT "%u = load %p, %mask : f32[128]\n%p1 = addptr %p0, %zs : *f32[128]\n%w = load %p1 : f32[128]\n"
           "%uf = add %u, %hundred : f32[128]\n%ui = convert %uf : i32[128]\n%p2 = addptr %xs, %ui : *f32[128]\n%y = "
           "load %p2 : f32[128]\n"
           "%t = add %u, %w : f32[128]\n%v = add %t, %y : f32[128]\n" PART "yield %next\n}\nstore %out, %sum\n}\n";
  char text[4096];
  const char *at = strstr(dependent, "%p1 = addptr %p0, %zs");
  snprintf(text, sizeof text, "%.*s%%zs = and %%is, %%ones : i32[128]\n%s", (int)(at - dependent), dependent, at);
  at = strstr(text, "%hundred");
  char whole[4200];
  snprintf(whole, sizeof whole, "%.*s%%ones = const {value=1} : i32[128]\n%s", (int)(at - text), text, at);
  same(whole, 300, 2);
  /* Loads of 8 registers a thread: what is read ahead may take 32, and where that is not enough for all, nothing is. */
  wide_loads(4, 4);
  wide_loads(5, 0);
}

static void nests(void **state) {
  const char *nested =
      HEAD "%sum = for %zero, %n, %tile, %none : f32 do (%i: i32, %acc0: f32) {\n" AT "%w = load %p, %mask : f32[128]\n"
           "%in = for %zero, %two, %one, %acc0 : f32 do (%j: i32, %acc: f32) {\n"
           "%js = splat %j : i32[128]\n%at2 = add %at, %js : i32[128]\n%mask2 = cmp %at2, %ns {pred=lt} : i1[128]\n%q "
           "= addptr %xs, %at2 : *f32[128]\n%u = load %q, %mask2 : f32[128]\n"
           "%v = mul %u, %w : f32[128]\n" PART "yield %next\n}\nyield %in\n}\nstore %out, %sum\n}\n";
  const char *empty_inside =
      HEAD "%three = const {value=3} : i32\n%sum = for %zero, %three, %one, %none : f32 do (%k: i32, %acc0: f32) "
           "{\n%end = mul %k, %n : i32\n%m = min %end, %n : i32\n"
           "%in = for %zero, %m, %tile, %acc0 : f32 do (%i: i32, %acc: f32) {\n" AT
           "%v = load %p, %mask : f32[128]\n" PART "yield %next\n}\nyield %in\n}\nstore %out, %sum\n}\n";
  const char *in_if = HEAD "%c = cmp %n, %tile {pred=gt} : i1\n%sum = if %c : f32 do () {\n%s = for %zero, %n, %tile, "
                           "%none : f32 do (%i: i32, %acc: f32) {\n" AT "%v = load %p, %mask : f32[128]\n" PART
                           "yield %next\n}\nyield %s\n} do () {\nyield %none\n}\nstore %out, %sum\n}\n";
  for (int64_t n = 0; n < 600; n += 99) {
    same(nested, n, -1);
    same(empty_inside, n, -1);
    same(in_if, n, 1);
  }
  same(nested, 300, 1); /* the inner loop's */
}

/* ---- where it must not happen ------------------------------------------------------------------------------------ */

static void stays(const char *body, int64_t n) {
  char ir[8192];
  snprintf(ir, sizeof ir,
           "%s%%os = splat %%out : *f32[128]\n%%po = addptr %%os, %%r : *f32[128]\n%%sum = for %%zero, %%n, %%tile, "
           "%%none : f32 do (%%i: i32, %%acc: f32) {\n%s%syield %%next\n}\nstore %%out, %%sum\n}\n",
           HEAD, AT, body);
  check(&(Case){.ir = ir, .ahead = 0, .x = numbers, .count = n, .args = {n}, .arg_count = 1});
}

static void stays_where_it_is(void **state) {
  const char *v = "%v = load %p, %mask : f32[128]\n";
  char body[2000];
  static const char *const effects[] = {
      "store %p, %v, %mask\n", /* the array itself: the next iteration's load must see it where they overlap */
      "store %po, %v\n",
      "%c = cmp %i, %n {pred=lt} : i1\nif %c do () {\nstore %po, %v\nyield\n} do () {\nyield\n}\n",
      "%old = atomic_rmw %po, %v, %mask {kind=add} : f32[128]\n",
      "barrier\n",
      "assert %mask {text=\"inside\"}\n",
  };
  for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
    snprintf(body, sizeof body, "%s%s%s", v, PART, effects[i]);
    stays(body, i == 5 ? 256 : 300);
  }
  stays("%v = load %p, %mask {volatile=1} : f32[128]\n" PART, 300);
  stays("%v = load %p, %mask {cache=cv} : f32[128]\n" PART, 300);
  /* Beside a load that waits for other programs, nothing goes ahead. */
  snprintf(body, sizeof body, "%%flag = load %%x {volatile=1} : f32\n%s%s", v, PART);
  stays(body, 300);
  /* No reduction: the assembler moves such loads itself. */
  const char *plain =
      HEAD "%zf = const {value=0.0} : f32[128]\n%s = for %zero, %n, %tile, %zf : f32[128] do (%i: i32, %acc: f32[128]) "
           "{\n" AT "%v = load %p, %mask : f32[128]\n%next = add %acc, %v : f32[128]\nyield %next\n}\n%os = splat %out "
           ": *f32[128]\n%po = addptr %os, %r : *f32[128]\nstore %po, %s\n}\n";
  same(plain, 300, 0);
  /* One number is not worth it. */
  const char *scalar =
      HEAD "%sum = for %zero, %two, %one, %none : f32 do (%i: i32, %acc: f32) {\n%q = addptr %x, %i : *f32\n%u = load "
           "%q : f32\n%v = splat %u : f32[128]\n" PART "yield %next\n}\nstore %out, %sum\n}\n";
  same(scalar, 2, 0);
  /* num_stages of the loop. */
  char text[4096];
  const char *sum = SUM("i32"), *at = strstr(sum, " : f32 do (%i");
  for (int stages = 1; stages <= 3; stages++) {
    snprintf(text, sizeof text, "%.*s {num_stages=%d}%s", (int)(at - sum), sum, stages, at);
    check(&(Case){.ir = text, .ahead = stages > 1, .x = numbers, .count = 300, .args = {300}, .arg_count = 1});
    check(&(Case){
        .ir = text, .num_stages = 1, .ahead = stages > 1, .x = numbers, .count = 300, .args = {300}, .arg_count = 1});
  }
}

/* ---- loops drawn at random --------------------------------------------------------------------------------------- */

static void random_loops(void **state) {
  static const struct {
    const char *name;
    Dtype t;
  } types[] = {{"i32", DT_I32}, {"u32", DT_U32}, {"i64", DT_I64}, {"u64", DT_U64},
               {"i16", DT_I16}, {"u8", DT_U8},   {"i8", DT_I8}};
  uint64_t seed = 11;
  for (int round = 0; round < 1500; round++) {
    int t = (int)(kit_random(&seed) % (sizeof types / sizeof *types)), bits = dtype_bits(types[t].t);
    bool is_signed = dtype_is_signed(types[t].t), down = is_signed && kit_random(&seed) % 3 == 0;
    int turns = (int)(kit_random(&seed) % 5), way = bits == 8 ? 100 : 10000;
    int64_t step = 1 + (int64_t)(kit_random(&seed) % (uint64_t)(way / 5));
    /* From somewhere, often an end of the type, so many turns; `over` is what the last step passes the end by. */
    int64_t over = (int64_t)(kit_random(&seed) % (uint64_t)step),
            distance = turns ? turns * step - over : -(int64_t)(kit_random(&seed) % 3);
    int64_t most = is_signed ? (int64_t)(~(uint64_t)0 >> (65 - bits)) : int_wrap(types[t].t, -1),
            least = is_signed ? -most - 1 : 0;
    int64_t from, to;
    if (kit_random(&seed) % 2) { /* ends at the type's end */
      to = down ? least : most;
      from = (int64_t)((uint64_t)to - (uint64_t)(down ? -distance : distance));
    } else {
      from = is_signed ? (int64_t)(kit_random(&seed) % 40) - 20 : 5;
      to = (int64_t)((uint64_t)from + (uint64_t)(down ? -distance : distance));
    }
    if (distance < 0 && (to == most || to == least)) from = to;
    bounds_case(types[t].name, from, to, down ? -step : step, down || kit_random(&seed) % 2, turns);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums),           cmocka_unit_test(num_stages),        cmocka_unit_test(loads_alone),
      cmocka_unit_test(bounds),         cmocka_unit_test(carried_pointers),  cmocka_unit_test(two_iterations),
      cmocka_unit_test(few_iterations), cmocka_unit_test(masks_and_others),  cmocka_unit_test(several_loads),
      cmocka_unit_test(nests),          cmocka_unit_test(stays_where_it_is), cmocka_unit_test(random_loops),
  };
  return cmocka_run_group_tests(tests, fill, NULL);
}
