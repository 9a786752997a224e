/* join: what the two regions of an `if` yield. Private to src/front/kernel. */
#ifndef NEREID_FRONT_JOIN_H
#define NEREID_FRONT_JOIN_H

#include "front/core.h"

/* index -1: the part is the same on both sides */
typedef struct Merge {
  Py *like;
  Value **parts;
  int *index;
  int n;
  Py *result;
} Merge;
typedef struct Join {
  Front *fr;
  Block *a, *b; /* then, else */
  VEC(Value *) from_a, from_b;
  VEC(const Type *) types;
} Join;

Merge join_py(Join *j, const Py *a, const Py *b);       /* of the same type */
int join_value(Join *j, Value *a, Value *b);            /* which result it is; -1: the same on both sides */
Op *join_build(Join *j, Value *cond, const Span *span); /* where the builder stands */
Py *join_result(Front *fr, const Merge *m, const Op *op);

#endif
