# torch.fft: lengths with factors, primes, of one; norms, sizes, dims; layers made of them.
import torch
import torch.nn as nn
import torch.nn.functional as F


# x f64[2,12], z c128[2,12]; grad
def one_dim(x, z):
    return torch.fft.fft(x), torch.fft.fft(z), torch.fft.ifft(z), torch.fft.rfft(x), torch.fft.irfft(z), torch.fft.irfft(z, 21), torch.fft.hfft(z), torch.fft.ihfft(x), torch.fft.ifft(x), torch.fft.rfft(x, 7)


# x f64[2,90], z c128[2,66]; grad
def cut(x, z):
    return torch.fft.rfft(x), torch.fft.fft(x), torch.fft.fft(z), torch.fft.ifft(z), torch.fft.irfft(z), torch.fft.irfft(z, 129)


# x f64[1040]; grad
def cut_twice(x):
    y = torch.fft.rfft(x)
    return y, torch.fft.irfft(y * y.conj()), torch.fft.fft(y)


# x f64[2,131], z c128[2,137]; grad
def primes(x, z):
    return torch.fft.rfft(x), torch.fft.fft(z), torch.fft.ifft(z), torch.fft.irfft(z, 139), torch.fft.fft(z[:, :37]), torch.fft.irfft(z[:, :30], 59), torch.fft.fft(z[:, :134])


# x f64[3,4,6], z c128[3,4,6]; grad
def norms(x, z):
    return [f(v, norm=n) for n in (None, "backward", "ortho", "forward") for f, v in ((torch.fft.fft, z), (torch.fft.ifft, z), (torch.fft.rfft, x), (torch.fft.irfft, z))] + [torch.fft.fft2(z, norm="ortho"), torch.fft.irfft2(z, norm="forward")]


# x f64[3,4,6], z c128[3,4,6]; grad
def dims(x, z):
    return torch.fft.fft(z, dim=0), torch.fft.rfft(x, n=8, dim=1), torch.fft.irfft(z, dim=-2), torch.fft.fft(x, n=3, dim=-2), torch.fft.fft2(x), torch.fft.ifft2(z), torch.fft.rfft2(x), torch.fft.irfft2(z), torch.fft.irfft2(z, s=(5, 7)), torch.fft.fft2(z, dim=(0, 1)), torch.fft.rfft2(x, s=(3, 8), dim=(2, 0)), torch.fft.fftn(x), torch.fft.ifftn(z), torch.fft.fftn(z, s=(2, 5)), torch.fft.rfftn(x), torch.fft.irfftn(z), torch.fft.rfftn(x, dim=(1, 2)), torch.fft.fftn(z, dim=(2,))


# z c128[1,2], x f64[2,1], n i64[5]; grad
def short(z, x, n):
    return torch.fft.fft(z), torch.fft.irfft(z), torch.fft.irfft(z, 1), torch.fft.rfft(x), torch.fft.fft(x), torch.fft.fft(z[:, 0]), torch.fft.ifft2(z), torch.fft.irfft(z[:, :1], n=1)


# n i64[5]
# tolerance 1e-6
def of_integers(n):
    return torch.fft.fft(n), torch.fft.rfft(n)


# x f64[4,5]
def orders(x):
    return torch.fft.fftshift(x), torch.fft.ifftshift(x), torch.fft.fftshift(x, dim=1), torch.fft.ifftshift(x, dim=(0,)), torch.fft.fftfreq(6, dtype=x.dtype), torch.fft.fftfreq(7, 0.5, dtype=x.dtype), torch.fft.rfftfreq(6, d=2.0, dtype=x.dtype), torch.fft.rfftfreq(7, dtype=x.dtype), torch.fft.fftshift(torch.fft.fft2(x)).abs()


# x f64[2,6,10], w f64[10,10]; grad
def fnet(x, w):
    y = F.layer_norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real, (10,))
    return F.layer_norm(y + F.gelu(y @ w), (10,))


# x f64[2,3,8,12], weights1 c128[3,4,3,3], weights2 c128[3,4,3,3]; grad
class SpectralConv2d(nn.Module):
    def __init__(self, in_channels=3, out_channels=4, modes1=3, modes2=3):
        super().__init__()
        self.out_channels, self.modes1, self.modes2 = out_channels, modes1, modes2
        self.scale = 1 / (in_channels * out_channels)
        self.weights1 = nn.Parameter(self.scale * torch.rand(in_channels, out_channels, modes1, modes2, dtype=torch.cdouble))
        self.weights2 = nn.Parameter(self.scale * torch.rand(in_channels, out_channels, modes1, modes2, dtype=torch.cdouble))

    def compl_mul2d(self, input, weights):
        return torch.einsum("bixy,ioxy->boxy", input, weights)

    def forward(self, x):
        batchsize = x.shape[0]
        x_ft = torch.fft.rfft2(x)
        out_ft = torch.zeros(batchsize, self.out_channels, x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cdouble, device=x.device)
        out_ft[:, :, : self.modes1, : self.modes2] = self.compl_mul2d(x_ft[:, :, : self.modes1, : self.modes2], self.weights1)
        out_ft[:, :, -self.modes1 :, : self.modes2] = self.compl_mul2d(x_ft[:, :, -self.modes1 :, : self.modes2], self.weights2)
        return torch.fft.irfft2(out_ft, s=(x.size(-2), x.size(-1)))


# u f64[2,3,20], k f64[3,20]; grad
def long_convolution(u, k):
    n = 2 * u.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(u, n=n) * torch.fft.rfft(k, n=n), n=n)[..., : u.shape[-1]]


# x f64[4]
# error rfft and ihfft take real numbers
def half_of_complex(x):
    return torch.fft.rfft(torch.complex(x, x))


# x f64[4]
# error norm is both; it may be
def norm(x):
    return torch.fft.fft(x, norm="both")


# x f16[4]
# error a Fourier transform of torch.float16 is not supported
def halves(x):
    return torch.fft.fft(x)


# x f64[2,50], w f64+[16]; grad
def short_time(x, w):
    a = torch.stft(x, 16, window=w, return_complex=True)
    b = torch.stft(x[0], 16, hop_length=5, win_length=12, window=w[:12], center=False, normalized=True, onesided=False, return_complex=True)
    return [torch.view_as_real(a), torch.view_as_real(b), torch.istft(a, 16, window=w), torch.istft(a, 16, window=w, length=45)]
