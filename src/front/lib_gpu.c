/* lib_gpu.c: what triton.language.extra.cuda and target_info hold: facts of the target, and functions that only a GPU
 * has. */
#include "front/lib.h"

static Py *call_gpu_only(Front *fr, const Builtin *b, Span at, Py **args) {
  lib_fail(fr, at, b, "guard it with a constexpr parameter and leave it out here",
           "this is bound to a GPU and cannot run on this device");
}

/* Launches are ordered here, so waiting for the one before, or announcing the next, is done already. */
static Py *call_ordered(Front *fr, const Builtin *b, Span at, Py **args) { return py_none(fr); }

static Py *call_warps(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_int(fr, fr->func->num_warps * (strcmp(b->name, "num_threads") ? 1 : 32));
}

static Py *call_false(Front *fr, const Builtin *b, Span at, Py **args) { return py_bool(fr, false); }
static Py *call_none(Front *fr, const Builtin *b, Span at, Py **args) { return py_none(fr); }

static const char GPU[] = "triton.language.extra.cuda", TARGET[] = "triton.language.target_info";
const Builtin lib_gpu_table[] = {
    {"tl.extra.cuda", "globaltimer", "", call_gpu_only, GPU, BUILTIN_NO_CPU, "bound to a GPU"},
    {"tl.extra.cuda", "smid", "", call_gpu_only, GPU, BUILTIN_NO_CPU, "bound to a GPU"},
    {"tl.extra.cuda", "convert_custom_float8_sm70", "arg, dst_ty, fp_downcast_rounding=None", call_gpu_only, GPU,
     BUILTIN_NO_CPU, "use .to(...)"},
    {"tl.extra.cuda", "convert_custom_float8_sm80", "arg, dst_ty, fp_downcast_rounding=None", call_gpu_only, GPU,
     BUILTIN_NO_CPU, "use .to(...)"},
    {"tl.extra.cuda", "num_warps", "", call_warps, GPU, 0, NULL},
    {"tl.extra.cuda", "num_threads", "", call_warps, GPU, 0, NULL},
    {"tl.extra.cuda", "gdc_wait", "", call_ordered, GPU, 0, "launches are ordered here"},
    {"tl.extra.cuda", "gdc_launch_dependents", "", call_ordered, GPU, 0, "launches are ordered here"},
    {"tl.target_info", "current_target", "", call_none, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_cuda", "", call_false, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_hip", "", call_false, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_hip_cdna3", "", call_false, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_hip_cdna4", "", call_false, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "cuda_capability_geq", "major, minor=0", call_false, TARGET, BUILTIN_HOST, NULL},
    {0},
};
