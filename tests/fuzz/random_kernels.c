/* random_kernels: runs random valid kernels on the interpreter and on the CPU (or another) device and compares what
 * they leave in memory.
 *
 *     random_kernels COUNT [SEED [FIRST]] [-j JOBS] [--device D] [--allocations N] [--print | --here | --whole]
 *
 * Kernel number i of a seed is always the same one; `random_kernels 1 SEED i` runs it alone, `--print` only shows it,
 * `--here` runs it in this process, for a debugger. gen.h says how kernels are made and why their results must agree.
 * Each runs in a process of its own, so that one that crashes or hangs costs itself only. On the CPU each array stands
 * against a page that nobody may touch, so an access past its end ends in a signal; the bytes on the other side are
 * checked. What disagrees is cut down, statement by statement, as long as it still does (`--whole`: not), and printed
 * with the first differing element. With --allocations each kernel runs again, with an allocation that fails, N times
 * alone and N times with all after it: it then gives an error or the same. Exit status 0: all agreed.
 *
 * Build: cc -O1 -Iinclude -Itests tests/fuzz/random_kernels.c tests/fuzz/gen_?*.c tests/fakes/malloc.c -Lbuild/lib
 * -lnereid -Wl,-rpath,$PWD/build/lib -lm With NEREID_CC="gcc -mno-avx512f", "gcc -mno-avx" or "clang" the same kernels
 * become other code.
 */
#define _GNU_SOURCE
#include "gen.h"

#include "fakes/malloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_JOBS = 64, PAGE = 4096, TIMEOUT_S = 300, CANARY = 0xA5 };
typedef enum { AGREES, DIFFERS, REFUSED, FAILED, CRASHED, STATE_COUNT } State;
static const char *const state_names[] = {"agrees", "differs", "is refused by the interpreter", "fails on the device",
                                          "crashed or hung"};
enum { DETAIL = 4000 };
static char (*details)[DETAIL]; /* one a job, shared with the children */

/* ---- memory against a forbidden page ----------------------------------------------------------------------------- */

typedef struct Guarded {
  char *map, *data;
  size_t bytes, map_bytes;
  bool at_end;
} Guarded;

static Guarded guarded(size_t bytes, bool at_end) {
  size_t inner = (bytes + PAGE - 1) / PAGE * PAGE;
  Guarded m = {.bytes = bytes, .map_bytes = inner + 2 * PAGE, .at_end = at_end};
  m.map = mmap(NULL, m.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m.map == MAP_FAILED || mprotect(m.map, PAGE, PROT_NONE) || mprotect(m.map + PAGE + inner, PAGE, PROT_NONE))
    exit(FAILED);
  memset(m.map + PAGE, CANARY, inner);
  m.data = m.map + PAGE + (at_end ? inner - bytes : 0);
  return m;
}

static bool untouched(const Guarded *m) {
  const char *end = m->map + m->map_bytes - PAGE;
  for (const char *p = m->map + PAGE; p < end; p++)
    if ((p < m->data || p >= m->data + m->bytes) && (unsigned char)*p != CANARY) return false;
  return true;
}

/* ---- one kernel -------------------------------------------------------------------------------------------------- */

static int64_t param_bytes(const Param *p) { return (p->count < 1 ? 1 : p->count) * (int64_t)nereid_dtype_bytes(p->t); }
static bool is_array(const Param *p) { return p->kind == PARAM_IN || p->kind == PARAM_OUT; }

static const char *device_name = "cpu:1"; /* what is compared with the interpreter */

/* On a GPU two arguments are one array or none of each other's: they do not overlap in part (docs/guide/gpu.md). */
static int64_t alias_shift(const Param *p) { return strncmp(device_name, "cpu", 3) ? 0 : p->i; }

/* places: the arrays by parameter. */
static nereid_arg argument(const Param *p, void *const *places, int i) {
  switch (p->kind) {
    case PARAM_ALIAS:
      return nereid_pointer((char *)places[p->of] + alias_shift(p) * (int64_t)nereid_dtype_bytes(p->t), p->t);
    case PARAM_INT: return nereid_int(p->i);
    case PARAM_FLOAT: return nereid_float(p->f);
    case PARAM_BOOL: return nereid_bool(p->i != 0);
    case PARAM_CONSTEXPR: return nereid_constexpr_int(p->i);
    default: return nereid_pointer(places[i], p->t);
  }
}

/* The first element that differs by more than it may, or -1. */
static int64_t first_difference(const Param *p, const char *got, const char *want) {
  int64_t item = (int64_t)nereid_dtype_bytes(p->t);
  for (int64_t i = 0; i * item < param_bytes(p); i++) {
    const char *a = got + i * item, *b = want + i * item;
    if (!memcmp(a, b, (size_t)item)) continue;
    if (!is_float(p->t)) return i;
    double x = nereid_dtype_load(p->t, a), y = nereid_dtype_load(p->t, b);
    if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= p->tolerance + p->relative * fabs(y)) continue;
    return i;
  }
  return -1;
}

static void print_element(char *out, size_t n, const Param *p, const char *data, int64_t i) {
  const char *at = data + i * (int64_t)nereid_dtype_bytes(p->t);
  if (is_float(p->t)) {
    snprintf(out, n, "%.17g", nereid_dtype_load(p->t, at));
    return;
  }
  int64_t v = 0;
  memcpy(&v, at, nereid_dtype_bytes(p->t));
  int shift = 64 - 8 * (int)nereid_dtype_bytes(p->t);
  if (is_signed(p->t)) snprintf(out, n, "%ld", (long)((int64_t)((uint64_t)v << shift) >> shift));
  else snprintf(out, n, "%lu", (unsigned long)v);
}

typedef struct Run {        /* of a kernel on a device, in arrays of its own */
  Guarded host[MAX_PARAMS]; /* what `cpu` works on; other devices get copies */
  void *on_device[MAX_PARAMS];
} Run;

static void run_begin(Run *r, const RandomKernel *k, uint64_t seed) {
  *r = (Run){0};
  for (int i = 0; i < k->param_count; i++) {
    const Param *p = &k->params[i];
    if (!is_array(p)) continue;
    r->host[i] = guarded((size_t)param_bytes(p), p->place_at_end);
    random_fill(p, r->host[i].data, seed * 1000 + (uint64_t)i);
  }
}

static void run_end(Run *r, const RandomKernel *k) {
  for (int i = 0; i < k->param_count; i++)
    if (is_array(&k->params[i])) munmap(r->host[i].map, r->host[i].map_bytes);
}

/* What the arrays hold then is in r->host. */
static nereid_status run_on(Run *r, nereid_device *device, bool in_place, const RandomKernel *k, const char *text,
                            nereid_error **err) {
  nereid_module *module = NULL;
  nereid_status status = nereid_module_load_string("kernel.py", text, &module, err);
  for (int i = 0; i < k->param_count && !status; i++) {
    int64_t bytes = param_bytes(&k->params[i]);
    if (!is_array(&k->params[i])) continue;
    r->on_device[i] = in_place ? r->host[i].data : NULL;
    if (in_place) continue;
    status = nereid_alloc(device, bytes, &r->on_device[i], err);
    if (!status) status = nereid_copy_to_device(device, r->on_device[i], r->host[i].data, bytes, err);
  }
  nereid_arg args[MAX_PARAMS];
  for (int i = 0; i < k->param_count; i++) args[i] = argument(&k->params[i], r->on_device, i);
  nereid_options options = {.num_warps = k->num_warps,
                            .num_stages = k->num_stages,
                            .num_ctas = k->num_ctas,
                            .check_races = true,
                            .persist = k->persist,
                            .specialize = k->specialize,
                            .without = k->without};
  if (!status) status = nereid_launch(device, NULL, module, "kernel", k->grid, args, k->param_count, &options, err);
  if (!status) status = nereid_synchronize(device, err);
  for (int i = 0; i < k->param_count && !in_place; i++) {
    const Param *p = &k->params[i];
    if (is_array(p) && !status)
      status = nereid_copy_to_host(device, r->host[i].data, r->on_device[i], param_bytes(p), err);
    if (is_array(p)) nereid_free(device, r->on_device[i]);
  }
  nereid_module_free(module);
  return status;
}

static State compare(const Run *got, const Run *want, const RandomKernel *k, char *detail) {
  for (int i = 0; i < k->param_count; i++) {
    const Param *p = &k->params[i];
    if (!is_array(p)) continue;
    int64_t at = first_difference(p, got->host[i].data, want->host[i].data);
    if (at >= 0) {
      char x[40], y[40];
      print_element(x, sizeof x, p, got->host[i].data, at), print_element(y, sizeof y, p, want->host[i].data, at);
      snprintf(detail, DETAIL,
               "%s (%s, %ld elements): element %ld is %s on %s and %s on interp; tolerance %g + %g relative\n", p->name,
               nereid_dtype_name(p->t), (long)p->count, (long)at, x, device_name, y, p->tolerance, p->relative);
      return DIFFERS;
    }
    if (!untouched(&got->host[i])) {
      snprintf(detail, DETAIL, "%s: the kernel wrote beside the array on %s\n", p->name, device_name);
      return DIFFERS;
    }
  }
  return AGREES;
}

static int refused; /* --allocations: so many of a kernel's are refused, each alone and with all after it */

/* A run with an allocation refused: it fails cleanly, or agrees. */
static State run_refused(nereid_device *device, bool in_place, const RandomKernel *k, const char *text, uint64_t seed,
                         const Run *want, long n, bool later, char *detail) {
  Run r;
  nereid_error *err = NULL;
  run_begin(&r, k, seed);
  malloc_refuse(n, later);
  nereid_status status = run_on(&r, device, in_place, k, text, &err);
  malloc_refuse(0, false);
  State state = AGREES;
  if (!status) state = compare(&r, want, k, detail);
  else if (status == NEREID_INTERNAL || !err) state = FAILED, snprintf(detail, DETAIL, "%s", nereid_error_text(err));
  if (state != AGREES)
    snprintf(detail + strlen(detail), DETAIL - strlen(detail), "with allocation %ld%s refused\n", n,
             later ? " and all after it" : "");
  nereid_error_free(err);
  run_end(&r, k);
  return state;
}

static State run_kernel(const RandomKernel *k, const char *text, uint64_t seed, char *detail) {
  nereid_error *err = NULL;
  nereid_device *interp = NULL, *device = NULL;
  bool in_place = !strncmp(device_name, "cpu", 3);
  Run want, got;
  run_begin(&want, k, seed), run_begin(&got, k, seed);
  State state = FAILED;
  if (nereid_device_open("interp", &interp, &err) || nereid_device_open(device_name, &device, &err)) goto out;
  state = REFUSED;
  if (run_on(&want, interp, false, k, text, &err)) goto out;
  state = FAILED;
  malloc_refuse(0, false);
  if (run_on(&got, device, in_place, k, text, &err)) goto out;
  long count = malloc_count();
  state = compare(&got, &want, k, detail);
  if (refused && state == AGREES && !count) {
    state = FAILED;
    snprintf(detail, DETAIL, "the library allocates elsewhere than where it can be refused\n");
  }
  for (int i = 0; i < 2 * refused && state == AGREES; i++)
    state = run_refused(device, in_place, k, text, seed, &want,
                        1 + (long)((seed * 7919 + (uint64_t)i * 104729) % (uint64_t)count), i % 2, detail);
out:
  if (err) snprintf(detail, DETAIL, "%s", nereid_error_text(err));
  nereid_error_free(err);
  run_end(&want, k), run_end(&got, k);
  nereid_device_close(interp), nereid_device_close(device);
  return state;
}

static pid_t start(const RandomKernel *k, const char *text, uint64_t seed, char *detail) {
  *detail = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(TIMEOUT_S * (1 + 2 * (unsigned)refused));
    exit(run_kernel(k, text, seed, detail)); /* not _exit: the sanitizers report leaks here */
  }
  return pid;
}

static State state_of(int status, char *detail) {
  if (WIFEXITED(status) && WEXITSTATUS(status) < CRASHED) return (State)WEXITSTATUS(status);
  size_t n = strlen(detail);
  if (WIFSIGNALED(status))
    snprintf(detail + n, DETAIL - n, "ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else snprintf(detail + n, DETAIL - n, "ended with status %d\n", WEXITSTATUS(status));
  return CRASHED;
}

static State run_apart(const RandomKernel *k, const char *text, uint64_t seed, char *detail) {
  int status = 0;
  pid_t pid = start(k, text, seed, detail);
  if (pid < 0 || waitpid(pid, &status, 0) < 0) return FAILED;
  return state_of(status, detail);
}

/* ---- cutting down ------------------------------------------------------------------------------------------------ */

static int indent_of(const char *line) { return *line == '\n' ? 1000 : (int)strspn(line, " "); }

/* The text without `count` statements (each its line and the deeper ones that follow) from `from` on. */
static char *without(const char *text, const char *from, int count) {
  const char *end = from;
  for (int indent = indent_of(from); count > 0 && *end && indent_of(end) >= indent; count--)
    for (end = strchr(end, '\n') + 1; *end && indent_of(end) > indent; end = strchr(end, '\n') + 1) {}
  char *out = malloc(strlen(text) + 1);
  if (!out) return NULL;
  memcpy(out, text, (size_t)(from - text));
  strcpy(out + (from - text), end);
  return out;
}

static bool is_statement(const char *line) { return *line == ' ' || !strncmp(line, "def helper", 10); }

/* Takes statements away, from the end on and many at a time first, while the kernel still does the same. */
static char *minimise(const RandomKernel *k, uint64_t seed, State state, char *detail) {
  char *text = strdup(k->text), *said = malloc(DETAIL);
  int tries = 200;
  for (int count = 16; count > 0 && text && said; count /= 2)
    for (size_t at = strlen(text); at-- > 0 && tries > 0;) {
      if (at > strlen(text) || (at && text[at - 1] != '\n') || !is_statement(text + at)) continue;
      char *less = without(text, text + at, count);
      if (!less) break;
      tries--;
      snprintf(said, DETAIL, "%s", detail);
      State s = run_apart(k, less, seed, detail);
      if (s == state && (state != REFUSED || !strncmp(said, detail, 40))) free(text), text = less;
      else free(less), snprintf(detail, DETAIL, "%s", said);
    }
  free(said);
  return text;
}

static void print_kernel(const RandomKernel *k, const char *text) {
  const char *body = strstr(text, "def kernel(");
  body = body ? strchr(body, '\n') : NULL;
  printf("%s", text);
  printf("# grid %ld x %ld x %ld;", (long)k->grid[0], (long)k->grid[1], (long)k->grid[2]);
  if (k->num_warps) printf(" %d warps,", k->num_warps);
  if (k->num_stages) printf(" %d stages,", k->num_stages);
  if (k->num_ctas) printf(" %d ctas,", k->num_ctas);
  if (k->persist) printf(" persist,");
  if (k->specialize) printf(" specialize,");
  if (k->without) printf(" without %s,", k->without);
  for (int i = 0; i < k->param_count; i++) {
    const Param *p = &k->params[i];
    if (!body || !strstr(body, p->name)) continue;
    if (is_array(p))
      printf(" %s: %s[%ld]%s", p->name, nereid_dtype_name(p->t), (long)p->count,
             p->place_at_end ? " at the end of a page" : "");
    else if (p->kind == PARAM_ALIAS) printf(" %s: %s + %ld", p->name, k->params[p->of].name, (long)alias_shift(p));
    else if (p->kind == PARAM_FLOAT) printf(" %s = %g", p->name, p->f);
    else printf(" %s = %ld", p->name, (long)p->i);
    printf(",");
  }
  printf("\n");
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t kernel_seed(uint64_t seed, int64_t i) { return seed * 1000003 + (uint64_t)i; }

static void report(uint64_t seed, int64_t i, State state, char *detail, bool whole) {
  RandomKernel k;
  random_kernel_make(&k, kernel_seed(seed, i));
  printf("\nkernel %ld of seed %lu %s: %s", (long)i, (unsigned long)seed, state_names[state], detail);
  char *text = whole ? NULL : minimise(&k, kernel_seed(seed, i), state, detail);
  if (text) printf("cut down: %s", detail);
  print_kernel(&k, text ? text : k.text);
  printf("again: random_kernels 1 %lu %ld\n", (unsigned long)seed, (long)i);
  free(text);
  random_kernel_free(&k);
}

int main(int argc, char **argv) {
  int64_t numbers[3] = {60, 1, 0};
  int given = 0, jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), reported = 0;
  bool print = false, here = false, whole = false;
  for (int i = 1; i < argc; i++) {
    char *end = "";
    if (!strcmp(argv[i], "--print")) print = true;
    else if (!strcmp(argv[i], "--here")) here = true;
    else if (!strcmp(argv[i], "--whole")) whole = true;
    else if (!strcmp(argv[i], "--device") && i + 1 < argc) device_name = argv[++i];
    else if (!strcmp(argv[i], "--allocations") && i + 1 < argc) refused = (int)strtol(argv[++i], &end, 10);
    else if (!strcmp(argv[i], "-j") && i + 1 < argc) jobs = (int)strtol(argv[++i], &end, 10);
    else if (given < 3) numbers[given++] = strtoll(argv[i], &end, 10);
    else end = argv[i];
    if (*end)
      return fprintf(stderr, "usage: random_kernels COUNT [SEED [FIRST]] [-j JOBS] [--device D] [--allocations N] "
                             "[--print | --here | --whole]\n"),
             2;
  }
  int64_t count = numbers[0], first = numbers[2], next = 0, done = 0;
  uint64_t seed = (uint64_t)numbers[1];
  if (jobs < 1) jobs = 1;
  if (jobs > MAX_JOBS) jobs = MAX_JOBS;
  /* nothing is kept: every kernel is new; but one that runs again and again */
  if (!refused) setenv("NEREID_CACHE_DIR", "/dev/null/none", 1);
  const char *sm = strstr(device_name, "sm_");
  if (sm) gen_sm = atoi(sm + 3);
  else if (!strncmp(device_name, "sim", 3) || !strncmp(device_name, "cuda", 4)) gen_sm = 90;
  /* one kernel after the other in this process: what the device costs to open is paid once */
  nereid_device *held = NULL;
  if (here && nereid_device_open(device_name, &held, NULL))
    return fprintf(stderr, "there is no device %s\n", device_name), 2;
  for (int64_t i = first; (print || here) && i < first + count; i++) {
    RandomKernel k;
    char detail[DETAIL] = "";
    random_kernel_make(&k, kernel_seed(seed, i));
    if (print) print_kernel(&k, k.text);
    if (here) printf("%ld %s %s\n", (long)i, state_names[run_kernel(&k, k.text, kernel_seed(seed, i), detail)], detail);
    random_kernel_free(&k);
  }
  nereid_device_close(held);
  if (print || here) return 0;
  details = mmap(NULL, DETAIL * MAX_JOBS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (details == MAP_FAILED) return fprintf(stderr, "out of memory\n"), 2;
  struct {
    pid_t pid;
    int64_t i;
    RandomKernel k;
  } running[MAX_JOBS] = {0};
  int64_t states[STATE_COUNT] = {0};
  struct {
    int64_t i;
    State state;
    char *detail;
  } *bad = NULL;
  int bad_count = 0;
  double begin = seconds(), said = begin;
  while (done < count) {
    for (int j = 0; j < jobs && next < count; j++) {
      if (running[j].pid) continue;
      running[j].i = first + next++;
      random_kernel_make(&running[j].k, kernel_seed(seed, running[j].i));
      running[j].pid = start(&running[j].k, running[j].k.text, kernel_seed(seed, running[j].i), details[j]);
      if (running[j].pid < 0) return perror("fork"), 2;
    }
    int status;
    pid_t pid = wait(&status);
    for (int j = 0; j < jobs; j++) {
      if (running[j].pid != pid) continue;
      State s = state_of(status, details[j]);
      states[s]++, done++;
      if (s != AGREES) {
        bad = realloc(bad, sizeof *bad * (size_t)(bad_count + 1));
        if (!bad) return fprintf(stderr, "out of memory\n"), 2;
        bad[bad_count].i = running[j].i, bad[bad_count].state = s, bad[bad_count++].detail = strdup(details[j]);
        printf("kernel %ld %s: %.*s\n", (long)running[j].i, state_names[s], (int)strcspn(details[j], "\n"), details[j]);
      }
      random_kernel_free(&running[j].k);
      running[j].pid = 0;
    }
    if (seconds() - said > 10) {
      said = seconds();
      printf("%ld of %ld kernels, %ld agree, %.0f s\n", (long)done, (long)count, (long)states[AGREES], said - begin);
      fflush(stdout);
    }
  }
  for (int i = 0; i < bad_count; i++) {
    if (reported++ < 8) {
      snprintf(details[0], DETAIL, "%s", bad[i].detail ? bad[i].detail : "");
      report(seed, bad[i].i, bad[i].state, details[0], whole);
    }
    free(bad[i].detail);
  }
  free(bad);
  printf("%ld random kernels of seed %lu: %ld agree, %ld differ, %ld refused by the interpreter, %ld fail on the "
         "device, %ld crashed or hung; %.0f s\n",
         (long)count, (unsigned long)seed, (long)states[AGREES], (long)states[DIFFERS], (long)states[REFUSED],
         (long)states[FAILED], (long)states[CRASHED], seconds() - begin);
  return states[AGREES] == count ? 0 : 1;
}
