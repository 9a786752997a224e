/* Graphs that are built in C: nereid_builder of nereid.h. A tensor is a number; operations are evaluated by the reader,
 * one expression at a time. A fusion gets the graph as text, and so a graph of its own. */
#include <stdlib.h>

#include "fuse/program.h"
#include "graph/read/read.h"

struct nereid_builder {
  Context *cx;
  Graph *g;
  VEC(Tensor *) values;
};

nereid_status nereid_builder_create(const nereid_limits *limits, nereid_builder **out, nereid_error **error) {
  if (!out) return error_null(error, "nereid_builder_create", "out");
  nereid_options o = {.limits = limits ? *limits : (nereid_limits){0}};
  nereid_builder *g = calloc(1, sizeof *g);
  Context *cx = g ? context_within(&o) : NULL;
  if (!cx) {
    free(g);
    return error_out_of_memory(error);
  }
  g->cx = cx;
  nereid_status status = NEREID_OK;
  if (context_try(cx)) {
    g->g = graph_create(cx, "graph");
    context_end_try(cx);
  } else status = error_from_context(error, NEREID_OUT_OF_MEMORY, cx);
  if (!status) *out = g;
  else nereid_builder_free(g);
  return status;
}

void nereid_builder_free(nereid_builder *g) {
  if (!g) return;
  context_destroy(g->cx);
  free(g);
}

/* ---- in a context_try -------------------------------------------------------------------------------------------- */

static Tensor *value(nereid_builder *g, nereid_tensor t) {
  if (t < 0 || t >= g->values.n) diag_fail(g->cx, (Span){0}, "there is no tensor %d in this graph", (int)t);
  return g->values.at[t];
}

static Tensor **values(nereid_builder *g, const nereid_tensor *t, int n) {
  Tensor **out = NEW_N(g->cx->arena, Tensor *, n > 0 ? n : 1);
  for (int i = 0; i < n; i++) out[i] = value(g, t[i]);
  return out;
}

static nereid_tensor number(nereid_builder *g, Tensor *t) {
  vec_push(g->cx->arena, &g->values, t);
  return g->values.n - 1;
}

static void add_input(nereid_builder *g, const char *name, nereid_dtype dtype, int rank, const int64_t *shape,
                      nereid_tensor *out) {
  const Size *size[GRAPH_MAX_RANK];
  if ((int)dtype < 0 || (int)dtype >= DT_COUNT) diag_fail(g->cx, (Span){0}, "no type has the number %d", (int)dtype);
  if (rank < 0 || rank > GRAPH_MAX_RANK) diag_fail(g->cx, (Span){0}, "an array of %d dims", rank);
  for (int d = 0; d < rank; d++) size[d] = size_int(g->g, shape[d]);
  *out = number(g, graph_input(g->g, name, (Dtype)dtype, rank, size));
}

static void add_op(nereid_builder *g, const char *expression, const nereid_tensor *in, int n, nereid_tensor *out,
                   int out_count) {
  if (n < 0 || n > 26) diag_fail(g->cx, (Span){0}, "an operation on %d tensors: they are called a to z", n);
  if (out_count < 0) diag_fail(g->cx, (Span){0}, "an operation that gives %d tensors", out_count);
  Source *text = source_from_text(g->cx, "operation", expression, strlen(expression));
  Tensor **given = NEW_N(g->cx->arena, Tensor *, out_count + 1);
  int count = graph_evaluate(g->g, text, n, values(g, in, n), out_count, given);
  if (count != out_count)
    diag_fail(g->cx, (Span){.source = text, .line = 1}, "it gives %d tensors, and not %d", count, out_count);
  for (int i = 0; i < count; i++) out[i] = number(g, given[i]);
}

static void add_gradients(nereid_builder *g, const nereid_tensor *outputs, const nereid_tensor *seeds, int n,
                          const nereid_tensor *by, int count, nereid_tensor *gradients) {
  Tensor **ys = values(g, outputs, n), **xs = values(g, by, count), **weights = values(g, NULL, 0),
         **found = NEW_N(g->cx->arena, Tensor *, count + 1);
  if (seeds) weights = NEW_N(g->cx->arena, Tensor *, n + 1);
  for (int i = 0; seeds && i < n; i++) {
    weights[i] = seeds[i] == -1 ? NULL : value(g, seeds[i]);
    if (weights[i] && !graph_same_shape(weights[i], ys[i]))
      diag_fail(g->cx, (Span){0}, "the weights of output %d have another shape", i);
  }
  graph_gradients(g->g, n, ys, seeds ? weights : NULL, count, xs, found);
  for (int i = 0; i < count; i++) gradients[i] = found[i] ? number(g, found[i]) : -1;
}

static void add_write(nereid_builder *g, Tensor *input, Tensor *t) {
  if (input->op != GRAPH_INPUT) diag_fail(g->cx, (Span){0}, "only inputs are written");
  if (t->dtype != input->dtype || !graph_same_shape(t, input))
    diag_fail(g->cx, (Span){0}, "an input is written with a tensor of its type and shape");
  for (int i = 0; i < g->g->writes.n; i++)
    if (g->g->writes.at[i].input == input) diag_fail(g->cx, (Span){0}, "%s is written twice", input->name);
  vec_push(g->cx->arena, &g->g->writes, (GraphWrite){input, t});
}

/* As text, without what these outputs and the writes do not need. */
static const char *text_of(nereid_builder *g, const nereid_tensor *outputs, int n) {
  Graph part = *g->g;
  Buf text = {.arena = g->cx->arena};
  memset(&part.outputs, 0, sizeof part.outputs);
  for (int i = 0; i < n; i++) vec_push(g->cx->arena, &part.outputs, value(g, outputs[i]));
  for (int i = 0; i < part.at.n; i++) part.at.at[i]->id = i;
  graph_print(&text, &part);
  return text.at;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* Forgets what failed before. */
static bool begin(nereid_builder *g) {
  g->cx->diags.n = 0;
  return true;
}

/* What a failed call has added is forgotten, too. */
static nereid_status failed(nereid_builder *g, int tensors, int operations, int inputs, nereid_error **error) {
  g->values.n = tensors;
  g->g->at.n = operations;
  g->g->inputs.n = inputs;
  g->g->place = (Span){0};
  return error_from_context(error, NEREID_BAD_SOURCE, g->cx);
}

#define ATTEMPT(g, error, work) \
  nereid_status status = NEREID_OK; \
  const int tensors = (g)->values.n, operations = (g)->g->at.n, inputs = (g)->g->inputs.n; \
  if (begin(g) && context_try((g)->cx)) { \
    work; \
    context_end_try((g)->cx); \
  } else status = failed(g, tensors, operations, inputs, error)

nereid_status nereid_builder_input(nereid_builder *g, const char *name, nereid_dtype dtype, int rank,
                                   const int64_t *shape, nereid_tensor *out, nereid_error **error) {
  if (!g) return error_null(error, "nereid_builder_input", "g");
  if (!out) return error_null(error, "nereid_builder_input", "out");
  if (!shape && rank > 0) return error_null(error, "nereid_builder_input", "shape");
  ATTEMPT(g, error, add_input(g, name, dtype, rank, shape, out));
  return status;
}

nereid_status nereid_builder_op(nereid_builder *g, const char *expression, const nereid_tensor *in, int n,
                                nereid_tensor *out, int out_count, nereid_error **error) {
  if (!g) return error_null(error, "nereid_builder_op", "g");
  if (!expression) return error_null(error, "nereid_builder_op", "expression");
  if (!in && n > 0) return error_null(error, "nereid_builder_op", "in");
  if (!out && out_count > 0) return error_null(error, "nereid_builder_op", "out");
  ATTEMPT(g, error, add_op(g, expression, in, n, out, out_count));
  return status;
}

nereid_status nereid_builder_gradients(nereid_builder *g, const nereid_tensor *outputs, const nereid_tensor *seeds,
                                       int n, const nereid_tensor *by, int count, nereid_tensor *gradients,
                                       nereid_error **error) {
  if (!g) return error_null(error, "nereid_builder_gradients", "g");
  if (!outputs && n > 0) return error_null(error, "nereid_builder_gradients", "outputs");
  if (!by && count > 0) return error_null(error, "nereid_builder_gradients", "by");
  if (!gradients && count > 0) return error_null(error, "nereid_builder_gradients", "gradients");
  ATTEMPT(g, error, add_gradients(g, outputs, seeds, n, by, count, gradients));
  return status;
}

nereid_status nereid_builder_write(nereid_builder *g, nereid_tensor input, nereid_tensor t, nereid_error **error) {
  if (!g) return error_null(error, "nereid_builder_write", "g");
  ATTEMPT(g, error, add_write(g, value(g, input), value(g, t)));
  return status;
}

static void get_info(nereid_builder *g, nereid_tensor number, nereid_tensor_info *out) {
  const Tensor *t = value(g, number);
  *out = (nereid_tensor_info){.name = t->name, .dtype = (nereid_dtype)t->dtype, .rank = t->rank};
  for (int d = 0; d < t->rank; d++) size_is_int(t->size[d], &out->shape[d]);
}

nereid_status nereid_builder_get_info(nereid_builder *g, nereid_tensor t, nereid_tensor_info *out,
                                      nereid_error **error) {
  if (!g) return error_null(error, "nereid_builder_get_info", "g");
  if (!out) return error_null(error, "nereid_builder_get_info", "out");
  ATTEMPT(g, error, get_info(g, t, out));
  return status;
}

nereid_status nereid_builder_compile(nereid_builder *g, const nereid_tensor *outputs, int n,
                                     const nereid_fuse_options *options, nereid_fusion **out, nereid_error **error) {
  if (!g) return error_null(error, "nereid_builder_compile", "g");
  if (!outputs && n > 0) return error_null(error, "nereid_builder_compile", "outputs");
  if (!out) return error_null(error, "nereid_builder_compile", "out");
  const char *volatile text = NULL;
  ATTEMPT(g, error, text = text_of(g, outputs, n));
  return status ? status : fusion_create("graph", text, NULL, NULL, 0, options, out, error);
}
