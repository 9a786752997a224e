/* The element types as the public header numbers them: the same order as base's Dtype, which the compiler checks below.
 */
#include <nereid.h>

#include "base/base.h"

#define SAME(T) _Static_assert((int)NEREID_##T == (int)DT_##T, "nereid_dtype follows Dtype");
#define X(id, triton, ir, torch, bits, kind) SAME(id)
DTYPE_TABLE(X)
#undef X
_Static_assert((int)NEREID_F64 + 1 == (int)DT_COUNT, "nereid_dtype follows Dtype");

static bool known(nereid_dtype t) { return (unsigned)t < DT_COUNT; }

const char *nereid_version(void) { return NEREID_VERSION; }
const char *nereid_dtype_name(nereid_dtype t) { return known(t) ? dtype_name((Dtype)t) : "?"; }
size_t nereid_dtype_bytes(nereid_dtype t) { return known(t) ? (size_t)dtype_bytes((Dtype)t) : 0; }

bool nereid_dtype_parse(const char *name, nereid_dtype *out) {
  Dtype t;
  if (!name || !out || !dtype_parse(name, &t)) return false;
  *out = (nereid_dtype)t;
  return true;
}

double nereid_dtype_load(nereid_dtype t, const void *p) {
  if (!known(t) || !p) return 0;
  if (t == NEREID_U64) { /* the bits come back as an int64 */
    int64_t v = dtype_load_int(DT_U64, p);
    return (double)(uint64_t)v;
  }
  return dtype_is_float((Dtype)t) ? dtype_load_float((Dtype)t, p) : (double)dtype_load_int((Dtype)t, p);
}

/* Of a double outside the type's range, C leaves a conversion undefined: the nearest value is stored. */
static int64_t nearest_int(Dtype t, double v) {
  if (v != v) return 0;
  int bits = dtype_bits(t);
  bool is_signed = dtype_is_signed(t);
  double high = is_signed ? (double)(1ull << (bits - 1)) : bits == 64 ? 18446744073709551616.0 : (double)(1ull << bits);
  double low = is_signed ? -high : 0;
  if (v >= high)
    return is_signed ? (int64_t)((1ull << (bits - 1)) - 1) : bits == 64 ? -1 : (int64_t)((1ull << bits) - 1);
  if (v <= low) return is_signed ? (int64_t)(0 - (1ull << (bits - 1))) : 0;
  return is_signed ? (int64_t)v : (int64_t)(uint64_t)v;
}

void nereid_dtype_store(nereid_dtype t, void *p, double v) {
  if (!known(t) || !p) return;
  if (dtype_is_float((Dtype)t)) dtype_store_float((Dtype)t, p, v);
  else if (t == NEREID_I1) dtype_store_int(DT_I1, p, v != 0);
  else dtype_store_int((Dtype)t, p, nearest_int((Dtype)t, v));
}
