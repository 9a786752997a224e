/* json: reads one JSON text (RFC 8259) into a tree. Objects keep the order of their members. */
#ifndef NEREID_CLI_JSON_H
#define NEREID_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>

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
int64_t json_int(const Json *object, const char *key, int64_t otherwise);

#endif
