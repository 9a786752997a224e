# Rows that lie in short runs (a group of channels, where these lie last), and rows that are few, are cut into parts, of
# which all that is reduced of them comes in one pass: x is read by the parts' kernel and the normalization, y once.
# args: x=randn:f32[2,48,50,64] y=randn:f32[4,3,96,128]
import torch


def forward(x, y):
    groups = x.reshape(2, 48, 50, 8, 8)
    variance, mean = torch.var_mean(groups, (1, 2, 4), keepdim=True)
    normal = (groups - mean) * torch.rsqrt(variance + 1e-5)
    most, both = groups.amax((1, 2, 4)), torch.logsumexp(groups, (1, 2, 4))
    return normal.reshape(x.shape).permute(0, 3, 1, 2), most, both, torch.var_mean(y + 100, (0, 2, 3))
