# Reductions that depend on reductions of the same long rows: in one loop where a law corrects them, else in a later one.
# args: x=randn:f32[5,16700] h=randn:bf16[3,17000] y=randint(0,16700):i64[5] z=randn:f32[2,80000]
# explains: sum is computed in one loop with top: a change of the maximum multiplies it by exp(old - new)
# explains: sum is computed in one loop with max, sum: a change of the maximum multiplies it by exp(old - new), and a
# explains: sum is computed in one loop with max, sum: a change d of the shift adds d * count
# explains: sum is computed in one loop with sum: a change d of the shift adds d * (2 * sum of shifted + d * count)
# explains: sum has a loop of its own: exp of what no maximum bounds
import math

import torch
import torch.nn.functional as F


def forward(x, h, y, z):
    out = {}
    hidden = torch.arange(5)[:, None] * 4200 > torch.arange(16700)  # no element of row 0 to 16800 elements of row 4
    masked = x.masked_fill(hidden, -math.inf)
    top = masked.amax(1, keepdim=True)
    e = torch.exp(masked - top)
    out["softmax"] = e / e.sum(1, keepdim=True)
    out["logsumexp"] = torch.logsumexp(masked, 1)
    out["finite mask"] = torch.softmax(x.masked_fill(hidden, -3.4028234663852886e38), 1)
    out["infinity"] = torch.softmax(torch.where(torch.arange(16700) == 9000, math.inf, x[:2]), 1)
    out["nan"] = torch.logsumexp(torch.where(torch.arange(16700) == 9000, math.nan, x[:2]), 1)
    out["scaled"] = torch.exp2((x - top.clamp(min=0)) * 0.5).sum(1)  # nothing bounds it: two loops
    out["least"] = torch.exp((x.amin(1, keepdim=True) - x) * 2).sum(1)
    out["cross entropy"] = F.cross_entropy(x, torch.where(y % 3 == 0, -100, y), reduction="none")
    out["tail"] = torch.where(x > 1, F.log_softmax(x, 1), 0).sum(1)
    logs = F.log_softmax(x * 3, 1)
    out["entropy"] = -(logs.exp() * logs).sum(1)
    far = x * 0.5 + 1000
    out["var"], out["mean"] = torch.var_mean(far, 1)
    out["norm"] = F.layer_norm(far, (16700,))
    out["centred"] = (far - far.mean(1, keepdim=True)).amax(1)
    out["deviation"] = (far - far.mean(1, keepdim=True)).abs().mean(1)  # no law: a kink at the mean
    out["both"] = (e * (x * (1 / e.sum(1, keepdim=True)))).sum(1)
    out["bf16"] = torch.softmax(h, 1) * F.layer_norm(h, (17000,))
    out["sums in a product"] = h[:, :128].reshape(3, 16, 8).sum(2) @ h[0, :64].reshape(16, 4)
    late = torch.arange(2)[:, None] * 90000 + torch.arange(80000) < 50000  # few rows: parts of each by many programs
    out["parts"] = torch.softmax(z.masked_fill(late, -math.inf), 1)
    out["parts of a finite mask"] = torch.softmax(torch.where(torch.arange(2)[:, None] == 0, -3.4028234663852886e38, z), 1)
    out["parts of nothing"] = torch.logsumexp(torch.where(torch.arange(2)[:, None] == 0, -math.inf, z * 2), 1)
    return out
