# An ATen graph: views of every kind, read through one another.
import torch
from math import inf


def forward(a_1: "f32[4, 6, 10][60, 10, 1]cpu", b_1: "f32[10, 6][6, 1]cpu"):
    permute: "f32[10, 4, 6][1, 60, 10]cpu" = torch.ops.aten.permute.default(a_1, [2, 0, 1])
    unsqueeze: "f32[10, 1, 6][6, 6, 1]cpu" = torch.ops.aten.unsqueeze.default(b_1, 1)
    expand: "f32[10, 4, 6][6, 0, 1]cpu" = torch.ops.aten.expand.default(unsqueeze, [10, 4, 6])
    add: "f32[10, 4, 6][24, 6, 1]cpu" = torch.ops.aten.add.Tensor(permute, expand)
    view: "f32[5, 8, 6][48, 6, 1]cpu" = torch.ops.aten.view.default(add, [5, 8, 6])
    slice_1: "f32[5, 3, 6][48, 12, 1]cpu" = torch.ops.aten.slice.Tensor(view, 1, 1, 7, 2)
    select: "f32[5, 6][48, 1]cpu" = torch.ops.aten.select.int(slice_1, 1, -1)
    cat: "f32[5, 4, 6][24, 6, 1]cpu" = torch.ops.aten.cat.default([slice_1, torch.ops.aten.unsqueeze.default(select, 1)], 1)
    neg: "f32[5, 4, 6][24, 6, 1]cpu" = torch.ops.aten.neg.default(cat)
    pad: "f32[5, 7, 5][35, 5, 1]cpu" = torch.ops.aten.constant_pad_nd.default(neg, [0, -1, 1, 2], 3.5)
    mul: "f32[5, 7, 5][35, 5, 1]cpu" = torch.ops.aten.mul.Tensor(pad, 2)
    odd: "f32[7, 25][25, 1]cpu" = torch.ops.aten.view.default(mul, [7, 25])
    scatter: "f32[7, 25][25, 1]cpu" = torch.ops.aten.slice_scatter.default(odd, torch.ops.aten.full.default([7, 3], -1.0), 1, 20, 23)
    back: "f32[7, 50][50, 1]cpu" = torch.ops.aten.slice_backward.default(scatter, [7, 50], 1, 0, 9223372036854775807, 2)
    transposed: "f32[25, 7][1, 25]cpu" = torch.ops.aten.permute.default(scatter, [1, 0])
    split = torch.ops.aten.split.Tensor(transposed, 10)
    last: "f32[5, 7][1, 25]cpu" = split[2]
    return (mul, back, transposed, last, add)
