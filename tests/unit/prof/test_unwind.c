/* Stacks from a signal's handler: the same as libgcc's unwinder finds, through code that was made at run time as well,
 * and no crash on nonsense. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "prof/record/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 100 };
static uint64_t ours[MOST], theirs[MOST];
static volatile int our_count, their_count, signals, compared, differences;

static _Unwind_Reason_Code step(struct _Unwind_Context *c, void *p) {
  if (their_count < MOST) theirs[their_count++] = (uint64_t)_Unwind_GetIP(c);
  return _URC_NO_REASON;
}

/* Whether ours is theirs from the interrupted instruction on. Theirs ends with a 0 where the stack does. */
static void compare(const void *context) {
  our_count = unwind_interrupted(context, ours, MOST);
  their_count = 0;
  _Unwind_Backtrace(step, NULL);
  int from = 0;
  while (from < their_count && theirs[from] != ours[0]) from++;
  int n = their_count - from;
  while (n && !theirs[from + n - 1]) n--;
  compared += n > 0;
  if (n && (n != our_count || memcmp(ours, theirs + from, (size_t)n * 8))) differences++;
  signals++;
}
static void on_signal(int number, siginfo_t *info, void *context) { compare(context); }

static int fresh(void **state) {
  signals = compared = differences = 0;
  struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  return sigaction(SIGUSR1, &a, NULL) | sigaction(SIGPROF, &a, NULL);
}

#define NOINLINE __attribute__((noinline))
static NOINLINE int deep(int n) {
  volatile char space[64];
  space[n % 64] = (char)n;
  if (!n) return raise(SIGUSR1);
  return deep(n - 1) + space[n % 64];
}
static NOINLINE int with_alloca(int n) { /* a frame that only rbp knows */
  volatile char *space = __builtin_alloca((size_t)n);
  space[n - 1] = 1;
  return deep(3) + space[n - 1];
}
static int order(const void *a, const void *b) {
  static int calls;
  if (calls++ % 8 == 0) raise(SIGUSR1);
  return *(const int *)a - *(const int *)b;
}

static void same_as_libgcc(void **state) {
  deep(0), deep(10), deep(50);
  assert_true(our_count > 50);
  with_alloca(100), with_alloca(10000);
  int numbers[64];
  for (int i = 0; i < 64; i++) numbers[i] = (i * 37) % 64;
  qsort(numbers, 64, sizeof *numbers, order); /* through libc */
  assert_true(signals > 10);
  assert_int_equal(compared, signals);
  assert_int_equal(differences, 0);
}

/* At any instruction: prologues, epilogues, PLT stubs, libc's hand-written assembly. */
static void anywhere(void **state) {
  timer_t timer;
  struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
  assert_int_equal(timer_create(CLOCK_MONOTONIC, &e, &timer), 0);
  timer_settime(timer, 0, &(struct itimerspec){{0, 50000}, {0, 50000}}, NULL);
  volatile size_t sum = 0;
  char text[2048];
  for (int i = 0; i < 100000 && signals < 2000; i++) {
    memset(text, 'a' + i % 26, sizeof text - 1), text[sizeof text - 1] = 0;
    sum += strlen(text) + strtoul("12345678", NULL, 10);
    char *copy = strdup(text);
    snprintf(text, sizeof text, "%d %s %g", i, copy, i * 0.5);
    free(copy);
  }
  timer_delete(timer);
  assert_true(sum && signals > 20);
  assert_true(compared * 10 > signals * 9);
  /* the two may differ where a table is wrong by an instruction, and in the vdso */
  assert_true(differences * 100 <= signals);
}

static void within_handler(void **state) { /* a handler within a handler: through a signal's frame */
  static ucontext_t unused;
  (void)unused;
  struct sigaction a = {.sa_handler = (void (*)(int))(void *)deep, .sa_flags = SA_NODEFER};
  sigaction(SIGUSR2, &a, NULL);
  raise(SIGUSR2);
  assert_int_equal(signals, 1);
  assert_int_equal(differences, 0);
  assert_true(our_count > SIGUSR2);
}

#if defined(__x86_64__)
static uint64_t return_into; /* within the code */
static NOINLINE void called(void) { raise(SIGUSR1); }
static NOINLINE void through(const uint8_t *code, size_t n) {
  uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) skip();
  memcpy(page, code, n);
  our_count = 0;
  void (*volatile f)(void (*)(void)) = (void (*)(void (*)(void)))(void *)page;
  f(called);
  return_into = (uint64_t)(uintptr_t)page;
  munmap(page, 4096);
  int at = 0;
  while (at < our_count && (ours[at] < return_into || ours[at] >= return_into + 4096)) at++;
  assert_true(at > 0 && at + 3 < our_count);
  uint64_t here = (uint64_t)(uintptr_t)&through;
  assert_true(ours[at + 1] > here && ours[at + 1] < here + 2000); /* its caller */
}
static void made_at_run_time(void **state) {
  /* sub $8,%rsp; call *%rdi; add $8,%rsp; ret */
  static const uint8_t python_312[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
  /* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
  static const uint8_t python_313[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
  static const uint8_t saves[] = {0x53, 0x41, 0x54, 0x48, 0x81, 0xec, 0x28, 1,    0,    0,    0xff, 0xd7,
                                  0x48, 0x81, 0xc4, 0x28, 1,    0,    0,    0x41, 0x5c, 0x5b, 0xc3};
  /* not an epilogue at once: the frame pointer */
  static const uint8_t framed[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
                                   0xff, 0xd7, 0x31, 0xc0, 0x90, 0xc9, 0xc3};
  through(python_312, sizeof python_312);
  through(python_313, sizeof python_313);
  through(saves, sizeof saves);
  through(framed, sizeof framed);
}

/* Registers that make no sense. */
static void nonsense(void **state) {
  ucontext_t u;
  getcontext(&u);
  uint64_t *stack = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect((char *)stack + 4096, 4096, PROT_NONE);
  const uint64_t code[] = {(uint64_t)(uintptr_t)&deep + 8,
                           (uint64_t)(uintptr_t)&qsort + 4,
                           (uint64_t)(uintptr_t)&with_alloca + 12,
                           (uint64_t)(uintptr_t)&snprintf + 20,
                           0,
                           1,
                           4096,
                           UINT64_MAX,
                           (uint64_t)(uintptr_t)stack};
  const uint64_t places[] = {0,
                             8,
                             7,
                             (uint64_t)(uintptr_t)stack,
                             (uint64_t)(uintptr_t)stack + 4088,
                             (uint64_t)(uintptr_t)stack + 4096,
                             (uint64_t)(uintptr_t)stack + 8192,
                             UINT64_MAX - 7,
                             INT64_MAX,
                             (uint64_t)(uintptr_t)code};
  enum { CODES = sizeof code / sizeof *code, PLACES = sizeof places / sizeof *places };
  srand(3);
  for (int trial = 0; trial < 20000; trial++) {
    for (int i = 0; i < 512; i += 1 + rand() % 3)
      stack[i] = rand() % 2 ? code[rand() % CODES] + (uint64_t)(rand() % 64)
                            : places[rand() % PLACES] + 8 * (uint64_t)(rand() % 500);
    for (int i = 0; i < 23; i++)
      u.uc_mcontext.gregs[i] = (greg_t)(places[rand() % PLACES] + 8 * (uint64_t)(rand() % 4));
    u.uc_mcontext.gregs[REG_RIP] = (greg_t)(code[rand() % CODES] + (uint64_t)(rand() % 200));
    int n = unwind_interrupted(&u, ours, MOST);
    assert_true(n >= 0 && n <= MOST);
  }
  munmap(stack, 8192);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(same_as_libgcc, fresh),
    cmocka_unit_test_setup(anywhere, fresh),
    cmocka_unit_test_setup(within_handler, fresh),
#if defined(__x86_64__)
    cmocka_unit_test_setup(made_at_run_time, fresh),
    cmocka_unit_test(nonsense),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
