# Modules that learn from their first input how many channels there are.

class LazyLinear(Linear):
    def __init__(self, out_features, bias=True, device=None, dtype=None): self.pending = [out_features, bias, device, dtype]

    def forward(self, x):
        if self.pending is not None:
            pending, self.pending = self.pending, None
            super().__init__(x.shape[-1], *pending)
        return super().forward(x)


def lazily(module, cls, x, dims):
    pending, how, module.pending = module.pending, module.pending_how, None
    if pending is not None:
        cls.__init__(module, x.shape[-1 - dims], *pending, **how)
    return cls.forward(module, x)


class LazyConv1d(Conv1d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, Conv1d, x, 1)


class LazyConvTranspose1d(ConvTranspose1d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, ConvTranspose1d, x, 1)


class LazyConv2d(Conv2d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, Conv2d, x, 2)


class LazyConvTranspose2d(ConvTranspose2d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, ConvTranspose2d, x, 2)


class LazyConv3d(Conv3d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, Conv3d, x, 3)


class LazyConvTranspose3d(ConvTranspose3d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, ConvTranspose3d, x, 3)


class LazyBatchNorm1d(BatchNorm1d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, BatchNorm1d, x, x.ndim - 2)


class LazyInstanceNorm1d(InstanceNorm1d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, InstanceNorm1d, x, x.ndim - 2)


class LazyBatchNorm2d(BatchNorm2d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, BatchNorm2d, x, x.ndim - 2)


class LazyInstanceNorm2d(InstanceNorm2d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, InstanceNorm2d, x, x.ndim - 2)


class LazyBatchNorm3d(BatchNorm3d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, BatchNorm3d, x, x.ndim - 2)


class LazyInstanceNorm3d(InstanceNorm3d):
    def __init__(self, *args, **how): self.pending, self.pending_how = args, how
    def forward(self, x): return lazily(self, InstanceNorm3d, x, x.ndim - 2)
