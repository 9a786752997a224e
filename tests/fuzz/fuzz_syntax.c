/* libFuzzer target of the lexer and the parser: any bytes get a tree or a diagnostic.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Isrc tests/fuzz/fuzz_syntax.c src/base/?*.c src/syntax/?*.c -lm
 * -pthread
 *     ./a.out -dict=tests/fuzz/syntax.dict -max_len=4096 CORPUS
 *
 * The input is parsed as a module and as an expression. Of a tree it is checked that every node lies within its source,
 * ends no earlier than it starts, and that no branch is deeper than promised; of a failure, that there is one message
 * with a place in the source. */
#include "syntax/syntax.h"

#include "check.h"

typedef struct Check {
  int depth;
} Check;

static void check_span(Span s) {
  const Source *src = s.source;
  CHECK(src && s.line >= 1 && s.line <= s.end_line && s.end_line <= src->line_count);
  CHECK(s.col >= 0 && s.end_col >= 0 && (s.line < s.end_line || s.col <= s.end_col));
  CHECK(src->line_start[s.line - 1] + (size_t)s.col <= src->size &&
        src->line_start[s.end_line - 1] + (size_t)s.end_col <= src->size);
}

static void check_node(void *arg, Node *n) {
  Check *c = arg;
  CHECK(n->kind < NODE_KIND_COUNT);
  check_span(n->span);
  CHECK(++c->depth <= MAX_TREE_DEPTH);
  node_children(n, check_node, c);
  c->depth--;
}

static void run(const uint8_t *data, size_t size, bool expression) {
  Context *cx = context_create();
  if (!cx) return;
  Source *src = source_from_text(cx, "fuzz.py", (const char *)data, size);
  if (context_try(cx)) {
    Node *n = expression ? parse_expression(cx, src) : parse_module(cx, src);
    context_end_try(cx);
    Check c = {0};
    check_node(&c, n);
    Buf out = {0};
    ast_dump(&out, n, true);
    buf_destroy(&out);
  } else {
    check_one_error(cx);
    check_span(cx->diags.at[0].span);
  }
  context_destroy(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  run(data, size, false);
  if (size < 512) run(data, size, true);
  return 0;
}
