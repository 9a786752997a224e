# What is joined of parts: in turn, halves of rows, phases in two dims, three parts, parts in parts, zeros between.
# args: x=randn:f32[3,4,6,64] y=randn:f32[3,4,6,64] k=randn:f32[4,3,4,4] h=randn:f16[5,48] v=randn:f32[4,7,9]
import torch
import torch.nn.functional as F


def turn(x, y):
    return torch.stack((x * 2 - y, x + y), -1).flatten(-2)


def halves(x, y):
    return x * y + torch.cat((-y[..., 32:], y[..., :32]), -1)


def spread(x, k):
    return F.conv_transpose2d(x[..., :20], k, None, stride=2, padding=1)


def between(v):
    return torch.slice_scatter(torch.zeros(4, 14, 9), v * 2, 1, 0, 14, 2), v[:, ::2, 1::2].exp()


def forward(x, y, k, h, v):
    thirds = torch.cat((x[..., :16], y[..., 16:32] + 1, x[..., 48:]), -1)
    uneven = torch.cat((x[..., :24], y[..., :8], x[..., 8:40]), -1) * 3
    outer = torch.cat((x, y * 2, x + y), 0)
    nested = torch.stack((torch.cat((x, y), -1), torch.cat((y + 1, x), -1)), -1).flatten(-2)
    many = torch.stack([h * i for i in range(1, 6)], -1).flatten(-2)
    short = torch.cat((h[:, :24].reshape(5, -1, 3), h[:, 24:].reshape(5, -1, 3)), -1).flatten(-2)
    turned = torch.stack((x, y), 1).transpose(-1, -2) + 1
    lines = torch.stack((h, h + 1), 0).flatten(), h.sum()
    return turn(x, y), halves(x, y), spread(x, k), *between(v), thirds, uneven, outer, nested, many, short, turned, *lines
