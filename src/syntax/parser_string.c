/* Strings: literals side by side become one; f-strings become JoinedStr.
 *
 * A JoinedStr's values are stretches of text and replacement fields in turn: text that touches, from one literal or two
 * ("a" f"b{x}"), is one Constant, which spans from the first piece to the last; empty text is left out. */
#include "syntax/parser.h"

/* The stretches of text that may yet grow. */
typedef struct Pieces {
  VEC(ConstValue) text;
  Span span;     /* from the first to the last */
  bool u_prefix; /* of the first */
} Pieces;

static void add_text(Parser *p, Pieces *pieces, ConstValue text, Span span, bool u_prefix) {
  if (!pieces->text.n) {
    pieces->span = span;
    pieces->u_prefix = u_prefix;
  }
  pieces->span.end_line = span.end_line;
  pieces->span.end_col = span.end_col;
  vec_push(p->arena, &pieces->text, text);
}

/* The pieces as one Constant, which holds their bytes in order; none are left. */
static Node *take_text(Parser *p, Pieces *pieces, const Token *first) {
  ConstValue v = pieces->text.at[0];
  if (pieces->text.n > 1) {
    v.size = 0;
    for (int i = 0; i < pieces->text.n; i++) v.size += pieces->text.at[i].size;
    char *all = arena_alloc(p->arena, v.size + 1), *to = all;
    for (int i = 0; i < pieces->text.n; i++) {
      memcpy(to, pieces->text.at[i].text, pieces->text.at[i].size);
      to += pieces->text.at[i].size;
    }
    v.text = all;
  }
  Node *n = node_at(p, NODE_CONSTANT, first);
  n->span = pieces->span;
  n->Constant.value = v;
  n->Constant.u_prefix = pieces->u_prefix;
  pieces->text.n = 0;
  return n;
}

/* Pushes the text so far, if there is any. */
static void flush(Parser *p, Pieces *pieces) {
  bool empty = true;
  for (int i = 0; i < pieces->text.n; i++) empty &= pieces->text.at[i].size == 0;
  if (!empty) push(p, take_text(p, pieces, p->tok));
  pieces->text.n = 0;
}

static void fstring_parts(Parser *p, Pieces *pieces);

/* Not syntax_error: here the lexer's error on this line is most often that it took the closing quote for an opening
 * one. */
static NORETURN void field_error(Parser *p, const char *what) {
  if (at(p, T_ERROR)) parser_unexpected(p);
  diag_fail(diag_as(p->cx, ERROR_SYNTAX), next_span(p), "f-string: %s", what);
}

/* The expression of a field. */
static Node *field_expression(Parser *p) {
  switch (p->tok->kind) {
    case T_RBRACE:
    case T_EXCLAMATION:
    case T_COLON:
    case T_EQUAL: {
      char what[64];
      snprintf(what, sizeof what, "valid expression required before '%s'", token_text(p->tok->kind));
      field_error(p, what);
    }
    case T_LAMBDA:
      field_error(p, "lambda expressions are not allowed without parentheses"); /* its ":" starts a format */
    case T_YIELD: return yield_expr(p);
    default:
      if (!starts_expression(p->tok->kind) && !at(p, T_STAR)) field_error(p, "expecting a valid expression after '{'");
      return star_expressions(p);
  }
}

/* The text of "x = " in f"{x = }": everything between "{" and the token after "=", without comments: those are the "#"
 * that lie in no token. */
static ConstValue debug_text(Parser *p, const Token *open) {
  const char *s = p->src->text;
  uint32_t from = open->end, to = p->tok->start;
  char *out = arena_alloc(p->arena, to - from + 1);
  size_t n = 0;
  const Token *t = open;
  for (uint32_t i = from; i < to; i++) {
    while (t->end <= i) t++;
    if (s[i] == '#' && i < t->start) {
      while (i + 1 < to && s[i + 1] != '\n' && s[i + 1] != '\r') i++;
      continue;
    }
    if (s[i] == '\r') { /* as in any string, a line's end is "\n" */
      if (s[i + 1] != '\n') out[n++] = '\n';
      continue;
    }
    out[n++] = s[i];
  }
  return (ConstValue){.kind = CONST_STR, .text = out, .size = n};
}

/* fstring_replacement_field: '{' (yield_expr | star_expressions) ['='] ['!' NAME] [':' fstring_format_spec*] '}' */
static void replacement_field(Parser *p, Pieces *pieces) {
  const Token *open = parser_expect(p, T_LBRACE);
  p->brackets++;
  Node *value = field_expression(p);
  bool debug = accept(p, T_EQUAL);
  if (debug) {
    ConstValue text = debug_text(p, open);
    Span span = tokens_span(p, open, p->tok);
    span.col++;
    span.end_line = (int)p->tok->line;
    span.end_col = (int)(p->tok->start - p->src->line_start[p->tok->line - 1]);
    add_text(p, pieces, text, span, false);
  }
  int conversion = -1;
  if (at(p, T_EXCLAMATION)) {
    const Token *mark = advance(p);
    if (at(p, T_RBRACE) || at(p, T_COLON)) field_error(p, "missing conversion character");
    if (!at(p, T_NAME)) field_error(p, "invalid conversion character");
    const Token *t = advance(p);
    if (t->start != mark->end)
      syntax_error(p, tokens_span(p, mark, t), "f-string: conversion type must come right after the exclamation mark");
    char c = p->src->text[t->start];
    if (t->end - t->start != 1 || (c != 's' && c != 'r' && c != 'a'))
      syntax_error(p, token_span(p->src, t), "f-string: invalid conversion character '%.*s': expected 's', 'r', or 'a'",
                   (int)(t->end - t->start), p->src->text + t->start);
    conversion = c;
  }
  flush(p, pieces);
  Node *format = NULL;
  if (at(p, T_COLON)) {
    const Token *colon = advance(p);
    int mark = p->stack.n;
    Pieces inner = {0};
    fstring_parts(p, &inner);
    flush(p, &inner);
    NodeList values = list_from(p, mark);
    format = node_at(p, NODE_JOINED_STR, colon);
    format->JoinedStr.values = values;
  }
  if (debug && conversion < 0 && !format) conversion = 'r';
  if (!at(p, T_RBRACE)) {
    if (starts_expression(p->tok->kind) && ends_operand(p->tok - 1)) parser_unexpected(p); /* perhaps a comma */
    field_error(p, debug || conversion >= 0 || format ? "expecting '}'" : "expecting '=', or '!', or ':', or '}'");
  }
  advance(p);
  p->brackets--;
  Node *n = node_at(p, NODE_FORMATTED_VALUE, open);
  n->FormattedValue.value = value;
  n->FormattedValue.conversion = conversion;
  n->FormattedValue.format_spec = format;
  push(p, n);
}

/* fstring_middle*: fstring_replacement_field | FSTRING_MIDDLE */
static void fstring_parts(Parser *p, Pieces *pieces) {
  for (;;) {
    if (at(p, T_FSTRING_MIDDLE)) {
      const Token *t = advance(p);
      Span span = token_span(p->src, t);
      span.end_col += t->doubled;
      add_text(p, pieces, fstring_text(p->cx, p->src, t), span, false);
    } else if (at(p, T_LBRACE)) replacement_field(p, pieces);
    else return;
  }
}

/* strings: (fstring | STRING)+
 * fstring: FSTRING_START fstring_middle* FSTRING_END */
Node *parse_strings(Parser *p) {
  const Token *first = p->tok;
  Pieces pieces = {0};
  int mark = p->stack.n;
  bool any_f = false, any_bytes = false, any_text = false;
  while (at(p, T_STRING) || at(p, T_FSTRING_START)) {
    if (at(p, T_STRING)) {
      bool u_prefix;
      const Token *t = advance(p);
      ConstValue v = string_value(p->cx, p->src, t, &u_prefix);
      *(v.kind == CONST_BYTES ? &any_bytes : &any_text) = true;
      add_text(p, &pieces, v, token_span(p->src, t), u_prefix);
    } else {
      any_f = any_text = true;
      advance(p);
      fstring_parts(p, &pieces);
      if (!at(p, T_FSTRING_END)) parser_unexpected(p);
      advance(p);
    }
    if (any_bytes && any_text)
      syntax_error(p, tokens_span(p, first, p->tok - 1), "cannot mix bytes and nonbytes literals");
  }
  if (!any_f) return take_text(p, &pieces, first);
  flush(p, &pieces);
  NodeList values = list_from(p, mark);
  Node *n = node_at(p, NODE_JOINED_STR, first);
  n->JoinedStr.values = values;
  return n;
}
