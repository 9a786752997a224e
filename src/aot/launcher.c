/* The C files around a bundle: launchers with the types of each kernel's parameters. */
#include <ctype.h>

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

static void put_identifier(Buf *out, const char *name) {
  /* those of C and C++ that Python lets a parameter have, and what the launchers use */
  static const char *const taken[] = {
      "auto",     "bool",     "case",    "catch",     "char",   "const",    "default", "delete",
      "do",       "double",   "enum",    "extern",    "float",  "friend",   "goto",    "inline",
      "int",      "long",     "mutable", "namespace", "new",    "operator", "private", "public",
      "register", "short",    "signed",  "sizeof",    "static", "struct",   "switch",  "template",
      "this",     "throw",    "typedef", "typename",  "union",  "unsigned", "using",   "virtual",
      "void",     "volatile", "device",  "stream",    "grid",   "error",    "values",  "memcpy",
      "restrict", "explicit", "export",  "protected", "true",   "false",    NULL};
  for (const char *p = name; *p; p++) buf_putc(out, isalnum((unsigned char)*p) ? *p : '_');
  for (int i = 0; taken[i]; i++)
    if (!strcmp(taken[i], name)) buf_putc(out, '_');
}

static bool is_written(const AotDoc *d, int p) { return d->written >> (p < 63 ? p : 63) & 1; }
static bool is_pointer(const BundleParam *p) { return p->kind == PARAM_POINTER || p->kind == PARAM_DESCRIPTOR; }
static bool is_passed(const BundleParam *p) { return p->kind < PARAM_NONE || is_pointer(p); }

/* The launcher's name; of several kernels of one name the later ones get a number. */
static void put_name(Buf *out, const nereid_build *b, int entry) {
  int before = 0;
  for (int i = 0; i < entry; i++) before += !strcmp(b->content.entries[i].name, b->content.entries[entry].name);
  put_identifier(out, b->content.entries[entry].name);
  if (before) buf_printf(out, "_%d", before + 1);
}

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
    put_identifier(out, p->name);
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
  put_identifier(out, name);
  buf_puts(out, "_H\n#define NEREID_BUILT_");
  put_identifier(out, name);
  buf_puts(out, "_H\n\n#include <nereid.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
                "/* all of it, for nereid_bundle_open_memory */\nextern const nereid_builtin ");
  put_identifier(out, name);
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
      put_identifier(out, p->name);
      buf_printf(out, ";\n  memcpy(&values[%d], &number%d, sizeof values[%d]);\n", i, i, i);
      continue;
    }
    buf_printf(out, "  values[%d] = (uint64_t)%s", i, is_pointer(p) ? "(uintptr_t)" : "(int64_t)");
    put_identifier(out, p->name);
    buf_puts(out, ";\n");
  }
  buf_puts(out, e->has_grid ? "  return nereid_builtin_launch(&" : "  return nereid_builtin_launch_grid(&");
  put_identifier(out, name);
  buf_printf(out, "_bundle, device, stream, %d, %svalues, error);\n}\n", entry, e->has_grid ? "" : "grid, ");
}

void aot_write_c(const nereid_build *b, const char *name, const Buf *bytes, Buf *out) {
  buf_printf(out, "/* Made by nereid build; see %s.h. */\n#include \"%s.h\"\n\n#include <string.h>\n\n", name, name);
  buf_puts(out, "static const unsigned char bytes[] __attribute__((aligned(64))) = {\n");
  for (size_t i = 0; i < bytes->n; i++) buf_printf(out, "%d,%s", (unsigned char)bytes->at[i], i % 24 == 23 ? "\n" : "");
  buf_puts(out, "};\n\nconst nereid_builtin ");
  put_identifier(out, name);
  buf_printf(out, "_bundle = {\"%s\", bytes, sizeof bytes};\n", name);
  for (int i = 0; i < b->content.entry_count; i++) {
    if (!b->docs[i].is_launcher) continue;
    buf_putc(out, '\n');
    put_launcher(out, b, name, i);
  }
}
