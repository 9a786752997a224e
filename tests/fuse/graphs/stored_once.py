# n is read by several kernels, and stored by one: m, of which it is made, need not be stored beside it.
# args: x=randn:f32[64,70] y=randn:f32[64,70] g=randn:f32[64,70]
import torch


def forward(x, y, g):
    s = 1 / (torch.exp(-x) + 1)
    m = s * (x * (1 - s) + 1) * y
    n = g * m
    return n.cumsum(0), n.sum(0), m.sum(1) + 1, n.sum(1)
