/* ptx: what the files that print PTX share. Private to src/gpu/ptx*.c.
 *
 * A value's register is named by its type and a number, given when it is first met: %p1, %h7, %r12, %rd3 (.pred .b16
 * .b32 .b64). PTX's instructions of every kind take such registers of bits. Constants have no registers; they are
 * written into the instruction, or, where it takes registers only (vectors, halves), stand in one that is set at the
 * kernel's beginning.
 *
 * One instruction is printed so:
 *
 *     open(p, op, "add.");  put(p, "s32");  args(p, 3, reg(p, d), arg(p, a, kind), arg(p, b, kind));
 */
#ifndef NEREID_PTX_H
#define NEREID_PTX_H

#include "gpu/gpu.h"

typedef struct Arg {
  char s[32];
} Arg;

typedef struct Ptx Ptx;
struct Ptx {
  Context *cx;
  const LaneFunc *f;
  const GpuTarget *target;
  const char *version;    /* at least the target's */
  Buf entry, body;        /* what the kernel begins with; the rest */
  Buf *out;               /* where instructions go: body, or entry for a moment */
  int *number;            /* by value id: of its register; 0: none yet */
  const LaneValue **same; /* by value id: the value in whose register it lies, or NULL */
  int count[4];           /* registers of each LaneType so far; numbers begin at 1 */
  int labels;
  struct {
    uint32_t bits;
    Arg reg;
  } high[8]; /* words of descriptors that are constants, in registers */
  int high_count;
  Arg policy[3]; /* evict first, evict last: the register of the policy for the L2 cache; "": none yet */
  bool lines;
  bool records;      /* ptx/record.c's registers are needed */
  bool one_block;    /* the assembler is to know how many registers a thread begins with */
  int tile_streamed; /* registers for a loop that loads a large tile and takes sums of it; 0: there is none */
  int streamed;      /* registers for a loop that has many small loads and does little else; 0: there is none */
  const Span *span;  /* of the last .loc */
  VEC(const Source *) sources;
  GpuPtx said; /* what has been printed so far */
  int sums, shuffles, barriers, tensor_products, loads;
  bool in_tmem;                               /* sums of products */
  struct PtxCopy *copies;                     /* scratch of parallel copies, by value id */
  void (*print_op)(Ptx *p, const LaneOp *op); /* any operation (ptx.c) */
};

/* ---- ptx/write.c --------------------------------------------------------------------------------------------------- */
static inline void put(Ptx *p, const char *s) { buf_puts(p->out, s); }
void ptx_put_int(Ptx *p, int64_t v);
/* a tab, the guard of an op (NULL: none), the mnemonic so far */
void ptx_open(Ptx *p, const LaneOp *guard, const char *mnemonic);
void ptx_args(Ptx *p, int n, const Arg *args); /* " a, b, c;" */
#define ptx_args_of(p, ...) ptx_args((p), sizeof((Arg[]){__VA_ARGS__}) / sizeof(Arg), (Arg[]){__VA_ARGS__})
Arg ptx_text(const char *s);
Arg ptx_int(int64_t v);
Arg ptx_reg(Ptx *p, const LaneValue *v);             /* its register; a constant is brought into one */
Arg ptx_arg(Ptx *p, const LaneValue *v, LaneKind k); /* as an operand of that kind: register or immediate */
Arg ptx_fresh(Ptx *p, LaneType t);                   /* a register for a moment */
Arg ptx_const_reg(Ptx *p, LaneType t, uint64_t bits);
void ptx_move(Ptx *p, LaneType t, const LaneOp *guard, Arg to, Arg from);
bool ptx_const(const LaneValue *v, uint64_t *bits);
const char *ptx_type_name(LaneType t); /* "b32" */
const char *ptx_prefix(LaneType t);    /* "%r" */
Arg ptx_numbered(const char *prefix, int number);
const LaneValue *ptx_value(const Ptx *p, const LaneValue *v); /* in whose register v lies */

/* ---- ptx/share.c ------------------------------------------------------------------------------------------------- */
/* before anything is printed: which values of loops share a register */
void ptx_share(Ptx *p);

/* ---- ptx/control.c ----------------------------------------------------------------------------------------------- */
void ptx_label(Ptx *p, const char *name, int number);
/* Branches there where pred is true (or false, when `not`); pred NULL: always. */
void ptx_branch(Ptx *p, const Arg *pred, bool not, bool uniform, const char *name, int number);
void ptx_block(Ptx *p, const LaneBlock *b); /* without what ends it */
void ptx_for(Ptx *p, const LaneOp *op);
void ptx_while(Ptx *p, const LaneOp *op);
void ptx_if(Ptx *p, const LaneOp *op);

/* ---- ptx/arith.c, ptx/convert.c, ptx/memory.c -------------------------------------------------------------------- */
void ptx_arith(Ptx *p, const LaneOp *op);
void ptx_setp(Ptx *p, const LaneOp *op);
void ptx_select(Ptx *p, const LaneOp *op);
void ptx_cvt(Ptx *p, const LaneOp *op);
void ptx_cvt2(Ptx *p, const LaneOp *op);
void ptx_cvt1x2(Ptx *p, const LaneOp *op);
void ptx_load(Ptx *p, const LaneOp *op);
void ptx_store(Ptx *p, const LaneOp *op);
void ptx_atomic(Ptx *p, const LaneOp *op);
void ptx_shuffle(Ptx *p, const LaneOp *op);
void ptx_ldmatrix(Ptx *p, const LaneOp *op);
void ptx_stmatrix(Ptx *p, const LaneOp *op);
void ptx_mma(Ptx *p, const LaneOp *op);
const char *ptx_mma_type(LaneKind k); /* of operands of mma and wgmma */
void ptx_vote(Ptx *p, const LaneOp *op);
void ptx_redux(Ptx *p, const LaneOp *op);
void ptx_barrier(Ptx *p, const LaneOp *op);
void ptx_fence(Ptx *p, const LaneOp *op);
void ptx_asm(Ptx *p, const LaneOp *op);

/* ---- ptx/async.c ------------------------------------------------------------------------------------------------- */
void ptx_wgmma(Ptx *p, const LaneOp *op);
void ptx_wgmma_wait(Ptx *p, const LaneOp *op);
void ptx_cp_async(Ptx *p, const LaneOp *op);
void ptx_mbar(Ptx *p, const LaneOp *op);
void ptx_wait(Ptx *p, const LaneOp *op, const LaneValue *where); /* for a phase, where that holds; NULL: always */
void ptx_tensor(Ptx *p, const LaneOp *op);
void ptx_bulk(Ptx *p, const LaneOp *op); /* what else is of sm_90's copies: groups, fences, maps, elect, setmaxnreg */
void ptx_map_param(Ptx *p, const LaneValue *to, int i);
Arg ptx_address(Ptx *p, const LaneOp *op); /* memory.c: "[%rd1+16]", of the operation's first operand */

/* What tensor memory's operations share with them: a constant in a register that is made once; the descriptor of an
 * operand in shared memory; registers in braces; and what brings operands that are not there yet into the results'
 * registers, and says whether there were such. */
Arg ptx_word(Ptx *p, uint32_t bits);
Arg ptx_descriptor(Ptx *p, const LaneValue *low, uint32_t high);
void ptx_put_list(Ptx *p, int n, LaneValue *const *values);
bool ptx_move_in(Ptx *p, const LaneOp *op, LaneValue *const *from);

/* ---- ptx/tmem.c -------------------------------------------------------------------------------------------------- */
void ptx_tmem(Ptx *p, const LaneOp *op); /* any of tensor memory's */

/* ---- ptx/record.c ------------------------------------------------------------------------------------------------ */
void ptx_record_registers(Buf *out);
void ptx_record(Ptx *p, const LaneOp *op);

#endif
