/* run: compiles a kernel, launches it once on the given arguments, checks and saves its outputs, and prints a table of
 * what the arrays hold afterwards. `--step` walks through one program on the interpreter. */
#include "cli.h"

#include "base/json.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CHECKS = 16 };
typedef struct Pair {
  char *name, *value;
} Pair; /* ARG=TEXT */
typedef struct Run {
  Launch launch;
  const char *grid, *device;
  Pair checks[MAX_CHECKS], outputs[MAX_CHECKS];
  int check_count, output_count;
  double rtol, atol; /* negative: from the type */
  bool json, step, races, unwritten_ok;
  int tf32_chain;
  bool was_stopped; /* --step: the walk was left before the kernel ended */
  int64_t programs[3];
  bool one_program;
  char config[400]; /* what was launched */
} Run;

static int pair_option(const Verb *v, Pair *list, int *n, int argc, char **argv) {
  char *equals = argc > 1 ? strchr(argv[1], '=') : NULL;
  if (!equals || equals == argv[1] || !equals[1]) return usage_error(v, "%s needs ARG=...", argv[0]), -1;
  if (*n == MAX_CHECKS) return usage_error(v, "too many %s", argv[0]), -1;
  list[*n] = (Pair){format_string("%.*s", (int)(equals - argv[1]), argv[1]), equals + 1};
  return list[(*n)++].name ? 2 : -1;
}

static int run_option(void *arg, int argc, char **argv) {
  Run *r = arg;
  const Verb *v = &verb_run;
  const char *o = argv[0];
  if (!strcmp(o, "--json")) return r->json = true, 1;
  if (!strcmp(o, "--step")) return r->step = true, 1;
  if (!strcmp(o, "--races")) return r->races = true, 1;
  if (!strcmp(o, "--allow-unwritten")) return r->unwritten_ok = true, 1;
  if (!strcmp(o, "--check")) return pair_option(v, r->checks, &r->check_count, argc, argv);
  if (!strcmp(o, "-o")) return pair_option(v, r->outputs, &r->output_count, argc, argv);
  const char **text = !strcmp(o, "--grid") ? &r->grid : !strcmp(o, "--device") ? &r->device : NULL;
  double *number = !strcmp(o, "--rtol") ? &r->rtol : !strcmp(o, "--atol") ? &r->atol : NULL;
  bool block = !strcmp(o, "--block"), shared = !strcmp(o, "--shared");
  if (strcmp(o, "--program") && !text && !number && !block && !shared) return 0;
  if (argc < 2) return usage_error(v, "%s needs a value", o), -1;
  if (text) return *text = argv[1], 2;
  if (number) {
    char *end;
    *number = strtod(argv[1], &end);
    return *end || end == argv[1] || *number < 0 ? (usage_error(v, "%s needs a number", o), -1) : 2;
  }
  if (block || shared) {
    int *to = block ? r->launch.options.block : &r->launch.options.shared_bytes;
    char end;
    int n = block ? sscanf(argv[1], "%d,%d,%d%c", &to[0], &to[1], &to[2], &end) : sscanf(argv[1], "%d%c", to, &end);
    bool good = n >= 1 && n <= (block ? 3 : 1) &&
                (block ? to[0] > 0 && (n < 2 || to[1] > 0) && (n < 3 || to[2] > 0) : *to >= 0);
    return good ? 2
                : (usage_error(v, block ? "--block needs X[,Y[,Z]], numbers of threads"
                                        : "--shared needs a number of bytes"),
                   -1);
  }
  int n = sscanf(argv[1], "%ld,%ld,%ld", &r->programs[0], &r->programs[1], &r->programs[2]);
  return n < 1 ? (usage_error(v, "--program needs X[,Y[,Z]]"), -1) : (r->one_program = true, 2);
}

/* ---- on one device ----------------------------------------------------------------------------------------------- */

static int upload(nereid_device *d, LaunchArg *a, nereid_error **err) {
  if (!a->is_array) return 0;
  if (nereid_alloc(d, a->array.bytes, &a->device_pointer, err)) return 1;
  if (!strncmp(a->spec, "empty", 5)) return 0; /* stays unwritten, for the interpreter to watch */
  return nereid_copy_to_device(d, a->device_pointer, a->array.data, a->array.bytes, err) != NEREID_OK;
}

static void release(nereid_device *d, Launch *l) {
  for (int i = 0; i < l->arg_count; i++) {
    if (l->args[i].device_pointer) nereid_free(d, l->args[i].device_pointer);
    l->args[i].device_pointer = NULL;
  }
}

/* What the commands of one walk have set. */
typedef struct Walk {
  const Launch *launch;
  bool goes_on;     /* to the next breakpoint, or to the end */
  int lines[32], n; /* breakpoints */
  bool was_stopped;
} Walk;

static bool step_prompt(void *arg, nereid_step *s, const char *file, int line, const int32_t program[3]);

static bool show_tuning(void *arg, const nereid_tune_progress *p) {
  progress(*(int64_t *)arg, "tuning, %s: %d of %d", p->phase, p->done, p->of);
  return true;
}

/* On the CPU an access outside of an array may end the process. This says how to find it; the signal then does what it
 * would have done. */
static void crashed(int number) {
  static const char text[] = "nereid run: the kernel accessed memory that is not there; run it with --device interp, "
                             "which checks every access and names the line\n";
  if (write(2, text, sizeof text - 1) < 0) number = SIGABRT;
  signal(number, SIG_DFL);
  raise(number);
}

/* The cpu's code checks nothing. What is certain to go wrong is named before it does: that the interpreter would find
 * the rest is said by `crashed`. */
static nereid_status check_bounds(const Run *r, nereid_device *d, const int64_t grid[3], const nereid_arg *args,
                                  const nereid_options *options, nereid_error **err) {
  const Launch *l = &r->launch;
  nereid_arg *known = strncmp(r->device, "cpu", 3) ? NULL : calloc((size_t)l->arg_count + 1, sizeof *known);
  if (!known) return NEREID_OK;
  memcpy(known, args, sizeof *known * (size_t)l->arg_count);
  for (int i = 0; i < l->arg_count; i++)
    if (l->args[i].is_array) launch_arg_knows(&known[i], &l->args[i].array);
  nereid_error *why = NULL;
  nereid_status status = nereid_check_bounds(d, l->module, l->kernel->name, grid, known, l->arg_count, options, &why);
  free(known);
  if (status == NEREID_KERNEL_FAULT) return *err = why, status;
  nereid_error_free(why); /* what cannot be looked at is run */
  return NEREID_OK;
}

/* Uploads, launches, downloads into the host arrays. */
static int launch_on(Run *r, nereid_device *d, int64_t grid[3], double *compile_ms, double *launch_ms) {
  Launch *l = &r->launch;
  nereid_error *err = NULL;
  for (int i = 0; i < l->arg_count; i++)
    if (upload(d, &l->args[i], &err)) return release(d, l), report_error(err);
  nereid_arg *args = launch_arg_list(l);
  if (!args) return release(d, l), report_error(NULL);
  int64_t start = now_ns(), program;
  nereid_options options = l->options;
  const nereid_tune_options how = {.progress = show_tuning, .progress_arg = &start};
  char *text = NULL;
  int wrong = launch_grid_text(l, r->grid, &text);
  if (wrong) return free(args), release(d, l), wrong;
  options.grid = text, options.tune = &how, options.no_autotune = r->one_program;
  options.check_races = r->races, options.allow_unwritten = r->unwritten_ok;
  nereid_function *f = NULL; /* its configuration decides on the grid */
  nereid_status status = nereid_compile(d, l->module, l->kernel->name, args, l->arg_count, &options, &f, &err);
  progress_clear();
  if (!status) status = nereid_function_grid(f, args, l->arg_count, grid, &err);
  if (!status && r->one_program) {
    nereid_function_free(f);
    f = NULL;
    program = (r->programs[2] * grid[1] + r->programs[1]) * grid[0] + r->programs[0];
    options.programs = &program, options.program_count = 1;
    status = nereid_compile(d, l->module, l->kernel->name, args, l->arg_count, &options, &f, &err);
  }
  *compile_ms = (double)(now_ns() - start) / 1e6;
  if (!status && !r->step && !r->one_program) status = check_bounds(r, d, grid, args, &options, &err);
  if (!status && r->step) {
    Walk walk = {.launch = l};
    status = nereid_launch_stepped(d, l->module, l->kernel->name, grid, args, l->arg_count, &options, step_prompt,
                                   &walk, &err);
    r->was_stopped = walk.was_stopped;
    *compile_ms = 0, *launch_ms = (double)(now_ns() - start) / 1e6;
  } else if (!status) {
    start = now_ns();
    bool is_cpu = !strncmp(r->device, "cpu", 3);
    if (is_cpu) signal(SIGSEGV, crashed), signal(SIGBUS, crashed);
    status = nereid_run(f, NULL, grid, args, l->arg_count, &err);
    if (!status) status = nereid_synchronize(d, &err);
    if (is_cpu) signal(SIGSEGV, SIG_DFL), signal(SIGBUS, SIG_DFL);
    *launch_ms = (double)(now_ns() - start) / 1e6;
  }
  if (!status) {
    nereid_function_info info;
    nereid_function_get_info(f, &info);
    r->tf32_chain = info.tf32_chain;
    snprintf(r->config, sizeof r->config, "%s", nereid_function_config(f));
  }
  nereid_function_free(f);
  free(text);
  for (int i = 0; i < l->arg_count && !status; i++)
    if (l->args[i].is_array)
      status = nereid_copy_to_host(d, l->args[i].array.data, l->args[i].device_pointer, l->args[i].array.bytes, &err);
  free(args);
  release(d, l);
  return status ? report_error(err) : 0;
}

/* ---- the debugger: --step ---------------------------------------------------------------------------------------- */

static void print_value(const Walk *w, nereid_step *s, const char *name, int max) {
  for (int i = nereid_step_value_count(s) - 1; i >= 0; i--) {
    if (strcmp(nereid_step_value_name(s, i), name)) continue;
    char *text = nereid_step_value_text(s, i, max);
    printf("%s = %s\n", name, text ? text : "?");
    free(text);
    return;
  }
  for (int i = 0; i < w->launch->arg_count; i++) { /* a constexpr */
    const LaunchArg *a = &w->launch->args[i];
    if (!a->is_array && !strcmp(a->name, name)) return (void)printf("%s = %s\n", name, a->spec);
  }
  printf("there is no value '%s' yet; `v` lists those there are\n", name);
}

static void print_source_line(const char *path, int line) {
  static const int64_t most = 64 << 20;
  const char *why;
  char *text = read_text(path, most, &why), *at = text;
  for (int i = 1; at && i < line; i++) {
    at = strchr(at, '\n');
    if (at) at++;
  }
  printf("%5d  %.*s\n", line, at ? (int)strcspn(at, "\n") : 0, at ? at : "");
  free(text);
}

static bool is_breakpoint(const Walk *w, int line) {
  for (int i = 0; i < w->n; i++)
    if (w->lines[i] == line) return true;
  return false;
}

/* `b LINE`, or `b` alone, which lists them; a second `b LINE` takes it away. */
static void breakpoint(Walk *w, nereid_step *s, const char *text) {
  int line, there;
  if (!*text) {
    for (int i = 0; i < w->n; i++) printf("%d\n", w->lines[i]);
    if (!w->n) printf("no breakpoints; `b 12` stops before line 12\n");
  } else if (!read_count(text, 1, INT32_MAX, &line)) {
    printf("`b 12` stops before line 12\n");
  } else if (is_breakpoint(w, line)) {
    int kept = 0;
    for (int i = 0; i < w->n; i++)
      if (w->lines[i] != line) w->lines[kept++] = w->lines[i];
    w->n = kept;
    printf("no breakpoint at line %d any more\n", line);
  } else if (w->n == (int)(sizeof w->lines / sizeof *w->lines)) {
    printf("there are %d breakpoints already\n", w->n);
  } else if ((there = nereid_step_line(s, line)) != line) {
    if (there) printf("no statement begins at line %d; the next one is at line %d\n", line, there);
    else printf("no statement begins at line %d or after it\n", line);
  } else {
    w->lines[w->n++] = line;
    printf("stops before line %d\n", line);
  }
}

/* A value by its name, or an expression over values and the launch's numbers. */
static void print_expression(const Walk *w, nereid_step *s, const char *text) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  int n = nereid_step_value_count(s), known = 0;
  if (!text[strspn(text, letters)]) return print_value(w, s, text, 64);
  size_t most = (size_t)(n + w->launch->arg_count + 1);
  const char **names = malloc(sizeof *names * most);
  double *values = malloc(sizeof *values * most);
  if (names && values) known = launch_numbers(w->launch, names, values); /* of two with one name the later counts */
  for (int i = 0; names && values && i < n; i++) {
    char *value = nereid_step_value_text(s, i, 2), *end = value, *number = value ? strrchr(value, ' ') : NULL;
    number = number ? number + 1 : value;
    double v = number ? strtod(number, &end) : 0;
    if (number && end != number && !*end && !strchr(value, '[')) {
      names[known] = nereid_step_value_name(s, i);
      values[known++] = v;
    }
    free(value);
  }
  char *shown = NULL;
  nereid_error *err = NULL;
  if (!names || !values) printf("out of memory\n");
  else if (nereid_step_eval(s, text, known, names, values, 64, &shown, &err)) printf("%s\n", nereid_error_message(err));
  else printf("%s = %s\n", text, shown);
  nereid_error_free(err);
  free(shown);
  free(names);
  free(values);
}

static bool step_prompt(void *arg, nereid_step *s, const char *file, int line, const int32_t program[3]) {
  Walk *w = arg;
  if (w->goes_on && !is_breakpoint(w, line)) return true;
  w->goes_on = false;
  printf("[program %d,%d,%d] %s\n", program[0], program[1], program[2], file);
  print_source_line(file, line);
  char command[256];
  for (;;) {
    printf("(n)ext (v)alues (p EXPRESSION) (b LINE) (c)ontinue (q)uit> ");
    fflush(stdout);
    if (!fgets(command, sizeof command, stdin)) return w->goes_on = true;
    command[strcspn(command, "\n")] = 0;
    if (!*command || !strcmp(command, "n")) return true;
    if (!strcmp(command, "c")) return w->goes_on = true;
    if (!strcmp(command, "q")) {
      w->was_stopped = true;
      return false;
    }
    if (!strcmp(command, "v"))
      for (int i = 0; i < nereid_step_value_count(s); i++) print_value(w, s, nereid_step_value_name(s, i), 6);
    else if (!strncmp(command, "p ", 2)) print_expression(w, s, command + 2);
    else if (!strcmp(command, "b")) breakpoint(w, s, "");
    else if (!strncmp(command, "b ", 2)) breakpoint(w, s, command + 2);
    else printf("unknown command '%s'\n", command);
  }
}

/* ---- checks and the table ---------------------------------------------------------------------------------------- */

/* As text, or with w as JSON. */
static void summary(const LaunchArg *a, JsonWriter *w) {
  int64_t n = array_count(&a->array), nans = 0;
  double low = INFINITY, high = -INFINITY, total = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = array_get(&a->array, i);
    if (isnan(v)) {
      nans++;
      continue;
    }
    if (v < low) low = v;
    if (v > high) high = v;
    total += v;
  }
  double mean = n > nans ? total / (double)(n - nans) : NAN;
  if (w) {
    json_begin_object(w, NULL);
    json_put_text(w, "name", a->name);
    json_put_text(w, "dtype", nereid_dtype_name(a->array.dtype));
    json_put_ints(w, "shape", a->array.shape, a->array.rank);
    json_put_int(w, "nan", nans);
    if (isfinite(low) && isfinite(high)) {
      json_put_real(w, "min", 9, low);
      json_put_real(w, "max", 9, high);
      json_put_real(w, "mean", 9, mean);
    }
    json_end_object(w);
    return;
  }
  char shape[160] = "";
  for (int d = 0, at = 0; d < a->array.rank; d++)
    at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%ld", d ? "," : "", (long)a->array.shape[d]);
  printf("  %-16s %s[%s]", a->name, nereid_dtype_name(a->array.dtype), shape);
  if (n > nans) printf("  min %.6g  mean %.6g  max %.6g", low, mean, high);
  if (nans) printf("  NaN: %ld", (long)nans);
  printf("  [");
  for (int64_t i = 0; i < n && i < 4; i++) printf("%s%.6g", i ? ", " : "", array_get(&a->array, i));
  printf("%s]\n", n > 4 ? ", ..." : "");
}

/* Compares argument c->name with c->value: @FILE.npy, or `interp`, whose result stands in `reference`. */
static int check_one(Run *r, const Pair *c, const Launch *reference, JsonWriter *w) {
  LaunchArg *a = launch_arg(&r->launch, c->name);
  nereid_error *err = NULL;
  Array file = {0};
  const Array *want;
  if (!strcmp(c->value, "interp")) {
    want = &launch_arg((Launch *)reference, c->name)->array;
  } else {
    if (array_read_npy(&file, c->value + 1, &err)) return report_error(err);
    if (nereid_dtype_bytes(file.dtype) == 2 && a->array.dtype == NEREID_BF16 && file.dtype == NEREID_U16)
      file.dtype = NEREID_BF16;
    want = &file;
  }
  int status = 0;
  if (array_count(want) != array_count(&a->array)) {
    fprintf(stderr, "nereid run: --check %s: the reference has %ld elements, the argument %ld\n", c->name,
            (long)array_count(want), (long)array_count(&a->array));
    status = 1;
  } else {
    bool tf32 = r->tf32_chain && dtype_tolerance(a->array.dtype) > 0;
    double usual = dtype_tolerance(a->array.dtype);
    if (tf32) usual = fmax(usual, r->tf32_chain * TF32_TOLERANCE);
    double rtol = r->rtol >= 0 ? r->rtol : usual, atol = r->atol >= 0 ? r->atol
                                                         : tf32       ? rtol * array_largest(want)
                                                                      : rtol;
    Difference d = array_compare(&a->array, want, rtol, atol);
    status = d.mismatches != 0;
    if (w) {
      json_begin_object(w, NULL);
      json_put_text(w, "name", c->name);
      json_put_int(w, "elements", d.count);
      json_put_int(w, "mismatches", d.mismatches);
      json_put_real(w, "rtol", 6, rtol);
      json_put_real(w, "atol", 6, atol);
      json_put_bool(w, "agrees", !status);
      json_end_object(w);
    } else if (status) {
      printf("  check %s against %s: %s%ld of %ld differ%s; worst at %ld: %.9g, wanted %.9g (rtol %.2g, atol %.2g)\n",
             c->name, c->value, color(stdout, COLOR_ERROR), (long)d.mismatches, (long)d.count, color(stdout, COLOR_OFF),
             (long)d.worst_at, d.worst_got, d.worst_want, rtol, atol);
    } else {
      printf("  check %s against %s: %sagrees%s (largest difference %.3g; rtol %.2g, atol %.2g)\n", c->name, c->value,
             color(stdout, COLOR_GOOD), color(stdout, COLOR_OFF), d.max_abs_error, rtol, atol);
    }
  }
  array_free(&file);
  return status;
}

/* The same launch on the interpreter, on the same inputs. */
static int run_reference(Run *r, Launch *copy) {
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  if (nereid_device_open("interp", &d, &err)) return report_error(err);
  Run second = *r;
  second.launch = *copy;
  double a, b;
  int64_t grid[3];
  int status = launch_on(&second, d, grid, &a, &b);
  nereid_device_close(d);
  return status;
}

static int run_checked(Run *r) {
  Launch *l = &r->launch, reference = {0};
  int64_t grid[3];
  int status = launch_make_args(l);
  if (status) return status;
  if (!r->grid) return usage_error(&verb_run, "--grid says how many programs to run, as in --grid 'cdiv(n, BLOCK)'");
  for (int i = 0; i < r->check_count + r->output_count; i++) {
    const Pair *p = i < r->check_count ? &r->checks[i] : &r->outputs[i - r->check_count];
    LaunchArg *a = launch_arg(l, p->name);
    if (!a || !a->is_array) return usage_error(&verb_run, "there is no array argument '%s'", p->name);
    if (i < r->check_count && strcmp(p->value, "interp") && p->value[0] != '@')
      return usage_error(&verb_run, "--check %s=%s: give @FILE.npy, or interp to compare with the interpreter", p->name,
                         p->value);
  }
  bool with_interp = false;
  for (int i = 0; i < r->check_count; i++) with_interp |= !strcmp(r->checks[i].value, "interp");
  /* its own copy of the arguments, made before the launch changes them: the same seed gives the same data */
  if (with_interp) {
    reference = *l;
    reference.args = calloc((size_t)l->arg_count + 1, sizeof *l->args);
    if (!reference.args) return report_error(NULL);
    for (int i = 0; i < l->arg_count; i++) {
      LaunchArg *a = &reference.args[i];
      *a = l->args[i];
      if (!a->is_array) continue;
      a->array.data = malloc((size_t)a->array.bytes + 64);
      if (!a->array.data) return report_error(NULL);
      memcpy(a->array.data, l->args[i].array.data, (size_t)a->array.bytes);
    }
  }
  nereid_device *d = NULL;
  nereid_error *err = NULL;
  if (nereid_device_open(r->device, &d, &err)) return report_error(err);
  double compile_ms = 0, launch_ms = 0;
  status = launch_on(r, d, grid, &compile_ms, &launch_ms);
  nereid_device_close(d);
  if (!status && with_interp) status = run_reference(r, &reference);
  JsonWriter json = {.file = stdout}, *w = r->json ? &json : NULL;
  if (!status && w) {
    json_begin_object(&json, NULL);
    json_put_text(&json, "kernel", l->kernel->name);
    json_put_text(&json, "device", r->device);
    json_put_ints(&json, "grid", grid, 3);
    json_put_fixed(&json, "compile_ms", 3, compile_ms);
    json_put_fixed(&json, "launch_ms", 4, launch_ms);
    json_begin_array(&json, "arrays");
  } else if (!status) {
    if (r->was_stopped) printf("stopped before the kernel ended; the arrays hold what was stored until then\n");
    printf("%s on %s: grid %ld x %ld x %ld, compiled in %.1f ms, ran in %.3f ms\n", l->kernel->name, r->device,
           (long)grid[0], (long)grid[1], (long)grid[2], compile_ms, launch_ms);
  }
  for (int i = 0; i < l->arg_count && !status; i++)
    if (l->args[i].is_array) summary(&l->args[i], w);
  if (!status && w) {
    json_end_array(w);
    json_begin_array(w, "checks");
  }
  int failed = status;
  for (int i = 0; i < r->check_count && !status; i++) failed |= check_one(r, &r->checks[i], &reference, w);
  if (!status && w) {
    json_end_array(w);
    json_end_object(w);
    printf("\n");
  }
  for (int i = 0; i < r->output_count && !status; i++)
    if (array_write_npy(&launch_arg(l, r->outputs[i].name)->array, r->outputs[i].value, &err))
      failed |= report_error(err);
  for (int i = 0; reference.args && i < reference.arg_count; i++)
    if (reference.args[i].is_array) array_free(&reference.args[i].array);
  free(reference.args);
  return failed;
}

static int run(int argc, char **argv) {
  Run r = {.device = "cpu", .rtol = -1, .atol = -1};
  int status = launch_parse(&r.launch, &verb_run, argc, argv, run_option, &r);
  if (!status && r.step && strcmp(r.device, "interp")) status = usage_error(&verb_run, "--step needs --device interp");
  if (!status && r.step && r.json) status = usage_error(&verb_run, "--step talks to a person; leave out --json");
  if (!status) status = run_checked(&r);
  for (int i = 0; i < r.check_count; i++) free(r.checks[i].name);
  for (int i = 0; i < r.output_count; i++) free(r.outputs[i].name);
  launch_free(&r.launch);
  return status;
}

const Verb verb_run = {
    "run", "run FILE[:KERNEL] ARG=SPEC ... --grid EXPR[,EXPR[,EXPR]] [options]",
    "compiles a kernel and launches it once", run,
    "  SPEC           4096, 2^20, 1e-5, true, none, i64:7: a number; randn:f32[4096,n]: an array (also rand, zeros, "
    "ones, empty,\n"
    "                 arange, full(V), randint(LO,HI)), with strides randn:f32[64,32|128,1]; like:NAME; @FILE.npy; "
    "desc[64,32]:ARRAY;\n"
    "                 for a constexpr parameter any Python expression\n"
    "  --grid G       programs along x, y, z; expressions over the arguments: 'cdiv(n, BLOCK)'\n"
    "  --device D     cpu (default), cpu:THREADS, interp, cuda, cuda:N, sim (a GPU simulated here), sim:sm_80\n"
    "  --block X[,Y[,Z]], --shared BYTES  FILE.cu: threads of a block, dynamic shared memory; a kernel of CUDA C runs "
    "on cuda only\n"
    "  --check A=REF  compare array A after the launch with @FILE.npy, or with the interpreter's result: A=interp\n"
    "  --rtol, --atol R  tolerance of --check; by default what rounding of the type explains\n"
    "  -o A=FILE.npy  save array A after the launch\n"
    "  --warps N, --stages N, --ctas N (num_ctas: above 1, neighbouring blocks share tiles), --debug (device_assert "
    "checks), --seed N\n"
    "  --define NAME=EXPR  what a free name of the file is: WIDTH=128, ACT=relu, TYPE=tl.float16\n"
    "  --limits LIST  what compiling, and a launch on interp and sim, may take: "
    "memory=4G,steps=1e9,operations=1e12,file=1M\n"
    "  --without P,... sim, cuda: what the compiler leaves out: {without}\n"
    "  --persist      sim, cuda: a block runs several programs, as many blocks as the GPU runs at once\n"
    "  --specialize   sim, cuda: warps of their own copy tiles for those that multiply\n"
    "  --program X[,Y[,Z]]  run only this program\n"
    "  --races, --allow-unwritten  interp: report races between programs; let reads of unwritten memory pass\n"
    "  --step         interp: walk through the kernel statement by statement; values, expressions, breakpoints\n"
    "  --json         the result as JSON\n\n"
    "example: nereid run kernels/vector_add.py x_ptr=randn:f32[1000] y_ptr=randn:f32[1000] out_ptr=empty:f32[1000] "
    "n=1000 \\\n"
    "           BLOCK=256 --grid 'cdiv(n, BLOCK)' --check out_ptr=interp\n"};
