# Functions by name, their results and gradients.
import math

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


# x f32[4,6], s f64[]
# tolerance 1e-6
def a_number_widens_nothing(x, s):
    return torch.logaddexp(s, x), torch.logaddexp2(x, s), torch.hypot(s, x)


# x f64[5,6], n i64[3,4]<5, s f64[3,4]; grad
def scatter_smaller(x, n, s):
    return x.scatter(0, n, s), x.scatter_add(0, n, s), x.scatter(1, n, 2.5)


# x f64[4,5], n i64[4,6]<5, s f64[4,6]
def scatter_reduced(x, n, s):
    return [x.scatter_reduce(1, n, s, r, include_self=i) for r in ["sum", "mean", "amax", "amin", "prod"] for i in [True, False]]


# The gradient is shared by all that are the largest, the element itself among them.
# x f64[4,5], n i64[4,6]<5, s f64[4,6]; grad
def scatter_extrema(x, n, s):
    y, t = (x * 2).round(), (s * 2).round()
    both = [a.scatter_reduce(1, n, b, r, include_self=i) for a, b in [(x, s), (x + y, t + s)] for r in ["amax", "amin"] for i in [True, False]]
    return [*both, (x * 0 + y.detach()).scatter_reduce(1, n, s * 0 + t.detach(), "amax")]


# x f64[3,5], n i64[3,7]<5, s f64[3,7], a i32[3,7]<9, b i1[3,7]
def scatter_extrema_of_types(x, n, s, a, b):
    inf, nan = float("inf"), float("nan")
    odd = torch.where(s > 0.6, nan, torch.where(s < -0.6, -inf, torch.where(s.abs() < 0.2, inf, s)))
    mine = torch.where(x > 0.7, nan, x)
    out = [mine.scatter_reduce(1, n, odd, r, include_self=i) for r in ["amax", "amin"] for i in [True, False]]
    for t in [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]:
        y = (x * 9).to(torch.int64).to(t)
        out += [y.scatter_reduce(1, n, (a - 4).to(t), r, include_self=i).to(torch.float64) for r in ["amax", "amin"] for i in [True, False]]
    return [*out, (x > 0).scatter_reduce(1, n, b, "amax"), (x > 0).scatter_reduce(0, n[:, :5] % 3, b[:, :5], "amin", include_self=False)]


# x f64[5,6], n i64[3,4]<5, s f64[4,5]
def scatter_extrema_in_part(x, n, s):
    return x.scatter_reduce(0, n, s, "amax"), x.scatter_reduce(1, n, s, "amin", include_self=False), x[0, 0].scatter_reduce(0, n[0, 0] * 0, s[0, 0], "amax")


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


# w f64[9,4], n i64[3,5]<9, s f64[3,5]; grad
def embedding_bags(w, n, s):
    m = (torch.arange(12) % 6).reshape(3, 4)  # each twice: PyTorch divides a gradient by the count of another row
    return [F.embedding_bag(n, w), F.embedding_bag(n, w, mode="sum", per_sample_weights=s), F.embedding_bag(n, w, mode="max"),
            F.embedding_bag(n, w, mode="sum", padding_idx=-2), F.embedding_bag(m, w, padding_idx=3, scale_grad_by_freq=True), F.embedding_bag(n, w, padding_idx=3), F.embedding_bag(n, w, mode="max", padding_idx=3)]


# w f64[9,4], n i64[12]<9, s f64[12]; grad
def embedding_bags_from_offsets(w, n, s):
    o = torch.tensor([0, 2, 2, 7, 12])
    return [F.embedding_bag(n, w, o), F.embedding_bag(n, w, o, mode="sum", per_sample_weights=s, padding_idx=4), F.embedding_bag(n, w, o, mode="max"),
            F.embedding_bag(n, w, o, include_last_offset=True), F.embedding_bag(n, w, o, mode="max", include_last_offset=True, padding_idx=4)]


# w f64[6,3], n i64[2,4]<6
def embedding_edges(w, n):
    none = F.embedding_bag(torch.full([2, 3], 1), w, padding_idx=1), F.embedding_bag(torch.full([2, 3], 1), w, padding_idx=1, mode="max")
    odd = torch.where(w > 0.5, float("inf"), torch.where(w < -0.5, float("nan"), w))
    return [*none, F.embedding_bag(n, odd, mode="sum"), F.embedding_bag(n, w.float()), F.embedding_bag(n.int(), w, mode="max")]


# w f64[6,3], n i64[2,4]<4
def embedding_of_norm(w, n):
    return F.embedding(n, w, max_norm=0.5), F.embedding_bag(n, w, max_norm=0.4, norm_type=1)


# w f64[6,3], n i64[2,4]<6; grad
def embedding_by_frequency(w, n):
    return F.embedding(n, w, padding_idx=2, scale_grad_by_freq=True) ** 2


# bag.weight f32[7,3], n i64[2,4]<7; grad
# tolerance 1e-6
class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 3, mode="sum", padding_idx=2)

    def forward(self, n):
        return self.bag(n), self.bag(n.reshape(-1), torch.tensor([0, 3]))


# n i64[4]<5
def drawn(n):
    one = F.one_hot(n, 5).double()
    all = torch.tensor([[0.0, 2.0, 0.0, 0.1, 5.0], [1.0, 0.0, 1.0, 1e-9, 0.0]])
    return (torch.multinomial(one, 1), torch.multinomial(one, 6, replacement=True), torch.multinomial(one[0].half(), 1), one[1].multinomial(3, True),
            torch.multinomial(all, 3).sort(-1).values, torch.multinomial(all[0].bfloat16(), 2, replacement=True) % 1)


# How often each place is drawn, within five standard deviations; of two draws without replacement both.
# n i64[1]<1
def drawn_by_weight(n):
    p = torch.tensor([0.1, 0.4, 0.2, 0.3])
    rows = (p * 7).expand(2000, 4)
    off = []
    for places, part in [(torch.multinomial(rows, 1), p), (torch.multinomial(p, 2000, replacement=True), p), (torch.multinomial(rows, 4, True)[:, 2], p),
                         (torch.multinomial(rows, 2), torch.tensor([0.1 * (1 + 0.4 / 0.6 + 0.2 / 0.8 + 0.3 / 0.7), 0.4 * (1 + 0.1 / 0.9 + 0.2 / 0.8 + 0.3 / 0.7),
                                                                    0.2 * (1 + 0.1 / 0.9 + 0.4 / 0.6 + 0.3 / 0.7), 0.3 * (1 + 0.1 / 0.9 + 0.4 / 0.6 + 0.2 / 0.8)]))]:
        often = F.one_hot(places.reshape(-1), 4).sum(0) / 2000
        off.append((often - part).abs() < 0.055)
    return off


# x f64[20], p f64+[20]; grad
def special_functions(x, p):
    return [torch.erfinv(x * 0.99), torch.erfc(x * 5), torch.lgamma(p * 3), torch.lgamma(x * 4), torch.digamma(p * 4), torch.digamma(x * 3 + 0.01), torch.special.i0(x * 6), torch.special.i1(x * 6),
            torch.special.i0e(x * 3), torch.special.entr(p), torch.special.ndtr(x), torch.special.ndtri(p / 2), torch.special.xlog1py(x, p), torch.mvlgamma(p + 3, 3), torch.special.psi(p)]


# n i64[1]<1
def special_edges(n):
    x = torch.tensor([-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, math.inf, math.nan], dtype=torch.float64)
    return torch.erfinv(x), torch.lgamma(x), torch.digamma(x), torch.special.entr(x), torch.erfc(x), torch.special.i0(x[:5])


# a i32[12], b i64[12]<40, c u8[12], d i8[12]
def shifts(a, b, c, d):
    return [a << 3, a >> 1, (a - 5) >> 2, c << 2, c >> 1, d << 5, (a.long() - 3) << b, (a.long() - 3) >> b, a << 40, (a - 5) >> 40, torch.bitwise_left_shift(a, c), 1 << b, (d - 100) >> 3]


# n i64[1]<1
def windows_to_multiply(n):
    d = torch.float64
    return torch.bartlett_window(9, dtype=d), torch.blackman_window(8, dtype=d), torch.kaiser_window(7, dtype=d), torch.kaiser_window(6, False, 5.0, dtype=d), torch.bartlett_window(6, False, dtype=d)


# x f64[3,4], s f64+[4]; grad
# tolerance 1e-6
def as_if_quantized(x, s):
    zero = torch.tensor([0, 1, -2, 3], dtype=torch.int32)
    return torch.fake_quantize_per_tensor_affine(x.float(), 0.1, 2, -4, 5), torch.fake_quantize_per_channel_affine(x.detach().float(), s.detach().float() * 0.2, zero, 1, -3, 4)


# x f64[3,4]
def made_anew(x):
    a, b = torch.broadcast_tensors(x[:1], x[:, :1])
    y = x.clone().fill_diagonal_(2.0)
    return [x.new_zeros(2, 3), x.new_ones((2,), dtype=torch.int32), x.new_full((1, 2), 3.0), a, b, torch.cartesian_prod(x[0], x[1, :2]), torch.diagflat(x[0, :2], 1), y, x.byte() if False else x.abs().byte(),
            x.char(), x.short(), torch.zeros(torch.broadcast_shapes((2, 1), (3,))), *torch.hsplit(x, 2), *torch.vsplit(x, [1]), torch.row_stack([x[0], x[1]]), torch.ldexp(x, torch.tensor([1, 2, 3, -1])),
            torch.zeros(2, dtype=torch.promote_types(torch.int32, torch.float16)), torch.ones(1, dtype=torch.result_type(x, 2))]


# n i32[3,5]<100, s i32[3,5]<40, b u8[4]<255
def shifts_beyond(n, s, b):
    signed = n - 50
    each = [signed << 3, signed >> 2, signed << s, signed >> s, 3 << s, torch.bitwise_left_shift(signed, s - 4)]
    return each + [b >> 3, b << 1, b >> b % 11, signed << 40, signed >> 40]


# x f64[4,7], n i32[3,6]<9; grad
def places_in_order(x, n):
    low, at = x.kthvalue(2, 1)
    return low, at, x.median(), x.median(0).values, x.nanmedian(1).values, n.median(1).values, n.kthvalue(3, 0, True).values


# n i64[3,8]<4, x f64[3,8]
def places_in_order_of_nan(n, x):
    y = torch.where(n == 2, float("nan"), x)
    return y.median(1), y.nanmedian(1).values, y.median(), y.nanmedian(), y.kthvalue(3, 1).values


# x f64[2,3,5], y f64[2,4,5]; grad
def distances_by_norm(x, y):
    return torch.cdist(x, y), torch.cdist(x, y, p=1.0), torch.cdist(x, y, p=float("inf")), torch.cdist(x, y, p=3.0), torch.cdist(x[0], x[1], p=0.0)


# x f64[3,5], s f64[3], t f64[2,4]; grad
def a_diagonal_scattered(x, s, t):
    return x.diagonal_scatter(s, 1), x.reshape(5, 3).diagonal_scatter(s), torch.stack([x, x]).diagonal_scatter(t[:, :3], -1 + 1, 1, 2)


# x f64[1,2,6,5], g f64[1,2,2,2], h f64[1,2,3,3], e f64[1,2,4,3], v f64[1,2,4,4,4], u f64[1,2,2,2,2]
def gradients_of_pools(x, g, h, e, v, u):
    aten = torch.ops.aten
    most, at = aten.adaptive_max_pool2d.default(x, [3, 3])
    return [aten.avg_pool2d_backward.default(g, x, [3, 3], [2, 2], [0, 0], False, True, None),
            aten.avg_pool2d_backward.default(e, x, [3, 3], [2, 2], [1, 1], True, False, None),
            aten.avg_pool3d_backward.default(u, v, [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None),
            aten._adaptive_avg_pool2d_backward.default(h, x), aten._adaptive_avg_pool3d_backward.default(u, v),
            most, at, aten.adaptive_max_pool2d_backward.default(h, x, at)]


# x f64[2,2,4,5], p f64[2,3,3,2], g f64[2,2,3,3], v f64[4,3], w f64[4,1], y f64[4,3], d f64[3,4]
def gradients_by_name(x, p, g, v, w, y, d):
    aten, at = torch.ops.aten, p * 1.2 - 0.6
    sampled = [aten.grid_sampler_2d_backward.default(g, x, at, mode, padding, corners, [True, True]) for mode, padding, corners in [(0, 0, False), (0, 1, True), (1, 2, False)]]
    norms = v.norm(2, 1, True)
    ways = [aten._cdist_backward.default(d[:, :3], y[:3], v[:3], p, aten._cdist_forward.default(y[:3], v[:3], p, None)) for p in [1.0, 2.0, 3.0]]
    return [*[s for pair in sampled for s in pair], *aten._weight_norm_interface_backward.default(y, v, w, norms, 0), *ways]


# a f64[3,4], b f64[2,4,5], c f64[3,5], n i32[2,3]<50
def other_names(a, b, c, n):
    aten = torch.ops.aten
    three = aten._trilinear.default(a, b, c, [1, 3], [0], [1, 2], [2, 3])
    return three, torch.ops.prims.rev.default(b, [0, 2]), torch.ops.prims.div.default(n - 25, n % 7 + 1), a.unfold(1, 3, 2)
