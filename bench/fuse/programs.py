"""The programs of bench/fuse/run, in PyTorch's own syntax. PyTorch imports this file, and nereid fuse reads it."""
import math

import torch
import torch.nn.functional as F


def manual_gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def manual_softmax(x):
    x_max = x.max(dim=1)[0]
    z = x - x_max[:, None]
    numerator = torch.exp(z)
    denominator = numerator.sum(dim=1)
    return numerator / denominator[:, None]


def cos_cos(x):
    return x.cos().cos()


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


def rotary(q, cos, sin):
    half = q.shape[-1] // 2
    turned = torch.cat((-q[..., half:], q[..., :half]), dim=-1)
    return q * cos + turned * sin


def rotary_complex(q, frequencies):
    q_ = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(q_ * torch.view_as_complex(frequencies)).flatten(3).type_as(q)


def group_norm(x):
    return F.group_norm(x, 8)


def group_norm_last(x):
    return F.group_norm(x.permute(0, 3, 1, 2), 8).permute(0, 2, 3, 1)


def fnet(x):
    return torch.fft.fft2(x).real * 1.0


def long_convolution(u, k):
    n = 2 * u.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(u, n=n) * torch.fft.rfft(k, n=n), n=n)[..., : u.shape[-1]] * 1.0


def spectral_convolution(x, weight):
    modes = weight.shape[2]
    low = torch.fft.rfft2(x)[:, :, :modes, :modes]
    mixed = torch.einsum("bixy,ioxy->boxy", low, torch.view_as_complex(weight))
    h, w = x.shape[-2:]
    return torch.fft.irfft2(F.pad(mixed, (0, w // 2 + 1 - modes, 0, h - modes)), s=(h, w)) * 1.0


def swiglu(gate, up):
    return F.silu(gate) * up


def dropout_add_norm(x, residual, weight, bias):
    h = F.dropout(x, 0.1) + residual
    return F.layer_norm(h, (h.shape[-1],), weight, bias)


def attention(q, k, v):
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    return torch.softmax(scores, dim=-1) @ v


def attention_causal(q, k, v):
    n = q.shape[-2]
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=q.device))
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ v


def attention_bias(q, k, v, bias):
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1])) + bias
    return torch.softmax(scores, dim=-1) @ v


def linear_gelu(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias), approximate="tanh")


def product(a, b):
    return a @ b


def column_sum(x):
    return x.sum(0)


def total(x):
    return x.sum()


def transposed_add(x, y):
    return x.T + y
