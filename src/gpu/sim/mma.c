/* Products of a warp (mma), and what those of warpgroups (sim/async.c) share with them: elements as numbers, and sums.
 *
 * A lane's words hold neighbours along k, as PTX's description of mma.m16n8kK spreads them, whatever the type. Products
 * of two elements are exact in the type of the sums, f64's aside; they are added in the order of k, as by the
 * interpreter. Of an f32 operand the hardware takes the upper 19 bits (tf32) and leaves the others alone.
 */
#include "gpu/sim/sim_plan.h"

#include <math.h>

enum { TF32_DROPS = 13 };

int sim_numbers(LaneKind k, const void *from, int bytes, float *out) {
  const uint8_t *p = from;
  int size = 4 >> lane_mma_pack(k), n = bytes / size;
  for (int i = 0; i < n; i++, p += size) {
    uint16_t half = 0;
    uint32_t word = 0;
    if (size == 2) memcpy(&half, p, 2);
    if (size == 4) memcpy(&word, p, 4);
    switch (k) {
      case LK_F16: out[i] = f16_to_f32(half); break;
      case LK_BF16: out[i] = bf16_to_f32(half); break;
      case LK_S8: out[i] = (int8_t)*p; break;
      case LK_U8: out[i] = *p; break;
      case LK_E4M3X2: out[i] = f8_to_f32(DT_F8E4NV, *p); break;
      case LK_E5M2X2: out[i] = f8_to_f32(DT_F8E5, *p); break;
      default:
        word &= ~0u << TF32_DROPS;
        memcpy(&out[i], &word, 4);
        break;
    }
  }
  return n;
}

uint32_t sim_add_products(LaneKind sum, uint32_t acc, int n, const float *a, const float *x) {
  float total;
  if (sum == LK_S32) {
    for (int i = 0; i < n; i++) acc += (uint32_t)(int32_t)(a[i] * x[i]);
    return acc;
  }
  memcpy(&total, &acc, 4);
  for (int i = 0; i < n; i++) total += a[i] * x[i];
  memcpy(&acc, &total, 4);
  return acc;
}

static double as_double(uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static void multiply_f64(SimRun *r, const SimOp *o, int w) {
  double a[16][8], x[8][8]; /* x by column */
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 6; i++) {
      double v = as_double(sim_get(r, o->in[i], LT_B64, 32 * w + lane));
      if (i < 4) a[lane / 4 + 8 * (i & 1)][lane % 4 + 4 * (i >> 1)] = v;
      else x[lane / 4][lane % 4 + 4 * (i - 4)] = v;
    }
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++) {
      double sum = as_double(sim_get(r, o->in[6 + i], LT_B64, 32 * w + lane));
      for (int k = 0; k < 8; k++) sum = fma(a[lane / 4 + 8 * (i >> 1)][k], x[2 * (lane % 4) + (i & 1)][k], sum);
      uint64_t bits;
      memcpy(&bits, &sum, sizeof bits);
      sim_set(r, o->out[i], LT_B64, 32 * w + lane, bits);
    }
}

void sim_mma(SimRun *r, const SimOp *o, int w) {
  const LaneOp *op = o->op;
  if (op->kind == LK_F64) {
    multiply_f64(r, o, w);
    return;
  }
  LaneKind other = lane_mma_other(op), sum = lane_mma_sum(op->kind);
  int n = 1 << lane_mma_pack(op->kind); /* elements of a word */
  float a[16][32], x[8][32];            /* x by column */
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 6; i++) {
      uint32_t word = (uint32_t)sim_get(r, o->in[i], LT_B32, 32 * w + lane);
      if (i < 4) sim_numbers(op->kind, &word, 4, &a[lane / 4 + 8 * (i & 1)][n * (lane % 4 + 4 * (i >> 1))]);
      else sim_numbers(other, &word, 4, &x[lane / 4][n * (lane % 4 + 4 * (i - 4))]);
    }
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++) {
      uint32_t acc = (uint32_t)sim_get(r, o->in[6 + i], LT_B32, 32 * w + lane);
      acc = sim_add_products(sum, acc, 8 * n, a[lane / 4 + 8 * (i >> 1)], x[2 * (lane % 4) + (i & 1)]);
      sim_set(r, o->out[i], LT_B32, 32 * w + lane, acc);
    }
}
