/* What nereid.h promises of tensor programs. */
#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "fuse/program.h"
#include "graph/read/read.h"

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void read_symbols(nereid_fusion *f, const nereid_fuse_input *inputs, int n) {
  f->symbols = NEW_N(f->cx->arena, int64_t, f->g->symbols.n + 1);
  for (int i = 0; i < f->g->symbols.n; i++) {
    const char *name = f->g->symbols.at[i]->name;
    for (int k = 0; k < n; k++)
      if (inputs[k].text && !strcmp(inputs[k].name, name)) f->symbols[i] = strtoll(inputs[k].text, NULL, 10);
    if (f->symbols[i] < 1)
      diag_fail_hint(f->cx, (Span){0}, arena_printf(f->cx->arena, "such as %s=64", name), "the size %s has no value",
                     name);
  }
}

/* By tensor's id: the float with the fewest bits among what it is computed from. */
static void find_narrowest(nereid_fusion *f, const FuseTarget *target) {
  f->narrowest = NEW_N(f->cx->arena, Dtype, f->g->at.n + 1);
  for (int i = 0; i < f->g->at.n; i++) {
    const Tensor *t = f->g->at.at[i];
    Dtype n = dtype_is_float(t->dtype) ? t->dtype : DT_F64;
    bool rounded = t->op == GRAPH_CONVOLUTION
                       ? t->tf32 && t->dtype == DT_F32 && target->kind == TARGET_GPU
                       : t->op == GRAPH_PRODUCT && !strcmp(fuse_precision(target, t, ALONE), "tf32");
    if (rounded) n = DT_F16; /* as tf32 has */
    for (int k = 0; k < t->in_count; k++) {
      Dtype x = f->narrowest[t->in[k]->id];
      if (dtype_bits(x) < dtype_bits(n) || (x == DT_BF16 && n == DT_F16)) n = x;
    }
    f->narrowest[i] = n;
  }
}

static FuseTarget target_of(const nereid_device *d) {
  static const struct { int sm, processors; } gpus[] = {{80, 108}, {90, 132}, {100, 148}};
  if (!d) return (FuseTarget){0};
  if (!d->cuda_sm) return (FuseTarget){!strcmp(d->kind->name, "cpu") ? TARGET_CPU : TARGET_ANY, d->threads, 0};
  FuseTarget target = {TARGET_GPU, 128, d->cuda_sm};
  for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
    if (gpus[i].sm == d->cuda_sm) target.processors = gpus[i].processors;
  return target;
}

/* Libraries that were opened to be measured. */
static void close_unused(nereid_fusion *f) {
  bool blas = false, dnn = false;
  for (int i = 0; i < f->plan->kernels.n; i++) {
    blas |= f->plan->kernels.at[i]->library != NULL;
    dnn |= f->plan->kernels.at[i]->convolution != NULL;
  }
  if (!blas) blas_close(f->blas);
  if (!dnn) dnn_close(f->dnn);
  f->blas = blas ? f->blas : NULL;
  f->dnn = dnn ? f->dnn : NULL;
}

static bool is_in(const char *names, const char *name) { /* "x,w" */
  size_t n = strlen(name);
  for (const char *s = names; s && *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ','))
    if (strcspn(s, ",") == n && !memcmp(s, name, n)) return true;
  return false;
}

static void read(nereid_fusion *f, const char *path, const char *graph_text, const char *function,
                 const nereid_fuse_input *inputs, int n, const nereid_fuse_options *o) {
  Context *cx = f->cx;
  Source *file = graph_text ? source_from_text(cx, path, graph_text, strlen(graph_text)) : source_from_file(cx, path);
  if (!file) diag_fail(cx, (Span){0}, "cannot read %s: %s", path, file_reason(errno));
  ReadInput *in = NEW_N(cx->arena, ReadInput, n + 1);
  for (int i = 0; i < n; i++) {
    in[i] = (ReadInput){inputs[i].name, !inputs[i].text, (Dtype)inputs[i].dtype, inputs[i].rank, {0}, inputs[i].text};
    if (inputs[i].rank < 0 || inputs[i].rank > GRAPH_MAX_RANK)
      diag_fail(cx, (Span){0}, "an array of %d dims", inputs[i].rank);
    in[i].is_complex = in[i].is_tensor && is_in(o ? o->complex_inputs : NULL, in[i].name);
    memcpy(in[i].shape, inputs[i].shape, sizeof(int64_t) * (size_t)inputs[i].rank);
  }
  size_t length = strlen(path);
  bool is_graph = graph_text || (length > 6 && !strcmp(path + length - 6, ".graph"));
  f->g = is_graph ? graph_parse(cx, file) : graph_read(cx, file, function, n, in);
  if (o && o->grad) graph_add_gradients(f->g, o->grad, n, in);
  FuseOptions options = {
      .eager = o && o->eager, .no_online = o && o->no_online, .target = target_of(o ? o->device : NULL)};
  Buf notes = {.arena = cx->arena};
  read_symbols(f, inputs, n);
  if (o)
    options.products = (FuseProducts){.who = (int)o->products,
                                      .layouts = (int)o->layouts,
                                      .device = (nereid_device *)o->device,
                                      .symbols = f->symbols,
                                      .blas = &f->blas,
                                      .dnn = &f->dnn,
                                      .notes = &notes};
  fuse_optimize(f->g, &options);
  find_narrowest(f, &options.target);
  Buf text = {.arena = cx->arena}, explained = {.arena = cx->arena};
  graph_print(&text, f->g);
  f->plan = fuse_plan(f->g, &options);
  fuse_explain(&explained, f->plan);
  close_unused(f);
  f->graph_text = text.at;
  f->explain_text = explained.at;
}

nereid_status nereid_fuse(const char *path, const char *function, const nereid_fuse_input *inputs, int n,
                          const nereid_fuse_options *options, nereid_fusion **out, nereid_error **error) {
  if (!path) return error_null(error, "nereid_fuse", "path");
  if (!out) return error_null(error, "nereid_fuse", "out");
  return fusion_create(path, NULL, function, inputs, n, options, out, error);
}

nereid_status fusion_create(const char *path, const char *graph_text, const char *function,
                            const nereid_fuse_input *inputs, int n, const nereid_fuse_options *options,
                            nereid_fusion **out, nereid_error **error) {
  nereid_options limits = {.limits = options ? options->limits : (nereid_limits){0}};
  nereid_fusion *f = calloc(1, sizeof *f);
  Context *cx = f ? context_within(&limits) : NULL;
  if (!cx) {
    free(f);
    return error_out_of_memory(error);
  }
  f->cx = cx;
  f->seed = options ? options->seed : 0;
  nereid_status status = NEREID_OK;
  if (context_try(cx)) {
    read(f, path, graph_text, function, inputs, n, options);
    context_end_try(cx);
  } else status = error_from_context(error, NEREID_BAD_SOURCE, cx);
  if (!status) status = nereid_module_load_string("fused.py", f->plan->text, &f->module, error);
  if (!status) {
    *out = f;
    return NEREID_OK;
  }
  nereid_fusion_free(f);
  return status;
}

void nereid_fusion_free(nereid_fusion *f) {
  if (!f) return;
  fusion_release(f);
  nereid_module_free(f->module);
  context_destroy(f->cx);
  free(f->launches_text);
  free(f);
}

/* ---- what it takes and gives ------------------------------------------------------------------------------------- */

static nereid_tensor_info info_of(const nereid_fusion *f, const Tensor *t) {
  if (!t) return (nereid_tensor_info){.rank = -1};
  nereid_tensor_info info = {.name = t->name, .dtype = (nereid_dtype)t->dtype, .rank = t->rank};
  info.is_state = t->op == GRAPH_INPUT && t->is_state;
  info.is_complex = t->op == GRAPH_INPUT && t->is_complex;
  info.narrowest = (nereid_dtype)f->narrowest[t->id];
  for (int d = 0; d < t->rank; d++)
    if (!size_value(t->size[d], f->symbols, &info.shape[d])) info.shape[d] = -1;
  for (int i = 0; i < f->g->writes.n; i++) {
    if (f->g->writes.at[i].input != t) continue;
    info.is_written = true;
    info.narrowest = (nereid_dtype)f->narrowest[f->g->writes.at[i].value->id];
  }
  return info;
}

int nereid_fusion_input_count(const nereid_fusion *f) { return f->g->inputs.n; }
int nereid_fusion_output_count(const nereid_fusion *f) { return f->g->outputs.n; }
int nereid_fusion_kernel_count(const nereid_fusion *f) { return f->plan->kernels.n; }
nereid_tensor_info nereid_fusion_input(const nereid_fusion *f, int i) { return info_of(f, f->g->inputs.at[i]); }
nereid_tensor_info nereid_fusion_output(const nereid_fusion *f, int i) {
  nereid_tensor_info info = info_of(f, f->g->outputs.at[i]);
  info.name = graph_output_name(f->g, i);
  info.is_complex = graph_is_complex_output(f->g, i);
  return info;
}

/* Drawn when it is asked for. */
static const char *plot(nereid_fusion *f) {
  if (!f->plot_text && context_try(f->cx)) {
    Buf text = {.arena = f->cx->arena};
    fuse_plot(&text, f->plan);
    f->plot_text = text.at;
    context_end_try(f->cx);
  }
  return f->plot_text;
}

static void put_arg(JsonWriter *w, const nereid_fusion *f, const FuseStep *s, int i, const char *name) {
  const nereid_arg *a = &s->args[i];
  json_begin_object(w, NULL);
  json_put_text(w, "name", name);
  if (a->kind == NEREID_ARG_POINTER) {
    const Tensor *t = s->kernel->buffers[i];
    int64_t shape[MAX_RANK], strides[MAX_RANK], stride = 1;
    for (int d = 0; d < t->rank; d++)
      if (!size_value(t->size[d], f->symbols, &shape[d])) shape[d] = 0;
    for (int d = t->rank - 1; d >= 0; stride *= shape[d--]) strides[d] = stride;
    json_put_text(w, "ptr", dtype_torch_name(t->dtype));
    json_put_bool(w, "aligned", true);
    json_put_ints(w, "shape", shape, t->rank);
    json_put_ints(w, "strides", strides, t->rank);
  } else {
    json_put_int(w, a->kind == NEREID_ARG_CONSTEXPR ? "constexpr" : "int", a->i);
  }
  json_end_object(w);
}

/* A launch a line, as `nereid replay` reads it, of the kernels that are in the code. */
static const char *launches(nereid_fusion *f) {
  Buf text = {0};
  nereid_error *error = NULL;
  for (int k = 0; k < f->plan->kernels.n; k++) {
    FuseStep s = {0};
    const FuseKernel *kernel = f->plan->kernels.at[k];
    const nereid_kernel_info *info = f->module ? nereid_kernel_find(f->module, kernel->name) : NULL;
    if (kernel->library || kernel->convolution || !info) continue;
    if (!step_make(&s, kernel, f->symbols, f->seed, &error) && s.arg_count == info->param_count) {
      JsonWriter w = {.buf = &text};
      json_begin_object(&w, NULL);
      json_put_text(&w, "kernel", kernel->name);
      json_begin_array(&w, "args");
      for (int i = 0; i < s.arg_count; i++) put_arg(&w, f, &s, i, info->params[i].name);
      json_end_array(&w);
      json_begin_object(&w, "meta");
      if (kernel->num_warps) json_put_int(&w, "num_warps", kernel->num_warps);
      json_end_object(&w);
      json_put_ints(&w, "grid", s.grid, 3);
      json_end_object(&w);
      buf_puts(&text, "\n");
    }
    step_free(&s);
  }
  nereid_error_free(error);
  buf_puts(&text, "");
  free(f->launches_text);
  return f->launches_text = text.at;
}

const char *nereid_fusion_text(const nereid_fusion *f, const char *what) {
  if (!strcmp(what, "launches")) return launches((nereid_fusion *)f);
  if (!strcmp(what, "graph")) return f->graph_text;
  if (!strcmp(what, "code")) return f->plan->text;
  if (!strcmp(what, "plot")) return plot((nereid_fusion *)f);
  return strcmp(what, "explain") ? NULL : f->explain_text;
}

/* ---- the reference ----------------------------------------------------------------------------------------------- */

static double *in_doubles(nereid_fusion *f, const Tensor *t, const void *from) {
  int64_t n = fusion_count(f, t);
  double *out = n < 0 ? NULL : malloc(sizeof *out * (size_t)(n ? n : 1));
  size_t step = (size_t)dtype_bytes(t->dtype);
  for (int64_t i = 0; out && i < n; i++)
    out[i] = nereid_dtype_load((nereid_dtype)t->dtype, (const char *)from + (size_t)i * step);
  return out;
}

static void give(nereid_fusion *f, const Tensor *t, double *values, double *to) {
  if (t && values && to) memcpy(to, values, sizeof *to * (size_t)fusion_count(f, t));
  free(values);
}

nereid_status nereid_fusion_reference(nereid_fusion *f, const void *const *inputs, double *const *outputs,
                                      double *const *written, nereid_error **error) {
  if (!f) return error_null(error, "nereid_fusion_reference", "f");
  Graph *g = f->g;
  double **in = calloc((size_t)g->inputs.n + 1, sizeof *in), **out = calloc((size_t)g->outputs.n + 1, sizeof *out),
         **writes = calloc((size_t)g->writes.n + 1, sizeof *writes);
  nereid_status status = in && out && writes ? NEREID_OK : error_out_of_memory(error);
  for (int i = 0; i < g->inputs.n && !status; i++)
    if (!(in[i] = in_doubles(f, g->inputs.at[i], inputs[i]))) status = error_out_of_memory(error);
  if (!status) {
    if (context_try(f->cx)) {
      graph_reference(g, &(GraphValues){f->symbols, f->seed, in, out, writes});
      context_end_try(f->cx);
    } else status = error_from_context(error, NEREID_BAD_SOURCE, f->cx);
  }
  for (int i = 0; i < g->outputs.n && out; i++)
    give(f, g->outputs.at[i], out[i], outputs && !status ? outputs[i] : NULL);
  for (int i = 0; i < g->writes.n && writes; i++) {
    int at = 0;
    while (g->inputs.at[at] != g->writes.at[i].input) at++;
    give(f, g->writes.at[i].value, writes[i], written && !status ? written[at] : NULL);
  }
  for (int i = 0; i < g->inputs.n && in; i++) free(in[i]);
  free(in);
  free(out);
  free(writes);
  return status;
}
