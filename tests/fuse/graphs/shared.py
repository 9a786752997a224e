# An ATen graph: results that are views of values which go on being used, and values that only their own kernel needs.
import torch


def forward(x_1: "f32[4, 8, 16][128, 16, 1]cpu", w_1: "f32[16][1]cpu", i_1: "i64[5][1]cpu"):
    rows: "f32[32, 16][16, 1]cpu" = torch.ops.aten.view.default(x_1, [32, 16])
    embedding: "f32[5, 16][16, 1]cpu" = torch.ops.aten.embedding.default(rows, i_1)
    square: "f32[5, 16][16, 1]cpu" = torch.ops.aten.pow.Tensor_Scalar(embedding, 2)
    mean: "f32[5, 1][1, 1]cpu" = torch.ops.aten.mean.dim(square, [-1], True)
    rsqrt: "f32[5, 1][1, 1]cpu" = torch.ops.aten.rsqrt.default(torch.ops.aten.add.Tensor(mean, 1e-05))
    mul: "f32[5, 16][16, 1]cpu" = torch.ops.aten.mul.Tensor(embedding, rsqrt)
    scaled: "f32[5, 16][16, 1]cpu" = torch.ops.aten.mul.Tensor(mul, w_1)
    a: "f32[4, 8, 16][128, 16, 1]cpu" = torch.ops.aten.add.Tensor(x_1, w_1)
    b: "f32[4, 8, 16][128, 16, 1]cpu" = torch.ops.aten.exp.default(a)
    flat: "f32[512][1]cpu" = torch.ops.aten.view.default(b, [512])
    c: "f32[512][1]cpu" = torch.ops.aten.mul.Tensor(flat, flat)
    sums: "f32[4, 16][16, 1]cpu" = torch.ops.aten.sum.dim_IntList(b, [1])
    total: "f32[8][1]cpu" = torch.ops.aten.sum.dim_IntList(b, [0, 2])
    column: "f32[16, 4][1, 16]cpu" = torch.ops.aten.permute.default(sums, [1, 0])
    d: "f32[16, 4][1, 16]cpu" = torch.ops.aten.mul.Tensor(column, 3.0)
    return (scaled, rsqrt, embedding, flat, c, d, total, column, x_1)
