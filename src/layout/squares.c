/* squares: a warp's elements to and from shared memory by stmatrix and ldmatrix.
 *
 * Tensor cores spread a tile so that lane 4r + t holds the words t of row r, for 8 rows of 4 words: a square. Where
 * such a row is 16 bytes in memory, one instruction moves up to four squares; each of the lanes 8i to 8i + 7 names a
 * row of square i. With plain accesses a word of each lane is one. In bytes, of the lanes' bits and the registers':
 *
 *     as it lies     the elements of a word 1 or 2 (registers), lanes 0 and 1: 4 and 8, all others whole rows
 *     transposed     of elements of 16 bits: lanes 2, 3 and 4: 2, 4 and 8, all others whole rows; a register's two
 *                    neighbours in a word are of two rows. Plain accesses would be of one element each
 *
 * What is not so spread, or lies otherwise, goes by plain accesses.
 */
#include "layout/layout.h"

enum { ROW = 16 };

/* v with one of `of`'s sums added is zero. */
static bool depends(uint32_t v, const uint32_t *of, int n) {
  for (int i = 0; i < 1 << n; i++) {
    uint32_t sum = v;
    for (int j = 0; j < n; j++) sum ^= i >> j & 1 ? of[j] : 0;
    if (!sum) return true;
  }
  return false;
}

static uint32_t bytes_of(const SquareBits *in, uint32_t reg) {
  uint32_t bytes = 0;
  for (int i = 0; i < in->reg_bits; i++) bytes ^= reg >> i & 1 ? in->reg[i] : 0;
  return bytes;
}

static bool in_rows(const uint32_t *bytes, int n) {
  for (int i = 0; i < n; i++)
    if (!bytes[i] || bytes[i] % ROW) return false;
  return true;
}

/* The registers that differ by bytes 1 << k, below a word. */
static bool find_word(const SquareBits *in, SquareAccess *s) {
  F2Map map = {.in_bits = in->reg_bits, .out_bits = F2_MAX - 1};
  memcpy(map.column, in->reg, sizeof *in->reg * (size_t)in->reg_bits);
  for (; 1 << (in->shift + s->word_bits) < 4; s->word_bits++)
    if (!f2_solve(&map, 1u << (in->shift + s->word_bits), &s->word[s->word_bits])) return false;
  return true;
}

/* How many banks of 16 bytes eight rows take, as a power of two. */
static int banks(const uint32_t *columns) {
  F2Map map = {.in_bits = 3, .out_bits = 3};
  for (int i = 0; i < 3; i++) map.column[i] = columns[i] / ROW % 8;
  return f2_rank(&map);
}

static bool find_rows(const SquareBits *in, SquareAccess *s) {
  if (in->lane[0] != 4 || in->lane[1] != 8 || !in_rows(in->lane + 2, 3) || !find_word(in, s)) return false;
  memcpy(s->row, in->lane + 2, sizeof *s->row * 3);
  return true;
}

/* Of the registers that may be a word's second element, one that lets the rows meet in no bank. */
static bool find_columns(const SquareBits *in, SquareAccess *s) {
  if (in->shift != 1 || !in_rows(in->lane, 2)) return false;
  for (int i = 0; i < 3; i++)
    if (in->lane[2 + i] != 2u << i) return false;
  int best = -1;
  for (int i = 0; i < in->reg_bits; i++) {
    uint32_t columns[] = {in->reg[i], in->lane[0], in->lane[1]};
    if (in->apart >> i & 1 || !in_rows(columns, 1) || banks(columns) <= best) continue;
    best = banks(columns);
    s->word[0] = 1u << i;
    memcpy(s->row, columns, sizeof columns);
  }
  s->word_bits = 1;
  s->trans = true;
  return best >= 2;
}

/* Up to two register vectors by which squares differ. */
static bool find_squares(const SquareBits *in, SquareAccess *s) {
  for (int i = 0; i < in->reg_bits; i++) {
    uint32_t v = 1u << i, low = in->reg[i] % ROW, spans[4];
    for (int k = 0; !s->trans && k < s->word_bits; k++)
      if (low >> (in->shift + k) & 1) v ^= s->word[k];
    uint32_t bytes = bytes_of(in, v);
    int n = 0;
    for (int k = 0; k < s->word_bits; k++) spans[n++] = s->word[k];
    for (int k = 0; k < s->square_bits; k++) spans[n++] = s->square[k];
    if (bytes % ROW) return false;
    if (s->square_bits == 2 || in->apart >> i & 1 || depends(v, spans, n)) continue;
    if (!bytes || (s->square_bits && bytes == s->row[3])) return false;
    s->row[3 + s->square_bits] = bytes;
    s->square[s->square_bits++] = v;
  }
  return s->square_bits > 0;
}

bool squares_find(const SquareBits *in, SquareAccess *s) {
  *s = (SquareAccess){0};
  if (in->shift > 2) return false;
  if (find_rows(in, s)) return find_squares(in, s);
  *s = (SquareAccess){0};
  return find_columns(in, s) && find_squares(in, s);
}

/* The registers of the access that begins with r, word by word; their number. */
int squares_group(const SquareAccess *s, int r, int *group) {
  int n = 1 << (s->word_bits + s->square_bits);
  for (int i = 0; i < n; i++) {
    uint32_t v = (uint32_t)r;
    for (int k = 0; k < s->word_bits; k++) v ^= i >> k & 1 ? s->word[k] : 0;
    for (int k = 0; k < s->square_bits; k++) v ^= i >> (s->word_bits + k) & 1 ? s->square[k] : 0;
    group[i] = (int)v;
  }
  return n;
}

bool squares_place(const F2Map *map, const Layout *l, int shift, int part_bits, SquareAccess *s) {
  SquareBits bits = {.shift = shift, .reg_bits = l->reg_bits};
  int low_bits = map->out_bits - part_bits;
  uint32_t low = low_bits >= 32 ? ~0u : (1u << low_bits) - 1;
  if (layout_copies(l) & 31) return false;
  for (int i = 0; i < l->reg_bits; i++) {
    uint32_t at = f2_apply(map, l->basis[i]);
    bits.reg[i] = (at & low) << shift;
    bits.apart |= (uint32_t)((at & ~low) != 0) << i;
  }
  for (int i = 0; i < l->lane_bits + l->warp_bits; i++) {
    uint32_t at = f2_apply(map, l->basis[l->reg_bits + i]), bytes = (at & low) << shift;
    if (at & ~low || (i >= l->lane_bits && bytes % ROW)) return false;
    if (i < l->lane_bits) bits.lane[i] = bytes;
  }
  return squares_find(&bits, s);
}

int squares_wavefronts(const SquareAccess *s) { return 1 << (s->square_bits + 3 - banks(s->row)); }

int squares_of_type(int squares, const Type *t) {
  return t->dtype == DT_I1 || t->dtype == DT_I32 || t->dtype == DT_U32 ? 0 : squares;
}
