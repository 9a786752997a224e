/* A process may have two copies of the library, such as a package's own and an application's. Each loads kernels of its
 * own making: none may come upon the other's. */
#define _GNU_SOURCE
#include "unit/runtime/runtime_kit.h"

#include <dlfcn.h>

enum { N = 64 };

/* What the test asks of one copy. */
typedef struct Copy {
  nereid_status (*load)(const char *, const char *, nereid_module **, nereid_error **);
  nereid_status (*open)(const char *, nereid_device **, nereid_error **);
  nereid_status (*launch)(nereid_device *, nereid_stream *, nereid_module *, const char *, const int64_t[3],
                          const nereid_arg *, int, const nereid_options *, nereid_error **);
  const char *(*text)(const nereid_error *);
  nereid_device *d;
  nereid_module *m;
} Copy;

static void open_copy(Copy *c) {
  nereid_error *error = NULL;
  if (c->load("kit.py", kernels_text, &c->m, &error) || c->open("cpu:1", &c->d, &error)) fail_msg("%s", c->text(error));
}

static void launch(Copy *c, const char *kernel, const nereid_arg *args, int n) {
  nereid_error *error = NULL;
  if (c->launch(c->d, NULL, c->m, kernel, (int64_t[]){N, 1, 1}, args, n, NULL, &error)) fail_msg("%s", c->text(error));
}

static void test_kernels_of_both(void **unused) {
  (void)unused;
  void *library = dlopen(NEREID_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail_msg("%s", dlerror());
  Copy one = {nereid_module_load_string, nereid_device_open, nereid_launch, nereid_error_text, NULL, NULL}, two = one;
  *(void **)&two.load = dlsym(library, "nereid_module_load_string");
  *(void **)&two.open = dlsym(library, "nereid_device_open");
  *(void **)&two.launch = dlsym(library, "nereid_launch");
  *(void **)&two.text = dlsym(library, "nereid_error_text");
  assert_true(two.load && two.open && two.launch && two.text && two.load != one.load);
  open_copy(&one), open_copy(&two);
  int32_t marks[N] = {0};
  float x[N], out[N] = {0};
  for (int i = 0; i < N; i++) x[i] = (float)i;
  launch(&one, "mark", (nereid_arg[]){nereid_pointer(marks, NEREID_I32)}, 1);
  launch(&two, "add",
         (nereid_arg[]){nereid_pointer(x, NEREID_F32), nereid_pointer(x, NEREID_F32), nereid_pointer(out, NEREID_F32),
                        nereid_int(N), nereid_int(1)},
         5);
  for (int i = 0; i < N; i++) {
    assert_int_equal(marks[i], i + 1);
    assert_true(out[i] == 2 * x[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_of_both)};
  return cmocka_run_group_tests_name("two_copies", tests, NULL, NULL);
}
