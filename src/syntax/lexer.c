/* The lexer: text to tokens, one pass, as CPython's tokenizer does it.
 *
 * Three things make Python's tokens more than a regular language, and each is a small stack in the Lexer:
 *
 *   indentation   a line that stands further right than the one above opens a block (INDENT), one further left closes
 *                 as many as it passes (DEDENT). Columns are counted twice, with tabs as wide as 8 and as 1: a line on
 *                 which the two counts disagree mixes tabs and blanks ambiguously, which is an error.
 *   brackets      inside any bracket a line's end and its indentation mean nothing.
 *   f-strings     f"a{x!r:>{w}}" is FSTRING_START, FSTRING_MIDDLE "a", "{", x, "!", r, ":", FSTRING_MIDDLE ">", "{", w,
 *                 "}", "}", FSTRING_END. The lexer changes between text and expression at the braces; inside an
 *                 expression anything may stand, f-strings with the same quote included (PEP 701).
 *
 * Numbers and strings are found here (lexer_literal.c), their values computed when the parser wants them (literal.c).
 * Bounds are CPython's: 100 indents, 200 brackets, 150 f-strings within each other. */
#include "syntax/lexer.h"

const char *token_text(TokenKind k) {
  static const char *const texts[] = {
#define X(id, text) text,
      TOKEN_CLASS_TABLE(X) TOKEN_PUNCTUATION_TABLE(X) TOKEN_KEYWORD_TABLE(X)
#undef X
  };
  return k < TOKEN_KIND_COUNT ? texts[k] : "?";
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static bool at_newline(const Lexer *lx) { return lx->text[lx->at] == '\n' || lx->text[lx->at] == '\r'; }

/* At a backslash outside strings: goes past it and the line's end, which must follow. */
static bool continuation_line(Lexer *lx) {
  uint32_t slash = lx->at++;
  if (lx->at >= lx->size)
    return lex_error_at(lx, span_of(lx->src, lx->line, slash, slash + 1), NULL,
                        "unexpected end of file after a line continuation character '\\'");
  if (!at_newline(lx))
    return lex_error_at(lx, span_of(lx->src, lx->line, lx->at, lx->at + 1),
                        "a backslash outside a string must be the last character of its line",
                        "unexpected character after line continuation character");
  pass_newline(lx);
  if (lx->at >= lx->size)
    return lex_error_at(lx, span_of(lx->src, lx->line - 1, slash, slash + 1), NULL,
                        "unexpected end of file after a line continuation character '\\'");
  return true;
}

/* "# nereid: begin load": kept for the front end. `start` is at the #. */
static void keep_marker(Lexer *lx, uint32_t start) {
  const char *text = lx->text + start + 1, *end = lx->text + lx->at,
             *line = lx->text + lx->src->line_start[lx->line - 1];
  static const char word[] = "nereid:";
  while (text < end && char_class[(unsigned char)*text] & CC_BLANK) text++;
  if ((size_t)(end - text) < sizeof word - 1 || memcmp(text, word, sizeof word - 1)) return;
  text += sizeof word - 1;
  while (text < end && char_class[(unsigned char)*text] & CC_BLANK) text++;
  while (end > text && char_class[(unsigned char)end[-1]] & CC_BLANK) end--;
  while (char_class[(unsigned char)*line] & CC_BLANK) line++;
  Marker m = {span_of(lx->src, lx->line, start, (uint32_t)(end - lx->text)),
              arena_strndup(lx->cx->arena, text, (size_t)(end - text)), line == lx->text + start};
  vec_push(lx->cx->arena, &lx->out->markers, m);
}

static void skip_comment(Lexer *lx) {
  uint32_t start = lx->at;
  while (lx->at < lx->size && !at_newline(lx)) lx->at++;
  keep_marker(lx, start);
}

static Span indentation_span(const Lexer *lx) {
  return span_of(lx->src, lx->line, lx->src->line_start[lx->line - 1], lx->at);
}

static bool inconsistent_tabs(Lexer *lx) {
  return lex_error_at(lx, indentation_span(lx), "indent with blanks only, or with tabs only",
                      "inconsistent use of tabs and spaces in indentation");
}

/* At the start of a line outside brackets: passes the lines that hold nothing, then opens or closes blocks as the first
 * line with something on it asks. */
static bool indentation(Lexer *lx) {
  for (;;) {
    int col = 0, alt = 0, first_col = 0; /* first_col: of the first of several lines joined by backslashes */
    for (;; lx->at++) {
      char c = lx->text[lx->at];
      if (c == ' ') col++, alt++;
      else if (c == '\t') col = (col / 8 + 1) * 8, alt++;
      else if (c == '\f') col = alt = 0;
      else if (c == '\\') {
        if (!first_col) first_col = col;
        if (!continuation_line(lx)) return false;
        lx->at--; /* the loop steps */
      } else break;
    }
    if (lx->text[lx->at] == '#') skip_comment(lx);
    if (lx->at >= lx->size) return true; /* END closes all blocks */
    if (at_newline(lx)) {
      pass_newline(lx);
      continue;
    }
    if (first_col) col = alt = first_col;
    Indent *top = &lx->indents[lx->indent];
    if (lx->src->is_part && !lx->out->n) *top = (Indent){col, alt};
    if (col == top->col) return alt == top->alt || inconsistent_tabs(lx);
    if (col > top->col) {
      if (lx->indent + 1 >= MAX_INDENTS)
        return lex_error_at(lx, span_of(lx->src, lx->line, lx->at, lx->at + 1), NULL, "too many levels of indentation");
      if (alt <= top->alt) return inconsistent_tabs(lx);
      lx->indents[++lx->indent] = (Indent){col, alt};
      lex_emit(lx, T_INDENT, lx->at, lx->at, lx->line);
      return true;
    }
    while (lx->indent > 0 && col < lx->indents[lx->indent].col) {
      lx->indent--;
      lex_emit(lx, T_DEDENT, lx->at, lx->at, lx->line);
    }
    if (col != lx->indents[lx->indent].col)
      return lex_error_at(lx, indentation_span(lx), "give it the indentation of the block it belongs to",
                          "unindent does not match any outer indentation level");
    return alt == lx->indents[lx->indent].alt || inconsistent_tabs(lx);
  }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static TokenKind keyword(const char *s, uint32_t n) {
#define KEYWORD(text, id) \
  if (n == sizeof text - 1 && memcmp(s, text, sizeof text - 1) == 0) return T_##id
  switch (s[0]) {
    case 'F': KEYWORD("False", FALSE); break;
    case 'N': KEYWORD("None", NONE); break;
    case 'T': KEYWORD("True", TRUE); break;
    case 'a':
      KEYWORD("as", AS);
      KEYWORD("and", AND);
      KEYWORD("assert", ASSERT);
      KEYWORD("async", ASYNC);
      KEYWORD("await", AWAIT);
      break;
    case 'b': KEYWORD("break", BREAK); break;
    case 'c':
      KEYWORD("class", CLASS);
      KEYWORD("continue", CONTINUE);
      break;
    case 'd':
      KEYWORD("def", DEF);
      KEYWORD("del", DEL);
      break;
    case 'e':
      KEYWORD("else", ELSE);
      KEYWORD("elif", ELIF);
      KEYWORD("except", EXCEPT);
      break;
    case 'f':
      KEYWORD("for", FOR);
      KEYWORD("from", FROM);
      KEYWORD("finally", FINALLY);
      break;
    case 'g': KEYWORD("global", GLOBAL); break;
    case 'i':
      KEYWORD("if", IF);
      KEYWORD("in", IN);
      KEYWORD("is", IS);
      KEYWORD("import", IMPORT);
      break;
    case 'l': KEYWORD("lambda", LAMBDA); break;
    case 'n':
      KEYWORD("not", NOT);
      KEYWORD("nonlocal", NONLOCAL);
      break;
    case 'o': KEYWORD("or", OR); break;
    case 'p': KEYWORD("pass", PASS); break;
    case 'r':
      KEYWORD("return", RETURN);
      KEYWORD("raise", RAISE);
      break;
    case 't': KEYWORD("try", TRY); break;
    case 'w':
      KEYWORD("with", WITH);
      KEYWORD("while", WHILE);
      break;
    case 'y': KEYWORD("yield", YIELD); break;
  }
#undef KEYWORD
  return T_NAME;
}

/* A name with characters past ASCII: only what Unicode calls an identifier's. */
static bool check_identifier(Lexer *lx, uint32_t start) {
  const char *end = lx->text + lx->at;
  for (const char *s = lx->text + start; s < end;) {
    uint32_t code;
    int n = utf8_decode(s, end, &code);
    uint32_t at = (uint32_t)(s - lx->text);
    bool first = at == start;
    if (code >= 0x80 && !(first ? identifier_start(code) : identifier_continue(code))) {
      Span span = span_of(lx->src, lx->line, at, at + (uint32_t)n);
      bool invisible = code < 0xA1 || code == 0xAD || (code >= 0x2000 && code <= 0x200F) ||
                       (code >= 0x2028 && code <= 0x202F) || (code >= 0x205F && code <= 0x206F) || code == 0x3000 ||
                       code == 0xFEFF;
      if (invisible)
        return lex_error_at(lx, span, "delete it, or put a plain blank in its place",
                            "invalid non-printable character U+%04X", code);
      return lex_error_at(lx, span, NULL, "invalid character '%.*s' (U+%04X)", n, s, code);
    }
    s += n;
  }
  return true;
}

static bool name(Lexer *lx) {
  uint32_t start = lx->at;
  const char *text = lx->text;
  /* The letters before a quote say what kind of string it is. */
  bool b = false, u = false, r = false, f = false;
  for (;; lx->at++) {
    char c = text[lx->at] | 0x20;
    if (c == 'b' && !(b || u || f)) b = true;
    else if (c == 'u' && !(b || u || r || f)) u = true;
    else if (c == 'r' && !(r || u)) r = true;
    else if (c == 'f' && !(f || b || u)) f = true;
    else break;
  }
  if (text[lx->at] == '"' || text[lx->at] == '\'') return f ? lex_fstring(lx, start, r) : lex_string(lx, start);

  unsigned char seen = 0;
  while (char_class[(unsigned char)text[lx->at]] & CC_WORD) seen |= (unsigned char)text[lx->at++];
  if (seen & 0x80) {
    if (!check_identifier(lx, start)) return false;
    lex_emit(lx, T_NAME, start, lx->at, lx->line);
    return true;
  }
  lex_emit(lx, keyword(text + start, lx->at - start), start, lx->at, lx->line);
  return true;
}

/* ---- punctuation ------------------------------------------------------------------------------------------------- */

static bool open_bracket(Lexer *lx, TokenKind kind) {
  if (lx->level >= MAX_BRACKETS)
    return lex_error_at(lx, span_of(lx->src, lx->line, lx->at, lx->at + 1), NULL, "too many nested parentheses");
  lx->brackets[lx->level++] = (Bracket){lx->text[lx->at], lx->at, lx->line};
  if (lx->fstrings) lx->fstring[lx->fstrings - 1].depth++;
  lex_emit(lx, kind, lx->at, lx->at + 1, lx->line);
  lx->at++;
  return true;
}

static bool close_bracket(Lexer *lx, TokenKind kind) {
  char c = lx->text[lx->at];
  Span span = span_of(lx->src, lx->line, lx->at, lx->at + 1);
  FString *f = lx->fstrings ? &lx->fstring[lx->fstrings - 1] : NULL;
  if (f && !f->depth && c == '}')
    return lex_error_at(lx, span, "write '}}' for a brace in the text", "f-string: single '}' is not allowed");
  if (lx->level == 0) return lex_error_at(lx, span, NULL, "unmatched '%c'", c);
  Bracket open = lx->brackets[--lx->level];
  bool pair = (open.c == '(' && c == ')') || (open.c == '[' && c == ']') || (open.c == '{' && c == '}');
  if (!pair) {
    if (f && open.c == '{' && f->depth == f->fields) return lex_error_at(lx, span, NULL, "f-string: unmatched '%c'", c);
    if (open.line != lx->line)
      return lex_error_at(lx, span, NULL, "closing parenthesis '%c' does not match opening parenthesis '%c' on line %u",
                          c, open.c, open.line);
    return lex_error_at(lx, span, NULL, "closing parenthesis '%c' does not match opening parenthesis '%c'", c, open.c);
  }
  lex_emit(lx, kind, lx->at, lx->at + 1, lx->line);
  lx->at++;
  if (f) {
    f->depth--;
    if (c == '}' && f->depth == f->fields - 1) {
      f->fields--;
      return lex_fstring_text(lx);
    }
  }
  return true;
}

static bool invalid_character(Lexer *lx) {
  char c = lx->text[lx->at];
  Span span = span_of(lx->src, lx->line, lx->at, lx->at + 1);
  if (!c) return lex_error_at(lx, span, NULL, "source code cannot contain null bytes");
  if (c < ' ' || c == 127)
    return lex_error_at(lx, span, "delete it", "invalid non-printable character U+%04X", (unsigned)c);
  return lex_error_at(lx, span, NULL, "invalid character '%c'", c);
}

static bool punctuation(Lexer *lx) {
  const char *s = lx->text + lx->at;
  char c = s[0], d = s[1];
  TokenKind k;
  uint32_t n = 1;
  /* op, op=; double op, double op= */
#define OPERATOR(id) (d == '=' ? (n = 2, T_##id##_EQUAL) : T_##id)
#define DOUBLED(id, twice) (d == c ? (s[2] == '=' ? (n = 3, T_##twice##_EQUAL) : (n = 2, T_##twice)) : OPERATOR(id))
  switch (c) {
    case '(': return open_bracket(lx, T_LPAR);
    case '[': return open_bracket(lx, T_LSQB);
    case '{': return open_bracket(lx, T_LBRACE);
    case ')': return close_bracket(lx, T_RPAR);
    case ']': return close_bracket(lx, T_RSQB);
    case '}': return close_bracket(lx, T_RBRACE);
    case ':':
      /* The colon of f"{x:spec}" ends the expression; "=" after it is part of the format. */
      if (lx->fstrings && lx->fstring[lx->fstrings - 1].fields &&
          lx->fstring[lx->fstrings - 1].depth == lx->fstring[lx->fstrings - 1].fields) {
        lex_emit(lx, T_COLON, lx->at, lx->at + 1, lx->line);
        lx->at++;
        return lex_fstring_text(lx);
      }
      k = d == '=' ? (n = 2, T_COLON_EQUAL) : T_COLON;
      break;
    case ',': k = T_COMMA; break;
    case ';': k = T_SEMI; break;
    case '.':
      if (char_class[(unsigned char)d] & CC_DIGIT) return lex_number(lx);
      k = d == '.' && s[2] == '.' ? (n = 3, T_ELLIPSIS) : T_DOT;
      break;
    case '~': k = T_TILDE; break;
    case '!': k = d == '=' ? (n = 2, T_NOT_EQUAL) : T_EXCLAMATION; break;
    case '=': k = d == '=' ? (n = 2, T_EQ_EQUAL) : T_EQUAL; break;
    case '+': k = OPERATOR(PLUS); break;
    case '-': k = d == '>' ? (n = 2, T_ARROW) : OPERATOR(MINUS); break;
    case '*': k = DOUBLED(STAR, DOUBLE_STAR); break;
    case '/': k = DOUBLED(SLASH, DOUBLE_SLASH); break;
    case '@': k = OPERATOR(AT); break;
    case '%': k = OPERATOR(PERCENT); break;
    case '|': k = OPERATOR(VBAR); break;
    case '^': k = OPERATOR(CIRCUMFLEX); break;
    case '&': k = OPERATOR(AMPER); break;
    case '<': k = DOUBLED(LESS, LEFT_SHIFT); break;
    case '>': k = DOUBLED(GREATER, RIGHT_SHIFT); break;
    default: return invalid_character(lx);
  }
#undef OPERATOR
#undef DOUBLED
  lex_emit(lx, k, lx->at, lx->at + n, lx->line);
  lx->at += n;
  return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool end_of_file(Lexer *lx) {
  if (lx->level) {
    Bracket b = lx->brackets[lx->level - 1];
    lex_error_at(lx, span_of(lx->src, b.line, b.at, b.at + 1), NULL, "'%c' was never closed", b.c);
    lx->out->error.unclosed = true;
    return false;
  }
  int n = lx->out->n;
  if (n && lx->out->at[n - 1].kind != T_NEWLINE && lx->out->at[n - 1].kind != T_DEDENT)
    lex_emit(lx, T_NEWLINE, lx->at, lx->at, lx->line);
  while (lx->indent > 0) {
    lx->indent--;
    lex_emit(lx, T_DEDENT, lx->at, lx->at, lx->line);
  }
  lex_emit(lx, T_END, lx->at, lx->at, lx->line);
  return true;
}

static bool lex(Lexer *lx) {
  if (!indentation(lx)) return false;
  for (;;) {
    unsigned char c = (unsigned char)lx->text[lx->at];
    uint8_t class = char_class[c];
    if (class & CC_BLANK) lx->at++;
    else if (class & CC_START) {
      if (!name(lx)) return false;
    } else if (class & CC_DIGIT) {
      if (!lex_number(lx)) return false;
    } else switch (c) {
        case '\n':
        case '\r':
          if (lx->level) {
            pass_newline(lx);
            break;
          }
          lex_emit(lx, T_NEWLINE, lx->at, lx->at + 1, lx->line);
          pass_newline(lx);
          if (!indentation(lx)) return false;
          break;
        case '#': skip_comment(lx); break;
        case '\\':
          if (!continuation_line(lx)) return false;
          break;
        case '"':
        case '\'':
          if (!lex_string(lx, lx->at)) return false;
          break;
        case 0:
          if (lx->at >= lx->size) return end_of_file(lx);
          return invalid_character(lx);
        default:
          if (!punctuation(lx)) return false;
      }
  }
}

void tokenize(Context *cx, const Source *src, Tokens *out) {
  *out = (Tokens){.source = src};
  Lexer *lx = NEW(cx->arena, Lexer);
  *lx = (Lexer){.cx = cx, .src = src, .text = src->text, .size = (uint32_t)src->size, .line = 1, .out = out};
  lx->cap = (int)(src->size / 4) + 16;
  out->at = NEW_N(cx->arena, Token, lx->cap);
  if (!lex(lx)) lex_emit(lx, T_ERROR, lx->at, lx->at, lx->line);
}
