/* cpu: tile IR -> loop nests -> C text -> shared object.
 *
 * cpu_emit_c turns an optimised Func into one C file that any gcc or clang compiles. Chains of elementwise work, loads,
 * stores and the reductions that end them become one loop nest over vector registers; tiles that must be kept (operands
 * of dot, values that two nests need) stand in small arrays in a scratch area that the caller hands in.
 *
 * The C text's contract with the runtime (repeated in the emitted text, support/nereid_cpu.h):
 *
 *     int nereid_kernel(const uint64_t *args, const int32_t grid[3], int64_t begin, int64_t end,
 *                       void *scratch, const NereidHost *host);
 *     const uint64_t nereid_scratch_bytes;   // what each thread must provide, aligned to 64
 *     int nereid_apart(const uint64_t *args, const int32_t grid[3], const NereidHost *host);   // where there is one
 *     const uint64_t nereid_shares;          // 1: a program may find packed what the one before it packed
 *
 * runs the programs with linear ids [begin, end) (x fastest). args as for interp_run. Returns 0, or 1 after a failed
 * device_assert, which host->fault has been told of. It is reentrant: one call a thread, or a coroutine where programs
 * wait for each other.
 *
 * Two arguments of one launch may be one array, or overlap. A kernel has two texts: one for arguments whose arrays do
 * not overlap, which need not look at the order in which two arrays are read and written, and one for any arguments.
 * The first says in nereid_apart() whether it is right for a launch; where it has none, it is right for all (memory.h,
 * spans.c).
 */
#ifndef NEREID_CPU_H
#define NEREID_CPU_H

#include "rt/cpu_code.h"
#include "tile/tile.h"

/* Whom the text is for: a reader finds the names and lines of the source in it. A compiler needs neither, and two
 * kernels that differ in these alone are one text, which is compiled once. */
typedef enum { CPU_TEXT_READABLE, CPU_TEXT_COMPILED } CpuTextUse;
/* Appends the C text for arguments that do not overlap, or, with may_overlap, for any; returns whether the two differ.
 * Fails with a diagnostic for what a CPU cannot run (inline PTX). The text is self-contained: it begins with the
 * support headers it uses, or, for compilers, with all. f is optimised (tile_optimize) and may be changed; both texts
 * may be made of it, one after the other. headers: as CpuText has it, of what is appended to an empty text; or NULL. */
bool cpu_emit_c(Func *f, bool may_overlap, CpuTextUse use, Buf *out, size_t *headers);
/* The same in two parts: the headers, by a number that says which, and what is the kernel's own. */
void cpu_emit_support(unsigned support, Buf *out);
bool cpu_emit_body(Func *f, bool may_overlap, CpuTextUse use, unsigned *support, Buf *out);

/* ---- cc.c: C text -> loaded code --------------------------------------------------------------------------------- */

typedef enum { CC_FINDING, CC_BUILDING, CC_STORING } CcStep; /* the compiler; the object; a place for it */
/* A text to be compiled. headers: so many bytes at its start are the support headers, all of them, which are compiled
 * once for all kernels; 0: what it needs of them stands in it. */
typedef struct CpuText {
  const char *at;
  size_t n, headers;
} CpuText;
/* step: how far it got, also when it failed. */
typedef struct CpuCompileInfo {
  bool from_cache;
  double cc_ms;
  CcStep step;
} CpuCompileInfo;
/* Takes the object from the cache, or compiles with $NEREID_CC, else `cc`, `gcc` or `clang` in PATH, without a shell,
 * and keeps it there. diag_fail()s with the compiler's output, or a hint to install one. */
CpuCode *cpu_compile(Context *cx, const CpuText *text, CpuCompileInfo *info);
/* The same for another processor, or another machine: the object's bytes. command: the compiler, as NEREID_CC has it;
 * NULL: as there. march: the option that names the processor, "-march=x86-64-v3"; "": none; NULL: this machine's. */
void cpu_compile_for(Context *cx, const char *command, const char *march, const CpuText *text, Buf *image);
/* What such a compiler predefines: lines "#define __AVX2__ 1". In cx's arena. */
char *cpu_compiler_macros(Context *cx, const char *command, const char *march);
/* What the compiler says to --version; false: there is none, or it does not say. */
bool cpu_compiler_version(Context *cx, Buf *out);

#endif
