# Reductions over what does not lie last: columns, channels of images, in blocks that do not come out even; kept, and gone by.
# args: x=randn:f32[300,70] y=randn:f16[3,200,5,41] z=randn:f32[2,9,64] n=randint(0,9):i64[150,33] w=randn:f32[70]
import torch
import torch.nn.functional as F


def total(x):
    return x.sum(0)


def spread(x):
    total = x.sum(1, keepdim=True)
    return total, ((x - total) ** 2).sum(1)


def forward(x, y, z, n, w):
    centered = x - x.mean(0, keepdim=True)
    columns = x.sum(0), x.amax(0), x.argmin(0), (x.abs() ** 0.01).prod(0), x.var(0), (x > 0).any(0), x.softmax(0), x.logsumexp(0), centered
    channels = y.float().mean(1), y.softmax(1), F.layer_norm(y.permute(0, 2, 3, 1), (200,)).permute(0, 3, 1, 2), y.argmax(1)
    kept = z.sum(1), z.softmax(1), z.amax((0, 1)), (z * z).mean((0, 1)), n.sum(0), n.amax(0), n.argmax(0)
    both = (x * w).sum(0), (x * w).sum(1), F.batch_norm(x, None, None, w, w, True)
    return *columns, *channels, *kept, *both
