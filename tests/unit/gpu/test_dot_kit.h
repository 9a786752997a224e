/* What the tests of products and of asynchronous copies share: a kernel's text (or a file of kernels/), compiled for a
 * target and run by the simulator of lane IR on arrays whose ends are guarded. Arrays hold quarters from -2 to 2, so
 * that sums of their products are exact in f32, in any order: what a kernel leaves is compared bit for bit with a
 * reference in float64. */
#ifndef TEST_DOT_KIT_H
#define TEST_DOT_KIT_H

#include "front/front.h"
#include "gpu/gpu.h"
#include "gpu/launch_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef KERNELS_DIR
#define KERNELS_DIR "kernels"
#endif
#define HEAD "import triton\nimport triton.language as tl\n"

enum { DOT_ARGS = 24 };

typedef struct DotArg {
  ArgSpec spec;
  int64_t count; /* of an array's elements */
  void *memory, *data;
  double *values; /* what the elements are */
  uint64_t bits;  /* of a number */
  char text[24];  /* of a constexpr */
} DotArg;

typedef struct DotCase {
  const char *text, *file, *kernel; /* text: its last kernel; or a file of kernels/ and a kernel of it */
  const char *target;
  int warps, stages, ctas; /* ctas: 0: one */
  int32_t grid[3];
  bool no_wgmma, persist, specialize;
  int64_t blocks;  /* of a persistent kernel */
  int64_t without; /* bits of gpu_without() */
  DotArg args[DOT_ARGS];
  int arg_count;
  Context *cx;
  Compiled *compiled;
  LaneFunc *lane;
} DotCase;

static inline DotCase dot_case(const char *text, const char *target, int warps, int stages) {
  return (DotCase){.text = text, .target = target, .warps = warps, .stages = stages, .grid = {1, 1, 1}};
}

static inline void dot_store(DotArg *a, int64_t i, double v) {
  char *at = (char *)a->data + i * dtype_bytes(a->spec.dtype);
  dtype_store_float(a->spec.dtype, at, v);
  a->values[i] = dtype_load_float(a->spec.dtype, at);
}

static inline double dot_random(uint64_t *state) {
  uint64_t x = *state += 0x9E3779B97F4A7C15ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
  return ((double)((x ^ x >> 31) % 17) - 8) / 4;
}

/* An array of floats that begins `shift` elements after a multiple of 64 bytes. */
static inline DotArg *dot_array_at(DotCase *c, Dtype t, int64_t count, int shift) {
  DotArg *a = &c->args[c->arg_count++];
  size_t bytes = (size_t)(count + shift + 64) * (size_t)dtype_bytes(t);
  *a = (DotArg){.spec = {.kind = ARG_POINTER, .dtype = t, .aligned = shift * dtype_bytes(t) % 16 == 0}, .count = count};
  a->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  a->data = (char *)a->memory + shift * dtype_bytes(t);
  a->values = calloc((size_t)count + 1, sizeof *a->values);
  assert_true(a->memory && a->values);
  uint64_t seed = (uint64_t)c->arg_count;
  for (int64_t i = 0; i < count; i++) dot_store(a, i, dot_random(&seed));
  return a;
}

static inline DotArg *dot_array(DotCase *c, Dtype t, int64_t count) { return dot_array_at(c, t, count, 0); }

/* Specialised as a launch does it: one is a constant, multiples of 16 are known to be such. */
static inline void dot_int(DotCase *c, int64_t v) {
  c->args[c->arg_count++] = (DotArg){.spec = {.kind = ARG_INT, .has_value = true, .int_value = v}, .bits = (uint64_t)v};
}

static inline void dot_i64(DotCase *c, int64_t v) {
  c->args[c->arg_count++] =
      (DotArg){.spec = {.kind = ARG_INT, .dtype = DT_I64, .has_dtype = true}, .bits = (uint64_t)v};
}

static inline void dot_float(DotCase *c, double v) {
  float f = (float)v;
  DotArg *a = &c->args[c->arg_count++];
  *a = (DotArg){.spec = {.kind = ARG_FLOAT, .float_value = v}};
  memcpy(&a->bits, &f, sizeof f);
}

static inline void dot_const(DotCase *c, int64_t v) {
  DotArg *a = &c->args[c->arg_count++];
  *a = (DotArg){.spec = {.kind = ARG_CONSTEXPR}};
  snprintf(a->text, sizeof a->text, "%lld", (long long)v);
}

static inline void dot_free(DotCase *c) {
  for (int i = 0; i < c->arg_count; i++) free(c->args[i].memory), free(c->args[i].values);
  if (c->cx) context_destroy(c->cx);
}

/* Leaves the lane IR; a kernel that does not compile fails the test. */
static inline void dot_compile(DotCase *c) {
  Context *cx = c->cx = context_create();
  LaneFunc *volatile lane = NULL;
  if (context_try(cx)) {
    Module *m = c->file ? front_load_file(cx, arena_printf(cx->arena, KERNELS_DIR "/%s", c->file))
                        : front_load_text(cx, "k.py", c->text, strlen(c->text));
    Kernel *k = c->kernel ? front_kernel(m, c->kernel) : front_kernel_at(m, front_kernel_count(m) - 1);
    ArgSpec specs[DOT_ARGS];
    assert_int_equal(kernel_param_count(k), c->arg_count);
    for (int i = 0; i < c->arg_count; i++) {
      specs[i] = c->args[i].spec;
      if (specs[i].kind == ARG_CONSTEXPR) specs[i].text = c->args[i].text;
    }
    c->compiled = front_compile(m, k, specs,
                                &(CompileOptions){.num_warps = c->warps, .num_stages = c->stages, .num_ctas = c->ctas});
    tile_optimize(c->compiled->func, NULL, NULL, true);
    GpuOptions o = {.target = gpu_target_find(c->target),
                    .verify = true,
                    .no_wgmma = c->no_wgmma,
                    .persist = c->persist,
                    .specialize = c->specialize,
                    .tensor_maps = true,
                    .apart = true,
                    .without = c->without};
    lane = gpu_compile(c->compiled->func, &o);
    context_end_try(cx);
  }
  c->lane = lane;
  if (lane) return;
  Buf said = {0};
  diags_print(&said, cx, false);
  fail_msg("%s, %d warps, %d stages, %s: %s", c->text ? c->text : c->kernel, c->warps, c->stages, c->target, said.at);
}

static inline bool dot_in_bounds(void *arg, uint64_t address, int bytes, bool write) {
  const DotCase *c = arg;
  for (int i = 0; i < c->arg_count; i++) {
    uint64_t at = (uint64_t)(uintptr_t)c->args[i].data;
    if (at && address >= at &&
        address + (uint64_t)bytes <= at + (uint64_t)(c->args[i].count * dtype_bytes(c->args[i].spec.dtype)))
      return true;
  }
  return false;
}

/* False: the simulator found a fault. */
typedef struct DotMap {
  _Alignas(GPU_MAP_ALIGN) char bytes[GPU_MAP_BYTES];
} DotMap;

/* Where the launch plan does not fit the arguments, the kernel is compiled anew, without what it lacks. */
static inline bool dot_simulate(DotCase *c, uint64_t seed, LaneSimFault *fault) {
  uint64_t slots[DOT_ARGS + 3 + GPU_PLAN_MAPS] = {0};
  for (int i = 0; i < c->compiled->slot_count; i++) {
    const DotArg *a = &c->args[c->compiled->slots[i].param];
    slots[i] = a->data ? (uint64_t)(uintptr_t)a->data : a->bits;
  }
  *fault = (LaneSimFault){{0}};
  gpu_put_grid(c->lane, c->grid, slots);
  DotMap maps[GPU_PLAN_MAPS] = {{{0}}};
  if (c->lane->plan) { /* each in 128 bytes, as a launch passes it */
    GpuTensorMap made[GPU_PLAN_MAPS];
    const char *wrong;
    GpuPlanFit fit = gpu_plan_maps(c->lane->plan, slots, c->grid, made);
    if (fit) {
      context_destroy(c->cx);
      c->without |= gpu_without(gpu_plan_lacks(fit), &wrong);
      dot_compile(c);
      return dot_simulate(c, seed, fault);
    }
    for (int i = 0; i < c->lane->maps; i++) {
      memcpy(maps[i].bytes, &made[i], sizeof made[i]);
      slots[c->lane->param_count - c->lane->maps + i] = (uint64_t)(uintptr_t)maps[i].bytes;
    }
  }
  if (!c->lane->persistent) c->blocks = 0;
  int64_t programs = (int64_t)c->grid[0] * c->grid[1] * c->grid[2], blocks = c->blocks ? c->blocks : programs;
  int cluster = gpu_plan_cluster(c->lane->cluster, c->grid, &blocks);
  LaneSimOptions o = {.grid = c->grid,
                      .end = c->blocks ? blocks : programs,
                      .blocks = c->blocks ? blocks : 0,
                      .cluster = cluster,
                      .seed = seed,
                      .check = dot_in_bounds,
                      .check_arg = c};
  return lane_sim_run(c->lane, slots, &o, fault);
}

static inline void dot_read_back(DotArg *a) {
  for (int64_t i = 0; i < a->count; i++)
    a->values[i] = dtype_load_float(a->spec.dtype, (char *)a->data + i * dtype_bytes(a->spec.dtype));
}

static inline void dot_show(const LaneFunc *f) {
  Buf b = {0};
  lane_print(&b, f, false);
  print_error("%s\n", b.at ? b.at : "");
  buf_destroy(&b);
}

/* Compiles and runs; a fault fails the test. `what` says which case it is. */
static inline void dot_run(DotCase *c, const char *what) {
  LaneSimFault fault;
  if (!c->lane) dot_compile(c);
  if (!dot_simulate(c, 1, &fault))
    fail_msg("%s, %d warps, %d stages, %s: %s", what, c->warps, c->stages, c->target, fault.message);
  for (int i = 0; i < c->arg_count; i++)
    if (c->args[i].data) dot_read_back(&c->args[i]);
}

/* ---- what a kernel is made of ------------------------------------------------------------------------------------ */

typedef struct DotCount {
  int wgmma, tmem, from_registers, from_zero, mma, copies[17], tensors, waits, products_at_once,
      sums; /* from_zero: wgmmas that add to nothing; copies: by bytes; at_once: most pending groups; sums: most
             * registers of a wgmma's accumulator */
} DotCount;

static inline void dot_count_op(LaneOp *op, void *arg) {
  DotCount *n = arg;
  switch (op->code) {
    case LANE_WGMMA:
      n->wgmma++, n->from_registers += lane_wgmma_inputs(op) == 5;
      n->from_zero += op->in_count == lane_wgmma_inputs(op);
      if (op->out_count > n->sums) n->sums = op->out_count;
      break;
    case LANE_MMA: n->mma++; break;
    case LANE_TMEM_MMA: n->tmem++; break;
    case LANE_CP_ASYNC: n->copies[op->bits / 8]++, n->copies[0]++; break;
    case LANE_TENSOR_LOAD: n->tensors++, n->copies[16]++, n->copies[0]++; break;
    case LANE_WGMMA_WAIT:
      n->waits++;
      if (op->imm > n->products_at_once) n->products_at_once = (int)op->imm;
      break;
    default: break;
  }
}

static inline DotCount dot_count(const DotCase *c) {
  DotCount n = {0};
  lane_walk(c->lane->body, dot_count_op, &n);
  return n;
}

#endif
