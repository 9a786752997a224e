/* Tests of the tile IR's types, builder, printer and parser, through tile.h. */
#include "tile/tile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fakes/comma_locale.h"

static char *to_text(Context *cx, const Func *f, int flags) {
  Buf b = {0};
  tile_print(&b, f, flags);
  char *text = arena_strdup(cx->arena, b.at);
  buf_destroy(&b);
  return text;
}

static Func *parse(Context *cx, const char *text) {
  return tile_parse(cx, source_from_text(cx, "t.tile", text, strlen(text)));
}

/* Asserts that parsing fails at line:col (from 1) with this message. */
static void parse_fails(const char *text, int line, int col, const char *message) {
  Context *cx = context_create();
  volatile bool parsed = false;
  if (context_try(cx)) {
    parse(cx, text);
    parsed = true;
    context_end_try(cx);
  }
  if (parsed) fail_msg("parsed: %s", text);
  assert_string_equal(cx->diags.at[0].message, message);
  assert_int_equal(cx->diags.at[0].span.line, line);
  assert_int_equal(cx->diags.at[0].span.col + 1, col);
  context_destroy(cx);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static void types_are_interned(void **state) {
  Context *cx = context_create();
  const Type *f32 = type_number(cx, DT_F32), *p = type_pointer(cx, DT_F32);
  assert_ptr_equal(f32, type_number(cx, DT_F32));
  assert_ptr_not_equal(f32, p);
  assert_ptr_not_equal(f32, type_number(cx, DT_I32));
  const Type *t = type_tensor(cx, f32, 2, (int32_t[]){4, 8});
  assert_ptr_equal(t, type_tensor(cx, f32, 2, (int32_t[]){4, 8}));
  assert_ptr_not_equal(t, type_tensor(cx, f32, 2, (int32_t[]){8, 4}));
  assert_ptr_equal(type_tensor(cx, f32, 0, NULL), f32);
  assert_ptr_equal(type_elem(cx, t), f32);
  assert_ptr_equal(type_elem(cx, f32), f32);
  assert_ptr_equal(type_with_dtype(cx, t, DT_F32), t);
  assert_ptr_equal(type_with_elem(cx, t, p), type_tensor(cx, p, 2, (int32_t[]){4, 8}));
  assert_ptr_equal(type_with_dtype(cx, type_tensor(cx, p, 1, (int32_t[]){4}), DT_I1),
                   type_tensor(cx, type_number(cx, DT_I1), 1, (int32_t[]){4}));
  Type junk = {
      .dtype = DT_F32, .rank = 0, .shape = {7, 7}, .is_const = true}; /* what lies past the rank does not count */
  assert_ptr_equal(type_make(cx, junk), f32);
  Type constant = {.dtype = DT_F32, .ptr = 1, .is_const = true};
  assert_ptr_not_equal(type_make(cx, constant), p);
  assert_ptr_equal(type_pointee(cx, type_make(cx, constant)), f32);
  assert_int_equal(type_numel(t), 32);
  assert_int_equal(type_numel(f32), 1);
  assert_int_equal(type_elem_bytes(p), 8);
  assert_int_equal(type_elem_bytes(type_number(cx, DT_I1)), 1);
  assert_true(type_same_shape(t, type_with_dtype(cx, t, DT_I8)));
  assert_false(type_same_shape(t, f32));
  context_destroy(cx);
}

static void types_print(void **state) {
  Context *cx = context_create();
  Buf b = {0};
  type_print(&b, type_number(cx, DT_F32));
  buf_putc(&b, ' ');
  type_print(&b, type_tensor(cx, type_pointer(cx, DT_BF16), 2, (int32_t[]){64, 32}));
  buf_putc(&b, ' ');
  type_print(&b, type_make(cx, (Type){.dtype = DT_I1, .ptr = 2}));
  buf_putc(&b, ' ');
  type_print(&b, type_make(cx, (Type){.dtype = DT_F8E5, .ptr = 1, .is_const = true, .rank = 1, .shape = {8}}));
  assert_string_equal(b.at, "f32 *bf16[64,32] **i1 *const fp8e5[8]");
  buf_destroy(&b);
  context_destroy(cx);
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

static void tables_are_sound(void **state) {
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *info = &op_info[i];
    assert_true(info->min_in >= 0 && info->min_in <= 9 && (info->max_in == -1 || info->max_in >= info->min_in));
    assert_true(info->min_out >= 0 && (info->max_out == -1 || info->max_out >= info->min_out));
    AttrInfo attrs[MAX_ATTRS];
    int n = op_attrs((OpCode)i, attrs), slots = 0;
    for (int k = 0; k < n; k++) {
      slots += attrs[k].slot >= 0;
      assert_true(attrs[k].slot < 4);
    }
    assert_true(slots <= 4);
    for (int j = 0; j < i; j++) assert_string_not_equal(op_info[j].name, info->name);
  }
  assert_int_equal(op_info[OP_LOAD].min_in, 1);
  assert_int_equal(op_info[OP_LOAD].max_in, 3);
  assert_int_equal(op_info[OP_YIELD].max_in, -1);
  assert_int_equal(op_info[OP_FOR].min_in, 3);
  assert_int_equal(op_info[OP_IF].regions, 2);
  for (int i = 0; i < MATH_COUNT; i++) { /* every signature names as many types as the row says, and is found */
    const char *s = math_info[i].sig;
    assert_true(*s);
    while (*s) {
      Dtype in[8], out, found;
      int n = 0;
      char name[8];
      size_t length;
      for (;; s += length + 1) {
        length = strcspn(s, ",: ");
        assert_true(length < sizeof name);
        memcpy(name, s, length);
        name[length] = 0;
        Dtype d;
        assert_true(dtype_parse(name, &d));
        if (s[length] != ',' && s[length] != ':') {
          out = d;
          break;
        }
        in[n++] = d;
      }
      assert_int_equal(n, math_info[i].arity);
      assert_true(math_signature((MathFn)i, n, in, &found));
      assert_int_equal(found, out);
      assert_false(math_signature((MathFn)i, n + 1, in, &found));
      s += length;
      s += *s == ' ';
    }
  }
  Dtype halves[] = {DT_F16}, out;
  assert_false(math_signature(MATH_EXP, 1, halves, &out));
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static void builder_infers_types(void **state) {
  Context *cx = context_create();
  Func *f = func_create(cx, "k");
  const Type *i32 = type_number(cx, DT_I32), *f32 = type_number(cx, DT_F32);
  Value *x = func_add_arg(f, type_pointer(cx, DT_F32), "x", 16), *n = func_add_arg(f, i32, "n", 0);
  Builder b = {.func = f, .block = f->body};
  Value *r = build_arange(&b, 8, 24);
  Value *ns = build_splat(&b, n, 1, (int32_t[]){16});
  Value *mask = build_cmp(&b, CMP_LT, r, ns);
  Value *p = build_addptr(&b, build_splat(&b, x, 1, (int32_t[]){16}), r);
  Value *v = build_load(&b, p, mask, NULL);
  Value *e = build_broadcast(&b, build_expand_dims(&b, v, 0), 2, (int32_t[]){4, 16});
  Value *t = build_trans(&b, e, (int64_t[]){1, 0});
  Value *h = build_convert(&b, t, DT_F16);
  Value *m = build_math(&b, MATH_ISNAN, 1, &v);
  Value *d = build_dot(&b, e, t, build_float(&b, type_tensor(cx, f32, 2, (int32_t[]){4, 4}), 0.1), PRECISION_IEEE);
  build_store(&b, p, v, mask);
  Buf text = {0};
  Value *shown[] = {r, mask, p, v, e, t, h, m, d, build_bitcast(&b, v, i32), build_reshape(&b, e, 1, (int32_t[]){64})};
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
    type_print(&text, shown[i]->type);
    buf_putc(&text, ' ');
  }
  assert_string_equal(text.at,
                      "i32[16] i1[16] *f32[16] f32[16] f32[4,16] f32[16,4] f16[16,4] i1[16] f32[4,4] i32[16] f32[64] ");
  buf_destroy(&text);
  assert_ptr_equal(build_convert(&b, v, DT_F32), v);
  assert_ptr_equal(build_bitcast(&b, v, f32), v);
  assert_ptr_equal(build_broadcast(&b, v, 1, (int32_t[]){16}), v);
  assert_ptr_equal(build_splat(&b, n, 0, NULL), n);
  assert_int_equal(f->arg_divisible[0], 16);
  assert_int_equal(f->arg_divisible[1], 1);
  assert_int_equal(build_int(&b, type_number(cx, DT_I8), 200)->def->value, -56);
  assert_int_equal(build_int(&b, type_number(cx, DT_U8), -1)->def->value, 255);
  assert_int_equal(build_int(&b, type_number(cx, DT_I1), 3)->def->value, 1);
  assert_true(build_int(&b, type_number(cx, DT_F16), 2049)->def->number == 2048);
  assert_true(build_float(&b, f32, 0.1)->def->number == (double)0.1f);
  assert_int_equal(build_float(&b, i32, 3.7)->def->value, 3);
  int64_t c;
  assert_true(value_is_const(build_splat(&b, build_int(&b, i32, 5), 1, (int32_t[]){4}), &c) && c == 5);
  assert_false(value_is_const(n, &c));
  assert_false(value_is_const(build_float(&b, f32, 1), &c));
  if (context_try(cx)) {
    tile_verify(f, "building");
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
}

static int count_ops(const Block *b) {
  int n = 0;
  for (const Op *op = b->first; op; op = op->next) n++;
  return n;
}

static void count(Op *op, void *arg) { ++*(int *)arg; }

static void drop_prints(Op *op, void *arg) {
  if (op->code == OP_PRINT) op_remove(op);
}

static const char *const loop_text = "kernel @k(%n: i32) {\n"
                                     "  %0 = const {value=0} : i32\n"
                                     "  %1 = const {value=1} : i32\n"
                                     "  %sum = for %0, %n, %1, %0 : i32 do (%i: i32, %acc: i32) {\n"
                                     "    print %i {text=\"i\"}\n"
                                     "    %2 = add %acc, %i : i32\n"
                                     "    yield %2\n"
                                     "  }\n"
                                     "  print %sum {text=\"sum\"}\n"
                                     "}\n";

static void operations_are_removed_replaced_cloned(void **state) {
  Context *cx = context_create();
  Func *f = parse(cx, loop_text);
  int n = 0;
  tile_walk(f->body, count, &n);
  assert_int_equal(n, 7);
  Op *loop = f->body->last->prev;
  assert_int_equal(loop->code, OP_FOR);

  Builder b = {.func = f, .block = f->body};
  Map *map = map_create(cx->arena, false);
  map_put(map, f->body->args[0], f->body->first->out[0]); /* of n, 0 */
  Op *copy = op_clone(&b, loop, map);
  assert_ptr_equal(copy->in[1], f->body->first->out[0]);
  assert_ptr_equal(map_get(map, loop->out[0]), copy->out[0]);
  assert_ptr_not_equal(copy->body[0], loop->body[0]);
  assert_ptr_equal(copy->body[0]->parent, copy);
  assert_ptr_equal(copy->body[0]->last->in[0]->def->block, copy->body[0]);
  assert_ptr_equal(copy->body[0]->last->in[0]->def->in[0], copy->body[0]->args[1]);

  value_replace(loop->out[0], copy->out[0]); /* though the copy comes later */
  tile_walk(f->body, drop_prints, NULL);
  assert_int_equal(count_ops(loop->body[0]), 2);
  Op *print = build_op(&b, OP_PRINT, 1, loop->out, 0, NULL);
  tile_replace_uses(f);
  assert_ptr_equal(print->in[0], copy->out[0]);
  op_remove(loop);
  tile_verify(f, "cloning");
  op_move_before(print, copy);
  assert_ptr_equal(print->next, copy);
  Value *chain[3] = {copy->out[0], f->body->args[0], f->body->first->out[0]};
  value_replace(chain[0], chain[1]);
  value_replace(chain[1], chain[2]);
  assert_ptr_equal(value_replacement(chain[0]), chain[2]);
  context_destroy(cx);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static const char *const all_syntax =
    "kernel @every.thing(%x: *f32 {divisible=16}, %y: *const f16, %z: **i8, %n: i32) warps=8 stages=2 ctas=2 debug=1 "
    "{\n"
    "  %0 = const {value=-3} : i32\n"
    "  %1 = const {value=18446744073709551615} : u64\n"
    "  %2 = const {value=0.1} : f32[16]\n"
    "  %3 = const {value=0.1} : f64\n"
    "  %4 = const {value=0.30000000000000004} : f64\n"
    "  %5 = const {value=-inf} : bf16\n"
    "  %6 = const {value=nan} : f16\n"
    "  %7 = const {value=-0.0} : f32\n"
    "  %8 = const {value=1e-45} : f32\n"
    "  %9 = const {value=1} : i1\n"
    "  %pid = program_id {axis=0} : i32\n"
    "  %pid_2 = num_programs {axis=2} : i32\n"
    "  %10 = arange {start=0, end=16} : i32[16]\n"
    "  %11 = splat %x : *f32[16]\n"
    "  %12 = addptr %11, %10 : *f32[16]\n"
    "  %13 = cmp %10, %10 {pred=ge} : i1[16]\n"
    "  %14 = load %12, %13, %2 {cache=cg, evict=last, volatile=1} : f32[16]\n"
    "  %15 = math %14 {fn=cyl_bessel_i0} : f32[16]\n"
    "  %16 = div %15, %14 {rounding=1} : f32[16]\n"
    "  %17 = min %16, %14 {nan=1} : f32[16]\n"
    "  %18 = atomic_rmw %12, %17, %13 {kind=xchg, sem=relaxed, scope=sys} : f32[16]\n"
    "  %19 = atomic_rmw %12, %17 {kind=add} : f32[16]\n"
    "  %20 = expand_dims %14 {axis=0} : f32[1,16]\n"
    "  %21 = trans %20 {dims=[1, 0]} : f32[16,1]\n"
    "  %22 = const {value=0.0} : f32[16,16]\n"
    "  %23 = dot %21, %20, %22 {precision=bf16x3} : f32[16,16]\n"
    "  %24, %25 = reduce %14, %10 {axis=0} : f32, i32 do (%26: f32, %27: i32, %28: f32, %29: i32) {\n"
    "    yield %26, %27\n"
    "  }\n"
    "  %30 = scan %14 {axis=0, reverse=1} : f32[16] do (%a: f32, %b: f32) {\n"
    "    %31 = add %a, %b : f32\n"
    "    yield %31\n"
    "  }\n"
    "  %32 = while %0 : i32 do (%33: i32) {\n"
    "    condition %9, %33\n"
    "  } do (%34: i32) {\n"
    "    yield %34\n"
    "  }\n"
    "  for %0, %n, %0 {num_stages=3, unroll=2, flags=5} do (%i: i32) {\n"
    "    barrier\n"
    "    yield\n"
    "  }\n"
    "  if %9 do () {\n"
    "    yield\n"
    "  } do () {\n"
    "    yield\n"
    "  }\n"
    "  %35 = hint %10 {kind=contiguous, dims=[16]} : i32[16]\n"
    "  print %10, %14 {hex=1, text=\" a \\\"b\\\" \\\\ {\\n\\t\\x1f\\x80} é: \"}\n"
    "  barrier\n"
    "  %36 = asm %14 {pure=1, pack=2, text=\"mov\\x1f=r,r\"} : f32[16]\n"
    "}\n";

static void text_reads_back(void **state) {
  Context *cx = context_create();
  if (context_try(cx)) {
    /* A byte over 0x7f is printed as it is: written as an escape here, it comes out raw. */
    char *want = arena_strdup(cx->arena, all_syntax), *escape = strstr(want, "\\x80");
    memmove(escape + 1, escape + 4, strlen(escape + 4) + 1);
    *escape = '\x80';
    assert_string_equal(to_text(cx, parse(cx, all_syntax), 0), want);
    assert_string_equal(to_text(cx, parse(cx, want), 0), want);
    Func *f = parse(cx, all_syntax);
    assert_int_equal(f->num_warps, 8);
    assert_int_equal(f->num_ctas, 2);
    assert_true(f->debug);
    assert_string_equal(f->body->args[0]->name, "x");
    assert_null(f->body->first->out[0]->name);
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  context_destroy(cx);
}

static void names_are_made_unique(void **state) {
  Context *cx = context_create();
  Func *f = func_create(cx, "k");
  const Type *i32 = type_number(cx, DT_I32);
  func_add_arg(f, i32, "x", 1);
  Builder b = {.func = f, .block = f->body};
  static const char *const names[] = {"x", "x_2", "x", "3", "a b", "", "größe", NULL};
  for (int i = 0; i < 8; i++) build_int(&b, i32, i)->name = names[i];
  char *text = to_text(cx, f, 0);
  assert_string_equal(text, "kernel @k(%x: i32) {\n"
                            "  %x_2 = const {value=0} : i32\n"
                            "  %x_2_2 = const {value=1} : i32\n"
                            "  %x_3 = const {value=2} : i32\n"
                            "  %0 = const {value=3} : i32\n"
                            "  %1 = const {value=4} : i32\n"
                            "  %2 = const {value=5} : i32\n"
                            "  %größe = const {value=6} : i32\n"
                            "  %3 = const {value=7} : i32\n"
                            "}\n");
  assert_string_equal(to_text(cx, parse(cx, text), 0), text);
  context_destroy(cx);
}

static void spans_print_and_read_back(void **state) {
  Context *cx = context_create();
  const char *text = "kernel @k(%c: i1) {\n"
                     "  %0 = const {value=0} : i32 @12:4\n"
                     "  if %c @13:0 do () {\n"
                     "    yield @14:8\n"
                     "  } do () {\n"
                     "    yield @15:8\n"
                     "  }\n"
                     "  barrier\n"
                     "}\n";
  Func *f = parse(cx, text);
  assert_int_equal(f->body->first->span->line, 12);
  assert_int_equal(f->body->last->span->line, 8); /* where its text stands */
  assert_int_equal(f->body->last->span->col, 2);
  char *want = arena_printf(cx->arena, "%.*sbarrier @8:2\n}\n", (int)(strstr(text, "barrier") - text), text);
  assert_string_equal(to_text(cx, f, PRINT_SPANS), want);
  context_destroy(cx);
}

static void one_operation_prints(void **state) {
  Context *cx = context_create();
  Func *f = parse(cx, loop_text);
  Buf b = {0};
  tile_print_op(&b, f->body->first, 2, 0);
  assert_string_equal(b.at, "    %1 = const {value=0} : i32\n");
  b.n = 0;
  tile_print_op(&b, f->body->first->next->next, 0, 0);
  assert_true(strncmp(b.at, "%sum_", 5) == 0);
  buf_destroy(&b);
  context_destroy(cx);
}

static void floats_keep_every_bit(void **state) {
  Context *cx = context_create();
  Func *f = func_create(cx, "k");
  Builder b = {.func = f, .block = f->body};
  uint64_t random = 1;
  static const Dtype types[] = {DT_F16, DT_BF16, DT_F32, DT_F64, DT_F8E5, DT_F8E4NV};
  for (int i = 0; i < 6000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = random >> 20 ^ random << 23;
    Dtype t = types[i % 6];
    double v = dtype_load_float(t, &bits);
    build_float(&b, type_number(cx, t), isnan(v) ? 1 : v);
  }
  Func *again = parse(cx, to_text(cx, f, 0));
  const Op *x = f->body->first, *y = again->body->first;
  for (; x; x = x->next, y = y->next) assert_memory_equal(&x->number, &y->number, 8);
  assert_null(y);
  context_destroy(cx);
}

static void another_locale_changes_nothing(void **state) {
  if (!comma_locale()) skip();
  text_reads_back(state);
  floats_keep_every_bit(state);
  setlocale(LC_NUMERIC, "C");
}

static void passes_are_dumped(void **state) {
  Context *cx = context_create();
  Buf fold = {0}, all = {0}, none = {0};
  if (context_try(cx)) {
    tile_optimize(parse(cx, loop_text), "fold", &fold, true);
    tile_optimize(parse(cx, loop_text), "all", &all, true);
    tile_optimize(parse(cx, loop_text), "no such pass", &none, true);
    context_end_try(cx);
  } else {
    fail_msg("%s", cx->diags.at[0].message);
  }
  int folds = 0, passes = 0;
  for (const PassInfo *p = tile_passes; p->name; p++, passes++) folds += !strcmp(p->name, "fold");
  const char *const heads[] = {fold.at, all.at};
  int found[2] = {0, 0};
  for (int i = 0; i < 2; i++)
    for (const char *s = heads[i]; (s = strstr(s, "// after ")); s++) found[i]++;
  assert_int_equal(found[0], folds);
  assert_int_equal(found[1], passes);
  assert_non_null(strstr(all.at, "// after axis_info\n"));
  assert_non_null(strstr(all.at, "// divisible="));
  assert_int_equal(none.n, 0);
  buf_destroy(&fold);
  buf_destroy(&all);
  buf_destroy(&none);
  context_destroy(cx);
}

static const char *const growing_text = "kernel @k(%x: *f32, %n: i32) {\n"
                                        "  %0 = const {value=0} : i32\n"
                                        "  %1 = const {value=1} : i32\n"
                                        "  %p = for %0, %n, %1, %x : *f32 do (%i: i32, %q: *f32) {\n"
                                        "    %2 = addptr %q, %1 : *f32\n"
                                        "    yield %2\n"
                                        "  }\n"
                                        "  print %p {text=\"p\"}\n"
                                        "  %3 = splat %p : *f32[64]\n"
                                        "  %4 = load %3 : f32[64]\n"
                                        "}\n";

/* The message of a pass with this contract, which does nothing, on a Func of which `holds` is said; NULL: none. */
static const char *run_nothing(Context *cx, unsigned holds, PassContract c) {
  if (context_try(cx)) {
    Func *f = parse(cx, growing_text);
    f->holds = holds;
    tile_pass_begin(f, "nothing", &c);
    tile_pass_end(f, "nothing", &c, true);
    assert_int_equal(f->holds, (holds & c.keeps) | c.gives);
    context_end_try(cx);
    return NULL;
  }
  return cx->diags.at[0].message;
}

static void passes_are_held_to_their_contracts(void **state) {
  static const struct {
    unsigned holds;
    PassContract contract;
    const char *message; /* NULL: none */
  } cases[] = {
      {FUNC_NO_LAYOUTS, {FUNC_NO_LAYOUTS, 0, FUNC_ALL}, NULL},
      {0, {FUNC_NO_LAYOUTS, 0, 0}, "wrong pipeline: nothing needs 'no layouts', which does not hold"},
      {FUNC_NO_LAYOUTS, {FUNC_AXIS_INFO, 0, 0}, "wrong pipeline: nothing needs 'axis info', which does not hold"},
      {0, {0, FUNC_AXIS_INFO, 0}, "wrong IR after nothing: 'axis info' does not hold at "},
      {FUNC_AXIS_INFO, {0, 0, FUNC_ALL}, "wrong IR after nothing: 'axis info' does not hold at "},
      {FUNC_AXIS_INFO, {0, 0, FUNC_NO_HINTS}, NULL},
      {0, {0, FUNC_CANONICAL_LOOPS, 0}, "wrong IR after nothing: 'canonical loops' does not hold at for"},
      {0, {FUNC_ACCESS_INFO, 0, 0}, "wrong pipeline: nothing needs 'axis info of accesses', which does not hold"},
      {0, {0, FUNC_ACCESS_INFO, 0}, "wrong IR after nothing: 'axis info of accesses' does not hold at load"},
      {0, {FUNC_LAYOUTS, 0, 0}, "wrong pipeline: nothing needs 'layouts', which does not hold"},
      {FUNC_LAYOUTS, {0, 0, FUNC_ALL}, "wrong IR after nothing: 'layouts' does not hold at splat"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Context *cx = context_create();
    const char *got = run_nothing(cx, cases[i].holds, cases[i].contract), *want = cases[i].message;
    if (!want != !got || (want && strncmp(want, got, strlen(want)))) fail_msg("case %zu: %s", i, got ? got : "nothing");
    context_destroy(cx);
  }
}

static void wrong_text_is_told(void **state) {
  parse_fails("", 1, 1, "expected 'kernel', found the end of the text");
  parse_fails("kernel k", 1, 8, "expected '@', found 'k'");
  parse_fails("kernel @k(%x: f32", 1, 18, "expected ')', found the end of the text");
  parse_fails("kernel @k(%x: f33) {}", 1, 15, "expected a type, found 'f'");
  parse_fails("kernel @k(%x: f32, %x: f32) {}", 1, 20, "%x is defined twice");
  parse_fails("kernel @k() waps=4 {}", 1, 13, "a kernel has no 'waps'");
  parse_fails("kernel @k() {} {", 1, 16, "expected nothing after the kernel, found '{'");
  parse_fails("kernel @k() {\n  frob\n}", 2, 3, "there is no operation 'frob'");
  parse_fails("kernel @k() {\n  %a = add %b, %b : i32\n}", 2, 12, "%b is used but not defined above");
  parse_fails("kernel @k() {\n  %a = const {value=1}\n}", 2, 3, "'const' names 1 results but gives 0 types");
  parse_fails("kernel @k(%a: i32) {\n  %b = cmp %a, %a {pred=less} : i1\n}", 2, 25, "'less' is no value of 'pred'");
  parse_fails("kernel @k(%a: i32) {\n  %b = cmp %a, %a {prod=lt} : i1\n}", 2, 20, "'cmp' has no attribute 'prod'");
  parse_fails("kernel @k(%a: f32[2000000]) {}", 1, 19, "a dimension must lie between 1 and 1048576");
  parse_fails("kernel @k(%a: f32[0]) {}", 1, 19, "a dimension must lie between 1 and 1048576");
  parse_fails("kernel @k(%a: f32[2048,1024]) {}", 1, 15, "a tensor has at most 1048576 elements");
  parse_fails("kernel @k(%a: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) {}", 1, 15,
              "a tensor has at most 24 dimensions");
  parse_fails("kernel @k() {\n  %a = const {value=18446744073709551616} : u64\n}", 2, 40,
              "the integer does not fit into 64 bits");
  parse_fails("kernel @k() {\n  %a = const {value=1.5.2} : f32\n}", 2, 21, "expected a number, found '1'");
  parse_fails("kernel @k() {\n  %a = const {value=x} : i32\n}", 2, 21, "expected an integer, found 'x'");
  parse_fails("kernel @k() {\n  print {text=\"abc}\n}", 2, 16, "the text has no closing quote on its line");
  parse_fails("kernel @k() {\n  barrier do () { }\n}", 2, 13, "'barrier' has no body here");
  parse_fails("kernel @k() {\n  print {text=\"\\q\"}\n}", 2, 17,
              "expected one of n t x \" \\ after a backslash, found 'q'");
  Buf deep = {0};
  buf_puts(&deep, "kernel @k(%c: i1) {\n");
  for (int i = 0; i < 1000; i++) buf_puts(&deep, "if %c do () {");
  parse_fails(deep.at, 2, 200 * 13 + 9, "bodies are nested more than 200 deep");
  buf_destroy(&deep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_are_interned),
      cmocka_unit_test(types_print),
      cmocka_unit_test(tables_are_sound),
      cmocka_unit_test(builder_infers_types),
      cmocka_unit_test(operations_are_removed_replaced_cloned),
      cmocka_unit_test(text_reads_back),
      cmocka_unit_test(names_are_made_unique),
      cmocka_unit_test(spans_print_and_read_back),
      cmocka_unit_test(one_operation_prints),
      cmocka_unit_test(floats_keep_every_bit),
      cmocka_unit_test(another_locale_changes_nothing),
      cmocka_unit_test(passes_are_dumped),
      cmocka_unit_test(passes_are_held_to_their_contracts),
      cmocka_unit_test(wrong_text_is_told),
  };
  return cmocka_run_group_tests_name("tile", tests, NULL, NULL);
}
