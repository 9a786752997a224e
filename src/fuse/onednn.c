/* oneDNN: convolutions on a CPU, by the C functions of its versions 2 and 3.
 *
 * A primitive says in which layouts it wants its arrays; what lies otherwise is reordered before and after it, in one
 * scratch array of all plans. Images whose channels come last are taken as they lie. The two versions differ in how a
 * memory descriptor is made (a struct of the caller's, an object) and a primitive's (in two steps, in one); a pointer
 * to a descriptor goes everywhere else. The library has threads of its own, OpenMP's: it takes as many as the device
 * has, and leaves their number as it was. */
#include <dlfcn.h>
#include <stdlib.h>

#include "fuse/dnn.h"

/* its headers' numbers, and more bytes than its structs have */
enum { CPU = 1, IN_ORDER = 1, FLOAT = 3, ANY = 1, INFERENCE = 96, TRAINING = 64, DIRECT = 1, OUT_OF_MEMORY = 1 };
enum { DESCRIPTOR_BYTES = 2048, OPERATION_BYTES = 16384, DIMS = 12, FROM = 1, TO = 17, ALIGNMENT = 64 };
enum { IMAGE, FILTER, RESULT, ARRAYS };

typedef struct Version {
  int major, minor, patch;
} Version;
typedef struct Argument {
  int which;
  void *memory;
} Argument;

typedef struct Functions {
  const Version *(*version)(void);
  int (*engine_create)(void **engine, int kind, size_t index);
  int (*engine_destroy)(void *engine);
  int (*stream_create)(void **stream, void *engine, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*stream_wait)(void *stream);
  int (*memory_create)(void **memory, const void *descriptor, void *engine, void *at);
  int (*memory_destroy)(void *memory);
  int (*memory_set)(void *memory, void *at);
  size_t (*size)(const void *descriptor);
  int (*equal)(const void *a, const void *b);
  const void *(*query)(const void *primitive_descriptor, int what, int index);
  int (*reorder)(void **out, const void *from, void *from_engine, const void *to, void *to_engine, const void *attr);
  int (*primitive_create)(void **primitive, const void *descriptor);
  int (*primitive_destroy)(void *primitive);
  int (*descriptor_destroy)(void *primitive_descriptor);
  int (*execute)(const void *primitive, void *stream, int n, const Argument *arguments);
  /* version 2 */
  int (*init_by_tag)(void *descriptor, int rank, const int64_t *dims, int type, int tag);
  int (*init_by_strides)(void *descriptor, int rank, const int64_t *dims, int type, const int64_t *strides);
  int (*forward_init)(void *operation, int kind, int algorithm, const void *image, const void *filter, const void *bias,
                      const void *result, const int64_t *strides, const int64_t *dilations, const int64_t *before,
                      const int64_t *after);
  int (*data_init)(void *operation, int algorithm, const void *image, const void *filter, const void *result,
                   const int64_t *strides, const int64_t *dilations, const int64_t *before, const int64_t *after);
  int (*filter_init)(void *operation, int algorithm, const void *image, const void *filter, const void *bias,
                     const void *result, const int64_t *strides, const int64_t *dilations, const int64_t *before,
                     const int64_t *after);
  int (*descriptor_create)(void **out, const void *operation, const void *attr, void *engine, const void *hint);
  /* version 3 */
  int (*with_tag)(void **descriptor, int rank, const int64_t *dims, int type, int tag);
  int (*with_strides)(void **descriptor, int rank, const int64_t *dims, int type, const int64_t *strides);
  int (*memory_descriptor_destroy)(void *descriptor);
  int (*forward_create)(void **out, void *engine, int kind, int algorithm, const void *image, const void *filter,
                        const void *bias, const void *result, const int64_t *strides, const int64_t *dilations,
                        const int64_t *before, const int64_t *after, const void *attr);
  int (*data_create)(void **out, void *engine, int algorithm, const void *image, const void *filter, const void *result,
                     const int64_t *strides, const int64_t *dilations, const int64_t *before, const int64_t *after,
                     const void *hint, const void *attr);
  int (*filter_create)(void **out, void *engine, int algorithm, const void *image, const void *filter, const void *bias,
                       const void *result, const int64_t *strides, const int64_t *dilations, const int64_t *before,
                       const int64_t *after, const void *hint, const void *attr);
  /* of OpenMP, as the library has it */
  int (*threads)(void);
  void (*set_threads)(int);
} Functions;

#define FUNCTION(name, field, needed) \
  { name, offsetof(Functions, field), needed }
static const LibrarySymbol symbols[] = {
    FUNCTION("dnnl_version", version, true),
    FUNCTION("dnnl_engine_create", engine_create, true),
    FUNCTION("dnnl_engine_destroy", engine_destroy, true),
    FUNCTION("dnnl_stream_create", stream_create, true),
    FUNCTION("dnnl_stream_destroy", stream_destroy, true),
    FUNCTION("dnnl_stream_wait", stream_wait, true),
    FUNCTION("dnnl_memory_create", memory_create, true),
    FUNCTION("dnnl_memory_destroy", memory_destroy, true),
    FUNCTION("dnnl_memory_set_data_handle", memory_set, true),
    FUNCTION("dnnl_memory_desc_get_size", size, true),
    FUNCTION("dnnl_memory_desc_equal", equal, true),
    FUNCTION("dnnl_primitive_desc_query_md", query, true),
    FUNCTION("dnnl_reorder_primitive_desc_create", reorder, true),
    FUNCTION("dnnl_primitive_create", primitive_create, true),
    FUNCTION("dnnl_primitive_destroy", primitive_destroy, true),
    FUNCTION("dnnl_primitive_desc_destroy", descriptor_destroy, true),
    FUNCTION("dnnl_primitive_execute", execute, true),
    FUNCTION("dnnl_memory_desc_init_by_tag", init_by_tag, false),
    FUNCTION("dnnl_memory_desc_init_by_strides", init_by_strides, false),
    FUNCTION("dnnl_dilated_convolution_forward_desc_init", forward_init, false),
    FUNCTION("dnnl_dilated_convolution_backward_data_desc_init", data_init, false),
    FUNCTION("dnnl_dilated_convolution_backward_weights_desc_init", filter_init, false),
    FUNCTION("dnnl_primitive_desc_create", descriptor_create, false),
    FUNCTION("dnnl_memory_desc_create_with_tag", with_tag, false),
    FUNCTION("dnnl_memory_desc_create_with_strides", with_strides, false),
    FUNCTION("dnnl_memory_desc_destroy", memory_descriptor_destroy, false),
    FUNCTION("dnnl_convolution_forward_primitive_desc_create", forward_create, false),
    FUNCTION("dnnl_convolution_backward_data_primitive_desc_create", data_create, false),
    FUNCTION("dnnl_convolution_backward_weights_primitive_desc_create", filter_create, false),
    FUNCTION("omp_get_max_threads", threads, false),
    FUNCTION("omp_set_num_threads", set_threads, false),
};

typedef struct Onednn {
  Dnn dnn; /* the first member */
  Functions f;
  void *engine, *stream, *workspace;
  int64_t workspace_size;
} Onednn;

typedef struct PlanArray {
  void *given, *wanted, *reorder; /* wanted and reorder NULL: the primitive takes it as it lies */
  int64_t first;                  /* of what is wanted, in the scratch array */
  int argument;
  bool written;
} PlanArray;
typedef struct OnednnPlan {
  DnnPlan plan; /* the first member */
  void *primitive;
  PlanArray arrays[ARRAYS];
} OnednnPlan;

static const char hint[] = "install it (Debian: libdnnl3 or libdnnl2), or name its file with NEREID_LIBDNNL";

static nereid_status check(const Onednn *o, int result, const char *what, nereid_error **error) {
  if (!result) return NEREID_OK;
  return error_set(error, result == OUT_OF_MEMORY ? NEREID_OUT_OF_MEMORY : NEREID_UNSUPPORTED, "take products=own",
                   "%s: %s fails with status %d", o->dnn.name, what, result);
}

static int begin_threads(const Onednn *o) {
  if (!o->f.set_threads || !o->f.threads) return 0;
  int before = o->f.threads();
  o->f.set_threads(o->dnn.device->threads);
  return before;
}

static void end_threads(const Onednn *o, int before) {
  if (before) o->f.set_threads(before);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

typedef struct Shape {
  int rank;
  int64_t size[DIMS], stride[DIMS];
} Shape;

/* [a, b, spatial..], where b's neighbours may lie side by side; of a filter with groups [groups, a / groups, ..] */
static Shape shape_of(const Convolution *c, int64_t groups, int64_t a, int64_t b, const int64_t *spatial) {
  Shape s = {0};
  if (groups > 1) s.size[s.rank++] = groups;
  s.size[s.rank++] = a / groups;
  s.size[s.rank++] = b;
  int channels = s.rank - 1;
  for (int d = 0; d < c->dims; d++) s.size[s.rank++] = spatial[d];
  int64_t all = c->channels_last ? b : 1;
  for (int d = s.rank - 1; d >= 0; d--) {
    bool last = d == channels && c->channels_last;
    s.stride[d] = last ? 1 : all;
    all *= last ? 1 : s.size[d];
  }
  return s;
}

/* The layout row by row, or any; NULL: it failed. */
static void *describe(const Onednn *o, const Shape *s, bool any) {
  const Functions *f = &o->f;
  void *d = NULL;
  int result;
  if (f->with_tag)
    result =
        any ? f->with_tag(&d, s->rank, s->size, FLOAT, ANY) : f->with_strides(&d, s->rank, s->size, FLOAT, s->stride);
  else if ((d = calloc(1, DESCRIPTOR_BYTES)) == NULL) return NULL;
  else
    result = any ? f->init_by_tag(d, s->rank, s->size, FLOAT, ANY)
                 : f->init_by_strides(d, s->rank, s->size, FLOAT, s->stride);
  if (!result) return d;
  if (!f->with_tag) free(d);
  return NULL;
}

static void forget(const Onednn *o, void *descriptor) {
  if (!o->f.with_tag) free(descriptor);
  else if (descriptor) o->f.memory_descriptor_destroy(descriptor);
}

/* Strides, dilations and paddings as the library has them. */
typedef struct How {
  int64_t stride[DIMS], dilation[DIMS], padding[DIMS];
} How;

static int forward(const Onednn *o, void *const *d, const How *h, int kind, void **out) {
  const Functions *f = &o->f;
  char operation[OPERATION_BYTES];
  if (f->forward_create)
    return f->forward_create(out, o->engine, kind, DIRECT, d[IMAGE], d[FILTER], NULL, d[RESULT], h->stride, h->dilation,
                             h->padding, h->padding, NULL);
  int result = f->forward_init(operation, kind, DIRECT, d[IMAGE], d[FILTER], NULL, d[RESULT], h->stride, h->dilation,
                               h->padding, h->padding);
  return result ? result : f->descriptor_create(out, operation, NULL, o->engine, NULL);
}

/* The gradients are described beside the forward convolution. */
static int backward(const Onednn *o, bool filter, void *const *d, const How *h, const void *beside, void **out) {
  const Functions *f = &o->f;
  char operation[OPERATION_BYTES];
  if (f->forward_create && filter)
    return f->filter_create(out, o->engine, DIRECT, d[IMAGE], d[FILTER], NULL, d[RESULT], h->stride, h->dilation,
                            h->padding, h->padding, beside, NULL);
  if (f->forward_create)
    return f->data_create(out, o->engine, DIRECT, d[IMAGE], d[FILTER], d[RESULT], h->stride, h->dilation, h->padding,
                          h->padding, beside, NULL);
  int result = filter ? f->filter_init(operation, DIRECT, d[IMAGE], d[FILTER], NULL, d[RESULT], h->stride, h->dilation,
                                       h->padding, h->padding)
                      : f->data_init(operation, DIRECT, d[IMAGE], d[FILTER], d[RESULT], h->stride, h->dilation,
                                     h->padding, h->padding);
  return result ? result : f->descriptor_create(out, operation, NULL, o->engine, beside);
}

static int convolution(const Onednn *o, const Convolution *c, void *const *any, void **out) {
  How h = {0};
  for (int d = 0; d < c->dims; d++) {
    h.stride[d] = c->stride[d];
    h.dilation[d] = c->dilation[d] - 1;
    h.padding[d] = c->padding[d];
  }
  if (c->part == CONVOLUTION_FORWARD) return forward(o, any, &h, INFERENCE, out);
  void *beside = NULL;
  int result = forward(o, any, &h, TRAINING, &beside);
  if (!result) result = backward(o, c->part == CONVOLUTION_FILTER, any, &h, beside, out);
  if (beside) o->f.descriptor_destroy(beside);
  return result;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static nereid_status reserve(Onednn *o, int64_t bytes, nereid_error **error) {
  if (bytes <= o->workspace_size) return NEREID_OK;
  void *more = NULL;
  nereid_status status = nereid_alloc(o->dnn.device, bytes, &more, error);
  if (status) return status;
  if (o->workspace) nereid_free(o->dnn.device, o->workspace);
  o->workspace = more;
  o->workspace_size = bytes;
  return NEREID_OK;
}

static nereid_status free_plan(void *arg, nereid_error **error) {
  OnednnPlan *p = arg;
  const Functions *f = &((Onednn *)p->plan.library)->f;
  for (int i = 0; i < ARRAYS; i++) {
    if (p->arrays[i].given) f->memory_destroy(p->arrays[i].given);
    if (p->arrays[i].wanted) f->memory_destroy(p->arrays[i].wanted);
    if (p->arrays[i].reorder) f->primitive_destroy(p->arrays[i].reorder);
  }
  if (p->primitive) f->primitive_destroy(p->primitive);
  return NEREID_OK;
}

/* An array as it lies, and as the primitive wants it, `*bytes` into the scratch array. */
static int plan_array(const Onednn *o, PlanArray *a, const void *lies, const void *wants, int64_t *bytes) {
  const Functions *f = &o->f;
  void *descriptor = NULL;
  int result = f->memory_create(&a->given, lies, o->engine, NULL);
  if (result || f->equal(lies, wants)) return result;
  const void *from = a->written ? wants : lies, *to = a->written ? lies : wants;
  a->first = *bytes;
  *bytes += ((int64_t)f->size(wants) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  result = f->memory_create(&a->wanted, wants, o->engine, NULL);
  if (!result) result = f->reorder(&descriptor, from, o->engine, to, o->engine, NULL);
  if (!result) result = f->primitive_create(&a->reorder, descriptor);
  if (descriptor) f->descriptor_destroy(descriptor);
  return result;
}

/* By part: what is asked of a primitive's descriptor for each array, its number as an argument, and which is written.
 */
static const struct {
  int query[ARRAYS], argument[ARRAYS], written;
} parts[CONVOLUTION_PARTS] = {{{129, 131, 133}, {1, 33, 17}, RESULT},
                              {{130, 131, 134}, {129, 33, 145}, IMAGE},
                              {{129, 132, 134}, {1, 161, 145}, FILTER}};

static int fill_plan(const Onednn *o, const Convolution *c, OnednnPlan *p, int64_t *bytes) {
  const Shape shapes[ARRAYS] = {shape_of(c, 1, c->n, c->channels, c->image),
                                shape_of(c, c->groups, c->filters, c->channels / c->groups, c->kernel),
                                shape_of(c, 1, c->n, c->filters, c->places)};
  void *lies[ARRAYS], *any[ARRAYS], *descriptor = NULL;
  int result = 0;
  for (int i = 0; i < ARRAYS; i++) {
    lies[i] = describe(o, &shapes[i], false);
    any[i] = describe(o, &shapes[i], i == FILTER || !c->channels_last);
    if (!lies[i] || !any[i]) result = OUT_OF_MEMORY;
  }
  if (!result) result = convolution(o, c, any, &descriptor);
  for (int i = 0; i < ARRAYS && !result; i++) {
    p->arrays[i].argument = parts[c->part].argument[i];
    p->arrays[i].written = parts[c->part].written == i;
    const void *wants = o->f.query(descriptor, parts[c->part].query[i], 0);
    result = plan_array(o, &p->arrays[i], lies[i], wants, bytes);
  }
  if (!result) result = o->f.primitive_create(&p->primitive, descriptor);
  if (descriptor) o->f.descriptor_destroy(descriptor);
  for (int i = 0; i < ARRAYS; i++) {
    forget(o, lies[i]);
    forget(o, any[i]);
  }
  return result;
}

static nereid_status start(Onednn *o, nereid_error **error) {
  nereid_status status = NEREID_OK;
  if (!o->engine) status = check(o, o->f.engine_create(&o->engine, CPU, 0), "dnnl_engine_create", error);
  if (!status && !o->stream)
    status = check(o, o->f.stream_create(&o->stream, o->engine, IN_ORDER), "dnnl_stream_create", error);
  return status;
}

static nereid_status make_plan(void *arg, nereid_error **error) {
  const DnnCall *call = arg;
  Onednn *o = (Onednn *)call->library;
  int64_t bytes = 0;
  nereid_status status = start(o, error);
  if (!status && *call->way > 0) status = error_set(error, NEREID_UNSUPPORTED, NULL, "%s goes one way", o->dnn.name);
  OnednnPlan *plan = status ? NULL : calloc(1, sizeof *plan);
  if (!plan) return status ? status : error_out_of_memory(error);
  plan->plan = (DnnPlan){call->library, call->convolution->sizes.part};
  int before = begin_threads(o), result = fill_plan(o, &call->convolution->sizes, plan, &bytes);
  end_threads(o, before);
  status = check(o, result, "a convolution", error);
  if (!status) status = reserve(o, bytes, error);
  if (status) {
    free_plan(plan, NULL);
    free(plan);
  } else *call->plan = &plan->plan;
  return status;
}

static int reorder(const Onednn *o, const PlanArray *a) {
  const Argument all[] = {{FROM, a->written ? a->wanted : a->given}, {TO, a->written ? a->given : a->wanted}};
  return a->reorder ? o->f.execute(a->reorder, o->stream, 2, all) : 0;
}

static nereid_status run(void *arg, nereid_error **error) {
  const DnnRun *r = arg;
  const OnednnPlan *p = (OnednnPlan *)r->plan;
  const Onednn *o = (Onednn *)p->plan.library;
  const void *at[ARRAYS] = {r->image, r->filter, r->result};
  Argument all[ARRAYS];
  int before = begin_threads(o), result = 0;
  for (int i = 0; i < ARRAYS && !result; i++) {
    const PlanArray *a = &p->arrays[i];
    result = o->f.memory_set(a->given, (void *)at[i]);
    if (!result && a->wanted) result = o->f.memory_set(a->wanted, (char *)o->workspace + a->first);
    if (!result && !a->written) result = reorder(o, a);
    all[i] = (Argument){a->argument, a->wanted ? a->wanted : a->given};
  }
  if (!result) result = o->f.execute(p->primitive, o->stream, ARRAYS, all);
  for (int i = 0; i < ARRAYS && !result; i++)
    if (p->arrays[i].written) result = reorder(o, &p->arrays[i]);
  if (!result) result = o->f.stream_wait(o->stream);
  end_threads(o, before);
  return check(o, result, "a convolution", error);
}

static nereid_status end(void *arg, nereid_error **error) {
  Onednn *o = arg;
  if (o->stream) o->f.stream_destroy(o->stream);
  if (o->engine) o->f.engine_destroy(o->engine);
  if (o->workspace) nereid_free(o->dnn.device, o->workspace);
  return NEREID_OK;
}

static const char *missing_of(const Functions *f) {
  bool second =
      f->init_by_tag && f->init_by_strides && f->forward_init && f->data_init && f->filter_init && f->descriptor_create;
  bool third = f->with_tag && f->with_strides && f->memory_descriptor_destroy && f->forward_create && f->data_create &&
               f->filter_create;
  return second || third ? NULL : "dnnl_convolution_forward_primitive_desc_create";
}

nereid_status onednn_open(Dnn **out, nereid_error **error) {
  static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", NULL};
  void *library = library_open("NEREID_LIBDNNL", names);
  if (!library) {
    const char *why = dlerror();
    return error_set(error, NEREID_UNSUPPORTED, hint, "oneDNN was not found: %s", why ? why : "it cannot be opened");
  }
  Onednn *o = calloc(1, sizeof *o);
  if (!o) return error_out_of_memory(error);
  const char *missing = library_take(library, symbols, sizeof symbols / sizeof *symbols, &o->f);
  if (!missing) missing = missing_of(&o->f);
  if (missing) {
    free(o);
    return error_set(error, NEREID_UNSUPPORTED, hint, "this is no oneDNN 2 or 3: it has no %s", missing);
  }
  const Version *v = o->f.version();
  o->dnn.plan = make_plan;
  o->dnn.run = run;
  o->dnn.free_plan = free_plan;
  o->dnn.close = end;
  library_of(*(void **)&o->f.execute, o->dnn.path);
  snprintf(o->dnn.name, sizeof o->dnn.name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
  *out = &o->dnn;
  return NEREID_OK;
}
