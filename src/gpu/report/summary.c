/* What a person wants to know of a kernel first, before any listing:
 *
 *     softmax for sm_90a: 4 warps of 32 threads a block
 *     registers 40 a thread, nothing spilled
 *     shared memory 64 bytes a block: reduce 16 at 0, reduce 16 at 16
 *     barriers 2 of the block, 0 of a warp; 20 shuffles
 *     global memory, each thread:
 *       line  access   count  bytes  remarks
 *         12  load         2     16  masked               x = tl.load(x_ptr + offsets, mask=mask)
 *         19  store        2     16  masked .cs           tl.store(out_ptr + offsets, y, mask=mask)
 *
 * Accesses of one source line that are alike share a row; those in a loop say so, since they count once an iteration.
 */
#include <stdlib.h>

#include "gpu/gpu.h"
#include "gpu/launch_plan.h"

typedef struct Row {
  const Span *span;
  LaneCode code;
  int count, bytes;
  bool masked, in_loop, is_volatile, result;
  uint8_t cache, evict, rmw;
} Row;

typedef struct Summary {
  Context *cx;
  const LaneFunc *f;
  VEC(Row) rows;
  int group_products, group_columns;                          /* of warpgroups; the widest one's */
  int tmem_products, tmem_rows, tmem_columns, tmem_allocated; /* likewise, of those that add to tensor memory */
  int warps, copying_warps;
  int block_barriers, warp_barriers, shuffles, products, shared_loads, shared_stores, asms;
} Summary;

static const LaneOp *loop_of(const LaneOp *op) {
  const LaneOp *p = op->block->parent;
  while (p && p->code != LANE_FOR && p->code != LANE_WHILE) p = p->block->parent;
  return p;
}

/* Of a copy by a tensor map, which is a parameter of the kernel. */
static int box_bytes(const LaneFunc *f, const LaneOp *op) {
  const LaneValue *map = op->in[op->code == LANE_TENSOR_LOAD ? 2 : 1];
  int number = map->def ? (int)map->def->imm : map->index, first = f->param_count - f->maps, bytes;
  if (!f->plan || number < first || number - first >= f->plan->map_count) return 0;
  const GpuMapPlan *m = &f->plan->maps[number - first];
  bytes = dtype_bytes(m->dtype);
  for (int i = 0; i < m->rank; i++) bytes *= m->box[i];
  return bytes;
}

static int access_bytes(const LaneFunc *f, const LaneOp *op) {
  if (op->code == LANE_CP_ASYNC) return op->bits / 8;
  if (op->code == LANE_TENSOR_LOAD || op->code == LANE_TENSOR_STORE) return box_bytes(f, op);
  int n = op->code == LANE_LD ? op->out_count : op->code == LANE_ATOM && op->rmw == RMW_CAS ? 1 : op->in_count - 1;
  return n * lane_kind_info[op->kind].bits / 8;
}

static bool same_line(const Span *a, const Span *b) {
  return a == b || (a && b && a->source == b->source && a->line == b->line);
}

static void count_op(LaneOp *op, void *arg) {
  Summary *s = arg;
  switch (op->code) {
    case LANE_BARRIER: ++*(op->warp ? &s->warp_barriers : &s->block_barriers); return;
    case LANE_IF:
      if (op->warps) s->copying_warps = s->warps - op->warps;
      return;
    case LANE_SHFL: s->shuffles++; return;
    case LANE_MMA: s->products++; return;
    case LANE_WGMMA:
      s->group_products++;
      if (2 * op->out_count > s->group_columns) s->group_columns = 2 * op->out_count;
      return;
    case LANE_TMEM_MMA:
      s->tmem_products++;
      if (op->rows > s->tmem_rows) s->tmem_rows = op->rows;
      if (op->columns > s->tmem_columns) s->tmem_columns = op->columns;
      return;
    case LANE_TMEM_ALLOC: s->tmem_allocated = op->columns; return;
    case LANE_LDMATRIX: s->shared_loads++; return;
    case LANE_STMATRIX: s->shared_stores++; return;
    case LANE_ASM: s->asms++; return;
    case LANE_LD:
    case LANE_ST:
    case LANE_CP_ASYNC:
    case LANE_TENSOR_LOAD:
    case LANE_TENSOR_STORE:
    case LANE_ATOM: break;
    default: return;
  }
  if (op->space == SPACE_SHARED && op->code != LANE_CP_ASYNC && !lane_is_tensor(op->code)) {
    ++*(op->code == LANE_LD ? &s->shared_loads : &s->shared_stores);
    return;
  }
  Row r = {.span = op->span,
           .code = op->code,
           .count = 1,
           .bytes = access_bytes(s->f, op),
           .masked = op->guard != NULL,
           .in_loop = loop_of(op) != NULL,
           .is_volatile = op->is_volatile,
           .cache = op->cache,
           .evict = op->evict,
           .rmw = op->code == LANE_ATOM ? op->rmw : 0,
           .result = op->out_count > 0};
  for (int i = s->rows.n - 1; i >= 0 && i >= s->rows.n - 8; i--) { /* alike ones come close together */
    Row *o = &s->rows.at[i];
    if (!same_line(o->span, r.span) || o->code != r.code || o->bytes != r.bytes || o->masked != r.masked ||
        o->in_loop != r.in_loop || o->is_volatile != r.is_volatile || o->cache != r.cache || o->evict != r.evict ||
        o->rmw != r.rmw || o->result != r.result)
      continue;
    o->count++;
    return;
  }
  vec_push(s->cx->arena, &s->rows, r);
}

static void put_source(Buf *out, const Span *span) {
  if (!span || !span->source || span->line < 1 || span->line > span->source->line_count) return;
  const char *text = span->source->text + span->source->line_start[span->line - 1];
  text += strspn(text, " \t");
  int n = (int)strcspn(text, "\r\n");
  buf_printf(out, "%.*s", n > 100 ? 100 : n, text);
}

static void put_row(Buf *out, const Row *r) {
  static const char *const caches[] = {"", " .ca", " .cg", " .cs", " .cv", " .wb", " .wt"};
  static const char *const priorities[] = {"", " evict_first", " evict_last", " L2 last", " no L1"};
  static const char *const rmw[] = {"add", "max", "min", "and", "or", "xor", "xchg", "cas"};
  char remarks[64], what[16];
  snprintf(remarks, sizeof remarks, "%s%s%s%s%s%s",
           r->code == LANE_TENSOR_LOAD    ? " one thread"
           : r->code == LANE_TENSOR_STORE ? " a thread of each warp"
                                          : "",
           r->in_loop ? " in loop" : "", r->masked ? " masked" : "", r->is_volatile ? " volatile" : "",
           caches[r->cache], priorities[r->evict]);
  if (r->code == LANE_ATOM) snprintf(what, sizeof what, "%s %s", r->result ? "atom" : "red", rmw[r->rmw]);
  else
    snprintf(what, sizeof what, "%s",
             r->code == LANE_LD             ? "load"
             : r->code == LANE_ST           ? "store"
             : r->code == LANE_TENSOR_LOAD  ? "box"
             : r->code == LANE_TENSOR_STORE ? "store box"
                                            : "copy");
  Buf line = {0};
  buf_printf(&line, "  %4d  %-9s %5d  %5d  %-22s ", r->span && r->span->source ? r->span->line : 0, what, r->count,
             r->bytes, remarks[0] ? remarks + 1 : "");
  put_source(&line, r->span);
  while (line.n && line.at[line.n - 1] == ' ') line.n--;
  buf_write(out, line.at ? line.at : "", line.n);
  buf_putc(out, '\n');
  if (line.failed) out->failed = true;
  buf_destroy(&line);
}

/* In order of the source's lines; those without one last. */
static int by_line(const void *x, const void *y) {
  const Row *a = x, *b = y;
  int la = a->span && a->span->source ? a->span->line : INT32_MAX,
      lb = b->span && b->span->source ? b->span->line : INT32_MAX;
  return la != lb ? (la < lb ? -1 : 1) : (a->code > b->code) - (a->code < b->code);
}

static void put_shared(Buf *out, const LaneFunc *f) {
  buf_printf(out, "shared memory %d bytes a block", f->shared_bytes);
  int n = 0;
  for (int i = 0; i < f->buffers.n; i++)
    if (f->buffers.at[i].offset >= 0) {
      const LaneBuffer *b = &f->buffers.at[i];
      buf_printf(out, "%s%s %d at %d", n++ ? ", " : ": ", b->name ? b->name : "buffer", b->bytes, b->offset);
    }
  buf_putc(out, '\n');
}

/* ---- copies under way -------------------------------------------------------------------------------------------- */

typedef struct Flight {
  const LaneFunc *f;
  const LaneOp *loop;
  bool *copied; /* by buffer */
  int64_t pending;
  int most;
} Flight;

static void find_copies(LaneOp *op, void *arg) {
  Flight *f = arg;
  if (loop_of(op) != f->loop) return;
  if (op->code == LANE_CP_ASYNC) f->copied[op->buffer] = true;
  if (op->code == LANE_CP_WAIT && op->imm > f->pending) f->pending = op->imm;
}

/* A loop that leaves `pending` groups in flight issues one more. */
static void find_loops(LaneOp *op, void *arg) {
  Flight *f = arg;
  int bytes = 0;
  if (op->code != LANE_FOR && op->code != LANE_WHILE) return;
  memset(f->copied, 0, (size_t)f->f->buffers.n);
  f->loop = op;
  f->pending = -1;
  for (int i = 0; i < 2 && op->body[i]; i++) lane_walk(op->body[i], find_copies, f);
  for (int i = 0; i < f->f->buffers.n; i++) {
    const LaneBuffer *b = &f->f->buffers.at[i];
    if (f->copied[i] && b->ring) bytes += b->bytes / b->ring;
  }
  if ((f->pending + 1) * bytes > f->most) f->most = (int)(f->pending + 1) * bytes;
}

/* Of rings that tensor maps bring tiles to: what is asked for before a loop; all of it, where warps of their own ask.
 */
typedef struct Boxes {
  const LaneFunc *f;
  int *before;   /* by buffer: bytes */
  bool *brought; /* by buffer */
} Boxes;

static void find_loop(LaneOp *op, void *arg) { *(bool *)arg |= op->code == LANE_FOR; }

static void find_boxes(LaneOp *op, void *arg) {
  Boxes *b = arg;
  if (op->code != LANE_TENSOR_LOAD || op->buffer < 0) return;
  const LaneOp *loop = loop_of(op);
  bool holds_loop = false;
  if (loop) lane_walk(loop->body[0], find_loop, &holds_loop);
  b->brought[op->buffer] = true;
  if (!loop || holds_loop) b->before[op->buffer] += box_bytes(b->f, op);
}

static int boxes_in_flight(const LaneFunc *f) {
  Boxes b = {f, NEW_N(f->cx->arena, int, f->buffers.n + 1), NEW_N(f->cx->arena, bool, f->buffers.n + 1)};
  int bytes = 0;
  lane_walk(f->body, find_boxes, &b);
  for (int i = 0; i < f->buffers.n; i++)
    if (b.brought[i]) bytes += b.before[i] ? b.before[i] : f->buffers.at[i].bytes;
  return bytes;
}

int gpu_bytes_in_flight(const LaneFunc *func) {
  Flight f = {.f = func, .copied = NEW_N(func->cx->arena, bool, func->buffers.n + 1)};
  lane_walk(func->body, find_loops, &f);
  return f.most + boxes_in_flight(func);
}

static void put_rings(Buf *out, const LaneFunc *f) {
  int n = 0;
  for (int i = 0; i < f->buffers.n; i++) {
    const LaneBuffer *b = &f->buffers.at[i];
    if (b->ring)
      buf_printf(out, "%s of %d slots of %d bytes", n++ ? ", ring" : "asynchronous copies: ring", b->ring,
                 b->bytes / b->ring);
  }
  if (n) buf_printf(out, "; %d bytes in flight at most\n", gpu_bytes_in_flight(f));
  if (f->maps_missed)
    buf_printf(out, "%d tile%s by no tensor map: a kernel has %d at most\n", f->maps_missed,
               f->maps_missed == 1 ? " comes" : "s come", GPU_PLAN_MAPS);
  if (f->stages_missed) buf_printf(out, "num_stages is %d, for which there is no shared memory\n", f->stages_missed);
}

/* What blocks of a cluster share, by the multicasts. */
typedef struct Shared {
  const LaneFunc *f;
  Buf *out;
  int last; /* buffer that was named last */
  int n;
} Shared;

static void put_shared_ring(LaneOp *op, void *arg) {
  Shared *s = arg;
  if (op->code != LANE_TENSOR_LOAD || !op->multicast || op->buffer == s->last) return;
  const LaneBuffer *b = &s->f->buffers.at[op->buffer];
  buf_printf(s->out, "%s%d", s->n++ ? ", " : "", b->bytes / (b->ring ? b->ring : 1));
  s->last = op->buffer;
}

static void put_cluster(Buf *out, const LaneFunc *f) {
  Shared s = {f, out, -1, 0};
  if (f->unclustered) buf_printf(out, "no clusters: %s\n", f->unclustered);
  if (!f->cluster) return;
  buf_printf(out, "clusters of %d blocks, where the grid is a multiple of %d along x: they share tiles of ", f->cluster,
             f->cluster);
  lane_walk(f->body, put_shared_ring, &s);
  buf_puts(out, " bytes\n");
}

void gpu_summary(Buf *out, const LaneFunc *f, const GpuTarget *t, const GpuCubin *cubin) {
  Summary *s = NEW(f->cx->arena, Summary);
  s->cx = f->cx;
  s->f = f;
  s->warps = f->num_warps;
  lane_walk(f->body, count_op, s);
  buf_printf(out, "%s for %s: %d warp%s of 32 threads a block\n", f->name, t->name, f->num_warps,
             f->num_warps == 1 ? "" : "s");
  if (f->num_ctas > 1) buf_printf(out, "num_ctas is %d: one block does the work of a program\n", f->num_ctas);
  if (cubin) {
    buf_printf(out, "registers %d a thread, ", cubin->registers);
    if (cubin->spill_bytes) buf_printf(out, "%d bytes of spill stores and loads", cubin->spill_bytes);
    else buf_puts(out, "nothing spilled");
    if (cubin->stack_bytes) buf_printf(out, ", stack %d bytes", cubin->stack_bytes);
    buf_putc(out, '\n');
  } else {
    buf_puts(out, "registers not known: no ptxas was found\n");
  }
  put_shared(out, f);
  buf_printf(out, "barriers %d of the block, %d of a warp; %d shuffle%s", s->block_barriers, s->warp_barriers,
             s->shuffles, s->shuffles == 1 ? "" : "s");
  if (s->products) buf_printf(out, "; %d product%s on tensor cores", s->products, s->products == 1 ? "" : "s");
  if (s->group_products)
    buf_printf(out, "; %d product%s of warpgroups on tensor cores, of 64 by up to %d by 16", s->group_products,
               s->group_products == 1 ? "" : "s", s->group_columns);
  if (s->tmem_products)
    buf_printf(out, "; %d product%s to tensor memory, of %d by up to %d by 16", s->tmem_products,
               s->tmem_products == 1 ? "" : "s", s->tmem_rows, s->tmem_columns);
  buf_putc(out, '\n');
  if (f->unturned) buf_printf(out, "not by warpgroups: %s\n", f->unturned);
  if (s->tmem_allocated) buf_printf(out, "tensor memory %d of 512 columns\n", s->tmem_allocated);
  if (s->products && f->not_in_tmem) buf_printf(out, "not to tensor memory: %s\n", f->not_in_tmem);
  if (s->group_products && f->unspecialized) buf_printf(out, "not specialized: %s\n", f->unspecialized);
  if (f->apart) buf_printf(out, "for launches in which these lie apart: %s\n", f->apart);
  if (f->copied)
    buf_printf(out, "copied by a launch, where many programs read rows that do not begin at 16 bytes: %s\n", f->copied);
  if (s->copying_warps) buf_printf(out, "specialized: %d of the warps copy tiles\n", s->copying_warps);
  put_cluster(out, f);
  put_rings(out, f);
  if (s->rows.n) {
    buf_puts(out, "global memory, each thread:\n  line  access    count  bytes  remarks\n");
    qsort(s->rows.at, (size_t)s->rows.n, sizeof *s->rows.at, by_line);
    for (int i = 0; i < s->rows.n; i++) put_row(out, &s->rows.at[i]);
  } else {
    buf_puts(out, "global memory: not touched\n");
  }
  if (cubin && cubin->log && *cubin->log) buf_printf(out, "ptxas says:\n%s", cubin->log);
}
