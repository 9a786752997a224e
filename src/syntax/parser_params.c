/* Parameters of def and lambda, and type parameters.
 *
 *     def f(a, b=1, /, c=2, *args, d, e=3, **kw)
 *
 * One loop serves both: it knows whether "/", "*" and "**" have passed and puts each parameter where it belongs. */
#include "syntax/parser.h"

/* param: NAME [':' expression];  after '*' also NAME ':' star_expression */
static Node *param(Parser *p, bool annotated, bool starred) {
  const Token *first = p->tok;
  if (at(p, T_LPAR))
    syntax_error(p, next_span(p),
                 annotated ? "Function parameters cannot be parenthesized"
                           : "Lambda expression parameters cannot be parenthesized");
  const char *name = identifier(p);
  Node *annotation = NULL;
  if (annotated && accept(p, T_COLON)) annotation = starred ? star_expression(p) : expression(p);
  Node *n = node_at(p, NODE_ARG, first);
  n->arg.arg = name;
  n->arg.annotation = annotation;
  return n;
}

/* default: '=' expression */
static Node *default_value(Parser *p, TokenKind end) {
  if (!accept(p, T_EQUAL)) return NULL;
  if (at(p, end) || at(p, T_COMMA))
    syntax_error(p, tokens_span(p, p->tok - 1, p->tok - 1), "expected default value expression");
  return expression(p);
}

typedef struct Lists {
  VEC(Node *) params, defaults, kwonly, kw_defaults;
} Lists;

static NodeList keep(Parser *p, Node *const *at, int from, int to) {
  int n = to - from;
  return (NodeList){n ? arena_copy(p->arena, at + from, sizeof(Node *) * (size_t)n) : NULL, n};
}

/* parameters: slash_no_default param_no_default* param_with_default* [star_etc] | ... (eight forms)
 * star_etc:   '*' param param_maybe_default* [kwds] | '*' ',' param_maybe_default+ [kwds] | kwds
 * kwds:       '**' param */
Node *parse_parameters(Parser *p, TokenKind end, bool annotated) {
  const Token *first = p->tok;
  Lists l = {0};
  Node *vararg = NULL, *kwarg = NULL;
  int positional_only = 0;
  bool slash = false, star = false;
  while (!at(p, end)) {
    const Token *t = p->tok;
    if (kwarg) syntax_error(p, next_span(p), "arguments cannot follow var-keyword argument");
    if (accept(p, T_SLASH)) {
      if (slash) syntax_error(p, token_span(p->src, t), "/ may appear only once");
      if (star) syntax_error(p, token_span(p->src, t), "/ must be ahead of *");
      if (!l.params.n) syntax_error(p, token_span(p->src, t), "at least one argument must precede /");
      if (at(p, T_STAR)) syntax_error(p, next_span(p), "expected comma between / and *");
      slash = true;
      positional_only = l.params.n;
    } else if (accept(p, T_STAR)) {
      if (star) syntax_error(p, token_span(p->src, t), "* argument may appear only once");
      star = true;
      if (at(p, T_COMMA)) {
        TokenKind next = peek(p, 1);
        if (next == end || next == T_DOUBLE_STAR)
          syntax_error(p, token_span(p->src, t), "named arguments must follow bare *");
      } else if (at(p, end)) syntax_error(p, token_span(p->src, t), "named arguments must follow bare *");
      else {
        vararg = param(p, annotated, true);
        if (at(p, T_EQUAL)) syntax_error(p, next_span(p), "var-positional argument cannot have default value");
      }
    } else if (accept(p, T_DOUBLE_STAR)) {
      kwarg = param(p, annotated, false);
      if (at(p, T_EQUAL)) syntax_error(p, next_span(p), "var-keyword argument cannot have default value");
    } else {
      Node *n = param(p, annotated, false);
      Node *value = default_value(p, end);
      if (star) {
        vec_push(p->arena, &l.kwonly, n);
        vec_push(p->arena, &l.kw_defaults, value);
      } else {
        if (!value && l.defaults.n)
          syntax_error(p, n->span, "parameter without a default follows parameter with a default");
        vec_push(p->arena, &l.params, n);
        if (value) vec_push(p->arena, &l.defaults, value);
      }
    }
    if (!accept(p, T_COMMA)) break;
  }
  if (!at(p, end)) {
    if (annotated) p->brackets++; /* for "forgot a comma?": a lambda's are not in brackets */
    parser_unexpected(p);
  }
  Node *n = node_at(p, NODE_ARGUMENTS, first);
  if (p->tok == first) { /* none: an empty place before the end */
    n->span.end_line = n->span.line;
    n->span.end_col = n->span.col;
  }
  n->arguments.posonlyargs = keep(p, l.params.at, 0, positional_only);
  n->arguments.args = keep(p, l.params.at, positional_only, l.params.n);
  n->arguments.vararg = vararg;
  n->arguments.kwonlyargs = keep(p, l.kwonly.at, 0, l.kwonly.n);
  n->arguments.kw_defaults = keep(p, l.kw_defaults.at, 0, l.kw_defaults.n);
  n->arguments.kwarg = kwarg;
  n->arguments.defaults = keep(p, l.defaults.at, 0, l.defaults.n);
  return n;
}

/* type_params: '[' type_param (',' type_param)* [','] ']'
 * type_param:  NAME [':' expression] | '*' NAME | '**' NAME */
NodeList type_params(Parser *p) {
  if (!at(p, T_LSQB)) return (NodeList){0};
  const Token *open = advance(p);
  p->brackets++;
  int mark = p->stack.n;
  if (at(p, T_RSQB)) syntax_error(p, tokens_span(p, open, p->tok), "Type parameter list cannot be empty");
  do {
    if (at(p, T_RSQB)) break;
    const Token *first = p->tok;
    NodeKind kind = accept(p, T_STAR)          ? NODE_TYPE_VAR_TUPLE
                    : accept(p, T_DOUBLE_STAR) ? NODE_PARAM_SPEC
                                               : NODE_TYPE_VAR;
    const char *name = identifier(p);
    Node *bound = NULL;
    if (at(p, T_COLON)) {
      if (kind != NODE_TYPE_VAR)
        syntax_error(p, next_span(p), "cannot use %s with %s", peek(p, 1) == T_LPAR ? "constraints" : "bound",
                     kind == NODE_PARAM_SPEC ? "ParamSpec" : "TypeVarTuple");
      advance(p);
      bound = expression(p);
    }
    if (at(p, T_EQUAL)) syntax_error(p, next_span(p), "defaults of type parameters are Python 3.13's; 3.12 is read");
    Node *n = node_at(p, kind, first);
    if (kind == NODE_TYPE_VAR) {
      n->TypeVar.name = name;
      n->TypeVar.bound = bound;
    } else if (kind == NODE_PARAM_SPEC) n->ParamSpec.name = name;
    else n->TypeVarTuple.name = name;
    push(p, n);
  } while (accept(p, T_COMMA));
  parser_expect(p, T_RSQB);
  p->brackets--;
  return list_from(p, mark);
}
