/* The interpreter's control flow, printing, asserts, the order of programs and the debugger's hook. */
#include "test_interp_kit.h"

/* A kernel of %o: *i64 and %n: i64 whose body stores %r at %o. */
static int64_t value_of(const char *body, int64_t n) {
  char ir[4096];
  snprintf(ir, sizeof ir, "kernel @k(%%o: *i64, %%n: i64) {\n%s\nstore %%o, %%r\n}\n", body);
  Kit *k = kit_open(ir);
  int64_t *o = kit_array(k, "o", 8, NULL);
  kit_int(k, n);
  kit_succeeds(k);
  int64_t r = *o;
  kit_close(k);
  return r;
}

static void for_loops(void **state) {
  const char *sum = "%zero = const {value=0} : i64\n%one = const {value=1} : i64\n"
                    "%r = for %zero, %n, %one, %zero : i64 do (%i: i64, %s: i64) {\n%t = add %s, %i : i64\nyield %t\n}";
  assert_int_equal(value_of(sum, 10), 45);
  assert_int_equal(value_of(sum, 0), 0);
  assert_int_equal(value_of(sum, -5), 0);
  /* Counting down, by a constant step only. */
  const char *down = "%ten = const {value=10} : i64\n%step = const {value=-3} : i64\n"
                     "%r = for %ten, %n, %step, %n : i64 do (%i: i64, %s: i64) {\n%h = const {value=100} : i64\n%u = "
                     "mul %s, %h : i64\n%t = add %u, %i : i64\nyield %t\n}";
  assert_int_equal(value_of(down, 1), 1 * 1000000 + 100704);
  assert_int_equal(value_of(down, 10), 10);
  assert_int_equal(value_of(down, 11), 11);
  /* A yield that permutes: Fibonacci. */
  const char *swap = "%zero = const {value=0} : i64\n%one = const {value=1} : i64\n"
                     "%r, %q = for %zero, %n, %one, %zero, %one : i64, i64 do (%i: i64, %a: i64, %b: i64) {\n%c = add "
                     "%a, %b : i64\nyield %b, %c\n}";
  assert_int_equal(value_of(swap, 1), 1);
  assert_int_equal(value_of(swap, 50), 12586269025);
  const char *rotate = "%zero = const {value=0} : i64\n%one = const {value=1} : i64\n%two = const {value=2} : i64\n"
                       "%x, %y, %z = for %zero, %n, %one, %zero, %one, %two : i64, i64, i64 do (%i: i64, %a: i64, %b: "
                       "i64, %c: i64) {\nyield %b, %c, %a\n}\n"
                       "%t = const {value=10} : i64\n%u = mul %x, %t : i64\n%v = add %u, %y : i64\n%w = mul %v, %t : "
                       "i64\n%r = add %w, %z : i64";
  assert_int_equal(value_of(rotate, 0), 12);
  assert_int_equal(value_of(rotate, 1), 120);
  assert_int_equal(value_of(rotate, 2), 201);
  assert_int_equal(value_of(rotate, 3), 12);
  /* The ends of the type: no wrapping round. */
  const char *ends =
      "%from = const {value=9223372036854775800} : i64\n%to = const {value=9223372036854775807} : i64\n%five = const "
      "{value=5} : i64\n%zero = const {value=0} : i64\n%one = const {value=1} : i64\n"
      "%r = for %from, %to, %five, %zero : i64 do (%i: i64, %s: i64) {\n%t = add %s, %one : i64\nyield %t\n}";
  assert_int_equal(value_of(ends, 0), 2);
  const char *bytes =
      "%from = const {value=250} : u8\n%to = const {value=255} : u8\n%two = const {value=2} : u8\n%zero = const "
      "{value=0} : i64\n%one = const {value=1} : i64\n"
      "%r = for %from, %to, %two, %zero : i64 do (%i: u8, %s: i64) {\n%t = add %s, %one : i64\nyield %t\n}";
  assert_int_equal(value_of(bytes, 0), 3);
  const char *signed_bytes =
      "%from = const {value=-128} : i8\n%to = const {value=127} : i8\n%big = const {value=100} : i8\n%zero = const "
      "{value=0} : i64\n%one = const {value=1} : i64\n"
      "%r = for %from, %to, %big, %zero : i64 do (%i: i8, %s: i64) {\n%t = add %s, %one : i64\nyield %t\n}";
  assert_int_equal(value_of(signed_bytes, 0), 3);
}

static void loop_steps(void **state) {
  Kit *k = kit_open("kernel @k(%step: i32) {\n%zero = const {value=0} : i32\n%ten = const {value=10} : i32\n"
                    "for %zero, %ten, %step do (%i: i32) {\nyield\n}\n}\n");
  kit_int(k, 0);
  kit_faults(k, "the step of this loop is 0, and a step computed at run time must be positive");
  k->args[0] = (uint64_t)-2;
  kit_faults(k, "the step of this loop is -2, and a step computed at run time must be positive");
  k->args[0] = 2;
  kit_succeeds(k);
  kit_close(k);
}

static void nested_loops_and_tiles(void **state) {
  /* Values from outside a loop live through it, carried tiles keep theirs, results live on. */
  Kit *k = kit_open(
      "kernel @k(%o: *f32, %n: i32) {\n%zero = const {value=0} : i32\n%one = const {value=1} : i32\n"
      "%i = arange {start=0, end=8} : i32[8]\n%base = convert %i : f32[8]\n%acc0 = const {value=0.0} : f32[8]\n"
      "%acc, %last = for %zero, %n, %one, %acc0, %base : f32[8], f32[8] do (%a: i32, %x: f32[8], %y: f32[8]) {\n"
      "  %in = for %zero, %n, %one, %x : f32[8] do (%b: i32, %z: f32[8]) {\n"
      "    %bf = convert %b : f32\n%bs = splat %bf : f32[8]\n%t = mul %bs, %base : f32[8]\n%w = add %z, %t : "
      "f32[8]\nyield %w\n  }\n"
      "  %v = add %y, %in : f32[8]\n  yield %in, %v\n}\n"
      "%sum = add %acc, %last : f32[8]\n%sum2 = add %sum, %base : f32[8]\n"
      "%os = splat %o : *f32[8]\n%p = addptr %os, %i : *f32[8]\nstore %p, %sum2\n}\n");
  float *o = kit_array(k, "o", 32, NULL);
  kit_int(k, 4);
  kit_succeeds(k);
  for (int e = 0; e < 8; e++) {
    float base = (float)e, acc = 0, last = base;
    for (int a = 0; a < 4; a++) {
      for (int b = 0; b < 4; b++) acc += (float)b * base;
      last += acc;
    }
    assert_float_equal(o[e], acc + last + base, 0);
  }
  kit_close(k);
}

static void while_and_if(void **state) {
  /* Collatz steps, with the condition handing on other values than it was given. */
  const char *collatz = "%zero = const {value=0} : i64\n%one = const {value=1} : i64\n%two = const {value=2} : "
                        "i64\n%three = const {value=3} : i64\n"
                        "%end, %r = while %n, %zero : i64, i64 do (%x: i64, %c: i64) {\n%go = cmp %x, %one {pred=ne} : "
                        "i1\ncondition %go, %x, %c\n} do (%y: i64, %d: i64) {\n"
                        "%odd = rem %y, %two : i64\n%is = cmp %odd, %one {pred=eq} : i1\n"
                        "%next = if %is : i64 do () {\n%m = mul %y, %three : i64\n%p = add %m, %one : i64\nyield %p\n} "
                        "do () {\n%h = div %y, %two : i64\nyield %h\n}\n"
                        "%e = add %d, %one : i64\nyield %next, %e\n}";
  assert_int_equal(value_of(collatz, 1), 0);
  assert_int_equal(value_of(collatz, 27), 111);
  /* Swapping through a while. */
  const char *gcd = "%zero = const {value=0} : i64\n%m = const {value=84} : i64\n"
                    "%r, %z = while %n, %m : i64, i64 do (%a: i64, %b: i64) {\n%go = cmp %b, %zero {pred=ne} : "
                    "i1\ncondition %go, %a, %b\n} do (%c: i64, %d: i64) {\n"
                    "%e = rem %c, %d : i64\nyield %d, %e\n}";
  assert_int_equal(value_of(gcd, 36), 12);
  assert_int_equal(value_of(gcd, 35), 7);
  /* A branch's yield of values from outside, and crosswise. */
  const char *cross =
      "%zero = const {value=0} : i64\n%ten = const {value=10} : i64\n%go = cmp %n, %zero {pred=lt} : i1\n"
      "%a, %b = if %go : i64, i64 do () {\nyield %n, %ten\n} do () {\nyield %ten, %n\n}\n%t = mul %a, %ten : i64\n%r = "
      "add %t, %b : i64";
  assert_int_equal(value_of(cross, 3), 103);
  assert_int_equal(value_of(cross, -3), -20);
}

static void program_ids(void **state) {
  Kit *k = kit_open(
      "kernel @k(%o: *i32) {\n%x = program_id {axis=0} : i32\n%y = program_id {axis=1} : i32\n%z = program_id {axis=2} "
      ": i32\n"
      "%nx = num_programs {axis=0} : i32\n%ny = num_programs {axis=1} : i32\n%nz = num_programs {axis=2} : i32\n"
      "%a = mul %z, %ny : i32\n%b = add %a, %y : i32\n%c = mul %b, %nx : i32\n%d = add %c, %x : i32\n"
      "%h = const {value=100} : i32\n%e = mul %nz, %h : i32\n%v = add %d, %e : i32\n%p = addptr %o, %d : *i32\nstore "
      "%p, %v\n}\n");
  int32_t *o = kit_array(k, "o", 24 * 4, NULL);
  k->grid[0] = 2, k->grid[1] = 3, k->grid[2] = 4;
  k->options.shuffle = true;
  kit_succeeds(k);
  for (int i = 0; i < 24; i++) assert_int_equal(o[i], 400 + i);
  kit_close(k);
}

static void grids(void **state) {
  Kit *k = kit_open("kernel @k() {\n%c = const {value=0} : i1\nassert %c {text=\"ran\"}\n}\n");
  k->grid[1] = 0;
  kit_succeeds(k);
  assert_false(k->fault.set);
  k->grid[1] = -1;
  kit_faults(k, "the grid (1, -1, 1) has a negative size");
  k->grid[0] = k->grid[1] = k->grid[2] = INT32_MAX;
  kit_faults(k, "the grid (2147483647, 2147483647, 2147483647) has too many programs");
  k->grid[0] = 4, k->grid[1] = k->grid[2] = 1;
  int64_t out[] = {4};
  k->options.programs = out;
  k->options.program_count = 1;
  kit_faults(k, "program 4 is not in the grid, which has 4");
  k->options.program_count = 0;
  kit_succeeds(k);
  kit_close(k);
}

/* Every program runs once, in an order that depends on the seed. */
static void order_of_programs(void **state) {
  Kit *k = kit_open("kernel @k() {\n%x = program_id {axis=0} : i32\nprint %x {text=\" \"}\n}\n");
  char *seen[3];
  for (int n = 1; n <= 300; n += 23) {
    k->grid[0] = n;
    for (int s = 0; s < 3; s++) {
      k->options.shuffle = s > 0;
      k->options.seed = (uint64_t)s;
      k->printed.n = 0;
      kit_succeeds(k);
      bool ran[300] = {false};
      int count = 0, id;
      for (const char *p = k->printed.at; p && (p = strstr(p, "idx () ")); p++) {
        assert_int_equal(sscanf(p, "idx () %d", &id), 1);
        assert_in_range(id, 0, n - 1);
        assert_false(ran[id]);
        ran[id] = true;
        count++;
      }
      assert_int_equal(count, n);
      seen[s] = strdup(k->printed.at);
    }
    if (n > 20) {
      assert_string_not_equal(seen[0], seen[1]);
      assert_string_not_equal(seen[1], seen[2]);
    }
    for (int s = 0; s < 3; s++) free(seen[s]);
  }
  kit_close(k);
}

static void print(void **state) {
  Kit *k = kit_open(
      "kernel @k(%p: *f32) {\n%i = arange {start=-1, end=1} : i32[2]\n%j = reshape %i : i32[2,1]\n"
      "%h = const {value=1.5} : f16\n%u = const {value=18446744073709551615} : u64\n%b = const {value=1} : i1\n"
      "%nan = const {value=nan} : f32\n%small = const {value=-1} : i16\n%none = const {value=-inf} : f64\n"
      "print {text=\" here\"}\nprint %j {text=\" j: \"}\nprint %h, %u {text=\" hu: \"}\nprint %b {text=\" b: \"}\n"
      "print %nan, %none {text=\" n: \"}\nprint %small {text=\" x: \", hex=1}\nprint %j {text=\" jx: \", hex=1}\nprint "
      "%h {text=\" hx: \", hex=1}\nprint %p {text=\" p: \"}\n}\n");
  k->args[0] = 0xabc0;
  k->grid[0] = 3, k->grid[1] = 2;
  int64_t one[] = {5};
  k->options.programs = one;
  k->options.program_count = 1;
  kit_succeeds(k);
  assert_string_equal(k->printed.at, "pid (2, 1, 0) here\n"
                                     "pid (2, 1, 0) idx (0, 0) j: -1\n"
                                     "pid (2, 1, 0) idx (1, 0) j: 0\n"
                                     "pid (2, 1, 0) idx () hu: (operand 0) 1.500000\n"
                                     "pid (2, 1, 0) idx () hu: (operand 1) 18446744073709551615\n"
                                     "pid (2, 1, 0) idx () b: 1\n"
                                     "pid (2, 1, 0) idx () n: (operand 0) nan\n"
                                     "pid (2, 1, 0) idx () n: (operand 1) -inf\n"
                                     "pid (2, 1, 0) idx () x: 0xffff\n"
                                     "pid (2, 1, 0) idx (0, 0) jx: 0xffffffff\n"
                                     "pid (2, 1, 0) idx (1, 0) jx: 0x00000000\n"
                                     "pid (2, 1, 0) idx () hx: 0x3e00\n"
                                     "pid (2, 1, 0) idx () p: 0xabc0\n");
  kit_close(k);
}

static void asserts(void **state) {
  Kit *k = kit_open("kernel @k(%n: i32) {\n%i = arange {start=0, end=8} : i32[8]\n%j = reshape %i : i32[2,4]\n%ns = "
                    "splat %n : i32[2,4]\n"
                    "%ok = cmp %j, %ns {pred=lt} : i1[2,4]\n%six = const {value=6} : i32[2,4]\n%mask = cmp %j, %six "
                    "{pred=lt} : i1[2,4]\n"
                    "assert %ok, %mask {text=\"j < n\"} @12:8\nassert %n {text=\"\"}\n}\n");
  kit_int(k, 6);
  kit_succeeds(k);
  k->args[0] = 5;
  kit_faults(k, "assertion failed: j < n");
  assert_int_equal(k->fault.span.line, 12);
  assert_int_equal(k->fault.rank, 2);
  assert_int_equal(k->fault.index[0], 1);
  assert_int_equal(k->fault.index[1], 1);
  kit_close(k);

  k = kit_open("kernel @k(%n: i64, %x: f32) {\nassert %n {text=\"\"}\n%z = const {value=8} : i64\n%c = cmp %n, %z "
               "{pred=eq} : i1\nassume %c\n%r = asm %x {text=\"tanh.approx.f32 $0, $1;\"} : f32\n}\n");
  kit_int(k, 0);
  kit_int(k, 0);
  kit_faults(k, "assertion failed");
  assert_int_equal(k->fault.rank, 0);
  k->args[0] = 1LL << 40; /* every byte counts */
  kit_faults(k, "assumption does not hold");
  k->args[0] = 8;
  kit_faults(k, "inline assembly cannot run on the interpreter; use a CUDA device");
  kit_close(k);
}

/* ---- the hook ---------------------------------------------------------------------------------------------------- */

typedef struct Steps {
  Kit *k;
  Buf log;
  int stop_after;
} Steps;

static const Value *named(const Block *b, const char *name) {
  for (int i = 0; i < b->arg_count; i++)
    if (b->args[i]->name && !strcmp(b->args[i]->name, name)) return b->args[i];
  for (const Op *op = b->first; op; op = op->next) {
    for (int i = 0; i < op->out_count; i++)
      if (op->out[i]->name && !strcmp(op->out[i]->name, name)) return op->out[i];
    for (int r = 0; r < op_info[op->code].regions; r++) {
      const Value *v = named(op->body[r], name);
      if (v) return v;
    }
  }
  return NULL;
}

static bool on_step(void *arg, InterpFrame *frame, const Op *next) {
  Steps *s = arg;
  int32_t program[3];
  interp_program(frame, program);
  buf_printf(&s->log, "%d:%d", program[0], next->span->line);
  const char *const watched[] = {"n", "s", "t", "i", "r", "c"};
  for (int w = 0; w < 6; w++) {
    const int32_t *v = interp_value(frame, named(s->k->f->body, watched[w]));
    if (v) buf_printf(&s->log, " %s=%d", watched[w], *v);
  }
  buf_putc(&s->log, '\n');
  return --s->stop_after != 0;
}

static void steps(void **state) {
  Kit *k = kit_open("kernel @k(%n: i32) {\n%c = const {value=1} : i32 @1:0\n%zero = const {value=0} : i32 @1:4\n"
                    "%r = for %zero, %n, %c, %n : i32 @2:0 do (%i: i32, %s: i32) {\n%t = add %s, %i : i32 @3:0\n%u = "
                    "hint %t {kind=divisible, dims=[1]} : i32 @3:4\nbarrier @4:0\nyield %u @4:0\n}\n"
                    "%v = add %r, %r : i32 @5:0\n}\n");
  kit_int(k, 2);
  k->grid[0] = 2;
  Steps s = {.k = k, .stop_after = -1};
  k->options.step = on_step;
  k->options.step_arg = &s;
  kit_succeeds(k);
  assert_string_equal(s.log.at, "0:1 n=2\n"
                                "0:2 n=2 c=1\n"
                                "0:3 n=2 s=2 i=0 c=1\n"
                                "0:4 n=2 s=2 t=2 i=0 c=1\n"
                                "0:3 n=2 s=2 i=1 c=1\n"
                                "0:4 n=2 s=2 t=3 i=1 c=1\n"
                                "0:5 n=2 s=3 t=3 i=1 r=3 c=1\n"
                                "1:1 n=2\n"
                                "1:2 n=2 c=1\n"
                                "1:3 n=2 s=2 i=0 c=1\n"
                                "1:4 n=2 s=2 t=2 i=0 c=1\n"
                                "1:3 n=2 s=2 i=1 c=1\n"
                                "1:4 n=2 s=2 t=3 i=1 c=1\n"
                                "1:5 n=2 s=3 t=3 i=1 r=3 c=1\n");
  s.log.n = 0;
  s.stop_after = 2;
  kit_faults(k, "stopped");
  assert_string_equal(s.log.at, "0:1 n=2\n0:2 n=2 c=1\n");
  buf_destroy(&s.log);
  kit_close(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(for_loops),
      cmocka_unit_test(loop_steps),
      cmocka_unit_test(nested_loops_and_tiles),
      cmocka_unit_test(while_and_if),
      cmocka_unit_test(program_ids),
      cmocka_unit_test(grids),
      cmocka_unit_test(order_of_programs),
      cmocka_unit_test(print),
      cmocka_unit_test(asserts),
      cmocka_unit_test(steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
