/* Encodings: a source is UTF-8, unless one of its first two lines says otherwise (PEP 263: "# coding: latin-1").
 *
 * Text in one of the single-byte encodings below is rewritten to UTF-8, so that the lexer and every position know only
 * one form. Text that claims to be UTF-8 is checked here, once, and nobody has to look again. */
#include "syntax/token.h"

/* clang-format off */
/* The characters of the bytes 0x80-0xFF; 0 where a byte has none. */
static const uint16_t koi8_r[128] = {
    0x2500, 0x2502, 0x250C, 0x2510, 0x2514, 0x2518, 0x251C, 0x2524, 0x252C, 0x2534, 0x253C, 0x2580, 0x2584, 0x2588,
    0x258C, 0x2590,
    0x2591, 0x2592, 0x2593, 0x2320, 0x25A0, 0x2219, 0x221A, 0x2248, 0x2264, 0x2265, 0x00A0, 0x2321, 0x00B0, 0x00B2,
    0x00B7, 0x00F7,
    0x2550, 0x2551, 0x2552, 0x0451, 0x2553, 0x2554, 0x2555, 0x2556, 0x2557, 0x2558, 0x2559, 0x255A, 0x255B, 0x255C,
    0x255D, 0x255E,
    0x255F, 0x2560, 0x2561, 0x0401, 0x2562, 0x2563, 0x2564, 0x2565, 0x2566, 0x2567, 0x2568, 0x2569, 0x256A, 0x256B,
    0x256C, 0x00A9,
    0x044E, 0x0430, 0x0431, 0x0446, 0x0434, 0x0435, 0x0444, 0x0433, 0x0445, 0x0438, 0x0439, 0x043A, 0x043B, 0x043C,
    0x043D, 0x043E,
    0x043F, 0x044F, 0x0440, 0x0441, 0x0442, 0x0443, 0x0436, 0x0432, 0x044C, 0x044B, 0x0437, 0x0448, 0x044D, 0x0449,
    0x0447, 0x044A,
    0x042E, 0x0410, 0x0411, 0x0426, 0x0414, 0x0415, 0x0424, 0x0413, 0x0425, 0x0418, 0x0419, 0x041A, 0x041B, 0x041C,
    0x041D, 0x041E,
    0x041F, 0x042F, 0x0420, 0x0421, 0x0422, 0x0423, 0x0416, 0x0412, 0x042C, 0x042B, 0x0417, 0x0428, 0x042D, 0x0429,
    0x0427, 0x042A};
static const uint16_t cp1252_low[32] = { /* 0xA0-0xFF are Latin-1's */
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017D, 0,
    0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E,
    0x0178};

typedef enum { ENC_UNKNOWN, ENC_UTF8, ENC_ASCII, ENC_LATIN1, ENC_CP1252, ENC_KOI8_R } Encoding;

/* clang-format off */
static const struct { const char *name; Encoding encoding; } names[] = {
    {"utf-8", ENC_UTF8}, {"utf8", ENC_UTF8}, {"utf-8-sig", ENC_UTF8}, {"utf", ENC_UTF8}, {"u8", ENC_UTF8},
    {"cp65001", ENC_UTF8},
    {"ascii", ENC_ASCII}, {"us-ascii", ENC_ASCII}, {"646", ENC_ASCII}, {"latin-1", ENC_LATIN1}, {"latin1", ENC_LATIN1},
    {"latin", ENC_LATIN1},
    {"iso-8859-1", ENC_LATIN1}, {"iso8859-1", ENC_LATIN1}, {"8859", ENC_LATIN1}, {"l1", ENC_LATIN1},
    {"iso-latin-1", ENC_LATIN1},
    {"cp1252", ENC_CP1252}, {"windows-1252", ENC_CP1252}, {"1252", ENC_CP1252}, {"koi8-r", ENC_KOI8_R}};
/* clang-format on */
/* clang-format on */

static Encoding encoding_of(const char *name, size_t n) {
  char plain[32];
  if (n >= sizeof plain) return ENC_UNKNOWN;
  for (size_t i = 0; i < n; i++)
    plain[i] = name[i] == '_' ? '-' : name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
  plain[n] = 0;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(plain, names[i].name) == 0) return names[i].encoding;
  if (strncmp(plain, "utf-8-", 6) == 0) return ENC_UTF8;
  if (strncmp(plain, "latin-1-", 8) == 0 || strncmp(plain, "iso-8859-1-", 11) == 0 ||
      strncmp(plain, "iso-latin-1-", 12) == 0)
    return ENC_LATIN1;
  return ENC_UNKNOWN;
}

static bool name_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

/* ^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+) in line 1, or in line 2 below an empty line or a comment. */
static bool find_cookie(const Source *src, Span *place, const char **name, size_t *n) {
  for (int line = 0; line < 2 && line < src->line_count; line++) {
    const char *start = src->text + src->line_start[line], *s = start;
    const char *end = start;
    while (*end && *end != '\n' && *end != '\r') end++;
    while (*s == ' ' || *s == '\t' || *s == '\f') s++;
    if (*s != '#') {
      if (s < end) return false;
      continue;
    }
    for (; s + 7 <= end; s++) {
      if (memcmp(s, "coding", 6) != 0 || (s[6] != ':' && s[6] != '=')) continue;
      const char *p = s + 7;
      while (*p == ' ' || *p == '\t') p++;
      *name = p;
      while (name_char(*p)) p++;
      *n = (size_t)(p - *name);
      if (!*n) continue;
      *place = span_of(src, (uint32_t)line + 1, (uint32_t)(*name - src->text), (uint32_t)(p - src->text));
      return true;
    }
  }
  return false;
}

static void check_utf8(Context *cx, const Source *src, bool ascii) {
  const char *s = src->text, *end = s + src->size;
  for (int line = 1; s < end;) {
    if ((unsigned char)*s < 0x80) {
      uint64_t eight;
      if (end - s >= 8 && (memcpy(&eight, s, 8), !(eight & 0x8080808080808080u))) s += 8;
      else s++;
      continue;
    }
    uint32_t code;
    int n = ascii ? 0 : utf8_decode(s, end, &code);
    if (!n) {
      uint32_t at = (uint32_t)(s - src->text);
      while (line < src->line_count && src->line_start[line] <= at) line++;
      diag_fail_hint(cx, span_of(src, (uint32_t)line, at, at + 1),
                     "save the file as UTF-8, or name its encoding in its first line: \"# coding: latin-1\"",
                     "byte 0x%02x is not %s", (unsigned char)*s,
                     ascii ? "ASCII, which the \"coding:\" line asks for" : "UTF-8 text");
    }
    s += n;
  }
}

static const Source *rewrite(Context *cx, const Source *src, Encoding encoding) {
  char *text = arena_alloc(cx->arena, src->size * 3 + 1);
  size_t size = 0;
  for (size_t i = 0; i < src->size; i++) {
    uint32_t c = (unsigned char)src->text[i];
    if (c >= 0x80 && encoding == ENC_KOI8_R) c = koi8_r[c - 0x80];
    else if (c >= 0x80 && c < 0xA0 && encoding == ENC_CP1252) c = cp1252_low[c - 0x80];
    if (!c && src->text[i]) {
      int line = 1;
      while (line < src->line_count && src->line_start[line] <= i) line++;
      diag_fail(cx, span_of(src, (uint32_t)line, (uint32_t)i, (uint32_t)i + 1),
                "byte 0x%02x has no meaning in the encoding that the \"coding:\" line names",
                (unsigned char)src->text[i]);
    }
    size += (size_t)utf8_encode(c, text + size);
  }
  /* Not source_from_text: that would put this text under the path, and a second parse would decode it again. */
  Source *out = NEW(cx->arena, Source);
  uint32_t *starts = NEW_N(cx->arena, uint32_t, src->line_count);
  *out = (Source){.path = src->path, .text = text, .size = size, .line_count = src->line_count, .line_start = starts};
  int line = 1;
  for (size_t i = 0; i < size && line < src->line_count; i++)
    if (text[i] == '\n' || (text[i] == '\r' && text[i + 1] != '\n')) starts[line++] = (uint32_t)i + 1;
  return out;
}

const Source *source_as_utf8(Context *cx, const Source *src) {
  if (src->size > UINT32_MAX / 4)
    diag_fail(cx, (Span){.source = src, .line = 1, .end_line = 1}, "the source has %zu bytes: too large", src->size);
  Span place;
  const char *name;
  size_t n;
  Encoding encoding = ENC_UTF8;
  if (find_cookie(src, &place, &name, &n)) {
    encoding = encoding_of(name, n);
    if (encoding == ENC_UNKNOWN)
      diag_fail_hint(cx, place, "save the file as UTF-8",
                     "unknown encoding: %.*s (UTF-8, ASCII, Latin-1, cp1252 and koi8-r are read)", (int)n, name);
  }
  if (encoding > ENC_ASCII) return rewrite(cx, src, encoding);
  check_utf8(cx, src, encoding == ENC_ASCII);
  return src;
}
