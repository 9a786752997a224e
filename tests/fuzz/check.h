/* check: what the libFuzzer targets share. A target aborts where something that must hold does not. */
#ifndef NEREID_FUZZ_CHECK_H
#define NEREID_FUZZ_CHECK_H

#include "base/base.h"

#include <stdlib.h>

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      abort(); \
    } \
  } while (0)

/* A text that was refused got one error, which can be printed. */
static inline void check_one_error(const Context *cx) {
  CHECK(cx->diags.n == 1 && cx->diags.at[0].kind == DIAG_ERROR && cx->diags.at[0].message[0]);
  Buf out = {0};
  diags_print(&out, cx, true);
  buf_destroy(&out);
}

/* How far a text of IR came before it failed: once the verifier has let it through, it stays right. */
typedef enum { PARSING, VERIFYING, AFTER } Stage;
static inline void check_refused(const Context *cx, Stage stage) {
  if (stage == AFTER) {
    Buf out = {0};
    diags_print(&out, cx, false);
    fprintf(stderr, "%s", out.at);
  }
  CHECK(stage != AFTER);
  check_one_error(cx);
}

#endif
