# torch.fft. A transform of n = n1 n2 numbers is two of n1 and n2 (the four steps of Bailey's algorithm): as a matrix of
# n1 rows, x is multiplied by the matrix of the transform of n1, each element by a root of unity, then by the matrix of
# n2, which may be cut again; the result is read down the columns. Roots are computed in float64. So a transform is as
# many matrix products as n has factors, and roots, padding, scales and order are in their kernels. A prime above
# MOST_DIRECT is a convolution with squares' roots (Bluestein), of a length that has factors.


MOST_FACTOR, MOST_DIRECT = 32, 128


# e^(2 pi i turns / n), for integers
def root_of_unity(turns, n, kind):
    angle = prim.convert(turns, torch.float64) * (2 * math.pi / n)
    return prim.complex(prim.convert(prim.cos(angle), kind), prim.convert(prim.sin(angle), kind))


# [n, m]: of the transform of n numbers, the first m results
def transform_matrix(n, m, sign, kind):
    j, k = prim.reshape(prim.iota(n, 0, 1, torch.int64), [n, 1]), prim.iota(m, 0, 1, torch.int64)
    w = root_of_unity(remainder(j * k, n), n, kind)
    return w if sign > 0 else conj(w)


# The factor by which n is cut: near n^(1/steps), for as few steps as factors up to MOST_FACTOR allow; 1: there is none.
def factor_of(n):
    steps = math.ceil(math.log(n) / math.log(MOST_FACTOR) - 1e-9)
    want, best = n ** (1 / steps), 1
    for f in range(2, MOST_FACTOR + 1):
        if n % f == 0 and (best == 1 or abs_of(math.log(f / want)) < abs_of(math.log(best / want))):
            best = f
    return best


def abs_of(x): return x if x >= 0 else -x


# x along its last dim: the first m results, of which the imaginary parts may not be wanted.
def transform(x, sign, m, real=False):
    n, kind = x.shape[-1], prim.real(x).dtype
    if not isinstance(n, int):
        prim.fail("a Fourier transform of a length that is a symbol is not supported")
    if n == 1:
        return prim.real(x) if real else prim.complex(prim.real(x), prim.imag(x))
    n1 = factor_of(n) if n > MOST_FACTOR else n
    if n1 == 1 and n > MOST_DIRECT:
        return chirped(x, sign, m, real)
    if n1 == 1 or n1 == n:
        return times_matrix(x, transform_matrix(n, m, sign, kind), real)
    n2, lead = n // n1, list(x.shape[:-1])
    y = swapped(times_matrix(swapped(prim.reshape(x, lead + [n1, n2])), transform_matrix(n1, n1, sign, kind), False))
    j, k = prim.iota(n2, 0, 1, torch.int64), prim.reshape(prim.iota(n1, 0, 1, torch.int64), [n1, 1])
    w = root_of_unity(j * k, n, kind)
    z = transform(y * (w if sign > 0 else conj(w)), sign, (m + n1 - 1) // n1, real)
    return prim.slice(prim.reshape(swapped(z), lead + [n1 * z.shape[-1]]), -1, 0, m, 1)


def swapped(x): return transpose(x, -2, -1)


# One product of reals: both parts as columns more, and of a complex x as terms more.
def times_matrix(x, w, real):
    lead, n, m = list(x.shape[:-1]), w.shape[0], w.shape[1]
    if prim.is_complex(x):
        rows = prim.concat([x.real, x.imag], -1)
        columns = prim.concat([w.real, -w.imag], 0)
        columns = columns if real else prim.concat([columns, prim.concat([w.imag, w.real], 0)], 1)
    else:
        rows, columns = x, w.real if real else prim.concat([w.real, w.imag], 1)
    y = prim.reshape(prim.dot(prim.reshape(rows, [-1, rows.shape[-1]]), columns), lead + [columns.shape[1]])
    return y if real else prim.complex(prim.slice(y, -1, 0, m, 1), prim.slice(y, -1, m, 2 * m, 1))


# w^(jk) = w^(j^2 / 2) w^(k^2 / 2) w^(-(k - j)^2 / 2)
def chirped(x, sign, m, real):
    n, kind, size = x.shape[-1], prim.real(x).dtype, 1
    while size < n + m - 1:
        size = size * 2
    at = prim.iota(size, 0, 1, torch.int64)
    back = prim.where(at < m, at, size - at)  # k - j, or how far it is below 0
    other = conj(half_squares(back, n, sign, torch.float64))
    other = prim.where((at < m) | (back < n), other, 0)
    other = transform(other, -1, size)
    other = prim.complex(prim.convert(other.real / size, kind), prim.convert(other.imag / size, kind))
    x = x * half_squares(prim.iota(n, 0, 1, torch.int64), n, sign, kind)
    x = transform(constant_pad_nd(x, [0, size - n]), -1, size) * other
    x = transform(x, 1, m) * half_squares(prim.iota(m, 0, 1, torch.int64), n, sign, kind)
    return x.real if real else x


def half_squares(j, n, sign, kind):
    w = root_of_unity(remainder(j * j, 2 * n), 2 * n, kind)
    return w if sign > 0 else conj(w)


# ---- along dims ----

def fft_scale(norm, n, inverse):
    if norm not in (None, 'backward', 'ortho', 'forward'):
        prim.fail(f"norm is {norm}; it may be 'backward', 'ortho' or 'forward'")
    if norm == 'ortho':
        return 1 / math.sqrt(n)
    return 1 / n if inverse == (norm != 'forward') else 1


def fft_input(x):
    if not prim.is_float(x.dtype):
        return prim.convert(x, torch.float32)
    if prim.real(x).dtype not in (torch.float32, torch.float64):
        prim.fail(f"a Fourier transform of {x.dtype} is not supported")
    return x


# Cut, or padded with zeros, to n along d.
def fft_sized(x, d, n):
    if n is None or n == x.shape[d]:
        return x
    if n < 1:
        prim.fail(f"a Fourier transform of {n} numbers")
    if n < x.shape[d]:
        return prim.slice(x, d, 0, n, 1)
    return constant_pad_nd(x, [0, 0] * (x.ndim - 1 - d) + [0, n - x.shape[d]])


def along_dim(x, d, f): return movedim(f(movedim(x, d, -1)), -1, d)


def fft_along(x, n, dim, norm, sign, inverse):
    d = dim_of(x, dim)
    x = fft_sized(fft_input(x), d, n)
    return along_dim(x, d, lambda x: scaled(transform(x, sign, x.shape[-1]), fft_scale(norm, x.shape[-1], inverse)))


# Of a real signal the first half.
def half_along(x, n, dim, norm, sign, inverse):
    if prim.is_complex(x):
        prim.fail("rfft and ihfft take real numbers; fft and ifft take complex ones")
    d = dim_of(x, dim)
    x = fft_sized(fft_input(x), d, n)
    return along_dim(x, d, lambda x: scaled(transform(x, sign, x.shape[-1] // 2 + 1), fft_scale(norm, x.shape[-1], inverse)))


# To a real signal: each but the first, and the middle one, counts twice, which is the same as its conjugate's.
def real_along(x, n, dim, norm, sign, inverse):
    d = dim_of(x, dim)
    n = 2 * (x.shape[d] - 1) if n is None else n
    x = fft_sized(fft_input(x), d, n // 2 + 1)
    return along_dim(x, d, lambda x: scaled(real_transform(x, sign, n), fft_scale(norm, n, inverse)))


def real_transform(x, sign, n):
    if n > MOST_FACTOR and (n > MOST_DIRECT or factor_of(n) > 1):
        rest = prim.slice(x, -1, 1, (n + 1) // 2, 1)
        return transform(prim.concat([x, conj(prim.flip(rest, -1))], -1) if n > 2 else x, sign, n, True)
    k = prim.iota(n // 2 + 1, 0, 1, torch.int64)
    twice = prim.convert(prim.where((k == 0) | (2 * k == n), 1, 2), prim.real(x).dtype)
    w = transform_matrix(n, n, sign, prim.real(x).dtype)
    return times_matrix(x, prim.slice(w, 0, 0, n // 2 + 1, 1) * prim.reshape(twice, [-1, 1]), True)


def fft_fft(x, n=None, dim=-1, norm=None): return fft_along(x, n, dim, norm, -1, False)
def fft_ifft(x, n=None, dim=-1, norm=None): return fft_along(x, n, dim, norm, 1, True)
def fft_rfft(x, n=None, dim=-1, norm=None): return half_along(x, n, dim, norm, -1, False)
def fft_ihfft(x, n=None, dim=-1, norm=None): return half_along(x, n, dim, norm, 1, True)
def fft_irfft(x, n=None, dim=-1, norm=None): return real_along(x, n, dim, norm, 1, True)
def fft_hfft(x, n=None, dim=-1, norm=None): return real_along(x, n, dim, norm, -1, False)


# ---- of several dims: [dim, size or None] ----

def fft_dims(x, s, dim):
    if dim is None:
        dim = list(range(x.ndim)) if s is None else list(range(x.ndim - len(s), x.ndim))
    dims = all_dims(x, dim)
    if s is not None and len(s) != len(dims):
        prim.fail(f"{len(s)} sizes for {len(dims)} dims")
    return [(d, None if s is None or s[i] == -1 else s[i]) for i, d in enumerate(dims)]


def fft_fftn(x, s=None, dim=None, norm=None):
    for d, n in reversed(fft_dims(x, s, dim)):
        x = fft_fft(x, n, d, norm)
    return x


def fft_ifftn(x, s=None, dim=None, norm=None):
    for d, n in reversed(fft_dims(x, s, dim)):
        x = fft_ifft(x, n, d, norm)
    return x


def fft_rfftn(x, s=None, dim=None, norm=None):
    dims = fft_dims(x, s, dim)
    x = fft_rfft(x, dims[-1][1], dims[-1][0], norm)
    for d, n in reversed(dims[:-1]):
        x = fft_fft(x, n, d, norm)
    return x


def fft_irfftn(x, s=None, dim=None, norm=None):
    dims = fft_dims(x, s, dim)
    for d, n in dims[:-1]:
        x = fft_ifft(x, n, d, norm)
    return fft_irfft(x, dims[-1][1], dims[-1][0], norm)


def fft_fft2(x, s=None, dim=(-2, -1), norm=None): return fft_fftn(x, s, dim, norm)
def fft_ifft2(x, s=None, dim=(-2, -1), norm=None): return fft_ifftn(x, s, dim, norm)
def fft_rfft2(x, s=None, dim=(-2, -1), norm=None): return fft_rfftn(x, s, dim, norm)
def fft_irfft2(x, s=None, dim=(-2, -1), norm=None): return fft_irfftn(x, s, dim, norm)


def fft_fftshift(x, dim=None):
    dims = all_dims(x, dim)
    return roll(x, [x.shape[d] // 2 for d in dims], dims)


def fft_ifftshift(x, dim=None):
    dims = all_dims(x, dim)
    return roll(x, [(x.shape[d] + 1) // 2 for d in dims], dims)


def fft_fftfreq(n, d=1.0, *, dtype=None, **how): return prim.convert(roll(prim.iota(n, -(n // 2), 1, torch.int64), (n + 1) // 2, 0), or_float(dtype)) / (n * d)
def fft_rfftfreq(n, d=1.0, *, dtype=None, **how): return prim.iota(n // 2 + 1, 0, 1, or_float(dtype)) / (n * d)


# ---- as ATen has them: normalization 0 is none, 1 by the root, 2 by the number ----

def aten_scale(n, normalization): return [1, 1 / math.sqrt(n), 1 / n][normalization]


def aten__fft_c2c(x, dim, normalization, forward):
    for d in dim:
        x = along_dim(x, dim_of(x, d), lambda x: scaled(transform(x, -1 if forward else 1, x.shape[-1]), aten_scale(x.shape[-1], normalization)))
    return x


def aten__fft_r2c(x, dim, normalization, onesided):
    d = dim_of(x, dim[-1])
    n = x.shape[d]
    y = along_dim(x, d, lambda x: scaled(transform(x, -1, n // 2 + 1 if onesided else n), aten_scale(n, normalization)))
    return aten__fft_c2c(y, dim[:-1], normalization, True)


def aten__fft_c2r(x, dim, normalization, last_dim_size):
    x = aten__fft_c2c(x, dim[:-1], normalization, False)
    return along_dim(x, dim_of(x, dim[-1]), lambda x: scaled(real_transform(x, 1, last_dim_size), aten_scale(last_dim_size, normalization)))
