/* The values of the program that is being read, and what the files of this folder give each other. */
#ifndef NEREID_GRAPH_OBJECT_H
#define NEREID_GRAPH_OBJECT_H

#include "graph/read/read.h"
#include "syntax/syntax.h"

typedef enum {
  O_NONE,
  O_BOOL,
  O_INT,
  O_FLOAT,
  O_STR,
  O_SIZE, /* an integer that depends on the graph's symbols */
  O_TENSOR,
  O_COMPLEX, /* two real tensors, or two floats */
  O_DTYPE,
  O_ELLIPSIS,
  O_TUPLE,
  O_LIST,
  O_DICT,
  O_SLICE,
  O_PATH, /* a name of a library: "torch.nn.functional" */
  O_FUNCTION,
  O_METHOD, /* a function or a name, bound to a value */
  O_CLASS,
  O_OBJECT,
  O_SUPER,
} ObjectKind;

typedef struct Object Object;
typedef struct Scope {
  Map *names; /* interned -> Object */
  struct Scope *up;
  bool is_library;  /* of library/: its lines are not the user's */
  Object *of_class; /* a method's class, for super() */
} Scope;

struct Object {
  ObjectKind kind;
  union {
    int64_t i; /* BOOL, INT */
    double f;
    const char *s; /* STR, PATH */
    const Size *size;
    struct {
      Tensor *tensor;
      Object *grad; /* of a leaf, what backward() has added up; or NULL */
      bool is_parameter;
    };
    struct {
      Object *real, *imag; /* alike */
      Object *pair;        /* a tensor whose last dim has both: they are views of it; or NULL */
    } parts;               /* COMPLEX */
    struct {
      Dtype dtype;
      bool is_complex; /* numbers whose parts are of that type */
    };                 /* DTYPE */
    struct {
      int n, cap;
      Object **at;
      const char *names; /* of a tuple's items, "values indices"; or NULL */
    } list;              /* TUPLE, LIST */
    struct {
      int n, cap;
      Object **keys, **values;
    } dict;
    struct {
      Object *start, *stop, *step;
    } slice;
    struct {
      Node *def; /* FunctionDef or Lambda */
      Scope *scope;
      bool no_grad;                                                   /* @torch.no_grad() */
      enum { AS_METHOD, AS_STATIC, AS_CLASS_METHOD, AS_PROPERTY } as; /* what a class's decorator makes of it */
    } function;
    struct {
      Object *self, *function; /* function NULL: a method of Python's, by name */
      const char *name;
      bool in_place; /* x.add_(y): the function is add, and x becomes its result */
    } method;
    struct {
      const char *name;
      Object *base;
      Scope *members;
      Node *def;       /* ClassDef */
      bool has_fields; /* @dataclass */
    } cls;
    struct {
      Object *cls;
      Map *fields;
    } object;
    struct {
      Object *self, *cls;
    } super; /* cls: where to look first */
  };
};

typedef struct Args {
  Span span;
  int n, kw_n;
  Object **at;
  const char **names; /* interned */
  Object **values;
} Args;

typedef struct Reader {
  Context *cx;
  Graph *g;
  Scope *library, *file, *rules; /* library/, the user's file, grad.py (NULL: not read yet) */
  int depth;                     /* of calls */
  int said_count;
  const ReadInput *said; /* of parameters and sizes, by the caller */
  Object *none, *yes, *no;
  VEC(Object *) leaves; /* tensors that are asked for gradients */
  Map *asked;           /* Tensor -> leaf: their values, as they are and as they were */
  bool no_grad;         /* results are detached */
  int constructing;     /* __init__ of so many objects: what it writes into parameters, the caller's values replace */
  bool sweeping;        /* rules of gradients run */
  bool is_read;         /* the program, and what it returns */
} Reader;

/* object.c */
Object *object_new(Reader *r, ObjectKind kind);
Object *object_int(Reader *r, int64_t v);
Object *object_float(Reader *r, double v);
Object *object_bool(Reader *r, bool v);
Object *object_str(Reader *r, const char *s);
Object *object_path(Reader *r, const char *s);
Object *object_size(Reader *r, const Size *s); /* an INT when it is known */
Object *object_tensor(Reader *r, Tensor *t);
Tensor *use_tensor(Reader *r, Span at, Object *x); /* what its memory holds now */
Object *object_dtype(Reader *r, Dtype t);
Object *object_complex_dtype(Reader *r, Dtype part);
Object *object_list(Reader *r, ObjectKind kind, int n, Object *const *at); /* copies `at` */
void object_append(Reader *r, Object *list, Object *x);
Object *dict_get(const Object *dict, const Object *key);
void dict_put(Reader *r, Object *dict, Object *key, Object *value);
void dict_remove(Object *dict, const Object *key);
const char *object_kind(const Object *x);                /* "int", "tensor" */
const char *object_text(Reader *r, const Object *x);     /* as str() gives */
const char *object_describe(Reader *r, const Object *x); /* for messages */
bool object_is_number(const Object *x);
double object_double(const Object *x);
bool object_equal(const Object *a, const Object *b);
bool object_truth(Reader *r, Span at, const Object *x);
NORETURN void read_fail(Reader *r, Span at, const char *format, ...) PRINTF_LIKE(3, 4);
/* Fail where it is not of that kind. */
int64_t want_int(Reader *r, Span at, const Object *x, const char *what);
const Size *want_size(Reader *r, Span at, const Object *x, const char *what);
Object *want_items(Reader *r, Span at, Object *x); /* a TUPLE or LIST of what iteration gives */

/* operators.c */
Object *op_binary(Reader *r, Span at, PyOp op, Object *a, Object *b);
Object *op_compare(Reader *r, Span at, PyOp op, Object *a, Object *b);
Object *op_unary(Reader *r, Span at, PyOp op, Object *x);
Object *op_subscript(Reader *r, Span at, Object *x, Object *index);
/* The view that slices and integers of an index take of x; *places: a list of what else there is by dim, or NULL. */
Object *op_subscript_view(Reader *r, Span at, Tensor *x, Object *index, Object **places);
/* Elementwise work on tensors and numbers: types promoted, shapes broadcast. */
Tensor *op_point(Reader *r, Span at, PointOp op, int n, Object *const *in);
Dtype op_result_type(Reader *r, Span at, int n, Object *const *in);
Tensor *op_tensor(Reader *r, Span at, Object *x, Dtype t); /* a number becomes a tensor of no dims */
Tensor *op_long(Reader *r, const Object *x, Dtype t);
void op_broadcast(Reader *r, Span at, int n, Tensor **in);

/* autograd.c */
void autograd_ask(Reader *r, Span at, Object *x, bool wanted); /* requires_grad_() */
void autograd_value(Reader *r, Object *leaf);                  /* it has another tensor */
Object *autograd_detach(Reader *r, Object *x);
Object *autograd_result(Reader *r, Object *x, int made_before); /* of what is evaluated under no_grad() */
Object *autograd_attribute(Reader *r, Object *x, const char *name);
bool autograd_assign(Reader *r, Span at, Object *x, const char *name, Object *value); /* false: no such attribute */
Object *autograd_backward(Reader *r, const Args *a);
Object *autograd_grad(Reader *r, const Args *a);
Object *autograd_parameters(Reader *r, Object *module);

/* in_place.c: x gets another value, and who shares its memory, too */
void in_place(Reader *r, Span at, Object *x, const char *name, Tensor *value);
Tensor *tensor_now(Reader *r, Span at, Tensor *t);                    /* what is at t's place in memory now */
bool tensor_strides(Reader *r, const Tensor *t, const Size **stride); /* in elements; false: not known */
bool tensor_is_contiguous(Reader *r, const Tensor *t);
bool tensor_is_view(Reader *r, const Tensor *t); /* shares its operand's memory */
/* f(x), as a view of x's memory; overlaps: an element of x may be in it twice. */
Tensor *tensor_view(Reader *r, Span at, Tensor *x, Object *f, bool overlaps);
Tensor *tensor_unwritable(Reader *r, Tensor *x); /* a copy of x; to write it is an error */

/* eval.c */
Object *eval(Reader *r, Scope *sc, Node *n);
Object *find_attribute(Reader *r, Span at, Object *x, const char *name); /* or NULL */
Object *eval_attribute(Reader *r, Span at, Object *x, const char *name);
Object *name_find(Scope *sc, const char *name);

/* exec.c */
void exec_file(Reader *r, Scope *sc, Node *module);
Object *call(Reader *r, Object *f, const Args *a);
Object *call_values(Reader *r, Span at, Object *f, int n, Object *const *at_);
void assign(Reader *r, Scope *sc, Node *target, Object *value);
/* x becomes what an operation on it gave. */
void write_result(Reader *r, Span at, Object *x, const char *name, Object *value);
Object *class_find(Object *cls, const char *name);
/* x.NAME(argument), a method of x's class; NULL: x is no object, or has none. argument may be NULL. */
Object *call_special(Reader *r, Span at, Object *x, const char *name, Object *argument);
Object *library_function(Reader *r, const char *path); /* of library/; NULL: it is not there */
Object *library_named(Reader *r, const char *name);

/* builtins.c */
Object *builtin_name(Reader *r, const char *name); /* NULL: none */
Object *path_value(Reader *r, const char *path);   /* a constant of a library: math.pi, torch.float32 */
Object *path_call(Reader *r, const char *path, const Args *a);
void refuse_complex(Reader *r, Span at, const char *path); /* fails where its parts are floats of 16 bits */
Object *method_call(Reader *r, Object *self, const char *name, const Args *a);
bool has_method(const Object *x, const char *name);

/* complex.c: complex numbers */
Object *complex_number(Reader *r, double real, double imag);
/* Parts that are alike as they are share memory with the value; others are made so. */
Object *complex_join(Reader *r, Span at, Object *real, Object *imag);
Object *complex_of_pairs(Reader *r, Span at, Object *pair); /* view_as_complex */
Tensor *complex_pairs(Reader *r, Span at, Object *x);       /* view_as_real: their values now */
bool complex_is_tensor(const Object *x);
Object *complex_binary(Reader *r, Span at, const char *name, Object *a, Object *b);
Object *complex_compare(Reader *r, Span at, PyOp op, Object *a, Object *b);
Object *complex_unary(Reader *r, Span at, PyOp op, Object *x);
Object *complex_subscript(Reader *r, Span at, Object *x, Object *index);
Object *complex_attribute(Reader *r, Span at, Object *x, const char *name); /* NULL: none */
bool complex_assign(Reader *r, Span at, Object *x, const char *name, Object *value);
void complex_in_place(Reader *r, Span at, Object *x, const char *name, Object *value);
void complex_ask(Reader *r, Span at, Object *x, bool wanted); /* requires_grad_() */
/* A primitive of complex numbers, or of their type; NULL: it is of none. */
Object *complex_prim(Reader *r, const char *name, const Args *a);
Dtype complex_part(const Object *dtype);

/* grad.c: as graph_gradients(), in a program that is being read */
/* y, with a rule of its own: f(gradient of y, of...) gives that of each of `of`. */
Tensor *differentiate(Reader *r, Span at, Tensor *y, Object *of, Object *f);
void gradients(Reader *r, int n, Tensor *const *outputs, Tensor *const *seeds, int count, Tensor *const *of,
               Tensor **out);

/* prims.c */
Object *prim_call(Reader *r, const char *name, const Args *a);
Object *tensor_attribute(Reader *r, Span at, Tensor *t, const char *name); /* NULL: none */
Tensor *prim_slice(Reader *r, Span at, Tensor *x, int dim, const Object *start, const Object *stop, int64_t step);

/* reader.c */
Reader *reader_create(Context *cx, Graph *g, bool with_library);
/* Of the annotation of a value, "f32[2, s0][s0, 1]cpu"; false: it is no such text. */
bool annotation_read(Reader *r, Span at, const char *text, Dtype *t, bool *is_complex, int *rank, const Size **size);
void annotation_check(Reader *r, Span at, const char *text, const Object *value);

#endif
