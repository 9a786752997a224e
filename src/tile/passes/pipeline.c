/* The passes over tile IR, in their order, with what each needs, gives and keeps (contract.c). */
#include "tile/tile.h"

/* New values have neither axis info nor a layout: what makes some does not keep the former, and must not meet the
 * latter. */
enum {
  PLAIN = FUNC_NO_LAYOUTS,
  LOOPS = FUNC_CANONICAL_LOOPS,
  AXIS = FUNC_AXIS_INFO,
  ALL_AXIS = FUNC_AXIS_INFO | FUNC_ACCESS_INFO,
  HINTS = FUNC_NO_HINTS
};

/* clang-format off */
const PassInfo tile_passes[] = {
    /*                                         needs, gives, keeps */
    {"spread_hints", tile_spread_hints,       {0,     0,     FUNC_ALL}}, /* to later uses of what they speak of */
    {"fold_dot_sum", tile_fold_dot_sum,       {PLAIN, 0,     PLAIN | LOOPS | HINTS}}, /* in which order sums are formed */
    {"drop_dims", tile_drop_dims,             {PLAIN, 0,     PLAIN | LOOPS | HINTS}}, /* of one element, in accesses */
    {"fold", tile_fold,                       {PLAIN, 0,     PLAIN | LOOPS | HINTS}},
    {"cse", tile_cse,                         {PLAIN, 0,     PLAIN | LOOPS | HINTS}},
    {"licm", tile_licm,                       {0,     0,     FUNC_ALL}},
    {"nest_loops", tile_nest_loops,           {PLAIN, 0,     PLAIN | HINTS}}, /* of tiles and their steps */
    {"unroll", tile_unroll,                   {PLAIN, 0,     PLAIN | LOOPS | HINTS}}, /* of a few iterations */
    {"canonical_loops", tile_canonical_loops, {PLAIN, LOOPS, PLAIN | HINTS}},
    {"fold", tile_fold,                       {PLAIN, 0,     PLAIN | LOOPS | HINTS}}, /* what the loops' new form shows */
    {"licm", tile_licm,                       {0,     0,     FUNC_ALL}},
    {"cse", tile_cse,                         {PLAIN, 0,     PLAIN | LOOPS | HINTS}},
    {"dce", tile_dce,                         {0,     0,     FUNC_ALL}},
    {"axis_info", tile_axis_info,             {LOOPS, ALL_AXIS, FUNC_ALL}}, /* of a growing tensor it knows little */
    {"drop_hints", tile_drop_hints,           {AXIS,  HINTS, FUNC_ALL}}, /* the axis info says what the hints said */
    {"waits", tile_mark_waits,                {0,     0,     FUNC_ALL}},
    {NULL},
};
/* clang-format on */

void tile_optimize(Func *f, const char *dump_after, Buf *dump, bool verify) {
  bool all = dump_after && !strcmp(dump_after, "all");
  if (verify) tile_verify(f, NULL);
  for (const PassInfo *pass = tile_passes; pass->name; pass++) {
    tile_pass_begin(f, pass->name, &pass->contract);
    pass->run(f);
    tile_pass_end(f, pass->name, &pass->contract, verify);
    if (!dump_after || !(all || !strcmp(dump_after, pass->name))) continue;
    buf_printf(dump, "// after %s\n", pass->name);
    tile_print(dump, f, pass->run == tile_axis_info ? PRINT_AXIS_INFO : 0);
  }
}
