"""Sums of a whole array; sum, mean and argmax over rows."""
import triton
import triton.language as tl


@triton.jit
def array_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[0] += sum of x[i], one atomic addition a program; out[0] must be zero before.

    x: [n] any float type; out: [1] fp32. Grid: any (G,): program g takes tiles g, g + G, g + 2G, ...
    """
    total = tl.zeros([BLOCK], tl.float32)
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr, tl.sum(total, axis=0))


@triton.jit
def row_sum(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """out[r] = sum over c of x[r, c]. x: [rows, n_cols], row stride `stride`; out: [rows] fp32. Grid: (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


@triton.jit
def row_mean(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """out[r] = mean over c of x[r, c]. Shapes as in row_sum. Grid: (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total, axis=0) / n_cols)


@triton.jit
def row_argmax(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """out[r] = index of the largest x[r, c], the lowest where several are equal.

    x: [rows, n_cols], row stride `stride`, float; out: [rows] int32; BLOCK >= n_cols. Grid: (rows,).
    """
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, axis=0))
