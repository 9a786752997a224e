# An ATen graph: row softmax written out, in symbolic sizes, and an integer result beside it.
import torch


def forward(s0: "Sym(s0)", s1: "Sym(s1)", x_1: "f32[s0, s1][s1, 1]cpu", y_1: "f32[s0*s1][1]cpu"):
    max_1 = torch.ops.aten.max.dim(x_1, 1)
    values: "f32[s0][1]cpu" = max_1[0]
    places: "i64[s0][1]cpu" = max_1[1];  max_1 = None
    column: "f32[s0, 1][1, 1]cpu" = torch.ops.aten.unsqueeze.default(values, 1);  values = None
    sub: "f32[s0, s1][s1, 1]cpu" = torch.ops.aten.sub.Tensor(x_1, column);  column = None
    exp: "f32[s0, s1][s1, 1]cpu" = torch.ops.aten.exp.default(sub);  sub = None
    sum_1: "f32[s0][1]cpu" = torch.ops.aten.sum.dim_IntList(exp, [1])
    total: "f32[s0, 1][1, 1]cpu" = torch.ops.aten.unsqueeze.default(sum_1, 1);  sum_1 = None
    div: "f32[s0, s1][s1, 1]cpu" = torch.ops.aten.div.Tensor(exp, total);  exp = total = None
    n: "Sym(s0*s1)" = s0 * s1
    flat: "f32[s0*s1][1]cpu" = torch.ops.aten.view.default(div, [n])
    mul: "f32[s0*s1][1]cpu" = torch.ops.aten.mul.Tensor(flat, y_1);  flat = None
    mean: "f32[s0, 1][1, 1]cpu" = torch.ops.aten.mean.dim(x_1, [-1], True)
    return (div, places, mul, mean, s0)
