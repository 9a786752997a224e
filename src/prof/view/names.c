/* names: functions' names for people.
 *
 * What a GPU ran is called, in the driver's words,
 * _ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_, demangled "void
 * at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, ...)".
 * To people it is vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3>>: no return type, no
 * parameters (they follow from the template's), and where that is too wide, step by step, no namespaces in arguments,
 * no lambdas' numbers, no namespaces at all, no arguments of arguments, and at last no more arguments than fit. A list
 * of names (a table's) is shortened so that what differs between two of them is what stays.
 *
 * The demangler is the C++ library's, opened when the first mangled name comes; where there is none the name stays as
 * it is.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "prof/view/views.h"

/* ---- demangling -------------------------------------------------------------------------------------------------- */

static char *(*demangle)(const char *, char *, size_t *, int *);

static void find_demangler(void) {
  static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1", "libstdc++.so", "libc++abi.so"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !demangle; i++) {
    void *lib = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
    if (lib) *(void **)&demangle = dlsym(lib, "__cxa_demangle");
  }
}

static void demangled(const char *name, Buf *out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  char *text = NULL;
  if (!strncmp(name, "_Z", 2)) {
    int status = 0;
    pthread_once(&once, find_demangler);
    if (demangle) text = demangle(name, NULL, NULL, &status);
  }
  buf_puts(out, text ? text : name);
  free(text);
}

/* ---- what every form leaves out ---------------------------------------------------------------------------------- */

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }
static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '~' || (unsigned char)c >= 0x80; }

static const char *past_group(const char *p) { /* of parentheses, from the opening one */
  int depth = 0;
  for (; *p; p++) {
    depth += *p == '(', depth -= *p == ')';
    if (!depth) return p + 1;
  }
  return p;
}

/* Parameter lists, casts of arguments, "(anonymous namespace)::", the return type, suffixes of literals, the space of
 * "> >". */
static void tidy(const char *s, Buf *out) {
  int depth = 0;
  buf_puts(out, "");
  for (const char *p = s; *p;) {
    char last = out->n ? out->at[out->n - 1] : 0;
    if (starts(p, "(anonymous namespace)::")) p += strlen("(anonymous namespace)::");
    else if (starts(p, "operator") && !in_word(last) && !in_word(p[8])) {
      const char *end = p + 8 + strspn(p + 8, "<>=!+-*/%^&|~,[]");
      if (starts(end, "()")) end += 2;
      buf_write(out, p, (size_t)(end - p)), p = end;
    } else if (*p == '(') {
      p = past_group(p);
      if (starts(p, " const") && !in_word(p[6])) p += 6;
      if (*p == '[' || starts(p, " [clone") || starts(p, " (.")) break;
    } else if (*p == ' ' && (p[1] == '>' || p[1] == '<' || (last == ',' && p[1] == ' '))) p++;
    else if (*p == ' ' && !depth) { /* what came so far is the return type */
      if (out->n) out->at[out->n = 0] = 0;
      p++;
      /* 3ul; not the end of a word such as f32l */
    } else if (isdigit((unsigned char)last) && (*p == 'u' || *p == 'l') && depth) {
      size_t at = out->n;
      while (at && isdigit((unsigned char)out->at[at - 1])) at--;
      const char *end = p + strspn(p, "ul");
      if (!in_word(*end) && (!at || !in_word(out->at[at - 1]))) p = end;
      else buf_putc(out, *p++);
    } else {
      depth += *p == '<' || *p == '{', depth -= (*p == '>' && last != '-') || *p == '}';
      buf_putc(out, *p++);
    }
  }
}

/* ---- shorter forms of a tidy name -------------------------------------------------------------------------------- */

/* The part of a qualified name that ends at out->n and is at depth zero begins here: "a::b<c>::d" is one. */
typedef struct Form {
  bool bare_arguments, bare_name, no_lambdas;
  int depth;
} Form;

static void shorten(const char *s, Form form, Buf *out) {
  size_t word_at[64]; /* where the name being written at each depth begins */
  int depth = 0, hidden = 0;
  word_at[0] = 0;
  buf_puts(out, "");
  for (const char *p = s; *p; p++) {
    bool angle = *p == '<' && !(out->n >= 8 && starts(out->at + out->n - 8, "operator"));
    if (hidden) { /* inside of arguments that are left out */
      if (*p == '<') hidden++;
      else if (*p == '>' && p[-1] != '-') hidden--;
      if (!hidden) buf_putc(out, '>'), depth--;
      continue;
    }
    if (*p == '{') {
      const char *end = strchr(p, '}');
      if (form.no_lambdas && end) {
        p = end;
        while (out->n > word_at[depth] && out->at[out->n - 1] == ':') out->at[--out->n] = 0;
        continue;
      }
    }
    if (form.no_lambdas && starts(p, "::operator()")) {
      p += strlen("::operator()") - 1;
      continue;
    }
    if (starts(p, "::") && (depth ? form.bare_arguments : form.bare_name)) {
      /* A namespace (or a class) before ::, unless a lambda or an operator follows, which would say nothing alone. */
      if (!starts(p + 2, "{") && !starts(p + 2, "operator")) out->n = word_at[depth], out->at[out->n] = 0;
      else buf_puts(out, "::");
      p++;
      continue;
    }
    buf_putc(out, *p);
    if (angle) {
      if (depth < 63) depth++;
      word_at[depth] = out->n;
      if (depth >= form.depth) buf_puts(out, "…"), hidden = 1;
    } else if (*p == '>' && depth && p != s && p[-1] != '-' &&
               !(out->n >= 9 && starts(out->at + out->n - 9, "operator")))
      depth--;
    else if (*p == ',' || *p == ' ' || *p == '*' || *p == '&') word_at[depth] = out->n;
  }
}

static size_t bytes_of(const char *s, int columns) { /* of the first so many columns */
  size_t i = 0;
  for (; s[i]; i++)
    if (((unsigned char)s[i] & 0xC0) != 0x80 && columns-- == 0) break;
  return i;
}

/* Cuts to width: arguments from the right where there are some, else the middle. */
static void cut(const char *s, int width, Buf *out) {
  int columns = utf8_columns(s);
  if (columns <= width || width < 4) {
    buf_write(out, s, columns <= width ? strlen(s) : bytes_of(s, width));
    return;
  }
  const char *angle = strchr(s, '<');
  if (angle && angle != s && angle - s <= width - 8) {
    buf_write(out, s, bytes_of(s, width - 2)), buf_puts(out, "…>");
    return;
  }
  int tail = (width - 1) / 3;
  buf_write(out, s, bytes_of(s, width - 1 - tail)), buf_puts(out, "…");
  buf_puts(out, s + bytes_of(s, columns - tail));
}

/* clang-format off */
static const Form forms[] = {
    {.depth = 99}, {.bare_arguments = true, .depth = 99}, {.bare_arguments = true, .no_lambdas = true, .depth = 99},
    {true, true, true, 99}, {true, true, true, 3}, {true, true, true, 2},
};
/* clang-format on */
enum { FORMS = sizeof forms / sizeof *forms, BARE = 3 };

static void legible(const char *tidied, int width, Buf *out) {
  for (int f = 0; f < FORMS; f++) {
    out->n = 0;
    shorten(tidied, forms[f], out);
    if (utf8_columns(out->at) <= width) return;
    /* to cut its end says more than to leave out arguments' arguments */
    if (f == BARE && utf8_columns(out->at) <= 2 * width) break;
  }
  Buf last = {0};
  buf_puts(&last, out->at);
  out->n = 0;
  cut(last.at ? last.at : tidied, width, out);
  buf_destroy(&last);
}

char *name_legible(const char *name, int width, char *out, size_t size) {
  Buf full = {0}, tidied = {0}, shorter = {0};
  demangled(name, &full);
  /* no C++ */
  if (full.at && full.at != name && strncmp(name, "_Z", 2) && !strchr(name, '<') && !strchr(name, '('))
    buf_puts(&tidied, name);
  else tidy(full.at ? full.at : name, &tidied);
  if (tidied.at && tidied.n) legible(tidied.at, width > 0 ? width : 60, &shorter);
  const char *text = shorter.at && shorter.n ? shorter.at : name;
  size_t n = strlen(text);
  if (n >= size && size) n = size - 1;
  while (n && n < strlen(text) && ((unsigned char)text[n] & 0xC0) == 0x80) n--; /* no half of a character */
  if (size) memcpy(out, text, n), out[n] = 0;
  buf_destroy(&full), buf_destroy(&tidied), buf_destroy(&shorter);
  return out;
}

char *name_demangled(const char *name, char *out, size_t size) {
  Buf full = {0};
  demangled(name, &full);
  snprintf(out, size, "%s", full.at ? full.at : name);
  buf_destroy(&full);
  return out;
}

/* ---- several names that must stay apart -------------------------------------------------------------------------- */

/* Of names that came out equal: each as what is before its arguments, "…", and all from where it first differs from
 * another of them. */
static void tell_apart(Arena *a, const char *const *names, const int *which, int n, int width, const char **out) {
  const char **bare = NEW_N(a, const char *, n);
  for (int i = 0; i < n; i++) {
    Buf full = {0}, tidied = {0}, b = {0};
    demangled(names[which[i]], &full), tidy(full.at, &tidied);
    shorten(tidied.at, forms[BARE], &b);
    bare[i] = arena_strdup(a, b.at);
    buf_destroy(&full), buf_destroy(&tidied), buf_destroy(&b);
  }
  for (int i = 0; i < n; i++) {
    size_t same = 0; /* the longest beginning that another of them shares */
    for (int j = 0; j < n; j++) {
      size_t k = 0;
      while (bare[i][k] && bare[i][k] == bare[j][k]) k++;
      if (j != i && strcmp(bare[i], bare[j]) && k > same) same = k;
    }
    while (same && in_word(bare[i][same - 1])) same--; /* a whole word */
    const char *angle = strchr(bare[i], '<');
    size_t head = angle && (size_t)(angle - bare[i]) < same ? (size_t)(angle - bare[i]) + 1 : 0;
    if (head > (size_t)width / 2) head = bytes_of(bare[i], width / 2);
    if (same <= head + 1) {
      Buf b = {0};
      cut(bare[i], width, &b);
      out[which[i]] = arena_strdup(a, b.at);
      buf_destroy(&b);
      continue;
    }
    const char *rest = bare[i] + same;
    int room = width - utf8_columns(bare[i]) + utf8_columns(bare[i] + head) - 1;
    bool whole = utf8_columns(rest) <= room;
    out[which[i]] = arena_printf(a, "%.*s…%.*s%s", (int)head, bare[i], (int)bytes_of(rest, whole ? room : room - 1),
                                 rest, whole ? "" : "…");
  }
}

void names_legible(Arena *a, const char *const *names, int n, int width, const char **out) {
  if (width <= 0) width = 60;
  Map *taken = map_create(a, true); /* a short name -> a chain of those that have it */
  int *next = NEW_N(a, int, n + 1), *first, *group = NEW_N(a, int, n + 1);
  char text[2048];
  for (int i = 0; i < n; i++) {
    next[i] = -1;
    out[i] = arena_strdup(a, name_legible(names[i], width, text, sizeof text));
    if ((first = map_get(taken, out[i]))) next[i] = *first;
    else map_put(taken, out[i], first = NEW(a, int));
    *first = i;
  }
  for (int g = 0, count = map_count(taken); g < count; g++) {
    void *value;
    int m = 0;
    map_entry(taken, g, NULL, &value);
    for (int i = *(int *)value; i >= 0; i = next[i]) {
      bool seen = false;
      for (int j = 0; j < m; j++) seen |= !strcmp(names[group[j]], names[i]);
      if (!seen) group[m++] = i;
    }
    if (m < 2) continue;
    tell_apart(a, names, group, m, width, out);
    for (int i = *(int *)value; i >= 0; i = next[i]) /* those that had the same name all along */
      for (int j = 0; j < m; j++)
        if (i != group[j] && !strcmp(names[i], names[group[j]])) out[i] = out[group[j]];
    /* What still is the same (say, differs in what every form leaves out) is numbered. */
    for (int j = m - 1; j > 0; j--) {
      int same = 0;
      for (int k = 0; k < j; k++) same += !strcmp(out[group[j]], out[group[k]]);
      if (same)
        out[group[j]] = arena_printf(a, "%.*s #%d", (int)bytes_of(out[group[j]], width - 4), out[group[j]], same + 1);
    }
  }
}
