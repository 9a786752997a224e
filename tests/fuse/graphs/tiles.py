# Kernels whose tiles have an axis more: transposes, reductions across rows, windows; products with many tiles, and an
# epilogue that lies otherwise than the product.
# args: x=randn:f32[2,20,18,34] y=randn:f32[40,70] w=randn:f32[24,20,3,3] d=randn:f32[20,1,3,3] b=randn:f32[24] a=randn:f16[300,40] c=randn:f16[40,70]
import torch
import torch.nn.functional as F


def forward(x, y, w, d, b, a, c):
    out = {}
    out["channels_last"] = x.permute(0, 2, 3, 1).contiguous() * 2
    out["turned"] = y.T + y.reshape(70, 40)
    out["columns"] = x.sum(1), x.amax(dim=(0, 2)), x.mean(1, keepdim=True) * x
    out["pooled"] = F.max_pool2d(torch.exp(x) - 1, 3, 2, 1), F.avg_pool2d(x, 2)
    image = F.conv2d(x, w, b, padding=1)
    out["image"] = torch.relu(image) * 0.5
    out["small"] = F.relu(F.conv2d(x, w, b, stride=2))
    out["depthwise"] = F.relu(F.conv2d(x, d, stride=2, padding=1, groups=20))
    out["product"] = F.gelu(a @ c + 1)
    out["heads"] = (a @ c).reshape(3, 100, 7, 10).permute(2, 0, 1, 3) * 2
    return out
