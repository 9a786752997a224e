/* Products of f32 whose second operand warpgroups cannot take as it lies are computed the other way round.
 *
 *     for ... carrying %acc : f32[M,N]            for ... carrying %t : f32[N,M]
 *       %a = load ...   along k                     %a = load ...; %b = load ...
 *       %b = load ...   across            ->        %t = dot (trans %b), (trans %a), %t
 *       %acc = dot %a, %b, %acc                   %acc = trans %t
 *
 * wgmma takes elements of 32 bits from shared memory along k alone, and nobody turns them on their way. Its first
 * operand may come from registers, too: there it may lie across, since threads load what words they want
 * (lower/wgmma.c). Rows of b are such words. What is carried is turned once, after the loop, on its way to its store's
 * layout.
 *
 * Where both operands lie the wrong way round nothing helps, and `mma` multiplies. Func.unturned says so.
 */
#include "gpu/loop.h"
#include "tile/analysis/regular.h"

typedef enum { LIES_ALONG, LIES_ACROSS, LIES_ELSEWHERE } Lies;

static const int64_t swapped[] = {1, 0};

/* How operand k of the product lies in memory; ELSEWHERE: no load of this block brings it. */
static Lies lies(Func *f, const Op *dot, int k) {
  const Value *v = dot->in[k];
  const char *why;
  int along = !k;
  for (; v->def && v->def->code == OP_TRANS; v = v->def->in[0]) along = !along;
  const Op *load = v->def;
  if (!load || load->code != OP_LOAD || load->block != dot->block) return LIES_ELSEWHERE;
  const RegularTile *box = regular_tile(f, load, &why);
  int inner = along;
  if (box) inner = box->dims[0].dim;
  else
    access_vector(load->in[0], op_mask(load), access_layout(f->cx, load->in[0], op_mask(load), f->num_warps), 16,
                  &inner);
  return inner == along ? LIES_ALONG : LIES_ACROSS;
}

static bool is_turned(Func *f, const Op *dot) {
  const Type *acc = dot->out[0]->type;
  Dtype as[2];
  if (dot->in[0]->type->dtype != DT_F32 || (dot->precision != PRECISION_TF32 && dot->precision != PRECISION_SPLIT) ||
      acc->rank != 2 || f->num_warps < 4 || !layout_takes_mma(dot, true, f->num_warps, as))
    return false;
  Lies a = lies(f, dot, 0), b = lies(f, dot, 1);
  if (a == LIES_ELSEWHERE || b != LIES_ACROSS) return false;
  bool fits = acc->shape[1] >= 64 && acc->shape[0] >= 16; /* as rows, and as columns */
  if (a == LIES_ACROSS)
    f->unturned = "both operands of a product of f32 lie across, and warpgroups take one so at most";
  else if (!fits) f->unturned = "an operand of a product of f32 lies across, and has fewer than 64 columns";
  return a == LIES_ALONG && fits;
}

static void turn(Func *f, Op *loop, Op *dot) {
  Block *body = loop->body[0];
  int carried = dot->in[2]->index - 1;
  Value *first = loop->in[3 + carried];
  Builder before = {.func = f, .block = loop->block, .before = loop, .span = dot->span},
          here = {.func = f, .block = body, .before = dot, .span = dot->span},
          after = {.func = f, .block = loop->block, .before = loop->next, .span = dot->span};
  Value *turned = build_trans(&before, first, swapped);
  if (value_is_zero(first)) {
    op_remove(turned->def);
    turned = build_float(&before, turned->type, 0);
  }
  Value *sum = control_carry(f, loop, turned, turned);
  sum->name = dot->in[2]->name;
  Value *b = build_trans(&here, dot->in[1], swapped), *a = build_trans(&here, dot->in[0], swapped);
  Value *out = build_dot(&here, b, a, sum, (DotPrecision)dot->precision);
  memcpy(out->def->attr, dot->attr, sizeof dot->attr);
  body->last->in[sum->index - 1] = out;
  Value *result = build_trans(&after, loop->out[sum->index - 1], swapped);
  loop_replace_but(f->body, loop->out[carried], result->def);
  body->last->in[carried] = body->args[1 + carried]; /* nobody asks for it any more */
  op_remove(dot);
  control_drop(loop, carried);
}

static void visit_loop(Func *f, const GpuOptions *o, Op *loop) {
  int64_t stages = loop->num_stages ? loop->num_stages : f->num_stages;
  if (stages < 2) return; /* tiles go through registers */
  for (Op *op = loop->body[0]->first, *next; op; op = next) {
    next = op->next;
    if (loop_carries_sum(loop->body[0], op) && is_turned(f, op)) turn(f, loop, op);
  }
}

void gpu_turn_dots(Func *f, const GpuOptions *o) {
  if (!gpu_has_wgmma(o) || gpu_leaves_out(o, "async_loads")) return;
  tile_replace_uses(f);
  loop_visit(f, o, visit_loop);
  tile_replace_uses(f);
}
