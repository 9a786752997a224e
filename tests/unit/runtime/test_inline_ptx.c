/* Inline PTX without a GPU: every instruction of tile/asm/instructions.def on the interpreter, compiled C and the
 * simulator, against what the PTX ISA's definition gives when written down here in plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "gpu/gpu.h"
#include "interp/interp.h"
#include "tile/asm/asm.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

/* ---- numbers as bits ---- */

static float f(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float v;
  memcpy(&v, &low, 4);
  return v;
}
static uint32_t fb(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}
static double d(uint64_t bits) {
  double v;
  memcpy(&v, &bits, 8);
  return v;
}
static uint64_t db(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}
static float h(uint64_t bits) { return f16_to_f32((uint16_t)bits); }
static float bf(uint64_t bits) { return bf16_to_f32((uint16_t)bits); }
static uint32_t hb(double v) {
  uint16_t bits;
  dtype_store_float(DT_F16, &bits, v);
  return bits;
}
static uint32_t bfb(double v) {
  uint16_t bits;
  dtype_store_float(DT_BF16, &bits, v);
  return bits;
}
static uint64_t two(uint32_t low, uint32_t high) { return (low & 0xffff) | high << 16; }

/* x op y, rounded as mode says. */
static float rounded(int mode, char op, float x, float y, float z) {
  volatile float a = x, b = y, c = z, r;
  fesetround(mode);
  r = op == '+'   ? a + b
      : op == '-' ? a - b
      : op == '*' ? a * b
      : op == '/' ? a / b
      : op == 's' ? sqrtf(a)
                  : fmaf(a, b, c);
  fesetround(FE_TONEAREST);
  return r;
}
static float to_f32(int mode, double x) {
  volatile double a = x;
  fesetround(mode);
  volatile float r = (float)a;
  fesetround(FE_TONEAREST);
  return r;
}
static float int_to_f32(int mode, int64_t x) {
  volatile int64_t a = x;
  fesetround(mode);
  volatile float r = (float)a;
  fesetround(FE_TONEAREST);
  return r;
}
static float flush(float v) { return fabsf(v) < 0x1p-126f ? copysignf(0, v) : v; }
static float sat(float v) { return v > 0 ? v < 1 ? v : 1 : 0; }
static float relu(float v) { return isnan(v) ? v : v > 0 ? v : 0; }
static float least(float x, float y) {
  return isnan(x) ? y : isnan(y) ? x : x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}
static float greatest(float x, float y) { return -least(-x, -y); }
static float xorsign(float x, float y, int max) {
  float a = fabsf(x), b = fabsf(y), r = isnan(a) || isnan(b) ? NAN : max ? greatest(a, b) : least(a, b);
  return (signbit(x) != 0) != (signbit(y) != 0) ? -r : r;
}
/* An f32 as a half, in the direction of mode: by the two neighbours. */
static uint32_t half_by(int mode, float v, bool b16) {
  uint32_t r = b16 ? bfb(v) : hb(v);
  float got = b16 ? bf(r) : h(r);
  if (isnan(v) || got == v) return r;
  bool negative = signbit(v), out = mode == FE_UPWARD ? !negative : mode == FE_DOWNWARD ? negative : false;
  if (out && fabsf(got) < fabsf(v)) r++;
  if (!out && fabsf(got) > fabsf(v)) r--;
  return r;
}
static int64_t clamp(double v, double low, double high, int64_t nan) {
  if (isnan(v)) return nan;
  return v <= low    ? (int64_t)low
         : v >= high ? (high > 9e18 ? (high > 1e19 ? -1 : INT64_MAX) : (int64_t)high)
                     : (int64_t)v;
}
static uint32_t tf32(float v, int how) {
  uint32_t b = fb(v);
  if (isnan(v)) return 0x7fffffff;
  if (isinf(v)) return b;
  uint32_t cut = b & ~0x1fffu, rest = b & 0x1fff;
  if (how == 'a' && rest >= 0x1000) cut += 0x2000;
  if (how == 'n' && (rest > 0x1000 || (rest == 0x1000 && cut & 0x2000))) cut += 0x2000;
  return cut;
}
static uint32_t e2m1(float v) {
  static const float value[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  float a = fminf(fabsf(v), 6);
  if (isnan(v)) return 7;
  int best = 0;
  for (int k = 1; k < 8; k++) {
    float near = fabsf(a - value[best]), here = fabsf(a - value[k]);
    if (here < near || (here == near && !(k & 1))) best = k;
  }
  return (uint32_t)best | (signbit(v) ? 8 : 0);
}
static uint32_t from_e2m1(uint32_t code) {
  static const float value[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return hb(code & 8 ? -value[code & 7] : value[code & 7]);
}
static uint32_t fp8(int t, float v) { return isnan(v) ? 0x7f : f32_to_f8(t ? DT_F8E5 : DT_F8E4NV, v); }

/* ---- bits, as the ISA's loops have them ---- */

static uint64_t bfe(uint64_t a, uint64_t b, uint64_t c, int bits, bool sign) {
  int pos = b & 0xff, len = c & 0xff, msb = bits - 1, last = pos + len - 1 < msb ? pos + len - 1 : msb;
  uint64_t s = !sign || !len ? 0 : a >> last & 1, r = 0;
  for (int i = 0; i <= msb; i++) r |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : s) << i;
  return r;
}
static uint64_t bfi(uint64_t a, uint64_t b, int pos, int len, int bits) {
  for (int i = 0; i < len && pos + i < bits; i++) b = (b & ~(1ull << (pos + i))) | (a >> i & 1) << (pos + i);
  return b;
}
static uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, int table) {
  uint32_t r = 0;
  for (int i = 0; i < 32; i++) r |= (uint32_t)(table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
  return r;
}
static uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t all = a | (uint64_t)b << 32;
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t n = selector >> 4 * i & 15, byte = all >> 8 * (n & 7) & 0xff;
    r |= (n & 8 ? byte & 0x80 ? 0xffu : 0 : byte) << 8 * i;
  }
  return r;
}
static uint32_t bfind(uint64_t a, int bits, bool sign, bool amount) {
  if (sign && a >> (bits - 1) & 1) a = ~a;
  for (int i = bits - 1; i >= 0; i--)
    if (a >> i & 1) return (uint32_t)(amount ? bits - 1 - i : i);
  return UINT32_MAX;
}
static uint32_t fns(uint32_t mask, uint32_t base, int32_t n) {
  if (!n) return mask >> base & 1 ? base : UINT32_MAX;
  int64_t left = n < 0 ? -(int64_t)n : n;
  for (int64_t at = base; at >= 0 && at < 32; at += n < 0 ? -1 : 1)
    if (mask >> at & 1 && !--left) return (uint32_t)at;
  return UINT32_MAX;
}
static uint32_t szext(uint32_t a, uint32_t b, bool sign, bool wrap) {
  uint32_t n = b & 31;
  bool too_large = b >= 32 && !wrap;
  uint32_t mask = too_large ? 0 : UINT32_MAX << n;
  bool bit = n && !too_large && sign && a >> (n - 1) & 1;
  return (a & ~mask) | (bit ? mask : 0);
}
static uint32_t bmsk(uint32_t a, uint32_t b, bool wrap) {
  uint32_t sum = (a & 31) + (b & 31), from = a >= 32 && !wrap ? 0 : UINT32_MAX << (a & 31);
  bool over = sum >= 32 || (!wrap && (a >= 32 || b >= 32));
  return from & ~(over ? 0 : UINT32_MAX << sum);
}
static int64_t low24(uint64_t a, bool sign) {
  return sign ? (int32_t)(uint32_t)(a << 8) >> 8 : (int64_t)(a & 0xffffff);
}
static uint64_t brev(uint64_t a, int bits) {
  uint64_t r = 0;
  for (int i = 0; i < bits; i++) r |= (a >> i & 1) << (bits - 1 - i);
  return r;
}
static uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, bool sign) {
  for (int i = 0; i < 4; i++)
    c += sign ? (uint32_t)((int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i)) : (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
  return c;
}
static uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, int from) {
  for (int i = 0; i < 2; i++) c += (uint32_t)((int16_t)(a >> 16 * i) * (int8_t)(b >> 8 * (i + from)));
  return c;
}
static uint64_t shl(uint64_t a, uint32_t n, int bits) { return n >= (uint32_t)bits ? 0 : a << n; }
static int64_t sar(int64_t a, uint32_t n, int bits) { return a >> (n >= (uint32_t)bits ? bits - 1 : (int)n); }
static uint32_t funnel(uint32_t a, uint32_t b, uint32_t n, bool left) { /* n at most 32 */
  uint64_t both = (uint64_t)b << 32 | a;
  return n == 32 ? (left ? a : b) : left ? (uint32_t)(both << n >> 32) : (uint32_t)(both >> n);
}
static int32_t add_sat(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v; }

/* ---- the table ---- */

/* How a result is compared: by its bits; as f32, f64, two f16, two bf16, whose NaNs are all alike; nearly, as f32 or
 * two f16. */
typedef enum { B, F, D, H, BH, NEAR, NEARH } Kind;

#define S32(x) ((int32_t)(x))
/* X(kind, what it says of width: r or l, results r or l or h, text; expected of a, b, c). Operands are $1, $2, $3. */
#define CASES(X) \
  X(B, r, "add.u32 $0, $1, $2;", a + b) \
  X(B, l, "add.s64 $0, $1, $2;", a + b) \
  X(B, r, "{ .reg .b16 x<3>; mov.b32 {x0, _}, $1; mov.b32 {x1, _}, $2; sub.s16 x2, x0, x1; cvt.s32.s16 $0, x2; }", \
    (int16_t)(a - b)) \
  X(B, r, "add.sat.s32 $0, $1, $2;", add_sat((int64_t)S32(a) + S32(b))) \
  X(B, r, "sub.sat.s32 $0, $1, $2;", add_sat((int64_t)S32(a) - S32(b))) \
  X(B, r, "mul.lo.s32 $0, $1, $2;", a *b) \
  X(B, r, "mul.hi.s32 $0, $1, $2;", (uint64_t)((int64_t)S32(a) * S32(b)) >> 32) \
  X(B, r, "mul.hi.u32 $0, $1, $2;", (uint64_t)(uint32_t)a *(uint32_t)b >> 32) \
  X(B, l, "mul.hi.u64 $0, $1, $2;", (uint64_t)((unsigned __int128)a * b >> 64)) \
  X(B, r, "{ .reg .b64 w; .reg .b32 lo, hi; mul.wide.s32 w, $1, $2; mov.b64 {lo, hi}, w; xor.b32 $0, lo, hi; }", \
    (uint32_t)((int64_t)S32(a) * S32(b)) ^ (uint64_t)((int64_t)S32(a) * S32(b)) >> 32) \
  X(B, r, "{ .reg .b16 x, y; mov.b32 {x, _}, $1; mov.b32 {y, _}, $2; mad.wide.u16 $0, x, y, $3; }", \
    (a & 0xffff) * (b & 0xffff) + c) \
  X(B, r, "mul24.lo.u32 $0, $1, $2;", (a & 0xffffff) * (b & 0xffffff)) \
  X(B, r, "mad.lo.u32 $0, $1, $2, $3;", a *b + c) \
  X(B, r, "mad.hi.s32 $0, $1, $2, $3;", ((uint64_t)((int64_t)S32(a) * S32(b)) >> 32) + c) \
  X(B, r, "sad.s32 $0, $1, $2, $3;", c + (S32(a) < S32(b) ? b - a : a - b)) \
  X(B, r, "{ .reg .b32 o; or.b32 o, $2, 1; div.u32 $0, $1, o; }", (uint32_t)a / (uint32_t)(b | 1)) \
  X(B, r, "{ .reg .b32 o; or.b32 o, $2, 1; rem.s32 $0, $1, o; }", (int64_t)S32(a) % S32(b | 1)) \
  X(B, r, "min.s32 $0, $1, $2;", S32(a) < S32(b) ? a : b) \
  X(B, r, "max.u32 $0, $1, $2;", (uint32_t)a > (uint32_t)b ? a : b) \
  X(B, r, "max.relu.s32 $0, $1, $2;", S32(a) < 0 && S32(b) < 0 ? 0 : S32(a) > S32(b) ? a : b) \
  X(B, r, "min.s16x2 $0, $1, $2;", \
    two((int16_t)a < (int16_t)b ? a : b, (int16_t)(a >> 16) < (int16_t)(b >> 16) ? a >> 16 : b >> 16)) \
  X(B, r, "abs.s32 $0, $1;", S32(a) < 0 ? 0 - a : a) \
  X(B, l, "neg.s64 $0, $1;", 0 - a) \
  X(B, l, \
    "{ .reg .b32 al, ah, bl, bh; mov.b64 {al, ah}, $1; mov.b64 {bl, bh}, $2; add.cc.u32 al, al, bl; addc.u32 ah, ah, " \
    "bh;" \
    " mov.b64 $0, {al, ah}; }", \
    a + b) \
  X(B, l, \
    "{ .reg .b32 al, ah, bl, bh; mov.b64 {al, ah}, $1; mov.b64 {bl, bh}, $2; sub.cc.u32 al, al, bl; subc.u32 ah, ah, " \
    "bh;" \
    " mov.b64 $0, {al, ah}; }", \
    a - b) \
  X(B, l, \
    "{ .reg .b32 al, ah, bl, bh, p<4>; mov.b64 {al, ah}, $1; mov.b64 {bl, bh}, $2; mul.lo.u32 p0, al, bl;" \
    " mul.hi.u32 p1, al, bl; mad.lo.cc.u32 p1, al, bh, p1; madc.hi.u32 p2, al, bh, 0; mad.lo.cc.u32 p1, ah, bl, p1;" \
    " madc.hi.cc.u32 p2, ah, bl, p2; mov.b64 $0, {p0, p1}; }", \
    a *b) \
  X(F, r, "add.f32 $0, $1, $2;", fb(f(a) + f(b))) \
  X(F, r, "add.rn.ftz.f32 $0, $1, $2;", fb(flush(flush(f(a)) + flush(f(b))))) \
  X(F, r, "add.rz.f32 $0, $1, $2;", fb(rounded(FE_TOWARDZERO, '+', f(a), f(b), 0))) \
  X(F, r, "sub.rm.f32 $0, $1, $2;", fb(rounded(FE_DOWNWARD, '-', f(a), f(b), 0))) \
  X(F, r, "mul.rp.f32 $0, $1, $2;", fb(rounded(FE_UPWARD, '*', f(a), f(b), 0))) \
  X(F, r, "mul.sat.f32 $0, $1, $2;", fb(sat(f(a) * f(b)))) \
  X(F, r, "{ .reg .f32 p; mul.rn.f32 p, $1, $2; add.rn.f32 $0, p, $3; }", \
    fb(rounded(FE_TONEAREST, '+', f(a) * f(b), f(c), 0))) \
  X(F, r, "fma.rn.f32 $0, $1, $2, $3;", fb(fmaf(f(a), f(b), f(c)))) \
  X(F, r, "fma.rz.f32 $0, $1, $2, $3;", fb(rounded(FE_TOWARDZERO, 'f', f(a), f(b), f(c)))) \
  X(F, r, "mad.rn.f32 $0, $1, $2, $3;", fb(fmaf(f(a), f(b), f(c)))) \
  X(D, l, "fma.rn.f64 $0, $1, $2, $3;", db(fma(d(a), d(b), d(c)))) \
  X(D, l, "add.f64 $0, $1, 0d3FF8000000000000;", db(d(a) + 1.5)) \
  X(F, r, "div.rn.f32 $0, $1, $2;", fb(f(a) / f(b))) \
  X(F, r, "div.rp.f32 $0, $1, $2;", fb(rounded(FE_UPWARD, '/', f(a), f(b), 0))) \
  X(NEAR, r, "div.full.f32 $0, $1, $2;", fb(f(a) / f(b))) \
  X(F, r, "min.f32 $0, $1, $2;", fb(least(f(a), f(b)))) \
  X(F, r, "max.f32 $0, $1, $2;", fb(greatest(f(a), f(b)))) \
  X(F, r, "max.f32 $0, $1, $2, $3;", fb(greatest(greatest(f(a), f(b)), f(c)))) \
  X(F, r, "min.NaN.f32 $0, $1, $2;", fb(isnan(f(a)) || isnan(f(b)) ? NAN : least(f(a), f(b)))) \
  X(F, r, "min.NaN.xorsign.abs.f32 $0, $1, $2;", fb(xorsign(f(a), f(b), 0))) \
  X(F, r, "max.NaN.xorsign.abs.f32 $0, $1, $2;", fb(xorsign(f(a), f(b), 1))) \
  X(B, r, "{ .reg .f32 t; abs.f32 t, $1; mov.b32 $0, t; }", a & 0x7fffffff) \
  X(F, r, "neg.ftz.f32 $0, $1;", fb(-flush(f(a)))) \
  X(B, r, "copysign.f32 $0, $1, $2;", (a & 0x80000000) | (b & 0x7fffffff)) \
  X(F, r, "rcp.rn.f32 $0, $1;", fb(1 / f(a))) \
  X(NEAR, r, "rcp.approx.ftz.f32 $0, $1;", fb(flush(1 / flush(f(a))))) \
  X(F, r, "sqrt.rm.f32 $0, $1;", fb(rounded(FE_DOWNWARD, 's', f(a), 0, 0))) \
  X(D, l, "sqrt.rn.f64 $0, $1;", db(sqrt(d(a)))) \
  X(NEAR, r, "rsqrt.approx.f32 $0, $1;", fb((float)(1 / sqrt(f(a))))) \
  X(NEAR, r, "ex2.approx.ftz.f32 $0, $1;", fb(flush((float)exp2(flush(f(a)))))) \
  X(NEAR, r, "lg2.approx.f32 $0, $1;", fb((float)log2(f(a)))) \
  X(NEAR, r, "tanh.approx.f32 $0, $1;", fb((float)tanh(f(a)))) \
  X(NEAR, r, "{ .reg .f32 t; min.f32 t, $1, 100.0; max.f32 t, t, -100.0; sin.approx.f32 $0, t; }", \
    fb((float)sin(greatest(least(f(a), 100), -100)))) \
  X(NEAR, r, "{ .reg .f32 t; min.f32 t, $1, 1.0E2; max.f32 t, t, -100.0; cos.approx.f32 $0, t; }", \
    fb((float)cos(greatest(least(f(a), 100), -100)))) \
  X(NEARH, r, "tanh.approx.f16x2 $0, $1;", two(hb(tanh(h(a))), hb(tanh(h(a >> 16))))) \
  X(H, r, "add.f16x2 $0, $1, $2;", two(hb(h(a) + h(b)), hb(h(a >> 16) + h(b >> 16)))) \
  X(H, r, "mul.rn.sat.f16x2 $0, $1, $2;", two(hb(sat(h(a) * h(b))), hb(sat(h(a >> 16) * h(b >> 16))))) \
  X(H, r, "fma.rn.relu.f16x2 $0, $1, $2, 0x3c00c000;", \
    two(hb(relu((float)((double)h(a) * h(b) - 2))), hb(relu((float)((double)h(a >> 16) * h(b >> 16) + 1))))) \
  X(BH, r, "mul.bf16x2 $0, $1, $2;", two(bfb((double)bf(a) * bf(b)), bfb((double)bf(a >> 16) * bf(b >> 16)))) \
  X(BH, r, "max.NaN.bf16x2 $0, $1, $2;", \
    two(isnan(bf(a)) || isnan(bf(b)) ? 0x7fff : bfb(greatest(bf(a), bf(b))), \
        isnan(bf(a >> 16)) || isnan(bf(b >> 16)) ? 0x7fff : bfb(greatest(bf(a >> 16), bf(b >> 16))))) \
  X(BH, r, "neg.bf16x2 $0, $1;", a ^ 0x80008000) \
  X(F, l, "{ .reg .b64 t; add.rn.f32x2 t, $1, $2; mov.b64 {$0, _}, t; }", fb(f(a) + f(b))) \
  X(B, r, "{ .reg .pred p; testp.subnormal.f32 p, $1; selp.u32 $0, 1, 0, p; }", f(a) != 0 && fabsf(f(a)) < 0x1p-126f) \
  X(B, r, "{ .reg .pred p; testp.normal.f32 p, $1; selp.u32 $0, 1, 0, p; }", isnormal(f(a)) != 0) \
  X(B, r, "{ .reg .pred p; setp.ne.f32 p, $1, $2; selp.b32 $0, $1, $3, p; }", f(a) < f(b) || f(a) > f(b) ? a : c) \
  X(B, r, "{ .reg .pred p, q; setp.ltu.f32 p|q, $1, $2; selp.u32 $0, 1, 2, p; @q add.u32 $0, $0, 4; }", \
    !(f(a) >= f(b)) ? 1 : 6) \
  X(B, r, "{ .reg .pred p, q; setp.gt.s32 p, $1, $2; setp.lo.and.u32 q, $1, $3, p; selp.u32 $0, 1, 0, q; }", \
    S32(a) > S32(b) && (uint32_t)a < (uint32_t)c) \
  X(B, r, "{ .reg .pred p, q; setp.nan.f32 p, $1, $2; not.pred q, p; and.pred q, q, !p; selp.u32 $0, 1, 0, q; }", \
    !isnan(f(a)) && !isnan(f(b))) \
  X(B, r, "set.ge.u32.f32 $0, $1, $2;", f(a) >= f(b) ? 0xffffffff : 0) \
  X(B, r, "{ .reg .f32 t; set.eq.f32.s32 t, $1, $2; mov.b32 $0, t; }", (uint32_t)a == (uint32_t)b ? 0x3f800000 : 0) \
  X(B, r, "slct.b32.s32 $0, $1, $2, $3;", S32(c) >= 0 ? a : b) \
  X(B, r, "slct.u32.f32 $0, $1, $2, $3;", f(c) >= 0 ? a : b) \
  X(B, r, "{ .reg .pred p; setp.eq.f16x2 p|_, $1, $2; selp.u32 $0, 1, 0, p; }", h(a) == h(b)) \
  X(B, r, "and.b32 $0, $1, 0x0F0F0F0F;", a & 0x0f0f0f0f) \
  X(B, l, "or.b64 $0, $1, $2;", a | b) \
  X(B, r, "xor.b32 $0, $1, 0b1010;", a ^ 10) \
  X(B, r, "not.b32 $0, $1;", ~a) \
  X(B, r, "cnot.b32 $0, $1;", (uint32_t)a == 0) \
  X(B, r, "lop3.b32 $0, $1, $2, $3, 0xea;", lop3(a, b, c, 0xea)) \
  X(B, r, "lop3.b32 $0, $1, $2, $3, 0x1b;", lop3(a, b, c, 0x1b)) \
  X(B, r, "lop3.b32 $0, $1, $2, $3, 0x96;", lop3(a, b, c, 0x96)) \
  X(B, r, "lop3.b32 $0, $1, $2, $3, 0x2d;", lop3(a, b, c, 0x2d)) \
  X(B, r, "shl.b32 $0, $1, $2;", shl(a, b, 32)) \
  X(B, l, "{ .reg .b32 n; cvt.u32.u64 n, $2; shl.b64 $0, $1, n; }", shl(a, b, 64)) \
  X(B, r, "shr.s32 $0, $1, $2;", sar(S32(a), b, 32)) \
  X(B, r, "shr.u32 $0, $1, 5;", (uint32_t)a >> 5) \
  X(B, r, "{ .reg .b16 x; mov.b32 {x, _}, $1; shr.s16 x, x, $2; cvt.u32.u16 $0, x; }", \
    (uint16_t)sar((int16_t)a, b, 16)) \
  X(B, r, "shf.l.wrap.b32 $0, $1, $2, $3;", funnel(a, b, c & 31, true)) \
  X(B, r, "shf.r.wrap.b32 $0, $1, $2, $3;", funnel(a, b, c & 31, false)) \
  X(B, r, "shf.l.clamp.b32 $0, $1, $2, $3;", funnel(a, b, (uint32_t)c > 32 ? 32 : (uint32_t)c, true)) \
  X(B, r, "shf.r.clamp.b32 $0, $1, $2, $3;", funnel(a, b, (uint32_t)c > 32 ? 32 : (uint32_t)c, false)) \
  X(B, r, "prmt.b32 $0, $1, $2, 0x7531;", prmt(a, b, 0x7531)) \
  X(B, r, "prmt.b32 $0, $1, $2, 0x9c04;", prmt(a, b, 0x9c04)) \
  X(B, r, "prmt.b32 $0, $1, $2, $3;", prmt(a, b, c)) \
  X(B, r, "prmt.b32.f4e $0, $1, $2, $3;", prmt(a, b, (uint32_t[]){0x3210, 0x4321, 0x5432, 0x6543}[c & 3])) \
  X(B, r, "prmt.b32.b4e $0, $1, $2, 2;", prmt(a, b, 0x7012)) \
  X(B, r, "prmt.b32.rc16 $0, $1, $2, $3;", prmt(a, b, c & 1 ? 0x3232 : 0x1010)) \
  X(B, r, "bfe.u32 $0, $1, $2, $3;", bfe((uint32_t)a, b, c, 32, false)) \
  X(B, r, "bfe.s32 $0, $1, $2, $3;", bfe((uint32_t)a, b, c, 32, true)) \
  X(B, r, "bfe.s32 $0, $1, 8, 8;", bfe((uint32_t)a, 8, 8, 32, true)) \
  X(B, r, "bfi.b32 $0, $1, $2, $3, 7;", bfi((uint32_t)a, (uint32_t)b, c & 0xff, 7, 32)) \
  X(B, r, "bfi.b32 $0, $1, $2, 4, $3;", bfi((uint32_t)a, (uint32_t)b, 4, c & 0xff, 32)) \
  X(B, r, "bfind.u32 $0, $1;", bfind((uint32_t)a, 32, false, false)) \
  X(B, r, "bfind.shiftamt.s32 $0, $1;", bfind((uint32_t)a, 32, true, true)) \
  X(B, r, "{ .reg .b32 n; and.b32 n, $2, 31; fns.b32 $0, $1, n, $3; }", fns(a, b & 31, S32(c))) \
  X(B, r, "{ .reg .b32 n, m; and.b32 n, $2, 31; and.b32 m, $3, 15; sub.s32 m, m, 8; fns.b32 $0, $1, n, m; }", \
    fns(a, b & 31, (int)(c & 15) - 8)) \
  X(B, r, "fns.b32 $0, $1, 3, 2;", fns(a, 3, 2)) \
  X(B, r, "szext.clamp.s32 $0, $1, $2;", szext(a, b, true, false)) \
  X(B, r, "szext.wrap.s32 $0, $1, $2;", szext(a, b, true, true)) \
  X(B, r, "szext.clamp.u32 $0, $1, $2;", szext(a, b, false, false)) \
  X(B, r, "szext.wrap.u32 $0, $1, $2;", szext(a, b, false, true)) \
  X(B, r, "bmsk.clamp.b32 $0, $1, $2;", bmsk(a, b, false)) \
  X(B, r, "bmsk.wrap.b32 $0, $1, $2;", bmsk(a, b, true)) \
  X(B, r, "mad24.lo.u32 $0, $1, $2, $3;", low24(a, false) * low24(b, false) + c) \
  X(B, r, "mad24.hi.s32 $0, $1, $2, $3;", (low24(a, true) * low24(b, true) >> 16) + c) \
  X(B, r, "mad24.hi.sat.s32 $0, $1, $2, $3;", \
    clamp((double)(S32(low24(a, true) * low24(b, true) >> 16) + (int64_t)S32(c)), -0x1p31, 0x1p31 - 1, 0)) \
  X(B, l, "cvta.to.global.u64 $0, $1;", a) \
  X(B, r, "add.u32 $0, $1, (3+4)*2 - WARP_SZ % 5;", a + 12) \
  X(B, r, "{ .reg .pred p; setp.lt.s32 p, $1, 0; selp.u32 $0, 1 << 5 | 3, ~0, !p; }", S32(a) < 0 ? UINT32_MAX : 35) \
  X(F, r, "mov.f32 $0, 1.0 / 3.0 - 2.5e-1;", fb((float)(1.0 / 3.0 - 0.25))) \
  X(B, r, "popc.b32 $0, $1;", __builtin_popcount((uint32_t)a)) \
  X(B, r, "clz.b32 $0, $1;", (uint32_t)a ? __builtin_clz((uint32_t)a) : 32) \
  X(B, r, "brev.b32 $0, $1;", brev((uint32_t)a, 32)) \
  X(B, l, "brev.b64 $0, $1;", brev(a, 64)) \
  X(B, r, "dp4a.s32.s32 $0, $1, $2, $3;", dp4a(a, b, c, true)) \
  X(B, r, "dp4a.u32.u32 $0, $1, $2, $3;", dp4a(a, b, c, false)) \
  X(B, r, "dp2a.hi.s32.s32 $0, $1, $2, $3;", dp2a(a, b, c, 2)) \
  X(B, r, "mov.b32 $0, 0f3F800000;", 0x3f800000) \
  X(B, r, "{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $1; cvt.s32.s8 $0, t2; }", (int8_t)(a >> 16)) \
  X(B, r, "{ .reg .b16 lo, hi; mov.b32 {lo, hi}, $1; mov.b32 $0, {hi, lo}; }", (uint32_t)a >> 16 | a << 16) \
  X(B, r, "{ .reg .b8 t; cvt.u8.u32 t, $1; mov.b32 $0, {t, t, t, t}; }", (a & 0xff) * 0x01010101) \
  X(B, r, "cvt.sat.s8.s32 $0, $1;", S32(a) < -128 ? -128 : S32(a) > 127 ? 127 : S32(a)) \
  X(B, r, "cvt.sat.u8.s32 $0, $1;", S32(a) < 0 ? 0 : S32(a) > 255 ? 255 : S32(a)) \
  X(B, r, "cvt.s16.s32 $0, $1;", (int16_t)a) \
  X(B, r, "cvt.rni.s32.f32 $0, $1;", clamp(nearbyint(f(a)), -0x1p31, 0x1p31 - 1, 0)) \
  X(B, r, "cvt.rzi.u32.f32 $0, $1;", clamp(trunc(f(a)), 0, 0x1p32 - 1, 0)) \
  X(B, r, "cvt.rmi.s8.f32 $0, $1;", clamp(floor(f(a)), -128, 127, 0)) \
  X(B, l, "cvt.rpi.s64.f64 $0, $1;", clamp(ceil(d(a)), -0x1p63, 0x1p63, INT64_MIN)) \
  X(B, l, "cvt.rzi.u64.f64 $0, $1;", \
    d(a) > 0x1p63 && d(a) < 0x1p64 ? (int64_t)((uint64_t)d(a)) : clamp(trunc(d(a)), 0, 0x1p64, INT64_MIN)) \
  X(F, r, "cvt.rmi.f32.f32 $0, $1;", fb(floorf(f(a)))) \
  X(F, r, "cvt.rni.ftz.f32.f32 $0, $1;", fb(nearbyintf(flush(f(a))))) \
  X(F, r, "cvt.sat.f32.f32 $0, $1;", fb(sat(f(a)))) \
  X(F, r, "cvt.rz.f32.s32 $0, $1;", fb(int_to_f32(FE_TOWARDZERO, S32(a)))) \
  X(F, r, "cvt.rp.f32.u32 $0, $1;", fb(int_to_f32(FE_UPWARD, (uint32_t)a))) \
  X(F, r, "cvt.rn.f32.s32 $0, $1;", fb((float)S32(a))) \
  X(F, l, "cvt.rm.f32.f64 $0, $1;", fb(to_f32(FE_DOWNWARD, d(a)))) \
  X(H, r, "cvt.rn.f16.f32 $0, $1;", hb(f(a))) \
  X(H, r, "cvt.rz.f16.f32 $0, $1;", half_by(FE_TOWARDZERO, f(a), false)) \
  X(H, r, "cvt.rp.f16.f32 $0, $1;", half_by(FE_UPWARD, f(a), false)) \
  X(H, r, "cvt.rm.f16.f32 $0, $1;", half_by(FE_DOWNWARD, f(a), false)) \
  X(BH, r, "cvt.rn.relu.bf16.f32 $0, $1;", bfb(relu(f(a)))) \
  X(H, r, "cvt.rn.f16x2.f32 $0, $1, $2;", two(hb(f(b)), hb(f(a)))) \
  X(BH, r, "cvt.rz.bf16x2.f32 $0, $1, $2;", \
    two(half_by(FE_TOWARDZERO, f(b), true), half_by(FE_TOWARDZERO, f(a), true))) \
  X(H, r, "cvt.rn.satfinite.f16x2.f32 $0, $1, $2;", \
    two(hb(fabsf(f(b)) > 65504 ? copysignf(65504, f(b)) : f(b)), \
        hb(fabsf(f(a)) > 65504 ? copysignf(65504, f(a)) : f(a)))) \
  X(F, r, "cvt.rna.tf32.f32 $0, $1;", tf32(f(a), 'a')) \
  X(F, r, "cvt.rn.tf32.f32 $0, $1;", tf32(f(a), 'n')) \
  X(B, r, "{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }", \
    fp8(0, f(b)) | fp8(0, f(a)) << 8) \
  X(B, r, "{ .reg .b16 t; cvt.rn.satfinite.e5m2x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }", \
    fp8(1, f(b)) | fp8(1, f(a)) << 8) \
  X(B, r, "{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f16x2 t, $1; cvt.u32.u16 $0, t; }", \
    fp8(0, h(a)) | fp8(0, h(a >> 16)) << 8) \
  X(H, r, "{ .reg .b16 t; mov.b32 {t, _}, $1; cvt.rn.f16x2.e4m3x2 $0, t; }", \
    two(hb(f8_to_f32(DT_F8E4NV, a & 0xff)), hb(f8_to_f32(DT_F8E4NV, a >> 8 & 0xff)))) \
  X(H, r, "{ .reg .b16 t; mov.b32 {t, _}, $1; cvt.rn.f16x2.e5m2x2 $0, t; }", \
    two(hb(f8_to_f32(DT_F8E5, a & 0xff)), hb(f8_to_f32(DT_F8E5, a >> 8 & 0xff)))) \
  X(B, r, "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, $1, $2; cvt.u32.u8 $0, t; }", e2m1(f(b)) | e2m1(f(a)) << 4) \
  X(B, r, "{ .reg .b8 t; cvt.u8.u32 t, $1; cvt.rn.f16x2.e2m1x2 $0, t; }", \
    two(from_e2m1(a & 15), from_e2m1(a >> 4 & 15))) \
  X(B, r, "cvt.pack.sat.s16.s32 $0, $1, $2;", \
    two((uint32_t)clamp(S32(b), -32768, 32767, 0), (uint32_t)clamp(S32(a), -32768, 32767, 0))) \
  X(B, r, "cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;", \
    (uint32_t)clamp(S32(b), 0, 255, 0) | (uint32_t)clamp(S32(a), 0, 255, 0) << 8 | c << 16) \
  X(B, r, \
    "{ .reg .pred p; setp.lt.s32 p, $1, 0; mov.b32 $0, 7; @p mov.b32 $0, $2; @!p add.u32 $0, $0, $3; /* x */ } // y", \
    S32(a) < 0 ? b : 7 + c) \
  X(B, r, "{ .reg .b32 t; mov.b32 t, 1; { .reg .b32 t; mov.b32 t, 2; } add.u32 $0, t, $1; }", a + 1) \
  X(B, r, "fence.acq_rel.gpu; membar.gl; griddepcontrol.wait; nanosleep.u32 20; mov.u32 $0, 3;", 3)

typedef struct Row {
  Kind kind;
  char width;
  const char *text;
} Row;
#define ROW(kind, width, text, want) {kind, #width[0], text},
static const Row rows[] = {CASES(ROW)};
#undef ROW
enum { ROWS = sizeof rows / sizeof *rows, COUNT = 512 };

static uint64_t expected(int row, uint64_t a, uint64_t b, uint64_t c) {
  int k = 0;
#define WANT(kind, width, text, want) \
  if (row == k++) return (uint64_t)(want);
  CASES(WANT)
#undef WANT
  return 0;
}

/* ---- the kernels ---- */

static uint64_t a64[COUNT], b64[COUNT], c64[COUNT];
static uint32_t a32[COUNT], b32[COUNT], c32[COUNT];

static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return x ^ x >> 31;
}

/* Words that are edges of integers, of floats, of pairs of halves; small numbers; ordinary floats; any bits. */
static uint32_t word(uint64_t *state) {
  static const uint32_t edges[] = {0,          1,          2,          7,          8,          31,         32,
                                   33,         64,         255,        256,        0x7fffffff, 0x80000000, 0x80000001,
                                   0xffffffff, 0xfffffffe, 0x3f800000, 0xbf800000, 0x00000003, 0x007fffff, 0x00800000,
                                   0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x4effffff, 0x4f000000,
                                   0xcf000000, 0x4f800000, 0x42fe0000, 0x437f8000, 0x477fe000, 0x477ff000, 0x33800000,
                                   0x3c003c00, 0x7bff8400, 0x7c00fc00, 0x7e003c01, 0x3f803f81, 0x40200000, 0x40600000,
                                   0x3e800000, 0x3f400000, 0x40a00000, 0xc0a00000, 0x3f801000, 0x3f803000};
  uint64_t r = next_random(state);
  if ((r & 3) == 0) return edges[(r >> 8) % (sizeof edges / sizeof *edges)];
  if ((r & 3) == 1) return fb((float)((int64_t)(r >> 20 & 0xffff) - 0x8000) / 256);
  if ((r & 3) == 2) return (uint32_t)(r >> 32) & 63;
  return (uint32_t)(r >> 32);
}

static uint64_t wide_word(uint64_t *state) {
  static const double edges[] = {0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 -2.5,
                                 1e300,
                                 5e-324,
                                 9223372036854775807.0,
                                 -9223372036854775808.0,
                                 1e19,
                                 18446744073709551616.0};
  uint64_t r = next_random(state);
  if ((r & 3) == 0) return db(r >> 8 & 1 ? (r >> 9 & 1 ? INFINITY : NAN) : edges[(r >> 10) % 12]);
  if ((r & 3) == 1) return db((double)((int64_t)(r >> 20 & 0xffff) - 0x8000) / 256);
  return (r & 3) == 2 ? r >> 58 : next_random(state);
}

static void fill(void) {
  uint64_t state = 1;
  for (int i = 0; i < COUNT; i++) {
    a32[i] = word(&state), b32[i] = word(&state), c32[i] = word(&state);
    a64[i] = wide_word(&state), b64[i] = wide_word(&state), c64[i] = wide_word(&state);
  }
}

enum { BATCH = 32 };

/* Rows [first, first + BATCH): each stores COUNT results, of 8 bytes each, at a place of its own. */
static void kernel_text(Buf *ir, int first, int end) {
  buf_printf(ir,
             "kernel @k(%%a32: *i32, %%b32: *i32, %%c32: *i32, %%a64: *i64, %%b64: *i64, %%c64: *i64, %%o: *i64) {\n"
             "  %%i = arange {start=0, end=%d} : i32[%d]\n",
             COUNT, COUNT);
  for (int w = 32; w <= 64; w += 32)
    for (const char *p = "abc"; *p; p++)
      buf_printf(ir,
                 "  %%s%c%d = splat %%%c%d : *i%d[%d]\n  %%p%c%d = addptr %%s%c%d, %%i : *i%d[%d]\n  %%%c%dv = load "
                 "%%p%c%d : i%d[%d]\n",
                 *p, w, *p, w, w, COUNT, *p, w, *p, w, w, COUNT, *p, w, *p, w, w, COUNT);
  buf_printf(ir, "  %%so = splat %%o : *i64[%d]\n", COUNT);
  for (int k = first; k < end; k++) {
    const Row *r = &rows[k];
    int w = r->width == 'l' ? 64 : 32, out = r->kind == F && w == 64 ? 32 : w;
    char text[900];
    snprintf(text, sizeof text, "%s\x1f=%c,%c,%c,%c", r->text, out == 64 ? 'l' : 'r', r->width, r->width, r->width);
    buf_printf(ir, "  %%v%d = asm %%a%dv, %%b%dv, %%c%dv {pure=1, pack=1, text=", k, w, w, w);
    buf_quote(ir, text);
    buf_printf(ir, "} : i%d[%d]\n", out, COUNT);
    if (out == 32)
      buf_printf(ir, "  %%u%d = bitcast %%v%d : u32[%d]\n  %%w%d = convert %%u%d : i64[%d]\n", k, k, COUNT, k, k,
                 COUNT);
    buf_printf(ir,
               "  %%k%d = const {value=%d} : i32[%d]\n  %%x%d = add %%i, %%k%d : i32[%d]\n  %%q%d = addptr %%so, %%x%d "
               ": *i64[%d]\n  store %%q%d, %%%c%d\n",
               k, (k - first) * COUNT, COUNT, k, k, COUNT, k, k, COUNT, k, out == 32 ? 'w' : 'v', k);
  }
  buf_puts(ir, "}\n");
}

static Func *parse(Context *cx, const Buf *ir, bool optimize) {
  Func *func = tile_parse(cx, source_from_text(cx, "k.ir", ir->at, ir->n));
  func->num_warps = 4;
  tile_expand_asm(func);
  tile_verify(func, "expand_asm");
  if (optimize) tile_optimize(func, NULL, NULL, true);
  return func;
}

static void run_on(const char *device, const Buf *ir, uint64_t *args, void *out, size_t bytes) {
  Context *cx = context_create();
  int32_t grid[3] = {1, 1, 1};
  if (context_try(cx)) {
    if (!strcmp(device, "interp")) {
      InterpMemory *m = interp_memory_create();
      const void *arrays[] = {a32, b32, c32, a64, b64, c64};
      for (int k = 0; k < 6; k++) interp_memory_add(m, (void *)arrays[k], k < 3 ? sizeof a32 : sizeof a64, NULL);
      interp_memory_add(m, out, bytes, NULL);
      InterpFault fault = {0};
      if (!interp_run(parse(cx, ir, false), m, args, grid, &(InterpOptions){0}, &fault))
        fail_msg("interp: %s", fault.message);
      interp_memory_destroy(m);
    } else if (!strcmp(device, "cpu")) {
      Buf text = {0};
      cpu_emit_c(parse(cx, ir, true), true, CPU_TEXT_READABLE, &text, NULL);
      CpuCode *code = cpu_compile(cx, &(CpuText){text.at, text.n, 0}, NULL);
      void *scratch = aligned_alloc(64, (cpu_code_scratch(code) + 127) / 64 * 64);
      assert_int_equal(cpu_code_entry(code)(args, grid, 0, 1, scratch, &(NereidHost){0}), 0);
      free(scratch);
      cpu_code_release(code);
      buf_destroy(&text);
    } else {
      LaneFunc *lane =
          gpu_compile(parse(cx, ir, true), &(GpuOptions){.target = gpu_target_find("sm_90a"), .verify = true});
      LaneSimFault fault = {{0}};
      if (!lane_sim_run(lane, args, &(LaneSimOptions){.grid = grid, .end = 1}, &fault))
        fail_msg("sim: %s", fault.message);
    }
    context_end_try(cx);
  } else {
    Buf b = {0};
    diags_print(&b, cx, false);
    fail_msg("%s: %s", device, b.at);
  }
  context_destroy(cx);
}

static bool near(float x, float y, float relative) {
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  return x == y || fabsf(x - y) <= relative * fmaxf(fabsf(x), fabsf(y)) ||
         (fabsf(x) < 0x1.1p-126f && fabsf(y) < 0x1.1p-126f);
}

static bool is_right(Kind kind, uint64_t want, uint64_t got) {
  bool low, high;
  switch (kind) {
    case B: return want == got;
    case F: return (isnan(f(want)) && isnan(f(got))) || want == got;
    case D: return (isnan(d(want)) && isnan(d(got))) || want == got;
    case NEAR: return near(f(want), f(got), 0x1p-20f);
    case NEARH: return near(h(want), h(got), 0x1p-9f) && near(h(want >> 16), h(got >> 16), 0x1p-9f);
    case H:
      low = isnan(h(want)) ? isnan(h(got)) : !((want ^ got) & 0xffff);
      high = isnan(h(want >> 16)) ? isnan(h(got >> 16)) : !((want ^ got) & 0xffff0000);
      return low && high;
    default:
      low = isnan(bf(want)) ? isnan(bf(got)) : !((want ^ got) & 0xffff);
      high = isnan(bf(want >> 16)) ? isnan(bf(got >> 16)) : !((want ^ got) & 0xffff0000);
      return low && high;
  }
}

static void test_instructions(void **state) {
  static const char *const devices[] = {"interp", "cpu", "sim"};
  fill();
  uint64_t *out = aligned_alloc(64, sizeof *out * BATCH * COUNT);
  int wrong = 0;
  for (int first = 0; first < ROWS; first += BATCH) {
    int end = first + BATCH < ROWS ? first + BATCH : ROWS;
    Buf ir = {0};
    kernel_text(&ir, first, end);
    for (int dev = 0; dev < 3; dev++) {
      memset(out, 0xA5, sizeof *out * BATCH * COUNT);
      uint64_t args[] = {(uintptr_t)a32, (uintptr_t)b32, (uintptr_t)c32, (uintptr_t)a64,
                         (uintptr_t)b64, (uintptr_t)c64, (uintptr_t)out};
      run_on(devices[dev], &ir, args, out, sizeof *out * BATCH * COUNT);
      for (int k = first; k < end; k++) {
        bool wide = rows[k].width == 'l', narrow = !wide || rows[k].kind == F;
        for (int i = 0, here = 0; i < COUNT && here < 2; i++) {
          uint64_t a = wide ? a64[i] : a32[i], b = wide ? b64[i] : b32[i], c = wide ? c64[i] : c32[i];
          uint64_t want = expected(k, a, b, c), got = out[(k - first) * COUNT + i];
          if (narrow) want &= 0xffffffff;
          if (is_right(rows[k].kind, want, got)) continue;
          print_error("%s: %s of %llx, %llx, %llx is %llx, not %llx\n", devices[dev], rows[k].text,
                      (unsigned long long)a, (unsigned long long)b, (unsigned long long)c, (unsigned long long)got,
                      (unsigned long long)want);
          here++, wrong++;
        }
      }
    }
    buf_destroy(&ir);
  }
  free(out);
  assert_int_equal(wrong, 0);
}

/* ---- how elements share registers ---- */

/* What each kernel is to leave in o: a byte kernel's operands are the bytes of a32 and b32, and so on. */
typedef struct Packs {
  const char *ir;
  void (*expect)(uint8_t *o);
} Packs;

#define HEAD(t, n, out) \
  "kernel @k(%a: *" t ", %b: *" t ", %o: *" out ") {\n  %i = arange {start=0, end=" n "} : i32[" n "]\n" \
  "  %sa = splat %a : *" t "[" n "]\n  %pa = addptr %sa, %i : *" t "[" n "]\n  %x = load %pa : " t "[" n "]\n" \
  "  %sb = splat %b : *" t "[" n "]\n  %pb = addptr %sb, %i : *" t "[" n "]\n  %y = load %pb : " t "[" n "]\n" \
  "  %so = splat %o : *" out "[" n "]\n  %po = addptr %so, %i : *" out "[" n "]\n"

static const uint8_t *bytes_a(void) { return (const uint8_t *)a32; }
static const uint8_t *bytes_b(void) { return (const uint8_t *)b32; }

static void packs_bytes(uint8_t *o) { /* four to a register: the sum of neighbours moves up by one place */
  for (int i = 0; i < 512; i++) o[i] = (uint8_t)((bytes_a()[i] & 0x1f) << 3);
}
static void packs_widened(uint8_t *o) { /* bytes in one register, i32 and f32 in four */
  int32_t *out = (int32_t *)o;
  for (int i = 0; i < 512; i++) out[i] = (int32_t)fb((float)bytes_a()[i]) + bytes_b()[i];
}
static void packs_halves(uint8_t *o) {
  const uint16_t *a = (const uint16_t *)a32, *b = (const uint16_t *)b32;
  uint16_t *out = (uint16_t *)o;
  for (int i = 0; i < 512; i += 2) out[i] = b[i + 1], out[i + 1] = a[i]; /* each pair's upper b and lower a */
}
static void packs_single(uint8_t *o) {
  for (int i = 0; i < 512; i++) o[i] = (uint8_t)(bytes_a()[i] + 1);
}
static void packs_shorts(uint8_t *o) {
  const uint16_t *a = (const uint16_t *)a32;
  for (int i = 0; i < 512; i++) ((uint16_t *)o)[i] = (uint16_t)~a[i];
}
static void packs_few(uint8_t *o) {
  o[0] = bytes_a()[1], o[1] = bytes_a()[1]; /* of two elements the last stands for the third and fourth */
}
static void packs_memory(uint8_t *o) { /* o[i] = a[i + 1] where i is even */
  uint32_t *out = (uint32_t *)o;
  for (int i = 0; i < 256; i += 2) out[i] = a32[i + 1];
}
static void packs_bools(uint8_t *o) {
  for (int i = 0; i < 512; i++) o[i] = bytes_a()[i] < bytes_b()[i] ? 0 : 1;
}

static const Packs packs[] = {
    {HEAD("i8", "512", "i8") "  %v = asm %x {pure=1, pack=4, text=\"and.b32 $0, $1, 0x1F1F1F1F; shl.b32 $0, $0, "
                             "3;\\x1f=r,r\"} : i8[512]\n"
                             "  store %po, %v\n}\n",
     packs_bytes},
    {HEAD("u8", "512",
          "i32") "  %v, %w = asm %x, %y {pure=1, pack=4, text=\"{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $9;"
                 " cvt.u32.u8 $0, t0; cvt.u32.u8 $1, t1; cvt.u32.u8 $2, t2; cvt.u32.u8 $3, t3; mov.b32 {t0, t1, t2, "
                 "t3}, $8; .reg .b32 w<4>;"
                 " cvt.u32.u8 w0, t0; cvt.u32.u8 w1, t1; cvt.u32.u8 w2, t2; cvt.u32.u8 w3, t3; cvt.rn.f32.u32 $4, w0; "
                 "cvt.rn.f32.u32 $5, w1;"
                 " cvt.rn.f32.u32 $6, w2; cvt.rn.f32.u32 $7, w3; }\\x1f=r,=r,=r,=r,=f,=f,=f,=f,r,r\"} : i32[512], "
                 "f32[512]\n"
                 "  %c = bitcast %w : i32[512]\n  %d = add %v, %c : i32[512]\n  store %po, %d\n}\n",
     packs_widened},
    {HEAD("u16", "512",
          "u16") "  %v = asm %x, %y {pure=1, pack=2, text=\"{ .reg .b16 al, ah, bl, bh; mov.b32 {al, ah}, $1;"
                 " mov.b32 {bl, bh}, $2; mov.b32 $0, {bh, al}; }\\x1f=r,r,r\"} : u16[512]\n  store %po, %v\n}\n",
     packs_halves},
    {HEAD("i8", "512",
          "i8") "  %v = asm %x {pure=1, pack=1, text=\"add.u32 $0, $1, 1;\\x1f=r,r\"} : i8[512]\n  store %po, %v\n}\n",
     packs_single},
    {HEAD("i16", "512",
          "i16") "  %v = asm %x {pure=1, pack=1, text=\"not.b16 $0, $1;\\x1f=h,h\"} : i16[512]\n  store %po, %v\n}\n",
     packs_shorts},
    {HEAD("i8", "2",
          "i8") "  %v = asm %x {pure=1, pack=4, text=\"shr.u32 $0, $1, 8;\\x1f=r,r\"} : i8[2]\n  store %po, %v\n}\n",
     packs_few},
    {HEAD("i32", "256", "i32") "  %one = const {value=1} : i32[256]\n  %v = asm %pa, %po, %i, %one {pure=0, pack=1, "
                               "text=\"{ .reg .pred p; .reg .b32 t;"
                               " and.b32 t, $3, $4; setp.eq.u32 p, t, 0; @p ld.global.L1::no_allocate.u32 $0, [$1+4]; "
                               "@p st.global.b32 [$2], $0; }\\x1f=r,l,l,r,n\"} : i32[256]\n}\n",
     packs_memory},
    {HEAD("u8", "512", "i8") "  %lt = cmp %x, %y {pred=lt} : i1[512]\n  %v = asm %lt {pure=1, pack=4, text=\"xor.b32 "
                             "$0, $1, 0x01010101;\\x1f=r,r\"} : i1[512]\n"
                             "  %c = convert %v : i8[512]\n  store %po, %c\n}\n",
     packs_bools},
};

static void test_packs(void **state) {
  static const char *const devices[] = {"interp", "cpu", "sim"};
  fill();
  enum { BYTES = 4 * 512 };
  uint8_t *want = aligned_alloc(64, BYTES), *got = aligned_alloc(64, BYTES);
  for (size_t k = 0; k < sizeof packs / sizeof *packs; k++) {
    Buf ir = {0};
    buf_puts(&ir, packs[k].ir);
    memset(want, 0, BYTES);
    packs[k].expect(want);
    for (int dev = 0; dev < 3; dev++) {
      memset(got, 0, BYTES);
      run_on(devices[dev], &ir, (uint64_t[]){(uintptr_t)a32, (uintptr_t)b32, (uintptr_t)got}, got, BYTES);
      for (int i = 0; i < BYTES; i++)
        if (want[i] != got[i]) fail_msg("%s: byte %d is %x, not %x\n%s", devices[dev], i, got[i], want[i], packs[k].ir);
    }
    buf_destroy(&ir);
  }
  free(want);
  free(got);
}

/* What ptxas 13.0 makes of them, in the initializer of an .s64. */
static const struct {
  const char *text;
  int64_t value;
} constants[] = {
    {"(3+4)*2", 14},
    {"~0 >> 4", 1152921504606846975},
    {"(.s64)~0 >> 4", -1},
    {"7 > 3 ? 5 : 6", 5},
    {"-7/2", -3},
    {"-7 % 3", 0},
    {"1 - 2 < 0", 1},
    {"1U - 2 < 0", 0},
    {"-8 >> 1", -4},
    {"-8U >> 1", 9223372036854775804},
    {"-8 >> 1U", -4},
    {"-1 / 2U", 9223372036854775807},
    {"(-8 & -1) >> 1", -4},
    {"(-8 & -1U) >> 1", 9223372036854775804},
    {"(0 % 3 - 1) / 2", 9223372036854775807},
    {"!0 + 1", 2},
    {"2 && 3", 1},
    {"0 || 7", 1},
    {"(1 ? -8 : 2U) >> 1", -4},
    {"-1 == 0xffffffffffffffff", 1},
    {"-1 < 1U", 0},
    {"WARP_SZ * 2", 64},
    {"1 << 40 >> 38", 4},
    {"1 + 2 << 3", 24},
    {"1 | 2 ^ 3 & 6", 1},
    {"0b101 + 0x1f + 017", 51},
    {"-(-3)", 3},
    {"~-1", 0},
    {"1 < 2 == 1", 1},
    {"(.u64)-8 >> 1", 9223372036854775804},
    {"9223372036854775808 / 2", 4611686018427387904},
    {"1 << 64", 1},
    {"8 / 3 * 3", 6},
    {"1 ? 2 : 0 ? 3 : 4", 2},
    {"~~5 - 6 < 0", 0},
    {"-9223372036854775807 - 1", INT64_MIN},
};

static void test_constants(void **state) {
  enum { N = sizeof constants / sizeof *constants };
  fill();
  for (int k = 0; k < N; k++) {
    Context *cx = context_create();
    const char *at = constants[k].text;
    assert_true(asm_begins_constant(at));
    if (context_try(cx)) {
      Asm x = {0};
      AsmOperand o = asm_constant(&x, &at);
      if (*at || o.kind != ASM_INT || o.value != constants[k].value)
        fail_msg("`%s` is %lld, not %lld; left: `%s`", constants[k].text, (long long)o.value,
                 (long long)constants[k].value, at);
      context_end_try(cx);
    } else {
      fail_msg("`%s` is refused", constants[k].text);
    }
    context_destroy(cx);
  }
}

/* Every row of instructions.def is in the table above. */
static void test_every_instruction(void **state) {
  static const char *const elsewhere[] = {"ld", "st", "prefetch", "bar", "barrier", NULL};
  static const char *const names[ASMI_COUNT] = {
#define INST(id, name, ...) name,
#include "tile/asm/instructions.def"
#undef INST
  };
  for (int k = 0; k < ASMI_COUNT; k++) {
    bool found = false;
    size_t n = strlen(names[k]);
    for (int i = 0; elsewhere[i]; i++) found = found || !strcmp(elsewhere[i], names[k]);
    for (int r = 0; r < (int)ROWS && !found; r++)
      for (const char *p = rows[r].text; (p = strstr(p, names[k])) && !found; p++)
        found = (p == rows[r].text || strchr(" ;{", p[-1])) && strchr(". ;", p[n]);
    if (!found) fail_msg("`%s` has no test", names[k]);
  }
}

int main(void) {
  const char *cache = getenv("NEREID_TEST_CACHE");
  static char folder[] = "/tmp/nereid-test-asm-XXXXXX";
  if (cache) setenv("NEREID_CACHE_DIR", cache, 1);
  else if (mkdtemp(folder)) setenv("NEREID_CACHE_DIR", folder, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_instructions),
      cmocka_unit_test(test_packs),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_every_instruction),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
