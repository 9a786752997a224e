/* gemm: loops that add up products, as one product of packed operands. Private to the folder; gemm.c has the idea. */
#ifndef NEREID_CPU_GEMM_H
#define NEREID_CPU_GEMM_H

#include "cpu/plan.h"

/* One operand of the loop's dots: those that share it share what is packed. */
typedef struct GemmOperand {
  Value *value;
  int which; /* 0: a, 1: b */
  DotKind kind;
  int first, end; /* the items of the body's plan that make its tile ... */
  View *view;     /* ... there */
  bool always;    /* they are run in every iteration, since another operand needs them */
  Buffer *packed; /* the tiles of many iterations */
  int64_t capacity;
  Buffer *memo; /* what it was packed from: NULL when that cannot be told */
  Value *keys[8];
  int key_count;
} GemmOperand;

typedef struct GemmDot {
  Op *op;
  GemmOperand *a, *b;
} GemmDot;

struct Gemm {
  VEC(GemmOperand *) operands;
  VEC(GemmDot) dots;
  Group *epilogue; /* the nest that reads the sums, rows by rows, while they are in the first caches; or NULL */
};

/* NULL: not such a loop. To be asked before its body is planned. */
Gemm *gemm_of(Emit *e, const Op *loop);
/* Whether the planner leaves a reshape of the loop's body to the dots that take it. */
bool gemm_takes_reshape(Emit *e, const Op *op);
/* Operand `which` of dot: known from an earlier dot of the body, or NULL; or made by the items of the plan from `first`
 * on. */
GemmOperand *gemm_known(const Gemm *g, const Op *dot, int which);
GemmOperand *gemm_operand(Planner *p, Gemm *g, Op *dot, int which, int first);
void gemm_planned(Planner *p, Gemm *g);
/* Looks for the loop's epilogue after item `at` of the plan: its number, or `at` where there is none. Before that
 * stand scalars alone. */
int gemm_find_epilogue(Emit *e, Gemm *g, const Plan *p, int at);
/* The loop, but for the last products, which emit_gemm_last() writes with the epilogue.
 * carry: writes what the loop hands to its next iteration. */
void emit_gemm(Emit *e, Op *loop, Gemm *g, const Plan *p, void (*carry)(Emit *e, Op *loop, void *arg), void *arg);
void emit_gemm_last(Emit *e, const Gemm *g);

#endif
