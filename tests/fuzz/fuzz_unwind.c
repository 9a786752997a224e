/* libFuzzer target of `.eh_frame`: any bytes as an object's unwind tables let the walk go on or stop, and are not left.
 *
 * The bytes begin with the header of `.eh_frame_hdr`; tables and entries are where they say. The first byte chooses the
 * address that is looked for. */
#define _GNU_SOURCE
#include "prof/record/unwind.c"

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *object;
static size_t object_size;

int _dl_find_object(void *address, struct dl_find_object *out) {
  memset(out, 0, sizeof *out);
  if (!object_size) return -1;
  out->dlfo_map_start = (void *)(uintptr_t)object;
  out->dlfo_map_end = (void *)(uintptr_t)(object + object_size);
  out->dlfo_eh_frame = (void *)(uintptr_t)object;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  uint8_t *copy = aligned_alloc(16, (size + 14) / 16 * 16 + 16); /* entries are aligned in memory */
  CHECK(copy);
  uint8_t *at = copy + ((size + 14) / 16 * 16 + 16 - ((size - 1 + 3) & ~(size_t)3)); /* a sanitizer watches the end */
  memcpy(at, data + 1, size - 1);
  object = at, object_size = size - 1;
  Walk w = {.pc = (uint64_t)(uintptr_t)at + data[0], .exact = true};
  uint64_t stack[64] = {0};
  for (int i = 0; i < REGISTERS; i++) w.registers[i] = (uint64_t)(uintptr_t)(stack + 8);
  Entry e;
  for (int i = 0; i < 4 && find_entry(w.pc, &e); i++) {
    if (!step_by_rules(&w, &e)) break;
  }
  object_size = 0;
  free(copy);
  return 0;
}
