# Sums and products of many f32 so far: each is right to a rounding.
# args: x=rand:f32[2,40000] y=rand:f32[9000,20]
import torch


def forward(x, y):
    near_one = torch.where(x > 0.5, 1.0009765625, 0.9990234375)
    return torch.cumsum(x, 1), torch.cumsum(y, 0), torch.cumprod(near_one, 1)
