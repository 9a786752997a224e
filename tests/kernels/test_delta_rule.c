/* The gated delta rule in chunks, on every device, against its definition in float64, one token after the other.
 *
 * The bounds come of a running error analysis (Higham, "Accuracy and Stability of Numerical Algorithms", 3.3): the
 * chunked formulas once more, on numbers that carry how far rounding may have taken them. Each array that a kernel
 * stores, and each operand that it rounds to the arrays' type, adds that type's unit roundoff. */
#include "harness.h"

static const double U = 0x1p-24;
enum { E = 8 }; /* the error of exp in u, besides that of its argument as exp2 takes it */

typedef struct Number {
  double v, e; /* the exact value; the kernel's is at most e from it */
} Number;

static Number number(double v) { return (Number){v, 0}; }
static Number times(Number a, Number b) {
  double v = a.v * b.v, e = fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e;
  return (Number){v, e + U * (fabs(v) + e)};
}
static Number minus(Number a, Number b) {
  double v = a.v - b.v, e = a.e + b.e;
  return (Number){v, e + U * (fabs(v) + e)};
}
static Number plus(Number a, Number b) { return minus(a, (Number){-b.v, b.e}); }
static Number exponential(Number a) {
  double v = exp(a.v);
  return (Number){v, v * (expm1(a.e) + (E + fabs(a.v)) * U)};
}
static Number rounded(Number a, nereid_dtype t) { return (Number){a.v, a.e + unit_roundoff(t) * (fabs(a.v) + a.e)}; }
/* Of n products, whose sum is rounded n times; twice, since tensor cores need not round to nearest. */
static Number product(const Number *a, int64_t step_a, const Number *b, int64_t step_b, int n) {
  Number s = {0, 0};
  double size = 0;
  for (int i = 0; i < n; i++, a += step_a, b += step_b) {
    s.v += a->v * b->v, size += fabs(a->v * b->v);
    s.e += fabs(a->v) * b->e + fabs(b->v) * a->e + a->e * b->e;
  }
  s.e += 2 * (n + 1) * U * (size + s.e);
  return s;
}

enum { HEADS = 2, MOST_CHUNK = 64, MOST_D = 64 };
typedef struct Shape {
  nereid_dtype type;
  int n, dk, dv, chunk, block_v;
} Shape;
typedef struct Inputs {
  Tensor q, k, v, beta, gate, initial;
} Inputs;

/* out and the last state, token by token. */
static void recurrence(const Shape *s, const Inputs *in, double scale, int head, double *out, double *state) {
  memcpy(state, in->initial.values + head * s->dk * s->dv, sizeof(double) * (size_t)(s->dk * s->dv));
  for (int t = 0; t < s->n; t++) {
    int64_t at = head * s->n + t;
    const double *k = in->k.values + at * s->dk, *q = in->q.values + at * s->dk, *v = in->v.values + at * s->dv;
    double beta = in->beta.values[at], decay = exp(in->gate.values[at]);
    for (int c = 0; c < s->dv; c++) {
      double found = 0, o = 0;
      for (int d = 0; d < s->dk; d++) found += k[d] * decay * state[d * s->dv + c];
      for (int d = 0; d < s->dk; d++) {
        double *x = &state[d * s->dv + c];
        *x = decay * *x + beta * k[d] * (v[c] - found);
        o += q[d] * *x;
      }
      out[t * s->dv + c] = scale * o;
    }
  }
}

/* (I + a)^-1 of size n, a strictly lower. Substitution by blocks, whose products are of tf32 in three parts (2^-20), is
 * off by |t| (error of a + c |a|) |t| + c |t|. */
static void inverse(Number a[MOST_CHUNK][MOST_CHUNK], Number t[MOST_CHUNK][MOST_CHUNK], int n) {
  static double off[MOST_CHUNK][MOST_CHUNK];
  double c = 2 * n * U + 4 * 0x1p-20;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      t[i][j] = number(i == j);
      for (int m = j; m < i; m++) t[i][j].v -= a[i][m].v * t[m][j].v;
    }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      off[i][j] = 0;
      for (int m = j; m < i; m++) off[i][j] += (a[i][m].e + c * fabs(a[i][m].v)) * fabs(t[m][j].v);
    }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      t[i][j].e = c * fabs(t[i][j].v);
      for (int m = j; m <= i; m++) t[i][j].e += 2 * fabs(t[i][m].v) * off[m][j];
    }
}

/* The kernels' formulas for one chunk of `rows` tokens from token `first` on: state is updated, out written. */
static void chunk_bounds(const Shape *s, const Inputs *in, double scale, int head, int first, int rows, Number *state,
                         Number *out) {
  static Number a[MOST_CHUNK][MOST_CHUNK], t[MOST_CHUNK][MOST_CHUNK], k[MOST_CHUNK][MOST_D], q[MOST_CHUNK][MOST_D],
      kb[MOST_CHUNK][MOST_D], vb[MOST_CHUNK][MOST_D], w[MOST_CHUNK][MOST_D], fresh[MOST_CHUNK][MOST_D],
      stored[MOST_D * MOST_D];
  Number decay[MOST_CHUNK], beta[MOST_CHUNK], sum = {0, 0};
  int dk = s->dk, dv = s->dv;
  nereid_dtype type = s->type;
  for (int i = 0; i < rows; i++) {
    int64_t at = head * s->n + first + i;
    sum = plus(sum, number(in->gate.values[at]));
    decay[i] = (Number){sum.v, rows * U * fabs(sum.v) + sum.e}; /* scans add in other orders */
    beta[i] = number(in->beta.values[at]);
    Number size = times(beta[i], exponential(decay[i]));
    for (int d = 0; d < dk; d++) {
      k[i][d] = number(in->k.values[at * dk + d]), q[i][d] = number(in->q.values[at * dk + d]);
      kb[i][d] = rounded(times(k[i][d], size), type);
    }
    for (int c = 0; c < dv; c++) vb[i][c] = rounded(times(number(in->v.values[at * dv + c]), beta[i]), type);
  }
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < rows; j++) {
      Number grown = j < i ? exponential(minus(decay[i], decay[j])) : number(0);
      a[i][j] = times(times(product(k[i], 1, k[j], 1, dk), beta[i]), grown);
    }
  inverse(a, t, rows);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < rows; j++) t[i][j] = rounded(t[i][j], type);
  for (int i = 0; i < dk * dv; i++) stored[i] = rounded(state[i], type);
  for (int i = 0; i < rows; i++)
    for (int d = 0; d < dk; d++) w[i][d] = rounded(product(t[i], 1, &kb[0][d], MOST_D, rows), type);
  for (int i = 0; i < rows; i++)
    for (int c = 0; c < dv; c++) {
      Number u = rounded(product(t[i], 1, &vb[0][c], MOST_D, rows), type);
      fresh[i][c] = minus(u, product(w[i], 1, &stored[c], dv, dk));
    }
  for (int i = 0; i < rows; i++)
    for (int c = 0; c < dv; c++) {
      Number o = times(product(q[i], 1, &stored[c], dv, dk), exponential(decay[i]));
      Number p[MOST_CHUNK], f[MOST_CHUNK];
      for (int j = 0; j <= i; j++) {
        Number grown = exponential(minus(decay[i], decay[j]));
        p[j] = rounded(times(product(q[i], 1, k[j], 1, dk), grown), type), f[j] = rounded(fresh[j][c], type);
      }
      out[(first + i) * dv + c] = times(plus(o, product(p, 1, f, 1, i + 1)), number(scale));
    }
  for (int d = 0; d < dk; d++)
    for (int c = 0; c < dv; c++) {
      Number column[MOST_CHUNK], added[MOST_CHUNK], *x = &state[d * dv + c];
      for (int i = 0; i < rows; i++) {
        column[i] = k[i][d];
        added[i] = rounded(times(fresh[i][c], exponential(minus(decay[rows - 1], decay[i]))), type);
      }
      *x = plus(times(*x, exponential(decay[rows - 1])), product(column, 1, added, 1, rows));
    }
}

typedef struct Expected {
  double *out, *out_bound, *final, *final_bound;
} Expected;

static Expected reference(const Shape *s, const Inputs *in, double scale) {
  int64_t size = (int64_t)s->n * s->dv, state_size = (int64_t)s->dk * s->dv;
  Expected e = {calloc((size_t)(HEADS * size), 8), calloc((size_t)(HEADS * size), 8),
                calloc((size_t)(HEADS * state_size), 8), calloc((size_t)(HEADS * state_size), 8)};
  Number *out = calloc((size_t)size, sizeof *out), *state = calloc((size_t)state_size, sizeof *state);
  assert_true(e.out && e.out_bound && e.final && e.final_bound && out && state);
  for (int h = 0; h < HEADS; h++) {
    recurrence(s, in, scale, h, e.out + h * size, e.final + h * state_size);
    for (int64_t i = 0; i < state_size; i++) state[i] = number(in->initial.values[h * state_size + i]);
    for (int first = 0; first < s->n; first += s->chunk)
      chunk_bounds(s, in, scale, h, first, s->n - first < s->chunk ? s->n - first : s->chunk, state, out);
    for (int64_t i = 0; i < size; i++) {
      assert_true(fabs(out[i].v - e.out[h * size + i]) <= 1e-9); /* in chunks is what it is token by token */
      e.out_bound[h * size + i] = out[i].e;
    }
    for (int64_t i = 0; i < state_size; i++) e.final_bound[h * state_size + i] = state[i].e;
  }
  free(out), free(state);
  return e;
}

static Inputs random_inputs(const Shape *s) {
  int64_t tokens = (int64_t)HEADS * s->n;
  Inputs in = {tensor_random(s->type, tokens * s->dk, 1), tensor_random(s->type, tokens * s->dk, 2),
               tensor_random(s->type, tokens * s->dv, 3), tensor_random(NEREID_F32, tokens, 4),
               tensor_random(NEREID_F32, tokens, 5),      tensor_random(NEREID_F32, (int64_t)HEADS * s->dk * s->dv, 6)};
  for (int64_t t = 0; t < tokens; t++) {
    double length = 0;
    for (int d = 0; d < s->dk; d++) length += in.k.values[t * s->dk + d] * in.k.values[t * s->dk + d];
    for (int d = 0; d < s->dk; d++) tensor_set(&in.k, t * s->dk + d, in.k.values[t * s->dk + d] / sqrt(length));
    tensor_set(&in.beta, t, 1 / (1 + exp(-in.beta.values[t])));
    tensor_set(&in.gate, t, -0.4 * fabs(in.gate.values[t]));
  }
  return in;
}

static void consts(Call *c, const Shape *s, bool blocks) {
  arg_const(c, "DK", s->dk), arg_const(c, "DV", s->dv), arg_const(c, "CHUNK", s->chunk);
  if (blocks) arg_const(c, "BLOCK_V", s->block_v);
}

static void delta_rule_case(const char *device, const Shape *s) {
  static const char file[] = "delta_rule.py";
  int64_t tokens = (int64_t)HEADS * s->n, chunks = cdiv(s->n, s->chunk), state_size = (int64_t)HEADS * s->dk * s->dv;
  double scale = (float)(1 / sqrt(s->dk));
  Inputs in = random_inputs(s);
  Expected want = reference(s, &in, scale);
  Tensor w = tensor_full(s->type, tokens * s->dk, NAN), u = tensor_full(s->type, tokens * s->dv, NAN),
         fresh = tensor_full(s->type, tokens * s->dv, NAN), out = tensor_full(s->type, tokens * s->dv, NAN),
         decay = tensor_full(NEREID_F32, tokens, NAN), final = tensor_full(NEREID_F32, state_size, NAN),
         states = tensor_full(s->type, state_size * chunks, NAN);
  Call a = {0};
  arg_tensor(&a, &in.k), arg_tensor(&a, &in.v), arg_tensor(&a, &in.beta), arg_tensor(&a, &in.gate), arg_tensor(&a, &w);
  arg_tensor(&a, &u), arg_tensor(&a, &decay), arg_int(&a, s->n), consts(&a, s, false);
  launch(device, file, "delta_rule_chunk", &a, chunks, HEADS);
  Call b = {0};
  arg_tensor(&b, &in.k), arg_tensor(&b, &w), arg_tensor(&b, &u), arg_tensor(&b, &decay), arg_tensor(&b, &in.initial);
  arg_tensor(&b, &fresh), arg_tensor(&b, &states), arg_tensor(&b, &final), arg_int(&b, s->n), consts(&b, s, true);
  launch(device, file, "delta_rule_state", &b, s->dv / s->block_v, HEADS);
  Call c = {.grid_z = HEADS};
  arg_tensor(&c, &in.q), arg_tensor(&c, &in.k), arg_tensor(&c, &fresh), arg_tensor(&c, &decay), arg_tensor(&c, &states);
  arg_tensor(&c, &out), arg_int(&c, s->n), arg_float(&c, scale), consts(&c, s, true);
  launch(device, file, "delta_rule_output", &c, chunks, s->dv / s->block_v);
  check_close("delta rule", &out, want.out, want.out_bound, tokens * s->dv);
  check_close("the last state", &final, want.final, want.final_bound, state_size);
  free(want.out), free(want.out_bound), free(want.final), free(want.final_bound);
  Tensor *tensors[] = {&in.q, &in.k,  &in.v, &in.beta, &in.gate, &in.initial, &w,
                       &u,    &fresh, &out,  &decay,   &final,   &states};
  for (int i = 0; i < 13; i++) tensor_free(tensors[i]);
}

static void delta_rule_on(const char *device) {
  static const Shape shapes[] = {
      {NEREID_F32, 75, 16, 32, 16, 16}, {NEREID_F32, 70, 32, 16, 64, 16}, {NEREID_F16, 37, 64, 64, 32, 32}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) delta_rule_case(device, &shapes[i]);
}
static void test_delta_rule(void **s) {
  (void)s;
  on_every_device(delta_rule_on);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_delta_rule)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  test_devices_close();
  return failed;
}
