/* Two hashes: a fast one for tables, and a strong one for names of cached results; and one of a number.
 *
 * hash_bytes folds eight bytes at a time with a 64 x 64 -> 128 bit product whose halves are xored (the step of wyhash).
 * hash_hex is SHA-256 (FIPS 180-4) cut to 128 bits: what a cache finds under such a name is machine code that will run,
 * so two different contents must never share a name, whoever wrote them.
 */
#include "base/base.h"

static uint64_t fold(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_number(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed) {
  const uint64_t k0 = 0xa0761d6478bd642fULL, k1 = 0xe7037ed1a0b428dbULL;
  const unsigned char *at = p;
  uint64_t h = fold(seed ^ k0, (uint64_t)n ^ k1);
  for (; n >= 8; n -= 8, at += 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    h = fold(h ^ word ^ k0, k1 + (h << 32 | h >> 32));
  }
  if (n) {
    uint64_t word = 0;
    memcpy(&word, at, n);
    h = fold(h ^ word ^ k0, k1 + (h << 32 | h >> 32));
  }
  return fold(h ^ k1, k0);
}

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t v, int n) { return v >> n | v << (32 - n); }

static void sha256_block(uint32_t state[8], const unsigned char *block) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++, block += 4)
    w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
  for (int i = 16; i < 64; i++) {
    uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; i++) {
    uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
    uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void hash_hex(const void *p, size_t n, char out[33]) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const unsigned char *at = p;
  size_t left = n;
  for (; left >= 64; left -= 64, at += 64) sha256_block(state, at);

  /* The last bytes, a one bit, zeros, and the length in bits: one block or two. */
  unsigned char tail[128] = {0};
  if (left) memcpy(tail, at, left);
  tail[left] = 0x80;
  size_t blocks = left < 56 ? 1 : 2;
  uint64_t bits = (uint64_t)n * 8;
  for (int i = 0; i < 8; i++) tail[blocks * 64 - 1 - (size_t)i] = (unsigned char)(bits >> (8 * i));
  for (size_t i = 0; i < blocks; i++) sha256_block(state, tail + 64 * i);

  for (int i = 0; i < 4; i++) snprintf(out + 8 * i, 9, "%08x", (unsigned)state[i]);
}
