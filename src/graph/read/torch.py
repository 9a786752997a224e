# What the graph reader knows of PyTorch, in terms of the primitives of graph.def (`prim.exp(x)`; prims.c lists them).
# This file is embedded, and read by graph/read alone: Python's syntax, run while a program is read.
#
# A call looks for the most special name that is here:
#     torch.ops.aten.add.Tensor   aten_add_Tensor, aten_add, add      (the overload `default` has no name)
#     torch.ops.prims.fma         prims_fma, fma
#     torch.nn.functional.gelu    F_gelu, gelu
#     torch.relu                  torch_relu, relu
#     x.sum()                     tensor_sum, sum


# ---- elementwise ----

def abs(x): return prim.abs(x)
def neg(x): return prim.neg(x)
def exp(x): return prim.exp(x)
def exp2(x): return prim.exp2(x)
def expm1(x): return prim.expm1(x)
def log(x): return prim.log(x)
def log2(x): return prim.log2(x)
def log1p(x): return prim.log1p(x)
def sqrt(x): return prim.sqrt(x)
def rsqrt(x): return prim.rsqrt(x)
def sin(x): return prim.sin(x)
def cos(x): return prim.cos(x)
def tan(x): return prim.tan(x)
def asin(x): return prim.asin(x)
def acos(x): return prim.acos(x)
def atan(x): return prim.atan(x)
def atan2(x, y): return prim.atan2(x, y)
def sinh(x): return prim.sinh(x)
def cosh(x): return prim.cosh(x)
def tanh(x): return prim.tanh(x)
def sigmoid(x): return prim.sigmoid(x)
def erf(x): return prim.erf(x)
def floor(x): return prim.floor(x) if prim.is_float(x.dtype) else x
def ceil(x): return prim.ceil(x) if prim.is_float(x.dtype) else x
def trunc(x): return prim.trunc(x) if prim.is_float(x.dtype) else x
def round(x): return prim.round(x) if prim.is_float(x.dtype) else x
def minimum(x, y): return prim.minimum(x, y)
def maximum(x, y): return prim.maximum(x, y)
def fma(x, y, z): return prim.fma(x, y, z)
def mul(x, y): return x * y
def true_divide(x, y): return x / y
def add(x, y, *, alpha=1): return x + (y if alpha == 1 else y * alpha)
def sub(x, y, *, alpha=1): return x - (y if alpha == 1 else y * alpha)
def rsub(x, y, *, alpha=1): return y - (x if alpha == 1 else x * alpha)
def reciprocal(x): return 1 / x
def square(x): return x * x
def relu(x, inplace=False): return prim.maximum(x, 0)
def eq(x, y): return x == y
def ne(x, y): return x != y
def lt(x, y): return x < y
def le(x, y): return x <= y
def gt(x, y): return x > y
def ge(x, y): return x >= y
def bitwise_and(x, y): return x & y
def bitwise_or(x, y): return x | y
def bitwise_xor(x, y): return x ^ y
def bitwise_not(x): return ~x
def to_bool(x): return prim.convert(x, torch.bool)
def logical_and(x, y): return to_bool(x) & to_bool(y)
def logical_or(x, y): return to_bool(x) | to_bool(y)
def logical_xor(x, y): return to_bool(x) ^ to_bool(y)
def logical_not(x): return ~to_bool(x)
def isnan(x): return x != x
def isinf(x): return prim.abs(x) == math.inf
def sign(x): return prim.where(x > 0, 1, prim.where(x < 0, -1, 0)).to(x.dtype)
def floor_divide(x, y): return prim.floordiv(x, y)


def div(x, y, *, rounding_mode=None):
    if rounding_mode == 'floor':
        return prim.floordiv(x, y)
    if rounding_mode == 'trunc':
        q = x / y
        t = prim.result_type(x, y)
        return prim.trunc(q) if prim.is_float(t) else prim.convert(prim.trunc(prim.convert(x, torch.float64) / y), t)
    return x / y


def remainder(x, y):
    if prim.is_float(prim.result_type(x, y)):
        return x - prim.floor(x / y) * y
    return x - prim.floordiv(x, y) * y


def fmod(x, y): return prim.rem(x, y)


def pow(x, y):
    if isinstance(y, (int, float)) and isinstance(x, torch.Tensor):
        if y == 0:
            return full_like(x, 1)
        if y == 1:
            return x
        if y == 2:
            return x * x
        if y == 3:
            return x * x * x
        if y == 4:
            return square(x * x)
        if prim.is_float(x.dtype):
            if y == 0.5:
                return prim.sqrt(x)
            if y == -0.5:
                return prim.rsqrt(x)
            if y == -1:
                return 1 / x
        elif isinstance(y, int) and y > 0:
            r = x
            for _ in range(y - 1):
                r = r * x
            return r
    t = prim.result_type(x, y)
    if not prim.is_float(t):
        return prim.convert(prim.round(prim.pow(prim.convert(x, torch.float64), prim.convert(y, torch.float64))), t)
    return prim.pow(x, y)


def where(condition, x, y): return prim.where(condition, x, y)
def masked_fill(x, mask, value): return prim.where(mask, value, x).to(x.dtype)


def clamp(x, min=None, max=None):
    if min is not None:
        x = prim.maximum(x, min)
    return x if max is None else prim.minimum(x, max)


def clamp_min(x, min): return prim.maximum(x, min)
def clamp_max(x, max): return prim.minimum(x, max)
def clip(x, min=None, max=None): return clamp(x, min, max)
def lerp(x, end, weight): return x + weight * (end - x)
def addcmul(x, a, b, *, value=1): return x + a * b * value
def addcdiv(x, a, b, *, value=1): return x + a / b * value


# ---- activations ----

def gelu(x, approximate='none'):
    if approximate == 'tanh':
        return 0.5 * x * (1 + prim.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return x * 0.5 * (1 + prim.erf(x * 0.7071067811865476))


def gelu_backward(grad, x, approximate='none'):
    if approximate == 'tanh':
        t = prim.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
        inner = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner)
    return grad * (0.5 * (1 + prim.erf(x * 0.7071067811865476)) + x * prim.exp(x * x * -0.5) * 0.3989422804014327)


def silu(x, inplace=False): return x * prim.sigmoid(x)


def silu_backward(grad, x):
    s = prim.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


def threshold_backward(grad, x, threshold): return prim.where(x <= threshold, 0, grad).to(grad.dtype)
def sigmoid_backward(grad, y): return grad * (1 - y) * y
def tanh_backward(grad, y): return grad * (1 - y * y)
def leaky_relu(x, negative_slope=0.01, inplace=False): return prim.where(x > 0, x, x * negative_slope)


def elu(x, alpha=1.0, scale=1, input_scale=1, inplace=False):
    return prim.where(x > 0, x * scale, prim.expm1(x * input_scale) * (alpha * scale))


def F_elu(x, alpha=1.0, inplace=False): return elu(x, alpha)
def selu(x, inplace=False): return elu(x, 1.6732632423543772, 1.0507009873554805)
def celu(x, alpha=1.0, inplace=False): return prim.maximum(x, 0) + prim.minimum(alpha * prim.expm1(x / alpha), 0)


def softplus(x, beta=1, threshold=20):
    return prim.where(x * beta > threshold, x, prim.log1p(prim.exp(x * beta)) / beta)


def mish(x, inplace=False): return x * prim.tanh(softplus(x))
def logsigmoid(x): return -softplus(-x)
def softsign(x): return x / (1 + prim.abs(x))
def tanhshrink(x): return x - prim.tanh(x)
def relu6(x, inplace=False): return clamp(x, 0, 6)
def hardtanh(x, min_val=-1.0, max_val=1.0, inplace=False): return clamp(x, min_val, max_val)
def hardsigmoid(x, inplace=False): return clamp(x / 6 + 0.5, 0, 1)
def hardswish(x, inplace=False): return x * clamp(x + 3, 0, 6) / 6
def hardshrink(x, lambd=0.5): return prim.where(prim.abs(x) > lambd, x, 0).to(x.dtype)
def softshrink(x, lambd=0.5): return prim.where(x > lambd, x - lambd, prim.where(x < -lambd, x + lambd, 0)).to(x.dtype)
def threshold(x, threshold, value, inplace=False): return prim.where(x > threshold, x, value).to(x.dtype)


# ---- types, copies ----

def device(type, index=None): return type

def prims_convert_element_type(x, dtype): return prim.convert(x, dtype)
def aten__to_copy(x, *, dtype=None, **how): return x if dtype is None else prim.convert(x, dtype)


def tensor_to(x, *what, dtype=None, **how):
    for w in what:
        if isinstance(w, torch.Tensor):
            dtype = w.dtype
        elif is_dtype(w):
            dtype = w
    return x if dtype is None else prim.convert(x, dtype)


def is_dtype(x): return not isinstance(x, (str, bool, int, float, torch.Tensor)) and x is not None and prim.is_dtype(x)
def tensor_float(x): return prim.convert(x, torch.float32)
def tensor_double(x): return prim.convert(x, torch.float64)
def tensor_half(x): return prim.convert(x, torch.float16)
def tensor_bfloat16(x): return prim.convert(x, torch.bfloat16)
def tensor_long(x): return prim.convert(x, torch.int64)
def tensor_int(x): return prim.convert(x, torch.int32)
def tensor_bool(x): return prim.convert(x, torch.bool)
def type_as(x, y): return prim.convert(x, y.dtype)
def alias(x): return x
def detach(x): return x
def clone(x, *, memory_format=None): return x
def contiguous(x, memory_format=None): return x
def aten_copy_(x, value, non_blocking=False): return prim.write(x, value)
def tensor_cuda(x): return x
def tensor_cpu(x): return x
def tensor_requires_grad_(x, requires_grad=True): return x


# ---- creation ----

def sizes_of(size): return size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
def or_float(dtype): return torch.float32 if dtype is None else dtype
def type_of(value): return torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float32
def full(size, value, *, dtype=None, **how): return prim.full(size, value, type_of(value) if dtype is None else dtype)
def zeros(*size, dtype=None, **how): return prim.full(sizes_of(size), 0, or_float(dtype))
def ones(*size, dtype=None, **how): return prim.full(sizes_of(size), 1, or_float(dtype))
def empty(*size, dtype=None, **how): return prim.full(sizes_of(size), 0, or_float(dtype))
def full_like(x, value, *, dtype=None, **how): return prim.full(x.shape, value, x.dtype if dtype is None else dtype)
def zeros_like(x, *, dtype=None, **how): return full_like(x, 0, dtype=dtype)
def ones_like(x, *, dtype=None, **how): return full_like(x, 1, dtype=dtype)
def empty_like(x, *, dtype=None, **how): return full_like(x, 0, dtype=dtype)
def new_ones(x, size, *, dtype=None, **how): return prim.full(size, 1, x.dtype if dtype is None else dtype)
def new_zeros(x, size, *, dtype=None, **how): return prim.full(size, 0, x.dtype if dtype is None else dtype)
def new_full(x, size, value, *, dtype=None, **how): return prim.full(size, value, x.dtype if dtype is None else dtype)
def new_empty(x, size, *, dtype=None, **how): return new_zeros(x, size, dtype=dtype)
def scalar_tensor(value, *, dtype=None, **how): return prim.full([], value, or_float(dtype))


def arange(start, end=None, step=1, *, dtype=None, **how):
    if end is None:
        start, end = 0, start
    if isinstance(start, float) or isinstance(end, float) or isinstance(step, float):
        n = math.ceil((end - start) / step)
        return prim.iota(n, 0, 1, or_float(dtype)) * step + start
    n = (end - start + step - 1) // step if step > 0 else (start - end - step - 1) // -step
    return prim.iota(n, start, step, torch.int64 if dtype is None else dtype)


def prims_iota(n, *, start=0, step=1, dtype=None, **how): return prim.iota(n, start, step, dtype)
def linspace(start, end, steps, *, dtype=None, **how): return arange(steps) * ((end - start) / (steps - 1)) + start
def rand(*size, dtype=None, **how): return prim.uniform(sizes_of(size), or_float(dtype))
def rand_like(x, **how): return prim.uniform(x.shape, x.dtype)


def eye(n, m=None, *, dtype=None, **how):
    m = n if m is None else m
    return prim.convert(unsqueeze(arange(n), 1) == arange(m), or_float(dtype))


def tensor(data, *, dtype=None, **how):
    if isinstance(data, (list, tuple)):
        parts = [tensor(d, dtype=dtype) for d in data]
        t = prim.result_type(*parts)
        return stack([prim.convert(p, t) for p in parts], 0)
    return prim.full([], data, type_of(data) if dtype is None else dtype)


# ---- shapes ----

def dim_of(x, dim): return dim % x.ndim if x.ndim else 0


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
def view(x, *size): return prim.convert(x, size[0]) if is_dtype(size[0]) else prim.reshape(x, sizes_of(size))
def reshape(x, *size): return prim.reshape(x, sizes_of(size))
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


def swapaxes(x, dim0, dim1): return transpose(x, dim0, dim1)


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
    dims = all_dims(x, dim)
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


def as_strided(x, size, stride, storage_offset=0):
    expected = 1
    for d in range(len(size) - 1, -1, -1):
        if size[d] != 1 and stride[d] != expected:
            prim.fail("as_strided with strides that are not those of a row-major array is not supported")
        expected = expected * size[d]
    return prim.reshape(x, size)


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


def min_of(a, b): return a if a < b else b
def max_of(a, b): return a if a > b else b


def split_with_sizes(x, sizes, dim=0):
    out, at = [], 0
    for s in sizes:
        out.append(prim.slice(x, dim, at, at + s, 1))
        at = at + s
    return out


def chunk(x, chunks, dim=0):
    n = x.shape[dim]
    return split(x, (n + chunks - 1) // chunks, dim)


def unbind(x, dim=0): return [select(x, dim, i) for i in range(x.shape[dim])]


def cat(tensors, dim=0):
    parts = [p for p in tensors if not (p.ndim == 1 and p.shape[0] == 0)]
    t = prim.result_type(*parts)
    return prim.concat([prim.convert(p, t) for p in parts], dim)


def concat(tensors, dim=0): return cat(tensors, dim)


def stack(tensors, dim=0):
    d = dim % (tensors[0].ndim + 1)
    return cat([unsqueeze(x, d) for x in tensors], d)


def flip(x, *dims):
    for d in sizes_of(dims):
        x = prim.flip(x, d)
    return x


def roll(x, shifts, dims):
    s = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    for i, d in enumerate(all_dims(x, dims)):
        n = x.shape[d]
        k = (n - s[i]) % n
        x = prim.concat([prim.slice(x, d, k, n, 1), prim.slice(x, d, 0, k, 1)], d) if k else x
    return x


def tensor_repeat(x, *sizes):
    s = sizes_of(sizes)
    x = prim.reshape(x, [1] * (len(s) - x.ndim) + list(x.shape))
    out, wide, final = [], [], []
    for n, k in zip(x.shape, s):
        out += [1, n]
        wide += [k, n]
        final.append(k * n)
    return prim.reshape(prim.expand(prim.reshape(x, out), wide), final)


def repeat_interleave(x, repeats, dim=None):
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
    if mode != 'constant':
        prim.fail(f"F.pad with mode '{mode}' is not supported")
    return constant_pad_nd(x, pad, 0 if value is None else value)


def slice_scatter(x, src, dim=0, start=None, end=None, step=1):
    if step != 1:
        prim.fail("slice_scatter with a step is not supported")
    d = dim_of(x, dim)
    first = 0 if start is None else start + x.shape[d] if start < 0 else start
    parts = [prim.slice(x, d, 0, first, 1), src, prim.slice(x, d, first + src.shape[d], None, 1)]
    return prim.concat([p for p in parts if p.shape[d] != 0], d)


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


# ---- reductions ----

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
    if dim is None:
        return amax(x)
    return amax(x, dim, keepdim), argmax(x, dim, keepdim)


def min(x, dim=None, keepdim=False):
    if isinstance(dim, torch.Tensor):
        return prim.minimum(x, dim)
    if dim is None:
        return amin(x)
    return amin(x, dim, keepdim), argmin(x, dim, keepdim)


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


def any(x, dim=None, keepdim=False): return amax(to_bool(x), dim, keepdim)
def all(x, dim=None, keepdim=False): return amin(to_bool(x), dim, keepdim)


def var_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    dims = all_dims(x, dim)
    n = count(x, dims)
    less = correction if correction is not None else 1 if unbiased else 0
    m = prim.sum(x, dims) / n
    v = prim.sum(square(x - m), dims) / (n - less)
    return finish(v, dims, keepdim), finish(m, dims, keepdim)


def aten_var_mean_correction(x, dim=None, *, correction=1, keepdim=False):
    return var_mean(x, dim, keepdim=keepdim, correction=correction)


def var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    return var_mean(x, dim, unbiased, keepdim, correction=correction)[0]


def std(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    return prim.sqrt(var(x, dim, unbiased, keepdim, correction=correction))


def norm(x, p=2, dim=None, keepdim=False, *, dtype=None):
    if p == 'fro' or p == 2 or p is None:
        return prim.sqrt(sum(x * x, dim, keepdim))
    if p == 1:
        return sum(prim.abs(x), dim, keepdim)
    if p == math.inf:
        return amax(prim.abs(x), dim, keepdim)
    return prim.pow(sum(prim.pow(prim.abs(x), p), dim, keepdim), 1 / p)


def linalg_norm(x, ord=None, dim=None, keepdim=False): return norm(x, 2 if ord is None else ord, dim, keepdim)
def linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None): return norm(x, ord, dim, keepdim)


def logsumexp(x, dim, keepdim=False):
    dims = all_dims(x, dim)
    m = prim.max(x, dims)
    m = prim.where(prim.abs(m) == math.inf, 0, m)
    return finish(prim.log(prim.sum(prim.exp(x - m), dims)) + m, dims, keepdim)


def cumsum(x, dim, *, dtype=None): return prim.cumsum(prim.convert(x, summed_type(x, dtype)), dim)


def softmax(x, dim=-1, dtype=None, *, _stacklevel=3):
    if dtype is not None:
        x = prim.convert(x, dtype)
    dims = all_dims(x, dim)
    e = prim.exp(x - prim.max(x, dims))
    return e / prim.sum(e, dims)


def log_softmax(x, dim=-1, dtype=None, *, _stacklevel=3):
    if dtype is not None:
        x = prim.convert(x, dtype)
    dims = all_dims(x, dim)
    y = x - prim.max(x, dims)
    return y - prim.log(prim.sum(prim.exp(y), dims))


def aten__softmax(x, dim, half_to_float): return softmax(x, dim, torch.float32 if half_to_float else None)
def aten__log_softmax(x, dim, half_to_float): return log_softmax(x, dim, torch.float32 if half_to_float else None)


def aten__softmax_backward_data(grad, y, dim, dtype):
    g = grad * y
    return prim.convert(g - y * prim.sum(g, all_dims(g, dim)), dtype)


def aten__log_softmax_backward_data(grad, y, dim, dtype):
    return prim.convert(grad - prim.exp(y) * prim.sum(grad, all_dims(grad, dim)), dtype)


# ---- elements by index ----

def wrap(index, n):
    i = prim.convert(index, torch.int64)
    return prim.where(i < 0, i + n, i)


def gather(x, dim, index, *, sparse_grad=False):
    if x.ndim == 0:
        return x
    d = dim_of(x, dim)
    for k in range(x.ndim):
        if k != d:
            x = prim.slice(x, k, 0, index.shape[k], 1)
    return prim.gather(x, wrap(index, x.shape[d]), d)


# Rows of dims before `dims` are each their own; scatter's index may be smaller than its tensor in other dims.
def scatter_into(x, dim, index, src, add):
    d = dim_of(x, dim)
    for k in range(x.ndim):
        if k != d and index.shape[k] != x.shape[k]:
            prim.fail("scatter with an index that is smaller than its tensor is not supported")
    src = prim.convert(src, x.dtype)
    for k in range(x.ndim):
        src = prim.slice(src, k, 0, index.shape[k], 1)
    f = prim.scatter_add if add else prim.scatter
    return f(x, wrap(index, x.shape[d]), src, d)


def aten_scatter_value(x, dim, index, value): return scatter_into(x, dim, index, full_like(index, value, dtype=x.dtype), False)
def aten_scatter_src(x, dim, index, src): return scatter_into(x, dim, index, src, False)


def scatter(x, dim, index, src):
    return aten_scatter_src(x, dim, index, src) if isinstance(src, torch.Tensor) else aten_scatter_value(x, dim, index, src)


def scatter_add(x, dim, index, src): return scatter_into(x, dim, index, src, True)


def index_select(x, dim, index):
    places = [None] * x.ndim
    places[dim_of(x, dim)] = index
    return aten_index(x, places)


# Of x[places]: the indexed dims, their place in the result, one index into them all, and x with them in front, flat.
def indexed(x, places):
    dims = [d for d in range(len(places)) if places[d] is not None]
    for d in dims:
        if prim.is_bool(places[d].dtype):
            prim.fail("an index of bools: how many elements it takes depends on data")
    rest = [d for d in range(x.ndim) if d not in dims]
    where_to = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    shaped = prim.broadcast(*[prim.convert(places[d], torch.int64) for d in dims])
    flat = 0
    for i, d in zip(shaped, dims):
        flat = flat * x.shape[d] + wrap(i, x.shape[d])
    order = dims + rest
    rows = prim.reshape(prim.permute(x, order), [count(x, dims), count(x, rest)])
    return dims, rest, order, where_to, flat, rows


def aten_index(x, places):
    dims, rest, order, where_to, flat, rows = indexed(x, places)
    n, width = prim.numel(flat), count(x, rest)
    y = prim.gather(rows, prim.expand(prim.reshape(flat, [n, 1]), [n, width]), 0)
    y = prim.reshape(y, list(flat.shape) + [x.shape[d] for d in rest])
    k = flat.ndim
    first = list(range(k, k + where_to))
    return prim.permute(y, first + list(range(k)) + list(range(k + where_to, y.ndim)))


def index(x, places): return aten_index(x, places)


def index_put(x, places, values, accumulate=False):
    if len(places) == 1 and places[0] is not None and prim.is_bool(places[0].dtype) and prim.numel(values) == 1:
        mask = places[0]
        mask = prim.reshape(mask, list(mask.shape) + [1] * (x.ndim - mask.ndim))
        return prim.where(mask, prim.reshape(values, []), x).to(x.dtype)
    dims, rest, order, where_to, flat, rows = indexed(x, places)
    n, width, k = prim.numel(flat), count(x, rest), flat.ndim
    shape = [x.shape[d] for d in rest]
    v = prim.expand(values, shape[:where_to] + list(flat.shape) + shape[where_to:])
    back = list(range(where_to, where_to + k)) + list(range(where_to)) + list(range(where_to + k, v.ndim))
    v = prim.convert(prim.reshape(prim.permute(v, back), [n, width]), x.dtype)
    f = prim.scatter_add if accumulate else prim.scatter
    y = f(rows, prim.expand(prim.reshape(flat, [n, 1]), [n, width]), v, 0)
    y = prim.reshape(y, [x.shape[d] for d in order])
    return prim.permute(y, [order.index(d) for d in range(x.ndim)])


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False): return aten_index(weight, [indices])
def F_embedding(x, weight, padding_idx=None, **how): return aten_index(weight, [x])


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


def argsort(x, dim=-1, descending=False, stable=False): return sort(x, dim, descending)[1]


def sort(x, dim=-1, descending=False, stable=False):
    if x.ndim == 0:
        return x, prim.full([], 0, torch.int64)
    y = transpose(x, dim, -1)
    places = prim.expand(arange(y.shape[-1]), y.shape)
    order = prim.scatter(prim.full(y.shape, 0, torch.int64), ranks(y, descending), places, -1)
    return transpose(prim.gather(y, order, -1), dim, -1), transpose(order, dim, -1)


def topk(x, k, dim=-1, largest=True, sorted=True):
    values, order = sort(x, dim, largest)
    return prim.slice(values, dim, 0, k, 1), prim.slice(order, dim, 0, k, 1)


def histc(x, bins=100, min=0, max=0):
    place = prim.floor((prim.convert(x, torch.float32) - min) * (bins / (max - min)))
    place = prim.where(x == max, bins - 1, place)
    hits = (flatten(place) == unsqueeze(arange(bins), 1)) & flatten((x >= min) & (x <= max))
    return prim.convert(sum(hits, 1), x.dtype)


# ---- products ----

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


# ---- convolutions: products of windows ----

# [groups, N * places, channels of a group * window]
def windows(x, kernel, stride, padding, dilation, groups):
    n, c, dims = x.shape[0], x.shape[1], len(kernel)
    pad = [0, 0] + list(padding)
    y = prim.pad(x, pad, pad, [0] * x.ndim, 0)
    for i in range(dims):
        y = prim.unfold(y, 2 + i, kernel[i], stride[i], dilation[i])
    places = list(y.shape[2:2 + dims])
    y = prim.reshape(y, [n, groups, c // groups] + places + list(kernel))
    y = prim.permute(y, [1, 0] + list(range(3, 3 + dims)) + [2] + list(range(3 + dims, 3 + 2 * dims)))
    rows, width = n, c // groups
    for i in range(dims):
        rows, width = rows * places[i], width * kernel[i]
    return prim.reshape(y, [groups, rows, width]), places


def convolve(x, w, stride, padding, dilation, groups):
    kernel, dims = list(w.shape[2:]), x.ndim - 2
    m, places = windows(x, kernel, stride, padding, dilation, groups)
    out, width = w.shape[0] // groups, m.shape[2]
    y = prim.dot(m, transpose(prim.reshape(w, [groups, out, width]), 1, 2))
    y = prim.reshape(y, [groups, x.shape[0]] + places + [out])
    y = prim.permute(y, [1, 0, y.ndim - 1] + list(range(2, 2 + dims)))
    return prim.reshape(y, [x.shape[0], w.shape[0]] + places)


def convolve_transposed(x, w, stride, padding, output_padding, dilation, groups):
    dims, kernel = x.ndim - 2, list(w.shape[2:])
    low = [dilation[i] * (kernel[i] - 1) - padding[i] for i in range(dims)]
    high = [low[i] + output_padding[i] for i in range(dims)]
    for i in range(dims):
        if low[i] < 0 or high[i] < 0:
            prim.fail("a transposed convolution that cuts its borders is not supported")
    y = prim.pad(x, [0, 0] + low, [0, 0] + high, [0, 0] + [s - 1 for s in stride], 0)
    w = flip(w, list(range(2, w.ndim)))
    w = prim.reshape(w, [groups, x.shape[1] // groups, w.shape[1]] + kernel)
    w = prim.permute(w, [0, 2, 1] + list(range(3, w.ndim)))
    w = prim.reshape(w, [w.shape[0] * w.shape[1], w.shape[2]] + kernel)
    return convolve(y, w, [1] * dims, [0] * dims, dilation, groups)


def of_dims(v, dims): return list(v) * dims if isinstance(v, (list, tuple)) and len(v) == 1 else list(v) if isinstance(v, (list, tuple)) else [v] * dims


def convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    dims = w.ndim - 2
    s, p, d = of_dims(stride, dims), of_dims(padding, dims), of_dims(dilation, dims)
    if transposed:
        y = convolve_transposed(x, w, s, p, of_dims(output_padding, dims), d, groups)
    else:
        y = convolve(x, w, s, p, d, groups)
    return y if bias is None else y + prim.reshape(bias, [bias.shape[0]] + [1] * dims)


def convolution_backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    if transposed:
        prim.fail("the gradient of a transposed convolution is not supported")
    dims, kernel = w.ndim - 2, list(w.shape[2:])
    s, p, d = of_dims(stride, dims), of_dims(padding, dims), of_dims(dilation, dims)
    gx, gw, gb = None, None, None
    if mask[0]:
        more = [x.shape[2 + i] - ((grad.shape[2 + i] - 1) * s[i] - 2 * p[i] + d[i] * (kernel[i] - 1) + 1) for i in range(dims)]
        gx = convolve_transposed(grad, w, s, p, more, d, groups)
    if mask[1]:
        m, places = windows(x, kernel, s, p, d, groups)
        n, out = x.shape[0], w.shape[0] // groups
        g = prim.reshape(grad, [n, groups, out] + places)
        g = prim.permute(g, [1, 2, 0] + list(range(3, 3 + dims)))
        gw = prim.reshape(prim.dot(prim.reshape(g, [groups, out, m.shape[1]]), m), w.shape)
    if mask[2]:
        gb = sum(grad, [0] + list(range(2, grad.ndim)))
    return gx, gw, gb


def F_conv1d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, w, bias, stride, padding, dilation, groups)
def F_conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, w, bias, stride, padding, dilation, groups)
def F_conv3d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, w, bias, stride, padding, dilation, groups)
def conv1d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, w, bias, stride, padding, dilation, groups)
def conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, w, bias, stride, padding, dilation, groups)
def conv3d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, w, bias, stride, padding, dilation, groups)


def conv(x, w, bias, stride, padding, dilation, groups):
    if padding == 'valid':
        padding = 0
    if padding == 'same':
        prim.fail("padding='same' is not supported")
    return convolution(x, w, bias, stride, padding, dilation, False, 0, groups)


def conv_transpose(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return convolution(x, w, bias, stride, padding, dilation, True, output_padding, groups)


# ---- pooling ----

# [N, C, places..., window], -inf where the window reaches over the border
def pool_windows(x, kernel, stride, padding, dilation, value):
    dims = len(kernel)
    lead = x.ndim - dims
    pad = [0] * lead + list(padding)
    y = prim.pad(x, pad, pad, [0] * x.ndim, value)
    for i in range(dims):
        y = prim.unfold(y, lead + i, kernel[i], stride[i], dilation[i])
    return flatten(y, lead + dims, -1)


def prims__low_memory_max_pool_with_offsets(x, kernel, stride, padding, dilation, ceil_mode):
    if ceil_mode:
        prim.fail("max pooling with ceil_mode is not supported")
    w = pool_windows(x, kernel, stride, padding, dilation, -math.inf)
    return amax(w, -1), prim.convert(argmax(w, -1), torch.int8)


def prims__low_memory_max_pool_offsets_to_indices(offsets, kernel, sizes, stride, padding, dilation):
    dims = len(kernel)
    left, flat, scale = prim.convert(offsets, torch.int64), 0, 1
    for i in range(dims - 1, -1, -1):
        inside = remainder(left, kernel[i])
        left = prim.floordiv(left, kernel[i])
        place = prim.reshape(arange(offsets.shape[offsets.ndim - dims + i]), [-1] + [1] * (dims - 1 - i))
        flat = flat + (place * stride[i] - padding[i] + inside * dilation[i]) * scale
        scale = scale * sizes[i]
    return flat


def max_pool2d_with_indices(x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    k = of_dims(kernel, 2)
    s = of_dims(stride, 2) if stride is not None and stride != [] else k
    p, d = of_dims(padding, 2), of_dims(dilation, 2)
    y, offsets = prims__low_memory_max_pool_with_offsets(x, k, s, p, d, ceil_mode)
    return y, prims__low_memory_max_pool_offsets_to_indices(offsets, k, list(x.shape[-2:]), s, p, d)


def max_pool2d_with_indices_backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices):
    planes = count(x, list(range(x.ndim - 2)))
    inner, outer = x.shape[-2] * x.shape[-1], grad.shape[-2] * grad.shape[-1]
    zero = prim.full([planes, inner], 0, grad.dtype)
    y = prim.scatter_add(zero, prim.reshape(indices, [planes, outer]), prim.reshape(grad, [planes, outer]), 1)
    return prim.reshape(y, x.shape)


# ---- normalisation, dropout ----

def native_layer_norm(x, shape, weight, bias, eps):
    dims = list(range(x.ndim - len(shape), x.ndim))
    v, m = var_mean(x, dims, keepdim=True, correction=0)
    r = prim.rsqrt(v + eps)
    y = (x - m) * r
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, m, r


def layer_norm(x, shape, weight=None, bias=None, eps=1e-05): return native_layer_norm(x, shape, weight, bias, eps)[0]


def rms_norm(x, shape, weight=None, eps=None):
    dims = list(range(x.ndim - len(shape), x.ndim))
    y = x * prim.rsqrt(mean(x * x, dims, True) + (1.1920928955078125e-07 if eps is None else eps))
    return y if weight is None else y * weight


def native_layer_norm_backward(grad, x, shape, m, r, weight, bias, mask):
    dims, outer = list(range(x.ndim - len(shape), x.ndim)), list(range(x.ndim - len(shape)))
    n, h = count(x, dims), (x - m) * r
    g = grad if weight is None else grad * weight
    gx, gw, gb = None, None, None
    if mask[0]:
        gx = r * (g - prim.sum(g, dims) / n - h * (prim.sum(g * h, dims) / n))
    if mask[1]:
        gw = sum(grad * h, outer)
    if mask[2]:
        gb = sum(grad, outer)
    return gx, gw, gb


def channels(x, v): return prim.reshape(v, [v.shape[0]] + [1] * (x.ndim - 2))
def others(x): return [0] + list(range(2, x.ndim))


def normalise(x, weight, bias, m, r):
    y = (x - channels(x, m)) * channels(x, r)
    y = y if weight is None else y * channels(x, weight)
    return y if bias is None else y + channels(x, bias)


def aten__native_batch_norm_legit_functional(x, weight, bias, running_mean, running_var, training, momentum, eps):
    if not training:
        r = prim.rsqrt(running_var + eps)
        return normalise(x, weight, bias, running_mean, r), zeros(0), zeros(0), running_mean, running_var
    dims = others(x)
    v, m = var_mean(x, dims, correction=0)
    n, r = count(x, dims), prim.rsqrt(v + eps)
    new_mean = running_mean * (1 - momentum) + m * momentum
    new_var = running_var * (1 - momentum) + v * (n / (n - 1) * momentum)
    return normalise(x, weight, bias, m, r), m, r, new_mean, new_var


def aten__native_batch_norm_legit_no_training(x, weight, bias, running_mean, running_var, momentum, eps):
    return normalise(x, weight, bias, running_mean, prim.rsqrt(running_var + eps)), zeros(0), zeros(0)


def native_batch_norm_backward(grad, x, weight, running_mean, running_var, m, r, train, eps, mask):
    if not train:
        m, r = running_mean, prim.rsqrt(running_var + eps)
    dims = others(x)
    n, h = count(x, dims), (x - channels(x, m)) * channels(x, r)
    scale = channels(x, r) if weight is None else channels(x, r * weight)
    gb, gw = sum(grad, dims), sum(grad * h, dims)
    gx = grad * scale
    if train:
        gx = scale * (grad - channels(x, gb) / n - h * (channels(x, gw) / n))
    return gx, gw, gb


def group_norm(x, groups, weight=None, bias=None, eps=1e-05):
    y = prim.reshape(x, [x.shape[0], groups, count(x, list(range(1, x.ndim))) // groups])
    v, m = var_mean(y, 2, keepdim=True, correction=0)
    y = prim.reshape((y - m) * prim.rsqrt(v + eps), x.shape)
    y = y if weight is None else y * channels(x, weight)
    return y if bias is None else y + channels(x, bias)


def native_dropout(x, p, train):
    if not train or p == 0:
        return x, prim.full(x.shape, True, torch.bool)
    keep = prim.uniform(x.shape, torch.float32) > p
    return x * keep * (1 / (1 - p)), keep


def native_dropout_backward(grad, mask, scale): return grad * mask * scale
def dropout(x, p=0.5, training=True, inplace=False): return native_dropout(x, p, training)[0]


# ---- losses ----

def picked(target, n): return unsqueeze(target, 1) == prim.reshape(arange(n), [1, -1] + [1] * (target.ndim - 1))


def nll_loss_forward(x, target, weight, reduction, ignore_index):
    if x.ndim == 1:
        x, target = unsqueeze(x, 0), unsqueeze(target, 0)
    kept = target != ignore_index
    hit = picked(target, x.shape[1])
    w = prim.full([x.shape[1]], 1, x.dtype) if weight is None else weight
    each = prim.sum(prim.where(hit, x * channels(x, w), 0).to(x.dtype), [1])
    weights = prim.sum(prim.where(hit, channels(x, w), 0).to(x.dtype), [1])
    each, weights = without(each, [1]), without(weights, [1])
    each = prim.where(kept, -each, 0).to(x.dtype)
    total = sum(prim.where(kept, weights, 0).to(x.dtype))
    if reduction == 0:
        return each, prim.full([], 0, x.dtype)
    return (sum(each) / total if reduction == 1 else sum(each)), total


def nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    g = -grad / total_weight if reduction == 1 else -grad
    if reduction == 0:
        g = unsqueeze(g, 1)
    hit = picked(target, x.shape[1]) & unsqueeze(target != ignore_index, 1)
    w = 1 if weight is None else channels(x, weight)
    return prim.where(hit, g * w, 0).to(x.dtype)


REDUCTIONS = {'none': 0, 'mean': 1, 'sum': 2}


def nll_loss(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
    return nll_loss_forward(x, target, weight, REDUCTIONS[reduction], ignore_index)[0]


def cross_entropy(x, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
    return nll_loss(log_softmax(x, 1 if x.ndim > 1 else 0), target, weight, None, ignore_index, None, reduction)


def reduced(x, reduction): return x if reduction == 'none' else mean(x) if reduction == 'mean' else sum(x)
def mse_loss(x, y, size_average=None, reduce=None, reduction='mean'): return reduced(square(x - y), reduction)
def l1_loss(x, y, size_average=None, reduce=None, reduction='mean'): return reduced(prim.abs(x - y), reduction)


def smooth_l1_loss(x, y, size_average=None, reduce=None, reduction='mean', beta=1.0):
    d = prim.abs(x - y)
    return reduced(prim.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta), reduction)


# ---- attention ----

def attention_scores(q, k, is_causal, attn_mask, scale):
    s = matmul(q, transpose(k, -2, -1)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        s = prim.where(unsqueeze(arange(s.shape[-2]), 1) >= arange(s.shape[-1]), s, -math.inf).to(s.dtype)
    if attn_mask is None:
        return s
    return prim.where(attn_mask, s, -math.inf).to(s.dtype) if prim.is_bool(attn_mask.dtype) else s + attn_mask


def aten__scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    s = attention_scores(q, k, is_causal, attn_mask, scale)
    return matmul(softmax(s, -1), v), logsumexp(prim.convert(s, torch.float32), -1)


def aten__scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, lse, dropout_p, is_causal, *, attn_mask=None, scale=None):
    p = prim.exp(attention_scores(q, k, is_causal, attn_mask, scale) - unsqueeze(lse, -1)).to(q.dtype)
    gv = matmul(transpose(p, -2, -1), grad)
    gp = matmul(grad, transpose(v, -2, -1))
    gs = p * (gp - prim.sum(grad * out, [out.ndim - 1])) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return matmul(gs, k), matmul(transpose(gs, -2, -1), q), gv


def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        k, v = repeat_interleave(k, q.shape[-3] // k.shape[-3], -3), repeat_interleave(v, q.shape[-3] // v.shape[-3], -3)
    p = softmax(attention_scores(q, k, is_causal, attn_mask, scale), -1)
    return matmul(dropout(p, dropout_p) if dropout_p > 0 else p, v)


# ---- lists of tensors, as optimizers have them ----

def aten__foreach_add_List(xs, ys, *, alpha=1): return [add(x, y, alpha=alpha) for x, y in zip(xs, ys)]
def aten__foreach_add(xs, y): return [x + y for x in xs]
def aten__foreach_sub_List(xs, ys, *, alpha=1): return [sub(x, y, alpha=alpha) for x, y in zip(xs, ys)]
def aten__foreach_sub(xs, y): return [x - y for x in xs]
def aten__foreach_mul_List(xs, ys): return [x * y for x, y in zip(xs, ys)]
def aten__foreach_mul(xs, y): return [x * y for x in xs]
def aten__foreach_div_List(xs, ys): return [x / y for x, y in zip(xs, ys)]
def aten__foreach_div(xs, y): return [x / y for x in xs]
def aten__foreach_neg(xs): return [-x for x in xs]
def aten__foreach_sqrt(xs): return [prim.sqrt(x) for x in xs]
def aten__foreach_reciprocal(xs): return [1 / x for x in xs]
def aten__foreach_pow_ScalarAndTensor(x, ys): return [pow(x, y) for y in ys]
