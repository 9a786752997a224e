# args: x=randn:f32[4]
# error: several.py has several functions: name one after a colon
# error: several.py has first, second


def first(x):
    return x + 1


def second(x):
    return x + 2
