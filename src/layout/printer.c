/* Layouts for people: a line, a drawing, and a Func's text with the layouts beside it.
 *
 * A drawing shows which warp, lane and registers hold the corner of a tensor. Elements of a row that one thread has in
 * consecutive registers are one cell, which names the first of them. What does not fit is shown at powers of two, which
 * is all there is to know of a linear map:
 *
 *     f32[8,64]: 4 registers x 32 lanes x 4 warps
 *             0-3        4-7       8-11  ...      16-19      32-35
 *       0   w0 l0 r0   w0 l1 r0   w0 l2 r0  ...   w0 l4 r0   w0 l8 r0
 *       1  w0 l16 r0  w0 l17 r0  w0 l18 r0  ...  w0 l20 r0  w0 l24 r0
 *       2   w1 l0 r0  ...
 *
 * Of a tensor of more than two dims, the page at index 0 of the others is drawn, and where the others lead is said
 * below.
 */
#include "layout/layout.h"

enum { MAX_LINES = 16, MAX_WIDTH = 100, CELL = 32 };

void layout_print(Buf *out, const Layout *l) {
  for (int i = 0; i <= l->reg_bits + l->lane_bits + l->warp_bits; i++) {
    if (i == 0) buf_puts(out, "reg");
    if (i == l->reg_bits) buf_puts(out, " | lane");
    if (i == l->reg_bits + l->lane_bits) buf_puts(out, " | warp");
    if (i < l->reg_bits + l->lane_bits + l->warp_bits) buf_printf(out, " %u", l->basis[i]);
  }
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

typedef struct Drawing {
  const Layout *layout;
  F2Map holder;      /* element -> register, lane, warp of the elected thread */
  int run;           /* elements of the last dim in a cell */
  int rows, columns; /* columns: of cells */
  int row_shift, width, label_width;
} Drawing;

static void name_place(const Drawing *p, uint32_t place, char cell[CELL]) {
  const Layout *l = p->layout;
  int reg = (int)(place & ((UINT32_C(1) << l->reg_bits) - 1)), lane = (int)(place >> l->reg_bits & 31);
  int warp = (int)(place >> (l->reg_bits + l->lane_bits)), n = 0;
  if (l->warp_bits) n += snprintf(cell + n, (size_t)(CELL - n), "w%d ", warp);
  snprintf(cell + n, (size_t)(CELL - n), "l%d r%d", lane, reg);
}

static void put_cell(const Drawing *p, uint32_t element, char cell[CELL]) {
  name_place(p, f2_apply(&p->holder, element), cell);
}

/* Which of n rows or columns to show, -1 for "...": all when they fit into `most`, else 0 .. 2^k, "...", 2^(k+1), ...,
 * n / 2. */
static int choose_shown(int n, int most, int *shown) {
  int count = 0, k = log2_floor(n) - 1;
  if (n <= most) {
    for (; count < n; count++) shown[count] = count;
    return count;
  }
  while (k > 0 && (1 << k) + 1 + log2_floor(n) - k > most) k--;
  for (; count <= 1 << k; count++) shown[count] = count;
  if (k && count < most) shown[count++] = -1;
  for (int power = 2 << k; power < n && count < most; power *= 2) shown[count++] = power;
  return count;
}

/* The run of a cell: the dim's lowest bits are registers 1, 2, 4, ... and what else there is leaves them alone. */
static int run_length(const Layout *l, int shift, int bits) {
  int n = 0;
  while (n < bits && n < l->reg_bits && l->basis[n] == UINT32_C(1) << (shift + n)) n++;
  for (int i = n; i < l->reg_bits + l->lane_bits + l->warp_bits; i++)
    while (n && i >= n && l->basis[i] >> shift & ((UINT32_C(1) << n) - 1)) n--;
  return 1 << n;
}

static void put_head(Buf *out, const Type *t, const Layout *l) {
  type_print(out, t);
  buf_printf(out, ": %d register%s x 32 lanes x %d warp%s", layout_registers(l), l->reg_bits ? "s" : "",
             1 << l->warp_bits, l->warp_bits ? "s" : "");
  uint32_t copies = layout_copies(l);
  const char *names[] = {"lanes", "warps"};
  uint32_t bits[] = {copies & 31, copies >> l->lane_bits};
  for (int k = 0; k < 2; k++) {
    if (!bits[k]) continue;
    buf_printf(out, "%s %s that differ by", k && bits[0] ? " and" : "; copies:", names[k]);
    for (uint32_t left = bits[k]; left; left &= left - 1)
      buf_printf(out, "%s %d", left != bits[k] ? "," : "", (int)(left & -left));
  }
  buf_putc(out, '\n');
}

/* One more line for each dim that is not drawn: where its powers of two are. */
static void put_other_dims(Buf *out, const Type *t, const Drawing *p) {
  for (int d = 0; d < t->rank - 2 && d < 2; d++) {
    if (t->shape[d] == 1) continue;
    buf_printf(out, "  along dim %d,", d);
    int bits = log2_floor(t->shape[d]), shift = layout_dim_shift(t, d);
    for (int i = 0; i < bits && i < 5; i++) {
      char cell[CELL];
      put_cell(p, UINT32_C(1) << (shift + i), cell);
      buf_printf(out, "%s %d: %s", i ? "," : "", 1 << i, cell);
    }
    buf_puts(out, bits > 5 ? ", ...\n" : "\n");
  }
}

/* Of cells: no number in one is more than all bits of those at powers of two together. */
static void find_width(Drawing *p) {
  const Layout *l = p->layout;
  char cell[CELL];
  uint32_t places = 0;
  for (int i = 0; i < l->out_bits; i++) places |= p->holder.column[i];
  name_place(p, places, cell);
  p->width = (int)strlen(cell);
  int end = p->columns * p->run - 1, head = snprintf(cell, sizeof cell, p->run > 1 ? "%d-%d" : "%d", end, end);
  if (p->width < head) p->width = head;
  p->label_width = snprintf(cell, sizeof cell, "%d", p->rows - 1);
  if (p->rows > MAX_LINES - 4 && p->label_width < 3) p->label_width = 3; /* "..." */
}

/* Row -1 is the head: which columns. */
static void put_row(Buf *out, const Drawing *p, int row, const int *shown, int n) {
  char cell[CELL] = "";
  if (row >= 0 && p->rows > 1) snprintf(cell, sizeof cell, "%d", row);
  buf_printf(out, "  %*s", p->label_width, cell);
  for (int c = 0; c < n; c++) {
    int first = shown[c] * p->run;
    if (shown[c] < 0) snprintf(cell, sizeof cell, "...");
    else if (row < 0) snprintf(cell, sizeof cell, p->run > 1 ? "%d-%d" : "%d", first, first + p->run - 1);
    else put_cell(p, (uint32_t)first | (uint32_t)row << p->row_shift, cell);
    buf_printf(out, "  %*s", shown[c] < 0 ? 3 : p->width, cell);
  }
  buf_putc(out, '\n');
}

void layout_draw(Buf *out, const Type *t, const Layout *l) {
  put_head(out, t, l);
  Drawing p = {.layout = l, .run = 1, .rows = 1, .columns = 1};
  F2Map map = layout_map(l);
  if (!t->rank || !f2_invert(&map, &p.holder)) return;
  int last = t->rank - 1, others = 0;
  for (int d = 0; d < last - 1 && d < 2; d++) others += t->shape[d] > 1;
  p.run = run_length(l, 0, log2_floor(t->shape[last]));
  p.columns = t->shape[last] / p.run;
  if (t->rank > 1) p.rows = t->shape[last - 1];
  p.row_shift = log2_floor(t->shape[last]);

  int shown_rows[MAX_LINES], shown[MAX_WIDTH];
  int rows = choose_shown(p.rows, MAX_LINES - 2 - others, shown_rows);
  find_width(&p);
  int fit = (MAX_WIDTH - 2 - p.label_width) / (p.width + 2);
  int columns = choose_shown(p.columns, t->rank > 1 ? fit : 2 * fit, shown);
  /* a row too long for a line is folded, where it is the only one */
  for (int first = 0; first < columns; first += fit) {
    int n = columns - first < fit ? columns - first : fit;
    put_row(out, &p, -1, shown + first, n);
    for (int r = 0; r < rows; r++)
      if (shown_rows[r] >= 0) put_row(out, &p, shown_rows[r], shown + first, n);
      else buf_printf(out, "  %*s\n", p.label_width, "...");
  }
  put_other_dims(out, t, &p);
}

/* ---- a Func's text ----------------------------------------------------------------------------------------------- */

/* the first type that has it: for the drawing */
typedef struct Named {
  const Layout *layout;
  const Type *type;
} Named;

typedef struct Notes {
  Context *cx;
  VEC(Named) layouts; /* L0, L1, ... */
  Map *numbers;       /* layout -> number + 1 */
  int conversions, cost, squares;
} Notes;

enum { NOTE_COLUMN = 64 };

static int number_of(Notes *n, const Value *v) {
  intptr_t known = (intptr_t)map_get(n->numbers, v->layout);
  if (known) return (int)known - 1;
  vec_push(n->cx->arena, &n->layouts, (Named){v->layout, v->type});
  map_put(n->numbers, v->layout, (void *)(intptr_t)n->layouts.n);
  return n->layouts.n - 1;
}

static void begin_note(Buf *out) {
  size_t line = out->n;
  while (line && out->at[line - 1] != '\n') line--;
  for (size_t at = out->n - line; at < NOTE_COLUMN; at++) buf_putc(out, ' ');
  buf_puts(out, "  // ");
}

static void note_side(Buf *out, const char *what, const SquareAccess *s, int bytes) {
  if (s) buf_printf(out, "%s of %d squares", what, 1 << s->square_bits);
  else buf_printf(out, "%s of %d bytes", what, bytes);
}

static void note_convert_layout(Notes *n, Buf *out, const Op *op) {
  int bytes = type_elem_bytes(op->in[0]->type), squares = squares_of_type(n->squares, op->in[0]->type);
  const Convert *c = convert_plan(n->cx, op->in[0]->layout, op->out[0]->layout, bytes, squares);
  int cost = convert_cost(c, bytes);
  n->conversions++;
  n->cost += cost;
  buf_printf(out, " from L%d: ", number_of(n, op->in[0]));
  switch (c->kind) {
    case CONVERT_NONE: buf_puts(out, "nothing to do"); break;
    case CONVERT_REGISTERS: buf_puts(out, "registers renamed"); break;
    case CONVERT_SHUFFLE:
      buf_printf(out, "%d round%s of shuffles", c->round_count, c->round_count > 1 ? "s" : "");
      break;
    case CONVERT_SHARED:
      buf_printf(out, "shared memory, %d bytes", convert_shared_bytes(c, bytes));
      if (c->passes > 1) buf_printf(out, " in %d parts", c->passes);
      note_side(out, ", writes", c->write_squares, c->write_vector * bytes);
      note_side(out, " and reads", c->read_squares, c->read_vector * bytes);
      double write = convert_conflicts(c, bytes, true), read = convert_conflicts(c, bytes, false);
      if (write > 1 || read > 1) buf_printf(out, ", conflicts %gx, %gx", write, read);
      else buf_puts(out, ", no conflicts");
      if (c->within_warp) buf_puts(out, ", within the warp");
  }
  if (cost) buf_printf(out, ", cost %d", cost);
}

static void note_access(Buf *out, const Op *op) {
  const Value *ptr = op_pointer(op), *mask = op_mask(op);
  int dim, vector = access_vector(ptr, mask, ptr->layout, 16, &dim);
  int bytes = ptr->type->ptr > 1 ? 8 : dtype_bytes(ptr->type->dtype);
  buf_printf(out, ": %d access%s of %d bytes", layout_registers(ptr->layout) / vector,
             layout_registers(ptr->layout) / vector > 1 ? "es" : "", vector * bytes);
  double sectors = access_sectors(ptr, ptr->layout, vector);
  if (sectors > 1) buf_printf(out, ", %gx the sectors", sectors);
}

static void note_op(Buf *out, const Op *op, void *arg) {
  Notes *n = arg;
  const Value *first = NULL;
  for (int i = 0; i < op->out_count && !first; i++)
    if (op->out[i]->layout) first = op->out[i];
  bool is_result = first != NULL;
  for (int i = 0; i < op->in_count && !first && op->code != OP_YIELD && op->code != OP_CONDITION; i++)
    if (op->in[i]->layout) first = op->in[i];
  if (!first) return;
  begin_note(out);
  if (!is_result && op->out_count) buf_puts(out, "of ");
  buf_printf(out, "L%d", number_of(n, first));
  for (int i = first->index + 1; is_result && i < op->out_count; i++)
    if (op->out[i]->layout && op->out[i]->layout != op->out[i - 1]->layout)
      buf_printf(out, " L%d", number_of(n, op->out[i]));
  if (op->code == OP_CONVERT_LAYOUT) note_convert_layout(n, out, op);
  if (op->code == OP_REDUCE && is_result) buf_printf(out, " of L%d", number_of(n, op->in[0]));
  if ((op->code == OP_LOAD || op->code == OP_STORE) && op->in[0]->layout) note_access(out, op);
}

void layout_print_func(Buf *out, const Func *f) {
  Notes n = {.cx = f->cx, .squares = f->squares, .numbers = map_create(f->cx->arena, false)};
  tile_print_noted(out, f, 0, note_op, &n);
  buf_printf(out, "\n// %d layout%s, %d conversion%s", n.layouts.n, n.layouts.n == 1 ? "" : "s", n.conversions,
             n.conversions == 1 ? "" : "s");
  if (n.conversions) buf_printf(out, " at a cost of %d", n.cost);
  buf_putc(out, '\n');
  for (int i = 0; i < n.layouts.n; i++) {
    Buf drawing = {.arena = f->cx->arena};
    buf_printf(out, "//\n// L%d: ", i);
    layout_print(out, n.layouts.at[i].layout);
    buf_putc(out, '\n');
    layout_draw(&drawing, n.layouts.at[i].type, n.layouts.at[i].layout);
    for (const char *line = drawing.at; line && *line;) {
      const char *end = strchr(line, '\n');
      buf_puts(out, "//   ");
      buf_write(out, line, (size_t)(end - line) + 1);
      line = end + 1;
    }
    buf_destroy(&drawing);
  }
}
