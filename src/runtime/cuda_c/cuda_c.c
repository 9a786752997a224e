/* Reading the signatures of CUDA C kernels.
 *
 *     template <typename T, int N> __global__ void __launch_bounds__(256) scale(const T *__restrict__ x, T *y,
 *                                                                              size_t n)
 *
 * A lexer drops comments, strings and preprocessor lines (of those a #define of one name is kept as an alias, as are
 * typedef and using); a walk over the tokens keeps count of namespaces and looks for __global__. From there on a
 * declaration is plain: attributes, void, the name, the parameters in brackets.
 */
#include "runtime/cuda_c/cuda_c.h"

#include <ctype.h>
#include <stdlib.h>

typedef struct Token {
  const char *at;
  int n, line;
} Token;

typedef struct Alias { /* typedef A B;  using B = A;  #define B A */
  Token name;
  const Token *first;
  int n;
} Alias;

typedef struct Reader {
  Context *cx;
  const Source *src;
  VEC(Token) tokens;
  VEC(Alias) aliases;
  VEC(CudaCKernel) kernels;
  VEC(Token) scope;    /* names of the namespaces around; those of other braces are empty */
  Token arguments_of;  /* a template to instantiate: its name; n 0: none */
  const Token *values; /* the template's arguments, separated by commas */
  int value_count;
} Reader;

static bool is(const Token *t, const char *s) { return (size_t)t->n == strlen(s) && !memcmp(t->at, s, (size_t)t->n); }
static bool is_name(const Token *t) { return t->n && (isalpha((unsigned char)*t->at) || *t->at == '_'); }
static bool same(const Token *a, const Token *b) { return a->n == b->n && !memcmp(a->at, b->at, (size_t)a->n); }

static NORETURN void fail_at(Reader *r, const Token *t, const char *what) {
  Span s = {.source = r->src, .line = t ? t->line : 1, .end_line = t ? t->line : 1};
  if (t && t->at >= r->src->text && t->at <= r->src->text + r->src->size) {
    s.col = (int)(t->at - r->src->text) - (int)r->src->line_start[t->line - 1];
    s.end_col = s.col + t->n;
  }
  diag_fail(r->cx, s, "%s", what);
}

/* ---- the lexer --------------------------------------------------------------------------------------------------- */

static const char *skip_quoted(const char *p, int *line) {
  for (char q = *p++; *p && *p != q; p++) {
    if (*p == '\\' && p[1]) p++;
    *line += *p == '\n';
  }
  return *p ? p + 1 : p;
}

/* Past the end of a preprocessor line and its continuations. */
static const char *line_end(const char *p, int *line) {
  for (; *p && *p != '\n'; p++)
    if (*p == '\\' && p[1] == '\n') p++, ++*line;
  return p;
}

static void lex(Reader *r, const char *p, int line);

/* "#define REAL float": an alias; macros with arguments and others are left alone. */
static void read_define(Reader *r, const char *p, const char *end, int line) {
  stack_guard();
  p += 1 + strspn(p + 1, " \t");
  if (strncmp(p, "define", 6) || !strchr(" \t", p[6])) return;
  p += 6 + strspn(p + 6, " \t");
  Token name = {p, 0, line};
  while (isalnum((unsigned char)p[name.n]) || p[name.n] == '_') name.n++;
  if (!name.n || p[name.n] == '(') return;
  char *value = arena_printf(r->cx->arena, "%.*s", (int)(end - p - name.n), p + name.n);
  Reader inner = {.cx = r->cx, .src = r->src};
  lex(&inner, value, line);
  if (inner.tokens.n && is_name(&inner.tokens.at[0]))
    vec_push(r->cx->arena, &r->aliases, ((Alias){name, inner.tokens.at, inner.tokens.n}));
}

static void lex(Reader *r, const char *p, int line) {
  bool fresh = true; /* nothing stands before on this line */
  while (*p) {
    Token t = {p, 1, line};
    if (*p == '\n') {
      line++, p++, fresh = true;
      continue;
    }
    if (isspace((unsigned char)*p) || (*p == '\\' && p[1] == '\n')) {
      p++;
      continue;
    }
    if (*p == '/' && p[1] == '/') {
      p = line_end(p, &line);
      continue;
    }
    if (*p == '/' && p[1] == '*') {
      for (p += 2; *p && !(*p == '*' && p[1] == '/'); p++) line += *p == '\n';
      p += *p ? 2 : 0;
      continue;
    }
    if (*p == '#' && fresh) {
      const char *end = line_end(p, &line);
      read_define(r, p, end, t.line);
      p = end;
      continue;
    }
    fresh = false;
    if (*p == '"' || *p == '\'') {
      p = skip_quoted(p, &line);
      t.n = (int)(p - t.at);
    } else if (isalnum((unsigned char)*p) || *p == '_') {
      while (isalnum((unsigned char)p[t.n]) || p[t.n] == '_' || (isdigit((unsigned char)*p) && p[t.n] == '.')) t.n++;
      p += t.n;
    } else {
      if (*p == ':' && p[1] == ':') t.n = 2;
      p += t.n;
    }
    vec_push(r->cx->arena, &r->tokens, t);
  }
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  Dtype dtype;
  /* clang-format off */
} named_types[] = {
    {"bool", DT_I1}, {"int8_t", DT_I8}, {"uint8_t", DT_U8}, {"int16_t", DT_I16}, {"uint16_t", DT_U16},
    {"int32_t", DT_I32}, {"uint32_t", DT_U32}, {"int64_t", DT_I64}, {"uint64_t", DT_U64}, {"size_t", DT_U64},
    {"ptrdiff_t", DT_I64}, {"ssize_t", DT_I64}, {"intptr_t", DT_I64}, {"uintptr_t", DT_U64}, {"uint", DT_U32},
    {"uchar", DT_U8}, {"ushort", DT_U16}, {"float", DT_F32}, {"half", DT_F16}, {"__half", DT_F16},
    {"nv_bfloat16", DT_BF16}, {"__nv_bfloat16", DT_BF16}, {"__nv_fp8_e4m3", DT_F8E4NV}, {"__nv_fp8_e5m2", DT_F8E5},
};
/* clang-format on */

/* CUDA's vectors: what a pointer to one must be aligned to. */
static const struct {
  const char *name;
  int bytes;
} vector_types[] = {{"char2", 2},         {"uchar2", 2},      {"char4", 4},   {"uchar4", 4},  {"short2", 4},
                    {"ushort2", 4},       {"short4", 8},      {"ushort4", 8}, {"int2", 8},    {"uint2", 8},
                    {"int4", 16},         {"uint4", 16},      {"float2", 8},  {"float4", 16}, {"double2", 16},
                    {"longlong2", 16},    {"ulonglong2", 16}, {"half2", 4},   {"__half2", 4}, {"nv_bfloat162", 4},
                    {"__nv_bfloat162", 4}};

static const char *const qualifiers[] = {
    "const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "struct", "typename",
    "std",   "::",       "register",     "cuda",       NULL};

static bool is_one_of(const Token *t, const char *const *list) {
  for (; *list; list++)
    if (is(t, *list)) return true;
  return false;
}

typedef struct CType {
  int chars, shorts, ints, longs, signs, unsigneds, doubles, pointers, others;
  Dtype named;
  bool has_named, is_void;
  int align;
  int words; /* looked at: aliases may name each other */
} CType;

enum { MOST_WORDS = 1000 };

static void read_type(Reader *r, CType *t, const Token *at, int n, int depth);

static bool read_alias(Reader *r, CType *t, const Token *name, int depth) {
  for (int i = r->aliases.n - 1; i >= 0; i--) {
    const Alias *a = &r->aliases.at[i];
    if (!same(&a->name, name)) continue;
    read_type(r, t, a->first, a->n, depth + 1);
    return true;
  }
  return false;
}

static void read_type(Reader *r, CType *t, const Token *at, int n, int depth) {
  stack_guard();
  for (int i = 0; i < n; i++) {
    const Token *w = &at[i];
    if (++t->words > MOST_WORDS || depth > 16) {
      t->others++;
      return;
    }
    if (is_one_of(w, qualifiers)) continue;
    if (is(w, "*")) t->pointers++;
    else if (is(w, "char")) t->chars++;
    else if (is(w, "short")) t->shorts++;
    else if (is(w, "int")) t->ints++;
    else if (is(w, "long")) t->longs++;
    else if (is(w, "signed")) t->signs++;
    else if (is(w, "unsigned")) t->unsigneds++;
    else if (is(w, "double")) t->doubles++;
    else if (is(w, "void")) t->is_void = true;
    else if (!is_name(w)) t->others++;
    else {
      bool found = false;
      for (size_t k = 0; k < sizeof named_types / sizeof named_types[0] && !found; k++)
        if (is(w, named_types[k].name)) t->named = named_types[k].dtype, t->has_named = found = true;
      for (size_t k = 0; k < sizeof vector_types / sizeof vector_types[0] && !found; k++)
        if (is(w, vector_types[k].name)) t->align = vector_types[k].bytes, t->others++, found = true;
      if (!found && !read_alias(r, t, w, depth)) t->others++;
    }
  }
}

static bool type_dtype(const CType *t, Dtype *out) {
  if (t->others || t->is_void) return false;
  if (t->has_named) return *out = t->named, true;
  bool u = t->unsigneds != 0;
  if (t->doubles) *out = DT_F64;
  else if (t->chars) *out = u ? DT_U8 : DT_I8;
  else if (t->shorts) *out = u ? DT_U16 : DT_I16;
  else if (t->longs) *out = u ? DT_U64 : DT_I64;
  else if (t->ints || t->signs || u) *out = u ? DT_U32 : DT_I32;
  else return false;
  return true;
}

/* ---- one kernel -------------------------------------------------------------------------------------------------- */

static const char *tokens_text(Reader *r, const Token *at, int n) {
  Buf b = {0};
  for (int i = 0; i < n; i++) {
    bool space = i && !is(&at[i], "::") && !is(&at[i - 1], "::") && !is(&at[i], ">") && !is(&at[i], "<") &&
                 !is(&at[i - 1], "<") && !(is(&at[i], "*") && is(&at[i - 1], "*"));
    buf_printf(&b, "%s%.*s", space ? " " : "", at[i].n, at[i].at);
  }
  const char *text = b.failed || !b.at ? "" : arena_strdup(r->cx->arena, b.at);
  buf_destroy(&b);
  return text;
}

static void read_param(Reader *r, CudaCParam *p, const Token *at, int n, int index) {
  for (int i = 0; i < n; i++)
    if (is(&at[i], "=")) n = i;
  int array = 0; /* "float x[]" is a pointer */
  while (n && is(&at[n - 1], "]")) {
    while (n && !is(&at[n - 1], "[")) n--;
    if (n) n--, array++;
  }
  /* The last word is the name, unless it is the type's only one. */
  int words = 0;
  for (int i = 0; i < n; i++) words += is_name(&at[i]) && !is_one_of(&at[i], qualifiers);
  CType t = {0};
  static const char *const type_words[] = {"char",   "short", "int",  "long", "signed", "unsigned",
                                           "double", "float", "void", "bool", NULL};
  bool named =
      n && is_name(&at[n - 1]) && words > 1 && !is_one_of(&at[n - 1], type_words) && !is_one_of(&at[n - 1], qualifiers);
  p->name = named ? arena_printf(r->cx->arena, "%.*s", at[n - 1].n, at[n - 1].at)
                  : arena_printf(r->cx->arena, "arg%d", index);
  n -= named;
  read_type(r, &t, at, n, 0);
  p->type = arena_printf(r->cx->arena, "%s%s", tokens_text(r, at, n), array ? " *" : "");
  p->is_pointer = t.pointers + array > 0;
  p->known = t.pointers + array <= 1 && type_dtype(&t, &p->dtype);
  p->align = p->known ? dtype_bytes(p->dtype) : t.pointers + array > 1 ? 8 : t.align ? t.align : 1;
}

/* The index after the bracket that closes the one at i. */
static int after_bracket(Reader *r, int i) {
  const char open = *r->tokens.at[i].at, close = open == '(' ? ')' : open == '<' ? '>' : open == '[' ? ']' : '}';
  int depth = 0, start = i;
  for (; i < r->tokens.n; i++) {
    const Token *t = &r->tokens.at[i];
    if (t->n == 1 && *t->at == open) depth++;
    if (t->n == 1 && *t->at == close && --depth == 0) return i + 1;
  }
  fail_at(r, &r->tokens.at[start], "this bracket is not closed");
}

/* Calls each(...) for the parts between the commas of tokens [i, end) that stand in no bracket. */
static int split(const Token *at, int n, int starts[], int ends[], int max) {
  int depth = 0, count = 0, start = 0;
  if (!n) return 0;
  for (int i = 0; i <= n; i++) {
    if (i < n && (is(&at[i], "(") || is(&at[i], "<") || is(&at[i], "[") || is(&at[i], "{"))) depth++;
    if (i < n && (is(&at[i], ")") || is(&at[i], ">") || is(&at[i], "]") || is(&at[i], "}"))) depth--;
    if (i < n && !(is(&at[i], ",") && depth == 0)) continue;
    if (count == max) return -1;
    starts[count] = start, ends[count++] = i;
    start = i + 1;
  }
  return count;
}

enum { MOST_PARAMS = 256 };

/* The template's parameters become aliases of the arguments it is to have. */
static void bind_template(Reader *r, int first, int end) {
  int starts[64], ends[64], from[64], to[64];
  int n = split(&r->tokens.at[first], end - first, starts, ends, 64),
      given = split(r->values, r->value_count, from, to, 64);
  if (n < 0 || given > n)
    fail_at(r, &r->tokens.at[first], "the template has fewer parameters than arguments are given");
  for (int i = 0; i < n; i++) {
    const Token *p = &r->tokens.at[first + starts[i]];
    int count = ends[i] - starts[i], name = count - 1;
    const Token *value = i < given ? &r->values[from[i]] : NULL;
    int value_n = i < given ? to[i] - from[i] : 0;
    for (int k = 0; k < count; k++)
      if (is(&p[k], "=")) {
        name = k - 1;
        if (!value) value = &p[k + 1], value_n = count - k - 1;
        break;
      }
    if (!value)
      fail_at(r, p, "the template needs an argument for this parameter: name the kernel as in FILE.cu:k<float>");
    if (name > 0) vec_push(r->cx->arena, &r->aliases, ((Alias){p[name], value, value_n}));
  }
}

/* At __global__; template_at: index of the "<" of the template before it, or -1. Returns where to go on. */
static int read_kernel(Reader *r, int i, int template_at, bool extern_c) {
  const Token *start = &r->tokens.at[i];
  int name = -1;
  for (i++; i < r->tokens.n && name < 0; i++) {
    const Token *t = &r->tokens.at[i];
    bool call = i + 1 < r->tokens.n && is(&r->tokens.at[i + 1], "(");
    if (is(t, ";") || is(t, "{")) return i; /* no function */
    if (!is_name(t) || !call) continue;
    if (t->n > 2 && t->at[0] == '_' && t->at[1] == '_') i = after_bracket(r, i + 1) - 1; /* __launch_bounds__(256) */
    else name = i;
  }
  if (name < 0) return r->tokens.n;
  int open = name + 1, end = after_bracket(r, open);
  CudaCKernel k = {.line = r->tokens.at[name].line, .is_template = template_at >= 0, .is_extern_c = extern_c};
  Buf b = {0};
  for (int s = 0; s < r->scope.n && !extern_c; s++)
    if (r->scope.at[s].n) buf_printf(&b, "%.*s::", r->scope.at[s].n, r->scope.at[s].at);
  buf_printf(&b, "%.*s", r->tokens.at[name].n, r->tokens.at[name].at);
  if (b.failed) context_out_of_memory(r->cx);
  k.name = arena_strdup(r->cx->arena, b.at);
  buf_destroy(&b);
  bool wanted = r->arguments_of.n && is(&r->arguments_of, k.name);
  if (wanted && template_at >= 0) bind_template(r, template_at + 1, after_bracket(r, template_at) - 1);
  static const char *const nothing[] = {"void", NULL};
  int starts[MOST_PARAMS], ends[MOST_PARAMS];
  const Token *params = &r->tokens.at[open + 1];
  int n = split(params, end - open - 2, starts, ends, MOST_PARAMS);
  if (n < 0) fail_at(r, start, "a kernel may have 256 parameters");
  if (n == 1 && ends[0] == 1 && is_one_of(params, nothing)) n = 0;
  k.params = NEW_N(r->cx->arena, CudaCParam, n);
  k.param_count = n;
  for (int p = 0; p < n; p++) read_param(r, &k.params[p], params + starts[p], ends[p] - starts[p], p);
  bool again = false; /* a declaration before the definition */
  for (int p = 0; p < r->kernels.n; p++) again |= !strcmp(r->kernels.at[p].name, k.name);
  if (!again) vec_push(r->cx->arena, &r->kernels, k);
  return end;
}

/* typedef unsigned int u32;   using u32 = unsigned int; */
static int read_typedef(Reader *r, int i) {
  bool is_using = is(&r->tokens.at[i], "using");
  int end = i;
  while (end < r->tokens.n && !is(&r->tokens.at[end], ";") && !is(&r->tokens.at[end], "{")) end++;
  const Token *t = &r->tokens.at[i];
  int n = end - i;
  if (end == r->tokens.n || !is(&r->tokens.at[end], ";")) return i + 1;
  if (is_using && n > 3 && is(&t[2], "=")) vec_push(r->cx->arena, &r->aliases, ((Alias){t[1], t + 3, n - 3}));
  if (!is_using && n > 2 && is_name(&t[n - 1])) vec_push(r->cx->arena, &r->aliases, ((Alias){t[n - 1], t + 1, n - 2}));
  return end + 1;
}

/* ---- the whole text ---------------------------------------------------------------------------------------------- */

static void read_text(Reader *r) {
  int template_at = -1;
  bool extern_c = false;
  int extern_depth = 0; /* of an extern "C" { ... } around, plus one */
  for (int i = 0; i < r->tokens.n;) {
    const Token *t = &r->tokens.at[i];
    const Token *next = i + 1 < r->tokens.n ? t + 1 : t;
    if (is(t, "template") && is(next, "<")) {
      template_at = i + 1;
      i = after_bracket(r, i + 1);
      continue;
    }
    if (is(t, "extern") && is(next, "\"C\"")) {
      i += 2;
      if (i < r->tokens.n && is(&r->tokens.at[i], "{")) {
        vec_push(r->cx->arena, &r->scope, (Token){0});
        if (!extern_depth) extern_depth = r->scope.n;
        i++;
      } else {
        extern_c = true;
      }
      continue;
    }
    if (is(t, "__global__")) {
      i = read_kernel(r, i, template_at, extern_c || extern_depth);
      template_at = -1, extern_c = false;
      continue;
    }
    if (is(t, "namespace")) {
      int k = i + 1;
      while (k < r->tokens.n && !is(&r->tokens.at[k], "{") && !is(&r->tokens.at[k], ";")) k++;
      if (k < r->tokens.n && is(&r->tokens.at[k], "{")) {
        Token name = is_name(next) ? *next : (Token){0};
        if (name.n) name.n = (int)(r->tokens.at[k - 1].at + r->tokens.at[k - 1].n - name.at); /* a::b */
        vec_push(r->cx->arena, &r->scope, name);
      }
      i = k + 1;
      continue;
    }
    if (is(t, "typedef") || is(t, "using")) {
      i = read_typedef(r, i);
      continue;
    }
    if (is(t, "{")) vec_push(r->cx->arena, &r->scope, (Token){0});
    if (is(t, "}") && r->scope.n) {
      if (r->scope.n == extern_depth) extern_depth = 0;
      r->scope.n--;
    }
    if (is(t, ";") || is(t, "}")) template_at = -1, extern_c = false;
    i++;
  }
}

int cuda_c_kernels(Context *cx, const Source *src, CudaCKernel **out) {
  Reader r = {.cx = cx, .src = src};
  lex(&r, src->text, 1);
  read_text(&r);
  *out = r.kernels.at;
  return r.kernels.n;
}

CudaCKernel *cuda_c_instance(Context *cx, const Source *src, const char *name, const char *arguments) {
  Reader values = {.cx = cx, .src = src}, r = {.cx = cx, .src = src};
  lex(&values, arena_strdup(cx->arena, arguments), 1);
  r.arguments_of = (Token){name, (int)strlen(name), 1};
  r.values = values.tokens.at;
  r.value_count = values.tokens.n;
  lex(&r, src->text, 1);
  read_text(&r);
  for (int i = 0; i < r.kernels.n; i++)
    if (!strcmp(r.kernels.at[i].name, name)) return &r.kernels.at[i];
  return NULL;
}
