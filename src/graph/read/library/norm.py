# Normalisation and dropout.


# Means and deviations of f16 and bf16 are f32, as PyTorch's kernels have them.
def wide(x): return prim.convert(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def native_layer_norm(x, normalized_shape, weight, bias, eps):
    dims, kind, x = list(range(x.ndim - len(normalized_shape), x.ndim)), x.dtype, wide(x)
    v, m = var_mean(x, dims, keepdim=True, correction=0)
    r = prim.rsqrt(v + eps)
    y = (x - m) * r
    y = y if weight is None else y * weight
    return prim.convert(y if bias is None else y + bias, kind), m, r


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-05): return native_layer_norm(x, normalized_shape, weight, bias, eps)[0]


def rms_norm(x, normalized_shape, weight=None, eps=None):
    dims = list(range(x.ndim - len(normalized_shape), x.ndim))
    y = x * prim.rsqrt(mean(x * x, dims, True) + ((2.220446049250313e-16 if x.dtype == torch.float64 else 1.1920928955078125e-07) if eps is None else eps))
    return y if weight is None else y * weight


# The gradient of h = (x - mean) * r along dims, where that of h is g.
def normal_gradient(g, h, r, dims):
    n = count(g, dims)
    return r * (g - prim.sum(g, dims) / n - h * (prim.sum(g * h, dims) / n))


def native_layer_norm_backward(grad, x, shape, m, r, weight, bias, mask):
    dims, outer = list(range(x.ndim - len(shape), x.ndim)), list(range(x.ndim - len(shape)))
    kind, x, grad = x.dtype, wide(x), wide(grad)
    h = (x - m) * r
    g = grad if weight is None else grad * weight
    gx, gw, gb = None, None, None
    if mask[0]:
        gx = prim.convert(normal_gradient(g, h, r, dims), kind)
    if mask[1]:
        gw = sum(grad * h, outer) if outer else grad * h
    if mask[2]:
        gb = sum(grad, outer) if outer else grad
    return gx, gw, gb


def channels(x, v): return prim.reshape(v, [v.shape[0]] + [1] * (x.ndim - 2))
def others(x): return [0] + list(range(2, x.ndim))


def normalise(x, weight, bias, m, r):
    y = (x - channels(x, m)) * channels(x, r)
    y = y if weight is None else y * channels(x, weight)
    return y if bias is None else y + channels(x, bias)


def aten__native_batch_norm_legit_functional(x, weight, bias, running_mean, running_var, training, momentum, eps):
    kind, x = x.dtype, wide(x)
    if not training:
        r = prim.rsqrt(running_var + eps)
        return prim.convert(normalise(x, weight, bias, running_mean, r), kind), running_mean, r, running_mean, running_var
    dims = others(x)
    v, m = var_mean(x, dims, correction=0)
    n, r = count(x, dims), prim.rsqrt(v + eps)
    y = prim.convert(normalise(x, weight, bias, m, r), kind)
    if running_mean is None:
        return y, m, r, None, None
    new_mean = running_mean * (1 - momentum) + m * momentum
    new_var = running_var * (1 - momentum) + v * (n / (n - 1) * momentum)
    return y, m, r, prim.convert(new_mean, running_mean.dtype), prim.convert(new_var, running_var.dtype)


def aten__native_batch_norm_legit_no_training(x, weight, bias, running_mean, running_var, momentum, eps):
    return aten__native_batch_norm_legit_functional(x, weight, bias, running_mean, running_var, False, momentum, eps)[:3]


def aten__native_batch_norm_legit_no_stats(x, weight, bias, training, momentum, eps):
    return aten__native_batch_norm_legit_functional(x, weight, bias, None, None, True, momentum, eps)[:3]


def native_batch_norm_backward(grad, x, weight, running_mean, running_var, m, r, train, eps, mask):
    kind, x, grad = x.dtype, wide(x), wide(grad)
    if not train:
        m, r = wide(running_mean), prim.rsqrt(wide(running_var) + eps)
    dims = others(x)
    n, h = count(x, dims), (x - channels(x, m)) * channels(x, r)
    scale = channels(x, r) if weight is None else channels(x, r * weight)
    gb, gw = sum(grad, dims), sum(grad * h, dims)
    gx = grad * scale
    if train:
        gx = scale * (grad - channels(x, gb) / n - h * (channels(x, gw) / n))
    return prim.convert(gx, kind), gw, gb


def in_groups(x, groups): return prim.reshape(x, [x.shape[0], groups, x.shape[1] // groups] + list(x.shape[2:]))


def native_group_norm(x, weight, bias, N, C, HxW, group, eps):
    kind, x = x.dtype, wide(x)
    y = in_groups(x, group)
    v, m = var_mean(y, list(range(2, y.ndim)), keepdim=True, correction=0)
    r = prim.rsqrt(v + eps)
    y = prim.reshape((y - m) * r, x.shape)
    y = y if weight is None else y * channels(x, weight)
    y = prim.convert(y if bias is None else y + channels(x, bias), kind)
    return y, prim.reshape(m, [x.shape[0], group]), prim.reshape(r, [x.shape[0], group])


def native_group_norm_backward(grad, x, m, r, weight, batch, channel_count, places, groups, mask):
    kind, x, grad = x.dtype, wide(x), wide(grad)
    ones = [x.shape[0], groups] + [1] * (x.ndim - 1)
    m, r = prim.reshape(m, ones), prim.reshape(r, ones)
    g = in_groups(grad if weight is None else grad * channels(x, weight), groups)
    h = (in_groups(x, groups) - m) * r
    gx = normal_gradient(g, h, r, list(range(2, g.ndim)))
    gw = sum(grad * prim.reshape(h, x.shape), others(x)) if mask[1] else None
    gb = sum(grad, others(x)) if mask[2] else None
    return prim.convert(prim.reshape(gx, x.shape), kind), gw, gb


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-05):
    return native_group_norm(x, weight, bias, None, None, None, num_groups, eps)[0]


def native_dropout(x, p, train):
    if not train or p == 0:
        return x, prim.full(x.shape, True, torch.bool)
    keep = prim.uniform(x.shape, torch.float32) > p
    return x * keep * (1 / (1 - p)), keep


def aten__weight_norm_interface_backward(grad, v, g, norms, dim):
    dims = [d for d in range(v.ndim) if d != dim]
    return gradients_of(lambda v, g: v * (g / norm(v, 2, dims, True)), [v, g], grad)


def native_dropout_backward(grad, mask, scale): return grad * mask * scale
def dropout(x, p=0.5, training=True, inplace=False): return native_dropout(x, p, training)[0]


# ---- modules ----

class BatchNorm(Module):
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        self.eps, self.momentum, self.track = eps, momentum, track_running_stats
        self.num_features, self.affine = num_features, affine
        self.weight = prim.parameter([num_features], or_float(dtype)) if affine else None
        self.bias = prim.parameter([num_features], or_float(dtype)) if affine else None
        self.running_mean = prim.buffer([num_features], or_float(dtype)) if track_running_stats else None
        self.running_var = prim.buffer([num_features], or_float(dtype)) if track_running_stats else None
        if track_running_stats and momentum is None:
            self.num_batches_tracked = prim.buffer([], torch.int64)

    def forward(self, x):
        if not self.track:
            return batch_norm(x, None, None, self.weight, self.bias, True, 0, self.eps)
        step = self.momentum
        if step is None and self.training:  # the average of all batches
            number = self.num_batches_tracked + 1
            prim.write(self.num_batches_tracked, number)
            step = 1 / prim.convert(number, self.running_mean.dtype)
        y, m, r, mean, var = aten__native_batch_norm_legit_functional(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, step, self.eps)
        if self.training:
            prim.write(self.running_mean, mean)
            prim.write(self.running_var, var)
        return y


class BatchNorm1d(BatchNorm):
    pass


class BatchNorm2d(BatchNorm):
    pass


class BatchNorm3d(BatchNorm):
    pass


class SyncBatchNorm(BatchNorm):
    pass


class InstanceNorm(Module):
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None):
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.running_mean, self.running_var = [prim.buffer([num_features], or_float(dtype)) if track_running_stats else None for _ in range(2)]
        self.weight = prim.parameter([num_features], or_float(dtype)) if affine else None
        self.bias = prim.parameter([num_features], or_float(dtype)) if affine else None

    def forward(self, x):
        alone = x.ndim == self.dims + 1
        from_input = self.training or self.running_mean is None
        y = instance_norm(unsqueeze(x, 0) if alone else x, self.running_mean, self.running_var, self.weight, self.bias, from_input, self.momentum, self.eps)
        return squeeze(y, 0) if alone else y


# Statistics of each image are averaged over the batch, and those kept moved towards that.
def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-05):
    if not use_input_stats:
        y = (x - channels(x, running_mean)) * channels(x, prim.rsqrt(running_var + eps))
    else:
        v, m = var_mean(x, list(range(2, x.ndim)), keepdim=True, correction=0)
        y = (x - m) * prim.rsqrt(v + eps)
    if use_input_stats and running_mean is not None:
        n = count(x, list(range(2, x.ndim)))
        prim.write(running_mean, lerp(running_mean, mean(flatten(m, 1), 0), momentum))
        prim.write(running_var, lerp(running_var, mean(flatten(v, 1), 0) * (n / (n - 1)), momentum))
    y = y if weight is None else y * channels(x, weight)
    return y if bias is None else y + channels(x, bias)


class InstanceNorm1d(InstanceNorm):
    dims = 1


class InstanceNorm2d(InstanceNorm):
    dims = 2


class InstanceNorm3d(InstanceNorm):
    dims = 3


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-05, elementwise_affine=True, bias=True, device=None, dtype=None):
        self.shape, self.eps = of_dims(normalized_shape, 1), eps
        self.normalized_shape = tuple(self.shape)
        self.weight = prim.parameter(self.shape, or_float(dtype)) if elementwise_affine else None
        self.bias = prim.parameter(self.shape, or_float(dtype)) if elementwise_affine and bias else None

    def forward(self, x): return layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        self.shape, self.eps = of_dims(normalized_shape, 1), eps
        self.weight = prim.parameter(self.shape, or_float(dtype)) if elementwise_affine else None

    def forward(self, x): return rms_norm(x, self.shape, self.weight, self.eps)


class GroupNorm(Module):
    def __init__(self, num_groups, num_channels, eps=1e-05, affine=True, device=None, dtype=None):
        self.groups, self.eps = num_groups, eps
        self.num_groups, self.num_channels = num_groups, num_channels
        self.weight = prim.parameter([num_channels], or_float(dtype)) if affine else None
        self.bias = prim.parameter([num_channels], or_float(dtype)) if affine else None

    def forward(self, x): return group_norm(x, self.groups, self.weight, self.bias, self.eps)


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    y, m, r, mean, var = aten__native_batch_norm_legit_functional(x, weight, bias, running_mean, running_var, training, momentum, eps)
    if training and running_mean is not None:
        prim.write(running_mean, mean)
        prim.write(running_var, var)
    return y


def normalize(x, p=2.0, dim=1, eps=1e-12): return x / clamp_min(norm(x, p, dim, True), eps)


# As PyTorch's: a length below eps is eps, with the gradient of the length.
def cosine_similarity(x1, x2, dim=1, eps=1e-08):
    m, n = norm(x1, 2, dim), norm(x2, 2, dim)
    return sum(x1 * x2, dim) / (prim.detach(clamp_min(m, eps), m) * prim.detach(clamp_min(n, eps), n))


# A weight as a direction and its length, all dims but one counted together: two parameters in its place. Old modules
# call them weight_g and weight_v, parametrizations original0 and original1.
def weight_norm_of(module, name, dim, g_name, v_name):
    w = getattr(module, name)
    dims = [d for d in range(w.ndim) if dim is None or d != dim_of(w, dim)]
    g = prim.parameter([] if dim is None else [n if d not in dims else 1 for d, n in enumerate(w.shape)], w.dtype)
    v = prim.parameter(w.shape, w.dtype)
    setattr(module, g_name, g)
    setattr(module, v_name, v)
    normed_weight(module, None, name, dims, g_name, v_name)
    run_before(module, normed_weight, name, dims, g_name, v_name)
    return module


def normed_weight(module, x, name, dims, g_name, v_name):
    g, v = getattr(module, g_name), getattr(module, v_name)
    length = norm(v, 2, dims, True)
    setattr(module, name, v * (g / (length if g.ndim else prim.reshape(length, []))))


def utils_weight_norm(module, name='weight', dim=0): return weight_norm_of(module, name, dim, name + '_g', name + '_v')
def parametrizations_weight_norm(module, name='weight', dim=0): return weight_norm_of(module, name, dim, f"parametrizations.{name}.original0", f"parametrizations.{name}.original1")
# A weight over its largest singular value, which each run in training approaches by a step from where buffers stand:
# v = w^T u, u = w v, both of length 1. Old modules call these weight_orig, weight_u and weight_v; parametrizations begin
# with u.
def spectral_norm_of(module, name, steps, eps, dim, names, begins_with_u):
    w = getattr(module, name)
    d = dim_of(w, dim)
    rows = w.shape[d]
    original = prim.parameter(w.shape, w.dtype)
    u, v = prim.buffer([rows], w.dtype), prim.buffer([prim.numel(w) // rows], w.dtype)
    for key, value in zip(names, [original, u, v]):
        setattr(module, key, value)
    run_before(module, spectral_step, name, steps, eps, d, names, begins_with_u)
    return module


def spectral_step(module, x, name, steps, eps, d, names, begins_with_u):
    original, u, v = [getattr(module, key) for key in names]
    matrix = flatten(unsqueeze(movedim(original, d, 0), -1), 1)
    left, right = u.clone(), v.clone()
    if module.training:
        held = prim.share(matrix)
        for _ in range(steps):
            left = normalize(mv(held, right), 2.0, 0, eps) if begins_with_u else left
            right = normalize(mv(t(held), left), 2.0, 0, eps)
            left = left if begins_with_u else normalize(mv(held, right), 2.0, 0, eps)
        prim.assign(u, left)
        prim.assign(v, right)
    setattr(module, name, original / dot(prim.share(left), mv(matrix, prim.share(right))))


def spectral_dim(module, dim): return dim if dim is not None else 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def utils_spectral_norm(module, name='weight', n_power_iterations=1, eps=1e-12, dim=None):
    return spectral_norm_of(module, name, n_power_iterations, eps, spectral_dim(module, dim), [name + '_orig', name + '_u', name + '_v'], False)


def parametrizations_spectral_norm(module, name='weight', n_power_iterations=1, eps=1e-12, dim=None):
    base = f"parametrizations.{name}."
    return spectral_norm_of(module, name, n_power_iterations, eps, spectral_dim(module, dim), [base + 'original', base + '0._u', base + '0._v'], True)


def utils_remove_weight_norm(module, name='weight'): prim.fail("remove_weight_norm is not supported")


class Dropout(Module):
    def __init__(self, p=0.5, inplace=False): self.p, self.inplace = p, inplace
    def forward(self, x): return dropout(x, self.p, self.training, self.inplace)


# Whole channels are dropped; `dims` are those of one, and without a batch there is one dim before them.
def dropped_channels(x, p, training, dims):
    if not training or p == 0:
        return x
    lead = 1 if x.ndim == dims + 1 else 2
    keep = prim.uniform(list(x.shape[:lead]) + [1] * (x.ndim - lead), torch.float32) > p
    return x * keep * (1 / (1 - p))


def F_dropout1d(x, p=0.5, training=True, inplace=False): return dropped_channels(x, p, training, 1)
def F_dropout2d(x, p=0.5, training=True, inplace=False): return dropped_channels(x, p, training, x.ndim - 2)  # as PyTorch, also of 3 dims
def F_dropout3d(x, p=0.5, training=True, inplace=False): return dropped_channels(x, p, training, 3)


class Dropout2d(Dropout):
    dims = None

    def forward(self, x): return dropped_channels(x, self.p, self.training, x.ndim - 2 if self.dims is None else self.dims)


class Dropout3d(Dropout2d):
    dims = 3


class Dropout1d(Dropout2d):
    dims = 1


def F_alpha_dropout(x, p=0.5, training=False, inplace=False):
    if not training or p == 0:
        return x
    keep, low = prim.uniform(x.shape, torch.float32) > p, -1.7580993408473766
    a = 1 / math.sqrt((1 - p) * (1 + p * low * low))
    return (prim.where(keep, x, low) * a - a * low * p).to(x.dtype)


class AlphaDropout(Dropout):
    def forward(self, x): return F_alpha_dropout(x, self.p, self.training)


def local_response_norm(x, size, alpha=0.0001, beta=0.75, k=1.0):
    around = [0] * x.ndim
    around[1] = size // 2
    after = [0] * x.ndim
    after[1] = (size - 1) // 2
    s = sum(prim.unfold(prim.pad(x * x, around, after, [0] * x.ndim, 0), 1, size, 1, 1), -1) / size
    return x / pow(s * alpha + k, beta)


class LocalResponseNorm(Elementwise):
    def call(self, x, *args, **how): return local_response_norm(x, *args, **how)


class CosineSimilarity(Module):
    def __init__(self, dim=1, eps=1e-08): self.dim, self.eps = dim, eps
    def forward(self, x1, x2): return cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    def __init__(self, p=2.0, eps=1e-06, keepdim=False): self.p, self.eps, self.keepdim = p, eps, keepdim
    def forward(self, x1, x2): return pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)


def torch_dropout(x, p, train): return native_dropout(x, p, train)[0]
def feature_dropout(x, p, train): return dropped_channels(x, p, train, x.ndim - 2)
def torch_alpha_dropout(x, p, train): return F_alpha_dropout(x, p, train)
def torch_feature_alpha_dropout(x, p, train): return F_feature_alpha_dropout(x, p, train)


def F_feature_alpha_dropout(x, p=0.5, training=False, inplace=False):
    if not training or p == 0:
        return x
    keep, low = prim.uniform(list(x.shape[:2]) + [1] * (x.ndim - 2), torch.float32) > p, -1.7580993408473766
    a = 1 / math.sqrt((1 - p) * (1 + p * low * low))
    return (prim.where(keep, x, low) * a - a * low * p).to(x.dtype)


class FeatureAlphaDropout(Dropout):
    def forward(self, x): return F_feature_alpha_dropout(x, self.p, self.training)


def frobenius_norm(x, dim, keepdim=False): return norm(x, 2, dim, keepdim)
def native_norm(x, p=2, dim=None, keepdim=False, dtype=None): return norm(x, p, dim, keepdim, dtype=dtype)
def norm_except_dim(v, pow=2, dim=0): return norm(v, pow, [d for d in range(v.ndim) if d != dim_of(v, dim)], True) if dim != -1 else norm(v, pow)


# Squares of the channels around, as many before as after; as in PyTorch, the first one never leaves the sum.
class CrossMapLRN2d(Module):
    def __init__(self, size, alpha=0.0001, beta=0.75, k=1): self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x):
        side = int((self.size - 1) / 2)
        around = [0, side] + [0] * (x.ndim - 2)
        s = sum(prim.unfold(prim.pad(x * x, around, around, [0] * x.ndim, 0), 1, 2 * side + 1, 1, 1), -1)
        late = prim.reshape(arange(x.shape[1]) > side, [-1] + [1] * (x.ndim - 2))
        s = s + prim.where(late, prim.slice(x * x, 1, 0, 1, 1), 0)
        return x * pow(s * (self.alpha / self.size) + self.k, -self.beta)
