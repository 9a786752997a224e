/* The parser's entries, and what every rule uses: tokens, nodes, lists, messages.
 *
 * Messages follow CPython's where CPython has one for the case, since people know them and search for them. When both
 * lexer and parser have something to say, the lexer speaks if its error is on the same line (it is the likelier cause)
 * or is an open bracket above: a bracket left open makes the lines below it look wrong, not itself. */
#include "syntax/parser.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static bool lexer_first(const Parser *p, Span span) {
  const LexError *e = &p->tokens.error;
  if (p->tok->kind == T_ERROR) return true;
  if (p->tokens.at[p->tokens.n - 1].kind != T_ERROR) return false;
  if (e->unclosed) return span.line > e->span.line || p->tok[1].kind == T_ERROR;
  return span.line == e->span.line;
}

void syntax_error(Parser *p, Span span, const char *format, ...) {
  if (lexer_first(p, span)) fail_lex(p->cx, &p->tokens.error);
  va_list ap;
  va_start(ap, format);
  char text[512];
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  diag_fail(diag_as(p->cx, ERROR_SYNTAX), span, "%s", text);
}

bool ends_operand(const Token *t) {
  switch (t->kind) {
    case T_NAME:
    case T_NUMBER:
    case T_STRING:
    case T_FSTRING_END:
    case T_RPAR:
    case T_RSQB:
    case T_RBRACE:
    case T_NONE:
    case T_TRUE:
    case T_FALSE:
    case T_ELLIPSIS: return true;
  }
  return false;
}

bool starts_expression(TokenKind k) {
  switch (k) {
    case T_NAME:
    case T_NUMBER:
    case T_STRING:
    case T_FSTRING_START:
    case T_LPAR:
    case T_LSQB:
    case T_LBRACE:
    case T_NONE:
    case T_TRUE:
    case T_FALSE:
    case T_ELLIPSIS:
    case T_MINUS:
    case T_PLUS:
    case T_TILDE:
    case T_NOT:
    case T_LAMBDA:
    case T_AWAIT: return true;
    default: return false;
  }
}

void parser_unexpected(Parser *p) {
  const Token *t = p->tok;
  Span span = next_span(p);
  if (t->kind == T_INDENT) diag_fail(diag_as(p->cx, ERROR_SYNTAX), span, "unexpected indent");
  if (lexer_first(p, span)) fail_lex(p->cx, &p->tokens.error);
  if (t->kind == T_DEDENT) diag_fail(diag_as(p->cx, ERROR_SYNTAX), span, "unexpected unindent");
  const Token *before = t > p->tokens.at ? t - 1 : NULL;
  if (before && p->brackets && ends_operand(before) && starts_expression(t->kind) &&
      !(before->kind == T_NAME && before[-1].kind != T_DOT &&
        (t->kind == T_STRING || t->kind == T_FSTRING_START))) /* kf"..." */
    diag_fail(diag_as(p->cx, ERROR_SYNTAX), tokens_span(p, before, t), "invalid syntax. Perhaps you forgot a comma?");
  if (t->kind == T_NEWLINE || t->kind == T_END)
    diag_fail(diag_as(p->cx, ERROR_SYNTAX), span, "invalid syntax: the line ends too early");
  if (t->kind == T_NUMBER || t->kind == T_NAME || t->kind == T_STRING)
    diag_fail(diag_as(p->cx, ERROR_SYNTAX), span, "invalid syntax: a %s cannot stand here", token_text(t->kind));
  diag_fail(diag_as(p->cx, ERROR_SYNTAX), span, "invalid syntax: '%s' cannot stand here", token_text(t->kind));
}

Span span_between(const Node *first, const Node *last) {
  Span s = first->span;
  s.end_line = last->span.end_line;
  s.end_col = last->span.end_col;
  return s;
}

Span next_span(const Parser *p) {
  Span s = token_span(p->src, p->tok);
  const Token *last = p->tok;
  if (last->start < p->src->size || last->kind == T_ERROR) return s;
  while (last > p->tokens.at && last->start == last->end) last--; /* END, DEDENT, NEWLINE without text */
  if (last > p->tokens.at && last->kind == T_NEWLINE) last--;
  s = token_span(p->src, last);
  s.line = s.end_line;
  s.col = s.end_col;
  return s;
}

Span tokens_span(const Parser *p, const Token *a, const Token *b) {
  Span s = token_span(p->src, a), e = token_span(p->src, b);
  s.end_line = e.end_line;
  s.end_col = e.end_col;
  return s;
}

/* ---- tokens
 * ---------------------------------------------------------------------------------------------------------- */

const Token *parser_expect(Parser *p, TokenKind k) {
  if (p->tok->kind != k) {
    switch (k) {
      case T_RPAR:
      case T_RSQB:
      case T_RBRACE:
      case T_NEWLINE:
      case T_NAME:
      case T_END: parser_unexpected(p);
      default: break;
    }
    if (p->tok->kind == T_ERROR || p->tok->kind == T_INDENT) parser_unexpected(p);
    syntax_error(p, next_span(p), "expected '%s'", token_text(k));
  }
  return p->tok++;
}

void expect_colon(Parser *p) {
  if (accept(p, T_COLON)) return;
  if (p->tok->kind == T_ERROR) parser_unexpected(p);
  syntax_error(p, next_span(p), "expected ':'");
}

const char *name_of(Parser *p, const Token *t) {
  const char *s = p->src->text + t->start;
  uint32_t n = t->end - t->start, h = n;
  for (uint32_t i = 0; i < n; i++) h = h * 31 + (unsigned char)s[i];
  NameSlot *slot = &p->names[(h ^ h >> 15) % NAME_SLOTS];
  if (slot->name && slot->size == n && memcmp(slot->name, s, n) == 0) return slot->name;
  const char *name = intern_identifier(p->cx, s, n);
  if (strlen(name) == n && memcmp(name, s, n) == 0) *slot = (NameSlot){name, n};
  return name;
}

const char *identifier(Parser *p) {
  if (!at(p, T_NAME)) parser_unexpected(p);
  return name_of(p, p->tok++);
}

bool at_word(Parser *p, const char *word) { return at(p, T_NAME) && name_of(p, p->tok) == word; }

void parser_enter(Parser *p) {
  if (++p->depth > p->deepest) {
    p->deepest = p->depth;
    if (p->depth >= MAX_TREE_DEPTH || stack_short())
      diag_fail(diag_as(p->cx, ERROR_SYNTAX), next_span(p), "too many nested expressions or statements");
  }
}

/* A level of recursion makes at most ten of the tree (say: call, keyword, generator, comprehension, condition, lambda,
 * parameters, default, comparison, operand), a link of a chain (a.b, a + b) one, a level of indentation three. */
void check_shape(Parser *p) {
  if (10 * p->deepest + p->links + 3 * 100 >= MAX_TREE_DEPTH) p->measure = true;
  p->deepest = p->links = 0;
}

/* ---- nodes and lists
 * ------------------------------------------------------------------------------------------------- */

/* Nodes differ fivefold in size, and most are of the small kinds. */
static const uint16_t node_size[NODE_KIND_COUNT] = {
#define X(id, name, placed) offsetof(Node, name) + sizeof(((Node *)0)->name),
    NODE_TABLE(X)
#undef X
};

void end_here(Parser *p, Node *n) {
  const Token *last = p->tok > p->tokens.at ? p->tok - 1 : p->tok;
  while (last > p->tokens.at && (last->kind == T_NEWLINE || last->kind == T_INDENT || last->kind == T_DEDENT)) last--;
  n->span.end_line = (int)last->end_line;
  n->span.end_col = (int)(last->end - p->src->line_start[last->end_line - 1]);
}

Node *node_at(Parser *p, NodeKind k, const Token *first) {
  Node *n = arena_alloc(p->arena, node_size[k]);
  n->kind = k;
  n->span.source = p->src;
  n->span.line = (int)first->line;
  n->span.col = (int)(first->start - p->src->line_start[first->line - 1]);
  end_here(p, n);
  return n;
}

NodeList list_from(Parser *p, int mark) {
  NodeList l = {.n = p->stack.n - mark};
  if (l.n) l.at = arena_copy(p->arena, p->stack.at + mark, sizeof(Node *) * (size_t)l.n);
  p->stack.n = mark;
  return l;
}

/* ---- the depth of the tree
 * --------------------------------------------------------------------------------------------- */

typedef struct Level {
  const Node *node;
  int depth;
} Level;
typedef struct Walk {
  Arena *arena;
  VEC(Level) left;
  int depth;
} Walk;

static void push_child(void *arg, Node *child) {
  Walk *w = arg;
  vec_push(w->arena, &w->left, (Level){child, w->depth});
}

static void measure(Parser *p, const Node *root) {
  Walk w = {.arena = p->arena};
  vec_push(w.arena, &w.left, (Level){root, 1});
  while (w.left.n) {
    Level l = w.left.at[--w.left.n];
    if (l.depth > MAX_TREE_DEPTH)
      diag_fail(diag_as(p->cx, ERROR_SYNTAX), l.node->span, "too many nested expressions or statements");
    w.depth = l.depth + 1;
    node_children(l.node, push_child, &w);
  }
}

/* ---- entries
 * ------------------------------------------------------------------------------------------------------------ */

static Parser *start(Context *cx, const Source *src) {
  Parser *p = NEW(cx->arena, Parser);
  p->cx = cx;
  p->arena = cx->arena;
  p->src = source_as_utf8(cx, src);
  p->match = intern_z(cx, "match");
  p->case_ = intern_z(cx, "case");
  p->type = intern_z(cx, "type");
  p->underscore = intern_z(cx, "_");
  p->print = intern_z(cx, "print");
  p->exec = intern_z(cx, "exec");
  tokenize(cx, p->src, &p->tokens);
  p->tok = p->tokens.at;
  return p;
}

/* file: [statements] ENDMARKER */
Node *parse_module(Context *cx, const Source *src) {
  Parser *p = start(cx, src);
  Node *n = node_at(p, NODE_MODULE, p->tok);
  parse_statements(p, T_END);
  n->Module.body = list_from(p, 0);
  n->Module.markers = (MarkerList){p->tokens.markers.at, p->tokens.markers.n};
  n->span.line = 1;
  n->span.col = 0;
  n->span.end_line = src->line_count;
  n->span.end_col = (int)(p->src->size - p->src->line_start[p->src->line_count - 1]);
  if (p->measure) measure(p, n);
  return n;
}

/* eval: expressions NEWLINE* ENDMARKER */
Node *parse_expression(Context *cx, const Source *src) {
  Parser *p = start(cx, src);
  if (p->tokens.at[0].kind == T_INDENT) { /* blanks before it are no block */
    p->tok++;
    for (Token *t = p->tokens.at + p->tokens.n - 1; t > p->tok; t--)
      if (t->kind == T_DEDENT) t->kind = T_NEWLINE;
  }
  if (at(p, T_END)) diag_fail(cx, next_span(p), "expected an expression");
  Node *n = star_expressions(p);
  while (accept(p, T_NEWLINE)) {}
  parser_expect(p, T_END);
  check_shape(p);
  if (p->measure) measure(p, n);
  return n;
}
