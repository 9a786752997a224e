# Fourier transforms by matrix products: of one factor, of two, of three, a prime, and back. Roots of unity are tables that
# are stored once, in one kernel for all; a transform of two factors is two products.
# args: x=randn:f32[3,4,60] y=randn:f32[2,1024] z=randn:c64[2,37] w=randn:f32[2,139]
import torch


def forward(x, y, z, w):
    back = torch.fft.irfft(torch.fft.rfft(y), n=1024)
    return torch.fft.fft2(x).real, torch.fft.rfft(x, dim=-2, norm="ortho"), back, torch.fft.ifft(z), torch.fft.rfft(w)


def complex_result(z):
    return torch.fft.fft(z)


def real_result(z):
    return torch.fft.irfft(z)
