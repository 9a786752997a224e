/* Looking inside: the text of each stage of one kernel's compilation; and nereid_eval. Nothing here is cached. */
#include <stdlib.h>

#include "runtime/runtime.h"
#include "syntax/syntax.h"

typedef enum { STAGE_AST, STAGE_TILE_RAW, STAGE_TILE, STAGE_C, STAGE_COUNT } Stage;
static const char *const stage_names[] = {"ast", "tile-raw", "tile", "c", NULL};

typedef struct Inspection {
  nereid_module *module;
  const Call *call; /* NULL for the AST */
  const nereid_options *options;
  Stage stage;
  Buf text, print;
} Inspection;

static void inspect(Inspection *in, Context *cx, volatile nereid_status *phase) {
  nereid_module *m = in->module;
  if (in->stage == STAGE_AST) {
    const Source *src = source_from_text(cx, m->path, m->text, m->size);
    if (!src) context_out_of_memory(cx);
    ast_dump(&in->text, parse_module(cx, src), false);
    return;
  }
  Compiled *front = compile_front(m, in->call, in->options, cx, &in->print);
  Func *f = front->func;
  const char *dump_after = in->options->dump_after;
  *phase = NEREID_INTERNAL;
  if (in->stage == STAGE_TILE_RAW) {
    tile_print(&in->text, f, 0);
    return;
  }
  tile_optimize(f, dump_after, dump_after ? &in->text : NULL, true);
  if (dump_after) return;
  if (in->stage == STAGE_TILE) {
    tile_print(&in->text, f, 0);
    return;
  }
  *phase = NEREID_UNSUPPORTED;
  cpu_emit_c(f, &in->text);
}

static nereid_status run_inspection(Inspection *in, char **text, nereid_error **error) {
  Context *cx = context_create();
  if (!cx) return error_out_of_memory(error);
  volatile nereid_status status = NEREID_OK, phase = NEREID_BAD_SOURCE;
  if (context_try(cx)) {
    inspect(in, cx, &phase);
    if (in->text.failed) context_out_of_memory(cx);
    context_end_try(cx);
  } else {
    status = error_from_context(error, phase, cx);
  }
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
  return NEREID_OK;
}

static nereid_status check_pass(const char *name, nereid_error **error) {
  if (!name || !strcmp(name, "all")) return NEREID_OK;
  Buf hint = {0};
  buf_puts(&hint, "there are ");
  for (const PassInfo *p = tile_passes; p->name; p++) {
    if (!strcmp(p->name, name)) return buf_destroy(&hint), NEREID_OK;
    const PassInfo *first = tile_passes; /* some run twice */
    while (strcmp(first->name, p->name)) first++;
    if (first == p) buf_printf(&hint, "%s, ", p->name);
  }
  buf_puts(&hint, "and all");
  nereid_status s = error_set(error, NEREID_BAD_ARGUMENT, hint.at, "there is no pass '%s'", name);
  buf_destroy(&hint);
  return s;
}

nereid_status nereid_inspect(nereid_module *m, const char *kernel, const nereid_arg *args, int arg_count,
                             const nereid_options *o, const char *stage, const char *target, char **text,
                             nereid_error **error) {
  if (!m) return error_null(error, "nereid_inspect", "the module");
  if (!stage) return error_null(error, "nereid_inspect", "the stage");
  if (!text) return error_null(error, "nereid_inspect", "text");
  if (!o) o = &options_default;
  Inspection in = {.module = m, .options = o};
  while (stage_names[in.stage] && strcmp(stage_names[in.stage], stage)) in.stage++;
  if (in.stage == STAGE_COUNT)
    return error_set(error, NEREID_BAD_ARGUMENT, "there are ast, tile-raw, tile and c", "there is no stage '%s'",
                     stage);
  const DeviceKind *kind = &device_cpu;
  if (target && strcmp(target, "host")) kind = device_kind_find(target, strcspn(target, ":"));
  if (!kind)
    return error_set(error, NEREID_NO_DEVICE, "there are host, cpu and interp", "there is no target '%s'", target);
  nereid_status status = check_pass(o->dump_after, error);
  if (status) return status;
  if (in.stage == STAGE_AST) return run_inspection(&in, text, error);
  if (!kernel) return error_null(error, "nereid_inspect", "the kernel's name");
  const KernelInfo *k = module_kernel(m, kernel, error);
  if (!k) return NEREID_BAD_ARGUMENT;
  Call c;
  in.call = &c;
  status = call_bind(&c, k, kind, args, arg_count, o, error);
  if (!status) status = run_inspection(&in, text, error);
  call_free(&c);
  return status;
}

nereid_status nereid_eval(const char *expression, int count, const char *const *names, const double *values,
                          int64_t *out, nereid_error **error) {
  if (!expression) return error_null(error, "nereid_eval", "the expression");
  if (!out) return error_null(error, "nereid_eval", "out");
  if (count < 0 || (count && (!names || !values)))
    return error_set(error, NEREID_BAD_ARGUMENT, NULL, "nereid_eval: %d names at NULL", count);
  for (int i = 0; i < count; i++)
    if (!names[i]) return error_null(error, "nereid_eval", "a name");
  Context *cx = context_create();
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
