/* Looking inside: the text of each stage of one kernel's compilation; and nereid_eval. Nothing here is cached, but for
 * what ptxas made.
 *
 *     ast ─ tile-raw ─ tile ─┬─ c                                    for this machine
 *                            └─ layout ─ lane ─ ptx ─ sass, summary  for a GPU, which need not be there
 */
#include <stdlib.h>

#include "layout/layout.h"
#include "runtime/cuda_c/cuda_c.h"
#include "runtime/runtime.h"
#include "tile/passes/instrument.h"
#include "syntax/syntax.h"

typedef enum {
  STAGE_AST,
  STAGE_TILE_RAW,
  STAGE_TILE,
  STAGE_C,
  STAGE_LAYOUT,
  STAGE_LANE,
  STAGE_PTX,
  STAGE_SASS,
  STAGE_SUMMARY,
  STAGE_CUBIN,
  STAGE_COUNT
} Stage;
static const char *const stage_names[] = {"ast", "tile-raw", "tile",    "c",     "layout", "lane",
                                          "ptx", "sass",     "summary", "cubin", NULL};
static const char *const default_target = "sm_90a";

typedef struct Inspection {
  nereid_module *module;
  const Call *call;         /* NULL for the AST */
  const KernelInfo *kernel; /* of CUDA C */
  const nereid_options *options;
  Stage stage;
  const GpuTarget *target; /* NULL: this machine */
  Buf text, print;
} Inspection;

static bool is_gpu_pass(const char *name) {
  for (const GpuPass *p = gpu_passes; name && p->name; p++)
    if (!strcmp(p->name, name)) return true;
  return false;
}

/* ---- a GPU's stages ---------------------------------------------------------------------------------------------- */

/* Every line of text as a comment. */
static void put_comment(Buf *out, const char *text, const char *mark) {
  for (size_t n; *text; text += n + (text[n] != 0)) {
    n = strcspn(text, "\n");
    buf_puts(out, mark);
    buf_write(out, text, n);
    buf_putc(out, '\n');
  }
}

static void put_summary(Inspection *in, const LaneFunc *f, const GpuCubin *cubin, const char *mark) {
  Buf *b = &in->print; /* freed with the inspection, also when this fails */
  size_t before = b->n;
  gpu_summary(b, f, in->target, cubin);
  if (b->failed) in->text.failed = true;
  else if (mark) put_comment(&in->text, b->at + before, mark);
  else buf_puts(&in->text, b->at + before);
  b->n = before; /* what is left there is printed */
  if (b->at) b->at[before] = 0;
}

static void inspect_lane(Inspection *in, Context *cx, const LaneFunc *f, GpuCubin *cubin,
                         volatile nereid_status *phase) {
  if (in->stage == STAGE_LANE) {
    lane_print(&in->text, f, false);
    return;
  }
  GpuPtx ptx = gpu_print_ptx(&in->text, f, in->target, true);
  if (in->text.failed) context_out_of_memory(cx);
  *phase = NEREID_INTERNAL;
  bool has_ptxas = gpu_ptxas(cx, &in->text, &ptx, in->target, cubin);
  if (in->stage == STAGE_PTX) {
    put_summary(in, f, has_ptxas ? cubin : NULL, "// ");
    return;
  }
  *phase = NEREID_NO_COMPILER;
  if ((in->stage == STAGE_SASS || in->stage == STAGE_CUBIN) && !has_ptxas)
    diag_fail_hint(
        cx, (Span){0},
        "install CUDA's ptxas (in the package cuda-nvcc), or name one in NEREID_PTXAS; the stage ptx needs none",
        "no ptxas was found: neither in PATH nor at /usr/local/cuda/bin/ptxas");
  in->text.n = 0;
  if (in->stage == STAGE_CUBIN) {
    buf_write(&in->text, cubin->bytes, cubin->size);
  } else if (in->stage == STAGE_SASS) {
    gpu_sass(cx, cubin, &in->text);
    put_summary(in, f, cubin, "// ");
  } else {
    put_summary(in, f, has_ptxas ? cubin : NULL, NULL);
  }
}

static void inspect_gpu(Inspection *in, Context *cx, Func *f, volatile nereid_status *phase) {
  const char *wrong;
  GpuOptions o = {.target = in->target,
                  .verify = true,
                  .persist = in->options->persist,
                  .specialize = in->options->specialize,
                  .tensor_maps = true,
                  .apart = true,
                  .without = gpu_without(in->options->without, &wrong)};
  if (in->options->dump_after) {
    o.dump_after = in->options->dump_after;
    o.dump = &in->text;
  }
  *phase = NEREID_UNSUPPORTED;
  if (in->stage == STAGE_LAYOUT) {
    gpu_lay_out(f, &o);
    layout_print_func(&in->text, f);
    return;
  }
  LaneFunc *lane = gpu_compile(f, &o);
  if (in->options->dump_after) return;
  GpuCubin cubin = {0};
  volatile bool done = false;
  if (context_try(cx)) {
    inspect_lane(in, cx, lane, &cubin, phase);
    context_end_try(cx);
    done = true;
  }
  gpu_cubin_free(&cubin);
  if (!done) diag_fail_now(cx);
}

static void inspect_cuda_c(Inspection *in, Context *cx, volatile nereid_status *phase) {
  const nereid_module *m = in->module;
  NvrtcResult r;
  nvrtc_compile(cx, m->path, m->text, in->kernel->info.name, in->target->name, &r, phase);
  *phase = NEREID_NO_COMPILER;
  GpuCubin cubin = {.bytes = (void *)r.cubin, .size = r.cubin_size};
  if (in->stage == STAGE_PTX) buf_puts(&in->text, r.ptx);
  else if (in->stage == STAGE_CUBIN) buf_write(&in->text, cubin.bytes, cubin.size);
  else gpu_sass(cx, &cubin, &in->text);
}

/* ---- all stages -------------------------------------------------------------------------------------------------- */

static void inspect(Inspection *in, Context *cx, volatile nereid_status *phase) {
  nereid_module *m = in->module;
  if (m->is_cuda_c) {
    inspect_cuda_c(in, cx, phase);
    return;
  }
  if (in->stage == STAGE_AST) {
    const Source *src = source_from_text(cx, m->path, m->text, m->size);
    if (!src) context_out_of_memory(cx);
    ast_dump(&in->text, parse_module(cx, src), false);
    return;
  }
  Compiled *front = compile_front(m, in->call, in->options, in->target ? in->target->sm : 0, cx, &in->print);
  Func *f = front->func;
  const char *dump_after = in->options->dump_after;
  *phase = NEREID_INTERNAL;
  if (in->stage == STAGE_TILE_RAW) {
    tile_print(&in->text, f, 0);
    return;
  }
  if (!in->target) {
    *phase = NEREID_UNSUPPORTED;
    tile_expand_asm(f);
    *phase = NEREID_INTERNAL;
  }
  tile_optimize(f, dump_after, dump_after ? &in->text : NULL, true);
  bool gpu = in->target && (in->stage > STAGE_C || is_gpu_pass(dump_after));
  if (dump_after && !gpu) return;
  if (gpu) {
    inspect_gpu(in, cx, f, phase);
    return;
  }
  tile_instrument(f);
  if (in->stage == STAGE_TILE) {
    tile_print(&in->text, f, 0);
    return;
  }
  *phase = NEREID_UNSUPPORTED;
  cpu_emit_c(f, false, CPU_TEXT_READABLE, &in->text, NULL);
}

static nereid_status run_inspection(Inspection *in, char **text, size_t *size, nereid_error **error) {
  Context *cx = context_within(in->options);
  if (!cx) return error_out_of_memory(error);
  volatile nereid_status status = NEREID_OK, phase = NEREID_BAD_SOURCE;
  if (context_try(cx)) {
    inspect(in, cx, &phase);
    if (in->text.failed) context_out_of_memory(cx);
    context_end_try(cx);
  } else {
    status = error_from_context(error, phase, cx);
  }
  warn_from_context(in->options, cx);
  context_destroy(cx);
  print_lines(&in->print, in->options);
  buf_destroy(&in->print);
  if (!status && !in->text.at) buf_puts(&in->text, "");
  if (!status && !in->text.at) status = error_out_of_memory(error);
  if (status) {
    buf_destroy(&in->text);
    return status;
  }
  *text = in->text.at;
  *size = in->text.n;
  return NEREID_OK;
}

static nereid_status check_pass(const Inspection *in, nereid_error **error) {
  const char *name = in->options->dump_after;
  if (!name || !strcmp(name, "all") || is_gpu_pass(name)) return NEREID_OK;
  Buf hint = {0};
  buf_puts(&hint, "there are ");
  for (const PassInfo *p = tile_passes; p->name; p++) {
    if (!strcmp(p->name, name)) return buf_destroy(&hint), NEREID_OK;
    const PassInfo *first = tile_passes; /* some run twice */
    while (strcmp(first->name, p->name)) first++;
    if (first == p) buf_printf(&hint, "%s, ", p->name);
  }
  for (const GpuPass *p = gpu_passes; p->name && in->target; p++) {
    const GpuPass *first = gpu_passes;
    while (strcmp(first->name, p->name)) first++;
    if (first == p) buf_printf(&hint, "%s, ", p->name);
  }
  buf_puts(&hint, "and all");
  nereid_status s = error_set(error, NEREID_BAD_ARGUMENT, hint.at, "there is no pass '%s'", name);
  buf_destroy(&hint);
  return s;
}

/* A device's name stands for the code that it runs: `sim` for sm_90a's, `sim:sm_80`, `cuda:1` for that of the GPU that
 * is there. NULL: none. */
const GpuTarget *target_named(const char *name) {
  const GpuTarget *t = gpu_target_find(name);
  if (t) return t;
  if (!strcmp(name, "sim")) return gpu_target_find(default_target);
  if (!strncmp(name, "sim:", 4)) return gpu_target_find(name + 4);
  enum { MOST = 64 };
  nereid_device_info info[MOST];
  for (int i = 0, n = strncmp(name, "cuda", 4) ? 0 : nereid_devices(info, MOST); i < n && i < MOST; i++)
    if (info[i].compute_capability && !strcmp(info[i].name, strcmp(name, "cuda") ? name : "cuda:0"))
      return gpu_target_for(info[i].compute_capability);
  return NULL;
}

/* Whose code it is: a GPU's by its name; of the GPU's stages sm_90a's otherwise. */
static nereid_status choose_target(Inspection *in, const char *name, const DeviceKind **kind, nereid_error **error) {
  bool gpu_stage = in->stage > STAGE_C || is_gpu_pass(in->options->dump_after), host = !name || !strcmp(name, "host");
  *kind = &device_cpu;
  if (!host) in->target = target_named(name);
  if (host && gpu_stage) in->target = gpu_target_find(default_target);
  if (!host && !in->target) {
    *kind = device_kind_find(name, strcspn(name, ":"));
    if (*kind == &device_cuda)
      return error_set(error, NEREID_NO_DEVICE, "name a GPU's target, such as sm_90a: the GPU need not be there",
                       "there is no GPU '%s' here", name);
    if (!*kind || *kind == &device_sim) {
      Buf hint = {0};
      buf_puts(&hint, "there are host, cpu and interp; for GPUs");
      for (const GpuTarget *t = gpu_targets; t->name; t++)
        buf_printf(&hint, "%s %s", t == gpu_targets ? "" : ",", t->name);
      nereid_status s = error_set(error, NEREID_NO_DEVICE, hint.at, "there is no target '%s'", name);
      buf_destroy(&hint);
      return s;
    }
    if (gpu_stage)
      return error_set(error, NEREID_BAD_ARGUMENT, "name a GPU's target, such as --target sm_90a",
                       "%s has no stage '%s'", name, stage_names[in->stage]);
  }
  if (in->target && in->stage == STAGE_C)
    return error_set(error, NEREID_BAD_ARGUMENT, "there are layout, lane, ptx, sass and summary", "%s has no stage 'c'",
                     name);
  return NEREID_OK;
}

/* in->stage is known. */
static nereid_status find_kernel(Inspection *in, const char *kernel, const char *function, nereid_error **error) {
  if (!kernel) return error_null(error, function, "the kernel's name");
  in->kernel = module_kernel(in->module, kernel, error);
  return in->kernel ? NEREID_OK : NEREID_BAD_ARGUMENT;
}

static nereid_status inspect_into(nereid_module *m, const char *kernel, const nereid_arg *args, int arg_count,
                                  const nereid_options *o, const char *stage, const char *target, char **text,
                                  size_t *size, const char *function, nereid_error **error) {
  if (!m) return error_null(error, function, "the module");
  if (!stage) return error_null(error, function, "the stage");
  if (!text) return error_null(error, function, "the result");
  TAKE_OPTIONS(o);
  Inspection in = {.module = m, .options = o};
  while (stage_names[in.stage] && strcmp(stage_names[in.stage], stage)) in.stage++;
  if (in.stage == STAGE_COUNT)
    return error_set(error, NEREID_BAD_ARGUMENT,
                     "there are ast, tile-raw, tile and c; for a GPU layout, lane, ptx, sass and summary",
                     "there is no stage '%s'", stage);
  const DeviceKind *kind;
  nereid_status status = choose_target(&in, target, &kind, error);
  if (!status) status = check_pass(&in, error);
  if (status) return status;
  bool of_cuda_c = in.stage == STAGE_PTX || in.stage == STAGE_SASS || in.stage == STAGE_CUBIN;
  if (m->is_cuda_c && (!of_cuda_c || !in.target))
    return error_set(error, NEREID_BAD_ARGUMENT, "there are ptx and sass, for a GPU's target",
                     "CUDA C has no stage '%s'", stage);
  if (in.stage == STAGE_AST) return run_inspection(&in, text, size, error);
  status = find_kernel(&in, kernel, function, error);
  if (status) return status;
  if (m->is_cuda_c) return run_inspection(&in, text, size, error);
  Call c;
  in.call = &c;
  status = call_bind(&c, in.kernel, kind, args, arg_count, o, error);
  if (!status) status = run_inspection(&in, text, size, error);
  call_free(&c);
  return status;
}

nereid_status nereid_inspect(nereid_module *m, const char *kernel, const nereid_arg *args, int arg_count,
                             const nereid_options *o, const char *stage, const char *target, char **text,
                             nereid_error **error) {
  size_t size;
  if (stage && !strcmp(stage, stage_names[STAGE_CUBIN]))
    return error_set(error, NEREID_BAD_ARGUMENT, "nereid_inspect_bytes gives it", "cubin is no text");
  return inspect_into(m, kernel, args, arg_count, o, stage, target, text, &size, "nereid_inspect", error);
}

nereid_status nereid_inspect_bytes(nereid_module *m, const char *kernel, const nereid_arg *args, int arg_count,
                                   const nereid_options *o, const char *stage, const char *target, void **data,
                                   size_t *bytes, nereid_error **error) {
  if (!bytes) return error_null(error, "nereid_inspect_bytes", "bytes");
  return inspect_into(m, kernel, args, arg_count, o, stage, target, (char **)data, bytes, "nereid_inspect_bytes",
                      error);
}

nereid_status nereid_eval(const char *expression, int count, const char *const *names, const double *values,
                          int64_t *out, nereid_error **error) {
  if (!expression) return error_null(error, "nereid_eval", "the expression");
  if (!out) return error_null(error, "nereid_eval", "out");
  if (count < 0 || (count && (!names || !values)))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_eval: %d names at NULL", count);
  for (int i = 0; i < count; i++)
    if (!names[i]) return error_null(error, "nereid_eval", "a name");
  Context *cx = context_within(NULL);
  if (!cx) return error_out_of_memory(error);
  volatile nereid_status status = NEREID_OK;
  if (context_try(cx)) {
    *out = front_eval_int(cx, expression, count, names, values);
    context_end_try(cx);
  } else {
    status = error_from_context(error, NEREID_BAD_ARGUMENT, cx);
  }
  context_destroy(cx);
  return status;
}
