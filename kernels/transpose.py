"""Transpose of a matrix, a tile at a time."""
import triton
import triton.language as tl


@triton.jit
def transpose(x_ptr, out_ptr, rows, cols, x_stride, out_stride, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """out[c, r] = x[r, c].

    x: [rows, cols], row stride x_stride; out: [cols, rows], row stride out_stride; any type.
    Grid: (cdiv(rows, BLOCK_R), cdiv(cols, BLOCK_C)).
    """
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    x = tl.load(x_ptr + r[:, None] * x_stride + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols))
    mask = (c[:, None] < cols) & (r[None, :] < rows)
    tl.store(out_ptr + c[:, None] * out_stride + r[None, :], tl.trans(x), mask=mask)
