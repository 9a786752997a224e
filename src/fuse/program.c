/* What nereid.h promises of tensor programs. */
#include <stdlib.h>

#include "fuse/fuse.h"
#include "graph/read/read.h"
#include "runtime/runtime.h"

struct nereid_fusion {
  Context *cx;
  Graph *g;
  FusePlan *plan;
  int64_t *symbols; /* values */
  Dtype *narrowest;
  uint64_t seed;
  char *graph_text, *explain_text;
  nereid_module *module;
  nereid_device *device; /* of the buffers */
  FuseMemory *memory;
  int *place;   /* by tensor's id: input or output whose memory it is, counted from 0 and from -1; INT32_MAX */
  void **slots; /* memory of stored tensors */
  void *const *inputs, *const *outputs; /* of the run at hand */
};

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
static void find_narrowest(nereid_fusion *f) {
  f->narrowest = NEW_N(f->cx->arena, Dtype, f->g->at.n + 1);
  for (int i = 0; i < f->g->at.n; i++) {
    const Tensor *t = f->g->at.at[i];
    Dtype n = dtype_is_float(t->dtype) ? t->dtype : DT_F64;
    for (int k = 0; k < t->in_count; k++) {
      Dtype x = f->narrowest[t->in[k]->id];
      if (dtype_bits(x) < dtype_bits(n) || (x == DT_BF16 && n == DT_F16)) n = x;
    }
    f->narrowest[i] = n;
  }
}

static void read(nereid_fusion *f, const char *path, const char *function, const nereid_fuse_input *inputs, int n,
                 const nereid_fuse_options *o) {
  Context *cx = f->cx;
  Source *file = source_from_file(cx, path);
  if (!file) diag_fail(cx, (Span){0}, "cannot read %s", path);
  ReadInput *in = NEW_N(cx->arena, ReadInput, n + 1);
  for (int i = 0; i < n; i++) {
    in[i] = (ReadInput){inputs[i].name, !inputs[i].text, (Dtype)inputs[i].dtype, inputs[i].rank, {0}, inputs[i].text};
    if (inputs[i].rank < 0 || inputs[i].rank > GRAPH_MAX_RANK)
      diag_fail(cx, (Span){0}, "an array of %d dims", inputs[i].rank);
    memcpy(in[i].shape, inputs[i].shape, sizeof(int64_t) * (size_t)inputs[i].rank);
  }
  f->g = graph_read(cx, file, function, n, in);
  graph_cse(f->g);
  graph_dce(f->g);
  graph_verify(f->g, "cse and dce");
  if (!o || !o->eager) {
    fuse_split_reductions(f->g);
    graph_verify(f->g, "splitting reductions");
  }
  read_symbols(f, inputs, n);
  find_narrowest(f);
  FuseOptions options = {.eager = o && o->eager};
  f->plan = fuse_plan(f->g, &options);
  Buf text = {.arena = cx->arena}, explained = {.arena = cx->arena};
  graph_print(&text, f->g);
  fuse_explain(&explained, f->plan);
  f->graph_text = text.at;
  f->explain_text = explained.at;
}

nereid_status nereid_fuse(const char *path, const char *function, const nereid_fuse_input *inputs, int n,
                          const nereid_fuse_options *options, nereid_fusion **out, nereid_error **error) {
  if (!path) return error_null(error, "nereid_fuse", "path");
  if (!out) return error_null(error, "nereid_fuse", "out");
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
    read(f, path, function, inputs, n, options);
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

static void release(nereid_fusion *f) {
  for (int i = 0; f->slots && i < f->memory->count; i++) nereid_free(f->device, f->slots[i]);
  free(f->slots);
  f->slots = NULL;
  f->device = NULL;
}

void nereid_fusion_free(nereid_fusion *f) {
  if (!f) return;
  release(f);
  nereid_module_free(f->module);
  context_destroy(f->cx);
  free(f);
}

/* ---- what it takes and gives ------------------------------------------------------------------------------------- */

static nereid_tensor_info info_of(const nereid_fusion *f, const Tensor *t) {
  if (!t) return (nereid_tensor_info){.rank = -1};
  nereid_tensor_info info = {.name = t->name, .dtype = (nereid_dtype)t->dtype, .rank = t->rank};
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
nereid_tensor_info nereid_fusion_output(const nereid_fusion *f, int i) { return info_of(f, f->g->outputs.at[i]); }

const char *nereid_fusion_text(const nereid_fusion *f, const char *what) {
  if (!strcmp(what, "graph")) return f->graph_text;
  if (!strcmp(what, "code")) return f->plan->text;
  return strcmp(what, "explain") ? NULL : f->explain_text;
}

static int64_t count_of(const nereid_fusion *f, const Tensor *t) {
  int64_t n = 1, v;
  for (int d = 0; d < t->rank; d++)
    if (!size_value(t->size[d], f->symbols, &v) || v < 0 || __builtin_mul_overflow(n, v, &n)) return -1;
  return n;
}

static int64_t bytes_of(const nereid_fusion *f, const Tensor *t) {
  int64_t n = count_of(f, t), bytes;
  return n < 0 || __builtin_mul_overflow(n, (int64_t)dtype_bytes(t->dtype), &bytes) ? -1 : bytes;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static nereid_status plan_memory(nereid_fusion *f, nereid_error **error) {
  nereid_status status = NEREID_OK;
  if (f->memory) return status;
  if (context_try(f->cx)) {
    int64_t *bytes = NEW_N(f->cx->arena, int64_t, f->g->at.n + 1);
    for (int i = 0; i < f->g->at.n; i++) {
      bytes[i] = f->plan->stored[i] ? bytes_of(f, f->g->at.at[i]) : 0;
      if (bytes[i] < 0) diag_fail(f->cx, f->g->at.at[i]->span, "a tensor of this program does not fit in memory");
    }
    f->place = NEW_N(f->cx->arena, int, f->g->at.n + 1);
    for (int i = 0; i < f->g->at.n; i++) f->place[i] = INT32_MAX;
    for (int i = f->g->outputs.n - 1; i >= 0; i--)
      if (f->g->outputs.at[i]) f->place[fuse_base(f->plan, f->g->outputs.at[i])->id] = -1 - i;
    for (int i = 0; i < f->g->inputs.n; i++) f->place[f->g->inputs.at[i]->id] = i;
    f->memory = fuse_memory(f->plan, bytes, f->place);
    context_end_try(f->cx);
  } else status = error_from_context(error, NEREID_OUT_OF_MEMORY, f->cx);
  return status;
}

static nereid_status allocate(nereid_fusion *f, nereid_device *d, nereid_error **error) {
  nereid_status status = plan_memory(f, error);
  if (status || f->device == d) return status;
  release(f);
  f->slots = calloc((size_t)f->memory->count + 1, sizeof *f->slots);
  if (!f->slots) return error_out_of_memory(error);
  f->device = d;
  for (int i = 0; i < f->memory->count && !status; i++)
    status = nereid_alloc(d, f->memory->bytes[i], &f->slots[i], error);
  if (status) release(f);
  return status;
}

/* Results are computed where the caller wants them. */
static void *buffer_of(const nereid_fusion *f, const Tensor *t) {
  t = fuse_base(f->plan, t);
  int place = f->place[t->id];
  if (place == INT32_MAX) return f->slots[f->memory->slot[t->id]];
  return place < 0 ? f->outputs[-1 - place] : f->inputs[place];
}

/* A kernel's arguments and grid for the run at hand; *args is malloc'ed. */
static nereid_status arguments(const nereid_fusion *f, const FuseKernel *k, nereid_arg **args, int *n, int64_t grid[3],
                               nereid_error **error) {
  int count = k->buffer_count + k->symbol_count + k->seed + k->constant_count, i = 0;
  nereid_arg *a = *args = calloc((size_t)count + 1, sizeof *a);
  if (!a) return error_out_of_memory(error);
  *n = count;
  for (int b = 0; b < k->buffer_count; b++)
    a[i++] = nereid_pointer(buffer_of(f, k->buffers[b]), (nereid_dtype)k->buffers[b]->dtype);
  for (int b = 0; b < k->symbol_count; b++) a[i++] = nereid_int(f->symbols[k->symbols[b]->index]);
  if (k->seed) a[i++] = nereid_int((int64_t)f->seed);
  for (int b = 0; b < k->constant_count; b++) a[i++] = nereid_constexpr_int(k->constants[b]);
  for (int d = 0; d < 3; d++) {
    int64_t v = 1;
    if (k->grid[d] && !size_value(k->grid[d], f->symbols, &v))
      return error_set(error, NEREID_BAD_ARGUMENT, NULL, "%s: the grid does not fit in 63 bits", k->name);
    grid[d] = k->grid[d] ? (v + k->block[d] - 1) / k->block[d] : 1;
  }
  return NEREID_OK;
}

static nereid_status launch(nereid_fusion *f, const FuseKernel *k, nereid_stream *s, nereid_error **error) {
  nereid_arg *args = NULL;
  int64_t grid[3];
  int n;
  nereid_status status = arguments(f, k, &args, &n, grid, error);
  if (!status) status = nereid_launch(f->device, s, f->module, k->name, grid, args, n, NULL, error);
  free(args);
  return status;
}

/* All kernels at once, on all processors. What fails says so when it is launched. */
static void compile_some(void *arg, int64_t begin, int64_t end, int worker) {
  nereid_fusion *f = arg;
  for (int64_t i = begin; i < end; i++) {
    nereid_arg *args = NULL;
    int64_t grid[3];
    int n;
    nereid_function *function = NULL;
    if (!arguments(f, f->plan->kernels.at[i], &args, &n, grid, NULL) &&
        !nereid_compile(f->device, f->module, f->plan->kernels.at[i]->name, args, n, NULL, &function, NULL))
      nereid_function_free(function);
    free(args);
  }
}

static void compile_all(nereid_fusion *f) {
  Pool *pool = f->plan->kernels.n > 1 ? pool_create(0) : NULL;
  if (!pool) return;
  pool_run(pool, f->plan->kernels.n, 1, compile_some, f);
  pool_destroy(pool);
}

/* outputs and written inputs get their values when all kernels have run: these may read what is written */
static nereid_status hand_over(nereid_fusion *f, nereid_stream *s, void *const *outputs, nereid_error **error) {
  Graph *g = f->g;
  nereid_status status = NEREID_OK;
  for (int i = 0; i < g->outputs.n && !status; i++)
    if (g->outputs.at[i] && outputs[i] && buffer_of(f, g->outputs.at[i]) != outputs[i] && bytes_of(f, g->outputs.at[i]))
      status = nereid_copy_async(f->device, s, outputs[i], buffer_of(f, g->outputs.at[i]),
                                 bytes_of(f, g->outputs.at[i]), error);
  for (int i = 0; i < g->writes.n && !status; i++)
    if (g->writes.at[i].value != g->writes.at[i].input)
      status = nereid_copy_async(f->device, s, buffer_of(f, g->writes.at[i].input), buffer_of(f, g->writes.at[i].value),
                                 bytes_of(f, g->writes.at[i].input), error);
  return status;
}

nereid_status nereid_fusion_run(nereid_fusion *f, nereid_device *d, nereid_stream *s, void *const *inputs,
                                void *const *outputs, nereid_error **error) {
  if (!f) return error_null(error, "nereid_fusion_run", "f");
  if (!d) return error_null(error, "nereid_fusion_run", "d");
  bool first = f->device != d;
  nereid_status status = allocate(f, d, error);
  f->inputs = inputs;
  f->outputs = outputs;
  if (!status && first) compile_all(f);
  for (int i = 0; i < f->plan->kernels.n && !status; i++) status = launch(f, f->plan->kernels.at[i], s, error);
  return status ? status : hand_over(f, s, outputs, error);
}

/* ---- the reference ----------------------------------------------------------------------------------------------- */

static double *in_doubles(nereid_fusion *f, const Tensor *t, const void *from) {
  int64_t n = count_of(f, t);
  double *out = n < 0 ? NULL : malloc(sizeof *out * (size_t)(n ? n : 1));
  size_t step = (size_t)dtype_bytes(t->dtype);
  for (int64_t i = 0; out && i < n; i++)
    out[i] = nereid_dtype_load((nereid_dtype)t->dtype, (const char *)from + (size_t)i * step);
  return out;
}

static void give(nereid_fusion *f, const Tensor *t, double *values, double *to) {
  if (t && values && to) memcpy(to, values, sizeof *to * (size_t)count_of(f, t));
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
