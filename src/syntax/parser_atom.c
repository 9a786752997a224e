/* Atoms: names, literals, and what stands in brackets: groups, tuples, lists, sets, dicts, and their comprehensions. */
#include "syntax/parser.h"

static Node *constant(Parser *p, ConstKind k) {
  const Token *t = advance(p);
  Node *n = node_at(p, NODE_CONSTANT, t);
  n->Constant.value.kind = k;
  return n;
}

Node *parse_number(Parser *p) {
  const Token *t = parser_expect(p, T_NUMBER);
  Node *n = node_at(p, NODE_CONSTANT, t);
  n->Constant.value = number_value(p->cx, p->src, t);
  return n;
}

/* ---- comprehensions ---------------------------------------------------------------------------------------------- */

static bool at_for(const Parser *p) { return at(p, T_FOR) || (at(p, T_ASYNC) && peek(p, 1) == T_FOR); }

/* for_if_clauses: for_if_clause+
 * for_if_clause:  ['async'] 'for' star_targets 'in' disjunction ('if' disjunction)* */
static NodeList for_if_clauses(Parser *p) {
  int mark = p->stack.n;
  while (at_for(p)) {
    const Token *first = p->tok;
    int is_async = accept(p, T_ASYNC);
    advance(p);
    Node *target = star_targets(p);
    if (!accept(p, T_IN)) {
      if (at(p, T_RPAR) || at(p, T_RSQB) || at(p, T_RBRACE))
        syntax_error(p, next_span(p), "'in' expected after for-loop variables");
      parser_unexpected(p);
    }
    Node *iter = disjunction(p);
    int ifs_mark = p->stack.n;
    while (accept(p, T_IF)) push(p, disjunction(p));
    NodeList ifs = list_from(p, ifs_mark);
    Node *n = node_at(p, NODE_COMPREHENSION, first);
    n->comprehension.target = target;
    n->comprehension.iter = iter;
    n->comprehension.ifs = ifs;
    n->comprehension.is_async = is_async;
    push(p, n);
  }
  return list_from(p, mark);
}

static void no_unpacking(Parser *p, const Node *element) {
  if (element->kind == NODE_STARRED)
    syntax_error(p, element->span, "iterable unpacking cannot be used in comprehension");
}

/* genexp: '(' (assignment_expression | expression !':=') for_if_clauses ')'
 * The element has been parsed; the ")" is left, but lies within the node's place. */
Node *genexp_after(Parser *p, Node *element, const Token *open) {
  no_unpacking(p, element);
  NodeList generators = for_if_clauses(p);
  Node *n = node_at(p, NODE_GENERATOR_EXP, open);
  n->GeneratorExp.elt = element;
  n->GeneratorExp.generators = generators;
  if (at(p, T_RPAR)) {
    advance(p);
    end_here(p, n);
    p->tok--;
  }
  return n;
}

/* ---- ( ) [ ]
 * ----------------------------------------------------------------------------------------------------------- */

/* star_named_expression (',' star_named_expression)* [','], the first having been parsed; up to `close`. */
static NodeList elements(Parser *p, Node *first, TokenKind close) {
  int mark = p->stack.n;
  push(p, first);
  while (accept(p, T_COMMA) && !at(p, close)) push(p, star_named_expression(p));
  return list_from(p, mark);
}

/* [a, b for a, b in c]: the target's brackets were forgotten */
static void parenthesize_target(Parser *p, const NodeList *elts) {
  if (at_for(p) && elts->n > 1)
    syntax_error(p, span_between(elts->at[0], elts->at[elts->n - 1]),
                 "did you forget parentheses around the comprehension target?");
}

static void close_bracket(Parser *p, TokenKind close) {
  parser_expect(p, close);
  p->brackets--;
}

/* tuple:  '(' [star_named_expression ',' [star_named_expressions]] ')'
 * group:  '(' (yield_expr | named_expression) ')'
 * genexp: above */
static Node *parenthesized(Parser *p) {
  const Token *open = advance(p);
  p->brackets++;
  Node *n;
  if (at(p, T_RPAR)) {
    close_bracket(p, T_RPAR);
    return node_at(p, NODE_TUPLE, open);
  }
  if (at(p, T_YIELD)) {
    n = yield_expr(p);
    close_bracket(p, T_RPAR);
    return n;
  }
  if (at(p, T_DOUBLE_STAR)) syntax_error(p, next_span(p), "cannot use double starred expression here");
  Node *one = star_named_expression(p);
  if (at_for(p)) {
    n = genexp_after(p, one, open);
    close_bracket(p, T_RPAR);
    return n;
  }
  if (!at(p, T_COMMA)) {
    if (one->kind == NODE_STARRED && at(p, T_RPAR)) syntax_error(p, one->span, "cannot use starred expression here");
    close_bracket(p, T_RPAR);
    return one;
  }
  NodeList elts = elements(p, one, T_RPAR);
  parenthesize_target(p, &elts);
  close_bracket(p, T_RPAR);
  n = node_at(p, NODE_TUPLE, open);
  n->Tuple.elts = elts;
  return n;
}

/* list:     '[' [star_named_expressions] ']'
 * listcomp: '[' named_expression for_if_clauses ']' */
static Node *list(Parser *p) {
  const Token *open = advance(p);
  p->brackets++;
  Node *n;
  if (at(p, T_RSQB)) {
    close_bracket(p, T_RSQB);
    return node_at(p, NODE_LIST, open);
  }
  Node *one = star_named_expression(p);
  if (at_for(p)) {
    no_unpacking(p, one);
    NodeList generators = for_if_clauses(p);
    close_bracket(p, T_RSQB);
    n = node_at(p, NODE_LIST_COMP, open);
    n->ListComp.elt = one;
    n->ListComp.generators = generators;
    return n;
  }
  NodeList elts = elements(p, one, T_RSQB);
  parenthesize_target(p, &elts);
  close_bracket(p, T_RSQB);
  n = node_at(p, NODE_LIST, open);
  n->List.elts = elts;
  return n;
}

/* ---- { }
 * ----------------------------------------------------------------------------------------------------------------- */

/* After the ":" of a pair. */
static Node *dict_value(Parser *p) {
  if (at(p, T_RBRACE) || at(p, T_COMMA))
    syntax_error(p, tokens_span(p, p->tok - 1, p->tok - 1), "expression expected after dictionary key and ':'");
  if (at(p, T_STAR)) syntax_error(p, next_span(p), "cannot use a starred expression in a dictionary value");
  return expression(p);
}

/* dict:     '{' [double_starred_kvpair (',' double_starred_kvpair)* [',']] '}'
 * dictcomp: '{' kvpair for_if_clauses '}'
 * kvpair:   expression ':' expression
 * double_starred_kvpair: '**' bitwise_or | kvpair
 * The first key has been parsed unless the first item is a '**'. Keys and values wait on the stack in turn. */
static Node *dict(Parser *p, const Token *open, Node *first_key) {
  int mark = p->stack.n;
  Node *n;
  for (Node *key = first_key;; key = NULL) {
    if (!key && at(p, T_DOUBLE_STAR)) {
      const Token *stars = advance(p);
      push(p, NULL);
      push(p, bitwise_or(p));
      if (at_for(p))
        syntax_error(p, tokens_span(p, stars, stars), "dict unpacking cannot be used in dict comprehension");
    } else {
      if (!key) key = expression(p);
      push(p, key);
      if (!at(p, T_COLON)) {
        if (at(p, T_RBRACE) || at(p, T_COMMA))
          syntax_error(p, tokens_span(p, p->tok - 1, p->tok - 1), "':' expected after dictionary key");
        parser_unexpected(p);
      }
      advance(p);
      push(p, dict_value(p));
      if (p->stack.n == mark + 2 && at_for(p)) {
        Node *value = p->stack.at[mark + 1];
        p->stack.n = mark;
        NodeList generators = for_if_clauses(p);
        close_bracket(p, T_RBRACE);
        n = node_at(p, NODE_DICT_COMP, open);
        n->DictComp.key = key;
        n->DictComp.value = value;
        n->DictComp.generators = generators;
        return n;
      }
    }
    if (!accept(p, T_COMMA) || at(p, T_RBRACE)) break;
  }
  close_bracket(p, T_RBRACE);
  NodeList both = list_from(p, mark);
  n = node_at(p, NODE_DICT, open);
  n->Dict.keys = (NodeList){NEW_N(p->arena, Node *, both.n / 2), both.n / 2};
  n->Dict.values = (NodeList){NEW_N(p->arena, Node *, both.n / 2), both.n / 2};
  for (int i = 0; i < both.n; i++) (i % 2 ? n->Dict.values : n->Dict.keys).at[i / 2] = both.at[i];
  return n;
}

/* set:     '{' star_named_expressions '}'
 * setcomp: '{' named_expression for_if_clauses '}'
 * and dicts */
static Node *braces(Parser *p) {
  const Token *open = advance(p);
  p->brackets++;
  Node *n;
  if (at(p, T_RBRACE)) {
    close_bracket(p, T_RBRACE);
    return node_at(p, NODE_DICT, open);
  }
  if (at(p, T_DOUBLE_STAR)) return dict(p, open, NULL);
  bool walrus = at(p, T_NAME) && peek(p, 1) == T_COLON_EQUAL;
  Node *one = star_named_expression(p);
  if (at(p, T_COLON) && one->kind != NODE_STARRED && !walrus) return dict(p, open, one);
  if (at_for(p)) {
    no_unpacking(p, one);
    NodeList generators = for_if_clauses(p);
    close_bracket(p, T_RBRACE);
    n = node_at(p, NODE_SET_COMP, open);
    n->SetComp.elt = one;
    n->SetComp.generators = generators;
    return n;
  }
  NodeList elts = elements(p, one, T_RBRACE);
  parenthesize_target(p, &elts);
  close_bracket(p, T_RBRACE);
  n = node_at(p, NODE_SET, open);
  n->Set.elts = elts;
  return n;
}

/* ---- atom
 * ----------------------------------------------------------------------------------------------------------------- */

/* atom: NAME | 'True' | 'False' | 'None' | strings | NUMBER | tuple | group | genexp | list | listcomp | dict | set |
 *       dictcomp | setcomp | '...' */
Node *parse_atom(Parser *p) {
  switch (p->tok->kind) {
    case T_NAME: {
      const Token *t = advance(p);
      Node *n = node_at(p, NODE_NAME, t);
      n->Name.id = name_of(p, t);
      return n;
    }
    case T_NUMBER: return parse_number(p);
    case T_STRING:
    case T_FSTRING_START: return parse_strings(p);
    case T_LPAR: return parenthesized(p);
    case T_LSQB: return list(p);
    case T_LBRACE: return braces(p);
    case T_NONE: return constant(p, CONST_NONE);
    case T_TRUE: return constant(p, CONST_TRUE);
    case T_FALSE: return constant(p, CONST_FALSE);
    case T_ELLIPSIS: return constant(p, CONST_ELLIPSIS);
    default: parser_unexpected(p);
  }
}
