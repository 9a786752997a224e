/* Which loads of kernels in the Triton language read boxes of arrays: how the array and the box are described, and why
 * others are none. Kernels of kernels/ are among them. */
#include "test_front_kit.h"
#include "tile/analysis/regular.h"

#ifndef KERNELS_DIR
#define KERNELS_DIR "kernels"
#endif

/* Integers: n_... are multiples of 16 that nobody knows, i_... are any; one: 1. Constexprs by their names. */
static ArgSpec argument(const char *name) {
  static const struct {
    const char *name, *text;
  } constants[] = {
      {"BLOCK_M", "128"},     {"BLOCK_N", "64"},      {"BLOCK_K", "32"},     {"GROUP_M", "8"}, {"BLOCK_SIZE_M", "128"},
      {"BLOCK_SIZE_N", "64"}, {"BLOCK_SIZE_K", "32"}, {"GROUP_SIZE_M", "8"}, {"D", "64"},      {"CAUSAL", "True"}};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (!strcmp(name, constants[i].name)) return (ArgSpec){.kind = ARG_CONSTEXPR, .text = constants[i].text};
  size_t length = strlen(name);
  if (length > 4 && !strcmp(name + length - 4, "_ptr"))
    return (ArgSpec){.kind = ARG_POINTER, .dtype = strcmp(name, "list_ptr") ? DT_F16 : DT_I32, .aligned = true};
  if (!strcmp(name, "scale")) return (ArgSpec){.kind = ARG_FLOAT, .float_value = 0.5};
  if (!strcmp(name, "one") || !strcmp(name, "stride_ak") || !strcmp(name, "stride_bn") || !strcmp(name, "stride_cn"))
    return (ArgSpec){.kind = ARG_INT, .has_value = true, .int_value = 1};
  if (!strncmp(name, "i_", 2)) return (ArgSpec){.kind = ARG_INT, .has_value = true, .int_value = 777};
  return (ArgSpec){.kind = ARG_INT, .has_value = true, .int_value = 4096};
}

typedef struct Loads {
  const Func *f;
  Buf text;
} Loads;

static void describe(Op *op, void *arg) {
  Loads *l = arg;
  const char *why;
  if (op->code != OP_LOAD || !op->out[0]->type->rank) return;
  RegularTile *r = regular_tile(l->f, op, &why);
  if (r) regular_print(&l->text, r);
  else buf_printf(&l->text, "none: %s", why);
  buf_putc(&l->text, '\n');
}

static void expect(Context *cx, Module *m, Kernel *kernel, const char *expected) {
  int n = kernel_param_count(kernel);
  ArgSpec *args = NEW_N(cx->arena, ArgSpec, n + 1);
  for (int i = 0; i < n; i++) args[i] = argument(kernel_param(kernel, i)->name);
  Compiled *c = front_compile(m, kernel, args, &(CompileOptions){0});
  tile_optimize(c->func, NULL, NULL, true);
  Loads l = {.f = c->func};
  tile_walk(c->func->body, describe, &l);
  assert_string_equal(l.text.at ? l.text.at : "", expected);
  buf_destroy(&l.text);
}

static void kernel_loads(const char *file, const char *name, const char *text, const char *expected) {
  Context *cx = context_create();
  Buf messages = {0};
  if (context_try(cx)) {
    Module *m = file ? front_load_file(cx, file) : front_load_text(cx, "k.py", text, strlen(text));
    Kernel *kernel = NULL;
    for (int i = 0; i < front_kernel_count(m); i++)
      if (!name || !strcmp(kernel_name(front_kernel_at(m, i)), name)) kernel = front_kernel_at(m, i);
    expect(cx, m, kernel, expected);
    context_end_try(cx);
  } else {
    diags_print(&messages, cx, false);
    fail_msg("%s", messages.at);
  }
  buf_destroy(&messages);
  context_destroy(cx);
}

#define K HEAD "@triton.jit\n"

static void loads(const char *text, const char *expected) { kernel_loads(NULL, NULL, text, expected); }

/* Rows of a and b wrapped at their ends, pointers that advance, masks by the number of the iteration. */
static void wrapped(void **state) {
  loads(K "def k(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M: tl.constexpr, "
          "BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):\n"
          "    m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)) % M\n"
          "    n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N\n"
          "    k = tl.arange(0, BLOCK_K)\n"
          "    a = a_ptr + (m[:, None] * stride_am + k[None, :] * stride_ak)\n"
          "    b = b_ptr + (k[:, None] * stride_bk + n[None, :] * stride_bn)\n"
          "    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)\n"
          "    for i in range(0, tl.cdiv(K, BLOCK_K)):\n"
          "        acc = tl.dot(tl.load(a, mask=k[None, :] < K - i * BLOCK_K, other=0.0), "
          "tl.load(b, mask=k[:, None] < K - i * BLOCK_K, other=0.0), acc)\n"
          "        a += BLOCK_K * stride_ak\n"
          "        b += BLOCK_K * stride_bk\n"
          "    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float16))\n",
        "a_ptr: 32 from 32 #i of K by 1; 128 from (128 program_id(0) % M) by stride_am; if M % 128 == 0, M >= 1, K >= "
        "1, stride_am >= 1\n"
        "b_ptr: 64 from (64 program_id(1) % N) by 1; 32 from 32 #i of K by stride_bk; if N % 64 == 0, N >= 1, K >= 1, "
        "stride_bk >= 1\n");
}

static void described(void **state) {
  loads(K "def k(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):\n"
          "    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])\n"
          "    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])\n"
          "    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])\n"
          "    m = tl.program_id(0) * BLOCK_M - 5\n"
          "    n = tl.program_id(1) * BLOCK_N\n"
          "    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)\n"
          "    for i in range(0, K, BLOCK_K):\n"
          "        acc = tl.dot(a.load([m, i]), b.load([n, i]).T, acc)\n"
          "    c.store([m, n], acc.to(tl.float16))\n",
        "a_ptr: 32 from 32 #i of K by 1; 128 from -5 + 128 program_id(0) of M by K; if K >= 1, M >= 1\n"
        "b_ptr: 32 from 32 #i of K by 1; 64 from 64 program_id(1) of N by K; if K >= 1, N >= 1\n");
  loads(
      K
      "def k(a_ptr, c_ptr, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):\n"
      "    a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (tl.program_id(0) * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))\n"
      "    acc = tl.zeros([BLOCK_M, BLOCK_K], tl.float32)\n"
      "    for i in range(0, K, BLOCK_K):\n"
      "        acc += tl.load(a, boundary_check=(0, 1))\n"
      "        a = tl.advance(a, (0, BLOCK_K))\n"
      "    tl.store(c_ptr + tl.arange(0, BLOCK_M)[:, None] * BLOCK_K + tl.arange(0, BLOCK_K)[None, :], "
      "acc.to(tl.float16))\n",
      "a_ptr: 32 from 32 #i of K by 1; 128 from 128 program_id(0) of M by K; if K >= 1, M >= 1\n");
}

#define TILE "    m = tl.program_id(0) * 32 + tl.arange(0, 32)\n    j = tl.arange(0, 16)\n"
#define ONE(address, mask) \
  K "def k(a_ptr, list_ptr, out_ptr, n_rows, n_cols, stride, i_any, one):\n" TILE "    x = tl.load(" address mask \
    ")\n" \
    "    tl.store(out_ptr + tl.arange(0, 32)[:, None] * 16 + j[None, :], x)\n"
#define SUM "a_ptr + m[:, None] * stride + j[None, :]"

static void forms(void **state) {
  loads(ONE(SUM, ""), "a_ptr: 16 from 0 by 1; 32 from 32 program_id(0) by stride; if stride >= 1\n");
  loads(ONE(SUM, ", mask=(m[:, None] <= n_rows) & (n_cols > j[None, :]) & (n_rows > 3)"),
        "a_ptr: 16 from 0 of n_cols by 1; 32 from 32 program_id(0) of 1 + n_rows by stride; if n_cols >= 1, 1 + n_rows "
        ">= 1, stride >= 1; 1 guard\n");
  loads(ONE("a_ptr + (m[:, None] - 1) * stride + j[None, :]", ", mask=(m[:, None] >= 1) & (m[:, None] < n_rows)"),
        "a_ptr: 16 from 0 by 1; 32 from -1 + 32 program_id(0) of -1 + n_rows by stride; if -1 + n_rows >= 1, stride >= "
        "1\n");
  loads(ONE("a_ptr + tl.program_id(1) * n_cols * 8 + tl.program_id(2) * stride * 64 + m[:, None] * stride + j[None, :]",
            ""),
        "a_ptr: 16 from 0 by 1; 32 from 32 program_id(0) + 64 program_id(2) by stride; 1 from program_id(1) by 8 "
        "n_cols; if stride >= 1, 8 n_cols >= 1\n");
  loads(ONE("a_ptr + 64 + (m[:, None] * n_cols + 16) * n_rows + j[None, :]", ""),
        "a_ptr + 64 + 16 n_rows: 16 from 0 by 1; 32 from 32 program_id(0) by n_rows n_cols; if n_rows n_cols >= 1\n");
  loads(ONE("a_ptr + m[:, None] * i_any + j[None, :]", ""),
        "a_ptr: 16 from 0 by 1; 32 from 32 program_id(0) by i_any; if i_any >= 1, i_any % 8 == 0\n");
  loads(ONE("a_ptr + m[:, None] + j[None, :] * stride", ", mask=m[:, None] < i_any"),
        "a_ptr: 32 from 32 program_id(0) of i_any by 1; 16 from 0 by stride; if i_any >= 1, stride >= 1\n");
  loads(K "def k(a_ptr, out_ptr, n_cols):\n    i = tl.program_id(0) * 64 + tl.arange(0, 64)\n"
          "    tl.store(out_ptr + i, tl.load(a_ptr + i, mask=i < n_cols))\n",
        "a_ptr: 64 from 64 program_id(0) of n_cols by 1; if n_cols >= 1\n");
  loads(K
        "def k(a_ptr, out_ptr, n_cols, stride):\n    j = tl.arange(0, 64)\n    p = a_ptr + j\n"
        "    for i in range(2, n_cols, 3):\n        tl.store(out_ptr + i * 64 + j, tl.load(p))\n        p += stride\n",
        "a_ptr: 64 from 0 by 1; 1 from #i by stride; if stride >= 1\n");
}

static void none(void **state) {
  loads(ONE("a_ptr + m[:, None] * 3 + j[None, :] * 2", ""), "none: neighbours lie side by side along no dim\n");
  loads(ONE("a_ptr + tl.load(list_ptr + m)[:, None] * stride + j[None, :]", ""),
        "list_ptr: 32 from 32 program_id(0) by 1\n"
        "none: its address is no sum of indices times strides\n");
  loads(ONE("a_ptr + m[:, None] * tl.load(list_ptr) + j[None, :]", ""), "none: a stride is known only in the kernel\n");
  loads(ONE("a_ptr + tl.load(list_ptr) * stride + m[:, None] * stride + j[None, :]", ""),
        "none: it may begin before its array\n");
  loads(ONE("a_ptr + (m[:, None] // 2) * stride + j[None, :]", ""),
        "none: its address is no sum of indices times strides\n");
  loads(ONE(SUM, ", mask=m[:, None] < j[None, :]"), "none: its mask compares indices of two dims\n");
  loads(ONE(SUM, ", mask=(m[:, None] < n_rows) | (j[None, :] < n_cols)"),
        "none: its mask is no conjunction of bounds\n");
  loads(ONE(SUM, ", mask=m[:, None] * 2 < n_rows"), "none: its mask bounds an index times a number\n");
  loads(ONE(SUM, ", mask=m[:, None] != n_rows"), "none: its mask asks whether an index equals another\n");
  loads(ONE(SUM, ", mask=m[:, None] < tl.load(list_ptr)"), "none: a bound is known only in the kernel\n");
  loads(ONE(SUM, ", mask=m[:, None] < n_rows, other=1.0"), "none: what is masked is not zero\n");
  loads(ONE("a_ptr + (m[:, None] - 1) * stride + j[None, :]", ", mask=m[:, None] < n_rows"),
        "a_ptr + -stride: 16 from 0 by 1; 32 from 32 program_id(0) of n_rows by stride; if n_rows >= 1, stride >= 1\n");
  loads(ONE("a_ptr + (m[:, None] % tl.num_programs(0)) * stride + j[None, :]", ""),
        "none: it is wrapped at a number that only the kernel knows\n");
  loads(ONE("a_ptr + ((m[:, None] + 1) % n_rows) * stride + j[None, :]", ""),
        "none: it is wrapped, and where it starts is not known to be a multiple of its size\n");
  loads(ONE("a_ptr + 4 + m[:, None] * stride + j[None, :]", ""), "none: it does not begin at 16 bytes\n");
  loads(ONE("tl.where(j[None, :] < 3, a_ptr, out_ptr) + m[:, None] * stride", ""),
        "none: its pointer is no argument plus an index\n");
  loads(ONE("a_ptr - m[:, None] * stride + j[None, :]", ""),
        "a_ptr: 16 from 0 by 1; 32 from 32 program_id(0) by -stride; if -stride >= 1\n");
}

static void of_the_library(void **state) {
  kernel_loads(KERNELS_DIR "/matmul.py", "matmul", NULL,
               "a_ptr: 32 from 32 #start of K by 1; 128 from 128 rem + 1024 div of M by stride_am; if K >= 1, N >= 0, "
               "M >= 1, stride_am >= 1\n"
               "b_ptr: 64 from 64 tile_n of N by 1; 32 from 32 #start of K by stride_bk; if N >= 1, M >= 0, K >= 1, "
               "stride_bk >= 1\n");
  kernel_loads(
      KERNELS_DIR "/attention.py", "attention", NULL,
      "q_ptr: 64 from 0 by 1; 128 from 128 program_id(0) of n by 64; 1 from program_id(1) by 64 n; if n >= 1, 64 n >= "
      "1\n"
      "k_ptr: 64 from 0 by 1; 64 from 64 #start of n by 64; 1 from program_id(1) by 64 n; if n >= 1, 64 n >= 1\n"
      "v_ptr: 64 from 0 by 1; 64 from 64 #start of n by 64; 1 from program_id(1) by 64 n; if n >= 1, 64 n >= 1\n");
  kernel_loads(
      KERNELS_DIR "/attention.py", "attention_backward_kv", NULL,
      "k_ptr: 64 from 0 by 1; 64 from 64 program_id(0) of n by 64; 1 from program_id(1) by 64 n; if n >= 1, 64 n >= 1\n"
      "v_ptr: 64 from 0 by 1; 64 from 64 program_id(0) of n by 64; 1 from program_id(1) by 64 n; if n >= 1, 64 n >= 1\n"
      "q_ptr: 64 from 0 by 1; 128 from 128 div + 128 #start of n by 64; 1 from program_id(1) by 64 n; if n >= 1, 64 n "
      ">= 1\n"
      "grad_ptr: 64 from 0 by 1; 128 from 128 div + 128 #start of n by 64; 1 from program_id(1) by 64 n; if n >= 1, 64 "
      "n >= 1\n"
      "lse_ptr: 128 from 128 div + 128 #start of n by 1; 1 from program_id(1) by n; if n >= 1\n"
      "delta_ptr: 128 from 128 div + 128 #start of n by 1; 1 from program_id(1) by n; if n >= 1\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_the_library), cmocka_unit_test(wrapped), cmocka_unit_test(described),
      cmocka_unit_test(forms),          cmocka_unit_test(none),
  };
  return cmocka_run_group_tests_name("regular", tests, NULL, NULL);
}
