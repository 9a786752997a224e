# Activations: functions and modules.


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


# Of a branch that is not taken, the gradient is 0 times its own: it must be finite.
def elu(x, alpha=1.0, scale=1, input_scale=1, inplace=False):
    return prim.where(x > 0, x * scale, prim.expm1(prim.where(x > 0, 0, x) * input_scale) * (alpha * scale))


def F_elu(x, alpha=1.0, inplace=False): return elu(x, alpha)
def selu(x, inplace=False): return elu(x, 1.6732632423543772, 1.0507009873554805)
def celu(x, alpha=1.0, inplace=False): return elu(x, alpha, 1, 1 / alpha)


def softplus(x, beta=1, threshold=20):
    return prim.where(x * beta > threshold, x, prim.log1p(prim.exp(prim.where(x * beta > threshold, 0, x * beta))) / beta)


def mish(x, inplace=False): return x * prim.tanh(softplus(x))
def logsigmoid(x): return prim.minimum(x, 0) - prim.log1p(prim.exp(-prim.abs(x)))
def softsign(x): return x / (1 + prim.abs(x))
def tanhshrink(x): return x - prim.tanh(x)
def within(x, low, high): return prim.minimum(prim.maximum(x, low), high)
def open_slope(y, x, low, high, line): return with_twin(y, prim.where((x <= low) | (x >= high), 0, line))
def relu6(x, inplace=False): return hardtanh(x, 0, 6)
def hardtanh(x, min_val=-1.0, max_val=1.0, inplace=False): return open_slope(within(x, min_val, max_val), x, min_val, max_val, x)
def hardsigmoid(x, inplace=False): return open_slope(within(x / 6 + 0.5, 0, 1), x, -3, 3, x / 6)


def hardswish(x, inplace=False):
    return with_twin(x * within(x + 3, 0, 6) / 6, prim.where(x <= -3, 0, prim.where(x < 3, x * x / 6 + x * 0.5, x)))
def hardshrink(x, lambd=0.5): return prim.where(prim.abs(x) > lambd, x, 0).to(x.dtype)
def softshrink(x, lambd=0.5): return prim.where(x > lambd, x - lambd, prim.where(x < -lambd, x + lambd, 0)).to(x.dtype)
def threshold(x, threshold, value, inplace=False): return prim.where(x > threshold, x, value).to(x.dtype)


def prelu(x, weight): return prim.where(x > 0, x, x * (channels(x, weight) if weight.shape[0] > 1 and x.ndim > 1 else weight))


def rrelu(x, lower=0.125, upper=1 / 3, training=False, inplace=False):
    slope = prim.uniform(x.shape, x.dtype) * (upper - lower) + lower if training else (lower + upper) / 2
    return prim.where(x >= 0, x, x * slope)


def softmin(x, dim=-1, dtype=None): return softmax(-x, dim, dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    noise = -prim.log(-prim.log(1 - prim.uniform(logits.shape, logits.dtype)))
    y = softmax((logits + noise) / tau, dim)
    if not hard:
        return y
    d = dim_of(y, dim)
    place = prim.reshape(arange(y.shape[d]), [1] * d + [-1] + [1] * (y.ndim - d - 1))
    return prim.detach(prim.convert(place == argmax(y, d, True), y.dtype), y)


# ---- modules ----

class ReLU(Activation):
    def call(self, x): return relu(x)


class ReLU6(Activation):
    def call(self, x): return relu6(x)


class GELU(Activation):
    def call(self, x, approximate='none'): return gelu(x, approximate)


class SiLU(Activation):
    def call(self, x): return silu(x)


class Mish(Activation):
    def call(self, x): return mish(x)


class Sigmoid(Activation):
    def call(self, x): return sigmoid(x)


class Tanh(Activation):
    def call(self, x): return tanh(x)


class LogSigmoid(Activation):
    def call(self, x): return logsigmoid(x)


class Softsign(Activation):
    def call(self, x): return softsign(x)


class Hardswish(Activation):
    def call(self, x): return hardswish(x)


class Hardsigmoid(Activation):
    def call(self, x): return hardsigmoid(x)


class LeakyReLU(Activation):
    def call(self, x, negative_slope=0.01): return leaky_relu(x, negative_slope)


class ELU(Activation):
    def call(self, x, alpha=1.0): return elu(x, alpha)


class CELU(Activation):
    def call(self, x, alpha=1.0): return celu(x, alpha)


class SELU(Activation):
    def call(self, x): return selu(x)


class Softplus(Activation):
    def call(self, x, beta=1, threshold=20): return softplus(x, beta, threshold)


class Hardtanh(Activation):
    def call(self, x, min_val=-1.0, max_val=1.0): return hardtanh(x, min_val, max_val)


class Hardshrink(Activation):
    def call(self, x, lambd=0.5): return hardshrink(x, lambd)


class Softshrink(Activation):
    def call(self, x, lambd=0.5): return softshrink(x, lambd)


class Threshold(Activation):
    def call(self, x, threshold, value): return prim.where(x > threshold, x, value).to(x.dtype)


class Softmax(Activation):
    def call(self, x, dim=-1): return softmax(x, dim)


class LogSoftmax(Activation):
    def call(self, x, dim=-1): return log_softmax(x, dim)


class Softmin(Activation):
    def call(self, x, dim=-1): return softmax(-x, dim)


class PReLU(Module):
    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None): self.weight = prim.parameter([num_parameters], or_float(dtype))
    def forward(self, x): return prelu(x, self.weight)


class GLU(Activation):
    def call(self, x, dim=-1): return glu(x, dim)


def glu(x, dim=-1):
    a, b = chunk(x, 2, dim)
    return a * sigmoid(b)


class Tanhshrink(Activation):
    def call(self, x): return tanhshrink(x)


class RReLU(Module):
    def __init__(self, lower=0.125, upper=1 / 3, inplace=False): self.lower, self.upper = lower, upper
    def forward(self, x): return rrelu(x, self.lower, self.upper, self.training)


class Softmax2d(Activation):
    def call(self, x): return softmax(x, -3)
