/* spans: C text that finds out at a launch whether arrays overlap on which the plan relies that they do not.
 *
 *     int nereid_apart(const uint64_t *args, const int32_t grid[3], const NereidHost *host)
 *
 * It computes which bytes the launch may touch through each of those arguments (tile/analysis/reach.h). Where the
 * indices depend on data, the host is asked where the array ends. Who does not know either runs the text for arguments
 * that overlap.
 *
 * Most steps have a constant operand (a stride, a tile's size); what is known of it makes them a fraction of the code,
 * which a C compiler would find out as well, in more time than it takes for a small kernel.
 */
#include "cpu/emit.h"
#include "tile/analysis/reach.h"

static void write_number(Buf *out, int64_t n) {
  if (n == INT64_MIN) buf_puts(out, "INT64_MIN");
  else if (n == INT64_MAX) buf_puts(out, "INT64_MAX");
  else buf_printf(out, "%lld", (long long)n);
}

static bool is_number(const SpanStep *s) { return s->code == SPAN_OF && s->lo == s->hi; }

static bool is_empty(const SpanStep *s) { return s->code == SPAN_OF && s->lo > s->hi; }

/* Where constant operands make it a simpler step: that. */
static bool write_simpler(const SpanStep *steps, const SpanStep *s, Buf *out) {
  const SpanStep *x = &steps[s->in[0]], *y = &steps[s->in[1]];
  if (s->code == SPAN_TIMES && ((is_number(x) && x->lo >= 0) || (is_number(y) && y->lo >= 0))) {
    bool first = is_number(x) && x->lo >= 0;
    buf_printf(out, "nd_span_scale(s%d, ", s->in[first]);
    write_number(out, first ? x->lo : y->lo);
    buf_puts(out, ")");
  } else if (s->code == SPAN_LOOP && is_number(x) && x->lo < INT64_MAX && is_number(&steps[s->in[2]]) &&
             steps[s->in[2]].lo == 1) {
    buf_puts(out, "nd_span_count(");
    write_number(out, x->lo);
    buf_printf(out, ", s%d)", s->in[1]);
  } else if (s->code == SPAN_JOIN && (is_empty(x) || is_empty(y))) {
    buf_printf(out, "s%d", s->in[is_empty(x)]);
  } else {
    return false;
  }
  return true;
}

static void write_step(Emit *e, const SpanStep *steps, int i) {
  const SpanStep *s = &steps[i];
  const SpanInfo *info = &span_info[s->code];
  Buf text = {.arena = e->arena};
  if (s->code == SPAN_ARGUMENT) {
    const char *name = value_name(e, e->f->body->args[s->lo]);
    buf_printf(&text, "nd_span_of((int64_t)%s, (int64_t)%s)", name, name);
  } else if (s->code == SPAN_PROGRAMS) {
    buf_printf(&text, "nd_span_of(grid[%d], grid[%d])", (int)s->lo, (int)s->lo);
  } else if (!write_simpler(steps, s, &text)) {
    const int64_t numbers[] = {s->lo, s->hi};
    buf_printf(&text, "nd_span_%s(", info->name);
    for (int k = 0; k < info->operands; k++) buf_printf(&text, "%ss%d", k ? ", " : "", s->in[k]);
    for (int k = 0; k < info->numbers; k++) {
      if (k || info->operands) buf_puts(&text, ", ");
      write_number(&text, numbers[k]);
    }
    buf_puts(&text, ")");
  }
  emit_line(e, "const NdSpan s%d = %s;", i, text.at);
}

void write_apart(Emit *e) {
  const Func *f = e->f;
  if (!e->apart.n) return;
  Reach *r = reach_create(e->arena, f, e->provenance);
  int count, *through = NEW_N(e->arena, int, f->body->arg_count + 1);
  for (int i = 0; i < e->apart.n; i++) through[e->apart.at[i].a] = through[e->apart.at[i].b] = 1;
  for (int k = 0; k < f->body->arg_count; k++)
    if (through[k]) through[k] = reach_through(r, k, REACH_READS | REACH_WRITES);
  const SpanStep *steps = reach_steps(r, &count);
  bool *wanted = NEW_N(e->arena, bool, count);
  for (int i = 0; i < e->apart.n; i++) wanted[through[e->apart.at[i].a]] = wanted[through[e->apart.at[i].b]] = true;
  span_mark(steps, count, wanted);
  buf_puts(e->out,
           "\n__attribute__((visibility(\"default\"))) int nereid_apart(const uint64_t *args, const int32_t grid[3],\n"
           "                                 const NereidHost *host) {\n");
  e->indent = 1;
  for (int k = 0; k < f->body->arg_count; k++) {
    Value *v = f->body->args[k];
    if (!v->type->ptr && dtype_is_int(v->type->dtype)) write_argument(e, k, v);
  }
  for (int i = 0; i < count; i++)
    if (wanted[i]) write_step(e, steps, i);
  for (int i = 0; i < e->apart.n; i++) {
    const ArgPair *p = &e->apart.at[i];
    emit_line(e, "if (!nd_span_apart(s%d, args[%d], s%d, args[%d], %d, host)) return 0;", through[p->a], p->a,
              through[p->b], p->b, p->or_same);
  }
  emit_line(e, "return 1;");
  buf_puts(e->out, "}\n");
}
