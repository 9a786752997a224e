"""Loops that add up products, in the forms that kernels give them: what may be packed once and what must not."""
import triton
import triton.language as tl


@triton.jit
def plain(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Neighbouring programs share rows of a."""
    m = tl.program_id(1) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    ka, kb = tl.arange(0, BK)[None, :], tl.arange(0, BK)[:, None]
    acc = tl.zeros([BM, BN], c_ptr.dtype.element_ty)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptr + m * am + (k * BK + ka) * ak, mask=(m < M) & (ka < K - k * BK), other=0)
        b = tl.load(b_ptr + (k * BK + kb) * bk + n * bn, mask=(kb < K - k * BK) & (n < N), other=0)
        acc = tl.dot(a, b, acc, out_dtype=c_ptr.dtype.element_ty)
    tl.store(c_ptr + m * cm + n, acc, mask=(m < M) & (n < N))


@triton.jit
def gated(x_ptr, w_ptr, v_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two products that share x, of which each wants another elementwise form of w."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    left, right = tl.zeros([BM, BN], tl.float32), tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        x = tl.load(x_ptr + m * K + ka, mask=(m < M) & (ka < K), other=0)
        w = tl.load(w_ptr + kb * N + n, mask=(kb < K) & (n < N), other=0)
        v = tl.load(v_ptr + kb * N + n, mask=(kb < K) & (n < N), other=0)
        left = tl.dot(x, w + v, left)
        right = tl.dot(x, w - v, right)
    tl.store(out_ptr + m * N + n, left * 2 + right, mask=(m < M) & (n < N))


@triton.jit
def rows_times_columns(a_ptr, b_ptr, K, BM: tl.constexpr, BK: tl.constexpr):
    """a @ b of BM rows and columns."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    acc = tl.zeros([BM, BM], tl.float32)
    for k in range(0, K, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        acc = tl.dot(tl.load(a_ptr + m * K + ka), tl.load(b_ptr + kb * BM + n), acc)
    return acc


@triton.jit
def in_place(x_ptr, w_ptr, out_ptr, K, steps, BM: tl.constexpr, BK: tl.constexpr):
    """The first rows of x become w @ x, several times over by one program: x must be read anew each time."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    for step in range(steps):
        acc = rows_times_columns(w_ptr, x_ptr, K, BM, BK)
        tl.debug_barrier()
        tl.store(x_ptr + m * BM + n, acc - tl.floor(acc / 8) * 8)
        tl.debug_barrier()
    tl.store(out_ptr + m * BM + n, tl.load(x_ptr + m * BM + n))


@triton.jit
def through_another(x_ptr, w_ptr, y_ptr, K, steps, BM: tl.constexpr, BK: tl.constexpr):
    """The same, where what is stored to may be x by another name."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    for step in range(steps):
        acc = rows_times_columns(w_ptr, x_ptr, K, BM, BK)
        tl.debug_barrier()
        tl.store(y_ptr + m * BM + n, acc - tl.floor(acc / 8) * 8)
        tl.debug_barrier()


@triton.jit
def onto_rows(x_ptr, w_ptr, y_ptr, K, steps, BM: tl.constexpr, BK: tl.constexpr):
    """x @ w with its rows in turned order, onto y, which may be x by another name: K is BM."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    for step in range(steps):
        acc = rows_times_columns(x_ptr, w_ptr, K, BM, BK)
        tl.store(y_ptr + (BM - 1 - m) * BM + n, acc - tl.floor(acc / 8) * 8)
        tl.debug_barrier()


@triton.jit
def onto_itself(x_ptr, w_ptr, y_ptr, K, steps, BM: tl.constexpr, BK: tl.constexpr):
    """The same, onto x."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    for step in range(steps):
        acc = rows_times_columns(x_ptr, w_ptr, K, BM, BK)
        tl.store(x_ptr + (BM - 1 - m) * BM + n, acc - tl.floor(acc / 8) * 8)
        tl.debug_barrier()


@triton.jit
def stored(x_ptr, w_ptr, y_ptr, K, steps, BM: tl.constexpr, BK: tl.constexpr):
    """x @ w as it is, onto y, which may be x by another name: K is BM."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    for step in range(steps):
        acc = rows_times_columns(x_ptr, w_ptr, K, BM, BK)
        tl.store(y_ptr + m * BM + n, acc)


@triton.jit
def placed(a_ptr, b_ptr, c_ptr, K, at, cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, START: tl.constexpr):
    """START + a @ b, with a NaN in b, to rows of c at any distance."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    acc = tl.full([BM, BN], START, tl.float32)
    for k in range(0, K, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + m * K + ka, mask=ka < K, other=0)
        b = tl.load(b_ptr + kb * BN + n, mask=kb < K, other=0)
        acc = tl.dot(a, tl.where((kb == 5) & (n == 7), float("nan"), b), acc)
    tl.store(c_ptr + at + m * cm + n, acc)


@triton.jit
def several_ends(a_ptr, b_ptr, row_ptr, c_ptr, M, N, K, begin, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Sums that begin at some number; what they become is stored twice, rounded and not, and summed up by rows."""
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    acc = tl.zeros([BM, BN], tl.float32) + begin
    for k in range(0, K, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + m[:, None] * K + ka, mask=(m[:, None] < M) & (ka < K), other=0)
        acc = tl.dot(a, tl.load(b_ptr + kb * N + n[None, :], mask=(kb < K) & (n[None, :] < N), other=0), acc)
    half = (acc * 1.25).to(tl.bfloat16)
    tl.store(c_ptr + m[:, None] * N + n[None, :], half, mask=inside)
    tl.store(c_ptr + M * N + m[:, None] * N + n[None, :], (acc + half.to(tl.float32)).to(tl.bfloat16), mask=inside)
    tl.store(row_ptr + tl.program_id(1) * M + m, tl.sum(tl.where(inside, acc, 0), 1), mask=m < M)


@triton.jit
def dequantized(a_ptr, q_ptr, scale_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """b is made of whole numbers and a scale a column, which was loaded before the loop."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    scale = tl.load(scale_ptr + n, mask=n < N, other=0)
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + m * K + ka, mask=(m < M) & (ka < K), other=0)
        q = tl.load(q_ptr + kb * N + n[None, :], mask=(kb < K) & (n[None, :] < N), other=0)
        acc = tl.dot(a, q.to(tl.float32) * scale[None, :], acc)
    tl.store(out_ptr + m * N + n[None, :], acc, mask=(m < M) & (n[None, :] < N))


@triton.jit
def ragged(a_ptr, b_ptr, ends_ptr, out_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each program sums over as many k as memory says, of the same rows and columns."""
    p = tl.program_id(0)
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    end = 24 + 4 * tl.load(ends_ptr + p)
    for k in range((4 + tl.load(ends_ptr + p + 1)) // 2, end, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + m * K + ka, mask=ka < end, other=0)
        acc = tl.dot(a, tl.load(b_ptr + kb * BN + n, mask=kb < end, other=0), acc)
    tl.store(out_ptr + p * BM * BN + m * BN + n, acc)


@triton.jit
def split_k(a_ptr, b_ptr, out_ptr, K, PART: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Programs add their part of k to one tile; b's column stays, its rows do not. a stands transposed."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    first = tl.program_id(0) * PART
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(first, first + PART, BK):
        ka, kb = k + tl.arange(0, BK)[:, None], k + tl.arange(0, BK)[:, None]
        a = tl.trans(tl.load(a_ptr + ka * BM + tl.arange(0, BM)[None, :]))
        acc = tl.dot(a, tl.load(b_ptr + kb * BN + n), acc)
    tl.atomic_add(out_ptr + m * BN + n, acc)


@triton.jit
def squared(a_ptr, out_ptr, K, BM: tl.constexpr):
    """One tile on both sides."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BM)[None, :]
    acc = tl.zeros([BM, BM], tl.float32)
    for k in range(0, K, BM):
        a = tl.load(a_ptr + m * K + k + n)
        acc = tl.dot(a, a, acc)
    tl.store(out_ptr + m * BM + n, acc)


@triton.jit
def chained(x_ptr, w_ptr, v_ptr, out_ptr, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One loop after the other, both with operands that all programs share, and a product of what they give."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    left = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        left = tl.dot(tl.load(x_ptr + m * K + ka), tl.load(w_ptr + kb * BN + n), left)
    right = tl.full([BM, BN], 1, tl.float32)
    for k in range(0, N, BK):
        ka, kb = k + tl.arange(0, BK)[None, :], k + tl.arange(0, BK)[:, None]
        right = tl.dot(tl.load(x_ptr + m * K + ka), tl.load(v_ptr + kb * BN + n), right)
    tl.store(out_ptr + tl.program_id(0) * BM * BN + m * BN + n, tl.dot(left, tl.trans(right)))


@triton.jit
def pixels(w_ptr, x_ptr, out_ptr, K, WIDE, BM: tl.constexpr, Y: tl.constexpr, X: tl.constexpr, BK: tl.constexpr):
    """A convolution by three rows: pixels are two axes of the loaded tile and of the stored one, one of the dot's."""
    m, ka = tl.arange(0, BM)[:, None], tl.arange(0, BK)[None, :]
    y = tl.program_id(0) * Y + tl.arange(0, Y)[None, :, None]
    x = tl.program_id(1) * X + tl.arange(0, X)[None, None, :]
    acc = tl.zeros([BM, Y * X], tl.float32)
    for k in range(0, K, BK):
        kb = k + tl.arange(0, BK)[:, None, None]
        w = tl.load(w_ptr + m * K + k + ka, mask=k + ka < K, other=0)
        inside = (y + kb % 3 - 1 >= 0) & (y + kb % 3 <= 32) & (x < WIDE) & (kb < K)
        tile = tl.load(x_ptr + kb // 3 * 32 * WIDE + (y + kb % 3 - 1) * WIDE + x, mask=inside, other=0)
        acc = tl.dot(w, tl.reshape(tile, [BK, Y * X]), acc)
    rows = tl.arange(0, BM)[:, None, None]
    acc = tl.reshape(acc, [BM, Y, X])
    tl.store(out_ptr + rows * 30 * WIDE + y * WIDE + x, acc * 2 + 1, mask=(y < 30) & (x < WIDE))


@triton.jit
def reshaped(a_ptr, b_ptr, out_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Both operands in another shape than they are loaded in, b's also as a number for each column."""
    m, n = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        at = tl.arange(0, BM * BK)
        a = tl.reshape(tl.load(a_ptr + at // BK * K + k + at % BK), [BM, BK])
        bt = tl.arange(0, BN * BK)
        b = tl.load(b_ptr + (k + bt // BN) * BN + bt % BN)
        acc = tl.dot(a, tl.reshape(b * 2, [BK, BN]), acc)
    tl.store(out_ptr + m * BN + n, acc)
