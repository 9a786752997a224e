/* token.h (inside syntax): the tokens, as lexer.c hands them to the parser.
 *
 * A source becomes one array of tokens, so that the parser may look ahead as far as it likes (`match`, `with (`). A
 * token is where it lies; its value is computed by literal.c when the parser wants it. The first lexical error ends the
 * array with a T_ERROR; whether that error or one the parser finds is reported is the parser's choice. */
#ifndef NEREID_SYNTAX_TOKEN_H
#define NEREID_SYNTAX_TOKEN_H

#include "syntax/syntax.h"

/* Tokens without a fixed spelling, with the words that messages use for them. */
#define TOKEN_CLASS_TABLE(X) \
  X(END, "end of file") \
  X(ERROR, "error") \
  X(NEWLINE, "end of line") \
  X(INDENT, "indent") \
  X(DEDENT, "unindent") \
  X(NAME, "name") \
  X(NUMBER, "number") \
  X(STRING, "string") \
  X(FSTRING_START, "f-string") \
  X(FSTRING_MIDDLE, "f-string") \
  X(FSTRING_END, "end of f-string")

#define TOKEN_PUNCTUATION_TABLE(X) \
  X(LPAR, "(") \
  X(RPAR, ")") \
  X(LSQB, "[") \
  X(RSQB, "]") \
  X(LBRACE, "{") \
  X(RBRACE, "}") \
  X(COLON, ":") \
  X(COMMA, ",") \
  X(SEMI, ";") \
  X(DOT, ".") \
  X(ELLIPSIS, "...") \
  X(ARROW, "->") \
  X(COLON_EQUAL, ":=") \
  X(EXCLAMATION, "!") \
  X(TILDE, "~") \
  X(EQUAL, "=") \
  X(PLUS, "+") \
  X(MINUS, "-") \
  X(STAR, "*") \
  X(AT, "@") \
  X(SLASH, "/") \
  X(PERCENT, "%") \
  X(DOUBLE_STAR, "**") \
  X(LEFT_SHIFT, "<<") \
  X(RIGHT_SHIFT, ">>") \
  X(VBAR, "|") \
  X(CIRCUMFLEX, "^") \
  X(AMPER, "&") \
  X(DOUBLE_SLASH, "//") /* the augmented assignments, in the order of the operators above */ \
  X(PLUS_EQUAL, "+=") \
  X(MINUS_EQUAL, "-=") \
  X(STAR_EQUAL, "*=") \
  X(AT_EQUAL, "@=") \
  X(SLASH_EQUAL, "/=") \
  X(PERCENT_EQUAL, "%=") \
  X(DOUBLE_STAR_EQUAL, "**=") \
  X(LEFT_SHIFT_EQUAL, "<<=") \
  X(RIGHT_SHIFT_EQUAL, ">>=") \
  X(VBAR_EQUAL, "|=") \
  X(CIRCUMFLEX_EQUAL, "^=") \
  X(AMPER_EQUAL, "&=") \
  X(DOUBLE_SLASH_EQUAL, "//=") \
  X(EQ_EQUAL, "==") X(NOT_EQUAL, "!=") X(LESS, "<") X(LESS_EQUAL, "<=") X(GREATER, ">") X(GREATER_EQUAL, ">=")

#define TOKEN_KEYWORD_TABLE(X) \
  X(FALSE, "False") \
  X(NONE, "None") \
  X(TRUE, "True") \
  X(AND, "and") \
  X(AS, "as") \
  X(ASSERT, "assert") \
  X(ASYNC, "async") \
  X(AWAIT, "await") \
  X(BREAK, "break") \
  X(CLASS, "class") \
  X(CONTINUE, "continue") \
  X(DEF, "def") \
  X(DEL, "del") \
  X(ELIF, "elif") \
  X(ELSE, "else") \
  X(EXCEPT, "except") \
  X(FINALLY, "finally") \
  X(FOR, "for") \
  X(FROM, "from") \
  X(GLOBAL, "global") \
  X(IF, "if") \
  X(IMPORT, "import") \
  X(IN, "in") \
  X(IS, "is") \
  X(LAMBDA, "lambda") \
  X(NONLOCAL, "nonlocal") \
  X(NOT, "not") \
  X(OR, "or") \
  X(PASS, "pass") \
  X(RAISE, "raise") X(RETURN, "return") X(TRY, "try") X(WHILE, "while") X(WITH, "with") X(YIELD, "yield")

typedef enum {
#define X(id, text) T_##id,
  TOKEN_CLASS_TABLE(X) TOKEN_PUNCTUATION_TABLE(X) TOKEN_KEYWORD_TABLE(X)
#undef X
      TOKEN_KIND_COUNT
} TokenKind;

typedef struct Token {
  uint8_t kind;            /* TokenKind */
  bool raw;                /* FSTRING_MIDDLE of an rf"..." */
  bool doubled;            /* FSTRING_MIDDLE that ends in the first of "{{" or "}}" */
  uint32_t start, end;     /* bytes of the source */
  uint32_t line, end_line; /* from 1 */
} Token;

typedef struct LexError {
  Span span;
  const char *message, *hint; /* hint or NULL */
  bool unclosed;              /* a bracket that the end of the file found open: span is the bracket */
} LexError;

typedef struct Tokens {
  const Source *source;
  Token *at; /* ends with T_END or T_ERROR */
  int n;
  VEC(Marker) markers;
  LexError error; /* of the T_ERROR */
} Tokens;

const char *token_text(TokenKind k); /* "(", "while", "end of line" */

/* lexer.c. Never fails but for memory. */
void tokenize(Context *cx, const Source *src, Tokens *out);

/* Fails with the diagnostic of a LexError. */
NORETURN void fail_lex(Context *cx, const LexError *e);

/* encoding.c: the source itself when it is UTF-8, else one rewritten to UTF-8 as its "coding:" line asks. Fails on
 * bytes that are not text. */
const Source *source_as_utf8(Context *cx, const Source *src);

/* identifier.c */
/* Bytes of the UTF-8 sequence at s (which ends at `end`), and its code point; 0 when it is malformed. */
int utf8_decode(const char *s, const char *end, uint32_t *code);
/* Writes a code point, surrogates included; returns its bytes. */
int utf8_encode(uint32_t code, char out[4]);
/* Whether code may start or go on in an identifier (XID_Start and "_", XID_Continue). Code points past ASCII only. */
bool identifier_start(uint32_t code);
bool identifier_continue(uint32_t code);
/* The NFKC form of an identifier, interned. */
const char *intern_identifier(Context *cx, const char *s, size_t n);
/* The code point called `name` ("BULLET"), UINT32_MAX when there is none. */
uint32_t unicode_by_name(const char *name, size_t n);

/* literal.c: the values of tokens. Each fails, with the place, on a value that Python refuses. */
ConstValue number_value(Context *cx, const Source *src, const Token *t);
/* A STRING token: CONST_STR or CONST_BYTES. */
ConstValue string_value(Context *cx, const Source *src, const Token *t, bool *u_prefix);
/* A stretch of an f-string's text. */
ConstValue fstring_text(Context *cx, const Source *src, const Token *t);

Span token_span(const Source *src, const Token *t);
/* A place within one line, by offsets. */
Span span_of(const Source *src, uint32_t line, uint32_t start, uint32_t end);

#endif
