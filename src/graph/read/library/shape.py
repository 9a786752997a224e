# Views, and what moves elements by rules that no data decides.


def dim_of(x, dim):
    n = x.ndim if x.ndim else 1
    if dim < -n or dim >= n:
        prim.fail(f"there is no dim {dim} in a tensor of {x.ndim} dims")
    return dim % n


def all_dims(x, dim):
    if dim is None or (isinstance(dim, (list, tuple)) and len(dim) == 0):
        return list(range(x.ndim))
    return [dim_of(x, d) for d in dim] if isinstance(dim, (list, tuple)) else [dim_of(x, dim)]


def count(x, dims):
    n = 1
    for d in dims:
        n = n * (x.shape[d] if x.ndim else 1)
    return n


def size(x, dim=None): return x.shape if dim is None else x.shape[dim]
def dim(x): return x.ndim
def numel(x): return prim.numel(x)
def without(x, dims): return prim.reshape(x, [x.shape[d] for d in range(x.ndim) if d not in dims])
def permute(x, *dims): return prim.permute(x, sizes_of(dims))
def view(x, *size): return view_as_type(x, size[0]) if is_dtype(size[0]) else prim.reshape(x, sizes_of(size))


# The same memory: of complex numbers their parts, of integers of 8 bits the same ones.
def view_as_type(x, dtype):
    if x.dtype == dtype:
        return x
    if prim.is_complex(x) and x.real.dtype == dtype:
        return flatten(prim.view_as_real(x), -2)
    if prim.is_complex(dtype) and prim.real(prim.full([], 0, dtype)).dtype == x.dtype:
        return prim.view_as_complex(unflatten(x, -1, [x.shape[-1] // 2, 2]))
    for t in [x.dtype, dtype]:
        if str(t) not in ('torch.bool', 'torch.int8', 'torch.uint8'):
            prim.fail(f"view of {x.dtype} as {dtype}: the bits of another type are not supported")
    return prim.convert(x, dtype)


def reshape(x, *shape): return prim.reshape(x, sizes_of(shape))
def aten__unsafe_view(x, size): return prim.reshape(x, size)
def view_as(x, y): return prim.reshape(x, y.shape)
def expand(x, *size, implicit=False): return prim.expand(x, sizes_of(size))
def expand_as(x, y): return prim.expand(x, y.shape)
def broadcast_to(x, size): return prim.expand(x, size)
def t(x): return prim.permute(x, [1, 0]) if x.ndim == 2 else x


def transpose(x, dim0, dim1):
    dims = list(range(x.ndim))
    a, b = dim_of(x, dim0), dim_of(x, dim1)
    if x.ndim:
        dims[a], dims[b] = b, a
    return prim.permute(x, dims)


def swapaxes(x, axis0, axis1): return transpose(x, axis0, axis1)


def movedim(x, source, destination):
    s, d = all_dims(x, source), all_dims(x, destination)
    rest = [i for i in range(x.ndim) if i not in s]
    order = []
    for i in range(x.ndim):
        order.append(s[d.index(i)] if i in d else rest.pop(0))
    return prim.permute(x, order)


def unsqueeze(x, dim):
    d = dim % (x.ndim + 1)
    return prim.reshape(x, list(x.shape[:d]) + [1] + list(x.shape[d:]))


def squeeze(x, dim=None):
    dims = [] if isinstance(dim, (list, tuple)) and not dim else all_dims(x, dim)
    return without(x, [d for d in dims if x.ndim and x.shape[d] == 1])


def flatten(x, start_dim=0, end_dim=-1):
    if x.ndim == 0:
        return prim.reshape(x, [1])
    a, b = dim_of(x, start_dim), dim_of(x, end_dim)
    return prim.reshape(x, list(x.shape[:a]) + [count(x, list(range(a, b + 1)))] + list(x.shape[b + 1:]))


def unflatten(x, dim, sizes):
    d = dim_of(x, dim)
    n = x.shape[d]
    known = 1
    for s in sizes:
        known = known * s if s != -1 else known
    return prim.reshape(x, list(x.shape[:d]) + [n // known if s == -1 else s for s in sizes] + list(x.shape[d + 1:]))


# x lies row by row here; whoever strides through something else says so in PyTorch's own words.
def as_strided(x, size, stride, storage_offset=0):
    if not prim.is_contiguous(x):
        prim.fail("as_strided of a tensor that does not lie row by row is not supported")
    expected, overlaps = 1, False
    for d in range(len(size) - 1, -1, -1):
        overlaps = overlaps or size[d] != 1 and stride[d] < expected
        expected = expected if size[d] == 1 else stride[d] * size[d]
    return prim.view(x, lambda x: strided_elements(x, size, stride, storage_offset), overlaps)


def strided_elements(x, size, stride, offset):
    expected, rows = 1, not offset
    for d in range(len(size) - 1, -1, -1):
        rows = rows and (size[d] == 1 or stride[d] == expected)
        expected = expected * size[d]
    if rows and expected == prim.numel(x):
        return prim.reshape(x, size)
    return prim.reshape(aten_index(prim.reshape(x, [-1]), [strided_places(size, stride, offset)]), size)


def strided_places(size, stride, offset):
    place, n = offset, len(size)
    for d in range(n):
        place = prim.reshape(prim.iota(size[d], 0, 1, torch.int64) * stride[d], [-1 if k == d else 1 for k in range(n)]) + place
    return prim.reshape(place, [-1])


def as_strided_scatter(x, src, size, stride, storage_offset=None):
    if not prim.is_contiguous(x):
        prim.fail("as_strided_scatter of a tensor that does not lie row by row is not supported")
    if len(size) == 0:
        size, stride = [1], [1]
    places = strided_places(size, stride, 0 if storage_offset is None else storage_offset)
    return prim.reshape(index_put(prim.reshape(x, [-1]), [places], prim.reshape(src, [-1])), x.shape)


def slice(x, dim=0, start=None, end=None, step=1): return prim.slice(x, dim, start, end, step)
def narrow(x, dim, start, length): return prim.slice(x, dim, start, start + length, 1)


def select(x, dim, index):
    d = dim_of(x, dim)
    i = index + x.shape[d] if index < 0 else index
    return without(prim.slice(x, d, i, i + 1, 1), [d])


def split(x, split_size, dim=0):
    if isinstance(split_size, (list, tuple)):
        return split_with_sizes(x, split_size, dim)
    n = x.shape[dim]
    return [prim.slice(x, dim, i, min_of(i + split_size, n), 1) for i in range(0, n, split_size)]


def torch_split(tensor, split_size_or_sections, dim=0): return split(tensor, split_size_or_sections, dim)
def min_of(a, b): return a if a < b else b
def max_of(a, b): return a if a > b else b


def split_with_sizes(x, split_sizes, dim=0):
    out, at = [], 0
    for s in split_sizes:
        out.append(prim.slice(x, dim, at, at + s, 1))
        at = at + s
    return out


def chunk(x, chunks, dim=0):
    n = x.shape[dim]
    return split(x, (n + chunks - 1) // chunks, dim)


def unbind(x, dim=0): return [select(x, dim, i) for i in range(x.shape[dim])]


def cat(tensors, dim=0):
    parts = [p for p in tensors if not (p.ndim == 1 and p.shape[0] == 0)]
    t = prim.result_type(*tensors)
    return prim.concat([prim.convert(p, t) for p in parts], dim) if parts else prim.convert(tensors[0], t)


def concat(tensors, dim=0): return cat(tensors, dim)


def stack(tensors, dim=0):
    d = dim % (tensors[0].ndim + 1)
    return cat([unsqueeze(x, d) for x in tensors], d)


def flip(x, *dims):
    for d in sizes_of(dims):
        x = prim.flip(x, d)
    return x


def prims_rev(x, dims): return flip(x, dims)


def roll(x, shifts, dims=None):
    if dims is None:
        return prim.reshape(roll(flatten(x), shifts, 0), x.shape)
    s = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    for i, d in enumerate(all_dims(x, dims)):
        n = x.shape[d]
        k = (n - s[i]) % n
        x = prim.concat([prim.slice(x, d, k, n, 1), prim.slice(x, d, 0, k, 1)], d) if k else x
    return x


def aten_repeat(x, sizes): return tensor_repeat(x, *sizes)


def tensor_repeat(x, *repeats):
    s = sizes_of(repeats)
    x = prim.reshape(x, [1] * (len(s) - x.ndim) + list(x.shape))
    out, wide, final = [], [], []
    for n, k in zip(x.shape, s):
        out += [1, n]
        wide += [k, n]
        final.append(k * n)
    return clone(prim.reshape(prim.expand(prim.reshape(x, out), wide), final))


def repeat_interleave(x, repeats, dim=None, *, output_size=None):
    if dim is None:
        x, dim = flatten(x), 0
    d = dim_of(x, dim)
    y = unsqueeze(x, d + 1)
    y = prim.expand(y, list(x.shape[:d + 1]) + [repeats] + list(x.shape[d + 1:]))
    return flatten(y, d, d + 1)


# Padding by pairs from the last dim on, as F.pad takes them; negative ones cut.
def constant_pad_nd(x, pad, value=0):
    before, after = [0] * x.ndim, [0] * x.ndim
    for i in range(len(pad) // 2):
        d = x.ndim - 1 - i
        low, high = pad[2 * i], pad[2 * i + 1]
        x = prim.slice(x, d, max_of(-low, 0), x.shape[d] - max_of(-high, 0), 1)
        before[d], after[d] = max_of(low, 0), max_of(high, 0)
    return prim.pad(x, before, after, [0] * x.ndim, value)


def F_pad(x, pad, mode='constant', value=None):
    if mode == 'constant':
        return constant_pad_nd(x, pad, 0 if value is None else value)
    for i in range(len(pad) // 2):
        x = padded_by(x, x.ndim - 1 - i, pad[2 * i], pad[2 * i + 1], mode)
    return x


# The border repeats elements: mirrored, those of the other end, or the last one.
def padded_by(x, d, low, high, mode):
    x = prim.slice(x, d, max_of(-low, 0), x.shape[d] - max_of(-high, 0), 1)
    n, low, high = x.shape[d], max_of(low, 0), max_of(high, 0)
    if mode == 'reflect':
        before, after = prim.flip(prim.slice(x, d, 1, low + 1, 1), d), prim.flip(prim.slice(x, d, n - 1 - high, n - 1, 1), d)
    elif mode == 'circular':
        before, after = prim.slice(x, d, n - low, n, 1), prim.slice(x, d, 0, high, 1)
    elif mode == 'replicate':
        shape = list(x.shape)
        before = prim.expand(prim.slice(x, d, 0, 1, 1), shape[:d] + [low] + shape[d + 1:])
        after = prim.expand(prim.slice(x, d, n - 1, n, 1), shape[:d] + [high] + shape[d + 1:])
    else:
        prim.fail(f"F.pad with mode '{mode}' is not supported")
    parts = ([before] if low else []) + [x] + ([after] if high else [])
    return prim.concat(parts, d) if len(parts) > 1 else x


def replication_pad1d_backward(grad, x, padding): return gradients_of(lambda x: F_pad(x, padding, 'replicate'), [x], grad)[0]
def replication_pad2d_backward(grad, x, padding): return gradients_of(lambda x: F_pad(x, padding, 'replicate'), [x], grad)[0]
def replication_pad3d_backward(grad, x, padding): return gradients_of(lambda x: F_pad(x, padding, 'replicate'), [x], grad)[0]


def pixel_shuffle(x, upscale_factor):
    c, h, w = x.shape[-3:]
    lead = list(x.shape[:-3])
    k = len(lead)
    y = prim.permute(prim.reshape(x, lead + [c // (upscale_factor * upscale_factor), upscale_factor, upscale_factor, h, w]), list(range(k)) + [k + i for i in [0, 3, 1, 4, 2]])
    return prim.reshape(y, lead + [c // (upscale_factor * upscale_factor), h * upscale_factor, w * upscale_factor])


def pixel_unshuffle(x, downscale_factor):
    c, h, w = x.shape[-3:]
    lead = list(x.shape[:-3])
    k = len(lead)
    y = prim.permute(prim.reshape(x, lead + [c, h // downscale_factor, downscale_factor, w // downscale_factor, downscale_factor]), list(range(k)) + [k + i for i in [0, 2, 4, 1, 3]])
    return prim.reshape(y, lead + [c * downscale_factor * downscale_factor, h // downscale_factor, w // downscale_factor])


def channel_shuffle(x, groups): return flatten(transpose(unflatten(x, 1, [groups, x.shape[1] // groups]), 1, 2), 1, 2)


def meshgrid(*tensors, indexing='ij'):
    xs = list(sizes_of(tensors))
    n = len(xs)
    if indexing == 'xy' and n > 1:
        ys = meshgrid([xs[1], xs[0]] + xs[2:])
        return [ys[1], ys[0]] + ys[2:]
    shape = [x.shape[0] if x.ndim else 1 for x in xs]
    return [prim.expand(prim.reshape(x, [1] * i + [shape[i]] + [1] * (n - 1 - i)), shape) for i, x in enumerate(xs)]


def slice_scatter(x, src, dim=0, start=None, end=None, step=1):
    d = dim_of(x, dim)
    first = 0 if start is None else start + x.shape[d] if start < 0 else start
    if step != 1 and src.shape[d] != 0:
        return every_scatter(x, src, d, first, step)
    parts = [prim.slice(x, d, 0, first, 1), src, prim.slice(x, d, first + src.shape[d], None, 1)]
    return prim.concat([p for p in parts if p.shape[d] != 0], d)


def every_scatter(x, src, d, first, step):
    n, m = x.shape[d], src.shape[d]
    before, after, between = [0] * x.ndim, [0] * x.ndim, [0] * x.ndim
    before[d], after[d], between[d] = first, n - first - ((m - 1) * step + 1), step - 1
    i = prim.reshape(prim.iota(n, 0, 1, torch.int64), [-1 if k == d else 1 for k in range(x.ndim)]) - first
    taken = (i >= 0) & (i < m * step) & (i % step == 0)
    return prim.where(taken, prim.pad(prim.convert(src, x.dtype), before, after, between, 0), x).to(x.dtype)


def select_scatter(x, src, dim, index):
    i = index + x.shape[dim] if index < 0 else index
    return slice_scatter(x, unsqueeze(src, dim_of(x, dim)), dim, i, i + 1)


def slice_backward(grad, sizes, dim, start, end, step):
    d = dim % len(sizes)
    before, after, between = [0] * len(sizes), [0] * len(sizes), [0] * len(sizes)
    before[d] = start + sizes[d] if start < 0 else start
    between[d] = step - 1
    after[d] = sizes[d] - before[d] - ((grad.shape[d] - 1) * step + 1)
    return prim.pad(grad, before, after, between, 0)


def select_backward(grad, sizes, dim, index):
    d = dim % len(sizes)
    i = index + sizes[d] if index < 0 else index
    return slice_backward(unsqueeze(grad, d), sizes, d, i, i + 1, 1)


def tril(x, diagonal=0): return triangle(x, lambda row, column: column <= row + diagonal)
def triu(x, diagonal=0): return triangle(x, lambda row, column: column >= row + diagonal)


def triangle(x, keep):
    row, column = unsqueeze(arange(x.shape[-2]), 1), arange(x.shape[-1])
    return prim.where(keep(row, column), x, 0).to(x.dtype)


def hstack(tensors): return cat([prim.reshape(x, [1]) if x.ndim == 0 else x for x in tensors], 0 if tensors[0].ndim <= 1 else 1)
def vstack(tensors): return cat([atleast_2d(x) for x in tensors], 0)
def dstack(tensors): return cat([atleast_3d(x) for x in tensors], 2)
def column_stack(tensors): return cat([unsqueeze(x, 1) if x.ndim == 1 else x for x in tensors], 1)
def atleast_1d(x): return prim.reshape(x, [1]) if x.ndim == 0 else x
def atleast_2d(x): return unsqueeze(atleast_1d(x), 0) if x.ndim < 2 else x
def atleast_3d(x): return unsqueeze(atleast_2d(x), 2) if x.ndim < 3 else x
def fliplr(x): return prim.flip(x, 1)
def flipud(x): return prim.flip(x, 0)
def ravel(x): return flatten(x)
def swapdims(x, dim0, dim1): return transpose(x, dim0, dim1)
def moveaxis(x, source, destination): return movedim(x, source, destination)
def adjoint(x): return conj(transpose(x, -2, -1))
def tile(x, *dims): return tensor_repeat(x, [1] * (x.ndim - len(sizes_of(dims))) + list(sizes_of(dims)))
def torch_tensor_split(x, indices_or_sections=None, dim=0, *, indices=None, sections=None): return tensor_split_at(x, parts_of(indices_or_sections, indices, sections), dim)
def tensor_tensor_split(x, indices_or_sections=None, dim=0, *, indices=None, sections=None): return tensor_split_at(x, parts_of(indices_or_sections, indices, sections), dim)
def parts_of(*given): return [p for p in given if p is not None][0]
def hsplit(x, indices_or_sections=None, *, indices=None, sections=None): return tensor_split_at(x, parts_of(indices_or_sections, indices, sections), 0 if x.ndim == 1 else 1)
def vsplit(x, indices_or_sections=None, *, indices=None, sections=None): return tensor_split_at(x, parts_of(indices_or_sections, indices, sections), 0)
def dsplit(x, indices_or_sections=None, *, indices=None, sections=None): return tensor_split_at(x, parts_of(indices_or_sections, indices, sections), 2)
def row_stack(tensors): return vstack(tensors)
def broadcast_tensors(*tensors): return prim.broadcast(*sizes_of(tensors))


def broadcast_shapes(*shapes):
    shapes = [[s] if isinstance(s, int) else list(s) for s in shapes]
    return tuple(prim.broadcast(*[prim.full(s, 0, torch.float32) for s in shapes])[0].shape)


def cartesian_prod(*tensors): return tensors[0] if len(tensors) == 1 else stack([flatten(x) for x in meshgrid(*tensors)], 1)


def diff(x, n=1, dim=-1, prepend=None, append=None):
    parts = [p for p in [prepend, x, append] if p is not None]
    x = cat(parts, dim) if len(parts) > 1 else x
    for _ in range(n):
        a, b = prim.slice(x, dim, 1, None, 1), prim.slice(x, dim, 0, -1, 1)
        x = a ^ b if prim.is_bool(x.dtype) else a - b
    return x


# Areas between neighbours along a dim, which lie dx apart, or at x.
def areas(y, x, dx, dim):
    d = dim_of(y, dim)
    both = prim.slice(y, d, 1, None, 1) + prim.slice(y, d, 0, -1, 1)
    if x is None:
        return both * ((1 if dx is None else dx) / 2)
    apart = diff(x, 1, -1 if x.ndim == 1 else dim)
    return both * (prim.reshape(apart, [-1 if k == d else 1 for k in range(y.ndim)]) if x.ndim == 1 else apart) / 2


def trapezoid(y, x=None, *, dx=None, dim=-1): return sum(areas(y, x, dx, dim), dim)
def trapz(y, x=None, *, dx=None, dim=-1): return trapezoid(y, x, dx=dx, dim=dim)
def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1): return cumsum(areas(y, x, dx, dim), dim)


def tensor_split_at(x, parts, dim):
    n, ends = x.shape[dim], []
    if isinstance(parts, (list, tuple)):
        ends = list(parts) + [n]
    else:
        for i in range(parts):
            ends.append((ends[-1] if i else 0) + n // parts + (1 if i < n % parts else 0))
    out, at = [], 0
    for end in ends:
        out.append(prim.slice(x, dim, at, end, 1))
        at = end
    return out


def rot90(x, k=1, dims=(0, 1)):
    a, b = dims
    k = k % 4
    if k == 0:
        return x
    if k == 2:
        return prim.flip(prim.flip(x, a), b)
    return transpose(prim.flip(x, b), a, b) if k == 1 else prim.flip(transpose(x, a, b), b)


# The elements of a diagonal, as the last dim.
def diagonal(x, offset=0, dim1=0, dim2=1): return prim.view(x, lambda x: diagonal_elements(x, offset, dim1, dim2))


def diagonal_elements(x, offset, dim1, dim2):
    a, b = dim_of(x, dim1), dim_of(x, dim2)
    x = prim.permute(x, [d for d in range(x.ndim) if d != a and d != b] + [a, b])
    rows, columns = x.shape[-2], x.shape[-1]
    top, left = max_of(-offset, 0), max_of(offset, 0)
    n = max_of(min_of(rows - top, columns - left), 0)
    lead = list(x.shape[:-2])
    x = prim.slice(prim.slice(x, -2, top, top + n, 1), -1, left, left + n, 1)
    x = prim.pad(flatten(x, -2), [0] * (len(lead) + 1), [0] * len(lead) + [n], [0] * (len(lead) + 1), 0)
    return without(prim.slice(prim.reshape(x, lead + [n, n + 1]), -1, 0, 1, 1), [len(lead) + 1])


def diagonal_scatter(x, src, offset=0, dim1=0, dim2=1):
    y = clone(x)
    diagonal(y, offset, dim1, dim2).copy_(src)
    return y


def diag(x, diagonal=0): return diag_embed(x, diagonal) if x.ndim == 1 else diagonal_of(x, diagonal)
def diagonal_of(x, offset): return diagonal_elements(x, offset, 0, 1)


def diag_embed(x, offset=0, dim1=-2, dim2=-1):
    n = x.shape[-1] + (offset if offset > 0 else -offset)
    low = [0] * (x.ndim - 1) + [max_of(offset, 0)]
    high = [0] * (x.ndim - 1) + [max_of(-offset, 0)]
    row = unsqueeze(prim.pad(x, low, high, [0] * x.ndim, 0), x.ndim - 1)
    y = prim.where(arange(n) == unsqueeze(arange(n), 1) + offset, row, 0).to(x.dtype)
    return movedim(y, [-2, -1], [dim1, dim2])


def diagflat(x, offset=0): return diag_embed(flatten(x), offset)
def fill_diagonal(x, value, wrap=False):
    if x.ndim != 2 or wrap:
        prim.fail("fill_diagonal_ is supported of matrices, without `wrap`")
    return prim.where(unsqueeze(arange(x.shape[0]), 1) == arange(x.shape[1]), value, x).to(x.dtype)


# Places of a triangle, row by row: a row ends where so many have come, and begins at its own column.
def tril_indices(row, col, offset=0, *, dtype=torch.int64, **placed):
    n = clamp(arange(row) + (offset + 1), 0, col)
    return prim.convert(triangle_places(n, prim.full([row], 0, torch.int64), [min_of(max_of(r + offset + 1, 0), col) for r in range(row)]), dtype)


def triu_indices(row, col, offset=0, *, dtype=torch.int64, **placed):
    first = clamp(arange(row) + offset, 0, col)
    return prim.convert(triangle_places(col - first, first, [col - min_of(max_of(r + offset, 0), col) for r in range(row)]), dtype)


def triangle_places(n, first, counts):
    ends, total = prim.cumsum(n, 0), 0
    for c in counts:
        total = total + c
    k = arange(total)
    row = sum(unsqueeze(k, 1) >= ends, 1)
    return stack([row, k - index_select(ends - n, 0, row) + index_select(first, 0, row)], 0)


def trace(x): return sum(diagonal(x))
def block_diag(*tensors): return cat([F_pad(x, [before_of(tensors, i), before_of(tensors[i + 1:], len(tensors))]) for i, x in enumerate(tensors)], 0)


def before_of(tensors, i):
    n = 0
    for x in tensors[:i]:
        n = n + x.shape[1]
    return n


# Windows of images as columns, [N, C * window, places], and back: what overlaps is added up.
def F_unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    m, places = windows(x, of_dims(kernel_size, 2), of_dims(stride, 2), of_dims(padding, 2), of_dims(dilation, 2), 1)
    return transpose(prim.reshape(m, [x.shape[0], places[0] * places[1], m.shape[2]]), 1, 2)


def aten_unfold(x, dimension, size, step): return tensor_unfold(x, dimension, size, step)
def tensor_unfold(x, dimension, size, step): return prim.view(x, lambda x: prim.unfold(x, dim_of(x, dimension), size, step, 1), step < size)


def F_fold(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    k, s, p, d = of_dims(kernel_size, 2), of_dims(stride, 2), of_dims(padding, 2), of_dims(dilation, 2)
    size = [n + 2 * q for n, q in zip(of_dims(output_size, 2), p)]
    places = [(size[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2)]
    y = prim.reshape(x, [x.shape[0], x.shape[1] // (k[0] * k[1]), k[0], k[1]] + places)
    total = 0
    for a in range(k[0]):
        for b in range(k[1]):
            part = select(select(y, 2, a), 2, b)
            low = [0, 0, a * d[0], b * d[1]]
            high = [0, 0] + [size[i] - low[2 + i] - ((places[i] - 1) * s[i] + 1) for i in range(2)]
            total = prim.pad(part, low, high, [0, 0, s[0] - 1, s[1] - 1], 0) + total
    return prim.slice(prim.slice(total, 2, p[0], size[0] - p[0], 1), 3, p[1], size[1] - p[1], 1)


# ---- sizes that change ----

def F_upsample(x, size=None, scale_factor=None, mode='nearest', align_corners=None): return interpolate(x, size, scale_factor, mode, align_corners)
def F_upsample_nearest(x, size=None, scale_factor=None): return interpolate(x, size, scale_factor)
def F_upsample_bilinear(x, size=None, scale_factor=None): return interpolate(x, size, scale_factor, 'bilinear', True)

def interpolate(x, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, antialias=False):
    dims = x.ndim - 2
    if antialias and mode not in ('bilinear', 'bicubic'):
        prim.fail("interpolate with antialias takes mode 'bilinear' or 'bicubic'")
    factors = None if scale_factor is None else of_dims(scale_factor, dims)
    sizes = of_dims(size, dims) if size is not None else [int(x.shape[2 + i] * factors[i]) for i in range(dims)]
    if mode == 'area':
        return adaptive_avg_pool(x, sizes, dims)
    for i in range(dims):
        n = x.shape[2 + i]
        scale = 1 / factors[i] if factors is not None and not recompute_scale_factor else n / sizes[i]
        f = antialiased if antialias else resized
        x = f(x, 2 + i, n, sizes[i], scale, mode, align_corners)
    return x


# Of each place the elements around, as far as what becomes smaller covers them: a product with their weights.
def antialiased(x, d, n, out, scale, mode, align_corners):
    if align_corners:
        scale = (n - 1) / (out - 1) if out > 1 else 0
    wide = scale if scale > 1 else 1.0
    reach = (1.0 if mode == 'bilinear' else 2.0) * wide
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    center = unsqueeze((prim.iota(out, 0, 1, kind) + 0.5) * scale, 1)
    first, end = prim.maximum(prim.trunc(center - reach + 0.5), 0), prim.minimum(prim.trunc(center + reach + 0.5), n)
    j = prim.iota(n, 0, 1, kind)
    at = prim.abs((j - center + 0.5) * (1 / wide))
    near, far = (1.5 * at - 2.5) * at * at + 1, ((-0.5 * at + 2.5) * at - 4) * at + 2
    w = prim.maximum(1 - at, 0) if mode == 'bilinear' else prim.where(at < 1, near, prim.where(at < 2, far, 0))
    w = prim.where((j >= first) & (j < end), w, 0)
    w = prim.convert(w / prim.sum(w, [1]), x.dtype)
    return transpose(matmul(transpose(x, d, -1), t(w)), d, -1)


def resized(x, d, n, out, scale, mode, align_corners):
    at = prim.iota(out, 0, 1, torch.float32)
    if mode == 'nearest' or mode == 'nearest-exact':
        at = at * scale if mode == 'nearest' else (at + 0.5) * scale
        return index_select(x, d, minimum(prim.convert(prim.floor(at), torch.int64), n - 1))
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    at = prim.iota(out, 0, 1, kind)
    if align_corners:
        at = at * ((n - 1) / (out - 1) if out > 1 else 0)
    else:
        at = (at + 0.5) * scale - 0.5
    spread = [1] * x.ndim
    spread[d] = out
    if mode == 'bicubic':
        first = prim.floor(at)
        w, i, y = at - first, prim.convert(first, torch.int64), 0
        for k, weight in enumerate([cubic_far(w + 1), cubic_near(w), cubic_near(1 - w), cubic_far(2 - w)]):
            place = prim.minimum(prim.maximum(i + (k - 1), 0), n - 1)
            y = index_select(x, d, place) * prim.convert(prim.reshape(weight, spread), x.dtype) + y
        return y
    if mode not in ('linear', 'bilinear', 'trilinear'):
        prim.fail(f"interpolate with mode '{mode}' is not supported")
    at = prim.maximum(at, 0)
    first = prim.minimum(prim.convert(prim.floor(at), torch.int64), n - 1)
    w = prim.convert(prim.reshape(at - prim.convert(first, kind), spread), x.dtype)
    return index_select(x, d, first) * (1 - w) + index_select(x, d, prim.minimum(first + 1, n - 1)) * w


# As ATen has it: all sizes, or scales that say more of them.
def antialiased_to(x, mode, output_size, align_corners, scales):
    for i, n in enumerate(output_size):
        d = x.ndim - 2 + i
        s = scales[i] if scales[i] is not None and scales[i] > 0 else None
        x = antialiased(x, d, x.shape[d], n, x.shape[d] / n if s is None else 1 / s, mode, align_corners)
    return x


def sizes_or_scales(x, output_size, scale_factors):
    if output_size is not None:
        return output_size, [None, None]
    return [int(x.shape[x.ndim - 2 + i] * s) for i, s in enumerate(scale_factors)], scale_factors


def aten__upsample_bilinear2d_aa(x, output_size, align_corners, scales_h=None, scales_w=None): return antialiased_to(x, 'bilinear', output_size, align_corners, [scales_h, scales_w])
def aten__upsample_bicubic2d_aa(x, output_size, align_corners, scales_h=None, scales_w=None): return antialiased_to(x, 'bicubic', output_size, align_corners, [scales_h, scales_w])


def aten__upsample_bilinear2d_aa_vec(x, output_size, align_corners, scale_factors):
    sizes, scales = sizes_or_scales(x, output_size, scale_factors)
    return antialiased_to(x, 'bilinear', sizes, align_corners, scales)


def aten__upsample_bicubic2d_aa_vec(x, output_size, align_corners, scale_factors):
    sizes, scales = sizes_or_scales(x, output_size, scale_factors)
    return antialiased_to(x, 'bicubic', sizes, align_corners, scales)


def aten__upsample_bilinear2d_aa_backward(grad, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    x = prim.full(input_size, 0, grad.dtype)
    return gradients_of(lambda x: antialiased_to(x, 'bilinear', output_size, align_corners, [scales_h, scales_w]), [x], grad)[0]


def aten__upsample_bicubic2d_aa_backward(grad, output_size, input_size, align_corners, scales_h=None, scales_w=None):
    x = prim.full(input_size, 0, grad.dtype)
    return gradients_of(lambda x: antialiased_to(x, 'bicubic', output_size, align_corners, [scales_h, scales_w]), [x], grad)[0]


def cubic_near(w): return (1.25 * w - 2.25) * w * w + 1
def cubic_far(w): return ((-0.75 * w + 3.75) * w - 6) * w + 3


# x at points in [-1, 1] of its last dims, the last one first.
def grid_sample(x, grid, mode='bilinear', padding_mode='zeros', align_corners=False):
    if padding_mode not in ('zeros', 'border', 'reflection'):
        prim.fail(f"grid_sample with padding_mode '{padding_mode}' is not known")
    if mode not in ('bilinear', 'nearest', 'bicubic') or mode == 'bicubic' and x.ndim != 4:
        prim.fail(f"grid_sample of {x.ndim - 2} dims with mode '{mode}' is not known")
    dims = x.ndim - 2
    at = [grid_scale(select(grid, -1, dims - 1 - i), x.shape[2 + i], align_corners) for i in range(dims)]
    if mode == 'bicubic':
        return grid_cubic(x, at, padding_mode, align_corners)
    at = [grid_bound(p, x.shape[2 + i], padding_mode, align_corners) for i, p in enumerate(at)]
    if mode == 'nearest':
        return grid_corner(x, [prim.round(p) for p in at])
    low = [prim.floor(p) for p in at]
    high = [p - prim.detach(q) for p, q in zip(at, low)]
    total = 0
    for corner in range(1 << dims):
        weight, place = 1, []
        for i in range(dims):
            upper = corner >> (dims - 1 - i) & 1
            place.append(low[i] + 1 if upper else low[i])
            weight = weight * (high[i] if upper else 1 - high[i])
        total = grid_corner(x, place) * unsqueeze(weight, 1) + total
    return total


def grid_cubic(x, at, padding_mode, align_corners):
    low = [prim.floor(p) for p in at]
    weights, total = [], 0
    for p, q in zip(at, low):
        w = p - prim.detach(q)
        weights.append([cubic_far(w + 1), cubic_near(w), cubic_near(1 - w), cubic_far(2 - w)])
    for i in range(4):
        row = 0
        for j in range(4):
            place = [grid_bound(q + (k - 1), x.shape[2 + d], padding_mode, align_corners) for d, (q, k) in enumerate(zip(low, [i, j]))]
            row = grid_corner(x, place) * unsqueeze(weights[1][j], 1) + row
        total = row * unsqueeze(weights[0][i], 1) + total
    return total


def grid_scale(g, n, align_corners): return (g + 1) * ((n - 1) / 2) if align_corners else ((g + 1) * n - 1) / 2


def grid_bound(p, n, padding_mode, align_corners):
    if padding_mode == 'reflection':
        low, span = (0, n - 1) if align_corners else (-0.5, n)
        p = prim.abs(p - low)
        turns, rest = prim.floor(p / span), fmod(p, span)
        p = prim.where(remainder(turns, 2) == 0, rest + low, span - rest + low)
    return p if padding_mode == 'zeros' else clamp(p, 0, n - 1)


# The elements at whole places of each dim; outside they are 0.
def grid_corner(x, place):
    inside, flat = True, 0
    for n, p in zip(x.shape[2:], place):
        inside = (p >= 0) & (p < n) & inside
        flat = flat * n + prim.convert(prim.minimum(prim.maximum(p, 0), n - 1), torch.int64)
    index = prim.expand(prim.reshape(flat, [x.shape[0], 1, -1]), [x.shape[0], x.shape[1], count(flat, list(range(1, flat.ndim)))])
    y = prim.reshape(prim.gather(flatten(x, 2), index, 2), list(x.shape[:2]) + list(flat.shape[1:]))
    return prim.where(unsqueeze(inside, 1), y, 0).to(x.dtype)


def aten_grid_sampler_2d(x, grid, mode, padding_mode, align_corners):
    return grid_sample(x, grid, ['bilinear', 'nearest', 'bicubic'][mode], ['zeros', 'border', 'reflection'][padding_mode], align_corners)


def aten_grid_sampler_3d(x, grid, mode, padding_mode, align_corners): return aten_grid_sampler_2d(x, grid, mode, padding_mode, align_corners)
def aten_grid_sampler_3d_backward(grad, x, grid, mode, padding_mode, align_corners, mask): return aten_grid_sampler_2d_backward(grad, x, grid, mode, padding_mode, align_corners, mask)


def aten_grid_sampler_2d_backward(grad, x, grid, mode, padding_mode, align_corners, mask):
    return gradients_of(lambda x, grid: aten_grid_sampler_2d(x, grid, mode, padding_mode, align_corners), [x, grid], grad)


def affine_grid(theta, size, align_corners=False):
    if len(size) != 4:
        prim.fail("affine_grid is supported of images")
    steps = [(prim.iota(n, 0, 1, theta.dtype) * 2 + 1) / n - 1 if not align_corners else linspace(-1, 1, n, dtype=theta.dtype) for n in size[2:]]
    rows, columns = meshgrid(steps[0], steps[1])
    points = prim.reshape(stack([columns, rows, ones_like(rows)], 2), [1, -1, 3])
    return prim.reshape(matmul(points, transpose(theta, 1, 2)), [size[0], size[2], size[3], 2])


def concatenate(tensors, dim=0): return cat(tensors, dim)


# ---- modules ----

class PixelShuffle(Elementwise):
    def call(self, x, upscale_factor): return pixel_shuffle(x, upscale_factor)


class PixelUnshuffle(Elementwise):
    def call(self, x, downscale_factor): return pixel_unshuffle(x, downscale_factor)


class ChannelShuffle(Elementwise):
    def call(self, x, groups): return channel_shuffle(x, groups)


class Upsample(Elementwise):
    def call(self, x, *args, **how): return interpolate(x, *args, **how)


class UpsamplingNearest2d(Elementwise):
    def call(self, x, size=None, scale_factor=None): return interpolate(x, size, scale_factor)


class UpsamplingBilinear2d(Elementwise):
    def call(self, x, size=None, scale_factor=None): return interpolate(x, size, scale_factor, 'bilinear', True)


class Unfold(Elementwise):
    def call(self, x, *args, **how): return F_unfold(x, *args, **how)


class Fold(Elementwise):
    def call(self, x, *args, **how): return F_fold(x, *args, **how)


class Padding(Module):
    mode, fill = 'constant', 0

    def __init__(self, padding, value=None):
        self.padding, self.value = of_dims(padding, 2 * self.dims), self.fill if value is None else value

    def forward(self, x): return F_pad(x, self.padding, self.mode, self.value)



class Flatten(Elementwise):
    def call(self, x, start_dim=1, end_dim=-1): return flatten(x, start_dim, end_dim)


class Unflatten(Elementwise):
    def call(self, x, dim, unflattened_size): return unflatten(x, dim, unflattened_size)


class ZeroPad1d(Padding):
    dims, mode = 1, 'constant'


class ZeroPad2d(Padding):
    dims, mode = 2, 'constant'


class ZeroPad3d(Padding):
    dims, mode = 3, 'constant'


class ConstantPad1d(Padding):
    dims, mode = 1, 'constant'


class ConstantPad2d(Padding):
    dims, mode = 2, 'constant'


class ConstantPad3d(Padding):
    dims, mode = 3, 'constant'


class ReflectionPad1d(Padding):
    dims, mode = 1, 'reflect'


class ReflectionPad2d(Padding):
    dims, mode = 2, 'reflect'


class ReflectionPad3d(Padding):
    dims, mode = 3, 'reflect'


class ReplicationPad1d(Padding):
    dims, mode = 1, 'replicate'


class ReplicationPad2d(Padding):
    dims, mode = 2, 'replicate'


class ReplicationPad3d(Padding):
    dims, mode = 3, 'replicate'


class CircularPad1d(Padding):
    dims, mode = 1, 'circular'


class CircularPad2d(Padding):
    dims, mode = 2, 'circular'


class CircularPad3d(Padding):
    dims, mode = 3, 'circular'


# ---- names that say that a copy is wanted, or that none is ----

def alias_copy(x): return clone(x)
def detach_copy(x): return clone(detach(x))
def as_strided_copy(x, size, stride, storage_offset=0): return clone(as_strided(x, size, stride, storage_offset))
def diagonal_copy(x, offset=0, dim1=0, dim2=1): return clone(diagonal(x, offset, dim1, dim2))
def expand_copy(x, size, *, implicit=False): return clone(expand(x, size))
def narrow_copy(x, dim, start, length): return clone(narrow(x, dim, start, length))
def permute_copy(x, dims): return clone(permute(x, dims))
def select_copy(x, dim, index): return clone(select(x, dim, index))
def slice_copy(x, dim=0, start=None, end=None, step=1): return clone(slice(x, dim, start, end, step))
def split_copy(x, split_size, dim=0): return [clone(y) for y in split(x, split_size, dim)]
def split_with_sizes_copy(x, split_sizes, dim=0): return [clone(y) for y in split_with_sizes(x, split_sizes, dim)]
def squeeze_copy(x, dim=None): return clone(squeeze(x, dim))
def t_copy(x): return clone(t(x))
def transpose_copy(x, dim0, dim1): return clone(transpose(x, dim0, dim1))
def unbind_copy(x, dim=0): return [clone(y) for y in unbind(x, dim)]
def unfold_copy(x, dimension, size, step): return clone(unfold(x, dimension, size, step))
def unsqueeze_copy(x, dim): return clone(unsqueeze(x, dim))
def view_copy(x, size=None, dtype=None): return clone(view(x, size if dtype is None else dtype))
def unsafe_chunk(x, chunks, dim=0): return chunk(x, chunks, dim)
def unsafe_split(x, split_size, dim=0): return split(x, split_size, dim)
def unsafe_split_with_sizes(x, split_sizes, dim=0): return split_with_sizes(x, split_sizes, dim)
def resize_as(x, y): return reshape(x, y.shape)
def nelement(x): return prim.numel(x)
def ndimension(x): return x.ndim
def element_size(x): return x.itemsize
def sum_to_size(x, *size):
    shape = list(sizes_of(size))
    lead = x.ndim - len(shape)
    dims = list(range(lead)) + [d + lead for d, n in enumerate(shape) if n == 1 and x.shape[d + lead] != 1]
    return prim.reshape(prim.sum(x, dims), shape) if dims else x


# Slopes between neighbours, which lie `spacing` apart or at its coordinates; at both ends those of one side.
def gradient(x, *, spacing=1, dim=None, edge_order=1):
    dims = all_dims(x, dim)
    apart = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    out = []
    for d, h in zip(dims, apart):
        n = x.shape[d]
        low, mid, high = [prim.slice(x, d, i, n - 2 + i, 1) for i in range(3)]
        shape = [-1 if k == d else 1 for k in range(x.ndim)]
        if isinstance(h, torch.Tensor):
            gaps = prim.reshape(prim.slice(h, 0, 1, None, 1) - prim.slice(h, 0, 0, -1, 1), shape)
        else:
            gaps = prim.reshape(prim.full([n - 1], h, x.dtype), shape)
        a, b = prim.slice(gaps, d, 0, -1, 1), prim.slice(gaps, d, 1, None, 1)
        inner = (mid - low) * (b / (a * (a + b))) + (high - mid) * (a / (b * (a + b))) if isinstance(h, torch.Tensor) else (high - low) / (2 * h)
        ends = []
        for side in (0, 1):
            v = [prim.slice(x, d, n - 1 - k if side else k, n - k if side else k + 1, 1) for k in range(3 if edge_order == 2 else 2)]
            g = [prim.slice(gaps, d, n - 2 - k if side else k, n - 1 - k if side else k + 1, 1) for k in range(edge_order)]
            slope = (v[1] - v[0]) / g[0]
            if edge_order == 2:
                slope = slope - ((v[2] - v[1]) / g[1] - slope) * (g[0] / (g[0] + g[1]))
            ends.append(-slope if side else slope)
        out.append(prim.concat([ends[0], inner, ends[1]], d))
    return out


def vander(x, N=None, increasing=False):
    n = x.shape[0] if N is None else N
    powers = arange(n) if increasing else arange(n - 1, -1, -1)
    return vandermonde(x, powers)


def vandermonde(x, powers): return pow(unsqueeze(x, -1), prim.convert(powers, x.dtype)) if prim.is_float(x.dtype) else pow(unsqueeze(x, -1), powers)


# Indices of all choices of r of n, in order.
def choices(first, n, r, again):
    if r == 0:
        return [[]]
    return [[i] + rest for i in range(first, n) for rest in choices(i if again else i + 1, n, r - 1, again)]


def combinations(x, r=2, with_replacement=False):
    rows = choices(0, x.shape[0], r, with_replacement)
    return aten_index(x, [tensor(rows)]) if rows and r else prim.full([0, r] if r else [0], 0, x.dtype)
