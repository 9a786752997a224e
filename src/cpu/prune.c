/* What a kernel's text uses of the text before it.
 *
 * The support files declare some 4,000 functions, the compiler's own headers of vector instructions 8,000 more, and a
 * kernel calls perhaps ten of them. A compiler takes longer to read all of these than to compile the kernel. So they
 * are preprocessed once (cc.c), and each kernel gets the declarations that it uses, and what those use:
 *
 *     typedef float nd_f32;                      kept: nd_sq names it
 *     static inline nd_f32 nd_sq(nd_f32 x) {...} kept: the kernel names it
 *     static inline nd_f32 nd_cb(nd_f32 x) {...} dropped
 *     #define ND_VL 16                           kept, if the kernel names it, after all declarations
 *
 * The text is split into declarations and directives, by brackets and semicolons; of a declaration the names that it
 * declares are read. Any identifier in what is kept counts as a use of everything that has this name, whether it is
 * one or not (a member, say), so that too much may be kept, never too little. What declares no name that is known
 * here is kept. Macros come last, as they stand at the end of the text: what is preprocessed has none left to expand.
 * #pragma GCC push_options ... pop_options stays around what is kept of it; other pragmas stay where they are.
 */
#include "cpu/prune.h"

#include <ctype.h>
#include <string.h>

typedef struct Users { /* the items that declare a name */
  int item;
  struct Users *next;
} Users;

typedef enum { ITEM_DECLARATION, ITEM_MACRO, ITEM_PRAGMA, ITEM_PUSH, ITEM_POP } ItemKind;

typedef struct Item {
  const char *at, *end;
  ItemKind kind;
  int region; /* the ITEM_PUSH that it stands in; -1: none */
  bool named, kept, dropped;
} Item;

typedef struct Prune {
  Arena *arena;
  Map *names; /* -> Users */
  VEC(Item) items;
  VEC(int) fresh; /* kept, and what they use is not yet */
  const char *end;
} Prune;

static bool starts_word(char c) { return isalpha((unsigned char)c) || c == '_'; }

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *word_end(const char *p, const char *end) {
  while (p < end && in_word(*p)) p++;
  return p;
}

/* After a string or a character, which p opens. */
static const char *quoted_end(const char *p, const char *end) {
  char quote = *p++;
  for (; p < end && *p != quote; p++)
    if (*p == '\\') p++;
  return p < end ? p + 1 : end;
}

static const char *line_end(const char *p, const char *end) {
  for (; p < end && *p != '\n'; p++)
    if (*p == '\\') p++;
  return p < end ? p : end;
}

/* Over white space and comments. */
static const char *skip_space(const char *p, const char *end) {
  for (;;) {
    while (p < end && isspace((unsigned char)*p)) p++;
    if (p + 1 < end && p[0] == '/' && p[1] == '*') {
      for (p += 2; p + 1 < end && !(p[0] == '*' && p[1] == '/');) p++;
      p = p + 2 < end ? p + 2 : end;
    } else if (p + 1 < end && p[0] == '/' && p[1] == '/') {
      p = line_end(p, end);
    } else {
      return p;
    }
  }
}

static const char *number_end(const char *p, const char *end) {
  while (p < end && (in_word(*p) || *p == '.')) p++;
  return p;
}

/* After one token that is no bracket; directives within declarations (#pragma GCC unroll) are one. */
static const char *token_end(const char *p, const char *end) {
  if (starts_word(*p)) return word_end(p, end);
  if (isdigit((unsigned char)*p)) return number_end(p, end);
  if (*p == '"' || *p == '\'') return quoted_end(p, end);
  if (*p == '#') return line_end(p, end);
  return p + 1;
}

/* After the bracket that closes what p opens. */
static const char *group_end(const char *p, const char *end) {
  int depth = 0;
  while ((p = skip_space(p, end)) < end) {
    if (strchr("([{", *p)) depth++;
    if (strchr(")]}", *p) && --depth == 0) return p + 1;
    p = token_end(p, end);
  }
  return end;
}

static bool is(const char *p, const char *end, const char *word) {
  return (size_t)(end - p) == strlen(word) && !memcmp(p, word, (size_t)(end - p));
}

static bool is_one_of(const char *p, const char *end, const char *const *words) {
  for (; *words; words++)
    if (is(p, end, *words)) return true;
  return false;
}

/* ---- what declares which name ------------------------------------------------------------------------------------ */

static void declare(Prune *s, const char *name, const char *end) {
  if (!name || name == end) return;
  int item = s->items.n - 1;
  Users *u = NEW(s->arena, Users);
  *u = (Users){item, map_get_n(s->names, name, (size_t)(end - name))};
  map_put_n(s->names, name, (size_t)(end - name), u);
  s->items.at[item].named = true;
}

/* The constants of enum {A, B = 2}. */
static void declare_constants(Prune *s, const char *p, const char *end) {
  bool first = true;
  for (p = skip_space(p + 1, end); p < end && *p != '}'; p = skip_space(p, end)) {
    if (first && starts_word(*p)) declare(s, p, word_end(p, end));
    first = *p == ',';
    p = strchr("([{", *p) ? group_end(p, end) : token_end(p, end);
  }
}

/* The name in (*name), (*name[2]), (*const name); p is at the parenthesis. False: it is another kind of parenthesis. */
static bool declare_pointed(Prune *s, const char *p, const char *end) {
  p = skip_space(p + 1, end);
  if (p == end || (*p != '*' && *p != '^')) return false;
  static const char *const marks[] = {"const", "volatile", "restrict", "__restrict", "_Nonnull", "_Nullable", NULL};
  while ((p = skip_space(p, end)) < end && *p != ')') {
    if (starts_word(*p) && !is_one_of(p, word_end(p, end), marks)) {
      declare(s, p, word_end(p, end));
      return true;
    }
    p = token_end(p, end);
  }
  return true;
}

/* How far one declaration is read. */
typedef struct Declaration {
  const char *last, *last_end; /* the last word: the name, when the declarator ends here */
  bool is_named;               /* this declarator */
  bool is_function, has_value;
  bool is_typed, is_enum; /* after struct, union or enum */
  const char *tag, *tag_end;
  bool skips; /* the parenthesis to come, of an attribute */
} Declaration;

static void end_declarator(Prune *s, Declaration *d) {
  if (!d->is_named) declare(s, d->last, d->last_end);
  d->is_named = true;
}

static void read_word(Declaration *d, const char *p, const char *end) {
  static const char *const with_group[] = {"__attribute__", "__attribute", "__asm__",  "__asm",  "asm", "__declspec",
                                           "_Alignas",      "__typeof__",  "__typeof", "typeof", NULL};
  if (is_one_of(p, end, with_group)) {
    d->skips = true;
  } else if (is(p, end, "struct") || is(p, end, "union") || is(p, end, "enum")) {
    d->is_typed = true, d->is_enum = *p == 'e';
  } else if (d->is_typed && !d->tag) {
    d->tag = p, d->tag_end = end;
  } else {
    d->last = p, d->last_end = end;
  }
}

/* After the braces that p opens; *ends: they were a function's. */
static const char *read_braces(Prune *s, Declaration *d, const char *p, const char *end, bool *ends) {
  if (d->is_function && !d->has_value) {
    *ends = true;
  } else if (d->is_typed) {
    declare(s, d->tag, d->tag_end);
    if (d->is_enum) declare_constants(s, p, end);
    d->is_typed = false, d->tag = NULL;
  }
  return group_end(p, end);
}

/* One declaration from p on; returns its end. */
static const char *read_declaration(Prune *s, const char *p) {
  const char *end = s->end;
  Declaration d = {0};
  bool ends = false;
  while (!ends && (p = skip_space(p, end)) < end) {
    const char *next = strchr("([{", *p) ? group_end(p, end) : token_end(p, end);
    if (starts_word(*p)) {
      read_word(&d, p, next);
    } else if (*p == '(' && d.skips) {
      d.skips = false;
    } else if (*p == '(' && !d.is_named && !declare_pointed(s, p, end)) {
      end_declarator(s, &d);
      d.is_function = true;
    } else if (*p == '(') {
      d.is_named = true;
    } else if (*p == '{') {
      next = read_braces(s, &d, p, end, &ends);
    } else if (*p == '[') {
      end_declarator(s, &d);
    } else if (*p == '=' || *p == ',' || *p == ';') {
      if (*p == ';' && d.is_typed && !d.last) declare(s, d.tag, d.tag_end); /* struct Tag; */
      end_declarator(s, &d);
      d.has_value |= *p == '=';
      if (*p == ',') d.is_named = d.has_value = false, d.last = d.last_end = NULL;
      ends = *p == ';';
    }
    p = next;
  }
  return p;
}

/* A directive from # on: macros by name, of which the last definition holds. */
static const char *read_directive(Prune *s, const char *p) {
  const char *end = line_end(p, s->end), *word = skip_space(p + 1, end), *after = word_end(word, end),
             *name = skip_space(after, end), *name_end = word_end(name, end);
  Item *item = &s->items.at[s->items.n - 1];
  bool gcc = is(name, name_end, "GCC") || is(name, name_end, "clang");
  const char *what = gcc ? skip_space(name_end, end) : NULL, *what_end = gcc ? word_end(what, end) : NULL;
  item->kind = ITEM_PRAGMA;
  if (is(word, after, "define") || is(word, after, "undef")) {
    item->kind = ITEM_MACRO;
    for (Users *u = map_get_n(s->names, name, (size_t)(name_end - name)); u; u = u->next)
      if (s->items.at[u->item].kind == ITEM_MACRO) s->items.at[u->item].dropped = true;
    item->dropped = *word == 'u';
    declare(s, name, name_end);
  } else if (!is(word, after, "pragma")) {
    item->dropped = true; /* a line's place */
  } else if (gcc && is(what, what_end, "push_options")) {
    item->kind = ITEM_PUSH;
  } else if (gcc && is(what, what_end, "pop_options")) {
    item->kind = ITEM_POP;
  }
  return end;
}

static void split(Prune *s, const char *p) {
  int region = -1;
  while ((p = skip_space(p, s->end)) < s->end) {
    vec_push(s->arena, &s->items, (Item){.at = p, .region = region});
    int at = s->items.n - 1;
    p = *p == '#' ? read_directive(s, p) : read_declaration(s, p);
    Item *item = &s->items.at[at];
    item->end = p;
    if (item->kind == ITEM_PUSH) region = at;
    if (item->kind == ITEM_POP && region >= 0) item->region = region, region = s->items.at[region].region;
  }
}

/* ---- what is used ------------------------------------------------------------------------------------------------ */

static void keep(Prune *s, int at) {
  if (s->items.at[at].kept || s->items.at[at].dropped) return;
  s->items.at[at].kept = true;
  vec_push(s->arena, &s->fresh, at);
}

static void keep_words(Prune *s, const char *p, const char *end) {
  while ((p = skip_space(p, end)) < end) {
    const char *word = p;
    p = *p == '#' ? p + 1 : token_end(p, end);
    if (!starts_word(*word)) continue;
    for (Users *u = map_get_n(s->names, word, (size_t)(p - word)); u; u = u->next) keep(s, u->item);
  }
}

static void keep_public(Prune *s) {
  for (int i = 0; i < map_count(s->names); i++) {
    const void *name;
    void *users;
    map_entry(s->names, i, &name, &users);
    for (Users *u = users; u && *(const char *)name != '_'; u = u->next) keep(s, u->item);
  }
}

static void keep_all_used(Prune *s) {
  for (int i = 0; i < s->items.n; i++)
    if (s->items.at[i].kind == ITEM_DECLARATION && !s->items.at[i].named) keep(s, i);
  while (s->fresh.n) {
    const Item *item = &s->items.at[s->fresh.at[--s->fresh.n]];
    keep_words(s, item->at, item->end);
  }
  for (int i = s->items.n - 1; i >= 0; i--) /* an inner region comes after the one that it stands in */
    if (s->items.at[i].kept && s->items.at[i].kind != ITEM_MACRO && s->items.at[i].region >= 0)
      s->items.at[s->items.at[i].region].kept = true;
  for (int i = 0; i < s->items.n; i++) {
    Item *item = &s->items.at[i];
    if (item->kind == ITEM_PRAGMA || item->kind == ITEM_POP)
      item->kept = !item->dropped && (item->region < 0 || s->items.at[item->region].kept);
  }
}

static void write_kept(const Prune *s, bool macros, Buf *out) {
  for (int i = 0; i < s->items.n; i++) {
    const Item *item = &s->items.at[i];
    if (!item->kept || (item->kind == ITEM_MACRO) != macros) continue;
    buf_write(out, item->at, (size_t)(item->end - item->at));
    buf_putc(out, '\n');
  }
}

void c_prune(Arena *arena, const char *text, size_t n, const char *body, size_t body_size, Buf *out) {
  Prune s = {.arena = arena, .names = map_create(arena, true), .end = text + n};
  split(&s, text);
  if (body) keep_words(&s, body, body + body_size);
  else keep_public(&s);
  keep_all_used(&s);
  write_kept(&s, false, out);
  write_kept(&s, true, out);
}
