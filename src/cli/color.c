/* color: colours on a terminal, and nowhere else: not in a file or a pipe, not where NO_COLOR says no
 * (https://no-color.org), not on a terminal that knows none (TERM=dumb). */
#include "cli.h"

#include "base/base.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_color(FILE *out) {
  static signed char known[3]; /* by descriptor: 1 yes, -1 no */
  int fd = fileno(out);
  if (fd != 1 && fd != 2) return false;
  if (!known[fd]) {
    const char *no = environment_get("NO_COLOR"), *term = environment_get("TERM");
    known[fd] = isatty(fd) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0 ? 1 : -1;
  }
  return known[fd] > 0;
}

const char *color(FILE *out, Color c) {
  static const char *const codes[] = {
      [COLOR_OFF] = "\033[0m",   [COLOR_ERROR] = "\033[1;31m", [COLOR_HINT] = "\033[36m",
      [COLOR_GOOD] = "\033[32m", [COLOR_BAD] = "\033[31m",     [COLOR_SAME] = "\033[33m",
  };
  return has_color(out) ? codes[c] : "";
}

void print_in(FILE *out, Color c, const char *text) {
  fprintf(out, "%s%s%s", color(out, c), text, color(out, COLOR_OFF));
}

/* "k.py:3:9: error: no such name": the word that says what the line is, and where it ends. */
static const char *find_label(const char *line, size_t n, size_t *length, Color *c) {
  static const struct {
    const char *word;
    Color color;
  } labels[] = {{"error:", COLOR_ERROR}, {"warning:", COLOR_SAME}, {"hint:", COLOR_HINT}, {"called from", COLOR_HINT}};
  for (size_t k = 0; k < sizeof labels / sizeof *labels; k++) {
    size_t size = strlen(labels[k].word);
    for (size_t i = 0; i + size <= n; i++) {
      bool begins = !i || line[i - 1] == ' ';
      if (!begins || strncmp(line + i, labels[k].word, size) != 0) continue;
      *length = size, *c = labels[k].color;
      return line + i;
    }
  }
  return NULL;
}

/* "    ^~~~": below a line of source */
static bool is_underline(const char *line, size_t n) { return n && strspn(line, " ^~") >= n && memchr(line, '^', n); }

void print_diagnostics(FILE *out, const char *text) {
  while (*text) {
    size_t n = strcspn(text, "\n"), length = 0;
    Color c;
    const char *label = find_label(text, n, &length, &c);
    if (is_underline(text, n)) {
      fprintf(out, "%s%.*s%s", color(out, COLOR_GOOD), (int)n, text, color(out, COLOR_OFF));
    } else if (label) {
      fprintf(out, "%.*s%s%.*s%s", (int)(label - text), text, color(out, c), (int)length, label, color(out, COLOR_OFF));
      fprintf(out, "%.*s", (int)(text + n - label - (ptrdiff_t)length), label + length);
    } else {
      fprintf(out, "%.*s", (int)n, text);
    }
    putc('\n', out);
    text += n;
    text += *text == '\n';
  }
}
