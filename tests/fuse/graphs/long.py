# An ATen graph: many elements to few, in two steps when they are fused; rows too long to be held; a middle dim.
import torch


def forward(x_1: "f32[480, 601][601, 1]cpu", y_1: "f32[2, 4500, 20][90000, 20, 1]cpu"):
    square: "f32[480, 601][601, 1]cpu" = torch.ops.aten.pow.Tensor_Scalar(x_1, 2)
    sum_1: "f32[][]cpu" = torch.ops.aten.sum.default(square);  square = None
    amax: "f32[1, 1][1, 1]cpu" = torch.ops.aten.amax.default(x_1, [0, 1], True)
    columns: "f32[20][1]cpu" = torch.ops.aten.sum.dim_IntList(y_1, [0, 1])
    flat: "f32[2, 90000][90000, 1]cpu" = torch.ops.aten.view.default(y_1, [2, 90000])
    softmax: "f32[2, 90000][90000, 1]cpu" = torch.ops.aten._softmax.default(flat, 1, False)
    best: "i64[2][1]cpu" = torch.ops.aten.argmax.default(flat, 1)
    middle: "f32[2, 20][20, 1]cpu" = torch.ops.aten.mean.dim(y_1, [1])
    return (sum_1, amax, columns, softmax, best, middle)
