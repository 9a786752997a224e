/* fields.h (inside syntax): the fields of every kind of node, for code that treats all kinds alike (ast.c, dump.c). */
#ifndef NEREID_SYNTAX_FIELDS_H
#define NEREID_SYNTAX_FIELDS_H

#include "syntax/syntax.h"

typedef enum {
  FIELD_NODE,      /* Node *, may be NULL */
  FIELD_NODES,     /* NodeList */
  FIELD_IDENT,     /* const char *, may be NULL */
  FIELD_IDENTS,    /* IdentList */
  FIELD_INT,       /* int */
  FIELD_OP,        /* PyOp */
  FIELD_OPS,       /* PyOpList */
  FIELD_CTX,       /* ExprContext */
  FIELD_VALUE,     /* ConstValue */
  FIELD_SINGLETON, /* ConstKind */
  FIELD_U_PREFIX,  /* bool; Python's field is kind='u' */
} FieldKind;

typedef struct Field {
  const char *name; /* NULL ends a kind's fields */
  FieldKind kind;
  size_t offset; /* in Node */
} Field;

enum { MAX_FIELDS_OF_NODE = 7 };
extern const Field node_fields[NODE_KIND_COUNT][MAX_FIELDS_OF_NODE + 1];

static inline const void *field_at(const Node *n, const Field *f) { return (const char *)n + f->offset; }
bool node_placed(NodeKind k); /* does Python give it a position */

#endif
