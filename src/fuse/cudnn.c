/* cuDNN: one convolution as a graph of one operation, by the functions of its backend.
 *
 * All objects are descriptors, whose attributes have a name, a type and an array of values:
 *
 *     tensors, convolution -> operation -> operation graph -> heuristics -> engine configurations -> execution plan
 *
 * A way is a configuration's number in the lists that heuristics give, first mode A's, then the fallbacks'. Engines
 * that round more than the program allows are left out: f32 is multiplied as f32, or rounded to tf32 where that is
 * allowed, and sums are of f32. One dim is taken as two. The scratch memory of all plans is one array of ours, made
 * with them: so a stream that is recorded allocates nothing. */
#include <dlfcn.h>
#include <stdlib.h>

#include "fuse/dnn.h"

/* its headers' numbers, of 9.19 */
enum { DATA_FLOAT = 0, DATA_HALF = 2, DATA_BFLOAT16 = 9, CROSS_CORRELATION = 1, OUT_OF_MEMORY = 4003 };
enum { MODE_A = 3, MODE_FALLBACK = 2 };
enum { NOTE_TENSOR_CORE = 0, NOTE_DOWN_CONVERT = 1, NOTE_REDUCED_PRECISION = 2, MOST_NOTES = 10 };
typedef enum {
  CONVOLUTION = 1,
  ENGINE = 2,
  CONFIG = 3,
  HEURISTICS = 4,
  PLAN = 5,
  FORWARD = 10,
  BACKWARD_FILTER = 11,
  BACKWARD_DATA = 12,
  OPERATION_GRAPH = 15,
  VARIANT_PACK = 16,
  TENSOR = 17
} CudnnKind;
typedef enum {
  CONVOLUTION_COMP_TYPE = 100,
  CONVOLUTION_CONV_MODE,
  CONVOLUTION_DILATIONS,
  CONVOLUTION_FILTER_STRIDES,
  CONVOLUTION_POST_PADDINGS,
  CONVOLUTION_PRE_PADDINGS,
  CONVOLUTION_SPATIAL_DIMS,
  HEURISTICS_MODE = 200,
  HEURISTICS_GRAPH,
  HEURISTICS_RESULTS,
  CONFIG_ENGINE = 300,
  PLAN_HANDLE = 400,
  PLAN_CONFIG,
  PLAN_WORKSPACE_SIZE,
  FORWARD_ALPHA = 700,
  DATA_ALPHA = 706,
  FILTER_ALPHA = 712,
  GRAPH_HANDLE = 800,
  GRAPH_OPS,
  TENSOR_ALIGNMENT = 900,
  TENSOR_DATA_TYPE,
  TENSOR_DIMENSIONS,
  TENSOR_STRIDES,
  TENSOR_UNIQUE_ID = 906,
  PACK_UNIQUE_IDS = 1000,
  PACK_POINTERS,
  PACK_WORKSPACE = 1003,
  ENGINE_NOTES = 1303
} CudnnAttribute;
typedef enum {
  T_HANDLE = 0,
  T_DATA_TYPE = 1,
  T_INT64 = 3,
  T_FLOAT = 4,
  T_POINTER = 6,
  T_CONVOLUTION_MODE = 7,
  T_HEURISTICS_MODE = 8,
  T_NOTE = 11,
  T_DESCRIPTOR = 15
} CudnnType;

typedef struct Functions {
  int (*create)(void **handle);
  int (*destroy)(void *handle);
  int (*set_stream)(void *handle, void *stream);
  size_t (*version)(void);
  int (*make)(int kind, void **out);
  int (*drop)(void *descriptor);
  int (*finalize)(void *descriptor);
  int (*set)(void *descriptor, int attribute, int type, int64_t count, const void *values);
  int (*get)(void *descriptor, int attribute, int type, int64_t most, int64_t *count, void *values);
  int (*execute)(void *handle, void *plan, void *pack);
} Functions;

static const LibrarySymbol symbols[] = {
    {"cudnnCreate", offsetof(Functions, create), true},
    {"cudnnDestroy", offsetof(Functions, destroy), true},
    {"cudnnSetStream", offsetof(Functions, set_stream), true},
    {"cudnnGetVersion", offsetof(Functions, version), true},
    {"cudnnBackendCreateDescriptor", offsetof(Functions, make), true},
    {"cudnnBackendDestroyDescriptor", offsetof(Functions, drop), true},
    {"cudnnBackendFinalize", offsetof(Functions, finalize), true},
    {"cudnnBackendSetAttribute", offsetof(Functions, set), true},
    {"cudnnBackendGetAttribute", offsetof(Functions, get), true},
    {"cudnnBackendExecute", offsetof(Functions, execute), true},
};

typedef struct Cudnn {
  Dnn dnn; /* the first member */
  Functions f;
  void *handle, *workspace;
  int64_t workspace_size;
} Cudnn;

typedef struct CudnnPlan {
  DnnPlan plan; /* the first member */
  void *config, *execution;
} CudnnPlan;

static const char hint[] =
    "install it (pip's nvidia-cudnn, or NVIDIA's packages), or name its file with NEREID_LIBCUDNN";

static nereid_status check(const Cudnn *c, int result, const char *what, nereid_error **error) {
  if (!result) return NEREID_OK;
  return error_set(error, result == OUT_OF_MEMORY ? NEREID_OUT_OF_MEMORY : NEREID_UNSUPPORTED, "take products=own",
                   "%s: %s fails with status %d", c->dnn.name, what, result);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

/* All that stand behind a plan: freed together, last ones first. */
enum { MOST_PARTS = 16 };
typedef struct Parts {
  const Cudnn *c;
  void *at[MOST_PARTS];
  int n, result; /* the first that was not 0; nothing is done after it */
} Parts;

static void *make(Parts *p, CudnnKind kind) {
  void *made = NULL;
  if (!p->result) p->result = p->c->f.make(kind, &made);
  if (p->result) return NULL;
  return p->at[p->n++] = made;
}

static void set(Parts *p, void *of, int attribute, CudnnType type, int64_t count, const void *values) {
  if (!p->result) p->result = p->c->f.set(of, attribute, type, count, values);
}

static void finalize(Parts *p, void *of) {
  if (!p->result) p->result = p->c->f.finalize(of);
}

static void drop_parts(Parts *p, int left) {
  while (p->n > left) p->c->f.drop(p->at[--p->n]);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

enum { IMAGE = 'x', FILTER = 'w', RESULT = 'y' }; /* numbers that tell tensors apart */
enum { MOST_DIMS = 2 + CONVOLUTION_DIMS };

static int type_of(Dtype t) { return t == DT_F16 ? DATA_HALF : t == DT_BF16 ? DATA_BFLOAT16 : DATA_FLOAT; }

/* [a, b, spatial..], where b's neighbours may lie side by side; one dim stands after one of 1 */
static void *tensor(Parts *p, const DnnConvolution *c, int64_t id, int64_t a, int64_t b, const int64_t *spatial) {
  int64_t size[MOST_DIMS] = {a, b, 1, 1, 1}, stride[MOST_DIMS], all = c->sizes.channels_last ? b : 1;
  int flat = c->sizes.dims == 1, rank = 2 + c->sizes.dims + flat, type = type_of(c->type);
  int64_t alignment = c->aligned ? 16 : dtype_bytes(c->type);
  for (int d = 0; d < c->sizes.dims; d++) size[2 + flat + d] = spatial[d];
  for (int d = rank - 1; d >= 0; d--) {
    bool last = d == 1 && c->sizes.channels_last;
    stride[d] = last ? 1 : all;
    all *= last ? 1 : size[d];
  }
  void *t = make(p, TENSOR);
  set(p, t, TENSOR_DATA_TYPE, T_DATA_TYPE, 1, &type);
  set(p, t, TENSOR_DIMENSIONS, T_INT64, rank, size);
  set(p, t, TENSOR_STRIDES, T_INT64, rank, stride);
  set(p, t, TENSOR_UNIQUE_ID, T_INT64, 1, &id);
  set(p, t, TENSOR_ALIGNMENT, T_INT64, 1, &alignment);
  finalize(p, t);
  return t;
}

static void *convolution(Parts *p, const Convolution *c) {
  int flat = c->dims == 1, type = DATA_FLOAT, mode = CROSS_CORRELATION;
  int64_t dims = c->dims + flat, of[3][CONVOLUTION_DIMS] = {{1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
  for (int d = 0; d < c->dims; d++) {
    of[0][flat + d] = c->stride[d];
    of[1][flat + d] = c->padding[d];
    of[2][flat + d] = c->dilation[d];
  }
  void *v = make(p, CONVOLUTION);
  set(p, v, CONVOLUTION_COMP_TYPE, T_DATA_TYPE, 1, &type);
  set(p, v, CONVOLUTION_CONV_MODE, T_CONVOLUTION_MODE, 1, &mode);
  set(p, v, CONVOLUTION_SPATIAL_DIMS, T_INT64, 1, &dims);
  set(p, v, CONVOLUTION_FILTER_STRIDES, T_INT64, dims, of[0]);
  set(p, v, CONVOLUTION_PRE_PADDINGS, T_INT64, dims, of[1]);
  set(p, v, CONVOLUTION_POST_PADDINGS, T_INT64, dims, of[1]);
  set(p, v, CONVOLUTION_DILATIONS, T_INT64, dims, of[2]);
  finalize(p, v);
  return v;
}

static void *operation_graph(Parts *p, const DnnConvolution *c) {
  static const struct {
    CudnnKind kind;
    CudnnAttribute alpha; /* and after it: beta, convolution, filter, image, result */
  } parts[CONVOLUTION_PARTS] = {{FORWARD, FORWARD_ALPHA}, {BACKWARD_DATA, DATA_ALPHA}, {BACKWARD_FILTER, FILTER_ALPHA}};
  const Convolution *s = &c->sizes;
  const float one = 1, zero = 0;
  void *image = tensor(p, c, IMAGE, s->n, s->channels, s->image);
  void *filter = tensor(p, c, FILTER, s->filters, s->channels / s->groups, s->kernel);
  void *result = tensor(p, c, RESULT, s->n, s->filters, s->places);
  void *how = convolution(p, s), *operation = make(p, parts[s->part].kind);
  int alpha = parts[s->part].alpha;
  set(p, operation, alpha, T_FLOAT, 1, &one);
  set(p, operation, alpha + 1, T_FLOAT, 1, &zero);
  set(p, operation, alpha + 2, T_DESCRIPTOR, 1, &how);
  set(p, operation, alpha + 3, T_DESCRIPTOR, 1, &filter);
  set(p, operation, alpha + 4, T_DESCRIPTOR, 1, &image);
  set(p, operation, alpha + 5, T_DESCRIPTOR, 1, &result);
  finalize(p, operation);
  void *graph = make(p, OPERATION_GRAPH);
  set(p, graph, GRAPH_HANDLE, T_HANDLE, 1, &p->c->handle);
  set(p, graph, GRAPH_OPS, T_DESCRIPTOR, 1, &operation);
  finalize(p, graph);
  return graph;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Whether the configuration's engine rounds no more than the convolution allows. */
static bool is_precise(const Cudnn *c, const DnnConvolution *v, void *config) {
  int notes[MOST_NOTES];
  int64_t n = 0, one;
  Parts p = {.c = c};
  void *engine = make(&p, ENGINE);
  bool known = !p.result && !c->f.get(config, CONFIG_ENGINE, T_DESCRIPTOR, 1, &one, &engine) &&
               !c->f.get(engine, ENGINE_NOTES, T_NOTE, MOST_NOTES, &n, notes);
  drop_parts(&p, 0);
  for (int64_t i = 0; i < n && i < MOST_NOTES; i++) {
    known &= notes[i] != NOTE_REDUCED_PRECISION;
    known &= v->type != DT_F32 || notes[i] != NOTE_DOWN_CONVERT;
    known &= v->type != DT_F32 || v->tf32 || notes[i] != NOTE_TENSOR_CORE;
  }
  return known;
}

static nereid_status reserve(Cudnn *c, int64_t bytes, nereid_error **error) {
  if (bytes <= c->workspace_size) return NEREID_OK;
  void *more = NULL;
  nereid_status status = nereid_alloc(c->dnn.device, bytes, &more, error);
  if (status) return status;
  if (c->workspace) nereid_free(c->dnn.device, c->workspace);
  c->workspace = more;
  c->workspace_size = bytes;
  return NEREID_OK;
}

/* The configuration's plan, with its scratch memory; NULL: it cannot be had. */
static void *execution_plan(Cudnn *c, void *config) {
  Parts p = {.c = c};
  int64_t bytes = 0, one;
  void *plan = make(&p, PLAN);
  set(&p, plan, PLAN_HANDLE, T_HANDLE, 1, &c->handle);
  set(&p, plan, PLAN_CONFIG, T_DESCRIPTOR, 1, &config);
  finalize(&p, plan);
  bool good = !p.result && !c->f.get(plan, PLAN_WORKSPACE_SIZE, T_INT64, 1, &one, &bytes) && !reserve(c, bytes, NULL);
  if (good) return plan;
  drop_parts(&p, 0);
  return NULL;
}

typedef struct Configs {
  void **at;
  int64_t n;
} Configs;

static void drop_configs(const Cudnn *c, Configs *l) {
  for (int64_t i = 0; i < l->n; i++) c->f.drop(l->at[i]);
  free(l->at);
  *l = (Configs){0};
}

/* Those that a mode of the heuristics gives for the graph. */
static Configs find_configs(Parts *p, void *graph, int mode) {
  const Functions *f = &p->c->f;
  Configs l = {0};
  int left = p->n;
  int64_t all = 0, n = 0;
  void *heuristics = make(p, HEURISTICS);
  set(p, heuristics, HEURISTICS_GRAPH, T_DESCRIPTOR, 1, &graph);
  set(p, heuristics, HEURISTICS_MODE, T_HEURISTICS_MODE, 1, &mode);
  finalize(p, heuristics);
  bool some = !p->result && !f->get(heuristics, HEURISTICS_RESULTS, T_DESCRIPTOR, 0, &all, NULL) && all > 0;
  if (some) l.at = calloc((size_t)all, sizeof *l.at);
  while (l.at && l.n < all && !f->make(CONFIG, &l.at[l.n])) l.n++;
  bool good = l.n && !f->get(heuristics, HEURISTICS_RESULTS, T_DESCRIPTOR, l.n, &n, l.at);
  drop_parts(p, left);
  if (!good) drop_configs(p->c, &l);
  p->result = 0;
  while (l.n > n) f->drop(l.at[--l.n]);
  return l;
}

/* Sets config and execution of the first way from *way on. */
static void find_plan(Cudnn *c, const DnnConvolution *v, Parts *p, void *graph, int *way, CudnnPlan *out) {
  static const int modes[] = {MODE_A, MODE_FALLBACK};
  int before = 0;
  for (int m = 0; m < 2 && !out->execution; m++) {
    Configs l = find_configs(p, graph, modes[m]);
    for (int64_t i = *way > before ? *way - before : 0; i < l.n && !out->execution; i++) {
      if (is_precise(c, v, l.at[i])) out->execution = execution_plan(c, l.at[i]);
      if (!out->execution) continue;
      *way = before + (int)i;
      out->config = l.at[i]; /* it lives as long as its plan */
      l.at[i] = l.at[--l.n];
    }
    before += (int)l.n;
    drop_configs(c, &l);
  }
}

static nereid_status start(Cudnn *c, nereid_error **error) {
  return c->handle ? NEREID_OK : check(c, c->f.create(&c->handle), "cudnnCreate", error);
}

static nereid_status free_plan(void *arg, nereid_error **error) {
  CudnnPlan *p = arg;
  const Cudnn *c = (Cudnn *)p->plan.library;
  if (p->execution) c->f.drop(p->execution);
  if (p->config) c->f.drop(p->config);
  return NEREID_OK;
}

static nereid_status make_plan(void *arg, nereid_error **error) {
  const DnnCall *call = arg;
  Cudnn *c = (Cudnn *)call->library;
  nereid_status status = start(c, error);
  CudnnPlan *plan = status ? NULL : calloc(1, sizeof *plan);
  if (!plan) return status ? status : error_out_of_memory(error);
  Parts p = {.c = c};
  plan->plan = (DnnPlan){call->library, call->convolution->sizes.part};
  void *graph = operation_graph(&p, call->convolution);
  status = check(c, p.result, "a convolution's graph", error);
  if (!status) find_plan(c, call->convolution, &p, graph, call->way, plan);
  drop_parts(&p, 0);
  if (!status && !plan->execution)
    status = error_set(error, NEREID_UNSUPPORTED, "take products=own", "%s has no such convolution", c->dnn.name);
  if (status) free(plan);
  else *call->plan = &plan->plan;
  return status;
}

static nereid_status run(void *arg, nereid_error **error) {
  const DnnRun *r = arg;
  const Cudnn *c = (Cudnn *)r->plan->library;
  static const int64_t ids[] = {IMAGE, FILTER, RESULT};
  const void *at[] = {r->image, r->filter, r->result};
  Parts p = {.c = c};
  void *pack = make(&p, VARIANT_PACK);
  set(&p, pack, PACK_POINTERS, T_POINTER, 3, at);
  set(&p, pack, PACK_UNIQUE_IDS, T_INT64, 3, ids);
  set(&p, pack, PACK_WORKSPACE, T_POINTER, 1, &c->workspace);
  finalize(&p, pack);
  nereid_status status = check(c, p.result, "a variant pack", error);
  if (!status) status = check(c, c->f.set_stream(c->handle, r->stream), "cudnnSetStream", error);
  if (!status)
    status = check(c, c->f.execute(c->handle, ((CudnnPlan *)r->plan)->execution, pack), "cudnnBackendExecute", error);
  drop_parts(&p, 0);
  return status;
}

static nereid_status end(void *arg, nereid_error **error) {
  Cudnn *c = arg;
  if (c->handle) c->f.destroy(c->handle);
  if (c->workspace) nereid_free(c->dnn.device, c->workspace);
  return NEREID_OK;
}

nereid_status cudnn_open(Dnn **out, nereid_error **error) {
  static const char *const names[] = {"libcudnn.so.9", NULL};
  void *library = library_open("NEREID_LIBCUDNN", names);
  if (!library) {
    const char *why = dlerror();
    return error_set(error, NEREID_UNSUPPORTED, hint, "cuDNN was not found: %s", why ? why : "it cannot be opened");
  }
  Cudnn *c = calloc(1, sizeof *c);
  if (!c) return error_out_of_memory(error);
  const char *missing = library_take(library, symbols, sizeof symbols / sizeof *symbols, &c->f);
  if (missing) {
    free(c);
    return error_set(error, NEREID_UNSUPPORTED, hint, "this is no cuDNN 9: it has no %s", missing);
  }
  int version = (int)c->f.version();
  c->dnn.plan = make_plan;
  c->dnn.run = run;
  c->dnn.free_plan = free_plan;
  c->dnn.close = end;
  library_of(*(void **)&c->f.execute, c->dnn.path);
  snprintf(c->dnn.name, sizeof c->dnn.name, "cuDNN %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  *out = &c->dnn;
  return NEREID_OK;
}
