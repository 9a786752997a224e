/* Numbers: the element types, and the way between their bits and values.
 *
 * Every float narrower than 32 bits is described by one Format, and two functions serve them all: decode (bits to an
 * exact double) and encode (a double, rounded once, to bits). Since a float is exact as a double, the f32_to_*
 * functions go through them too.
 *
 *     format     PyTorch           bias  largest   infinity  NaN          stored when too large
 *     f16        float16             15  65504     yes       0x7c01..     infinity
 *     bf16       bfloat16           127  3.39e38   yes       0x7f81..     infinity
 *     fp8e5      float8_e5m2         15  57344     yes       0x7d..0x7f   +-largest, also for infinity
 *     fp8e4nv    float8_e4m3fn        7  448       no        0x7f, 0xff   +-largest
 *     fp8e4b8    float8_e4m3fnuz      8  240       no        0x80         +-largest; there is no -0
 *     fp8e5b16   float8_e5m2fnuz     16  57344     no        0x80         +-largest; there is no -0
 *     fp8e4b15   (Triton's own)      15  1.875     no        none         +-1.75, also for NaN
 *
 * fp8e4b15 follows Triton's conversions (triton/language/extra/cuda/utils.py) to the bit: 0x7f reads as 1.875 but no
 * conversion gives it, since one clamps to 1.75 first and then rounds ties away from zero.
 *
 * A float becomes an integer by truncation; what lies outside the integer's range gives its nearest end, and NaN gives
 * 0, as NVIDIA's cvt does. int1 is one byte of memory: any value but 0 is true and true is stored as 1.
 */
#include "base/base.h"

#include <math.h>

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct {
  const char *triton, *name, *torch;
  int bits;
  char kind; /* 's'igned, 'u'nsigned, 'f'loat */
} types[DT_COUNT] = {
#define X(id, triton, ir, torch, bits, kind) [DT_##id] = {triton, ir, torch, bits, kind},
    DTYPE_TABLE(X)
#undef X
};

const char *dtype_triton_name(Dtype t) { return types[t].triton; }
const char *dtype_name(Dtype t) { return types[t].name; }
const char *dtype_torch_name(Dtype t) { return types[t].torch; }
int dtype_bits(Dtype t) { return types[t].bits; }
int dtype_bytes(Dtype t) { return (int)cdiv(types[t].bits, 8); }
bool dtype_is_float(Dtype t) { return types[t].kind == 'f'; }
bool dtype_is_int(Dtype t) { return types[t].kind != 'f'; }
bool dtype_is_signed(Dtype t) { return types[t].kind == 's'; }
bool dtype_is_fp8(Dtype t) { return types[t].kind == 'f' && types[t].bits == 8; }

bool dtype_parse(const char *name, Dtype *out) {
  static const struct {
    const char *name;
    Dtype type;
  } others[] = {{"half", DT_F16}, {"float", DT_F32}, {"double", DT_F64}, {"long", DT_I64}, {"int", DT_I32}};
  for (int t = 0; t < DT_COUNT; t++)
    if (!strcmp(name, types[t].triton) || !strcmp(name, types[t].name) || !strcmp(name, types[t].torch))
      return *out = (Dtype)t, true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(name, others[i].name)) return *out = others[i].type, true;
  return false;
}

/* ---- narrow floats ----------------------------------------------------------------------------------------------- */

typedef enum { NEAREST_EVEN, NEAREST_AWAY, TOWARDS_ZERO } Rounding;

typedef struct Format {
  int bits, fraction, bias;
  uint32_t largest;  /* bits of the largest magnitude that a store may give */
  uint32_t infinity; /* 0 when there is none */
  uint32_t nan;      /* what NaN is stored as; the sign is added but for fnuz */
  bool saturates;    /* too large, infinity included, gives `largest` */
  bool fnuz;         /* the bits of -0 mean NaN */
} Format;

static const Format f16 = {16, 10, 15, 0x7bff, 0x7c00, 0x7e00, false, false};
static const Format bf16 = {16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, false, false};
static const Format fp8e5 = {8, 2, 15, 0x7b, 0x7c, 0x7f, true, false};
static const Format fp8e4nv = {8, 3, 7, 0x7e, 0, 0x7f, true, false};
static const Format fp8e4b15 = {8, 3, 15, 0x7e, 0, 0x7e, true, false};
static const Format fp8e4b8 = {8, 3, 8, 0x7f, 0, 0x80, true, true};
static const Format fp8e5b16 = {8, 2, 16, 0x7f, 0, 0x80, true, true};

static const Format *fp8_format(Dtype t) {
  switch (t) {
    case DT_F8E5: return &fp8e5;
    case DT_F8E4NV: return &fp8e4nv;
    case DT_F8E4B8: return &fp8e4b8;
    case DT_F8E5B16: return &fp8e5b16;
    default: return &fp8e4b15;
  }
}

static Rounding fp8_rounding(Dtype t) { return t == DT_F8E4B15 ? NEAREST_AWAY : NEAREST_EVEN; }

static uint64_t bits_of(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}

static double from_bits(uint64_t bits) {
  double v;
  memcpy(&v, &bits, 8);
  return v;
}

static double decode(const Format *f, uint32_t bits) {
  uint32_t sign = bits >> (f->bits - 1) & 1, magnitude = bits & ((1u << (f->bits - 1)) - 1);
  uint64_t sign_bit = (uint64_t)sign << 63;
  uint32_t fraction = magnitude & ((1u << f->fraction) - 1);
  int exponent = (int)(magnitude >> f->fraction);

  if (f->fnuz ? bits == f->nan : f == &fp8e4nv && magnitude == f->nan) return from_bits(sign_bit | 0x7ff8ULL << 48);
  if (f->infinity && magnitude >= f->infinity) /* the quiet bit is set, the rest of a NaN kept */
    return from_bits(sign_bit | 0x7ffULL << 52 | (fraction ? 1ULL << 51 : 0) |
                     (uint64_t)fraction << (52 - f->fraction));
  if (exponent == 0) {
    double v = ldexp((double)fraction, 1 - f->bias - f->fraction);
    return sign ? -v : v;
  }
  return from_bits(sign_bit | (uint64_t)(exponent - f->bias + 1023) << 52 | (uint64_t)fraction << (52 - f->fraction));
}

static uint32_t encode(const Format *f, double v, Rounding rounding) {
  uint64_t bits = bits_of(v);
  uint32_t sign = (uint32_t)(bits >> 63) << (f->bits - 1);
  int exponent = (int)(bits >> 52 & 0x7ff);
  uint64_t significand = bits & ((1ULL << 52) - 1);

  if (exponent == 0x7ff) {
    if (significand) return f->fnuz ? f->nan : sign | f->nan;
    return sign | (f->saturates ? f->largest : f->infinity);
  }
  /* A double below 2^-1022 is far below half of the smallest number of every format: as good as zero. */
  if (exponent == 0) significand = 0;
  else significand |= 1ULL << 52;

  /* Drop what the format cannot hold: 52 - fraction bits, and more where the result is subnormal. */
  int above = exponent - 1023 - (1 - f->bias); /* steps above the least normal exponent */
  int drop = 52 - f->fraction + (above < 0 ? -above : 0);
  if (drop > 60) drop = 60;
  uint64_t kept = significand >> drop, rest = significand & ((1ULL << drop) - 1), half = 1ULL << (drop - 1);
  if (rounding == NEAREST_EVEN) kept += rest > half || (rest == half && (kept & 1));
  else if (rounding == NEAREST_AWAY) kept += rest >= half;

  /* The exponent's field counts from 1 for normal numbers, and `kept` brings a one at that bit itself; a carry out of
   * the fraction moves into the exponent by the same addition. */
  uint32_t magnitude = (uint32_t)kept + (above > 0 ? (uint32_t)above << f->fraction : 0);
  if (magnitude > f->largest) magnitude = f->saturates || rounding == TOWARDS_ZERO ? f->largest : f->infinity;
  if (f->fnuz && magnitude == 0) return 0;
  return sign | magnitude;
}

uint16_t f32_to_f16(float v) { return (uint16_t)encode(&f16, v, NEAREST_EVEN); }
uint16_t f64_to_f16(double v) { return (uint16_t)encode(&f16, v, NEAREST_EVEN); }
uint16_t f32_to_f16_rtz(float v) { return (uint16_t)encode(&f16, v, TOWARDS_ZERO); }
float f16_to_f32(uint16_t bits) { return (float)decode(&f16, bits); }
uint16_t f32_to_bf16(float v) { return (uint16_t)encode(&bf16, v, NEAREST_EVEN); }
uint16_t f32_to_bf16_rtz(float v) { return (uint16_t)encode(&bf16, v, TOWARDS_ZERO); }
uint8_t f32_to_f8(Dtype t, float v) { return (uint8_t)encode(fp8_format(t), v, fp8_rounding(t)); }
float f8_to_f32(Dtype t, uint8_t bits) { return (float)decode(fp8_format(t), bits); }

float bf16_to_f32(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float v;
  memcpy(&v, &wide, 4);
  return v;
}

/* ---- elements in memory ------------------------------------------------------------------------------------------ */

/* Reads the integer element at p; a U64 comes back as the same 64 bits. */
static int64_t load_int_bits(Dtype t, const void *p) {
  uint64_t raw = 0;
  int bytes = dtype_bytes(t);
  memcpy(&raw, p, (size_t)bytes); /* little-endian, as all targets are */
  if (t == DT_I1) return raw != 0;
  if (!dtype_is_signed(t) || bytes == 8) return (int64_t)raw;
  int unused = 64 - 8 * bytes;
  return (int64_t)(raw << unused) >> unused;
}

double dtype_load_float(Dtype t, const void *p) {
  uint16_t half;
  float single;
  double v;
  switch (t) {
    case DT_F64: memcpy(&v, p, 8); return v;
    case DT_F32: memcpy(&single, p, 4); return single;
    case DT_F16: memcpy(&half, p, 2); return decode(&f16, half);
    case DT_BF16: memcpy(&half, p, 2); return bf16_to_f32(half);
    case DT_U64: return (double)(uint64_t)load_int_bits(t, p);
    default:
      if (dtype_is_fp8(t)) return decode(fp8_format(t), *(const uint8_t *)p);
      return (double)load_int_bits(t, p);
  }
}

/* Truncates v into the range of t. */
static int64_t truncate_to(Dtype t, double v) {
  if (t == DT_I1) return v != 0;
  if (isnan(v)) return 0;
  int bits = dtype_bits(t);
  if (dtype_is_signed(t)) {
    double end = ldexp(1, bits - 1); /* one past the largest */
    if (v >= end) return bits == 64 ? INT64_MAX : (1LL << (bits - 1)) - 1;
    if (v < -end) return bits == 64 ? INT64_MIN : -(1LL << (bits - 1));
    return (int64_t)v;
  }
  if (v <= 0) return 0;
  if (v >= ldexp(1, bits)) return bits == 64 ? -1 : (1LL << bits) - 1;
  return (int64_t)(uint64_t)v;
}

int64_t dtype_load_int(Dtype t, const void *p) {
  if (dtype_is_int(t)) return load_int_bits(t, p);
  return truncate_to(DT_I64, dtype_load_float(t, p));
}

void dtype_store_int(Dtype t, void *p, int64_t v) {
  if (t == DT_I1) {
    *(uint8_t *)p = v != 0;
  } else if (dtype_is_int(t)) {
    memcpy(p, &v, (size_t)dtype_bytes(t));
  } else if (t == DT_F64) {
    double wide = (double)v;
    memcpy(p, &wide, 8);
  } else if (t == DT_F32) {
    float single = (float)v; /* not by way of a double, which would round twice */
    memcpy(p, &single, 4);
  } else {
    /* Beyond 53 bits a double would round before the narrow format does. Its last 10 bits decide nothing there but
     * whether the value lies above, on or below a tie: one sticky bit says the same. */
    if (v >= 1LL << 53 || v <= -(1LL << 53)) v = (v & ~1023LL) | ((v & 1023) ? 1024 : 0);
    dtype_store_float(t, p, (double)v);
  }
}

void dtype_store_float(Dtype t, void *p, double v) {
  uint16_t half;
  float single;
  switch (t) {
    case DT_F64: memcpy(p, &v, 8); break;
    case DT_F32:
      single = (float)v;
      memcpy(p, &single, 4);
      break;
    case DT_F16:
      half = f64_to_f16(v);
      memcpy(p, &half, 2);
      break;
    case DT_BF16:
      half = (uint16_t)encode(&bf16, v, NEAREST_EVEN);
      memcpy(p, &half, 2);
      break;
    default:
      if (dtype_is_fp8(t)) *(uint8_t *)p = (uint8_t)encode(fp8_format(t), v, fp8_rounding(t));
      else dtype_store_int(t, p, truncate_to(t, v));
  }
}
