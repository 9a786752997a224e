# Scans, and what counts places. A scan is a primitive.


def cumprod(x, dim, *, dtype=None): return prim.cumprod(prim.convert(x, summed_type(x, dtype)), dim)
def logcumsumexp(x, dim): return prim.cumlogsumexp(x, dim)
def cummax(x, dim): return cumulated(x, lambda x: [prim.cummax(x, dim), prim.cumargmax(x, dim)])
def cummin(x, dim): return cumulated(x, lambda x: [prim.cummin(x, dim), prim.cumargmin(x, dim)])


# The largest or smallest so far, and the last place that has it; a NaN stays.
def cumulated(x, scans):
    values, indices = scans(prim.convert(x, torch.uint8) if x.dtype == torch.bool else x)
    return prim.named('values indices', prim.convert(values, x.dtype), indices)


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
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    t = test_elements if isinstance(test_elements, torch.Tensor) else prim.full([], test_elements, elements.dtype)
    hit = any(unsqueeze(elements, -1) == flatten(t), -1)
    return ~hit if invert else hit


def bincount(x, weights=None, minlength=0): prim.fail("bincount: how many bins there are depends on data")
