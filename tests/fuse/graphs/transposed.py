# Transposed convolutions, in phases, of dilated weights too, beside the sum that they stand for: whether they are the same.
# args: x=randn:f32[2,4,5,6] w=randn:f32[4,3,3,2]
# result: 1
import torch
import torch.nn.functional as F


def places(n, m, step, first):
    """[n, m]: 1 where a row is the place first + step * column."""
    return (torch.arange(n)[:, None] == torch.arange(m)[None, :] * step + first).float()


def spread(x, w, stride, padding, more, dilation):
    """Each element of x adds its multiple of w to the places around it."""
    high, wide = x.shape[2], x.shape[3]
    rows = (high - 1) * stride + dilation * (w.shape[2] - 1) + 1 + more
    columns = (wide - 1) * stride + dilation * (w.shape[3] - 1) + 1 + more
    out = 0
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            part = torch.einsum("nchw,co->nohw", x, w[:, :, i, j])
            out = out + places(rows, high, stride, i * dilation) @ part @ places(columns, wide, stride, j * dilation).T
    return out[:, :, padding:rows - padding, padding:columns - padding]


def forward(x, w):
    worst = []
    for stride, padding, more, dilation in ((2, 1, 1, 1), (3, 0, 2, 1), (1, 3, 0, 1), (2, 1, 0, 2), (4, 2, 0, 1), (3, 1, 1, 2), (4, 0, 1, 6)):
        y = F.conv_transpose2d(x, w, None, stride=stride, padding=padding, output_padding=more, dilation=dilation)
        worst.append((y - spread(x, w, stride, padding, more, dilation)).abs().max())
    return (torch.stack(worst).max() < 1e-4).float()
