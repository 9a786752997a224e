"""The gated delta rule in chunks, forward (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", arXiv 2412.06464).

A linear attention whose state S, [DK, DV], forgets by a gate and writes by the delta rule: what the key k_t finds is replaced in part, by
beta_t, with the value v_t.

    S_t = exp(gate_t) * (S_{t-1} - beta_t k_t (k_t^T S_{t-1})) + beta_t k_t v_t^T          out_t = scale * S_t^T q_t

One step after the other leaves the tensor cores idle. In a chunk of CHUNK tokens, with decay_t = gate_1 + .. + gate_t and S the state before
the chunk, S_t = exp(decay_t) S + sum over i <= t of exp(decay_t - decay_i) k_i fresh_i^T, and the rows `fresh` solve a triangular system:

    (I + A) fresh = beta * (v - exp(decay) * k S)          A[t, i] = beta_t exp(decay_t - decay_i) k_t k_i^T for i < t, else 0

Three kernels: delta_rule_chunk inverts I + A, all chunks at a time, and makes u and w with fresh = u - w S; delta_rule_state walks over the
chunks, which is all that is left in sequence; delta_rule_output makes the outputs, all chunks at a time.

    q, k, w: [heads, n, DK]      v, u, fresh, out: [heads, n, DV]      beta, gate, decay: [heads, n] fp32, gate <= 0
    states: [heads, cdiv(n, CHUNK), DK, DV], S before each chunk       initial, final: [heads, DK, DV] fp32

What is not fp32 is of one type; `heads` is batch times heads. DK and DV are powers of two, CHUNK is one of 16 to 128.
"""
import triton
import triton.language as tl


@triton.jit
def inverse_of_unit_lower(a, CHUNK: tl.constexpr):
    """(I + a)^-1 of [CHUNK, CHUNK], a strictly lower.

    Blocks of 16 on the diagonal first, all at a time, by forward substitution: row i is e_i less the rows before it times a[i, :]. Then
    pairs of inverted blocks become one of twice the size: with L what a has below the diagonal of a pair, the inverse is t - t L t.
    """
    i = tl.arange(0, CHUNK)[:, None]
    j = tl.arange(0, CHUNK)[None, :]
    t = tl.where(i == j, 1.0, 0.0)
    for step in range(1, 16):
        here = (i % 16 == step) & (i // 16 == j // 16)
        a_row = tl.sum(tl.where(here, a, 0.0), axis=0)  # of each block its row `step`
        t -= tl.where(here, tl.sum(a_row[:, None] * t, axis=0)[None, :], 0.0)
    for level in tl.static_range(4, 7):
        if CHUNK > 1 << level:
            below = (i >> level == (j >> level) + 1) & (i >> (level + 1) == j >> (level + 1))
            lt = tl.dot(tl.where(below, a, 0.0), t, input_precision="tf32x3")
            t -= tl.dot(t, lt, input_precision="tf32x3")
    return t


@triton.jit
def delta_rule_chunk(k_ptr, v_ptr, beta_ptr, gate_ptr, w_ptr, u_ptr, decay_ptr, n, DK: tl.constexpr, DV: tl.constexpr,
                     CHUNK: tl.constexpr):
    """decay, u = (I + A)^-1 (beta * v), w = (I + A)^-1 (beta * exp(decay) * k). Grid: (cdiv(n, CHUNK), heads)."""
    row = tl.arange(0, CHUNK)
    at = tl.program_id(0) * CHUNK + row
    head = tl.program_id(1).to(tl.int64) * n
    at_k = (head + at)[:, None] * DK + tl.arange(0, DK)[None, :]
    at_v = (head + at)[:, None] * DV + tl.arange(0, DV)[None, :]
    k = tl.load(k_ptr + at_k, mask=at[:, None] < n, other=0.0)
    beta = tl.load(beta_ptr + head + at, mask=at < n, other=0.0)
    decay = tl.cumsum(tl.load(gate_ptr + head + at, mask=at < n, other=0.0), axis=0)
    a = tl.dot(k, tl.trans(k), input_precision="ieee") * beta[:, None] * tl.exp(decay[:, None] - decay[None, :])
    t = inverse_of_unit_lower(tl.where(row[:, None] > row[None, :], a, 0.0), CHUNK).to(k.dtype)
    w = tl.dot(t, (k * (beta * tl.exp(decay))[:, None]).to(k.dtype), input_precision="ieee")
    tl.store(w_ptr + at_k, w.to(k.dtype), mask=at[:, None] < n)
    v = tl.load(v_ptr + at_v, mask=at[:, None] < n, other=0.0)
    u = tl.dot(t, (v * beta[:, None]).to(k.dtype), input_precision="ieee")
    tl.store(u_ptr + at_v, u.to(k.dtype), mask=at[:, None] < n)
    tl.store(decay_ptr + head + at, decay, mask=at < n)


@triton.jit
def delta_rule_state(k_ptr, w_ptr, u_ptr, decay_ptr, initial_ptr, fresh_ptr, states_ptr, final_ptr, n, DK: tl.constexpr,
                     DV: tl.constexpr, CHUNK: tl.constexpr, BLOCK_V: tl.constexpr):
    """fresh, and the state before each chunk and at the end, BLOCK_V columns a program. Grid: (DV // BLOCK_V, heads)."""
    row = tl.arange(0, CHUNK)
    d = tl.arange(0, DK)
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    head = tl.program_id(1).to(tl.int64)
    in_state = d[:, None] * DV + cols[None, :]
    state = tl.load(initial_ptr + head * DK * DV + in_state)
    chunks = tl.cdiv(n, CHUNK)
    for chunk in range(chunks):
        tl.store(states_ptr + (head * chunks + chunk) * DK * DV + in_state, state.to(states_ptr.dtype.element_ty))
        at = chunk * CHUNK + row
        there = at[:, None] < n
        at_k = (head * n + at)[:, None] * DK + d[None, :]
        at_v = (head * n + at)[:, None] * DV + cols[None, :]
        w = tl.load(w_ptr + at_k, mask=there, other=0.0)
        k = tl.load(k_ptr + at_k, mask=there, other=0.0)
        u = tl.load(u_ptr + at_v, mask=there, other=0.0)
        decay = tl.load(decay_ptr + head * n + at, mask=at < n, other=0.0)
        last = tl.load(decay_ptr + head * n + min(chunk * CHUNK + CHUNK, n) - 1)
        fresh = u - tl.dot(w, state.to(w.dtype), input_precision="ieee")
        tl.store(fresh_ptr + at_v, fresh.to(fresh_ptr.dtype.element_ty), mask=there)
        kept = tl.exp(last - decay)  # at most 1, as gates are at most 0
        state = state * tl.exp(last)
        state = tl.dot(tl.trans(k), (fresh * kept[:, None]).to(k.dtype), state, input_precision="ieee")
    tl.store(final_ptr + head * DK * DV + in_state, state)


@triton.jit
def delta_rule_output(q_ptr, k_ptr, fresh_ptr, decay_ptr, states_ptr, out_ptr, n, scale, DK: tl.constexpr, DV: tl.constexpr,
                      CHUNK: tl.constexpr, BLOCK_V: tl.constexpr):
    """out = scale * (exp(decay) * q S + (q k^T * exp(decay_t - decay_i), i <= t) fresh). Grid: (cdiv(n, CHUNK), DV // BLOCK_V, heads)."""
    row = tl.arange(0, CHUNK)
    d = tl.arange(0, DK)
    cols = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    at = tl.program_id(0) * CHUNK + row
    head = tl.program_id(2).to(tl.int64)
    there = at[:, None] < n
    at_k = (head * n + at)[:, None] * DK + d[None, :]
    at_v = (head * n + at)[:, None] * DV + cols[None, :]
    q = tl.load(q_ptr + at_k, mask=there, other=0.0)
    k = tl.load(k_ptr + at_k, mask=there, other=0.0)
    fresh = tl.load(fresh_ptr + at_v, mask=there, other=0.0)
    decay = tl.load(decay_ptr + head * n + at, mask=at < n, other=0.0)
    state = tl.load(states_ptr + (head * tl.num_programs(0) + tl.program_id(0)) * DK * DV + d[:, None] * DV + cols[None, :])
    p = tl.dot(q, tl.trans(k), input_precision="ieee") * tl.exp(decay[:, None] - decay[None, :])
    p = tl.where(row[:, None] >= row[None, :], p, 0.0)
    out = tl.dot(q, state, input_precision="ieee") * tl.exp(decay)[:, None]
    out = tl.dot(p.to(fresh.dtype), fresh, out, input_precision="ieee") * scale
    tl.store(out_ptr + at_v, out.to(out_ptr.dtype.element_ty), mask=there)
