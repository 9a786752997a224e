/* Tests of the library side of src/front: result types of operators and library functions, what they lower to, and the
 * messages of wrong calls.
 *
 * A row is an expression over variables of every type (i8, s_f16, ...: a block of 16 and a scalar) and the type it must
 * have
 * ("f32[16]"), or "!" and a part of the message. The types are those of Triton 3.6's own front end. */
#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const dtypes[][2] = {
    {"i1", "int1"},       {"i8", "int8"},     {"i16", "int16"},   {"i32", "int32"},   {"i64", "int64"},
    {"u8", "uint8"},      {"u16", "uint16"},  {"u32", "uint32"},  {"u64", "uint64"},  {"f16", "float16"},
    {"bf16", "bfloat16"}, {"f32", "float32"}, {"f64", "float64"}, {"e5", "float8e5"}, {"e4", "float8e4nv"}};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static bool mentions(const char *expr, const char *name) {
  size_t n = strlen(name);
  for (const char *p = expr; (p = strstr(p, name)); p++) {
    char before = p == expr ? ' ' : p[-1], after = p[n];
#define WORD(c) \
  ((c) == '_' || (c) == '.' || ((c) >= '0' && (c) <= '9') || ((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z'))
    if (!WORD(before) && !(WORD(after) && after != '.')) return true;
  }
  return false;
}

/* A kernel that computes `statement` over the variables it mentions. */
static void write_kernel(Buf *b, const char *statement) {
  buf_puts(b, "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
              "from torch._inductor.runtime import triton_helpers\n"
              "@triton.jit\ndef _add(a, b):\n    return a + b\n"
              "@triton.jit\ndef _max(a, b):\n    return tl.maximum(a, b)\n"
              "@triton.jit\ndef _pair(a, b, c, d):\n    return a + c, b + d\n"
              "@triton.jit\ndef _relu(a):\n    if a > 0:\n        r = a\n    else:\n        r = a * 0\n    return r\n"
              "@triton.jit\ndef kernel(P, S):\n"
              "    ar = tl.arange(0, 16)\n    m = ar < 8\n    a2 = tl.reshape(ar, (4, 4))\n    Pi = "
              "P.to(tl.pointer_type(tl.int32))\n");
  for (int i = 0; i < DTYPES; i++) {
    const char *n = dtypes[i][0], *t = dtypes[i][1], *via = i >= DTYPES - 2 ? ".to(tl.float32)" : "";
    char scalar[16];
    snprintf(scalar, sizeof scalar, "s_%s", n);
    if (mentions(statement, scalar)) buf_printf(b, "    s_%s = S%s.to(tl.%s)\n", n, via, t);
    if (mentions(statement, n)) buf_printf(b, "    %s = (ar + S)%s.to(tl.%s)\n", n, via, t);
  }
  buf_printf(b, "    %s\n", statement);
}

/* Compiles; returns the Func, or NULL with the message in the context. */
static Func *compile(Context *cx, const char *statement, bool debug) {
  Buf text = {0};
  write_kernel(&text, statement);
  ArgSpec args[2] = {{.kind = ARG_POINTER, .dtype = DT_F32}, {.kind = ARG_INT}};
  CompileOptions o = {.debug = debug};
  Compiled *volatile r = NULL;
  if (context_try(cx)) {
    Module *m = front_load_text(cx, "k.py", text.at, text.n);
    r = front_compile(m, front_kernel(m, "kernel"), args, &o);
    tile_verify(r->func, "front");
    context_end_try(cx);
  } else {
    r = NULL;
  }
  buf_destroy(&text);
  return r ? r->func : NULL;
}

static const char *first_error(const Context *cx) {
  for (int i = 0; i < cx->diags.n; i++)
    if (cx->diags.at[i].kind == DIAG_ERROR) return cx->diags.at[i].message;
  return "";
}

/* The last print's operand. */
static Value *printed(Func *f) {
  for (Op *op = f->body->last; op; op = op->prev)
    if (op->code == OP_PRINT && op->in_count) return op->in[0];
  return NULL;
}

typedef struct Row {
  const char *expr, *want;
} Row;

static int check_row(const char *expr, const char *want) {
  Context *cx = context_create();
  Buf statement = {0}, got = {0};
  buf_printf(&statement, "tl.device_print('r', %s)", expr);
  Func *f = compile(cx, statement.at, false);
  if (!f) buf_printf(&got, "!%s", first_error(cx));
  else if (printed(f)) type_print(&got, printed(f)->type);
  int bad = want[0] == '!' ? !got.at || got.at[0] != '!' || !strstr(got.at, want + 1) : !got.at || strcmp(got.at, want);
  if (bad) fprintf(stderr, "%s\n  wanted %s\n  got    %s\n", expr, want, got.at ? got.at : "(nothing)");
  buf_destroy(&statement);
  buf_destroy(&got);
  context_destroy(cx);
  return bad;
}

static void check(const Row *rows) {
  int bad = 0;
  for (; rows->expr; rows++) bad += check_row(rows->expr, rows->want);
  assert_int_equal(bad, 0);
}

/* ---- promotion --------------------------------------------------------------------------------------------------- */

/* Rows and columns: i1 i8 i16 i32 i64 u8 u32 u64 f16 bf16 f32 f64 e5 e4; "-" is an error. */
static const char *const order[] = {"i1",  "i8",  "i16",  "i32", "i64", "u8", "u32",
                                    "u64", "f16", "bf16", "f32", "f64", "e5", "e4"};
static const struct {
  const char *op, *rows[14];
} matrices[] = {
    {"+",
     {"i1 i8 i16 i32 i64 u8 u32 u64 f16 f32 f32 f64 - -", "i8 i8 i16 i32 i64 u8 u32 u64 f16 f32 f32 f64 - -",
      "i16 i16 i16 i32 i64 i16 u32 u64 f16 f32 f32 f64 - -", "i32 i32 i32 i32 i64 i32 u32 u64 f16 f32 f32 f64 - -",
      "i64 i64 i64 i64 i64 i64 i64 u64 f16 f32 f32 f64 - -", "u8 u8 i16 i32 i64 u8 u32 u64 f16 f32 f32 f64 - -",
      "u32 u32 u32 u32 i64 u32 u32 u64 f16 f32 f32 f64 - -", "u64 u64 u64 u64 u64 u64 u64 u64 f16 f32 f32 f64 - -",
      "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f64 f16 f16",
      "f32 f32 f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64 f32 f32",
      "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 f32 f32",
      "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64", "- - - - - - - - f16 f32 f32 f64 - f16",
      "- - - - - - - - f16 f32 f32 f64 f16 -"}},
    {"/",
     {"f32 - - - - f32 f32 f32 f32 f32 f32 f64 - -", "- f32 f32 f32 f32 - - - f32 f32 f32 f64 - -",
      "- f32 f32 f32 f32 - - - f32 f32 f32 f64 - -", "- f32 f32 f32 f32 - - - f32 f32 f32 f64 - -",
      "- f32 f32 f32 f32 - - - f32 f32 f32 f64 - -", "f32 - - - - f32 f32 f32 f32 f32 f32 f64 - -",
      "f32 - - - - f32 f32 f32 f32 f32 f32 f64 - -", "f32 - - - - f32 f32 f32 f32 f32 f32 f64 - -",
      "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 f32 f32",
      "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 f32 f32",
      "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 f32 f32",
      "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64", "- - - - - - - - f32 f32 f32 f64 - f16",
      "- - - - - - - - f32 f32 f32 f64 f16 -"}},
    {"//",
     {"i1 - - - - u8 u32 u64 - - - - - -", "- i8 i16 i32 i64 - - - - - - - - -", "- i16 i16 i32 i64 - - - - - - - - -",
      "- i32 i32 i32 i64 - - - - - - - - -", "- i64 i64 i64 i64 - - - - - - - - -", "u8 - - - - u8 u32 u64 - - - - - -",
      "u32 - - - - u32 u32 u64 - - - - - -", "u64 - - - - u64 u64 u64 - - - - - -", "- - - - - - - - - - - - - -",
      "- - - - - - - - - - - - - -", "- - - - - - - - - - - - - -", "- - - - - - - - - - - - - -",
      "- - - - - - - - - - - - - -", "- - - - - - - - - - - - - -"}},
    {"&",
     {"i1 i8 i16 i32 i64 u8 u32 u64 - - - - - -", "i8 i8 i16 i32 i64 u8 u32 u64 - - - - - -",
      "i16 i16 i16 i32 i64 i16 u32 u64 - - - - - -", "i32 i32 i32 i32 i64 i32 u32 u64 - - - - - -",
      "i64 i64 i64 i64 i64 i64 i64 u64 - - - - - -", "u8 u8 i16 i32 i64 u8 u32 u64 - - - - - -",
      "u32 u32 u32 u32 i64 u32 u32 u64 - - - - - -", "u64 u64 u64 u64 u64 u64 u64 u64 - - - - - -",
      "- - - - - - - - - - - - - -", "- - - - - - - - - - - - - -", "- - - - - - - - - - - - - -",
      "- - - - - - - - - - - - - -", "- - - - - - - - - - - - - -", "- - - - - - - - - - - - - -"}},
};

static void promotion(void **state) {
  int bad = 0;
  for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++)
    for (int x = 0; x < 14; x++) {
      const char *cell = matrices[m].rows[x];
      for (int y = 0; y < 14; y++, cell += strcspn(cell, " "), cell += *cell == ' ') {
        char expr[64], want[32];
        snprintf(expr, sizeof expr, "%s %s s_%s", order[x], matrices[m].op, order[y]);
        snprintf(want, sizeof want, "%.*s[16]", (int)strcspn(cell, " "), cell);
        bad += check_row(expr, cell[0] == '-' ? "!" : want);
      }
    }
  assert_int_equal(bad, 0);
}

static void operators(void **state) {
  static const Row rows[] = {
      /* a Python number is weak ... */
      {"i8 + 1", "i8[16]"},
      {"i1 + 1", "i32[16]"},
      {"i1 & 1", "i32[16]"},
      {"i1 & True", "i1[16]"},
      {"i8 + 200", "!out of range for type i8"},
      {"u8 + -1", "!Cannot perform a binary operation between an unsigned tensor and a negative scalar: u8 and -1"},
      {"u8 + 200", "u8[16]"},
      {"i32 + 1.5", "f32[16]"},
      {"i64 * 1.5", "f32[16]"},
      {"i32 + 2**31", "!out of range"},
      {"f16 * 2", "f16[16]"},
      {"f16 * 2.5", "f16[16]"},
      {"bf16 * 2.5", "bf16[16]"},
      {"f16 / 2", "f32[16]"},
      {"bf16 % 2", "f32[16]"},
      {"2 / i64", "f32[16]"},
      {"f32 * 1e-40", "f32[16]"},
      {"i32 * 1e-40", "f64[16]"},
      {"3 - i8", "i8[16]"},
      {"u64 + 2**63", "u64[16]"},
      {"tl.where(m, f16, 0.0)", "f16[16]"},
      {"tl.where(m, i32, 0.5)", "f32[16]"},
      /* ... but run-time scalars are not, and neither is a number where it is compared */
      {"f16 * s_f32", "f32[16]"},
      {"bf16 * s_i32", "f32[16]"},
      {"f16 < 0.1", "i1[16]"},
      {"i8 == 300", "i1[16]"},
      {"u32 > -1", "i1[16]"},
      {"tl.maximum(f16, 0.0)", "f32[16]"},
      {"tl.maximum(f16, 0)", "f16[16]"},
      {"tl.maximum(i8, 0)", "i32[16]"},
      {"tl.maximum(bf16, bf16)", "f32[16]"},
      {"tl.minimum(1, 2.0)", "f32"},
      {"min(s_f16, 1.0)", "f32"},
      {"max(3, s_i64)", "i64"},
      /* the rest */
      {"-f16", "f16[16]"},
      {"-u8", "u8[16]"},
      {"~i1", "i1[16]"},
      {"~f32", "!wrong type argument to unary invert (f32[16])"},
      {"not i1", "i1[16]"},
      {"not s_i32", "!`not` wants conditions"},
      {"m and i1", "i1[16]"},
      {"s_i32 and s_i1", "!`and` wants conditions"},
      {"i32 ** 2", "!**"},
      {"i32 @ i32", "!AST binary operator 'MatMult' is not (currently) implemented"},
      {"f32 & 1", "!operator & wants integers"},
      {"f32 // 2", "!operator // wants integers"},
      {"i32 // u32", "!Cannot use /, #, or % with i32 and u32 because they have different signedness"},
      {"u8 >> 1", "u8[16]"},
      {"i32 << i8", "i32[16]"},
      {"i32 > P", "!pointers cannot be compared"},
      {"P == 0", "!pointers cannot be compared"},
      {"P == None", "!compared with None"},
      {"P + ar", "*f32[16]"},
      {"ar + P", "*f32[16]"},
      {"P - u8", "*f32[16]"},
      {"P + s_i64", "*f32"},
      {"P + 1.5", "!invalid operands of type *f32 and f32 for +"},
      {"P + P", "!cannot add pointers together"},
      {"P * 2", "!invalid operands of type *f32 and i32 for *"},
      {"-P", "!wrong type argument to unary minus (*f32)"},
      {"ar - P", "!invalid operands of type i32[16] and *f32 for -"},
      {"tl.where(m, P + ar, P)", "*f32[16]"},
      {"tl.where(m, P + ar, 0)", "!both be pointers"},
      {0},
  };
  check(rows);
}

static void broadcasting_and_casts(void **state) {
  static const Row rows[] = {
      {"ar[:, None] + ar[None, :]", "i32[16,16]"},
      {"ar[:, None] + ar", "i32[16,16]"},
      {"a2 + ar",
       "!Cannot make_shape_compatible: incompatible dimensions at index 1: 4 and 16, of i32[4,4] and i32[16]"},
      {"a2 + ar[:4]", "!only `:` and `None`"},
      {"ar[0]", "!only `:` and `None`"},
      {"ar[None]", "i32[1,16]"},
      {"ar[:, None, None]", "i32[16,1,1]"},
      {"ar[:, :]", "i32[16]"},
      {"s_i32[:, None]", "i32[1]"},
      {"s_i32[3:]", "!only `:` and `None`"},
      {"s_i32[None]", "i32[1]"},
      {"tl.broadcast_to(ar, (4, 16))", "!Cannot broadcast, rank mismatch: [16], [4, 16]"},
      {"tl.broadcast_to(ar[None, :], 4, 16)", "i32[4,16]"},
      {"tl.broadcast_to(s_f16, 4, 4)", "f16[4,4]"},
      {"tl.broadcast_to(a2, 8, 4)", "!Cannot broadcast, the expanded size of the tensor (8) must match the existing "
                                    "size (4) at non-singleton dimension 0: [4, 4], [8, 4]"},
      {"tl.broadcast(ar[:, None], ar)[1]", "i32[16,16]"},
      {"tl.broadcast(ar, s_f32)[1]", "f32[16]"},
      {"f32.to(tl.float16)", "f16[16]"},
      {"f32.to(tl.int1)", "i1[16]"},
      {"f32.to(tl.int32, bitcast=True)", "i32[16]"},
      {"f32.to(tl.int64, bitcast=True)",
       "!Cannot bitcast data-type of size 32 to data-type of size 64: f32[16] to i64"},
      {"f32.to(tl.float16, 'rtz')", "f16[16]"},
      {"f16.to(tl.float32, fp_downcast_rounding='rtz')", "!narrower float type only"},
      {"f32.to(tl.float16, True)", "!must be \"rtne\" or \"rtz\""},
      {"f32.to(tl.float8e5)", "fp8e5[16]"},
      {"e4.to(tl.float32)", "f32[16]"},
      {"i32.to(tl.float8e5)", "!cannot cast"},
      {"e5.to(tl.int32)", "!cannot cast"},
      {"i32.to('float32')", "!must be a dtype, not a string"},
      {"P.to(tl.int64)", "i64"},
      {"P.to(tl.int32)", "!cannot cast"},
      {"P.to(tl.float32)", "!cannot cast"},
      {"s_i64.to(tl.pointer_type(tl.float16))", "*f16"},
      {"tl.cast(3, tl.float16)", "f16"},
      {"tl.cast(P, tl.int1)", "i1"},
      {"i32.to(f32.dtype)", "f32[16]"},
      {"i32.to(P.dtype.element_ty)", "f32[16]"},
      {"i32.cast(tl.int8)", "i8[16]"},
      {0},
  };
  check(rows);
}

/* ---- the library, group by group --------------------------------------------------------------------------------- */

static void creation_and_shape(void **state) {
  static const Row rows[] = {
      {"tl.program_id(0)", "i32"},
      {"tl.num_programs(axis=1)", "i32"},
      {"tl.program_id(3)", "!program_id axis must be 0, 1, or 2 but got 3"},
      {"tl.program_id(S)", "!`axis` must be constexpr"},
      {"tl.arange(3, 19)", "i32[16]"},
      {"tl.arange(0, 17)", "!must be a power of 2"},
      {"tl.arange(4, 4)", "!arange's end argument must be greater than the start argument, but they are 4 and 4"},
      {"tl.arange(0, S)", "!arange's arguments must be of type tl.constexpr, but `end` is a run-time value (i32)"},
      {"tl.arange(16)", "!arange() missing 1 required positional argument: 'end'"},
      {"tl.arange(0, 2.0)", "!constexpr int"},
      {"tl.zeros((4, 4), tl.int1)", "i1[4,4]"},
      {"tl.zeros([], tl.float32)", "f32"},
      {"tl.full((3,), 0, tl.int32)", "!power of 2"},
      {"tl.full((2048, 1024), 0, tl.int32)", "!numel (2097152) exceeds triton maximum tensor numel (1048576)"},
      {"tl.full((4,), s_f32, tl.float16)", "f16[4]"},
      {"tl.full((4,), ar, tl.float16)", "!must be a number or a scalar"},
      {"tl.full((4,), 1.5, tl.int32)", "!is the float 1.5"},
      {"tl.full((4,), 255, tl.int8)", "i8[4]"},
      {"tl.full((4,), 300, tl.int8)", "i8[4]"},
      {"tl.full((4,), -1, tl.uint8)", "!out of range"},
      {"tl.full(4, 1.0, tl.float32)", "!must be a tuple or list"},
      {"tl.zeros((4,), 'float32')", "!must be a dtype, not a string"},
      {"tl.zeros((S,), tl.float32)",
       "!Shape element 0 must have type `constexpr[int]`, but it is a run-time value (i32)"},
      {"tl.zeros_like(f16)", "f16[16]"},
      {"tl.cat(i8, i8)", "i8[32]"},
      {"tl.cat(i8, i32)", "!one shape and type"},
      {"tl.to_tensor(2**31)", "u32"},
      {"tl.to_tensor(2**33)", "i64"},
      {"tl.to_tensor(1e-40)", "f64"},
      {"tl.to_tensor(True)", "i1"},
      {"tl.reshape(a2, 16)", "i32[16]"},
      {"tl.reshape(a2, (2, 2, 4))", "i32[2,2,4]"},
      {"tl.reshape(a2, 8)", "!number of elements"},
      {"tl.reshape(a2, -1)", "!power of 2"},
      {"a2.reshape(16)", "i32[16]"},
      {"a2.view([16])", "i32[16]"},
      {"tl.trans(a2)", "i32[4,4]"},
      {"tl.trans(ar)", "!tl.trans invoked with a 0- or 1-dimensional tensor: i32[16]"},
      {"tl.permute(a2, (1, 0))", "i32[4,4]"},
      {"tl.permute(a2, 0, 0)", "!must be a permutation"},
      {"a2.T", "i32[4,4]"},
      {"ar.T", "!rank 2"},
      {"tl.ravel(a2)", "i32[16]"},
      {"tl.join(ar, ar)", "i32[16,2]"},
      {"tl.join(s_i32, s_i32)", "i32[2]"},
      {"tl.join(i32, f32)", "!one element type"},
      {"tl.split(tl.join(i8, i8))[0]", "i8[16]"},
      {"tl.split(tl.join(s_i8, s_i8))[1]", "i8"},
      {"tl.split(ar)", "!must be 2"},
      {"tl.interleave(f16, f16)", "f16[32]"},
      {"tl.interleave(s_f16, s_f16)", "f16[2]"},
      {"tl.expand_dims(a2, (0, 1))", "i32[1,1,4,4]"},
      {"tl.expand_dims(a2, -1)", "i32[4,4,1]"},
      {"tl.expand_dims(a2, 5)", "!invalid axis 5. Expected -3 <= axis < 3"},
      {"tl.squeeze(ar[None, :], 0)", "i32[16]"},
      {"tl.unsqueeze(ar, 1)", "i32[16,1]"},
      {"tl.sum(a2, keep_dims=True).item()", "i32"},
      {"tl.gather(f32, i8, 0)", "f32[16]"},
      {"tl.gather(f32, f32, 0)", "!index must be an integer tensor, but it is f32[16]"},
      {"tl.gather(a2, ar, 0)", "!source and index tensors must have the same rank, but they are i32[4,4] and i32[16]"},
      {"tl.flip(a2, -1)", "i32[4,4]"},
      {"tl.flip(a2, 2)", "!`dim` must be in"},
      {"len(a2.shape)", "i32"},
      {"a2.numel", "i32"},
      {"tl.swizzle2d(s_i32, 2, s_i32, 8, 4)[1]", "i32"},
      {0},
  };
  check(rows);
}

static void memory(void **state) {
  static const Row rows[] = {
      {"tl.load(P)", "f32"},
      {"tl.load(P + ar)", "f32[16]"},
      {"tl.load(P + ar, mask=m[None, :])", "f32[1,16]"},
      {"tl.load(P + ar, mask=m, other=S)", "f32[16]"},
      {"tl.load(P + ar, mask=True)", "f32[16]"},
      {"tl.load(P + ar, other=1)", "!without `mask`"},
      {"tl.load(P + ar, mask=ar)", "!Mask must have boolean scalar type, but it is of type i32[16]"},
      {"tl.load(P, mask=m)", "!Mask argument cannot be block type if pointer argument is not a block: it is i1[16]"},
      {"tl.load(S)", "!Unsupported ptr type i32 in `tl.load`"},
      {"tl.load(f32)", "!Unsupported ptr type f32[16] in `tl.load`"},
      {"tl.load(P + ar, cache_modifier='.xx')", "!Cache modifier .xx not supported"},
      {"tl.load(P + ar, eviction_policy='evict')", "!Eviction policy evict not supported"},
      {"tl.load(P + ar, boundary_check=(0,))", "!`padding_option` or `boundary_check` argument is not supported for "
                                               "loading a tensor of pointers or loading a scalar"},
      {"tl.load((P + ar).to(tl.pointer_type(tl.int1)))", "i1[16]"},
      {"tl.load((P + ar).to(tl.pointer_type(tl.float8e5)), mask=m, other=0.0)", "fp8e5[16]"},
      {"tl.load(P, foo=1)", "!load() got an unexpected keyword argument 'foo'"},
      {"tl.load(P, maks=m)", "!load() got an unexpected keyword argument 'maks'"},
      {"tl.load()", "!load() missing 1 required positional argument: 'pointer'"},
      {"tl.load(P, pointer=P)", "!load() got multiple values for argument 'pointer'"},
      {"tl.load(tl.make_block_ptr(P, (S, 8), (8, 1), (0, 0), (4, 8), (1, 0)))", "f32[4,8]"},
      {"tl.load(tl.advance(tl.make_block_ptr(P, (S, s_i64), (8, 1), (0, 0), (4, 8), (1, 0)), (4, S)), "
       "boundary_check=(0, 1), padding_option='zero')",
       "f32[4,8]"},
      {"tl.load(tl.make_block_ptr(P, (S, 8), (8, 1), (0, 0), (4, 8), (0, 0)))", "!permutation"},
      {"tl.load(tl.make_block_ptr(P, (S, 8), (8,), (0, 0), (4, 8), (1, 0)))",
       "!Expected shape/strides/offsets/block_shape to have the same length: `strides` has 1, but `block_shape` has 2"},
      {"tl.load(tl.make_block_ptr(P, (S, 8), (8, 1), (0, 0), (4, 8), (1, 0)), boundary_check=(2,))", "!names dim 2"},
      {"tl.load(tl.make_block_ptr(P, (S, 8), (8, 1), (0, 0), (4, 8), (1, 0)), mask=m)",
       "!`mask` and `other` arguments cannot be specified for loading block pointers"},
      {"tl.load(tl.make_block_ptr(Pi, (S, 8), (8, 1), (0, 0), (4, 8), (1, 0)), padding_option='nan')",
       "!Padding option `nan` is not supported for integer block pointers, of i32"},
      {"tl.make_block_ptr(P, (S,), (1,), (0,), (4,), (0,)).dtype.element_ty.primitive_bitwidth", "i32"},
      {"tl.make_tensor_descriptor(P, [S, 8], [8, 1], [4, 8]).load([0, S])", "f32[4,8]"},
      {"tl.make_tensor_descriptor(P, [S, 8], [8, 1], [4, 8]).load([S, s_i64])",
       "!Block pointers only support 32 bit `offsets/block_shape`, and so do descriptors: `offsets[1]` is i64 scalar"},
      {"tl.make_tensor_descriptor(P, [S, 8], [8, S], [4, 8]).load([0, 0])",
       "!Tensor descriptor last dim must be 1 but got i32 scalar: the last of `strides`"},
      {"tl.make_tensor_descriptor(P, [S, 8], [8, 1], [4, 2]).load([0, 0])", "!at least 16 bytes"},
      {"tl.make_tensor_descriptor(P, [S, 8], [8, 1], [1, 8]).gather(ar, 0)", "f32[16,8]"},
      {"tl.load(tl.make_tensor_descriptor(P, [S, 8], [8, 1], [4, 8]))",
       "!Unsupported ptr type tensor descriptor in `tl.load`"},
      {"tl.make_tensor_descriptor(P, [S, 8], [8, 1], [4, 8]).shape[0]", "i32"},
      {"tl.make_tensor_descriptor(P, [S, 8], [8, 1], [4, 8]).strides[0]", "i64"},
      {"tl.atomic_add(P, 1.0)", "f32"},
      {"tl.atomic_add(P + ar, 1, mask=m, sem='relaxed', scope='cta')", "f32[16]"},
      {"tl.atomic_add(P, f32)", "!`val` is a block"},
      {"tl.atomic_add(P, 1.0, sem='foo')", "!Memory semantic foo not supported"},
      {"tl.atomic_add((P + ar).to(tl.pointer_type(tl.int16)), 1)", "!atomic_add does not support i16"},
      {"tl.atomic_and(P, 1)", "f32"},
      {"tl.atomic_max((P + ar).to(tl.pointer_type(tl.float16)), 1.0)", "!atomic_max does not support f16"},
      {"tl.atomic_cas(Pi, 0, 1)", "i32"},
      {"tl.atomic_cas(Pi, s_i64, 1)", "!`cmp` must be of the type"},
      {"tl.atomic_xchg(Pi + ar, 3)", "i32[16]"},
      {"(P + ar).atomic_add(f32)", "f32[16]"},
      {0},
  };
  check(rows);
}

static void products(void **state) {
#define Z(m, n, t) "tl.zeros((" #m ", " #n "), tl." #t ")"
  static const Row rows[] = {
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float16) ")", "f32[16,8]"},
      {"tl.dot(" Z(16, 32, bfloat16) ", " Z(32, 8, bfloat16) ", out_dtype=tl.float16)", "f32[16,8]"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float16) ", out_dtype=tl.float16)", "f16[16,8]"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float16) ", acc=" Z(16, 8, float16) ")",
       "!expected accumulator dtype f32, got f16"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float16) ", acc=" Z(16, 8, float16) ", out_dtype=tl.float16)",
       "f16[16,8]"},
      {"tl.dot(" Z(16, 8, float32) ", " Z(8, 8, float32) ")",
       "!Input shapes should have M >= 1, N >= 1 and K >= 16: they are f32[16,8] and f32[8,8]"},
      {"tl.dot(" Z(1, 16, int8) ", " Z(16, 1, int8) ")",
       "!Input shapes should have M >= 1, N >= 1 and K >= 32: they are i8[1,16] and i8[16,1]"},
      {"tl.dot(" Z(1, 16, float16) ", " Z(16, 1, float16) ")", "f32[1,1]"},
      {"tl.dot(" Z(16, 32, int8) ", " Z(32, 8, int8) ")", "i32[16,8]"},
      {"tl.dot(" Z(16, 32, float64) ", " Z(32, 8, float64) ")", "f64[16,8]"},
      {"tl.dot(" Z(16, 32, float8e5) ", " Z(32, 8, float8e4nv) ")", "f32[16,8]"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float32) ")", "!Both operands must be same dtype. Got f16 and f32"},
      {"tl.dot(" Z(16, 32, int32) ", " Z(32, 8, int32) ")", "!Unsupported lhs dtype i32"},
      {"tl.dot(" Z(16, 32, uint8) ", " Z(32, 8, uint8) ")", "!only int8 supported!"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(16, 8, float16) ")",
       "!input and other must have equal reduction dimensions, but they are f16[16,32] and f16[16,8]"},
      {"tl.dot(ar, ar)", "!equal ranks"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float16) ", " Z(16, 16, float32) ")",
       "!accumulator shape is incompatible: it is f32[16,16], and the product f32[16,8]"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float16) ", 0.0)", "!`acc` must be a tensor"},
      {"tl.dot(" Z(16, 32, float16) ", " Z(32, 8, float16) ", out_dtype=tl.bfloat16)",
       "!out_dtype=bfloat16 is unsupported. Please use out_dtype=float32/float16"},
      {"tl.dot(" Z(16, 32, float32) ", " Z(32, 8, float32) ", input_precision='IEEE')", "f32[16,8]"},
      {"tl.dot(" Z(16, 32, float32) ", " Z(32, 8, float32) ", input_precision='foo')",
       "!input_precision must be one of ("},
      {"tl.dot(tl.zeros((4, 16, 16), tl.float16), tl.zeros((4, 16, 32), tl.float16))", "f32[4,16,32]"},
      {"tl.dot(tl.zeros((2, 2, 16, 16), tl.float16), tl.zeros((2, 2, 16, 32), tl.float16))", "f32[2,2,16,32]"},
      {"tl.dot_scaled(" Z(16, 32, uint8) ", " Z(16, 2, uint8) ", 'e2m1', " Z(64, 16, uint8) ", " Z(16, 2,
                                                                                                   uint8) ", 'e5m2')",
       "f32[16,16]"},
      {"tl.dot_scaled(" Z(16, 64, float16) ", None, 'fp16', " Z(64, 16, float8e4nv) ", " Z(16, 2, uint8) ", 'e4m3')",
       "f32[16,16]"},
      {"tl.dot_scaled(" Z(16, 64, float16) ", None, 'fp32', " Z(64, 16, float8e4nv) ", None, 'e4m3')",
       "!Invalid float format: fp32"},
      {0},
  };
  check(rows);
}

static void math(void **state) {
  static const Row rows[] = {
      {"tl.exp(f32)", "f32[16]"},
      {"tl.exp(f64)", "f64[16]"},
      {"tl.exp(f16)", "!Expected dtype ['fp32', 'fp64'] but got f16[16]: `x` of tl.exp"},
      {"tl.math.rsqrt(i32)", "!Expected dtype ['fp32', 'fp64'] but got i32[16]: `x` of tl.rsqrt"},
      {"tl.exp(1.0)", "f32"},
      {"f32.sigmoid()", "f32[16]"},
      {"tl.sqrt_rn(f64)", "!Expected dtype ['fp32'] but got f64[16]: `x` of tl.sqrt_rn"},
      {"tl.abs(i8)", "i8[16]"},
      {"tl.abs(-1)", "i32"},
      {"tl.fdiv(f16, f16)", "f16[16]"},
      {"tl.fdiv(f16, f32)", "!of one type"},
      {"tl.fdiv(i32, f32)", "!both operands of fdiv must have floating scalar type, but they are i32[16] and f32[16]"},
      {"tl.div_rn(f32, 3.0)", "f32[16]"},
      {"tl.fma(f32, f16, 1.0)", "f32[16]"},
      {"tl.fma(i32, i32, i32)", "!must be floats"},
      {"tl.umulhi(u32, 7)", "u32[16]"},
      {"tl.umulhi(i8, i8)", "!Expected dtype ['int32', 'int64', 'uint32', 'uint64'] but got i8[16]: `x` of tl.umulhi"},
      {"tl.clamp(f16, 0.0, 1.0)", "f32[16]"},
      {"tl.clamp(i32, 0, 1)", "!Unexpected dtype i32[16]. Only floating point clamp is supported"},
      {"tl.clamp(f32, 0.0, 1.0, propagate_nan=tl.PropagateNan.ALL)", "f32[16]"},
      {"tl.cdiv(i8, 3)", "i8[16]"},
      {"tl.cdiv(S, 16)", "i32"},
      {"tl.zeros((tl.cdiv(7, 2),), tl.int8)", "i8[4]"},
      {"tl.where(i32, 1, 2)", "i32[16]"},
      {"tl.where(m[:, None], ar[None, :], 0.0)", "f32[16,16]"},
      {"tl.softmax(f16)", "f32[16]"},
      {"tl.softmax(bf16)", "f32[16]"},
      {"libdevice.tanh(f32)", "f32[16]"},
      {"libdevice.tanh(f16)", "!takes arguments of type (f32) or (f64)"},
      {"libdevice.pow(f32, 2)", "f32[16]"},
      {"libdevice.pow(f32, 2.0)", "f32[16]"},
      {"libdevice.pow(2, f32)", "!these are (i32, f32)"},
      {"libdevice.isnan(f32)", "i1[16]"},
      {"libdevice.llrint(f32)", "i64[16]"},
      {"tl.extra.cuda.libdevice.erf(f64)", "f64[16]"},
      {"tl.math.tanh(f32)", "f32[16]"},
      {"tl.exq(f32)", "!exq"},
      {"tl.add(i32, 1)", "i32[16]"},
      {"tl.mul(u32, 0xCD9E8D57)", "u32[16]"},
      {"triton_helpers.maximum(i32, 0)", "i32[16]"},
      {"triton_helpers.max2(f32[None, :], 1)", "f32[1]"},
      {"triton_helpers.any(m, 0)", "i1"},
      {"triton_helpers.div_floor_integer(i32, 3)", "i32[16]"},
      {"triton_helpers.max_with_index(f32, ar, 0)[1]", "i32"},
      {"triton_helpers.welford(f32, f32, f32, 0)[2]", "f32"},
      {"triton_helpers.promote_to_tensor(3)", "i32[1]"},
      {"triton_helpers.sort_with_index(f32, ar, None, 0)[1]", "i32[16]"},
      {0},
  };
  check(rows);
}

static void reductions_and_scans(void **state) {
  static const Row rows[] = {
      {"tl.sum(i1)", "u32"},
      {"tl.sum(i8, 0)", "i32"},
      {"tl.sum(u16, 0)", "u32"},
      {"tl.sum(f16, 0)", "f16"},
      {"tl.sum(bf16, 0)", "bf16"},
      {"tl.sum(i64, 0)", "i64"},
      {"tl.sum(i1, dtype=tl.int1)", "i1"},
      {"tl.sum(f16, 0, dtype=tl.float32)", "f32"},
      {"tl.max(f16, 0)", "f32"},
      {"tl.max(bf16, 0)", "f32"},
      {"tl.min(u8, 0)", "i32"},
      {"tl.max(f16, 0, return_indices=True)[0]", "f16"},
      {"tl.max(bf16, 0, return_indices=True)[0]", "f32"},
      {"tl.max(i8, 0, return_indices=True)[1]", "i32"},
      {"tl.max(ar, return_indices=True)[1]", "!`axis` must be given"},
      {"tl.argmax(a2, axis=1, keep_dims=True)", "i32[4,1]"},
      {"tl.argmin(f64, 0)", "i32"},
      {"tl.argmax(a2)", "!argmax() missing 1 required positional argument: 'axis'"},
      {"tl.xor_sum(f32, 0)", "!xor_sum only supported for integers: `input` is f32[16]"},
      {"tl.reduce_or(i8, 0)", "i8"},
      {"tl.sum(a2, axis=-1)", "i32[4]"},
      {"tl.sum(a2, axis=2)", "!invalid axis 2. Expected -2 <= axis < 2"},
      {"tl.sum(a2, keep_dims=True)", "i32[1,1]"},
      {"tl.sum(a2, axis=S)", "!`axis` must be constexpr"},
      {"tl.sum(S)", "!is a scalar"},
      {"tl.reduce(f32, 0, _add)", "f32"},
      {"tl.reduce((i32, f32), 0, _pair)[1]", "f32"},
      {"tl.reduce((i32, i32), 0, _add)", "!"},
      {"tl.reduce(bf16, 0, _max)", "!must return what it gets"},
      {"tl.reduce(f32, 0, 3)", "!`combine_fn` of tl.reduce must be a jit function, but it is 3"},
      {"tl.associative_scan((i32, f32), 0, _pair)[0]", "i32[16]"},
      {"tl.associative_scan(a2, 1, _add, reverse=True)", "i32[4,4]"},
      {"tl.cumsum(i8)", "i32[16]"},
      {"tl.cumsum(bf16)", "f32[16]"},
      {"tl.cumsum(f16)", "f16[16]"},
      {"tl.cumprod(i8)", "i8[16]"},
      {"tl.cumprod(bf16)", "f32[16]"},
      {"tl.sort(f16)", "f16[16]"},
      {"tl.sort(a2, 0)", "!only minor dimension is currently supported"},
      {"tl.topk(f16, 4)", "f32[4]"},
      {"tl.topk(f16, 16)", "f16[16]"},
      {"tl.topk(ar, 3)", "i32[2]"},
      {"tl.topk(ar, 31)", "i32[16]"},
      {"tl.topk(ar, 32)", "!topk: k must not exceed the size of the selected dimension (16)"},
      {"tl.histogram(i8, 32)", "i32[32]"},
      {"tl.histogram(i32, 16, mask=m)", "i32[16]"},
      {"tl.histogram(i32, 17)", "!`num_bins` must be a power of 2"},
      {"tl.histogram(f32, 16)", "!histogram only supports integer input, but it is f32[16]"},
      {"tl.rand(0, ar)", "f32[16]"},
      {"tl.randint(s_i64, i64)", "u32[16]"},
      {"tl.randn4x(42, ar)[2]", "f32[16]"},
      {"tl.rand(0, 5)", "!must be a tensor"},
      {"tl.rand(s_f32, ar)", "!seed must be an integer"},
      {"tl.philox(1, u64, u64, u64, u64)[3]", "u64[16]"},
      {"tl.map_elementwise(_relu, f32)", "f32[16]"},
      {"tl.multiple_of(ar, 4)", "i32[16]"},
      {"tl.max_contiguous(a2, 4)",
       "!Shape of input to max_contiguous does not match the length of values: i32[4,4] and 1"},
      {"tl.multiple_of(ar, S)", "!values element 0 must have type `constexpr`: it is a run-time value (i32)"},
      {0},
  };
  check(rows);
}

/* ---- what it lowers to ------------------------------------------------------------------------------------------- */

static int count_ops(Block *b, OpCode code) {
  int n = 0;
  for (Op *op = b->first; op; op = op->next) {
    n += op->code == code;
    for (int i = 0; i < 2; i++)
      if (op->body[i]) n += count_ops(op->body[i], code);
  }
  return n;
}

static Op *find_op(Block *b, OpCode code) {
  for (Op *op = b->first; op; op = op->next)
    if (op->code == code) return op;
  return NULL;
}

static Func *must_compile(Context *cx, const char *statement, bool debug) {
  Func *f = compile(cx, statement, debug);
  if (!f) fprintf(stderr, "%s\n  %s\n", statement, first_error(cx));
  assert_non_null(f);
  return f;
}

static void builtin_combines_are_one_operation(void **state) {
  static const struct {
    const char *statement;
    OpCode reduce, body;
  } rows[] = {
      {"tl.device_print('r', tl.sum(f32, 0))", OP_REDUCE, OP_ADD},
      {"tl.device_print('r', tl.max(f32, 0))", OP_REDUCE, OP_MAX},
      {"tl.device_print('r', tl.min(i32, 0))", OP_REDUCE, OP_MIN},
      {"tl.device_print('r', tl.xor_sum(i32, 0))", OP_REDUCE, OP_XOR},
      {"tl.device_print('r', tl.cumsum(f32, 0))", OP_SCAN, OP_ADD},
      {"tl.device_print('r', tl.cumprod(f32, 0))", OP_SCAN, OP_MUL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Context *cx = context_create();
    Op *op = find_op(must_compile(cx, rows[i].statement, false)->body, rows[i].reduce);
    assert_non_null(op);
    assert_int_equal(op->body[0]->first->code, rows[i].body);
    assert_int_equal(op->body[0]->first->next->code, OP_YIELD);
    assert_int_equal(op->axis, 0);
    context_destroy(cx);
  }
}

static void stores_and_asserts(void **state) {
  Context *cx = context_create();
  Op *store = find_op(
      must_compile(cx, "tl.store(P + ar, i32, mask=S > 3, cache_modifier='.cs', eviction_policy='evict_first')", false)
          ->body,
      OP_STORE);
  assert_non_null(store);
  assert_int_equal(store->in_count, 3);
  assert_int_equal(store->in[1]->type->dtype, DT_F32);
  assert_int_equal(store->in[2]->type->rank, 1);
  assert_int_equal(store->cache, CACHE_CS);
  assert_int_equal(store->evict, EVICT_FIRST);
  context_destroy(cx);

  cx = context_create();
  assert_int_equal(find_op(must_compile(cx, "tl.store(P + ar, f32)", false)->body, OP_STORE)->evict, EVICT_DEFAULT);
  context_destroy(cx);

  cx = context_create(); /* a number goes into int1 memory as the byte of its int8 */
  store = find_op(must_compile(cx, "tl.store((P + ar).to(tl.pointer_type(tl.int1)), i32)", false)->body, OP_STORE);
  assert_int_equal(store->in[1]->type->dtype, DT_I8);
  context_destroy(cx);

  static const Row wrong[] = {
      {"tl.store(P, f32)", "Value argument cannot be block type if pointer argument is not a block"},
      {"tl.store(P + ar, a2)", "Cannot make_shape_compatible: incompatible dimensions at index 1: 16 and 4"},
      {"tl.store(P + ar[:, None], ar[None, :])", "Expected pointer argument to have shape [16, 16] but got [16, 1]"},
      {"tl.store(P + ar, f32, mask=i32)", "Mask must have boolean scalar type"},
      {"tl.store(P + ar, f32, boundary_check=(0,))",
       "`boundary_check` argument is not supported for storing a tensor of pointers"},
      {"tl.static_assert(S > 1)", "Assertion condition could not be determined at compile-time"},
      {"tl.static_assert(1 > 2, 'one is not greater')", "static assertion failed: one is not greater"},
      {"tl.device_print(3)", "must be a string"},
      {"tl.device_print('a', 'b')", "only the first argument"},
      {"x = tl.inline_asm_elementwise('mov', '=r,r', 3, tl.int32, True, 1)", "must be a list of tensors"},
      {"tl.extra.cuda.convert_custom_float8_sm80(f32, tl.float8e5)", "not here by its name"},
      {"tl.storr(P, 1)", "storr"},
      {"len(ar)", "object of type 'tensor' has no len()"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    cx = context_create();
    Func *f = compile(cx, wrong[i].expr, false);
    if (f || !strstr(first_error(cx), wrong[i].want))
      fprintf(stderr, "%s\n  wanted %s\n  got    %s\n", wrong[i].expr, wrong[i].want, first_error(cx));
    assert_null(f);
    assert_non_null(strstr(first_error(cx), wrong[i].want));
    context_destroy(cx);
  }

  for (int debug = 0; debug < 2; debug++) {
    cx = context_create();
    assert_int_equal(
        count_ops(must_compile(cx, "tl.device_assert(ar < S, 'in range', mask=m)", debug)->body, OP_ASSERT), debug);
    context_destroy(cx);
  }
}

static void debug_checks_for_overflow(void **state) {
  static const struct {
    const char *statement;
    int asserts;
  } rows[] = {{"x = i32 * 3 + s_i8", 2}, {"x = i64 * 3", 0},        {"x = f32 + 1", 0},
              {"x = P + i32", 0},        {"x = u8 - 1", 1},         {"x = -i32", 0},
              {"x = i32 // 3 & 5", 0},   {"x = tl.add(i32, 1)", 1}, {"x = tl.mul(i32, 3, sanitize_overflow=False)", 0},
              {"x = tl.randn(7, ar)", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int debug = 0; debug < 2; debug++) {
      Context *cx = context_create();
      Func *f = must_compile(cx, rows[i].statement, debug);
      int preamble = 0; /* "ar + S", once for each block that is made */
      for (int d = 0; d < DTYPES; d++) preamble += mentions(rows[i].statement, dtypes[d][0]);
      assert_int_equal(count_ops(f->body, OP_ASSERT), debug ? rows[i].asserts + preamble : 0);
      context_destroy(cx);
    }
}

static void prints_in_triton_form(void **state) {
  static const Row rows[] = {{"tl.device_print('pid', S)", " pid: "},
                             {"tl.device_print('pid: ', S)", " pid: "},
                             {"tl.device_print('hello')", " hello"},
                             {"print('x', S, f32)", " x: "}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Context *cx = context_create();
    Op *op = find_op(must_compile(cx, rows[i].expr, false)->body, OP_PRINT);
    assert_non_null(op);
    assert_string_equal(op->text, rows[i].want);
    context_destroy(cx);
  }
}

/* A block pointer's checks: two comparisons a checked dim, none for the others, and 64-bit offsets. */
static void block_pointers_check_what_is_asked(void **state) {
  for (int checked = 0; checked < 3; checked++) {
    Context *cx = context_create();
    const char *check = checked == 0 ? "" : checked == 1 ? ", boundary_check=(1,)" : ", boundary_check=(0, 1)";
    char statement[256];
    snprintf(statement, sizeof statement,
             "tl.device_print('r', tl.load(tl.make_block_ptr(P, (S, S), (S, 1), (S, 0), (4, 8), (1, 0))%s))", check);
    Func *f = must_compile(cx, statement, false);
    Op *load = find_op(f->body, OP_LOAD);
    assert_int_equal(load->in_count, checked ? 2 : 1);
    assert_int_equal(count_ops(f->body, OP_CMP) - 1, 2 * checked); /* the preamble has one */
    assert_int_equal(load->in[0]->def->in[1]->type->dtype, DT_I64);
    context_destroy(cx);
  }
}

static void the_table_lists_the_library(void **state) {
  int n;
  const LanguageName *rows = front_language_table(&n);
  bool load = false, asm_ = false, nowhere = false;
  assert_true(n > 350);
  for (int i = 0; i < n; i++) {
    assert_non_null(rows[i].group);
    assert_non_null(rows[i].name);
    for (int k = i + 2; k < n; k++) /* a group stands together */
      if (strcmp(rows[i].group, rows[i + 1].group)) assert_string_not_equal(rows[i].group, rows[k].group);
    load |= !strcmp(rows[i].name, "tl.load") && rows[i].cpu && rows[i].interp && rows[i].sim && rows[i].cuda;
    asm_ |=
        !strcmp(rows[i].name, "tl.extra.cuda.smid") && !rows[i].cpu && !rows[i].interp && !rows[i].sim && rows[i].cuda;
    nowhere |= !strcmp(rows[i].name, "tl.extra.cuda.convert_custom_float8_sm70") && !rows[i].cuda;
  }
  assert_true(load);
  assert_true(asm_);
  assert_true(nowhere);
  assert_ptr_equal(front_language_table(&n), rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(promotion),
      cmocka_unit_test(operators),
      cmocka_unit_test(broadcasting_and_casts),
      cmocka_unit_test(creation_and_shape),
      cmocka_unit_test(memory),
      cmocka_unit_test(products),
      cmocka_unit_test(math),
      cmocka_unit_test(reductions_and_scans),
      cmocka_unit_test(builtin_combines_are_one_operation),
      cmocka_unit_test(stores_and_asserts),
      cmocka_unit_test(debug_checks_for_overflow),
      cmocka_unit_test(prints_in_triton_form),
      cmocka_unit_test(block_pointers_check_what_is_asked),
      cmocka_unit_test(the_table_lists_the_library),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
