/* The simulator's loads, stores and atomics, of global memory (this process's own) and of a block's shared memory. Each
 * is noted in the shadow (sim/shadow.c) before it is done. */
#include "gpu/sim/sim_plan.h"

typedef unsigned long long ull;

enum { MAX_ACCESS = 128 };

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Where the access goes; NULL after a fault. */
char *sim_reach(const SimAccess *a) {
  SimRun *r = a->r;
  const LaneOp *op = a->o->op;
  if (a->address % (uint64_t)a->bytes)
    return sim_fault(r, op, a->thread, "%s of %d bytes at address 0x%llx, which is not a multiple of %d",
                     a->write ? "a store" : "a load", a->bytes, (ull)a->address, a->bytes),
           NULL;
  if (op->space == SPACE_GLOBAL) {
    if (r->o->check && !r->o->check(r->o->check_arg, a->address, a->bytes, a->write))
      return sim_fault(r, op, a->thread, "%s of %d bytes at address 0x%llx, which is no memory of the kernel's",
                       a->write ? "a store" : "a load", a->bytes, (ull)a->address),
             NULL;
    return (char *)(uintptr_t)a->address;
  }
  uint64_t at = a->address - sim_shared_of(r, a->thread), end = at + (uint64_t)a->bytes;
  if (end > (uint64_t)r->plan->shared_bytes)
    return sim_fault(r, op, a->thread, "shared memory at byte %llu of %d", (ull)at, r->plan->shared_bytes), NULL;
  if (op->buffer >= 0 && op->buffer < r->plan->f->buffers.n) {
    uint64_t first = (uint64_t)r->plan->buffer_offset[op->buffer],
             bytes = (uint64_t)r->plan->f->buffers.at[op->buffer].bytes;
    if (at < first || end > first + bytes)
      return sim_fault(r, op, a->thread, "byte %lld of shared buffer '%s', which has %llu", (long long)(at - first),
                       sim_buffer_name(a), (ull)bytes),
             NULL;
  }
  return r->shared + a->address;
}

static bool begin(SimRun *r, const SimOp *o, int t, int elements, bool write, SimAccess *a) {
  const LaneOp *op = o->op;
  uint64_t base = sim_get(r, o->in[0], op->in[0]->type, t);
  *a = (SimAccess){.r = r, .o = o, .thread = t, .bytes = lane_kind_info[op->kind].bits / 8 * elements, .write = write};
  a->address = base + (uint64_t)op->imm;
  if (op->space == SPACE_SHARED) a->address = sim_shared_at(r, t, a->address);
  return (a->bytes > 0 && a->bytes <= MAX_ACCESS) || sim_fault(r, op, t, "an access of %d bytes", a->bytes);
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

static uint64_t read_bits(const char *p, int bits) {
  uint16_t v16;
  uint32_t v32;
  uint64_t v64;
  switch (bits) {
    case 8: return *(const uint8_t *)p;
    case 16: return memcpy(&v16, p, 2), v16;
    case 32: return memcpy(&v32, p, 4), v32;
    default: return memcpy(&v64, p, 8), v64;
  }
}

static uint64_t read_element(LaneKind k, const char *p) {
  switch (k) {
    case LK_PRED: return *(const uint8_t *)p != 0;
    case LK_S8: return (uint32_t)(int32_t) * (const int8_t *)p;
    case LK_U8: return *(const uint8_t *)p;
    case LK_S16: {
      int16_t v;
      memcpy(&v, p, 2);
      return (uint32_t)(int32_t)v;
    }
    default: return read_bits(p, lane_kind_info[k].bits);
  }
}

bool sim_load(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneOp *op = o->op;
  int n = op->out_count, bytes = lane_kind_info[op->kind].bits / 8;
  LaneType type = lane_kind_info[op->kind].type;
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t]) continue;
    if (!sim_guarded(r, o, t)) {
      for (int i = 0; i < n; i++) sim_set(r, o->out[i], type, t, sim_get(r, o->in[i + 1], type, t));
      continue;
    }
    SimAccess a;
    if (!begin(r, o, t, n, false, &a)) return false;
    a.atomic = op->is_volatile;
    char cached[MAX_ACCESS];
    const char *p = sim_reach(&a);
    if (!p || !sim_note_read(&a)) return false;
    if (op->space == SPACE_GLOBAL) {
      if (r->cache) sim_cache_load(&a, p, cached);
      else sim_fetch(cached, p, a.bytes);
      p = cached;
    }
    for (int i = 0; i < n; i++) sim_set(r, o->out[i], type, t, read_element(op->kind, p + i * bytes));
  }
  return true;
}

bool sim_store(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneOp *op = o->op;
  int n = op->in_count - 1, bytes = lane_kind_info[op->kind].bits / 8;
  LaneType type = lane_kind_info[op->kind].type;
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t] || !sim_guarded(r, o, t)) continue;
    SimAccess a;
    if (!begin(r, o, t, n, true, &a)) return false;
    char *p = sim_reach(&a), memory[MAX_ACCESS];
    if (!p) return false;
    for (int i = 0; i < n; i++) {
      uint64_t v = sim_get(r, o->in[i + 1], type, t);
      memcpy(memory + i * bytes, &v, (size_t)bytes);
    }
    if (!sim_note_write(&a, p, memory)) return false;
    if (op->space == SPACE_GLOBAL) {
      if (r->cache) sim_cache_store(&a, memory);
      sim_put(p, memory, a.bytes);
    } else {
      memcpy(p, memory, (size_t)a.bytes);
    }
  }
  return true;
}

/* Of one warp: each square's rows from the addresses of eight lanes, to all lanes. */
bool sim_ldmatrix(SimRun *r, const SimOp *o, int w) {
  const LaneOp *op = o->op;
  for (int i = 0; i < op->out_count; i++) {
    uint16_t square[8][8];
    for (int row = 0; row < 8; row++) {
      SimAccess a;
      if (!begin(r, o, 32 * w + 8 * i + row, 4, false, &a)) return false;
      a.spread = true;
      const char *p = sim_reach(&a);
      if (!p || !sim_note_read(&a)) return false;
      memcpy(square[row], p, sizeof square[row]);
    }
    for (int lane = 0; lane < 32; lane++) {
      int g = lane / 4, t = lane % 4;
      uint32_t low = op->trans ? square[2 * t][g] : square[g][2 * t],
               high = op->trans ? square[2 * t + 1][g] : square[g][2 * t + 1];
      sim_set(r, o->out[i], LT_B32, 32 * w + lane, low | high << 16);
    }
  }
  return true;
}

/* The reverse. Each element is written by the lane that gives it, not by the one that names its row. */
bool sim_stmatrix(SimRun *r, const SimOp *o, int w) {
  const LaneOp *op = o->op;
  bool on = sim_guarded(r, o, 32 * w);
  for (int t = 32 * w + 1; t < 32 * w + 32; t++)
    if (sim_guarded(r, o, t) != on) return sim_fault(r, op, t, "'stmatrix' has a guard on which a warp's lanes differ");
  for (int i = 0; on && i < op->in_count - 1; i++)
    for (int row = 0; row < 8; row++) {
      SimAccess a;
      if (!begin(r, o, 32 * w + 8 * i + row, 4, true, &a)) return false;
      char *p = sim_reach(&a);
      if (!p) return false;
      a.bytes = 2;
      for (int j = 0; j < 8; j++, p += 2, a.address += 2) {
        int lane = op->trans ? 4 * j + row / 2 : 4 * row + j / 2, high = (op->trans ? row : j) % 2;
        a.thread = 32 * w + lane;
        uint16_t v = (uint16_t)(sim_get(r, o->in[1 + i], LT_B32, a.thread) >> 16 * high);
        if (!sim_note_write(&a, p, (const char *)&v)) return false;
        memcpy(p, &v, 2);
      }
    }
  return true;
}

/* ---- atomics: a loop of compare and exchange on the element ------------------------------------------------------ */

#define EXCHANGE_LOOP(type) \
  { \
    type *at = (type *)(void *)p, old = __atomic_load_n(at, __ATOMIC_SEQ_CST), next; \
    do next = (type)lane_eval_rmw(rmw, k, old, y, z); \
    while (!__atomic_compare_exchange_n(at, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); \
    return old; \
  }

uint64_t sim_exchange(char *p, int rmw, LaneKind k, uint64_t y, uint64_t z) {
  switch (lane_kind_info[k].bits) {
    case 8: EXCHANGE_LOOP(uint8_t)
    case 16: EXCHANGE_LOOP(uint16_t)
    case 32: EXCHANGE_LOOP(uint32_t)
    default: EXCHANGE_LOOP(uint64_t)
  }
}

bool sim_atomic(SimRun *r, const SimOp *o, const SimMask *m) {
  const LaneOp *op = o->op;
  bool cas = op->rmw == RMW_CAS;
  int n = cas ? 1 : op->in_count - 1, bytes = lane_kind_info[op->kind].bits / 8;
  LaneType type = lane_kind_info[op->kind].type;
  for (int t = r->from; t < r->to; t++) {
    if (!m->on[t]) continue;
    if (!sim_guarded(r, o, t)) { /* no value: one that shows when it is used */
      for (int i = 0; i < op->out_count; i++)
        sim_set(r, o->out[i], type, t, 0xdeadbeefdeadbeefull & lane_type_mask(type));
      continue;
    }
    SimAccess a;
    if (!begin(r, o, t, n, true, &a)) return false;
    a.atomic = true;
    char *p = sim_reach(&a);
    if (!p) return false;
    a.write = false;
    if (!sim_note_read(&a)) return false;
    a.write = true;
    if (!sim_note_write(&a, p, NULL)) return false;
    if (r->cache && op->space == SPACE_GLOBAL) sim_cache_store(&a, NULL);
    for (int i = 0; i < n; i++) {
      uint64_t y = sim_get(r, o->in[i + 1], type, t), z = cas ? sim_get(r, o->in[2], type, t) : 0;
      uint64_t old = sim_exchange(p + i * bytes, op->rmw, op->kind, y, z);
      if (i < op->out_count)
        sim_set(r, o->out[i], type, t,
                op->kind == LK_S8 || op->kind == LK_S16 ? read_element(op->kind, (const char *)&old) : old);
    }
    sim_cache_acquire(r, op);
  }
  return true;
}
