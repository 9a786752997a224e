/* Which arguments the pointers of kernels in the Triton language come from: of each store, the set of its pointer.
 * What the analysis does operation by operation is in tests/golden/tile/provenance_*.tile. */
#include "test_front_kit.h"
#include "tile/analysis/provenance.h"

typedef struct Stores {
  const Provenance *p;
  Buf text;
} Stores;

static void note_store(Op *op, void *arg) {
  Stores *s = arg;
  if (op->code == OP_STORE) provenance_print(&s->text, s->p, op->in[0]);
}

static void stores_to(const char *kernel, const char *expected) {
  Kit k = kit_compile(kernel);
  if (!k.c) fail_msg("refused:\n%s\n%s", kernel, k.messages);
  Stores raw = {.p = provenance_create(k.cx->arena, k.c->func)}, optimized = {0};
  tile_walk(k.c->func->body, note_store, &raw);
  assert_string_equal(raw.text.at, expected);
  tile_optimize(k.c->func, NULL, NULL, true);
  optimized.p = provenance_create(k.cx->arena, k.c->func);
  tile_walk(k.c->func->body, note_store, &optimized);
  assert_string_equal(optimized.text.at, expected);
  buf_destroy(&raw.text);
  buf_destroy(&optimized.text);
  kit_free(&k);
}

#define K HEAD "@triton.jit\n"

static void choices(void **state) {
  stores_to(K "def k(x, y, n):\n    p = tl.where(n > 0, x, y)\n    tl.store(p + tl.arange(0, 8), 1.0)\n", "{x, y}");
  stores_to(K "def k(x, y, n):\n    i = tl.arange(0, 8)\n    tl.store(tl.where(i < n, x + i, y + i), 1.0)\n", "{x, y}");
  stores_to(K "def k(x, y, n):\n    if n > 0:\n        p = x\n    else:\n        p = y\n    tl.store(p, 1.0)\n",
            "{x, y}");
  stores_to(K "def k(x, y, n):\n    for i in range(n):\n        tl.store(x + i, 1.0)\n        x, y = y, x\n", "{x, y}");
  stores_to(K "def k(x, y, n):\n    while n > 0:\n        tl.store(x, 1.0)\n        x, y = y, x + 1\n        n -= 1\n",
            "{x, y}");
}

static void made_of_one(void **state) {
  stores_to(K "def k(x, y, n):\n    for i in range(n):\n        tl.store(x, 1.0)\n        x += 8\n", "{x}");
  stores_to(K "def k(x, y):\n    t = (x, y)\n    tl.store(t[1] + tl.arange(0, 8), 1.0)\n", "{y}");
  stores_to(K "def k(x, y, n):\n    b = tl.make_block_ptr(y, (n,), (1,), (0,), (16,), (0,))\n    for i in range(n):\n"
              "        tl.store(b, tl.load(tl.advance(b, (i,))))\n        b = tl.advance(b, (16,))\n",
            "{y}");
  stores_to(K "def k(x, y, n):\n    d = tl.make_tensor_descriptor(y, [n, n], [n, 1], [16, 16])\n"
              "    d.store([0, 16], d.load([16, 0]))\n",
            "{y}");
  stores_to(K "def k(x, y):\n    p = tl.cat(x + tl.arange(0, 8), x + tl.arange(8, 16), can_reorder=True)\n"
              "    tl.store(p, 1.0)\n",
            "{x}");
}

static void from_nowhere(void **state) {
  stores_to(
      K "def k(out, x):\n    p = tl.load(out).to(tl.int64).to(tl.pointer_type(tl.float32))\n    tl.store(p, 1.0)\n    "
        "tl.store(x, 2.0)\n",
      "{unknown}{x}");
  stores_to(K "def k(x, y, n):\n    p = (x.to(tl.int64) + n).to(tl.pointer_type(tl.float32))\n"
              "    tl.store(tl.where(n > 0, p, y), 1.0)\n",
            "{y, unknown}");
}

/* Many arguments, and what may alias under which promise. */
static void sets(void **state) {
  Context *cx = context_create();
  Buf text = {0};
  buf_puts(&text, "kernel @k(");
  for (int i = 0; i < 130; i++) buf_printf(&text, "%s%%p%d: *f32", i ? ", " : "", i);
  buf_puts(&text, ", %c: i1) {\n  %a = select %c, %p3, %p129 : *f32\n  %b = select %c, %p128, %p64 : *f32\n"
                  "  %n = bitcast %a : i64\n  %d = bitcast %n : *f32\n  %v = load %a : f32\n  store %b, %v\n}\n");
  assert_true(context_try(cx));
  Func *f = tile_parse(cx, source_from_text(cx, "k", text.at, text.n));
  Provenance *p = provenance_create(cx->arena, f);
  Value *const *args = f->body->args, *a = f->body->first->out[0], *b = f->body->first->next->out[0];
  const Value *unknown = f->body->last->prev->prev->out[0];
  assert_int_equal(provenance_argument(p, args[129]), 129);
  assert_int_equal(provenance_argument(p, a), -1);
  assert_int_equal(provenance_argument(p, unknown), -1);
  assert_true(provenance_may_be(p, a, 129) && provenance_may_be(p, a, 3) && !provenance_may_be(p, a, 1));
  assert_true(provenance_may_be(p, unknown, 77));
  assert_true(provenance_may_alias(p, a, args[129], ARGS_DISJOINT));
  assert_false(provenance_may_alias(p, a, b, ARGS_DISJOINT));
  assert_false(provenance_may_alias(p, args[3], args[67], ARGS_DISJOINT));
  assert_true(provenance_may_alias(p, args[3], args[67], ARGS_MAY_OVERLAP));
  assert_true(provenance_may_alias(p, args[5], unknown, ARGS_DISJOINT));
  bool read[131], written[131];
  tile_mod_ref(f, p, read, written);
  for (int i = 0; i < 131; i++) {
    assert_int_equal(read[i], i == 3 || i == 129);
    assert_int_equal(written[i], i == 64 || i == 128);
  }
  context_end_try(cx);
  context_destroy(cx);
  buf_destroy(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(choices),
      cmocka_unit_test(made_of_one),
      cmocka_unit_test(from_nowhere),
      cmocka_unit_test(sets),
  };
  return cmocka_run_group_tests_name("provenance", tests, NULL, NULL);
}
