/* libFuzzer target of the tile IR's text: any bytes get a function or a diagnostic, any function a verdict, and what
 * the verifier lets through goes through every pass, is right after each, and reads back from its own text.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Isrc tests/fuzz/fuzz_tile.c src/base/?*.c src/tile/?*.c -lm
 * -pthread
 *     ./a.out -dict=tests/fuzz/tile.dict -max_len=8192 CORPUS
 *
 * tests/golden is a good corpus to start from: of a golden file the part before its line "// ----" counts. */
#define _GNU_SOURCE /* memmem */
#include "tile/tile.h"

#include "check.h"

/* Printed text must parse to a function with the same text. */
static void check_text(Context *cx, const Func *f, Buf *first, Buf *second) {
  first->n = second->n = 0;
  tile_print(first, f, 0);
  Func *again = tile_parse(cx, source_from_text(cx, "again", first->at, first->n));
  tile_print(second, again, 0);
  CHECK(first->n == second->n && !memcmp(first->at, second->at, first->n));
  tile_print(second, f, PRINT_AXIS_INFO | PRINT_SPANS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Context *cx = context_create();
  if (!cx) return 0;
  Buf first = {0}, second = {0};
  volatile Stage stage = PARSING;
  const uint8_t *line = size > 7 ? memmem(data, size, "// ----", 7) : NULL;
  if (line) size = (size_t)(line - data);
  Source *s = source_from_text(cx, "fuzz.tile", (const char *)data, size);
  if (context_try(cx)) {
    Func *f = tile_parse(cx, s);
    stage = VERIFYING;
    tile_verify(f, NULL);
    stage = AFTER;
    check_text(cx, f, &first, &second);
    tile_optimize(f, NULL, NULL, true);
    check_text(cx, f, &first, &second);
    context_end_try(cx);
  } else {
    check_refused(cx, stage);
  }
  buf_destroy(&first);
  buf_destroy(&second);
  context_destroy(cx);
  return 0;
}
