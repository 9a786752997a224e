"""Cumulative sum along rows."""
import triton
import triton.language as tl


@triton.jit
def cumsum(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """out[r, c] = sum of x[r, 0..c].

    x, out: [rows, n_cols], row stride `stride`; fp32 or ints (computed in that type). BLOCK: any power of two. Grid: (rows,).
    """
    row = tl.program_id(0).to(tl.int64)
    carry = tl.zeros([1], x_ptr.dtype.element_ty)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0)
        tl.store(out_ptr + row * stride + cols, tl.cumsum(x, axis=0) + carry, mask=mask)
        carry += tl.sum(x, axis=0)
