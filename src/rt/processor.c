/* What the processor can do, asked as compilers name it: code that was built with -march=x86-64-v3 must not be run
 * where there is no AVX2. x86-64 by cpuid (Intel SDM, volume 2A), and by xgetbv for registers that the system must
 * save; AArch64 by what the system says of it (AT_HWCAP). Of a name that is not in the table the answer is no.
 */
#include "rt/bundle.h"

#include <elf.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

typedef struct Feature {
  const char *name;
  unsigned leaf, subleaf, reg, bit; /* reg: 0 eax ... 3 edx */
  unsigned saved;                   /* bits of XCR0 */
} Feature;
enum { EAX, EBX, ECX, EDX, VECTOR = 0x6, MASKS = 0xe6, TILES = 0x60000 };

static const Feature x86[] = {
    {"SSE3", 1, 0, ECX, 0, 0},
    {"PCLMUL", 1, 0, ECX, 1, 0},
    {"SSSE3", 1, 0, ECX, 9, 0},
    {"FMA", 1, 0, ECX, 12, VECTOR},
    {"SSE4_1", 1, 0, ECX, 19, 0},
    {"SSE4_2", 1, 0, ECX, 20, 0},
    {"MOVBE", 1, 0, ECX, 22, 0},
    {"POPCNT", 1, 0, ECX, 23, 0},
    {"AES", 1, 0, ECX, 25, 0},
    {"AVX", 1, 0, ECX, 28, VECTOR},
    {"F16C", 1, 0, ECX, 29, VECTOR},
    {"BMI", 7, 0, EBX, 3, 0},
    {"AVX2", 7, 0, EBX, 5, VECTOR},
    {"BMI2", 7, 0, EBX, 8, 0},
    {"AVX512F", 7, 0, EBX, 16, MASKS},
    {"AVX512DQ", 7, 0, EBX, 17, MASKS},
    {"ADX", 7, 0, EBX, 19, 0},
    {"AVX512IFMA", 7, 0, EBX, 21, MASKS},
    {"AVX512CD", 7, 0, EBX, 28, MASKS},
    {"SHA", 7, 0, EBX, 29, 0},
    {"AVX512BW", 7, 0, EBX, 30, MASKS},
    {"AVX512VL", 7, 0, EBX, 31, MASKS},
    {"AVX512VBMI", 7, 0, ECX, 1, MASKS},
    {"AVX512VBMI2", 7, 0, ECX, 6, MASKS},
    {"GFNI", 7, 0, ECX, 8, 0},
    {"VAES", 7, 0, ECX, 9, VECTOR},
    {"VPCLMULQDQ", 7, 0, ECX, 10, VECTOR},
    {"AVX512VNNI", 7, 0, ECX, 11, MASKS},
    {"AVX512BITALG", 7, 0, ECX, 12, MASKS},
    {"AVX512VPOPCNTDQ", 7, 0, ECX, 14, MASKS},
    {"AVX512VP2INTERSECT", 7, 0, EDX, 8, MASKS},
    {"AMX_BF16", 7, 0, EDX, 22, TILES},
    {"AVX512FP16", 7, 0, EDX, 23, MASKS},
    {"AMX_TILE", 7, 0, EDX, 24, TILES},
    {"AMX_INT8", 7, 0, EDX, 25, TILES},
    {"AVXVNNI", 7, 1, EAX, 4, VECTOR},
    {"AVX512BF16", 7, 1, EAX, 5, MASKS},
    {"LZCNT", 0x80000001, 0, ECX, 5, 0},
    {"SSE4A", 0x80000001, 0, ECX, 6, 0},
    {"XOP", 0x80000001, 0, ECX, 11, VECTOR},
    {"FMA4", 0x80000001, 0, ECX, 16, VECTOR},
};
/* leaf: AT_HWCAP or AT_HWCAP2 */
static const Feature arm[] = {
    {"ARM_FEATURE_ATOMICS", 16, 0, 0, 8, 0},      {"ARM_FEATURE_FP16_VECTOR_ARITHMETIC", 16, 0, 0, 10, 0},
    {"ARM_FEATURE_QRDMX", 16, 0, 0, 12, 0},       {"ARM_FEATURE_DOTPROD", 16, 0, 0, 20, 0},
    {"ARM_FEATURE_SVE", 16, 0, 0, 22, 0},         {"ARM_FEATURE_SVE2", 26, 0, 0, 1, 0},
    {"ARM_FEATURE_MATMUL_INT8", 26, 0, 0, 13, 0}, {"ARM_FEATURE_BF16", 26, 0, 0, 14, 0},
};
enum { X86_COUNT = sizeof x86 / sizeof x86[0], ARM_COUNT = sizeof arm / sizeof arm[0] };

int processor_machine(void) {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__riscv)
  return EM_RISCV;
#elif defined(__powerpc64__)
  return EM_PPC64;
#else
  return EM_NONE;
#endif
}

const char *machine_name(int machine) {
  return machine == EM_X86_64    ? "x86-64"
         : machine == EM_AARCH64 ? "AArch64"
         : machine == EM_RISCV   ? "RISC-V"
         : machine == EM_PPC64   ? "PowerPC 64"
                                 : NULL;
}

static bool has(const Feature *f) {
#if defined(__x86_64__)
  unsigned r[4] = {0}, low = 0, high = 0;
  if (!__get_cpuid_count(f->leaf, f->subleaf, &r[0], &r[1], &r[2], &r[3]) || !(r[f->reg] >> f->bit & 1)) return false;
  if (!f->saved) return true;
  if (!__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) || !(r[ECX] >> 27 & 1)) return false;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & f->saved) == f->saved;
#elif defined(__aarch64__)
  return getauxval(f->leaf) >> f->bit & 1;
#else
  return false;
#endif
}

/* cpuid takes tens of microseconds in a virtual machine, so that each is asked once. */
bool processor_has(const char *feature) {
  static _Atomic signed char known[PROCESSOR_MOST_FEATURES]; /* 0: not asked, 1: yes, -1: no */
  const Feature *table = processor_machine() == EM_AARCH64 ? arm : x86;
  int n = processor_machine() == EM_AARCH64 ? ARM_COUNT : processor_machine() == EM_X86_64 ? X86_COUNT : 0, i = 0;
  while (i < n && strcmp(table[i].name, feature)) i++;
  if (i == n) return false;
  signed char answer = atomic_load_explicit(&known[i], memory_order_relaxed);
  if (!answer) atomic_store_explicit(&known[i], answer = has(&table[i]) ? 1 : -1, memory_order_relaxed);
  return answer > 0;
}

int processor_features(int machine, const char *out[PROCESSOR_MOST_FEATURES]) {
  const Feature *table = machine == EM_AARCH64 ? arm : x86;
  int n = machine == EM_AARCH64 ? ARM_COUNT : machine == EM_X86_64 ? X86_COUNT : 0;
  for (int i = 0; i < n; i++) out[i] = table[i].name;
  return n;
}
