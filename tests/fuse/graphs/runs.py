# Places that are found by dividing an index: channels, windows with strides and borders, parts of rows, backwards.
# args: x=randn:f32[3,6,20,37] w=randn:f32[6] b=randn:f32[6] k=randn:f32[6,1,3,3] r=randn:f32[5,7,9] v=randn:f32[2,3,40,40]
import torch
import torch.nn.functional as F


def forward(x, w, b, k, r, v):
    normal = F.batch_norm(x, b, w * w + 1, w, b, False)
    pools = [F.max_pool2d(x, 2, 2), F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 3), F.avg_pool2d(x, 5, 1, 2)]
    filtered = F.conv2d(x, k, None, 1, 1, 1, 6) + w[:, None, None]
    groups = F.group_norm(x, 2, w, b)
    batches = F.batch_norm(x, None, None, w, b, True)
    most = x.transpose(0, 1).reshape(6, -1).softmax(-1)
    halves = torch.cat([-x[..., 18:], x[..., :18]], -1)
    turned = x.transpose(1, 2) * w[:, None]
    variation = (v[:, :, 1:] - v[:, :, :-1]).square().sum() + (v[..., 1:] - v[..., :-1]).abs().sum()  # as many, of other shapes
    return normal, variation, *pools, filtered, groups, batches, most, halves, x.flip(-1) + 1, turned, r.flip(1) * r[:, :, :1], r[:, ::2] * 2
