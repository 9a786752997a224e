/* nereid_amx: bf16 and int8 products on AMX's tiles, for nereid_dot.h.
 *
 * A tile register holds 16 rows of 64 bytes. One instruction adds the product of a (16 rows of 16 pairs along k) and b
 * (16 pairs of rows, 16 columns of pairs) to 16x16 floats. Panels of nereid_dot.h hold b in just such pairs, two tiles
 * wide, so that a block of 32 rows is 2x2 tiles of the result, which stay while k runs. Of int8 a group along k is four
 * elements (quads), and the result is 16x16 int32.
 *
 *     tiles 0 1   result      4 5  a: upper, lower 16 rows      6 7  b: left, right 16 columns
 *           2 3
 *
 * What is left of rows below 16 and of k below 16 groups is the vector path's. The system must be asked once whether a
 * process may use tiles (Linux: arch_prctl, Documentation/arch/x86/xstate.rst); where it says no, the vector path does
 * all. With ND_AMX_EMULATE the tile instructions are functions in C, so that the way they are used is tested on every
 * machine.
 */
#ifndef NEREID_AMX_H
#define NEREID_AMX_H

#if defined(ND_AMX_EMULATE) || \
    (((defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__AMX_TILE__)) || \
      (defined(__AMXBF16__) && defined(__AMXINT8__) && defined(__AMXTILE__))) && \
     defined(__AVX512BF16__) && defined(__AVX512VNNI__) && defined(__linux__) && defined(__x86_64__))
#define ND_AMX 1

typedef struct nd_amx_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} nd_amx_config;

#ifdef ND_AMX_EMULATE
typedef struct nd_amx_tiles {
  nd_amx_config config;
  _Bool configured;
  uint32_t tile[8][16][16];
} nd_amx_tiles;
static nd_amx_tiles nd_amx_state; /* of the one thread that runs such a kernel */
ND_INLINE void nd_amx_configure(const nd_amx_config *c) { nd_amx_state.config = *c, nd_amx_state.configured = 1; }
ND_INLINE void nd_amx_release(void) { nd_amx_state.configured = 0; }
#define ND_AMX_LOAD(t, p, stride) nd_amx_copy(t, (char *)(uintptr_t)(const void *)(p), stride, 0)
#define ND_AMX_STORE(t, p, stride) nd_amx_copy(t, (char *)(p), stride, 1)
ND_INLINE void nd_amx_copy(int t, char *p, int64_t stride, int out) {
  if (!nd_amx_state.configured || nd_amx_state.config.palette != 1) __builtin_trap();
  for (int r = 0; r < nd_amx_state.config.rows[t]; r++)
    if (out) memcpy(p + r * stride, nd_amx_state.tile[t][r], nd_amx_state.config.row_bytes[t]);
    else memcpy(nd_amx_state.tile[t][r], p + r * stride, nd_amx_state.config.row_bytes[t]);
}
#define ND_AMX_ZERO(t) memset(nd_amx_state.tile[t], 0, sizeof nd_amx_state.tile[t])
#define ND_AMX_DOT_bf16(c, a, b) nd_amx_dot(c, a, b, nd_amx_add_bf16)
#define ND_AMX_DOT_i8(c, a, b) nd_amx_dot(c, a, b, nd_amx_add_i8)
ND_INLINE float nd_amx_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
ND_INLINE uint32_t nd_amx_add_bf16(uint32_t c, uint32_t a, uint32_t b) {
  float sum = nd_amx_float(c);
  sum += nd_amx_float(a << 16) * nd_amx_float(b << 16);
  sum += nd_amx_float(a & 0xffff0000u) * nd_amx_float(b & 0xffff0000u);
  memcpy(&c, &sum, 4);
  return c;
}
ND_INLINE uint32_t nd_amx_add_i8(uint32_t c, uint32_t a, uint32_t b) {
  for (int h = 0; h < 32; h += 8) c += (uint32_t)((int8_t)(a >> h) * (int8_t)(b >> h));
  return c;
}
ND_INLINE void nd_amx_dot(int c, int a, int b, uint32_t (*add)(uint32_t, uint32_t, uint32_t)) {
  nd_amx_tiles *s = &nd_amx_state;
  for (int i = 0; i < s->config.rows[c]; i++)
    for (int p = 0; p < s->config.row_bytes[a] / 4; p++)
      for (int j = 0; j < s->config.row_bytes[c] / 4; j++)
        s->tile[c][i][j] = add(s->tile[c][i][j], s->tile[a][i][p], s->tile[b][p][j]);
}
ND_INLINE int nd_amx_allowed(void) { return 1; }
#else
#include <immintrin.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
ND_INLINE void nd_amx_configure(const nd_amx_config *c) { _tile_loadconfig(c); }
ND_INLINE void nd_amx_release(void) { _tile_release(); }
#define ND_AMX_LOAD(t, p, stride) _tile_loadd(t, p, stride)
#define ND_AMX_STORE(t, p, stride) _tile_stored(t, p, stride)
#define ND_AMX_ZERO(t) _tile_zero(t)
#define ND_AMX_DOT_bf16(c, a, b) _tile_dpbf16ps(c, a, b)
#define ND_AMX_DOT_i8(c, a, b) _tile_dpbssd(c, a, b)
/* Asked once a process and kernel: 0 not asked, 1 yes, 2 no. */
static _Atomic int nd_amx_answer;
ND_NOINLINE int nd_amx_allowed(void) {
  int answer = atomic_load_explicit(&nd_amx_answer, memory_order_relaxed);
  if (!answer) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    answer = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? 1 : 2;
    atomic_store_explicit(&nd_amx_answer, answer, memory_order_relaxed);
  }
  return answer == 1;
}
#endif

enum { ND_AMX_ROWS = 16, ND_AMX_GROUPS = 16 };

ND_INLINE void nd_amx_begin(void) {
  if (!nd_amx_allowed()) return;
  nd_amx_config c = {.palette = 1};
  for (int t = 0; t < 8; t++) c.rows[t] = ND_AMX_ROWS, c.row_bytes[t] = 64;
  nd_amx_configure(&c);
}
ND_INLINE void nd_amx_end(void) {
  if (nd_amx_allowed()) nd_amx_release();
}

/* acc[32 or 16, 32] += a b over `groups` groups of k, a multiple of 16; `fresh`: acc = a b. Distances in groups and
 * elements of acc, all of 4 bytes. */
#define ND_AMX_BEGIN(t, p, stride, fresh) \
  if (fresh) ND_AMX_ZERO(t); \
  else ND_AMX_LOAD(t, p, stride)
#define ND_AMX_PRODUCT(NAME, E, B) \
  ND_INLINE void nd_amx_block32_##NAME(E *acc, int64_t ldc, const int32_t *a, int64_t lda, const B *b, int64_t ldb, \
                                       int groups, int fresh) { \
    ND_AMX_BEGIN(0, acc, ldc * 4, fresh); \
    ND_AMX_BEGIN(1, acc + 16, ldc * 4, fresh); \
    ND_AMX_BEGIN(2, acc + 16 * ldc, ldc * 4, fresh); \
    ND_AMX_BEGIN(3, acc + 16 * ldc + 16, ldc * 4, fresh); \
    for (int p = 0; p < groups; p += ND_AMX_GROUPS) { \
      ND_AMX_LOAD(4, a + p, lda * 4); \
      ND_AMX_LOAD(6, b + p * ldb, ldb * 4); \
      ND_AMX_DOT_##NAME(0, 4, 6); \
      ND_AMX_LOAD(7, b + p * ldb + 16, ldb * 4); \
      ND_AMX_DOT_##NAME(1, 4, 7); \
      ND_AMX_LOAD(5, a + 16 * lda + p, lda * 4); \
      ND_AMX_DOT_##NAME(2, 5, 6); \
      ND_AMX_DOT_##NAME(3, 5, 7); \
    } \
    ND_AMX_STORE(0, acc, ldc * 4); \
    ND_AMX_STORE(1, acc + 16, ldc * 4); \
    ND_AMX_STORE(2, acc + 16 * ldc, ldc * 4); \
    ND_AMX_STORE(3, acc + 16 * ldc + 16, ldc * 4); \
  } \
  ND_INLINE void nd_amx_block16_##NAME(E *acc, int64_t ldc, const int32_t *a, int64_t lda, const B *b, int64_t ldb, \
                                       int groups, int fresh) { \
    ND_AMX_BEGIN(0, acc, ldc * 4, fresh); \
    ND_AMX_BEGIN(1, acc + 16, ldc * 4, fresh); \
    for (int p = 0; p < groups; p += ND_AMX_GROUPS) { \
      ND_AMX_LOAD(4, a + p, lda * 4); \
      ND_AMX_LOAD(6, b + p * ldb, ldb * 4); \
      ND_AMX_LOAD(7, b + p * ldb + 16, ldb * 4); \
      ND_AMX_DOT_##NAME(0, 4, 6); \
      ND_AMX_DOT_##NAME(1, 4, 7); \
    } \
    ND_AMX_STORE(0, acc, ldc * 4); \
    ND_AMX_STORE(1, acc + 16, ldc * 4); \
  } \
  /* The part of a panel (32 columns, m rows, k groups) that fills whole tiles: returns its rows and sets *groups; \
   * both 0 when it is none. Between nd_amx_begin() and nd_amx_end(). */ \
  ND_INLINE int nd_amx_panel_##NAME(E *acc, int64_t ldc, const int32_t *a, int64_t lda, const B *b, int64_t ldb, \
                                    int m, int k, int fresh, int *groups) { \
    int rows = m / ND_AMX_ROWS * ND_AMX_ROWS; \
    *groups = k / ND_AMX_GROUPS * ND_AMX_GROUPS; \
    if (!rows || !*groups || !nd_amx_allowed()) return *groups = 0; \
    int i = 0; \
    for (; i + 32 <= rows; i += 32) \
      nd_amx_block32_##NAME(acc + i * ldc, ldc, a + i * lda, lda, b, ldb, *groups, fresh); \
    if (i < rows) nd_amx_block16_##NAME(acc + i * ldc, ldc, a + i * lda, lda, b, ldb, *groups, fresh); \
    return rows; \
  }
ND_AMX_PRODUCT(bf16, float, float)
ND_AMX_PRODUCT(i8, int32_t, int32_t)
#undef ND_AMX_PRODUCT
#undef ND_AMX_BEGIN
#endif
#endif
