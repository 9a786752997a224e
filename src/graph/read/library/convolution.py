# Convolutions: products of windows.


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


# A filter a channel: the sum over its places.
def depthwise(x, w, stride, padding, dilation, places):
    dims, pad = len(places), [0, 0] + list(padding)
    y, total, taps = prim.pad(x, pad, pad, [0] * x.ndim, 0), None, [[]]
    for i in range(dims):
        taps = [tap + [k] for tap in taps for k in range(w.shape[2 + i])]
    for tap in taps:
        part, weight = y, w
        for i in range(dims):
            first = tap[i] * dilation[i]
            part = prim.slice(part, 2 + i, first, first + (places[i] - 1) * stride[i] + 1, stride[i])
            weight = prim.slice(weight, 2 + i, tap[i], tap[i] + 1, 1)
        part = part * prim.reshape(weight, [1, w.shape[0]] + [1] * dims)
        total = part if total is None else total + part
    return total


# On a GPU f32 is rounded to tf32, as PyTorch does in convolutions unless it is told not to; but not where a group has few
# channels: there memory bounds the time, tensor cores gain nothing, and cuDNN computes in f32, too.
def is_rounded(channels): return not isinstance(channels, int) or channels >= 16


# An image at a time, so that the result is as it should lie; small images all together, so that tiles of the product are full.
def convolve(x, w, stride, padding, dilation, groups):
    kernel, dims = list(w.shape[2:]), x.ndim - 2
    m, places = windows(x, kernel, stride, padding, dilation, groups)
    out, width, each = w.shape[0] // groups, m.shape[2], 1
    if out == 1 and w.shape[1] == 1 and width <= 25:
        return depthwise(x, w, stride, padding, dilation, places)
    for p in places:
        each = each * p
    if isinstance(each, int) and each >= 128:
        n = x.shape[0]
        a = prim.expand(prim.reshape(w, [1, groups, out, width]), [n, groups, out, width])
        b = transpose(prim.reshape(m, [groups, n, each, width]), 0, 1)
        return prim.reshape(prim.dot(a, transpose(b, 2, 3), is_rounded(w.shape[1])), [n, w.shape[0]] + places)
    y = prim.dot(m, transpose(prim.reshape(w, [groups, out, width]), 1, 2), is_rounded(w.shape[1]))
    y = prim.reshape(y, [groups, x.shape[0]] + places + [out])
    y = prim.permute(y, [1, 0, y.ndim - 1] + list(range(2, 2 + dims)))
    return prim.reshape(y, [x.shape[0], w.shape[0]] + places)


# x with `low` zeros before it along dim d and `high` after; below 0, as many elements less.
def bordered(x, d, low, high):
    n = x.shape[d]
    if isinstance(n, int) and isinstance(low, int) and isinstance(high, int) and (n + low <= 0 or n + high <= 0):
        return prim.full([n + low + high if k == d else x.shape[k] for k in range(x.ndim)], 0, x.dtype)  # no element is left
    if low < 0 or high < 0:
        x = prim.slice(x, d, max_of(0 - low, 0), n - max_of(0 - high, 0), 1)
    if low <= 0 and high <= 0:
        return x
    before, after = [0] * x.ndim, [0] * x.ndim
    before[d], after[d] = max_of(low, 0), max_of(high, 0)
    return prim.pad(x, before, after, [0] * x.ndim, 0)


# The product of a transposed convolution: x has its borders and, unless it is taken in phases, its gaps.
def correlate(x, w, dilation, groups):
    kernel, dims = list(w.shape[2:]), w.ndim - 2
    w = flip(w, list(range(2, w.ndim)))
    w = prim.reshape(w, [groups, x.shape[1] // groups, w.shape[1]] + kernel)
    w = prim.permute(w, [0, 2, 1] + list(range(3, w.ndim)))
    w = prim.reshape(w, [w.shape[0] * w.shape[1], w.shape[2]] + kernel)
    return convolve(x, w, [1] * dims, [0] * dims, dilation, groups)


def divisor(a, b): return a if b == 0 else divisor(b, a % b)


# With a stride s, every s-th place of the result takes the same weights, some whole number of them apart: s convolutions
# without gaps, whose results alternate.
def correlate_phases(x, w, i, stride, padding, dilation, out, groups):
    if i == len(stride):
        return correlate(x, w, [dilation[k] // divisor(dilation[k], stride[k]) for k in range(len(stride))], groups)
    d, s, parts, shape = 2 + i, stride[i], [], None
    apart = s // divisor(dilation[i], s)
    for j in range(s):
        count, taps, part = (out[i] - j + s - 1) // s, 0, None
        for k in range(apart):
            if k < w.shape[d] and (j + padding[i] - k * dilation[i]) % s == 0:
                least, taps = k, (w.shape[d] - k + apart - 1) // apart
        if taps > 0 and count > 0:
            first = (j + padding[i] - least * dilation[i]) // s
            y = bordered(x, d, (taps - 1) * apart * dilation[i] // s - first, first + count - x.shape[d])
            part = correlate_phases(y, prim.slice(w, d, least, w.shape[d], apart), i + 1, stride, padding, dilation, out, groups)
            part = bordered(part, d, 0, (out[i] + s - 1) // s - count)
            shape = part.shape
        parts.append(part)
    if shape is None:  # no weight meets an element
        met = [x.shape[2 + k] - (w.shape[2 + k] - 1) * (dilation[k] // divisor(dilation[k], stride[k])) for k in range(i)]
        return prim.full([x.shape[0], groups * w.shape[1]] + met + list(out[i:]), 0, x.dtype)
    parts = [prim.full(shape, 0, x.dtype) if p is None else p for p in parts]
    lined = list(shape[:d]) + [shape[d] * s] + list(shape[d + 1:])
    y = prim.concat([unsqueeze(p, d + 1) for p in parts], d + 1)
    return bordered(prim.reshape(y, lined), d, 0, out[i] - shape[d] * s)


def convolve_transposed(x, w, stride, padding, output_padding, dilation, groups):
    dims, kernel = x.ndim - 2, list(w.shape[2:])
    strided, phased = False, True
    for i in range(dims):
        strided = strided or stride[i] > 1
        phased = phased and isinstance(x.shape[2 + i], int) and isinstance(output_padding[i], int)
    if strided and phased:
        out = [(x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1 + output_padding[i] for i in range(dims)]
        return correlate_phases(x, w, 0, stride, padding, dilation, out, groups)
    y = prim.pad(x, [0] * x.ndim, [0] * x.ndim, [0, 0] + [s - 1 for s in stride], 0)
    for i in range(dims):
        low = dilation[i] * (kernel[i] - 1) - padding[i]
        y = bordered(y, 2 + i, low, low + output_padding[i])
    return correlate(y, w, dilation, groups)


def of_dims(v, dims): return list(v) * dims if isinstance(v, (list, tuple)) and len(v) == 1 else list(v) if isinstance(v, (list, tuple)) else [v] * dims


def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    dims = weight.ndim - 2
    s, p, d = of_dims(stride, dims), of_dims(padding, dims), of_dims(dilation, dims)
    if transposed:
        more = of_dims(output_padding, dims)
        y = data_gradient(x, weight, s, p, more, d, groups)
        if [m < n for m, n in zip(more, s)] == [True] * dims:
            y = prim.differentiate(y, [x, weight], lambda g, x, weight: [correlation(g, weight, s, p, d, groups), filter_gradient(g, x, weight, s, p, d, groups)])
    else:
        y = correlation(x, weight, s, p, d, groups)
        y = prim.differentiate(y, [x, weight], lambda g, x, weight: convolution_gradients(g, x, weight, s, p, d, groups))
    return y if bias is None else y + prim.reshape(bias, [bias.shape[0]] + [1] * dims)


def convolution_backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    dims = w.ndim - 2
    s, p, d = of_dims(stride, dims), of_dims(padding, dims), of_dims(dilation, dims)
    if transposed:
        if [m < n for m, n in zip(of_dims(output_padding, dims), s)] != [True] * dims:
            prim.fail("the gradient of a transposed convolution with an output_padding as large as its stride is not supported")
        gx, gw = correlation(grad, w, s, p, d, groups), filter_gradient(grad, x, w, s, p, d, groups)
    else:
        gx, gw = convolution_gradients(grad, x, w, s, p, d, groups)
    return gx if mask[0] else None, gw if mask[1] else None, sum(grad, [0] + list(range(2, grad.ndim))) if mask[2] else None


def convolution_gradients(grad, x, w, s, p, d, groups):
    dims, kernel = w.ndim - 2, list(w.shape[2:])
    more = [x.shape[2 + i] - ((grad.shape[2 + i] - 1) * s[i] - 2 * p[i] + d[i] * (kernel[i] - 1) + 1) for i in range(dims)]
    gw = filter_gradient(x, grad, w, s, p, d, groups)
    return prim.full(x.shape, 0, x.dtype) if prim.is_empty(x) else data_gradient(grad, w, s, p, more, d, groups), gw


# ---- the three parts: each of the two others, by products, or by a library that has it ----

def correlation(x, w, s, p, d, groups):
    return prim.convolution(convolve(x, w, s, p, d, groups), x, w, 'forward', s + p + d, groups)


def data_gradient(grad, w, s, p, more, d, groups):
    return prim.convolution(convolve_transposed(grad, w, s, p, more, d, groups), grad, w, 'data', s + p + d, groups)


def filter_gradient(x, grad, w, s, p, d, groups):
    dims, kernel = w.ndim - 2, list(w.shape[2:])
    m, places = windows(x, kernel, s, p, d, groups)
    n, out = x.shape[0], w.shape[0] // groups
    g = prim.reshape(grad, [n, groups, out] + places)
    g = prim.permute(g, [1, 2, 0] + list(range(3, 3 + dims)))
    gw = prim.reshape(prim.dot(prim.reshape(g, [groups, out, m.shape[1]]), m), w.shape)
    return prim.convolution(gw, x, grad, 'filter', s + p + d, groups)


def F_conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, weight, bias, stride, padding, dilation, groups)
def F_conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, weight, bias, stride, padding, dilation, groups)
def F_conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, weight, bias, stride, padding, dilation, groups)
def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, weight, bias, stride, padding, dilation, groups)
def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, weight, bias, stride, padding, dilation, groups)
def conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1): return conv(x, weight, bias, stride, padding, dilation, groups)


def conv(x, w, bias, stride, padding, dilation, groups):
    if x.ndim == w.ndim - 1:  # without a batch
        return squeeze(conv(unsqueeze(x, 0), w, bias, stride, padding, dilation, groups), 0)
    if padding == 'valid':
        padding = 0
    if padding == 'same':  # what is odd stands after
        both = [d * (n - 1) for d, n in zip(of_dims(dilation, w.ndim - 2), list(w.shape[2:]))]
        if [b % 2 for b in both] == [0] * len(both):
            return convolution(x, w, bias, stride, [b // 2 for b in both], dilation, False, 0, groups)
        low = [0] * (x.ndim - len(both)) + [b // 2 for b in both]
        high = [0] * (x.ndim - len(both)) + [b - b // 2 for b in both]
        x, padding = prim.pad(x, low, high, [0] * x.ndim, 0), 0
    return convolution(x, w, bias, stride, padding, dilation, False, 0, groups)


def conv_transpose(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    if x.ndim == w.ndim - 1:
        return squeeze(conv_transpose(unsqueeze(x, 0), w, bias, stride, padding, output_padding, groups, dilation), 0)
    return convolution(x, w, bias, stride, padding, dilation, True, output_padding, groups)


# ---- modules ----

class Convolution(Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode='zeros', device=None, dtype=None):
        if padding_mode not in ('zeros', 'reflect', 'replicate', 'circular'):
            prim.fail(f"padding_mode='{padding_mode}' is not known")
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.in_channels, self.out_channels = in_channels, out_channels
        k = of_dims(kernel_size, self.dims)
        self.kernel_size, self.padding_mode = tuple(k), padding_mode
        self.padding = 0 if padding == 'valid' else padding
        if padding == 'same' and [d * (n - 1) % 2 for d, n in zip(of_dims(dilation, self.dims), k)] == [0] * self.dims:
            self.padding = [d * (n - 1) // 2 for d, n in zip(of_dims(dilation, self.dims), k)]
        self.mode, self.border = padding_mode, []
        for n, p, d in zip(k, of_dims(padding, self.dims) if not isinstance(padding, str) else k, of_dims(dilation, self.dims)):
            both = 2 * p if not isinstance(padding, str) else d * (n - 1) if padding == 'same' else 0
            self.border = [both // 2, both - both // 2] + self.border
        if padding_mode != 'zeros':
            self.padding = 0
        self.weight = prim.parameter([out_channels, in_channels // groups] + k, or_float(dtype))
        self.bias = prim.parameter([out_channels], or_float(dtype)) if bias else None

    def forward(self, x):
        if x.ndim == self.dims + 1:
            return squeeze(self.forward(unsqueeze(x, 0)), 0)
        x = x if self.mode == 'zeros' else F_pad(x, self.border, self.mode)
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
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, tuple(of_dims(kernel_size, self.dims))
        self.dilation, self.groups = dilation, groups
        self.weight = prim.parameter([in_channels, out_channels // groups] + of_dims(kernel_size, self.dims), or_float(dtype))
        self.bias = prim.parameter([out_channels], or_float(dtype)) if bias else None

    # output_size says which of the sizes that a stride leaves open is meant.
    def forward(self, x, output_size=None):
        more = self.output_padding
        if output_size is not None:
            k, more = list(self.weight.shape[2:]), []
            s, p, d = of_dims(self.stride, self.dims), of_dims(self.padding, self.dims), of_dims(self.dilation, self.dims)
            for i, n in enumerate(list(output_size)[-self.dims:]):
                more.append(n - ((x.shape[i - self.dims] - 1) * s[i] - 2 * p[i] + d[i] * (k[i] - 1) + 1))
        return conv_transpose(x, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)


class ConvTranspose1d(TransposedConvolution):
    dims = 1


class ConvTranspose2d(TransposedConvolution):
    dims = 2


class ConvTranspose3d(TransposedConvolution):
    dims = 3


def conv_transpose1d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1): return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
def conv_transpose2d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1): return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
def conv_transpose3d(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1): return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
