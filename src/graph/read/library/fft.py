# torch.fft. A transform of n = n1 n2 numbers is two of n1 and n2 (the four steps of Bailey's algorithm): as a matrix of
# n1 rows, x is multiplied by the matrix of the transform of n1, each element by a root of unity, then by the matrix of
# n2, which may be cut again; the result is read down the columns. Roots are computed in float64. So a transform is as
# many matrix products as n has factors, and roots, padding, scales and order are in their kernels. A prime above
# MOST_DIRECT is a convolution with squares' roots (Bluestein), of a length that has factors.
#
# Complex numbers are pairs, [.., n, 2], as they lie in memory: rows of 2 n numbers, of which a matrix [2 n, 2 m] makes
# rows of 2 m. `ins` and `outs` count parts: of a real signal it is one, and there is no last dim.


MOST_FACTOR, MOST_DIRECT = 32, 128


def is_imaginary(parts): return prim.iota(parts, 0, 1, torch.int64) == 1


# [ins n, outs m]: of the transform of n numbers, the first m results
def transform_matrix(n, m, sign, kind, ins, outs):
    row, column = prim.reshape(prim.iota(ins * n, 0, 1, torch.int64), [-1, 1]), prim.iota(outs * m, 0, 1, torch.int64)
    angle = prim.convert(remainder((row // ins) * (column // outs), n), torch.float64) * (2 * math.pi / n)
    from_part, part = remainder(row, ins), remainder(column, outs)
    sine = prim.sin(angle) * sign
    return prim.convert(prim.where(from_part == part, prim.cos(angle), prim.where(from_part < part, sine, -sine)), kind)


# Pairs [.., n1, n2, 2], of which that at j, k is multiplied by e^(sign 2 pi i j k / n).
def rotated(x, n, sign):
    j, k = prim.iota(x.shape[-3], 0, 1, torch.int64), prim.iota(x.shape[-2], 0, 1, torch.int64)
    angle = prim.convert(prim.reshape(j, [-1, 1, 1]) * prim.reshape(k, [-1, 1]), torch.float64) * (2 * math.pi / n)
    sine = prim.sin(angle) * sign
    sine = prim.where(is_imaginary(2), sine, -sine)
    return x * prim.convert(prim.cos(angle), x.dtype) + prim.flip(x, -1) * prim.convert(sine, x.dtype)


def conjugate_pairs(x): return prim.where(is_imaginary(2), -x, x)


# The factor by which n is cut: near n^(1/steps), for as few steps as factors up to MOST_FACTOR allow; 1: there is none.
def factor_of(n):
    steps = math.ceil(math.log(n) / math.log(MOST_FACTOR) - 1e-9)
    want, best = n ** (1 / steps), 1
    for f in range(2, MOST_FACTOR + 1):
        if n % f == 0 and (best == 1 or abs_of(math.log(f / want)) < abs_of(math.log(best / want))):
            best = f
    return best


def abs_of(x): return x if x >= 0 else -x
def part_dim(parts): return [2] if parts == 2 else []


def known_length(n):
    if not isinstance(n, int):
        prim.fail("a Fourier transform of a length that is a symbol is not supported")
    return n


# The first m results; with outs == 1 their real parts.
def transform(x, sign, m, ins, outs):
    n, lead = known_length(x.shape[-ins]), list(x.shape[:-ins])
    n1 = factor_of(n) if n > MOST_FACTOR else n
    if n1 == 1 and n > MOST_DIRECT:
        return chirped(x, sign, m, ins, outs)
    if n1 == 1 or n1 == n:
        return times_matrix(x, transform_matrix(n, m, sign, x.dtype, ins, outs), ins, outs)
    n2 = n // n1
    y = columns_transformed(prim.reshape(x, lead + [n1, n2] + part_dim(ins)), sign, n, ins)
    z = swapped(transform(y, sign, (m + n1 - 1) // n1, 2, outs), outs)
    return prim.slice(prim.reshape(z, lead + [-1] + part_dim(outs)), -outs, 0, m, 1)


# The first of two steps, of n1 rows of some of the n / n1 columns.
def columns_transformed(x, sign, n, ins):
    n1 = x.shape[-1 - ins]
    y = times_matrix(swapped(x, ins), transform_matrix(n1, n1, sign, x.dtype, ins, 2), ins, 2)
    return rotated(swapped(y, 2), n, sign)


# Rows and columns, which have parts in a last dim.
def swapped(x, parts): return transpose(x, -1 - parts, -parts)


def times_matrix(x, w, ins, outs):
    lead = list(x.shape[:-ins])
    y = prim.dot(prim.reshape(x, [-1, w.shape[0]]), w)
    return prim.reshape(y, lead + [w.shape[1] // outs] + part_dim(outs))


# w^(jk) = w^(j^2 / 2) w^(k^2 / 2) w^(-(k - j)^2 / 2)
def chirped(x, sign, m, ins, outs):
    n, kind, size = x.shape[-ins], x.dtype, 1
    while size < n + m - 1:
        size = size * 2
    at = prim.iota(size, 0, 1, torch.int64)
    back = prim.where(at < m, at, size - at)  # k - j, or how far it is below 0
    other = conj(half_squares(back, n, sign, torch.float64))
    other = prim.where((at < m) | (back < n), other, 0)
    other = complex_transform(other, -1, size)
    other = prim.complex(prim.convert(other.real / size, kind), prim.convert(other.imag / size, kind))
    x = (x if ins == 1 else prim.view_as_complex(x)) * half_squares(prim.iota(n, 0, 1, torch.int64), n, sign, kind)
    x = complex_transform(constant_pad_nd(x, [0, size - n]), -1, size) * other
    x = complex_transform(x, 1, m) * half_squares(prim.iota(m, 0, 1, torch.int64), n, sign, kind)
    return x.real if outs == 1 else prim.pairs(x)


def complex_transform(x, sign, m): return prim.view_as_complex(transform(prim.pairs(x), sign, m, 2, 2))


def half_squares(j, n, sign, kind):
    angle = prim.convert(remainder(j * j, 2 * n), torch.float64) * (math.pi / n)
    return prim.complex(prim.convert(prim.cos(angle), kind), prim.convert(prim.sin(angle) * sign, kind))


# To n real numbers, from half of their transform: the other half is its conjugate, as it is after the first step for
# each row, so that of n2 columns half are enough, too. In the last step each but the first counts twice, which is the
# same as its conjugate's. Imaginary parts of what is its own conjugate's are left out.
def real_transform(x, sign, n):
    h, lead = known_length(n) // 2, list(x.shape[:-2])
    n1 = factor_of(n) if n > MOST_FACTOR else n
    if n1 == n or (n1 == 1 and n <= MOST_DIRECT):
        k = prim.reshape(prim.iota(2 * (h + 1), 0, 1, torch.int64), [-1, 1]) // 2
        w = prim.slice(transform_matrix(n, n, sign, x.dtype, 2, 1), 0, 0, 2 * (h + 1), 1)
        return times_matrix(x, prim.where((k == 0) | (k == n - h), w, w + w), 2, 1)
    rest = prim.slice(x, -2, 1, (n + 1) // 2, 1)
    x = prim.concat([x, conjugate_pairs(prim.flip(rest, -2))], -2)
    if n1 == 1:
        return transform(x, sign, n, 2, 1)
    n2 = n // n1
    y = columns_transformed(prim.slice(prim.reshape(x, lead + [n1, n2, 2]), -2, 0, n2 // 2 + 1, 1), sign, n, 2)
    return prim.reshape(swapped(real_transform(y, sign, n2), 1), lead + [n])


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


# f takes what lies along d, [.., n] or pairs [.., n, 2], and gives such with `outs` parts.
def along_dim(x, d, size, scale, outs, f):
    x = fft_input(x)
    ins = 2 if prim.is_complex(x) else 1
    x = fft_sized(prim.pairs(x) if ins == 2 else x, d, size)
    y = movedim(scaled(f(movedim(x, d, -ins), ins), scale), -outs, d)
    y = prim.detach(y, y)  # has memory of its own
    return y if outs == 1 else prim.view_as_complex(y)


def transform_along(x, d, n, m, scale, sign):
    return along_dim(x, d, n, scale, 2, lambda x, ins: transform(x, sign, m, ins, 2))


def fft_along(x, n, dim, norm, sign, inverse):
    d = dim_of(x, dim)
    n = x.shape[d] if n is None else n
    return transform_along(x, d, n, n, fft_scale(norm, n, inverse), sign)


# Of a real signal the first half.
def half_along(x, n, dim, norm, sign, inverse):
    if prim.is_complex(x):
        prim.fail("rfft and ihfft take real numbers; fft and ifft take complex ones")
    d = dim_of(x, dim)
    n = x.shape[d] if n is None else n
    return transform_along(x, d, n, n // 2 + 1, fft_scale(norm, n, inverse), sign)


def real_along(x, n, dim, norm, sign, inverse):
    d = dim_of(x, dim)
    n = 2 * (x.shape[d] - 1) if n is None else n
    return real_of_length(x, d, n, fft_scale(norm, n, inverse), sign)


def real_of_length(x, d, n, scale, sign):
    x = x if prim.is_complex(x) else prim.complex(fft_input(x), 0)
    return along_dim(x, d, n // 2 + 1, scale, 1, lambda x, ins: real_transform(x, sign, n))


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


def fft_fftfreq(n, d=1.0, *, dtype=None, **placed): return prim.convert(roll(prim.iota(n, -(n // 2), 1, torch.int64), (n + 1) // 2, 0), or_float(dtype)) / (n * d)
def fft_rfftfreq(n, d=1.0, *, dtype=None, **placed): return prim.iota(n // 2 + 1, 0, 1, or_float(dtype)) / (n * d)


# ---- as ATen has them: normalization 0 is none, 1 by the root, 2 by the number ----

def aten_scale(n, normalization): return [1, 1 / math.sqrt(n), 1 / n][normalization]


def aten__fft_c2c(x, dim, normalization, forward):
    for d in dim:
        n = x.shape[d]
        x = transform_along(x, dim_of(x, d), n, n, aten_scale(n, normalization), -1 if forward else 1)
    return x


def aten__fft_r2c(x, dim, normalization, onesided):
    d = dim_of(x, dim[-1])
    n = x.shape[d]
    y = transform_along(x, d, n, n // 2 + 1 if onesided else n, aten_scale(n, normalization), -1)
    return aten__fft_c2c(y, dim[:-1], normalization, True)


def aten__fft_c2r(x, dim, normalization, last_dim_size):
    x = aten__fft_c2c(x, dim[:-1], normalization, False)
    return real_of_length(x, dim_of(x, dim[-1]), last_dim_size, aten_scale(last_dim_size, normalization), 1)


# ---- windows of a signal ----

def centred(window, n): return F_pad(window, [(n - window.shape[0]) // 2, n - window.shape[0] - (n - window.shape[0]) // 2])
def window_of(x, window, win_length, n): return centred(ones(n if win_length is None else win_length, dtype=x.dtype) if window is None else window, n)


def stft(x, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect', normalized=False, onesided=None, return_complex=None, align_to_window=None):
    hop = n_fft // 4 if hop_length is None else hop_length
    if center:
        x = F_pad(x, [n_fft // 2, n_fft // 2], pad_mode)
    frames = prim.unfold(x, x.ndim - 1, n_fft, hop, 1)
    frames = frames * window_of(frames, window, win_length, n_fft)
    half = not prim.is_complex(frames) if onesided is None else onesided
    y = fft_rfft(frames, norm='ortho' if normalized else None) if half else fft_fft(frames, norm='ortho' if normalized else None)
    y = transpose(y, -1, -2)
    return y if return_complex is None or return_complex else prim.view_as_real(y)


# Frames are added up where they stood, and divided by what their windows' squares add up to.
def istft(x, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None, return_complex=False):
    hop = n_fft // 4 if hop_length is None else hop_length
    if n_fft % hop or return_complex or onesided is not None and not onesided:
        prim.fail("istft is supported of half spectra, with a hop_length that divides n_fft")
    frames = fft_irfft(transpose(x, -1, -2), n_fft, norm='ortho' if normalized else None)
    w = window_of(frames, window, win_length, n_fft)
    y = overlapped(frames * w, hop) / overlapped(prim.expand(w * w, list(frames.shape[-2:])), hop)
    first = n_fft // 2 if center else 0
    end = y.shape[-1] - first if length is None else first + length
    if end > y.shape[-1]:
        y = F_pad(y, [0, end - y.shape[-1]])
    return prim.slice(y, y.ndim - 1, first, end, 1)


def overlapped(frames, hop):
    n, parts = frames.shape[-2], frames.shape[-1] // hop
    total = 0
    for k in range(parts):
        part = flatten(prim.slice(frames, frames.ndim - 1, k * hop, (k + 1) * hop, 1), -2)
        total = F_pad(part, [k * hop, (parts - 1 - k) * hop]) + total
    return total
