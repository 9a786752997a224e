/* Barriers: every one that the compiler puts into a kernel is needed. Each kernel is compiled, and runs on the
 * simulator as it is; then with one of its barriers taken out, for each of them in turn. The simulator must then find a
 * race, or leave other results: so it is shown that barriers are where they must be, that none is there for nothing,
 * and that a missing one does not go unseen. */
#include "unit/front/test_front_kit.h"

#include "gpu/gpu.h"
#include "unit/gpu/test_order_kit.h"

enum { ELEMENTS = 4096, SEEDS = 3 };

typedef struct Memory {
  float x[ELEMENTS], y[ELEMENTS];
  int32_t out[ELEMENTS];
} Memory;

static void fill(Memory *m) {
  for (int i = 0; i < ELEMENTS; i++) {
    m->x[i] = (float)((i * 37) % 101 - 50);
    m->y[i] = (float)((i * 53) % 97);
    m->out[i] = i % 7;
  }
}

/* Of a kernel k(x, y, out, n); alias: y is x. */
static bool simulate(const LaneFunc *f, Memory *m, bool alias, uint64_t seed, char *message) {
  uint64_t args[] = {(uint64_t)(uintptr_t)m->x, (uint64_t)(uintptr_t)(alias ? m->x : m->y), (uint64_t)(uintptr_t)m->out,
                     3};
  LaneSimFault fault;
  LaneSimOptions o = {.grid = (int32_t[]){1, 1, 1}, .end = 1, .seed = seed};
  bool ok = lane_sim_run(f, args, &o, &fault);
  snprintf(message, sizeof fault.message, "%s", fault.message);
  return ok;
}

static bool is_block_barrier(const LaneOp *op) { return op->code == LANE_BARRIER && !op->warp; }

/* The kernel's lane IR without its barrier number `without`; -1: whole. NULL when it has no such barrier. */
static LaneFunc *compile(Kit *k, const char *text, int without) {
  LaneFunc *volatile f = NULL;
  *k = kit_compile(text);
  if (!k->c) fail_msg("refused:\n%s\n%s", text, k->messages);
  LaneOp *volatile found = NULL;
  if (context_try(k->cx)) {
    tile_optimize(k->c->func, NULL, NULL, true);
    f = gpu_compile(k->c->func, &(GpuOptions){.target = gpu_target_find("sm_90a"), .verify = true});
    if (without >= 0) found = order_find(f, is_block_barrier, without);
    context_end_try(k->cx);
  } else {
    fail_msg("not lowered:\n%s", text);
  }
  if (found) lane_remove(found);
  else if (without >= 0) f = NULL;
  return f;
}

static void show(const LaneFunc *f) {
  Buf b = {0};
  lane_print(&b, f, false);
  print_error("%s\n", b.at ? b.at : "");
  buf_destroy(&b);
}

/* What the kernel leaves must not depend on the order of warps, and be what the interpreter leaves. */
static void check_whole(const char *text, bool alias, Memory *want) {
  Kit k;
  char message[256];
  LaneFunc *f = compile(&k, text, -1);
  static Memory m;
  fill(want);
  Kit other = kit_compile(text);
  InterpMemory *memory = interp_memory_create();
  interp_memory_add(memory, want->x, sizeof want->x, "x");
  interp_memory_add(memory, want->y, sizeof want->y, "y");
  interp_memory_add(memory, want->out, sizeof want->out, "out");
  uint64_t args[] = {(uint64_t)(uintptr_t)want->x, (uint64_t)(uintptr_t)(alias ? want->x : want->y),
                     (uint64_t)(uintptr_t)want->out, 3};
  InterpFault fault = {0};
  if (!interp_run(other.c->func, memory, args, (int32_t[]){1, 1, 1}, &(InterpOptions){0}, &fault))
    fail_msg("the interpreter: %s\n%s", fault.message, text);
  interp_memory_destroy(memory);
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    fill(&m);
    if (!simulate(f, &m, alias, seed, message)) {
      show(f);
      fail_msg("%s\n%s", message, text);
    }
    if (memcmp(&m, want, sizeof m)) {
      show(f);
      fail_msg("differs from the interpreter, seed %d:\n%s", (int)seed, text);
    }
  }
  kit_free(&other);
  kit_free(&k);
}

/* Takes out each barrier, with x and y two arrays and with one array for both. There must be `least`, and
 * `spare` of them need not be missed. */
static void needs_most_barriers(const char *text, int least, int spare) {
  static Memory want[2], m;
  int barriers = 0;
  for (int alias = 0; alias < 2; alias++) check_whole(text, alias, &want[alias]);
  for (;; barriers++) {
    Kit k;
    char message[256];
    LaneFunc *f = compile(&k, text, barriers);
    bool caught = !f;
    for (int run = 0; run < 2 * SEEDS && !caught; run++) {
      bool alias = run & 1;
      fill(&m);
      caught = !simulate(f, &m, alias, (uint64_t)run / 2, message) || memcmp(&m, &want[alias], sizeof m);
    }
    if (!caught && spare-- == 0) {
      show(f);
      fail_msg("nothing misses barrier %d:\n%s", barriers, text);
    }
    kit_free(&k);
    if (!f) break;
  }
  if (barriers < least) fail_msg("%d barriers, not %d:\n%s", barriers, least, text);
}

static void needs_its_barriers(const char *text, int least) { needs_most_barriers(text, least, 0); }

#define K HEAD "@triton.jit\ndef k(x, y, out, n):\n    i = tl.arange(0, 1024)\n"

/* ---- what threads exchange through shared memory ---- */

static void exchanges(void **state) {
  needs_its_barriers(K "    tl.store(y + i, tl.load(x + i) - tl.sum(tl.load(x + i), 0))\n", 1);
  needs_its_barriers(K "    tl.store(y + i, tl.cumsum(tl.load(x + i), 0))\n", 1);
  needs_its_barriers(K "    tl.store(y + i, tl.sort(tl.load(x + i)))\n", 1);
  needs_its_barriers(K "    tl.store(y + i, tl.gather(tl.load(x + i), 1023 - i, 0))\n", 1);
  needs_its_barriers(K "    r = tl.arange(0, 32)\n    a = tl.load(x + r[:, None] * 32 + r[None, :])\n"
                       "    tl.store(y + r[:, None] * 32 + r[None, :], tl.trans(a))\n",
                     1);
  /* The loads before the store of the sum are over, but nobody sees that: their values went through shared memory. */
  needs_most_barriers(K "    r = tl.arange(0, 32)\n    acc = tl.zeros((32, 32), tl.float32)\n"
                        "    for j in range(n):\n        a = tl.load(x + r[:, None] * 32 + r[None, :] + j * 32)\n"
                        "        acc += tl.dot(a.to(tl.float16), a.to(tl.float16))\n"
                        "    tl.store(y + r[:, None] * 32 + r[None, :], acc)\n",
                      2, 1);
  needs_its_barriers(K "    tl.store(out + tl.arange(0, 16), tl.histogram(tl.load(out + i), 16))\n", 1);
}

/* ---- the order of stores and loads ---- */

static void stores_before_loads(void **state) {
  /* other elements, in one layout and in another */
  needs_its_barriers(K "    tl.store(x + i, tl.load(y + i))\n    tl.store(y + i, tl.load(x + 1023 - i))\n", 2);
  needs_its_barriers(K "    tl.store(x + i + 4, tl.load(x + i))\n", 1);
  needs_its_barriers(K "    a = tl.load(x + i)\n    tl.store(x + (i ^ 64), a)\n", 1);
  needs_its_barriers(K "    r = tl.arange(0, 32)\n    p = x + r[:, None] * 32 + r[None, :]\n"
                       "    a = tl.load(p)\n    tl.store(x + r[:, None] + r[None, :] * 32, a)\n",
                     1);
  /* scalars: all threads load, one stores */
  needs_its_barriers(K "    c = tl.load(out)\n    tl.store(out, c + 1)\n    tl.store(out, tl.load(out) * 2)\n", 2);
  needs_its_barriers(K "    tl.store(x + i, 1.0)\n    tl.store(y, tl.load(x))\n", 1);
  needs_its_barriers(
      K "    for j in range(n):\n        a = tl.load(x + i)\n        tl.store(x + ((i + 32) & 1023), a)\n", 2);
}

static void chosen_pointers(void **state) {
  needs_its_barriers(K "    p = tl.where(n > 0, x, y)\n    a = tl.load(x + i)\n    tl.store(p + 1023 - i, a)\n", 1);
  needs_its_barriers(K "    for j in range(n):\n        tl.store(y + 1023 - i, tl.load(x + i))\n        x, y = y, x\n",
                     1);
  needs_its_barriers(K "    if n > 2:\n        p = x\n    else:\n        p = y\n    a = tl.load(x + i)\n"
                       "    tl.store(p + 1023 - i, a)\n",
                     1);
}

/* Two arguments that are one array. */
static void aliases(void **state) {
  needs_its_barriers(K "    r = tl.load(out)\n    s = tl.load(out + 7)\n    a = tl.load(x + r * n + 5 + i)\n"
                       "    tl.store(y + s * n + i, a)\n",
                     1);
  needs_its_barriers(K "    a = tl.load(x + i)\n    tl.store(y + 1023 - i, a)\n", 1);
  needs_its_barriers(K "    a = tl.load(x + i)\n    tl.store(y + i + 1, a)\n", 1);
  needs_its_barriers(K "    a = tl.load(x + i)\n    tl.store(y + i, a + 1)\n    b = tl.load(x + i)\n"
                       "    tl.store(y + (i ^ 256), b)\n",
                     1);
}

/* What was before a loop that may not run at all is still to be waited for after it. */
static void loops_that_do_not_run(void **state) {
  static Memory want;
  for (int alias = 0; alias < 2; alias++) {
    check_whole(K "    a = tl.load(x + (i ^ 256))\n    for j in range(n - 3):\n        tl.debug_barrier()\n"
                  "    tl.store(x + i, a)\n",
                alias, &want);
    check_whole(K "    a = tl.load(x + (i ^ 256))\n    while n > 3:\n        n -= 1\n        tl.debug_barrier()\n"
                  "    tl.store(x + i, a)\n",
                alias, &want);
  }
}

static int barriers_in_loops(const LaneBlock *b, bool in_loop) {
  int n = 0;
  for (const LaneOp *op = b->first; op; op = op->next) {
    n += in_loop && is_block_barrier(op);
    for (int i = 0; i < 2; i++)
      if (op->body[i]) n += barriers_in_loops(op->body[i], in_loop || op->code == LANE_FOR || op->code == LANE_WHILE);
  }
  return n;
}

/* A barrier that a body begins with, whatever for, is one for what was before, too; one before an inner loop is none
 * for what that accesses. */
static void met_already(void **state) {
  static const struct {
    const char *text;
    int in_loops;
  } all[] = {
      {K "    a = tl.load(x + i)\n    for j in range(n):\n        tl.debug_barrier()\n"
         "        tl.store(y + (i ^ 64), a)\n",
       1},
      {K "    while n > 0:\n        n -= 1\n        tl.debug_barrier()\n"
         "        tl.store(y + (i ^ 64), tl.load(x + i))\n",
       2},
      {K "    for j in range(n):\n        tl.debug_barrier()\n        s = tl.load(x + i)\n        for k in range(n):\n"
         "            s += tl.load(y + i)\n        tl.store(y + (i ^ 64), s)\n",
       2},
      {K "    a = tl.load(x + i)\n    if n > 2:\n        tl.debug_barrier()\n        tl.store(y + (i ^ 64), a)\n", 0},
  };
  static Memory want;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    for (int alias = 0; alias < 2; alias++) check_whole(all[i].text, alias, &want);
    Kit k;
    LaneFunc *f = compile(&k, all[i].text, -1);
    int n = barriers_in_loops(f->body, false);
    if (n != all[i].in_loops) {
      show(f);
      fail_msg("%d barriers in loops, not %d:\n%s", n, all[i].in_loops, all[i].text);
    }
    kit_free(&k);
  }
}

/* Where each thread reads what it wrote itself there is none. */
static void no_barrier(void **state) {
  static Memory want;
  static const char *const kernels[] = {
      K "    a = tl.load(x + i)\n    tl.store(y + i, a)\n",
      K "    a = tl.load(x + i)\n    tl.store(x + i, a + 1)\n    tl.store(x + i, tl.load(x + i) * 2)\n",
      K "    for j in range(n):\n        a = tl.load(x + j * 1024 + i)\n        tl.store(x + j * 1024 + i, a + 1)\n",
      K "    for j in range(n):\n        tl.store(y + j * 1024 + i, tl.load(x + j * 1024 + i))\n",
  };
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    for (int alias = 0; alias < 2; alias++) {
      Kit k;
      check_whole(kernels[i], alias, &want);
      assert_null(compile(&k, kernels[i], 0));
      kit_free(&k);
    }
}

/* What may change meanwhile one thread loads, for all. */
static void volatile_loads(void **state) {
  needs_its_barriers(K "    s = 0.0\n    for j in range(n):\n        s += tl.load(y + j, volatile=True)\n"
                       "    tl.store(y + i, s)\n",
                     2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exchanges),      cmocka_unit_test(stores_before_loads),   cmocka_unit_test(chosen_pointers),
      cmocka_unit_test(aliases),        cmocka_unit_test(met_already),           cmocka_unit_test(no_barrier),
      cmocka_unit_test(volatile_loads), cmocka_unit_test(loops_that_do_not_run),
  };
  return cmocka_run_group_tests_name("barriers", tests, NULL, NULL);
}
