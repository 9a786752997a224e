/* Sources: the texts that a compilation reads, with the offset of every line, and the interning of names.
 *
 * A context reads each path once: what was registered under a path first by source_from_file, or last by
 * source_from_text, is what every later source_from_file of that path gets. So one compilation sees one version of a
 * file, and a caller may lay a text over a path. A line ends as Python says: "\n", "\r\n" or "\r".
 */
#include "base/base.h"

#include <errno.h>
#include <unistd.h>

const char *intern(Context *cx, const char *s, size_t n) {
  char *known = map_get_n(cx->interned, s, n);
  if (known) return known;
  char *copy = arena_alloc(cx->arena, n + 1);
  if (!copy) return NULL;
  if (n) memcpy(copy, s, n);
  map_put_n(cx->interned, copy, n, copy);
  return copy;
}

const char *intern_z(Context *cx, const char *s) { return intern(cx, s, strlen(s)); }

/* Takes `text`, which is in the arena and ends in NUL. */
static Source *register_source(Context *cx, const char *path, const char *text, size_t size) {
  if (size >= UINT32_MAX / 2) return errno = EFBIG, NULL; /* offsets of lines have 32 bits, line counts 31 */
  if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, size -= 3;

  Source *s = NEW(cx->arena, Source);
  char *kept_path = arena_strdup(cx->arena, path);
  if (!s || !kept_path) return errno = ENOMEM, NULL;
  s->path = kept_path;
  s->text = text;
  s->size = size;
  int lines = 1;
  for (int pass = 0; pass < 2; pass++) { /* count, then fill */
    uint32_t *starts = pass ? NEW_N(cx->arena, uint32_t, lines) : NULL;
    if (pass && !starts) return errno = ENOMEM, NULL;
    lines = 1;
    for (size_t i = 0; i < size; i++) {
      bool ends = text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n');
      if (!ends) continue;
      if (starts) starts[lines] = (uint32_t)i + 1;
      lines++;
    }
    s->line_start = starts;
  }
  s->line_count = lines;
  map_put(cx->sources, s->path, s);
  return s;
}

Source *source_from_text(Context *cx, const char *path, const char *text, size_t size) {
  char *copy = arena_alloc(cx->arena, size + 1);
  if (!copy) return errno = ENOMEM, NULL;
  if (size) memcpy(copy, text, size);
  return register_source(cx, path, copy, size);
}

Source *source_from_file(Context *cx, const char *path) {
  Source *known = map_get(cx->sources, path);
  if (known) return known;

  int64_t size;
  int fd = file_open(path, cx->limits.file, &size);
  if (fd < 0) return NULL;
  /* The arena may unwind past us; the descriptor must not be lost then. */
  char *volatile text = NULL;
  if (context_try(cx)) {
    text = arena_alloc(cx->arena, (size_t)size + 1);
    context_end_try(cx);
  }
  volatile int64_t got = 0;
  ssize_t n = text ? 1 : 0;
  while (got < size && n) { /* a file may have grown shorter meanwhile */
    n = read(fd, text + got, (size_t)(size - got));
    if (n < 0 && errno == EINTR) n = 1;
    else if (n < 0) break;
    else got += n;
  }
  int error = n < 0 ? errno : ENOMEM;
  close(fd);
  if (!text && cx->unwind) diag_fail_now(cx);
  Source *s = text && n >= 0 ? register_source(cx, path, text, (size_t)got) : NULL;
  if (!s) errno = error;
  return s;
}
