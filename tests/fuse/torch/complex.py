# Complex numbers: parts, arithmetic, functions, what moves elements, products, writes, parameters.
import torch
import torch.nn as nn


# z c128[3,4], w c128[4], x f64[3,4]; grad
def arithmetic(z, w, x):
    return z + w, z - w, z * w, z / w, -z, z + x, x - z, x * z, z / (x + 2), x / w, z + 1, 2 - z, z * 2j, (1 - 2j) * z, z / (3 + 4j), 1 / z, x * 1j, 1.5 + x * 2j, z * z.conj(), torch.add(z, w, alpha=2), 2j / w


# z c128[3,4], x f64[3,4]; grad
def parts(z, x):
    return z.real * 2, z.imag, torch.real(z), torch.imag(z), z.abs(), torch.abs(z * 1e200), z.angle(), z.conj(), torch.view_as_real(z), torch.complex(x, z.imag), torch.polar(x.abs(), z.real), torch.view_as_complex(torch.stack([x, x * x], -1)), z.real.square() + z.imag.square(), z.sgn(), torch.angle(x)


# z c128[3,4]; grad
def functions(z):
    return z.exp(), torch.log(z), z.sqrt(), torch.sin(z), torch.cos(z), z.sinh(), z.cosh(), torch.tanh(z), torch.sigmoid(z), z.rsqrt(), z.reciprocal(), torch.square(z)


# z c128[3,4], w c128[3,4]; grad
def powers(z, w):
    return z**2, z**3, z**-1, z**0.5, z**1.7, z**w, 2**w, z**0, torch.pow(z, 5)


# z c128[3,4,2], w c128[3,4,2]
def comparisons(z, w):
    zero = torch.zeros(2, dtype=torch.complex128)
    return z == w, z != z, z == z.real, torch.isnan(z), torch.isfinite(z / 0), torch.isreal(torch.complex(z.real, z.imag * 0)), zero.abs(), zero.sqrt(), zero**2, zero**0, zero.sgn()


# z c128[4,6], w c128[4,6], n i64[3]<4, m i1[4,6]; grad
def elements(z, w, n, m):
    return z.reshape(2, -1), z.flatten(), z.T, z.mT @ w, z.H, z.mH, z[1:3, ::2], z[n], z[:, None, -1], torch.cat([z, w.real], 1), torch.stack([z, w], 1), torch.where(m, z, w), torch.where(m, z, 1.0), z.masked_fill(m, 2.0), z.roll(2, 1), z.flip(0), z.unfold(1, 3, 2), z.diagonal(), torch.nn.functional.pad(z, (1, 2)), z.gather(0, n.reshape(3, 1).expand(3, 6)), z.view(2, 2, 6).permute(2, 0, 1), z.chunk(2, 1)[1], z.expand(2, 4, 6), z.tril(), torch.index_select(z, 1, n), z.adjoint(), z.repeat(2, 1)


# z c128[4,6], w c128[4,6]; grad
def sums(z, w):
    return z.sum(), z.mean(0), z.sum(1, keepdim=True), z.cumsum(1), z.prod(1), z.norm(), torch.linalg.vector_norm(z, dim=1), z.var(0), z.std(), torch.vdot(z[0], w[0]), torch.dot(z[0], w[0]), torch.linalg.norm(z), z.trace()


# a c128[2,3,4], b c128[2,4,5], x f64[4,5], v c128[4]; grad
def products(a, b, x, v):
    y = x.to(torch.complex128)
    return a @ b, torch.bmm(a, b), a @ y, y.T @ b, a @ v, torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij,jk->ik", a, y), torch.einsum("bij,bij->b", a, a.conj()), torch.outer(v, v.conj()), torch.nn.functional.linear(a, b[0].T), torch.matmul(v, b[0]), torch.linalg.multi_dot([a[0], b[0], y.T])


# z c128[4,6], w c128[2,6], x f64[6]
def writes(z, w, x):
    v = torch.zeros(4, 6, dtype=torch.complex128)
    v[1:3] = w
    v[0] = 2j
    v[3, ::2] += 1 + 1j
    v[3, 1] = x[0]
    v[torch.tensor([0, 2]), 1:3] *= 2j
    v.real[1] = 7.0
    v.imag.mul_(3)
    r = torch.view_as_real(v)
    r[2, 0] = 5.0
    v[2, 1] -= 1j
    u = torch.view_as_complex(z.real.reshape(2, 6, 2).clone())
    u += 1
    z.mul_(2j)
    z.view(-1)[5:7].zero_()
    return v, r, u, z.add_(x), torch.view_as_real(z)


# x f64[2,8,3,4], y f64[2,8,1,4], f f64[8,2,2]; grad
def rotary(x, y, f):
    def rotated(x, f):
        x_ = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        f = torch.view_as_complex(f).view(1, x_.shape[1], 1, x_.shape[-1])
        return torch.view_as_real(x_ * f).flatten(3).type_as(x)

    return rotated(x, f), rotated(y, f)


# t f64[8]; grad
def frequencies(t):
    freqs = 1.0 / (10000.0 ** (torch.arange(0, 8, 2).double() / 8))
    freqs = torch.outer(t, freqs)
    cis = torch.polar(torch.ones_like(freqs), freqs)
    return cis, cis.real, torch.exp(1j * freqs), torch.exp(-2j * torch.pi * freqs)


# x c128[3,4], weight c128[4,2], bias c128[2]; grad
class ComplexLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(4, 2, dtype=torch.cdouble))
        self.bias = nn.Parameter(torch.zeros(2, dtype=torch.complex128))

    def forward(self, x):
        return torch.tanh(x @ self.weight + self.bias)


# z c128[3,4], w c128[3,4]
def gradients(z, w):
    z = z.clone().requires_grad_()
    w = w.clone().requires_grad_()
    loss = (z * w.conj()).abs().sum() + z.imag.sum()
    loss.backward(retain_graph=True)
    (g,) = torch.autograd.grad(loss, w)
    with torch.no_grad():
        z -= 0.1 * z.grad
    return z.grad, w.grad - g, z.detach(), z.requires_grad


# x f64[4,3], y f64[4]
# tolerance 1e-7
def trained(x, y):
    w = torch.zeros(3, dtype=torch.complex128, requires_grad=True)
    o = torch.optim.Adam([w], lr=0.1)
    for i in range(3):
        o.zero_grad()
        loss = ((torch.complex(x, x * x) @ w).abs() - y).square().mean()
        (loss + w.real.sum()).backward()
        o.step()
    return w.detach()


# z c128[4,3]
# error view_as_real of a view: clone() it first
def written_view(z):
    r = torch.view_as_real((z * 2)[1:])
    r[0] = 1.0
    return r


# x f64[4]
# error complex numbers have no order
def order(x):
    return torch.complex(x, x) < 1


# x f64[4]
# error floor of complex numbers is not supported
def floors(x):
    return torch.floor(torch.complex(x, x))


# x f16[4]
# error complex numbers have parts of float32 or float64
def halves(x):
    return torch.complex(x, x)


# x f64[4,3]
# error view_as_complex takes pairs
def no_pairs(x):
    return torch.view_as_complex(x)


# x f64[4]
# error torch.complex32 is not supported
def half_type(x):
    return x.to(torch.complex32)
