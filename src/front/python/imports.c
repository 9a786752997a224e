/* Which file an import names.
 *
 * Python looks along sys.path; here the places are the folder of the importing file and each folder above it, so that
 * `from liger_kernel.ops.utils import f` in src/liger_kernel/ops/swiglu.py finds src/liger_kernel/ops/utils.py. The
 * last is the project's top: the first folder with one of top_marks in it. Never looked into, unless the file lies
 * there, are the user's home, folders that everybody may write to (/tmp), and what is above them: others' files are no
 * part of this program. Relative imports count their dots from the file's folder. Libraries that are built in (triton,
 * torch, math, ...) come first. What is not found is a PY_UNKNOWN whose text begins with "module ". */
#include "front/core.h"

#include <stdlib.h>
#include <sys/stat.h>

static const char *folder_of(Front *fr, const Module *m) {
  const char *slash = strrchr(m->path, '/');
  struct stat st;
  if (stat(m->path, &st) == 0 && S_ISDIR(st.st_mode)) return m->path;
  return slash ? slash == m->path ? "/" : arena_strndup(fr->cx->arena, m->path, (size_t)(slash - m->path)) : ".";
}

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The parent of a folder, or NULL at the top. Relative paths go up by "..". */
static const char *parent_of(Front *fr, const char *folder) {
  Arena *a = fr->cx->arena;
  if (!strcmp(folder, "/")) return NULL;
  if (!strcmp(folder, ".")) return "..";
  const char *slash = strrchr(folder, '/');
  const char *last = slash ? slash + 1 : folder;
  if (!strcmp(last, "..")) return strlen(folder) > 60 ? NULL : arena_printf(a, "%s/..", folder);
  if (!slash) return ".";
  return slash == folder ? "/" : arena_strndup(a, folder, (size_t)(slash - folder));
}

static const char *const top_marks[] = {".git", ".hg", "pyproject.toml", "setup.py", NULL};

static bool is_top(Front *fr, const char *folder) {
  struct stat st;
  for (const char *const *mark = top_marks; *mark; mark++)
    if (stat(arena_printf(fr->cx->arena, "%s/%s", folder, *mark), &st) == 0) return true;
  return false;
}

/* Is it of others, too: home, the root, a folder for everybody? */
static bool is_shared(const char *folder) {
  const char *const places[] = {"/", environment_get("HOME")};
  struct stat st, other;
  if (stat(folder, &st) != 0 || (st.st_mode & S_IWOTH)) return true;
  for (int i = 0; i < 2; i++)
    if (places[i] && stat(places[i], &other) == 0 && st.st_ino == other.st_ino && st.st_dev == other.st_dev)
      return true;
  return false;
}

/* The folder to look in next, or NULL. */
static const char *folder_above(Front *fr, const char *folder) {
  const char *above = is_top(fr, folder) ? NULL : parent_of(fr, folder);
  return above && !is_shared(above) ? above : NULL;
}

static Module *load_quietly(Front *fr, const char *path, const char *dotted) {
  Context *cx = fr->cx;
  volatile int diags = cx->diags.n;
  Module *volatile m = NULL;
  if (context_try(cx)) {
    m = module_load(front_project(fr), path, dotted);
    context_end_try(cx);
  } else {
    context_go_on(cx);
    cx->diags.n = diags; /* a file with a syntax error is as good as none; the kernel that needs it will say so */
  }
  return m;
}

/* The file of a module under `folder`: folder/a/b.py, folder/a/b/__init__.py, or the folder itself as a package without
 * names. */
static Module *find_below(Front *fr, const char *folder, const char *dotted) {
  Arena *a = fr->cx->arena;
  char *relative = arena_strdup(a, dotted);
  for (char *c = relative; *c; c++)
    if (*c == '.') *c = '/';
  const char *prefix = !strcmp(folder, ".") ? "" : !strcmp(folder, "/") ? "/" : arena_printf(a, "%s/", folder);
  const char *base = *relative ? arena_printf(a, "%s%s", prefix, relative) : folder;
  const char *path = arena_printf(a, "%s.py", base);
  if (*relative && is_file(path)) return load_quietly(fr, path, dotted);
  path = arena_printf(a, "%s/__init__.py", base);
  if (is_file(path)) return load_quietly(fr, path, dotted);
  if (!is_folder(base)) return NULL;
  Project *p = front_project(fr);
  Module *m = map_get(p->modules, base);
  if (m) return m;
  m = NEW(a, Module);
  m->cx = fr->cx;
  m->project = p;
  m->path = base;
  m->name = dotted;
  m->source = source_from_text(fr->cx, base, "", 0);
  m->tree = parse_module(fr->cx, m->source);
  m->globals = namespace_create(m, NULL, &m->tree->Module.body, NULL);
  map_put(p->modules, m->path, m);
  return m;
}

Py *import_module(Front *fr, Module *from, const char *dotted, int level) {
  if (level == 0) {
    const char *library = front_hooks.library_path(fr, dotted);
    if (library) return py_library(fr, library);
    /* hostlib.c has its versions */
    if (!strcmp(dotted, "packaging") || !strcmp(dotted, "packaging.version")) return py_library(fr, dotted);
    const char *folder = folder_of(fr, from);
    Module *bare = NULL;
    for (int i = 0; folder && i < 40; i++, folder = folder_above(fr, folder)) {
      Module *m = find_below(fr, folder, dotted);
      if (m && m->source->size) return py_module(fr, m);
      if (m && !bare) bare = m; /* a folder without __init__.py: a better one may stand further up */
    }
    if (bare) return py_module(fr, bare);
    return py_unknown(fr, "module '%s', which was not found", dotted);
  }
  const char *folder = folder_of(fr, from);
  for (int i = 1; i < level && folder; i++) folder = parent_of(fr, folder);
  Module *m = folder ? find_below(fr, folder, dotted ? dotted : "") : NULL;
  return m ? py_module(fr, m)
           : py_unknown(fr, "module '%.*s%s', which was not found", level, "..........", dotted ? dotted : "");
}

Py *import_name(Front *fr, Module *from, Py *module, const char *dotted, const char *name) {
  if (module->kind == PY_LIBRARY) {
    Py *v = host_library(fr, arena_printf(fr->cx->arena, "%s.%s", module->library, name));
    if (!v) v = front_hooks.library_lookup(fr, module->library, name);
    if (v) return v;
    const char *deeper = front_hooks.library_path(fr, arena_printf(fr->cx->arena, "%s.%s", module->library, name));
    if (deeper) return py_library(fr, deeper);
    return py_unknown(fr, "module '%s' without a name '%s'", module->library, name);
  }
  if (module->kind != PY_MODULE) return module;
  Py *v = namespace_get(fr, module->module->globals, name);
  if (v) return v;
  Module *below = NULL;
  struct stat st;
  const char *path = module->module->path, *base = strrchr(path, '/');
  if ((base && !strcmp(base, "/__init__.py")) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
    below = find_below(fr, folder_of(fr, module->module), name);
  if (below) return py_module(fr, below);
  return py_unknown(fr, "module '%s' without a name '%s'", dotted ? dotted : path, name);
}
