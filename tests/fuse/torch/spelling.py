# Arguments by the names that PyTorch's signatures have, out=, and Python's own functions.
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[6,6], y f64[6,6]; grad
def keywords(x, y):
    return (torch.add(input=x, other=y, alpha=2), torch.pow(input=x, exponent=2), torch.matmul(input=x, other=y), torch.addmm(input=x, mat1=x, mat2=y, beta=0.5),
            torch.addcmul(input=x, tensor1=x, tensor2=y, value=2), torch.bmm(input=x[None], mat2=y[None]), torch.reshape(input=x, shape=(4, 9)), torch.permute(input=x, dims=(1, 0)),
            torch.flip(input=x, dims=(0,)), torch.tile(input=x, dims=(2, 1)), torch.split(x, split_size_or_sections=2, dim=1)[1], torch.swapaxes(input=x, axis0=0, axis1=1),
            torch.where(condition=x > 0, input=x, other=y), torch.tensordot(a=x, b=y, dims=1), torch.outer(input=x[0], vec2=y[0]), torch.baddbmm(x[None], batch1=x[None], batch2=y[None]),
            F.layer_norm(input=x, normalized_shape=(6,)), F.group_norm(input=x, num_groups=2), F.mse_loss(input=x, target=y), F.huber_loss(input=x, target=y, delta=0.3, weight=y * y),
            F.scaled_dot_product_attention(query=x[None], key=y[None], value=x[None]), torch.cdist(x1=x, x2=y), F.pairwise_distance(x1=x, x2=y), torch.round(x * 100, decimals=1))


# x f64[2,4,7], w f64[6,2,3], b f64[6], v f64[4,3,2]
def keywords_of_convolutions(x, w, b, v):
    return F.conv1d(input=x, weight=w, bias=b, groups=2), F.conv_transpose1d(input=x, weight=v, stride=2), F.conv1d(x[0], w, groups=2), F.conv_transpose1d(x[0], v), torch.bilinear(input1=x[0], input2=x[1], weight=w.reshape(4, 9, 1)[:, :7] * x[0, 0])


# x f64[3,4]
def keywords_of_sizes(x):
    return x.view(size=(4, 3)), x.expand(size=(2, 3, 4)), x.repeat(repeats=(1, 2)), torch.full(size=(2,), fill_value=1.5), torch.zeros(size=(2, 3)), x.new_full(size=(2,), fill_value=3.0), torch.rand_like(x, dtype=torch.float32) * 0, torch.tril_indices(3, 3, dtype=torch.int32), torch.tensor_split(x, indices=(1,), dim=1)[1]


# x f64[5,3], y f64[5,3]; grad
def keywords_of_losses(x, y):
    return nn.MSELoss()(input=x, target=y), nn.HuberLoss(delta=0.3)(x, target=y), nn.TripletMarginLoss(1.0, 2)(anchor=x, positive=y, negative=x.flip(0)), nn.MarginRankingLoss(margin=0.1)(input1=x, input2=y, target=torch.sign(y)), nn.CosineSimilarity()(x1=x, x2=y)


# x f64[3,4], y f64[3,4]
def outs(x, y):
    o, p, q = torch.empty_like(x), torch.empty(3, 3, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    torch.add(x, y, alpha=2, out=o)
    torch.mm(x, y.t(), out=p)
    r = torch.sum(x, 1, out=q)
    v, i = torch.empty(3, dtype=torch.float64), torch.empty(3, dtype=torch.int64)
    torch.max(x, dim=1, out=(v, i))
    z = torch.zeros(2, 3, 4, dtype=torch.float64)
    torch.exp(x, out=z[1])
    return o, p, q, r, v, i, z, torch.Tensor.add(x, y)


# x f64[3,4]
def out_is_written(x):
    torch.mul(x, 2, out=x)
    return x + 1


# error out= has another shape than the result
def out_of_another_shape():
    return torch.add(torch.zeros(3), 1, out=torch.zeros(2, 3))


# error has no parameter 'dtyp'
def unknown_keyword():
    return torch.zeros(3, dtyp=torch.float64)


# error next of an iterator that has nothing left
def next_of_nothing():
    return torch.zeros(next(iter([])))


# x f64[3,4]
def functions_of_python(x):
    it = iter([1, 2])
    a, b = divmod(7, 2)
    return x * next(it) + next(it), x * next(it, 5), x * a + b, pow(x, 2), x * (x.dtype.is_floating_point and x.device.type == "cpu"), x * hasattr(x, "shape"), x * (x.nbytes // x.itemsize), x * (x.nelement() + x.ndimension()), x.__add__(2).__mul__(x)


# x f32[3,4], lin.weight f32[4,4], lin.bias f32[4], names.a f32[4]; grad
# tolerance 1e-5
class Hooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.names = nn.Linear(4, 4), nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})
        self.lin.register_forward_pre_hook(lambda m, x: (x[0] * 2,))
        self.lin.register_forward_hook(lambda m, x, y: y + x[0])
        self.twice = lambda x: x * 2
        self.forward = self.other

    def forward(self, x):
        return x

    def other(self, x):
        return self.lin(x) * (self.names.a if hasattr(self.names, "a") else 3) * next(self.parameters()).sum() + self.twice(x)
