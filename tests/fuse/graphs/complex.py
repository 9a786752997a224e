# Rotary embeddings as Llama's original code has them, which are one kernel, and an ATen graph's complex tensors.
# args: xq=randn:f16[2,13,4,8] xk=randn:f16[2,13,2,8] freqs_cis=randn:c64[13,4] z=randn:c128[3,4]
import torch


def reshape_for_broadcast(freqs_cis, x):
    ndim = x.ndim
    assert freqs_cis.shape == (x.shape[1], x.shape[-1])
    shape = [d if i == 1 or i == ndim - 1 else 1 for i, d in enumerate(x.shape)]
    return freqs_cis.view(*shape)


def rotary(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = reshape_for_broadcast(freqs_cis, xq_)
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def aten(z: "c128[3, 4][4, 1]cpu"):
    conj: "c128[3, 4]" = torch.ops.aten._conj.default(z)
    mul: "c128[3, 4]" = torch.ops.aten.mul.Tensor(conj, (1 + 2j))
    view_as_real: "f64[3, 4, 2]" = torch.ops.aten.view_as_real.default(mul)
    select: "f64[3, 4]" = torch.ops.aten.select.int(view_as_real, 2, 1)
    mm: "c128[3, 3]" = torch.ops.aten.mm.default(z, torch.ops.aten.permute.default(mul, [1, 0]))
    written: "c128[3, 3]" = torch.ops.aten.mul_.Scalar(mm, 2.0)
    copied: "c128[3, 3]" = torch.ops.aten.clone.default(mm)
    copy_: "c128[2, 3]" = torch.ops.aten.copy_.default(torch.ops.aten.slice.Tensor(copied, 0, 1, 3), torch.ops.aten.slice.Tensor(mul, 1, 0, 3)[1:])
    return mul, select, mm, written, copied


def forward(xq, xk, freqs_cis, z): return *rotary(xq, xk, freqs_cis), *aten(z), freqs_cis
