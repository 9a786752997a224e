/* Which tile of a product's result a program computes.
 *
 * Each candidate has two times of a step along k: what it takes of a processor that has enough of them to do, and what
 * it takes when it waits for its operands. A product takes as many steps as k has, each as long as the processor with
 * the most tiles needs. Tiles whose elements are not all there, and processors without a tile, count by themselves. */
#include "fuse/fuse.h"

typedef struct Rate {
  FuseTile tile;
  double work, latency; /* microseconds; of a CPU: any unit */
} Rate;

/* Measured on an H200 (bench/results/fuse.md): f16 and bf16 on tensor cores. */
static const Rate tensor_cores[] = {
    {{128, 256, 64, 8}, 0.737, 0.74}, {{256, 128, 64, 8}, 0.741, 0.74}, {{128, 128, 64, 8}, 0.505, 0.51},
    {{128, 128, 64, 4}, 0.483, 0.90}, {{128, 64, 64, 4}, 0.339, 0.87},  {{64, 128, 64, 4}, 0.328, 0.79},
    {{64, 64, 64, 4}, 0.206, 0.80},   {{64, 64, 128, 4}, 0.488, 0.95},  {{32, 128, 64, 4}, 0.244, 0.65},
    {{32, 64, 64, 4}, 0.157, 0.70},   {{64, 32, 64, 4}, 0.155, 0.80},   {{16, 128, 128, 4}, 0.378, 0.90},
    {{16, 64, 128, 4}, 0.231, 0.85},  {{64, 16, 64, 4}, 0.140, 0.80},
};
/* f32 rounded to tf32. */
static const Rate rounded[] = {
    {{128, 256, 32, 8}, 1.455, 1.75}, {{128, 128, 32, 8}, 0.865, 1.00}, {{128, 64, 32, 4}, 0.415, 0.64},
    {{64, 128, 32, 4}, 0.420, 0.64},  {{64, 64, 32, 4}, 0.247, 0.54},   {{32, 128, 32, 4}, 0.250, 0.54},
    {{32, 64, 32, 4}, 0.150, 0.45},   {{64, 32, 32, 4}, 0.150, 0.45},   {{16, 128, 32, 4}, 0.170, 0.45},
    {{16, 64, 32, 4}, 0.110, 0.40},   {{16, 32, 32, 4}, 0.080, 0.35},
};
/* f32 as sums of two of tf32. */
static const Rate in_pieces[] = {
    {{128, 64, 32, 4}, 0.97, 0.97}, {{64, 128, 32, 4}, 0.90, 0.90}, {{128, 128, 32, 8}, 1.75, 1.75},
    {{64, 64, 32, 4}, 0.60, 0.81},  {{32, 128, 32, 4}, 0.62, 0.85}, {{32, 64, 32, 4}, 0.36, 0.60},
    {{64, 32, 32, 4}, 0.36, 0.60},  {{16, 128, 32, 4}, 0.40, 0.65}, {{16, 64, 32, 4}, 0.25, 0.50},
    {{32, 32, 32, 4}, 0.22, 0.45},
};
/* Multiply-adds of f32 and f64. */
static const Rate multiply_adds[] = {
    {{128, 64, 32, 4}, 1.66, 2.46}, {{64, 128, 32, 4}, 1.87, 2.40}, {{128, 128, 32, 8}, 3.90, 4.00},
    {{64, 64, 32, 4}, 0.99, 1.46},  {{32, 64, 32, 4}, 0.60, 0.90},  {{64, 32, 32, 4}, 0.60, 0.90},
    {{32, 32, 32, 4}, 0.34, 0.55},  {{16, 64, 32, 4}, 0.36, 0.55},  {{16, 32, 32, 4}, 0.20, 0.30},
    {{16, 16, 32, 4}, 0.12, 0.25},
};
/* Vector registers; operands are packed for the cache. */
static const Rate vectors[] = {
    {{256, 256, 64}, 65.5, 0}, {{128, 256, 64}, 33.4, 0}, {{128, 128, 64}, 17.4, 0},
    {{64, 128, 64}, 9.6, 0},   {{64, 64, 64}, 5.1, 0},    {{32, 64, 64}, 3.2, 0},
    {{16, 64, 64}, 2.3, 0},    {{16, 32, 64}, 1.5, 0},    {{16, 16, 64}, 1.0, 0},
};

static int64_t known(const Size *s, int64_t otherwise) {
  int64_t v;
  return size_is_int(s, &v) ? v : otherwise;
}

static int64_t block_for(int64_t n, int64_t least, int64_t most) {
  int64_t b = least;
  while (b < n && b < most) b *= 2;
  return b;
}

/* Sums of f32 gain more from tensor cores than their pieces cost, unless they are short; and any where tiles go on to
 * other products. Two pieces of tf32 hold 22 bits of 24: a sum of many terms does not show it, but a row of an
 * attention may take one value with a weight near 1, and that value is to come out as it was. So what tiles are
 * multiplied by is in three pieces of bf16, which hold all bits: six products at twice the rate of three of tf32. */
enum { LONG = 32, ANY = 512 };

const char *fuse_precision(const FuseTarget *target, const Tensor *product, FusePlace place) {
  const Tensor *a = product->in[0];
  if (target->kind != TARGET_GPU || target->sm < 80 || product->dtype != DT_F32) return "ieee";
  if (product->tf32 && known(a->size[a->rank - 1], ANY) >= 64) return "tf32";
  if (place == OF_TILES) return "bf16x6";
  return place == IN_STREAM || known(a->size[a->rank - 1], ANY) >= LONG ? "tf32x3" : "ieee";
}

typedef struct Rates {
  const Rate *at;
  size_t n;
} Rates;
#define LIST(list) \
  (Rates) { list, sizeof list / sizeof *list }

static double cost_of(const FuseTarget *target, const Rate *c, const int64_t size[4]) {
  int64_t tiles = cdiv(size[0], c->tile.m) * cdiv(size[1], c->tile.n) * size[3];
  double rounds = (double)cdiv(tiles, target->processors) * c->work, step = rounds > c->latency ? rounds : c->latency;
  return step * (double)cdiv(size[2], c->tile.k);
}

static bool has_tile(const FuseTile *tiles, int n, const FuseTile *t) {
  for (int i = 0; i < n; i++)
    if (tiles[i].m == t->m && tiles[i].n == t->n && tiles[i].k == t->k && tiles[i].num_warps == t->num_warps)
      return true;
  return false;
}

int fuse_tiles(const FuseTarget *target, const Tensor *t, const Size *const dims[4], FuseTile *out, int most) {
  const int64_t size[] = {known(dims[0], 4096), known(dims[1], 4096), known(dims[2], 4096), known(dims[3], 1)};
  const char *precision = fuse_precision(target, t, ALONE);
  bool gpu = target->kind == TARGET_GPU;
  *out = (FuseTile){block_for(size[0], 16, 64), block_for(size[1], 16, 64), block_for(size[2], 16, 32), 0, 1};
  if (target->kind == TARGET_ANY) return 1;
  Rates list = !gpu                           ? LIST(vectors)
               : dtype_bits(t->dtype) <= 16   ? LIST(tensor_cores)
               : !strcmp(precision, "tf32")   ? LIST(rounded)
               : !strcmp(precision, "tf32x3") ? LIST(in_pieces)
                                              : LIST(multiply_adds);
  int count = 0;
  bool taken[16] = {false};
  for (size_t round = 0; round < list.n && count < most; round++) { /* the cheapest of the rest */
    size_t best = list.n;
    for (size_t i = 0; i < list.n; i++)
      if (!taken[i] && (best == list.n || cost_of(target, &list.at[i], size) < cost_of(target, &list.at[best], size)))
        best = i;
    taken[best] = true;
    FuseTile tile = list.at[best].tile;
    tile.k = block_for(size[2], 16, tile.k);
    tile.steps = 1;
    if (t->dtype == DT_F64 && gpu && tile.m * tile.n > 64 * 64) tile = (FuseTile){64, 64, tile.k, 8, 1};
    if (!has_tile(out, count, &tile)) out[count++] = tile;
  }
  return count;
}

FuseTile fuse_tile(const FuseTarget *target, const Tensor *t, const Size *m, const Size *n, const Size *k,
                   const Size *batches) {
  FuseTile tile;
  fuse_tiles(target, t, (const Size *const[]){m, n, k, batches}, &tile, 1);
  return tile;
}
