/* Regions of kernels: what a source's markers mean, what is said of wrong ones, and what an instrumented kernel records
 * on the devices of every machine. */
#include "prof/record/trace.h" /* before cmocka, whose `fail` is a macro */

#include <unistd.h>

#include "unit/runtime/runtime_kit.h"

static const char head[] = "import triton\n"
                           "import triton.language as tl\n"
                           "import triton.profiler.language as pl\n"
                           "\n"
                           "@triton.jit\n"
                           "def k(x, out, n, B: tl.constexpr):\n";
static const char tail[] = "\n";

static nereid_module *module_of(const char *body) {
  char text[4096];
  snprintf(text, sizeof text, "%s%s%s", head, body, tail);
  nereid_module *m = NULL;
  assert_ok(nereid_module_load_string("k.py", text, &m, &error));
  return m;
}

/* ---- what markers mean: the operations of the front end's IR in a row, as "begin a, load, end a" ----------------- */

static nereid_status inspect(const char *body, int inside, const char *stage, char **text, nereid_error **error) {
  static float data[256];
  nereid_module *m = module_of(body);
  nereid_arg args[] = {nereid_pointer(data, NEREID_F32), nereid_pointer(data, NEREID_F32), nereid_int(100),
                       nereid_constexpr_int(32)};
  nereid_options o = {.instrument = inside};
  nereid_status status = nereid_inspect(m, "k", args, 4, &o, stage, NULL, text, error);
  nereid_module_free(m);
  return status;
}

static void outline(char *out, size_t size, const char *text) {
  static const char *const shown[] = {"load ", "store ",  "for ", "if ",       "while ",
                                      "yield", "reduce ", "dot ", "condition "};
  size_t n = 0;
  *out = 0;
  for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    int length = (int)strcspn(line, "\n");
    char one[400];
    snprintf(one, sizeof one, "%.*s", length, line);
    const char *scope = strstr(one, "scope {"), *name = strstr(one, "text=\"");
    const char *what = strstr(one, " = ") ? strstr(one, " = ") + 3 : one + strspn(one, " ");
    if (scope && name)
      n += (size_t)snprintf(out + n, size - n, "%s%s %.*s", n ? ", " : "", strstr(one, "end=1") ? "end" : "begin",
                            (int)strcspn(name + 6, "\""), name + 6);
    else if (*what == '}') n += (size_t)snprintf(out + n, size - n, "%s", strstr(what, "do") ? ", else" : "");
    for (size_t i = 0; !scope && i < sizeof shown / sizeof *shown; i++)
      if (!strncmp(what, shown[i], strlen(shown[i])))
        n += (size_t)snprintf(out + n, size - n, "%s%.*s", n ? ", " : "", (int)strcspn(shown[i], " "), shown[i]);
  }
}

static void means(const char *body, int inside, const char *want) {
  char *text = NULL, got[2000];
  assert_ok(inspect(body, inside, "tile-raw", &text, &error));
  outline(got, sizeof got, text);
  assert_string_equal(got, want);
  free(text);
}

#define LOAD "    a = tl.load(x + tl.arange(0, B))\n"
#define STORE "    tl.store(out + tl.arange(0, B), a)\n"

static void test_begin_end(void **state) {
  const char *body = "    # nereid: begin load\n" LOAD
                     "    # nereid: end load\n    #nereid:   begin   store it \n" STORE "    # nereid: end\n";
  means(body, NEREID_INSTRUMENT_DEFAULT, "begin load, load, end load, begin store it, store, end store it");
  means(body, NEREID_INSTRUMENT_BOTH, "begin load, load, end load, begin store it, store, end store it");
  means(body, NEREID_INSTRUMENT_OFF, "load, store");
  means(body, NEREID_INSTRUMENT_AUTOMATIC, "load, store");
  means("    # nereid: begin all\n    # nereid: begin load\n" LOAD "    # nereid: end load\n" STORE
        "    # nereid: end all\n",
        NEREID_INSTRUMENT_MARKED, "begin all, begin load, load, end load, store, end all");
}

static void test_scope(void **state) {
  means("    # nereid: scope load\n" LOAD STORE, NEREID_INSTRUMENT_MARKED, "begin load, load, end load, store");
  means(LOAD "    tl.store(out + tl.arange(0, B), a)  # nereid: scope store\n", NEREID_INSTRUMENT_MARKED,
        "load, begin store, store, end store");
  means("    # nereid: scope outer\n    # nereid: scope inner\n" LOAD STORE, NEREID_INSTRUMENT_MARKED,
        "begin outer, begin inner, load, end inner, end outer, store");
  means("    a = tl.load(\n        x + tl.arange(0, B))  # nereid: scope load\n" STORE, NEREID_INSTRUMENT_MARKED,
        "begin load, load, end load, store");
  means("    # nereid: scope loop\n    for i in range(n):\n        # nereid: scope turn\n        tl.store(out + i, "
        "1.0)\n",
        NEREID_INSTRUMENT_MARKED, "begin loop, for, begin turn, store, end turn, yield, end loop");
  means("    for i in range(n):\n        # nereid: begin a\n        tl.store(out + i, 1.0)\n        # nereid: end a\n  "
        "  # nereid: scope b\n    tl.store(out, 2.0)\n",
        NEREID_INSTRUMENT_MARKED, "for, begin a, store, end a, yield, begin b, store, end b");
  means("    # nereid: scope s\n    for i in tl.static_range(2):\n        tl.store(out + i, 1.0)  # nereid: scope t\n",
        NEREID_INSTRUMENT_MARKED, "begin s, begin t, store, end t, begin t, store, end t, end s");
}

/* The comment between a branch's bodies belongs to the one that it stands in. */
static void test_branches(void **state) {
  means("    if n > 3:\n        # nereid: begin then\n        tl.store(out, 1.0)\n        # nereid: end then\n    "
        "else:\n        # nereid: scope else\n        tl.store(out, 2.0)\n",
        NEREID_INSTRUMENT_MARKED, "if, begin then, store, end then, yield, else, begin else, store, end else, yield");
  means("    if n > 3:\n        tl.store(out, 1.0)\n    elif n > 2:\n        # nereid: scope second\n        "
        "tl.store(out, 2.0)\n",
        NEREID_INSTRUMENT_MARKED,
        "if, store, yield, else, if, begin second, store, end second, yield, else, yield, yield");
  /* What follows a return moves into the other branch, with its marks. */
  means("    # nereid: begin all\n    if n > 3:\n        return\n    # nereid: begin rest\n    tl.store(out, 1.0)\n    "
        "# nereid: end rest\n    # nereid: end all\n",
        NEREID_INSTRUMENT_MARKED, "begin all, if, yield, else, begin rest, store, end rest, end all, yield");
  means("    # nereid: scope all\n    if n > 3:\n        return\n", NEREID_INSTRUMENT_MARKED,
        "begin all, if, yield, else, end all, yield");
}

static void test_helpers(void **state) {
  static const char text[] =
      "import triton\nimport triton.language as tl\n\n"
      "@triton.jit\ndef helper(out, c: tl.constexpr):\n    # nereid: begin inner\n    if c:\n        return\n    "
      "tl.store(out, 1.0)\n    # nereid: end inner\n\n"
      "@triton.jit\ndef k(out):\n    helper(out, False)\n    helper(out, True)  # nereid: scope call\n";
  nereid_module *m = NULL;
  assert_ok(nereid_module_load_string("k.py", text, &m, &error));
  char *ir = NULL, got[1000];
  nereid_arg args[] = {nereid_pointer(NULL, NEREID_F32)};
  nereid_options o = {.instrument = NEREID_INSTRUMENT_MARKED};
  assert_ok(nereid_inspect(m, "k", args, 1, &o, "tile-raw", NULL, &ir, &error));
  outline(got, sizeof got, ir);
  assert_string_equal(got, "begin inner, store, end inner, begin call, begin inner, end inner, end call");
  free(ir);
  nereid_module_free(m);
}

static void test_proton(void **state) {
  const char *body =
      "    pl.enter_scope('load')\n" LOAD
      "    pl.exit_scope('load')\n    with pl.scope('store'):\n        tl.store(out + tl.arange(0, B), a)\n";
  means(body, NEREID_INSTRUMENT_MARKED, "begin load, load, end load, begin store, store, end store");
  means(body, NEREID_INSTRUMENT_OFF, "load, store");
}

/* ---- what is said of wrong ones, and only when somebody asks ----------------------------------------------------- */

static void wrong(const char *body, const char *want) {
  char *text = NULL;
  assert_error(inspect(body, NEREID_INSTRUMENT_DEFAULT, "tile-raw", &text, &error), NEREID_BAD_SOURCE, want);
  assert_ok(inspect(body, NEREID_INSTRUMENT_OFF, "tile-raw", &text, &error));
  free(text);
}

static void test_wrong_markers(void **state) {
  wrong("    # nereid: end load\n" LOAD STORE,
        "k.py:7:5: error: this ends the region load, which does not begin above it in its block\n"
        "      # nereid: end load\n      ^~~~~~~~~~~~~~~~~~\n  hint: begin and end of a region stand in one block\n");
  wrong("    # nereid: begin load\n" LOAD STORE,
        "k.py:7:5: error: the region load does not end in its block\n      # nereid: begin load\n      "
        "^~~~~~~~~~~~~~~~~~~~\n"
        "  hint: put `# nereid: end load` after what it is to hold, in the same block\n");
  wrong("    # nereid: begin a\n    # nereid: begin b\n" LOAD "    # nereid: end a\n    # nereid: end b\n" STORE,
        "k.py:10:5: error: this ends the region a, but b, which began in line 8, is still open\n      # nereid: end "
        "a\n      ^~~~~~~~~~~~~~~\n"
        "  hint: regions nest: the last one that began ends first\n");
  wrong("    # nereid: begin a\n    for i in range(n):\n        tl.store(out + i, 1.0)\n        # nereid: end a\n",
        "k.py:7:5: error: the region a does not end in its block\n      # nereid: begin a\n      ^~~~~~~~~~~~~~~~~\n"
        "  hint: put `# nereid: end a` after what it is to hold, in the same block\n");
  wrong("    # nereid: beginn load\n" LOAD STORE,
        "k.py:7:5: error: the marker `beginn` is not known\n      # nereid: beginn load\n      ^~~~~~~~~~~~~~~~~~~~~\n"
        "  hint: there are `# nereid: begin NAME`, `# nereid: end NAME` and `# nereid: scope NAME`\n");
  wrong("    # nereid: scope\n" LOAD STORE,
        "k.py:7:5: error: this marker names no region\n      # nereid: scope\n      ^~~~~~~~~~~~~~~\n"
        "  hint: write `# nereid: scope NAME`\n");
  wrong(LOAD STORE "    # nereid: scope nothing\n", "k.py:9:5: error: no statement follows this marker in its block\n  "
                                                    "    # nereid: scope nothing\n      ^~~~~~~~~~~~~~~~~~~~~~~\n"
                                                    "  hint: put it above a statement\n");
  wrong("    a = tl.load(x + tl.arange(0, B))  # nereid: begin load\n" STORE,
        "k.py:7:39: error: this marker must stand on a line of its own\n      a = tl.load(x + tl.arange(0, B))  # "
        "nereid: begin load\n                                        ^~~~~~~~~~~~~~~~~~~~\n"
        "  hint: `# nereid: scope NAME` may stand after a statement, and means it\n");
  wrong(LOAD "      # nereid: scope deeper\n" STORE,
        "k.py:8:7: error: this marker stands between no statements of the kernel\n        # nereid: scope deeper\n     "
        "   ^~~~~~~~~~~~~~~~~~~~~~\n"
        "  hint: give it the indentation of the statements around it\n");
  wrong(LOAD STORE "# nereid: scope outside\n", "k.py:9:1: error: this marker stands outside of a function\n  # "
                                                "nereid: scope outside\n  ^~~~~~~~~~~~~~~~~~~~~~~\n"
                                                "  hint: move it into the body of the kernel\n");
  wrong("    pl.enter_scope('load')\n" LOAD STORE,
        "k.py:7:5: error: the region load is still open where the function ends\n      pl.enter_scope('load')\n      "
        "^~~~~~~~~~~~~~~~~~~~~~\n"
        "  hint: leave it on every way through the function that enters it\n");
  wrong("    pl.exit_scope('load')\n" LOAD STORE, "k.py:7:5: error: this ends the region load, which is not open\n     "
                                                  " pl.exit_scope('load')\n      ^~~~~~~~~~~~~~~~~~~~~\n"
                                                  "  hint: enter it first\n");
  wrong("    pl.enter_scope('a')\n    with pl.scope('b'):\n        pl.exit_scope('a')\n" LOAD STORE,
        "k.py:9:9: error: this ends the region a, but b, which began in line 8, is still open\n          "
        "pl.exit_scope('a')\n          ^~~~~~~~~~~~~~~~~~\n"
        "  hint: regions nest: the last one that began ends first\n");
}

/* A string that looks like a marker is none. */
static void test_no_markers(void **state) {
  means("    '''\n    # nereid: begin load\n    '''\n" LOAD STORE "    # a nereid: begin\n    # nereid is a moon\n",
        NEREID_INSTRUMENT_DEFAULT, "load, store");
  static float data[256];
  nereid_module *m = module_of(LOAD STORE);
  nereid_device *d = kit_device("interp");
  nereid_arg args[] = {nereid_pointer(data, NEREID_F32), nereid_pointer(data, NEREID_F32), nereid_int(100),
                       nereid_constexpr_int(32)};
  nereid_instrument *in = NULL;
  nereid_instrument_options o = {.regions = NEREID_INSTRUMENT_MARKED};
  assert_error(nereid_instrument_run(d, m, "k", (int64_t[]){1, 1, 1}, args, 4, NULL, &o, &in, &error),
               NEREID_BAD_SOURCE,
               "error: kernel 'k' marks no regions\n"
               "  hint: put lines `# nereid: begin NAME` and `# nereid: end NAME` around what is to be timed, or ask "
               "for automatic regions\n");
  nereid_device_close(d);
  nereid_module_free(m);
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

static const char rows[] = "    row = tl.program_id(0)\n"
                           "    top = tl.full([B], 0, tl.float32)\n"
                           "    # nereid: begin pass\n"
                           "    for start in range(0, n, B):\n"
                           "        # nereid: begin load\n"
                           "        a = tl.load(x + row * n + start + tl.arange(0, B))\n"
                           "        # nereid: end load\n"
                           "        top = top + a\n"
                           "    # nereid: end pass\n"
                           "    # nereid: scope total\n"
                           "    tl.store(out + row, tl.sum(top, axis=0))\n";

enum { ROWS = 6, TURNS = 5, B = 32 };

typedef struct Run {
  nereid_device *d;
  nereid_module *m;
  void *x, *out;
  nereid_arg args[4];
} Run;

static Run *start(const char *device, const char *body) {
  Run *r = calloc(1, sizeof *r);
  float x[ROWS * TURNS * B];
  for (int i = 0; i < ROWS * TURNS * B; i++) x[i] = (float)(i % 7);
  r->d = kit_device(device);
  r->m = module_of(body);
  assert_ok(nereid_alloc(r->d, sizeof x, &r->x, &error));
  assert_ok(nereid_alloc(r->d, sizeof(float) * ROWS, &r->out, &error));
  assert_ok(nereid_copy_to_device(r->d, r->x, x, sizeof x, &error));
  nereid_arg args[] = {nereid_pointer(r->x, NEREID_F32), nereid_pointer(r->out, NEREID_F32), nereid_int(TURNS * B),
                       nereid_constexpr_int(B)};
  memcpy(r->args, args, sizeof args);
  return r;
}

static void stop(Run *r) {
  nereid_free(r->d, r->x);
  nereid_free(r->d, r->out);
  nereid_module_free(r->m);
  nereid_device_close(r->d);
  free(r);
}

static const int64_t grid[3] = {ROWS, 1, 1};

static nereid_instrument *record(Run *r, const nereid_instrument_options *o) {
  nereid_instrument *in = NULL;
  assert_ok(nereid_instrument_run(r->d, r->m, "k", grid, r->args, 4, NULL, o, &in, &error));
  return in;
}

static const nereid_instrument_region *region(const nereid_instrument *in, const char *name) {
  const nereid_instrument_region *r;
  for (int64_t i = 0; (r = nereid_instrument_region_at(in, i)); i++)
    if (!strcmp(r->name, name)) return r;
  fail_msg("no region %s", name);
  return NULL;
}

static void close_to(double got, double want) {
  if (got < want - 1e-6 * want || got > want + 1e-6 * want) fail_msg("%g, not %g", got, want);
}

static const char *const devices[] = {"interp", "cpu:2", "sim"};

static void test_counts(void **state) {
  for (int i = 0; i < 3; i++) {
    Run *r = start(devices[i], rows);
    int warps = i == 2 ? 4 : 1;
    nereid_instrument *in =
        record(r, &(nereid_instrument_options){.blocks = (int64_t[]){4, 1, 4}, .block_count = 3, .trials = -1});
    nereid_instrument_info info;
    nereid_instrument_get_info(in, &info);
    assert_string_equal(info.kernel, "k");
    assert_string_equal(info.device, devices[i]);
    assert_string_equal(info.unit, i == 1 ? "ns" : "operations");
    assert_int_equal(info.warps, warps);
    assert_int_equal(info.blocks, 2);
    assert_int_equal(info.region_count, 3);
    assert_int_equal(info.lost, 0);
    assert_int_equal(info.cut, 0);
    assert_int_equal(info.records, 2 * warps * 2 * (2 + TURNS));
    assert_int_equal(region(in, "pass")->count, 2 * warps);
    assert_int_equal(region(in, "load")->count, 2 * warps * TURNS);
    assert_int_equal(region(in, "total")->count, 2 * warps);
    assert_int_equal(region(in, "pass")->depth, 0);
    assert_int_equal(region(in, "load")->depth, 1);
    assert_int_equal(region(in, "load")->line, 11);
    assert_false(region(in, "load")->automatic);
    if (i != 1)
      assert_true(region(in, "load")->mean > 0 && region(in, "pass")->share < 1 &&
                  region(in, "pass")->share > region(in, "load")->share);
    nereid_instrument_free(in);
    float out[ROWS];
    assert_ok(nereid_copy_to_host(r->d, out, r->out, sizeof out, &error));
    for (int k = 0; k < ROWS; k++) {
      float want = 0;
      for (int c = 0; c < TURNS * B; c++) want += (float)((k * TURNS * B + c) % 7);
      assert_true(out[k] == want);
    }
    stop(r);
  }
}

/* A block that does the work of two has their warps, and room for the records of each. */
static void test_ctas(void **state) {
  Run *r = start("sim", rows);
  nereid_options options = {.num_ctas = 2};
  nereid_instrument *in = NULL;
  nereid_instrument_options o = {.trials = -1};
  assert_ok(nereid_instrument_run(r->d, r->m, "k", grid, r->args, 4, &options, &o, &in, &error));
  nereid_instrument_info info;
  nereid_instrument_get_info(in, &info);
  assert_int_equal(info.warps, 8);
  assert_int_equal(region(in, "load")->count, info.blocks * 8 * TURNS);
  nereid_instrument_free(in);
  stop(r);
}

/* Spans stand warp by warp, outer ones first, and lie within each other. */
static void test_spans(void **state) {
  for (int i = 0; i < 3; i++) {
    Run *r = start(devices[i], rows);
    nereid_instrument *in = record(r, &(nereid_instrument_options){.all_blocks = true, .trials = -1});
    const nereid_instrument_span *s, *open[4] = {0}, *before = NULL;
    int64_t wholes = 0;
    for (int64_t k = 0; (s = nereid_instrument_span_at(in, k)); k++, before = s) {
      assert_true(s->end >= s->start && s->depth < 4);
      assert_int_equal(s->depth == 0, s->region < 0);
      open[s->depth] = s;
      wholes += s->depth == 0;
      if (!s->depth) continue;
      const nereid_instrument_span *around = open[s->depth - 1];
      assert_true(around->start <= s->start && s->end <= around->end && around->warp == s->warp &&
                  around->block == s->block);
      if (before->depth == s->depth) assert_true(before->end <= s->start);
    }
    assert_int_equal(wholes, ROWS * (i == 2 ? 4 : 1));
    nereid_instrument_free(in);
    stop(r);
  }
}

/* Clocks that count are the same each time. */
static void test_repeats(void **state) {
  for (int i = 0; i < 3; i += 2) {
    Run *r = start(devices[i], rows);
    double first = 0;
    for (int k = 0; k < 2; k++) {
      nereid_instrument *in = record(r, NULL);
      nereid_instrument_info info;
      nereid_instrument_get_info(in, &info);
      if (k) close_to(info.warp_max, first);
      first = info.warp_max;
      assert_true(first > 20 && info.plain_ns == 0);
      nereid_instrument_free(in);
    }
    stop(r);
  }
}

/* What lies around a loop is kept when its turns are too many, and what is lost is counted. */
static void test_overflow(void **state) {
  for (int i = 0; i < 3; i++) {
    Run *r = start(devices[i], rows);
    int warps = i == 2 ? 4 : 1;
    /* 64 are for what no loop repeats */
    nereid_instrument *in = record(r, &(nereid_instrument_options){.records = 64 + 6, .trials = -1});
    nereid_instrument_info info;
    nereid_instrument_get_info(in, &info);
    /* the pass's beginning, then 5 of its turns' records; its end, two of the total */
    assert_int_equal(info.records, warps * (6 + 1 + 2));
    assert_int_equal(info.lost, warps * (2 * TURNS - 5));
    assert_int_equal(info.cut, warps);
    assert_int_equal(region(in, "pass")->count, warps);
    assert_int_equal(region(in, "load")->count, warps * 2);
    assert_int_equal(region(in, "total")->count, warps);
    nereid_instrument_free(in);
    stop(r);
  }
}

static void test_automatic(void **state) {
  static const char body[] = "    top = tl.full([4 * B], 0, tl.float32)\n"
                             "    for start in range(0, n, 4 * B):\n"
                             "        top = top + tl.load(x + start + tl.arange(0, 4 * B))\n"
                             "    tl.store(out + tl.program_id(0), tl.sum(top, axis=0))\n";
  for (int i = 0; i < 3; i++) {
    Run *r = start(devices[i], body);
    int warps = i == 2 ? 4 : 1;
    nereid_instrument *in = record(r, &(nereid_instrument_options){.trials = -1});
    nereid_instrument_info info;
    nereid_instrument_get_info(in, &info);
    assert_int_equal(region(in, "loop 8")->count, warps);
    assert_int_equal(region(in, "iteration 8")->count, warps * 2);
    assert_int_equal(region(in, "reduce 10")->count, warps);
    assert_true(region(in, "iteration 8")->automatic);
    if (i == 2) assert_int_equal(region(in, "barrier 10")->depth, 1);
    assert_int_equal(info.region_count, i == 2 ? 4 : 3);
    nereid_instrument_free(in);
    in = record(r, &(nereid_instrument_options){.trials = -1, .regions = NEREID_INSTRUMENT_AUTOMATIC});
    assert_int_equal(region(in, "iteration 8")->count, warps * 2);
    nereid_instrument_free(in);
    stop(r);
  }
}

/* A return within a region: it ends with the program. An assertion ends a thread without a word. */
static void test_early_ends(void **state) {
  static const char body[] = "    # nereid: begin all\n"
                             "    if tl.program_id(0) == 1:\n"
                             "        return\n"
                             "    tl.store(out + tl.program_id(0), 1.0)\n"
                             "    # nereid: end all\n";
  for (int i = 0; i < 3; i++) {
    Run *r = start(devices[i], body);
    nereid_instrument *in = record(r, &(nereid_instrument_options){.all_blocks = true, .trials = -1});
    nereid_instrument_info info;
    nereid_instrument_get_info(in, &info);
    assert_int_equal(info.cut, 0);
    assert_int_equal(region(in, "all")->count, ROWS * info.warps);
    nereid_instrument_free(in);
    stop(r);
  }
}

static void test_wrong_runs(void **state) {
  Run *r = start("sim", rows);
  nereid_instrument *in = NULL;
  nereid_options plain = {.instrument = NEREID_INSTRUMENT_MARKED};
#define RUN(...) \
  nereid_instrument_run(r->d, r->m, "k", grid, r->args, 4, NULL, &(nereid_instrument_options){__VA_ARGS__}, &in, &error)
  assert_error(RUN(.blocks = (int64_t[]){6}, .block_count = 1), NEREID_BAD_ARGUMENT,
               "error: block 6 is to be recorded, but the grid has blocks 0 to 5\n");
  assert_error(RUN(.blocks = (int64_t[]){6}), NEREID_BAD_ARGUMENT,
               "error: no block is to be recorded: block_count is 0\n");
  assert_error(RUN(.records = -4), NEREID_BAD_ARGUMENT,
               "error: room for -4 records a warp; 1 to 16777216 are possible\n");
  assert_error(RUN(.records = 16000000, .all_blocks = true), NEREID_BAD_ARGUMENT,
               "error: 6 blocks of 4 warps with room for 16000000 records each take 3.1 GB; 0.25 GB are possible\n  "
               "hint: record fewer blocks, or give fewer records a warp\n");
  assert_error(nereid_instrument_run(r->d, r->m, "k", (int64_t[]){0, 1, 1}, r->args, 4, NULL, NULL, &in, &error),
               NEREID_BAD_ARGUMENT, "error: the grid (0, 1, 1) has no block to record\n");
  assert_error(nereid_launch(r->d, NULL, r->m, "k", grid, r->args, 4, &plain, &error), NEREID_BAD_ARGUMENT,
               "error: kernel 'k' is instrumented, but options.instrument_buffer, where it records to, is NULL\n"
               "  hint: use nereid_instrument_run, which makes it; or leave options.instrument at zero\n");
  plain.instrument = 17;
  assert_error(nereid_launch(r->d, NULL, r->m, "k", grid, r->args, 4, &plain, &error), NEREID_BAD_ARGUMENT,
               "error: inside is 17, which is no nereid_instrument_regions\n");
  stop(r);
}

static void test_trace(void **state) {
  Run *r = start("sim", rows);
  nereid_instrument *in =
      record(r, &(nereid_instrument_options){.blocks = (int64_t[]){2, 3}, .block_count = 2, .trials = -1});
  char path[] = "/tmp/nereid-test-inside-XXXXXX", buffer[300];
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  assert_ok(nereid_instrument_save(in, path, &error));
  const char *why = NULL;
  TraceReader *t = trace_open(path, &why, buffer);
  assert_non_null(t);
  TraceEvent e;
  int threads = 0, ranges = 0, tops = 0;
  static const char *const names[] = {"block 2 warp 0", "block 2 warp 1", "block 2 warp 2", "block 2 warp 3",
                                      "block 3 warp 0"};
  while (trace_next(t, &e)) {
    if (e.kind == TRACE_THREAD && threads < 5) assert_string_equal(trace_text(t, e.name), names[threads]);
    threads += e.kind == TRACE_THREAD;
    ranges += e.kind == TRACE_RANGE;
    tops += e.kind == TRACE_RANGE && !e.range.parent && !strcmp(trace_text(t, e.name), "k");
  }
  assert_int_equal(threads, 8);
  assert_int_equal(tops, 8);
  assert_int_equal(ranges, 8 * (1 + 1 + TURNS + 1));
  assert_false(trace_truncated(t));
  trace_reader_free(t);
  unlink(path);
  nereid_instrument_free(in);
  stop(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_begin_end),  cmocka_unit_test(test_scope),      cmocka_unit_test(test_branches),
      cmocka_unit_test(test_helpers),    cmocka_unit_test(test_proton),     cmocka_unit_test(test_wrong_markers),
      cmocka_unit_test(test_no_markers), cmocka_unit_test(test_counts),     cmocka_unit_test(test_ctas),
      cmocka_unit_test(test_spans),      cmocka_unit_test(test_repeats),    cmocka_unit_test(test_overflow),
      cmocka_unit_test(test_automatic),  cmocka_unit_test(test_early_ends), cmocka_unit_test(test_wrong_runs),
      cmocka_unit_test(test_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
