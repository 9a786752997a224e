/* Conversions between layouts, each carried out on the CPU exactly as the plan says: registers of all threads, rounds
 * of shuffles, shared memory. An element is represented by its index, so that what arrives can be compared with the
 * map. */
#include "layout/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LANES = 32, EMPTY = -1 };

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)((random_state >> 20) % n);
}

static int thread_count(const Layout *l) { return LANES << l->warp_bits; }
static int held(const Layout *l, int reg, int thread) {
  return (int)layout_element(l, reg, thread % LANES, thread / LANES);
}

static const char *describe(Context *cx, const Convert *c, int elem_bytes) {
  Buf b = {0};
  static const char *const kinds[] = {"none", "registers", "shuffle", "shared"};
  const Layout *both[] = {c->from, c->to};
  for (int k = 0; k < 2; k++) {
    buf_puts(&b, k ? "\n  to   " : "\n  from ");
    for (int i = 0; i < both[k]->reg_bits + both[k]->lane_bits + both[k]->warp_bits; i++)
      buf_printf(&b, "%s%u", i == both[k]->reg_bits || i == both[k]->reg_bits + both[k]->lane_bits ? " | " : " ",
                 both[k]->basis[i]);
  }
  buf_printf(&b, "\n  %s, %d bytes an element, vectors %d and %d", kinds[c->kind], elem_bytes, c->write_vector,
             c->read_vector);
  char *text = arena_strdup(cx->arena, b.at);
  buf_destroy(&b);
  return text;
}

/* ---- carrying out a plan ----------------------------------------------------------------------------------------- */

static void run_shuffles(const Convert *c, const int *in, int *out) {
  int from = layout_registers(c->from), to = layout_registers(c->to);
  for (int k = 0; k < c->round_count; k++) {
    const ConvertRound *round = &c->rounds[k];
    for (int t = 0; t < thread_count(c->to); t++) {
      uint32_t first = (uint32_t)t / LANES * LANES, source = lane_map_apply(&round->source, (uint32_t)t);
      assert_true(source < LANES);
      uint32_t send = lane_map_apply(&round->send, first + source),
               receive = lane_map_apply(&round->receive, (uint32_t)t);
      assert_true(send < (uint32_t)from && receive < (uint32_t)to);
      int *at = &out[t * to + (int)receive];
      assert_int_equal(*at, EMPTY); /* each register is received once */
      *at = in[(int)(first + source) * from + (int)send];
    }
  }
}

/* Wavefronts of one warp's access over as few as can be: 32 banks of 4 bytes, by half and quarter warps for long
 * accesses. */
static double count_wavefronts(const uint32_t *offset, const bool *active, int vector, int elem_bytes) {
  int bytes = vector * elem_bytes, groups = bytes > 4 ? bytes / 4 : 1, lanes = LANES / groups, total = 0, least = 0;
  for (int g = 0; g < groups; g++) {
    int words[32] = {0}, worst = 0;
    uint32_t seen[LANES * 4];
    int seen_count = 0;
    for (int lane = g * lanes; lane < (g + 1) * lanes; lane++) {
      if (!active[lane]) continue;
      uint32_t first = offset[lane] * (uint32_t)elem_bytes / 4;
      for (uint32_t w = first; w < first + (uint32_t)(bytes > 4 ? bytes / 4 : 1); w++) {
        bool known = false;
        for (int i = 0; i < seen_count; i++) known |= seen[i] == w;
        if (known) continue;
        seen[seen_count++] = w;
        if (++words[w % 32] > worst) worst = words[w % 32];
      }
    }
    total += worst;
    least += seen_count > 0;
  }
  return least ? (double)total / least : 1.0;
}

static void run_shared(const Convert *c, const int *in, int *out, int elem_bytes, double conflicts[2]) {
  int from = layout_registers(c->from), to = layout_registers(c->to), n = 1 << c->from->out_bits, part = n / c->passes;
  int *memory = malloc(sizeof(int) * (size_t)n), *writer = malloc(sizeof(int) * (size_t)n);
  uint32_t copies = layout_copies(c->from);
  assert_int_equal(part * elem_bytes, convert_shared_bytes(c, elem_bytes));
  conflicts[0] = conflicts[1] = 1;
  for (int pass = 0; pass < c->passes; pass++) {
    for (int i = 0; i < n; i++) memory[i] = EMPTY;
    for (int write = 1; write >= 0; write--) {
      const Layout *l = write ? c->from : c->to;
      int vector = write ? c->write_vector : c->read_vector, regs = write ? from : to;
      const int *order = write ? c->write_order : c->read_order;
      for (int r = 0; r < regs; r += vector)
        for (int warp = 0; warp < 1 << l->warp_bits; warp++) {
          uint32_t offset[LANES];
          bool active[LANES];
          for (int lane = 0; lane < LANES; lane++) {
            int t = warp * LANES + lane;
            offset[lane] = f2_apply(&c->swizzle, (uint32_t)held(l, order[r], t));
            assert_int_equal(offset[lane] % (uint32_t)vector, 0);
            active[lane] = !(write && (uint32_t)t & copies) && (int)offset[lane] / part == pass;
            for (int j = 0; j < vector && active[lane]; j++) {
              uint32_t at = offset[lane] + (uint32_t)j;
              if (write) {
                assert_int_equal(memory[at], EMPTY);
                memory[at] = in[t * from + order[r + j]];
                writer[at] = warp;
              } else {
                assert_int_not_equal(memory[at], EMPTY);
                if (c->within_warp) assert_int_equal(writer[at], warp);
                assert_int_equal(out[t * to + order[r + j]], EMPTY);
                out[t * to + order[r + j]] = memory[at];
              }
            }
          }
          double now = count_wavefronts(offset, active, vector, elem_bytes);
          if (now > conflicts[!write]) conflicts[!write] = now;
        }
    }
  }
  free(memory);
  free(writer);
}

/* Carries the plan out, compares every register, and returns the plan. */
static Convert *check_plan(Context *cx, const Layout *from, const Layout *to, int elem_bytes, int squares, int limit) {
  Convert *c = convert_plan_within(cx, from, to, elem_bytes, squares, limit);
  int threads = thread_count(from), a = layout_registers(from), b = layout_registers(to);
  assert_ptr_equal(c->from, from);
  assert_ptr_equal(c->to, to);
  assert_true(convert_cost(c, elem_bytes) >= 0);
  int *in = malloc(sizeof(int) * (size_t)(threads * a)), *out = malloc(sizeof(int) * (size_t)(threads * b));
  for (int t = 0; t < threads; t++)
    for (int r = 0; r < a; r++) in[t * a + r] = held(from, r, t);
  for (int i = 0; i < threads * b; i++) out[i] = EMPTY;
  switch (c->kind) {
    case CONVERT_NONE:
      assert_int_equal(a, b);
      memcpy(out, in, sizeof(int) * (size_t)(threads * b));
      break;
    case CONVERT_REGISTERS:
      for (int t = 0; t < threads; t++)
        for (int r = 0; r < b; r++) out[t * b + r] = in[t * a + c->source[r]];
      break;
    case CONVERT_SHUFFLE: run_shuffles(c, in, out); break;
    case CONVERT_SHARED: {
      double conflicts[2];
      run_shared(c, in, out, elem_bytes, conflicts);
      for (int k = 0; k < 2; k++)
        if (!(k ? c->read_squares : c->write_squares) && c->passes == 1 &&
            conflicts[k] != convert_conflicts(c, elem_bytes, k == 0))
          fail_msg("%s conflicts: %g counted, %g claimed%s", k ? "read" : "write", conflicts[k],
                   convert_conflicts(c, elem_bytes, k == 0), describe(cx, c, elem_bytes));
      assert_true((int64_t)convert_shared_bytes(c, elem_bytes) <= limit);
      break;
    }
  }
  for (int t = 0; t < threads; t++)
    for (int r = 0; r < b; r++)
      if (out[t * b + r] != held(to, r, t))
        fail_msg("thread %d register %d has %d, not %d%s", t, r, out[t * b + r], held(to, r, t),
                 describe(cx, c, elem_bytes));
  free(in);
  free(out);
  return c;
}

/* Also as where squares may go. */
static Convert *check_within(Context *cx, const Layout *from, const Layout *to, int elem_bytes, int limit) {
  check_plan(cx, from, to, elem_bytes, SQUARES_READ | SQUARES_WRITTEN, limit);
  return check_plan(cx, from, to, elem_bytes, 0, limit);
}

static Convert *check(Context *cx, const Layout *from, const Layout *to, int elem_bytes) {
  return check_within(cx, from, to, elem_bytes, CONVERT_SHARED_LIMIT);
}

/* ---- layouts to convert between ---------------------------------------------------------------------------------- */

static const Layout *layout_of(Context *cx, int out_bits, int regs, int warps, const uint32_t *basis) {
  Layout l = {.reg_bits = regs, .lane_bits = 5, .warp_bits = warps, .out_bits = out_bits};
  memcpy(l.basis, basis, (size_t)(regs + 5 + warps) * sizeof *basis);
  return layout_make(cx, &l);
}

static const Type *random_type(Context *cx, int bits) {
  int rank = 1 + (int)random_below(3);
  int32_t shape[3] = {1, 1, 1};
  for (int i = 0; i < bits; i++) shape[random_below((uint32_t)rank)] *= 2;
  return type_tensor(cx, type_number(cx, DT_F32), rank, shape);
}

static const Layout *random_blocked(Context *cx, const Type *t, int warps) {
  int vector[MAX_RANK], order[MAX_RANK];
  for (int d = 0; d < t->rank; d++) {
    vector[d] = 1 << random_below(4);
    order[d] = d;
  }
  for (int d = t->rank - 1; d > 0; d--) {
    int e = (int)random_below((uint32_t)d + 1), kept = order[d];
    order[d] = order[e];
    order[e] = kept;
  }
  return layout_blocked(cx, t, vector, order, 1 << warps);
}

/* Any bits to any places: `copies` of the thread's vectors are zero; a permutation of the bits, or sums of them. */
static const Layout *random_layout(Context *cx, int bits, int warps, int copies, bool sums) {
  int threads = 5 + warps;
  if (copies > threads) copies = threads;
  if (threads - copies > bits) copies = threads - bits;
  uint32_t vector[F2_MAX] = {0}, basis[F2_MAX] = {0};
  for (int i = 0; i < bits; i++) vector[i] = UINT32_C(1) << i;
  for (int i = bits - 1; i > 0; i--) {
    uint32_t j = random_below((uint32_t)i + 1), kept = vector[i];
    vector[i] = vector[j];
    vector[j] = kept;
  }
  for (int k = 0; sums && bits > 1 && k < 4 * bits; k++) {
    uint32_t i = random_below((uint32_t)bits), j = random_below((uint32_t)bits);
    if (i != j) vector[i] ^= vector[j];
  }
  int regs = bits - (threads - copies), next = regs;
  memcpy(basis, vector, (size_t)regs * sizeof *vector);
  bool zero[F2_MAX] = {0};
  for (int k = 0; k < copies;) {
    uint32_t i = random_below((uint32_t)threads);
    if (!zero[i]) zero[i] = true, k++;
  }
  for (int i = 0; i < threads; i++) basis[regs + i] = zero[i] ? 0 : vector[next++];
  return layout_of(cx, bits, regs, warps, basis);
}

/* Like `l`, but with the vectors of registers and lanes (and warps) mixed among themselves. */
static const Layout *shuffled(Context *cx, const Layout *l, bool warps) {
  Layout m = *l;
  int n = l->reg_bits + l->lane_bits + (warps ? l->warp_bits : 0);
  for (int i = n - 1; i > 0; i--) {
    uint32_t j = random_below((uint32_t)i + 1), kept = m.basis[i];
    m.basis[i] = m.basis[j];
    m.basis[j] = kept;
  }
  return layout_make(cx, &m);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static Convert *expect(Context *cx, const Layout *from, const Layout *to, int elem_bytes, ConvertKind kind) {
  Convert *c = check(cx, from, to, elem_bytes);
  if (c->kind != kind) fail_msg("not kind %d%s", kind, describe(cx, c, elem_bytes));
  return c;
}

static void kinds(void **state) {
  Context *cx = context_create();
  const Layout *a = layout_of(cx, 9, 2, 2, (uint32_t[]){1, 2, 4, 8, 16, 32, 64, 128, 256});
  expect(cx, a, a, 4, CONVERT_NONE);
  Convert *c =
      expect(cx, a, layout_of(cx, 9, 2, 2, (uint32_t[]){2, 1, 4, 8, 16, 32, 64, 128, 256}), 4, CONVERT_REGISTERS);
  int swapped[] = {0, 2, 1, 3};
  assert_memory_equal(c->source, swapped, sizeof swapped);
  /* lanes 0, 1 against registers: a transpose of 4x4 among four lanes; the page of convert.c */
  c = expect(cx, a, layout_of(cx, 9, 2, 2, (uint32_t[]){4, 8, 1, 2, 16, 32, 64, 128, 256}), 4, CONVERT_SHUFFLE);
  assert_int_equal(c->round_count, 4);
  for (uint32_t k = 0; k < 4; k++)
    for (uint32_t l = 0; l < 32; l++) {
      assert_int_equal(lane_map_apply(&c->rounds[k].send, l), k ^ (l & 3));
      assert_int_equal(lane_map_apply(&c->rounds[k].source, l), k ^ l);
      assert_int_equal(lane_map_apply(&c->rounds[k].receive, l), k ^ (l & 3));
    }
  expect(cx, a, layout_of(cx, 9, 2, 2, (uint32_t[]){1, 2, 4, 8, 16, 32, 64, 256, 128}), 4, CONVERT_SHARED);
  /* only registers and one lane differ by what the other has */
  expect(cx, a, layout_of(cx, 9, 2, 2, (uint32_t[]){1, 2, 5, 8, 16, 32, 64, 128, 256}), 4, CONVERT_SHUFFLE);
  context_destroy(cx);
}

static void copies_are_read_in_place(void **state) {
  Context *cx = context_create();
  /* every lane has all, then one each: the lane picks from its own registers */
  const Layout *all = layout_of(cx, 5, 5, 0, (uint32_t[]){1, 2, 4, 8, 16, 0, 0, 0, 0, 0});
  const Layout *one = layout_of(cx, 5, 0, 0, (uint32_t[]){1, 2, 4, 8, 16});
  Convert *c = check(cx, all, one, 4);
  assert_int_equal(c->kind, CONVERT_SHUFFLE);
  assert_int_equal(c->round_count, 1);
  for (uint32_t l = 0; l < 32; l++) assert_int_equal(lane_map_apply(&c->rounds[0].source, l), l);
  check(cx, one, all, 4);
  /* all warps have copies, and each wants its own: no warp needs another */
  const Layout *rows = layout_of(cx, 7, 2, 2, (uint32_t[]){1, 2, 4, 8, 16, 32, 64, 0, 0});
  c = check(cx, rows, layout_of(cx, 7, 2, 2, (uint32_t[]){1, 2, 0, 0, 4, 8, 16, 32, 64}), 4);
  assert_int_equal(c->kind, CONVERT_SHUFFLE);
  c = check(cx, rows, layout_of(cx, 7, 3, 2, (uint32_t[]){16, 32, 64, 0, 0, 0, 0, 4, 1, 2}), 4);
  assert_int_equal(c->kind, CONVERT_SHUFFLE);
  context_destroy(cx);
}

static void transposes_are_free_of_conflicts(void **state) {
  Context *cx = context_create();
  int shapes[][2] = {{32, 32}, {64, 64}, {128, 64}, {64, 128}, {128, 128}, {16, 256}, {256, 16}, {128, 32}};
  for (int s = 0; s < 8; s++)
    for (int bytes = 1; bytes <= 8; bytes *= 2)
      for (int warps = 1; warps <= 8; warps *= 2)
        for (int vector = 1; vector <= 16 / bytes; vector *= 2) {
          const Type *t = type_tensor(cx, type_number(cx, DT_F32), 2, shapes[s]);
          const Layout *rows = layout_blocked(cx, t, (int[]){1, vector}, (int[]){1, 0}, warps);
          const Layout *columns = layout_blocked(cx, t, (int[]){vector, 1}, (int[]){0, 1}, warps);
          for (int k = 0; k < 2; k++) {
            Convert *c = check(cx, k ? rows : columns, k ? columns : rows, bytes);
            if (convert_conflicts(c, bytes, true) != 1.0 || convert_conflicts(c, bytes, false) != 1.0)
              fail_msg("conflicts %g %g%s", convert_conflicts(c, bytes, true), convert_conflicts(c, bytes, false),
                       describe(cx, c, bytes));
            if (c->kind == CONVERT_SHARED && bytes < 4 && vector * bytes >= 4)
              assert_true(c->write_vector * bytes >= 4 || c->read_vector * bytes >= 4);
          }
        }
  context_destroy(cx);
}

static void vectors_common_to_both_sides_are_kept(void **state) {
  Context *cx = context_create();
  const Type *t = type_tensor(cx, type_number(cx, DT_F16), 2, (int32_t[]){64, 64});
  const Layout *a = layout_blocked(cx, t, (int[]){1, 8}, (int[]){1, 0}, 4);
  const Layout *b = layout_blocked(cx, t, (int[]){1, 8}, (int[]){0, 1}, 4);
  Convert *c = expect(cx, a, b, 2, CONVERT_SHARED);
  assert_int_equal(c->write_vector, 8);
  assert_int_equal(c->read_vector, 8);
  for (int i = 0; i < layout_registers(a); i++) assert_int_equal(c->write_order[i], i);
  context_destroy(cx);
}

/* The tensor in parts: which registers go in a part is the same in all threads. */
static void large_tensors_go_in_parts(void **state) {
  Context *cx = context_create();
  const Type *t = type_tensor(cx, type_number(cx, DT_F32), 2, (int32_t[]){128, 64});
  const Layout *a = layout_blocked(cx, t, (int[]){1, 4}, (int[]){1, 0}, 1);
  const Layout *b = layout_blocked(cx, t, (int[]){4, 1}, (int[]){0, 1}, 1);
  /* lanes of a: columns 4 8 16 32, row 1; of b: rows 4 8 16 32 64. So columns 1 2, row 2 are in registers on both
   * sides: two make the vector, one is left to say the part. */
  for (int limit = 1 << 12; limit <= 1 << 16; limit *= 2) {
    Convert *c = check_within(cx, a, b, 4, limit);
    assert_int_equal(c->kind, CONVERT_SHARED);
    assert_int_equal(c->passes, limit >= 1 << 15 ? 1 : (1 << 15) / limit);
    int part = (1 << 13) / c->passes;
    for (int i = 0; i < 5 && c->passes <= 2; i++) {
      assert_true((int)f2_apply(&c->swizzle, a->basis[a->reg_bits + i]) < part);
      assert_true((int)f2_apply(&c->swizzle, b->basis[b->reg_bits + i]) < part);
    }
  }
  context_destroy(cx);
}

typedef struct Tally {
  int kinds[4], conflicts;
} Tally;

static void tally(Tally *t, const Convert *c, int elem_bytes) {
  t->kinds[c->kind]++;
  if (convert_conflicts(c, elem_bytes, true) > 1 || convert_conflicts(c, elem_bytes, false) > 1) t->conflicts++;
}

static void random_pairs(void **state) {
  Tally t = {0};
  random_state = 20240611;
  for (int i = 0; i < 6000; i++) {
    Context *cx = context_create();
    int bits = (int)random_below(12), warps = (int)random_below(4), elem_bytes = 1 << random_below(4);
    const Layout *a, *b;
    switch (random_below(7)) {
      case 6: { /* reductions' results: copies in lanes and warps, on both sides */
        int n = 5 + warps;
        a = random_layout(cx, bits, warps, (int)random_below((uint32_t)n + 1), false);
        b = random_layout(cx, bits, warps, (int)random_below((uint32_t)n + 1), random_below(2));
        break;
      }
      case 0: { /* blocked, of one tensor */
        const Type *type = random_type(cx, bits);
        a = random_blocked(cx, type, warps);
        b = random_blocked(cx, type, warps);
        break;
      }
      case 1: { /* slices of a tensor of one more dim */
        int32_t shape[3] = {1 << random_below(4), 1 << random_below(6), 1 << random_below(6)};
        const Type *type = type_tensor(cx, type_number(cx, DT_F32), 3, shape);
        int axis = (int)random_below(3);
        a = layout_slice(cx, type, random_blocked(cx, type, warps), axis);
        b = layout_slice(cx, type, random_blocked(cx, type, warps), axis);
        break;
      }
      case 2: { /* a permutation of registers and lanes, warps too */
        a = random_layout(cx, bits, warps, (int)random_below(3), random_below(2));
        b = shuffled(cx, a, random_below(2));
        break;
      }
      case 3:
        a = random_layout(cx, bits, warps, (int)random_below(4), false);
        b = random_layout(cx, bits, warps, (int)random_below(4), false);
        break;
      default:
        a = random_layout(cx, bits, warps, (int)random_below(4), true);
        b = random_layout(cx, bits, warps, (int)random_below(4), true);
    }
    tally(&t, check(cx, a, b, elem_bytes), elem_bytes);
    context_destroy(cx);
  }
  print_message("pairs: %d none, %d registers, %d shuffle, %d shared, %d with conflicts\n", t.kinds[0], t.kinds[1],
                t.kinds[2], t.kinds[3], t.conflicts);
  for (int k = 0; k < 4; k++) assert_true(t.kinds[k] > 20);
  assert_true(t.conflicts < 6000 / 20);
}

/* 64 by 64 results of 16 bits that 8 warps hold as tensor cores leave them, to whole rows of 16 bytes: four squares an
 * instruction take a quarter of the plain accesses' time. Bools and 32-bit integers do not go so. */
static void squares_cost_less(void **state) {
  Context *cx = context_create();
  const Layout *sums = layout_of(cx, 12, 4, 3, (uint32_t[]){1, 512, 8, 16, 2, 4, 64, 128, 256, 1024, 2048, 32});
  const Layout *rows = layout_of(cx, 12, 4, 3, (uint32_t[]){1, 2, 4, 2048, 8, 16, 32, 64, 128, 256, 512, 1024});
  const Convert *plain = convert_plan(cx, sums, rows, 2, 0), *read = convert_plan(cx, sums, rows, 2, SQUARES_READ),
                *squares = convert_plan(cx, sums, rows, 2, SQUARES_READ | SQUARES_WRITTEN),
                *back = convert_plan(cx, rows, sums, 2, SQUARES_READ);
  assert_null(plain->write_squares);
  assert_null(read->write_squares);
  assert_int_equal(convert_cost(read, 2), convert_cost(plain, 2));
  assert_non_null(squares->write_squares);
  assert_null(squares->read_squares);
  assert_int_equal(squares->write_squares->square_bits, 2);
  assert_int_equal(squares->read_vector, 8);
  assert_true(convert_conflicts(squares, 2, true) == 1.0);
  assert_true(convert_cost(squares, 2) < convert_cost(plain, 2));
  assert_non_null(back->read_squares);
  /* rows to words along columns, as products of tf32 want them: squares that are read across meet no bank */
  const Layout *across[] = {
      layout_of(cx, 12, 5, 2, (uint32_t[]){1, 2, 4, 1024, 2048, 8, 16, 32, 64, 128, 256, 512}),
      layout_of(cx, 12, 5, 2, (uint32_t[]){256, 512, 1024, 2048, 32, 64, 128, 1, 2, 4, 8, 16}),
  };
  for (int k = 0; k < 2; k++) {
    const Convert *turned = convert_plan(cx, across[k], across[!k], 2, SQUARES_READ | SQUARES_WRITTEN);
    const SquareAccess *s = k ? turned->write_squares : turned->read_squares;
    assert_true(s && s->trans && s->square_bits == 2);
    assert_int_equal(k ? turned->read_vector : turned->write_vector, 8);
    assert_true(convert_conflicts(turned, 2, true) == 1.0 && convert_conflicts(turned, 2, false) == 1.0);
    assert_true(convert_cost(turned, 2) < convert_cost(convert_plan(cx, across[k], across[!k], 2, 0), 2));
  }
  assert_int_equal(squares_of_type(3, type_number(cx, DT_BF16)), 3);
  assert_int_equal(squares_of_type(3, type_number(cx, DT_I32)), 0);
  assert_int_equal(squares_of_type(3, type_number(cx, DT_I1)), 0);
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds),
      cmocka_unit_test(copies_are_read_in_place),
      cmocka_unit_test(transposes_are_free_of_conflicts),
      cmocka_unit_test(vectors_common_to_both_sides_are_kept),
      cmocka_unit_test(large_tensors_go_in_parts),
      cmocka_unit_test(squares_cost_less),
      cmocka_unit_test(random_pairs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
