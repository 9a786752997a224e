/* Expressions: operators from the loosest to the tightest, conditional expressions, lambda, calls, subscripts.
 *
 * The binary operators of arithmetic are one loop over a table of precedences ("precedence climbing") in place of the
 * grammar's six rules: bitwise_or, bitwise_xor, bitwise_and, shift_expr, sum, term. Chains such as a.b().c and a + b +
 * c lean to the left; they are loops here, and `links` counts them, since the tree they make is deep all the same. */
#include "syntax/parser.h"

/* ---- tuples without brackets ------------------------------------------------------------------------------------- */

/* element (',' element)* [','] where a comma makes a tuple */
static Node *comma_list(Parser *p, Node *(*element)(Parser *)) {
  const Token *first = p->tok;
  Node *one = element(p);
  if (!at(p, T_COMMA)) return one;
  int mark = p->stack.n;
  push(p, one);
  while (accept(p, T_COMMA) && (starts_expression(p->tok->kind) || at(p, T_STAR))) push(p, element(p));
  NodeList elts = list_from(p, mark);
  Node *n = node_at(p, NODE_TUPLE, first);
  n->Tuple.elts = elts;
  return n;
}

static Node *starred(Parser *p, Node *(*value)(Parser *)) {
  const Token *first = advance(p);
  Node *v = value(p);
  Node *n = node_at(p, NODE_STARRED, first);
  n->Starred.value = v;
  return n;
}

/* star_expressions: star_expression (',' star_expression)* [','] */
Node *star_expressions(Parser *p) { return comma_list(p, star_expression); }

/* star_expression: '*' bitwise_or | expression */
Node *star_expression(Parser *p) { return at(p, T_STAR) ? starred(p, bitwise_or) : expression(p); }

/* star_named_expression: '*' bitwise_or | named_expression */
Node *star_named_expression(Parser *p) { return at(p, T_STAR) ? starred(p, bitwise_or) : named_expression(p); }

/* yield_expr: 'yield' 'from' expression | 'yield' [star_expressions] */
Node *yield_expr(Parser *p) {
  const Token *first = parser_expect(p, T_YIELD);
  Node *n;
  if (accept(p, T_FROM)) {
    Node *value = expression(p);
    n = node_at(p, NODE_YIELD_FROM, first);
    n->YieldFrom.value = value;
  } else {
    Node *value = starts_expression(p->tok->kind) || at(p, T_STAR) ? star_expressions(p) : NULL;
    n = node_at(p, NODE_YIELD, first);
    n->Yield.value = value;
  }
  return n;
}

Node *yield_or_star_expressions(Parser *p) { return at(p, T_YIELD) ? yield_expr(p) : star_expressions(p); }

/* ---- expression
 * -------------------------------------------------------------------------------------------------------- */

/* NAME ':=' expression, the name having been seen */
static Node *assignment_expression(Parser *p) {
  const Token *first = p->tok;
  const char *id = identifier(p);
  Node *target = node_at(p, NODE_NAME, first);
  target->Name.id = id;
  target->Name.ctx = CTX_STORE;
  parser_expect(p, T_COLON_EQUAL);
  Node *value = expression(p);
  Node *n = node_at(p, NODE_NAMED_EXPR, first);
  n->NamedExpr.target = target;
  n->NamedExpr.value = value;
  return n;
}

/* named_expression: NAME ':=' expression | expression !':=' */
Node *named_expression(Parser *p) {
  if (at(p, T_NAME) && peek(p, 1) == T_COLON_EQUAL) return assignment_expression(p);
  Node *e = expression(p);
  if (at(p, T_COLON_EQUAL)) syntax_error(p, e->span, "cannot use assignment expressions with %s", expression_kind(e));
  if (at(p, T_EQUAL)) {
    if (e->kind == NODE_NAME)
      syntax_error(p, tokens_span(p, p->tok - 1, p->tok),
                   "invalid syntax. Maybe you meant '==' or ':=' instead of '='?");
    if (e->kind != NODE_LIST && e->kind != NODE_TUPLE && e->kind != NODE_GENERATOR_EXP)
      syntax_error(p, e->span, "cannot assign to %s here. Maybe you meant '==' instead of '='?", expression_kind(e));
  }
  return e;
}

/* lambdef: 'lambda' [lambda_params] ':' expression */
static Node *lambdef(Parser *p) {
  const Token *first = parser_expect(p, T_LAMBDA);
  parser_enter(p);
  Node *args = parse_parameters(p, T_COLON, false);
  parser_expect(p, T_COLON);
  if (at(p, T_FSTRING_MIDDLE))
    syntax_error(p, tokens_span(p, first, p->tok - 1),
                 "f-string: lambda expressions are not allowed without parentheses");
  Node *body = expression(p);
  leave(p);
  Node *n = node_at(p, NODE_LAMBDA, first);
  n->Lambda.args = args;
  n->Lambda.body = body;
  return n;
}

/* expression: disjunction 'if' disjunction 'else' expression | disjunction | lambdef */
Node *expression(Parser *p) {
  if (at(p, T_LAMBDA)) return lambdef(p);
  const Token *first = p->tok;
  Node *body = disjunction(p);
  if (!at(p, T_IF)) return body;
  advance(p);
  Node *test = disjunction(p);
  if (!at(p, T_ELSE)) {
    if (at(p, T_COLON)) parser_unexpected(p);
    syntax_error(p, tokens_span(p, first, p->tok - 1), "expected 'else' after 'if' expression");
  }
  advance(p);
  parser_enter(p);
  Node *orelse = expression(p);
  leave(p);
  Node *n = node_at(p, NODE_IF_EXP, first);
  n->IfExp.test = test;
  n->IfExp.body = body;
  n->IfExp.orelse = orelse;
  return n;
}

/* ---- and, or, not
 * -------------------------------------------------------------------------------------------------------- */

static Node *bool_op(Parser *p, TokenKind token, PyOp op, Node *(*operand)(Parser *)) {
  const Token *first = p->tok;
  Node *one = operand(p);
  if (!at(p, token)) return one;
  int mark = p->stack.n;
  push(p, one);
  while (accept(p, token)) push(p, operand(p));
  NodeList values = list_from(p, mark);
  Node *n = node_at(p, NODE_BOOL_OP, first);
  n->BoolOp.op = op;
  n->BoolOp.values = values;
  return n;
}

static Node *comparison(Parser *p);

/* inversion: 'not' inversion | comparison */
static Node *inversion(Parser *p) {
  stack_guard();
  if (!at(p, T_NOT)) return comparison(p);
  const Token *first = advance(p);
  parser_enter(p);
  Node *operand = inversion(p);
  leave(p);
  Node *n = node_at(p, NODE_UNARY_OP, first);
  n->UnaryOp.op = PYOP_NOT;
  n->UnaryOp.operand = operand;
  return n;
}

/* conjunction: inversion ('and' inversion)* */
static Node *conjunction(Parser *p) { return bool_op(p, T_AND, PYOP_AND, inversion); }

/* disjunction: conjunction ('or' conjunction)* */
Node *disjunction(Parser *p) { return bool_op(p, T_OR, PYOP_OR, conjunction); }

/* ---- comparisons
 * ---------------------------------------------------------------------------------------------------------- */

/* Takes the operator, if one is there. */
static bool comparison_operator(Parser *p, PyOp *op) {
  switch (p->tok->kind) {
    case T_EQ_EQUAL: *op = PYOP_EQ; break;
    case T_NOT_EQUAL: *op = PYOP_NOT_EQ; break;
    case T_LESS: *op = PYOP_LT; break;
    case T_LESS_EQUAL: *op = PYOP_LT_E; break;
    case T_GREATER: *op = PYOP_GT; break;
    case T_GREATER_EQUAL: *op = PYOP_GT_E; break;
    case T_IN: *op = PYOP_IN; break;
    case T_NOT:
      if (peek(p, 1) != T_IN) return false;
      p->tok++;
      *op = PYOP_NOT_IN;
      break;
    case T_IS:
      *op = PYOP_IS;
      if (peek(p, 1) == T_NOT) {
        p->tok++;
        *op = PYOP_IS_NOT;
      }
      break;
    default: return false;
  }
  p->tok++;
  return true;
}

/* comparison: bitwise_or (('==' | '!=' | '<=' | '<' | '>=' | '>' | ['not'] 'in' | 'is' ['not']) bitwise_or)* */
static Node *comparison(Parser *p) {
  const Token *first = p->tok;
  Node *left = bitwise_or(p);
  PyOp op;
  if (!comparison_operator(p, &op)) return left;
  int mark = p->stack.n, ops_mark = p->ops.n;
  do {
    vec_push(p->arena, &p->ops, op);
    push(p, bitwise_or(p));
  } while (comparison_operator(p, &op));
  PyOpList ops = {.n = p->ops.n - ops_mark};
  ops.at = arena_copy(p->arena, p->ops.at + ops_mark, sizeof(PyOp) * (size_t)ops.n);
  p->ops.n = ops_mark;
  NodeList comparators = list_from(p, mark);
  Node *n = node_at(p, NODE_COMPARE, first);
  n->Compare.left = left;
  n->Compare.ops = ops;
  n->Compare.comparators = comparators;
  return n;
}

/* ---- arithmetic
 * ----------------------------------------------------------------------------------------------------------- */

static Node *factor(Parser *p);

/* How tightly a binary operator binds, 0 for other tokens. */
static const uint8_t precedence[TOKEN_KIND_COUNT] = {
    [T_VBAR] = 1,  [T_CIRCUMFLEX] = 2, [T_AMPER] = 3, [T_LEFT_SHIFT] = 4,   [T_RIGHT_SHIFT] = 4, [T_PLUS] = 5,
    [T_MINUS] = 5, [T_STAR] = 6,       [T_SLASH] = 6, [T_DOUBLE_SLASH] = 6, [T_PERCENT] = 6,     [T_AT] = 6,
};
static const uint8_t operator[TOKEN_KIND_COUNT] = {
    [T_VBAR] = PYOP_BIT_OR,         [T_CIRCUMFLEX] = PYOP_BIT_XOR,
    [T_AMPER] = PYOP_BIT_AND,       [T_LEFT_SHIFT] = PYOP_L_SHIFT,
    [T_RIGHT_SHIFT] = PYOP_R_SHIFT, [T_PLUS] = PYOP_ADD,
    [T_MINUS] = PYOP_SUB,           [T_STAR] = PYOP_MULT,
    [T_SLASH] = PYOP_DIV,           [T_DOUBLE_SLASH] = PYOP_FLOOR_DIV,
    [T_PERCENT] = PYOP_MOD,         [T_AT] = PYOP_MAT_MULT,
};

/* Operators that bind at least as tightly as `least`; equal ones group to the left. */
static Node *binary(Parser *p, int least) {
  const Token *first = p->tok;
  Node *left = factor(p);
  for (;;) {
    TokenKind k = p->tok->kind;
    int binds = precedence[k];
    if (!binds || binds < least) return left;
    advance(p);
    p->links++;
    Node *right = binary(p, binds + 1);
    Node *n = node_at(p, NODE_BIN_OP, first);
    n->BinOp.left = left;
    n->BinOp.op = (PyOp) operator[k];
    n->BinOp.right = right;
    left = n;
  }
}

/* bitwise_or:  bitwise_or '|' bitwise_xor | bitwise_xor
 * bitwise_xor: bitwise_xor '^' bitwise_and | bitwise_and
 * bitwise_and: bitwise_and '&' shift_expr | shift_expr
 * shift_expr:  shift_expr ('<<' | '>>') sum | sum
 * sum:         sum ('+' | '-') term | term
 * term:        term ('*' | '/' | '//' | '%' | '@') factor | factor */
Node *bitwise_or(Parser *p) { return binary(p, 1); }

static Node *primary(Parser *p);

/* power:         await_primary '**' factor | await_primary
 * await_primary: 'await' primary | primary */
static Node *power(Parser *p) {
  const Token *first = p->tok;
  Node *left;
  if (accept(p, T_AWAIT)) {
    Node *value = primary(p);
    left = node_at(p, NODE_AWAIT, first);
    left->Await.value = value;
  } else left = primary(p);
  if (!accept(p, T_DOUBLE_STAR)) return left;
  Node *right = factor(p);
  Node *n = node_at(p, NODE_BIN_OP, first);
  n->BinOp.left = left;
  n->BinOp.op = PYOP_POW;
  n->BinOp.right = right;
  return n;
}

/* factor: ('+' | '-' | '~') factor | power
 * All recursion through expressions comes by here, except where parser_enter() is called elsewhere too. */
static Node *factor(Parser *p) {
  TokenKind k = p->tok->kind;
  Node *n;
  parser_enter(p);
  if (k == T_MINUS || k == T_PLUS || k == T_TILDE) {
    const Token *first = advance(p);
    Node *operand = factor(p);
    n = node_at(p, NODE_UNARY_OP, first);
    n->UnaryOp.op = k == T_MINUS ? PYOP_U_SUB : k == T_PLUS ? PYOP_U_ADD : PYOP_INVERT;
    n->UnaryOp.operand = operand;
  } else n = power(p);
  leave(p);
  return n;
}

/* ---- attributes, calls, subscripts
 * ------------------------------------------------------------------------------------------ */

/* slice: [expression] ':' [expression] [':' [expression]] | named_expression | starred_expression */
static Node *slice(Parser *p) {
  const Token *first = p->tok;
  if (at(p, T_STAR)) return starred(p, expression);
  Node *lower = NULL, *upper = NULL, *step = NULL;
  if (!at(p, T_COLON)) {
    lower = named_expression(p);
    if (!at(p, T_COLON)) return lower;
  }
  advance(p);
  if (starts_expression(p->tok->kind)) upper = expression(p);
  if (accept(p, T_COLON) && starts_expression(p->tok->kind)) step = expression(p);
  Node *n = node_at(p, NODE_SLICE, first);
  n->Slice.lower = lower;
  n->Slice.upper = upper;
  n->Slice.step = step;
  return n;
}

/* slices: slice !',' | (slice | starred_expression) (',' (slice | starred_expression))* [','] */
static Node *slices(Parser *p) {
  const Token *first = p->tok;
  Node *one = slice(p);
  if (!at(p, T_COMMA) && one->kind != NODE_STARRED) return one;
  int mark = p->stack.n;
  push(p, one);
  while (accept(p, T_COMMA) && !at(p, T_RSQB)) push(p, slice(p));
  NodeList elts = list_from(p, mark);
  Node *n = node_at(p, NODE_TUPLE, first);
  n->Tuple.elts = elts;
  return n;
}

static void generator_alone(Parser *p, const Token *element, int others) {
  if (others || at(p, T_COMMA))
    syntax_error(p, tokens_span(p, element, p->tok - 1), "Generator expression must be parenthesized");
}

/* One argument onto the stack; keywords are told apart by their kind. */
static void argument(Parser *p, const Token *open, bool *keyword, bool *unpacked, int others) {
  const Token *first = p->tok;
  if (at(p, T_STAR)) {
    if (*unpacked) syntax_error(p, next_span(p), "iterable argument unpacking follows keyword argument unpacking");
    push(p, starred(p, expression));
    if (at(p, T_EQUAL)) syntax_error(p, tokens_span(p, first, p->tok), "cannot assign to iterable argument unpacking");
    return;
  }
  if (accept(p, T_DOUBLE_STAR)) {
    Node *value = expression(p);
    if (at(p, T_EQUAL)) syntax_error(p, tokens_span(p, first, p->tok), "cannot assign to keyword argument unpacking");
    Node *n = node_at(p, NODE_KEYWORD, first);
    n->keyword.value = value;
    *unpacked = true;
    push(p, n);
    return;
  }
  if (at(p, T_NAME) && peek(p, 1) == T_EQUAL) {
    const char *arg = identifier(p);
    advance(p);
    if (at(p, T_COMMA) || at(p, T_RPAR))
      syntax_error(p, tokens_span(p, first, p->tok - 1), "expected argument value expression");
    Node *value = expression(p);
    if (at(p, T_FOR) || at(p, T_ASYNC))
      syntax_error(p, tokens_span(p, first, p->tok), "invalid syntax. Maybe you meant '==' or ':=' instead of '='?");
    Node *n = node_at(p, NODE_KEYWORD, first);
    n->keyword.arg = arg;
    n->keyword.value = value;
    *keyword = true;
    push(p, n);
    return;
  }
  Node *value = at(p, T_NAME) && peek(p, 1) == T_COLON_EQUAL ? assignment_expression(p) : expression(p);
  if (at(p, T_FOR) || (at(p, T_ASYNC) && peek(p, 1) == T_FOR)) {
    value = genexp_after(p, value, open);
    generator_alone(p, first, others);
    push(p, value);
    return;
  }
  if (at(p, T_EQUAL)) {
    if (value->kind == NODE_CONSTANT && value->Constant.value.kind <= CONST_FALSE)
      syntax_error(p, tokens_span(p, first, p->tok), "cannot assign to %s", expression_kind(value));
    syntax_error(p, tokens_span(p, first, p->tok), "expression cannot contain assignment, perhaps you meant \"==\"?");
  }
  if (at(p, T_COLON_EQUAL))
    syntax_error(p, value->span, "cannot use assignment expressions with %s", expression_kind(value));
  if (*unpacked)
    syntax_error(p, tokens_span(p, first, p->tok - 1), "positional argument follows keyword argument unpacking");
  if (*keyword) syntax_error(p, tokens_span(p, first, p->tok - 1), "positional argument follows keyword argument");
  push(p, value);
}

/* arguments: args [','] &')'
 * args:      positional ones and '*' expression, then NAME '=' expression and '*' expression, then NAME '=' expression
 *            and '**' expression; or a single generator expression without its brackets */
void call_arguments(Parser *p, const Token *open, NodeList *args, NodeList *keywords) {
  int mark = p->stack.n;
  bool keyword = false, unpacked = false;
  p->brackets++;
  while (!at(p, T_RPAR)) {
    argument(p, open, &keyword, &unpacked, p->stack.n - mark);
    if (!accept(p, T_COMMA)) break;
  }
  p->brackets--;
  if (!at(p, T_RPAR)) {
    p->brackets++;
    parser_unexpected(p);
  }
  advance(p);
  NodeList all = list_from(p, mark);
  if (!keyword && !unpacked) {
    *args = all;
    return;
  }
  for (int i = 0; i < all.n; i++)
    if (all.at[i]->kind != NODE_KEYWORD) push(p, all.at[i]);
  *args = list_from(p, mark);
  for (int i = 0; i < all.n; i++)
    if (all.at[i]->kind == NODE_KEYWORD) push(p, all.at[i]);
  *keywords = list_from(p, mark);
}

/* primary: primary '.' NAME | primary '(' [arguments] ')' | primary '[' slices ']' | atom
 * (primary genexp is a call with one argument; its node's place includes the brackets) */
static Node *primary(Parser *p) {
  const Token *first = p->tok;
  Node *left = parse_atom(p);
  for (;; p->links++) {
    Node *n;
    switch (p->tok->kind) {
      case T_DOT: {
        advance(p);
        const char *attr = identifier(p);
        n = node_at(p, NODE_ATTRIBUTE, first);
        n->Attribute.value = left;
        n->Attribute.attr = attr;
        break;
      }
      case T_LPAR: {
        const Token *open = advance(p);
        NodeList args = {0}, keywords = {0};
        call_arguments(p, open, &args, &keywords);
        n = node_at(p, NODE_CALL, first);
        n->Call.func = left;
        n->Call.args = args;
        n->Call.keywords = keywords;
        break;
      }
      case T_LSQB: {
        advance(p);
        p->brackets++;
        Node *index = slices(p);
        parser_expect(p, T_RSQB);
        p->brackets--;
        n = node_at(p, NODE_SUBSCRIPT, first);
        n->Subscript.value = left;
        n->Subscript.slice = index;
        break;
      }
      default: return left;
    }
    left = n;
  }
}
