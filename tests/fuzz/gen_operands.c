/* gen_operands: the tiles that a loop around dots loads: through pointers made of the loop's variable or walking, block
 * pointers and descriptors; rows that lie either way round, with and without masks in either dim. See gen.h.
 *
 * An operand is `lines` by as many elements as all iterations take of it (the rows or columns of a matrix product that
 * stay, by its k). In memory the loop goes along the rows or across them.
 */
#include "gen.h"
#include <stdio.h>

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* trips iterations that take `block` elements each; masked: the last one may have fewer. */
void begin_turns(Gen *g, Turns *t, int block, int trips) {
  int id = new_id(g);
  *t = (Turns){.block = block, .trips = trips, .down = chance(g, 25), .masked = chance(g, 40)};
  t->from = (int)draw_between(g, -3, 20), t->step = (int)draw_between(g, 1, 3);
  if (chance(g, 40)) t->from = 0, t->step = block; /* as it is mostly written: the variable is the first element */
  t->total = trips * block - (t->masked && trips ? (int)draw(g, (uint32_t)block) : 0);
  if (!t->total) t->total = 1; /* arrays that nobody reads */
  number_text(g, t->total, t->total_text);
  snprintf(t->turn, sizeof t->turn, "t%d", id), snprintf(t->first, sizeof t->first, "f%d", id);
  snprintf(t->index, sizeof t->index, "c%d", id);
}

/* The loop's head, and the elements that an iteration takes. */
void put_turns(Gen *g, const Turns *t) {
  static const char *const hints[] = {"",
                                      "",
                                      ", warp_specialize=True",
                                      ", flatten=True",
                                      ", disallow_acc_multi_buffer=True",
                                      ", loop_unroll_factor=2",
                                      ", disable_licm=True"};
  char bounds[80], end[24];
  int to = t->from + t->step * t->trips;
  if (t->down) {
    number_text(g, to - t->step, end);
    snprintf(bounds, sizeof bounds, "%s, %d, -%d", end, t->from - t->step, t->step);
  } else {
    number_text(g, to - (int)draw(g, (uint32_t)t->step), end);
    snprintf(bounds, sizeof bounds, "%d, %s, %d", t->from, end, t->step);
  }
  if (chance(g, 40)) line(g, "for %s in range(%s):", t->turn, bounds);
  else if (chance(g, 8)) line(g, "for %s in tl.range(%s%s):", t->turn, bounds, hints[draw(g, 7)]);
  else
    line(g, "for %s in tl.range(%s, num_stages=%d%s):", t->turn, bounds, (int)draw_between(g, 1, 5), hints[draw(g, 7)]);
  g->indent++;
  line(g, "%s = (%s - %d) // %d * %d", t->first, t->turn, t->from, t->step, t->block);
  line(g, "%s = %s + tl.arange(0, %d)", t->index, t->first, t->block);
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

static const char *in_dim(const DotOperand *o, bool of_lines) {
  static const char *const texts[2][2] = {{"[:, None]", "[None, :]"}, {"[None, :, None]", "[None, None, :]"}};
  return texts[o->batch > 0][o->lines_first != of_lines];
}

/* The addresses of the tile whose elements along the loop are `index`. */
static void put_address(const DotOperand *o, const char *index, char *text, size_t size) {
  char line_index[80];
  if (o->wraps) snprintf(line_index, sizeof line_index, "(tl.arange(0, %d) %% %s)", o->lines, o->limit_text);
  else snprintf(line_index, sizeof line_index, "tl.arange(0, %d)", o->lines);
  size_t n = (size_t)snprintf(text, size, "%s", o->base);
  if (o->batch)
    n += (size_t)snprintf(text + n, size - n, " + tl.arange(0, %d)[:, None, None] * %ld", o->batch, (long)o->slab);
  snprintf(text + n, size - n, " + %s%s%s%s + %s%s%s%s", line_index, in_dim(o, true), o->across ? "" : " * ",
           o->across ? "" : o->pitch_text, index, in_dim(o, false), o->across ? " * " : "",
           o->across ? o->pitch_text : "");
}

static void put_pair(const DotOperand *o, const char *of_lines, const char *of_loop, char *text, size_t size) {
  snprintf(text, size, "%s, %s", o->lines_first ? of_lines : of_loop, o->lines_first ? of_loop : of_lines);
}

static void put_block_pointer(const DotOperand *o, const Turns *t, const char *first, char *text, size_t size) {
  char shape[60], strides[60], offsets[60], block[60], lines[12], size_text[12];
  snprintf(lines, sizeof lines, "%d", o->lines), snprintf(size_text, sizeof size_text, "%d", t->block);
  put_pair(o, o->limit_text, t->total_text, shape, sizeof shape);
  put_pair(o, o->across ? "1" : o->pitch_text, o->across ? o->pitch_text : "1", strides, sizeof strides);
  put_pair(o, "0", first, offsets, sizeof offsets);
  put_pair(o, lines, size_text, block, sizeof block);
  snprintf(text, size, "tl.make_block_ptr(%s, shape=(%s), strides=(%s), offsets=(%s), block_shape=(%s), order=(%s))",
           o->base, shape, strides, offsets, block, o->lines_first == o->across ? "0, 1" : "1, 0");
}

static void fill_operand(Gen *g, DotOperand *o, nereid_dtype t) {
  o->t = t, o->max = 1.75, o->step = -2;
  bool half = !g->plain && (t == NEREID_F16 || t == NEREID_BF16);
  nereid_dtype stored = half && chance(g, 12)                           ? NEREID_I8
                        : t == NEREID_F32 && !g->plain && chance(g, 20) ? (chance(g, 50) ? NEREID_F16 : NEREID_BF16)
                                                                        : t;
  o->converted = stored != t;
  o->p->t = stored, o->p->fill = FILL_QUANTIZED, o->p->hi = 7, o->p->lo = -7, o->p->step = -2;
  if (!is_float(stored)) o->p->fill = FILL_INTS, o->max = 7, o->step = 0;
  o->doubled = !is_fp8(t) && !g->plain && chance(g, 15);
  if (o->doubled) o->max *= 2;
}

/* Stores zeros and ones where the first tile lies: what the loop's copies must not overtake. */
static void put_first(Gen *g, const Turns *t, const DotOperand *o, const char *index) {
  char text[700];
  put_address(o, index, text, sizeof text);
  line(g,
       "tl.store(%s, ((tl.arange(0, %d)%s * 3 + %s%s) %% 5 & 1).to(tl.float32).to(%s), mask=(tl.arange(0, %d)%s < %s) "
       "& (%s%s < %s))",
       text, o->lines, in_dim(o, true), index, in_dim(o, false), tl_name(o->p->t), o->lines, in_dim(o, true),
       o->limit_text, index, in_dim(o, false), t->total_text);
}

/* Decides where the tile lies and how it is loaded; before the loop. batch: 0 for a tile of rank 2. */
bool begin_operand(Gen *g, const Turns *t, DotOperand *o, nereid_dtype type, int batch, int lines) {
  *o = (DotOperand){.lines = lines, .batch = batch, .across = chance(g, 50), .lines_first = chance(g, 50)};
  o->p = add_param(g, PARAM_IN, "i");
  if (!o->p) return false;
  fill_operand(g, o, type);
  int bytes = (int)nereid_dtype_bytes(o->p->t), unit = 16 / bytes;
  o->limit = chance(g, 25) ? (int)draw_between(g, 1, lines) : lines;
  number_text(g, o->limit, o->limit_text);
  int row = o->across ? o->limit : t->total, rows = o->across ? t->total : o->limit;
  o->pitch = g->plain || chance(g, 60) ? (row + unit - 1) / unit * unit : row + (int)draw(g, 6);
  o->how = batch ? (LoadKind)draw(g, 2) : (LoadKind)draw(g, 7);
  if (t->down && (o->how == LOAD_WALKING || o->how == LOAD_ADVANCED_BLOCK)) o->how = LOAD_INDEXED;
  if (o->how > LOAD_DESCRIPTOR || (o->how == LOAD_DESCRIPTOR && (o->across ? lines : t->block) < unit))
    o->how = t->down ? LOAD_INDEXED : LOAD_WALKING;
  if (o->how == LOAD_DESCRIPTOR) o->pitch = (row + unit - 1) / unit * unit, o->lines_first = !o->across;
  o->wraps = !g->plain && o->how <= LOAD_WALKING && o->limit < lines && chance(g, 30);
  number_text(g, o->pitch, o->pitch_text);
  o->p->place_at_end = o->how != LOAD_DESCRIPTOR && !g->plain && chance(g, 50);
  o->slab = (int64_t)rows * o->pitch;
  if (batch && !g->plain && chance(g, 50)) o->slab += draw(g, 5);
  int64_t part = (batch ? batch : 1) * o->slab, places = 1;
  snprintf(o->base, sizeof o->base, "%s", o->p->name);
  o->changes = !o->wraps && chance(g, g->plain ? 2 : 10);
  bool begins = !o->wraps && chance(g, g->plain ? 2 : 15);
  if (o->changes || begins || chance(g, 40)) { /* each program and iteration of outer loops has its own */
    char where[200];
    places = place(g, where, sizeof where);
    if (o->how == LOAD_DESCRIPTOR || g->plain || chance(g, 50)) part = (part + unit - 1) / unit * unit;
    snprintf(o->base, sizeof o->base, "%s + %s * %ld", o->p->name, where, (long)part);
  }
  o->p->count = part * (places - 1) + (batch ? batch - 1 : 0) * o->slab + (int64_t)(rows - 1) * o->pitch + row;
  if (o->p->count > 1 << 20) return o->p->count = 1, false;
  if (o->how == LOAD_DESCRIPTOR) o->p->count = part * places; /* whole rows */
  int id = new_id(g);
  snprintf(o->name, sizeof o->name, "g%d", id), snprintf(o->at, sizeof o->at, "q%d", id);
  char text[700], index[40];
  snprintf(index, sizeof index, "tl.arange(0, %d)", t->block);
  if (begins) put_first(g, t, o, index);
  if (o->how == LOAD_WALKING) put_address(o, index, text, sizeof text);
  else if (o->how == LOAD_ADVANCED_BLOCK) put_block_pointer(o, t, "0", text, sizeof text);
  else if (o->how == LOAD_DESCRIPTOR)
    snprintf(text, sizeof text, "tl.make_tensor_descriptor(%s, shape=[%d, %d], strides=[%s, 1], block_shape=[%d, %d])",
             o->base, rows, row, o->pitch_text, o->across ? t->block : lines, o->across ? lines : t->block);
  else return true;
  line(g, "%s = %s", o->at, text);
  return true;
}

static void put_mask(Gen *g, const Turns *t, const DotOperand *o, char *text, size_t size) {
  bool lines = o->limit < o->lines && !o->wraps;
  size_t n = 0;
  *text = 0;
  if (!lines && !t->masked) return;
  if (t->masked) n = (size_t)snprintf(text, size, ", mask=(%s%s < %s)", t->index, in_dim(o, false), t->total_text);
  if (lines)
    n += (size_t)snprintf(text + n, size - n, "%s(tl.arange(0, %d)%s < %s)", n ? " & " : ", mask=", o->lines,
                          in_dim(o, true), o->limit_text);
  if (chance(g, 80)) snprintf(text + n, size - n, is_float(o->p->t) ? ", other=0.0" : ", other=0");
}

/* Stores the tile, with its sign turned, over the next iteration's. */
static void put_change(Gen *g, const Turns *t, const DotOperand *o) {
  char text[700], index[40], mask[100] = "";
  snprintf(index, sizeof index, "(%s %c %d)", t->index, t->down ? '-' : '+', t->block);
  put_address(o, index, text, sizeof text);
  if (o->limit < o->lines)
    snprintf(mask, sizeof mask, " & (tl.arange(0, %d)%s < %s)", o->lines, in_dim(o, true), o->limit_text);
  line(g, "tl.store(%s, %s%s, mask=(%s%s %s %s)%s)", text, is_fp8(o->p->t) ? "" : "-", o->name, index, in_dim(o, false),
       t->down ? ">=" : "<", t->down ? "0" : t->total_text, mask);
}

/* Loads the tile of this iteration; lines_first: as [lines, block], else as [block, lines]. */
void load_operand(Gen *g, const Turns *t, const DotOperand *o, bool lines_first) {
  char text[700], mask[260];
  switch (o->how) {
    case LOAD_INDEXED:
    case LOAD_WALKING:
      snprintf(text, sizeof text, "%s", o->at);
      if (o->how == LOAD_INDEXED) put_address(o, t->index, text, sizeof text);
      put_mask(g, t, o, mask, sizeof mask);
      line(g, "%s = tl.load(%s%s)", o->name, text, mask);
      break;
    case LOAD_BLOCK:
    case LOAD_ADVANCED_BLOCK:
      snprintf(text, sizeof text, "%s", o->at);
      if (o->how == LOAD_BLOCK) put_block_pointer(o, t, t->first, text, sizeof text);
      bool loop = t->masked || chance(g, 20), lines = o->limit < o->lines || chance(g, 20);
      snprintf(mask, sizeof mask, "%s",
               lines && loop ? ", boundary_check=(0, 1), padding_option=\"zero\""
               : lines       ? (o->lines_first ? ", boundary_check=(0,), padding_option=\"zero\""
                                               : ", boundary_check=(1,), padding_option=\"zero\"")
               : loop        ? (o->lines_first ? ", boundary_check=(1,), padding_option=\"zero\""
                                               : ", boundary_check=(0,), padding_option=\"zero\"")
                             : "");
      line(g, "%s = tl.load(%s%s)", o->name, text, mask);
      break;
    default: put_pair(o, "0", t->first, text, sizeof text); line(g, "%s = %s.load([%s])", o->name, o->at, text);
  }
  if (o->changes) put_change(g, t, o);
  if (o->lines_first != lines_first)
    line(g, o->batch ? "%s = tl.permute(%s, (0, 2, 1))" : "%s = tl.trans(%s)", o->name, o->name);
  if (o->converted) line(g, "%s = %s.to(%s)", o->name, o->name, tl_name(o->t));
  if (o->doubled) line(g, "%s = %s * 2", o->name, o->name);
  char by[60], step[12];
  snprintf(step, sizeof step, "%d", t->block);
  put_pair(o, "0", step, by, sizeof by);
  if (o->how == LOAD_WALKING)
    line(g, "%s += %d%s%s", o->at, t->block, o->across ? " * " : "", o->across ? o->pitch_text : "");
  if (o->how == LOAD_ADVANCED_BLOCK) line(g, "%s = tl.advance(%s, (%s))", o->at, o->at, by);
}
