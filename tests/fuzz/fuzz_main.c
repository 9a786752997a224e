/* Drives a fuzz target without libFuzzer: files as they are, then mixtures of them.
 *
 *     target ROUNDS FILE...       so many mixtures, the same each time
 *     target SECONDSs FILE...     mixtures for so long; what reaches a block of code anew, or oftener than before, is
 *                                 kept, and mixed too. Wants code compiled with gcc's -fsanitize-coverage=trace-pc.
 *
 * A mixture is a file with up to eight changes: a bit turned, bytes cut, doubled, overwritten, taken from another file
 * or from the words of $NEREID_FUZZ_DICT, a dictionary as libFuzzer has them. $NEREID_FUZZ_SEED chooses other mixtures.
 * An input at which the target dies lies in the file `crash` of the current folder. An input may take 60 seconds of a
 * processor.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

enum { MAX_BYTES = 8192, MAX_FILES = 1 << 16, MAX_WORDS = 400, BLOCKS = 1 << 18, MOST_SECONDS = 60 };

typedef struct Input {
  size_t n;
  uint8_t at[MAX_BYTES];
} Input;
static Input *files[MAX_FILES];
static size_t file_count;
static struct {
  size_t n;
  uint8_t at[64];
} words[MAX_WORDS];
static size_t word_count;
static uint64_t state = 1;

static size_t draw(size_t below) {
  uint64_t x = state += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return below ? (size_t)((x ^ x >> 31) % below) : 0;
}

/* ---- what an input reached --------------------------------------------------------------------------------------- */

static uint8_t times[BLOCKS], seen[BLOCKS]; /* `seen`: a bit for each power of two of times */
static uint32_t reached[BLOCKS];
static size_t reached_count;

void __sanitizer_cov_trace_pc(void);
__attribute__((no_sanitize("address", "undefined"), no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) {
  uintptr_t pc = (uintptr_t)__builtin_return_address(0);
  uint32_t block = (uint32_t)((pc * 0x9E3779B97F4A7C15ULL) >> 46);
  if (!times[block] && reached_count < BLOCKS) reached[reached_count++] = block;
  if (times[block] < 255) times[block]++;
}

/* Whether the last input reached anything that none before it did; begins anew. */
static bool reached_anew(size_t *blocks) {
  bool anew = false;
  for (size_t i = 0; i < reached_count; i++) {
    uint32_t block = reached[i];
    if (!times[block]) continue; /* two threads came to it at once, and it stands here twice */
    uint8_t bit = (uint8_t)(1 << (31 - __builtin_clz(times[block])));
    *blocks += !seen[block];
    anew = anew || !(seen[block] & bit);
    seen[block] |= bit;
    times[block] = 0;
  }
  reached_count = 0;
  return anew;
}

/* ---- mixtures ---------------------------------------------------------------------------------------------------- */

static void put(Input *in, size_t at, const uint8_t *bytes, size_t n) {
  if (n > MAX_BYTES - in->n) n = MAX_BYTES - in->n;
  if (n > MAX_BYTES - at) n = MAX_BYTES - at;
  memmove(in->at + at + n, in->at + at, in->n - at);
  memcpy(in->at + at, bytes, n);
  in->n += n;
}

static void change(Input *in) {
  size_t at = draw(in->n), n = draw(in->n - at < 64 ? in->n - at : 64);
  uint8_t some[64];
  switch (draw(word_count ? 7 : 5)) {
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
    case 4: {
      const Input *other = files[draw(file_count)];
      size_t from = draw(other->n);
      n = draw(other->n - from < 64 ? other->n - from : 64);
      memcpy(some, other->at + from, n);
      put(in, at, some, n);
      return;
    }
    default: {
      size_t w = draw(word_count);
      put(in, at, words[w].at, words[w].n);
    }
  }
}

/* ---- feeding ----------------------------------------------------------------------------------------------------- */

/* In a file that stays open: most targets take less time than it takes to make one. */
static void note(const Input *in) {
  static int fd = -1;
  if (fd < 0) fd = open("crash", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || pwrite(fd, in->at, in->n, 0) != (ssize_t)in->n || ftruncate(fd, (off_t)in->n)) exit(2);
}

/* A copy of exactly its size on the heap, at whose end a sanitizer watches. */
static void feed(const Input *in) {
  uint8_t *data = malloc(in->n ? in->n : 1);
  if (!data) exit(2);
  memcpy(data, in->at, in->n);
  note(in);
  setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = MOST_SECONDS}, NULL);
  LLVMFuzzerTestOneInput(data, in->n);
  setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
  free(data);
}

static void too_long(int signal) {
  static const char text[] = "an input takes too long\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(3);
  abort();
}

static void keep(const Input *in) {
  if (file_count == MAX_FILES) return;
  Input *file = malloc(sizeof *file);
  if (!file) exit(2);
  *file = *in;
  files[file_count++] = file;
}

/* Entries are "text", with \xHH, \\ and \" in it, a line each, with or without a name before. */
static void read_words(const char *path) {
  FILE *f = path ? fopen(path, "r") : NULL;
  char line[400];
  while (f && word_count < MAX_WORDS && fgets(line, sizeof line, f)) {
    const char *at = strchr(line, '"');
    if (line[0] == '#' || !at) continue;
    size_t n = 0;
    for (at++; *at && *at != '"' && n < sizeof words[0].at; at++) {
      unsigned byte = (unsigned char)*at;
      if (*at == '\\' && at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1) at += 3;
      else if (*at == '\\' && at[1]) byte = (unsigned char)*++at;
      words[word_count].at[n++] = (uint8_t)byte;
    }
    words[word_count].n = n;
    word_count += n > 0;
  }
  if (f) fclose(f);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What an input reaches anew may lose memory anew. */
static void check_leaks(void) {
  if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()) abort();
}

/* Mixtures of the files, ROUNDS or SECONDSs of them. */
static long mix(const char *amount, size_t *blocks) {
  char *unit;
  long limit = strtol(amount, &unit, 10), done = 0;
  bool timed = *unit == 's';
  double end = now() + (double)limit;
  for (; timed ? now() < end : done < limit; done++) {
    static Input in;
    size_t newest = timed && draw(2) ? file_count / 2 : 0;
    in = *files[newest + draw(file_count - newest)];
    for (size_t k = 1 + draw(8); k > 0; k--) change(&in);
    feed(&in);
    if (!timed || !reached_anew(blocks)) continue;
    check_leaks();
    keep(&in);
  }
  return done;
}

int main(int argc, char **argv) {
  const char *seed = getenv("NEREID_FUZZ_SEED");
  size_t blocks = 0, given = argc > 2 ? (size_t)argc - 2 : 0;
  signal(SIGPROF, too_long);
  read_words(getenv("NEREID_FUZZ_DICT"));
  for (size_t i = 0; i < given; i++) {
    static Input in;
    FILE *f = fopen(argv[i + 2], "rb");
    if (!f) return perror(argv[i + 2]), 2;
    in.n = fread(in.at, 1, MAX_BYTES, f);
    fclose(f);
    feed(&in);
    reached_anew(&blocks);
    keep(&in);
  }
  if (!given) return fputs("no files\n", stderr), 2;
  check_leaks();
  if (seed) state = strtoull(seed, NULL, 10);
  long mixed = mix(argv[1], &blocks);
  remove("crash");
  printf("%zu files and %ld mixtures of them", given, mixed);
  if (blocks) printf(", %zu blocks reached, %zu inputs kept", blocks, file_count - given);
  puts("");
  return 0;
}
