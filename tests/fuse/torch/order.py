"""What needs elements in order: medians, quantiles, places of triangles; and statistics without their holes."""
import math

import torch
import torch.nn.functional as F


# x f64[5,7]; grad
def kth_and_medians(x):
    return [*torch.kthvalue(x, 3, dim=0), *x.kthvalue(2, keepdim=True), *x.median(1), x.median(), *x.nanmedian(0, keepdim=True), x.t().msort()]


# x f64[4,6], m i1[4,6]
def medians_with_holes(x, m):
    y = torch.where(m, math.nan, x)
    empty = torch.full([3, 4], math.nan)
    return [y.median(0).values, y.median(), y.nanmedian(1).values, y.nanmedian(), empty.nanmedian(1).values, y.nansum(1), y.nanmean(0), y.nansum(),
            torch.nanquantile(y, torch.tensor([0.25, 0.8], dtype=torch.float64), dim=1), torch.quantile(y, 0.5, dim=0), torch.nanquantile(y, 0.3)]


# x f64[4,6,2]; grad
def quantiles(x):
    q = torch.tensor([0.1, 0.5, 0.95], dtype=torch.float64)
    return [torch.quantile(x, 0.3), x.quantile(q, dim=1), torch.quantile(x, q, dim=-1, keepdim=True), torch.quantile(x, 1.0, dim=0), torch.quantile(x, q, keepdim=True),
            *[torch.quantile(x, 0.37, dim=1, interpolation=how) for how in ("lower", "higher", "nearest", "midpoint")]]


# x f64[4,9], y f64[9]; grad
def statistics(x, y):
    s, m = torch.std_mean(x, 1)
    low, high = torch.aminmax(x.detach(), dim=0)
    return [s, m, low, high, *torch.aminmax(y.detach()), torch.cov(x), torch.cov(y), torch.cov(x, correction=0), torch.corrcoef(x), torch.dist(x[0], y, 3), torch.count_nonzero(x > 0),
            x.round().count_nonzero(1)]


# x f64[6,6]
def triangles(x):
    i = torch.tril_indices(6, 6, -1)
    j = torch.triu_indices(4, 6, offset=1)
    return [x[i[0], i[1]], x[j[0], j[1]], torch.tril_indices(3, 5, 2), torch.triu_indices(5, 3, -1), torch.tril_indices(4, 2, -3), torch.triu_indices(2, 4, 3)]


# x f64[3,8], t f64[8]; grad
def areas(x, t):
    return [torch.trapezoid(x), torch.trapz(x, t, dim=1), torch.trapezoid(x, dx=0.5, dim=0), torch.cumulative_trapezoid(x, t), torch.cumulative_trapezoid(x, dx=2),
            torch.diff(x, n=2), torch.diff(x, dim=0, prepend=x[:1] * 2), torch.diff(x, append=x[:, :3]), torch.trapezoid(x, x * 2)]


# m i1[3,5]
def differences_of_bools(m):
    return torch.diff(m), torch.diff(m, n=2, dim=0)


# x f64[5,4], i i64[7]<5, s f64[7,4]
def reduced_by_index(x, i, s):
    return [x.index_reduce(0, i, s, how, include_self=own) for how in ("amax", "amin", "mean", "prod") for own in (True, False)]


# Random orders hold each place once.
# n i64[1]<1
def random_orders(n):
    return torch.randperm(50).sort().values, torch.randperm(9, dtype=torch.int32).sum()
