/* A bundle's bytes: what rt/bundle_read.c reads, in the same order. */
#include "aot/aot.h"

static void number(Buf *out, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) buf_putc(out, (char)(v >> 8 * i));
}
static void i64(Buf *out, int64_t v) { number(out, (uint64_t)v, 8); }
static void count(Buf *out, int n) { number(out, (uint64_t)n, 4); }

static void text(Buf *out, const char *s) {
  size_t n = s ? strlen(s) : 0;
  number(out, n, 4);
  buf_write(out, s ? s : "", n);
  buf_putc(out, 0);
}

/* Code that is there already is not written twice. */
typedef struct Blobs {
  Buf bytes;
  struct Blob {
    size_t offset, size;
  } * at;
  int n;
} Blobs;

static void blob(Buf *out, Blobs *b, Arena *a, const void *bytes, size_t size) {
  if (!bytes) {
    i64(out, 0), i64(out, 0), i64(out, 0);
    return;
  }
  int i = 0;
  while (i < b->n && (b->at[i].size != size || memcmp(b->bytes.at + b->at[i].offset, bytes, size))) i++;
  if (i == b->n) {
    if ((b->n & (b->n - 1)) == 0) {
      struct Blob *more = NEW_N(a, struct Blob, 2 * b->n + 2);
      if (b->n) memcpy(more, b->at, sizeof *more * (size_t)b->n);
      b->at = more;
    }
    while (b->bytes.n % BUNDLE_ALIGN) buf_putc(&b->bytes, 0);
    b->at[b->n++] = (struct Blob){b->bytes.n, size};
    buf_write(&b->bytes, bytes, size);
  }
  i64(out, (int64_t)b->at[i].offset), i64(out, (int64_t)size), number(out, hash_bytes(bytes, size, 0), 8);
}

static void put_plan(Buf *out, const GpuLaunchPlan *p) {
  i64(out, p != NULL);
  if (!p) return;
  count(out, p->step_count);
  for (int i = 0; i < p->step_count; i++) {
    const GpuStep *s = &p->steps[i];
    i64(out, gpu_plan_code_number(s->code)), i64(out, s->type), i64(out, s->from), i64(out, s->attr);
    for (int k = 0; k < 3; k++) i64(out, s->in[k]);
  }
  count(out, p->require_count);
  for (int i = 0; i < p->require_count; i++) i64(out, p->requires[i]);
  count(out, p->map_count);
  for (int i = 0; i < p->map_count; i++) {
    const GpuMapPlan *m = &p->maps[i];
    i64(out, m->dtype), i64(out, m->rank), i64(out, m->swizzle), i64(out, m->base);
    for (int k = 0; k < m->rank; k++) {
      i64(out, m->box[k]), i64(out, m->sizes[k]);
      if (k) i64(out, m->strides[k - 1]);
    }
  }
  i64(out, p->may_copy);
  count(out, p->span_count);
  for (int i = 0; i < p->span_count; i++) {
    const SpanStep *s = &p->spans[i];
    i64(out, s->code), i64(out, s->type), i64(out, s->lo), i64(out, s->hi);
    for (int k = 0; k < 3; k++) i64(out, s->in[k]);
  }
  count(out, p->apart_count);
  for (int i = 0; i < p->apart_count; i++)
    for (int k = 0; k < 2; k++) i64(out, p->aparts[i].argument[k]), i64(out, p->aparts[i].span[k]);
}

static void put_places(Buf *out, const AssertLocation *first) {
  int n = 0;
  for (const AssertLocation *p = first; p; p = p->next) n++;
  count(out, n);
  for (const AssertLocation *p = first; p; p = p->next)
    i64(out, p->line), i64(out, p->column), text(out, p->path), text(out, p->text);
}

static void put_sites(Buf *out, const DiagSites *sites) {
  count(out, sites ? sites->count : 0);
  for (int i = 0; sites && i < sites->count; i++) {
    const DiagSite *s = &sites->site[i];
    i64(out, s->is_assert), i64(out, s->hex), i64(out, s->value_count);
    count(out, s->type_count);
    for (int k = 0; k < s->type_count; k++) {
      const Type *t = &s->types[k];
      i64(out, t->dtype), i64(out, t->ptr), i64(out, t->rank);
      for (int d = 0; d < t->rank; d++) i64(out, t->shape[d]);
    }
    text(out, s->text), text(out, s->place), text(out, s->path);
    i64(out, s->line), i64(out, s->column);
  }
}

static void put_code(Buf *out, Blobs *blobs, Arena *a, const BundleCode *c) {
  i64(out, c->kind);
  text(out, c->target), text(out, c->entry);
  i64(out, c->sm), i64(out, c->exact), i64(out, c->machine);
  count(out, c->feature_count);
  for (int i = 0; i < c->feature_count; i++) text(out, c->features[i]);
  i64(out, c->num_warps), i64(out, c->shared_bytes), i64(out, c->blocks);
  i64(out, c->persistent), i64(out, c->programs_wait);
  count(out, c->slot_count);
  for (int i = 0; i < c->slot_count; i++)
    i64(out, c->slots[i].param), i64(out, c->slots[i].dtype), i64(out, c->slots[i].is_pointer);
  put_plan(out, c->plan);
  put_places(out, c->places);
  put_sites(out, c->sites);
  blob(out, blobs, a, c->image, c->image_bytes);
  blob(out, blobs, a, c->overlap, c->overlap_bytes);
}

static void put_entry(Buf *out, Blobs *blobs, Arena *a, const BundleEntry *e) {
  text(out, e->name), text(out, e->path);
  count(out, e->param_count);
  for (int i = 0; i < e->param_count; i++) {
    const BundleParam *p = &e->params[i];
    text(out, p->name), i64(out, p->kind), i64(out, p->dtype), text(out, p->constant);
    i64(out, p->size), i64(out, p->rank), i64(out, p->nan_padding);
    for (int d = 0; d < p->rank; d++) i64(out, p->block_shape[d]);
  }
  i64(out, e->has_grid);
  for (int d = 0; d < 3; d++) {
    count(out, e->grid[d].count);
    for (int i = 0; i < e->grid[d].count; i++)
      i64(out, e->grid[d].steps[i].op), i64(out, e->grid[d].steps[i].value), text(out, e->grid[d].steps[i].name);
  }
  count(out, e->variant_count);
  for (int i = 0; i < e->variant_count; i++) {
    const BundleVariant *v = &e->variants[i];
    count(out, v->condition_count);
    for (int k = 0; k < v->condition_count; k++)
      i64(out, v->conditions[k].kind), i64(out, v->conditions[k].param), i64(out, v->conditions[k].value);
    count(out, v->constant_count);
    for (int k = 0; k < v->constant_count; k++) text(out, v->constants[k].name), i64(out, v->constants[k].value);
    count(out, v->code_count);
    for (int k = 0; k < v->code_count; k++) put_code(out, blobs, a, &v->codes[k]);
  }
}

void aot_write(const Bundle *b, Arena *a, Buf *out) {
  Buf entries = {.arena = a};
  Blobs blobs = {.bytes = {.arena = a}};
  text(&entries, b->made_by);
  count(&entries, b->entry_count);
  for (int i = 0; i < b->entry_count; i++) put_entry(&entries, &blobs, a, &b->entries[i]);
  while ((BUNDLE_HEADER + 8 + entries.n) % BUNDLE_ALIGN) buf_putc(&entries, 0);
  Buf rest = {.arena = a};
  i64(&rest, (int64_t)entries.n);
  buf_write(&rest, entries.at, entries.n);
  if (blobs.bytes.n) buf_write(&rest, blobs.bytes.at, blobs.bytes.n);
  buf_puts(out, BUNDLE_MAGIC);
  number(out, BUNDLE_FORMAT, 4), number(out, 0, 4);
  number(out, BUNDLE_HEADER + rest.n, 8);
  number(out, hash_bytes(rest.at, entries.n + 8, 0), 8);
  buf_write(out, rest.at, rest.n);
}
