/* Random tensor programs: shapes (scalars and empty ones, too), types, views, reductions, scans, products, elements by
 * index, random numbers; and their gradients. Each is built by nereid_builder, compiled fused and operation by
 * operation, run, and compared with the same graph in double precision.
 *
 *     random_graphs COUNT SEED [--device D] [--show]       the numbers from SEED on; --show prints each program
 *
 * Comparisons are of inputs alone, whose values are the same in every precision. What a program computes is of the
 * magnitude of 1, mostly, so differences are measured against the larger of 1 and the largest value. */
#include <math.h>
#include <nereid.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 40, MOST_TENSORS = 120, MOST_OUTPUTS = 24, MOST_ELEMENTS = 3000, MOST_TEXT = 16384 };

typedef struct Program {
  nereid_builder *graph;
  uint64_t chance;
  int count, input_count, output_count;
  nereid_tensor tensors[MOST_TENSORS], outputs[MOST_OUTPUTS], inputs[MOST_INPUTS];
  char text[MOST_TEXT]; /* for whoever looks at it */
  size_t text_size;
  bool narrow;       /* there are types of 16 bits: no kinks, where rounding decides which way a gradient goes */
  const char *wrong; /* an error that no text should get */
} Program;

static uint64_t next(Program *p) {
  uint64_t x = p->chance += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}
static int below(Program *p, int n) { return (int)(next(p) % (uint64_t)n); }

static void say(Program *p, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(p->text + p->text_size, MOST_TEXT - p->text_size, format, ap);
  va_end(ap);
  if (n > 0) p->text_size += (size_t)n < MOST_TEXT - p->text_size ? (size_t)n : MOST_TEXT - p->text_size - 1;
}

static nereid_tensor_info info(Program *p, nereid_tensor t) {
  nereid_tensor_info i = {.rank = -1};
  nereid_builder_get_info(p->graph, t, &i, NULL);
  return i;
}

static int64_t elements(const nereid_tensor_info *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->shape[d];
  return n;
}

static bool is_float(nereid_dtype t) {
  return t == NEREID_F16 || t == NEREID_BF16 || t == NEREID_F32 || t == NEREID_F64;
}

static const char *type_name(nereid_dtype t) {
  return t == NEREID_F16    ? "f16"
         : t == NEREID_BF16 ? "bf16"
         : t == NEREID_F32  ? "f32"
         : t == NEREID_F64  ? "f64"
         : t == NEREID_I64  ? "i64"
                            : "i1";
}

/* ---- inputs and operations --------------------------------------------------------------------------------------- */

static nereid_tensor add_input(Program *p, nereid_dtype type, int rank, const int64_t *shape, char kind) {
  char name[32];
  nereid_tensor t = -1;
  if (p->input_count == MOST_INPUTS) return -1;
  snprintf(name, sizeof name, "%c%d", kind, p->input_count);
  if (nereid_builder_input(p->graph, name, type, rank, shape, &t, NULL)) return -1;
  say(p, "  t%d = %s %s[", t, name, type_name(type));
  for (int d = 0; d < rank; d++) say(p, "%s%lld", d ? ", " : "", (long long)shape[d]);
  say(p, "]\n");
  p->inputs[p->input_count++] = t;
  return t;
}

/* Whether it was taken; a tensor that is too large is not kept. */
static nereid_tensor add_op(Program *p, int n, const nereid_tensor *in, const char *format, ...) {
  char text[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  nereid_tensor t = -1;
  nereid_error *error = NULL;
  for (int i = 0; i < n; i++)
    if (in[i] < 0) return -1;
  static const char *const kinks[] = {"max", "min", "relu", "clamp", "abs"};
  for (int i = 0; i < 5 && p->narrow; i++)
    if (strstr(text, kinks[i]) && !strstr(text, "softmax")) return -1;
  if (!p->narrow && (strstr(text, "half") || strstr(text, "bfloat16"))) return -1;
  if (p->count == MOST_TENSORS) return -1;
  if (nereid_builder_op(p->graph, text, in, n, &t, 1, &error)) {
    if (strstr(nereid_error_text(error), "internal")) {
      p->wrong = "an operation is refused with an internal error";
      say(p, "  %s: %s\n", text, nereid_error_text(error));
    }
    nereid_error_free(error);
    return -1;
  }
  nereid_tensor_info i = info(p, t);
  if (elements(&i) > MOST_ELEMENTS || i.rank > 8) return -1;
  say(p, "  t%d = %s   of", t, text);
  for (int k = 0; k < n; k++) say(p, " t%d", in[k]);
  say(p, " -> %s[", type_name(i.dtype));
  for (int d = 0; d < i.rank; d++) say(p, "%s%lld", d ? ", " : "", (long long)i.shape[d]);
  say(p, "]\n");
  p->tensors[p->count++] = t;
  return t;
}

static void random_input(Program *p) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33};
  static const nereid_dtype types[] = {NEREID_F32, NEREID_F32, NEREID_F32, NEREID_F32,
                                       NEREID_F64, NEREID_F16, NEREID_BF16};
  int64_t shape[4], n = 1;
  int rank = below(p, 5);
  for (int d = 0; d < rank; d++) {
    shape[d] = below(p, 40) ? sizes[below(p, 11)] : 0;
    if (n * shape[d] > MOST_ELEMENTS / 2) shape[d] = 2;
    n *= shape[d];
  }
  nereid_tensor t = add_input(p, types[below(p, p->narrow ? 7 : 5)], rank, shape, 'x');
  if (t >= 0 && p->count < MOST_TENSORS) p->tensors[p->count++] = t;
}

static nereid_tensor any(Program *p) { /* later ones more often */
  int a = below(p, p->count), b = below(p, p->count);
  return p->tensors[a > b ? a : b];
}

static void add_elementwise(Program *p, nereid_tensor x, nereid_tensor y) {
  static const char *const one[] = {"torch.tanh(a)",
                                    "a.sigmoid()",
                                    "torch.sin(a)",
                                    "torch.exp(-a.abs())",
                                    "F.gelu(a)",
                                    "F.silu(a)",
                                    "a.abs()",
                                    "-a",
                                    "F.relu(a)",
                                    "torch.sqrt(a * a + 1)",
                                    "1 / (1 + a * a)",
                                    "torch.rsqrt(a * a + 0.5)",
                                    "torch.log1p(a.abs())",
                                    "a.float()",
                                    "a.double()",
                                    "a.half()",
                                    "a.to(torch.bfloat16)",
                                    "a.clamp(-0.5, 0.75)",
                                    "F.softplus(a)",
                                    "a ** 2 * 0.3",
                                    "F.dropout(a, 0.3)",
                                    "a.detach() * a",
                                    "F.leaky_relu(a, 0.1)",
                                    "torch.erf(a)",
                                    "torch.atan(a)",
                                    "a * 0.5 + 0.25"};
  static const char *const two[] = {"a + b",
                                    "a - b",
                                    "a * b",
                                    "a / (b.abs() + 1)",
                                    "torch.maximum(a, b)",
                                    "torch.minimum(a, b)",
                                    "torch.lerp(a, b, 0.25)",
                                    "torch.atan2(a, b.abs() + 1)",
                                    "a * b.sum()",
                                    "(a.abs() + 0.5) ** torch.tanh(b)"};
  if (below(p, 2)) add_op(p, 1, &x, "%s", one[below(p, (int)(sizeof one / sizeof *one))]);
  else add_op(p, 2, (nereid_tensor[]){x, y}, "%s", two[below(p, (int)(sizeof two / sizeof *two))]);
}

static void add_where(Program *p, nereid_tensor x, nereid_tensor y) {
  nereid_tensor_info i = info(p, x);
  nereid_tensor m = add_input(p, NEREID_I1, i.rank, i.shape, 'm');
  static const char *const forms[] = {"torch.where(c, a, b)", "a.masked_fill(c, 0.5)", "torch.where(c, a, 1.5)",
                                      "a * c"};
  add_op(p, 3, (nereid_tensor[]){x, y, m}, "%s", forms[below(p, 4)]);
}

static void add_reduction(Program *p, nereid_tensor x) {
  static const char *const along[] = {"a.sum(%d)",
                                      "a.mean(%d, keepdim=True)",
                                      "a.amax(%d)",
                                      "a.amin(%d, keepdim=True)",
                                      "a.var(%d, unbiased=False)",
                                      "torch.softmax(a, %d)",
                                      "torch.log_softmax(a, %d) * 0.3",
                                      "torch.logsumexp(a, %d)",
                                      "torch.cumsum(a, %d) * 0.2",
                                      "a - a.mean(%d, keepdim=True)",
                                      "a.max(%d)[0]",
                                      "F.normalize(a, dim=%d, eps=0.1)",
                                      "a.sum(%d).cos() * 0.5"};
  nereid_tensor_info i = info(p, x);
  if (!i.rank) return;
  int d = below(p, i.rank), e = below(p, i.rank);
  switch (below(p, 5)) {
    case 0: add_op(p, 1, &x, "a.mean()"); break;
    case 1:
      if (d != e) add_op(p, 1, &x, "a.sum((%d, %d)) * 0.2", d, e);
      else if (elements(&i) && i.shape[d] < 9) add_op(p, 1, &x, "torch.tanh(a).prod(%d)", d);
      break;
    case 2:
      if (elements(&i)) add_op(p, 1, &x, "F.layer_norm(a, (%lld,), eps=0.1)", (long long)i.shape[i.rank - 1]);
      break;
    default: add_op(p, 1, &x, along[below(p, 13)], d);
  }
}

static void add_view(Program *p, nereid_tensor x, nereid_tensor y) {
  nereid_tensor_info i = info(p, x);
  if (!i.rank) {
    add_op(p, 1, &x, "a.expand(%d, 3)", 1 + below(p, 4));
    return;
  }
  int d = below(p, i.rank), e = below(p, i.rank);
  long long n = (long long)i.shape[d];
  switch (below(p, 16)) {
    case 0: add_op(p, 1, &x, "a.transpose(%d, %d)", d, e); break;
    case 1: add_op(p, 1, &x, "a.reshape(-1)"); break;
    case 2: add_op(p, 1, &x, "a.flatten(%d)", d); break;
    case 3:
      if (n % 2 == 0 && n) add_op(p, 1, &x, "a.unflatten(%d, (2, %lld))", d, n / 2);
      break;
    case 4: add_op(p, 1, &x, "a.narrow(%d, %lld, %lld)", d, n / 3, n - n / 3 - (n > 2)); break;
    case 5:
      if (!d) add_op(p, 1, &x, "a[%d::%d]", below(p, 2), 1 + below(p, 3));
      else add_op(p, 1, &x, "a[..., %d::%d]", below(p, 2), 1 + below(p, 3));
      break;
    case 6: add_op(p, 1, &x, "torch.flip(a, [%d])", d); break;
    case 7: add_op(p, 1, &x, "F.pad(a, (%d, %d), value=0.5)", below(p, 3), below(p, 3)); break;
    case 8: add_op(p, 2, (nereid_tensor[]){x, y}, "torch.cat([a, b, a * 2], %d)", d); break;
    case 9: add_op(p, 1, &x, "a.unsqueeze(%d).repeat(%s2)", d, "1, 1, 1, 1, 1, 1, 1, 1, " + 3 * (7 - i.rank)); break;
    case 10: add_op(p, 1, &x, "torch.stack([a, a.exp() * 0.1], %d)", d); break;
    case 11:
      if (n > 1) add_op(p, 1, &x, "torch.roll(a, %d, %d)", 1 + below(p, (int)n - 1), d);
      break;
    case 12:
      if (i.rank > 1) add_op(p, 1, &x, "torch.tril(a, %d)", below(p, 3) - 1);
      break;
    case 13: add_op(p, 1, &x, "a.repeat_interleave(2, %d)", d); break;
    case 14:
      if (n) add_op(p, 1, &x, "a.select(%d, %d)", d, below(p, (int)n));
      break;
    default:
      if (n > 1) add_op(p, 1, &x, "a.chunk(2, %d)[%d]", d, below(p, 2));
  }
}

static void add_windows(Program *p, nereid_tensor x) {
  nereid_tensor_info i = info(p, x);
  if (i.rank < 2 || i.shape[i.rank - 1] < 5) return;
  int k = 2 + below(p, 3), s = 1 + below(p, 4), pad = below(p, 2);
  switch (below(p, 4)) {
    case 0: add_op(p, 1, &x, "F.avg_pool1d(a, %d, %d, %d)", k, s, pad); break;
    case 1: add_op(p, 1, &x, "F.max_pool1d(a, %d, %d, %d)", k, s, pad); break;
    case 2:
      if (i.rank == 4) add_op(p, 1, &x, "F.avg_pool2d(a, (1, %d), (1, %d))", k, s);
      break;
    default:
      if (i.rank == 3 && i.shape[1] <= 8) {
        nereid_tensor w = add_input(p, i.dtype, 3, (int64_t[]){3, i.shape[1], k}, 'w');
        add_op(p, 2, (nereid_tensor[]){x, w}, "F.conv1d(a, b, stride=%d, padding=%d, dilation=%d)", s, pad,
               1 + below(p, 2));
      }
  }
}

static void add_index(Program *p, nereid_tensor x) {
  nereid_tensor_info i = info(p, x);
  if (!i.rank || !elements(&i)) return;
  int64_t shape[8];
  int d = below(p, i.rank);
  memcpy(shape, i.shape, sizeof shape);
  if (i.shape[d] < 2) return; /* indices are 0 or 1 */
  switch (below(p, 4)) {
    case 0: {
      int64_t n = 1 + below(p, 5);
      nereid_tensor k = add_input(p, NEREID_I64, 1, &n, 'i');
      add_op(p, 2, (nereid_tensor[]){x, k}, "a.index_select(%d, b)", d);
      break;
    }
    case 1: {
      shape[d] = 1 + below(p, 3);
      nereid_tensor k = add_input(p, NEREID_I64, i.rank, shape, 'i');
      add_op(p, 2, (nereid_tensor[]){x, k}, "torch.gather(a, %d, b)", d);
      break;
    }
    case 2: {
      shape[d] = 1 + below(p, 3);
      nereid_tensor k = add_input(p, NEREID_I64, i.rank, shape, 'i'), s = add_input(p, i.dtype, i.rank, shape, 'x');
      add_op(p, 3, (nereid_tensor[]){x, k, s}, "torch.scatter_add(a, %d, b, c)", d);
      break;
    }
    default: {
      int64_t two[] = {2, 3};
      nereid_tensor k = add_input(p, NEREID_I64, 2, two, 'i');
      if (!d) add_op(p, 2, (nereid_tensor[]){x, k}, "a[b]");
    }
  }
}

static void add_product(Program *p, nereid_tensor x, nereid_tensor y) {
  nereid_tensor_info i = info(p, x);
  if (!i.rank) return;
  int64_t k = i.shape[i.rank - 1];
  switch (below(p, 4)) {
    case 0: add_op(p, 2, (nereid_tensor[]){x, y}, "(a @ b) * 0.2"); break;
    case 1:
      if (i.rank > 1) add_op(p, 1, &x, "(a @ a.transpose(-1, -2)) * 0.1");
      break;
    case 2: {
      nereid_tensor w = add_input(p, i.dtype, 2, (int64_t[]){1 + below(p, 9), k}, 'w');
      add_op(p, 2, (nereid_tensor[]){x, w}, "F.linear(a, b) * 0.3");
      break;
    }
    default:
      if (i.rank > 1 && elements(&i))
        add_op(p, 1, &x, "F.scaled_dot_product_attention(a, torch.sin(a), a * 0.5%s)",
               below(p, 2) ? ", is_causal=True" : "");
  }
}

static void add_any(Program *p) {
  nereid_tensor x = any(p), y = any(p);
  switch (below(p, 12)) {
    case 0:
    case 1:
    case 2: add_elementwise(p, x, y); break;
    case 3: add_where(p, x, y); break;
    case 4:
    case 5: add_reduction(p, x); break;
    case 6:
    case 7:
    case 8: add_view(p, x, y); break;
    case 9: add_windows(p, x); break;
    case 10: add_index(p, x); break;
    default: add_product(p, x, y);
  }
}

/* Gradients of the outputs so far, each with random weights. */
static void add_gradients(Program *p) {
  nereid_tensor ys[MOST_OUTPUTS], seeds[MOST_OUTPUTS], by[MOST_INPUTS], got[MOST_INPUTS];
  nereid_error *error = NULL;
  int n = 0, m = 0;
  for (int i = 0; i < p->output_count; i++) {
    nereid_tensor_info t = info(p, p->outputs[i]);
    if (!is_float(t.dtype)) continue;
    seeds[n] = add_input(p, t.dtype, t.rank, t.shape, 'g');
    if (seeds[n] >= 0) ys[n++] = p->outputs[i];
  }
  for (int i = 0; i < p->input_count; i++)
    if (is_float(info(p, p->inputs[i]).dtype)) by[m++] = p->inputs[i];
  if (nereid_builder_gradients(p->graph, ys, seeds, n, by, m, got, &error)) {
    p->wrong = "gradients fail";
    say(p, "%s\n", nereid_error_text(error));
    nereid_error_free(error);
    return;
  }
  for (int i = 0; i < m && p->output_count < MOST_OUTPUTS; i++) {
    if (got[i] < 0) continue;
    say(p, "  output %d: the gradient by t%d\n", p->output_count, by[i]);
    p->outputs[p->output_count++] = got[i];
  }
}

static void generate(Program *p) {
  p->narrow = !below(p, 4);
  for (int i = 1 + below(p, 3); i > 0; i--) random_input(p);
  for (int i = 4 + below(p, 14); i > 0 && p->count; i--) add_any(p);
  for (int i = 1 + below(p, 3); i > 0 && p->count; i--) {
    nereid_tensor t = i == 1 ? p->tensors[p->count - 1] : any(p);
    say(p, "  output %d: t%d\n", p->output_count, t);
    p->outputs[p->output_count++] = t;
  }
  if (below(p, 3)) add_gradients(p);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static double allowed(const nereid_tensor_info *t) {
  if (!is_float(t->dtype)) return 0;
  nereid_dtype n = t->narrowest;
  return n == NEREID_BF16 ? 0.15 : n == NEREID_F16 ? 0.03 : n == NEREID_F32 ? 5e-4 : 1e-9;
}

typedef struct Buffers {
  int n;
  void *at[MOST_INPUTS + MOST_OUTPUTS];
  double *wanted[MOST_OUTPUTS];
} Buffers;

static void *fill(Program *p, nereid_tensor_info t) {
  int64_t n = elements(&t);
  size_t step = (size_t)nereid_dtype_bytes(t.dtype);
  char *data = malloc((size_t)n * step + 1);
  for (int64_t i = 0; data && i < n; i++) {
    double v = (double)(next(p) >> 11) * 0x1p-52 - 1;
    nereid_dtype_store(t.dtype, data + (size_t)i * step, is_float(t.dtype) ? v * 1.2 : v > 0);
  }
  return data;
}

/* Runs one form of it; why it is wrong, or NULL. */
static const char *run(Program *p, nereid_device *d, bool eager, char *message, size_t size) {
  nereid_fusion *f = NULL;
  nereid_error *error = NULL;
  Buffers b = {0};
  const char *why = NULL;
  nereid_fuse_options options = {.eager = eager, .seed = 5};
  uint64_t chance = p->chance;
  nereid_status status = nereid_builder_compile(p->graph, p->outputs, p->output_count, &options, &f, &error);
  int inputs = status ? 0 : nereid_fusion_input_count(f);
  for (int i = 0; i < inputs; i++) b.at[b.n++] = fill(p, nereid_fusion_input(f, i));
  for (int i = 0; i < p->output_count && !status; i++) {
    nereid_tensor_info t = nereid_fusion_output(f, i);
    int64_t n = elements(&t);
    b.at[b.n++] = calloc((size_t)n + 1, (size_t)nereid_dtype_bytes(t.dtype));
    b.wanted[i] = calloc((size_t)n + 1, sizeof(double));
  }
  for (int i = 0; i < b.n && !status; i++) {
    nereid_tensor_info t = i < inputs ? nereid_fusion_input(f, i) : nereid_fusion_output(f, i - inputs);
    if (elements(&t)) status = nereid_register(d, b.at[i], elements(&t) * nereid_dtype_bytes(t.dtype), "array", &error);
  }
  if (!status) status = nereid_fusion_reference(f, (const void *const *)b.at, b.wanted, NULL, &error);
  if (!status) status = nereid_fusion_run(f, d, NULL, b.at, b.at + inputs, &error);
  if (!status) status = nereid_synchronize(d, &error);
  for (int i = 0; i < p->output_count && !status && !why; i++) {
    nereid_tensor_info t = nereid_fusion_output(f, i);
    double most = 1, worst = 0;
    for (int64_t k = 0, n = elements(&t); k < n; k++) {
      double want = b.wanted[i][k],
             got =
                 nereid_dtype_load(t.dtype, (char *)b.at[inputs + i] + (size_t)k * (size_t)nereid_dtype_bytes(t.dtype));
      if (isfinite(want) && fabs(want) > most) most = fabs(want);
      if (got == want || (isnan(got) && isnan(want))) continue;
      double e = isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
      if (e > worst) worst = e;
    }
    if (worst <= allowed(&t) * most) continue;
    snprintf(message, size, "output %d is off by %g of %g, allowed %g", i, worst, most, allowed(&t) * most);
    why = message;
  }
  if (status) {
    snprintf(message, size, "%s", nereid_error_text(error));
    why = message;
  }
  for (int i = 0; i < b.n; i++) {
    nereid_unregister(d, b.at[i]);
    free(b.at[i]);
  }
  for (int i = 0; i < p->output_count; i++) free(b.wanted[i]);
  nereid_error_free(error);
  nereid_fusion_free(f);
  p->chance = chance; /* the other form gets the same values */
  return why;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: %s COUNT SEED [--device D] [--show]\n", argv[0]), 2;
  const char *device = "interp";
  bool show = false;
  for (int i = 3; i < argc; i++)
    if (!strcmp(argv[i], "--show")) show = true;
    else if (i + 1 < argc && !strcmp(argv[i], "--device")) device = argv[++i];
  nereid_device *d = NULL;
  if (nereid_device_open(device, &d, NULL)) return fprintf(stderr, "there is no device %s\n", device), 2;
  int count = atoi(argv[1]), wrong = 0, gradients = 0;
  static Program program;
  for (int i = 0; i < count; i++) {
    Program *p = &program;
    char message[2][2048];
    memset(p, 0, sizeof *p);
    p->chance = ((uint64_t)atoll(argv[2]) + (uint64_t)i) * UINT64_C(0xD1342543DE82EF95);
    if (nereid_builder_create(NULL, &p->graph, NULL)) return 2;
    generate(p);
    const char *why[2] = {p->wrong, NULL};
    for (int eager = 0; eager < 2 && !p->wrong && p->output_count; eager++)
      why[eager] = run(p, d, eager, message[eager], sizeof message[eager]);
    gradients += strstr(p->text, "gradient") != NULL;
    if (why[0] || why[1]) wrong++;
    if (show || why[0] || why[1]) {
      printf("program %lld:\n%s", atoll(argv[2]) + i, p->text);
      for (int eager = 0; eager < 2; eager++)
        if (why[eager]) printf("%s: %s\n", eager ? "operation by operation" : "fused", why[eager]);
      fflush(stdout);
    }
    nereid_builder_free(p->graph);
  }
  nereid_device_close(d);
  printf("%d random tensor programs on %s (%d with gradients), fused and operation by operation: %d wrong\n", count,
         device, gradients, wrong);
  return wrong != 0;
}
