"""Numbers of the OCP microscaling formats, as bytes of PyTorch: elements of 4 bits (E2M1) and scales of 8 (E8M0)."""
import math

import torch

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of E2M1, by the code's low three bits
_BIAS, _NAN = 127, 255                                  # of E8M0


class _Coded:
    """Codes in `data`: of the numbers that are given, or by random() of `size`."""

    def __init__(self, data=None, size=None, device=None):
        if data is None and size is None:
            raise ValueError("Either parameter data or size must be provided")
        if data is None:
            self.size, self.device = size if isinstance(size, tuple) else (size,), device
        else:
            assert isinstance(data, torch.Tensor), "Parameter data must be a torch tensor"
            self.device, self.data = data.device, self._encode(data.float())

    def _draw(self, low, high):
        self.data = torch.randint(low, high, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype):
        assert dtype is torch.float32, f"{type(self).__name__} converts to float32 alone"
        return self._decode()


class MXFP4Tensor(_Coded):
    """Numbers of E2M1, one in the low bits of each byte; to_packed_tensor puts two into one."""

    def random(self):
        return self._draw(0, 16)

    def _decode(self):
        table = torch.tensor([*_MAGNITUDES, *(-m for m in _MAGNITUDES)], device=self.data.device)
        return table[self.data.long()]

    @staticmethod
    def _encode(x):
        """To the nearest, ties to even; what is too large, infinite or no number, to the largest."""
        between = torch.tensor([(a + b) / 2 for a, b in zip(_MAGNITUDES, _MAGNITUDES[1:])], device=x.device)
        size = x.abs().nan_to_num(nan=math.inf)
        below, above = torch.bucketize(size, between), torch.bucketize(size, between, right=True)
        code = torch.where(below % 2 == 0, below, above)
        return (code + 8 * torch.signbit(x)).to(torch.uint8)

    def to_packed_tensor(self, dim):
        """Neighbours along `dim` in one byte, the first in its low half; a row of odd length ends in a zero."""
        assert 0 <= dim < self.data.ndim, f"there is no dimension {dim} to pack along"
        low, high = (self.data.narrow(dim, 0, self.data.shape[dim] // 2 * 2).unflatten(dim, (-1, 2)).unbind(dim + 1)
                     if self.data.shape[dim] > 1 else (self.data.narrow(dim, 0, 0),) * 2)
        packed = low | high << 4
        if self.data.shape[dim] % 2:
            packed = torch.cat([packed, self.data.narrow(dim, self.data.shape[dim] - 1, 1)], dim)
        return packed

    def unpack_packed_tensor(self, packed_tensor, dim, original_shape):
        halves = torch.stack([packed_tensor & 15, packed_tensor >> 4], dim + 1)
        return halves.flatten(dim, dim + 1).narrow(dim, 0, original_shape[dim])


class MXScaleTensor(_Coded):
    """Powers of two as E8M0 has them: 2 ** (code - 127), and 255 for what is no number."""

    def random(self, low=None, high=None):
        """Between the powers of two that `low` and `high` lie above."""
        least, most = ((math.frexp(float(v))[1] - 1 + _BIAS if v is not None else end)
                       for v, end in ((low, 0), (high, _NAN - 1)))
        least, most = max(least, 0), min(max(most, 0), _NAN - 1)
        assert least <= most, "Low must be less than or equal to high"
        return self._draw(least, most + 1)

    def _decode(self):
        power = torch.pow(2.0, self.data.float() - _BIAS)
        return power.masked_fill(self.data == _NAN, math.nan)

    @staticmethod
    def _encode(x):
        """The power of two at or below; what is not positive or not finite is no number."""
        code = (torch.frexp(x).exponent - 1 + _BIAS).clamp(0, _NAN - 1)
        return torch.where(torch.isfinite(x) & (x > 0), code, _NAN).to(torch.uint8)
