# Complex numbers: two real tensors, or floats, x.real and x.imag. complex_NAME is the primitive NAME where an operand is
# complex, and is called by every function that calls that; prim.real(x) and prim.imag(x) are of real values as well.
# What is not here and moves elements is done to both parts (complex.c), so that cat, roll, gather, sum and mean know
# complex numbers as they stand.


# ---- parts ----

def torch_complex(real, imag): return prim.complex(real, imag)
def aten_complex(real, imag): return prim.complex(real, imag)
def polar(abs, angle): return prim.complex(abs * prim.cos(angle), abs * prim.sin(angle))
def view_as_real(x): return prim.view_as_real(x)
def view_as_complex(x): return prim.view_as_complex(x)
def real(x): return prim.real(x)
def imag(x): return prim.imag(x) if prim.is_complex(x) else prim.fail("imag of a tensor that is not complex")
def is_complex(x): return prim.is_complex(x)
def is_conj(x): return False
def conj(x): return prim.complex(x.real, -x.imag) if prim.is_complex(x) else x
def conjugate(x): return conj(x)
def conj_physical(x): return conj(x)
def aten__conj(x): return conj(x)
def aten__conj_physical(x): return conj(x)
def aten__neg_view(x): return -x
def resolve_conj(x): return x
def resolve_neg(x): return x
def isreal(x): return x.imag == 0 if prim.is_complex(x) else full_like(x, True, dtype=torch.bool)
def angle(x): return prim.atan2(x.imag, x.real) if prim.is_complex(x) else prim.where(x < 0, math.pi, prim.where(x != x, x, 0))
def square_of_abs(x): return x.real * x.real + x.imag * x.imag if prim.is_complex(x) else x * x
def vdot(x, y): return dot(conj(x), y)


# ---- arithmetic: where one operand is real, its imaginary part is not computed with ----

def complex_add(x, y): return prim.complex(prim.real(x) + prim.real(y), x.imag + y.imag if prim.is_complex(x) and prim.is_complex(y) else x.imag if prim.is_complex(x) else y.imag)
def complex_sub(x, y): return prim.complex(prim.real(x) - prim.real(y), x.imag - y.imag if prim.is_complex(x) and prim.is_complex(y) else x.imag if prim.is_complex(x) else -y.imag)


def complex_mul(x, y):
    if not prim.is_complex(x):
        return prim.complex(0 if y.real == 0 else x * y.real, x * y.imag) if not isinstance(y, torch.Tensor) else prim.complex(x * y.real, x * y.imag)
    if not isinstance(x, torch.Tensor) and x.real == 0:  # 2j * y
        return prim.complex(-x.imag * prim.imag(y), x.imag * prim.real(y))
    if not isinstance(y, torch.Tensor) and prim.real(y) == 0:
        return complex_mul(y, x)
    if not prim.is_complex(y):
        return prim.complex(x.real * y, x.imag * y)
    return prim.complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


# The divisor is scaled, so that its square stays in range.
def complex_div(x, y):
    if not prim.is_complex(y):
        return prim.complex(x.real / y, x.imag / y)
    s = prim.detach(prim.maximum(prim.abs(y.real), prim.abs(y.imag))) if isinstance(y, torch.Tensor) else math.hypot(y.real, y.imag)
    c, d = y.real / s, y.imag / s
    n = (c * c + d * d) * s
    z = complex_mul(x, prim.complex(c, -d))
    return prim.complex(z.real / n, z.imag / n)


def complex_eq(x, y): return (prim.real(x) == prim.real(y)) & (prim.imag(x) == prim.imag(y))
def complex_ne(x, y): return (prim.real(x) != prim.real(y)) | (prim.imag(x) != prim.imag(y))


# Scaled by the larger part. At 0 the gradient is 0.
def complex_abs(x):
    a, b = prim.abs(x.real), prim.abs(x.imag)
    m = prim.maximum(a, b)
    s = prim.where((m == 0) | (m == math.inf), 1, m)
    y = prim.where(m == math.inf, m, s * prim.sqrt((a / s) * (a / s) + (b / s) * (b / s)))
    return prim.differentiate(y, [x.real, x.imag], lambda g, a, b: over_abs(g, a, b))


def over_abs(g, a, b):
    y = prim.complex(a, b).abs()
    g = prim.where(y == 0, 0, g / prim.where(y == 0, 1, y))
    return [g * a, g * b]


# ---- functions: of a function of a complex variable the gradient is that by its slope, conjugated ----

def holomorphic(x, f, slope):
    y = f(x)
    real = prim.differentiate(y.real, [x.real, x.imag], lambda g, a, b: along(g, slope(prim.complex(a, b)), False))
    imag = prim.differentiate(y.imag, [x.real, x.imag], lambda g, a, b: along(g, slope(prim.complex(a, b)), True))
    return prim.complex(real, imag)


def along(g, s, imag): return [g * s.imag, g * s.real] if imag else [g * s.real, -g * s.imag]


def complex_exp(x):
    e = prim.exp(x.real)
    return prim.complex(e * prim.cos(x.imag), e * prim.sin(x.imag))


def complex_log(x): return prim.complex(prim.log(complex_abs(x)), prim.atan2(x.imag, x.real))
def complex_sqrt(x): return holomorphic(x, principal_root, lambda x: 0.5 / principal_root(x))


def principal_root(x):
    a = prim.abs(x.real)
    t = prim.sqrt((complex_abs(x) + a) * 0.5)
    u = prim.where(t == 0, 0, x.imag / (2 * prim.where(t == 0, 1, t)))
    return prim.complex(prim.where(x.real < 0, prim.abs(u), t), prim.where(x.real < 0, copysign(t, x.imag), u))


def complex_rsqrt(x): return 1 / complex_sqrt(x)
def complex_sigmoid(x): return 1 / (1 + complex_exp(-x))
def complex_sin(x): return prim.complex(prim.sin(x.real) * prim.cosh(x.imag), prim.cos(x.real) * prim.sinh(x.imag))
def complex_cos(x): return prim.complex(prim.cos(x.real) * prim.cosh(x.imag), -prim.sin(x.real) * prim.sinh(x.imag))
def complex_sinh(x): return prim.complex(prim.sinh(x.real) * prim.cos(x.imag), prim.cosh(x.real) * prim.sin(x.imag))
def complex_cosh(x): return prim.complex(prim.cosh(x.real) * prim.cos(x.imag), prim.sinh(x.real) * prim.sin(x.imag))


# tanh(a + ib) = (t (1 + u^2), u (1 - t^2)) / (1 + t^2 u^2) for t = tanh a, u = tan b
def complex_tanh(x):
    t, u = prim.tanh(x.real), prim.tan(x.imag)
    n = 1 + t * t * u * u
    return prim.complex(t * (1 + u * u) / n, u * (1 - t * t) / n)


# 0 to a power is 0, and 1 to the power 0
def complex_pow(x, y):
    x = prim.convert(x, prim.result_type(x, y))
    zero = (x == 0)
    z = complex_exp(complex_log(prim.where(zero, 1, x)) * y)
    return prim.where(zero, prim.where(prim.complex(prim.real(y), prim.imag(y)) == 0, 1.0, 0.0) if isinstance(y, torch.Tensor) else 1.0 if y == 0 else 0.0, z)


def complex_sgn(x):
    n = complex_abs(x)
    return x / prim.where(n == 0, 1, n)


def complex_prod(x, dims):
    for d in dims:
        y = prim.slice(x, d, 0, 1, 1)
        for i in range(1, x.shape[d]):
            y = y * prim.slice(x, d, i, i + 1, 1)
        x = y
    return x


# Both products of a part are one, of twice as many terms.
def complex_dot(a, b, tf32=False):
    if not prim.is_complex(a):
        return prim.complex(prim.dot(a, b.real, tf32), prim.dot(a, b.imag, tf32))
    if not prim.is_complex(b):
        return prim.complex(prim.dot(a.real, b, tf32), prim.dot(a.imag, b, tf32))
    x = prim.concat([a.real, a.imag], -1)
    return prim.complex(prim.dot(x, prim.concat([b.real, -b.imag], -2), tf32), prim.dot(x, prim.concat([b.imag, b.real], -2), tf32))
