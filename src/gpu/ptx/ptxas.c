/* PTX text -> cubin, by way of the system's ptxas and a cache on disk.
 *
 * A cached cubin is named by the hash of what decides it: the text, the target, the flags, what NEREID_PTXAS says. Its
 * maker is the assembler (path, size and time): another one makes it anew, and where there is none it serves
 * (base/store.c). The entry begins with the cubin, so that tools read it as it stands; after it stand what ptxas said
 * and the figures:
 *
 *     cubin | log | Figures
 *
 * ptxas works in a temporary folder in the cache's, or where that is missing, read-only or full, below $TMPDIR.
 *
 * Products on plain multiply-adds are assembled with `--Ofast-compile min`: in a sixth less time, and what it leaves
 * out does them good (matmul of f32 on an H200: 0.4 and 3.4% faster; attention, which reduces between its products, 3%
 * slower, so not that). An assembler that does not know the option is asked again without. Where it spills a little it
 * is asked again the other way: with the option, or without.
 *
 * ptxas aims at many blocks a multiprocessor, and now and then spills a little for that, below the registers that a
 * thread may have. Then it is asked once more, with `.minnctapersm 1`: one block is enough. What spills least is kept.
 *
 * Of products on tensor cores, where registers allow fewer blocks of a multiprocessor than all else does, ptxas is
 * asked for code of which one more fits, if that takes a few registers less; kept if it spills nothing (attention with
 * heads of 64 on an H200, 146 registers and one block: 486 us, 128 and two: 348).
 *
 * ptxas -v tells registers, stack and spills. What else it tells even on success (lines with a C75xx number, warnings)
 * is lost performance or worse, so it is kept in the log.
 */
#define _GNU_SOURCE
#include "gpu/gpu.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_VERSION = 11 }; /* of what is built and how it is kept */
enum { LITTLE = 512 };     /* bytes that are spilled */
enum { REGISTER_STEP = GPU_REGISTER_UNIT / 32 };

typedef struct Figures {
  uint64_t cubin_bytes, log_bytes;
  int32_t registers, spill_bytes, stack_bytes, reserved;
} Figures;

/* ptxas allocates much and keeps it short: of its time on a small kernel a third goes into page faults, most of them of
 * its heap. In huge pages there are a fifth as many. Where glibc is older than 2.35, or the system has no huge pages,
 * nothing changes. */
static const char *const heap_setting = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864";
static const char *const usual_place = "/usr/local/cuda/bin/ptxas";

/* NULL: there is none. */
static const char *find_ptxas(Context *cx, const char *chosen) {
  const char *path = find_program(cx->arena, chosen && *chosen ? chosen : "ptxas");
  if (!path && !(chosen && *chosen) && access(usual_place, X_OK) == 0) path = usual_place;
  return path;
}

/* "" where there is none. */
static const char *identity_of(Context *cx, const char *ptxas) {
  struct stat st;
  if (!ptxas || stat(ptxas, &st) != 0) return "";
  return arena_printf(cx->arena, "%s %lld %lld", ptxas, (long long)st.st_size, (long long)st.st_mtime);
}

static const char *name_of(Context *cx, const char *chosen, const Buf *text, const GpuTarget *t) {
  char hash[33];
  Buf key = {0};
  buf_printf(&key, "%s %s %d ", chosen ? chosen : "", t->name, KEY_VERSION);
  buf_write(&key, text->at, text->n);
  if (key.failed) {
    buf_destroy(&key);
    context_out_of_memory(cx);
  }
  hash_hex(key.at, key.n, hash);
  buf_destroy(&key);
  return arena_printf(cx->arena, "%s.cubin", hash);
}

/* ---- what ptxas says --------------------------------------------------------------------------------------------- */

/* The number that stands before `words` in a line of text; 0 when it does not. */
static int number_before(const char *text, const char *words) {
  const char *at = text ? strstr(text, words) : NULL;
  if (!at) return 0;
  while (at > text && at[-1] >= '0' && at[-1] <= '9') at--;
  return atoi(at);
}

static void read_figures(const char *text, Figures *f) {
  const char *used = text ? strstr(text, "Used ") : NULL;
  f->registers = used ? atoi(used + 5) : 0;
  f->stack_bytes = number_before(text, " bytes stack frame");
  f->spill_bytes = number_before(text, " bytes spill stores") + number_before(text, " bytes spill loads");
}

static bool is_usual(const char *line) {
  static const char *const usual[] = {
      "bytes gmem", "Compiling entry function", "Function properties for", "bytes stack frame",
      ": Used ",    "Compile time = "};
  size_t n = strcspn(line, "\n");
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (memmem(line, n, usual[i], strlen(usual[i]))) return true;
  return n == 0;
}

/* The lines that a person should see. */
static void keep_unusual(const char *text, Buf *out) {
  for (const char *at = text ? text : ""; *at;) {
    size_t n = strcspn(at, "\n");
    if (!is_usual(at)) {
      buf_write(out, at, n);
      buf_putc(out, '\n');
    }
    at += n + (at[n] != 0);
  }
}

/* ---- what an entry holds ----------------------------------------------------------------------------------------- */

/* Fills *out from a file's content; false when it makes no sense or memory ran out. */
static bool unpack(const Buf *b, GpuCubin *out) {
  Figures f;
  if (b->n < sizeof f) return false;
  memcpy(&f, b->at + b->n - sizeof f, sizeof f);
  size_t rest = b->n - sizeof f;
  if (!f.cubin_bytes || f.cubin_bytes > rest || f.log_bytes != rest - f.cubin_bytes) return false;
  *out = (GpuCubin){.bytes = malloc(f.cubin_bytes),
                    .size = f.cubin_bytes,
                    .registers = f.registers,
                    .spill_bytes = f.spill_bytes,
                    .stack_bytes = f.stack_bytes,
                    .log = malloc(f.log_bytes + 1)};
  if (!out->bytes || !out->log) {
    gpu_cubin_free(out);
    return false;
  }
  memcpy(out->bytes, b->at, f.cubin_bytes);
  memcpy(out->log, b->at + f.cubin_bytes, f.log_bytes);
  out->log[f.log_bytes] = 0;
  return true;
}

/* ---- assembling -------------------------------------------------------------------------------------------------- */

/* What is to be assembled. */
typedef struct Job {
  const char *ptxas;
  const Buf *text;
  const GpuPtx *ptx;
  const GpuTarget *target;
  bool may_fail; /* it was assembled otherwise already */
} Job;

static Buf with_blocks(Context *cx, const Buf *text, const GpuPtx *ptx, int blocks) {
  Buf b = {.arena = cx->arena};
  buf_write(&b, text->at, ptx->bounds_end);
  buf_printf(&b, ".minnctapersm %d\n", blocks);
  size_t rest = ptx->bounds_end + ptx->bound;
  buf_write(&b, text->at + rest, text->n - rest);
  return b;
}

/* One run of ptxas in `folder`: *content gets what a cache file holds. False with errno when the folder takes no files.
 * ptxas's errors diag_fail(), but where the job may fail: then it counts as spilling all. */
static bool run_ptxas(Context *cx, const char *folder, const Job *job, const Buf *text, bool quick, Buf *content,
                      Figures *f) {
  const GpuTarget *t = job->target;
  const char *ptxas = job->ptxas;
  const char *ptx = arena_printf(cx->arena, "%s/kernel.ptx", folder),
             *cubin = arena_printf(cx->arena, "%s/kernel.cubin", folder);
  unlink(ptx);
  if (!file_write_new(ptx, text->at, text->n)) return false;
  const char *arch = arena_printf(cx->arena, "-arch=%s", t->name);
  const char *argv[12] = {ptxas, arch, "-v", ptx, "-o", cubin};
  int count = 6;
  if (job->ptx->has_lines) argv[count++] = "-lineinfo";
  if (quick) argv[count++] = "--Ofast-compile", argv[count++] = "min";
  Buf said = {0};
  content->n = 0;
  ProcessOptions o = {.setting = heap_setting, .folder = folder, .most_ns = compiler_ns(cx)};
  int status = process_run_with(argv, &o, &said);
  int error = errno;
  if (status == 0 && file_read(cubin, content)) {
    *f = (Figures){.cubin_bytes = content->n};
    read_figures(said.at, f);
    keep_unusual(said.at, content);
    f->log_bytes = content->n - f->cubin_bytes;
    buf_write(content, f, sizeof *f);
    buf_destroy(&said);
    if (content->failed) context_out_of_memory(cx);
    return true;
  }
  if (quick && status > 0) {
    buf_destroy(&said);
    return run_ptxas(cx, folder, job, text, false, content, f);
  }
  bool full = said.at && strstr(said.at, "No space left on device");
  if (job->may_fail && status > 0 && !full) {
    buf_destroy(&said);
    *f = (Figures){.spill_bytes = INT_MAX};
    return true;
  }
  const char *words = status < 0 ? arena_strdup(cx->arena, strerror(error))
                                 : arena_strndup(cx->arena, said.at ? said.at : "", said.n > 4000 ? 4000 : said.n);
  buf_destroy(&said);
  if (full) return errno = ENOSPC, false;
  if (status < 0 && error == ETIMEDOUT)
    diag_fail_limit(cx, (Span){0}, "NEREID_COMPILER_SECONDS, or options.compiler_seconds, grants it more",
                    "%s was stopped after %.3g seconds of the kernel's PTX", ptxas, (double)o.most_ns / 1e9);
  if (status < 0 && error == ECANCELED) diag_fail(cx, (Span){0}, "%s was stopped", ptxas);
  if (status < 0)
    diag_fail_hint(cx, (Span){0}, "set NEREID_PTXAS to a working ptxas", "%s could not be started: %s", ptxas, words);
  if (status == 0)
    diag_fail_hint(cx, (Span){0}, "set NEREID_PTXAS to a working ptxas", "%s reported success and left no cubin",
                   ptxas);
  diag_fail_hint(
      diag_as(cx, ERROR_ASSEMBLER), (Span){0},
      "this is a fault of Nereid, of inline assembly in the kernel, or of an assembler too old for the target "
      "(CUDA 12.9 and newer know all)",
      "%s failed on the kernel's PTX for %s with status %d:\n%s", ptxas, t->name, status, words);
}

/* Registers of a thread where a multiprocessor is to run so many blocks. */
static int registers_for(int blocks, int threads) {
  return GPU_REGISTERS / (blocks * threads) / REGISTER_STEP * REGISTER_STEP;
}

/* Whether one block more would have enough registers, and is wanted: of text that is bounded to leave room for loads
 * (ptx.c), as long as few warps are resident, or for next to nothing; else once. A second block is worth twice the
 * registers. Code has come out without spills with an eighth less than the text's pressure, with a sixth less seldom:
 * that is tried where few warps are resident (paged decode of pressure 171 takes 96 registers). */
static bool wants_more(const Job *job, int registers, int blocks, int tries) {
  const GpuPtx *ptx = job->ptx;
  const GpuBudgets *budgets = job->target->budgets;
  bool few = ptx->bound && blocks * ptx->threads < 32 * budgets->resident_warps;
  int least = registers - registers * budgets->given_up * (few || blocks == 1 ? 2 : 1) / 16;
  int left = registers_for(blocks + 1, ptx->threads);
  if (!few && left < ptx->pressure - ptx->pressure / 6) return false;
  if (blocks >= ptx->room || left < least) return false;
  return few || (!tries && (!ptx->bound || left >= registers - registers / 16));
}

/* What spills nothing, once more for a block more, and so on; kept as long as that spills nothing either. */
static bool try_more_blocks(Context *cx, const char *folder, const Job *job, bool quick, Buf *content, int registers) {
  const GpuPtx *ptx = job->ptx;
  Job more = *job;
  more.may_fail = true; /* an instruction of warpgroups may want more registers than that leaves */
  bool done = true, kept = ptx->bounds_end;
  for (int tries = 0; done && kept; tries++) {
    int blocks = gpu_occupancy(job->target, registers, 0, ptx->threads / 32).blocks;
    if (!wants_more(job, registers, blocks, tries)) break;
    Buf text = with_blocks(cx, job->text, ptx, blocks + 1), other = {0};
    Figures f;
    done = run_ptxas(cx, folder, &more, &text, quick, &other, &f);
    kept = done && !f.spill_bytes;
    if (kept) {
      Buf before = *content;
      *content = other, other = before;
      registers = f.registers;
    }
    buf_destroy(&other);
  }
  return done;
}

/* The text as it is; while that spills, for one block; and where little is spilled, in the other of the two ways. What
 * spills least is kept. */
static bool build_in(Context *cx, const char *folder, const Job *job, Buf *content) {
  const GpuPtx *ptx = job->ptx;
  Buf one_block;
  struct {
    const Buf *text;
    bool quick;
  } ways[] = {{job->text, ptx->is_product}, {NULL, false}, {job->text, !ptx->is_product}};
  Figures f;
  int best = 0, last = 0, least = INT_MAX;
  for (int i = 0; i < 3 && least; i++) {
    if (i == 1 && ptx->bounds_end && f.registers < gpu_thread_registers(ptx->threads / 32)) {
      one_block = with_blocks(cx, job->text, ptx, 1);
      ways[i].text = &one_block;
    }
    if (!ways[i].text || (i == 2 && least > LITTLE)) continue;
    Job way = *job;
    way.may_fail = i == 0 && ptx->bound; /* as in try_more_blocks */
    if (!run_ptxas(cx, folder, &way, ways[i].text, ways[i].quick, content, &f)) return false;
    last = i;
    if (f.spill_bytes < least) best = i, least = f.spill_bytes;
  }
  if (!least) return try_more_blocks(cx, folder, job, ways[best].quick, content, f.registers);
  return best == last || run_ptxas(cx, folder, job, ways[best].text, ways[best].quick, content, &f);
}

/* The same, and the folder goes. */
static bool build_and_remove(Context *cx, TempFolder *folder, const Job *job, Buf *content) {
  volatile bool failed = true, built = false;
  if (context_try(cx)) {
    built = build_in(cx, folder->path, job, content);
    failed = false;
    context_end_try(cx);
  }
  temp_remove(folder);
  if (failed) diag_fail_now(cx);
  return built;
}

/* In whichever folder takes files. */
static void assemble(Context *cx, const Job *job, Buf *content) {
  int error = ENOENT;
  for (int i = 0; i < 2; i++) {
    TempFolder folder;
    bool made = i == 0 ? store_temp(&folder) : temp_create(&folder, NULL);
    if (made && build_and_remove(cx, &folder, job, content)) return;
    error = errno;
  }
  diag_fail_hint(cx, (Span){0}, "set TMPDIR to a folder that can be written",
                 "there is no place to assemble a kernel in: neither the cache folder nor %s can be written (%s)",
                 temp_place(), strerror(error));
}

static bool find_or_make(Context *cx, const Buf *text, const GpuPtx *ptx, const GpuTarget *t, GpuCubin *out,
                         Buf *content) {
  const char *chosen = environment_get("NEREID_PTXAS");
  if (chosen && !strcmp(chosen, "none")) return false;
  const char *ptxas = find_ptxas(cx, chosen), *identity = identity_of(cx, ptxas);
  const char *name = name_of(cx, chosen, text, t);
  if (store_find("cubin", name, identity, content) && unpack(content, out)) return out->from_cache = true;
  if (!ptxas && chosen && *chosen)
    diag_fail_hint(cx, (Span){0}, "set NEREID_PTXAS to a ptxas, or to none, or unset it",
                   "the assembler that NEREID_PTXAS names, `%s`, was not found", chosen);
  if (!ptxas) return false;
  int64_t start = clock_ns();
  content->n = 0;
  assemble(cx, &(Job){ptxas, text, ptx, t}, content);
  store_keep("cubin", name, identity, content->at, content->n); /* where it cannot be kept, it is made again */
  if (!unpack(content, out)) context_out_of_memory(cx);
  out->ptxas_ms = (double)(clock_ns() - start) / 1e6;
  return true;
}

bool gpu_ptxas(Context *cx, const Buf *text, const GpuPtx *ptx, const GpuTarget *t, GpuCubin *out) {
  *out = (GpuCubin){0};
  Buf *content = NEW(cx->arena, Buf);
  volatile bool failed = true, found = false;
  if (context_try(cx)) {
    found = find_or_make(cx, text, ptx, t, out, content);
    failed = false;
    context_end_try(cx);
  }
  buf_destroy(content);
  if (failed) diag_fail_now(cx);
  return found;
}

void gpu_cubin_free(GpuCubin *c) {
  free(c->bytes);
  free(c->log);
  *c = (GpuCubin){0};
}
