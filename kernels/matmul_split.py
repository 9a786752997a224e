"""Matrix multiplication with K shared out among programs, for products with too few tiles to fill the machine."""
import triton
import triton.language as tl


@triton.jit
def tile_product(a_ptr, b_ptr, m, n, first, end, M, N, stride_am, stride_ak, stride_bk, stride_bn,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Rows m of A times columns n of B, over first <= k < end."""
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + (first + k[None, :]) * stride_ak
    b_ptrs = b_ptr + (first + k[:, None]) * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(first, end, BLOCK_K):
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < end - start), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < end - start) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    return acc


@triton.jit
def matmul_split_k(a_ptr, b_ptr, parts_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """parts[s] = A[:, the s-th part of K] @ B[that part, :]; split_k_sum adds them up, the same each time.

    A: [M, K], B: [K, N] with any strides (elements); parts: f32[num_programs(1), M, N].
    Grid: (cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N), parts).
    """
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program, part = tl.program_id(0), tl.program_id(1)
    tile_m, tile_n = tl.swizzle2d(program // tiles_n, program % tiles_n, tiles_m, tiles_n, GROUP_M)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    length = tl.cdiv(tl.cdiv(K, BLOCK_K), tl.num_programs(1)) * BLOCK_K  # whole blocks; the last parts may be empty
    acc = tile_product(a_ptr, b_ptr, m, n, part * length, min(part * length + length, K), M, N, stride_am, stride_ak,
                       stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K)
    part_ptrs = parts_ptr + (part.to(tl.int64) * M + m[:, None]) * N + n[None, :]
    tl.store(part_ptrs, acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def split_k_sum(parts_ptr, c_ptr, count, parts, BLOCK: tl.constexpr):
    """C = the sum of parts: f32[parts, count], C: [count]. Grid: (cdiv(count, BLOCK),)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for part in range(parts):
        total += tl.load(parts_ptr + part.to(tl.int64) * count + i, mask=i < count, other=0.0)
    tl.store(c_ptr + i, total.to(c_ptr.dtype.element_ty), mask=i < count)


@triton.jit
def matmul_stream_k(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C += A @ B, where each program takes as many steps of BLOCK_K as any other (Osama et al., "Stream-K", 2023).

    The steps of all tiles stand in one line, cut into equal shares; a share may begin and end inside a tile, so that
    what it has of a tile is added to C, f32, which begins as zeros. Grid: (any,); best as many as the machine runs.
    """
    tiles_n, steps = tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)  # steps of a tile
    total = tl.cdiv(M, BLOCK_M) * tiles_n * steps
    share = tl.cdiv(total, tl.num_programs(0))
    step = tl.program_id(0) * share
    end = min(step + share, total)
    while step < end:
        tile = step // steps
        stop = min((tile + 1) * steps, end)  # the last step of this tile that is ours
        m = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tile_product(a_ptr, b_ptr, m, n, (step - tile * steps) * BLOCK_K, min((stop - tile * steps) * BLOCK_K, K),
                           M, N, stride_am, stride_ak, stride_bk, stride_bn, BLOCK_M, BLOCK_N, BLOCK_K)
        c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
        tl.atomic_add(c_ptrs, acc, mask=(m[:, None] < M) & (n[None, :] < N), sem="relaxed")
        step = stop
