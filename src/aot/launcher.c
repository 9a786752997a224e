/* The C files around a bundle: launchers with the types of each kernel's parameters. */
#include <ctype.h>
#include <stdlib.h>

#include "aot/aot.h"

static const char *c_type(Dtype t) {
  switch (t) {
    case DT_I1: return "bool";
    case DT_I8: return "int8_t";
    case DT_I16: return "int16_t";
    case DT_I32: return "int32_t";
    case DT_I64: return "int64_t";
    case DT_U8: return "uint8_t";
    case DT_U16: return "uint16_t";
    case DT_U32: return "uint32_t";
    case DT_U64: return "uint64_t";
    case DT_F32: return "float";
    case DT_F64: return "double";
    default: return "void"; /* C has no type for it */
  }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Words of C and C++, and of headers, that Python lets a parameter or a kernel have, and what the launchers use; in
 * order. */
static const char *const taken[] = {"NULL",        "alignas",      "alignof",      "asm",
                                    "auto",        "bitand",       "bitor",        "bool",
                                    "case",        "catch",        "char",         "char16_t",
                                    "char32_t",    "char8_t",      "co_await",     "co_return",
                                    "co_yield",    "compl",        "concept",      "const",
                                    "const_cast",  "consteval",    "constexpr",    "constinit",
                                    "decltype",    "default",      "delete",       "device",
                                    "do",          "double",       "dynamic_cast", "enum",
                                    "errno",       "error",        "explicit",     "export",
                                    "extern",      "false",        "float",        "friend",
                                    "goto",        "grid",         "inline",       "int",
                                    "int16_t",     "int32_t",      "int64_t",      "int8_t",
                                    "linux",       "long",         "main",         "memcpy",
                                    "mutable",     "namespace",    "new",          "noexcept",
                                    "nullptr",     "operator",     "private",      "protected",
                                    "ptrdiff_t",   "public",       "register",     "reinterpret_cast",
                                    "requires",    "restrict",     "short",        "signed",
                                    "size_t",      "sizeof",       "static",       "static_assert",
                                    "static_cast", "stderr",       "stdin",        "stdout",
                                    "stream",      "struct",       "switch",       "template",
                                    "this",        "thread_local", "throw",        "true",
                                    "typedef",     "typeid",       "typename",     "typeof",
                                    "uint16_t",    "uint32_t",     "uint64_t",     "uint8_t",
                                    "uintptr_t",   "union",        "unix",         "unsigned",
                                    "using",       "values",       "virtual",      "void",
                                    "volatile",    "wchar_t",      "xor"};
/* A launcher of such a name would be called in the stead of libc's. */
static const char *const functions[] = {
    "abort",  "abs",    "access",  "acos",   "acosh",  "asin",   "asinh",     "atan",    "atan2",     "atanh",
    "bind",   "calloc", "cbrt",    "ceil",   "clock",  "close",  "connect",   "cos",     "cosh",      "div",
    "erf",    "erfc",   "exit",    "exp",    "exp2",   "expm1",  "fabs",      "fdim",    "floor",     "fma",
    "fmax",   "fmin",   "fmod",    "fork",   "free",   "frexp",  "gamma",     "hypot",   "index",     "ldexp",
    "lgamma", "link",   "listen",  "log",    "log10",  "log1p",  "log2",      "logb",    "lrint",     "lround",
    "malloc", "memcmp", "memmove", "memset", "modf",   "nan",    "nearbyint", "open",    "pause",     "pipe",
    "pow",    "printf", "puts",    "qsort",  "rand",   "random", "read",      "realloc", "remainder", "remove",
    "rename", "rindex", "rint",    "round",  "scanf",  "select", "send",      "signal",  "sin",       "sinh",
    "sleep",  "sqrt",   "srand",   "stat",   "strlen", "system", "tan",       "tanh",    "tgamma",    "time",
    "trunc",  "wait",   "write"};

static int compare_words(const void *a, const void *b) { return strcmp(a, *(const char *const *)b); }
static bool among(const char *name, const char *const *words, size_t n) {
  return bsearch(name, words, n, sizeof *words, compare_words) != NULL;
}

/* The name, with _ for what C's do not have; one more at its end where C has it already. */
static void put_identifier(Buf *out, const char *name, bool is_function) {
  size_t n = strlen(name), end = sizeof "_bundle" - 1;
  if (isdigit((unsigned char)*name)) buf_puts(out, "kernels_");
  for (const char *p = name; *p; p++) buf_putc(out, isalnum((unsigned char)*p) ? *p : '_');
  bool ours = is_function ? !strncmp(name, "nereid_", 7) || (n > end && !strcmp(name + n - end, "_bundle"))
                          : !strncmp(name, "number", 6) && isdigit((unsigned char)name[6]);
  bool known = among(name, taken, sizeof taken / sizeof *taken) ||
               (is_function && among(name, functions, sizeof functions / sizeof *functions));
  if (ours || known) buf_putc(out, '_');
}

/* names[i]; what an earlier one is called already gets a number. */
static void put_one_of(Buf *out, const char *(*name_of)(const void *list, int i), const void *list, int i,
                       bool is_function) {
  Buf mine = {0}, other = {0};
  int before = 0;
  put_identifier(&mine, name_of(list, i), is_function);
  buf_putc(&mine, 0);
  for (int k = 0; k < i; k++) {
    other.n = 0;
    put_identifier(&other, name_of(list, k), is_function);
    buf_putc(&other, 0);
    before += !mine.failed && !other.failed && !strcmp(mine.at, other.at);
  }
  if (mine.failed || other.failed) out->failed = true;
  else buf_puts(out, mine.at);
  if (before) buf_printf(out, "_%d", before + 1);
  buf_destroy(&mine);
  buf_destroy(&other);
}

static const char *kernel_of(const void *list, int i) { return ((const nereid_build *)list)->content.entries[i].name; }
static const char *param_of(const void *list, int i) { return ((const BundleEntry *)list)->params[i].name; }

/* The launcher's. */
static void put_name(Buf *out, const nereid_build *b, int entry) { put_one_of(out, kernel_of, b, entry, true); }
static void put_param(Buf *out, const BundleEntry *e, int p) { put_one_of(out, param_of, e, p, false); }

/* ---- prototypes -------------------------------------------------------------------------------------------------- */

static bool is_written(const AotDoc *d, int p) { return d->written >> (p < 63 ? p : 63) & 1; }
static bool is_pointer(const BundleParam *p) { return p->kind == PARAM_POINTER || p->kind == PARAM_DESCRIPTOR; }
static bool is_passed(const BundleParam *p) { return p->kind < PARAM_NONE || is_pointer(p); }

static void put_prototype(Buf *out, const nereid_build *b, int entry) {
  const BundleEntry *e = &b->content.entries[entry];
  const AotDoc *d = &b->docs[entry];
  buf_puts(out, "nereid_status ");
  put_name(out, b, entry);
  buf_puts(out, "(nereid_device *device, nereid_stream *stream,");
  if (!e->has_grid) buf_puts(out, " const int64_t grid[3],");
  for (int i = 0; i < e->param_count; i++) {
    const BundleParam *p = &e->params[i];
    if (!is_passed(p)) continue;
    bool pointer = is_pointer(p);
    const char *type =
        !pointer && dtype_is_float(p->dtype) ? p->dtype == DT_F64 ? "double" : "float" : c_type(p->dtype);
    buf_printf(out, " %s%s%s", pointer && !is_written(d, i) ? "const " : "", type, pointer ? " *" : " ");
    put_param(out, e, i);
    buf_putc(out, ',');
  }
  buf_puts(out, " nereid_error **error)");
}

static void put_comment_text(Buf *out, const char *text) {
  for (; *text; text++) buf_puts(out, text[0] == '*' && text[1] == '/' ? "* " : (char[2]){text[0], 0});
}

static void put_doc(Buf *out, const nereid_build *b, int entry) {
  const BundleEntry *e = &b->content.entries[entry];
  const AotDoc *d = &b->docs[entry];
  buf_puts(out, "/* ");
  put_comment_text(out, e->name);
  buf_puts(out, " of ");
  put_comment_text(out, e->path);
  buf_putc(out, '\n');
  for (int i = 0; i < e->param_count; i++) {
    const BundleParam *p = &e->params[i];
    if (!is_passed(p)) continue;
    const char *shape = d->params->at[i].shape;
    buf_printf(out, " *   %-16s %s%s", p->name, p->kind == PARAM_DESCRIPTOR ? "tensordesc<" : "", dtype_name(p->dtype));
    for (int k = 0; k < p->rank; k++) buf_printf(out, "%c%d", k ? ',' : '[', (int)p->block_shape[k]);
    if (p->kind == PARAM_DESCRIPTOR) buf_puts(out, p->nan_padding ? "],nan>" : "]>");
    if (p->kind == PARAM_POINTER) put_comment_text(out, shape ? shape : "*");
    if (is_pointer(p)) buf_puts(out, is_written(d, i) ? ", written" : ", read");
    buf_putc(out, '\n');
  }
  bool any = false;
  for (int i = 0; i < e->param_count; i++) {
    if (e->params[i].kind != PARAM_CONSTEXPR || !*e->params[i].constant) continue;
    buf_printf(out, "%s%s=", any ? ", " : " * constants: ", e->params[i].name);
    put_comment_text(out, e->params[i].constant);
    any = true;
  }
  if (any) buf_putc(out, '\n');
  buf_puts(out, " * grid: ");
  put_comment_text(out, d->grid ? d->grid : "the caller's; programs along x, y, z");
  buf_printf(out, "\n * specializations: %d", e->variant_count);
  const BundleVariant *last = e->variant_count ? &e->variants[e->variant_count - 1] : NULL;
  for (int i = 0; last && i < last->condition_count; i++) {
    const BundleCondition *c = &last->conditions[i];
    static const char *const words[] = {"aligned to 16 bytes", "divisible by 16", "1",
                                        "one of the values it was built for"};
    buf_printf(out, "%s%s must be %s", i ? ", " : "; at least ", e->params[c->param].name, words[c->kind]);
  }
  buf_puts(out, " */\n");
}

void aot_write_header(const nereid_build *b, const char *name, Buf *out) {
  buf_printf(out, "/* %s: kernels that were built ahead of time by %s, for ", name, b->content.made_by);
  for (int i = 0; i < b->target_count; i++) buf_printf(out, "%s%s", i ? ", " : "", b->targets[i].name);
  buf_puts(out, ".\n * Link with libnereid-rt, or with libnereid. */\n#ifndef NEREID_BUILT_");
  put_identifier(out, name, false);
  buf_puts(out, "_H\n#define NEREID_BUILT_");
  put_identifier(out, name, false);
  buf_puts(out, "_H\n\n#include <nereid.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
                "/* all of it, for nereid_bundle_open_memory */\nextern const nereid_builtin ");
  put_identifier(out, name, false);
  buf_puts(out, "_bundle;\n");
  for (int i = 0; i < b->content.entry_count; i++) {
    if (!b->docs[i].is_launcher) continue;
    buf_putc(out, '\n');
    put_doc(out, b, i);
    put_prototype(out, b, i);
    buf_puts(out, ";\n");
  }
  buf_puts(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static void put_launcher(Buf *out, const nereid_build *b, const char *name, int entry) {
  const BundleEntry *e = &b->content.entries[entry];
  put_prototype(out, b, entry);
  buf_printf(out, " {\n  uint64_t values[%d] = {0};\n", e->param_count + 1);
  for (int i = 0; i < e->param_count; i++) {
    const BundleParam *p = &e->params[i];
    if (!is_passed(p)) continue;
    if (p->kind == PARAM_FLOAT) {
      buf_printf(out, "  const double number%d = ", i);
      put_param(out, e, i);
      buf_printf(out, ";\n  memcpy(&values[%d], &number%d, sizeof values[%d]);\n", i, i, i);
      continue;
    }
    buf_printf(out, "  values[%d] = (uint64_t)%s", i, is_pointer(p) ? "(uintptr_t)" : "(int64_t)");
    put_param(out, e, i);
    buf_puts(out, ";\n");
  }
  buf_puts(out, e->has_grid ? "  return nereid_builtin_launch(&" : "  return nereid_builtin_launch_grid(&");
  put_identifier(out, name, false);
  buf_printf(out, "_bundle, device, stream, %d, %svalues, error);\n}\n", entry, e->has_grid ? "" : "grid, ");
}

void aot_write_c(const nereid_build *b, const char *name, const Buf *bytes, Buf *out) {
  buf_printf(out, "/* Made by nereid build; see %s.h. */\n#include \"%s.h\"\n\n#include <string.h>\n\n", name, name);
  buf_puts(out, "static const unsigned char bytes[] __attribute__((aligned(64))) = {\n");
  for (size_t i = 0; i < bytes->n; i++) buf_printf(out, "%d,%s", (unsigned char)bytes->at[i], i % 24 == 23 ? "\n" : "");
  buf_puts(out, "};\n\nconst nereid_builtin ");
  put_identifier(out, name, false);
  buf_printf(out, "_bundle = {\"%s\", bytes, sizeof bytes};\n", name);
  for (int i = 0; i < b->content.entry_count; i++) {
    if (!b->docs[i].is_launcher) continue;
    buf_putc(out, '\n');
    put_launcher(out, b, name, i);
  }
}
