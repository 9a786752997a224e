/* front/library/lib.h: what the files of the library (semantic*.c, builtins.c, lib_*.c) share. Private to them.
 *
 * A library function is one row of a table: its name, its Python signature and a C function that gets the arguments in
 * the signature's order. The binder (builtins.c) has seen to missing, surplus and doubled arguments; what a row's
 * function checks itself are types, shapes and which arguments must be constexpr, with the helpers of lib_args.c.
 */
#ifndef NEREID_FRONT_LIB_H
#define NEREID_FRONT_LIB_H

#include "front/value.h"

/* ---- semantic.c: promotion and constants ------------------------------------------------------------------------- */

/* The type that a Python number takes when it must become a tensor on its own (semantics 3.2). */
const Type *sem_natural_type(Front *fr, Span at, const Py *number);
/* A Python number as a scalar of type `elem` (a number type): built directly, not by way of its natural type. */
Value *sem_constant(Front *fr, Span at, const Py *number, const Type *elem);

enum { PAIR_PTR_X = 1, PAIR_PTR_Y = 2, PAIR_NO_PROMOTION = 4, PAIR_DIV = 8 };
/* Brings two operands to one element type (semantics 3.3; Python numbers are weak) and one shape. `flags` say on which
 * side a pointer may stand and that the operation is / or %. `what` names the operation in messages: "+", "tl.where".
 */
void sem_pair(Front *fr, Span at, const char *what, unsigned flags, Py *x, Py *y, Value **vx, Value **vy);
/* The element type of x op y for two tensors. */
const Type *sem_common_type(Front *fr, Span at, const char *what, const Type *x, const Type *y, bool div);
Value *sem_bf16_to_f32(Front *fr, Value *v);
/* + - or *; `check`: with debug, assert that integers do not overflow. */
Py *sem_arithmetic(Front *fr, Span at, PyOp op, Py *x, Py *y, bool check);

/* ---- semantic_cast.c --------------------------------------------------------------------------------------------- */

Value *sem_cast_value(Front *fr, Span at, Value *v, const Type *to_elem, int rounding, bool bitcast);
Value *sem_splat(Front *fr, Value *v, int rank, const int32_t *shape); /* a scalar; rank 0 gives it back */
Value *sem_expand_dims(Front *fr, Value *v, int axis);
/* All to one shape. */
void sem_broadcast_all(Front *fr, Span at, int n, Value **v);
bool sem_is_ptr(const Type *t);
const Type *sem_pointee(Context *cx, const Type *t);               /* of a pointer's element type */
const char *type_text(Front *fr, const Type *t);                   /* "f32[128]" */
const char *shape_text(Front *fr, int rank, const int32_t *shape); /* "[64, 32]" */

/* ---- builtins.c: a method of a value, or NULL; library "tensor", "dtype", "desc" or "block_ptr" ------------------ */

Py *lib_member(Front *fr, const char *library, const char *attr, Py *self);

/* ---- lib_args.c: reading arguments; `b` and `name` are for the message ------------------------------------------- */

NORETURN void lib_fail(Front *fr, Span at, const Builtin *b, const char *hint, const char *format, ...)
    PRINTF_LIKE(5, 6);
/* The same without the function's name before it: for a message in Triton's words, which begins with them. */
NORETURN void lib_refuse(Front *fr, Span at, const char *hint, const char *format, ...) PRINTF_LIKE(4, 5);
/* p is a run-time value where a constexpr is wanted: `text` begins the message, the hint says how to repair it. */
NORETURN void lib_not_constexpr(Front *fr, Span at, const char *text, const Py *p);
bool lib_none(const Py *p);                                                             /* None, or absent */
PyInt lib_int(Front *fr, Span at, const Builtin *b, const char *name, const Py *p);     /* a constexpr int */
int lib_small_int(Front *fr, Span at, const Builtin *b, const char *name, const Py *p); /* within int32 */
/* What Triton takes for a bool depends on who asks for it. An argument that is left out is false. */
bool lib_bool(Front *fr, Span at, const Builtin *b, const char *name, const Py *p); /* C++: a number or None */
/* C++, by a constexpr that is not unwrapped: the truth of a number, a text, None, a tuple of Python's */
bool lib_flag(Front *fr, Span at, const Builtin *b, const char *name, const Py *p);
/* `if` in a function of Triton's library: a bool, an int or None */
bool lib_condition(Front *fr, Span at, const Builtin *b, const char *name, const Py *p);
/* Python's `if`: the truth of whatever it is; a run-time value is an object, and so true */
bool lib_truth(const Py *p);
const char *lib_str(Front *fr, Span at, const Builtin *b, const char *name, const Py *p);
/* As Triton asks for what a string says: what Python takes for false is "", something else is its text. */
const char *lib_option(Front *fr, Span at, const Builtin *b, const char *name, Py *p);
Value *lib_value(Front *fr, Span at, const Builtin *b, const char *name, Py *p);  /* tensor, or a number made one */
Value *lib_tensor(Front *fr, Span at, const Builtin *b, const char *name, Py *p); /* tensor, numbers refused */
Value *lib_block(Front *fr, Span at, const Builtin *b, const char *name, Py *p);  /* tensor of rank 1 or more */
const Type *lib_dtype(Front *fr, Span at, const Builtin *b, const char *name,
                      const Py *p); /* element type of a dtype argument */
/* An axis of `rank` dims; negative ones count from the end. */
int lib_axis(Front *fr, Span at, const Builtin *b, const char *name, const Py *p, int rank);
/* A shape from one int, a tuple or list, or what a *shape parameter gathered; every dim checked to be a power of two.
 */
int lib_shape(Front *fr, Span at, const Builtin *b, const char *name, const Py *p, int32_t *shape);
/* Constexpr ints from one int, a tuple or list, or a *dims parameter (one tuple in it is unpacked). */
int lib_ints(Front *fr, Span at, const Builtin *b, const char *name, const Py *p, int64_t *out, int max);
const char *lib_full_name(Front *fr, const Builtin *b); /* "tl.load", "libdevice.tanh" */

/* What is called once for many elements must be a jit function: one of the kernel's file, or of the library's those
 * that Triton has as such. */
void lib_jit_function(Front *fr, Span at, const Builtin *b, const char *name, const Py *fn);
void lib_note_inner_tensors(Front *fr, Block *body); /* what such a function built */

/* ---- homes.c ----------------------------------------------------------------------------------------------------- */

const char *builtin_home(const char *name);           /* "triton.language.standard" of "sum"; else core */
bool builtin_takes_declared(const Builtin *b, int i); /* its i-th argument may be one that a declaration wrapped */

/* ---- regions ----------------------------------------------------------------------------------------------------- */

/* Where the builder stood, kept while a region's body is built: Builder keep = lib_enter(fr, block); ...; fr->b = keep.
 */
Builder lib_enter(Front *fr, Block *block);

/* ---- lib_shape.c: the first n elements along axis, or all n in reverse ------------------------------------------- */

Value *lib_take(Front *fr, Value *x, int axis, int32_t n, bool backwards);

/* ---- lib_reduce.c ------------------------------------------------------------------------------------------------ */

typedef enum { COMBINE_ADD, COMBINE_MUL, COMBINE_MAX, COMBINE_MIN, COMBINE_XOR, COMBINE_OR, COMBINE_AND } Combine;
Value *lib_reduce_with(Front *fr, Value *x, int axis, Combine how);

/* ---- lib_blockptr.c ---------------------------------------------------------------------------------------------- */

Py *lib_load_block_ptr(Front *fr, const Builtin *b, Span at, BlockPtr *bp, const Py *boundary_check,
                       const char *padding, int cache, int evict, bool is_volatile);
void lib_store_block_ptr(Front *fr, const Builtin *b, Span at, BlockPtr *bp, Py *value, const Py *boundary_check,
                         int cache, int evict);

/* ---- lib_memory.c ------------------------------------------------------------------------------------------------ */

int lib_cache(Front *fr, Span at, const Builtin *b, Py *p, bool store);
int lib_evict(Front *fr, Span at, const Builtin *b, Py *p);

/* ---- lib_atomic.c ------------------------------------------------------------------------------------------------ */

MemSem lib_sem(Front *fr, Span at, const Builtin *b, Py *p);
MemScope lib_scope(Front *fr, Span at, const Builtin *b, Py *p);

/* ---- the tables, each ending with name NULL ---------------------------------------------------------------------- */

extern const Builtin lib_create_table[], lib_shape_table[], lib_memory_table[], lib_blockptr_table[],
    lib_atomic_table[], lib_dot_table[], lib_math_table[], lib_libdevice_table[], lib_reduce_table[], lib_debug_table[],
    lib_prelude_table[], lib_types_table[], lib_host_table[], lib_pymath_table[], lib_triton_table[], lib_gpu_table[],
    lib_private_table[];

/* Calls the function of prelude.py that bears the row's name (rows of library "helpers": with the prefix "inductor_").
 */
Py *lib_call_prelude(Front *fr, const Builtin *b, Span at, Py **args);

#endif
