# Numbers beside tensors of f64 are not rounded.
# args: x=randn:f64[9,5]
import torch


def forward(x):
    return x + 0.1, torch.where(x > 0.3, x, 0.7) ** 1.1, (x * 1e-3).sum(1) / 3, x.clamp(-0.1, 0.2)
