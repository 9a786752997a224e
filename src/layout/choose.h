/* choose: what the files that choose layouts share. Private to src/layout; the contract is in layout.h.
 *
 *     choose.c   the order of events: anchors, propagation, what is left
 *     layout/constraints.c    which values want the same layout, and how a layout goes from one to the next
 *     assign.c   writes the choice into the IR: Value.layout, copies of cheap values, convert_layout
 *     dot.c      layouts of products
 *     access.c   what a load or store costs in a layout
 *     verify_layout.c  the rules, checked
 */
#ifndef NEREID_LAYOUT_CHOOSE_H
#define NEREID_LAYOUT_CHOOSE_H

#include "layout/layout.h"

typedef struct Use {
  Op *op;
  int operand;
} Use;
/* a value that has been made again in another layout */
typedef struct Held {
  const Layout *layout;
  Value *value;
  struct Held *next;
} Held;

/* What is known of a tensor value of the Func as it came, by id. */
typedef struct Node {
  bool cheap; /* computed again rather than converted; never has a layout of its own choice */
  float work; /* cheap: about how many instructions an element takes */
  int depth;  /* loops around it */
  int first_use, use_count;
  const Layout *want;  /* the choice */
  const Layout *sum;   /* of a product's accumulator, wherever it is handed on: the product's, and no other */
  const Layout *trial; /* in the propagate numbered `epoch` */
  int epoch;
  Value **operands; /* cheap: as they were before the first copy */
  Held *held;
} Node;

/* An operation that cares which layout it gets; at op->note while the pass runs. */
typedef struct Anchor {
  Op *op;
  int depth, epoch;
  int number;         /* in program order */
  double weight;      /* bytes x 10^depth */
  const Layout *best; /* loads, stores, atomics: access_layout */
  double best_cost;
} Anchor;

typedef struct Price {
  const Layout *from, *to;
  int bytes, squares, cost;
} Price;

typedef struct Chooser {
  Context *cx;
  Func *f;
  int num_warps;
  DotUnit unit;    /* the best that products of 16-bit floats may take */
  bool rows_first; /* their warps go down the rows */
  Node *node;
  int node_count; /* values that the pass makes have ids from here on */
  Use *uses;
  VEC(Anchor *) anchors; /* in program order */
  VEC(Value *) queue;    /* of the propagate */
  int epoch;
  double cost;   /* of the propagate so far */
  Price *prices; /* a small cache: PRICES entries */
  Map *cloned;   /* what op_clone asks for */
} Chooser;
enum { PRICES = 256 };

static inline bool is_tensor(const Value *v) { return v->type->rank > 0; }
static inline int layout_inputs(const Layout *l) { return l->reg_bits + l->lane_bits + l->warp_bits; }

/* ---- layout/constraints.c ---------------------------------------------------------------------------------------- */
void constraints_build(Chooser *c); /* nodes, uses, anchors */
/* Calls reach(c, neighbour, its layout) for what v is linked to. The layout may be NULL, the neighbour a scalar or
 * cheap. */
void constraints_each(Chooser *c, Value *v, const Layout *l, void (*reach)(Chooser *c, Value *v, const Layout *l));

/* The same through products and control flow alone, which hand a sum on. */
void constraints_each_sum(Chooser *c, Value *v, const Layout *l, void (*reach)(Chooser *c, Value *v, const Layout *l));

/* ---- rules.c: what some operations ask of a layout --------------------------------------------------------------- */
/* l: of the operands of reduce, scan, sort, map; else of the result (split: operand) */
bool layout_suits(const Op *op, const Layout *l);
const Layout *layout_suitable(Chooser *c, const Op *op, const Layout *near); /* one that does */
/* Where a reduction's results lie before they are brought to where they are wanted; t, l: of its operands. */
const Layout *layout_reduced(Context *cx, const Type *t, const Layout *l, int axis);
/* A layout of t, one dim larger than l's tensor by `axis` (or that has size 1 there): l, with the bits of the axis in
 * what is free. */
const Layout *layout_widened(Context *cx, const Type *t, const Layout *l, int axis);

/* ---- dot.c ------------------------------------------------------------------------------------------------------- */
const Layout *layout_for_dot(Chooser *c, const Op *dot); /* of the accumulator */
/* Of an operand that threads hold or write; NULL: any. Warpgroups take f32 along k alone: what comes from memory across
 * is turned while it is narrow, before arithmetic widens it. The first operand then stays in registers. */
const Layout *layout_for_operand(Chooser *c, const Op *dot, int k);
const Op *layout_load_of(const Value *v);

/* ---- assign.c ---------------------------------------------------------------------------------------------------- */
void assign_layouts(Chooser *c);
int convert_layout_price(Chooser *c, const Layout *from, const Layout *to, const Type *t);

/* ---- access.c ---------------------------------------------------------------------------------------------------- */
/* What an access costs a warp, in issue slots and sectors, all its registers together. */
double access_cost(const Value *ptr, const Value *mask, const Layout *l, bool is_store);
/* access_layout with at most `vector` elements a thread, and, `slow_warps`, with warps along the slowest dims first. */
const Layout *access_layout_with(Context *cx, const Value *ptr, const Value *mask, int num_warps, int vector,
                                 bool slow_warps);

#endif
