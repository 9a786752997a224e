/* sort along the last axis, and histogram.
 *
 * sort turns each element into an unsigned key that orders as the element does, sorts the keys, and turns them back:
 *
 *     unsigned   the bits
 *     signed     the bits with the sign flipped
 *     floats     sign clear: the bits with the sign set; sign set: all bits flipped. So -0.0 comes before 0.0.
 *     NaN        a key above all others, and comes back as one quiet NaN
 *
 * Long rows are sorted by radix, a byte at a time; short ones by insertion.
 */
#include "interp/run.h"

enum { SHORT_ROW = 24 };

/* Among 8 bits every pattern may be a number: NaN's key takes a ninth. */
static uint64_t nan_key(int bits) { return bits == 8 ? 0x100 : ~0ULL >> (64 - bits); }

static uint64_t key_of(Dtype t, int bits, uint64_t x) {
  uint64_t sign = 1ULL << (bits - 1), all = ~0ULL >> (64 - bits);
  if (dtype_is_float(t)) {
    if (dtype_load_float(t, &x) != dtype_load_float(t, &x)) return nan_key(bits);
    return x & sign ? ~x & all : x | sign;
  }
  return dtype_is_signed(t) ? x ^ sign : x;
}

static uint64_t element_of(Dtype t, int bits, uint64_t key) {
  uint64_t sign = 1ULL << (bits - 1), all = ~0ULL >> (64 - bits);
  if (dtype_is_float(t)) {
    if (key == nan_key(bits)) {
      uint64_t nan = 0;
      dtype_store_float(t, &nan, __builtin_nan(""));
      return nan;
    }
    return key & sign ? key ^ sign : ~key & all;
  }
  return dtype_is_signed(t) ? key ^ sign : key;
}

static void insertion_sort(uint64_t *keys, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    uint64_t key = keys[i];
    int64_t j = i;
    for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
    keys[j] = key;
  }
}

/* Sorts by the lowest byte, then the next, ...; each pass keeps the order of the last where bytes are equal. */
static uint64_t *radix_sort(uint64_t *keys, uint64_t *other, int64_t n, int bytes) {
  for (int b = 0; b < bytes; b++) {
    int64_t start[256] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) start[keys[i] >> 8 * b & 255]++;
    for (int d = 0; d < 256; d++) {
      int64_t count = start[d];
      start[d] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) other[start[keys[i] >> 8 * b & 255]++] = keys[i];
    uint64_t *swap = keys;
    keys = other;
    other = swap;
  }
  return keys;
}

/* The last round of a bitonic network: whatever the row is, as other devices have it. */
static void merge(uint64_t *keys, int64_t n, bool descending) {
  for (int64_t j = n / 2; j > 0; j /= 2)
    for (int64_t i = 0; i < n; i++) {
      uint64_t a = keys[i], b = keys[i ^ j];
      if (i & j || (descending ? a >= b : a <= b)) continue;
      keys[i] = b;
      keys[i ^ j] = a;
    }
}

int64_t scratch_sort(const Op *op) {
  const Type *t = op->in[0]->type;
  return 2 * 8 * (int64_t)t->shape[t->rank - 1];
}

bool run_sort(Run *run, const Node *node, int64_t n) {
  const Type *t = node->op->in[0]->type;
  int bytes = plan_elem_bytes(t), bits = 8 * bytes;
  int64_t row = t->shape[t->rank - 1];
  bool descending = node->op->descending != 0, bitonic = node->op->bitonic != 0;
  uint64_t *keys = (uint64_t *)run->scratch, *other = keys + row;
  for (int64_t first = 0; first < n; first += row) {
    const char *in = node->in[0] + first * bytes;
    char *out = node->out[0] + first * bytes;
    for (int64_t i = 0; i < row; i++) {
      uint64_t x = 0;
      memcpy(&x, in + i * bytes, (size_t)bytes);
      keys[i] = key_of(t->dtype, bits, x);
    }
    uint64_t *sorted = keys;
    if (bitonic) merge(keys, row, descending);
    else if (row <= SHORT_ROW) insertion_sort(keys, row);
    else sorted = radix_sort(keys, other, row, bytes == 1 ? 2 : bytes);
    for (int64_t i = 0; i < row; i++) {
      uint64_t x = element_of(t->dtype, bits, sorted[descending && !bitonic ? row - 1 - i : i]);
      memcpy(out + i * bytes, &x, (size_t)bytes);
    }
  }
  return true;
}

bool run_histogram(Run *run, const Node *node, int64_t bins) {
  const Op *op = node->op;
  const Type *t = op->in[0]->type;
  const uint8_t *mask = op->in_count > 1 ? (const uint8_t *)node->in[1] : NULL;
  int bytes = plan_elem_bytes(t);
  int64_t n = type_numel(t);
  int32_t *counts = (int32_t *)node->out[0];
  memset(counts, 0, (size_t)bins * sizeof *counts);
  for (int64_t i = 0; i < n; i++) {
    if (mask && !mask[i]) continue;
    int64_t at = scalar_load(t->dtype, node->in[0] + i * bytes).i;
    if (at >= 0 && at < bins) counts[at]++;
  }
  return true;
}
