# What is made of long rows and stored the other way has a kernel of its own, with tiles that turn: x is read by it and
# by the row's statistics. Of short rows a tile has several, and turns them itself: y is read once.
# args: x=randn:f32[2,8,9,1024] y=randn:f32[2,24,24,128]
import torch


def forward(x, y):
    return torch.softmax(x, -1).permute(0, 3, 1, 2), torch.softmax(y, -1).permute(0, 3, 1, 2)
