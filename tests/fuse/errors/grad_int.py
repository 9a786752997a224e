# args: x=randint(0,2):i64[4]
# error: grad_int.py:6:5: error: only tensors of floats have gradients, and not a tensor i64[4]


def f(x):
    x.requires_grad_()
    return x
