# args: x=randn:f32[4]
# error: grad_leaf.py:7:5: error: '-=' on a tensor that requires a gradient: it stands in `with torch.no_grad():`


def f(x):
    x.requires_grad_()
    x -= 1
    return x
