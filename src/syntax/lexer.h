/* lexer.h (inside syntax): what lexer.c and lexer_literal.c share. */
#ifndef NEREID_SYNTAX_LEXER_H
#define NEREID_SYNTAX_LEXER_H

#include "syntax/token.h"

enum { MAX_INDENTS = 100, MAX_BRACKETS = 200, MAX_FSTRINGS = 150, MAX_FIELDS = 3 };

typedef struct Indent {
  int col, alt;
} Indent; /* columns with tabs of 8, and of 1 */
typedef struct Bracket {
  char c;
  uint32_t at, line;
} Bracket;

typedef struct FString {
  char quote;
  int quotes; /* 1 or 3 */
  bool raw;
  uint32_t start, line; /* of its prefix */
  int depth;            /* brackets open since it began */
  int fields; /* replacement fields open: 1 in f"{x}", 2 in f"{x:{w}}". An expression's own level is depth == fields */
} FString;

typedef struct Lexer {
  Context *cx;
  const Source *src;
  const char *text;
  uint32_t size, at, line;
  int indent, level, fstrings;
  int cap; /* of out->at */
  Tokens *out;
  Indent indents[MAX_INDENTS];
  Bracket brackets[MAX_BRACKETS];
  FString fstring[MAX_FSTRINGS];
} Lexer;

enum { CC_BLANK = 1, CC_DIGIT = 2, CC_START = 4, CC_WORD = 8 }; /* WORD: may stand within a name or a number */
extern const uint8_t char_class[256];

/* Appends a token that ends on the present line. */
void lex_emit(Lexer *lx, TokenKind kind, uint32_t start, uint32_t end, uint32_t line);
/* Records the error; returns false, as every function of the lexer does after one. */
bool lex_error_at(Lexer *lx, Span span, const char *hint, const char *format, ...) PRINTF_LIKE(4, 5);
void pass_newline(Lexer *lx);

bool lex_number(Lexer *lx);
bool lex_string(Lexer *lx, uint32_t start);            /* at its opening quote; its prefix starts at `start` */
bool lex_fstring(Lexer *lx, uint32_t start, bool raw); /* likewise */
bool lex_fstring_text(Lexer *lx); /* in the innermost f-string, at text: after a quote, "}" or ":" */

#endif
