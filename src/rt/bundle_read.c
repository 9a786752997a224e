/* Reading a bundle. Nothing in it is believed: each length is held against what is left, each number against what it
 * stands for, so that a file which was cut off or changed is an error and never a wrong access.
 */
#include <stdlib.h>

#include "rt/bundle.h"

/* What is read lies in blocks that go together. */
struct BundleBlock {
  struct BundleBlock *next;
  _Alignas(16) char bytes[];
};

typedef struct Reader {
  const unsigned char *at, *end;
  const unsigned char *code;
  size_t code_bytes;
  struct BundleBlock *blocks;
  char *free; /* of the newest block, `room` bytes */
  size_t room;
  bool bad, no_memory;
} Reader;

/* n of `each` bytes, zeroed; NULL: what is read is bad, or memory ran out. */
static void *take(Reader *r, size_t n, size_t each) {
  enum { BLOCK = 1 << 16 };
  if (r->bad || n > (size_t)1 << 24) return r->bad = true, NULL;
  size_t bytes = (n * each + 16) / 16 * 16; /* one byte more at least */
  if (bytes > r->room) {
    size_t size = bytes > BLOCK / 4 ? bytes : BLOCK;
    struct BundleBlock *b = calloc(1, sizeof *b + size);
    if (!b) return r->bad = r->no_memory = true, NULL;
    b->next = r->blocks;
    r->blocks = b;
    r->free = b->bytes, r->room = size;
  }
  void *p = r->free;
  r->free += bytes, r->room -= bytes;
  return p;
}

static bool left(Reader *r, size_t n) {
  if (!r->bad && (size_t)(r->end - r->at) >= n) return true;
  r->bad = true;
  return false;
}

static uint64_t number(Reader *r, int bytes) {
  if (!left(r, (size_t)bytes)) return 0;
  uint64_t v = 0;
  for (int i = 0; i < bytes; i++) v |= (uint64_t)r->at[i] << 8 * i;
  r->at += bytes;
  return v;
}

static uint32_t u32(Reader *r) { return (uint32_t)number(r, 4); }
static int64_t i64(Reader *r) { return (int64_t)number(r, 8); }

static int64_t within(Reader *r, int64_t least, int64_t most) {
  int64_t v = i64(r);
  if (v >= least && v <= most) return v;
  r->bad = true;
  return least;
}

/* A number of things that take a byte at least. */
static int count(Reader *r, int most) {
  uint32_t n = u32(r);
  if (n <= (uint32_t)most && left(r, n)) return (int)n;
  r->bad = true;
  return 0;
}

static const char *text(Reader *r) {
  uint32_t n = u32(r);
  if (!left(r, (size_t)n + 1) || r->at[n] || memchr(r->at, 0, n)) return r->bad = true, "";
  const char *s = (const char *)r->at;
  r->at += (size_t)n + 1;
  return s;
}

static Dtype dtype(Reader *r) { return (Dtype)within(r, 0, DT_COUNT - 1); }

static const void *blob(Reader *r, size_t *bytes, uint64_t *hash) {
  uint64_t offset = number(r, 8), size = number(r, 8);
  *bytes = (size_t)size, *hash = number(r, 8);
  if (!size && !offset) return NULL;
  if (!r->bad && offset % BUNDLE_ALIGN == 0 && offset <= r->code_bytes && size <= r->code_bytes - offset)
    return r->code + offset;
  r->bad = true;
  return NULL;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void read_slots(Reader *r, BundleCode *c, int params) {
  c->slot_count = count(r, 4 * BUNDLE_MOST_PARAMS);
  c->slots = take(r, (size_t)c->slot_count, sizeof *c->slots);
  for (int i = 0; i < c->slot_count && !r->bad; i++)
    c->slots[i] =
        (ArgSlot){.param = (int)within(r, 0, params - 1), .dtype = dtype(r), .is_pointer = within(r, 0, 1) != 0};
}

static void read_spans(Reader *r, const BundleCode *c, GpuLaunchPlan *p) {
  int hidden = c->persistent ? 3 : 0;
  p->span_count = count(r, GPU_PLAN_STEPS);
  p->spans = take(r, (size_t)p->span_count, sizeof *p->spans);
  for (int i = 0; i < p->span_count && !r->bad; i++) {
    SpanStep *s = &p->spans[i];
    s->code = (SpanCode)within(r, 0, SPAN_CODES_COUNT - 1);
    s->type = dtype(r), s->lo = i64(r), s->hi = i64(r);
    for (int k = 0; k < 3; k++) s->in[k] = (int)within(r, 0, i ? i - 1 : 0);
    int64_t end = s->code == SPAN_ARGUMENT ? c->slot_count + hidden : s->code == SPAN_PROGRAMS ? 3 : INT64_MAX;
    if (end < INT64_MAX && (s->lo < 0 || s->lo >= end)) r->bad = true;
    if (s->code == SPAN_BYTES && (s->lo < 1 || s->lo > 64)) r->bad = true;
    if (!i && s->code < SPAN_OF) r->bad = true; /* it takes what is not there */
  }
  p->apart_count = count(r, GPU_PLAN_APARTS);
  p->aparts = take(r, (size_t)p->apart_count, sizeof *p->aparts);
  for (int i = 0; i < p->apart_count && !r->bad; i++)
    for (int k = 0; k < 2; k++) {
      p->aparts[i].argument[k] = (int)within(r, 0, c->slot_count - 1);
      p->aparts[i].span[k] = (int)within(r, 0, p->span_count - 1);
    }
}

static void read_plan(Reader *r, BundleCode *c) {
  if (!within(r, 0, 1) || r->bad) return;
  GpuLaunchPlan *p = take(r, 1, sizeof *p);
  if (!p) return;
  p->step_count = count(r, GPU_PLAN_STEPS);
  p->steps = take(r, (size_t)p->step_count, sizeof *p->steps);
  int hidden = c->persistent ? 3 : 0; /* the grid comes after the slots */
  for (int i = 0; i < p->step_count && !r->bad; i++) {
    GpuStep *s = &p->steps[i];
    if (!gpu_plan_code((int)within(r, 0, 255), &s->code)) r->bad = true;
    s->type = dtype(r), s->from = dtype(r);
    s->attr = i64(r);
    for (int k = 0; k < 3; k++) s->in[k] = (int)within(r, 0, i ? i - 1 : 0);
    if (s->code == OP_COUNT && (s->attr < 0 || s->attr >= c->slot_count + hidden)) r->bad = true;
  }
  p->require_count = count(r, GPU_PLAN_STEPS);
  p->requires = take(r, (size_t)p->require_count, sizeof *p->requires);
  for (int i = 0; i < p->require_count && !r->bad; i++) p->requires[i] = (int)within(r, 0, p->step_count - 1);
  p->map_count = count(r, GPU_PLAN_MAPS);
  p->maps = take(r, (size_t)p->map_count, sizeof *p->maps);
  for (int i = 0; i < p->map_count && !r->bad; i++) {
    GpuMapPlan *m = &p->maps[i];
    m->dtype = dtype(r);
    m->rank = (uint8_t)within(r, 1, GPU_MAP_MOST_RANK), m->swizzle = (uint8_t)within(r, 0, 3);
    m->base = (int)within(r, 0, p->step_count - 1);
    for (int k = 0; k < m->rank; k++) {
      m->box[k] = (uint16_t)within(r, 1, 65535);
      m->sizes[k] = (int)within(r, 0, p->step_count - 1);
      if (k) m->strides[k - 1] = (int)within(r, 0, p->step_count - 1);
    }
  }
  p->may_copy = within(r, 0, 1) != 0;
  read_spans(r, c, p);
  c->plan = p;
}

/* What a diagnostic says at a place, with the mark where the message goes. */
static char *place(Reader *r) {
  const char *s = text(r);
  if (*s && !strstr(s, ASSERT_MARK)) r->bad = true;
  return (char *)s;
}

static void read_places(Reader *r, BundleCode *c) {
  AssertLocation **end = &c->places;
  for (int n = count(r, 1 << 16); n && !r->bad; n--) {
    AssertLocation *p = take(r, 1, sizeof *p);
    if (!p) return;
    p->line = (int)within(r, 0, INT32_MAX), p->column = (int)within(r, 0, INT32_MAX);
    p->path = (char *)text(r), p->text = place(r);
    if (!*p->text) r->bad = true;
    *end = p;
    end = &p->next;
  }
}

static void read_sites(Reader *r, BundleCode *c) {
  int n = count(r, 1 << 16);
  if (!n || r->bad) return;
  DiagSites *sites = take(r, 1, sizeof *sites + sizeof *sites->site * (size_t)n);
  if (!sites) return;
  sites->count = n;
  for (int i = 0; i < n && !r->bad; i++) {
    DiagSite *s = &sites->site[i];
    s->is_assert = within(r, 0, 1) != 0, s->hex = within(r, 0, 1) != 0;
    s->value_count = (int)within(r, 0, 4096);
    s->type_count = count(r, 4096);
    s->types = take(r, (size_t)s->type_count + 1, sizeof *s->types);
    for (int k = 0; k < s->type_count && !r->bad; k++) {
      Type *t = &s->types[k];
      t->dtype = dtype(r), t->ptr = (int)within(r, 0, 1), t->rank = (int)within(r, 0, MAX_RANK);
      for (int d = 0; d < t->rank; d++) t->shape[d] = (int32_t)within(r, 1, MAX_TILE_ELEMENTS);
    }
    if (!s->is_assert && s->type_count != s->value_count) r->bad = true;
    s->text = (char *)text(r), s->place = place(r), s->path = (char *)text(r);
    if (!*s->place) s->place = NULL;
    s->line = (int)within(r, 0, INT32_MAX), s->column = (int)within(r, 0, INT32_MAX);
  }
  c->sites = sites;
}

static void read_code(Reader *r, BundleCode *c, int params) {
  c->kind = (CodeKind)within(r, 0, CODE_COUNT - 1);
  c->target = text(r), c->entry = text(r);
  c->sm = (int)within(r, 0, 10000), c->exact = within(r, 0, 1) != 0;
  c->machine = (int)within(r, 0, 65535);
  c->feature_count = count(r, PROCESSOR_MOST_FEATURES);
  c->features = take(r, (size_t)c->feature_count, sizeof *c->features);
  for (int i = 0; i < c->feature_count && !r->bad; i++) c->features[i] = text(r);
  c->num_warps = (int)within(r, 0, 64), c->shared_bytes = (int)within(r, 0, 1 << 24);
  c->blocks = (int)within(r, 0, 1024);
  c->persistent = within(r, 0, 1) != 0, c->programs_wait = within(r, 0, 1) != 0;
  read_slots(r, c, params);
  read_plan(r, c);
  read_places(r, c);
  read_sites(r, c);
  c->image = blob(r, &c->image_bytes, &c->image_hash), c->overlap = blob(r, &c->overlap_bytes, &c->overlap_hash);
  if (!c->image || (c->kind == CODE_PTX && ((const char *)c->image)[c->image_bytes - 1])) r->bad = true;
}

static void read_variant(Reader *r, BundleVariant *v, int params) {
  v->condition_count = count(r, 4 * BUNDLE_MOST_PARAMS);
  v->conditions = take(r, (size_t)v->condition_count, sizeof *v->conditions);
  for (int i = 0; i < v->condition_count && !r->bad; i++)
    v->conditions[i] = (BundleCondition){.kind = (ConditionKind)within(r, 0, CONDITION_COUNT - 1),
                                         .param = (int)within(r, 0, params - 1),
                                         .value = i64(r)};
  v->constant_count = count(r, 2 * BUNDLE_MOST_PARAMS);
  v->constants = take(r, (size_t)v->constant_count, sizeof *v->constants);
  for (int i = 0; i < v->constant_count && !r->bad; i++) v->constants[i].name = text(r), v->constants[i].value = i64(r);
  v->code_count = count(r, 256);
  v->codes = take(r, (size_t)v->code_count, sizeof *v->codes);
  for (int i = 0; i < v->code_count && !r->bad; i++) read_code(r, &v->codes[i], params);
}

bool grid_program_fits(const GridProgram *g, int param_count) {
  static const signed char effect[GRID_OP_COUNT] = {1, 1, 1, -1, -1, -1, -1, -1, 0, -1, -1, -1, 0};
  int depth = 0;
  for (int i = 0; i < g->count; i++) {
    const GridStep *s = &g->steps[i];
    if (depth < 1 - (effect[s->op] > 0) - effect[s->op] * (effect[s->op] < 0)) return false;
    if (s->op == GRID_PARAM && (s->value < 0 || s->value >= param_count)) return false;
    depth += effect[s->op];
    if (depth < 1 || depth > GRID_MOST_DEPTH) return false;
  }
  return !g->count || depth == 1;
}

static void read_grid(Reader *r, GridProgram *g, int params) {
  g->count = count(r, GRID_MOST_STEPS);
  g->steps = take(r, (size_t)g->count, sizeof *g->steps);
  for (int i = 0; i < g->count && !r->bad; i++) {
    g->steps[i].op = (GridOp)within(r, 0, GRID_OP_COUNT - 1);
    g->steps[i].value = i64(r), g->steps[i].name = text(r);
  }
  if (!r->bad && !grid_program_fits(g, params)) r->bad = true;
}

/* Whether what belongs to a parameter is there, and of the right kind; the place of the next one. */
static int check_param(Reader *r, const BundleEntry *e, int at, int depth) {
  const BundleParam *p = &e->params[at];
  int end = at + p->size, parts = p->kind == PARAM_DESCRIPTOR ? 2 * p->rank : 0;
  if (p->kind == PARAM_TUPLE) {
    int i = at + 1;
    while (i < end && depth < ARG_NESTING && !r->bad) i = check_param(r, e, i, depth + 1);
    if (i != end) r->bad = true;
    return end;
  }
  if (p->size != 1 + parts || (p->kind == PARAM_DESCRIPTOR) != (p->rank > 0)) r->bad = true;
  for (int i = 1; i <= parts && !r->bad; i++)
    if (e->params[at + i].kind != PARAM_INT || e->params[at + i].size != 1) r->bad = true;
  return end;
}

static void read_entry(Reader *r, BundleEntry *e) {
  e->name = text(r), e->path = text(r);
  e->param_count = count(r, BUNDLE_MOST_PARAMS);
  e->params = take(r, (size_t)e->param_count, sizeof *e->params);
  e->param_names = take(r, (size_t)e->param_count + 1, sizeof *e->param_names);
  for (int i = 0; i < e->param_count && !r->bad; i++) {
    BundleParam *p = &e->params[i];
    p->name = e->param_names[i] = text(r);
    p->kind = (ParamKind)within(r, 0, PARAM_KIND_COUNT - 1), p->dtype = dtype(r);
    p->constant = text(r);
    p->size = (int)within(r, 1, e->param_count - i);
    p->rank = (int)within(r, 0, DESCRIPTOR_MOST_RANK), p->nan_padding = within(r, 0, 1) != 0;
    for (int d = 0; d < p->rank; d++) p->block_shape[d] = (int32_t)within(r, 1, INT32_MAX);
  }
  for (int i = 0; i < e->param_count && !r->bad;) i = check_param(r, e, i, 0);
  e->has_grid = within(r, 0, 1) != 0;
  for (int d = 0; d < 3 && !r->bad; d++) read_grid(r, &e->grid[d], e->param_count);
  e->variant_count = count(r, 4096);
  e->variants = take(r, (size_t)e->variant_count, sizeof *e->variants);
  for (int i = 0; i < e->variant_count && !r->bad; i++) read_variant(r, &e->variants[i], e->param_count);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void free_blocks(struct BundleBlock *b) {
  for (struct BundleBlock *next; b; b = next) next = b->next, free(b);
}

void bundle_free(Bundle *b) {
  free_blocks(b->blocks);
  *b = (Bundle){0};
}

static nereid_status damaged(const char *name, const char *why, nereid_error **error) {
  return error_set(error, NEREID_BAD_FILE, "build it again with nereid build", "%s is no bundle that can be used: %s",
                   name, why);
}

nereid_status bundle_check_code(const char *kernel, const void *image, size_t bytes, uint64_t hash,
                                nereid_error **error) {
  if (hash_bytes(image, bytes, 0) == hash) return NEREID_OK;
  return error_set(error, NEREID_BAD_FILE, "build it again with nereid build",
                   "the code of kernel '%s' was changed or damaged (its checksum is not right)", kernel);
}

nereid_status bundle_read(const char *name, const void *bytes, size_t size, Bundle *out, nereid_error **error) {
  const unsigned char *at = bytes;
  Reader r = {.at = at, .end = at + (size < BUNDLE_HEADER ? size : BUNDLE_HEADER)};
  char why[120];
  if (size < sizeof BUNDLE_MAGIC - 1 || memcmp(at, BUNDLE_MAGIC, sizeof BUNDLE_MAGIC - 1))
    return damaged(name, size ? "it is another kind of file" : "it is empty", error);
  r.at += sizeof BUNDLE_MAGIC - 1;
  uint32_t format = u32(&r);
  u32(&r);
  uint64_t whole = number(&r, 8), hash = number(&r, 8);
  if (!r.bad && format != BUNDLE_FORMAT)
    return error_set(error, NEREID_BAD_FILE, "build it again with the nereid build of this version",
                     "%s is a bundle of format %u; this is Nereid %s, which takes format %d", name, format,
                     NEREID_VERSION, BUNDLE_FORMAT);
  if (r.bad || whole > size) {
    snprintf(why, sizeof why, "it was cut off: %zu bytes are there", size);
    return damaged(name, why, error);
  }
  r.end = at + whole;
  uint64_t entries_bytes = whole < BUNDLE_HEADER + 8 ? UINT64_MAX : number(&r, 8);
  if (entries_bytes > (uint64_t)(r.end - r.at) || hash != hash_bytes(at + BUNDLE_HEADER, (size_t)entries_bytes + 8, 0))
    return damaged(name, "it was changed or damaged (its checksum is not right)", error);
  r.code = r.at + entries_bytes; /* aligned, as the whole is */
  r.code_bytes = (size_t)(r.end - r.code);
  r.end = r.code;
  Bundle b = {.made_by = text(&r)};
  b.entry_count = count(&r, 1 << 20);
  b.entries = take(&r, (size_t)b.entry_count, sizeof *b.entries);
  for (int i = 0; i < b.entry_count && !r.bad; i++) read_entry(&r, &b.entries[i]);
  while (!r.bad && r.at < r.end && !*r.at) r.at++; /* the code is aligned */
  if (r.bad || r.at != r.end) {
    free_blocks(r.blocks);
    return r.no_memory ? error_out_of_memory(error) : damaged(name, "what it says makes no sense", error);
  }
  b.blocks = r.blocks;
  *out = b;
  return NEREID_OK;
}
