# args: value=randn:f32[4] --grad vale
# error: error: a gradient by vale, which is no input
# error: hint: did you mean value?


def f(value):
    return value
