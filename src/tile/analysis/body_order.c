/* What a reduction's body allows: in which order elements may be combined.
 *
 *     symmetric   exchanging the operands leaves every bit of the results as it is: one commutative operation for each
 *                 tensor. Two lanes that combine the same elements, each its own first, have the same.
 *     free        elements may be combined in any order, up to rounding; but who is first may show in the last bit, or
 *                 for NaN: argmax, Welford's variance.
 *     ordered     neither is known: neighbours only, the lower index first.
 *
 * Symmetry is read off the operations. Freedom is not so easily seen in (a > b) | ((a == b) & (i < j)); but it is
 * easily tried: the body is computed for some pairs of operands both ways round, among them many equal ones and zeros.
 * A body that is associative, as it must be, and gives the same both ways for all of these is taken to commute. (Triton
 * takes all bodies to.)
 */
#include "tile/tile.h"

#include <math.h>

enum { MOST_VALUES = 128, TRIALS = 48 };

OpCode tile_body_single(const Op *op) {
  const Block *body = op->body[0];
  const Op *first = body->first;
  if (op->in_count != 1 || !first || first->next != body->last || first->in_count != 2 ||
      body->last->in[0] != first->out[0])
    return OP_COUNT;
  bool forward = first->in[0] == body->args[0] && first->in[1] == body->args[1];
  bool back = first->in[1] == body->args[0] && first->in[0] == body->args[1];
  return forward || back ? first->code : OP_COUNT;
}

static bool is_symmetric(const Op *op) {
  const Block *body = op->body[0];
  int k = op->in_count;
  for (int i = 0; i < k; i++) {
    const Op *made = body->last->in[i]->def;
    if (!made || made->in_count != 2 || made->block != body) return false;
    const Value *a = body->args[i], *b = body->args[k + i];
    if (!((made->in[0] == a && made->in[1] == b) || (made->in[0] == b && made->in[1] == a))) return false;
    switch (made->code) {
      case OP_ADD:
      case OP_MUL:
      case OP_MIN:
      case OP_MAX:
      case OP_AND:
      case OP_OR:
      case OP_XOR: break;
      default: return false;
    }
  }
  return true;
}

/* ---- trying ------------------------------------------------------------------------------------------------------ */

typedef struct AbstractValue {
  const Value *of[MOST_VALUES];
  Scalar is[MOST_VALUES];
  int n;
} AbstractValue;

static bool know(AbstractValue *k, const Value *v, Scalar s) {
  if (k->n == MOST_VALUES || v->type->rank || v->type->ptr) return false;
  k->of[k->n] = v;
  k->is[k->n++] = s;
  return true;
}

static uint64_t next_random(uint64_t *state) { return hash_number(*state += 0x9E3779B97F4A7C15u); }

static Scalar draw(Dtype t, bool small, uint64_t *state) {
  uint64_t x = next_random(state);
  int few = (int)(x >> 8 & 7) - 2;
  if (dtype_is_float(t)) {
    char memory[8] = {0};
    dtype_store_float(t, memory, small ? few : (double)(x >> 40) / (1 << 21) - 4);
    return scalar_load(t, memory);
  }
  return (Scalar){.i = int_wrap(t, small ? few : (int64_t)(x >> 20))};
}

/* Values from outside the body are constants, or any number, the same for both ways round. */
static bool look_up(AbstractValue *k, const Value *v, uint64_t *state, Scalar *out) {
  for (int i = 0; i < k->n; i++)
    if (k->of[i] == v) {
      *out = k->is[i];
      return true;
    }
  if (v->type->ptr || v->type->rank) return false;
  Dtype t = v->type->dtype;
  if (v->def && v->def->code == OP_CONST)
    *out = dtype_is_float(t) ? (Scalar){.f = v->def->number} : (Scalar){.i = v->def->value};
  else *out = draw(t, true, state);
  return know(k, v, *out);
}

static bool evaluate(const Op *op, AbstractValue *k, uint64_t *state) {
  Scalar in[4], out;
  Dtype types[4];
  if (op->out_count != 1 || op->in_count > 4 || op->body[0]) return false;
  for (int i = 0; i < op->in_count; i++) {
    if (!look_up(k, op->in[i], state, &in[i])) return false;
    types[i] = op->in[i]->type->dtype;
  }
  Dtype t = op->out[0]->type->dtype;
  switch (op->code) {
    case OP_CONST: return look_up(k, op->out[0], state, &out);
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_DIV:
    case OP_REM:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_SHL:
    case OP_SHR:
    case OP_MIN:
    case OP_MAX:
    case OP_MULHI: out = scalar_binary(op->code, t, in[0], in[1], op->variant); break;
    case OP_NEG:
    case OP_NOT:
    case OP_ABS: out = scalar_unary(op->code, t, in[0]); break;
    case OP_FMA: out = scalar_fma(t, in[0], in[1], in[2]); break;
    case OP_MATH: out = scalar_math((MathFn)op->fn, types, t, in); break;
    case OP_CMP: out = (Scalar){.i = scalar_cmp((CmpPred)op->pred, types[0], in[0], in[1])}; break;
    case OP_SELECT: out = in[0].i & 1 ? in[1] : in[2]; break;
    case OP_CONVERT: out = scalar_convert(types[0], t, (int)op->rounding, in[0]); break;
    case OP_BITCAST: out = scalar_bitcast(types[0], t, in[0]); break;
    default: return false;
  }
  return know(k, op->out[0], out);
}

static bool same(Dtype t, Scalar x, Scalar y) {
  if (!dtype_is_float(t)) return x.i == y.i;
  if (x.f == y.f || (x.f != x.f && y.f != y.f)) return true;
  double most = fmax(fabs(x.f), fabs(y.f)), bits = t == DT_F64 || t == DT_F32 ? 1e-4 : 0.1;
  return isfinite(most) && fabs(x.f - y.f) <= bits * fmax(most, 1);
}

/* The body of k pairs both ways round; false also where it cannot be told. */
static bool tries_out(const Op *op, uint64_t *state, bool small) {
  const Block *body = op->body[0];
  int k = op->in_count;
  Scalar a[32], b[32], results[2][32];
  if (k > 32) return false;
  for (int i = 0; i < k; i++) {
    const Type *t = body->args[i]->type;
    if (t->ptr) return false;
    a[i] = draw(t->dtype, small, state);
    b[i] = draw(t->dtype, small, state);
  }
  uint64_t outside = *state;
  for (int way = 0; way < 2; way++) {
    AbstractValue known = {.n = 0};
    *state = outside;
    for (int i = 0; i < k; i++)
      if (!know(&known, body->args[i], way ? b[i] : a[i]) || !know(&known, body->args[k + i], way ? a[i] : b[i]))
        return false;
    for (const Op *o = body->first; o != body->last; o = o->next)
      if (!evaluate(o, &known, state)) return false;
    for (int i = 0; i < k; i++)
      if (!look_up(&known, body->last->in[i], state, &results[way][i])) return false;
  }
  for (int i = 0; i < k; i++)
    if (!same(body->args[i]->type->dtype, results[0][i], results[1][i])) return false;
  return true;
}

BodyOrder tile_body_order(const Op *op) {
  if (is_symmetric(op)) return BODY_SYMMETRIC;
  uint64_t state = 1;
  for (int i = 0; i < TRIALS; i++)
    if (!tries_out(op, &state, i % 3 != 2)) return BODY_ORDERED;
  return BODY_FREE;
}
