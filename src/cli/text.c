/* text: messages, the progress line. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int usage_error(const Verb *v, const char *format, ...) {
  va_list ap;
  progress_clear();
  fprintf(stderr, "%snereid %s:%s ", color(stderr, COLOR_ERROR), v->name, color(stderr, COLOR_OFF));
  va_start(ap, format);
  vfprintf(stderr, format, ap);
  va_end(ap);
  fprintf(stderr, "\n");
  return 2;
}

int report_error(nereid_error *err) {
  progress_clear();
  const char *text = err ? nereid_error_text(err) : "out of memory";
  print_diagnostics(stderr, text);
  nereid_error_free(err);
  return 1;
}

char *read_text(const char *path, int64_t most, const char **why) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* does not wait for a pipe's other end */
  char *text = NULL;
  if (fd < 0 || fstat(fd, &st) != 0) *why = strerror(errno);
  else if (!S_ISREG(st.st_mode)) *why = "it is not a regular file";
  else if (st.st_size > most) *why = "it is too large";
  else if (!(text = malloc((size_t)st.st_size + 1))) *why = "out of memory";
  int64_t n = 0;
  while (text && n < st.st_size) {
    ssize_t got = read(fd, text + n, (size_t)(st.st_size - n));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      *why = strerror(errno);
      free(text);
      text = NULL;
    }
    if (got <= 0) break; /* it has grown shorter meanwhile */
    n += got;
  }
  if (fd >= 0) close(fd);
  if (text) text[n] = 0;
  return text;
}

static bool progress_shown;

void progress(int64_t start_ns, const char *format, ...) {
  if (!isatty(2) || now_ns() - start_ns < 1000000000) return;
  va_list ap;
  fputs("\r\033[K", stderr);
  va_start(ap, format);
  vfprintf(stderr, format, ap);
  va_end(ap);
  fflush(stderr);
  progress_shown = true;
}

void progress_clear(void) {
  if (progress_shown) fputs("\r\033[K", stderr);
  progress_shown = false;
}

int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

char *format_string(const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  char *s = n < 0 ? NULL : malloc((size_t)n + 1);
  if (!s) {
    report_error(NULL);
    nereid_stop_compilers(); /* and removes what they left */
    exit(1);
  }
  va_start(ap, format);
  vsnprintf(s, (size_t)n + 1, format, ap);
  va_end(ap);
  return s;
}

bool read_whole(const char *text, int base, const char **end, int64_t *out) {
  char *e;
  errno = 0;
  long long v = strtoll(text, &e, base);
  if (e == text || errno) return false;
  if (*e == '^') {
    char *f;
    long long power = strtoll(e + 1, &f, 10), factor = v;
    if (f == e + 1 || power < 0) return false;
    for (v = 1; power; power--)
      if (__builtin_mul_overflow(v, factor, &v)) return false;
    e = f;
  }
  return *out = v, *end = e, true;
}
bool read_count(const char *text, int64_t least, int64_t most, int *out) {
  const char *end;
  int64_t v;
  if (!read_whole(text, 10, &end, &v) || *end || v < least || v > most) return false;
  return *out = (int)v, true;
}
