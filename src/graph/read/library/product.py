# Matrix products.


def mm(a, b): return prim.dot(a, b)
def bmm(a, b): return prim.dot(a, b)
def scaled(x, by): return x if by == 1 else x * by
def addmm(x, a, b, *, beta=1, alpha=1): return scaled(x, beta) + scaled(prim.dot(a, b), alpha)
def baddbmm(x, a, b, *, beta=1, alpha=1): return scaled(x, beta) + scaled(prim.dot(a, b), alpha)
def linear(x, weight, bias=None): return matmul(x, t(weight)) if bias is None else matmul(x, t(weight)) + bias
def mv(a, b): return matmul(a, b)
def dot(a, b): return matmul(a, b)
def outer(a, b): return unsqueeze(a, 1) * b


def matmul(a, b):
    if a.ndim == 1 and b.ndim == 1:
        return sum(a * b)
    if a.ndim == 1:
        return squeeze(matmul(unsqueeze(a, 0), b), -2)
    if b.ndim == 1:
        return squeeze(matmul(a, unsqueeze(b, 1)), -1)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.ndim == 2 and a.ndim > 2:
        y = prim.dot(prim.reshape(a, [count(a, list(range(a.ndim - 1))), k]), b)
        return prim.reshape(y, list(a.shape[:-1]) + [n])
    if a.ndim == 2 and b.ndim == 2:
        return prim.dot(a, b)
    p, q = prim.broadcast(prim.full(a.shape[:-2], 0, a.dtype), prim.full(b.shape[:-2], 0, b.dtype))
    lead = list(p.shape)
    y = prim.dot(prim.expand(a, lead + [m, k]), prim.expand(b, lead + [k, n]))
    return y


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
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    equation = ''.join([c for c in equation if c != ' '])
    if '.' in equation:
        prim.fail("einsum with an ellipsis is not supported")
    if '->' in equation:
        left, out = equation.split('->')
    else:
        left = equation
        letters = sorted([c for c in left if c != ','])
        out = ''.join([c for c in letters if letters.count(c) == 1])
    terms = left.split(',')
    x, have = tensors[0], terms[0]
    for i in range(1, len(terms)):
        later = out + ''.join(terms[i + 1:])
        x, have = einsum_pair(x, have, tensors[i], terms[i], later)
    for c in have:
        if have.count(c) > 1:
            prim.fail("einsum with a letter that stands twice in a term is not supported")
    gone = [d for d in range(len(have)) if have[d] not in out]
    x = sum(x, gone) if gone else x
    have = ''.join([c for c in have if c in out])
    return prim.permute(x, [list(have).index(c) for c in out])


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
    z = prim.reshape(prim.dot(x, y), [size[c] for c in batch + rows + columns])
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
    def __init__(self, in1, in2, out, bias=True, **how):
        self.weight = prim.parameter([out, in1, in2], torch.float32)
        self.bias = prim.parameter([out], torch.float32) if bias else None

    def forward(self, a, b):
        y = einsum('bi,oij,bj->bo', a, self.weight, b)
        return y if self.bias is None else y + self.bias
