# args: x=randn:f32[4,4]
# error: nearest.py:8:5: error: torch.nn.functional.gellu is not known
# error: did you mean gelu?
import torch.nn.functional as F


def f(x):
    y = F.gellu(x)
    return y
