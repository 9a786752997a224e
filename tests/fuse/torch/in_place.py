# Tensors that are written in place, through views of every kind: who shares memory sees it, and who does not does not.
import torch


# x f64[3,3], y f64[2,4,5]
def elements_of_diagonals(x, y):
    d = x.diagonal()
    d[0] = 5.0
    d[None][0, 1:].mul_(2)
    y.diagonal(0, 1, 2)[1, 2] += 7.0
    return d, x.diagonal().sum()


# x f64[4,6]; grad
def add_to_column(x):
    x = x * 1
    x[:, 0] += 1
    return x


# x f64[4,6]; grad
def views_of_a_product(x):
    y = x * 2
    z = y.view(-1)
    z.add_(1)
    y[1] *= 3
    return y, z


# x f64[4,6]; grad
def masks(x):
    x = x + 0
    x[x > 0] = 0
    x[1, x[1] < -0.5] = 7.0
    return x


# x f64[4,6]; grad
def transposed_and_sliced(x):
    y = x.clone()
    w = y.t()
    w[0] = 5
    v = y[1:, ::2]
    v -= 1
    return y, w, v


# x f64[4,6]; grad
def into_zeros(x):
    y = torch.zeros(4, 6, dtype=x.dtype)
    y[:, :6] = x
    q = torch.zeros(24, dtype=x.dtype).view(4, 6)
    b = q[2]
    b.copy_(x[0])
    return y, q, b


# x f64[4,6]; grad
def diagonals(x):
    y = x.clone()
    y.diagonal().fill_(9)
    d = y.diagonal(1)
    d += 2
    return y, d


# x f64[4,6]; grad
def copies_are_apart(x):
    y = x.clone()
    y.t().reshape(-1)[0] = 100
    y.t().contiguous().add_(1)
    y.flatten()[3] = 4
    y.unsqueeze(0).squeeze().mul_(2)
    return y


# error clone() it first
# x f64[4,6]
def expanded(x):
    y = x[:, :1].expand(4, 6)
    y += 1
    return y


# x f64[4,6]
def an_inputs_column(x):
    x[:, 0] /= 2
    return x + 1


# x f64[4,6]; grad
def by_index(x):
    y = x.clone()
    idx = torch.tensor([0, 2])
    y[idx] = 1.5
    y[idx, 1] += 4
    y[:, idx] *= 2
    return y


# x f64[4,6]; grad
def row_by_row(x):
    y = x.clone()
    for i in range(1, 4):
        y[i] = y[i - 1] * 0.5 + y[i]
    return y


# x f64[4,6]
def chunks(x):
    y = x.clone()
    a, b = y.chunk(2, dim=1)
    a.relu_()
    b.sub_(a)
    y[..., -1] = y[..., 0]
    return y, a, b


# x f64[4,6]; grad
def methods_on_views(x):
    y = x.clone()
    y[1:3, 1:4].masked_fill_(y[1:3, 1:4] > 0, -1)
    y[0].zero_()
    y.index_put_((torch.tensor([1, 2]), torch.tensor([3, 4])), torch.tensor([7.0, 8.0], dtype=x.dtype))
    y[:, None, 2] = 3
    return y


# x f64[4,6]; grad
def names_of_one_tensor(x):
    y = x.clone()
    z = y
    z += 1
    y = y * 2
    z.mul_(3)
    return y, z


# x f64[4,6]; grad
def masked_updates(x):
    y = x.clone()
    y[y > 0] += 1
    y[y < 0] = -2.0
    return y


# x f64[4,6]; grad
def windows(x):
    y = x.clone()
    y.unfold(1, 2, 2).mul_(2)
    return y


# error clone() it first
# x f64[4,6]
def overlapping_windows(x):
    y = x.clone()
    y.unfold(1, 3, 1).mul_(2)
    return y


# x f64[4,6]; grad
def exchanged(x):
    y = x.clone()
    y[[0, 1]] = y[[1, 0]]
    y[2], y[3] = y[3].clone(), y[2].clone()
    return y


# error depends on data
# x f64[4,6]
def as_many_as_the_mask_takes(x):
    y = x.clone()
    y[x > 0] = x
    return y


# x f64[4,6]; grad
def seen_otherwise(x):
    y = x.clone()
    y.transpose_(0, 1)
    y[0] = 3
    y.unsqueeze_(0)
    return y


# x f64[4,6]; grad
def two_targets(x):
    y = x.clone()
    y[:, ::2], y[:, 1::2] = y[:, 1::2] * 2, y[:, ::2] * 3
    return y


# x f64[4,6]; grad
def inplace_modules(x):
    y = torch.relu(x)
    m = torch.nn.ReLU(inplace=True)
    z = x - 1
    w = m(z)
    return y, z, w


# x f64[4,6]
def strides(x):
    y = x.clone()
    y.as_strided((3,), (7,)).fill_(1)
    return y, y.stride(), y.t().is_contiguous()


# x f64[4,6]
def filled_rows(x):
    out = torch.empty_like(x)
    for i in range(4):
        out[i].copy_(x[i].cumsum(0))
    return out


# x f64[4,6]
def integers(x):
    y = x.clone().to(torch.int64)
    y[0] = 2.7
    y[1, 2:4] += 1
    y[:, 0] = True
    return y


# x f64[4,6]; grad
def broadcast_values(x):
    y = x.clone()
    y[0] = y[0].sum()
    y[1:] = torch.ones(1, 3, 6, dtype=x.dtype) * 2
    return y


# x f64[4,6]
def an_input_through_views(x):
    x.unsqueeze(0)[:, 1].add_(1)
    x.t()[2].zero_()
    return x, x.sum()


# x f64[4,6]
def data_and_detach(x):
    y = x * 2
    y.data.mul_(3)
    y.detach()[0] = 1
    with torch.no_grad():
        y[1] += 1
    return y * y


# x f64[4,6], m i1[4]; grad
def rows_of_a_mask(x, m):
    y = x * 2
    y[m] = y[0] * 3
    y[m, 1] += 2
    y[:, 3:][m] = 5  # of a copy
    return y


# x f64[3,4,6]; grad
def steps(x):
    h = torch.zeros(4, 6, dtype=x.dtype)
    out = torch.empty_like(x)
    for t in range(x.shape[0]):
        h = torch.tanh(x[t] + h)
        out[t] = h
    return out, h


# x f64[4,6]
def parameters_views(x):
    p = x.clone().requires_grad_()
    (p * p).sum().backward()
    with torch.no_grad():
        p[0] -= p.grad[0]
        p.view(-1)[7] = 3
    p.grad[1].zero_()
    return p, p.grad, (p * 2).detach()


# error a tensor that requires a gradient
# x f64[4,6]
def a_leafs_view(x):
    p = x.clone().requires_grad_()
    p[0] += 1
    return p


# x f64[2,3,4]; grad
def strides_of_a_reshape(x):
    y = x.clone()
    a = y.permute(0, 2, 1)
    a.reshape(2, 12)[0] = 1
    y[:, 1:].reshape(2, 8)[0, 0] = 50
    y[:1].permute(1, 0, 2).reshape(3, 4)[2] = 7
    y[:, :, ::2].view(2, 3, 1, 2)[..., 0] *= 2
    return y, a
