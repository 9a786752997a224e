# error: size.py:6:5: error: whether s0*s1 == 12 is not known
import torch


def forward(x_1: "f32[s0, s1][s1, 1]cpu"):
    assert x_1.numel() == 12
    return (x_1,)
