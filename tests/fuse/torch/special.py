# Functions of few models: of mathematics, of integers, by frequency, of random places.
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[40]; grad
def scaled_functions(x):
    v = x * 6
    return torch.special.i0e(v), torch.special.i1e(v), torch.special.erfcx(v), torch.special.log_ndtr(v), torch.lgamma(v), torch.erfinv(x), torch.i0(v), torch.special.i1(v)


# x f64+[30]; grad
def gammas(x):
    v = x * 4
    return torch.polygamma(1, v), torch.polygamma(3, v), torch.polygamma(0, v), torch.digamma(v), x.polygamma(2)


# x f64+[30]
def zetas(x):
    return torch.special.zeta(x * 3 + 1.01, x), torch.special.zeta(x + 1.5, 2.0), torch.special.zeta(3.0, x * 20)


def far(kind):
    return torch.tensor([0.0, -0.0, 1e-30, -3.0, -30.0, 30.0, 200.0, -1000.0, 1e30, float("inf"), float("-inf"), float("nan")], dtype=kind)


# x f64[1]
def far_away(x):
    v = far(torch.float64)
    return torch.special.i0e(v), torch.special.i1e(v), torch.special.erfcx(v), torch.special.log_ndtr(v), torch.lgamma(v), torch.special.zeta(v + 0.5, 2.0), torch.polygamma(1, v + 0.25)


# x f64[12]
def polynomials(x):
    s = torch.special
    return s.legendre_polynomial_p(x, 4), s.chebyshev_polynomial_t(x, 5), s.chebyshev_polynomial_u(x, 4), s.chebyshev_polynomial_v(x, 3), s.chebyshev_polynomial_w(x, 1), s.hermite_polynomial_h(x, 4), s.hermite_polynomial_he(x, 3), s.laguerre_polynomial_l(x, 4), s.laguerre_polynomial_l(x, 0)


# a i64[40]<5000, b i64[40]<5000, c i32[40]<90, d i8[40]<100
def divisors(a, b, c, d):
    big = torch.tensor([6557470319842, 7540113804746346429, 0, -12, 0, 91], dtype=torch.int64)
    small = torch.tensor([10610209857723, 4660046610375530309, 5, 18, 0, -65], dtype=torch.int64)
    return torch.gcd(a, b), torch.lcm(a, b), torch.gcd(c, c.flip(0)), torch.gcd(d, d.flip(0) - 50), torch.gcd(big, small), a + 9007199254740993, a * -4611686018427387905, torch.full((2,), 2**62 + 1), torch.lcm(c, torch.tensor(12)), torch.gcd(a, c)


# x f64[60]
def fractions(x):
    m, e = torch.frexp(torch.cat([x * 1000, x * 1e-300, x * 1e300, far(torch.float64), torch.tensor([1.0, -2.0, 0.5, 4194304.0], dtype=torch.float64)]))
    return m, e


# x f64[6,20], n i64[4,9,5]<4
def modes(x, n):
    v, i = torch.mode((x[:, :12] * 3).round(), dim=1)
    return v, i, *n.mode(1, keepdim=True), torch.mode(n, 0).values, torch.mode(n)[1], torch.mode(x[0, 0])[0], torch.mode(n > 1, 2)[0]


# x f64[4,9], t f64[9]; grad
def slopes(x, t):
    t = torch.cumsum(t * t + 0.1, 0)
    return *torch.gradient(x), torch.gradient(x, spacing=0.5, dim=1)[0], torch.gradient(x, spacing=(t,), dim=1, edge_order=2)[0], torch.gradient(x, dim=0, edge_order=2)[0], torch.gradient(t)[0]


# x f64[5], n i64[6]<60
def arrangements(x, n):
    return torch.vander(x), torch.vander(x, 3, increasing=True), torch.combinations(x), torch.combinations(x, 3, with_replacement=True), *torch.unravel_index(n, (3, 4, 5)), torch.cartesian_prod(x, x[:2])


# x f64[4,6], i i64[3]<4; grad
def placed(x, i):
    return x.put(i, torch.ones(3, dtype=torch.float64)), x.put(i, torch.ones(3, dtype=torch.float64), accumulate=True), torch.pdist(x), F.pdist(x, 1.0), x.sum_to_size(1, 6), torch.conv_tbc(x[:, None], x.reshape(2, 6, 2), x[0, :2], 1)


# x f64[2,3,11,9], s f64+[2,3,2]; grad
def fractional_pools(x, s):
    s = s.detach() - 0.5
    return F.fractional_max_pool2d(x, 2, output_size=(4, 3), _random_samples=s), F.fractional_max_pool2d(x, (3, 2), output_ratio=(0.5, 0.4), _random_samples=s, return_indices=True)[0]


# x f64[2,2,7,6,8], s f64+[2,2,3]
def fractional_pools_3d(x, s):
    return F.fractional_max_pool3d(x, 2, output_size=(3, 2, 5), _random_samples=s - 0.5, return_indices=True)


# x f64[2,7,5], y f64[2,3,6,7]; grad
def pools_of_powers(x, y):
    return F.lp_pool1d(x.abs(), 2, 3, 2, ceil_mode=True), F.lp_pool2d(y.abs(), 3, (2, 3), ceil_mode=True), F.lp_pool2d(y, 3, 3)


# y f64[2,3,6,7]
def norms_across_channels(y):
    return nn.CrossMapLRN2d(5, 0.1, 0.5, 1.0)(y), nn.CrossMapLRN2d(4, 0.2)(y.repeat(1, 3, 1, 1))


# x f64[20], y f64[20]
def remainders(x, y):
    return torch.remainder(x * 1e9, y), torch.remainder(x * 1e9, 0.7), torch.remainder(x, torch.zeros(()).double()), x % -0.3, torch.isclose(x, x + float("nan"), equal_nan=True), torch.isclose(torch.full([2], float("inf")), torch.zeros(2))


# x f64[3,4,4], b f64[3,4,2]; grad
def solved(x, b):
    s = x @ x.mT + 2 * torch.eye(4, dtype=torch.float64)
    return torch.linalg.inv_ex(s).inverse, torch.linalg.cholesky_ex(s)[0], torch.linalg.solve_ex(s, b).result, torch.linalg.tensorsolve(s[0].reshape(2, 2, 4), b[0, :, 0].reshape(2, 2)), torch.linalg.tensorinv(s[0].reshape(2, 2, 4), ind=2), torch.linalg.vander(b[0])


# x f64[3,4,4]
def conditions(x):
    s = x @ x.mT + 2 * torch.eye(4, dtype=torch.float64)
    return torch.linalg.cond(s, 1), torch.linalg.cond(s, "fro"), torch.linalg.cond(s, -float("inf"))


# x f32[7,12], y i64[7]<30, a.head.weight f32[7,12], a.tail.0.0.weight f32[6,12], a.tail.0.1.weight f32[10,6], a.tail.1.0.weight f32[3,12], a.tail.1.1.weight f32[15,3]; grad
# tolerance 1e-5
class Adaptive(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.AdaptiveLogSoftmaxWithLoss(12, 30, cutoffs=[5, 15], div_value=2.0)

    def forward(self, x, y):
        out = self.a(x, y)
        return out.output, out.loss, self.a.log_prob(x), self.a.predict(x)


# x f32[3,5], l.weight_ih_l0 f32[24,5], l.weight_hh_l0 f32[24,3], l.bias_ih_l0 f32[24], l.bias_hh_l0 f32[24], l.weight_hr_l0 f32[3,6]; grad
# tolerance 1e-6
class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(5, 6, proj_size=3)

    def forward(self, x):
        y, (h, c) = self.l(x)
        return y, h, c


# x f32[3,8], l.bias f32[5], l.weight_orig f32[5,8], l.weight_u f32+[5], l.weight_v f32+[8]
# tolerance 1e-6
class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.utils.spectral_norm(nn.Linear(8, 5))

    def forward(self, x):
        return self.l(x), self.l(x * 2)


# x f32[3,2,4,4], l.bias f32[5], l.parametrizations.weight.original f32[2,5,3,3], l.parametrizations.weight.0._u f32+[5], l.parametrizations.weight.0._v f32+[18]; grad
# tolerance 1e-6
class SpectralParametrization(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.utils.parametrizations.spectral_norm(nn.ConvTranspose2d(2, 5, 3), n_power_iterations=2)

    def forward(self, x):
        return self.l(x)


# w f64[10,4], i i64[9]<10; grad
def bags(w, i):
    offsets = torch.tensor([0, 2, 2, 6])
    return [torch.embedding_bag(w, i, offsets, mode=m)[0] for m in (0, 1, 2)] + [torch.embedding_bag(w, i, offsets, False, 0, False, None, False, 3)[0]]


# w f64[10,4], i i64[9]<10, g f64[4,4], s f64[9]
def gradients_of_bags(w, i, g, s):
    offsets, out = torch.tensor([0, 2, 2, 6]), []
    for mode in (0, 1, 2):
        _, bags, size, most = torch.ops.aten._embedding_bag(w, i, offsets, False, mode, False, s if mode == 0 else None, False, 3)
        if mode:  # the fast path of sums keeps no bags
            out += [bags, size, torch.ops.aten._embedding_bag_backward(g, i, offsets, bags, size, most, 10, False, mode, False, None, 3)]
    bags = torch.tensor([0, 0, 2, 2, 2, 2, 3, 3, 3])
    return *out, torch.ops.aten._embedding_bag_per_sample_weights_backward(g, w, i, offsets, bags, 0, 3)


# g f64[2,3,5,6], x f64[2,3,3,4], m i1[4,5], h f64[4,5]
def gradients_by_name(g, x, m, h):
    return torch.ops.aten.replication_pad2d_backward(g, x, [1, 1, 2, 0]), torch.ops.aten.masked_scatter_backward(h, m, [3, 9]), torch.ops.aten._upsample_bilinear2d_aa(x, [2, 3], False), torch.ops.aten._upsample_bicubic2d_aa(x, [2, 3], True), torch.ops.aten._upsample_bilinear2d_aa_backward(g, [5, 6], [2, 3, 7, 9], False), torch.ops.aten.native_layer_norm_backward(g, g, [2, 3, 5, 6], g[:1, :1, :1, :1] * 0, g[:1, :1, :1, :1] * 0 + 1, g, g, [True, True, True])


# x f64[2,3,4,5,6], y f64[2,3,3,4,3]
def samples_of_volumes(x, y):
    return torch.ops.aten.grid_sampler_3d(x, y.permute(0, 2, 3, 4, 1), 0, 0, False), torch.special.modified_bessel_i0(x[0, 0, 0]), torch.ops.aten.special_erfcx(x[0, 0, 0]), torch.histc(x, 7), torch.ops.aten.squeeze.dims(x[:1], []), torch.triangular_solve(x[0, 0, 0, :4, :2], torch.arange(16).reshape(4, 4) / 10 + 3 * torch.eye(4, dtype=torch.float64))[0], torch.ones(4, 5, dtype=torch.float64).scatter_reduce(1, torch.tensor([[0, 2, 0], [1, 1, 4]]), x[0, 0, 0], "prod"), torch.linalg.cholesky(x[0, 0, 0, :0, :0]), x[0, 0, 0].gather(0, torch.zeros(0, 6, dtype=torch.int64))


# x f64[3]
def places_in_long_rows(x):
    y = torch.zeros(4, 140009, dtype=torch.float64)
    y[1, 139999] = x[0] * x[0] + 1
    y[2, [9, 70001, 139001]] = float("nan")
    y[3] = float("-inf")
    z = torch.ones(140009, 2, dtype=torch.int32)
    z[131073:, 1] = -5
    return *y.max(1), y.argmin(1), y.argmax(), *z.min(0), z.argmax(0), (z < 0).any(), torch.ones(140009, dtype=torch.bool).all(), y[:2].sum(1), y[1:3].logsumexp(1)
