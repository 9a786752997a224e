/* front/core.h: what the files of the front end's core share and the library side does not need.
 *
 *   python/    Python evaluated now: pyvalue.c values (value.h), pyops.c operators, pyformat.c format
 *              specifications, pymethod.c methods of str, list, dict; module.c files and their names, evaluated on
 *              demand; hostexpr.c, hoststmt.c, class.c, function.c, hostlib.c host code; imports.c which file an import
 *              names, kernels.c jit functions and their parameters, load.c a project's first file,
 *              ask.c names that a host knows
 *   library/   tl.* and its like: semantic.c Triton's operators on tensors, builtins.c the tables of lib_*.c
 *   tuning/    decorators.c, tuning.c configurations
 *   kernel/    a kernel's body: scope.c names, assign.c, call.c, expr.c, join.c, branches.c, loops.c, regions.c,
 * stmt.c, inline.c calls of jit functions; specialize.c arguments; kernel.c one compilation; key_dependences.c what
 * decorators look at
 *
 * A part knows those above it in this list; what it asks of those below stands in front_hooks (kernel/hooks.c).
 *
 * Host evaluation never fails: what it cannot know is a PY_UNKNOWN that says why, and the kernel that needs it
 * complains. */
#ifndef NEREID_FRONT_CORE_H
#define NEREID_FRONT_CORE_H

#include "front/value.h"

/* ---- pyvalue.c --------------------------------------------------------------------------------------------------- */

Py *py_str_n(Front *fr, const char *s, size_t n);
Py *py_list(Front *fr, int n, Py *const *items);
Py *py_set(Front *fr, int n, Py *const *items); /* without doubles */
Py *py_dict(Front *fr);
Py *py_function(Front *fr, Function *fn);
Py *py_library(Front *fr, const char *path);
Py *py_module(Front *fr, Module *m);
Py *py_method_of(Front *fr, Py *self, const char *name, Function *fn);
Py *py_object(Front *fr, PyClass *cls, const char *cls_name);
Py *py_unknown(Front *fr, const char *format, ...) PRINTF_LIKE(2, 3);
/* A list or dict about whose content nothing is known from now on, under all of its names. */
void py_spoil(Front *fr, Py *x, const char *why);
bool py_contains(const Py *x, const Py *needle);
bool py_in(const Py *x, const Py *sequence); /* equal to one of the items of a tuple, list or set */
/* A part of x about which nothing is known, so that its text and whether it equals anything are not known either; NULL:
 * there is none. */
const Py *py_hole(const Py *x);
bool py_has_order(const Py *x);   /* no set of several items in it: in which order those come nobody knows */
Py *py_number_of(Py *x);          /* of a member of an IntEnum, its value; else x */
bool py_is_ascii(const Py *text); /* each byte a character */
void py_append(Front *fr, Py *list, Py *item);
Py *py_dict_get(const Py *d, const Py *key);
Py *py_dict_get_name(const Py *d, const char *key);
void py_dict_put(Front *fr, Py *d, Py *key, Py *value);
Py *py_dict_view(Front *fr, Py *d, char kind); /* 'k'eys, 'v'alues, 'i'tems */
void py_dict_changes(Front *fr, Py *d);        /* what its views hold is then not known any more */
bool py_is_runtime(const Py *p);               /* has run-time parts */
int py_number_order(const Py *a, const Py *b); /* -1, 0, 1; 2: unordered */
int py_truth_known(const Py *p);               /* 0, 1, or -1: a tensor or unknown */
void py_write_int(Buf *out, PyInt v);
void py_write(Buf *out, const Py *p, bool repr);
const char *py_text(Front *fr, const Py *p); /* as Python's str() */

/* ---- pyops.c: NULL and a reason in *why when Python would raise -------------------------------------------------- */

Py *py_binary(Front *fr, PyOp op, Py *a, Py *b, const char **why);
Py *py_unary(Front *fr, PyOp op, Py *x, const char **why);
Py *py_compare(Front *fr, PyOp op, Py *a, Py *b, const char **why);
Py *py_subscript(Front *fr, Py *x, Py *index, const char **why);
Py *py_constant(Front *fr, const Node *n, const char **why);
Py *py_too_long(const char **why);                                             /* NULL, and this as the reason */
const char *py_find(const char *s, size_t n, const char *what, size_t what_n); /* memmem */
Py *py_to_int(Front *fr, const Py *x, const char **why);
bool py_slice_bounds(const Py *slice, int n, int *start, int *stop, int *step);

/* ---- pyformat.c -------------------------------------------------------------------------------------------------- */

Py *py_format(Front *fr, Py *x, int conversion, const char *spec, const char **why);
/* Whether str(x) is as Python writes it: of numbers, texts, and tuples, lists, dicts of them. */
bool py_has_text(const Py *x);
Py *py_percent(Front *fr, const Py *format, Py *args, const char **why); /* format % args */

/* ---- pymethod.c -------------------------------------------------------------------------------------------------- */

bool py_has_method(const Py *self, const char *name);
const char *const *py_method_names(const Py *self);
Py *py_call_method(Front *fr, Py *self, const char *name, const Call *call, const char **why);
bool py_sort(Front *fr, Py *list, Py *keys, bool reverse); /* both are reordered; false: they have no known order */
/* The items of a list, tuple, dict (keys), str or range, as a tuple; NULL when it cannot be iterated. */
Py *py_items(Front *fr, Py *x);

/* ---- module.c, imports.c ----------------------------------------------------------------------------------------- */

typedef struct Project Project; /* all files that one front_load_* has reached */

struct Module {
  Context *cx;
  Project *project;
  const char *path;
  const char *name; /* "__main__", or the dotted name it was imported by */
  Source *source;
  Node *tree;
  Namespace *globals;
  const FrontHost *host; /* asked for the file's free names before the file is; or NULL */
  void *scope;
  /* the line of the top-level statement being evaluated: names bound later are not seen; 0: the end */
  int now;
  VEC(Kernel *) kernels;
  Map *impure, *imports; /* toplevel.c: functions that change what they have not made; names that imports bind */
};

enum { HOST_STEPS = 4000000, MAX_HOST_ITEMS = 1000000 };
struct Project {
  Context *cx;
  Map *modules;       /* path -> Module */
  Front *fr;          /* for host evaluation outside any compilation */
  int64_t steps;      /* host evaluation's budget: what is left */
  int64_t run_steps;  /* likewise, of files that are run in order */
  const char *raised; /* the name of the exception raised last; NULL: not known */
  /* an exception is on its way out of an expression, of which nothing more is evaluated: why its value is unknown */
  const char *raising;
  int host_depth;
  Map *jit_of; /* Node of a def -> Kernel */
  /* the first statement whose effect could not be evaluated, since it was set to NULL: for hooks */
  const char *lost;
  VEC(int) zeroed; /* parameters on whose arrays a hook called zero_() */
  const FrontHost *host;
  Map *answers[4]; /* by Ask: object -> Map of interned names -> Py */
  Map *classes;    /* the host's classes -> PyClass */
  Map *functions;  /* the host's sources, by scope and hash -> Py */
  VEC(Asked) asked;
};

/* ---- ask.c ------------------------------------------------------------------------------------------------------- */

/* NULL: the host does not know it. Fails where the host does. */
Py *host_ask(Front *fr, Ask what, void *object, const char *name);
Py *host_attribute_of(Front *fr, const Py *x, const char *attr);     /* of a PY_HOST; NULL: it has none */
Py *host_call_object(Front *fr, const Py *callee, const Call *call); /* likewise */
Py *host_default(Front *fr, const Function *fn, const char *param);  /* NULL: as the text has it */
Module *host_module(Front *fr, Project *p, const HostSource *s);     /* of a jit function: with this kernel */

/* The value of a name of a namespace, without looking further out; NULL when it does not have it. */
Py *namespace_get(Front *fr, Namespace *ns, const char *name);
/* The same, looking outwards to the file's globals. */
Py *namespace_lookup(Front *fr, Namespace *ns, const char *name);
/* How a decorator or annotation is called by its full name: "triton.jit" for `t.jit` after `import triton as t`; NULL
 * if not a name. */
const char *namespace_dotted(Front *fr, Namespace *ns, const Node *n);
void namespace_names(Front *fr, Namespace *ns, Py *list); /* appends all names, outwards, as str */
Namespace *namespace_create(Module *m, Namespace *parent, const NodeList *body, Node *owner);
Module *namespace_module(const Namespace *ns);
/* toplevel.c runs a namespace's statements in order; these bind names to a value, or, where it is NULL, to what the
 * statement (a def, a class, an import) binds them to. */
const NodeList *namespace_body(const Namespace *ns);
Namespace *namespace_file(Namespace *ns);
Map *namespace_values(const Namespace *ns); /* statement -> Py of its right side, once evaluated */
void namespace_line(Namespace *ns, int line);
void namespace_bind(Namespace *ns, const char *name, Py *value, const Node *stmt);
bool namespace_bound(const Namespace *ns, const char *name); /* by a statement that was run */
/* The value of a name to which the branches of an `if` give different ones; nobody knows its test, because of `why`. */
Py *namespace_doubt(Front *fr, Namespace *ns, const Node *test, const char *why);
bool py_same_constant(const Py *a, const Py *b);                  /* one value, also where it is not known */
void namespace_forget(Front *fr, Namespace *ns, const char *why); /* all values bound until now are unknown */
Module *module_load(Project *p, const char *path, const char *name);
/* What `import a.b` of a file names: a PY_LIBRARY, PY_MODULE or PY_UNKNOWN. */
Py *import_module(Front *fr, Module *from, const char *dotted, int level);
Py *import_name(Front *fr, Module *from, Py *module, const char *dotted, const char *name);
Module *module_from_source(Project *p, Source *src, const char *path, const char *name);

/* ---- function.c, kernels.c --------------------------------------------------------------------------------------------------- */

struct Kernel {
  Module *module;
  Function *fn;
  int param_count;
  KernelParam *params;
  Node **param_nodes;   /* of arg */
  Node **default_nodes; /* or NULL */
  const Type **forced;  /* the type an annotation asks for, or NULL */
  bool *is_const;       /* tl.const */
  int decorated_at;     /* line of the def, or of k = triton.jit(f) */
  Node **decorators;    /* autotune and heuristics above jit, outermost first */
  int decorator_count;
  bool debug;
  bool prepared;
};

typedef enum {
  DECO_OTHER,
  DECO_JIT,
  DECO_AUTOTUNE,
  DECO_HEURISTICS,
  DECO_CONSTEXPR_FUNCTION,
  DECO_MUST_USE,
  DECO_AGGREGATE
} DecoratorKind;
DecoratorKind decorator_kind(Front *fr, Namespace *ns, const Node *decorator);
const Node *decorator_keyword(const Node *decorator, const char *name); /* NULL: not given */
Py *function_value(Front *fr, Node *def, Namespace *around, const struct HostScope *closure);
void kernels_find(Front *fr, Module *m);
Kernel *kernel_add(Front *fr, Module *m, Function *fn);
Kernel *kernel_of(Front *fr, Function *fn);
void kernel_prepare(Front *fr, Kernel *k);

/* ---- host*.c ----------------------------------------------------------------------------------------------------- */

/* locals, then enclosing locals, then ns */
typedef struct HostScope {
  Map *names;
  struct HostScope *up;
  Namespace *ns;
  bool top;             /* what is assigned are names of ns */
  Map *globals, *outer; /* names that `global`, `nonlocal` makes the file's, the function's around; or NULL */
} HostScope;
Py *host_found(const HostScope *sc, const char *name); /* among the scopes' names alone; or NULL */
Py *host_eval(Front *fr, HostScope *sc, Node *n);
Py *host_eval_in(Front *fr, Namespace *ns, Node *n);
/* seeing what stands above the line: defaults, decorators' arguments */
Py *host_eval_at(Front *fr, Namespace *ns, Node *n, int line);
typedef enum { HOW_NEXT, HOW_RETURN, HOW_BREAK, HOW_CONTINUE, HOW_RAISE, HOW_GIVE_UP } How;
How host_exec(Front *fr, HostScope *sc, Node *stmt, Py **result); /* GIVE_UP: *result says why */
bool host_catches(const Node *handler, const char *raised);
Py *host_apply_decorators(Front *fr, HostScope *sc, Node *def, Py *value);
void host_name(HostScope *sc, const char *name, Py *value); /* assigns */
/* toplevel.c: whether statements of the namespace change what names are bound to; runs it */
bool host_changes(Front *fr, Namespace *ns);
void host_run(Front *fr, Namespace *ns);
/* no such module, no such name in it or in Triton's language */
bool host_surely_raises(const Py *v);
/* changed.c: what a node changes in place, or NULL: a in a.append(x), a[i] = x, a.b = x, del a[i], a += x */
const Node *host_changed_by(const Node *n);
/* makes unknown what the statement would have bound and changed */
void host_spoil_changed(Front *fr, HostScope *sc, Node *stmt, const char *why);
Py *host_call(Front *fr, Py *callee, const Call *call);
Py *host_attribute(Front *fr, Py *x, const char *attr);
Py *host_binary(Front *fr, PyOp op, Py *a, Py *b);
Py *host_compare(Front *fr, PyOp op, Py *a, Py *b);
/* x.name(y), where x is an object of a class that defines it, or NULL */
Py *host_special(Front *fr, Py *x, const char *name, Py *y);
Py *host_iterate(Front *fr, Py *x); /* a tuple of the items, or PY_UNKNOWN */
void host_assign(Front *fr, HostScope *sc, Node *target, Py *value);
/* A constexpr's value from the text of a Python expression; names are the kernel's file's, and tl's types. */
Py *host_constexpr(Front *fr, Kernel *k, const char *text, const char *what);
bool host_step(Front *fr); /* counts; false: the budget is used up */
/* hostlib.c: what host code sees under a library's name; NULL: not here */
Py *host_library(Front *fr, const char *path);
Py *host_library_call(Front *fr, const char *path, const Call *call, bool *known);
/* perf_model.c: of triton.ops.matmul_perf_model; NULL: no such function */
Py *perf_model_call(Front *fr, const char *name, const Call *call);
/* is it one of Python's functions that host code may call? */
bool host_python(const char *name);
Py *host_python_call(Front *fr, const char *name, const Call *call);
Project *front_project(Front *fr);

/* ---- the core's state in one compilation ------------------------------------------------------------------------- */

typedef struct Binding {
  const char *name;
  Py *value;         /* NULL: undefined again (`why` says how) */
  const Node *where; /* of the last assignment */
  uint32_t stamp;    /* grows with every assignment: tells whether a branch assigned it */
  bool is_declared;  /* x: tl.constexpr = ... */
  const Type *ended; /* was a loop's variable: reading it is allowed, its value is undefined */
  const char *why;
} Binding;
typedef struct Scope {
  Binding *at;
  int n, cap;
} Scope;

typedef struct Frame { /* one inlined call */
  struct Frame *up;
  Function *fn;
  Namespace *ns;
  Scope scope;
  const Span *site; /* of the call, with its own chain; NULL for the kernel */
  Py **args;
  int arg_count;             /* as bound: to find recursion */
  int loop_depth;            /* run-time loops around the current statement */
  VEC(const char *) pending; /* names announced by a bare `x: tl.constexpr` */
  bool no_return;
} Frame;

/* A region that is open where the builder stands; regions.c. */
/* marked: by a comment */
typedef struct OpenRegion {
  const char *name;
  Span span;
  bool marked;
  const struct OpenRegion *up;
} OpenRegion;

typedef struct Core {
  Frame *frame;
  const OpenRegion *regions; /* innermost first */
  Map *marks;                /* NodeList of statements -> its marks; NULL: the source's markers are not looked at */
  Map *marked;               /* defs whose markers are in `marks` */
  uint32_t stamp;
  uint32_t statements; /* walked so far: unrolling has an end */
  Kernel *kernel;
  bool debug;
  /* core_exec, for what stands below it: bodies of branches and loops */
  struct Flow (*exec)(Front *fr, const NodeList *list, int from, bool tail);
} Core;

static inline Core *core_of(Front *fr) { return fr->core; }
Span core_span(Front *fr, const Node *n); /* with the chain of calls */
void core_at(Front *fr, const Node *n);   /* the builder's span from now on */

/* inline.c */
Py *core_call_function(Front *fr, Function *fn, Py *self, const Call *call);
/* scope.c */
Scope scope_copy(Front *fr, const Scope *s);
Binding *scope_find(Scope *s, const char *name);
void scope_set(Front *fr, const char *name, Py *value, const Node *where);
void scope_undefine(Front *fr, const char *name, const char *why);
NORETURN void fail_unknown_name(Front *fr, Span at, const char *name);
NORETURN void core_unsupported(Front *fr, const Node *n, const char *what, const char *hint);

/* assign.c */
void core_assign(Front *fr, Node *target, Py *value);
Py *core_python_tuple(Front *fr, Py *v);
bool core_is_constexpr_annotation(Front *fr, Node *annotation);
void core_declare_constexpr(Front *fr, Node *target, Py *value, const Node *where);

/* expr.c */
Py *core_eval(Front *fr, Node *n);
Py *core_binary(Front *fr, Span at, PyOp op, Py *a, Py *b);
int constexpr_condition(Front *fr, Span at, Py *cond);
Py *core_lookup(Front *fr, Node *name);
Call *core_make_call(Front *fr, Node *call);
/* Fails for a name in an annotation that Triton, which evaluates it, does not find. */
/* A dtype that is no constexpr: what `n`, such as tl.float32 or x.dtype, names; not a parameter's value. */
bool core_is_bare_type(Front *fr, Node *n, const Py *v);
void core_check_annotation(Front *fr, Node *annotation);
void core_check_annotations(Front *fr, const Function *fn); /* of its parameters */

/* stmt.c: how a list of statements ended. MAYBE: it returned where `flag` holds. */
typedef enum { FLOW_FALLS, FLOW_RETURNS, FLOW_MAYBE } FlowKind;
typedef struct Flow {
  FlowKind kind;
  Value *flag;
  Py *value;
  const Node *where;
  bool rest_done; /* what follows was run too */
} Flow;
Flow core_exec(Front *fr, const NodeList *list, int from, bool tail);
/* branches.c, loops.c */
typedef struct Rest Rest; /* what runs after a statement that may have returned */
struct Rest {
  Flow (*run)(Front *fr, Rest *rest, bool tail);
  bool empty;
};
Flow core_if(Front *fr, Node *n, Rest *rest, bool tail);
Flow core_guard(Front *fr, Flow flow, Rest *rest, bool tail);
Flow core_for(Front *fr, Node *n, Rest *rest, bool tail);
void core_while(Front *fr, Node *n);
bool contains_return(const Node *n);

extern const Builtin regions_table[]; /* regions.c: Proton's marks, for the library */
/* regions.c: the kernel's regions, when they are asked for (options->instrument) */
/* before a function's body: places its markers; fails for wrong ones */
void regions_begin(Front *fr, const Node *def);
/* between statements: what stands before statement `index` */
void regions_at(Front *fr, const NodeList *list, int index);
void regions_after(Front *fr, const NodeList *list, int index);  /* what stands right after it */
bool regions_follow(Front *fr, const NodeList *list, int index); /* is there anything from there on? */
/* after a function's body: ends what a return left open */
void regions_end(Front *fr, const OpenRegion *outer);
int regions_with(Front *fr, Node *with); /* enters the scopes of a `with`, and returns how many */
void regions_leave(Front *fr, const Node *with, int count);

/* class.c */
Py *core_construct(Front *fr, PyClass *cls, const Call *call);
Py *class_value(Front *fr, Node *def, Namespace *around);
Py *class_member(Front *fr, PyClass *cls, const char *name);
bool class_is(const PyClass *cls, const PyClass *other); /* it, or a class derived from it */
/* fields bound to a call's arguments; unknown or missing: *why */
Py *class_bind(Front *fr, PyClass *cls, const Call *call, const char **why);

/* specialize.c */
typedef struct Arguments {
  Py **values;
  VEC(Slot) slots;
} Arguments;
Arguments *front_specialize(Front *fr, Kernel *k, const ArgSpec *args, Py **chosen);

/* decorators.c, tuning.c: fills chosen[] (Py of parameters that the caller left open) and the launch options. */
typedef struct Launch {
  int num_warps, num_stages, num_ctas;
  const ArgSpec *args; /* the caller's, with block shapes that the configuration's pre_hook sets */
  const int *zeroed;
  int zeroed_count; /* parameters that it zeroes */
} Launch;
typedef struct Choice {
  Front *fr;
  Kernel *k;
  const ArgSpec *args;
  const CompileOptions *options;
  Py **known; /* per parameter: values so far, or NULL */
  Py **chosen;
  Launch *config;
  Tuning *list; /* filled instead of choosing; or NULL */
} Choice;
/* list may be NULL; else the configurations to try go there, and nothing is chosen. */
void autotune_choose(Front *fr, Kernel *k, const ArgSpec *args, const CompileOptions *options, Py **chosen,
                     Launch *launch, Tuning *list);
void choice_take(Choice *c, int param, Py *v);       /* unless the caller or an outer decorator gave it a value */
int choice_param(const Kernel *k, const char *name); /* -1: none */
Node *decorator_argument(Node *call, int position, const char *name);
Node *tuning_argument(Node *decorator, const char *name); /* of autotune; NULL: not given */
void apply_autotune(Choice *c, Namespace *ns, Node *decorator);

#endif
