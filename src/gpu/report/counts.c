/* Walks the programs of a launch and counts what their warps issue and access (report.h).
 *
 * The counters of a program are one flat row of numbers: for each load, store and atomic its requests, lanes, sectors
 * and so on; for each block of operations how many warps and threads entered it. What an instruction mix needs follows
 * from the latter, so operations without effect cost nothing.
 *
 * Programs of a small launch are all walked. Of a large one, along each axis of the grid, some neighbours are walked
 * first: rows repeat with a period when the beginnings of rows of memory fall differently into sectors (rows of 781
 * floats: every eighth program is alike). Then, for each place in the period, the first, the last and those in the
 * middle, until neighbours are alike or lie on a line.
 */
#include "gpu/report/counts.h"

#include <stdlib.h>

enum {
  ALL_STEPS = 32000000,           /* a launch of so many is walked whole */
  SOME_STEPS = 12000000,          /* else about so many */
  PROGRAM_STEPS = 12000000,       /* at most of one program, */
  BEGINNING = PROGRAM_STEPS / 16, /* and of each, when even the first does not end within that */
  ACCESS_STEPS = 8,               /* an access in operations without effect */
  WINDOW = 32                     /* programs among which a period is looked for */
};

enum { GROUP_WARPS = 4 };                        /* of a warpgroup */
enum { REQUESTS, LANES, NEEDS, IDEAL, NUMBERS }; /* of an access; it needs sectors, of shared memory passes */

typedef struct Site { /* a load, store or atomic; its LaneOp.note. Of a copy, two: that of shared memory comes next */
  const LaneOp *op;
  bool shared;
  int at; /* in the row */
  int bytes;
  uint64_t base, distance[32]; /* of the last request: the first lane's address, and how far the others lie from it */
  uint32_t lanes;
  int needs, ideal;   /* what it took */
  uint64_t low, high; /* of all requests so far */
} Site;

/* a block of operations; its number of warps stands at `at`, its threads after */
typedef struct BlockRow {
  int at;
} BlockRow;

typedef struct Counter {
  LaneFunc *f;
  Arena *arena;
  GpuSlice *slice;
  const uint64_t *args;
  const HostArray *contents;
  bool has_read; /* known data may decide on something */
  const int32_t *grid;
  LaneTraceHook hook;
  LaneSimOptions sim_options;
  LaneSimFault fault;
  LaneSim *sim;
  VEC(int64_t *) free_rows;
  VEC(Site) sites;
  VEC(const LaneOp *) products; /* that read shared memory by themselves */
  Map *block_rows;              /* LaneBlock -> BlockRow */
  const LaneBlock *last_block;  /* and what was found for it */
  const BlockRow *last_block_row;
  int splits, width; /* place of the splits; length of a row */
  int64_t *row;      /* of the program that is walked */
  int64_t *longest;  /* of that which took the most steps */
  int64_t steps, program_steps, program_limit, longest_steps, budget;
  GpuReport *out;
} Counter;

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static void number_op(LaneOp *op, void *arg) {
  Counter *c = arg;
  for (int i = 0; i < 2; i++) {
    if (!op->body[i]) continue;
    BlockRow *r = NEW(c->arena, BlockRow);
    r->at = c->width;
    map_put(c->block_rows, op->body[i], r);
    c->width += 2;
  }
  op->note = NULL;
  if (op->code == LANE_WGMMA || op->code == LANE_TMEM_MMA) vec_push(c->arena, &c->products, op);
  if (op->code == LANE_CP_ASYNC)
    for (int shared = 0; shared < 2; shared++, c->width += NUMBERS)
      vec_push(c->arena, &c->sites,
               ((Site){.op = op, .shared = shared, .at = c->width, .bytes = op->bits / 8, .low = UINT64_MAX}));
  if (!lane_is_access(op->code)) return;
  bool shared = op->space == SPACE_SHARED;
  int n = op->code == LANE_LD                                      ? op->out_count
          : op->code == LANE_LDMATRIX || op->code == LANE_STMATRIX ? 4
          : op->code == LANE_ATOM && op->rmw == RMW_CAS            ? 1
                                                                   : op->in_count - 1;
  vec_push(c->arena, &c->sites,
           ((Site){.op = op,
                   .shared = shared,
                   .at = c->width,
                   .bytes = n * lane_kind_info[op->kind].bits / 8,
                   .low = UINT64_MAX}));
  c->width += NUMBERS;
}

static bool enter(void *arg, const LaneBlock *b, int ops, int warps, int threads) {
  Counter *c = arg;
  if (b != c->last_block) c->last_block = b, c->last_block_row = map_get(c->block_rows, b);
  int64_t *n = c->row + c->last_block_row->at;
  n[0] += warps, n[1] += threads;
  int64_t steps = 1 + (int64_t)ops * c->f->num_warps;
  c->program_steps += steps, c->steps += steps;
  return c->program_steps <= c->program_limit;
}

static void split(void *arg, const LaneOp *op, int warps) {
  Counter *c = arg;
  c->row[c->splits] += warps;
}

/* A warp's requests mostly differ from the last one by a multiple of 128 bytes, by which neither sectors nor banks
 * change. */
static bool as_before(Site *s, const uint64_t at[32], uint32_t lanes) {
  uint64_t base = at[__builtin_ctz(lanes)], differs = 0, low = s->low, high = s->high;
  for (int i = 0; i < 32; i++) {
    uint64_t on = -(uint64_t)(lanes >> i & 1), a = (at[i] & on) | (base & ~on);
    differs |= s->distance[i] ^ (a - base);
    s->distance[i] = a - base;
    low = a < low ? a : low;
    high = a > high ? a : high;
  }
  bool same = !differs && lanes == s->lanes && (base - s->base) % 128 == 0;
  s->lanes = lanes, s->base = base, s->low = low, s->high = high;
  return same;
}

static void access(void *arg, const LaneOp *op, LaneSpace space, const uint64_t at[32], uint32_t lanes) {
  Counter *c = arg;
  Site *s = op->note;
  bool shared = space == SPACE_SHARED;
  if (op->code == LANE_CP_ASYNC && shared) s++;
  if (!as_before(s, at, lanes)) {
    s->needs = shared ? gpu_request_wavefronts(at, lanes, s->bytes, op->code == LANE_LD, &s->ideal)
                      : gpu_request_sectors(at, lanes, s->bytes);
    if (!shared) s->ideal = gpu_request_ideal(at, lanes, s->bytes);
  }
  int64_t *n = c->row + s->at;
  n[REQUESTS]++;
  n[LANES] += __builtin_popcount(lanes);
  n[NEEDS] += s->needs;
  n[IDEAL] += s->ideal;
  c->program_steps += ACCESS_STEPS, c->steps += ACCESS_STEPS;
}

static void read_known(void *arg, const LaneOp *load, uint64_t at, int bytes, void *to) {
  Counter *c = arg;
  for (int i = 0; i < c->f->param_count; i++) {
    const HostArray *a = &c->contents[i];
    if (!a->at || at < c->args[i] || at - c->args[i] > (uint64_t)(a->bytes - bytes) || a->bytes < bytes) continue;
    memcpy(to, (const char *)a->at + (at - c->args[i]), (size_t)bytes);
    c->has_read = true;
    return;
  }
  c->out->data |= !c->slice->data[load->out[0]->id]; /* past an array that is known */
}

/* ---- the programs of a grid -------------------------------------------------------------------------------------- */

static void walk_program(Counter *c, const int32_t at[3], int64_t *row) {
  memset(row, 0, sizeof *row * (size_t)c->width);
  c->row = row;
  c->program_steps = 0;
  int64_t program = at[0] + (int64_t)c->grid[0] * (at[1] + (int64_t)c->grid[1] * at[2]);
  if (!lane_sim_program(c->sim, program)) {
    const LaneSimFault *fault = &c->fault;
    if (fault->message[0])
      diag_fail(c->f->cx, fault->span ? *fault->span : (Span){0}, "the kernel cannot be walked for a report: %s",
                fault->message);
    c->out->cut = true;
  }
  if (c->program_steps > c->longest_steps) {
    c->longest_steps = c->program_steps;
    memcpy(c->longest, row, sizeof *row * (size_t)c->width);
  }
  c->out->walked++;
}

static void add_rows(const Counter *c, int64_t *to, const int64_t *row, int64_t times) {
  for (int i = 0; i < c->width; i++) to[i] += row[i] * times;
}

static bool alike(const Counter *c, const int64_t *a, const int64_t *b) {
  return !memcmp(a, b, sizeof *a * (size_t)c->width);
}

static int64_t *new_row(Counter *c) {
  return c->free_rows.n ? c->free_rows.at[--c->free_rows.n] : NEW_N(c->arena, int64_t, c->width);
}
static void drop_row(Counter *c, int64_t *row) { vec_push(c->arena, &c->free_rows, row); }

static void sum_axis(Counter *c, int axis, int32_t at[3], int64_t *sum, bool all);

static void walk_at(Counter *c, int axis, int32_t at[3], int32_t i, int64_t *row, bool all) {
  at[axis] = i;
  if (axis) sum_axis(c, axis - 1, at, row, all);
  else walk_program(c, at, row);
}

/* Every period-th program from `first` on: the k-th of them. */
typedef struct Series {
  int axis;
  int32_t *at, first, period;
} Series;

static void walk_kth(Counter *c, const Series *s, int32_t k, int64_t *row) {
  walk_at(c, s->axis, s->at, s->first + k * s->period, row, false);
}

typedef struct Known {
  int32_t k;
  const int64_t *row;
} Known; /* of a series */

static bool on_line(const Counter *c, Known low, Known middle, Known high) {
  for (int i = 0; i < c->width; i++)
    if (middle.row[i] * (high.k - low.k) != low.row[i] * (high.k - middle.k) + high.row[i] * (middle.k - low.k))
      return false;
  return true;
}

/* Adds those strictly between low and high. line: these lie on a line with one around them. */
static void sum_between(Counter *c, const Series *s, Known low, Known high, bool line, int64_t *sum) {
  int64_t between = (int64_t)high.k - low.k - 1;
  if (between <= 0) return;
  int64_t *row = new_row(c);
  Known middle = {low.k + (high.k - low.k) / 2, row};
  walk_kth(c, s, middle.k, row);
  bool constant = alike(c, low.row, row) && alike(c, high.row, row), here = on_line(c, low, middle, high);
  if (constant || between == 1) {
    add_rows(c, sum, row, between);
  } else if (here && line) { /* as for causal attention: each program has an iteration more than the one before */
    for (int i = 0; i < c->width; i++) sum[i] += (low.row[i] + high.row[i]) * between / 2;
  } else if (c->steps > c->budget) {
    c->out->sampled = true;
    for (int i = 0; i < c->width; i++)
      sum[i] += (int64_t)(((double)low.row[i] + (double)high.row[i] + 2 * (double)row[i]) / 4 * (double)between + 0.5);
  } else {
    add_rows(c, sum, row, 1);
    sum_between(c, s, low, middle, here, sum);
    sum_between(c, s, middle, high, here, sum);
  }
  drop_row(c, row);
}

/* The least power of two after which rows repeat; else that after which they grow evenly, the first of each left out
 * (a loop that goes by groups of iterations grows with each program, and its last iterations in turns); n when none is
 * seen. */
static int period_of(const Counter *c, int64_t *const *rows, int n) {
  for (int p = 1; p <= n / 2; p *= 2) {
    bool fits = true;
    for (int i = 0; fits && i + p < n; i++) fits = alike(c, rows[i], rows[i + p]);
    if (fits) return p;
  }
  for (int p = 1; 4 * p <= n; p *= 2) {
    bool fits = true;
    for (int i = p; fits && i + 2 * p < n; i++)
      fits = on_line(c, (Known){0, rows[i]}, (Known){1, rows[i + p]}, (Known){2, rows[i + 2 * p]});
    if (fits) return p;
  }
  return n;
}

/* The sum over all programs whose ids along the axes above `axis` stand in `at`. */
static void sum_axis(Counter *c, int axis, int32_t at[3], int64_t *sum, bool all) {
  int32_t n = c->grid[axis];
  memset(sum, 0, sizeof *sum * (size_t)c->width);
  int64_t *rows[WINDOW], start = c->steps;
  int window = 0, most = n < WINDOW ? n : WINDOW;
  while (!all && window < most && (window < 4 || c->steps - start <= c->budget / 2)) {
    rows[window] = new_row(c);
    walk_at(c, axis, at, window, rows[window], false);
    window++;
  }
  int seen = window;
  if (all) {
    int64_t *row = new_row(c);
    for (int32_t i = 0; i < n; i++) {
      walk_at(c, axis, at, i, row, all);
      add_rows(c, sum, row, 1);
    }
    drop_row(c, row);
  } else if (window == n) {
    for (int i = 0; i < n; i++) add_rows(c, sum, rows[i], 1);
  } else {
    while (window & (window - 1)) window--; /* a power of two */
    int period = period_of(c, rows, window);
    if (period == window) period = 1;
    for (int r = 0; r < period; r++) {
      Series s = {axis, at, r, period};
      int32_t last = (n - 1 - r) / period;
      int64_t *high = new_row(c);
      add_rows(c, sum, rows[r], 1);
      if (last) walk_kth(c, &s, last, high), add_rows(c, sum, high, 1);
      if (last) sum_between(c, &s, (Known){0, rows[r]}, (Known){last, high}, false, sum);
      drop_row(c, high);
    }
  }
  for (int i = 0; i < seen; i++) drop_row(c, rows[i]);
}

/* Where known data decide, programs may be unlike those around them: some from all over the grid stand for all.
 * Multiples of the golden ratio spread evenly, and do not keep step with the grid's axes. */
static void sum_some(Counter *c, int64_t programs, int64_t n, int64_t *sum) {
  int64_t *row = new_row(c);
  memset(sum, 0, sizeof *sum * (size_t)c->width);
  for (int64_t i = 0; i < n; i++) {
    int64_t p = (int64_t)(((unsigned __int128)((uint64_t)i * 0x9E3779B97F4A7C15u) * (uint64_t)programs) >> 64);
    walk_program(c,
                 (int32_t[3]){(int32_t)(p % c->grid[0]), (int32_t)(p / c->grid[0] % c->grid[1]),
                              (int32_t)(p / c->grid[0] / c->grid[1])},
                 row);
    add_rows(c, sum, row, 1);
  }
  for (int i = 0; i < c->width; i++) sum[i] = (int64_t)((double)sum[i] / (double)n * (double)programs);
  c->out->sampled = true;
  drop_row(c, row);
}

static void walk_grid(Counter *c, int64_t *sum) {
  int32_t at[3] = {c->grid[0] - 1, c->grid[1] - 1, c->grid[2] - 1};
  int64_t programs = (int64_t)c->grid[0] * c->grid[1] * c->grid[2], most;
  c->program_limit = PROGRAM_STEPS;
  walk_program(c, (int32_t[3]){0}, sum);
  most = c->steps;
  if (!c->out->cut) walk_program(c, at, sum); /* a triangular loop is longer at the end */
  if (c->steps - most > most) most = c->steps - most;
  if (c->out->cut) c->program_limit = BEGINNING, c->longest_steps = 0;
  bool all = most <= ALL_STEPS / programs;
  c->steps = 0, c->budget = SOME_STEPS;
  c->out->walked = 0;
  c->out->cut = false;
  if (all || !c->has_read) sum_axis(c, 2, at, sum, all);
  else sum_some(c, programs, SOME_STEPS / most > WINDOW ? SOME_STEPS / most : WINDOW, sum);
}

/* ---- what the row says ------------------------------------------------------------------------------------------- */

static const BlockRow *budget_of(const Counter *c, const LaneOp *op) { return map_get(c->block_rows, op->block); }

typedef struct Totals {
  Counter *c;
  const int64_t *sum;
} Totals;

static void count_op(LaneOp *op, void *arg) {
  Totals *t = arg;
  GpuReport *r = t->c->out;
  const BlockRow *block = budget_of(t->c, op);
  int64_t n = gpu_op_instructions(op);
  r->classes[gpu_op_class(op)] += n * t->sum[block->at];
  r->instructions += n * t->sum[block->at];
  r->threads += n * t->sum[block->at + 1];
  if (map_get(t->c->slice->unknown, op)) r->data = true;
}

static double entered(void *arg, const LaneBlock *b) {
  const Totals *t = arg;
  const BlockRow *block = map_get(t->c->block_rows, b);
  return (double)t->sum[block->at];
}

static bool in_loop(const LaneOp *op) {
  for (const LaneOp *p = op->block->parent; p; p = p->block->parent)
    if (p->code == LANE_FOR || p->code == LANE_WHILE) return true;
  return false;
}

static int line_of(const Span *s) { return s && s->source ? s->line : INT32_MAX; }

static bool same_place(const GpuAccess *a, const GpuAccess *b) {
  bool line = a->span == b->span ||
              (a->span && b->span && a->span->source == b->span->source && a->span->line == b->span->line);
  return line && a->op->code == b->op->code && a->bytes == b->bytes && a->shared == b->shared &&
         a->masked == b->masked && a->in_loop == b->in_loop && a->known == b->known &&
         (!a->shared || a->op->buffer == b->op->buffer);
}

static int by_place(const void *x, const void *y) {
  const GpuAccess *a = x, *b = y;
  if (a->shared != b->shared) return a->shared ? 1 : -1;
  if (line_of(a->span) != line_of(b->span)) return line_of(a->span) < line_of(b->span) ? -1 : 1;
  if (a->op->code != b->op->code) return (int)a->op->code - (int)b->op->code;
  return (a->count < b->count) - (a->count > b->count);
}

static void add_access(GpuReport *r, const GpuAccess *a) {
  int k = 0;
  while (k < r->access_count && !same_place(&r->accesses[k], a)) k++;
  if (k == r->access_count) {
    r->accesses[r->access_count++] = *a;
    return;
  }
  GpuAccess *to = &r->accesses[k];
  to->count++;
  to->requests += a->requests, to->lanes += a->lanes, to->sectors += a->sectors, to->ideal_sectors += a->ideal_sectors;
  to->wavefronts += a->wavefronts, to->ideal_wavefronts += a->ideal_wavefronts;
}

static void put_accesses(Counter *c, const int64_t *sum) {
  GpuReport *r = c->out;
  r->accesses = NEW_N(c->arena, GpuAccess, c->sites.n + c->products.n + 1);
  for (int i = 0; i < c->sites.n; i++) {
    const Site *s = &c->sites.at[i];
    const LaneOp *op = s->op;
    const int64_t *n = sum + s->at;
    bool shared = s->shared;
    GpuAccess a = {.span = op->span,
                   .op = op,
                   .count = 1,
                   .bytes = s->bytes,
                   .shared = shared,
                   .masked = op->guard != NULL,
                   .in_loop = in_loop(op),
                   .known = !map_get(c->slice->unknown, op),
                   .requests = n[REQUESTS],
                   .lanes = n[LANES]};
    if (shared) a.wavefronts = n[NEEDS], a.ideal_wavefronts = n[IDEAL];
    else a.sectors = n[NEEDS], a.ideal_sectors = n[IDEAL];
    add_access(r, &a);
  }
  for (int i = 0; i < c->products.n; i++) {
    const LaneOp *op = c->products.at[i];
    int warps = op->code == LANE_WGMMA ? GROUP_WARPS : 1; /* that issue it */
    int64_t times = sum[budget_of(c, op)->at] / warps, passes = gpu_product_bytes(op) / GPU_L1_BYTES * times;
    GpuAccess a = {.span = op->span,
                   .op = op,
                   .count = 1,
                   .bytes = gpu_product_bytes(op) / (32 * warps), /* a thread's share */
                   .shared = true,
                   .in_loop = in_loop(op),
                   .known = !map_get(c->slice->unknown, op),
                   .requests = times,
                   .lanes = 32 * warps * times,
                   .wavefronts = passes,
                   .ideal_wavefronts = passes};
    add_access(r, &a);
  }
  qsort(r->accesses, (size_t)r->access_count, sizeof *r->accesses, by_place);
}

/* ---- what memory must give and take ------------------------------------------------------------------------------ */

typedef struct Region {
  uint64_t low, high;
  int64_t bytes;
  bool any;
} Region; /* of one parameter's array */

static int64_t least_bytes(const Region *r, int n) {
  int64_t sum = 0;
  for (int i = 0; i <= n; i++) { /* the last: of no parameter */
    int64_t span = i < n && r[i].any ? (int64_t)(r[i].high - r[i].low) : INT64_MAX;
    sum += span < r[i].bytes ? span : r[i].bytes;
  }
  return sum;
}

/* Each sector once, if nothing of it is in a cache: at most those from the first to the last of an array, and no more
 * than are asked for. */
static void put_memory(Counter *c, const int64_t *sum) {
  int n = c->f->param_count;
  Region *loads = NEW_N(c->arena, Region, n + 1), *stores = NEW_N(c->arena, Region, n + 1);
  for (int i = 0; i < c->sites.n; i++) {
    const Site *s = &c->sites.at[i];
    if (s->shared || !sum[s->at + REQUESTS]) continue;
    bool copy = s->op->code == LANE_CP_ASYNC;
    const LaneValue *pointer = s->op->in[copy];
    int base = c->slice->data[pointer->id] ? -1 : gpu_base_param(pointer);
    for (int which = 0; which < 2; which++) {
      if (which ? copy || s->op->code == LANE_LD : s->op->code == LANE_ST) continue;
      Region *r = (which ? stores : loads) + (base >= 0 && base < n ? base : n);
      uint64_t low = s->low / 32 * 32, high = (s->high + (uint64_t)s->bytes + 31) / 32 * 32;
      r->low = r->any && r->low < low ? r->low : low;
      r->high = r->any && r->high > high ? r->high : high;
      r->bytes += sum[s->at + NEEDS] * 32;
      r->any = true;
    }
  }
  c->out->memory_loads = least_bytes(loads, n), c->out->memory_stores = least_bytes(stores, n);
}

GpuReport *gpu_report(LaneFunc *f, const uint64_t *args, const HostArray *contents, const int32_t grid[3]) {
  Arena *a = f->cx->arena;
  if (!contents) contents = NEW_N(a, HostArray, f->param_count + 1);
  Counter c = {.f = f,
               .arena = a,
               .slice = gpu_slice(f, contents),
               .args = args,
               .contents = contents,
               .grid = grid,
               .block_rows = map_create(a, false),
               .out = NEW(a, GpuReport)};
  BlockRow *whole = NEW(a, BlockRow);
  map_put(c.block_rows, f->body, whole);
  c.width = 2;
  lane_walk(f->body, number_op, &c);
  c.splits = c.width++;
  for (int i = c.sites.n - 1; i >= 0; i--) ((LaneOp *)c.sites.at[i].op)->note = &c.sites.at[i];
  c.hook = (LaneTraceHook){.values = c.slice->values,
                           .buffers = c.slice->buffers,
                           .enter = enter,
                           .split = split,
                           .access = access,
                           .read = read_known,
                           .arg = &c};
  c.sim_options = (LaneSimOptions){.grid = grid, .hook = &c.hook};
  c.sim = lane_sim_prepare(f->cx, f, args, &c.sim_options, &c.fault);
  int64_t *sum = new_row(&c);
  c.longest = new_row(&c);
  if (grid[0] && grid[1] && grid[2]) walk_grid(&c, sum);
  Totals t = {&c, sum}, longest = {&c, c.longest};
  lane_walk(f->body, count_op, &t);
  c.out->classes[GC_CONTROL] += GPU_FRAME * sum[whole->at];
  c.out->instructions += GPU_FRAME * sum[whole->at];
  c.out->threads += GPU_FRAME * sum[whole->at + 1];
  c.out->splits = sum[c.splits];
  c.out->block_cycles = gpu_block_cycles(f, entered, &t);
  c.out->longest_cycles = gpu_block_cycles(f, entered, &longest);
  put_accesses(&c, sum);
  put_memory(&c, sum);
  return c.out;
}
