/* lib_gpu.c: what triton.language.extra.cuda and target_info hold: facts of the target, and functions that only a GPU
 * has. */
#include "front/library/lib.h"

static Py *call_conversion(Front *fr, const Builtin *b, Span at, Py **args) {
  lib_fail(fr, at, b, "use .to(...)", "this conversion of Triton's own library is not here by its name");
}

/* Launches are ordered here, so waiting for the one before, or announcing the next, is done already. */
static Py *call_ordered(Front *fr, const Builtin *b, Span at, Py **args) { return py_none(fr); }

static Py *call_warps(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_int(fr, fr->func->num_warps * (strcmp(b->name, "num_threads") ? 1 : 32));
}

static Py *call_false(Front *fr, const Builtin *b, Span at, Py **args) { return py_bool(fr, false); }
static Py *call_none(Front *fr, const Builtin *b, Span at, Py **args) { return py_none(fr); }
static Py *call_is_cuda(Front *fr, const Builtin *b, Span at, Py **args) {
  return py_bool(fr, fr->options->cuda_sm > 0);
}
static Py *call_geq(Front *fr, const Builtin *b, Span at, Py **args) {
  int major = lib_small_int(fr, at, b, "major", args[0]), minor = lib_small_int(fr, at, b, "minor", args[1]);
  return py_bool(fr, fr->options->cuda_sm >= major * 10 + minor && fr->options->cuda_sm > 0);
}

/* Special registers, as inline PTX: other devices refuse it where it would run. */
static Py *call_special(Front *fr, const Builtin *b, Span at, Py **args) {
  bool timer = !strcmp(b->name, "globaltimer");
  const Type *t = type_number(fr->cx, timer ? DT_I64 : DT_I32);
  Op *op = build_op(&fr->b, OP_ASM, 0, NULL, 1, &t);
  op->pack = 1;
  op->text = timer ? "mov.u64 $0, %globaltimer;\x1f=l" : "mov.u32 $0, %smid;\x1f=r";
  return py_tensor(fr, op->out[0]);
}

static const char GPU[] = "triton.language.extra.cuda", TARGET[] = "triton.language.target_info";
const Builtin lib_gpu_table[] = {
    {"tl.extra.cuda", "globaltimer", "", call_special, GPU, BUILTIN_PTX, "a register of a GPU"},
    {"tl.extra.cuda", "smid", "", call_special, GPU, BUILTIN_PTX, "a register of a GPU"},
    {"tl.extra.cuda", "convert_custom_float8_sm70", "arg, dst_ty, fp_downcast_rounding=None", call_conversion, GPU,
     BUILTIN_NOWHERE, "use .to(...)"},
    {"tl.extra.cuda", "convert_custom_float8_sm80", "arg, dst_ty, fp_downcast_rounding=None", call_conversion, GPU,
     BUILTIN_NOWHERE, "use .to(...)"},
    {"tl.extra.cuda", "num_warps", "", call_warps, GPU, 0, NULL},
    {"tl.extra.cuda", "num_threads", "", call_warps, GPU, 0, NULL},
    {"tl.extra.cuda", "gdc_wait", "", call_ordered, GPU, 0, "launches are ordered here"},
    {"tl.extra.cuda", "gdc_launch_dependents", "", call_ordered, GPU, 0, "launches are ordered here"},
    {"tl.target_info", "current_target", "", call_none, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_cuda", "", call_is_cuda, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_hip", "", call_false, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_hip_cdna3", "", call_false, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "is_hip_cdna4", "", call_false, TARGET, BUILTIN_HOST, NULL},
    {"tl.target_info", "cuda_capability_geq", "major, minor=0", call_geq, TARGET, BUILTIN_HOST, NULL},
    {0},
};
