/* A project begins: the file with the kernels, and what host evaluation keeps for all files that it reaches. */
#include "front/core.h"

#include <errno.h>

static Project *project_create(Context *cx, int cuda_sm) {
  Project *p = NEW(cx->arena, Project);
  p->cx = cx;
  p->modules = map_create(cx->arena, true);
  p->jit_of = map_create(cx->arena, false);
  p->fr = NEW(cx->arena, Front);
  p->fr->cx = cx;
  CompileOptions *options = NEW(cx->arena, CompileOptions);
  options->cuda_sm = cuda_sm;
  p->fr->options = options;
  p->classes = map_create(cx->arena, false);
  p->functions = map_create(cx->arena, true);
  p->steps = p->run_steps = HOST_STEPS;
  return p;
}

static Module *finish(Module *m) {
  Project *p = m->project;
  if (!p->fr->module) p->fr->module = m;
  kernels_find(p->fr, m);
  return m;
}

Module *front_load_file(Context *cx, const char *path) {
  Source *src = source_from_file(cx, path);
  if (!src) diag_fail(cx, (Span){0}, "cannot read %s: %s", path, file_reason(errno));
  return finish(module_from_source(project_create(cx, 0), src, path, "__main__"));
}

Module *front_load_text(Context *cx, const char *path_for_messages, const char *text, size_t n) {
  return front_load_text_for(cx, path_for_messages, text, n, 0);
}

Module *front_load_text_for(Context *cx, const char *path_for_messages, const char *text, size_t n, int cuda_sm) {
  Source *src = source_from_text(cx, path_for_messages, text, n);
  return finish(module_from_source(project_create(cx, cuda_sm), src, path_for_messages, "__main__"));
}

Module *front_load_source(Context *cx, const HostSource *s, const FrontHost *host, int cuda_sm) {
  Project *p = project_create(cx, cuda_sm);
  p->host = host;
  if (s->kind == HOST_JIT) return host_module(p->fr, p, s);
  if (s->kind != HOST_FILE) diag_fail(cx, (Span){0}, "%s: only files and jit functions are modules", s->path);
  Module *m = module_from_source(p, source_from_text(cx, s->path, s->text, s->text_size), s->path, "__main__");
  m->host = host;
  m->scope = s->scope;
  return finish(m);
}
