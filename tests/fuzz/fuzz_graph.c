/* libFuzzer target of the tensor graph's text: any bytes get a graph or a diagnostic. What is read prints to a text
 * that reads back as the same text, and stays right when it is differentiated, simplified and cleaned up.
 *
 * tests/fuse/graphs has graphs to start from. */
#include "graph/read/read.h"

#include "check.h"

static void check_text(Context *cx, const Graph *g, Buf *first, Buf *second) {
  first->n = second->n = 0;
  graph_print(first, g);
  Graph *again = graph_parse(cx, source_from_text(cx, "again", first->at, first->n));
  graph_print(second, again);
  CHECK(first->n == second->n && !memcmp(first->at, second->at, first->n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Context *cx = context_create();
  if (!cx) return 0;
  Buf first = {0}, second = {0};
  volatile Stage stage = PARSING;
  Source *s = source_from_text(cx, "fuzz.graph", (const char *)data, size);
  if (context_try(cx)) {
    Graph *g = graph_parse(cx, s);
    stage = AFTER;
    graph_verify(g, "reading");
    check_text(cx, g, &first, &second);
    graph_cse(g);
    graph_dce(g);
    graph_verify(g, "cse and dce");
    check_text(cx, g, &first, &second);
    stage = VERIFYING; /* a size that is too large, or not known to be one: refused */
    graph_add_gradients(g, "all", 0, NULL);
    stage = AFTER;
    graph_cse(g);
    graph_dce(g);
    graph_verify(g, "gradients");
    context_end_try(cx);
  } else {
    check_refused(cx, stage);
  }
  buf_destroy(&first);
  buf_destroy(&second);
  context_destroy(cx);
  return 0;
}
