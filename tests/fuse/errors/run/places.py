# Places that are not among a dim's.
import torch
import torch.nn.functional as F


# runs: embedding i=randint(5,9):i64[6] w=randn:f32[7,5]
def embedding(i, w):
    return F.embedding(i, w) * 2


# runs: embedding_below i=randint(-1,0):i64[6] w=randn:f32[7,5]
def embedding_below(i, w):
    return F.embedding(i, w) * 2


# runs: gather i=randint(3,6):i64[7,3] x=randn:f32[7,5]
def gather(i, x):
    return torch.gather(x, 1, i) + 1


# runs: scatter i=randint(5,9):i64[6,5] x=randn:f32[7,5] s=randn:f32[6,5]
def scatter(i, x, s):
    return torch.scatter(x, 0, i, s)


# runs: scatter_add i=randint(-3,3):i64[6,5] x=randn:f32[7,5] s=randn:f32[6,5]
def scatter_add(i, x, s):
    return x.scatter_add(0, i, s)


# runs: two_dims i=randint(0,2):i64[9] k=randint(3,6):i64[9] x=randn:f32[7,5]
def two_dims(i, k, x):
    return x[i, k] * 2


# runs: one_element i=randint(0,3):i64[9] x=randn:f32[1,5]
def one_element(i, x):
    return x[i] * 2


# runs: loss i=randint(0,9):i64[9] x=randn:f32[9,5]
def loss(i, x):
    return F.cross_entropy(x, i)


# runs: index_add_below i=randint(-1,0):i64[3] x=randn:f32[7,5] s=randn:f32[3,5]
def index_add_below(i, x, s):
    return x.index_add(0, i, s)


# runs: index_copy_below i=randint(-1,0):i64[3] x=randn:f32[7,5] s=randn:f32[3,5]
def index_copy_below(i, x, s):
    return x.index_copy(0, i, s)


# runs: reduce_sum i=randint(5,9):i64[3,5] x=randn:f32[5,5] s=randn:f32[3,5]
def reduce_sum(i, x, s):
    return x.scatter_reduce(0, i, s, "sum")


# runs: reduce_most i=randint(5,9):i64[3,5] x=randn:f32[5,5] s=randn:f32[3,5]
def reduce_most(i, x, s):
    return x.scatter_reduce(0, i, s, "amax")


# runs: reduce_product i=randint(-2,0):i64[3,5] x=randn:f32[5,5] s=randn:f32[3,5]
def reduce_product(i, x, s):
    return x.scatter_reduce(0, i, s, "prod", include_self=False)
