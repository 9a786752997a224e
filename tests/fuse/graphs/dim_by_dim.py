# Reductions over windows of many places, which on a CPU go along one dim after the other.
# args: x=randn:f32[2,3,33,35] y=randn:f32[1,2,9,12,14]
import torch
import torch.nn.functional as F


def forward(x, y):
    apart = F.avg_pool2d(x, 11)
    over = F.max_pool2d(x.sin(), 5, stride=2, padding=2)
    tall = F.avg_pool2d(x, (7, 3), stride=(2, 1), padding=(3, 1))
    return apart, over, tall, F.avg_pool3d(y, 3, stride=2, padding=1), F.max_pool3d(y, (2, 4, 3), dilation=(1, 2, 1))
