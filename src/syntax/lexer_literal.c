/* The lexer's literals: where numbers, strings and the text of f-strings end.
 *
 * A number's spelling is checked here, so that "1_000_", "0o8", "0123" and "3x" get a message at the very digit. A
 * string's is not: its escapes are looked at when its value is computed (literal.c). */
#include "syntax/lexer.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_octal(char c) { return c >= '0' && c <= '7'; }
static bool is_binary(char c) { return c == '0' || c == '1'; }

static bool number_error(Lexer *lx, uint32_t at, const char *hint, const char *message) {
  return lex_error_at(lx, span_of(lx->src, lx->line, at, at + 1), hint, "%s", message);
}

/* digit ('_'? digit)*. False, with the error recorded, when a '_' is not followed by a digit. */
static bool digits(Lexer *lx, bool (*is)(char), const char *kind) {
  for (;;) {
    while (is(lx->text[lx->at])) lx->at++;
    if (lx->text[lx->at] != '_') return true;
    lx->at++;
    if (!is(lx->text[lx->at])) {
      char message[64];
      if (kind[0] != 'd' && kind[0] != 'h' && is_digit(lx->text[lx->at])) {
        snprintf(message, sizeof message, "invalid digit '%c' in %s literal", lx->text[lx->at], kind);
        return number_error(lx, lx->at, NULL, message);
      }
      snprintf(message, sizeof message, "invalid %s literal", kind);
      return number_error(lx, lx->at - 1, NULL, message);
    }
  }
}

/* After a number no name may start, except the keywords that can follow an operand ("1if x else 2"). */
static bool number_end(Lexer *lx, uint32_t start, const char *kind) {
  static const char *const keywords[] = {"and", "else", "for", "if", "in", "is", "not", "or", NULL};
  const char *s = lx->text + lx->at;
  if (char_class[(unsigned char)*s] & CC_START) {
    for (int i = 0; keywords[i]; i++)
      if (strncmp(s, keywords[i], strlen(keywords[i])) == 0) goto ok; /* as Python: "1ifx" is left to the parser */
    char message[64];
    snprintf(message, sizeof message, "invalid %s literal", kind);
    return number_error(lx, lx->at, "a name cannot start with a digit", message);
  }
ok:
  lex_emit(lx, T_NUMBER, start, lx->at, lx->line);
  return true;
}

static bool based_number(Lexer *lx, uint32_t start, bool (*is)(char), const char *kind) {
  lx->at += 2;
  if (lx->text[lx->at] == '_') lx->at++;
  char c = lx->text[lx->at], message[64];
  if (!is(c)) {
    if (is_digit(c)) snprintf(message, sizeof message, "invalid digit '%c' in %s literal", c, kind);
    else snprintf(message, sizeof message, "invalid %s literal", kind);
    return number_error(lx, is_digit(c) ? lx->at : lx->at - 1, NULL, message);
  }
  if (!digits(lx, is, kind)) return false;
  c = lx->text[lx->at];
  if (is_digit(c)) {
    snprintf(message, sizeof message, "invalid digit '%c' in %s literal", c, kind);
    return number_error(lx, lx->at, NULL, message);
  }
  return number_end(lx, start, kind);
}

bool lex_number(Lexer *lx) {
  const char *text = lx->text;
  uint32_t start = lx->at;
  bool real = false;
  if (text[lx->at] == '0') {
    char x = text[lx->at + 1] | 0x20;
    if (x == 'x') return based_number(lx, start, is_hex, "hexadecimal");
    if (x == 'o') return based_number(lx, start, is_octal, "octal");
    if (x == 'b') return based_number(lx, start, is_binary, "binary");
  }
  if (is_digit(text[lx->at]) && !digits(lx, is_digit, "decimal")) return false;
  uint32_t whole_end = lx->at;
  if (text[lx->at] == '.') {
    real = true;
    lx->at++;
    if (is_digit(text[lx->at]) && !digits(lx, is_digit, "decimal")) return false;
  }
  if ((text[lx->at] | 0x20) == 'e') {
    uint32_t e = lx->at + 1;
    if (text[e] == '+' || text[e] == '-') {
      if (!is_digit(text[e + 1])) return number_error(lx, e, NULL, "invalid decimal literal");
      e++;
    }
    if (is_digit(text[e])) { /* else the "e" starts a keyword: 1else 2 */
      real = true;
      lx->at = e;
      if (!digits(lx, is_digit, "decimal")) return false;
    }
  }
  if ((text[lx->at] | 0x20) == 'j') {
    lx->at++;
    return number_end(lx, start, "imaginary");
  }
  if (!real && text[start] == '0') {
    for (uint32_t i = start; i < whole_end; i++)
      if (text[i] != '0' && text[i] != '_') {
        Span span = span_of(lx->src, lx->line, start, whole_end);
        return lex_error_at(
            lx, span, NULL,
            "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers");
      }
  }
  return number_end(lx, start, "decimal");
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

/* The last line that has something on it, for "detected at line". */
static uint32_t last_line(const Lexer *lx) {
  return lx->at >= lx->size && lx->line > 1 && lx->src->line_start[lx->line - 1] == lx->at ? lx->line - 1 : lx->line;
}

static int count_quotes(const Lexer *lx, char quote) {
  return lx->text[lx->at + 1] == quote && lx->text[lx->at + 2] == quote ? 3 : 1;
}

bool lex_string(Lexer *lx, uint32_t start) {
  const char *text = lx->text;
  char quote = text[lx->at];
  uint32_t line = lx->line, opening = lx->at;
  int quotes = count_quotes(lx, quote);
  lx->at += (uint32_t)quotes;
  for (;;) {
    char c = text[lx->at];
    if (c == quote) {
      if (quotes == 1 || (text[lx->at + 1] == quote && text[lx->at + 2] == quote)) break;
      lx->at++;
    } else if (c == '\\') {
      lx->at++;
      if (text[lx->at] == '\n' || text[lx->at] == '\r') pass_newline(lx);
      else if (lx->at < lx->size) lx->at++;
    } else if (c == '\n' || c == '\r' || !c) {
      bool end = lx->at >= lx->size;
      if (!c && !end)
        return lex_error_at(lx, span_of(lx->src, lx->line, lx->at, lx->at + 1), NULL,
                            "source code cannot contain null bytes");
      if (!end && quotes == 3) {
        pass_newline(lx);
        continue;
      }
      Span span = span_of(lx->src, line, start, opening + (uint32_t)quotes);
      const FString *f = lx->fstrings ? &lx->fstring[lx->fstrings - 1] : NULL;
      if (f && f->quote == quote && f->quotes == quotes) return lex_error_at(lx, span, NULL, "f-string: expecting '}'");
      const char *hint = quotes == 1 && opening + 1 < lx->at && text[lx->at - 1] == quote && text[lx->at - 2] == '\\'
                             ? "perhaps the closing quote is escaped by the backslash before it"
                             : NULL;
      return lex_error_at(lx, span, hint, "unterminated %sstring literal (detected at line %u)",
                          quotes == 3 ? "triple-quoted " : "", last_line(lx));
    } else lx->at++;
  }
  lx->at += (uint32_t)quotes;
  lex_emit(lx, T_STRING, start, lx->at, line);
  return true;
}

/* ---- f-strings --------------------------------------------------------------------------------------------------- */

bool lex_fstring(Lexer *lx, uint32_t start, bool raw) {
  if (lx->fstrings >= MAX_FSTRINGS)
    return lex_error_at(lx, span_of(lx->src, lx->line, start, lx->at + 1), NULL, "too many nested f-strings");
  char quote = lx->text[lx->at];
  int quotes = count_quotes(lx, quote);
  lx->at += (uint32_t)quotes;
  lx->fstring[lx->fstrings++] =
      (FString){.quote = quote, .quotes = quotes, .raw = raw, .start = start, .line = lx->line};
  lex_emit(lx, T_FSTRING_START, start, lx->at, lx->line);
  return lex_fstring_text(lx);
}

static void emit_text(Lexer *lx, uint32_t start, uint32_t end, uint32_t line, bool doubled) {
  if (start == end) return;
  lex_emit(lx, T_FSTRING_MIDDLE, start, end, line);
  Token *t = &lx->out->at[lx->out->n - 1];
  t->raw = lx->fstring[lx->fstrings - 1].raw;
  t->doubled = doubled;
}

static bool unterminated_fstring(Lexer *lx, const FString *f) {
  Span span = span_of(lx->src, f->line, f->start, f->start + 1);
  while (lx->text[f->start + (uint32_t)(span.end_col - span.col) - 1] != f->quote) span.end_col++;
  return lex_error_at(lx, span, NULL, "unterminated %sf-string literal (detected at line %u)",
                      f->quotes == 3 ? "triple-quoted " : "", last_line(lx));
}

/* Ends before a replacement field's "{", before the "}" that closes a format, or after the string's closing quotes. */
bool lex_fstring_text(Lexer *lx) {
  FString *f = &lx->fstring[lx->fstrings - 1];
  const char *text = lx->text;
  uint32_t start = lx->at, line = lx->line;
  bool in_format = f->fields > 0;
  for (;;) {
    char c = text[lx->at];
    if (c == f->quote) {
      if (f->quotes == 3 && !(text[lx->at + 1] == c && text[lx->at + 2] == c)) {
        lx->at++;
        continue;
      }
      emit_text(lx, start, lx->at, line, false);
      if (in_format)
        return lex_error_at(lx, span_of(lx->src, lx->line, lx->at, lx->at + (uint32_t)f->quotes), NULL,
                            "f-string: expecting '}'");
      uint32_t quote = lx->at;
      lx->at += (uint32_t)f->quotes;
      lex_emit(lx, T_FSTRING_END, quote, lx->at, lx->line);
      lx->fstrings--;
      return true;
    }
    switch (c) {
      case '{':
        if (text[lx->at + 1] == '{' && !in_format) {
          emit_text(lx, start, lx->at + 1, line, true);
          start = lx->at += 2;
          line = lx->line;
          break;
        }
        emit_text(lx, start, lx->at, line, false);
        if (++f->fields >= MAX_FIELDS + 1)
          return lex_error_at(lx, span_of(lx->src, lx->line, lx->at, lx->at + 1), NULL,
                              "f-string: expressions nested too deeply");
        return true;
      case '}':
        if (text[lx->at + 1] == '}' && !in_format) {
          emit_text(lx, start, lx->at + 1, line, true);
          start = lx->at += 2;
          line = lx->line;
          break;
        }
        emit_text(lx, start, lx->at, line, false);
        return true; /* of a format; else close_bracket says that it stands alone */
      case '\\': {
        char d = text[++lx->at];
        if (d == '{' || d == '}') break;                      /* the backslash stands for itself */
        if (d == 'N' && !f->raw && text[lx->at + 1] == '{') { /* \N{BULLET}: these braces are text */
          uint32_t close = lx->at + 2;
          while (text[close] && text[close] != '}' && text[close] != '\n' && text[close] != '\r' &&
                 text[close] != f->quote)
            close++;
          lx->at = text[close] == '}' ? close + 1 : close;
          break;
        }
        if (d == '\n' || d == '\r') pass_newline(lx);
        else if (lx->at < lx->size) lx->at++;
        break;
      }
      case '\n':
      case '\r':
        if (f->quotes == 1) {
          if (!in_format) return unterminated_fstring(lx, f);
          emit_text(lx, start, lx->at, line, false);
          return true; /* a line's end ends the format; only blanks and "}" may follow */
        }
        pass_newline(lx);
        break;
      case 0:
        if (lx->at >= lx->size) return unterminated_fstring(lx, f);
        return lex_error_at(lx, span_of(lx->src, lx->line, lx->at, lx->at + 1), NULL,
                            "source code cannot contain null bytes");
      default: lx->at++;
    }
  }
}
