"""What programs take from Triton's compiled library that is not its compiler: cuBLAS, by way of PyTorch."""


class _CublasLt:
    def __init__(self, workspace):
        self.workspace = workspace

    def matmul(self, a, b, c):
        """c = a times the transpose of b; rows of both lie along k."""
        import torch
        if a.dtype.itemsize > 1:
            torch.matmul(a, b.T, out=c)
            return
        one = torch.ones((), device=a.device)
        torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=c.dtype, out=c)


class nvidia:
    class cublas:
        CublasLt = _CublasLt


def __getattr__(name):
    raise AttributeError(f"triton._C.libtriton.{name} is a part of Triton's compiler; Nereid has its own")
