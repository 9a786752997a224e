# An optimizer's step over parameters of many sizes: one launch.
# args: a=randn:f32[130,40] b=randn:f32[40] c=randn:f32[30,70] d=randn:f32[] ga=randn:f32[40,130] gb=randn:f32[12,40] gc=randn:f32[30,70] gd=randn:f32[]
import torch


def step(a, b, c, d, ga, gb, gc, gd):
    for p, g in ((a, ga.t()), (b, gb.sum(0)), (c, gc), (d, gd)):
        p.mul_(0.999).add_(g / (g.abs() + 1e-3), alpha=-0.1)
