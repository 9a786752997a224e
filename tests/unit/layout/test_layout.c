/* Maps over F2 and layouts: the worked tables of layout.h, laws of the algebra on random maps, what shape operations
 * make of random layouts (compared element by element with the operation itself), and pictures. */
#include "layout/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t random_state = 88172645463325252u;
static uint32_t random_word(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 16);
}
static int random_below(int n) { return (int)(random_word() % (uint32_t)n); }

static F2Map random_map(int in, int out) {
  F2Map m = {.in_bits = in, .out_bits = out};
  for (int i = 0; i < in; i++) m.column[i] = out == 32 ? random_word() : random_word() & ((UINT32_C(1) << out) - 1);
  return m;
}

static uint32_t mask_of(int bits) { return bits == 32 ? UINT32_MAX : (UINT32_C(1) << bits) - 1; }

/* ---- maps -------------------------------------------------------------------------------------------------------- */

static void maps_apply_compose_and_stand_side_by_side(void **state) {
  for (int k = 0; k < 500; k++) {
    int a = random_below(9), b = random_below(9), c = random_below(9);
    F2Map f = random_map(a, b), g = random_map(b, c), h = random_map(c, a), id = f2_identity(b);
    F2Map gf = f2_compose(&g, &f), both = f2_product(&f, &g), same = f2_compose(&id, &f);
    F2Map hg = f2_compose(&h, &g), h_gf = f2_compose(&h, &gf), hg_f = f2_compose(&hg, &f);
    assert_memory_equal(&same, &f, sizeof f);
    assert_memory_equal(&h_gf, &hg_f, sizeof h_gf);
    assert_int_equal(both.in_bits, a + b);
    assert_int_equal(both.out_bits, b + c);
    for (int i = 0; i < 20; i++) {
      uint32_t x = random_word() & mask_of(a), y = random_word() & mask_of(b), z = random_word() & mask_of(a);
      assert_int_equal(f2_apply(&f, x ^ z), f2_apply(&f, x) ^ f2_apply(&f, z));
      assert_int_equal(f2_apply(&gf, x), f2_apply(&g, f2_apply(&f, x)));
      assert_int_equal(f2_apply(&both, x | y << a), f2_apply(&f, x) | f2_apply(&g, y) << b);
    }
    F2Map part = f2_columns(&both, a, b);
    for (int i = 0; i < b; i++) assert_int_equal(part.column[i], g.column[i] << b);
  }
}

/* Rank, kernel, image and solutions, against all inputs one by one. */
static void elimination_agrees_with_counting(void **state) {
  for (int k = 0; k < 400; k++) {
    int in = random_below(8), out = random_below(8);
    F2Map m = random_map(in, out);
    if (k % 3 == 0 && in > 2) m.column[2] = m.column[0] ^ m.column[1];
    bool hit[256] = {0};
    int images = 0, zeros = 0;
    for (uint32_t x = 0; x < UINT32_C(1) << in; x++) {
      uint32_t y = f2_apply(&m, x);
      zeros += y == 0;
      images += !hit[y];
      hit[y] = true;
    }
    uint32_t kernel[F2_MAX], image[F2_MAX], x;
    int nullity = f2_kernel(&m, kernel), rank = f2_rank(&m);
    assert_int_equal(1 << rank, images);
    assert_int_equal(1 << nullity, zeros);
    assert_int_equal(rank + nullity, in);
    F2Map spanned = {.in_bits = nullity, .out_bits = in};
    for (int i = 0; i < nullity; i++) {
      assert_int_equal(f2_apply(&m, kernel[i]), 0);
      spanned.column[i] = kernel[i];
    }
    assert_int_equal(f2_rank(&spanned), nullity);
    assert_int_equal(f2_image(&m, image), rank);
    for (int i = 0; i < rank; i++) {
      assert_true(hit[image[i]]);
      uint32_t lead = UINT32_C(1) << (31 - __builtin_clz(image[i]));
      for (int j = 0; j < rank; j++) assert_true(i == j || !(image[j] & lead));
    }
    for (uint32_t y = 0; y < UINT32_C(1) << out; y++) {
      bool solved = f2_solve(&m, y, &x);
      assert_int_equal(solved, hit[y]);
      if (solved) assert_int_equal(f2_apply(&m, x), y);
    }
    F2Map inverse;
    bool onto = f2_invert(&m, &inverse);
    assert_int_equal(onto, rank == out);
    F2Map back = onto ? f2_compose(&m, &inverse) : f2_identity(out), id = f2_identity(out);
    assert_memory_equal(&back, &id, sizeof id);
  }
  /* free inputs stay 0: the copy is not used */
  F2Map m = {.in_bits = 3, .out_bits = 2, .column = {1, 1, 2}}, inverse;
  assert_true(f2_invert(&m, &inverse));
  assert_int_equal(inverse.column[0], 1);
  assert_int_equal(inverse.column[1], 4);
  /* 32 bits wide */
  F2Map wide = f2_identity(32), back;
  for (int i = 0; i < 200; i++) wide.column[random_below(31)] ^= wide.column[31];
  assert_true(f2_invert(&wide, &inverse));
  back = f2_compose(&wide, &inverse);
  F2Map id = f2_identity(32);
  assert_memory_equal(&back, &id, sizeof id);
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static const Type *f32_tensor(Context *cx, int rank, const int32_t *shape) {
  return type_tensor(cx, type_number(cx, DT_F32), rank, shape);
}

static void check_text(const Layout *l, const char *expected) {
  Buf b = {0};
  layout_print(&b, l);
  assert_string_equal(b.at, expected);
  buf_destroy(&b);
}

/* The first table of layout.h. */
static void the_header_is_right(void **state) {
  Context *cx = context_create();
  const Type *t = f32_tensor(cx, 2, (int32_t[]){8, 32});
  const Layout *l = layout_blocked(cx, t, (int[]){1, 4}, (int[]){1, 0}, 4);
  check_text(l, "reg 1 2 | lane 4 8 16 32 64 | warp 128 0");
  assert_int_equal(layout_element(l, 1, 9, 0), 1 * 32 + 5);
  assert_int_equal(layout_element(l, 0, 0, 1), 4 * 32);
  assert_int_equal(layout_element(l, 3, 31, 3), layout_element(l, 3, 31, 1));
  assert_int_equal(layout_registers(l), 4);
  assert_int_equal(layout_copies(l), 1 << 6);
  assert_int_equal(layout_dim_shift(t, 0), 5);
  assert_int_equal(layout_dim_shift(t, 1), 0);
  assert_int_equal(layout_dim_mask(t, 0), 0xe0);
  assert_int_equal(layout_dim_mask(t, 1), 0x1f);
  context_destroy(cx);
}

static const Layout *layout_of(Context *cx, int out_bits, int regs, int warps, const uint32_t *basis) {
  Layout l = {.reg_bits = regs, .lane_bits = 5, .warp_bits = warps, .out_bits = out_bits};
  memcpy(l.basis, basis, (size_t)(regs + 5 + warps) * sizeof *basis);
  return layout_make(cx, &l);
}

static void equal_layouts_are_one(void **state) {
  Context *cx = context_create();
  const Layout *a = layout_of(cx, 7, 2, 0, (uint32_t[]){1, 2, 4, 8, 16, 32, 64});
  assert_ptr_equal(a, layout_of(cx, 7, 2, 0, (uint32_t[]){1, 2, 4, 8, 16, 32, 64}));
  assert_ptr_not_equal(a, layout_of(cx, 7, 2, 0, (uint32_t[]){2, 1, 4, 8, 16, 32, 64}));
  assert_ptr_not_equal(a, layout_of(cx, 7, 2, 1, (uint32_t[]){1, 2, 4, 8, 16, 32, 64, 0}));
  /* what is past the vectors does not count; registers that are zero or sums of others go */
  Layout junk = {.reg_bits = 2, .lane_bits = 5, .out_bits = 7, .basis = {1, 2, 4, 8, 16, 32, 64, 77}};
  assert_ptr_equal(layout_make(cx, &junk), a);
  assert_ptr_equal(layout_of(cx, 7, 4, 0, (uint32_t[]){1, 0, 2, 3, 4, 8, 16, 32, 64}), a);
  context_destroy(cx);
}

static const Layout *random_layout(Context *cx, int bits, int warps) {
  uint32_t basis[F2_MAX];
  int regs = bits > 5 + warps ? bits - 5 - warps : 0;
  for (int i = 0; i < regs + 5 + warps; i++) basis[i] = bits ? random_word() & mask_of(bits) : 0;
  return layout_of(cx, bits, regs, warps, basis);
}

static void registers_are_found(void **state) {
  for (int k = 0; k < 300; k++) {
    Context *cx = context_create();
    const Layout *l = random_layout(cx, random_below(13), random_below(3));
    int found = 0, all = layout_registers(l);
    for (int r = 0; r < all; r++) assert_int_equal(layout_find_register(l, layout_register_part(l, r)), r);
    for (uint32_t part = 0; part < UINT32_C(1) << l->out_bits; part++) {
      int r = layout_find_register(l, part);
      if (r < 0) continue;
      assert_int_equal(layout_register_part(l, r), part);
      found++;
    }
    assert_int_equal(found, all);
    F2Map m = layout_map(l);
    for (int i = 0; i < 50; i++) {
      int reg = random_below(all), lane = random_below(32), warp = random_below(1 << l->warp_bits);
      assert_int_equal(layout_element(l, reg, lane, warp),
                       f2_apply(&m, (uint32_t)(reg | lane << l->reg_bits | warp << (l->reg_bits + 5))));
    }
    context_destroy(cx);
  }
}

/* First holders hold each element that anyone has, once. */
static void first_holders_hold_all_once(void **state) {
  for (int k = 0; k < 300; k++) {
    Context *cx = context_create();
    const Layout *l = random_layout(cx, random_below(12), random_below(3));
    int n = 1 << l->out_bits, *by_all = calloc((size_t)n, sizeof(int)), *by_first = calloc((size_t)n, sizeof(int));
    uint32_t copies = layout_copies(l);
    for (int t = 0; t < 32 << l->warp_bits; t++)
      for (int r = 0; r < layout_registers(l); r++) {
        uint32_t e = layout_element(l, r, t % 32, t / 32);
        by_all[e]++;
        by_first[e] += !((uint32_t)t & copies);
      }
    for (int e = 0; e < n; e++) assert_int_equal(by_first[e], by_all[e] > 0);
    free(by_all);
    free(by_first);
    context_destroy(cx);
  }
}

static void blocked_layouts(void **state) {
  Context *cx = context_create();
  const Type *t = f32_tensor(cx, 2, (int32_t[]){64, 16});
  check_text(layout_blocked(cx, t, (int[]){1, 4}, (int[]){1, 0}, 4), "reg 1 2 512 | lane 4 8 16 32 64 | warp 128 256");
  check_text(layout_blocked(cx, t, (int[]){2, 1}, (int[]){0, 1}, 4), "reg 16 4 8 | lane 32 64 128 256 512 | warp 1 2");
  check_text(layout_blocked(cx, t, (int[]){2, 4}, (int[]){1, 0}, 1), "reg 1 2 16 256 512 | lane 4 8 32 64 128 | warp");
  check_text(layout_blocked(cx, t, (int[]){1, 64}, (int[]){1, 0}, 2), "reg 1 2 4 8 | lane 16 32 64 128 256 | warp 512");
  check_text(layout_blocked(cx, f32_tensor(cx, 1, (int32_t[]){8}), (int[]){1}, (int[]){0}, 8),
             "reg | lane 1 2 4 0 0 | warp 0 0 0");
  check_text(layout_default(cx, f32_tensor(cx, 1, (int32_t[]){1024}), 4),
             "reg 1 2 512 | lane 4 8 16 32 64 | warp 128 256");
  check_text(layout_default(cx, f32_tensor(cx, 2, (int32_t[]){64, 2}), 1), "reg 1 2 | lane 4 8 16 32 64 | warp");
  check_text(layout_default(cx, f32_tensor(cx, 1, (int32_t[]){64}), 1), "reg 1 | lane 2 4 8 16 32 | warp");
  check_text(layout_default(cx, f32_tensor(cx, 1, (int32_t[]){32}), 1), "reg | lane 1 2 4 8 16 | warp");
  check_text(layout_default(cx, f32_tensor(cx, 1, (int32_t[]){1}), 2), "reg | lane 0 0 0 0 0 | warp 0");
  check_text(
      layout_default(cx, f32_tensor(cx, 1, (int32_t[]){1 << 20}), 32),
      "reg 1 2 4096 8192 16384 32768 65536 131072 262144 524288 | lane 4 8 16 32 64 | warp 128 256 512 1024 2048");
  context_destroy(cx);
}

/* ---- through shape operations ------------------------------------------------------------------------------------ */

/* The element of operand `k` from which element e of result `r` comes, -1 when it comes from another operand or goes to
 * another result. Written index by index, from what the operation means. */
static int64_t comes_from(const Op *op, int k, int r, int64_t e) {
  const Type *from = op->in[k]->type, *to = op->out[r]->type;
  int64_t index[MAX_RANK], at = 0, left = e;
  for (int d = to->rank - 1; d >= 0; d--) {
    index[d] = left % to->shape[d];
    left /= to->shape[d];
  }
  int64_t in[MAX_RANK] = {0};
  switch (op->code) {
    case OP_RESHAPE:
    case OP_EXPAND_DIMS: return e;
    case OP_TRANS:
      for (int d = 0; d < to->rank; d++) in[op->dims[d]] = index[d];
      break;
    case OP_BROADCAST:
      for (int d = 0; d < to->rank; d++) in[d] = from->shape[d] == 1 ? 0 : index[d];
      break;
    case OP_JOIN:
      if (index[to->rank - 1] != k) return -1;
      memcpy(in, index, sizeof in);
      break;
    case OP_SPLIT:
      memcpy(in, index, sizeof in);
      in[from->rank - 1] = r;
      break;
    case OP_CAT:
      memcpy(in, index, sizeof in);
      in[op->axis] -= k * from->shape[op->axis];
      if (in[op->axis] < 0 || in[op->axis] >= from->shape[op->axis]) return -1;
      break;
    default: return e;
  }
  for (int d = 0; d < from->rank; d++) at = at * from->shape[d] + in[d];
  return at;
}

/* Every thread can make its registers of the results from those of the operands that it holds itself. */
static void check_step(const Op *op, const Layout *from, const Layout *to) {
  int made = 0;
  for (int t = 0; t < 32 << to->warp_bits; t++) {
    for (int result = 0; result < op->out_count; result++)
      for (int r = 0; r < layout_registers(to); r++) {
        int64_t e = layout_element(to, r, t % 32, t / 32);
        for (int k = 0; k < op->in_count; k++) {
          int64_t want = comes_from(op, k, result, e);
          if (want < 0) continue;
          bool has = false;
          for (int s = 0; s < layout_registers(from); s++) has |= layout_element(from, s, t % 32, t / 32) == want;
          if (!has) fail_msg("%s: thread %d lacks element %d", op_info[op->code].name, t, (int)want);
          made++;
        }
      }
  }
  assert_int_equal(made, (32 << to->warp_bits) * layout_registers(to) * op->out_count);
}

/* What made v; where the builder saw that there was nothing to do, an elementwise operation instead. */
static Op *made(Builder *b, Value *v) { return v->def ? v->def : build_unary(b, OP_NEG, v)->def; }

static Op *random_shape_op(Func *f) {
  Context *cx = f->cx;
  Builder b = {.func = f, .block = f->body};
  int rank = 1 + random_below(3), bits = 0;
  int32_t shape[MAX_RANK] = {0}, other[MAX_RANK];
  for (int d = 0; d < rank; d++) {
    int n = random_below(4);
    shape[d] = 1 << n;
    bits += n;
  }
  Value *x = func_add_arg(f, f32_tensor(cx, rank, shape), NULL, 1);
  switch (random_below(7)) {
    case 0: return made(&b, build_expand_dims(&b, x, random_below(rank + 1)));
    case 1: {
      int32_t flat = 1 << bits;
      return made(&b, build_reshape(&b, x, 1, &flat));
    }
    case 2: {
      int64_t perm[MAX_RANK];
      for (int d = 0; d < rank; d++) perm[d] = d;
      for (int d = rank - 1; d > 0; d--) {
        int e = random_below(d + 1);
        int64_t kept = perm[d];
        perm[d] = perm[e];
        perm[e] = kept;
      }
      return made(&b, build_trans(&b, x, perm));
    }
    case 3:
      for (int d = 0; d < rank; d++) other[d] = shape[d] == 1 ? 1 << random_below(4) : shape[d];
      return made(&b, build_broadcast(&b, x, rank, other));
    case 4: {
      Value *y = func_add_arg(f, x->type, NULL, 1);
      memcpy(other, shape, sizeof other);
      other[rank] = 2;
      return build_op(&b, OP_JOIN, 2, (Value *[]){x, y}, 1, (const Type *[]){f32_tensor(cx, rank + 1, other)});
    }
    case 5: {
      shape[rank] = 2;
      Value *pair = func_add_arg(f, f32_tensor(cx, rank + 1, shape), NULL, 1);
      return build_op(&b, OP_SPLIT, 1, &pair, 2, (const Type *[]){x->type, x->type});
    }
    default: {
      Value *y = func_add_arg(f, x->type, NULL, 1);
      int axis = random_below(rank);
      memcpy(other, shape, sizeof other);
      other[axis] *= 2;
      Op *op = build_op(&b, OP_CAT, 2, (Value *[]){x, y}, 1, (const Type *[]){f32_tensor(cx, rank, other)});
      op->axis = axis;
      return op;
    }
  }
}

static int bits_of(const Type *t) { return __builtin_ctzll((unsigned long long)type_numel(t)); }

/* A layout of t that holds all of it: bits dealt at random, one vector each; sometimes sums. */
static const Layout *full_layout(Context *cx, const Type *t) {
  int bits = bits_of(t), warps = random_below(3), regs = random_below(bits + 1);
  if (bits - regs > 5 + warps) regs = bits - 5 - warps;
  uint32_t vector[F2_MAX] = {0};
  for (int i = 0; i < bits; i++) vector[i] = UINT32_C(1) << i;
  for (int i = bits - 1; i > 0; i--) {
    int j = random_below(i + 1);
    uint32_t kept = vector[i];
    vector[i] = vector[j];
    vector[j] = kept;
  }
  for (int k = 0; k < bits && random_state & 1; k++) {
    int i = random_below(bits), j = random_below(bits);
    if (i != j) vector[i] ^= vector[j];
  }
  return layout_of(cx, bits, regs, warps, vector);
}

static void shape_operations_move_nothing_between_threads(void **state) {
  int forward[OP_COUNT] = {0}, backward[OP_COUNT] = {0};
  for (int k = 0; k < 3000; k++) {
    Context *cx = context_create();
    Func *f = func_create(cx, "f");
    Op *op = random_shape_op(f);
    int operand = random_below(op->in_count);
    const Layout *from = full_layout(cx, op->in[0]->type), *to = layout_forward(cx, op, operand, from);
    if (to) {
      forward[op->code]++;
      assert_int_equal(to->out_bits, bits_of(op->out[0]->type));
      check_step(op, from, to);
      const Layout *back = layout_backward(cx, op, operand, to);
      /* split: its register may come back elsewhere */
      if (op->code != OP_SPLIT || from->basis[0] == 1) assert_ptr_equal(back, from);
    }
    to = full_layout(cx, op->out[0]->type);
    from = layout_backward(cx, op, operand, to);
    if (from) {
      backward[op->code]++;
      assert_int_equal(from->out_bits, bits_of(op->in[0]->type));
      check_step(op, from, to);
    }
    context_destroy(cx);
  }
  int both[] = {OP_NEG, OP_EXPAND_DIMS, OP_RESHAPE, OP_TRANS, OP_JOIN, OP_SPLIT, OP_CAT};
  for (int i = 0; i < 7; i++) {
    assert_true(forward[both[i]] > 20);
    assert_true(backward[both[i]] > 20);
  }
  assert_int_equal(forward[OP_BROADCAST], 0); /* not determined */
  assert_true(backward[OP_BROADCAST] > 20);
}

static void reductions_leave_slices(void **state) {
  Context *cx = context_create();
  const Type *t = f32_tensor(cx, 3, (int32_t[]){4, 8, 16});
  for (int k = 0; k < 200; k++) {
    const Layout *l = full_layout(cx, t);
    for (int axis = 0; axis < 3; axis++) {
      const Layout *s = layout_slice(cx, t, l, axis);
      int shift = layout_dim_shift(t, axis), size = t->shape[axis];
      assert_int_equal(1 << s->out_bits, 512 / size);
      /* a thread has a row's result exactly if it had an element of the row */
      for (int thread = 0; thread < 32 << l->warp_bits; thread++) {
        bool has[128] = {0}, has_slice[128] = {0};
        for (int r = 0; r < layout_registers(l); r++) {
          uint32_t e = layout_element(l, r, thread % 32, thread / 32);
          has[(e >> shift) / (uint32_t)size << shift | (e & mask_of(shift))] = true;
        }
        for (int r = 0; r < layout_registers(s); r++) {
          uint32_t e = layout_element(s, r, thread % 32, thread / 32);
          assert_false(has_slice[e]); /* once */
          has_slice[e] = true;
        }
        assert_memory_equal(has, has_slice, sizeof has);
      }
    }
  }
  const Layout *l = layout_blocked(cx, t, (int[]){1, 1, 4}, (int[]){2, 1, 0}, 2);
  check_text(l, "reg 1 2 256 | lane 4 8 16 32 64 | warp 128");
  check_text(layout_slice(cx, t, l, 2), "reg 16 | lane 0 0 1 2 4 | warp 8");
  check_text(layout_slice(cx, t, l, 1), "reg 1 2 32 | lane 4 8 0 0 0 | warp 16");
  check_text(layout_slice(cx, t, l, 0), "reg 1 2 | lane 4 8 16 32 64 | warp 0");
  context_destroy(cx);
}

static void scalars_and_whole_tile_operations_determine_nothing(void **state) {
  Context *cx = context_create();
  const char *text = "kernel @k(%a: f32[16,16], %s: f32, %i: i32[16,16]) {\n"
                     "  %1 = splat %s : f32[16,16]\n"
                     "  %2 = dot %a, %a, %1 : f32[16,16]\n"
                     "  %3 = gather %2, %i {axis=0} : f32[16,16]\n"
                     "  %4 = sort %3 : f32[16,16]\n"
                     "}\n";
  Func *f = tile_parse(cx, source_from_text(cx, "t", text, strlen(text)));
  const Layout *l = layout_default(cx, f->body->args[0]->type, 1);
  for (const Op *op = f->body->first; op; op = op->next) {
    bool sort = op->code == OP_SORT;
    assert_ptr_equal(layout_forward(cx, op, 0, l), sort ? l : NULL);
    assert_ptr_equal(layout_backward(cx, op, 0, l), sort ? l : NULL);
  }
  context_destroy(cx);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static void check_picture(Context *cx, const Type *t, const Layout *l, const char *expected) {
  Buf b = {0};
  layout_draw(&b, t, l);
  assert_string_equal(b.at, expected);
  buf_destroy(&b);
}

static void pictures(void **state) {
  Context *cx = context_create();
  const Type *t = f32_tensor(cx, 2, (int32_t[]){8, 32});
  check_picture(cx, t, layout_blocked(cx, t, (int[]){1, 4}, (int[]){1, 0}, 4),
                "f32[8,32]: 4 registers x 32 lanes x 4 warps; copies: warps that differ by 2\n"
                "           0-3        4-7       8-11      12-15      16-19      20-23      24-27      28-31\n"
                "  0   w0 l0 r0   w0 l1 r0   w0 l2 r0   w0 l3 r0   w0 l4 r0   w0 l5 r0   w0 l6 r0   w0 l7 r0\n"
                "  1   w0 l8 r0   w0 l9 r0  w0 l10 r0  w0 l11 r0  w0 l12 r0  w0 l13 r0  w0 l14 r0  w0 l15 r0\n"
                "  2  w0 l16 r0  w0 l17 r0  w0 l18 r0  w0 l19 r0  w0 l20 r0  w0 l21 r0  w0 l22 r0  w0 l23 r0\n"
                "  3  w0 l24 r0  w0 l25 r0  w0 l26 r0  w0 l27 r0  w0 l28 r0  w0 l29 r0  w0 l30 r0  w0 l31 r0\n"
                "  4   w1 l0 r0   w1 l1 r0   w1 l2 r0   w1 l3 r0   w1 l4 r0   w1 l5 r0   w1 l6 r0   w1 l7 r0\n"
                "  5   w1 l8 r0   w1 l9 r0  w1 l10 r0  w1 l11 r0  w1 l12 r0  w1 l13 r0  w1 l14 r0  w1 l15 r0\n"
                "  6  w1 l16 r0  w1 l17 r0  w1 l18 r0  w1 l19 r0  w1 l20 r0  w1 l21 r0  w1 l22 r0  w1 l23 r0\n"
                "  7  w1 l24 r0  w1 l25 r0  w1 l26 r0  w1 l27 r0  w1 l28 r0  w1 l29 r0  w1 l30 r0  w1 l31 r0\n");
  t = f32_tensor(cx, 1, (int32_t[]){2});
  check_picture(cx, t, layout_default(cx, t, 1),
                "f32[2]: 1 register x 32 lanes x 1 warp; copies: lanes that differ by 2, 4, 8, 16\n"
                "         0      1\n"
                "     l0 r0  l1 r0\n");
  /* sizes of every kind stay within 16 lines after the head, and 100 columns */
  for (int k = 0; k < 2000; k++) {
    int32_t shape[4];
    int rank = 1 + random_below(4);
    for (int d = 0; d < rank; d++) shape[d] = 1 << random_below(rank == 1 ? 21 : 20 / rank + 1);
    t = f32_tensor(cx, rank, shape);
    int vector[4] = {1 << random_below(3), 1 << random_below(3), 1 << random_below(4), 1}, order[4];
    for (int d = 0; d < rank; d++) order[d] = rank - 1 - d;
    Buf b = {0};
    layout_draw(&b, t, layout_blocked(cx, t, vector, order, 1 << random_below(6)));
    const char *line = strchr(b.at, '\n') + 1;
    int lines = 0;
    for (; *line; lines++) {
      const char *end = strchr(line, '\n');
      if (end - line > 100) fail_msg("a line of %d columns:\n%s", (int)(end - line), b.at);
      line = end + 1;
    }
    if (lines < 2 || lines > 16) fail_msg("%d lines:\n%s", lines, b.at);
    buf_destroy(&b);
  }
  context_destroy(cx);
}

static void a_kernel_with_its_layouts(void **state) {
  Context *cx = context_create();
  const char *text = "kernel @k(%a: f32[64,64]) {\n"
                     "  %0 = convert_layout %a : f32[64,64]\n"
                     "  %1 = neg %0 : f32[64,64]\n"
                     "}\n";
  Func *f = tile_parse(cx, source_from_text(cx, "t", text, strlen(text)));
  Value *a = f->body->args[0], *b = f->body->first->out[0], *c = f->body->last->out[0];
  a->layout = layout_blocked(cx, a->type, (int[]){1, 4}, (int[]){1, 0}, 4);
  b->layout = c->layout = layout_blocked(cx, a->type, (int[]){4, 1}, (int[]){0, 1}, 4);
  Buf out = {0};
  layout_print_func(&out, f);
  assert_non_null(strstr(out.at, "%0 = convert_layout %a : f32[64,64]"));
  assert_non_null(strstr(out.at, "// L0 from L1: shared memory, 16384 bytes, "));
  assert_non_null(strstr(out.at, "no conflicts"));
  assert_non_null(strstr(out.at, "// 2 layouts, 1 conversion at a cost of "));
  assert_non_null(strstr(out.at, "// L0: reg 64 128 "));
  assert_non_null(strstr(out.at, "// L1: reg 1 2 "));
  tile_parse(cx, source_from_text(cx, "t", out.at, out.n)); /* reads back: the rest is comments */
  buf_destroy(&out);
  context_destroy(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps_apply_compose_and_stand_side_by_side),
      cmocka_unit_test(elimination_agrees_with_counting),
      cmocka_unit_test(the_header_is_right),
      cmocka_unit_test(equal_layouts_are_one),
      cmocka_unit_test(registers_are_found),
      cmocka_unit_test(first_holders_hold_all_once),
      cmocka_unit_test(blocked_layouts),
      cmocka_unit_test(shape_operations_move_nothing_between_threads),
      cmocka_unit_test(reductions_leave_slices),
      cmocka_unit_test(scalars_and_whole_tile_operations_determine_nothing),
      cmocka_unit_test(pictures),
      cmocka_unit_test(a_kernel_with_its_layouts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
