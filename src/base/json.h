/* json: the one reader and the one writer of JSON (RFC 8259).
 *
 * The reader makes a tree of a text; objects keep the order of their members. The writer puts out one value after
 * another and places the commas itself; a value has a key in an object, NULL in an array:
 *
 *     JsonWriter w = {.file = out};
 *     json_begin_object(&w, NULL);
 *     json_put_text(&w, "kernel", "add");
 *     json_begin_array(&w, "grid");
 *     for (int i = 0; i < 3; i++) json_put_int(&w, NULL, grid[i]);
 *     json_end_array(&w);
 *     json_end_object(&w);                                           {"kernel":"add","grid":[4,1,1]}
 */
#ifndef NEREID_BASE_JSON_H
#define NEREID_BASE_JSON_H

#include "base/base.h"

/* ---- json_read.c ------------------------------------------------------------------------------------------------- */

typedef enum { JSON_NULL, JSON_BOOL, JSON_INT, JSON_DOUBLE, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;

typedef struct Json {
  JsonKind kind;
  bool is_unsigned;   /* INT above INT64_MAX: i holds its bits */
  int64_t i;          /* BOOL, INT */
  double f;           /* INT, DOUBLE; NaN, Infinity, -Infinity are taken as Python writes them */
  char *text;         /* STRING; a member's or number's text otherwise NULL */
  char *key;          /* of a member of an object */
  struct Json *first; /* ARRAY, OBJECT: children */
  struct Json *next;
  int count;
} Json;

Json *json_parse(const char *text, const char **why); /* NULL with a reason; free with json_free */
void json_free(Json *j);
const Json *json_get(const Json *object, const char *key); /* NULL when absent or no object */
const char *json_get_text(const Json *object, const char *key, const char *otherwise);
int64_t json_get_int(const Json *object, const char *key, int64_t otherwise);
double json_get_number(const Json *object, const char *key, double otherwise); /* INT, DOUBLE */

/* ---- json_write.c ------------------------------------------------------------------------------------------------ */

typedef struct JsonWriter {
  FILE *file; /* one of the two is set */
  Buf *buf;
  bool spaced;  /* ", " and ": " */
  bool follows; /* a value stands before the next one in its array or object */
  const char *before_next;
} JsonWriter;

void json_begin_object(JsonWriter *w, const char *key);
void json_end_object(JsonWriter *w);
void json_begin_array(JsonWriter *w, const char *key);
void json_end_array(JsonWriter *w);
/* Quoted and escaped; bytes that are no UTF-8 become U+FFFD. Safe inside of HTML's <script>. */
void json_put_text(JsonWriter *w, const char *key, const char *text);
void json_put_int(JsonWriter *w, const char *key, int64_t v);
void json_put_unsigned(JsonWriter *w, const char *key, uint64_t v);
void json_put_bool(JsonWriter *w, const char *key, bool v);
void json_put_null(JsonWriter *w, const char *key);
/* With so many significant digits, or so many after the point; null for what is not finite. */
void json_put_real(JsonWriter *w, const char *key, int digits, double v);
void json_put_fixed(JsonWriter *w, const char *key, int decimals, double v);
void json_put_ints(JsonWriter *w, const char *key, const int64_t *v, int n); /* an array */
/* A value that the caller writes himself. */
void json_put_key(JsonWriter *w, const char *key);
/* White space (a literal) before the next value, after its comma, or before the bracket that closes. */
void json_break(JsonWriter *w, const char *space);
/* The bytes at s of a character of UTF-8; 0: none begins there. */
int utf8_length(const char *s);

#endif
