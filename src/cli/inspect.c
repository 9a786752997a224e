/* inspect: prints what a kernel becomes at a stage of its compilation, or what a launch of it will ask of a GPU. */
#include "cli.h"

#include "base/json.h"
#include <stdlib.h>
#include <string.h>

typedef struct Inspect {
  Launch launch;
  const char *stage, *target, *grid, *multiprocessors;
  bool report, json;
} Inspect;

static int inspect_option(void *arg, int argc, char **argv) {
  Inspect *in = arg;
  bool *flag = !strcmp(argv[0], "--report") ? &in->report : !strcmp(argv[0], "--json") ? &in->json : NULL;
  if (flag) return *flag = true, 1;
  if (!strcmp(argv[0], "--instrument")) return in->launch.options.instrument = NEREID_INSTRUMENT_DEFAULT, 1;
  const char **text = !strcmp(argv[0], "--stage")             ? &in->stage
                      : !strcmp(argv[0], "--target")          ? &in->target
                      : !strcmp(argv[0], "--grid")            ? &in->grid
                      : !strcmp(argv[0], "--multiprocessors") ? &in->multiprocessors
                      : !strcmp(argv[0], "--dump-after")      ? &in->launch.options.dump_after
                                                              : NULL;
  if (!text) return 0;
  if (argc < 2) return usage_error(&verb_inspect, "%s needs a value", argv[0]), -1;
  return *text = argv[1], 2;
}

static int check_options(const Inspect *in) {
  if (in->report && in->stage)
    return usage_error(&verb_inspect, "--report is no stage of the compilation: leave --stage out, or --report");
  const char *idle = in->report ? NULL : in->grid ? "--grid" : in->multiprocessors ? "--multiprocessors" : NULL;
  if (idle) fprintf(stderr, "nereid inspect: passing over %s, an option of --report\n", idle);
  return 0;
}

static int report(Inspect *in) {
  Launch *l = &in->launch;
  nereid_report_options how = {.target = strcmp(in->target, "host") ? in->target : NULL, .occupancy_only = !in->grid};
  int64_t grid[3], multiprocessors = 0;
  l->fills_integers = true;
  int status = launch_make_args(l);
  if (!status && in->grid) status = launch_grid(l, in->grid, grid);
  if (!status && in->multiprocessors) status = launch_eval(l, in->multiprocessors, &multiprocessors);
  if (!status && in->multiprocessors && (multiprocessors < 1 || multiprocessors > 100000))
    status = usage_error(&verb_inspect, "--multiprocessors %s: a GPU has at least one", in->multiprocessors);
  how.multiprocessors = (int)multiprocessors;
  nereid_arg *args = status ? NULL : launch_arg_list(l);
  if (!status && !args) status = report_error(NULL);
  for (int i = 0; args && i < l->arg_count; i++)
    if (l->args[i].is_array) launch_arg_knows(&args[i], &l->args[i].array);
  nereid_report *r = NULL;
  nereid_error *err = NULL;
  char *text = NULL;
  if (!status && (nereid_report_launch(l->module, l->kernel->name, in->grid ? grid : NULL, args, l->arg_count,
                                       &l->options, &how, &r, &err) ||
                  nereid_report_text(r, in->json, &text, &err)))
    status = report_error(err);
  if (!status) fputs(text, stdout);
  if (!status && !in->grid && !in->json)
    fputs("(with --grid: waves, accesses, instructions and what bounds the launch)\n", stdout);
  nereid_report_free(r);
  free(text), free(args);
  return status;
}

static void print_json(const Inspect *in, bool whole_file, const char *text) {
  JsonWriter w = {.file = stdout};
  json_begin_object(&w, NULL);
  json_put_text(&w, "file", in->launch.path);
  if (whole_file) json_put_null(&w, "kernel");
  else json_put_text(&w, "kernel", in->launch.kernel->name);
  json_put_text(&w, "stage", in->stage);
  json_put_text(&w, "target", in->target);
  json_put_text(&w, "text", text);
  json_end_object(&w);
  printf("\n");
}

static int inspect(int argc, char **argv) {
  Inspect in = {.launch.shapes_only = true, .target = "host"};
  Launch *l = &in.launch;
  int status = launch_parse(l, &verb_inspect, argc, argv, inspect_option, &in);
  if (!status) status = check_options(&in);
  if (status || in.report) {
    if (!status) status = report(&in);
    launch_free(l);
    return status;
  }
  if (!in.stage) in.stage = l->path && launch_is_cuda_c(l->path) ? "ptx" : "tile";
  bool whole_file = !strcmp(in.stage, "ast");
  if (!status && !whole_file) status = launch_make_args(l);
  nereid_arg *args = status ? NULL : launch_arg_list(l);
  if (!status && !args) status = report_error(NULL);
  char *text = NULL;
  nereid_error *err = NULL;
  if (!status && nereid_inspect(l->module, whole_file ? l->kernel_name : l->kernel->name, args,
                                whole_file ? 0 : l->arg_count, &l->options, in.stage, in.target, &text, &err))
    status = report_error(err);
  if (!status && in.json) print_json(&in, whole_file, text);
  else if (!status) fputs(text, stdout);
  free(text), free(args);
  launch_free(l);
  return status;
}

/* clang-format off */
const Verb verb_inspect = {"inspect",
  "inspect FILE[:KERNEL] [ARG=SPEC ...] --stage STAGE | --report [--target T] [options]",
                           "shows what a kernel becomes, stage by stage", inspect,
                           "  --stage S       ast (of the whole file), tile-raw (as the front end made it), tile (after all passes; default), c;\n"
                           "                  for a GPU, which need not be there: layout, lane, ptx, sass (these two with a summary), summary\n"
                           "  --report        what a launch will ask of a GPU, which need not be there: registers, occupancy, waves, the sectors and bank\n"
                           "                  conflicts of each access, instructions, and what bounds it; with --grid EXPR[,EXPR[,EXPR]]\n"
                           "  --json          one object: the report, or the stage's text under `text`\n"
                           "  --multiprocessors N  of the report's GPU; else those of a typical one (--target cuda:0: of the one that is there)\n"
                           "  --target T      host (default); sm_80 sm_86 sm_89 sm_90a (default of a GPU's stages) sm_100a sm_103a sm_120a ...\n"
                           "  --dump-after P  the IR after pass P: fold_dot_sum drop_dims fold cse licm nest_loops canonical_loops dce axis_info drop_hints; for a GPU prefetch regions layout\n"
                           "                  lower carry wide lane-dce shared barriers; or all\n"
                           "  --instrument        the kernel as nereid prof --instrument instruments it\n"
                           "  ARG=SPEC as for nereid run; arrays give type, shape and alignment; a report goes by the values of integers, no others are\n"
                           "                  filled\n"
                           "  FILE.cu         CUDA C, through NVRTC: ptx (default) and sass; no arguments are needed\n\n"
                           "example: nereid inspect kernels/softmax.py:softmax x_ptr=randn:f32[8,781] out_ptr=like:x_ptr x_stride=781 \\\n"
                           "           out_stride=781 n_cols=781 BLOCK=1024 --stage ptx\n"};
/* clang-format on */
