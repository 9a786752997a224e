/* poly: integers of a kernel as polynomials, so that two ways to write an index can be compared and taken apart.
 *
 *     (tile_m * 128 + arange(0, 128)) * stride + arange(0, 64)     128 tile_m stride + stride @0 + @1
 *     a carried offset, 0 at first, that grows by 64 * stride      64 stride #k      #k: which iteration runs, from 0
 *     the loop's variable, from 0 by steps of 64                   64 #k
 *     (tile_m * 128 + arange(0, 128)) % M                          (128 tile_m % M) + @0        if 128 divides M
 *
 * What a polynomial is made of are atoms: scalars that are taken as they are (arguments, and results of what is no sum
 * or product), the index along a dim of the tile (@), the number of a loop's iteration (#), and remainders. An atom is
 * static when it depends on the kernel's arguments alone: a launch knows it. Index arithmetic is taken not to overflow,
 * as in axis_info.c; conversions to narrower types, and what is unsigned, are not looked into.
 */
#ifndef NEREID_TILE_POLY_H
#define NEREID_TILE_POLY_H

#include "tile/tile.h"

typedef struct Poly Poly;
typedef enum { ATOM_VALUE, ATOM_INDEX, ATOM_TRIP, ATOM_REM } AtomKind;
typedef struct PolyAtom {
  AtomKind kind;
  bool is_static;
  int sign;          /* SIGN_* */
  int64_t divisible; /* a power of two */
  Value *value;      /* VALUE */
  int dim;           /* INDEX */
  const Op *loop;    /* TRIP */
  const Poly *x, *y; /* REM: of scalars, neither negative; y is static */
  Dtype type;        /* REM: in which the kernel computes x */
} PolyAtom;

enum { POLY_TERMS = 24, POLY_DEGREE = 6 };
typedef struct PolyTerm {
  int64_t factor;
  int count;
  int atoms[POLY_DEGREE]; /* ascending */
} PolyTerm;
struct Poly {
  int count;
  const PolyTerm *at; /* in order, each product of atoms once, no factor zero */
};

/* What must hold for the reading to be right, beside what axis_info.c takes for granted. */
typedef enum { POLY_AT_LEAST, POLY_MULTIPLE, POLY_ALIGNED } PolyNeed; /* ALIGNED: MULTIPLE, for the sake of an engine */
typedef struct PolyCondition {
  PolyNeed need;
  const Poly *of; /* static */
  int64_t number;
} PolyCondition;

typedef struct PolySpace {
  Context *cx;
  const Func *f;
  VEC(PolyAtom) atoms;
  VEC(PolyCondition) conditions;
  int steps;       /* that are left */
  const char *why; /* what could not be read */
} PolySpace;

PolySpace *poly_space(const Func *f);

/* Of an integer value; dims[d]: which dim of the tile v's dim d is. NULL: it is none, and s->why says why. */
const Poly *poly_of(PolySpace *s, Value *v, const int *dims);
/* Of a pointer: elements from *base, which is an argument of the Func. */
const Poly *poly_of_pointer(PolySpace *s, Value *v, const int *dims, Value **base);
/* dims of op's operand, of its result's; for operations that only move elements. false: it does more. */
bool poly_dims(const Op *op, const int *dims, int *of_operand);

/* All of these give NULL when an operand is NULL, and where the result is too large. */
const Poly *poly_int(PolySpace *s, int64_t v);
const Poly *poly_add(PolySpace *s, const Poly *x, const Poly *y);
const Poly *poly_sub(PolySpace *s, const Poly *x, const Poly *y);
const Poly *poly_mul(PolySpace *s, const Poly *x, const Poly *y);
bool poly_equal(const Poly *x, const Poly *y);
bool poly_is_int(const Poly *x, int64_t *v);
bool poly_is_static(const PolySpace *s, const Poly *x);
/* The part whose terms are static, or not. */
const Poly *poly_part(PolySpace *s, const Poly *x, bool is_static);
/* The factor of the index along dim d; NULL: there is a term with it and another index, or twice. */
const Poly *poly_per_index(PolySpace *s, const Poly *x, int d);
const Poly *poly_without_indices(PolySpace *s, const Poly *x);
int64_t poly_divisible(const PolySpace *s, const Poly *x);

/* Notes a condition, if it is not known to hold. false: it never does. */
bool poly_need(PolySpace *s, PolyNeed need, const Poly *of, int64_t number);
/* Whether x is nowhere negative; notes what of the arguments that takes. */
bool poly_non_negative(PolySpace *s, const Poly *x);

/* x as a number of type t, of operations at b. `top`: the operations that static scalars need are made again, since b
 * stands before them. Computed modulo 2^bits, so that it is right wherever it fits t. */
Value *poly_build(PolySpace *s, Builder *b, const Poly *x, Dtype t, bool top);

void poly_print(Buf *out, const PolySpace *s, const Poly *x);

#endif
