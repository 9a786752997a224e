/* libnereid-prof.so in programs that end in every way: what they print, return and leave behind. The programs are this
 * one, told by its arguments what to be. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "prof/record/cupti_api.h"
#include "prof/prof.h"

#include "fakes/cupti.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- the programs ------------------------------------------------------------------------------------------------ */

static int64_t cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
/* The sampler looks for new threads when the machine lets it: on a busy one that may be late. What counts samples waits
 * for its timer, which the kernel lists as "notify: signal/tid.1234". Where it lists none, nothing is waited for. */
static void await_timer(void) {
  static __thread pid_t sampled; /* 0, or this thread: a child of fork has its parent's */
  pid_t self = gettid();
  char want[32], text[8192];
  snprintf(want, sizeof want, "/tid.%d\n", self);
  for (int i = 0; i < 300000 && sampled != self && getenv("NEREID_PROF_DIR"); i++) {
    int fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    if (strstr(text, want)) sampled = self;
    else usleep(2000);
  }
}
__attribute__((noinline)) static double burn(int ms) { /* of CPU time */
  volatile double x = 1;
  await_timer();
  for (int64_t until = cpu_now() + ms * INT64_C(1000000); cpu_now() < until;)
    for (int i = 0; i < 20000; i++) x = x * 1.0000001;
  return x;
}
/* Through pointers, so that no compiler makes copies of the two for their arguments, under other names. */
static double (*volatile burn_it)(int) = burn;
__attribute__((noinline)) static double burn_around(int ms) { return burn_it(ms) + 1; }
static double (*volatile burn_around_it)(int) = burn_around;
static void *burn_thread(void *p) { return burn_around_it(150), p; }

static void *leave_thread(void *p) {
  burn(50);
  _exit(6);
}

/* NVTX's side of the tables, as its header has them. */
typedef void (*Any)(void);
static Any core[16], core2[16], *core_table[17], *core2_table[17];
static int table_of(int module, Any ***out, unsigned *count) {
  if (module != 1 && module != 5) return 0;
  *out = module == 1 ? core_table : core2_table, *count = 16;
  return 1;
}
static const struct {
  size_t size;
  int (*table)(int, Any ***, unsigned *);
} callbacks = {sizeof callbacks, table_of};
static const void *export_table(uint32_t id) { return id == 1 ? &callbacks : NULL; }
typedef struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} Attributes;

static int be_nvtx(void) {
  for (int i = 0; i < 16; i++) core_table[i] = &core[i], core2_table[i] = &core2[i];
  void *lib = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
  int (*init)(const void *(*)(uint32_t)) =
      lib ? (int (*)(const void *(*)(uint32_t)))dlsym(lib, "InitializeInjectionNvtx2") : NULL;
  if (!init || !init(export_table)) return 9;
  int (*push)(const char *) = (int (*)(const char *))core[9];
  int (*pop)(void) = (int (*)(void))core[11];
  /* the last has no push */
  if (push("outer") != 0 || push("inner") != 1 || pop() != 1 || pop() != 0 || pop() >= 0) return 8;
  uint64_t (*range_start)(const char *) = (uint64_t(*)(const char *))core[5];
  void (*range_end)(uint64_t) = (void (*)(uint64_t))core[7];
  uint64_t id = range_start("started");
  range_end(id);
  range_end(id), range_end(12345);
  ((void (*)(const char *))core[2])("a mark");
  void *domain = ((void *(*)(const char *))core2[12])("domain");
  const void *text = ((void *(*)(void *, const char *))core2[10])(domain, "registered");
  Attributes a = {.version = 3, .size = 48, .message_type = 3, .message = text};
  ((int (*)(void *, const Attributes *))core2[4])(domain, &a);
  push("of no domain");
  ((int (*)(void *))core2[5])(domain);
  pop();
  for (int i = 0; i < 300; i++) push("deep"); /* left open */
  return 0;
}

/* What is a second old is in the file; on a busy machine, some seconds. */
static void await_written(int64_t bytes) {
  char path[300];
  struct stat st;
  snprintf(path, sizeof path, "%s/%d.trace", getenv("NEREID_PROF_DIR"), getpid());
  for (int i = 0; i < 12000 && (stat(path, &st) || st.st_size < bytes); i++) usleep(50000);
}

static int be_cuda(const char *end) { /* what cuInit does; then a launch */
  void *lib = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_LAZY), *cupti = dlopen(FAKE_CUPTI, RTLD_NOW);
  int (*init)(void) = lib ? (int (*)(void))dlsym(lib, "InitializeInjection") : NULL;
  if (!init || init() != 1 || init() != 1) return 9;
  void (*record)(const void *, size_t) = (void (*)(const void *, size_t))dlsym(cupti, "fake_cupti_record");
  uint64_t now = (uint64_t)trace_clock();
  if (!strcmp(end, "missing")) return 0;
  for (uint32_t i = 1; i <= 100; i++) {
    record(&(CuptiApiRecord){.kind = CUPTI_DRIVER,
                             .function = 3,
                             .thread = (uint32_t)gettid(),
                             .start = now,
                             .end = now + 5,
                             .correlation = i},
           sizeof(CuptiApiRecord));
    record(
        &(CuptiKernel){
            .kind = CUPTI_CONCURRENT_KERNEL, .start = now + 10, .end = now + 20, .name = "kernel", .correlation = i},
        sizeof(CuptiKernel));
  }
  if (!strcmp(end, "_exit")) _exit(5);
  if (!strcmp(end, "exec")) execl("/proc/self/exe", "test_inject", "--be", "quiet", (char *)NULL);
  if (!strcmp(end, "fork")) {
    pid_t child = fork();
    if (!child) exit(burn(60) < 0);
    int status;
    waitpid(child, &status, 0);
    return status ? 7 : 0;
  }
  if (!strcmp(end, "wait")) {
    await_written(2500);
    kill(getpid(), SIGKILL);
  }
  return 0;
}

/* A daemon sets every signal to its default; and a program may use any of them, that of samples too. */
static volatile sig_atomic_t handled, ticks;
static void count_signal(int number) { handled++; }
static void count_tick(int number, siginfo_t *info, void *context) { ticks += info->si_value.sival_int == 77; }
static int free_signal(void) { return SIGRTMAX - 4; } /* what the sampler takes, from the top */
static int be_signals(void) {
  for (int i = 1; i < 65; i++) signal(i, SIG_DFL);
  burn(400);
  for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
    struct sigaction a = {.sa_handler = count_signal}, old;
    if (sigaction(i, &a, &old) || old.sa_handler != SIG_DFL || signal(i, count_signal) != count_signal) return 1;
    raise(i);
    if (handled != i - SIGRTMIN + 1) return 2;
  }
  timer_t timer;
  struct sigaction a = {.sa_sigaction = count_tick, .sa_flags = SA_SIGINFO};
  if (sigaction(free_signal(), &a, NULL)) return 3;
  if (timer_create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_signo = free_signal(), .sigev_value.sival_int = 77},
                   &timer))
    return 4;
  timer_settime(timer, 0, &(struct itimerspec){{0, 1000000}, {0, 1000000}}, NULL);
  while (ticks < 20) burn(10);
  burn(600);
  return handled == SIGRTMAX - SIGRTMIN + 1 ? 25 : 5;
}

static volatile char page[8192] __attribute__((aligned(4096)));

static int be(int argc, char **argv) {
  const char *what = argv[2];
  if (!strcmp(what, "quiet")) return 0;
  if (!strcmp(what, "burn")) return printf("out\n"), fprintf(stderr, "err\n"), burn_around_it(300), 42;
  if (!strcmp(what, "threads")) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, burn_thread, NULL), pthread_setname_np(t[i], "worker");
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    return 0;
  }
  if (!strcmp(what, "short threads")) { /* thousands, each shorter than the sampler looks */
    for (int i = 0; i < 3000; i++) {
      pthread_t t;
      if (pthread_create(&t, NULL, (void *(*)(void *))(void *)usleep, (void *)10)) return 1;
      pthread_join(t, NULL);
    }
    return 0;
  }
  if (!strcmp(what, "fork")) {
    for (int i = 0; i < 3; i++)
      if (!fork()) exit(burn(400) > 0 ? 0 : 1);
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    return bad ? 1 : 0;
  }
  if (!strcmp(what, "fork thread")) { /* while others sample and write */
    pthread_t t;
    pthread_create(&t, NULL, burn_thread, NULL);
    for (int i = 0; i < 100; i++) {
      pid_t child = fork();
      if (!child) _exit(i % 7);
      int status;
      waitpid(child, &status, 0);
      if (WEXITSTATUS(status) != i % 7) return 1;
    }
    pthread_join(t, NULL);
    return 0;
  }
  if (!strcmp(what, "vfork")) {
    burn(60);
    for (int i = 0; i < 20; i++) {
      pid_t child = vfork();
      if (!child) {
        execl("/nonexistent/program", "program", (char *)NULL);
        execlp("true", "true", (char *)NULL);
        _exit(127);
      }
      int status;
      waitpid(child, &status, 0);
      if (status) return 1;
    }
    return system("exit 3") >> 8;
  }
  if (!strcmp(what, "exec")) {
    burn(400);
    if (execl("/nonexistent/program", "program", (char *)NULL) != -1 || errno != ENOENT) return 1;
    char junk[] = "/tmp/nereid-junk-XXXXXX"; /* one that begins, and fails */
    int fd = mkstemp(junk);
    if (write(fd, "junk", 4) != 4 || fchmod(fd, 0755) || close(fd) || execl(junk, junk, (char *)NULL) != -1 ||
        errno != ENOEXEC || unlink(junk))
      return 2;
    burn(400); /* it goes on being profiled */
    char *args[] = {argv[0], "--be", "environment", NULL}, *env[64] = {"NEREID_TEST_ENV=yes"};
    int n = 1;
    for (char **e = environ; *e && n < 62; e++)
      if (!strncmp(*e, "NEREID_", 7) || !strncmp(*e, "LD_PRELOAD", 10) || !strncmp(*e, "ASAN", 4)) env[n++] = *e;
    if (argc > 3) execle("/proc/self/exe", args[0], args[1], args[2], (char *)NULL, env);
    execve("/proc/self/exe", args, env);
  }
  if (!strcmp(what, "environment")) return burn(60), getenv("NEREID_TEST_ENV") ? 11 : 12;
  if (!strcmp(what, "_exit")) burn(400), _exit(5);
  if (!strcmp(what, "quick_exit")) burn(400), quick_exit(8);
  if (!strcmp(what, "_exit thread")) {
    pthread_t t;
    pthread_create(&t, NULL, leave_thread, NULL);
    pause();
  }
  if (!strcmp(what, "segv")) burn(400), mprotect((void *)(uintptr_t)page, 4096, PROT_NONE), page[0] = 1;
  if (!strcmp(what, "abort")) burn(400), abort();
  if (!strcmp(what, "own handler")) return signal(SIGSEGV, _exit), burn(400), raise(SIGSEGV), 1;
  if (!strcmp(what, "kill")) {
    burn(900);
    await_written(2500);
    kill(getpid(), SIGKILL);
  }
  if (!strcmp(what, "term")) burn(900), raise(SIGTERM);
  /* as Python ends */
  if (!strcmp(what, "int")) return signal(SIGINT, count_signal), burn(400), signal(SIGINT, SIG_DFL), raise(SIGINT), 1;
  if (!strcmp(what, "dispositions")) { /* what is at its default looks so */
    for (int i = 1; i < 32; i++) {
      struct sigaction a;
      if (!sigaction(i, NULL, &a) && (a.sa_handler != SIG_DFL || a.sa_flags)) return i;
    }
    if (signal(SIGSEGV, SIG_IGN) != SIG_DFL || signal(SIGSEGV, SIG_DFL) != SIG_IGN ||
        signal(SIGTERM, count_signal) != SIG_DFL || signal(SIGTERM, SIG_DFL) != count_signal)
      return 70;
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < 65; i++)
      if (sigismember(&mask, i) == 1) return 100 + i;
    for (int fd = 3; fd < 100; fd++) {
      char link[32], to[300] = "";
      snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
      if (readlink(link, to, sizeof to - 1) > 0 && strstr(to, ".trace")) return 80;
    }
    return 0;
  }
  if (!strcmp(what, "limit")) {
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
    burn(1200);
    return 21;
  }
  if (!strcmp(what, "close")) {
    for (int fd = 0; fd < 1024; fd++) close(fd);
    burn(600);
    return 22;
  }
  if (!strcmp(what, "gone")) { /* the folder, while it runs */
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", getenv("NEREID_PROF_DIR"));
    return system(command), burn(600), 23;
  }
  if (!strcmp(what, "sleep")) { /* a sleep is not cut short */
    struct timespec left = {0, 0};
    return burn(50), nanosleep(&(struct timespec){0, 300000000}, &left) ? 1 : 24;
  }
  if (!strcmp(what, "signals")) return be_signals();
  if (!strcmp(what, "ended")) return signal(free_signal(), SIG_DFL), burn(50), raise(free_signal()), 0;
  if (!strcmp(what, "no exec")) {       /* before it did anything */
    setenv("PATH", "/usr/bin:/bin", 1); /* a folder that may not be read gives EACCES */
    if (execlp("nereid-no-such-program", "program", (char *)NULL) != -1 || errno != ENOENT) return 1;
    return burn(600), 26;
  }
  if (!strcmp(what, "nvtx")) return be_nvtx();
  if (!strcmp(what, "cuda")) return be_cuda(argv[3]);
  return 99;
}

/* ---- what they leave --------------------------------------------------------------------------------------------- */

static char folder[64];
static int fresh(void **state) {
  strcpy(folder, "/tmp/nereid-inject-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}
static int clean(void **state) {
  char command[100];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static int run(const char *what, const char *more) {
  char why[500], *argv[] = {"/proc/self/exe", "--be", (char *)what, (char *)more, NULL};
  InjectOptions o = {.sample_hz = 500, .runtime_api = true, .driver_api = true, .memory = true, .nvtx = true};
  char self[300];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0, argv[0] = self;
  int status = inject_run(PROF_LIBRARY, folder, &o, argv, why);
  if (status < 0) fail_msg("%s", why);
  return status;
}

typedef struct Left {
  int files, processes;
  bool truncated;
  long kinds[TRACE_KINDS];
  int64_t weight;       /* of the samples, ns */
  long in_burn, around; /* samples with burn innermost, of them with burn_around above */
  int threads;          /* with samples */
  char notes[2000], ranges[4000], commands[2000];
} Left;

static Left left(void) {
  Left l = {0};
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) l.files += strstr(e->d_name, ".trace") != NULL;
  if (d) closedir(d);
  char buffer[300];
  const char *why = NULL;
  TraceReader *r = l.files ? trace_open(folder, &why, buffer) : NULL;
  if (!r) return l;
  l.truncated = trace_truncated(r);
  Symbols *s = symbols_create();
  uint32_t process = 0, threads[64];
  TraceEvent e;
  while (trace_next(r, &e)) {
    if (e.process != process) l.processes++, process = e.process;
    l.kinds[e.kind]++;
    if (e.kind == TRACE_MODULE)
      symbols_add(s, e.process, trace_text(r, e.name), e.module.base, e.module.size, e.module.offset);
    if (e.kind == TRACE_PROCESS && strlen(l.commands) < 1500)
      strncat(strncat(l.commands, trace_text(r, e.name), 300), ";", 2);
    if (e.kind == TRACE_NOTE) strncat(strncat(l.notes, trace_text(r, e.name), 300), ";", 2);
    if (e.kind == TRACE_RANGE && strlen(l.ranges) < 3000) {
      char text[200];
      snprintf(text, sizeof text, "%s %d<%d;", trace_text(r, e.name), (int)e.range.id, (int)e.range.parent);
      strcat(l.ranges, text);
    }
    if (e.kind != TRACE_SAMPLE) continue;
    l.weight += e.sample.weight;
    int i = 0;
    while (i < l.threads && threads[i] != e.thread) i++;
    if (i == l.threads && i < 64) threads[l.threads++] = e.thread;
    for (uint32_t j = 0; j < e.sample.depth; j++) {
      const char *name = symbols_name(s, e.process, e.sample.stack[j] - (j > 0));
      if (strcmp(name, "burn")) continue;
      l.in_burn++;
      l.around +=
          j + 1 < e.sample.depth && !strcmp(symbols_name(s, e.process, e.sample.stack[j + 1] - 1), "burn_around");
      break;
    }
  }
  symbols_free(s);
  trace_reader_free(r);
  return l;
}
/* How many samples burn gets is the machine's affair: on a busy one many ticks are one sample of more weight. */
static Left after(const char *what, const char *more, int status) {
  assert_int_equal(run(what, more), status);
  return left();
}

static void samples(void **state) {
  Left l = after("burn", NULL, 42);
  assert_int_equal(l.files, 1);
  assert_false(l.truncated);
  assert_true(l.kinds[TRACE_SAMPLE] > 1);
  assert_true(l.weight > 150000000 && l.weight < 600000000); /* of 300 ms */
  assert_true(l.in_burn * 10 > l.kinds[TRACE_SAMPLE] * 8);
  assert_true(l.around * 10 > l.in_burn * 9);
  assert_non_null(strstr(l.notes, "this process did not use CUDA"));
}
static void threads(void **state) {
  Left l = after("threads", NULL, 0);
  assert_true(l.threads >= 4);
  assert_true(l.around * 10 > l.in_burn * 9 && l.in_burn > 2);
}
static void short_threads(void **state) { after("short threads", NULL, 0); }
static void forks(void **state) {
  Left l = after("fork", NULL, 0);
  assert_in_range(l.processes, 3, 4); /* the children; the parent, where a sample met it before it waited */
  assert_false(l.truncated);
  assert_true(l.in_burn > 2);
}
static void fork_thread(void **state) {
  assert_int_equal(after("fork thread", NULL, 0).processes, 1);
} /* children that did nothing leave nothing */
static void vforks(void **state) {
  Left l = after("vfork", NULL, 3);
  assert_int_equal(l.processes, 1);
  assert_false(l.truncated);
}
static void execs(void **state) {
  Left l = after("exec", NULL, 11);
  assert_int_equal(l.files, 2);
  assert_int_equal(l.processes, 1); /* one number, in the order of its programs */
  const char *first = strstr(l.commands, "--be exec"), *second = strstr(l.commands, "--be environment");
  assert_true(first && second && first < second);
  assert_false(l.truncated);
  assert_true(l.in_burn > 4); /* after an exec that failed as well */
}
static void execle_too(void **state) { assert_int_equal(after("exec", "execle", 11).files, 2); }
static void ends(void **state) {
  assert_false(after("_exit", NULL, 5).truncated);
  Left l = after("quick_exit", NULL, 8);
  assert_false(l.truncated);
  assert_int_equal(l.processes, 2);
  assert_false(after("_exit thread", NULL, 6).truncated);
}
static void crashes(void **state) {
  Left l = after("segv", NULL, 128 + SIGSEGV);
  assert_true(l.truncated && l.in_burn > 1);
  assert_non_null(strstr(l.notes, "the process was ended by signal 11 (Segmentation fault)"));
  clean(NULL), fresh(NULL);
  l = after("abort", NULL, 128 + SIGABRT);
  assert_true(l.truncated && l.in_burn > 1);
  clean(NULL), fresh(NULL);
  l = after("own handler", NULL, SIGSEGV); /* the program's handler, which leaves */
  assert_false(l.truncated);
}
static void killed(void **state) { /* no chance to write: what was there before the last moment is */
  Left l = after("kill", NULL, 128 + SIGKILL);
  assert_true(l.truncated && l.in_burn > 2);
  clean(NULL), fresh(NULL);
  l = after("term", NULL, 128 + SIGTERM); /* this one can be seen coming */
  assert_true(!l.truncated && l.in_burn > 2 && strstr(l.notes, "the process was ended by signal 15 (Terminated)"));
}
static void interrupted(void **state) {
  Left l = after("int", NULL, 128 + SIGINT);
  assert_true(!l.truncated && l.in_burn > 1 && strstr(l.notes, "the process was ended by signal 2 (Interrupt)"));
}
static void unseen(void **state) {
  for (int i = 1; i < 32; i++) signal(i, SIG_DFL); /* a shell lets what it runs in the background ignore some */
  after("dispositions", NULL, 0);
  after("sleep", NULL, 24);
}
static void shared_signal(void **state) {
  Left l = after("signals", NULL, 25);
  assert_true(l.in_burn > 4 && !l.truncated);
  after("ended", NULL, 128 + SIGRTMAX - 4);
}
static void no_exec(void **state) {
  Left l = after("no exec", NULL, 26);
  assert_true(l.files == 1 && l.in_burn > 2 && !l.truncated);
}
static void no_room(void **state) {
  Left l = after("limit", NULL, 21);
  assert_int_equal(l.files, 1);
  assert_true(l.kinds[TRACE_PROCESS] >= 1);
}
static void closed(void **state) {
  Left l = after("close", NULL, 22);
  assert_true(l.in_burn > 2 && !l.truncated);
}
static void gone(void **state) { assert_int_equal(after("gone", NULL, 23).files, 0); }

static void nvtx(void **state) {
  Left l = after("nvtx", NULL, 0);
  assert_string_equal(l.ranges, "inner 2<1;outer 1<0;started 3<0;a mark 4<0;registered 5<0;of no domain 6<5;");
}

static void cuda(void **state) {
  setenv("NEREID_CUPTI", FAKE_CUPTI, 1);
  static const char *const all[] = {"exit", "_exit", "exec", "fork"};
  for (int i = 0; i < 4; i++) {
    Left l = after("cuda", all[i], i == 1 ? 5 : 0);
    if (l.kinds[TRACE_KERNEL] != 100 || l.kinds[TRACE_CALL] != 100 || l.truncated)
      fail_msg("%s: %ld kernels, %ld calls", all[i], l.kinds[TRACE_KERNEL], l.kinds[TRACE_CALL]);
    assert_null(strstr(l.notes, "did not use CUDA") && i != 2 && i != 3 ? l.notes : NULL);
    assert_int_equal(l.processes, i == 3 ? 2 : 1);
    clean(NULL), fresh(NULL);
  }
  Left l = after("cuda", "wait", 128 + SIGKILL);
  assert_true(l.kinds[TRACE_KERNEL] == 100 && l.truncated);
}
static void cuda_missing(void **state) {
  setenv("NEREID_CUPTI", "/nonexistent/libcupti.so", 1);
  Left l = after("cuda", "missing", 0);
  assert_non_null(strstr(l.notes, "the GPU was not recorded: NEREID_CUPTI names a library that does not open"));
  assert_null(strstr(l.notes, "did not use CUDA"));
}

/* LD_PRELOAD takes a space and a colon for the end of a path. */
static void folder_with_a_space(void **state) {
  char command[2000], library[200], place[100], why[500], self[300];
  snprintf(place, sizeof place, "%s/a: b", folder);
  snprintf(library, sizeof library, "%s/libnereid-prof.so", place);
  snprintf(command, sizeof command, "mkdir '%s' && cp '%s' '%s'", place, PROF_LIBRARY, library);
  assert_int_equal(system(command), 0);
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  char *argv[] = {self, "--be", "burn", NULL};
  if (inject_run(library, folder, &(InjectOptions){.sample_hz = 500}, argv, why) != 42) fail_msg("%s", why);
  assert_true(left().kinds[TRACE_SAMPLE] > 1);
  const char *before = getenv("TMPDIR");
  char *kept = before ? strdup(before) : NULL;
  setenv("TMPDIR", place, 1);
  assert_int_equal(inject_run(library, folder, &(InjectOptions){.sample_hz = 500}, argv, why), -1);
  assert_non_null(strstr(why, "set TMPDIR"));
  if (kept) setenv("TMPDIR", kept, 1);
  else unsetenv("TMPDIR");
  free(kept);
}

static void not_started(void **state) {
  char why[500], *none[] = {NULL}, *missing[] = {"nereid-no-such-program", NULL};
  setenv("PATH", "/usr/bin:/bin", 1);
  InjectOptions o = {.sample_hz = 100};
  assert_int_equal(inject_run(PROF_LIBRARY, folder, &o, none, why), -1);
  assert_string_equal(why, "no program was given");
  assert_int_equal(inject_run(PROF_LIBRARY, folder, &o, missing, why), -127);
  assert_string_equal(why, "nereid-no-such-program cannot be started: No such file or directory");
  assert_int_equal(inject_run("/nonexistent/lib.so", folder, &o, missing, why), -1);
  assert_non_null(strstr(why, "/nonexistent/lib.so is not there"));
  assert_int_equal(inject_run(PROF_LIBRARY, "/nonexistent", &o, missing, why), -1);
  assert_non_null(strstr(why, "/nonexistent is no folder that can be written"));
  o.sample_hz = 100000;
  assert_int_equal(inject_run(PROF_LIBRARY, folder, &o, missing, why), -1);
  assert_non_null(strstr(why, "from 0 (none) to 10000"));
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "--be")) return be(argc, argv);
  /* Where the sanitizers are, they shall let the program crash by itself, and come second. */
  setenv("ASAN_OPTIONS",
         "verify_asan_link_order=0:handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:detect_"
         "leaks=0",
         1);
  setenv("UBSAN_OPTIONS", "handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0", 1);
#define T(f) cmocka_unit_test_setup_teardown(f, fresh, clean)
  const struct CMUnitTest tests[] = {T(samples),       T(folder_with_a_space),
                                     T(threads),       T(short_threads),
                                     T(forks),         T(fork_thread),
                                     T(vforks),        T(execs),
                                     T(execle_too),    T(ends),
                                     T(crashes),       T(killed),
                                     T(interrupted),   T(unseen),
                                     T(shared_signal), T(no_exec),
                                     T(no_room),       T(closed),
                                     T(gone),          T(nvtx),
                                     T(cuda),          T(cuda_missing),
                                     T(not_started)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
