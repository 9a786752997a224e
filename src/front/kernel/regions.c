/* Regions of a kernel that its source marks, for `nereid prof --instrument`. To Triton they are comments.
 *
 *     # nereid: begin load            from here ...
 *     x = tl.load(p, mask=m)
 *     y = tl.load(q, mask=m)
 *     # nereid: end load              ... to here; the name may be left out
 *
 *     # nereid: scope sum             the next statement, with its block if it has one
 *     for k in range(0, n, BLOCK):
 *         acc += tl.dot(a, b)         # nereid: scope product       this statement
 *
 * Python's grammar has no place for comments, so the parser hands them over as a list (Module.markers), and here each
 * is given to the list of statements that it stands in: the one of its own column, whose lines are around it. `begin`
 * and `end` pair up within one such list, so regions nest as blocks do. What is wrong with them is said only when
 * somebody asks for regions: until then they are comments.
 *
 * Proton's own marks are the same regions: pl.enter_scope("name"), pl.exit_scope("name"), with pl.scope("name"): ...
 * where pl is triton.profiler.language.
 */
#include "front/core.h"
#include "front/library/lib.h"
#include "tile/passes/instrument.h"

enum { MAX_NAME = 60 };

typedef enum { MARK_BEGIN, MARK_END } MarkKind;
/* before statement `index`; after: after it */
typedef struct Mark {
  MarkKind kind;
  int index;
  bool after;
  const char *name;
  Span span;
} Mark;
typedef struct Marks {
  VEC(Mark) at;
} Marks;

static bool regions_wanted(Front *fr) {
  int mode = fr->options ? fr->options->instrument : INSTRUMENT_OFF;
  return fr->func && mode != INSTRUMENT_OFF && mode != INSTRUMENT_AUTOMATIC;
}

/* ---- what a marker says ------------------------------------------------------------------------------------------ */

typedef enum { WORD_BEGIN, WORD_END, WORD_SCOPE } Word;

static const char *checked_name(Front *fr, Span at, const char *name) {
  if (strlen(name) > MAX_NAME) diag_fail(fr->cx, at, "a region's name has at most %d bytes", MAX_NAME);
  for (const char *c = name; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) diag_fail(fr->cx, at, "a region's name must be printable");
  return intern_z(fr->cx, name);
}

static Word word_of(Front *fr, const Marker *m, const char **name) {
  static const char *const words[] = {"begin", "end", "scope"};
  size_t n = strcspn(m->words, " \t");
  const char *rest = m->words + n + strspn(m->words + n, " \t");
  for (int i = 0; i < 3; i++) {
    if (strlen(words[i]) != n || memcmp(words[i], m->words, n)) continue;
    if (!*rest && i != WORD_END)
      diag_fail_hint(fr->cx, m->span, arena_printf(fr->cx->arena, "write `# nereid: %s NAME`", words[i]),
                     "this marker names no region");
    *name = *rest ? checked_name(fr, m->span, rest) : NULL;
    return (Word)i;
  }
  diag_fail_hint(fr->cx, m->span, "there are `# nereid: begin NAME`, `# nereid: end NAME` and `# nereid: scope NAME`",
                 "the marker `%.*s` is not known", (int)n, m->words);
}

/* ---- where it stands --------------------------------------------------------------------------------------------- */

typedef struct Placing {
  Front *fr;
  const Marker *at;
  int n;
  bool *placed;
} Placing;

static void put(Front *fr, const NodeList *list, Mark mark) {
  Map *all = core_of(fr)->marks;
  Marks *marks = map_get(all, list);
  if (!marks) {
    marks = NEW(fr->cx->arena, Marks);
    map_put(all, list, marks);
  }
  vec_push(fr->cx->arena, &marks->at, mark);
}

static void put_scope(Front *fr, const NodeList *list, int index, const char *name, Span span) {
  put(fr, list, (Mark){MARK_BEGIN, index, false, name, span});
  put(fr, list, (Mark){MARK_END, index, true, name, span});
}

/* On a line of its own, in this list's column, before statement `index`. */
static void place_alone(Placing *p, const NodeList *list, int index, const Marker *m) {
  const char *name;
  Word word = word_of(p->fr, m, &name);
  if (word == WORD_SCOPE && index == list->n)
    diag_fail_hint(p->fr->cx, m->span, "put it above a statement", "no statement follows this marker in its block");
  if (word == WORD_SCOPE) put_scope(p->fr, list, index, name, m->span);
  else put(p->fr, list, (Mark){word == WORD_BEGIN ? MARK_BEGIN : MARK_END, index, false, name, m->span});
}

/* After a statement, on its first or last line. */
static void place_beside(Placing *p, const NodeList *list, int index, const Marker *m) {
  const char *name;
  if (word_of(p->fr, m, &name) != WORD_SCOPE)
    diag_fail_hint(p->fr->cx, m->span, "`# nereid: scope NAME` may stand after a statement, and means it",
                   "this marker must stand on a line of its own");
  put_scope(p->fr, list, index, name, m->span);
}

static int first_line(const Node *n) { return n->span.line; }

/* The line of the `else:` between the bodies of a statement, or the first line of the second body where there is none
 * (elif). */
static int else_line(const Node *n, const NodeList *body, const NodeList *orelse) {
  if (!orelse->n) return 0;
  const Source *s = n->span.source;
  for (int line = body->at[body->n - 1]->span.end_line + 1; s && line < first_line(orelse->at[0]); line++) {
    const char *text = s->text + s->line_start[line - 1];
    size_t blank = strspn(text, " \t");
    if ((int)blank == n->span.col && !strncmp(text + blank, "else", 4)) return line;
  }
  return first_line(orelse->at[0]);
}

static void place_in(Placing *p, const NodeList *list, int from, int to);

/* The blocks of a statement; `to` is the first line that is no longer its own. */
static void place_in_statement(Placing *p, const Node *n, int to) {
  stack_guard();
  const NodeList *body = NULL, *orelse = NULL;
  switch (n->kind) {
    case NODE_FOR: body = &n->For.body, orelse = &n->For.orelse; break;
    case NODE_WHILE: body = &n->While.body, orelse = &n->While.orelse; break;
    case NODE_IF: body = &n->If.body, orelse = &n->If.orelse; break;
    case NODE_WITH: body = &n->With.body; break;
    default: return;
  }
  int middle = orelse ? else_line(n, body, orelse) : 0;
  place_in(p, body, n->span.line, middle ? middle : to);
  if (middle) place_in(p, orelse, middle - (middle == first_line(orelse->at[0])), to);
}

/* Lines (from, to) hold the statements of the list and nothing else. */
static void place_in(Placing *p, const NodeList *list, int from, int to) {
  int column = list->at[0]->span.col;
  for (int i = 0; i < p->n; i++) { /* deeper blocks have other columns */
    const Marker *m = &p->at[i];
    if (p->placed[i] || m->span.line <= from || m->span.line >= to) continue;
    int index = 0;
    while (index < list->n && first_line(list->at[index]) < m->span.line) index++;
    bool within = index && list->at[index - 1]->span.end_line >= m->span.line;
    const Node *beside = !m->alone && index < list->n && first_line(list->at[index]) == m->span.line ? list->at[index]
                         : !m->alone && within && list->at[index - 1]->span.end_line == m->span.line
                             ? list->at[index - 1]
                             : NULL;
    if (m->alone && m->span.col == column && !within) place_alone(p, list, index, m);
    else if (beside && (beside->span.line == m->span.line || beside->kind == NODE_ASSIGN || beside->kind == NODE_EXPR ||
                        beside->kind == NODE_AUG_ASSIGN))
      place_beside(p, list, beside == (index < list->n ? list->at[index] : NULL) ? index : index - 1, m);
    else continue;
    p->placed[i] = true;
  }
  for (int k = 0; k < list->n; k++)
    place_in_statement(p, list->at[k], k + 1 < list->n ? first_line(list->at[k + 1]) : to);
}

/* begin and end must pair up in their list. */
static void check_pairs(Front *fr, const Marks *marks) {
  VEC(const Mark *) open = {0};
  Context *cx = fr->cx;
  for (int i = 0; i < marks->at.n; i++) {
    const Mark *m = &marks->at.at[i];
    if (m->kind == MARK_BEGIN) {
      vec_push(cx->arena, &open, m);
      continue;
    }
    if (!open.n)
      diag_fail_hint(cx, m->span, "begin and end of a region stand in one block",
                     "this ends the region%s%s, which does not begin above it in its block", m->name ? " " : "",
                     m->name ? m->name : "");
    const Mark *begin = open.at[--open.n];
    if (m->name && m->name != begin->name)
      diag_fail_hint(cx, m->span, "regions nest: the last one that began ends first",
                     "this ends the region %s, but %s, which began in line %d, is still open", m->name, begin->name,
                     begin->span.line);
  }
  if (open.n)
    diag_fail_hint(cx, open.at[open.n - 1]->span,
                   arena_printf(cx->arena, "put `# nereid: end %s` after what it is to hold, in the same block",
                                open.at[open.n - 1]->name),
                   "the region %s does not end in its block", open.at[open.n - 1]->name);
}

/* Marks of one list in the order in which they are met: by statement; what stands after one comes before what stands
 * above the next. */
static int compare(const Mark *a, const Mark *b) {
  int x = 2 * a->index + (a->after ? 1 : 0), y = 2 * b->index + (b->after ? 1 : 0);
  return x - y;
}

static void sort_marks(Marks *m) { /* stable: few, and nearly in order */
  for (int i = 1; i < m->at.n; i++)
    for (int k = i; k > 0 && compare(&m->at.at[k - 1], &m->at.at[k]) > 0; k--) {
      Mark swap = m->at.at[k];
      m->at.at[k] = m->at.at[k - 1];
      m->at.at[k - 1] = swap;
    }
  for (int i = 0, k; i < m->at.n; i = k) { /* scopes over one statement nest: what began last ends first */
    for (k = i + 1; k < m->at.n && m->at.at[i].after && m->at.at[k].after && m->at.at[k].index == m->at.at[i].index;)
      k++;
    for (int a = i, b = k - 1; a < b; a++, b--) {
      Mark swap = m->at.at[a];
      m->at.at[a] = m->at.at[b];
      m->at.at[b] = swap;
    }
  }
}

/* Whether the marker is the function's: among its lines, or after its last statement with nothing but blank lines and
 * comments between, all deeper than the def. */
static bool belongs(const Node *def, const Marker *m) {
  const Source *s = def->span.source;
  if (m->span.line <= def->span.line || m->span.col <= def->span.col) return false;
  for (int line = def->span.end_line + 1; line < m->span.line; line++) {
    const char *text = s->text + s->line_start[line - 1];
    size_t blank = strspn(text, " \t");
    if (text[blank] && !strchr("\r\n", text[blank]) && (text[blank] != '#' || (int)blank <= def->span.col))
      return false;
  }
  return true;
}

/* Defs that may hold markers: any function of the file. */
static void inside_def(void *arg, Node *n) {
  Placing *p = arg;
  if (n->kind == NODE_FUNCTION_DEF || n->kind == NODE_ASYNC_FUNCTION_DEF)
    for (int i = 0; i < p->n; i++) p->placed[i] |= belongs(n, &p->at[i]);
  if (n->kind == NODE_CLASS_DEF || n->kind == NODE_IF || n->kind == NODE_FUNCTION_DEF || n->kind == NODE_TRY)
    node_children(n, inside_def, arg);
}

static void check_outside(Front *fr, const Module *m) {
  MarkerList list = m->tree->Module.markers;
  Placing p = {fr, list.at, list.n, NEW_N(fr->cx->arena, bool, list.n + 1)};
  node_children(m->tree, inside_def, &p);
  for (int i = 0; i < list.n; i++)
    if (!p.placed[i])
      diag_fail_hint(fr->cx, list.at[i].span, "move it into the body of the kernel",
                     "this marker stands outside of a function");
}

void regions_begin(Front *fr, const Node *def) {
  Core *core = core_of(fr);
  if (!regions_wanted(fr) || def->kind != NODE_FUNCTION_DEF) return;
  Context *cx = fr->cx;
  if (!core->marks) core->marks = map_create(cx->arena, false), core->marked = map_create(cx->arena, false);
  if (map_get(core->marked, def)) return;
  map_put(core->marked, def, core);
  const Module *m = core->frame->fn->module;
  if (!map_get(core->marked, m)) map_put(core->marked, m, core), check_outside(fr, m);
  VEC(Marker) own = {0};
  const NodeList *body = &def->FunctionDef.body;
  const MarkerList all = m->tree->Module.markers;
  for (int i = 0; i < all.n; i++)
    if (belongs(def, &all.at[i])) vec_push(cx->arena, &own, all.at[i]);
  if (!own.n) return;
  Placing p = {fr, own.at, own.n, NEW_N(cx->arena, bool, own.n)};
  int before = map_count(core->marks);
  place_in(&p, body, first_line(body->at[0]) > def->span.line ? def->span.line : def->span.line - 1, INT32_MAX);
  for (int i = 0; i < own.n; i++)
    if (!p.placed[i])
      diag_fail_hint(cx, own.at[i].span,
                     own.at[i].alone ? "give it the indentation of the statements around it"
                                     : "put it on a line of its own, above a statement",
                     "this marker stands between no statements of the kernel");
  for (int i = before; i < map_count(core->marks); i++) {
    const void *list;
    void *marks;
    map_entry(core->marks, i, &list, &marks);
    sort_marks(marks);
    check_pairs(fr, marks);
  }
}

/* ---- regions while the body is evaluated ------------------------------------------------------------------------- */

static void build(Front *fr, const char *name, bool end) {
  Op *op = build_op(&fr->b, OP_SCOPE, 0, NULL, 0, NULL);
  op->end = end;
  op->text = name;
  fr->func->instrument->marked = true;
}

static void enter(Front *fr, Span at, const char *name, bool marked) {
  Core *core = core_of(fr);
  OpenRegion *open = NEW(fr->cx->arena, OpenRegion);
  *open = (OpenRegion){checked_name(fr, at, name), at, marked, core->regions};
  core->regions = open;
  build(fr, open->name, false);
}

/* name NULL: the innermost. */
static void leave(Front *fr, Span at, const char *name) {
  Core *core = core_of(fr);
  const OpenRegion *open = core->regions;
  if (name) name = intern_z(fr->cx, name);
  if (!open)
    diag_fail_hint(fr->cx, at, "enter it first", "this ends the region %s, which is not open",
                   name ? name : "of before");
  if (name && name != open->name)
    diag_fail_hint(fr->cx, at, "regions nest: the last one that began ends first",
                   "this ends the region %s, but %s, which began in line %d, is still open", name, open->name,
                   open->span.line);
  core->regions = open->up;
  build(fr, open->name, true);
}

static void run(Front *fr, const NodeList *list, int index, bool after) {
  Core *core = core_of(fr);
  const Marks *marks = core->marks ? map_get(core->marks, list) : NULL;
  for (int i = 0; marks && i < marks->at.n; i++) {
    const Mark *m = &marks->at.at[i];
    if (m->index != index || m->after != after) continue;
    const Span *outer = fr->b.span;
    Span at = m->span;
    at.inlined_at = core->frame->site;
    fr->b.span = arena_copy(fr->cx->arena, &at, sizeof at);
    if (m->kind == MARK_BEGIN) enter(fr, at, m->name, true);
    else leave(fr, at, m->name);
    fr->b.span = outer;
  }
}

void regions_at(Front *fr, const NodeList *list, int index) {
  if (core_of(fr)->marks) run(fr, list, index, false);
}

void regions_after(Front *fr, const NodeList *list, int index) {
  if (core_of(fr)->marks) run(fr, list, index, true);
}

bool regions_follow(Front *fr, const NodeList *list, int index) {
  const Map *all = core_of(fr)->marks;
  const Marks *marks = all ? map_get(all, list) : NULL;
  return marks && marks->at.n &&
         2 * marks->at.at[marks->at.n - 1].index + marks->at.at[marks->at.n - 1].after > 2 * index;
}

void regions_end(Front *fr, const OpenRegion *outer) {
  Core *core = core_of(fr);
  for (; core->regions && core->regions != outer; core->regions = core->regions->up) {
    const OpenRegion *open = core->regions;
    if (!open->marked)
      diag_fail_hint(fr->cx, open->span, "leave it on every way through the function that enters it",
                     "the region %s is still open where the function ends", open->name);
    build(fr, open->name, true);
  }
}

/* ---- Proton's marks ---------------------------------------------------------------------------------------------- */

static Py *call_enter(Front *fr, const Builtin *b, Span at, Py **args) {
  const char *name = lib_str(fr, at, b, "name", args[0]);
  if (regions_wanted(fr)) enter(fr, at, name, false);
  return py_none(fr);
}

static Py *call_exit(Front *fr, const Builtin *b, Span at, Py **args) {
  const char *name = lib_str(fr, at, b, "name", args[0]);
  if (regions_wanted(fr)) leave(fr, at, name);
  return py_none(fr);
}

int regions_with(Front *fr, Node *with) {
  int count = 0;
  for (int i = 0; i < with->With.items.n && regions_wanted(fr); i++) {
    Node *e = with->With.items.at[i]->withitem.context_expr;
    const char *dotted = e->kind == NODE_CALL ? namespace_dotted(fr, core_of(fr)->frame->ns, e->Call.func) : NULL;
    if (!dotted || strcmp(dotted, "triton.profiler.language.scope")) continue;
    Py *scope = core_eval(fr, e);
    enter(fr, core_span(fr, e), ((Py *)map_get(scope->object.fields, "name"))->str.s, false);
    count++;
  }
  return count;
}

void regions_leave(Front *fr, const Node *with, int count) {
  for (; count; count--) leave(fr, core_span(fr, with), NULL);
}

/* What a `with` looks at: the object holds the name. */
static Py *call_scope(Front *fr, const Builtin *b, Span at, Py **args) {
  Py *p = py_object(fr, NULL, "triton.profiler.language.scope");
  map_put(p->object.fields, "name", py_str(fr, lib_str(fr, at, b, "name", args[0])));
  return p;
}

static const char PROTON[] = "triton.profiler.language", GROUP[] = "Debugging",
                  REMARK[] = "regions of nereid prof --instrument; else nothing";
const Builtin regions_table[] = {
    {PROTON, "enter_scope", "name", call_enter, GROUP, 0, REMARK},
    {PROTON, "exit_scope", "name", call_exit, GROUP, 0, REMARK},
    {PROTON, "scope", "name", call_scope, GROUP, 0, REMARK},
    {0},
};
