# error: annotation.py:6:5: error: is annotated as f32[4, 5], and is a tensor f32[4, 4]
import torch


def forward(x_1: "f32[4, 4][4, 1]cpu"):
    cos: "f32[4, 5][5, 1]cpu" = torch.ops.aten.cos.default(x_1)
    return (cos,)
