# An ATen graph whose random numbers are those of an input, as a program has it that is told its seed with each run.
# args: seed=randint(0,1000):i64[1]
import torch


def forward(seed: "i64[1]", x: "f32[13, 70]"):
    torch.ops.prims.nereid_seed.default(seed)
    rand: "f32[13, 70]" = torch.ops.aten.rand.default([13, 70], dtype=torch.float32)
    gt: "b8[13, 70]" = torch.ops.aten.gt.Scalar(rand, 0.25)
    mul: "f32[13, 70]" = torch.ops.aten.mul.Tensor(gt, x)
    other: "f32[70]" = torch.ops.aten.rand.default([70], dtype=torch.float32)
    sum_1: "f32[13]" = torch.ops.aten.sum.dim_IntList(mul, [1])
    return (mul, sum_1, gt, other)
