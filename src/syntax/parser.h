/* parser.h (inside syntax): the state of a parse and what the parser's files share.
 *
 * The parser descends recursively through tokens; a function is named after the grammar's rule, which stands above it
 * as in https://docs.python.org/3.12/reference/grammar.html. It decides by looking ahead and never goes back: where
 * Python's grammar tries alternatives (targets of an assignment, `with (`, `match`), the function that decides says
 * how.
 *
 *   parser.c           the two entries; files of statements; what all rules use: tokens, nodes, lists, messages
 *   parser_simple.c    simple statements: assignments, imports, ...
 *   parser_compound.c  compound statements: def, if, for, with, try, ...
 *   parser_match.c     the match statement and its patterns
 *   parser_params.c    parameters of def and lambda, type parameters
 *   parser_expr.c      expressions: operators, calls, subscripts
 *   parser_atom.c      what stands in brackets: tuples, lists, sets, dicts, comprehensions
 *   parser_string.c    strings, f-strings, their concatenation
 *   parser_target.c    what may be assigned to and deleted */
#ifndef NEREID_SYNTAX_PARSER_H
#define NEREID_SYNTAX_PARSER_H

#include "syntax/token.h"

typedef struct NameSlot {
  const char *name;
  uint32_t size;
} NameSlot;
enum { NAME_SLOTS = 1024 };

typedef struct Parser {
  Context *cx;
  Arena *arena;
  const Source *src;
  Tokens tokens;
  const Token *tok; /* the next one */
  int brackets;     /* open around it */
  int depth;        /* of the recursion; bounded by MAX_TREE_DEPTH */
  /* since the last check_shape: the greatest depth, and how often an operand was wrapped in a loop */
  int deepest, links;
  bool measure;      /* the tree may be too deep: look */
  VEC(Node *) stack; /* entries of the lists that are being parsed, innermost last */
  VEC(const char *) idents;
  VEC(PyOp) ops;
  const char *match, *case_, *type, *underscore, *print, *exec; /* interned: words that are keywords at some places */
  NameSlot names[NAME_SLOTS]; /* identifiers seen, by hash: most names are repeated, and soon */
} Parser;

/* ---- parser.c: tokens -------------------------------------------------------------------------------------------- */
static inline bool at(const Parser *p, TokenKind k) { return p->tok->kind == k; }
static inline TokenKind peek(const Parser *p, int ahead) { /* not past the end */
  const Token *last = p->tokens.at + p->tokens.n - 1;
  return (TokenKind)(last - p->tok < ahead ? last->kind : p->tok[ahead].kind);
}
static inline const Token *advance(Parser *p) { return p->tok++; } /* not past END or ERROR: those match nothing */
static inline bool accept(Parser *p, TokenKind k) { return at(p, k) ? (p->tok++, true) : false; }
const Token *parser_expect(Parser *p, TokenKind k); /* or fails */
void expect_colon(Parser *p);                       /* of a compound statement: "expected ':'" */
const char *identifier(Parser *p);                  /* NAME, or fails; interned */
const char *name_of(Parser *p, const Token *t);     /* of a NAME token */
bool at_word(Parser *p, const char *word);          /* a NAME spelled so */
bool starts_expression(TokenKind k);
bool ends_operand(const Token *t);
/* The recursion of nested source; each enter has a leave. */
void parser_enter(Parser *p);
static inline void leave(Parser *p) { p->depth--; }
/* Called where a statement or its head ends: notes whether the tree may have become too deep. */
void check_shape(Parser *p);

/* ---- parser.c: nodes and lists ----------------------------------------------------------------------------------- */
/* A node that starts at `first` and ends with the last token taken. */
Node *node_at(Parser *p, NodeKind k, const Token *first);
void end_here(Parser *p, Node *n);       /* moves its end to the last token taken */
NodeList list_from(Parser *p, int mark); /* what was pushed on the stack since its size was mark, taken off */
static inline void push(Parser *p, Node *n) { vec_push(p->arena, &p->stack, n); }

/* ---- parser.c: messages ------------------------------------------------------------------------------------------ */
NORETURN void syntax_error(Parser *p, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
NORETURN void parser_unexpected(Parser *p); /* the next token cannot stand here */
Span span_between(const Node *first, const Node *last);
Span next_span(const Parser *p); /* of the next token; at the end of the file, right after the last one */
/* From token a to token b, both included. */
Span tokens_span(const Parser *p, const Token *a, const Token *b);

/* ---- parser_simple.c, parser_compound.c, parser_match.c ---------------------------------------------------------- */
void parse_statements(Parser *p, TokenKind end); /* pushes them on the stack, up to a token `end` */
void simple_stmts(Parser *p);
bool compound_stmt(Parser *p); /* false, having taken nothing, when none starts here */
NodeList parse_block(Parser *p, const Token *head, const char *what);
bool at_match_stmt(Parser *p);
Node *match_stmt(Parser *p);

/* ---- parser_params.c --------------------------------------------------------------------------------------------- */
Node *parse_parameters(Parser *p, TokenKind end, bool annotated); /* of def: up to ")"; of lambda: up to ":" */
NodeList type_params(Parser *p);                                  /* empty when there is no "[" */

/* ---- parser_expr.c ----------------------------------------------------------------------------------------------- */
Node *expression(Parser *p);
Node *named_expression(Parser *p);
Node *star_expressions(Parser *p);
Node *star_expression(Parser *p);
Node *star_named_expression(Parser *p);
Node *yield_expr(Parser *p);
Node *yield_or_star_expressions(Parser *p);
Node *disjunction(Parser *p);
Node *bitwise_or(Parser *p);
void call_arguments(Parser *p, const Token *open, NodeList *args, NodeList *keywords); /* after "(", takes the ")" */

/* ---- parser_atom.c, parser_string.c ------------------------------------------------------------------------------ */
Node *parse_atom(Parser *p);
Node *genexp_after(Parser *p, Node *element, const Token *open);
Node *parse_strings(Parser *p);
Node *parse_number(Parser *p);

/* ---- parser_target.c --------------------------------------------------------------------------------------------- */
typedef enum { STAR_TARGETS, FOR_TARGETS, DEL_TARGETS } TargetKind;
/* Makes e, parsed as an expression, what is assigned to or deleted, or fails ("cannot assign to ..."). */
void make_target(Parser *p, Node *e, TargetKind kind);
const Node *invalid_target(const Node *e, TargetKind kind); /* the part that cannot be a target, or NULL */
const char *expression_kind(const Node *e);                 /* "function call", for messages */
Node *star_targets(Parser *p);                              /* of `for` */

#endif
