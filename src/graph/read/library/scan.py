# Scans, and what counts places. cumsum is a primitive; another scan doubles its reach: after k steps an element is what
# 2^k elements up to it give, which is log2(n) passes. Each is stored: fused, they would compute each element of every
# pass as often as it is read.


def doubled(xs, dim, join):
    if xs[0].ndim == 0:
        return xs
    d, n, k = dim_of(xs[0], dim), xs[0].shape[dim], 1
    while k < n:
        before, here = [prim.slice(x, d, 0, n - k, 1) for x in xs], [prim.slice(x, d, k, n, 1) for x in xs]
        xs = [prim.concat([prim.slice(x, d, 0, k, 1), y], d) for x, y in zip(xs, join(before, here))]
        xs = [prim.detach(stored(x, prim.expand(arange(x.shape[-1]), x.shape)), x) for x in xs]
        k = 2 * k
    return xs


def cumprod(x, dim, *, dtype=None): return doubled([prim.convert(x, summed_type(x, dtype))], dim, lambda a, b: [a[0] * b[0]])[0]
def logcumsumexp(x, dim): return doubled([x], dim, lambda a, b: [logaddexp(a[0], b[0])])[0]
def cummax(x, dim): return cumulated(x, dim, lambda a, b: (b >= a) & (a == a) | (b != b))
def cummin(x, dim): return cumulated(x, dim, lambda a, b: (b <= a) & (a == a) | (b != b))


# The largest or smallest so far, and the last place that has it; a NaN stays.
def cumulated(x, dim, takes):
    if x.ndim == 0:
        return prim.named('values indices', x, prim.full([], 0, torch.int64))
    d = dim_of(x, dim)
    place = prim.expand(prim.reshape(arange(x.shape[d]), [-1 if k == d else 1 for k in range(x.ndim)]), x.shape)

    def join(a, b):
        new = takes(a[0], b[0])
        return [prim.where(new, b[0], a[0]), prim.where(new, b[1], a[1])]

    y, i = doubled([prim.detach(x), place], d, join)
    return prim.named('values indices', prim.detach(y, prim.gather(x, i, d)) if prim.is_float(x.dtype) else y, i)


def renorm(x, p, dim, maxnorm):
    n = norm(x, p, [d for d in range(x.ndim) if d != dim_of(x, dim)], True)
    return x * prim.where(n > maxnorm, maxnorm / (n + 1e-07), 1)


# How many of the ascending numbers of the last dim are below each value (right: or equal).
def searchsorted(sorted_sequence, values, *, out_int32=False, right=False, side=None, sorter=None):
    v = values if isinstance(values, torch.Tensor) else prim.full([], values, sorted_sequence.dtype)
    s = sorted_sequence if sorted_sequence.ndim == 1 else unsqueeze(sorted_sequence, -2)
    below = s <= unsqueeze(v, -1) if right or side == 'right' else s < unsqueeze(v, -1)
    return prim.convert(sum(below, -1), torch.int32 if out_int32 else torch.int64)


def bucketize(values, boundaries, *, out_int32=False, right=False): return searchsorted(boundaries, values, out_int32=out_int32, right=right)
def isin(x, test, *, assume_unique=False, invert=False):
    t = test if isinstance(test, torch.Tensor) else prim.full([], test, x.dtype)
    hit = any(unsqueeze(x, -1) == flatten(t), -1)
    return ~hit if invert else hit


def bincount(x, weights=None, minlength=0): prim.fail("bincount: how many bins there are depends on data")
