/* The tree as text: the form is given in syntax.h, by ast_dump.
 *
 * It serves people (`nereid inspect --stage ast`) and the test that compares the tree with that of Python's own parser,
 * so it is canonical: two trees have one text only if they are equal. Strings are printed in ASCII, each byte outside
 * it as \xNN. */
#include "syntax/fields.h"

static void indent(Buf *out, int level) {
  static const char blanks[] = "                                ";
  for (; level > 32; level -= 32) buf_write(out, blanks, 32);
  buf_write(out, blanks, (size_t)level);
}

static void quoted(Buf *out, const char *s, size_t n) {
  static const char hex[] = "0123456789abcdef";
  buf_putc(out, '"');
  for (size_t i = 0, plain = 0; i <= n; i++) {
    unsigned char c = i < n ? (unsigned char)s[i] : 0;
    if (i < n && c >= ' ' && c < 127 && c != '"' && c != '\\') continue;
    buf_write(out, s + plain, i - plain);
    plain = i + 1;
    if (i == n) break;
    if (c == '"' || c == '\\') buf_write(out, (char[]){'\\', (char)c}, 2);
    else if (c == '\n') buf_write(out, "\\n", 2);
    else buf_write(out, (char[]){'\\', 'x', hex[c >> 4], hex[c & 15]}, 4);
  }
  buf_putc(out, '"');
}

static const char *singleton(ConstKind k) {
  return k == CONST_NONE ? "None" : k == CONST_TRUE ? "True" : k == CONST_FALSE ? "False" : "...";
}

static void value(Buf *out, const ConstValue *v) {
  switch (v->kind) {
    case CONST_INT: buf_write(out, v->text, v->size); break;
    case CONST_FLOAT: buf_double(out, v->f); break;
    case CONST_IMAGINARY:
      buf_double(out, v->f);
      buf_putc(out, 'j');
      break;
    case CONST_BYTES:
      buf_putc(out, 'b');
      quoted(out, v->text, v->size);
      break;
    case CONST_STR: quoted(out, v->text, v->size); break;
    default: buf_puts(out, singleton(v->kind));
  }
}

static void number(Buf *out, int v) {
  char digits[12], *p = digits + sizeof digits;
  unsigned u = v < 0 ? -(unsigned)v : (unsigned)v;
  do *--p = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) *--p = '-';
  buf_write(out, p, (size_t)(digits + sizeof digits - p));
}

static void position(Buf *out, Span s) {
  buf_putc(out, ' ');
  number(out, s.line);
  buf_putc(out, ':');
  number(out, s.col);
  buf_putc(out, '-');
  number(out, s.end_line);
  buf_putc(out, ':');
  number(out, s.end_col);
}

static void key(Buf *out, const char *name) {
  buf_putc(out, ' ');
  buf_puts(out, name);
  buf_putc(out, '=');
}

/* " name=value" of a field that is no node; nothing for an absent one. */
static void plain_field(Buf *out, const Node *n, const Field *f) {
  static const char *const contexts[] = {"Load", "Store", "Del"};
  const void *at = field_at(n, f);
  switch (f->kind) {
    case FIELD_NODE:
    case FIELD_NODES: break;
    case FIELD_IDENT: {
      const char *s = *(const char *const *)at;
      if (!s) break;
      key(out, f->name);
      buf_puts(out, s);
      break;
    }
    case FIELD_IDENTS: {
      const IdentList *l = at;
      if (!l->n) break;
      key(out, f->name);
      for (int i = 0; i < l->n; i++) {
        if (i) buf_putc(out, ',');
        buf_puts(out, l->at[i]);
      }
      break;
    }
    case FIELD_INT:
      key(out, f->name);
      number(out, *(const int *)at);
      break;
    case FIELD_OP:
      key(out, f->name);
      buf_puts(out, pyop_name(*(const PyOp *)at));
      break;
    case FIELD_OPS: {
      const PyOpList *l = at;
      key(out, f->name);
      for (int i = 0; i < l->n; i++) {
        if (i) buf_putc(out, ',');
        buf_puts(out, pyop_name(l->at[i]));
      }
      break;
    }
    case FIELD_CTX:
      key(out, f->name);
      buf_puts(out, contexts[*(const ExprContext *)at]);
      break;
    case FIELD_VALUE:
      key(out, f->name);
      value(out, at);
      break;
    case FIELD_SINGLETON:
      key(out, f->name);
      buf_puts(out, singleton(*(const ConstKind *)at));
      break;
    case FIELD_U_PREFIX:
      if (*(const bool *)at) buf_puts(out, " kind=u");
      break;
  }
}

static void dump(Buf *out, const Node *n, bool with_positions, int level) {
  stack_guard();
  indent(out, level);
  if (!n) { /* the missing key of **value, the default that a keyword-only parameter lacks */
    buf_puts(out, "None\n");
    return;
  }
  buf_puts(out, node_name(n->kind));
  if (with_positions && node_placed(n->kind)) position(out, n->span);
  for (const Field *f = node_fields[n->kind]; f->name; f++) plain_field(out, n, f);
  buf_putc(out, '\n');
  for (const Field *f = node_fields[n->kind]; f->name; f++) {
    if (f->kind != FIELD_NODE && f->kind != FIELD_NODES) continue;
    NodeList one = {(Node **)field_at(n, f), 1};
    const NodeList *l = f->kind == FIELD_NODES ? field_at(n, f) : one.at[0] ? &one : NULL;
    if (!l || !l->n) continue;
    indent(out, level + 1);
    buf_putc(out, '.');
    buf_puts(out, f->name);
    buf_putc(out, '\n');
    for (int i = 0; i < l->n; i++) dump(out, l->at[i], with_positions, level + 2);
  }
}

void ast_dump(Buf *out, const Node *n, bool with_positions) { dump(out, n, with_positions, 0); }
