# Functions by name, their results and gradients.
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[3,7], y f64+[5]; grad
def cumprods(x, y):
    return torch.cumprod(x, 1), x.cumprod(0), torch.cumprod(y, -1)


# x f64[9]; grad
def cumprod_of_zeros(x):
    return torch.cumprod(torch.where(x > 0.5, 0, x), 0)


# n i32[2,6]<4
def cumprod_of_integers(n):
    return torch.cumprod(n + 1, 1)


# x f64[3,9]; grad
def cummaxima(x):
    a, b = torch.cummax(x, 1), x.cummin(dim=0)
    return a.values, b.values, a.indices, b.indices


# n i64[3,8]<4, x f64[3,8]
def cummax_of_integers_and_nan(n, x):
    y = torch.where(n == 2, float("nan"), x)
    return torch.cummax(n, 1), torch.cummin(n, 1), torch.cummax(y, 1), torch.cummin(y, 0)


# x f64[3,9]; grad
def logcumsumexps(x):
    return torch.logcumsumexp(x * 8, 1), torch.logaddexp(x, x), torch.logaddexp(x[0], x), torch.logaddexp2(x, x[1])


# x f64[5,6], n i64[3,4]<5, s f64[3,4]; grad
def scatter_smaller(x, n, s):
    return x.scatter(0, n, s), x.scatter_add(0, n, s), x.scatter(1, n, 2.5)


# x f64[4,5], n i64[4,6]<5, s f64[4,6]
def scatter_reduced(x, n, s):
    return [x.scatter_reduce(1, n, s, r, include_self=i) for r in ["sum", "mean", "amax", "amin", "prod"] for i in [True, False]]


# x f64[5,4], n i64[3]<5, s f64[3,4]; grad
def rows_by_index(x, n, s):
    return x.index_add(0, n, s, alpha=2), x.index_fill(0, n, 1.5), torch.index_select(x, 0, n), x.index_add(1, n, s.t()[:3].repeat(2, 1)[:5, :3])


# x f64[5,4], n i64[3,4]<5; grad
def counted_from_the_end(x, n):
    return torch.take(x, n - 5), torch.take_along_dim(x, n - 5, 0), x.index_fill(0, n[:, 0] - 5, 1.5), x[n[0] - 5]


# x f64[5,4], s f64[2,4]; grad
def copied_by_index(x, s):
    return x.index_copy(0, torch.tensor([3, 1]), s)


# x f64[4,5], n i64[4,2]<5; grad
def taken(x, n):
    return torch.take(x, n), torch.take_along_dim(x, n, 1), x.gather(1, n)


# x f64[4,5], m i1[4,5], s f64[30]; grad
def masked_scatters(x, m, s):
    return x.masked_scatter(m, s), x.masked_fill(m, -1)


# n i64[3,4]<6
def one_hots(n):
    return F.one_hot(n, 6), F.one_hot(n, num_classes=9).sum()


# x f64[3,5], n i64[4]<6
def searches(x, n):
    b = torch.tensor([-0.5, 0.0, 0.25, 0.75], dtype=x.dtype)
    return torch.bucketize(x, b), torch.searchsorted(b, x, right=True), torch.isin(n, torch.tensor([1, 4])), torch.bucketize(b, b), torch.bucketize(b, b, right=True)


# x f64[3]
def limits_of_types(x):
    return x + torch.finfo(torch.float32).max, x * torch.finfo(x.dtype).eps, torch.iinfo(torch.int32).max + torch.zeros(2, dtype=torch.int64), torch.finfo(torch.bfloat16).min + x


# x f64[2,3,4,5], g f64[2,3,6,2]; grad
def grids(x, g):
    return F.grid_sample(x, g, align_corners=False), F.grid_sample(x, g * 1.5, align_corners=True, padding_mode="border"), F.grid_sample(x, g * 2, padding_mode="reflection", align_corners=False), F.grid_sample(x, g, mode="nearest", align_corners=False)


# t f64[2,2,3], x f64[2,1,4,4]; grad
def affine_grids(t, x):
    return F.grid_sample(x, F.affine_grid(t, [2, 1, 3, 5], align_corners=False), align_corners=False), F.affine_grid(t, (2, 1, 3, 3), align_corners=True)


# x f64[3,4]; grad
def renormed(x):
    return torch.renorm(x, 2, 0, 0.7)


# x f64[8]
# tolerance 1e-6
def windows_of_signals(x):
    return x * torch.hann_window(8), x * torch.hamming_window(8, periodic=False)


# x f64[3], y f64[3]
def backward_into_some(x, y):
    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
    (a * b * b).sum().backward(inputs=[a])
    return a.grad, b.grad is None


# x f64[3,37], n i16[2,50]<7, m i1[60], u u8[2,40]<9
def sorts_of_equals(x, n, m, u):
    y = torch.where(x > 0.6, float("nan"), torch.where(abs(x) < 0.4, x * 0, torch.round(x * 4)))
    out = []
    for z in (y, y.float(), y.half(), y.bfloat16(), n, n.int(), n.long(), m, u, n.long() * 2**40 - 2**41):
        for down in (False, True):
            v, i = torch.sort(z, descending=down, stable=True)
            out += [torch.nan_to_num(v.double(), 99.0), i]
    return tuple(out)


# x f32[2,2500], n i64[3,1300]<900, d f64[1025,2]
def sorts_of_long_rows(x, n, d):
    v, i = torch.sort(x, descending=True, stable=True)
    w, j = torch.sort(n * 2**35, stable=True)
    e, k = torch.sort(d, dim=0, stable=True)
    t, l = torch.topk(x * 3 + torch.arange(2500) * 1e-5, 5)
    s, o = torch.topk(x + torch.arange(2500) * 1e-5, 400, largest=False)
    return v[:, ::25], i[:, ::25], w[:, ::13], j[:, ::13], e[::11], k[::11], t.double(), l, s[:, ::5], o[:, ::5]


# x f64[3,7], n i64[3,7]<4; grad
def sorts(x, n):
    v, i = torch.sort(x, dim=1)
    t, j = x.topk(3, dim=0, largest=False)
    return v, t, i, j, torch.sort(n, stable=True)[1], x.median(dim=1)[0] if False else v[:, 3]
