/* Reads the text of inline assembly and makes the operations of each statement as it goes.
 *
 *     text      = { statement }
 *     statement = "{" text "}" | ".reg" type name {"," name} ";" | ["@" ["!"] p] name [operands] ";"
 *     operand   = ["!"] register | constant | "{" operand {"," operand} "}" | "[" register ["+" constant] "]" | "_"
 *
 * A register is `$0` (an operand of the call) or a name that `.reg` declared in this scope or one around it; `r<4>`
 * declares r0 to r3. Labels and jumps are refused: all elements are computed together.
 */
#include "tile/asm/asm.h"

#include <ctype.h>
#include <stdlib.h>

static const AsmRow rows[ASMI_COUNT] = {
#define INST(id, name, emit, types, modifiers, least, most) \
  {name, asm_##emit, types, modifiers, least, most, ASMI_##id},
#include "tile/asm/instructions.def"
#undef INST
};

/* One text; scopes are counted, and end by dropping the names declared since. */
typedef struct Reader {
  Asm *x;
  const char *at, *start; /* of the statement */
  VEC(AsmReg *) declared;
} Reader;

/* ---- words ---- */

static void space(Reader *r) {
  for (;;) {
    if (isspace((unsigned char)*r->at)) r->at++;
    else if (r->at[0] == '/' && r->at[1] == '/') r->at += strcspn(r->at, "\n");
    else if (r->at[0] == '/' && r->at[1] == '*') {
      const char *end = strstr(r->at + 2, "*/");
      r->at = end ? end + 2 : r->at + strlen(r->at);
    } else return;
  }
}

static bool take(Reader *r, char sign) {
  space(r);
  if (*r->at != sign) return false;
  r->at++;
  return true;
}

static NORETURN void wrong(Reader *r, const char *expected) {
  space(r);
  r->x->inst = NULL;
  if (!*r->at) asm_refuse(r->x, "expected %s, found the end of the text", expected);
  asm_refuse(r->x, "expected %s, found `%.20s`", expected, r->at);
}

static void expect(Reader *r, char sign) {
  char what[4] = {'`', sign, '`', 0};
  if (!take(r, sign)) wrong(r, what);
}

static size_t name_length(const char *s) {
  size_t n = *s == '%' || *s == '$';
  while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '$') n++;
  return n;
}

static const char *word(Reader *r, const char *expected) {
  space(r);
  size_t digits = r->at[0] == '$' && r->at[1] == '{' ? strspn(r->at + 2, "0123456789") : 0;
  if (digits && r->at[2 + digits] == '}') { /* ${1} */
    const char *s = arena_printf(r->x->b->func->cx->arena, "$%.*s", (int)digits, r->at + 2);
    r->at += digits + 3;
    return s;
  }
  size_t n = name_length(r->at);
  if (!n) wrong(r, expected);
  const char *s = arena_strndup(r->x->b->func->cx->arena, r->at, n);
  r->at += n;
  return s;
}

/* ---- registers ---- */

static int find_type(const char *s) {
  for (int t = 0; t < ASM_TYPE_COUNT; t++)
    if (!strcmp(asm_types[t].name, s)) return t;
  return -1;
}

static void declare(Reader *r, const char *name, int bits) {
  Arena *arena = r->x->b->func->cx->arena;
  AsmReg *reg = NEW(arena, AsmReg);
  *reg = (AsmReg){.name = name, .bits = bits};
  vec_push(arena, &r->declared, reg);
}

static void declaration(Reader *r) {
  Arena *arena = r->x->b->func->cx->arena;
  expect(r, '.');
  int t = find_type(word(r, "a type"));
  if (t < 0) wrong(r, "the type of a register");
  do {
    const char *name = word(r, "the name of a register");
    if (!take(r, '<')) {
      declare(r, name, asm_types[t].bits);
      continue;
    }
    space(r);
    char *end;
    long n = strtol(r->at, &end, 10);
    if (end == r->at || n < 1 || n > 1024) wrong(r, "a number of registers up to 1024");
    r->at = end;
    expect(r, '>');
    for (long k = 0; k < n; k++) declare(r, arena_printf(arena, "%s%ld", name, k), asm_types[t].bits);
  } while (take(r, ','));
  expect(r, ';');
}

static AsmReg *find_register(Reader *r, const char *name) {
  Asm *x = r->x;
  if (*name == '$') {
    char *end;
    long k = strtol(name + 1, &end, 10);
    if (end == name + 1 || *end || k < 0 || k >= x->operand_count)
      asm_refuse(x, "there is no operand %s, only $0 to $%d", name, x->operand_count - 1);
    return &x->operand[k];
  }
  for (int k = r->declared.n - 1; k >= 0; k--)
    if (!strcmp(r->declared.at[k]->name, name)) return r->declared.at[k];
  if (*name == '%') asm_refuse(x, "the register %s is a GPU's", name);
  asm_refuse(x, "`%s` is not declared", name);
}

/* ---- operands ---- */

static AsmOperand constant(Reader *r) {
  space(r);
  return asm_constant(r->x, &r->at);
}

static AsmOperand operand(Reader *r, bool inside) {
  stack_guard();
  Arena *arena = r->x->b->func->cx->arena;
  space(r);
  AsmOperand o = {0};
  if (!inside && take(r, '{')) {
    o.kind = ASM_VECTOR;
    o.items = NEW_N(arena, AsmOperand, 8);
    do {
      if (o.count == 8) wrong(r, "at most 8 registers in `{}`");
      o.items[o.count++] = operand(r, true);
    } while (take(r, ','));
    expect(r, '}');
    return o;
  }
  if (take(r, '[')) {
    o.kind = ASM_ADDRESS;
    o.reg = find_register(r, word(r, "a register"));
    space(r);
    if (*r->at == '+' || *r->at == '-') o.value = constant(r).value;
    expect(r, ']');
    return o;
  }
  if (asm_begins_constant(r->at)) return constant(r);
  o.negated = take(r, '!');
  const char *name = word(r, "an operand");
  if (!strcmp(name, "_")) o.kind = ASM_SINK;
  else o.reg = find_register(r, name);
  return o;
}

/* ---- instructions ---- */

static bool lists(const char *words, const char *s) {
  size_t n = strlen(s);
  for (const char *p = words; *p; p += strspn(p, " ")) {
    size_t m = strcspn(p, " ");
    if (m == n && !strncmp(p, s, n)) return true;
    p += m;
  }
  return false;
}

/* The text between two dots; "L1::no_allocate" and "shared::cta" are one. */
static const char *name_part(Reader *r) {
  size_t n = 0;
  while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_' || (r->at[n] == ':' && r->at[n + 1] == ':') ||
         (r->at[n] == ':' && n && r->at[n - 1] == ':'))
    n++;
  if (!n) wrong(r, "an instruction");
  const char *s = arena_strndup(r->x->b->func->cx->arena, r->at, n);
  r->at += n;
  return s;
}

static const char *full_name(const AsmInst *i, char *out, size_t size) {
  size_t n = 0;
  out[0] = 0;
  for (int k = 0; k < i->parts && n < size; k++)
    n += (size_t)snprintf(out + n, size - n, "%s%s", k ? "." : "", i->part[k]);
  return out;
}

static void find_row(Asm *x, AsmInst *i) {
  char name[160];
  for (int k = 0; k < ASMI_COUNT && !i->row; k++)
    if (!strcmp(rows[k].name, i->part[0])) i->row = &rows[k];
  if (i->row && asm_code(i) == ASMI_CVT && i->parts > 1 && !strcmp(i->part[1], "pack")) {
    i->row = &rows[ASMI_CVT_PACK];
    memmove(&i->part[1], &i->part[2], sizeof i->part[0] * (size_t)(--i->parts - 1));
  }
  if (!i->row) asm_refuse(x, "the instruction `%s` runs on a GPU only", full_name(i, name, sizeof name));
  bool any = lists(i->row->modifiers, "_");
  for (int k = 1; k < i->parts; k++) {
    int t = find_type(i->part[k]);
    bool is_type = t >= 0 && lists(i->row->types, i->part[k]);
    if (is_type && i->types < 4) i->type[i->types++] = (AsmTypeId)t;
    if (!is_type && !lists(i->row->modifiers, i->part[k]) && !(any && t < 0))
      asm_refuse(x, "`.%s` of `%s` is not supported without a GPU", i->part[k], full_name(i, name, sizeof name));
  }
  if (!i->types && *i->row->types) asm_refuse(x, "`%s` names no type", full_name(i, name, sizeof name));
}

static void instruction(Reader *r) {
  Asm *x = r->x;
  Arena *arena = x->b->func->cx->arena;
  AsmInst i = {0};
  const char *end = r->start + strcspn(r->start, ";");
  while (end > r->start && isspace((unsigned char)end[-1])) end--;
  i.text = arena_strndup(arena, r->start, (size_t)(end - r->start));
  for (char *p = (char *)i.text; *p; p++)
    if (isspace((unsigned char)*p)) *p = ' ';
  x->inst = &i;
  x->guard = NULL;
  if (take(r, '@')) {
    bool negated = take(r, '!');
    AsmReg *p = find_register(r, word(r, "a predicate"));
    AsmOperand o = {.kind = ASM_REG, .negated = negated, .reg = p};
    if (p->bits != 1) asm_refuse(x, "the guard is not a predicate");
    x->guard = asm_get_operand(x, &o, DT_I1);
  }
  space(r);
  do {
    if (i.parts == ASM_MAX_PARTS) wrong(r, "a shorter name of an instruction");
    i.part[i.parts++] = name_part(r);
  } while (*r->at == '.' && r->at++);
  space(r);
  if (*r->at == ':') asm_refuse(x, "the label `%s`: there are no jumps without a GPU", i.part[0]);
  find_row(x, &i);
  if (!take(r, ';')) {
    do {
      if (i.count == ASM_MAX_OPERANDS) wrong(r, "fewer operands");
      i.in[i.count++] = operand(r, false);
      if (i.count == 1 && take(r, '|')) i.also = operand(r, true), i.has_also = true;
    } while (take(r, ','));
    space(r);
    if (*r->at) expect(r, ';'); /* the last one may be missing */
  }
  if (i.count < i.row->least || i.count > i.row->most)
    asm_refuse(x, "`%s` takes %d operands, not %d", i.row->name, i.row->least, i.count);
  if (i.has_also && asm_code(&i) != ASMI_SETP) asm_refuse(x, "`|` is for setp");
  i.row->emit(x, &i);
  x->inst = NULL;
}

void asm_read(Asm *x, const char *text) {
  Reader r = {.x = x, .at = text};
  enum { MOST_SCOPES = 32 };
  int scope[MOST_SCOPES], depth = 0;
  for (space(&r); *r.at; space(&r)) {
    r.start = r.at;
    if (take(&r, ';')) continue;
    if (take(&r, '{')) {
      if (depth == MOST_SCOPES) wrong(&r, "fewer scopes within each other");
      scope[depth++] = r.declared.n;
    } else if (take(&r, '}')) {
      if (!depth) wrong(&r, "a `{` for this `}`");
      r.declared.n = scope[--depth];
    } else if (!strncmp(r.at, ".reg", 4) && isspace((unsigned char)r.at[4])) {
      r.at += 4;
      declaration(&r);
    } else {
      instruction(&r);
    }
  }
  if (depth) wrong(&r, "a `}`");
}
