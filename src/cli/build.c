/* build: kernels compiled ahead of time, into C files or a bundle; and the sources of what runs them. */
#include "cli.h"
#include "replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char runtime_text[] =
#include "nereid_rt.c.inc"
    ;
static const char header_text[] =
#include "nereid.h.inc"
    ;

enum { MOST_CASES = 64 };

typedef struct Build {
  Launch launch;
  const char *target, *output, *cc, *from, *root, *runtime, *grid, *tuned_on;
  const char *cases[MOST_CASES];
  int case_count;
  bool only_cases, json;
  int kernels, launches, left_out; /* what was done */
} Build;

static int build_option(void *arg, int argc, char **argv) {
  Build *b = arg;
  bool *flag = !strcmp(argv[0], "--only-for") ? &b->only_cases : !strcmp(argv[0], "--json") ? &b->json : NULL;
  if (flag) return *flag = true, 1;
  bool is_case = !strcmp(argv[0], "--for");
  const char **text = !strcmp(argv[0], "--target")           ? &b->target
                      : !strcmp(argv[0], "-o")               ? &b->output
                      : !strcmp(argv[0], "--cc")             ? &b->cc
                      : !strcmp(argv[0], "--from")           ? &b->from
                      : !strcmp(argv[0], "--root")           ? &b->root
                      : !strcmp(argv[0], "--runtime-source") ? &b->runtime
                      : !strcmp(argv[0], "--grid")           ? &b->grid
                      : !strcmp(argv[0], "--tuned-on")       ? &b->tuned_on
                                                             : NULL;
  if (!text && !is_case) return 0;
  if (argc < 2) return usage_error(&verb_build, "%s needs a value", argv[0]), -1;
  if (is_case && b->case_count == MOST_CASES)
    return usage_error(&verb_build, "--for is given more than %d times", MOST_CASES), -1;
  if (is_case) b->cases[b->case_count++] = argv[1];
  else *text = argv[1];
  return 2;
}

/* ---- the runtime's sources --------------------------------------------------------------------------------------- */

static int write_text(const char *folder, const char *name, const char *text) {
  char *path = format_string("%s/%s", folder, name);
  FILE *f = path ? fopen(path, "we") : NULL;
  bool good = f && fputs(text, f) >= 0;
  if (f && fclose(f)) good = false;
  if (!good) fprintf(stderr, "nereid build: cannot write %s: %s\n", path ? path : name, strerror(errno));
  free(path);
  return !good;
}

static int write_runtime(const char *folder) {
  if (mkdir(folder, 0777) && errno != EEXIST)
    return fprintf(stderr, "nereid build: cannot make %s: %s\n", folder, strerror(errno)), 1;
  return write_text(folder, "nereid_rt.c", runtime_text) || write_text(folder, "nereid.h", header_text);
}

/* ---- kernels of the command line --------------------------------------------------------------------------------- */

/* One kernel's words. */
static int add_kernel(nereid_build *b, int argc, char **argv) {
  Build k = {0};
  Launch *l = &k.launch;
  nereid_error *err = NULL;
  nereid_device *tuned_on = NULL;
  int status = launch_parse(l, &verb_build, argc, argv, build_option, &k);
  if (!status) status = launch_find_kernel(l);
  nereid_build_arg *args = calloc((size_t)l->arg_count + 1, sizeof *args);
  for (int i = 0; args && i < l->arg_count; i++) args[i] = (nereid_build_arg){l->args[i].name, l->args[i].spec};
  if (!status && k.tuned_on && nereid_device_open(k.tuned_on, &tuned_on, &err)) status = report_error(err);
  const nereid_build_how how = {
      .grid = k.grid, .cases = k.cases, .case_count = k.case_count, .only_cases = k.only_cases, .tuned_on = tuned_on};
  if (!status && nereid_build_add(b, l->module, l->kernel->name, args, l->arg_count, &how, &l->options, &err))
    status = report_error(err);
  free(args);
  nereid_device_close(tuned_on);
  launch_free(l);
  return status;
}

/* Kernels stand one after the other, with --then between. */
static int add_kernels(nereid_build *b, int argc, char **argv, Build *all) {
  int status = 0;
  for (int i = 1, end; i < argc && !status; i = end + 1) {
    for (end = i; end < argc && strcmp(argv[end], "--then");) end++;
    argv[i - 1] = argv[0];
    status = add_kernel(b, end - i + 1, argv + i - 1);
    all->kernels++;
  }
  return status;
}

/* What holds for all kernels may stand with any of them. */
static int read_all(int argc, char **argv, Build *all) {
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] != '-' || !strcmp(argv[i], "--then")) continue;
    int took = build_option(all, argc - i, argv + i);
    if (!took) took = option_words(argv[i]);
    if (!took) took = option_of_others(&verb_build, argc - i, argv + i);
    if (took < 0) return 2;
    if (took > 1) i += took - 1;
  }
  return 0;
}

/* ---- a log ------------------------------------------------------------------------------------------------------- */

/* A line, with the kernel's module if it is the first that needs it. */
typedef struct Line {
  Json *row;
  Recorded launch;
  nereid_module *module;
} Line;

typedef struct FromLog {
  nereid_build *build;
  const char *root;
  Line **kept; /* modules read names from them */
  int kept_count, launches, left_out;
} FromLog;

static void free_line(Line *l) {
  if (!l) return;
  nereid_module_free(l->module);
  recorded_free(&l->launch);
  json_free(l->row);
  free(l);
}

/* That of an earlier line, if it is the same; else the line has it. NULL: *why says. */
static nereid_module *find_module(FromLog *f, Line *l, char *why, size_t size) {
  nereid_error *err = NULL;
  for (int i = 0; i < f->kept_count; i++)
    if (recorded_same_module(&f->kept[i]->launch, &l->launch)) return f->kept[i]->module;
  if (recorded_load(&l->launch, &l->module, &err)) snprintf(why, size, "%s", nereid_error_message(err));
  nereid_error_free(err);
  return l->module;
}

/* Nobody reads the arrays; but where they are aligned counts. */
static void place_arrays(Recorded *r) {
  for (int i = 0; i < r->count; i++)
    if (r->args[i].kind == NEREID_ARG_POINTER || r->args[i].kind == NEREID_ARG_DESCRIPTOR)
      r->args[i].pointer = (void *)(uintptr_t)(json_get_int(r->nodes[i], "aligned", 1) ? 4096 : 4104);
}

static bool add_line(FromLog *f, Line *l, char *why, size_t size) {
  const Json *meta = json_get(l->row, "meta");
  const nereid_options o = {.num_warps = (int)json_get_int(meta, "num_warps", 0),
                            .num_stages = (int)json_get_int(meta, "num_stages", 0),
                            .num_ctas = (int)json_get_int(meta, "num_ctas", 0)};
  const char *kernel = json_get_text(l->row, "kernel", NULL);
  snprintf(why, size, "the log's line is no launch");
  if (!kernel || !json_get_text(l->row, "file", NULL) || !recorded_read(&l->launch, why, size)) return false;
  place_arrays(&l->launch);
  nereid_module *m = find_module(f, l, why, size);
  nereid_error *err = NULL;
  bool good = m && !nereid_build_add_launch(f->build, m, kernel, l->launch.args, l->launch.given, &o, &err);
  if (err) snprintf(why, size, "%s", nereid_error_message(err));
  nereid_error_free(err);
  return good;
}

/* text: of a line. False: it is left out. */
static bool read_line(FromLog *f, const char *text, char *why, size_t size) {
  const char *reason = NULL;
  Line *l = calloc(1, sizeof *l), **more = realloc(f->kept, sizeof *more * (size_t)(f->kept_count + 1));
  if (more) f->kept = more;
  if (!l || !more) return snprintf(why, size, "out of memory"), free(l), false;
  if (!(l->row = json_parse(text, &reason))) return snprintf(why, size, "no JSON: %s", reason), free_line(l), false;
  l->launch = (Recorded){.row = l->row, .root = f->root};
  char detail[1024];
  bool good = add_line(f, l, detail, sizeof detail);
  if (!good) snprintf(why, size, "%s: %s", json_get_text(l->row, "kernel", "?"), detail);
  if (l->module) f->kept[f->kept_count++] = l;
  else free_line(l);
  return good;
}

static int add_log(nereid_build *b, Build *all) {
  FromLog f = {.build = b, .root = all->root};
  const char *why = NULL;
  char *text = read_text(all->from, (int64_t)1 << 30, &why);
  if (!text) return fprintf(stderr, "nereid build: cannot read %s: %s\n", all->from, why), 1;
  int64_t start = now_ns();
  int line = 0;
  for (char *p = text, *next; *p; p = next) {
    char *end = p + strcspn(p, "\n"), reason[1200];
    next = *end ? end + 1 : end;
    *end = 0;
    line++;
    if (!p[strspn(p, " \t\r")]) continue;
    progress(start, "line %d, %d launches", line, f.launches);
    f.launches++;
    if (read_line(&f, p, reason, sizeof reason)) continue;
    progress_clear();
    fprintf(stderr, "nereid build: %s:%d is left out: %s\n", all->from, line, reason);
    f.left_out++;
  }
  progress_clear();
  if (!all->json) printf("%d launches, %d left out\n", f.launches, f.left_out);
  all->launches = f.launches, all->left_out = f.left_out;
  for (int i = 0; i < f.kept_count; i++) free_line(f.kept[i]);
  free(f.kept), free(text);
  return f.launches == f.left_out ? 1 : 0;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static bool is_bundle(const char *path) {
  size_t n = strlen(path);
  return n > 7 && !strcmp(path + n - 7, ".nereid");
}

static void print_json(const Build *all) {
  JsonWriter w = {.file = stdout};
  json_begin_object(&w, NULL);
  json_put_text(&w, "output", all->output);
  json_put_text(&w, "targets", all->target);
  json_put_int(&w, "kernels", all->kernels);
  json_put_int(&w, "launches", all->launches);
  json_put_int(&w, "left_out", all->left_out);
  json_end_object(&w);
  printf("\n");
}

static int build(int argc, char **argv) {
  Build all = {0};
  nereid_error *err = NULL;
  nereid_build *b = NULL;
  int status = read_all(argc, argv, &all);
  if (!status && all.runtime) status = write_runtime(all.runtime);
  if (status || (all.runtime && !all.output)) return status;
  if (!all.output) return usage_error(&verb_build, "-o says what to write: NAME for NAME.h and NAME.c, or FILE.nereid");
  if (!all.target) return usage_error(&verb_build, "--target says what to build for, as in sm_80,sm_90a,cpu");
  if (all.from && !all.root) return usage_error(&verb_build, "--root says where the log's files are");
  const nereid_build_options o = {.targets = all.target, .cc = all.cc};
  if (nereid_build_create(&o, &b, &err)) return report_error(err);
  status = all.from ? add_log(b, &all) : add_kernels(b, argc, argv, &all);
  if (!status &&
      (is_bundle(all.output) ? nereid_build_write(b, all.output, &err) : nereid_build_write_c(b, all.output, &err)))
    status = report_error(err);
  nereid_build_free(b);
  if (!status && all.json) print_json(&all);
  return status;
}

/* clang-format off */
const Verb verb_build = {"build",
  "build FILE.py[:KERNEL] ARG=TYPE ... --target T,T... -o NAME [options] [--then FILE.py:KERNEL ...]",
                         "compiles kernels ahead of time", build,
                         "  ARG=TYPE        f32* or f32[M,N]: a pointer (the shape is for people); i32, f32, i1, none; 'tensordesc<f16[128,64]>';\n"
                        "                  '(f32*, n=i32)': a tuple of such, whose items may have names; else a constant's value: BLOCK=1024.\n"
                         "                  After the type of a pointer or an integer :16|1|any names the cases to build for: divisible by 16 (a\n"
                         "                  pointer: aligned to 16 bytes), equal to one, any. Else: all divisible; pointers alone; none\n"
                         "  --target T,...  sm_80 sm_90a ...: machine code, and PTX for later GPUs; cpu: x86-64-v3, or what the compiler makes by itself;\n"
                         "                  cpu:PROCESSOR as -march takes it, cpu:native. None of them need be here\n"
                         "  -o NAME         NAME.h with a launcher for each kernel, and NAME.c; FILE.nereid: a bundle (nereid_bundle_open)\n"
                         "  --grid G        EXPR[,EXPR[,EXPR]] over integers and constants: 'cdiv(n, BLOCK)'; without it each launch says its grid\n"
                         "  --warps N, --stages N, --ctas N, --persist, --specialize, --without LIST, --debug, --define, --limits  as for nereid run\n"
                         "  --for V         n=4096,m=8: code for these values, in the configuration after a colon (n=4096:BLOCK=256,num_warps=8), or in the\n"
                         "                  one that tuning found on --tuned-on D; may be repeated. --only-for: for no others\n"
                         "  --tuned-on D    the device whose winners are taken: cpu, cuda:0\n"
                         "  --cc COMMAND    the C compiler of cpu targets, also one for another machine: aarch64-linux-gnu-gcc\n"
                         "  --then          what follows is another kernel of the same bundle\n"
                         "  --from LOG.jsonl --root DIR  all that a recorded program launches, instead of kernels\n"
                         "  --json          what was built as JSON\n"
                         "  --runtime-source DIR  writes nereid_rt.c and nereid.h there: what runs the code, to be compiled with the program\n\n"
                         "example: nereid build kernels/softmax.py:softmax x_ptr=f32[M,N] out_ptr=f32[M,N] x_stride=i32 out_stride=i32 n_cols=i32 \\\n"
                         "           BLOCK=1024 --target sm_80,sm_90a,cpu -o softmax\n"};
/* clang-format on */
