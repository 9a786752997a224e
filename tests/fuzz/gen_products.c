/* gen_products: loops around dots: one product, two of the same tile, and attention. gen_operands.c has the tiles'
 * loads. See gen.h.
 *
 * Operands are small multiples of a power of two, so that sums stay exact; but for attention's exponentials.
 */
#include "gen.h"
#include <math.h>
#include <stdio.h>

const char *random_precision(Gen *g, nereid_dtype t) {
  static const char *const texts[] = {", input_precision=\"ieee\"",
                                      "",
                                      ", input_precision=\"tf32\"",
                                      ", input_precision=\"tf32x3\"",
                                      ", input_precision=\"bf16x3\"",
                                      ", input_precision=\"bf16x6\"",
                                      ", allow_tf32=False"};
  return t == NEREID_F32 ? texts[draw(g, 7)] : "";
}

static nereid_dtype random_operand_type(Gen *g) {
  static const nereid_dtype types[] = {NEREID_BF16, NEREID_BF16, NEREID_BF16, NEREID_F16,    NEREID_F16,  NEREID_F16,
                                       NEREID_F32,  NEREID_F32,  NEREID_I8,   NEREID_F8E4NV, NEREID_F8E5, NEREID_F64};
  return gpu_dtype(types[draw(g, g->plain && chance(g, 80) ? 6 : 12)]);
}

static nereid_dtype sum_type(nereid_dtype t) {
  return t == NEREID_I8 ? NEREID_I32 : t == NEREID_F64 ? NEREID_F64 : NEREID_F32;
}

static const char *sum_text(nereid_dtype sum) {
  return sum == NEREID_I32 ? ", out_dtype=tl.int32" : sum == NEREID_F64 ? ", out_dtype=tl.float64" : "";
}

/* A result of the loop: into the pool where it is small enough for what else a kernel does, else stored. */
static void finish(Gen *g, Val r, const char *name) {
  if (numel(&r) <= MAX_NUMEL) {
    add_named(g, r, name);
    return;
  }
  snprintf(r.name, sizeof r.name, "%s", name);
  for (int tries = 0; tries < 9; tries++)
    if (store_value(g, &r)) return;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* What an iteration does to the sum beside adding to it: rows change their signs; it begins anew in one; one adds
 * nothing; each stores it. */
typedef enum { ONLY_ADDS, TURNS_SIGN, BEGINS_ANEW, LEAVES_OUT, IS_STORED } SumKind;
typedef struct Sum {
  Val v;
  char name[12];
  SumKind kind;
} Sum;

static void begin_sum(Gen *g, Sum *s, nereid_dtype t, int batch, int m, int n) {
  char shape[64];
  int first = (int)draw(g, 3);
  *s = (Sum){.v = {.t = sum_type(t), .step = NO_STEP}, .kind = chance(g, 75) ? ONLY_ADDS : 1 + draw(g, 4)};
  set_shape(&s->v, batch ? 3 : 2, batch ? (int[]){batch, m, n} : (int[]){m, n});
  print_shape(&s->v, shape);
  snprintf(s->name, sizeof s->name, "s%d", new_id(g));
  if (is_float(s->v.t)) line(g, "%s = tl.full(%s, %d.0, %s)", s->name, shape, first, tl_name(s->v.t));
  else line(g, "%s = tl.full(%s, %d, %s)", s->name, shape, first, tl_name(s->v.t));
}

/* How large the sum becomes, and whether it stays exact. */
static void bound_sum(Sum *s, const Turns *t, const DotOperand *a, const DotOperand *b) {
  Val *v = &s->v;
  double most = 2 + (double)t->trips * t->block * a->max * b->max;
  if (!is_float(v->t)) {
    set_int_range(v, (Int)-most, (Int)most);
    return;
  }
  v->step = a->step + b->step;
  double terms = t->trips * t->block;
  if (!exact_in(is_fp8(a->t) ? FP8_CUT * most : 4 * most, v->step, v->t)) /* as in make_dot */
    v->step = NO_STEP, v->err = (terms / 4.0 + 6) * unit(v->t) * most + (is_fp8(a->t) ? fp8_sum_error(terms, most) : 0);
  v->flo = -most - v->err, v->fhi = most + v->err;
}

static void put_dot(Gen *g, const Sum *s, const Turns *t, const DotOperand *a, const DotOperand *b) {
  const char *precision = random_precision(g, a->t), *out = sum_text(s->v.t), *type = tl_name(s->v.t);
  char condition[40], shape[64];
  snprintf(condition, sizeof condition, "%s %s %d", t->first, chance(g, 50) ? "==" : "<",
           t->block * (int)draw(g, (uint32_t)t->trips + 1));
  print_shape(&s->v, shape);
  if (s->kind == TURNS_SIGN)
    line(g, "%s = %s * ((tl.arange(0, %d) & 1) * 2 - 1).to(%s)%s", s->name, s->name, s->v.shape[s->v.rank - 2], type,
         s->v.rank == 3 ? "[None, :, None]" : "[:, None]");
  if (s->kind == BEGINS_ANEW)
    line(g, "if %s:\n%*s%s = tl.zeros(%s, %s)", condition, 4 * g->indent + 4, "", s->name, shape, type);
  if (s->kind == LEAVES_OUT) line(g, "if %s:", condition), g->indent++;
  if (chance(g, 60)) line(g, "%s = tl.dot(%s, %s, %s%s%s)", s->name, a->name, b->name, s->name, precision, out);
  else line(g, "%s += tl.dot(%s, %s%s%s)", s->name, a->name, b->name, precision, out);
  if (s->kind == LEAVES_OUT) g->indent--;
  if (s->kind != IS_STORED || g->loop_count == MAX_LOOPS) return;
  char counter[12];
  snprintf(counter, sizeof counter, "k%d", new_id(g));
  line(g, "%s = %s // %d", counter, t->first, t->block);
  g->loops[g->loop_count].trips = t->trips ? t->trips : 1;
  snprintf(g->loops[g->loop_count++].counter, sizeof counter, "%s", counter);
  Val now = s->v;
  snprintf(now.name, sizeof now.name, "%s", s->name), now.terminal = true;
  store_value(g, &now);
  g->loop_count--;
}

static bool make_products(Gen *g) {
  nereid_dtype t = random_operand_type(g);
  int batch = chance(g, g->plain ? 2 : 10) ? 2 << draw(g, 2) : 0,
      m = chance(g, 12) ? 1 << draw(g, 4) : 16 << draw(g, batch ? 2 : 4), n = 16 << draw(g, batch ? 2 : 4),
      k = 16 << draw(g, 3), most = chance(g, 20) ? 8 * MAX_NUMEL : MAX_NUMEL;
  if (width(t) == 8 && k < 32) k = 32; /* Triton's least, for NVIDIA GPUs */
  bool of_warpgroups = !batch && (g->plain || chance(g, 50));
  if (of_warpgroups) m = 64 << draw(g, 2), n = 8 << draw(g, 5);
  while (m * n * (batch ? batch : 1) > most) {
    if (m > n && !of_warpgroups) m /= 2;
    else n /= 2;
  }
  Turns turns;
  begin_turns(g, &turns, k, chance(g, 6) ? (int)draw_between(g, 8, 60) : (int)draw(g, 7));
  DotOperand a, b[2];
  Sum sum[2];
  int count = chance(g, 20) ? 2 : 1;
  if (!begin_operand(g, &turns, &a, t, batch, m)) return false;
  for (int i = 0; i < count; i++) {
    nereid_dtype other = is_fp8(t) && chance(g, 25) ? gpu_dtype(NEREID_F8E5) : t;
    if (!begin_operand(g, &turns, &b[i], other, batch, n)) return false;
    begin_sum(g, &sum[i], t, batch, m, n);
    bound_sum(&sum[i], &turns, &a, &b[i]);
  }
  put_turns(g, &turns);
  bool b_first = chance(g, 30);
  if (b_first) load_operand(g, &turns, &b[0], false);
  load_operand(g, &turns, &a, true);
  for (int i = b_first; i < count; i++) load_operand(g, &turns, &b[i], false);
  for (int i = 0; i < count; i++) put_dot(g, &sum[i], &turns, &a, &b[i]);
  g->indent--;
  for (int i = 0; i < count; i++) finish(g, sum[i].v, sum[i].name);
  return true;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Two products of which the second takes what the first gave. Without softmax all of it is exact: scores are cut to a
 * few units. With it, a weight may round to either of two neighbours. Some carry a state, as linear attention does:
 * keys by values, so that the tile of keys is read along by one product and across by another. */
static bool make_attention(Gen *g) {
  nereid_dtype t = random_operand_type(g);
  if (t == NEREID_I8) t = NEREID_F16;
  int m = (g->plain ? 64 : 16) << draw(g, g->plain ? 2 : 4), n = 16 << draw(g, 3), head = 16 << draw(g, 3),
      d = 16 << draw(g, 3);
  if (width(t) == 8 && head < 32) head = 32;
  if (width(t) == 8 && n < 32) n = 32;
  bool softmax = chance(g, 60), causal = chance(g, 40), carries = chance(g, 30);
  Turns turns;
  DotOperand keys, values;
  Sum state;
  begin_turns(g, &turns, n, (int)draw(g, 6));
  Param *q = add_param(g, PARAM_IN, "i");
  if (!q || !begin_operand(g, &turns, &keys, t, 0, head) || !begin_operand(g, &turns, &values, t, 0, d)) return false;
  q->t = t, q->fill = FILL_QUANTIZED, q->hi = 7, q->lo = -7, q->step = -2, q->place_at_end = chance(g, 50);
  q->count = (int64_t)m * head;
  int id = new_id(g);
  Val r = {.t = t == NEREID_F64 ? NEREID_F64 : NEREID_F32, .step = NO_STEP};
  set_shape(&r, 2, (int[]){m, d});
  const char *type = tl_name(r.t), *out = sum_text(r.t);
  line(g, "q%d = tl.load(%s + tl.arange(0, %d)[:, None] * %d + tl.arange(0, %d)[None, :])", id, q->name, m, head, head);
  line(g, "s%d = tl.zeros([%d, %d], %s)", id, m, d, type);
  if (softmax) {
    line(g, "m%d = tl.full([%d], float(\"-inf\"), %s)", id, m, type);
    line(g, "l%d = tl.full([%d], 1.0, %s)", id, m, type);
  }
  if (carries) begin_sum(g, &state, t, 0, head, d), bound_sum(&state, &turns, &keys, &values);
  put_turns(g, &turns);
  bool early = chance(g, 40);
  load_operand(g, &turns, &keys, true);
  if (early) load_operand(g, &turns, &values, false);
  line(g, "p%d = tl.dot(q%d, %s%s%s)", id, id, keys.name, random_precision(g, t), out);
  if (!softmax) {
    line(g, "p%d = tl.minimum(tl.maximum(p%d, -2.0), 2.0)", id, id);
    if (causal) line(g, "p%d = tl.where(%s[None, :] <= tl.arange(0, %d)[:, None], p%d, 0.0)", id, turns.index, m, id);
  } else {
    line(g, "p%d = p%d * 0.125", id, id);
    if (turns.masked) line(g, "p%d = tl.where(%s[None, :] < %s, p%d, -1.0e6)", id, turns.index, turns.total_text, id);
    if (causal)
      line(g, "p%d = tl.where(%s[None, :] <= tl.arange(0, %d)[:, None], p%d, -1.0e6)", id, turns.index, m, id);
    line(g, "u%d = tl.maximum(m%d, tl.max(p%d, 1))", id, id, id);
    line(g, "p%d = tl.exp2(p%d - u%d[:, None])", id, id, id);
    line(g, "e%d = tl.exp2(m%d - u%d)", id, id, id);
    line(g, "l%d = l%d * e%d + tl.sum(p%d, 1)", id, id, id, id);
    line(g, "s%d = s%d * e%d[:, None]", id, id, id);
    line(g, "m%d = u%d", id, id);
  }
  if (!early) load_operand(g, &turns, &values, false);
  const char *precision = random_precision(g, t);
  if (chance(g, 60))
    line(g, "s%d = tl.dot(p%d.to(%s), %s, s%d%s%s)", id, id, tl_name(t), values.name, id, precision, out);
  else line(g, "s%d += tl.dot(p%d.to(%s), %s%s%s)", id, id, tl_name(t), values.name, precision, out);
  if (carries) put_dot(g, &state, &turns, &keys, &values);
  g->indent--;
  if (softmax) {
    line(g, "s%d = s%d / l%d[:, None]", id, id, id);
    /* a mean of the values, of which each weight may be off by an ulp of its type, or of tf32 */
    double ulp = 2 * fmax(unit(t), t == NEREID_F32 ? 0x1p-11 : 0);
    r.err = values.max * (1.5 * ulp + 1e-4), r.flo = -values.max - r.err, r.fhi = values.max + r.err;
  } else {
    double most = (double)turns.trips * n * 2 * values.max;
    r.flo = -most, r.fhi = most,
    r.step = keys.step - 2 + values.step; /* what rounds p leaves it a multiple of its step */
  }
  char name[12];
  snprintf(name, sizeof name, "s%d", id);
  finish(g, r, name);
  if (carries) finish(g, state.v, state.name);
  return true;
}

bool make_product_loop(Gen *g) {
  if (g->in_helper || g->k->param_count > MAX_PARAMS - 14) return false;
  if (chance(g, 10)) return make_scaled_product(g);
  return chance(g, 30) ? make_attention(g) : make_products(g);
}
