# args: x=randn:f32[4]
# error: grad_none.py:6:5: error: a tensor f32[] does not depend on a tensor that requires a gradient


def f(x):
    x.sum().backward()
    return x
