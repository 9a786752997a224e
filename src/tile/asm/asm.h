/* Inline PTX as operations of the tile IR, for the devices that run no PTX: the interpreter, the CPU, the simulator.
 *
 *     "{ .reg .f32 t; mul.f32 t, $1, 0f3F000000; @p tanh.approx.f32 $0, t; }"
 *
 * The text is read once, statement by statement (read.c). A register is what was last written to it: one value of the
 * tile IR, or two or four that lie side by side in it, as packed halves do (registers.c), so that a chain of packed
 * operations packs nothing. Each instruction is a row of instructions.def: the types and modifiers that it takes and
 * the function that makes operations of it (arith.c, bits.c, convert.c, memory.c). A guard `@p` is a select between the
 * new value and the old one. expand.c is the pass: which elements lie in which register, by `constraints` and `pack`.
 *
 * Everything means what the PTX ISA says; where that leaves a result open, what the tile IR says. Approximations (ex2,
 * lg2, tanh, rcp.approx, ...) are computed as exactly as the device can.
 */
#ifndef NEREID_TILE_ASM_H
#define NEREID_TILE_ASM_H

#include "tile/tile.h"

typedef enum {
#define TYPE(name, bits, lanes, dtype) ASM_##name,
#include "tile/asm/types.def"
#undef TYPE
  ASM_TYPE_COUNT
} AsmTypeId;
typedef struct AsmType {
  const char *name;
  int bits, lanes;
  Dtype lane;
} AsmType;
extern const AsmType asm_types[ASM_TYPE_COUNT];

typedef struct AsmReg {
  const char *name;
  int bits;       /* 1: a predicate */
  int parts;      /* 1, 2 or 4 of bits / parts bits, the lowest first; 0: nothing was written */
  Value *part[4]; /* numbers of any type of that width */
} AsmReg;

typedef enum { ASM_REG, ASM_INT, ASM_FLOAT, ASM_VECTOR, ASM_ADDRESS, ASM_SINK } AsmOperandKind;
typedef struct AsmOperand {
  AsmOperandKind kind;
  bool negated; /* !p */
  AsmReg *reg;  /* of REG; of ADDRESS, NULL: none */
  int64_t value;
  double number;  /* of FLOAT */
  int float_bits; /* of FLOAT: 32 for 0f..., 64 */
  struct AsmOperand *items;
  int count; /* of VECTOR */
} AsmOperand;

enum { ASM_MAX_PARTS = 12, ASM_MAX_OPERANDS = 8 };
typedef struct AsmInst {
  const struct AsmRow *row;
  const char *text;                /* of the statement, for messages */
  const char *part[ASM_MAX_PARTS]; /* of the name, between the dots: "cvt" "rn" "f16" "f32" */
  int parts;
  AsmTypeId type[4]; /* those of the parts that name types */
  int types;
  AsmOperand in[ASM_MAX_OPERANDS]; /* the destination is the first */
  int count;
  AsmOperand also; /* setp's second destination, p|q */
  bool has_also;
} AsmInst;

typedef struct Asm {
  Builder *b;
  const Op *op;
  const Type *shape; /* of all values; its element does not matter */
  Value *guard;      /* i1, or NULL */
  Value *carry;      /* CC.CF */
  AsmReg *operand;   /* $0, $1, ... */
  int operand_count;
  AsmInst *inst; /* which is being made */
} Asm;

typedef enum {
#define INST(id, ...) ASMI_##id,
#include "tile/asm/instructions.def"
#undef INST
  ASMI_COUNT
} AsmCode;
typedef struct AsmRow {
  const char *name;
  void (*emit)(Asm *x, AsmInst *i);
  const char *types, *modifiers; /* words */
  int least, most;               /* operands */
  AsmCode code;
} AsmRow;

/* ---- read.c ---- */
void asm_read(Asm *x, const char *text); /* makes the operations of all statements */

/* ---- constant.c ---- */
bool asm_begins_constant(const char *at);
AsmOperand asm_constant(Asm *x, const char **at); /* an expression */

/* ---- common.c ---- */
NORETURN PRINTF_LIKE(2, 3) void asm_refuse(Asm *x, const char *format, ...);
bool asm_has(const AsmInst *i, const char *modifier);
Value *asm_2(Asm *x, OpCode code, Value *a, Value *b);
static inline AsmCode asm_code(const AsmInst *i) { return i->row->code; }

/* ---- registers.c ---- */
const Type *asm_value_type(Asm *x, Dtype d);
Value *asm_const(Asm *x, Dtype d, int64_t v); /* of bits for floats */
Value *asm_number(Asm *x, Dtype d, double v);
Value *asm_as(Asm *x, Value *v, Dtype d); /* the same bits */
/* A register as n values side by side. */
void asm_parts(Asm *x, const AsmReg *r, int n, Value **out);
void asm_set_parts(Asm *x, AsmReg *r, int n, Value *const *parts);
/* Operand k of the instruction: as one number of type d, or the lanes of a type. */
Value *asm_get(Asm *x, int k, Dtype d);
Value *asm_get_operand(Asm *x, const AsmOperand *o, Dtype d);
void asm_get_lanes(Asm *x, int k, AsmTypeId t, Value **out);
void asm_set(Asm *x, Value *v); /* the destination; a register that is wider is filled up by v's sign */
void asm_set_operand(Asm *x, const AsmOperand *o, Value *v);
void asm_set_lanes(Asm *x, AsmTypeId t, Value *const *lanes);

/* ---- arith.c: what other files make use of ---- */
Value *asm_flush(Asm *x, Value *v); /* subnormal numbers become zeros */
Value *asm_is_nan(Asm *x, Value *v);
Value *asm_saturate(Asm *x, Value *v); /* into [0, 1], NaN too */
Value *asm_relu(Asm *x, Value *v);
Value *asm_math(Asm *x, MathFn fn, Value *a, Value *b, Value *c); /* b, c may be NULL */
Value *asm_rounded(Asm *x, MathFn nearest, Value *a, Value *b,
                   Value *c); /* nearest: a row ..._RN; by .rn .rz .rm .rp */

#define ASM_EMIT(name) void asm_##name(Asm *x, AsmInst *i)
ASM_EMIT(arith);
ASM_EMIT(wide);
ASM_EMIT(carry);
ASM_EMIT(function);
ASM_EMIT(testp);
ASM_EMIT(setp);
ASM_EMIT(set_mask);
ASM_EMIT(selp);
ASM_EMIT(slct);
ASM_EMIT(logic);
ASM_EMIT(lop3);
ASM_EMIT(shift);
ASM_EMIT(shf);
ASM_EMIT(prmt);
ASM_EMIT(bfe);
ASM_EMIT(bfi);
ASM_EMIT(bfind);
ASM_EMIT(count);
ASM_EMIT(fns);
ASM_EMIT(szext);
ASM_EMIT(bmsk);
ASM_EMIT(dot);
ASM_EMIT(mov);
ASM_EMIT(cvt);
ASM_EMIT(cvt_pack);
ASM_EMIT(load);
ASM_EMIT(store);
ASM_EMIT(nothing);
ASM_EMIT(barrier);

#endif
