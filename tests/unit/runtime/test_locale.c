/* A host that has set a locale whose numbers have a comma: what is compiled, planned, run and kept is the same. */
#include "base/base.h"
#include "base/json.h"
#include "fakes/comma_locale.h"
#include "unit/runtime/runtime_kit.h"

static const char source[] =
    "import triton\n"
    "import triton.language as tl\n"
    "@triton.jit\n"
    "def k(x, out, n, scale=2.5, BLOCK: tl.constexpr = 64):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    a = tl.load(x + i, mask=i < n, other=0.3)\n"
    "    tl.store(out + i, tl.exp(a * 0.1 + 1.5e-7) * scale + tl.math.erf(a * float('0.25')), mask=i < n)\n";
static const char program[] = "import torch\n"
                              "import torch.nn.functional as F\n"
                              "def f(x: \"f32[8, 48]\"):\n"
                              "    y = F.gelu(x * 0.7071067811865476) + float('1.25')\n"
                              "    return F.layer_norm(y, (48,), eps=1e-5).clamp(max=2.5e-1)\n";

static void must(nereid_status status, nereid_error *error) {
  if (status) fail_msg("%s", nereid_error_text(error));
}

static void keep_bits(Buf *b, const float *at, int n) {
  for (int i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &at[i], 4);
    buf_printf(b, "%08x ", (unsigned)bits);
  }
}

static void inspect(Buf *b, nereid_module *m, const nereid_arg *args) {
  static const char *const stages[][2] = {
      {"tile", NULL}, {"layout", "sm_90a"}, {"lane", "sm_90a"}, {"ptx", "sm_90a"}, {"c", NULL}};
  nereid_error *error = NULL;
  for (int i = 0; i < 5; i++) {
    char *text = NULL;
    must(nereid_inspect(m, "k", args, 3, NULL, stages[i][0], stages[i][1], &text, &error), error);
    buf_puts(b, text);
    free(text);
  }
}

static void launch(Buf *b, nereid_module *m, const char *device) {
  enum { N = 100 };
  nereid_device *d = NULL;
  nereid_error *error = NULL;
  void *x = NULL, *out = NULL;
  float from[N], to[N];
  for (int i = 0; i < N; i++) from[i] = (float)i * 0.37f - 9;
  must(nereid_device_open(device, &d, &error), error);
  must(nereid_alloc(d, sizeof from, &x, &error), error);
  must(nereid_alloc(d, sizeof to, &out, &error), error);
  must(nereid_copy_to_device(d, x, from, sizeof from, &error), error);
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_pointer(out, NEREID_F32), nereid_int(N)};
  must(nereid_launch(d, NULL, m, "k", (int64_t[]){2, 1, 1}, args, 3, NULL, &error), error);
  must(nereid_copy_to_host(d, to, out, sizeof to, &error), error);
  keep_bits(b, to, N);
  nereid_free(d, x);
  nereid_free(d, out);
  nereid_device_close(d);
}

static void fuse(Buf *b, const char *path) {
  nereid_fusion *f = NULL;
  nereid_error *error = NULL;
  must(nereid_fuse(path, "f", NULL, 0, NULL, &f, &error), error);
  buf_puts(b, nereid_fusion_text(f, "graph"));
  buf_puts(b, nereid_fusion_text(f, "code"));
  nereid_fusion_free(f);
}

static void numbers_in_json(Buf *b) {
  const char *why = NULL;
  Json *j = json_parse("[0.25, -1.5e-7, 3]", &why);
  if (!j) fail_msg("%s", why);
  JsonWriter w = {.buf = b};
  json_begin_array(&w, NULL);
  for (const Json *e = j->first; e; e = e->next) {
    json_put_real(&w, NULL, 17, e->f);
    json_put_fixed(&w, NULL, 9, e->f);
  }
  json_end_array(&w);
  json_free(j);
}

static char *everything(const char *path) {
  nereid_module *m = NULL;
  nereid_error *error = NULL;
  Buf b = {0};
  must(nereid_module_load_string("k.py", source, &m, &error), error);
  nereid_arg args[] = {nereid_pointer(NULL, NEREID_F32), nereid_pointer(NULL, NEREID_F32), nereid_int(100)};
  inspect(&b, m, args);
  launch(&b, m, "interp");
  launch(&b, m, "sim");
  launch(&b, m, "cpu");
  fuse(&b, path);
  numbers_in_json(&b);
  nereid_module_free(m);
  assert_false(b.failed);
  return b.at;
}

static void the_same_with_commas(void **state) {
  char path[] = "/tmp/nereid-locale-test-XXXXXX.py";
  int file = mkstemps(path, 3);
  assert_true(file >= 0);
  assert_int_equal(write(file, program, strlen(program)), strlen(program));
  close(file);
  char *plain = everything(path), *comma = NULL, host[8];
  if (comma_locale()) comma = everything(path);
  snprintf(host, sizeof host, "%.1f", 1.5);
  setlocale(LC_NUMERIC, "C");
  unlink(path);
  if (comma) {
    size_t at = 0;
    while (plain[at] && plain[at] == comma[at]) at++;
    if (plain[at] || comma[at]) fail_msg("\"%.60s\" is \"%.60s\" there", plain + at, comma + at);
    assert_string_equal(host, "1,5"); /* what the host has set is as it was */
  }
  free(plain);
  if (!comma) skip();
  free(comma);
}

/* An error leaves it as it was, too. */
static void after_an_error(void **state) {
  if (!comma_locale()) skip();
  nereid_module *m = NULL;
  nereid_error *error = NULL;
  char host[8];
  assert_int_not_equal(nereid_module_load_string("k.py", "def f(:\n", &m, &error), NEREID_OK);
  nereid_error_free(error);
  snprintf(host, sizeof host, "%.1f", 1.5);
  setlocale(LC_NUMERIC, "C");
  assert_string_equal(host, "1,5");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_with_commas), cmocka_unit_test(after_an_error)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
