/* The passes over tile IR, in their order. */
#include "tile/tile.h"

const PassInfo tile_passes[] = {
    {"sum_dots", tile_sum_dots}, /* in which order sums are formed */
    {"fold", tile_fold},
    {"cse", tile_cse},
    {"licm", tile_licm},
    {"canonical_loops", tile_canonical_loops},
    {"fold", tile_fold}, /* what the loops' new form shows */
    {"licm", tile_licm},
    {"cse", tile_cse},
    {"dce", tile_dce},
    {"axis_info", tile_axis_info},
    {"drop_hints", tile_drop_hints}, /* the facts say what the hints said */
    {NULL, NULL},
};

void tile_optimize(Func *f, const char *dump_after, Buf *dump, bool verify) {
  bool all = dump_after && !strcmp(dump_after, "all");
  if (verify) tile_verify(f, NULL);
  for (const PassInfo *pass = tile_passes; pass->name; pass++) {
    pass->run(f);
    if (verify) tile_verify(f, pass->name);
    if (!dump_after || !(all || !strcmp(dump_after, pass->name))) continue;
    buf_printf(dump, "// after %s\n", pass->name);
    tile_print(dump, f, pass->run == tile_axis_info ? PRINT_AXIS_INFO : 0);
  }
}
