/* Which intervals of a thread are open, as its intervals pass by in the order of their starts. A stack a thread:
 *
 *     time      0    2    4    6    8   10
 *     range     [=========================]      open: range
 *     call 1      [======]                       open: range, call 1
 *     call 2                [==========]         call 1 ended before call 2 began: open: range, call 2
 *
 * What is on the stack when an interval comes is around it. An interval that outlasts the one around it (clocks of
 * CUPTI and of the CPU differ by some nanoseconds; ranges of NVTX may overlap) covers of it what they share; the rest
 * covers the next one outwards.
 */
#include "prof/view/views.h"

IntervalStack *intervals_get(IntervalStacks *all, uint32_t process, uint32_t thread) {
  uint32_t key[2] = {process, thread};
  if (!all->by_thread) all->by_thread = map_create(all->arena, true);
  IntervalStack *n = map_get_n(all->by_thread, (char *)key, sizeof key);
  if (n) return n;
  n = NEW(all->arena, IntervalStack);
  n->process = process, n->thread = thread, n->row = -1;
  map_put_n(all->by_thread, arena_copy(all->arena, key, sizeof key), sizeof key, n);
  return n;
}

/* Takes away open[at]: mostly the last. */
static void take(IntervalStacks *all, IntervalStack *n, int at) {
  Open o = n->open[at];
  memmove(&n->open[at], &n->open[at + 1], (size_t)(n->n - 1 - at) * sizeof *n->open);
  n->open[n->n - 1] = o;
  if (all->closed) all->closed(all->view, n, &n->open[n->n - 1]);
  n->n--;
}

Open *intervals_open(IntervalStacks *all, const JoinedEvent *i) {
  IntervalStack *n = intervals_get(all, i->process, i->thread);
  for (int at = n->n - 1; at >= 0; at--)
    if (n->open[at].event.end <= i->start) take(all, n, at);
  int64_t from = i->start;
  for (int at = n->n - 1; at >= 0 && from < i->end; at--) {
    Open *around = &n->open[at];
    int64_t to = i->end < around->event.end ? i->end : around->event.end;
    if (to > from) around->covered += to - from, from = to;
  }
  if (n->n == n->cap) {
    int cap = n->cap ? 2 * n->cap : 16;
    Open *more = NEW_N(all->arena, Open, cap);
    if (n->n) memcpy(more, n->open, (size_t)n->n * sizeof *more);
    n->open = more, n->cap = cap;
  }
  n->open[n->n] = (Open){.event = *i, .row = -1};
  return &n->open[n->n++];
}

int intervals_launch(IntervalStacks *all, const JoinedEvent *activity, IntervalStack **out) {
  *out = NULL;
  if (!activity->has_call) return -1;
  IntervalStack *n = *out = intervals_get(all, activity->process, activity->call_thread);
  for (int at = n->n - 1; at >= 0; at--)
    if (n->open[at].event.kind == TRACE_CALL && n->open[at].event.correlation == activity->correlation) return at;
  return -1;
}

void intervals_close_all(IntervalStacks *all) {
  if (!all->by_thread) return;
  for (int i = 0; i < map_count(all->by_thread); i++) {
    void *n;
    map_entry(all->by_thread, i, NULL, &n);
    for (int at = ((IntervalStack *)n)->n - 1; at >= 0; at--) take(all, n, at);
  }
}
