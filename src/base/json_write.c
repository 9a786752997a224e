/* json_write: the commas, quotes and numbers of JSON; what stands where is the caller's.
 *
 * No stack of what is open is needed: after an opening bracket no value stands before the next one, after a closing
 * one there does.
 */
#include "base/json.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

static void write_bytes(JsonWriter *w, const char *s, size_t n) {
  if (w->file) fwrite(s, 1, n, w->file);
  else buf_write(w->buf, s, n);
}

static void write_word(JsonWriter *w, const char *s) { write_bytes(w, s, strlen(s)); }

/* Length of the character at s when it is right UTF-8, else 0: names come from files and drivers, and may hold
 * anything. */
int utf8_length(const char *s) {
  const unsigned char *u = (const unsigned char *)s;
  int n = u[0] < 0x80                   ? 1
          : u[0] >= 0xC2 && u[0] < 0xE0 ? 2
          : (u[0] & 0xF0) == 0xE0       ? 3
          : u[0] >= 0xF0 && u[0] < 0xF5 ? 4
                                        : 0;
  for (int i = 1; i < n; i++)
    if ((u[i] & 0xC0) != 0x80) return 0;
  if (n == 3 && ((u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] >= 0xA0))) return 0;
  if (n == 4 && ((u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] >= 0x90))) return 0;
  return n;
}

/* "</script" and "<!--" must not end the page that holds the text. */
static bool may_be_tag(const char *s) {
  return s[0] == '<' && (s[1] == '/' || s[1] == '!' || isalpha((unsigned char)s[1]));
}

static void write_text(JsonWriter *w, const char *s) {
  write_bytes(w, "\"", 1);
  for (int n; *s; s += n ? n : 1) {
    unsigned char c = (unsigned char)*s;
    n = utf8_length(s);
    char code[8];
    if (!n) write_word(w, "\xEF\xBF\xBD");
    else if (c == '\n') write_word(w, "\\n");
    else if (c == '\t') write_word(w, "\\t");
    else if (c < 0x20 || c == 0x7f || may_be_tag(s)) {
      snprintf(code, sizeof code, "\\u%04x", c);
      write_word(w, code);
    } else {
      if (c == '"' || c == '\\') write_bytes(w, "\\", 1);
      write_bytes(w, s, (size_t)n);
    }
  }
  write_bytes(w, "\"", 1);
}

static void write_break(JsonWriter *w) {
  if (w->before_next) write_word(w, w->before_next);
  w->before_next = NULL;
}

void json_put_key(JsonWriter *w, const char *key) {
  if (w->follows) write_word(w, w->spaced && !w->before_next ? ", " : ",");
  write_break(w);
  w->follows = true;
  if (!key) return;
  write_text(w, key);
  write_word(w, w->spaced ? ": " : ":");
}

static void begin_list(JsonWriter *w, const char *key, const char *bracket) {
  json_put_key(w, key);
  write_word(w, bracket);
  w->follows = false;
}

static void end_list(JsonWriter *w, const char *bracket) {
  write_break(w);
  write_word(w, bracket);
  w->follows = true;
}

void json_begin_object(JsonWriter *w, const char *key) { begin_list(w, key, "{"); }
void json_end_object(JsonWriter *w) { end_list(w, "}"); }
void json_begin_array(JsonWriter *w, const char *key) { begin_list(w, key, "["); }
void json_end_array(JsonWriter *w) { end_list(w, "]"); }
void json_break(JsonWriter *w, const char *space) { w->before_next = space; }

void json_put_text(JsonWriter *w, const char *key, const char *text) {
  json_put_key(w, key);
  write_text(w, text);
}

static void put_word(JsonWriter *w, const char *key, const char *word) {
  json_put_key(w, key);
  write_word(w, word);
}

void json_put_bool(JsonWriter *w, const char *key, bool v) { put_word(w, key, v ? "true" : "false"); }
void json_put_null(JsonWriter *w, const char *key) { put_word(w, key, "null"); }

void json_put_int(JsonWriter *w, const char *key, int64_t v) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, v);
  put_word(w, key, text);
}

void json_put_unsigned(JsonWriter *w, const char *key, uint64_t v) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, v);
  put_word(w, key, text);
}

void json_put_ints(JsonWriter *w, const char *key, const int64_t *v, int n) {
  json_begin_array(w, key);
  for (int i = 0; i < n; i++) json_put_int(w, NULL, v[i]);
  json_end_array(w);
}

void json_put_real(JsonWriter *w, const char *key, int digits, double v) {
  char text[64];
  if (!isfinite(v)) return json_put_null(w, key);
  void *numbers = plain_numbers();
  snprintf(text, sizeof text, "%.*g", digits, v);
  host_numbers(numbers);
  put_word(w, key, v == 0 && signbit(v) ? "-0.0" : text); /* "-0" is an integer, which has no such zero */
}

void json_put_fixed(JsonWriter *w, const char *key, int decimals, double v) {
  char text[400];
  if (!isfinite(v)) return json_put_null(w, key);
  void *numbers = plain_numbers();
  snprintf(text, sizeof text, "%.*f", decimals, v);
  host_numbers(numbers);
  put_word(w, key, text);
}
