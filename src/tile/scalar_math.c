/* What each function of math.def means for one element: a call of base/mathfn.h.
 *
 * f32 functions that only approximate are computed in double and rounded, which is as near as f32 gets. Those whose
 * meaning is bound to the type (roundings, neighbours, bits) go to their float version.
 */
#include "tile/tile.h"

#include "base/mathfn.h"

/* clang-format breaks macros that paste a case label. */
/* clang-format off */
/* How a row finds its C function. "d": the double version for both types. "f": a float version of its own. */
#define BOTH1(ID, fn)                                                                                                  \
  case MATH_##ID: return (Scalar){.f = single ? (float)nd_##fn(x.f) : nd_##fn(x.f)};
#define BOTH2(ID, fn)                                                                                                  \
  case MATH_##ID: return (Scalar){.f = single ? (float)nd_##fn(x.f, y.f) : nd_##fn(x.f, y.f)};
#define OWN1(ID, fn)                                                                                                   \
  case MATH_##ID: return (Scalar){.f = single ? nd_##fn##f((float)x.f) : nd_##fn(x.f)};
#define OWN2(ID, fn)                                                                                                   \
  case MATH_##ID: return (Scalar){.f = single ? nd_##fn##f((float)x.f, (float)y.f) : nd_##fn(x.f, y.f)};
#define OWN3(ID, fn)                                                                                                   \
  case MATH_##ID:                                                                                                      \
    return (Scalar){.f = single ? nd_##fn##f((float)x.f, (float)y.f, (float)z.f) : nd_##fn(x.f, y.f, z.f)};
#define INT_OF1(ID, fn)                                                                                                \
  case MATH_##ID: return (Scalar){.i = single ? nd_##fn##f((float)x.f) : nd_##fn(x.f)};
/* Rows with one signature: of a float, of an int, giving a float or an int. */
#define F_F(ID, fn)                                                                                                    \
  case MATH_##ID: return (Scalar){.f = nd_##fn((float)x.f)};
#define F_D(ID, fn)                                                                                                    \
  case MATH_##ID: return (Scalar){.f = nd_##fn(x.f)};
#define I_D(ID, fn)                                                                                                    \
  case MATH_##ID: return (Scalar){.i = nd_##fn(x.f)};
#define I_F(ID, fn)                                                                                                    \
  case MATH_##ID: return (Scalar){.i = nd_##fn((float)x.f)};
#define F_I(ID, fn, type)                                                                                              \
  case MATH_##ID: return (Scalar){.f = nd_##fn((type)x.i)};
#define INT2(ID, fn, type)                                                                                             \
  case MATH_##ID: return (Scalar){.i = (int64_t)nd_##fn((type)x.i, (type)y.i)};

/* The four roundings of a function. */
#define ROUNDINGS(M, ID, fn) M(ID##_RN, fn##_rn) M(ID##_RZ, fn##_rz) M(ID##_RD, fn##_rd) M(ID##_RU, fn##_ru)
#define ROUNDINGS_OF(M, ID, fn, type)                                                                                  \
  M(ID##_RN, fn##_rn, type) M(ID##_RZ, fn##_rz, type) M(ID##_RD, fn##_rd, type) M(ID##_RU, fn##_ru, type)

/* clang-format on */

/* Integer functions of more than one type. */
static Scalar int_math(MathFn fn, Dtype t, const Scalar *in) {
  bool wide = t == DT_I64 || t == DT_U64, is_signed = dtype_is_signed(t);
  int64_t x = in[0].i, y = math_info[fn].arity > 1 ? in[1].i : 0;
  switch ((int)fn) {
    case MATH_CLZ: return (Scalar){.i = wide ? nd_clzll(x) : nd_clzi((int32_t)x)};
    case MATH_POPC: return (Scalar){.i = wide ? nd_popcll(x) : nd_popci((int32_t)x)};
    case MATH_FFS: return (Scalar){.i = wide ? nd_ffsll(x) : nd_ffsi((int32_t)x)};
    case MATH_BREV: return (Scalar){.i = wide ? nd_brevll(x) : nd_brevi((int32_t)x)};
    case MATH_ABS: return (Scalar){.i = wide ? nd_absll(x) : nd_absi((int32_t)x)};
    case MATH_MULHI: return scalar_binary(OP_MULHI, t, in[0], in[1], 0);
    case MATH_MUL24:
      return (Scalar){.i =
                          is_signed ? (int64_t)nd_mul24i((int32_t)x, (int32_t)y) : nd_mul24u((uint32_t)x, (uint32_t)y)};
    case MATH_HADD:
      return (Scalar){.i = is_signed ? (int64_t)nd_haddi((int32_t)x, (int32_t)y) : nd_haddu((uint32_t)x, (uint32_t)y)};
    case MATH_RHADD:
      return (Scalar){.i =
                          is_signed ? (int64_t)nd_rhaddi((int32_t)x, (int32_t)y) : nd_rhaddu((uint32_t)x, (uint32_t)y)};
    case MATH_SAD:
      if (is_signed) return (Scalar){.i = nd_sadi((int32_t)x, (int32_t)y, (uint32_t)in[2].i)};
      return (Scalar){.i = nd_sadu((uint32_t)x, (uint32_t)y, (uint32_t)in[2].i)};
    case MATH_BYTE_PERM: return (Scalar){.i = nd_byte_perm((int32_t)x, (int32_t)y, (int32_t)in[2].i)};
    default: return (Scalar){.i = 0};
  }
}

static Scalar convert_math(MathFn fn, Scalar x, Scalar y) {
  switch ((int)fn) {
    ROUNDINGS(F_D, DOUBLE2FLOAT, double2float)
    ROUNDINGS(I_D, DOUBLE2INT, double2int)
    ROUNDINGS(I_D, DOUBLE2UINT, double2uint)
    ROUNDINGS(I_D, DOUBLE2LL, double2ll)
    ROUNDINGS(I_D, DOUBLE2ULL, double2ull)
    ROUNDINGS(I_F, FLOAT2INT, float2int)
    ROUNDINGS(I_F, FLOAT2UINT, float2uint)
    ROUNDINGS(I_F, FLOAT2LL, float2ll)
    ROUNDINGS(I_F, FLOAT2ULL, float2ull)
    ROUNDINGS_OF(F_I, INT2FLOAT, int2float, int32_t)
    ROUNDINGS_OF(F_I, UINT2FLOAT, uint2float, uint32_t)
    ROUNDINGS_OF(F_I, LL2FLOAT, ll2float, int64_t)
    ROUNDINGS_OF(F_I, ULL2FLOAT, ull2float, uint64_t)
    ROUNDINGS_OF(F_I, LL2DOUBLE, ll2double, int64_t)
    ROUNDINGS_OF(F_I, ULL2DOUBLE, ull2double, uint64_t)
    F_I(INT2DOUBLE_RN, int2double_rn, int32_t)
    F_I(UINT2DOUBLE_RN, uint2double_rn, uint32_t)
    F_I(INT_AS_FLOAT, int_as_float, int32_t)
    F_I(UINT_AS_FLOAT, uint_as_float, uint32_t)
    F_I(LONGLONG_AS_DOUBLE, longlong_as_double, int64_t)
    I_F(FLOAT_AS_INT, float_as_int)
    I_F(FLOAT_AS_UINT, float_as_uint)
    I_D(DOUBLE_AS_LONGLONG, double_as_longlong)
    I_D(DOUBLE2LOINT, double2loint)
    I_D(DOUBLE2HIINT, double2hiint)
    case MATH_HILOINT2DOUBLE: return (Scalar){.f = nd_hiloint2double((int32_t)x.i, (int32_t)y.i)};
    default: return (Scalar){.f = NAN};
  }
}

/* Of several operands that are no floats of one type. */
static Scalar mixed_math(MathFn fn, bool single, const Dtype *types, const Scalar *in, Scalar x, Scalar y, Scalar z) {
  switch (fn) {
    case MATH_POW: {
      double power = dtype_is_float(types[1]) ? nd_pow(x.f, y.f) : nd_powi(x.f, (int32_t)y.i);
      return (Scalar){.f = single ? (float)power : power};
    }
    case MATH_LDEXP:
    case MATH_SCALBN: {
      int n = (int32_t)y.i;
      return (Scalar){.f = single ? nd_ldexpf((float)x.f, n) : nd_ldexp(x.f, n)};
    }
    case MATH_JN: return (Scalar){.f = single ? nd_jnf((int32_t)x.i, (float)y.f) : nd_jn((int32_t)x.i, y.f)};
    case MATH_YN: return (Scalar){.f = single ? nd_ynf((int32_t)x.i, (float)y.f) : nd_yn((int32_t)x.i, y.f)};
    case MATH_NORM3D: {
      double norm = nd_norm3d(x.f, y.f, z.f);
      return (Scalar){.f = single ? (float)norm : norm};
    }
    case MATH_RNORM3D: {
      double norm = nd_rnorm3d(x.f, y.f, z.f);
      return (Scalar){.f = single ? (float)norm : norm};
    }
    case MATH_NORM4D: {
      double norm = nd_norm4d(x.f, y.f, z.f, in[3].f);
      return (Scalar){.f = single ? (float)norm : norm};
    }
    case MATH_RNORM4D: {
      double norm = nd_rnorm4d(x.f, y.f, z.f, in[3].f);
      return (Scalar){.f = single ? (float)norm : norm};
    }
    default: return convert_math(fn, x, y);
  }
}

/* As near as f32 gets: computed in double. */
static Scalar near_math(MathFn fn, bool single, const Dtype *types, const Scalar *in, Scalar x, Scalar y, Scalar z) {
  switch (fn) {
    BOTH1(SQRT, sqrt)
    BOTH1(RSQRT, rsqrt)
    BOTH1(CBRT, cbrt)
    BOTH1(RCBRT, rcbrt)
    BOTH1(EXP, exp)
    BOTH1(EXP2, exp2)
    BOTH1(EXP10, exp10)
    BOTH1(EXPM1, expm1)
    BOTH1(LOG, log)
    BOTH1(LOG2, log2)
    BOTH1(LOG10, log10)
    BOTH1(LOG1P, log1p)
    BOTH1(SIN, sin)
    BOTH1(COS, cos)
    BOTH1(TAN, tan)
    BOTH1(SINPI, sinpi)
    BOTH1(COSPI, cospi)
    BOTH1(ASIN, asin)
    BOTH1(ACOS, acos)
    BOTH1(ATAN, atan)
    BOTH1(SINH, sinh)
    BOTH1(COSH, cosh)
    BOTH1(TANH, tanh)
    BOTH1(ASINH, asinh)
    BOTH1(ACOSH, acosh)
    BOTH1(ATANH, atanh)
    BOTH1(ERF, erf)
    BOTH1(ERFC, erfc)
    BOTH1(ERFCX, erfcx)
    BOTH1(ERFINV, erfinv)
    BOTH1(ERFCINV, erfcinv)
    BOTH1(NORMCDF, normcdf)
    BOTH1(NORMCDFINV, normcdfinv)
    BOTH1(TGAMMA, tgamma)
    BOTH1(LGAMMA, lgamma)
    BOTH1(J0, j0)
    BOTH1(J1, j1)
    BOTH1(Y0, y0)
    BOTH1(Y1, y1)
    BOTH1(CYL_BESSEL_I0, cyl_bessel_i0)
    BOTH1(CYL_BESSEL_I1, cyl_bessel_i1)
    BOTH1(FAST_SINF, sin)
    BOTH1(FAST_COSF, cos)
    BOTH1(FAST_TANF, tan)
    BOTH1(FAST_TANHF, tanh)
    BOTH1(FAST_EXPF, exp)
    BOTH1(FAST_EXP10F, exp10)
    BOTH1(FAST_LOGF, log)
    BOTH1(FAST_LOG2F, log2)
    BOTH1(FAST_LOG10F, log10)
    BOTH2(FAST_POWF, pow)
    BOTH2(FAST_DIVIDEF, div_rn)
    BOTH2(ATAN2, atan2)
    BOTH2(HYPOT, hypot)
    BOTH2(RHYPOT, rhypot)
    default: return mixed_math(fn, single, types, in, x, y, z);
  }
}

/* Bound to the type. */
static Scalar float_math(MathFn fn, bool single, const Dtype *types, const Scalar *in) {
  int arity = math_info[fn].arity;
  Scalar none = {.f = 0}, x = in[0], y = arity > 1 ? in[1] : none, z = arity > 2 ? in[2] : none;
  switch (fn) {
    ROUNDINGS(OWN2, ADD, add)
    ROUNDINGS(OWN2, SUB, sub)
    ROUNDINGS(OWN2, MUL, mul)
    ROUNDINGS(OWN2, DIV, div)
    ROUNDINGS(OWN1, RCP, rcp)
    ROUNDINGS(OWN1, SQRT, sqrt)
    ROUNDINGS(OWN3, FMA, fma)
    OWN3(FMA, fma)
    OWN1(ABS, abs)
    OWN1(FLOOR, floor)
    OWN1(CEIL, ceil)
    OWN1(TRUNC, trunc)
    OWN1(RINT, rint)
    OWN1(NEARBYINT, nearbyint)
    OWN1(ROUND, round)
    OWN1(LOGB, logb)
    OWN2(COPYSIGN, copysign)
    OWN2(NEXTAFTER, nextafter)
    OWN2(FMOD, fmod)
    OWN2(REMAINDER, remainder)
    OWN2(FDIM, fdim)
    INT_OF1(ISNAN, isnan)
    INT_OF1(ISINF, isinf)
    INT_OF1(SIGNBIT, signbit)
    INT_OF1(LLRINT, llrint)
    INT_OF1(LLROUND, llround)
    INT_OF1(ILOGB, ilogb)
    I_D(FINITEF, isfinited)
    I_D(ISFINITED, isfinited)
    F_F(SATURATEF, saturatef)
    F_D(RCP64H, rcp64h)
    F_F(RSQRT_RN, rsqrt_rn)
    default: return near_math(fn, single, types, in, x, y, z);
  }
}

Scalar scalar_math(MathFn fn, const Dtype *in_types, Dtype out_type, const Scalar *in) {
  bool floats = dtype_is_float(out_type);
  for (int i = 0; i < math_info[fn].arity; i++) floats = floats || dtype_is_float(in_types[i]);
  Dtype wide = DT_F32; /* the float type it is about */
  for (int i = 0; i < math_info[fn].arity; i++)
    if (in_types[i] == DT_F64) wide = DT_F64;
  Scalar out = floats ? float_math(fn, wide == DT_F32, in_types, in) : int_math(fn, in_types[0], in);
  return dtype_is_float(out_type) ? out : (Scalar){.i = int_wrap(out_type, out.i)};
}

void math_c_name(MathFn fn, int n, const Dtype *in, char out[48]) {
  const MathInfo *info = &math_info[fn];
  static const char *const suffixes[DT_COUNT] = {
      [DT_I32] = "i", [DT_U32] = "u", [DT_I64] = "ll", [DT_U64] = "ull", [DT_F32] = "f"};
  Dtype about = n ? in[0] : DT_F64;
  for (int i = n - 1; i >= 0; i--)
    if (dtype_is_float(in[i])) about = in[i];
  bool several = strchr(info->sig, ' ') != NULL;
  const char *suffix = several && suffixes[about] ? suffixes[about] : "";
  bool power = fn == MATH_POW && n > 1 && !dtype_is_float(in[1]);
  snprintf(out, 48, "nd_%s%s%s", info->name, power ? "i" : "", suffix);
}
