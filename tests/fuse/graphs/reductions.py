# An ATen graph: reductions along each kind of dim, of each type.
import torch


def forward(x_1: "f32[5, 40, 33][1320, 33, 1]cpu", n_1: "i64[6, 9][9, 1]cpu", h_1: "bf16[12, 130][130, 1]cpu"):
    outer: "f32[1, 40, 33][1320, 33, 1]cpu" = torch.ops.aten.sum.dim_IntList(x_1, [0], True)
    both: "f32[40][1]cpu" = torch.ops.aten.sum.dim_IntList(x_1, [0, 2])
    every: "f32[][]cpu" = torch.ops.aten.mean.default(x_1)
    amax: "f32[5, 33][33, 1]cpu" = torch.ops.aten.amax.default(x_1, [1])
    amin: "f32[5, 40, 1][40, 1, 1]cpu" = torch.ops.aten.amin.default(x_1, [-1], True)
    var_mean = torch.ops.aten.var_mean.correction(x_1, [1, 2], correction = 1, keepdim = True)
    var: "f32[5, 1, 1][1, 1, 1]cpu" = var_mean[0]
    mean: "f32[5, 1, 1][1, 1, 1]cpu" = var_mean[1];  var_mean = None
    counts: "i64[9][1]cpu" = torch.ops.aten.sum.dim_IntList(torch.ops.aten.ne.Scalar(n_1, 0), [0])
    product: "i64[6][1]cpu" = torch.ops.aten.prod.dim_int(torch.ops.aten.add.Tensor(n_1, 1), 1)
    largest: "i64[6][1]cpu" = torch.ops.aten.argmax.default(n_1, 1)
    any_1: "b8[6][1]cpu" = torch.ops.aten.any.dim(torch.ops.aten.gt.Scalar(n_1, 0), 1)
    half: "bf16[12][1]cpu" = torch.ops.aten.sum.dim_IntList(h_1, [1])
    cumsum: "i64[6, 9][9, 1]cpu" = torch.ops.aten.cumsum.default(n_1, 1)
    running: "f32[5, 40, 33][1320, 33, 1]cpu" = torch.ops.aten.cumsum.default(x_1, 1)
    softmax: "f32[5, 40, 33][1320, 33, 1]cpu" = torch.ops.aten._softmax.default(x_1, 1, False)
    logs: "f32[5, 40][40, 1]cpu" = torch.ops.aten.logsumexp.default(x_1, [2])
    return (outer, both, every, amax, amin, var, mean, counts, product, largest, any_1, half, cumsum, running, softmax, logs)
