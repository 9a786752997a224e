/* What is left of a text of declarations for one that uses some of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/prune.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

static const char declarations[] = "#define OLD 1\n"
                                   "#define OLD 2\n"
                                   "#define GONE 3\n"
                                   "#undef GONE\n"
                                   "#define TWICE(x) twice((x))\n"
                                   "#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
                                   "typedef float real, *reals __attribute__((aligned(4)));\n"
                                   "typedef real (*maker)(int);\n"
                                   "struct pair { real a, b; };\n"
                                   "enum { RED, GREEN = sizeof(struct pair), BLUE };\n"
                                   "typedef union __attribute__((packed)) { int i; } both;\n"
                                   "static const real table[2] = {1, 2}, other = 3;\n"
                                   "extern real far(real) __asm__(\"far2\") __attribute__((const));\n"
                                   "#pragma GCC push_options\n"
                                   "#pragma GCC target(\"avx2\")\n"
                                   "static inline real in_region(real x) { return x; }\n"
                                   "#pragma GCC push_options\n"
                                   "static inline real in_inner(real x) { return x; }\n"
                                   "#pragma GCC pop_options\n"
                                   "#pragma GCC pop_options\n"
                                   "static inline __attribute__((unused)) real twice(real x) {\n"
                                   "#pragma GCC unroll 16\n"
                                   "  for (;;) { const char *s = \"}\\\"{\", c = '}'; return x + x; }\n"
                                   "}\n"
                                   "static struct pair make(maker f) { struct pair p = {f(1), table[0]}; return p; }\n"
                                   "_Pragma_like;\n"
                                   "__asm__(\"nop\");\n"
                                   "static int _hidden(void) { return 0; }\n";

static const char always[] = "#pragma GCC diagnostic ignored \"-Wpsabi\"\n__asm__(\"nop\");\n";

/* The lines of `expected` are left for `body`, in any number of declarations, beside what always stays. */
static void leaves(const char *body, const char *const *expected) {
  Arena *a = arena_create(NULL);
  Buf out = {.arena = a};
  c_prune(a, declarations, strlen(declarations), body, body ? strlen(body) : 0, &out);
  size_t bytes = strlen(always);
  for (; *expected; expected++) {
    if (!strstr(out.at, *expected)) fail_msg("for '%s' lacks '%s':\n%s", body ? body : "", *expected, out.at);
    bytes += strlen(*expected) + 1;
  }
  if (out.n != bytes) fail_msg("for '%s' too much is left:\n%s", body ? body : "", out.at);
  arena_destroy(a);
}

#define LEAVES(body, ...) leaves(body, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define REAL "typedef float real, *reals __attribute__((aligned(4)));"
#define PAIR "struct pair { real a, b; };"
#define TABLE "static const real table[2] = {1, 2}, other = 3;"
#define TWICE_FN \
  "static inline __attribute__((unused)) real twice(real x) {\n#pragma GCC unroll 16\n" \
  "  for (;;) { const char *s = \"}\\\"{\", c = '}'; return x + x; }\n}"

static void names_are_followed(void **state) {
  LEAVES("int f(void) { return 0; }");
  LEAVES("reals p;", REAL);
  LEAVES("int x = BLUE;", "enum { RED, GREEN = sizeof(struct pair), BLUE };", PAIR, REAL);
  LEAVES("both b;", "typedef union __attribute__((packed)) { int i; } both;");
  LEAVES("int n = other;", TABLE, REAL);
  LEAVES("int n = far(1);", "extern real far(real) __asm__(\"far2\") __attribute__((const));", REAL);
  LEAVES("make(0);", "static struct pair make(maker f) { struct pair p = {f(1), table[0]}; return p; }", PAIR, TABLE,
         "typedef real (*maker)(int);", REAL);
}

static void what_is_no_name_is_none(void **state) {
  LEAVES("\"real\"; 'b'; /* both isn't */ 0xbothu; // table\n", NULL);
  LEAVES("'\"'; real x;", REAL);
}

static void macros_hold_as_they_stand_last(void **state) {
  LEAVES("int n = OLD;", "#define OLD 2");
  LEAVES("int n = GONE;");
  LEAVES("TWICE(1);", "#define TWICE(x) twice((x))", TWICE_FN, REAL);
}

static void regions_stay_around_what_is_kept(void **state) {
  static const char outer[] = "#pragma GCC push_options\n#pragma GCC target(\"avx2\")\n"
                              "static inline real in_region(real x) { return x; }\n#pragma GCC pop_options",
                    inner[] = "#pragma GCC push_options\n#pragma GCC target(\"avx2\")\n#pragma GCC push_options\n"
                              "static inline real in_inner(real x) { return x; }\n#pragma GCC pop_options\n"
                              "#pragma GCC pop_options";
  LEAVES("in_region(1);", outer, REAL);
  LEAVES("in_inner(1);", inner, REAL);
}

static void names_of_the_implementation_go(void **state) {
  Arena *a = arena_create(NULL);
  Buf out = {.arena = a};
  c_prune(a, declarations, strlen(declarations), NULL, 0, &out);
  assert_non_null(strstr(out.at, "in_inner"));
  assert_non_null(strstr(out.at, TWICE_FN));
  assert_null(strstr(out.at, "_hidden"));
  assert_null(strstr(out.at, "_Pragma_like"));
  arena_destroy(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_followed),
      cmocka_unit_test(what_is_no_name_is_none),
      cmocka_unit_test(macros_hold_as_they_stand_last),
      cmocka_unit_test(regions_stay_around_what_is_kept),
      cmocka_unit_test(names_of_the_implementation_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
