# Elements by index: gather, scatter, embeddings, sorting. Kernels check each index. x[i] counts places below 0 from the
# end, as Python does; of functions with an index of their own, `take`, `take_along_dim` and `index_fill` do.


def wrap(index, n):
    i = prim.convert(index, torch.int64)
    return prim.where(i < 0, i + n, i)


def gather(x, dim, index, *, sparse_grad=False):
    if x.ndim == 0:
        return x
    if prim.is_empty(index):
        return prim.full(index.shape, 0, x.dtype)
    d = dim_of(x, dim)
    for k in range(x.ndim):
        if k != d:
            x = prim.slice(x, k, 0, index.shape[k], 1)
    return prim.gather(x, prim.convert(index, torch.int64), d)


# Rows of dims before `dims` are each their own; scatter's index may be smaller than its tensor in other dims.
def scatter_into(x, dim, index, src, f):
    d = dim_of(x, dim)
    if x.ndim == 0:
        return prim.reshape(scatter_into(prim.reshape(x, [1]), 0, prim.reshape(index, [1]), prim.reshape(src, [1]), f), [])
    for k in range(x.ndim):
        if k != d and index.shape[k] != x.shape[k]:  # the elements before the index's end, between the others
            part = scatter_into(prim.slice(x, k, 0, index.shape[k], 1), d, index, src, f)
            return prim.concat([part, prim.slice(x, k, index.shape[k], None, 1)], k)
    src = prim.convert(src, x.dtype)
    for k in range(x.ndim):
        src = prim.slice(src, k, 0, index.shape[k], 1)
    return f(x, prim.convert(index, torch.int64), src, d)


def aten_scatter_value(x, dim, index, value): return scatter_into(x, dim, index, full_like(index, value, dtype=x.dtype), prim.scatter)
def aten_scatter_src(x, dim, index, src): return scatter_into(x, dim, index, src, prim.scatter)


def scatter(x, dim, index, src=None, *, value=None, reduce=None):
    if value is not None:
        src = value
    if reduce is not None:
        src = src if isinstance(src, torch.Tensor) else full_like(index, src, dtype=x.dtype)
        return scatter_add(x, dim, index, src) if reduce == 'add' else scatter_reduce(x, dim, index, src, {'multiply': 'prod'}[reduce])
    return aten_scatter_src(x, dim, index, src) if isinstance(src, torch.Tensor) else aten_scatter_value(x, dim, index, src)


def scatter_add(x, dim, index, src): return scatter_into(x, dim, index, src, prim.scatter_add)


def index_select(x, dim, index):
    places = [None] * x.ndim
    places[dim_of(x, dim)] = index
    return aten_index(x, places, False)


# Of x[places]: the indexed dims, their place in the result, one index into them all, and x with them in front, flat.
def indexed(x, places, wraps=True):
    dims = [d for d in range(len(places)) if places[d] is not None]
    for d in dims:
        if prim.is_bool(places[d].dtype):
            prim.fail("an index of bools: how many elements it takes depends on data")
    rest = [d for d in range(x.ndim) if d not in dims]
    where_to = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    shaped = prim.broadcast(*[prim.convert(places[d], torch.int64) for d in dims])
    flat, outside = 0, False
    for i, d in zip(shaped, dims):
        i = wrap(i, x.shape[d]) if wraps else i
        flat = flat * x.shape[d] + i
        outside = (i < 0) | (i >= x.shape[d]) | outside
    if len(dims) > 1:  # each among its own dim's
        flat = prim.where(outside, -1, flat)
    order = dims + rest
    rows = prim.reshape(prim.permute(x, order), [count(x, dims), count(x, rest)])
    return dims, rest, order, where_to, flat, rows


def aten_index(x, places, wraps=True):
    dims, rest, order, where_to, flat, rows = indexed(x, places, wraps)
    n, width = prim.numel(flat), count(x, rest)
    y = prim.gather(rows, prim.expand(prim.reshape(flat, [n, 1]), [n, width]), 0)
    y = prim.reshape(y, list(flat.shape) + [x.shape[d] for d in rest])
    k = flat.ndim
    first = list(range(k, k + where_to))
    return prim.permute(y, first + list(range(k)) + list(range(k + where_to, y.ndim)))


def index(x, places): return aten_index(x, places)
def aten__unsafe_index(x, places): return aten_index(x, places)


def into(x, places, least):
    return [None if places[d] is None else clamp(places[d], 0 if least else -x.shape[d], x.shape[d] - 1)
            for d in range(len(places))]


def aten__unsafe_masked_index(x, mask, places, fill):
    return prim.where(mask, aten_index(x, into(x, places, True)), fill).to(x.dtype)


def aten__unsafe_masked_index_put_accumulate(x, mask, places, values):
    return index_put(x, into(x, places, False), prim.where(mask, values, 0).to(values.dtype), True)


def aten__unsafe_index_put(x, places, values, accumulate=False): return index_put(x, places, values, accumulate)


# The one mask among x's indices, broadcast along x; None: there is none. Before it stand only whole dims.
def mask_of(x, places):
    found = [d for d in range(len(places)) if places[d] is not None]
    if len(found) != 1 or not prim.is_bool(places[found[0]].dtype):
        return None
    d, mask = found[0], places[found[0]]
    return prim.reshape(mask, [1] * d + list(mask.shape) + [1] * (x.ndim - d - mask.ndim))


# x[places] += y goes over all of x where places is a mask.
def elements_to_update(x, places): return index(x, places) if mask_of(x, places) is None else x


# x with `values` at `places`; whole: where places is a mask, they are for all of x, not for the elements it takes alone.
def with_elements(x, places, values, whole=False):
    mask = mask_of(x, places) if whole else None
    return index_put(x, places, values) if mask is None else prim.where(mask, values, x).to(x.dtype)


def index_put(x, indices, values, accumulate=False): return put_at(x, indices, values, accumulate, True)


def put_at(x, places, values, accumulate, wraps):
    mask = mask_of(x, places)
    if mask is not None:
        first = [d for d in range(len(places)) if places[d] is not None][0]
        after = x.ndim - first - places[first].ndim  # dims after the mask's
        if prim.numel(values) != 1 and (values.ndim > after + 1 + first or values.ndim > after and values.shape[values.ndim - after - 1] != 1):
            prim.fail("values for the elements that a mask takes: how many these are depends on data")
        if first and values.ndim > after:
            prim.fail("values for the elements that a mask takes, with dims before it, are not supported")
        values = prim.reshape(values, values.shape[values.ndim - after:]) if values.ndim > after and prim.numel(values) != 1 else values
        values = prim.reshape(values, []) if prim.numel(values) == 1 else values
        return prim.where(mask, x + values if accumulate else values, x).to(x.dtype)
    dims, rest, order, where_to, flat, rows = indexed(x, places, wraps)
    n, width, k = prim.numel(flat), count(x, rest), flat.ndim
    shape = [x.shape[d] for d in rest]
    v = prim.expand(values, shape[:where_to] + list(flat.shape) + shape[where_to:])
    back = list(range(where_to, where_to + k)) + list(range(where_to)) + list(range(where_to + k, v.ndim))
    v = prim.convert(prim.reshape(prim.permute(v, back), [n, width]), x.dtype)
    f = prim.scatter_add if accumulate else prim.scatter
    y = f(rows, prim.expand(prim.reshape(flat, [n, 1]), [n, width]), v, 0)
    y = prim.reshape(y, [x.shape[d] for d in order])
    return prim.permute(y, [order.index(d) for d in range(x.ndim)])


def index_add(x, dim, index, source, *, alpha=1): return into_rows(x, dim, index, source if alpha == 1 else source * alpha, True, False)
def index_copy(x, dim, index, source): return into_rows(x, dim, index, source, False, False)
def index_fill(x, dim, index, value): return into_rows(x, dim, index, prim.full([1] * x.ndim, 0, x.dtype) + value, False, True)


def into_rows(x, dim, index, source, add, wraps):
    places = [None] * x.ndim
    places[dim_of(x, dim)] = index
    shape = list(x.shape)
    shape[dim_of(x, dim)] = prim.numel(index)
    return put_at(x, places, prim.expand(prim.convert(source, x.dtype), shape), add, wraps)


# Places of a dim of n, which kernels check where they take them.
def checked(index, n):
    every = prim.expand(arange(n), list(index.shape)[:-1] + [n])
    return prim.gather(every, prim.convert(index, torch.int64), -1)


# Sums and extrema go by atomics; for products, what comes to one place is compared pair by pair.
def scatter_reduce(x, dim, index, src, reduce, *, include_self=True):
    d = dim_of(x, dim)
    if x.ndim == 0:
        return prim.reshape(scatter_reduce(prim.reshape(x, [1]), 0, prim.reshape(index, [1]), prim.reshape(src, [1]), reduce, include_self=include_self), [])
    for k in range(x.ndim):
        if reduce == 'prod' and k != d and index.shape[k] != x.shape[k]:  # the elements before the index's end
            part = scatter_reduce(prim.slice(x, k, 0, index.shape[k], 1), d, index, src, reduce, include_self=include_self)
            return prim.concat([part, prim.slice(x, k, index.shape[k], None, 1)], k)
    ones, zeros_of = prim.full(index.shape, 1, x.dtype), prim.full(x.shape, 0, x.dtype)
    hits = scatter_into(zeros_of, d, index, ones, prim.scatter_add)
    if reduce == 'sum' or reduce == 'mean':
        base = x if include_self else prim.where(hits > 0, 0, x).to(x.dtype)
        s = scatter_into(base, d, index, src, prim.scatter_add)
        n = hits + 1 if include_self else prim.maximum(hits, 1)
        return s if reduce == 'sum' else s / n if prim.is_float(x.dtype) else prim.floordiv(s, n)
    if reduce == 'amax' or reduce == 'amin':
        return scatter_extrema(x, d, index, src, reduce == 'amax', include_self)
    if reduce != 'prod':
        prim.fail(f"scatter_reduce with reduce='{reduce}' is not known")
    x, i, src = transpose(x, d, -1), transpose(index, d, -1), transpose(src, d, -1)
    for k in range(x.ndim):
        src = prim.slice(src, k, 0, i.shape[k], 1)
    hit = unsqueeze(checked(i, x.shape[-1]), -2) == unsqueeze(arange(x.shape[-1]), 1)
    y = prim.convert(prod(prim.where(hit, unsqueeze(src, -2), 1).to(x.dtype), -1), x.dtype)
    return transpose(y * x if include_self else prim.where(any(hit, -1), y, x), d, -1)


# In 32 bits at least, as atomics are; a NaN is no number to compare with: where some come, is told apart.
def scatter_extrema(x, d, index, src, most, include_self):
    dtype = x.dtype if x.dtype in (torch.float32, torch.float64, torch.int32, torch.int64) else torch.float32 if prim.is_float(x.dtype) else torch.int32
    y, src, is_float = prim.convert(x, dtype), prim.convert(src, dtype), prim.is_float(dtype)
    none = (-math.inf if most else math.inf) if is_float else iinfo(dtype).min if most else iinfo(dtype).max
    if not include_self:
        counts = scatter_into(prim.full(x.shape, 0, torch.int32), d, index, prim.full(index.shape, 1, torch.int32), prim.scatter_add)
        y = prim.where(counts > 0, none, y)
    if is_float:
        nans = scatter_into(prim.convert(y != y, torch.int32), d, index, prim.convert(src != src, torch.int32), prim.scatter_add)
        y, src = prim.where(y != y, none, y), prim.where(src != src, none, src)
    y = scatter_into(y, d, index, src, prim.scatter_max if most else prim.scatter_min)
    return prim.convert(prim.where(nans > 0, math.nan, y) if is_float else y, x.dtype)


def index_reduce(x, dim, index, source, reduce, *, include_self=True):
    if x.ndim == 0:
        return prim.reshape(index_reduce(prim.reshape(x, [1]), 0, index, prim.reshape(source, [1]), reduce, include_self=include_self), [])
    i = prim.reshape(index, [-1 if d == dim_of(x, dim) else 1 for d in range(x.ndim)])
    return scatter_reduce(x, dim, prim.expand(i, source.shape), source, reduce, include_self=include_self)


def take(x, index): return aten_index(flatten(x), [index])
def take_along_dim(x, indices, dim=None):
    if dim is None:
        return take(x, indices)
    d, shape, k = dim_of(x, dim), list(x.shape), list(indices.shape)
    both = [max_of(shape[i], k[i]) for i in range(x.ndim)]
    both[d] = k[d]
    x = prim.expand(x, [shape[i] if i == d else both[i] for i in range(x.ndim)])
    return gather(x, d, wrap(prim.expand(indices, both), shape[d]))


def put(x, index, source, accumulate=False):
    return prim.reshape(index_put(flatten(x), [flatten(index)], prim.reshape(source, [-1]), accumulate), x.shape)


def unravel_index(indices, shape):
    out, left = [], indices
    for n in reversed([shape] if isinstance(shape, int) else list(shape)):
        out.insert(0, remainder(left, n))
        left = prim.floordiv(left, n)
    return tuple(out)


# The mask's elements get source's, in order.
def masked_scatter(x, mask, source):
    m = prim.expand(mask, x.shape)
    place = prim.cumsum(prim.convert(flatten(m), torch.int64), 0) - 1
    place = prim.minimum(prim.maximum(place, 0), prim.numel(source) - 1)
    return prim.where(m, prim.reshape(aten_index(flatten(source), [place]), x.shape), x).to(x.dtype)


# What source's elements got, in order.
def masked_scatter_backward(grad, mask, sizes):
    m, n = flatten(prim.expand(mask, grad.shape)), product_of(sizes)
    place = prim.cumsum(prim.convert(m, torch.int64), 0) - 1
    place = prim.where(m & (place < n), place, n)
    y = prim.scatter_add(prim.full([n + 1], 0, grad.dtype), place, flatten(prim.where(mask, grad, 0).to(grad.dtype)), 0)
    return prim.reshape(prim.slice(y, 0, 0, n, 1), sizes)


def one_hot(x, num_classes=-1):
    if num_classes == -1:
        prim.fail("one_hot needs num_classes: how many there are in a tensor depends on data")
    return prim.convert(unsqueeze(x, x.ndim) == arange(num_classes), torch.int64)


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False): return aten_index(weight, [indices], False)


# Rows of the weight that an embedding takes are scaled in place to the norm they may have.
def bound_rows(weight, x, max_norm, norm_type):
    if max_norm is not None:
        prim.assign(weight, bounded_rows(weight, x, max_norm, norm_type))


def bounded_rows(weight, x, max_norm, norm_type):
    length = norm(prim.detach(weight), norm_type, 1, True)
    over = unsqueeze(counts_of(x, weight, torch.int64) > 0, 1) & (length > max_norm)
    return prim.where(over, weight * (max_norm / (length + 1e-07)), weight)


def aten_embedding_renorm(weight, indices, max_norm, norm_type): return bounded_rows(weight, indices, max_norm, norm_type)


# How often each row of the weight is taken.
def counts_of(x, weight, dtype): return prim.scatter_add(prim.full([weight.shape[0]], 0, dtype), prim.convert(flatten(x), torch.int64), prim.full([prim.numel(x)], 1, dtype), 0)


# Rows of the weight, with the gradient of each divided by how often its row is taken.
def rows_taken(x, weight, scale_grad_by_freq):
    y = aten_index(weight, [x], False)
    return prim.detach(y, y / unsqueeze(aten_index(counts_of(x, weight, weight.dtype), [x], False), x.ndim)) if scale_grad_by_freq else y


def F_embedding(x, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    bound_rows(weight, x, max_norm, norm_type)
    y = rows_taken(x, weight, scale_grad_by_freq)
    if padding_idx is None:
        return y
    n = padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
    return prim.detach(y, prim.where(unsqueeze(x == n, x.ndim), 0, y))


# The bag of each index, by the offsets where bags begin.
def bag_places(x, offsets):
    k = x.shape[0]
    marks = prim.scatter_add(prim.full([k + 1], 0, torch.int64), prim.convert(offsets, torch.int64), prim.full([offsets.shape[0]], 1, torch.int64), 0)
    return prim.slice(prim.cumsum(marks, 0), 0, 0, k, 1) - 1


# Bags of rows: those of x's rows, or from each offset on. Row i of x is in bag bags[i].
def F_embedding_bag(x, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode='mean', sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    if mode not in ('sum', 'mean', 'max'):
        prim.fail(f"embedding_bag with mode='{mode}': sum, mean and max are known")
    if per_sample_weights is not None and mode != 'sum':
        prim.fail("embedding_bag with per_sample_weights takes mode='sum'")
    if scale_grad_by_freq and mode == 'max':
        prim.fail("embedding_bag with mode='max' does not take scale_grad_by_freq")
    if x.ndim not in (1, 2) or (x.ndim == 1) == (offsets is None):
        prim.fail("embedding_bag takes rows of indices, or indices in one dim and offsets")
    bound_rows(weight, x, max_norm, norm_type)
    rows, scale = rows_taken(x, weight, scale_grad_by_freq), per_sample_weights
    n = None if padding_idx is None else padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
    taken = full_like(x, True, dtype=torch.bool) if n is None else x != n
    if x.ndim == 2:
        place = None
    else:  # an offset is where the next bag begins
        last = offsets.shape[0] - (1 if include_last_offset else 0)
        place = bag_places(x, offsets)
    if mode == 'max':
        return most_of_bags(rows, taken, place, None if place is None else last)
    rows = prim.where(unsqueeze(taken, x.ndim), rows if scale is None else rows * unsqueeze(scale, x.ndim), 0).to(weight.dtype)
    held = prim.convert(taken, weight.dtype)
    if place is None:
        total, n = sum(rows, 1), unsqueeze(sum(held, 1), 1)
    else:
        total = index_add(prim.full([last, weight.shape[1]], 0, weight.dtype), 0, place, rows)
        n = unsqueeze(prim.scatter_add(prim.full([last], 0, weight.dtype), place, held, 0), 1)
    return total / prim.maximum(n, 1) if mode == 'mean' else total


def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=-1):
    return aten__embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)


# Beside the result what its gradient may need: each row's bag, how many there are in each, and of maxima where they stand.
def aten__embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=-1):
    y = F_embedding_bag(indices, weight, offsets, None, 2.0, scale_grad_by_freq, ['sum', 'mean', 'max'][mode], sparse, per_sample_weights, include_last_offset, None if padding_idx < 0 else padding_idx)
    k, bags = indices.shape[0], offsets.shape[0] - (1 if include_last_offset else 0)
    place, kept = bag_places(indices, offsets), prim.convert(indices != padding_idx, torch.int64)
    size = prim.scatter_add(prim.full([bags], 0, torch.int64), place, kept, 0)
    most = prim.full([bags], 0, torch.int64)
    if mode == 2:
        rows = prim.where(unsqueeze(kept > 0, 1), aten_index(weight, [indices], False), -math.inf).to(weight.dtype)
        most = first_of_most(rows, kept > 0, place, bags)
        most = prim.where(most < k, prim.gather(prim.expand(unsqueeze(prim.convert(indices, torch.int64), 1), rows.shape), prim.minimum(most, k - 1), 0), -1)
    return y, prim.convert(place, indices.dtype), prim.convert(size, indices.dtype), prim.convert(most, indices.dtype)


# The gradient of each index's row is its bag's; of a maximum that row's alone which had it.
def aten__embedding_bag_backward(grad, indices, offsets, bags, size, most, num_weights, scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx=-1):
    zero, index = prim.full([num_weights, grad.shape[1]], 0, grad.dtype), prim.convert(indices, torch.int64)
    if mode == 2:
        most = prim.convert(most, torch.int64)
        return prim.scatter_add(zero, prim.maximum(most, 0), prim.where(most < 0, 0, grad).to(grad.dtype), 0)
    g = aten_index(grad if mode == 0 else grad / unsqueeze(prim.maximum(size, 1), 1), [bags], False)
    if per_sample_weights is not None:
        g = g * unsqueeze(per_sample_weights, 1)
    if scale_grad_by_freq:
        counts = prim.scatter_add(prim.full([num_weights], 0, grad.dtype), index, full_like(index, 1, dtype=grad.dtype), 0)
        g = g / unsqueeze(aten_index(counts, [index], False), 1)
    return index_put(zero, [index], prim.where(unsqueeze(index == padding_idx, 1), 0, g).to(grad.dtype), True)


def aten__embedding_bag_dense_backward(grad, indices, bags, size, most, num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx=-1):
    return aten__embedding_bag_backward(grad, indices, None, bags, size, most, num_weights, scale_grad_by_freq, mode, False, per_sample_weights, padding_idx)


def aten__embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, bags, mode, padding_idx=-1):
    g = sum(aten_index(grad, [bags], False) * aten_index(weight, [indices], False), 1)
    return prim.where(indices == padding_idx, 0, g).to(grad.dtype)


def aten__embedding_bag_forward_only(*what): return aten__embedding_bag(*what)


# The place of each column's first largest value in each bag; how many values there are: none.
def first_of_most(values, taken, place, bags):
    index, k = prim.expand(unsqueeze(place, 1), values.shape), values.shape[0]
    most = scatter_reduce(prim.full([bags, values.shape[1]], -math.inf, values.dtype), 0, index, values, 'amax')
    hit = (values == prim.gather(most, index, 0)) & unsqueeze(taken, 1)
    at = prim.where(hit, prim.expand(unsqueeze(arange(k), 1), values.shape), k)
    return scatter_reduce(prim.full([bags, values.shape[1]], k, torch.int64), 0, index, at, 'amin')


# Of each column of a bag the first largest row, which alone has a gradient; an empty bag is 0.
def most_of_bags(rows, taken, place, bags):
    values = prim.where(unsqueeze(taken, taken.ndim), prim.detach(rows), -math.inf).to(rows.dtype)
    if place is None:
        return prim.where(unsqueeze(any(taken, 1), 1), squeeze(prim.gather(rows, unsqueeze(argmax(values, 1), 1), 1), 1), 0).to(rows.dtype)
    first, k = first_of_most(values, taken, place, bags), rows.shape[0]
    return prim.where(first < k, prim.gather(rows, prim.minimum(first, k - 1), 0), 0).to(rows.dtype)


def embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    if scale_grad_by_freq:
        prim.fail("embedding with scale_grad_by_freq is not supported")
    keep = unsqueeze(indices != padding_idx, indices.ndim)
    zero = prim.full([num_weights, grad.shape[-1]], 0, grad.dtype)
    return index_put(zero, [indices], prim.where(keep, grad, 0).to(grad.dtype), True)


# Where each element of the last dim comes when they are sorted: how many come before it. Equal ones keep their order.
def ranks(x, descending):
    a, b = unsqueeze(x, x.ndim), unsqueeze(x, x.ndim - 1)  # itself, the others
    n = x.shape[-1]
    i, j = unsqueeze(arange(n), 1), arange(n)
    if prim.is_float(x.dtype):
        larger, same = (b > a) | ((b != b) & (a == a)), (b == a) | ((b != b) & (a != a))
    else:
        larger, same = b > a, b == a
    before = larger if descending else ~(larger | same)
    return sum(before | (same & (j < i)), -1)


# x, which kernels store: one that computed it again might round otherwise (a vector's sine is not always a scalar's),
# and two elements would each be before the other.
def stored(x, places): return prim.scatter(prim.full(x.shape, 0, x.dtype), places, prim.detach(x), -1)


def argsort(x, dim=-1, descending=False, stable=False): return sort(x, dim, descending)[1]


# Of rows whose length is a symbol, all pairs are compared: how many steps sorting takes is not known.
def places_in_order(x, dim, descending, k):
    if isinstance(x.shape[dim_of(x, dim)], int):
        return prim.sort(x, dim, descending, k)
    y = transpose(x, dim, -1)
    places = prim.expand(arange(y.shape[-1]), y.shape)
    order = prim.scatter(prim.full(y.shape, 0, torch.int64), ranks(stored(y, places), descending), places, -1)
    return prim.slice(transpose(order, dim, -1), dim, 0, k, 1)


def sort(x, dim=-1, descending=False, stable=False):
    if x.ndim == 0:
        return prim.named('values indices', x, prim.full([], 0, torch.int64))
    order = places_in_order(x, dim, descending, x.shape[dim_of(x, dim)])
    return prim.named('values indices', prim.gather(x, order, dim), order)


def topk(x, k, dim=-1, largest=True, sorted=True):
    if x.ndim == 0:
        return sort(x)
    order = places_in_order(x, dim, largest, k)
    return prim.named('values indices', gather(x, dim, order), order)


# The k-th smallest, and where it stands.
def kthvalue(x, k, dim=-1, keepdim=False):
    d = dim_of(x, dim)
    values, places = sort(x, dim)
    if x.ndim == 0:
        return prim.named('values indices', values, places)
    pair = [prim.slice(y, d, k - 1, k, 1) for y in [values, places]]
    return prim.named('values indices', *[y if keepdim else without(y, [d]) for y in pair])


# The lower one of two in the middle; of a row with a NaN that.
def median(x, dim=None, keepdim=False):
    if dim is None:
        return median(flatten(x), 0)[0]
    v, i = kthvalue(x, (x.shape[dim_of(x, dim)] + 1) // 2 if x.ndim else 1, dim, keepdim)
    if prim.is_float(x.dtype) and x.ndim:
        hole = any(x != x, dim, keepdim)
        v, i = prim.where(hole, math.nan, v).to(x.dtype), prim.where(hole, argmax(prim.convert(x != x, torch.int32), dim, keepdim), i)
    return prim.named('values indices', v, i)


def nanmedian(x, dim=None, keepdim=False):
    if dim is None:
        return nanmedian(flatten(x), 0)[0]
    if x.ndim == 0:
        return median(x, dim, keepdim)
    d = dim_of(x, dim)
    values, places = sort(x, dim)
    k = prim.maximum(prim.floordiv(sum(x == x, dim, True) - 1, 2), 0)
    pair = [prim.gather(y, k, d) for y in [values, places]]
    return prim.named('values indices', *[y if keepdim else without(y, [d]) for y in pair])


# The most frequent value, of several the smallest, and where it last stands.
def mode(x, dim=-1, keepdim=False):
    if x.ndim == 0:
        return prim.named('values indices', x, prim.full([], 0, torch.int64))
    d = dim_of(x, dim)
    s, order = sort(movedim(x, d, -1), -1)
    place = prim.expand(arange(s.shape[-1]), s.shape)
    begins = s != prim.concat([prim.slice(s, -1, 0, 1, 1), prim.slice(s, -1, 0, -1, 1)], s.ndim - 1) if s.shape[-1] > 1 else full_like(s, False, dtype=torch.bool)
    length = place - prim.cummax(prim.where(begins, place, 0), s.ndim - 1)
    at = prim.argmax(length, [s.ndim - 1])
    pair = [movedim(prim.gather(y, at, y.ndim - 1), -1, d) for y in [s, order]]
    return prim.named('values indices', *[y if keepdim else without(y, [d]) for y in pair])


def msort(x): return sort(x, 0)[0]


# Between the two sorted elements around rank q * (n - 1). Of a row with a NaN that; or, where they are left out, of the others.
def quantile(x, q, dim=None, keepdim=False, *, interpolation='linear'): return quantile_of(x, q, dim, keepdim, interpolation, False)
def nanquantile(x, q, dim=None, keepdim=False, *, interpolation='linear'): return quantile_of(x, q, dim, keepdim, interpolation, True)


def quantile_of(x, q, dim, keepdim, interpolation, leaves_out):
    ones = [1] * x.ndim
    y = flatten(x) if dim is None else movedim(x, dim, -1)
    q = q if isinstance(q, torch.Tensor) else prim.full([], q, x.dtype)
    s = sort(y, -1)[0]
    held = sum(y == y, -1, True) if leaves_out else y.shape[-1]
    rank = prim.convert(flatten(q), x.dtype) * prim.convert(held - 1, x.dtype) if leaves_out else prim.convert(flatten(q), x.dtype) * (held - 1)
    rank = prim.maximum(rank, 0)
    rank = prim.expand(rank, list(y.shape[:-1]) + [prim.numel(q)])
    if interpolation not in ('linear', 'lower', 'higher', 'nearest', 'midpoint'):
        prim.fail(f"quantile with interpolation='{interpolation}' is not known")
    low, high = prim.floor(rank), prim.ceil(rank)
    if interpolation == 'nearest':
        low = high = prim.round(rank)
    a, b = [prim.gather(s, prim.convert(place, torch.int64), -1) for place in [low, high]]
    v = a if interpolation in ('lower', 'nearest') else b if interpolation == 'higher' else lerp(a, b, 0.5 if interpolation == 'midpoint' else rank - low)
    if not leaves_out:
        v = prim.where(any(y != y, -1, True), math.nan, v).to(x.dtype)
    shape = ones if dim is None else [1 if d == dim_of(x, dim) else n for d, n in enumerate(x.shape)]
    shape = shape if keepdim else [] if dim is None else [n for d, n in enumerate(x.shape) if d != dim_of(x, dim)]
    return prim.reshape(movedim(v, -1, 0), list(q.shape) + shape)


def F_one_hot(x, num_classes=-1):
    if num_classes < 0:
        prim.fail("one_hot without num_classes: how many there are depends on data")
    return prim.convert(unsqueeze(x, x.ndim) == arange(num_classes), torch.int64)


# Without bounds they are the data's; where all is one number, bins lie around it.
def histc(x, bins=100, min=0, max=0):
    if min == max:
        low, high = (amin(x), amax(x)) if min == 0 and not prim.is_empty(x) else (prim.full([], min, x.dtype), prim.full([], max, x.dtype))
        low, high = prim.convert(low, torch.float32), prim.convert(high, torch.float32)
        min, max = prim.where(low == high, low - 1, low), prim.where(low == high, high + 1, high)
    place = prim.floor((prim.convert(x, torch.float32) - min) * (bins / (max - min)))
    place = prim.where(x == max, bins - 1, place)
    hits = (flatten(place) == unsqueeze(arange(bins), 1)) & flatten((x >= min) & (x <= max))
    return prim.convert(sum(hits, 1), x.dtype)


# ---- modules ----

class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False, **how):
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.weight, self.how = prim.parameter([num_embeddings, embedding_dim], torch.float32), [padding_idx, max_norm, norm_type, scale_grad_by_freq]

    def forward(self, x): return F_embedding(x, self.weight, *self.how)


class EmbeddingBag(Module):
    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode='mean', sparse=False, include_last_offset=False, padding_idx=None, **how):
        self.num_embeddings, self.embedding_dim, self.padding_idx, self.mode = num_embeddings, embedding_dim, padding_idx, mode
        self.weight = prim.parameter([num_embeddings, embedding_dim], torch.float32)
        self.how, self.ends = [max_norm, norm_type, scale_grad_by_freq, mode, False], [include_last_offset, padding_idx]

    def forward(self, x, offsets=None, per_sample_weights=None): return F_embedding_bag(x, self.weight, offsets, *self.how, per_sample_weights, *self.ends)
