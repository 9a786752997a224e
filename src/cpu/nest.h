/* nest: one Group while it becomes a loop nest; shared by nest.c, access.c and reduce.c.
 *
 *     {
 *       at[0]                                   level 0: what no index changes
 *       for (i0) {
 *         at[1]                                 level 1: what i0 changes
 *         for (i1 = 0; i1 < whole; i1 += ND_VL) { body; sinks }      the vector level, whole vectors (perhaps after a
 *                                                                    loop of several vectors an iteration, to hide
 *                                                                    latencies)
 *         for (i1 = whole; i1 < rest; ..) { .. }                     the same once more, with masks
 *         for (i1 = rest; i1 < 1024; ..) { .. }                      and where no mask holds: what reductions still
 *                                                                    want
 *         after[1]
 *       }
 *       after[0]
 *     }
 *
 * A value is written at the outermost level where all its indices are known, as a C scalar; at the vector level as a
 * vector.
 */
#ifndef NEREID_CPU_NEST_H
#define NEREID_CPU_NEST_H

#include "cpu/emit.h"

/* The three passes over a nest's body. WHOLE: range masks hold for all lanes. MASKED: some lanes. REST: for none, so
 * that loads are their `other` and stores nothing. */
typedef enum { WHOLE, MASKED, REST } Mode;

/* A value as the nest has it at one index. */
struct NestText {
  int8_t map[MAX_RANK];
  const char *name;
  int level;
  Dtype dtype;
  NestText *next;
};

typedef struct NamedText {
  int level;
  const char *value, *name;
} NamedText;

typedef struct Nest {
  Emit *e;
  Group *g;
  int loops; /* scalar loops around the vector loop */
  int loop_dim[MAX_RANK];
  int vector_dim;          /* or -1: one element, all scalar */
  int64_t width;           /* of the vector dim */
  int dim_level[MAX_RANK]; /* where a dim's index is known */
  int vector_level;        /* loops + 1 */
  Buf at[MAX_RANK + 1], after[MAX_RANK + 1];
  Buf body, sinks;
  Buf rest; /* the REST pass's own scalars */
  Mode mode;
  VEC(const char *) bounds; /* of the range masks met in the first pass: where whole vectors end ... */
  VEC(const char *) ends;   /* ... and from where on no lane holds */
  const char *prefetch;     /* bytes from what is loaded now to what the next program loads */
  VEC(Info *) touched;
  VEC(Sym *) syms;
  VEC(NamedText) names; /* int64_t variables of the scalar levels, each expression once */
  struct FirstMask {
    const char *hi, *name;
  } first[32];
  int first_count;
  /* masks already understood */
  struct Range {
    Value *value;
    int8_t map[MAX_RANK];
    const char *lo, *hi;
    int level;
  } ranges[32];
  int range_count;
  int pass;
  int copy;  /* of the body in an unrolled loop: which vector it works on; else 0 */
  Buf merge; /* what joins the copies' accumulators after that loop */
} Nest;

/* nest.c */
Buf *nest_at(Nest *n, int level);
void nest_put(Nest *n, Buf *b, int level, const char *format, ...) PRINTF_LIKE(4, 5);
const char *nest_named(Nest *n, int level, const char *value);
const char *nest_declare(Nest *n, int level, Dtype d, const Value *v, const char *value);
const NestText *nest_demand(Nest *n, Value *v, const int8_t *map);
const char *as_vector(Nest *n, const NestText *t);
const char *as_form(Nest *n, const NestText *t, bool vector);
const char *index_name(Nest *n, int dim);
const char *sym_text(Nest *n, Sym *s);

/* access.c */
typedef struct Mask {
  const char *cond;
  int cond_level; /* a scalar condition */
  const char *lo, *hi;
  int range_level; /* of the vector dim's index */
  const char *vector;
  bool never;
} Mask;
void mask_add(Nest *n, Mask *m, Value *v, const int8_t *map);
/* The mask as a vector: NULL when all lanes of this pass hold, NO_LANES when none does. */
extern const char NO_LANES[];
const char *mask_vector(Nest *n, Mask *m);
bool mask_is_scalar(const Mask *m);
/* base without the vector dim's part, an int64_t, and what the vector dim adds an index. */
const char *index_base(Nest *n, const Index *x, int rank, const int8_t *map, int *level, Sym **step,
                       const NestText **terms, Sym **scales, int *term_count);
NestText load_value(Nest *n, Op *op, const int8_t *map);
NestText load_view(Nest *n, const View *v, const Type *t, const int8_t *map);
void store_root(Nest *n, FusionRoot *r);
void keep_root(Nest *n, FusionRoot *r);
void atomic_root(Nest *n, FusionRoot *r);
/* Address of a kept element (int64_t text, vector dim included) and whether the vector dim is contiguous there. */
void view_address(Nest *n, const View *v, const Type *t, const int8_t *map, const char **base, int *level,
                  int64_t *step);

/* reduce.c */
void reduce_root(Nest *n, FusionRoot *r);
bool reduce_splits(Emit *e, const Op *op);

#endif
