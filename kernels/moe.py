"""Mixture of experts: one product for the tokens of all experts, each token times the weights of its own experts."""
import triton
import triton.language as tl


@triton.jit
def fused_moe(x_ptr, w_ptr, y_ptr, order_ptr, expert_ptr, route_ptr, routes, blocks_ptr, N, K, TOP_K: tl.constexpr,
              WEIGHTED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Y[r] = X[r // TOP_K] @ W[the expert of route r], times route[r] where WEIGHTED.

    A route is a token and one of its TOP_K experts; routes: tokens * TOP_K. The routes are sorted by expert, and each
    expert's are padded to whole blocks, so that a block of rows has one expert: order: int32[blocks * BLOCK_M] has them,
    `routes` where there is padding; expert: int32[blocks] the expert of each block; blocks: int32[1] how many
    there are, which the host need not know.
    X: [tokens, K], W: [experts, K, N], Y: [routes, N], all without gaps; route: f32[routes]. For the second product of
    a layer, whose X already has a row for each route, TOP_K is 1. Grid: (at least blocks, cdiv(N, BLOCK_N)).
    """
    block = tl.program_id(0)
    if block >= tl.load(blocks_ptr):
        return
    route = tl.load(order_ptr + block * BLOCK_M + tl.arange(0, BLOCK_M))
    real = route < routes
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    expert = tl.load(expert_ptr + block).to(tl.int64)  # the weights of all experts may be more than 2^31 elements
    x_ptrs = x_ptr + (route // TOP_K)[:, None] * K + k[None, :]
    w_ptrs = w_ptr + expert * K * N + k[:, None] * N + n[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=real[:, None] & (k[None, :] < K - start), other=0.0)
        w = tl.load(w_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    if WEIGHTED:
        acc *= tl.load(route_ptr + route, mask=real, other=0.0)[:, None]
    tl.store(y_ptr + route[:, None] * N + n[None, :], acc.to(y_ptr.dtype.element_ty),
             mask=real[:, None] & (n[None, :] < N))
