/* libFuzzer target of JSON: any text is a tree or has a reason; what the writer makes of a tree reads back as the same
 * tree, and is written the same again. */
#include "base/json.h"

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_tree(JsonWriter *w, const Json *j) {
  switch (j->kind) {
    case JSON_NULL: json_put_null(w, j->key); break;
    case JSON_BOOL: json_put_bool(w, j->key, j->i); break;
    case JSON_INT: j->is_unsigned ? json_put_unsigned(w, j->key, (uint64_t)j->i) : json_put_int(w, j->key, j->i); break;
    case JSON_DOUBLE: json_put_real(w, j->key, 17, j->f); break;
    case JSON_STRING: json_put_text(w, j->key, j->text); break;
    case JSON_ARRAY:
    case JSON_OBJECT: {
      bool object = j->kind == JSON_OBJECT;
      object ? json_begin_object(w, j->key) : json_begin_array(w, j->key);
      for (const Json *k = j->first; k; k = k->next) {
        if (k->kind == JSON_STRING) json_break(w, "\n  ");
        write_tree(w, k);
      }
      object ? json_end_object(w) : json_end_array(w);
    }
  }
}

static bool is_text(const char *s) { /* what the writer leaves as it is */
  for (int n; *s; s += n)
    if (!(n = utf8_length(s))) return false;
  return true;
}

static void compare(const Json *a, const Json *b) {
  bool finite = a->kind != JSON_DOUBLE || a->f - a->f == 0;
  if (!finite) return;
  CHECK(a->count == b->count);
  if (a->kind == JSON_DOUBLE) { /* 1e2 is written as 100 */
    CHECK(b->kind == JSON_INT || b->kind == JSON_DOUBLE);
    CHECK(a->f == b->f);
  } else {
    CHECK(a->kind == b->kind);
    CHECK(a->i == b->i && a->is_unsigned == b->is_unsigned);
  }
  if (a->text && is_text(a->text)) CHECK(!strcmp(a->text, b->text));
  if (a->key && is_text(a->key)) CHECK(!strcmp(a->key, b->key));
  const Json *y = b->first;
  for (const Json *x = a->first; x; x = x->next, y = y->next) {
    CHECK(y);
    compare(x, y);
  }
  CHECK(!y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  CHECK(text);
  memcpy(text, data, size);
  text[size] = 0;
  const char *why = NULL;
  Json *j = json_parse(text, &why);
  CHECK(!j == !!why);
  for (int spaced = 0; j && spaced < 2; spaced++) {
    Buf once = {0}, again = {0};
    write_tree(&(JsonWriter){.buf = &once, .spaced = spaced}, j);
    CHECK(!once.failed);
    Json *back = json_parse(once.at, &why);
    CHECK(back);
    compare(j, back);
    write_tree(&(JsonWriter){.buf = &again, .spaced = spaced}, back);
    CHECK(!strcmp(once.at, again.at));
    json_free(back);
    buf_destroy(&once);
    buf_destroy(&again);
  }
  json_free(j);
  free(text);
  return 0;
}
