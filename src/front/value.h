/* front/value.h: the values that the front end computes with, and the services its files give each other. Private to
 * src/front.
 *
 * Triton's rule: a Python value (number, string, dtype, function, None) is a constexpr, known now; a tensor is an
 * operation's result, known at run time. A `Py` is either. A plain assignment demotes a number to a run-time scalar
 * (front_demote); that is the only place where one becomes the other silently.
 *
 * core.h says which file does what.
 */
#ifndef NEREID_FRONT_VALUE_H
#define NEREID_FRONT_VALUE_H

#include "front/front.h"

typedef struct Py Py;
typedef struct Front Front; /* one compilation of one kernel */
typedef struct Builtin Builtin;
typedef struct Namespace Namespace; /* names of a file, a class or a function around others: module.c */
typedef __int128 PyInt;             /* Python's ints, bounded; overflow is an error */

typedef enum {
  PY_NONE,
  PY_VOID, /* what an operation without a result gives, as tl.store does: it is not None, and serves for nothing */
  PY_BOOL,
  PY_INT,
  PY_FLOAT,
  PY_STR,
  PY_ELLIPSIS,
  PY_TUPLE, /* tuple, list (is_list), set (is_list and is_set) or namedtuple (cls) */
  PY_DICT,
  PY_TYPE,      /* tl.float32, pointer_type(...), block_type: a tile Type */
  PY_TENSOR,    /* a run-time value: scalar or tensor, number or pointer */
  PY_BLOCK_PTR, /* tl.make_block_ptr */
  PY_DESC,      /* tensor descriptor */
  PY_FUNCTION,  /* def or lambda of a file, jit or not */
  PY_BUILTIN,   /* a library function, or (self set) a method bound to a value */
  PY_MODULE,    /* a file that is at hand */
  PY_LIBRARY, /* a name inside triton/torch/math/libdevice: "triton.language.math"; its attributes are looked up in the
                 builtins */
  PY_CLASS,   /* a class of a file: namedtuple, @triton.aggregate, Enum */
  PY_OBJECT,  /* an instance: aggregate, triton.Config, ... */
  PY_RANGE,   /* range, tl.range, tl.static_range with its arguments */
  PY_SLICE,
  PY_CONSTEXPR_TYPE, /* the name tl.constexpr itself */
  PY_METHOD,         /* x.append, "a".join, obj.f: a method of a Python value or of a class of a file, bound to it */
  PY_HOST,           /* a module, object or function of the host's, which knows its attributes: ask.c */
  PY_UNKNOWN, /* a host value that is not at hand (torch.cuda...., an import that is missing): an error once a kernel
                 needs it */
} PyKind;

typedef struct BlockPtr { /* block pointers and descriptors: plain addresses, lowered where they are used */
  Value *base;            /* scalar pointer */
  int rank;
  Value *shape[MAX_RANK], *strides[MAX_RANK]; /* i64; descriptors: shape i32 */
  Value *offsets[MAX_RANK];                   /* i64; block pointers only */
  int32_t block_shape[MAX_RANK];
  bool nan_padding; /* descriptors */
} BlockPtr;

struct HostScope; /* core.h */
/* no decorator of Triton's; @triton.jit; @triton.constexpr_function */
typedef enum { FN_PLAIN, FN_JIT, FN_CONSTEXPR } FunctionKind;
typedef struct Function {
  const char *name;
  FunctionKind kind;
  bool noinline;
  const char *must_use;            /* @triton.must_use_result: what its message adds, or ""; NULL: may be ignored */
  Node *def;                       /* NODE_FUNCTION_DEF or NODE_LAMBDA */
  Module *module;                  /* where its globals are */
  const struct HostScope *closure; /* nested functions: the names around it, as they are when it is called; or NULL */
  /* where names that are neither local nor in closure are looked up; NULL: the module's globals */
  Namespace *around;
  Map *kept;                /* parameter -> its default, once evaluated: nested functions', where the def stands */
  Py **defaults;            /* evaluated on first use, aligned with args; entries may be NULL */
  const HostSource *source; /* given by the host, which knows its defaults; or NULL */
  bool is_property;         /* obj.f calls it */
  bool is_kernel_wrapper;   /* autotune/heuristics stand above jit: may be launched, may not be called in a kernel */
} Function;

typedef struct PyClass {
  const char *name;
  Node *def;
  Module *module;
  bool is_namedtuple, is_aggregate, is_enum, is_dataclass;
  bool is_number;                    /* an enum whose members are numbers or texts, too: IntEnum */
  VEC(const struct PyClass *) bases; /* those of this project */
  int field_count;
  const char **fields;
  Py **defaults;
  Map *members;
  void *host; /* the host's own, or NULL */
} PyClass;

struct Py {
  PyKind kind;
  /* made by tl.constexpr(...): kernels may read it as a global; of a TENSOR: declared constexpr, which it cannot be */
  bool is_constexpr;
  bool
      is_python; /* a tuple of Python's own in a constexpr: it is read and passed on, but neither assigned nor spread */
  bool is_returned; /* a number that a jit function returned: it has a tensor's attributes, too, as in Triton 3.6 */
  bool is_default;  /* an argument of a library function that nobody gave */
  union {
    PyInt i; /* BOOL, INT */
    double f;
    struct {
      const char *s;
      size_t n;
    } str;
    struct {
      int n, cap;
      Py **at;
      bool is_list, is_set, is_view, is_iterator; /* is_view: a dict's keys(), values() or items() */
      const PyClass *cls;
    } tuple; /* cap: room that py_append knows of */
    struct {
      int n, cap;
      Py **keys, **values;
      VEC(Py *) views; /* that were taken since it changed last */
    } dict;
    const Type *type;
    Value *value; /* TENSOR */
    BlockPtr *bp; /* BLOCK_PTR, DESC */
    Function *fn;
    struct {
      const Builtin *b;
      Py *self;
    } builtin;
    Module *module;
    const char *library; /* interned dotted path; UNKNOWN: what it was */
    PyClass *cls;
    /* cls NULL for library objects such as triton.Config */
    struct {
      PyClass *cls;
      const char *cls_name;
      Map *fields;
    } object;
    struct {
      Py *start, *stop, *step;
      Py *hints;
      bool is_static, is_tl;
    } range; /* hints: DICT of keyword arguments */
    struct {
      Py *start, *stop, *step;
    } slice;
    struct {
      Py *self;
      const char *name;
      Function *fn;
    } method; /* fn NULL: a method of str, int, list, ... */
    struct {
      void *object;
      const char *what; /* its name */
      bool is_module, is_function;
    } host;
  };
};

/* ---- values (pyvalue.c) ------------------------------------------------------------------------------------------ */

Py *py_none(Front *fr);
Py *py_void(Front *fr);
Py *py_bool(Front *fr, bool v);
Py *py_int(Front *fr, PyInt v);
Py *py_float(Front *fr, double v);
Py *py_str(Front *fr, const char *s);
Py *py_type(Front *fr, const Type *t);
Py *py_dtype(Front *fr, Dtype d);
Py *py_tensor(Front *fr, Value *v);
Py *py_tuple(Front *fr, int n, Py *const *items);
bool py_is_number(const Py *p); /* BOOL, INT or FLOAT: a constexpr number */
bool py_is_tensor(const Py *p);
bool py_equal(const Py *a, const Py *b);        /* Python's == on constexprs */
bool py_truth(Front *fr, Span at, const Py *p); /* Python's bool() on constexprs */
const char *py_kind_name(const Py *p);          /* "int", "tensor", "tuple", for messages */
const char *py_class_name(const Py *p); /* "NoneType", "tensor": type(p).__name__, for messages in Python's words */
const char *py_describe(Front *fr, const Py *p); /* "3", "'relu'", "f32[128] tensor", for messages and static_print */
/* Where Triton needs a tensor and `x: tl.constexpr = ...` has wrapped one. */
NORETURN void py_fail_declared(Front *fr, Span at, const Py *p);
/* "f() missing 2 required positional arguments: 'a' and 'b'" */
const char *py_missing_arguments(Front *fr, const char *function, int n, const char *const *names);
double py_as_double(const Py *p); /* BOOL, INT, FLOAT */
/* The run-time parts of p in order (tensors; inside tuples, block pointers, descriptors, aggregates), and p rebuilt
 * with others in their place: how control flow carries compound values. */
/* appends to an arena array; *values may be NULL at first */
void py_flatten(Front *fr, const Py *p, Value ***values, int *n);
Py *py_unflatten(Front *fr, const Py *like, Value *const *values, int *used);
/* Same kind, same types of all parts, same constexprs: may be merged. */
bool py_same_type(const Py *a, const Py *b);
bool py_same_fields(const PyClass *a, const PyClass *b); /* of two tuples' classes, or NULL */

/* ---- services of the core ---------------------------------------------------------------------------------------- */

struct Front {
  Context *cx;
  Module *module;  /* of the kernel */
  Module *prelude; /* prelude.py, parsed on first use */
  Func *func;
  Builder b; /* where operations go now; b.span is kept at the current expression */
  const CompileOptions *options;
  int depth; /* of inlined calls */
  /* made and to be dropped, as nothing may depend on them: tensors of no elements; tensors in a body of scalars */
  bool has_empty, has_inner_tensors;
  void *core;            /* the core's own state (kernel.c) */
  struct Front *host_of; /* see front_host */
};

/* A call as its callee sees it: positional and keyword arguments evaluated, stars expanded. */
typedef struct Call {
  Span span;       /* of the call */
  Span *arg_spans; /* of each argument, positional then keyword */
  int n;
  Py **args;
  int kw_n;
  const char **kw_names;
  Py **kw_values;
} Call;

/* Calls a jit function (inlined into fr->b), builtin, class or constexpr_function. */
Py *front_call(Front *fr, Py *callee, const Call *call);
/* The same for a callback of values, as reduce's combine function: its body is built at fr->b. */
Py *front_call_values(Front *fr, Py *callee, Span at, int n, Py *const *args);
/* x.attr as a kernel's getattr sees it; NULL when there is no such attribute. */
Py *front_attribute(Front *fr, Span at, Py *x, const char *attr);
/* A function of prelude.py, by name. */
Py *front_call_prelude(Front *fr, const char *name, Span at, int n, Py *const *args);

/* What Python's values and the library ask of the parts above them; kernel/hooks.c fills it. python/ knows neither the
 * library nor a kernel's body, library/ knows no kernel's body. */
typedef struct FrontHooks {
  /* for python/: library/builtins.c */
  Py *(*library_lookup)(Front *fr, const char *library, const char *attr);
  Py *(*python_name)(Front *fr, const char *name, bool host);
  const char *(*library_path)(Front *fr, const char *path);
  const char *(*library_near)(Front *fr, const char *path);
  Py *(*library_call)(Front *fr, const Builtin *b, Py *self, const Call *call);
  /* for python/: kernel/expr.c, kernel/kernel.c */
  Py *(*attribute)(Front *fr, Span at, Py *x, const char *attr);
  Py *(*call_function)(Front *fr, Function *fn, Py *self, const Call *call);
  /* for library/: kernel/kernel.c; what of the library a kernel's body has: kernel/regions.c */
  Py *(*call_values)(Front *fr, Py *callee, Span at, int n, Py *const *args);
  Py *(*call_prelude)(Front *fr, const char *name, Span at, int n, Py *const *args);
  const Builtin *regions_table;
  /* for python/module.c, which asks for a name's value when somebody asks it for the name, and for values that hold
   * functions: python/hostexpr.c, hoststmt.c, function.c, class.c, imports.c, ask.c */
  Py *(*host_eval_in)(Front *fr, Namespace *ns, Node *n);
  Py *(*host_eval_at)(Front *fr, Namespace *ns, Node *n, int line);
  bool (*host_changes)(Front *fr, Namespace *ns);
  void (*host_run)(Front *fr, Namespace *ns);
  Py *(*host_call)(Front *fr, Py *callee, const Call *call);
  Py *(*function_value)(Front *fr, Node *def, Namespace *around, const struct HostScope *closure);
  Py *(*class_value)(Front *fr, Node *def, Namespace *around);
  Py *(*apply_decorators)(Front *fr, struct HostScope *sc, Node *def, Py *value);
  Py *(*ask)(Front *fr, Ask what, void *object, const char *name);
  Py *(*import_module)(Front *fr, Module *from, const char *dotted, int level);
  Py *(*import_name)(Front *fr, Module *from, Py *module, const char *dotted, const char *name);
} FrontHooks;
extern const FrontHooks front_hooks;

/* ---- library/semantic*.c: operators and types ----------------------------------------------------- */

/* What a plain assignment does: numbers and bools become run-time scalars (also inside tuples); the rest stays. */
Py *front_demote(Front *fr, Span at, Py *p);
/* x as a run-time value: tensors as they are, numbers as scalars of their natural type (semantics 3.2). `what` names
 * the argument. */
Value *sem_to_value(Front *fr, Span at, Py *x, const char *what);
/* x op y with at least one tensor: promotion, broadcasting, pointer arithmetic. op is Python's. */
Py *sem_binary(Front *fr, Span at, PyOp op, Py *x, Py *y);
Py *sem_compare(Front *fr, Span at, PyOp op, Py *x, Py *y);
Py *sem_unary(Front *fr, Span at, PyOp op, Py *x);          /* USub, Invert, Not */
Py *sem_logical(Front *fr, Span at, PyOp op, Py *x, Py *y); /* run-time and/or: both int1 */
/* A condition of if/while/ternary: scalar (or one-element) tensor -> i1 scalar; larger: error. */
Value *sem_condition(Front *fr, Span at, Py *x);
Py *sem_cast(Front *fr, Span at, Py *x, const Type *to_elem, int rounding, bool bitcast);
/* tensor[None, :, ...]; index a SLICE, NONE or TUPLE of them */
Py *sem_subscript(Front *fr, Span at, Py *tensor, Py *index);
/* of TENSOR, TYPE, BLOCK_PTR, DESC: .dtype .shape .T, methods (a bound BUILTIN); NULL when there is none */
Py *sem_attribute(Front *fr, Span at, Py *x, const char *attr);
const char *const *sem_type_attributes(Front *fr); /* the names of a dtype's attributes, for nearest_name */
Py *sem_type_of(Front *fr, Py *x); /* its `.type`: a dtype, or an object for tuples, descriptors and constexprs */
Value *sem_broadcast_to(Front *fr, Span at, Value *v, int rank, const int32_t *shape);
void sem_broadcast_pair(Front *fr, Span at, Value **a, Value **b);

/* ---- builtins.c: the library ---------------------------------------------------------------------- */

/* Arguments bound to a builtin's parameters, in the order of its signature; *args parameters arrive as a TUPLE, absent
 * ones as their default (NULL where there is none: the binder has complained). */
typedef Py *(*BuiltinFn)(Front *fr, const Builtin *b, Span at, Py **args);
struct Builtin {
  const char *library; /* "tl", "tl.math", "tl.extra.libdevice", "triton", "python", ...: see builtins.c */
  const char *name;
  const char *signature; /* as Python writes it: "input, mask=None, other=None, *shape" */
  BuiltinFn call;
  const char *group; /* heading in docs/reference/language.md; NULL: not listed there */
  unsigned flags;
  const char *remark; /* for docs/reference/language.md, or NULL */
};
enum {
  BUILTIN_MEMBER = 1 /* also a method of tensors */,
  BUILTIN_HOST = 2 /* also works in host code, on constexprs */,
  BUILTIN_MUST_USE = 4,
  BUILTIN_NOWHERE = 8 /* no device has it */,
  BUILTIN_PTX = 32 /* inline PTX: on cuda alone */,
  BUILTIN_HOST_ONLY = 16 /* not in kernels */
};

/* What `dotted.attr` is, for a PY_LIBRARY path ("triton.language", "triton.language.math", "math", "torch", ...): a
 * builtin, dtype, constant, deeper library, or NULL when there is no such name. Knows aliases (tl.extra.cuda.libdevice,
 * TorchInductor's triton_helpers, tl_math). */
Py *builtin_lookup(Front *fr, const char *library, const char *attr);
/* Python's own names inside a kernel (range, len, min, max, float, ...), or NULL. `host`: host code sees more of them.
 */
Py *builtin_python(Front *fr, const char *name, bool host);
/* Whether `import path` names a library that is built in ("triton.language", "torch", "math", "triton_helpers", ...);
 * returns its canonical dotted path, else NULL. */
const char *builtin_library(Front *fr, const char *path);
Py *builtin_call(Front *fr, const Builtin *b, Py *self, const Call *call); /* binds and calls */
/* All names of a library for nearest_name, NULL-terminated. */
const char *const *builtin_names(Front *fr, const char *library);
/* Of a dotted path that nobody knows, whose start names a library: the name there that is nearest to what follows it;
 * NULL: none is near. */
const char *builtin_near(Front *fr, const char *path);

#endif
