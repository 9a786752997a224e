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


@triton.jit
def operators_by_name(x, out, s, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    wrong = a.__add__(s) != a + s
    wrong |= (a.__radd__(s) != s + a) | (a.__sub__(s) != a - s) | (a.__rsub__(s) != s - a)
    wrong |= (a.__mul__(s) != a * s) | (a.__rmul__(3) != 3 * a) | (a.__neg__() != -a) | (a.__invert__() != ~a)
    wrong |= (a.__truediv__(s) != a / s) | (a.__rtruediv__(s) != s / a) | (a.__mod__(s) != a % s) | (a.__rmod__(s) != s % a)
    wrong |= (a.__floordiv__(s) != a // s) | (a.__rfloordiv__(s) != s // a)
    wrong |= (a.__and__(s) != (a & s)) | (a.__rand__(s) != (s & a)) | (a.__or__(s) != (a | s)) | (a.__ror__(s) != (s | a))
    wrong |= (a.__xor__(s) != (a ^ s)) | (a.__rxor__(s) != (s ^ a))
    wrong |= (a.__lshift__(s) != a << s) | (a.__rlshift__(s) != s << a)
    wrong |= (a.__rshift__(s) != a >> s) | (a.__rrshift__(s) != s >> a)
    wrong |= (a.__lt__(s) != (a < s)) | (a.__rlt__(s) != (s < a)) | (a.__le__(s) != (a <= s)) | (a.__rle__(s) != (s <= a))
    wrong |= (a.__gt__(s) != (a > s)) | (a.__rgt__(s) != (s > a)) | (a.__ge__(s) != (a >= s)) | (a.__rge__(s) != (s >= a))
    wrong |= (a.__eq__(s) != (a == s)) | (a.__req__(s) != (s == a)) | (a.__ne__(s) != (a != s)) | (a.__rne__(s) != (s != a))
    wrong |= (a > s).__not__() != (a <= s)
    tl.store(out + i, wrong.to(tl.int32))


@triton.jit
def rows_by_steps(x, out, log, total, last, COLUMNS: tl.constexpr, B: tl.constexpr):
    """One loop over the steps of rows: steps 0 to `last`, then the next row; each row's sum is stored at its end."""
    step = -1
    row = -1
    acc = tl.zeros([B], tl.float32)
    ends = 0
    begun = tl.zeros([B], tl.float32)
    for _ in range(0, total):
        step = tl.where(step == last, 0, step + 1)
        if step == 0:
            row += 1
            tl.store(log + row, row + 100)
            begun = tl.load(x + row * COLUMNS + tl.arange(0, B))
        acc += tl.load(x + row * COLUMNS + (step % 4) * B + tl.arange(0, B)) * (step + 1)
        if step == last:
            tl.store(out + row, tl.sum(acc + begun * step))
            ends += 1
            acc = tl.zeros([B], tl.float32)
    tl.store(out + 60, tl.sum(acc))
    tl.store(out + 61, ends)
    tl.store(out + 62, row)
