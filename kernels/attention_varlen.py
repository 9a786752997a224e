"""Flash attention over packed sequences, forward and backward (Dao, "FlashAttention-2", arXiv 2307.08691, as in attention.py).

Sequences of different lengths stand one after another, without padding: sequence i has the queries starts_q[i] .. starts_q[i + 1] - 1
and the keys starts_k[i] .. starts_k[i + 1] - 1 (int32; others call them cu_seqlens).

    q, out, grad, dq: [total_q, heads, D]      k, v, dk, dv: [total_k, heads // GROUP, D]      lse, delta: [heads, total_q] fp32

GROUP query heads share one head of keys and values ("GQA"; 1: each has its own). D is any head size: tiles are as wide as the next
power of two, and what is beyond D is zero. CAUSAL: a query sees the keys up to its own, the last query standing at the last key. WINDOW
(with CAUSAL; 0: none): of these only the last WINDOW. A query that sees no key gets out = 0 and lse = -inf.
A sequence's length times heads times D stays below 2^31; total_q need not.
"""
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def start_and_length(starts_ptr, sequence):
    start = tl.load(starts_ptr + sequence)
    return start.to(tl.int64), tl.load(starts_ptr + sequence + 1) - start


@triton.jit
def load_rows(ptr, rows, length, stride, D: tl.constexpr, WIDTH: tl.constexpr):
    """Rows `rows` of [length, stride], the first D columns of them: [len(rows), WIDTH], zero where there is nothing."""
    d = tl.arange(0, WIDTH)
    mask = rows[:, None] < length
    if WIDTH > D:
        mask = mask & (d[None, :] < D)
    return tl.load(ptr + rows[:, None] * stride + d[None, :], mask=mask, other=0.0)


@triton.jit
def store_rows(ptr, tile, rows, length, stride, D: tl.constexpr, WIDTH: tl.constexpr):
    d = tl.arange(0, WIDTH)
    mask = rows[:, None] < length
    if WIDTH > D:
        mask = mask & (d[None, :] < D)
    tl.store(ptr + rows[:, None] * stride + d[None, :], tile.to(ptr.dtype.element_ty), mask=mask)


@triton.jit
def is_seen(cols, own, length_k, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """Whether the query that stands at key `own` sees key `cols`."""
    tl.static_assert(CAUSAL != 0 or WINDOW == 0, "WINDOW needs CAUSAL")
    seen = cols < length_k
    if CAUSAL:
        seen = seen & (cols <= own)
    if WINDOW > 0:
        seen = seen & (cols > own - WINDOW)
    return seen


@triton.jit
def first_and_end_key(first, length_k, offset, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
                      WINDOW: tl.constexpr):
    """The keys that the queries first .. first + BLOCK_M - 1 see between them, the first one at a multiple of BLOCK_N."""
    begin = 0
    end = length_k
    if CAUSAL:
        end = min(length_k, first + BLOCK_M + offset)
    if WINDOW > 0:
        begin = max(first + offset - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
    return begin, end


@triton.jit
def attention_varlen(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, starts_q_ptr, starts_k_ptr, heads, total_q, scale, D: tl.constexpr,
                     GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
                     WINDOW: tl.constexpr):
    """out = softmax(scale * q k^T where seen) v; lse = log2 of the sum of exp2(scale * log2(e) * q k^T).

    Grid: (cdiv(longest sequence of queries, BLOCK_M), heads, sequences).
    """
    WIDTH: tl.constexpr = triton.next_power_of_2(D)
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    start_q, length_q = start_and_length(starts_q_ptr, tl.program_id(2))
    start_k, length_k = start_and_length(starts_k_ptr, tl.program_id(2))
    if first >= length_q:
        return
    stride_q = heads * D
    stride_k = heads // GROUP * D
    at_q = start_q * stride_q + head * D
    at_k = start_k * stride_k + head // GROUP * D
    offset = length_k - length_q

    rows = first + tl.arange(0, BLOCK_M)
    q = load_rows(q_ptr + at_q, rows, length_q, stride_q, D, WIDTH)
    acc = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    row_max = tl.full([BLOCK_M], -float("inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    begin, end = first_and_end_key(first, length_k, offset, BLOCK_M, BLOCK_N, CAUSAL, WINDOW)
    for start in range(begin, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k = load_rows(k_ptr + at_k, cols, length_k, stride_k, D, WIDTH)
        v = load_rows(v_ptr + at_k, cols, length_k, stride_k, D, WIDTH)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2_E)
        s = tl.where(is_seen(cols[None, :], rows[:, None] + offset, length_k, CAUSAL, WINDOW), s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        # A row that has seen no key yet has the maximum -inf; -inf less -inf would be NaN.
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        p = tl.exp2(s - shift[:, None])
        grow = tl.exp2(row_max - shift)
        row_sum = row_sum * grow + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * grow[:, None], input_precision="ieee")
        row_max = new_max
    out = acc / tl.where(row_sum == 0.0, 1.0, row_sum)[:, None]
    store_rows(out_ptr + at_q, out, rows, length_q, stride_q, D, WIDTH)
    tl.store(lse_ptr + head.to(tl.int64) * total_q + start_q + rows, row_max + tl.log2(row_sum), mask=rows < length_q)


@triton.jit
def attention_varlen_delta(out_ptr, grad_ptr, delta_ptr, heads, total_q, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """delta[r] = sum over d of out[r, d] * grad[r, d]. The sequences do not matter. Grid: (cdiv(total_q, BLOCK_M), heads)."""
    WIDTH: tl.constexpr = triton.next_power_of_2(D)
    first = tl.program_id(0).to(tl.int64) * BLOCK_M
    head = tl.program_id(1)
    rows = tl.arange(0, BLOCK_M)
    at = first * heads * D + head * D
    out = load_rows(out_ptr + at, rows, total_q - first, heads * D, D, WIDTH).to(tl.float32)
    grad = load_rows(grad_ptr + at, rows, total_q - first, heads * D, D, WIDTH).to(tl.float32)
    tl.store(delta_ptr + head.to(tl.int64) * total_q + first + rows, tl.sum(out * grad, axis=1), mask=rows < total_q - first)


@triton.jit
def attention_varlen_backward_kv(q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, starts_q_ptr, starts_k_ptr,
                                 heads, total_q, scale, D: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
                                 BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """dk and dv: a program keeps one tile of keys and values and walks over the queries of all heads that share it.

    Grid: (cdiv(longest sequence of keys, BLOCK_N), heads // GROUP, sequences).
    """
    WIDTH: tl.constexpr = triton.next_power_of_2(D)
    first = tl.program_id(0) * BLOCK_N
    start_q, length_q = start_and_length(starts_q_ptr, tl.program_id(2))
    start_k, length_k = start_and_length(starts_k_ptr, tl.program_id(2))
    if first >= length_k:
        return
    stride_q = heads * D
    stride_k = heads // GROUP * D
    at_k = start_k * stride_k + tl.program_id(1) * D
    offset = length_k - length_q

    cols = first + tl.arange(0, BLOCK_N)
    k = load_rows(k_ptr + at_k, cols, length_k, stride_k, D, WIDTH)
    v = load_rows(v_ptr + at_k, cols, length_k, stride_k, D, WIDTH)
    dk = tl.zeros([BLOCK_N, WIDTH], tl.float32)
    dv = tl.zeros([BLOCK_N, WIDTH], tl.float32)
    begin = 0
    end = length_q
    if CAUSAL:
        begin = max(first - offset, 0) // BLOCK_M * BLOCK_M
    if WINDOW > 0:
        end = min(length_q, first + BLOCK_N - 1 + WINDOW - offset)
    for member in range(GROUP):
        head = tl.program_id(1) * GROUP + member
        at_q = start_q * stride_q + head * D
        at_row = head.to(tl.int64) * total_q + start_q
        for start in range(begin, end, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            q = load_rows(q_ptr + at_q, rows, length_q, stride_q, D, WIDTH)
            grad = load_rows(grad_ptr + at_q, rows, length_q, stride_q, D, WIDTH)
            # Queries beyond the end: exp2(s - inf) is 0.
            lse = tl.load(lse_ptr + at_row + rows, mask=rows < length_q, other=float("inf"))
            delta = tl.load(delta_ptr + at_row + rows, mask=rows < length_q, other=0.0)
            st = tl.dot(k, tl.trans(q), input_precision="ieee") * (scale * LOG2_E)
            seen = is_seen(cols[:, None], rows[None, :] + offset, length_k, CAUSAL, WINDOW)
            pt = tl.where(seen, tl.exp2(st - lse[None, :]), 0.0)
            dv = tl.dot(pt.to(grad.dtype), grad, dv, input_precision="ieee")
            dpt = tl.dot(v, tl.trans(grad), input_precision="ieee")
            dst = pt * (dpt - delta[None, :])
            dk = tl.dot(dst.to(q.dtype), q, dk, input_precision="ieee")
    store_rows(dk_ptr + at_k, dk * scale, cols, length_k, stride_k, D, WIDTH)
    store_rows(dv_ptr + at_k, dv, cols, length_k, stride_k, D, WIDTH)


@triton.jit
def attention_varlen_backward_q(q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, starts_q_ptr, starts_k_ptr, heads,
                                total_q, scale, D: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
                                BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr):
    """dq: a program keeps one tile of queries and walks over the keys and values, as the forward pass does, on the same grid."""
    WIDTH: tl.constexpr = triton.next_power_of_2(D)
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    start_q, length_q = start_and_length(starts_q_ptr, tl.program_id(2))
    start_k, length_k = start_and_length(starts_k_ptr, tl.program_id(2))
    if first >= length_q:
        return
    stride_q = heads * D
    stride_k = heads // GROUP * D
    at_q = start_q * stride_q + head * D
    at_k = start_k * stride_k + head // GROUP * D
    at_row = head.to(tl.int64) * total_q + start_q
    offset = length_k - length_q

    rows = first + tl.arange(0, BLOCK_M)
    q = load_rows(q_ptr + at_q, rows, length_q, stride_q, D, WIDTH)
    grad = load_rows(grad_ptr + at_q, rows, length_q, stride_q, D, WIDTH)
    lse = tl.load(lse_ptr + at_row + rows, mask=rows < length_q, other=float("inf"))
    delta = tl.load(delta_ptr + at_row + rows, mask=rows < length_q, other=0.0)
    dq = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    begin, end = first_and_end_key(first, length_k, offset, BLOCK_M, BLOCK_N, CAUSAL, WINDOW)
    for start in range(begin, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k = load_rows(k_ptr + at_k, cols, length_k, stride_k, D, WIDTH)
        v = load_rows(v_ptr + at_k, cols, length_k, stride_k, D, WIDTH)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (scale * LOG2_E)
        seen = is_seen(cols[None, :], rows[:, None] + offset, length_k, CAUSAL, WINDOW)
        p = tl.where(seen, tl.exp2(s - lse[:, None]), 0.0)
        dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    store_rows(dq_ptr + at_q, dq * scale, rows, length_q, stride_q, D, WIDTH)
