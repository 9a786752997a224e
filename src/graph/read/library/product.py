# Matrix products.


# Products of integers are sums of products.
def product(a, b): return prim.dot(a, b) if prim.is_float(prim.result_type(a, b)) or prim.is_complex(prim.result_type(a, b)) else prim.convert(sum(unsqueeze(a, -1) * unsqueeze(b, -3), -2), prim.result_type(a, b))
def mm(input, mat2, *, out_dtype=None): return product(input, mat2) if out_dtype is None else product(prim.convert(input, out_dtype), prim.convert(mat2, out_dtype))
def bmm(input, mat2, *, out_dtype=None): return mm(input, mat2, out_dtype=out_dtype)
def _int_mm(a, b): return product(prim.convert(a, torch.int32), prim.convert(b, torch.int32))
def scaled(x, by): return x if by == 1 else x * by
def addmm(x, mat1, mat2, *, beta=1, alpha=1): return scaled(x, beta) + scaled(prim.dot(mat1, mat2), alpha)
def baddbmm(x, batch1, batch2, *, beta=1, alpha=1): return scaled(x, beta) + scaled(prim.dot(batch1, batch2), alpha)
def linear(x, weight, bias=None): return matmul(x, t(weight)) if bias is None else matmul(x, t(weight)) + bias
def mv(input, vec): return matmul(input, vec)
def dot(input, tensor): return matmul(input, tensor)
def addmv(x, mat, vec, *, beta=1, alpha=1): return scaled(x, beta) + scaled(matmul(mat, vec), alpha)
def addr(x, vec1, vec2, *, beta=1, alpha=1): return scaled(x, beta) + scaled(outer(vec1, vec2), alpha)
def addbmm(x, batch1, batch2, *, beta=1, alpha=1): return scaled(x, beta) + scaled(sum(bmm(batch1, batch2), 0), alpha)
def ger(input, vec2): return outer(input, vec2)
def inner(input, other): return input * other if input.ndim == 0 or other.ndim == 0 else tensordot(input, other, [[-1], [-1]])
def chain_matmul(*tensors): return linalg_multi_dot(tensors)
def bilinear(input1, input2, weight, bias=None):
    y = einsum('bi,oij,bj->bo', flatten(input1, 0, -2), weight, flatten(input2, 0, -2)) if input1.ndim > 2 else einsum('bi,oij,bj->bo', input1, weight, input2)
    y = prim.reshape(y, list(input1.shape[:-1]) + [weight.shape[0]])
    return y if bias is None else y + bias


# The last dims of a by the first ones of b, or the dims of two lists.
def tensordot(a, b, dims=2, dims_self=None, dims_other=None):
    if isinstance(dims_self, (list, tuple)):
        dims = [dims_self, dims_other]
    p, q = (list(range(a.ndim - dims, a.ndim)), list(range(dims))) if isinstance(dims, int) else (all_dims(a, dims[0]), all_dims(b, dims[1]))
    m, n = [d for d in range(a.ndim) if d not in p], [d for d in range(b.ndim) if d not in q]
    y = product(prim.reshape(prim.permute(a, m + p), [count(a, m), count(a, p)]), prim.reshape(prim.permute(b, q + n), [count(b, q), count(b, n)]))
    return prim.reshape(y, [a.shape[d] for d in m] + [b.shape[d] for d in n])


def kron(input, other):
    n = max_of(input.ndim, other.ndim)
    p, q = [1] * (n - input.ndim) + list(input.shape), [1] * (n - other.ndim) + list(other.shape)
    x, y, out = [], [], []
    for i, k in zip(p, q):
        x, y, out = x + [i, 1], y + [1, k], out + [i * k]
    return prim.reshape(prim.reshape(input, x) * prim.reshape(other, y), out)


# Distances of all rows of a from all rows of b. As in PyTorch by a product where there are many terms.
def cdist(x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'):
    terms = x1.shape[-1]
    many = isinstance(terms, int) and terms > 64 and (x1.shape[-2] > 25 or x2.shape[-2] > 25)
    if p == 2 and (compute_mode == 'use_mm_for_euclid_dist' or many and compute_mode != 'donot_use_mm_for_euclid_dist'):
        squares = sum(x1 * x1, -1, True) + unsqueeze(sum(x2 * x2, -1), -2)
        return root(prim.maximum(squares - 2 * matmul(x1, transpose(x2, -1, -2)), 0))
    apart = unsqueeze(x1, -2) - unsqueeze(x2, -3)
    if p != math.inf:
        return norm(apart, p, -1)
    d = prim.abs(apart)  # all that are the largest have the whole gradient
    most = amax(d, -1)
    return prim.detach(most, sum(prim.where(d == unsqueeze(prim.detach(most), -1), d, 0).to(d.dtype), -1))


def aten__cdist_forward(a, b, p, compute_mode):
    return cdist(a, b, p, ['use_mm_for_euclid_dist_if_necessary', 'use_mm_for_euclid_dist', 'donot_use_mm_for_euclid_dist'][compute_mode or 0])


# The gradient by a's rows: 0 where two are the same.
def aten__cdist_backward(grad, a, b, p, y):
    x, y = unsqueeze(a, -2) - unsqueeze(b, -3), unsqueeze(y, -1)
    over = prim.where(y == 0, 1, y)
    if p == 0:
        return zeros_like(a)
    if p == math.inf:
        slope = prim.where(prim.abs(x) == y, sign(x), 0)
    else:
        slope = x / over if p == 2 else sign(x) * prim.pow(prim.abs(x) / over, p - 1)
    return sum(unsqueeze(grad, -1) * prim.where(y == 0, 0, slope).to(x.dtype), -2)


def outer(input, vec2): return unsqueeze(input, 1) * vec2


def matmul(input, other):
    if input.ndim == 1 and other.ndim == 1:
        return sum(input * other)
    if input.ndim == 1:
        return squeeze(matmul(unsqueeze(input, 0), other), -2)
    if other.ndim == 1:
        return squeeze(matmul(input, unsqueeze(other, 1)), -1)
    m, k, n = input.shape[-2], input.shape[-1], other.shape[-1]
    if other.ndim == 2 and input.ndim > 2:
        y = product(prim.reshape(input, [count(input, list(range(input.ndim - 1))), k]), other)
        return prim.reshape(y, list(input.shape[:-1]) + [n])
    if input.ndim == 2 and other.ndim == 2:
        return product(input, other)
    p, q = prim.broadcast(prim.full(input.shape[:-2], 0, input.dtype), prim.full(other.shape[:-2], 0, other.dtype))
    lead = list(p.shape)
    y = product(prim.expand(input, lead + [m, k]), prim.expand(other, lead + [k, n]))
    return y


def aten__trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    parts = []
    for x, dims in zip([a, b, c], [expand1, expand2, expand3]):
        for d in sorted(dims):
            x = unsqueeze(x, d)
        parts.append(x)
    y = parts[0] * parts[1] * parts[2]
    return sum(y, sumdim) if len(sumdim) else y


# Rows belong to groups one after the other; offs says where each group ends.
def aten__grouped_mm(a, b, offs=None, bias=None, out_dtype=None):
    groups = offs.shape[0]
    rows = a.shape[-1] if b.ndim == 2 else a.shape[-2]
    ends = prim.convert(offs, torch.int64)
    group = sum(arange(rows) >= unsqueeze(ends, 1), 0)
    mine = group == unsqueeze(arange(groups), 1)  # [groups, rows]
    if b.ndim == 2:  # [m, rows] x [rows, n], a product for each group
        masked = prim.where(unsqueeze(mine, 1), a, 0).to(a.dtype)
        return prim.dot(masked, prim.expand(b, [groups] + list(b.shape)))
    masked = prim.where(unsqueeze(mine, 2), a, 0).to(a.dtype)
    return prim.convert(prim.sum(prim.convert(prim.dot(masked, b), torch.float32), [0]), a.dtype)[0]


# Products of several tensors by the letters of their dims.
def einsum(equation, *tensors):
    if isinstance(equation, torch.Tensor):
        equation, tensors = by_numbers([equation] + list(tensors))
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    equation = equation.replace(' ', '')
    named = equation.split('->')
    terms, ends = named[0].split(','), [c for c in 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' if c not in equation]
    if len(terms) != len(tensors):
        prim.fail(f"einsum of {len(terms)} terms takes as many tensors, and not {len(tensors)}")
    most = 0
    for x, term in zip(tensors, terms):
        most = max_of(most, x.ndim - len(term.replace('...', '')) if '...' in term else 0)
    pairs = [diagonals(x, term.replace('...', ''.join(ends[most - (x.ndim - len(term.replace('...', ''))):most]))) for x, term in zip(tensors, terms)]
    dots = ''.join(ends[:most])
    if len(named) == 2:
        out = named[1].replace('...', dots)
    else:
        letters = sorted([c for c in named[0] if c not in ',.'])
        out = dots + ''.join([c for c in letters if letters.count(c) == 1])
    pairs = [narrowed(x, term, pairs, out) for x, term in pairs]
    x, have = pairs[0]
    for i in range(1, len(pairs)):
        later = out + ''.join([p[1] for p in pairs[i + 1:]])
        x, have = einsum_pair(x, have, pairs[i][0], pairs[i][1], later)
    gone = [d for d in range(len(have)) if have[d] not in out]
    x = sum(x, gone) if gone else x
    have = ''.join([c for c in have if c in out])
    return prim.permute(x, [list(have).index(c) for c in out])


# Tensors, each with a list of its dims' numbers, then perhaps that of the result.
def by_numbers(given):
    names, terms = list('abcdefghijklmnopqrstuvwxyz'), []
    lists = [given[i] for i in range(1, len(given), 2)] + ([given[-1]] if len(given) % 2 else [])
    for l in lists:
        terms.append(''.join(['...' if k == ... else names[k] for k in l]))
    left = len(given) // 2
    return ','.join(terms[:left]) + ('->' + terms[left] if len(terms) > left else ''), [given[i] for i in range(0, left * 2, 2)]


# A letter that stands twice takes the diagonal.
def diagonals(x, term):
    for c in term:
        while term.count(c) > 1:
            i = list(term).index(c)
            k = i + 1 + list(term[i + 1:]).index(c)
            x, term = diagonal(x, 0, i, k), term[:i] + term[i + 1:k] + term[k + 1:] + c
    return x, term


# Without the dims of 1 that are more elsewhere.
def narrowed(x, term, pairs, out):
    size = {}
    for y, other in pairs:
        for c, n in zip(other, y.shape):
            size[c] = n if size.get(c, 1) == 1 else size[c]
    one = [d for d in range(len(term)) if x.shape[d] == 1 and size[term[d]] != 1]
    return without(x, one), ''.join([c for d, c in enumerate(term) if d not in one])


def einsum_pair(a, la, b, lb, later):
    only = [d for d in range(len(la)) if la[d] not in lb and la[d] not in later]
    a, la = (sum(a, only), ''.join([c for c in la if c in lb or c in later])) if only else (a, la)
    only = [d for d in range(len(lb)) if lb[d] not in la and lb[d] not in later]
    b, lb = (sum(b, only), ''.join([c for c in lb if c in la or c in later])) if only else (b, lb)
    batch = [c for c in la if c in lb and c in later]
    inner = [c for c in la if c in lb and c not in later]
    rows, columns = [c for c in la if c not in lb], [c for c in lb if c not in la]
    size = {}
    for c, n in zip(list(la) + list(lb), list(a.shape) + list(b.shape)):
        size[c] = n
    if not inner:
        x = prim.reshape(prim.permute(a, [list(la).index(c) for c in batch + rows]), [size[c] for c in batch + rows] + [1] * len(columns))
        y = prim.reshape(prim.permute(b, [list(lb).index(c) for c in batch + columns]), [size[c] for c in batch] + [1] * len(rows) + [size[c] for c in columns])
        return x * y, ''.join(batch + rows + columns)
    x = prim.reshape(prim.permute(a, [list(la).index(c) for c in batch + rows + inner]), [of(size, batch), of(size, rows), of(size, inner)])
    y = prim.reshape(prim.permute(b, [list(lb).index(c) for c in batch + inner + columns]), [of(size, batch), of(size, inner), of(size, columns)])
    z = prim.reshape(product(x, y), [size[c] for c in batch + rows + columns])
    return z, ''.join(batch + rows + columns)


def of(size, letters):
    n = 1
    for c in letters:
        n = n * size[c]
    return n


# ---- modules ----

class Linear(Module):
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        self.in_features, self.out_features = in_features, out_features
        self.weight = prim.parameter([out_features, in_features], or_float(dtype))
        self.bias = prim.parameter([out_features], or_float(dtype)) if bias else None

    def forward(self, x): return linear(x, self.weight, self.bias)


class Bilinear(Module):
    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = prim.parameter([out_features, in1_features, in2_features], or_float(dtype))
        self.bias = prim.parameter([out_features], or_float(dtype)) if bias else None

    def forward(self, input1, input2): return bilinear(input1, input2, self.weight, self.bias)


def conv_tbc(x, weight, bias, pad=0):
    return permute(conv1d(permute(x, 1, 2, 0), permute(weight, 2, 1, 0), bias, 1, pad), 2, 0, 1)


def aten__pdist_backward(grad, x, p, y): return gradients_of(lambda x: pdist(x, p), [x], grad)[0]
def aten__pdist_forward(x, p=2.0): return pdist(x, p)


# Distances of each row from those after it.
def pdist(x, p=2.0):
    pairs = triu_indices(x.shape[0], x.shape[0], 1)
    return norm(aten_index(x, [pairs[0]]) - aten_index(x, [pairs[1]]), p, -1)
