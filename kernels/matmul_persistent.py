"""Matrix multiplication through tensor descriptors, a tile of C a program, and by programs that stay for many tiles."""
import triton
import triton.language as tl


@triton.jit
def matmul_descriptor(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                      BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """C = A @ B, every tile by its corner: a descriptor knows the bounds, so that there are neither pointers nor masks.

    A: [M, K], B: [K, N], C: [M, N]; whole rows, each a multiple of 16 bytes and K at least 1, accumulated in fp32.
    Grid: (cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N),).
    """
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    tile_m, tile_n = tl.swizzle2d(program // tiles_n, program % tiles_n, tiles_m, tiles_n, GROUP_M)
    m, n = tile_m * BLOCK_M, tile_n * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):  # beyond the bounds a load gives zeros
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc, input_precision="ieee")
    c.store([m, n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_persistent(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                      BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    """C = A @ B by as many programs as the machine runs at once; each takes every num_programs-th tile.

    The loads of a program's next tile can start while this one is stored. Arguments as of matmul.py's matmul.
    Grid: (any,); best min(multiprocessors, cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)).
    """
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
        m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for start in range(0, K, BLOCK_K):
            a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - start), other=0.0)
            b = tl.load(b_ptrs, mask=(k[:, None] < K - start) & (n[None, :] < N), other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
        c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :] * stride_cn
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
