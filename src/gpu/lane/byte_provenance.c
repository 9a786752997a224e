/* Bytes followed through prmt: where each byte of a word comes from.
 *
 * Narrow elements live one in a register and go to memory four in a word, so they are taken apart and put together
 * again and again:
 *
 *     %a = and %x, 255         %b = bfe.u32 %x {8, 8}         %w = prmt %a, %b, 0x..40      is      prmt %x, %x, 0x..10
 *
 * A prmt whose selector is known asks for each of its four bytes where it comes from, through bfe, and, or, shl, shr,
 * pack and other prmt. When two words (zero counts as one) have them all, one prmt takes them from there, or none when
 * a word has them in order.
 */
#include "gpu/lane/lane.h"

enum { MOST_STEPS = 64 };

typedef struct Byte {
  LaneValue *word;
  int at;
} Byte; /* word NULL: zero */

static bool is_bytes(const LaneOp *op, int *bit, int *bits) {
  *bit = op->bit, *bits = op->bits;
  return op->bit % 8 == 0 && op->bits % 8 == 0 && op->bits > 0;
}

/* `steps` are those left for this byte: an `or` is followed into both its operands, and where these share operands in
 * turn, the paths are many more than the values. */
static Byte follow(LaneValue *v, int at, int *steps) {
  stack_guard();
  uint64_t c;
  Byte here = {v, at};
  if (lane_is_const(v, &c)) return (c >> 8 * at & 255) == 0 ? (Byte){NULL, 0} : here;
  if (!v->def || --*steps < 0) return here;
  const LaneOp *op = v->def;
  int bit, bits;
  switch (op->code) {
    case LANE_BFE:
      if (op->in[0]->type != LT_B32 || !is_bytes(op, &bit, &bits)) return here;
      if (8 * at < bits) return follow(op->in[0], at + bit / 8, steps);
      return op->kind == LK_U32 ? (Byte){NULL, 0} : here;
    case LANE_AND:
      if (v->type != LT_B32 || !lane_is_const(op->in[1], &c)) return here;
      c = c >> 8 * at & 255;
      return c == 255 ? follow(op->in[0], at, steps) : c == 0 ? (Byte){NULL, 0} : here;
    case LANE_OR: {
      if (v->type != LT_B32) return here;
      Byte x = follow(op->in[0], at, steps), y = follow(op->in[1], at, steps);
      return !x.word ? y : !y.word ? x : here;
    }
    case LANE_SHL:
      if (v->type != LT_B32 || !lane_is_const(op->in[1], &c) || c % 8 || c >= 32) return here;
      return at < (int)c / 8 ? (Byte){NULL, 0} : follow(op->in[0], at - (int)c / 8, steps);
    case LANE_SHR:
      if (v->type != LT_B32 || op->kind != LK_U32 || !lane_is_const(op->in[1], &c) || c % 8 || c >= 32) return here;
      return at + (int)c / 8 > 3 ? (Byte){NULL, 0} : follow(op->in[0], at + (int)c / 8, steps);
    case LANE_PRMT: {
      if (!lane_is_const(op->in[2], &c) || (c & 0x8888)) return here;
      int digit = (int)(c >> 4 * at & 7);
      return follow(op->in[digit / 4], digit % 4, steps);
    }
    case LANE_PACK:
      if (v->type == LT_B32 && lane_is_const(op->in[at / 2], &c))
        return (c >> 8 * (at % 2) & 255) == 0 ? (Byte){NULL, 0} : here;
      return here;
    default: return here;
  }
}

/* Halves in order, each the low one of a pack: what cvt2 to fp8 leaves. */
static LaneValue *halves(LaneBuilder *b, const Byte from[4]) {
  for (int i = 0; i < 4; i++)
    if (!from[i].word || !from[i].word->def || from[i].word->def->code != LANE_PACK || from[i].word->type != LT_B32)
      return NULL;
  for (int i = 0; i < 4; i += 2)
    if (from[i].word != from[i + 1].word || from[i].at % 2 || from[i + 1].at != from[i].at + 1) return NULL;
  return lane_pack(b, from[0].word->def->in[from[0].at / 2], from[2].word->def->in[from[2].at / 2]);
}

LaneValue *lane_fold_bytes(LaneBuilder *b, LaneValue *const in[3]) {
  uint64_t selector;
  if (!lane_is_const(in[2], &selector) || (selector & 0x8888)) return NULL;
  Byte from[4];
  LaneValue *word[2] = {NULL, NULL};
  bool zero = false, in_order = true;
  int words = 0;
  uint32_t wanted = 0;
  for (int i = 0; i < 4; i++) {
    int digit = (int)(selector >> 4 * i & 7);
    int steps = MOST_STEPS;
    from[i] = follow(in[digit / 4], digit % 4, &steps);
    int k = 0;
    while (k < words && word[k] != from[i].word) k++;
    if (!from[i].word) {
      zero = true;
    } else if (k == words) {
      if (words == 2) return NULL;
      word[words++] = from[i].word;
    }
    in_order = in_order && from[i].word == from[0].word && from[i].at == i;
  }
  if (words == 0) return lane_i32(b, 0);
  if (in_order) return word[0];
  LaneValue *whole = halves(b, from);
  if (whole) return whole;
  if (words + zero > 2) return NULL;
  LaneValue *second = words == 2 ? word[1] : zero ? lane_i32(b, 0) : word[0];
  for (int i = 0; i < 4; i++) {
    int digit = from[i].word == word[0] ? from[i].at : from[i].word ? 4 + from[i].at : 4;
    wanted |= (uint32_t)digit << 4 * i;
  }
  if (word[0] == in[0] && second == in[1] && wanted == (selector & 0xffff)) return NULL;
  return lane_3(b, LANE_PRMT, LK_B32, word[0], second, lane_const(b, LT_B32, wanted));
}
