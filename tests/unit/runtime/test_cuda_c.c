/* The cuda device against a driver that is not there (fakes/cuda.c): kernels in CUDA C, their signatures and arguments,
 * and what NVRTC made of them, in memory and on disk. */
#define _GNU_SOURCE
#include "gpu/gpu.h" /* before cmocka, whose `fail` is a macro */

#include "test_cuda_kit.h"

static void assert_param(const nereid_kernel_info *k, int i, const char *name, const char *type) {
  assert_string_equal(k->params[i].name, name);
  assert_string_equal(k->params[i].annotation, type);
}

static void test_signatures(void **state) {
  Fixture *f = *state;
  assert_int_equal(nereid_kernel_count(f->m), 7);
  const nereid_kernel_info *k = nereid_kernel_find(f->m, "add");
  assert_int_equal(k->line, 6);
  assert_int_equal(k->param_count, 4);
  assert_param(k, 0, "x", "const float *");
  assert_param(k, 3, "n", "int");
  k = nereid_kernel_find(f->m, "many");
  assert_int_equal(k->param_count, 17);
  static const char *const types[][2] = {{"c", "char"},
                                         {"sc", "signed char"},
                                         {"uc", "unsigned char *"},
                                         {"arg3", "short"},
                                         {"u", "unsigned"},
                                         {"l", "long"},
                                         {"ull", "unsigned long long int"},
                                         {"h", "HALF"},
                                         {"hp", "const HALF *"},
                                         {"d", "double const &"},
                                         {"v", "float4 *"},
                                         {"pp", "void **"},
                                         {"config", "struct Config"},
                                         {"b", "bool"},
                                         {"m", "int *"},
                                         {"z", "std::size_t"},
                                         {"s", "const char *"}};
  for (int i = 0; i < 17; i++) assert_param(k, i, types[i][0], types[i][1]);
  assert_int_equal(nereid_kernel_find(f->m, "nothing")->param_count, 0);
  assert_null(nereid_kernel_find(f->m, "comment"));
  assert_null(nereid_kernel_find(f->m, "other<float>"));
  const nereid_kernel_info *scale = nereid_kernel_find(f->m, "a::b::scale<__half, 8>");
  assert_non_null(scale);
  assert_ptr_equal(scale, nereid_kernel_find(f->m, "a::b::scale<__half, 8>"));
  assert_param(scale, 0, "x", "const T * __restrict__");
}

static void test_cuda_c_arguments(void **state) {
  Fixture *f = *state;
  f->add[0].dtype = NEREID_F16;
  BAD(LAUNCH("add", f->add, 4),
      "error: parameter 'x' of kernel 'add' is of type const float *, but a pointer to f16 is given\n");
  f->add[0] = nereid_int(3);
  BAD(LAUNCH("add", f->add, 4),
      "error: parameter 'x' of kernel 'add' is of type const float *, but an integer is given\n");
  f->add[0] = f->add[1], f->add[3] = nereid_float(1);
  BAD(LAUNCH("add", f->add, 4), "error: parameter 'n' of kernel 'add' is of type int, but a float is given\n");
  f->add[3] = nereid_int((int64_t)1 << 31);
  BAD(LAUNCH("add", f->add, 4), "error: parameter 'n' of kernel 'add' is 2147483648 which does not fit its type i32\n");
  BAD(LAUNCH("a::b::scale", f->add, 4),
      "error: kernel 'a::b::scale' of k.cu is a template\n  hint: name its arguments too, as in \"k<float, 4>\"\n");
  assert_says(LAUNCH("a::b::scale<float, 1, 2>", f->add, 4), NEREID_BAD_ARGUMENT,
              "the template has fewer parameters than arguments are given");
  assert_says(LAUNCH("a::b::scale<>", f->add, 4), NEREID_BAD_ARGUMENT,
              "the template needs an argument for this parameter");
  BAD(LAUNCH("addd", f->add, 4), "error: k.cu has no kernel 'addd'\n  hint: did you mean 'add'?\n");
  nereid_arg scale[] = {nereid_pointer(f->p[0], NEREID_F16), nereid_pointer(f->p[1], NEREID_F16), nereid_float(0.5),
                        nereid_int((int64_t)1 << 40)};
  assert_ok(LAUNCH("a::b::scale<__half>", scale, 4));
  assert_string_equal(fake->nvrtc_names, "a::b::scale<__half>");
  BAD(LAUNCH("a::b::scale<float>", scale, 4), "error: parameter 'x' of kernel 'a::b::scale<float>' is of type const T "
                                              "* __restrict__, but a pointer to f16 is given\n");
  nereid_arg many[17];
  for (int i = 0; i < 17; i++) many[i] = nereid_int(0);
  static const int pointers[] = {2, 8, 10, 11, 14, 16};
  for (int i = 0; i < 6; i++) many[pointers[i]] = nereid_none();
  BAD(LAUNCH("many", many, 17), "error: parameter 'd' of kernel 'many' is of type double const &, which cannot be "
                                "passed\n  hint: numbers and pointers can be passed; put the rest into memory\n");
  nereid_device *cpu = kit_device("cpu:1");
  assert_error(
      nereid_launch(cpu, NULL, f->m, "quiet", one, (nereid_arg[]){nereid_int(3)}, 1, &f->block, &error),
      NEREID_UNSUPPORTED,
      "error: kernel 'quiet' is CUDA C, which the device cpu:1 does not run\n  hint: open the device \"cuda\"\n");
  nereid_device_close(cpu);
}

static void test_nvrtc_fails(void **state) {
  Fixture *f = *state;
  fake->nvrtc_log = "k.cu(7): error: identifier \"z\" is undefined\n    out[0] = z;\n             ^\n\n1 error "
                    "detected in the compilation of \"k.cu\".\n";
  assert_error(LAUNCH("add", f->add, 4), NEREID_BAD_SOURCE,
               "k.cu:7:1: error: identifier \"z\" is undefined\n    if (n) { out[0] = x[0] + y[0]; }\n  ^\n");
  fake->nvrtc_log = NULL;
  setenv("NEREID_LIBNVRTC", "/nonexistent/libnvrtc.so", 1);
  assert_says(LAUNCH("add", f->add, 4), NEREID_NO_COMPILER,
              "CUDA C needs NVRTC, which was not found: /nonexistent/libnvrtc.so");
  setenv("NEREID_LIBNVRTC", "libm.so.6", 1);
  assert_says(LAUNCH("add", f->add, 4), NEREID_NO_COMPILER,
              "this NVRTC is too old, or none: libm.so.6 has no nvrtcVersion");
  nereid_module *m = NULL;
  assert_says(nereid_module_load_string("bad.cu", "__global__ void k(int a", &m, &error), NEREID_BAD_SOURCE,
              "bad.cu:1:18: error: this bracket is not closed");
  assert_ok(nereid_module_load_string("empty.cu", "", &m, &error));
  assert_int_equal(nereid_kernel_count(m), 0);
  nereid_module_free(m);
}

/* ---- what NVRTC made, on disk ------------------------------------------------------------------------------------ */

static void put_text(const char *folder, const char *name, const char *text) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

/* How often NVRTC is asked when k.cu of the folder is compiled anew, as by another process. */
static int compiles(const char *folder, const char *kernel, bool cached) {
  char path[200];
  snprintf(path, sizeof path, "%s/k.cu", folder);
  nereid_device *d = kit_device("cuda");
  nereid_module *m = NULL;
  nereid_function *fn = NULL;
  int before = fake->nvrtc_compiled;
  assert_ok(nereid_module_load(path, &m, &error));
  assert_ok(
      nereid_compile(d, m, kernel, (nereid_arg[]){nereid_int(1)}, 1, &(nereid_options){.block = {32}}, &fn, &error));
  nereid_function_info info;
  nereid_function_get_info(fn, &info);
  if (info.from_cache != cached) fail_msg("%s: cached: %d", kernel, info.from_cache);
  nereid_function_free(fn);
  nereid_module_free(m);
  nereid_device_close(d);
  assert_int_equal(fake->modules, 0);
  return fake->nvrtc_compiled - before;
}
#define assert_compiled() assert_int_equal(compiles(folder, "k", false), 1)
#define assert_kept() assert_int_equal(compiles(folder, "k", true), 0)

/* Every file of the cache loses its last byte, or has one changed in its middle. */
static void damage(bool cut) {
  char command[300];
  snprintf(
      command, sizeof command,
      cut ? "for f in $NEREID_CACHE_DIR/nvrtc/*; do truncate -s -1 $f; done"
          : "for f in $NEREID_CACHE_DIR/nvrtc/*; do printf X | dd of=$f bs=1 seek=20 conv=notrunc 2>/dev/null; done");
  assert_int_equal(system(command), 0);
}

static void test_nvrtc_kept(void **state) {
  char folder[] = "/tmp/nereid-test-XXXXXX", command[100];
  assert_non_null(mkdtemp(folder));
  put_text(folder, "k.cu",
           "#include <missing.h>\n # include \"a.h\"\n__global__ void k(int n) {}\ntemplate <int N> __global__ void "
           "t(int n) {}\n");
  put_text(folder, "a.h",
           "#if 0 // include what?\n#include <sub.h>\n#endif\n#if defined(__has_include) && __has_include "
           "(\"b.h\")\n#endif\n");
  put_text(folder, "sub.h", "");
  assert_compiled();
  assert_kept();
  assert_int_equal(compiles(folder, "t<1>", false), 1);
  assert_int_equal(compiles(folder, "t<2>", false), 1);
  assert_int_equal(compiles(folder, "t<1>", true), 0);
  fake->minor = 1; /* another GPU */
  assert_compiled();
  fake->minor = 0, fake->nvrtc_minor = 1; /* another NVRTC */
  assert_compiled();
  fake->nvrtc_minor = 0;
  assert_kept();
  /* Each file that the text may reach counts, and so does one that is not there yet. */
  put_text(folder, "sub.h", "int x;");
  assert_compiled();
  assert_kept();
  put_text(folder, "b.h", "");
  assert_compiled();
  put_text(folder, "missing.h", "#include \"k.cu\"\n");
  assert_compiled();
  assert_kept();
  /* A file of the cache that was damaged is made again. */
  damage(true);
  assert_compiled();
  assert_kept();
  damage(false);
  assert_compiled();
  assert_kept();
  /* What is not known is not kept. */
  /* clang-format off */
  static const char *const open[] = {"#include NAME\n", "#include \\\n<a.h>\n", "#\\\ninclude <a.h>\n",
    "#/**/include <a.h>\n", "#if __has_include(NAME)\n#endif\n",
                                     "const char *at = __TIME__;\n", "#include <a.h\n"};
  /* clang-format on */
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
    put_text(folder, "b.h", open[i]);
    assert_compiled();
    assert_compiled();
  }
  put_text(folder, "b.h", "int include_of(int);\n");
  assert_compiled();
  assert_kept();
  setenv("NEREID_CACHE_DIR", "/proc/nothing", 1); /* no place */
  assert_compiled();
  assert_compiled();
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
}

static void test_inspect(void **state) {
  Fixture *f = *state;
  char *text = NULL;
  assert_ok(nereid_inspect(f->m, "add", NULL, 0, NULL, "ptx", "sm_80", &text, &error));
  assert_non_null(strstr(text, ".entry add("));
  assert_non_null(strstr(fake->nvrtc_options, "--gpu-architecture=sm_80 "));
  free(text);
  BAD(nereid_inspect(f->m, "add", NULL, 0, NULL, "tile", "sm_80", &text, &error),
      "error: CUDA C has no stage 'tile'\n  hint: there are ptx and sass, for a GPU's target\n");
  BAD(nereid_inspect(f->m, NULL, NULL, 0, NULL, "ptx", "sm_80", &text, &error),
      "error: nereid_inspect: the kernel's name is NULL\n");
}

static int run(void) {
  const struct CMUnitTest tests[] = {
      ALONE(test_nvrtc_kept), OPEN(test_signatures), OPEN(test_cuda_c_arguments),
      OPEN(test_nvrtc_fails), OPEN(test_inspect),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return cuda_tests(run); }
