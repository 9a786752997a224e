/* The cpu device: compiled C, run by a pool of threads.
 *
 * A grid is cut into chunks, several for each thread, which the pool's threads
 * take one after another. Waking the pool costs some microseconds; a launch
 * that is done sooner on the calling thread runs there. What a program takes is
 * measured as launches go: the chunk that holds program 0 is timed.
 *
 * Kernels ask for scratch memory, one piece a running thread. Pieces lie in a
 * small table and are taken and given back with one atomic operation each, so a
 * warm launch allocates nothing.
 *
 * Programs that may wait for each other are coroutines, with scratch memory of
 * their own (base/resident.c), and each thread takes one after another.
 *
 * Memory is the process's own. A kernel that runs past its arrays does what C
 * code does then: it may crash the process. The interpreter finds such
 * accesses.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "rt/bundle.h"
#include "rt/hooks.h"

enum {
  PIECES = 64,
  ALIGN = 64,
  HUGE_PAGE = 2 << 20,
  MOST_THREADS = 1024,
  CHUNKS_PER_THREAD = 16,
  SHARING = 8,       /* programs that share an operand, as tiles of a product are grouped most often */
  DIRECT_NS = 12000, /* work below this is done before a pool has woken up */
};

typedef struct Piece {
  _Alignas(64) atomic_bool taken;
  void *at;
  size_t bytes;
} Piece;

typedef struct Cpu {
  Pool *pool;
  Piece pieces[PIECES];
  int64_t cache_bytes;
} Cpu;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Large arrays begin on a huge page and ask for such: their kernels stream, and
 * misses of the TLB would show. */
static void *aligned_memory(size_t bytes) {
  bool large = bytes >= 2 * HUGE_PAGE;
  void *p = NULL;
  if (posix_memalign(&p, large ? HUGE_PAGE : ALIGN, bytes ? bytes : 1) != 0) return NULL;
  if (large) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

static void *cpu_alloc(nereid_device *d, int64_t bytes) { return aligned_memory((size_t)bytes); }
static void cpu_free(nereid_device *d, void *p, int64_t bytes) { free(p); }
static bool cpu_attach(nereid_device *d, void *p, int64_t bytes, const char *name) { return true; }
static void cpu_detach(nereid_device *d, void *p) {}

static nereid_status cpu_copy(nereid_device *d, void *to, const void *from, int64_t bytes, nereid_error **error) {
  memmove(to, from, (size_t)bytes);
  return NEREID_OK;
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

/* A piece of at least `bytes`, beginning the search at `hint`; when all are
 * taken, `own` is filled and serves as one.
 */
static Piece *piece_take(Cpu *cpu, size_t bytes, unsigned hint, Piece *own) {
  Piece *p = own;
  for (unsigned i = 0; i < PIECES; i++) {
    Piece *at = &cpu->pieces[(hint + i) % PIECES];
    if (atomic_load_explicit(&at->taken, memory_order_relaxed)) continue;
    if (atomic_exchange_explicit(&at->taken, true, memory_order_acquire)) continue;
    p = at;
    break;
  }
  if (p->bytes < bytes) {
    free(p->at);
    p->at = aligned_memory(bytes);
    p->bytes = p->at ? bytes : 0;
  }
  return p;
}

static void piece_give(Piece *p, Piece *own) {
  if (p == own) free(p->at), *own = (Piece){0};
  else atomic_store_explicit(&p->taken, false, memory_order_release);
}

/* A number that differs between threads, to begin a search with. */
static unsigned thread_hint(void) {
  static _Thread_local char here;
  return (unsigned)((uintptr_t)&here >> 12) * 2654435761u >> 16;
}

/* ---- one launch -------------------------------------------------------------------------------------------------- */

typedef struct CpuRun {
  const Launch *launch;
  nereid_device *device;
  Cpu *cpu;
  const CpuCode *code;
  bool in_pool;
  Residents *residents; /* of programs that wait for each other, else NULL */
  atomic_bool stopped;
  pthread_mutex_t lock; /* of the rest, and of the caller's print function */
  bool has_fault, no_memory;
  nereid_status status; /* of the fault */
  char message[512];
  int32_t program[3];
  int line;
} CpuRun;

typedef struct Line {
  CpuRun *run;
  const char *text;
} Line;

static void print_line(void *arg) {
  const Line *l = arg;
  const nereid_options *o = l->run->launch->options;
  pthread_mutex_lock(&l->run->lock);
  if (o->print) o->print(o->print_arg, l->text);
  else fprintf(stderr, "%s\n", l->text);
  pthread_mutex_unlock(&l->run->lock);
}

static void on_print(void *arg, const char *line) { coroutine_outside(print_line, &(Line){arg, line}); }

static void stop(CpuRun *r) {
  atomic_store(&r->stopped, true);
  if (r->in_pool) pool_cancel(r->cpu->pool);
}

static void record_fault(CpuRun *r, nereid_status status, const char *message, const int32_t program[3], int line) {
  pthread_mutex_lock(&r->lock);
  if (!r->has_fault) {
    r->has_fault = true;
    r->status = status;
    snprintf(r->message, sizeof r->message, "%s", message);
    memcpy(r->program, program, sizeof r->program);
    r->line = line;
  }
  pthread_mutex_unlock(&r->lock);
}

static void on_fault(void *arg, const char *message, const int32_t program[3], int line) {
  char text[512];
  snprintf(text, sizeof text, "assertion failed%s%s", *message ? ": " : "", message);
  record_fault(arg, NEREID_KERNEL_FAULT, text, program, line);
}

static int on_wait(void *arg, const int32_t program[3], int line, int got_ahead) {
  CpuRun *r = arg;
  if (residents_wait(r->residents, got_ahead)) return 0;
  if (!residents_in_vain(r->residents)) return 1; /* another program has failed */
  char text[256];
  residents_message(r->residents, text, sizeof text);
  record_fault(r, NEREID_OVER_LIMIT, text, program, line);
  return 1;
}

static int on_array(void *arg, uint64_t pointer, int64_t range[2]) {
  const CpuRun *r = arg;
  return device_array_around(r->device, (const void *)(uintptr_t)pointer, range);
}

typedef struct CpuWork { /* what pool_run hands to its threads */
  CpuRun *run;
  NereidHost host;
} CpuWork;

static bool run_programs(CpuWork *w, int64_t begin, int64_t end, void *scratch) {
  const Launch *l = w->run->launch;
  return cpu_code_entry(w->run->code)(l->args, l->grid, begin, end, scratch, &w->host) == 0;
}

/* Items are programs, or places in options->programs; of those, runs of
 * neighbours go together. */
static void run_items(void *arg, int64_t begin, int64_t end, int worker) {
  CpuWork *w = arg;
  CpuRun *r = w->run;
  const Launch *l = r->launch;
  if (atomic_load_explicit(&r->stopped, memory_order_relaxed)) return;
  Piece own = {0}, *piece = NULL;
  if (cpu_code_scratch(r->code)) {
    piece = piece_take(r->cpu, cpu_code_scratch(r->code), worker < 0 ? thread_hint() : (unsigned)worker, &own);
    if (!piece->at) {
      piece_give(piece, &own);
      pthread_mutex_lock(&r->lock);
      r->no_memory = true;
      pthread_mutex_unlock(&r->lock);
      stop(r);
      return;
    }
  }
  void *scratch = piece ? piece->at : NULL;
  int64_t start = begin == 0 ? clock_ns() : 0;
  bool ok = true;
  const int64_t *programs = l->options->programs;
  if (!programs) {
    ok = run_programs(w, begin, end, scratch);
  } else {
    for (int64_t i = begin, n; i < end && ok; i += n) {
      for (n = 1; i + n < end && programs[i + n] == programs[i] + n;) n++;
      ok = run_programs(w, programs[i], programs[i] + n, scratch);
    }
  }
  if (begin == 0) {
    int64_t now = (clock_ns() - start) / end + 1,
            before = atomic_load_explicit(&l->kernel->program_ns, memory_order_relaxed);
    atomic_store_explicit(&l->kernel->program_ns, before ? (before + now) / 2 : now, memory_order_relaxed);
  }
  if (piece) piece_give(piece, &own);
  if (!ok) stop(r);
}

/* ---- programs that wait for each other ---- */

static void *open_program(void *arg) {
  const CpuWork *w = arg;
  return aligned_memory(cpu_code_scratch(w->run->code));
}

static void close_program(void *arg, void *state) { free(state); }

static bool run_one(void *arg, void *state, int64_t i) {
  CpuWork *w = arg;
  const int64_t *programs = w->run->launch->options->programs;
  int64_t at = programs ? programs[i] : i;
  return run_programs(w, at, at + 1, state);
}

static void work_on(void *arg, int64_t begin, int64_t end, int worker) { residents_work(arg); }

static void run_together(CpuWork *w, int64_t count) {
  CpuRun *r = w->run;
  const Launch *l = r->launch;
  _Atomic int64_t operations = limits_of(l->options).operations;
  Residents residents = {.count = count,
                         .bytes = (int64_t)cpu_code_scratch(r->code),
                         .open = open_program,
                         .close = close_program,
                         .run = run_one,
                         .arg = w,
                         .operations = &operations};
  int threads = count < r->device->threads ? (int)count : r->device->threads;
  residents_init(&residents, threads);
  r->residents = &residents;
  pool_run(r->cpu->pool, threads, 1, work_on, &residents);
  r->no_memory = residents.no_memory;
  if (residents.stopped) stop(r);
}

static nereid_status fault_error(const CpuRun *r, nereid_error **error) {
  const LoadedKernel *k = r->launch->kernel;
  Buf message = {0};
  fault_message(&message, r->message, r->program, 0, NULL);
  nereid_status status = message.failed
                             ? error_out_of_memory(error)
                             : assert_places_error(error, r->status, k->places, k->path, message.at, r->line);
  buf_destroy(&message);
  return status;
}

/* The code for this launch's arguments. */
static nereid_status find_code(const CpuRun *r, const NereidHost *host, const CpuCode **out, nereid_error **error) {
  const Launch *l = r->launch;
  CpuOverlap *o = l->kernel->overlap;
  *out = l->kernel->code;
  NereidApartFn apart = cpu_code_apart(l->kernel->code);
  if (!o || !apart || apart(l->args, l->grid, host)) return NEREID_OK;
  *out = atomic_load_explicit(&o->code, memory_order_acquire);
  if (*out) return NEREID_OK;
  nereid_error *why = NULL;
  pthread_mutex_lock(&o->lock);
  CpuCode *made = atomic_load_explicit(&o->code, memory_order_relaxed);
  if (!made && (made = o->make(o, &why))) atomic_store_explicit(&o->code, made, memory_order_release);
  pthread_mutex_unlock(&o->lock);
  *out = made;
  nereid_status status = nereid_error_status(why);
  if (why && error) *error = why;
  else nereid_error_free(why);
  return status;
}

/* How many programs a thread takes at a time: several portions a thread, so that none waits long for another. Where a
 * program may use what the one before it packed, portions are larger, and all threads get as many. */
static int64_t chunk_of(int64_t count, int64_t threads, bool shares) {
  if (!shares) return count / (threads * CHUNKS_PER_THREAD) + (count < threads * CHUNKS_PER_THREAD);
  int64_t portions = count / threads / SHARING;
  if (portions > CHUNKS_PER_THREAD) portions = CHUNKS_PER_THREAD;
  if (portions < 1) portions = 1;
  return (count + threads * portions - 1) / (threads * portions);
}

static nereid_status cpu_launch(nereid_device *d, const Launch *l, nereid_error **error) {
  Cpu *cpu = d->state;
  LoadedKernel *k = l->kernel;
  int64_t count = l->options->programs ? l->options->program_count : l->total;
  if (!count) return NEREID_OK;
  CpuRun r = {.launch = l, .device = d, .cpu = cpu, .code = k->code, .lock = PTHREAD_MUTEX_INITIALIZER};
  if (launch_check_instrument(l, error)) return NEREID_BAD_ARGUMENT;
  CpuWork w = {&r,
               {.print = on_print,
                .fault = on_fault,
                .arg = &r,
                .record = rt_hooks.record,
                .instrument = l->options->instrument_buffer,
                .array = on_array,
                .wait = on_wait}};
  nereid_status status = find_code(&r, &w.host, &r.code, error);
  if (status) return status;
  if (k->pointer_count) {
    uint64_t pointers[32]; /* of more arguments the first ones are enough for an
                              estimate */
    int n = 0;
    for (int i = 0; i < k->slot_count && n < 32; i++)
      if (k->slots[i].is_pointer) pointers[n++] = l->args[i];
    w.host.stream_bytes = device_bytes_behind(d, pointers, n);
    w.host.cache_bytes = cpu->cache_bytes;
  }
  int64_t each = atomic_load_explicit(&k->program_ns, memory_order_relaxed);
  bool direct = count == 1 || d->threads == 1 || (each && count <= DIRECT_NS / each);
  if (k->programs_wait) {
    run_together(&w, count);
  } else if (direct) {
    run_items(&w, 0, count, -1);
  } else {
    r.in_pool = true;
    pool_run(cpu->pool, count, chunk_of(count, d->threads, cpu_code_shares(r.code)), run_items, &w);
  }
  if (r.has_fault) return fault_error(&r, error);
  if (r.no_memory)
    return error_set(error, NEREID_OUT_OF_MEMORY, NULL,
                     "out of memory: kernel '%s' needs %llu bytes of scratch a thread", k->name,
                     (unsigned long long)cpu_code_scratch(r.code));
  if (atomic_load(&r.stopped))
    return error_set(error, NEREID_KERNEL_FAULT, NULL, "kernel '%s' stopped without saying why", k->name);
  return NEREID_OK;
}

static void cpu_discard(LoadedKernel *k) {
  cpu_code_release(k->code);
  if (k->overlap) k->overlap->destroy(k->overlap);
  if (!k->borrows) assert_locations_free(k->places);
}

/* ---- code of a bundle -------------------------------------------------------------------------------------------- */

typedef struct BundleOverlap {
  CpuOverlap overlap; /* the first member: what a launch sees */
  const char *kernel;
  const BundleCode *code;
} BundleOverlap;

static CpuCode *load_image(const char *kernel, const void *image, size_t bytes, nereid_error **error) {
  char why[256] = "";
  CpuCode *code = cpu_load(image, bytes, why);
  if (!code)
    error_set(error, NEREID_BAD_FILE, "TMPDIR names a folder from which code may be loaded",
              "the code of kernel '%s' cannot be loaded: %s", kernel, why);
  return code;
}

static CpuCode *load_overlap(CpuOverlap *overlap, nereid_error **error) {
  const BundleOverlap *o = (const BundleOverlap *)overlap;
  const BundleCode *c = o->code;
  if (bundle_check_code(o->kernel, c->overlap, c->overlap_bytes, c->overlap_hash, error)) return NULL;
  return load_image(o->kernel, c->overlap, c->overlap_bytes, error);
}

static void drop_overlap(CpuOverlap *overlap) {
  cpu_code_release(overlap->code);
  pthread_mutex_destroy(&overlap->lock);
  free(overlap);
}

static nereid_status cpu_load_bundle(nereid_device *d, LoadedKernel *k, const BundleCode *code, nereid_error **error) {
  k->code = load_image(k->name, code->image, code->image_bytes, error);
  if (!k->code) return NEREID_BAD_FILE;
  if (!code->overlap) return NEREID_OK;
  BundleOverlap *o = calloc(1, sizeof *o);
  if (!o) return error_out_of_memory(error);
  pthread_mutex_init(&o->overlap.lock, NULL);
  o->overlap.make = load_overlap, o->overlap.destroy = drop_overlap;
  o->kernel = k->name, o->code = code;
  k->overlap = &o->overlap;
  return NEREID_OK;
}

static nereid_status cpu_synchronize(nereid_device *d, nereid_error **error) { return NEREID_OK; }

/* ---- what the machine is ----------------------------------------------------------------------------------------- */

/* The value of the first line "KEY : VALUE" of /proc/cpuinfo. */
static bool cpuinfo(const char *key, char *out, size_t size) {
  FILE *f = fopen("/proc/cpuinfo", "re");
  if (!f) return false;
  char *line = NULL;
  size_t cap = 0;
  bool found = false;
  while (!found && getline(&line, &cap, f) > 0) {
    size_t n = strlen(key);
    if (strncmp(line, key, n) || !strchr(" \t:", line[n])) continue;
    const char *v = strchr(line, ':');
    if (!v) continue;
    v += 1 + strspn(v + 1, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(v, "\n"), v);
    found = true;
  }
  free(line);
  fclose(f);
  return found;
}

static const char *instruction_set(void) {
  static const struct {
    const char *flag, *name;
  } sets[] = {{"amx_tile", "AMX, AVX-512"}, {"avx512f", "AVX-512"}, {"avx2", "AVX2"}, {"avx", "AVX"},
              {"sse4_2", "SSE4.2"},         {"sve", "SVE"},         {"asimd", "NEON"}};
  char flags[8192];
  if (!cpuinfo("flags", flags, sizeof flags) && !cpuinfo("Features", flags, sizeof flags)) return NULL;
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    size_t n = strlen(sets[i].flag);
    for (const char *p = flags; (p = strstr(p, sets[i].flag)); p++)
      if ((p == flags || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return sets[i].name;
  }
  return NULL;
}

static void cpu_describe(nereid_device_info *out) {
  char model[100] = "", compiler[120] = "";
  struct utsname u;
  if (!cpuinfo("model name", model, sizeof model))
    snprintf(model, sizeof model, "%s", uname(&u) == 0 ? u.machine : "unknown processor");
  const char *isa = instruction_set();
  cpu_set_t usable;
  out->threads =
      sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  out->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  out->available = rt_hooks.cpu_compiler(compiler, sizeof compiler);
  snprintf(out->description, sizeof out->description, "%s, %d thread%s%s%s; %s", model, out->threads,
           out->threads == 1 ? "" : "s", isa ? ", " : "", isa ? isa : "", compiler);
}

static void cpu_signature(nereid_device *d, Buf *out) {
  char model[100] = "a processor";
  const char *isa = instruction_set();
  cpuinfo("model name", model, sizeof model);
  buf_printf(out, "cpu: %s, %d threads%s%s", model, d->threads, isa ? ", " : "", isa ? isa : "");
}

static int64_t last_cache_bytes(void) {
  enum { USUAL = 32 << 20 };
  long bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return bytes > 0 ? bytes : USUAL;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static nereid_status cpu_open(nereid_device *d, const char *suffix, nereid_error **error) {
  long threads = 0;
  if (suffix) {
    char *end = NULL;
    if (isdigit((unsigned char)*suffix)) threads = strtol(suffix, &end, 10);
    if (!end || *end || threads < 1 || threads > MOST_THREADS)
      return error_set(error, NEREID_BAD_ARGUMENT, "cpu alone takes all processors",
                       "device 'cpu:%s': after the colon stands a number of "
                       "threads from 1 to %d",
                       suffix, MOST_THREADS);
  }
  Cpu *cpu = NULL;
  if (posix_memalign((void **)&cpu, 64, sizeof *cpu) != 0) return error_out_of_memory(error);
  memset(cpu, 0, sizeof *cpu);
  cpu->pool = pool_create((int)threads);
  if (!cpu->pool) {
    free(cpu);
    return error_out_of_memory(error);
  }
  cpu->cache_bytes = last_cache_bytes();
  d->state = cpu;
  d->threads = pool_threads(cpu->pool);
  return NEREID_OK;
}

static void cpu_close(nereid_device *d) {
  Cpu *cpu = d->state;
  pool_destroy(cpu->pool);
  for (int i = 0; i < PIECES; i++) free(cpu->pieces[i].at);
  free(cpu);
}

const DeviceKind device_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .attach = cpu_attach,
    .detach = cpu_detach,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .discard = cpu_discard,
    .load = cpu_load_bundle,
    .launch = cpu_launch,
    .signature = cpu_signature,
    .synchronize = cpu_synchronize,
};
