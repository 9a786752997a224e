/* squares: a warp's elements to and from shared memory by stmatrix and ldmatrix, as layout/squares.c finds them. */
#include "gpu/lower/move.h"

void lower_squares_store(Lower *l, const SquareAccess *s, LaneKind kind, LaneValue *const *values, LaneValue *address,
                         int64_t imm, int buffer, LaneValue *guard) {
  LaneValue *words[4];
  int each = 1 << s->word_bits, n = 1 << s->square_bits;
  for (int i = 0; i < n; i++)
    words[i] = lower_pack_word(l, lane_kind_info[kind].bits / 8, lane_kind_info[kind].type, values + i * each, each);
  lane_stmatrix(&l->b, n, s->trans, address, imm, buffer, words, guard);
}

void lower_squares_load(Lower *l, const SquareAccess *s, LaneKind kind, LaneValue *address, int64_t imm, int buffer,
                        LaneValue **values) {
  LaneValue *words[4];
  int each = 1 << s->word_bits, n = 1 << s->square_bits;
  lane_ldmatrix(&l->b, n, s->trans, address, imm, buffer, words);
  for (int i = 0; i < n; i++) {
    if (each == 1) values[i] = words[i];
    else lower_unpack_word(l, kind, words[i], each, values + i * each);
  }
}
