"""Quantisation to fp8 with one scale a row."""
import triton
import triton.language as tl


@triton.jit
def quantize_rows(x_ptr, out_ptr, scale_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """scale[r] = max over c of |x[r, c]| / 448, or 1 for a row of zeros; out[r, c] = x[r, c] / scale[r] as fp8 e4m3 (whose largest is 448).

    x, out: [rows, n_cols], row stride `stride`; x any float type, out fp8e4nv; scale: [rows] fp32. BLOCK >= n_cols. Grid: (rows,).
    """
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    top = tl.max(tl.abs(x), axis=0)
    scale = tl.where(top > 0, top / 448.0, 1.0)
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * stride + cols, (x * (1.0 / scale)).to(out_ptr.dtype.element_ty), mask=mask)
