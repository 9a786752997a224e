"""GELU in its tanh form, fused: one read and one write an element."""
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """tanh of an fp32 value through one exp: 1 - 2 / (exp(2x) + 1), which saturates to +-1 without overflow trouble."""
    return 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)


@triton.jit
def gelu(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) for i < n.

    x, out: [n], any float type; computed in fp32. Grid: (cdiv(n, BLOCK),).
    """
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    out = 0.5 * x * (1.0 + tanh(inner))
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)
