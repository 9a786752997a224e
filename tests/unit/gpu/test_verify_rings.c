/* Tests of gpu/verify_rings.c: texts that are right, each of them wrong in many ways; and pipelines that the passes
 * make, out of which each wait, commit and hand-back is taken in turn. */
#include "unit/gpu/test_async_kit.h"

/* ---- texts ------------------------------------------------------------------------------------------------------- */

#define NUMBERS \
  "  %zero = const {value=0} : i32\n" \
  "  %one = const {value=1} : i32\n" \
  "  %two = const {value=2} : i32\n" \
  "  %three = const {value=3} : i32\n" \
  "  %acc = const {value=0.0} : f32[16,16]\n" \
  "  %ps = splat %p : *f16[16,16]\n"

#define NEXT(slot, parity) \
  "      %after" slot " = add %" slot ", %one : i32\n" \
  "      %wraps" slot " = cmp %after" slot ", %two {pred=eq} : i1\n" \
  "      %next" slot " = select %wraps" slot ", %zero, %after" slot " : i32\n" \
  "      %other" slot " = xor %" parity ", %one : i32\n" \
  "      %next" parity " = select %wraps" slot ", %other" slot ", %" parity " : i32\n"

/* Threads copy, two iterations ahead. */
static const char copied[] =
    "kernel @k(%p: *f16, %n: i32) {\n" NUMBERS "  %r = ring {slots=3, inner=1, dims=[16, 16]} : *f16\n"
    "  ring_copy %ps, %r, %zero\n"
    "  ring_commit\n"
    "  ring_copy %ps, %r, %one\n"
    "  ring_commit\n"
    "  %sum, %a, %b = for %zero, %n, %one, %acc, %zero, %two : f32[16,16], i32, i32 "
    "do (%i: i32, %s: f32[16,16], %now: i32, %ahead: i32) {\n"
    "    ring_wait {pending=1}\n"
    "    %t = ring_read %r, %now : f16[16,16]\n"
    "    %turned = trans %t {dims=[1, 0]} : f16[16,16]\n"
    "    %d = dot %turned, %t, %s : f32[16,16]\n"
    "    ring_copy %ps, %r, %ahead\n"
    "    ring_commit\n"
    "    %now1 = add %now, %one : i32\n"
    "    %now2 = rem %now1, %three : i32\n"
    "    %ahead1 = add %ahead, %one : i32\n"
    "    %ahead2 = rem %ahead1, %three : i32\n"
    "    yield %d, %now2, %ahead2\n"
    "  }\n"
    "  ring_wait\n"
    "  ring_copy %ps, %r, %zero\n"
    "}\n";

#define MAP \
  "  %size = const {value=1024} : i64\n" \
  "  %m = tensor_map %p, %size, %size, %size {dims=[16, 16]} : *f16\n" \
  "  %yes = const {value=1} : i1\n"

/* One thread copies by a tensor map, an iteration ahead; what is left is waited for after the loop. */
static const char mapped[] =
    "kernel @k(%p: *f16, %n: i32) {\n" NUMBERS MAP "  %r = ring {slots=2, inner=1, dims=[16, 16]} : *f16\n"
    "  ring_tensor %m, %r, %zero, %yes, %zero, %zero\n"
    "  %sum, %a, %b, %c, %d = for %zero, %n, %one, %acc, %zero, %zero, %one, %zero : f32[16,16], i32, i32, i32, i32 "
    "do (%i: i32, %s: f32[16,16], %slot: i32, %parity: i32, %ahead: i32, %phase: i32) {\n"
    "      ring_full %r, %slot, %parity\n"
    "      ring_wait\n"
    "      ring_tensor %m, %r, %ahead, %yes, %zero, %zero\n"
    "      %t = ring_read %r, %slot : f16[16,16]\n"
    "      %x = dot %t, %t, %s : f32[16,16]\n" NEXT("slot", "parity")
        NEXT("ahead", "phase") "      yield %x, %nextslot, %nextparity, %nextahead, %nextphase\n"
                               "  }\n"
                               "  ring_drain %r, %a, %b, %c, %d\n"
                               "  ring_wait\n"
                               "  ring_tensor %m, %r, %c, %yes, %zero, %zero\n"
                               "}\n";

/* Warps of their own copy. */
static const char parted[] =
    "kernel @k(%p: *f16, %n: i32) {\n" NUMBERS MAP "  %r = ring {slots=2, inner=1, dims=[16, 16]} : *f16\n"
    "  %computes = computes : i1\n"
    "  if %computes do () {\n"
    "    %sum, %a, %b = for %zero, %n, %one, %acc, %zero, %zero : f32[16,16], i32, i32 "
    "do (%i: i32, %s: f32[16,16], %slot: i32, %parity: i32) {\n"
    "      ring_full %r, %slot, %parity\n"
    "      %t = ring_read %r, %slot : f16[16,16]\n"
    "      %x = dot %t, %t, %s : f32[16,16]\n"
    "      ring_free %r, %slot\n" NEXT(
        "slot",
        "parity") "      yield %x, %nextslot, %nextparity\n"
                  "    }\n"
                  "    yield\n"
                  "  } do () {\n"
                  "    %c, %d = for %zero, %n, %one, %zero, %zero : i32, i32 do (%k: i32, %to: i32, %phase: i32) {\n"
                  "      %before = xor %phase, %one : i32\n"
                  "      ring_empty %r, %to, %before\n"
                  "      ring_tensor %m, %r, %to, %yes, %zero, %zero\n" NEXT(
                      "to", "phase") "      yield %nextto, %nextphase\n"
                                     "    }\n"
                                     "    yield\n"
                                     "  }\n"
                                     "}\n";

/* Sums are in tensor memory. */
static const char in_tmem[] =
    "kernel @k(%p: *f16, %n: i32) {\n" NUMBERS "  %r = ring {slots=1, inner=1, dims=[16, 16]} : *f16\n"
    "  %sums = tmem {dims=[16, 16]} : *f32\n"
    "  tmem_store %sums, %acc\n"
    "  %a, %b = for %zero, %n, %one, %zero, %zero : i32, i32 do (%i: i32, %bar: i32, %phase: i32) {\n"
    "      ring_copy %ps, %r, %zero\n"
    "      ring_commit\n"
    "      ring_wait\n"
    "      %t = ring_read %r, %zero : f16[16,16]\n"
    "      tmem_dot %t, %t, %sums\n"
    "      tmem_commit %sums, %bar\n"
    "      tmem_wait %sums, %bar, %phase\n"
    "      %bar1 = add %bar, %one : i32\n"
    "      %bar2 = rem %bar1, %three : i32\n"
    "      %wraps = cmp %bar2, %zero {pred=eq} : i1\n"
    "      %other = xor %phase, %one : i32\n"
    "      %next = select %wraps, %other, %phase : i32\n"
    "      yield %bar2, %next\n"
    "  }\n"
    "  %out = tmem_load %sums : f32[16,16]\n"
    "}\n";

/* In a text the first `old` becomes `new`: the verifier says so of the operation. NULL: it says nothing. */
typedef struct Change {
  const char *text, *old, *new, *op, *says;
} Change;

static const Change changes[] = {
    {copied, "", "", NULL, NULL},
    {copied, "    ring_wait {pending=1}\n", "", "ring_read", "nobody has waited for the copies to slot 0, where 'dot'"},
    {copied, "{pending=1}", "{pending=2}", "ring_read", "nobody has waited for the copies to slot 0"},
    {copied, "    ring_commit\n    %now1", "    %now1", "ring_read", "nobody has waited for the copies to slot"},
    {copied, "  ring_copy %ps, %r, %one\n", "", "ring_read", "no tile was copied to slot 1"},
    {copied, "    ring_copy %ps, %r, %ahead\n", "    ring_copy %ps, %r, %now\n", "ring_copy",
     "they have not met since"},
    {copied, "%t, %s :", "%t, %s {async=1} :", "ring_copy", "a dot in flight reads slot"},
    {copied, "    %d = dot %turned, %t, %s : f32[16,16]\n",
     "    %e = dot %turned, %t, %s {async=1} : f32[16,16]\n    %d = dot_wait %e : f32[16,16]\n", NULL, NULL},
    {copied, "    %t = ring_read %r, %now : f16[16,16]\n    %turned = trans %t {dims=[1, 0]} : f16[16,16]\n",
     "    ring_copy %ps, %r, %ahead\n    %t = ring_read %r, %ahead : f16[16,16]\n    %turned = trans %t {dims=[1, 0]} "
     ": "
     "f16[16,16]\n",
     "ring_read", "nobody has waited for the copies to slot 2"},
    {copied, "  }\n  ring_wait\n", "  }\n", "ring_copy", "nobody has waited for the tile before in slot 0"},
    {copied, "    ring_copy %ps, %r, %ahead\n", "", "ring_read", "no tile was copied to slot 2"},
    {copied, "rem %now1, %three", "add %now1, %zero", "ring_read", "slot 3 of a ring that has 3"},
    {mapped, "", "", NULL, NULL},
    {mapped, "      ring_full %r, %slot, %parity\n", "", "ring_read", "nobody has waited for the tile in slot 0"},
    {mapped, "      ring_full %r, %slot, %parity\n", "      ring_full %r, %slot, %one\n", "ring_full",
     "waits for ever"},
    {mapped, "      ring_wait\n", "", "ring_tensor", "they have not met since"},
    {mapped, "%ahead, %yes", "%slot, %yes", "ring_read", "nobody has waited for the tile in slot 0"},
    {mapped, "  ring_drain %r, %a, %b, %c, %d\n", "  ring_full %r, %c, %d\n", "ring_full", "waits for ever"},
    {mapped, "  ring_tensor %m, %r, %c, %yes, %zero, %zero\n}", "  ring_tensor %m, %r, %a, %yes, %zero, %zero\n}", NULL,
     NULL},
    {mapped, "  ring_drain %r, %a, %b, %c, %d\n  ring_wait\n  ring_tensor %m, %r, %c",
     "  ring_wait\n  ring_tensor %m, %r, %a", "ring_tensor", "nobody has waited for the tile before in slot"},
    {parted, "", "", NULL, NULL},
    {parted, "      ring_full %r, %slot, %parity\n", "", "ring_read", "nobody has waited for the tile in slot 0"},
    {parted, "ring_full %r, %slot", "ring_full %r, %zero", "ring_full", "slot 0 is empty"},
    {parted, "ring_read %r, %slot", "ring_read %r, %zero", "ring_read", "nobody has waited for the tile in slot 0"},
    {parted, "ring_full %r, %slot, %parity", "ring_full %r, %slot, %zero", "ring_full", "slot 0 is empty"},
    {parted, "      ring_free %r, %slot\n", "", "ring", "the last tile of slot 0 is not handed back"},
    {parted, "ring_free %r, %slot", "ring_free %r, %zero", "ring_free", "nobody has waited for a tile in slot 0"},
    {parted, "      ring_free %r, %slot\n", "      ring_free %r, %slot\n      ring_free %r, %slot\n", "ring_free",
     "nobody has waited for a tile in slot 0"},
    {parted, "      %x = dot %t, %t, %s : f32[16,16]\n      ring_free %r, %slot\n",
     "      ring_free %r, %slot\n      %x = dot %t, %t, %s : f32[16,16]\n", "ring_read",
     "slot 0 has another tile, or was handed back"},
    {parted, "%t, %s :", "%t, %s {async=1} :", "ring_free", "a dot in flight reads slot 0"},
    {parted, "      ring_empty %r, %to, %before\n", "", "ring_tensor", "nobody has waited for slot 0 to be empty"},
    {parted, "ring_empty %r, %to, %before", "ring_empty %r, %to, %one", "ring_empty", "slot 0 is not empty"},
    {parted, "ring_empty %r, %to, %before", "ring_empty %r, %to, %phase", "ring_full", "waits for ever"},
    {parted, "      ring_tensor %m, %r, %to, %yes, %zero, %zero\n", "", "ring_full", "waits for ever"},
    {parted, "%t, %s : f32[16,16]\n", "%t, %s {async=1} : f32[16,16]\n      dot_wait\n", NULL, NULL},
    {parted, "%t, %s : f32[16,16]\n", "%t, %s {async=1} : f32[16,16]\n      dot_wait {pending=1}\n", "ring_free",
     "a dot in flight reads slot 0"},
    {in_tmem, "", "", NULL, NULL},
    {in_tmem, "      tmem_wait %sums, %bar, %phase\n", "", "tmem_load", "a product in flight adds to these sums"},
    {in_tmem, "%bar, %phase\n", "%zero, %phase\n", "ring_copy", "a dot in flight reads slot 0"},
    {in_tmem, "      tmem_commit %sums, %bar\n", "", "tmem_wait", "waits for ever"},
    {in_tmem, "      tmem_commit %sums, %bar\n      tmem_wait %sums, %bar, %phase\n",
     "      tmem_commit %sums, %bar\n      ring_copy %ps, %r, %zero\n      tmem_wait %sums, %bar, %phase\n",
     "ring_copy", "a dot in flight reads slot 0"},
    {in_tmem, "      ring_wait\n", "", "ring_read", "nobody has waited for the copies to slot 0"},
};

static const char *changed(Context *cx, const Change *c) {
  const char *at = strstr(c->text, c->old);
  assert_non_null(at);
  return arena_printf(cx->arena, "%.*s%s%s", (int)(at - c->text), c->text, c->new, at + strlen(c->old));
}

/* NULL: the verifier is content. */
static const char *said_of(Func *f) {
  volatile bool right = false;
  if (context_try(f->cx)) {
    gpu_verify_rings(f, "the test");
    right = true;
    context_end_try(f->cx);
  }
  return right ? NULL : f->cx->diags.at[f->cx->diags.n - 1].message;
}

static void each_rule_has_texts_that_break_it(void **state) {
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const Change *c = &changes[i];
    Context *cx = context_create();
    const char *text = changed(cx, c), *want = "";
    Func *f = tile_parse(cx, source_from_text(cx, "k.ir", text, strlen(text)));
    tile_verify(f, "the test");
    const char *said = said_of(f);
    if (c->op) want = arena_printf(cx->arena, "wrong IR after the test: '%s': ", c->op);
    bool right = c->op ? said && !strncmp(said, want, strlen(want)) && strstr(said, c->says) : !said;
    if (!right)
      fail_msg("number %zu, wanted %s%s: %s\n%s", i, want, c->op ? c->says : "nothing", said ? said : "-", text);
    context_destroy(cx);
  }
}

/* ---- pipelines ----------------------------------------------------------------------------------------------------- */

static bool orders(const Op *op, bool copies) {
  switch (op->code) {
    case OP_RING_COMMIT: return copies; /* of tensor maps' copies there are no groups */
    case OP_RING_WAIT:
    case OP_RING_FULL:
    case OP_RING_EMPTY:
    case OP_RING_FREE:
    case OP_DOT_WAIT:
    case OP_TMEM_COMMIT:
    case OP_TMEM_WAIT: return true;
    default: return false;
  }
}

typedef struct Search {
  bool copies; /* threads copy tiles */
  int skip;
  Op *found;
  Value *old, *new;
} Search;

static void find_copy(Op *op, void *arg) { ((Search *)arg)->copies |= op->code == OP_RING_COPY; }

static void find_op(Op *op, void *arg) {
  Search *s = arg;
  if (orders(op, s->copies) && s->skip-- == 0) s->found = op;
}

static void replace_uses(Op *op, void *arg) {
  const Search *s = arg;
  for (int i = 0; i < op->in_count; i++)
    if (op->in[i] == s->old) op->in[i] = s->new;
}

static bool in_loop(const Op *op) {
  for (op = op->block->parent; op; op = op->block->parent)
    if (op->code == OP_FOR) return true;
  return false;
}

/* Takes out each in turn. Those in loops are all missed. Returns how many there are. */
static int needs_all(DotCase *c, const char *what) {
  int tried = 0, unseen = 0;
  char names[400] = "";
  for (;; tried++) {
    dot_compile(c);
    Func *f = c->compiled->func;
    assert_null(said_of(f));
    Search s = {.skip = tried};
    tile_walk(f->body, find_copy, &s);
    tile_walk(f->body, find_op, &s);
    if (s.found) {
      for (int i = 0; i < s.found->out_count; i++) {
        s.old = s.found->out[i], s.new = s.found->in[i];
        tile_walk(f->body, replace_uses, &s);
      }
      bool inside = in_loop(s.found);
      op_remove(s.found);
      if (!said_of(f) && inside) {
        unseen++;
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, " %d %s", tried, op_info[s.found->code].name);
      }
    }
    context_destroy(c->cx);
    if (!s.found) break;
  }
  c->cx = NULL;
  if (unseen) fail_msg("%s, %s: %d of %d are not missed:%s", what, c->target, unseen, tried, names);
  return tried;
}

static void products_need_their_waits(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int stages = 2; stages <= 4; stages++)
      for (int specialize = 0; specialize < 2; specialize++) {
        DotCase c = whole_case(pointers.text, targets[t], 4, stages);
        c.specialize = specialize, c.blocks = 1;
        dot_array(&c, DT_F16, 64 * 32 * 8), dot_array(&c, DT_F16, 32 * 8 * 64), dot_array(&c, DT_F32, 64 * 64);
        dot_int(&c, 0), dot_int(&c, 256);
        dot_const(&c, 64), dot_const(&c, 64), dot_const(&c, 32), dot_const(&c, 32 * 8);
        assert_true(needs_all(&c, "a product") >= 4);
        dot_free(&c);
      }
}

static void attention_needs_its_waits(void **state) {
  for (int t = 0; t < TARGETS; t++)
    for (int specialize = 0; specialize < 2; specialize++) {
      Attention a = {64 * 5, 32, 64, 64, 4, DT_F16, false, targets[t]};
      Work w = attention_work(&a);
      DotCase c = attention_case(&a, &w, "attention", forward_arrays, 5);
      c.specialize = specialize, c.blocks = 1;
      assert_true(needs_all(&c, "attention") >= 4);
      close_case(&c);
      free_work(&w);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_rule_has_texts_that_break_it),
      cmocka_unit_test(products_need_their_waits),
      cmocka_unit_test(attention_needs_its_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
