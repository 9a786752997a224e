/* math: which lane operations a function of tile/math.def becomes.
 *
 * Each math_*.c holds the functions of one group and a table of rows: function, the type it is about, and how it is
 * made: one operation of the machine, a formula for one element, or a formula for all elements of a call (then a rare
 * slow path is one branch for all). A row for f64 alone serves f32 as well: operands are widened, which is exact, and
 * the result is rounded once.
 */
#include "gpu/math/math.h"

static const MathTable *const tables[] = {
    &math_basic_table, &math_convert_table, &math_bits_table,  &math_exp_table,    &math_log_table,
    &math_trig_table,  &math_pow_table,     &math_arc_table,   &math_root_table,   &math_mod_table,
    &math_erf_table,   &math_erfinv_table,  &math_gamma_table, &math_bessel_table, &math_bessel_i_table};

static const MathRow *find(MathFn fn, Dtype about) {
  for (int i = 0; i < COUNT(tables); i++)
    for (int r = 0; r < tables[i]->n; r++)
      if (tables[i]->rows[r].fn == fn && tables[i]->rows[r].about == about) return &tables[i]->rows[r];
  return NULL;
}

/* The type that names the row: of the first float operand, else of the first. */
static Dtype about_of(int arity, const Dtype *types) {
  for (int k = 0; k < arity; k++)
    if (dtype_is_float(types[k])) return types[k];
  return types[0];
}

static void apply(LaneBuilder *b, const MathRow *row, int arity, int n, V *const *in, V *out) {
  if (row->all) {
    row->all(b, n, in, out);
    return;
  }
  for (int i = 0; i < n; i++) {
    V x[4] = {0};
    for (int k = 0; k < arity; k++) x[k] = in[k][i];
    out[i] = row->one ? row->one(b, x) : lane_op(b, row->op, arity, x);
  }
}

void gpu_math(LaneBuilder *b, const GpuTarget *t, MathFn fn, int arity, const Dtype *types, Dtype out_type, int n,
              LaneValue *const *const *in, LaneValue **out) {
  (void)t;
  Arena *arena = b->f->cx->arena;
  Dtype about = about_of(arity, types);
  if (fn == MATH_POW && arity == 2 && math_constant_power(b, about, types[1], n, in[0], in[1], out)) return;
  /* A whole power is the power of its number, which f64 holds exactly. */
  bool whole_power = fn == MATH_POW && arity == 2 && dtype_is_int(types[1]);
  const MathRow *row = whole_power ? NULL : find(fn, about);
  V *operands[4] = {0};
  for (int k = 0; k < arity; k++) operands[k] = (V *)in[k];
  if (row) {
    apply(b, row, arity, n, operands, out);
    return;
  }
  row = about == DT_F32 || whole_power ? find(fn, DT_F64) : NULL;
  if (!row)
    diag_fail(b->f->cx, b->span ? *b->span : (Span){0}, "the GPU back end has no %s of %s", math_info[fn].name,
              dtype_triton_name(about));
  for (int k = 0; k < arity; k++) {
    bool widen = types[k] == DT_F32, number = whole_power && k == 1;
    if (!widen && !number) continue;
    operands[k] = NEW_N(arena, V, n);
    for (int i = 0; i < n; i++) operands[k][i] = widen ? d_from_f(b, in[k][i]) : d_from_i(b, in[k][i]);
  }
  apply(b, row, arity, n, operands, out);
  if (out_type == DT_F32)
    for (int i = 0; i < n; i++) out[i] = f_from_d(b, out[i]);
}
