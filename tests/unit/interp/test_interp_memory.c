/* The interpreter's memory: loads, stores and atomics, and every way in which they are wrong. */
#include "test_interp_kit.h"

#include <pthread.h>

/* Loads 4 elements from %x + %at, masked by lane < %n, and stores them at %y. */
static const char *const copy4 = "kernel @k(%x: *f32, %y: *f32, %at: i32, %n: i32) {\n"
                                 "%lane = arange {start=0, end=4} : i32[4]\n"
                                 "%n4 = splat %n : i32[4]\n"
                                 "%mask = cmp %lane, %n4 {pred=lt} : i1[4]\n"
                                 "%at4 = splat %at : i32[4]\n"
                                 "%i = add %lane, %at4 : i32[4]\n"
                                 "%xs = splat %x : *f32[4]\n"
                                 "%xp = addptr %xs, %i : *f32[4]\n"
                                 "%v = load %xp, %mask : f32[4]\n"
                                 "%ys = splat %y : *f32[4]\n"
                                 "%yp = addptr %ys, %lane : *f32[4]\n"
                                 "store %yp, %v, %mask @7:4\n"
                                 "}\n";

static const float eight[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static Kit *open_copy4(float **y, int64_t at, int64_t n) {
  Kit *k = kit_open(copy4);
  kit_array(k, "x", 32, eight);
  *y = kit_array(k, "y", 16, NULL);
  kit_int(k, at);
  kit_int(k, n);
  return k;
}

static void masks_guard_memory(void **state) {
  float *y;
  Kit *k = open_copy4(&y, 6, 2); /* lanes 2 and 3 would be out of bounds */
  kit_succeeds(k);
  assert_memory_equal(y, ((float[]){7, 8, 0, 0}), 16);
  kit_close(k);

  k = open_copy4(&y, 1 << 30, 0); /* no lane at all */
  kit_succeeds(k);
  assert_memory_equal(y, ((float[]){0, 0, 0, 0}), 16);
  kit_close(k);

  k = kit_open("kernel @k(%x: *f32) {\n"
               "%zero = const {value=0} : i64[4]\n%null = bitcast %zero : *f32[4]\n%no = const {value=0} : "
               "i1[4]\n%other = const {value=2.5} : f32[4]\n"
               "%v = load %null, %no, %other : f32[4]\nstore %null, %v, %no\n"
               "%one = const {value=1} : i32[4]\n%ip = bitcast %null : *i32[4]\n"
               "%old = atomic_rmw %ip, %one, %no {kind=add} : i32[4]\n"
               "%i = arange {start=0, end=4} : i32[4]\n%xs = splat %x : *f32[4]\n%xp = addptr %xs, %i : *f32[4]\n"
               "%f = convert %old : f32[4]\n%sum = add %f, %v : f32[4]\nstore %xp, %sum\n}\n");
  float *x = kit_array(k, "x", 16, NULL);
  kit_succeeds(k);
  assert_memory_equal(x, ((float[]){2.5, 2.5, 2.5, 2.5}), 16);
  kit_close(k);
}

static void bounds(void **state) {
  float *y;
  Kit *k = open_copy4(&y, 5, 4);
  kit_faults(k, "load out of bounds: element 3 of %xp reads 4 bytes at x+32 (x has 32 bytes)");
  assert_int_equal(k->fault.rank, 1);
  assert_int_equal(k->fault.index[0], 3);
  assert_int_equal(k->fault.span.line, 9);
  assert_string_equal(k->fault.span.source->path, "k.ir");
  kit_close(k);

  k = open_copy4(&y, -1, 4);
  kit_faults(k, "load out of bounds: element 0 of %xp reads 4 bytes at x-4 (x has 32 bytes)");
  kit_close(k);

  k = kit_open(
      "kernel @k(%x: *i64, %n: i32) {\n%p = addptr %x, %n : *i64\n%c = const {value=1} : i64\nstore %p, %c\n}\n");
  kit_array(k, "out", 16, NULL);
  kit_int(k, 2);
  kit_faults(k, "store out of bounds: %p writes 8 bytes at out+16 (out has 16 bytes)");
  assert_int_equal(k->fault.rank, 0);
  k->args[0] += 4; /* into the last element, but not all of it */
  k->args[1] = 1;
  kit_faults(k, "store out of bounds: %p writes 8 bytes at out+12 (out has 16 bytes)");
  k->args[0] = 8;
  kit_faults(k, "store out of bounds: %p writes 8 bytes at null+16, where no allocation is");
  k->args[0] = 0x100000;
  kit_faults(k, "store out of bounds: %p writes 8 bytes at 0x100008, where no allocation is");
  kit_close(k);

  k = kit_open(
      "kernel @k(%x: *i8) {\n%i = arange {start=0, end=8} : i32[8]\n%j = reshape %i : i32[2,4]\n"
      "%xs = splat %x : *i8[2,4]\n%0 = addptr %xs, %j : *i8[2,4]\n%c = const {value=1} : i8[2,4]\nstore %0, %c\n}\n");
  kit_array(k, NULL, 6, NULL);
  kit_faults(k, "store out of bounds: element (1, 2) writes 1 byte at x+6 (x has 6 bytes)");
  assert_int_equal(k->fault.rank, 2);
  assert_int_equal(k->fault.index[0], 1);
  assert_int_equal(k->fault.index[1], 2);
  kit_close(k);
}

/* A pointer belongs to the array it came from, also through loops and selects of one array. */
static void into_another_array(void **state) {
  static float memory[16];
  float *y;
  Kit *k = open_copy4(&y, 8, 4);
  assert_true(interp_memory_add(k->m, memory, 32, "a"));
  assert_true(interp_memory_add(k->m, memory + 8, 32, "b"));
  k->args[0] = (uint64_t)(uintptr_t)memory;
  kit_faults(k, "load out of bounds: element 0 of %xp reads 4 bytes at a+32, which is b+0 (a has 32 bytes)");
  k->args[2] = 6; /* runs on from a into b */
  kit_faults(k, "load out of bounds: element 2 of %xp reads 4 bytes at a+32, which is b+0 (a has 32 bytes)");
  k->args[2] = 4;
  kit_succeeds(k);
  kit_close(k);

  /* A pointer that may come from either argument, or from memory, may touch both. */
  k = kit_open("kernel @k(%x: *f32, %y: *f32, %far: i1, %at: i64, %o: *f32) {\n"
               "%p = select %far, %y, %x : *f32\n%q = addptr %p, %at : *f32\n%v = load %q : f32\nstore %o, %v\n}\n");
  kit_array(k, "x", 32, eight);
  float two[2] = {10, 20}, *b = kit_array(k, "b", 8, two);
  kit_int(k, 0);
  kit_int(k, b - (float *)(uintptr_t)k->args[0]);
  float *o = kit_array(k, "o", 4, NULL);
  kit_succeeds(k);
  assert_float_equal(*o, 10, 0);
  k->args[2] = 1, k->args[3] = 1;
  kit_succeeds(k);
  assert_float_equal(*o, 20, 0);
  kit_close(k);

  k = kit_open("kernel @k(%x: *f32, %n: i32) {\n%zero = const {value=0} : i32\n%one = const {value=1} : i32\n"
               "%c = const {value=1.0} : f32\n"
               "%end = for %zero, %n, %one, %x : *f32 do (%i: i32, %p: *f32) {\nstore %p, %c\n%next = addptr %p, %one "
               ": *f32\nyield %next\n}\n"
               "store %end, %c\n}\n");
  kit_array(k, "x", 16, NULL);
  kit_int(k, 3);
  kit_succeeds(k);
  k->args[1] = 4;
  kit_faults(k, "store out of bounds: %end writes 4 bytes at x+16 (x has 16 bytes)");
  k->args[1] = 6;
  kit_faults(k, "store out of bounds: %p writes 4 bytes at x+16 (x has 16 bytes)");
  kit_close(k);
}

static void pointers_in_memory(void **state) {
  Kit *k = kit_open("kernel @k(%table: **f32, %n: i32, %o: *f32) {\n"
                    "%e = addptr %table, %n : **f32\n%p = load %e : *f32\n%v = load %p : f32\nstore %o, %v\n}\n");
  float *a = interp_memory_alloc(k->m, 4, "a");
  *a = 42;
  interp_memory_mark_written(k->m, a, 4);
  void *table[2] = {NULL, a};
  kit_array(k, "table", 16, table);
  kit_int(k, 1);
  float *o = kit_array(k, "o", 4, NULL);
  kit_succeeds(k);
  assert_float_equal(*o, 42, 0);
  k->args[1] = 0;
  kit_faults(k, "load out of bounds: %p reads 4 bytes at null+0, where no allocation is");
  kit_close(k);
}

static void unwritten(void **state) {
  float *y;
  Kit *k = open_copy4(&y, 0, 4);
  float *x = interp_memory_alloc(k->m, 32, "fresh");
  k->args[0] = (uint64_t)(uintptr_t)x;
  interp_memory_mark_written(k->m, x, 8);
  kit_faults(k, "load of unwritten memory: element 2 of %xp reads 4 bytes at fresh+8, which nobody has written");
  interp_memory_mark_written(k->m, x + 2, 7); /* one byte short */
  kit_faults(k, "load of unwritten memory: element 3 of %xp reads 4 bytes at fresh+12, which nobody has written");
  k->options.allow_unwritten = true;
  kit_succeeds(k);
  k->options.allow_unwritten = false;
  k->args[3] = 3;
  kit_succeeds(k);
  assert_int_equal((uintptr_t)x % 64, 0);
  k->args[0] = (uint64_t)(uintptr_t)y; /* what a kernel stores is written */
  k->args[1] = (uint64_t)(uintptr_t)x;
  kit_succeeds(k);
  kit_close(k);
}

static void misaligned(void **state) {
  float *y;
  Kit *k = open_copy4(&y, 0, 4);
  k->args[0] += 2;
  kit_faults(k, "misaligned load: element 0 of %xp reads 4 bytes at x+2");
  k->args[0] -= 2;
  k->args[1] += 1;
  k->args[3] = 1;
  kit_faults(k, "misaligned store: element 0 of %yp writes 4 bytes at y+1");
  assert_int_equal(k->fault.span.line, 7);
  assert_int_equal(k->fault.span.col, 4);
  kit_close(k);
}

static void bools(void **state) {
  Kit *k = kit_open("kernel @k(%x: *i1) {\n%i = arange {start=0, end=4} : i32[4]\n%xs = splat %x : *i1[4]\n"
                    "%p = addptr %xs, %i : *i1[4]\n%v = load %p : i1[4]\n%w = not %v : i1[4]\nstore %p, %w\n}\n");
  uint8_t *x = kit_array(k, "x", 4, "\0\1\2\xff");
  kit_succeeds(k);
  assert_memory_equal(x, "\1\0\0\0", 4);
  kit_close(k);
}

/* Lanes that load one address, strided lanes, reversed lanes. */
static void any_order(void **state) {
  Kit *k = kit_open("kernel @k(%x: *i16, %ip: *i32, %y: *i16) {\n%lane = arange {start=0, end=8} : i32[8]\n"
                    "%is = splat %ip : *i32[8]\n%ia = addptr %is, %lane : *i32[8]\n%i = load %ia : i32[8]\n"
                    "%xs = splat %x : *i16[8]\n%p = addptr %xs, %i : *i16[8]\n%v = load %p : i16[8]\n"
                    "%ys = splat %y : *i16[8]\n%q = addptr %ys, %i : *i16[8]\nstore %q, %v\n}\n");
  int16_t x[8] = {10, 11, 12, 13, 14, 15, 16, 17};
  int32_t i[8] = {7, 6, 2, 2, 2, 3, 4, 0};
  kit_array(k, "x", 16, x);
  kit_array(k, "i", 32, i);
  int16_t *y = kit_array(k, "y", 16, NULL);
  kit_succeeds(k);
  assert_memory_equal(y, ((int16_t[]){10, 0, 12, 13, 14, 0, 16, 17}), 16);
  kit_close(k);
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

static void atomic_kinds(void **state) {
  static const struct {
    const char *kind, *type;
    double old, value, expected;
  } cases[] = {
      {"add", "i32", 5, -7, -2}, {"add", "i64", 5, 1e12, 5 + 1e12}, {"add", "f32", 1.5, 2, 3.5},
      {"add", "f64", 1, 2, 3},   {"add", "f16", 2048, 1, 2048},     {"add", "bf16", 256, 1, 256},
      {"max", "i32", -5, 3, 3},  {"min", "i32", -5, 3, -5},         {"max", "u32", 5, 4e9, 4e9},
      {"min", "u32", 5, 4e9, 5}, {"max", "f32", -5, -3, -3},        {"min", "f32", -5, -3, -5},
      {"max", "f32", 5, -3, 5},  {"min", "f32", 5, -3, -3},         {"max", "f64", -1, 2, 2},
      {"min", "f64", 1, 2, 1},   {"max", "f32", -1, -0.0, -0.0},    {"and", "i32", 12, 10, 8},
      {"or", "i32", 12, 10, 14}, {"xor", "u64", 12, 10, 6},         {"xchg", "f32", 1, 2, 2},
      {"xchg", "i64", 1, 2, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char ir[512];
    snprintf(ir, sizeof ir,
             "kernel @k(%%x: *%s, %%v: *%s, %%o: *%s) {\n%%a = load %%v : %s\n%%old = atomic_rmw %%x, %%a {kind=%s} : "
             "%s\nstore %%o, %%old\n}\n",
             cases[i].type, cases[i].type, cases[i].type, cases[i].type, cases[i].kind, cases[i].type);
    Dtype t;
    assert_true(dtype_parse(cases[i].type, &t));
    uint8_t old[8], value[8], expected[8];
    dtype_store_float(t, old, cases[i].old);
    dtype_store_float(t, value, cases[i].value);
    dtype_store_float(t, expected, cases[i].expected);
    Kit *k = kit_open(ir);
    size_t bytes = (size_t)dtype_bytes(t);
    uint8_t *x = kit_array(k, "x", bytes, old);
    kit_array(k, "v", bytes, value);
    uint8_t *o = kit_array(k, "o", bytes, NULL);
    kit_succeeds(k);
    assert_memory_equal(x, expected, bytes);
    assert_memory_equal(o, old, bytes);
    kit_close(k);
  }
}

/* Each lane is its own atomic: duplicates all count. Programs add to one array without a race. */
static void atomics_count(void **state) {
  Kit *k =
      kit_open("kernel @k(%x: *i32) {\n%pid = program_id {axis=0} : i32\n%i = arange {start=0, end=16} : i32[16]\n"
               "%four = const {value=4} : i32[16]\n%j = rem %i, %four : i32[16]\n%one = const {value=1} : i32[16]\n"
               "%xs = splat %x : *i32[16]\n%p = addptr %xs, %j : *i32[16]\n%old = atomic_rmw %p, %one {kind=add} : "
               "i32[16]\n}\n");
  int32_t zero[4] = {0}, *x = kit_array(k, "x", 16, zero);
  k->grid[0] = 5;
  kit_succeeds(k);
  for (int i = 0; i < 4; i++) assert_int_equal(x[i], 20);
  kit_close(k);

  k = kit_open("kernel @k(%x: *i64, %o: *i64) {\n%two = const {value=2} : i64\n%three = const {value=3} : i64\n"
               "%a = atomic_cas %x, %two, %three : i64\n%b = atomic_cas %x, %two, %two : i64\n"
               "%s = add %a, %b : i64\nstore %o, %s\n}\n");
  int64_t two = 2, *y = kit_array(k, "x", 8, &two), *o = kit_array(k, "o", 8, NULL);
  kit_succeeds(k);
  assert_int_equal(*y, 3);
  assert_int_equal(*o, 5);
  kit_close(k);
}

static void atomic_faults(void **state) {
  Kit *k =
      kit_open("kernel @k(%x: *i32) {\n%one = const {value=1} : i32\n%old = atomic_rmw %x, %one {kind=add} : i32\n}\n");
  kit_array(k, "x", 8, NULL);
  kit_faults(k, "atomic of unwritten memory: %x updates 4 bytes at x+0, which nobody has written");
  k->args[0] += 8;
  kit_faults(k, "atomic out of bounds: %x updates 4 bytes at x+8 (x has 8 bytes)");
  k->args[0] -= 7;
  kit_faults(k, "misaligned atomic: %x updates 4 bytes at x+1");
  kit_close(k);
}

/* ---- races ------------------------------------------------------------------------------------------------------- */

/* Program p does `first`, program 1 of 2 does `second`: what is written in `then`/`else`. */
static Kit *open_two(const char *zero, const char *one) {
  char ir[1024];
  snprintf(ir, sizeof ir,
           "kernel @k(%%out: *i32, %%o2: *i32) {\n%%pid = program_id {axis=0} : i32\n%%c = const {value=1} : i32\n"
           "%%six = const {value=16} : i32\n%%p = addptr %%out, %%six : *i32\n"
           "%%second = cmp %%pid, %%c {pred=ge} : i1\nif %%second do () {\n%s\nyield\n} do () {\n%s\nyield\n}\n}\n",
           one, zero);
  Kit *k = kit_open(ir);
  int32_t zeros[32] = {0};
  kit_array(k, "out", sizeof zeros, zeros);
  kit_array(k, "o2", sizeof zeros, zeros);
  k->grid[0] = 2;
  return k;
}

static void races(void **state) {
#define WRITE(v) "store %p, %c"
#define READ(v) "%" v " = load %p : i32"
#define ATOMIC(v) "%" v " = atomic_rmw %p, %c {kind=add, sem=relaxed} : i32"
  static const struct {
    const char *zero, *one, *message;
  } cases[] = {
      {WRITE("a"), WRITE("b"), "race: program (1,0,0) writes out+64, which program (0,0,0) also wrote"},
      {READ("a"), WRITE("b"), "race: program (1,0,0) writes out+64, which program (0,0,0) read"},
      {WRITE("a"), READ("b"), "race: program (1,0,0) reads out+64, which program (0,0,0) wrote"},
      {ATOMIC("a"), WRITE("b"), "race: program (1,0,0) writes out+64, which program (0,0,0) updated atomically"},
      {ATOMIC("a"), READ("b"), "race: program (1,0,0) reads out+64, which program (0,0,0) updated atomically"},
      {WRITE("a"), ATOMIC("b"), "race: program (1,0,0) atomically updates out+64, which program (0,0,0) wrote"},
      {READ("a"), ATOMIC("b"), "race: program (1,0,0) atomically updates out+64, which program (0,0,0) read"},
      {READ("a"), READ("b"), NULL},
      {ATOMIC("a"), ATOMIC("b"), NULL},
      {READ("a") "\n" WRITE("a"), "%x = load %o2 : i32", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Kit *k = open_two(cases[i].zero, cases[i].one);
    if (cases[i].message) kit_faults(k, cases[i].message);
    else kit_succeeds(k);
    if (cases[i].message) assert_int_equal(k->fault.program[0], 1);
    k->options.check_races = false;
    kit_succeeds(k);
    k->options.check_races = true;
    int64_t order[] = {1, 0}; /* found in any order */
    k->options.programs = order;
    k->options.program_count = 2;
    assert_int_equal(kit_run(k), cases[i].message == NULL);
    kit_close(k);
  }
  /* Several readers: a writer that is one of them conflicts with another. */
  Kit *k = open_two(READ("a"), READ("b") "\n" WRITE("b"));
  kit_faults(k, "race: program (1,0,0) writes out+64, which program (0,0,0) read");
  kit_close(k);
}

/* Overlapping tiles: the element and the coordinates of a three-dimensional grid. */
static void races_between_tiles(void **state) {
  Kit *k = kit_open(
      "kernel @k(%x: *i8, %step: i32) {\n%pid = program_id {axis=1} : i32\n%o = mul %pid, %step : i32\n"
      "%i = arange {start=0, end=64} : i32[64]\n%os = splat %o : i32[64]\n%j = add %i, %os : i32[64]\n"
      "%xs = splat %x : *i8[64]\n%p = addptr %xs, %j : *i8[64]\n%c = const {value=1} : i8[64]\nstore %p, %c\n}\n");
  kit_array(k, "x", 1 << 16, NULL);
  kit_int(k, 64);
  k->grid[1] = 1000;
  kit_succeeds(k);
  k->args[1] = 63; /* byte 63 is in the first two */
  kit_faults(k, "race: program (0,1,0) writes x+63, which program (0,0,0) also wrote");
  assert_int_equal(k->fault.index[0], 0);
  int64_t order[] = {1, 0};
  k->options.programs = order;
  k->options.program_count = 2;
  kit_faults(k, "race: program (0,0,0) writes x+63, which program (0,1,0) also wrote");
  assert_int_equal(k->fault.index[0], 63);
  k->grid[2] = 2;
  int64_t far[] = {1002, 3};
  k->options.programs = far;
  k->args[1] = 1;
  kit_faults(k, "race: program (0,3,0) writes x+3, which program (0,2,1) also wrote");
  kit_close(k);
}

/* Odd sizes and offsets against a model with one entry a byte. */
static void races_match_a_model(void **state) {
  enum { BYTES = 12000, PROGRAMS = 40 };
  static const char *const ir =
      "kernel @k(%x: *i8, %plan: *i32) {\n%pid = program_id {axis=0} : i32\n%three = const {value=3} : i32\n"
      "%one = const {value=1} : i32\n%m = mul %pid, %three : i32\n%q = addptr %plan, %m : *i32\n"
      "%begin = load %q : i32\n%q1 = addptr %q, %one : *i32\n%count = load %q1 : i32\n"
      "%q2 = addptr %q1, %one : *i32\n%kind = load %q2 : i32\n%zero = const {value=0} : i32\n"
      "%i = arange {start=0, end=8192} : i32[8192]\n%cs = splat %count : i32[8192]\n"
      "%mask = cmp %i, %cs {pred=lt} : i1[8192]\n%bs = splat %begin : i32[8192]\n"
      "%j = add %i, %bs : i32[8192]\n%xs = splat %x : *i8[8192]\n%p = addptr %xs, %j : *i8[8192]\n"
      "%w = cmp %kind, %zero {pred=ne} : i1\n%c = const {value=1} : i8[8192]\n"
      "if %w do () {\nstore %p, %c, %mask\nyield\n} do () {\n%v = load %p, %mask : i8[8192]\nyield\n}\n}\n";
  uint64_t seed = 3;
  int raced = 0;
  for (int round = 0; round < 60; round++) {
    int32_t plan[PROGRAMS][3];
    int programs = 2 + (int)(kit_random(&seed) % (PROGRAMS - 2)), first_race = -1;
    int16_t writer[BYTES], readers[BYTES][2];
    memset(writer, -1, sizeof writer);
    memset(readers, -1, sizeof readers);
    for (int i = 0; i < programs; i++) {
      int align = 1 << kit_random(&seed) % 8;
      int begin = (int)(kit_random(&seed) % 4000) / align * align,
          count = (int)(kit_random(&seed) % 300) / align * align;
      int kind = kit_random(&seed) % 4 == 0;
      memcpy(plan[i], ((int32_t[]){begin, count, kind}), 12);
      for (int b = begin; b < begin + count && first_race < 0; b++) {
        bool others_read = (readers[b][0] >= 0 && readers[b][0] != i) || (readers[b][1] >= 0 && readers[b][1] != i);
        if ((writer[b] >= 0 && writer[b] != i) || (kind && others_read)) first_race = b;
        if (kind) writer[b] = (int16_t)i;
        else readers[b][readers[b][0] >= 0] = (int16_t)i;
      }
      if (first_race >= 0) {
        programs = i + 1;
        break;
      }
    }
    Kit *k = kit_open(ir);
    char zeros[BYTES] = {0};
    kit_array(k, "x", BYTES, zeros);
    kit_array(k, "plan", sizeof plan, plan);
    k->grid[0] = programs;
    bool ok = kit_run(k);
    assert_int_equal(ok, first_race < 0);
    if (!ok) {
      char where[32];
      snprintf(where, sizeof where, " x+%d, ", first_race);
      assert_non_null(strstr(k->fault.message, where));
      raced++;
    }
    kit_close(k);
  }
  assert_in_range(raced, 10, 55);
}

/* A lock orders what the programs do under it; a relaxed one, or none, does not. */
static void locks_order_programs(void **state) {
  static const char *const ir =
      "kernel @k(%%lock: *i32, %%sum: *i32) {\n%%zero = const {value=0} : i32\n%%one = const {value=1} : i32\n"
      "while  do () {\n%%old = atomic_cas %%lock, %%zero, %%one {sem=%s} : i32\n%%busy = cmp %%old, %%one {pred=eq} : "
      "i1\ncondition %%busy\n} do () {\nyield\n}\n%s\n"
      "%%s = load %%sum : i32\n%%t = add %%s, %%one : i32\nstore %%sum, %%t\n"
      "%%x = atomic_rmw %%lock, %%zero {kind=xchg, sem=%s} : i32\n%s\n}\n";
  static const struct {
    const char *acquire, *barrier, *release, *after;
    bool races;
  } cases[] = {
      {"acq_rel", "", "acq_rel", "", false},
      {"acquire", "", "release", "", false},
      {"relaxed", "", "release", "", true},
      {"relaxed", "barrier", "release", "", true},
      {"relaxed", "barrier {acquire=1}", "release", "", false},
      {"release", "barrier {acquire=1}", "acq_rel", "", false},
      {"relaxed", "barrier {acquire=1}", "relaxed", "", true},
      {"acquire", "", "relaxed", "", true},
      {"acq_rel", "", "acq_rel", "store %sum, %t", true}, /* after the lock was given back */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1024];
    snprintf(text, sizeof text, ir, cases[i].acquire, cases[i].barrier, cases[i].release, cases[i].after);
    Kit *k = kit_open(text);
    int32_t zero = 0;
    kit_array(k, "lock", 4, &zero);
    int32_t *sum = kit_array(k, "sum", 4, &zero);
    k->grid[0] = 50;
    k->options.shuffle = true;
    assert_int_equal(kit_run(k), !cases[i].races);
    if (!cases[i].races) assert_int_equal(*sum, 50);
    else assert_non_null(strstr(k->fault.message, "race: program"));
    kit_close(k);
  }
}

/* The last program to arrive reads what all others stored: ordered by the counter they all add to. */
static void counters_order_programs(void **state) {
  Kit *k =
      kit_open("kernel @k(%count: *i32, %part: *i32, %out: *i32) {\n%pid = program_id {axis=0} : i32\n%one = const "
               "{value=1} : i32\n"
               "%p = addptr %part, %pid : *i32\nstore %p, %pid\n%old = atomic_rmw %count, %one {kind=add} : i32\n"
               "%last = const {value=31} : i32\n%is = cmp %old, %last {pred=eq} : i1\nif %is do () {\n"
               "%i = arange {start=0, end=32} : i32[32]\n%ps = splat %part : *i32[32]\n%q = addptr %ps, %i : *i32[32]\n"
               "%v = load %q : i32[32]\n%s = reduce %v {axis=0} : i32 do (%a: i32, %b: i32) {\n%c = add %a, %b : "
               "i32\nyield %c\n}\n"
               "store %out, %s\nyield\n} do () {\nyield\n}\n}\n");
  int32_t zero = 0;
  kit_array(k, "count", 4, &zero);
  kit_array(k, "part", 128, NULL);
  int32_t *out = kit_array(k, "out", 4, NULL);
  k->grid[0] = 32;
  k->options.shuffle = true;
  k->options.seed = 11;
  kit_succeeds(k);
  assert_int_equal(*out, 31 * 32 / 2);
  kit_close(k);
}

/* ---- the registry ------------------------------------------------------------------------------------------------ */

static void registry(void **state) {
  float *y;
  Kit *k = open_copy4(&y, 0, 4);
  static float outside[8] = {9, 8, 7, 6, 5, 4, 3, 2};
  k->args[0] = (uint64_t)(uintptr_t)outside;
  assert_false(kit_run(k));
  assert_true(interp_memory_add(k->m, outside, sizeof outside, "outside"));
  assert_true(interp_memory_add(k->m, outside, sizeof outside, "again"));
  kit_succeeds(k);
  assert_memory_equal(y, outside, 16);
  interp_memory_remove(k->m, outside);
  kit_succeeds(k);
  k->args[2] = 8;
  kit_faults(k, "load out of bounds: element 0 of %xp reads 4 bytes at again+32 (again has 32 bytes)");
  k->args[2] = 0;
  interp_memory_remove(k->m, outside);
  assert_false(kit_run(k));
  interp_memory_remove(k->m, outside); /* not known any more */
  interp_memory_remove(k->m, NULL);

  /* An array within a larger one: the larger one counts. */
  assert_true(interp_memory_add(k->m, outside, sizeof outside, "whole"));
  assert_true(interp_memory_add(k->m, outside + 1, 8, "part"));
  k->args[0] = (uint64_t)(uintptr_t)(outside + 1);
  kit_succeeds(k);
  assert_null(interp_memory_alloc(k->m, SIZE_MAX, "huge"));
  void *empty = interp_memory_alloc(k->m, 0, "empty");
  assert_non_null(empty);
  interp_memory_remove(k->m, empty);
  kit_close(k);
  interp_memory_destroy(NULL);
}

typedef struct Job {
  Kit *k;
  uint64_t args[4];
  bool ok;
  InterpFault fault;
} Job;

static void *run_job(void *arg) {
  Job *j = arg;
  int32_t grid[3] = {1, 1, 1};
  j->ok = true;
  for (int i = 0; i < 200 && j->ok; i++) {
    void *p = interp_memory_alloc(j->k->m, 64, "other");
    j->ok = interp_run(j->k->f, j->k->m, j->args, grid, &j->k->options, &j->fault);
    interp_memory_remove(j->k->m, p);
  }
  return NULL;
}

static void launches_at_once(void **state) {
  float *y;
  Kit *k = open_copy4(&y, 0, 4);
  float *all = interp_memory_alloc(k->m, 4 * 16, "all");
  pthread_t threads[4];
  Job jobs[4];
  for (int i = 0; i < 4; i++) {
    jobs[i] = (Job){.k = k, .args = {k->args[0], (uint64_t)(uintptr_t)(all + 4 * i), (uint64_t)i, 4}};
    assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    if (!jobs[i].ok) fail_msg("%s", jobs[i].fault.message);
    assert_memory_equal(all + 4 * i, eight + i, 16);
  }
  k->args[0] = (uint64_t)(uintptr_t)all; /* all of it counts as written now */
  k->args[2] = 12;
  kit_succeeds(k);
  kit_close(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(masks_guard_memory),
      cmocka_unit_test(bounds),
      cmocka_unit_test(into_another_array),
      cmocka_unit_test(pointers_in_memory),
      cmocka_unit_test(unwritten),
      cmocka_unit_test(misaligned),
      cmocka_unit_test(bools),
      cmocka_unit_test(any_order),
      cmocka_unit_test(atomic_kinds),
      cmocka_unit_test(atomics_count),
      cmocka_unit_test(atomic_faults),
      cmocka_unit_test(races),
      cmocka_unit_test(races_between_tiles),
      cmocka_unit_test(races_match_a_model),
      cmocka_unit_test(locks_order_programs),
      cmocka_unit_test(counters_order_programs),
      cmocka_unit_test(registry),
      cmocka_unit_test(launches_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
