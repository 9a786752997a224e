/* Gradients against finite differences, in double precision: each row is a program and its inputs. The sum of the
 * results, each with random weights, is differentiated by every input of floats; each element is then moved a little.
 * Below: what is no limit of differences, ties and zeros, as PyTorch has it. */
#include <math.h>
#include <stdlib.h>

#include "graph/read/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* inputs: "x 3,4; i 2<5": a name, a shape, and of integers a bound. Values of floats are of [-1, 1], with + of
 * [0.3, 1.7], with 2 of [-2, 2]. */
typedef struct Row {
  const char *result, *inputs;
} Row;

static const Row rows[] = {
    /* elementwise primitives */
    {"x + y * x - y", "x 3,4; y 3,4"},
    {"x / y", "x 3,4; y+ 4"},
    {"torch.fmod(x, y) + torch.remainder(x, y)", "x2 5; y+ 5"},
    {"x // y + torch.floor(x) + torch.ceil(x) * torch.trunc(x) + torch.round(x) + x", "x2 5; y+ 5"},
    {"torch.minimum(x, y) * torch.maximum(x, y * 2)", "x 3,4; y 3,1"},
    {"x ** y", "x+ 3,4; y 4"},
    {"x ** 2.5 + x ** -1 + x ** 0.5 + x ** 3 + x ** 4 + x ** 7.0 + 2 ** x", "x+ 6"},
    {"torch.atan2(x, y)", "x 3,4; y 3,4"},
    {"torch.ops.prims.fma.default(x, y, z)", "x 3; y 3; z 3"},
    {"-x + x.abs() + x.exp() + torch.exp2(x) + torch.expm1(x)", "x2 7"},
    {"x.log() + torch.log2(x) + torch.log1p(x) + x.sqrt() * x.rsqrt() + x.reciprocal()", "x+ 7"},
    {"x.sin() * x.cos() + x.tan() + torch.asin(x) * torch.acos(x) + torch.atan(x)", "x 7"},
    {"torch.sinh(x) * torch.cosh(x) + x.tanh() * x.sigmoid() + torch.erf(x)", "x2 7"},
    {"torch.where(x > y, x * y, x - y)", "x 3,4; y 4"},
    {"x.to(torch.float32).exp().to(torch.float64) * x.long() + x.half().float()", "x2 6"},
    {"torch.lerp(x, y, 0.3) + torch.addcmul(x, y, x, value=2) + torch.addcdiv(x, y, x + 3)", "x 4; y 4"},
    /* reductions, scans */
    {"x.sum() + x.mean(0) + x.sum((0, 1), keepdim=True)", "x 3,4"},
    {"x.prod(0) + x.prod()", "x 3,4"},
    {"x.amax(1) + x.amin((0, 1))", "x 3,4"},
    {"x.max(dim=0)[0].sum() * x.min(dim=1)[0]", "x 3,4"},
    {"torch.cumsum(x, 0) * torch.cumsum(x, -1)", "x 3,4"},
    {"F.conv2d(x, y, padding=1) * 2 + y.sum()", "x 1,2,0,3; y 2,2,1,2"}, /* of an image without rows */
    {"torch.cumprod(x, 0) * torch.cumprod(x, -1)", "x 3,4"},
    {"torch.cumprod(torch.where(x > 0.3, 0, x), 1) * y", "x 3,5; y 3,5"},
    {"torch.cummax(x, 0)[0] * torch.cummin(x, 1)[0]", "x 3,4"},
    {"torch.logcumsumexp(x, 0) * torch.logcumsumexp(x, 1) * y", "x 3,4; y 3,4"},
    {"x.var() + x.std(0) + torch.var_mean(x, 1, keepdim=True)[0]", "x 3,4"},
    {"torch.norm(x) + torch.norm(x, p=1, dim=1) + torch.norm(x, p=3, dim=1) + torch.linalg.norm(x, math.inf, 1)",
     "x 3,4"},
    {"torch.logsumexp(x, 1) + torch.logsumexp(x, (0, 1))", "x2 3,4"},
    {"torch.softmax(x, 0) * torch.log_softmax(x, -1)", "x2 3,4"},
    /* views */
    {"x.permute(2, 0, 1).reshape(4, 6).t().contiguous().view(3, 8) * y", "x 2,3,4; y 8"},
    {"x.expand(3, 2, 4) * y.expand(2, 4) * x", "x 2,1; y 1,4"},
    {"x[1:4, ::2] * x[-3:, 1::2] + x[2] [:2] + x[:, 0].sum()", "x 5,4"},
    {"torch.flip(x, [0, 1]) * x + torch.roll(x, 1, 1)", "x 3,4"},
    {"F.pad(x, (1, 2, 0, 1), value=3.0) * y", "x 2,3; y 3,6"},
    {"F.pad(x, (-1, 2)) * y", "x 2,3; y 2,4"},
    {"torch.cat([x, y, x * y], 1) * torch.stack([x, y, x], 1).reshape(2, 9)", "x 2,3; y 2,3"},
    {"x.split([1, 2, 3], 0)[1].sum() + x.chunk(2, 1)[0] * x.chunk(2, 1)[1] + x.unbind(0)[2].sum()", "x 6,4"},
    {"torch.stack([t * (i + 1) for i, t in enumerate(x.unbind(1))], 0)", "x 3,5"},
    {"x.repeat(2, 3) * y + x.repeat_interleave(2, 0).sum()", "x 2,3; y 4,9"},
    {"torch.tril(x) * torch.triu(y, 1) + torch.tril(y, -1)", "x 4,4; y 4,4"},
    {"torch.slice_scatter(x, y, 1, 1, 3) + torch.select_scatter(x, z, 0, 1)", "x 3,4; y 3,2; z 4"},
    {"torch.slice_scatter(x, y, 1, 1, 6, 2) * x", "x 3,7; y 3,3"},
    {"torch.slice_scatter(x, y, 0, -5, None, 3) * x", "x 7,2; y 2,2"},
    {"torch.as_strided_scatter(x, y, (2, 3), (5, 2), 1) * x", "x 3,4; y 2,3"},
    {"x.unsqueeze(1).squeeze() + x[None, :, None].flatten()", "x 5"},
    {"x.T @ x.mT.T.movedim(0, 1).T", "x 3,4"},
    /* windows: a few that overlap, many, none that overlap */
    {"F.avg_pool1d(x, 3, 2, 1) * y", "x 2,3,7; y 4"},
    {"F.avg_pool1d(x, 20, 3)", "x 1,2,30"},
    {"F.avg_pool2d(x, 2) + F.avg_pool2d(x, 2, 2).amax(-1, keepdim=True)", "x 2,3,5,4"},
    {"F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)", "x 1,2,4,4"},
    {"F.max_pool2d(x, 3, 2, 1) * 2", "x 2,2,5,5"},
    {"F.max_pool1d(x, 2, 3)", "x 2,2,8"},
    {"F.adaptive_avg_pool2d(x, 2) + F.adaptive_max_pool2d(x, (2, 1))", "x 1,2,4,4"},
    /* elements by index */
    {"torch.gather(x, 1, i) * y", "x 3,5; i 3,4<5; y 3,4"},
    {"torch.gather(x, 1, i)", "x 3,5; i 3,1<5"},
    {"torch.scatter(x, 1, i, y) * torch.scatter_add(x, 0, j, y)", "x 3,3; i 3,1<3; y 3,3; j 3,3<3"},
    {"x[i] * x[j, :] + x[:, i].sum()", "x 4,4; i 3<4; j 3<4"},
    {"torch.index_put(x, [i], y, True) + torch.index_select(x, 0, j).sum()", "x 4,2; i 3<4; y 3,2; j 5<4"},
    {"F.embedding(i, x) + F.embedding(i, x, padding_idx=5)", "x 5,3; i 2,3<5"},
    {"torch.sort(x, 1)[0] * y + torch.topk(x, 2, 0)[0].sum()", "x 3,4; y 3,4"},
    {"x.masked_fill(y > 0, 2.0) * y", "x 3,4; y 3,4"},
    {"x * i", "x 4; i 4<3"},
    /* products */
    {"x @ y", "x 3,4; y 4,2"},
    {"torch.bmm(x, y) @ z", "x 2,3,4; y 2,4,3; z 3,2"},
    {"x @ y + z @ x.transpose(1, 2).reshape(4, 6) [:, 0]", "x 2,3,4; y 4; z 4"},
    {"torch.einsum('bij,jk,bk->bi', x, y, z)", "x 2,3,4; y 4,2; z 2,2"},
    {"F.linear(x, y, z) + torch.addmm(z, x, y.t(), beta=2, alpha=3)", "x 3,4; y 2,4; z 2"},
    {"torch.outer(x, y) * torch.dot(x, x)", "x 3; y 4"},
    /* convolutions */
    {"F.conv1d(x, y, z, stride=2, padding=1)", "x 2,3,7; y 4,3,3; z 4"},
    {"F.conv2d(x, y, z, stride=1, padding=1, dilation=2, groups=2)", "x 1,4,5,5; y 2,2,2,2; z 2"},
    {"F.conv2d(x, y, None, (2, 1), (0, 2))", "x 2,1,5,4; y 2,1,3,3"},
    {"F.conv3d(x, y)", "x 1,1,3,3,3; y 2,1,2,2,2"},
    {"F.conv_transpose2d(x, y, z, stride=2, padding=1, output_padding=1)", "x 1,2,3,3; y 2,2,3,3; z 2"},
    {"F.conv_transpose1d(x, y, stride=3, groups=2)", "x 1,4,3; y 4,1,2"},
    {"F.conv1d(x, y, stride=16)", "x 1,2,48; y 3,2,16"},
    /* activations */
    {"F.gelu(x) + F.gelu(x, approximate='tanh') + F.silu(x) + F.mish(x)", "x2 9"},
    {"F.relu(x) * F.relu6(x * 4) + F.leaky_relu(x, 0.2) + F.elu(x, 1.5) + F.selu(x) + F.celu(x, 0.7)", "x2 9"},
    {"F.softplus(x * 30) + F.logsigmoid(x * 9) + F.softsign(x) + F.tanhshrink(x)", "x2 9"},
    {"F.hardtanh(x) + F.hardsigmoid(x * 3) + F.hardswish(x * 3) + F.hardshrink(x) + F.softshrink(x)", "x2 9"},
    {"torch.clamp(x, -0.5, 0.5) + torch.clamp(x, min=y) + torch.clamp_max(x, 0.1) + F.threshold(x, 0.1, 20)",
     "x2 9; y 9"},
    {"F.glu(x) + F.normalize(x, dim=0)[:, :2] + F.cosine_similarity(x, y)[:, None]", "x2 3,4; y 3,4"},
    /* norms, losses, attention, random numbers */
    {"F.layer_norm(x, (4,), y, z) + F.rms_norm(x, (4,), y)", "x2 3,4; y 4; z 4"},
    {"F.group_norm(x, 2, y, z) + F.instance_norm(x)", "x2 2,4,3; y 4; z 4"},
    {"F.cross_entropy(x, i) + F.cross_entropy(x, i, y, reduction='sum')", "x2 5,4; i 5<4; y+ 4"},
    {"F.cross_entropy(x, i, reduction='none')", "x2 2,3,4; i 2,4<3"},
    {"F.mse_loss(x, y) + F.l1_loss(x, y) + F.smooth_l1_loss(x, y) + F.huber_loss(x, y, delta=0.5)", "x2 3,4; y 3,4"},
    {"F.binary_cross_entropy(x * 0.5, y * 0.5) + F.binary_cross_entropy_with_logits(x, y)", "x+ 6; y+ 6"},
    {"F.kl_div(x, y, reduction='batchmean') + F.triplet_margin_loss(x, y, x * y)", "x 3,4; y+ 3,4"},
    {"F.scaled_dot_product_attention(x, y, z, is_causal=True)", "x 1,2,3,4; y 1,2,3,4; z 1,2,3,4"},
    {"F.scaled_dot_product_attention(x, y, z, m)", "x 2,3,4; y 2,5,4; z 2,5,2; m 3,5"},
    {"F.dropout(x, 0.4) * x + torch.rand(3) * x", "x 4,3"},
    {"x * torch.randn(4) + x.detach() * 0", "x 4"},
    /* no dims, no elements */
    {"x * y.exp() + x.sum() * y.max()", "x ; y "},
    {"(x.exp() * 2).sum(0) + y", "x 0,3; y 3"},
    {"torch.cat([x, y]) @ z", "x 0,3; y 2,3; z 3,2"},
    {"x @ y", "x 2,0; y 0,3"},
    {"x[:0].sum() + x[2:].sum() + F.pad(x[:0], (1, 1)).sum()", "x 4"},
    {"x.reshape(1, 1, 2, 1, 1, 3, 1) * y", "x 2,3; y 1,1,2,1,1,3,1"},
};

/* ---- one program ------------------------------------------------------------------------------------------------- */

static uint64_t state_of_chance;
static double chance(void) { /* of [0, 1) */
  state_of_chance = state_of_chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(state_of_chance >> 11) * 0x1p-53;
}

enum { MOST_INPUTS = 8, MOST_ELEMENTS = 256 };
typedef struct Inputs {
  int n;
  ReadInput of[MOST_INPUTS];
  double value[MOST_INPUTS][MOST_ELEMENTS];
  int64_t count[MOST_INPUTS];
} Inputs;

static void parse_inputs(Context *cx, const char *text, Inputs *in) {
  in->n = 0;
  for (const char *s = text; *s;) {
    ReadInput *p = &in->of[in->n];
    while (*s == ' ') s++;
    *p = (ReadInput){.name = arena_strndup(cx->arena, s, 1), .is_tensor = true, .dtype = DT_F64};
    char kind = s[1];
    int64_t bound = 0, n = 1;
    for (s += 1 + (kind == '+' || kind == '2'); *s && *s != ';' && *s != '<';) {
      char *end;
      long long v = strtoll(s, &end, 10);
      if (end != s) {
        p->shape[p->rank++] = v;
        n *= v;
      } else end++;
      s = end;
    }
    if (*s == '<') bound = strtoll(s + 1, (char **)&s, 10);
    if (bound) p->dtype = DT_I64;
    assert_true(n <= MOST_ELEMENTS && in->n < MOST_INPUTS - 2);
    for (int64_t i = 0; i < n; i++) {
      double v = chance();
      in->value[in->n][i] = bound         ? floor(v * (double)bound)
                            : kind == '+' ? 0.3 + 1.4 * v
                                          : (kind == '2' ? 4 : 2) * (v - 0.5);
    }
    in->count[in->n++] = n;
    s += *s == ';';
  }
}

static Graph *read_program(Context *cx, const char *result, const Inputs *in) {
  Buf b = {.arena = cx->arena};
  buf_puts(&b, "import math\nimport torch\nimport torch.nn.functional as F\ndef f(");
  for (int i = 0; i < in->n; i++) buf_printf(&b, "%s%s", i ? ", " : "", in->of[i].name);
  buf_printf(&b, "):\n    return %s\n", result);
  return graph_read(cx, source_from_text(cx, "row.py", b.at, b.n), "f", in->n, in->of);
}

static int64_t elements(const Tensor *t) {
  int64_t n = 1, v;
  for (int d = 0; d < t->rank; d++) {
    assert_true(size_is_int(t->size[d], &v));
    n *= v;
  }
  return n;
}

/* The sum of output 0, weighted; all outputs are left in `out`. */
static double loss(Graph *g, Inputs *in, const double *weights, double **out) {
  double *values[MOST_INPUTS], sum = 0;
  for (int i = 0; i < in->n; i++) values[i] = in->value[i];
  values[in->n] = (double *)weights;
  graph_reference(g, &(GraphValues){.seed = 3, .inputs = values, .outputs = out});
  for (int64_t i = 0, n = elements(g->outputs.at[0]); i < n; i++) sum += weights[i] * out[0][i];
  return sum;
}

static void drop(Graph *g, double **out) {
  for (int i = 0; i < g->outputs.n; i++) free(out[i]);
}

/* How far a gradient is from the difference, at worst. */
static double compare(Context *cx, const Row *row) {
  static Inputs in;
  double weights[4096], *out[MOST_INPUTS], *more[MOST_INPUTS], worst = 0;
  parse_inputs(cx, row->inputs, &in);
  Graph *g = read_program(cx, row->result, &in);
  const Tensor *y = g->outputs.at[0];
  int64_t n = elements(y);
  assert_true(n <= 4096);
  for (int64_t i = 0; i < n; i++) weights[i] = chance() - 0.5;
  ReadInput seed = {.name = "grad_output", .is_tensor = true, .dtype = y->dtype, .rank = y->rank};
  for (int d = 0; d < y->rank; d++) size_is_int(y->size[d], &seed.shape[d]);
  graph_add_gradients(g, "all", 1, &seed);
  graph_cse(g);
  graph_dce(g);
  graph_verify(g, "gradients");
  loss(g, &in, weights, out);
  int place = 1;
  for (int k = 0; k < in.n; k++) {
    if (!dtype_is_float(in.of[k].dtype)) continue;
    for (int64_t i = 0; i < in.count[k]; i++) {
      const double h = 1e-5, x = in.value[k][i];
      in.value[k][i] = x + h;
      double up = loss(g, &in, weights, more);
      drop(g, more);
      in.value[k][i] = x - h;
      double down = loss(g, &in, weights, more);
      drop(g, more);
      in.value[k][i] = x;
      double want = (up - down) / (2 * h), e = fabs(want - out[place][i]) / (1 + fabs(want));
      if (!(e <= worst)) worst = e;
    }
    place++;
  }
  assert_int_equal(place, g->outputs.n);
  drop(g, out);
  return worst;
}

static double try_row(const Row *row) {
  Context *cx = context_create();
  volatile double e = NAN;
  if (context_try(cx)) {
    e = compare(cx, row);
    context_end_try(cx);
  } else {
    Buf b = {0};
    diags_print(&b, cx, false);
    print_message("%s", b.at);
    buf_destroy(&b);
  }
  context_destroy(cx);
  return e;
}

static void gradients_are_limits_of_differences(void **state) {
  int wrong = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    state_of_chance = i * 77 + 5;
    double e = try_row(&rows[i]);
    if (e < 2e-7) continue;
    print_message("%s: off by %g\n", rows[i].result, e);
    wrong++;
  }
  assert_int_equal(wrong, 0);
}

/* ---- kinks ------------------------------------------------------------------------------------------------------- */

typedef struct Kink {
  const char *result, *inputs;
  double x[4], gradient[4]; /* of the input x, whatever others there are: those are like x */
} Kink;

/* What PyTorch 2.15 gives. */
static const Kink kinks[] = {
    {"torch.relu(x)", "x 4", {0, -1, 2, NAN}, {0, 0, 1, 1}},
    {"x.abs() + F.l1_loss(x, x * 0, reduction='sum')", "x 4", {0, -1, 2, 0}, {0, -5, 5, 0}},
    {"x.sqrt()", "x 3", {0, 4, 1}, {INFINITY, 0.25, 0.5}},
    {"torch.maximum(x, y)", "x 3; y 3", {1, 2, NAN}, {0.5, 0.5, 1}},
    {"torch.minimum(x, y * 2)", "x 3; y 3", {1, 0, -2}, {1, 0.5, 0}},
    {"x.amax()", "x 4", {2, 1, 2, 2}, {1 / 3., 0, 1 / 3., 1 / 3.}},
    {"x.max()", "x 4", {2, 1, 2, 0}, {0.5, 0, 0.5, 0}},
    {"x.max(0)[0]", "x 4", {1, 2, 2, 0}, {0, 1, 0, 0}},
    {"x.min(0)[0]", "x 4", {1, NAN, 2, 0}, {0, 1, 0, 0}},
    {"F.max_pool1d(x[None, None], 2, 1)", "x 4", {1, 1, 1, 0}, {1, 1, 1, 0}},
    {"torch.sort(x)[0][:2]", "x 4", {2, 1, 1, 1}, {0, 1, 1, 0}},
    {"x.norm()", "x 3", {0, 0, 0}, {0, 0, 0}},
    {"x.norm(p=3)", "x 3", {0, 0, 0}, {0, 0, 0}},
    {"x.std()", "x 3", {2, 2, 2}, {0, 0, 0}},
    {"x.clamp(-1, 1)", "x 4", {-1, 1, 0.5, NAN}, {0, 0, 1, 0}},
    {"F.hardtanh(x)", "x 4", {-1, 1, 0, NAN}, {0, 0, 1, 1}},
    {"F.relu6(x)", "x 3", {0, 6, 3}, {0, 0, 1}},
    {"torch.clamp(x, y - 1, y)", "x 2; y 2", {1, -3}, {0.5, 0.5}},
    {"torch.clamp(x, min=x.detach())", "x 2", {1, NAN}, {0.5, 1}},
    {"F.hardsigmoid(x) * 6", "x 3", {-3, 3, 0}, {0, 0, 1}},
    {"F.hardswish(x)", "x 3", {-3, 3, 0}, {0, 1, 0.5}},
    {"F.leaky_relu(x, 0.25) + F.elu(x)", "x 3", {0, 200, -INFINITY}, {1.25, 2, 0.25}},
    {"F.softplus(x)", "x 3", {1000, -1000, 0}, {1, 0, 0.5}},
    {"F.logsigmoid(x)", "x 3", {1000, -1000, 0}, {0, 1, 0.5}},
    {"torch.where(x > 0, x, x.sqrt())", "x 2", {4, 1}, {1, 1}},
    {"torch.where(x > 0, x, torch.log(x - 1))", "x 2", {1, 3}, {NAN, 1}},
    {"x.prod()", "x 3", {0, 2, 3}, {6, 0, 0}},
    {"x.prod()", "x 3", {0, 2, 0}, {0, 0, 0}},
    {"x ** y", "x 2; y 2", {0, 2}, {0, 4}},
    {"x ** 0", "x 2", {0, 2}, {0, 0}},
    {"torch.atan2(x, y)", "x 1; y 1", {0}, {0}},
    {"F.normalize(x, dim=0)", "x 2", {0, 0}, {1e12, 1e12}},
    {"torch.softmax(x, 0)[0]", "x 2", {-INFINITY, 0}, {0, 0}},
    {"torch.logsumexp(x, 0)", "x 2", {-INFINITY, 0}, {0, 1}},
};

static bool alike(double a, double b) { return a == b || (a != a && b != b) || fabs(a - b) <= 1e-12 * fabs(b); }

static int wrong_kinks(Context *cx) {
  static Inputs in;
  int wrong = 0;
  for (size_t i = 0; i < sizeof kinks / sizeof *kinks; i++) {
    const Kink *k = &kinks[i];
    double *out[MOST_INPUTS], *values[MOST_INPUTS];
    parse_inputs(cx, k->inputs, &in);
    for (int j = 0; j < in.n; j++) {
      memcpy(in.value[j], k->x, sizeof k->x);
      values[j] = in.value[j];
    }
    Graph *g = read_program(cx, k->result, &in);
    graph_add_gradients(g, "x", 0, NULL);
    graph_reference(g, &(GraphValues){.inputs = values, .outputs = out});
    for (int64_t j = 0; j < in.count[0]; j++) {
      if (alike(out[1][j], k->gradient[j])) continue;
      print_message("%s: the gradient at %g is %g, and not %g\n", k->result, k->x[j], out[1][j], k->gradient[j]);
      wrong++;
    }
    drop(g, out);
  }
  return wrong;
}

static void kinks_are_as_pytorch_has_them(void **state) {
  Context *cx = context_create();
  volatile int wrong = -1;
  if (context_try(cx)) {
    wrong = wrong_kinks(cx);
    context_end_try(cx);
  }
  context_destroy(cx);
  assert_int_equal(wrong, 0);
}

/* ---- backward() in programs -------------------------------------------------------------------------------------- */

/* What f returns is 0. x and y are 4 numbers each. */
static const char *const programs[] = {
    /* gradients add up, and are gone when they are set to None; detached values are constants */
    "    x.requires_grad_()\n"
    "    (x * x).sum().backward()\n"
    "    (x.detach() * x).sum().backward()\n"
    "    first = x.grad - 3 * x\n"
    "    x.grad = None\n"
    "    torch.autograd.backward([x.exp()], [y])\n"
    "    return first.abs() + (x.grad - y * x.exp()).abs()\n",
    /* a leaf in the middle, a gradient of a gradient, one that nothing depends on */
    "    w = (x * 2).clone().requires_grad_()\n"
    "    g, = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)\n"
    "    h, none = torch.autograd.grad(g, [w, y], y, allow_unused=True)\n"
    "    assert none is None and x.grad is None and not g.detach().requires_grad\n"
    "    return (h - 6 * w * y).abs() + (g - 12 * x * x).abs()\n",
    /* without create_graph a gradient is a constant */
    "    w = x.clone().requires_grad_()\n"
    "    g = torch.autograd.grad((w ** 2).sum(), w)[0]\n"
    "    assert not g.requires_grad and w.requires_grad\n"
    "    (w * g).sum().backward()\n"
    "    return w.grad - 2 * x\n",
    /* no_grad, as a context and as a decorator; what is made there stays a constant */
    "    x.requires_grad_()\n"
    "    with torch.no_grad():\n"
    "        a = x * y\n"
    "        assert not a.requires_grad and not torch.is_grad_enabled()\n"
    "        with torch.enable_grad():\n"
    "            b = x * y\n"
    "    @torch.no_grad()\n"
    "    def c(x): return x.view(2, 2).reshape(4)\n"
    "    assert b.requires_grad and not c(x).requires_grad and not c(x * 2).requires_grad\n"
    "    (a * b + c(x)).sum().backward()\n"
    "    return x.grad - x * y * y\n",
    /* two steps of plain code; the input is written once */
    "    w = torch.ones(4, requires_grad=True)\n"
    "    for _ in range(2):\n"
    "        w.grad = None\n"
    "        (w * w * x).sum().backward()\n"
    "        with torch.no_grad():\n"
    "            w -= 0.5 * w.grad\n"
    "            w.data.add_(y, alpha=2)\n"
    "    a = 1 - x + 2 * y\n"
    "    return w - (a - a * x + 2 * y)\n",
    /* in place: whoever has the tensor sees it, a copy does not, a part does not touch the others */
    "    a = x * 2\n"
    "    b, c = a, a.clone()\n"
    "    b += y\n"
    "    p, q = (x + 0).chunk(2)\n"
    "    p *= 2\n"
    "    return (a - 2 * x - y) + (c - 2 * x) + torch.cat([p - x[:2] * 2, q - x[2:]])\n",
    /* a module's gradients, asked and not asked */
    "    m = torch.nn.Linear(4, 3, dtype=torch.float64)\n"
    "    m.bias.requires_grad_(False)\n"
    "    m(x).sum().backward()\n"
    "    assert m.bias.grad is None and len(list(m.parameters())) == 2\n"
    "    return m.weight.grad - x\n",
    /* what a rule has captured is what it was */
    "    a = (x * 2)[None, None]\n"
    "    w = y[None, None, :2].clone().requires_grad_()\n"
    "    z = F.conv1d(a, w).sum()\n"
    "    with torch.no_grad():\n"
    "        w *= 0\n"
    "    v = y[None, None, :2].clone().requires_grad_()\n"
    "    z = F.conv1d(a, v).sum()\n"
    "    a += 100\n"
    "    z.backward()\n"
    "    return v.grad[0, 0] - torch.stack([2 * x[:3].sum(), 2 * x[1:].sum()])\n",
};

static void programs_with_backward_compute_what_they_say(void **state) {
  for (volatile size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    Context *cx = context_create();
    double x[] = {0.5, -1, 2, 3}, y[] = {1.5, 0.25, -2, 1}, more[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, *out[1];
    double *values[] = {x, y, more, more};
    if (context_try(cx)) {
      const char *text =
          arena_printf(cx->arena, "import torch\nimport torch.nn.functional as F\ndef f(x, y):\n%s", programs[i]);
      ReadInput in[] = {{"x", true, DT_F64, 1, {4}, NULL}, {"y", true, DT_F64, 1, {4}, NULL}};
      Graph *g = graph_read(cx, source_from_text(cx, "program.py", text, strlen(text)), "f", 2, in);
      graph_cse(g);
      graph_dce(g);
      graph_verify(g, "cse and dce");
      graph_reference(g, &(GraphValues){.inputs = values, .outputs = out});
      for (int64_t k = 0, n = elements(g->outputs.at[0]); k < n; k++)
        if (!(fabs(out[0][k]) < 1e-12)) fail_msg("%s gives %g", text, out[0][k]);
      free(out[0]);
      context_end_try(cx);
    } else {
      Buf b = {0};
      diags_print(&b, cx, false);
      fail_msg("%s", b.at);
    }
    context_destroy(cx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_limits_of_differences),
      cmocka_unit_test(kinks_are_as_pytorch_has_them),
      cmocka_unit_test(programs_with_backward_compute_what_they_say),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
