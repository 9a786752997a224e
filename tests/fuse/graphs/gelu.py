# An ATen graph: tanh GELU, its loss and what backward keeps.
import torch
from math import inf, nan
from torch import device


def forward(x_1: "f32[37, 50][50, 1]cpu"):
    half: "f32[37, 50][50, 1]cpu" = torch.ops.aten.mul.Tensor(x_1, 0.5)
    cube: "f32[37, 50][50, 1]cpu" = torch.ops.aten.pow.Tensor_Scalar(x_1, 3)
    scaled: "f32[37, 50][50, 1]cpu" = torch.ops.aten.mul.Tensor(cube, 0.044715);  cube = None
    inner: "f32[37, 50][50, 1]cpu" = torch.ops.aten.add.Tensor(x_1, scaled);  scaled = None
    mul: "f32[37, 50][50, 1]cpu" = torch.ops.aten.mul.Tensor(inner, 0.7978845608028654);  inner = None
    tanh: "f32[37, 50][50, 1]cpu" = torch.ops.aten.tanh.default(mul);  mul = None
    add: "f32[37, 50][50, 1]cpu" = torch.ops.aten.add.Tensor(tanh, 1)
    out: "f32[37, 50][50, 1]cpu" = torch.ops.aten.mul.Tensor(half, add);  half = add = None
    square: "f32[37, 50][50, 1]cpu" = torch.ops.aten.pow.Tensor_Scalar(out, 2)
    loss: "f32[][]cpu" = torch.ops.aten.sum.default(square);  square = None
    return (loss, out, tanh, x_1)
