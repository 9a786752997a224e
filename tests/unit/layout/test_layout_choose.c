/* The choice of layouts: what real kernels get, what every operation is promised, and that wrong layouts are found. */
#include "front/front.h"
#include "layout/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef KERNELS_DIR
#define KERNELS_DIR "kernels"
#endif

/* ---- kits -------------------------------------------------------------------------------------------------------- */

typedef struct Kit {
  Context *cx;
  Func *f;
  char *messages;
} Kit;

static void kit_free(Kit *k) {
  free(k->messages);
  context_destroy(k->cx);
}

static char *messages_of(const Context *cx) {
  Buf b = {0};
  diags_print(&b, cx, false);
  return b.at ? b.at : strdup("");
}

/* IR text, optimised and laid out for this many warps; f is NULL when that failed. */
static Kit lay_out_with(const char *text, int num_warps, DotUnit unit, int squares) {
  Kit k = {.cx = context_create()};
  Func *volatile f = NULL;
  if (context_try(k.cx)) {
    f = tile_parse(k.cx, source_from_text(k.cx, "test.tile", text, strlen(text)));
    tile_verify(f, NULL);
    tile_axis_info(f);
    f->squares = squares;
    layout_choose(f, num_warps, unit);
    tile_verify(f, "layout_choose");
    layout_verify(f);
    context_end_try(k.cx);
  } else f = NULL;
  k.f = f;
  k.messages = messages_of(k.cx);
  return k;
}

static Kit lay_out(const char *text, int num_warps) { return lay_out_with(text, num_warps, DOT_MMA, 0); }

static Kit lay_out_well(const char *text, int num_warps) {
  Kit k = lay_out(text, num_warps);
  if (!k.f) fail_msg("%d warps: %s\n%s", num_warps, k.messages, text);
  return k;
}

typedef struct Found {
  OpCode code;
  int skip;
  Op *op;
  int count;
} Found;

static void find_one(Op *op, void *arg) {
  Found *f = arg;
  if (op->code != f->code) return;
  if (f->count++ == f->skip) f->op = op;
}

static Op *find_op(Func *f, OpCode code, int skip) {
  Found found = {.code = code, .skip = skip};
  tile_walk(f->body, find_one, &found);
  return found.op;
}

static int count_ops(const Func *f, OpCode code) {
  Found found = {.code = code, .skip = -1};
  tile_walk(f->body, find_one, &found);
  return found.count;
}

static int width_of(const Op *op) { /* of a load or store, in elements */
  int dim, at = op->code == OP_LOAD ? 1 : 2;
  return access_vector(op->in[0], op->in_count > at ? op->in[at] : NULL, op->in[0]->layout, 16, &dim);
}

static double sectors_of(const Op *op) { return access_sectors(op->in[0], op->in[0]->layout, width_of(op)); }

/* ---- kernels of kernels/ ----------------------------------------------------------------------------------------- */

/* args: "NAME=VALUE ..."; pointers as NAME=*f32. What is not named: x_ptr and the like are *f32, others integers of
 * which nothing is known. */
static Kit lay_out_kernel(const char *file, const char *name, const char *args, int num_warps) {
  Kit k = {.cx = context_create()};
  Func *volatile f = NULL;
  if (context_try(k.cx)) {
    Module *m = front_load_file(k.cx, arena_printf(k.cx->arena, KERNELS_DIR "/%s", file));
    Kernel *kernel = front_kernel(m, name);
    int n = kernel_param_count(kernel);
    ArgSpec *specs = NEW_N(k.cx->arena, ArgSpec, n + 1);
    for (int i = 0; i < n; i++) {
      const char *param = kernel_param(kernel, i)->name, *at = args, *value = NULL;
      size_t length = strlen(param);
      while ((at = strstr(at, param)) && !((at == args || at[-1] == ' ') && at[length] == '=')) at++;
      if (at) value = arena_strndup(k.cx->arena, at + length + 1, strcspn(at + length + 1, " "));
      if (kernel_param(kernel, i)->is_constexpr) specs[i] = (ArgSpec){.kind = ARG_CONSTEXPR, .text = value};
      else if (value && *value == '*') {
        specs[i] = (ArgSpec){.kind = ARG_POINTER, .aligned = true};
        assert_true(dtype_parse(value + 1, &specs[i].dtype));
      } else if (value) specs[i] = (ArgSpec){.kind = ARG_INT, .has_value = true, .int_value = atoll(value)};
      else if (strstr(param, "_ptr")) specs[i] = (ArgSpec){.kind = ARG_POINTER, .dtype = DT_F32, .aligned = true};
      else if (!strcmp(param, "eps") || !strcmp(param, "scale"))
        specs[i] = (ArgSpec){.kind = ARG_FLOAT, .float_value = 0.5};
      else specs[i] = (ArgSpec){.kind = ARG_INT};
    }
    Compiled *c = front_compile(m, kernel, specs, &(CompileOptions){.num_warps = num_warps});
    f = c->func;
    tile_optimize(f, NULL, NULL, true);
    layout_choose(f, num_warps, true);
    tile_verify(f, "layout_choose");
    layout_verify(f);
    context_end_try(k.cx);
  } else f = NULL;
  k.f = f;
  k.messages = messages_of(k.cx);
  if (!f) fail_msg("%s:%s: %s", file, name, k.messages);
  return k;
}

/* Row kernels, of which every tensor has one layout and nothing is converted. `width`: elements an access of the first
 * load. */
static void rows_need_no_conversion(void **state) {
  static const struct {
    const char *file, *kernel, *args;
    int width;
  } rows[] = {
      {"vector_add.py", "vector_add", "n=4096 BLOCK=1024", 4},
      {"gelu.py", "gelu", "n=4096 BLOCK=1024", 4},
      {"softmax.py", "softmax", "n_cols=4096 x_stride=4096 out_stride=4096 BLOCK=4096", 4},
      {"softmax.py", "softmax", "n_cols=781 x_stride=781 out_stride=781 BLOCK=1024", 1},
      {"softmax.py", "softmax_three_pass", "n_cols=131072 x_stride=131072 out_stride=131072 BLOCK=4096", 4},
      {"softmax.py", "softmax_online", "n_cols=131072 x_stride=131072 out_stride=131072 BLOCK=4096", 4},
      {"layer_norm.py", "layer_norm", "x_ptr=*bf16 out_ptr=*bf16 stride=8192 n_cols=8192 BLOCK=8192", 8},
      {"layer_norm.py", "layer_norm_backward",
       "x_ptr=*bf16 grad_ptr=*bf16 dx_ptr=*bf16 stride=8192 n_cols=8192 BLOCK=8192", 4},
      {"rms_norm.py", "rms_norm", "x_ptr=*bf16 out_ptr=*bf16 weight_ptr=*bf16 stride=8192 n_cols=8192 BLOCK=8192", 8},
      {"cross_entropy.py", "cross_entropy",
       "logits_ptr=*bf16 grad_ptr=*bf16 target_ptr=*i64 stride=32000 n_classes=32000 BLOCK=4096", 0},
      {"reduce.py", "row_sum", "stride=4096 n_cols=4096 BLOCK=4096", 4},
      {"reduce.py", "row_argmax", "out_ptr=*i64 stride=4096 n_cols=4096 BLOCK=4096", 4},
      {"cumsum.py", "cumsum", "stride=4096 n_cols=4096 BLOCK=4096", 4},
      {"dropout.py", "dropout", "n=4096 p=0 seed=1 BLOCK=1024", 4},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int warps = 1; warps <= 8; warps *= 2) {
      Kit k = lay_out_kernel(rows[i].file, rows[i].kernel, rows[i].args, warps);
      if (count_ops(k.f, OP_CONVERT_LAYOUT))
        fail_msg("%s:%s converts, with %d warps", rows[i].file, rows[i].kernel, warps);
      if (rows[i].width) {
        Op *load = find_op(k.f, OP_LOAD, 0);
        if (width_of(load) != rows[i].width)
          fail_msg("%s:%s loads %d elements, with %d warps", rows[i].file, rows[i].kernel, width_of(load), warps);
        assert_true(sectors_of(load) == 1.0);
      }
      kit_free(&k);
    }
}

/* Sums of rows that are stored and not broadcast again: each thread stores those that combining over lanes has left
 * with it. */
static void sums_are_stored_where_they_are(void **state) {
  Kit k = lay_out_kernel("attention.py", "attention_delta", "n=4096 D=64 BLOCK_M=64", 4);
  assert_int_equal(count_ops(k.f, OP_CONVERT_LAYOUT), 0);
  const Op *reduce = find_op(k.f, OP_REDUCE, 0);
  assert_int_equal(layout_registers(reduce->out[0]->layout), 1);
  assert_ptr_equal(find_op(k.f, OP_STORE, 0)->in[1]->layout, reduce->out[0]->layout);
  kit_free(&k);
}

static void transpose_converts_once(void **state) {
  for (int bf16 = 0; bf16 < 2; bf16++) {
    Kit k = lay_out_kernel(
        "transpose.py", "transpose",
        bf16 ? "x_ptr=*bf16 out_ptr=*bf16 rows=4096 cols=4096 x_stride=4096 out_stride=4096 BLOCK_R=64 BLOCK_C=64"
             : "rows=4096 cols=4096 x_stride=4096 out_stride=4096 BLOCK_R=64 BLOCK_C=64",
        4);
    assert_int_equal(count_ops(k.f, OP_CONVERT_LAYOUT), 1);
    Op *load = find_op(k.f, OP_LOAD, 0), *store = find_op(k.f, OP_STORE, 0);
    assert_int_equal(width_of(load), bf16 ? 8 : 4);
    assert_int_equal(width_of(store), bf16 ? 8 : 4);
    assert_true(sectors_of(load) == 1.0 && sectors_of(store) == 1.0);
    kit_free(&k);
  }
}

/* But what they store, after all loops: a warp's part of a tile is narrow on tensor cores. */
static void products_convert_nothing(void **state) {
  /* clang-format off */
  static const struct { int stored; const char *file, *kernel, *args; } rows[] = {
      {1, "matmul.py", "matmul",
       "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 M=512 N=512 K=512 stride_am=512 stride_ak=1 stride_bk=512 stride_bn=1 stride_cm=512 stride_cn=1 "
       "BLOCK_M=128 BLOCK_N=128 BLOCK_K=32 GROUP_M=8"},
      {1, "attention.py", "attention", "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 D=64 BLOCK_M=64 BLOCK_N=32 CAUSAL=True"},
      {1, "attention.py", "attention", "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 D=128 BLOCK_M=32 BLOCK_N=32 CAUSAL=True"},
      {2, "attention.py", "attention_backward_kv",
       "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 grad_ptr=*f16 dk_ptr=*f16 dv_ptr=*f16 D=64 BLOCK_M=64 BLOCK_N=64 CAUSAL=True"},
  };
  /* clang-format on */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    Kit k = lay_out_kernel(rows[i].file, rows[i].kernel, rows[i].args, 4);
    int converted = count_ops(k.f, OP_CONVERT_LAYOUT);
    if (converted != rows[i].stored) fail_msg("%s:%s converts %d times", rows[i].file, rows[i].kernel, converted);
    for (int j = 0; j < converted; j++) assert_null(find_op(k.f, OP_CONVERT_LAYOUT, j)->block->parent);
    kit_free(&k);
  }
}

/* A tile of 16 bits that 8 warps multiply: results go through shared memory to stores of 16 bytes where they go by
 * squares, and stay where they are, in words, where each word would be written by itself. */
static void results_leave_by_squares(void **state) {
  static const char text[] = "kernel @product(%x: *bf16 {divisible=16}, %y: *bf16 {divisible=16}) {\n"
                             "  %0 = arange {start=0, end=64} : i32[64]\n"
                             "  %1 = expand_dims %0 {axis=1} : i32[64,1]\n"
                             "  %2 = expand_dims %0 {axis=0} : i32[1,64]\n"
                             "  %3 = const {value=1024} : i32[64,1]\n"
                             "  %4 = mul %1, %3 : i32[64,1]\n"
                             "  %5 = broadcast %4 : i32[64,64]\n"
                             "  %6 = broadcast %2 : i32[64,64]\n"
                             "  %7 = add %5, %6 : i32[64,64]\n"
                             "  %8 = splat %x : *bf16[64,64]\n"
                             "  %9 = addptr %8, %7 : *bf16[64,64]\n"
                             "  %a = load %9 : bf16[64,64]\n"
                             "  %10 = const {value=0.0} : f32[64,64]\n"
                             "  %11 = dot %a, %a, %10 : f32[64,64]\n"
                             "  %12 = convert %11 : bf16[64,64]\n"
                             "  %13 = splat %y : *bf16[64,64]\n"
                             "  %14 = addptr %13, %7 : *bf16[64,64]\n"
                             "  store %14, %12\n"
                             "}\n";
  for (int squares = 0; squares <= 3; squares += 3) {
    Kit k = lay_out_with(text, 8, DOT_WGMMA, squares);
    assert_non_null(k.f);
    Op *store = find_op(k.f, OP_STORE, 0);
    int dim, vector = access_vector(store->in[0], NULL, store->in[0]->layout, 16, &dim);
    assert_int_equal(vector, squares ? 8 : 2);
    assert_int_equal(count_ops(k.f, OP_CONVERT_LAYOUT), squares != 0);
    kit_free(&k);
  }
}

/* What is added to a product and lies across its accumulator: under a mask each element of 16 bits would be a load, a
 * predicate and registers of its own, so that the tile is loaded by 16 bytes and converted. Words stay where they are.
 */
static void masked_addends_are_loaded_wide(void **state) {
  static const char text[] = "kernel @residual(%x: *bf16 {divisible=16}, %y: *bf16 {divisible=16}, %n: i32) {\n"
                             "  %0 = arange {start=0, end=64} : i32[64]\n"
                             "  %1 = expand_dims %0 {axis=1} : i32[64,1]\n"
                             "  %2 = expand_dims %0 {axis=0} : i32[1,64]\n"
                             "  %3 = const {value=1024} : i32[1,64]\n"
                             "  %4 = mul %2, %3 : i32[1,64]\n"
                             "  %5 = broadcast %4 : i32[64,64]\n"
                             "  %6 = broadcast %1 : i32[64,64]\n"
                             "  %7 = add %5, %6 : i32[64,64]\n"
                             "  %8 = splat %x : *bf16[64,64]\n"
                             "  %9 = addptr %8, %7 : *bf16[64,64]\n"
                             "  %a = load %9 : bf16[64,64]\n"
                             "  %10 = const {value=0.0} : f32[64,64]\n"
                             "  %11 = dot %a, %a, %10 : f32[64,64]\n"
                             "  %12 = splat %y : *bf16[64,64]\n"
                             "  %13 = addptr %12, %7 : *bf16[64,64]\n"
                             "  %14 = splat %n : i32[1,64]\n"
                             "  %15 = cmp %2, %14 {pred=lt} : i1[1,64]\n"
                             "  %m = broadcast %15 : i1[64,64]\n"
                             "  %16 = const {value=0.0} : bf16[64,64]\n"
                             "  %c = load %13, %m, %16 : bf16[64,64]\n"
                             "  %17 = convert %c : f32[64,64]\n"
                             "  %18 = add %11, %17 : f32[64,64]\n"
                             "  %19 = convert %18 : bf16[64,64]\n"
                             "  store %13, %19, %m\n"
                             "}\n";
  Kit k = lay_out_with(text, 4, DOT_WGMMA, 3);
  assert_non_null(k.f);
  for (int i = 0; i < 2; i++) {
    const Op *access = i ? find_op(k.f, OP_STORE, 0) : find_op(k.f, OP_LOAD, 1);
    int dim;
    assert_int_equal(access_vector(access->in[0], op_mask(access), access->in[0]->layout, 16, &dim), 8);
  }
  kit_free(&k);
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

/* The table of access.c. */
static void sectors_are_counted(void **state) {
  Context *cx = context_create();
  int32_t shape[] = {8, 64};
  const Type *t = type_tensor(cx, type_pointer(cx, DT_F32), 2, shape);
  AxisInfo info = {.divisible = {4, 16}, .contiguous = {1, 64}, .constant = {1, 1}};
  Value ptr = {.type = t, .axis = &info};
  /* clang-format off */
  static const struct { uint32_t lanes[5]; int vector; double sectors; } rows[] = {
      {{1, 2, 4, 8, 16}, 1, 1.0}, {{64, 128, 256, 1, 2}, 1, 2.0}, {{4, 8, 16, 32, 64}, 4, 1.0},
      {{64, 128, 256, 4, 8}, 4, 1.0},
      {{64, 128, 256, 0, 0}, 1, 8.0}, {{2, 4, 8, 16, 32}, 1, 2.0}, {{0, 0, 0, 0, 0}, 1, 1.0},
  };
  /* clang-format on */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    Layout l = {.lane_bits = 5, .out_bits = 9};
    for (int b = 0; b < 5; b++) l.basis[b] = rows[i].lanes[b];
    double got = access_sectors(&ptr, layout_make(cx, &l), rows[i].vector);
    if (got != rows[i].sectors) fail_msg("row %zu: %g sectors, not %g", i, got, rows[i].sectors);
  }
  info.contiguous[1] = 1; /* what mostly lies side by side, as pixels do, counts so */
  Layout l = {.lane_bits = 5, .out_bits = 9, .basis = {1, 2, 4, 8, 16}};
  assert_true(access_sectors(&ptr, layout_make(cx, &l), 1) == 8.0);
  info.mostly[1] = MOSTLY_NEXT;
  assert_true(access_sectors(&ptr, layout_make(cx, &l), 1) == 1.0);
  info.mostly[1] = MOSTLY_NEAR; /* every second one */
  assert_true(access_sectors(&ptr, layout_make(cx, &l), 1) == 2.0);
  context_destroy(cx);
}

static void widths_follow_axis_info(void **state) {
  Context *cx = context_create();
  int32_t shape[] = {1024};
  const Type *t = type_tensor(cx, type_pointer(cx, DT_BF16), 1, shape),
             *mask_type = type_tensor(cx, type_number(cx, DT_I1), 1, shape);
  /* clang-format off */
  static const struct { int64_t divisible, contiguous, constant; int max_bytes, width; } rows[] = {
      {16, 1024, 1024, 16, 8}, {16, 1024, 1024, 32, 8}, {32, 1024, 1024, 32, 16}, {8, 1024, 1024, 16, 4},
      {2, 1024, 1024, 16, 1},
      {16, 4, 1024, 16, 4}, {16, 1, 1024, 16, 1}, {16, 1024, 2, 16, 2}, {16, 12, 1024, 16, 4}, {16, 1024, 1, 16, 1},
  };
  /* clang-format on */
  const Layout *wide = layout_blocked(cx, t, &(int){32}, &(int){0}, 1),
               *narrow = layout_blocked(cx, t, &(int){2}, &(int){0}, 4);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    AxisInfo info = {.divisible = {rows[i].divisible}, .contiguous = {rows[i].contiguous}, .constant = {1}};
    AxisInfo mask_info = {.divisible = {1}, .contiguous = {1}, .constant = {rows[i].constant}};
    Value ptr = {.type = t, .axis = &info}, mask = {.type = mask_type, .axis = &mask_info};
    int dim, got = access_vector(&ptr, &mask, wide, rows[i].max_bytes, &dim);
    if (got != rows[i].width || dim != 0) fail_msg("row %zu: %d, not %d", i, got, rows[i].width);
    assert_true(access_vector(&ptr, &mask, narrow, rows[i].max_bytes, &dim) <= 2);
  }
  context_destroy(cx);
}

/* A vector whose place another register or thread moves within itself is no vector. */
static void swizzled_runs_are_not_wide(void **state) {
  Context *cx = context_create();
  int32_t shape[] = {256};
  AxisInfo info = {.divisible = {16}, .contiguous = {256}, .constant = {1}};
  Value ptr = {.type = type_tensor(cx, type_pointer(cx, DT_F32), 1, shape), .axis = &info};
  Layout l = {.reg_bits = 3, .lane_bits = 5, .out_bits = 8, .basis = {1, 2, 128, 4, 8, 16, 32, 64}};
  int dim;
  assert_int_equal(access_vector(&ptr, NULL, layout_make(cx, &l), 16, &dim), 4);
  l.basis[5] = 16 | 2;
  assert_int_equal(access_vector(&ptr, NULL, layout_make(cx, &l), 16, &dim), 2);
  l.basis[2] = 128 | 1;
  assert_int_equal(access_vector(&ptr, NULL, layout_make(cx, &l), 16, &dim), 1);
  context_destroy(cx);
}

/* ---- every operation --------------------------------------------------------------------------------------------- */

#define LOAD_2D(name, ty, m, n) \
  "  %" name "r = arange {start=0, end=" #m "} : i32[" #m "]\n  %" name "c = arange {start=0, end=" #n "} : i32[" #n \
  "]\n" \
  "  %" name "rr = expand_dims %" name "r {axis=1} : i32[" #m ",1]\n  %" name "cc = expand_dims %" name \
  "c {axis=0} : i32[1," #n "]\n" \
  "  %" name "s = splat %n : i32[" #m ",1]\n  %" name "ro = mul %" name "rr, %" name "s : i32[" #m ",1]\n" \
  "  %" name "rb = broadcast %" name "ro : i32[" #m "," #n "]\n  %" name "cb = broadcast %" name "cc : i32[" #m "," #n \
  "]\n" \
  "  %" name "o = add %" name "rb, %" name "cb : i32[" #m "," #n "]\n  %" name "b = splat %x : *" ty "[" #m "," #n \
  "]\n" \
  "  %" name "p = addptr %" name "b, %" name "o : *" ty "[" #m "," #n "]\n  %" name " = load %" name "p : " ty "[" #m \
  "," #n "]\n"
#define LOAD_1D(name, ty, n) \
  "  %" name "i = arange {start=0, end=" #n "} : i32[" #n "]\n  %" name "b = splat %x : *" ty "[" #n "]\n" \
  "  %" name "p = addptr %" name "b, %" name "i : *" ty "[" #n "]\n  %" name " = load %" name "p : " ty "[" #n "]\n"
#define KERNEL(body) "kernel @k(%x: *f32 {divisible=16}, %n: i32 {divisible=16}, %go: i1) {\n" body "}\n"
#define ADD_BODY(n) \
  "do (%s" n ": f32, %t" n ": f32) {\n    %u" n " = add %s" n ", %t" n " : f32\n    yield %u" n "\n  }\n"

/* clang-format off */
static const char *const programs[] = {
    KERNEL(LOAD_2D("a", "f32", 64, 32) "  %y = trans %a {dims=[1, 0]} : f32[32,64]\n  %z = reshape %y : f32[2048]\n"
           LOAD_1D("q", "f32", 2048) "  %w = add %z, %q : f32[2048]\n  store %qp, %w\n"),
    KERNEL(LOAD_1D("a", "f32", 256) LOAD_1D("c", "f32",
      256) "  %y = join %a, %c : f32[256,2]\n  %z = reshape %y : f32[512]\n"
           LOAD_1D("q", "f32", 512) "  store %qp, %z\n"),
    KERNEL(LOAD_1D("a", "f32",
      512) "  %y = reshape %a : f32[256,2]\n  %l, %h = split %y : f32[256], f32[256]\n  %z = add %l, %h : f32[256]\n"
           LOAD_1D("q", "f32", 256) "  store %qp, %z\n"),
    KERNEL(LOAD_2D("a", "f32", 2,
      64) "  %y = trans %a {dims=[1, 0]} : f32[64,2]\n  %l, %h = split %y : f32[64], f32[64]\n  %z = sub %l, %h : f32[64]\n"
           LOAD_1D("q", "f32", 64) "  store %qp, %z\n"),
    KERNEL("  %i = const {value=1.5} : f32\n  %a = splat %i : f32[2]\n" LOAD_1D("q", "f32",
      2) "  %e = add %q, %a : f32[2]\n"
           "  %l, %h = split %e : f32, f32\n  %z = add %l, %h : f32\n  store %x, %z\n"),
    KERNEL(LOAD_2D("a", "f32", 16, 64) LOAD_2D("c", "f32", 16,
      64) "  %y = cat %a, %c {axis=0} : f32[32,64]\n" LOAD_2D("q", "f32", 32, 64)
           "  store %qp, %y\n"),
    KERNEL(LOAD_2D("a", "f32", 16, 64) LOAD_2D("c", "f32", 16,
      64) "  %y = cat %a, %c {axis=1} : f32[16,128]\n" LOAD_2D("q", "f32", 16, 128)
           "  store %qp, %y\n"),
    KERNEL(LOAD_2D("a", "f32", 128,
      64) "  %y = reduce %a {axis=1} : f32[128] " ADD_BODY("1") "  %z = reduce %a {axis=0} : f32[64] " ADD_BODY("2")
           LOAD_1D("p", "f32", 128) LOAD_1D("q", "f32", 64) "  store %pp, %y\n  store %qp, %z\n"),
    KERNEL(LOAD_2D("a", "f32", 128,
      64) "  %y = scan %a {axis=1} : f32[128,64] " ADD_BODY("3") "  %z = scan %y {axis=0, reverse=1} : f32[128,64] " ADD_BODY("4")
           "  store %ap, %z\n"),
    KERNEL(LOAD_2D("a", "f32", 32,
      64) "  %t = trans %a {dims=[1, 0]} : f32[64,32]\n  %r = reshape %t : f32[2048]\n  %y = scan %r {axis=0} : f32[2048] " ADD_BODY("5")
           "  %z = reshape %y : f32[64,32]\n  %v = trans %z {dims=[1, 0]} : f32[32,64]\n  store %ap, %v\n"),
    KERNEL(LOAD_2D("a", "f32", 8, 128) "  %y = sort %a : f32[8,128]\n  store %ap, %y\n"),
    KERNEL(LOAD_1D("i", "f32",
      256) "  %k = convert %i : i32[256]\n  %y = gather %i, %k {axis=0} : f32[256]\n  store %ip, %y\n"
           "  %h = histogram %k : i32[64]\n  %g = convert %h : f32[64]\n" LOAD_1D("q", "f32", 64) "  store %qp, %g\n"),
    KERNEL(LOAD_1D("a", "f32",
      1024) "  %y = map %a {pack=8} : f32[1024] do (%0: f32, %1: f32, %2: f32, %3: f32, %4: f32, %5: f32, %6: f32, %7: f32) {\n"
           "    %8 = add %0, %7 : f32\n    yield %8, %1, %2, %3, %4, %5, %6, %8\n  }\n  store %ap, %y\n"),
    KERNEL(LOAD_2D("a", "f32", 32, 64) LOAD_2D("c", "f32", 64,
      32) "  %z = const {value=0.0} : f32[32,32]\n  %y = dot %a, %c, %z {precision=ieee} : f32[32,32]\n"
           LOAD_2D("q", "f32", 32,
             32) "  %w = add %y, %q : f32[32,32]\n  %v = trans %w {dims=[1, 0]} : f32[32,32]\n  store %qp, %v\n"),
    KERNEL(LOAD_2D("a", "f32", 32,
      64) "  %f = const {value=0} : i32\n  %e = const {value=8} : i32\n  %d = const {value=1} : i32\n"
           "  %y = for %f, %e, %d, %a : f32[32,64] do (%i: i32, %sum: f32[32,64]) {\n    %t = trans %sum {dims=[1, 0]} : f32[64,32]\n"
           "    %u = reshape %t : f32[32,64]\n    %w = add %u, %a : f32[32,64]\n    yield %w\n  }\n  store %ap, %y\n"),
    KERNEL(LOAD_1D("a", "f32",
      256) "  %y = while %a : f32[256] do (%c: f32[256]) {\n    %m = reduce %c {axis=0} : f32 " ADD_BODY("6")
           "    %l = const {value=3.0} : f32\n    %g = cmp %m, %l {pred=lt} : i1\n    condition %g, %c\n  } do (%d: f32[256]) {\n"
           "    %e = add %d, %a : f32[256]\n    yield %e\n  }\n  store %ap, %y\n"),
    KERNEL(LOAD_2D("a", "f32", 32,
      32) "  %y = if %go : f32[32,32] do () {\n    %t = trans %a {dims=[1, 0]} : f32[32,32]\n    yield %t\n  } do () {\n"
           "    %z = const {value=1.0} : f32[32,32]\n    yield %z\n  }\n  store %ap, %y\n"),
    KERNEL(LOAD_1D("a", "f32",
      64) "  %m = cmp %a, %a {pred=eq} : i1[64]\n  print %a, %ai, %n {text=\"v\"}\n  assert %m {text=\"no\"}\n"),
    KERNEL("  %i = arange {start=0, end=64} : i32[64]\n  %r = expand_dims %i {axis=1} : i32[64,1]\n  %c = expand_dims %i {axis=0} : i32[1,64]\n"
           "  %rb = broadcast %r : i32[64,64]\n  %cb = broadcast %c : i32[64,64]\n  %m = cmp %rb, %cb {pred=lt} : i1[64,64]\n"
           "  %v = convert %m : f32[64,64]\n  %y = reduce %v {axis=0} : f32[64] " ADD_BODY("7") "  %b = splat %x : *f32[64]\n"
           "  %p = addptr %b, %i : *f32[64]\n  store %p, %y\n"),
    KERNEL(LOAD_1D("a", "f32",
      64) "  %r = expand_dims %a {axis=1} : f32[64,1]\n  %c = expand_dims %a {axis=0} : f32[1,64]\n  %rb = broadcast %r : f32[64,64]\n"
           "  %cb = broadcast %c : f32[64,64]\n  %m = cmp %rb, %cb {pred=lt} : i1[64,64]\n  %v = convert %m : f32[64,64]\n"
           "  %y = reduce %v {axis=0} : f32[64] " ADD_BODY("8") "  store %ap, %y\n"),
    KERNEL(LOAD_1D("a", "f32",
      1) "  %y = reduce %a {axis=0} : f32 " ADD_BODY("9") "  %w = reshape %y : f32[1]\n  store %ap, %w\n"),
    KERNEL(LOAD_1D("a", "f32",
      256) "  %o = atomic_rmw %ap, %a {kind=add, sem=relaxed, scope=gpu} : f32[256]\n  %w = add %o, %a : f32[256]\n  store %ap, %w\n"),
};
/* clang-format on */

static void every_operation_gets_its_layout(void **state) {
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    for (int warps = 1; warps <= 32; warps *= 2) {
      Kit k = lay_out_well(programs[i], warps);
      kit_free(&k);
    }
}

/* ---- what is made where ------------------------------------------------------------------------------------------ */

static void both_axes_reduce_in_place(void **state) {
  Kit k = lay_out_well(programs[7], 4);
  for (int i = 0; i < 2; i++) assert_int_equal(find_op(k.f, OP_REDUCE, i)->in[0]->def->code, OP_LOAD);
  kit_free(&k);
}

static int loops_around(const Op *op) {
  int n = 0;
  for (const Block *b = op->block; b->parent; b = b->parent->block) n += b->parent->code == OP_FOR;
  return n;
}

/* What a loop does not change is converted before it, and once. */
static void conversions_leave_loops(void **state) {
  Kit k = lay_out_well(
      KERNEL(LOAD_2D("a", "f32", 64,
                     64) "  %m = math %a {fn=exp} : f32[64,64]\n  %z = const {value=0.0} : f32[64,64]\n"
                         "  %f = const {value=0} : i32\n  %e = const {value=8} : i32\n  %d = const {value=1} : i32\n"
                         "  %y = for %f, %e, %d, %z : f32[64,64] do (%i: i32, %sum: f32[64,64]) {\n    %t = trans %a "
                         "{dims=[1, 0]} : f32[64,64]\n"
                         "    %p = dot %a, %t, %sum {precision=ieee} : f32[64,64]\n    %u = add %p, %m : f32[64,64]\n  "
                         "  %v = mul %u, %m : f32[64,64]\n"
                         "    yield %v\n  }\n  store %ap, %y\n"),
      4);
  int n = count_ops(k.f, OP_CONVERT_LAYOUT);
  for (int i = 0; i < n; i++) assert_int_equal(loops_around(find_op(k.f, OP_CONVERT_LAYOUT, i)), 0);
  assert_true(n <= 2);
  kit_free(&k);
}

/* In the transpose's two layouts each piece of index arithmetic is made once, and keeps its facts. */
static void copies_are_made_once(void **state) {
  Kit k = lay_out_kernel("transpose.py", "transpose",
                         "rows=4096 cols=4096 x_stride=4096 out_stride=4096 BLOCK_R=64 BLOCK_C=64", 4);
  int n = count_ops(k.f, OP_ARANGE);
  assert_true(n >= 1 && n <= 2);
  for (int i = 0; i < n; i++) {
    const Value *v = find_op(k.f, OP_ARANGE, i)->out[0];
    assert_non_null(v->axis);
    assert_int_equal(v->axis->contiguous[0], 64);
    for (int j = 0; j < i; j++) assert_ptr_not_equal(v->layout, find_op(k.f, OP_ARANGE, j)->out[0]->layout);
  }
  kit_free(&k);
}

/* bf16 rows and f32 weights: as many elements a thread as 16 bytes of the narrow ones. But f32 results, of which as
 * much is stored as is loaded, keep stores whole. */
static void mixed_widths(void **state) {
  Kit k = lay_out(
      "kernel @k(%x: *bf16 {divisible=16}, %y: *f32 {divisible=16}) {\n  %i = arange {start=0, end=4096} : i32[4096]\n"
      "  %a = splat %x : *bf16[4096]\n  %p = addptr %a, %i : *bf16[4096]\n  %v = load %p : bf16[4096]\n  %w = convert "
      "%v : f32[4096]\n"
      "  %b = splat %y : *f32[4096]\n  %q = addptr %b, %i : *f32[4096]\n  store %q, %w\n}\n",
      4);
  assert_non_null(k.f);
  assert_int_equal(width_of(find_op(k.f, OP_STORE, 0)), 4);
  assert_true(sectors_of(find_op(k.f, OP_STORE, 0)) == 1.0);
  assert_int_equal(count_ops(k.f, OP_CONVERT_LAYOUT), 0);
  kit_free(&k);
}

static void small_tensors_use_all_threads(void **state) {
  Kit k = lay_out_well(KERNEL(LOAD_1D("a", "f32", 256) "  %w = add %a, %a : f32[256]\n  store %ap, %w\n"), 4);
  assert_int_equal(width_of(find_op(k.f, OP_LOAD, 0)), 2);
  assert_int_equal(layout_registers(find_op(k.f, OP_LOAD, 0)->out[0]->layout), 2);
  kit_free(&k);
}

/* Every second pixel of an image, channels far apart: lanes go from pixel to pixel. Where both dims are far, lanes go
 * along what is no multiple of 16: a filter's channels, 9 elements apart, and not its outputs. */
static void lanes_go_by_a_few_elements(void **state) {
  static const struct {
    const char *step;
    int dim;
  } cases[] = {{"add %i, %c1", 0}, {"mul %i, %c2", 0},  {"mul %c2, %i", 0}, {"mul %i, %c4", 0}, {"shl %i, %c1", 0},
               {"div %i, %c4", 0}, {"mul %i, %odd", 0}, {"mul %i, %c8", 0}, {"shl %i, %c4", 1}, {"mul %i, %ns", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char k_text[1400];
    snprintf(k_text, sizeof k_text,
             "kernel @k(%%p: *f32, %%n: i32 {divisible=16}, %%m: i32) {\n  %%i = arange {start=0, end=64} : i32[64]\n"
             "  %%ns = splat %%n : i32[64]\n  %%odd = splat %%m : i32[64]\n"
             "  %%c1 = const {value=1} : i32[64]\n  %%c2 = const {value=2} : i32[64]\n"
             "  %%c4 = const {value=4} : i32[64]\n  %%c8 = const {value=8} : i32[64]\n"
             "  %%s = %s : i32[64]\n  %%r = expand_dims %%s {axis=1} : i32[64,1]\n"
             "  %%rows = broadcast %%r : i32[64,64]\n"
             "  %%far = mul %%i, %%ns : i32[64]\n  %%f = expand_dims %%far {axis=0} : i32[1,64]\n"
             "  %%columns = broadcast %%f : i32[64,64]\n  %%at = add %%rows, %%columns : i32[64,64]\n"
             "  %%ps = splat %%p : *f32[64,64]\n  %%a = addptr %%ps, %%at : *f32[64,64]\n"
             "  %%x = load %%a : f32[64,64]\n  %%y = add %%x, %%x : f32[64,64]\n  store %%a, %%y\n}\n",
             cases[i].step);
    Kit k = lay_out_well(k_text, 4);
    const Value *x = find_op(k.f, OP_LOAD, 0)->out[0];
    uint32_t first = x->layout->basis[x->layout->reg_bits];
    int dim = first >> layout_dim_shift(x->type, 0) ? 0 : 1;
    if (dim != cases[i].dim) fail_msg("case %zu: lanes go along dim %d", i, dim);
    kit_free(&k);
  }
}

/* A store with a stride that the launch gives: it may be 2, of which lanes side by side touch 8 sectors, and four
 * elements a lane 32. */
static void lanes_lie_side_by_side_in_strides(void **state) {
  static const struct {
    const char *type;
    int first; /* of the lanes */
  } cases[] = {{"%s: i32", 1}, {"%s: i32 {divisible=16}", 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[1000];
    snprintf(text, sizeof text,
             "kernel @k(%%p: *f32 {divisible=16}, %%q: *f32 {divisible=16}, %s) {\n"
             "  %%i = arange {start=0, end=1024} : i32[1024]\n  %%ps = splat %%p : *f32[1024]\n"
             "  %%a = addptr %%ps, %%i : *f32[1024]\n  %%x = load %%a : f32[1024]\n  %%y = add %%x, %%x : f32[1024]\n"
             "  %%ss = splat %%s : i32[1024]\n  %%at = mul %%i, %%ss : i32[1024]\n  %%qs = splat %%q : *f32[1024]\n"
             "  %%b = addptr %%qs, %%at : *f32[1024]\n  store %%b, %%y\n}\n",
             cases[i].type);
    Kit k = lay_out_well(text, 4);
    const Layout *l = find_op(k.f, OP_STORE, 0)->in[0]->layout;
    assert_int_equal(l->basis[l->reg_bits], cases[i].first);
    kit_free(&k);
  }
}

/* A scan wants neighbours in one thread: stores of wider elements than those that are loaded are converted for. */
static void scans_keep_neighbours(void **state) {
  Kit k = lay_out_well(
      "kernel @k(%p: *f32 {divisible=16}, %q: *i64 {divisible=16}) {\n"
      "  %i = arange {start=0, end=1024} : i32[1024]\n  %n = convert %i : i64[1024]\n  %ps = splat %p : *f32[1024]\n"
      "  %a = addptr %ps, %i : *f32[1024]\n  %x = load %a : f32[1024]\n"
      "  %v, %at = scan %x, %n {axis=0} : f32[1024], i64[1024] do (%b: f32, %c: i64, %d: f32, %e: i64) {\n"
      "    %g = cmp %b, %d {pred=gt} : i1\n    %s = select %g, %b, %d : f32\n    %t = select %g, %c, %e : i64\n"
      "    yield %s, %t\n  }\n"
      "  store %a, %v\n  %qs = splat %q : *i64[1024]\n  %o = addptr %qs, %i : *i64[1024]\n  store %o, %at\n}\n",
      4);
  const Layout *scanned = find_op(k.f, OP_SCAN, 0)->out[1]->layout;
  assert_true(layout_find_register(scanned, 1) >= 0 && layout_find_register(scanned, 2) >= 0);
  assert_non_null(find_op(k.f, OP_CONVERT_LAYOUT, 0));
  kit_free(&k);
}

/* ---- wrong input, wrong layouts ---------------------------------------------------------------------------------- */

static void bad_sizes_are_refused(void **state) {
  Kit k = lay_out(programs[0], 3);
  assert_null(k.f);
  assert_non_null(strstr(k.messages, "`num_warps` must be a power of 2 from 1 to 32, but it is 3"));
  kit_free(&k);
  k = lay_out(KERNEL(LOAD_1D("a", "f32", 48) "  store %ap, %a\n"), 4);
  assert_null(k.f);
  assert_non_null(strstr(k.messages, "dim 0 of a tensor is 48"));
  kit_free(&k);
}

/* layout_verify of a program in which one value's layout was changed; `value` picks which. */
static bool survives(const char *text, OpCode code, int skip, bool operand, int which, int change) {
  Kit k = lay_out_well(text, 4);
  Op *op = find_op(k.f, code, skip);
  assert_non_null(op);
  Value *v = operand ? op->in[which] : op->out[which];
  Layout l = *v->layout;
  uint32_t *b = l.basis;
  if (change == 0) { /* lanes in another order: an equally good layout, but another one */
    uint32_t first = b[l.reg_bits];
    b[l.reg_bits] = b[l.reg_bits + 1], b[l.reg_bits + 1] = first;
  } else if (change == 1) b[l.reg_bits] = b[l.reg_bits + 1]; /* does not cover */
  else if (change == 2) l.warp_bits--;
  else if (change == 3) v->layout = NULL;
  if (change != 3) v->layout = layout_make(k.cx, &l);
  volatile bool ok = false;
  if (context_try(k.cx)) {
    layout_verify(k.f);
    ok = true;
    context_end_try(k.cx);
  }
  kit_free(&k);
  return ok;
}

static void wrong_layouts_are_found(void **state) {
  for (int change = 0; change < 4; change++) {
    assert_false(survives(programs[0], OP_LOAD, 0, false, 0, change));
    assert_false(survives(programs[0], OP_TRANS, 0, false, 0, change));
    assert_false(survives(programs[1], OP_JOIN, 0, true, 0, change));
    assert_false(survives(programs[2], OP_SPLIT, 0, false, 1, change));
    assert_false(survives(programs[5], OP_CAT, 0, true, 1, change));
    assert_false(survives(programs[7], OP_REDUCE, 0, true, 0, change));
    assert_false(survives(programs[8], OP_SCAN, 0, true, 0, change));
    assert_false(survives(programs[8], OP_SCAN, 1, false, 0, change));
    assert_false(survives(programs[13], OP_DOT, 0, true, 2, change));
    assert_false(survives(programs[14], OP_FOR, 0, false, 0, change));
    assert_false(survives(programs[15], OP_WHILE, 0, false, 0, change));
    assert_false(survives(programs[16], OP_IF, 0, false, 0, change));
    assert_false(survives(programs[21], OP_ATOMIC_RMW, 0, true, 1, change));
  }
  assert_true(survives(programs[13], OP_DOT, 0, false, 0, -1)); /* nothing changed */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_need_no_conversion),
      cmocka_unit_test(transpose_converts_once),
      cmocka_unit_test(sums_are_stored_where_they_are),
      cmocka_unit_test(products_convert_nothing),
      cmocka_unit_test(results_leave_by_squares),
      cmocka_unit_test(masked_addends_are_loaded_wide),
      cmocka_unit_test(sectors_are_counted),
      cmocka_unit_test(widths_follow_axis_info),
      cmocka_unit_test(swizzled_runs_are_not_wide),
      cmocka_unit_test(every_operation_gets_its_layout),
      cmocka_unit_test(both_axes_reduce_in_place),
      cmocka_unit_test(conversions_leave_loops),
      cmocka_unit_test(copies_are_made_once),
      cmocka_unit_test(mixed_widths),
      cmocka_unit_test(small_tensors_use_all_threads),
      cmocka_unit_test(lanes_go_by_a_few_elements),
      cmocka_unit_test(lanes_lie_side_by_side_in_strides),
      cmocka_unit_test(scans_keep_neighbours),
      cmocka_unit_test(bad_sizes_are_refused),
      cmocka_unit_test(wrong_layouts_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
