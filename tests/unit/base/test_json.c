/* json: what the writer puts out, to the byte; what the reader takes, and why it does not take the rest. */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include <setjmp.h>
#include <cmocka.h>

static void expect_written(Buf *b, const char *expected) {
  assert_false(b->failed);
  assert_string_equal(b->at, expected);
  Json *j = json_parse(b->at, NULL);
  assert_non_null(j);
  json_free(j);
  buf_destroy(b);
}

static void write_some(JsonWriter *w) {
  json_begin_object(w, NULL);
  json_put_text(w, "name", "add");
  json_begin_array(w, "none");
  json_end_array(w);
  json_begin_array(w, "rows");
  for (int i = 0; i < 2; i++) {
    json_break(w, "\n  ");
    json_begin_object(w, NULL);
    json_put_int(w, "i", i);
    json_put_bool(w, "even", i == 0);
    json_end_object(w);
  }
  json_break(w, "\n");
  json_end_array(w);
  json_put_ints(w, "grid", (int64_t[]){4, 1, 1}, 3);
  json_put_null(w, "last");
  json_end_object(w);
}

static void test_structure(void **state) {
  Buf b = {0};
  write_some(&(JsonWriter){.buf = &b});
  expect_written(&b,
                 "{\"name\":\"add\",\"none\":[],\"rows\":[\n  {\"i\":0,\"even\":true},\n  {\"i\":1,\"even\":false}\n],"
                 "\"grid\":[4,1,1],\"last\":null}");
  write_some(&(JsonWriter){.buf = &b, .spaced = true});
  expect_written(&b,
                 "{\"name\": \"add\", \"none\": [], \"rows\": [\n  {\"i\": 0, \"even\": true},\n  {\"i\": 1, \"even\": "
                 "false}\n], \"grid\": [4, 1, 1], \"last\": null}");
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  write_some(&(JsonWriter){.file = f});
  fclose(f);
  write_some(&(JsonWriter){.buf = &b});
  expect_written(&b, text);
  free(text);
}

static void test_texts(void **state) {
  static const struct {
    const char *text, *written;
  } cases[] = {
      {"", "\"\""},
      {"a\"b\\c", "\"a\\\"b\\\\c\""},
      {"1\n2\t3\r4\x7f", "\"1\\n2\\t3\\u000d4\\u007f\""},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
      {"\xff \xc3( \xed\xa0\x80", "\"\ufffd \ufffd( \ufffd\ufffd\ufffd\""},
      {"i < n </script><!-- <Script", "\"i < n \\u003c/script>\\u003c!-- \\u003cScript\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Buf b = {0};
    json_put_text(&(JsonWriter){.buf = &b}, NULL, cases[i].text);
    expect_written(&b, cases[i].written);
  }
}

static void test_numbers(void **state) {
  Buf b = {0};
  JsonWriter w = {.buf = &b};
  json_begin_array(&w, NULL);
  json_put_int(&w, NULL, INT64_MIN);
  json_put_unsigned(&w, NULL, UINT64_MAX);
  json_put_real(&w, NULL, 6, 1.0 / 3);
  json_put_real(&w, NULL, 17, 1e300);
  json_put_real(&w, NULL, 6, -0.5);
  json_put_fixed(&w, NULL, 3, 1234.5);
  json_put_fixed(&w, NULL, 0, 1234.25);
  json_put_real(&w, NULL, 6, NAN);
  json_put_fixed(&w, NULL, 2, -INFINITY);
  json_end_array(&w);
  expect_written(&b, "[-9223372036854775808,18446744073709551615,0.333333,1.0000000000000001e+300,-0.5,1234.500,1234,"
                     "null,null]");
  json_put_real(&(JsonWriter){.buf = &b}, NULL, 17, -0.0); /* with its sign, as a real */
  Json *zero = json_parse("-0.0", NULL);
  assert_int_equal(zero->kind, JSON_DOUBLE);
  assert_true(signbit(zero->f));
  json_free(zero);
  expect_written(&b, "-0.0");
}

static void test_read(void **state) {
  const char *why = NULL;
  Json *j = json_parse(" {\"a\": [1, -2.5, \"x\\u00e9\\n\"], \"b\": {\"c\": true}, \"d\": null, \"n\": 7} ", &why);
  assert_non_null(j);
  assert_null(why);
  const Json *a = json_get(j, "a");
  assert_int_equal(a->count, 3);
  assert_int_equal(a->first->i, 1);
  assert_true(a->first->next->f == -2.5);
  assert_string_equal(a->first->next->next->text, "x\xc3\xa9\n");
  assert_int_equal(json_get_int(json_get(j, "b"), "c", 9), 1);
  assert_int_equal(json_get_int(j, "n", 9), 7);
  assert_int_equal(json_get_int(j, "none", 9), 9);
  assert_true(json_get_number(j, "n", 9) == 7);
  assert_true(json_get_number(j, "d", 9) == 9);
  assert_string_equal(json_get_text(j, "n", "no text"), "no text");
  assert_null(json_get(a, "a"));
  json_free(j);
}

static void test_refused(void **state) {
  static const char *const cases[][2] = {
      {"", "a value is missing"},
      {"{\"a\" 1}", "a colon is missing"},
      {"{1: 2}", "a member's name is missing"},
      {"[1 2]", "a comma or closing bracket is missing"},
      {"\"x", "a string does not end"},
      {"\"\\q\"", "an escape in a string is wrong"},
      {"1.2.3", "a number is wrong"},
      {"[1] 2", "there is text after the value"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *why = NULL;
    assert_null(json_parse(cases[i][0], &why));
    assert_string_equal(why, cases[i][1]);
  }
  char deep[200];
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = 0;
  const char *why = NULL;
  assert_null(json_parse(deep, &why));
  assert_string_equal(why, "nested too deeply");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_structure), cmocka_unit_test(test_texts),   cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_read),      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
