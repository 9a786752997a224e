"""Kernels that are bad at one thing each, for docs/guide/report.md: the same work done well stands beside it, one constant away."""
import triton
import triton.language as tl


@triton.jit
def strided(x_ptr, out_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = 2 * x[i * STRIDE]. x: [n * STRIDE] float, out: [n]. Grid: (cdiv(n, BLOCK),). Bad with STRIDE > 1: neighbouring threads read apart."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * STRIDE, mask=i < n)
    tl.store(out_ptr + i, 2 * x, mask=i < n)


@triton.jit
def shifted(x_ptr, out_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = 2 * x[i + SHIFT]. x: [n + SHIFT] float, out: [n]. Grid: (cdiv(n, BLOCK),). Bad when SHIFT is no multiple of 8: each warp begins inside a
    sector, and threads cannot load 16 bytes at once."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + SHIFT + i, mask=i < n)
    tl.store(out_ptr + i, 2 * x, mask=i < n)


@triton.jit
def banks(x_ptr, out_ptr, STEP: tl.constexpr):
    """out[i] = x[i * STEP % 1024] for i < 128, of each block of 1024 floats, through shared memory. Grid: (blocks,). Bad with a STEP of 32: the words that
    a warp reads lie in one bank. With 33 they lie in all."""
    x = tl.load(x_ptr + tl.program_id(0) * 1024 + tl.arange(0, 1024))
    i = tl.arange(0, 128)
    tl.store(out_ptr + tl.program_id(0) * 128 + i, tl.gather(x, i * STEP % 1024, axis=0))


@triton.jit
def halve_or_triple(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@triton.jit
def collatz(out_ptr, SAME: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = steps until i + 1 comes to 1 (n / 2 when even, else 3 n + 1). out: [blocks * BLOCK] int32. Grid: (blocks,). Bad without SAME: each thread of a
    warp has a loop of another length, and the warp takes as long as the longest. With SAME the 32 threads of a warp have the number of the first."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = i // 32 * 32 + 1 if SAME else i + 1
    tl.store(out_ptr + i, tl.map_elementwise(halve_or_triple, n))
