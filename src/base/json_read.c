/* json_read: a recursive-descent reader; depth is bounded. */
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };
typedef struct Reader {
  const char *p;
  const char *why;
} Reader;

static Json *fail_read(Reader *r, Json *j, const char *why) {
  if (!r->why) r->why = why;
  json_free(j);
  return NULL;
}

static void skip_space(Reader *r) {
  while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r') r->p++;
}

static bool word(Reader *r, const char *w) {
  size_t n = strlen(w);
  if (strncmp(r->p, w, n)) return false;
  return r->p += n, true;
}

static int hex4(const char *p) {
  int v = 0;
  for (int i = 0; i < 4; i++) {
    if (!isxdigit((unsigned char)p[i])) return -1;
    v = v * 16 + (isdigit((unsigned char)p[i]) ? p[i] - '0' : tolower((unsigned char)p[i]) - 'a' + 10);
  }
  return v;
}

static char *put_utf8(char *o, unsigned c) {
  if (c < 0x80) *o++ = (char)c;
  else if (c < 0x800) *o++ = (char)(0xC0 | c >> 6), *o++ = (char)(0x80 | (c & 63));
  else if (c < 0x10000)
    *o++ = (char)(0xE0 | c >> 12), *o++ = (char)(0x80 | (c >> 6 & 63)), *o++ = (char)(0x80 | (c & 63));
  else
    *o++ = (char)(0xF0 | c >> 18), *o++ = (char)(0x80 | (c >> 12 & 63)), *o++ = (char)(0x80 | (c >> 6 & 63)),
    *o++ = (char)(0x80 | (c & 63));
  return o;
}

/* At the opening quote; returns malloc'ed text, or NULL with why set. */
static char *read_string(Reader *r) {
  const char *end = ++r->p;
  while (*end && *end != '"') end += end[0] == '\\' && end[1] ? 2 : 1;
  char *out = malloc((size_t)(end - r->p) + 1), *o = out;
  if (!out || !*end) return free(out), fail_read(r, NULL, out ? "a string does not end" : "out of memory"), NULL;
  while (r->p < end) {
    char c = *r->p++;
    if (c != '\\') {
      *o++ = c;
      continue;
    }
    c = *r->p++;
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = strchr(from, c);
    if (at && c) {
      *o++ = to[at - from];
      continue;
    }
    int code = c == 'u' ? hex4(r->p) : -1;
    if (code < 0) return free(out), fail_read(r, NULL, "an escape in a string is wrong"), NULL;
    r->p += 4;
    unsigned full = (unsigned)code;
    if (code >= 0xD800 && code < 0xDC00 && r->p[0] == '\\' && r->p[1] == 'u') {
      int low = hex4(r->p + 2);
      if (low >= 0xDC00 && low < 0xE000)
        full = 0x10000u + ((full - 0xD800u) << 10) + ((unsigned)low - 0xDC00u), r->p += 6;
    }
    o = put_utf8(o, full);
  }
  *o = 0;
  r->p = end + 1;
  return out;
}

static Json *read_number(Reader *r, Json *j) {
  char *end;
  size_t n = strspn(r->p, "+-0123456789.eE");
  if (word(r, "NaN")) return j->kind = JSON_DOUBLE, j->f = NAN, j;
  if (word(r, "Infinity")) return j->kind = JSON_DOUBLE, j->f = INFINITY, j;
  if (word(r, "-Infinity")) return j->kind = JSON_DOUBLE, j->f = -INFINITY, j;
  if (!n) return fail_read(r, j, "a value is missing");
  j->f = text_to_double(r->p, &end);
  if (end != r->p + n) return fail_read(r, j, "a number is wrong");
  j->kind = JSON_DOUBLE;
  if (strcspn(r->p, ".eE") >= n) {
    errno = 0;
    j->i = strtoll(r->p, NULL, 10);
    if (!errno) j->kind = JSON_INT;
    else if (*r->p != '-' && (errno = 0, j->i = (int64_t)strtoull(r->p, NULL, 10), !errno))
      j->kind = JSON_INT, j->is_unsigned = true;
  }
  r->p = end;
  return j;
}

static Json *read_value(Reader *r, int depth) {
  Json *j = calloc(1, sizeof *j);
  if (!j) return fail_read(r, NULL, "out of memory");
  if (depth > MAX_DEPTH) return fail_read(r, j, "nested too deeply");
  skip_space(r);
  char c = *r->p;
  if (c == '"') return j->kind = JSON_STRING, (j->text = read_string(r)) ? j : fail_read(r, j, NULL);
  if (word(r, "null")) return j;
  if (word(r, "true")) return j->kind = JSON_BOOL, j->i = 1, j;
  if (word(r, "false")) return j->kind = JSON_BOOL, j;
  if (c != '{' && c != '[') return read_number(r, j);
  j->kind = c == '{' ? JSON_OBJECT : JSON_ARRAY;
  char close = c == '{' ? '}' : ']';
  Json **tail = &j->first;
  r->p++;
  for (skip_space(r); *r->p != close;) {
    char *key = NULL;
    if (c == '{') {
      if (*r->p != '"') return fail_read(r, j, "a member's name is missing");
      if (!(key = read_string(r))) return fail_read(r, j, NULL);
      skip_space(r);
      if (*r->p != ':') return free(key), fail_read(r, j, "a colon is missing");
      r->p++;
    }
    Json *child = read_value(r, depth + 1);
    if (!child) return free(key), fail_read(r, j, NULL);
    child->key = key, *tail = child, tail = &child->next, j->count++;
    skip_space(r);
    if (*r->p == ',') {
      r->p++, skip_space(r);
      continue;
    }
    if (*r->p != close) return fail_read(r, j, "a comma or closing bracket is missing");
  }
  r->p++;
  return j;
}

Json *json_parse(const char *text, const char **why) {
  Reader r = {text, NULL};
  Json *j = read_value(&r, 0);
  skip_space(&r);
  if (j && *r.p) j = fail_read(&r, j, "there is text after the value");
  if (why) *why = r.why;
  return j;
}

void json_free(Json *j) {
  while (j) {
    Json *next = j->next;
    json_free(j->first);
    free(j->text), free(j->key), free(j);
    j = next;
  }
}

const Json *json_get(const Json *object, const char *key) {
  if (!object || object->kind != JSON_OBJECT) return NULL;
  for (const Json *m = object->first; m; m = m->next)
    if (!strcmp(m->key, key)) return m;
  return NULL;
}

const char *json_get_text(const Json *object, const char *key, const char *otherwise) {
  const Json *m = json_get(object, key);
  return m && m->kind == JSON_STRING ? m->text : otherwise;
}

int64_t json_get_int(const Json *object, const char *key, int64_t otherwise) {
  const Json *m = json_get(object, key);
  return m && (m->kind == JSON_INT || m->kind == JSON_BOOL) ? m->i : otherwise;
}

double json_get_number(const Json *object, const char *key, double otherwise) {
  const Json *m = json_get(object, key);
  return m && (m->kind == JSON_INT || m->kind == JSON_DOUBLE) ? m->f : otherwise;
}
