"""Kernels that use what libraries of kernels reach for: Triton's private names, tensors of many dims, and more."""
import triton
import triton.language as tl
from triton.language.standard import _bitonic_merge, _log2


@triton.jit
def sort_by_cube(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    n: tl.constexpr = _log2(N)
    for stage in tl.static_range(1, n + 1):
        v = _bitonic_merge(v, stage, 2 if stage < n else 0, n)
    tl.store(out + tl.arange(0, N), v)


@triton.jit
def pairs_of_many_dims(x, out, N: tl.constexpr):
    n: tl.constexpr = _log2(N)
    cube = tl.load(x + tl.arange(0, N)).reshape([2] * n)
    tl.store(out + tl.arange(0, N // 2), tl.reshape(tl.sum(cube, n - 1), [N // 2]))


@triton.jit
def best_of_rows(x, out, index, ROWS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    column = tl.broadcast_to(tl.arange(0, N)[None, :], [ROWS, N])
    best, where = tl.reduce((tl.load(x + at), column), 1, tl.standard._argmax_combine_tie_break_left)
    tl.store(out + tl.arange(0, ROWS), best)
    tl.store(index + tl.arange(0, ROWS), where)


@triton.jit
def flip_signs(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    old = tl.atomic_xor(x + i, -0.0)
    tl.store(out + i, old)


@triton.jit
def first_or_rest(x, out, n, WHOLE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if WHOLE:
        if n > 3:
            return
        at = out + i
    else:
        at = out + i * 2
    tl.store(at, tl.load(x + i))


@triton.jit
def nothing_in_the_tail(x, out, n, TAIL: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    acc = tl.zeros([N], tl.float32)
    tail = tl.zeros([TAIL], tl.float32)
    for k in range(n):
        acc += tl.load(x + i)
        tail += 1.0
    tl.store(out + i, acc)
