/* cost: what one launch of a Func asks of the machine, counted from the tile IR without running it on data.
 *
 * A program is walked with its integers as values: program ids, arguments and all that is computed from them are known,
 * what is loaded is not. Loops with known bounds are walked iteration by iteration, so trip counts and the masks of
 * each iteration are exact. Of
 *
 *     offsets = program_id(0) * 1024 + arange(0, 1024);  mask = offsets < n;  x = load(x_ptr + offsets, mask);  y = x
 * * 2.0
 *
 * with n = 1000 the load takes 4000 bytes and the product 1000 multiplications: an operation counts for the elements
 * that all its operands were loaded for ("live"), as far as that is a box of indices.
 *
 * Integers that a kernel loads are known as well where the array's contents are given and the launch does not change
 * them: lengths, block tables, indices. Where other data decides, a note says how it was counted. All programs of a
 * grid are walked if that is quick; else programs between two that count alike, and one in the middle, stand for those
 * between.
 */
#ifndef NEREID_TILE_COST_H
#define NEREID_TILE_COST_H

#include "tile/tile.h"

typedef enum {
  COST_ADD, /* additions and subtractions of floats */
  COST_MUL,
  COST_FMA,            /* fused multiply-adds: two operations each */
  COST_DIV,            /* quotients, remainders, reciprocals */
  COST_TRANSCENDENTAL, /* exp, log, sin, sqrt, ...: one each */
  COST_DOT,            /* multiply-adds of dots: two operations each */
  COST_COMPARE, /* min, max, comparisons, sign and absolute value of floats: no floating-point operations by custom */
  COST_INTEGER, /* operations on integers, booleans and addresses */
  COST_ATOMIC,  /* atomic operations, by element */
  COST_KINDS
} CostKind;

/* The same sums, products and multiply-adds once more by the type they are computed in, and dots by their operands'. */
typedef enum { COST_F64, COST_F32, COST_F16, COST_BF16, COST_TYPES } CostType;
typedef enum { DOT_F64, DOT_F32, DOT_TF32, DOT_F16, DOT_BF16, DOT_F8, DOT_I8, DOT_TYPES } DotType;

typedef enum {
  COST_NOTE_MASK,    /* a mask that data decides: all its elements are counted */
  COST_NOTE_BRANCH,  /* an `if` that data decides: the lesser of its sides is counted */
  COST_NOTE_LOOP,    /* a loop whose end data decides: its iterations past those that are certain are not counted */
  COST_NOTE_ADDRESS, /* addresses that data decides: which bytes are distinct is not known */
  COST_NOTE_ASM,     /* inline assembly: not counted */
  COST_NOTE_SAMPLED, /* some programs were counted for others */
  COST_NOTE_LONG,    /* iterations of a long loop were counted as its last walked one */
  COST_NOTES
} CostNote;
const char *cost_note_text(CostNote note);

/* What the accesses through one argument's pointer ask for, in bytes, over all programs; distinct: each byte once, at
 * most (the span from the first to the last byte, or all that is asked for where that is less). */
typedef struct CostAccess {
  int64_t bytes, distinct;
} CostAccess;

/* An access that is certain to lie outside of its argument's array, with the mask and in the program that it has. */
typedef struct CostFault {
  const Op *op; /* NULL: none was met */
  int arg;
  int64_t at, bytes; /* of one element, counted from the argument */
  int32_t program[3];
} CostFault;

typedef struct TileCost {
  int64_t count[COST_KINDS];
  int64_t typed[COST_TYPES][3]; /* COST_ADD, COST_MUL, COST_FMA */
  int64_t dots[DOT_TYPES];
  CostAccess *loads, *stores; /* per argument of the Func; atomics are in both */
  CostAccess load, store;     /* their sums, with accesses through pointers of unknown origin */
  int64_t programs, walked;   /* of the grid; those that were walked */
  CostFault fault;            /* the first that was met, of arrays whose size is known */
  bool noted[COST_NOTES];
  const Span *place[COST_NOTES]; /* of the first such operation; may be NULL */
} TileCost;

/* f: after tile_optimize. args: as interp_run takes them. contents: each argument's array, as `tile_host_arrays`
 * leaves them; NULL: nothing is known. In f's arena; fails only for want of memory. */
TileCost *tile_cost(Func *f, const uint64_t *args, const HostArray *contents, const int32_t grid[3]);
/* Forgets the contents of arrays that a launch of f may write, also through an argument that overlaps. */
void tile_host_arrays(const Func *f, const uint64_t *args, HostArray *contents);

#endif
