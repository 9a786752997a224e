"""Dropout whose mask is never stored: Philox makes it again from the seed."""
import triton
import triton.language as tl


@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """out[i] = x[i] / (1 - p) where rand(seed, i) > p, else 0; i < n.

    x, out: [n] any float type; p: the probability of dropping, below 1; seed: int. Grid: (cdiv(n, BLOCK),).
    """
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    keep = tl.rand(seed, offsets) > p
    out = tl.where(keep, x / (1 - p), 0.0)
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)
