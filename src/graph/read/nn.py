# torch.nn: modules, and the functions that only they need. Read after torch.py, into the same names.
#
# A parameter or buffer is an input of the graph, called by its path ("layers.0.weight"); what a run gives a buffer anew
# is written back. Modules are in training mode until eval() is called, as PyTorch's are.


class Module:
    training = True

    def train(self, mode=True):
        self.training = mode
        for child in prim.children(self):
            child.train(mode)
        return self

    def eval(self): return self.train(False)
    def to(self, *where, **how): return self
    def cuda(self, device=None): return self
    def cpu(self): return self
    def float(self): return self
    def apply(self, f): return self
    def requires_grad_(self, requires_grad=True): return self
    def register_parameter(self, name, value): setattr(self, name, value)
    def register_buffer(self, name, value, persistent=True): setattr(self, name, value if value is None else prim.parameter(value.shape, value.dtype))
    def add_module(self, name, module): setattr(self, name, module)
    def children(self): return prim.children(self)


def Parameter(data, requires_grad=True): return prim.parameter(data.shape, data.dtype)
def Buffer(data, persistent=True): return prim.parameter(data.shape, data.dtype)


class Sequential(Module):
    def __init__(self, *modules):
        self._items = list(modules[0].values()) if len(modules) == 1 and isinstance(modules[0], dict) else list(modules)

    def __getitem__(self, i): return self._items[i]
    def append(self, module): self._items.append(module)

    def forward(self, x):
        for m in self._items:
            x = m(x)
        return x


class ModuleList(Module):
    def __init__(self, modules=()): self._items = list(modules)
    def __getitem__(self, i): return self._items[i]
    def append(self, module): self._items.append(module)
    def extend(self, modules): self._items.extend(modules)


class ParameterList(ModuleList):
    pass


class ModuleDict(Module):
    def __init__(self, modules=None): self._dict = {} if modules is None else modules
    def __getitem__(self, name): return self._dict[name]
    def items(self): return self._dict.items()
    def values(self): return self._dict.values()
    def keys(self): return self._dict.keys()


class Identity(Module):
    def __init__(self, *args, **how): self.training = True
    def forward(self, x): return x


# ---- elementwise modules: the function of that name, with what the module was made with ----

class Elementwise(Module):
    def __init__(self, *args, inplace=False, **how):
        self.args = [a for a in args if not isinstance(a, bool)]
        self.how = how

    def forward(self, x): return self.call(x, *self.args, **self.how)


class ReLU(Elementwise):
    def call(self, x): return relu(x)


class ReLU6(Elementwise):
    def call(self, x): return relu6(x)


class GELU(Elementwise):
    def call(self, x, approximate='none'): return gelu(x, approximate)


class SiLU(Elementwise):
    def call(self, x): return silu(x)


class Mish(Elementwise):
    def call(self, x): return mish(x)


class Sigmoid(Elementwise):
    def call(self, x): return sigmoid(x)


class Tanh(Elementwise):
    def call(self, x): return tanh(x)


class LogSigmoid(Elementwise):
    def call(self, x): return logsigmoid(x)


class Softsign(Elementwise):
    def call(self, x): return softsign(x)


class Hardswish(Elementwise):
    def call(self, x): return hardswish(x)


class Hardsigmoid(Elementwise):
    def call(self, x): return hardsigmoid(x)


class LeakyReLU(Elementwise):
    def call(self, x, negative_slope=0.01): return leaky_relu(x, negative_slope)


class ELU(Elementwise):
    def call(self, x, alpha=1.0): return elu(x, alpha)


class CELU(Elementwise):
    def call(self, x, alpha=1.0): return celu(x, alpha)


class SELU(Elementwise):
    def call(self, x): return selu(x)


class Softplus(Elementwise):
    def call(self, x, beta=1, threshold=20): return softplus(x, beta, threshold)


class Hardtanh(Elementwise):
    def call(self, x, min_val=-1.0, max_val=1.0): return hardtanh(x, min_val, max_val)


class Hardshrink(Elementwise):
    def call(self, x, lambd=0.5): return hardshrink(x, lambd)


class Softshrink(Elementwise):
    def call(self, x, lambd=0.5): return softshrink(x, lambd)


class Threshold(Elementwise):
    def call(self, x, threshold, value): return prim.where(x > threshold, x, value).to(x.dtype)


class Softmax(Elementwise):
    def call(self, x, dim=-1): return softmax(x, dim)


class LogSoftmax(Elementwise):
    def call(self, x, dim=-1): return log_softmax(x, dim)


class Softmin(Elementwise):
    def call(self, x, dim=-1): return softmax(-x, dim)


class Flatten(Elementwise):
    def call(self, x, start_dim=1, end_dim=-1): return flatten(x, start_dim, end_dim)


class Unflatten(Elementwise):
    def call(self, x, dim, unflattened_size): return unflatten(x, dim, unflattened_size)


class PReLU(Module):
    def __init__(self, num_parameters=1, init=0.25, **how): self.weight = prim.parameter([num_parameters], torch.float32)
    def forward(self, x): return prim.where(x > 0, x, x * (channels(x, self.weight) if self.weight.shape[0] > 1 else self.weight))


class GLU(Elementwise):
    def call(self, x, dim=-1): return glu(x, dim)


def glu(x, dim=-1):
    a, b = chunk(x, 2, dim)
    return a * sigmoid(b)


class Dropout(Module):
    def __init__(self, p=0.5, inplace=False): self.p = p
    def forward(self, x): return dropout(x, self.p, self.training)


class Dropout2d(Dropout):
    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        keep = prim.uniform(list(x.shape[:2]) + [1] * (x.ndim - 2), torch.float32) > self.p
        return x * keep * (1 / (1 - self.p))


# ---- products ----

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


class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, **how):
        self.weight = prim.parameter([num_embeddings, embedding_dim], torch.float32)

    def forward(self, x): return embedding(self.weight, x)


class Convolution(Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode='zeros', device=None, dtype=None):
        if padding_mode != 'zeros':
            prim.fail(f"padding_mode='{padding_mode}' is not supported")
        self.stride, self.dilation, self.groups = stride, dilation, groups
        k = of_dims(kernel_size, self.dims)
        self.padding = [d * (n - 1) // 2 for d, n in zip(of_dims(dilation, self.dims), k)] if padding == 'same' else 0 if padding == 'valid' else padding
        self.weight = prim.parameter([out_channels, in_channels // groups] + k, or_float(dtype))
        self.bias = prim.parameter([out_channels], or_float(dtype)) if bias else None

    def forward(self, x):
        if x.ndim == self.dims + 1:
            return squeeze(conv(unsqueeze(x, 0), self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups), 0)
        return conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(Convolution):
    dims = 1


class Conv2d(Convolution):
    dims = 2


class Conv3d(Convolution):
    dims = 3


class TransposedConvolution(Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode='zeros', device=None, dtype=None):
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups
        self.weight = prim.parameter([in_channels, out_channels // groups] + of_dims(kernel_size, self.dims), or_float(dtype))
        self.bias = prim.parameter([out_channels], or_float(dtype)) if bias else None

    def forward(self, x):
        return conv_transpose(x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)


class ConvTranspose1d(TransposedConvolution):
    dims = 1


class ConvTranspose2d(TransposedConvolution):
    dims = 2


class ConvTranspose3d(TransposedConvolution):
    dims = 3


def conv_transpose1d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1): return conv_transpose(x, w, bias, stride, padding, output_padding, groups, dilation)
def conv_transpose2d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1): return conv_transpose(x, w, bias, stride, padding, output_padding, groups, dilation)
def conv_transpose3d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1): return conv_transpose(x, w, bias, stride, padding, output_padding, groups, dilation)


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


# ---- normalisation ----

class BatchNorm(Module):
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, **how):
        self.eps, self.momentum, self.track = eps, momentum, track_running_stats
        self.weight = prim.parameter([num_features], torch.float32) if affine else None
        self.bias = prim.parameter([num_features], torch.float32) if affine else None
        self.running_mean = prim.parameter([num_features], torch.float32)
        self.running_var = prim.parameter([num_features], torch.float32)

    def forward(self, x):
        training = self.training or not self.track
        y, m, r, mean, var = aten__native_batch_norm_legit_functional(x, self.weight, self.bias, self.running_mean, self.running_var, training, self.momentum, self.eps)
        if self.training and self.track:
            prim.write(self.running_mean, mean)
            prim.write(self.running_var, var)
        return y


class BatchNorm1d(BatchNorm):
    pass


class BatchNorm2d(BatchNorm):
    pass


class BatchNorm3d(BatchNorm):
    pass


class InstanceNorm(Module):
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False, **how):
        self.eps = eps
        self.weight = prim.parameter([num_features], torch.float32) if affine else None
        self.bias = prim.parameter([num_features], torch.float32) if affine else None

    def forward(self, x): return instance_norm(x, None, None, self.weight, self.bias, True, 0.1, self.eps)


def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05):
    v, m = var_mean(x, list(range(2, x.ndim)), keepdim=True, correction=0)
    y = (x - m) * prim.rsqrt(v + eps)
    y = y if weight is None else y * channels(x, weight)
    return y if bias is None else y + channels(x, bias)


class InstanceNorm1d(InstanceNorm):
    pass


class InstanceNorm2d(InstanceNorm):
    pass


class InstanceNorm3d(InstanceNorm):
    pass


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-05, elementwise_affine=True, bias=True, **how):
        self.shape, self.eps = of_dims(normalized_shape, 1), eps
        self.weight = prim.parameter(self.shape, torch.float32) if elementwise_affine else None
        self.bias = prim.parameter(self.shape, torch.float32) if elementwise_affine and bias else None

    def forward(self, x): return layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, **how):
        self.shape, self.eps = of_dims(normalized_shape, 1), eps
        self.weight = prim.parameter(self.shape, torch.float32) if elementwise_affine else None

    def forward(self, x): return rms_norm(x, self.shape, self.weight, self.eps)


class GroupNorm(Module):
    def __init__(self, num_groups, num_channels, eps=1e-05, affine=True, **how):
        self.groups, self.eps = num_groups, eps
        self.weight = prim.parameter([num_channels], torch.float32) if affine else None
        self.bias = prim.parameter([num_channels], torch.float32) if affine else None

    def forward(self, x): return group_norm(x, self.groups, self.weight, self.bias, self.eps)


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    return aten__native_batch_norm_legit_functional(x, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def normalize(x, p=2.0, dim=1, eps=1e-12): return x / prim.maximum(norm(x, p, dim, True), eps)


def cosine_similarity(a, b, dim=1, eps=1e-08):
    return sum(a * b, dim) / (prim.maximum(norm(a, 2, dim), eps) * prim.maximum(norm(b, 2, dim), eps))


# ---- pooling ----

def pooled(x, kernel, stride, padding, dilation, ceil_mode, value, dims):
    if ceil_mode:
        prim.fail("pooling with ceil_mode is not supported")
    k = of_dims(kernel, dims)
    s = k if stride is None else of_dims(stride, dims)
    return pool_windows(x, k, s, of_dims(padding, dims), of_dims(dilation, dims), value)


def max_pool(x, kernel, stride, padding, dilation, ceil_mode, dims):
    return amax(pooled(x, kernel, stride, padding, dilation, ceil_mode, -math.inf, dims), -1)


def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor, dims):
    w = pooled(x, kernel, stride, padding, 1, ceil_mode, 0, dims)
    if divisor is not None:
        return sum(w, -1) / divisor
    if count_include_pad:
        return mean(w, -1)
    ones = pooled(ones_like(x), kernel, stride, padding, 1, ceil_mode, 0, dims)
    return sum(w, -1) / sum(ones, -1)


def max_pool1d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False): return max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, 1)
def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False): return max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, 2)
def max_pool3d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False): return max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, 3)
def avg_pool1d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True): return avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)
def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None): return avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)
def avg_pool3d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None): return avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


def adaptive_windows(x, output_size, dims):
    out = of_dims(output_size, dims)
    lead = x.ndim - dims
    kernel = []
    for i in range(dims):
        n = x.shape[lead + i]
        o = n if out[i] is None else out[i]
        if n % o != 0:
            prim.fail("adaptive pooling to a size that does not divide the input's is not supported")
        kernel.append(n // o)
    return pool_windows(x, kernel, kernel, [0] * dims, [1] * dims, 0)


def adaptive_avg_pool1d(x, output_size): return mean(adaptive_windows(x, output_size, 1), -1)
def adaptive_avg_pool2d(x, output_size): return mean(adaptive_windows(x, output_size, 2), -1)
def adaptive_avg_pool3d(x, output_size): return mean(adaptive_windows(x, output_size, 3), -1)
def adaptive_max_pool1d(x, output_size, return_indices=False): return amax(adaptive_windows(x, output_size, 1), -1)
def adaptive_max_pool2d(x, output_size, return_indices=False): return amax(adaptive_windows(x, output_size, 2), -1)
def adaptive_max_pool3d(x, output_size, return_indices=False): return amax(adaptive_windows(x, output_size, 3), -1)


class MaxPool1d(Elementwise):
    def call(self, x, *args, **how): return max_pool1d(x, *args, **how)


class MaxPool2d(Elementwise):
    def call(self, x, *args, **how): return max_pool2d(x, *args, **how)


class MaxPool3d(Elementwise):
    def call(self, x, *args, **how): return max_pool3d(x, *args, **how)


class AvgPool1d(Elementwise):
    def call(self, x, *args, **how): return avg_pool1d(x, *args, **how)


class AvgPool2d(Elementwise):
    def call(self, x, *args, **how): return avg_pool2d(x, *args, **how)


class AvgPool3d(Elementwise):
    def call(self, x, *args, **how): return avg_pool3d(x, *args, **how)


class AdaptiveAvgPool1d(Elementwise):
    def call(self, x, output_size): return adaptive_avg_pool1d(x, output_size)


class AdaptiveAvgPool2d(Elementwise):
    def call(self, x, output_size): return adaptive_avg_pool2d(x, output_size)


class AdaptiveAvgPool3d(Elementwise):
    def call(self, x, output_size): return adaptive_avg_pool3d(x, output_size)


class AdaptiveMaxPool1d(Elementwise):
    def call(self, x, output_size): return adaptive_max_pool1d(x, output_size)


class AdaptiveMaxPool2d(Elementwise):
    def call(self, x, output_size): return adaptive_max_pool2d(x, output_size)


class PixelShuffle(Elementwise):
    def call(self, x, upscale_factor): return pixel_shuffle(x, upscale_factor)


def pixel_shuffle(x, r):
    n, c, h, w = x.shape
    y = prim.permute(prim.reshape(x, [n, c // (r * r), r, r, h, w]), [0, 1, 4, 2, 5, 3])
    return prim.reshape(y, [n, c // (r * r), h * r, w * r])


# ---- attention, recurrence ----

class MultiheadAttention(Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, batch_first=False, **how):
        self.heads, self.p, self.batch_first = num_heads, dropout, batch_first
        self.in_proj_weight = prim.parameter([3 * embed_dim, embed_dim], torch.float32)
        self.in_proj_bias = prim.parameter([3 * embed_dim], torch.float32) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True, is_causal=False):
        if key_padding_mask is not None:
            prim.fail("key_padding_mask is not supported")
        qkv = []
        for i, x in enumerate([query, key, value]):
            e = query.shape[-1]
            w = prim.slice(self.in_proj_weight, 0, i * e, (i + 1) * e, 1)
            b = None if self.in_proj_bias is None else prim.slice(self.in_proj_bias, 0, i * e, (i + 1) * e, 1)
            x = linear(x if self.batch_first else transpose(x, 0, 1), w, b)
            x = prim.reshape(x, list(x.shape[:2]) + [self.heads, e // self.heads])
            qkv.append(transpose(x, 1, 2))
        q, k, v = qkv
        p = softmax(attention_scores(q, k, False, attn_mask, None), -1)
        weights = mean(p, 1) if average_attn_weights else p
        y = transpose(matmul(dropout(p, self.p, self.training), v), 1, 2)
        y = self.out_proj(flatten(y, 2))
        return y if self.batch_first else transpose(y, 0, 1), weights if need_weights else None


class Recurrent(Module):
    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, **how):
        if dropout != 0.0:
            prim.fail("dropout between the layers of a recurrent module is not supported")
        self.hidden, self.layers, self.batch_first, self.both = hidden_size, num_layers, batch_first, bidirectional
        self.cells = []
        ways = 2 if bidirectional else 1
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * ways
            for way in range(ways):
                self.cells.append(self.parameters_of(width, bias, f"l{layer}" + ("_reverse" if way else "")))

    def parameters_of(self, width, bias, name):
        n, c = self.gates * self.hidden, {}
        c['w'], c['u'] = prim.parameter([n, width], torch.float32), prim.parameter([n, self.hidden], torch.float32)
        setattr(self, f"weight_ih_{name}", c['w'])
        setattr(self, f"weight_hh_{name}", c['u'])
        c['b'] = prim.parameter([n], torch.float32) if bias else 0
        c['d'] = prim.parameter([n], torch.float32) if bias else 0
        if bias:
            setattr(self, f"bias_ih_{name}", c['b'])
            setattr(self, f"bias_hh_{name}", c['d'])
        return c

    def run(self, x, states):
        x = transpose(x, 0, 1) if self.batch_first else x
        ways, ends = 2 if self.both else 1, []
        for layer in range(self.layers):
            outs = []
            for way in range(ways):
                c = self.cells[layer * ways + way]
                state = [s[layer * ways + way] for s in states] if states is not None else [prim.full([x.shape[1], self.hidden], 0, x.dtype)] * self.kept
                inputs = matmul(x, t(c['w'])) + c['b']
                steps = [None] * x.shape[0]
                for i in range(x.shape[0]):
                    at = x.shape[0] - 1 - i if way else i
                    state = self.step(inputs[at], state, c)
                    steps[at] = state[0]
                outs.append(stack(steps, 0))
                ends.append(state)
            x = cat(outs, 2) if ways == 2 else outs[0]
        last = [stack([e[k] for e in ends], 0) for k in range(self.kept)]
        return transpose(x, 0, 1) if self.batch_first else x, last


class LSTM(Recurrent):
    gates, kept = 4, 2

    def step(self, x, state, c):
        h, cell = state
        i, f, g, o = chunk(x + matmul(h, t(c['u'])) + c['d'], 4, 1)
        cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
        return [sigmoid(o) * tanh(cell), cell]

    def forward(self, x, hx=None):
        y, last = self.run(x, hx)
        return y, (last[0], last[1])


class GRU(Recurrent):
    gates, kept = 3, 1

    def step(self, x, state, c):
        h = state[0]
        xr, xz, xn = chunk(x, 3, 1)
        hr, hz, hn = chunk(matmul(h, t(c['u'])) + c['d'], 3, 1)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = tanh(xn + r * hn)
        return [(1 - z) * n + z * h]

    def forward(self, x, hx=None):
        y, last = self.run(x, None if hx is None else [hx])
        return y, last[0]


class RNN(Recurrent):
    gates, kept = 1, 1
    def step(self, x, state, c): return [tanh(x + matmul(state[0], t(c['u'])) + c['d'])]

    def forward(self, x, hx=None):
        y, last = self.run(x, None if hx is None else [hx])
        return y, last[0]


# ---- losses ----

class Loss(Module):
    def __init__(self, *args, **how): self.args, self.how = args, how
    def forward(self, *x): return self.call(*x, *self.args, **self.how)


class CrossEntropyLoss(Loss):
    def call(self, *x, **how): return cross_entropy(*x, **how)


class NLLLoss(Loss):
    def call(self, *x, **how): return nll_loss(*x, **how)


class MSELoss(Loss):
    def call(self, *x, **how): return mse_loss(*x, **how)


class L1Loss(Loss):
    def call(self, *x, **how): return l1_loss(*x, **how)


class SmoothL1Loss(Loss):
    def call(self, *x, **how): return smooth_l1_loss(*x, **how)


class HuberLoss(Loss):
    def call(self, *x, **how): return huber_loss(*x, **how)


class KLDivLoss(Loss):
    def call(self, *x, **how): return kl_div(*x, **how)


class BCELoss(Loss):
    def call(self, *x, **how): return binary_cross_entropy(*x, **how)


class BCEWithLogitsLoss(Loss):
    def call(self, *x, **how): return binary_cross_entropy_with_logits(*x, **how)


class TripletMarginLoss(Loss):
    def call(self, *x, **how): return triplet_margin_loss(*x, **how)


def huber_loss(x, y, reduction='mean', delta=1.0):
    d = prim.abs(x - y)
    return reduced(prim.where(d < delta, d * d * 0.5, (d - 0.5 * delta) * delta), reduction)


def kl_div(x, y, size_average=None, reduce=None, reduction='mean', log_target=False):
    each = prim.exp(y) * (y - x) if log_target else prim.where(y > 0, y * prim.log(y), 0).to(y.dtype) - y * x
    return sum(each) / x.shape[0] if reduction == 'batchmean' else reduced(each, reduction)


def binary_cross_entropy(x, y, weight=None, size_average=None, reduce=None, reduction='mean'):
    each = -(y * prim.maximum(prim.log(x), -100) + (1 - y) * prim.maximum(prim.log(1 - x), -100))
    return reduced(each if weight is None else each * weight, reduction)


def binary_cross_entropy_with_logits(x, y, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None):
    each = prim.maximum(x, 0) - x * y + prim.log1p(prim.exp(-prim.abs(x)))
    return reduced(each if weight is None else each * weight, reduction)


def pairwise_distance(a, b, p=2.0, eps=1e-06, keepdim=False): return norm(a - b + eps, p, -1, keepdim)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, reduction='mean'):
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = prim.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(relu(near - far + margin), reduction)


# ---- random numbers of a normal distribution; filling parameters, which the caller fills ----

def randn(*size, dtype=None, **how):
    s = sizes_of(size)
    radius = prim.sqrt(-2 * prim.log(1 - prim.uniform(s, or_float(dtype))))
    return radius * prim.cos(prim.uniform(s, or_float(dtype)) * (2 * math.pi))


def randn_like(x, **how): return randn(x.shape, dtype=x.dtype)


def randint(low, high, size=None, *, dtype=None, **how):
    if size is None:
        low, high, size = 0, low, high
    return prim.convert(prim.floor(prim.uniform(size, torch.float32) * (high - low)) + low, torch.int64 if dtype is None else dtype)


def init_xavier_uniform_(x, gain=1.0): return x
def init_xavier_normal_(x, gain=1.0): return x
def init_kaiming_uniform_(x, a=0, mode='fan_in', nonlinearity='leaky_relu'): return x
def init_kaiming_normal_(x, a=0, mode='fan_in', nonlinearity='leaky_relu'): return x
def init_normal_(x, mean=0.0, std=1.0): return x
def init_uniform_(x, a=0.0, b=1.0): return x
def init_trunc_normal_(x, mean=0.0, std=1.0, a=-2.0, b=2.0): return x
def init_zeros_(x): return x
def init_ones_(x): return x
def init_constant_(x, value): return x
def manual_seed(seed): return None
def no_grad(): return None
def set_grad_enabled(mode): return None


# ---- what else tensor code imports ----

def copy(x, source, non_blocking=False): return prim.expand(prim.convert(source, x.dtype), x.shape)
def item(x): return prim.item(x)
def zero(x): return full_like(x, 0)
def fill(x, value): return full_like(x, value)
def python_itertools_repeat(x, n): return [x] * n
def python_collections_OrderedDict(*items): return dict(*items)
def python_copy_deepcopy(x): return x if not isinstance(x, Module) else prim.fail("copy.deepcopy of a module is not supported")


def python_functools_partial(f, *args, **how): return lambda *more, **others: f(*args, *more, **how, **others)


def axes_of(pattern):  # "b (c l) ..." -> [['b'], ['c', 'l'], ['...']]
    out, group = [], None
    for word in pattern.replace('(', ' ( ').replace(')', ' ) ').split(' '):
        if word == '(':
            group = []
        elif word == ')':
            out.append(group)
            group = None
        elif word != '' and group is not None:
            group.append(word)
        elif word != '':
            out.append([word])
    return out


def python_einops_rearrange(x, pattern, **sizes):
    left, right = pattern.split('->')
    left, right = axes_of(left), axes_of(right)
    rest = [f"...{i}" for i in range(x.ndim - len(left) + 1)]
    left = sum_lists([[[r] for r in rest] if a == ['...'] else [a] for a in left])
    right = sum_lists([[[r] for r in rest] if a == ['...'] else [a] for a in right])
    names, split_sizes = [], []
    for axis, n in zip(left, x.shape):
        known = 1
        for a in axis:
            known = known * sizes[a] if a in sizes else known
        for a in axis:
            names.append(a)
            split_sizes.append(sizes[a] if a in sizes else n // known)
    y = prim.reshape(x, [n for a, n in zip(names, split_sizes) if a != '1'])
    names, split_sizes = [a for a in names if a != '1'], [n for a, n in zip(names, split_sizes) if a != '1']
    order = [a for axis in right for a in axis if a != '1']
    y = prim.permute(y, [names.index(a) for a in order])
    final = []
    for axis in right:
        n = 1
        for a in axis:
            n = n if a == '1' else n * split_sizes[names.index(a)]
        final.append(n)
    return prim.reshape(y, final)


def sum_lists(lists):
    out = []
    for l in lists:
        out += l
    return out
