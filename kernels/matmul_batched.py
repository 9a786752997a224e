"""Many products in one launch: a batch of one shape, and a group of problems that each have their own."""
import triton
import triton.language as tl


@triton.jit
def matmul_batched(a_ptr, b_ptr, c_ptr, M, N, K, stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn,
                   stride_cb, stride_cm, stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """C[i] = A[i] @ B[i].

    A: [batch, M, K], B: [batch, K, N], C: [batch, M, N] with any strides (elements; 0 to use one for the whole batch),
    accumulated in fp32. Grid: (cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N), batch).
    """
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program, item = tl.program_id(0), tl.program_id(1).to(tl.int64)  # a batch may have more than 2^31 elements
    tile_m, tile_n = tl.swizzle2d(program // tiles_n, program % tiles_n, tiles_m, tiles_n, GROUP_M)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + item * stride_ab + m[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + item * stride_bb + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + item * stride_cb + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_grouped(addresses_ptr, sizes_ptr, groups, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr, ALIGNED: tl.constexpr = False):
    """C[g] = A[g] @ B[g], each with its own M, N and K, by programs that share the tiles of all of them.

    addresses: int64[groups, 3], where A[g]: f16[M, K], B[g]: f16[K, N] and C[g]: f16[M, N] lie, each without gaps;
    sizes: int32[groups, 3], M, N and K. The tiles are counted through the groups, and a program takes every
    num_programs-th. ALIGNED: all arrays begin at multiples of 16 bytes, and all N and K are multiples of 8, which a
    compiler cannot know of what is loaded. Grid: (any,); best as many as the machine runs at once.
    """
    tile = tl.program_id(0)
    first = 0  # of this group's tiles
    for g in range(groups):
        M, N, K = tl.load(sizes_ptr + 3 * g), tl.load(sizes_ptr + 3 * g + 1), tl.load(sizes_ptr + 3 * g + 2)
        tiles_n = tl.cdiv(N, BLOCK_N)
        end = first + tl.cdiv(M, BLOCK_M) * tiles_n
        a_ptr = tl.load(addresses_ptr + 3 * g).to(tl.pointer_type(tl.float16))
        b_ptr = tl.load(addresses_ptr + 3 * g + 1).to(tl.pointer_type(tl.float16))
        c_ptr = tl.load(addresses_ptr + 3 * g + 2).to(tl.pointer_type(tl.float16))
        if ALIGNED:
            N, K = tl.multiple_of(N, 8), tl.multiple_of(K, 8)
            a_ptr, b_ptr, c_ptr = tl.multiple_of(a_ptr, 16), tl.multiple_of(b_ptr, 16), tl.multiple_of(c_ptr, 16)
        while tile < end:
            m = (tile - first) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
            n = (tile - first) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
            k = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + m[:, None] * K + k[None, :]
            b_ptrs = b_ptr + k[:, None] * N + n[None, :]
            acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
            for start in range(0, K, BLOCK_K):
                a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
                b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
                acc = tl.dot(a, b, acc)
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * N
            c_ptrs = c_ptr + m[:, None] * N + n[None, :]
            tl.store(c_ptrs, acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))
            tile += tl.num_programs(0)
        first = end
