/* inspect: prints what a kernel becomes at a stage of its compilation. */
#include "cli.h"
#include <stdlib.h>
#include <string.h>

typedef struct Inspect { Launch launch; const char *stage, *target; } Inspect;

static int inspect_option(void *arg, int argc, char **argv) {
  Inspect *in = arg;
  const char **text = !strcmp(argv[0], "--stage") ? &in->stage : !strcmp(argv[0], "--target") ? &in->target
                      : !strcmp(argv[0], "--dump-after") ? &in->launch.options.dump_after : NULL;
  if (!text) return 0;
  if (argc < 2) return usage_error(&verb_inspect, "%s needs a value", argv[0]), -1;
  return *text = argv[1], 2;
}

static int inspect(int argc, char **argv) {
  Inspect in = {.launch.shapes_only = true, .target = "host"};
  Launch *l = &in.launch;
  int status = launch_parse(l, &verb_inspect, argc, argv, inspect_option, &in);
  if (!in.stage) in.stage = l->path && launch_is_cuda_c(l->path) ? "ptx" : "tile";
  bool whole_file = !strcmp(in.stage, "ast");
  if (!status && !whole_file) status = launch_make_args(l);
  nereid_arg *args = status ? NULL : launch_arg_list(l);
  char *text = NULL;
  nereid_error *err = NULL;
  if (!status && nereid_inspect(l->module, whole_file ? l->kernel_name : l->kernel->name, args, whole_file ? 0 : l->arg_count, &l->options,
                                in.stage, in.target, &text, &err))
    status = report_error(err);
  if (!status) fputs(text, stdout);
  free(text), free(args);
  launch_free(l);
  return status;
}

const Verb verb_inspect = {"inspect", "inspect FILE[:KERNEL] [ARG=SPEC ...] --stage STAGE [--target T] [options]",
                           "shows what a kernel becomes, stage by stage", inspect,
                           "  --stage S       ast (of the whole file), tile-raw (as the front end made it), tile (after all passes; default), c;\n"
                           "                  for a GPU, which need not be there: layout, lane, ptx, sass (these two with a summary), summary\n"
                           "  --target T      host (default); sm_80 sm_86 sm_89 sm_90a (default of a GPU's stages) sm_100a sm_103a sm_120a ...\n"
                           "  --dump-after P  the IR after pass P: sum_dots fold cse licm canonical_loops dce facts drop_hints; for a GPU prefetch layout lower\n"
                           "                  carry wide lane-dce shared; or all\n"
                           "  ARG=SPEC as for nereid run; arrays give type, shape and alignment, and are not filled\n"
                           "  FILE.cu         CUDA C, through NVRTC: ptx (default) and sass; no arguments are needed\n\n"
                           "example: nereid inspect kernels/softmax.py:softmax x_ptr=randn:f32[8,781] out_ptr=like:x_ptr x_stride=781 \\\n"
                           "           out_stride=781 n_cols=781 BLOCK=1024 --stage ptx\n"};
