# Convolutions whose pixels are two axes of a tile: borders, strides, dilations, phases, images of several rows a tile,
# and rows that no block fits well.
# args: x=randn:f32[2,3,18,30] w=randn:f32[5,3,3,3] v=randn:f32[3,4,3,3] y=randn:f32[1,2,5,6,17] u=randn:f32[3,2,2,3,3] z=randn:f32[2,3,34,34]
import torch
import torch.nn.functional as F


def forward(x, w, v, y, u, z):
    narrow = F.conv2d(x, w)
    bordered = F.gelu(F.conv2d(x, w, padding=1)) * 2
    far = F.conv2d(x, w, stride=2, padding=2, dilation=2)
    phases = F.conv_transpose2d(x, v, stride=2, padding=1)
    deep = F.conv3d(y, u, padding=(1, 0, 1)).relu()
    odd = F.conv2d(z, w, padding=1).sum(1)
    return narrow, bordered, far, phases, deep, odd
