/* Tests of the simulator: control, memory, what it finds wrong, what lanes do together, atomics, programs. */
#include "gpu/lane/table.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { THREADS = 64 };

static LaneFunc *parse(Context *cx, const char *text) {
  LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
  lane_verify(f, NULL);
  return f;
}

typedef struct Launch {
  int32_t grid[3];
  const char *fault;
  int thread;
} Launch;

/* Runs text; asserts that it ends without a fault, or with the one that `launch` expects. */
static void run_with(const char *text, const uint64_t *args, const Launch *launch) {
  Context *cx = context_create();
  if (context_try(cx)) {
    LaneFunc *f = parse(cx, text);
    LaneSimFault fault;
    LaneSimOptions o = {.grid = launch->grid, .end = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2]};
    bool ok = lane_sim_run(f, args, &o, &fault);
    assert_string_equal(fault.message, launch->fault ? launch->fault : "");
    assert_int_equal(ok, launch->fault == NULL);
    if (!ok) {
      assert_int_equal(fault.thread, launch->thread);
      assert_non_null(fault.span);
    }
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
}

static void run(const char *text, const uint64_t *args) { run_with(text, args, &(Launch){{1, 1, 1}, NULL, 0}); }

static void run_faults(const char *text, const uint64_t *args, int thread, const char *message) {
  run_with(text, args, &(Launch){{1, 1, 1}, message, thread});
}

/* ---- control ----------------------------------------------------------------------------------------------------- */

#define KERNEL(body) \
  "kernel @k(%out: b64, %in: b64, %n: b32) warps=2 {\n" \
  "%tid = special {tid.x} : b32\n%lane = special {laneid} : b32\n%c0 = const.b32 {0} : b32\n%c1 = const.b32 {1} : " \
  "b32\n" \
  "%c4 = const.b32 {4} : b32\n%off = mulwide.s32 %tid, %c4 : b64\n%to = add.s64 %out, %off : b64\n%from = add.s64 " \
  "%in, %off : b64\n" body "\n}\n"

static const char *in_kernel(Context *cx, const char *body) {
  return arena_printf(cx->arena, "%.*s%s\n}\n", (int)(sizeof KERNEL("") - 4), KERNEL(""), body);
}

static void branches_diverge(void **state) {
  int32_t out[THREADS];
  run(KERNEL("%c10 = const.b32 {10} : b32\n%p = setp.s32 %tid, %c10 {lt} : pred\n"
             "%v = if %p : b32 do () {\n"
             "  %q = setp.s32 %tid, %c4 {lt} : pred\n"
             "  %w = if %q : b32 do () {\n%a = neg.s32 %tid : b32\nyield %a\n} do () {\n%b = mul.s32 %tid, %tid : "
             "b32\nyield %b\n}\n"
             "  yield %w\n} do () {\nyield %tid\n}\n"
             "st.b32 %to, %v {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t < 4 ? -t : t < 10 ? t * t : t);
}

static void loops_have_their_own_length(void **state) {
  int32_t out[THREADS];
  /* Fibonacci: two carried values change places; each thread makes its own number of rounds. */
  run(KERNEL("%a, %b = for.s32 %c0, %tid, %c1, %c0, %c1 : b32, b32 do (%i: b32, %x: b32, %y: b32) {\n"
             "%s = add.s32 %x, %y : b32\nyield %y, %s\n}\nst.b32 %to, %a {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  uint32_t x = 0, y = 1;
  for (int t = 0; t < THREADS; t++) {
    assert_int_equal((uint32_t)out[t], x);
    uint32_t s = x + y;
    x = y;
    y = s;
  }
  /* down, by a negative step */
  run(KERNEL("%m = const.b32 {-3} : b32\n%a = for.s32 %tid, %c0, %m, %c0 : b32 do (%i: b32, %x: b32) {\n"
             "%s = add.s32 %x, %i : b32\nyield %s\n}\nst.b32 %to, %a {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) {
    int want = 0;
    for (int i = t; i > 0; i -= 3) want += i;
    assert_int_equal(out[t], want);
  }
}

static void whiles_carry_values(void **state) { /* the Collatz sequence's length, with a nested divergent if */
  int32_t out[THREADS];
  run(KERNEL("%first = add.s32 %tid, %c1 : b32\n"
             "%v, %steps = while %first, %c0 : b32, b32 do (%x: b32, %k: b32) {\n"
             "%p = setp.s32 %x, %c1 {ne} : pred\ncondition %p, %x, %k\n} do (%y: b32, %l: b32) {\n"
             "%bit = and.b32 %y, %c1 : b32\n%odd = setp.s32 %bit, %c0 {ne} : pred\n"
             "%z = if %odd : b32 do () {\n%c3 = const.b32 {3} : b32\n%t = fma.s32 %y, %c3, %c1 : b32\nyield %t\n} do "
             "() {\n"
             "%h = shr.u32 %y, %c1 : b32\nyield %h\n}\n%m = add.s32 %l, %c1 : b32\nyield %z, %m\n}\n"
             "st.b32 %to, %steps {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) {
    int n = 0;
    for (int x = t + 1; x != 1; x = x % 2 ? 3 * x + 1 : x / 2) n++;
    assert_int_equal(out[t], n);
  }
}

static void exits_end_threads(void **state) {
  int32_t out[THREADS];
  memset(out, 0xff, sizeof out);
  run(KERNEL("%bit = and.b32 %tid, %c1 : b32\n%p = setp.s32 %bit, %c0 {ne} : pred\n%c8 = const.b32 {8} : b32\n%q = "
             "setp.s32 %tid, %c8 {lt} : pred\n"
             "if %q do () {\nexit @%p\nst.b32 %to, %c4 {global}\nyield\n} do () {\nyield\n}\n"
             "%r = setp.s32 %tid, %c8 {ge} : pred\nst.b32 @%r %to, %tid {global}\nbarrier"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t >= 8 ? t : t % 2 ? -1 : 4);
}

static void uniform_claims_are_checked(void **state) {
  run_faults(KERNEL("%p = setp.s32 %tid, %c4 {lt} : pred\nif %p {uniform} do () {\nyield\n} do () {\nyield\n}"),
             (uint64_t[3]){0}, -1, "a uniform 'if' on which threads differ: 4 go on, others do not");
  run_faults(KERNEL("for.s32 %c0, %tid, %c1 {uniform} do (%i: b32) {\nyield\n}"), (uint64_t[3]){0}, -1,
             "a uniform 'for' on which threads differ: 63 go on, others do not");
  run(KERNEL("for.s32 %c0, %n, %c1 {uniform} do (%i: b32) {\nbarrier\nyield\n}"), (uint64_t[]){0, 0, 5});
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void guards_and_vectors(void **state) {
  _Alignas(16) int32_t in[THREADS + 4], out[THREADS];
  for (int i = 0; i < THREADS + 4; i++) in[i] = 100 + i;
  run(KERNEL("%p = setp.s32 %tid, %c4 {lt} : pred\n%v = ld.b32 @%p %from, %tid {global +4} : b32\nst.b32 @!%p %to, %v "
             "{global}\n"
             "%d = neg.s32 %v : b32\nst.b32 @%p %to, %d {global}"),
      (uint64_t[]){(uintptr_t)out, (uintptr_t)in, 0});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t < 4 ? -(101 + t) : t);
  run(KERNEL("%c16 = const.b32 {16} : b32\n%o = mulwide.s32 %tid, %c16 : b64\n%f = add.s64 %in, %o : b64\n%g = add.s64 "
             "%out, %o : b64\n%p = setp.s32 %tid, %c16 {lt} : pred\n"
             "%a, %b, %x, %y = ld.b32 @%p %f, %c0, %c0, %c0, %c0 {global} : b32, b32, b32, b32\nst.b32 @%p %g, %y, %x, "
             "%b, %a {global}"),
      (uint64_t[]){(uintptr_t)out, (uintptr_t)in, 0});
  for (int i = 0; i < THREADS; i++) assert_int_equal(out[i], 100 + (i ^ 3));
}

static void small_elements_extend(void **state) {
  int8_t in[THREADS];
  int32_t out[THREADS];
  for (int i = 0; i < THREADS; i++) in[i] = (int8_t)(i * 37);
  const char *kinds[] = {"s8", "u8"};
  for (int k = 0; k < 2; k++) {
    Context *cx = context_create();
    run(in_kernel(cx, arena_printf(cx->arena,
                                   "%%w = cvt.s32 %%tid {to=s64} : b64\n%%f = add.s64 %%in, %%w : b64\n%%v = ld.%s %%f "
                                   "{global} : b32\nst.b32 %%to, %%v {global}",
                                   kinds[k])),
        (uint64_t[]){(uintptr_t)out, (uintptr_t)in, 0});
    context_destroy(cx);
    for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], k ? (uint8_t)in[t] : in[t]);
  }
}

#define SHARED(body) \
  "kernel @k(%out: b64) warps=2 {\nbuffer \"buf\" bytes=256 align=16\nbuffer \"other\" bytes=64 align=16\n" \
  "%tid = special {tid.x} : b32\n%base = shared {buffer=0} : b32\n%c0 = const.b32 {0} : b32\n%c2 = const.b32 {2} : " \
  "b32\n%off = shl.b32 %tid, %c2 : b32\n%own = add.s32 %base, %off : b32\n" \
  "%c4 = const.b32 {4} : b32\n%wide = mulwide.s32 %tid, %c4 : b64\n%to = add.s64 %out, %wide : b64\n%flip = " \
  "const.b32 {252} : b32\n%back = xor.b32 %off, %flip : b32\n%far = add.s32 %base, %back : b32\n" \
  "%c4x = const.b32 {4} : b32\n%next = xor.b32 %off, %c4x : b32\n%beside = add.s32 %base, %next : b32\n" body "\n}\n"

static void shared_memory_passes_values(void **state) {
  int32_t out[THREADS];
  run(SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier\n%v = ld.b32 %far {shared buffer=0} : b32\nst.b32 %to, %v "
             "{global}"),
      (uint64_t[]){(uintptr_t)out});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], 63 - t);
  run(SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier {warp}\n%v = ld.b32 %beside {shared buffer=0} : b32\nst.b32 "
             "%to, %v {global}"),
      (uint64_t[]){(uintptr_t)out});
  for (int t = 0; t < THREADS; t++) assert_int_equal(out[t], t ^ 1);
}

static void races_are_found(void **state) {
  uint64_t none[1] = {0};
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\n%v = ld.b32 %far {shared buffer=0} : b32"), none, 0,
      "race in shared memory: thread 0 reads byte 252 (buffer 'buf') that thread 63 wrote, without a barrier between");
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier {warp}\n%v = ld.b32 %far {shared buffer=0} : b32"), none, 0,
      "race in shared memory: thread 0 reads byte 252 (buffer 'buf') that thread 63 wrote, without a barrier between");
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\n%v = ld.b32 %beside {shared buffer=0} : b32"), none, 0,
      "race in shared memory: thread 0 reads byte 4 (buffer 'buf') that thread 1 wrote, without a barrier between");
  run_faults(
      SHARED("st.b32 %own, %tid {shared buffer=0}\nbarrier\n%v = ld.b32 %far {shared buffer=0} : b32\nst.b32 %own, %v "
             "{shared buffer=0}"),
      none, 0,
      "race in shared memory: thread 0 writes byte 0 (buffer 'buf') that thread 63 read, without a barrier between");
  run_faults(
      SHARED("st.b32 %base, %tid {shared buffer=0}"), none, 1,
      "race in shared memory: thread 1 writes byte 0 (buffer 'buf') that thread 0 wrote, without a barrier between");
  run_faults(SHARED("%p = setp.s32 %tid, %c0 {eq} : pred\nst.b32 @%p %base, %c2 {shared buffer=0}\nbarrier\n%v = "
                    "ld.b32 %base {shared buffer=0} : b32\nst.b32 @%p %base, %c4 {shared buffer=0}"),
             none, 0,
             "race in shared memory: thread 0 writes byte 0 (buffer 'buf') that other threads read, without a barrier "
             "between");
  run(SHARED("st.b32 %base, %c2 {shared buffer=0}"), none); /* the same everywhere */
  run(SHARED("%p = setp.s32 %tid, %c0 {eq} : pred\nst.b32 @%p %base, %c0 {shared buffer=0}\nbarrier\natom.s32 %base, "
             "%tid {shared add relaxed cta buffer=0}"),
      none);
  run_faults(
      SHARED("%p = setp.s32 %tid, %c0 {eq} : pred\nst.b32 @%p %base, %c0 {shared buffer=0}\natom.s32 %base, %tid "
             "{shared add relaxed cta buffer=0}"),
      none, 1,
      "race in shared memory: thread 1 reads byte 0 (buffer 'buf') that thread 0 wrote, without a barrier between");
}

static void wrong_accesses_are_found(void **state) {
  int32_t out[4] = {0};
  uint64_t none[1] = {0};
  run_faults(SHARED("%v = ld.b32 %own {shared buffer=0} : b32"), none, 0,
             "thread 0 reads byte 0 of shared memory (buffer 'buf'), which nobody has written");
  run_faults(SHARED("st.b32 %own, %tid {shared buffer=0 +4}"), none, 63,
             "byte 256 of shared buffer 'buf', which has 256");
  run_faults(SHARED("st.b32 %own, %tid {shared buffer=0 +64}"), none, 48,
             "byte 256 of shared buffer 'buf', which has 256");
  run_faults(SHARED("st.b32 %own, %tid {shared +100000}"), none, 0, "shared memory at byte 100000 of 320");
  run_faults(SHARED("st.b32 %own, %tid, %tid {shared buffer=0}"), none, 1,
             "a store of 8 bytes at address 0x4, which is not a multiple of 8");
  char message[100];
  uint64_t odd = (uint64_t)(uintptr_t)out + 2;
  snprintf(message, sizeof message, "a load of 4 bytes at address 0x%llx, which is not a multiple of 4",
           (unsigned long long)odd);
  run_faults(KERNEL("%v = ld.b32 %in {global} : b32"), (uint64_t[]){0, odd, 0}, 0, message);
  run_faults(KERNEL("%p = setp.s32 %tid, %c4 {lt} : pred\nif %p do () {\nexit\nyield\n} do () {\nyield\n}\n%v = "
                    "shfl.b32 %tid, %c0 {idx imm=32} : b32"),
             (uint64_t[3]){0}, 4, "lane 4 reads from lane 0, whose thread has ended");
  run_faults(KERNEL("asm {text=\"nop;\"}"), (uint64_t[3]){0}, -1, "the simulator does not run inline PTX");
}

/* An access that `check` refuses, and a barrier that the verifier would have refused. */
static bool refuse_writes(void *arg, uint64_t address, int bytes, bool write) {
  ++*(int *)arg;
  return !write && bytes == 4 && address % 4 == 0;
}

static void the_caller_checks_addresses(void **state) {
  int32_t memory[THREADS] = {0};
  int asked = 0;
  Context *cx = context_create();
  LaneFunc *f = parse(cx, KERNEL("%v = ld.b32 %from {global} : b32\nst.b32 %to, %v {global}"));
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1, .check = refuse_writes, .check_arg = &asked};
  LaneSimFault fault;
  assert_false(lane_sim_run(f, (uint64_t[]){(uintptr_t)memory, (uintptr_t)memory, 0}, &o, &fault));
  assert_int_equal(asked, THREADS + 1);
  assert_int_equal(fault.thread, 0);
  assert_non_null(strstr(fault.message, "a store of 4 bytes"));
  assert_non_null(strstr(fault.message, "no memory of the kernel's"));
  context_destroy(cx);
}

/* ---- global memory ---- */

static bool runs(const char *body, const uint64_t *args, uint64_t seed, char *message) {
  Context *cx = context_create();
  volatile bool ok = false;
  message[0] = 0;
  if (context_try(cx)) {
    LaneFunc *f = parse(cx, in_kernel(cx, body));
    LaneSimFault fault;
    LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1, .seed = seed};
    ok = lane_sim_run(f, args, &o, &fault);
    snprintf(message, sizeof fault.message, "%s", fault.message);
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
  return ok;
}

/* Whatever warp comes first, the race is found. */
static void global_race(const char *body, bool is_race) {
  int32_t memory[2 * THREADS] = {0};
  for (uint64_t seed = 0; seed < 8; seed++) {
    char message[256];
    bool ok = runs(body, (uint64_t[]){(uintptr_t)memory, (uintptr_t)(memory + THREADS), 3}, seed, message);
    assert_int_equal(ok, !is_race);
    if (ok) continue;
    assert_non_null(strstr(message, "race in global memory"));
    assert_non_null(strstr(message, "a fault of the compiler"));
  }
}

/* across: the element of a thread of the other warp */
#define ACROSS \
  "%c63 = const.b32 {63} : b32\n%back = sub.s32 %c63, %tid : b32\n%boff = mulwide.s32 %back, %c4 : b64\n" \
  "%across = add.s64 %out, %boff : b64\n"

static void races_in_global_memory_are_found(void **state) {
  global_race(ACROSS "st.b32 %to, %tid {global}\n%v = ld.b32 %across {global} : b32\nst.b32 %from, %v {global}", true);
  global_race(ACROSS
              "st.b32 %to, %tid {global}\nbarrier\n%v = ld.b32 %across {global} : b32\nst.b32 %from, %v {global}",
              false);
  global_race(ACROSS "%v = ld.b32 %to {global} : b32\nst.b32 %across, %v {global}", true);
  global_race(ACROSS "%v = ld.b32 %to {global} : b32\nbarrier\nst.b32 %across, %v {global}", false);
  global_race(ACROSS "st.b32 %to, %tid {global}\nst.b32 %across, %tid {global}", true);
  /* One warp's barrier is not the block's. */
  global_race(ACROSS "st.b32 %to, %tid {global}\nbarrier {warp}\n%v = ld.b32 %across {global} : b32\nst.b32 %from, %v "
                     "{global}",
              true);
  /* Elements of one store to one address are the kernel's affair; from one iteration to the next they are not. */
  global_race("st.b32 %out, %tid {global}", false);
  global_race("for.s32 %c0, %n, %c1 do (%i: b32) {\n%v = add.s32 %tid, %i : b32\nst.b32 %out, %v {global}\nyield\n}",
              true);
  global_race(ACROSS "for.s32 %c0, %n, %c1 do (%i: b32) {\n%v = ld.b32 %to {global} : b32\n%w = add.s32 %v, %c1 : b32\n"
                     "st.b32 %across, %w {global}\nyield\n}",
              true);
  /* Atomics among themselves; but not beside others. */
  global_race("atom.u32 %out, %c1 {global add relaxed gpu}\natom.u32 %out, %tid {global max relaxed gpu}", false);
  global_race("atom.u32 %out, %c1 {global add relaxed gpu}\n%v = ld.b32 %out {global} : b32\nst.b32 %from, %v {global}",
              true);
}

/* A thread's own, and vectors and bytes beside each other. */
static void global_neighbours_are_no_races(void **state) {
  global_race("st.b32 %to, %tid {global}\n%v = ld.b32 %to {global} : b32\nst.b32 %to, %v {global}", false);
  global_race("%at = mulwide.s32 %tid, %c1 : b64\n%byte = add.s64 %out, %at : b64\nst.u8 %byte, %tid {global}\n"
              "%v = ld.u8 %byte {global} : b32\nst.u8 %byte, %v {global}",
              false);
}

static void warps_run_in_any_order(void **state) {
  int seen = 0;
  for (uint64_t seed = 1; seed < 32; seed++) {
    int32_t memory[2 * THREADS + 1] = {0};
    char message[256];
    /* The first lanes count; with a load and a store beside it, the stretch is one that warps do one by one. */
    const char *body = "%p = setp.s32 %lane, %c0 {eq} : pred\n%v = ld.b32 %to {global} : b32\n"
                       "st.b32 %to, %v {global}\n%old = atom.u32 @%p %in, %c1 {global add relaxed gpu} : b32\n"
                       "st.b32 @%p %to, %old {global}";
    if (!runs(body, (uint64_t[]){(uintptr_t)memory, (uintptr_t)(memory + THREADS), 0}, seed, message))
      fail_msg("%s", message);
    seen |= memory[0] < memory[32] ? 1 : 2;
  }
  assert_int_equal(seen, 3);
}

static void divergent_barriers_are_found(void **state) {
  static const struct {
    const char *op, *message;
  } cases[] = {
      {"barrier", "a barrier that thread 4 does not reach"},
      {"barrier {warp}", "'barrier' is reached by a part of warp 0 only: thread 31 is not there"},
      {"%v = vote %p {any} : pred", "'vote' is reached by a part of warp 0 only: thread 31 is not there"},
  };
  for (int i = 0; i < 3; i++) {
    Context *cx = context_create();
    const char *text = in_kernel(
        cx, arena_printf(cx->arena,
                         "%%p = setp.s32 %%tid, %%c4 {lt} : pred\nif %%p do () {\n%s\nyield\n} do () {\nyield\n}",
                         cases[i].op));
    LaneFunc *f = lane_parse(cx, source_from_text(cx, "t.lane", text, strlen(text)));
    LaneSimFault fault;
    assert_false(lane_sim_run(f, (uint64_t[3]){0}, &(LaneSimOptions){.grid = (int32_t[]){1, 1, 1}, .end = 1}, &fault));
    assert_string_equal(fault.message, cases[i].message);
    context_destroy(cx);
  }
}

/* ---- between lanes ----------------------------------------------------------------------------------------------- */

static void shuffles_follow_the_isa(void **state) {
  static const char *const names[] = {"bfly", "up", "down", "idx"};
  int32_t out[THREADS];
  for (int mode = 0; mode < 4; mode++)
    for (int width = 1; width <= 32; width *= 2)
      for (int by = 0; by < 32; by += 1 + by / 4) {
        Context *cx = context_create();
        run(in_kernel(cx, arena_printf(cx->arena,
                                       "%%b = const.b32 {%d} : b32\n%%v = shfl.b32 %%tid, %%b {%s imm=%d} : "
                                       "b32\nst.b32 %%to, %%v {global}",
                                       by, names[mode], width)),
            (uint64_t[]){(uintptr_t)out, 0, 0});
        context_destroy(cx);
        for (int t = 0; t < THREADS; t++) { /* the PTX ISA's own pseudocode, with c as the compiler writes it */
          int lane = t % 32, c = (32 - width) << 8 | (mode == SHUFFLE_UP ? 0 : 31), segment = c >> 8 & 31,
              clamp = c & 31;
          int max = (lane & segment) | (clamp & ~segment), min = lane & segment, j = 0;
          bool p = false;
          switch (mode) {
            case SHUFFLE_UP: j = lane - by, p = j >= max; break;
            case SHUFFLE_DOWN: j = lane + by, p = j <= max; break;
            case SHUFFLE_XOR: j = lane ^ by, p = j <= max; break;
            default: j = min | (by & ~segment), p = j <= max; break;
          }
          assert_int_equal(out[t], (t & ~31) + (p ? j : lane));
        }
      }
}

static void votes_and_reductions(void **state) {
  int32_t out[THREADS];
  run(KERNEL("%c40 = const.b32 {40} : b32\n%p = setp.s32 %tid, %c40 {lt} : pred\n%b = vote %p {ballot} : b32\nst.b32 "
             "%to, %b {global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  assert_int_equal((uint32_t)out[0], 0xffffffff);
  assert_int_equal((uint32_t)out[63], 0xff);
  run(KERNEL("%c40 = const.b32 {40} : b32\n%p = setp.s32 %tid, %c40 {lt} : pred\n%a = vote %p {all} : pred\n%e = vote "
             "%p {any} : pred\n%v = select.b32 %a, %c4, %c1 : b32\n%w = select.b32 %e, %v, %c0 : b32\nst.b32 %to, %w "
             "{global}"),
      (uint64_t[]){(uintptr_t)out, 0, 0});
  assert_int_equal(out[5], 4);
  assert_int_equal(out[35], 1);
  static const struct {
    const char *op;
    int want;
  } cases[] = {{"s32 %tid {add}", 32 * 47 + 16},
               {"s32 %tid {max}", 63},
               {"s32 %tid {min}", 32},
               {"b32 %tid {xor}", 0},
               {"b32 %tid {or}", 63},
               {"b32 %tid {and}", 32}};
  for (int i = 0; i < 6; i++) {
    Context *cx = context_create();
    run(in_kernel(cx, arena_printf(cx->arena, "%%v = redux.%s : b32\nst.b32 %%to, %%v {global}", cases[i].op)),
        (uint64_t[]){(uintptr_t)out, 0, 0});
    context_destroy(cx);
    assert_int_equal(out[40], cases[i].want);
  }
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

static const char *const counting =
    "kernel @k(%out: b64, %f: b64, %h: b64, %l: b64) warps=2 {\n%tid = special {tid.x} : b32\n%one = const.b32 {1} : "
    "b32\n%onef = const.b32 {0x3f800000} : b32\n"
    "%ten = const.b32 {10} : b32\n%p = setp.s32 %tid, %ten {lt} : pred\n%big = const.b64 {1} : b64\n"
    "%old = atom.s32 %out, %one {global add relaxed gpu} : b32\natom.f32 @%p %f, %onef {global add relaxed gpu}\n%two "
    "= const.b32 {0x3c003c00} : b32\n"
    "atom.f16x2 @!%p %h, %two {global add relaxed gpu}\natom.u64 %l, %big {global add relaxed gpu}\natom.s32 %out, "
    "%tid {global max relaxed gpu +4}\n"
    "atom.f32 %f, %onef, %onef {global add relaxed gpu +8}\n}\n";

typedef struct Memory {
  int32_t counters[2];
  float sums[4];
  uint32_t halves;
  uint64_t wide;
} Memory;
typedef struct Work {
  LaneFunc *f;
  Memory *memory;
  bool ok;
} Work;

static void *count_up(void *arg) {
  Work *w = arg;
  LaneSimFault fault;
  Memory *m = w->memory;
  uint64_t args[] = {(uintptr_t)m->counters, (uintptr_t)m->sums, (uintptr_t)&m->halves, (uintptr_t)&m->wide};
  w->ok = lane_sim_run(w->f, args, &(LaneSimOptions){.grid = (int32_t[]){100, 1, 1}, .begin = 0, .end = 15}, &fault);
  return NULL;
}

static void atomics_from_two_threads(void **state) {
  Context *cx = context_create();
  Memory memory = {0};
  Work work[2];
  pthread_t threads[2];
  LaneFunc *f = parse(cx, counting);
  for (int i = 0; i < 2; i++) {
    work[i] = (Work){f, &memory, false};
    assert_int_equal(pthread_create(&threads[i], NULL, count_up, &work[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    assert_true(work[i].ok);
  }
  assert_int_equal(memory.counters[0], 30 * 64);
  assert_int_equal(memory.counters[1], 63);
  assert_true(memory.sums[0] == 300);
  assert_true(memory.sums[2] == 30 * 64 && memory.sums[3] == 30 * 64);
  assert_true(f16_to_f32((uint16_t)memory.halves) == 30 * 54 && memory.halves >> 16 == (memory.halves & 0xffff));
  assert_int_equal(memory.wide, 30 * 64);
  context_destroy(cx);
}

static void compare_and_swap(void **state) {
  uint64_t memory[3] = {5, 5, 5};
  int32_t out[THREADS];
  run(KERNEL("%c5 = const.b32 {5} : b32\n%w5 = const.b64 {5} : b64\n%w7 = const.b64 {-7} : b64\n%h5 = const.b16 {5} : "
             "b16\n%h9 = const.b16 {9} : b16\n"
             "%a = atom.b32 %in, %c5, %tid {global cas relaxed gpu} : b32\n%b = atom.b64 %in, %w5, %w7 {global cas "
             "relaxed gpu +8} : b64\n"
             "%d = atom.b16 %in, %h5, %h9 {global cas relaxed gpu +16} : b16\n%e = atom.b32 %in, %tid {global xchg "
             "relaxed gpu +20} : b32\nst.b32 %to, %a {global}"),
      (uint64_t[]){(uintptr_t)out, (uintptr_t)memory, 0});
  assert_int_equal(memory[0], 0); /* thread 0 stored its number, and nobody then found 5 there, but thread 5 */
  assert_int_equal(memory[1], (uint64_t)-7);
  assert_int_equal(memory[2], 9 | 63ull << 32);
  assert_int_equal(out[0], 5);
  assert_int_equal(out[9], 0);
}

/* ---- programs and special registers ------------------------------------------------------------------------------ */

static void programs_know_where_they_are(void **state) {
  static int32_t out[2 * 3 * 4][4];
  const char *text = "kernel @k(%out: b64) warps=1 {\n%tid = special {tid.x} : b32\n%x = special {ctaid.x} : b32\n%y = "
                     "special {ctaid.y} : b32\n%z = special {ctaid.z} : b32\n"
                     "%nx = special {nctaid.x} : b32\n%ny = special {nctaid.y} : b32\n%nz = special {nctaid.z} : "
                     "b32\n%i = fma.s32 %z, %ny, %y : b32\n%j = fma.s32 %i, %nx, %x : b32\n"
                     "%c16 = const.b32 {16} : b32\n%o = mulwide.s32 %j, %c16 : b64\n%to = add.s64 %out, %o : b64\n%c0 "
                     "= const.b32 {0} : b32\n%p = setp.s32 %tid, %c0 {eq} : pred\n"
                     "st.b32 @%p %to, %x, %y, %z, %nz {global}\n}\n";
  memset(out, 0xff, sizeof out);
  Launch launch = {{2, 3, 4}, NULL, 0};
  run_with(text, (uint64_t[]){(uintptr_t)out}, &launch);
  for (int i = 0; i < 24; i++) {
    int32_t want[4] = {i % 2, i / 2 % 3, i / 6, 4};
    assert_memory_equal(out[i], want, sizeof want);
  }
  memset(out, 0xff, sizeof out);
  Context *cx = context_create();
  LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){2, 3, 4}, .begin = 1, .end = 3, .programs = (int64_t[]){0, 23, 7, 4}};
  assert_true(lane_sim_run(parse(cx, text), (uint64_t[]){(uintptr_t)out}, &o, &fault));
  for (int i = 0; i < 24; i++) assert_int_equal(out[i][3], i == 23 || i == 7 ? 4 : -1);
  context_destroy(cx);
}

static void parameters_have_their_type(void **state) {
  int64_t out[4];
  const char *text =
      "kernel @k(%out: b64, %a: b32 i8, %b: b32 u16, %c: pred i1, %d: b16 f16) warps=1 {\n%p = param.pred {imm=3} : "
      "pred\n"
      "%x = cvt.s32 %a {to=s64} : b64\n%y = cvt.s32 %b {to=s64} : b64\n%one = const.b64 {1} : b64\n%zero = const.b64 "
      "{0} : b64\n%z = select.b64 %p, %one, %zero : b64\n%w = cvt.f16 %d {to=s64} : b64\n"
      "st.b64 %out, %x {global}\nst.b64 %out, %y {global +8}\nst.b64 %out, %z {global +16}\nst.b64 %out, %w {global "
      "+24}\n}\n";
  run(text, (uint64_t[]){(uintptr_t)out, 0xff80, 0xabcdffff, 0xff02, 0x4900});
  assert_int_equal(out[0], -128);
  assert_int_equal(out[1], 65535);
  assert_int_equal(out[2], 1);
  assert_int_equal(out[3], 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(branches_diverge),
      cmocka_unit_test(loops_have_their_own_length),
      cmocka_unit_test(whiles_carry_values),
      cmocka_unit_test(exits_end_threads),
      cmocka_unit_test(uniform_claims_are_checked),
      cmocka_unit_test(guards_and_vectors),
      cmocka_unit_test(small_elements_extend),
      cmocka_unit_test(shared_memory_passes_values),
      cmocka_unit_test(races_are_found),
      cmocka_unit_test(races_in_global_memory_are_found),
      cmocka_unit_test(global_neighbours_are_no_races),
      cmocka_unit_test(warps_run_in_any_order),
      cmocka_unit_test(wrong_accesses_are_found),
      cmocka_unit_test(the_caller_checks_addresses),
      cmocka_unit_test(divergent_barriers_are_found),
      cmocka_unit_test(shuffles_follow_the_isa),
      cmocka_unit_test(votes_and_reductions),
      cmocka_unit_test(atomics_from_two_threads),
      cmocka_unit_test(compare_and_swap),
      cmocka_unit_test(programs_know_where_they_are),
      cmocka_unit_test(parameters_have_their_type),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
