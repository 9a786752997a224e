#include "fakes/cudnn.h"

#include <stdlib.h>

#include "base/base.h"

#define EXPORT __attribute__((visibility("default")))
enum { MOST_VALUES = 8, MOST_SET = 16 };
enum { CONVOLUTION = 1, ENGINE = 2, CONFIG = 3, HEURISTICS = 4, PLAN = 5, FORWARD = 10, FILTER = 11, DATA = 12 };
enum { GRAPH = 15, PACK = 16, TENSOR = 17, BAD_PARAM = 2000 };

typedef union Value {
  int32_t i;
  int64_t n;
  float f;
  void *p;
} Value;
typedef struct Descriptor {
  int kind;
  bool final;
  int way; /* of a configuration, and its engine */
  struct Descriptor *graph;
  int set_count;
  struct {
    int name, type, count;
    Value value[MOST_VALUES];
  } set[MOST_SET];
} Descriptor;

static FakeCudnn fake;
static void *stream;
EXPORT FakeCudnn *fake_cudnn(void) { return &fake; }

static int refuse(void) {
  fake.wrong++;
  return BAD_PARAM;
}

EXPORT int cudnnCreate(void **out) {
  if (fake.create_result) return fake.create_result;
  fake.handles++;
  *out = &fake;
  return 0;
}
EXPORT int cudnnDestroy(void *h) { return h == &fake ? (fake.handles--, 0) : refuse(); }
EXPORT int cudnnSetStream(void *h, void *s) {
  stream = s;
  return h == &fake ? 0 : refuse();
}
EXPORT size_t cudnnGetVersion(void) { return 91902; }

EXPORT int cudnnBackendCreateDescriptor(int kind, void **out) {
  Descriptor *d = calloc(1, sizeof *d);
  if (!d) return 4003;
  d->kind = kind;
  fake.descriptors++;
  *out = d;
  return 0;
}
EXPORT int cudnnBackendDestroyDescriptor(void *d) {
  fake.descriptors--;
  free(d);
  return 0;
}

static size_t size_of(int type) { return type == 3 || type == 0 || type == 6 || type == 15 ? 8 : 4; }

EXPORT int cudnnBackendSetAttribute(void *of, int name, int type, int64_t count, const void *values) {
  Descriptor *d = of;
  if (d->final || count < 1 || count > MOST_VALUES || d->set_count == MOST_SET) return refuse();
  d->set[d->set_count].name = name;
  d->set[d->set_count].type = type;
  d->set[d->set_count].count = (int)count;
  for (int64_t i = 0; i < count; i++)
    memcpy(&d->set[d->set_count].value[i], (const char *)values + (size_t)i * size_of(type), size_of(type));
  d->set_count++;
  return 0;
}

/* What was set, of that type; NULL: not so. */
static const Value *value(const Descriptor *d, int name, int type, int count) {
  for (int i = 0; i < d->set_count; i++)
    if (d->set[i].name == name && d->set[i].type == type && (!count || d->set[i].count == count))
      return d->set[i].value;
  fake.wrong++;
  return NULL;
}

static Descriptor *other(const Descriptor *d, int name) {
  const Value *v = value(d, name, 15, 1);
  Descriptor *of = v ? v->p : NULL;
  if (of && !of->final && of->kind != CONFIG) fake.wrong++;
  return of;
}

EXPORT int cudnnBackendFinalize(void *of) {
  Descriptor *d = of;
  if (d->kind == GRAPH && fake.graph_result) return fake.graph_result;
  if (d->kind == GRAPH && !value(d, 800, 0, 1)) return BAD_PARAM;
  if (d->kind == PLAN) {
    const Descriptor *config = other(d, 401);
    if (!config || !value(d, 400, 0, 1)) return BAD_PARAM;
    d->way = config->way;
    d->graph = config->graph;
    if (fake.plan_result[d->way]) return fake.plan_result[d->way];
  }
  d->final = true;
  return 0;
}

/* Graphs die before their plans: a configuration has a copy of the operation and its tensors. */
static Descriptor *operation_of(const Descriptor *graph) { return other(graph, 801); }

static Descriptor *kept[1024];
static int kept_count;

static Descriptor *keep(const Descriptor *d) {
  Descriptor *copy = malloc(sizeof *copy);
  *copy = *d;
  for (int i = 0; i < copy->set_count; i++)
    if (copy->set[i].type == 15) copy->set[i].value[0].p = keep(copy->set[i].value[0].p);
  return copy;
}

static int results(const Descriptor *heuristics, int64_t most, int64_t *count, void **out) {
  const Value *mode = value(heuristics, 200, 8, 1);
  const Descriptor *graph = other(heuristics, 201);
  if (!mode || !graph) return BAD_PARAM;
  int first = mode->i == 3 ? 0 : 4, n = mode->i == 3 ? 4 : 2;
  *count = most && most < n ? most : n;
  if (!most) return 0;
  Descriptor *operation = keep(operation_of(graph));
  if (kept_count < 1024) kept[kept_count++] = operation;
  for (int i = 0; i < *count; i++) {
    Descriptor *config = out[i];
    if (config->kind != CONFIG) return refuse();
    config->way = first + i;
    config->graph = operation;
  }
  return 0;
}

EXPORT int cudnnBackendGetAttribute(void *of, int name, int type, int64_t most, int64_t *count, void *out) {
  const Descriptor *d = of;
  *count = 1;
  if (d->kind == HEURISTICS && name == 202 && type == 15) return results(d, most, count, out);
  if (d->kind == CONFIG && name == 300 && type == 15) {
    Descriptor *engine = *(void **)out;
    engine->way = d->way;
    return 0;
  }
  if (d->kind == ENGINE && name == 1303 && type == 11) {
    *count = fake.note[d->way] >= 0;
    if (*count) *(int *)out = fake.note[d->way];
    return 0;
  }
  if (d->kind != PLAN || name != 402 || type != 3) return refuse();
  *(int64_t *)out = fake.workspace[d->way];
  return 0;
}

/* ---- a convolution ----------------------------------------------------------------------------------------------- */

typedef struct Array {
  Dtype type;
  const Value *size;
  int64_t channels, places; /* channels last: so many, at so many places; 0: row by row */
  char *at;
} Array;

static int rank;

static Array array_of(const Descriptor *tensor, const Value *ids, const Value *at) {
  Array a = {0};
  int type = value(tensor, 901, 1, 1)->i;
  a.type = type == 0 ? DT_F32 : type == 2 ? DT_F16 : DT_BF16;
  a.size = value(tensor, 902, 3, rank);
  const Value *stride = value(tensor, 903, 3, rank);
  int64_t rows = 1, last = a.size[1].n;
  bool is_rows = true, is_last = stride[1].n == 1;
  for (int d = rank - 1; d >= 0; d--) {
    is_rows &= stride[d].n == rows;
    is_last &= d == 1 || stride[d].n == last;
    rows *= a.size[d].n;
    last *= d == 1 ? 1 : a.size[d].n;
  }
  if (!is_rows && !is_last) fake.wrong++;
  fake.channels_last = is_last && !is_rows;
  if (fake.channels_last) {
    a.channels = a.size[1].n;
    a.places = rows / a.size[0].n / a.channels;
  }
  for (int i = 0; i < 3; i++)
    if (ids[i].n == value(tensor, 906, 3, 1)->n) a.at = at[i].p;
  fake.alignment = value(tensor, 900, 3, 1)->n;
  if (!a.at || (uintptr_t)a.at % (uintptr_t)fake.alignment) fake.wrong++;
  return a;
}

/* Of the element that is the i-th in rows. */
static char *element(const Array *a, int64_t i) {
  if (a->channels) {
    int64_t n = i / a->places / a->channels, c = i / a->places % a->channels, place = i % a->places;
    i = (n * a->places + place) * a->channels + c;
  }
  return a->at + i * dtype_bytes(a->type);
}
static double load(const Array *a, int64_t i) { return dtype_load_float(a->type, element(a, i)); }

/* Everything in three dims, those that are not there of size 1. */
typedef struct Sizes {
  int64_t image[3], kernel[3], places[3], stride[3], padding[3], dilation[3];
} Sizes;

static Sizes sizes_of(const Descriptor *how, const Array *x, const Array *w, const Array *y) {
  Sizes s;
  int dims = rank - 2;
  for (int d = 0; d < 3; d++) {
    bool there = d < dims;
    s.image[d] = there ? x->size[2 + d].n : 1;
    s.kernel[d] = there ? w->size[2 + d].n : 1;
    s.places[d] = there ? y->size[2 + d].n : 1;
    s.stride[d] = there ? value(how, 103, 3, dims)[d].n : 1;
    s.padding[d] = there ? value(how, 105, 3, dims)[d].n : 0;
    s.dilation[d] = there ? value(how, 102, 3, dims)[d].n : 1;
    if (there && value(how, 104, 3, dims)[d].n != s.padding[d]) fake.wrong++;
  }
  if (value(how, 106, 3, 1)->n != dims || value(how, 101, 7, 1)->i != 1 || value(how, 100, 1, 1)->i != 0) fake.wrong++;
  return s;
}

static bool inside(const Sizes *s, int64_t o, int64_t k, int64_t *at) {
  int64_t size = 1;
  bool good = true;
  *at = 0;
  for (int d = 2; d >= 0; d--) {
    int64_t i = o % s->places[d] * s->stride[d] + k % s->kernel[d] * s->dilation[d] - s->padding[d];
    good &= i >= 0 && i < s->image[d];
    *at += i * size;
    size *= s->image[d];
    o /= s->places[d];
    k /= s->kernel[d];
  }
  return good;
}

static void convolve(int kind, const Sizes *s, const Array *x, const Array *w, const Array *y) {
  int64_t n = x->size[0].n, channels = x->size[1].n, filters = w->size[0].n, each = w->size[1].n, at;
  int64_t image = s->image[0] * s->image[1] * s->image[2], kernel = s->kernel[0] * s->kernel[1] * s->kernel[2];
  int64_t places = s->places[0] * s->places[1] * s->places[2], groups = channels / each;
  const Array *to = kind == FORWARD ? y : kind == DATA ? x : w;
  int64_t count = kind == FORWARD ? n * filters * places
                  : kind == DATA  ? n * channels * image
                                  : filters * each * kernel;
  double *sum = calloc((size_t)count, sizeof *sum);
  for (int64_t i = 0; i < n * filters * places; i++)
    for (int64_t k = 0; k < each * kernel; k++) {
      int64_t f = i / places % filters, c = f / (filters / groups) * each + k / kernel;
      if (!inside(s, i % places, k % kernel, &at)) continue;
      int64_t of_x = (i / places / filters * channels + c) * image + at, of_w = f * each * kernel + k;
      if (kind == FORWARD) sum[i] += load(x, of_x) * load(w, of_w);
      else if (kind == DATA) sum[of_x] += load(y, i) * load(w, of_w);
      else sum[of_w] += load(x, of_x) * load(y, i);
    }
  for (int64_t i = 0; i < count; i++) dtype_store_float(to->type, element(to, i), sum[i]);
  free(sum);
}

EXPORT int cudnnBackendExecute(void *h, void *of, void *given) {
  const Descriptor *plan = of, *pack = given;
  if (h != &fake || plan->kind != PLAN || !plan->final || pack->kind != PACK || !pack->final) return refuse();
  fake.calls++;
  fake.way = plan->way;
  fake.stream = stream;
  if (fake.execute_result) return fake.execute_result;
  const Descriptor *operation = plan->graph;
  const Value *ids = value(pack, 1000, 3, 3), *at = value(pack, 1001, 6, 3), *memory = value(pack, 1003, 6, 1);
  int first = operation->kind == FORWARD ? 700 : operation->kind == DATA ? 706 : 712;
  const Descriptor *x = other(operation, first + 4);
  if (fake.workspace[plan->way] && !memory->p) return refuse();
  if (value(operation, first, 4, 1)->f != 1 || value(operation, first + 1, 4, 1)->f != 0) return refuse();
  rank = 0;
  for (int i = 0; i < x->set_count; i++)
    if (x->set[i].name == 902) rank = x->set[i].count;
  fake.dims = rank;
  Array image = array_of(x, ids, at), filter = array_of(other(operation, first + 3), ids, at);
  Array result = array_of(other(operation, first + 5), ids, at);
  if (memory->p) memset(memory->p, 0xff, (size_t)fake.workspace[plan->way]); /* it is ours to write */
  Sizes s = sizes_of(other(operation, first + 2), &image, &filter, &result);
  if (!fake.idle) convolve(operation->kind, &s, &image, &filter, &result);
  return 0;
}
