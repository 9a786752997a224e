/* nereid fuse: a tensor program becomes kernels, which are shown, run and compared with float64. */
#include "cli.h"

#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Fuse {
  char *path;
  const char *function, *device, *folder, *results, *weights, *plot, *grad;
  Launch launch; /* its arguments and seed */
  nereid_fuse_input *said;
  Buf complex_inputs; /* their names, "x,w" */
  char **made;        /* specs that were written anew */
  int made_count;
  bool eager, no_online, check, explain, graph, json;
  nereid_fusion *fusion;
  nereid_device *opened; /* for which it was planned, and on which it runs */
  int input_count, output_count;
  Array *inputs, *outputs; /* host copies */
  void **in, **out;        /* on the device */
  double **wanted, **written;
  double run_ms;
  int products;                      /* nereid_fuse_products; -1: nothing is said */
  int layouts;                       /* nereid_fuse_layouts */
  int repeat, loaded;                /* loaded: inputs that the file of weights had */
  double low_ms, median_ms, high_ms; /* of the runs after the first */
} Fuse;

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* Which of the words; -1: none, which is said. */
static int one_of(const char *option, const char *word, const char *what, const char *const *words) {
  Buf all = {0};
  for (int i = 0; words[i]; i++) {
    if (!strcmp(words[i], word)) {
      buf_destroy(&all);
      return i;
    }
    buf_printf(&all, "%s%s", !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
  }
  usage_error(&verb_fuse, "%s %s: %s is %s", option, word, what, all.at);
  buf_destroy(&all);
  return -1;
}

static int option(Fuse *f, int argc, char **argv) { /* how many words it took; 0: unknown, -1: wrong */
  static const char *const with_value[] = {"--device",  "--output-code", "--seed",     "--save",   "--repeat",
                                           "--weights", "--plot",        "--products", "--layouts"};
  static const char *const who[] = {"auto", "own", "library", "kept", NULL};          /* nereid_fuse_products */
  static const char *const layouts[] = {"auto", "contiguous", "channels_last", NULL}; /* nereid_fuse_layouts */
  const char *o = argv[0];
  if (!strcmp(o, "--eager")) return f->eager = true, 1;
  if (!strcmp(o, "--no-online")) return f->no_online = true, 1;
  if (!strcmp(o, "--check")) return f->check = true, 1;
  if (!strcmp(o, "--explain")) return f->explain = true, 1;
  if (!strcmp(o, "--graph")) return f->graph = true, 1;
  if (!strcmp(o, "--json")) return f->json = true, 1;
  if (!strcmp(o, "--grad")) { /* its value may be missing */
    bool named = argc > 1 && f->path && argv[1][0] != '-' && !strchr(argv[1], '=');
    f->grad = named ? argv[1] : "all";
    return 1 + named;
  }
  for (int i = 0; i < 9; i++) {
    if (strcmp(o, with_value[i])) continue;
    if (argc < 2) {
      usage_error(&verb_fuse, "%s needs a value", o);
      return -1;
    }
    if (i == 0) f->device = argv[1];
    if (i == 1) f->folder = argv[1];
    if (i == 3) f->results = argv[1];
    if (i == 5) f->weights = argv[1];
    if (i == 6) f->plot = argv[1];
    if (i == 4 && !read_count(argv[1], 1, 100000, &f->repeat)) {
      usage_error(&verb_fuse, "--repeat %s: how often is a number from 1 to 100000", argv[1]);
      return -1;
    }
    if (i == 7) f->products = one_of(o, argv[1], "who computes products", who);
    if (i == 8) f->layouts = one_of(o, argv[1], "the layout of images", layouts);
    if ((i == 7 && f->products < 0) || f->layouts < 0) return -1;
    const char *end;
    int64_t seed;
    if (i == 2 && (!read_whole(argv[1], 10, &end, &seed) || *end || seed < 0)) {
      usage_error(&verb_fuse, "--seed %s: give a whole number, 0 or more", argv[1]);
      return -1;
    }
    if (i == 2) f->launch.seed = (uint64_t)seed;
    return 2;
  }
  return 0;
}

static bool is_array_spec(const char *spec) { return *spec == '@' || (strchr(spec, ':') && strchr(spec, '[')); }

static int parse(Fuse *f, int argc, char **argv) {
  f->launch.verb = &verb_fuse;
  f->launch.args = calloc((size_t)argc + 1, sizeof *f->launch.args);
  f->said = calloc((size_t)argc + 1, sizeof *f->said);
  f->made = calloc((size_t)argc + 1, sizeof *f->made);
  if (!f->launch.args || !f->said || !f->made) return report_error(NULL);
  for (int i = 1; i < argc;) {
    char *equals = strchr(argv[i], '=');
    int took = argv[i][0] == '-' ? option(f, argc - i, argv + i) : 1;
    if (!took) took = option_of_others(&verb_fuse, argc - i, argv + i);
    if (took < 0) return 2;
    if (argv[i][0] != '-' && equals && f->path) {
      LaunchArg *a = &f->launch.args[f->launch.arg_count++];
      a->name = argv[i];
      *equals = 0;
      a->spec = equals + 1;
    } else if (argv[i][0] != '-') {
      if (f->path) return usage_error(&verb_fuse, "%s: an argument is written NAME=SPEC", argv[i]);
      f->path = argv[i];
    }
    i += took;
  }
  if (!f->path) return usage_error(&verb_fuse, "a file is missing");
  char *colon = strrchr(f->path, ':');
  if (colon && strchr(colon, '/') == NULL) {
    *colon = 0;
    f->function = colon + 1;
  }
  return 0;
}

/* randn:c64[4,5] is randn:f32[4,5,2], of complex numbers. */
static bool split_complex(LaunchArg *a) {
  const char *type = strstr(a->spec, ":c64[");
  bool wide = !type;
  if (wide) type = strstr(a->spec, ":c128[");
  const char *close = type ? strrchr(type, ']') : NULL;
  if (!close || *a->spec == '@') return false;
  const char *open = strchr(type, '[');
  a->spec = format_string("%.*s:%s%.*s%s2%s", (int)(type - a->spec), a->spec, wide ? "f64" : "f32", (int)(close - open),
                          open, close > open + 1 ? "," : "", close);
  return true;
}

static int make_inputs(Fuse *f) { /* of the command line */
  int n = f->launch.arg_count;
  f->launch.takes_complex = true;
  for (int i = 0; i < n; i++) {
    LaunchArg *a = &f->launch.args[i];
    f->said[i] = (nereid_fuse_input){.name = a->name, .text = a->spec};
    if (!is_array_spec(a->spec)) continue;
    bool is_complex = split_complex(a);
    if (is_complex) f->made[f->made_count++] = (char *)a->spec;
    int status = launch_make_array(&f->launch, a);
    if (status) return status;
    a->array.is_complex |= is_complex;
    if (a->array.is_complex) buf_printf(&f->complex_inputs, "%s%s", f->complex_inputs.at ? "," : "", a->name);
    f->said[i].text = NULL;
    f->said[i].dtype = a->array.dtype;
    f->said[i].rank = a->array.rank;
    memcpy(f->said[i].shape, a->array.shape, sizeof(int64_t) * (size_t)a->array.rank);
  }
  return 0;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* As weights are scaled: rows of length 1 or so, and scalars and vectors near 1. Products then keep their magnitude. */
static void scale(Array *a) {
  size_t step = nereid_dtype_bytes(a->dtype);
  for (int64_t i = 0, n = array_count(a); i < n; i++) {
    double v = array_get(a, i);
    v = a->rank < 2 ? 1 + 0.1 * v : v / sqrt((double)a->shape[a->rank - 1]);
    nereid_dtype_store(a->dtype, (char *)a->data + (size_t)i * step, v);
  }
}

/* Of the file of weights, where it has one of that name. */
static int load(Fuse *f, int i, nereid_tensor_info t, bool *loaded) {
  *loaded = false;
  if (!f->weights) return 0;
  nereid_error *err = NULL;
  nereid_status status = array_read_safetensors(&f->inputs[i], f->weights, t.name, &err);
  if (status == NEREID_BAD_ARGUMENT) {
    nereid_error_free(err);
    return 0;
  }
  if (status) return report_error(err);
  const Array *a = &f->inputs[i];
  bool fits = a->rank == t.rank && a->dtype == t.dtype;
  for (int d = 0; fits && d < t.rank; d++) fits = a->shape[d] == t.shape[d];
  *loaded = true;
  f->loaded++;
  return fits ? 0 : usage_error(&verb_fuse, "%s: the program has another type or shape for %s", f->weights, t.name);
}

/* For inputs of which nothing is said: random numbers; integers are 0 or 1, which every index may be. */
static int fill(Fuse *f, int i) {
  nereid_tensor_info t = nereid_fusion_input(f->fusion, i);
  for (int k = 0; k < f->launch.arg_count; k++) {
    LaunchArg *a = &f->launch.args[k];
    if (strcmp(a->name, t.name) || !a->is_array) continue;
    bool fits = a->array.rank == t.rank && a->array.dtype == t.dtype && a->array.is_complex == t.is_complex;
    for (int d = 0; fits && d < t.rank; d++) fits = a->array.shape[d] == t.shape[d];
    if (!fits) return usage_error(&verb_fuse, "%s=%s: the program has another type or shape for it", a->name, a->spec);
    f->inputs[i] = a->array;
    a->is_array = false; /* it is ours now */
    return 0;
  }
  bool loaded;
  int status = load(f, i, t, &loaded);
  if (status || loaded) return status;
  Random r;
  uint64_t mix = f->launch.seed;
  for (const char *c = t.name; *c; c++) mix = mix * 31 + (unsigned char)*c;
  random_seed(&r, mix);
  bool whole = is_integer_type(t.dtype);
  const char *why = t.rank > MAX_DIMS ? "has more than eight dimensions"
                                      : array_make(&f->inputs[i], t.dtype, t.rank, t.shape, NULL,
                                                   t.is_state ? FILL_ZEROS
                                                   : whole    ? FILL_RANDINT
                                                              : FILL_RANDN,
                                                   0, whole ? 2 : 0, &r);
  if (!why && !whole && !t.is_state) scale(&f->inputs[i]);
  f->inputs[i].is_complex = t.is_complex;
  return why ? usage_error(&verb_fuse, "the input %s %s", t.name, why) : 0;
}

static int make_arrays(Fuse *f) {
  f->input_count = nereid_fusion_input_count(f->fusion);
  f->output_count = nereid_fusion_output_count(f->fusion);
  f->inputs = calloc((size_t)f->input_count + 1, sizeof *f->inputs);
  f->outputs = calloc((size_t)f->output_count + 1, sizeof *f->outputs);
  f->in = calloc((size_t)f->input_count + 1, sizeof *f->in);
  f->out = calloc((size_t)f->output_count + 1, sizeof *f->out);
  f->wanted = calloc((size_t)f->output_count + 1, sizeof *f->wanted);
  f->written = calloc((size_t)f->input_count + 1, sizeof *f->written);
  if (!f->inputs || !f->outputs || !f->in || !f->out || !f->wanted || !f->written) return report_error(NULL);
  for (int i = 0; i < f->input_count; i++) {
    int status = fill(f, i);
    if (status) return status;
  }
  if (f->weights && !f->loaded)
    return usage_error(&verb_fuse, "%s: it has none of the program's inputs, such as %s", f->weights,
                       f->input_count ? nereid_fusion_input(f->fusion, 0).name : "x");
  for (int i = 0; i < f->output_count; i++) {
    nereid_tensor_info t = nereid_fusion_output(f->fusion, i);
    if (t.rank < 0) continue;
    const char *why = t.rank > MAX_DIMS
                          ? "has more than eight dimensions"
                          : array_make(&f->outputs[i], t.dtype, t.rank, t.shape, NULL, FILL_ZEROS, 0, 0, NULL);
    if (why) return usage_error(&verb_fuse, "output %d %s", i, why);
    f->outputs[i].is_complex = t.is_complex;
  }
  return 0;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Runs again on the same arrays, each until the device is done. Results that a program writes into its inputs go on. */
static nereid_status measure(Fuse *f, nereid_device *d, nereid_error **err) {
  double *ms = calloc((size_t)f->repeat + 1, sizeof *ms);
  nereid_status status = NEREID_OK;
  for (int i = 0; ms && i < f->repeat && !status; i++) {
    int64_t start = now_ns();
    status = nereid_fusion_run(f->fusion, d, NULL, f->in, f->out, err);
    if (!status) status = nereid_synchronize(d, err);
    ms[i] = (double)(now_ns() - start) / 1e6;
  }
  if (ms && f->repeat) {
    qsort(ms, (size_t)f->repeat, sizeof *ms, by_value);
    f->low_ms = ms[f->repeat / 10];
    f->median_ms = ms[f->repeat / 2];
    f->high_ms = ms[f->repeat - 1 - f->repeat / 10];
  }
  free(ms);
  return status;
}

static nereid_status run_on(Fuse *f, nereid_device *d, nereid_error **err) {
  nereid_status status = NEREID_OK;
  for (int i = 0; i < f->input_count && !status; i++) {
    int64_t bytes = f->inputs[i].bytes;
    status = nereid_alloc(d, bytes ? bytes : 1, &f->in[i], err);
    if (!status && bytes) status = nereid_copy_to_device(d, f->in[i], f->inputs[i].data, bytes, err);
  }
  for (int i = 0; i < f->output_count && !status; i++)
    if (f->outputs[i].data) status = nereid_alloc(d, f->outputs[i].bytes + 1, &f->out[i], err);
  int64_t start = now_ns();
  if (!status) status = nereid_fusion_run(f->fusion, d, NULL, f->in, f->out, err);
  if (!status) status = nereid_synchronize(d, err);
  f->run_ms = (double)(now_ns() - start) / 1e6;
  for (int i = 0; i < f->output_count && !status; i++)
    if (f->out[i] && f->outputs[i].bytes)
      status = nereid_copy_to_host(d, f->outputs[i].data, f->out[i], f->outputs[i].bytes, err);
  for (int i = 0; i < f->input_count && !status; i++)
    if (nereid_fusion_input(f->fusion, i).is_written && f->inputs[i].bytes)
      status = nereid_copy_to_host(d, f->inputs[i].data, f->in[i], f->inputs[i].bytes, err);
  if (!status && f->repeat) status = measure(f, d, err);
  for (int i = 0; i < f->input_count; i++) nereid_free(d, f->in[i]);
  for (int i = 0; i < f->output_count; i++) nereid_free(d, f->out[i]);
  return status;
}

static int reference(Fuse *f) { /* before the run, which may write inputs */
  for (int i = 0; i < f->output_count; i++)
    if (f->outputs[i].data) f->wanted[i] = malloc(sizeof(double) * (size_t)(array_count(&f->outputs[i]) + 1));
  for (int i = 0; i < f->input_count; i++)
    if (nereid_fusion_input(f->fusion, i).is_written)
      f->written[i] = malloc(sizeof(double) * (size_t)(array_count(&f->inputs[i]) + 1));
  const void **in = calloc((size_t)f->input_count + 1, sizeof *in);
  if (!in) return report_error(NULL);
  for (int i = 0; i < f->input_count; i++) in[i] = f->inputs[i].data;
  nereid_error *err = NULL;
  nereid_status status = nereid_fusion_reference(f->fusion, in, f->wanted, f->written, &err);
  free(in);
  return status ? report_error(err) : 0;
}

/* The largest difference over the largest magnitude, and what is allowed for a type: rounding along a long chain. */
static double error_of(const Array *got, const double *want) {
  double most = 0, worst = 0;
  for (int64_t i = 0, n = array_count(got); i < n; i++) {
    double a = array_get(got, i), b = want[i];
    if (isfinite(b) && fabs(b) > most) most = fabs(b);
    if ((isnan(a) && isnan(b)) || a == b) continue;
    double e = isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
    if (e > worst) worst = e;
  }
  return worst == 0 ? 0 : worst / (most > 0 ? most : 1);
}

static double allowed(nereid_dtype t) {
  if (is_integer_type(t)) return 0;
  return t == NEREID_F64 ? 1e-10 : t == NEREID_F32 ? 2e-4 : t == NEREID_F16 ? 4e-3 : 3e-2;
}

static int compare(const char *what, int number, nereid_tensor_info t, const Array *got, const double *want,
                   JsonWriter *w, bool show) {
  const char *name = t.name;
  double error = error_of(got, want), most = is_integer_type(t.dtype) ? 0 : allowed(t.narrowest);
  bool agrees = error <= most;
  if (w) {
    json_begin_object(w, NULL);
    json_put_text(w, "what", what);
    json_put_int(w, "index", number);
    json_put_real(w, "error", 3, error);
    json_put_bool(w, "agrees", agrees);
    json_end_object(w);
  } else if (!agrees || show) {
    printf("  %s %d", what, number);
    if (name) printf(" (%s)", name);
    printf(": %s%s%s with float64 (error %.2g of the largest, allowed %.2g)\n",
           color(stdout, agrees ? COLOR_GOOD : COLOR_ERROR), agrees ? "agrees" : "does not agree",
           color(stdout, COLOR_OFF), error, most);
  }
  return !agrees;
}

static int compare_all(Fuse *f, JsonWriter *w) {
  int wrong = 0, count = 0;
  for (int i = 0; i < f->output_count; i++) count += f->outputs[i].data != NULL;
  for (int i = 0; i < f->input_count; i++) count += f->written[i] != NULL;
  for (int i = 0; i < f->output_count; i++)
    if (f->outputs[i].data)
      wrong += compare("output", i, nereid_fusion_output(f->fusion, i), &f->outputs[i], f->wanted[i], w, count <= 16);
  for (int i = 0; i < f->input_count; i++)
    if (f->written[i])
      wrong +=
          compare("written input", i, nereid_fusion_input(f->fusion, i), &f->inputs[i], f->written[i], w, count <= 16);
  if (!w) printf("  %d of %d results agree with float64\n", count - wrong, count);
  return wrong != 0;
}

/* ---- what is shown ----------------------------------------------------------------------------------------------- */

static int make_folder(const char *path) {
  if (!mkdir(path, 0777) || errno == EEXIST) return 0;
  fprintf(stderr, "nereid fuse: cannot make the folder %s: %s\n", path, strerror(errno));
  return 1;
}

/* output_0.npy, ..., and NAME.npy for each input that was written. */
static int save_results(Fuse *f) {
  int status = make_folder(f->results);
  for (int i = 0; i < f->output_count + f->input_count && !status; i++) {
    bool output = i < f->output_count;
    const Array *a = output ? &f->outputs[i] : &f->inputs[i - f->output_count];
    nereid_tensor_info t =
        output ? nereid_fusion_output(f->fusion, i) : nereid_fusion_input(f->fusion, i - f->output_count);
    if (!a->data || (!output && !t.is_written)) continue;
    char *path =
        output ? format_string("%s/output_%d.npy", f->results, i) : format_string("%s/%s.npy", f->results, t.name);
    nereid_error *err = NULL;
    if (!path || array_write_npy(a, path, &err)) status = report_error(err);
    free(path);
  }
  return status;
}

static int write_text(Fuse *f, const char *what, const char *path) {
  const char *text = nereid_fusion_text(f->fusion, what);
  FILE *out = text ? fopen(path, "w") : NULL;
  bool written = out && fputs(text, out) >= 0;
  if (out && fclose(out)) written = false;
  if (!written) fprintf(stderr, "nereid fuse: cannot write %s: %s\n", path, strerror(errno));
  return !written;
}

static int write_code(Fuse *f) {
  if (make_folder(f->folder)) return 1;
  static const struct {
    const char *what, *file;
  } files[] = {{"code", "kernels.py"}, {"graph", "program.graph"}, {"explain", "plan.txt"}};
  for (int i = 0; i < 3; i++) {
    char *path = format_string("%s/%s", f->folder, files[i].file);
    int status = path ? write_text(f, files[i].what, path) : report_error(NULL);
    free(path);
    if (status) return status;
  }
  return 0;
}

static void print_texts(const Fuse *f) {
  if (f->graph) fputs(nereid_fusion_text(f->fusion, "graph"), stdout);
  if (f->explain) fputs(nereid_fusion_text(f->fusion, "explain"), stdout);
}

static void begin_json(const Fuse *f, JsonWriter *w) {
  json_begin_object(w, NULL);
  json_put_text(w, "file", f->path);
  json_put_text(w, "device", f->device);
  json_put_int(w, "kernels", nereid_fusion_kernel_count(f->fusion));
  if (f->graph) json_put_text(w, "graph", nereid_fusion_text(f->fusion, "graph"));
  if (f->explain) json_put_text(w, "explain", nereid_fusion_text(f->fusion, "explain"));
}

static void end_json(JsonWriter *w) {
  json_end_object(w);
  printf("\n");
}

static int show(Fuse *f, double read_ms) {
  if (f->folder && write_code(f)) return 1;
  if (f->plot && write_text(f, "plot", f->plot)) return 1;
  JsonWriter json = {.file = stdout}, *w = f->json ? &json : NULL;
  if (!w) print_texts(f);
  if (f->graph || (f->explain && !f->check)) {
    if (w) begin_json(f, w), end_json(w);
    return 0;
  }
  nereid_device *d = f->opened;
  nereid_error *err = NULL;
  int status = make_arrays(f);
  if (!status && f->check) status = reference(f);
  if (status) return status;
  nereid_status ran = run_on(f, d, &err);
  if (ran) status = report_error(err);
  else if (w) {
    begin_json(f, w);
    json_put_fixed(w, "read_ms", 3, read_ms);
    json_put_fixed(w, "run_ms", 3, f->run_ms);
    if (f->repeat) {
      json_put_int(w, "repeat", f->repeat);
      json_put_fixed(w, "median_ms", 4, f->median_ms);
      json_put_fixed(w, "low_ms", 4, f->low_ms);
      json_put_fixed(w, "high_ms", 4, f->high_ms);
    }
    json_begin_array(w, "checks");
  } else
    printf("%s on %s: %d kernels, read and planned in %.1f ms, compiled and ran in %.1f ms\n", f->path, f->device,
           nereid_fusion_kernel_count(f->fusion), read_ms, f->run_ms);
  if (!ran && !w && f->repeat)
    printf("  %d runs more: median %.3f ms (%.3f .. %.3f)\n", f->repeat, f->median_ms, f->low_ms, f->high_ms);
  if (!ran && f->check) status = compare_all(f, w);
  if (!ran && f->results && !status) status = save_results(f);
  if (!ran && w) {
    json_end_array(w);
    end_json(w);
  }
  return status;
}

static int run(int argc, char **argv) {
  Fuse f = {.device = "cpu", .products = -1};
  int status = parse(&f, argc, argv);
  if (!status) status = make_inputs(&f);
  if (!status) {
    nereid_error *err = NULL;
    if (nereid_device_open(f.device, &f.opened, &err)) status = report_error(err);
    if (f.products < 0)
      f.products = f.repeat ? NEREID_PRODUCTS_AUTO : NEREID_PRODUCTS_KEPT; /* one run repays nothing */
    nereid_fuse_options options = {.eager = f.eager,
                                   .no_online = f.no_online,
                                   .seed = f.launch.seed,
                                   .grad = f.grad,
                                   .complex_inputs = f.complex_inputs.at,
                                   .device = f.opened,
                                   .products = (nereid_fuse_products)f.products,
                                   .layouts = (nereid_fuse_layouts)f.layouts};
    int64_t start = now_ns();
    if (!status && nereid_fuse(f.path, f.function, f.said, f.launch.arg_count, &options, &f.fusion, &err))
      status = report_error(err);
    else if (!status) status = show(&f, (double)(now_ns() - start) / 1e6);
  }
  nereid_fusion_free(f.fusion);
  nereid_device_close(f.opened);
  for (int i = 0; i < f.input_count; i++) array_free(&f.inputs[i]);
  for (int i = 0; i < f.output_count; i++) array_free(&f.outputs[i]);
  for (int i = 0; i < f.output_count; i++) free(f.wanted[i]);
  for (int i = 0; i < f.input_count; i++) free(f.written[i]);
  for (int i = 0; i < f.launch.arg_count; i++)
    if (f.launch.args[i].is_array) array_free(&f.launch.args[i].array);
  free(f.inputs);
  free(f.outputs);
  free(f.in);
  free(f.out);
  free(f.wanted);
  free(f.written);
  for (int i = 0; i < f.made_count; i++) free(f.made[i]);
  free(f.made);
  buf_destroy(&f.complex_inputs);
  free(f.said);
  free(f.launch.args);
  return status;
}

const Verb verb_fuse = {
    "fuse", "fuse FILE.py[:FUNCTION] [NAME=SPEC ...] [options]", "makes kernels of tensor code, and runs them", run,
    "  FILE.py        a function over tensors: PyTorch's own syntax, or an ATen graph as torch.fx prints it\n"
    "                 FILE.graph: a graph as --graph prints it\n"
    "  NAME=SPEC      of a parameter: randn:f32[64,1000], @FILE.npy, @FILE.safetensors:NAME,\n"
    "                 a number; not needed where its annotation says so.\n"
    "                 Of a symbolic size: its value, s0=64\n"
    "  --device D     cpu (default), cpu:THREADS, interp, cuda, cuda:N, sim\n"
    "  --eager        a kernel for each operation\n"
    "  --no-online    a reduction that depends on another one has a loop of its own\n"
    "  --products W   who computes products: auto (the faster, measured once; with --repeat), own,\n"
    "                 library, kept (the faster where it was measured, else own; without --repeat)\n"
    "  --layouts L    of images that a library convolves: auto (the faster), contiguous, channels_last\n"
    "  --check        compare every result with the program in float64\n"
    "  --grad [X,W]   results more: gradients of the sum of all results by these inputs, or by all of floats. A result "
    "is\n"
    "                 weighted with grad_output=SPEC (the first), grad_output_1=SPEC, ... where that is said\n"
    "  --explain      what each kernel computes and what it reads and writes\n"
    "  --graph        the tensor graph\n"
    "  --plot FILE.svg  draw the kernels, and the arrays between them\n"
    "  --output-code DIR  keep the kernels (kernels.py, which Triton takes too), the graph and the plan\n"
    "  --repeat N     run it N times more, and print the median, the tenth and the ninetieth percentile\n"
    "  --weights FILE.safetensors  inputs of which nothing is said get the file's tensor of their name\n"
    "  --save DIR     keep the results as .npy: output_0.npy, and NAME.npy of each input that is written\n"
    "  --seed N       of random inputs and of the program's random numbers\n"
    "  --json         all of it as JSON\n\n"
    "example: nereid fuse gelu.py:gelu x=randn:f32[4096,4096] --check --output-code out\n"};
