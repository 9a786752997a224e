/* builtins.c: the library's names.
 *
 * All library functions are rows of tables (lib_*.c). This file finds a row for a dotted name under any of its aliases,
 * binds a call's arguments to the row's signature, and lists the rows for docs/reference/language.md.
 *
 *     triton.language.load, tl.load, x.load      library "tl"
 *     tl.math.exp, tl.exp                        library "tl.math"
 *     libdevice.tanh, tl.extra.cuda.libdevice.tanh, tl.math.tanh (as in Triton 2)   library "libdevice"
 *     triton_helpers.max2 (TorchInductor)        library "helpers"
 *     len, math.sqrt, triton.cdiv, operator.ge   libraries "python", "math", "triton", "operator"; "kernel": Python's
 *                                                functions that are not the same in a kernel
 *     tl.float32.is_floating()                   library "dtype"; methods of tensors only: "tensor"; of descriptors:
 *                                                "desc"
 */
#include "front/library/lib.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* NULL: what kernels' regions put in. */
static const Builtin *const tables[] = {
    lib_create_table,
    lib_shape_table,
    lib_dot_table,
    lib_memory_table,
    lib_blockptr_table,
    lib_math_table,
    lib_reduce_table,
    lib_atomic_table,
    lib_prelude_table,
    lib_debug_table,
    lib_types_table,
    lib_gpu_table,
    lib_host_table,
    lib_pymath_table,
    lib_triton_table,
    lib_libdevice_table,
    NULL,
    lib_private_table,
};
enum { TABLE_COUNT = sizeof tables / sizeof *tables };

static const Builtin *table_at(int t) { return tables[t] ? tables[t] : front_hooks.regions_table; }

static const Builtin *find_row(const char *library, const char *name) {
  for (int t = 0; t < TABLE_COUNT; t++)
    for (const Builtin *b = table_at(t); b->name; b++)
      if (b->name[0] == name[0] && !strcmp(b->name, name) && !strcmp(b->library, library)) return b;
  return NULL;
}

static Py *row_value(Front *fr, const Builtin *b, Py *self) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_BUILTIN;
  p->builtin.b = b;
  p->builtin.self = self;
  return p;
}

static Py *library_value(Front *fr, const char *path) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_LIBRARY;
  p->library = intern_z(fr->cx, path);
  return p;
}

static Py *unknown_value(Front *fr, const char *library, const char *attr) {
  Py *p = NEW(fr->cx->arena, Py);
  p->kind = PY_UNKNOWN;
  p->library = intern_z(fr->cx, arena_printf(fr->cx->arena, "%s.%s", library, attr));
  return p;
}

/* ---- dotted paths ------------------------------------------------------------------------------------------------ */

static const char TL[] = "triton.language", TL_CORE[] = "triton.language.core", TL_MATH[] = "triton.language.math",
                  TL_STANDARD[] = "triton.language.standard", TL_RANDOM[] = "triton.language.random",
                  LIBDEVICE[] = "triton.language.extra.libdevice", HELPERS[] = "triton_helpers",
                  PROTON[] = "triton.profiler.language";

static const struct {
  const char *path, *canonical;
} aliases[] = {
    {"triton", "triton"},
    {"triton.language", TL},
    {TL_CORE, TL_CORE},
    {TL_STANDARD, TL_STANDARD},
    {"triton.language.semantic", TL_CORE},
    {TL_RANDOM, TL_RANDOM},
    {"triton.language.math", TL_MATH},
    {"triton.language.extra", "triton.language.extra"},
    {"triton.language.extra.cuda", "triton.language.extra.cuda"},
    {"triton.language.extra.hip", "triton.language.extra.cuda"},
    {"triton.language.extra.cpu", "triton.language.extra.cuda"},
    {"triton.language.extra.cuda.utils", "triton.language.extra.cuda"},
    {"triton.language.extra.cuda.gdc", "triton.language.extra.cuda"},
    {"triton.language.target_info", "triton.language.target_info"},
    {"triton.language.PropagateNan", "triton.language.PropagateNan"},
    {"triton.language.dtype.SIGNEDNESS", "triton.language.dtype.SIGNEDNESS"},
    {"triton.language.dtype.KIND", "triton.language.dtype.KIND"},
    {LIBDEVICE, LIBDEVICE},
    {"triton.language.libdevice", LIBDEVICE},
    {"triton.language.math.libdevice", LIBDEVICE},
    {"triton.language.extra.cuda.libdevice", LIBDEVICE},
    {"triton.language.extra.hip.libdevice", LIBDEVICE},
    {"triton.language.extra.cpu.libdevice", LIBDEVICE},
    {"triton.language.extra.intel.libdevice", LIBDEVICE},
    {HELPERS, HELPERS},
    {"torch._inductor.triton_helpers", HELPERS},
    {"torch._inductor.runtime.triton_helpers", HELPERS},
    {"torch._inductor.runtime.triton_compat.libdevice", LIBDEVICE},
    {"torch._inductor.runtime.triton_compat.math", TL_MATH},
    {"torch._inductor.runtime.triton_compat.tl", TL},
    {"triton_helpers.libdevice", LIBDEVICE},
    {"triton_helpers.math", TL_MATH},
    {PROTON, PROTON},
    {"math", "math"},
    {"operator", "operator"},
    {"copy", "copy"},
};

/* Libraries of the host that a file may import, PyTorch and Python's own; whatever a kernel takes from them and is not
 * in a table is not at hand. */
static const char *const host_libraries[] = {"torch",        "typing",     "typing_extensions",
                                             "collections",  "enum",       "functools",
                                             "dataclasses",  "abc",        "os",
                                             "sys",          "warnings",   "inspect",
                                             "itertools",    "contextlib", "__future__",
                                             "logging",      "numbers",    "types",
                                             "time",         "re",         "random",
                                             "string",       "pathlib",    "json",
                                             "builtins",     "argparse",   "array",
                                             "ast",          "asyncio",    "atexit",
                                             "base64",       "bisect",     "calendar",
                                             "cmath",        "codecs",     "concurrent",
                                             "configparser", "copyreg",    "csv",
                                             "ctypes",       "datetime",   "decimal",
                                             "difflib",      "dis",        "errno",
                                             "fnmatch",      "fractions",  "gc",
                                             "getpass",      "glob",       "graphlib",
                                             "gzip",         "hashlib",    "heapq",
                                             "importlib",    "io",         "keyword",
                                             "linecache",    "locale",     "multiprocessing",
                                             "optparse",     "pickle",     "pkgutil",
                                             "platform",     "pprint",     "queue",
                                             "secrets",      "select",     "selectors",
                                             "shutil",       "signal",     "site",
                                             "socket",       "stat",       "statistics",
                                             "struct",       "subprocess", "symtable",
                                             "sysconfig",    "tempfile",   "textwrap",
                                             "threading",    "timeit",     "token",
                                             "tokenize",     "traceback",  "unittest",
                                             "urllib",       "uuid",       "weakref",
                                             "zipfile",      "zlib"};

const char *builtin_library(Front *fr, const char *path) {
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (!strcmp(aliases[i].path, path)) return aliases[i].canonical;
  size_t head = strcspn(path, ".");
  if (!strncmp(path, "triton.language.", 16) && strncmp(path, "triton.language.extra.", 22))
    return NULL; /* all are known */
  if (head == 6 && !strncmp(path, "triton", 6)) return intern_z(fr->cx, path);
  for (size_t i = 0; i < sizeof host_libraries / sizeof *host_libraries; i++)
    if (strlen(host_libraries[i]) == head && !strncmp(path, host_libraries[i], head)) return intern_z(fr->cx, path);
  return NULL;
}

/* ---- constants and types by name --------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  Dtype dtype;
} tl_dtypes[] = {
    {"int1", DT_I1},           {"int8", DT_I8},
    {"int16", DT_I16},         {"int32", DT_I32},
    {"int64", DT_I64},         {"uint8", DT_U8},
    {"uint16", DT_U16},        {"uint32", DT_U32},
    {"uint64", DT_U64},        {"float16", DT_F16},
    {"bfloat16", DT_BF16},     {"float32", DT_F32},
    {"float64", DT_F64},       {"float8e5", DT_F8E5},
    {"float8e4nv", DT_F8E4NV}, {"float8e4b15", DT_F8E4B15},
    {"float8e4b8", DT_F8E4B8}, {"float8e5b16", DT_F8E5B16},
    {"float8e4", DT_F8E4NV},
};

static Py *language_constant(Front *fr, const char *attr) {
  for (size_t i = 0; i < sizeof tl_dtypes / sizeof *tl_dtypes; i++)
    if (!strcmp(tl_dtypes[i].name, attr)) return py_dtype(fr, tl_dtypes[i].dtype);
  if (!strcmp(attr, "constexpr")) {
    Py *p = NEW(fr->cx->arena, Py);
    p->kind = PY_CONSTEXPR_TYPE;
    return p;
  }
  if (!strcmp(attr, "TRITON_MAX_TENSOR_NUMEL")) return py_int(fr, MAX_TILE_ELEMENTS);
  if (!strcmp(attr, "pi32_t")) return py_type(fr, type_pointer(fr->cx, DT_I32));
  if (!strcmp(attr, "void")) return py_none(fr);
  static const char *const deeper[] = {"math",   "extra",       "core",      "standard",    "semantic",
                                       "random", "target_info", "libdevice", "PropagateNan"};
  for (size_t i = 0; i < sizeof deeper / sizeof *deeper; i++)
    if (!strcmp(deeper[i], attr))
      return library_value(fr, builtin_library(fr, arena_printf(fr->cx->arena, "%s.%s", TL, attr)));
  return NULL;
}

static Py *torch_constant(Front *fr, const char *attr) {
  static const struct {
    const char *name;
    Dtype dtype;
  } more[] = {{"half", DT_F16},  {"float", DT_F32}, {"double", DT_F64},
              {"short", DT_I16}, {"int", DT_I32},   {"long", DT_I64}};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    if (!strcmp(more[i].name, attr)) return py_dtype(fr, more[i].dtype);
  for (Dtype d = 0; d < DT_COUNT; d++)
    if (!strcmp(dtype_torch_name(d), attr)) return py_dtype(fr, d);
  if (!strcmp(attr, "inf")) return py_float(fr, INFINITY);
  if (!strcmp(attr, "nan")) return py_float(fr, NAN);
  if (!strcmp(attr, "pi")) return py_float(fr, 3.141592653589793);
  return NULL;
}

static Py *math_constant(Front *fr, const char *attr) {
  if (!strcmp(attr, "pi")) return py_float(fr, 3.141592653589793);
  if (!strcmp(attr, "tau")) return py_float(fr, 6.283185307179586);
  if (!strcmp(attr, "e")) return py_float(fr, 2.718281828459045);
  if (!strcmp(attr, "inf")) return py_float(fr, INFINITY);
  if (!strcmp(attr, "nan")) return py_float(fr, NAN);
  return NULL;
}

static Py *first_row(Front *fr, const char *attr, const char *a, const char *b, const char *c) {
  const char *const libraries[] = {a, b, c};
  for (int i = 0; i < 3; i++) {
    const Builtin *row = libraries[i] ? find_row(libraries[i], attr) : NULL;
    if (row) return row_value(fr, row, NULL);
  }
  return NULL;
}

static Py *part_of_language(Front *fr, const char *path, const char *attr) {
  if (strcmp(path, TL_CORE)) { /* what these two files import */
    if (!strcmp(attr, !strcmp(path, TL_RANDOM) ? "tl" : "core")) return library_value(fr, TL_CORE);
    if (!strcmp(attr, "math")) return library_value(fr, TL_MATH);
  }
  if (strcmp(builtin_home(attr), path)) return NULL;
  if (!strcmp(attr, "CONSTEXPR_0")) return py_int(fr, 0);
  if (!strcmp(attr, "N_ROUNDS_DEFAULT")) return py_int(fr, 10);
  Py *p = first_row(fr, attr, "tl.core", NULL, NULL);
  if (!p) p = builtin_lookup(fr, TL, attr);
  return p && (p->kind != PY_LIBRARY || !strcmp(attr, "PropagateNan")) ? p : NULL; /* a file has no files in it */
}

Py *builtin_lookup(Front *fr, const char *library, const char *attr) {
  stack_guard();
  const char *path = builtin_library(fr, library);
  if (!path) path = library;
  if (!strcmp(path, TL)) {
    Py *p = language_constant(fr, attr);
    if (p) return p;
    return first_row(fr, attr, "tl", "tl.math", NULL);
  }
  if (!strcmp(path, TL_CORE) || !strcmp(path, TL_STANDARD) || !strcmp(path, TL_RANDOM))
    return part_of_language(fr, path, attr);
  if (!strcmp(path, TL_MATH)) {
    if (!strcmp(attr, "libdevice")) return library_value(fr, LIBDEVICE);
    return first_row(fr, attr, "tl.math", "libdevice", NULL);
  }
  if (!strcmp(path, LIBDEVICE)) return first_row(fr, attr, "libdevice", NULL, NULL);
  if (!strcmp(path, "triton.language.extra")) {
    const char *deeper = builtin_library(fr, arena_printf(fr->cx->arena, "%s.%s", path, attr));
    return library_value(fr, deeper);
  }
  if (!strcmp(path, "triton.language.extra.cuda")) {
    if (!strcmp(attr, "libdevice")) return library_value(fr, LIBDEVICE);
    return first_row(fr, attr, "tl.extra.cuda", NULL, NULL);
  }
  if (!strcmp(path, PROTON)) return first_row(fr, attr, PROTON, NULL, NULL);
  if (!strcmp(path, "triton.language.target_info")) return first_row(fr, attr, "tl.target_info", NULL, NULL);
  if (!strcmp(path, "triton.language.dtype.SIGNEDNESS")) /* as `int_signedness` says it */
    return !strcmp(attr, "SIGNED") || !strcmp(attr, "UNSIGNED") ? py_str(fr, intern_z(fr->cx, attr)) : NULL;
  if (!strcmp(path, "triton.language.dtype.KIND")) /* as `kind()` counts */
    return !strcmp(attr, "BOOLEAN")    ? py_int(fr, 0)
           : !strcmp(attr, "INTEGRAL") ? py_int(fr, 1)
           : !strcmp(attr, "FLOATING") ? py_int(fr, 2)
                                       : NULL;
  if (!strcmp(path, "triton.language.PropagateNan"))
    return !strcmp(attr, "NONE")  ? py_str(fr, "PropagateNan.NONE")
           : !strcmp(attr, "ALL") ? py_str(fr, "PropagateNan.ALL")
                                  : NULL;
  if (!strcmp(path, HELPERS)) {
    if (!strcmp(attr, "libdevice")) return library_value(fr, LIBDEVICE);
    if (!strcmp(attr, "math")) return library_value(fr, TL_MATH);
    if (!strcmp(attr, "tl")) return library_value(fr, TL);
    return first_row(fr, attr, "helpers", NULL, NULL);
  }
  if (!strcmp(path, "math")) {
    Py *p = math_constant(fr, attr);
    return p ? p : first_row(fr, attr, "math", NULL, NULL);
  }
  if (!strcmp(path, "operator")) return first_row(fr, attr, "operator", NULL, NULL);
  if (!strcmp(path, "builtins")) return builtin_python(fr, attr, true);
  if (!strcmp(path, "triton")) {
    if (!strcmp(attr, "language")) return library_value(fr, TL);
    if (!strcmp(attr, "__version__")) return py_str(fr, "3.6.0");
    Py *p = first_row(fr, attr, "triton", NULL, NULL);
    if (p) return p;
    static const char *const deeper[] = {"runtime",  "testing", "compiler", "tools",       "profiler",
                                         "backends", "ops",     "knobs",    "experimental"};
    for (size_t i = 0; i < sizeof deeper / sizeof *deeper; i++)
      if (!strcmp(deeper[i], attr)) return library_value(fr, arena_printf(fr->cx->arena, "triton.%s", attr));
    return NULL;
  }
  if (!strcmp(path, "torch")) {
    Py *p = torch_constant(fr, attr);
    if (p) return p;
    if (!strcmp(attr, "version")) return library_value(fr, "torch.version"); /* hostlib.c knows its names */
  }
  if (!strcmp(path, "triton.runtime") && !strcmp(attr, "jit")) return library_value(fr, "triton.runtime.jit");
  /* Something of the host: deeper modules that are known keep their path, the rest is not at hand. */
  const char *dotted = arena_printf(fr->cx->arena, "%s.%s", path, attr);
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (!strcmp(aliases[i].path, dotted)) return library_value(fr, aliases[i].canonical);
  if (!strncmp(path, "triton.runtime", 14) ||
      !strncmp(path, "triton.compiler", 15)) { /* triton.runtime.jit.JITFunction, ... */
    Py *p = first_row(fr, attr, "triton", NULL, NULL);
    if (p) return p;
  }
  return unknown_value(fr, path, attr);
}

Py *builtin_python(Front *fr, const char *name, bool host) {
  const Builtin *b = host ? NULL : find_row("kernel", name);
  if (!b) b = find_row("python", name);
  if (!b || (!host && (b->flags & BUILTIN_HOST_ONLY))) return NULL;
  return row_value(fr, b, NULL);
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

Py *lib_member(Front *fr, const char *library, const char *attr, Py *self) {
  const Builtin *b = find_row(library, attr);
  if (b) return row_value(fr, b, self);
  if (strcmp(library, "tensor")) return NULL;
  static const char *const member_libraries[] = {"tl", "tl.math"};
  for (int i = 0; i < 2; i++)
    if ((b = find_row(member_libraries[i], attr)) && (b->flags & BUILTIN_MEMBER)) return row_value(fr, b, self);
  return NULL;
}

/* ---- names, for messages and for the table ----------------------------------------------------------------------- */

typedef VEC(const char *) BuiltinNames;

/* The modules right below `path`. */
static void add_modules(Front *fr, const char *path, BuiltinNames *names) {
  size_t n = strlen(path);
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
    const char *below = aliases[i].path + n + 1;
    if (strncmp(aliases[i].path, path, n) || aliases[i].path[n] != '.' || strchr(below, '.')) continue;
    vec_push(fr->cx->arena, names, below);
  }
}

const char *const *builtin_names(Front *fr, const char *library) {
  const char *path = builtin_library(fr, library);
  if (!path) path = library;
  const char *want[2] = {NULL, NULL};
  bool part = path == TL_CORE || path == TL_STANDARD || path == TL_RANDOM;
  if (!strcmp(path, TL) || part) want[0] = "tl", want[1] = "tl.math";
  else if (!strcmp(path, TL_MATH)) want[0] = "tl.math", want[1] = "libdevice";
  else if (!strcmp(path, LIBDEVICE)) want[0] = "libdevice";
  else if (!strcmp(path, HELPERS)) want[0] = "helpers";
  else if (!strcmp(path, "triton.language.extra.cuda")) want[0] = "tl.extra.cuda";
  else want[0] = path;
  BuiltinNames names = {0};
  for (int t = 0; t < TABLE_COUNT; t++)
    for (const Builtin *b = table_at(t); b->name; b++)
      if ((!strcmp(b->library, want[0]) || (want[1] && !strcmp(b->library, want[1]))) &&
          (!part || !strcmp(builtin_home(b->name), path)))
        vec_push(fr->cx->arena, &names, b->name);
  if (!strcmp(path, TL)) {
    for (size_t i = 0; i < sizeof tl_dtypes / sizeof *tl_dtypes; i++)
      vec_push(fr->cx->arena, &names, tl_dtypes[i].name);
    vec_push(fr->cx->arena, &names, "constexpr");
  }
  add_modules(fr, path, &names);
  vec_push(fr->cx->arena, &names, NULL);
  return names.at;
}

const char *builtin_near(Front *fr, const char *path) {
  size_t most = 0; /* of path, what names a module */
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
    size_t n = strlen(aliases[i].path);
    if (n > most && !strncmp(aliases[i].path, path, n) && path[n] == '.') most = n;
  }
  if (!most) return NULL;
  const char *name = path + most + 1, *module = arena_strndup(fr->cx->arena, path, most);
  name = arena_strndup(fr->cx->arena, name, strcspn(name, ".("));
  const char *near = nearest_name(name, builtin_names(fr, module));
  return near && strcmp(near, name) ? near : NULL;
}

/* What is not a function: constants and types of triton.language, and attributes. */
static const LanguageName plain_names[] = {
    {"Types", "tl.void", true, true, true, true, NULL},
    {"Types", "tl.pi32_t", true, true, true, true, NULL},
    {"Types", "tl.constexpr", true, true, true, true, NULL},
    {"Types", "tl.PropagateNan", true, true, true, true, "NONE, ALL"},
    {"Types", "tl.TRITON_MAX_TENSOR_NUMEL", true, true, true, true, NULL},
    {"Types", "dtype.name", true, true, true, true,
     "also .primitive_bitwidth .itemsize .int_bitwidth .int_signedness .scalar .element_ty .fp_mantissa_width "
     ".exponent_bias"},
    {"Types", "dtype.is_floating", true, true, true, true,
     "also .is_int() .is_int_signed() .is_ptr() .is_block() .is_fp16() ... and .with_element_ty()"},
    {"Types", "block_type.shape", true, true, true, true, "also .numel .nbytes"},
    {"Shape manipulation", "x.T", true, true, true, true, "also x.shape x.numel x.dtype x.type, and x[:, None]"},
};

/* The order of docs/reference/language.md. */
static const char *const groups[] = {
    "Types",
    "Programming model",
    "Creation",
    "Shape manipulation",
    "Indexing",
    "Memory",
    "Block pointers and descriptors",
    "Atomics",
    "Linear algebra",
    "Math",
    "Reduction",
    "Scan and sort",
    "Random numbers",
    "Iterators",
    "Compiler hints",
    "Debugging",
    "Inline assembly and map",
    "libdevice",
    "triton.language.extra.cuda",
    "triton.language.target_info",
    "triton",
    "Python",
    "Python's math module",
    "TorchInductor's triton_helpers",
};

static char *qualified(const char *library, const char *name) {
  static const struct {
    const char *library, *prefix;
  } prefixes[] = {{"tl.math", "tl."}, {"helpers", "triton_helpers."}, {"python", ""}, {"tensor", "x."}};
  size_t room = strlen(library) + strlen(name) + 20;
  char *s = calloc(1, room);
  if (!s) return NULL;
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (!strcmp(prefixes[i].library, library)) {
      snprintf(s, room, "%s%s", prefixes[i].prefix, name);
      return s;
    }
  snprintf(s, room, "%s.%s", library, name);
  return s;
}

/* The table is the same for everyone and never freed: made once, whole or not at all. */
static LanguageName *language_rows;
static int language_count;
static pthread_mutex_t language_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_language_row(const char *group, const char *library, const char *name, unsigned flags,
                             const char *remark, const char *arguments) {
  char *full = qualified(library, name);
  bool cuda = !(flags & BUILTIN_NOWHERE), here = cuda && !(flags & BUILTIN_PTX);
  language_rows[language_count++] =
      (LanguageName){group, full, here, here, here, cuda, remark, arguments, (flags & BUILTIN_MEMBER) != 0};
}

/* As a caller writes them: methods without their first; none for libdevice, whose remark has the types, and for types.
 */
static const char *arguments_of(const Builtin *b) {
  if (!strcmp(b->library, "libdevice") || (b->remark && strstr(b->remark, "annotations"))) return NULL;
  if (strcmp(b->library, "tensor") && strcmp(b->library, "desc")) return b->signature;
  const char *comma = strchr(b->signature, ',');
  return comma ? comma + 2 : "";
}

static void make_language_rows(void) {
  size_t n = sizeof tl_dtypes / sizeof *tl_dtypes + sizeof plain_names / sizeof *plain_names;
  for (int t = 0; t < TABLE_COUNT; t++)
    for (const Builtin *b = table_at(t); b->name; b++) n++;
  language_rows = calloc(n, sizeof *language_rows);
  if (!language_rows) return;
  for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
    for (size_t i = 0; g == 0 && i < sizeof tl_dtypes / sizeof *tl_dtypes; i++)
      if (strcmp(tl_dtypes[i].name, "float8e4")) {
        Dtype d = tl_dtypes[i].dtype;
        bool nowhere = d == DT_F8E4B8 || d == DT_F8E5B16; /* Triton has them for AMD's GPUs */
        add_language_row(groups[0], "tl", tl_dtypes[i].name, 0,
                         nowhere          ? "of AMD's GPUs"
                         : d == DT_F8E4NV ? "on GPUs from 8.9 on"
                                          : NULL,
                         NULL);
        if (nowhere) language_rows[language_count - 1].sim = language_rows[language_count - 1].cuda = false;
      }
    for (int t = 0; t < TABLE_COUNT; t++)
      for (const Builtin *b = table_at(t); b->name; b++)
        if (b->group && !strcmp(b->group, groups[g]))
          add_language_row(groups[g], b->library, b->name, b->flags, b->remark, arguments_of(b));
    for (size_t i = 0; i < sizeof plain_names / sizeof *plain_names; i++)
      if (!strcmp(plain_names[i].group, groups[g])) language_rows[language_count++] = plain_names[i];
  }
}

static bool is_plain_name(const char *name) {
  for (size_t i = 0; i < sizeof plain_names / sizeof *plain_names; i++)
    if (plain_names[i].name == name) return true;
  return false;
}

static void drop_incomplete_rows(void) {
  bool whole = true;
  for (int i = 0; i < language_count; i++) whole &= language_rows[i].name != NULL;
  if (whole) return;
  for (int i = 0; i < language_count; i++)
    if (!is_plain_name(language_rows[i].name)) free((char *)language_rows[i].name);
  free(language_rows);
  language_rows = NULL;
  language_count = 0;
}

const LanguageName *front_language_table(int *count) {
  pthread_mutex_lock(&language_lock);
  if (!language_rows) make_language_rows(), drop_incomplete_rows();
  *count = language_count;
  const LanguageName *rows = language_rows;
  pthread_mutex_unlock(&language_lock);
  return rows;
}
