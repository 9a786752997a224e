/* Places are reused: random kernels give the same with and without that. With a step hook every value keeps a place of
 * its own, so the two runs share nothing of the allocation. */
#include "test_interp_kit.h"

enum { MOST_VALUES = 400, OPS = 30 };

typedef struct Writer {
  Buf text;
  uint64_t seed;
  int next;                        /* the next value's number */
  int visible[MOST_VALUES], count; /* i32[4,8] values that can be used here */
  int scalars[MOST_VALUES], scalar_count;
} Writer;

static int any(Writer *w, int n) { return (int)(kit_random(&w->seed) % (uint64_t)n); }
static int tile(Writer *w) { return w->visible[any(w, w->count)]; }
static int scalar(Writer *w) { return w->scalars[any(w, w->scalar_count)]; }
static int add_tile(Writer *w) { return w->visible[w->count++] = w->next++; }
static int add_scalar(Writer *w) { return w->scalars[w->scalar_count++] = w->next++; }

#define TILE "i32[4,8]"

static void write_ops(Writer *w, int n, int depth);

/* A body with its own scope; leaves its yield's operands to the caller. */
static void write_body(Writer *w, int n, int depth, int yields) {
  int count = w->count, scalar_count = w->scalar_count;
  write_ops(w, n, depth + 1);
  buf_puts(&w->text, "yield ");
  for (int i = 0; i < yields; i++) buf_printf(&w->text, "%s%%v%d", i ? ", " : "", tile(w));
  buf_puts(&w->text, "\n}");
  w->count = count;
  w->scalar_count = scalar_count;
}

static void write_op(Writer *w, int depth) {
  static const char *const binary[] = {"add", "sub", "mul", "xor", "and", "max"};
  Buf *b = &w->text;
  int x = tile(w), y = tile(w), z, s, k;
  switch (any(w, depth < 3 ? 15 : 11)) {
    case 0:
    case 1:
    case 2:
    case 3:
      buf_printf(b, "%%v%d = %s %%v%d, %%v%d : " TILE "\n", w->next, binary[any(w, 6)], x, y);
      add_tile(w);
      break;
    case 4: /* the same elements by other shapes and types */
      z = w->next;
      w->next += 3;
      buf_printf(b,
                 "%%v%d = reshape %%v%d : i32[32]\n%%v%d = bitcast %%v%d : u32[32]\n%%v%d = convert %%v%d : i32[32]\n",
                 z, x, z + 1, z, z + 2, z + 1);
      buf_printf(b, "%%v%d = reshape %%v%d : " TILE "\n", w->next, z + 2);
      add_tile(w);
      break;
    case 5:
      z = w->next++;
      buf_printf(b, "%%v%d = trans %%v%d {dims=[1,0]} : i32[8,4]\n%%v%d = reshape %%v%d : " TILE "\n", z, x, w->next,
                 z);
      add_tile(w);
      break;
    case 6:
      s = scalar(w);
      buf_printf(b, "%%v%d = splat %%v%d : " TILE "\n", w->next, s);
      add_tile(w);
      break;
    case 7:
      buf_printf(b, "%%v%d = const {value=%d} : " TILE "\n", w->next, any(w, 100));
      add_tile(w);
      break;
    case 8:
      z = w->next++;
      buf_printf(b, "%%v%d = cmp %%v%d, %%v%d {pred=lt} : i1[4,8]\n%%v%d = select %%v%d, %%v%d, %%v%d : " TILE "\n", z,
                 x, y, w->next, z, tile(w), x);
      add_tile(w);
      break;
    case 9: /* reductions whose bodies use a value from outside */
      s = scalar(w), z = w->next++, k = w->next;
      w->next += 4;
      buf_printf(
          b, "%%v%d = reduce %%v%d {axis=1} : i32[4] do (%%v%d: i32, %%v%d: i32) {\n%%v%d = add %%v%d, %%v%d : i32\n",
          z, x, k, k + 1, k + 2, k, k + 1);
      buf_printf(b, "%%v%d = xor %%v%d, %%v%d : i32\nyield %%v%d\n}\n", k + 3, k + 2, s, k + 3);
      k = w->next;
      w->next += 3;
      buf_printf(b,
                 "%%v%d = reduce %%v%d {axis=0} : i32 do (%%v%d: i32, %%v%d: i32) {\n%%v%d = sub %%v%d, %%v%d : "
                 "i32\nyield %%v%d\n}\n",
                 w->next, z, k, k + 1, k + 2, k, k + 1, k + 2);
      add_scalar(w);
      break;
    case 10:
      buf_printf(b, "%%v%d = mul %%v%d, %%v%d : i32\n", w->next, scalar(w), scalar(w));
      add_scalar(w);
      break;
    case 11:
    case 12: { /* a loop that carries two tiles */
      int first = w->next;
      w->next += 2;
      int iv = w->next++, c0 = w->next++, c1 = w->next++;
      buf_printf(b,
                 "%%v%d, %%v%d = for %%zero, %%trips, %%one, %%v%d, %%v%d : " TILE ", " TILE
                 " do (%%v%d: i32, %%v%d: " TILE ", %%v%d: " TILE ") {\n",
                 first, first + 1, x, y, iv, c0, c1);
      int count = w->count, scalar_count = w->scalar_count;
      w->visible[w->count++] = c0, w->visible[w->count++] = c1, w->scalars[w->scalar_count++] = iv;
      write_body(w, 2 + any(w, 6), depth, 2);
      buf_putc(b, '\n');
      w->count = count;
      w->scalar_count = scalar_count;
      w->visible[w->count++] = first, w->visible[w->count++] = first + 1;
      break;
    }
    case 13: {
      int first = w->next, c = w->next + 2;
      w->next += 3;
      buf_printf(b, "%%v%d = cmp %%v%d, %%v%d {pred=le} : i1\n%%v%d, %%v%d = if %%v%d : " TILE ", " TILE " do () {\n",
                 c, scalar(w), scalar(w), first, first + 1, c);
      write_body(w, any(w, 5), depth, 2);
      buf_puts(b, " do () {\n");
      write_body(w, any(w, 5), depth, 2);
      buf_putc(b, '\n');
      w->visible[w->count++] = first, w->visible[w->count++] = first + 1;
      break;
    }
    default: { /* a while that counts down a tile of its own */
      int first = w->next;
      w->next += 2;
      int a = w->next, c = a + 1, go = a + 2, d = a + 3, e = a + 4, less = a + 5;
      w->next += 6;
      buf_printf(b, "%%v%d, %%v%d = while %%trips, %%v%d : i32, " TILE " do (%%v%d: i32, %%v%d: " TILE ") {\n", first,
                 first + 1, x, a, c);
      buf_printf(
          b,
          "%%v%d = cmp %%v%d, %%zero {pred=gt} : i1\ncondition %%v%d, %%v%d, %%v%d\n} do (%%v%d: i32, %%v%d: " TILE
          ") {\n",
          go, a, go, a, c, d, e);
      int count = w->count, scalar_count = w->scalar_count;
      w->visible[w->count++] = e, w->scalars[w->scalar_count++] = d;
      write_ops(w, any(w, 5), depth + 1);
      buf_printf(b, "%%v%d = sub %%v%d, %%one : i32\nyield %%v%d, %%v%d\n}\n", less, d, less, tile(w));
      w->count = count;
      w->scalar_count = scalar_count;
      w->scalars[w->scalar_count++] = first, w->visible[w->count++] = first + 1;
    }
  }
}

static void write_ops(Writer *w, int n, int depth) {
  for (int i = 0; i < n && w->count < MOST_VALUES - 20; i++) write_op(w, depth);
}

static bool go_on(void *arg, InterpFrame *frame, const Op *next) { return true; }

static void places_do_not_clash(void **state) {
  for (int round = 0; round < 300; round++) {
    Writer w = {.seed = (uint64_t)round + 1, .next = 2};
    buf_puts(&w.text,
             "kernel @k(%o: *i32, %trips: i32) {\n%zero = const {value=0} : i32\n%one = const {value=1} : i32\n"
             "%l = arange {start=0, end=32} : i32[32]\n%v0 = reshape %l : " TILE "\n%v1 = program_id {axis=0} : i32\n");
    w.visible[w.count++] = 0;
    w.scalars[w.scalar_count++] = 1;
    write_ops(&w, OPS, 0);
    int sum = 0; /* of all that is visible, so that everything lives to the end in some kernels */
    for (int i = 1; i < w.count; i += 1 + round % 3) {
      buf_printf(&w.text, "%%v%d = add %%v%d, %%v%d : " TILE "\n", w.next, sum, w.visible[i]);
      sum = w.next++;
    }
    buf_printf(&w.text,
               "%%s = splat %%o : *i32[4,8]\n%%p = addptr %%s, %%v0 : *i32[4,8]\n%%n = const {value=32} : i32\n%%at = "
               "mul %%v1, %%n : i32\n"
               "%%ats = splat %%at : " TILE "\n%%q = addptr %%p, %%ats : *i32[4,8]\nstore %%q, %%v%d\n}\n",
               sum);
    int32_t results[2][3 * 32];
    for (int keep = 0; keep < 2; keep++) {
      Kit *k = kit_open(w.text.at);
      int32_t *o = kit_array(k, "o", sizeof results[0], NULL);
      kit_int(k, 3);
      k->grid[0] = 3;
      if (keep) k->options.step = go_on;
      kit_succeeds(k);
      memcpy(results[keep], o, sizeof results[0]);
      kit_close(k);
    }
    if (memcmp(results[0], results[1], sizeof results[0])) fail_msg("round %d:\n%s", round, w.text.at);
    buf_destroy(&w.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(places_do_not_clash)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
