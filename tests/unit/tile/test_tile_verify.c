/* The verifier: each kind of wrong IR gets its message, and what is right passes. */
#include "tile/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char *const header =
    "kernel @k(%p: *f32, %cp: *const f32, %q: *i32, %n: i32, %l: i64, %c: i1, %x: f32, %u: u32) {\n"
    "  %i = const {value=1} : i32\n"
    "  %t = const {value=1.0} : f32[4,8]\n"
    "  %v = const {value=1} : i32[4]\n"
    "  %f = const {value=1.0} : f32[4]\n"
    "  %m = const {value=1} : i1[4]\n"
    "  %w = splat %p : *f32[4]\n";

/* The message for a kernel whose body is `header` and `ops`, or "" when it is right. */
static void verify(const char *ops, char out[512]) {
  Context *cx = context_create();
  if (context_try(cx)) {
    char *text = arena_printf(cx->arena, "%s%s\n}\n", header, ops);
    Func *f = tile_parse(cx, source_from_text(cx, "t.tile", text, strlen(text)));
    tile_verify(f, "test");
    *out = 0;
    context_end_try(cx);
  } else {
    snprintf(out, 512, "%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
}

static void wrong(const char *ops, const char *want) {
  char got[512], whole[512];
  verify(ops, got);
  snprintf(whole, sizeof whole, "wrong IR after test: %s", want);
  if (strcmp(got, whole)) fail_msg("for\n%s\nthe message is\n%s\nnot\n%s", ops, got, whole);
}

static void right(const char *ops) {
  char got[512];
  verify(ops, got);
  if (*got) fail_msg("for\n%s\nthe message is\n%s", ops, got);
}

static void structure(void **state) {
  right("barrier");
  wrong("%a = add %i : i32", "'add': has 1 operands");
  wrong("add %i, %i", "'add': has 0 results");
  wrong("%a, %b = add %i, %i : i32, i32", "'add': has 2 results");
  wrong("if %c do () { yield }", "'if': lacks a body");
  wrong("yield", "'yield': ends a block that goes on");
  wrong("if %c do () { yield yield } do () { yield }", "'yield': ends a block that goes on");
  wrong("if %c do () { barrier } do () { yield }", "'if': body 0 does not end in yield");
  wrong("if %c do () { %a = add %i, %i : i32 yield } do () { %b = add %a, %i : i32 yield }",
        "'add': operand 0 is not defined where it is used");
  right("if %c do () { %a = add %i, %i : i32 yield } do () { %b = add %i, %i : i32 yield }");
  wrong("%a = cat %t, %t {axis=0} : f32[9,8]", "'cat': dim 0 is 4 and 4, and of the result 9");
}

static void creation(void **state) {
  wrong("%a = const {value=3} : *f32", "'const': a constant is a number, not *f32");
  wrong("%a = program_id {axis=3} : i32", "'program_id': axis 3 is not below the rank 3");
  wrong("%a = program_id {axis=0} : i64", "'program_id': result 0 is i64, not i32");
  wrong("%a = arange {start=0, end=8} : i32[4]", "'arange': the result is i32[4], not i32[8]");
  wrong("%a = arange {start=8, end=8} : i32[8]", "'arange': the range is empty or not of i32");
  wrong("%a = arange {start=0, end=8} : i64[8]", "'arange': the result is i64[8], not i32[8]");
  right("%a = arange {start=8, end=16} : i32[8] %b = num_programs {axis=2} : i32");
}

static void shape(void **state) {
  wrong("%a = splat %v : i32[4,4]", "'splat': the operand is i32[4], not a scalar");
  wrong("%a = splat %i : i32", "'splat': the result is a scalar");
  wrong("%a = splat %i : f32[4]", "'splat': the element changes from i32 to f32[4]");
  wrong("%a = broadcast %v : i32[8]", "'broadcast': dim 0 grows from 4 to 8; only 1 can");
  wrong("%a = broadcast %v : i32[4,4]", "'broadcast': the rank changes from 1 to 2");
  wrong("%a = expand_dims %v {axis=2} : i32[4,1]", "'expand_dims': axis 2 is not below the rank 2");
  wrong("%a = expand_dims %v {axis=0} : i32[4,1]", "'expand_dims': dim 0 of the result is 4, not 1");
  wrong("%a = expand_dims %v {axis=0} : i32[4]", "'expand_dims': the result's rank is 1, not 2");
  wrong("%a = reshape %t : f32[16]", "'reshape': f32[4,8] and f32[16] differ in size");
  wrong("%a = trans %t {dims=[0]} : f32[4,8]", "'trans': dims has 1 entries for a tensor of rank 2");
  wrong("%a = trans %t {dims=[1, 1]} : f32[8,8]", "'trans': dims is not a permutation");
  wrong("%a = trans %t {dims=[1, -1]} : f32[8,4]", "'trans': dims is not a permutation");
  wrong("%a = trans %t {dims=[1, 0]} : f32[4,8]", "'trans': dim 0 of the result is 4, not 8");
  wrong("%a = join %f, %v : f32[4,2]", "'join': operand 1 is i32[4], not f32[4]");
  wrong("%a = join %f, %f : f32[2,4]", "'join': the result needs a new last dim of 2");
  wrong("%a, %b = split %f : f32, f32", "'split': the last dim of f32[4] is not 2");
  wrong("%j = join %f, %f : f32[4,2] %a, %b = split %j : f32[4], f32[2]", "'split': result 1 is f32[2], not f32[4]");
  wrong("%a = gather %t, %v {axis=0} : f32[4]", "'gather': the index has rank 1, the source 2");
  wrong("%a = gather %f, %f {axis=0} : f32[4]", "'gather': operand 1 is f32[4], not integers");
  wrong("%a = gather %f, %v {axis=1} : f32[4]", "'gather': axis 1 is not below the rank 1");
  wrong("%k = const {value=0} : i32[2,4] %a = gather %t, %k {axis=0} : f32[2,4]",
        "'gather': dim 1 of the index is 4, of the source 8");
  right("%k = const {value=0} : i32[2,8] %a = gather %t, %k {axis=0} : f32[2,8]");
  right("%a = reshape %i : i32[1] %b = reshape %a : i32 %d = expand_dims %i {axis=0} : i32[1]");
}

static void elementwise(void **state) {
  wrong("%a = add %i, %x : i32", "'add': operand 1 is f32, not i32");
  wrong("%a = add %p, %p : *f32", "'add': the result is *f32, not numbers");
  wrong("%a = add %v, %i : i32[4]", "'add': operand 1 is i32, not i32[4]");
  wrong("%a = and %x, %x : f32", "'and': the result is f32, not integers");
  wrong("%a = shl %x, %x : f32", "'shl': the result is f32, not integers");
  wrong("%a = not %x : f32", "'not': the result is f32, not integers");
  wrong("%a = cmp %i, %u {pred=lt} : i1", "'cmp': operand 1 is u32, not i32");
  wrong("%a = cmp %i, %i {pred=lt} : i32", "'cmp': result 0 is i32, not i1");
  wrong("%a = cmp %p, %p {pred=lt} : i1", "'cmp': pointers compare by eq and ne only");
  right("%a = cmp %p, %p {pred=ne} : i1");
  wrong("%a = select %m, %f, %v : f32[4]", "'select': operand 2 is i32[4], not f32[4]");
  wrong("%a = select %c, %f, %f : f32[4]", "'select': operand 0 is i1, not i1[4]");
  right("%a = select %m, %w, %w : *f32[4]");
  wrong("%a = convert %p : i64", "'convert': converts numbers, not pointers");
  wrong("%a = convert %v : i64", "'convert': result 0 is i64, whose shape is not that of i32[4]");
  wrong("%a = convert %x {rounding=2} : f16", "'convert': rounding is 0 or 1");
  wrong("%a = convert %x {rounding=1} : i32", "'convert': rounding is for floats to floats");
  right("%a = convert %x {rounding=1} : f16");
  wrong("%a = bitcast %x : i64", "'bitcast': f32 has 32 bits, i64 has 64");
  wrong("%a = bitcast %p : f64", "'bitcast': pointers are no floats");
  right("%a = bitcast %p : u64 %b = bitcast %a : *i8 %d = bitcast %x : u32");
  wrong("%a = addptr %i, %i : i32", "'addptr': operand 0 is i32, not pointers");
  wrong("%a = addptr %p, %x : *f32", "'addptr': operand 1 is f32, not integers");
  wrong("%a = addptr %w, %i : *f32[4]", "'addptr': operand 1 is i32, whose shape is not that of *f32[4]");
  wrong("%a = addptr %cp, %i : *f32", "'addptr': result 0 is *f32, not *const f32");
  wrong("%h = convert %x : f16 %a = math %h {fn=exp} : f16",
        "'math': exp takes f32:f32 f64:f64, not operands of these types");
  wrong("%a = math %x, %x {fn=exp} : f32", "'math': exp takes 1 operands, not 2");
  wrong("%a = math %x {fn=isnan} : f32", "'math': result 0 is f32, not i1");
  wrong("%a = math %f, %x {fn=pow} : f32[4]", "'math': operand 1 is f32, whose shape is not that of f32[4]");
  right("%a = math %f, %v {fn=pow} : f32[4]");
}

static void memory(void **state) {
  wrong("%a = load %i : i32", "'load': operand 0 is i32, not pointers");
  wrong("%a = load %p : f16", "'load': result 0 is f16, not f32");
  wrong("%a = load %w, %c : f32[4]", "'load': operand 1 is i1, not i1[4]");
  wrong("%a = load %w, %m, %v : f32[4]", "'load': operand 2 is i32[4], not f32[4]");
  wrong("store %cp, %x", "'store': writes through *const f32");
  wrong("store %p, %i", "'store': operand 1 is i32, not f32");
  wrong("store %w, %f, %c", "'store': operand 2 is i1, not i1[4]");
  wrong("%a = atomic_rmw %p, %x {kind=and} : f32", "'atomic_rmw': the bitwise kinds are for integers, not f32");
  wrong("%a = atomic_rmw %p, %x {kind=add} : f64", "'atomic_rmw': result 0 is f64, not f32");
  wrong("%a = atomic_cas %q, %i, %l : i32", "'atomic_cas': operand 2 is i64, not i32");
  right("%a = atomic_cas %q, %i, %n : i32 %b = atomic_rmw %w, %f, %m {kind=xchg} : f32[4]");
}

static void tiles(void **state) {
  wrong("%a = dot %f, %f, %f : f32[4]", "'dot': the ranks must be all 2 or all 3");
  wrong("%a = dot %t, %t, %t : f32[4,8]", "'dot': f32[4,8] times f32[4,8] is not f32[4,8]");
  wrong("%h = convert %t : f16[4,8] %s = trans %t {dims=[1, 0]} : f32[8,4] %z = const {value=0.0} : f32[4,4]"
        " %a = dot %h, %s, %z : f32[4,4]",
        "'dot': the operands are f16[4,8] and f32[8,4]");
  wrong("%s = trans %t {dims=[1, 0]} : f32[8,4] %z = const {value=0} : i32[4,4] %a = dot %t, %s, %z : i32[4,4]",
        "'dot': f32[4,8] cannot be summed as i32[4,4]");
  right("%s = trans %t {dims=[1, 0]} : f32[8,4] %z = const {value=0.0} : f32[4,4] %a = dot %t, %s, %z : f32[4,4]");
  wrong("%a = reduce %t {axis=2} : f32[4] do (%y: f32, %z: f32) { yield %y }",
        "'reduce': axis 2 is not below the rank 2");
  wrong("%a = reduce %t {axis=1} : f32[8] do (%y: f32, %z: f32) { yield %y }",
        "'reduce': result 0 is f32[8], not f32[4]");
  wrong("%a = reduce %t {axis=1} : f32[4] do (%y: f32) { yield %y }", "'reduce': body 0 has 1 arguments, not 2");
  wrong("%a = reduce %t {axis=1} : f32[4] do (%y: f32, %z: i32) { yield %y }",
        "'reduce': body argument 1 is i32, not f32");
  wrong("%a = reduce %t {axis=1} : f32[4] do (%y: f32, %z: f32) { yield %i }",
        "'reduce': yielded value 0 is i32, not f32");
  wrong("%a = reduce %t {axis=1} : f32[4] do (%y: f32, %z: f32) { yield %y, %z }",
        "'reduce': body 0 ends with 2 values, not 1");
  wrong("%a = reduce %t, %v {axis=0} : f32[8] do (%y: f32, %z: f32) { yield %y }",
        "'reduce': 2 operands but 1 results");
  wrong("%a = reduce %f {axis=0} : f32 do (%y: f32, %z: f32) { %s = splat %y : f32[4] yield %y }",
        "'splat': f32[4] inside a body that works on scalars");
  wrong("%a = scan %t {axis=1} : f32[4] do (%y: f32, %z: f32) { yield %y }",
        "'scan': result 0 is f32[4], not f32[4,8]");
  wrong("%a = map %f {pack=0} : f32[4] do (%y: f32) { yield %y }", "'map': pack is 0");
  wrong("%a = map %f {pack=3} : f32[4] do (%y: f32) { yield %y }", "'map': pack does not divide the size");
  wrong("%a = map %f {pack=2} : f32[4] do (%y: f32) { yield %y }", "'map': body 0 has 1 arguments, not 2");
  right("%a = map %f {pack=2} : i32[4] do (%y: f32, %z: f32) { yield %i, %n }");
  wrong("%a = sort %x : f32", "'sort': sorts a tensor of numbers, not f32");
  wrong("%a = histogram %f : i32[8]", "'histogram': operand 0 is f32[4], not integers");
  wrong("%a = histogram %v : i64[8]", "'histogram': the result is i64[8], not i32 of rank 1");
  right("%a = sort %t {descending=1} : f32[4,8] %b = histogram %v, %m : i32[16]");
}

static void control(void **state) {
  wrong("if %i do () { yield } do () { yield }", "'if': operand 0 is i32, not i1");
  wrong("%a = if %c : i32 do () { yield %i } do () { yield %l }", "'if': yielded value 0 is i64, not i32");
  wrong("%a = if %c : i32 do () { yield %i } do () { yield }", "'if': body 1 ends with 0 values, not 1");
  wrong("if %c do (%z: i32) { yield } do () { yield }", "'if': body 0 has 1 arguments, not 0");
  wrong("for %i, %l, %i do (%k: i32) { yield }", "'for': operand 1 is i64, not i32");
  wrong("for %x, %x, %x do (%k: f32) { yield }", "'for': counts in f32, not an integer");
  wrong("for %i, %n, %i, %x do (%k: i32) { yield }", "'for': carries 1 values but has 0 results");
  wrong("%a = for %i, %n, %i, %x : f32 do (%k: i32) { yield %x }", "'for': body 0 has 1 arguments, not 2");
  wrong("%a = for %i, %n, %i, %x : f32 do (%k: i32, %y: f32) { yield %k }", "'for': yielded value 0 is i32, not f32");
  wrong("%a = for %i, %n, %i, %x : f64 do (%k: i32, %y: f64) { yield %y }", "'for': operand 3 is f32, not f64");
  wrong("%a = while %i : i32 do (%k: i32) { yield %k } do (%j: i32) { yield %j }",
        "'while': body 0 does not end in condition");
  wrong("%a = while %i : i32 do (%k: i32) { condition %k, %k } do (%j: i32) { yield %j }",
        "'while': the condition is not one i1");
  wrong("%a = while %i : i32 do (%k: i32) { condition %c } do (%j: i32) { yield %j }",
        "'while': body 0 ends with 0 values, not 1");
  right("%a = while %i : i32 do (%k: i32) { condition %c, %k } do (%j: i32) { yield %j }"
        "%b = for %i, %n, %i, %x : f32 do (%k2: i32, %y: f32) { yield %y }"
        "%d = if %c : f32 do () { yield %x } do () { yield %b }");
}

static void hints_and_debugging(void **state) {
  wrong("%a = hint %v {kind=divisible, dims=[4, 4]} : i32[4]", "'hint': dims has 2 entries, not 1");
  wrong("%a = hint %v {kind=divisible, dims=[0]} : i32[4]", "'hint': dims holds 0");
  wrong("%a = hint %v {kind=divisible, dims=[4]} : i64[4]", "'hint': result 0 is i64[4], not i32[4]");
  wrong("assume %i", "'assume': operand 0 is i32, not i1");
  wrong("assert %x {text=\"t\"}", "'assert': operand 0 is f32, not integers");
  wrong("assert %v, %c {text=\"t\"}", "'assert': operand 1 is i1, not i1[4]");
  wrong("%a = asm %x : f32", "'asm': has no text");
  right("assert %v, %m {text=\"t\"} assume %c print %x {text=\"x\"} %a = asm %x {text=\"mov\"} : f32");
}

static const char *verify_func(Context *cx, Func *f) {
  if (context_try(cx)) {
    tile_verify(f, "test");
    context_end_try(cx);
    return "";
  }
  return cx->diags.at[0].message;
}

/* What only a builder can do wrong. */
static void broken_links(void **state) {
  for (int kind = 0; kind < 9; kind++) {
    Context *cx = context_create();
    Func *f = func_create(cx, "k");
    const Type *i32 = type_number(cx, DT_I32);
    Builder b = {.func = f, .block = f->body};
    Value *x = build_int(&b, i32, 1), *y = build_binary(&b, OP_ADD, x, x);
    const char *want = "";
    switch (kind) {
      case 0: break;
      case 1: y->def->in[1] = NULL, want = "wrong IR after test: 'add': operand 1 is missing"; break;
      case 2:
        value_replace(x, build_int(&b, i32, 2)),
            want = "wrong IR after test: 'add': operand 0 was replaced and not resolved";
        break;
      case 3:
        y->def->in[0] = build_int(&b, i32, 2),
        want = "wrong IR after test: 'add': operand 0 is not defined where it is used";
        break;
      case 4: y->def->prev = NULL, want = "wrong IR after test: 'add': the links between operations are broken"; break;
      case 5: y->id = x->id, want = "wrong IR after test: 'add': a value's id 0 is not its own"; break;
      case 6: y->index = 1, want = "wrong IR after test: 'add': result 0 does not know its place"; break;
      case 7:
        f->body->last = x->def, want = "wrong IR after test: 'const': the links between operations are broken";
        break;
      case 8:
        x->def->value = 1ll << 40, want = "wrong IR after test: 'const': 1099511627776 does not fit into i32";
        break;
    }
    assert_string_equal(verify_func(cx, f), want);
    context_destroy(cx);
  }
  Context *cx = context_create();
  Func *f = func_create(cx, "k");
  func_add_arg(f, type_tensor(cx, type_number(cx, DT_I32), 1, (int32_t[]){4}), "t", 1);
  assert_string_equal(verify_func(cx, f), "wrong IR after test: argument 0 of the kernel is a tensor");
  context_destroy(cx);
}

static void messages_show_the_operation(void **state) {
  Context *cx = context_create();
  const char *text = "kernel @k(%x: f32, %n: i32) {\n  %a = add %n, %x : i32 @7:3\n}\n";
  if (context_try(cx)) {
    Func *f = tile_parse(cx, source_from_text(cx, "t.tile", text, strlen(text)));
    tile_verify(f, "fold");
    context_end_try(cx);
  }
  assert_int_equal(cx->diags.n, 1);
  assert_string_equal(cx->diags.at[0].hint, "%a_2 = add %n_1, %x_0 : i32");
  assert_int_equal(cx->diags.at[0].span.line, 7);
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(structure),    cmocka_unit_test(creation),
      cmocka_unit_test(shape),        cmocka_unit_test(elementwise),
      cmocka_unit_test(memory),       cmocka_unit_test(tiles),
      cmocka_unit_test(control),      cmocka_unit_test(hints_and_debugging),
      cmocka_unit_test(broken_links), cmocka_unit_test(messages_show_the_operation),
  };
  return cmocka_run_group_tests_name("tile verifier", tests, NULL, NULL);
}
