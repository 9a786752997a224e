# Reverse-mode differentiation: a rule for each primitive of graph.def, by its name (of a reduction, by its kind).
# This file is embedded; grad.c calls the rules while it goes through a graph backwards.
#
#     NAME(g, y, operands..., attributes...)
#
# y is what the primitive gave, g the gradient of the loss by y. The rule gives that of each operand, in y's shape for
# elementwise primitives: None where there is none, a number for a constant. Attributes are those of graph.def's row, as
# they stand in a printed graph; `concat` has all its operands as one list. Where PyTorch has a rule for a kink (a tie of
# two maxima, 0 under a root), it is PyTorch's.


# ---- elementwise ----

def add(g, y, a, b): return g, g
def sub(g, y, a, b): return g, -g
def mul(g, y, a, b): return g * b, g * a
def div(g, y, a, b): return g / b, -g * (a / b / b)
def floordiv(g, y, a, b): return 0, 0
def shl(g, y, a, b): return 0, 0
def shr(g, y, a, b): return 0, 0
def rem(g, y, a, b): return g, -g * prim.trunc(a / b)
def minimum(g, y, a, b): return prim.where(a > b, 0, halved(g, a, b)), prim.where(a < b, 0, halved(g, a, b))
def maximum(g, y, a, b): return prim.where(a < b, 0, halved(g, a, b)), prim.where(a > b, 0, halved(g, a, b))
def halved(g, a, b): return prim.where(a == b, g * 0.5, g)
def pow(g, y, a, b): return prim.where(b == 0, 0, g * (b * prim.pow(a, b - 1))), pow_exponent(g, y, a, b)
def pow_exponent(g, y, a, b): return g * prim.where(prim.where(b == 0, a >= 0, (a == 0) & (b >= 0)), 0, y * prim.log(a))
def atan2(g, y, a, b): return b * atan2_scale(g, a, b), -a * atan2_scale(g, a, b)
def atan2_scale(g, a, b): return prim.where((a == 0) & (b == 0), 0, g / (a * a + b * b))
def fma(g, y, a, b, c): return g * b, g * a, g
def neg(g, y, x): return -g
def abs(g, y, x): return prim.where(x > 0, g, prim.where(x < 0, -g, g * x))
def exp(g, y, x): return g * y
def exp2(g, y, x): return g * y * 0.6931471805599453
def expm1(g, y, x): return g * (y + 1)
def log(g, y, x): return g / x
def log2(g, y, x): return g / (x * 0.6931471805599453)
def log1p(g, y, x): return g / (x + 1)
def sqrt(g, y, x): return g / (2 * y)
def rsqrt(g, y, x): return -0.5 * g * y * y * y
def sin(g, y, x): return g * prim.cos(x)
def cos(g, y, x): return -g * prim.sin(x)
def erfc(g, y, x): return g * -1.1283791670955126 * prim.exp(-x * x)
def erfinv(g, y, x): return g * 0.886226925452758 * prim.exp(y * y)
def lgamma(g, y, x): return g * digamma(x)
def bessel_i0(g, y, x): return g * prim.bessel_i1(x)
def bessel_i1(g, y, x): return g * (prim.bessel_i0(x) - prim.where(x == 0, 0.5 * prim.bessel_i0(x), y / prim.where(x == 0, 1, x)))
def tan(g, y, x): return g * (y * y + 1)
def asin(g, y, x): return g * prim.rsqrt(1 - x * x)
def acos(g, y, x): return -g * prim.rsqrt(1 - x * x)
def atan(g, y, x): return g / (x * x + 1)
def sinh(g, y, x): return g * prim.cosh(x)
def cosh(g, y, x): return g * prim.sinh(x)
def tanh(g, y, x): return g * (1 - y * y)
def sigmoid(g, y, x): return g * ((1 - y) * y)
def erf(g, y, x): return g * prim.exp(-(x * x)) * 1.1283791670955126
def floor(g, y, x): return 0
def ceil(g, y, x): return 0
def trunc(g, y, x): return 0
def round(g, y, x): return 0
def where(g, y, c, a, b): return None, prim.where(c, g, 0), prim.where(c, 0, g)
def convert(g, y, x): return prim.convert(g, x.dtype)


# ---- reductions, scans ----

def sum(g, y, x, dims): return prim.expand(g, x.shape)
def max(g, y, x, dims): return shared(g, x == y, dims)
def min(g, y, x, dims): return shared(g, x == y, dims)


# Elements that are the largest have equal parts of the gradient.
def shared(g, hit, dims): return prim.where(hit, g / prim.sum(prim.convert(hit, g.dtype), dims), 0)


# Without zeros: y / x. With one, it alone has a gradient: the product of the others. With more there is none.
def prod(g, y, x, dims):
    zero = x == 0
    zeros, others = prim.sum(prim.convert(zero, x.dtype), dims), prim.prod(prim.where(zero, 1, x), dims)
    return g * prim.where(zero, prim.where(zeros == 1, others, 0), prim.where(zeros == 0, others / x, 0))


def cumsum(g, y, x, dim): return sum_from(g, dim)
def sum_from(g, d): return prim.flip(prim.cumsum(prim.flip(g, d), d), d)


# Before the first zero: by dividing. It itself has the products of the others; what is behind has none.
def cumprod(g, y, x, d):
    zero = x == 0
    zeros = prim.cumsum(prim.convert(zero, g.dtype), d)
    first = zero & (zeros == 1)
    others = sum_from(g * prim.cumprod(prim.where(first, 1, x), d), d)
    return prim.where(zeros == 0, sum_from(g * y, d) / prim.where(zero, 1, x), prim.where(first, others, 0))


def cummax(g, y, x, dim): return prim.scatter_add(prim.full(x.shape, 0, g.dtype), prim.cumargmax(x, dim), g, dim)
def cummin(g, y, x, dim): return prim.scatter_add(prim.full(x.shape, 0, g.dtype), prim.cumargmin(x, dim), g, dim)


# The sum of g exp(x - y) from here on, by logarithms, of what is above and below 0.
def cumlogsumexp(g, y, x, dim): return part_above(g, y, x, dim) - part_above(-g, y, x, dim)


def part_above(g, y, x, d):
    logs = prim.where(g > 0, prim.log(prim.where(g > 0, g, 1)), -math.inf)
    return prim.exp(prim.flip(prim.cumlogsumexp(prim.flip(logs - y, d), d), d) + x)


# ---- views ----

def permute(g, y, x, dims): return prim.permute(g, [dims.index(d) for d in range(x.ndim)])
def reshape(g, y, x): return prim.reshape(g, x.shape)
def expand(g, y, x): return prim.sum(g, [d for d in range(x.ndim) if x.shape[d] == 1 and y.shape[d] != 1])
def detach(g, y, x, twin=None): return None, g


def slice(g, y, x, d, step, first):
    if prim.is_empty(g):
        return 0
    if step < 0:
        g, first, step = prim.flip(g, d), first + (g.shape[d] - 1) * step, -step
    return padded(g, d, first, x.shape[d], step - 1)


# g at `first` of a dim of n elements, with zeros around and `between` its own
def padded(g, d, first, n, between):
    before, after, gaps = [0] * g.ndim, [0] * g.ndim, [0] * g.ndim
    before[d], gaps[d] = first, between
    after[d] = n - first - ((g.shape[d] - 1) * (between + 1) + 1)
    return prim.pad(g, before, after, gaps, 0)


def pad(g, y, x, between, before, number):
    if prim.is_empty(x):
        return 0
    for d in range(x.ndim):
        g = prim.slice(g, d, before[d], before[d] + (x.shape[d] - 1) * (between[d] + 1) + 1, between[d] + 1)
    return g


def concat(g, y, xs, dim):
    out, at = [], 0
    for x in xs:
        out.append(prim.slice(g, dim, at, at + x.shape[dim], 1))
        at = at + x.shape[dim]
    return out


# Windows that overlap: an element is in several, and has the sum of their gradients. Window element w of window p is
# element p * step + w * dilation.
def unfold(g, y, x, d, window, step, dilation):
    n, places, last = x.shape[d], g.shape[d], x.ndim
    if dilation == 1 and step >= window:  # none overlap: the windows one after the other
        g = prim.pad(g, [0] * g.ndim, [0] * last + [step - window], [0] * g.ndim, 0)
        g = prim.permute(g, list(range(d + 1)) + [last] + list(range(d + 1, last)))
        g = prim.reshape(g, [x.shape[i] if i != d else places * step for i in range(last)])
        g = prim.slice(g, d, 0, n if n < places * step else places * step, 1)
        return padded(g, d, 0, n, 0)
    if window <= 16:
        total = 0
        for w in range(window):
            part = prim.reshape(prim.slice(g, last, w, w + 1, 1), list(g.shape[:last]))
            part = padded(part, d, w * dilation, n, step - 1)
            total = total + part if w else part
        return total
    # Rows of n + dilation elements, read in rows of n, move by dilation from row to row: what is to be added stands
    # in one column.
    g = prim.permute(g, list(range(d)) + list(range(d + 1, last)) + [last, d])  # [.., window, places]
    g = padded(g, last, 0, n + dilation, step - 1)
    lead = list(g.shape[:last - 1])
    g = prim.slice(prim.reshape(g, lead + [window * (n + dilation)]), last - 1, 0, window * n, 1)
    g = prim.sum(prim.reshape(g, lead + [window, n]), [last - 1])
    g = prim.reshape(g, lead + [n])
    return prim.permute(g, list(range(d)) + [last - 1] + list(range(d, last - 1)))


# ---- elements by index, products ----

def gather(g, y, x, index, d):
    if index.shape[d] == 1:  # one of each row: whoever it is knows so itself
        shape = [1] * x.ndim
        shape[d] = x.shape[d]
        return prim.where(prim.reshape(prim.iota(x.shape[d], 0, 1, index.dtype), shape) == index, g, 0), None
    return prim.scatter_add(prim.full(x.shape, 0, g.dtype), index, g, d), None


def scatter(g, y, x, index, src, dim, mode):
    if mode == 'max' or mode == 'min':  # shared by all that are the result
        value, own = prim.gather(y, index, dim), prim.convert(x == y, g.dtype)
        part = g / prim.scatter_add(own, index, prim.convert(src == value, g.dtype), dim)
        return prim.where(x == y, part, 0), None, prim.where(src == value, prim.gather(part, index, dim), 0)
    kept = g if mode == 'add' else prim.scatter(g, index, prim.full(index.shape, 0, g.dtype), dim)
    return kept, None, prim.gather(g, index, dim)


def turned(x): return prim.permute(x, list(range(x.ndim - 2)) + [x.ndim - 1, x.ndim - 2])
def product(g, y, a, b, tf32): return prim.dot(g, turned(b), tf32), prim.dot(turned(a), g, tf32)


# Its own rule stands where it is made; what else comes goes through what computes it.
def convolution(g, y, *rest): return (None, None, g) if len(rest) == 8 else prim.fail("the gradient of a convolution that a library computes")
