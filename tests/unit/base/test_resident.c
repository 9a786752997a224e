/* Coroutines, and programs that wait for each other on one thread and on several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#include <cmocka.h> /* after base.h: it makes a macro of fail */

/* ---- coroutines -------------------------------------------------------------------------------------------------- */

typedef struct Steps {
  char said[64];
  bool inside;
  Coroutine *inner;
} Steps;

static void say(Steps *s, const char *word) { strcat(s->said, word); }

static void outside(void *arg) {
  Steps *s = arg;
  s->inside |= coroutine_running() != NULL;
  say(s, "o");
}

static void count(void *arg) {
  Steps *s = arg;
  assert_ptr_equal(coroutine_argument(coroutine_running()), s);
  say(s, "1");
  coroutine_suspend();
  coroutine_outside(outside, s);
  say(s, "2");
  coroutine_suspend();
  say(s, "3");
}

static void a_coroutine_goes_on_where_it_was(void **state) {
  Steps s = {0};
  outside(&s); /* with no coroutine around */
  coroutine_outside(outside, &s);
  Coroutine *c = coroutine_create(count, &s);
  assert_non_null(c);
  assert_true(coroutine_resume(c));
  say(&s, "a");
  assert_null(coroutine_running());
  assert_true(coroutine_resume(c));
  say(&s, "b");
  assert_false(coroutine_resume(c));
  coroutine_destroy(c);
  assert_string_equal(s.said, "oo1ao2b3");
  assert_false(s.inside);
}

static void resume_another(void *arg) {
  Steps *s = arg;
  Coroutine *me = coroutine_running();
  say(s, "(");
  while (coroutine_resume(s->inner)) coroutine_suspend();
  assert_ptr_equal(coroutine_running(), me);
  say(s, ")");
}

static void a_coroutine_may_resume_another(void **state) {
  Steps s = {0}, inner = {0};
  Coroutine *c = coroutine_create(resume_another, &s);
  s.inner = coroutine_create(count, &inner);
  int times = 1;
  while (coroutine_resume(c)) times++;
  assert_int_equal(times, 3);
  assert_string_equal(s.said, "()");
  assert_string_equal(inner.said, "1o23");
  coroutine_destroy(s.inner);
  coroutine_destroy(c);
}

/* Each has its own innermost context_try, and its own stack's end. */
static bool deep(int levels) {
  volatile char room[512];
  room[0] = 0;
  bool found = stack_short() || (levels > 0 && deep(levels - 1));
  room[0]++; /* after the call, so that each level has a frame */
  return found;
}

static void fails_later(void *arg) {
  Context *cx = context_create();
  if (context_try(cx)) {
    coroutine_suspend();
    diag_fail_hint(cx, (Span){0}, NULL, "late");
  } else {
    *(bool *)arg = cx->diags.n == 1 && deep(1 << 20);
  }
  context_destroy(cx);
}

static void coroutines_have_contexts_of_their_own(void **state) {
  bool good[2] = {false};
  Coroutine *a = coroutine_create(fails_later, &good[0]), *b = coroutine_create(fails_later, &good[1]);
  assert_true(coroutine_resume(a) && coroutine_resume(b));
  assert_null(context_current());
  assert_false(coroutine_resume(a) || coroutine_resume(b));
  assert_true(good[0] && good[1]);
  assert_false(stack_short());
  coroutine_destroy(a);
  coroutine_destroy(b);
}

/* ---- residents --------------------------------------------------------------------------------------------------- */

typedef struct Test {
  Residents r;
  _Atomic int64_t value, ended, opened, closed;
  int64_t rooms; /* for states */
  int64_t most;  /* resident programs; 0: any */
  int64_t expected;
} Test;

static void *open_state(void *arg) {
  Test *t = arg;
  if (atomic_load(&t->opened) - atomic_load(&t->closed) >= t->rooms) return NULL;
  atomic_fetch_add(&t->opened, 1);
  return malloc(1);
}

static void close_state(void *arg, void *state) {
  Test *t = arg;
  atomic_fetch_add(&t->closed, 1);
  free(state);
}

static void work(void *arg, int64_t begin, int64_t end, int worker) { residents_work(arg); }

static bool run_all(Test *t, bool (*program)(void *, void *, int64_t), int64_t n, int threads,
                    _Atomic int64_t *operations) {
  t->r = (Residents){.count = n,
                     .bytes = 1,
                     .open = open_state,
                     .close = close_state,
                     .run = program,
                     .arg = t,
                     .operations = operations};
  residents_init(&t->r, threads);
  if (t->most) t->r.most = t->most;
  Pool *p = pool_create(threads);
  pool_run(p, threads, 1, work, &t->r);
  pool_destroy(p);
  assert_int_equal(t->opened, t->closed);
  return !t->r.stopped;
}

static bool waits_for_the_next(void *arg, void *state, int64_t i) { /* the last one ends first */
  Test *t = arg;
  for (bool first = true; atomic_load(&t->value) != t->r.count - 1 - i; first = false)
    if (!residents_wait(&t->r, first)) return false;
  atomic_fetch_add(&t->value, 1);
  return true;
}

static void later_programs_begin_while_earlier_ones_wait(void **state) {
  for (int threads = 1; threads <= 4; threads += 3) {
    Test t = {.rooms = 1000};
    assert_true(run_all(&t, waits_for_the_next, 100, threads, NULL));
    assert_int_equal(t.value, 100);
  }
}

static bool does_not_wait(void *arg, void *state, int64_t i) {
  Test *t = arg;
  atomic_fetch_add(&t->ended, 1);
  return i != t->expected;
}

static void programs_that_do_not_wait_need_one_stack(void **state) {
  Test t = {.rooms = 1, .expected = -1};
  assert_true(run_all(&t, does_not_wait, 1000, 1, NULL));
  assert_int_equal(t.ended, 1000);
  assert_int_equal(t.opened, 1);
}

static void a_failure_is_the_last_program(void **state) {
  Test t = {.rooms = 1, .expected = 9};
  assert_false(run_all(&t, does_not_wait, 1000, 1, NULL));
  assert_int_equal(t.ended, 10);
  assert_false(t.r.no_memory);
}

static bool meets_the_one_before(void *arg, void *state, int64_t i) { /* pairs: 0 waits for 1, 2 for 3, ... */
  Test *t = arg;
  atomic_fetch_add(&t->value, 1);
  for (bool first = true; atomic_load(&t->value) < i / 2 * 2 + 2; first = false)
    if (!residents_wait(&t->r, first)) return false;
  return true;
}

static void programs_wait_until_there_is_room(void **state) {
  Test none = {.rooms = 0}, two = {.rooms = 2};
  assert_false(run_all(&none, meets_the_one_before, 10, 1, NULL));
  assert_true(none.r.no_memory);
  assert_true(run_all(&two, meets_the_one_before, 10, 1, NULL));
  assert_int_equal(two.value, 10);
  assert_int_equal(two.opened, 2);
}

static void memory_for_the_one_they_wait_for_is_missing(void **state) {
  for (int threads = 1; threads <= 4; threads += 3) {
    Test t = {.rooms = 4};
    assert_false(run_all(&t, waits_for_the_next, 7, threads, NULL)); /* of operations there is no end */
    assert_true(t.r.no_memory);
    assert_false(residents_in_vain(&t.r));
  }
}

static void programs_that_wait_in_vain_end(void **state) {
  for (int threads = 1; threads <= 4; threads += 3) {
    Test t = {.rooms = 7, .most = 3};
    _Atomic int64_t operations = 50 << 20;
    char said[256];
    assert_false(run_all(&t, waits_for_the_next, 7, threads, &operations)); /* the last one finds no room */
    assert_true(residents_in_vain(&t.r));
    residents_message(&t.r, said, sizeof said);
    assert_string_equal(said, "programs wait for each other: 3 are in a loop that waits for memory to change, and the "
                              "other 4 cannot begin before one of them ends");
    t.most = 7;
    operations = 50 << 20;
    assert_true(run_all(&t, waits_for_the_next, 7, threads, &operations));
    assert_false(residents_in_vain(&t.r));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_coroutine_goes_on_where_it_was),
      cmocka_unit_test(a_coroutine_may_resume_another),
      cmocka_unit_test(coroutines_have_contexts_of_their_own),
      cmocka_unit_test(later_programs_begin_while_earlier_ones_wait),
      cmocka_unit_test(programs_that_do_not_wait_need_one_stack),
      cmocka_unit_test(a_failure_is_the_last_program),
      cmocka_unit_test(programs_wait_until_there_is_room),
      cmocka_unit_test(memory_for_the_one_they_wait_for_is_missing),
      cmocka_unit_test(programs_that_wait_in_vain_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
