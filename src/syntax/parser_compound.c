/* Compound statements: those that hold blocks. */
#include "syntax/parser.h"

/* statements: statement+, up to a token `end` (of a block: DEDENT) */
void parse_statements(Parser *p, TokenKind end) {
  while (!at(p, end)) {
    if (!compound_stmt(p)) simple_stmts(p);
  }
}

/* block: NEWLINE INDENT statements DEDENT | simple_stmts
 * `head` is the statement's first token and `what` names it for the message: "'if' statement". */
NodeList parse_block(Parser *p, const Token *head, const char *what) {
  int mark = p->stack.n;
  check_shape(p);
  if (!accept(p, T_NEWLINE)) {
    simple_stmts(p);
    return list_from(p, mark);
  }
  if (!accept(p, T_INDENT)) {
    if (at(p, T_ERROR)) parser_unexpected(p);
    diag_fail(diag_as(p->cx, ERROR_SYNTAX), next_span(p), "expected an indented block after %s on line %u", what,
              head->line);
  }
  parse_statements(p, T_DEDENT);
  advance(p);
  return list_from(p, mark);
}

/* ':' block */
static NodeList colon_block(Parser *p, const Token *head, const char *what) {
  expect_colon(p);
  return parse_block(p, head, what);
}

/* else_block: 'else' ':' block */
static NodeList else_block(Parser *p) {
  const Token *head = p->tok;
  return accept(p, T_ELSE) ? colon_block(p, head, "'else' statement") : (NodeList){0};
}

/* ---- if, while, for
 * ---------------------------------------------------------------------------------------------------- */

/* if_stmt:   'if' named_expression ':' block (elif_stmt | [else_block])
 * elif_stmt: 'elif' named_expression ':' block (elif_stmt | [else_block]) */
static Node *if_stmt(Parser *p) {
  const Token *first = advance(p);
  Node *test = named_expression(p);
  NodeList body = colon_block(p, first, first->kind == T_IF ? "'if' statement" : "'elif' statement"), orelse;
  if (at(p, T_ELIF)) {
    parser_enter(p);
    int mark = p->stack.n;
    push(p, if_stmt(p));
    orelse = list_from(p, mark);
    leave(p);
  } else orelse = else_block(p);
  Node *n = node_at(p, NODE_IF, first);
  n->If.test = test;
  n->If.body = body;
  n->If.orelse = orelse;
  return n;
}

/* while_stmt: 'while' named_expression ':' block [else_block] */
static Node *while_stmt(Parser *p) {
  const Token *first = advance(p);
  Node *test = named_expression(p);
  NodeList body = colon_block(p, first, "'while' statement"), orelse = else_block(p);
  Node *n = node_at(p, NODE_WHILE, first);
  n->While.test = test;
  n->While.body = body;
  n->While.orelse = orelse;
  return n;
}

/* for_stmt: ['async'] 'for' star_targets 'in' star_expressions ':' block [else_block] */
static Node *for_stmt(Parser *p, const Token *first, NodeKind kind) {
  const Token *head = advance(p);
  Node *target = star_targets(p);
  if (!accept(p, T_IN)) {
    if (at(p, T_ERROR) || at(p, T_NAME)) parser_unexpected(p);
    syntax_error(p, next_span(p), "expected 'in' after the variables of a 'for' loop");
  }
  Node *iter = star_expressions(p);
  NodeList body = colon_block(p, head, "'for' statement"), orelse = else_block(p);
  Node *n = node_at(p, kind, first);
  n->For.target = target; /* AsyncFor is the same struct */
  n->For.iter = iter;
  n->For.body = body;
  n->For.orelse = orelse;
  return n;
}

/* ---- with
 * ----------------------------------------------------------------------------------------------------------------- */

/* with_item: expression 'as' star_target &(',' | ')' | ':') | expression */
static Node *with_item(Parser *p) {
  const Token *first = p->tok;
  Node *e = expression(p), *vars = NULL;
  if (accept(p, T_AS)) {
    vars = at(p, T_STAR) ? star_expression(p) : bitwise_or(p);
    make_target(p, vars, STAR_TARGETS);
  }
  Node *n = node_at(p, NODE_WITH_ITEM, first);
  n->withitem.context_expr = e;
  n->withitem.optional_vars = vars;
  return n;
}

/* At "(" after 'with': do these brackets hold the items, as in `with (open(a) as f, open(b) as g):`, or do they belong
 * to the first item's expression, as in `with (yield x):` and `with (a, b) as c:`? They hold the items when they hold
 * an 'as' outside inner brackets, or when ':' follows and nothing within is what only an expression has: a walrus, a
 * yield, a generator, a starred element, emptiness. (`with (a, b):` is two items: Python decides so too.) */
static bool items_in_brackets(const Parser *p) {
  int level = 0, lambdas = 0;
  bool expression_only = p->tok[1].kind == T_RPAR, as = false;
  for (const Token *t = p->tok;; t++) {
    switch (t->kind) {
      case T_LPAR:
      case T_LSQB:
      case T_LBRACE: level++; break;
      case T_RPAR:
      case T_RSQB:
      case T_RBRACE:
        if (--level == 0)
          return as || (!expression_only && t[1].kind == T_COLON); /* END or ERROR follows, if nothing else */
        break;
      case T_END:
      case T_ERROR:
      case T_NEWLINE: return false;
      default:
        if (level != 1) break;
        if (t->kind == T_AS) as = true;
        else if (t->kind == T_LAMBDA) lambdas++;
        else if (t->kind == T_COLON && lambdas) lambdas--;
        else if (t->kind == T_COLON_EQUAL || t->kind == T_YIELD || t->kind == T_FOR) expression_only = true;
        else if (t->kind == T_STAR && !lambdas && (t[-1].kind == T_LPAR || t[-1].kind == T_COMMA))
          expression_only = true;
    }
  }
}

/* with_stmt: ['async'] 'with' '(' with_item (',' with_item)* [','] ')' ':' block
 *          | ['async'] 'with' with_item (',' with_item)* ':' block */
static Node *with_stmt(Parser *p, const Token *first, NodeKind kind) {
  const Token *head = advance(p);
  int mark = p->stack.n;
  bool brackets = at(p, T_LPAR) && items_in_brackets(p);
  if (brackets) {
    advance(p);
    p->brackets++;
  }
  do {
    if (brackets && at(p, T_RPAR) && p->stack.n > mark) break;
    push(p, with_item(p));
  } while (accept(p, T_COMMA));
  if (brackets) {
    parser_expect(p, T_RPAR);
    p->brackets--;
  }
  NodeList items = list_from(p, mark), body = colon_block(p, head, "'with' statement");
  Node *n = node_at(p, kind, first);
  n->With.items = items; /* AsyncWith is the same struct */
  n->With.body = body;
  return n;
}

/* ---- try
 * --------------------------------------------------------------------------------------------------------------------
 */

/* except_block: 'except' ['*'] expression ['as' NAME] ':' block | 'except' ':' block */
static Node *except_block(Parser *p, bool *star) {
  const Token *first = advance(p);
  Node *type = NULL;
  const char *name = NULL;
  *star = accept(p, T_STAR);
  const char *what = *star ? "'except*' statement" : "'except' statement";
  if (*star && (at(p, T_COLON) || at(p, T_NEWLINE)))
    syntax_error(p, next_span(p), "expected one or more exception types");
  if (!at(p, T_COLON)) {
    if (at(p, T_NEWLINE)) expect_colon(p);
    type = expression(p);
    if (at(p, T_COMMA))
      syntax_error(p, tokens_span(p, first + 1 + *star, p->tok), "multiple exception types must be parenthesized");
    if (accept(p, T_AS)) {
      const Token *t = p->tok;
      name = identifier(p);
      if (!at(p, T_COLON) && !at(p, T_NEWLINE) && !at(p, T_ERROR))
        syntax_error(p, tokens_span(p, t, p->tok), "cannot use anything but a name as the target of 'except ... as'");
    }
  }
  NodeList body = colon_block(p, first, what);
  Node *n = node_at(p, NODE_EXCEPT_HANDLER, first);
  n->ExceptHandler.type = type;
  n->ExceptHandler.name = name;
  n->ExceptHandler.body = body;
  return n;
}

/* try_stmt: 'try' ':' block finally_block
 *         | 'try' ':' block except_block+ [else_block] [finally_block]
 *         | 'try' ':' block except_star_block+ [else_block] [finally_block] */
static Node *try_stmt(Parser *p) {
  const Token *first = advance(p);
  NodeList body = colon_block(p, first, "'try' statement"), orelse = {0}, finalbody = {0};
  int mark = p->stack.n;
  bool starred = false;
  while (at(p, T_EXCEPT)) {
    bool star, first_handler = p->stack.n == mark;
    const Token *t = p->tok;
    push(p, except_block(p, &star));
    if (!first_handler && star != starred)
      syntax_error(p, tokens_span(p, t, t), "cannot have both 'except' and 'except*' on the same 'try'");
    starred = star;
  }
  NodeList handlers = list_from(p, mark);
  if (handlers.n) orelse = else_block(p);
  const Token *last = p->tok;
  if (accept(p, T_FINALLY)) finalbody = colon_block(p, last, "'finally' statement");
  else if (!handlers.n) {
    if (at(p, T_ERROR) || at(p, T_INDENT)) parser_unexpected(p);
    syntax_error(p, next_span(p), "expected 'except' or 'finally' block");
  }
  Node *n = node_at(p, starred ? NODE_TRY_STAR : NODE_TRY, first);
  n->Try.body = body; /* TryStar is the same struct */
  n->Try.handlers = handlers;
  n->Try.orelse = orelse;
  n->Try.finalbody = finalbody;
  return n;
}

/* ---- def, class
 * ---------------------------------------------------------------------------------------------------------------- */

/* function_def_raw: ['async'] 'def' NAME [type_params] '(' [params] ')' ['->' expression] ':' block */
static Node *function_def(Parser *p, const Token *first, NodeKind kind, NodeList decorators) {
  const Token *head = advance(p);
  const char *name = identifier(p);
  NodeList types = type_params(p);
  if (!at(p, T_LPAR)) {
    if (at(p, T_ERROR)) parser_unexpected(p);
    syntax_error(p, next_span(p), "expected '('");
  }
  advance(p);
  Node *args = parse_parameters(p, T_RPAR, true);
  advance(p);
  Node *returns = accept(p, T_ARROW) ? expression(p) : NULL;
  NodeList body = colon_block(p, head, "function definition");
  Node *n = node_at(p, kind, first);
  n->FunctionDef.name = name; /* AsyncFunctionDef is the same struct */
  n->FunctionDef.args = args;
  n->FunctionDef.body = body;
  n->FunctionDef.decorator_list = decorators;
  n->FunctionDef.returns = returns;
  n->FunctionDef.type_params = types;
  return n;
}

/* class_def_raw: 'class' NAME [type_params] ['(' [arguments] ')'] ':' block */
static Node *class_def(Parser *p, NodeList decorators) {
  const Token *first = advance(p);
  const char *name = identifier(p);
  NodeList types = type_params(p), bases = {0}, keywords = {0};
  if (at(p, T_LPAR)) {
    const Token *open = advance(p);
    call_arguments(p, open, &bases, &keywords);
    if (bases.n == 1 && bases.at[0]->kind == NODE_GENERATOR_EXP && bases.at[0]->span.line == (int)open->line &&
        bases.at[0]->span.col == token_span(p->src, open).col)
      syntax_error(p, bases.at[0]->span,
                   "invalid syntax: a generator expression as a base class must be parenthesized");
  }
  NodeList body = colon_block(p, first, "class definition");
  Node *n = node_at(p, NODE_CLASS_DEF, first);
  n->ClassDef.name = name;
  n->ClassDef.bases = bases;
  n->ClassDef.keywords = keywords;
  n->ClassDef.body = body;
  n->ClassDef.decorator_list = decorators;
  n->ClassDef.type_params = types;
  return n;
}

/* decorators: ('@' named_expression NEWLINE)+, then what they decorate */
static Node *decorated(Parser *p) {
  int mark = p->stack.n;
  while (accept(p, T_AT)) {
    push(p, named_expression(p));
    parser_expect(p, T_NEWLINE);
  }
  check_shape(p);
  NodeList decorators = list_from(p, mark);
  const Token *first = p->tok;
  if (at(p, T_CLASS)) return class_def(p, decorators);
  if (at(p, T_DEF)) return function_def(p, first, NODE_FUNCTION_DEF, decorators);
  if (at(p, T_ASYNC) && peek(p, 1) == T_DEF) {
    advance(p);
    return function_def(p, first, NODE_ASYNC_FUNCTION_DEF, decorators);
  }
  if (at(p, T_ERROR) || at(p, T_INDENT)) parser_unexpected(p);
  syntax_error(p, next_span(p), "expected 'def' or 'class' after a decorator");
}

/* ---- compound_stmt
 * -------------------------------------------------------------------------------------------------------------- */

static Node *async_stmt(Parser *p) {
  const Token *first = advance(p);
  switch (p->tok->kind) {
    case T_DEF: return function_def(p, first, NODE_ASYNC_FUNCTION_DEF, (NodeList){0});
    case T_WITH: return with_stmt(p, first, NODE_ASYNC_WITH);
    case T_FOR: return for_stmt(p, first, NODE_ASYNC_FOR);
    default:
      if (at(p, T_ERROR)) parser_unexpected(p);
      syntax_error(p, next_span(p), "expected 'def', 'for' or 'with' after 'async'");
  }
}

/* compound_stmt: function_def | if_stmt | class_def | with_stmt | for_stmt | try_stmt | while_stmt | match_stmt */
bool compound_stmt(Parser *p) {
  const Token *first = p->tok;
  switch (first->kind) {
    case T_IF: push(p, if_stmt(p)); return true;
    case T_WHILE: push(p, while_stmt(p)); return true;
    case T_FOR: push(p, for_stmt(p, first, NODE_FOR)); return true;
    case T_WITH: push(p, with_stmt(p, first, NODE_WITH)); return true;
    case T_TRY: push(p, try_stmt(p)); return true;
    case T_DEF: push(p, function_def(p, first, NODE_FUNCTION_DEF, (NodeList){0})); return true;
    case T_CLASS: push(p, class_def(p, (NodeList){0})); return true;
    case T_AT: push(p, decorated(p)); return true;
    case T_ASYNC: push(p, async_stmt(p)); return true;
    case T_NAME:
      if (!at_match_stmt(p)) return false;
      push(p, match_stmt(p));
      return true;
    default: return false;
  }
}
