/* libFuzzer target of bundles: any bytes are kernels or an error, and what was read can be launched as far as to where
 * code is chosen: conditions, constants, grids, what tensor maps are made of.
 *
 * The checksum, which no mutation keeps, and the size are made right first. The seeds have no code for processors, so
 * that none is run. */
#include "rt/bundle.h"

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_code(const BundleCode *c) {
  uint64_t slots[4 * BUNDLE_MOST_PARAMS + 3];
  GpuTensorMap maps[GPU_PLAN_MAPS];
  CHECK(c->slot_count <= 4 * BUNDLE_MOST_PARAMS && c->image);
  for (int i = 0; i < c->slot_count + 3; i++) slots[i] = (uint64_t)i * 4096;
  if (c->plan) gpu_plan_maps(c->plan, slots, (int32_t[]){1, 1, 1}, maps);
  for (const AssertLocation *p = c->places; p; p = p->next) {
    nereid_error *error = NULL;
    assert_places_error(&error, NEREID_KERNEL_FAULT, c->places, p->path, "a message", p->line);
    CHECK(error && *nereid_error_text(error));
    nereid_error_free(error);
  }
  struct {
    GpuDiag head;
    uint32_t words[64];
  } left = {.head = {.used = 40, .capacity = 64, .failed = 1}};
  for (int i = 0; i < 64; i++) left.words[i] = (uint32_t)(i % 13);
  nereid_error *error = NULL;
  const nereid_options quiet = {.print = (void (*)(void *, const char *))0};
  if (c->sites && c->sites->count && c->sites->site[0].is_assert)
    diag_report(c->sites, &left.head, "k", &quiet, &error);
  nereid_error_free(error);
}

static void launch(nereid_device *d, const void *bytes, size_t size, const Bundle *content) {
  nereid_bundle *b = NULL;
  CHECK(!nereid_bundle_open_memory(d, bytes, size, &b, NULL));
  CHECK(nereid_bundle_kernel_count(b) == content->entry_count);
  for (int i = 0; i < content->entry_count && i < 8; i++) {
    const BundleEntry *e = &content->entries[i];
    nereid_arg args[BUNDLE_MOST_PARAMS];
    CHECK(nereid_bundle_kernel_at(b, i)->param_count == e->param_count);
    for (int p = 0; p < e->param_count; p++) {
      const BundleParam *q = &e->params[p];
      args[p] = q->kind == PARAM_POINTER ? nereid_pointer((void *)(uintptr_t)4096, (nereid_dtype)q->dtype)
                : q->kind == PARAM_INT   ? nereid_int(16 * p)
                : q->kind == PARAM_FLOAT ? nereid_float(0.5)
                : q->kind == PARAM_BOOL  ? nereid_bool(true)
                : q->kind == PARAM_NONE  ? nereid_none()
                                         : nereid_constexpr(q->constant);
    }
    nereid_error *error = NULL;
    nereid_status status = nereid_bundle_launch(b, NULL, e->name, NULL, args, e->param_count, &error);
    CHECK(!status == !error && (!error || *nereid_error_text(error)));
    nereid_error_free(error);
  }
  nereid_bundle_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static nereid_device *cpu;
  if (!cpu) CHECK(!nereid_device_open("cpu:1", &cpu, NULL));
  unsigned char *bytes = aligned_alloc(64, (size + 127) / 64 * 64);
  CHECK(bytes);
  memcpy(bytes, data, size);
  if (size >= BUNDLE_HEADER + 8) {
    uint64_t whole = size, entries;
    memcpy(&entries, bytes + BUNDLE_HEADER, 8);
    if (entries > size - BUNDLE_HEADER - 8) entries = size - BUNDLE_HEADER - 8;
    uint64_t hash = hash_bytes(bytes + BUNDLE_HEADER, entries + 8, 0);
    memcpy(bytes, BUNDLE_MAGIC, 8), memcpy(bytes + 16, &whole, 8), memcpy(bytes + 24, &hash, 8);
  }
  Bundle b = {0};
  nereid_error *error = NULL;
  nereid_status status = bundle_read("it", bytes, size, &b, &error);
  CHECK(!status == !error);
  bool runs = false;
  for (int i = 0; i < b.entry_count; i++)
    for (int v = 0; v < b.entries[i].variant_count; v++)
      for (int c = 0; c < b.entries[i].variants[v].code_count; c++) {
        const BundleCode *code = &b.entries[i].variants[v].codes[c];
        check_code(code);
        runs |= code->kind == CODE_CPU && code->machine == processor_machine();
      }
  if (!status && !runs) launch(cpu, bytes, size, &b);
  bundle_free(&b);
  nereid_error_free(error);
  free(bytes);
  return 0;
}
