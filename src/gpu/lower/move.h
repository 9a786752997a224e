/* lower_move: what the operations that move data between threads share (convert_layout, reduce, scan, sort, gather,
 * dot).
 *
 * Private to those files. A tensor in shared memory is a Place: a linear map from an element's flat index to where it
 * lies, in elements, so that an address is, like everything else about layouts, a linear map of the thread's id and a
 * constant for each register:
 *
 *     address(thread, register) = base + (map(thread part) ^ map(register part)) * bytes
 *
 * The thread's half is computed once; the register's half is an offset in the instruction wherever the two have no bit
 * in common.
 */
#ifndef NEREID_LOWER_MOVE_H
#define NEREID_LOWER_MOVE_H

#include "gpu/lower/lower.h"

/* ---- lower/convert_layout.c: elements in shared memory ---- */

typedef struct Place {
  int buffer;
  LaneKind kind;    /* of an element's register; pred lies in memory as a byte, 0 or 1 */
  int shift;        /* log2 of an element's bytes */
  F2Map map;        /* flat index -> offset in elements */
  int part_bits;    /* the tensor goes through in 2^part_bits parts, which the highest bits of an offset number */
  LaneValue *begin; /* bytes: where it begins in the buffer; NULL: 0 */
} Place;

Place lower_place(Lower *l, const char *name, LaneKind kind, const F2Map *map, int part_bits);
/* Registers of `layout` to and from memory, in accesses of up to 16 bytes. Each element of the part is written by one
 * of its holders. read leaves registers whose element is of another part as they are (regs[i] NULL: nothing yet). */
void lower_place_write(Lower *l, const Place *p, LaneValue *const *regs, const Layout *layout, int part);
void lower_place_read(Lower *l, const Place *p, LaneValue **regs, const Layout *layout, int part);

/* Begins to copy the tensor at these pointers to the place, `vector` consecutive registers at a time. masks may be
 * NULL.
 */
void lower_place_copy(Lower *l, const Place *p, LaneValue *const *pointers, LaneValue *const *masks,
                      const Layout *layout, int vector);

/* n consecutive elements (a power of two, 16 bytes at most) at address + imm. */
void lower_vector_store(Lower *l, LaneKind kind, int n, LaneValue *const *values, LaneValue *address, int64_t imm,
                        int buffer, LaneValue *guard);
void lower_vector_load(Lower *l, LaneKind kind, int n, LaneValue *address, int64_t imm, int buffer, LaneValue *guard,
                       LaneValue **out);
/* lower/squares.c: an access by ldmatrix or stmatrix */
void lower_squares_store(Lower *l, const SquareAccess *s, LaneKind kind, LaneValue *const *values, LaneValue *address,
                         int64_t imm, int buffer, LaneValue *guard);
void lower_squares_load(Lower *l, const SquareAccess *s, LaneKind kind, LaneValue *address, int64_t imm, int buffer,
                        LaneValue **values);

/* What of this kind goes by squares (Func.squares). */
int lower_squares_of(const Lower *l, LaneKind kind);
/* lower/dot.c: convert_layout of what a product finds in shared memory, or will. False: nothing was done. */
bool lower_staged_read(Lower *l, const Op *op);

int lower_kind_shift(LaneKind kind); /* log2 of its bytes in shared memory */
LaneType lower_kind_type(LaneKind kind);

/* n arrays of registers from one layout to another, with common barriers, through buffers of this name. */
void lower_convert_many(Lower *l, const char *name, int n, LaneValue **const *regs, const LaneKind *kinds,
                        const Layout *from, const Layout *to, LaneValue ***out);
LaneValue **lower_convert_kind(Lower *l, LaneValue **regs, LaneKind kind, const Layout *from, const Layout *to);
/* Whether an odd number of the lane's bits in `mask` are set. */
LaneValue *lower_lane_parity(Lower *l, uint32_t mask);
/* Whether a bit of the thread's id is set. */
LaneValue *lower_thread_bit(Lower *l, int bit);

/* ---- lower/axis.c: the bits of a place that run along an axis ---- */

typedef enum { AXIS_REG, AXIS_LANE, AXIS_WARP } AxisKind;
/* this bit of the register, lane or warp is bit `axis` of the index */
typedef struct AxisBit {
  AxisKind kind;
  int bit;
  int axis;
} AxisBit;
typedef struct Axis {
  int n, shift; /* bits of the index along the axis, and where they begin in a flat index */
  uint32_t mask;
  AxisBit at[F2_MAX]; /* the lowest of the index first */
} Axis;
/* False unless each vector lies in the axis or outside it, and those in it are one bit each, no bit twice. */
bool lower_axis(const Type *t, const Layout *layout, int axis, Axis *out);
/* A layout in which that holds: the operands' own (any_order: perhaps with the axis's elements in another order), or
 * another, to which the registers of all are moved. */
const Layout *lower_axis_operands(Lower *l, Op *op, int axis, bool any_order, LaneValue ***regs, LaneKind *kinds,
                                  Axis *out);
/* One operation's body on scalars: k values a, k values b. out may be a or b. */
void lower_combine(Lower *l, Op *op, LaneValue *const *a, LaneValue *const *b, LaneValue **out);
/* Totals that warps exchange. `layout` with the bits `done` of the index dropped is how they are held; on return each
 * thread holds the totals of all warps that differ in the warp bits `run` (a mask), in registers: those bits the lowest
 * of the register's number, by the order of `order`, then the registers as before. */
void lower_exchange_warps(Lower *l, int k, LaneValue ***totals, const LaneKind *kinds, const Layout *layout,
                          uint32_t done, int run_bits, const AxisBit *run, LaneValue ***out);

#endif
