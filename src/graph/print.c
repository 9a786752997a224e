/* The graph as text; parse.c reads it back. */
#include "graph/graph.h"

void graph_print_type(Buf *out, const Tensor *t) {
  buf_printf(out, "%s[", dtype_name(t->dtype));
  for (int d = 0; d < t->rank; d++) buf_printf(out, "%s%s", d ? ", " : "", t->size[d]->text);
  buf_putc(out, ']');
}

static void print_name(Buf *out, const Tensor *t) { buf_printf(out, "%%%d", t->id); }

/* A user's name, in quotes unless it is a word. */
static void print_word(Buf *out, const char *name) {
  size_t n = strspn(name, "_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  buf_putc(out, ' ');
  if (*name && !name[n]) {
    buf_puts(out, name);
    return;
  }
  buf_putc(out, '"');
  for (; *name; name++) {
    if (*name == '"' || *name == '\\') buf_putc(out, '\\');
    buf_putc(out, *name == '\n' ? ' ' : *name);
  }
  buf_putc(out, '"');
}

static void print_attribute(Buf *out, const Tensor *t, const GraphAttr *a) {
  buf_printf(out, "%s=", a->name);
  switch (a->type) {
    case GRAPH_ATTR_INT: buf_printf(out, "%lld", (long long)t->attr[a->slot]); break;
    case GRAPH_ATTR_WORD: buf_puts(out, a->words[t->attr[a->slot]]); break;
    case GRAPH_ATTR_NUMBER: buf_double(out, t->number); break;
    case GRAPH_ATTR_SIZE: buf_puts(out, t->first->text); break;
    case GRAPH_ATTR_DIMS:
      for (int i = 0; i < t->dim_count; i++) buf_printf(out, "%s%lld", i ? ", " : "[", (long long)t->dims[i]);
      buf_puts(out, t->dim_count ? "]" : "[]");
      break;
    case GRAPH_ATTR_SIZES:
      for (int i = 0; i < t->before_count; i++) buf_printf(out, "%s%s", i ? ", " : "[", t->before[i]->text);
      buf_puts(out, t->before_count ? "]" : "[]");
      break;
  }
}

static void print_op(Buf *out, const Tensor *t) {
  buf_puts(out, "  ");
  print_name(out, t);
  buf_printf(out, " = %s", t->op == GRAPH_POINT ? graph_points[t->point].name : graph_ops[t->op].name);
  for (int i = 0; i < t->in_count; i++) {
    buf_puts(out, i ? ", " : " ");
    print_name(out, t->in[i]);
  }
  const GraphAttr *attrs[GRAPH_MAX_ATTRS];
  int n = graph_attrs(t->op, attrs);
  for (int i = 0; i < n; i++) {
    buf_puts(out, i ? ", " : " {");
    print_attribute(out, t, attrs[i]);
    if (i == n - 1) buf_putc(out, '}');
  }
  buf_puts(out, " : ");
  graph_print_type(out, t);
  if (t->name) {
    buf_puts(out, "  //");
    print_word(out, t->name);
  }
  buf_putc(out, '\n');
}

void graph_print(Buf *out, const Graph *g) {
  buf_printf(out, "graph @%s", g->name);
  for (int i = 0; i < g->symbols.n; i++) buf_printf(out, "%s%s", i ? ", " : "[", g->symbols.at[i]->name);
  buf_puts(out, g->symbols.n ? "](" : "(");
  for (int i = 0; i < g->inputs.n; i++) {
    buf_puts(out, i ? ", " : "");
    const Tensor *t = g->inputs.at[i];
    print_name(out, t);
    if (t->name) print_word(out, t->name);
    buf_puts(out, ": ");
    graph_print_type(out, t);
    if (t->is_state) buf_puts(out, " state");
    if (t->is_complex) buf_puts(out, " complex");
  }
  buf_puts(out, ") {\n");
  for (int i = 0; i < g->at.n; i++)
    if (g->at.at[i]->op != GRAPH_INPUT) print_op(out, g->at.at[i]);
  for (int i = 0; i < g->writes.n; i++) {
    buf_puts(out, "  write ");
    print_name(out, g->writes.at[i].input);
    buf_puts(out, ", ");
    print_name(out, g->writes.at[i].value);
    buf_putc(out, '\n');
  }
  buf_puts(out, "  return");
  for (int i = 0; i < g->outputs.n; i++) {
    buf_puts(out, i ? ", " : " ");
    if (graph_is_complex_output(g, i)) buf_puts(out, "complex ");
    if (g->outputs.at[i]) print_name(out, g->outputs.at[i]);
    else buf_puts(out, "none");
    if (i < g->output_names.n && g->output_names.at[i]) print_word(out, g->output_names.at[i]);
  }
  buf_puts(out, "\n}\n");
}
