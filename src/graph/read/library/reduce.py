# Reductions, scans, norms.


def finish(y, dims, keepdim): return y if keepdim else without(y, dims)
def summed_type(x, dtype): return dtype if dtype is not None else x.dtype if prim.is_float(x.dtype) else torch.int64


def sum(x, dim=None, keepdim=False, *, dtype=None):
    dims = all_dims(x, dim)
    return finish(prim.sum(prim.convert(x, summed_type(x, dtype)), dims), dims, keepdim)


def prod(x, dim=None, keepdim=False, *, dtype=None):
    dims = all_dims(x, dim)
    return finish(prim.prod(prim.convert(x, summed_type(x, dtype)), dims), dims, keepdim)


def mean(x, dim=None, keepdim=False, *, dtype=None):
    dims = all_dims(x, dim)
    if dtype is not None:
        x = prim.convert(x, dtype)
    if not prim.is_float(x.dtype):
        prim.fail("the mean of integers or bools: it takes dtype=, or floats")
    return finish(prim.sum(x, dims), dims, keepdim) / count(x, dims)


def amax(x, dim=None, keepdim=False):
    dims = all_dims(x, dim)
    return finish(prim.max(x, dims), dims, keepdim)


def amin(x, dim=None, keepdim=False):
    dims = all_dims(x, dim)
    return finish(prim.min(x, dims), dims, keepdim)


def max(x, dim=None, keepdim=False):
    if isinstance(dim, torch.Tensor):
        return prim.maximum(x, dim)
    return amax(x) if dim is None else largest(prim.max, prim.argmax, x, dim, keepdim)


# A value and its place; the gradient is that one element's.
def largest(value, place, x, dim, keepdim):
    if x.ndim == 0:
        return prim.named('values indices', x, prim.full([], 0, torch.int64))
    dims = all_dims(x, dim)
    i = place(x, dims)
    return prim.named('values indices', finish(prim.detach(value(x, dims), prim.gather(x, i, dims[0])), dims, keepdim), finish(i, dims, keepdim))


def min(x, dim=None, keepdim=False):
    if isinstance(dim, torch.Tensor):
        return prim.minimum(x, dim)
    return amin(x) if dim is None else largest(prim.min, prim.argmin, x, dim, keepdim)


def argmax(x, dim=None, keepdim=False):
    if dim is None:
        return without(prim.argmax(flatten(x), [0]), [0])
    dims = all_dims(x, dim)
    return finish(prim.argmax(x, dims), dims, keepdim)


def argmin(x, dim=None, keepdim=False):
    if dim is None:
        return without(prim.argmin(flatten(x), [0]), [0])
    dims = all_dims(x, dim)
    return finish(prim.argmin(x, dims), dims, keepdim)


def any(x, dim=None, keepdim=False): return prim.convert(sum(x != 0, dim, keepdim), torch.bool) if prim.is_empty(x) else amax(to_bool(x), dim, keepdim)
def all(x, dim=None, keepdim=False): return ~any(x, dim, keepdim) if prim.is_empty(x) else amin(to_bool(x), dim, keepdim)


def count_nonzero(x, dim=None): return sum(x != 0, dim)
def aminmax(x, *, dim=None, keepdim=False): return prim.named('min max', amin(x, dim, keepdim), amax(x, dim, keepdim))
def nansum(x, dim=None, keepdim=False, *, dtype=None): return sum(prim.where(x != x, 0, x).to(x.dtype), dim, keepdim, dtype=dtype)
def nanmean(x, dim=None, keepdim=False, *, dtype=None): return nansum(x, dim, keepdim, dtype=dtype) / sum(x == x, dim, keepdim)
def dist(x, y, p=2): return norm(x - y, p)


def var_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    dims = all_dims(x, dim)
    n = count(x, dims)
    less = correction if correction is not None else 1 if unbiased else 0
    m = prim.sum(x, dims) / n
    v = prim.sum(square_of_abs(x - prim.detach(m)), dims) / (n - less)  # deviations sum to 0: nothing comes to m
    return finish(v, dims, keepdim), finish(m, dims, keepdim)


def aten_var_mean_correction(x, dim=None, *, correction=1, keepdim=False):
    return var_mean(x, dim, keepdim=keepdim, correction=correction)


def var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    return var_mean(x, dim, unbiased, keepdim, correction=correction)[0]


def std(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    return root(var(x, dim, unbiased, keepdim, correction=correction))


def std_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    v, m = var_mean(x, dim, unbiased, keepdim, correction=correction)
    return root(v), m


# Rows are variables, columns their observations.
def cov(x, *, correction=1, fweights=None, aweights=None):
    if fweights is not None or aweights is not None:
        prim.fail("cov with weights is not supported")
    x = prim.reshape(x, [1, -1]) if x.ndim < 2 else x
    d = x - mean(x, 1, True)
    c = prim.dot(d, t(d)) / max_of(x.shape[1] - correction, 0)
    return prim.reshape(c, []) if x.shape[0] == 1 else c


def corrcoef(x):
    c = cov(x)
    if c.ndim == 0:
        return c / c
    s = prim.sqrt(diagonal(c))
    return clamp(c / unsqueeze(s, 1) / s, -1, 1)


def root(x): return prim.detach(prim.sqrt(x), prim.where(x == 0, 0, prim.sqrt(prim.where(x == 0, 1, x))))  # at 0: none


def norm(x, p=2, dim=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        x = prim.convert(x, dtype)
    if p == 'nuc':
        prim.fail("the nuclear norm is not supported: singular values are not")
    if p == 'fro' or p == 2 or p is None:
        return root(sum(square_of_abs(x), dim, keepdim))
    if p == 1:
        return sum(prim.abs(x), dim, keepdim)
    if p == math.inf:
        return amax(prim.abs(x), dim, keepdim)
    if p == -math.inf:
        return amin(prim.abs(x), dim, keepdim)
    if p == 0:
        return sum(prim.convert(x != 0, x.dtype), dim, keepdim)
    s = sum(prim.pow(prim.abs(x), p), dim, keepdim)
    return prim.detach(prim.pow(s, 1 / p), prim.where(s == 0, 0, prim.pow(prim.where(s == 0, 1, s), 1 / p)))


def logsumexp(x, dim, keepdim=False):
    dims = all_dims(x, dim)
    if prim.is_empty(x):
        return finish(prim.log(prim.sum(prim.exp(x), dims)), dims, keepdim)
    m = prim.max(x, dims)
    m = prim.detach(prim.where(prim.abs(m) == math.inf, 0, m))
    return finish(prim.log(prim.sum(prim.exp(x - m), dims)) + m, dims, keepdim)


def cumsum(x, dim, *, dtype=None): return prim.cumsum(prim.convert(x, summed_type(x, dtype)), dim)


def softmax(x, dim=-1, dtype=None, *, _stacklevel=3):
    if dtype is not None:
        x = prim.convert(x, dtype)
    if prim.is_empty(x):
        return clone(x)
    dims = all_dims(x, dim)
    e = prim.exp(x - prim.detach(prim.max(x, dims)))
    return e / prim.sum(e, dims)


def log_softmax(x, dim=-1, dtype=None, *, _stacklevel=3):
    if dtype is not None:
        x = prim.convert(x, dtype)
    if prim.is_empty(x):
        return clone(x)
    dims = all_dims(x, dim)
    y = x - prim.detach(prim.max(x, dims))
    return y - prim.log(prim.sum(prim.exp(y), dims))


def aten__softmax(x, dim, half_to_float): return softmax(x, dim, torch.float32 if half_to_float else None)
def aten__log_softmax(x, dim, half_to_float): return log_softmax(x, dim, torch.float32 if half_to_float else None)


def aten__softmax_backward_data(grad, y, dim, dtype):
    g = grad * y
    return prim.convert(g - y * prim.sum(g, all_dims(g, dim)), dtype)


def aten__log_softmax_backward_data(grad, y, dim, dtype):
    return prim.convert(grad - prim.exp(y) * prim.sum(grad, all_dims(grad, dim)), dtype)
