/* syntax: Python 3.12's grammar, whole: text in, tree out. Knows nothing of Triton.
 *
 * The tree is Python's own, as its `ast` module documents it: the same node kinds, the same field names, the same
 * positions. A node is a tagged union; the member of the union is named as the Python class, so that
 *
 *     y = x + 1          is      n->kind == NODE_ASSIGN
 *                                n->Assign.targets.at[0]->Name.id     "y", interned
 *                                n->Assign.value->kind == NODE_BIN_OP
 *                                n->Assign.value->BinOp.op == PYOP_ADD
 *                                n->Assign.value->BinOp.right->Constant.value.i == 1
 *
 * Everything lies in the context's arena. Identifiers are interned in the context: compare them by pointer with
 * intern_z(cx, "name"). A node is allocated at the size of its kind, so it must not be copied with `*n`.
 *
 * The grammar is that of https://docs.python.org/3.12/reference/grammar.html, the tree that of
 * https://docs.python.org/3.12/library/ast.html#abstract-grammar. */
#ifndef NEREID_SYNTAX_H
#define NEREID_SYNTAX_H

#include "base/base.h"

typedef struct Node Node;
typedef struct NodeList {
  Node **at;
  int n;
} NodeList; /* an entry is NULL only where a comment says so */
typedef struct IdentList {
  const char **at;
  int n;
} IdentList; /* interned */

/* One row a kind of node: enumerator NODE_..., name of the Python class and of the union's member, whether Python gives
 * the node a position (ours always carry a span). */
#define NODE_TABLE(X) \
  /* modules */ \
  X(MODULE, Module, false) \
  /* statements */ \
  X(FUNCTION_DEF, FunctionDef, true) \
  X(ASYNC_FUNCTION_DEF, AsyncFunctionDef, true) \
  X(CLASS_DEF, ClassDef, true) \
  X(RETURN, Return, true) \
  X(DELETE, Delete, true) \
  X(ASSIGN, Assign, true) \
  X(TYPE_ALIAS, TypeAlias, true) \
  X(AUG_ASSIGN, AugAssign, true) \
  X(ANN_ASSIGN, AnnAssign, true) \
  X(FOR, For, true) \
  X(ASYNC_FOR, AsyncFor, true) \
  X(WHILE, While, true) \
  X(IF, If, true) \
  X(WITH, With, true) \
  X(ASYNC_WITH, AsyncWith, true) \
  X(MATCH, Match, true) \
  X(RAISE, Raise, true) \
  X(TRY, Try, true) \
  X(TRY_STAR, TryStar, true) \
  X(ASSERT, Assert, true) \
  X(IMPORT, Import, true) \
  X(IMPORT_FROM, ImportFrom, true) \
  X(GLOBAL, Global, true) \
  X(NONLOCAL, Nonlocal, true) \
  X(EXPR, Expr, true) \
  X(PASS, Pass, true) \
  X(BREAK, Break, true) \
  X(CONTINUE, Continue, true) \
  /* expressions */ \
  X(BOOL_OP, BoolOp, true) \
  X(NAMED_EXPR, NamedExpr, true) \
  X(BIN_OP, BinOp, true) \
  X(UNARY_OP, UnaryOp, true) \
  X(LAMBDA, Lambda, true) \
  X(IF_EXP, IfExp, true) \
  X(DICT, Dict, true) \
  X(SET, Set, true) \
  X(LIST_COMP, ListComp, true) \
  X(SET_COMP, SetComp, true) \
  X(DICT_COMP, DictComp, true) \
  X(GENERATOR_EXP, GeneratorExp, true) \
  X(AWAIT, Await, true) \
  X(YIELD, Yield, true) \
  X(YIELD_FROM, YieldFrom, true) \
  X(COMPARE, Compare, true) \
  X(CALL, Call, true) \
  X(FORMATTED_VALUE, FormattedValue, true) \
  X(JOINED_STR, JoinedStr, true) \
  X(CONSTANT, Constant, true) \
  X(ATTRIBUTE, Attribute, true) \
  X(SUBSCRIPT, Subscript, true) \
  X(STARRED, Starred, true) \
  X(NAME, Name, true) \
  X(LIST, List, true) \
  X(TUPLE, Tuple, true) \
  X(SLICE, Slice, true) \
  /* parts of the above */ \
  X(COMPREHENSION, comprehension, false) \
  X(EXCEPT_HANDLER, ExceptHandler, true) \
  X(ARGUMENTS, arguments, false) \
  X(ARG, arg, true) \
  X(KEYWORD, keyword, true) \
  X(ALIAS, alias, true) \
  X(WITH_ITEM, withitem, false) \
  X(MATCH_CASE, match_case, false) \
  /* patterns of `match` */ \
  X(MATCH_VALUE, MatchValue, true) \
  X(MATCH_SINGLETON, MatchSingleton, true) \
  X(MATCH_SEQUENCE, MatchSequence, true) \
  X(MATCH_MAPPING, MatchMapping, true) \
  X(MATCH_CLASS, MatchClass, true) \
  X(MATCH_STAR, MatchStar, true) \
  X(MATCH_AS, MatchAs, true) \
  X(MATCH_OR, MatchOr, true) \
  /* type parameters */ \
  X(TYPE_VAR, TypeVar, true) \
  X(PARAM_SPEC, ParamSpec, true) \
  X(TYPE_VAR_TUPLE, TypeVarTuple, true)

typedef enum {
#define X(id, name, placed) NODE_##id,
  NODE_TABLE(X)
#undef X
      NODE_KIND_COUNT
} NodeKind;

/* One row an operator: enumerator PYOP_..., Python's name, how it is written. (Op and OP_... are the tile IR's
 * operations, and front/ includes both headers.) */
#define PYOP_TABLE(X) \
  /* BinOp and AugAssign */ \
  X(ADD, Add, "+") \
  X(SUB, Sub, "-") \
  X(MULT, Mult, "*") \
  X(MAT_MULT, MatMult, "@") \
  X(DIV, Div, "/") \
  X(MOD, Mod, "%") \
  X(POW, Pow, "**") \
  X(L_SHIFT, LShift, "<<") \
  X(R_SHIFT, RShift, ">>") \
  X(BIT_OR, BitOr, "|") \
  X(BIT_XOR, BitXor, "^") \
  X(BIT_AND, BitAnd, "&") \
  X(FLOOR_DIV, FloorDiv, "//") \
  /* UnaryOp */ \
  X(INVERT, Invert, "~") \
  X(NOT, Not, "not") \
  X(U_ADD, UAdd, "+") \
  X(U_SUB, USub, "-") \
  /* BoolOp */ \
  X(AND, And, "and") \
  X(OR, Or, "or") \
  /* Compare */ \
  X(EQ, Eq, "==") \
  X(NOT_EQ, NotEq, "!=") \
  X(LT, Lt, "<") \
  X(LT_E, LtE, "<=") \
  X(GT, Gt, ">") \
  X(GT_E, GtE, ">=") \
  X(IS, Is, "is") \
  X(IS_NOT, IsNot, "is not") \
  X(IN, In, "in") \
  X(NOT_IN, NotIn, "not in")

typedef enum {
#define X(id, name, symbol) PYOP_##id,
  PYOP_TABLE(X)
#undef X
      PYOP_COUNT
} PyOp;

typedef struct PyOpList {
  PyOp *at;
  int n;
} PyOpList;

typedef enum { CTX_LOAD, CTX_STORE, CTX_DEL } ExprContext; /* is the expression read, assigned to, or deleted */

typedef enum {
  CONST_NONE,
  CONST_TRUE,
  CONST_FALSE,
  CONST_ELLIPSIS,
  CONST_INT,       /* fits, i, text */
  CONST_FLOAT,     /* f */
  CONST_IMAGINARY, /* f: the imaginary part */
  CONST_STR,       /* text, size: UTF-8; a lone surrogate ("\ud800") is its three bytes, as in WTF-8 */
  CONST_BYTES,     /* text, size */
} ConstKind;

typedef struct ConstValue {
  ConstKind kind;
  bool fits; /* an int that fits in 64 bits, signed: then i is its value */
  int64_t i;
  double f;
  const char *text; /* NUL-terminated. Of an int: decimal when it fits, else "0x" and lower-case hex */
  size_t size;      /* bytes of text, which may hold NULs */
} ConstValue;

/* A comment of the form "# nereid: WORDS", which means nothing to Python; the front end reads it
 * (front/kernel/regions.c). */
/* words: trimmed; alone: nothing else stands on its line */
typedef struct Marker {
  Span span;
  const char *words;
  bool alone;
} Marker;
typedef struct MarkerList {
  Marker *at;
  int n;
} MarkerList;

/* Fields as in Python's ast. "or NULL" marks the optional ones; every other Node pointer is there. Type comments are
 * ignored, as Python does unless asked. */
struct Node {
  NodeKind kind;
  Span span;
  union {
    struct {
      NodeList body;
      MarkerList markers;
    } Module; /* markers: no field of Python's; in the order of the text */

    struct {
      const char *name;
      Node *args; /* arguments */
      NodeList body, decorator_list;
      Node *returns; /* or NULL */
      NodeList type_params;
    } FunctionDef, AsyncFunctionDef;
    struct {
      const char *name;
      NodeList bases, keywords, body, decorator_list, type_params;
    } ClassDef;
    struct {
      Node *value;
    } Return; /* value or NULL */
    struct {
      NodeList targets;
    } Delete;
    struct {
      NodeList targets;
      Node *value;
    } Assign; /* a = b = value: two targets */
    struct {
      Node *name;
      NodeList type_params;
      Node *value;
    } TypeAlias;
    struct {
      Node *target;
      PyOp op;
      Node *value;
    } AugAssign;
    struct {
      Node *target, *annotation, *value;
      int simple;
    } AnnAssign; /* value or NULL; simple: a bare name */
    struct {
      Node *target, *iter;
      NodeList body, orelse;
    } For, AsyncFor;
    struct {
      Node *test;
      NodeList body, orelse;
    } While, If; /* elif: orelse holds one If */
    struct {
      NodeList items, body;
    } With, AsyncWith; /* items: withitem */
    struct {
      Node *subject;
      NodeList cases;
    } Match; /* cases: match_case */
    struct {
      Node *exc, *cause;
    } Raise; /* each or NULL */
    struct {
      NodeList body, handlers, orelse, finalbody;
    } Try, TryStar; /* handlers: ExceptHandler */
    struct {
      Node *test, *msg;
    } Assert; /* msg or NULL */
    struct {
      NodeList names;
    } Import; /* names: alias */
    struct {
      const char *module;
      NodeList names;
      int level;
    } ImportFrom; /* module or NULL; level: leading dots */
    struct {
      IdentList names;
    } Global, Nonlocal;
    struct {
      Node *value;
    } Expr;
    struct {
      char none;
    } Pass, Break, Continue;

    struct {
      PyOp op;
      NodeList values;
    } BoolOp; /* a and b and c: three values */
    struct {
      Node *target, *value;
    } NamedExpr;
    struct {
      Node *left;
      PyOp op;
      Node *right;
    } BinOp;
    struct {
      PyOp op;
      Node *operand;
    } UnaryOp;
    struct {
      Node *args, *body;
    } Lambda;
    struct {
      Node *test, *body, *orelse;
    } IfExp;
    struct {
      NodeList keys, values;
    } Dict; /* a key is NULL for **value */
    struct {
      NodeList elts;
    } Set;
    struct {
      Node *elt;
      NodeList generators;
    } ListComp, SetComp, GeneratorExp; /* generators: comprehension */
    struct {
      Node *key, *value;
      NodeList generators;
    } DictComp;
    struct {
      Node *value;
    } Await, YieldFrom;
    struct {
      Node *value;
    } Yield; /* value or NULL */
    struct {
      Node *left;
      PyOpList ops;
      NodeList comparators;
    } Compare; /* a < b < c: two ops, two comparators */
    struct {
      Node *func;
      NodeList args, keywords;
    } Call; /* f(*a): args hold a Starred */
    /* -1, 's', 'r', 'a'; JoinedStr or NULL */
    struct {
      Node *value;
      int conversion;
      Node *format_spec;
    } FormattedValue;
    struct {
      NodeList values;
    } JoinedStr; /* Constant and FormattedValue */
    struct {
      ConstValue value;
      bool u_prefix;
    } Constant; /* u_prefix: was written u"..." (ast's kind='u') */
    struct {
      Node *value;
      const char *attr;
      ExprContext ctx;
    } Attribute;
    struct {
      Node *value, *slice;
      ExprContext ctx;
    } Subscript; /* x[a, b]: slice is a Tuple; x[a:b]: a Slice */
    struct {
      Node *value;
      ExprContext ctx;
    } Starred;
    struct {
      const char *id;
      ExprContext ctx;
    } Name;
    struct {
      NodeList elts;
      ExprContext ctx;
    } List, Tuple;
    struct {
      Node *lower, *upper, *step;
    } Slice; /* each or NULL */

    struct {
      Node *target, *iter;
      NodeList ifs;
      int is_async;
    } comprehension;
    struct {
      Node *type;
      const char *name;
      NodeList body;
    } ExceptHandler; /* type, name: or NULL */
    struct {
      NodeList posonlyargs, args;       /* of arg, as all of these */
      Node *vararg;                     /* or NULL */
      NodeList kwonlyargs, kw_defaults; /* as many as kwonlyargs; NULL where there is none */
      Node *kwarg;                      /* or NULL */
      NodeList defaults;                /* of the last ones of posonlyargs + args */
    } arguments;
    struct {
      const char *arg;
      Node *annotation;
    } arg; /* annotation or NULL */
    struct {
      const char *arg;
      Node *value;
    } keyword; /* arg is NULL for **value */
    struct {
      const char *name, *asname;
    } alias; /* name may be dotted, or "*"; asname or NULL */
    struct {
      Node *context_expr, *optional_vars;
    } withitem; /* optional_vars or NULL */
    struct {
      Node *pattern, *guard;
      NodeList body;
    } match_case; /* guard or NULL */

    struct {
      Node *value;
    } MatchValue;
    struct {
      ConstKind value;
    } MatchSingleton; /* None, True, False */
    struct {
      NodeList patterns;
    } MatchSequence, MatchOr;
    struct {
      NodeList keys, patterns;
      const char *rest;
    } MatchMapping; /* rest or NULL */
    struct {
      Node *cls;
      NodeList patterns;
      IdentList kwd_attrs;
      NodeList kwd_patterns;
    } MatchClass;
    struct {
      const char *name;
    } MatchStar; /* NULL for *_ */
    struct {
      Node *pattern;
      const char *name;
    } MatchAs; /* both NULL for _; pattern NULL for a capture */

    struct {
      const char *name;
      Node *bound;
    } TypeVar; /* bound or NULL */
    struct {
      const char *name;
    } ParamSpec, TypeVarTuple;
  };
};

/* ---- parser.c ---------------------------------------------------------------------------------------------------- */

/* The Module of a whole file. Fails (diag) at the first syntax error. Spans refer to `src`, or, where a "coding:" line
 * says that it is not UTF-8, to a Source of the same path and lines with its text in UTF-8. What Python finds only when
 * it compiles a tree ("'return' outside function") is not looked for. */
Node *parse_module(Context *cx, const Source *src);
/* One expression (Python's `eval` input): leading blanks are allowed, several lines only in brackets. */
Node *parse_expression(Context *cx, const Source *src);

/* ---- ast.c: the tree --------------------------------------------------------------------------------------------- */

/* The deepest a tree can be, root to leaf; deeper source is an error, so that a recursive walk needs little stack. */
enum { MAX_TREE_DEPTH = 1000 };

const char *node_name(NodeKind k); /* "FunctionDef" */
const char *pyop_name(PyOp op);    /* "FloorDiv" */
const char *pyop_symbol(PyOp op);  /* "//" */

/* Calls visit for each child that is there, in the order of Python's fields. */
void node_children(const Node *n, void (*visit)(void *arg, Node *child), void *arg);

/* ---- dump.c ------------------------------------------------------------------------------------------------------ */

/* The tree as text, a node a line, indented by one space a level: its name, its position as LINE:COL-LINE:COL if asked
 * for, the plain fields as name=value; then each child field as ".name" with the nodes under it. Absent fields and
 * empty lists are left out.
 *
 *     Module
 *      .body
 *       Assign 1:0-1:5
 *        .targets
 *         Name 1:0-1:1 id=y ctx=Store
 *        .value
 *         Constant 1:4-1:5 value=1 */
void ast_dump(Buf *out, const Node *n, bool with_positions);

#endif
