/* A kernel whose free names the program knows: an activation chosen at run time, and a width.
 *
 *     cc host_names.c -lnereid -o host_names && ./host_names relu
 *
 * The kernel's text stands here, but it could come from anywhere; `scope` tells its names from those of `leaky`. */
#include <nereid.h>
#include <stdio.h>
#include <string.h>

static const char kernel[] = "def apply(x, n):\n"
                             "    i = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)\n"
                             "    tl.store(x + i, act(tl.load(x + i, mask=i < n)), mask=i < n)\n";
static const char relu[] = "def relu(v):\n    return tl.maximum(v, 0.0)\n";
static const char leaky[] = "def leaky(v):\n    return tl.where(v > 0, v, v * SLOPE)\n";

static void give_function(nereid_value *out, const char *name, const char *text) {
  nereid_source s = {.size = sizeof s, .kind = NEREID_SOURCE_JIT, .path = "host_names.c", .scope = (void *)name};
  s.text = text;
  s.text_bytes = strlen(text);
  nereid_value_set_source(out, &s);
}

/* `of` is the scope of the source whose name it is; arg is what nereid_host.arg says. */
static bool ask(void *arg, nereid_ask what, void *of, const char *name, nereid_value *out) {
  const char *act = arg;
  if (what != NEREID_ASK_NAME) return false; /* defaults and annotations are as the texts have them */
  if (!strcmp(name, "tl")) {
    nereid_value_set_library(out, "triton.language");
  } else if (!strcmp(of, "apply") && !strcmp(name, "act")) {
    give_function(out, act, !strcmp(act, "relu") ? relu : leaky);
  } else if (!strcmp(of, "apply") && !strcmp(name, "WIDTH")) {
    nereid_value_set_int(out, 64);
    nereid_value_mark_constexpr(out);
  } else if (!strcmp(of, "leaky") && !strcmp(name, "SLOPE")) {
    nereid_value_set_float(out, 0.5);
    nereid_value_mark_constexpr(out);
  } else {
    return false;
  }
  return true;
}

int main(int argc, char **argv) {
  const char *act = argc > 1 ? argv[1] : "leaky", *device = argc > 2 ? argv[2] : "cpu";
  nereid_source source = {.size = sizeof source, .kind = NEREID_SOURCE_JIT, .path = "host_names.c", .text = kernel};
  source.text_bytes = strlen(kernel);
  source.scope = (void *)"apply";
  nereid_host host = {.size = sizeof host, .arg = (void *)act, .ask = ask, .unchanging = true};
  nereid_device *dev = NULL;
  nereid_module *mod = NULL;
  nereid_error *err = NULL;
  float x[100];
  for (int i = 0; i < 100; i++) x[i] = (float)(i - 50);
  nereid_arg args[] = {nereid_pointer(x, NEREID_F32), nereid_int(100)};
  int64_t grid[3] = {2, 1, 1};
  if (nereid_device_open(device, &dev, &err) || nereid_register(dev, x, sizeof x, "x", &err) ||
      nereid_module_load_source(&source, &host, &mod, &err) ||
      nereid_launch(dev, NULL, mod, "apply", grid, args, 2, NULL, &err) || nereid_synchronize(dev, &err)) {
    fputs(nereid_error_text(err), stderr);
    nereid_error_free(err);
    return 1;
  }
  printf("%s(-50) = %g, %s(49) = %g\n", act, x[0], act, x[99]);
  nereid_module_free(mod);
  nereid_unregister(dev, x);
  nereid_device_close(dev);
  return 0;
}
