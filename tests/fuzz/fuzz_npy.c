/* libFuzzer target of the .npy reader: any bytes are an array or an error.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc tests/fuzz/fuzz_npy.c \
 *         src/runtime/npy.c src/runtime/error.c src/runtime/dtype.c src/base/?*.c -lm -pthread
 *     ./a.out -dict=tests/fuzz/npy.dict -max_len=512 -rss_limit_mb=512 CORPUS
 *
 * The first byte chooses whether it is a file or a pipe, which is none and is refused at once. Of an array it is
 * checked that its size is its shape's and that it is there; written and read again it is the same. */
#define _GNU_SOURCE
#include <nereid.h>
#include <stdio.h>
#include "check.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_array(const nereid_array *a) {
  int64_t bytes = (int64_t)nereid_dtype_bytes(a->dtype);
  CHECK(a->rank >= 0 && a->rank <= 8);
  for (int i = 0; i < a->rank; i++) {
    CHECK(a->shape[i] >= 0);
    if (a->shape[i] == 0) bytes = 0;
  }
  for (int i = 0; i < a->rank && bytes; i++) bytes *= a->shape[i];
  CHECK(bytes == a->bytes && a->data);
  unsigned sum = 0;
  for (int64_t i = 0; i < bytes; i++) sum += ((const unsigned char *)a->data)[i];
  (void)*(volatile unsigned *)&sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  int fd = -1, ends[2];
  if (data[0] & 1) {
    if (pipe(ends) != 0) return 0;
    CHECK(write(ends[1], data + 1, size - 1) == (ssize_t)size - 1); /* a pipe holds 64 KiB */
    close(ends[1]);
    fd = ends[0];
  } else {
    fd = memfd_create("npy", 0);
    CHECK(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
  }
  char path[40];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  nereid_array a = {0};
  nereid_error *error = NULL;
  nereid_status status = nereid_npy_read(path, &a, &error);
  CHECK(status || !(data[0] & 1));
  if (status) {
    CHECK(error && nereid_error_status(error) == status && strlen(nereid_error_text(error)) > 10);
  } else {
    CHECK(!error);
    check_array(&a);
  }
  nereid_error_free(error);
  nereid_array_free(&a);
  close(fd);
  return 0;
}
