/* Kernels that are alike: those of a model's layers differ in names alone. Of several whose texts are the same, but for
 * what their own names are and what the comments say, the first serves all, and is compiled once.
 *
 *     @triton.jit                          @triton.jit
 *     def v1(v2, v3):                      def mul_3_kernel(add_1_ptr, mul_3_ptr):
 *         v4 = tl.load(v2)                     add_1 = tl.load(add_1_ptr)
 *         tl.store(v3, v4 * v4)                tl.store(mul_3_ptr, add_1 * add_1)
 *
 * A kernel's own names are those that it binds: of functions and their parameters, of what it assigns, of its loops.
 * All else (`tl`, helpers, keywords, what stands after a dot, or before the `=` of an argument) stays as it is. */
#include "fuse/fuse.h"

static bool is_word(char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_'; }

static size_t word_at(const char *s) {
  size_t n = 0;
  while (is_word(s[n])) n++;
  return n;
}

/* The names of a list `a, b, c` are bound; nothing is where something else stands in it. */
static void bind_list(Map *bound, const char *s, const char *end) {
  for (const char *c = s; c < end; c++)
    if (!is_word(*c) && *c != ',' && *c != ' ') return;
  while (s < end) {
    size_t n = word_at(s);
    if (n) map_put_n(bound, s, n, bound);
    s += n ? n : 1;
  }
}

/* `def name(a, b, X: tl.constexpr):` */
static void bind_function(Map *bound, const char *s) {
  while (*s != '\n' && *s) {
    size_t n = word_at(s);
    if (n) map_put_n(bound, s, n, bound);
    s += n;
    if (*s == ':') s += strcspn(s, ",\n");
    else if (*s && *s != '\n') s++;
  }
}

static void bind_line(Map *bound, const char *s) {
  const char *end = s + strcspn(s, "\n"), *is = strstr(s, " = "), *in = strstr(s, " in ");
  if (!strncmp(s, "def ", 4)) bind_function(bound, s + 4);
  else if (!strncmp(s, "for ", 4) && in && in < end) bind_list(bound, s + 4, in);
  else if (is && is < end) bind_list(bound, s, is);
}

void fuse_unnamed(Buf *out, const char *text) {
  Map *bound = map_create(out->arena, true), *numbers = map_create(out->arena, true);
  for (const char *s = text; *s; s += strcspn(s, "\n"), s += *s != 0) bind_line(bound, s += strspn(s, " "));
  for (const char *s = text; *s;) {
    size_t n = word_at(s);
    if (*s == '#') {
      s += strcspn(s, "\n");
      continue;
    }
    if (*s == '"') n = 1 + strcspn(s + 1, "\""), n += s[n] != 0;
    bool argument = s[n] == '=' && s[n + 1] != '=';
    bool own = n && map_get_n(bound, s, n) && !argument && (s == text || s[-1] != '.');
    if (!own) {
      buf_write(out, s, n ? n : 1);
      s += n ? n : 1;
      continue;
    }
    intptr_t known = (intptr_t)map_get_n(numbers, s, n);
    if (!known) map_put_n(numbers, s, n, (void *)(known = map_count(numbers) + 1));
    buf_printf(out, "v%d", (int)known);
    s += n;
  }
}

void fuse_share(FusePlan *p) {
  Arena *a = p->g->cx->arena;
  Map *texts = map_create(a, true), *functions = map_create(a, true);
  for (int i = 0; i < p->kernels.n; i++) {
    FuseKernel *k = p->kernels.at[i];
    if (k->library || k->convolution) continue;
    Buf text = {.arena = a};
    fuse_unnamed(&text, k->text);
    const FuseKernel *first = map_get(texts, text.at);
    if (first) k->name = first->name, k->text = NULL;
    else map_put(texts, arena_strdup(a, text.at), k);
    buf_printf(&text, "# %d", k->num_warps);
    for (int c = 0; c < k->constant_count; c++) buf_printf(&text, " %lld", (long long)k->constants[c]);
    k->repeats = map_get(functions, text.at) != NULL;
    map_put(functions, text.at, k);
  }
}
