# args: x=randn:f32[4]
# error: grad_shape.py:7:5: error: backward() of a tensor f32[4]: of more than one element, it needs their gradients


def f(x):
    x.requires_grad_()
    (x * 2).backward()
    return x.grad
