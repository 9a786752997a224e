"""What a forked child has anew: locks that a thread of its parent may hold, and pools, since it has none of the threads."""
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor, wait

_locks, _pools = weakref.WeakSet(), weakref.WeakSet()


def lock(kind=threading.Lock):
    made = kind()
    _locks.add(made)
    return made


class Pool:
    """A pool of threads. A fork waits for what they have begun, so that a child finds all of it done."""

    def __init__(self, threads, name):
        self.threads, self.name, self.pool, self.pending = threads, name, None, set()
        _pools.add(self)

    def submit(self, task, *args):
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.threads, self.name)
        future = self.pool.submit(task, *args)
        self.pending.add(future)
        future.add_done_callback(self.pending.discard)
        return future


def _before():
    for pool in list(_pools):
        if not threading.current_thread().name.startswith(pool.name):  # a task of its own forks
            wait(list(pool.pending))


def _in_child():
    for held in list(_locks):
        held._at_fork_reinit()
    for pool in list(_pools):
        pool.pool = None
        pool.pending.clear()


os.register_at_fork(before=_before, after_in_child=_in_child)
