# args: x=randn:f32[4]
# error: recursion.py:7:5: error: calls nest more than 200 deep


def f(x):
    # without an end
    return f(x + 1)
