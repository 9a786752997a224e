/* The tree: names of kinds and operators, and the one table of every kind's fields.
 *
 * The table has the fields in the order of Python's `_fields`, with where they lie and what they are. Walking and
 * printing a tree are loops over it. */
#include "syntax/fields.h"

/* clang-format off */
#define F(kind, field, what) {#field, FIELD_##what, offsetof(Node, kind.field)}
#define FUNCTION(kind)                                                                                         \
  {F(kind, name, IDENT), F(kind, args, NODE), F(kind, body, NODES), F(kind, decorator_list, NODES),            \
   F(kind, returns, NODE), F(kind, type_params, NODES)}
#define LOOP(kind) {F(kind, target, NODE), F(kind, iter, NODE), F(kind, body, NODES), F(kind, orelse, NODES)}
#define TRY(kind) {F(kind, body, NODES), F(kind, handlers, NODES), F(kind, orelse, NODES), F(kind, finalbody, NODES)}
#define ELEMENTS(kind) {F(kind, elt, NODE), F(kind, generators, NODES)}

const Field node_fields[NODE_KIND_COUNT][MAX_FIELDS_OF_NODE + 1] = {
    [NODE_MODULE] = {F(Module, body, NODES)},
    [NODE_FUNCTION_DEF] = FUNCTION(FunctionDef),
    [NODE_ASYNC_FUNCTION_DEF] = FUNCTION(AsyncFunctionDef),
    [NODE_CLASS_DEF] = {F(ClassDef, name, IDENT), F(ClassDef, bases, NODES), F(ClassDef, keywords, NODES), F(ClassDef,
      body, NODES),
                        F(ClassDef, decorator_list, NODES), F(ClassDef, type_params, NODES)},
    [NODE_RETURN] = {F(Return, value, NODE)},
    [NODE_DELETE] = {F(Delete, targets, NODES)},
    [NODE_ASSIGN] = {F(Assign, targets, NODES), F(Assign, value, NODE)},
    [NODE_TYPE_ALIAS] = {F(TypeAlias, name, NODE), F(TypeAlias, type_params, NODES), F(TypeAlias, value, NODE)},
    [NODE_AUG_ASSIGN] = {F(AugAssign, target, NODE), F(AugAssign, op, OP), F(AugAssign, value, NODE)},
    [NODE_ANN_ASSIGN] = {F(AnnAssign, target, NODE), F(AnnAssign, annotation, NODE), F(AnnAssign, value, NODE), F(AnnAssign, simple, INT)},
    [NODE_FOR] = LOOP(For),
    [NODE_ASYNC_FOR] = LOOP(AsyncFor),
    [NODE_WHILE] = {F(While, test, NODE), F(While, body, NODES), F(While, orelse, NODES)},
    [NODE_IF] = {F(If, test, NODE), F(If, body, NODES), F(If, orelse, NODES)},
    [NODE_WITH] = {F(With, items, NODES), F(With, body, NODES)},
    [NODE_ASYNC_WITH] = {F(AsyncWith, items, NODES), F(AsyncWith, body, NODES)},
    [NODE_MATCH] = {F(Match, subject, NODE), F(Match, cases, NODES)},
    [NODE_RAISE] = {F(Raise, exc, NODE), F(Raise, cause, NODE)},
    [NODE_TRY] = TRY(Try),
    [NODE_TRY_STAR] = TRY(TryStar),
    [NODE_ASSERT] = {F(Assert, test, NODE), F(Assert, msg, NODE)},
    [NODE_IMPORT] = {F(Import, names, NODES)},
    [NODE_IMPORT_FROM] = {F(ImportFrom, module, IDENT), F(ImportFrom, names, NODES), F(ImportFrom, level, INT)},
    [NODE_GLOBAL] = {F(Global, names, IDENTS)},
    [NODE_NONLOCAL] = {F(Nonlocal, names, IDENTS)},
    [NODE_EXPR] = {F(Expr, value, NODE)},
    [NODE_BOOL_OP] = {F(BoolOp, op, OP), F(BoolOp, values, NODES)},
    [NODE_NAMED_EXPR] = {F(NamedExpr, target, NODE), F(NamedExpr, value, NODE)},
    [NODE_BIN_OP] = {F(BinOp, left, NODE), F(BinOp, op, OP), F(BinOp, right, NODE)},
    [NODE_UNARY_OP] = {F(UnaryOp, op, OP), F(UnaryOp, operand, NODE)},
    [NODE_LAMBDA] = {F(Lambda, args, NODE), F(Lambda, body, NODE)},
    [NODE_IF_EXP] = {F(IfExp, test, NODE), F(IfExp, body, NODE), F(IfExp, orelse, NODE)},
    [NODE_DICT] = {F(Dict, keys, NODES), F(Dict, values, NODES)},
    [NODE_SET] = {F(Set, elts, NODES)},
    [NODE_LIST_COMP] = ELEMENTS(ListComp),
    [NODE_SET_COMP] = ELEMENTS(SetComp),
    [NODE_GENERATOR_EXP] = ELEMENTS(GeneratorExp),
    [NODE_DICT_COMP] = {F(DictComp, key, NODE), F(DictComp, value, NODE), F(DictComp, generators, NODES)},
    [NODE_AWAIT] = {F(Await, value, NODE)},
    [NODE_YIELD] = {F(Yield, value, NODE)},
    [NODE_YIELD_FROM] = {F(YieldFrom, value, NODE)},
    [NODE_COMPARE] = {F(Compare, left, NODE), F(Compare, ops, OPS), F(Compare, comparators, NODES)},
    [NODE_CALL] = {F(Call, func, NODE), F(Call, args, NODES), F(Call, keywords, NODES)},
    [NODE_FORMATTED_VALUE] = {F(FormattedValue, value, NODE), F(FormattedValue, conversion, INT), F(FormattedValue, format_spec, NODE)},
    [NODE_JOINED_STR] = {F(JoinedStr, values, NODES)},
    [NODE_CONSTANT] = {F(Constant, value, VALUE), F(Constant, u_prefix, U_PREFIX)},
    [NODE_ATTRIBUTE] = {F(Attribute, value, NODE), F(Attribute, attr, IDENT), F(Attribute, ctx, CTX)},
    [NODE_SUBSCRIPT] = {F(Subscript, value, NODE), F(Subscript, slice, NODE), F(Subscript, ctx, CTX)},
    [NODE_STARRED] = {F(Starred, value, NODE), F(Starred, ctx, CTX)},
    [NODE_NAME] = {F(Name, id, IDENT), F(Name, ctx, CTX)},
    [NODE_LIST] = {F(List, elts, NODES), F(List, ctx, CTX)},
    [NODE_TUPLE] = {F(Tuple, elts, NODES), F(Tuple, ctx, CTX)},
    [NODE_SLICE] = {F(Slice, lower, NODE), F(Slice, upper, NODE), F(Slice, step, NODE)},
    [NODE_COMPREHENSION] = {F(comprehension, target, NODE), F(comprehension, iter, NODE), F(comprehension, ifs, NODES),
                            F(comprehension, is_async, INT)},
    [NODE_EXCEPT_HANDLER] = {F(ExceptHandler, type, NODE), F(ExceptHandler, name, IDENT), F(ExceptHandler, body, NODES)},
    [NODE_ARGUMENTS] = {F(arguments, posonlyargs, NODES), F(arguments, args, NODES), F(arguments, vararg, NODE),
      F(arguments, kwonlyargs, NODES),
                        F(arguments, kw_defaults, NODES), F(arguments, kwarg, NODE), F(arguments, defaults, NODES)},
    [NODE_ARG] = {F(arg, arg, IDENT), F(arg, annotation, NODE)},
    [NODE_KEYWORD] = {F(keyword, arg, IDENT), F(keyword, value, NODE)},
    [NODE_ALIAS] = {F(alias, name, IDENT), F(alias, asname, IDENT)},
    [NODE_WITH_ITEM] = {F(withitem, context_expr, NODE), F(withitem, optional_vars, NODE)},
    [NODE_MATCH_CASE] = {F(match_case, pattern, NODE), F(match_case, guard, NODE), F(match_case, body, NODES)},
    [NODE_MATCH_VALUE] = {F(MatchValue, value, NODE)},
    [NODE_MATCH_SINGLETON] = {F(MatchSingleton, value, SINGLETON)},
    [NODE_MATCH_SEQUENCE] = {F(MatchSequence, patterns, NODES)},
    [NODE_MATCH_MAPPING] = {F(MatchMapping, keys, NODES), F(MatchMapping, patterns, NODES), F(MatchMapping, rest, IDENT)},
    [NODE_MATCH_CLASS] = {F(MatchClass, cls, NODE), F(MatchClass, patterns, NODES), F(MatchClass, kwd_attrs, IDENTS), F(MatchClass, kwd_patterns, NODES)},
    [NODE_MATCH_STAR] = {F(MatchStar, name, IDENT)},
    [NODE_MATCH_AS] = {F(MatchAs, pattern, NODE), F(MatchAs, name, IDENT)},
    [NODE_MATCH_OR] = {F(MatchOr, patterns, NODES)},
    [NODE_TYPE_VAR] = {F(TypeVar, name, IDENT), F(TypeVar, bound, NODE)},
    [NODE_PARAM_SPEC] = {F(ParamSpec, name, IDENT)},
    [NODE_TYPE_VAR_TUPLE] = {F(TypeVarTuple, name, IDENT)},
};
/* clang-format on */

const char *node_name(NodeKind k) {
  static const char *const names[] = {
#define X(id, name, placed) #name,
      NODE_TABLE(X)
#undef X
  };
  return k < NODE_KIND_COUNT ? names[k] : "?";
}

bool node_placed(NodeKind k) {
  static const bool is[] = {
#define X(id, name, placed) placed,
      NODE_TABLE(X)
#undef X
  };
  return k < NODE_KIND_COUNT && is[k];
}

const char *pyop_name(PyOp op) {
  static const char *const names[] = {
#define X(id, name, symbol) #name,
      PYOP_TABLE(X)
#undef X
  };
  return op < PYOP_COUNT ? names[op] : "?";
}

const char *pyop_symbol(PyOp op) {
  static const char *const symbols[] = {
#define X(id, name, symbol) symbol,
      PYOP_TABLE(X)
#undef X
  };
  return op < PYOP_COUNT ? symbols[op] : "?";
}

void node_children(const Node *n, void (*visit)(void *arg, Node *child), void *arg) {
  for (const Field *f = node_fields[n->kind]; f->name; f++) {
    if (f->kind == FIELD_NODE) {
      Node *child = *(Node *const *)field_at(n, f);
      if (child) visit(arg, child);
    } else if (f->kind == FIELD_NODES) {
      const NodeList *l = field_at(n, f);
      for (int i = 0; i < l->n; i++)
        if (l->at[i]) visit(arg, l->at[i]);
    }
  }
}
