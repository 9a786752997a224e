# Programs that wait for each other: for earlier ones, for later ones, for all.
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers


# One sum: every program adds its part under one lock.
@triton.jit
def locked_sum(x, out, lock, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float64))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


# The same under a lock that is taken with any sem: who has it sees what its last owner stored.
@triton.jit
def locked_sum_with(x, out, lock, n, SEM: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float64))
    while tl.atomic_cas(lock, 0, 1, sem=("acq_rel", "acquire", "release", "relaxed")[SEM]) == 1:
        pass
    tl.store(out, tl.load(out) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


# The last one to count adds up what all have stored, in a branch: nobody waits.
@triton.jit
def last_adds(x, parts, counter, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + pid, tl.sum(tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float64)))
    if tl.atomic_add(counter, 1, sem="release") == tl.num_programs(0) - 1:
        sum = tl.zeros([], tl.float64)
        for k in range(tl.num_programs(0)):
            sum += tl.load(parts + k)
        tl.store(out, sum)


# Rows of partial sums, each under a lock of its own, as in the backward pass of a layer norm.
@triton.jit
def locked_rows(x, sums, locks, counts, rows, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    group = row % GROUPS
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + row * BLOCK + cols).to(tl.float64)
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    if tl.load(counts + group) == 0:
        tl.store(counts + group, 1)
    else:
        v += tl.load(sums + group * BLOCK + cols)
    tl.store(sums + group * BLOCK + cols, v)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)


# The first program collects what each later one hands in; it begins first and waits for all of them.
@triton.jit
def collect(x, parts, ready, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float64))
    if pid == 0:
        for k in range(1, tl.num_programs(0)):
            while tl.load(ready + k, volatile=True) == 0:
                pass
            tl.debug_barrier()
            part += tl.load(parts + k)
        tl.store(out, part)
    else:
        tl.store(parts + pid, part)
        tl.debug_barrier()
        tl.store(ready + pid, 1)


# The same with atomics: ordered, so that no race is to be found.
@triton.jit
def collect_atomic(x, parts, ready, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float64))
    if pid == 0:
        for k in range(1, tl.num_programs(0)):
            while tl.atomic_cas(ready + k, 1, 1) != 1:
                pass
            part += tl.load(parts + k)
        tl.store(out, part)
    else:
        tl.store(parts + pid, part)
        tl.atomic_xchg(ready + pid, 1)


@triton.jit
def grid_barrier(counter, expected):
    tl.debug_barrier()
    tl.atomic_add(counter, 1)
    while tl.atomic_add(counter, 0) < expected:
        pass
    tl.debug_barrier()


# Each step every program averages its place with its neighbours', who must have finished the step before.
@triton.jit
def smooth(a, b, counter, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    for step in range(STEPS):
        source = a if step % 2 == 0 else b
        target = b if step % 2 == 0 else a
        left = tl.load(source + tl.maximum(offs - 1, 0), mask=inside)
        mid = tl.load(source + offs, mask=inside)
        right = tl.load(source + tl.minimum(offs + 1, n - 1), mask=inside)
        tl.store(target + offs, (left + mid + right) / 3, mask=inside)
        grid_barrier(counter, (step + 1) * tl.num_programs(0))


# A scan in one pass. A program publishes its own sum (flag 1), looks back at those before it until one knows the sum of
# all up to it (flag 2), and publishes that. REVERSE: from the end, so that programs wait for later ones.
@triton.jit
def look_back(x, y, sums, flags, n, REVERSE: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    last = tl.num_programs(0) - 1
    at = last - pid if REVERSE else pid
    offs = at * BLOCK + tl.arange(0, BLOCK)
    place = n - 1 - offs if REVERSE else offs
    scanned = tl.cumsum(tl.load(x + place, mask=offs < n, other=0.0).to(tl.float64), 0)
    own = tl.sum(tl.load(x + place, mask=offs < n, other=0.0).to(tl.float64))
    tl.store(sums + 2 * at, own)
    tl.debug_barrier()
    tl.atomic_xchg(flags + at, 1)
    before = own * 0
    behind = at - 1
    while behind >= 0:
        flag = tl.atomic_add(flags + behind, 0)
        while flag == 0:
            flag = tl.atomic_add(flags + behind, 0)
        before += tl.load(sums + 2 * behind + flag - 1)
        behind = tl.where(flag == 2, -1, behind - 1)
    tl.store(sums + 2 * at + 1, before + own)
    tl.debug_barrier()
    tl.atomic_xchg(flags + at, 2)
    tl.store(y + place, scanned + before, mask=offs < n)


# A chain: each program hands on what it got from the next one and its own.
@triton.jit
def chain(x, tokens, out):
    pid = tl.program_id(0)
    got = 0
    if pid + 1 < tl.num_programs(0):
        while got == 0:
            got = tl.atomic_add(tokens + pid + 1, 0)
    tl.atomic_xchg(tokens + pid, got + 1)
    tl.store(out + pid, tl.load(x + pid) * got)


# Work from a counter: a loop that reads an atomic, and waits for nobody.
@triton.jit
def from_counter(x, y, counter, n, BLOCK: tl.constexpr):
    tile = tl.atomic_add(counter, 1)
    while tile * BLOCK < n:
        offs = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + offs, 2 * tl.load(x + offs, mask=offs < n), mask=offs < n)
        tile = tl.atomic_add(counter, 1)


# Nobody ever opens the lock.
@triton.jit
def stuck(lock, out):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + tl.program_id(0), 1)


# A program fails for which others wait.
@triton.jit
def failing(ready, out):
    pid = tl.program_id(0)
    if pid == tl.num_programs(0) - 1:
        tl.device_assert(pid < 0, "the last one fails")
        tl.atomic_xchg(ready, 1)
    while tl.atomic_add(ready, 0) == 0:
        pass
    tl.store(out + pid, 1)


# A list that is followed: the loop reads memory, and waits for nobody.
@triton.jit
def follow(next, out):
    at = tl.program_id(0)
    steps = 0
    while tl.load(next + at) >= 0:
        at = tl.load(next + at)
        steps += 1
    tl.store(out + tl.program_id(0), steps)


@triton.jit
def plus(a, b):
    return a + b


# In two phases, as TorchInductor reduces with a cooperative grid: partial sums, then every program adds them all up.
@triton.jit
def two_phases(x, parts, out, sem, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + pid, tl.sum(tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float64)))
    triton_helpers.x_grid_barrier(sem)
    all_parts = tl.arange(0, PROGRAMS)
    whole = tl.sum(tl.load(parts + all_parts, mask=all_parts < tl.num_programs(0), other=0.0))
    triton_helpers.x_grid_barrier(sem)
    tl.store(parts + pid, whole)
    triton_helpers.x_grid_barrier(sem)
    tl.store(out + pid, tl.load(parts + (pid + 1) % tl.num_programs(0)))


@triton.jit
def split_scan(x, y, words, n, BLOCK: tl.constexpr):
    index = tl.program_id(0)
    offs = index * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n, other=0.0)
    own = tl.reduce(v, 0, plus)
    before = triton_helpers.exclusive_scan_decoupled_lookback(words, own, index, plus, DTYPE_VALUE_AS_UINT=tl.uint32,
                                                              DTYPE_PACK=tl.uint64)
    scanned = tl.associative_scan(v, 0, plus)
    tl.store(y + offs, tl.where(index == 0, scanned, plus(before, scanned)), mask=offs < n)


@triton.jit
def split_scan_64(x, y, words, n, BLOCK: tl.constexpr):
    index = tl.program_id(0)
    offs = index * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float64)
    own = tl.reduce(v, 0, plus)
    before = triton_helpers.exclusive_scan_decoupled_lookback_64(words, own, index, plus)
    scanned = tl.associative_scan(v, 0, plus)
    tl.store(y + offs, tl.where(index == 0, scanned, plus(before, scanned)), mask=offs < n)
