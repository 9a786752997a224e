"""Root-mean-square normalisation over rows."""
import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    """out[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + eps) * weight.

    x, out: [rows, n_cols], row stride `stride`; weight: [n_cols]; any float type, computed in fp32. BLOCK >= n_cols.
    Grid: (rows,).
    """
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * stride + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)
