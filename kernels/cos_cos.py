"""cos(cos(x)), in the style in which TorchInductor writes a fused pointwise kernel."""
import triton
import triton.language as tl
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.triton_helpers import math as tl_math


@triton_heuristics.pointwise(size_hints={"x": 1048576}, filename=__file__, triton_meta={}, inductor_meta={})
@triton.jit
def triton_poi_fused_cos_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    """out_ptr0[i] = cos(cos(in_ptr0[i])) for i < xnumel.

    in_ptr0, out_ptr0: [xnumel] fp32. Grid: (cdiv(xnumel, XBLOCK),).
    """
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tl_math.cos(tmp0)
    tmp2 = tl_math.cos(tmp1)
    tl.store(out_ptr0 + (x0), tmp2, xmask)
