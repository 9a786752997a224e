# Plain functions over tensors. The command line says what the parameters are.
# args: x=randn:f32[12,40] w=randn:f32[40,40] mask=randint(0,2):i1[12]
import math

import torch
import torch.nn.functional as F


def manual_gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def manual_softmax(x):
    top = x.max(dim=1)[0]
    e = torch.exp(x - top[:, None])
    return e / e.sum(dim=1)[:, None]


def forward(x, w, mask, *, scale=1 / math.sqrt(40)):
    assert x.ndim == 2 and x.shape[1] == w.shape[0], f"shapes {x.shape} and {w.shape}"
    out = {}
    out["gelu"] = manual_gelu(x)
    out["softmax"] = manual_softmax(x)
    out["coscos"] = x.cos().cos()
    scores = (x @ w) * scale
    parts = [p.sum(-1) for p in scores.chunk(4, dim=-1)]
    out["parts"] = torch.stack(parts, dim=1)[::2, -3:]
    for i, part in enumerate(parts):
        if i % 2:
            continue
        out[f"part{i}"] = torch.where(mask, part, -part) ** 2
    out["row"] = scores[3]
    out["picked"] = x[[0, 5, 7], 1:39:3]
    out["norm"] = F.layer_norm(x, (40,)) + F.normalize(x, dim=-1)
    out["mixed"] = (x.mean(-1, keepdim=True) > 0) * x + torch.arange(40) % 3
    out["einsum"] = torch.einsum("bi,ij->bj", x, w)
    return out
