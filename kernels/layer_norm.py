"""Layer normalisation over rows, forward and backward."""
import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    """out[r, :] = (x[r, :] - mean) * rstd * weight + bias, with rstd = 1 / sqrt(var + eps).

    x, out: [rows, n_cols], row stride `stride`; weight, bias: [n_cols]; any float type, computed in fp32.
    mean, rstd: [rows] fp32, kept for the backward pass. BLOCK >= n_cols. Grid: (rows,).
    """
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    weight = tl.load(weight_ptr + cols, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask).to(tl.float32)
    y = centred * rstd * weight + bias
    tl.store(out_ptr + row * stride + cols, y.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def layer_norm_backward(x_ptr, weight_ptr, grad_ptr, mean_ptr, rstd_ptr, dx_ptr, dweight_ptr, dbias_ptr, stride, rows, n_cols,
                        BLOCK: tl.constexpr):
    """Gradients of layer_norm for grad = d loss / d out.

    x, grad, dx: [rows, n_cols], row stride `stride`; weight: [n_cols]; mean, rstd: [rows] fp32.
    dweight, dbias: [G, n_cols] fp32: the sums over the rows that program g handled; the caller adds the G rows up
    (column_sum below). BLOCK >= n_cols. Grid: any (G,).
    """
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK], tl.float32)
    dbias = tl.zeros([BLOCK], tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        at = row.to(tl.int64) * stride + cols
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + at, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        normed = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        scaled = weight * grad
        c1 = tl.sum(normed * scaled, axis=0) / n_cols
        c2 = tl.sum(scaled, axis=0) / n_cols
        dx = (scaled - (normed * c1 + c2)) * rstd
        tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dweight += grad * normed
        dbias += grad
    tl.store(dweight_ptr + program * n_cols + cols, dweight, mask=mask)
    tl.store(dbias_ptr + program * n_cols + cols, dbias, mask=mask)


@triton.jit
def column_sum(x_ptr, out_ptr, rows, n_cols, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    """out[c] = sum over r of x[r, c]. x: [rows, n_cols] contiguous fp32; out: [n_cols]. Grid: (cdiv(n_cols, BLOCK_COLS),)."""
    cols = tl.program_id(0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    total = tl.zeros([BLOCK_ROWS, BLOCK_COLS], tl.float32)
    for start in range(0, rows, BLOCK_ROWS):
        r = start + tl.arange(0, BLOCK_ROWS)
        mask = (r[:, None] < rows) & (cols[None, :] < n_cols)
        total += tl.load(x_ptr + r[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + cols, tl.sum(total, axis=0).to(out_ptr.dtype.element_ty), mask=cols < n_cols)
