/* Attention over packed sequences, and decoding, on every device against float64: odd and empty sequences, queries that
 * see no key, heads that share keys.
 *
 * The bounds follow the kernels' formulas. u is float's unit roundoff, u_t that of the arrays' type. A score
 * s_j = scale * q k_j of d products is off by 2 d u scale sum|q k_j| (twice: tensor cores need not round to nearest),
 * and as an exponent, less the maximum, by a few u of its size. A probability's relative error is that of its score and
 * of the sum of all, which is a mean of theirs: at most twice the largest; and a few u for each function, addition and
 * block, and u_t where it becomes an operand. */
#include "harness.h"

enum { E = 8, MAX_KEYS = 256 }; /* E: the error of exp2 and log2 in u */
static const double U = 0x1p-24;

typedef struct Expected {
  double *want, *bound;
} Expected;
static Expected expected(int64_t n) {
  Expected e = {calloc((size_t)n + 1, 8), calloc((size_t)n + 1, 8)};
  assert_true(e.want && e.bound);
  return e;
}
static void expected_free(Expected *e) { free(e->want), free(e->bound); }
static void add_term(Expected *e, int64_t i, double value, double bound) { e->want[i] += value, e->bound[i] += bound; }
/* The sum of n terms is rounded n times, in an order of the kernel's; sizes are the sums of the terms' sizes. */
static void round_sums(Expected *e, const double *sizes, int64_t count, int64_t n) {
  for (int64_t i = 0; i < count; i++) e->bound[i] += 2 * (double)n * U * sizes[i];
}

typedef struct Row { /* what one query makes of the keys from .. to - 1 */
  int from, to;
  double p[MAX_KEYS], error; /* the relative one of each p */
  double lse, lse_bound;     /* in units of log2 */
} Row;

static double product_size(const double *a, const double *b, int d, double *sum) {
  double size = 0;
  *sum = 0;
  for (int i = 0; i < d; i++) *sum += a[i] * b[i], size += fabs(a[i] * b[i]);
  return size;
}

static Row attend(const double *q, const double *k, int64_t stride_k, int from, int to, int d, double scale,
                  nereid_dtype type, int blocks) {
  Row r = {.from = from, .to = to, .lse = -INFINITY};
  double top = -INFINITY, total = 0, worst = 0, largest = 0;
  for (int j = from; j < to; j++) {
    double size = scale * product_size(q, k + j * stride_k, d, &r.p[j]);
    r.p[j] *= scale, top = fmax(top, r.p[j]);
    worst = fmax(worst, 2 * d * U * size), largest = fmax(largest, fabs(r.p[j]));
  }
  for (int j = from; j < to; j++) total += r.p[j] = exp(r.p[j] - top);
  for (int j = from; j < to; j++) r.p[j] /= total;
  double steps = (to - from + blocks * (E + 2) + E) * U;
  if (to > from) r.lse = (top + log(total)) * 1.4426950408889634;
  if (to > from) r.lse_bound = (worst + 4 * U * largest + steps) * 1.5 + 2 * U * fabs(r.lse);
  r.error = 2 * (worst + 6 * U * largest + steps) + 2 * U * (to > from ? fabs(r.lse) : 0) + unit_roundoff(type);
  return r;
}

/* out[0 .. d - 1] = sum of p_j v_j */
static void weigh(const Row *r, const double *v, int64_t stride_v, int d, Expected *out, int64_t at) {
  for (int c = 0; c < d; c++) {
    double size = 0, sum = 0;
    for (int j = r->from; j < r->to; j++)
      sum += r->p[j] * v[j * stride_v + c], size += fabs(r->p[j] * v[j * stride_v + c]);
    out->want[at + c] = sum;
    out->bound[at + c] = size * (r->error + 2 * (r->to - r->from) * U) + 0x1p-120; /* exp2 below 2^-126 may be 0 */
  }
}

/* ---- packed sequences -------------------------------------------------------------------------------------------- */

typedef struct Varlen {
  nereid_dtype type;
  int d, heads, group, block_m, block_n;
  bool causal;
  int window;
} Varlen;

/* One with keys and no query, one with queries and no key, and one with fewer keys than queries. */
enum { SEQUENCES = 6, LONGEST = 41 };
static const int starts_q[SEQUENCES + 1] = {0, 0, 1, 42, 62, 66, 99},
                                      starts_k[SEQUENCES + 1] = {0, 3, 8, 49, 58, 58, 98};
enum { TOTAL_Q = 99, TOTAL_K = 98 };

typedef struct Gradients {
  Expected out, lse, dq, dk, dv;
} Gradients;

static int seen_from(const Varlen *v, int own) { return v->window && own >= v->window ? own - v->window + 1 : 0; }
static int seen_to(const Varlen *v, int own, int length_k) {
  return v->causal && own + 1 < length_k ? (own < 0 ? 0 : own + 1) : length_k;
}

static Gradients varlen_reference(const Varlen *v, const Tensor *q, const Tensor *k, const Tensor *value,
                                  const Tensor *grad, double scale) {
  int kv_heads = v->heads / v->group, stride_q = v->heads * v->d, stride_k = kv_heads * v->d, d = v->d;
  int64_t size_q = TOTAL_Q * stride_q, size_k = TOTAL_K * stride_k;
  double u_type = unit_roundoff(v->type);
  double *dk_size = calloc((size_t)size_k, 8), *dv_size = calloc((size_t)size_k, 8);
  Gradients g = {expected(size_q), expected((int64_t)v->heads * TOTAL_Q), expected(size_q), expected(size_k),
                 expected(size_k)};
  for (int s = 0; s < SEQUENCES; s++) {
    int length_q = starts_q[s + 1] - starts_q[s], length_k = starts_k[s + 1] - starts_k[s];
    for (int i = 0; i < length_q * v->heads; i++) {
      int h = i % v->heads, own = i / v->heads + length_k - length_q;
      int64_t at = (starts_q[s] + i / v->heads) * stride_q + h * d, at_k = starts_k[s] * stride_k + h / v->group * d;
      const double *Q = q->values + at, *K = k->values + at_k, *V = value->values + at_k, *G = grad->values + at;
      int from = seen_from(v, own), to = seen_to(v, own, length_k);
      Row r = attend(Q, K, stride_k, from, to > from ? to : from, d, scale, v->type, length_k / v->block_n + 1);
      weigh(&r, V, stride_k, d, &g.out, at);
      g.lse.want[h * TOTAL_Q + starts_q[s] + i / v->heads] = r.lse;
      g.lse.bound[h * TOTAL_Q + starts_q[s] + i / v->heads] = r.lse_bound;
      double delta = 0, delta_error = 0;
      for (int c = 0; c < d; c++) {
        double o = g.out.want[at + c];
        delta += o * G[c];
        delta_error += fabs(G[c]) * (g.out.bound[at + c] + (u_type + d * U) * fabs(o));
      }
      for (int j = r.from; j < r.to; j++) {
        double dp, dp_size = product_size(G, V + j * stride_k, d, &dp), ds = r.p[j] * (dp - delta);
        double ds_error = (r.error + u_type + 4 * U) * fabs(ds) + r.p[j] * (2 * d * U * dp_size + delta_error);
        for (int c = 0; c < d; c++) {
          int64_t to_k = at_k + j * stride_k + c;
          double kc = scale * K[j * stride_k + c], qc = scale * Q[c], pg = r.p[j] * G[c];
          add_term(&g.dq, at + c, ds * kc, fabs(kc) * (ds_error + 2 * (length_k + 2) * U * fabs(ds)));
          add_term(&g.dk, to_k, ds * qc, fabs(qc) * ds_error), dk_size[to_k] += fabs(ds * qc);
          add_term(&g.dv, to_k, pg, fabs(pg) * r.error), dv_size[to_k] += fabs(pg);
        }
      }
    }
  }
  round_sums(&g.dk, dk_size, size_k, LONGEST * v->group + 2), round_sums(&g.dv, dv_size, size_k, LONGEST * v->group);
  free(dk_size), free(dv_size);
  return g;
}

static void varlen_consts(Call *c, const Varlen *v) {
  arg_const(c, "D", v->d), arg_const(c, "GROUP", v->group), arg_const(c, "BLOCK_M", v->block_m);
  arg_const(c, "BLOCK_N", v->block_n), arg_const(c, "CAUSAL", v->causal), arg_const(c, "WINDOW", v->window);
  c->grid_z = SEQUENCES;
}

static void varlen_case(const char *device, const Varlen *v) {
  static const char file[] = "attention_varlen.py";
  int64_t size_q = TOTAL_Q * v->heads * v->d, size_k = TOTAL_K * (v->heads / v->group) * v->d,
          rows = TOTAL_Q * v->heads;
  double scale = (float)(1 / sqrt(v->d));
  Tensor q = tensor_random(v->type, size_q, 1), k = tensor_random(v->type, size_k, 2),
         value = tensor_random(v->type, size_k, 3), grad = tensor_random(v->type, size_q, 4),
         out = tensor_full(v->type, size_q, 9), lse = tensor_full(NEREID_F32, rows, 9),
         delta = tensor_full(NEREID_F32, rows, 9), dq = tensor_full(v->type, size_q, 9),
         dk = tensor_full(v->type, size_k, 9), dv = tensor_full(v->type, size_k, 9),
         sq = tensor_full(NEREID_I32, SEQUENCES + 1, 0), sk = tensor_full(NEREID_I32, SEQUENCES + 1, 0);
  for (int i = 0; i <= SEQUENCES; i++) tensor_set(&sq, i, starts_q[i]), tensor_set(&sk, i, starts_k[i]);
  Gradients g = varlen_reference(v, &q, &k, &value, &grad, scale);

  Call f = {0};
  arg_tensor(&f, &q), arg_tensor(&f, &k), arg_tensor(&f, &value), arg_tensor(&f, &out), arg_tensor(&f, &lse);
  arg_tensor(&f, &sq), arg_tensor(&f, &sk), arg_int(&f, v->heads), arg_int(&f, TOTAL_Q), arg_float(&f, scale);
  varlen_consts(&f, v);
  launch(device, file, "attention_varlen", &f, cdiv(LONGEST, v->block_m), v->heads);
  check_close("out", &out, g.out.want, g.out.bound, size_q);
  check_close("lse", &lse, g.lse.want, g.lse.bound, rows);

  Call t = {0};
  arg_tensor(&t, &out), arg_tensor(&t, &grad), arg_tensor(&t, &delta), arg_int(&t, v->heads), arg_int(&t, TOTAL_Q);
  arg_const(&t, "D", v->d), arg_const(&t, "BLOCK_M", 32);
  launch(device, file, "attention_varlen_delta", &t, cdiv(TOTAL_Q, 32), v->heads);

  for (int which = 0; which < 2; which++) {
    Call b = {0};
    arg_tensor(&b, &q), arg_tensor(&b, &k), arg_tensor(&b, &value), arg_tensor(&b, &grad), arg_tensor(&b, &lse);
    arg_tensor(&b, &delta);
    if (which) arg_tensor(&b, &dq);
    else arg_tensor(&b, &dk), arg_tensor(&b, &dv);
    arg_tensor(&b, &sq), arg_tensor(&b, &sk), arg_int(&b, v->heads), arg_int(&b, TOTAL_Q), arg_float(&b, scale);
    varlen_consts(&b, v);
    launch(device, file, which ? "attention_varlen_backward_q" : "attention_varlen_backward_kv", &b,
           cdiv(LONGEST, which ? v->block_m : v->block_n), which ? v->heads : v->heads / v->group);
  }
  check_close("dq", &dq, g.dq.want, g.dq.bound, size_q);
  check_close("dk", &dk, g.dk.want, g.dk.bound, size_k);
  check_close("dv", &dv, g.dv.want, g.dv.bound, size_k);
  Expected *all[] = {&g.out, &g.lse, &g.dq, &g.dk, &g.dv};
  for (int i = 0; i < 5; i++) expected_free(all[i]);
  Tensor *tensors[] = {&q, &k, &value, &grad, &out, &lse, &delta, &dq, &dk, &dv, &sq, &sk};
  for (int i = 0; i < 12; i++) tensor_free(tensors[i]);
}

static void varlen_on(const char *device) {
  static const Varlen cases[] = {
      {NEREID_F32, 24, 2, 2, 32, 16, false, 0},
      {NEREID_F16, 64, 2, 1, 64, 32, true, 0},
      {NEREID_BF16, 96, 2, 2, 32, 32, true, 7},
      {NEREID_BF16, 256, 1, 1, 64, 32, true, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) varlen_case(device, &cases[i]);
}
static void test_varlen(void **s) {
  (void)s;
  on_every_device(varlen_on);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* One query a sequence, one of them empty, one a single key, one a whole number of pages. */
enum { BATCH = 5, LONGEST_CONTEXT = 101 };
static const int lengths[BATCH] = {37, 0, 1, 101, 64};

/* Keys j of sequence i are row j % page of page table[i * pages + j / page]. Pages lie in no order; what is on them
 * beyond a sequence's end must not be read: it is NaN. */
typedef struct Paged {
  int page, pages; /* of each sequence */
  Tensor table, lengths;
} Paged;
static Paged paged(int page) {
  Paged p = {page, (LONGEST_CONTEXT + page - 1) / page, {0}, {0}};
  p.table = tensor_full(NEREID_I32, BATCH * p.pages, 0), p.lengths = tensor_full(NEREID_I32, BATCH, 0);
  for (int i = 0; i < BATCH * p.pages; i++) tensor_set(&p.table, i, (i * 7 + 3) % (BATCH * p.pages));
  for (int i = 0; i < BATCH; i++) tensor_set(&p.lengths, i, lengths[i]);
  return p;
}
static int64_t slot_of(const Paged *p, int sequence, int key) {
  return (int64_t)p->table.values[sequence * p->pages + key / p->page] * p->page + key % p->page;
}
static Tensor cache_of(const Paged *p, nereid_dtype type, int64_t row, uint64_t seed) {
  Tensor random = tensor_random(type, BATCH * p->pages * p->page * row, seed),
         cache = tensor_full(type, random.count, NAN);
  for (int s = 0; s < BATCH; s++)
    for (int j = 0; j < lengths[s]; j++)
      for (int64_t c = 0; c < row; c++) {
        int64_t i = slot_of(p, s, j) * row + c;
        tensor_set(&cache, i, random.values[i]);
      }
  tensor_free(&random);
  return cache;
}

typedef struct Decode {
  nereid_dtype type;
  int heads, group; /* heads that share keys */
  int d, d_value;   /* of a key; of a value */
  int page, splits, block_h, block_n;
  bool mla; /* the values are the beginning of the keys */
} Decode;

static Expected decode_reference(const Decode *c, const Paged *p, const Tensor *q, const Tensor *k, const Tensor *v,
                                 double scale) {
  int kv_heads = c->heads / c->group, row_k = kv_heads * c->d, row_v = c->mla ? row_k : kv_heads * c->d_value;
  Expected out = expected((int64_t)BATCH * c->heads * c->d_value);
  double *keys = calloc((size_t)LONGEST_CONTEXT * (size_t)row_k, 8),
         *values = calloc((size_t)LONGEST_CONTEXT * (size_t)row_v, 8);
  assert_true(keys && values);
  for (int s = 0; s < BATCH; s++) {
    for (int j = 0; j < lengths[s]; j++) {
      memcpy(keys + j * row_k, k->values + slot_of(p, s, j) * row_k, (size_t)row_k * 8);
      memcpy(values + j * row_v, v->values + slot_of(p, s, j) * row_v, (size_t)row_v * 8);
    }
    for (int h = 0; h < c->heads; h++) {
      int64_t at = s * c->heads + h;
      int blocks = lengths[s] / c->block_n + 1 + 2 * c->splits; /* each split is scaled and added, as a block is */
      Row r =
          attend(q->values + at * c->d, keys + h / c->group * c->d, row_k, 0, lengths[s], c->d, scale, c->type, blocks);
      weigh(&r, values + h / c->group * (c->mla ? c->d : c->d_value), row_v, c->d_value, &out, at * c->d_value);
    }
  }
  free(keys), free(values);
  return out;
}

static void decode_case(const char *device, const Decode *c) {
  int64_t rows = (int64_t)BATCH * c->heads, kv_heads = c->heads / c->group, size = rows * c->d_value;
  double scale = (float)(1 / sqrt(c->d));
  Paged p = paged(c->page);
  Tensor q = tensor_random(c->type, rows * c->d, 5), k = cache_of(&p, c->type, kv_heads * c->d, 6),
         v = c->mla ? (Tensor){0} : cache_of(&p, c->type, kv_heads * c->d_value, 7),
         partial = tensor_full(NEREID_F32, size * c->splits, NAN), out = tensor_full(c->type, size, 9),
         lse = tensor_full(NEREID_F32, rows * c->splits, NAN);
  Expected want = decode_reference(c, &p, &q, &k, c->mla ? &k : &v, scale);
  Call f = {.grid_z = c->splits};
  arg_tensor(&f, &q), arg_tensor(&f, &k);
  if (!c->mla) arg_tensor(&f, &v);
  arg_tensor(&f, &partial), arg_tensor(&f, &lse), arg_tensor(&f, &p.table), arg_tensor(&f, &p.lengths);
  arg_int(&f, p.pages), arg_int(&f, c->heads), arg_float(&f, scale);
  if (c->mla) arg_const(&f, "LATENT", c->d_value), arg_const(&f, "ROPE", c->d - c->d_value);
  else arg_const(&f, "D", c->d), arg_const(&f, "GROUP", c->group);
  arg_const(&f, "PAGE", c->page), arg_const(&f, "SPLITS", c->splits), arg_const(&f, "BLOCK_H", c->block_h);
  arg_const(&f, "BLOCK_N", c->block_n);
  if (c->mla) launch(device, "mla_decode.py", "mla_decode", &f, cdiv(c->heads, c->block_h), BATCH);
  else launch(device, "attention_decode.py", "attention_decode", &f, BATCH, kv_heads);
  Call g = {0};
  arg_tensor(&g, &partial), arg_tensor(&g, &lse), arg_tensor(&g, &out), arg_const(&g, "D", c->d_value);
  arg_const(&g, "SPLITS", c->splits), arg_const(&g, "BLOCK_D", 64);
  launch(device, "attention_decode.py", "combine_splits", &g, rows, cdiv(c->d_value, 64));
  check_close(c->mla ? "MLA decode" : "decode", &out, want.want, want.bound, size);
  expected_free(&want);
  Tensor *tensors[] = {&q, &k, &v, &partial, &out, &lse, &p.table, &p.lengths};
  for (int i = 0; i < 8; i++) tensor_free(tensors[i]);
}

static void decode_on(const char *device) {
  static const Decode cases[] = {
      {NEREID_F32, 4, 2, 24, 24, 16, 4, 16, 32, false}, /* blocks of two pages; some splits without keys */
      {NEREID_F16, 8, 8, 64, 64, 32, 2, 16, 16, false}, /* pages of two blocks */
      {NEREID_BF16, 6, 3, 96, 96, 1, 1, 16, 32, false}, /* a page a key */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) decode_case(device, &cases[i]);
}
static void test_decode(void **s) {
  (void)s;
  on_every_device(decode_on);
}

static void mla_decode_on(const char *device) {
  static const Decode cases[] = {
      {NEREID_F32, 5, 5, 48, 32, 16, 4, 16, 16, true},
      {NEREID_BF16, 20, 20, 576, 512, 64, 2, 16, 32, true},
      {NEREID_F16, 66, 66, 160, 128, 64, 2, 64, 64, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) decode_case(device, &cases[i]);
}
static void test_mla_decode(void **s) {
  (void)s;
  on_every_device(mla_decode_on);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_varlen), cmocka_unit_test(test_decode),
                                     cmocka_unit_test(test_mla_decode)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  test_devices_close();
  return failed;
}
