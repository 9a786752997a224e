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
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_VERSION = 11 }; /* of what is built and how it is kept */
enum { LITTLE = 512 };     /* bytes that are spilled */
enum { LARGE_TEXT = 1 << 16 };
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
} Job;

static Buf with_blocks(Context *cx, const Buf *text, const GpuPtx *ptx, int blocks) {
  Buf b = {.arena = cx->arena};
  buf_write(&b, text->at, ptx->bounds_end);
  buf_printf(&b, ".minnctapersm %d\n", blocks);
  size_t rest = ptx->bounds_end + ptx->bound;
  buf_write(&b, text->at + rest, text->n - rest);
  return b;
}

/* One run of ptxas. */
typedef struct Run {
  const Job *job;
  const char *folder, *ptx, *cubin, *arch;
  const Buf *text;
  bool quick, may_fail;
  int64_t most_ns;
  const atomic_bool *stop; /* or NULL */
  /* what comes of it */
  Buf content, said; /* what a cache file holds, empty where nothing came; what ptxas said */
  Figures f;
  int status, error; /* as process_run's, and errno */
  bool no_place;     /* the folder takes no files */
} Run;

static void run_free(Run *r) {
  buf_destroy(&r->content);
  buf_destroy(&r->said);
}

/* In no compilation's memory, so that another thread may do it. */
static void run_ptxas(Run *r) {
  const Job *job = r->job;
  unlink(r->ptx), unlink(r->cubin);
  r->no_place = !file_write_new(r->ptx, r->text->at, r->text->n);
  r->error = errno;
  for (bool again = !r->no_place; again;) {
    const char *argv[12] = {job->ptxas, r->arch, "-v", r->ptx, "-o", r->cubin};
    int count = 6;
    if (job->ptx->has_lines) argv[count++] = "-lineinfo";
    if (r->quick) argv[count++] = "--Ofast-compile", argv[count++] = "min";
    run_free(r);
    ProcessOptions o = {.setting = heap_setting, .folder = r->folder, .most_ns = r->most_ns, .stop = r->stop};
    r->status = process_run_with(argv, &o, &r->said);
    r->error = errno;
    again = r->quick && r->status > 0; /* an assembler may not know the option */
    r->quick = r->quick && !again;
  }
  if (!r->no_place && r->status == 0 && file_read(r->cubin, &r->content)) {
    r->f = (Figures){.cubin_bytes = r->content.n};
    read_figures(r->said.at, &r->f);
    keep_unusual(r->said.at, &r->content);
    r->f.log_bytes = r->content.n - r->f.cubin_bytes;
    buf_write(&r->content, &r->f, sizeof r->f);
  } else {
    buf_destroy(&r->content);
  }
}

/* False with errno when the folder takes no files. ptxas's errors diag_fail(), but where the run may fail: then it
 * counts as spilling all. */
static bool judge(Context *cx, Run *r) {
  const char *ptxas = r->job->ptxas;
  Buf said = r->said;
  int status = r->status;
  if (r->no_place) return errno = r->error, false;
  if (r->content.failed) context_out_of_memory(cx);
  if (r->content.n) return true;
  bool full = said.at && strstr(said.at, "No space left on device");
  if (r->may_fail && status > 0 && !full) return r->f = (Figures){.spill_bytes = INT_MAX}, true;
  const char *words =
      status < 0 ? strerror(r->error) : arena_strndup(cx->arena, said.at ? said.at : "", said.n > 4000 ? 4000 : said.n);
  if (full) return errno = ENOSPC, false;
  if (status < 0 && r->error == ETIMEDOUT)
    diag_fail_limit(cx, (Span){0}, "NEREID_COMPILER_SECONDS, or options.compiler_seconds, grants it more",
                    "%s was stopped after %.3g seconds of the kernel's PTX", ptxas, (double)r->most_ns / 1e9);
  if (status < 0 && r->error == ECANCELED) diag_fail(cx, (Span){0}, "%s was stopped", ptxas);
  if (status < 0)
    diag_fail_hint(cx, (Span){0}, "set NEREID_PTXAS to a working ptxas", "%s could not be started: %s", ptxas, words);
  if (status == 0)
    diag_fail_hint(cx, (Span){0}, "set NEREID_PTXAS to a working ptxas", "%s reported success and left no cubin",
                   ptxas);
  diag_fail_hint(
      diag_as(cx, ERROR_ASSEMBLER), (Span){0},
      "this is a fault of Nereid, of inline assembly in the kernel, or of an assembler too old for the target "
      "(CUDA 12.9 and newer know all)",
      "%s failed on the kernel's PTX for %s with status %d:\n%s", ptxas, r->job->target->name, status, words);
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

/* The runs of one text; all are freed in the end. */
typedef struct Build {
  Context *cx;
  const Job *job;
  const char *folder;
  Run *best;
  Run run[4];
} Build;

/* Run number i, made anew, which then must not be the best. */
static Run *run_of(Build *b, int i, const Buf *text, bool quick) {
  static const char *const names[] = {"kernel", "block", "other", "more"};
  Run *r = &b->run[i];
  run_free(r);
  *r = (Run){.job = b->job,
             .folder = b->folder,
             .ptx = arena_printf(b->cx->arena, "%s/%s.ptx", b->folder, names[i]),
             .cubin = arena_printf(b->cx->arena, "%s/%s.cubin", b->folder, names[i]),
             .arch = arena_printf(b->cx->arena, "-arch=%s", b->job->target->name),
             .text = text,
             .quick = quick,
             .most_ns = compiler_ns(b->cx)};
  return r;
}

/* What spills least is kept. */
static bool compare(Build *b, Run *r) {
  if (!judge(b->cx, r)) return false;
  if (!b->best || r->f.spill_bytes < b->best->f.spill_bytes) b->best = r;
  return true;
}

static bool spills_little(const Figures *f) { return f->spill_bytes && f->spill_bytes <= LITTLE; }

/* What spills nothing, once more for a block more, and so on; kept as long as that spills nothing either. */
static bool try_more_blocks(Build *b) {
  const GpuPtx *ptx = b->job->ptx;
  for (int tries = 0; ptx->bounds_end; tries++) {
    int registers = b->best->f.registers,
        blocks = gpu_occupancy(b->job->target, registers, 0, ptx->threads / 32).blocks;
    if (!wants_more(b->job, registers, blocks, tries)) break;
    Buf text = with_blocks(b->cx, b->job->text, ptx, blocks + 1);
    Run *r = run_of(b, b->best == &b->run[3] ? 1 : 3, &text, b->best->quick);
    r->may_fail = true; /* an instruction of warpgroups may want more registers than that leaves */
    run_ptxas(r);
    if (!judge(b->cx, r)) return false;
    if (r->f.spill_bytes) break;
    b->best = r;
  }
  return true;
}

/* Whether the text may well spill, and a little, by what it needs at once; then both ways are asked for at once. Of
 * large texts, of which ptxas takes a tenth of a second and more, since a processor may do in vain what the first way
 * makes needless: gradients of attention (f32, heads of 128, 128 threads) of 260 registers spilled nothing, of 344 768
 * bytes. */
static bool asks_both(const Job *job) {
  int limit = gpu_thread_registers(job->ptx->threads / 32), pressure = job->ptx->pressure;
  return job->text->n >= LARGE_TEXT && pressure > limit && pressure < limit + limit / 4;
}

typedef struct Both {
  Run *run[2];
  atomic_bool stop; /* the second */
} Both;

static void run_one(void *arg, int64_t begin, int64_t end, int worker) {
  Both *both = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    if (i && atomic_load(&both->stop)) continue;
    run_ptxas(both->run[i]);
    if (!i && !spills_little(&both->run[0]->f)) atomic_store(&both->stop, true);
  }
}

/* The second is stopped when the first makes it needless; then it has no content. */
static void run_both(Run *first, Run *second) {
  Both both = {.run = {first, second}};
  Pool *pool = pool_create(2);
  second->stop = &both.stop;
  if (pool) pool_run(pool, 2, 1, run_one, &both);
  else run_one(&both, 0, 2, 0);
  pool_destroy(pool);
  second->stop = NULL;
}

/* The text as it is; while that spills, for one block; and where little is spilled, in the other of the two ways. */
static bool build_in(Build *b) {
  const Job *job = b->job;
  const GpuPtx *ptx = job->ptx;
  Run *first = run_of(b, 0, job->text, ptx->is_product), *other = run_of(b, 2, job->text, !ptx->is_product);
  bool both = asks_both(job);
  first->may_fail = ptx->bound; /* as in try_more_blocks */
  if (both) run_both(first, other);
  else run_ptxas(first);
  if (!compare(b, first)) return false;
  if (first->f.spill_bytes && ptx->bounds_end && first->f.registers < gpu_thread_registers(ptx->threads / 32)) {
    Buf one_block = with_blocks(b->cx, job->text, ptx, 1);
    Run *r = run_of(b, 1, &one_block, false);
    run_ptxas(r);
    if (!compare(b, r)) return false;
  }
  if (spills_little(&b->best->f)) {
    if (!other->content.n) run_ptxas(other);
    if (!compare(b, other)) return false;
  }
  return b->best->f.spill_bytes || try_more_blocks(b);
}

/* The same, and the folder goes. */
static bool build_and_remove(Context *cx, TempFolder *folder, const Job *job, Buf *content) {
  Build *b = NEW(cx->arena, Build);
  *b = (Build){.cx = cx, .job = job, .folder = folder->path};
  volatile bool failed = true, built = false;
  if (context_try(cx)) {
    built = build_in(b);
    failed = false;
    context_end_try(cx);
  }
  int error = errno;
  if (built) {
    Buf before = *content;
    *content = b->best->content, b->best->content = before;
  }
  for (size_t i = 0; i < sizeof b->run / sizeof *b->run; i++) run_free(&b->run[i]);
  temp_remove(folder);
  if (failed) diag_fail_now(cx);
  errno = error;
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
