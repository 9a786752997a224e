/* Unicode, as far as Python's grammar needs it: UTF-8, which characters may stand in an identifier, the NFKC form under
 * which identifiers are equal (UAX 31, UAX 15), and characters by name for "\N{...}".
 *
 * NFKC: take every character apart (compatibility decomposition), sort the marks after each base by their combining
 * class, put together what composes. "ﬁne" becomes "fine". Hangul syllables are taken apart and put together by
 * arithmetic (Unicode 3.12), all else by the tables of unicode_tables.h.
 *
 * Of the names only 32-bit hashes are kept, one a character: 140 KB instead of a megabyte. A wrong name in source is
 * taken for a right one once in 100,000, which only a wrong program can notice. */
#include "syntax/token.h"

typedef struct Range {
  uint32_t first, last;
} Range;
typedef struct Decomposition {
  uint32_t code;
  uint16_t at, n;
} Decomposition;
typedef struct CombiningClass {
  uint32_t first, last;
  uint8_t class;
} CombiningClass;
typedef struct Composition {
  uint32_t first, second, code;
} Composition;
typedef struct NameAlias {
  uint32_t hash, code;
} NameAlias;

#include "syntax/unicode/unicode_tables.h"
#include "syntax/unicode/unicode_names.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* ---- UTF-8 ------------------------------------------------------------------------------------------------------- */

int utf8_decode(const char *s, const char *end, uint32_t *code) {
  const unsigned char *p = (const unsigned char *)s;
  ptrdiff_t left = end - s;
  if (left < 1) return 0;
  if (p[0] < 0x80) return *code = p[0], 1;
#define TAIL(i) (left > (i) && (p[i] & 0xC0) == 0x80)
  if (p[0] >= 0xC2 && p[0] <= 0xDF && TAIL(1)) return *code = (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F), 2;
  if ((p[0] & 0xF0) == 0xE0 && TAIL(1) && TAIL(2)) {
    *code = (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    return *code >= 0x800 && !(*code >= 0xD800 && *code <= 0xDFFF) ? 3 : 0;
  }
  if ((p[0] & 0xF8) == 0xF0 && TAIL(1) && TAIL(2) && TAIL(3)) {
    *code =
        (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    return *code >= 0x10000 && *code <= 0x10FFFF ? 4 : 0;
  }
#undef TAIL
  return 0;
}

int utf8_encode(uint32_t code, char out[4]) {
  if (code < 0x80) return out[0] = (char)code, 1;
  int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | code);
  return n;
}

/* ---- identifiers ------------------------------------------------------------------------------------------------- */

static bool in_ranges(const Range *r, size_t n, uint32_t code) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (code > r[mid].last) low = mid + 1;
    else if (code < r[mid].first) high = mid;
    else return true;
  }
  return false;
}

bool identifier_start(uint32_t code) { return in_ranges(start_ranges, LENGTH(start_ranges), code); }
bool identifier_continue(uint32_t code) { return in_ranges(continue_ranges, LENGTH(continue_ranges), code); }

static uint8_t combining_class(uint32_t code) {
  for (size_t low = 0, high = LENGTH(combining_classes); low < high;) {
    size_t mid = (low + high) / 2;
    const CombiningClass *c = &combining_classes[mid];
    if (code > c->last) low = mid + 1;
    else if (code < c->first) high = mid;
    else return c->class;
  }
  return 0;
}

/* Hangul: a syllable is a leading consonant, a vowel and perhaps a trailing consonant. */
enum {
  L_BASE = 0x1100,
  V_BASE = 0x1161,
  T_BASE = 0x11A7,
  S_BASE = 0xAC00,
  L_COUNT = 19,
  V_COUNT = 21,
  T_COUNT = 28,
  S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

typedef VEC(uint32_t) Codes;

static void decompose(Arena *a, Codes *out, uint32_t code) {
  if (code >= S_BASE && code < S_BASE + S_COUNT) {
    uint32_t s = code - S_BASE;
    vec_push(a, out, L_BASE + s / (V_COUNT * T_COUNT));
    vec_push(a, out, V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT);
    if (s % T_COUNT) vec_push(a, out, T_BASE + s % T_COUNT);
    return;
  }
  for (size_t low = 0, high = LENGTH(decompositions); low < high;) {
    size_t mid = (low + high) / 2;
    const Decomposition *d = &decompositions[mid];
    if (code > d->code) low = mid + 1;
    else if (code < d->code) high = mid;
    else {
      for (int i = 0; i < d->n; i++) vec_push(a, out, decomposed[d->at + i]);
      return;
    }
  }
  vec_push(a, out, code);
}

static uint32_t compose(uint32_t first, uint32_t second) { /* 0: they do not */
  if (first >= L_BASE && first < L_BASE + L_COUNT && second >= V_BASE && second < V_BASE + V_COUNT)
    return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
  if (first >= S_BASE && first < S_BASE + S_COUNT && (first - S_BASE) % T_COUNT == 0 && second > T_BASE &&
      second < T_BASE + T_COUNT)
    return first + (second - T_BASE);
  for (size_t low = 0, high = LENGTH(compositions); low < high;) {
    size_t mid = (low + high) / 2;
    const Composition *c = &compositions[mid];
    if (first > c->first || (first == c->first && second > c->second)) low = mid + 1;
    else if (first < c->first || second < c->second) high = mid;
    else return c->code;
  }
  return 0;
}

/* Stable, by combining class. A run is short, unless somebody wants to see how long a quadratic sort takes. */
static void sort_marks(Arena *a, uint32_t *c, int n) {
  if (n > 32) {
    uint32_t *sorted = NEW_N(a, uint32_t, n);
    int start[257] = {0}; /* counting sort */
    for (int i = 0; i < n; i++) start[combining_class(c[i]) + 1]++;
    for (int class = 0; class < 256; class ++) start[class + 1] += start[class];
    for (int i = 0; i < n; i++) sorted[start[combining_class(c[i])]++] = c[i];
    memcpy(c, sorted, sizeof *c * (size_t)n);
    return;
  }
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && combining_class(c[j - 1]) > combining_class(c[j]); j--) {
      uint32_t t = c[j];
      c[j] = c[j - 1];
      c[j - 1] = t;
    }
}

const char *intern_identifier(Context *cx, const char *s, size_t n) {
  bool ascii = true;
  for (size_t i = 0; i < n; i++) ascii &= (unsigned char)s[i] < 0x80;
  if (ascii) return intern(cx, s, n);

  Codes codes = {0};
  for (size_t i = 0; i < n;) {
    uint32_t code;
    int k = utf8_decode(s + i, s + n, &code);
    if (!k) return intern(cx, s, n); /* not UTF-8: the source was checked, so this is not reached from it */
    decompose(cx->arena, &codes, code);
    i += (size_t)k;
  }
  uint32_t *c = codes.at;
  for (int i = 0, end; i < codes.n; i = end) {
    for (end = i; end < codes.n && combining_class(c[end]); end++) {}
    sort_marks(cx->arena, c + i, end - i);
    end += end < codes.n;
  }
  int kept = 0, base = -1; /* base: of the present run, in what is kept */
  uint8_t last_class = 0;
  for (int i = 0; i < codes.n; i++) {
    uint8_t class = combining_class(c[i]);
    /* a mark is kept from its base by one of the same class, or any starter, between them */
    bool blocked = base >= 0 && kept - 1 > base && (last_class >= class || last_class == 0);
    uint32_t whole = base >= 0 && !blocked ? compose(c[base], c[i]) : 0;
    if (whole) {
      c[base] = whole;
      continue;
    }
    if (!class) base = kept;
    last_class = class;
    c[kept++] = c[i];
  }
  char *text = arena_alloc(cx->arena, (size_t)kept * 4 + 1);
  size_t size = 0;
  for (int i = 0; i < kept; i++) size += (size_t)utf8_encode(c[i], text + size);
  return intern(cx, text, size);
}

/* ---- names of characters ----------------------------------------------------------------------------------------- */

static bool hex_code(const char *s, size_t n, uint32_t *code) {
  if (n < 4 || n > 5) return false;
  *code = 0;
  for (size_t i = 0; i < n; i++) {
    char c = s[i];
    if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'))) return false;
    *code = *code * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'A' + 10);
  }
  return true;
}

static int longest_part(const char *s, size_t n, const char *const *parts, int count, size_t *length) {
  int best = -1;
  for (int i = 0; i < count; i++) {
    size_t k = strlen(parts[i]);
    if (k <= n && memcmp(s, parts[i], k) == 0 && (best < 0 || k > *length)) best = i, *length = k;
  }
  return best;
}

/* "HANGUL SYLLABLE GAG": the short names of the three parts (Unicode 4.8). */
static uint32_t hangul_by_name(const char *s, size_t n) {
  static const char *const leads[] = {"G",  "GG", "N", "D",  "DD", "R", "M", "B", "BB", "S",
                                      "SS", "",   "J", "JJ", "C",  "K", "T", "P", "H"};
  static const char *const vowels[] = {"A",  "AE", "YA", "YAE", "EO", "E",  "YEO", "YE", "O",  "WA", "WAE",
                                       "OE", "YO", "U",  "WEO", "WE", "WI", "YU",  "EU", "YI", "I"};
  static const char *const tails[] = {"",   "G",  "GG", "GS", "N",  "NJ", "NH", "D",  "L", "LG", "LM", "LB", "LS", "LT",
                                      "LP", "LH", "M",  "B",  "BS", "S",  "SS", "NG", "J", "C",  "K",  "T",  "P",  "H"};
  size_t k = 0;
  int l = longest_part(s, n, leads, L_COUNT, &k);
  if (l < 0) return UINT32_MAX;
  s += k, n -= k;
  int v = longest_part(s, n, vowels, V_COUNT, &k);
  if (v < 0) return UINT32_MAX;
  s += k, n -= k;
  int t = longest_part(s, n, tails, T_COUNT, &k);
  if (t < 0 || k != n) return UINT32_MAX;
  return (uint32_t)(S_BASE + (l * V_COUNT + v) * T_COUNT + t);
}

uint32_t unicode_by_name(const char *name, size_t n) {
  char upper[128];
  if (n == 0 || n >= sizeof upper) return UINT32_MAX;
  uint32_t hash = 0x811C9DC5u; /* FNV-1a */
  for (size_t i = 0; i < n; i++) {
    upper[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 32) : name[i];
    hash = (hash ^ (unsigned char)upper[i]) * 0x01000193u;
  }
  upper[n] = 0;

  /* Names that end in the character's own code, and where such characters are. */
  static const struct {
    const char *prefix;
    Range range;
  } rules[] = {
      {"CJK UNIFIED IDEOGRAPH-", {0x3400, 0x4DBF}},       {"CJK UNIFIED IDEOGRAPH-", {0x4E00, 0x9FFF}},
      {"CJK UNIFIED IDEOGRAPH-", {0x20000, 0x2A6DF}},     {"CJK UNIFIED IDEOGRAPH-", {0x2A700, 0x2B739}},
      {"CJK UNIFIED IDEOGRAPH-", {0x2B740, 0x2B81D}},     {"CJK UNIFIED IDEOGRAPH-", {0x2B820, 0x2CEA1}},
      {"CJK UNIFIED IDEOGRAPH-", {0x2CEB0, 0x2EBE0}},     {"CJK UNIFIED IDEOGRAPH-", {0x30000, 0x3134A}},
      {"CJK UNIFIED IDEOGRAPH-", {0x31350, 0x323AF}},     {"CJK UNIFIED IDEOGRAPH-", {0xFA0E, 0xFA0F}},
      {"CJK UNIFIED IDEOGRAPH-", {0xFA11, 0xFA11}},       {"CJK UNIFIED IDEOGRAPH-", {0xFA13, 0xFA14}},
      {"CJK UNIFIED IDEOGRAPH-", {0xFA1F, 0xFA1F}},       {"CJK UNIFIED IDEOGRAPH-", {0xFA21, 0xFA21}},
      {"CJK UNIFIED IDEOGRAPH-", {0xFA23, 0xFA24}},       {"CJK UNIFIED IDEOGRAPH-", {0xFA27, 0xFA29}},
      {"CJK COMPATIBILITY IDEOGRAPH-", {0xF900, 0xFAD9}}, {"CJK COMPATIBILITY IDEOGRAPH-", {0x2F800, 0x2FA1D}},
      {"TANGUT IDEOGRAPH-", {0x17000, 0x187F7}},          {"TANGUT IDEOGRAPH-", {0x18D00, 0x18D08}},
      {"NUSHU CHARACTER-", {0x1B170, 0x1B2FB}},           {"KHITAN SMALL SCRIPT CHARACTER-", {0x18B00, 0x18CD5}}};
  for (size_t i = 0; i < LENGTH(rules); i++) {
    size_t k = strlen(rules[i].prefix);
    uint32_t code;
    if (n > k && memcmp(upper, rules[i].prefix, k) == 0 && hex_code(upper + k, n - k, &code) &&
        in_ranges(&rules[i].range, 1, code))
      return code;
  }
  static const char hangul[] = "HANGUL SYLLABLE ";
  if (n > sizeof hangul - 1 && memcmp(upper, hangul, sizeof hangul - 1) == 0)
    return hangul_by_name(upper + sizeof hangul - 1, n - (sizeof hangul - 1));

  size_t at = 0;
  for (size_t r = 0; r < LENGTH(named_ranges); r++)
    for (uint32_t code = named_ranges[r].first; code <= named_ranges[r].last; code++, at++)
      if (name_hashes[at] == hash) return code;
  for (size_t i = 0; i < LENGTH(name_aliases); i++)
    if (name_aliases[i].hash == hash) return name_aliases[i].code;
  return UINT32_MAX;
}
