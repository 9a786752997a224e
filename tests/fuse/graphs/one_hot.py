# One element a row: the gradient of a classifier's loss writes nothing that it then reads.
# args: x=randn:f32[37,70] i=randint(0,70):i64[37,1] g=randn:f32[37,1] v=randn:f32[37,1]
import torch


def forward(x, i, g, v):
    one = torch.zeros_like(x).scatter(1, i, -1.0)
    share = (one * g).sum(1, keepdim=True)
    added = torch.ones_like(x).scatter_add(1, i, v)
    return x.exp() * -share + one * g, added, (-added / g).sum(1), torch.zeros_like(x).scatter(1, i, v).amax(1)
