/* lane_table: what the lane IR's own files share beside lane.h: the attributes of an operation as data, the types of
 * results, and the meaning of one operation on bits (lane/eval.c), which folding and the simulator both use. Private to
 * src/gpu/lane_*.c and sim*.c.
 */
#ifndef NEREID_LANE_TABLE_H
#define NEREID_LANE_TABLE_H

#include "gpu/lane/lane.h"

/* ---- lane/table.c ------------------------------------------------------------------------------------------------ */

/* A FLAG is its name when it is not 0; a WORD one of `words` (always shown: also the first one); NUMBER, WIDE and
 * BUFFER are name=number; TO is a kind; IMM a signed number: bare for const and param, with a sign for memory,
 * name=number else.
 */
typedef enum {
  LANE_ATTR_FLAG,
  LANE_ATTR_WORD,
  LANE_ATTR_NUMBER,
  LANE_ATTR_WIDE,
  LANE_ATTR_BUFFER,
  LANE_ATTR_TO,
  LANE_ATTR_IMM,
  LANE_ATTR_TEXT
} LaneAttrKind;
typedef struct LaneAttr {
  const char *name;
  LaneAttrKind kind;
  int offset; /* in LaneOp, of the byte of a FLAG, WORD or NUMBER, the two of a WIDE */
  bool always_shown;
  const char *const *words;
  int word_count;
} LaneAttr;
enum { LANE_MAX_ATTRS = 8 };
int lane_attrs(LaneCode code, const LaneAttr *out[LANE_MAX_ATTRS]);
/* What `{...}` of an operation holds, as bytes: everything by which two operations of one code can differ, but for kind
 * and text. */
bool lane_same_attrs(const LaneOp *a, const LaneOp *b);
bool lane_kind_is_float(LaneKind k); /* packed ones too */
bool lane_kind_is_signed(LaneKind k);

/* The type of an operation's only result; false when code and kind do not tell (asm, control) or there is none. */
bool lane_result_type(const LaneOp *op, LaneType *out);
bool lane_commutes(const LaneOp *op); /* its first two operands */

/* ---- lane/eval.c ------------------------------------------------------------------------------------------------- */

/* The results of a pure operation on these operands, each zero-extended to 64 bits; out has room for two. False for
 * operations whose meaning is not in their operands (special, param, shared, asm). */
bool lane_eval(const LaneOp *op, const uint64_t *in, uint64_t *out);
/* Whether that is bit for bit what a GPU gives: not for approximations, NaNs, and division by zero. */
bool lane_eval_is_exact(const LaneOp *op, const uint64_t *in);
uint64_t lane_type_mask(LaneType t);
/* rmw of one element as the memory's unit does it; cas takes compare in y and value in z. */
uint64_t lane_eval_rmw(int rmw, LaneKind kind, uint64_t old, uint64_t y, uint64_t z);

/* lane/verify_products.c: what lane_verify asks of asynchronous products */
void lane_verify_products(LaneFunc *f, const char *after);

#endif
