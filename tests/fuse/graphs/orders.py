# Images that lie in memory with their channels last: reductions go along memory, and no operation is left transposed.
# What meets a tensor of its size that lies otherwise (`torn`), or only products (`rows`), stays as it is.
# args: x=randn:f32[3,9,10,12] y=randn:f32[3,12,9,10] w=randn:f32[12] v=randn:f32[3,7,12] m=randn:f32[7,5]
import torch
import torch.nn.functional as F


def along(x, w):
    image = x.permute(0, 3, 1, 2)
    groups = F.group_norm(image, 4, w, w)
    batches = F.batch_norm(image, None, None, w, w, True)
    pooled = F.max_pool2d(F.relu(groups), 2) + F.avg_pool2d(batches, 2)
    joined = torch.cat([F.pad(image, [1, 2, 0, 1]), image[:, :, :1, :1].expand(3, 12, 10, 13)], 1)
    return groups.permute(0, 2, 3, 1), batches.permute(0, 2, 3, 1), pooled.amax([2, 3]), joined.sum([1, 3]).sin()


def torn(x, y):
    return (x.permute(0, 3, 1, 2) + y).sum([2, 3])


def rows(v, m):
    return v.transpose(1, 2) @ m


def forward(x, y, w, v, m):
    image = x.reshape(3, 90, 12).transpose(1, 2)
    most = image.argmax(2) + image.argmax(1).sum(1, keepdim=True)
    spread = torch.softmax(image * w[:, None], 1), torch.softmax(image, 2).cumsum(1), image.std(1)
    return *along(x, w), torn(x, y), rows(v, m), most, *spread, (v.transpose(1, 2).sum(1) @ m).tanh()
