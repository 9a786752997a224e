# Poolings, paddings, sizes that change.
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[2,3,9,8]; grad
def max_pools(x):
    return F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, (3, 2), stride=(2, 1), dilation=2), F.max_pool2d(x, 3, 2, ceil_mode=True), F.max_pool1d(x[0], 3, 2), F.max_pool2d(x, 3, 2, 1, return_indices=True)[1]


# x f64[1,2,5,6,4]; grad
def max_pool_3d(x):
    return F.max_pool3d(x, 2, 2), F.avg_pool3d(x, 2, 1)


# x f64[2,3,9,8]; grad
def average_pools(x):
    return F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.avg_pool2d(x, 3, 2, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3), F.avg_pool1d(x[0], 4, 3, 2)


# x f64[2,3,7,6]; grad
def adaptive_pools(x):
    return F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, (3, 4)), F.adaptive_avg_pool1d(x[0], 4), F.adaptive_max_pool2d(x, (None, 2))


# x f64[2,3,7,6]; grad
def adaptive_indices(x):
    a, i = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
    b, j = F.adaptive_max_pool1d(x[0], 4, return_indices=True)
    return a, b, i, j, F.adaptive_max_pool2d(x, (7, 2), True)[1]


# x f64[1,2,6,6]; grad
def unpooled(x):
    y, i = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y, i, 2), F.lp_pool2d(x, 2, 2)


# x f64[2,3,4,5]; grad
def paddings(x):
    return F.pad(x, (1, 2, 2, 0)), F.pad(x[0], (2, 1), mode="circular"), F.pad(x, (2, 1, 1, 3), mode="reflect"), F.pad(x, (0, 3, 2, 1), mode="replicate"), F.pad(x, (-1, 1), value=2.0), nn.ReflectionPad2d(1)(x), nn.ZeroPad2d((1, 0, 2, 1))(x)


# x f64[1,2,5,6]; grad
# tolerance 1e-6
def interpolations(x):
    return [F.interpolate(x, s, mode=m) for s in [(10, 9), (3, 4)] for m in ["nearest", "bilinear", "bicubic", "area", "nearest-exact"]] + [F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), F.interpolate(x, scale_factor=1.5), F.interpolate(x[0], size=7, mode="linear")]


# x f64[2,8,2,3]; grad
def shuffled(x):
    return F.pixel_shuffle(x, 2), F.pixel_unshuffle(x[:, :, :, :2], 2), F.channel_shuffle(x, 4), F.unfold(x, (2, 2)), F.fold(F.unfold(x, 2), (2, 3), 2)
