# args: x=randn:f32[4]
# error: stale.py:9:5: error: a view of a tensor that has been written in place since; take it anew


def f(x):
    y = x * 2
    z = y.view(2, 2)
    y += 1
    return z + 1
