/* A transformer's block and its gradients, from a program without Python: the graph is built here, its kernels are
 * generated, compiled and run, and every result is compared with the same graph in double precision.
 *
 *     transformer_block [DEVICE]
 */
#include <math.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 24, WIDTH = 32, HEADS = 4, HIDDEN = 64, PARAMETERS = 8, INPUTS = PARAMETERS + 1 };

static int fail(const char *what, nereid_error *error) {
  fprintf(stderr, "%s: %s\n", what, error ? nereid_error_message(error) : "no memory");
  nereid_error_free(error);
  return 1;
}

typedef struct Block {
  nereid_builder *graph;
  nereid_tensor input[INPUTS], loss, output, gradient[PARAMETERS];
  nereid_error *error;
} Block;

static nereid_tensor op(Block *b, const char *expression, int n, const nereid_tensor *in) {
  nereid_tensor out = -1; /* what comes after an error fails, too, and the first error stands */
  if (!b->error) nereid_builder_op(b->graph, expression, in, n, &out, 1, &b->error);
  return out;
}
#define OP(expression, ...) \
  op(b, expression, (int)(sizeof(nereid_tensor[]){__VA_ARGS__} / sizeof(nereid_tensor)), (nereid_tensor[]){__VA_ARGS__})

static void build(Block *b) {
  static const struct {
    const char *name;
    int rank;
    int64_t shape[3];
  } inputs[INPUTS] = {{"x", 3, {BATCH, TOKENS, WIDTH}}, {"norm1", 1, {WIDTH}},        {"qkv", 2, {3 * WIDTH, WIDTH}},
                      {"out", 2, {WIDTH, WIDTH}},       {"norm2", 1, {WIDTH}},        {"up", 2, {HIDDEN, WIDTH}},
                      {"gate", 2, {HIDDEN, WIDTH}},     {"down", 2, {WIDTH, HIDDEN}}, {"bias", 1, {WIDTH}}};
  for (int i = 0; i < INPUTS && !b->error; i++)
    nereid_builder_input(b->graph, inputs[i].name, NEREID_F32, inputs[i].rank, inputs[i].shape, &b->input[i],
                         &b->error);
  if (b->error) return;
  nereid_tensor x = b->input[0], qkv, heads[3], y, h;
  qkv = OP("F.linear(F.rms_norm(a, (32,), b), c)", x, b->input[1], b->input[2]);
  if (!b->error) /* [batch, heads, tokens, width of a head] each */
    nereid_builder_op(b->graph, "[t.reshape(2, 24, 4, 8).transpose(1, 2) for t in a.chunk(3, -1)]", &qkv, 1, heads, 3,
                      &b->error);
  y = OP("F.scaled_dot_product_attention(a, b, c, is_causal=True)", heads[0], heads[1], heads[2]);
  h = OP("a + F.linear(b.transpose(1, 2).reshape(2, 24, 32), c)", x, y, b->input[3]);
  y = OP("F.rms_norm(a, (32,), b)", h, b->input[4]);
  y = OP("F.linear(F.silu(F.linear(a, b)) * F.linear(a, c), d, e)", y, b->input[6], b->input[5], b->input[7],
         b->input[8]);
  b->output = OP("a + b", h, y);
  b->loss = OP("(a * a).mean()", b->output);
  if (!b->error)
    nereid_builder_gradients(b->graph, &b->loss, NULL, 1, b->input + 1, PARAMETERS, b->gradient, &b->error);
}

typedef struct Arrays {
  int n;
  float *host[2 * INPUTS + 2];
  void *device[2 * INPUTS + 2];
  double *wanted[2 * INPUTS + 2];
  int64_t count[2 * INPUTS + 2];
} Arrays;

static int add_array(Arrays *a, nereid_device *d, nereid_tensor_info t, unsigned *random, nereid_error **error) {
  int64_t n = 1;
  for (int i = 0; i < t.rank; i++) n *= t.shape[i];
  float *values = a->host[a->n] = calloc((size_t)n, sizeof *values);
  a->wanted[a->n] = calloc((size_t)n, sizeof(double));
  a->count[a->n] = n;
  if (!values || !a->wanted[a->n]) return 1;
  for (int64_t i = 0; i < n && random; i++) {
    *random = *random * 1664525u + 1013904223u;
    values[i] = ((float)(*random >> 8) / (1 << 23) - 1) / (t.rank == 2 ? 4 : 1) + (t.rank == 1);
  }
  return nereid_alloc(d, n * (int64_t)sizeof(float), &a->device[a->n++], error) != NEREID_OK;
}

/* Runs it, and compares; the number of results that are wrong. */
static int run(nereid_fusion *f, nereid_device *d, Arrays *a, nereid_error **error) {
  int inputs = nereid_fusion_input_count(f), outputs = nereid_fusion_output_count(f), wrong = 0;
  unsigned random = 1;
  for (int i = 0; i < inputs; i++) {
    if (add_array(a, d, nereid_fusion_input(f, i), &random, error)) return -1;
    if (nereid_copy_to_device(d, a->device[i], a->host[i], a->count[i] * (int64_t)sizeof(float), error)) return -1;
  }
  for (int i = 0; i < outputs; i++)
    if (add_array(a, d, nereid_fusion_output(f, i), NULL, error)) return -1;
  if (nereid_fusion_reference(f, (const void *const *)a->host, a->wanted + inputs, NULL, error) ||
      nereid_fusion_run(f, d, NULL, a->device, a->device + inputs, error) || nereid_synchronize(d, error))
    return -1;
  for (int i = inputs; i < a->n; i++) {
    double most = 0, worst = 0;
    if (nereid_copy_to_host(d, a->host[i], a->device[i], a->count[i] * (int64_t)sizeof(float), error)) return -1;
    for (int64_t k = 0; k < a->count[i]; k++) {
      most = fmax(most, fabs(a->wanted[i][k]));
      worst = fmax(worst, fabs(a->host[i][k] - a->wanted[i][k]));
    }
    wrong += !(worst <= 1e-4 * most);
    printf("result %d: %lld numbers, off by %.1e of the largest\n", i - inputs, (long long)a->count[i], worst / most);
  }
  return wrong;
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "cpu";
  Block block = {0}, *b = &block;
  Arrays arrays = {0};
  nereid_device *device = NULL;
  nereid_fusion *fusion = NULL;
  if (nereid_builder_create(NULL, &b->graph, &b->error)) return fail("a graph", b->error);
  build(b);
  nereid_tensor outputs[2 + PARAMETERS] = {b->loss, b->output};
  memcpy(outputs + 2, b->gradient, sizeof b->gradient);
  int status = 1, wrong;
  nereid_fuse_options options = {.seed = 1};
  if (b->error || nereid_device_open(name, &device, &b->error)) fail("the block", b->error);
  else {
    options.device = device;
    if (nereid_builder_compile(b->graph, outputs, 2 + PARAMETERS, &options, &fusion, &b->error))
      fail("kernels", b->error);
    else if ((wrong = run(fusion, device, &arrays, &b->error)) < 0) fail("the run", b->error);
    else {
      printf("%d kernels on %s; %d of %d results agree with float64\n", nereid_fusion_kernel_count(fusion), name,
             2 + PARAMETERS - wrong, 2 + PARAMETERS);
      status = wrong != 0;
    }
  }
  for (int i = 0; i < arrays.n; i++) {
    nereid_free(device, arrays.device[i]);
    free(arrays.host[i]);
    free(arrays.wanted[i]);
  }
  nereid_fusion_free(fusion);
  nereid_builder_free(b->graph);
  nereid_device_close(device);
  return status;
}
