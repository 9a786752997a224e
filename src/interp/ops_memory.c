/* Loads, stores and atomics, every access checked.
 *
 * Lanes whose addresses follow each other form a run, and a run is checked and copied as one: it must lie in one
 * region, be aligned, have been written before it is read, and conflict with no other program. A row of a tile costs
 * about what one element costs. Masked lanes are never looked at.
 *
 * A pointer that comes from one kernel argument may touch only the region which that argument points into; another one
 * any region. i1 in memory is a byte: any value but 0 reads as 1.
 */
#include "interp/run.h"

typedef enum { LOAD, STORE, ATOMIC } AccessKind;

static const char *const kind_name[] = {"load", "store", "atomic"};
static const char *const verb[] = {"reads", "writes", "updates"};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* "element (3, 4) of %ptrs reads 4 bytes" */
static void say_element(Buf *b, Run *run, const Node *node, int64_t element, AccessKind kind, int bytes) {
  const Value *v = node->op->in[0];
  const Type *t = v->type;
  if (t->rank) {
    int64_t rest = element;
    int32_t index[MAX_RANK];
    for (int d = t->rank - 1; d >= 0; d--) {
      index[d] = (int32_t)(rest % t->shape[d]);
      rest /= t->shape[d];
    }
    run->fault->names_element = true;
    buf_puts(b, t->rank > 1 ? "element (" : "element ");
    for (int d = 0; d < t->rank; d++) buf_printf(b, "%s%d", d ? ", " : "", index[d]);
    buf_puts(b, t->rank > 1 ? ")" : "");
    if (v->name) buf_printf(b, " of %%%s", v->name);
  } else if (v->name) {
    buf_printf(b, "%%%s", v->name);
  } else {
    buf_puts(b, "the pointer");
  }
  buf_printf(b, " %s %d byte%s at ", verb[kind], bytes, bytes > 1 ? "s" : "");
}

/* A region without a name is called after the kernel argument that points into it. */
static const char *name_of(const Run *run, const RegionSpan *s) {
  const Block *body = run->func->body;
  if (*s->region->name) return s->region->name;
  for (int i = 0; i < body->arg_count; i++)
    if (run->arg_regions[i] && run->arg_regions[i]->region == s->region && body->args[i]->name)
      return body->args[i]->name;
  return "unnamed memory";
}

/* "x+4096", "x-4", or the bare address when no region is near. */
static const RegionSpan *say_address(Buf *b, Run *run, const RegionSpan *from, uintptr_t addr) {
  enum { NEAR = 1 << 24 };
  if (!from) {
    from = memory_view_nearest(&run->view, addr);
    if (from && (addr < from->base ? from->base - addr : addr >= from->end ? addr - from->end : 0) > NEAR) from = NULL;
  }
  if (!from) {
    if (addr < 4096) buf_printf(b, "null+%llu", (unsigned long long)addr);
    else buf_printf(b, "0x%llx", (unsigned long long)addr);
    return NULL;
  }
  bool before = addr < from->base;
  buf_printf(b, "%s%c%llu", name_of(run, from), before ? '-' : '+',
             (unsigned long long)(before ? from->base - addr : addr - from->base));
  return from;
}

static bool fault_with(Run *run, const Node *node, int64_t element, Buf *b) {
  if (b->failed) run_out_of_memory(run, node->op);
  else run_fault(run, node->op, node->op->in[0]->type, element, "%s", b->at);
  buf_destroy(b);
  return false;
}

static bool fault_bounds(Run *run, const Node *node, const RegionSpan *from, uintptr_t addr, int64_t element,
                         AccessKind kind, int bytes) {
  Buf b = {0};
  buf_printf(&b, "%s out of bounds: ", kind_name[kind]);
  say_element(&b, run, node, element, kind, bytes);
  const RegionSpan *near = say_address(&b, run, from, addr);
  const RegionSpan *in = memory_view_find(&run->view, addr);
  if (in && in != near) {
    buf_puts(&b, ", which is ");
    say_address(&b, run, in, addr);
  }
  if (near) buf_printf(&b, " (%s has %llu bytes)", name_of(run, near), (unsigned long long)(near->end - near->base));
  else buf_puts(&b, ", where no allocation is");
  return fault_with(run, node, element, &b);
}

static bool fault_race(Run *run, const Node *node, const RegionSpan *in, const Conflict *c, int64_t element,
                       AccessKind kind) {
  static const char *const did[] = {
      [ACCESS_READ] = "read", [ACCESS_WRITE] = "wrote", [ACCESS_ATOMIC] = "updated atomically"};
  static const Access same[] = {[LOAD] = ACCESS_READ, [STORE] = ACCESS_WRITE, [ATOMIC] = ACCESS_ATOMIC};
  if (c->out_of_memory) return run_out_of_memory(run, node->op);
  Buf b = {0};
  int64_t x = run->grid[0], y = run->grid[1];
  run->fault->names_program = true;
  buf_printf(&b, "race: program (%d,%d,%d) %s ", run->program[0], run->program[1], run->program[2],
             kind == ATOMIC ? "atomically updates" : verb[kind]);
  say_address(&b, run, in, c->addr);
  buf_printf(&b, ", which program (%lld,%lld,%lld) %s%s", (long long)(c->other % x), (long long)(c->other / x % y),
             (long long)(c->other / x / y), same[kind] == c->theirs ? "also " : "", did[c->theirs]);
  return fault_with(run, node, element, &b);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* How an operation finds the region of an address. */
static RegionSpan *region_of(Run *run, const Node *node, uintptr_t addr) {
  int arg = provenance_argument(run->plan->provenance, node->op->in[0]);
  RegionSpan *s = arg >= 0 ? run->arg_regions[arg] : NULL;
  return s ? s : memory_view_find(&run->view, addr);
}

/* Checks the elements of a run that begins at lane `element`, as far as they lie in one region: returns how many (at
 * least one), or 0 after a fault. `bytes` is an element's size; `reads`: the bytes must have been written before. */
static int64_t check(Run *run, const Node *node, uintptr_t addr, int64_t count, int bytes, int64_t element,
                     AccessKind kind, bool reads) {
  RegionSpan *s = region_of(run, node, addr);
  if (!s || addr < s->base || addr >= s->end || s->end - addr < (uintptr_t)bytes) {
    fault_bounds(run, node, s, addr, element, kind, bytes);
    return 0;
  }
  if (addr & (uintptr_t)(bytes - 1)) {
    Buf b = {0};
    buf_printf(&b, "misaligned %s: ", kind_name[kind]);
    say_element(&b, run, node, element, kind, bytes);
    say_address(&b, run, s, addr);
    fault_with(run, node, element, &b);
    return 0;
  }
  int64_t fit = (int64_t)((s->end - addr) / (uintptr_t)bytes);
  if (fit < count) count = fit;
  size_t offset = addr - s->base, size = (size_t)(count * bytes), first;
  if (reads && !run->options->allow_unwritten && !region_is_written(s->region, offset, size, &first)) {
    int64_t at = (int64_t)((first - offset) / (size_t)bytes);
    Buf b = {0};
    buf_printf(&b, "%s of unwritten memory: ", kind_name[kind]);
    say_element(&b, run, node, element + at, kind, bytes);
    say_address(&b, run, s, addr + (uintptr_t)(at * bytes));
    buf_puts(&b, ", which nobody has written");
    fault_with(run, node, element + at, &b);
    return 0;
  }
  if (run->shadow) {
    Conflict c;
    Access access = kind == LOAD ? ACCESS_READ : kind == STORE ? ACCESS_WRITE : ACCESS_ATOMIC;
    if (!shadow_access(run->shadow, addr, size, access, &c)) {
      fault_race(run, node, s, &c, element + (int64_t)((c.addr - addr) / (uintptr_t)bytes), kind);
      return 0;
    }
  }
  if (kind != LOAD) region_set_written(s->region, offset, size);
  return count;
}

/* The end of the run of unmasked lanes from `begin` whose addresses follow each other. */
static int64_t run_end(const uint64_t *ptr, const uint8_t *mask, int64_t begin, int64_t n, int bytes) {
  int64_t j = begin + 1;
  uint64_t next = ptr[begin] + (uint64_t)bytes;
  if (mask)
    for (; j < n && mask[j] && ptr[j] == next; j++) next += (uint64_t)bytes;
  else
    for (; j < n && ptr[j] == next; j++) next += (uint64_t)bytes;
  return j;
}

/* ---- load, store ------------------------------------------------------------------------------------------------- */

static void copy_element(char *out, const char *from, int bytes) {
  switch (bytes) {
    case 1: memcpy(out, from, 1); break;
    case 2: memcpy(out, from, 2); break;
    case 4: memcpy(out, from, 4); break;
    default: memcpy(out, from, 8);
  }
}

bool run_load(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const uint64_t *ptr = (const uint64_t *)node->in[0];
  const uint8_t *mask = op->in_count > 1 ? (const uint8_t *)node->in[1] : NULL;
  const char *other = op->in_count > 2 ? node->in[2] : NULL;
  char *out = node->out[0];
  const Type *t = op->out[0]->type;
  int bytes = plan_elem_bytes(t);
  for (int64_t i = 0; i < n;) {
    if (mask && !mask[i]) {
      int64_t j = i + 1;
      while (j < n && !mask[j]) j++;
      if (other) memcpy(out + i * bytes, other + i * bytes, (size_t)((j - i) * bytes));
      else memset(out + i * bytes, 0, (size_t)((j - i) * bytes));
      i = j;
      continue;
    }
    int64_t count = check(run, node, ptr[i], run_end(ptr, mask, i, n, bytes) - i, bytes, i, LOAD, true);
    if (count == 0) return false;
    if (count == 1) copy_element(out + i * bytes, (const char *)ptr[i], bytes);
    else memcpy(out + i * bytes, (const char *)ptr[i], (size_t)(count * bytes));
    if (!t->ptr && t->dtype == DT_I1)
      for (int64_t k = i; k < i + count; k++) out[k] = out[k] != 0;
    i += count;
    /* Lanes that load the same address again need no second look. */
    for (; i < n && ptr[i] == ptr[i - 1] && (!mask || mask[i]); i++)
      copy_element(out + i * bytes, out + (i - 1) * bytes, bytes);
  }
  return true;
}

/* Elements of one store that meet at an address must agree on the value: threads store them in no order. */
static bool check_elements_agree(Run *run, const Node *node, int64_t n, const uint8_t *mask, int bytes) {
  const uint64_t *ptr = (const uint64_t *)node->in[0];
  const char *value = node->in[1];
  for (int64_t i = 0; i < n; i++) {
    if ((mask && !mask[i]) || !memcmp((const char *)ptr[i], value + i * bytes, (size_t)bytes)) continue;
    Buf b = {0};
    run->fault->names_program = true;
    buf_printf(&b, "race: program (%d,%d,%d) stores different values to ", run->program[0], run->program[1],
               run->program[2]);
    say_address(&b, run, region_of(run, node, ptr[i]), ptr[i]);
    buf_puts(&b, " at once");
    return fault_with(run, node, i, &b);
  }
  return true;
}

bool run_store(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const uint64_t *ptr = (const uint64_t *)node->in[0];
  const char *value = node->in[1];
  const uint8_t *mask = op->in_count > 2 ? (const uint8_t *)node->in[2] : NULL;
  int bytes = plan_elem_bytes(op->in[1]->type);
  for (int64_t i = 0; i < n;) {
    if (mask && !mask[i]) {
      i++;
      continue;
    }
    int64_t count = check(run, node, ptr[i], run_end(ptr, mask, i, n, bytes) - i, bytes, i, STORE, false);
    if (count == 0) return false;
    if (count == 1) copy_element((char *)ptr[i], value + i * bytes, bytes);
    else memcpy((char *)ptr[i], value + i * bytes, (size_t)(count * bytes));
    i += count;
  }
  return !run->shadow || check_elements_agree(run, node, n, mask, bytes);
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

/* max and min of floats go through integers, as on NVIDIA: with the sign clear a signed comparison of the bits, with
 * the sign set an unsigned one the other way round. So -0.0 is below 0.0 and a positive NaN above everything. */
static uint64_t float_extreme(RmwKind kind, uint64_t old, uint64_t value, int bits) {
  int unused = 64 - bits;
  int64_t so = (int64_t)(old << unused), sv = (int64_t)(value << unused);
  bool larger = sv < 0 ? (uint64_t)so > (uint64_t)sv : sv > so; /* value is the larger number */
  return (kind == RMW_MAX) == larger ? value : old;
}

static uint64_t rmw(RmwKind kind, Dtype t, uint64_t old, uint64_t value) {
  Scalar x, y, z;
  uint64_t out = 0;
  switch (kind) {
    case RMW_AND: return old & value;
    case RMW_OR: return old | value;
    case RMW_XOR: return old ^ value;
    case RMW_XCHG: return value;
    case RMW_MAX:
    case RMW_MIN:
      if (dtype_is_float(t)) return float_extreme(kind, old, value, dtype_bits(t));
      /* fallthrough */
    case RMW_ADD:
      x = scalar_load(t, &old), y = scalar_load(t, &value);
      z = scalar_binary(kind == RMW_ADD ? OP_ADD : kind == RMW_MAX ? OP_MAX : OP_MIN, t, x, y, 0);
      scalar_store(t, &out, z);
  }
  return out;
}

/* Only scalar atomics order programs: locks and counters are scalars, and a tile's million lanes would be dear. Called
 * after the access, so that a release covers it. */
static bool synchronize(Run *run, const Op *op, uintptr_t addr, MemSem sem, bool changed) {
  if (!run->shadow || op->in[0]->type->rank) return true;
  bool acquire = sem == SEM_ACQ_REL || sem == SEM_ACQUIRE, release = sem == SEM_ACQ_REL || sem == SEM_RELEASE;
  return shadow_sync(run->shadow, addr, acquire, release && changed) || run_out_of_memory(run, op);
}

bool run_barrier(Run *run, const Node *node, int64_t n) {
  if (!run->shadow || !node->op->acquire) return true;
  return shadow_acquire(run->shadow) || run_out_of_memory(run, node->op);
}

bool run_atomic_rmw(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const uint64_t *ptr = (const uint64_t *)node->in[0];
  const uint8_t *mask = op->in_count > 2 ? (const uint8_t *)node->in[2] : NULL;
  const Type *t = op->in[1]->type;
  RmwKind kind = (RmwKind)op->kind;
  int bytes = plan_elem_bytes(t);
  for (int64_t i = 0; i < n; i++) {
    uint64_t old = 0, value = 0;
    if (!mask || mask[i]) {
      if (!check(run, node, ptr[i], 1, bytes, i, ATOMIC, kind != RMW_XCHG)) return false;
      copy_element((char *)&old, (const char *)ptr[i], bytes);
      copy_element((char *)&value, node->in[1] + i * bytes, bytes);
      value = t->ptr ? value : rmw(kind, t->dtype, old, value);
      copy_element((char *)ptr[i], (const char *)&value, bytes);
      if (!synchronize(run, op, ptr[i], (MemSem)op->sem, value != old)) return false;
    }
    copy_element(node->out[0] + i * bytes, (const char *)&old, bytes);
  }
  return true;
}

bool run_atomic_cas(Run *run, const Node *node, int64_t n) {
  const Op *op = node->op;
  const uint64_t *ptr = (const uint64_t *)node->in[0];
  int bytes = plan_elem_bytes(op->in[1]->type);
  for (int64_t i = 0; i < n; i++) {
    uint64_t old = 0, expected = 0, value = 0;
    if (!check(run, node, ptr[i], 1, bytes, i, ATOMIC, true)) return false;
    copy_element((char *)&old, (const char *)ptr[i], bytes);
    copy_element((char *)&expected, node->in[1] + i * bytes, bytes);
    copy_element((char *)&value, old == expected ? node->in[2] + i * bytes : (const char *)&old, bytes);
    if (value != old) copy_element((char *)ptr[i], (const char *)&value, bytes);
    copy_element(node->out[0] + i * bytes, (const char *)&old, bytes);
    if (!synchronize(run, op, ptr[i], (MemSem)op->sem, value != old)) return false;
  }
  return true;
}
