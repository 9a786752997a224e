# What stands before and after: results and their gradients, of tensors with and without elements.
# args: x=randn:f32[6,10] w=randn:f64[10,4] e=randn:f32[0,3] --grad x,w,e
import torch
import torch.nn.functional as F


def forward(x, w, e):
    a, b = x.chunk(2, dim=1)
    h = F.gelu(torch.cat([b, a * 2], 1)).double() @ w
    pooled = F.max_pool2d(x[None, None], 2, 1) * torch.sort(x[:5, :9], 1)[0]
    return h.softmax(-1).pow(2.5), pooled + F.dropout(x[1:, 1:], 0.5), (e * 2).sum(0) + x[:0].sum(), (e @ e.t()).exp(), e.t() @ e
