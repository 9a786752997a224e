# Few rows of a length that no number divides well are cut, too: the last part is filled up with what changes nothing.
# Places of extreme values come from the parts' places; all that is reduced of a row comes in one pass.
# args: x=randn:f32[3,131101] y=randn:f32[65537,3] z=randn:f32[401,349]
import torch


def forward(x, y, z):
    most, place = x.max(1)
    return (x.sum(1), most, place, y.argmin(0), y.amin(0), torch.logsumexp(x, 1), torch.softmax(x, 1), torch.var_mean(x + 100, 1), (y * 0.001 + 1).prod(0),
            z / z.norm(), z.var(), (z > 3).any(), x.argmax())
