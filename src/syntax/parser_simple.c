/* Simple statements: those of one line, several of which may stand on it with ";" between. */
#include "syntax/parser.h"

/* ---- assignments and expressions
 * -------------------------------------------------------------------------------------- */

/* annotated: NAME ':' ... | '(' single_target ')' ':' ... | single_subscript_attribute_target ':' expression ['='
 * annotated_rhs] */
static Node *annotated_assignment(Parser *p, const Token *first, Node *target) {
  switch (target->kind) {
    case NODE_NAME:
    case NODE_ATTRIBUTE:
    case NODE_SUBSCRIPT: break;
    case NODE_LIST: syntax_error(p, target->span, "only single target (not list) can be annotated");
    case NODE_TUPLE: syntax_error(p, target->span, "only single target (not tuple) can be annotated");
    default:
      if (!starts_expression(peek(p, 1))) parser_unexpected(p); /* deff(x): ... */
      syntax_error(p, target->span, "illegal target for annotation");
  }
  parser_expect(p, T_COLON);
  make_target(p, target, STAR_TARGETS);
  Node *annotation = expression(p);
  Node *value = accept(p, T_EQUAL) ? yield_or_star_expressions(p) : NULL;
  Node *n = node_at(p, NODE_ANN_ASSIGN, first);
  n->AnnAssign.target = target;
  n->AnnAssign.annotation = annotation;
  n->AnnAssign.value = value;
  n->AnnAssign.simple = target->kind == NODE_NAME && first->kind == T_NAME;
  return n;
}

static Node *augmented_assignment(Parser *p, const Token *first, Node *target) {
  if (target->kind != NODE_NAME && target->kind != NODE_ATTRIBUTE && target->kind != NODE_SUBSCRIPT)
    syntax_error(p, target->span, "'%s' is an illegal expression for augmented assignment", expression_kind(target));
  static const PyOp op[] = {PYOP_ADD,     PYOP_SUB,     PYOP_MULT,     PYOP_MAT_MULT, PYOP_DIV,
                            PYOP_MOD,     PYOP_POW,     PYOP_L_SHIFT,  PYOP_R_SHIFT,  PYOP_BIT_OR,
                            PYOP_BIT_XOR, PYOP_BIT_AND, PYOP_FLOOR_DIV};
  PyOp o = op[advance(p)->kind - T_PLUS_EQUAL];
  make_target(p, target, STAR_TARGETS);
  Node *value = yield_or_star_expressions(p);
  Node *n = node_at(p, NODE_AUG_ASSIGN, first);
  n->AugAssign.target = target;
  n->AugAssign.op = o;
  n->AugAssign.value = value;
  return n;
}

static void assignment_target(Parser *p, Node *e) {
  if (e->kind == NODE_YIELD || e->kind == NODE_YIELD_FROM)
    syntax_error(p, e->span, "assignment to yield expression not possible");
  const Node *bad = invalid_target(e, STAR_TARGETS);
  bool whole = bad == e && e->kind != NODE_GENERATOR_EXP;
  if (whole && !(e->kind == NODE_CONSTANT && e->Constant.value.kind <= CONST_FALSE))
    syntax_error(p, bad->span, "cannot assign to %s here. Maybe you meant '==' instead of '='?", expression_kind(bad));
  make_target(p, e, STAR_TARGETS);
}

/* `print x`: Python 2 */
static void legacy_statement(Parser *p, const Token *first, const Node *e) {
  if (e->kind != NODE_NAME || (e->Name.id != p->print && e->Name.id != p->exec) || p->tok != first + 1) return;
  if (!starts_expression(p->tok->kind)) return;
  while (!at(p, T_NEWLINE) && !at(p, T_SEMI) && !at(p, T_END) && !at(p, T_ERROR)) advance(p);
  if (at(p, T_ERROR)) parser_unexpected(p);
  syntax_error(p, tokens_span(p, first, p->tok - 1), "Missing parentheses in call to '%s'. Did you mean %s(...)?",
               e->Name.id, e->Name.id);
}

/* assignment: annotated | (star_targets '=')+ (yield_expr | star_expressions) !'=' | single_target augassign ...
 * star_expressions */
static Node *assignment_or_expression(Parser *p) {
  const Token *first = p->tok;
  Node *e = yield_or_star_expressions(p), *n;
  if (at(p, T_COLON)) return annotated_assignment(p, first, e);
  if (p->tok->kind >= T_PLUS_EQUAL && p->tok->kind <= T_DOUBLE_SLASH_EQUAL) return augmented_assignment(p, first, e);
  if (!at(p, T_EQUAL)) {
    legacy_statement(p, first, e);
    n = node_at(p, NODE_EXPR, first);
    n->Expr.value = e;
    return n;
  }
  int mark = p->stack.n;
  while (accept(p, T_EQUAL)) {
    assignment_target(p, e);
    push(p, e);
    e = yield_or_star_expressions(p);
  }
  NodeList targets = list_from(p, mark);
  n = node_at(p, NODE_ASSIGN, first);
  n->Assign.targets = targets;
  n->Assign.value = e;
  return n;
}

/* ---- imports
 * -------------------------------------------------------------------------------------------------------------- */

/* dotted_name: NAME ('.' NAME)*, as one identifier */
static const char *dotted_name(Parser *p) {
  const char *name = identifier(p);
  if (!at(p, T_DOT)) return name;
  VEC(char) text = {0};
  for (const char *part = name;; part = identifier(p)) {
    int more = (int)strlen(part);
    vec_reserve(p->arena, (void **)&text.at, &text.cap, text.n + more + 1, 1);
    memcpy(text.at + text.n, part, (size_t)more);
    text.n += more;
    if (!accept(p, T_DOT)) return intern(p->cx, text.at, (size_t)text.n);
    text.at[text.n++] = '.';
  }
}

static Node *alias(Parser *p, const Token *first, const char *name) {
  const char *asname = NULL;
  if (accept(p, T_AS)) {
    asname = identifier(p);
    if (at(p, T_DOT) || at(p, T_LPAR) || at(p, T_LSQB))
      syntax_error(p, tokens_span(p, p->tok - 1, p->tok), "cannot use anything but a name as import target");
  }
  Node *n = node_at(p, NODE_ALIAS, first);
  n->alias.name = name;
  n->alias.asname = asname;
  return n;
}

/* import_name: 'import' dotted_as_name (',' dotted_as_name)* */
static Node *import_name(Parser *p) {
  const Token *first = advance(p);
  int mark = p->stack.n;
  do {
    const Token *t = p->tok;
    const char *name = dotted_name(p);
    push(p, alias(p, t, name));
  } while (accept(p, T_COMMA));
  if (at(p, T_FROM))
    syntax_error(p, tokens_span(p, first, p->tok), "Did you mean to use 'from ... import ...' instead?");
  NodeList names = list_from(p, mark);
  Node *n = node_at(p, NODE_IMPORT, first);
  n->Import.names = names;
  return n;
}

/* import_from: 'from' ('.' | '...')* dotted_name 'import' import_from_targets
 *            | 'from' ('.' | '...')+ 'import' import_from_targets
 * import_from_targets: '(' import_from_as_names [','] ')' | import_from_as_names !',' | '*' */
static Node *import_from(Parser *p) {
  const Token *first = advance(p);
  int level = 0;
  while (at(p, T_DOT) || at(p, T_ELLIPSIS)) level += advance(p)->kind == T_DOT ? 1 : 3;
  const char *module = level && at(p, T_IMPORT) ? NULL : dotted_name(p);
  parser_expect(p, T_IMPORT);
  int mark = p->stack.n;
  const Token *t = p->tok;
  if (accept(p, T_STAR)) {
    Node *n = node_at(p, NODE_ALIAS, t);
    n->alias.name = intern_z(p->cx, "*");
    push(p, n);
  } else {
    bool brackets = accept(p, T_LPAR);
    p->brackets += brackets;
    if (at(p, T_NEWLINE)) syntax_error(p, next_span(p), "Expected one or more names after 'import'");
    do {
      if (brackets && at(p, T_RPAR) && p->stack.n > mark) break;
      if (at(p, T_NEWLINE) && p->stack.n > mark)
        syntax_error(p, tokens_span(p, p->tok - 1, p->tok - 1),
                     "trailing comma not allowed without surrounding parentheses");
      t = p->tok;
      const char *name = identifier(p);
      push(p, alias(p, t, name));
    } while (accept(p, T_COMMA));
    if (brackets) parser_expect(p, T_RPAR);
    p->brackets -= brackets;
  }
  NodeList names = list_from(p, mark);
  Node *n = node_at(p, NODE_IMPORT_FROM, first);
  n->ImportFrom.module = module;
  n->ImportFrom.names = names;
  n->ImportFrom.level = level;
  return n;
}

/* ---- statements of one keyword
 * --------------------------------------------------------------------------------------------- */

/* return_stmt: 'return' [star_expressions] */
static Node *return_stmt(Parser *p) {
  const Token *first = advance(p);
  Node *value = at(p, T_NEWLINE) || at(p, T_SEMI) ? NULL : star_expressions(p);
  Node *n = node_at(p, NODE_RETURN, first);
  n->Return.value = value;
  return n;
}

/* raise_stmt: 'raise' expression ['from' expression] | 'raise' */
static Node *raise_stmt(Parser *p) {
  const Token *first = advance(p);
  Node *exc = NULL, *cause = NULL;
  if (!at(p, T_NEWLINE) && !at(p, T_SEMI)) {
    exc = expression(p);
    if (accept(p, T_FROM)) cause = expression(p);
  }
  Node *n = node_at(p, NODE_RAISE, first);
  n->Raise.exc = exc;
  n->Raise.cause = cause;
  return n;
}

/* del_stmt:    'del' del_targets &(';' | NEWLINE)
 * del_targets: del_target (',' del_target)* [','] */
static Node *del_stmt(Parser *p) {
  const Token *first = advance(p);
  int mark = p->stack.n;
  do {
    if (p->stack.n > mark && (at(p, T_NEWLINE) || at(p, T_SEMI))) break;
    Node *e = star_expression(p);
    make_target(p, e, DEL_TARGETS);
    push(p, e);
  } while (accept(p, T_COMMA));
  NodeList targets = list_from(p, mark);
  Node *n = node_at(p, NODE_DELETE, first);
  n->Delete.targets = targets;
  return n;
}

/* assert_stmt: 'assert' expression [',' expression] */
static Node *assert_stmt(Parser *p) {
  const Token *first = advance(p);
  Node *test = expression(p);
  Node *msg = accept(p, T_COMMA) ? expression(p) : NULL;
  Node *n = node_at(p, NODE_ASSERT, first);
  n->Assert.test = test;
  n->Assert.msg = msg;
  return n;
}

/* global_stmt: 'global' NAME (',' NAME)*, and 'nonlocal' */
static Node *global_stmt(Parser *p, NodeKind kind) {
  const Token *first = advance(p);
  int mark = p->idents.n;
  do {
    const char *name = identifier(p);
    vec_push(p->arena, &p->idents, name);
  } while (accept(p, T_COMMA));
  Node *n = node_at(p, kind, first);
  n->Global.names.n = p->idents.n - mark; /* Nonlocal is the same struct */
  n->Global.names.at = arena_copy(p->arena, p->idents.at + mark, sizeof(char *) * (size_t)n->Global.names.n);
  p->idents.n = mark;
  return n;
}

/* type_alias: "type" NAME [type_params] '=' expression */
static Node *type_alias(Parser *p) {
  const Token *first = advance(p), *t = p->tok;
  const char *id = identifier(p);
  Node *name = node_at(p, NODE_NAME, t);
  name->Name.id = id;
  name->Name.ctx = CTX_STORE;
  NodeList params = type_params(p);
  parser_expect(p, T_EQUAL);
  Node *value = expression(p);
  Node *n = node_at(p, NODE_TYPE_ALIAS, first);
  n->TypeAlias.name = name;
  n->TypeAlias.type_params = params;
  n->TypeAlias.value = value;
  return n;
}

/* simple_stmt: assignment | star_expressions | return_stmt | import_stmt | raise_stmt | 'pass' | del_stmt | yield_stmt
 * | assert_stmt | 'break' | 'continue' | global_stmt | nonlocal_stmt | type_alias */
static Node *simple_stmt(Parser *p) {
  switch (p->tok->kind) {
    case T_RETURN: return return_stmt(p);
    case T_IMPORT: return import_name(p);
    case T_FROM: return import_from(p);
    case T_RAISE: return raise_stmt(p);
    case T_DEL: return del_stmt(p);
    case T_ASSERT: return assert_stmt(p);
    case T_GLOBAL: return global_stmt(p, NODE_GLOBAL);
    case T_NONLOCAL: return global_stmt(p, NODE_NONLOCAL);
    case T_PASS: return node_at(p, NODE_PASS, advance(p));
    case T_BREAK: return node_at(p, NODE_BREAK, advance(p));
    case T_CONTINUE: return node_at(p, NODE_CONTINUE, advance(p));
    case T_NAME:
      if (peek(p, 1) == T_NAME && at_word(p, p->type)) return type_alias(p);
      return assignment_or_expression(p);
    default: return assignment_or_expression(p);
  }
}

/* simple_stmts: simple_stmt (';' simple_stmt)* [';'] NEWLINE */
void simple_stmts(Parser *p) {
  do {
    if (at(p, T_NEWLINE) && p->tok > p->tokens.at && p->tok[-1].kind == T_SEMI) break;
    push(p, simple_stmt(p));
    check_shape(p);
  } while (accept(p, T_SEMI));
  parser_expect(p, T_NEWLINE);
}
