"""Flash attention 2, forward and backward (Dao, "FlashAttention-2", arXiv 2307.08691).

All of q, k, v, out and their gradients are [heads, n, D] contiguous, `heads` being batch times heads; D is a power of two.
The forward pass keeps for each row lse = log2 of the sum of exp2(scale * log2(e) * q k^T), from which the backward pass makes the
probabilities again.
"""
import triton
import triton.language as tl


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, n, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              CAUSAL: tl.constexpr):
    """out = softmax(scale * q k^T, causal or not) v.

    q, k, v, out: [heads, n, D], fp16, bf16 or fp32; lse: [heads, n] fp32. Grid: (cdiv(n, BLOCK_M), heads).
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    head = tl.program_id(1).to(tl.int64) * n * D
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    row_max = tl.full([BLOCK_M], -float("inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    qk_scale = scale * 1.4426950408889634
    end = n
    if CAUSAL:
        end = min(n, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):  # nereid: scope loop
        cols = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)  # nereid: scope load k
        v = tl.load(v_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)  # nereid: scope load v
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * qk_scale  # nereid: scope q k
        seen = cols[None, :] < n
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        s = tl.where(seen, s, -float("inf"))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))  # nereid: scope max
        p = tl.exp2(s - new_max[:, None])  # nereid: scope exp
        grow = tl.exp2(row_max - new_max)
        row_sum = row_sum * grow + tl.sum(p, axis=1)  # nereid: scope sum
        acc = tl.dot(p.to(v.dtype), v, acc * grow[:, None], input_precision="ieee")  # nereid: scope p v
        row_max = new_max
    out = acc / row_sum[:, None]
    tl.store(out_ptr + head + rows[:, None] * D + d[None, :], out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < n)
    tl.store(lse_ptr + tl.program_id(1) * n + rows, row_max + tl.log2(row_sum), mask=rows < n)


@triton.jit
def attention_delta(out_ptr, grad_ptr, delta_ptr, n, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """delta[r] = sum over d of out[r, d] * grad[r, d]: what the softmax's gradient subtracts.

    out, grad: [heads, n, D]; delta: [heads, n] fp32. Grid: (cdiv(n, BLOCK_M), heads).
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    at = tl.program_id(1).to(tl.int64) * n * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + at, mask=rows[:, None] < n, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + at, mask=rows[:, None] < n, other=0.0).to(tl.float32)
    tl.store(delta_ptr + tl.program_id(1) * n + rows, tl.sum(out * grad, axis=1), mask=rows < n)


@triton.jit
def attention_backward_kv(q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, n, scale, D: tl.constexpr,
                          BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """dk and dv: a program keeps one tile of keys and values and walks over the queries.

    q, k, v, grad, dk, dv: [heads, n, D]; lse, delta: [heads, n] fp32. Grid: (cdiv(n, BLOCK_N), heads).
    """
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    head = tl.program_id(1).to(tl.int64) * n * D
    row_head = tl.program_id(1) * n
    d = tl.arange(0, D)
    k = tl.load(k_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
    v = tl.load(v_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
    dk = tl.zeros([BLOCK_N, D], tl.float32)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    qk_scale = scale * 1.4426950408889634
    first = 0
    if CAUSAL:
        first = (tl.program_id(0) * BLOCK_N) // BLOCK_M * BLOCK_M
    for start in range(first, n, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        q = tl.load(q_ptr + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
        grad = tl.load(grad_ptr + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
        lse = tl.load(lse_ptr + row_head + rows, mask=rows < n, other=0.0)
        delta = tl.load(delta_ptr + row_head + rows, mask=rows < n, other=0.0)
        seen = (rows[None, :] < n) & (cols[:, None] < n)
        if CAUSAL:
            seen = seen & (cols[:, None] <= rows[None, :])
        st = tl.dot(k, tl.trans(q), input_precision="ieee") * qk_scale
        pt = tl.where(seen, tl.exp2(st - lse[None, :]), 0.0)
        dv = tl.dot(pt.to(grad.dtype), grad, dv, input_precision="ieee")
        dpt = tl.dot(v, tl.trans(grad), input_precision="ieee")
        dst = pt * (dpt - delta[None, :])
        dk = tl.dot(dst.to(q.dtype), q, dk, input_precision="ieee")
    at = head + cols[:, None] * D + d[None, :]
    tl.store(dk_ptr + at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=cols[:, None] < n)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=cols[:, None] < n)


@triton.jit
def attention_backward_q(q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, n, scale, D: tl.constexpr,
                         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """dq: a program keeps one tile of queries and walks over the keys and values.

    q, k, v, grad, dq: [heads, n, D]; lse, delta: [heads, n] fp32. Grid: (cdiv(n, BLOCK_M), heads).
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    head = tl.program_id(1).to(tl.int64) * n * D
    row_head = tl.program_id(1) * n
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    grad = tl.load(grad_ptr + head + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    lse = tl.load(lse_ptr + row_head + rows, mask=rows < n, other=0.0)
    delta = tl.load(delta_ptr + row_head + rows, mask=rows < n, other=0.0)
    dq = tl.zeros([BLOCK_M, D], tl.float32)
    qk_scale = scale * 1.4426950408889634
    end = n
    if CAUSAL:
        end = min(n, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        v = tl.load(v_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
        seen = (rows[:, None] < n) & (cols[None, :] < n)
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * qk_scale
        p = tl.where(seen, tl.exp2(s - lse[:, None]), 0.0)
        dp = tl.dot(grad, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    at = head + rows[:, None] * D + d[None, :]
    tl.store(dq_ptr + at, (dq * scale).to(dq_ptr.dtype.element_ty), mask=rows[:, None] < n)


@triton.jit
def attention_backward_begin(out_ptr, grad_ptr, delta_ptr, dq_ptr, n, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """What attention_backward starts from: delta, as attention_delta makes it, and zeros in dq.

    out, grad: [heads, n, D]; delta: [heads, n] fp32; dq: [heads, n, D] fp32. Grid: (cdiv(n, BLOCK_M), heads).
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    at = tl.program_id(1).to(tl.int64) * n * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + at, mask=rows[:, None] < n, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + at, mask=rows[:, None] < n, other=0.0).to(tl.float32)
    tl.store(delta_ptr + tl.program_id(1) * n + rows, tl.sum(out * grad, axis=1), mask=rows < n)
    tl.store(dq_ptr + at, tl.zeros([BLOCK_M, D], tl.float32), mask=rows[:, None] < n)


@triton.jit
def attention_backward_end(dq_ptr, out_ptr, scale, size, BLOCK: tl.constexpr):
    """out = scale * dq: the gradient of the queries, of what attention_backward has added up.

    dq: [size] fp32, out: [size], size being heads * n * D. Grid: (cdiv(size, BLOCK),).
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dq = tl.load(dq_ptr + at, mask=at < size)
    tl.store(out_ptr + at, (dq * scale).to(out_ptr.dtype.element_ty), mask=at < size)


@triton.jit
def attention_backward(q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, n, scale, D: tl.constexpr,
                       BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """All three gradients at once: a program keeps one tile of keys and values, walks over the queries and adds to dq.

    q, k, v, grad, dk, dv: [heads, n, D]; lse, delta: [heads, n] fp32; dq: [heads, n, D] fp32, for which
    attention_backward_begin and attention_backward_end are run before and after. In which order programs add to dq, and
    so its last bits, changes from run to run. Rows past n are zeros, which add nothing. Grid: (cdiv(n, BLOCK_N), heads).
    """
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    head = tl.program_id(1).to(tl.int64) * n * D
    row_head = tl.program_id(1) * n
    d = tl.arange(0, D)
    k = tl.load(k_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
    v = tl.load(v_ptr + head + cols[:, None] * D + d[None, :], mask=cols[:, None] < n, other=0.0)
    dk = tl.zeros([BLOCK_N, D], tl.float32)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    qk_scale = scale * 1.4426950408889634
    first = 0
    if CAUSAL:
        first = (tl.program_id(0) * BLOCK_N) // BLOCK_M * BLOCK_M
    for start in range(first, n, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        at = head + rows[:, None] * D + d[None, :]
        lse = tl.load(lse_ptr + row_head + rows, mask=rows < n, other=0.0)
        q = tl.load(q_ptr + at, mask=rows[:, None] < n, other=0.0)
        grad = tl.load(grad_ptr + at, mask=rows[:, None] < n, other=0.0)
        seen = cols[:, None] < n
        if CAUSAL:
            seen = seen & (cols[:, None] <= rows[None, :])
        st = tl.dot(k, tl.trans(q), input_precision="ieee") * qk_scale
        dpt = tl.dot(v, tl.trans(grad), input_precision="ieee")
        pt = tl.where(seen, tl.exp2(st - lse[None, :]), 0.0)
        dv = tl.dot(pt.to(grad.dtype), grad, dv, input_precision="ieee")
        delta = tl.load(delta_ptr + row_head + rows, mask=rows < n, other=0.0)
        dst = (pt * (dpt - delta[None, :])).to(q.dtype)
        dq = tl.dot(tl.trans(dst), k, input_precision="ieee")
        dk = tl.dot(dst, q, dk, input_precision="ieee")
        tl.atomic_add(dq_ptr + at, dq, mask=rows[:, None] < n, sem="relaxed")
    at = head + cols[:, None] * D + d[None, :]
    tl.store(dk_ptr + at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=cols[:, None] < n)
    tl.store(dv_ptr + at, dv.to(dv_ptr.dtype.element_ty), mask=cols[:, None] < n)
