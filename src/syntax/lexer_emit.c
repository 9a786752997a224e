/* What the lexer and its literals share: classes of characters, places, tokens and errors. */
#include "syntax/lexer.h"

const uint8_t char_class[256] = {
    ['\t'] = CC_BLANK,
    [' '] = CC_BLANK,
    ['\f'] = CC_BLANK,
    ['0' ... '9'] = CC_DIGIT | CC_WORD,
    ['a' ... 'z'] = CC_START | CC_WORD,
    ['A' ... 'Z'] = CC_START | CC_WORD,
    ['_'] = CC_START | CC_WORD,
    [0x80 ... 0xFF] = CC_START | CC_WORD,
};

Span span_of(const Source *src, uint32_t line, uint32_t start, uint32_t end) {
  int col = (int)(start - src->line_start[line - 1]);
  return (Span){
      .source = src, .line = (int)line, .col = col, .end_line = (int)line, .end_col = col + (int)(end - start)};
}

Span token_span(const Source *src, const Token *t) {
  Span s = span_of(src, t->line, t->start, t->end);
  s.end_line = (int)t->end_line;
  s.end_col = (int)(t->end - src->line_start[t->end_line - 1]);
  return s;
}

void fail_lex(Context *cx, const LexError *e) {
  if (e->hint) diag_fail_hint(diag_as(cx, ERROR_SYNTAX), e->span, e->hint, "%s", e->message);
  diag_fail(diag_as(cx, ERROR_SYNTAX), e->span, "%s", e->message);
}

void lex_emit(Lexer *lx, TokenKind kind, uint32_t start, uint32_t end, uint32_t line) {
  if (lx->out->n == lx->cap) {
    int cap = lx->cap + lx->cap / 2 + 16;
    Token *more = NEW_N(lx->cx->arena, Token, cap);
    memcpy(more, lx->out->at, sizeof(Token) * (size_t)lx->out->n);
    lx->out->at = more;
    lx->cap = cap;
  }
  lx->out->at[lx->out->n++] =
      (Token){.kind = (uint8_t)kind, .start = start, .end = end, .line = line, .end_line = lx->line};
}

bool lex_error_at(Lexer *lx, Span span, const char *hint, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  char text[256];
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  lx->out->error = (LexError){.span = span, .message = arena_strdup(lx->cx->arena, text), .hint = hint};
  return false;
}

/* At "\n", "\r\n" or "\r": goes past it. */
void pass_newline(Lexer *lx) {
  if (lx->text[lx->at] == '\r' && lx->text[lx->at + 1] == '\n') lx->at++;
  lx->at++;
  lx->line++;
}
