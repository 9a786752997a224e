# Numbers and shapes at the edges; what is refused, at the user's line.
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[3,6]
def nan_and_infinities(x):
    y = torch.where(x > 0.5, float("inf"), torch.where(x < -0.6, float("nan"), x))
    z = torch.where(x > 0.2, float("-inf"), x)
    return y.max(1), y.amax(0), torch.softmax(y, 1), torch.softmax(z, 1), torch.log_softmax(z, 0), y.argmax(1), torch.maximum(y, x), torch.fmax(y, x), y.sum(), z.min(), torch.logsumexp(z, 1), torch.nan_to_num(y), y.clamp(-0.1, 0.1)


# x f64[2,4]
def rows_of_minus_infinity(x):
    y = torch.full_like(x, float("-inf"))
    return torch.softmax(y, 1), torch.logsumexp(y, 1), y.max(), torch.softmax(torch.full_like(x, float("inf")), 0)


# x f16[8]
def half_overflow(x):
    y = x * 256
    return y * 256, y * y, (y * y).sum(), y.sum() + y.to(torch.float32).sum(), (y * 3).exp()


# n i32[3,5]<9, u u8[3,5]<250, b i1[3,5]
def integer_reductions(n, u, b):
    return n.sum(), n.sum(1), n.prod(0), u.sum(0), u.max(1), b.sum(), b.any(1), b.all(0), n.amin(1), b.cumsum(1), n.cumsum(0), u.cumsum(0), (u + u).to(torch.int64), n // 3 - n % 4, -n // 4, b.prod(1), n.argmin(1)


# x f64[0,4], y f64[3,0]
def no_elements(x, y):
    return x.sum(0), x.sum(), y.sum(1), x + 1, y.prod(1), torch.cat([x, x]), x @ torch.ones(4, 2, dtype=x.dtype), y.t() * 2, x.mean(0), torch.softmax(y, 1), x.reshape(2, 0), y @ torch.ones(0, 2, dtype=x.dtype), x.max(1)[0], x.any(), y.all()


# x f64[], n i64[]<9; grad
def scalars(x, n):
    return x * 2, x.sum(0), x.softmax(0), x.max(dim=0)[0], x.unsqueeze(0), x.reshape(1, 1), x.expand(2, 3), x.cumsum(0), x.mean(), torch.stack([x, x]), x + n


# x f64[2,1,3,2,1,2,3]; grad
def seven_dims(x):
    return x.sum((0, 3, 5)), x.permute(6, 5, 4, 3, 2, 1, 0) * 2, x.softmax(-1), x.flip(0, 6), x.expand(2, 2, 3, 2, 2, 2, 3).mean((1, 4)), x[1, :, 1:, ..., ::2], x.reshape(4, 9, 2).transpose(0, 1).max(2)[0]


# x f64[3,1,4]; grad
def expanded_and_overlapping(x):
    y = x.expand(3, 5, 4)
    w = x.reshape(-1).unfold(0, 4, 2)
    return y.sum(1), y @ y.transpose(1, 2), w * 2, w.softmax(1), torch.as_strided(x, (4, 3), (2, 1)) + 1, torch.as_strided(x, (2, 2), (1, 0), 3), y.reshape(15, 4).cumsum(0)


# x f64[8], n i64[5]; grad
def inverse_hyperbolic(x, n):
    y = torch.cat([x[:2] * 0, x[2:6] * 3, x[6:] * 1e200])
    return torch.asinh(y), torch.asinh(n), torch.acosh(y.abs() + 1.5), torch.acosh(n + 1), torch.atanh(y.clamp(-0.5, 0.5)), torch.asinh(y.float() * 1e30)


# x f64[], y f32[], u u8[3]<9, m f32[3]
def three_operands(x, y, u, m):
    return torch.addcdiv(x, y, u * u + 1), torch.addcmul(x, y, u), torch.clamp(m, x, y), torch.clamp(u, y, x), torch.addcmul(m, x, y, value=3)


# x f64[4,3]
def numbers_of_numpy_and_math(x):
    return x * np.log2(8) + np.sqrt(2) * np.power(2, 3) + np.arctan(1.0), x * math.hypot(3, 4) + math.trunc(-2.7) + math.ceil(2.1) // 2, x + np.floor(2.5) / 2 + np.prod(x.shape), x / np.absolute(-3) + math.log(8, 2) + math.acosh(1.5)


# x f64[3,4], w f64[2,4]
def names_of_parameters(x, w):
    return F.linear(input=x, weight=w), torch.mul(input=x, other=2), torch.softmax(input=x, dim=1), torch.matmul(input=x, other=w.t()), torch.where(condition=x > 0, input=x, other=x * 2), torch.clamp(input=x, min=0.1), torch.clone(input=x)


# error math.sqrt: -3 is not in its domain
# x f64[4]
def no_root(x):
    return x * math.sqrt(-3)


# error did you mean softmax?
# x f64[4]
def misspelt(x):
    return torch.sofmax(x, 0)


# error has no attribute 'cumsumm'
# x f64[4]
def misspelt_method(x):
    return x.cumsumm(0)


# error depends on data
# x f64[4]
def nonzeros(x):
    return x.nonzero()


# error depends on data
# x f64[4]
def taken_by_a_mask(x):
    return x[x > 0].sum()


# error may not depend on data
# x f64[4]
def a_condition(x):
    if x.sum() > 0:
        return x
    return -x


# error may not depend on data
# x f64[4]
def an_item(x):
    return x * x.sum().item()


# error of no elements
# x f64[0,4]
def largest_of_nothing(x):
    return x.max(0)[0]


# error depends on data
# n i64[4]<3
def one_hot_of_data(n):
    return F.one_hot(n)


# error there is no dim 2
# x f64[3,4]
def dims_that_are_not_there(x):
    return x.sum(2)


# error do not broadcast
# x f64[3,4], y f64[3]
def shapes_that_differ(x, y):
    return x + y


# error a product takes
# x f64[3,4], y f64[3,4]
def products_that_differ(x, y):
    return x @ y


# error nest more than
# x f64[4]
def recursion(x):
    return recursion(x)


# error a size does not fit in 63 bits
# x f64[4]
def too_large(x):
    return torch.zeros(2 ** 40, 2 ** 40).sum() + x


# error without replacement draws at most as many
# x f64+[2,3]
def drawn_too_often(x):
    return torch.multinomial(x, 4)


# error takes mode='sum'
# w f64[4,3], n i64[2,4]<4
def weighted_mean_of_bags(w, n):
    return torch.nn.functional.embedding_bag(n, w, per_sample_weights=w[:2, :1].expand(2, 4))
