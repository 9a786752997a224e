/* How long a block takes when nothing but waiting holds it up: the longest chain of operations of which each needs the
 * one before.
 *
 * Each value is ready some cycles after the last of its operands. Operations that do not depend on each other overlap,
 * as ptxas arranges them, but for two things. What comes after a barrier begins when all accesses to shared memory
 * before it are done. And a warp issues its instructions in order: an iteration of a loop begins when the last
 * instruction of the iteration before has its operands. Of a loop two iterations are gone through; what the second adds
 * to the first, every further one adds. A warp issues one instruction a cycle, so it takes as many at least.
 *
 * Asynchronous copies and products go on by themselves: who waits for their group begins when it is done. A
 * warpgroup's product takes the tensor cores as long as its multiply-adds do, after those before it.
 *
 *     x = load(p); y = load(p + x); z = x * 2 + y        600 + 600 + 4: the second load waits for the first
 *
 * Latencies are round numbers of what microbenchmarks find on sm_80 to sm_90; a load counts as one from memory.
 */
#include "gpu/report/counts.h"

enum { GROUPS = 8 }; /* that are looked back to */

/* Groups of copies or of products of a warp that go on by themselves: when the last ones are done, the last one first,
 * and what is in none yet. */
typedef struct Groups {
  double done[GROUPS], open;
} Groups;

typedef struct Path {
  GpuEntered entered;
  void *arg;
  Arena *arena;
  double *ready;       /* by value id */
  double barrier;      /* what comes now begins no sooner */
  double begun;        /* when the last instruction so far has its operands */
  double shared, last; /* when all accesses to shared memory, and everything, is done so far */
  double issued;       /* instructions of one warp so far */
  Groups copies, products;
  double tensor; /* when the tensor cores have done all products so far */
} Path;

static int latency(const LaneOp *op) {
  int n = gpu_op_instructions(op);
  switch (gpu_op_class(op)) {
    case GC_LOAD_GLOBAL: return 600;
    case GC_COPY: return 0;         /* whoever waits for it */
    case GC_STORE_GLOBAL: return 0; /* nobody waits for it */
    case GC_LOAD_SHARED: return 30;
    case GC_STORE_SHARED: return 20;
    case GC_ATOMIC: return op->space == SPACE_SHARED ? 60 : 600;
    case GC_SHUFFLE: return 24;
    case GC_TENSOR: return 32;
    case GC_BARRIER:
    case GC_ASM: return 20;
    case GC_SPECIAL: return 16 + 4 * n;
    case GC_FP64: return 8 * n;
    default: return 4 * n;
  }
}

static void go(Path *p, const LaneBlock *b);

static double ready(const Path *p, const LaneValue *v) {
  return p->ready[v->id] > p->barrier ? p->ready[v->id] : p->barrier;
}

static void set(Path *p, const LaneValue *v, double t) {
  p->ready[v->id] = t;
  if (t > p->last) p->last = t;
}

/* What the end of a body hands on, from its operand `first` on; all at once, for it may exchange them. */
static void hand_on(Path *p, const LaneBlock *body, int first, LaneValue *const *to) {
  const LaneOp *end = body->last;
  double at[end->in_count + 1];
  for (int i = first; i < end->in_count; i++) at[i] = ready(p, end->in[i]);
  for (int i = first; i < end->in_count; i++) set(p, to[i - first], at[i]);
}

static void commit(Groups *g) {
  memmove(g->done + 1, g->done, sizeof g->done - sizeof *g->done);
  g->done[0] = g->open > g->done[1] ? g->open : g->done[1];
  g->open = 0;
}

static double done(const Groups *g, int64_t pending) { return pending < GROUPS ? g->done[pending] : 0; }

static void move_on(Groups *g, const Groups *before, double iterations) {
  for (int i = 0; i < GROUPS; i++) g->done[i] += (g->done[i] - before->done[i]) * iterations;
}

/* What goes on by itself, and waits for it; t: when the operation's operands are there. */
static void go_async(Path *p, const LaneOp *op, double t) {
  /* latencies; multiply-adds a cycle of a multiprocessor */
  enum { COPY = 600, PRODUCT = 32, RATE = 2048, TMEM_RATE = 4096 };
  double until = 0;
  switch (op->code) {
    case LANE_CP_ASYNC:
      if (t + COPY > p->copies.open) p->copies.open = t + COPY;
      break;
    case LANE_WGMMA:
      p->tensor = (t > p->tensor ? t : p->tensor) + 64.0 * 16 * 2 * op->out_count / RATE;
      p->products.open = p->tensor + PRODUCT;
      for (int i = 0; i < op->out_count; i++) set(p, op->out[i], t); /* the next one waits for the tensor cores alone */
      break;
    case LANE_TMEM_MMA:
      p->tensor = (t > p->tensor ? t : p->tensor) + (double)op->rows * 16 * op->columns / TMEM_RATE;
      p->products.open = p->tensor + PRODUCT;
      break;
    case LANE_TMEM_LD:
      until = p->products.open;
      for (int i = 0; i < op->out_count; i++) set(p, op->out[i], t > until ? t : until);
      break;
    case LANE_CP_COMMIT: commit(&p->copies); break;
    case LANE_WGMMA_COMMIT: commit(&p->products); break;
    case LANE_CP_WAIT: until = done(&p->copies, op->imm); break;
    case LANE_WGMMA_WAIT: until = done(&p->products, op->imm); break;
    default: break;
  }
  if (until > p->barrier) p->barrier = until;
  if (op->code == LANE_WGMMA_WAIT)
    for (int i = 0; i < op->out_count; i++) set(p, op->out[i], t > until ? t : until);
  if (until > p->last) p->last = until;
}

static bool is_async(const LaneOp *op) {
  switch (op->code) {
    case LANE_CP_ASYNC:
    case LANE_CP_COMMIT:
    case LANE_CP_WAIT:
    case LANE_TMEM_MMA:
    case LANE_TMEM_LD:
    case LANE_WGMMA:
    case LANE_WGMMA_COMMIT:
    case LANE_WGMMA_WAIT: return true;
    default: return false;
  }
}

static void go_iteration(Path *p, const LaneOp *op) {
  go(p, op->body[0]);
  if (op->code == LANE_FOR) {
    hand_on(p, op->body[0], 0, op->body[0]->args + 1);
  } else {
    hand_on(p, op->body[0], 1, op->body[1]->args);
    go(p, op->body[1]);
    hand_on(p, op->body[1], 0, op->body[0]->args);
  }
  if (p->begun > p->barrier) p->barrier = p->begun;
}

/* As many iterations more as the one before: everything moves on by what that one added. */
static void repeat(Path *p, const LaneOp *op, const Path *before, const double *args, double iterations) {
  const LaneBlock *b = op->body[0];
  p->barrier += (p->barrier - before->barrier) * iterations;
  p->begun += (p->begun - before->begun) * iterations;
  p->shared += (p->shared - before->shared) * iterations;
  p->last += (p->last - before->last) * iterations;
  p->issued += (p->issued - before->issued) * iterations;
  p->tensor += (p->tensor - before->tensor) * iterations;
  move_on(&p->copies, &before->copies, iterations);
  move_on(&p->products, &before->products, iterations);
  for (int i = 0; i < b->arg_count; i++)
    set(p, b->args[i], p->ready[b->args[i]->id] + (p->ready[b->args[i]->id] - args[i]) * iterations);
}

static void go_loop(Path *p, const LaneOp *op, double iterations) {
  const LaneBlock *b = op->body[0];
  int first = op->code == LANE_FOR ? 3 : 0, induction = first ? 1 : 0;
  double args[b->arg_count + 1];
  for (int i = 0; i + induction < b->arg_count; i++) set(p, b->args[i + induction], ready(p, op->in[first + i]));
  if (induction) set(p, b->args[0], ready(p, op->in[0]));
  if (iterations > 0) go_iteration(p, op);
  if (iterations > 1) {
    Path before = *p;
    for (int i = 0; i < b->arg_count; i++) args[i] = p->ready[b->args[i]->id];
    go_iteration(p, op);
    repeat(p, op, &before, args, iterations - 2 > 0 ? iterations - 2 : 0);
  }
  for (int i = 0; i < op->out_count; i++) {
    const LaneValue *from = op->code == LANE_FOR ? b->args[i + 1]
                            : iterations > 0     ? op->body[1]->args[i]
                                                 : b->args[i < b->arg_count ? i : 0];
    set(p, op->out[i], p->ready[from->id]);
  }
}

static void go_if(Path *p, const LaneOp *op) {
  for (int i = 0; i < op->out_count; i++) set(p, op->out[i], ready(p, op->in[0]));
  for (int b = 0; b < 2; b++) {
    if (!op->body[b] || p->entered(p->arg, op->body[b]) <= 0) continue;
    go(p, op->body[b]);
    const LaneOp *end = op->body[b]->last;
    for (int i = 0; i < op->out_count; i++)
      if (ready(p, end->in[i]) > p->ready[op->out[i]->id]) set(p, op->out[i], ready(p, end->in[i]));
  }
}

static void go(Path *p, const LaneBlock *b) {
  stack_guard();
  double times = p->entered(p->arg, b);
  for (const LaneOp *op = b->first; op; op = op->next) {
    p->issued += gpu_op_instructions(op);
    if (op->code == LANE_IF) {
      go_if(p, op);
    } else if (op->body[0]) {
      const LaneBlock *body = op->body[op->code == LANE_WHILE ? 1 : 0];
      go_loop(p, op, times > 0 ? p->entered(p->arg, body) / times : 0);
    } else {
      double t = p->barrier;
      for (int i = 0; i < op->in_count; i++)
        if (p->ready[op->in[i]->id] > t) t = p->ready[op->in[i]->id];
      if (op->guard && p->ready[op->guard->id] > t) t = p->ready[op->guard->id];
      if (op->code == LANE_BARRIER && p->shared > t) t = p->shared;
      if (t > p->begun) p->begun = t;
      if (is_async(op)) {
        go_async(p, op, t);
        continue;
      }
      t += latency(op);
      bool touches = op->space == SPACE_SHARED && lane_is_access(op->code);
      if (touches && t > p->shared) p->shared = t;
      if (op->code == LANE_BARRIER) p->barrier = t;
      for (int i = 0; i < op->out_count; i++) set(p, op->out[i], t);
      if (t > p->last) p->last = t;
    }
  }
}

double gpu_block_cycles(const LaneFunc *f, GpuEntered entered, void *arg) {
  Arena *a = f->cx->arena;
  Path p = {.entered = entered, .arg = arg, .arena = a, .ready = NEW_N(a, double, f->value_count + 1)};
  go(&p, f->body);
  return p.last > p.issued ? p.last : p.issued;
}
