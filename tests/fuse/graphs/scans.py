# Scans of rows that take several blocks, of few and of many rows, along any dim; NaN and infinities among them.
# args: x=randn:f32[3,1300] y=rand:f64[700,6] n=randint(0,5):i32[2,600,3] h=randn:f16[5,520] b=randint(0,2):i1[4,9] u=randint(0,200):u8[3,530]
import math

import torch


def forward(x, y, n, h, b, u):
    place = torch.arange(1300)
    odd = torch.where(place == 700, math.nan, torch.where(place < 40, -math.inf, torch.where(place == 600, math.inf, x)))
    finite = torch.where(place == 5, -math.inf, x * 20)
    out = {}
    for name, scan in (("cummax", torch.cummax), ("cummin", torch.cummin)):
        for k, v in dict(x=x, odd=odd, h=h, u=u, rounded=(x * 2).round()).items():
            out[f"{name} {k}"], out[f"{name} {k} places"] = scan(v, 1)
        out[f"{name} of columns"], out[f"{name} of columns, places"] = scan(y, 0)
        out[f"{name} of integers"], out[f"{name} of integers, places"] = scan(n, 1)
        out[f"{name} of bools"], _ = scan(b, -1)
    out["cumprod"] = torch.cumprod(1 + x * 0.05, 1)
    out["cumprod of columns"] = y.cumprod(0)
    out["cumprod of integers"] = torch.cumprod((n == 3) + 1, 2)
    out["cumprod of f16"] = torch.cumprod(1 + h * 0.05, 1)
    for k, v in dict(x=x * 20, odd=odd, finite=finite, h=h).items():
        out[f"logcumsumexp {k}"] = torch.logcumsumexp(v, 1)
    out["logcumsumexp of columns"] = torch.logcumsumexp(y, 0)
    out["cumsum"] = x.cumsum(1) + x.flip(1).cumsum(1)
    return out
