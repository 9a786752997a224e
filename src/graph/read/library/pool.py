# Pooling: reductions over windows.


def pooled_size(n, kernel, stride, padding, dilation, ceil_mode):
    reach = n + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return reach // stride + 1
    out = (reach + stride - 1) // stride + 1
    return out - 1 if (out - 1) * stride >= n + padding else out  # the last window begins in x or in the padding before


# [N, C, places..., window]: `value` where the window reaches over the border; with ceil_mode, `beyond` after that.
def pool_windows(x, kernel, stride, padding, dilation, value, ceil_mode=False, beyond=None):
    dims = len(kernel)
    lead = x.ndim - dims
    pad = [0] * lead + list(padding)
    y = prim.pad(x, pad, pad, [0] * x.ndim, value)
    for i in range(dims):
        if ceil_mode:
            out = pooled_size(x.shape[lead + i], kernel[i], stride[i], padding[i], dilation[i], True)
            more = max_of((out - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - y.shape[lead + i], 0)
            after = [0] * y.ndim
            after[lead + i] = more
            y = prim.pad(y, [0] * y.ndim, after, [0] * y.ndim, value if beyond is None else beyond) if more else y
        y = prim.unfold(y, lead + i, kernel[i], stride[i], dilation[i])
    return flatten(y, lead + dims, -1)


def prims__low_memory_max_pool_with_offsets(x, kernel, stride, padding, dilation, ceil_mode):
    y, place = max(pool_windows(x, kernel, stride, padding, dilation, -math.inf, ceil_mode), -1)
    return y, prim.convert(place, torch.int8)


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


def max_pool_with_indices(x, kernel, stride, padding, dilation, ceil_mode, dims):
    k = of_dims(kernel, dims)
    s = of_dims(stride, dims) if stride is not None and stride != [] else k
    p, d = of_dims(padding, dims), of_dims(dilation, dims)
    y, place = max(pool_windows(x, k, s, p, d, -math.inf, ceil_mode), -1)
    return y, prims__low_memory_max_pool_offsets_to_indices(place, k, list(x.shape[-dims:]), s, p, d)


def max_pool2d_with_indices(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False): return max_pool_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode, 2)
def max_pool3d_with_indices(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False): return max_pool_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode, 3)
def max_pool2d_with_indices_backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices): return unpool(grad, indices, list(x.shape[-2:]), True)
def max_pool3d_with_indices_backward(grad, x, kernel, stride, padding, dilation, ceil_mode, indices): return unpool(grad, indices, list(x.shape[-3:]), True)


# Each element of x at its place in a plane of `size`.
def unpool(x, indices, size, add):
    lead = list(x.shape[:x.ndim - len(size)])
    planes, inner, outer = product_of(lead), product_of(size), product_of(x.shape[x.ndim - len(size):])
    f = prim.scatter_add if add else prim.scatter
    y = f(prim.full([planes, inner], 0, x.dtype), prim.reshape(indices, [planes, outer]), prim.reshape(x, [planes, outer]), 1)
    return prim.reshape(y, lead + size)


def product_of(sizes):
    n = 1
    for s in sizes:
        n = n * s
    return n


def max_unpool(x, indices, kernel, stride, padding, output_size, dims):
    k = of_dims(kernel, dims)
    s, p = k if stride is None else of_dims(stride, dims), of_dims(padding, dims)
    size = [(x.shape[x.ndim - dims + i] - 1) * s[i] - 2 * p[i] + k[i] for i in range(dims)]
    return unpool(x, indices, size if output_size is None else list(output_size)[-dims:], False)


def max_unpool1d(x, indices, kernel_size, stride=None, padding=0, output_size=None): return max_unpool(x, indices, kernel_size, stride, padding, output_size, 1)
def max_unpool2d(x, indices, kernel_size, stride=None, padding=0, output_size=None): return max_unpool(x, indices, kernel_size, stride, padding, output_size, 2)
def max_unpool3d(x, indices, kernel_size, stride=None, padding=0, output_size=None): return max_unpool(x, indices, kernel_size, stride, padding, output_size, 3)


# ---- by the names of torch.nn ----

def max_pool(x, kernel, stride, padding, dilation, ceil_mode, return_indices, dims):
    if return_indices:
        return max_pool_with_indices(x, kernel, stride, padding, dilation, ceil_mode, dims)
    k = of_dims(kernel, dims)
    s = k if stride is None else of_dims(stride, dims)
    return max(pool_windows(x, k, s, of_dims(padding, dims), of_dims(dilation, dims), -math.inf, ceil_mode), -1)[0]


# A mean over what of a window lies in x, or in x and its padding, but not after that.
def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor, dims):
    k, p, d = of_dims(kernel, dims), of_dims(padding, dims), [1] * dims
    s = k if stride is None or stride == [] else of_dims(stride, dims)
    w = pool_windows(x, k, s, p, d, 0, ceil_mode)
    if divisor is not None:
        return sum(w, -1) / divisor
    if count_include_pad and not ceil_mode:
        return mean(w, -1)
    one = prim.full(x.shape[x.ndim - dims:], 1, x.dtype)
    return sum(w, -1) / sum(pool_windows(one, k, s, p, d, 1 if count_include_pad else 0, ceil_mode, 0), -1)


def max_pool1d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False): return max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)
def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False): return max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)
def max_pool3d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False): return max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)
def avg_pool1d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True): return avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)
def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None): return avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)
def avg_pool3d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None): return avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


def avg_pool2d_backward(grad, x, *how): return gradients_of(lambda x: avg_pool2d(x, *how), [x], grad)[0]
def avg_pool3d_backward(grad, x, *how): return gradients_of(lambda x: avg_pool3d(x, *how), [x], grad)[0]


# From means, as in PyTorch: a window that reaches over the end counts as a whole one, and a negative sum has no root.
def lp_pool(x, norm_type, kernel, stride, ceil_mode, dims):
    y = avg_pool(pow(x, norm_type), kernel, stride, 0, ceil_mode, True, None, dims)
    return pow(sign(y) * relu(prim.abs(y)) * product_of(of_dims(kernel, dims)), 1 / norm_type)


def lp_pool1d(x, norm_type, kernel_size, stride=None, ceil_mode=False): return lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 1)
def lp_pool2d(x, norm_type, kernel_size, stride=None, ceil_mode=False): return lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 2)
def lp_pool3d(x, norm_type, kernel_size, stride=None, ceil_mode=False): return lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 3)


# Window i goes from i * n // out to before (i + 1) * n / out, rounded up. Where the size divides, all are alike; else each
# is as long as the longest, and `value` where it is shorter.
def adaptive_windows(x, output_size, dims, value):
    sizes = of_dims(output_size, dims)
    lead = x.ndim - dims
    sizes = [x.shape[lead + i] if sizes[i] is None else sizes[i] for i in range(dims)]
    if [x.shape[lead + i] % sizes[i] for i in range(dims)] == [0] * dims:
        kernel = [x.shape[lead + i] // sizes[i] for i in range(dims)]
        return pool_windows(x, kernel, kernel, [0] * dims, [1] * dims, value), None
    places, inside = [], None
    for i in range(dims):
        n, out = x.shape[lead + i], sizes[i]
        longest = sorted([((k + 1) * n + out - 1) // out - k * n // out for k in range(out)])[-1]
        number, step = unsqueeze(arange(out), 1), arange(longest)
        first, end = prim.floordiv(number * n, out), prim.floordiv((number + 1) * n + (out - 1), out)
        place = first + step
        shape = [1] * i + [out] + [1] * (dims - 1) + [longest] + [1] * (dims - 1 - i)  # places..., window...
        fits = prim.reshape(place < end, shape)
        inside = fits if inside is None else inside & fits
        places.append(prim.reshape(minimum(place, n - 1), shape))
    w = aten_index(x, [None] * lead + places)
    w = prim.where(inside, w, value).to(x.dtype)
    return flatten(w, lead + dims, -1), flatten(inside, dims, -1)


def adaptive_avg_pool(x, output_size, dims):
    w, inside = adaptive_windows(x, output_size, dims, 0)
    return mean(w, -1) if inside is None else sum(w, -1) / prim.convert(sum(inside, -1), x.dtype)


def adaptive_max_pool(x, output_size, return_indices, dims):
    y, place = max(adaptive_windows(x, output_size, dims, -math.inf)[0], -1)
    if not return_indices:
        return y
    size = list(x.shape[x.ndim - dims:])
    number = prim.expand(prim.reshape(arange(product_of(size)), size), x.shape)
    return y, select(gather(adaptive_windows(number, output_size, dims, 0)[0], -1, unsqueeze(place, -1)), -1, 0)


def adaptive_max_pool1d_with_indices(x, output_size, return_indices=False): return adaptive_max_pool(x, output_size, True, 1)
def adaptive_max_pool2d_with_indices(x, output_size, return_indices=False): return adaptive_max_pool(x, output_size, True, 2)
def adaptive_max_pool3d_with_indices(x, output_size, return_indices=False): return adaptive_max_pool(x, output_size, True, 3)
def max_pool1d_with_indices(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False): return max_pool_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode, 1)


def aten__adaptive_avg_pool2d(x, output_size): return adaptive_avg_pool(x, output_size, 2)
def aten__adaptive_avg_pool3d(x, output_size): return adaptive_avg_pool(x, output_size, 3)
def aten__adaptive_avg_pool2d_backward(grad, x): return gradients_of(lambda x: adaptive_avg_pool(x, grad.shape[-2:], 2), [x], grad)[0]
def aten__adaptive_avg_pool3d_backward(grad, x): return gradients_of(lambda x: adaptive_avg_pool(x, grad.shape[-3:], 3), [x], grad)[0]
def aten_adaptive_max_pool2d(x, output_size): return adaptive_max_pool(x, output_size, True, 2)
def aten_adaptive_max_pool3d(x, output_size): return adaptive_max_pool(x, output_size, True, 3)
def adaptive_max_pool2d_backward(grad, x, indices): return unpool(grad, indices, list(x.shape[-2:]), True)
def adaptive_max_pool3d_backward(grad, x, indices): return unpool(grad, indices, list(x.shape[-3:]), True)
def adaptive_avg_pool1d(x, output_size): return adaptive_avg_pool(x, output_size, 1)
def adaptive_avg_pool2d(x, output_size): return adaptive_avg_pool(x, output_size, 2)
def adaptive_avg_pool3d(x, output_size): return adaptive_avg_pool(x, output_size, 3)
def adaptive_max_pool1d(x, output_size, return_indices=False): return adaptive_max_pool(x, output_size, return_indices, 1)
def adaptive_max_pool2d(x, output_size, return_indices=False): return adaptive_max_pool(x, output_size, return_indices, 2)
def adaptive_max_pool3d(x, output_size, return_indices=False): return adaptive_max_pool(x, output_size, return_indices, 3)


# ---- modules ----

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


class LPPool1d(Elementwise):
    def call(self, x, *args, **how): return lp_pool1d(x, *args, **how)


class LPPool2d(Elementwise):
    def call(self, x, *args, **how): return lp_pool2d(x, *args, **how)


class LPPool3d(Elementwise):
    def call(self, x, *args, **how): return lp_pool3d(x, *args, **how)


class AdaptiveAvgPool1d(Elementwise):
    def call(self, x, *args, **how): return adaptive_avg_pool1d(x, *args, **how)


class AdaptiveAvgPool2d(Elementwise):
    def call(self, x, *args, **how): return adaptive_avg_pool2d(x, *args, **how)


class AdaptiveAvgPool3d(Elementwise):
    def call(self, x, *args, **how): return adaptive_avg_pool3d(x, *args, **how)


class AdaptiveMaxPool1d(Elementwise):
    def call(self, x, *args, **how): return adaptive_max_pool1d(x, *args, **how)


class AdaptiveMaxPool2d(Elementwise):
    def call(self, x, *args, **how): return adaptive_max_pool2d(x, *args, **how)


class AdaptiveMaxPool3d(Elementwise):
    def call(self, x, *args, **how): return adaptive_max_pool3d(x, *args, **how)


class MaxUnpool(Module):
    def __init__(self, kernel_size, stride=None, padding=0): self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
    def forward(self, x, indices, output_size=None): return max_unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size, self.dims)


class MaxUnpool1d(MaxUnpool):
    dims = 1


class MaxUnpool2d(MaxUnpool):
    dims = 2


class MaxUnpool3d(MaxUnpool):
    dims = 3


# Windows that begin about (n - k) / (out - 1) apart, moved by a random number of a plane, the last at the end.
def fractional_places(sample, n, out, k):
    if out == 1:
        return prim.full(list(sample.shape) + [1], n - k, torch.int64)
    step, i = (n - k) / (out - 1), prim.iota(out, 0, 1, sample.dtype)
    s = unsqueeze(sample, -1)
    place = prim.trunc((i + s) * step) - prim.trunc(s * step)
    return prim.where(i == out - 1, n - k, prim.convert(place, torch.int64))


def fractional_max_pool(x, kernel_size, output_size, output_ratio, return_indices, samples, dims):
    if x.ndim == dims + 1:
        y = fractional_max_pool(unsqueeze(x, 0), kernel_size, output_size, output_ratio, return_indices, samples, dims)
        return prim.named('values indices', squeeze(y[0], 0), squeeze(y[1], 0)) if return_indices else squeeze(y, 0)
    k = of_dims(kernel_size, dims)
    sizes = list(x.shape[2:])
    if output_size is None:
        ratio = of_dims(output_ratio, dims)
        out = [int(n * q) for n, q in zip(sizes, ratio)]
    else:
        out = of_dims(output_size, dims)
    samples = prim.uniform(list(x.shape[:2]) + [dims], torch.float32) if samples is None else samples
    y, flat = x, 0
    for d in range(dims):
        first = fractional_places(samples[:, :, dims - 1 - d] if dims == 2 else samples[:, :, d], sizes[d], out[d], k[d])
        place = flatten(unsqueeze(first, -1) + arange(k[d]), -2)  # [N, C, out * k]
        shape = [1] * (dims + 2)
        shape[0], shape[1], shape[2 + d] = x.shape[0], x.shape[1], out[d] * k[d]
        index = prim.reshape(place, shape)
        y = prim.gather(y, prim.expand(index, list(y.shape[:2 + d]) + [out[d] * k[d]] + list(y.shape[3 + d:])), 2 + d)
        flat = flat * sizes[d] + index
    flat = prim.expand(flat, y.shape)
    y, flat = [windows_last(v, out, k) for v in (y, flat)]
    best, at = max(y, -1)
    return prim.named('values indices', best, squeeze(prim.gather(flat, unsqueeze(at, -1), flat.ndim - 1), -1)) if return_indices else best


# [N, C, out * k, ...] -> [N, C, out, ..., k of all dims]
def windows_last(x, out, k):
    dims, shape = len(out), list(x.shape[:2])
    for n, w in zip(out, k):
        shape = shape + [n, w]
    order = [0, 1] + [2 + 2 * d for d in range(dims)] + [3 + 2 * d for d in range(dims)]
    return flatten(permute(prim.reshape(x, shape), order), 2 + dims, -1)


def fractional_max_pool2d(x, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None): return fractional_max_pool(x, kernel_size, output_size, output_ratio, return_indices, _random_samples, 2)
def fractional_max_pool3d(x, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None): return fractional_max_pool(x, kernel_size, output_size, output_ratio, return_indices, _random_samples, 3)


def F_fractional_max_pool2d_with_indices(x, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None): return fractional_max_pool(x, kernel_size, output_size, output_ratio, True, _random_samples, 2)
def F_fractional_max_pool3d_with_indices(x, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None): return fractional_max_pool(x, kernel_size, output_size, output_ratio, True, _random_samples, 3)
def aten_fractional_max_pool2d(x, kernel_size, output_size, random_samples): return fractional_max_pool(x, kernel_size, output_size, None, True, random_samples, 2)
def aten_fractional_max_pool3d(x, kernel_size, output_size, random_samples): return fractional_max_pool(x, kernel_size, output_size, None, True, random_samples, 3)


def fractional_max_pool2d_backward(grad, x, kernel_size, output_size, indices): return unpool(grad, indices, list(x.shape[-2:]), True)
def fractional_max_pool3d_backward(grad, x, kernel_size, output_size, indices): return unpool(grad, indices, list(x.shape[-3:]), True)


class FractionalMaxPool2d(Module):
    dims = 2

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        self.how = [kernel_size, output_size, output_ratio, return_indices]
        self.samples = _random_samples
        if _random_samples is not None:
            self.register_buffer('_random_samples', _random_samples)

    def forward(self, x): return fractional_max_pool(x, *self.how, None if self.samples is None else self._random_samples, self.dims)


class FractionalMaxPool3d(FractionalMaxPool2d):
    dims = 3
