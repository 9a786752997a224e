# Values with one place for many programs, threads or sums: broadcast operands of products, one row or column, indices
# of one element.
# args: x=randn:f32[7] s=randn:f32[] w=randn:f32[1,4] i=randint(0,2):i64[1] y=randn:f32[4,3] z=randn:f32[1]
import torch
import torch.nn.functional as F


def forward(x, s, w, i, y, z):
    e = s.expand(5, 3)
    narrow = x[:, None].repeat(1, 2)
    rows = F.layer_norm(y, (3,))
    return [e @ e.T, narrow @ narrow.T, F.linear(x[:4], w) * 0.3, rows[i], rows.index_select(1, i), torch.scatter_add(x, 0, i, z)]
