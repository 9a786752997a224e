# Attention written out: the scores are never stored, one kernel does all of it.
# args: q=randn:f32[2,4,70,24] k=randn:f32[2,2,90,24] v=randn:f32[2,2,90,40] bias=randn:f32[4,70,90] h=randn:f16[1,3,150,64] keep=randint(0,2):i1[2,1,1,90]
# explains: acc is computed in one loop with what it depends on: a change of the maximum multiplies it by exp(old - new), and a factor of the row is applied when it is known
# explains: blocks after those that the mask leaves are not computed: they would change nothing
# explains: blocks before those that the mask leaves are not computed: they would change nothing
import math

import torch
import torch.nn.functional as F


def attend(s, v):
    return torch.softmax(s, dim=-1) @ v


def forward(q, k, v, bias, h, keep):
    out, rows, places = {}, torch.arange(70)[:, None], torch.arange(90)[None, :]
    key, value = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    s = (q @ key.transpose(-1, -2)) / math.sqrt(24)
    out["plain"] = attend((q * 0.31 @ key.mT), value)
    out["bias"] = attend((q * 0.32 @ key.mT) + bias, value)
    out["causal"] = attend((q * 0.33 @ key.mT).masked_fill(~torch.tril(torch.ones(70, 90, dtype=torch.bool), diagonal=20), -math.inf), value)
    out["window"] = attend(torch.where((places <= rows) & (places > rows - 17), (q * 0.34 @ key.mT), -math.inf), value)
    out["hidden rows"] = attend((q * 0.35 @ key.mT) + torch.where(places <= rows - 33, 0, -math.inf), value)
    out["finite mask"] = attend((q * 0.36 @ key.mT) + torch.where(places <= rows - 33, 0, -3.4028234663852886e38), value)
    out["keep"] = attend(s.masked_fill(~keep, -math.inf), value)
    out["grouped"] = attend(q.reshape(2, 2, 2, 70, 24) @ k[:, :, None].mT, v[:, :, None]).reshape(2, 4, 70, 40)
    out["sdpa"] = F.scaled_dot_product_attention(h, h * 0.5, h, is_causal=True)
    out["sdpa of hidden rows"] = F.scaled_dot_product_attention(q * 0.44, key, value, keep.roll(1, 0) & (rows > 3))
    logs = torch.log_softmax((q * 0.37 @ key.mT), dim=-1)
    out["entropy"] = -(logs.exp() * logs).sum(-1)
    scores = (q * 0.38 @ key.mT)
    out["statistics"], out["with them"] = torch.logsumexp(scores, -1), attend(scores, value)
    K, start, d, k_row = q * 0.43, key * 1.5, value - 1, 2.0  # names that kernels have for their own
    M = (K @ start.mT) * k_row
    R = torch.softmax(M, dim=-1)
    out["names"] = R @ d
    kept = (q * 0.39 @ key.mT)  # a result itself: it is stored
    out["kept"], out["of kept"] = kept, attend(kept, value)
    out["dropped"] = F.dropout(torch.softmax((q * 0.40 @ key.mT), dim=-1), 0.2) @ value
    out["gate"] = torch.sigmoid((q * 0.41 @ key.mT)) @ value
    out["left"] = value.mT @ torch.softmax(key @ (q * 0.4).mT, dim=-2)
    out["nan"] = attend((q * 0.42 @ key.mT) * torch.where(places == 50, math.nan, 0.4), value)
    return out
