/* .safetensors files: what they hold, and what hostile headers say. */
#include "runtime_kit.h"

#include <unistd.h>

static const char good[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],"
                           "\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}";

/* A file of this header and 32 bytes of data, `length` of which the header is said to have (0: what it has). */
static void write_file(const char *path, const char *header, uint64_t length) {
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  if (!length) length = strlen(header);
  for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 255), out);
  fputs(header, out);
  float numbers[6] = {1, 2, 3, 4, 5, 6};
  int64_t last = 42;
  fwrite(numbers, sizeof numbers, 1, out);
  fwrite(&last, sizeof last, 1, out);
  fclose(out);
}

static char path[64];

static int set_up(void **state) {
  snprintf(path, sizeof path, "/tmp/nereid-safetensors-%d", (int)getpid());
  return 0;
}

static int tear_down(void **state) {
  unlink(path);
  return 0;
}

static void reads(void **state) {
  nereid_array a;
  write_file(path, good, 0);
  assert_int_equal(nereid_safetensors_read(path, "a.weight", &a, NULL), NEREID_OK);
  assert_int_equal(a.dtype, NEREID_F32);
  assert_int_equal(a.rank, 2);
  assert_int_equal(a.shape[1], 3);
  assert_true(((float *)a.data)[5] == 6);
  nereid_array_free(&a);
  assert_int_equal(nereid_safetensors_read(path, "b", &a, NULL), NEREID_OK);
  assert_int_equal(a.rank, 0);
  assert_true(*(int64_t *)a.data == 42);
  nereid_array_free(&a);
  nereid_error *error = NULL;
  assert_int_equal(nereid_safetensors_read(path, "c", &a, &error), NEREID_BAD_ARGUMENT);
  assert_non_null(strstr(nereid_error_text(error), "it has a.weight, b"));
  nereid_error_free(error);
}

#define ENTRY(dtype, shape, offsets) \
  "{\"x\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void refuses(void **state) {
  static const struct {
    const char *header, *says;
    uint64_t length;
  } files[] = {
      {good, "header", UINT64_MAX},
      {good, "header", 1 << 20},
      {"[]", "no JSON object", 0},
      {"{\"x\":", "no JSON object", 0},
      {"{\"x\":3}", "no type", 0},
      {ENTRY("F32", "[2]", "[0,8]") "x", "no JSON object", 0},
      {ENTRY("Q4", "[2]", "[0,8]"), "Q4", 0},
      {ENTRY("F32", "[-2]", "[0,8]"), "no shape of sizes", 0},
      {ENTRY("F32", "[2.5]", "[0,8]"), "no shape of sizes", 0},
      {ENTRY("F32", "[4294967296,4294967296]", "[0,8]"), "larger than any memory", 0},
      {ENTRY("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "more than 8 dims", 0},
      {ENTRY("F32", "[2]", "[0,12]"), "12 bytes of data, and 8 by its shape", 0},
      {ENTRY("F32", "[2]", "[28,36]"), "would lie from byte 28", 0},
      {ENTRY("F32", "[2]", "[-8,0]"), "would lie", 0},
      {ENTRY("F32", "[2]", "[8,0]"), "would lie", 0},
      {ENTRY("F32", "[2]", "[0]"), "where its data lies", 0},
      {ENTRY("F32", "[2]", "[18446744073709551608,18446744073709551615]"), "where its data lies", 0},
      {"{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"x\":{\"dtype\":\"U8\",\"shape\":[1],"
       "\"data_offsets\":[1,2]}}",
       "twice", 0},
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    nereid_array a = {0};
    nereid_error *error = NULL;
    write_file(path, files[i].header, files[i].length);
    assert_int_equal(nereid_safetensors_read(path, "x", &a, &error), NEREID_BAD_FILE);
    if (!strstr(nereid_error_text(error), files[i].says)) fail_msg("%s", nereid_error_text(error));
    nereid_error_free(error);
    assert_null(a.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(reads, set_up, tear_down),
                                     cmocka_unit_test_setup_teardown(refuses, set_up, tear_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
