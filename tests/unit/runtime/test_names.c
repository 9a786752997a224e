/* A host that says what a source's free names are: values of all kinds, functions with surroundings of their own,
 * modules, calls back, names that change, and hosts that answer nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <nereid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a host made of a table -------------------------------------------------------------------------------------- */

typedef struct Answer {
  nereid_ask what;
  const char *of, *name; /* of: a scope or object; texts here */
  void (*give)(nereid_value *v);
} Answer;
typedef struct Table {
  const Answer *answers;
  int asked;
} Table;

static void give_library(nereid_value *v, const char *name) {
  nereid_value_set_library(v, !strcmp(name, "tl") ? "triton.language" : "triton");
}

static bool ask(void *arg, nereid_ask what, void *of, const char *name, nereid_value *out) {
  Table *t = arg;
  t->asked++;
  for (const Answer *a = t->answers; a && a->name; a++)
    if (a->what == what && !strcmp(a->of, of) && !strcmp(a->name, name)) {
      a->give(out);
      return true;
    }
  if (what != NEREID_ASK_NAME || (strcmp(name, "tl") && strcmp(name, "triton"))) return false;
  give_library(out, name);
  return true;
}

static bool call(void *arg, void *object, int n, const nereid_value *const *args, const char *const *names,
                 nereid_value *out) {
  (void)arg;
  if (!strcmp(object, "fails")) return false;
  if (!strcmp(object, "kind")) { /* what kinds arrived */
    char text[64] = "";
    for (int i = 0; i < n; i++) {
      size_t used = strlen(text);
      snprintf(text + used, sizeof text - used, "%d:%s:%s ", (int)nereid_value_get_kind(args[i]),
               nereid_value_get_text(args[i], NULL), names[i] ? names[i] : "");
    }
    nereid_value_set_str(out, text, strlen(text));
    return true;
  }
  int64_t sum = 0; /* "sum": of all ints, also in tuples */
  for (int i = 0; i < n; i++) {
    sum += nereid_value_get_int(args[i]);
    for (int k = 0; k < nereid_value_get_count(args[i]); k++)
      sum += nereid_value_get_int(nereid_value_get_item(args[i], k));
  }
  nereid_value_set_int(out, sum);
  return true;
}

static nereid_host host_of(Table *t) {
  return (nereid_host){.size = sizeof(nereid_host), .arg = t, .ask = ask, .call = call};
}

static nereid_source source_of(const char *text, nereid_source_kind kind, const char *scope) {
  return (nereid_source){.size = sizeof(nereid_source),
                         .kind = kind,
                         .path = "user.py",
                         .text = text,
                         .text_bytes = strlen(text),
                         .line = 100,
                         .scope = (void *)scope};
}

static void set_source(nereid_value *v, const char *text, nereid_source_kind kind, const char *scope) {
  nereid_source s = source_of(text, kind, scope);
  nereid_value_set_source(v, &s);
}

static nereid_device *device;

static int open_device(void **state) {
  (void)state;
  return nereid_device_open("interp", &device, NULL);
}

static int close_device(void **state) {
  (void)state;
  nereid_device_close(device);
  return 0;
}

static nereid_error *error;

static nereid_module *load(const char *text, Table *t) {
  nereid_module *m = NULL;
  nereid_source s = source_of(text, NEREID_SOURCE_JIT, "kernel");
  nereid_host h = host_of(t);
  if (nereid_module_load_source(&s, &h, &m, &error)) fail_msg("%s", nereid_error_text(error));
  return m;
}

static nereid_status launch(nereid_module *m, int64_t *out) {
  assert_int_equal(nereid_register(device, out, 8 * sizeof *out, "out", NULL), NEREID_OK);
  int64_t grid[3] = {1, 1, 1};
  nereid_arg args[] = {nereid_pointer(out, NEREID_I64)};
  nereid_status status = nereid_launch(device, NULL, m, nereid_kernel_at(m, 0)->name, grid, args, 1, NULL, &error);
  nereid_unregister(device, out);
  return status;
}

/* Runs the kernel once; out has room for 8. */
static void run(const char *text, const Answer *answers, int64_t *out) {
  Table t = {answers, 0};
  nereid_module *m = load(text, &t);
  if (launch(m, out)) fail_msg("%s", nereid_error_text(error));
  nereid_module_free(m);
}

static void fails(const char *text, const Answer *answers, nereid_status status, const char *what) {
  Table t = {answers, 0};
  nereid_module *m = NULL;
  nereid_source s = source_of(text, NEREID_SOURCE_JIT, "kernel");
  nereid_host h = host_of(&t);
  int64_t out[8];
  nereid_status got = nereid_module_load_source(&s, &h, &m, &error);
  if (!got) got = launch(m, out);
  assert_int_equal(got, status);
  if (!strstr(nereid_error_text(error), what)) fail_msg("%s\nlacks %s", nereid_error_text(error), what);
  nereid_error_free(error);
  error = NULL;
  nereid_module_free(m);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void constexpr_int(nereid_value *v) {
  nereid_value_set_int(v, 41);
  nereid_value_mark_constexpr(v);
}
static void plain_int(nereid_value *v) { nereid_value_set_int(v, 41); }
static void wide_int(nereid_value *v) {
  nereid_value_set_int_text(v, "-170141183460469231731687303715884105727");
  nereid_value_mark_constexpr(v);
}
static void text(nereid_value *v) {
  nereid_value_set_str(v, "relu", 4);
  nereid_value_mark_constexpr(v);
}
static void pair(nereid_value *v) {
  static const char *const fields[] = {"left", "right"};
  nereid_value_set_named_tuple(v, "Pair", (void *)"Pair", 2, fields);
  nereid_value_set_int(nereid_value_item(v, 0), 5);
  nereid_value_set_list(nereid_value_item(v, 1), 2);
  nereid_value_set_int(nereid_value_item(nereid_value_item(v, 1), 0), 6);
  nereid_value_set_float(nereid_value_item(nereid_value_item(v, 1), 1), 7.5);
  nereid_value_mark_constexpr(v);
}
static void pair_class(nereid_value *v) {
  static const char *const fields[] = {"left", "right"};
  nereid_value_set_named_tuple_class(v, "Pair", (void *)"Pair", 2, fields);
}
static void table(nereid_value *v) {
  nereid_value_set_dict(v, 1);
  nereid_value_set_str(nereid_value_item(v, 0), "k", 1);
  nereid_value_set_type(nereid_value_item(v, 1), "*fp16");
  nereid_value_mark_constexpr(v);
}
static void half(nereid_value *v) {
  nereid_value_set_type(v, "fp16");
  nereid_value_mark_constexpr(v);
}
static void color(nereid_value *v, const char *name, int value) {
  nereid_value_set_enum(v, "Color", (void *)"Color", name);
  nereid_value_set_int(nereid_value_item(v, 0), value);
  nereid_value_mark_constexpr(v);
}
static void red(nereid_value *v) { color(v, "RED", 1); }
static void blue(nereid_value *v) { color(v, "BLUE", 2); }
static void none(nereid_value *v) {
  nereid_value_set_none(v);
  nereid_value_mark_constexpr(v);
}
static void load_function(nereid_value *v) { nereid_value_set_library(v, "triton.language.store"); }
static void maximum(nereid_value *v) { nereid_value_set_library(v, "builtins.max"); }

static void test_values(void **state) {
  (void)state;
  static const Answer answers[] = {{NEREID_ASK_NAME, "kernel", "N", constexpr_int},
                                   {NEREID_ASK_NAME, "kernel", "WIDE", wide_int},
                                   {NEREID_ASK_NAME, "kernel", "MODE", text},
                                   {NEREID_ASK_NAME, "kernel", "P", pair},
                                   {NEREID_ASK_NAME, "kernel", "Pair", pair_class},
                                   {NEREID_ASK_NAME, "kernel", "TABLE", table},
                                   {NEREID_ASK_NAME, "kernel", "H", half},
                                   {NEREID_ASK_NAME, "kernel", "RED", red},
                                   {NEREID_ASK_NAME, "kernel", "BLUE", blue},
                                   {NEREID_ASK_NAME, "kernel", "NOTHING", none},
                                   {NEREID_ASK_NAME, "kernel", "put", load_function},
                                   {NEREID_ASK_NAME, "kernel", "largest", maximum},
                                   {0}};
  int64_t out[8] = {0};
  /* indented as in a class or function, with decorators that mean nothing here */
  run("    @whatever(3)\n"
      "    def values(out):\n"
      "        tl.static_assert(WIDE + 170141183460469231731687303715884105727 == 0)\n"
      "        tl.static_assert(MODE == 'relu')\n"
      "        tl.static_assert(H == tl.float16 and TABLE['k'] == tl.pointer_type(tl.float16))\n"
      "        tl.static_assert(RED != BLUE and RED == RED and BLUE.value == 2 and RED.name == 'RED')\n"
      "        tl.static_assert(NOTHING is None)\n"
      "        tl.static_assert(P.right[1] == 7.5 and P[0] == 5)\n"
      "        q = Pair(1, 2)\n"
      "        put(out, N)\n"
      "        put(out + 1, P.left + P.right[0])\n"
      "        put(out + 2, largest(q.left, q.right))\n",
      answers, out);
  assert_int_equal(out[0], 41);
  assert_int_equal(out[1], 11);
  assert_int_equal(out[2], 2);
}

/* ---- functions and modules --------------------------------------------------------------------------------------- */

static void helper(nereid_value *v) {
  set_source(v, "@triton.jit\ndef helper(x, y=DEFAULT):\n    return inner(x) * FACTOR + y\n", NEREID_SOURCE_JIT,
             "helper");
}
static void inner(nereid_value *v) {
  set_source(v, "def inner(x):\n    return x + FACTOR\n", NEREID_SOURCE_JIT, "inner");
}
static void three(nereid_value *v) { nereid_value_set_int(v, 3), nereid_value_mark_constexpr(v); }
static void ten(nereid_value *v) { nereid_value_set_int(v, 10), nereid_value_mark_constexpr(v); }
static void halve(nereid_value *v) {
  set_source(v, "def halve(n):\n    return n // TWO\n", NEREID_SOURCE_CONSTEXPR, "halve");
}
static void two(nereid_value *v) { nereid_value_set_int(v, 2); }
static void module(nereid_value *v) { nereid_value_set_module(v, "config", (void *)"config"); }
static void deeper(nereid_value *v) { nereid_value_set_module(v, "config.deeper", (void *)"deeper"); }
static void sum(nereid_value *v) { nereid_value_set_constexpr_function(v, "sum", (void *)"sum"); }
static void kind(nereid_value *v) { nereid_value_set_constexpr_function(v, "kind", (void *)"kind"); }
static void annotation(nereid_value *v) { nereid_value_set_str(v, "*i64", 4); }

static void test_functions(void **state) {
  (void)state;
  static const Answer answers[] = {{NEREID_ASK_NAME, "kernel", "helper", helper},
                                   {NEREID_ASK_NAME, "helper", "inner", inner},
                                   {NEREID_ASK_NAME, "helper", "FACTOR", three}, /* each has its own FACTOR */
                                   {NEREID_ASK_NAME, "inner", "FACTOR", ten},
                                   {NEREID_ASK_DEFAULT, "helper", "y", ten},
                                   {NEREID_ASK_NAME, "kernel", "halve", halve},
                                   {NEREID_ASK_NAME, "halve", "TWO", two},
                                   {NEREID_ASK_NAME, "kernel", "config", module},
                                   {NEREID_ASK_ATTRIBUTE, "config", "deeper", deeper},
                                   {NEREID_ASK_ATTRIBUTE, "deeper", "THREE", three},
                                   {NEREID_ASK_ATTRIBUTE, "deeper", "sum", sum},
                                   {NEREID_ASK_ATTRIBUTE, "deeper", "kind", kind},
                                   {NEREID_ASK_ANNOTATION, "kernel", "out", annotation},
                                   {0}};
  int64_t out[8] = {0};
  run("def functions(out):\n"
      "    tl.store(out, helper(4))\n" /* (4 + 10) * 3 + 10 */
      "    tl.store(out + 1, halve(9))\n"
      "    tl.store(out + 2, config.deeper.THREE + config.deeper.sum(1, (2, 3), more=4))\n"
      "    x = tl.load(out)[None] + tl.zeros((8,), tl.int64)\n"
      "    tl.static_assert(config.deeper.kind(x, tl.float16, s='a') == '12:int64: 5:fp16: 4:a:s ')\n",
      answers, out);
  assert_int_equal(out[0], 52);
  assert_int_equal(out[1], 4);
  assert_int_equal(out[2], 13);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void other(nereid_value *v) { nereid_value_set_other(v, "function foo"); }
static void object(nereid_value *v) { nereid_value_set_object(v, "class 'Settings'", (void *)"Settings"); }
static void failing(nereid_value *v) { nereid_value_set_error(v, "RuntimeError: no GPU"); }
static void nothing(nereid_value *v) { (void)v; }
static void huge(nereid_value *v) { nereid_value_set_tuple(v, 2000000000); }
static void endless(nereid_value *v) {
  while (v) nereid_value_set_tuple(v, 1), v = nereid_value_item(v, 0);
}
static void wide(nereid_value *v) {
  nereid_value_set_tuple(v, 1000);
  for (int i = 0; i < 1000; i++) {
    nereid_value_set_tuple(nereid_value_item(v, i), 1001);
    for (int k = 0; k < 1001; k++) nereid_value_set_none(nereid_value_item(nereid_value_item(v, i), k));
  }
}
static void no_text(nereid_value *v) { nereid_value_set_str(v, NULL, 3); }
static void no_type(nereid_value *v) { nereid_value_set_type(v, "float17"); }
static void no_digits(nereid_value *v) { nereid_value_set_int_text(v, "12x"); }
static void no_object(nereid_value *v) { nereid_value_set_module(v, "m", NULL); }
static void bad_syntax(nereid_value *v) { set_source(v, "def g(x):\n    return x +\n", NEREID_SOURCE_JIT, "g"); }
static void no_def(nereid_value *v) { set_source(v, "x = 3\n", NEREID_SOURCE_JIT, "g"); }
static void far_down(nereid_value *v) {
  nereid_source s = source_of("def g(x):\n    return x\n", NEREID_SOURCE_JIT, "g");
  s.line = INT32_MAX;
  nereid_value_set_source(v, &s);
}
static void no_size(nereid_value *v) {
  nereid_source s = source_of("def g(x):\n    return x\n", NEREID_SOURCE_JIT, "g");
  s.size = 0;
  nereid_value_set_source(v, &s);
}
static void a_file(nereid_value *v) { set_source(v, "x = 3\n", NEREID_SOURCE_FILE, "g"); }
static void ping(nereid_value *v) { set_source(v, "def ping(x):\n    return pong(x)\n", NEREID_SOURCE_JIT, "ping"); }
static void pong(nereid_value *v) { set_source(v, "def pong(x):\n    return ping(x)\n", NEREID_SOURCE_JIT, "pong"); }
static void broken(nereid_value *v) { nereid_value_set_constexpr_function(v, "broken", (void *)"fails"); }

static void test_errors(void **state) {
  (void)state;
  const struct {
    void (*give)(nereid_value *v);
    const char *message;
  } cases[] = {
      {plain_int, "user.py:101:19: error: Cannot access global variable X from within @jit'ed function"},
      {object, "Cannot access global variable X from within @jit'ed function: it is class 'Settings'"},
      {other, "`X` comes from something that is not known here: function foo"},
      {failing, "user.py:101:5: error: `X`: RuntimeError: no GPU"},
      {nothing, "`X`: the host knows it, but has not said what it is"},
      {huge, "`X`: the host gave a value of more than a million parts"},
      {wide, "`X`: the host gave a value of more than a million parts"},
      {endless, "`X`: the host gave a value that is nested too deeply"},
      {no_text, "`X`: the host gave NULL for a text"},
      {no_type, "`X`: there is no type 'float17'"},
      {no_digits, "`X`: the host gave an int that is no number"},
      {no_object, "`X`: the host gave NULL for an object"},
      {bad_syntax, "user.py:101:"},
      {no_def, "user.py: its text has no def"},
      {far_down, "its line and its text are larger than a file may be"},
      {no_size, "`X`: the host gave a source whose `size` is not its size"},
      {a_file, "`X`: the host gave a source that is no function and no class"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Answer answers[] = {{NEREID_ASK_NAME, "kernel", "X", cases[i].give}, {0}};
    fails("def k(out):\n    tl.store(out, X)\n", answers, NEREID_BAD_SOURCE, cases[i].message);
  }
  fails("def k(out):\n    tl.store(out, X)\n", NULL, NEREID_BAD_SOURCE, "user.py:101:19: error: X is not defined");
  static const Answer cycle[] = {{NEREID_ASK_NAME, "kernel", "ping", ping},
                                 {NEREID_ASK_NAME, "ping", "pong", pong},
                                 {NEREID_ASK_NAME, "pong", "ping", ping},
                                 {0}};
  fails("def k(out):\n    tl.store(out, ping(1))\n", cycle, NEREID_BAD_SOURCE, "recursion: ping calls itself");
  static const Answer call_fails[] = {{NEREID_ASK_NAME, "kernel", "broken", broken}, {0}};
  fails("def k(out):\n    tl.store(out, broken(1))\n", call_fails, NEREID_BAD_SOURCE, "`broken`: the call failed");
  static const Answer no_attribute[] = {{NEREID_ASK_NAME, "kernel", "config", module}, {0}};
  fails("def k(out):\n    tl.store(out, config.N)\n", no_attribute, NEREID_BAD_SOURCE, "user.py:101:19: error: ");
  fails("x = 3\n", NULL, NEREID_BAD_SOURCE, "user.py: its text has no def");
}

static void test_allowed_globals(void **state) {
  (void)state;
  static const Answer answers[] = {{NEREID_ASK_NAME, "kernel", "X", plain_int}, {0}};
  Table t = {answers, 0};
  nereid_source s = source_of("def k(out):\n    tl.store(out, X)\n", NEREID_SOURCE_JIT, "kernel");
  nereid_host h = host_of(&t);
  h.allow_globals = true;
  nereid_module *m = NULL;
  int64_t out[8] = {0};
  assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_OK);
  assert_int_equal(launch(m, out), NEREID_OK);
  assert_int_equal(out[0], 41);
  nereid_module_free(m);
  setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1", 1);
  out[0] = 0;
  run("def k(out):\n    tl.store(out, X)\n", answers, out);
  unsetenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS");
  assert_int_equal(out[0], 41);
}

/* ---- names that change ------------------------------------------------------------------------------------------- */

static int64_t current;
static void current_value(nereid_value *v) {
  nereid_value_set_int(v, current);
  nereid_value_mark_constexpr(v);
}

static void test_changes(void **state) {
  (void)state;
  static const Answer answers[] = {{NEREID_ASK_NAME, "kernel", "X", current_value}, {0}};
  Table t = {answers, 0};
  nereid_module *m = load("def k(out):\n    tl.store(out, X)\n", &t);
  int64_t out[8] = {0};
  for (current = 1; current < 4; current++) {
    assert_int_equal(launch(m, out), NEREID_OK);
    assert_int_equal(out[0], current);
  }
  nereid_module_free(m);
  /* a host that says its names do not change is asked once */
  nereid_source s = source_of("def k(out):\n    tl.store(out, X)\n", NEREID_SOURCE_JIT, "kernel");
  nereid_host h = host_of(&t);
  h.unchanging = true;
  current = 1;
  assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_OK);
  assert_int_equal(launch(m, out), NEREID_OK);
  int asked = t.asked;
  current = 2;
  assert_int_equal(launch(m, out), NEREID_OK);
  assert_int_equal(out[0], 1);
  assert_int_equal(t.asked, asked);
  nereid_module_free(m);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_file(void **state) {
  (void)state;
  static const Answer answers[] = {{NEREID_ASK_NAME, "file", "N", ten}, {NEREID_ASK_NAME, "file", "width", three}, {0}};
  static const char text[] = "import triton\nimport triton.language as tl\nN = tl.constexpr(1)\nM = tl.constexpr(2)\n"
                             "def make(width):\n"
                             "    @triton.jit\n"
                             "    def k(out):\n        tl.store(out, N * 100 + M * 10 + width)\n";
  Table t = {answers, 0};
  nereid_source s = source_of(text, NEREID_SOURCE_FILE, "file");
  s.line = 0;
  nereid_host h = host_of(&t);
  nereid_module *m = NULL;
  int64_t out[8] = {0};
  assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_OK);
  assert_int_equal(launch(m, out), NEREID_OK);
  assert_int_equal(out[0], 1023); /* N and the closure's width are the host's, M the file's */
  nereid_module_free(m);
}

static void expression(nereid_value *v) {
  nereid_value_set_expression(v, "(M * 2, tl.float16)");
  nereid_value_mark_constexpr(v);
}
static void endless_expression(nereid_value *v) { nereid_value_set_expression(v, "P + 1"); }
static void bad_expression(nereid_value *v) { nereid_value_set_expression(v, "1 +"); }

static void test_expressions(void **state) {
  (void)state;
  static const struct {
    void (*give)(nereid_value *v);
    const char *error;
  } cases[] = {
      {expression, NULL}, {endless_expression, "`P`, which is still being defined"}, {bad_expression, "<P>:1:"}};
  for (int i = 0; i < 3; i++) {
    const Answer answers[] = {{NEREID_ASK_NAME, "file", "P", cases[i].give}, {0}};
    static const char text[] = "import triton\nimport triton.language as tl\nM = tl.constexpr(4)\n"
                               "@triton.jit\ndef k(out):\n"
                               "    tl.static_assert(P[1] == tl.float16)\n    tl.store(out, P[0])\n";
    Table t = {answers, 0};
    nereid_source s = source_of(text, NEREID_SOURCE_FILE, "file");
    nereid_host h = host_of(&t);
    nereid_module *m = NULL;
    int64_t out[8] = {0};
    assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_OK);
    nereid_status status = launch(m, out);
    assert_int_equal(status, cases[i].error ? NEREID_BAD_SOURCE : NEREID_OK);
    if (!status) assert_int_equal(out[0], 8);
    else if (!strstr(nereid_error_text(error), cases[i].error)) fail_msg("%s", nereid_error_text(error));
    nereid_error_free(error);
    error = NULL;
    nereid_module_free(m);
  }
}

/* A source without a text: its definition is looked for in the file, by its name and the line where it was. */
static char path_of_text[] = "/tmp/nereid-names-XXXXXX";
static int line_of_inner;

static void give_inner(nereid_value *v) {
  nereid_source s = {.size = sizeof s, .kind = NEREID_SOURCE_JIT, .path = path_of_text, .name = "inner"};
  s.line = line_of_inner;
  s.scope = (void *)"inner";
  nereid_value_set_source(v, &s);
}

static void give_nameless(nereid_value *v) {
  nereid_source s = {.size = sizeof s, .kind = NEREID_SOURCE_JIT, .path = path_of_text};
  nereid_value_set_source(v, &s);
}

static void test_text_of_a_file(void **state) {
  (void)state;
  static const char text[] = "import triton.language as tl\nOWN = tl.constexpr(100)\n"
                             "def first():\n    @jit\n    def inner():\n        return OWN + 1\n"
                             "if unknown:\n    def inner():\n        return OWN + GIVEN\n"
                             "class Other:\n    @jit\n    def k(out):\n        tl.store(out, f())\n";
  int fd = mkstemp(path_of_text);
  assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
  close(fd);
  const Answer answers[] = {
      {NEREID_ASK_NAME, "kernel", "f", give_inner}, {NEREID_ASK_NAME, "inner", "GIVEN", ten}, {0}};
  const Answer nameless[] = {{NEREID_ASK_NAME, "kernel", "f", give_nameless}, {0}};
  static const struct {
    int line;
    int64_t want;
  } cases[] = {{4, 101}, {1, 101}, {8, 110}, {7, 110}, {1000, 110}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases + 3; i++) {
    bool good = i < sizeof cases / sizeof *cases;
    Table t = {i == sizeof cases / sizeof *cases ? nameless : answers, 0};
    nereid_source s = source_of("", NEREID_SOURCE_JIT, "kernel");
    nereid_host h = host_of(&t);
    nereid_module *m = NULL;
    int64_t out[8] = {0};
    s.text = NULL, s.path = path_of_text;
    s.name = i == sizeof cases / sizeof *cases + 1 ? "absent" : i > sizeof cases / sizeof *cases + 1 ? NULL : "k";
    line_of_inner = good ? cases[i].line : 0;
    nereid_status status = nereid_module_load_source(&s, &h, &m, &error);
    if (!status) status = launch(m, out);
    if (good && status) fail_msg("%s", nereid_error_text(error));
    if (good) assert_int_equal(out[0], cases[i].want);
    else assert_int_equal(status, s.name ? NEREID_BAD_SOURCE : NEREID_BAD_ARGUMENT);
    nereid_error_free(error);
    error = NULL;
    nereid_module_free(m);
  }
  unlink(path_of_text);
}

static void test_bad_calls(void **state) {
  (void)state;
  Table t = {0};
  nereid_source s = source_of("def k(out):\n    pass\n", NEREID_SOURCE_JIT, "kernel");
  nereid_host h = host_of(&t);
  nereid_module *m = NULL;
  assert_int_equal(nereid_module_load_source(NULL, &h, &m, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_module_load_source(&s, NULL, &m, NULL), NEREID_BAD_ARGUMENT);
  assert_int_equal(nereid_module_load_source(&s, &h, NULL, NULL), NEREID_BAD_ARGUMENT);
  s.size = 0;
  assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_BAD_ARGUMENT);
  s = source_of("class K:\n    pass\n", NEREID_SOURCE_CLASS, "kernel");
  assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_BAD_ARGUMENT);
  s = source_of("def k(out):\n    pass\n", NEREID_SOURCE_JIT, "kernel");
  h.ask = NULL;
  assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_BAD_ARGUMENT);
  /* a program that was built when the structs ended earlier */
  h = host_of(&t);
  h.size = offsetof(nereid_host, unchanging);
  h.unchanging = h.allow_globals = true;
  s.size = offsetof(nereid_source, noinline);
  s.do_not_specialize_count = 77;
  assert_int_equal(nereid_module_load_source(&s, &h, &m, NULL), NEREID_OK);
  nereid_module_free(m);
  /* outside of a callback there is nothing to fill in */
  nereid_value_set_int(NULL, 3);
  assert_null(nereid_value_item(NULL, 0));
  assert_int_equal(nereid_value_get_int(NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),          cmocka_unit_test(test_functions),      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_allowed_globals), cmocka_unit_test(test_changes),        cmocka_unit_test(test_file),
      cmocka_unit_test(test_expressions),     cmocka_unit_test(test_text_of_a_file), cmocka_unit_test(test_bad_calls)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
