/* Warp specialization: warps of their own bring the tiles that products take, the others multiply.
 *
 *     for %i ... carrying %acc             if %computes {
 *       %a = load %p(%i)                     for %i ... carrying %acc, %slot, %parity
 *       %b = load %q(%i)              ->       ring_full %ring_a, %slot, %parity; ring_full %ring_b, ...
 *       %acc = dot %a, %b, %acc                dot ring_read, ring_read {async=1}
 *     store %c, %acc                           ring_free what the dot before took
 *                                            store %c, %acc
 *                                          } else {
 *                                            for %i ... carrying %slot, %parity
 *                                              ring_empty %ring_a, ...; ring_tensor %map_a, ...
 *                                              ring_empty %ring_b, ...; ring_tensor %map_b, ...
 *                                          }
 *
 * Both halves are slices of one function. Rings and the numbers of their slots are put in first, which run through all
 * loops, nested ones too; then the function is taken twice. The half that computes leaves out the copies. The half that
 * copies keeps these, the control flow around them and the scalars that all this needs, and nothing else. So both walk
 * the same iterations, whatever they are. A slot is full when its tile has come, and empty when all warps that compute
 * have said that they are done with it; no barrier of the block stands between, so that the copies run ahead (of a
 * persistent kernel into the next program), and warpgroups drift apart.
 *
 * A function is sliced if tiles that products of warpgroups take in loops are boxes of arrays
 * (tile/analysis/regular.h), and what says where they begin is made of scalars that no memory decides. What it writes
 * may be what it loads (two arguments may be one array): where a write comes before the last copy of a program, a
 * launch must show that these lie apart (gpu/disjoint.h; of stores and atomics in the loops themselves
 * gpu/box_apart.h). Else it stays whole, and says why.
 *
 * Tiles of one dim that such a loop loads for its threads (a statistic of each row) come the same way, where a launch
 * need not check anything for their sake: the loop does not wait for memory then.
 *
 * Tiles that a program loads once, for the products of its loops (the queries of attention), come likewise, in rings of
 * a slot or two: of the next program while this one ends.
 *
 * A dot that adds to what the loop only carries is waited for an iteration later: then the tiles of the iteration
 * before are free. Others are waited for where they stand, and their tiles are free at once.
 */
#include "gpu/specialize.h"

static bool plan(Specialize *p) {
  Func *f = p->f;
  p->needed = map_create(f->cx->arena, false);
  p->programs = f->body;
  for (Op *op = f->body->first; op; op = op->next)
    if (loop_runs_programs(f, op)) p->programs = op->body[0];
  if (!gpu_has_wgmma(p->o) || !p->o->tensor_maps || gpu_leaves_out(p->o, "tensor_maps"))
    return specialize_refuse(p, "the target has no products of warpgroups or no tensor maps, or they are left out");
  if (f->num_warps % 4 || f->num_warps > 16) return specialize_refuse(p, "its warps are no warpgroups");
  if (f->num_stages < 2) return specialize_refuse(p, "num_stages is 1");
  if (f->instrument || p->o->list) return specialize_refuse(p, "it is timed, or its programs are listed");
  if (!specialize_find(p)) return false;
  specialize_take_rows(p);
  if (specialize_can_slice(p) && specialize_choose_rings(p)) return true;
  specialize_drop_rows(p);
  return specialize_can_slice(p) && specialize_choose_rings(p);
}

/* Whether all its dots are in flight while it goes on: it does nothing beside. */
static bool only_multiplies(const Loop *l) {
  int dots = 0;
  for (const Op *op = l->op->body[0]->first; op; op = op->next) dots += op->code == OP_DOT;
  return dots == l->dot_count;
}

/* Whether a product in pieces takes what threads load themselves: before its fence they would wait for that. */
static bool loads_for_pieces(const Loop *l) {
  for (const Op *op = l->op->body[0]->first; op; op = op->next)
    for (int k = 0; k < 2 && op->code == OP_DOT && op->precision == PRECISION_SPLIT; k++)
      if (value_block(op->in[k]) == l->op->body[0] && !specialize_is_tile(l, op->in[k])) return true;
  return false;
}

/* Whether it is faster, as measured (bench/results/h200.md). */
static bool pays(const Specialize *p) {
  const GpuBudgets *budgets = p->o->target->budgets;
  int64_t most = 0;
  bool multiplies = true;
  for (int i = 0; i < p->loop_count; i++) {
    int64_t sums = loop_sums(p->f, p->loops[i].op->body[0]);
    if (sums > most) most = sums;
    multiplies &= only_multiplies(&p->loops[i]);
    if (loads_for_pieces(&p->loops[i])) return false;
  }
  return multiplies || (p->f->num_warps >= budgets->specialized_warps && most >= budgets->specialized_sums);
}

bool gpu_specializes(Func *f, const GpuOptions *o, bool persistent, const char **why) {
  tile_replace_uses(f);
  Specialize p = {.f = f, .o = o, .persistent = persistent};
  bool can = !gpu_leaves_out(o, "specialize") && plan(&p);
  bool wanted = p.asked || o->specialize || (can && pays(&p));
  if (can && !wanted)
    specialize_refuse(&p, "its loops do more than multiply, on small tiles, and nobody asks for it "
                          "(warp_specialize=True, or --specialize)");
  *why = p.why;
  return can && wanted;
}

void gpu_specialize(Func *f, const GpuOptions *o) {
  if (!gpu_specializes(f, o, f->persistent, &f->unspecialized)) return;
  Specialize p = {.f = f, .o = o, .persistent = f->persistent};
  plan(&p);
  specialize_choose_cluster(&p);
  p.first = f->body->first;
  specialize_put_rings(&p);
  tile_replace_uses(f);
  specialize_slice(&p);
  tile_replace_uses(f);
  tile_dce(f);
}
