/* The match statement and its patterns (PEP 634).
 *
 * `match` and `case` are ordinary names elsewhere, so whether a line starts a match statement is found by looking at
 * its last token: only a compound statement's head ends in ':'. */
#include "syntax/parser.h"

static Node *patterns(Parser *p);
static Node *pattern(Parser *p);

/* At NAME: does "match" subject ':' start here? */
bool at_match_stmt(Parser *p) {
  if (!at_word(p, p->match)) return false;
  TokenKind next = peek(p, 1);
  if (!starts_expression(next) && next != T_STAR) return false;            /* match = 1, match.group() */
  if (next == T_NAME || next == T_NUMBER || next == T_STRING) return true; /* two operands: nothing else it could be */
  const Token *t = p->tok;
  while (t->kind != T_NEWLINE && t->kind != T_END && t->kind != T_ERROR && t->kind != T_SEMI) t++;
  return t->kind == T_NEWLINE && t[-1].kind == T_COLON;
}

/* subject_expr: star_named_expression ',' [star_named_expressions] | named_expression */
static Node *subject_expr(Parser *p) {
  const Token *first = p->tok;
  Node *one = star_named_expression(p);
  if (!at(p, T_COMMA)) {
    if (one->kind == NODE_STARRED) syntax_error(p, one->span, "cannot use starred expression here");
    return one;
  }
  int mark = p->stack.n;
  push(p, one);
  while (accept(p, T_COMMA) && !at(p, T_COLON)) push(p, star_named_expression(p));
  NodeList elts = list_from(p, mark);
  Node *n = node_at(p, NODE_TUPLE, first);
  n->Tuple.elts = elts;
  return n;
}

/* case_block: "case" patterns ['if' named_expression] ':' block */
static Node *case_block(Parser *p) {
  const Token *first = advance(p);
  Node *what = patterns(p), *guard = accept(p, T_IF) ? named_expression(p) : NULL;
  expect_colon(p);
  NodeList body = parse_block(p, first, "'case' statement");
  Node *n = node_at(p, NODE_MATCH_CASE, first);
  n->match_case.pattern = what;
  n->match_case.guard = guard;
  n->match_case.body = body;
  return n;
}

/* match_stmt: "match" subject_expr ':' NEWLINE INDENT case_block+ DEDENT */
Node *match_stmt(Parser *p) {
  const Token *first = advance(p);
  Node *subject = subject_expr(p);
  expect_colon(p);
  check_shape(p);
  parser_expect(p, T_NEWLINE);
  if (!accept(p, T_INDENT)) {
    if (at(p, T_ERROR)) parser_unexpected(p);
    diag_fail(diag_as(p->cx, ERROR_SYNTAX), next_span(p),
              "expected an indented block after 'match' statement on line %u", first->line);
  }
  int mark = p->stack.n;
  while (at_word(p, p->case_)) push(p, case_block(p));
  if (p->stack.n == mark || !at(p, T_DEDENT)) {
    if (at(p, T_ERROR) || at(p, T_INDENT)) parser_unexpected(p);
    syntax_error(p, next_span(p), "expected 'case' in a 'match' statement");
  }
  advance(p);
  NodeList cases = list_from(p, mark);
  Node *n = node_at(p, NODE_MATCH, first);
  n->Match.subject = subject;
  n->Match.cases = cases;
  return n;
}

/* ---- literals, names --------------------------------------------------------------------------------------------- */

static bool is_number(const Node *n, bool imaginary) {
  return n->kind == NODE_CONSTANT &&
         (n->Constant.value.kind == CONST_IMAGINARY
              ? imaginary
              : !imaginary && (n->Constant.value.kind == CONST_INT || n->Constant.value.kind == CONST_FLOAT));
}

/* signed_number:  NUMBER | '-' NUMBER
 * complex_number: signed_real_number ('+' | '-') imaginary_number */
static Node *signed_or_complex_number(Parser *p) {
  const Token *first = p->tok;
  bool minus = accept(p, T_MINUS);
  if (!at(p, T_NUMBER)) parser_unexpected(p);
  Node *left = parse_number(p);
  bool real = is_number(left, false);
  if (minus) {
    Node *n = node_at(p, NODE_UNARY_OP, first);
    n->UnaryOp.op = PYOP_U_SUB;
    n->UnaryOp.operand = left;
    left = n;
  }
  if (!at(p, T_PLUS) && !at(p, T_MINUS)) return left;
  if (!real) syntax_error(p, left->span, "real number required in complex literal");
  PyOp op = advance(p)->kind == T_PLUS ? PYOP_ADD : PYOP_SUB;
  if (!at(p, T_NUMBER)) parser_unexpected(p);
  Node *right = parse_number(p);
  if (!is_number(right, true)) syntax_error(p, right->span, "imaginary number required in complex literal");
  Node *n = node_at(p, NODE_BIN_OP, first);
  n->BinOp.left = left;
  n->BinOp.op = op;
  n->BinOp.right = right;
  return n;
}

static Node *match_value(Parser *p, const Token *first, Node *value) {
  Node *n = node_at(p, NODE_MATCH_VALUE, first);
  n->MatchValue.value = value;
  return n;
}

/* name_or_attr: NAME ('.' NAME)* */
static Node *name_or_attr(Parser *p) {
  const Token *first = p->tok;
  const char *id = identifier(p);
  Node *left = node_at(p, NODE_NAME, first);
  left->Name.id = id;
  for (; accept(p, T_DOT); p->links++) {
    const char *attr = identifier(p);
    Node *n = node_at(p, NODE_ATTRIBUTE, first);
    n->Attribute.value = left;
    n->Attribute.attr = attr;
    left = n;
  }
  return left;
}

/* pattern_capture_target: !"_" NAME !('.' | '(' | '=') */
static const char *capture_target(Parser *p) {
  if (!at(p, T_NAME)) parser_unexpected(p);
  if (at_word(p, p->underscore)) syntax_error(p, next_span(p), "cannot use '_' as a target");
  return identifier(p);
}

/* ---- sequences, mappings, classes
 * ------------------------------------------------------------------------------------- */

/* maybe_star_pattern: '*' (pattern_capture_target | "_") | pattern */
static Node *maybe_star_pattern(Parser *p) {
  if (!at(p, T_STAR)) return pattern(p);
  const Token *first = advance(p);
  const char *name = identifier(p);
  Node *n = node_at(p, NODE_MATCH_STAR, first);
  n->MatchStar.name = name == p->underscore ? NULL : name;
  return n;
}

/* maybe_star_pattern (',' maybe_star_pattern)* [','] up to `close`, the first having been parsed or NULL */
static NodeList pattern_list(Parser *p, Node *one, TokenKind close) {
  int mark = p->stack.n;
  if (one) push(p, one);
  while ((one ? accept(p, T_COMMA) : true) && !at(p, close)) {
    one = maybe_star_pattern(p);
    push(p, one);
  }
  return list_from(p, mark);
}

static Node *sequence(Parser *p, const Token *first, NodeList items) {
  Node *n = node_at(p, NODE_MATCH_SEQUENCE, first);
  n->MatchSequence.patterns = items;
  return n;
}

/* group_pattern:    '(' pattern ')'
 * sequence_pattern: '[' [maybe_sequence_pattern] ']' | '(' [open_sequence_pattern] ')' */
static Node *bracket_pattern(Parser *p) {
  const Token *first = advance(p);
  TokenKind close = first->kind == T_LPAR ? T_RPAR : T_RSQB;
  p->brackets++;
  Node *one = NULL;
  if (close == T_RPAR && !at(p, close)) {
    one = maybe_star_pattern(p);
    if (!at(p, T_COMMA)) {
      if (one->kind == NODE_MATCH_STAR) {
        if (at(p, close)) syntax_error(p, one->span, "a starred pattern needs a comma after it, or square brackets");
        parser_unexpected(p);
      }
      parser_expect(p, close);
      p->brackets--;
      return one;
    }
  }
  NodeList items = pattern_list(p, one, close);
  parser_expect(p, close);
  p->brackets--;
  return sequence(p, first, items);
}

/* mapping_pattern:   '{' [items_pattern [',' double_star_pattern] [',']] '}' | '{' double_star_pattern [','] '}'
 * key_value_pattern: (literal_expr | attr) ':' pattern */
static Node *mapping_pattern(Parser *p) {
  const Token *first = advance(p);
  p->brackets++;
  int mark = p->stack.n;
  const char *rest = NULL;
  while (!at(p, T_RBRACE)) {
    if (rest) syntax_error(p, next_span(p), "double star pattern '**%s' must be the last in a mapping pattern", rest);
    if (accept(p, T_DOUBLE_STAR)) rest = capture_target(p);
    else {
      const Token *t = p->tok;
      Node *key;
      switch (t->kind) {
        case T_NAME:
          key = name_or_attr(p);
          if (key->kind == NODE_NAME)
            syntax_error(p, key->span, "mapping pattern keys may only match literals and attribute lookups");
          break;
        case T_NUMBER:
        case T_MINUS: key = signed_or_complex_number(p); break;
        case T_STRING:
        case T_NONE:
        case T_TRUE:
        case T_FALSE: key = parse_atom(p); break;
        case T_FSTRING_START: syntax_error(p, next_span(p), "patterns may only match literals and attribute lookups");
        default: parser_unexpected(p);
      }
      parser_expect(p, T_COLON);
      push(p, key);
      push(p, pattern(p));
    }
    if (!accept(p, T_COMMA)) break;
  }
  parser_expect(p, T_RBRACE);
  p->brackets--;
  NodeList both = list_from(p, mark);
  Node *n = node_at(p, NODE_MATCH_MAPPING, first);
  n->MatchMapping.keys = (NodeList){NEW_N(p->arena, Node *, both.n / 2), both.n / 2};
  n->MatchMapping.patterns = (NodeList){NEW_N(p->arena, Node *, both.n / 2), both.n / 2};
  for (int i = 0; i < both.n; i++) (i % 2 ? n->MatchMapping.patterns : n->MatchMapping.keys).at[i / 2] = both.at[i];
  n->MatchMapping.rest = rest;
  return n;
}

/* class_pattern: name_or_attr '(' [positional_patterns] [','] [keyword_patterns] [','] ')' */
static Node *class_pattern(Parser *p, const Token *first, Node *cls) {
  advance(p);
  p->brackets++;
  int mark = p->stack.n, names_mark = p->idents.n, positional = 0;
  while (!at(p, T_RPAR)) {
    if (at(p, T_NAME) && peek(p, 1) == T_EQUAL) {
      const char *name = identifier(p);
      vec_push(p->arena, &p->idents, name);
      advance(p);
      push(p, pattern(p));
    } else {
      Node *one = pattern(p);
      if (p->idents.n > names_mark) syntax_error(p, one->span, "positional patterns follow keyword patterns");
      push(p, one);
      positional++;
    }
    if (!accept(p, T_COMMA)) break;
  }
  parser_expect(p, T_RPAR);
  p->brackets--;
  NodeList keyword = list_from(p, mark + positional), plain = list_from(p, mark);
  IdentList names = {.n = p->idents.n - names_mark};
  if (names.n) names.at = arena_copy(p->arena, p->idents.at + names_mark, sizeof(char *) * (size_t)names.n);
  p->idents.n = names_mark;
  Node *n = node_at(p, NODE_MATCH_CLASS, first);
  n->MatchClass.cls = cls;
  n->MatchClass.patterns = plain;
  n->MatchClass.kwd_attrs = names;
  n->MatchClass.kwd_patterns = keyword;
  return n;
}

/* ---- patterns
 * -------------------------------------------------------------------------------------------------------------- */

/* closed_pattern: literal_pattern | capture_pattern | wildcard_pattern | value_pattern | group_pattern |
 * sequence_pattern | mapping_pattern | class_pattern */
static Node *closed_pattern(Parser *p) {
  const Token *first = p->tok;
  switch (first->kind) {
    case T_NAME: {
      if (at_word(p, p->underscore)) { /* not the head of _.a or _(a) either */
        advance(p);
        return node_at(p, NODE_MATCH_AS, first);
      }
      Node *name = name_or_attr(p);
      if (at(p, T_LPAR)) return class_pattern(p, first, name);
      if (name->kind == NODE_ATTRIBUTE) return match_value(p, first, name);
      Node *n = node_at(p, NODE_MATCH_AS, first);
      n->MatchAs.name = name->Name.id;
      return n;
    }
    case T_NUMBER:
    case T_MINUS: return match_value(p, first, signed_or_complex_number(p));
    case T_STRING:
    case T_FSTRING_START: {
      Node *value = parse_strings(p);
      if (value->kind != NODE_CONSTANT)
        syntax_error(p, value->span, "patterns may only match literals and attribute lookups");
      return match_value(p, first, value);
    }
    case T_NONE:
    case T_TRUE:
    case T_FALSE: {
      advance(p);
      Node *n = node_at(p, NODE_MATCH_SINGLETON, first);
      n->MatchSingleton.value = first->kind == T_NONE ? CONST_NONE : first->kind == T_TRUE ? CONST_TRUE : CONST_FALSE;
      return n;
    }
    case T_LPAR:
    case T_LSQB: return bracket_pattern(p);
    case T_LBRACE: return mapping_pattern(p);
    default: parser_unexpected(p);
  }
}

/* or_pattern: closed_pattern ('|' closed_pattern)* */
static Node *or_pattern(Parser *p) {
  const Token *first = p->tok;
  Node *one = closed_pattern(p);
  if (!at(p, T_VBAR)) return one;
  int mark = p->stack.n;
  push(p, one);
  while (accept(p, T_VBAR)) push(p, closed_pattern(p));
  NodeList all = list_from(p, mark);
  Node *n = node_at(p, NODE_MATCH_OR, first);
  n->MatchOr.patterns = all;
  return n;
}

/* pattern:    as_pattern | or_pattern
 * as_pattern: or_pattern 'as' pattern_capture_target */
static Node *pattern(Parser *p) {
  const Token *first = p->tok;
  parser_enter(p);
  Node *left = or_pattern(p);
  leave(p);
  if (!accept(p, T_AS)) return left;
  if (!at(p, T_NAME) || peek(p, 1) == T_DOT || peek(p, 1) == T_LPAR)
    syntax_error(p, next_span(p), "invalid pattern target");
  const char *name = capture_target(p);
  Node *n = node_at(p, NODE_MATCH_AS, first);
  n->MatchAs.pattern = left;
  n->MatchAs.name = name;
  return n;
}

/* patterns: open_sequence_pattern | pattern
 * open_sequence_pattern: maybe_star_pattern ',' [maybe_star_pattern (',' maybe_star_pattern)* [',']] */
static Node *patterns(Parser *p) {
  const Token *first = p->tok;
  Node *one = maybe_star_pattern(p);
  if (!at(p, T_COMMA)) {
    if (one->kind == NODE_MATCH_STAR) parser_unexpected(p);
    return one;
  }
  int mark = p->stack.n;
  push(p, one);
  while (accept(p, T_COMMA) && !at(p, T_COLON) && !at(p, T_IF)) push(p, maybe_star_pattern(p));
  return sequence(p, first, list_from(p, mark));
}
