/* Drives a fuzz target without libFuzzer, so that every run of the tests does it a little: files as they are, then so
 * many mixtures of them, the same each time.
 *
 *     target ROUNDS FILE...
 *
 * A mixture is a file with up to eight changes: a bit turned, bytes cut, doubled, overwritten, or taken from another
 * file. An input at which the target dies lies in the file `crash` of the current folder.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FILES = 400, MAX_BYTES = 8192 };

typedef struct Input {
  uint8_t at[MAX_BYTES];
  size_t n;
} Input;
static Input files[MAX_FILES];
static size_t file_count;

static size_t draw(size_t below) {
  static uint64_t state = 1;
  uint64_t x = state += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return below ? (size_t)((x ^ x >> 31) % below) : 0;
}

static void put(Input *in, size_t at, const uint8_t *bytes, size_t n) {
  if (n > MAX_BYTES - in->n) n = MAX_BYTES - in->n;
  memmove(in->at + at + n, in->at + at, in->n - at);
  memcpy(in->at + at, bytes, n);
  in->n += n;
}

static void change(Input *in) {
  size_t at = draw(in->n), n = draw(in->n - at < 64 ? in->n - at : 64);
  uint8_t some[64];
  switch (draw(5)) {
    case 0:
      if (in->n) in->at[at] ^= (uint8_t)(1 << draw(8));
      return;
    case 1:
      memmove(in->at + at, in->at + at + n, in->n - at - n);
      in->n -= n;
      return;
    case 2:
      memcpy(some, in->at + at, n);
      put(in, at, some, n);
      return;
    case 3:
      for (size_t i = 0; i < n && i < 4; i++) in->at[at + i] = (uint8_t)draw(256);
      return;
    default: {
      const Input *other = &files[draw(file_count)];
      size_t from = draw(other->n);
      n = draw(other->n - from < 64 ? other->n - from : 64);
      memcpy(some, other->at + from, n);
      put(in, at, some, n);
    }
  }
}

/* A copy of exactly its size on the heap, at whose end a sanitizer watches. */
static void feed(const Input *in) {
  uint8_t *data = malloc(in->n ? in->n : 1);
  FILE *f = fopen("crash", "wb");
  if (!data || !f) exit(2);
  memcpy(data, in->at, in->n);
  fwrite(data, 1, in->n, f);
  fclose(f);
  LLVMFuzzerTestOneInput(data, in->n);
  free(data);
}

int main(int argc, char **argv) {
  for (int i = 2; i < argc && file_count < MAX_FILES; i++) {
    FILE *f = fopen(argv[i], "rb");
    if (!f) return perror(argv[i]), 2;
    files[file_count].n = fread(files[file_count].at, 1, MAX_BYTES, f);
    fclose(f);
    feed(&files[file_count++]);
  }
  if (!file_count) return fputs("no files\n", stderr), 2;
  long rounds = strtol(argv[1], NULL, 10);
  for (long i = 0; i < rounds; i++) {
    static Input in;
    in = files[draw(file_count)];
    for (size_t k = 1 + draw(8); k > 0; k--) change(&in);
    feed(&in);
  }
  remove("crash");
  printf("%zu files and %ld mixtures of them\n", file_count, rounds);
  return 0;
}
