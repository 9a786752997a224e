/* The lowering of what moves data between threads (convert_layout, reduce, scan, map, sort, gather, histogram, dot): a
 * kernel of one operation on random inputs is run by the interpreter and, lowered, by the simulator, which reports
 * races and reads of unwritten shared memory. What they write must be the same bytes: numbers are small integers where
 * sums round.
 *
 * Each kernel is lowered with the layouts that layout_choose gives it, and with random ones: operands and results of
 * every whole-tile operation are moved through layouts drawn here, some with vectors that are sums of index bits, some
 * with copies.
 */
#include "gpu/gpu.h"
#include "layout/layout.h"
#include "unit/interp/test_interp_kit.h"

enum { MOST = 8 };

static uint64_t seed = 1;
static uint32_t below(uint32_t n) { return (uint32_t)(kit_random(&seed) >> 33) % n; }
static int log2_of(int64_t n) { return n > 1 ? 63 - __builtin_clzll((unsigned long long)n) : 0; }

/* ---- a kernel ---------------------------------------------------------------------------------------------------- */

typedef struct Tensor {
  Dtype dtype;
  int rank;
  int shape[4];
} Tensor;

typedef struct Kernel {
  Buf body;
  Tensor in[MOST], out[MOST];
  int in_count, out_count;
  const char *out_name[MOST];
  int range[MOST]; /* of input i: numbers in [-range, range]; 0: any bits; negative: in [0, -range) */
  int num_warps;
  int shared_bytes; /* of the target; 0: its own */
} Kernel;

static int64_t numel(const Tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->shape[i];
  return n;
}

static const char *type_text(const Tensor *t, char out[64]) {
  int n = snprintf(out, 64, "%s", dtype_name(t->dtype));
  for (int i = 0; i < t->rank; i++) n += snprintf(out + n, (size_t)(64 - n), "%s%d", i ? "," : "[", t->shape[i]);
  if (t->rank) snprintf(out + n, (size_t)(64 - n), "]");
  return out;
}

static const char *shape_text(const Tensor *t, const char *elem, char out[64]) {
  int n = snprintf(out, 64, "%s", elem);
  for (int i = 0; i < t->rank; i++) n += snprintf(out + n, (size_t)(64 - n), "%s%d", i ? "," : "[", t->shape[i]);
  if (t->rank) snprintf(out + n, (size_t)(64 - n), "]");
  return out;
}

/* %<name>_p: pointers to each element of the array that argument %<array> points to. */
static void write_pointers(Buf *b, const Tensor *t, const char *array, const char *name) {
  char text[64], elem[16];
  int n = (int)numel(t);
  buf_printf(b, "  %%%s_i = arange {start=0, end=%d} : i32[%d]\n", name, n, n);
  buf_printf(b, "  %%%s_f = reshape %%%s_i : %s\n", name, name, shape_text(t, "i32", text));
  snprintf(elem, sizeof elem, "*%s", dtype_name(t->dtype));
  buf_printf(b, "  %%%s_s = splat %%%s : %s\n", name, array, shape_text(t, elem, text));
  buf_printf(b, "  %%%s_p = addptr %%%s_s, %%%s_f : %s\n", name, name, name, text);
}

static char *kernel_text(const Kernel *k) {
  Buf b = {0};
  char text[64], name[16], array[16];
  buf_puts(&b, "kernel @k(");
  for (int i = 0; i < k->in_count + k->out_count; i++) {
    const Tensor *t = i < k->in_count ? &k->in[i] : &k->out[i - k->in_count];
    buf_printf(&b, "%s%%p%d: *%s {divisible=16}", i ? ", " : "", i, dtype_name(t->dtype));
  }
  buf_puts(&b, ") {\n");
  for (int i = 0; i < k->in_count; i++) {
    snprintf(name, sizeof name, "x%d", i);
    snprintf(array, sizeof array, "p%d", i);
    if (k->in[i].rank) write_pointers(&b, &k->in[i], array, name);
    buf_printf(&b, "  %%x%d = load %%%s%s : %s\n", i, k->in[i].rank ? name : array, k->in[i].rank ? "_p" : "",
               type_text(&k->in[i], text));
  }
  buf_puts(&b, k->body.at);
  for (int i = 0; i < k->out_count; i++) {
    snprintf(name, sizeof name, "o%d", i);
    snprintf(array, sizeof array, "p%d", k->in_count + i);
    if (k->out[i].rank) write_pointers(&b, &k->out[i], array, name);
    buf_printf(&b, "  store %%%s%s, %%%s\n", k->out[i].rank ? name : array, k->out[i].rank ? "_p" : "", k->out_name[i]);
  }
  buf_puts(&b, "}\n");
  return b.at;
}

static void fill(const Tensor *t, int range, char *to) {
  int bytes = dtype_bytes(t->dtype);
  for (int64_t i = 0; i < numel(t); i++, to += bytes) {
    uint64_t bits = kit_random(&seed);
    if (range == 0 && t->dtype != DT_I1) {
      if (below(8) == 0) bits = 0;
      memcpy(to, &bits, (size_t)bytes);
      continue;
    }
    int v = range < 0 ? (int)(bits % (uint64_t)-range) : (int)(bits % (uint64_t)(2 * range + 1)) - range;
    if (t->dtype == DT_I1) dtype_store_int(DT_I1, to, v & 1);
    else if (dtype_is_float(t->dtype)) dtype_store_float(t->dtype, to, v);
    else dtype_store_int(t->dtype, to, v);
  }
}

/* ---- random layouts ---------------------------------------------------------------------------------------------- */

/* Any element somewhere. inside: bits of the index along an axis, or 0: no vector has bits of both kinds. single: one
 * bit a vector. */
static const Layout *random_layout(Context *cx, const Type *t, int num_warps, uint32_t inside, bool single) {
  int bits = log2_of(type_numel(t)), warp_bits = log2_of(num_warps), threads = 5 + warp_bits;
  uint32_t vectors[F2_MAX];
  for (int i = 0; i < bits; i++) vectors[i] = 1u << i;
  for (int i = bits - 1; i > 0; i--) {
    int j = (int)below((uint32_t)i + 1);
    uint32_t swap = vectors[i];
    vectors[i] = vectors[j];
    vectors[j] = swap;
  }
  if (!single && below(2))
    for (int n = 0; n < 2 * bits; n++) {
      int i = (int)below((uint32_t)bits), j = (int)below((uint32_t)bits);
      if (i != j && !(vectors[i] & inside) == !(vectors[j] & inside)) vectors[i] ^= vectors[j];
    }
  /* at most 128 registers where that can be */
  int used = bits < threads ? bits : threads, least = bits > 7 ? bits - 7 : 0;
  if (used > least && below(2)) used = (least < used ? least : used) + (int)below((uint32_t)(used - least) + 1);
  if (bits - used > 7 && used < threads) used = bits - 7 < threads ? bits - 7 : threads;
  Layout l = {.reg_bits = bits - used, .lane_bits = 5, .warp_bits = warp_bits, .out_bits = bits};
  memcpy(l.basis, vectors, sizeof *vectors * (size_t)l.reg_bits);
  int slots[F2_MAX];
  for (int i = 0; i < threads; i++) slots[i] = i;
  bool in_order = below(2);
  for (int i = threads - 1; i > 0 && !in_order; i--) {
    int j = (int)below((uint32_t)i + 1), swap = slots[i];
    slots[i] = slots[j];
    slots[j] = swap;
  }
  for (int i = 0; i < used; i++) l.basis[l.reg_bits + slots[i]] = vectors[l.reg_bits + i];
  return layout_make(cx, &l);
}

static Value *moved(Func *f, Builder *b, Value *v, const Layout *to) {
  Op *op = build_op(b, OP_CONVERT_LAYOUT, 1, &v, 1, &v->type);
  op->out[0]->layout = to;
  return op->out[0];
}

typedef struct Draw {
  Func *f;
  int num_warps;
  VEC(Op *) ops;
} Draw;

static void collect(Op *op, void *arg) {
  Draw *d = arg;
  switch (op->code) {
    case OP_REDUCE:
    case OP_SCAN:
    case OP_MAP:
    case OP_SORT:
    case OP_GATHER:
    case OP_HISTOGRAM:
    case OP_DOT:
    case OP_ADD:
      if (op->in[0]->type->rank && op->in[0]->layout) vec_push(d->f->cx->arena, &d->ops, op);
    default: break;
  }
}

static void use_instead(Op *op, void *arg) {
  Value **v = arg;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i] == v[0]) op->in[i] = v[1];
}

static void randomize(Func *f, int num_warps) {
  Draw d = {.f = f, .num_warps = num_warps};
  tile_walk(f->body, collect, &d);
  for (int i = 0; i < d.ops.n; i++) {
    Op *op = d.ops.at[i];
    const Type *t = op->in[0]->type;
    bool axis = op->code == OP_REDUCE || op->code == OP_SCAN || op->code == OP_SORT;
    uint32_t inside = axis ? layout_dim_mask(t, op->code == OP_SORT ? t->rank - 1 : (int)op->axis) : 0;
    bool any = below(8) == 0; /* what the rules forbid is moved to what they allow */
    bool shares = axis || op->code == OP_MAP || op->code == OP_ADD;
    const Layout *common =
        random_layout(f->cx, t, num_warps, any ? 0 : inside, (op->code == OP_SCAN || op->code == OP_SORT) && !any);
    Builder b = {.func = f, .block = op->block, .before = op, .span = op->span};
    for (int k = 0; k < op->in_count; k++)
      if (op->code != OP_DOT || k < 2 ||
          below(2)) /* or the accumulator stays as it was chosen: for tensor cores, it may be */
        op->in[k] =
            moved(f, &b, op->in[k], shares ? common : random_layout(f->cx, op->in[k]->type, num_warps, 0, false));
    b.before = op->next;
    for (int k = 0; k < op->out_count; k++) {
      Value *out = op->out[k];
      if (!out->type->rank || (op->code == OP_DOT && below(2))) continue;
      const Layout *was = out->layout;
      out->layout = !shares                 ? random_layout(f->cx, out->type, num_warps, 0, below(2))
                    : op->code == OP_REDUCE ? layout_slice(f->cx, t, common, (int)op->axis)
                                            : common;
      Value *back = moved(f, &b, out, was);
      tile_walk(f->body, use_instead, (Value *[]){out, back});
      back->def->in[0] = out;
    }
  }
}

/* ---- both ways --------------------------------------------------------------------------------------------------- */

static NORETURN void die(const char *what, const char *ir, Context *cx, const LaneFunc *lane) {
  Buf b = {0};
  if (cx) diags_print(&b, cx, false);
  fprintf(stderr, "%s\n%s\n%s\n", what, b.at ? b.at : "", ir);
  buf_destroy(&b);
  if (lane && getenv("NEREID_TEST_VERBOSE")) {
    lane_print(&b, lane, false);
    fprintf(stderr, "%s\n", b.at);
    buf_destroy(&b);
  }
  fail_msg("%s", what);
  abort();
}

static void compare(const Kernel *k, const char *ir, int layouts, char **expected, char *const *in) {
  Context *cx = context_create();
  LaneFunc *volatile lane = NULL;
  GpuTarget target = *gpu_target_find("sm_90a");
  if (k->shared_bytes) target.shared_bytes = k->shared_bytes;
  GpuOptions o = {.target = &target, .verify = true};
  bool register_limited = below(2);
  if (context_try(cx)) {
    Func *f = tile_parse(cx, source_from_text(cx, "k.ir", ir, strlen(ir)));
    f->num_warps = k->num_warps;
    tile_optimize(f, NULL, NULL, true);
    layout_choose(f, k->num_warps, true);
    if (layouts) randomize(f, k->num_warps);
    lane = gpu_lower(f, &o, register_limited);
    lane_verify(lane, "lower");
    lane_dce(lane);
    if (register_limited) lane_rematerialize(lane);
    gpu_allocate_shared(lane, &o);
    lane_verify(lane, "shared");
    context_end_try(cx);
  } else {
    die("does not compile", ir, cx, lane);
  }
  uint64_t args[2 * MOST];
  char *out[MOST];
  for (int i = 0; i < k->in_count; i++) args[i] = (uint64_t)(uintptr_t)in[i];
  for (int i = 0; i < k->out_count; i++) {
    out[i] = calloc((size_t)numel(&k->out[i]), 8);
    args[k->in_count + i] = (uint64_t)(uintptr_t)out[i];
  }
  int32_t grid[3] = {1, 1, 1};
  LaneSimFault fault = {0};
  if (!lane_sim_run(lane, args, &(LaneSimOptions){.grid = grid, .begin = 0, .end = 1}, &fault)) {
    char text[400];
    snprintf(text, sizeof text, "num_warps %d, layouts %d, thread %d: %s", k->num_warps, layouts, fault.thread,
             fault.message);
    die(text, ir, NULL, lane);
  }
  for (int i = 0; i < k->out_count; i++) {
    int bytes = dtype_bytes(k->out[i].dtype);
    for (int64_t e = 0; e < numel(&k->out[i]); e++) {
      const char *want = expected[i] + e * bytes, *got = out[i] + e * bytes;
      if (!memcmp(want, got, (size_t)bytes)) continue;
      char text[200];
      snprintf(text, sizeof text, "num_warps %d, layouts %d: output %d, element %lld is %g, not %g", k->num_warps,
               layouts, i, (long long)e, dtype_load_float(k->out[i].dtype, got),
               dtype_load_float(k->out[i].dtype, want));
      die(text, ir, NULL, lane);
    }
    free(out[i]);
  }
  context_destroy(cx);
}

/* Frees the kernel's body. tries: how many times with random layouts, besides the chosen ones. */
static void check(Kernel *k, int tries) {
  char *ir = kernel_text(k), *expected[MOST], *in[MOST];
  Kit *kit = kit_open(ir);
  for (int i = 0; i < k->in_count; i++) {
    size_t bytes = (size_t)numel(&k->in[i]) * 8;
    in[i] = calloc(bytes + 16, 1);
    fill(&k->in[i], k->range[i], in[i]);
    kit_array(kit, "in", (size_t)(numel(&k->in[i]) * dtype_bytes(k->in[i].dtype)), in[i]);
  }
  for (int i = 0; i < k->out_count; i++)
    expected[i] = kit_array(kit, "out", (size_t)(numel(&k->out[i]) * dtype_bytes(k->out[i].dtype)), NULL);
  if (!kit_run(kit)) die(kit->fault.message, ir, NULL, NULL);
  for (int i = 0; i <= tries; i++) compare(k, ir, i, expected, in);
  for (int i = 0; i < k->in_count; i++) free(in[i]);
  kit_close(kit);
  free(ir);
  buf_destroy(&k->body);
}

/* ---- random shapes ----------------------------------------------------------------------------------------------- */

static Tensor random_tensor(Dtype d, int most_bits) {
  Tensor t = {.dtype = d, .rank = 1 + (int)below(4)};
  int bits = (int)below((uint32_t)most_bits + 1);
  for (int i = 0; i < t.rank; i++) t.shape[i] = 1;
  for (int i = 0; i < bits; i++) t.shape[below((uint32_t)t.rank)] *= 2;
  return t;
}

static Tensor without_axis(Tensor t, int axis) {
  for (int i = axis; i + 1 < t.rank; i++) t.shape[i] = t.shape[i + 1];
  t.rank--;
  return t;
}

static int random_warps(void) { return 1 << below(6); }

static const Dtype integers[] = {DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64, DT_U64};
static const Dtype all_types[] = {DT_I1,     DT_I8,      DT_U8,  DT_I16,  DT_U16,    DT_I32,
                                  DT_U32,    DT_I64,     DT_U64, DT_F8E5, DT_F8E4NV, DT_F8E4B15,
                                  DT_F8E4B8, DT_F8E5B16, DT_F16, DT_BF16, DT_F32,    DT_F64};
#define ANY_OF(a) (a)[below(sizeof(a) / sizeof *(a))]

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static void convert_layouts(void **state) {
  for (int i = 0; i < 250; i++) {
    Kernel k = {.in_count = 1, .out_count = 1, .num_warps = random_warps(), .range = {0}, .out_name = {"r"}};
    Dtype d = i % 2 ? ANY_OF(integers) : DT_I1;
    k.in[0] = k.out[0] = random_tensor(d, i % 10 == 0 ? 14 : 10);
    if (i % 3 == 0) k.shared_bytes = 8192;
    char text[64];
    /* moved before and after by randomize() */
    buf_printf(&k.body, "  %%r = add %%x0, %%x0 : %s\n", type_text(&k.in[0], text));
    check(&k, 4);
  }
}

/* A body on operands of dtype d. Returns how many operands it takes. */
static int write_body(Buf *b, Dtype d, int which) {
  const char *t = dtype_name(d);
  static const char *const plain[] = {"add", "max", "min", "mul", "xor", "and", "or"};
  if (which < 7) {
    buf_printf(b, "do (%%a: %s, %%b: %s) {\n    %%c = %s %%a, %%b : %s\n    yield %%c\n  }\n", t, t, plain[which], t);
    return 1;
  }
  if (which == 7) { /* keeps the first: a sequence's first element, or, as a scan, copies it everywhere */
    buf_printf(b, "do (%%a: %s, %%b: %s) {\n    yield %%a\n  }\n", t, t);
    return 1;
  }
  if (which == 8) { /* the last that is not zero */
    buf_printf(b,
               "do (%%a: %s, %%b: %s) {\n    %%z = const {value=0} : %s\n    %%n = cmp %%b, %%z {pred=ne} : i1\n"
               "    %%c = select %%n, %%b, %%a : %s\n    yield %%c\n  }\n",
               t, t, t, t);
    return 1;
  }
  if (which == 9) { /* x -> a x + b, one after the other */
    buf_printf(b,
               "do (%%a: %s, %%b: %s, %%c: %s, %%d: %s) {\n    %%e = mul %%a, %%c : %s\n    %%f = mul %%b, %%c : %s\n"
               "    %%g = add %%f, %%d : %s\n    yield %%e, %%g\n  }\n",
               t, t, t, t, t, t, t);
    return 2;
  }
  if (which == 10) { /* the largest and where it is, the first of equals */
    buf_printf(
        b,
        "do (%%a: %s, %%i: %s, %%b: %s, %%j: %s) {\n    %%gt = cmp %%a, %%b {pred=gt} : i1\n    %%eq = cmp %%a, %%b "
        "{pred=eq} : i1\n"
        "    %%lt = cmp %%i, %%j {pred=lt} : i1\n    %%both = and %%eq, %%lt : i1\n    %%first = or %%gt, %%both : i1\n"
        "    %%v = select %%first, %%a, %%b : %s\n    %%k = select %%first, %%i, %%j : %s\n    yield %%v, %%k\n  }\n",
        t, t, t, t, t, t);
    return 2;
  }
  buf_printf(
      b, /* the same by a branch */
      "do (%%a: %s, %%i: %s, %%b: %s, %%j: %s) {\n    %%gt = cmp %%a, %%b {pred=gt} : i1\n    %%eq = cmp %%a, %%b "
      "{pred=eq} : i1\n"
      "    %%lt = cmp %%i, %%j {pred=lt} : i1\n    %%both = and %%eq, %%lt : i1\n    %%first = or %%gt, %%both : i1\n"
      "    %%v, %%k = if %%first : %s, %s do () {\n      yield %%a, %%i\n    } do () {\n      yield %%b, %%j\n    }\n  "
      "  yield %%v, %%k\n  }\n",
      t, t, t, t, t, t);
  return 2;
}

static void reduce_or_scan(bool scan, int count) {
  for (int i = 0; i < count; i++) {
    Kernel k = {.num_warps = random_warps()};
    Dtype d = i % 12 == 0 ? DT_I1 : i % 3 ? ANY_OF(integers) : i % 2 ? DT_F32 : DT_F64;
    int which = (int)below(d == DT_I1 ? 8 : 12);
    if (i % 5 == 0) k.shared_bytes = 16384;
    if (dtype_is_float(d) && ((which >= 3 && which <= 6) || which == 8 || which == 9)) which = 0;
    Tensor t = random_tensor(d, i % 10 == 0 ? 13 : 9);
    int axis = (int)below((uint32_t)t.rank);
    Buf body = {0};
    int n = write_body(&body, d, which);
    char text[64];
    buf_printf(&k.body, "  %%r0%s = %s %%x0%s {axis=%d%s} : ", n == 2 ? ", %r1" : "", scan ? "scan" : "reduce",
               n == 2 ? ", %x1" : "", axis, scan && below(2) ? ", reverse=1" : "");
    static const char *const names[] = {"r0", "r1"};
    for (int j = 0; j < n; j++) {
      k.in[j] = t;
      k.range[j] = dtype_is_float(d) || which == 8 ? 2 : which >= 10 ? 5 : 0;
      if (which >= 10 && j == 1) k.range[j] = -100;
      k.out[j] = scan ? t : without_axis(t, axis);
      k.out_name[j] = names[j];
      buf_printf(&k.body, "%s%s", j ? ", " : "", type_text(&k.out[j], text));
    }
    k.in_count = k.out_count = n;
    buf_printf(&k.body, " %s", body.at);
    buf_destroy(&body);
    check(&k, 3);
  }
}

static void reduces(void **state) { reduce_or_scan(false, 300); }
static void scans(void **state) { reduce_or_scan(true, 300); }

/* A scan, and after it a reduction of the same tensor: by the same body it takes the scan's total, by another it must
 * not. */
static void scans_with_totals(void **state) {
  static const char *const bodies[] = {"add", "max", "xor", "mul"};
  for (int i = 0; i < 60; i++) {
    Kernel k = {.in_count = 1, .out_count = 2, .num_warps = random_warps(), .range = {0}, .out_name = {"s", "t"}};
    int n = 1 << below(12);
    k.in[0] = k.out[0] = k.out[1] = (Tensor){ANY_OF(integers), 1, {n}};
    const char *t = dtype_name(k.in[0].dtype), *body = bodies[below(4)], *other = below(3) ? body : bodies[below(4)];
    buf_printf(
        &k.body,
        "  %%s = scan %%x0 {axis=0, reverse=%d} : %s[%d] do (%%a: %s, %%b: %s) {\n    %%c = %s %%a, %%b : %s\n    "
        "yield %%c\n  }\n"
        "  %%r = reduce %%x0 {axis=0} : %s do (%%d: %s, %%e: %s) {\n    %%f = %s %%d, %%e : %s\n    yield %%f\n  }\n"
        "  %%t = splat %%r : %s[%d]\n",
        (int)below(2), t, n, t, t, body, t, t, t, t, other, t, t, n);
    check(&k, 1);
  }
}

static void maps(void **state) {
  for (int i = 0; i < 60; i++) {
    Kernel k = {.in_count = 1, .out_count = 1, .num_warps = random_warps(), .range = {50}, .out_name = {"r"}};
    k.in[0] = k.out[0] = random_tensor(DT_I32, 10);
    char text[64];
    bool pair = i % 2 && numel(&k.in[0]) > 1;
    type_text(&k.in[0], text);
    if (pair)
      buf_printf(&k.body,
                 "  %%r = map %%x0 {pack=2} : %s do (%%a: i32, %%b: i32) {\n    %%s = sub %%a, %%b : i32\n    yield "
                 "%%s, %%a\n  }\n",
                 text);
    else
      buf_printf(
          &k.body,
          "  %%r = map %%x0 {pack=1} : %s do (%%a: i32) {\n    %%z = const {value=0} : i32\n    %%one = const "
          "{value=1} : i32\n"
          "    %%neg = cmp %%a, %%z {pred=lt} : i1\n    %%c = if %%neg : i32 do () {\n      yield %%z\n    } do () {\n"
          "      %%s = for %%z, %%a, %%one, %%one {num_stages=1} : i32 do (%%i: i32, %%t: i32) {\n        %%u = add "
          "%%t, %%i : i32\n"
          "        yield %%u\n      }\n      yield %%s\n    }\n    yield %%c\n  }\n",
          text);
    check(&k, 2);
  }
}

static void sorts(void **state) {
  for (int i = 0; i < 120; i++) {
    Kernel k = {.in_count = 1, .out_count = 1, .num_warps = random_warps(), .range = {0}, .out_name = {"r"}};
    k.in[0] = k.out[0] = random_tensor(ANY_OF(all_types), i % 10 == 0 ? 11 : 8);
    char text[64];
    buf_printf(&k.body, "  %%r = sort %%x0 {descending=%d%s} : %s\n", (int)below(2), i % 3 ? "" : ", bitonic=1",
               type_text(&k.in[0], text));
    check(&k, 2);
  }
}

static void gathers(void **state) {
  for (int i = 0; i < 150; i++) {
    Kernel k = {.in_count = 2, .out_count = 1, .num_warps = random_warps(), .out_name = {"r"}};
    k.in[0] = random_tensor(ANY_OF(all_types), i % 10 == 0 ? 13 : 9);
    k.in[1] = k.in[0];
    static const Dtype index_types[] = {DT_I32, DT_I64, DT_U8, DT_I16};
    k.in[1].dtype = ANY_OF(index_types);
    int axis = (int)below((uint32_t)k.in[0].rank);
    k.in[1].shape[axis] = 1 << below(7);
    int size = k.in[0].shape[axis];
    if (size > 127) k.in[1].dtype = DT_I32;
    k.range[1] = -size;
    k.out[0] = k.in[1];
    k.out[0].dtype = k.in[0].dtype;
    if (i % 5 == 0) k.shared_bytes = 16384;
    char text[64];
    buf_printf(&k.body, "  %%r = gather %%x0, %%x1 {axis=%d} : %s\n", axis, type_text(&k.out[0], text));
    check(&k, 2);
  }
}

static void histograms(void **state) {
  for (int i = 0; i < 60; i++) {
    Kernel k = {.out_count = 1, .num_warps = random_warps(), .out_name = {"r"}};
    k.in[0] = random_tensor(ANY_OF(integers), 10);
    k.in[0] = (Tensor){k.in[0].dtype, 1, {(int)numel(&k.in[0])}};
    int bins = 1 << below(10);
    k.range[0] = below(2) ? -(bins < 127 ? bins : 127) : bins < 127 ? bins : 127;
    k.in_count = 1 + (int)below(2);
    k.in[1] = k.in[0];
    k.in[1].dtype = DT_I1;
    k.out[0] = (Tensor){DT_I32, 1, {bins}};
    buf_printf(&k.body, "  %%r = histogram %%x0%s : i32[%d]\n", k.in_count == 2 ? ", %x1" : "", bins);
    check(&k, 2);
  }
}

static void dots(void **state) {
  static const Dtype types[][2] = {{DT_F32, DT_F32},  {DT_F16, DT_F32},    {DT_F16, DT_F16},
                                   {DT_BF16, DT_F32}, {DT_I8, DT_I32},     {DT_F64, DT_F64},
                                   {DT_F8E5, DT_F32}, {DT_F8E4NV, DT_F16}, {DT_I32, DT_I64}};
  for (int i = 0; i < 200; i++) {
    Kernel k = {.in_count = 3, .out_count = 1, .num_warps = random_warps(), .range = {2, 2, 2}, .out_name = {"r"}};
    if (i % 4 == 0) k.shared_bytes = 16384;
    bool cores = i % 2; /* what tensor cores take */
    int m = 1 << below(7), n = 1 << below(7), kk = 1 << below(7), batch = below(3) ? 0 : 1 << below(3);
    if (cores) m = 16 << below(4), n = 8 << below(4), kk = 16 << below(5);
    while (m * n > (cores ? 4096 : 1024)) m > n ? (m /= 2) : (n /= 2);
    const Dtype *t = cores ? types[(int[]){1, 2, 3, 6, 7}[below(5)]] : types[below(9)];
    int rank = batch ? 3 : 2, at = rank - 2;
    for (int j = 0; j < 3; j++) k.in[j] = (Tensor){t[j == 2], rank, {batch}};
    k.in[0].shape[at] = k.in[2].shape[at] = m;
    k.in[0].shape[at + 1] = k.in[1].shape[at] = kk;
    k.in[1].shape[at + 1] = k.in[2].shape[at + 1] = n;
    k.out[0] = k.in[2];
    char text[64];
    buf_printf(&k.body, "  %%r = dot %%x0, %%x1, %%x2 : %s\n", type_text(&k.out[0], text));
    check(&k, 2);
  }
}

/* Products of products: the first's result is the second's operand, on either side, plain or transposed; of an operand
 * that is taken again the other way, too. */
static void chains(void **state) {
  for (int i = 0; i < 60; i++) {
    Kernel k = {.in_count = 2, .out_count = 1, .num_warps = random_warps(), .range = {1, 1}, .out_name = {"r"}};
    int n = 16 << below(3);
    const char *t = below(2) ? "f16" : "bf16";
    for (int j = 0; j < 2; j++) k.in[j] = (Tensor){t[0] == 'f' ? DT_F16 : DT_BF16, 2, {n, n}};
    k.out[0] = (Tensor){DT_F32, 2, {n, n}};
    if (i % 5 == 0) k.shared_bytes = 8192;
    Buf *b = &k.body;
    buf_printf(b,
               "  %%zero = const {value=0.0} : f32[%d,%d]\n  %%t0 = trans %%x0 {dims=[1, 0]} : %s[%d,%d]\n  %%t1 = "
               "trans %%x1 {dims=[1, 0]} : %s[%d,%d]\n",
               n, n, t, n, n, t, n, n);
    buf_printf(b, "  %%p = dot %%%s, %%%s, %%zero : f32[%d,%d]\n  %%h = convert %%p : %s[%d,%d]\n",
               below(2) ? "x0" : "t0", below(2) ? "x1" : "t1", n, n, t, n, n);
    buf_printf(b, "  %%u = trans %%h {dims=[1, 0]} : %s[%d,%d]\n", t, n, n);
    const char *left = below(2) ? "h" : "u", *right = below(2) ? "x1" : "t1";
    bool swap = below(3) == 0;
    buf_printf(b, "  %%r = dot %%%s, %%%s, %%p : f32[%d,%d]\n", swap ? right : left, swap ? left : right, n, n);
    check(&k, 2);
  }
}

/* Several operations in a loop and under a branch: memory is used again and again. */
static void reuse(void **state) {
  for (int i = 0; i < 40; i++) {
    Kernel k = {.in_count = 2, .out_count = 2, .num_warps = random_warps(), .range = {3, -2}, .out_name = {"e", "s"}};
    int rows = 1 << below(5), columns = 1 << below(6);
    k.in[0] = k.out[0] = (Tensor){DT_I32, 2, {rows, columns}};
    k.in[1] = (Tensor){DT_I32, 0, {0}};
    k.out[1] = (Tensor){DT_I32, 1, {rows}};
    buf_printf(&k.body,
               "  %%zero = const {value=0} : i32\n  %%one = const {value=1} : i32\n  %%five = const {value=5} : i32\n"
               "  %%init = const {value=0} : i32[%d]\n"
               "  %%e, %%s = for %%zero, %%five, %%one, %%x0, %%init {num_stages=1} : i32[%d,%d], i32[%d] do (%%i: "
               "i32, %%x: i32[%d,%d], %%acc: i32[%d]) {\n"
               "    %%r = reduce %%x {axis=1} : i32[%d] do (%%a: i32, %%b: i32) {\n      %%c = add %%a, %%b : i32\n    "
               "  yield %%c\n    }\n"
               "    %%u = scan %%x {axis=0, reverse=0} : i32[%d,%d] do (%%d: i32, %%f: i32) {\n      %%g = add %%d, "
               "%%f : i32\n      yield %%g\n    }\n"
               "    %%p = cmp %%i, %%x1 {pred=gt} : i1\n"
               "    %%w = if %%p : i32[%d,%d] do () {\n      %%v = sort %%u {descending=0} : i32[%d,%d]\n      yield "
               "%%v\n    } do () {\n      yield %%u\n    }\n"
               "    %%next = add %%acc, %%r : i32[%d]\n"
               "    %%k = const {value=15} : i32[%d,%d]\n    %%y = and %%w, %%k : i32[%d,%d]\n"
               "    yield %%y, %%next\n  }\n",
               rows, rows, columns, rows, rows, columns, rows, rows, rows, columns, rows, columns, rows, columns, rows,
               rows, columns, rows, columns);
    check(&k, 2);
  }
}

int main(void) {
  const char *s = getenv("NEREID_TEST_SEED");
  if (s) seed = strtoull(s, NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convert_layouts),
      cmocka_unit_test(reduces),
      cmocka_unit_test(scans),
      cmocka_unit_test(scans_with_totals),
      cmocka_unit_test(maps),
      cmocka_unit_test(sorts),
      cmocka_unit_test(gathers),
      cmocka_unit_test(histograms),
      cmocka_unit_test(dots),
      cmocka_unit_test(chains),
      cmocka_unit_test(reuse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
