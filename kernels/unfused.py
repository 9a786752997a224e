"""One operation a kernel: what a framework without fusion launches. GELU takes eight of these, softmax five.

    GELU     cube = pow3(x); t = scale(cube, 0.044715); t = add(x, t); t = scale(t, 0.79788...); t = tanh_op(t);
             t = shift(t, 1.0); t = mul(x, t); out = scale(t, 0.5)
    softmax  m = row_max(x); t = row_sub(x, m); e = exp_op(t); s = row_sum(e); out = row_div(e, s)
"""
import triton
import triton.language as tl


@triton.jit
def pow3(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x * x * x. x, out: [n] float. Grid: (cdiv(n, BLOCK),)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * x * x, mask=mask)


@triton.jit
def scale(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    """out = x * factor. x, out: [n] float. Grid: (cdiv(n, BLOCK),)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * factor, mask=mask)


@triton.jit
def shift(x_ptr, out_ptr, term, n, BLOCK: tl.constexpr):
    """out = x + term. x, out: [n] float. Grid: (cdiv(n, BLOCK),)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + term, mask=mask)


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y. x, y, out: [n] float. Grid: (cdiv(n, BLOCK),)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def mul(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x * y. x, y, out: [n] float. Grid: (cdiv(n, BLOCK),)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * y, mask=mask)


@triton.jit
def tanh_op(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = tanh(x). x, out: [n] fp32. Grid: (cdiv(n, BLOCK),)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0), mask=mask)


@triton.jit
def exp_op(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = exp(x). x, out: [n] fp32. Grid: (cdiv(n, BLOCK),)."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.exp(x), mask=mask)


@triton.jit
def row_max(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """out[r] = max over c of x[r, c]. x: [rows, n_cols] fp32, out: [rows]; BLOCK >= n_cols. Grid: (rows,)."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))


@triton.jit
def row_sum(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """out[r] = sum over c of x[r, c]. x: [rows, n_cols] fp32, out: [rows]; BLOCK >= n_cols. Grid: (rows,)."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


@triton.jit
def row_sub(x_ptr, r_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """out[r, c] = x[r, c] - v[r]. x, out: [rows, n_cols] fp32, v: [rows]; BLOCK >= n_cols. Grid: (rows,)."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask)
    tl.store(out_ptr + row * n_cols + cols, x - tl.load(r_ptr + row), mask=mask)


@triton.jit
def row_div(x_ptr, r_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """out[r, c] = x[r, c] / v[r]. x, out: [rows, n_cols] fp32, v: [rows]; BLOCK >= n_cols. Grid: (rows,)."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask)
    tl.store(out_ptr + row * n_cols + cols, x / tl.load(r_ptr + row), mask=mask)
