/* fork: what a child keeps of a process with threads.
 *
 * A child has one thread, the one that forked. A lock that another thread held stays locked in it for ever, and a
 * worker, or whoever makes what others wait for, is gone. So each object with a lock, or with threads of its own, has a
 * ForkHook while it lives: before the fork its locks are taken, so that what they guard is whole; after it they are
 * given back in the parent, and made anew in the child, where in_child then drops what went with the other threads.
 *
 * The locks of hooks are leaves: who holds one takes no other and waits for nothing. A lock that is held for long has
 * no place in `held`; in_child makes it anew. A lock that is held around a hook's has handlers of its own, which
 * register after ours (fork_hooks_begin): what registered last is called first before a fork.
 */
#include "base/base.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static ForkHook *hooks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void) {
  pthread_mutex_lock(&lock);
  for (ForkHook *h = hooks; h; h = h->next) {
    if (h->held) pthread_mutex_lock(h->held);
    if (h->read) pthread_rwlock_rdlock(h->read);
  }
}

static void in_parent(void) {
  for (ForkHook *h = hooks; h; h = h->next) {
    if (h->held) pthread_mutex_unlock(h->held);
    if (h->read) pthread_rwlock_unlock(h->read);
  }
  pthread_mutex_unlock(&lock);
}

static void in_child(void) {
  for (ForkHook *h = hooks; h; h = h->next) {
    if (h->held) pthread_mutex_init(h->held, NULL);
    if (h->read) pthread_rwlock_init(h->read, NULL); /* other threads may have been reading */
    if (h->in_child) h->in_child(h->owner);
  }
  pthread_mutex_init(&lock, NULL);
}

static void watch_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

void fork_hooks_begin(void) { pthread_once(&once, watch_forks); }

void fork_hook_add(ForkHook *h) {
  fork_hooks_begin();
  pthread_mutex_lock(&lock);
  h->next = hooks, h->at = &hooks;
  if (hooks) hooks->at = &h->next;
  hooks = h;
  pthread_mutex_unlock(&lock);
}

void fork_hook_remove(ForkHook *h) {
  if (!h->at) return;
  pthread_mutex_lock(&lock);
  *h->at = h->next;
  if (h->next) h->next->at = h->at;
  pthread_mutex_unlock(&lock);
  h->at = NULL;
}
