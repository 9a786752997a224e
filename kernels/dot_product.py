"""Dot product of two vectors, one atomic addition a program."""
import triton
import triton.language as tl


@triton.jit
def dot_product(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[0] += sum of x[i] * y[i]; out[0] must be zero before.

    x, y: [n] any float type; out: [1] fp32. Grid: any (G,): program g takes tiles g, g + G, g + 2G, ...
    """
    total = tl.zeros([BLOCK], tl.float32)
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        total += x * y
    tl.atomic_add(out_ptr, tl.sum(total, axis=0))
